//! Length-prefixed frames in a byte stream.
//!
//! The transport may split and join bytes as it likes: the same bytes always give
//! the same frames. The deframer holds at most one unfinished frame and what came
//! in one read after it; a length over the cap is an error before anything is kept.

/// How a frame's length is written in front of it, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// Two bytes: sealed records, stream headers and control messages.
    U16,
    /// Four bytes: messages between processes of one machine.
    U32,
}

impl Prefix {
    const fn width(self) -> usize {
        match self {
            Prefix::U16 => 2,
            Prefix::U32 => 4,
        }
    }
}

/// Why a byte stream is not a row of frames. The peer is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame announces more bytes than its kind may have.
    #[error("a frame of {size} bytes is over the limit of {max}")]
    TooLarge {
        /// Bytes announced.
        size: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// No frame is empty.
    #[error("a frame is empty")]
    Empty,
}

/// Takes frames out of a byte stream, whatever way it was cut.
#[derive(Debug)]
pub struct Deframer {
    prefix: Prefix,
    max: usize,
    buffer: Vec<u8>,
    /// Where the next frame's prefix starts in `buffer`.
    start: usize,
}

impl Deframer {
    /// Makes a deframer for frames of 1 to `max` bytes.
    pub fn new(prefix: Prefix, max: usize) -> Self {
        Self {
            prefix,
            max,
            buffer: Vec::new(),
            start: 0,
        }
    }

    /// Adds bytes as they came. Call [`Self::next_frame`] until it has none before adding more.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame without its prefix, if all of it has come.
    ///
    /// # Errors
    /// A frame that is empty or over the cap. The stream cannot be read further:
    /// every later call gives the same error.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = &self.buffer[self.start..];
        let width = self.prefix.width();
        if rest.len() < width {
            return Ok(None);
        }
        let size = rest[..width]
            .iter()
            .fold(0usize, |size, &byte| size << 8 | usize::from(byte));
        if size == 0 {
            return Err(FrameError::Empty);
        }
        if size > self.max {
            return Err(FrameError::TooLarge {
                size,
                max: self.max,
            });
        }
        if rest.len() < width + size {
            return Ok(None);
        }
        let from = self.start + width;
        self.start = from + size;
        Ok(Some(&self.buffer[from..from + size]))
    }

    /// Bytes that came after the last whole frame.
    ///
    /// What follows a stream header belongs to whoever reads the stream next.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.buffer.drain(..self.start);
        self.buffer
    }

    /// Whether the stream may end here: no frame is half there.
    pub fn is_between_frames(&self) -> bool {
        self.start == self.buffer.len()
    }
}

/// Puts the length in front of a payload.
///
/// # Panics
/// When the payload is empty or longer than the prefix can say; callers hold the
/// caps of [`crate::limits`], which are far below.
pub fn frame(prefix: Prefix, payload: &[u8]) -> Vec<u8> {
    assert!(!payload.is_empty(), "frames are never empty");
    let mut bytes = Vec::with_capacity(prefix.width() + payload.len());
    match prefix {
        Prefix::U16 => {
            let size = u16::try_from(payload.len()).expect("the caps are below 64 KiB");
            bytes.extend(size.to_be_bytes());
        }
        Prefix::U32 => {
            let size = u32::try_from(payload.len()).expect("the caps are below 4 GiB");
            bytes.extend(size.to_be_bytes());
        }
    }
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_frames(
            frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..200), 0..20),
            cuts in proptest::collection::vec(0usize..4_000, 0..20),
            wide in any::<bool>(),
        ) {
            let prefix = if wide { Prefix::U32 } else { Prefix::U16 };
            let bytes: Vec<u8> = frames.iter().flat_map(|f| frame(prefix, f)).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());

            let mut deframer = Deframer::new(prefix, 200);
            let mut seen = Vec::new();
            let mut from = 0;
            for cut in cuts {
                deframer.extend(&bytes[from..cut]);
                from = cut;
                while let Some(f) = deframer.next_frame().unwrap() {
                    seen.push(f.to_vec());
                }
            }

            prop_assert_eq!(seen, frames);
            prop_assert!(deframer.is_between_frames());
        }
    }

    #[test]
    fn a_frame_over_the_cap_is_refused_before_its_bytes_come() {
        let mut deframer = Deframer::new(Prefix::U16, 100);

        deframer.extend(&[0, 101]);

        assert_eq!(
            deframer.next_frame(),
            Err(FrameError::TooLarge {
                size: 101,
                max: 100
            })
        );
        assert_eq!(
            deframer.next_frame(),
            Err(FrameError::TooLarge {
                size: 101,
                max: 100
            })
        );
    }

    #[test]
    fn an_empty_frame_is_refused() {
        let mut deframer = Deframer::new(Prefix::U32, 100);

        deframer.extend(&[0, 0, 0, 0]);

        assert_eq!(deframer.next_frame(), Err(FrameError::Empty));
    }

    #[test]
    fn bytes_after_a_header_are_handed_on() {
        let mut deframer = Deframer::new(Prefix::U16, 100);
        let mut bytes = frame(Prefix::U16, b"header");
        bytes.extend(b"rest");

        deframer.extend(&bytes);

        assert_eq!(deframer.next_frame().unwrap(), Some(&b"header"[..]));
        assert_eq!(deframer.into_rest(), b"rest");
    }
}

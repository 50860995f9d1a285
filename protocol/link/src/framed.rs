//! Frames on a stream: headers, control messages and sealed records.

use bytes::Bytes;
use wt_protocol::{Deframer, FrameError, Prefix, frame};

use crate::link::{RecvHalf, SendHalf, StreamEnd};

/// Bytes asked of the stream at once: a full sealed record and its prefix.
const READ_SIZE: usize = wt_protocol::limits::MAX_SEALED_RECORD + 2;

/// Why there is no next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadFrameError {
    /// The stream was reset or its link lost.
    #[error(transparent)]
    Stream(#[from] StreamEnd),
    /// The bytes are not frames of the expected size.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    CutShort,
}

/// Reads frames with a two-byte length in front of them.
#[derive(Debug)]
pub struct FrameReader {
    recv: RecvHalf,
    deframer: Deframer,
}

impl FrameReader {
    /// Reads frames of 1 to `max` bytes.
    pub fn new(recv: RecvHalf, max: usize) -> Self {
        Self {
            recv,
            deframer: Deframer::new(Prefix::U16, max),
        }
    }

    /// The next frame, without its length; none when the stream ended between frames.
    ///
    /// Cancel safe: what was read stays with the reader.
    ///
    /// # Errors
    /// The stream broke or is not made of frames. It cannot be read further.
    pub async fn read_frame(&mut self) -> Result<Option<Vec<u8>>, ReadFrameError> {
        loop {
            if let Some(frame) = self.deframer.next_frame()? {
                return Ok(Some(frame.to_vec()));
            }
            match self.recv.read_chunk(READ_SIZE).await? {
                Some(chunk) => self.deframer.extend(&chunk),
                None if self.deframer.is_between_frames() => return Ok(None),
                None => return Err(ReadFrameError::CutShort),
            }
        }
    }

    /// The stream, to stop it.
    pub fn recv_mut(&mut self) -> &mut RecvHalf {
        &mut self.recv
    }

    /// The stream and the bytes that had come after the last frame.
    pub fn into_parts(self) -> (RecvHalf, Vec<u8>) {
        (self.recv, self.deframer.into_rest())
    }
}

/// Writes one frame of 1 to 65,535 bytes. Not cancel safe.
///
/// # Errors
/// The reader stopped the stream, or the link is over.
pub async fn write_frame(send: &mut SendHalf, payload: &[u8]) -> Result<(), StreamEnd> {
    send.write_chunk(Bytes::from(frame(Prefix::U16, payload)))
        .await
}

//! How long a record's plaintext is made, so that its length says little.

use wt_protocol::limits::MAX_RECORD_PLAINTEXT;

/// Plaintext sizes of padded records, in bytes.
///
/// The least holds a keystroke and its acknowledgement, the largest is a full record.
/// Steps of four waste little of a record that is large enough to matter, and leave
/// a watcher five sizes to tell apart.
const BUCKETS: [usize; 5] = [64, 256, 1_024, 4_096, MAX_RECORD_PLAINTEXT];

/// How records are padded. Each sender decides for its own direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Padding {
    /// Not at all: every record shows the length of what it holds.
    Off,
    /// To the next of 64, 256, 1,024, 4,096 and 16,384 bytes.
    #[default]
    Buckets,
    /// As [`Padding::Buckets`], and with covers while somebody types: see [`crate::Cover`].
    Strict,
}

impl Padding {
    /// The plaintext size of a record that holds this many bytes, which are at most
    /// [`MAX_RECORD_PLAINTEXT`].
    pub fn padded(self, used: usize) -> usize {
        debug_assert!(
            used <= MAX_RECORD_PLAINTEXT,
            "records are cut before they are padded"
        );
        match self {
            Padding::Off => used,
            Padding::Buckets | Padding::Strict => BUCKETS
                .into_iter()
                .find(|&bucket| used <= bucket)
                .unwrap_or(MAX_RECORD_PLAINTEXT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_padded_to_the_next_bucket() {
        let padded = |used| Padding::Buckets.padded(used);

        assert_eq!(padded(0), 64);
        assert_eq!(padded(1), 64);
        for (at, next) in [(64, 256), (256, 1_024), (1_024, 4_096), (4_096, 16_384)] {
            assert_eq!(padded(at), at);
            assert_eq!(padded(at + 1), next);
        }
        assert_eq!(padded(16_384), 16_384);
    }

    #[test]
    fn without_padding_a_record_shows_its_length() {
        assert_eq!(Padding::Off.padded(1), 1);
        assert_eq!(Padding::Off.padded(16_384), 16_384);
    }

    #[test]
    fn five_sizes_are_all_that_a_watcher_sees() {
        let mut sizes: Vec<usize> = (0..=MAX_RECORD_PLAINTEXT)
            .map(|used| Padding::Buckets.padded(used))
            .collect();
        assert!((0..=MAX_RECORD_PLAINTEXT).all(|used| Padding::Strict.padded(used) == sizes[used]));
        sizes.dedup();

        assert_eq!(sizes, BUCKETS);
    }
}

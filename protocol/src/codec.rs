//! Postcard with caps: what is too large, cut short or followed by rubbish is an error.

use serde::{Deserialize, Serialize};

/// Why a value could not be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The encoding is larger than its kind may be.
    #[error("a message of {size} bytes is over the limit of {max}")]
    TooLarge {
        /// Bytes of the encoding.
        size: usize,
        /// Bytes that its kind may have.
        max: usize,
    },
    /// The value cannot be written in this format at all.
    #[error("the message cannot be encoded")]
    Unencodable,
}

/// Why bytes are not the message they should be. The peer is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are larger than their kind may be.
    #[error("a message is over its size limit")]
    TooLarge,
    /// The bytes end early, name an unknown variant or hold an invalid value.
    #[error("a message does not parse")]
    Malformed,
    /// Bytes follow the message.
    #[error("bytes follow the end of a message")]
    Trailing,
}

/// Encodes a value of at most `max` bytes.
///
/// # Errors
/// [`EncodeError::TooLarge`] when the encoding is longer than `max`.
pub fn encode<T: Serialize>(value: &T, max: usize) -> Result<Vec<u8>, EncodeError> {
    let bytes = postcard::to_allocvec(value).map_err(|_| EncodeError::Unencodable)?;
    if bytes.len() > max {
        return Err(EncodeError::TooLarge {
            size: bytes.len(),
            max,
        });
    }
    Ok(bytes)
}

/// Encodes a value into the front of a buffer and returns how many bytes it took.
///
/// # Errors
/// [`EncodeError::Unencodable`] when the buffer is too small.
pub fn encode_into<T: Serialize>(value: &T, buffer: &mut [u8]) -> Result<usize, EncodeError> {
    postcard::to_slice(value, buffer)
        .map(|used| used.len())
        .map_err(|_| EncodeError::Unencodable)
}

/// Decodes exactly one value from at most `max` bytes.
///
/// # Errors
/// Any byte that is missing, wrong or left over.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], max: usize) -> Result<T, DecodeError> {
    match decode_prefix(bytes, max)? {
        (value, []) => Ok(value),
        _ => Err(DecodeError::Trailing),
    }
}

/// Decodes one value that only zero bytes may follow: a padded record.
///
/// # Errors
/// As [`decode`]; padding other than zeros is [`DecodeError::Trailing`].
pub fn decode_padded<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    max: usize,
) -> Result<T, DecodeError> {
    let (value, rest) = decode_prefix(bytes, max)?;
    if rest.iter().any(|&b| b != 0) {
        return Err(DecodeError::Trailing);
    }
    Ok(value)
}

fn decode_prefix<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    max: usize,
) -> Result<(T, &'a [u8]), DecodeError> {
    if bytes.len() > max {
        return Err(DecodeError::TooLarge);
    }
    postcard::take_from_bytes(bytes).map_err(|_| DecodeError::Malformed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_message_over_its_cap_is_refused_on_both_sides() {
        let value = vec![1u8; 10];

        assert_eq!(
            encode(&value, 10),
            Err(EncodeError::TooLarge { size: 11, max: 10 })
        );
        let bytes = encode(&value, 11).unwrap();
        assert_eq!(decode::<Vec<u8>>(&bytes, 10), Err(DecodeError::TooLarge));
        assert_eq!(decode::<Vec<u8>>(&bytes, 11), Ok(value));
    }

    #[test]
    fn bytes_after_a_message_are_refused_unless_they_are_zero_padding() {
        let mut bytes = encode(&7u32, 8).unwrap();
        bytes.extend([0, 0]);

        assert_eq!(decode::<u32>(&bytes, 64), Err(DecodeError::Trailing));
        assert_eq!(decode_padded::<u32>(&bytes, 64), Ok(7));
        bytes.push(1);
        assert_eq!(decode_padded::<u32>(&bytes, 64), Err(DecodeError::Trailing));
    }

    #[test]
    fn a_length_that_claims_more_than_is_there_is_refused_without_allocating_it() {
        let claims_four_gigabytes = [0xff, 0xff, 0xff, 0xff, 0x0f];

        assert_eq!(
            decode::<Vec<u8>>(&claims_four_gigabytes, 64),
            Err(DecodeError::Malformed)
        );
    }
}

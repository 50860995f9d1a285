//! What the two list files have in common: a version, a cap, and stable bytes.
//!
//! A file that is not what it should be is an error and never an empty list.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the files that this build reads and writes.
pub(crate) const VERSION: u64 = 1;

/// Largest file that is read, in bytes: some 10,000 wings or clients.
pub(crate) const MAX_FILE: usize = 8 << 20;

/// Why a list file cannot be used at all. It is never reset because of this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A newer build wrote it.
    #[error("it has version {0}, and this program reads version {VERSION}")]
    Version(u64),
    /// It is not the JSON it should be.
    #[error("it does not parse: {0}")]
    Json(String),
    /// It is larger than any real one.
    #[error("it has {0} bytes, more than {MAX_FILE}")]
    TooLarge(usize),
}

/// Reads the version alone, so that a newer file is named as such.
#[derive(Deserialize)]
struct FileVersion {
    version: u64,
}

/// Reads a file's content, if it is of this build's version. An empty file does not parse.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FileError> {
    if bytes.len() > MAX_FILE {
        return Err(FileError::TooLarge(bytes.len()));
    }
    let json = |error: serde_json::Error| FileError::Json(error.to_string());
    let FileVersion { version } = serde_json::from_slice(bytes).map_err(json)?;
    if version != VERSION {
        return Err(FileError::Version(version));
    }
    serde_json::from_slice(bytes).map_err(json)
}

/// Writes a file: equal contents always give the same bytes.
pub(crate) fn to_json<T: Serialize>(file: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(file).expect("all keys are strings");
    bytes.push(b'\n');
    bytes
}

/// Whether a field has its default and need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_file_of_another_version_or_size_is_named_as_such() {
        let parse = parse::<Value>;

        assert!(parse(br#"{"version": 1}"#).is_ok());
        assert_eq!(
            parse(br#"{"version": 2, "else": {}}"#),
            Err(FileError::Version(2))
        );
        assert_eq!(
            parse(&vec![b' '; MAX_FILE + 1]),
            Err(FileError::TooLarge(MAX_FILE + 1))
        );
        for broken in [&b""[..], b"{}", b"{\"version\": 1", b"[]"] {
            assert!(matches!(parse(broken), Err(FileError::Json(_))));
        }
    }
}

//! Random values, digests and key files of the relay's own.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{ED25519, UnparsedPublicKey};
use wt_files::FileError;

/// Largest key file, in bytes. A PKCS#8 key of either curve needs under 200.
const MAX_KEY_FILE: u64 = 4096;

/// Bytes of a bearer secret (device code, cookie, sign-in link, local token): 256 bits.
pub(crate) const SECRET_LENGTH: usize = 32;

/// What is wrong with a key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It does not hold the key that it should. It is never replaced on its own.
    #[error(
        "{path} does not hold {what}: restore it from a backup, or move it away to start with a new one (every device then signs in again)"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
    },
}

/// Reads a key file, or makes it when there is none.
pub(crate) fn load_or_create(
    path: &Path,
    create: impl FnOnce() -> Vec<u8>,
) -> Result<Vec<u8>, KeyError> {
    if let Some(bytes) = wt_files::read_capped(path, MAX_KEY_FILE)? {
        return Ok(bytes);
    }
    let bytes = create();
    wt_files::write_whole(path, &bytes)?;
    Ok(bytes)
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes once it is up");
    bytes
}

/// A new bearer secret, safe in URLs and headers.
pub(crate) fn secret_text(random: [u8; SECRET_LENGTH]) -> String {
    URL_SAFE_NO_PAD.encode(random)
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes)
        .as_ref()
        .try_into()
        .expect("SHA-256 has 32 bytes")
}

/// Whether an Ed25519 signature holds.
pub(crate) fn ed25519_holds(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    UnparsedPublicKey::new(&ED25519, key)
        .verify(message, signature)
        .is_ok()
}

/// Compares two secrets through their digests, in constant time.
pub(crate) fn same_secret(given: &str, expected_digest: &[u8; 32]) -> bool {
    use subtle::ConstantTimeEq;
    sha256(given.as_bytes()).ct_eq(expected_digest).into()
}

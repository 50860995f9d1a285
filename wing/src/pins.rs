//! The pin file, under its lock: concurrent commands never lose a pin.

use std::time::{SystemTime, UNIX_EPOCH};

use wt_crypto::Pins;

use crate::error::Error;
use crate::profile::{Profile, damaged};

/// The file's name in the profile.
pub const FILE: &str = "known_wings.json";

/// Reads the pins; a missing file is none.
///
/// # Errors
/// A file that cannot be read or used: it is left as it is.
pub fn read(profile: &Profile) -> Result<Pins, Error> {
    match profile.read_state(FILE)? {
        None => Ok(Pins::default()),
        Some(bytes) => Pins::parse(&bytes).map_err(|e| damaged(&profile.file(FILE), &e)),
    }
}

/// Changes the pins and stores them, alone. Nothing is written when nothing changed or
/// when the change fails.
///
/// # Errors
/// As [`read`], what the system says about writing, or what the change says.
pub fn update<T>(
    profile: &Profile,
    change: impl FnOnce(&mut Pins) -> Result<T, Error>,
) -> Result<T, Error> {
    let _lock = profile.lock(FILE)?;
    let before = read(profile)?;
    let mut pins = before.clone();
    let result = change(&mut pins)?;
    if pins != before {
        profile.write_state(FILE, &pins.to_json())?;
    }
    Ok(result)
}

/// The time, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

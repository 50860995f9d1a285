//! The wing's own list of clients, under its lock.

use std::collections::BTreeMap;
use std::time::Duration;

use wt_crypto::{Admission, Entry, Role, Source};
use wt_protocol::keys::{ClientKey, DeviceKey};

use crate::error::{Error, ErrorCode};
use crate::pins::now_ms;
use crate::profile::{Profile, damaged};

/// The file's name in the profile.
pub const FILE: &str = "clients.json";

/// How long a command line is admitted.
const CLI_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Reads the list; a missing file is an empty one.
///
/// # Errors
/// A file that cannot be read or used: nobody is admitted by it, and it is left as it is.
pub fn read(profile: &Profile) -> Result<Admission, Error> {
    match profile.read_state(FILE)? {
        None => Ok(Admission::default()),
        Some(bytes) => Admission::parse(&bytes).map_err(|e| damaged(&profile.file(FILE), &e)),
    }
}

/// Puts a client on the list of this profile's wing, as somebody at this machine said.
///
/// # Errors
/// A list that cannot be read or written, or a key that was revoked or is none.
pub fn admit(
    profile: &Profile,
    client: ClientKey,
    device: Option<DeviceKey>,
    name: &str,
    role: Role,
) -> Result<Entry, Error> {
    let _lock = profile.lock(FILE)?;
    let mut list = read(profile)?;
    let now = now_ms();
    let entry = Entry {
        client,
        device,
        name: printable(name),
        source: Source::Local,
        role,
        paths: Vec::new(),
        added_at_ms: now,
        expires_at_ms: Some(now + CLI_LIFETIME.as_millis() as u64),
        hardware: false,
        unknown: BTreeMap::default().into_iter().collect(),
    };
    list.add(entry.clone()).map_err(|e| {
        Error::new(
            ErrorCode::Refused,
            format!("the client {client} cannot be admitted: {e}"),
        )
    })?;
    profile.write_state(FILE, &list.to_json())?;
    Ok(entry)
}

/// Puts this profile's own client on its own wing's list, if it is not there for long enough.
///
/// # Errors
/// As [`admit`].
pub fn admit_own(profile: &Profile) -> Result<(), Error> {
    let client = profile.client_secret()?.public();
    let soon = now_ms() + (CLI_LIFETIME / 2).as_millis() as u64;
    let is_there = read(profile)?
        .get(&client)
        .is_some_and(|entry| entry.expires_at_ms.is_none_or(|at| at > soon));
    if !is_there {
        let device = profile.device_secret()?.public();
        admit(profile, client, Some(device), "this profile", Role::Owner)?;
    }
    Ok(())
}

/// A name without control characters: it came from another machine and is shown in lists.
fn printable(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_control())
        .take(wt_protocol::limits::MAX_NAME)
        .collect()
}

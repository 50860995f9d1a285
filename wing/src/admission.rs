//! The wing's own list of clients, under its lock.

use wt_crypto::{Admission, CLI_LIFETIME_MS, Entry, Role, Waiting};
use wt_protocol::access::{Allow, Change, ClientKind, Terms};
use wt_protocol::keys::{ClientKey, DeviceKey};

use crate::error::{Error, ErrorCode};
use crate::pins::now_ms;
use crate::profile::{Profile, damaged};

/// The file's name in the profile.
pub const FILE: &str = "clients.json";

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
    let allow = Allow {
        client,
        device,
        name: name.to_owned(),
        kind: ClientKind::Cli,
        user: None,
        terms: Terms {
            role,
            paths: Vec::new(),
            expires_at_ms: None,
        },
        hardware: false,
    };
    list.apply(&Change::Allow(allow), &mut Waiting::default(), now_ms())
        .map_err(|e| {
            Error::new(
                ErrorCode::Refused,
                format!("the client {client} cannot be admitted: {e}"),
            )
        })?;
    let entry = list.get(&client).cloned();
    let entry = entry.expect("what was just allowed is on the list");
    profile.write_state(FILE, &list.to_json())?;
    Ok(entry)
}

/// Puts this profile's own client on its own wing's list, if it is not there for long enough.
///
/// # Errors
/// As [`admit`].
pub fn admit_own(profile: &Profile) -> Result<(), Error> {
    let client = profile.client_secret()?.public();
    let soon = now_ms() + CLI_LIFETIME_MS / 2;
    let is_there = read(profile)?
        .get(&client)
        .is_some_and(|entry| entry.expires_at_ms.is_none_or(|at| at > soon));
    if !is_there {
        let device = profile.device_secret()?.public();
        admit(profile, client, Some(device), "this profile", Role::Owner)?;
    }
    Ok(())
}

//! `clients.json`: whom a wing admits. The wing alone decides, from its own list.
//!
//! A tombstone is final: no entry and no grant brings a revoked key back. This is the
//! file's content and the rules; locking and replacing the file is for the shell.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wt_protocol::keys::{ClientKey, DeviceKey};

use crate::keys::{KeyError, check_x25519};

/// The version of the file that this build reads and writes.
const VERSION: u64 = 1;

/// Largest list that is read, in bytes: some 10,000 clients.
const MAX_FILE: usize = 8 << 20;

/// How a wing decides about clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdmissionMode {
    /// A client must be on the list.
    #[default]
    Approve,
    /// A grant of the owner's account suffices: whoever runs the roost can get in.
    Relay,
    /// A client must be on the list and be there with a passkey or as its owner's hardware.
    Locked,
}

impl AdmissionMode {
    /// Its name in files, listings and [`wt_protocol::rpc::WingInfo`].
    pub fn as_str(self) -> &'static str {
        match self {
            AdmissionMode::Approve => "approve",
            AdmissionMode::Relay => "relay",
            AdmissionMode::Locked => "locked",
        }
    }
}

impl fmt::Display for AdmissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text names no admission mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("admission is approve, relay or locked, not {0:?}")]
pub struct UnknownMode(String);

impl FromStr for AdmissionMode {
    type Err = UnknownMode;
    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "approve" => Ok(AdmissionMode::Approve),
            "relay" => Ok(AdmissionMode::Relay),
            "locked" => Ok(AdmissionMode::Locked),
            other => Err(UnknownMode(other.chars().take(64).collect())),
        }
    }
}

/// How a client came to be on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Somebody at the wing's machine put it there.
    Local,
    /// It had an invite.
    Invite,
    /// It enrolled with a passkey.
    Passkey,
    /// It had a grant of the owner's account.
    Grant,
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Watches sessions.
    Observer,
    /// Uses sessions.
    Operator,
    /// Uses sessions and changes the wing.
    Owner,
}

/// A client that is on the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its key.
    pub client: ClientKey,
    /// The device that vouched for it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceKey>,
    /// What people call it.
    pub name: String,
    /// How it came to be here.
    pub source: Source,
    /// What it may do.
    pub role: Role,
    /// Folders that it may start sessions in; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// When it was added, in milliseconds since the Unix epoch.
    pub added_at_ms: u64,
    /// When it ends, in milliseconds since the Unix epoch; never without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// Whether its owner said that it is a machine of theirs, which a lock lets in.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub hardware: bool,
    /// What a newer build wrote; kept when the file is rewritten.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What was revoked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Revoked {
    /// One client key.
    Client(ClientKey),
    /// A device, with every client key it vouched for.
    Device(DeviceKey),
    /// An account, with every grant for it.
    Account(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Tombstone {
    revoked: Revoked,
    revoked_at_ms: u64,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// Why the list cannot be used. It is never reset because of this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionFileError {
    /// A newer build wrote it.
    #[error("it has version {0}, and this program reads version {VERSION}")]
    Version(u64),
    /// It is not the JSON it should be.
    #[error("it does not parse: {0}")]
    Json(String),
    /// It is larger than any real one.
    #[error("it has {0} bytes, more than {MAX_FILE}")]
    TooLarge(usize),
    /// An entry's key must not be used.
    #[error("the entry of {0} does not hold a key: {1}")]
    Entry(ClientKey, KeyError),
    /// A key is in it more than once.
    #[error("{0} is in it twice")]
    Twice(ClientKey),
}

/// Why a client was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// Its key or its device was revoked, which is final.
    #[error("this key was revoked; the client needs a new one")]
    Revoked,
    /// Its key must not be used.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Whether a client may go on, without a grant or a passkey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'a> {
    /// It may, as this entry says.
    Admitted(&'a Entry),
    /// It is on the list, but the wing is locked and wants more.
    NeedsPasskey(&'a Entry),
    /// It is not on the list.
    Unknown,
    /// It was on the list until some time ago.
    Expired,
    /// It was revoked.
    Revoked,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u64,
    clients: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<Tombstone>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// Reads the version alone, so that a newer file is named as such.
#[derive(Deserialize)]
struct FileVersion {
    version: u64,
}

/// The list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    clients: BTreeMap<ClientKey, Entry>,
    revoked: BTreeMap<Revoked, Tombstone>,
    unknown: Map<String, Value>,
}

impl Admission {
    /// Reads the file. No file at all is [`Admission::default`].
    ///
    /// # Errors
    /// See [`AdmissionFileError`]. An empty file is one that does not parse.
    pub fn parse(bytes: &[u8]) -> Result<Self, AdmissionFileError> {
        if bytes.len() > MAX_FILE {
            return Err(AdmissionFileError::TooLarge(bytes.len()));
        }
        let json = |error: serde_json::Error| AdmissionFileError::Json(error.to_string());
        let FileVersion { version } = serde_json::from_slice(bytes).map_err(json)?;
        if version != VERSION {
            return Err(AdmissionFileError::Version(version));
        }
        let file: File = serde_json::from_slice(bytes).map_err(json)?;

        let mut admission = Self {
            unknown: file.unknown,
            ..Self::default()
        };
        for entry in file.clients {
            let client = entry.client;
            check_x25519(client.as_bytes())
                .map_err(|error| AdmissionFileError::Entry(client, error))?;
            if admission.clients.insert(client, entry).is_some() {
                return Err(AdmissionFileError::Twice(client));
            }
        }
        // The same revocation twice is no harm; the first stands.
        for tombstone in file.revoked {
            let revoked = tombstone.revoked.clone();
            admission.revoked.entry(revoked).or_insert(tombstone);
        }
        Ok(admission)
    }

    /// Writes the file: the same list always gives the same bytes.
    pub fn to_json(&self) -> Vec<u8> {
        let file = File {
            version: VERSION,
            clients: self.clients.values().cloned().collect(),
            revoked: self.revoked.values().cloned().collect(),
            unknown: self.unknown.clone(),
        };
        let mut bytes = serde_json::to_vec_pretty(&file).expect("all keys are strings");
        bytes.push(b'\n');
        bytes
    }

    /// All entries, by key; expired ones too.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.clients.values()
    }

    /// The entry of a client, whether or not it still counts.
    pub fn get(&self, client: &ClientKey) -> Option<&Entry> {
        self.clients.get(client)
    }

    /// Decides about a client by the list alone.
    pub fn decide(&self, mode: AdmissionMode, client: &ClientKey, now_ms: u64) -> Decision<'_> {
        let entry = self.clients.get(client);
        if self.is_revoked(client, entry.and_then(|entry| entry.device.as_ref())) {
            return Decision::Revoked;
        }
        let Some(entry) = entry else {
            return Decision::Unknown;
        };
        if entry.expires_at_ms.is_some_and(|end| now_ms >= end) {
            return Decision::Expired;
        }
        match mode {
            AdmissionMode::Approve | AdmissionMode::Relay => Decision::Admitted(entry),
            AdmissionMode::Locked if entry.hardware => Decision::Admitted(entry),
            AdmissionMode::Locked => Decision::NeedsPasskey(entry),
        }
    }

    /// Whether a client key, or the device behind it, was revoked.
    pub fn is_revoked(&self, client: &ClientKey, device: Option<&DeviceKey>) -> bool {
        self.revoked.contains_key(&Revoked::Client(*client))
            || device.is_some_and(|device| self.revoked.contains_key(&Revoked::Device(*device)))
    }

    /// Whether an account was revoked.
    pub fn is_account_revoked(&self, account: &str) -> bool {
        self.revoked
            .contains_key(&Revoked::Account(account.to_owned()))
    }

    /// Adds a client, or replaces its entry. Returns the entry that it replaced.
    ///
    /// # Errors
    /// See [`AddError`]; nothing is changed then.
    pub fn add(&mut self, entry: Entry) -> Result<Option<Entry>, AddError> {
        check_x25519(entry.client.as_bytes())?;
        if self.is_revoked(&entry.client, entry.device.as_ref()) {
            return Err(AddError::Revoked);
        }
        Ok(self.clients.insert(entry.client, entry))
    }

    /// Revokes for good. Returns the entries that went with it: whose sessions to end.
    pub fn revoke(&mut self, revoked: Revoked, now_ms: u64) -> Vec<Entry> {
        let gone: Vec<ClientKey> = self
            .clients
            .values()
            .filter(|entry| match &revoked {
                Revoked::Client(client) => entry.client == *client,
                Revoked::Device(device) => entry.device == Some(*device),
                Revoked::Account(_) => false,
            })
            .map(|entry| entry.client)
            .collect();
        // A device is revoked with the keys it vouched for, so that they stay out even
        // when they come back without its name.
        let keys = gone.iter().map(|client| Revoked::Client(*client));
        for revoked in keys.chain([revoked.clone()]) {
            self.revoked
                .entry(revoked.clone())
                .or_insert_with(|| Tombstone {
                    revoked,
                    revoked_at_ms: now_ms,
                    unknown: Map::new(),
                });
        }
        gone.iter()
            .filter_map(|client| self.clients.remove(client))
            .collect()
    }

    /// All that was revoked, and when, in milliseconds since the Unix epoch.
    pub fn revoked(&self) -> impl Iterator<Item = (&Revoked, u64)> {
        self.revoked
            .values()
            .map(|tombstone| (&tombstone.revoked, tombstone.revoked_at_ms))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::keys::{ClientSecret, DeviceSecret};

    const APPROVE: AdmissionMode = AdmissionMode::Approve;

    #[test]
    fn only_a_listed_key_is_admitted() {
        let mut admission = Admission::default();
        admission.add(entry(1)).unwrap();

        assert_eq!(
            admission.decide(APPROVE, &client(1), 5),
            Decision::Admitted(&entry(1))
        );
        assert_eq!(admission.decide(APPROVE, &client(2), 5), Decision::Unknown);
    }

    #[test]
    fn an_entry_ends_at_its_expiry() {
        let mut admission = Admission::default();
        let entry = Entry {
            expires_at_ms: Some(100),
            ..entry(1)
        };
        admission.add(entry.clone()).unwrap();
        let decide = |now| admission.decide(APPROVE, &client(1), now);

        assert_eq!(decide(99), Decision::Admitted(&entry));
        assert_eq!(decide(100), Decision::Expired);
    }

    #[test]
    fn a_locked_wing_wants_hardware_or_more_than_the_list() {
        let mut admission = Admission::default();
        let hardware = Entry {
            hardware: true,
            ..entry(2)
        };
        admission.add(entry(1)).unwrap();
        admission.add(hardware.clone()).unwrap();
        let decide = |number| admission.decide(AdmissionMode::Locked, &client(number), 5);

        assert_eq!(decide(1), Decision::NeedsPasskey(&entry(1)));
        assert_eq!(decide(2), Decision::Admitted(&hardware));
        assert_eq!(decide(3), Decision::Unknown);
    }

    #[test]
    fn a_revoked_key_stays_out_for_good() {
        let mut admission = Admission::default();
        admission.add(entry(1)).unwrap();

        let gone = admission.revoke(Revoked::Client(client(1)), 7);

        assert_eq!(gone, [entry(1)]);
        assert_eq!(admission.decide(APPROVE, &client(1), 8), Decision::Revoked);
        assert_eq!(admission.add(entry(1)), Err(AddError::Revoked));
        let reread = Admission::parse(&admission.to_json()).unwrap();
        assert_eq!(reread.decide(APPROVE, &client(1), 9), Decision::Revoked);
        admission.revoke(Revoked::Client(client(2)), 8);
        assert_eq!(admission.decide(APPROVE, &client(2), 9), Decision::Revoked);
    }

    #[test]
    fn a_revoked_device_takes_its_client_keys_with_it() {
        let device = DeviceSecret::from_bytes(&[9; 32]).public();
        let of_device = |number| Entry {
            device: Some(device),
            ..entry(number)
        };
        let mut admission = Admission::default();
        admission.add(of_device(1)).unwrap();
        admission.add(entry(2)).unwrap();

        let gone = admission.revoke(Revoked::Device(device), 7);

        assert_eq!(gone, [of_device(1)]);
        assert_eq!(admission.add(of_device(3)), Err(AddError::Revoked));
        assert_eq!(admission.add(entry(1)), Err(AddError::Revoked));
        assert_eq!(
            admission.decide(APPROVE, &client(2), 8),
            Decision::Admitted(&entry(2))
        );
        assert!(!admission.is_account_revoked("ada"));
        admission.revoke(Revoked::Account("ada".to_owned()), 9);
        assert!(admission.is_account_revoked("ada"));
        assert_eq!(admission.revoked().count(), 3);
    }

    #[test]
    fn a_key_of_low_order_is_never_listed() {
        let weak = Entry {
            client: ClientKey::from_bytes([0; 32]),
            ..entry(1)
        };
        let mut admission = Admission::default();

        assert_eq!(
            admission.add(weak.clone()),
            Err(AddError::Key(KeyError::LowOrder))
        );

        admission.clients.insert(weak.client, weak.clone());
        assert_eq!(
            Admission::parse(&admission.to_json()),
            Err(AdmissionFileError::Entry(weak.client, KeyError::LowOrder))
        );
    }

    #[test]
    fn the_file_survives_a_rewrite_with_what_a_newer_build_put_in() {
        let mut admission = Admission::default();
        admission.add(entry(1)).unwrap();
        admission.revoke(Revoked::Client(client(2)), 3);
        let mut file: Value = serde_json::from_slice(&admission.to_json()).unwrap();
        file["lock"] = serde_json::json!({"since": 1});
        file["clients"][0]["passkey"] = "kept".into();
        file["revoked"][0]["why"] = "lost".into();

        let parsed = Admission::parse(&serde_json::to_vec(&file).unwrap()).unwrap();

        let rewritten: Value = serde_json::from_slice(&parsed.to_json()).unwrap();
        assert_eq!(rewritten, file);
    }

    #[test]
    fn a_file_that_does_not_parse_is_an_error_that_says_why() {
        let mut admission = Admission::default();
        admission.add(entry(1)).unwrap();
        let good = admission.to_json();
        let mut file: Value = serde_json::from_slice(&good).unwrap();

        assert_eq!(Admission::parse(&good), Ok(admission));
        assert!(matches!(
            Admission::parse(b""),
            Err(AdmissionFileError::Json(_))
        ));
        assert!(matches!(
            Admission::parse(&good[..good.len() - 3]),
            Err(AdmissionFileError::Json(_))
        ));
        let first = file["clients"][0].clone();
        file["clients"].as_array_mut().unwrap().push(first);
        assert_eq!(
            Admission::parse(&serde_json::to_vec(&file).unwrap()),
            Err(AdmissionFileError::Twice(client(1)))
        );
        file["version"] = 2.into();
        assert_eq!(
            Admission::parse(&serde_json::to_vec(&file).unwrap()),
            Err(AdmissionFileError::Version(2))
        );
    }

    #[test]
    fn modes_have_the_names_of_the_configuration() {
        for mode in [APPROVE, AdmissionMode::Relay, AdmissionMode::Locked] {
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        assert!("Open".parse::<AdmissionMode>().is_err());
        assert_eq!(AdmissionMode::default(), APPROVE);
    }

    fn client(number: u8) -> ClientKey {
        ClientSecret::from_bytes(&[number; 32]).public()
    }

    fn entry(number: u8) -> Entry {
        Entry {
            client: client(number),
            device: None,
            name: format!("laptop {number}"),
            source: Source::Local,
            role: Role::Operator,
            paths: vec!["/srv".to_owned()],
            added_at_ms: 1,
            expires_at_ms: None,
            hardware: false,
            unknown: Map::new(),
        }
    }
}

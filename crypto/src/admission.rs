//! `clients.json`: whom a wing admits. The wing alone decides, from its own list.
//!
//! All that changes the list goes through [`Admission::apply`] and [`Admission::unlock`] at
//! the machine, [`Admission::apply_remote`] for an owner who is elsewhere, and
//! [`Admission::invited`] and [`Admission::note_grant`] for clients that come; each one
//! leaves an announcement. After any of them, and when time passes, the shell
//! asks [`Admission::decide`] again for each live session and ends those that are not
//! admitted any more.
//!
//! A tombstone is final: no entry and no grant brings a revoked key back. This is the
//! file's content and the rules; locking and replacing the file is for the shell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wt_protocol::access::{
    Act, Actor, AdmissionMode, Allow, Announced, Announcement, Change, ClientKind, ClientRecord,
    Passkey, Revoked, Role, Source, Terms,
};
use wt_protocol::keys::{ClientKey, DeviceKey};
use wt_protocol::limits::MAX_NAME;

use crate::file::{self, FileError, is_default};
use crate::grants::{CheckedGrant, Epochs};
use crate::invites::InviteTerms;
use crate::keys::{KeyError, check_x25519};
use crate::passkeys::Asserted;
use crate::permits::may_start_in;
use crate::waiting::{CodeError, Waiter, Waiting, Wants};

/// How long a command line stays on the list, in milliseconds: a year.
pub const CLI_LIFETIME_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

/// How long a browser stays on the list, in milliseconds: 30 days.
pub const BROWSER_LIFETIME_MS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// Most clients on a list: all of them in one answer stay far below the largest message.
const MAX_CLIENTS: usize = 1_000;

/// Most tombstones and most keys that came in by a grant. Together they take less than
/// half of the largest file; a wing that got there needs another look than more room.
const MAX_KEPT: usize = 10_000;

/// Most passkeys.
const MAX_PASSKEYS: usize = 100;

/// Most folders of one entry, and most bytes of one.
const MAX_PATHS: usize = 16;
const MAX_PATH: usize = 1_024;

/// Announcements that are kept for owners who are away. Older ones are dropped.
const MAX_ANNOUNCEMENTS: usize = 256;

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
    /// Where its program came from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: ClientKind,
    /// Whose it is, when several clients of one person share passkeys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub hardware: bool,
    /// Whether somebody compared digits with it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verified: bool,
    /// Whether a lock waits for its confirmation; it is not let in while the lock holds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unconfirmed: bool,
    /// The number of the last announcement that it was told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub told: u64,
    /// What a newer build wrote; kept when the file is rewritten.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Entry {
    /// Whose passkeys count for it: its user's, or its own alone.
    pub fn holder(&self) -> String {
        let own = || self.client.to_string();
        self.user.clone().unwrap_or_else(own)
    }

    /// The entry as its owners see it.
    pub fn record(&self) -> ClientRecord {
        ClientRecord {
            allow: Allow {
                client: self.client,
                device: self.device,
                name: self.name.clone(),
                kind: self.kind,
                user: self.user.clone(),
                terms: Terms {
                    role: self.role,
                    paths: self.paths.clone(),
                    expires_at_ms: self.expires_at_ms,
                },
                hardware: self.hardware,
            },
            source: self.source,
            added_at_ms: self.added_at_ms,
            verified: self.verified,
            unconfirmed: self.unconfirmed,
        }
    }
}

/// How a wing was locked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// Whether passkeys that were enrolled in a relay's page are refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_relay_page: bool,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// A key on no list that came in by a grant alone. Kept for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnteredByGrant {
    /// The key.
    pub client: ClientKey,
    /// Its device, as the relay said.
    pub device: DeviceKey,
    /// The account.
    pub account: String,
    /// When it first came, in milliseconds since the Unix epoch.
    pub first_at_ms: u64,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptPasskey {
    #[serde(flatten)]
    passkey: Passkey,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Tombstone {
    revoked: Revoked,
    revoked_at_ms: u64,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// An announcement, or one of a newer build's that this one cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    Known(Announcement),
    Newer(Value),
}

/// Why the list cannot be used. It is never reset because of this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionFileError {
    /// It is not such a file at all.
    #[error(transparent)]
    File(#[from] FileError),
    /// An entry's key must not be used.
    #[error("the entry of {0} does not hold a key: {1}")]
    Entry(ClientKey, KeyError),
    /// A key is in it more than once.
    #[error("{0} is in it twice")]
    Twice(String),
}

/// Why the list was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Its key or its device was revoked, which is final.
    #[error("this key was revoked; the client needs a new one")]
    Revoked,
    /// Its key must not be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No such client is on the list.
    #[error("{0} is not on the list")]
    NoSuchClient(ClientKey),
    /// No such passkey is on the list.
    #[error("no such passkey is on the list")]
    NoSuchPasskey,
    /// Another credential has this id.
    #[error("a passkey with this id is on the list already")]
    SamePasskey,
    /// A relay's page asked to be an owner, or hardware.
    #[error("a page that a relay serves is an operator at most, and never hardware of an owner")]
    RelayPage,
    /// A browser was to be hardware.
    #[error("a browser is not hardware of its owner; enrol a passkey in it")]
    Browser,
    /// The terms would end before they begin.
    #[error("the entry would have ended already")]
    Ended,
    /// A path is relative, climbs, or is too long, or there are too many.
    #[error("paths are absolute, without .., at most {MAX_PATHS} of {MAX_PATH} bytes")]
    Paths,
    /// A list is full.
    #[error("{0} is full")]
    Full(&'static str),
    /// A lock is set by itself.
    #[error("the wing is locked with `wt wing lock`")]
    LockedMode,
    /// The mode cannot change while the lock holds.
    #[error("the wing is locked; take the lock off on its machine with `wt wing unlock`")]
    IsLocked,
    /// A code lets nobody in.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// Whoever asked may not change the list.
    #[error(
        "only an owner whose entry was made on the wing's machine changes the list from elsewhere"
    )]
    NotOwner,
    /// The passkey vouched for something else, or is somebody else's.
    #[error("the passkey did not vouch for this change")]
    NotAsserted,
}

/// Who asks to come in, with all that was checked about them.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The client's key, proved by the handshake.
    pub client: &'a ClientKey,
    /// The device that vouched for it, checked.
    pub device: Option<&'a DeviceKey>,
    /// Its grant, checked.
    pub grant: Option<&'a CheckedGrant>,
    /// What a passkey vouched for in this session.
    pub asserted: Option<&'a Asserted>,
}

impl<'a> Asking<'a> {
    /// A client with nothing but its key.
    pub fn alone(client: &'a ClientKey) -> Self {
        Self {
            client,
            device: None,
            grant: None,
            asserted: None,
        }
    }
}

/// On what terms somebody was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The client.
    pub client: ClientKey,
    /// Its terms.
    pub terms: Terms,
    /// By what it came in.
    pub by: AdmittedBy,
}

/// By what somebody came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmittedBy {
    /// Its entry.
    List,
    /// A grant alone: log it with [`Admission::note_grant`] before anything is done.
    Grant,
}

/// Whether a client may go on. Whatever is not an admission looks the same to the client,
/// but for [`Decision::NeedsPasskey`] and [`Decision::MayWait`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Admitted(Admitted),
    /// It is on the list, but the wing is locked and wants a passkey.
    NeedsPasskey,
    /// It is on the list, but nobody confirmed it since the wing was locked.
    Unconfirmed,
    /// It is not on the list; its grant lets it wait until somebody lets it in.
    MayWait,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passkeys: Vec<KeptPasskey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lock: Option<Lock>,
    #[serde(default, skip_serializing_if = "Epochs::is_empty")]
    epochs: Epochs,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entered_by_grant: Vec<EnteredByGrant>,
    #[serde(default, skip_serializing_if = "is_default")]
    announced: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    announcements: Vec<Kept>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// The list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    clients: BTreeMap<ClientKey, Entry>,
    revoked: BTreeMap<Revoked, Tombstone>,
    passkeys: BTreeMap<Vec<u8>, KeptPasskey>,
    lock: Option<Lock>,
    epochs: Epochs,
    entered: BTreeMap<ClientKey, EnteredByGrant>,
    /// The number of the last announcement.
    announced: u64,
    announcements: Vec<Kept>,
    unknown: Map<String, Value>,
}

impl Admission {
    /// Reads the file. No file at all is [`Admission::default`].
    ///
    /// # Errors
    /// See [`AdmissionFileError`]. An empty file is one that does not parse.
    pub fn parse(bytes: &[u8]) -> Result<Self, AdmissionFileError> {
        let file: File = file::parse(bytes)?;
        let mut admission = Self {
            lock: file.lock,
            epochs: file.epochs,
            announced: file.announced,
            announcements: file.announcements,
            unknown: file.unknown,
            ..Self::default()
        };
        for entry in file.clients {
            let client = entry.client;
            check_x25519(client.as_bytes())
                .map_err(|error| AdmissionFileError::Entry(client, error))?;
            if admission.clients.insert(client, entry).is_some() {
                return Err(AdmissionFileError::Twice(client.to_string()));
            }
        }
        for kept in file.passkeys {
            let name = kept.passkey.name.clone();
            let id = kept.passkey.credential.clone();
            if admission.passkeys.insert(id, kept).is_some() {
                return Err(AdmissionFileError::Twice(name));
            }
        }
        // The same revocation or visit twice is no harm; the first stands.
        for tombstone in file.revoked {
            let revoked = tombstone.revoked.clone();
            admission.revoked.entry(revoked).or_insert(tombstone);
        }
        for entered in file.entered_by_grant {
            admission.entered.entry(entered.client).or_insert(entered);
        }
        Ok(admission)
    }

    /// Writes the file: the same list always gives the same bytes.
    pub fn to_json(&self) -> Vec<u8> {
        file::to_json(&File {
            version: file::VERSION,
            clients: self.clients.values().cloned().collect(),
            revoked: self.revoked.values().cloned().collect(),
            passkeys: self.passkeys.values().cloned().collect(),
            lock: self.lock.clone(),
            epochs: self.epochs.clone(),
            entered_by_grant: self.entered.values().cloned().collect(),
            announced: self.announced,
            announcements: self.announcements.clone(),
            unknown: self.unknown.clone(),
        })
    }

    /// All entries, by key; expired ones too.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.clients.values()
    }

    /// The entry of a client, whether or not it still counts.
    pub fn get(&self, client: &ClientKey) -> Option<&Entry> {
        self.clients.get(client)
    }

    /// All that was revoked, and when, in milliseconds since the Unix epoch.
    pub fn revoked(&self) -> impl Iterator<Item = (&Revoked, u64)> {
        self.revoked
            .values()
            .map(|tombstone| (&tombstone.revoked, tombstone.revoked_at_ms))
    }

    /// All passkeys, by credential id.
    pub fn passkeys(&self) -> impl Iterator<Item = &Passkey> {
        self.passkeys.values().map(|kept| &kept.passkey)
    }

    /// The passkey with this credential id.
    pub fn passkey(&self, credential: &[u8]) -> Option<&Passkey> {
        self.passkeys.get(credential).map(|kept| &kept.passkey)
    }

    /// All keys that ever came in by a grant alone.
    pub fn entered_by_grant(&self) -> impl Iterator<Item = &EnteredByGrant> {
        self.entered.values()
    }

    /// The epochs of accounts, for [`Epochs::check`]. Store the list when they changed.
    pub fn epochs_mut(&mut self) -> &mut Epochs {
        &mut self.epochs
    }

    /// How the wing was locked, if it is.
    pub fn locked(&self) -> Option<&Lock> {
        self.lock.as_ref()
    }

    /// How the wing decides: as it is configured, or locked.
    pub fn mode(&self, configured: AdmissionMode) -> AdmissionMode {
        match self.lock {
            Some(_) => AdmissionMode::Locked,
            None => configured,
        }
    }

    /// Decides about a client. `configured` is what the wing's settings say; a lock
    /// overrides it.
    pub fn decide(&self, configured: AdmissionMode, asking: &Asking<'_>, now_ms: u64) -> Decision {
        let entry = self.clients.get(asking.client);
        let devices = [
            asking.device,
            entry.and_then(|entry| entry.device.as_ref()),
            asking.grant.map(CheckedGrant::device_ref),
        ];
        let is_device_revoked = |device: &DeviceKey| self.is_revoked(asking.client, Some(device));
        if self.is_revoked(asking.client, None)
            || devices.into_iter().flatten().any(is_device_revoked)
        {
            return Decision::Revoked;
        }
        let counts = |entry: &&Entry| {
            entry
                .expires_at_ms
                .is_none_or(|ends_at_ms| now_ms < ends_at_ms)
        };
        let is_expired = entry.is_some_and(|entry| !counts(&entry));
        let entry = entry.filter(counts);
        match (self.mode(configured), entry) {
            (AdmissionMode::Locked, Some(entry)) => self.decide_locked(entry, asking),
            (AdmissionMode::Approve | AdmissionMode::Relay, Some(entry)) => Decision::listed(entry),
            (AdmissionMode::Locked, None) if is_expired => Decision::Expired,
            (AdmissionMode::Locked, None) => Decision::Unknown,
            (mode @ (AdmissionMode::Approve | AdmissionMode::Relay), None) => {
                let counts = |grant: &&CheckedGrant| {
                    grant.client() == *asking.client
                        && now_ms < grant.expires_at_ms()
                        && !self.is_account_revoked(grant.account())
                };
                match asking.grant.filter(counts) {
                    Some(grant) if mode == AdmissionMode::Relay => Decision::granted(grant),
                    Some(_) => Decision::MayWait,
                    None if is_expired => Decision::Expired,
                    None => Decision::Unknown,
                }
            }
        }
    }

    fn decide_locked(&self, entry: &Entry, asking: &Asking<'_>) -> Decision {
        if entry.unconfirmed {
            return Decision::Unconfirmed;
        }
        if entry.hardware {
            return Decision::listed(entry);
        }
        let no_relay_page = self.lock.as_ref().is_some_and(|lock| lock.no_relay_page);
        let vouches = |asserted: &Asserted| {
            *asserted.act() == Act::Enter
                && asserted.holder() == entry.holder()
                && self.passkeys.contains_key(asserted.credential())
                && !(no_relay_page && asserted.is_relay_page())
        };
        if asking.asserted.is_some_and(vouches) {
            Decision::listed(entry)
        } else {
            Decision::NeedsPasskey
        }
    }

    /// Whether a client key, or the device behind it, was revoked.
    pub fn is_revoked(&self, client: &ClientKey, device: Option<&DeviceKey>) -> bool {
        self.revoked.contains_key(&Revoked::Client(*client))
            || device.is_some_and(|device| self.revoked.contains_key(&Revoked::Device(*device)))
    }

    /// Whether an account was revoked: its grants count for nothing.
    pub fn is_account_revoked(&self, account: &str) -> bool {
        self.revoked
            .contains_key(&Revoked::Account(account.to_owned()))
    }

    /// Changes the list, as somebody at the wing's machine says.
    ///
    /// The shell does the rest of some changes: it takes over [`Change::SetMode`] in the
    /// settings, and makes the new key of [`Change::Rotate`].
    ///
    /// # Errors
    /// See [`ChangeError`]; the list is as it was then. A wrong code counts, and one that
    /// lets in somebody who may not have these terms is used up.
    pub fn apply(
        &mut self,
        change: &Change,
        waiting: &mut Waiting,
        now_ms: u64,
    ) -> Result<(), ChangeError> {
        self.change(change, &Actor::Machine, waiting, now_ms)
    }

    /// Changes the list, as a client elsewhere says and a passkey vouched for.
    ///
    /// # Errors
    /// [`ChangeError::NotOwner`] and [`ChangeError::NotAsserted`], or as [`Self::apply`].
    pub fn apply_remote(
        &mut self,
        client: &ClientKey,
        asserted: &Asserted,
        change: &Change,
        waiting: &mut Waiting,
        now_ms: u64,
    ) -> Result<(), ChangeError> {
        let entry = self.clients.get(client).ok_or(ChangeError::NotOwner)?;
        let is_owner = entry.role == Role::Owner
            && entry.source == Source::Local
            && entry.kind != ClientKind::RelayPage
            && entry.expires_at_ms.is_none_or(|ends| now_ms < ends)
            && !self.is_revoked(client, entry.device.as_ref());
        if !is_owner {
            return Err(ChangeError::NotOwner);
        }
        let refuses_page = self.lock.as_ref().is_some_and(|lock| lock.no_relay_page);
        let vouches = matches!(asserted.act(), Act::Change(vouched) if **vouched == *change)
            && asserted.holder() == entry.holder()
            && self.passkeys.contains_key(asserted.credential())
            && !(refuses_page && asserted.is_relay_page());
        if !vouches {
            return Err(ChangeError::NotAsserted);
        }
        self.change(change, &Actor::Client(*client), waiting, now_ms)
    }

    fn change(
        &mut self,
        change: &Change,
        by: &Actor,
        waiting: &mut Waiting,
        now_ms: u64,
    ) -> Result<(), ChangeError> {
        match change {
            Change::Approve { code, role, paths } => {
                let terms = Terms {
                    role: *role,
                    paths: paths.clone(),
                    expires_at_ms: None,
                };
                let waiter = waiting.approve(code, now_ms)?;
                self.let_in(waiter, terms, by, now_ms)
            }
            Change::Allow(allow) => {
                let source = match by {
                    Actor::Machine => Source::Local,
                    Actor::Client(_) | Actor::Grant(_) => Source::Passkey,
                };
                self.allow(allow, source, false, by, now_ms)
            }
            Change::Revoke(revoked) => self.revoke(revoked, by, now_ms),
            Change::SetTerms { client, terms } => self.set_terms(client, terms, by, now_ms),
            Change::SetHardware { client, hardware } => {
                let entry = self.entry_mut(client)?;
                if *hardware {
                    check_hardware(entry.kind)?;
                }
                entry.hardware = *hardware;
                let (client, hardware) = (*client, *hardware);
                self.announce(by, Announced::Hardware { client, hardware }, now_ms);
                Ok(())
            }
            Change::Confirm { client } => {
                self.entry_mut(client)?.unconfirmed = false;
                self.announce(by, Announced::Confirmed { client: *client }, now_ms);
                Ok(())
            }
            Change::SetMode(AdmissionMode::Locked) => Err(ChangeError::LockedMode),
            Change::SetMode(_) if self.lock.is_some() => Err(ChangeError::IsLocked),
            Change::SetMode(mode) => {
                self.announce(by, Announced::Mode(*mode), now_ms);
                Ok(())
            }
            Change::Lock { no_relay_page } => {
                self.set_lock(*no_relay_page, by, now_ms);
                waiting.send_away();
                Ok(())
            }
            Change::EnrolPasskey(passkey) => self.enrol(passkey, by, now_ms),
            Change::ForgetPasskey { credential } => {
                let kept = self
                    .passkeys
                    .remove(credential)
                    .ok_or(ChangeError::NoSuchPasskey)?;
                let name = kept.passkey.name;
                self.announce(by, Announced::PasskeyForgotten { name }, now_ms);
                Ok(())
            }
            Change::Rotate => {
                self.announce(by, Announced::Rotated, now_ms);
                Ok(())
            }
        }
    }

    /// Lets in who waited, on these terms. Its digits were compared.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    fn let_in(
        &mut self,
        waiter: Waiter,
        terms: Terms,
        by: &Actor,
        now_ms: u64,
    ) -> Result<(), ChangeError> {
        match waiter.wants {
            Wants::Passkey(passkey) => self.enrol(&passkey, by, now_ms),
            Wants::Entry => {
                let source = match by {
                    Actor::Machine => Source::Local,
                    Actor::Client(_) | Actor::Grant(_) => Source::Grant,
                };
                let allow = Allow {
                    client: waiter.client,
                    device: waiter.device,
                    name: waiter.name,
                    kind: waiter.kind,
                    user: None,
                    terms,
                    hardware: false,
                };
                self.allow(&allow, source, true, by, now_ms)
            }
        }
    }

    /// Puts a client on the list that used up an invite. For clients that are not admitted
    /// already: what an entry says is replaced.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then, and the invite is used up.
    pub fn invited(
        &mut self,
        client: &ClientKey,
        device: Option<&DeviceKey>,
        name: &str,
        kind: ClientKind,
        terms: InviteTerms,
        now_ms: u64,
    ) -> Result<(), ChangeError> {
        if self.lock.is_some() {
            return Err(ChangeError::IsLocked);
        }
        let allow = Allow {
            client: *client,
            device: device.copied(),
            name: name.to_owned(),
            kind,
            user: None,
            terms: Terms {
                role: terms.role,
                paths: terms.paths,
                expires_at_ms: None,
            },
            hardware: false,
        };
        self.allow(&allow, Source::Invite, false, &Actor::Machine, now_ms)
    }

    /// Announces that an invite was made.
    pub fn note_invite(&mut self, role: Role, now_ms: u64) {
        self.announce(&Actor::Machine, Announced::Invited { role }, now_ms);
    }

    /// Logs for good that a key came in by a grant alone, and announces it to every other
    /// client. Returns whether it is the first time. The shell stores the list before it
    /// lets the client do anything.
    ///
    /// # Errors
    /// [`ChangeError::Full`]: the client must not be let in.
    pub fn note_grant(&mut self, grant: &CheckedGrant, now_ms: u64) -> Result<bool, ChangeError> {
        let client = grant.client();
        if self.entered.contains_key(&client) {
            return Ok(false);
        }
        if self.entered.len() >= MAX_KEPT {
            return Err(ChangeError::Full("the log of keys that came in by a grant"));
        }
        let account = grant.account().to_owned();
        let entered = EnteredByGrant {
            client,
            device: grant.device(),
            account: account.clone(),
            first_at_ms: now_ms,
            unknown: Map::new(),
        };
        self.entered.insert(client, entered);
        let by = Actor::Grant(account.clone());
        self.announce(&by, Announced::EnteredByGrant { client, account }, now_ms);
        Ok(true)
    }

    /// Takes note of the counter of a passkey that was used. The shell stores the list
    /// before it acts on the assertion.
    pub fn note_use(&mut self, asserted: &Asserted) {
        if let Some(kept) = self.passkeys.get_mut(asserted.credential()) {
            kept.passkey.counter = kept.passkey.counter.max(asserted.counter());
        }
    }

    /// Notes that digits were compared with a client. Returns whether it is on the list.
    pub fn set_verified(&mut self, client: &ClientKey) -> bool {
        self.clients
            .get_mut(client)
            .map(|entry| entry.verified = true)
            .is_some()
    }

    /// Takes the lock off, as only somebody at the wing's machine can. Returns whether it
    /// was on.
    pub fn unlock(&mut self, now_ms: u64) -> bool {
        if self.lock.take().is_none() {
            return false;
        }
        for entry in self.clients.values_mut() {
            entry.unconfirmed = false;
        }
        self.announce(&Actor::Machine, Announced::Unlocked, now_ms);
        true
    }

    /// What a client has not been told yet, oldest first. Owners are told everything; the
    /// others are told when somebody came in by a grant alone.
    pub fn untold(&self, client: &ClientKey) -> Vec<&Announcement> {
        let Some(entry) = self.clients.get(client) else {
            return Vec::new();
        };
        self.announcements
            .iter()
            .filter_map(|kept| match kept {
                Kept::Known(announcement) => Some(announcement),
                Kept::Newer(_) => None,
            })
            .filter(|announcement| announcement.number > entry.told)
            .filter(|announcement| match announcement.what {
                Announced::EnteredByGrant { client: key, .. } => key != *client,
                _ => entry.role == Role::Owner,
            })
            .collect()
    }

    /// Takes note that a client was told everything up to this number.
    pub fn mark_told(&mut self, client: &ClientKey, number: u64) {
        let last = self.announced;
        if let Some(entry) = self.clients.get_mut(client) {
            entry.told = entry.told.max(number.min(last));
        }
    }

    fn announce(&mut self, by: &Actor, what: Announced, now_ms: u64) {
        self.announced += 1;
        self.announcements.push(Kept::Known(Announcement {
            number: self.announced,
            at_ms: now_ms,
            by: by.clone(),
            what,
        }));
        let surplus = self.announcements.len().saturating_sub(MAX_ANNOUNCEMENTS);
        self.announcements.drain(..surplus);
    }

    fn entry_mut(&mut self, client: &ClientKey) -> Result<&mut Entry, ChangeError> {
        self.clients
            .get_mut(client)
            .ok_or(ChangeError::NoSuchClient(*client))
    }

    fn allow(
        &mut self,
        allow: &Allow,
        source: Source,
        verified: bool,
        by: &Actor,
        now_ms: u64,
    ) -> Result<(), ChangeError> {
        let client = allow.client;
        check_x25519(client.as_bytes())?;
        if self.is_revoked(&client, allow.device.as_ref()) {
            return Err(ChangeError::Revoked);
        }
        if allow.hardware {
            check_hardware(allow.kind)?;
        }
        let terms = checked_terms(allow.kind, &allow.terms, now_ms)?;
        if !self.clients.contains_key(&client) && self.clients.len() >= MAX_CLIENTS {
            return Err(ChangeError::Full("the list of clients"));
        }
        let name = printable(&allow.name);
        let entry = Entry {
            client,
            device: allow.device,
            name: name.clone(),
            kind: allow.kind,
            user: allow.user.as_deref().map(printable),
            source,
            role: terms.role,
            paths: terms.paths,
            added_at_ms: now_ms,
            expires_at_ms: terms.expires_at_ms,
            hardware: allow.hardware,
            verified,
            unconfirmed: false,
            told: self.announced,
            unknown: Map::new(),
        };
        let role = entry.role;
        self.clients.insert(client, entry);
        let what = Announced::Allowed {
            client,
            name,
            role,
            source,
        };
        self.announce(by, what, now_ms);
        Ok(())
    }

    fn set_terms(
        &mut self,
        client: &ClientKey,
        terms: &Terms,
        by: &Actor,
        now_ms: u64,
    ) -> Result<(), ChangeError> {
        let entry = self.entry_mut(client)?;
        let terms = checked_terms(entry.kind, terms, now_ms)?;
        entry.role = terms.role;
        entry.paths = terms.paths;
        entry.expires_at_ms = terms.expires_at_ms;
        let (client, role) = (*client, entry.role);
        self.announce(by, Announced::Terms { client, role }, now_ms);
        Ok(())
    }

    fn revoke(&mut self, revoked: &Revoked, by: &Actor, now_ms: u64) -> Result<(), ChangeError> {
        let gone: Vec<ClientKey> = self
            .clients
            .values()
            .filter(|entry| match revoked {
                Revoked::Client(client) => entry.client == *client,
                Revoked::Device(device) => entry.device == Some(*device),
                Revoked::Account(_) => false,
            })
            .map(|entry| entry.client)
            .collect();
        if self.revoked.len() + gone.len() >= MAX_KEPT {
            return Err(ChangeError::Full("the list of what was revoked"));
        }
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
        for client in gone {
            self.clients.remove(&client);
            // What only this client's own entry could use goes with it.
            let own = client.to_string();
            self.passkeys.retain(|_, kept| kept.passkey.holder != own);
        }
        self.announce(by, Announced::Revoked(revoked.clone()), now_ms);
        Ok(())
    }

    fn set_lock(&mut self, no_relay_page: bool, by: &Actor, now_ms: u64) {
        // Whoever locks from elsewhere just vouched for their own entry.
        for entry in self.clients.values_mut() {
            entry.unconfirmed = *by != Actor::Client(entry.client);
        }
        self.lock = Some(Lock {
            since_ms: now_ms,
            no_relay_page,
            unknown: Map::new(),
        });
        self.announce(by, Announced::Locked { no_relay_page }, now_ms);
    }

    fn enrol(&mut self, passkey: &Passkey, by: &Actor, now_ms: u64) -> Result<(), ChangeError> {
        if self.passkeys.contains_key(&passkey.credential) {
            return Err(ChangeError::SamePasskey);
        }
        if self.passkeys.len() >= MAX_PASSKEYS {
            return Err(ChangeError::Full("the list of passkeys"));
        }
        let name = printable(&passkey.name);
        let kept = KeptPasskey {
            passkey: Passkey {
                name: name.clone(),
                ..passkey.clone()
            },
            unknown: Map::new(),
        };
        self.passkeys.insert(passkey.credential.clone(), kept);
        let origin = passkey.origin.clone();
        self.announce(by, Announced::PasskeyEnrolled { name, origin }, now_ms);
        Ok(())
    }
}

impl Decision {
    fn listed(entry: &Entry) -> Self {
        Decision::Admitted(Admitted {
            client: entry.client,
            terms: Terms {
                role: entry.role,
                paths: entry.paths.clone(),
                expires_at_ms: entry.expires_at_ms,
            },
            by: AdmittedBy::List,
        })
    }

    fn granted(grant: &CheckedGrant) -> Self {
        Decision::Admitted(Admitted {
            client: grant.client(),
            terms: Terms {
                role: grant.role(),
                paths: Vec::new(),
                expires_at_ms: Some(grant.expires_at_ms()),
            },
            by: AdmittedBy::Grant,
        })
    }
}

fn check_hardware(kind: ClientKind) -> Result<(), ChangeError> {
    match kind {
        ClientKind::Cli => Ok(()),
        ClientKind::Browser => Err(ChangeError::Browser),
        ClientKind::RelayPage => Err(ChangeError::RelayPage),
    }
}

/// Terms that this kind of client may have: no longer than its lifetime from now.
fn checked_terms(kind: ClientKind, terms: &Terms, now_ms: u64) -> Result<Terms, ChangeError> {
    if kind == ClientKind::RelayPage && terms.role == Role::Owner {
        return Err(ChangeError::RelayPage);
    }
    let is_path = |path: &String| path.len() <= MAX_PATH && may_start_in(&[], path);
    if terms.paths.len() > MAX_PATHS || !terms.paths.iter().all(is_path) {
        return Err(ChangeError::Paths);
    }
    let longest = match kind {
        ClientKind::Cli => CLI_LIFETIME_MS,
        ClientKind::Browser | ClientKind::RelayPage => BROWSER_LIFETIME_MS,
    };
    let latest = now_ms.saturating_add(longest);
    let expires_at_ms = terms.expires_at_ms.map_or(latest, |ends| ends.min(latest));
    if expires_at_ms <= now_ms {
        return Err(ChangeError::Ended);
    }
    Ok(Terms {
        role: terms.role,
        paths: terms.paths.clone(),
        expires_at_ms: Some(expires_at_ms),
    })
}

/// A name without control characters: it came from another machine and is shown in lists.
fn printable(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_control())
        .take(MAX_NAME)
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::grants::tests::checked;
    use crate::keys::{ClientSecret, DeviceSecret};
    use crate::passkeys::{Challenge, passkey_challenge};
    use crate::soft::{Kind, SoftAuthenticator};
    use crate::waiting::tests::waiter;

    const APPROVE: AdmissionMode = AdmissionMode::Approve;
    const RELAY: AdmissionMode = AdmissionMode::Relay;
    const HASH: [u8; 32] = [1; 32];
    const NONCE: [u8; 32] = [2; 32];
    const LOCK: Change = Change::Lock {
        no_relay_page: false,
    };

    #[test]
    fn only_a_listed_key_is_admitted() {
        let mut list = Admission::default();
        list.allow_one(1);

        assert_eq!(list.decide_alone(APPROVE, 1, 5), admitted(&list, 1));
        assert_eq!(list.decide_alone(APPROVE, 2, 5), Decision::Unknown);
        assert_eq!(list.decide_alone(RELAY, 2, 5), Decision::Unknown);
    }

    #[test]
    fn an_entry_ends_at_its_expiry() {
        let mut list = Admission::default();
        let mut allow = allow(1);
        allow.terms.expires_at_ms = Some(100);
        list.say(&Change::Allow(allow)).unwrap();

        assert_eq!(list.decide_alone(APPROVE, 1, 99), admitted(&list, 1));
        assert_eq!(list.decide_alone(APPROVE, 1, 100), Decision::Expired);
    }

    #[test]
    fn each_kind_of_client_stays_for_its_own_time_at_most() {
        let ends = |kind, expires_at_ms| {
            let mut list = Admission::default();
            let mut allow = allow(1);
            allow.kind = kind;
            allow.terms.expires_at_ms = expires_at_ms;
            list.say(&Change::Allow(allow))?;
            Ok(list.get(&client(1)).unwrap().expires_at_ms.unwrap())
        };

        assert_eq!(ends(ClientKind::Cli, None), Ok(1 + CLI_LIFETIME_MS));
        assert_eq!(
            ends(ClientKind::Cli, Some(u64::MAX)),
            Ok(1 + CLI_LIFETIME_MS)
        );
        assert_eq!(ends(ClientKind::Cli, Some(7)), Ok(7));
        assert_eq!(ends(ClientKind::Cli, Some(1)), Err(ChangeError::Ended));
        for kind in [ClientKind::Browser, ClientKind::RelayPage] {
            assert_eq!(ends(kind, None), Ok(1 + BROWSER_LIFETIME_MS));
        }
    }

    #[test]
    fn a_relays_page_is_never_an_owner_or_hardware() {
        let say = |kind, role, hardware| {
            let mut allow = allow(1);
            allow.kind = kind;
            allow.terms.role = role;
            allow.hardware = hardware;
            Admission::default().say(&Change::Allow(allow))
        };

        assert_eq!(say(ClientKind::Browser, Role::Owner, false), Ok(()));
        assert_eq!(say(ClientKind::RelayPage, Role::Operator, false), Ok(()));
        let refused = Err(ChangeError::RelayPage);
        assert_eq!(say(ClientKind::RelayPage, Role::Owner, false), refused);
        assert_eq!(say(ClientKind::RelayPage, Role::Operator, true), refused);
        assert_eq!(
            say(ClientKind::Browser, Role::Owner, true),
            Err(ChangeError::Browser)
        );
        assert_eq!(say(ClientKind::Cli, Role::Owner, true), Ok(()));
        let mut list = Admission::default();
        let mut page = allow(1);
        page.kind = ClientKind::RelayPage;
        list.say(&Change::Allow(page)).unwrap();
        let mut terms = allow(1).terms;
        terms.role = Role::Owner;
        let client = client(1);
        assert_eq!(list.say(&Change::SetTerms { client, terms }), refused);
    }

    #[test]
    fn a_grant_lets_a_client_wait_and_no_more_unless_the_wing_says_so() {
        let list = Admission::default();
        let grant = checked(client(1), device(1), Role::Owner);
        let with_grant = |mode, now| {
            let client = client(1);
            let asking = Asking {
                grant: Some(&grant),
                ..Asking::alone(&client)
            };
            list.decide(mode, &asking, now)
        };

        assert_eq!(with_grant(APPROVE, 5), Decision::MayWait);
        assert_eq!(with_grant(AdmissionMode::Locked, 5), Decision::Unknown);
        let Decision::Admitted(admitted) = with_grant(RELAY, 5) else {
            panic!("the wing asked for it")
        };
        assert_eq!(admitted.by, AdmittedBy::Grant);
        assert_eq!(admitted.terms.role, Role::Operator);
        assert_eq!(admitted.terms.expires_at_ms, Some(grant.expires_at_ms()));
        assert_eq!(with_grant(RELAY, grant.expires_at_ms()), Decision::Unknown);
    }

    #[test]
    fn a_tombstone_overrides_every_grant() {
        let grant = checked(client(1), device(1), Role::Operator);
        let after = |revoked: Option<Revoked>| {
            let mut list = Admission::default();
            if let Some(revoked) = revoked {
                list.say(&Change::Revoke(revoked)).unwrap();
            }
            let client = client(1);
            let asking = Asking {
                grant: Some(&grant),
                ..Asking::alone(&client)
            };
            list.decide(RELAY, &asking, 5)
        };

        assert!(matches!(after(None), Decision::Admitted(_)));
        assert_eq!(after(Some(Revoked::Client(client(1)))), Decision::Revoked);
        assert_eq!(after(Some(Revoked::Device(device(1)))), Decision::Revoked);
        let account = Revoked::Account("ada".to_owned());
        assert_eq!(after(Some(account)), Decision::Unknown);
        let other = Revoked::Account("eve".to_owned());
        assert!(matches!(after(Some(other)), Decision::Admitted(_)));
    }

    #[test]
    fn a_key_that_came_in_by_a_grant_is_logged_once_and_told_to_every_other_client() {
        let mut list = Admission::default();
        list.allow_one(2);
        list.allow_one(3);
        let grant = checked(client(1), device(1), Role::Operator);

        assert_eq!(list.note_grant(&grant, 7), Ok(true));
        assert_eq!(list.note_grant(&grant, 8), Ok(false));

        let mut list = Admission::parse(&list.to_json()).unwrap();
        let logged: Vec<_> = list.entered_by_grant().collect();
        assert_eq!((logged.len(), logged[0].first_at_ms), (1, 7));
        for number in [2, 3] {
            let told = list.untold(&client(number));
            assert!(matches!(
                told.last().unwrap().what,
                Announced::EnteredByGrant { .. }
            ));
        }
        let last = list.untold(&client(2)).last().unwrap().number;
        list.mark_told(&client(2), last);
        assert!(list.untold(&client(2)).is_empty());
        assert!(!list.untold(&client(3)).is_empty());
    }

    #[test]
    fn a_revoked_key_stays_out_for_good() {
        let mut list = Admission::default();
        list.allow_one(1);
        let revoke = |number| Change::Revoke(Revoked::Client(client(number)));

        list.say(&revoke(1)).unwrap();

        assert!(list.get(&client(1)).is_none());
        assert_eq!(list.decide_alone(APPROVE, 1, 8), Decision::Revoked);
        assert_eq!(
            list.say(&Change::Allow(allow(1))),
            Err(ChangeError::Revoked)
        );
        let reread = Admission::parse(&list.to_json()).unwrap();
        assert_eq!(reread.decide_alone(APPROVE, 1, 9), Decision::Revoked);
        list.say(&revoke(2)).unwrap();
        assert_eq!(list.decide_alone(APPROVE, 2, 9), Decision::Revoked);
    }

    #[test]
    fn a_revoked_device_takes_its_client_keys_with_it() {
        let of_device = |number| Allow {
            device: Some(device(9)),
            ..allow(number)
        };
        let mut list = Admission::default();
        list.say(&Change::Allow(of_device(1))).unwrap();
        list.allow_one(2);

        list.say(&Change::Revoke(Revoked::Device(device(9))))
            .unwrap();

        for refused in [of_device(3), allow(1)] {
            assert_eq!(list.say(&Change::Allow(refused)), Err(ChangeError::Revoked));
        }
        assert_eq!(list.decide_alone(APPROVE, 2, 8), admitted(&list, 2));
        let (other, device) = (client(4), device(9));
        let vouched = Asking {
            device: Some(&device),
            ..Asking::alone(&other)
        };
        assert_eq!(list.decide(APPROVE, &vouched, 8), Decision::Revoked);
        assert_eq!(list.revoked().count(), 2);
    }

    #[test]
    fn a_locked_wing_wants_confirmed_hardware_or_a_confirmed_entry_with_its_passkey() {
        let mut list = Admission::default();
        list.allow_one(1);
        list.say(&Change::Allow(Allow {
            hardware: true,
            ..allow(2)
        }))
        .unwrap();
        list.say(&LOCK).unwrap();
        let decide = |list: &Admission, number| list.decide_alone(APPROVE, number, 5);

        assert_eq!(decide(&list, 1), Decision::Unconfirmed);
        assert_eq!(decide(&list, 2), Decision::Unconfirmed);
        for number in [1, 2] {
            let client = client(number);
            list.say(&Change::Confirm { client }).unwrap();
        }
        assert_eq!(decide(&list, 1), Decision::NeedsPasskey);
        assert_eq!(decide(&list, 2), admitted(&list, 2));
        assert_eq!(decide(&list, 3), Decision::Unknown);
        assert!(list.unlock(6));
        assert_eq!(decide(&list, 1), admitted(&list, 1));
        assert!(!list.unlock(7));
    }

    #[test]
    fn a_passkey_opens_a_lock_for_its_holders_entries_alone() {
        let origin = "http://wt-abc.localhost:8080";
        for (no_relay_page, origin, opens) in [
            (false, origin, true),
            (true, origin, true),
            (false, "https://roost.example", true),
            (true, "https://roost.example", false),
        ] {
            let mut list = Admission::default();
            let mut device = list.enrolled("ada", origin);
            for (number, user) in [(1, Some("ada")), (2, Some("ben")), (3, None)] {
                let mut allow = allow(number);
                allow.user = user.map(str::to_owned);
                list.say(&Change::Allow(allow)).unwrap();
            }
            list.say(&Change::Lock { no_relay_page }).unwrap();
            for number in 1..=3 {
                let client = client(number);
                list.say(&Change::Confirm { client }).unwrap();
            }
            let asserted = assert_act(&list, &mut device, Act::Enter);
            let decide = |number| {
                let client = client(number);
                let asking = Asking {
                    asserted: Some(&asserted),
                    ..Asking::alone(&client)
                };
                list.decide(APPROVE, &asking, 5)
            };

            let ours = if opens {
                admitted(&list, 1)
            } else {
                Decision::NeedsPasskey
            };
            assert_eq!(decide(1), ours);
            assert_eq!(decide(2), Decision::NeedsPasskey);
            assert_eq!(decide(3), Decision::NeedsPasskey);
        }
    }

    #[test]
    fn an_owner_elsewhere_changes_the_list_with_a_passkey_over_that_very_change() {
        let (list, mut device) = with_owner(|_| {});
        let revoke = Change::Revoke(Revoked::Client(client(2)));
        let vouched = Act::Change(Box::new(revoke.clone()));
        let asserted = assert_act(&list, &mut device, vouched);
        let entered = assert_act(&list, &mut device, Act::Enter);
        let say = |asserted: &Asserted, change: &Change| {
            let mut list = list.clone();
            list.apply_remote(&client(1), asserted, change, &mut Waiting::default(), 5)
                .map(|()| list)
        };

        let changed = say(&asserted, &revoke).unwrap();
        assert_eq!(changed.decide_alone(APPROVE, 2, 5), Decision::Revoked);
        let announced = &changed.untold(&client(1)).last().unwrap().by;
        assert_eq!(*announced, Actor::Client(client(1)));
        let refused = Err(ChangeError::NotAsserted);
        assert_eq!(say(&entered, &revoke), refused);
        assert_eq!(say(&asserted, &Change::Rotate), refused);
    }

    #[test]
    fn nobody_but_a_local_owner_changes_the_list_from_elsewhere() {
        let say = |change: &dyn Fn(&mut Entry)| {
            let (mut list, mut device) = with_owner(change);
            let asserted = assert_act(&list, &mut device, Act::Change(Box::new(Change::Rotate)));
            let waiting = &mut Waiting::default();
            list.apply_remote(&client(1), &asserted, &Change::Rotate, waiting, 5)
        };
        let refused = Err(ChangeError::NotOwner);

        assert_eq!(say(&|_| {}), Ok(()));
        assert_eq!(say(&|entry| entry.role = Role::Operator), refused);
        for source in [Source::Invite, Source::Passkey, Source::Grant] {
            assert_eq!(say(&|entry| entry.source = source), refused);
        }
        assert_eq!(say(&|entry| entry.kind = ClientKind::RelayPage), refused);
        assert_eq!(say(&|entry| entry.expires_at_ms = Some(5)), refused);
        assert_eq!(
            say(&|entry| entry.user = None),
            Err(ChangeError::NotAsserted)
        );
    }

    #[test]
    fn who_waits_is_let_in_by_code_with_digits_compared() {
        let (mut list, mut waiting) = (Admission::default(), Waiting::default());
        waiting.wait(waiter(1, 0)).unwrap();
        let approve = |code: String| Change::Approve {
            code,
            role: Role::Owner,
            paths: vec!["/srv".to_owned()],
        };
        let wrong = list.apply(&approve("0".to_owned()), &mut waiting, 1);
        assert_eq!(wrong, Err(CodeError::Unknown.into()));

        let code = waiter(1, 0).code.to_string();
        list.apply(&approve(code), &mut waiting, 2).unwrap();

        let entry = list.get(&client(1)).unwrap();
        assert!(entry.verified);
        assert_eq!((entry.source, entry.role), (Source::Local, Role::Owner));
        assert_eq!(entry.paths, ["/srv"]);
    }

    #[test]
    fn an_invite_lists_its_client_but_not_while_the_wing_is_locked() {
        let mut list = Admission::default();
        let terms = || InviteTerms {
            role: Role::Observer,
            paths: Vec::new(),
        };
        let invite = |list: &mut Admission, number| {
            let kind = ClientKind::Cli;
            list.invited(&client(number), None, "a\u{7}b", kind, terms(), 3)
        };

        invite(&mut list, 1).unwrap();
        let entry = list.get(&client(1)).unwrap();
        assert_eq!((entry.source, entry.role), (Source::Invite, Role::Observer));
        assert_eq!(entry.name, "ab");
        list.say(&LOCK).unwrap();
        assert_eq!(invite(&mut list, 2), Err(ChangeError::IsLocked));
    }

    #[test]
    fn every_change_is_announced_to_owners_who_were_there_before() {
        let mut list = Admission::default();
        let mut owner = allow(1);
        owner.terms.role = Role::Owner;
        list.say(&Change::Allow(owner)).unwrap();
        list.allow_one(2);
        let told = |list: &Admission, number| -> Vec<Announced> {
            let untold = list.untold(&client(number));
            untold.into_iter().map(|a| a.what.clone()).collect()
        };
        let before = told(&list, 1).len();

        list.say(&Change::SetMode(RELAY)).unwrap();
        list.note_invite(Role::Observer, 4);
        list.say(&LOCK).unwrap();
        assert_eq!(
            list.say(&Change::SetMode(APPROVE)),
            Err(ChangeError::IsLocked)
        );
        list.unlock(5);
        list.say(&Change::Rotate).unwrap();

        let expected = [
            Announced::Mode(RELAY),
            Announced::Invited {
                role: Role::Observer,
            },
            Announced::Locked {
                no_relay_page: false,
            },
            Announced::Unlocked,
            Announced::Rotated,
        ];
        assert_eq!(told(&list, 1)[before..], expected);
        assert!(told(&list, 2).is_empty());
        for _ in 0..MAX_ANNOUNCEMENTS {
            list.say(&Change::Rotate).unwrap();
        }
        assert_eq!(told(&list, 1).len(), MAX_ANNOUNCEMENTS);
        assert!(list.untold(&client(9)).is_empty());
    }

    #[test]
    fn a_key_of_low_order_is_never_listed() {
        let weak = ClientKey::from_bytes([0; 32]);
        let mut list = Admission::default();

        assert_eq!(
            list.say(&Change::Allow(Allow {
                client: weak,
                ..allow(1)
            })),
            Err(ChangeError::Key(KeyError::LowOrder))
        );

        list.allow_one(1);
        let mut entry = list.clients.remove(&client(1)).unwrap();
        entry.client = weak;
        list.clients.insert(weak, entry);
        assert_eq!(
            Admission::parse(&list.to_json()),
            Err(AdmissionFileError::Entry(weak, KeyError::LowOrder))
        );
    }

    #[test]
    fn paths_that_lead_elsewhere_and_full_lists_are_refused() {
        let mut list = Admission::default();
        for path in [
            "srv",
            "/srv/../etc",
            "",
            &format!("/{}", "x".repeat(MAX_PATH)),
        ] {
            let mut allow = allow(1);
            allow.terms.paths = vec![path.to_owned()];
            assert_eq!(list.say(&Change::Allow(allow)), Err(ChangeError::Paths));
        }
        let mut many = allow(1);
        many.terms.paths = vec!["/srv".to_owned(); MAX_PATHS + 1];
        assert_eq!(list.say(&Change::Allow(many)), Err(ChangeError::Paths));

        list.allow_one(1);
        let entry = list.get(&client(1)).unwrap().clone();
        for number in 1..MAX_CLIENTS {
            let mut key = [0x55; 32];
            key[..8].copy_from_slice(&(number as u64).to_be_bytes());
            list.clients
                .insert(ClientKey::from_bytes(key), entry.clone());
        }
        assert_eq!(
            list.say(&Change::Allow(allow(2))),
            Err(ChangeError::Full("the list of clients"))
        );
        assert_eq!(list.say(&Change::Allow(allow(1))), Ok(()));
    }

    #[test]
    fn the_file_survives_a_rewrite_with_what_a_newer_build_put_in() {
        let (mut list, _) = with_owner(|_| {});
        list.allow_one(2);
        list.say(&Change::Revoke(Revoked::Client(client(2))))
            .unwrap();
        let grant = checked(client(3), device(3), Role::Operator);
        list.note_grant(&grant, 7).unwrap();
        list.say(&LOCK).unwrap();
        assert_eq!(Admission::parse(&list.to_json()), Ok(list.clone()));
        let mut file: Value = serde_json::from_slice(&list.to_json()).unwrap();
        file["later"] = serde_json::json!({"since": 1.5});
        file["lock"]["why"] = "travel".into();
        file["clients"][0]["colour"] = "kept".into();
        file["passkeys"][0]["model"] = "kept".into();
        file["revoked"][0]["why"] = "lost".into();
        file["entered_by_grant"][0]["from"] = "there".into();
        file["announcements"][0] = serde_json::json!({"number": 1, "what": {"flown": {}}});

        let parsed = Admission::parse(&serde_json::to_vec(&file).unwrap()).unwrap();

        let rewritten: Value = serde_json::from_slice(&parsed.to_json()).unwrap();
        assert_eq!(rewritten, file);
        assert!(parsed.untold(&client(1)).iter().all(|a| a.number > 1));
    }

    #[test]
    fn a_file_that_does_not_parse_is_an_error_that_says_why() {
        let mut list = Admission::default();
        list.allow_one(1);
        let good = list.to_json();
        let mut file: Value = serde_json::from_slice(&good).unwrap();

        assert_eq!(Admission::parse(&good), Ok(list));
        assert!(matches!(
            Admission::parse(&good[..good.len() - 3]),
            Err(AdmissionFileError::File(FileError::Json(_)))
        ));
        let first = file["clients"][0].clone();
        file["clients"].as_array_mut().unwrap().push(first);
        assert_eq!(
            Admission::parse(&serde_json::to_vec(&file).unwrap()),
            Err(AdmissionFileError::Twice(client(1).to_string()))
        );
        file["version"] = 2.into();
        assert_eq!(
            Admission::parse(&serde_json::to_vec(&file).unwrap()),
            Err(FileError::Version(2).into())
        );
    }

    impl Admission {
        fn say(&mut self, change: &Change) -> Result<(), ChangeError> {
            self.apply(change, &mut Waiting::default(), 1)
        }

        fn allow_one(&mut self, number: u8) {
            self.say(&Change::Allow(allow(number))).unwrap();
        }

        fn decide_alone(&self, mode: AdmissionMode, number: u8, now_ms: u64) -> Decision {
            self.decide(mode, &Asking::alone(&client(number)), now_ms)
        }

        fn enrolled(&mut self, holder: &str, origin: &str) -> SoftAuthenticator {
            let host = origin
                .split_once("://")
                .unwrap()
                .1
                .split(':')
                .next()
                .unwrap();
            let mut device = SoftAuthenticator::new(Kind::P256, origin, host);
            let challenge = passkey_challenge(&HASH, &NONCE, &Act::Enrol.canonical().unwrap());
            let enrolment = device.enrol("key", &challenge);
            let passkey = Challenge::issue(NONCE, 1)
                .enrol(&HASH, holder, &enrolment, 1)
                .unwrap();
            self.say(&Change::EnrolPasskey(passkey.clone())).unwrap();
            let again = self.say(&Change::EnrolPasskey(passkey));
            assert_eq!(again, Err(ChangeError::SamePasskey));
            device
        }
    }

    /// A list with a local owner of the user ada and her passkey, then changed.
    fn with_owner(change: impl Fn(&mut Entry)) -> (Admission, SoftAuthenticator) {
        let mut list = Admission::default();
        let mut owner = allow(1);
        owner.user = Some("ada".to_owned());
        owner.terms.role = Role::Owner;
        list.say(&Change::Allow(owner)).unwrap();
        let device = list.enrolled("ada", "http://wt-abc.localhost:8080");
        change(list.clients.get_mut(&client(1)).unwrap());
        (list, device)
    }

    fn assert_act(list: &Admission, device: &mut SoftAuthenticator, act: Act) -> Asserted {
        let challenge = passkey_challenge(&HASH, &NONCE, &act.canonical().unwrap());
        let assertion = device.assert(&challenge);
        let passkey = list.passkey(&assertion.credential).unwrap();
        Challenge::issue(NONCE, 1)
            .verify(&HASH, act, &assertion, passkey, 1)
            .unwrap()
    }

    fn admitted(list: &Admission, number: u8) -> Decision {
        Decision::listed(list.get(&client(number)).unwrap())
    }

    fn client(number: u8) -> ClientKey {
        ClientSecret::from_bytes(&[number; 32]).public()
    }

    fn device(number: u8) -> DeviceKey {
        DeviceSecret::from_bytes(&[number; 32]).public()
    }

    fn allow(number: u8) -> Allow {
        Allow {
            client: client(number),
            device: None,
            name: format!("laptop {number}"),
            kind: ClientKind::Cli,
            user: None,
            terms: Terms {
                role: Role::Operator,
                paths: vec!["/srv".to_owned()],
                expires_at_ms: None,
            },
            hardware: false,
        }
    }
}

//! Who may enter a wing: what a client and a wing say about that, inside the seal.
//!
//! A client that is on the wing's list may come with its request at once. Any other says
//! first who it is ([`Enter`]) and by what it wants to come in: an invite, a grant of its
//! account, a passkey. The wing alone decides. What changes its list is a [`Change`], and
//! each one is told to all owners as an [`Announcement`].

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::codec::{EncodeError, encode};
use crate::ids::{RoostId, WingId};
use crate::keys::{ClientKey, DeviceKey, Signature};
use crate::limits::MAX_MESSAGE;

/// What a client may do. Each one may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Watches sessions.
    Observer,
    /// Uses sessions.
    Operator,
    /// Uses sessions and changes the wing.
    Owner,
}

impl Role {
    /// All of them, from the least.
    pub const ALL: [Self; 3] = [Role::Observer, Role::Operator, Role::Owner];

    /// Its name in files, options and listings.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Observer => "observer",
            Role::Operator => "operator",
            Role::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a role is observer, operator or owner, not {0:?}")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| UnknownRole(text.chars().take(64).collect()))
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
    /// An owner who was elsewhere let it in with a passkey.
    Passkey,
    /// It had a grant of the owner's account, and waited until somebody let it in.
    Grant,
}

impl Source {
    /// Its name in files and listings.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Local => "local",
            Source::Invite => "invite",
            Source::Passkey => "passkey",
            Source::Grant => "grant",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a wing decides about clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    /// Its name in files, listings and [`crate::rpc::WingInfo`].
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

/// Where a client's program came from, as the client says. It decides how long it stays
/// on the list, and that a page of a relay's is never an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// The command line.
    #[default]
    Cli,
    /// A page that the user's own machine served.
    Browser,
    /// A page that a relay served: its script is the relay's word.
    RelayPage,
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

/// From a client, about its entry. See [`crate::session::ClientMessage::Access`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWing {
    /// Says who it is. The first message of its stream, if it comes at all.
    Enter(Enter),
    /// Answers [`FromWing::PasskeyWanted`], over [`Act::Enter`].
    Passkey(Assertion),
    /// Asks for a comparison of digits.
    Compare,
    /// The client's nonce, after the wing's commitment.
    CompareNonce([u8; 32]),
    /// A fresh grant in place of the one that runs out.
    Renew(SignedGrant),
}

/// From a wing, about a client's entry. See [`crate::session::WingMessage::Access`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromWing {
    /// The client may go on, on these terms.
    Admitted(Terms),
    /// A passkey is wanted first; these bytes are used once and hold for a minute.
    PasskeyWanted([u8; 32]),
    /// Somebody must let the client in. A commitment follows: the digits that both ends
    /// get are the code to let it in by.
    Waiting,
    /// What the wing's nonce will hash to.
    CompareCommitment([u8; 32]),
    /// The wing's nonce, after the client's.
    CompareOpening([u8; 32]),
    /// Something about the wing's list changed.
    Announced(Announcement),
}

/// Who wants to come in, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enter {
    /// Where the client's program came from.
    pub kind: ClientKind,
    /// What it calls itself; shown as unverified, without control characters.
    pub name: String,
    /// The device that vouches for its client key.
    pub device: Option<DeviceWord>,
    /// By what it wants to come in.
    pub by: EnterBy,
}

/// A device's word on the client key of this session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceWord {
    /// The device.
    pub device: DeviceKey,
    /// By the device key, over [`crate::signed::client_key`].
    pub signature: Signature,
}

/// By what a client wants to come in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnterBy {
    /// Its place on the list.
    List,
    /// An invite: HMAC-SHA256 under the invite's secret of [`crate::signed::invite`].
    Invite([u8; 32]),
    /// A grant of its account.
    Grant(Box<SignedGrant>),
}

/// On what terms a client was admitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// What it may do.
    pub role: Role,
    /// Folders that it may start sessions in; empty for all.
    pub paths: Vec<String>,
    /// When it ends, in milliseconds since the Unix epoch; never without one.
    pub expires_at_ms: Option<u64>,
}

/// A roost's word that a client belongs to an account, for one wing and ten minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The roost that gives it.
    pub roost: RoostId,
    /// The account of the client's owner.
    pub account: String,
    /// The client's device.
    pub device: DeviceKey,
    /// The client key that this device vouched for.
    pub client: ClientKey,
    /// The wing it is for.
    pub wing: WingId,
    /// The organisation it is given in, or none for the account itself.
    pub org: Option<String>,
    /// The most that it may be used for.
    pub role: Role,
    /// Counts up when the account takes something back; a wing refuses lower ones.
    pub epoch: u64,
    /// When it was given, in seconds since the Unix epoch.
    pub issued_at: u64,
    /// When it ends, in seconds since the Unix epoch.
    pub expires_at: u64,
}

/// A grant with the signature of its roost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedGrant {
    /// The grant.
    pub grant: Grant,
    /// By the roost's grant key, over [`crate::signed::grant`].
    pub signature: Signature,
}

/// What a passkey is asked to stand for. Its canonical bytes go into the challenge that
/// each end computes for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Entering a locked wing.
    Enter,
    /// Enrolling this passkey.
    Enrol,
    /// This very change.
    Change(Box<Change>),
}

impl Act {
    /// The bytes that stand for it in a challenge: its own encoding, which is the same
    /// for equal acts.
    ///
    /// # Errors
    /// [`EncodeError`] for one that no message could carry.
    pub fn canonical(&self) -> Result<Vec<u8>, EncodeError> {
        encode(self, MAX_MESSAGE)
    }
}

/// What an authenticator signed (WebAuthn level 2, section 7.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertion {
    /// The credential's id.
    #[serde(with = "serde_bytes")]
    pub credential: Vec<u8>,
    /// The authenticator data.
    #[serde(with = "serde_bytes")]
    pub authenticator_data: Vec<u8>,
    /// The client data, as JSON.
    #[serde(with = "serde_bytes")]
    pub client_data: Vec<u8>,
    /// Over the authenticator data and the hash of the client data.
    #[serde(with = "serde_bytes")]
    pub signature: Vec<u8>,
}

/// A credential that an authenticator just made (WebAuthn level 2, section 7.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolment {
    /// What its user calls it.
    pub name: String,
    /// The relying party that it was made for.
    pub rp_id: String,
    /// The authenticator data, with the new credential in it.
    #[serde(with = "serde_bytes")]
    pub authenticator_data: Vec<u8>,
    /// The client data, as JSON, over [`Act::Enrol`].
    #[serde(with = "serde_bytes")]
    pub client_data: Vec<u8>,
}

/// What is asked about the wing itself: by owners, but for what offers a passkey. See [`crate::rpc::Request::Wing`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WingRequest {
    /// Who is on the list, who waits, what was revoked.
    Clients,
    /// Fresh bytes for a passkey: used once, by this session, within a minute.
    Challenge,
    /// Changes the wing, with a passkey's word on that very change. Acts once for its
    /// request id.
    Change(Box<SignedChange>),
    /// Offers a new passkey for this client. It counts once somebody lets it in.
    Enrol(Box<Enrolment>),
}

/// A change and the assertion over it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedChange {
    /// The change.
    pub change: Change,
    /// Over [`Act::Change`] of it.
    pub assertion: Assertion,
}

/// A wing's answer to a [`WingRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WingResponse {
    /// To [`WingRequest::Clients`].
    Clients(Box<AccessList>),
    /// To [`WingRequest::Challenge`].
    Challenge([u8; 32]),
    /// To [`WingRequest::Change`]: it is done, and sessions that it ends have ended.
    Changed,
    /// To [`WingRequest::Enrol`]: it waits. A comparison in this session gives the code.
    Enrolling,
}

/// A change of who may do what. Taking the lock off is none: that is for the wing's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Lets in whoever waits with this code.
    Approve {
        /// Six digits.
        code: String,
        /// What it may do, for a client.
        role: Role,
        /// Folders that it may start sessions in; empty for all.
        paths: Vec<String>,
    },
    /// Puts a client on the list, or replaces its entry.
    Allow(Allow),
    /// Revokes for good.
    Revoke(Revoked),
    /// Gives a client other terms.
    SetTerms {
        /// Its key.
        client: ClientKey,
        /// Its terms.
        terms: Terms,
    },
    /// Says whether a client is hardware of the owner, which a lock lets in.
    SetHardware {
        /// Its key.
        client: ClientKey,
        /// Whether it is.
        hardware: bool,
    },
    /// Confirms an entry after a lock.
    Confirm {
        /// Its key.
        client: ClientKey,
    },
    /// Sets how the wing decides; locked is [`Change::Lock`].
    SetMode(AdmissionMode),
    /// Locks the wing.
    Lock {
        /// Whether passkeys that were enrolled in a relay's page are refused.
        no_relay_page: bool,
    },
    /// Enrols a passkey that waits.
    EnrolPasskey(Passkey),
    /// Takes a passkey off the list.
    ForgetPasskey {
        /// The credential's id.
        #[serde(with = "serde_bytes")]
        credential: Vec<u8>,
    },
    /// Gives the wing a new noise key.
    Rotate,
}

/// A client to put on the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allow {
    /// Its key.
    pub client: ClientKey,
    /// The device that vouched for it, if one did.
    pub device: Option<DeviceKey>,
    /// What people call it.
    pub name: String,
    /// Where its program came from.
    pub kind: ClientKind,
    /// Whose it is, when several clients of one person share passkeys.
    pub user: Option<String>,
    /// Its terms; without an end they get the longest that its kind may have.
    pub terms: Terms,
    /// Whether it is hardware of the owner.
    pub hardware: bool,
}

/// A passkey as a wing keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passkey {
    /// The credential's id.
    #[serde(with = "base64_bytes")]
    pub credential: Vec<u8>,
    /// Its public key, a COSE key (RFC 9052 section 7).
    #[serde(with = "base64_bytes")]
    pub public_key: Vec<u8>,
    /// Whose entries it counts for.
    pub holder: String,
    /// What its user calls it.
    pub name: String,
    /// The exact origin of the page it was enrolled in.
    pub origin: String,
    /// The relying party that it was made for.
    pub rp_id: String,
    /// The highest signature counter seen; 0 for an authenticator that has none.
    pub counter: u32,
    /// When it was enrolled, in milliseconds since the Unix epoch.
    pub added_at_ms: u64,
}

/// Bytes that are bytes on the wire and base64url in files.
mod base64_bytes {
    use data_encoding::BASE64URL_NOPAD;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.collect_str(&BASE64URL_NOPAD.encode_display(bytes))
        } else {
            to.serialize_bytes(bytes)
        }
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
        if from.is_human_readable() {
            BASE64URL_NOPAD
                .decode(String::deserialize(from)?.as_bytes())
                .map_err(D::Error::custom)
        } else {
            serde_bytes::deserialize(from)
        }
    }
}

/// Who did something to the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// Somebody at the wing's machine.
    Machine,
    /// This client, elsewhere.
    Client(ClientKey),
    /// A grant of this account alone.
    Grant(String),
}

/// What happened to the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Counts up by one.
    pub number: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Who did it.
    pub by: Actor,
    /// What it was.
    pub what: Announced,
}

/// What is announced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Announced {
    /// A client was put on the list.
    Allowed {
        /// Its key.
        client: ClientKey,
        /// What people call it.
        name: String,
        /// What it may do.
        role: Role,
        /// How it came to be there.
        source: Source,
    },
    /// Something was revoked for good.
    Revoked(Revoked),
    /// A client has other terms.
    Terms {
        /// Its key.
        client: ClientKey,
        /// What it may do.
        role: Role,
    },
    /// A client was marked as hardware of the owner, or no longer is.
    Hardware {
        /// Its key.
        client: ClientKey,
        /// Whether it is.
        hardware: bool,
    },
    /// An entry was confirmed after a lock.
    Confirmed {
        /// Its key.
        client: ClientKey,
    },
    /// The wing decides in another way.
    Mode(AdmissionMode),
    /// The wing was locked.
    Locked {
        /// Whether passkeys that were enrolled in a relay's page are refused.
        no_relay_page: bool,
    },
    /// The lock was taken off.
    Unlocked,
    /// A passkey was enrolled.
    PasskeyEnrolled {
        /// What its user calls it.
        name: String,
        /// The page it was enrolled in.
        origin: String,
    },
    /// A passkey was taken off the list.
    PasskeyForgotten {
        /// What its user called it.
        name: String,
    },
    /// The wing has a new noise key.
    Rotated,
    /// An invite was made.
    Invited {
        /// What it lets its user do.
        role: Role,
    },
    /// A key that is on no list came in by a grant alone. Told to every other client.
    EnteredByGrant {
        /// The key.
        client: ClientKey,
        /// The account.
        account: String,
    },
}

/// All that a wing knows of clients, as its owners see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// How it decides.
    pub mode: AdmissionMode,
    /// Who is on the list.
    pub clients: Vec<ClientRecord>,
    /// Who waits to be let in.
    pub waiting: Vec<WaitingRecord>,
    /// The passkeys.
    pub passkeys: Vec<Passkey>,
    /// What was revoked, and when, in milliseconds since the Unix epoch.
    pub revoked: Vec<(Revoked, u64)>,
}

/// A client that is on the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRecord {
    /// What was said when it was put there, with the terms that hold.
    pub allow: Allow,
    /// How it came to be there.
    pub source: Source,
    /// When it was added, in milliseconds since the Unix epoch.
    pub added_at_ms: u64,
    /// Whether somebody compared digits with it.
    pub verified: bool,
    /// Whether a lock waits for its confirmation.
    pub unconfirmed: bool,
}

/// A client, or a passkey of one, that waits to be let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingRecord {
    /// The client's key.
    pub client: ClientKey,
    /// What it calls itself.
    pub name: String,
    /// The account whose grant it has, if it has one.
    pub account: Option<String>,
    /// Whether it is a passkey that waits.
    pub passkey: bool,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_modes_have_the_names_of_files_and_options() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(
                serde_json::to_value(role).unwrap(),
                serde_json::Value::from(role.as_str())
            );
        }
        for mode in [
            AdmissionMode::Approve,
            AdmissionMode::Relay,
            AdmissionMode::Locked,
        ] {
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        assert!("Open".parse::<AdmissionMode>().is_err());
        assert!("root".parse::<Role>().is_err());
        assert_eq!(AdmissionMode::default(), AdmissionMode::Approve);
    }

    #[test]
    fn a_role_may_what_those_before_it_may() {
        assert!(Role::Observer < Role::Operator && Role::Operator < Role::Owner);
    }

    #[test]
    fn acts_that_differ_have_other_bytes() {
        let lock = |no_relay_page| Act::Change(Box::new(Change::Lock { no_relay_page }));
        let bytes = |act: Act| act.canonical().unwrap();

        assert_eq!(bytes(lock(true)), bytes(lock(true)));
        assert_ne!(bytes(lock(true)), bytes(lock(false)));
        assert_ne!(bytes(Act::Enter), bytes(Act::Enrol));
    }
}

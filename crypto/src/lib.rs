//! Noise sessions, identity keys, pins and admission: what makes the relay blind.
//!
//! A client checks a wing's statement against its id ([`verify_statement`]) and its
//! pins ([`Pins`]), starts a handshake ([`Initiator`]), and gets a [`Session`] that
//! only the holder of the certified key can share. The wing answers with
//! [`Responder`], learns the client's key from the handshake, and asks its own list
//! ([`Admission`]) whether to go on: by an entry, an invite ([`Invites`]), a code that was
//! compared ([`Waiting`]), a grant ([`Epochs`]) or a passkey ([`Challenge`]), and then what
//! its role [`permits`]. A session splits into a [`Sealer`] and an
//! [`Opener`], one for each direction; [`Liveness`] decides when it is dead.
//!
//! Like every core, this crate opens no file and no socket and asks no clock: files
//! go in and out as bytes, times as numbers. Randomness comes from the system where
//! a key is made, and nowhere else.
//!
//! What it deliberately does not do: wire types (those are in `wt-protocol`), file
//! locks and permissions (the shell around it), and making grants (a roost does, which
//! must not depend on this crate).
#![forbid(unsafe_code)]

mod admission;
mod cover;
mod file;
mod grants;
mod handshake;
#[cfg(test)]
mod identity_vectors;
mod invites;
mod keys;
mod links;
mod liveness;
mod padding;
mod passkeys;
mod permits;
mod pins;
mod sas;
mod session;
#[cfg(test)]
mod soft;
#[cfg(test)]
mod vectors;
mod waiting;

pub use admission::{
    Admission, AdmissionFileError, Admitted, AdmittedBy, Asking, BROWSER_LIFETIME_MS,
    CLI_LIFETIME_MS, ChangeError, Decision, EnteredByGrant, Entry, Lock,
};
pub use cover::{Cover, SLOT, Slot};
pub use file::FileError;
pub use grants::{CheckedGrant, Epochs, GRANT_LIFETIME, GrantError, GrantTerms};
pub use handshake::{
    Answer, HandshakeError, Incompatible, Initiator, MESSAGE_1_SIZE, MESSAGE_2_SIZE, Responder,
    SUITE, ephemeral_of,
};
pub use invites::{
    INVITE_LIFETIME_MS, InviteSecret, InviteTerms, Invites, NoSuchInvite, NotASecret,
    TooManyInvites,
};
pub use keys::{
    BadSignature, ClientSecret, DeviceSecret, IdentitySecret, KeyError, NoiseSecret,
    StatementError, VerifiedWing, WingIdentity, check_x25519, random, verify, verify_client_key,
    verify_revocation, verify_statement, verify_successor,
};
pub use links::{LinkError, WingLink};
pub use liveness::Liveness;
pub use padding::Padding;
pub use passkeys::{Asserted, CHALLENGE_LIFETIME_MS, Challenge, PasskeyError, passkey_challenge};
pub use permits::{may_choose, may_start_in, permits};
pub use pins::{
    AddWingError, Change, Fingerprint, Forgotten, LabelConflict, LabelTaken, Notice, Observation,
    Pin, PinFileError, PinRefusal, Pins, Presented, ResolveError, Resolved, Tombstone,
};
pub use sas::{BrokenCommitment, CompareClient, CompareRuns, CompareWing, Digits, TooManyRuns};
pub use session::{Fill, Opened, Opener, SealError, Sealer, Session, SessionDead, SessionLimits};
pub use waiting::{CodeError, WAIT_LIFETIME_MS, WaitError, Waiter, Waiting, Wants};
pub use wt_protocol::access::{AdmissionMode, Revoked, Role, Source, UnknownMode};

//! Noise sessions, identity keys, pins and admission: what makes the relay blind.
//!
//! A client checks a wing's statement against its id ([`verify_statement`]) and its
//! pins ([`Pins`]), starts a handshake ([`Initiator`]), and gets a [`Session`] that
//! only the holder of the certified key can share. The wing answers with
//! [`Responder`], learns the client's key from the handshake, and asks its own list
//! ([`Admission`]) whether to go on. A session splits into a [`Sealer`] and an
//! [`Opener`], one for each direction; [`Liveness`] decides when it is dead.
//!
//! Like every core, this crate opens no file and no socket and asks no clock: files
//! go in and out as bytes, times as numbers. Randomness comes from the system where
//! a key is made, and nowhere else.
//!
//! What it deliberately does not do: wire types (those are in `wt-protocol`), file
//! locks and permissions (the shell around it), and grants or passkeys.
#![forbid(unsafe_code)]

mod admission;
mod handshake;
mod keys;
mod liveness;
mod padding;
mod pins;
mod session;
#[cfg(test)]
mod vectors;

pub use admission::{
    AddError, Admission, AdmissionFileError, AdmissionMode, Decision, Entry, Revoked, Role, Source,
    UnknownMode,
};
pub use handshake::{
    Answer, HandshakeError, Incompatible, Initiator, MESSAGE_1_SIZE, MESSAGE_2_SIZE, Responder,
    SUITE, ephemeral_of,
};
pub use keys::{
    BadSignature, ClientSecret, DeviceSecret, IdentitySecret, KeyError, NoiseSecret,
    StatementError, VerifiedWing, WingIdentity, check_x25519, random, verify, verify_client_key,
    verify_statement,
};
pub use liveness::Liveness;
pub use padding::Padding;
pub use pins::{
    Change, Fingerprint, LabelConflict, LabelTaken, Observation, Pin, PinFileError, PinRefusal,
    Pins, Presented, ResolveError, Resolved, Tombstone,
};
pub use session::{Fill, Opened, Opener, SealError, Sealer, Session, SessionDead, SessionLimits};

//! Everything that two ends of wingthing must agree on, and nothing that acts.
//!
//! This crate holds ids, frames, messages, versions, limits and the canonical
//! bytes that get signed. It does no IO, asks no clock and keeps no secrets, so
//! every part of it can be driven from a test with literal values.
//!
//! What it deliberately does not do: seal anything (that is `wt-crypto`), decide
//! who may reach whom (`wt-relay-core`) or move bytes (`wt-link`).
//!
//! Messages are enums whose variants are only ever appended. The golden vectors
//! in `protocol/vectors` pin the bytes of every one of them.
#![forbid(unsafe_code)]

pub mod access;
pub mod api;
pub mod codec;
pub mod codes;
pub mod control;
mod deframer;
mod header;
mod ids;
pub mod keys;
pub mod limits;
pub mod local;
mod record;
pub mod remote;
pub mod rpc;
pub mod session;
pub mod signed;

pub use codec::{DecodeError, EncodeError};
pub use deframer::{Deframer, FrameError, Prefix, frame};
pub use header::{RouteHeader, StreamHeader, VersionRange};
pub use ids::{
    AttachmentId, EggEpoch, IdError, InstanceId, RequestId, RoostId, RouteNonce, SessionId,
    SessionName, WingId, WingLabel,
};
pub use record::{Close, Record};

/// The newest version of the sealed session protocol that this build speaks.
pub const PROTOCOL_VERSION: u16 = 1;

/// The ALPN protocol name of a QUIC link.
pub const LINK_ALPN: &[u8] = b"wt/1";

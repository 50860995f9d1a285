//! The wing: the daemon on a user's machine, and the native client half.
//!
//! A profile is one folder (`WINGTHING_DIR`) with one identity, its sessions and its
//! pins. This crate finds and starts its sessions ([`sessions`]), keeps its keys, lists
//! and pins ([`profile`]), serves its sessions through a relay ([`daemon`]), and reaches
//! the sessions of other wings ([`client`], [`attach`]).
//!
//! What it deliberately does not do: talk to a user (`wt` does), run a relay
//! (`wt-relay` does), or own a terminal (each session's own process does, `wt-egg`).
#![forbid(unsafe_code)]

pub mod admission;
pub mod agents;
pub mod attach;
mod backoff;
pub mod boundary;
pub mod checkup;
pub mod client;
pub mod config;
pub mod control;
pub mod daemon;
mod error;
pub mod host;
mod http;
pub mod login;
pub mod login_path;
pub mod pins;
pub mod profile;
pub mod remote;
mod requests;
mod sealed;
mod serve;
mod service;
pub mod sessions;
pub mod stdio;
pub mod trust;
mod uplink;
pub mod why;

pub use error::{Error, ErrorCode};
pub use uplink::Uplink;

/// The version of wingthing that this is.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

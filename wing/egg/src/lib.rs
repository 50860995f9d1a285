//! An egg: one durable terminal session in a process of its own.
//!
//! The egg process owns a program, its terminal, everything it printed, and a model of
//! its screen. Clients come and go over a Unix socket in the session's folder; the
//! program never waits for one. The process is started by the command line or by the
//! wing and outlives both.
//!
//! What this crate deliberately does not do: know of relays, accounts or sealed
//! sessions (`wt-wing` does), or decide what a session is called and where it starts.
//!
//! Decisions live in cores without IO ([`attachments`], [`mod@env`], [`screen`]); the
//! process around them is in [`server`].
#![forbid(unsafe_code)]

pub mod attachments;
pub mod backend;
pub mod boundary;
pub mod cast;
pub mod client;
pub mod dir;
pub mod env;
mod input;
mod limits;
pub mod log;
pub mod machine;
mod master;
pub mod play;
pub mod process;
pub mod pty;
pub mod recording;
pub mod screen;
pub mod server;
pub mod socket;
pub mod typing;
pub mod waiting;
pub mod wire;

pub use client::EggClient;
pub use dir::{DirError, EggDir, ExitRecord, Meta};
pub use limits::LifeLimits;
pub use machine::{Machine, Relation};

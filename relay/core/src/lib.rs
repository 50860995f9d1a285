//! Who is online, who may reach whom, which stream goes where, and how much.
//!
//! [`Core`] is told what happened (a link proved itself, a client asks for a route, a link
//! ended) and answers with what to do. It asks no clock, opens no socket and waits for
//! nothing, so every rule can be tried with literal values. Its shell is
//! `relay/src/driver.rs`; the bytes of a route never come near it.
//!
//! What it deliberately does not do: verify proofs (the shell does, before a link comes
//! here) or remember wings that are not connected (the store does).
#![forbid(unsafe_code)]

mod bucket;
mod core;
mod limits;

pub use crate::core::{
    Account, Bound, Command, Core, Counts, LinkId, NewLink, Refused, Registered, RouteId,
};
pub use limits::Limits;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

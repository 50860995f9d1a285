//! From a policy to a process that cannot leave it.
//!
//! [`wt_policy::EffectivePolicy`] says what a session may do. [`compile`] turns it into a
//! [`plan::Plan`] without touching anything, [`spawn`] carries the plan out in a process of
//! its own, and [`proxy`] answers for what leaves that process by the network. Whatever
//! cannot be enforced stops the start.
//!
//! What this crate deliberately does not do: decide a policy (`wt-policy` does), keep a
//! terminal or talk to clients (`wt-egg` does).
#![deny(unsafe_code)]

pub mod aftermath;
pub mod cgroup;
mod compile;
mod control;
mod error;
pub mod host;
mod init;
pub mod landlock;
mod mounts;
mod network;
pub mod plan;
pub mod privileges;
pub mod probe;
pub mod proxy;
pub mod rlimits;
pub mod seccomp;
pub mod settings;
mod spawn;
mod stage;
#[allow(unsafe_code)]
mod sys;
#[cfg(test)]
mod testing;

pub use compile::{Request, compile};
pub use control::ExecFailure;
pub use error::{EnforcementError, Step};
pub use network::address as listener_address;
pub use spawn::{Attested, Enforced, Layer, Sandboxed, SpawnError, Stage, spawn};
pub use stage::{STAGE_ARG, run_if_stage, stage_main};

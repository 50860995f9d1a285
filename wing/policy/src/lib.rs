//! What an agent is and what a session may do, as data.
//!
//! [`AgentProfile`] describes one agent: its programs, how it is started and resumed, and
//! the variables, paths and hosts without which it does not work. The known ones are
//! embedded from `agents/*.yaml`; the same parser reads profiles that a user writes.
//!
//! What this crate deliberately does not do: look for programs, read files or the
//! environment, or enforce anything. Text and values come in, values go out, so that every
//! rule can be tried with literals and the one who enforces a policy and the one who
//! explains it ask the same code.
#![forbid(unsafe_code)]

mod agents;
mod names;
mod version;
mod yaml;

pub use agents::{
    AgentPath, AgentProfile, Environment, InputHabits, LaunchError, MAX_ENTER_DELAY, Network,
    PathKind, Resume, ResumeWords,
};
pub use names::{DomainPattern, EnvName, HomePath, NameError, ProgramName};
pub use version::parse_version;
pub use yaml::{MAX_YAML_BYTES, ParseError};

//! What an agent is and what a session may do, as data.
//!
//! [`AgentProfile`] describes one agent: its programs, how it is started and resumed, and
//! the variables, paths and hosts without which it does not work. The known ones are
//! embedded from `agents/*.yaml`; the same parser reads profiles that a user writes.
//!
//! [`EggConfig`] is one `egg.yaml`. [`load`] finds those that take part in a session and
//! [`resolve`] puts them, the built-in default ([`defaults`]) and the agent's profile
//! together into an [`EffectivePolicy`], in which every grant has its source. That is what
//! is enforced (by wt-sandbox), asked ([`EffectivePolicy::access`],
//! [`NetworkPolicy::decide`]), shown ([`EffectivePolicy::explain`]) and compared ([`diff`]).
//!
//! What this crate deliberately does not do: look for programs, read files or the
//! environment, or enforce anything. Text and values come in, values go out, so that every
//! rule can be tried with literals and the one who enforces a policy and the one who
//! explains it ask the same code.
#![forbid(unsafe_code)]

mod agents;
mod config;
pub mod defaults;
mod drill;
mod effective;
mod environment;
mod explain;
mod init;
mod layers;
mod names;
mod net;
mod paths;
mod resolve;
mod units;
mod version;
mod yaml;

pub use agents::{
    AgentPath, AgentProfile, Environment, InputHabits, LaunchError, MAX_ENTER_DELAY, Network,
    OneFolder, PathKind, Resume, ResumeWords,
};
pub use config::{
    AgentDomainsWord, Base, BaseName, EggConfig, EnvEntry, EnvField, FsEntry, HostEntry, Located,
    MAX_LIST, MAX_PATH, Mask, ModeWord, NetworkField, NetworkMap, ResourceField,
};
pub use drill::PROVIDER_VARIABLE;
pub use effective::{
    Addition, EffectivePolicy, EnvPolicy, FileAccess, FileRule, Granted, NetworkMode, NetworkNeed,
    NetworkPolicy, Resources, Source,
};
pub use environment::{SessionEnv, is_held_back, session_env};
pub use explain::{
    Change, EXPLAIN_VERSION, Effect, ExplainedAddition, ExplainedMount, ExplainedNetwork,
    Explanation, diff,
};
pub use init::{ProjectFacts, init_text};
pub use layers::{
    BASES_FOLDER, ConfigFile, EGG_FILE, Files, LayerError, Layers, MAX_DEPTH, MAX_FILES,
    OptionLayer, Origin, Places, load, load_file,
};
pub use names::{DomainPattern, EnvName, HomePath, NameError, ProgramName};
pub use net::{
    AddressClass, AddressRange, Basis, Denial, DenyReason, Destination, DestinationError, Host,
    HostError, HostName, HostPattern, HostRule, MAX_DIALLED, Permit, Port, PortError, Ports,
    RuleError, Verdict, Vetted, VettedAddress,
};
pub use resolve::{Facts, MAX_RULES, Platform, Request, resolve, unsafe_root};
pub use version::parse_version;
pub use yaml::{MAX_YAML_BYTES, ParseError};

//! What a session may do, resolved: every grant with its source and reason.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::PathKind;
use crate::net::{HostRule, Port};

/// The policy of one session: what the layers of configuration say together.
///
/// It is made by [`crate::resolve`] alone, and it is what is enforced and what is explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectivePolicy {
    /// The agent whose profile took part, if any.
    pub agent: Option<String>,
    /// Where the configuration nearest to the session came from.
    pub config_source: Source,
    /// Whether that configuration may widen what the layers below it allow.
    pub trusted: bool,
    /// The rules for files. A later rule of the same strength wins at the same path;
    /// the most specific path decides, and at equal paths deny beats deny-write beats
    /// read-only beats read-write.
    pub files: Vec<FileRule>,
    /// Whom the session may talk to.
    pub network: NetworkPolicy,
    /// Which variables it gets from its maker, beyond those that every session has.
    pub env: EnvPolicy,
    /// How much it may use.
    pub resources: Resources,
    /// The shell of a session that names no command.
    pub shell: Option<String>,
    /// Whether its agent is told to ask no questions.
    pub skip_permissions: bool,
    /// Whether it is recorded.
    pub audit: bool,
    /// Whether its system calls are logged.
    pub trace: bool,
    /// Settings files that an agent starts with, by the agent's name.
    pub agent_settings: BTreeMap<String, String>,
    /// What the agent's profile added.
    pub drilled: Vec<Addition>,
    /// What follows from something else, like a port from an address.
    pub derived: Vec<Addition>,
    /// What was asked for and is not applied.
    pub suppressed: Vec<Addition>,
}

/// One rule for files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRule {
    /// What it says.
    pub access: FileAccess,
    /// The absolute path, without `.`, `..`, empty parts or a final slash, links not yet
    /// followed. A last part with `*` stands for the names that match it when the session
    /// starts (as `/home/ada/.claude.json*` does).
    pub path: String,
    /// What is there, when the rule's maker knows; a directory unless it is a file.
    pub kind: Option<PathKind>,
    /// Who says so.
    pub source: Source,
    /// Why, in a few words, for rules that nobody wrote down.
    pub reason: Option<String>,
}

/// What may be done at and below a path, from the weakest restriction to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileAccess {
    /// Read and written.
    Rw,
    /// Read.
    Ro,
    /// Read, and kept as it is though what is around it may be written.
    DenyWrite,
    /// Neither.
    Deny,
}

/// Who asks for a grant or a restriction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Source {
    /// Built in: it holds where nothing else is said.
    Default,
    /// Built in, and nothing can lift it.
    Core,
    /// The profile of an agent.
    Agent {
        /// The agent's name.
        name: String,
    },
    /// A base that another file builds on.
    Base {
        /// The file.
        path: String,
        /// The line, from 1.
        line: Option<u64>,
    },
    /// The user's own file.
    User {
        /// The file.
        path: String,
        /// The line, from 1.
        line: Option<u64>,
    },
    /// The file of the project that the session starts in.
    Project {
        /// The file.
        path: String,
        /// The line, from 1.
        line: Option<u64>,
    },
    /// A file named on the command line.
    Named {
        /// The file.
        path: String,
        /// The line, from 1.
        line: Option<u64>,
    },
    /// An option of the command line, or a variable that stands for one.
    Option {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = |f: &mut fmt::Formatter<'_>, what: &str, path: &str, line: &Option<u64>| {
            write!(f, "{what} {path}")?;
            line.map_or(Ok(()), |line| write!(f, ":{line}"))
        };
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::Core => f.write_str("built in, always"),
            Self::Agent { name } => write!(f, "profile of {name}"),
            Self::Base { path, line } => file(f, "base", path, line),
            Self::User { path, line } => file(f, "user file", path, line),
            Self::Project { path, line } => file(f, "project file", path, line),
            Self::Named { path, line } => file(f, "named file", path, line),
            Self::Option { name } => write!(f, "option {name}"),
        }
    }
}

/// Something that was added to a policy or left out of it, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addition {
    /// What it concerns: `domain`, `local_port`, `rw`, `ro`, `deny`, `deny-write`, `env`, `resource`,
    /// `mode`, `audit`, `shell`, `base`, `skip_permissions`, `agent_settings`.
    pub kind: String,
    /// The path, name or value.
    pub value: String,
    /// Who asked for it.
    pub source: Source,
    /// Why it was added or left out, as half a sentence.
    pub reason: String,
}

/// Whom a session may talk to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPolicy {
    /// What is allowed in general.
    pub need: NetworkNeed,
    /// The hosts that are allowed, with their sources.
    pub hosts: Vec<Granted<HostRule>>,
    /// Ports of servers on the same machine.
    pub local_ports: Vec<Granted<Port>>,
    /// What happens to a connection that no rule allows.
    pub mode: NetworkMode,
}

/// How much of a network a session needs, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkNeed {
    /// None at all.
    None,
    /// Ports of the same machine alone.
    Local,
    /// Some hosts.
    Hosts,
    /// Any public host.
    Any,
}

/// What happens to a connection that no rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// It is refused and noted.
    Enforce,
    /// It is let through to public addresses and noted. Private addresses, the machine itself and
    /// cloud metadata stay refused.
    Observe,
}

/// A value that was granted, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted<T> {
    /// What.
    pub value: T,
    /// By whom.
    pub source: Source,
}

/// Which variables a session gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvPolicy {
    /// Whether all variables of the maker are passed on (`*`).
    pub all: bool,
    /// Variables that are passed on by name.
    pub pass: Vec<Granted<String>>,
    /// Variables that are set unless the maker has them.
    pub set: BTreeMap<String, String>,
}

/// How much a session may use. `None` means that nobody asked for a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Computing time of all its processes together.
    pub cpu: Option<Duration>,
    /// Memory of all its processes together, in bytes.
    pub memory: Option<u64>,
    /// Open files of one process.
    pub max_fds: Option<u32>,
    /// Processes and threads at once.
    pub max_pids: Option<u32>,
}

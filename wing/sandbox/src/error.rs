//! Why a boundary could not be put up.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// A part of the boundary that could not be put up; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the sandbox could not be enforced: {step}: {cause}")]
pub struct EnforcementError {
    /// What was being done.
    pub step: Step,
    /// What went wrong, with the path or value that it concerns.
    pub cause: String,
    /// One thing to try.
    pub hint: String,
}

impl EnforcementError {
    /// Makes an error of a step, with its usual hint.
    pub fn new(step: Step, cause: impl Into<String>) -> Self {
        Self {
            step,
            cause: cause.into(),
            hint: step.hint().to_owned(),
        }
    }

    /// Makes an error of what the system said about `what`.
    pub fn system(step: Step, what: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(step, format!("{what}: {error}"))
    }

    /// Replaces the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// A step on the way from a policy to an enforced process, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Looking at what the host can do.
    Probe,
    /// Following the policy's paths and comparing them with each other.
    Paths,
    /// Setting limits on what the session may use.
    Resources,
    /// Starting the process that puts the boundary up.
    Stage,
    /// Making the namespaces.
    Namespaces,
    /// Mapping user and group ids.
    IdMap,
    /// Leaving the keyring of the maker.
    Keyring,
    /// Making the file system of the session.
    Mounts,
    /// Bringing up the network of the session and its listeners.
    Network,
    /// Making the terminal of the session.
    Terminal,
    /// Giving up capabilities and the way to gain new ones.
    Privileges,
    /// Restricting file access by Landlock.
    Landlock,
    /// Restricting system calls by seccomp.
    Seccomp,
    /// Closing what was inherited.
    Descriptors,
    /// Checking from the inside that all of it holds.
    SelfCheck,
    /// Starting the way out to the network.
    Egress,
}

impl Step {
    /// The name of the step, as in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Paths => "paths",
            Self::Resources => "resources",
            Self::Stage => "stage",
            Self::Namespaces => "namespaces",
            Self::IdMap => "id-map",
            Self::Keyring => "keyring",
            Self::Mounts => "mounts",
            Self::Network => "network",
            Self::Terminal => "terminal",
            Self::Privileges => "privileges",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Descriptors => "descriptors",
            Self::SelfCheck => "self-check",
            Self::Egress => "egress",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Paths => "`wt egg explain` shows every rule with its source",
            Self::Resources => "leave the limit out, or run where cgroups can be written",
            _ => {
                "`wt doctor` shows what this host can enforce; `--unsandboxed` is for hosts \
                 that are a boundary of their own"
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

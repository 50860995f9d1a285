//! What holds a session's program: the seam for every kind of boundary.
//!
//! A backend starts one program on a new terminal. It either enforces all that it was
//! asked to, or refuses; what it enforces is what it says in [`Backend::isolation`].

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};
use wt_protocol::rpc::{Failure, FailureKind, Isolation};
use wt_protocol::session::Winsize;
use wt_sandbox::EnforcementError;

/// Starts programs inside one kind of boundary.
pub trait Backend: Send + Sync {
    /// The boundary that a program started here is held by.
    fn isolation(&self) -> Isolation;

    /// Starts a program on a new terminal of this size.
    ///
    /// # Errors
    /// Why it could not be started; nothing is left running then.
    fn spawn(&self, program: &Program, size: Winsize) -> Result<Spawned, SpawnError>;
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The command and its arguments; empty for the login shell.
    pub command: Vec<String>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// All of its variables.
    pub env: Vec<(String, String)>,
}

impl Program {
    /// The value of one of its variables.
    pub fn var(&self, key: &str) -> Option<&str> {
        self.env
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }
}

/// A program that runs, and its terminal.
pub struct Spawned {
    /// Its process id, as the host sees it.
    pub pid: u32,
    /// The child of this process whose end is the end of the program.
    pub ends_with: u32,
    /// The master end of its terminal, in non-blocking mode: what it prints and what it reads.
    pub master: File,
    /// Its terminal's size.
    pub terminal: Box<dyn Terminal>,
    /// What its user should know of how it is held, each one sentence.
    pub notes: Vec<String>,
    /// What holds it, if anything does.
    pub held: Option<Box<dyn Held>>,
}

/// A boundary around a program that runs. Dropping it ends what it holds.
pub trait Held: Send {
    /// How the program ended. Asked once the child that ends with it was reaped.
    ///
    /// # Errors
    /// What the system says.
    fn status(&self) -> io::Result<ExitStatus>;

    /// Whether there is something that it may use up, so that it must be looked at.
    fn has_budget(&self) -> bool;

    /// Why the program is to be ended now, if it has used more than it may.
    fn over_budget(&self) -> Option<String>;

    /// Takes the boundary down once nothing is left in it, and tells what its user should
    /// know now, each one sentence. Blocks, for seconds at most.
    fn clear_up(self: Box<Self>) -> Vec<String>;
}

/// A terminal whose size can change.
pub trait Terminal: Send {
    /// Tells the terminal, and by it the program, its size.
    ///
    /// # Errors
    /// What the system says.
    fn resize(&self, size: Winsize) -> io::Result<()>;

    /// The process group in the foreground, to which its keys go.
    fn foreground(&self) -> Option<u32>;
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No such command.
    #[error("{0}: command not found")]
    NotFound(String),
    /// The file is there and cannot be run.
    #[error("{path} cannot be run: {reason}")]
    NotRunnable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The folder to start in is not there.
    #[error("the folder {0} does not exist or is not a folder")]
    NoFolder(PathBuf),
    /// A terminal or process could not be made.
    #[error("cannot start {what}: {reason}")]
    System {
        /// What was being made.
        what: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The boundary could not be put up.
    #[error(transparent)]
    NotEnforced(#[from] EnforcementError),
}

impl From<wt_sandbox::SpawnError> for SpawnError {
    fn from(error: wt_sandbox::SpawnError) -> Self {
        match error {
            wt_sandbox::SpawnError::Enforcement(error) => Self::NotEnforced(error),
            wt_sandbox::SpawnError::Program(failure) if failure.missing => {
                Self::NotFound(failure.file)
            }
            wt_sandbox::SpawnError::Program(failure) => Self::NotRunnable {
                path: failure.file.into(),
                reason: failure.reason,
            },
        }
    }
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        let (kind, hint) = match &error {
            SpawnError::NotFound(_) => (
                FailureKind::CommandNotFound,
                "check the name, or give its whole path",
            ),
            SpawnError::NotRunnable { .. } => (
                FailureKind::CommandNotRunnable,
                "check the file's permissions",
            ),
            SpawnError::NoFolder(_) => (FailureKind::Failed, "give another folder with --cwd"),
            SpawnError::System { .. } => (
                FailureKind::Failed,
                "check the limits on processes and terminals",
            ),
            SpawnError::NotEnforced(error) => (FailureKind::NotEnforced, error.hint.as_str()),
        };
        Failure::new(kind, error.to_string()).hint(hint)
    }
}

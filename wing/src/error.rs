//! What went wrong, as a command says it: what failed and why, and one thing to try.

use std::fmt;

use wt_files::FileError;
use wt_protocol::rpc::{Failure, FailureKind};

/// Kinds of error; each is an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// It was tried and did not work.
    Failed,
    /// The request is wrong in itself.
    Usage,
    /// Nothing of that name, or more than one.
    NotFound,
    /// A wing or roost is not the one that was pinned.
    IdentityMismatch,
    /// Not signed in, or not let in.
    Refused,
    /// The link was lost, or nobody answers.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// A guard could not be set up.
    NotEnforced,
    /// The command cannot be run.
    CommandNotRunnable,
    /// The command does not exist.
    CommandNotFound,
}

impl ErrorCode {
    /// The exit code of a command that ends with this.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorCode::Failed => 1,
            ErrorCode::Usage => 2,
            ErrorCode::NotFound => 3,
            ErrorCode::IdentityMismatch => 4,
            ErrorCode::Refused => 5,
            ErrorCode::Unreachable => 6,
            ErrorCode::TimedOut => 7,
            ErrorCode::NotEnforced => 8,
            ErrorCode::CommandNotRunnable => 126,
            ErrorCode::CommandNotFound => 127,
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::Failed => "failed",
            ErrorCode::Usage => "usage",
            ErrorCode::NotFound => "not_found",
            ErrorCode::IdentityMismatch => "identity_mismatch",
            ErrorCode::Refused => "refused",
            ErrorCode::Unreachable => "unreachable",
            ErrorCode::TimedOut => "timed_out",
            ErrorCode::NotEnforced => "not_enforced",
            ErrorCode::CommandNotRunnable => "command_not_runnable",
            ErrorCode::CommandNotFound => "command_not_found",
        }
    }
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind.
    pub code: ErrorCode,
    /// What failed and why, in one sentence.
    pub message: String,
    /// One thing to try.
    pub hint: Option<String>,
}

impl Error {
    /// An error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// Something that did not work.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(ErrorCode::Failed, message.to_string())
    }

    /// Adds one thing to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let code = match failure.kind {
            FailureKind::Failed => ErrorCode::Failed,
            FailureKind::Invalid => ErrorCode::Usage,
            FailureKind::NotFound => ErrorCode::NotFound,
            FailureKind::Refused => ErrorCode::Refused,
            FailureKind::Unreachable => ErrorCode::Unreachable,
            FailureKind::TimedOut => ErrorCode::TimedOut,
            FailureKind::CommandNotFound => ErrorCode::CommandNotFound,
            FailureKind::CommandNotRunnable => ErrorCode::CommandNotRunnable,
            FailureKind::NotEnforced => ErrorCode::NotEnforced,
        };
        Self {
            code,
            message: failure.message,
            hint: failure.hint,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error.code {
            ErrorCode::Failed => FailureKind::Failed,
            ErrorCode::Usage => FailureKind::Invalid,
            ErrorCode::NotFound => FailureKind::NotFound,
            // A session is never compared with a pin: a mismatch is a refusal here.
            ErrorCode::IdentityMismatch | ErrorCode::Refused => FailureKind::Refused,
            ErrorCode::Unreachable => FailureKind::Unreachable,
            ErrorCode::TimedOut => FailureKind::TimedOut,
            ErrorCode::NotEnforced => FailureKind::NotEnforced,
            ErrorCode::CommandNotRunnable => FailureKind::CommandNotRunnable,
            ErrorCode::CommandNotFound => FailureKind::CommandNotFound,
        };
        Self {
            kind,
            message: error.message,
            hint: error.hint,
        }
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        let hint = match &error {
            FileError::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull => Some("free some space on that disk"),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    Some("make the folder writable, or set WINGTHING_DIR to another one")
                }
                _ => None,
            },
            FileError::TooLarge { .. } => Some("move the file away, if it is not wingthing's"),
            FileError::Locked { .. } => Some("try again in a moment"),
            FileError::SocketPath { .. } => Some("set WINGTHING_DIR to a shorter path"),
        };
        Self {
            code: ErrorCode::Failed,
            message: error.to_string(),
            hint: hint.map(str::to_owned),
        }
    }
}

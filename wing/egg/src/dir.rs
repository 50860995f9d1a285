//! The folder of one session: `$WINGTHING_DIR/eggs/ID/`.
//!
//! | file | what it is |
//! |---|---|
//! | `meta.json` | what the session is; written by whoever starts it, then by its egg alone |
//! | `key` | 32 random bytes; who can read them may talk to the egg |
//! | `sock` | the egg's Unix socket |
//! | `agent.sock` | a link to the SSH agent of whoever attached last |
//! | `alive` | locked for as long as the egg process lives |
//! | `output/` | what the program printed, see [`crate::log`] |
//! | `recording` | its output with times, when it is recorded, see [`crate::recording`] |
//! | `exit.json` | how it ended |
//! | `egg.log` | the egg's own words |

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wt_files::{FileError, Lock};
use wt_protocol::rpc::{Isolation, Principal, SessionKind};
use wt_protocol::session::{Exit, Winsize};
use wt_protocol::{EggEpoch, SessionId, SessionName};

use crate::machine::Machine;
use crate::recording::RECORDING_FILE;

/// Largest metadata file, in bytes: a command of the largest size and room around it.
const MAX_META: u64 = 1 << 20;

/// The version of the files in a session's folder.
pub const DIR_VERSION: u32 = 1;

/// What a session is, as its folder says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of this file.
    pub version: u32,
    /// Immutable id.
    pub id: SessionId,
    /// Name.
    pub name: SessionName,
    /// What kind of program it runs.
    pub kind: SessionKind,
    /// The agent's name, for an agent.
    pub agent: Option<String>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Where it was started.
    pub cwd: PathBuf,
    /// What holds it.
    pub isolation: Isolation,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// Who made it.
    pub created_by: Principal,
    /// Its terminal's size when it was last written.
    pub size: Winsize,
    /// Output that it keeps, in bytes.
    pub output_window: u64,
    /// This life of the egg; none before the egg runs.
    pub epoch: Option<EggEpoch>,
    /// The egg's process id.
    pub egg_pid: Option<u32>,
    /// The program's process id.
    pub pid: Option<u32>,
    /// The boot that the process ids belong to.
    pub boot_id: Option<String>,
    /// The machine that the process ids belong to; none in folders of older programs.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// The version of the program that the egg runs; none in folders of older programs.
    #[serde(default)]
    pub program_version: Option<String>,
}

/// How a session ended, as its folder says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Version of this file.
    pub version: u32,
    /// How the program ended.
    pub exit: Exit,
    /// Whether somebody ended it, rather than itself.
    pub killed: bool,
    /// Bytes it printed in all.
    pub bytes_written: u64,
    /// Why it was ended, when the egg itself decided that; one sentence.
    #[serde(default)]
    pub note: Option<String>,
    /// What its user was told of its start, each one sentence.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What its user should know of what it left, each one sentence.
    #[serde(default)]
    pub left: Vec<String>,
}

/// Why a session's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is there and is not what it should be.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that must be there is not.
    #[error("{0} is missing")]
    Missing(PathBuf),
}

/// The folder of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EggDir {
    path: PathBuf,
}

impl EggDir {
    /// Names a folder; nothing is read or made.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The egg's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("sock")
    }

    /// The link to an SSH agent that the session's program uses.
    pub fn agent_socket(&self) -> PathBuf {
        self.path.join("agent.sock")
    }

    /// The folder of the output log.
    pub fn output(&self) -> PathBuf {
        self.path.join("output")
    }

    /// The recording of a session that is recorded.
    pub fn recording(&self) -> PathBuf {
        self.path.join(RECORDING_FILE)
    }

    /// Decisions on the session's connections.
    pub fn network_log(&self) -> PathBuf {
        self.path.join("network.log")
    }

    /// What is active in the session's boundary.
    pub fn enforced(&self) -> PathBuf {
        self.path.join("enforced.json")
    }

    /// The policy that the session was started with.
    pub fn policy(&self) -> PathBuf {
        self.path.join("policy.json")
    }

    /// Settings that the session changed and that were put back.
    pub fn kept_settings(&self) -> PathBuf {
        self.path.join("settings")
    }

    /// The egg's own log file.
    pub fn log_file(&self) -> PathBuf {
        self.path.join("egg.log")
    }

    /// The file that is locked while the egg lives.
    pub fn alive(&self) -> PathBuf {
        self.path.join("alive")
    }

    /// Whether the egg process lives.
    ///
    /// # Errors
    /// What the system says about the lock file.
    pub fn is_alive(&self) -> Result<bool, FileError> {
        Lock::is_held(&self.alive())
    }

    /// Reads what the session is.
    ///
    /// # Errors
    /// A missing or damaged file, or a version that this build does not know.
    pub fn meta(&self) -> Result<Meta, DirError> {
        let path = self.path.join("meta.json");
        let meta: Meta = read_json(&path)?.ok_or_else(|| DirError::Missing(path.clone()))?;
        if meta.version != DIR_VERSION {
            let reason = format!("version {} is not known here", meta.version);
            return Err(DirError::Damaged { path, reason });
        }
        Ok(meta)
    }

    /// Writes what the session is.
    ///
    /// # Errors
    /// What the system says; the old file is then unchanged.
    pub fn write_meta(&self, meta: &Meta) -> Result<(), FileError> {
        write_json(&self.path.join("meta.json"), meta)
    }

    /// Reads how the session ended, if it did.
    ///
    /// # Errors
    /// A damaged file.
    pub fn exit(&self) -> Result<Option<ExitRecord>, DirError> {
        read_json(&self.path.join("exit.json"))
    }

    /// Writes how the session ended.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_exit(&self, record: &ExitRecord) -> Result<(), FileError> {
        write_json(&self.path.join("exit.json"), record)
    }

    /// Reads the key that the first local message must carry.
    ///
    /// # Errors
    /// A missing file, or one of another length.
    pub fn key(&self) -> Result<[u8; 32], DirError> {
        let path = self.path.join("key");
        let bytes =
            wt_files::read_capped(&path, 32)?.ok_or_else(|| DirError::Missing(path.clone()))?;
        bytes.try_into().map_err(|_| DirError::Damaged {
            path,
            reason: "it is not 32 bytes".into(),
        })
    }

    /// Writes the key.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_key(&self, key: &[u8; 32]) -> Result<(), FileError> {
        wt_files::write_whole(&self.path.join("key"), key)
    }
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, DirError> {
    let Some(bytes) = wt_files::read_capped(path, MAX_META)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| DirError::Damaged {
            path: path.to_owned(),
            reason: e.to_string(),
        })
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    let bytes =
        serde_json::to_vec_pretty(value).expect("these types have no value that JSON lacks");
    wt_files::write_whole(path, &bytes)
}

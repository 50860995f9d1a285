//! State files of wings, clients and relays.
//!
//! A state file is replaced whole (temporary file, fsync, rename, fsync of its
//! folder), so a reader or a crash sees the old one or the new one and never a mix.
//! A file that cannot be read is an error that names it; nothing here ever starts
//! over with an empty one.
//!
//! Writers of one file take its lock first: the temporary file has a fixed name, so
//! that a writer that was killed leaves at most one behind, which the next replaces.
#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How often a waiting process looks whether a lock is free.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// Longest Unix socket path, in bytes: `sun_path` of Linux has 108 with the final zero (unix(7)).
pub const MAX_SOCKET_PATH: usize = 107;

/// What could not be done with a file, and which one.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system said no.
    #[error("cannot {act} {path}: {source}")]
    Io {
        /// What was tried.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is larger than its kind ever is, so it is not what it should be.
    #[error("{path} is larger than {max} bytes, which its kind never is")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that its kind may have.
        max: u64,
    },
    /// Another process held the lock for the whole wait.
    #[error("{path} is held by another process for longer than {} s", waited.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// A socket there could never be connected to.
    #[error(
        "the path {path} is too long for a socket: it has {length} bytes and the system allows {MAX_SOCKET_PATH}"
    )]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// Its bytes.
        length: usize,
    },
}

impl FileError {
    /// Wraps what the system said about a file.
    pub fn io(act: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            act,
            path: path.to_owned(),
            source,
        }
    }
}

/// Makes a folder that only its owner may enter (0700), with its parents.
///
/// # Errors
/// What the system says. An existing folder is left as it is.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| FileError::io("create", path, e))
}

/// Replaces a file whole, readable by its owner only (0600).
///
/// The caller is the file's only writer, or holds its lock.
///
/// # Errors
/// What the system says; the old file is then unchanged.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(FileError::io(
            "write",
            path,
            io::ErrorKind::InvalidInput.into(),
        ));
    };
    let temporary = folder.join(format!(".{}.tmp", name.to_string_lossy()));
    let written = write_synced(&temporary, bytes)
        .map_err(|e| FileError::io("write", path, e))
        .and_then(|()| fs::rename(&temporary, path).map_err(|e| FileError::io("replace", path, e)));
    if written.is_err() {
        // The error to report is the first one; a left-over is replaced by the next write.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    // Without this the rename itself may be lost with the power.
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(|e| FileError::io("sync", folder, e))
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    // The mode above holds only for a file that was made just now.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads a file of at most `max` bytes; `None` when there is none.
///
/// # Errors
/// What the system says, or a file over the cap.
pub fn read_capped(path: &Path, max: u64) -> Result<Option<Vec<u8>>, FileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FileError::io("read", path, e)),
    };
    let mut bytes = Vec::new();
    file.take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| FileError::io("read", path, e))?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            max,
        });
    }
    Ok(Some(bytes))
}

/// Checks that a Unix socket can live at this path.
///
/// # Errors
/// [`FileError::SocketPath`] with the path and its length.
pub fn check_socket_path(path: &Path) -> Result<(), FileError> {
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        return Err(FileError::SocketPath {
            path: path.to_owned(),
            length,
        });
    }
    Ok(())
}

/// An exclusive lock on a file, held until this value is dropped or the process ends.
///
/// The kernel drops it with the process, so a dead holder blocks nobody.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// What the system says about the file itself.
    pub fn try_acquire(path: &Path) -> Result<Option<Self>, FileError> {
        let file = open_lock_file(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(FileError::io("lock", path, e)),
        }
    }

    /// Waits for the lock, at most this long. Blocks the calling thread.
    ///
    /// # Errors
    /// [`FileError::Locked`] when it was never free.
    pub fn acquire(path: &Path, wait: Duration) -> Result<Self, FileError> {
        let start = Instant::now();
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            if start.elapsed() >= wait {
                return Err(FileError::Locked {
                    path: path.to_owned(),
                    waited: wait,
                });
            }
            thread::sleep(LOCK_POLL);
        }
    }

    /// Whether some process holds the lock. A missing file is held by nobody.
    ///
    /// # Errors
    /// What the system says about the file itself.
    pub fn is_held(path: &Path) -> Result<bool, FileError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(FileError::io("open", path, e)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(FileError::io("lock", path, e)),
        }
    }

    /// Replaces what stands in the lock file: a note on its holder for people and tools.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_note(&mut self, note: &str) -> io::Result<()> {
        use std::io::Seek;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(note.as_bytes())
    }
}

fn open_lock_file(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| FileError::io("open", path, e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");

        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();

        assert_eq!(read_capped(&path, 10).unwrap().unwrap(), b"two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        write_whole(&path, b"old").unwrap();
        // A folder in the temporary file's place makes the write fail for root too.
        fs::create_dir(dir.path().join(".state.json.tmp")).unwrap();

        let error = write_whole(&path, b"new").unwrap_err();

        assert!(error.to_string().contains("state.json"), "{error}");
        assert_eq!(read_capped(&path, 10).unwrap().unwrap(), b"old");
    }

    #[test]
    fn a_file_over_its_cap_is_refused_and_a_missing_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        write_whole(&path, &[0; 11]).unwrap();

        assert!(matches!(
            read_capped(&path, 10),
            Err(FileError::TooLarge { .. })
        ));
        assert!(read_capped(&dir.path().join("none"), 10).unwrap().is_none());
    }

    #[test]
    fn a_lock_excludes_and_ends_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");

        let held = Lock::try_acquire(&path).unwrap().unwrap();
        assert!(Lock::try_acquire(&path).unwrap().is_none());
        assert!(Lock::is_held(&path).unwrap());
        assert!(matches!(
            Lock::acquire(&path, Duration::from_millis(20)),
            Err(FileError::Locked { .. })
        ));

        drop(held);
        assert!(!Lock::is_held(&path).unwrap());
        assert!(Lock::try_acquire(&path).unwrap().is_some());
    }

    #[test]
    fn a_socket_path_is_refused_exactly_above_the_limit() {
        let path = |n: usize| PathBuf::from("/".to_owned() + &"x".repeat(n - 1));

        assert!(check_socket_path(&path(107)).is_ok());
        let error = check_socket_path(&path(108)).unwrap_err().to_string();
        assert!(error.contains("108") && error.contains("107"), "{error}");
    }
}

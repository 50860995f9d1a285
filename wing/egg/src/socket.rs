//! A Unix socket of this user's own that stays reachable.
//!
//! Cleaners of old files remove sockets, and a process that runs out of descriptors
//! cannot accept for a while: both are waited out here, for eggs and daemons alike.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout};
use wt_files::FileError;

/// How often the socket's presence is checked.
const CHECK: Duration = Duration::from_secs(5);

/// Wait after an accept that failed. The reason is said once in [`CHECK`] at most.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening socket, 0600.
#[derive(Debug)]
pub struct LocalSocket {
    path: PathBuf,
    listener: UnixListener,
    last_warning: Option<Instant>,
}

impl LocalSocket {
    /// Listens at a path. The caller made sure that a socket there belongs to nobody.
    ///
    /// # Errors
    /// A path that is too long, or what the system says.
    pub fn bind(path: &Path) -> Result<Self, FileError> {
        Ok(Self {
            path: path.to_owned(),
            listener: listen(path)?,
            last_warning: None,
        })
    }

    /// The next connection by a process of this user, in the same namespaces.
    pub async fn accept(&mut self) -> UnixStream {
        loop {
            match timeout(CHECK, self.listener.accept()).await {
                Ok(Ok((socket, _))) if is_one_of_us(&socket) => return socket,
                Ok(Ok(_)) => {
                    let why = "it comes from another user or namespace";
                    self.warn(&why, "a connection was refused");
                }
                Ok(Err(error)) => {
                    self.warn(&error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
                Err(_) if fs::symlink_metadata(&self.path).is_ok() => {}
                Err(_) => match listen(&self.path) {
                    Ok(listener) => self.listener = listener,
                    Err(error) => self.warn(&error, "the socket is gone and cannot be made again"),
                },
            }
        }
    }

    fn warn(&mut self, error: &dyn std::fmt::Display, what: &str) {
        if self.last_warning.is_none_or(|at| at.elapsed() > CHECK) {
            tracing::warn!(%error, "{what}");
            self.last_warning = Some(Instant::now());
        }
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // One that is already gone is as good.
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(path: &Path) -> Result<UnixListener, FileError> {
    wt_files::check_socket_path(path)?;
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(|e| FileError::io("listen on", path, e))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|e| FileError::io("protect", path, e))?;
    Ok(listener)
}

/// Whether a peer is this user and looks at the machine from the same user and process
/// namespaces: a sandboxed program has the same user id and is not one of us.
fn is_one_of_us(socket: &UnixStream) -> bool {
    let Ok(peer) = socket.peer_cred() else {
        return false;
    };
    let Some(pid) = peer.pid().filter(|pid| *pid > 0) else {
        return false;
    };
    peer.uid() == nix::unistd::geteuid().as_raw()
        && ["user", "pid"].iter().all(|namespace| {
            let of = |who: &str| {
                fs::metadata(format!("/proc/{who}/ns/{namespace}")).map(|m| (m.dev(), m.ino()))
            };
            matches!((of(&pid.to_string()), of("self")), (Ok(theirs), Ok(ours)) if theirs == ours)
        })
}

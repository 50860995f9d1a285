//! One profile: the folder that holds an identity, its sessions, lists and pins.
//!
//! | file | what it is |
//! |---|---|
//! | `keys/identity`, `keys/noise`, `keys/seq` | who this wing is |
//! | `keys/device`, `keys/client` | who this device is, to relays and to wings |
//! | `roost.json` | the roost that this profile is signed in to, and its pinned keys |
//! | `known_wings.json` | pins of wings |
//! | `clients.json` | clients that this wing admits |
//! | `wing.yaml` | settings |
//! | `eggs/` | sessions |
//! | `roost/` | the relay's own state, when this profile runs one |
//! | `wing.lock`, `wing.sock`, `wing.log` | the daemon's |

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wt_crypto::{ClientSecret, DeviceSecret, IdentitySecret, NoiseSecret, WingIdentity};
use wt_files::Lock;
use wt_protocol::keys::{GrantKey, Sha256Digest};
use wt_protocol::rpc::{Principal, PrincipalKind};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::sessions::Sessions;

/// How long a state file's lock may be held by others. Each holds it for one small write.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Largest state file that is read whole, in bytes.
pub(crate) const MAX_STATE: u64 = 8 << 20;

/// One profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    path: PathBuf,
}

/// The roost that a profile is signed in to; all that makes it the same roost next time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoostLogin {
    /// Version of this file.
    pub version: u32,
    /// Its origin, as the user gave it.
    pub origin: String,
    /// Where links are dialled, `HOST:PORT` in UDP.
    pub quic_addr: String,
    /// SHA-256 of the link certificate's public key.
    pub quic_spki: Sha256Digest,
    /// The key that signs account grants.
    pub grant_key: GrantKey,
    /// Whether a proxy ends TLS in front of it.
    pub behind_proxy: bool,
    /// The account that this profile belongs to.
    pub account: String,
    /// Whether this profile is signed in now. The rest stays known after signing out.
    pub signed_in: bool,
}

/// The version of [`RoostLogin`] that this build writes.
pub const ROOST_VERSION: u32 = 1;

impl Profile {
    /// Finds the profile: `WINGTHING_DIR`, else `.wingthing` in the home folder.
    ///
    /// # Errors
    /// When neither variable says where.
    pub fn locate() -> Result<Self, Error> {
        let set = |key| {
            env::var_os(key)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let path = match (set("WINGTHING_DIR"), set("HOME")) {
            (Some(dir), _) => dir,
            (None, Some(home)) => home.join(".wingthing"),
            (None, None) => {
                let message =
                    "cannot tell where the profile is: neither WINGTHING_DIR nor HOME is set";
                return Err(
                    Error::failed(message).hint("set WINGTHING_DIR to a folder of your own")
                );
            }
        };
        let path = std::path::absolute(&path).map_err(|e| {
            Error::failed(format!("cannot use {} as the profile: {e}", path.display()))
        })?;
        Ok(Self { path })
    }

    /// The profile in this folder.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the profile.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the folder, 0700, if it is not there.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(&self) -> Result<(), Error> {
        Ok(wt_files::create_private_dir(&self.path)?)
    }

    /// The state folder of the relay that this profile runs.
    pub fn roost_dir(&self) -> PathBuf {
        self.file("roost")
    }

    /// Its sessions, on behalf of the user at this machine.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.file("eggs"), local_user())
    }

    /// Its sessions, for a command that the user runs: sessions that it makes or attaches
    /// to use the SSH agent of its own variables.
    pub fn sessions_at_this_terminal(&self) -> Sessions {
        let agent = env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty());
        self.sessions().with_ssh_agent(agent.map(PathBuf::from))
    }

    /// This wing's identity; made when there is none.
    ///
    /// # Errors
    /// A file that cannot be read or written, or is damaged.
    pub fn wing_identity(&self) -> Result<WingIdentity, Error> {
        let identity = self.secret("identity")?;
        let noise = self.secret("noise")?;
        let seq = self.seq()?;
        Ok(WingIdentity::from_parts(
            IdentitySecret::from_bytes(&identity),
            NoiseSecret::from_bytes(&noise),
            seq,
        ))
    }

    /// This device's key; made when there is none.
    ///
    /// # Errors
    /// As [`Self::wing_identity`].
    pub fn device_secret(&self) -> Result<DeviceSecret, Error> {
        Ok(DeviceSecret::from_bytes(&*self.secret("device")?))
    }

    /// This client's key; made when there is none.
    ///
    /// # Errors
    /// As [`Self::wing_identity`].
    pub fn client_secret(&self) -> Result<ClientSecret, Error> {
        Ok(ClientSecret::from_bytes(&*self.secret("client")?))
    }

    fn secret(&self, name: &str) -> Result<Zeroizing<[u8; 32]>, Error> {
        let folder = self.file("keys");
        let path = folder.join(name);
        if let Some(key) = read_key(&path)? {
            return Ok(key);
        }
        self.create()?;
        wt_files::create_private_dir(&folder)?;
        let _lock = Lock::acquire(&folder.join(".lock"), LOCK_WAIT)?;
        // Another process may have made it while this one waited.
        if let Some(key) = read_key(&path)? {
            return Ok(key);
        }
        let key = Zeroizing::new(wt_crypto::random::<32>());
        wt_files::write_whole(&path, key.as_slice())?;
        Ok(key)
    }

    /// How often the noise key was rotated: 1 for the first one.
    fn seq(&self) -> Result<u64, Error> {
        let path = self.file("keys").join("seq");
        let Some(bytes) = wt_files::read_capped(&path, 32)? else {
            return Ok(1);
        };
        std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| damaged(&path, &"it is not a number"))
    }

    /// The roost that this profile belongs to, if it ever signed in.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or of another version.
    pub fn roost(&self) -> Result<Option<RoostLogin>, Error> {
        let path = self.file("roost.json");
        let Some(bytes) = wt_files::read_capped(&path, MAX_STATE)? else {
            return Ok(None);
        };
        let login: RoostLogin = serde_json::from_slice(&bytes).map_err(|e| damaged(&path, &e))?;
        if login.version != ROOST_VERSION {
            return Err(damaged(
                &path,
                &format!("version {} is not known here", login.version),
            ));
        }
        Ok(Some(login))
    }

    /// Ports of this machine on which wingthing itself listens for this profile: its roost's, as
    /// far as that is here. No session may reach them.
    pub fn own_ports(&self) -> Vec<u16> {
        let Ok(Some(login)) = self.roost() else {
            return Vec::new();
        };
        let origin = login.origin.split("://").last().unwrap_or_default();
        [origin, &login.quic_addr]
            .into_iter()
            .filter_map(|at| {
                let (host, port) = at.trim_end_matches('/').rsplit_once(':')?;
                let host = host.trim_matches(['[', ']']);
                let is_here = host == "localhost"
                    || host.ends_with(".localhost")
                    || host
                        .parse()
                        .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
                port.parse().ok().filter(|_| is_here)
            })
            .collect()
    }

    /// Stores the roost that this profile belongs to.
    ///
    /// # Errors
    /// What the system says; the old file is then unchanged.
    pub fn write_roost(&self, login: &RoostLogin) -> Result<(), Error> {
        self.create()?;
        let _lock = self.lock("roost.json")?;
        let bytes = serde_json::to_vec_pretty(login).map_err(Error::failed)?;
        Ok(wt_files::write_whole(&self.file("roost.json"), &bytes)?)
    }

    /// Reads a state file as text of its own kind.
    pub(crate) fn read_state(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(wt_files::read_capped(&self.file(name), MAX_STATE)?)
    }

    /// Takes the lock on a state file.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock, Error> {
        self.create()?;
        Ok(Lock::acquire(
            &self.file(&format!(".{name}.lock")),
            LOCK_WAIT,
        )?)
    }

    /// Replaces a state file. The caller holds its lock.
    pub(crate) fn write_state(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        Ok(wt_files::write_whole(&self.file(name), bytes)?)
    }
}

/// The variables of this process, as far as they are text.
pub fn variables() -> Vec<(String, String)> {
    let text = |(key, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((key.into_string().ok()?, value.into_string().ok()?))
    };
    env::vars_os().filter_map(text).collect()
}

/// The user at this machine.
pub fn local_user() -> Principal {
    let uid = nix::unistd::geteuid();
    let name = nix::unistd::User::from_uid(uid)
        .ok()
        .flatten()
        .map(|user| user.name);
    Principal {
        kind: PrincipalKind::Cli,
        id: name.unwrap_or_else(|| uid.to_string()),
    }
}

/// This machine's name.
pub fn hostname() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_default()
}

/// An error that names a file and leaves it as it is.
pub(crate) fn damaged(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::failed(format!("{} is damaged: {reason}", path.display()))
        .hint("restore it from a backup, or move it away to start over")
}

fn read_key(path: &Path) -> Result<Option<Zeroizing<[u8; 32]>>, Error> {
    let Some(bytes) = wt_files::read_capped(path, 32)?.map(Zeroizing::new) else {
        return Ok(None);
    };
    let key =
        <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| damaged(path, &"it is not 32 bytes"))?;
    Ok(Some(Zeroizing::new(key)))
}

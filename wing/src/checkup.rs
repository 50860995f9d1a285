//! Whether a profile is in order: its folder, its files, its daemon.
//!
//! Nothing is changed or made, not even a folder that is missing.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access, geteuid};
use serde::Serialize;
use wt_egg::EggDir;
use wt_protocol::SessionId;
use wt_protocol::rpc::Failure;

use crate::config::WingConfig;
use crate::control::{self, DaemonStatus, LinkState};
use crate::error::Error;
use crate::host::Logout;
use crate::profile::Profile;
use crate::sessions::OtherVersion;
use crate::{admission, pins};

/// With less than this on the disk, state files can still be written, and output hardly.
const SCARCE: u64 = 256 << 20;

/// With less than this on the disk nothing can be relied on.
const FULL: u64 = 4 << 20;

/// What to do about a daemon of another version.
const DAEMON_HINT: &str = "to run this version: wt stop, then start it again (sessions go on)";

/// What to do about sessions of another version.
const SESSIONS_HINT: &str =
    "they go on and can be attached to; for this version, end them and start them again";

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// All is well.
    Ok,
    /// Something should be seen to; everything works.
    Warning,
    /// Something stops the program from working.
    Failed,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it went.
    pub status: Grade,
    /// What was found.
    pub message: String,
    /// One thing to do about it.
    pub hint: Option<String>,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            status: Grade::Ok,
            message: message.into(),
            hint: None,
        }
    }

    fn warning(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            name,
            status: Grade::Warning,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    fn failed(name: &'static str, error: Error) -> Self {
        Self {
            name,
            status: Grade::Failed,
            message: error.message,
            hint: error.hint,
        }
    }

    fn of_other_versions(name: &'static str, others: &Result<Vec<OtherVersion>, Failure>) -> Self {
        match others {
            Err(failure) => Self::failed(name, failure.clone().into()),
            Ok(others) if others.is_empty() => Self::ok(name, "none runs another version"),
            Ok(others) => {
                let list: Vec<String> = others
                    .iter()
                    .map(|one| format!("{} ({})", one.name, one.version))
                    .collect();
                let message = format!(
                    "of other versions than {}: {}",
                    crate::VERSION,
                    list.join(", ")
                );
                Self::warning(name, message, SESSIONS_HINT)
            }
        }
    }

    fn of<T>(name: &'static str, result: Result<T, Error>, well: impl FnOnce(T) -> String) -> Self {
        match result {
            Ok(value) => Self::ok(name, well(value)),
            Err(error) => Self::failed(name, error),
        }
    }
}

/// Checks a profile's folder and files.
pub fn profile(profile: &Profile) -> Vec<Check> {
    vec![
        folder(profile),
        socket_path(profile),
        private_files(profile),
        disk(profile.path()),
        Check::of("settings", WingConfig::read(profile), |_| {
            "wing.yaml can be used".to_owned()
        }),
        Check::of("pins", pins::read(profile), |_| {
            "the file of known wings can be used".to_owned()
        }),
        Check::of("clients", admission::read(profile), |list| {
            format!("{} clients are on the list", list.iter().count())
        }),
        Check::of("login", profile.roost(), |roost| match roost {
            Some(roost) if roost.signed_in => {
                format!("signed in at {} as {}", roost.origin, roost.account)
            }
            Some(_) | None => "not signed in".to_owned(),
        }),
    ]
}

/// Processes that run another version of the program than this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skew {
    /// The daemon's version, when it is another.
    pub daemon: Option<String>,
    /// Living sessions of other versions.
    pub sessions: Vec<OtherVersion>,
    /// What to do about it.
    pub hint: String,
}

/// Finds what runs another version than this program; none when nothing does.
pub fn skew(profile: &Profile, daemon: Option<&DaemonStatus>) -> Option<Skew> {
    // A folder that cannot be read is told of by whoever lists the sessions.
    let sessions = profile.sessions().of_other_versions().unwrap_or_default();
    let daemon = daemon
        .map(|status| &status.version)
        .filter(|version| *version != crate::VERSION);
    let hints = [
        daemon.map(|_| DAEMON_HINT),
        (!sessions.is_empty()).then_some(SESSIONS_HINT),
    ];
    let hints: Vec<&str> = hints.into_iter().flatten().collect();
    (!hints.is_empty()).then(|| Skew {
        daemon: daemon.cloned(),
        hint: hints.join("; "),
        sessions,
    })
}

/// Checks a profile's living sessions against this program.
pub fn sessions(profile: &Profile) -> Check {
    const NAME: &str = "sessions";
    Check::of_other_versions(NAME, &profile.sessions().of_other_versions())
}

/// Checks a profile's daemon against this program.
pub async fn daemon(profile: &Profile) -> Check {
    const NAME: &str = "daemon";
    if let Ok(Some(host)) = control::elsewhere(profile) {
        return Check::warning(
            NAME,
            format!("it runs on the host {host}, which shares this profile"),
            "give each host a profile of its own with WINGTHING_DIR",
        );
    }
    match control::status(profile).await {
        Err(error) => Check {
            status: Grade::Warning,
            ..Check::failed(NAME, error)
        },
        Ok(None) => Check::ok(NAME, "not running; sessions here work without it"),
        Ok(Some(status)) if status.version != crate::VERSION => Check::warning(
            NAME,
            format!(
                "version {} runs, and this program is version {}",
                status.version,
                crate::VERSION
            ),
            DAEMON_HINT,
        ),
        Ok(Some(status)) => match (status.link, status.error) {
            (LinkState::Up, _) => Check::ok(NAME, "running, and its link is up"),
            (_, Some(error)) => Check::warning(
                NAME,
                format!("its link is not up: {error}"),
                "see wt status",
            ),
            (_, None) => Check::ok(NAME, "running, and its link is being made"),
        },
    }
}

/// Checks whether sessions live on after a logout.
pub fn logout(logout: &Logout) -> Check {
    const NAME: &str = "logout";
    match logout.remedy() {
        Some(remedy) => Check::warning(
            NAME,
            "systemd ends all processes of a login with it (KillUserProcesses)",
            remedy,
        ),
        None if !logout.systemd => Check::ok(NAME, "no systemd ends sessions at a logout"),
        None => Check::ok(NAME, "sessions live on after a logout"),
    }
}

fn folder(profile: &Profile) -> Check {
    const NAME: &str = "profile";
    let path = profile.path();
    let shown = path.display();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Check::ok(NAME, format!("{shown} is made by the first command"));
        }
        Err(e) => return Check::failed(NAME, Error::failed(format!("cannot read {shown}: {e}"))),
    };
    if !metadata.is_dir() {
        let error = Error::failed(format!("{shown} is not a folder"));
        return Check::failed(
            NAME,
            error.hint("set WINGTHING_DIR to a folder of your own"),
        );
    }
    if metadata.uid() != geteuid().as_raw() {
        let error = Error::failed(format!("{shown} belongs to another user"));
        return Check::failed(
            NAME,
            error.hint("set WINGTHING_DIR to a folder of your own"),
        );
    }
    if access(path, AccessFlags::W_OK).is_err() {
        let error = Error::failed(format!("{shown} cannot be written"));
        return Check::failed(NAME, error.hint(format!("chmod 700 {shown}")));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        return Check::warning(
            NAME,
            format!("{shown} is open to other users"),
            format!("chmod 700 {shown}"),
        );
    }
    Check::ok(NAME, format!("{shown} is in order"))
}

fn socket_path(profile: &Profile) -> Check {
    let longest = profile.file("eggs").join("x".repeat(SessionId::LENGTH));
    let fits = wt_files::check_socket_path(&EggDir::new(longest).socket());
    Check::of("path", fits.map_err(Error::from), |()| {
        "the profile's path is short enough for sockets".to_owned()
    })
}

/// Files of a profile that only its user may read.
fn private_files(profile: &Profile) -> Check {
    const NAME: &str = "permissions";
    let names = [
        "roost.json",
        "clients.json",
        "known_wings.json",
        "wing.yaml",
    ];
    let keys = fs::read_dir(profile.file("keys"))
        .into_iter()
        .flatten()
        .flatten();
    let open = names
        .iter()
        .map(|name| profile.file(name))
        .chain(keys.map(|entry| entry.path()))
        .filter(|path| {
            fs::metadata(path)
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o077 != 0)
        });
    let open: Vec<String> = open.map(|path| path.display().to_string()).collect();
    if open.is_empty() {
        return Check::ok(NAME, "files are the user's own");
    }
    Check::warning(
        NAME,
        format!("open to other users: {}", open.join(", ")),
        format!("chmod 600 {}", open.join(" ")),
    )
}

fn disk(path: &Path) -> Check {
    const NAME: &str = "disk";
    let Some(existing) = path.ancestors().find(|path| path.exists()) else {
        return Check::ok(NAME, "there is no such folder yet");
    };
    match statvfs(existing) {
        Err(e) => Check::warning(NAME, format!("free space is not known: {e}"), "see df"),
        Ok(disk) => free_space(disk.blocks_available() * disk.fragment_size()),
    }
}

fn free_space(free: u64) -> Check {
    const NAME: &str = "disk";
    let message = format!("{} MiB are free", free >> 20);
    let hint = "free some space on the profile's disk";
    if free < FULL {
        Check::failed(NAME, Error::failed(message).hint(hint))
    } else if free < SCARCE {
        Check::warning(NAME, message, hint)
    } else {
        Check::ok(NAME, message)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn grade(checks: &[Check], name: &str) -> Grade {
        checks
            .iter()
            .find(|check| check.name == name)
            .unwrap()
            .status
    }

    #[test]
    fn a_profile_that_was_never_used_is_in_order_and_stays_unmade() {
        let root = tempfile::tempdir().unwrap();
        let unused = Profile::at(root.path().join("p"));

        let checks = profile(&unused);

        assert!(
            checks.iter().all(|check| check.status < Grade::Failed),
            "{checks:?}"
        );
        assert!(!unused.path().exists());
    }

    #[test]
    fn each_fault_is_found_by_its_name() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("p");
        let faulty = Profile::at(&path);
        faulty.create().unwrap();
        faulty.client_secret().unwrap();
        assert_eq!(grade(&profile(&faulty), "permissions"), Grade::Ok);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(path.join("keys/client"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(path.join("known_wings.json"), "}{").unwrap();
        fs::write(path.join("wing.yaml"), "lable: x\n").unwrap();

        let checks = profile(&faulty);
        assert_eq!(grade(&checks, "profile"), Grade::Warning);
        assert_eq!(grade(&checks, "permissions"), Grade::Warning);
        assert_eq!(grade(&checks, "pins"), Grade::Failed);
        assert_eq!(grade(&checks, "settings"), Grade::Failed);
        assert_eq!(grade(&checks, "clients"), Grade::Ok);

        let long = Profile::at(root.path().join("x".repeat(120)));
        assert_eq!(grade(&profile(&long), "path"), Grade::Failed);
    }

    #[test]
    fn sessions_of_another_version_are_named_with_what_to_do() {
        let other = OtherVersion {
            id: "abcdefghijkl".parse().unwrap(),
            name: "work".parse().unwrap(),
            version: "0.0.9".to_owned(),
        };

        let check = Check::of_other_versions("sessions", &Ok(vec![other]));
        assert_eq!(check.status, Grade::Warning);
        assert!(check.message.ends_with("work (0.0.9)"), "{}", check.message);
        assert!(check.hint.unwrap().contains("end them"));
        let none = Check::of_other_versions("sessions", &Ok(Vec::new()));
        assert_eq!(none.status, Grade::Ok);
    }

    #[test]
    fn little_space_is_a_warning_and_none_is_a_fault() {
        assert_eq!(free_space(1 << 40).status, Grade::Ok);
        assert_eq!(free_space(100 << 20).status, Grade::Warning);
        assert_eq!(free_space(1 << 20).status, Grade::Failed);
    }
}

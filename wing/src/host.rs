//! What this machine's kernel and service manager allow and do, as far as files tell.
//!
//! Nothing is tried and nothing is changed: what cannot be told is said to be unknown.
//! The files are read below a root folder, so that a test can stand in for a machine.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// Something that a sandbox may be built on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ability {
    /// Whether it is there; none when that cannot be told.
    pub available: Option<bool>,
    /// What was found.
    pub detail: String,
}

/// What a machine can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// Namespaces that a user may make.
    pub user_namespaces: Ability,
    /// Rules on files and ports that a program sets for itself.
    pub landlock: Ability,
    /// The version of Landlock's interface, by the kernel's release.
    pub landlock_abi: Option<u32>,
    /// Limits on groups of processes.
    pub cgroup_v2: Ability,
    /// Controllers that this user may give to groups of its own.
    pub cgroup_controllers: Vec<String>,
    /// Filters on system calls.
    pub seccomp: Ability,
}

/// What becomes of a user's processes at the end of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logout {
    /// Whether systemd runs the machine.
    pub systemd: bool,
    /// Whether this process belongs to one login and is ended with it, if it is.
    pub in_login: bool,
    /// `KillUserProcesses` as the machine's files say; none when they say nothing.
    pub kills: Option<bool>,
    /// Whether the user's services go on without a login.
    pub lingers: bool,
}

/// Kernel releases from which each version of Landlock's interface is there.
const LANDLOCK: [(u32, (u32, u32)); 7] = [
    (7, (6, 15)),
    (6, (6, 12)),
    (5, (6, 10)),
    (4, (6, 7)),
    (3, (6, 2)),
    (2, (5, 19)),
    (1, (5, 13)),
];

impl Host {
    /// Reads the machine below this root; `/` for the real one.
    pub fn read(root: &Path, is_root: bool) -> Self {
        let files = Files(root);
        let kernel = files.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let (landlock, landlock_abi) = landlock(&files, &kernel);
        let (cgroup_v2, cgroup_controllers) = cgroup(&files);
        Self {
            user_namespaces: user_namespaces(&files, is_root),
            landlock,
            landlock_abi,
            cgroup_v2,
            cgroup_controllers,
            seccomp: seccomp(&files),
            kernel,
        }
    }
}

impl Logout {
    /// Reads the machine below this root, for a user of this name.
    pub fn read(root: &Path, user: &str) -> Self {
        let files = Files(root);
        let own = files.text("proc/self/cgroup").unwrap_or_default();
        let is_user = !user.is_empty() && !user.contains('/');
        Self {
            systemd: root.join("run/systemd/system").is_dir(),
            in_login: own.contains("/session-") && own.contains(".scope"),
            kills: kills_user_processes(&files),
            lingers: is_user && root.join("var/lib/systemd/linger").join(user).exists(),
        }
    }

    /// What the user should do so that sessions outlive the login, if anything.
    pub fn remedy(&self) -> Option<&'static str> {
        if !(self.systemd && self.in_login && self.kills == Some(true)) {
            return None;
        }
        Some(if self.lingers {
            "start it outside of the login: systemd-run --user --scope wt start"
        } else {
            "loginctl enable-linger && systemd-run --user --scope wt start"
        })
    }
}

/// Small files of the kernel and of the machine's settings.
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read(self.0.join(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
}

fn ability(available: impl Into<Option<bool>>, detail: impl Into<String>) -> Ability {
    Ability {
        available: available.into(),
        detail: detail.into(),
    }
}

fn user_namespaces(files: &Files<'_>, is_root: bool) -> Ability {
    if !files.0.join("proc/self/ns/user").exists() {
        return ability(false, "the kernel has none");
    }
    match files.number("proc/sys/user/max_user_namespaces") {
        Some(0) => return ability(false, "user.max_user_namespaces is 0"),
        Some(_) => {}
        None => return ability(None, "user.max_user_namespaces cannot be read"),
    }
    let is_on = |path| files.number(path) == Some(1);
    if is_root {
        return ability(true, "allowed for the superuser");
    }
    if files.number("proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        return ability(false, "kernel.unprivileged_userns_clone is 0");
    }
    if is_on("proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
        return ability(
            None,
            "AppArmor allows them to programs with a profile for that alone",
        );
    }
    ability(true, "allowed for users")
}

fn landlock(files: &Files<'_>, kernel: &str) -> (Ability, Option<u32>) {
    let release = release(kernel);
    let abi = LANDLOCK
        .iter()
        .find(|(_, since)| release.is_some_and(|release| release >= *since))
        .map(|(abi, _)| *abi);
    match (files.text("sys/kernel/security/lsm"), abi) {
        (_, None) => (ability(false, "it needs Linux 5.13 or later"), None),
        (Some(list), abi) if list.split(',').any(|name| name == "landlock") => {
            (ability(true, "it is active"), abi)
        }
        (Some(_), _) => (
            ability(false, "it is not among the active security modules"),
            None,
        ),
        (None, abi) => (
            ability(None, "the list of security modules cannot be read"),
            abi,
        ),
    }
}

/// The first two numbers of a kernel's release.
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn cgroup(files: &Files<'_>) -> (Ability, Vec<String>) {
    let all = files.text("sys/fs/cgroup/cgroup.controllers");
    if all.is_none() {
        return (ability(false, "cgroup v2 is not mounted"), Vec::new());
    }
    let own = files.text("proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let Some(own) = own else {
        return (
            ability(false, "this process is in no group of cgroup v2"),
            Vec::new(),
        );
    };
    let folder = Path::new("sys/fs/cgroup").join(own);
    let names = folder.join("cgroup.controllers");
    let controllers: Vec<String> = names
        .to_str()
        .and_then(|path| files.text(path))
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let folder: PathBuf = files.0.join(folder);
    if access(&folder, AccessFlags::W_OK).is_err() {
        let detail = "this user may not make groups in its own group";
        return (ability(false, detail), controllers);
    }
    if controllers.is_empty() {
        return (
            ability(false, "no controllers are given to this group"),
            controllers,
        );
    }
    (ability(true, "groups can be made here"), controllers)
}

fn seccomp(files: &Files<'_>) -> Ability {
    let status = files.text("proc/self/status").unwrap_or_default();
    if !status.lines().any(|line| line.starts_with("Seccomp:")) {
        return ability(false, "the kernel has none");
    }
    match files.text("proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            ability(true, format!("actions: {actions}"))
        }
        Some(_) | None => ability(None, "its actions cannot be read"),
    }
}

/// The value that counts of `KillUserProcesses` in logind.conf(5): files in folders of
/// drop-ins are read after the main file, by their names, and the last word counts.
fn kills_user_processes(files: &Files<'_>) -> Option<bool> {
    let mut names = vec!["etc/systemd/logind.conf".to_owned()];
    let mut drop_ins: Vec<(String, String)> = Vec::new();
    for folder in [
        "usr/lib/systemd/logind.conf.d",
        "run/systemd/logind.conf.d",
        "etc/systemd/logind.conf.d",
    ] {
        for entry in fs::read_dir(files.0.join(folder))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".conf") {
                // A file of the same name in a later folder takes the place of an earlier.
                drop_ins.retain(|(known, _)| *known != name);
                drop_ins.push((name.clone(), format!("{folder}/{name}")));
            }
        }
    }
    drop_ins.sort();
    names.extend(drop_ins.into_iter().map(|(_, path)| path));
    let mut kills = None;
    for name in names {
        let text = files.text(&name).unwrap_or_default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            if key.trim() == "KillUserProcesses" {
                let value = value.trim().to_ascii_lowercase();
                kills = Some(matches!(value.as_str(), "yes" | "true" | "1" | "on"));
            }
        }
    }
    kills
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MODERN: &[(&str, &str)] = &[
        ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
        ("proc/self/ns/user", ""),
        ("proc/sys/user/max_user_namespaces", "127000\n"),
        ("proc/self/status", "Name:\twt\nSeccomp:\t0\n"),
        (
            "proc/sys/kernel/seccomp/actions_avail",
            "kill_process errno user_notif allow\n",
        ),
        (
            "sys/kernel/security/lsm",
            "lockdown,capability,landlock,yama\n",
        ),
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids io\n"),
        ("proc/self/cgroup", "0::/user.slice/session-3.scope\n"),
        (
            "sys/fs/cgroup/user.slice/session-3.scope/cgroup.controllers",
            "memory pids\n",
        ),
    ];

    #[test]
    fn a_modern_machine_can_enforce_everything() {
        let root = machine(MODERN);

        let host = Host::read(root.path(), false);

        assert_eq!(host.kernel, "6.8.0-45-generic");
        assert_eq!(host.user_namespaces.available, Some(true));
        assert_eq!(
            (host.landlock.available, host.landlock_abi),
            (Some(true), Some(4))
        );
        assert_eq!(host.cgroup_v2.available, Some(true));
        assert_eq!(host.cgroup_controllers, ["memory", "pids"]);
        assert_eq!(host.seccomp.available, Some(true));
    }

    #[test]
    fn what_is_switched_off_or_cannot_be_told_is_said() {
        let with = |path: &'static str, text: &'static str| {
            let files: Vec<_> = MODERN
                .iter()
                .copied()
                .filter(|(known, _)| *known != path)
                .chain([(path, text)])
                .collect();
            let root = machine(&files);
            Host::read(root.path(), false)
        };

        let host = with("proc/sys/user/max_user_namespaces", "0");
        assert_eq!(host.user_namespaces.available, Some(false));
        let host = with("proc/sys/kernel/unprivileged_userns_clone", "0");
        assert_eq!(host.user_namespaces.available, Some(false));
        let host = with("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1");
        assert_eq!(host.user_namespaces.available, None);
        let host = with("sys/kernel/security/lsm", "lockdown,yama");
        assert_eq!(
            (host.landlock.available, host.landlock_abi),
            (Some(false), None)
        );
        let host = with("proc/sys/kernel/osrelease", "5.10.0-28-amd64");
        assert_eq!(host.landlock.available, Some(false));
        let host = with("proc/self/cgroup", "4:memory:/x\n");
        assert_eq!(host.cgroup_v2.available, Some(false));

        let nothing = machine(&[]);
        let host = Host::read(nothing.path(), false);
        assert_eq!(host.seccomp.available, Some(false));
        assert_eq!(host.landlock.available, Some(false));
    }

    #[test]
    fn a_login_whose_end_ends_sessions_is_noticed() {
        let files = |more: &[(&'static str, &'static str)]| {
            let mut all = vec![
                ("run/systemd/system/x", ""),
                (
                    "proc/self/cgroup",
                    "0::/user.slice/user-1000.slice/session-3.scope\n",
                ),
                (
                    "etc/systemd/logind.conf",
                    "[Login]\n#KillUserProcesses=no\n",
                ),
            ];
            all.extend(more);
            let root = machine(&all);
            Logout::read(root.path(), "ada")
        };
        let kills = (
            "etc/systemd/logind.conf.d/50-kill.conf",
            "[Login]\nKillUserProcesses = yes\n",
        );

        assert_eq!(files(&[]).kills, None);
        assert_eq!(files(&[]).remedy(), None);
        assert!(files(&[kills]).remedy().unwrap().contains("enable-linger"));
        let lingering = files(&[kills, ("var/lib/systemd/linger/ada", "")]);
        assert!(lingering.lingers);
        assert!(!lingering.remedy().unwrap().contains("enable-linger"));
        let later = (
            "etc/systemd/logind.conf.d/60-keep.conf",
            "[Login]\nKillUserProcesses=no\n",
        );
        assert_eq!(files(&[kills, later]).remedy(), None);
        let service = (
            "proc/self/cgroup",
            "0::/user.slice/user@1000.service/app.slice/wt.service\n",
        );
        assert_eq!(files(&[kills, service]).remedy(), None);
    }
}

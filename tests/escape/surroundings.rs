//! What the suite runs in: a network and places of its own, and a key in its session keyring.
//!
//! The superuser's run starts itself again in new namespaces of mounts and the network. There
//! it may put addresses on a device, cover `/mnt` and write where it likes, and nothing of it
//! reaches the machine. From there the suite runs twice, as the superuser and as an ordinary user.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::Uid;

/// The user that the suite runs as a second time.
const ORDINARY_USER: u32 = 23_418;

/// Which part of the preparations is done.
const STEP: &str = "WT_ESCAPE_STEP";

/// The key in the session keyring of whoever starts sessions.
pub(crate) const KEY: &str = "wt-escape-key";

/// What every secret of the suite contains.
pub(crate) const CANARY: &str = "canary-7f3a1c";

/// The addresses that the suite's network has: private, metadata, public, and an IPv6 one.
const ADDRESSES: &[&str] = &[
    "10.9.9.9/32",
    "169.254.169.254/32",
    "203.0.113.10/32",
    "2001:db8::1/128",
];

/// What came of the preparations.
pub(crate) enum Prepared {
    /// This process runs the cases.
    Pass,
    /// Others did; whether all went well.
    Done(bool),
}

/// Whether the superuser made a network and places for this run.
pub(crate) fn are_made() -> bool {
    std::env::var(STEP).is_ok_and(|step| step == "made")
}

/// The program that attacks.
pub(crate) fn probe() -> &'static str {
    env!("CARGO_BIN_EXE_wt-escape-probe")
}

/// Where worlds are made.
pub(crate) fn base() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("escape-{}", Uid::effective()))
}

/// Prepares, and runs the suite in what was prepared.
pub(crate) fn prepare(args: &[String]) -> Prepared {
    let program = std::env::current_exe().unwrap();
    match (
        std::env::var(STEP).ok().as_deref(),
        Uid::effective().is_root(),
    ) {
        (Some("made" | "alone"), _) => {
            std::fs::create_dir_all(base()).unwrap();
            Prepared::Pass
        }
        (None, false) => {
            println!(
                "started by an ordinary user: the superuser's half and the network are left out"
            );
            Prepared::Done(pass(&program, args, "alone", None))
        }
        (None, true) => {
            let status = Command::new("unshare")
                .args(["--mount", "--net", "--propagation", "private", "--"])
                .arg(&program)
                .args(args)
                .env(STEP, "namespaces")
                .status();
            Prepared::Done(status.unwrap().success())
        }
        (Some(_), _) => {
            make();
            let root = pass(&program, args, "made", None);
            if let Some(closed) = closed_to_others(&program) {
                println!(
                    "skipped: escape as an ordinary user: nobody else may enter {}",
                    closed.display()
                );
                return Prepared::Done(root);
            }
            let user = pass(&program, args, "made", Some(ORDINARY_USER));
            Prepared::Done(root && user)
        }
    }
}

/// The first folder above a file that other users may not enter.
fn closed_to_others(file: &Path) -> Option<PathBuf> {
    let above = file.ancestors().skip(1);
    let is_closed = |folder: &&Path| {
        std::fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o001 == 0)
    };
    above.filter(is_closed).last().map(Path::to_owned)
}

/// Runs the cases, with a key in the session keyring.
fn pass(program: &Path, args: &[String], step: &str, user: Option<u32>) -> bool {
    let mut command = Command::new(probe());
    command
        .args(["with-key", KEY, CANARY])
        .arg(program)
        .args(args)
        .env(STEP, step);
    if let Some(user) = user {
        let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("escape-{user}"));
        std::fs::create_dir_all(&base).unwrap();
        chown(&base, Some(user), Some(user)).unwrap();
        command.uid(user).gid(user).env("HOME", &base);
    }
    command.status().unwrap().success()
}

/// Makes the network and the places, in namespaces of the suite's own.
fn make() {
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program)
            .args(args)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .status();
        status.is_ok_and(|status| status.success())
    };
    assert!(run("ip", &["link", "set", "lo", "up"]));
    let device = if run("ip", &["link", "add", "outside", "type", "dummy"]) {
        "outside"
    } else {
        "lo"
    };
    assert!(run("ip", &["link", "set", device, "up"]));
    for address in ADDRESSES {
        let is_v6 = address.contains(':');
        let mut words = vec!["address", "add", address, "dev", device];
        words.extend(is_v6.then_some("nodad"));
        // A machine without IPv6 lacks the last one, and the case says so.
        assert!(run("ip", &words) || is_v6, "{address}");
    }
    std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0").unwrap();
    for (place, mode) in [("/mnt", "mode=1777"), ("/run/user", "mode=1777")] {
        assert!(run("mount", &["-t", "tmpfs", "-o", mode, "tmpfs", place]));
    }
    std::fs::copy(probe(), "/mnt/probe-of-root").unwrap();
    let mode = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions("/mnt/probe-of-root", mode).unwrap();
}

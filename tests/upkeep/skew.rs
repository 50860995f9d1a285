//! A program that was replaced while its daemon and its sessions run.

use std::fs;
use std::path::{Path, PathBuf};

use wt_tests::process::{free_port, program};
use wt_tests::profile::Running;
use wt_tests::{Profile, Run};

use super::{pid, start};

/// The version of this build.
const THIS: &str = env!("CARGO_PKG_VERSION");

/// Another version's program: this build's, with another number in it of the same length.
fn of_another_version(folder: &Path) -> (PathBuf, String) {
    let other = format!("{}9", &THIS[..THIS.len() - 1]);
    assert_ne!(other, THIS);
    let mut bytes = fs::read(program("wt")).unwrap();
    let places = memchr::memmem::find_iter(&bytes, THIS.as_bytes()).collect::<Vec<_>>();
    for at in places {
        bytes[at..at + THIS.len()].copy_from_slice(other.as_bytes());
    }
    let path = folder.join("wt");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    (path, other)
}

#[track_caller]
fn run(profile: &Profile, wt: &Path, args: &[&str]) -> Run {
    let mut command = profile.command(wt);
    command.args(args);
    Running::start(command).wait().without_panic().ok()
}

#[test]
fn a_daemon_and_sessions_of_another_version_are_called_out_with_what_to_do() {
    let ada = Profile::new("ada");
    let (old, version) = of_another_version(ada.scratch());
    assert!(run(&ada, &old, &["--version"]).out().contains(&version));
    let addr = format!("127.0.0.1:{}", free_port());
    run(&ada, &old, &["roost", "start", "--addr", &addr]);
    let line = ["terminal", "--json", "--name", "old", "--", "sleep", "600"];
    run(&ada, &old, &line);
    start(&ada, "new", "exec sleep 600");

    let status = ada.wt_json(&["status"]);
    assert_eq!(status["program_version"], THIS);
    assert_eq!(status["skew"]["daemon"], version);
    let sessions = status["skew"]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{status}");
    assert_eq!(sessions[0]["name"], "old");
    assert_eq!(sessions[0]["version"], version);
    assert!(status["skew"]["hint"].to_string().contains("wt stop"));
    let words = ada.wt(&["status"]).ok().out();
    assert!(words.contains(&version) && words.contains(THIS), "{words}");
    assert!(words.contains("wt stop"), "{words}");

    let doctor = ada.wt_json(&["doctor"]);
    let check = |name: &str| {
        let checks = doctor["checks"].as_array().unwrap();
        checks
            .iter()
            .find(|one| one["name"] == name)
            .unwrap()
            .clone()
    };
    for name in ["daemon", "sessions"] {
        assert_eq!(check(name)["status"], "warning", "{doctor}");
        assert!(check(name)["message"].to_string().contains(&version));
        assert!(!check(name)["hint"].is_null());
    }
    let words = ada.wt(&["doctor"]).out();
    assert!(words.contains(&version), "{words}");

    // What was called out is what has to be done, and the session goes on meanwhile.
    let before = ada.session("old").unwrap();
    ada.wt(&["stop"]).ok();
    ada.wt(&["roost", "start", "--addr", &addr]).ok();
    let status = ada.wt_json(&["status"]);
    assert!(status["skew"]["daemon"].is_null(), "{status}");
    assert_eq!(pid(&ada.session("old").unwrap()), pid(&before));
    ada.wt(&["session", "kill", "old"]).ok();
    assert!(ada.wt_json(&["status"])["skew"].is_null());
    let doctor = ada.wt_json(&["doctor"]);
    assert!(!doctor["checks"].to_string().contains(&version));
}

#[test]
fn a_daemon_whose_program_was_removed_still_starts_sessions() {
    let ada = Profile::new("ada");
    let (old, _) = of_another_version(ada.scratch());
    let addr = format!("127.0.0.1:{}", free_port());
    run(&ada, &old, &["roost", "start", "--addr", &addr]);
    fs::remove_file(&old).unwrap();

    let label = ada.wt_json(&["status"])["daemon"]["label"].clone();
    let label = label.as_str().unwrap();
    let place = ["--wing", label];
    let line = [
        &["terminal", "--detach", "--name", "x"],
        &place[..],
        &["--", "sleep", "600"],
    ]
    .concat();
    ada.wt_json(&line);

    assert_eq!(ada.session("x").unwrap()["status"], "running");
    ada.wt(&["stop"]).ok();
    assert_eq!(ada.session("x").unwrap()["status"], "running");
}

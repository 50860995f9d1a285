//! What keeps a profile in order: scripts at the edges, daemons and machines that die,
//! resources that run out, versions that differ, and homes that two hosts share.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod daemon;
mod edges;
mod resources;
mod shared;
mod skew;

use std::path::Path;

use serde_json::Value;
use wt_tests::process::program;
use wt_tests::profile::Running;
use wt_tests::{Profile, Run};

/// Starts a session in the background that runs a shell script, and returns its record.
#[track_caller]
fn start(who: &Profile, name: &str, script: &str) -> Value {
    let args = ["terminal", "--name", name, "--", "/bin/sh", "-c", script];
    who.wt_json(&args)["session"].clone()
}

/// Waits until a session has printed a text.
#[track_caller]
fn wait_for(who: &Profile, name: &str, text: &str) {
    let args = [
        "session",
        "wait",
        name,
        "--contains",
        text,
        "--timeout",
        "20s",
    ];
    assert_eq!(who.wt_json(&args)["matched"], true);
}

/// A command in a profile: a script of a shell, with the path of `wt` in `$WT`.
fn shell(profile: &Profile, script: &str) -> Running {
    let mut command = profile.command(Path::new("bash"));
    command.args(["-uc", script]).env("WT", program("wt"));
    Running::start(command)
}

/// Runs a script like [`shell`] to its end.
#[track_caller]
fn run(profile: &Profile, script: &str) -> Run {
    shell(profile, script).wait().without_panic()
}

/// Starts a script like [`shell`], where mounts, the host's name and process ids are its own.
fn in_a_container(profile: &Profile, script: &str) -> Running {
    let mut command = profile.command(Path::new("unshare"));
    command
        .args(["--map-root-user", "--mount", "--uts", "--pid", "--fork"])
        .args(["--kill-child", "--mount-proc", "bash", "-uc", script])
        .env("WT", program("wt"));
    Running::start(command)
}

fn pid(record: &Value) -> u32 {
    u32::try_from(record["pid"].as_u64().unwrap()).unwrap()
}

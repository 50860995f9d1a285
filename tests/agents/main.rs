//! Sessions with agents, and with programs that need the right surroundings.
//!
//! The agents are stand-ins that take the keyboard as the real ones do (`stand_in.rs`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod doctor;
mod launch;
mod life;
mod surroundings;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use wt_tests::Profile;

/// Every agent and its program.
const AGENTS: [(&str, &str); 6] = [
    ("claude", "claude"),
    ("codex", "codex"),
    ("cursor", "cursor-agent"),
    ("gemini", "gemini"),
    ("ollama", "ollama"),
    ("opencode", "opencode"),
];

const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A folder with a stand-in for every agent.
fn stand_ins(below: &Path) -> PathBuf {
    let folder = below.join("agents");
    fs::create_dir(&folder).unwrap();
    // A copy, because a session sees nothing of the build when that lies below /tmp.
    fs::copy(env!("CARGO_BIN_EXE_wt-stand-in"), folder.join("stand-in")).unwrap();
    for (_, program) in AGENTS {
        symlink("stand-in", folder.join(program)).unwrap();
    }
    folder
}

/// Where an agent's stand-in keeps what is its own, below the home folder.
fn folder_of(program: &str) -> String {
    match program {
        "opencode" => ".local/share/opencode".to_owned(),
        "cursor-agent" => ".cursor".to_owned(),
        program => format!(".{program}"),
    }
}

/// A user who has all agents installed.
fn user() -> Profile {
    let profile = Profile::new("ada");
    let folder = stand_ins(&profile.home());
    profile.env("PATH", &format!("{}:{SYSTEM_PATH}", folder.display()))
}

/// The arguments and the variables with which a stand-in was launched.
fn launched(profile: &Profile, program: &str) -> (String, Vec<String>) {
    let file = profile.home().join(folder_of(program)).join("launched");
    let text = wt_tests::eventually("the stand-in to start", || fs::read_to_string(&file).ok());
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().unwrap_or_default(), lines.collect())
}

/// Waits until a session printed this.
#[track_caller]
fn wait_for(profile: &Profile, name: &str, text: &str) {
    profile
        .wt(&[
            "session",
            "wait",
            name,
            "--contains",
            text,
            "--from",
            "0",
            "--timeout",
            "30s",
        ])
        .ok();
}

//! The README's two commands, as a user types them.

use std::path::Path;
use std::process::Command;

use wt_tests::Profile;
use wt_tests::process::{program, project_root};
use wt_tests::profile::Running;
use wt_tests::world::find;

/// The commands in the README's code blocks, in order, without prompts and comments.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string(project_root().join("README.md")).unwrap();
    let mut inside = false;
    let mut found = Vec::new();
    for line in readme.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            let line = line.trim().trim_start_matches("$ ");
            if !line.is_empty() && !line.starts_with('#') {
                found.push(line.to_owned());
            }
        }
    }
    found
}

/// Runs a script in the profile where nothing else has a port: in a network namespace.
fn in_own_network(profile: &Profile, script: &str) -> Running {
    let mut command = profile.command(Path::new("unshare"));
    command.args(["--map-root-user", "--net", "/bin/sh", "-euc"]);
    command.arg(format!("ip link set lo up\n{script}"));
    command.env("WT", program("wt"));
    Running::start(command)
}

#[test]
fn the_first_command_starts_a_roost_and_the_second_runs_the_tests() {
    let commands: Vec<String> = commands()
        .into_iter()
        .filter(|line| !line.starts_with("git ") && !line.starts_with("cd "))
        .collect();

    let first: Vec<&str> = commands[0].split_whitespace().collect();
    assert_eq!(first[..3], ["cargo", "run", "--release"], "{commands:?}");
    assert_eq!(first[first.len() - 2..], ["roost", "start"], "{commands:?}");
    assert_eq!(commands[1], "tests/run");
    let mut syntax = Command::new("bash");
    syntax.arg("-n").arg(project_root().join("tests/run"));
    assert!(syntax.status().unwrap().success());
}

#[test]
fn roost_start_names_the_wing_and_the_next_two_commands() {
    let profile = Profile::new("new user");

    let run = in_own_network(
        &profile,
        r#""$WT" roost start
           "$WT" wing id --json
           "$WT" status --json
           "$WT" stop >/dev/null"#,
    )
    .wait()
    .ok();

    let out = run.out();
    let documents: Vec<serde_json::Value> = out
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(serde_json::Value::is_object)
        .collect();
    let id = find(&documents[0], "wing_id")
        .or_else(|| find(&documents[0], "id"))
        .and_then(serde_json::Value::as_str)
        .unwrap();
    let label = find(&documents[0], "label")
        .and_then(serde_json::Value::as_str)
        .unwrap();
    let said: Vec<&str> = out
        .lines()
        .take_while(|line| !line.starts_with('{'))
        .collect();
    let said_text = said.join("\n");
    let letters: String = said_text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    assert!(letters.contains(id), "the id {id} is missing:\n{run}");
    assert!(
        said_text.contains(label),
        "the label {label} is missing:\n{run}"
    );
    assert!(said_text.contains("127.0.0.1:8080"), "{run}");
    let next = said
        .iter()
        .filter(|line| {
            // By name, or by its path where a shell would not find it.
            let program = line.trim().split(' ').next().unwrap_or_default();
            program == "wt" || program.ends_with("/wt")
        })
        .count();
    assert_eq!(next, 2, "there are to be two next commands:\n{run}");
    assert!(
        holds_sqlite(&profile.dir()),
        "there is no SQLite file in the profile"
    );
}

fn holds_sqlite(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return holds_sqlite(&path);
        }
        std::fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3\0"))
    })
}

//! Sessions that start, that start with less, and that do not start.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wt_tests::profile::Running;
use wt_tests::world::LABEL;
use wt_tests::{World, process};

use crate::{User, notes};

/// A command whose processes can make no further namespaces. None where the host lets nobody
/// make such a place, which has nothing to show.
fn without_namespaces(ada: &User, args: &[&str]) -> Option<Command> {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let mut inside = vec!["-Ur", "sh", "-c", script, "sh"];
    let trial = Command::new("unshare").args(&inside).arg("true").output();
    if !trial.is_ok_and(|trial| trial.status.success()) {
        eprintln!("skipped: unshare -Ur does not work here");
        return None;
    }
    let wt = process::program("wt").display().to_string();
    inside.push(&wt);
    let mut command = ada.profile.command(Path::new("unshare"));
    command.args(inside).args(args).current_dir(ada.project());
    Some(command)
}

#[test]
fn a_sandbox_that_cannot_be_enforced_stops_the_start_with_8() {
    let ada = User::new();
    let Some(command) = without_namespaces(&ada, &["terminal", "--json", "--", "true"]) else {
        return;
    };

    let error = Running::start(command).wait().code(8).json_error();
    assert_eq!(error["code"], "not_enforced");
    let message = error["message"].as_str().unwrap();
    let (_, step_and_cause) = message.split_once("could not be enforced: ").unwrap();
    assert_eq!(step_and_cause.matches(": ").count().min(1), 1, "{message}");
    assert!(!error["hint"].as_str().unwrap().is_empty());
    let text = without_namespaces(&ada, &["terminal", "--detach", "--", "true"]).unwrap();
    let text = Running::start(text).wait().code(8).err();
    assert!(text.contains("error: the sandbox could not be enforced") && text.contains("hint: "));
    assert!(ada.profile.sessions().is_empty());

    // It can all be seen before, and the one way round it has to be asked for.
    let doctor = without_namespaces(&ada, &["doctor", "--json"]).unwrap();
    let report = Running::start(doctor).wait().code(1).json();
    assert_eq!(report["sandbox"]["enforced"], false);
    let features = report["sandbox"]["features"].as_array().unwrap();
    let namespaces = features.iter().find(|f| f["name"] == "namespaces").unwrap();
    assert_eq!(namespaces["state"], "missing");
    assert!(namespaces["cause"].is_string() && namespaces["remedy"].is_string());
    let explain = without_namespaces(&ada, &["egg", "explain", "--json"]).unwrap();
    assert_eq!(Running::start(explain).wait().ok().json()["tier"], "none");
    let outer = ["terminal", "--json", "--unsandboxed", "--", "true"];
    let outer = without_namespaces(&ada, &outer).unwrap();
    let started = Running::start(outer).wait().ok().json();
    assert_eq!(started["session"]["isolation"], "outer-boundary");

    // The same start where nothing is in the way.
    let started = ada.json(&["terminal", "--", "true"]);
    assert_eq!(started["session"]["isolation"], "namespace");
    assert_eq!(ada.json(&["doctor"])["sandbox"]["enforced"], true);
}

#[test]
fn a_session_that_starts_in_an_unsafe_folder_is_read_only_there_and_says_so() {
    let ada = User::new();
    let above = ada.profile.scratch().to_owned();
    let script = "(: > made-here) 2>/dev/null && echo wrote || echo kept; sleep 0.2";
    for folder in [ada.profile.home(), "/".into(), above] {
        let args = ["terminal", "--json", "--", "sh", "-c", script];
        let run = ada.wt_in(&folder, &args).ok();

        let told: Vec<String> = run
            .err()
            .lines()
            .filter(|line| line.contains("--cwd"))
            .map(str::to_owned)
            .collect();
        assert_eq!(told.len(), 1, "{run}");
        let record = run.json()["session"].clone();
        assert!(notes(&record).contains("--cwd"), "{record}");
        let id = record["id"].as_str().unwrap();
        assert!(ada.output(id).contains("kept"), "{}", folder.display());
        // It is on record when the session is over, too.
        assert!(notes(&ada.ended(id)).contains("--cwd"));
        assert!(!folder.join("made-here").exists());
    }
    let run = ada
        .wt_in(
            Path::new("/tmp"),
            &["terminal", "--json", "--", "sleep", "0.2"],
        )
        .ok();
    assert!(notes(&run.json()["session"]).contains("--cwd"), "{run}");

    let (output, record) = ada.script(script);
    assert!(output.contains("wrote") && ada.project().join("made-here").exists());
    assert_eq!(notes(&record), "");
}

#[test]
fn an_outer_boundary_is_said_wherever_the_session_is() {
    let ada = User::new();
    let script = "(: > ~/outside) 2>/dev/null && echo wrote || echo kept";
    let (held, record) = ada.script(script);
    assert!(held.contains("kept"));
    assert_eq!(record["isolation"], "namespace");

    let (free, record) = ada.script_with(&["--unsandboxed", "--name", "outer"], script);

    assert!(free.contains("wrote"));
    assert_eq!(record["isolation"], "outer-boundary");
    let list = ada.wt(&["session", "ps"]).ok().out();
    let row = list
        .lines()
        .find(|line| line.starts_with("outer "))
        .unwrap();
    assert!(row.contains("outer-boundary"), "{row}");
    assert!(
        list.lines().any(|line| line.contains("namespace")),
        "{list}"
    );
    ada.wt(&[
        "terminal",
        "--unsandboxed",
        "--trace",
        "--detach",
        "--",
        "true",
    ])
    .code(2);
}

#[test]
fn a_session_starts_no_session_and_says_why() {
    let ada = User::new();
    let wt = process::program("wt").display().to_string();
    let script = format!(
        "'{wt}' terminal --detach -- true; echo plain=$?; '{wt}' session ps; \
         WINGTHING_DIR=/tmp/own '{wt}' terminal --detach -- true; echo own=$?; \
         WINGTHING_DIR='{}' '{wt}' terminal --detach -- true; echo named=$?",
        ada.profile.dir().display()
    );

    let (output, _) = ada.script_with(&["--name", "outer"], &script);

    let flat = output.replace("\r\n", " ");
    assert!(
        flat.contains("plain=5") && flat.contains("in the session outer"),
        "{output}"
    );
    assert!(
        flat.contains("own=8") && flat.contains("no other can be put up"),
        "{output}"
    );
    // The profile's own name leads to an empty place in the session's own /tmp, or nowhere.
    assert!(
        flat.contains("named=") && !flat.contains("named=0"),
        "{output}"
    );
    assert_eq!(ada.profile.sessions().len(), 1);
    let (free, _) = ada.script_with(
        &["--unsandboxed"],
        &script.replace("/tmp/own", &ada.at("own")),
    );
    assert!(free.contains("own=0"), "{free}");
    let mut stop = ada.profile.command(&process::program("wt"));
    stop.env("WINGTHING_DIR", ada.at("own")).arg("stop");
    let _ = stop.output();
}

#[test]
fn a_file_can_stand_in_for_the_users_own() {
    let ada = User::new();
    ada.write_home("notes/old", "");
    fs::write(
        ada.profile.scratch().join("other.yaml"),
        "fs: [\"rw:~/notes\"]\n",
    )
    .unwrap();
    let file = ada
        .profile
        .scratch()
        .join("other.yaml")
        .display()
        .to_string();
    let script = "(: > ~/notes/new) 2>/dev/null && echo wrote || echo kept";

    assert!(ada.script(script).0.contains("kept"));
    assert!(
        ada.script_with(&["--config", &file], script)
            .0
            .contains("wrote")
    );
    ada.wt(&[
        "terminal",
        "--detach",
        "--config",
        "missing.yaml",
        "--",
        "true",
    ])
    .code(1);
}

#[test]
fn a_session_that_a_client_starts_elsewhere_is_held_by_the_rules_there() {
    let world = World::roost();
    world.admit_ben();
    let project = world.ada.home().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("egg.yaml"), "fs: [\"rw:~/notes\"]\n").unwrap();
    fs::create_dir(world.ada.home().join("notes")).unwrap();
    fs::create_dir(world.ada.home().join(".ssh")).unwrap();
    fs::write(world.ada.home().join(".ssh/id"), "needle").unwrap();
    let script = format!(
        "cat ~/.ssh/id; ls '{}'; (: > ~/notes/new) 2>/dev/null || echo kept; : > made && echo made; sleep 0.2",
        world.ada.dir().display()
    );
    let cwd = project.display().to_string();

    let run = world
        .ben
        .wt(&[
            "terminal", "--json", "--wing", LABEL, "--cwd", &cwd, "--", "sh", "-c", &script,
        ])
        .ok();

    let session: Value = run.json()["session"].clone();
    assert_eq!(session["isolation"], "namespace");
    assert!(run.err().contains("not applied: rw"), "{run}");
    assert!(notes(&session).contains("wt egg trust"));
    let id = session["id"].as_str().unwrap();
    world
        .ben
        .wt(&[
            "session",
            "wait",
            id,
            "--wing",
            LABEL,
            "--contains",
            "made",
            "--from",
            "0",
            "--timeout",
            "30s",
        ])
        .ok();
    let output = world
        .ben
        .wt(&["session", "read", id, "--wing", LABEL, "--raw"])
        .ok()
        .out();
    assert!(
        output.contains("kept") && !output.contains("needle"),
        "{output}"
    );
    assert!(!output.contains("wing.yaml"), "{output}");
    assert!(project.join("made").exists());
}

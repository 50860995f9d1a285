//! What is left of sessions and daemons that died without a word.

use nix::sys::signal::Signal;
use wt_tests::Profile;
use wt_tests::process::{is_alive, kill9, signal};
use wt_tests::world::World;

fn pid(record: &serde_json::Value) -> u32 {
    u32::try_from(record["pid"].as_u64().unwrap()).unwrap()
}

#[test]
fn a_session_whose_supervisor_was_killed_is_lost_and_its_output_is_kept() {
    let ada = Profile::new("ada");
    ada.wt_json(&[
        "terminal",
        "--name",
        "work",
        "--",
        "/bin/sh",
        "-c",
        "echo last-words; exec sleep 600",
    ]);
    wt_tests::eventually("the last words", || {
        ada.wt(&["session", "read", "work"])
            .out()
            .contains("last-words")
            .then_some(())
    });
    let egg = ada.supervisor("work");
    assert_ne!(egg, 1, "a session has a supervisor of its own");

    kill9(egg);

    let record = ada.wait_for_status("work", "lost");
    assert!(record["exit"].is_null(), "{record}");
    let read = ada.wt(&["session", "read", "work"]).ok();
    assert!(read.out().contains("last-words"), "{read}");
    let raw = ada.wt(&["session", "read", "work", "--raw"]).ok();
    assert!(raw.out().contains("last-words"), "{raw}");

    // The name is free again.
    ada.wt_json(&["terminal", "--name", "work", "--", "sleep", "600"]);
    assert_eq!(ada.session("work").unwrap()["status"], "running");
}

#[test]
fn nothing_that_the_dead_left_blocks_a_new_start() {
    let world = World::roost();
    world
        .ada
        .wt_json(&["terminal", "--name", "old", "--", "sleep", "600"]);
    // All at one moment, as a machine that loses its power: none may see another's end.
    for deadly in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in world.ada.processes() {
            signal(pid, deadly);
        }
    }
    wt_tests::eventually("the end of all processes", || {
        world.ada.processes().is_empty().then_some(())
    });

    world.start_roost().ok();

    assert_eq!(world.ada.session("old").unwrap()["status"], "lost");
    world
        .ada
        .wt_json(&["terminal", "--name", "new", "--", "sleep", "600"]);
    assert_eq!(world.ada.session("new").unwrap()["status"], "running");
}

#[test]
fn a_killed_session_is_gone_with_its_children() {
    let ada = Profile::new("ada");
    ada.wt_json(&[
        "terminal",
        "--name",
        "tree",
        "--",
        "/bin/sh",
        "-c",
        "sleep 600 & sleep 600",
    ]);
    let program = pid(&ada.wait_for_status("tree", "running"));

    ada.wt_json(&["session", "kill", "tree"]);

    assert!(!is_alive(program));
    wt_tests::eventually("the end of all processes", || {
        ada.processes().is_empty().then_some(())
    });
    assert_eq!(ada.session("tree").unwrap()["status"], "killed");
}

#[test]
fn a_session_that_does_not_exist_is_exit_3() {
    let ada = Profile::new("ada");

    for command in [["session", "read", "none"], ["session", "kill", "none"]] {
        let run = ada.wt(&[&command[..], &["--json"]].concat()).code(3);
        run.json_error();
    }
    ada.wt(&["attach", "none"]).code(3);
}

#[test]
fn a_command_that_cannot_be_found_is_exit_127() {
    let ada = Profile::new("ada");

    let terminal = ada.terminal(&["terminal", "--name", "x", "--", "no-such-program-here"]);

    assert_eq!(terminal.wait_exit(), 127);
}

#[test]
fn a_listed_session_has_the_whole_record() {
    let ada = Profile::new("ada");
    let started = ada.wt_json(&["terminal", "--name", "work", "--", "sleep", "600"]);
    assert_eq!(started["session"]["name"], "work");

    let record = ada.session("work").unwrap();

    for key in [
        "id",
        "name",
        "kind",
        "agent",
        "command",
        "cwd",
        "status",
        "isolation",
        "pid",
        "created_at",
        "created_by",
        "cols",
        "rows",
        "bytes_written",
        "title",
        "attention",
        "clients",
        "writer",
        "exit",
        "notes",
    ] {
        assert!(record.get(key).is_some(), "{key} is missing: {record}");
    }
    assert_eq!(record["kind"], "command");
    assert_eq!(record["isolation"], "namespace");
    assert_eq!(record["command"], serde_json::json!(["sleep", "600"]));
    assert_eq!(record["id"].as_str().unwrap().len(), 12);
    assert_eq!(record["created_by"]["kind"], "cli");
}

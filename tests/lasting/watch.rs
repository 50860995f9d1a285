//! `wt session watch`.

use nix::sys::signal::Signal;
use serde_json::Value;
use wt_tests::process;
use wt_tests::profile::Running;
use wt_tests::wait::eventually;
use wt_tests::world::LABEL;
use wt_tests::{Profile, World};

use super::start;

/// Reads lines of a watch until one has this event, and returns all of them.
#[track_caller]
fn until(watch: &Running, from: usize, event: &str) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let line = watch.line(from + events.len());
        let one: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(one["version"], 1, "{one}");
        let is_last = one["event"] == event;
        events.push(one);
        if is_last {
            return events;
        }
    }
}

fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

#[test]
fn one_session_is_told_of_from_its_start_to_its_end() {
    let ada = Profile::new("ada");
    let session = start(
        &ada,
        &[],
        "job",
        "read go; printf '\\033]2;compiling\\007'; read go; printf '\\033]9;all done\\007'; read go; exit 7",
    );
    let watch = ada.spawn(&["session", "watch", "job", "--json"]);
    let mut seen = until(&watch, 0, "started");
    assert_eq!(seen[0]["id"], session["id"]);
    assert_eq!(seen[0]["name"], "job");
    assert!(seen[0]["at"].as_str().unwrap().ends_with('Z'));

    let terminal = ada.terminal(&["attach", "job"]);
    seen.extend(until(&watch, seen.len(), "attached"));
    assert_eq!(seen.last().unwrap()["clients"], 1);
    terminal.line("go");
    seen.extend(until(&watch, seen.len(), "title"));
    assert_eq!(seen.last().unwrap()["title"], "compiling");
    terminal.line("go");
    seen.extend(until(&watch, seen.len(), "attention"));
    let attention = seen.last().unwrap();
    assert_eq!(
        (&attention["kind"], &attention["text"]),
        (&"notify".into(), &"all done".into())
    );
    ada.wt(&["session", "rename", "job", "work"]).ok();
    seen.extend(until(&watch, seen.len(), "renamed"));
    assert_eq!(seen.last().unwrap()["name"], "work");
    terminal.detach();
    seen.extend(until(&watch, seen.len(), "detached"));
    assert_eq!(seen.last().unwrap()["clients"], 0);
    ada.wt(&["session", "send", "work", "go", "--enter"]).ok();
    seen.extend(until(&watch, seen.len(), "exit"));
    assert_eq!(seen.last().unwrap()["exit"]["code"], 7);

    let run = watch.wait();
    assert_eq!(run.status, 0);
    assert_eq!(run.json_lines().len(), seen.len());
}

#[test]
fn all_sessions_are_told_of_also_those_that_come_and_go_later() {
    let ada = Profile::new("ada");
    start(&ada, &[], "old", "sleep 600");
    let watch = ada.spawn(&["session", "watch", "--json"]);
    let first = until(&watch, 0, "started");
    assert_eq!(first[0]["name"], "old");

    start(&ada, &[], "brief", "exit 3");
    let rest = until(&watch, 1, "exit");
    assert_eq!(names(&rest), ["started", "exit"]);
    assert_eq!(rest[1]["name"], "brief");
    assert_eq!(rest[1]["exit"]["code"], 3);

    process::signal(watch.pid(), Signal::SIGINT);
    let run = watch.wait();
    assert_eq!(run.status, 130);
    assert_eq!(run.err(), "");
}

#[test]
fn a_watch_whose_reader_left_ends_in_silence_though_nothing_happens() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let ada = Profile::new("ada");
    start(&ada, &[], "quiet", "sleep 600");
    let mut watch = ada
        .command(&process::program("wt"))
        .args(["session", "watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("quiet"), "{line}");

    let status = eventually("the watch to end", || watch.try_wait().unwrap());

    assert_eq!(status.code(), Some(141));
    let mut words = String::new();
    std::io::Read::read_to_string(&mut watch.stderr.take().unwrap(), &mut words).unwrap();
    assert_eq!(words, "");
}

#[test]
fn a_session_that_is_not_there_or_ended_cannot_be_watched() {
    let ada = Profile::new("ada");

    assert_eq!(ada.wt(&["session", "watch", "none"]).status, 3);
    start(&ada, &[], "over", "exit 0");
    ada.wait_for_status("over", "exited");
    assert_eq!(ada.wt(&["session", "watch", "over"]).status, 1);
}

#[test]
fn a_wings_sessions_are_watched_through_a_relay() {
    let world = World::roost();
    world.admit_ben();
    start(&world.ada, &[], "job", "read go; exit 5");
    let watch = world
        .ben
        .spawn(&["session", "watch", "job", "--wing", LABEL, "--json"]);
    until(&watch, 0, "started");

    let terminal = world.ada.terminal(&["attach", "job"]);
    let attached = until(&watch, 1, "attached");
    terminal.line("go");
    let ended = until(&watch, 1 + attached.len(), "exit");

    assert_eq!(ended.last().unwrap()["exit"]["code"], 5);
    assert_eq!(watch.wait().status, 0);
}

//! `wt session export`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use wt_tests::world::LABEL;
use wt_tests::{Profile, World};

use super::{start, wait_for};

/// The events of an asciicast v2, its header checked.
#[track_caller]
fn events(cast: &str) -> Vec<(f64, String, String)> {
    let mut lines = cast.lines();
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header["version"], 2, "{header}");
    assert!(
        header["width"].is_u64() && header["height"].is_u64(),
        "{header}"
    );
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn printed(cast: &str) -> String {
    let events = events(cast);
    let output = events.iter().filter(|(_, code, _)| code == "o");
    output.map(|(_, _, data)| data.as_str()).collect()
}

/// Starts a recorded session that prints, waits and prints.
#[track_caller]
fn record(who: &Profile) {
    who.wt(&[
        "terminal",
        "--detach",
        "--record",
        "--name",
        "tape",
        "--",
        "/bin/sh",
        "-c",
        "echo first; sleep 0.4; echo second; exit 3",
    ])
    .ok();
    who.wait_for_status("tape", "exited");
}

#[test]
fn a_recording_is_exported_with_its_times_and_the_end() {
    let ada = Profile::new("ada");
    record(&ada);

    let cast = ada
        .wt(&["session", "export", "tape", "--format", "cast"])
        .ok();

    let events = events(&cast.out());
    let at = |wanted: &str| {
        events
            .iter()
            .find(|(_, _, data)| data.contains(wanted))
            .unwrap()
            .0
    };
    assert!(at("second") - at("first") > 0.3, "{events:?}");
    assert_eq!(events.last().unwrap().2, "exited with status 3");
    assert_eq!(cast.err(), "");
}

#[test]
fn output_without_a_recording_is_exported_as_cast_and_as_text() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "echo a; printf 'wrong\\rright\\n'; exec sleep 600",
    );
    wait_for(&ada, &[], "job", "right");

    let cast = ada
        .wt(&["session", "export", "job", "--format", "cast"])
        .ok();
    assert_eq!(printed(&cast.out()), "a\r\nwrong\rright\r\n");

    let text = ada
        .wt(&["session", "export", "job", "--format", "text"])
        .ok();
    assert_eq!(text.out(), "a\nright\n");
}

#[test]
fn a_file_is_written_for_its_owner_alone_and_json_says_what_it_is() {
    let ada = Profile::new("ada");
    record(&ada);
    let path = ada.scratch().join("tape.cast");
    let path_text = path.to_str().unwrap();

    let said = ada.wt_json(&["session", "export", "tape", "--output", path_text]);

    assert_eq!(said["file"], path_text);
    assert_eq!(said["format"], "cast");
    assert_eq!(said["source"], "recording");
    assert_eq!(said["truncated"], false);
    assert_eq!(said["content"], Value::Null);
    let cast = std::fs::read_to_string(&path).unwrap();
    assert_eq!(printed(&cast), "first\r\nsecond\r\n");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let inline = ada.wt_json(&["session", "export", "tape", "--format", "text"]);
    assert_eq!(inline["content"], "first\nsecond\n");
}

#[test]
fn a_recording_that_reached_its_limit_says_so() {
    let ada = Profile::new("ada");
    wt_tests::world::write_wing_yaml(&ada, "ada", "limits: {recording: 256 KiB}\n");
    ada.wt(&[
        "terminal",
        "--detach",
        "--record",
        "--name",
        "flood",
        "--",
        "/bin/sh",
        "-c",
        "head -c 600000 /dev/urandom | od -An -tx1; exit 0",
    ])
    .ok();
    ada.wait_for_status("flood", "exited");

    let text = ada
        .wt(&["session", "export", "flood", "--format", "text"])
        .ok();
    assert!(text.err().contains("limit"), "{}", text.err());

    let json = ada.wt_json(&["session", "export", "flood", "--format", "cast"]);
    assert_eq!(json["truncated"], true);
    assert!(json["reason"].as_str().unwrap().contains("limit"));
}

#[test]
fn output_whose_start_is_gone_says_from_where_on_it_is() {
    let ada = Profile::new("ada");
    wt_tests::world::write_wing_yaml(&ada, "ada", "limits: {output_window: 256 KiB}\n");
    start(&ada, &[], "flood", "seq 1 200000; echo END; exec sleep 600");
    wait_for(&ada, &[], "flood", "END");

    let json = ada.wt_json(&["session", "export", "flood", "--format", "cast"]);

    assert_eq!(json["source"], "output");
    assert_eq!(json["truncated"], true);
    assert!(json["truncated_before"].as_u64().unwrap() > 0);
    assert!(printed(json["content"].as_str().unwrap()).ends_with("END\r\n"));
}

#[test]
fn a_wings_recording_and_output_are_exported_through_a_relay() {
    let world = World::roost();
    world.admit_ben();
    record(&world.ada);
    start(
        &world.ada,
        &[],
        "long",
        "seq 1 150000; echo END; exec sleep 600",
    );
    wait_for(&world.ada, &[], "long", "END");

    for (name, format) in [
        ("tape", "cast"),
        ("tape", "text"),
        ("long", "cast"),
        ("long", "text"),
    ] {
        let here = ["session", "export", name, "--format", format];
        let there = [&here[..], &["--wing", LABEL]].concat();
        let local = world.ada.wt(&here).ok().out();
        assert_eq!(world.ben.wt(&there).ok().out(), local, "{name} {format}");
        assert!(local.len() > 10);
    }
}

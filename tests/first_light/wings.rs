//! Which wings there are, and who may enter.

use std::collections::BTreeSet;

use wt_tests::World;
use wt_tests::relay::find_file;
use wt_tests::world::LABEL;

#[test]
fn the_list_is_one_document_and_a_pin_is_made_once() {
    let world = World::roost();
    world.admit_ben();

    let list = world.ben.wt_json(&["wings"]);
    let row = list["wings"][0].clone();

    assert!(list["roost"].is_string(), "{list}");
    let keys: BTreeSet<&str> = row
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = BTreeSet::from([
        "wing_id",
        "label",
        "online",
        "fingerprint",
        "pin",
        "hostname",
        "platform",
        "version",
        "admission",
        "sessions",
        "rtt_ms",
        "error",
    ]);
    assert_eq!(keys, expected);
    assert_eq!(row["wing_id"], world.wing_id().as_str());
    assert_eq!(row["label"], LABEL);
    assert_eq!(row["online"], true);
    assert_eq!(row["pin"], "first_seen");
    assert_eq!(row["admission"], "approve");
    assert_eq!(row["sessions"], 0);
    assert!(row["rtt_ms"].is_number(), "{row}");
    assert!(row["error"].is_null(), "{row}");

    assert_eq!(world.row(&[])["pin"], "match");
    let found = world.ben.wt_json(&["find"]);
    assert_eq!(found["wings"][0]["pin"], "match");
}

#[test]
fn a_list_without_probes_opens_no_route_and_pins_nothing() {
    let world = World::roost();
    world.admit_ben();

    let row = world.row(&["--no-probe"]);

    assert_eq!(row["pin"], "unprobed");
    assert_eq!(row["online"], true);
    for unknown in [
        "hostname",
        "platform",
        "version",
        "admission",
        "sessions",
        "rtt_ms",
    ] {
        assert!(
            row[unknown].is_null(),
            "{unknown} is known without a route: {row}"
        );
    }
    let pins = find_file(&world.ben.dir(), "known_wings.json")
        .map(|path| std::fs::read_to_string(path).unwrap())
        .unwrap_or_default();
    assert!(!pins.contains(&world.wing_id()), "{pins}");
    assert_eq!(world.row(&[])["pin"], "first_seen");
}

#[test]
fn an_unreachable_wing_is_a_row_and_no_failure() {
    let world = World::standalone();
    world.admit_ben();
    world.row(&[]);
    world.ada.wt(&["stop"]).ok();

    let row = world.row(&[]);

    assert_eq!(row["online"], false);
    assert_eq!(row["label"], LABEL, "the pin knows the label: {row}");
}

#[test]
fn nobody_enters_before_the_approval_and_the_approved_do() {
    let world = World::roost();

    world.ben.wt(&["attach", "--wing", LABEL, "work"]).code(5);
    world.login(&world.ben);

    let started = world.ben.wt_json(&[
        "terminal", "--wing", LABEL, "--name", "work", "--", "sleep", "600",
    ]);
    assert_eq!(started["session"]["name"], "work");
    assert_eq!(started["session"]["isolation"], "namespace");
    assert_eq!(world.ada.session("work").unwrap()["status"], "running");
}

#[test]
fn a_sign_in_at_the_relay_alone_opens_no_wing() {
    let world = World::standalone();
    world.login(&world.ben);

    world.ben.wt(&["attach", "--wing", LABEL, "work"]).code(5);
    assert!(world.ada.sessions().is_empty());

    // The same act after the wing's own admission.
    world.admit(&world.ben);
    world.ben.wt(&["attach", "--wing", LABEL, "work"]).code(3);
}

#[test]
fn who_is_signed_in_is_told_until_the_sign_out() {
    let world = World::roost();
    world.ben.wt(&["whoami", "--json"]).code(5).json_error();

    world.login(&world.ben);
    let whoami = world.ben.wt_json(&["whoami"]);
    assert!(whoami["account"].is_string(), "{whoami}");

    world.ben.wt(&["logout"]).ok();
    world.ben.wt(&["whoami", "--json"]).code(5);
}

#[test]
fn a_wing_that_is_unknown_is_exit_3() {
    let world = World::roost();
    world.admit_ben();

    let run = world
        .ben
        .wt(&["session", "ps", "--wing", "no-such-wing", "--json"])
        .code(3);

    run.json_error();
}

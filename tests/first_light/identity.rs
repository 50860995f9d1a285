//! A wing that is not the one a client knows is refused, and the client's memory stays.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;
use wt_tests::process::free_port;
use wt_tests::relay::find_file;
use wt_tests::world::{LABEL, find, wing_id, write_wing_yaml};
use wt_tests::{FaultProxy, Profile, Relay, Run, World};

fn fingerprint(profile: &Profile) -> String {
    let id = profile.wt_json(&["wing", "id"]);
    find(&id, "fingerprint")
        .and_then(Value::as_str)
        .unwrap()
        .to_owned()
}

/// Insists on exit 4 with both fingerprints, however they are grouped.
#[track_caller]
fn assert_mismatch(run: Run, fingerprints: [&str; 2]) {
    let run = run.code(4);
    let letters =
        |text: &str| -> String { text.chars().filter(char::is_ascii_alphanumeric).collect() };
    let said = letters(&run.err());
    for fingerprint in fingerprints {
        assert!(
            said.contains(&letters(fingerprint)),
            "the fingerprint {fingerprint} is not shown:\n{run}"
        );
    }
}

fn pins(profile: &Profile) -> (PathBuf, Vec<u8>) {
    let path = find_file(&profile.dir(), "known_wings.json").expect("there are pins");
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

/// A wing of another machine, signed in at the same relay and account.
fn other_wing(world: &World, label: &str) -> Profile {
    let other = Profile::new("eve");
    write_wing_yaml(&other, label, "");
    world.login(&other);
    other.wt(&["start", "--roost", world.url()]).ok();
    other
}

#[test]
fn another_wing_under_a_pinned_label_is_refused_with_both_fingerprints() {
    let world = World::standalone();
    world.admit_ben();
    world.row(&[]);
    let ps = ["session", "ps", "--wing", LABEL];
    world.ben.wt(&ps).ok();
    let before = pins(&world.ben).1;

    let ada = fingerprint(&world.ada);
    world.ada.wt(&["stop"]).ok();
    let eve = other_wing(&world, LABEL);
    // Only inside the seal does a wing say its name.
    let client = world.ben.wt_json(&["whoami"])["client"].clone();
    eve.wt(&["wing", "allow", client.as_str().unwrap()]).ok();

    assert_mismatch(
        world.ben.wt(&["attach", "--wing", LABEL, "work"]),
        [&ada, &fingerprint(&eve)],
    );
    assert_eq!(pins(&world.ben).1, before);

    // The pinned wing itself is let through when it is back.
    world.start_wing().ok();
    world.ben.wt(&ps).ok();
}

#[test]
fn another_key_for_a_pinned_wing_is_refused_with_both_fingerprints() {
    let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = FaultProxy::start(addr, 1);
    let relay = Relay::start_at(addr, format!("http://{}", proxy.addr()));
    let world = World::standalone_at(relay, "");
    let eve = other_wing(&world, "eve-box");
    world.admit_ben();
    world.row(&[]);
    let ps = ["session", "ps", "--wing", LABEL];
    world.ben.wt(&ps).ok();
    let before = pins(&world.ben).1;

    let roster = last_roster(&proxy.captured());
    let row = |id: &str| -> Value {
        let rows = roster["wings"].as_array().unwrap();
        rows.iter()
            .find(|row| row["wing_id"] == id)
            .unwrap()
            .clone()
    };
    let (ada_row, eve_row) = (row(&world.wing_id()), row(&wing_id(&eve)));
    for field in ["identity", "statement"] {
        for (from, to) in strings(&ada_row[field])
            .iter()
            .zip(strings(&eve_row[field]))
        {
            if *from != world.wing_id() {
                proxy.substitute(from.as_bytes(), to.as_bytes());
            }
        }
    }

    assert_mismatch(
        world.ben.wt(&["attach", "--wing", LABEL, "work"]),
        [&fingerprint(&world.ada), &fingerprint(&eve)],
    );
    assert_eq!(pins(&world.ben).1, before);
}

/// The last roster that a relay sent.
fn last_roster(captured: &[u8]) -> Value {
    let text = String::from_utf8_lossy(captured);
    let at = text.rfind("{\"wings\":[").expect("a roster was sent");
    serde_json::Deserializer::from_str(&text[at..])
        .into_iter()
        .next()
        .unwrap()
        .unwrap()
}

/// All strings of a value, in order.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(strings).collect(),
        Value::Object(map) => map.values().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

//! A bad network between Ben and the relay loses nothing that a session printed or got.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use wt_tests::relay::find_file;
use wt_tests::{FaultProxy, Faults, World, eventually};

use super::ben_runs;

/// Sends a profile's links through a proxy: its user edits the address in `roost.json`.
fn dial_through(profile_dir: &Path, world: &World, proxy: &FaultProxy) {
    let path = find_file(profile_dir, "roost.json").expect("a signed-in profile has a roost.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut roost: Value = serde_json::from_str(&text).unwrap();
    let changed = replace_strings(
        &mut roost,
        &world.addr().to_string(),
        &proxy.addr().to_string(),
    );
    assert!(changed > 0, "roost.json names no address of links: {text}");
    std::fs::write(&path, serde_json::to_vec(&roost).unwrap()).unwrap();
}

/// Replaces strings that are wholly one address; returns how many.
fn replace_strings(value: &mut Value, from: &str, to: &str) -> usize {
    match value {
        Value::String(text) if text == from => {
            *text = to.to_owned();
            1
        }
        Value::Array(list) => list.iter_mut().map(|v| replace_strings(v, from, to)).sum(),
        Value::Object(map) => map.values_mut().map(|v| replace_strings(v, from, to)).sum(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// A roost, and Ben whose links go through a proxy.
fn behind_proxy() -> (World, FaultProxy) {
    let world = World::roost();
    world.admit_ben();
    let proxy = FaultProxy::start(world.addr(), 7);
    dial_through(&world.ben.dir(), &world, &proxy);
    (world, proxy)
}

const ECHO: &str = r#"stty -echo; echo GO; while read -r typed; do echo "got <$typed>"; done"#;

#[test]
fn typing_arrives_once_and_in_order_over_a_lossy_slow_link() {
    let (world, proxy) = behind_proxy();
    let client = ben_runs(&world, "work", ECHO);
    client.wait_for("GO");

    proxy.set(Faults {
        delay: Duration::from_millis(20),
        drop: 0.1,
        reorder: 0.1,
    });
    // In bursts of five, so that many datagrams are under way in all.
    for n in 0..50 {
        client.line(&format!("line {n}"));
        if n % 5 == 4 {
            client.wait_for(format!("got <line {n}>"));
        }
    }

    let text = client.text();
    let got: Vec<&str> = text
        .split("got <")
        .skip(1)
        .filter_map(|rest| rest.split_once('>'))
        .map(|(line, _)| line)
        .collect();
    let expected: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
    assert_eq!(got, expected);
    assert!(proxy.lost() > 0, "the proxy lost nothing: it was not used");
    client.detach();
}

#[test]
fn a_frozen_network_holds_input_back_and_loses_nothing() {
    let (world, proxy) = behind_proxy();
    let client = ben_runs(&world, "work", ECHO);
    client.wait_for("GO");

    proxy.freeze();
    client.line("into the ice");
    let lost = proxy.lost();
    eventually("datagrams to vanish", || {
        (proxy.lost() > lost + 2).then_some(())
    });
    assert!(!client.text().contains("got <into the ice>"));
    proxy.resume();

    client.wait_for("got <into the ice>");
    client.line("after");
    client.wait_for("got <after>");
    assert_eq!(client.text().matches("got <into the ice>").count(), 1);
    client.detach();
}

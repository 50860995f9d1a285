//! Sessions that nobody uses end, when their owner wants that.

use std::time::{Duration, Instant};

use wt_tests::world::write_wing_yaml;
use wt_tests::{Profile, eventually, process};

fn start(ada: &Profile, name: &str, script: &str) -> u32 {
    let started = ada.wt_json(&["terminal", "--name", name, "--", "sh", "-c", script]);
    u32::try_from(started["session"]["pid"].as_u64().unwrap()).unwrap()
}

fn limited(limits: &str) -> Profile {
    let ada = Profile::new("ada");
    write_wing_yaml(&ada, "ada", &format!("limits: {{{limits}}}\n"));
    ada
}

#[test]
fn an_idle_session_ends_and_says_why_and_busy_ones_are_spared() {
    let ada = limited("idle: 2s");
    let silent = start(&ada, "computes", "while :; do :; done");
    let prints = start(&ada, "prints", "while :; do echo x; sleep 0.3; done");
    start(&ada, "idle", "sleep 600");

    let ended = ada.wait_for_status("idle", "killed");
    let notes = ended["notes"].to_string();
    assert!(notes.contains("limits.idle"), "{ended}");
    // The others had as much time as the idle one needed, and as much again.
    let started = Instant::now();
    eventually("the busy ones to prove themselves", || {
        (started.elapsed() > Duration::from_secs(4)).then_some(())
    });
    assert!(process::is_alive(silent) && process::is_alive(prints));
}

#[test]
fn a_session_that_somebody_watches_is_not_idle() {
    let ada = limited("idle: 1s");
    let terminal = ada.terminal(&[
        "terminal",
        "--name",
        "watched",
        "--",
        "sh",
        "-c",
        "echo here; sleep 600",
    ]);
    terminal.wait_for("here");
    let started = Instant::now();
    eventually("a session to outlive its limit", || {
        (started.elapsed() > Duration::from_secs(3)).then_some(())
    });
    assert_eq!(ada.session("watched").unwrap()["status"], "running");

    terminal.detach();

    ada.wait_for_status("watched", "killed");
}

#[test]
fn a_session_past_its_lifetime_ends_when_it_rests() {
    let ada = limited("lifetime: 1s");
    start(&ada, "old", "sleep 600");

    let ended = ada.wait_for_status("old", "killed");

    assert!(
        ended["notes"].to_string().contains("limits.lifetime"),
        "{ended}"
    );
}

#[test]
fn without_limits_an_idle_session_stays() {
    let ada = Profile::new("ada");
    let pid = start(&ada, "idle", "sleep 600");
    let started = Instant::now();
    eventually("three seconds", || {
        (started.elapsed() > Duration::from_secs(3)).then_some(())
    });

    assert!(process::is_alive(pid));
}

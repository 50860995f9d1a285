//! Daemons: starting, stopping, and what they leave alone.

use std::net::SocketAddr;

use wt_tests::process::{free_port, is_alive, program};
use wt_tests::profile::Running;
use wt_tests::relay::{http_get, is_free, is_healthy};
use wt_tests::world::write_wing_yaml;
use wt_tests::{Profile, Relay, World, eventually};

#[test]
fn roost_start_returns_when_the_relay_answers_and_the_wing_is_registered() {
    let world = World::roost();

    assert!(is_healthy(world.addr()));
    let list = world.ada.wt_json(&["wings", "--no-probe"]);
    assert_eq!(list["wings"][0]["wing_id"], world.wing_id().as_str());
    assert_eq!(list["wings"][0]["online"], true);
    world.ada.wt(&["roost", "status"]).ok();
}

#[test]
fn the_first_page_says_what_this_is_without_a_script() {
    let world = World::roost();

    let (status, body) = http_get(world.addr(), "/").unwrap();

    assert_eq!(status, 200);
    assert!(body.contains("wingthing"), "{body}");
    assert!(body.contains("/device"), "{body}");
    assert!(!body.contains("<script"), "{body}");
}

#[test]
fn stop_frees_the_ports_and_ends_no_session() {
    let world = World::roost();
    world
        .ada
        .wt_json(&["terminal", "--name", "stays", "--", "sleep", "600"]);
    let program = super::pid_of(&world, "stays");
    let daemon = world.daemon_pid();

    world.ada.wt(&["stop"]).ok();

    assert!(!is_alive(daemon));
    assert!(world.port_is_free());
    assert!(is_alive(program));
    assert_eq!(world.ada.session("stays").unwrap()["status"], "running");
}

#[test]
fn a_roost_comes_back_on_its_address_with_the_same_identity() {
    let world = World::roost();
    let id = world.wing_id();

    world.ada.wt(&["roost", "stop"]).ok();
    assert!(world.port_is_free());
    world.start_roost().ok();

    assert_eq!(world.wing_id(), id);
    assert!(is_healthy(world.addr()));
}

#[test]
fn a_port_that_is_taken_is_a_clear_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let profile = Profile::new("late");

    let run = profile
        .wt(&["roost", "start", "--addr", &addr.to_string()])
        .code(1);

    assert!(run.err().contains(&addr.port().to_string()), "{run}");
    assert!(profile.processes().is_empty(), "a daemon was left");
}

#[test]
fn a_relay_on_an_open_address_needs_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let addr = SocketAddr::from(([0, 0, 0, 0], free_port()));
    let mut command = std::process::Command::new(program("wt-relay"));
    command
        .args(["serve", "--addr", &addr.to_string(), "--data"])
        .arg(dir.path())
        .stdin(std::process::Stdio::null());

    let run = Running::start(command).wait().without_panic();

    assert_ne!(run.status, 0, "{run}");
    assert!(run.err().to_lowercase().contains("certificate"), "{run}");
    assert!(is_free(addr));
}

#[test]
fn ten_concurrent_starts_give_one_daemon() {
    let relay = Relay::start();
    let ada = Profile::new("ada");
    write_wing_yaml(&ada, "ada-box", "");
    wt_tests::world::login(&ada, relay.url(), |code| relay.approve(code));

    let starts: Vec<Running> = (0..10)
        .map(|_| ada.spawn(&["start", "--roost", relay.url()]))
        .collect();
    let runs: Vec<_> = starts
        .into_iter()
        .map(|start| start.wait().without_panic())
        .collect();

    assert!(runs.iter().any(|run| run.status == 0), "{runs:?}");
    eventually("one daemon and nothing else", || {
        (ada.processes().len() == 1).then_some(())
    });
    ada.wt(&["status"]).ok();
}

#[test]
fn ten_concurrent_terminals_of_one_name_give_one_session_and_nine_exits_1() {
    let ada = Profile::new("ada");

    let starts: Vec<Running> = (0..10)
        .map(|_| ada.spawn(&["terminal", "--json", "--name", "x", "--", "sleep", "600"]))
        .collect();
    let mut codes: Vec<i32> = starts
        .into_iter()
        .map(|start| start.wait().without_panic().status)
        .collect();
    codes.sort_unstable();

    assert_eq!(codes, [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    let living = ada
        .sessions()
        .into_iter()
        .filter(|one| one["name"] == "x" && one["status"] == "running")
        .count();
    assert_eq!(living, 1);
}

#[test]
fn a_killed_relay_comes_back_with_the_same_identity() {
    let mut relay = Relay::start();
    let before = http_get(relay.addr(), "/v1/roost").unwrap();
    assert_eq!(before.0, 200);

    relay.kill9();
    relay.restart();

    assert_eq!(http_get(relay.addr(), "/v1/roost").unwrap(), before);
    relay.stop();
    assert!(is_free(relay.addr()));
}

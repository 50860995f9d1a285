//! Sessions whose processes are stopped, killed or in the way.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use wt_tests::Profile;
use wt_tests::process::{parent, signal};

use super::start;

#[test]
fn a_stopped_session_is_listed_as_frozen_and_holds_up_nobody() {
    let ada = Profile::new("ada");
    start(&ada, &[], "stuck", "sleep 600");
    start(&ada, &[], "fine", "sleep 600");
    let stuck = ada.supervisor("stuck");
    signal(stuck, Signal::SIGSTOP);

    let list = ada.wt_json(&["session", "ps"]);
    let status = |name: &str| {
        let sessions = list["sessions"].as_array().unwrap();
        let session = sessions.iter().find(|session| session["name"] == name);
        session.unwrap()["status"].clone()
    };
    assert_eq!(status("stuck"), "frozen");
    assert_eq!(status("fine"), "running");
    let refused = ada.wt(&["session", "read", "stuck"]).code(6);
    assert!(refused.err().contains("not responding"), "{refused}");

    signal(stuck, Signal::SIGCONT);
    ada.wait_for_status("stuck", "running");
    ada.wt(&["session", "read", "stuck"]).ok();
}

#[test]
fn a_stopped_session_can_be_ended() {
    let ada = Profile::new("ada");
    let session = start(&ada, &[], "stuck", "sleep 600");
    let program = u32::try_from(session["pid"].as_u64().unwrap()).unwrap();
    signal(ada.supervisor("stuck"), Signal::SIGSTOP);

    ada.wt(&["session", "kill", "stuck"]).ok();

    wt_tests::eventually("the program's end", || {
        parent(program).is_none().then_some(())
    });
    start(&ada, &[], "stuck", "sleep 600");
}

#[test]
fn nobody_attached_means_nobody_waited_for() {
    let ada = Profile::new("ada");
    let start_at = Instant::now();
    start(&ada, &[], "flood", "yes | head -c 20000000; echo the-end");

    ada.wt_json(&["session", "wait", "flood", "--exit", "--timeout", "60s"]);

    assert!(
        ada.wt(&["session", "read", "flood"])
            .ok()
            .out()
            .contains("the-end")
    );
    assert!(
        start_at.elapsed() < Duration::from_secs(60),
        "the program was held up"
    );
}

#[test]
fn the_last_words_of_a_program_are_whole() {
    let ada = Profile::new("ada");
    for n in 0..20 {
        let name = format!("last-{n}");
        start(
            &ada,
            &[],
            &name,
            "head -c 60000 /dev/zero | tr '\\0' x; printf END",
        );
        ada.wt_json(&["session", "wait", &name, "--exit", "--timeout", "20s"]);

        let raw = ada.wt(&["session", "read", &name, "--raw"]).ok().out();

        assert_eq!(raw.len(), 60_003, "{name}");
        assert!(raw.ends_with("xEND"));
    }
}

#[test]
fn a_removed_socket_is_made_again() {
    let ada = Profile::new("ada");
    let session = start(&ada, &[], "work", "echo here; sleep 600");
    let socket = ada
        .dir()
        .join("eggs")
        .join(session["id"].as_str().unwrap())
        .join("sock");

    std::fs::remove_file(&socket).unwrap();

    wt_tests::eventually("the socket", || socket.exists().then_some(()));
    assert!(
        ada.wt(&["session", "read", "work"])
            .ok()
            .out()
            .contains("here")
    );
}

#[test]
fn the_makers_surroundings_do_not_leak_into_a_session() {
    let ada = Profile::new("ada")
        .env("CLAUDECODE", "1")
        .env("TMUX", "/x")
        .env("GIT_DIR", "/g")
        .env("EDITOR", "kept");
    start(
        &ada,
        &[],
        "env",
        "env; echo colours=$(tput colors 2>/dev/null)",
    );
    ada.wt_json(&["session", "wait", "env", "--exit", "--timeout", "20s"]);

    let env = ada.wt(&["session", "read", "env", "--raw"]).ok().out();

    assert!(
        !env.contains("CLAUDECODE") && !env.contains("TMUX") && !env.contains("GIT_DIR"),
        "{env}"
    );
    assert!(
        env.contains("EDITOR=kept") && env.contains("TERM=xterm-256color"),
        "{env}"
    );
    assert!(env.contains("COLORTERM=truecolor"), "{env}");
}

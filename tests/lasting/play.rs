//! `wt session play`, in a terminal.

use nix::sys::signal::Signal;
use wt_tests::world::LABEL;
use wt_tests::{Profile, Terminal, World};

/// Records a session: a word, a long silence, another word.
#[track_caller]
fn record(who: &Profile, silence: &str) {
    let script = format!(
        "printf '\\033[?1000h\\033[?2004hone\\n'; sleep {silence}; printf 'two\\n'; exit 0"
    );
    who.wt(&[
        "terminal", "--detach", "--record", "--name", "tape", "--", "/bin/sh", "-c", &script,
    ])
    .ok();
    who.wait_for_status("tape", "exited");
}

/// Whether the terminal is as a shell expects it, after its command ended.
#[track_caller]
fn assert_given_back(terminal: &Terminal) {
    // The last thing that is written, and the reader of the terminal may lag behind.
    terminal.wait_for("\x1b[23;0t");
    let output = terminal.output();
    let last = |what: &[u8]| output.windows(what.len()).rposition(|w| w == what);
    for mode in ["1000", "2004"] {
        let on = last(format!("\x1b[?{mode}h").as_bytes());
        let off = last(format!("\x1b[?{mode}l").as_bytes());
        assert!(off > on, "mode {mode}: on at {on:?}, off at {off:?}");
    }
}

#[test]
fn a_recording_is_played_and_silences_are_shortened() {
    let ada = Profile::new("ada");
    record(&ada, "3");

    let terminal = ada.terminal(&["session", "play", "tape", "--idle-limit", "100ms"]);

    terminal.wait_for("one");
    assert_eq!(terminal.wait_exit(), 0);
    terminal.wait_for("two");
    terminal.wait_for("[played tape]");
    assert_given_back(&terminal);
}

#[test]
fn keys_pause_jump_and_leave() {
    let ada = Profile::new("ada");
    record(&ada, "4");
    let terminal = ada.terminal(&["session", "play", "tape", "--speed", "0.25"]);
    terminal.wait_for("one");

    terminal.send(" ");
    terminal.wait_for("speed 0.25, paused");
    terminal.send("\x1b[A");
    terminal.wait_for("speed 0.5, paused");
    // At the end of the jump the terminal shows all.
    let mark = terminal.mark();
    terminal.send("\x1b[C");
    terminal.wait_for_after(mark, "two");
    let mark = terminal.mark();
    terminal.send("\x1b[D");
    terminal.wait_for_after(mark, "0:00, speed 0.5, paused");
    assert!(!terminal.screen().iter().any(|row| row == "two"));
    terminal.send("q");

    assert_eq!(terminal.wait_exit(), 0);
    assert_given_back(&terminal);
}

#[test]
fn a_signal_gives_the_terminal_back_too() {
    let ada = Profile::new("ada");
    record(&ada, "4");
    let terminal = ada.terminal(&["session", "play", "tape", "--speed", "0.1"]);
    terminal.wait_for("one");

    terminal.signal(Signal::SIGTERM);

    assert_eq!(terminal.wait_exit(), 128 + 15);
    assert_given_back(&terminal);
}

#[test]
fn what_cannot_be_played_says_why() {
    let ada = Profile::new("ada");
    super::start(&ada, &[], "plain", "exec sleep 600");

    let refused = ada.terminal(&["session", "play", "plain"]);
    refused.wait_for("is not recorded");
    assert_eq!(refused.wait_exit(), 1);

    assert_eq!(ada.wt(&["session", "play", "none"]).status, 3);
    let without = ada.wt(&["session", "play", "plain"]);
    assert_eq!(without.status, 1);
    assert!(without.err().contains("needs a terminal"));
    assert_eq!(
        ada.wt(&["session", "play", "plain", "--speed", "0"]).status,
        2
    );
}

#[test]
fn a_wings_recording_is_played_through_a_relay() {
    let world = World::roost();
    world.admit_ben();
    record(&world.ada, "0.1");

    let terminal = world
        .ben
        .terminal(&["session", "play", "tape", "--wing", LABEL]);

    terminal.wait_for("two");
    assert_eq!(terminal.wait_exit(), 0);
}

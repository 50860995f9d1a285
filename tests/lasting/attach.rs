//! Attaching: the prefix key, sessions inside sessions, and who may type.

use wt_tests::world::{LABEL, write_wing_yaml};
use wt_tests::{Profile, World, process};

use super::start;

/// A session can reach its profile only where nothing holds it.
const UNHELD: &str = "--unsandboxed";

/// A shell in a session, in which `wt` is this build and its profile this one.
fn shell(ada: &Profile, name: &str) -> wt_tests::Terminal {
    let terminal = ada.terminal(&["terminal", UNHELD, "--name", name, "--", "/bin/sh"]);
    terminal.wait_for("ready$");
    let folder = process::program("wt")
        .parent()
        .unwrap()
        .display()
        .to_string();
    terminal.line(&format!(
        "PATH={folder}:$PATH WINGTHING_DIR={}; export PATH WINGTHING_DIR; echo se''t",
        ada.dir().display()
    ));
    terminal.wait_for("set");
    terminal
}

#[test]
fn a_session_is_not_shown_inside_itself() {
    let ada = Profile::new("ada");
    let outer = shell(&ada, "outer");

    outer.line("wt attach outer; echo status=$?");

    outer.wait_for("this terminal is in the session outer: outer would show outer");
    outer.wait_for("unset WINGTHING_SESSION");
    outer.wait_for("status=1");
    outer.line("wt session ps >/dev/null; echo ps=$?");
    outer.wait_for("ps=0");
}

#[test]
fn another_session_is_shown_inside_only_when_the_variable_is_unset_and_a_loop_is_named() {
    let ada = Profile::new("ada");
    start(&ada, &[UNHELD], "inner", "exec /bin/sh");
    let outer = shell(&ada, "outer");
    outer.line("wt attach inner; echo attach=$?");
    outer.wait_for("this terminal is in the session outer: inner would be shown inside it");
    outer.wait_for("attach=1");
    outer.line("wt terminal --name third; echo terminal=$?");
    outer.wait_for("terminal=1");
    assert!(ada.session("third").is_none());
    outer.line("wt terminal --detach --name third -- cat; echo detach=$?");
    outer.wait_for("detach=0");

    outer.line("unset WINGTHING_SESSION; wt attach --prefix C-a inner");
    outer.line("echo inside=$WINGTHING_SESSION_NAME");
    outer.wait_for("inside=inner");
    let folder = process::program("wt")
        .parent()
        .unwrap()
        .display()
        .to_string();
    outer.line(&format!(
        "WINGTHING_DIR={} {folder}/wt attach outer; echo loop=$?",
        ada.dir().display()
    ));

    outer.wait_for("outer shows inner shows outer");
    outer.wait_for("loop=1");
    outer.send(b"\x01q");
    outer.wait_for("[detached from inner]");
}

#[test]
fn a_session_is_not_shown_in_itself_through_a_relay() {
    let world = World::roost();
    start(&world.ada, &[UNHELD], "inner", "exec /bin/sh");
    let outer = shell(&world.ada, "outer");
    outer.line(&format!("wt attach outer --wing {LABEL}; echo same=$?"));
    outer.wait_for("outer would show outer");
    outer.wait_for("same=1");

    let way = format!("--wing {LABEL}");
    outer.line(&format!(
        "unset WINGTHING_SESSION; wt attach --prefix C-a inner {way}"
    ));
    outer.line("echo inside=$WINGTHING_SESSION_NAME");
    outer.wait_for("inside=inner");
    let folder = process::program("wt")
        .parent()
        .unwrap()
        .display()
        .to_string();
    outer.line(&format!(
        "WINGTHING_DIR={} {folder}/wt attach outer {way}; echo loop=$?",
        world.ada.dir().display()
    ));
    outer.wait_for("outer shows inner shows outer");
    outer.wait_for("loop=1");
    outer.send(b"\x01q");
    outer.wait_for("[detached from inner]");
}

#[test]
fn the_prefix_key_is_what_was_given_or_set() {
    let ada = Profile::new("ada");
    write_wing_yaml(&ada, "ada", "prefix: C-a\n");
    start(
        &ada,
        &[],
        "job",
        "stty raw -echo; printf up; exec od -An -tx1 -w1 -v",
    );

    let set = ada.terminal(&["attach", "job"]);
    set.wait_for("up");
    set.send(b"\x02q\x01q");
    assert_eq!(set.wait_exit(), 0);

    let given = ada.terminal(&["attach", "job", "--prefix", "C-\\"]);
    given.wait_for("02");
    given.send(b"\x01q");
    given.wait_for("01");
    given.send(b"\x1b[92;5uq");
    assert_eq!(given.wait_exit(), 0);

    let none = ada.terminal(&["attach", "job", "--prefix", "none"]);
    none.wait_for("01");
    none.send(b"\x1cq");
    none.wait_for("1c");
    none.kill9();
}

#[test]
fn a_bad_prefix_fails_at_the_start_and_is_named() {
    let ada = Profile::new("ada");
    start(&ada, &[], "job", "exec cat");

    let given = ada.wt(&["attach", "job", "--prefix", "ctrl-zz"]);
    assert_eq!(given.status, 2);
    assert!(given.err().contains("ctrl-zz"), "{}", given.err());

    write_wing_yaml(&ada, "ada", "prefix: ctrl-zz\n");
    let set = ada.wt(&["attach", "job"]);
    assert_eq!(set.status, 2);
    let words = set.err();
    assert!(
        words.contains("prefix") && words.contains("ctrl-zz"),
        "{words}"
    );
}

#[test]
fn the_right_to_type_is_shown_to_all_and_its_loss_is_rung() {
    let world = World::roost();
    world.admit_ben();
    start(&world.ada, &[], "job", "echo up; exec cat");
    let first = world.ada.terminal(&["attach", "job"]);
    first.wait_for("up");
    first.line("mine");
    first.wait_for("mine");
    assert_eq!(world.ada.session("job").unwrap()["writer"]["kind"], "cli");

    let mark = first.mark();
    let second = world
        .ben
        .terminal(&["attach", "job", "--wing", LABEL, "--takeover"]);
    second.wait_for("mine");
    second.line("his");
    second.wait_for("his");

    first.wait_for_after(mark, b"\x07");
    assert_eq!(
        world.ada.session("job").unwrap()["writer"]["kind"],
        "client"
    );
    first.detach();
    first.wait_for("another client took the right to type");
    let watcher = world.ada.terminal(&["attach", "job", "--read-only"]);
    watcher.wait_for("his");
    watcher.send("nobody hears this");
    watcher.wait_for(b"\x07");
    watcher.detach();
    second.detach();
    assert!(
        !world.ada.wt_json(&["session", "read", "job"])["lines"]
            .to_string()
            .contains("nobody")
    );
}

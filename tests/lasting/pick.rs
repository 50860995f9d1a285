//! `wt attach --select`, in a terminal.

use wt_tests::terminal::DETACH;
use wt_tests::world::LABEL;
use wt_tests::{Profile, World};

use super::{start, wait_for};

#[test]
fn a_session_is_searched_looked_at_and_attached_to() {
    let ada = Profile::new("ada");
    start(&ada, &[], "apple", "echo fruit-of-apple; exec cat");
    start(
        &ada,
        &[],
        "pear",
        "echo fruit-of-pear; printf '\\007'; exec cat",
    );
    wait_for(&ada, &[], "apple", "fruit-of-apple");
    wait_for(&ada, &[], "pear", "fruit-of-pear");

    let terminal = ada.terminal(&["attach", "--select"]);
    // The newest is first, and its screen is shown.
    terminal.wait_for_screen("fruit-of-pear");
    terminal.wait_for_screen("! pear  [bell]");
    assert!(terminal.is_on_alternate_screen());
    terminal.send("\x1b[B");
    terminal.wait_for_screen("fruit-of-apple");
    terminal.send("pea");
    terminal.wait_for_screen("> pea");
    terminal.wait_for_screen("fruit-of-pear");
    terminal.send("\x15app");
    terminal.wait_for_screen("fruit-of-apple");
    terminal.send("\r");

    terminal.wait_for_screen_that("the session alone", |rows| rows[0] == "fruit-of-apple");
    terminal.wait_for("\x1b[?1049l");
    assert!(!terminal.is_on_alternate_screen());
    terminal.line("typed");
    terminal.wait_for_screen("typed");
    terminal.send(DETACH);
    assert_eq!(terminal.wait_exit(), 0);
    terminal.wait_for("[detached from apple]");
}

#[test]
fn new_sessions_and_what_they_print_show_by_themselves() {
    let ada = Profile::new("ada");
    start(&ada, &[], "first", "read go; echo something-new; exec cat");
    let terminal = ada.terminal(&["attach", "--select"]);
    terminal.wait_for_screen("1 of 1");

    ada.wt(&["session", "send", "first", "go", "--enter"]).ok();
    terminal.wait_for_screen("something-new");
    start(&ada, &[], "second", "exec cat");
    terminal.wait_for_screen("2 of 2");
    terminal.resize(wt_tests::terminal::Size::new(60, 20));
    terminal.wait_for_screen("something-new");

    terminal.send("\x1b");
    assert_eq!(terminal.wait_exit(), 0);
    terminal.wait_for("\x1b[?1049l");
    assert!(!terminal.is_on_alternate_screen());
}

#[test]
fn leaving_attaches_nothing() {
    let ada = Profile::new("ada");
    start(&ada, &[], "one", "exec cat");
    let terminal = ada.terminal(&["attach", "--select"]);
    terminal.wait_for_screen("1 of 1");

    terminal.send("\x03");

    assert_eq!(terminal.wait_exit(), 130);
    terminal.wait_for("\x1b[?1049l");
    assert!(!terminal.is_on_alternate_screen());
    assert_eq!(ada.session("one").unwrap()["clients"], 0);
}

#[test]
fn without_sessions_or_a_terminal_it_says_so() {
    let ada = Profile::new("ada");
    assert_eq!(ada.wt(&["attach", "--select"]).status, 3);

    start(&ada, &[], "one", "exec cat");
    let run = ada.wt(&["attach", "--select"]);
    assert_eq!(run.status, 1);
    assert!(run.err().contains("needs a terminal"));
    assert_eq!(ada.wt(&["attach", "--select", "--json"]).status, 2);

    // Without --select, a list as ever.
    let list = ada.terminal(&["attach"]);
    list.wait_for("one");
    assert_eq!(list.wait_exit(), 0);
}

#[test]
fn a_wings_session_is_chosen_through_a_relay() {
    let world = World::roost();
    world.admit_ben();
    start(&world.ada, &[], "far", "echo from-afar; exec cat");
    wait_for(&world.ada, &[], "far", "from-afar");

    let terminal = world.ben.terminal(&["attach", "--select", "--wing", LABEL]);
    terminal.wait_for_screen("1 of 1");
    terminal.wait_for_screen("from-afar");
    terminal.send("\r");
    terminal.wait_for_screen_that("the session alone", |rows| rows[0] == "from-afar");
    terminal.line("hello");
    terminal.wait_for_screen("hello");

    terminal.detach();
}

//! What a relay must never hold, searched for where it could be.
//!
//! Each search has a twin that finds something which must be there, in the same place.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use wt_tests::process::parent;
use wt_tests::world::LABEL;
use wt_tests::{Needles, World};

/// What is typed; the program prints it in another form only.
const TYPED: &str = "typed-canary-q8w3e7";
/// What is printed; the command line holds it in two parts.
const PRINTED: &str = "printed-canary-z5x9c1";
/// The session's name.
const NAME: &str = "name-canary-h4j6k2";
/// The terminal's title.
const TITLE: &str = "title-canary-b3n5m8";
/// A folder on the wing's machine.
const FOLDER: &str = "folder-canary-u7i1o4";

#[test]
fn a_relay_holds_nothing_of_a_session_and_the_search_would_find_it() {
    let world = World::standalone();
    world.admit_ben();
    let folder = world.ada.scratch().join(FOLDER);
    std::fs::create_dir(&folder).unwrap();
    let script = format!(
        r#"printf '\033]0;%s%s\007' {} {}; echo {}''{}; read -r line; echo "length ${{#line}}"; read -r x"#,
        &TITLE[..6],
        &TITLE[6..],
        &PRINTED[..8],
        &PRINTED[8..]
    );
    let folder_text = folder.display().to_string();
    let client = world.ben.terminal(&[
        "terminal",
        "--wing",
        LABEL,
        "--name",
        NAME,
        "--cwd",
        &folder_text,
        "--",
        "/bin/sh",
        "-c",
        &script,
    ]);
    client.wait_for(PRINTED);
    client.line(TYPED);
    client.wait_for(format!("length {}", TYPED.len()));

    let relay = world.relay.as_ref().unwrap();
    let wing_id = world.wing_id();
    let forbidden = Needles::new(&[
        ("typed", TYPED.as_bytes()),
        ("printed", PRINTED.as_bytes()),
        ("session name", NAME.as_bytes()),
        ("title", TITLE.as_bytes()),
        ("folder", FOLDER.as_bytes()),
        ("label", LABEL.as_bytes()),
    ]);
    let known = Needles::new(&[("wing id", wing_id.as_bytes())]);

    // The controls first: the same search of the same places finds what a relay does know,
    // and finds the canaries where they are in the open.
    let control = relay.search(&known);
    control.memory.assert_holds("the relay's memory", "wing id");
    control.store.assert_holds("the relay's store", "wing id");
    control.log.assert_holds("the relay's log", "wing id");
    let program = world.ada.session(NAME).unwrap()["pid"].as_u64().unwrap();
    let egg = parent(u32::try_from(program).unwrap()).unwrap();
    let in_the_open = forbidden.in_process(egg).unwrap();
    in_the_open.assert_holds("the egg's memory", "session name");
    // The egg's memory holds a screen of cells and no text; its log holds the bytes.
    let kept = forbidden.in_dir(&world.ada.dir()).unwrap();
    kept.assert_holds("the wing's profile", "printed");
    kept.assert_holds("the wing's profile", "session name");

    let search = relay.search(&forbidden);
    search.memory.assert_clean("the relay's memory");
    search.store.assert_clean("the relay's store");
    search.log.assert_clean("the relay's log");
    client.detach();
}

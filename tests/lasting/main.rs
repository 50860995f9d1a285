//! Sessions that last: watched, exported, played and chosen, here and through a relay.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod attach;
mod export;
mod hygiene;
mod pick;
mod play;
mod scripts;
mod terminal;
mod watch;

use serde_json::Value;
use wt_tests::Profile;

/// Starts a session in the background that runs a shell script, and returns its record.
#[track_caller]
fn start(who: &Profile, place: &[&str], name: &str, script: &str) -> Value {
    let mut args = vec!["terminal", "--detach", "--name", name];
    args.extend(place);
    args.extend(["--", "/bin/sh", "-c", script]);
    who.wt_json(&args)["session"].clone()
}

/// Waits until a session has printed a text.
#[track_caller]
fn wait_for(who: &Profile, place: &[&str], name: &str, text: &str) {
    let mut args = vec![
        "session",
        "wait",
        name,
        "--contains",
        text,
        "--timeout",
        "20s",
    ];
    args.extend(place);
    assert_eq!(who.wt_json(&args)["matched"], true);
}

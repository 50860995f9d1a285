//! A terminal on another machine, reached through a relay that cannot read it: the whole
//! way, with the programs that users run.
//!
//! Ada owns the machine with the wing, Ben reaches it; both are profiles on this machine.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod durability;
mod identity;
mod network;
mod odd_places;
mod readme;
mod records;
mod roost;
mod throughput;
mod wings;

use wt_tests::world::LABEL;
use wt_tests::{Terminal, World};

/// Ben's terminal with a session of Ada's machine that runs a shell script.
#[track_caller]
fn ben_runs(world: &World, name: &str, script: &str) -> Terminal {
    world.ben.terminal(&[
        "terminal", "--wing", LABEL, "--name", name, "--", "/bin/sh", "-c", script,
    ])
}

/// Ben's terminal, attached to a session of Ada's machine.
#[track_caller]
fn ben_attaches(world: &World, name: &str) -> Terminal {
    world.ben.terminal(&["attach", "--wing", LABEL, name])
}

/// The process id of a living session's program, as Ada's list has it.
#[track_caller]
fn pid_of(world: &World, name: &str) -> u32 {
    let record = world
        .ada
        .session(name)
        .unwrap_or_else(|| panic!("there is no session {name}"));
    let pid = record["pid"]
        .as_u64()
        .unwrap_or_else(|| panic!("the session has no pid: {record}"));
    u32::try_from(pid).unwrap()
}

//! Everything that an agent could try to get out of its boundary.
//!
//! Every attack is a row of data ([`case::Case`]). Each is tried without a boundary, where it
//! succeeds or is a named skip; inside, where it fails with the named error and the host shows
//! no trace of it; without the layers that its row names, where it succeeds again, so that no
//! row passes for a reason that nobody knows; and without each single one of them, which shows
//! what rests on one layer alone. What a session must be able to do is tried beside it.
//!
//! Layers are taken out by editing a plan, here and nowhere else ([`product`] proves that).
//! Started by the superuser it makes a network and a few places of its own first, in
//! namespaces, and runs as the superuser and as an ordinary user.

#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod case;
mod fs;
mod must_work;
mod net;
mod outside;
mod persistence;
mod process;
mod product;
mod runner;
mod secrets;
mod special;
mod surroundings;
mod world;

use std::process::exit;

/// The areas, which are also the names of the tests.
const AREAS: &[&str] = &[
    "no_attack_on_files_succeeds",
    "no_attack_by_the_network_succeeds",
    "no_attack_on_processes_and_the_kernel_succeeds",
    "no_secret_is_found",
    "nothing_is_left_that_acts_later",
    "what_sessions_need_works",
    "the_product_cannot_take_out_a_layer",
];

fn main() {
    wt_sandbox::run_if_stage();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == special::SUPERVISE) {
        special::supervise();
    }
    if args.iter().any(|arg| arg == "--list") {
        let wants_ignored = args.iter().any(|arg| arg == "--ignored");
        for name in AREAS.iter().filter(|_| !wants_ignored) {
            println!("{name}: test");
        }
        return;
    }
    // The probe is run inside, and a session sees nothing of these folders of the host.
    let build = env!("CARGO_BIN_EXE_wt-escape-probe");
    if ["/tmp/", "/var/tmp/", "/run/"]
        .iter()
        .any(|own| build.starts_with(own))
    {
        println!("skipped: escape: the build lies where a session sees nothing: {build}");
        return;
    }
    // Part of an area's name, or of a case's id.
    let filter = args.iter().find(|arg| !arg.starts_with('-'));
    let ok = match surroundings::prepare(&args) {
        surroundings::Prepared::Done(ok) => ok,
        surroundings::Prepared::Pass => {
            let areas = [
                (AREAS[0], fs::CASES, &[][..]),
                (AREAS[1], net::CASES, net::WORK),
                (AREAS[2], process::CASES, &[]),
                (AREAS[3], secrets::CASES, &[]),
                (AREAS[4], persistence::CASES, &[]),
                (AREAS[5], &[], must_work::WORK),
            ];
            let specials = [
                (AREAS[2], process::SPECIAL),
                (AREAS[4], persistence::SPECIAL),
                (AREAS[6], product::SPECIAL),
            ];
            let elsewhere = ("what_is_tried_elsewhere", special::ELSEWHERE);
            runner::run(&areas, &specials, elsewhere, filter.map(String::as_str))
        }
    };
    exit(i32::from(!ok))
}

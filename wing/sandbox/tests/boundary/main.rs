//! The boundary, tried from inside: every test starts a session and looks at what its program
//! can do.
//!
//! This program is its own stage (see `wt_sandbox::run_if_stage`), which has to be called
//! before any thread is made; so it brings its own small harness. Started by the superuser it
//! tries everything as the superuser and then again as an ordinary user.

#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod cases;
mod world;

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, exit};

/// The user that tests run as a second time.
const ORDINARY_USER: u32 = 23_417;

fn main() {
    wt_sandbox::run_if_stage();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == world::SUPERVISE) {
        world::supervise();
    }
    if args.iter().any(|arg| arg == "--list") {
        for (name, _) in cases::ALL {
            println!("{name}: test");
        }
        return;
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-'));
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root {
        "superuser"
    } else {
        "ordinary user"
    };

    let (mut passed, mut failed) = (0, 0);
    for (name, test) in cases::ALL {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let ok = catch_unwind(test).is_ok();
        println!(
            "test {name} ({user}) ... {}",
            if ok { "ok" } else { "FAILED" }
        );
        if ok {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n"
    );
    let as_ordinary_user = !is_root || run_as_ordinary_user(&args);
    exit(i32::from(failed != 0 || !as_ordinary_user));
}

fn run_as_ordinary_user(args: &[String]) -> bool {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("boundary-ordinary");
    std::fs::create_dir_all(&base).unwrap();
    chown(&base, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(args)
        .env(world::BASE, &base)
        .uid(ORDINARY_USER)
        .gid(ORDINARY_USER)
        .status()
        .unwrap()
        .success()
}

//! The whole program with the smallest settings: that it measures, and leaves nothing behind.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Long enough for an unoptimised build on a machine that builds something else.
const PATIENCE: Duration = Duration::from_secs(60);

fn loadtest(tmp: &Path, rounds: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wt-loadtest"));
    command.env("TMPDIR", tmp).args(["--json", "--mib", "1"]);
    command.args(["--seconds", "0.02", "--rounds", &rounds.to_string()]);
    command
}

/// Processes whose command line names the folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|e| fs::read_to_string(e.path().join("cmdline")).ok());
    lines
        .filter(|line| line.contains(folder.to_str().unwrap()))
        .collect()
}

/// Sessions that answer in the one run below the folder.
fn sockets_below(folder: &Path) -> usize {
    let runs = fs::read_dir(folder).unwrap().flatten();
    let eggs = runs.filter_map(|run| fs::read_dir(run.path().join("wing/eggs")).ok());
    eggs.flatten()
        .flatten()
        .filter(|egg| egg.path().join("sock").exists())
        .count()
}

#[track_caller]
fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn assert_nothing_left(tmp: &Path) {
    assert_eq!(processes_of(tmp), Vec::<String>::new());
    let left: Vec<_> = fs::read_dir(tmp).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn one_round_of_everything_gives_a_document_and_leaves_nothing_behind() {
    let tmp = tempfile::tempdir().unwrap();

    let output = loadtest(tmp.path(), 1).output().unwrap();

    let table = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["version"], 1);
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    let scenarios = report["scenarios"].as_array().unwrap();
    let names: Vec<_> = scenarios.iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["throughput", "latency", "stalled", "sealed"]);
    for scenario in scenarios {
        assert_eq!(scenario["error"], Value::Null);
        let ratios = scenario["ratios"].as_array().unwrap();
        assert!(!ratios.is_empty(), "{scenario}");
        for number in ratios
            .iter()
            .chain(scenario["measures"].as_array().unwrap())
        {
            assert!(number["median"].is_number(), "{number}");
        }
    }
    for ratio in ["relayed / quinn", "beside_stalled / relayed, p50"] {
        assert!(table.contains(&format!("ratio: {ratio}")), "{table}");
    }
    assert_nothing_left(tmp.path());
}

#[test]
fn an_interrupt_in_the_middle_leaves_nothing_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut child = loadtest(tmp.path(), 100)
        .args(["--scenario", "throughput"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Relay, wing, peer and three sessions: the measuring has begun.
    eventually("the run", || processes_of(tmp.path()).len() >= 6);

    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();

    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().is_none(), "no half a document");
    assert_nothing_left(tmp.path());
}

#[test]
fn a_run_that_is_killed_leaves_no_process_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut child = loadtest(tmp.path(), 100)
        .args(["--scenario", "throughput"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // All three sessions answer, so that there is something to end.
    eventually("the sessions", || sockets_below(tmp.path()) == 3);

    child.kill().unwrap();
    child.wait().unwrap();

    eventually("the end of its processes", || {
        processes_of(tmp.path()).is_empty()
    });
}

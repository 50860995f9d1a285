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
        .arg("throughput")
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
        .arg("throughput")
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

/// One scenario of local sessions with the smallest sizes.
fn quick(tmp: &Path, scenario: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wt-loadtest"));
    command
        .env("TMPDIR", tmp)
        .args([scenario, "--quick", "--json"]);
    command
}

/// Runs a scenario that must succeed; gives what it reports.
fn report_of(scenario: &str) -> Value {
    let tmp = tempfile::tempdir().unwrap();

    let output = quick(tmp.path(), scenario).output().unwrap();

    let table = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}");
    assert_nothing_left(tmp.path());
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["scenarios"].as_array().unwrap().len(), 1);
    let report = report["scenarios"][0].take();
    assert_eq!(report["name"], scenario);
    report
}

fn ids(report: &Value, what: &str) -> Vec<String> {
    let numbers = report[what].as_array().unwrap();
    let id = |number: &Value| number["id"].as_str().unwrap().to_owned();
    numbers.iter().map(id).collect()
}

#[test]
fn idle_sessions_lists_and_floods_are_measured() {
    let report = report_of("sessions");

    let measures = ids(&report, "measures");
    for id in ["idle.pss", "idle.ticks", "flood.long.rss_peak"] {
        assert!(measures.iter().any(|known| known == id), "{measures:?}");
    }
    let ratios = ids(&report, "ratios");
    for id in ["ps, with frozen / living", "flood.yes / bare terminal"] {
        assert!(ratios.iter().any(|known| known == id), "{ratios:?}");
    }
}

#[test]
fn every_rival_is_compared_or_named_as_not_compared() {
    let report = report_of("tmux");

    let (ratios, notes) = (ids(&report, "ratios"), report["notes"].to_string());
    assert!(ratios.contains(&"echo p99: wt / bare".to_owned()));
    for rival in ["tmux", "shpool"] {
        let compared = ratios.contains(&format!("cat, MB/s: wt / {rival}"));
        let skipped = notes.contains(&format!("{rival} is not on PATH"));
        assert!(compared != skipped, "{rival}: {ratios:?}, {notes}");
    }
}

#[test]
fn the_model_is_measured_with_every_stream() {
    let report = report_of("screen");

    let ratios = ids(&report, "ratios");
    let wanted = ["plain", "log", "vim", "cjk", "short"].map(|s| format!("{s}: model / vte"));
    assert_eq!(ratios, wanted);
}

/// Ends a run once its first sessions answer; gives its exit status.
fn end_in_the_middle(tmp: &Path, signal: nix::sys::signal::Signal) -> Option<i32> {
    let mut child = quick(tmp, "sessions")
        .args(["--mb", "5000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the sessions", || sockets_below(tmp) >= 3);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
    child.wait().unwrap().code()
}

#[test]
fn an_interrupt_ends_local_sessions_as_well() {
    let tmp = tempfile::tempdir().unwrap();

    let status = end_in_the_middle(tmp.path(), nix::sys::signal::Signal::SIGINT);

    assert_eq!(status, Some(130));
    assert_nothing_left(tmp.path());
}

#[test]
fn a_killed_run_leaves_no_local_session_behind() {
    let tmp = tempfile::tempdir().unwrap();

    let status = end_in_the_middle(tmp.path(), nix::sys::signal::Signal::SIGKILL);

    assert_eq!(status, None);
    eventually("the end of its processes", || {
        processes_of(tmp.path()).is_empty()
    });
}

//! A profile in a home folder that two hosts share, and a machine that was restarted.

use std::io::Write;

use nix::sys::signal::Signal;
use wt_tests::process::{kill9, signal};
use wt_tests::{Profile, eventually};

use super::{in_a_container, pid, start, wait_for};

/// The note of a session's record that names another host.
fn names_host(record: &serde_json::Value, host: &str) -> bool {
    record["notes"].to_string().contains(host)
}

#[test]
fn each_host_of_a_shared_profile_uses_its_own_sessions_and_leaves_the_others_alone() {
    let ada = Profile::new("ada");
    start(&ada, "here", "echo of-alpha; exec sleep 600");
    start(&ada, "both", "exec sleep 600");
    let pipe = ada.scratch().join("go");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let beta = in_a_container(
        &ada,
        &format!(
            r#"hostname beta
               "$WT" terminal --json --name there -- sh -c 'echo of-beta; exec sleep 600' >/dev/null || exit 9
               "$WT" terminal --json --name both -- sleep 600 >/dev/null || exit 9
               "$WT" session wait there --contains of-beta >/dev/null
               "$WT" session ps --json
               "$WT" session kill here; echo "kill: $?"
               "$WT" session kill both >/dev/null; echo "own: $?"
               read go < '{}'
               "$WT" session ps --json
               "$WT" session kill there >/dev/null; echo "end: $?""#,
            pipe.display()
        ),
    );

    // On the other host it is the same the other way round.
    let list: serde_json::Value = serde_json::from_str(&beta.line(0)).unwrap();
    let listed = |name: &str, status: &str| {
        let all = list["sessions"].as_array().unwrap();
        all.iter()
            .filter(|one| one["name"] == name && one["status"] == status)
            .count()
    };
    assert_eq!(
        (listed("here", "foreign"), listed("here", "running")),
        (1, 0)
    );
    assert_eq!(
        (listed("both", "foreign"), listed("both", "running")),
        (1, 1)
    );
    assert_eq!(beta.line(1), "kill: 1");
    assert_eq!(beta.line(2), "own: 0");
    assert!(beta.err_so_far().contains("belongs to the host"));

    let there = ada.wait_for_status("there", "foreign");
    assert!(names_host(&there, "beta"), "{there}");
    assert!(there["pid"].is_null(), "{there}");
    let id = there["id"].as_str().unwrap();
    for line in [
        &["session", "kill", "there"][..],
        &["session", "rm", "there"],
        &["session", "rename", "there", "mine"],
        &["session", "send", "there", "x"],
        &["session", "signal", "there", "INT"],
        &["session", "resize", "there", "90", "30"],
        &["session", "wait", "there", "--exit"],
        &["session", "watch", "there"],
        &["attach", id],
    ] {
        let error = ada.wt(&[&["--json"], line].concat()).code(1).json_error();
        let words = error["message"].as_str().unwrap();
        assert!(words.contains("the host beta"), "{line:?}: {error}");
        assert!(error["hint"].to_string().contains("beta"), "{error}");
    }
    // Of a name that both have, this host's own is meant; and files can be read.
    ada.wt(&["session", "kill", "both"]).ok();
    let read = ada.wt(&["session", "read", "there", "--raw"]).ok();
    assert!(read.out().contains("of-beta"), "{read}");
    ada.wt(&["session", "read", "there"]).ok();

    // All of it did the other host's session no harm.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&pipe)
        .unwrap()
        .write_all(b"go\n")
        .unwrap();
    assert!(beta.line(3).contains(r#""name":"there""#));
    assert_eq!(beta.line(4), "end: 0");
    beta.wait().ok();
    assert_eq!(ada.session("here").unwrap()["status"], "running");
}

#[test]
fn what_a_host_that_died_left_in_a_shared_profile_stays_its_own() {
    let ada = Profile::new("ada");
    start(&ada, "here", "exec sleep 600");
    let beta = in_a_container(
        &ada,
        r#"hostname beta
           "$WT" terminal --json --name gone -- sleep 600 >/dev/null && echo up"#,
    );
    assert_eq!(beta.line(0), "up");
    // With its first process every other one of the container is gone.
    beta.wait().ok();

    let gone = ada.wait_for_status("gone", "foreign");
    assert!(names_host(&gone, "beta"), "{gone}");
    ada.wt(&["session", "rm", "gone"]).code(1);
    assert_eq!(ada.session("here").unwrap()["status"], "running");

    // The same host, come back, knows what became of it.
    let back = in_a_container(
        &ada,
        r#"hostname beta
           "$WT" session ps --json; "$WT" session rm gone; echo "rm: $?""#,
    )
    .wait()
    .ok();
    assert!(back.out().contains(r#""status":"lost""#), "{back}");
    assert!(back.out().contains("rm: 0"), "{back}");
}

#[test]
fn a_daemon_of_another_host_is_told_of_and_left_alone() {
    let ada = Profile::new("ada");
    let port = wt_tests::process::free_port();
    let beta = in_a_container(
        &ada,
        &format!(
            r#"hostname beta
               "$WT" roost start --addr 127.0.0.1:{port} >/dev/null || exit 9
               echo up; sleep 600"#
        ),
    );
    assert_eq!(beta.line(0), "up");

    let status = ada.wt_json(&["status"]);
    assert_eq!(status["running"], false);
    assert_eq!(status["elsewhere"], "beta");
    assert!(ada.wt(&["status"]).ok().out().contains("the host beta"));
    for line in [&["stop"][..], &["roost", "start", "--addr", "127.0.0.1:1"]] {
        let refused = ada.wt(line).code(1);
        assert!(refused.err().contains("the host beta"), "{refused}");
    }
    let doctor = ada.wt_json(&["doctor"]);
    assert!(doctor["checks"].to_string().contains("the host beta"));

    // A host that died holds nobody up.
    for child in wt_tests::process::marked("WINGTHING_DIR", &ada.dir()) {
        signal(child, Signal::SIGKILL);
    }
    eventually("the end of the other host", || {
        ada.processes().is_empty().then_some(())
    });
    assert!(ada.wt_json(&["status"])["elsewhere"].is_null());
}

#[test]
fn after_a_restart_of_the_machine_sessions_are_listed_as_ended_and_readable() {
    let ada = Profile::new("ada");
    let before = start(&ada, "work", "echo last-words; exec sleep 600");
    wait_for(&ada, "work", "last-words");
    let egg = ada.supervisor("work");
    kill9(egg);
    kill9(pid(&before));

    let after = in_a_container(
        &ada,
        r#"echo 00000000-0000-4000-8000-000000000000 > "$HOME/boot"
           mount --bind "$HOME/boot" /proc/sys/kernel/random/boot_id
           "$WT" session ps --json
           "$WT" session read work
           # A file that is mounted in /proc keeps the kernel from giving a session its own.
           "$WT" terminal --unsandboxed --json --name work -- sleep 600 >/dev/null; echo "again: $?"
           "$WT" session kill work >/dev/null"#,
    )
    .wait()
    .ok()
    .without_panic();

    let out = after.out();
    let list: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    let work = &list["sessions"][0];
    assert_eq!(work["status"], "lost", "{work}");
    assert!(names_host(work, "the host restarted"), "{work}");
    for key in ["id", "name", "cwd", "command"] {
        assert_eq!(work[key], before[key]);
    }
    assert!(work["pid"].is_null());
    assert!(out.contains("last-words"), "{after}");
    assert!(out.contains("again: 0"), "{after}");
}

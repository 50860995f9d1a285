//! Odd places to run in: no home, no room, nobody who reads. No panic, and nothing lost.

use std::path::Path;

use wt_tests::process::program;
use wt_tests::profile::Running;
use wt_tests::{Profile, Run};

/// Runs a script of a shell in a profile, with the path of `wt` in `$WT`.
fn shell(profile: &Profile, script: &str) -> Run {
    let mut command = profile.command(Path::new("bash"));
    command.args(["-uc", script]).env("WT", program("wt"));
    Running::start(command).wait().without_panic()
}

/// Like [`shell`], where mounts are the script's own.
fn in_own_mounts(profile: &Profile, script: &str) -> Run {
    let mut command = profile.command(Path::new("unshare"));
    command
        .args(["--map-root-user", "--mount", "bash", "-uc", script])
        .env("WT", program("wt"));
    Running::start(command).wait().without_panic()
}

#[test]
fn nobody_who_reads_is_no_panic() {
    let ada = Profile::new("ada");
    ada.wt_json(&["terminal", "--name", "work", "--", "sleep", "600"]);

    for args in [
        "session ps",
        "session ps --json",
        "--help",
        "session read work",
    ] {
        let run = shell(
            &ada,
            &format!(r#""$WT" {args} | true; exit "${{PIPESTATUS[0]}}""#),
        );
        assert!([0, 1, 141].contains(&run.status), "{run}");
        let run = shell(&ada, &format!(r#""$WT" {args} >&-"#));
        assert!([0, 1].contains(&run.status), "{run}");
    }
    let run = shell(
        &ada,
        r#""$WT" session ps | head -1; exit "${PIPESTATUS[0]}""#,
    );
    assert!([0, 141].contains(&run.status), "{run}");
    assert_eq!(run.out().lines().count(), 1);
}

#[test]
fn a_profile_needs_no_home() {
    let ada = Profile::new("ada");

    shell(&ada, r#"env -u HOME "$WT" session ps --json"#)
        .ok()
        .json();
}

#[test]
fn without_home_and_profile_the_error_says_what_to_set() {
    let ada = Profile::new("ada");

    let run = in_own_mounts(
        &ada,
        // No entry of a user, so that there is no home to be found anywhere.
        r#"mount --bind /dev/null /etc/passwd
           exec env -u HOME -u WINGTHING_DIR "$WT" session ps"#,
    )
    .code(1);

    assert!(run.err().contains("WINGTHING_DIR"), "{run}");
}

#[test]
fn a_profile_that_cannot_be_written_is_a_clear_error() {
    let ada = Profile::new("ada");
    ada.wt(&["session", "ps"]).ok();
    let script = |command: &str| {
        format!(
            r#"mkdir -p "$WINGTHING_DIR"
               mount --bind "$WINGTHING_DIR" "$WINGTHING_DIR"
               mount -o remount,bind,ro "$WINGTHING_DIR"
               exec "$WT" {command}"#
        )
    };

    for command in [
        "terminal --name x --json -- sleep 600",
        "roost start --addr 127.0.0.1:1",
    ] {
        let run = in_own_mounts(&ada, &script(command)).code(1);
        assert!(
            run.err().contains(ada.dir().to_str().unwrap()),
            "the error does not name the place:\n{run}"
        );
    }
    in_own_mounts(&ada, &script("session ps --json")).ok();
    assert!(ada.processes().is_empty(), "something was started");
}

#[test]
fn a_path_too_long_for_a_socket_is_refused_before_anything_is_made() {
    let ada = Profile::new("ada");
    let long = ada.scratch().join("d".repeat(120));

    let mut command = ada.command(&program("wt"));
    command
        .args(["terminal", "--name", "x", "--json", "--", "sleep", "600"])
        .env("WINGTHING_DIR", &long);
    let run = Running::start(command).wait().code(1);

    let error = run.json_error();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("long"), "{run}");
    assert!(!long.exists(), "something was made");
}

#[test]
fn a_full_disk_is_a_clear_error_and_loses_nothing() {
    let ada = Profile::new("ada");

    let run = in_own_mounts(
        &ada,
        r#"set -e
           mkdir -p "$WINGTHING_DIR"
           mount -t tmpfs -o size=8m,mode=700 tmpfs "$WINGTHING_DIR"
           "$WT" terminal --name keep --json -- /bin/sh -c 'echo before; read x; echo after; sleep 600' >/dev/null
           for i in $(seq 100); do "$WT" session read keep | grep -q before && break; sleep 0.1; done
           dd if=/dev/zero of="$WINGTHING_DIR/fill" bs=4k 2>/dev/null || true
           set +e
           "$WT" terminal --name more --json -- sleep 600 >/dev/null
           echo "full: $?"
           "$WT" session ps --json
           "$WT" session read keep | grep before
           rm "$WINGTHING_DIR/fill"
           "$WT" terminal --name more --json -- sleep 600 >/dev/null
           echo "room: $?"
           "$WT" session kill keep >/dev/null
           "$WT" session kill more >/dev/null"#,
    )
    .ok();

    let out = run.out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "full: 1", "{run}");
    assert!(!run.err().is_empty(), "no word about the full disk");
    let list: serde_json::Value = serde_json::from_str(lines[1]).expect("a list of sessions");
    let keep = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "keep")
        .unwrap();
    assert_eq!(keep["status"], "running");
    assert!(lines.contains(&"before"), "{run}");
    assert_eq!(lines[lines.len() - 1], "room: 0", "{run}");
}

//! What scripts meet at the edges: names, errors, closed and full pipes, and JSON that
//! nothing else gets into.

use std::fs;
use std::time::{Duration, Instant};

use wt_tests::world::LABEL;
use wt_tests::{Profile, World};

use super::{run, start, wait_for};

/// Every command that answers by itself, with what it needs to fail at once.
const FAILING: &[(&[&str], i32)] = &[
    (&["attach", "nobody"], 3),
    (&["attach", "--select"], 3),
    (&["session", "read", "nobody"], 3),
    (&["session", "send", "nobody", "x"], 3),
    (&["session", "wait", "nobody", "--exit"], 3),
    (&["session", "watch", "nobody"], 3),
    (&["session", "export", "nobody"], 3),
    (&["session", "play", "nobody"], 3),
    (&["session", "kill", "nobody"], 3),
    (&["session", "rename", "nobody", "x"], 3),
    (&["session", "rm", "nobody"], 3),
    (&["session", "signal", "nobody", "INT"], 3),
    (&["session", "resize", "nobody", "80", "24"], 3),
    (&["session", "signal", "nobody", "NOSIGNAL"], 2),
    (&["session", "wait", "nobody"], 2),
    (&["session", "nothing"], 2),
    (&["nothing"], 2),
    (&["terminal", "--detach", "--name", "a/b"], 2),
    (&["terminal", "--detach", "--", "no-such-program"], 127),
    (&["egg", "nobody"], 3),
    (&["start"], 5),
    (&["login"], 2),
    (&["whoami"], 5),
    (&["wings"], 5),
    (&["wing", "allow", "nonsense"], 2),
    (&["roost", "approve", "NOCODE"], 6),
    (&["roost", "start", "--addr", "here"], 2),
    (&["session", "ps", "--wing", "nobody"], 5),
    (&["session", "ps", "--remote", "-bad"], 2),
];

#[test]
fn every_error_with_json_is_one_document_on_stderr_and_stdout_is_empty() {
    let ada = Profile::new("ada").env("WT_SSH", "false");

    for (line, _) in FAILING {
        let run = ada.wt(&[&["--json"], *line].concat()).without_panic();
        assert!(run.status != 0, "{run}");
        assert_eq!(run.out(), "", "{line:?}");
        let error = run.json_error();
        assert!(!error["message"].as_str().unwrap().is_empty(), "{run}");
        assert!(error["code"].is_string(), "{run}");
    }
}

#[test]
fn every_error_has_the_code_that_is_documented() {
    let ada = Profile::new("ada");

    let wrong: Vec<_> = FAILING
        .iter()
        .map(|(line, code)| (line, *code, ada.wt(line).status))
        .filter(|(_, expected, is)| expected != is)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn with_json_stdout_is_one_document_though_everything_is_logged() {
    let ada = Profile::new("ada").env("WT_LOG", "trace");
    start(&ada, "work", "echo hello; exec cat");
    wait_for(&ada, "work", "hello");

    for line in [
        &["session", "ps"][..],
        &["session", "read", "work"],
        &["session", "read", "work", "--raw"],
        &["session", "send", "work", "x"],
        &["session", "wait", "work", "--idle", "10ms"],
        &["session", "export", "work"],
        &["session", "resize", "work", "90", "30"],
        &["session", "signal", "work", "CONT"],
        &["session", "rename", "work", "work"],
        &["status"],
        &["doctor"],
        &["wing", "id"],
        &["attach"],
        &["completions", "bash"],
        &["man"],
        &["stop"],
    ] {
        // It insists on one document and nothing else.
        let answer = ada.wt_json(line);
        assert_eq!(answer["version"], 1, "{line:?}");
        let text = ada.wt(&[&["--json"], line].concat()).out();
        assert!(!text.contains('\u{1b}'), "{line:?}");
    }
}

#[test]
fn a_name_that_is_none_makes_nothing_anywhere() {
    let ada = Profile::new("ada");
    let other = start(&ada, "other", "exec sleep 600");
    let files = || {
        let all = run(
            &ada,
            r#"find "$HOME/.." -path '*/output*' -prune -o -print | sort"#,
        );
        all.out()
    };
    let before = files();

    let long = "x".repeat(300);
    let id = other["id"].as_str().unwrap();
    for name in [
        "../../x", "a/b", "", " ", ".", "..", "-x", "a\nb", &long, "é", id,
    ] {
        let named = format!("--name={name}");
        let refused = ada.wt(&["terminal", "--json", &named, "--", "sleep", "600"]);
        assert_eq!(refused.status, 2, "{name:?}: {refused}");
        refused.json_error();
        let refused = ada.wt(&["session", "rename", "--json", "other", "--", name]);
        // Its own id as a name would be harmless, and is refused for others.
        assert!(refused.status == 2 || name == id, "{name:?}: {refused}");
    }
    assert_eq!(files(), before);
    assert_eq!(ada.sessions().len(), 1);
}

#[test]
fn names_are_refused_alike_through_a_relay() {
    let world = World::roost();
    world.admit_ben();

    for name in ["../../x", "a/b", "-x", "a\nb", "é"] {
        let named = format!("--name={name}");
        let line = ["terminal", "--json", "--wing", LABEL, &named, "--", "cat"];
        assert_eq!(world.ben.wt(&line).status, 2, "{name:?}");
    }
    let line = ["terminal", "--detach", "--wing", LABEL, "--name", "x"];
    world.ben.wt_json(&[&line[..], &["--", "cat"]].concat());
    let line = ["session", "rename", "x", "y", "--wing", LABEL];
    assert_eq!(world.ben.wt_json(&line)["session"]["name"], "y");
    let line = ["session", "kill", "y", "--wing", LABEL];
    let killed = world.ben.wt_json(&line);
    assert_eq!(killed["session"], world.ada.session("y").unwrap());
    assert!(world.ada.sessions().len() == 1);
}

#[test]
fn a_command_that_cannot_be_run_leaves_nothing_and_says_why() {
    let ada = Profile::new("ada");

    for (line, code, word) in [
        (&["--", "/no/such"][..], 127, "/no/such"),
        (&["--", "/etc/passwd"], 126, "/etc/passwd"),
        (&["--", "/tmp"], 126, "/tmp"),
        (&["--cwd", "/no/folder", "--", "true"], 1, "/no/folder"),
        (&["--cwd", "/etc/passwd", "--", "true"], 1, "/etc/passwd"),
    ] {
        let run = ada.wt(&[&["terminal", "--json"], line].concat()).code(code);
        let error = run.json_error();
        assert!(error["message"].as_str().unwrap().contains(word), "{run}");
    }
    assert!(ada.sessions().is_empty());
}

#[test]
fn a_full_disk_behind_stdout_is_one_line_and_a_closed_pipe_none() {
    let ada = Profile::new("ada");
    start(&ada, "big", "seq 1 20000; exec sleep 600");
    wait_for(&ada, "big", "20000");

    for line in [
        "session ps",
        "session read big",
        "session ps --json",
        "doctor",
    ] {
        let full = run(&ada, &format!(r#""$WT" {line} > /dev/full"#)).code(1);
        assert_eq!(full.err().trim_end().lines().count(), 1, "{full}");
        assert!(full.err().contains("stdout"), "{full}");
    }
    let piped = run(
        &ada,
        r#""$WT" session read big --raw | head -c 10; exit "${PIPESTATUS[0]}""#,
    );
    assert!([0, 141].contains(&piped.status), "{piped}");
    assert_eq!(piped.err(), "");
}

#[test]
fn a_wait_tells_an_end_from_a_time_out_and_from_a_text() {
    let ada = Profile::new("ada");
    let wait = |name: &str, more: &[&str]| {
        let line = ["session", "wait", name, "--json"];
        ada.spawn(&[&line[..], more].concat())
    };

    // Text that is there already is found at once.
    start(&ada, "ready", "echo ready; exec sleep 600");
    wait_for(&ada, "ready", "ready");
    let at = Instant::now();
    wait_for(&ada, "ready", "ready");
    assert!(at.elapsed() < Duration::from_secs(3));

    // A time-out has a status of its own, in its time.
    let at = Instant::now();
    let late = wait("ready", &["--contains", "never", "--timeout", "2s"])
        .wait()
        .code(7);
    assert_eq!(late.json()["reason"], "timed_out");
    let took = at.elapsed();
    assert!((1_900..6_000).contains(&took.as_millis()), "{took:?}");

    // An end without the text.
    start(&ada, "four", "read x; exit 4");
    let waiting = wait("four", &["--contains", "never"]);
    ada.wt(&["session", "send", "four", "--enter"]).ok();
    let ended = waiting.wait().code(1).json();
    assert_eq!(
        (&ended["reason"], &ended["exit"]["code"]),
        (&"ended".into(), &4.into())
    );

    // A session that somebody ends.
    let waiting = wait("ready", &["--contains", "never"]);
    ada.wt(&["session", "kill", "ready"]).ok();
    assert_eq!(waiting.wait().code(1).json()["reason"], "ended");
}

#[test]
fn what_was_printed_last_is_readable_after_the_end_with_its_status() {
    let ada = Profile::new("ada");
    start(&ada, "over", "echo last; exit 5");
    ada.wt(&["session", "wait", "over", "--exit"]).ok();

    for _ in 0..2 {
        assert!(
            ada.wt(&["session", "read", "over"])
                .ok()
                .out()
                .contains("last")
        );
        let over = ada.session("over").unwrap();
        assert_eq!(
            (&over["status"], &over["exit"]["code"]),
            (&"exited".into(), &5.into())
        );
    }
}

#[test]
fn what_is_sent_is_typed_unchanged_whatever_it_looks_like() {
    let ada = Profile::new("ada");
    let file = ada.work().join("typed");
    start(
        &ada,
        "sh",
        &format!("stty raw -echo; printf up; exec cat > '{}'", file.display()),
    );
    wait_for(&ada, "sh", "up");
    let text = "echo token=abcdef123456; API_KEY=sk-1234567890abcdef \"Authorization: Bearer x";

    for _ in 0..2 {
        ada.wt(&["session", "send", "sh", "--", text]).ok();
    }

    let typed = text.repeat(2);
    wt_tests::eventually("the text to be typed", || {
        (fs::read_to_string(&file).unwrap_or_default() == typed).then_some(())
    });
}

#[test]
fn an_open_quote_is_a_time_out_and_ctrl_c_gets_out_of_it() {
    let ada = Profile::new("ada");
    start(&ada, "sh", "PS1='ready$ ' exec sh -i");
    wait_for(&ada, "sh", "ready$");

    ada.wt(&["session", "send", "sh", "echo 'open", "--enter"])
        .ok();
    let line = [
        "session",
        "wait",
        "sh",
        "--contains",
        "ready$",
        "--timeout",
        "1s",
    ];
    ada.wt(&line).code(7);
    ada.wt(&["session", "send", "sh", "--key", "C-c"]).ok();
    wait_for(&ada, "sh", "ready$");
    // Two at once do not mix, and nothing is added to what is typed.
    ada.wt(&["session", "send", "sh", "echo first", "--enter"])
        .ok();
    ada.wt(&["session", "send", "sh", "echo second", "--enter"])
        .ok();
    wait_for(&ada, "sh", "second");
    let raw = ada.wt(&["session", "read", "sh", "--raw"]).ok().out();
    for typed in ["echo first\r\nfirst\r\n", "echo second\r\nsecond\r\n"] {
        assert!(raw.contains(typed), "{raw:?}");
    }
}

//! Sessions of another machine over the system's ssh, against a real sshd.
//!
//! Ada's machine is this one behind sshd on a loopback port; Ben has nothing but an ssh
//! configuration that knows it under a few names.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod commands;
mod host;

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use wt_tests::process::{is_alive, kill9, program, signal};
use wt_tests::terminal::{DETACH, Size};
use wt_tests::{Terminal, eventually};

use crate::host::Host;

/// Starts a session on Ada's machine, from there.
#[track_caller]
fn ada_runs(host: &Host, name: &str, script: &str) -> Value {
    let line = ["terminal", "--name", name, "--", "/bin/sh", "-c", script];
    host.ada.wt_json(&line)["session"].clone()
}

#[track_caller]
fn pid_of(host: &Host, name: &str) -> u64 {
    host.ada.session(name).unwrap()["pid"].as_u64().unwrap()
}

#[test]
fn every_command_gives_the_document_that_it_gives_there() {
    let Some(host) = Host::start("the same documents") else {
        return;
    };
    let started = ada_runs(
        &host,
        "work",
        "echo ready; read x; echo \"got <$x>\"; read y",
    );
    let id = started["id"].as_str().unwrap();
    let wait = ["session", "wait", "work", "--contains", "ready"];
    host.ada.wt_json(&wait);

    for line in [
        &["session", "ps"][..],
        &["session", "read", "work"],
        &["session", "read", "work", "--raw"],
        &wait,
    ] {
        let there = host.ada.wt_json(line);
        let here = host.ben.wt_json(&[line, &["--remote", "box"]].concat());
        assert_eq!(here, there, "{line:?}");
    }
    assert!(host.ben.sessions().is_empty(), "{:?}", host.ben.sessions());

    let sent = host.ben.wt_json(&[
        "session",
        "send",
        "work",
        "it's \"quoted\" $HOME",
        "--enter",
        "--remote",
        "box",
    ]);
    assert_eq!(sent["id"], id);
    let waited = host.ben.wt_json(&[
        "session",
        "wait",
        "work",
        "--contains",
        "got <it's \"quoted\" $HOME>",
        "--remote",
        "box",
    ]);
    assert_eq!(waited["matched"], true);

    let renamed = host
        .ben
        .wt_json(&["session", "rename", "work", "done", "--remote", "box"]);
    assert_eq!(renamed["session"]["name"], "done");
    let killed = host
        .ben
        .wt_json(&["session", "kill", "done", "--remote", "box"]);
    assert_eq!(killed["session"], host.ada.session("done").unwrap());
    let removed = host
        .ben
        .wt_json(&["session", "rm", "done", "--remote", "box"]);
    assert_eq!(removed["removed"], id);
    assert!(host.ada.sessions().is_empty());
}

#[test]
fn a_session_started_over_ssh_is_a_session_of_that_login() {
    let Some(host) = Host::start("a session of the login") else {
        return;
    };

    let started = host.ben.wt_json(&[
        "terminal",
        "--remote",
        "box",
        "--name",
        "x",
        "--env",
        "A=b c'd\"e",
        "--",
        "/bin/sh",
        "-c",
        "printf '<%s>' \"$A\" \"$1\" \"$HOME\"; sleep 600",
        "sh",
        "two words; $(id) 'x' !",
    ]);

    assert_eq!(
        started["session"]["id"],
        host.ada.session("x").unwrap()["id"]
    );
    assert_eq!(started["session"]["created_by"]["kind"], "cli");
    assert_eq!(started["session"]["cwd"], host.ada.home().to_str().unwrap());
    let expected = format!(
        "<b c'd\"e><two words; $(id) 'x' !><{}>",
        host.ada.home().display()
    );
    host.ada
        .wt_json(&["session", "wait", "x", "--contains", &expected]);
    assert!(host.ben.sessions().is_empty());
}

#[test]
fn failures_have_the_codes_and_documents_that_they_have_there() {
    let Some(host) = Host::start("the same failures") else {
        return;
    };
    ada_runs(&host, "over", "exit 3");
    host.ada.wait_for_status("over", "exited");

    for (line, code) in [
        (&["session", "read", "nobody"][..], 3),
        (&["session", "kill", "over"], 1),
        (&["terminal", "--detach", "--name", "two words"], 2),
        (&["terminal", "--detach", "--", "no-such-program"], 127),
        (&["attach", "nobody"], 3),
    ] {
        let line = [&["--json"], line].concat();
        let there = host.ada.wt(&line).code(code).json_error();
        let at = line.iter().position(|a| *a == "--").unwrap_or(line.len());
        let mut line = line.clone();
        line.splice(at..at, ["--remote", "box"]);
        assert_eq!(
            host.ben.wt(&line).code(code).json_error(),
            there,
            "{line:?}"
        );
    }
}

#[test]
fn a_session_is_shown_left_and_shown_again() {
    let Some(host) = Host::start("attach") else {
        return;
    };
    let script = "echo up; while read x; do echo \"got <$x>\"; [ \"$x\" = end ] && exit 7; done";
    let first = host.ben.terminal(&[
        "terminal", "--remote", "box", "--name", "work", "--", "/bin/sh", "-c", script,
    ]);
    first.wait_for("up");
    let pid = pid_of(&host, "work");
    first.line("one");
    first.wait_for("got <one>");
    first.detach();
    eventually("nobody to be attached", || {
        (host.ada.session("work").unwrap()["clients"] == 0).then_some(())
    });

    let second = host.ben.terminal(&["attach", "--remote", "box", "work"]);
    second.wait_for_screen("got <one>");
    assert_eq!(pid_of(&host, "work"), pid);
    second.line("end");

    assert_eq!(second.wait_exit(), 7);
    eventually("the end of every ssh", || {
        host.ben.processes().is_empty().then_some(())
    });
}

#[test]
fn what_happens_there_is_told_here_until_the_session_ended() {
    let Some(host) = Host::start("events") else {
        return;
    };
    ada_runs(&host, "work", "read x; exit 4");
    let watching = host
        .ben
        .spawn(&["session", "watch", "work", "--json", "--remote", "box"]);
    assert!(watching.line(0).contains("started"), "{}", watching.line(0));

    host.ada.wt(&["session", "send", "work", "--enter"]).ok();

    let events = watching.wait().ok().json_lines();
    let last = events.last().unwrap();
    assert_eq!(last["event"], "exit");
    assert_eq!(last["exit"]["code"], 4);
}

#[test]
fn a_cut_connection_is_made_again_and_nothing_is_lost() {
    let Some(host) = Host::start("a cut") else {
        return;
    };
    ada_runs(
        &host,
        "count",
        "echo up; read go; i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo n$i.; sleep 0.01; done; \
         read x; echo \"got <$x>\"; read y",
    );
    let terminal = host.ben.terminal(&["attach", "--remote", "box", "count"]);
    terminal.wait_for("up");
    let mark = terminal.mark();
    terminal.line("go");

    for number in ["n50.", "n150."] {
        terminal.wait_for(number);
        kill9(host.ssh_of(terminal.pid()));
    }
    terminal.wait_for("n300.");
    terminal.line("after");
    terminal.wait_for("got <after>");

    let text = String::from_utf8_lossy(&terminal.output()[mark..]).into_owned();
    let counted: Vec<usize> = text
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix('n')?
                .strip_suffix('.')?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(counted, (1..=300).collect::<Vec<_>>());
    terminal.detach();
}

#[test]
fn a_stopped_ssh_does_not_keep_who_leaves() {
    let Some(host) = Host::start("a stopped ssh") else {
        return;
    };
    ada_runs(&host, "work", "echo up; exec sleep 600");
    let wt = program("wt");
    let script = "before=$(stty -g); \"$0\" attach --remote box work; echo \"left $?\"; \
                  [ \"$(stty -g)\" = \"$before\" ] && echo restored; sleep 600";
    let argv = ["/bin/sh", "-c", script, wt.to_str().unwrap()].map(OsStr::new);
    let terminal = Terminal::spawn(
        &argv,
        &host.ben.environment(),
        &host.ben.work(),
        Size::new(100, 30),
    );
    terminal.wait_for("up");
    let client = host
        .ben
        .processes()
        .into_iter()
        .find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|n| n.trim() == "wt")
        })
        .unwrap();
    let ssh = host.ssh_of(client);
    signal(ssh, Signal::SIGSTOP);
    terminal.send("typed into nowhere");

    let left = Instant::now();
    terminal.send(DETACH);
    terminal.wait_for("left 6");
    let took = left.elapsed();

    terminal.wait_for("restored");
    assert!(took <= Duration::from_millis(1_200), "{took:?}");
    assert!(!is_alive(ssh), "the ssh is still there");
    assert_eq!(host.ada.session("work").unwrap()["status"], "running");
}

#[test]
fn whatever_the_login_prints_and_whichever_shell_it_has_the_answer_is_whole() {
    let Some(host) = Host::start("logins") else {
        return;
    };
    ada_runs(&host, "work", "sleep 600");
    let there = host.ada.wt_json(&["session", "ps"]);

    for name in ["box", "noisy", "tcsh", "fish", "jumped", "busy"] {
        if ["tcsh", "fish"].contains(&name) && !is_installed(name) {
            println!("skipped: remote, a login with {name}: it is not installed");
            continue;
        }
        let run = host
            .ben
            .wt(&["session", "ps", "--json", "--remote", name])
            .ok();
        assert_eq!(run.json(), there, "{name}");
        if name == "noisy" {
            assert!(run.err().contains("Welcome to the box"), "{run}");
            assert!(run.err().contains("a warning"), "{run}");
        }
    }
}

#[test]
fn names_with_blanks_and_quotes_are_taken_as_they_are() {
    let Some(host) = Host::start("names") else {
        return;
    };
    let binary = host.path("it's a \"wt\" $HOME `id` \\ !x");
    std::os::unix::fs::symlink(program("wt"), &binary).unwrap();
    let dir = host.path("p/of 'two'");
    std::fs::create_dir_all(dir.parent().unwrap()).unwrap();

    for name in ["box", "tcsh", "fish"] {
        if name != "box" && !is_installed(name) {
            println!("skipped: remote, names with {name}: it is not installed");
            continue;
        }
        let session = format!("by-{name}");
        host.ben.wt_json(&[
            "terminal",
            "--remote",
            name,
            "--remote-binary",
            binary.to_str().unwrap(),
            "--remote-dir",
            dir.to_str().unwrap(),
            "--name",
            &session,
            "--",
            "sleep",
            "600",
        ]);
        let mut kill = host.ada.command(&program("wt"));
        kill.args(["session", "kill", &session])
            .env("WINGTHING_DIR", &dir);
        assert!(kill.status().unwrap().success(), "{name}");
    }
}

#[test]
fn a_host_without_wt_or_with_another_one_is_told_in_a_sentence() {
    let Some(host) = Host::start("other programs") else {
        return;
    };
    host.ben.wt(&["session", "ps", "--remote", "box"]).ok();

    let fails = |args: &[&str]| {
        let line = [&["session", "ps", "--json"], args].concat();
        let run = host.ben.wt(&line);
        let error = run.json_error();
        let text = format!("{} {}", error["message"], error["hint"]);
        (run.status, text)
    };

    let (status, text) = fails(&["--remote", "bare"]);
    assert_eq!(status, 6, "{text}");
    assert!(text.contains("wt was not found on bare"), "{text}");
    assert!(text.contains("--remote-binary"), "{text}");

    let old = host.install("old", "echo 'error: unrecognized subcommand' >&2; exit 2\n");
    let (status, text) = fails(&["--remote", "box", "--remote-binary", old.to_str().unwrap()]);
    assert_eq!(status, 6, "{text}");
    assert!(text.contains("upgrade wingthing on box"), "{text}");

    // The mark, then a hello of versions 0 to 0 by program 0.0.1.
    let older = host.install(
        "older",
        "printf '\\377\\000wing\\376\\000\\215\\121\\303\\036\\360\\012\\267\\000'\n\
         printf '\\000\\000\\000\\010\\000\\000\\0050.0.1'; cat >/dev/null\n",
    );
    let (status, text) = fails(&[
        "--remote",
        "box",
        "--remote-binary",
        older.to_str().unwrap(),
    ]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("0.0.1 on box"), "{text}");
    assert!(text.contains("upgrade wingthing on box"), "{text}");

    let (status, text) = fails(&["--remote", "nologin"]);
    assert_eq!(status, 6, "{text}");
    assert!(text.contains("status 1"), "{text}");

    let (status, text) = fails(&["--remote", "endless"]);
    assert_eq!(status, 6, "{text}");
}

#[test]
fn what_ssh_refuses_is_refused_in_its_own_words() {
    let Some(host) = Host::start("refusals") else {
        return;
    };
    host.ben.wt(&["session", "ps", "--remote", "box"]).ok();

    for (name, words) in [
        ("impostor", "Host key verification failed"),
        ("closed", "Connection refused"),
    ] {
        let run = host
            .ben
            .wt(&["attach", "work", "--json", "--remote", name])
            .code(6);
        let error = run.json_error();
        assert!(error["message"].as_str().unwrap().contains(words), "{run}");
    }
    let run = host
        .ben
        .wt(&["session", "ps", "--remote", "impostor"])
        .code(6);
    assert!(
        run.err().contains("REMOTE HOST IDENTIFICATION HAS CHANGED"),
        "{run}"
    );
    host.ben
        .wt(&["session", "ps", "--remote", "-oProxyCommand=x"])
        .code(2);
    host.ben
        .wt(&["session", "ps", "--remote", "box", "--wing", "w"])
        .code(2);
}

fn is_installed(shell: &str) -> bool {
    ["/bin", "/usr/bin", "/usr/local/bin"]
        .iter()
        .any(|dir| std::path::Path::new(dir).join(shell).exists())
}

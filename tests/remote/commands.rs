//! The other commands on another machine's sessions, each once.

use serde_json::Value;
use wt_tests::process::program;
use wt_tests::terminal::DETACH;

use super::ada_runs;
use crate::host::Host;

/// Waits on Ada's machine until a session printed this.
#[track_caller]
fn wait_for(host: &Host, name: &str, text: &str) {
    let line = ["session", "wait", name, "--contains", text];
    let more = ["--from", "0", "--timeout", "20s"];
    host.ada.wt(&[&line[..], &more].concat()).ok();
}

#[test]
fn signals_sizes_and_names_reach_the_session_there() {
    let Some(host) = Host::start("signal, resize and rename") else {
        return;
    };
    let script = "trap 'echo got-usr1' USR1; trap 'stty size' WINCH; echo up; \
                  while :; do sleep 0.1; done";
    let started = ada_runs(&host, "work", script);
    wait_for(&host, "work", "up");
    let there = |line: &[&str]| -> Value {
        let line = [line, &["--remote", "box"]].concat();
        host.ben.wt_json(&line)["session"].clone()
    };

    let signalled = there(&["session", "signal", "work", "USR1"]);
    assert_eq!(signalled["id"], started["id"]);
    wait_for(&host, "work", "got-usr1");
    let resized = there(&["session", "resize", "work", "91", "31"]);
    assert_eq!(
        (&resized["cols"], &resized["rows"]),
        (&91.into(), &31.into())
    );
    wait_for(&host, "work", "31 91");
    let renamed = there(&["session", "rename", "work", "job"]);
    assert_eq!(renamed["name"], "job");
    assert_eq!(host.ada.session("job").unwrap()["id"], started["id"]);

    let living = ["session", "rm", "job", "--json", "--remote", "box"];
    host.ben.wt(&living).code(1).json_error();
    there(&["session", "kill", "job"]);
    let removed = host
        .ben
        .wt_json(&["session", "rm", "job", "--remote", "box"]);
    assert_eq!(removed["removed"], started["id"]);
    assert!(host.ada.sessions().is_empty());
}

#[test]
fn what_all_sessions_there_do_is_told_and_a_reader_that_left_ends_it() {
    let Some(host) = Host::start("watching all") else {
        return;
    };
    let watching = host
        .ben
        .spawn(&["session", "watch", "--json", "--remote", "box"]);
    // One that is made while it is watched.
    ada_runs(
        &host,
        "job",
        "read x; printf '\\033]2;at work\\007'; read x",
    );
    let event = |number| -> Value { serde_json::from_str(&watching.line(number)).unwrap() };
    let first = event(0);
    assert_eq!(
        (&first["event"], &first["name"]),
        (&"started".into(), &"job".into())
    );
    host.ada.wt(&["session", "send", "job", "--enter"]).ok();
    assert_eq!(event(1)["title"], "at work");
    host.ada.wt(&["session", "kill", "job"]).ok();
    let mut number = 2;
    while event(number)["event"] != "exit" {
        number += 1;
    }
    wt_tests::process::signal(watching.pid(), nix::sys::signal::Signal::SIGINT);
    assert_eq!(watching.wait().status, 130);
}

#[test]
fn a_recording_there_is_exported_and_played_here() {
    let Some(host) = Host::start("recordings") else {
        return;
    };
    let line = ["terminal", "--detach", "--record", "--name", "tape", "--"];
    let script = ["/bin/sh", "-c", "echo one; sleep 0.2; echo two"];
    host.ada.wt(&[&line[..], &script].concat()).ok();
    host.ada.wait_for_status("tape", "exited");

    for format in ["cast", "text"] {
        let here = ["session", "export", "tape", "--format", format];
        let there = [&here[..], &["--remote", "box"]].concat();
        let local = host.ada.wt(&here).ok().out();
        assert!(local.contains("two"), "{local}");
        assert_eq!(host.ben.wt(&there).ok().out(), local, "{format}");
    }
    let file = host.ben.scratch().join("tape.cast");
    let line = ["session", "export", "tape", "--remote", "box", "--output"];
    host.ben
        .wt(&[&line[..], &[file.to_str().unwrap()]].concat())
        .ok();
    assert!(std::fs::read_to_string(&file).unwrap().contains("two"));

    let player = host
        .ben
        .terminal(&["session", "play", "tape", "--remote", "box"]);
    player.wait_for("two");
    assert_eq!(player.wait_exit(), 0);
    player.wait_for("[played tape]");
}

#[test]
fn a_session_there_is_chosen_from_a_list() {
    let Some(host) = Host::start("choosing") else {
        return;
    };
    ada_runs(&host, "far", "echo from-afar; exec cat");
    wait_for(&host, "far", "from-afar");

    let terminal = host
        .ben
        .terminal(&["attach", "--select", "--remote", "box"]);
    terminal.wait_for_screen("1 of 1");
    terminal.wait_for_screen("from-afar");
    terminal.send("\r");
    terminal.wait_for_screen_that("the session alone", |rows| rows[0] == "from-afar");
    terminal.line("hello");
    terminal.wait_for_screen("hello");

    terminal.send(DETACH);
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn an_agent_is_started_there_with_what_is_installed_there() {
    let Some(host) = Host::start("an agent") else {
        return;
    };
    let folder = host.ada.home().join("agents");
    std::fs::create_dir(&folder).unwrap();
    // A copy, because a session sees nothing of the build when that lies below /tmp.
    std::fs::copy(env!("CARGO_BIN_EXE_wt-stand-in"), folder.join("claude")).unwrap();
    let path = format!("PATH={}:/usr/bin:/bin", folder.display());

    let line = ["egg", "claude", "--remote", "box", "--name", "ai"];
    let started = host
        .ben
        .wt_json(&[&line[..], &["--env", &path, "--", "--verbose"]].concat());
    let session = &started["session"];
    assert_eq!(
        (&session["kind"], &session["agent"]),
        (&"agent".into(), &"claude".into())
    );
    assert_eq!(host.ada.session("ai").unwrap()["id"], session["id"]);
    let launched = host.ada.home().join(".claude/launched");
    let said = wt_tests::eventually("the agent to start", || {
        std::fs::read_to_string(&launched).ok()
    });
    assert!(said.contains("--verbose"), "{said}");

    let absent = ["egg", "codex", "--json", "--remote", "box", "--env", &path];
    host.ben.wt(&absent).code(127).json_error();
    host.ben
        .wt(&["egg", "nobody", "--remote", "box", "--json"])
        .code(3);
}

#[test]
fn a_session_is_not_shown_in_itself_by_way_of_another_machine() {
    let Some(host) = Host::start("nesting") else {
        return;
    };
    // Of this ssh the other machine is this one.
    let ssh = host
        .ben
        .environment()
        .into_iter()
        .find(|(name, _)| name == "WT_SSH")
        .unwrap()
        .1;
    // A session can reach its profile only where nothing holds it.
    let inner = ["terminal", "--unsandboxed", "--json", "--name", "inner"];
    host.ada.wt(&[&inner[..], &["--", "/bin/sh"]].concat()).ok();
    let outer = ["terminal", "--unsandboxed", "--name", "outer", "--"];
    let outer = host.ada.terminal(&[&outer[..], &["/bin/sh"]].concat());
    outer.wait_for("ready$");
    let set = format!(
        "PATH={}:$PATH WINGTHING_DIR={} WT_SSH=\"{ssh}\"; export PATH WINGTHING_DIR WT_SSH",
        program("wt").parent().unwrap().display(),
        host.ada.dir().display()
    );
    outer.line(&format!("{set}; echo se''t"));
    outer.wait_for("set");

    outer.line("wt attach outer --remote box; echo same=$?");
    outer.wait_for("outer would show outer");
    outer.wait_for("same=1");
    outer.line("wt attach inner --remote box; echo other=$?");
    outer.wait_for("inner would be shown inside it");
    outer.wait_for("other=1");

    outer.line("unset WINGTHING_SESSION; wt attach --prefix C-a inner --remote box");
    outer.line("echo inside=$WINGTHING_SESSION_NAME");
    outer.wait_for("inside=inner");
    outer.line(&format!(
        "{set}; wt attach outer --remote box; echo loop=$?"
    ));
    outer.wait_for("outer shows inner shows outer");
    outer.wait_for("loop=1");
    outer.send(b"\x01q");
    outer.wait_for("[detached from inner]");
}

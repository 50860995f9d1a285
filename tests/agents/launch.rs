//! Agents are launched, resumed and typed to.

use std::fs;

use wt_tests::World;
use wt_tests::world::LABEL;

use crate::{AGENTS, SYSTEM_PATH, folder_of, launched, stand_ins, user, wait_for};

#[test]
fn every_agent_launches_and_takes_each_sent_text_exactly_once() {
    let ada = user();
    for (agent, program) in AGENTS {
        let started = ada.wt_json(&["egg", agent]);
        let session = &started["session"];
        assert_eq!(session["kind"], "agent", "{started}");
        assert_eq!(session["agent"], agent);
        assert_eq!(session["name"], agent);
        assert_eq!(session["command"][0], program);
        assert_eq!(session["status"], "running");
        wait_for(&ada, agent, "ready");

        ada.wt(&["session", "send", agent, "hello there", "--enter"])
            .ok();
        wait_for(&ada, agent, "submitted 1: hello there.");
        ada.wt(&["session", "send", agent, "one\ntwo\nthree", "--enter"])
            .ok();
        wait_for(&ada, agent, "submitted 2: one|two|three.");
        // Enter by itself, as soon after the text as two commands can be.
        ada.wt(&["session", "send", agent, "apart"]).ok();
        ada.wt(&["session", "send", agent, "--enter"]).ok();
        wait_for(&ada, agent, "submitted 3: apart.");

        ada.wt(&["session", "send", agent, "--key", "C-d"]).ok();
        ada.wait_for_status(agent, "exited");
        let file = match program {
            "claude" => ".claude.json",
            _ => "state.json",
        };
        let file = ada.home().join(folder_of(program)).join(file);
        let settings = fs::read_to_string(file).unwrap();
        assert_eq!(settings, "{\"submitted\":3}", "{agent}");
    }
}

#[test]
fn an_agent_is_shown_in_the_users_terminal_and_goes_on_when_they_leave() {
    let ada = user();
    let terminal = ada.terminal(&["egg", "opencode", "--name", "oc"]);
    terminal.wait_for("ready");
    terminal.send("hi");
    terminal.wait_for_screen("> hi");
    assert!(terminal.is_on_alternate_screen());
    terminal.detach();
    assert!(!terminal.is_on_alternate_screen());

    let again = ada.terminal(&["attach", "oc"]);
    again.wait_for_screen("> hi");
    assert!(again.is_on_alternate_screen());
    again.send("\x03");

    again.wait_for("exited with 0");
    assert_eq!(again.wait_exit(), 0);
    ada.wt(&["egg", "clod"]).code(3);
}

#[test]
fn an_enter_that_comes_with_the_text_is_a_line_break() {
    let ada = user();
    ada.wt(&["egg", "codex", "--detach"]).ok();
    wait_for(&ada, "codex", "ready");

    // What the pause before Enter is for: without it the text is not submitted.
    let mut typing = ada.command(&wt_tests::process::program("wt"));
    typing.args(["session", "send", "codex", "--stdin"]);
    let text = ada.scratch().join("text");
    fs::write(&text, "hello\r").unwrap();
    typing.stdin(fs::File::open(&text).unwrap());
    assert!(typing.output().unwrap().status.success());
    ada.wt(&["session", "send", "codex", "x", "--enter"]).ok();

    wait_for(&ada, "codex", "submitted 1: hello|x.");
}

#[test]
fn an_agent_takes_up_a_conversation_and_the_users_arguments() {
    let ada = user();
    let resumed = [
        ("claude", "claude", "--resume 7f-1 -v"),
        ("codex", "codex", "resume 7f-1 -v"),
        ("cursor", "cursor-agent", "--resume=7f-1 -v"),
        ("gemini", "gemini", "--resume 7f-1 -v"),
        ("opencode", "opencode", "--session 7f-1 -v"),
    ];
    for (agent, program, arguments) in resumed {
        ada.wt(&["egg", agent, "--resume", "7f-1", "--detach", "--", "-v"])
            .ok();
        assert_eq!(launched(&ada, program).0, arguments);
    }
    ada.wt(&["egg", "ollama", "--detach", "--", "qwen3"]).ok();
    assert_eq!(launched(&ada, "ollama").0, "run qwen3");

    fs::remove_file(ada.home().join(".claude/launched")).unwrap();
    ada.wt(&["egg", "claude", "--resume", "last", "--detach"])
        .ok();
    assert_eq!(launched(&ada, "claude").0, "--continue");
}

#[test]
fn what_cannot_be_launched_ends_with_a_status_of_its_own_and_leaves_nothing() {
    let ada = user();
    let bare = wt_tests::Profile::new("bare").env("PATH", SYSTEM_PATH);

    let unknown = ada.wt(&["egg", "clod", "--json"]).code(3);
    let message = unknown.json_error()["message"].to_string();
    for (agent, _) in AGENTS {
        assert!(message.contains(agent), "{message}");
    }
    let missing = bare.wt(&["egg", "claude", "--json"]).code(127);
    let error = missing.json_error();
    assert!(
        error["message"].to_string().contains(SYSTEM_PATH),
        "{error}"
    );
    assert!(error["hint"].to_string().contains("npm install"), "{error}");
    ada.wt(&["egg", "ollama", "--resume", "last", "--json"])
        .code(2);
    ada.wt(&["egg", "claude", "--resume", "--oops", "--json"])
        .code(2);
    assert!(ada.sessions().is_empty() && bare.sessions().is_empty());
}

#[test]
fn an_agent_gets_the_variables_of_its_profile() {
    let ada = user()
        .env("CURSOR_API_KEY", "cursor-key")
        .env("CURSOR_TRACE_ID", "of-an-editor")
        .env("CLAUDECODE", "1");
    ada.wt(&["egg", "cursor", "--detach"]).ok();
    ada.wt(&["egg", "claude", "--detach"]).ok();
    ada.wt(&[
        "terminal",
        "--name",
        "plain",
        "--detach",
        "--",
        "sh",
        "-c",
        "env; sleep 60",
    ])
    .ok();

    let (_, cursor) = launched(&ada, "cursor-agent");
    assert!(
        cursor.contains(&"CURSOR_API_KEY=cursor-key".to_owned()),
        "{cursor:?}"
    );
    assert!(
        !cursor
            .iter()
            .any(|line| line.starts_with("CURSOR_TRACE_ID"))
    );
    let (_, claude) = launched(&ada, "claude");
    assert!(
        claude.contains(&"DISABLE_AUTOUPDATER=1".to_owned()),
        "{claude:?}"
    );
    assert!(!claude.iter().any(|line| line.starts_with("CLAUDECODE")));
    assert!(claude.contains(&"WINGTHING_SESSION_NAME=claude".to_owned()));
    wait_for(&ada, "plain", "TERM=xterm-256color");
    let plain = ada.wt(&["session", "read", "plain", "--raw"]).ok().out();
    assert!(
        !plain.contains("cursor-key") && !plain.contains("AUTOUPDATER"),
        "{plain}"
    );
}

#[test]
fn a_wing_launches_agents_from_the_folders_of_a_login_shell() {
    let world = World::roost();
    world.admit_ben();
    let folder = stand_ins(&world.ada.home());
    let profile = format!(
        "echo 'Welcome to /the/machine'\nPATH=\"{}:$PATH\"\nexport PATH\n",
        folder.display()
    );
    fs::write(world.ada.home().join(".profile"), profile).unwrap();
    let at_wing = |args: &[&str]| world.ben.wt_json(&[args, &["--wing", LABEL]].concat());

    let work = world.ada.work().display().to_string();
    let started = at_wing(&["egg", "gemini", "--cwd", &work, "--resume", "last"]);
    let session = &started["session"];
    assert_eq!(session["kind"], "agent", "{started}");
    assert_eq!(session["agent"], "gemini");
    assert_eq!(session["notes"], serde_json::json!([]), "{started}");
    at_wing(&[
        "session",
        "wait",
        "gemini",
        "--contains",
        "ready",
        "--from",
        "0",
        "--timeout",
        "30s",
    ]);
    at_wing(&["session", "send", "gemini", "from afar", "--enter"]);
    at_wing(&[
        "session",
        "wait",
        "gemini",
        "--contains",
        "submitted 1: from afar.",
        "--timeout",
        "30s",
    ]);

    let (arguments, variables) = launched(&world.ada, "gemini");
    assert_eq!(arguments, "--resume latest");
    let path = variables
        .iter()
        .find(|line| line.starts_with("PATH="))
        .unwrap();
    assert!(
        path.starts_with(&format!("PATH={}", folder.display())),
        "{path}"
    );
    assert!(!path.contains("Welcome"), "{path}");
}

#[test]
fn a_login_shell_that_hangs_delays_a_session_and_does_not_stop_it() {
    let world = World::roost();
    world.admit_ben();
    fs::write(world.ada.home().join(".profile"), "sleep 600\n").unwrap();

    let started = world.ben.wt_json(&[
        "terminal", "--wing", LABEL, "--name", "late", "--", "sleep", "60",
    ]);

    let notes = started["session"]["notes"].to_string();
    assert!(notes.contains("did not answer within 5 s"), "{started}");
    let missing = world
        .ben
        .wt(&["egg", "claude", "--wing", LABEL, "--json"])
        .code(127);
    assert!(
        missing.json_error()["message"]
            .to_string()
            .contains("/usr/bin")
    );
}

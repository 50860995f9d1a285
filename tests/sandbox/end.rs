//! What is told when a session is over, and what of its rules shows in how it runs.

use std::fs;

use wt_tests::terminal::Size;
use wt_tests::{Profile, Terminal, process};

use crate::{User, notes};

#[test]
fn what_a_session_left_is_told_at_its_end() {
    let ada = User::new();
    let script = "sleep 0.2; mkdir .vscode; echo '{}' > .vscode/tasks.json; echo plain > plain";
    let program = process::program("wt");
    let words = ["terminal", "--name", "left", "--", "sh", "-c", script].map(std::ffi::OsStr::new);
    let argv = [&[program.as_os_str()], &words[..]].concat();

    let shown = Terminal::spawn(
        &argv,
        &ada.profile.environment(),
        &ada.project(),
        Size::new(100, 30),
    );

    shown.wait_for("tasks.json");
    assert_eq!(shown.wait_exit(), 0);
    let record = ada.profile.session("left").unwrap();
    assert!(notes(&record).contains("left behind"), "{record}");
    assert!(!notes(&record).contains("plain:"), "{record}");
    let (_, clean) = ada.script("echo plain > other");
    assert!(!notes(&clean).contains("other"), "{clean}");
}

#[test]
fn the_shell_is_that_of_the_rules() {
    let ada = User::new();
    ada.write_rules("shell: /bin/bash\n");

    let started = ada.json(&["terminal", "--name", "sh"]);
    assert_eq!(started["session"]["command"][0], "/bin/bash");
    ada.wt(&["session", "send", "sh", "echo =$BASH= ; exit", "--enter"])
        .ok();
    let id = started["session"]["id"].as_str().unwrap();
    assert!(ada.output(id).contains("=/bin/bash="));

    ada.write_rules("{}\n");
    let started = ada.json(&["terminal", "--name", "plain"]);
    assert_eq!(started["session"]["command"][0], "/bin/sh");
    ada.wt(&["session", "kill", "plain"]).ok();
}

#[test]
fn a_session_is_recorded_when_the_rules_say_so() {
    let ada = User::new();
    ada.write_rules("audit: true\n");
    ada.json(&["terminal", "--name", "on", "--", "echo", "seen"]);
    ada.profile.wait_for_status("on", "exited");
    ada.write_rules("audit: false\n");
    ada.json(&["terminal", "--name", "off", "--", "echo", "seen"]);
    ada.profile.wait_for_status("off", "exited");

    let recording = |name: &str| {
        let id = ada.profile.session(name).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let folder = ada.profile.dir().join("eggs").join(id);
        wt_egg::EggDir::new(folder).recording().exists()
    };
    assert!(recording("on"));
    assert!(!recording("off"));
}

/// A user with an agent in a folder that sessions see.
fn with_agent() -> User {
    let profile = Profile::new("ada");
    let folder = profile.home().join("agents");
    fs::create_dir(&folder).unwrap();
    // A copy, because a session sees nothing of the build when that lies below /tmp.
    fs::copy(env!("CARGO_BIN_EXE_wt-stand-in"), folder.join("claude")).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    User::of(profile.env("PATH", &path))
}

#[test]
fn an_agent_asks_nothing_only_when_the_rules_say_so() {
    let ada = with_agent();
    let words = || {
        let started = ada.json(&["egg", "claude"]);
        // It may have ended already: its home folder takes none of its files.
        ada.wt(&[
            "session",
            "kill",
            started["session"]["id"].as_str().unwrap(),
        ]);
        started["session"]["command"].to_string()
    };

    assert!(!words().contains("--dangerously-skip-permissions"));
    // A project that nobody trusted cannot say so.
    ada.write("egg.yaml", "dangerously_skip_permissions: true\n");
    assert!(!words().contains("--dangerously-skip-permissions"));
    ada.wt(&["egg", "trust", "--yes"]).ok();
    assert!(words().contains("--dangerously-skip-permissions"));
}

#[test]
fn an_agent_starts_with_the_settings_that_the_rules_name_and_cannot_change_them() {
    let ada = with_agent();
    // The agent's place is taken by a script that shows what it finds.
    let agent = ada.profile.home().join("agents/claude");
    fs::remove_file(&agent).unwrap();
    fs::write(
        &agent,
        "#!/bin/sh\ncat ~/.claude/settings.json\n(echo new > ~/.claude/settings.json) 2>/dev/null || echo kept\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&agent, mode).unwrap();
    ada.write_home(".claude/settings.json", "{\"mine\":1}");
    ada.write_home("given.json", "{\"given\":1}");
    ada.write_rules("agent_settings:\n  claude: ~/given.json\n");
    let run = || {
        let started = ada.json(&["egg", "claude"]);
        ada.output(started["session"]["id"].as_str().unwrap())
    };

    let output = run();
    assert!(
        output.contains("given") && output.contains("kept"),
        "{output}"
    );
    let settings = ada.profile.home().join(".claude/settings.json");
    assert_eq!(fs::read_to_string(&settings).unwrap(), "{\"mine\":1}");
    let given = ada.profile.home().join("given.json");
    assert_eq!(fs::read_to_string(given).unwrap(), "{\"given\":1}");

    ada.write_rules("{}\n");
    assert!(run().contains("mine"));
    assert_eq!(fs::read_to_string(&settings).unwrap(), "{\"mine\":1}");

    ada.write_rules("agent_settings:\n  claude: ~/missing.json\n");
    let error = ada.wt(&["egg", "claude", "--json"]).code(1).json_error();
    assert!(error["message"].as_str().unwrap().contains("missing.json"));
    ada.write("egg.yaml", "agent_settings:\n  clod: ~/given.json\n");
    let checked = ada.json(&["egg", "check", "egg.yaml"]);
    assert!(checked["warnings"][0].as_str().unwrap().contains("clod"));
}

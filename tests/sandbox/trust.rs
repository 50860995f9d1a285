//! Who may widen: `wt egg trust`.

use std::fs;

use serde_json::Value;
use wt_tests::Terminal;
use wt_tests::process;
use wt_tests::terminal::Size;

use crate::{User, notes};

const WRITES_NOTES: &str = "(echo x >> ~/notes/new) 2>/dev/null && echo wrote || echo kept";

fn effects(report: &Value) -> Vec<(String, String)> {
    report["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            let text = |key: &str| change[key].as_str().unwrap().to_owned();
            (text("effect"), text("text"))
        })
        .collect()
}

#[test]
fn a_project_widens_only_after_somebody_said_so_and_again_only_as_it_was() {
    let ada = User::new();
    ada.write_home("notes/old", "");
    ada.write("egg.yaml", "fs: [\"rw:~/notes\", \"deny:./secret\"]\n");
    ada.write("secret", "s");

    // Not trusted: what it takes away holds, what it gives does not, and the session starts.
    let run = ada
        .wt(&[
            "terminal",
            "--json",
            "--name",
            "first",
            "--",
            "sh",
            "-c",
            WRITES_NOTES,
        ])
        .ok();
    assert!(run.err().contains("not applied: rw"), "{run}");
    let id = run.json()["session"]["id"].as_str().unwrap().to_owned();
    assert!(ada.output(&id).contains("kept"));
    assert!(notes(&ada.ended(&id)).contains("wt egg trust"));
    assert!(ada.script("cat secret || echo hidden").0.contains("hidden"));
    let explained = ada.wt(&["egg", "explain", "--json"]).ok();
    let document = explained.json();
    assert_eq!(document["trusted"], false);
    assert_eq!(document["suppressed"][0]["kind"], "rw");
    assert!(explained.err().contains("not applied: rw"), "{explained}");

    let shown = ada.json(&["egg", "trust", "--show"]);
    assert_eq!(shown["state"], "unknown");
    assert_eq!(shown["trusted"], false);
    assert_eq!(effects(&shown)[0].0, "widens");
    assert_eq!(effects(&shown).len(), 1, "{shown}");
    assert!(ada.json(&["egg", "explain"])["trusted"] == false);

    assert_eq!(ada.json(&["egg", "trust", "--yes"])["trusted"], true);
    assert!(ada.script(WRITES_NOTES).0.contains("wrote"));
    assert!(ada.script("cat secret || echo hidden").0.contains("hidden"));
    assert_eq!(ada.json(&["egg", "trust", "--show"])["state"], "trusted");

    // Changed: it asks again, with what is new since.
    ada.write(
        "egg.yaml",
        "fs: [\"rw:~/notes\", \"deny:./secret\"]\nnetwork: example.com\n",
    );
    assert!(ada.script(WRITES_NOTES).0.contains("kept"));
    let shown = ada.json(&["egg", "trust", "--show"]);
    assert_eq!(shown["state"], "changed");
    assert_eq!(shown["compared_with"], "last_trusted");
    assert_eq!(
        effects(&shown),
        [("widens".to_owned(), "example.com is reached".to_owned())]
    );

    // And back: the trust of before holds again, until it is taken back.
    ada.write("egg.yaml", "fs: [\"rw:~/notes\", \"deny:./secret\"]\n");
    assert!(ada.script(WRITES_NOTES).0.contains("wrote"));
    ada.wt(&["egg", "trust", "--revoke"]).ok();
    assert!(ada.script(WRITES_NOTES).0.contains("kept"));
}

#[test]
fn trust_is_asked_for_at_a_terminal_and_nowhere_else() {
    let ada = User::new();
    ada.write("egg.yaml", "network: example.com\n");
    let ask = || {
        let program = process::program("wt");
        let words = ["egg", "trust"].map(std::ffi::OsStr::new);
        let argv = [&[program.as_os_str()], &words[..]].concat();
        let size = Size::new(100, 30);
        Terminal::spawn(&argv, &ada.profile.environment(), &ada.project(), size)
    };
    let is_trusted = || ada.json(&["egg", "explain"])["trusted"] == true;

    let error = ada.wt(&["egg", "trust", "--json"]).code(1).json_error();
    assert!(error["hint"].as_str().unwrap().contains("--yes"));
    assert!(!is_trusted());
    let no = ask();
    no.wait_for("example.com is reached");
    no.wait_for("Trust it?");
    no.line("");
    assert_eq!(no.wait_exit(), 1);
    assert!(!is_trusted());
    let yes = ask();
    yes.wait_for("Trust it?");
    yes.line("y");
    assert_eq!(yes.wait_exit(), 0);
    assert!(is_trusted());

    fs::remove_file(ada.project().join("egg.yaml")).unwrap();
    ada.wt(&["egg", "trust", "--yes"]).code(3);
}

#[test]
fn a_session_decides_nothing() {
    let ada = User::new();
    ada.write("egg.yaml", "network: example.com\n");
    let wt = process::program("wt").display().to_string();

    let script = format!(
        "'{wt}' egg trust --yes; echo said=$?; unset WINGTHING_SESSION; \
         '{wt}' egg trust --yes; echo alone=$?; \
         (echo 'network: \"*\"' > egg.yaml) 2>/dev/null || echo kept"
    );
    let (output, _) = ada.script(&script);

    assert!(output.contains("said=5"), "{output}");
    assert!(output.contains("alone=1"), "{output}");
    assert!(output.contains("kept"), "{output}");
    assert_eq!(ada.json(&["egg", "explain"])["trusted"], false);
    // Outside the same words are enough.
    ada.wt(&["egg", "trust", "--yes"]).ok();
    assert_eq!(ada.json(&["egg", "explain"])["trusted"], true);
}

//! What scripts do: send, wait, read, signal, resize, remove; here and at a wing.

use serde_json::Value;
use wt_tests::world::LABEL;
use wt_tests::{Profile, World};

use super::start;

/// One user and where their sessions are.
struct Script<'a> {
    who: &'a Profile,
    place: &'a [&'a str],
}

impl Script<'_> {
    fn args<'b>(&'b self, args: &[&'b str]) -> Vec<&'b str> {
        let (command, rest) = args.split_at(2);
        [command, self.place, rest].concat()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        self.who.wt_json(&self.args(args))
    }

    #[track_caller]
    fn ends_with(&self, code: i32, args: &[&str]) -> Value {
        let mut args = self.args(args);
        args.push("--json");
        self.who.wt(&args).code(code).json()
    }
}

/// The whole life of a scripted session, which must be the same everywhere.
#[track_caller]
fn scripted(script: &Script<'_>) {
    start(script.who, script.place, "sh", "PS1='ready$ ' exec sh -i");
    script.json(&[
        "session",
        "wait",
        "sh",
        "--contains",
        "ready$",
        "--timeout",
        "20s",
    ]);

    // The echo of what is sent is not what it prints.
    let sent = script.json(&["session", "send", "sh", "echo one''two", "--enter"]);
    assert_eq!(sent["bytes"], 14);
    let waited = script.json(&[
        "session",
        "wait",
        "sh",
        "--contains",
        "onetwo",
        "--timeout",
        "20s",
    ]);
    assert_eq!(waited["matched"], true);
    assert_eq!(waited["from"], sent["offset"]);
    assert_eq!(waited["text"], "onetwo");
    script.json(&["session", "send", "sh", "echo three; sleep 1", "--enter"]);
    let echoed = script.json(&[
        "session",
        "wait",
        "sh",
        "--regex",
        "^three$",
        "--timeout",
        "20s",
    ]);
    assert_eq!(echoed["reason"], "matched");
    let idle = script.json(&[
        "session",
        "wait",
        "sh",
        "--idle",
        "1500ms",
        "--timeout",
        "20s",
    ]);
    assert_eq!(idle["matched"], true);

    // What was there before the wait is found from an offset, and not from now on.
    let old = [
        "session",
        "wait",
        "sh",
        "--contains",
        "onetwo",
        "--timeout",
        "0.3s",
        "--from",
    ];
    assert_eq!(script.json(&[&old[..], &["0"]].concat())["matched"], true);
    let late = script.ends_with(7, &[&old[..], &["now"]].concat());
    assert_eq!(late["reason"], "timed_out");

    // A size and a signal reach the program.
    let resized = script.json(&["session", "resize", "sh", "101", "37"]);
    assert_eq!(resized["session"]["cols"], 101);
    script.json(&["session", "send", "sh", "stty size; sleep 600", "--enter"]);
    script.json(&[
        "session",
        "wait",
        "sh",
        "--contains",
        "37 101",
        "--timeout",
        "20s",
    ]);
    script.json(&["session", "signal", "sh", "INT"]);
    script.json(&[
        "session",
        "wait",
        "sh",
        "--contains",
        "ready$",
        "--timeout",
        "20s",
    ]);

    // Keys are keys, and an unknown one types nothing at all.
    script.json(&["session", "send", "sh", "cat -v", "--enter"]);
    script.json(&[
        "session",
        "wait",
        "sh",
        "--idle",
        "300ms",
        "--timeout",
        "20s",
    ]);
    let unknown = script.args(&["session", "send", "sh", "typed", "--key", "Entre"]);
    let refused = script.who.wt(&unknown).code(2);
    assert!(refused.err().contains("Entre"), "{refused}");
    script.json(&[
        "session", "send", "sh", "--key", "Up", "--key", "C-d", "--enter", "C-c",
    ]);
    script.json(&[
        "session",
        "wait",
        "sh",
        "--contains",
        "C-c^[[A",
        "--timeout",
        "20s",
    ]);
    let screen = script.json(&["session", "read", "sh", "--lines", "50"]);
    assert!(!screen["lines"].to_string().contains("typed"), "{screen}");
    assert_eq!(screen["cols"], 101);

    // Its end is told with its status, and then only its record is left.
    script.json(&["session", "send", "sh", "--key", "C-c"]);
    script.json(&["session", "send", "sh", "exit 4", "--enter"]);
    let ended = script.json(&["session", "wait", "sh", "--exit", "--timeout", "20s"]);
    assert_eq!(ended["exit"]["code"], 4);
    let gone = script.ends_with(1, &["session", "wait", "sh", "--contains", "never"]);
    assert_eq!(
        (&gone["reason"], &gone["exit"]["code"]),
        (&"ended".into(), &4.into())
    );
    script
        .who
        .wt(&script.args(&["session", "send", "sh", "x"]))
        .code(1);
    script.json(&["session", "rm", "sh"]);
    script
        .who
        .wt(&script.args(&["session", "read", "sh"]))
        .code(3);
}

#[test]
fn a_script_drives_a_session_here() {
    let ada = Profile::new("ada");

    scripted(&Script {
        who: &ada,
        place: &[],
    });
}

#[test]
fn a_script_drives_a_session_at_a_wing() {
    let world = World::roost();
    world.admit_ben();

    scripted(&Script {
        who: &world.ben,
        place: &["--wing", LABEL],
    });
}

#[test]
fn a_paste_is_bracketed_when_the_program_asked_and_cannot_be_broken_out_of() {
    let ada = Profile::new("ada");
    start(&ada, &[], "plain", "stty raw -echo; cat -v");
    start(
        &ada,
        &[],
        "asks",
        "printf '\\033[?2004h'; stty raw -echo; cat -v",
    );
    let paste = "a\nb\u{1b}[201~c";
    for name in ["plain", "asks"] {
        ada.wt_json(&[
            "session",
            "wait",
            name,
            "--idle",
            "300ms",
            "--timeout",
            "20s",
        ]);
        ada.wt_json(&["session", "send", name, "--paste", paste]);
    }

    let wait = |name: &str, text: &str| {
        ada.wt_json(&[
            "session",
            "wait",
            name,
            "--contains",
            text,
            "--timeout",
            "20s",
        ])["matched"]
            .clone()
    };
    assert_eq!(wait("plain", "a^Mb^[[201~c"), true);
    assert_eq!(wait("asks", "^[[200~a^Mb[201~c^[[201~"), true);
}

#[test]
fn bytes_from_standard_input_arrive_as_they_are() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "od",
        "stty raw -echo; head -c 20 | od -An -tx1; read x",
    );
    ada.wt_json(&[
        "session",
        "wait",
        "od",
        "--idle",
        "300ms",
        "--timeout",
        "20s",
    ]);
    let bytes = b"a\n\tb\\n$x \"q\" \xc3\xa9\x00z...";

    let mut command = ada.command(&wt_tests::process::program("wt"));
    let input = ada.scratch().join("input");
    std::fs::write(&input, bytes).unwrap();
    command
        .args(["session", "send", "od", "--stdin", "--json"])
        .stdin(std::fs::File::open(&input).unwrap());
    let output = command.output().unwrap();

    let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sent["bytes"], bytes.len());
    let hex: Vec<String> = bytes
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let waited = [
        "session",
        "wait",
        "od",
        "--contains",
        &hex.join(" "),
        "--timeout",
        "20s",
    ];
    assert_eq!(ada.wt_json(&waited)["matched"], true);
}

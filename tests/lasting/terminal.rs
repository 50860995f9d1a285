//! What a session does to the terminal that shows it, and what that terminal does to it.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use wt_tests::process::{self, signal};
use wt_tests::terminal::{DETACH, PREFIX, Size};
use wt_tests::{Profile, Terminal, eventually};

use super::{start, wait_for};

/// A shell in a terminal of its own, in which `wt` is this build and its profile this one.
fn outer_shell(ada: &Profile, size: Size) -> Terminal {
    let shell = Terminal::spawn(&["/bin/sh".as_ref()], &ada.environment(), &ada.work(), size);
    let folder = process::program("wt")
        .parent()
        .unwrap()
        .display()
        .to_string();
    shell.line(&format!("PATH={folder}:$PATH; export PATH; echo se''t"));
    shell.wait_for("set");
    shell
}

fn lines(ada: &Profile, name: &str, scrollback: &str) -> Vec<String> {
    let read = ada.wt_json(&["session", "read", name, "--lines", scrollback]);
    let lines = read["lines"].as_array().unwrap();
    lines
        .iter()
        .map(|line| line.as_str().unwrap().to_owned())
        .collect()
}

/// Whether the bytes hold the parts, each after the one before.
fn in_order(bytes: &[u8], parts: &[&str]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    parts.iter().all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

const MODES: &str =
    "printf '\\033[?1002h\\033[?1006h\\033[?2004h\\033[?1h\\033=\\033[5 q\\033[?25lse''t'";
const SET: [&str; 7] = [
    "\x1b[?1002h",
    "\x1b[?1006h",
    "\x1b[?2004h",
    "\x1b[?1h",
    "\x1b=",
    "\x1b[5 q",
    "\x1b[?25l",
];
const RESET: [&str; 12] = [
    "\x1b[?1000l",
    "\x1b[?1002l",
    "\x1b[?1003l",
    "\x1b[?1005l",
    "\x1b[?1006l",
    "\x1b[?1015l",
    "\x1b[?1004l",
    "\x1b[?2004l",
    "\x1b[?1l",
    "\x1b>",
    "\x1b[0 q",
    "\x1b[?25h",
];

#[test]
fn whatever_ends_a_client_its_terminal_is_given_back_and_the_next_one_has_the_modes_again() {
    let ada = Profile::new("ada");
    let outer = outer_shell(&ada, Size::new(90, 30));
    start(&ada, &[], "job", &format!("{MODES}; exec sleep 600"));
    wait_for(&ada, &[], "job", "set");
    for ending in ["detach", "SIGTERM", "SIGHUP", "the session's death"] {
        let mark = outer.mark();
        outer.line("stty -g; sh -c 'echo pid=$$,; exec wt attach job'; echo en''ded; stty -g");
        // The snapshot's last word, and the modes before or behind it.
        let drawn = outer.wait_for_after(mark, "set");
        for set in SET {
            outer.wait_for_after(mark, set);
        }
        let text = String::from_utf8_lossy(&outer.output()[mark..]).into_owned();
        let pid = text
            .split("pid=")
            .filter_map(|rest| rest.split_once(','))
            .find_map(|(pid, _)| pid.parse().ok());
        let client: u32 = pid.unwrap();

        match ending {
            "detach" => outer.send(DETACH),
            "SIGTERM" => signal(client, Signal::SIGTERM),
            "SIGHUP" => signal(client, Signal::SIGHUP),
            _ => process::kill9(ada.supervisor("job")),
        }

        let end = outer.wait_for_after(drawn, "ended\r\n");
        let last = String::from_utf8_lossy(&outer.output()[drawn..end]).into_owned();
        for reset in RESET {
            assert!(last.contains(reset), "{reset:?} after {ending}: {last:?}");
        }
        outer.wait_for_after(end, "ready$");
        let text = String::from_utf8_lossy(&outer.output()[mark..]).into_owned();
        let settings: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| line.matches(':').count() > 20)
            .collect();
        assert_eq!(settings.len(), 2, "{text}");
        assert_eq!(settings[0], settings[1], "after {ending}");
    }
}

#[test]
fn keyboard_flags_go_with_the_client_and_are_stacked_again_for_the_next() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "stty raw -echo; printf '\\033[>7u\\033[>1uset'; read -r go; printf '\\033[<u\\033[?u'; exec cat -v",
    );
    wait_for(&ada, &[], "job", "set");

    let first = ada.terminal(&["attach", "job"]);
    first.wait_for("set");
    assert!(in_order(&first.output(), &["\x1b[>7u", "\x1b[>1u"]));
    let mark = first.mark();
    first.detach();
    first.wait_for_after(mark, "\x1b[=0u");
    first.wait_for_after(mark, "\x1b[<64u");

    let second = ada.terminal(&["attach", "job"]);
    second.wait_for("set");
    assert!(in_order(&second.output(), &["\x1b[>7u", "\x1b[>1u"]));
    // A shell's read takes a line feed for its end in raw mode.
    second.send("\n");
    // The pop leaves the flags of the first push, and the answer is the session's own.
    second.wait_for("^[[?7u");
    second.detach();
}

#[test]
fn a_full_screen_program_comes_back_on_the_alternate_screen_and_leaves_the_shells_lines() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "seq -f L%g 20; printf '\\033[?1049h\\033[Hfull''screen'; read x; printf '\\033[?1049l'; echo prompt; read x",
    );
    wait_for(&ada, &[], "job", "fullscreen");

    let began = Instant::now();
    let client = ada.terminal_of(Size::new(80, 24), &["attach", "job"]);
    client.wait_for_screen("fullscreen");
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    assert!(client.is_on_alternate_screen());
    assert_eq!(client.text().matches("\x1b[?1049h").count(), 1);
    client.line("");
    client.wait_for_screen("prompt");

    assert!(!client.is_on_alternate_screen());
    let screen = client.screen();
    for n in 1..=20 {
        assert!(screen.contains(&format!("L{n}")), "L{n} in {screen:?}");
    }
    assert!(!screen.concat().contains("fullscreen"));
    let read = lines(&ada, "job", "0");
    assert!(read.contains(&"L20".to_owned()) && !read.concat().contains("fullscreen"));
    client.detach();
}

#[test]
fn copies_reach_the_terminal_that_types_whole_and_once() {
    let ada = Profile::new("ada");
    // 10 bytes in one-byte writes ended by BEL, 200 kB ended by ST, 5 MB, and a question.
    let script = r#"
        read -r go
        for byte in '\033' ']' 5 2 ';' c ';' a G V s b G 8 = '\007'; do printf "$byte"; done
        printf '\033]52;c;'; head -c 200000 /dev/zero | tr '\0' A; printf '\033\\'
        printf '\033]52;c;'; head -c 5000000 /dev/zero | tr '\0' B; printf '\007'
        printf '\033]52;c;?\007\033]52;c;\007'
        echo en''d
        exec cat -v"#;
    start(&ada, &[], "job", script);
    let watcher = ada.terminal(&["attach", "job", "--read-only"]);
    eventually("a client", || {
        (ada.session("job")?["clients"] == 1).then_some(())
    });
    let typist = ada.terminal(&["attach", "job"]);
    eventually("two clients", || {
        (ada.session("job")?["clients"] == 2).then_some(())
    });
    typist.line("");

    typist.wait_for("end\r\n");
    watcher.wait_for("end\r\n");
    let text = typist.text();
    assert_eq!(text.matches("\x1b]52;c;aGVsbG8=\x07").count(), 1);
    let long = format!("\x1b]52;c;{}\x1b\\", "A".repeat(200_000));
    assert_eq!(text.matches(&long).count(), 1);
    assert_eq!(text.matches("]52;").count(), 2);
    assert!(!text.contains("BB"), "a part of the long copy came through");
    typist.wait_for("a copy was too long for the clipboard");
    assert!(!watcher.text().contains("]52;"));
    // The question is answered by nobody, and what the terminal says to it is not typed.
    typist.send("\x1b]52;c;c2VjcmV0\x07x\r");
    typist.wait_for("x\r\n");
    assert!(!lines(&ada, "job", "0").concat().contains("c2VjcmV0"));
    typist.detach();
    typist.wait_for("copied more than 1048576 bytes to the clipboard");

    let again = ada.terminal(&["attach", "job"]);
    again.wait_for_screen("end");
    assert!(!again.text().contains("]52;"));
    again.detach();
    watcher.detach();
}

#[test]
fn copying_can_be_switched_off_and_clearing_be_allowed() {
    let ada = Profile::new("ada");
    let script = "read -r go; printf '\\033]52;c;YQ==\\007\\033]52;c;\\007'; echo en''d; read -r x";
    for (policy, expected) in [("off", 0), ("copy", 1), ("copy-and-clear", 2)] {
        start(&ada, &[], policy, script);
        let client = ada.terminal(&["attach", policy, "--clipboard", policy]);
        eventually("a client", || {
            (ada.session(policy)?["clients"] == 1).then_some(())
        });
        client.line("");
        client.wait_for("end\r\n");
        assert_eq!(client.text().matches("]52;").count(), expected, "{policy}");
        client.detach();
    }
    let wrong = ada.wt(&["attach", "off", "--clipboard", "read"]).code(2);
    assert!(wrong.err().contains("copy-and-clear"), "{wrong}");
}

#[test]
fn answers_of_the_terminal_that_come_late_or_twice_are_not_typed() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "stty raw -echo; printf up; read -r go; printf '\\033[c'; exec cat -v",
    );
    let client = ada.terminal(&["attach", "job"]);
    client.wait_for("up");
    for piece in ["\x1b[?6", "2;2", "2c", "\x1b[?62;22c", "\x1b[>0;320;0c"] {
        client.send(piece);
    }
    client.send("\x1bP>|xterm(1)\x1b\\\x1b]11;rgb:0000/0000/0000\x1b\\");
    // The program has had nothing when it asks; then it gets one answer, the session's own.
    client.send("\n");
    client.wait_for("\x1b[c");
    client.send("\x1b[?1;2c\x1b[?1;2cEN");
    client.send("D");

    client.wait_for("^[[?62;22cEND");
    client.detach();
}

#[test]
fn keys_with_event_types_arrive_as_they_were_sent() {
    let ada = Profile::new("ada");
    start(&ada, &[], "job", "stty raw -echo; printf up; exec cat -v");
    let client = ada.terminal(&["attach", "job"]);
    client.wait_for("up");

    client.send("\x1b[106;1:3u\x1b[57441;2:1u\x1b[97:65;2;65uabc");

    client.wait_for("^[[106;1:3u^[[57441;2:1u^[[97:65;2;65uabc");
    client.detach();
}

#[test]
fn pastes_keep_every_byte_and_the_leaving_key_works_behind_them() {
    let ada = Profile::new("ada");
    start(&ada, &[], "job", "stty raw -echo; printf up; exec cat -v");
    let client = ada.terminal(&["attach", "job"]);
    client.wait_for("up");

    client.send(b"\x1b[200~a\x02qb\x1b[20");
    client.wait_for("^[[200~a^Bqb");
    client.send(b"1~");
    client.wait_for("^[[201~");
    client.send(b"\x02\x02");
    client.send(b"\x02x");
    client.wait_for("^B^Bx");
    client.send(PREFIX);
    client.send(b"\x1b[200~q\x1b[201~");
    client.wait_for("^B^[[200~q^[[201~");
    client.detach();
}

#[test]
fn what_is_typed_together_with_the_leaving_key_is_dropped_and_told_and_later_keys_are_the_shells() {
    let ada = Profile::new("ada");
    start(&ada, &[], "job", "printf up; exec cat");
    let outer = outer_shell(&ada, Size::new(90, 30));
    let mark = outer.mark();
    outer.line("wt attach job");
    let mark = outer.wait_for_after(mark, "up");

    outer.send(b"\x02qrm -rf x\r");
    let mark = outer.wait_for_after(
        mark,
        "9 bytes that came together with the leaving key were dropped",
    );
    let mark = outer.wait_for_after(mark, "ready$");
    outer.line("wt attach job");
    outer.wait_for_after(mark, "up");
    let mark = outer.mark();
    outer.send(DETACH);
    // The client is on its way out and reads no more.
    outer.wait_for_after(mark, "\x1b[=0u");
    outer.line("echo ke''pt");

    outer.wait_for_after(mark, "kept\r\n");
    assert!(!lines(&ada, "job", "100").concat().contains("rm -rf"));
}

#[test]
fn a_session_that_takes_no_input_can_be_left_behind_any_paste() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "stty raw -echo; printf up; exec sleep 600",
    );
    let client = ada.terminal(&["attach", "job"]);
    client.wait_for("up");

    let line = [&[b'p'; 1023], b"\r".as_slice()].concat();
    client.send(line.repeat(16 * 1024));
    let began = Instant::now();
    client.send(DETACH);

    assert_eq!(client.wait_exit(), 0);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    client.wait_for("the session takes no input; what you type is refused");
    client.wait_for("bytes that were typed did not reach the session");
    eventually("no client", || {
        (ada.session("job")?["clients"] == 0).then_some(())
    });
}

#[test]
fn attaching_types_nothing() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "cat > in; echo en''d; wc -c in; read -r x",
    );
    for _ in 0..2 {
        let client = ada.terminal(&["attach", "job"]);
        eventually("a client", || {
            (ada.session("job")?["clients"] == 1).then_some(())
        });
        client.wait_for("\x1b[");
        client.detach();
    }
    let client = ada.terminal(&["attach", "job"]);
    eventually("a client", || {
        (ada.session("job")?["clients"] == 1).then_some(())
    });

    client.send(b"\x04");

    client.wait_for("end");
    client.wait_for("0 in");
    client.detach();
}

#[test]
fn clients_are_counted_and_the_session_outlives_the_last_and_a_kill_ends_them_all() {
    let ada = Profile::new("ada");
    let session = start(&ada, &[], "job", "echo up; exec cat");
    let clients = |count: u32| {
        eventually(&format!("{count} clients"), || {
            (ada.session("job")?["clients"] == count).then_some(())
        });
    };
    let (first, second) = (
        ada.terminal(&["attach", "job"]),
        ada.terminal(&["attach", "job"]),
    );
    first.wait_for("up");
    second.wait_for("up");
    clients(2);
    first.detach();
    clients(1);
    second.detach();
    clients(0);
    let record = ada.session("job").unwrap();
    assert_eq!(record["status"], "running");
    assert_eq!(record["pid"], session["pid"]);

    let both = [
        ada.terminal(&["attach", "job"]),
        ada.terminal(&["attach", "job"]),
    ];
    clients(2);
    let began = Instant::now();
    ada.wt(&["session", "kill", "job"]).ok();
    for client in &both {
        let exit = client.wait_exit();
        assert!(exit == 129 || exit == 137 || exit == 143, "{exit}");
        client.wait_for("[job ");
    }
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn attaching_to_a_session_whose_supervisor_is_stopped_ends_soon_and_names_it() {
    let ada = Profile::new("ada");
    start(&ada, &[], "stuck", "echo up; exec cat");
    let supervisor = ada.supervisor("stuck");
    signal(supervisor, Signal::SIGSTOP);

    let began = Instant::now();
    let client = ada.terminal(&["attach", "stuck"]);
    assert_eq!(client.wait_exit(), 6);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    client.wait_for("stuck");
    client.wait_for("not responding");
    client.wait_for("session kill");

    signal(supervisor, Signal::SIGCONT);
    let client = ada.terminal(&["attach", "stuck"]);
    client.wait_for("up");
    client.detach();
}

#[test]
fn output_of_a_detached_session_is_in_the_history_of_client_and_command() {
    let ada = Profile::new("ada");
    start(&ada, &[], "job", "seq -f n%g, 3000; echo en''d; read -r x");
    wait_for(&ada, &[], "job", "end");

    let client = ada.terminal(&["attach", "job"]);
    client.wait_for_screen("end");
    let text = client.text();
    let read = lines(&ada, "job", "2000");
    for n in 1_030..=3_000 {
        assert_eq!(
            text.matches(&format!("n{n},")).count(),
            1,
            "n{n} at the client"
        );
    }
    let numbers: Vec<&String> = read.iter().filter(|line| line.starts_with('n')).collect();
    let expected: Vec<String> = (3_001 - numbers.len()..=3_000)
        .map(|n| format!("n{n},"))
        .collect();
    assert!(numbers.len() >= 2_000);
    assert!(numbers.into_iter().eq(expected.iter()));
    client.detach();
}

#[test]
fn a_line_is_whole_at_any_width_at_which_it_is_attached() {
    let ada = Profile::new("ada");
    let script = "printf '%0200dEND\\n' 0 | tr 0 x; printf '$ '; read -r x; echo got $x; read -r x";
    let narrow = ada.terminal_of(
        Size::new(80, 24),
        &["terminal", "--name", "job", "--", "/bin/sh", "-c", script],
    );
    narrow.wait_for_screen("END");
    narrow.detach();
    let line = format!("{}END", "x".repeat(200));

    let wide = ada.terminal_of(Size::new(250, 30), &["attach", "job"]);
    wide.wait_for_screen(&line);
    wide.wait_for_screen("$");
    let at = |name: &str| {
        let read = ada.wt_json(&["session", "read", name]);
        (read["cursor"]["row"].clone(), read["cursor"]["col"].clone())
    };
    assert_eq!(lines(&ada, "job", "0")[0], line);
    assert_eq!(at("job"), (Value::from(1), Value::from(2)));
    wide.detach();

    let phone = ada.terminal_of(Size::new(40, 20), &["attach", "job"]);
    phone.wait_for_screen("$");
    let rows = lines(&ada, "job", "0");
    assert_eq!(rows[..6].concat(), line);
    assert_eq!(rows[5], "END");
    assert_eq!(at("job"), (Value::from(6), Value::from(2)));
    assert_eq!(phone.screen()[..6].concat(), line);
    phone.line("it");
    phone.wait_for_screen("$ it");
    phone.wait_for_screen("got it");
    phone.detach();
    // What the program wrote as one line is one line where rows do not count.
    let text = ada
        .wt(&["session", "export", "job", "--format", "text"])
        .ok()
        .out();
    assert!(text.lines().any(|l| l == line), "{text}");
}

#[test]
fn the_program_has_the_clients_size_before_its_first_key_and_a_storm_of_sizes_is_calmed() {
    let ada = Profile::new("ada");
    let script = "trap 'echo \"size <$(stty size)>\"' WINCH; echo up; while :; do read -r x && echo \"key $(stty size)\"; done";
    start(&ada, &[], "job", script);
    wait_for(&ada, &[], "job", "up");

    let client = ada.terminal_of(Size::new(120, 40), &["attach", "job"]);
    client.line("");
    client.wait_for("key 40 120");
    let mark = client.mark();
    for n in 0..100 {
        client.resize(Size::new(100 + n % 7, 30));
        std::thread::sleep(Duration::from_millis(10));
    }
    client.resize(Size::new(93, 31));

    client.wait_for_within(Duration::from_secs(5), mark, "<31 93>");
    let text = String::from_utf8_lossy(&client.output()[mark..]).into_owned();
    assert!(text.matches("size <").count() <= 16, "{text}");
    client.detach();
}

#[test]
fn the_size_is_that_of_who_types_and_a_smaller_terminal_is_told() {
    let ada = Profile::new("ada");
    start(&ada, &[], "job", "echo up; exec cat");
    let desk = ada.terminal_of(Size::new(200, 50), &["attach", "job"]);
    desk.wait_for("up");
    let size = |cols: u32, rows: u32| {
        eventually(&format!("{cols}x{rows}"), || {
            let record = ada.session("job")?;
            (record["cols"] == cols && record["rows"] == rows).then_some(())
        });
    };
    size(200, 50);
    let phone = ada.terminal_of(Size::new(40, 30), &["attach", "job"]);
    phone.wait_for("up");
    size(40, 30);

    phone.kill9();

    size(200, 50);
    let watcher = ada.terminal_of(Size::new(40, 30), &["attach", "job", "--read-only"]);
    watcher.wait_for("the session is larger than this terminal");
    size(200, 50);
    assert!(!desk.text().contains("larger than this terminal"));
    watcher.detach();
    desk.detach();
}

#[test]
fn a_terminal_of_unknown_or_absurd_size_is_used_all_the_same() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "echo up; while read -r x; do stty size; done",
    );
    for (size, expected) in [
        (Size::new(0, 0), "24 80"),
        (Size::new(0, 40), "24 80"),
        (Size::new(1, 1), "1 "),
        (Size::new(u16::MAX, u16::MAX), "1000 1000"),
    ] {
        let client = ada.terminal_of(size, &["attach", "job"]);
        client.wait_for("up");
        let mark = client.mark();
        client.line("");
        client.wait_for_after(mark, expected);
        client.detach();
    }
}

#[test]
fn an_outer_terminal_that_this_host_does_not_know_changes_nothing_inside() {
    let ada = Profile::new("ada");
    start(
        &ada,
        &[],
        "job",
        "while read -r x; do echo \"<$TERM $COLORTERM>\"; done",
    );
    for term in ["xterm-ghostty", "", "dumb"] {
        let mut env = ada.environment();
        env.retain(|(name, _)| name != "TERM");
        env.push(("TERM".to_owned(), term.to_owned()));
        let program = process::program("wt");
        let argv = [program.as_os_str(), "attach".as_ref(), "job".as_ref()];
        let client = Terminal::spawn(&argv, &env, &ada.work(), Size::new(80, 24));
        eventually("a client", || {
            (ada.session("job")?["clients"] == 1).then_some(())
        });
        let mark = client.mark();
        client.line("");
        client.wait_for_after(mark, "<xterm-256color truecolor>");
        client.detach();
    }
}

#[test]
fn a_session_has_colours_and_characters_though_its_maker_had_none() {
    let ada = Profile::new("ada");
    let make = |name: &str, more: &[&str]| {
        let mut command = ada.command(&process::program("wt"));
        command.env_remove("TERM").env_remove("LANG");
        command
            .args(["terminal", "--detach", "--name", name])
            .args(more);
        let script = "echo \"<$TERM $COLORTERM $LANG $(tput colors)>\"; read -r x";
        command.args(["--", "/bin/sh", "-c", script]);
        assert!(command.output().unwrap().status.success());
    };

    make("plain", &[]);
    wait_for(&ada, &[], "plain", "<xterm-256color truecolor C.UTF-8 256>");
    make("own", &["--env", "TERM=vt100", "--env", "COLORTERM="]);
    wait_for(&ada, &[], "own", "<vt100  C.UTF-8 -1>");
}

#[test]
fn a_start_up_file_that_asks_is_seen_answered_and_can_be_left() {
    let ada = Profile::new("ada").env("ENV", "asks.sh");
    std::fs::write(
        ada.home().join("asks.sh"),
        "printf 'key? '; read -r k; echo \"got <$k>\"\n",
    )
    .unwrap();
    let client = ada.terminal(&[
        "terminal",
        "--name",
        "q",
        "--env",
        "ENV=asks.sh",
        "--",
        "/bin/sh",
        "-i",
    ]);
    client.wait_for_screen("key?");
    client.detach();

    let client = ada.terminal(&["attach", "q"]);
    client.wait_for_screen("key?");
    client.line("sesame");
    client.wait_for("got <sesame>");
    client.detach();
}

#[test]
fn a_client_ends_with_the_status_of_the_program() {
    let ada = Profile::new("ada");
    for (script, status) in [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 127", 127),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
    ] {
        let client = ada.terminal(&["terminal", "--", "/bin/sh", "-c", script]);
        assert_eq!(client.wait_exit(), status, "{script}");
    }
    let sessions = ada.sessions();
    let signalled = sessions
        .iter()
        .filter(|s| s["exit"]["signal"] == "SIGTERM")
        .count();
    assert_eq!(signalled, 1);
}

#[test]
fn what_was_on_the_terminal_is_in_its_history_and_the_cursor_is_below_the_session() {
    let ada = Profile::new("ada");
    start(&ada, &[], "job", "echo inside; exec cat");
    let outer = outer_shell(&ada, Size::new(80, 12));
    let mark = outer.mark();
    outer.line("for n in 1 2 3 4 5; do echo MARK$n; done; wt attach job");
    outer.wait_for_after(mark, "MARK5");
    outer.wait_for_screen("inside");
    outer.send(DETACH);
    outer.wait_for_after(mark, "[detached from job]");

    outer.line("echo after");
    outer.wait_for_screen("after");
    let history = outer.history();
    let marks: Vec<&String> = history.iter().filter(|l| l.starts_with("MARK")).collect();
    assert_eq!(marks, ["MARK1", "MARK2", "MARK3", "MARK4", "MARK5"]);
    assert_eq!(history.iter().filter(|l| l.as_str() == "inside").count(), 1);
}

#[test]
fn a_large_paste_by_command_arrives_whole_also_line_by_line() {
    let ada = Profile::new("ada");
    let text: String = (0..40_000u32)
        .map(|n| format!("line {n:08} of a paste\n"))
        .collect();
    let digest = ring_hex(text.as_bytes());
    for (name, mode) in [("raw", "stty raw -echo"), ("lines", "stty -echo")] {
        let script = format!(
            "{mode}; echo up; head -c {} | sha256sum; read -r x",
            text.len()
        );
        start(&ada, &[], name, &script);
        wait_for(&ada, &[], name, "up");
        let input = ada.scratch().join("paste");
        std::fs::write(&input, &text).unwrap();
        let mut command = ada.command(&process::program("wt"));
        command
            .args(["session", "send", name, "--stdin", "--json"])
            .stdin(std::fs::File::open(&input).unwrap());

        let output = command.output().unwrap();

        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(sent["bytes"], text.len(), "{name}");
        wait_for(&ada, &[], name, &digest);
    }
}

fn ring_hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

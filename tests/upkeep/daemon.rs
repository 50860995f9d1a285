//! Daemons and sessions whose files, folders, callers and clocks are not what they were.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use wt_tests::process::{is_alive, signal};
use wt_tests::world::LABEL;
use wt_tests::{Profile, World, eventually};

use super::{pid, run, start, wait_for};

#[test]
fn a_command_in_a_pipe_ends_though_what_it_started_goes_on() {
    let ada = Profile::new("ada");
    let port = wt_tests::process::free_port();

    // The pipes below are closed only when nobody holds them any more.
    let script = format!(
        r#"exec 7> "$HOME/inherited"
           x=$("$WT" roost start --addr 127.0.0.1:{port}); echo "roost: ${{#x}}" | grep -c roost
           "$WT" terminal --json --name x -- sleep 600 | cat > /dev/null
           "$WT" session ps --json | cat"#
    );
    let piped = run(&ada, &script).ok();
    assert!(piped.out().contains(r#""name":"x""#), "{piped}");

    let daemon = ada.wt_json(&["status"])["daemon"]["pid"].as_u64().unwrap();
    let egg = ada.supervisor("x");
    let program = pid(&ada.session("x").unwrap());
    let inherited = ada.home().join("inherited");
    for pid in [daemon, u64::from(egg), u64::from(program)] {
        let held: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .collect();
        assert!(!held.contains(&inherited), "{pid} holds {held:?}");
    }
}

#[test]
fn a_sessions_program_gets_no_descriptors_but_its_terminal() {
    let world = World::roost();
    world.admit_ben();
    let script = "ls -1 /proc/$$/fd | sed 's/^/fd /; s/$/./'; echo end";
    let line = ["terminal", "--detach", "--name", "far", "--wing", LABEL];
    world
        .ben
        .wt_json(&[&line[..], &["--", "/bin/sh", "-c", script]].concat());
    start(&world.ada, "near", script);

    for name in ["far", "near"] {
        let wait = ["session", "wait", name, "--exit", "--timeout", "20s"];
        world.ada.wt(&wait).ok();
        let raw = world.ada.wt(&["session", "read", name, "--raw"]).ok().out();
        // A shell keeps its own from 10 on.
        let beyond = |line: &&str| {
            let number = line.strip_prefix("fd ").and_then(|n| n.strip_suffix('.'));
            number.is_some_and(|n| n.parse::<u32>().is_ok_and(|n| (3..10).contains(&n)))
        };
        assert_eq!(raw.lines().filter(beyond).count(), 0, "{name}: {raw}");
    }
}

#[test]
fn the_daemons_caller_leaves_nothing_in_its_sessions() {
    let ada = Profile::new("ada")
        .env("CLAUDECODE", "1")
        .env("TMUX", "/x")
        .env("VIRTUAL_ENV", "/v")
        .env("SSH_TTY", "/dev/pts/9")
        .env("GIT_DIR", "/g")
        .env("VSCODE_PID", "1")
        .env("npm_config_x", "1");
    let addr = format!("127.0.0.1:{}", wt_tests::process::free_port());
    ada.wt(&["roost", "start", "--addr", &addr]).ok();
    let label = ada.wt_json(&["status"])["daemon"]["label"].clone();
    let place = ["--wing", label.as_str().unwrap()];
    let line = [&["terminal", "--detach", "--name", "e"], &place[..]].concat();
    ada.wt_json(&[&line[..], &["--", "env"]].concat());
    ada.wt(&["session", "wait", "e", "--exit", "--timeout", "20s"])
        .ok();

    let env = ada.wt(&["session", "read", "e", "--raw"]).ok().out();

    for name in [
        "CLAUDECODE",
        "TMUX",
        "VIRTUAL_ENV",
        "SSH_TTY",
        "GIT_DIR",
        "VSCODE_PID",
        "npm_config",
    ] {
        assert!(
            !env.contains(&format!("{name}=")) && !env.contains(name),
            "{env}"
        );
    }
    for set in [
        "TERM=xterm-256color",
        "COLORTERM=truecolor",
        "UTF-8",
        "HOME=",
    ] {
        assert!(env.contains(set), "{set}: {env}");
    }
}

#[test]
fn a_damaged_file_of_one_session_hides_no_other_and_its_process_can_be_reached() {
    let ada = Profile::new("ada");
    start(&ada, "fine", "exec sleep 600");
    let mut damaged = Vec::new();
    for (name, rubbish) in [
        ("tail", &b"}{"[..]),
        ("zeros", &[0; 64]),
        ("merge", b"\n<<<<<<< ours\n=======\n>>>>>>> theirs\n"),
    ] {
        let session = start(&ada, name, "echo here; exec cat");
        wait_for(&ada, name, "here");
        let id = session["id"].as_str().unwrap().to_owned();
        let file = ada.dir().join("eggs").join(&id).join("meta.json");
        let mut text = fs::read(&file).unwrap();
        text.extend(rubbish);
        fs::write(&file, &text).unwrap();
        damaged.push((id, file, text));
    }
    let empty = ada.dir().join("eggs").join("zzzzzzzzzzzz");
    fs::create_dir(&empty).unwrap();

    assert_eq!(ada.session("fine").unwrap()["status"], "running");
    assert_eq!(ada.sessions().len(), 5);
    for (id, file, text) in &damaged {
        let record = ada.session(id).unwrap();
        let notes = record["notes"].to_string();
        assert!(notes.contains(file.to_str().unwrap()), "{record}");
        assert_eq!(record["status"], "running", "{record}");
        let terminal = ada.terminal(&["attach", id]);
        terminal.wait_for("here");
        terminal.line("typed");
        terminal.wait_for("typed");
        terminal.detach();
        assert_eq!(
            &fs::read(file).unwrap(),
            text,
            "the file was not left as it is"
        );
        ada.wt(&["session", "kill", id]).ok();
    }
    let record = ada.session("zzzzzzzzzzzz").unwrap();
    assert_eq!(record["status"], "lost");
    assert!(
        record["notes"].to_string().contains("meta.json"),
        "{record}"
    );
    // They stay until they are removed by their user.
    start(&ada, "later", "exec sleep 600");
    assert!(damaged.iter().all(|(_, file, _)| file.exists()));
    ada.wt(&["session", "rm", &damaged[0].0]).ok();
    assert!(!damaged[0].1.exists());
}

#[test]
fn a_folder_that_is_gone_is_said_and_everything_else_works() {
    let ada = Profile::new("ada");
    let folder = ada.scratch().join("work");
    fs::create_dir(&folder).unwrap();
    let cwd = folder.to_str().unwrap();
    let line = ["terminal", "--name", "x", "--cwd", cwd, "--"];
    ada.wt_json(&[&line[..], &["/bin/sh", "-c", "echo here; exec cat"]].concat());
    wait_for(&ada, "x", "here");

    fs::remove_dir(&folder).unwrap();

    let record = ada.session("x").unwrap();
    let notes = record["notes"].to_string();
    assert!(notes.contains(cwd) && notes.contains("gone"), "{record}");
    ada.wt(&["session", "read", "x"]).ok();
    ada.wt(&["session", "send", "x", "hi", "--enter"]).ok();
    wait_for(&ada, "x", "hi");
    let refused = ada.wt(&["terminal", "--json", "--cwd", cwd, "--", "cat"]);
    assert!(refused.code(1).json_error().to_string().contains(cwd));
    // What the user made again is theirs.
    fs::create_dir(&folder).unwrap();
    ada.wt(&["session", "kill", "x"]).ok();
    ada.wt(&["session", "rm", "x"]).ok();
    assert!(folder.exists());
}

#[test]
fn a_daemon_that_is_slow_is_waited_for_and_never_replaced() {
    let world = World::roost();
    let daemon = world.daemon_pid();
    signal(daemon, Signal::SIGSTOP);
    let addr = world.addr().to_string();
    let start = world.ada.spawn(&["roost", "start", "--addr", &addr]);
    let status = world.ada.spawn(&["status", "--json"]);
    let ps = Instant::now();
    world.ada.wt(&["session", "ps"]).ok();
    assert!(
        ps.elapsed() < Duration::from_secs(3),
        "a list waits for no daemon"
    );
    std::thread::sleep(Duration::from_secs(3));
    signal(daemon, Signal::SIGCONT);

    start.wait().ok();
    assert_eq!(status.wait().ok().json()["daemon"]["pid"], daemon);
    assert_eq!(world.daemon_pid(), daemon);
    assert_eq!(world.ada.processes().len(), 1);
}

#[test]
fn a_machine_that_slept_finds_everything_where_it_was() {
    let world = World::roost();
    world.admit_ben();
    let work = start(&world.ada, "work", "echo here; exec cat");
    wait_for(&world.ada, "work", "here");
    let all = world.ada.processes();
    for stop in [Signal::SIGSTOP, Signal::SIGCONT] {
        for pid in &all {
            signal(*pid, stop);
        }
        std::thread::sleep(Duration::from_secs(2));
    }

    for (who, place) in [(&world.ada, &[][..]), (&world.ben, &["--wing", LABEL])] {
        let terminal = who.terminal(&[&["attach", "work"], place].concat());
        terminal.wait_for("here");
        terminal.detach();
    }
    assert_eq!(pid(&world.ada.session("work").unwrap()), pid(&work));
}

#[test]
fn the_daemons_socket_is_made_again_and_what_the_dead_left_is_told_from_a_daemon() {
    let world = World::roost();
    let daemon = world.daemon_pid();
    let socket = world.ada.dir().join("wing.sock");
    fs::remove_file(&socket).unwrap();
    eventually("the socket", || socket.exists().then_some(()));
    assert_eq!(world.daemon_pid(), daemon);

    start(&world.ada, "work", "exec sleep 600");
    world.kill_daemon();
    assert!(socket.exists(), "nothing was left to be in the way");
    assert_eq!(world.ada.wt_json(&["status"])["running"], false);
    assert_eq!(world.ada.wt_json(&["stop"])["stopped"], false);
    assert_eq!(world.ada.session("work").unwrap()["status"], "running");
    world.start_roost().ok();
    assert_eq!(world.ada.wt_json(&["status"])["running"], true);
}

#[test]
fn odd_paths_work_and_long_ones_are_refused_with_their_length() {
    let ada = Profile::new("ada");
    let at = |bytes: usize| {
        let base = format!("{}/ü b ", ada.scratch().display());
        format!("{base}{}", "x".repeat(bytes - base.len()))
    };

    for bytes in [60, 85, 90, 103, 104, 107, 108, 150] {
        let script = format!(
            r#"export WINGTHING_DIR='{}'
               "$WT" terminal --json --name work -- sleep 600 >/dev/null; echo "start: $?"
               "$WT" session ps --json
               "$WT" session kill work >/dev/null"#,
            at(bytes)
        );
        let run = run(&ada, &script);
        if run.out().contains("start: 0") {
            assert!(run.out().contains(r#""status":"running""#), "{run}");
            assert!(bytes < 100, "{run}");
        } else {
            assert!(bytes > 80, "{run}");
            assert!(run.err().contains("107"), "{run}");
            assert!(!std::path::Path::new(&at(bytes)).join("eggs").exists());
        }
    }
}

#[test]
fn a_roost_that_is_asked_to_end_ends_though_clients_are_busy_and_they_come_back() {
    let world = World::roost();
    world.admit_ben();
    start(&world.ada, "flood", "while :; do seq 1 1000; done");
    start(&world.ada, "idle", "echo here; exec cat");
    let attach = |name: &str| world.ben.terminal(&["attach", name, "--wing", LABEL]);
    let floods: Vec<_> = (0..2).map(|_| attach("flood")).collect();
    let idle = attach("idle");
    idle.wait_for("here");
    for flood in &floods {
        flood.wait_for("999");
    }
    // One that reads nothing.
    floods[0].pause();
    let daemon = world.daemon_pid();
    let work = pid(&world.ada.session("idle").unwrap());

    let asked = Instant::now();
    signal(daemon, Signal::SIGTERM);
    signal(daemon, Signal::SIGTERM);
    eventually("the daemon's end", || (!is_alive(daemon)).then_some(()));
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
    world.start_roost().ok();

    idle.line("still here");
    idle.wait_for("still here");
    assert_eq!(pid(&world.ada.session("idle").unwrap()), work);
    idle.detach();
    floods[0].resume();
    for flood in floods {
        flood.kill9();
    }
}

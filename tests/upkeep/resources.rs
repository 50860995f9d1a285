//! Time, memory, descriptors and disk: what is used while nothing happens, and what happens
//! when there is no more.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use wt_tests::process::{is_alive, parent};
use wt_tests::terminal::Size;
use wt_tests::world::LABEL;
use wt_tests::{Profile, Terminal, World, eventually};

use super::{in_a_container, run, start, wait_for};

/// Clock ticks in a second, sysconf(3) `_SC_CLK_TCK`: 100 on all of Linux.
const TICKS: u64 = 100;

/// Computing time of a process so far, in ticks.
fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = text.rsplit_once(')').unwrap().1;
    let times = fields.split_whitespace().skip(11).take(2);
    times.map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Insists that a process uses under this share of a core, in per cent.
#[track_caller]
fn assert_rests(what: &str, pid: u32, per_cent: u64) {
    const SECONDS: u64 = 3;
    let before = ticks(pid);
    std::thread::sleep(Duration::from_secs(SECONDS));
    let used = ticks(pid) - before;
    assert!(
        used <= SECONDS * TICKS * per_cent / 100,
        "{what} used {used} ticks in {SECONDS} s"
    );
}

/// A number of the status file of a process, in KiB or as it is.
fn status(pid: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Dead children that nobody waited for.
fn zombies_below(pid: u32) -> usize {
    let tasks = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_dead = |child: &&str| !is_alive(child.parse().unwrap());
    tasks.split_whitespace().filter(is_dead).count()
}

#[test]
fn nobody_spins_when_a_terminal_goes_away() {
    let ada = Profile::new("ada");
    // It lets go of its terminal and lives on.
    start(&ada, "deaf", "exec sleep 600 <&- >&- 2>&-");
    // Its terminal is held by a grandchild, which outlives it.
    start(&ada, "orphan", "trap '' HUP; sleep 600 & exit 0");
    start(&ada, "work", "echo here; exec sleep 600");
    // A window with a shell in it, and a client in that.
    let wt = wt_tests::process::program("wt");
    let argv = ["/bin/sh".as_ref()];
    let window = Terminal::spawn(&argv, &ada.environment(), &ada.work(), Size::new(80, 24));
    window.line(&format!("{} attach work", wt.display()));
    window.wait_for("here");
    let shell = window.pid();
    let clients = || {
        let all = ada.processes().into_iter();
        all.filter(|pid| parent(*pid) == Some(shell))
            .collect::<Vec<_>>()
    };
    let client = clients()[0];
    drop(window);

    eventually("the end of the client whose window was closed", || {
        (!is_alive(client)).then_some(())
    });
    assert_eq!(ada.session("work").unwrap()["clients"], 0);
    for name in ["deaf", "work"] {
        assert_rests(name, ada.supervisor(name), 2);
    }
    for left in ada.processes() {
        assert_rests("what is left", left, 2);
    }
}

#[test]
fn a_terminal_that_is_opened_late_or_again_is_still_the_sessions() {
    let ada = Profile::new("ada");
    let script = "t=$(tty); exec <&- >&- 2>&-; sleep 0.5; exec <$t >$t 2>&1; echo back; exec cat";
    start(&ada, "login", script);

    wait_for(&ada, "login", "back");

    assert_eq!(ada.session("login").unwrap()["status"], "running");
}

#[test]
fn a_long_life_leaves_a_session_as_small_as_it_was() {
    let ada = Profile::new("ada");
    start(
        &ada,
        "work",
        "echo up; while read n; do head -c $n /dev/zero | tr '\\0' x | fold -w 79; echo done-$n; done",
    );
    wait_for(&ada, "work", "up");
    let egg = ada.supervisor("work");
    let flood = |bytes: &str| {
        ada.wt(&["session", "send", "work", bytes, "--enter"]).ok();
        wait_for(&ada, "work", &format!("done-{bytes}"));
    };
    flood("2000001");
    let small = status(egg, "VmRSS:");
    flood("30000000");
    // The output that is kept has a few files of its own.
    let before = (descriptors(egg), status(egg, "Threads:"));

    for _ in 0..20 {
        let client = ada.terminal(&["attach", "work"]);
        client.wait_for("done-30000000");
        client.detach();
    }
    eventually("the clients to be forgotten", || {
        (descriptors(egg) <= before.0).then_some(())
    });

    let grown = status(egg, "VmRSS:").saturating_sub(small);
    assert!(grown < 64 << 10, "{grown} KiB more");
    eventually("the threads to be as many as they were", || {
        (status(egg, "Threads:") <= before.1 + 1).then_some(())
    });
}

#[test]
fn sessions_that_come_and_go_leave_nothing_in_the_daemon() {
    let world = World::roost();
    world.admit_ben();
    let daemon = world.daemon_pid();
    let round = |n: usize| {
        let name = format!("s{n}");
        let line = ["terminal", "--detach", "--name", &name, "--wing", LABEL];
        world.ben.wt_json(&[&line[..], &["--", "cat"]].concat());
        world
            .ben
            .wt(&["session", "kill", &name, "--wing", LABEL])
            .ok();
    };
    (0..3).for_each(round);
    let before = (descriptors(daemon), status(daemon, "VmRSS:"));

    (3..23).for_each(round);

    eventually("the daemon to hold no more than before", || {
        (descriptors(daemon) <= before.0 + 2 && zombies_below(daemon) == 0).then_some(())
    });
    let grown = status(daemon, "VmRSS:").saturating_sub(before.1);
    assert!(grown < 32 << 10, "{grown} KiB more");
    eventually("the daemon alone to be left", || {
        (world.ada.processes() == [daemon]).then_some(())
    });
}

#[test]
fn a_session_out_of_descriptors_rests_and_works_again() {
    let ada = Profile::new("ada");
    run(
        &ada,
        r#"ulimit -n 48; "$WT" terminal --json --name work -- sh -c 'echo here; exec cat'"#,
    )
    .ok();
    wait_for(&ada, "work", "here");
    let egg = ada.supervisor("work");
    let id = ada.session("work").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let socket = ada.dir().join("eggs").join(id).join("sock");

    let idle: Vec<_> = (0..200)
        .map_while(|_| {
            let one = UnixStream::connect(&socket).ok()?;
            one.set_nonblocking(true).ok()?;
            Some(one)
        })
        // A queue that is full blocks whoever comes next: this many are enough.
        .take(100)
        .collect();
    assert!(idle.len() > 48);
    assert_rests("the session", egg, 5);
    assert!(is_alive(egg));
    drop(idle);

    eventually("the session to answer", || {
        let run = ada.wt(&["session", "read", "work"]);
        (run.status == 0).then_some(())
    });
    ada.wt(&["session", "send", "work", "again", "--enter"])
        .ok();
    wait_for(&ada, "work", "again");
}

#[test]
fn a_roost_out_of_descriptors_rests_says_so_seldom_and_works_again() {
    let ada = Profile::new("ada");
    let port = wt_tests::process::free_port();
    run(
        &ada,
        &format!(r#"ulimit -n 64; "$WT" roost start --addr 127.0.0.1:{port}"#),
    )
    .ok();
    let daemon = ada.wt_json(&["status"])["daemon"]["pid"].as_u64().unwrap();
    let daemon = u32::try_from(daemon).unwrap();
    let log = ada.dir().join("wing.log");
    let lines = || fs::read_to_string(&log).unwrap().lines().count();
    let before = lines();

    let idle: Vec<TcpStream> = (0..200)
        .filter_map(|_| {
            let addr = format!("127.0.0.1:{port}").parse().unwrap();
            TcpStream::connect_timeout(&addr, Duration::from_millis(200)).ok()
        })
        .collect();
    assert!(idle.len() > 64);
    assert_rests("the roost", daemon, 5);
    assert!(lines() - before < 10, "{} lines more", lines() - before);
    drop(idle);

    eventually("the roost to answer", || {
        (ada.wt(&["wings"]).status == 0).then_some(())
    });
    assert_eq!(ada.wt_json(&["status"])["daemon"]["pid"], daemon);
}

#[test]
fn a_full_disk_stops_a_recording_with_a_note_and_not_its_session() {
    let ada = Profile::new("ada");
    let full = in_a_container(
        &ada,
        r#"mkdir -p "$WINGTHING_DIR"
           mount -t tmpfs -o size=4m,mode=700 tmpfs "$WINGTHING_DIR"
           "$WT" terminal --record --json --name tape -- /bin/sh -c \
               'echo first; while read n; do head -c $n /dev/urandom | od -An -tx1; echo "did $n"; done' >/dev/null
           "$WT" session wait tape --contains first >/dev/null
           dd if=/dev/zero of="$WINGTHING_DIR/fill" bs=4k 2>/dev/null
           "$WT" session send tape 1000000 --enter >/dev/null
           "$WT" session wait tape --contains 'did 1000000' --timeout 20s >/dev/null; echo "goes on: $?"
           sleep 1
           "$WT" session ps --json
           "$WT" session read tape | tail -1
           rm "$WINGTHING_DIR/fill"
           "$WT" session export tape | grep -c first
           "$WT" session kill tape >/dev/null"#,
    )
    .wait()
    .ok()
    .without_panic();

    let out = full.out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "goes on: 0", "{full}");
    let list: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    let tape = &list["sessions"][0];
    assert_eq!(tape["status"], "running");
    assert!(
        tape["notes"].to_string().contains("recording stopped"),
        "{tape}"
    );
    assert_eq!(lines.last(), Some(&"1"), "{full}");
}

//! A session outlives its clients, its relay and its wing, and forgets nothing.

use wt_tests::profile::Profile;
use wt_tests::terminal::{DETACH, PREFIX, Size};
use wt_tests::world::LABEL;
use wt_tests::{Terminal, World};

use super::{ben_attaches, ben_runs, pid_of};

/// Prints numbered lines for ever, and what is typed at it.
const COUNTER: &str = r#"stty -echo
(i=0; while :; do i=$((i+1)); echo "line $i"; sleep 0.02; done) &
while read -r typed; do echo "typed <$typed>"; done"#;

/// The numbers in the lines of a counter's output.
fn numbers(text: &str) -> Vec<u64> {
    text.split("line ")
        .skip(1)
        // The last line may be cut.
        .filter_map(|rest| rest.split_once(['\r', '\n', '\x1b']))
        .filter_map(|(number, _)| number.trim().parse().ok())
        .collect()
}

/// Insists that no number is missing, doubled or out of order.
#[track_caller]
fn assert_unbroken(what: &str, numbers: &[u64]) {
    assert!(!numbers.is_empty(), "{what}: there is not one line");
    for pair in numbers.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "{what}: a line is missing or doubled");
    }
}

/// Waits until a client shows a later line than it has, and returns the number.
#[track_caller]
fn wait_for_more(client: &Terminal) -> u64 {
    let mark = client.mark();
    client.wait_for_after(mark, "line ");
    let end = client.wait_for_after(client.mark(), "\n");
    let text = String::from_utf8_lossy(&client.output()[..end]).into_owned();
    numbers(&text).into_iter().max().unwrap_or(0)
}

/// Insists that all a counter ever printed is there, up to at least a number.
#[track_caller]
fn assert_nothing_lost(world: &World, up_to: u64) {
    let run = world
        .ben
        .wt(&["session", "read", "work", "--raw", "--wing", LABEL])
        .ok();
    let seen = numbers(&run.out());
    assert_unbroken("what the session printed", &seen);
    assert_eq!(seen[0], 1);
    assert!(seen[seen.len() - 1] >= up_to, "only {} lines", seen.len());
}

/// Ben has a counter on Ada's machine and is attached to it.
fn counting(world: &World) -> (Terminal, u32) {
    world.admit_ben();
    let client = ben_runs(world, "work", COUNTER);
    client.wait_for("line 5");
    let pid = pid_of(world, "work");
    (client, pid)
}

/// Insists that the session is the same one and whole, with a fresh client.
#[track_caller]
fn assert_survived(world: &World, pid: u32, seen: u64) {
    assert_eq!(pid_of(world, "work"), pid, "the program was started again");
    let client = ben_attaches(world, "work");
    let later = wt_tests::eventually("output after what was seen", || {
        let newest = numbers(&client.text()).into_iter().max()?;
        (newest > seen).then_some(newest)
    });
    client.line("hello");
    client.wait_for("typed <hello>");
    assert_nothing_lost(world, later);
    client.detach();
}

#[test]
fn a_session_is_left_and_gives_its_screen_back() {
    let world = World::roost();
    world.admit_ben();
    let client = ben_runs(
        &world,
        "work",
        r#"printf '\033[2J\033[H'; printf 'first\r\n\033[1mbold\033[0m\r\n\033[5;9Hhere'; read x"#,
    );
    // Not a word of the notes that a start may print.
    client.wait_for_screen("        here");
    let before = client.screen();

    client.detach();
    let again = ben_attaches(&world, "work");
    again.wait_for_screen("        here");

    assert_eq!(again.screen()[..6], before[..6]);
    again.detach();
}

#[test]
fn the_prefix_key_twice_is_typed_once() {
    let world = World::roost();
    world.admit_ben();
    let client = ben_runs(
        &world,
        "work",
        "stty raw -echo; printf GO; dd bs=1 count=3 2>/dev/null | od -An -tx1; read x",
    );
    client.wait_for("GO");

    client.send([b"a", PREFIX, PREFIX, b"z"].concat());

    client.wait_for("61 02 7a");
    client.detach();
}

#[test]
fn detach_leaves_the_outer_terminal_as_it_was() {
    let world = World::roost();
    let outer = Terminal::spawn(
        &["/bin/sh".as_ref()],
        &world.ada.environment(),
        &world.ada.work(),
        Size::new(100, 30),
    );
    let wt = wt_tests::process::program("wt");
    outer.line("echo before; stty -a | md5sum");
    outer.wait_for_screen("  -");
    outer.line(&format!(
        "{} terminal --name work -- /bin/sh -c \
         \"printf '\\033[?1049h\\033[?1000h\\033[?2004h\\033[?25lin''side'; read x\"",
        wt.display()
    ));
    outer.wait_for_screen("inside");

    outer.send(DETACH);
    outer.wait_for_screen("[detached from work]");
    outer.line("echo after; stty -a | md5sum");

    // What the outer screen showed before is in its scrollback.
    wt_tests::eventually("two equal sums", || {
        let text = outer.text();
        let sums: Vec<&str> = text
            .lines()
            .filter(|line| line.trim_end().ends_with("  -"))
            .collect();
        (sums.len() == 2 && sums[0].trim() == sums[1].trim()).then_some(())
    });
    assert!(!outer.is_on_alternate_screen());
    assert!(outer.text().contains("before"));
    let text = outer.text();
    let inside = text.rfind("inside").unwrap();
    for off in ["\x1b[?1000l", "\x1b[?2004l", "\x1b[?25h"] {
        assert!(text[inside..].contains(off), "{off:?} was not sent");
    }
}

#[test]
fn a_session_survives_the_death_of_its_client() {
    let world = World::roost();
    let (client, pid) = counting(&world);
    let seen = wait_for_more(&client);

    client.kill9();

    assert_survived(&world, pid, seen);
}

#[test]
fn a_session_survives_the_death_of_the_roost_and_its_client_goes_on() {
    let world = World::roost();
    let (client, pid) = counting(&world);

    world.kill_daemon();
    world.start_roost().ok();

    let seen = wait_for_more(&client);
    client.line("still here");
    client.wait_for("typed <still here>");
    assert_unbroken("what the client saw", &numbers(&client.text()));
    assert_survived(&world, pid, seen);
}

#[test]
fn a_session_survives_the_death_of_the_relay_and_its_client_goes_on() {
    let mut world = World::standalone();
    let (client, pid) = counting(&world);

    let relay = world.relay.as_mut().unwrap();
    relay.kill9();
    relay.restart();

    let seen = wait_for_more(&client);
    client.line("still here");
    client.wait_for("typed <still here>");
    assert_unbroken("what the client saw", &numbers(&client.text()));
    assert_survived(&world, pid, seen);
}

#[test]
fn a_session_survives_the_death_of_the_wing_and_its_client_goes_on() {
    let world = World::standalone();
    let (client, pid) = counting(&world);

    world.kill_daemon();
    world.start_wing().ok();

    let seen = wait_for_more(&client);
    client.line("still here");
    client.wait_for("typed <still here>");
    assert_unbroken("what the client saw", &numbers(&client.text()));
    assert_survived(&world, pid, seen);
}

#[test]
fn a_session_survives_the_death_of_client_relay_and_wing_at_once() {
    let mut world = World::standalone();
    let (client, pid) = counting(&world);
    let seen = wait_for_more(&client);
    let daemon = world.daemon_pid();

    client.kill9();
    world.relay.as_mut().unwrap().kill9();
    wt_tests::process::kill9(daemon);
    world.relay.as_mut().unwrap().restart();
    world.start_wing().ok();

    assert_survived(&world, pid, seen);
}

#[test]
fn the_exit_of_the_program_is_the_exit_of_the_client() {
    let ada = Profile::new("ada");
    let ends = |name: &str, script: &str| {
        ada.terminal(&["terminal", "--name", name, "--", "/bin/sh", "-c", script])
            .wait_exit()
    };

    assert_eq!(ends("seven", "exit 7"), 7);
    assert_eq!(ends("zero", "exit 0"), 0);
    assert_eq!(ends("killed", "kill -TERM $$"), 143);
    let record = ada.session("killed").unwrap();
    assert_eq!(record["status"], "killed");
    assert_eq!(record["exit"]["code"], 143);
    assert_eq!(record["exit"]["signal"], "SIGTERM");
    assert_eq!(ada.session("seven").unwrap()["exit"]["code"], 7);
}

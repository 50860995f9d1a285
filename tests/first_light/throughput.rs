//! Much output and much input: whole, and without harm to the other sessions of a wing.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use wt_tests::world::LABEL;
use wt_tests::{Terminal, World};

use super::{ben_attaches, ben_runs};

/// The lines of Ada's `wing.yaml` that keep all of a flood.
const WIDE_WINDOW: &str = "limits:\n  output_window: 268435456\n";

/// The last number of a flood: `seq 1` to it prints 204 MB.
const FLOOD: u64 = 24_000_000;

/// Longer than a flood takes on a machine that builds something else.
const FLOOD_TIME: Duration = Duration::from_secs(240);

/// What `seq` prints between two words of ours, each a line of its own.
fn flood_script(last: u64) -> String {
    // The words are put together by the shell, so that the command line does not hold them.
    format!(
        "stty raw -echo; read -r go; printf '<%s>' START; seq 1 {last}; printf '<%s>' END; read -r x"
    )
}

fn expected_flood(last: u64) -> Vec<u8> {
    let mut all = String::with_capacity(usize::try_from(last * 9).unwrap());
    for n in 1..=last {
        writeln!(all, "{n}").unwrap();
    }
    all.into_bytes()
}

#[test]
fn a_flood_arrives_byte_for_byte_though_the_relay_dies_in_the_middle() {
    let mut world = World::standalone_at(wt_tests::Relay::start(), WIDE_WINDOW);
    world.admit_ben();
    let client = ben_runs(&world, "flood", &flood_script(FLOOD));
    wait_until_attached(&world, "flood");

    client.send("go\n");
    client.wait_for_within(FLOOD_TIME, 0, "\n6000000\n");
    let relay = world.relay.as_mut().unwrap();
    relay.kill9();
    relay.restart();
    let end = client.wait_for_within(FLOOD_TIME, 0, "<END>");

    let start = client.wait_for("<START>");
    let expected = expected_flood(FLOOD);
    let end = end - "<END>".len();
    assert_eq!(end - start, expected.len(), "bytes are missing or doubled");
    assert_eq!(client.hash(start, end), digest(&SHA256, &expected).as_ref());
}

#[test]
fn another_session_answers_while_a_flood_runs_and_while_its_client_reads_nothing() {
    let world = World::roost_with(WIDE_WINDOW);
    world.admit_ben();
    let typist = ben_runs(&world, "typing", "stty raw -echo; printf GO; exec cat");
    typist.wait_for("GO");
    let quiet = median_echo(&typist);

    let flood = ben_runs(&world, "flood", &flood_script(FLOOD));
    wait_until_attached(&world, "flood");
    flood.send("go\n");
    flood.wait_for("\n100000\n");
    let flooded = median_echo(&typist);
    flood.pause();
    // The stalled client has taken all that its terminal and its windows hold.
    let held = flood.mark();
    let stalled = median_echo(&typist);
    assert!(flood.mark() <= held + 128 * 1024, "the client was read");

    eprintln!(
        "echo: quiet {quiet:?}, beside a flood {flooded:?} ({:.1} times), beside a stalled \
         client {stalled:?} ({:.1} times)",
        ratio(flooded, quiet),
        ratio(stalled, quiet)
    );
    flood.resume();
    flood.wait_for_within(FLOOD_TIME, 0, "<END>");
}

#[test]
fn a_paste_of_a_megabyte_arrives_byte_for_byte() {
    const SIZE: usize = 1_000_000;
    let world = World::roost();
    world.admit_ben();
    let client = ben_runs(
        &world,
        "paste",
        &format!("stty raw -echo; printf GO; head -c {SIZE} | sha256sum; read -r x"),
    );
    client.wait_for("GO");

    // Printable, because Ctrl+B is the client's own key, and never the same line twice.
    let paste: Vec<u8> = (0..)
        .flat_map(|n: u64| format!("{:016x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes())
        .take(SIZE)
        .collect();
    client.send(&paste);

    let hash: String = digest(&SHA256, &paste)
        .as_ref()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    client.wait_for(hash);
}

#[test]
fn a_client_that_comes_late_to_a_flood_sees_its_end() {
    let world = World::roost();
    world.admit_ben();
    world.ben.wt_json(&[
        "terminal",
        "--wing",
        LABEL,
        "--name",
        "flood",
        "--",
        "/bin/sh",
        "-c",
        "seq 1 1000000; echo '<EN''D>'; read -r x",
    ]);

    let late = ben_attaches(&world, "flood");

    // In the stream first: painting the screen anew for each piece of a flood takes minutes.
    late.wait_for("<END>");
    late.wait_for_screen("<END>");
    late.wait_for_screen("1000000");
    late.detach();
}

/// Waits until the session has a client, so that nothing of it is shown by a snapshot.
#[track_caller]
fn wait_until_attached(world: &World, name: &str) {
    wt_tests::eventually(&format!("{name} to have a client"), || {
        let record = world.ada.session(name)?;
        (record["clients"] == 1).then_some(())
    });
}

/// The middle of the times that single keys take to come back.
fn median_echo(typist: &Terminal) -> Duration {
    let mut times: Vec<Duration> = (0..21)
        .map(|n| {
            let mark = typist.mark();
            let key = [b'a' + n % 26];
            let start = Instant::now();
            typist.send(key);
            typist.wait_for_within(Duration::from_secs(10), mark, key);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

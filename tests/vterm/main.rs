//! The terminal model against xterm.js, the terminal that browsers run.
#![allow(clippy::unwrap_used)]

mod compare;
mod differences;
mod oracle;
mod streams;

use wt_egg::screen::{Model, ModelLimits, Screen, Size};

use self::differences::DIFFERENCES;
use self::compare::difference;
use self::oracle::{Oracle, Step};
use self::streams::{Random, stream};

/// Lines of history in the random cases: few, so that they are lost as well.
const FEW_LINES: usize = 12;

/// Random cases of one run.
const CASES: u64 = 400;

#[test]
fn a_snapshot_brings_xterm_where_the_whole_stream_does() {
    let Some(mut oracle) = oracle() else { return };
    let seed = seed();
    let cases = std::env::var("WT_VTERM_CASES").ok().and_then(|c| c.parse().ok()).unwrap_or(CASES);
    let mut failures = 0;
    for case in 0..cases {
        let mut random = Random::new(seed.wrapping_add(case));
        let size = Size {
            cols: 2 + random.below(13) as u16,
            rows: 2 + random.below(6) as u16,
        };
        let pieces = 1 + random.below(40);
        let full = (random.below(2) == 0).then_some(FEW_LINES + 8);
        let stream = stream(&mut random, pieces, full);
        let cut = random.below(stream.concat().len() + 1);
        if let Err(what) = check(&mut oracle, size, FEW_LINES, &stream.concat(), cut) {
            failures += 1;
            let (stream, cut) = shrink(&mut oracle, size, stream, cut);
            let what = check(&mut oracle, size, FEW_LINES, &stream, cut).err().unwrap_or(what);
            println!(
                "seed {} size {size:?}\n  {:?}\n  {:?}\n{what}",
                seed.wrapping_add(case),
                String::from_utf8_lossy(&stream[..cut]),
                String::from_utf8_lossy(&stream[cut..]),
            );
            if failures > 12 { break; }
        }
    }
    assert_eq!(failures, 0, "of {cases} cases");
}

#[test]
fn each_documented_difference_is_there() {
    let Some(mut oracle) = oracle() else { return };
    let size = Size { cols: 8, rows: 4 };
    for difference in DIFFERENCES {
        let stream = [difference.before, difference.after].concat();
        let checked = check(&mut oracle, size, 100, stream.as_bytes(), difference.before.len());
        if checked.is_ok() { println!("both agree on {}; {}", difference.name, difference.reason); }
    }
}

fn check(oracle: &mut Oracle, size: Size, scrollback: usize, stream: &[u8], cut: usize) -> Result<(), String> {
    let (before, after) = stream.split_at(cut);
    let mut model = Model::new(size, ModelLimits { scrollback_lines: scrollback });
    model.feed(before);
    let snapshot = model.snapshot(usize::MAX);
    let steps = |first: &[u8]| [Step::Feed(first.to_vec()), Step::State, Step::Feed(after.to_vec()), Step::State];
    let mut whole = oracle.states(size, scrollback, &steps(before)).unwrap();
    let mut restored = oracle.states(size, scrollback, &steps(&snapshot)).unwrap();
    // A snapshot asks nothing and calls nobody; what the program did before it is past.
    if restored[0]["replies"] != "" || restored[0]["bells"] != 0 { return Err("noisy snapshot".into()); }
    for state in whole.iter_mut().chain(&mut restored) { compare::without_joins(state); }
    whole[0]["replies"] = "".into();
    whole[0]["bells"] = 0.into();
    if let Some(what) = difference(&whole[0], &restored[0]) {
        return Err(format!("at the cut, {what}\nsnapshot {:?}", String::from_utf8_lossy(&snapshot)));
    }
    match difference(&whole[1], &restored[1]) {
        Some(what) => Err(format!("after it, {what}\nsnapshot {:?}", String::from_utf8_lossy(&snapshot))),
        None => Ok(()),
    }
}

/// Leaves out pieces as long as the states still differ.
fn shrink(oracle: &mut Oracle, size: Size, mut pieces: Vec<Vec<u8>>, mut cut: usize) -> (Vec<u8>, usize) {
    // The first piece may be what fills the scrollback.
    let mut index = 1;
    while index < pieces.len() {
        let start: usize = pieces[..index].iter().map(Vec::len).sum();
        let mut fewer = pieces.clone();
        let len = fewer.remove(index).len();
        let moved = if cut <= start { cut } else { start.max(cut.saturating_sub(len)) };
        if check(oracle, size, FEW_LINES, &fewer.concat(), moved).is_err() {
            (pieces, cut, index) = (fewer, moved, 1);
        } else {
            index += 1;
        }
    }
    (pieces.concat(), cut)
}

fn oracle() -> Option<Oracle> {
    match Oracle::start().unwrap() {
        Ok(oracle) => Some(oracle),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

fn seed() -> u64 {
    let seed = std::env::var("WT_VTERM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    seed
}

//! The terminal model against xterm.js, the terminal that browsers run.
//!
//! A reattach replaces the stream so far by a snapshot. Here one xterm.js is fed the stream
//! and another one the snapshot, wherever the stream is cut; then both must be in the same
//! state, and stay so while the rest of the stream and a change of size arrive. State is
//! everything that a program can see or set: both screens cell by cell, the scrollback,
//! cursors, pens, margins, tab stops, character sets, modes, title, colours and answers.
//! Where the model means to differ stands in [`differences`].
//!
//! Random streams come from a seed, which is printed: `WT_VTERM_SEED=n` repeats one and
//! `WT_VTERM_CASES=n` makes the run longer.
#![allow(clippy::unwrap_used)]

mod compare;
mod differences;
mod oracle;
mod streams;
mod widths;

use std::path::Path;

use serde_json::Value;
use wt_egg::screen::{Model, ModelLimits, Screen, Size};

use self::compare::{difference, without_joins, without_saved_row};
use self::differences::DIFFERENCES;
use self::oracle::{Oracle, Step};
use self::streams::{Random, stream};

/// Lines of history in the random cases: few, so that they are lost as well.
const FEW_LINES: usize = 12;

/// Random cases of one run; a few seconds.
const CASES: u64 = 400;

/// Cuts of one recording, beside its end.
const CUTS: usize = 25;

/// What real programs wrote to a terminal of that size while somebody typed: editing, paging,
/// panes and history search, and pictures, links and scripts printed by `printf`.
const RECORDINGS: &[(&str, Size)] = &[
    ("bash", Size { cols: 60, rows: 15 }),
    ("graphics", Size { cols: 50, rows: 10 }),
    ("less", Size { cols: 70, rows: 20 }),
    ("tmux", Size { cols: 80, rows: 24 }),
    ("top", Size { cols: 90, rows: 24 }),
    ("unicode", Size { cols: 40, rows: 12 }),
    ("vim", Size { cols: 80, rows: 24 }),
    ("vim_quit", Size { cols: 60, rows: 20 }),
];

#[test]
fn a_snapshot_brings_xterm_where_a_random_stream_does() {
    let Some(mut oracle) = oracle("random streams") else {
        return;
    };
    let (seed, cases) = (number("WT_VTERM_SEED", 1), number("WT_VTERM_CASES", CASES));
    println!("seed {seed}");

    for seed in seed..seed.saturating_add(cases) {
        let mut random = Random::new(seed);
        let size = Size {
            cols: 2 + random.below(13) as u16,
            rows: 2 + random.below(6) as u16,
        };
        let full = (random.below(2) == 0).then_some(FEW_LINES + usize::from(size.rows));
        let count = 1 + random.below(40);
        let pieces = stream(&mut random, count, full);
        let cut = random.below(pieces.concat().len() + 1);

        let mut check = |pieces: &[Vec<u8>], cut: usize| {
            let stream = pieces.concat();
            Case::new(size, FEW_LINES, &stream, cut).run(&mut oracle)
        };
        if check(&pieces, cut).is_err() {
            let (pieces, cut) = shrink(pieces, cut, |pieces, cut| check(pieces, cut).is_err());
            let stream = pieces.concat();
            let (before, after) = stream.split_at(cut);
            panic!(
                "seed {seed}, {size:?}\nbefore {:?}\nafter {:?}\n{}",
                String::from_utf8_lossy(before),
                String::from_utf8_lossy(after),
                check(&pieces, cut).unwrap_err(),
            );
        }
    }
}

#[test]
fn a_snapshot_brings_xterm_where_a_recorded_program_does() {
    let Some(mut oracle) = oracle("recorded programs") else {
        return;
    };
    let mut random = Random::new(7);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vterm/recordings");

    for &(name, size) in RECORDINGS {
        let stream = std::fs::read(folder.join(name).with_extension("bin")).unwrap();
        let cuts = (0..CUTS).map(|_| random.below(stream.len()));
        for cut in cuts.chain([stream.len()]) {
            let case = Case {
                recorded: true,
                resize: Some(Size {
                    cols: size.cols,
                    rows: size.rows - 5,
                }),
                ..Case::new(size, 2_000, &stream, cut)
            };
            if let Err(what) = case.run(&mut oracle) {
                panic!("{name} cut at {cut}: {what}");
            }
        }
    }
}

#[test]
fn each_documented_difference_is_there() {
    let Some(mut oracle) = oracle("documented differences") else {
        return;
    };
    let size = Size { cols: 8, rows: 4 };

    for difference in DIFFERENCES {
        let stream = [difference.before, difference.after].concat();
        let case = Case::new(size, 100, stream.as_bytes(), difference.before.len());
        assert!(
            case.run(&mut oracle).is_err(),
            "both agree on {}; the list says: {}",
            difference.name,
            difference.reason
        );
    }
}

/// One stream, cut once.
struct Case<'a> {
    size: Size,
    scrollback: usize,
    before: &'a [u8],
    after: &'a [u8],
    /// Another size that the terminals get at the end.
    resize: Option<Size>,
    /// Whether a program wrote it.
    ///
    /// Only there it counts which rows go on from the row above. In the random streams rows
    /// that wrapped are pulled apart by deletions, margins and overwriting, where xterm.js
    /// keeps the mark with the row below and the model with the row above, and neither means
    /// anything. And only there a row saved on the primary screen does not count: programs
    /// let the screen scroll after it, which is one of the differences.
    recorded: bool,
}

impl<'a> Case<'a> {
    fn new(size: Size, scrollback: usize, stream: &'a [u8], cut: usize) -> Self {
        let (before, after) = stream.split_at(cut);
        Self {
            size,
            scrollback,
            before,
            after,
            resize: None,
            recorded: false,
        }
    }

    /// Compares both terminals at the cut and at the end.
    fn run(&self, oracle: &mut Oracle) -> Result<(), String> {
        let limits = ModelLimits {
            scrollback_lines: self.scrollback,
        };
        let mut model = Model::new(self.size, limits);
        model.feed(self.before);
        let snapshot = model.snapshot(usize::MAX);
        let mut whole = self.states(oracle, self.before);
        let restored = self.states(oracle, &snapshot);

        // What the program asked before the cut was answered then. A snapshot asks nothing
        // and calls nobody.
        whole[0]["replies"] = "".into();
        whole[0]["bells"] = 0.into();
        let places = ["at the cut", "at the end", "after the resize"];
        for (place, (whole, restored)) in places.iter().zip(whole.iter().zip(&restored)) {
            if let Some(what) = difference(whole, restored) {
                let snapshot = String::from_utf8_lossy(&snapshot);
                return Err(format!("{place}, {what}\nsnapshot {snapshot:?}"));
            }
        }
        Ok(())
    }

    /// The states at the cut and after it, where `first` leads to the cut.
    fn states(&self, oracle: &mut Oracle, first: &[u8]) -> Vec<Value> {
        let mut steps = vec![
            Step::Feed(first.to_vec()),
            Step::State,
            Step::Feed(self.after.to_vec()),
            Step::State,
        ];
        if let Some(size) = self.resize {
            steps.extend([Step::Resize(size), Step::State]);
        }
        let mut states = oracle.states(self.size, self.scrollback, &steps).unwrap();
        states.iter_mut().for_each(if self.recorded {
            without_saved_row
        } else {
            without_joins
        });
        states
    }
}

/// Leaves out pieces as long as the case still fails. The first one stays, for it may be
/// what fills the scrollback.
fn shrink(
    mut pieces: Vec<Vec<u8>>,
    mut cut: usize,
    mut fails: impl FnMut(&[Vec<u8>], usize) -> bool,
) -> (Vec<Vec<u8>>, usize) {
    let mut index = 1;
    while index < pieces.len() {
        let start: usize = pieces[..index].iter().map(Vec::len).sum();
        let mut fewer = pieces.clone();
        let len = fewer.remove(index).len();
        let moved = if cut <= start {
            cut
        } else {
            start.max(cut.saturating_sub(len))
        };
        if fails(&fewer, moved) {
            (pieces, cut, index) = (fewer, moved, 1);
        } else {
            index += 1;
        }
    }
    (pieces, cut)
}

/// The other terminal, or a named skip. `tests/run` counts the line as one.
fn oracle(what: &str) -> Option<Oracle> {
    match Oracle::start().unwrap() {
        Ok(oracle) => Some(oracle),
        Err(why) => {
            println!("skipped: vterm, {what} against xterm.js: {why}");
            None
        }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |value| value.parse().unwrap())
}

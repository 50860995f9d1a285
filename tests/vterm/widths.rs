//! A change of width wraps lines anew where xterm.js does.
//!
//! Compared are the lines as the program wrote them, the rows in which they stand, and the
//! cursor. Streams are text with a prompt behind it, as a shell leaves it; what only rows of
//! full-screen programs can show (marks that were pulled apart, cells without characters in
//! the middle of a line) stays out, for there both ends may choose.

use serde_json::Value;
use wt_egg::screen::{Model, ModelLimits, Screen, Size};

use super::oracle::Step;
use super::streams::Random;
use super::{number, oracle};

/// Random cases of one run.
const CASES: u64 = 200;

/// Changes of size in one case.
const CHANGES: usize = 4;

/// What can be seen of a terminal.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Rows, oldest first, and whether each goes on from the one above.
    rows: Vec<(String, bool)>,
    /// Index of the first row that shows.
    first: usize,
    /// Row among those that show, and column.
    cursor: (usize, usize),
}

#[test]
fn lines_wrap_anew_where_xterm_wraps_them_and_the_cursor_stays_at_its_character() {
    let Some(mut oracle) = oracle("changes of width") else {
        return;
    };
    let (seed, cases) = (number("WT_VTERM_SEED", 1), number("WT_VTERM_CASES", CASES));
    println!("seed {seed}");

    for seed in seed..seed.saturating_add(cases) {
        let mut random = Random::new(seed);
        let mut size = || Size {
            cols: 4 + random.below(30) as u16,
            rows: 4 + random.below(10) as u16,
        };
        let sizes: Vec<Size> = (0..=CHANGES).map(|_| size()).collect();
        let text = text(&mut random);
        let mut model = Model::new(sizes[0], ModelLimits::default());
        model.feed(text.as_bytes());
        let mut steps = vec![Step::Feed(text.clone().into_bytes())];
        let mut ours = Vec::new();
        for &size in &sizes[1..] {
            model.resize(size);
            ours.push(seen_here(&model));
            steps.extend([Step::Resize(size), Step::State]);
        }

        let theirs = oracle.states(sizes[0], 2_000, &steps).unwrap();

        for (n, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let size = sizes[n + 1];
            let theirs = seen_there(theirs, size);
            assert_eq!(
                ours,
                &theirs,
                "seed {seed}, {text:?}, sizes {:?}",
                &sizes[..=n + 1]
            );
        }
    }
}

/// Lines of all lengths and a prompt.
fn text(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(25) {
        for _ in 0..random.below(70) {
            text.push(match random.below(12) {
                0 => '\u{6f22}',
                1 => '\u{e9}',
                n => (b'a' + n as u8) as char,
            });
        }
        text.push_str("\r\n");
    }
    text.push_str("$ ");
    text
}

fn seen_here(model: &Model) -> Seen {
    let text = model.text(usize::MAX);
    let mut goes_on = false;
    let rows = text.lines.iter().map(|line| {
        let row = (line.text.trim_end().to_owned(), goes_on);
        goes_on = line.wrapped;
        row
    });
    Seen {
        rows: rows.collect(),
        first: text.first_visible,
        cursor: (text.cursor.row.into(), text.cursor.col.into()),
    }
}

fn seen_there(state: &Value, size: Size) -> Seen {
    let lines = state["normal"]["lines"].as_array().unwrap();
    let rows: Vec<(String, bool)> = lines
        .iter()
        .map(|line| {
            let text = line["text"].as_str().unwrap().to_owned();
            (text, line["wrapped"].as_bool().unwrap())
        })
        .collect();
    let number = |name: &str| state["cursor"][name].as_u64().unwrap() as usize;
    Seen {
        first: rows.len() - usize::from(size.rows),
        rows,
        cursor: (number("y"), number("x").min(usize::from(size.cols) - 1)),
    }
}

//! How fast the terminal model takes output in, measured against the bare `vte` parser in
//! the same run, and what snapshots and memory cost.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use alacritty_terminal::vte;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wt_egg::screen::{Model, ModelLimits, Screen, Size};

/// Bytes of each corpus.
const CORPUS: usize = 4 * 1024 * 1024;

/// Size of the terminal.
const SIZE: Size = Size {
    cols: 100,
    rows: 40,
};

/// A performer that counts, so that parsing is not optimised away.
#[derive(Default)]
struct Counter(u64);

impl vte::Perform for Counter {
    fn print(&mut self, c: char) {
        self.0 = self.0.wrapping_add(c.into());
    }

    fn execute(&mut self, byte: u8) {
        self.0 = self.0.wrapping_add(byte.into());
    }

    fn csi_dispatch(&mut self, params: &vte::Params, _: &[u8], _: bool, _: char) {
        self.0 = self.0.wrapping_add(params.len() as u64);
    }
}

/// Output to feed, repeated to the length of a corpus.
fn corpora() -> Vec<(&'static str, Vec<u8>)> {
    [
        ("plain", plain()),
        ("short lines", short_lines()),
        ("log", log()),
        ("unicode", unicode()),
        ("vim", vim()),
        ("top", top()),
        ("tmux", tmux()),
    ]
    .into_iter()
    .map(|(name, piece)| (name, piece.repeat(CORPUS / piece.len() + 1).into_bytes()))
    .collect()
}

/// Source code on the screen, as `cat` prints it.
fn plain() -> String {
    (0..200).fold(String::new(), |mut text, n| {
        let indent = " ".repeat(n % 5 * 4);
        let _ = write!(
            text,
            "{indent}let value_{n} = compute(&input[{n}], Mode::Fast)?;\r\n"
        );
        text
    })
}

/// Lines of one character, as `yes` prints them: all line feeds and hardly any text.
fn short_lines() -> String {
    "y\r\n".repeat(1000)
}

/// A log with colours, as builds and services print it.
fn log() -> String {
    (0..200).fold(String::new(), |mut text, n| {
        let _ = write!(
            text,
            "\x1b[2m2026-03-01T12:00:{:02}.123Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mservice::http\x1b[0m: \
             request \x1b[3mmethod\x1b[0m\x1b[2m=\x1b[0mGET \x1b[3mstatus\x1b[0m\x1b[2m=\x1b[0m200 took {n} ms\r\n",
            n % 60,
        );
        text
    })
}

/// Text beyond ASCII: accents, wide characters, emoji.
fn unicode() -> String {
    "Größe und Übermaß, naïve café — \u{6f22}\u{5b57}\u{304b}\u{306a} \u{1f600} e\u{301}\r\n"
        .repeat(50)
}

/// A highlighted page painted by an editor.
fn vim() -> String {
    (1..=40).fold("\x1b[?25l\x1b[H".to_owned(), |mut text, row| {
        let _ = write!(
            text,
            "\x1b[{row};1H\x1b[33m{row:4} \x1b[m\x1b[32mfn\x1b[m \x1b[36mname_{row}\x1b[m(\x1b[38;5;208margument\x1b[m: \
             \x1b[1;34mu32\x1b[22;39m) -> \x1b[34mResult\x1b[m {{\x1b[K",
        );
        text
    }) + "\x1b[?25h"
}

/// A process table painted in place.
fn top() -> String {
    (7..=40).fold("\x1b[H\x1b[mtop - 12:00:00 up 3 days\x1b[K".to_owned(), |mut text, row| {
        let _ = write!(
            text,
            "\r\n\x1b(B\x1b[m{:7} root      20   0  123456  {:6}   4096 S   {}.3   0.1   0:12.{row} process-{row}\x1b[K",
            row * 113,
            row * 977,
            row % 9,
        );
        text
    })
}

/// Two panes: margins, moves and short pieces of text.
fn tmux() -> String {
    (1..=40).fold(String::new(), |mut text, row| {
        let _ = write!(
            text,
            "\x1b[1;39r\x1b[{row};1Hleft pane row {row}\x1b[{row};50H\x1b[32m\u{2502}\x1b[39mright {row}\x1b[K\x1b[39;1H\n\
             \x1b[1;40r\x1b[40;1H\x1b[30;42m[0] 0:bash* \x1b[m",
        );
        text
    })
}

fn feed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("feed");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    for (name, corpus) in corpora() {
        group.throughput(Throughput::Bytes(corpus.len() as u64));
        group.bench_with_input(
            BenchmarkId::new("model", name),
            &corpus,
            |bencher, corpus| {
                let mut model = Model::new(SIZE, ModelLimits::default());
                bencher.iter(|| {
                    // As they come from a PTY.
                    corpus.chunks(4096).for_each(|chunk| model.feed(chunk));
                });
            },
        );
        group.bench_with_input(BenchmarkId::new("vte", name), &corpus, |bencher, corpus| {
            bencher.iter(|| {
                let (mut parser, mut counter) = (vte::Parser::new(), Counter::default());
                corpus
                    .chunks(4096)
                    .for_each(|chunk| parser.advance(&mut counter, chunk));
                black_box(counter.0)
            });
        });
    }
    group.finish();
}

fn snapshot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    for (name, corpus) in corpora() {
        let mut model = Model::new(SIZE, ModelLimits::default());
        model.feed(&corpus);
        let id = BenchmarkId::new(name, format!("{} bytes", model.snapshot(usize::MAX).len()));
        group.bench_function(id, |bencher| {
            bencher.iter(|| black_box(model.snapshot(usize::MAX)));
        });
    }
    group.finish();
}

/// Prints what one terminal of 200 columns with a full scrollback takes. It is no time and
/// so no benchmark of the library's, but belongs to the same report.
fn memory(_: &mut Criterion) {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<usize>().ok());
        pages.unwrap_or(0) * 4096
    };
    let size = Size {
        cols: 200,
        rows: 50,
    };
    let corpus = log().repeat(15);
    let before = resident();
    let models: Vec<Model> = (0..8)
        .map(|_| {
            let mut model = Model::new(size, ModelLimits::default());
            model.feed(corpus.as_bytes());
            model
        })
        .collect();
    let each = resident().saturating_sub(before) / models.len();
    println!(
        "memory/200 columns, 2000 lines of scrollback: {} KiB each",
        each / 1024
    );
    black_box(models);
}

criterion_group!(benches, feed, snapshot, memory);
criterion_main!(benches);

//! The terminal model of a session against the bare parser below such models, `vte`, and the
//! memory that a model takes.
//!
//! Each stream has a process of its own, so that what one leaves behind is not counted for
//! the next, and everything is measured in that process's CPU time.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Stdio;
use std::time::Duration;

use alacritty_terminal::vte;
use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::timeout;
use wt_egg::screen::{Model, ModelLimits, Screen, Size};

use crate::machine::rss;
use crate::progress;
use crate::pty::{COLS, ROWS};
use crate::report::Series;
use crate::roles;

/// Size of the terminal.
const SIZE: Size = Size {
    cols: COLS,
    rows: ROWS,
};

/// Bytes fed at once: what one read of a terminal gives.
const CHUNK: usize = 4096;

/// Least length of the piece that is repeated: beyond the caches of a core.
const PIECE: usize = 4_000_000;

/// How long one stream may take: 10 GB at 5 MB/s, and some room.
const FEED_DEADLINE: Duration = Duration::from_secs(2400);

/// What is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Corpus {
    /// Source code, as `cat` prints it
    Plain,
    /// A log with colours
    Log,
    /// A highlighted page painted again and again by an editor
    Vim,
    /// Text with wide characters and emoji
    Cjk,
    /// Lines of one letter, as `yes` prints them
    Short,
}

impl Corpus {
    fn name(self) -> &'static str {
        match self {
            Corpus::Plain => "plain",
            Corpus::Log => "log",
            Corpus::Vim => "vim",
            Corpus::Cjk => "cjk",
            Corpus::Short => "short",
        }
    }

    /// Some of it, which may stand behind itself.
    fn piece(self) -> String {
        match self {
            Corpus::Plain => plain(),
            Corpus::Log => log(),
            Corpus::Vim => vim(),
            Corpus::Cjk => cjk(),
            Corpus::Short => "y\r\n".to_owned(),
        }
    }
}

/// What one stream cost.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fed {
    /// Bytes for each CPU second, in MB/s.
    model: f64,
    /// The same with the bare parser.
    vte: f64,
    /// What the resident set grew by, in MiB.
    memory: f64,
}

/// Measures; gives MB for each CPU second, and MiB.
pub(crate) async fn run(rounds: u32, bytes: u64) -> Result<Series> {
    let mut series = Series::default();
    for round in 0..rounds {
        for corpus in Corpus::value_variants() {
            let name = corpus.name();
            progress(&format!("screen {}/{rounds}: {name}", round + 1));
            let fed = feed_apart(*corpus, bytes)
                .await
                .with_context(|| name.to_owned())?;
            series.enter(format!("{name}.model"), "MB/s", fed.model);
            series.enter(format!("{name}.vte"), "MB/s", fed.vte);
            series.enter(format!("{name}.memory"), "MiB", fed.memory);
        }
    }
    for corpus in Corpus::value_variants() {
        let name = corpus.name();
        series.ratio(
            &format!("{name}: model / vte"),
            &format!("{name}.model"),
            &format!("{name}.vte"),
        );
    }
    series.note(format!(
        "streams of {} MB on a terminal of {COLS} x {ROWS}",
        bytes as f64 / 1e6
    ));
    Ok(series)
}

async fn feed_apart(corpus: Corpus, bytes: u64) -> Result<Fed> {
    let child = Command::new(std::env::current_exe()?)
        .arg(roles::MODEL)
        .arg(OsStr::new(corpus.name()))
        .arg(bytes.to_string())
        // Open until it has answered; its end would end the process.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a process for a model")?;
    let output = timeout(FEED_DEADLINE, finish(child))
        .await
        .with_context(|| format!("not done within {FEED_DEADLINE:?}"))??;
    ensure!(output.status.success(), "the process of the model failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Waits for a process and keeps its standard input open meanwhile.
async fn finish(mut child: tokio::process::Child) -> Result<std::process::Output> {
    let held = child.stdin.take();
    let output = child.wait_with_output().await;
    drop(held);
    Ok(output?)
}

/// Feeds a stream to the bare parser and to a model, in this process.
pub(crate) fn feed(corpus: Corpus, bytes: u64) -> Result<Fed> {
    let piece = corpus.piece();
    let text = piece.repeat(PIECE.div_ceil(piece.len())).into_bytes();
    let resident = || rss(std::process::id()).context("the memory cannot be read");
    // Once before the clock starts, so that pages and caches are the same for both.
    let mut counter = Counter::default();
    pour(&text, CHUNK as u64, |chunk| {
        vte::Parser::new().advance(&mut counter, chunk);
    })?;

    let mut parser = vte::Parser::new();
    let vte = pour(&text, bytes, |chunk| parser.advance(&mut counter, chunk))?;
    black_box(counter.0);
    let before = resident()?;
    let mut model = Model::new(SIZE, ModelLimits::default());
    let rate = pour(&text, bytes, |chunk| model.feed(chunk))?;
    let memory = resident()? - before;
    black_box(model.text(0));
    Ok(Fed {
        model: rate,
        vte,
        memory,
    })
}

/// Gives the text again and again until so many bytes went; tells the rate in MB/s.
fn pour(text: &[u8], bytes: u64, mut take: impl FnMut(&[u8])) -> Result<f64> {
    let start = cpu_time()?;
    let mut left = bytes;
    while left > 0 {
        for chunk in text.chunks(CHUNK) {
            let n = left.min(chunk.len() as u64) as usize;
            take(&chunk[..n]);
            left -= n as u64;
        }
    }
    let used = (cpu_time()? - start).as_secs_f64();
    ensure!(used > 0.0, "{bytes} bytes are too few for the clock");
    Ok(bytes as f64 / 1e6 / used)
}

fn cpu_time() -> Result<Duration> {
    let now = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_err(|e| anyhow!("the CPU's clock cannot be read: {e}"))?;
    Ok(now.into())
}

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

fn plain() -> String {
    (0..1000).fold(String::new(), |mut text, n| {
        let indent = " ".repeat(n % 5 * 4);
        let _ = write!(
            text,
            "{indent}let value_{n} = compute(&input[{n}], Mode::Fast)?; // step {n} of many\r\n"
        );
        text
    })
}

fn log() -> String {
    (0..1000).fold(String::new(), |mut text, n| {
        let (level, colour) = [("INFO", 32), ("WARN", 33), ("DEBUG", 34)][n % 3];
        let _ = write!(
            text,
            "\x1b[2m2026-03-01T12:00:{:02}.123Z\x1b[0m \x1b[{colour}m{level:>5}\x1b[0m \
             \x1b[1mservice::http\x1b[0m: request \x1b[3mstatus\x1b[0m\x1b[2m=\x1b[0m200 took \
             \x1b[38;5;{}m{n} ms\x1b[0m\r\n",
            n % 60,
            n % 256,
        );
        text
    })
}

/// Two pages, so that a repaint changes what is there.
fn vim() -> String {
    (0..2).fold(String::new(), |mut text, page| {
        text.push_str("\x1b[?25l\x1b[H");
        for row in 1..ROWS {
            let line = page * 100 + row;
            let _ = write!(
                text,
                "\x1b[{row};1H\x1b[33m{line:4} \x1b[m\x1b[32mfn\x1b[m \x1b[36mname_{line}\x1b[m(\
                 \x1b[38;5;208margument\x1b[m: \x1b[1;34mu32\x1b[22;39m) -> \
                 \x1b[34mResult\x1b[m {{\x1b[K",
            );
        }
        let _ = write!(
            text,
            "\x1b[{ROWS};1H\x1b[7m NORMAL \x1b[27m main.rs\x1b[K\x1b[{ROWS};100H{page},1\x1b[{};6H\x1b[?25h",
            10 + page,
        );
        text
    })
}

fn cjk() -> String {
    (0..200).fold(String::new(), |mut text, n| {
        let _ = write!(
            text,
            "{n} \u{6f22}\u{5b57}\u{3068}\u{304b}\u{306a}\u{6df7}\u{3058}\u{308a} \
             \u{d55c}\u{ad6d}\u{c5b4} \u{1f600}\u{1f680} \
             \u{1f469}\u{200d}\u{1f4bb} \u{4e2d}\u{6587}\u{7d42}\u{7aef} caf\u{e9} e\u{301}\r\n"
        );
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_is_taken_by_parser_and_model() {
        for corpus in Corpus::value_variants() {
            let fed = feed(*corpus, 50_000).unwrap();

            assert!(fed.model > 0.0 && fed.vte > 0.0, "{corpus:?}");
            let value = corpus.to_possible_value().unwrap();
            assert_eq!(value.get_name(), corpus.name());
        }
    }

    #[test]
    fn as_many_bytes_go_as_were_asked_for() {
        for bytes in [1, 4096, 10_001] {
            let mut taken = 0;
            pour(&[b'a'; 5000], bytes, |chunk| taken += chunk.len() as u64).unwrap();

            assert_eq!(taken, bytes);
        }
    }
}

//! Sessions of one machine as `wt` makes them: what idle ones cost, how long a list takes
//! when some of them do not answer, and what a flood does to one that nobody looks at.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use wt_egg::Meta;

use super::Sizes;
use crate::home::{Home, answer};
use crate::machine::{is_stopped, peak_rss, pss, rss, ticks};
use crate::programs::{DONE, GO, POURED, Stream};
use crate::progress;
use crate::pty::Terminal;
use crate::report::Series;
use crate::roles;

/// Sessions that are stopped while the list is made.
const FROZEN: usize = 3;

/// Sessions started at the same time: enough to keep a few cores busy.
const STARTED_AT_ONCE: usize = 4;

/// How long a session must compute nothing to count as settled, and how long that may take.
const SETTLED: Duration = Duration::from_secs(1);
const SETTLE_DEADLINE: Duration = Duration::from_secs(20);

/// How long a flood may take: 10 GB at 5 MB/s, and some room.
const FLOOD_DEADLINE: Duration = Duration::from_secs(2400);

/// How often files and processes are looked at: a thousandth of the shortest flood that counts.
const POLL: Duration = Duration::from_millis(5);

/// What an idle session runs; far longer than any run.
const SLEEP: [&str; 2] = ["sleep", "100000"];

/// Measures; gives MiB, clock ticks and seconds.
pub(crate) async fn run(home: &Home, rounds: u32, sizes: &Sizes) -> Result<Series> {
    let mut series = Series::default();
    for _ in 0..rounds {
        let empty = list(home).await?;
        ensure!(empty.total == 0, "the home is not empty");
        series.enter("ps.empty", "ms", empty.millis);

        let mut sessions = start(home, 0..sizes.idle).await?;
        idle(&sessions, sizes, &mut series).await?;
        sessions.extend(start(home, sizes.idle..sizes.listed.max(sizes.idle)).await?);
        listing(home, &sessions, &mut series).await?;
        progress("sessions: ending them");
        home.end_sessions().await?;

        for stream in Stream::value_variants().iter().copied() {
            flood(home, stream, sizes.flood, &mut series)
                .await
                .with_context(|| format!("the flood {}", stream.name()))?;
        }
        // The list of the next round begins with nothing as well.
        for session in home.profile().sessions().list().await.into_iter().flatten() {
            home.run_wt(&["session", "rm", &session.id]).await?;
        }
    }
    series.ratio("idle.pss / its program's", "idle.pss", "idle.program.pss");
    series.ratio("ps, all / empty", "ps.living", "ps.empty");
    series.ratio("ps, with frozen / living", "ps.frozen", "ps.living");
    for stream in Stream::value_variants() {
        let name = stream.name();
        series.ratio(
            &format!("flood.{name} / bare terminal"),
            &format!("flood.{name}.rate"),
            &format!("bare.{name}.rate"),
        );
    }
    series.note(format!(
        "{} idle sessions watched for {:?}; {} listed, {FROZEN} of them stopped; floods of {} MB",
        sizes.idle,
        sizes.idle_seconds,
        sizes.listed.max(sizes.idle),
        sizes.flood / 1_000_000,
    ));
    Ok(series)
}

async fn start(home: &Home, numbers: std::ops::Range<usize>) -> Result<Vec<Meta>> {
    let last = numbers.end;
    let numbers: Vec<usize> = numbers.collect();
    let mut sessions = Vec::new();
    for some in numbers.chunks(STARTED_AT_ONCE) {
        progress(&format!("sessions: starting {} of {last}", sessions.len()));
        let starting: Vec<_> = some
            .iter()
            .map(|n| home.start_session(&format!("idle-{n}"), &SLEEP.map(OsStr::new)))
            .collect::<Result<_>>()?;
        for session in starting {
            sessions.push(session.await??);
        }
    }
    Ok(sessions)
}

/// What sessions cost in which nothing happens.
async fn idle(sessions: &[Meta], sizes: &Sizes, series: &mut Series) -> Result<()> {
    let eggs = sessions.iter().map(egg).collect::<Result<Vec<u32>>>()?;
    progress("sessions: idle");
    settle(&eggs).await?;
    let before = used(&eggs)?;
    sleep(sizes.idle_seconds).await;
    let used = used(&eggs)? - before;
    series.enter("idle.ticks", "ticks of 10 ms, all together", used as f64);
    for session in sessions {
        let own = pss(egg(session)?).context("a session's memory cannot be read")?;
        series.enter("idle.pss", "MiB each", own);
        let program = session.pid.and_then(pss).context("its program is gone")?;
        series.enter("idle.program.pss", "MiB each", program);
    }
    Ok(())
}

/// The list of all sessions, while all answer, and while some cannot.
async fn listing(home: &Home, sessions: &[Meta], series: &mut Series) -> Result<()> {
    progress("sessions: list");
    let living = list(home).await?;
    ensure!(
        living.total == sessions.len() && living.frozen == 0,
        "of {} sessions {} are listed, and {} as frozen although none is",
        sessions.len(),
        living.total,
        living.frozen,
    );
    series.enter("ps.living", "ms", living.millis);
    let frozen = Frozen::stop(&sessions[..FROZEN.min(sessions.len())]).await?;
    let listed = list(home).await?;
    ensure!(
        listed.total == sessions.len() && listed.frozen == frozen.0.len(),
        "of {} sessions {} are listed, and {} of {} as frozen",
        sessions.len(),
        listed.total,
        listed.frozen,
        frozen.0.len(),
    );
    series.enter("ps.frozen", "ms", listed.millis);
    Ok(())
}

/// What a list said, and how long it took.
struct Listed {
    total: usize,
    frozen: usize,
    millis: f64,
}

async fn list(home: &Home) -> Result<Listed> {
    let started = Instant::now();
    let answer = home.run_wt(&["session", "ps", "--json"]).await?;
    let millis = started.elapsed().as_secs_f64() * 1e3;
    let answer: Value = serde_json::from_slice(&answer)?;
    let sessions = answer["sessions"].as_array().context("no list came")?;
    Ok(Listed {
        total: sessions.len(),
        frozen: sessions.iter().filter(|s| s["status"] == "frozen").count(),
        millis,
    })
}

/// Processes of sessions that are stopped until this is dropped.
struct Frozen(Vec<Pid>);

impl Frozen {
    async fn stop(sessions: &[Meta]) -> Result<Self> {
        let mut frozen = Self(Vec::new());
        for session in sessions {
            let pid = egg(session)?;
            let process = Pid::from_raw(i32::try_from(pid)?);
            kill(process, Signal::SIGSTOP).context("cannot stop a session")?;
            frozen.0.push(process);
            let stopped = async {
                while !is_stopped(pid) {
                    sleep(POLL).await;
                }
            };
            timeout(SETTLE_DEADLINE, stopped)
                .await
                .context("a session did not stop")?;
        }
        Ok(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.0 {
            // One that is gone needs nothing.
            let _ = kill(*process, Signal::SIGCONT);
        }
    }
}

/// A flood into a session without clients, beside the same on a bare terminal.
async fn flood(home: &Home, stream: Stream, bytes: u64, series: &mut Series) -> Result<()> {
    let name = stream.name();
    progress(&format!("sessions: {name} on a bare terminal"));
    let pour = Pour::new(home, stream, bytes)?;
    let mut terminal = Terminal::start(home, &pour.command())?;
    let started = pour.begin()?;
    terminal.until(POURED.as_bytes(), FLOOD_DEADLINE).await?;
    pour.enter(&format!("bare.{name}"), started, series);
    drop(terminal);

    progress(&format!("sessions: {name} into a session"));
    let pour = Pour::new(home, stream, bytes)?;
    let session = home.start_session(name, &pour.command())?.await??;
    let egg = egg(&session)?;
    settle(&[egg]).await?;
    let memory = |what: Option<f64>| what.context("the session's memory cannot be read");
    let before = memory(rss(egg))?;
    let started = pour.begin()?;
    pour.is_done().await?;
    // All is written; the session has it once its end can be found, and seen.
    let mut wait = home.command(home.wt());
    wait.args(["session", "wait", name, "--contains", POURED]);
    answer(wait, FLOOD_DEADLINE).await?;
    let screen = home.run_wt(&["session", "read", name]).await?;
    let id = format!("flood.{name}");
    pour.enter(&id, started, series);
    ensure!(
        String::from_utf8_lossy(&screen).contains(POURED),
        "the end of the flood is not on the screen"
    );
    series.enter(format!("{id}.rss_before"), "MiB", before);
    series.enter(format!("{id}.rss_peak"), "MiB", memory(peak_rss(egg))?);
    series.enter(format!("{id}.rss_after"), "MiB", memory(rss(egg))?);
    home.end_sessions().await
}

/// A program that pours out a stream when it is told to.
struct Pour<'a> {
    home: &'a Home,
    stream: Stream,
    bytes: String,
    folder: tempfile::TempDir,
}

impl<'a> Pour<'a> {
    fn new(home: &'a Home, stream: Stream, bytes: u64) -> Result<Self> {
        Ok(Self {
            home,
            stream,
            bytes: bytes.to_string(),
            folder: tempfile::tempdir_in(home.root())?,
        })
    }

    fn command(&self) -> [&OsStr; 5] {
        [
            self.home.exe(),
            roles::POUR.as_ref(),
            self.stream.name().as_ref(),
            self.bytes.as_ref(),
            self.folder.path().as_os_str(),
        ]
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        Path::join(self.folder.path(), name)
    }

    fn begin(&self) -> Result<Instant> {
        let now = Instant::now();
        fs::write(self.file(GO), "")?;
        Ok(now)
    }

    async fn is_done(&self) -> Result<()> {
        let done = async {
            while !self.file(DONE).exists() {
                sleep(POLL).await;
            }
        };
        timeout(FLOOD_DEADLINE, done)
            .await
            .with_context(|| format!("it was not written within {FLOOD_DEADLINE:?}"))
    }

    fn enter(&self, id: &str, started: Instant, series: &mut Series) {
        let seconds = started.elapsed().as_secs_f64();
        let bytes: f64 = self.bytes.parse().unwrap_or(f64::NAN);
        series.enter(format!("{id}.seconds"), "s", seconds);
        series.enter(format!("{id}.rate"), "MB/s", bytes / 1e6 / seconds);
    }
}

fn egg(session: &Meta) -> Result<u32> {
    session.egg_pid.context("a session names no process")
}

/// Clock ticks that processes used so far.
fn used(pids: &[u32]) -> Result<u64> {
    let all: Option<Vec<u64>> = pids.iter().map(|pid| ticks(*pid)).collect();
    Ok(all.context("a session is gone")?.iter().sum())
}

/// Waits until processes compute nothing.
async fn settle(pids: &[u32]) -> Result<()> {
    let deadline = Instant::now() + SETTLE_DEADLINE;
    let (mut before, mut since) = (used(pids)?, Instant::now());
    // One that never settles is measured as it is; its ticks will show.
    while since.elapsed() < SETTLED && Instant::now() < deadline {
        sleep(POLL * 10).await;
        let now = used(pids)?;
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(())
}

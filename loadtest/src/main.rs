//! Load scenarios: how fast wingthing is, beside raw baselines of the same run.
//!
//! One command starts a relay, a wing and sessions on loopback in a folder of its own, each
//! in a process of its own and made of the product's own code, and measures through a client
//! in this process. Beside every number stands the same act over a raw quinn stream and over
//! TCP, interleaved with it, because only ratios of one run on one machine can be compared.
//! Three more scenarios, each run by name, measure the sessions of one machine in the same
//! way: beside a bare terminal, beside other programs of the kind, and beside a bare parser.
//!
//! What it deliberately does not do: judge. It prints medians, ratios and the state of the
//! machine; floors belong to whoever runs it. `docs/BENCHMARKS.md` says what each number means.
#![forbid(unsafe_code)]

mod attached;
mod baseline;
mod home;
mod machine;
mod programs;
mod pty;
mod report;
mod roles;
mod scenarios;
mod world;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::home::Home;
use crate::machine::Machine;
use crate::report::{Report, ScenarioReport, Series, Settings};
use crate::scenarios::Sizes;
use crate::world::World;

/// The exit status of a run that was interrupted: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// Measure wingthing on loopback, beside raw baselines in the same run
///
/// The table goes to stdout. With --json the document goes to stdout and the table to stderr.
#[derive(Debug, Parser)]
#[command(name = "wt-loadtest", version)]
struct Args {
    /// What to measure [default: throughput latency stalled sealed]
    #[arg(value_enum, value_name = "SCENARIO")]
    scenarios: Vec<Scenario>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
    /// Do everything once and with the smallest sizes, to see that it works
    #[arg(long)]
    quick: bool,
    /// How many MiB one transfer through a relay moves [default: 16, quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    mib: Option<u64>,
    /// How many MB flow in one step of sessions, tmux and screen [default: 1000, 500, 100]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    mb: Option<u64>,
    /// How many seconds a series of key presses takes, and twice one of seals [default: 0.4]
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// How many times all is measured, interleaved [default: 5; tmux, screen: 3; sessions: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
}

impl Args {
    fn mib(&self) -> u64 {
        self.mib.unwrap_or(if self.quick { 1 } else { 16 })
    }

    fn seconds(&self) -> Duration {
        let default = if self.quick { 20 } else { 400 };
        self.seconds.unwrap_or(Duration::from_millis(default))
    }

    fn rounds(&self, scenario: Scenario) -> u32 {
        let default = match scenario {
            _ if self.quick => 1,
            Scenario::Stalled | Scenario::Sessions => 1,
            Scenario::Tmux | Scenario::Screen => 3,
            Scenario::Throughput | Scenario::Latency | Scenario::Sealed => 5,
        };
        match scenario {
            // A second time would find the same routes stalled.
            Scenario::Stalled => default,
            _ => self.rounds.unwrap_or(default),
        }
    }

    fn sizes(&self) -> Sizes {
        let sizes = if self.quick {
            Sizes::QUICK
        } else {
            Sizes::FULL
        };
        match self.mb {
            Some(mb) => sizes.flowing(mb * 1_000_000),
            None => sizes,
        }
    }

    fn scenarios(&self) -> &[Scenario] {
        if self.scenarios.is_empty() {
            &Scenario::OF_A_RELAY
        } else {
            &self.scenarios
        }
    }
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// A flood of output, through the relay, locally, over raw quinn and over TCP
    Throughput,
    /// One key press and its echo; quiet, beside a flood, and beside a stalled client
    Latency,
    /// One working session beside 63 attachments that read nothing
    Stalled,
    /// Sealing against the bare cipher, and handshakes
    Sealed,
    /// Local sessions: what idle ones cost, a list of 200, floods that nobody reads
    Sessions,
    /// Echo and a large file through attach, beside tmux and shpool
    Tmux,
    /// The terminal model against the bare parser
    Screen,
}

impl Scenario {
    /// What is measured unless something is named: under a minute in all.
    const OF_A_RELAY: [Self; 4] = [
        Scenario::Throughput,
        Scenario::Latency,
        Scenario::Stalled,
        Scenario::Sealed,
    ];

    fn name(self) -> &'static str {
        match self {
            Scenario::Throughput => "throughput",
            Scenario::Latency => "latency",
            Scenario::Stalled => "stalled",
            Scenario::Sealed => "sealed",
            Scenario::Sessions => "sessions",
            Scenario::Tmux => "tmux",
            Scenario::Screen => "screen",
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Before any thread exists: these become the other processes of a run.
    if let Some(status) = roles::dispatch(&arguments) {
        std::process::exit(status);
    }
    let args = Args::parse();
    let run = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
        .and_then(|runtime| {
            let outcome = runtime.block_on(run(&args));
            // A thread may still be inside a series of seals.
            runtime.shutdown_background();
            outcome
        });
    match run {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "wt-loadtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (world, home) = (Arc::default(), Arc::default());
    let measured = tokio::select! {
        report = Box::pin(measure(args, &world, &home)) => Some(report),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    progress("");
    let home = match home.lock().await.take() {
        Some(home) => home.stop().await,
        None => Ok(()),
    };
    let world = match world.lock().await.take() {
        Some(world) => world.stop().await,
        None => Ok(()),
    };
    let stopped = home.and(world);
    let Some(report) = measured else {
        stopped?;
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let report = report?;
    show(&report, args.json).context("cannot write the report")?;
    stopped?;
    Ok(if report.failures() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the scenarios. A scenario that fails is part of the report; the others go on.
async fn measure(
    args: &Args,
    world: &Arc<Mutex<Option<World>>>,
    home: &Arc<Mutex<Option<Home>>>,
) -> Result<Report> {
    let started = Instant::now();
    let machine = Machine::look();
    let (seconds, sizes) = (args.seconds(), args.sizes());
    let mut reports = Vec::new();
    for scenario in args.scenarios().iter().copied() {
        progress(scenario.name());
        let rounds = args.rounds(scenario);
        let measured = match scenario {
            Scenario::Sealed => scenarios::sealed::run(rounds, seconds / 2).await,
            Scenario::Screen => scenarios::screen::run(rounds, sizes.stream).await,
            Scenario::Sessions | Scenario::Tmux => {
                Box::pin(at_home(scenario, home, rounds, &sizes)).await
            }
            Scenario::Throughput | Scenario::Latency | Scenario::Stalled => {
                let world = begun(world, args.mib()).await?;
                let world = world.as_ref().context("it was started above")?;
                match scenario {
                    Scenario::Throughput => scenarios::throughput::run(world, rounds).await,
                    Scenario::Latency => scenarios::latency::run(world, rounds, seconds).await,
                    _ => scenarios::stalled::run(world, seconds).await,
                }
            }
        };
        reports.push(ScenarioReport::new(scenario.name(), rounds, measured));
    }
    Ok(Report {
        version: 1,
        machine: machine.after(),
        settings: Settings {
            mib: args.mib(),
            seconds: seconds.as_secs_f64(),
            sizes,
        },
        elapsed_seconds: started.elapsed().as_secs_f64(),
        scenarios: reports,
    })
}

/// The relay and all that belongs to it, which is started if it is not there yet.
async fn begun(
    world: &Arc<Mutex<Option<World>>>,
    mib: u64,
) -> Result<OwnedMutexGuard<Option<World>>> {
    let mut world = Arc::clone(world).lock_owned().await;
    if world.is_some() {
        return Ok(world);
    }
    progress("starting relay, wing and sessions");
    // In a task, which an interrupt does not stop half-way: whoever wants to end the world
    // waits for it, and then finds all that was started.
    let begun = tokio::spawn(async move {
        let began = world.insert(World::empty(mib << 20)?).begin().await;
        began.map(|()| world)
    });
    begun.await.context("the start broke down")?
}

/// Measures local sessions in a home of their own, which is gone afterwards.
async fn at_home(
    scenario: Scenario,
    slot: &Arc<Mutex<Option<Home>>>,
    rounds: u32,
    sizes: &Sizes,
) -> Result<Series> {
    let mut slot = Arc::clone(slot).lock_owned().await;
    let home = slot.insert(Home::open().await?);
    let measured = if scenario == Scenario::Tmux {
        scenarios::tmux::run(home, rounds, sizes).await
    } else {
        scenarios::sessions::run(home, rounds, sizes).await
    };
    progress("ending the sessions");
    // In a task, which an interrupt does not stop half-way, as when a world begins.
    let stopped = tokio::spawn(async move {
        match slot.take() {
            Some(home) => home.stop().await,
            None => Ok(()),
        }
    });
    let stopped = stopped.await.context("the end broke down")?;
    measured.and_then(|series| stopped.map(|()| series))
}

fn show(report: &Report, json: bool) -> io::Result<()> {
    let table = report.table();
    let mut stdout = io::stdout().lock();
    if json {
        // The table is an extra here; nobody may be reading it.
        let _ = io::stderr().write_all(table.as_bytes());
        serde_json::to_writer_pretty(&mut stdout, report)?;
        stdout.write_all(b"\n")
    } else {
        stdout.write_all(table.as_bytes())
    }
}

/// Says what is being measured, on one line of a terminal that is written again and again.
pub(crate) fn progress(what: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{what}");
        let _ = stderr.flush();
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    // A client that reads nothing for 30 s is cut off by design, so a series is shorter.
    if (0.01..=20.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("give a number of seconds from 0.01 to 20".to_owned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_shorter_than_the_patience_with_slow_readers() {
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        for bad in ["", "x", "0", "-1", "21", "NaN", "inf"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn scenarios_are_named_as_they_are_chosen() {
        for scenario in Scenario::value_variants() {
            let value = scenario.to_possible_value().unwrap();
            assert_eq!(value.get_name(), scenario.name());
        }
    }
}

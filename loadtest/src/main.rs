//! Load scenarios: how fast wingthing is, beside raw baselines of the same run.
//!
//! One command starts a relay, a wing and sessions on loopback in a folder of its own, each
//! in a process of its own and made of the product's own code, and measures through a client
//! in this process. Beside every number stands the same act over a raw quinn stream and over
//! TCP, interleaved with it, because only ratios of one run on one machine can be compared.
//!
//! What it deliberately does not do: judge. It prints medians, ratios and the state of the
//! machine; floors belong to whoever runs it. `docs/BENCHMARKS.md` says what each number means.
#![forbid(unsafe_code)]

mod attached;
mod baseline;
mod machine;
mod programs;
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
use tokio::sync::Mutex;

use crate::machine::Machine;
use crate::report::{Report, ScenarioReport, Settings};
use crate::world::World;

/// The exit status of a run that was interrupted: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// Measure wingthing on loopback, beside raw quinn and TCP in the same run
///
/// The table goes to stdout. With --json the document goes to stdout and the table to stderr.
#[derive(Debug, Parser)]
#[command(name = "wt-loadtest", version)]
struct Args {
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
    /// How many MiB one transfer moves
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1024))]
    mib: u64,
    /// How many seconds one series of key presses takes, and twice a series of seals
    #[arg(long, default_value = "0.4", value_parser = parse_seconds)]
    seconds: Duration,
    /// How many times everything is measured, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Run this scenario only; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    scenario: Vec<Scenario>,
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
}

impl Scenario {
    fn name(self) -> &'static str {
        match self {
            Scenario::Throughput => "throughput",
            Scenario::Latency => "latency",
            Scenario::Stalled => "stalled",
            Scenario::Sealed => "sealed",
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
    let world = Arc::default();
    let measured = tokio::select! {
        report = Box::pin(measure(args, &world)) => Some(report),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    progress("");
    let stopped = match world.lock().await.take() {
        Some(world) => world.stop().await,
        None => Ok(()),
    };
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
async fn measure(args: &Args, world: &Arc<Mutex<Option<World>>>) -> Result<Report> {
    let started = Instant::now();
    let machine = Machine::look();
    let wanted = if args.scenario.is_empty() {
        Scenario::value_variants()
    } else {
        &args.scenario
    };
    let mut reports = Vec::new();
    for scenario in wanted.iter().copied() {
        progress(scenario.name());
        let measured = match scenario {
            Scenario::Sealed => scenarios::sealed::run(args.rounds, args.seconds / 2).await,
            Scenario::Throughput | Scenario::Latency | Scenario::Stalled => {
                let mut world = Arc::clone(world).lock_owned().await;
                if world.is_none() {
                    progress("starting relay, wing and sessions");
                    let burst = args.mib << 20;
                    // In a task, which an interrupt does not stop half-way: whoever wants to
                    // end the world waits for it, and then finds all that was started.
                    let begun = tokio::spawn(async move {
                        let began = world.insert(World::empty(burst)?).begin().await;
                        began.map(|()| world)
                    });
                    world = begun.await.context("the start broke down")??;
                }
                let world = world.as_ref().context("it was started above")?;
                match scenario {
                    Scenario::Throughput => scenarios::throughput::run(world, args.rounds).await,
                    Scenario::Latency => {
                        scenarios::latency::run(world, args.rounds, args.seconds).await
                    }
                    Scenario::Stalled | Scenario::Sealed => {
                        scenarios::stalled::run(world, args.seconds).await
                    }
                }
            }
        };
        reports.push(ScenarioReport::new(scenario.name(), measured));
    }
    Ok(Report {
        version: 1,
        machine: machine.after(),
        settings: Settings {
            rounds: args.rounds,
            mib: args.mib,
            seconds: args.seconds.as_secs_f64(),
        },
        elapsed_seconds: started.elapsed().as_secs_f64(),
        scenarios: reports,
    })
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

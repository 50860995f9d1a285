//! A flood of output: through the relay, beside the session, and the raw baselines.
//!
//! A *live* flood is measured from the key that starts it to its last byte at the client; it
//! can be no faster than the terminal and its model. A *backlog* was printed before, and waits
//! in the session's window: that is what the way itself can carry.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::{sleep, timeout};
use wt_wing::attach::Target;

use crate::attached::{Attached, Hands};
use crate::baseline;
use crate::machine::cpu_time;
use crate::programs::BURST;
use crate::progress;
use crate::report::Series;
use crate::world::World;

/// How long one transfer may take: 64 MiB at 1 MB/s, and some room.
const TRANSFER_DEADLINE: Duration = Duration::from_secs(120);

/// How often a flood that nobody reads is asked whether it is over.
const PRINTED_POLL: Duration = Duration::from_millis(5);

/// Bytes of a backlog that are not measured: twice what waits in the client itself and in the
/// windows before it, which was on its way before the clock started. Of a small burst, half.
const UNDER_WAY: u64 = 3 << 20;

/// How a flood is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Live,
    Backlog,
}

/// Measures; gives rates in MB/s and costs in CPU seconds for each GB.
pub(crate) async fn run(world: &World, rounds: u32) -> Result<Series> {
    let mut series = Series::default();
    let flood = world.flood()?.clone();
    for round in 0..rounds {
        let step = |what: &str| progress(&format!("throughput {}/{rounds}: {what}", round + 1));
        for (name, flow) in [("relayed", Flow::Live), ("relayed_backlog", Flow::Backlog)] {
            step(name);
            let target = world.relayed(&flood)?;
            let pids = world.product_pids()?;
            take_flood(world, target, name, flow, &pids, &mut series)
                .await
                .with_context(|| name.to_owned())?;
        }
        for (name, flow) in [("local", Flow::Live), ("local_backlog", Flow::Backlog)] {
            step(name);
            let target = world.local(&flood);
            let pids = [("egg", flood.egg_pid)];
            take_flood(world, target, name, flow, &pids, &mut series)
                .await
                .with_context(|| name.to_owned())?;
        }
        step("quinn");
        let meter = Meter::start(&[("source", world.peer_pid()?)], "sink");
        within(world.raw()?.take(world.burst))
            .await
            .context("quinn")?;
        meter.enter("quinn", world.burst, &mut series);
        step("tcp_splice");
        let pids = [
            ("source", world.peer_pid()?),
            ("relay", world.splice_pid()?),
        ];
        let meter = Meter::start(&pids, "sink");
        within(baseline::take_tcp(world.splice_tcp()?, world.burst))
            .await
            .context("tcp_splice")?;
        meter.enter("tcp_splice", world.burst, &mut series);
    }
    for (id, of, to) in [
        ("relayed / quinn", "relayed", "quinn"),
        ("relayed / tcp_splice", "relayed", "tcp_splice"),
        ("relayed / local", "relayed", "local"),
        ("relayed_backlog / quinn", "relayed_backlog", "quinn"),
        (
            "relayed_backlog / tcp_splice",
            "relayed_backlog",
            "tcp_splice",
        ),
        (
            "relayed_backlog / local_backlog",
            "relayed_backlog",
            "local_backlog",
        ),
    ] {
        series.ratio(id, &format!("{of}.rate"), &format!("{to}.rate"));
    }
    // Cheaper is larger here as well: bytes for each CPU second of the one over the other.
    series.ratio(
        "bytes per CPU s, our relay / quinn sink",
        "quinn.cpu.sink",
        "relayed_backlog.cpu.relay",
    );
    series.ratio(
        "bytes per CPU s, our relay / tcp_splice relay",
        "tcp_splice.cpu.relay",
        "relayed_backlog.cpu.relay",
    );
    Ok(series)
}

async fn take_flood(
    world: &World,
    target: Target,
    name: &str,
    flow: Flow,
    pids: &[(&'static str, u32)],
    series: &mut Series,
) -> Result<()> {
    let flood = world.flood()?;
    let mut attached = Attached::start(target, Hands::Types).await?;
    let printed = world.printed(flood).await?;
    let size = world.burst + 1;
    let (meter, before) = if flow == Flow::Backlog {
        attached.send(&[BURST]).await?;
        within(async {
            while world.printed(flood).await? < printed + size {
                sleep(PRINTED_POLL).await;
            }
            Ok(())
        })
        .await
        .context("the flood was not printed")?;
        let before = within(attached.take(UNDER_WAY.min(world.burst / 2))).await?;
        (Meter::start(pids, "client"), before)
    } else {
        let meter = Meter::start(pids, "client");
        attached.send(&[BURST]).await?;
        (meter, 0)
    };
    let came = within(attached.drain()).await?;
    meter.enter(name, came, series);
    ensure!(
        before + came == size,
        "{} bytes came instead of {size}",
        before + came
    );
    attached.leave().await
}

async fn within<T>(transfer: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(TRANSFER_DEADLINE, transfer)
        .await
        .with_context(|| format!("not done within {TRANSFER_DEADLINE:?}"))?
}

/// The time that a transfer takes, and what it costs the processes that take part.
struct Meter {
    started: Instant,
    cpu: Vec<(&'static str, u32, Option<Duration>)>,
}

impl Meter {
    /// Starts; this process takes part under the name `here`.
    fn start(pids: &[(&'static str, u32)], here: &'static str) -> Self {
        let all = pids.iter().copied().chain([(here, std::process::id())]);
        Self {
            cpu: all.map(|(name, pid)| (name, pid, cpu_time(pid))).collect(),
            started: Instant::now(),
        }
    }

    /// Stops, and enters what it saw.
    fn enter(self, name: &str, bytes: u64, series: &mut Series) {
        let seconds = self.started.elapsed().as_secs_f64();
        series.enter(format!("{name}.rate"), "MB/s", bytes as f64 / 1e6 / seconds);
        for (process, pid, before) in self.cpu {
            // A process that is gone has no cost to tell; its transfer failed anyway.
            let Some(used) = before.and_then(|before| cpu_time(pid)?.checked_sub(before)) else {
                continue;
            };
            let id = format!("{name}.cpu.{process}");
            series.enter(id, "CPU s/GB", used.as_secs_f64() / (bytes as f64 / 1e9));
        }
    }
}

//! One key press and its echo: quiet, and beside another session of the same wing that
//! floods, whose client reads or does not.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::time::{sleep, timeout};
use wt_wing::attach::{Command, Target};

use super::keys::Keyboard;
use crate::attached::{Attached, Hands};
use crate::baseline;
use crate::programs::{ENDLESS, STOP};
use crate::progress;
use crate::report::Series;
use crate::world::{World, remote};

/// Bytes that a client takes of a flood before it counts as one.
const FULL_FLOW: u64 = 2 << 20;

/// How long a flood may take to get going, to fill what it can fill, or to end.
const FLOOD_DEADLINE: Duration = Duration::from_secs(60);

/// What the queues beyond a client's own get to fill up, once that one is full: at 100 MB/s
/// ten times what all windows on the way hold.
const FILLING: Duration = Duration::from_millis(100);

/// How often a client's queue is looked at while it fills.
const FULL_POLL: Duration = Duration::from_millis(2);

/// Measures; gives times in microseconds.
pub(crate) async fn run(world: &World, rounds: u32, length: Duration) -> Result<Series> {
    let mut series = Series::default();
    let mut relayed = Attached::start(world.relayed(world.echo()?)?, Hands::Types).await?;
    let mut local = Attached::start(world.local(world.local_echo()?), Hands::Types).await?;
    let mut quic = world.raw()?.echo().await?;
    let mut tcp = baseline::echo_tcp(world.peer_tcp()?).await?;
    // A client of its own: two windows of a user are two processes with a link each.
    let other = world.client().await?;
    let flood = || Ok::<Target, anyhow::Error>(remote(&other, world.flood()?));
    for round in 0..rounds {
        let step = |what: &str| progress(&format!("latency {}/{rounds}: {what}", round + 1));
        for (name, mut keyboard) in [
            ("relayed", Keyboard::Session(&mut relayed)),
            ("local", Keyboard::Session(&mut local)),
            ("quinn", Keyboard::Quic(&mut quic)),
            ("tcp", Keyboard::Tcp(&mut tcp)),
        ] {
            step(name);
            keyboard.series(name, length, &mut series).await?;
        }
        step("beside_flood");
        let mut keyboard = Keyboard::Session(&mut relayed);
        beside_flood(flood()?, &mut keyboard, length, &mut series).await?;
        step("beside_stalled");
        let stalled = Attached::start(flood()?, Hands::Types).await?;
        stalled.send(&[ENDLESS]).await?;
        fill(std::slice::from_ref(&stalled)).await?;
        keyboard
            .series("beside_stalled", length, &mut series)
            .await?;
        stalled.leave().await?;
        end_flood(flood()?).await?;
    }
    relayed.leave().await?;
    local.leave().await?;
    for (id, of, to) in [
        ("relayed / quinn", "relayed", "quinn"),
        ("relayed / tcp", "relayed", "tcp"),
        ("relayed / local", "relayed", "local"),
        ("beside_flood / relayed", "beside_flood", "relayed"),
        ("beside_stalled / relayed", "beside_stalled", "relayed"),
    ] {
        for which in ["p50", "p99"] {
            series.ratio(
                &format!("{id}, {which}"),
                &format!("{of}.{which}"),
                &format!("{to}.{which}"),
            );
        }
    }
    Ok(series)
}

/// Presses keys while another client takes a flood as fast as it can.
async fn beside_flood(
    target: Target,
    keyboard: &mut Keyboard<'_>,
    length: Duration,
    series: &mut Series,
) -> Result<()> {
    let mut flooded = Attached::start(target, Hands::Types).await?;
    let hand = flooded.keyboard();
    flooded.send(&[ENDLESS]).await?;
    timeout(FLOOD_DEADLINE, flooded.take(FULL_FLOW))
        .await
        .context("the flood did not get going")??;
    // Ended by the end of the flood, or with this function.
    let mut draining = tokio::task::JoinSet::new();
    let started = Instant::now();
    draining.spawn(async move {
        let came = flooded.drain().await?;
        let rate = came as f64 / 1e6 / started.elapsed().as_secs_f64();
        Ok::<_, anyhow::Error>((flooded, rate))
    });
    keyboard.series("beside_flood", length, series).await?;
    let stop = Command::Input(vec![STOP]);
    hand.send(stop)
        .await
        .ok()
        .context("the flooded client is gone")?;
    let (flooded, rate) = timeout(FLOOD_DEADLINE, draining.join_next())
        .await
        .context("the flood did not end")?
        .context("one task was spawned")???;
    series.enter("beside_flood.rate", "MB/s", rate);
    drop(hand);
    flooded.leave().await
}

/// Waits until clients that read nothing hold all that they can, and the windows behind them.
pub(crate) async fn fill(stalled: &[Attached]) -> Result<()> {
    let filling = async {
        while !stalled.iter().all(Attached::is_full) {
            sleep(FULL_POLL).await;
        }
    };
    timeout(FLOOD_DEADLINE, filling)
        .await
        .context("a client that reads nothing did not fill up")?;
    sleep(FILLING).await;
    Ok(())
}

/// Ends a flood that goes on although whoever began it left.
pub(crate) async fn end_flood(target: Target) -> Result<()> {
    let mut attached = Attached::start(target, Hands::Types).await?;
    attached.send(&[STOP]).await?;
    timeout(FLOOD_DEADLINE, attached.drain())
        .await
        .context("the flood did not end")??;
    attached.leave().await
}

//! One working session beside as many attachments that read nothing as a wing's link carries.
//!
//! Each attachment is a route of its own with a window of its own. When the windows of stalled
//! routes together reach the connection's, every session of the wing stops; they must not.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wt_wing::client::WingHandle;

use super::keys::Keyboard;
use super::latency::{end_flood, fill};
use crate::attached::{Attached, Hands};
use crate::programs::ENDLESS;
use crate::progress;
use crate::report::Series;
use crate::world::{Session, World, remote};

/// Routes that stall: all that one link of a wing carries, but one.
const STALLED: usize = 63;

/// Routes that one link of a client carries.
const PER_CLIENT: usize = 16;

/// A wing answers a burst of handshakes and then 20 a second; an attachment over that is
/// tried again for so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long between two tries: a wing has two more handshakes to give then.
const RETRY: Duration = Duration::from_millis(100);

/// Measures; gives times in microseconds.
pub(crate) async fn run(world: &World, length: Duration) -> Result<Series> {
    let mut series = Series::default();
    let mut working = attach(&world.client().await?, world.echo()?, Hands::Types).await?;
    let mut keyboard = Keyboard::Session(&mut working);
    progress("stalled: quiet");
    keyboard.series("quiet", length, &mut series).await?;

    let flood = world.flood()?;
    let mut stalled = Vec::new();
    while stalled.len() < STALLED {
        let client = world.client().await?;
        for _ in 0..PER_CLIENT.min(STALLED - stalled.len()) {
            // The first of them starts the flood, for which it must be able to type.
            let hands = if stalled.is_empty() {
                Hands::Types
            } else {
                Hands::Watches
            };
            progress(&format!("stalled: {} of {STALLED}", stalled.len() + 1));
            stalled.push(attach(&client, flood, hands).await?);
        }
    }
    stalled[0].send(&[ENDLESS]).await?;
    fill(&stalled).await?;
    progress("stalled: all");
    keyboard
        .series("beside_63_stalled", length, &mut series)
        .await?;

    let mut leaving = JoinSet::new();
    for attached in stalled {
        leaving.spawn(attached.leave());
    }
    for left in leaving.join_all().await {
        left?;
    }
    end_flood(world.local(flood)).await?;
    working.leave().await?;
    for which in ["p50", "p99"] {
        series.ratio(
            &format!("beside_63_stalled / quiet, {which}"),
            &format!("beside_63_stalled.{which}"),
            &format!("quiet.{which}"),
        );
    }
    Ok(series)
}

/// Attaches; waits for its turn when the wing has enough of handshakes.
async fn attach(client: &WingHandle, session: &Session, hands: Hands) -> Result<Attached> {
    let started = Instant::now();
    loop {
        match Attached::start(remote(client, session), hands).await {
            Err(_) if started.elapsed() < PATIENCE => sleep(RETRY).await,
            result => return result,
        }
    }
}

//! The data path: what comes in on one stream goes out on the other, unread.
//!
//! A splice is two tasks, each a loop of read and write. Chunks pass as they came, without
//! a copy and without a queue: while a reader takes nothing, nothing is read for it, and
//! the transports' flow control holds the writer back. How a stream ends is passed on as
//! it is, code for code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wt_link::{RecvHalf, SendHalf, StreamEnd};
use wt_protocol::codes::StreamCode;

/// Most bytes read at once. Transports give what one batch of packets brought, which is
/// less; a larger read would only make one turn of the loop longer.
const CHUNK: usize = 64 * 1024;

/// Both halves of a stream at this relay.
pub(crate) type Stream = (SendHalf, RecvHalf);

/// What passed through, counted since the relay started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) to_wings: AtomicU64,
    pub(crate) to_clients: AtomicU64,
    pub(crate) slow_consumers: AtomicU64,
}

/// Passes bytes both ways until both directions have ended.
///
/// A reader that takes nothing for `patience` while data waits for it ends the route.
pub(crate) async fn splice(
    client: Stream,
    wing: Stream,
    patience: Duration,
    counters: &Arc<Counters>,
) {
    let too_slow = CancellationToken::new();
    let (client_send, client_recv) = client;
    let (wing_send, wing_recv) = wing;
    // Ends with the streams, at the latest with their links; awaited below.
    let up = tokio::spawn({
        let (counters, too_slow) = (Arc::clone(counters), too_slow.clone());
        async move {
            pump(
                client_recv,
                wing_send,
                patience,
                &counters.to_wings,
                &too_slow,
            )
            .await
        }
    });
    pump(
        wing_recv,
        client_send,
        patience,
        &counters.to_clients,
        &too_slow,
    )
    .await;
    if let Err(panic) = up.await {
        tracing::error!(%panic, "one direction of a route broke off");
    }
    if too_slow.is_cancelled() {
        counters.slow_consumers.fetch_add(1, Ordering::Relaxed);
    }
}

/// One direction. `too_slow` ends both when either reader was too slow.
async fn pump(
    mut recv: RecvHalf,
    mut send: SendHalf,
    patience: Duration,
    passed: &AtomicU64,
    too_slow: &CancellationToken,
) {
    let stopped = send.stopped();
    tokio::pin!(stopped);
    loop {
        // Only the read is raced, and it is cancel safe; a reader that leaves while
        // nothing comes is passed on at once.
        let chunk = tokio::select! {
            chunk = recv.read_chunk(CHUNK) => chunk,
            end = &mut stopped => return leave(end, &mut recv),
            () = too_slow.cancelled() => return end_slow(&mut send, &mut recv),
        };
        let mut chunk = match chunk {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return send.finish(),
            Err(StreamEnd::Reset(code)) => return send.reset(code),
            Err(StreamEnd::LinkLost) => return send.reset(StreamCode::PeerLost),
        };
        let length = chunk.len() as u64;
        while !chunk.is_empty() {
            match timeout(patience, send.write_some(&mut chunk)).await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => return leave(Err(end), &mut recv),
                Err(_) => {
                    too_slow.cancel();
                    return end_slow(&mut send, &mut recv);
                }
            }
        }
        passed.fetch_add(length, Ordering::Relaxed);
    }
}

/// Tells the writer how its reader went.
fn leave(end: Result<(), StreamEnd>, recv: &mut RecvHalf) {
    match end {
        Err(StreamEnd::Reset(code)) => recv.stop(code),
        Err(StreamEnd::LinkLost) => recv.stop(StreamCode::PeerLost),
        // Neither finished nor reset while the loop runs; a reader that is gone all the
        // same needs nothing more.
        Ok(()) => recv.stop(StreamCode::Cancelled),
    }
}

fn end_slow(send: &mut SendHalf, recv: &mut RecvHalf) {
    send.reset(StreamCode::SlowConsumer);
    recv.stop(StreamCode::SlowConsumer);
}

//! Accepts connections and serves a router on them, with TLS or without.
//!
//! [`serve`] owns every connection that it accepts: when it returns, none is left.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::http::Connection;

/// Connections at once. Each costs a task and up to [`MAX_HEAD`] of buffer: 40 MB in all.
const MAX_CONNECTIONS: usize = 1_024;

/// Least time between two lines in the log on connections that found no place: whoever
/// opens many must not fill the log as well.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(5);

/// TLS handshakes at once. Each is about a millisecond of computing; others wait.
const MAX_HANDSHAKES: usize = 64;

/// A handshake that is not done in this time, waiting included, is given up.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// A request's head must be complete in this time; so long may a connection be idle.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// Largest request head, in bytes: a token and a proof need under 4 KiB.
const MAX_HEAD: usize = 32 * 1024;

/// How long connections may go on with their last request when the relay stops.
const DRAIN: Duration = Duration::from_secs(2);

/// How long accepting pauses when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets running requests end within [`DRAIN`].
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    shutdown: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    let mut connections = JoinSet::new();
    let mut complaints = Complaints::default();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if complaints.is_due(Instant::now()) {
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            if complaints.is_due(Instant::now()) {
                tracing::warn!("a connection was refused: {MAX_CONNECTIONS} are open");
            }
            continue;
        };
        let (tls, router) = (tls.clone(), router.clone());
        let (handshakes, shutdown) = (Arc::clone(&handshakes), shutdown.clone());
        connections.spawn(async move {
            let _slot = slot;
            connection(stream, tls, &handshakes, router, &shutdown).await;
        });
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    // What is still there is ended with the set.
    let _ = tokio::time::timeout(DRAIN, drained).await;
    connections.shutdown().await;
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    handshakes: &Semaphore,
    router: Router,
    shutdown: &CancellationToken,
) {
    let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else {
        return;
    };
    // Answers are written whole; waiting to fill a segment only delays them.
    let _ = stream.set_nodelay(true);
    let info = Connection {
        peer,
        port: local.port(),
        tls: tls.is_some(),
    };
    let Some(tls) = tls else {
        return requests(stream, info, router, shutdown).await;
    };
    let handshake = async {
        let _turn = handshakes.acquire().await.ok()?;
        tls.accept(stream).await.ok()
    };
    let handshake = tokio::time::timeout(HANDSHAKE_DEADLINE, handshake);
    tokio::select! {
        () = shutdown.cancelled() => {}
        done = handshake => match done {
            Ok(Some(stream)) => requests(stream, info, router, shutdown).await,
            Ok(None) | Err(_) => tracing::debug!("a TLS handshake did not succeed"),
        },
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    info: Connection,
    router: Router,
    shutdown: &CancellationToken,
) {
    let asked = Arc::new(AtomicBool::new(false));
    let asking = Arc::clone(&asked);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        asking.store(true, Ordering::Relaxed);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(info);
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|e| match e {})) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = shutdown.cancelled() => {
            // Browsers open connections ahead of need: one that never asked for anything
            // has nothing to finish.
            if !asked.load(Ordering::Relaxed) {
                return;
            }
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection broke");
    }
}

/// Keeps what is logged on connections that found no place to one line in a while.
#[derive(Debug, Default)]
struct Complaints {
    last: Option<Instant>,
}

impl Complaints {
    /// Whether a line may be written; if so, it is taken as written.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= COMPLAINT_PAUSE);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_connections_is_a_line_in_five_seconds() {
        let start = Instant::now();
        let mut complaints = Complaints::default();

        let lines = (0..100)
            .filter(|n| complaints.is_due(start + Duration::from_millis(100 * n)))
            .count();

        assert_eq!(lines, 2);
    }
}

//! A sealed session over one route: records in and out, pings, and the end.
//!
//! The receiving half is driven by whoever reads it. Sending has a task of its own,
//! owned by [`SealedSender`], because pongs must go out while the owner waits for other
//! things. The queue between them holds a few messages, so a peer that takes nothing
//! stops whoever sends to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use wt_crypto::Liveness;
use wt_crypto::random;
use wt_crypto::{Fill, Opened, Opener, Sealer, Session};
use wt_link::{FrameReader, ReadFrameError, RecvHalf, SendHalf, StreamEnd};
use wt_protocol::Close;
use wt_protocol::codes::StreamCode;

/// Messages that may wait to be sealed. Each is at most one chunk of output.
const WAITING_MESSAGES: usize = 4;

/// Pings of the other end that may wait for an answer. It sends one each 15 seconds.
const WAITING_PONGS: usize = 8;

/// How long a close may take to be handed to the transport.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// How a sealed session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealedEnd {
    /// The other end closed it, inside the seal.
    #[error("the other end closed the session")]
    Closed(Close),
    /// The relay reset the stream.
    #[error("{0}")]
    Reset(StreamCode),
    /// The stream or its link broke without a close.
    #[error("the link was lost")]
    LinkLost,
    /// The other end gave no sign of life in time.
    #[error("the other end gave no sign of life for too long")]
    Silent,
    /// Something on the way is not what the other end sent.
    #[error("what came over the link was not what the other end sent")]
    Tampered,
}

impl From<StreamEnd> for SealedEnd {
    fn from(end: StreamEnd) -> Self {
        match end {
            StreamEnd::Reset(code) => SealedEnd::Reset(code),
            StreamEnd::LinkLost => SealedEnd::LinkLost,
        }
    }
}

/// Both halves of a sealed session.
pub(crate) struct Sealed {
    pub(crate) reader: SealedReader,
    pub(crate) sender: SealedSender,
}

impl Sealed {
    /// Starts a session over a stream after its handshake.
    pub(crate) fn start(session: Session, frames: FrameReader, send: SendHalf) -> Self {
        let now = uptime();
        let (sealer, opener) = session.split(now);
        let liveness = Arc::new(Mutex::new(Liveness::new(now)));
        let (messages, queued) = mpsc::channel(WAITING_MESSAGES);
        let (pongs, pings) = mpsc::channel(WAITING_PONGS);
        let gone = Arc::new(Notify::new());
        let writer = Writer {
            send,
            sealer,
            liveness: Arc::clone(&liveness),
            queued,
            pings,
        };
        let told = Arc::clone(&gone);
        let task = tokio::spawn(async move {
            writer.run().await;
            told.notify_one();
        });
        Self {
            reader: SealedReader {
                frames,
                opener: Some(opener),
                liveness,
                pongs,
                writer_gone: gone,
            },
            sender: SealedSender { messages, task },
        }
    }
}

/// Receives messages. Cancel safe.
pub(crate) struct SealedReader {
    frames: FrameReader,
    /// Gone once a record did not open.
    opener: Option<Opener>,
    liveness: Arc<Mutex<Liveness>>,
    pongs: mpsc::Sender<[u8; 16]>,
    writer_gone: Arc<Notify>,
}

impl SealedReader {
    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, SealedEnd> {
        loop {
            let frame = tokio::select! {
                frame = self.frames.read_frame() => frame,
                () = until_dead(&self.liveness) => return Err(SealedEnd::Silent),
            };
            let frame = match frame {
                Ok(Some(frame)) => frame,
                // Without a sealed close, an end is a cut.
                Ok(None) => return Err(SealedEnd::LinkLost),
                Err(ReadFrameError::Stream(end)) => return Err(end.into()),
                Err(ReadFrameError::Frame(_) | ReadFrameError::CutShort) => {
                    return Err(SealedEnd::Tampered);
                }
            };
            if lock(&self.liveness).is_dead(uptime()) {
                return Err(SealedEnd::Silent);
            }
            let opener = self.opener.take().ok_or(SealedEnd::Tampered)?;
            let (opener, opened) = opener.open(&frame).map_err(|_| SealedEnd::Tampered)?;
            self.opener = Some(opener);
            match opened {
                Opened::Message(message) => return Ok(message),
                Opened::Close(close) => return Err(SealedEnd::Closed(close)),
                Opened::Partial | Opened::Rekeyed | Opened::Cover => {}
                Opened::Ping(bytes) => {
                    // More pings than any honest end sends are not answered.
                    let _ = self.pongs.try_send(bytes);
                }
                Opened::Pong(bytes) => {
                    lock(&self.liveness).pong(&bytes);
                }
            }
        }
    }

    /// Waits until the sending half can do no more: the peer reset it, or it was closed.
    pub(crate) fn writer_gone(&self) -> Arc<Notify> {
        Arc::clone(&self.writer_gone)
    }
}

/// Sends messages. Dropping it resets the stream.
pub(crate) struct SealedSender {
    messages: mpsc::Sender<Outgoing>,
    task: JoinHandle<()>,
}

enum Outgoing {
    Message(Vec<u8>, Fill),
    Close(Close, oneshot::Sender<()>),
}

impl SealedSender {
    /// Queues a message; waits while the queue is full.
    pub(crate) async fn send(&self, message: Vec<u8>, fill: Fill) -> Result<(), SealedEnd> {
        self.messages
            .send(Outgoing::Message(message, fill))
            .await
            .map_err(|_| SealedEnd::LinkLost)
    }

    /// Ends the session in order, after what was queued.
    pub(crate) async fn close(self, close: Close) {
        let closing = async {
            let (done, closed) = oneshot::channel();
            if self
                .messages
                .send(Outgoing::Close(close, done))
                .await
                .is_ok()
            {
                // An error here says that the writer is gone, which is an end too.
                let _ = closed.await;
            }
        };
        let _ = timeout(CLOSE_DEADLINE, closing).await;
    }
}

impl Drop for SealedSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Writer {
    send: SendHalf,
    sealer: Sealer,
    liveness: Arc<Mutex<Liveness>>,
    queued: mpsc::Receiver<Outgoing>,
    pings: mpsc::Receiver<[u8; 16]>,
}

impl Writer {
    async fn run(mut self) {
        let mut out = Vec::new();
        let stopped = self.send.stopped();
        tokio::pin!(stopped);
        loop {
            out.clear();
            let sealed = tokio::select! {
                biased;
                _ = &mut stopped => return,
                Some(bytes) = self.pings.recv() => self.sealer.seal_pong(bytes, uptime(), &mut out),
                () = until_ping(&self.liveness) => {
                    let bytes = random();
                    lock(&self.liveness).pinged(uptime(), bytes);
                    self.sealer.seal_ping(bytes, uptime(), &mut out)
                }
                outgoing = self.queued.recv() => match outgoing {
                    None => return,
                    Some(Outgoing::Message(message, fill)) => {
                        self.sealer.seal_message(&message, fill, uptime(), &mut out)
                    }
                    Some(Outgoing::Close(close, done)) => {
                        if self.sealer.seal_close(close, &mut out).is_ok()
                            && self.send.write_all(&out).await.is_ok()
                        {
                            self.send.finish();
                            // The stream is let go when the peer has all of it, or has left.
                            let _ = timeout(CLOSE_DEADLINE, &mut stopped).await;
                        }
                        let _ = done.send(());
                        return;
                    }
                }
            };
            if sealed.is_err() || self.send.write_all(&out).await.is_err() {
                return;
            }
        }
    }
}

/// Waits until the session must be given up.
async fn until_dead(liveness: &Mutex<Liveness>) {
    loop {
        let wake = {
            let liveness = lock(liveness);
            let now = uptime();
            if liveness.is_dead(now) {
                return;
            }
            liveness.next_wake().saturating_sub(now)
        };
        sleep(wake.max(Duration::from_millis(50))).await;
    }
}

/// Waits until a ping is due.
async fn until_ping(liveness: &Mutex<Liveness>) {
    loop {
        let wake = {
            let liveness = lock(liveness);
            let now = uptime();
            if liveness.is_ping_due(now) {
                return;
            }
            liveness.next_wake().saturating_sub(now)
        };
        sleep(wake.max(Duration::from_millis(50))).await;
    }
}

fn lock(liveness: &Mutex<Liveness>) -> std::sync::MutexGuard<'_, Liveness> {
    liveness.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time since the machine started, sleep included: a machine that slept finds its
/// sessions dead instead of applying what waited.
pub(crate) fn uptime() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// A stream's receiving half, for handshakes.
pub(crate) fn frames(recv: RecvHalf) -> FrameReader {
    FrameReader::new(recv, wt_protocol::limits::MAX_SEALED_RECORD)
}

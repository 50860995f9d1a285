//! Links inside one process: for a relay and a wing in one program, and for tests.
//!
//! A stream is two bounded pipes. Nothing is copied, nothing is dropped, and every end of
//! a stream or link is seen at the other end as it would be over QUIC.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use wt_protocol::codes::{LinkCode, StreamCode};

use crate::link::{Link, LinkEnd, StreamEnd};
use crate::{STREAM_WINDOW, stream_limit};

/// Makes a link: first the dialler's end, then the relay's.
///
/// As over QUIC, the dialler may open one stream and the relay none until the other end
/// raises the limits.
pub fn pair() -> (Link, Link) {
    let shared = Arc::new(Shared {
        ended: OnceLock::new(),
        end: Notify::new(),
        streams: Notify::new(),
        state: Mutex::new(State {
            may_open: [1, 0],
            open: [0, 0],
            arrived: [VecDeque::new(), VecDeque::new()],
        }),
    });
    let end = |side| {
        Link::from_memory(MemoryLink(Arc::new(Handle {
            shared: Arc::clone(&shared),
            side,
        })))
    };
    (end(Side::Dialler), end(Side::Listener))
}

/// One end of a link. The link ends when its last holder is dropped.
#[derive(Debug, Clone)]
pub(crate) struct MemoryLink(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    side: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Dialler = 0,
    Listener = 1,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Side::Dialler => Side::Listener,
            Side::Listener => Side::Dialler,
        }
    }
}

#[derive(Debug)]
struct Shared {
    /// Who ended the link, and the reason it gave; none when it was only dropped.
    ended: OnceLock<(Side, Option<LinkCode>)>,
    /// Told once, when `ended` is set.
    end: Notify,
    /// Told when a stream arrives or ends and when limits rise.
    streams: Notify,
    state: Mutex<State>,
}

/// Indexed by [`Side`].
#[derive(Debug)]
struct State {
    may_open: [u32; 2],
    open: [u32; 2],
    /// Streams that wait for this side to accept them.
    arrived: [VecDeque<Arrival>; 2],
}

/// A stream as its accepting side gets it.
#[derive(Debug)]
struct Arrival {
    /// What the accepting side writes.
    send: Arc<Pipe>,
    /// What it reads.
    recv: Arc<Pipe>,
    slot: Arc<Slot>,
}

/// Gives a stream's place back when the accepting side holds neither half of it any more.
#[derive(Debug)]
struct Slot {
    shared: Arc<Shared>,
    opener: Side,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.state().open[self.opener as usize] -= 1;
        self.shared.streams.notify_waiters();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn is_over(&self) -> bool {
        self.ended.get().is_some()
    }

    fn end(&self, side: Side, code: Option<LinkCode>) {
        if self.ended.set((side, code)).is_err() {
            return;
        }
        // Dropped after the lock is released: an arrival's slot takes the lock itself.
        let arrived = std::mem::take(&mut self.state().arrived);
        drop(arrived);
        self.end.notify_waiters();
    }

    /// Asks `attempt` for an answer now and after every change, until there is one.
    async fn until<T>(&self, changed: &Notify, mut attempt: impl FnMut() -> Option<T>) -> T {
        loop {
            let change = changed.notified();
            let end = self.end.notified();
            tokio::pin!(change, end);
            // Listening starts before the attempt, so no change between the two is missed.
            change.as_mut().enable();
            end.as_mut().enable();
            if let Some(answer) = attempt() {
                return answer;
            }
            tokio::select! {
                () = change => {}
                () = end => {}
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end(self.side, None);
    }
}

impl MemoryLink {
    fn end(&self) -> Option<LinkEnd> {
        let (side, code) = self.0.shared.ended.get()?;
        Some(match code {
            _ if *side == self.0.side => LinkEnd::Here,
            Some(code) => LinkEnd::ByPeer(*code),
            None => LinkEnd::Lost,
        })
    }

    pub(crate) async fn open(&self) -> Result<(MemorySend, MemoryRecv), LinkEnd> {
        let Handle { shared, side } = &*self.0;
        let side = *side;
        shared
            .until(&shared.streams, || {
                if let Some(end) = self.end() {
                    return Some(Err(end));
                }
                let mut state = shared.state();
                if state.open[side as usize] >= state.may_open[side as usize] {
                    return None;
                }
                state.open[side as usize] += 1;
                Some(Ok(()))
            })
            .await?;
        let (out, back) = (Arc::new(Pipe::default()), Arc::new(Pipe::default()));
        let arrival = Arrival {
            send: Arc::clone(&back),
            recv: Arc::clone(&out),
            slot: Arc::new(Slot {
                shared: Arc::clone(shared),
                opener: side,
            }),
        };
        Ok((
            MemorySend {
                pipe: out,
                link: self.clone(),
                arrival: Some(arrival),
                _slot: None,
            },
            MemoryRecv {
                pipe: back,
                link: self.clone(),
                ended: false,
                _slot: None,
            },
        ))
    }

    pub(crate) async fn accept(&self) -> Result<(MemorySend, MemoryRecv), LinkEnd> {
        let Handle { shared, side } = &*self.0;
        let arrival = shared
            .until(&shared.streams, || match self.end() {
                Some(end) => Some(Err(end)),
                None => shared.state().arrived[*side as usize].pop_front().map(Ok),
            })
            .await?;
        Ok((
            MemorySend {
                pipe: arrival.send,
                link: self.clone(),
                arrival: None,
                _slot: Some(Arc::clone(&arrival.slot)),
            },
            MemoryRecv {
                pipe: arrival.recv,
                link: self.clone(),
                ended: false,
                _slot: Some(arrival.slot),
            },
        ))
    }

    pub(crate) fn close(&self, code: LinkCode) {
        self.0.shared.end(self.0.side, Some(code));
    }

    pub(crate) async fn closed(&self) -> LinkEnd {
        let shared = &self.0.shared;
        shared.until(&shared.end, || self.end()).await
    }

    pub(crate) fn raise_limits(&self, routes: u16) {
        let opener = self.0.side.other();
        self.0.shared.state().may_open[opener as usize] = stream_limit(routes);
        self.0.shared.streams.notify_waiters();
    }
}

/// One direction of a stream.
#[derive(Debug, Default)]
struct Pipe {
    state: Mutex<PipeState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct PipeState {
    chunks: VecDeque<Bytes>,
    /// Bytes in `chunks`.
    held: usize,
    /// How the writer ended it.
    ended: Option<Ended>,
    /// What the reader said when it stopped.
    stopped: Option<StreamCode>,
}

#[derive(Debug, Clone, Copy)]
enum Ended {
    Finished,
    Reset(StreamCode),
}

impl Pipe {
    fn change(&self, act: impl FnOnce(&mut PipeState)) {
        act(&mut lock(&self.state));
        self.changed.notify_waiters();
    }
}

/// The writing half.
#[derive(Debug)]
pub(crate) struct MemorySend {
    pipe: Arc<Pipe>,
    link: MemoryLink,
    /// Handed to the other end with the first thing that happens on the stream.
    arrival: Option<Arrival>,
    _slot: Option<Arc<Slot>>,
}

impl MemorySend {
    pub(crate) async fn write_some(&mut self, bytes: &mut Bytes) -> Result<(), StreamEnd> {
        self.announce();
        let shared = &self.link.0.shared;
        shared
            .until(&self.pipe.changed, || {
                let mut state = lock(&self.pipe.state);
                if shared.is_over() {
                    return Some(Err(StreamEnd::LinkLost));
                }
                if let Some(code) = state.stopped {
                    return Some(Err(StreamEnd::Reset(code)));
                }
                if state.ended.is_some() {
                    return Some(Err(StreamEnd::Reset(StreamCode::Cancelled)));
                }
                let room = STREAM_WINDOW as usize - state.held;
                if room == 0 {
                    return None;
                }
                let part = bytes.split_to(room.min(bytes.len()));
                state.held += part.len();
                state.chunks.push_back(part);
                Some(Ok(()))
            })
            .await?;
        self.pipe.changed.notify_waiters();
        Ok(())
    }

    pub(crate) fn finish(&mut self) {
        self.announce();
        self.pipe.change(|state| {
            state.ended.get_or_insert(Ended::Finished);
        });
    }

    pub(crate) fn reset(&mut self, code: StreamCode) {
        self.announce();
        self.pipe.change(|state| {
            // A finished stream whose bytes were not all read can still be given up.
            let over = match state.ended {
                None => false,
                Some(Ended::Finished) => state.chunks.is_empty(),
                Some(Ended::Reset(_)) => true,
            };
            if !over {
                state.ended = Some(Ended::Reset(code));
                state.chunks.clear();
                state.held = 0;
            }
        });
    }

    pub(crate) fn stopped(
        &self,
    ) -> impl Future<Output = Result<(), StreamEnd>> + Send + 'static + use<> {
        let pipe = Arc::clone(&self.pipe);
        // Not the handle: a future that waits does not keep the link alive.
        let shared = Arc::clone(&self.link.0.shared);
        async move {
            shared
                .until(&pipe.changed, || {
                    let state = lock(&pipe.state);
                    if let Some(code) = state.stopped {
                        return Some(Err(StreamEnd::Reset(code)));
                    }
                    if state.ended.is_some() {
                        return Some(Ok(()));
                    }
                    shared.is_over().then_some(Err(StreamEnd::LinkLost))
                })
                .await
        }
    }

    fn announce(&mut self) {
        let Some(arrival) = self.arrival.take() else {
            return;
        };
        let Handle { shared, side } = &*self.link.0;
        let refused = {
            let mut state = shared.state();
            if shared.is_over() {
                Some(arrival)
            } else {
                state.arrived[side.other() as usize].push_back(arrival);
                None
            }
        };
        drop(refused);
        shared.streams.notify_waiters();
    }
}

/// The reading half.
#[derive(Debug)]
pub(crate) struct MemoryRecv {
    pipe: Arc<Pipe>,
    link: MemoryLink,
    /// Nothing is left to stop.
    ended: bool,
    _slot: Option<Arc<Slot>>,
}

impl MemoryRecv {
    pub(crate) async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, StreamEnd> {
        let shared = &self.link.0.shared;
        let chunk = shared
            .until(&self.pipe.changed, || {
                let mut state = lock(&self.pipe.state);
                if state.stopped.is_some() {
                    return Some(Err(StreamEnd::Reset(StreamCode::Cancelled)));
                }
                if let Some(Ended::Reset(code)) = state.ended {
                    return Some(Err(StreamEnd::Reset(code)));
                }
                if let Some(front) = state.chunks.front_mut() {
                    let part = front.split_to(max.min(front.len()));
                    if front.is_empty() {
                        state.chunks.pop_front();
                    }
                    state.held -= part.len();
                    return Some(Ok(Some(part)));
                }
                if state.ended.is_some() {
                    return Some(Ok(None));
                }
                shared.is_over().then_some(Err(StreamEnd::LinkLost))
            })
            .await;
        match &chunk {
            Ok(Some(_)) => self.pipe.changed.notify_waiters(),
            Ok(None) | Err(_) => self.ended = true,
        }
        chunk
    }

    pub(crate) fn stop(&mut self, code: StreamCode) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.pipe.change(|state| {
            state.stopped.get_or_insert(code);
            state.chunks.clear();
            state.held = 0;
        });
    }
}

impl Drop for MemoryRecv {
    fn drop(&mut self) {
        self.stop(StreamCode::Cancelled);
    }
}

/// The state behind a lock is a set of plain values that every holder leaves whole, so a
/// panic elsewhere does not make it unusable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

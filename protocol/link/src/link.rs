//! Links and the two halves of a stream, whatever carries them.

use std::future::Future;
use std::net::SocketAddr;

use bytes::Bytes;
use wt_protocol::codes::{LinkCode, StreamCode};

use crate::memory::{MemoryLink, MemoryRecv, MemorySend};
use crate::quic::QuicLink;

/// One connection of a wing or a client to a relay. Clones are the same link.
///
/// The link ends when either end closes it, when the path between them is dead for the
/// idle time, or when the last clone and the last stream of one end are dropped.
#[derive(Debug, Clone)]
pub struct Link(LinkKind);

#[derive(Debug, Clone)]
enum LinkKind {
    Quic(QuicLink),
    Memory(MemoryLink),
}

/// Why a link is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkEnd {
    /// The other end closed it and said why.
    #[error("the link was closed: {0}")]
    ByPeer(LinkCode),
    /// This end closed it.
    #[error("the link was closed here")]
    Here,
    /// Nothing came from the other end for the idle time.
    #[error("nothing was heard from the other end for too long")]
    TimedOut,
    /// The connection broke, or the other end vanished without a word.
    #[error("the connection was lost")]
    Lost,
}

/// Why a stream half can do no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamEnd {
    /// The other end reset what this half reads, or stopped what it writes.
    ///
    /// A half that was already ended here answers with [`StreamCode::Cancelled`].
    #[error("the stream was reset: {0}")]
    Reset(StreamCode),
    /// The link is over, and all its streams with it.
    #[error("the link was lost")]
    LinkLost,
}

impl Link {
    pub(crate) fn from_quic(link: QuicLink) -> Self {
        Self(LinkKind::Quic(link))
    }

    pub(crate) fn from_memory(link: MemoryLink) -> Self {
        Self(LinkKind::Memory(link))
    }

    /// Opens a stream. Waits while the other end's limit of streams is reached.
    ///
    /// The other end learns of the stream with its first bytes, its finish or its reset.
    /// Cancel safe.
    ///
    /// # Errors
    /// The link is over.
    pub async fn open(&self) -> Result<(SendHalf, RecvHalf), LinkEnd> {
        match &self.0 {
            LinkKind::Quic(link) => {
                let (send, recv) = link.open().await?;
                Ok(halves(SendKind::Quic(send), RecvKind::Quic(recv)))
            }
            LinkKind::Memory(link) => {
                let (send, recv) = link.open().await?;
                Ok(halves(SendKind::Memory(send), RecvKind::Memory(recv)))
            }
        }
    }

    /// The next stream that the other end opened. Cancel safe.
    ///
    /// # Errors
    /// The link is over.
    pub async fn accept(&self) -> Result<(SendHalf, RecvHalf), LinkEnd> {
        match &self.0 {
            LinkKind::Quic(link) => {
                let (send, recv) = link.accept().await?;
                Ok(halves(SendKind::Quic(send), RecvKind::Quic(recv)))
            }
            LinkKind::Memory(link) => {
                let (send, recv) = link.accept().await?;
                Ok(halves(SendKind::Memory(send), RecvKind::Memory(recv)))
            }
        }
    }

    /// Ends the link and all its streams at once. What was not yet delivered is lost.
    ///
    /// A link that is over stays over for the reason that it has.
    pub fn close(&self, code: LinkCode) {
        match &self.0 {
            LinkKind::Quic(link) => link.close(code),
            LinkKind::Memory(link) => link.close(code),
        }
    }

    /// Waits until the link is over. Cancel safe.
    pub async fn closed(&self) -> LinkEnd {
        match &self.0 {
            LinkKind::Quic(link) => link.closed().await,
            LinkKind::Memory(link) => link.closed().await,
        }
    }

    /// A value that only the two ends of this very connection can know (RFC 8446,
    /// section 7.5). None on a link inside one process, which nobody can stand between.
    pub fn exporter(&self) -> Option<[u8; 32]> {
        match &self.0 {
            LinkKind::Quic(link) => link.exporter(),
            LinkKind::Memory(_) => None,
        }
    }

    /// Where the other end is at this moment. None on a link inside one process.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        match &self.0 {
            LinkKind::Quic(link) => Some(link.remote_addr()),
            LinkKind::Memory(_) => None,
        }
    }

    /// Lets the other end open so many routes, once it has proved itself.
    ///
    /// Until then it has one stream and a small window. The connection's window becomes
    /// twice what all routes can hold for readers that take nothing, so that stalled
    /// routes never stop the others.
    pub fn raise_limits(&self, routes: u16) {
        match &self.0 {
            LinkKind::Quic(link) => link.raise_limits(routes),
            LinkKind::Memory(link) => link.raise_limits(routes),
        }
    }
}

fn halves(send: SendKind, recv: RecvKind) -> (SendHalf, RecvHalf) {
    (
        SendHalf {
            kind: send,
            ended: false,
        },
        RecvHalf {
            kind: recv,
            stopped: false,
        },
    )
}

/// The half of a stream that this end writes.
///
/// Dropped before [`Self::finish`], it is reset with [`StreamCode::Cancelled`]: a stream
/// never ends in order by accident.
#[derive(Debug)]
pub struct SendHalf {
    kind: SendKind,
    ended: bool,
}

#[derive(Debug)]
enum SendKind {
    Quic(quinn::SendStream),
    Memory(MemorySend),
}

impl SendHalf {
    /// Writes what fits of `bytes`, at least one byte, and takes it off their front.
    ///
    /// Waits while the reader's window is full. Cancel safe: bytes that were written are
    /// gone from `bytes`, the others are still there.
    ///
    /// # Errors
    /// The reader stopped the stream, or the link is over.
    pub async fn write_some(&mut self, bytes: &mut Bytes) -> Result<(), StreamEnd> {
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.kind {
            SendKind::Quic(stream) => {
                let written = stream.write_chunks(core::slice::from_mut(bytes)).await;
                written.map(|_| ()).map_err(crate::quic::write_end)
            }
            SendKind::Memory(stream) => stream.write_some(bytes).await,
        }
    }

    /// Writes all of a chunk without a copy. Not cancel safe: part of it may be written.
    ///
    /// # Errors
    /// As [`Self::write_some`].
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), StreamEnd> {
        while !chunk.is_empty() {
            self.write_some(&mut chunk).await?;
        }
        Ok(())
    }

    /// Writes all bytes. Not cancel safe: part of them may be written.
    ///
    /// # Errors
    /// As [`Self::write_some`].
    pub async fn write_all(&mut self, bytes: &[u8]) -> Result<(), StreamEnd> {
        self.write_chunk(Bytes::copy_from_slice(bytes)).await
    }

    /// Ends the stream in order: the reader gets all that was written, then the end.
    pub fn finish(&mut self) {
        self.ended = true;
        match &mut self.kind {
            // An error means that it was ended or stopped before, or that the link is over.
            SendKind::Quic(stream) => drop(stream.finish()),
            SendKind::Memory(stream) => stream.finish(),
        }
    }

    /// Gives the stream up: the reader gets the code instead of what it had not read.
    pub fn reset(&mut self, code: StreamCode) {
        self.ended = true;
        match &mut self.kind {
            // As for finish: there is nothing left to reset then.
            SendKind::Quic(stream) => drop(stream.reset(code.number().into())),
            SendKind::Memory(stream) => stream.reset(code),
        }
    }

    /// Waits until the reader needs no more of this stream.
    ///
    /// Gives `Ok` when all of a finished stream was delivered to the other end, or when
    /// it was reset here. The future stands on its own and is cancel safe.
    ///
    /// # Errors
    /// The reader stopped the stream, or the link ended first.
    pub fn stopped(&self) -> impl Future<Output = Result<(), StreamEnd>> + Send + 'static {
        enum Either<A, B> {
            Quic(A),
            Memory(B),
        }
        let which = match &self.kind {
            SendKind::Quic(stream) => Either::Quic(stream.stopped()),
            SendKind::Memory(stream) => Either::Memory(stream.stopped()),
        };
        async move {
            match which {
                Either::Quic(stopped) => crate::quic::stopped_end(stopped.await),
                Either::Memory(stopped) => stopped.await,
            }
        }
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        if !self.ended {
            self.reset(StreamCode::Cancelled);
        }
    }
}

/// The half of a stream that this end reads.
///
/// Dropped before the end of the stream, it stops the writer with
/// [`StreamCode::Cancelled`].
#[derive(Debug)]
pub struct RecvHalf {
    kind: RecvKind,
    stopped: bool,
}

#[derive(Debug)]
enum RecvKind {
    Quic(quinn::RecvStream),
    Memory(MemoryRecv),
}

impl RecvHalf {
    /// The next bytes as they came, at most `max` of them; none at the end of a finished
    /// stream. Cancel safe.
    ///
    /// The chunk may share memory with everything that arrived beside it: pass it on or
    /// copy it, do not keep it.
    ///
    /// # Errors
    /// The writer reset the stream, or the link is over and all that had come is read.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, StreamEnd> {
        if self.stopped {
            return Err(StreamEnd::Reset(StreamCode::Cancelled));
        }
        match &mut self.kind {
            RecvKind::Quic(stream) => match stream.read_chunk(max, true).await {
                Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
                Err(error) => Err(crate::quic::read_end(error)),
            },
            RecvKind::Memory(stream) => stream.read_chunk(max).await,
        }
    }

    /// Asks the writer to write no more, and says why. What had come is thrown away.
    pub fn stop(&mut self, code: StreamCode) {
        self.stopped = true;
        match &mut self.kind {
            // An error means that the stream was over already.
            RecvKind::Quic(stream) => drop(stream.stop(code.number().into())),
            RecvKind::Memory(stream) => stream.stop(code),
        }
    }
}

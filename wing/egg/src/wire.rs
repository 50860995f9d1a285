//! Whole messages over a Unix socket or a pair of pipes, each with its length in front.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::task::coop::consume_budget;
use wt_protocol::limits::MAX_MESSAGE;
use wt_protocol::{Deframer, Prefix, codec, frame};

/// Bytes asked of the stream at once.
const READ_SIZE: usize = 32 * 1024;

/// Both directions of a socket.
///
/// Only that something can be read is watched. The runtime's own halves also watch whether
/// something can be written, which wakes a sender whenever the other end has read: for each
/// key and each echo once too often on either side.
///
/// # Errors
/// What the system says.
pub fn split(socket: UnixStream) -> io::Result<(MessageReader, MessageWriter)> {
    let socket = socket.into_std()?;
    let reader = SocketReader::from_file_unchecked(file(&socket)?)?;
    let writer = SocketWriter { socket, full: None };
    Ok((MessageReader::new(reader), MessageWriter::new(writer)))
}

fn file(socket: &net::UnixStream) -> io::Result<File> {
    Ok(File::from(OwnedFd::from(socket.try_clone()?)))
}

/// The reading half of a socket. The runtime's type for an end of a pipe does for it.
pub type SocketReader = pipe::Receiver;

/// The writing half of a socket. Dropped, it ends this direction.
#[derive(Debug)]
pub struct SocketWriter {
    socket: net::UnixStream,
    /// Watches the socket while it takes nothing more.
    full: Option<pipe::Sender>,
}

impl AsyncWrite for SocketWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(full) = &mut self.full {
                let written = ready!(Pin::new(full).poll_write(context, bytes));
                self.full = None;
                return Poll::Ready(written);
            }
            match (&self.socket).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let watched = pipe::Sender::from_file_unchecked(file(&self.socket)?)?;
                    self.full = Some(watched);
                }
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        // An other end that is gone needs no word of it.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// Reads messages. Safe to cancel between and within messages.
#[derive(Debug)]
pub struct MessageReader<R = SocketReader> {
    stream: R,
    deframer: Deframer,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// Reads from this stream.
    pub fn new(stream: R) -> Self {
        Self::after(stream, &[])
    }

    /// Reads from this stream, of which these bytes were read already.
    pub fn after(stream: R, read: &[u8]) -> Self {
        let mut deframer = Deframer::new(Prefix::U32, MAX_MESSAGE);
        deframer.extend(read);
        Self {
            stream,
            deframer,
            buffer: vec![0; READ_SIZE],
        }
    }

    /// The next message; `None` when the other end closed between two.
    ///
    /// # Errors
    /// A lost connection, or bytes that are no message.
    pub async fn next<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(bytes) = self.deframer.next_frame().map_err(invalid)? {
                return codec::decode(bytes, MAX_MESSAGE).map(Some).map_err(invalid);
            }
            match self.stream.read(&mut self.buffer).await? {
                0 if self.deframer.is_between_frames() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.deframer.extend(&self.buffer[..n]),
            }
        }
    }
}

/// Writes messages. Not safe to cancel within one.
#[derive(Debug)]
pub struct MessageWriter<W = SocketWriter> {
    stream: W,
}

impl<W: AsyncWrite + Unpin> MessageWriter<W> {
    /// Writes to this stream.
    pub fn new(stream: W) -> Self {
        Self { stream }
    }

    /// Sends one message.
    ///
    /// # Errors
    /// A lost connection, or a message over the cap.
    pub async fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        // A socket that is never full would keep its task busy for as long as there is
        // something to send.
        consume_budget().await;
        let bytes = codec::encode(message, MAX_MESSAGE).map_err(invalid)?;
        self.stream.write_all(&frame(Prefix::U32, &bytes)).await?;
        // Nothing for a socket; a standard output would keep it until the next one.
        self.stream.flush().await
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn messages_wait_for_an_end_that_reads_late_and_arrive_whole() {
        let (near, far) = UnixStream::pair().unwrap();
        let (_, mut writer) = split(near).unwrap();
        let (mut reader, _writer) = split(far).unwrap();
        let message = vec![7_u8; 16 * 1024];

        let sending = tokio::spawn(async move {
            for _ in 0..100 {
                writer.send(&message).await.unwrap();
            }
        });
        let mut count = 0;
        while let Some(bytes) = timeout(SOON, reader.next::<Vec<u8>>())
            .await
            .unwrap()
            .unwrap()
        {
            assert_eq!(bytes.len(), 16 * 1024);
            count += 1;
        }

        assert_eq!(count, 100);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn a_dropped_writer_ends_its_direction_and_leaves_the_other() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut reader, writer) = split(near).unwrap();
        let (mut far_reader, mut far_writer) = split(far).unwrap();

        drop(writer);

        let end = timeout(SOON, far_reader.next::<u8>()).await.unwrap();
        assert_eq!(end.unwrap(), None);
        far_writer.send(&5_u8).await.unwrap();
        let message = timeout(SOON, reader.next::<u8>()).await.unwrap();
        assert_eq!(message.unwrap(), Some(5));
    }
}

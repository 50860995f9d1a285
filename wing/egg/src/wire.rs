//! Whole messages over a Unix socket or a pair of pipes, each with its length in front.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use wt_protocol::limits::MAX_MESSAGE;
use wt_protocol::{Deframer, Prefix, codec, frame};

/// Bytes asked of the stream at once.
const READ_SIZE: usize = 32 * 1024;

/// Reads messages. Safe to cancel between and within messages.
#[derive(Debug)]
pub struct MessageReader<R = OwnedReadHalf> {
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
pub struct MessageWriter<W = OwnedWriteHalf> {
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
        let bytes = codec::encode(message, MAX_MESSAGE).map_err(invalid)?;
        self.stream.write_all(&frame(Prefix::U32, &bytes)).await?;
        // Nothing for a socket; a standard output would keep it until the next one.
        self.stream.flush().await
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

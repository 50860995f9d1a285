//! Whole messages over a Unix socket, each with its length in front.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use wt_protocol::limits::MAX_MESSAGE;
use wt_protocol::{Deframer, Prefix, codec, frame};

/// Bytes asked of the socket at once.
const READ_SIZE: usize = 32 * 1024;

/// Reads messages. Safe to cancel between and within messages.
#[derive(Debug)]
pub struct MessageReader {
    socket: OwnedReadHalf,
    deframer: Deframer,
    buffer: Vec<u8>,
}

impl MessageReader {
    /// Reads from this half of a socket.
    pub fn new(socket: OwnedReadHalf) -> Self {
        Self {
            socket,
            deframer: Deframer::new(Prefix::U32, MAX_MESSAGE),
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
            match self.socket.read(&mut self.buffer).await? {
                0 if self.deframer.is_between_frames() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.deframer.extend(&self.buffer[..n]),
            }
        }
    }
}

/// Writes messages. Not safe to cancel within one.
#[derive(Debug)]
pub struct MessageWriter {
    socket: OwnedWriteHalf,
}

impl MessageWriter {
    /// Writes to this half of a socket.
    pub fn new(socket: OwnedWriteHalf) -> Self {
        Self { socket }
    }

    /// Sends one message.
    ///
    /// # Errors
    /// A lost connection, or a message over the cap.
    pub async fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let bytes = codec::encode(message, MAX_MESSAGE).map_err(invalid)?;
        self.socket.write_all(&frame(Prefix::U32, &bytes)).await
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

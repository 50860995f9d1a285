//! What one sealed record holds. A record is one of these, then zero padding.

use serde::{Deserialize, Serialize};

/// The plaintext of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record<'a> {
    /// A whole message, or the last part of one.
    Message(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
    /// A part of a message that the next record continues.
    Part(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
    /// Asks the other end for a sign of life.
    Ping([u8; 16]),
    /// Answers a ping with its own bytes.
    Pong([u8; 16]),
    /// The last record under this key; the sender's next one uses the next key.
    Rekey,
    /// The end of the session. A stream that ends without one was cut.
    Close(Close),
    /// Nothing, in place of a key press, so that a watcher cannot count key presses. A wing
    /// answers as it would answer one, with another of these; a client does not.
    Cover,
}

/// Why a session ended, as its sender says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Close {
    /// All is done.
    Done,
    /// The wing does not admit this client.
    NotAdmitted,
    /// No common version; the sender speaks this one at the newest.
    Version(u16),
    /// A newer attachment took the place of this one.
    Replaced,
    /// The sender is shutting down and will be back.
    Restarting,
    /// The other end broke the protocol.
    Protocol,
}

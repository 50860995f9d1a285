//! Messages between a client and a session: inside the seal over a relay, and bare
//! over the egg's own socket.
//!
//! Input and output are numbered by byte offset, so that a client that was cut off
//! goes on where it stopped: nothing is lost, doubled or reordered.

use serde::{Deserialize, Serialize};

use crate::access::{FromWing, ToWing};
use crate::ids::{AttachmentId, EggEpoch, RequestId, SessionId};
use crate::limits::MAX_TERMINAL_SIDE;
use crate::rpc::{Failure, Request, Response, SessionEvent};

/// From a client. The first one decides what the stream is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// Asks the wing something; may be repeated on one stream.
    Call(Call),
    /// Attaches this stream to a session.
    Attach(Attach),
    /// Bytes typed or pasted, from this offset on.
    Input {
        /// Offset of the first byte in this attachment's input.
        offset: u64,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The client's terminal has this size.
    Resize(Winsize),
    /// The client leaves; the session goes on.
    Detach,
    /// Asks to be told what happens to one session, or to all of them, from here on.
    Watch {
        /// Id, name or unique prefix of the id; all sessions when there is none.
        session: Option<String>,
    },
    /// Who the client is and by what it wants to come in.
    Access(Box<ToWing>),
}

/// From a wing, or from the egg itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WingMessage {
    /// Answers a call.
    Reply(Reply),
    /// The stream is attached.
    Attached(Attached),
    /// Bytes that bring a fresh terminal to the session's state. In as many parts as
    /// it takes; output follows after the last one.
    Snapshot {
        /// Whether this is the last part.
        last: bool,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Output, and how much input was applied. Without bytes it only acknowledges.
    Output {
        /// Offset of the first byte in the session's output.
        offset: u64,
        /// Input of this attachment that was written to the terminal.
        applied: u64,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The session's terminal has this size.
    Resized(Winsize),
    /// Whether this attachment may type.
    Writer(bool),
    /// The session ended.
    Exited(Exit),
    /// A newer stream of the same attachment took over.
    Replaced,
    /// The stream cannot be what was asked for.
    Refused(Failure),
    /// Something happened to a session that is watched.
    Event(SessionEvent),
    /// Whether and how the client may come in, and what changed about that.
    Access(Box<FromWing>),
}

/// A size of a terminal, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Winsize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl Winsize {
    /// What a terminal is taken to have when it does not say: 80 columns, 24 rows.
    pub const DEFAULT: Self = Self { cols: 80, rows: 24 };

    /// Reads a size as a terminal reports it: 0 means unknown, and sides are clipped
    /// to [`MAX_TERMINAL_SIDE`].
    pub fn from_reported(cols: u16, rows: u16) -> Self {
        let side = |reported: u16, default: u16| match reported {
            0 => default,
            n => n.min(MAX_TERMINAL_SIDE),
        };
        Self {
            cols: side(cols, Self::DEFAULT.cols),
            rows: side(rows, Self::DEFAULT.rows),
        }
    }
}

/// Asks a wing something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Names this request; the reply carries it, and an acting request is done once for it.
    pub id: RequestId,
    /// What is asked.
    pub request: Request,
}

/// Answers a [`Call`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The call's id.
    pub id: RequestId,
    /// The answer, or why there is none.
    pub result: Result<Response, Failure>,
}

/// Asks for a session's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// A session's id, name or unique prefix of its id.
    pub session: String,
    /// This terminal, tab or process.
    pub attachment: AttachmentId,
    /// The client's size.
    pub size: Winsize,
    /// The client only watches.
    pub read_only: bool,
    /// The client takes the right to type from whoever has it.
    pub takeover: bool,
    /// Where an earlier stream of this attachment stopped.
    pub resume: Option<Resume>,
}

/// Where an earlier stream of an attachment stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The life of the egg that the offsets belong to.
    pub epoch: EggEpoch,
    /// Offset of the next byte that the user will type.
    pub next: u64,
    /// Input that the egg said it applied.
    pub acked: u64,
    /// Output that the client has.
    pub have: u64,
}

/// The terms of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The session.
    pub session: SessionId,
    /// Its name.
    pub name: String,
    /// The life of the egg that the offsets belong to.
    pub epoch: EggEpoch,
    /// How the output goes on.
    pub history: History,
    /// Input of this attachment that was applied; the client sends again from here.
    pub applied: u64,
    /// Offset of the first output byte that follows (after the snapshot, if there is one).
    pub output: u64,
    /// The session's size.
    pub size: Winsize,
    /// Whether this attachment may type.
    pub writer: bool,
}

/// How the output goes on after an attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum History {
    /// A first attach: a snapshot follows.
    Fresh,
    /// Exactly where the client stopped; no snapshot follows.
    Continued,
    /// The egg no longer has what the client missed: a snapshot follows.
    Skipped {
        /// Bytes that are not shown.
        bytes: u64,
    },
    /// The offsets do not belong to this egg or this client: a snapshot follows, and
    /// input that was under way must not be sent again.
    Differs,
}

/// How a session's program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

impl Exit {
    /// The status with which a client that was attached ends: the program's own, or 128 + signal.
    pub fn status(&self) -> i32 {
        match (self.code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_absurd_sizes_become_usable_ones() {
        assert_eq!(Winsize::from_reported(0, 0), Winsize::DEFAULT);
        assert_eq!(
            Winsize::from_reported(0, 50),
            Winsize { cols: 80, rows: 50 }
        );
        assert_eq!(
            Winsize::from_reported(u16::MAX, 30),
            Winsize {
                cols: MAX_TERMINAL_SIDE,
                rows: 30
            }
        );
    }

    #[test]
    fn a_death_by_signal_ends_clients_with_128_and_the_signal() {
        let exit = |code, signal| {
            Exit {
                code,
                signal,
                at_ms: 0,
            }
            .status()
        };

        assert_eq!(exit(Some(7), None), 7);
        assert_eq!(exit(None, Some(15)), 143);
    }
}

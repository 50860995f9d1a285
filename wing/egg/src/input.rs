//! What waits to be written to the terminal.
//!
//! The terminal may refuse bytes for as long as the program does not read, so a task of
//! its own does the writing, and everyone else only puts bytes here.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use wt_protocol::AttachmentId;

/// Answers to terminal queries that may wait, in bytes. A program that asks and never
/// reads gets no more; 64 KiB is thousands of answers.
const MAX_WAITING_ANSWERS: usize = 64 * 1024;

/// Bytes that may wait without an attachment behind them. Whoever sends more is told to
/// wait by not being answered.
const MAX_WAITING_SENT: usize = 64 * 1024;

/// Bytes of one write. Small, so that what is applied is known closely.
const WRITE_SIZE: usize = 4 * 1024;

/// A piece of input, and whose it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where it came from.
    pub(crate) from: Source,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
}

/// Where input came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An attachment typed it.
    Attachment(AttachmentId),
    /// Somebody sent it without attaching.
    Sent,
    /// It answers a query of the program.
    Answer,
}

/// The queue between the clients and the one task that writes.
#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Piece>,
    waiting_answers: usize,
    waiting_sent: usize,
    closed: bool,
}

impl InputQueue {
    /// Adds typed bytes. Their amount is bounded by the input window of each attachment.
    pub(crate) fn typed(&self, from: AttachmentId, bytes: &[u8]) {
        let mut state = self.lock();
        for part in bytes.chunks(WRITE_SIZE) {
            state.pieces.push_back(Piece {
                from: Source::Attachment(from),
                bytes: part.to_vec(),
            });
        }
        self.filled.notify_one();
    }

    /// Adds input that was sent without an attachment, unless too much of it waits.
    /// Returns whether it was taken.
    pub(crate) fn sent(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.waiting_sent >= MAX_WAITING_SENT {
            return false;
        }
        for part in bytes.chunks(WRITE_SIZE) {
            state.waiting_sent += part.len();
            state.pieces.push_back(Piece {
                from: Source::Sent,
                bytes: part.to_vec(),
            });
        }
        self.filled.notify_one();
        true
    }

    /// Bytes that were sent without an attachment and are not yet written.
    pub(crate) fn waiting_sent(&self) -> usize {
        self.lock().waiting_sent
    }

    /// Notes that a piece was written.
    pub(crate) fn written(&self, piece: &Piece) {
        let mut state = self.lock();
        match piece.from {
            Source::Attachment(_) => {}
            Source::Sent => state.waiting_sent -= piece.bytes.len(),
            Source::Answer => state.waiting_answers -= piece.bytes.len(),
        }
    }

    /// Adds an answer to a query of the program, or drops it whole when too many wait.
    pub(crate) fn answer(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        if bytes.is_empty() || state.waiting_answers + bytes.len() > MAX_WAITING_ANSWERS {
            return;
        }
        state.waiting_answers += bytes.len();
        state.pieces.push_back(Piece {
            from: Source::Answer,
            bytes,
        });
        self.filled.notify_one();
    }

    /// Ends the queue: [`Self::next`] gives nothing from here on.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits for the next piece; `None` after the end. One task waits at a time.
    pub(crate) async fn next(&self) -> Option<Piece> {
        loop {
            {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                if let Some(piece) = state.pieces.pop_front() {
                    return Some(piece);
                }
            }
            // What is added before this line leaves its notice behind.
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing in here can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_keep_their_order_and_owner() {
        let queue = InputQueue::default();
        let ann = AttachmentId::from_bytes([1; 16]);

        queue.typed(ann, &[7; WRITE_SIZE + 1]);
        queue.answer(b"\x1b[?1c".to_vec());

        assert_eq!(
            queue.next().await,
            Some(Piece {
                from: Source::Attachment(ann),
                bytes: vec![7; WRITE_SIZE]
            })
        );
        assert_eq!(
            queue.next().await,
            Some(Piece {
                from: Source::Attachment(ann),
                bytes: vec![7]
            })
        );
        assert_eq!(
            queue.next().await,
            Some(Piece {
                from: Source::Answer,
                bytes: b"\x1b[?1c".to_vec()
            })
        );
    }

    #[tokio::test]
    async fn a_program_that_asks_and_never_reads_cannot_fill_memory() {
        let queue = InputQueue::default();

        for _ in 0..100 {
            queue.answer(vec![0; 1_000]);
        }

        assert_eq!(queue.lock().waiting_answers, 65_000);
        queue.close();
        assert_eq!(queue.next().await, None);
    }
}

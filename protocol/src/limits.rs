//! Every cap that both ends must share, with the reason for its number.
//!
//! Caps that only one end enforces live in the config type of their owner.

use core::time::Duration;

/// Largest plaintext of one sealed record, in bytes.
///
/// 16 KiB is where AES-GCM throughput flattens (larger records gain under 15 %)
/// and the largest WebSocket message that browsers handle at full speed.
pub const MAX_RECORD_PLAINTEXT: usize = 16_384;

/// Bytes that sealing adds to a record: the AES-GCM tag.
pub const RECORD_TAG: usize = 16;

/// Largest sealed record on the wire, in bytes, without its length prefix.
pub const MAX_SEALED_RECORD: usize = MAX_RECORD_PLAINTEXT + RECORD_TAG;

/// Most terminal bytes that one `Output`, `Snapshot` or `Input` message carries.
///
/// Leaves 64 bytes of a full record for the enum tags, offsets and lengths around them.
pub const MAX_CHUNK: usize = MAX_RECORD_PLAINTEXT - 64;

/// Largest message after its parts are put together, in bytes.
///
/// Holds a list of 256 living and 100 ended sessions with room to spare; larger
/// answers (raw output) are read in pages.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Largest page of a raw read, in bytes.
pub const MAX_RAW_PAGE: usize = 256 * 1024;

/// Largest stream header, in bytes. Ids, a nonce and versions need under 64.
pub const MAX_STREAM_HEADER: usize = 512;

/// Largest message on a control stream, in bytes. A token is the largest part.
pub const MAX_CONTROL_MESSAGE: usize = 8 * 1024;

/// Longest access token, in bytes.
pub const MAX_TOKEN: usize = 4 * 1024;

/// Input that a client may have under way without an acknowledgement, in bytes.
///
/// The egg holds this much for each attachment, so it never has to stop reading a
/// socket, and keeps answering pings and resizes during the largest paste. 64 KiB
/// moves 640 KiB/s over a path of 100 ms.
pub const INPUT_WINDOW: u64 = 64 * 1024;

/// How long an egg waits for the echo of an input before it acknowledges without one.
///
/// One answer for each input, at a fixed bound, hides whether the program echoes.
pub const ACK_DELAY: Duration = Duration::from_millis(20);

/// Longest stretch of silence before an end sends a sealed ping.
pub const PING_INTERVAL: Duration = Duration::from_secs(15);

/// A sealed session whose ping is unanswered for this long is dead.
pub const PING_DEADLINE: Duration = Duration::from_secs(40);

/// A handshake that is not finished in this time is dropped.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// A stream header must be complete in this time after the stream opened.
pub const HEADER_DEADLINE: Duration = Duration::from_secs(5);

/// A link must have proved itself in this time after it connected.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// Handshakes that one link may have unfinished at the wing.
///
/// A relay that floods message 1 can make a wing hold this many small states.
pub const MAX_PENDING_HANDSHAKES: usize = 64;

/// A sender changes its key after this many records.
pub const REKEY_RECORDS: u64 = 1 << 20;

/// A sender changes its key after this many sealed bytes.
pub const REKEY_BYTES: u64 = 1 << 30;

/// A sender changes its key after this much time.
pub const REKEY_AGE: Duration = Duration::from_secs(60 * 60);

/// A receiver gives up on a sender that used one key for this many records.
pub const REKEY_RECORDS_MAX: u64 = 1 << 21;

/// A receiver gives up on a sender that used one key for this many bytes.
pub const REKEY_BYTES_MAX: u64 = 2 << 30;

/// Largest terminal side, in cells. A larger size is clipped to it.
///
/// The widest screens in use have under 700 columns; a grid of this size costs 24 MB.
pub const MAX_TERMINAL_SIDE: u16 = 1_000;

/// Longest session name or wing label, in characters.
pub const MAX_NAME: usize = 64;

/// Most arguments of a session's command.
pub const MAX_COMMAND_ARGS: usize = 1_024;

/// Most bytes of a session's command, all arguments together. The kernel takes 2 MiB.
pub const MAX_COMMAND_BYTES: usize = 128 * 1024;

/// Most environment variables that a start request carries.
pub const MAX_ENV_VARS: usize = 512;

/// Longest terminal title that is kept, in bytes.
pub const MAX_TITLE: usize = 1_024;

/// Most scrollback lines that a screen read returns.
pub const MAX_READ_LINES: u32 = 10_000;

/// Most bytes that one request types. Longer input is sent in several requests, each of
/// which is answered once the program can take more.
pub const MAX_SEND: usize = 48 * 1024;

/// Longest wait of one request, in milliseconds. A longer one is asked for again, so that
/// a lost link is noticed.
pub const MAX_WAIT_MS: u32 = 20_000;

/// Longest text or pattern that is waited for, in bytes.
pub const MAX_PATTERN: usize = 4 * 1024;

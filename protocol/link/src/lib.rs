//! The one seam through which wings, clients and relays see a link.
//!
//! A [`Link`] carries many bidirectional streams, each with flow control of its own,
//! over QUIC ([`quic`]) or inside one process ([`memory`]). Both behave alike, and one
//! suite of tests holds them to it: whoever writes against a link need not know which
//! one it got, except that only QUIC can bind a proof to the connection.
//!
//! Beside the streams stand [`FrameReader`] and [`write_frame`] for whatever comes in
//! frames, and [`dial`], the dialling side of the control stream. The relay's side of it
//! lives in `wt-relay`.
//!
//! What this crate deliberately does not do: seal or read what streams carry, decide who
//! may open one, or reconnect. It holds no keys but a relay's certificate key; proofs are
//! signed by functions that the caller passes in.
#![forbid(unsafe_code)]

pub mod dial;
mod framed;
mod link;
pub mod memory;
pub mod quic;

pub use framed::{FrameReader, ReadFrameError, write_frame};
pub use link::{Link, LinkEnd, RecvHalf, SendHalf, StreamEnd};

/// Bytes that one stream may hold for a reader that takes none.
///
/// A larger window is latency: what waits in it is old by the time it is read. 256 KiB
/// still moves 20 Mbit/s over a path of 100 ms.
pub const STREAM_WINDOW: u32 = 256 * 1024;

/// Streams that a peer may have open beyond its routes and the control stream.
///
/// Without them an open over the limit would wait in silence for a stream to end; with
/// them it arrives and gets its answer, `Busy`. They also cover streams that the two
/// ends do not agree yet to be over.
pub const SPARE_STREAMS: u16 = 8;

/// Streams that the other end may have open when so many routes are allowed.
const fn stream_limit(routes: u16) -> u32 {
    routes as u32 + 1 + SPARE_STREAMS as u32
}

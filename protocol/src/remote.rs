//! How a stream to another machine's sessions begins when a remote shell carries it.
//!
//! Login scripts print what they like before the program that was asked for runs. So the
//! serving end first writes [`SYNC_MARK`], then one framed [`ServeHello`]; from there on
//! both ends speak the session messages, framed as over an egg's socket. The asking end
//! says nothing before it has seen the mark, because a login script may also read.

use serde::{Deserialize, Serialize};

/// The bytes after which the stream is ours. No text in any encoding holds them.
pub const SYNC_MARK: [u8; 16] = [
    0xff, 0x00, b'w', b'i', b'n', b'g', 0xfe, 0x00, 0x8d, 0x51, 0xc3, 0x1e, 0xf0, 0x0a, 0xb7, 0x00,
];

/// The version of what follows the mark.
pub const SERVE_VERSION: u16 = 1;

/// The first words of the serving end. Their form is the same in every version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeHello {
    /// The oldest version that it speaks.
    pub oldest: u16,
    /// The newest version that it speaks.
    pub newest: u16,
    /// The program's own version, for people.
    pub program: String,
}

//! Messages between the processes of one machine: over an egg's Unix socket.
//!
//! The session messages are the same as over a relay, without the seal. A user id is
//! no boundary here (an egg's own program has the same one), so the first message
//! carries the 32 bytes of the egg's key file.

use serde::{Deserialize, Serialize};

use crate::ids::{EggEpoch, SessionId};
use crate::rpc::{
    Failure, Principal, ScreenText, SendPart, Sent, SessionEvent, SessionStatus, Until, WaitFrom,
    Waited,
};
use crate::session::{ClientMessage, Exit, WingMessage, Winsize};

/// The version of these messages. Eggs outlive updates of the program around them,
/// so an egg answers every version from 1 up to its own.
pub const LOCAL_VERSION: u16 = 1;

/// To an egg.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToEgg {
    /// Opens the connection.
    Hello(LocalHello),
    /// A message of an attached client.
    Client(ClientMessage),
    /// Asks for the session's state.
    Status,
    /// Asks for the screen as text.
    Screen {
        /// Lines of scrollback before the screen.
        scrollback: u32,
    },
    /// Ends the whole process tree; answered when it is gone.
    Kill,
    /// Gives the session another name. The asker holds the lock on names.
    Rename {
        /// The name it gets.
        name: String,
    },
    /// Types into the terminal; answered when it was taken.
    Send {
        /// The pieces, in order.
        parts: Vec<SendPart>,
    },
    /// Waits; answered when the wait ends.
    Wait {
        /// What ends it.
        until: Until,
        /// Where in the output to look from.
        from: WaitFrom,
        /// How long to wait, in milliseconds.
        timeout_ms: u32,
    },
    /// Signals the program in the foreground.
    Signal(i32),
    /// Gives the terminal another size while nobody is attached.
    Resize(Winsize),
    /// Asks to be told what happens from here on. The connection carries nothing else.
    Watch,
}

/// From an egg.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromEgg {
    /// The key was right.
    Welcome {
        /// The egg's version of these messages.
        version: u16,
        /// The session.
        session: SessionId,
    },
    /// A message for an attached client.
    Wing(WingMessage),
    /// Answers [`ToEgg::Status`].
    Status(Box<EggStatus>),
    /// Answers [`ToEgg::Screen`].
    Screen(ScreenText),
    /// What was asked is done.
    Done,
    /// What was asked was not done.
    Failed(Failure),
    /// Answers [`ToEgg::Send`].
    Sent(Sent),
    /// Answers [`ToEgg::Wait`].
    Waited(Waited),
    /// Something happened.
    Event(SessionEvent),
}

/// Opens a connection to an egg.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalHello {
    /// The version that the asker speaks.
    pub version: u16,
    /// The bytes of the egg's key file.
    pub key: [u8; 32],
    /// On whose behalf the asker speaks.
    pub principal: Principal,
}

impl core::fmt::Debug for LocalHello {
    /// Leaves the key out.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LocalHello")
            .field("version", &self.version)
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

/// An egg's state, as only its own process knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EggStatus {
    /// This life of the egg.
    pub epoch: EggEpoch,
    /// Its state.
    pub status: SessionStatus,
    /// The program's process id.
    pub pid: u32,
    /// The terminal's size.
    pub size: Winsize,
    /// Bytes printed in all.
    pub bytes_written: u64,
    /// The terminal's title.
    pub title: String,
    /// What it wants its user for: `bell` or `notify`.
    pub attention: Option<String>,
    /// Clients that are attached.
    pub clients: u32,
    /// Who may type.
    pub writer: Option<Principal>,
    /// How the program ended, while its egg is still there.
    pub exit: Option<Exit>,
    /// Things its user should know.
    pub notes: Vec<String>,
}

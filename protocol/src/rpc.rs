//! What a client may ask a wing, and what it answers.
//!
//! These are wire types. What users see as JSON is made from them at the edge.

use serde::{Deserialize, Serialize};

use crate::access::{WingRequest, WingResponse};
use crate::ids::WingLabel;
use crate::session::{Exit, Winsize};

/// A request to a wing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Who and what the wing is.
    WingInfo,
    /// All sessions: living, lost and ended.
    Sessions,
    /// Starts a session. Acts once for its request id.
    Start(StartSession),
    /// Ends a session's whole process tree. Acts once for its request id.
    Kill {
        /// Id, name or unique prefix of the id.
        session: String,
    },
    /// Gives a session another name. Acts once for its request id.
    Rename {
        /// Id, name or unique prefix of the id.
        session: String,
        /// The name it gets.
        name: String,
    },
    /// The screen as text.
    Screen {
        /// Id, name or unique prefix of the id.
        session: String,
        /// Lines of scrollback before the screen, at most [`crate::limits::MAX_READ_LINES`].
        scrollback: u32,
    },
    /// A page of the output as it was printed.
    Output {
        /// Id, name or unique prefix of the id.
        session: String,
        /// Offset of the first byte wanted.
        from: u64,
        /// Most bytes wanted, at most [`crate::limits::MAX_RAW_PAGE`].
        max: u32,
    },
    /// Types into a session. Acts once for its request id.
    Send(SendInput),
    /// Waits until something is printed or the session ends.
    Wait(WaitFor),
    /// Sends a signal to the program in the foreground. Acts once for its request id.
    Signal {
        /// Id, name or unique prefix of the id.
        session: String,
        /// The signal's number on the wing's system.
        signal: i32,
    },
    /// Gives a session's terminal another size while nobody is attached. Acts once for
    /// its request id.
    Resize {
        /// Id, name or unique prefix of the id.
        session: String,
        /// The size it gets.
        size: Winsize,
    },
    /// Removes an ended session with its output. Acts once for its request id.
    Remove {
        /// Id, name or unique prefix of the id.
        session: String,
    },
    /// One session.
    Session {
        /// Id, name or unique prefix of the id.
        session: String,
    },
    /// A page of the recording of a session that is recorded, as its file is.
    Recording {
        /// Id, name or unique prefix of the id.
        session: String,
        /// Offset of the first byte wanted.
        from: u64,
        /// Most bytes wanted, at most [`crate::limits::MAX_RAW_PAGE`].
        max: u32,
    },
    /// Starts an agent's session that takes up an earlier conversation. Acts once for its
    /// request id.
    Resume {
        /// What to start; it names an agent.
        start: StartSession,
        /// What the agent takes up.
        conversation: Conversation,
    },
    /// Starts a session inside a boundary that its maker chose. Acts once for its request id.
    StartIn {
        /// What to start.
        start: StartSession,
        /// What an agent takes up.
        conversation: Option<Conversation>,
        /// The boundary.
        boundary: BoundaryChoice,
    },
    /// About the wing itself and who may enter it.
    Wing(WingRequest),
}

impl Request {
    /// Whether doing it twice differs from doing it once.
    pub fn is_acting(&self) -> bool {
        match self {
            Request::Start(_)
            | Request::Resume { .. }
            | Request::StartIn { .. }
            | Request::Kill { .. }
            | Request::Rename { .. }
            | Request::Send(_)
            | Request::Signal { .. }
            | Request::Resize { .. }
            | Request::Remove { .. }
            | Request::Wing(WingRequest::Change(_) | WingRequest::Enrol(_)) => true,
            Request::Wing(WingRequest::Clients | WingRequest::Challenge)
            | Request::WingInfo
            | Request::Sessions
            | Request::Screen { .. }
            | Request::Output { .. }
            | Request::Wait(_)
            | Request::Session { .. }
            | Request::Recording { .. } => false,
        }
    }
}

/// A wing's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// To [`Request::WingInfo`].
    WingInfo(WingInfo),
    /// To [`Request::Sessions`].
    Sessions(Vec<SessionRecord>),
    /// To [`Request::Session`], and to acting requests without an answer of their own: the
    /// session afterwards.
    Session(Box<SessionRecord>),
    /// To [`Request::Screen`].
    Screen(ScreenText),
    /// To [`Request::Output`].
    Output(OutputPage),
    /// To [`Request::Send`].
    Sent(Sent),
    /// To [`Request::Wait`].
    Waited(Waited),
    /// To [`Request::Recording`]; none when the session is not recorded.
    Recording(Option<RecordingPage>),
    /// To [`Request::Wing`].
    Wing(WingResponse),
}

/// What to type into a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// Id, name or unique prefix of the id.
    pub session: String,
    /// The pieces, in order; together at most [`crate::limits::MAX_SEND`] bytes.
    pub parts: Vec<SendPart>,
}

/// A piece of input. How it is encoded is decided when it is typed, by the modes that the
/// program has set at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendPart {
    /// Bytes as they are.
    Raw(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Text as a person types it; a line break in it is pasted if the program takes
    /// bracketed pastes, and typed as Enter otherwise.
    Text(String),
    /// Text as a paste: bracketed if the program asked for that, and never breakable out of.
    Paste(String),
    /// A key by name, as `Enter`, `Up`, `F5` or `C-c`.
    Key(String),
}

/// What became of a [`SendInput`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The session's id.
    pub id: String,
    /// Bytes that were typed.
    pub bytes: u64,
    /// Offset of the session's output before them: where to wait from.
    pub offset: u64,
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFor {
    /// Id, name or unique prefix of the id.
    pub session: String,
    /// What ends the wait.
    pub until: Until,
    /// Where in the output to look from.
    pub from: WaitFrom,
    /// How long to wait, in milliseconds, at most [`crate::limits::MAX_WAIT_MS`]. A longer
    /// wait is asked for again.
    pub timeout_ms: u32,
}

/// What ends a wait, beside the end of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// The printed text, without control sequences, contains this.
    Contains(String),
    /// The printed text, without control sequences, matches this regular expression.
    Regex(String),
    /// Nothing was printed for so many milliseconds.
    Idle(u32),
    /// The session's program ended.
    Exit,
}

/// Where a wait looks from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitFrom {
    /// From the last [`Request::Send`], or from the start when nothing was sent.
    LastSend,
    /// From this moment.
    Now,
    /// From this offset of the output.
    Offset(u64),
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The session's id.
    pub id: String,
    /// Why it ended.
    pub reason: WaitReason,
    /// What was found, for text.
    pub text: Option<String>,
    /// Where in the output it looked from.
    pub from: u64,
    /// Offset of the output at the end of the wait.
    pub offset: u64,
    /// How the program ended, if it did.
    pub exit: Option<Exit>,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// What was waited for came.
    Matched,
    /// The time ran out.
    TimedOut,
    /// The session ended without it.
    Ended,
}

/// Something that happened to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEvent {
    /// The session's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What happened.
    pub what: SessionChange,
}

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionChange {
    /// It was started, or was there when the watching began.
    Started,
    /// A client attached; so many are attached.
    Attached(u32),
    /// A client left; so many are attached.
    Detached(u32),
    /// It wants its user: `bell`, `notify` or `prompt`, with the text of a notification.
    Attention {
        /// The kind.
        kind: String,
        /// The notification's text.
        text: Option<String>,
    },
    /// Its terminal has another title.
    Title(String),
    /// It has another name.
    Renamed,
    /// Its program ended.
    Exited(Exit),
    /// Its supervisor is gone without a record of the end.
    Lost,
}

/// Who and what a wing is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WingInfo {
    /// What it calls itself.
    pub label: WingLabel,
    /// The machine's host name.
    pub hostname: String,
    /// Operating system and architecture, as `linux/x86_64`.
    pub platform: String,
    /// The version of wingthing it runs.
    pub version: String,
    /// How it decides whom to admit: `approve`, `relay` or `locked`.
    pub admission: String,
    /// Living sessions.
    pub sessions: u32,
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSession {
    /// The session's name; the wing makes one when there is none.
    pub name: Option<String>,
    /// The command and its arguments; the login shell when empty.
    pub command: Vec<String>,
    /// Where it starts; the wing's default when there is none.
    pub cwd: Option<String>,
    /// Variables for it beyond the wing's own.
    pub env: Vec<(String, String)>,
    /// Its terminal's first size.
    pub size: Winsize,
    /// The agent that it runs, by its profile's name; `command` then holds its arguments.
    pub agent: Option<String>,
    /// Whether it is recorded with times.
    pub record: bool,
}

/// What a session's maker says of what holds it. Nothing said is the sandbox, by the policy
/// of the place where it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryChoice {
    /// Nothing holds it: the machine around it is the boundary.
    pub unsandboxed: bool,
    /// A file in place of the user's own `egg.yaml`, a path on the wing.
    pub config: Option<String>,
    /// Whether system calls that are refused are logged.
    pub trace: bool,
}

/// A conversation of an agent's, in its own records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conversation {
    /// The last one that it had in that folder.
    Last,
    /// The one that the agent gave this identity.
    Id(String),
}

/// A session as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Immutable id.
    pub id: String,
    /// Name.
    pub name: String,
    /// What kind of program it runs.
    pub kind: SessionKind,
    /// The agent's name, for an agent.
    pub agent: Option<String>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// Its state.
    pub status: SessionStatus,
    /// What holds it.
    pub isolation: Isolation,
    /// The program's process id, as the host sees it.
    pub pid: Option<u32>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// Who made it.
    pub created_by: Principal,
    /// Its terminal's size.
    pub size: Winsize,
    /// Bytes it printed in all.
    pub bytes_written: u64,
    /// Its terminal's title.
    pub title: String,
    /// What it wants its user for, if it does: `bell` or `notify`.
    pub attention: Option<String>,
    /// Clients that are attached.
    pub clients: u32,
    /// Who may type.
    pub writer: Option<Principal>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Things its user should know, each one sentence.
    pub notes: Vec<String>,
}

/// What kind of program a session runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// The login shell.
    Shell,
    /// A command given by its user.
    Command,
    /// An AI agent by its profile.
    Agent,
}

/// A session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// Its process is being made.
    Starting,
    /// Its program runs.
    Running,
    /// Its program is stopped.
    Frozen,
    /// Its program ended by itself.
    Exited,
    /// Its program was ended by a signal.
    Killed,
    /// Its supervisor is gone without a record of the end.
    Lost,
    /// It belongs to another machine that shares the profile; nothing is known of its
    /// processes.
    Foreign,
}

impl SessionStatus {
    /// Whether the session still has a process.
    pub fn is_living(self) -> bool {
        match self {
            SessionStatus::Starting | SessionStatus::Running | SessionStatus::Frozen => true,
            SessionStatus::Exited
            | SessionStatus::Killed
            | SessionStatus::Lost
            | SessionStatus::Foreign => false,
        }
    }
}

/// What boundary holds a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Nothing but the user's own rights.
    None,
    /// Namespaces of the kernel.
    Namespace,
    /// A container.
    Container,
    /// A virtual machine.
    Vm,
    /// The sandbox of macOS.
    Seatbelt,
    /// The machine around it, as its user said.
    OuterBoundary,
}

/// Who does something to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// How they came.
    pub kind: PrincipalKind,
    /// Who: a user name, or a client key.
    pub id: String,
}

/// How somebody came to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// The command line on the same machine.
    Cli,
    /// A client through a relay.
    Client,
    /// A program through MCP.
    Mcp,
}

/// A screen as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenText {
    /// The session's id.
    pub id: String,
    /// Lines, oldest first: scrollback, then the screen.
    pub lines: Vec<String>,
    /// How many of the lines are scrollback.
    pub scrollback: u32,
    /// Cursor row on the screen, from 0.
    pub cursor_row: u16,
    /// Cursor column, from 0.
    pub cursor_col: u16,
    /// Whether the cursor shows.
    pub cursor_visible: bool,
    /// The terminal's size.
    pub size: Winsize,
    /// The terminal's title.
    pub title: String,
    /// Modes that are on, by name.
    pub modes: Vec<String>,
    /// Output offset that this is the state of.
    pub offset: u64,
    /// Offset of the oldest output byte that is still kept; 0 when nothing was cut.
    pub truncated_before: u64,
}

/// A piece of a session's output, as it was printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPage {
    /// The session's id.
    pub id: String,
    /// Offset of the first byte here; later than asked when older output was dropped.
    pub offset: u64,
    /// Offset after the newest byte that there is.
    pub end: u64,
    /// Offset of the oldest byte that is still kept.
    pub truncated_before: u64,
    /// The bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// A piece of a session's recording, as its file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingPage {
    /// The session's id.
    pub id: String,
    /// Length of the file.
    pub end: u64,
    /// The bytes, from the offset that was asked for on; none at the end.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind, which decides the exit code of a command.
    pub kind: FailureKind,
    /// What failed and why, in one sentence.
    pub message: String,
    /// One thing to try.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds one thing to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Kinds of failure, by what the asker can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// It was tried and did not work.
    Failed,
    /// The request is wrong in itself.
    Invalid,
    /// No session of that name, or more than one.
    NotFound,
    /// Not allowed.
    Refused,
    /// The session's process does not answer.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// The command does not exist.
    CommandNotFound,
    /// The command cannot be run.
    CommandNotRunnable,
    /// A guard could not be set up.
    NotEnforced,
}

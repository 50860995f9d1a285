// Messages between a client and a wing, inside the seal.
//
// Input and output are numbered by byte offset, so that a client that was cut off goes on
// where it stopped. Times are milliseconds since the Unix epoch. Sessions are named by
// their id, their name or a unique prefix of the id.

import { FromWingCodec, ToWingCodec, WingRequestCodec, WingResponseCodec } from "./access.ts";
import {
  bool,
  bytes,
  type Codec,
  has,
  holds,
  i32,
  list,
  names,
  type Of,
  option,
  pair,
  struct,
  text,
  u16,
  u32,
  u64,
  unit,
  variants,
} from "./codec.ts";
import { AttachmentIdCodec, EggEpochCodec, RequestIdCodec, SessionIdCodec, WingLabelCodec } from "./ids.ts";

export const WinsizeCodec = struct({
  /** Columns. */
  cols: u16,
  /** Rows. */
  rows: u16,
});

/** A size of a terminal, in cells. */
export type Winsize = Of<typeof WinsizeCodec>;

export const ExitCodec = struct({
  /** Its exit code, when it ended by itself. */
  code: option(i32),
  /** The signal that ended it. */
  signal: option(i32),
  /** When. */
  atMs: u64,
});

/** How a session's program ended. */
export type Exit = Of<typeof ExitCodec>;

export const FailureKindCodec = names(
  "Failed",
  "Invalid",
  "NotFound",
  "Refused",
  "Unreachable",
  "TimedOut",
  "CommandNotFound",
  "CommandNotRunnable",
  "NotEnforced",
);

/** Kinds of failure, by what the asker can do about them. */
export type FailureKind = Of<typeof FailureKindCodec>;

export const FailureCodec = struct({
  /** The kind. */
  kind: FailureKindCodec,
  /** What failed and why, in one sentence. */
  message: text,
  /** One thing to try. */
  hint: option(text),
});

/** Why a request was not done. */
export type Failure = Of<typeof FailureCodec>;

export const PrincipalKindCodec = names("Cli", "Client", "Mcp");

/** How somebody came to a session. */
export type PrincipalKind = Of<typeof PrincipalKindCodec>;

export const PrincipalCodec = struct({
  /** How they came. */
  kind: PrincipalKindCodec,
  /** Who: a user name, or a client key. */
  id: text,
});

/** Who does something to a session. */
export type Principal = Of<typeof PrincipalCodec>;

export const SessionKindCodec = names("Shell", "Command", "Agent");

/** What kind of program a session runs. */
export type SessionKind = Of<typeof SessionKindCodec>;

export const SessionStatusCodec = names("Starting", "Running", "Frozen", "Exited", "Killed", "Lost", "Foreign");

/** A session's state. */
export type SessionStatus = Of<typeof SessionStatusCodec>;

export const IsolationCodec = names("None", "Namespace", "Container", "Vm", "Seatbelt", "OuterBoundary");

/** What boundary holds a session. */
export type Isolation = Of<typeof IsolationCodec>;

export const SessionRecordCodec = struct({
  /** Immutable id. */
  id: text,
  /** Name. */
  name: text,
  /** What kind of program it runs. */
  kind: SessionKindCodec,
  /** The agent's name, for an agent. */
  agent: option(text),
  /** The command and its arguments. */
  command: list(text),
  /** Where it was started. */
  cwd: text,
  /** Its state. */
  status: SessionStatusCodec,
  /** What holds it. */
  isolation: IsolationCodec,
  /** The program's process id, as the host sees it. */
  pid: option(u32),
  /** When it was made. */
  createdAtMs: u64,
  /** Who made it. */
  createdBy: PrincipalCodec,
  /** Its terminal's size. */
  size: WinsizeCodec,
  /** Bytes it printed in all. */
  bytesWritten: u64,
  /** Its terminal's title. */
  title: text,
  /** What it wants its user for, if it does: `bell` or `notify`. */
  attention: option(text),
  /** Clients that are attached. */
  clients: u32,
  /** Who may type. */
  writer: option(PrincipalCodec),
  /** How it ended. */
  exit: option(ExitCodec),
  /** Things its user should know, each one sentence. */
  notes: list(text),
});

/** A session as it is listed. */
export type SessionRecord = Of<typeof SessionRecordCodec>;

export const StartSessionCodec = struct({
  /** The session's name; the wing makes one when there is none. */
  name: option(text),
  /** The command and its arguments; the login shell when empty. */
  command: list(text),
  /** Where it starts; the wing's default when there is none. */
  cwd: option(text),
  /** Variables for it beyond the wing's own. */
  env: list(pair(text, text)),
  /** Its terminal's first size. */
  size: WinsizeCodec,
  /** The agent that it runs, by its profile's name; `command` then holds its arguments. */
  agent: option(text),
  /** Whether it is recorded with times. */
  record: bool,
});

/** What to start. */
export type StartSession = Of<typeof StartSessionCodec>;

export const ConversationCodec = variants({
  /** The last one that it had in that folder. */
  Last: unit,
  /** The one that the agent gave this identity. */
  Id: holds(text),
});

/** A conversation of an agent's, in its own records. */
export type Conversation = Of<typeof ConversationCodec>;

export const BoundaryChoiceCodec = struct({
  /** Nothing holds it: the machine around it is the boundary. */
  unsandboxed: bool,
  /** A file in place of the user's own `egg.yaml`, a path on the wing. */
  config: option(text),
  /** Whether system calls that are refused are logged. */
  trace: bool,
});

/** What a session's maker says of what holds it. */
export type BoundaryChoice = Of<typeof BoundaryChoiceCodec>;

export const SendPartCodec = variants({
  /** Bytes as they are. */
  Raw: holds(bytes),
  /** Text as a person types it. */
  Text: holds(text),
  /** Text as a paste. */
  Paste: holds(text),
  /** A key by name, as `Enter`, `Up`, `F5` or `C-c`. */
  Key: holds(text),
});

/** A piece of input, encoded when it is typed, by the modes that the program has set then. */
export type SendPart = Of<typeof SendPartCodec>;

export const UntilCodec = variants({
  /** The printed text, without control sequences, contains this. */
  Contains: holds(text),
  /** The printed text, without control sequences, matches this regular expression. */
  Regex: holds(text),
  /** Nothing was printed for so many milliseconds. */
  Idle: holds(u32),
  /** The session's program ended. */
  Exit: unit,
});

/** What ends a wait, beside the end of the session. */
export type Until = Of<typeof UntilCodec>;

export const WaitFromCodec = variants({
  /** From the last input that was sent, or from the start. */
  LastSend: unit,
  /** From this moment. */
  Now: unit,
  /** From this offset of the output. */
  Offset: holds(u64),
});

/** Where a wait looks from. */
export type WaitFrom = Of<typeof WaitFromCodec>;

export const RequestCodec = variants({
  /** Who and what the wing is. */
  WingInfo: unit,
  /** All sessions: living, lost and ended. */
  Sessions: unit,
  /** Starts a session. Acts once for its request id. */
  Start: holds(StartSessionCodec),
  /** Ends a session's whole process tree. Acts once for its request id. */
  Kill: has({ session: text }),
  /** Gives a session another name. Acts once for its request id. */
  Rename: has({ session: text, name: text }),
  /** The screen as text, with so many lines of scrollback before it. */
  Screen: has({ session: text, scrollback: u32 }),
  /** A page of the output as it was printed. */
  Output: has({ session: text, from: u64, max: u32 }),
  /** Types into a session. Acts once for its request id. */
  Send: has({ session: text, parts: list(SendPartCodec) }),
  /** Waits until something is printed or the session ends. */
  Wait: has({ session: text, until: UntilCodec, from: WaitFromCodec, timeoutMs: u32 }),
  /** Sends a signal to the program in the foreground. Acts once for its request id. */
  Signal: has({ session: text, signal: i32 }),
  /** Gives a session's terminal another size while nobody is attached. Acts once for its request id. */
  Resize: has({ session: text, size: WinsizeCodec }),
  /** Removes an ended session with its output. Acts once for its request id. */
  Remove: has({ session: text }),
  /** One session. */
  Session: has({ session: text }),
  /** A page of the recording of a session that is recorded, as its file is. */
  Recording: has({ session: text, from: u64, max: u32 }),
  /** Starts an agent's session that takes up an earlier conversation. Acts once for its request id. */
  Resume: has({ start: StartSessionCodec, conversation: ConversationCodec }),
  /** Starts a session inside a boundary that its maker chose. Acts once for its request id. */
  StartIn: has({
    start: StartSessionCodec,
    conversation: option(ConversationCodec),
    boundary: BoundaryChoiceCodec,
  }),
  /** About the wing itself and who may enter it; owners only. */
  Wing: holds(WingRequestCodec),
});

/** A request to a wing. */
export type Request = Of<typeof RequestCodec>;

export const WingInfoCodec = struct({
  /** What it calls itself. */
  label: WingLabelCodec,
  /** The machine's host name. */
  hostname: text,
  /** Operating system and architecture, as `linux/x86_64`. */
  platform: text,
  /** The version of wingthing it runs. */
  version: text,
  /** How it decides whom to admit: `approve`, `relay` or `locked`. */
  admission: text,
  /** Living sessions. */
  sessions: u32,
});

/** Who and what a wing is. */
export type WingInfo = Of<typeof WingInfoCodec>;

export const ScreenTextCodec = struct({
  /** The session's id. */
  id: text,
  /** Lines, oldest first: scrollback, then the screen. */
  lines: list(text),
  /** How many of the lines are scrollback. */
  scrollback: u32,
  /** Cursor row on the screen, from 0. */
  cursorRow: u16,
  /** Cursor column, from 0. */
  cursorCol: u16,
  /** Whether the cursor shows. */
  cursorVisible: bool,
  /** The terminal's size. */
  size: WinsizeCodec,
  /** The terminal's title. */
  title: text,
  /** Modes that are on, by name. */
  modes: list(text),
  /** Output offset that this is the state of. */
  offset: u64,
  /** Offset of the oldest output byte that is still kept; 0 when nothing was cut. */
  truncatedBefore: u64,
});

/** A screen as text. */
export type ScreenText = Of<typeof ScreenTextCodec>;

export const OutputPageCodec = struct({
  /** The session's id. */
  id: text,
  /** Offset of the first byte here; later than asked when older output was dropped. */
  offset: u64,
  /** Offset after the newest byte that there is. */
  end: u64,
  /** Offset of the oldest byte that is still kept. */
  truncatedBefore: u64,
  /** The bytes. */
  bytes,
});

/** A piece of a session's output, as it was printed. */
export type OutputPage = Of<typeof OutputPageCodec>;

export const SentCodec = struct({
  /** The session's id. */
  id: text,
  /** Bytes that were typed. */
  bytes: u64,
  /** Offset of the session's output before them: where to wait from. */
  offset: u64,
});

/** What became of input that was sent. */
export type Sent = Of<typeof SentCodec>;

export const WaitReasonCodec = names("Matched", "TimedOut", "Ended");

export const WaitedCodec = struct({
  /** The session's id. */
  id: text,
  /** Why it ended. */
  reason: WaitReasonCodec,
  /** What was found, for text. */
  text: option(text),
  /** Where in the output it looked from. */
  from: u64,
  /** Offset of the output at the end of the wait. */
  offset: u64,
  /** How the program ended, if it did. */
  exit: option(ExitCodec),
});

/** How a wait ended. */
export type Waited = Of<typeof WaitedCodec>;

export const RecordingPageCodec = struct({
  /** The session's id. */
  id: text,
  /** Length of the file. */
  end: u64,
  /** The bytes, from the offset that was asked for on; none at the end. */
  bytes,
});

/** A piece of a session's recording, as its file is. */
export type RecordingPage = Of<typeof RecordingPageCodec>;

export const ResponseCodec = variants({
  /** Who and what the wing is. */
  WingInfo: holds(WingInfoCodec),
  /** All sessions. */
  Sessions: holds(list(SessionRecordCodec)),
  /** One session, and the answer to acting requests without one of their own: the session afterwards. */
  Session: holds(SessionRecordCodec),
  /** The screen. */
  Screen: holds(ScreenTextCodec),
  /** A page of output. */
  Output: holds(OutputPageCodec),
  /** What became of input. */
  Sent: holds(SentCodec),
  /** How a wait ended. */
  Waited: holds(WaitedCodec),
  /** A page of the recording; none when the session is not recorded. */
  Recording: holds(option(RecordingPageCodec)),
  /** About the wing itself. */
  Wing: holds(WingResponseCodec),
});

/** A wing's answer. */
export type Response = Of<typeof ResponseCodec>;

export const SessionChangeCodec = variants({
  /** It was started, or was there when the watching began. */
  Started: unit,
  /** A client attached; so many are attached. */
  Attached: holds(u32),
  /** A client left; so many are attached. */
  Detached: holds(u32),
  /** It wants its user: `bell`, `notify` or `prompt`, with the text of a notification. */
  Attention: has({ kind: text, text: option(text) }),
  /** Its terminal has another title. */
  Title: holds(text),
  /** It has another name. */
  Renamed: unit,
  /** Its program ended. */
  Exited: holds(ExitCodec),
  /** Its supervisor is gone without a record of the end. */
  Lost: unit,
});

/** What happened to a session. */
export type SessionChange = Of<typeof SessionChangeCodec>;

export const SessionEventCodec = struct({
  /** The session's id. */
  id: text,
  /** Its name. */
  name: text,
  /** When. */
  atMs: u64,
  /** What happened. */
  what: SessionChangeCodec,
});

/** Something that happened to a session. */
export type SessionEvent = Of<typeof SessionEventCodec>;

export const ResumeCodec = struct({
  /** The life of the egg that the offsets belong to. */
  epoch: EggEpochCodec,
  /** Offset of the next byte that the user will type. */
  next: u64,
  /** Input that the egg said it applied. */
  acked: u64,
  /** Output that the client has. */
  have: u64,
});

/** Where an earlier stream of an attachment stopped. */
export type Resume = Of<typeof ResumeCodec>;

export const AttachCodec = struct({
  /** The session. */
  session: text,
  /** This terminal, tab or process. */
  attachment: AttachmentIdCodec,
  /** The client's size. */
  size: WinsizeCodec,
  /** The client only watches. */
  readOnly: bool,
  /** The client takes the right to type from whoever has it. */
  takeover: bool,
  /** Where an earlier stream of this attachment stopped. */
  resume: option(ResumeCodec),
});

/** Asks for a session's terminal. */
export type Attach = Of<typeof AttachCodec>;

export const HistoryCodec = variants({
  /** A first attach: a snapshot follows. */
  Fresh: unit,
  /** Exactly where the client stopped; no snapshot follows. */
  Continued: unit,
  /** The egg no longer has so many bytes that the client missed: a snapshot follows. */
  Skipped: has({ bytes: u64 }),
  /** The offsets do not belong to this egg or this client: a snapshot follows, and input that was under way must not be sent again. */
  Differs: unit,
});

/** How the output goes on after an attach. */
export type History = Of<typeof HistoryCodec>;

export const AttachedCodec = struct({
  /** The session. */
  session: SessionIdCodec,
  /** Its name. */
  name: text,
  /** The life of the egg that the offsets belong to. */
  epoch: EggEpochCodec,
  /** How the output goes on. */
  history: HistoryCodec,
  /** Input of this attachment that was applied; the client sends again from here. */
  applied: u64,
  /** Offset of the first output byte that follows (after the snapshot, if there is one). */
  output: u64,
  /** The session's size. */
  size: WinsizeCodec,
  /** Whether this attachment may type. */
  writer: bool,
});

/** The terms of an attachment. */
export type Attached = Of<typeof AttachedCodec>;

export const ClientMessageCodec = variants({
  /** Asks the wing something; may be repeated on one stream. The reply carries the id. */
  Call: has({ id: RequestIdCodec, request: RequestCodec }),
  /** Attaches this stream to a session. */
  Attach: holds(AttachCodec),
  /** Bytes typed or pasted, from this offset in the attachment's input on. */
  Input: has({ offset: u64, bytes }),
  /** The client's terminal has this size. */
  Resize: holds(WinsizeCodec),
  /** The client leaves; the session goes on. */
  Detach: unit,
  /** Asks to be told what happens to one session, or to all of them, from here on. */
  Watch: has({ session: option(text) }),
  /** Who the client is and by what it wants to come in. */
  Access: holds(ToWingCodec),
});

/** From a client. The first one decides what the stream is for. */
export type ClientMessage = Of<typeof ClientMessageCodec>;

/** The answer to a request, or why there is none. */
export type Outcome = { readonly type: "Ok"; readonly value: Response } | { readonly type: "Err"; readonly value: Failure };

const OutcomeCodec: Codec<Outcome> = variants({ Ok: holds(ResponseCodec), Err: holds(FailureCodec) });

export const WingMessageCodec = variants({
  /** Answers a call. */
  Reply: has({ id: RequestIdCodec, result: OutcomeCodec }),
  /** The stream is attached. */
  Attached: holds(AttachedCodec),
  /** Bytes that bring a fresh terminal to the session's state, in as many parts as it takes. */
  Snapshot: has({ last: bool, bytes }),
  /** Output from this offset on, and how much input of this attachment was applied. Without bytes it only acknowledges. */
  Output: has({ offset: u64, applied: u64, bytes }),
  /** The session's terminal has this size. */
  Resized: holds(WinsizeCodec),
  /** Whether this attachment may type. */
  Writer: holds(bool),
  /** The session ended. */
  Exited: holds(ExitCodec),
  /** A newer stream of the same attachment took over. */
  Replaced: unit,
  /** The stream cannot be what was asked for. */
  Refused: holds(FailureCodec),
  /** Something happened to a session that is watched. */
  Event: holds(SessionEventCodec),
  /** Whether and how the client may come in, and what changed about that. */
  Access: holds(FromWingCodec),
});

/** From a wing. */
export type WingMessage = Of<typeof WingMessageCodec>;

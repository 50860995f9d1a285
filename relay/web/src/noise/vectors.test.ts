// Replays the committed golden vectors: every message, every layout that is signed, and a
// whole handshake with its first records, each byte for byte.

import { readFileSync } from "node:fs";

import { afterEach, describe, expect, it, vi } from "vitest";

import { fill, frames, hex, known, ROOT, vectors, Wing } from "../../test/support.ts";
import {
  ActCodec,
  ActorCodec,
  AccessChangeCodec,
  AnnouncedCodec,
  ClientKindCodec,
  FromWingCodec,
  SourceCodec,
  ToWingCodec,
  WingRequestCodec,
  WingResponseCodec,
} from "./access.ts";
import { type Bytes, base32, concat, utf8 } from "./bytes.ts";
import {
  array,
  type Codec,
  DecodeError,
  decode,
  encode,
  has,
  holds,
  i32,
  list,
  option,
  struct,
  text,
  u16,
  u32,
  u64,
  unit,
  variants,
} from "./codec.ts";
import { FromRelayCodec, ProofModeCodec, RoleCodec, ToRelayCodec } from "./control.ts";
import { frame } from "./deframer.ts";
import { Initiator, prologue, respond, SUITE } from "./handshake.ts";
import { EggEpochCodec, type RouteNonce, roostIdOf, SessionIdCodec, wingIdOf } from "./ids.ts";
import { type ClientSecret, verifyStatement } from "./keys.ts";
import * as limits from "./limits.ts";
import {
  ClientMessageCodec,
  ExitCodec,
  FailureCodec,
  FailureKindCodec,
  HistoryCodec,
  IsolationCodec,
  PrincipalCodec,
  PrincipalKindCodec,
  RequestCodec,
  ResponseCodec,
  ScreenTextCodec,
  SendPartCodec,
  SentCodec,
  SessionEventCodec,
  SessionKindCodec,
  SessionStatusCodec,
  UntilCodec,
  WaitedCodec,
  WaitFromCodec,
  WingMessageCodec,
  WinsizeCodec,
} from "./messages.ts";
import { CloseCodec, RecordCodec, StreamHeaderCodec } from "./records.ts";
import { DEFAULT_LIMITS } from "./session.ts";
import {
  clientKeyVouch,
  grantBytes,
  inviteBytes,
  noiseKeyStatement,
  passkeyBytes,
  relayProof,
  revocationBytes,
  sasBytes,
  sasCommitmentBytes,
  successorBytes,
} from "./signed.ts";

// Messages of an egg's own socket, which no browser speaks: written out here alone, so that
// the rules of the format are held to them too.

const StatusCodec = struct({
  epoch: EggEpochCodec,
  status: SessionStatusCodec,
  pid: u32,
  size: WinsizeCodec,
  bytesWritten: u64,
  title: text,
  attention: option(text),
  clients: u32,
  writer: option(PrincipalCodec),
  exit: option(ExitCodec),
  notes: list(text),
});
const ToEggCodec = variants({
  Hello: has({ version: u16, key: array(32), principal: PrincipalCodec }),
  Client: holds(ClientMessageCodec),
  Status: unit,
  Screen: has({ scrollback: u32 }),
  Kill: unit,
  Rename: has({ name: text }),
  Send: has({ parts: list(SendPartCodec) }),
  Wait: has({ until: UntilCodec, from: WaitFromCodec, timeoutMs: u32 }),
  Signal: holds(i32),
  Resize: holds(WinsizeCodec),
  Watch: unit,
});
const FromEggCodec = variants({
  Welcome: has({ version: u16, session: SessionIdCodec }),
  Wing: holds(WingMessageCodec),
  Status: holds(StatusCodec),
  Screen: holds(ScreenTextCodec),
  Done: unit,
  Failed: holds(FailureCodec),
  Sent: holds(SentCodec),
  Waited: holds(WaitedCodec),
  Event: holds(SessionEventCodec),
});
const ServeHelloCodec = struct({ oldest: u16, newest: u16, program: text });

const CODECS: Readonly<Record<string, Codec<unknown>>> = {
  StreamHeader: StreamHeaderCodec,
  Role: RoleCodec,
  ProofMode: ProofModeCodec,
  ToRelay: ToRelayCodec,
  FromRelay: FromRelayCodec,
  Record: RecordCodec,
  Close: CloseCodec,
  ClientMessage: ClientMessageCodec,
  WingMessage: WingMessageCodec,
  History: HistoryCodec,
  Request: RequestCodec,
  Response: ResponseCodec,
  SessionKind: SessionKindCodec,
  SessionStatus: SessionStatusCodec,
  Isolation: IsolationCodec,
  PrincipalKind: PrincipalKindCodec,
  FailureKind: FailureKindCodec,
  ToEgg: ToEggCodec,
  FromEgg: FromEggCodec,
  ToWing: ToWingCodec,
  FromWing: FromWingCodec,
  WingRequest: WingRequestCodec,
  WingResponse: WingResponseCodec,
  Change: AccessChangeCodec,
  Act: ActCodec,
  Actor: ActorCodec,
  Announced: AnnouncedCodec,
  Source: SourceCodec,
  ClientKind: ClientKindCodec,
} as Readonly<Record<string, Codec<unknown>>>;

// The values that the samples stand for.

const WING = "gq3qm6xmjeb5ru6c7q6e7p2f3r";
const SESSION = "aebagbafaydq";
const SIZE = { cols: 200, rows: 50 };
const EPOCH = fill(16, 11);
const REQUEST = fill(16, 12);
const EXIT = { code: -1, signal: null, atMs: 1_700_000_000_000n };
const ADA = { kind: "Cli", id: "ada" };
const FAILURE = { kind: "NotFound", message: 'no session "x"', hint: "wt list" };
const SENT = { id: SESSION, bytes: 3n, offset: 300n };
const PARTS = [
  { type: "Raw", value: utf8("\0a") },
  { type: "Text", value: "ls" },
  { type: "Paste", value: "a\nb" },
  { type: "Key", value: "C-c" },
];
const SCREEN = {
  id: SESSION,
  lines: ["$ ls", "é"],
  scrollback: 1,
  cursorRow: 2,
  cursorCol: 300,
  cursorVisible: true,
  size: SIZE,
  title: "sh",
  modes: ["bracketed-paste"],
  offset: 70_000n,
  truncatedBefore: 0n,
};
const LIVING = {
  id: SESSION,
  name: "work",
  kind: "Command",
  agent: null,
  command: ["vi"],
  cwd: "/srv",
  status: "Running",
  isolation: "None",
  pid: 4_242,
  createdAtMs: 1_700_000_000_000n,
  createdBy: ADA,
  size: SIZE,
  bytesWritten: 70_000n,
  title: "vi",
  attention: "notify",
  clients: 1,
  writer: ADA,
  exit: null,
  notes: [],
};
const ENDED = {
  ...LIVING,
  kind: "Agent",
  agent: "scribe",
  status: "Killed",
  pid: null,
  attention: null,
  clients: 0,
  writer: null,
  exit: { code: null, signal: 9, atMs: 1_700_000_000_001n },
  notes: ["A note."],
};
const STATUS = {
  epoch: EPOCH,
  status: "Running",
  pid: 4_242,
  size: SIZE,
  bytesWritten: 70_000n,
  title: "vi",
  attention: null,
  clients: 2,
  writer: ADA,
  exit: null,
  notes: [],
};
const AGENT = { name: null, command: ["-v"], cwd: null, env: [], size: SIZE, agent: "claude", record: false };
const ATTACH = { session: "work", attachment: fill(16, 1), size: SIZE, readOnly: false, takeover: true, resume: null };
const PROOF = { token: "a.b.c", device: fill(32, 4), deviceSignature: fill(64, 5), wing: null };
const versions = (min: number, max: number) => ({ min, max });
const hello = (role: unknown, mode: string) => ({
  type: "Hello",
  value: { versions: versions(1, 1), role, instance: fill(16, 2), clientNonce: fill(32, 3), mode },
});
const attached = (history: unknown) => ({
  type: "Attached",
  value: {
    session: SESSION,
    name: "work",
    epoch: EPOCH,
    history,
    applied: 1n,
    output: 2n,
    size: SIZE,
    writer: true,
  },
});
const event = (what: unknown) => ({ id: SESSION, name: "work", atMs: 1_800_000_000_000n, what });
const waited = (reason: string) => ({
  id: SESSION,
  reason,
  text: reason === "Matched" ? "ready" : null,
  from: 100n,
  offset: 300n,
  exit: reason === "Ended" ? EXIT : null,
});
const value = (type: string, value: unknown) => ({ type, value });
const session = "work";
const SECOND = await wingIdOf(fill(32, 8) as never);
const CLIENT = fill(32, 5);
const ROOST = await roostIdOf("https://roost.example", fill(32, 6) as never);
const TERMS = { role: "Operator", paths: ["/srv"], expiresAtMs: 1_800_000_000_000n };
const ALLOW = {
  client: CLIENT,
  device: fill(32, 4),
  name: "laptop",
  kind: "Browser",
  user: "ada",
  terms: TERMS,
  hardware: false,
};
const PASSKEY = {
  credential: fill(16, 3),
  publicKey: Uint8Array.of(0xa4, 1, 1),
  holder: "ada",
  name: "key",
  origin: "https://roost.example",
  rpId: "roost.example",
  counter: 300,
  addedAtMs: 1_700_000_000_000n,
};
const ASSERTION = {
  credential: fill(16, 3),
  authenticatorData: fill(37, 1),
  clientData: utf8("{}"),
  signature: fill(64, 2),
};
const grant = (org: string | null) => ({
  roost: ROOST,
  account: "ada",
  device: fill(32, 4),
  client: CLIENT,
  wing: WING,
  org,
  role: "Operator",
  epoch: 7n,
  issuedAt: 1_700_000_000n,
  expiresAt: 1_700_000_600n,
});
const signedGrant = (org: string | null) => ({ grant: grant(org), signature: fill(64, 9) });
const enter = (by: unknown, device: unknown) => value("Enter", { kind: "Cli", name: "laptop", device, by });
const ROTATE = { type: "Rotate" };
const ACCESS_SAMPLES = {
  "Record.Cover": { type: "Cover" },
  "ClientMessage.Access": value("Access", { type: "Compare" }),
  "WingMessage.Access": value("Access", { type: "Waiting" }),
  "Request.Wing": value("Wing", { type: "Clients" }),
  "Response.Wing": value("Wing", { type: "Changed" }),
  "ToWing.Enter": enter({ type: "List" }, null),
  "ToWing.Enter.2": enter(value("Invite", fill(32, 6)), { device: fill(32, 4), signature: fill(64, 5) }),
  "ToWing.Enter.3": enter(value("Grant", signedGrant(null)), null),
  "ToWing.Passkey": value("Passkey", ASSERTION),
  "ToWing.Compare": { type: "Compare" },
  "ToWing.CompareNonce": value("CompareNonce", fill(32, 7)),
  "ToWing.Renew": value("Renew", signedGrant("org")),
  "FromWing.Admitted": value("Admitted", TERMS),
  "FromWing.PasskeyWanted": value("PasskeyWanted", fill(32, 8)),
  "FromWing.Waiting": { type: "Waiting" },
  "FromWing.CompareCommitment": value("CompareCommitment", fill(32, 9)),
  "FromWing.CompareOpening": value("CompareOpening", fill(32, 10)),
  "FromWing.Announced": value("Announced", {
    number: 300n,
    atMs: 1_700_000_000_000n,
    by: { type: "Machine" },
    what: { type: "Unlocked" },
  }),
  "WingRequest.Clients": { type: "Clients" },
  "WingRequest.Challenge": { type: "Challenge" },
  "WingRequest.Change": { type: "Change", change: ROTATE, assertion: ASSERTION },
  "WingRequest.Enrol": value("Enrol", {
    name: "key",
    rpId: "roost.example",
    authenticatorData: fill(40, 1),
    clientData: utf8("{}"),
  }),
  "WingResponse.Clients": value("Clients", {
    mode: "Approve",
    clients: [
      { allow: ALLOW, source: "Invite", addedAtMs: 1_700_000_000_000n, verified: true, unconfirmed: false },
    ],
    waiting: [{ client: CLIENT, name: "phone", account: "ada", passkey: false, sinceMs: 1_700_000_000_000n }],
    passkeys: [PASSKEY],
    revoked: [[value("Account", "eve"), 1_700_000_000_000n]],
  }),
  "WingResponse.Challenge": value("Challenge", fill(32, 8)),
  "WingResponse.Changed": { type: "Changed" },
  "WingResponse.Enrolling": { type: "Enrolling" },
  "Change.Approve": { type: "Approve", code: "123456", role: "Operator", paths: ["/srv"] },
  "Change.Allow": value("Allow", ALLOW),
  "Change.Revoke": value("Revoke", value("Client", CLIENT)),
  "Change.Revoke.2": value("Revoke", value("Device", fill(32, 4))),
  "Change.Revoke.3": value("Revoke", value("Account", "eve")),
  "Change.SetTerms": { type: "SetTerms", client: CLIENT, terms: TERMS },
  "Change.SetHardware": { type: "SetHardware", client: CLIENT, hardware: true },
  "Change.Confirm": { type: "Confirm", client: CLIENT },
  "Change.SetMode": value("SetMode", "Approve"),
  "Change.SetMode.2": value("SetMode", "Relay"),
  "Change.SetMode.3": value("SetMode", "Locked"),
  "Change.Lock": { type: "Lock", noRelayPage: true },
  "Change.EnrolPasskey": value("EnrolPasskey", PASSKEY),
  "Change.ForgetPasskey": { type: "ForgetPasskey", credential: fill(16, 3) },
  "Change.Rotate": ROTATE,
  "Act.Enter": { type: "Enter" },
  "Act.Enrol": { type: "Enrol" },
  "Act.Change": value("Change", ROTATE),
  "Actor.Machine": { type: "Machine" },
  "Actor.Client": value("Client", CLIENT),
  "Actor.Grant": value("Grant", "ada"),
  "Announced.Allowed": { type: "Allowed", client: CLIENT, name: "laptop", role: "Owner", source: "Local" },
  "Announced.Revoked": value("Revoked", value("Client", CLIENT)),
  "Announced.Terms": { type: "Terms", client: CLIENT, role: "Observer" },
  "Announced.Hardware": { type: "Hardware", client: CLIENT, hardware: true },
  "Announced.Confirmed": { type: "Confirmed", client: CLIENT },
  "Announced.Mode": value("Mode", "Relay"),
  "Announced.Locked": { type: "Locked", noRelayPage: false },
  "Announced.Unlocked": { type: "Unlocked" },
  "Announced.PasskeyEnrolled": { type: "PasskeyEnrolled", name: "key", origin: "https://roost.example" },
  "Announced.PasskeyForgotten": { type: "PasskeyForgotten", name: "key" },
  "Announced.Rotated": { type: "Rotated" },
  "Announced.Invited": { type: "Invited", role: "Operator" },
  "Announced.EnteredByGrant": { type: "EnteredByGrant", client: CLIENT, account: "ada" },
};

const SAMPLES: Readonly<Record<string, unknown>> = {
  ...ACCESS_SAMPLES,
  "StreamHeader.Route": value("Route", { wing: WING, nonce: fill(16, 1), versions: versions(1, 300) }),
  "Role.Client": { type: "Client" },
  "Role.Wing": value("Wing", WING),
  "ProofMode.Exporter": "Exporter",
  "ProofMode.Nonce": "Nonce",
  "ToRelay.Hello": hello({ type: "Client" }, "Exporter"),
  "ToRelay.Hello.2": hello(value("Wing", WING), "Nonce"),
  "ToRelay.Proof": value("Proof", PROOF),
  "ToRelay.Proof.2": value("Proof", {
    ...PROOF,
    wing: {
      identity: fill(32, 7),
      signature: fill(64, 6),
      statement: { wing: WING, key: fill(32, 8), seq: 300n, signature: fill(64, 9) },
    },
  }),
  "ToRelay.Renew": value("Renew", PROOF),
  "ToRelay.Ping": value("Ping", 2n ** 64n - 1n),
  "ToRelay.Pong": value("Pong", 7n),
  "FromRelay.Challenge": { type: "Challenge", version: 1, relayNonce: fill(32, 1) },
  "FromRelay.Welcome": { type: "Welcome", maxRoutes: 1_000, expiresIn: 600 },
  "FromRelay.Renewed": { type: "Renewed", expiresIn: 600 },
  "FromRelay.GoAway": { type: "GoAway", spreadMs: 5_000 },
  "FromRelay.Ping": value("Ping", 2n ** 64n - 1n),
  "FromRelay.Pong": value("Pong", 7n),
  "Record.Message": value("Message", utf8("hello")),
  "Record.Message.2": value("Message", utf8("")),
  "Record.Part": value("Part", utf8("hel")),
  "Record.Ping": value("Ping", fill(16, 1)),
  "Record.Pong": value("Pong", fill(16, 2)),
  "Record.Rekey": { type: "Rekey" },
  "Record.Close": value("Close", { type: "Done" }),
  "Close.Done": { type: "Done" },
  "Close.NotAdmitted": { type: "NotAdmitted" },
  "Close.Version": value("Version", 300),
  "Close.Replaced": { type: "Replaced" },
  "Close.Restarting": { type: "Restarting" },
  "Close.Protocol": { type: "Protocol" },
  "ClientMessage.Call": { type: "Call", id: REQUEST, request: { type: "WingInfo" } },
  "ClientMessage.Attach": value("Attach", ATTACH),
  "ClientMessage.Attach.2": value("Attach", {
    ...ATTACH,
    readOnly: true,
    takeover: false,
    resume: { epoch: EPOCH, next: 300n, acked: 200n, have: 100_000n },
  }),
  "ClientMessage.Input": { type: "Input", offset: 300n, bytes: utf8("ls\r") },
  "ClientMessage.Resize": value("Resize", SIZE),
  "ClientMessage.Detach": { type: "Detach" },
  "ClientMessage.Watch": { type: "Watch", session },
  "ClientMessage.Watch.2": { type: "Watch", session: null },
  "WingMessage.Reply": { type: "Reply", id: REQUEST, result: value("Ok", value("Sessions", [])) },
  "WingMessage.Reply.2": { type: "Reply", id: REQUEST, result: value("Err", FAILURE) },
  "WingMessage.Attached": attached({ type: "Fresh" }),
  "WingMessage.Attached.2": attached({ type: "Skipped", bytes: 300n }),
  "WingMessage.Snapshot": { type: "Snapshot", last: true, bytes: utf8("\x1b[H") },
  "WingMessage.Output": { type: "Output", offset: 300n, applied: 2n, bytes: utf8("hi") },
  "WingMessage.Output.2": { type: "Output", offset: 300n, applied: 3n, bytes: utf8("") },
  "WingMessage.Resized": value("Resized", SIZE),
  "WingMessage.Writer": value("Writer", true),
  "WingMessage.Writer.2": value("Writer", false),
  "WingMessage.Exited": value("Exited", EXIT),
  "WingMessage.Replaced": { type: "Replaced" },
  "WingMessage.Refused": value("Refused", FAILURE),
  "WingMessage.Event": value("Event", event({ type: "Started" })),
  "WingMessage.Event.2": value("Event", event(value("Attached", 1))),
  "WingMessage.Event.3": value("Event", event(value("Detached", 0))),
  "WingMessage.Event.4": value("Event", event({ type: "Attention", kind: "notify", text: "done" })),
  "WingMessage.Event.5": value("Event", event(value("Title", "vi"))),
  "WingMessage.Event.6": value("Event", event({ type: "Renamed" })),
  "WingMessage.Event.7": value("Event", event(value("Exited", EXIT))),
  "WingMessage.Event.8": value("Event", event({ type: "Lost" })),
  "History.Fresh": { type: "Fresh" },
  "History.Continued": { type: "Continued" },
  "History.Skipped": { type: "Skipped", bytes: 1n << 40n },
  "History.Differs": { type: "Differs" },
  "Request.WingInfo": { type: "WingInfo" },
  "Request.Sessions": { type: "Sessions" },
  "Request.Start": value("Start", {
    name: session,
    command: ["vi", "a b"],
    cwd: "/srv",
    env: [["LANG", "C"]],
    size: SIZE,
    agent: "claude",
    record: true,
  }),
  "Request.Start.2": value("Start", { ...AGENT, command: [], agent: null }),
  "Request.Kill": { type: "Kill", session },
  "Request.Rename": { type: "Rename", session, name: "play" },
  "Request.Screen": { type: "Screen", session, scrollback: 10_000 },
  "Request.Output": { type: "Output", session, from: 300n, max: 65_536 },
  "Request.Send": { type: "Send", session, parts: PARTS },
  "Request.Wait": {
    type: "Wait",
    session,
    until: value("Contains", "ready"),
    from: { type: "LastSend" },
    timeoutMs: 20_000,
  },
  "Request.Wait.2": { type: "Wait", session, until: value("Regex", "rea.y"), from: { type: "Now" }, timeoutMs: 0 },
  "Request.Wait.3": { type: "Wait", session, until: value("Idle", 500), from: value("Offset", 300n), timeoutMs: 1 },
  "Request.Wait.4": { type: "Wait", session, until: { type: "Exit" }, from: { type: "Now" }, timeoutMs: 1 },
  "Request.Signal": { type: "Signal", session, signal: 15 },
  "Request.Resize": { type: "Resize", session, size: SIZE },
  "Request.Remove": { type: "Remove", session },
  "Request.Session": { type: "Session", session },
  "Request.Recording": { type: "Recording", session, from: 300n, max: 65_536 },
  "Request.Resume": { type: "Resume", start: AGENT, conversation: value("Id", "7f-1") },
  "Request.Resume.2": { type: "Resume", start: AGENT, conversation: { type: "Last" } },
  "Request.StartIn": {
    type: "StartIn",
    start: AGENT,
    conversation: null,
    boundary: { unsandboxed: false, config: null, trace: false },
  },
  "Request.StartIn.2": {
    type: "StartIn",
    start: AGENT,
    conversation: { type: "Last" },
    boundary: { unsandboxed: true, config: "/srv/egg.yaml", trace: true },
  },
  "Response.WingInfo": value("WingInfo", {
    label: "box",
    hostname: "box.example",
    platform: "linux/x86_64",
    version: "0.1.0",
    admission: "approve",
    sessions: 3,
  }),
  "Response.Sessions": value("Sessions", [LIVING, ENDED]),
  "Response.Session": value("Session", LIVING),
  "Response.Screen": value("Screen", SCREEN),
  "Response.Output": value("Output", {
    id: SESSION,
    offset: 300n,
    end: 302n,
    truncatedBefore: 100n,
    bytes: utf8("hi"),
  }),
  "Response.Sent": value("Sent", SENT),
  "Response.Waited": value("Waited", waited("Matched")),
  "Response.Waited.2": value("Waited", waited("TimedOut")),
  "Response.Waited.3": value("Waited", waited("Ended")),
  "Response.Recording": value("Recording", { id: SESSION, end: 302n, bytes: utf8("hi") }),
  "Response.Recording.2": value("Recording", null),
  "ToEgg.Hello": { type: "Hello", version: 1, key: fill(32, 1), principal: ADA },
  "ToEgg.Client": value("Client", { type: "Detach" }),
  "ToEgg.Status": { type: "Status" },
  "ToEgg.Screen": { type: "Screen", scrollback: 300 },
  "ToEgg.Kill": { type: "Kill" },
  "ToEgg.Rename": { type: "Rename", name: "play" },
  "ToEgg.Send": { type: "Send", parts: PARTS },
  "ToEgg.Wait": { type: "Wait", until: { type: "Exit" }, from: { type: "LastSend" }, timeoutMs: 300 },
  "ToEgg.Signal": value("Signal", 15),
  "ToEgg.Resize": value("Resize", SIZE),
  "ToEgg.Watch": { type: "Watch" },
  "FromEgg.Welcome": { type: "Welcome", version: 1, session: SESSION },
  "FromEgg.Wing": value("Wing", { type: "Replaced" }),
  "FromEgg.Status": value("Status", STATUS),
  "FromEgg.Status.2": value("Status", {
    ...STATUS,
    status: "Exited",
    attention: "bell",
    writer: null,
    exit: EXIT,
    notes: ["A note."],
  }),
  "FromEgg.Screen": value("Screen", SCREEN),
  "FromEgg.Done": { type: "Done" },
  "FromEgg.Failed": value("Failed", FAILURE),
  "FromEgg.Sent": value("Sent", SENT),
  "FromEgg.Waited": value("Waited", waited("Matched")),
  "FromEgg.Event": value("Event", event({ type: "Started" })),
};

/** Enums without fields: a sample is the variant's name. */
const NAMES = new Set(["SessionKind", "SessionStatus", "Isolation", "PrincipalKind", "FailureKind", "Source", "ClientKind"]);

const MESSAGES = vectors("protocol/vectors/messages.txt");
const MAX = limits.MAX_MESSAGE;

describe("the messages of the committed file", () => {
  const messages = [...MESSAGES].filter(([name]) => !/^(signed|remote|json)\.|^roost_id$/.test(name));

  it("are all known here, and no other is", () => {
    const samples = Object.keys(SAMPLES);

    expect(messages.length).toBeGreaterThan(130);
    const unknown = messages.map(([name]) => name).filter((name) => !(name in SAMPLES) && !NAMES.has(kind(name)));
    expect(unknown).toEqual([]);
    expect(samples.filter((name) => !MESSAGES.has(name))).toEqual([]);
  });

  it.each(messages)("%s has the same bytes and the same value", (name, bytes) => {
    const codec = CODECS[kind(name)] as Codec<unknown>;
    const sample = SAMPLES[name] ?? name.split(".")[1];

    expect(hex(encode(codec, sample, MAX))).toBe(hex(bytes));
    expect(decode(codec, bytes, MAX)).toEqual(sample);
  });

  it.each(messages)("%s is refused when it is cut, followed by more, or over its cap", (name, bytes) => {
    const codec = CODECS[kind(name)] as Codec<unknown>;

    for (let size = 0; size < bytes.length; size++) {
      expect(() => decode(codec, bytes.slice(0, size), MAX)).toThrow(DecodeError);
    }
    expect(() => decode(codec, concat(bytes, Uint8Array.of(0)), MAX)).toThrow("bytes follow");
    expect(() => decode(codec, bytes, bytes.length - 1)).toThrow("over its size limit");
  });

  it("end with how a stream over a remote shell begins", () => {
    const sample = { oldest: 1, newest: 300, program: "0.1.0" };

    expect(MESSAGES.get("remote.sync_mark")).toHaveLength(16);
    expect(decode(ServeHelloCodec, MESSAGES.get("remote.ServeHello") as Bytes, MAX)).toEqual(sample);
  });
});

describe("the bytes that are signed", () => {
  const proof = {
    mode: "Exporter",
    role: { type: "Wing", value: WING as never },
    origin: "https://roost.example",
    relayNonce: fill(32, 1),
    clientNonce: fill(32, 2),
    exporter: fill(32, 3),
    tokenHash: fill(32, 4),
    instance: fill(16, 5) as never,
  } as const;

  it.each([
    ["noise_key_statement", noiseKeyStatement(WING as never, fill(32, 8) as never, 300n)],
    ["client_key", clientKeyVouch(fill(32, 4) as never, fill(32, 5) as never)],
    ["relay_proof.wing", relayProof(proof)],
    ["relay_proof.client", relayProof({ ...proof, mode: "Nonce", role: { type: "Client" }, exporter: fill(0, 0) })],
    ["successor", successorBytes(WING as never, SECOND)],
    ["revocation", revocationBytes(WING as never)],
    ["grant", grantBytes(grant(null) as never)],
    ["grant.org", grantBytes(grant("org") as never)],
    ["invite", inviteBytes(fill(32, 1), CLIENT as never)],
    ["sas_commitment", sasCommitmentBytes(fill(32, 1), fill(32, 2))],
    ["sas", sasBytes(fill(32, 1), fill(32, 2), fill(32, 3))],
    ["passkey", passkeyBytes(fill(32, 1), fill(32, 2), encode(ActCodec, { type: "Enter" }, MAX))],
  ])("are those of the file: %s", (name, bytes) => {
    expect(hex(bytes)).toBe(hex(MESSAGES.get(`signed.${name}`) as Bytes));
  });
});

describe("the rest of the file", () => {
  it("is known here: a roost's id, and what identities say when they step down, as JSON", async () => {
    expect(hex(ROOST)).toBe(hex(MESSAGES.get("roost_id") as Bytes));
    const statements = JSON.parse(new TextDecoder().decode(MESSAGES.get("json.wing_statements")));
    const old = base32(fill(32, 7));
    const signature = base32(fill(64, 9));
    expect(statements).toEqual({
      successors: [{ old, new: SECOND, signature }],
      revocations: [{ identity: old, signature }],
    });
  });

  it("has no layout that is not replayed", () => {
    const layouts = [...MESSAGES.keys()].filter((name) => name.startsWith("signed."));

    expect(layouts).toHaveLength(12);
  });
});

describe("the limits", () => {
  it("are those of the protocol", () => {
    const source = readFileSync(`${ROOT}protocol/src/limits.rs`, "utf8");
    const theirs = new Map<string, number>();
    for (const [, name, expression] of source.matchAll(/pub const (\w+): \w+ =\s*([^;]+);/g)) {
      theirs.set(name as string, amount(expression as string, theirs));
    }

    const ours = Object.entries(limits).filter(([name]) => name !== "PROTOCOL_VERSION");
    expect(ours.length).toBeGreaterThan(12);
    for (const [name, number] of ours) {
      expect(number, name).toBe(theirs.get(name));
    }
  });
});

describe("the handshake of the committed file", () => {
  const vector = vectors("crypto/vectors/handshake.txt");
  const get = (name: string): Bytes => vector.get(name) as Bytes;

  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("is made byte for byte, with its records, by both roles", async () => {
    const wing = await Wing.of(get("wing_identity_seed"), get("wing_noise_secret"));
    const client = (await known("X25519", get("client_secret"))) as ClientSecret;
    const id = await wingIdOf(wing.identity);
    const statement = await wing.statement();
    const header = { wing: id, nonce: get("route_nonce") as RouteNonce, versions: versions(1, 1) };
    expect(SUITE).toBe(new TextDecoder().decode(get("suite")));
    expect(id).toBe(new TextDecoder().decode(get("wing_id")));
    expect(hex(wing.identity)).toBe(hex(get("wing_identity_key")));
    expect(hex(wing.noise.public)).toBe(hex(get("wing_noise_key")));
    expect(hex(client.public)).toBe(hex(get("client_key")));
    expect(hex(statement.signature)).toBe(hex(get("wing_statement_signature")));
    expect(hex(prologue(id, header))).toBe(hex(get("prologue")));

    const verified = await verifyStatement(id, wing.identity, statement);
    await nextEphemeral(get("client_ephemeral_secret"));
    const { initiator, message1 } = await Initiator.start(client, verified, header);
    await nextEphemeral(get("wing_ephemeral_secret"));
    const { message2, session: atWing } = await respond(wing.noise, id, header, message1);
    const atClient = await initiator.finish(message2);

    expect(hex(message1)).toBe(hex(get("message_1")));
    expect(hex(message2)).toBe(hex(get("message_2")));
    expect(hex(atClient.handshakeHash)).toBe(hex(get("handshake_hash")));
    expect(hex(atWing.handshakeHash)).toBe(hex(get("handshake_hash")));
    expect(atWing.client).toEqual(client.public);

    const rekeying = { ...DEFAULT_LIMITS, rekeyRecords: 1 };
    const [ours, theirs] = [atClient.split(0, rekeying), atWing.split(0, rekeying)];
    const toWing = concat(
      await ours.sealer.message(utf8("hello wing"), 0),
      await ours.sealer.ping(fill(16, 0x77), 0),
    );
    const toClient = concat(
      await theirs.sealer.message(utf8("hello client"), 0),
      await theirs.sealer.pong(fill(16, 0x88), 0),
      await theirs.sealer.close({ type: "Done" }),
    );
    const clientRecords = ["client_record_0", "client_record_1_rekey", "client_record_2"].map(get);
    const wingRecords = ["wing_record_0", "wing_record_1_rekey", "wing_record_2", "wing_record_3_close"].map(get);
    expect(frames(toWing).map(hex)).toEqual(clientRecords.map(hex));
    expect(frames(toClient).map(hex)).toEqual(wingRecords.map(hex));

    const openAll = async (opener: typeof ours.opener, records: Bytes[]) => {
      const opened: unknown[] = [];
      for (const record of frames(concat(...records.map(frame)))) {
        opened.push(await opener.open(record));
      }
      return opened;
    };
    expect(await openAll(theirs.opener, clientRecords)).toEqual([
      value("Message", utf8("hello wing")),
      { type: "Rekeyed" },
      value("Ping", fill(16, 0x77)),
    ]);
    expect(await openAll(ours.opener, wingRecords)).toEqual([
      value("Message", utf8("hello client")),
      { type: "Rekeyed" },
      value("Pong", fill(16, 0x88)),
      value("Close", { type: "Done" }),
    ]);
  });
});

/** Makes the platform draw this key next: no other code can choose one. */
async function nextEphemeral(secret: Bytes): Promise<void> {
  const pair = await known("X25519", secret);
  const publicKey = await crypto.subtle.importKey("raw", pair.public, { name: "X25519" }, true, []);
  vi.spyOn(crypto.subtle, "generateKey").mockResolvedValueOnce({ privateKey: pair.secret, publicKey } as never);
}

function kind(name: string): string {
  return name.split(".")[0] as string;
}

/** The number that a constant of the protocol's list has; durations in milliseconds. */
function amount(expression: string, known: ReadonlyMap<string, number>): number {
  const duration = /^Duration::from_(secs|millis)\((.+)\)$/.exec(expression);
  if (duration) {
    return amount(duration[2] as string, known) * (duration[1] === "secs" ? 1_000 : 1);
  }
  const words = expression.split(/\s+/);
  const numbers = words.map((word) => known.get(word) ?? Number(word.replaceAll("_", "")));
  let result = numbers[0] as number;
  for (let at = 1; at < words.length; at += 2) {
    const right = numbers[at + 1] as number;
    switch (words[at]) {
      case "+":
        result += right;
        break;
      case "-":
        result -= right;
        break;
      case "*":
        result *= right;
        break;
      case "<<":
        result *= 2 ** right;
        break;
    }
  }
  return result;
}

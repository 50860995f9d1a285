//! The bytes of every message, pinned: one sample at least of every variant.
//!
//! `WT_BLESS=1 cargo test -p wt-protocol --test vectors` writes the file anew. Lines may
//! be added to it; a line that changes breaks every end that is already installed.
//!
//! A variant without a sample does not compile: [`samples!`] matches on all of them.
#![allow(missing_docs, clippy::unwrap_used)]

use core::fmt::Debug;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use wt_protocol::access::{
    AccessList, Act, Actor, AdmissionMode, Allow, Announced, Announcement, Assertion, Change,
    ClientKind, ClientRecord, DeviceWord, Enrolment, Enter, EnterBy, FromWing, Grant, Passkey,
    Revoked, Role as ClientRole, SignedChange, SignedGrant, Source, Terms, ToWing, WaitingRecord,
    WingRequest, WingResponse,
};
use wt_protocol::api::WingStatements;
use wt_protocol::codec::{decode, encode};
use wt_protocol::control::{
    Challenge, FromRelay, Hello, NoiseKeyStatement, Proof, ProofMode, RevocationStatement, Role,
    SuccessorStatement, ToRelay, Welcome, WingProof,
};
use wt_protocol::keys::{ClientKey, DeviceKey, GrantKey, IdentityKey, NoiseKey, Signature};
use wt_protocol::limits::MAX_MESSAGE;
use wt_protocol::local::{EggStatus, FromEgg, LocalHello, ToEgg};
use wt_protocol::remote::{SYNC_MARK, ServeHello};
use wt_protocol::rpc::{
    BoundaryChoice, Conversation, Failure, FailureKind, Isolation, OutputPage, Principal,
    PrincipalKind, RecordingPage, Request, Response, ScreenText, SendInput, SendPart, Sent,
    SessionChange, SessionEvent, SessionKind, SessionRecord, SessionStatus, StartSession, Until,
    WaitFor, WaitFrom, WaitReason, Waited, WingInfo,
};
use wt_protocol::session::{
    Attach, Attached, Call, ClientMessage, Exit, History, Reply, Resume, WingMessage, Winsize,
};
use wt_protocol::signed::{self, RelayProof};
use wt_protocol::{
    AttachmentId, Close, EggEpoch, InstanceId, Record, RequestId, RoostId, RouteHeader, RouteNonce,
    SessionId, StreamHeader, VersionRange, WingId,
};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/messages.txt");

/// Takes samples of each variant of an enum, each in its turn, and fails to compile
/// when a variant is missing.
macro_rules! samples {
    ($lines:ident, $type:ident { $($variant:ident: [$($sample:expr),+ $(,)?],)+ }) => {{
        #[allow(elided_lifetimes_in_paths)]
        fn variant(value: &$type) -> &'static str {
            match value {
                $($type::$variant { .. } => stringify!($variant),)+
            }
        }
        $(
            for (at, sample) in [$($sample),+].iter().enumerate() {
                assert_eq!(variant(sample), stringify!($variant));
                let name = concat!(stringify!($type), ".", stringify!($variant));
                match at {
                    0 => $lines.add(name, sample),
                    _ => $lines.add(&format!("{name}.{}", at + 1), sample),
                }
            }
        )+
    }};
}

#[test]
fn the_bytes_of_every_message_are_those_of_the_file() {
    let mut lines = Lines::default();
    link_messages(&mut lines);
    records(&mut lines);
    session_messages(&mut lines);
    requests(&mut lines);
    local_messages(&mut lines);
    signed_bytes(&mut lines);
    remote_beginning(&mut lines);
    access_messages(&mut lines);
    access_signed_bytes(&mut lines);

    if std::env::var_os("WT_BLESS").is_some() {
        std::fs::write(PATH, &lines.0).unwrap();
    }
    let golden = std::fs::read_to_string(PATH).unwrap();
    for (ours, theirs) in lines.0.lines().zip(golden.lines()) {
        assert_eq!(ours, theirs, "installed ends would not understand this");
    }
    let (ours, theirs) = (lines.0.lines().count(), golden.lines().count());
    assert_eq!(ours, theirs, "bless what was added with WT_BLESS=1");
}

#[test]
fn a_wing_id_is_what_others_work_out_too() {
    // b32encode(sha256(b"wingthing wing id v1" + bytes([7] * 32)).digest())[:26].lower()
    let id = WingId::of_identity(&IdentityKey::from_bytes([7; 32]));

    assert_eq!(id.as_str(), "gq3qm6xmjeb5ru6c7q6e7p2f3r");
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add<'a, T: Serialize + Deserialize<'a> + PartialEq + Debug>(
        &mut self,
        name: &str,
        value: &T,
    ) {
        let bytes = encode(value, MAX_MESSAGE).unwrap();
        self.bytes(name, &bytes);
        // Decoded values may borrow; a test may leak what they borrow from.
        let bytes: &'a [u8] = Vec::leak(bytes);
        assert_eq!(
            decode::<T>(bytes, MAX_MESSAGE).as_ref(),
            Ok(value),
            "{name}"
        );
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.0 += &format!("{name} {}\n", HEXLOWER.encode(bytes));
    }
}

fn link_messages(lines: &mut Lines) {
    samples!(
        lines,
        StreamHeader {
            Route: [StreamHeader::Route(RouteHeader {
                wing: wing(),
                nonce: RouteNonce::from_bytes([1; 16]),
                versions: VersionRange { min: 1, max: 300 },
            })],
        }
    );
    samples!(
        lines,
        Role {
            Client: [Role::Client],
            Wing: [Role::Wing(wing())],
        }
    );
    samples!(
        lines,
        ProofMode {
            Exporter: [ProofMode::Exporter],
            Nonce: [ProofMode::Nonce],
        }
    );
    let hello = |role, mode| {
        ToRelay::Hello(Hello {
            versions: VersionRange { min: 1, max: 1 },
            role,
            instance: InstanceId::from_bytes([2; 16]),
            client_nonce: [3; 32],
            mode,
        })
    };
    let client_proof = Proof {
        token: "a.b.c".to_owned(),
        device: DeviceKey::from_bytes([4; 32]),
        device_signature: Signature::from_bytes([5; 64]),
        wing: None,
    };
    let wing_proof = Proof {
        wing: Some(WingProof {
            identity: IdentityKey::from_bytes([7; 32]),
            signature: Signature::from_bytes([6; 64]),
            statement: NoiseKeyStatement {
                wing: wing(),
                key: NoiseKey::from_bytes([8; 32]),
                seq: 300,
                signature: Signature::from_bytes([9; 64]),
            },
        }),
        ..client_proof.clone()
    };
    samples!(
        lines,
        ToRelay {
            Hello: [
                hello(Role::Client, ProofMode::Exporter),
                hello(Role::Wing(wing()), ProofMode::Nonce),
            ],
            Proof: [
                ToRelay::Proof(client_proof.clone()),
                ToRelay::Proof(wing_proof)
            ],
            Renew: [ToRelay::Renew(client_proof)],
            Ping: [ToRelay::Ping(u64::MAX)],
            Pong: [ToRelay::Pong(7)],
        }
    );
    samples!(
        lines,
        FromRelay {
            Challenge: [FromRelay::Challenge(Challenge {
                version: 1,
                relay_nonce: [1; 32]
            })],
            Welcome: [FromRelay::Welcome(Welcome {
                max_routes: 1_000,
                expires_in: 600
            })],
            Renewed: [FromRelay::Renewed { expires_in: 600 }],
            GoAway: [FromRelay::GoAway { spread_ms: 5_000 }],
            Ping: [FromRelay::Ping(u64::MAX)],
            Pong: [FromRelay::Pong(7)],
        }
    );
}

fn records(lines: &mut Lines) {
    samples!(
        lines,
        Record {
            Message: [Record::Message(b"hello"), Record::Message(b"")],
            Part: [Record::Part(b"hel")],
            Ping: [Record::Ping([1; 16])],
            Pong: [Record::Pong([2; 16])],
            Rekey: [Record::Rekey],
            Close: [Record::Close(Close::Done)],
            Cover: [Record::Cover],
        }
    );
    samples!(
        lines,
        Close {
            Done: [Close::Done],
            NotAdmitted: [Close::NotAdmitted],
            Version: [Close::Version(300)],
            Replaced: [Close::Replaced],
            Restarting: [Close::Restarting],
            Protocol: [Close::Protocol],
        }
    );
}

fn session_messages(lines: &mut Lines) {
    let attach = Attach {
        session: "work".to_owned(),
        attachment: AttachmentId::from_bytes([1; 16]),
        size: SIZE,
        read_only: false,
        takeover: true,
        resume: None,
    };
    let resumed = Attach {
        resume: Some(Resume {
            epoch: epoch(),
            next: 300,
            acked: 200,
            have: 100_000,
        }),
        read_only: true,
        takeover: false,
        ..attach.clone()
    };
    samples!(
        lines,
        ClientMessage {
            Call: [ClientMessage::Call(Call {
                id: request_id(),
                request: Request::WingInfo
            })],
            Attach: [
                ClientMessage::Attach(attach),
                ClientMessage::Attach(resumed)
            ],
            Input: [ClientMessage::Input {
                offset: 300,
                bytes: b"ls\r".to_vec()
            }],
            Resize: [ClientMessage::Resize(SIZE)],
            Detach: [ClientMessage::Detach],
            Watch: [
                ClientMessage::Watch {
                    session: Some("work".to_owned())
                },
                ClientMessage::Watch { session: None },
            ],
            Access: [ClientMessage::Access(Box::new(ToWing::Compare))],
        }
    );
    let attached = |history| {
        WingMessage::Attached(Attached {
            session: session_id(),
            name: "work".to_owned(),
            epoch: epoch(),
            history,
            applied: 1,
            output: 2,
            size: SIZE,
            writer: true,
        })
    };
    let reply = |result| {
        WingMessage::Reply(Reply {
            id: request_id(),
            result,
        })
    };
    samples!(
        lines,
        WingMessage {
            Reply: [
                reply(Ok(Response::Sessions(Vec::new()))),
                reply(Err(failure()))
            ],
            Attached: [
                attached(History::Fresh),
                attached(History::Skipped { bytes: 300 })
            ],
            Snapshot: [WingMessage::Snapshot {
                last: true,
                bytes: b"\x1b[H".to_vec()
            }],
            Output: [
                WingMessage::Output {
                    offset: 300,
                    applied: 2,
                    bytes: b"hi".to_vec()
                },
                WingMessage::Output {
                    offset: 300,
                    applied: 3,
                    bytes: Vec::new()
                },
            ],
            Resized: [WingMessage::Resized(SIZE)],
            Writer: [WingMessage::Writer(true), WingMessage::Writer(false)],
            Exited: [WingMessage::Exited(exit())],
            Replaced: [WingMessage::Replaced],
            Refused: [WingMessage::Refused(failure())],
            Event: [
                WingMessage::Event(event(SessionChange::Started)),
                WingMessage::Event(event(SessionChange::Attached(1))),
                WingMessage::Event(event(SessionChange::Detached(0))),
                WingMessage::Event(event(SessionChange::Attention {
                    kind: "notify".to_owned(),
                    text: Some("done".to_owned()),
                })),
                WingMessage::Event(event(SessionChange::Title("vi".to_owned()))),
                WingMessage::Event(event(SessionChange::Renamed)),
                WingMessage::Event(event(SessionChange::Exited(exit()))),
                WingMessage::Event(event(SessionChange::Lost)),
            ],
            Access: [WingMessage::Access(Box::new(FromWing::Waiting))],
        }
    );
    samples!(
        lines,
        History {
            Fresh: [History::Fresh],
            Continued: [History::Continued],
            Skipped: [History::Skipped { bytes: 1 << 40 }],
            Differs: [History::Differs],
        }
    );
}

fn requests(lines: &mut Lines) {
    let session = || "work".to_owned();
    samples!(
        lines,
        Request {
            WingInfo: [Request::WingInfo],
            Sessions: [Request::Sessions],
            Start: [
                Request::Start(StartSession {
                    name: Some(session()),
                    command: vec!["vi".to_owned(), "a b".to_owned()],
                    cwd: Some("/srv".to_owned()),
                    env: vec![("LANG".to_owned(), "C".to_owned())],
                    size: SIZE,
                    agent: Some("claude".to_owned()),
                    record: true,
                }),
                Request::Start(StartSession {
                    name: None,
                    command: Vec::new(),
                    cwd: None,
                    env: Vec::new(),
                    size: SIZE,
                    agent: None,
                    record: false,
                }),
            ],
            Kill: [Request::Kill { session: session() }],
            Rename: [Request::Rename {
                session: session(),
                name: "play".to_owned()
            }],
            Screen: [Request::Screen {
                session: session(),
                scrollback: 10_000
            }],
            Output: [Request::Output {
                session: session(),
                from: 300,
                max: 65_536
            }],
            Send: [Request::Send(SendInput {
                session: session(),
                parts: parts(),
            })],
            Wait: [
                Request::Wait(WaitFor {
                    session: session(),
                    until: Until::Contains("ready".to_owned()),
                    from: WaitFrom::LastSend,
                    timeout_ms: 20_000,
                }),
                Request::Wait(WaitFor {
                    session: session(),
                    until: Until::Regex("rea.y".to_owned()),
                    from: WaitFrom::Now,
                    timeout_ms: 0,
                }),
                Request::Wait(WaitFor {
                    session: session(),
                    until: Until::Idle(500),
                    from: WaitFrom::Offset(300),
                    timeout_ms: 1,
                }),
                Request::Wait(WaitFor {
                    session: session(),
                    until: Until::Exit,
                    from: WaitFrom::Now,
                    timeout_ms: 1,
                }),
            ],
            Signal: [Request::Signal {
                session: session(),
                signal: 15
            }],
            Resize: [Request::Resize {
                session: session(),
                size: SIZE
            }],
            Remove: [Request::Remove { session: session() }],
            Session: [Request::Session { session: session() }],
            Recording: [Request::Recording {
                session: session(),
                from: 300,
                max: 65_536
            }],
            Resume: [
                Request::Resume {
                    start: agent(),
                    conversation: Conversation::Id("7f-1".to_owned()),
                },
                Request::Resume {
                    start: agent(),
                    conversation: Conversation::Last,
                },
            ],
            StartIn: [
                Request::StartIn {
                    start: agent(),
                    conversation: None,
                    boundary: BoundaryChoice::default(),
                },
                Request::StartIn {
                    start: agent(),
                    conversation: Some(Conversation::Last),
                    boundary: BoundaryChoice {
                        unsandboxed: true,
                        config: Some("/srv/egg.yaml".to_owned()),
                        trace: true,
                    },
                },
            ],
            Wing: [Request::Wing(WingRequest::Clients)],
        }
    );
    samples!(
        lines,
        Response {
            WingInfo: [Response::WingInfo(WingInfo {
                label: "box".parse().unwrap(),
                hostname: "box.example".to_owned(),
                platform: "linux/x86_64".to_owned(),
                version: "0.1.0".to_owned(),
                admission: "approve".to_owned(),
                sessions: 3,
            })],
            Sessions: [Response::Sessions(vec![living(), ended()])],
            Session: [Response::Session(Box::new(living()))],
            Screen: [Response::Screen(screen())],
            Output: [Response::Output(OutputPage {
                id: session_id().to_string(),
                offset: 300,
                end: 302,
                truncated_before: 100,
                bytes: b"hi".to_vec(),
            })],
            Sent: [Response::Sent(sent())],
            Waited: [
                Response::Waited(waited(WaitReason::Matched)),
                Response::Waited(waited(WaitReason::TimedOut)),
                Response::Waited(waited(WaitReason::Ended)),
            ],
            Recording: [
                Response::Recording(Some(RecordingPage {
                    id: session_id().to_string(),
                    end: 302,
                    bytes: b"hi".to_vec(),
                })),
                Response::Recording(None),
            ],
            Wing: [Response::Wing(WingResponse::Changed)],
        }
    );
    samples!(
        lines,
        SessionKind {
            Shell: [SessionKind::Shell],
            Command: [SessionKind::Command],
            Agent: [SessionKind::Agent],
        }
    );
    samples!(
        lines,
        SessionStatus {
            Starting: [SessionStatus::Starting],
            Running: [SessionStatus::Running],
            Frozen: [SessionStatus::Frozen],
            Exited: [SessionStatus::Exited],
            Killed: [SessionStatus::Killed],
            Lost: [SessionStatus::Lost],
            Foreign: [SessionStatus::Foreign],
        }
    );
    samples!(
        lines,
        Isolation {
            None: [Isolation::None],
            Namespace: [Isolation::Namespace],
            Container: [Isolation::Container],
            Vm: [Isolation::Vm],
            Seatbelt: [Isolation::Seatbelt],
            OuterBoundary: [Isolation::OuterBoundary],
        }
    );
    samples!(
        lines,
        PrincipalKind {
            Cli: [PrincipalKind::Cli],
            Client: [PrincipalKind::Client],
            Mcp: [PrincipalKind::Mcp],
        }
    );
    samples!(
        lines,
        FailureKind {
            Failed: [FailureKind::Failed],
            Invalid: [FailureKind::Invalid],
            NotFound: [FailureKind::NotFound],
            Refused: [FailureKind::Refused],
            Unreachable: [FailureKind::Unreachable],
            TimedOut: [FailureKind::TimedOut],
            CommandNotFound: [FailureKind::CommandNotFound],
            CommandNotRunnable: [FailureKind::CommandNotRunnable],
            NotEnforced: [FailureKind::NotEnforced],
        }
    );
}

fn local_messages(lines: &mut Lines) {
    samples!(
        lines,
        ToEgg {
            Hello: [ToEgg::Hello(LocalHello {
                version: 1,
                key: [1; 32],
                principal: principal(),
            })],
            Client: [ToEgg::Client(ClientMessage::Detach)],
            Status: [ToEgg::Status],
            Screen: [ToEgg::Screen { scrollback: 300 }],
            Kill: [ToEgg::Kill],
            Rename: [ToEgg::Rename {
                name: "play".to_owned()
            }],
            Send: [ToEgg::Send { parts: parts() }],
            Wait: [ToEgg::Wait {
                until: Until::Exit,
                from: WaitFrom::LastSend,
                timeout_ms: 300
            }],
            Signal: [ToEgg::Signal(15)],
            Resize: [ToEgg::Resize(SIZE)],
            Watch: [ToEgg::Watch],
        }
    );
    let status = EggStatus {
        epoch: epoch(),
        status: SessionStatus::Running,
        pid: 4_242,
        size: SIZE,
        bytes_written: 70_000,
        title: "vi".to_owned(),
        attention: None,
        clients: 2,
        writer: Some(principal()),
        exit: None,
        notes: Vec::new(),
    };
    let ended = EggStatus {
        status: SessionStatus::Exited,
        attention: Some("bell".to_owned()),
        writer: None,
        exit: Some(exit()),
        notes: vec!["A note.".to_owned()],
        ..status.clone()
    };
    samples!(
        lines,
        FromEgg {
            Welcome: [FromEgg::Welcome {
                version: 1,
                session: session_id()
            }],
            Wing: [FromEgg::Wing(WingMessage::Replaced)],
            Status: [
                FromEgg::Status(Box::new(status)),
                FromEgg::Status(Box::new(ended))
            ],
            Screen: [FromEgg::Screen(screen())],
            Done: [FromEgg::Done],
            Failed: [FromEgg::Failed(failure())],
            Sent: [FromEgg::Sent(sent())],
            Waited: [FromEgg::Waited(waited(WaitReason::Matched))],
            Event: [FromEgg::Event(event(SessionChange::Started))],
        }
    );
}

fn remote_beginning(lines: &mut Lines) {
    lines.bytes("remote.sync_mark", &SYNC_MARK);
    let hello = ServeHello {
        oldest: 1,
        newest: 300,
        program: "0.1.0".to_owned(),
    };
    lines.add("remote.ServeHello", &hello);
}

fn signed_bytes(lines: &mut Lines) {
    let statement = signed::noise_key_statement(&wing(), &NoiseKey::from_bytes([8; 32]), 300);
    lines.bytes("signed.noise_key_statement", &statement);
    let vouched = signed::client_key(
        &DeviceKey::from_bytes([4; 32]),
        &ClientKey::from_bytes([5; 32]),
    );
    lines.bytes("signed.client_key", &vouched);
    let proof = RelayProof {
        mode: ProofMode::Exporter,
        role: &Role::Wing(wing()),
        origin: "https://roost.example",
        relay_nonce: &[1; 32],
        client_nonce: &[2; 32],
        exporter: &[3; 32],
        token_hash: &[4; 32],
        instance: &InstanceId::from_bytes([5; 16]),
    };
    lines.bytes("signed.relay_proof.wing", &signed::relay_proof(&proof));
    let client = RelayProof {
        mode: ProofMode::Nonce,
        role: &Role::Client,
        exporter: &[],
        ..proof
    };
    lines.bytes("signed.relay_proof.client", &signed::relay_proof(&client));
}

fn access_messages(lines: &mut Lines) {
    let enter = |by, device| {
        ToWing::Enter(Enter {
            kind: ClientKind::Cli,
            name: "laptop".to_owned(),
            device,
            by,
        })
    };
    let word = DeviceWord {
        device: DeviceKey::from_bytes([4; 32]),
        signature: Signature::from_bytes([5; 64]),
    };
    samples!(
        lines,
        ToWing {
            Enter: [
                enter(EnterBy::List, None),
                enter(EnterBy::Invite([6; 32]), Some(word)),
                enter(EnterBy::Grant(Box::new(signed_grant(None))), None),
            ],
            Passkey: [ToWing::Passkey(assertion())],
            Compare: [ToWing::Compare],
            CompareNonce: [ToWing::CompareNonce([7; 32])],
            Renew: [ToWing::Renew(signed_grant(Some("org")))],
        }
    );
    samples!(
        lines,
        FromWing {
            Admitted: [FromWing::Admitted(terms())],
            PasskeyWanted: [FromWing::PasskeyWanted([8; 32])],
            Waiting: [FromWing::Waiting],
            CompareCommitment: [FromWing::CompareCommitment([9; 32])],
            CompareOpening: [FromWing::CompareOpening([10; 32])],
            Announced: [FromWing::Announced(announcement(Announced::Unlocked))],
        }
    );
    let signed_change = SignedChange {
        change: Change::Rotate,
        assertion: assertion(),
    };
    let enrolment = Enrolment {
        name: "key".to_owned(),
        rp_id: "roost.example".to_owned(),
        authenticator_data: vec![1; 40],
        client_data: b"{}".to_vec(),
    };
    samples!(
        lines,
        WingRequest {
            Clients: [WingRequest::Clients],
            Challenge: [WingRequest::Challenge],
            Change: [WingRequest::Change(Box::new(signed_change))],
            Enrol: [WingRequest::Enrol(Box::new(enrolment))],
        }
    );
    let list = AccessList {
        mode: AdmissionMode::Approve,
        clients: vec![ClientRecord {
            allow: allow(),
            source: Source::Invite,
            added_at_ms: 1_700_000_000_000,
            verified: true,
            unconfirmed: false,
        }],
        waiting: vec![WaitingRecord {
            client: client(),
            name: "phone".to_owned(),
            account: Some("ada".to_owned()),
            passkey: false,
            since_ms: 1_700_000_000_000,
        }],
        passkeys: vec![passkey()],
        revoked: vec![(Revoked::Account("eve".to_owned()), 1_700_000_000_000)],
    };
    samples!(
        lines,
        WingResponse {
            Clients: [WingResponse::Clients(Box::new(list))],
            Challenge: [WingResponse::Challenge([8; 32])],
            Changed: [WingResponse::Changed],
            Enrolling: [WingResponse::Enrolling],
        }
    );
    changes(lines);
    announcements(lines);
}

fn changes(lines: &mut Lines) {
    let client = client();
    samples!(
        lines,
        Change {
            Approve: [Change::Approve {
                code: "123456".to_owned(),
                role: ClientRole::Operator,
                paths: vec!["/srv".to_owned()],
            }],
            Allow: [Change::Allow(allow())],
            Revoke: [
                Change::Revoke(Revoked::Client(client)),
                Change::Revoke(Revoked::Device(DeviceKey::from_bytes([4; 32]))),
                Change::Revoke(Revoked::Account("eve".to_owned())),
            ],
            SetTerms: [Change::SetTerms {
                client,
                terms: terms()
            }],
            SetHardware: [Change::SetHardware {
                client,
                hardware: true
            }],
            Confirm: [Change::Confirm { client }],
            SetMode: [
                Change::SetMode(AdmissionMode::Approve),
                Change::SetMode(AdmissionMode::Relay),
                Change::SetMode(AdmissionMode::Locked),
            ],
            Lock: [Change::Lock {
                no_relay_page: true
            }],
            EnrolPasskey: [Change::EnrolPasskey(passkey())],
            ForgetPasskey: [Change::ForgetPasskey {
                credential: vec![3; 16]
            }],
            Rotate: [Change::Rotate],
        }
    );
    samples!(
        lines,
        Act {
            Enter: [Act::Enter],
            Enrol: [Act::Enrol],
            Change: [Act::Change(Box::new(Change::Rotate))],
        }
    );
}

fn announcements(lines: &mut Lines) {
    let client = client();
    samples!(
        lines,
        Actor {
            Machine: [Actor::Machine],
            Client: [Actor::Client(client)],
            Grant: [Actor::Grant("ada".to_owned())],
        }
    );
    samples!(
        lines,
        Announced {
            Allowed: [Announced::Allowed {
                client,
                name: "laptop".to_owned(),
                role: ClientRole::Owner,
                source: Source::Local,
            }],
            Revoked: [Announced::Revoked(Revoked::Client(client))],
            Terms: [Announced::Terms {
                client,
                role: ClientRole::Observer
            }],
            Hardware: [Announced::Hardware {
                client,
                hardware: true
            }],
            Confirmed: [Announced::Confirmed { client }],
            Mode: [Announced::Mode(AdmissionMode::Relay)],
            Locked: [Announced::Locked {
                no_relay_page: false
            }],
            Unlocked: [Announced::Unlocked],
            PasskeyEnrolled: [Announced::PasskeyEnrolled {
                name: "key".to_owned(),
                origin: "https://roost.example".to_owned(),
            }],
            PasskeyForgotten: [Announced::PasskeyForgotten {
                name: "key".to_owned()
            }],
            Rotated: [Announced::Rotated],
            Invited: [Announced::Invited {
                role: ClientRole::Operator
            }],
            EnteredByGrant: [Announced::EnteredByGrant {
                client,
                account: "ada".to_owned()
            }],
        }
    );
    samples!(
        lines,
        Source {
            Local: [Source::Local],
            Invite: [Source::Invite],
            Passkey: [Source::Passkey],
            Grant: [Source::Grant],
        }
    );
    samples!(
        lines,
        ClientKind {
            Cli: [ClientKind::Cli],
            Browser: [ClientKind::Browser],
            RelayPage: [ClientKind::RelayPage],
        }
    );
}

fn access_signed_bytes(lines: &mut Lines) {
    let (hash, nonce, other) = ([1; 32], [2; 32], [3; 32]);
    let second = WingId::of_identity(&IdentityKey::from_bytes([8; 32]));
    lines.bytes("signed.successor", &signed::successor(&wing(), &second));
    lines.bytes("signed.revocation", &signed::revocation(&wing()));
    lines.bytes("signed.grant", &signed::grant(&signed_grant(None).grant));
    let in_org = signed_grant(Some("org")).grant;
    lines.bytes("signed.grant.org", &signed::grant(&in_org));
    lines.bytes("signed.invite", &signed::invite(&hash, &client()));
    lines.bytes(
        "signed.sas_commitment",
        &signed::sas_commitment(&hash, &nonce),
    );
    lines.bytes("signed.sas", &signed::sas(&hash, &nonce, &other));
    let op = Act::Enter.canonical().unwrap();
    lines.bytes("signed.passkey", &signed::passkey(&hash, &nonce, &op));
    lines.bytes("roost_id", roost().as_bytes());
    let statements = WingStatements {
        successors: vec![SuccessorStatement {
            old: IdentityKey::from_bytes([7; 32]),
            new: second,
            signature: Signature::from_bytes([9; 64]),
        }],
        revocations: vec![RevocationStatement {
            identity: IdentityKey::from_bytes([7; 32]),
            signature: Signature::from_bytes([9; 64]),
        }],
    };
    let json = serde_json::to_vec(&statements).unwrap();
    lines.bytes("json.wing_statements", &json);
    assert_eq!(
        serde_json::from_slice::<WingStatements>(&json).unwrap(),
        statements
    );
    let json = serde_json::to_vec(&passkey()).unwrap();
    lines.bytes("json.passkey", &json);
    assert_eq!(serde_json::from_slice::<Passkey>(&json).unwrap(), passkey());
}

fn client() -> ClientKey {
    ClientKey::from_bytes([5; 32])
}

fn roost() -> RoostId {
    RoostId::of("https://roost.example", &GrantKey::from_bytes([6; 32]))
}

fn terms() -> Terms {
    Terms {
        role: ClientRole::Operator,
        paths: vec!["/srv".to_owned()],
        expires_at_ms: Some(1_800_000_000_000),
    }
}

fn allow() -> Allow {
    Allow {
        client: client(),
        device: Some(DeviceKey::from_bytes([4; 32])),
        name: "laptop".to_owned(),
        kind: ClientKind::Browser,
        user: Some("ada".to_owned()),
        terms: terms(),
        hardware: false,
    }
}

fn passkey() -> Passkey {
    Passkey {
        credential: vec![3; 16],
        public_key: vec![0xa4, 1, 1],
        holder: "ada".to_owned(),
        name: "key".to_owned(),
        origin: "https://roost.example".to_owned(),
        rp_id: "roost.example".to_owned(),
        counter: 300,
        added_at_ms: 1_700_000_000_000,
    }
}

fn assertion() -> Assertion {
    Assertion {
        credential: vec![3; 16],
        authenticator_data: vec![1; 37],
        client_data: b"{}".to_vec(),
        signature: vec![2; 64],
    }
}

fn signed_grant(org: Option<&str>) -> SignedGrant {
    SignedGrant {
        grant: Grant {
            roost: roost(),
            account: "ada".to_owned(),
            device: DeviceKey::from_bytes([4; 32]),
            client: client(),
            wing: wing(),
            org: org.map(str::to_owned),
            role: ClientRole::Operator,
            epoch: 7,
            issued_at: 1_700_000_000,
            expires_at: 1_700_000_600,
        },
        signature: Signature::from_bytes([9; 64]),
    }
}

fn announcement(what: Announced) -> Announcement {
    Announcement {
        number: 300,
        at_ms: 1_700_000_000_000,
        by: Actor::Machine,
        what,
    }
}

const SIZE: Winsize = Winsize {
    cols: 200,
    rows: 50,
};

fn agent() -> StartSession {
    StartSession {
        name: None,
        command: vec!["-v".to_owned()],
        cwd: None,
        env: Vec::new(),
        size: SIZE,
        agent: Some("claude".to_owned()),
        record: false,
    }
}

fn wing() -> WingId {
    WingId::of_identity(&IdentityKey::from_bytes([7; 32]))
}

fn session_id() -> SessionId {
    SessionId::from_random([1, 2, 3, 4, 5, 6, 7, 8])
}

fn epoch() -> EggEpoch {
    EggEpoch::from_bytes([11; 16])
}

fn request_id() -> RequestId {
    RequestId::from_bytes([12; 16])
}

fn exit() -> Exit {
    Exit {
        code: Some(-1),
        signal: None,
        at_ms: 1_700_000_000_000,
    }
}

fn principal() -> Principal {
    Principal {
        kind: PrincipalKind::Cli,
        id: "ada".to_owned(),
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::NotFound, "no session \"x\"").hint("wt list")
}

fn parts() -> Vec<SendPart> {
    vec![
        SendPart::Raw(b"\0a".to_vec()),
        SendPart::Text("ls".to_owned()),
        SendPart::Paste("a\nb".to_owned()),
        SendPart::Key("C-c".to_owned()),
    ]
}

fn sent() -> Sent {
    Sent {
        id: session_id().to_string(),
        bytes: 3,
        offset: 300,
    }
}

fn waited(reason: WaitReason) -> Waited {
    let matched = reason == WaitReason::Matched;
    Waited {
        id: session_id().to_string(),
        reason,
        text: matched.then(|| "ready".to_owned()),
        from: 100,
        offset: 300,
        exit: (reason == WaitReason::Ended).then(exit),
    }
}

fn event(what: SessionChange) -> SessionEvent {
    SessionEvent {
        id: session_id().to_string(),
        name: "work".to_owned(),
        at_ms: 1_800_000_000_000,
        what,
    }
}

fn screen() -> ScreenText {
    ScreenText {
        id: session_id().to_string(),
        lines: vec!["$ ls".to_owned(), "é".to_owned()],
        scrollback: 1,
        cursor_row: 2,
        cursor_col: 300,
        cursor_visible: true,
        size: SIZE,
        title: "sh".to_owned(),
        modes: vec!["bracketed-paste".to_owned()],
        offset: 70_000,
        truncated_before: 0,
    }
}

fn living() -> SessionRecord {
    SessionRecord {
        id: session_id().to_string(),
        name: "work".to_owned(),
        kind: SessionKind::Command,
        agent: None,
        command: vec!["vi".to_owned()],
        cwd: "/srv".to_owned(),
        status: SessionStatus::Running,
        isolation: Isolation::None,
        pid: Some(4_242),
        created_at_ms: 1_700_000_000_000,
        created_by: principal(),
        size: SIZE,
        bytes_written: 70_000,
        title: "vi".to_owned(),
        attention: Some("notify".to_owned()),
        clients: 1,
        writer: Some(principal()),
        exit: None,
        notes: Vec::new(),
    }
}

fn ended() -> SessionRecord {
    SessionRecord {
        kind: SessionKind::Agent,
        agent: Some("scribe".to_owned()),
        status: SessionStatus::Killed,
        pid: None,
        attention: None,
        clients: 0,
        writer: None,
        exit: Some(Exit {
            code: None,
            signal: Some(9),
            at_ms: 1_700_000_000_001,
        }),
        notes: vec!["A note.".to_owned()],
        ..living()
    }
}

//! Eggs outlive updates of the program around them: a client of each released version of
//! the local protocol is answered by this egg, and this client understands an egg of each.
//!
//! `sessions/vN.bin` is what went over the socket of an egg of version N, and never
//! changes. A new version gets a file of its own: write its conversation here, then run
//! `WT_RECORD=1 cargo test -p wt-egg --test old_eggs`. A file that is there is not replaced.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use wt_egg::backend::Program;
use wt_egg::dir::DIR_VERSION;
use wt_egg::log::MIN_OUTPUT_WINDOW;
use wt_egg::server::Launch;
use wt_egg::{EggClient, EggDir, LifeLimits, Meta};
use wt_protocol::limits::MAX_MESSAGE;
use wt_protocol::local::{FromEgg, LocalHello, ToEgg};
use wt_protocol::rpc::{
    Isolation, Principal, PrincipalKind, SendPart, SessionChange, SessionKind, SessionStatus,
    Until, WaitFor, WaitFrom, WaitReason,
};
use wt_protocol::session::{Attach, ClientMessage, WingMessage, Winsize};
use wt_protocol::{AttachmentId, Prefix, codec, frame};

/// The key of every egg here, so that recorded bytes open each of them.
const KEY: [u8; 32] = [7; 32];

const ID: &str = "abcdefghijkl";

/// The variable that makes this program an egg, with the session's folder.
const BE_EGG: &str = "WT_TEST_EGG";

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

const SIZE: Winsize = Winsize { cols: 90, rows: 30 };

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    connection: u8,
    to_egg: bool,
    bytes: Vec<u8>,
}

/// What a client of version 1 says, and how many answers it waits for after each word.
/// Output is not counted, for in how many pieces it comes is chance; after typing a first
/// one is waited for.
fn conversation_1() -> Vec<(u8, ToEgg, usize)> {
    let principal = Principal {
        kind: PrincipalKind::Cli,
        id: "ada".to_owned(),
    };
    let hello = |key| {
        ToEgg::Hello(LocalHello {
            version: 1,
            key,
            principal: principal.clone(),
        })
    };
    let attach = ClientMessage::Attach(Attach {
        session: ID.to_owned(),
        attachment: AttachmentId::from_bytes([1; 16]),
        size: SIZE,
        read_only: false,
        takeover: false,
        resume: None,
    });
    let input = ClientMessage::Input {
        offset: 0,
        bytes: b"typed\r".to_vec(),
    };
    let wait = |until, timeout_ms| ToEgg::Wait {
        until,
        from: WaitFrom::LastSend,
        timeout_ms,
    };
    let resized = Winsize { cols: 70, rows: 20 };
    vec![
        (0, hello([0; 32]), 1),
        (1, hello(KEY), 1),
        (1, ToEgg::Status, 1),
        (1, ToEgg::Screen { scrollback: 10 }, 1),
        (
            1,
            ToEgg::Send {
                parts: vec![
                    SendPart::Raw(b"raw ".to_vec()),
                    SendPart::Text("text ".to_owned()),
                    SendPart::Paste("paste".to_owned()),
                    SendPart::Key("Enter".to_owned()),
                ],
            },
            1,
        ),
        (
            1,
            wait(Until::Regex("got raw text p.ste".to_owned()), 20_000),
            1,
        ),
        (1, wait(Until::Contains("never".to_owned()), 10), 1),
        (1, wait(Until::Idle(10), 20_000), 1),
        (1, ToEgg::Resize(resized), 1),
        (
            1,
            ToEgg::Rename {
                name: "other".to_owned(),
            },
            1,
        ),
        (1, ToEgg::Signal(28), 1),
        (
            1,
            ToEgg::Send {
                parts: vec![SendPart::Key("Nonsense".to_owned())],
            },
            1,
        ),
        (2, hello(KEY), 1),
        (2, ToEgg::Watch, 0),
        (3, hello(KEY), 1),
        // Attached, the snapshot, and what is told to the one who watches.
        (3, ToEgg::Client(attach), 2),
        (2, ToEgg::Watch, 1),
        (3, ToEgg::Client(input), 0),
        (3, ToEgg::Client(ClientMessage::Resize(resized)), 1),
        (3, ToEgg::Client(ClientMessage::Detach), 0),
        (4, hello(KEY), 1),
        (4, ToEgg::Kill, 1),
    ]
}

/// A session's folder and its egg, which is ended with the test.
struct Egg {
    _root: TempDir,
    dir: EggDir,
    process: Child,
}

impl Egg {
    fn start() -> Self {
        let root = tempfile::Builder::new()
            .prefix("egg-")
            .tempdir_in("/tmp")
            .unwrap();
        let dir = EggDir::new(root.path().join(ID));
        fs::create_dir(dir.path()).unwrap();
        dir.write_key(&KEY).unwrap();
        dir.write_meta(&meta()).unwrap();
        let script = "while read -r line; do echo \"got $line\"; done";
        let launch = Launch {
            program: Program {
                command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
                cwd: "/".into(),
                env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            },
            size: SIZE,
            record: None,
            enter_delay: Some(Duration::from_millis(1)),
            life: LifeLimits::default(),
            notes: Vec::new(),
            boundary: wt_egg::boundary::Boundary::None,
        };
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "this_program_becomes_an_egg", "--nocapture"])
            .env(BE_EGG, dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        stdin
            .write_all(&serde_json::to_vec(&launch).unwrap())
            .unwrap();
        drop(stdin);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut process.stdout.take().unwrap(), &mut said).unwrap();
        assert!(said.contains("\"Running\""), "{said}");
        Self {
            _root: root,
            dir,
            process,
        }
    }
}

impl Drop for Egg {
    fn drop(&mut self) {
        // Asked, so that it ends what it started; an egg that was killed by the test is gone.
        if let Ok(pid) = i32::try_from(self.process.id()) {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.process.wait();
    }
}

fn meta() -> Meta {
    Meta {
        version: DIR_VERSION,
        id: ID.parse().unwrap(),
        name: "work".parse().unwrap(),
        kind: SessionKind::Command,
        agent: None,
        command: vec!["/bin/sh".to_owned()],
        cwd: PathBuf::from("/"),
        isolation: Isolation::None,
        created_at_ms: 1,
        created_by: Principal {
            kind: PrincipalKind::Cli,
            id: "ada".to_owned(),
        },
        size: SIZE,
        output_window: MIN_OUTPUT_WINDOW,
        epoch: None,
        egg_pid: None,
        pid: None,
        boot_id: None,
        machine: None,
        program_version: None,
    }
}

/// Not a test of its own: the process that [`Egg::start`] starts.
#[test]
fn this_program_becomes_an_egg() {
    if let Some(folder) = std::env::var_os(BE_EGG) {
        std::process::exit(wt_egg::server::run(Path::new(&folder)));
    }
}

#[tokio::test]
async fn clients_of_version_1_are_answered_in_kind() {
    let recorded = read_session(1);
    let egg = Egg::start();

    let mut talk = Talk::new(&egg.dir);
    for entry in &recorded {
        if entry.to_egg {
            talk.say(entry.connection, &entry.bytes).await;
        } else if is_output(&entry.bytes) {
            // In how many pieces it comes is chance; that it comes is not.
            if talk.outputs == 0 {
                assert!(is_output(&talk.any(entry.connection).await));
                talk.outputs += 1;
            }
        } else {
            let answer = talk.answer(entry.connection).await;
            assert_eq!(kind(&answer), kind(&entry.bytes));
        }
    }
    assert!(talk.outputs > 0);
}

#[tokio::test]
async fn an_egg_of_version_1_is_understood() {
    let recorded = read_session(1);
    let root = tempfile::tempdir_in("/tmp").unwrap();
    let dir = EggDir::new(root.path());
    dir.write_key(&KEY).unwrap();
    let old = OldEgg::listen(&dir, recorded);
    let principal = meta().created_by;
    let wait = |until, timeout_ms| WaitFor {
        session: ID.to_owned(),
        until,
        from: WaitFrom::LastSend,
        timeout_ms,
    };

    let serving = tokio::spawn(old.serve(vec![0, 1, 4]));
    let refused = EggClient::connect(&dir, principal.clone())
        .await
        .unwrap_err();
    assert!(refused.message.contains("key"), "{refused}");
    let mut egg = EggClient::connect(&dir, principal.clone()).await.unwrap();
    let status = egg.status().await.unwrap();
    assert_eq!((status.status, status.size), (SessionStatus::Running, SIZE));
    assert_eq!(egg.screen(10).await.unwrap().id, ID);
    assert_eq!(egg.send(Vec::new()).await.unwrap().bytes, 15);
    let matched = egg.wait(&wait(Until::Exit, 1_000)).await.unwrap();
    assert_eq!(matched.reason, WaitReason::Matched);
    let timed_out = egg.wait(&wait(Until::Exit, 1_000)).await.unwrap();
    assert_eq!(timed_out.reason, WaitReason::TimedOut);
    egg.wait(&wait(Until::Idle(1), 1_000)).await.unwrap();
    egg.resize(SIZE).await.unwrap();
    egg.rename("other").await.unwrap();
    egg.signal(28).await.unwrap();
    assert!(
        egg.send(Vec::new())
            .await
            .unwrap_err()
            .message
            .contains("Nonsense")
    );
    drop(egg);
    let mut egg = EggClient::connect(&dir, principal).await.unwrap();
    egg.kill().await.unwrap();

    serving.await.unwrap();
}

#[tokio::test]
async fn the_conversation_of_this_version_is_recorded() {
    let path = session_file(1);
    if path.exists() || std::env::var_os("WT_RECORD").is_none() {
        // What is released is not recorded again.
        assert!(path.exists(), "run this with WT_RECORD=1");
        return;
    }
    let egg = Egg::start();
    let mut talk = Talk::new(&egg.dir);
    let mut recorded = Vec::new();
    for (connection, message, answers) in conversation_1() {
        // A word to watch with an answer stands for waiting alone.
        let is_wait = matches!(message, ToEgg::Watch) && answers > 0;
        if !is_wait {
            let bytes = codec::encode(&message, MAX_MESSAGE).unwrap();
            talk.say(connection, &bytes).await;
            recorded.push(Entry {
                connection,
                to_egg: true,
                bytes,
            });
        }
        let is_typed = matches!(message, ToEgg::Client(ClientMessage::Input { .. }));
        for _ in 0..answers.max(usize::from(is_typed)) {
            loop {
                let bytes = talk.any(connection).await;
                let is_last = is_typed || !is_output(&bytes);
                recorded.push(Entry {
                    connection,
                    to_egg: false,
                    bytes,
                });
                if is_last {
                    break;
                }
            }
        }
    }
    fs::write(path, encode_session(&recorded)).unwrap();
}

/// Connections to an egg, by their numbers.
struct Talk<'a> {
    dir: &'a EggDir,
    sockets: HashMap<u8, UnixStream>,
    /// Messages with output that came in between.
    outputs: usize,
}

impl<'a> Talk<'a> {
    fn new(dir: &'a EggDir) -> Self {
        Self {
            dir,
            sockets: HashMap::new(),
            outputs: 0,
        }
    }

    async fn say(&mut self, connection: u8, bytes: &[u8]) {
        if !self.sockets.contains_key(&connection) {
            let socket = UnixStream::connect(self.dir.socket()).await.unwrap();
            self.sockets.insert(connection, socket);
        }
        let socket = self.sockets.get_mut(&connection).unwrap();
        socket.write_all(&frame(Prefix::U32, bytes)).await.unwrap();
    }

    /// The next message.
    async fn any(&mut self, connection: u8) -> Vec<u8> {
        let socket = self.sockets.get_mut(&connection).unwrap();
        timeout(PATIENCE, read_frame(socket))
            .await
            .expect("an answer comes in time")
            .expect("the egg does not hang up")
    }

    /// The next message that is no output.
    async fn answer(&mut self, connection: u8) -> Vec<u8> {
        loop {
            let bytes = self.any(connection).await;
            if !is_output(&bytes) {
                return bytes;
            }
            self.outputs += 1;
        }
    }
}

/// An egg that says what another said once.
struct OldEgg {
    listener: UnixListener,
    recorded: Vec<Entry>,
}

impl OldEgg {
    fn listen(dir: &EggDir, recorded: Vec<Entry>) -> Self {
        Self {
            listener: UnixListener::bind(dir.socket()).unwrap(),
            recorded,
        }
    }

    /// Plays these recorded connections to those who come, one after the other.
    async fn serve(self, connections: Vec<u8>) {
        for connection in connections {
            let (mut socket, _) = self.listener.accept().await.unwrap();
            for entry in self.recorded.iter().filter(|e| e.connection == connection) {
                if entry.to_egg {
                    read_frame(&mut socket).await.unwrap();
                } else {
                    let bytes = frame(Prefix::U32, &entry.bytes);
                    socket.write_all(&bytes).await.unwrap();
                }
            }
        }
    }
}

/// One frame without its length; none at the end.
async fn read_frame(socket: &mut UnixStream) -> Option<Vec<u8>> {
    let length = socket.read_u32().await.ok()?;
    let mut bytes = vec![0; length as usize];
    socket.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

fn decode(bytes: &[u8]) -> FromEgg {
    codec::decode(bytes, MAX_MESSAGE).expect("an answer that this version knows")
}

fn is_output(bytes: &[u8]) -> bool {
    matches!(
        codec::decode(bytes, MAX_MESSAGE),
        Ok(FromEgg::Wing(WingMessage::Output { .. }))
    )
}

/// What an answer is, without what differs from run to run.
fn kind(bytes: &[u8]) -> String {
    match decode(bytes) {
        FromEgg::Welcome { version, session } => {
            assert!(version >= 1);
            format!("welcome to {session}")
        }
        FromEgg::Wing(message) => match message {
            WingMessage::Attached(attached) => {
                format!("attached to {} {:?}", attached.name, attached.size)
            }
            WingMessage::Snapshot { last, .. } => format!("snapshot {last}"),
            WingMessage::Resized(size) => format!("resized {size:?}"),
            other => format!("wing {other:?}"),
        },
        FromEgg::Status(status) => format!("status {:?} {:?}", status.status, status.size),
        FromEgg::Screen(screen) => format!("screen {} {:?}", screen.id, screen.size),
        FromEgg::Done => "done".to_owned(),
        FromEgg::Failed(failure) => format!("failed {:?}", failure.kind),
        FromEgg::Sent(sent) => format!("sent {} {}", sent.id, sent.bytes),
        FromEgg::Waited(waited) => format!("waited {} {:?}", waited.id, waited.reason),
        FromEgg::Event(event) => match event.what {
            SessionChange::Attached(count) => format!("event attached {count}"),
            other => format!("event {other:?}"),
        },
    }
}

fn session_file(version: u16) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/sessions/v{version}.bin"))
}

/// Each entry: the connection, who speaks (1 for the client), the length, the bytes.
fn encode_session(entries: &[Entry]) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in entries {
        all.extend([entry.connection, u8::from(entry.to_egg)]);
        all.extend(u32::try_from(entry.bytes.len()).unwrap().to_be_bytes());
        all.extend(&entry.bytes);
    }
    all
}

fn read_session(version: u16) -> Vec<Entry> {
    let path = session_file(version);
    let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    while let [connection, to_egg, a, b, c, d, tail @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (bytes, tail) = tail.split_at(length);
        entries.push(Entry {
            connection: *connection,
            to_egg: *to_egg == 1,
            bytes: bytes.to_vec(),
        });
        rest = tail;
    }
    assert!(!entries.is_empty());
    entries
}

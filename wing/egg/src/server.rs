//! The egg process: one program, and everyone who wants to see it.
//!
//! One thread does everything, so that a key and its echo pass with one wake-up each. Its
//! tasks, and who ends them:
//! - a task that reads the terminal, ended by the end of its output;
//! - a task that writes it, ended by closing the input queue or with the runtime;
//! - one task that accepts connections, and two for each connection (one that reads
//!   messages, and while attached one that sends), all ended with the runtime;
//! - the main task, which reaps processes and decides when the egg is done.
//!
//! All state has one lock, held for as long as one chunk takes and never over an await.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wt_files::Lock;
use wt_protocol::limits::{
    ACK_DELAY, INPUT_WINDOW, MAX_CHUNK, MAX_PATTERN, MAX_READ_LINES, MAX_WAIT_MS,
};
use wt_protocol::local::{EggStatus, FromEgg, LOCAL_VERSION, ToEgg};
use wt_protocol::rpc::{
    Failure, FailureKind, Isolation, Principal, ScreenText, SendPart, Sent, SessionChange,
    SessionEvent, SessionStatus, Until, WaitFrom, WaitReason, Waited,
};
use wt_protocol::session::{Attach, Attached, ClientMessage, Exit, History, WingMessage, Winsize};
use wt_protocol::{AttachmentId, EggEpoch, SessionName};

use crate::attachments::{Attachments, Input, StreamId};
use crate::backend::{Backend, Held, Program, Spawned, Terminal};
use crate::boundary::{Boundary, Sandbox};
use crate::dir::{DIR_VERSION, EggDir, ExitRecord, Meta};
use crate::input::{InputQueue, Source};
use crate::limits::{Life, LifeLimits, Look, Next};
use crate::log::{ENDED_OUTPUT, OutputLog};
use crate::master::{self, CLOSED_TERMINAL_POLL, Taken};
use crate::process;
use crate::pty::Unsandboxed;
use crate::recording::{Mark, Recorder};
use crate::screen::{Attention, Model, ModelLimits, Modes, Mouse, Screen, Size};
use crate::socket::LocalSocket;
use crate::typing;
use crate::waiting::{Echo, Pattern, Search};
use crate::wire::{self, MessageReader, MessageWriter};

/// Bytes taken from the terminal at once. The slowest output keeps the model busy for less
/// than a millisecond with them, and so long may a key wait in a flood.
const READ_SIZE: usize = 16 * 1024;

/// Bytes of the log that a wait searches at once.
const SEARCH_SIZE: usize = 64 * 1024;

/// After the program ended, output is waited for this long since the last byte when
/// something else still holds the terminal open.
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(300);

/// How long an ended egg waits for clients that were cut off, so that they get the rest.
/// A client that comes back does so well within this.
const LINGER: Duration = Duration::from_secs(60);

/// A program that printed nothing for this long may be asking something.
const PROMPT_IDLE: Duration = Duration::from_secs(5);

/// Pause before a key that must not be read together with the text before it, unless the
/// session's maker knows better. Agents take what arrives within a few milliseconds for a
/// paste.
const APART: Duration = Duration::from_millis(80);

/// How often a sender looks whether the program takes more.
const SEND_CHECK: Duration = Duration::from_millis(20);

/// Events that may wait for one watcher.
const WAITING_EVENTS: usize = 256;

/// Sent lines whose echo is looked out for. A longer text is a paste, which shells show in
/// a way of their own.
const MAX_ECHO_LINES: usize = 64;

/// Output that fits a record of 4,096 bytes, with the same room around it as [`MAX_CHUNK`].
const MIDDLE_CHUNK: usize = 4_096 - 64;

/// A connection must say hello in this time.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// How often a session with a budget of computing time is looked at.
const BUDGET_POLL: Duration = Duration::from_secs(1);

/// Connections to one egg at once. Each costs two small tasks and a socket.
const MAX_CONNECTIONS: usize = 256;

/// Between two sizes that the program gets. Whoever drags the border of a window makes
/// dozens in a second, and full-screen programs draw everything anew for each.
const RESIZE_PAUSE: Duration = Duration::from_millis(100);

/// Scrollback lines that a snapshot carries to a client.
const SNAPSHOT_SCROLLBACK: usize = 2_000;

/// What the starter tells the egg, on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The program to start.
    pub program: Program,
    /// Its terminal's first size.
    pub size: Winsize,
    /// Largest recording in bytes, when the session is recorded.
    pub record: Option<u64>,
    /// How long Enter must wait after text for this program.
    #[serde(default)]
    pub enter_delay: Option<Duration>,
    /// How long the session may live unused.
    #[serde(default)]
    pub life: LifeLimits,
    /// What its user should know of how it was made, each one sentence.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What holds the program.
    #[serde(default)]
    pub boundary: Boundary,
}

/// What the egg tells its starter, on its standard output, once.
#[derive(Debug, Serialize, Deserialize)]
pub enum Started {
    /// The program runs and the socket answers.
    Running {
        /// The program's process id.
        pid: u32,
    },
    /// Nothing runs.
    Failed(Failure),
}

/// Runs the egg of the session in this folder until it is done. Never returns before.
///
/// The process must have one thread and be the leader of its own session; what to start
/// comes on standard input as a [`Launch`] in JSON, and one [`Started`] goes out.
pub fn run(folder: &Path) -> i32 {
    let dir = EggDir::new(folder);
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return tell_starter(&failed("start a runtime", &error)),
    };
    runtime.block_on(async {
        match Egg::start(dir).await {
            Ok((egg, listener, life)) => {
                let pid = egg.program_pid;
                tell_starter(&Started::Running { pid });
                egg.serve(listener, life).await;
                0
            }
            Err(failure) => tell_starter(&Started::Failed(failure)),
        }
    })
}

/// Writes the one answer to the starter and lets go of its pipe.
fn tell_starter(started: &Started) -> i32 {
    let text = serde_json::to_string(started).expect("these types have no value that JSON lacks");
    let mut stdout = io::stdout();
    // A starter that is gone needs no answer; the egg goes on all the same.
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    if let Ok(null) = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        let _ = nix::unistd::dup2_stdout(&null);
        let _ = nix::unistd::dup2_stdin(&null);
    }
    i32::from(matches!(started, Started::Failed(_)))
}

fn failed(act: &str, error: &dyn std::fmt::Display) -> Started {
    Started::Failed(Failure::new(
        FailureKind::Failed,
        format!("cannot {act}: {error}"),
    ))
}

/// What all threads and tasks share.
struct Egg {
    dir: EggDir,
    key: [u8; 32],
    program_pid: u32,
    /// The child whose end is the end of the program.
    ends_with: u32,
    /// What holds the program, until it has ended.
    held: Mutex<Option<Box<dyn Held>>>,
    state: Mutex<State>,
    input: InputQueue,
    terminal: Mutex<Box<dyn Terminal>>,
    /// Offset after the newest output byte.
    printed: watch::Sender<u64>,
    /// Counts changes of everything else that an attached client is told.
    changed: watch::Sender<u64>,
    /// The program was reaped.
    program_ended: AtomicBool,
    /// The terminal gave its last byte.
    output_ended: Notify,
    next_stream: AtomicU64,
    /// What happens, for those who watch.
    events: broadcast::Sender<SessionEvent>,
    /// How long Enter waits after text.
    apart: Duration,
    /// Notes on how the session was made.
    notes: Vec<String>,
    /// Since when the recording's times count.
    started: Instant,
    /// Something waits to be written to the recording.
    flush: Notify,
    /// Counts messages sent to attached clients: whether the slow ones still take any.
    sent: AtomicU64,
    _alive: Lock,
}

/// Input that was sent, as far as a wait needs to know it.
struct LastSend {
    /// Offset of the output before it.
    offset: u64,
    echo: Echo,
    at: Instant,
}

struct State {
    meta: Meta,
    log: OutputLog,
    screen: Model,
    attachments: Attachments,
    attention: Option<&'static str>,
    /// The title that was told last.
    title: String,
    /// The last input that was sent without an attachment.
    last_send: Option<LastSend>,
    /// When something was printed last.
    printed_at: Instant,
    /// When a client left last.
    left_at: Instant,
    /// When the terminal got another size last.
    resized_at: Option<Instant>,
    /// A task waits to give it the size that holds then.
    resize_is_due: bool,
    /// Why the egg ended the session by itself.
    ended_because: Option<String>,
    /// What is to be said of what the ended session left.
    left: Vec<String>,
    /// The recording, if there is one.
    recorder: Option<Recorder>,
    /// Set once all output of the ended program is in the log.
    exit: Option<Exit>,
    killed: bool,
    connections: usize,
}

impl Egg {
    async fn start(dir: EggDir) -> Result<(Arc<Self>, LocalSocket, LifeLimits), Failure> {
        let failure = |act: &str, e: &dyn std::fmt::Display| {
            Failure::new(FailureKind::Failed, format!("cannot {act}: {e}"))
        };
        let mut text = String::new();
        io::stdin()
            .read_to_string(&mut text)
            .map_err(|e| failure("read what to start", &e))?;
        let launch: Launch =
            serde_json::from_str(&text).map_err(|e| failure("read what to start", &e))?;
        let mut meta = dir.meta().map_err(|e| failure("read the session", &e))?;
        let key = dir.key().map_err(|e| failure("read the session", &e))?;
        let alive = Lock::acquire(&dir.alive(), Duration::from_secs(2))
            .map_err(|e| failure("claim the session", &e))?;
        nix::sys::prctl::set_child_subreaper(true)
            .map_err(|e| failure("hold its processes", &e))?;
        let listener = LocalSocket::bind(&dir.socket())
            .map_err(|e| Failure::new(FailureKind::Failed, e.to_string()))?;
        let log = OutputLog::create(&dir.output(), meta.output_window)
            .map_err(|e| failure("make the output log", &e))?;

        let recorder = launch
            .record
            .map(|cap| Recorder::create(&dir.recording(), launch.size, cap, meta.created_at_ms))
            .transpose()
            .map_err(|e| failure("make the recording", &e))?;

        let sandbox;
        let backend: &dyn Backend = match &launch.boundary {
            Boundary::None => &Unsandboxed(Isolation::None),
            Boundary::Outer => &Unsandboxed(Isolation::OuterBoundary),
            Boundary::Namespace(policy) => {
                sandbox = Sandbox {
                    policy,
                    id: meta.id.as_str(),
                    network_log: dir.network_log(),
                    enforced: dir.enforced(),
                    policy_record: dir.policy(),
                    kept_settings: dir.kept_settings(),
                };
                &sandbox
            }
        };
        let Spawned {
            pid,
            ends_with,
            master,
            terminal,
            notes,
            held,
        } = backend.spawn(&launch.program, launch.size)?;
        let (output, input) = match master::split(master) {
            Ok(both_ways) => both_ways,
            Err(error) => {
                process::end_tree(pid).await;
                return Err(failure("watch the terminal", &error));
            }
        };
        let mut epoch = [0; 16];
        getrandom::fill(&mut epoch).map_err(|e| failure("draw random bytes", &e))?;
        let epoch = EggEpoch::from_bytes(epoch);
        meta.epoch = Some(epoch);
        meta.isolation = backend.isolation();
        meta.egg_pid = Some(std::process::id());
        meta.pid = Some(pid);
        meta.boot_id = process::boot_id();
        if let Err(error) = dir.write_meta(&meta) {
            process::end_tree(pid).await;
            return Err(failure("store the session", &error));
        }

        let limits = ModelLimits::default();
        let size = launch.size;
        let egg = Arc::new(Self {
            dir,
            key,
            program_pid: pid,
            ends_with,
            held: Mutex::new(held),
            state: Mutex::new(State {
                screen: Model::new(screen_size(size), limits),
                attachments: Attachments::new(epoch, size),
                meta,
                log,
                attention: None,
                title: String::new(),
                last_send: None,
                printed_at: Instant::now(),
                left_at: Instant::now(),
                resized_at: None,
                resize_is_due: false,
                ended_because: None,
                left: Vec::new(),
                recorder,
                exit: None,
                killed: false,
                connections: 0,
            }),
            input: InputQueue::default(),
            terminal: Mutex::new(terminal),
            printed: watch::Sender::new(0),
            changed: watch::Sender::new(0),
            program_ended: AtomicBool::new(false),
            output_ended: Notify::new(),
            next_stream: AtomicU64::new(0),
            events: broadcast::Sender::new(WAITING_EVENTS),
            apart: launch.enter_delay.unwrap_or(APART),
            notes: launch.notes.into_iter().chain(notes).collect(),
            started: Instant::now(),
            flush: Notify::new(),
            sent: AtomicU64::new(0),
            _alive: alive,
        });
        tokio::spawn(Arc::clone(&egg).read_terminal(output));
        tokio::spawn(Arc::clone(&egg).write_terminal(input));
        Ok((egg, listener, launch.life))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in one client's task must not take the session from the others.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The terminal's two tasks.

    async fn read_terminal(self: Arc<Self>, mut output: master::Output) {
        let mut buffer = vec![0; READ_SIZE];
        loop {
            match output.read(&mut buffer).await {
                // EIO: nobody has the terminal open at this moment (pty(7)).
                Ok(Taken { count: 0, .. }) | Err(_)
                    if self.program_ended.load(Ordering::Acquire) =>
                {
                    break;
                }
                Ok(Taken { count: 0, .. }) | Err(_) => sleep(CLOSED_TERMINAL_POLL).await,
                Ok(Taken { count, more }) => {
                    self.take_output(&buffer[..count]);
                    if more {
                        // Keys and clients come between two pieces of a flood.
                        yield_now().await;
                    }
                }
            }
        }
        self.output_ended.notify_one();
    }

    fn take_output(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.log.append(bytes);
        state.screen.feed(bytes);
        state.printed_at = Instant::now();
        self.record(&mut state, |recorder, at| recorder.output(at, bytes));
        let answers = state.screen.take_replies();
        for attention in state.screen.take_attention() {
            let (kind, text) = match attention {
                Attention::Bell => ("bell", None),
                Attention::Notification { body, .. } => ("notify", Some(body)),
            };
            self.want_attention(&mut state, kind, text);
        }
        if state.screen.title() != state.title {
            state.title = state.screen.title().to_owned();
            let title = state.title.clone();
            self.happened(&state, SessionChange::Title(title));
        }
        let end = state.log.end();
        drop(state);
        self.input.answer(answers);
        self.printed.send_replace(end);
    }

    /// Adds to the recording, if there is one.
    fn record(&self, state: &mut State, add: impl FnOnce(&mut Recorder, Duration)) {
        if let Some(recorder) = &mut state.recorder {
            let was_waiting = recorder.due().is_some();
            add(recorder, self.started.elapsed());
            if !was_waiting && recorder.due().is_some() {
                self.flush.notify_one();
            }
        }
    }

    /// Writes the recording in time, so that a crash takes little of it.
    async fn keep_recording(self: Arc<Self>) {
        loop {
            let due = self.lock().recorder.as_ref().and_then(Recorder::due);
            match due {
                None => self.flush.notified().await,
                Some(due) => {
                    sleep_until(self.started + due).await;
                    let now = self.started.elapsed();
                    if let Some(recorder) = &mut self.lock().recorder {
                        recorder.flush_due(now);
                    }
                }
            }
        }
    }

    fn want_attention(&self, state: &mut State, kind: &'static str, text: Option<String>) {
        state.attention = Some(kind);
        self.happened(
            state,
            SessionChange::Attention {
                kind: kind.to_owned(),
                text,
            },
        );
    }

    /// Tells those who watch. With nobody there it is dropped.
    fn happened(&self, state: &State, what: SessionChange) {
        let event = SessionEvent {
            id: state.meta.id.to_string(),
            name: state.meta.name.to_string(),
            at_ms: now_ms(),
            what,
        };
        let _ = self.events.send(event);
    }

    /// Notices a program that stopped printing and seems to ask something.
    async fn watch_for_prompts(self: Arc<Self>) {
        let mut printed = self.printed.subscribe();
        while printed.changed().await.is_ok() {
            while timeout(PROMPT_IDLE, printed.changed()).await.is_ok() {}
            let mut state = self.lock();
            if state.attention.is_none() && state.exit.is_none() && is_asking(&state.screen) {
                self.want_attention(&mut state, "prompt", None);
            }
        }
    }

    /// Ends the session when it was unused for as long as it may be.
    async fn keep_limits(self: Arc<Self>, limits: LifeLimits) {
        let Some(mut life) = Life::new(limits, self.started) else {
            return;
        };
        loop {
            let computed = process::computed_below();
            let look = {
                let state = self.lock();
                let sent_at = state.last_send.as_ref().map(|last| last.at);
                Look {
                    now: Instant::now(),
                    attached: state.attachments.attached() > 0,
                    active_at: state
                        .printed_at
                        .max(state.left_at)
                        .max(sent_at.unwrap_or(self.started)),
                    computed,
                }
            };
            match life.look(look) {
                Next::At(next) => sleep_until(next).await,
                Next::End(because) => {
                    self.lock().ended_because = Some(because);
                    self.begin_kill();
                    return;
                }
            }
        }
    }

    async fn write_terminal(self: Arc<Self>, mut input: master::Input) {
        while let Some(piece) = self.input.next().await {
            // A terminal that is gone takes nothing; the program's end is seen elsewhere.
            let _ = input.write_all(&piece.bytes).await;
            self.input.written(&piece);
            match piece.from {
                Source::Attachment(from) => {
                    self.lock()
                        .attachments
                        .applied(&from, piece.bytes.len() as u64);
                    self.tell();
                }
                Source::Sent => self.tell(),
                Source::Answer => {}
            }
        }
    }

    /// Wakes every attached client's sender.
    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    // The process.

    async fn serve(self: Arc<Self>, listener: LocalSocket, life: LifeLimits) {
        let accepting = Arc::clone(&self);
        let accepting = tokio::spawn(async move { accepting.accept(listener).await });
        let prompting = tokio::spawn(Arc::clone(&self).watch_for_prompts());
        let recording = tokio::spawn(Arc::clone(&self).keep_recording());
        let living = tokio::spawn(Arc::clone(&self).keep_limits(life));
        let budget = tokio::spawn(Arc::clone(&self).keep_budget());
        let (Ok(mut child), Ok(mut terminate), Ok(mut interrupt)) = (
            signal(SignalKind::child()),
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        ) else {
            tracing::error!("signals cannot be watched");
            process::end_tree(self.program_pid).await;
            return;
        };
        let exit = loop {
            if let Some(exit) = self.reap() {
                break exit;
            }
            tokio::select! {
                _ = child.recv() => {}
                _ = terminate.recv() => self.begin_kill(),
                _ = interrupt.recv() => self.begin_kill(),
            }
        };
        self.program_ended.store(true, Ordering::Release);
        self.wait_for_last_output().await;
        budget.abort();
        let left = self.clear_up().await;
        self.record_exit(exit, left);
        let reaping = Arc::clone(&self);
        let reaper = tokio::spawn(async move {
            while child.recv().await.is_some() {
                reaping.reap();
            }
        });
        self.wait_for_clients().await;
        reaper.abort();
        prompting.abort();
        recording.abort();
        living.abort();
        if let Some(note) = self.lock().recorder.take().and_then(Recorder::finish) {
            tracing::warn!(note, "the recording is not whole");
        }
        // The socket goes with the task that accepts.
        accepting.abort();
        let _ = accepting.await;
        // Whoever it led to is nobody's concern once the program is gone.
        let _ = fs::remove_file(self.dir.agent_socket());
        self.lock().log.shrink(ENDED_OUTPUT);
    }

    /// Reaps every ended process below the egg; tells how the program ended, if it is among them.
    fn reap(&self) -> Option<Exit> {
        let mut ended = None;
        loop {
            let (code, signal, pid) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (Some(code), None, pid),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (None, Some(signal as i32), pid),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return ended,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return ended,
            };
            if pid == Pid::from_raw(self.ends_with as i32) {
                let (code, signal) = self.exact_status().unwrap_or((code, signal));
                ended = Some(Exit {
                    code,
                    signal,
                    at_ms: now_ms(),
                });
            }
        }
    }

    /// How the program ended, when the child that ends with it is another one.
    fn exact_status(&self) -> Option<(Option<i32>, Option<i32>)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let status = held.as_ref()?.status().ok()?;
        Some((status.code(), status.signal()))
    }

    /// Takes the boundary down and gives what is to be said of it.
    async fn clear_up(&self) -> Vec<String> {
        let held = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.take()
        };
        let Some(held) = held else {
            return Vec::new();
        };
        let cleared = tokio::task::spawn_blocking(|| held.clear_up());
        cleared.await.unwrap_or_else(|error| {
            vec![format!(
                "what the session left could not be looked at: {error}"
            )]
        })
    }

    /// Ends a session that has used up what its policy gives it.
    async fn keep_budget(self: Arc<Self>) {
        loop {
            let over = {
                let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                match held.as_ref() {
                    Some(held) if held.has_budget() => held.over_budget(),
                    _ => return,
                }
            };
            if let Some(because) = over {
                self.lock().ended_because = Some(because);
                self.begin_kill();
                return;
            }
            sleep(BUDGET_POLL).await;
        }
    }

    async fn wait_for_last_output(&self) {
        let mut printed = self.printed.subscribe();
        let ended = self.output_ended.notified();
        tokio::pin!(ended);
        loop {
            tokio::select! {
                () = &mut ended => return,
                waited = timeout(LAST_OUTPUT_WAIT, printed.changed()) => {
                    if waited.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn record_exit(&self, exit: Exit, left: Vec<String>) {
        self.input.close();
        let record = {
            let mut state = self.lock();
            state.exit = Some(exit.clone());
            state.left = left.clone();
            self.happened(&state, SessionChange::Exited(exit.clone()));
            let mark = Mark::Exited {
                code: exit.code,
                signal: exit.signal,
            };
            self.record(&mut state, |recorder, at| recorder.mark(at, &mark));
            ExitRecord {
                version: DIR_VERSION,
                killed: state.killed || exit.signal.is_some(),
                exit,
                bytes_written: state.log.end(),
                note: state.ended_because.clone(),
                notes: self.notes.clone(),
                left,
            }
        };
        if let Err(error) = self.dir.write_exit(&record) {
            tracing::error!(%error, "the end of the session could not be stored");
        }
        self.tell();
    }

    /// Waits until every client has the end, or those who were cut off had their time.
    async fn wait_for_clients(&self) {
        let mut deadline = Instant::now() + LINGER;
        let mut sent = self.sent.load(Ordering::Relaxed);
        let mut changed = self.changed.subscribe();
        loop {
            {
                let state = self.lock();
                if state.attachments.attached() == 0
                    && state.attachments.cut_off() == 0
                    && state.connections == 0
                {
                    return;
                }
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = sleep_until(deadline) => {
                    let sent_by_now = self.sent.load(Ordering::Relaxed);
                    if sent_by_now == sent {
                        return;
                    }
                    // Somebody is slow and still reading.
                    sent = sent_by_now;
                    deadline = Instant::now() + LINGER;
                }
            }
        }
    }

    /// Remembers that the end, if it is still to come, is somebody's doing.
    fn mark_killed(&self) {
        let mut state = self.lock();
        state.killed |= state.exit.is_none();
    }

    fn begin_kill(&self) {
        self.mark_killed();
        let program = self.program_pid;
        tokio::spawn(async move { process::end_tree(program).await });
    }

    // Connections.

    async fn accept(self: Arc<Self>, mut listener: LocalSocket) {
        loop {
            let socket = listener.accept().await;
            self.spawn_connection(socket);
        }
    }

    fn spawn_connection(self: &Arc<Self>, socket: UnixStream) {
        {
            let mut state = self.lock();
            if state.connections >= MAX_CONNECTIONS {
                return;
            }
            state.connections += 1;
        }
        let egg = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = egg.connection(socket).await {
                tracing::debug!(%error, "a connection ended");
            }
            egg.lock().connections -= 1;
            egg.tell();
        });
    }

    async fn connection(self: &Arc<Self>, socket: UnixStream) -> io::Result<()> {
        let (mut reader, mut writer) = wire::split(socket)?;
        let hello = timeout(HELLO_DEADLINE, reader.next::<ToEgg>())
            .await
            .map_err(io::Error::from)??;
        let Some(ToEgg::Hello(hello)) = hello else {
            return Ok(());
        };
        if !bool::from(hello.key.ct_eq(&self.key)) {
            let failure = Failure::new(FailureKind::Refused, "the key of the session is wrong");
            return writer.send(&FromEgg::Failed(failure)).await;
        }
        let session = self.lock().meta.id.clone();
        writer
            .send(&FromEgg::Welcome {
                version: LOCAL_VERSION,
                session,
            })
            .await?;
        while let Some(message) = reader.next::<ToEgg>().await? {
            let answer = match message {
                ToEgg::Client(ClientMessage::Attach(request)) => {
                    return self
                        .attached(request, hello.principal, reader, writer)
                        .await;
                }
                ToEgg::Hello(_) | ToEgg::Client(_) => return Ok(()),
                ToEgg::Status => FromEgg::Status(Box::new(self.status())),
                ToEgg::Screen { scrollback } => FromEgg::Screen(self.screen_text(scrollback)),
                ToEgg::Kill => self.kill().await,
                ToEgg::Rename { name } => self.rename(&name),
                ToEgg::Send { parts } => self.send_input(&parts, &hello.principal).await,
                ToEgg::Wait {
                    until,
                    from,
                    timeout_ms,
                } => self.wait(until, from, timeout_ms).await,
                ToEgg::Signal(number) => self.signal(number),
                ToEgg::Resize(size) => self.resize(size),
                ToEgg::Watch => return self.watch(reader, writer).await,
            };
            writer.send(&answer).await?;
        }
        Ok(())
    }

    fn status(&self) -> EggStatus {
        let state = self.lock();
        let status = match &state.exit {
            Some(_) if state.killed => SessionStatus::Killed,
            Some(exit) if exit.signal.is_some() => SessionStatus::Killed,
            Some(_) => SessionStatus::Exited,
            None if process::is_stopped(self.program_pid) => SessionStatus::Frozen,
            None => SessionStatus::Running,
        };
        let mut notes = self.notes.clone();
        notes.extend(state.ended_because.clone());
        notes.extend(state.left.iter().cloned());
        if let Some(note) = state.recorder.as_ref().and_then(Recorder::note) {
            notes.push(note.to_owned());
        }
        if state.log.is_disk_full() {
            notes.push("the disk is full: the newest output is kept in memory".to_owned());
        }
        if !state.meta.cwd.is_dir() {
            notes.push(format!("its folder {} is gone", state.meta.cwd.display()));
        }
        EggStatus {
            epoch: state.attachments.epoch(),
            status,
            pid: self.program_pid,
            size: state.attachments.size(),
            bytes_written: state.log.end(),
            title: state.screen.title().to_owned(),
            attention: state.attention.map(str::to_owned),
            clients: state.attachments.attached() as u32,
            writer: state.attachments.writer().cloned(),
            exit: state.exit.clone(),
            notes,
        }
    }

    fn screen_text(&self, scrollback: u32) -> ScreenText {
        let state = self.lock();
        screen_text(
            &state.screen,
            scrollback,
            state.meta.id.as_str(),
            &state.log,
        )
    }

    async fn kill(&self) -> FromEgg {
        self.mark_killed();
        let all_gone = process::end_tree(self.program_pid).await;
        let mut changed = self.changed.subscribe();
        let recorded = timeout(Duration::from_secs(3), async {
            while self.lock().exit.is_none() {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        });
        if all_gone && recorded.await.is_ok() {
            FromEgg::Done
        } else {
            FromEgg::Failed(Failure::new(
                FailureKind::Failed,
                "some process of the session would not end, not even by SIGKILL",
            ))
        }
    }

    fn rename(&self, name: &str) -> FromEgg {
        let name: SessionName = match name.parse() {
            Ok(name) => name,
            Err(error) => {
                return FromEgg::Failed(Failure::new(FailureKind::Invalid, format!("{error}")));
            }
        };
        let mut state = self.lock();
        let meta = Meta {
            name,
            ..state.meta.clone()
        };
        match self.dir.write_meta(&meta) {
            Ok(()) => {
                state.meta = meta;
                self.happened(&state, SessionChange::Renamed);
                FromEgg::Done
            }
            Err(error) => FromEgg::Failed(Failure::new(FailureKind::Failed, error.to_string())),
        }
    }

    async fn send_input(&self, parts: &[SendPart], principal: &Principal) -> FromEgg {
        let (id, offset, typed, first_waits_for) = {
            let mut state = self.lock();
            if state.exit.is_some() {
                return refuse(FailureKind::Failed, "the session's program has ended");
            }
            if state
                .attachments
                .writer()
                .is_some_and(|writer| writer != principal)
            {
                return FromEgg::Failed(
                    Failure::new(
                        FailureKind::Refused,
                        "another user is attached and has the right to type",
                    )
                    .hint("take over first: wt attach --takeover NAME"),
                );
            }
            let typed = match typing::encode(parts, &state.screen.modes()) {
                Ok(typed) => typed,
                Err(error) => return refuse(FailureKind::Invalid, &error.to_string()),
            };
            let offset = state.log.end();
            state.attention = None;
            // Also a key that is sent by itself, right behind the text before it.
            let first_waits_for = match parts.first() {
                Some(SendPart::Key(_)) => state.last_send.as_ref().map(|last| last.at + self.apart),
                _ => None,
            };
            state.last_send = Some(LastSend {
                offset,
                echo: Echo {
                    lines: typed_lines(parts),
                    prompt: before_cursor(&state.screen),
                },
                at: Instant::now(),
            });
            (state.meta.id.to_string(), offset, typed, first_waits_for)
        };
        let mut changed = self.changed.subscribe();
        let mut bytes = 0;
        if let Some(earliest) = first_waits_for {
            sleep_until(earliest).await;
        }
        for piece in typed {
            if piece.apart {
                self.until_written(&mut changed).await;
                sleep(self.apart).await;
            }
            while !self.input.sent(&piece.bytes) {
                if self.lock().exit.is_some() {
                    return refuse(
                        FailureKind::Failed,
                        "the session's program ended before it read all",
                    );
                }
                let _ = timeout(SEND_CHECK, changed.changed()).await;
            }
            bytes += piece.bytes.len() as u64;
        }
        self.until_written(&mut changed).await;
        if let Some(last) = &mut self.lock().last_send
            && last.offset == offset
        {
            last.at = Instant::now();
        }
        FromEgg::Sent(Sent { id, bytes, offset })
    }

    /// Waits until the terminal took what was sent, or the program ended.
    async fn until_written(&self, changed: &mut watch::Receiver<u64>) {
        while self.input.waiting_sent() > 0 && self.lock().exit.is_none() {
            let _ = timeout(SEND_CHECK, changed.changed()).await;
        }
    }

    async fn wait(&self, until: Until, from: WaitFrom, timeout_ms: u32) -> FromEgg {
        let pattern = match &until {
            Until::Contains(text) | Until::Regex(text)
                if text.is_empty() || text.len() > MAX_PATTERN =>
            {
                return refuse(
                    FailureKind::Invalid,
                    &format!("a pattern has 1 to {MAX_PATTERN} bytes"),
                );
            }
            Until::Contains(text) => Some(Pattern::Text(text.clone())),
            Until::Regex(text) => match Pattern::regex(text) {
                Ok(pattern) => Some(pattern),
                Err(error) => return refuse(FailureKind::Invalid, &error.to_string()),
            },
            Until::Idle(_) | Until::Exit => None,
        };
        let deadline = Instant::now() + Duration::from_millis(timeout_ms.min(MAX_WAIT_MS).into());
        let (start, echo) = {
            let state = self.lock();
            let last = state.last_send.as_ref();
            let start = match from {
                WaitFrom::LastSend => last.map_or(0, |last| last.offset),
                WaitFrom::Now => state.log.end(),
                WaitFrom::Offset(offset) => offset.min(state.log.end()),
            };
            let echo = last
                .filter(|last| last.offset == start)
                .map(|last| last.echo.clone());
            (start, echo.unwrap_or_default())
        };
        let mut search = pattern.map(|pattern| Search::new(pattern, echo));
        let mut cursor = start;
        let mut printed = self.printed.subscribe();
        let mut changed = self.changed.subscribe();
        loop {
            printed.mark_unchanged();
            changed.mark_unchanged();
            match self.wait_step(&until, start, &mut cursor, &mut search, deadline) {
                WaitStep::Over(answer) => return answer,
                WaitStep::More => {}
                WaitStep::Until(wake) => tokio::select! {
                    _ = printed.changed() => {}
                    _ = changed.changed() => {}
                    () = sleep_until(wake) => {}
                },
            }
        }
    }

    /// One look at the state of a wait.
    fn wait_step(
        &self,
        until: &Until,
        start: u64,
        cursor: &mut u64,
        search: &mut Option<Search>,
        deadline: Instant,
    ) -> WaitStep {
        let state = self.lock();
        let answer = |reason, text| {
            WaitStep::Over(FromEgg::Waited(Waited {
                id: state.meta.id.to_string(),
                reason,
                text,
                from: start,
                offset: state.log.end(),
                exit: state.exit.clone(),
            }))
        };
        if let Some(search) = search
            && *cursor < state.log.end()
        {
            let Ok(piece) = state.log.read(*cursor, SEARCH_SIZE) else {
                return WaitStep::Over(refuse(FailureKind::Failed, "the output cannot be read"));
            };
            *cursor = piece.offset + piece.bytes.len() as u64;
            return match search.feed(&piece.bytes) {
                Some(text) => answer(WaitReason::Matched, Some(text)),
                None => WaitStep::More,
            };
        }
        if state.exit.is_some() {
            let matched = matches!(until, Until::Exit | Until::Idle(_));
            return answer(
                if matched {
                    WaitReason::Matched
                } else {
                    WaitReason::Ended
                },
                None,
            );
        }
        let mut wake = deadline;
        if let Until::Idle(ms) = until {
            let sent_at = state.last_send.as_ref().map(|last| last.at);
            let quiet_since = sent_at.map_or(state.printed_at, |at| at.max(state.printed_at));
            let idle_at = quiet_since + Duration::from_millis((*ms).into());
            if Instant::now() >= idle_at {
                return answer(WaitReason::Matched, None);
            }
            wake = wake.min(idle_at);
        }
        if Instant::now() >= deadline {
            return answer(WaitReason::TimedOut, None);
        }
        WaitStep::Until(wake)
    }

    /// Signals the foreground group, as a key at the terminal would.
    fn signal(&self, number: i32) -> FromEgg {
        let Ok(signal) = Signal::try_from(number) else {
            return refuse(FailureKind::Invalid, &format!("{number} is no signal here"));
        };
        if self.lock().exit.is_some() {
            return refuse(FailureKind::Failed, "the session's program has ended");
        }
        let terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        let group = terminal.foreground().unwrap_or(self.program_pid);
        match killpg(Pid::from_raw(group as i32), signal) {
            Ok(()) => FromEgg::Done,
            Err(error) => refuse(
                FailureKind::Failed,
                &format!("the signal was not delivered: {error}"),
            ),
        }
    }

    fn resize(self: &Arc<Self>, size: Winsize) -> FromEgg {
        let size = Winsize::from_reported(size.cols, size.rows);
        if !self.lock().attachments.set_size(size) {
            return refuse(
                FailureKind::Failed,
                "somebody is attached, and the size is their terminal's",
            );
        }
        self.settle_size();
        self.tell();
        FromEgg::Done
    }

    /// Tells one connection what happens, until it closes.
    async fn watch(&self, mut reader: MessageReader, mut writer: MessageWriter) -> io::Result<()> {
        let mut events = self.events.subscribe();
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Ok(event) => {
                        let is_last = matches!(event.what, SessionChange::Exited(_));
                        writer.send(&FromEgg::Event(event)).await?;
                        if is_last {
                            return Ok(());
                        }
                    }
                    // A watcher that takes nothing misses what happened meanwhile.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return Ok(()),
                },
                _ = reader.next::<ToEgg>() => return Ok(()),
            }
        }
    }

    // Attached clients.

    async fn attached(
        self: &Arc<Self>,
        request: Attach,
        principal: Principal,
        mut reader: MessageReader,
        writer: MessageWriter,
    ) -> io::Result<()> {
        let stream = StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed));
        let id = request.attachment;
        let request = Attach {
            size: Winsize::from_reported(request.size.cols, request.size.rows),
            ..request
        };
        let by = principal.id.clone();
        let mark = Mark::Attached { by: by.clone() };
        self.record(&mut self.lock(), |recorder, at| recorder.mark(at, &mark));
        let sender = self.admit(&request, principal, stream);
        self.count_changed(SessionChange::Attached);
        self.tell();

        let sending = sender.run(writer);
        tokio::pin!(sending);
        let mut said_goodbye = false;
        let mut told_the_end = false;
        let result = loop {
            tokio::select! {
                sent = &mut sending => {
                    told_the_end = matches!(sent, Ok(Ended::Exited));
                    break sent.map(drop);
                }
                message = reader.next::<ToEgg>() => match message {
                    Ok(Some(ToEgg::Client(ClientMessage::Detach))) => {
                        said_goodbye = true;
                        break Ok(());
                    }
                    Ok(Some(ToEgg::Client(message))) => {
                        if let Err(error) = self.client_message(&id, message) {
                            break Err(error);
                        }
                    }
                    Ok(Some(_)) => break Err(io::ErrorKind::InvalidData.into()),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            }
        };
        self.lock()
            .attachments
            .leave(&id, stream, said_goodbye || told_the_end);
        self.lock().left_at = Instant::now();
        self.count_changed(SessionChange::Detached);
        let mark = Mark::Detached { by };
        self.record(&mut self.lock(), |recorder, at| recorder.mark(at, &mark));
        self.settle_size();
        self.tell();
        result
    }

    /// Enters a client, and takes everything it is shown first from one moment.
    fn admit(self: &Arc<Self>, request: &Attach, principal: Principal, stream: StreamId) -> Sender {
        let mut state = self.lock();
        // Whoever attaches saw what it was wanted for.
        state.attention = None;
        let log = (state.log.start(), state.log.end());
        let admitted = state.attachments.attach(request, principal, stream, log);
        // What it is shown is drawn for the size that holds with it.
        self.apply_size(&mut state);
        let snapshot = match admitted.history {
            History::Continued => None,
            History::Fresh | History::Skipped { .. } | History::Differs => {
                Some(state.screen.snapshot(SNAPSHOT_SCROLLBACK))
            }
        };
        let attached = Attached {
            session: state.meta.id.clone(),
            name: state.meta.name.to_string(),
            epoch: state.attachments.epoch(),
            history: admitted.history,
            applied: admitted.applied,
            output: admitted.output,
            size: state.attachments.size(),
            writer: state.attachments.is_writer(&request.attachment),
        };
        Sender {
            egg: Arc::clone(self),
            id: request.attachment,
            stream,
            cursor: admitted.output,
            acknowledged: admitted.applied,
            ack_due: None,
            size: attached.size,
            is_writer: attached.writer,
            first: Some((attached, snapshot)),
        }
    }

    fn client_message(
        self: &Arc<Self>,
        id: &AttachmentId,
        message: ClientMessage,
    ) -> io::Result<()> {
        match message {
            ClientMessage::Input { offset, bytes } => {
                let mut state = self.lock();
                match state.attachments.input(id, offset, bytes.len()) {
                    Input::Take { skip } => {
                        // Twice the window: a client resumes with what it had under way.
                        if state.attachments.pending_input(id) > 2 * INPUT_WINDOW {
                            return Err(io::ErrorKind::InvalidData.into());
                        }
                        self.input.typed(*id, &bytes[skip..]);
                    }
                    Input::Drop => {
                        drop(state);
                        self.tell();
                    }
                    Input::Gap => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
            ClientMessage::Resize(size) => {
                let size = Winsize::from_reported(size.cols, size.rows);
                self.lock().attachments.resize(id, size);
                self.settle_size();
                self.tell();
            }
            ClientMessage::Attach(_)
            | ClientMessage::Call(_)
            | ClientMessage::Detach
            | ClientMessage::Watch { .. }
            | ClientMessage::Access(_) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    /// Tells those who watch how many are attached.
    fn count_changed(&self, change: fn(u32) -> SessionChange) {
        let state = self.lock();
        self.happened(&state, change(state.attachments.attached() as u32));
    }

    /// Brings terminal and model to the size that holds, now or when the pause since the last
    /// size is over.
    fn settle_size(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.resize_is_due || state.screen.size() == screen_size(state.attachments.size()) {
            return;
        }
        match state.resized_at.map(|at| at + RESIZE_PAUSE) {
            Some(next) if Instant::now() < next => {
                state.resize_is_due = true;
                let egg = Arc::clone(self);
                tokio::spawn(async move {
                    sleep_until(next).await;
                    let mut state = egg.lock();
                    state.resize_is_due = false;
                    egg.apply_size(&mut state);
                });
            }
            _ => self.apply_size(&mut state),
        }
    }

    fn apply_size(&self, state: &mut State) {
        let size = state.attachments.size();
        if state.screen.size() == screen_size(size) {
            return;
        }
        state.resized_at = Some(Instant::now());
        state.screen.resize(screen_size(size));
        self.record(state, |recorder, at| recorder.resize(at, size));
        let terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = terminal.resize(size) {
            tracing::debug!(%error, "the terminal did not take its size");
        }
    }
}

/// Sends one attached client what it is to see, at its own pace.
struct Sender {
    egg: Arc<Egg>,
    id: AttachmentId,
    stream: StreamId,
    /// Offset of the next output byte to send.
    cursor: u64,
    /// Input that the client knows to be applied.
    acknowledged: u64,
    /// When applied input is acknowledged even if nothing was printed.
    ack_due: Option<Instant>,
    size: Winsize,
    is_writer: bool,
    /// The terms and the snapshot, until they are sent.
    first: Option<(Attached, Option<Vec<u8>>)>,
}

/// Why a sender stopped.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Exited,
    Replaced,
}

enum Step {
    Send(Vec<WingMessage>),
    Wait,
    End(Ended, WingMessage),
}

impl Sender {
    async fn run(mut self, mut writer: MessageWriter) -> io::Result<Ended> {
        let mut printed = self.egg.printed.subscribe();
        let mut changed = self.egg.changed.subscribe();
        loop {
            // Marked as seen before looking, so that nothing is missed between.
            printed.mark_unchanged();
            changed.mark_unchanged();
            match self.step()? {
                Step::Send(messages) => {
                    for message in messages {
                        writer.send(&FromEgg::Wing(message)).await?;
                        self.egg.sent.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Step::End(ended, message) => {
                    writer.send(&FromEgg::Wing(message)).await?;
                    return Ok(ended);
                }
                Step::Wait => {
                    let ack_due = self.ack_due;
                    tokio::select! {
                        _ = printed.changed() => {}
                        _ = changed.changed() => {}
                        () = async { sleep_until(ack_due.unwrap_or_else(Instant::now)).await }, if ack_due.is_some() => {}
                    }
                }
            }
        }
    }

    /// Decides what comes next. One moment of the state, no waiting.
    fn step(&mut self) -> io::Result<Step> {
        if let Some((attached, snapshot)) = self.first.take() {
            return Ok(Step::Send(opening(attached, snapshot)));
        }
        let egg = Arc::clone(&self.egg);
        let state = egg.lock();
        if !state.attachments.is_current(&self.id, self.stream) {
            return Ok(Step::End(Ended::Replaced, WingMessage::Replaced));
        }
        let size = state.attachments.size();
        if size != self.size {
            self.size = size;
            return Ok(Step::Send(vec![WingMessage::Resized(size)]));
        }
        let is_writer = state.attachments.is_writer(&self.id);
        if is_writer != self.is_writer {
            self.is_writer = is_writer;
            return Ok(Step::Send(vec![WingMessage::Writer(is_writer)]));
        }
        let applied = state.attachments.applied_of(&self.id);
        if self.cursor < state.log.start() {
            return Ok(Step::Send(self.catch_up(&state, applied)));
        }
        if self.cursor < state.log.end() {
            let waiting = state.log.end() - self.cursor;
            let piece = state.log.read(self.cursor, piece_size(waiting))?;
            self.cursor = piece.offset + piece.bytes.len() as u64;
            self.acknowledged = applied;
            self.ack_due = None;
            let output = WingMessage::Output {
                offset: piece.offset,
                applied,
                bytes: piece.bytes,
            };
            return Ok(Step::Send(vec![output]));
        }
        if let Some(exit) = &state.exit {
            return Ok(Step::End(Ended::Exited, WingMessage::Exited(exit.clone())));
        }
        if applied > self.acknowledged {
            let due = *self
                .ack_due
                .get_or_insert_with(|| Instant::now() + ACK_DELAY);
            if Instant::now() >= due {
                self.acknowledged = applied;
                self.ack_due = None;
                let output = WingMessage::Output {
                    offset: self.cursor,
                    applied,
                    bytes: Vec::new(),
                };
                return Ok(Step::Send(vec![output]));
            }
        }
        Ok(Step::Wait)
    }

    /// Brings a client whose place left the window back by a snapshot.
    fn catch_up(&mut self, state: &State, applied: u64) -> Vec<WingMessage> {
        let end = state.log.end();
        let attached = Attached {
            session: state.meta.id.clone(),
            name: state.meta.name.to_string(),
            epoch: state.attachments.epoch(),
            history: History::Skipped {
                bytes: end - self.cursor,
            },
            applied,
            output: end,
            size: self.size,
            writer: self.is_writer,
        };
        self.cursor = end;
        self.acknowledged = applied;
        self.ack_due = None;
        opening(attached, Some(state.screen.snapshot(SNAPSHOT_SCROLLBACK)))
    }
}

/// What one look at a wait says.
enum WaitStep {
    Over(FromEgg),
    More,
    Until(Instant),
}

fn refuse(kind: FailureKind, message: &str) -> FromEgg {
    FromEgg::Failed(Failure::new(kind, message))
}

/// The lines that a terminal may echo of what is sent.
fn typed_lines(parts: &[SendPart]) -> Vec<String> {
    let mut text = String::new();
    for part in parts {
        match part {
            SendPart::Raw(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
            SendPart::Text(piece) | SendPart::Paste(piece) => text.push_str(piece),
            SendPart::Key(name) => {
                let is_enter = name.eq_ignore_ascii_case("enter");
                text.push_str(if is_enter { "\n" } else { "" });
            }
        }
    }
    let lines = text
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty());
    lines.take(MAX_ECHO_LINES).map(str::to_owned).collect()
}

/// What stands before the cursor in its row: a prompt, most likely.
fn before_cursor(screen: &Model) -> String {
    let text = screen.text(0);
    let row = text.first_visible + usize::from(text.cursor.row);
    let line = text.lines.get(row).map_or("", |line| line.text.as_str());
    line.chars()
        .take(usize::from(text.cursor.col))
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Whether a program that printed nothing for a while seems to ask something: its cursor
/// shows behind a question.
fn is_asking(screen: &Model) -> bool {
    let modes = screen.modes();
    if modes.alt_screen || !modes.cursor_visible {
        return false;
    }
    let before = before_cursor(screen);
    let ends = ["?", "]", ")", ":"];
    let asks = before.contains('?')
        || ["[y/n]", "(y/n)", "(yes/no", "password"]
            .iter()
            .any(|mark| before.to_ascii_lowercase().contains(mark));
    asks && ends.iter().any(|end| before.ends_with(end))
}

/// How much of the waiting output goes into one message.
///
/// A terminal gives 4,095 bytes at a time, which with what stands around them is just over
/// a record of 4,096 and would be padded to one of 16,384. What nearly fills a record is
/// cut to fit it, and the rest follows in a small one.
fn piece_size(waiting: u64) -> usize {
    let waiting = usize::try_from(waiting).unwrap_or(MAX_CHUNK).min(MAX_CHUNK);
    if (MIDDLE_CHUNK..2 * MIDDLE_CHUNK).contains(&waiting) {
        MIDDLE_CHUNK
    } else {
        waiting
    }
}

/// The terms of an attachment, and the snapshot in parts.
fn opening(attached: Attached, snapshot: Option<Vec<u8>>) -> Vec<WingMessage> {
    let mut messages = vec![WingMessage::Attached(attached)];
    if let Some(snapshot) = snapshot {
        let parts = snapshot.chunks(MAX_CHUNK).count().max(1);
        let mut chunks = snapshot.chunks(MAX_CHUNK);
        for part in 1..=parts {
            let bytes = chunks.next().unwrap_or_default().to_vec();
            messages.push(WingMessage::Snapshot {
                last: part == parts,
                bytes,
            });
        }
    }
    messages
}

/// A screen as the wire says it.
pub fn screen_text(screen: &dyn Screen, scrollback: u32, id: &str, log: &OutputLog) -> ScreenText {
    let text = screen.text(scrollback.min(MAX_READ_LINES) as usize);
    let size = screen.size();
    ScreenText {
        id: id.to_owned(),
        scrollback: text.first_visible as u32,
        lines: text.lines.into_iter().map(|line| line.text).collect(),
        cursor_row: text.cursor.row,
        cursor_col: text.cursor.col,
        cursor_visible: text.cursor.visible,
        size: Winsize {
            cols: size.cols,
            rows: size.rows,
        },
        title: text.title,
        modes: mode_names(&text.modes),
        offset: log.end(),
        truncated_before: log.start(),
    }
}

/// The modes that are on, by the names that users see.
fn mode_names(modes: &Modes) -> Vec<String> {
    let mouse = match modes.mouse {
        Mouse::Off => "",
        Mouse::X10 => "mouse-x10",
        Mouse::Press => "mouse",
        Mouse::Drag => "mouse-drag",
        Mouse::Any => "mouse-any",
    };
    let named = [
        (modes.alt_screen, "alt-screen"),
        (modes.app_cursor, "app-cursor"),
        (modes.app_keypad, "app-keypad"),
        (modes.bracketed_paste, "bracketed-paste"),
        (modes.mouse != Mouse::Off, mouse),
        (modes.mouse_sgr(), "mouse-sgr"),
        (modes.focus, "focus"),
        (modes.synchronized, "synchronized"),
        (!modes.autowrap, "no-autowrap"),
        (modes.origin, "origin"),
        (modes.insert, "insert"),
        (modes.newline, "newline"),
        (modes.reverse_video, "reverse-video"),
        (modes.kitty_flags != 0, "kitty-keyboard"),
    ];
    named
        .into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// A size as the model takes it.
pub fn screen_size(size: Winsize) -> Size {
    Size {
        cols: size.cols,
        rows: size.rows,
    }
}

/// The time, in milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

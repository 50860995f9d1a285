//! Starting, finding and stopping the daemon of a profile.
//!
//! The daemon holds the lock on `wing.lock` for as long as it lives, so there is never a
//! second one and a dead one blocks nobody. It answers every connection on `wing.sock`
//! with its status, as one JSON document.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use wt_egg::socket::LocalSocket;
use wt_egg::{Machine, Relation, process};
use wt_files::Lock;
use wt_protocol::{WingId, WingLabel};

use crate::error::{Error, ErrorCode};
use crate::profile::{Profile, damaged};
use crate::sessions::Sessions;

/// The hidden command by which this program becomes the daemon of its profile.
pub const DAEMON_COMMAND: &str = "__wing";

/// How long a daemon may take from its start until its wing is registered.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// How long a daemon may take to end. It waits for its relay to drain, not for eggs.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// How long a daemon may take to tell its status: one that was stopped by a signal for a
/// while is waited for, and never replaced.
const STATUS_DEADLINE: Duration = Duration::from_secs(15);

/// How often a change of another process is looked for.
const POLL: Duration = Duration::from_millis(25);

/// Largest status document, in bytes.
const MAX_STATUS: u64 = 64 * 1024;

/// Bytes of the daemon's log before it starts a new one; the one before is kept.
const MAX_LOG: u64 = 5 << 20;

/// What a daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A wing that dials its roost.
    Wing,
    /// A relay and a wing in one process.
    Roost {
        /// Where the relay listens.
        addr: SocketAddr,
    },
}

impl Mode {
    /// Its name in listings.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::Wing => "wing",
            Mode::Roost { .. } => "roost",
        }
    }

    fn arguments(&self) -> Vec<OsString> {
        match self {
            Mode::Wing => vec!["wing".into()],
            Mode::Roost { addr } => vec!["roost".into(), addr.to_string().into()],
        }
    }

    /// Reads what [`start`] passes to the hidden command.
    pub fn from_arguments(arguments: &[OsString]) -> Option<Self> {
        let texts: Vec<&str> = arguments
            .iter()
            .map(|a| a.to_str())
            .collect::<Option<_>>()?;
        match texts.as_slice() {
            ["wing"] => Some(Mode::Wing),
            ["roost", addr] => Some(Mode::Roost {
                addr: addr.parse().ok()?,
            }),
            _ => None,
        }
    }
}

/// The state of a daemon's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// The wing is registered.
    Up,
    /// It is being tried.
    Connecting,
    /// The relay refuses the sign-in, or is not the one that was pinned.
    Refused,
}

/// What a daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// `wing` or `roost`.
    pub mode: String,
    /// Its process id.
    pub pid: u32,
    /// Its version, which an update may have left behind.
    pub version: String,
    /// The wing.
    pub wing_id: WingId,
    /// Its id in groups, for comparing.
    pub fingerprint: String,
    /// What it calls itself.
    pub label: WingLabel,
    /// Its roost's origin.
    pub roost: String,
    /// The account that it belongs to.
    pub account: String,
    /// The state of its link.
    pub link: LinkState,
    /// Since when, in milliseconds since the Unix epoch.
    pub link_since_ms: u64,
    /// Why the link is not up, or was lost last.
    pub error: Option<String>,
    /// How it admits clients.
    pub admission: String,
    /// Its living sessions.
    pub sessions: u32,
}

/// What a starting daemon tells its starter, once, on standard output.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Ready(Box<DaemonStatus>),
    Failed {
        code: u8,
        message: String,
        hint: Option<String>,
    },
    Busy,
}

/// The right to be the daemon of a profile.
#[derive(Debug)]
pub struct Claimed {
    profile: Profile,
    /// What this daemon runs.
    pub mode: Mode,
    status: Option<JoinHandle<()>>,
    _lock: Lock,
}

#[derive(Serialize, Deserialize)]
struct Note {
    pid: u32,
    mode: Mode,
    /// The machine that the process id belongs to; none in notes of older programs.
    #[serde(default)]
    machine: Option<Machine>,
}

/// Claims to be the daemon of a profile; none when there is one already.
///
/// # Errors
/// What the system says about the profile.
pub fn claim(profile: &Profile, mode: Mode) -> Result<Option<Claimed>, Error> {
    profile.create()?;
    // Checked before anything is made: without it nobody could ask for the status.
    wt_files::check_socket_path(&socket(profile))?;
    let Some(mut lock) = Lock::try_acquire(&lock_file(profile))? else {
        return Ok(None);
    };
    let note = serde_json::to_string(&Note {
        pid: std::process::id(),
        mode,
        machine: Some(Machine::here().clone()),
    })
    .map_err(Error::failed)?;
    lock.write_note(&note).map_err(|e| {
        Error::failed(format!(
            "cannot write {}: {e}",
            lock_file(profile).display()
        ))
    })?;
    Ok(Some(Claimed {
        profile: profile.clone(),
        mode,
        status: None,
        _lock: lock,
    }))
}

impl Claimed {
    /// Answers status questions from here on.
    pub(crate) fn serve_status(
        &mut self,
        status: watch::Receiver<DaemonStatus>,
        sessions: Sessions,
    ) -> Result<(), Error> {
        let mut listener = LocalSocket::bind(&socket(&self.profile))?;
        self.status = Some(tokio::spawn(async move {
            loop {
                let mut asker = listener.accept().await;
                let mut answer = status.borrow().clone();
                answer.sessions = sessions.living().unwrap_or(0) as u32;
                let text = serde_json::to_vec(&answer).unwrap_or_default();
                // An asker that left needs no answer; one that reads nothing is not waited for.
                let _ = timeout(Duration::from_secs(1), asker.write_all(&text)).await;
            }
        }));
        Ok(())
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(status) = self.status.take() {
            status.abort();
        }
    }
}

/// Starts the daemon in the background; returns when its wing is registered.
///
/// Gives its status, and whether it was running before. Any number of starts at once give
/// one daemon.
///
/// # Errors
/// Why it could not start, or that it runs as something else.
pub async fn start(profile: &Profile, mode: Mode) -> Result<(DaemonStatus, bool), Error> {
    profile.create()?;
    wt_files::check_socket_path(&socket(profile))?;
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        if Lock::is_held(&lock_file(profile))? {
            insist_on_here(profile)?;
            return joined(profile, mode, deadline)
                .await
                .map(|status| (status, true));
        }
        match spawn(profile, mode, deadline).await? {
            Answer::Ready(status) => return Ok((*status, false)),
            Answer::Failed {
                code,
                message,
                hint,
            } => {
                return Err(Error {
                    code: code_of(code),
                    message,
                    hint,
                });
            }
            // Another start was faster.
            Answer::Busy if Instant::now() < deadline => sleep(POLL).await,
            Answer::Busy => {
                return Err(Error::new(
                    ErrorCode::TimedOut,
                    "the daemon did not start in time",
                ));
            }
        }
    }
}

/// Waits for a daemon that somebody else started.
async fn joined(profile: &Profile, mode: Mode, deadline: Instant) -> Result<DaemonStatus, Error> {
    if let Some(note) = note(profile)
        && note.mode != mode
    {
        let what = match note.mode {
            Mode::Wing => "a wing runs in this profile".to_owned(),
            Mode::Roost { addr } => format!("a roost runs in this profile, at {addr}"),
        };
        return Err(Error::failed(what).hint("stop it first: wt stop"));
    }
    loop {
        match ask(profile).await {
            Ok(status) if status.link == LinkState::Up => return Ok(status),
            Ok(status) if Instant::now() >= deadline => return Ok(status),
            Ok(_) => {}
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) if !Lock::is_held(&lock_file(profile))? => {
                return Err(Error::failed("the daemon ended while it was starting")
                    .hint(format!("see {}", log_path(profile).display())));
            }
            Err(_) => {}
        }
        sleep(POLL).await;
    }
}

async fn spawn(profile: &Profile, mode: Mode, deadline: Instant) -> Result<Answer, Error> {
    let log = open_log(&log_path(profile))
        .map_err(|e| Error::failed(format!("cannot write {}: {e}", log_path(profile).display())))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("wt")
        .arg(DAEMON_COMMAND)
        .args(mode.arguments())
        .current_dir("/")
        .env_clear();
    let caller = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let caller: Vec<(String, String)> = caller.collect();
    // Whatever else surrounds the caller has no business in a process that outlives it.
    command.envs(wt_egg::env::from_daemon(caller.iter().cloned()));
    command.envs(
        caller
            .into_iter()
            .filter(|(key, _)| PASSED_ON.contains(&key.as_str())),
    );
    command.env("WINGTHING_DIR", profile.path());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = tokio::process::Command::from(command)
        .spawn()
        .map_err(|e| Error::failed(format!("cannot start the daemon: {e}")))?;
    let Some(stdout) = child.stdout.take() else {
        return Err(Error::failed("the daemon has no pipe"));
    };
    let mut text = Vec::new();
    let mut answers = stdout.take(MAX_STATUS);
    match tokio::time::timeout_at(deadline, answers.read_to_end(&mut text)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(Error::failed(format!("the daemon broke off: {error}"))),
        Err(_) => {
            let message = format!(
                "the daemon is not registered at its relay after {} s",
                START_DEADLINE.as_secs()
            );
            return Err(
                Error::new(ErrorCode::TimedOut, message).hint("it goes on trying: wt status")
            );
        }
    }
    let answer = serde_json::from_slice(&text);
    if !matches!(answer, Ok(Answer::Ready(_))) {
        // It is on its way out; nothing of it is left when this returns.
        let _ = tokio::time::timeout_at(deadline, child.wait()).await;
    }
    answer.map_err(|_| {
        Error::failed("the daemon ended while it was starting")
            .hint(format!("see {}", log_path(profile).display()))
    })
}

/// Variables beyond a login's that a daemon gets: how it logs, and how it reaches out.
const PASSED_ON: &[&str] = &[
    "WT_LOG",
    "RUST_BACKTRACE",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "ALL_PROXY",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Tells the starter that the daemon is ready, and lets go of its pipe.
pub fn announce_ready(status: &DaemonStatus) {
    announce(&Answer::Ready(Box::new(status.clone())));
}

/// Tells the starter why there is no daemon.
pub fn announce_failed(error: &Error) {
    announce(&Answer::Failed {
        code: error.code.exit_code(),
        message: error.message.clone(),
        hint: error.hint.clone(),
    });
}

/// Tells the starter that there is a daemon already.
pub fn announce_busy() {
    announce(&Answer::Busy);
}

fn announce(answer: &Answer) {
    let text = serde_json::to_vec(answer).unwrap_or_default();
    let mut stdout = io::stdout();
    // A starter that left needs no answer.
    let _ = stdout.write_all(&text).and_then(|()| stdout.flush());
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(&null);
    }
}

fn code_of(exit_code: u8) -> ErrorCode {
    [
        ErrorCode::Usage,
        ErrorCode::NotFound,
        ErrorCode::IdentityMismatch,
        ErrorCode::Refused,
        ErrorCode::Unreachable,
        ErrorCode::TimedOut,
        ErrorCode::NotEnforced,
    ]
    .into_iter()
    .find(|code| code.exit_code() == exit_code)
    .unwrap_or(ErrorCode::Failed)
}

/// Stops the daemon; returns its process id when it is gone and its ports are free, or
/// none when there was none. Sessions go on.
///
/// # Errors
/// That it does not end.
pub async fn stop(profile: &Profile) -> Result<Option<u32>, Error> {
    if !Lock::is_held(&lock_file(profile))? {
        return Ok(None);
    }
    insist_on_here(profile)?;
    let note = note(profile)
        .ok_or_else(|| damaged(&lock_file(profile), &"it does not name the daemon"))?;
    let pid = Pid::from_raw(note.pid as i32);
    kill(pid, Signal::SIGTERM)
        .map_err(|e| Error::failed(format!("cannot end the daemon, process {}: {e}", note.pid)))?;
    let deadline = Instant::now() + STOP_DEADLINE;
    while process::is_running(note.pid) || Lock::is_held(&lock_file(profile))? {
        if Instant::now() > deadline {
            let message = format!("the daemon, process {}, does not end", note.pid);
            return Err(
                Error::new(ErrorCode::TimedOut, message).hint(format!("kill -9 {}", note.pid))
            );
        }
        sleep(POLL).await;
    }
    Ok(Some(note.pid))
}

/// The host on which the daemon of a shared profile runs, when that is another machine
/// than this one.
///
/// # Errors
/// What the system says about the lock file.
pub fn elsewhere(profile: &Profile) -> Result<Option<String>, Error> {
    if !Lock::is_held(&lock_file(profile))? {
        return Ok(None);
    }
    let machine = note(profile).and_then(|note| note.machine);
    let other = machine.filter(|m| m.relation(Machine::here(), true) == Relation::Elsewhere);
    Ok(other.map(|machine| machine.hostname))
}

/// Refuses when the daemon is another machine's: its process id means nothing here, and its
/// socket leads nowhere.
fn insist_on_here(profile: &Profile) -> Result<(), Error> {
    let Some(host) = elsewhere(profile)? else {
        return Ok(());
    };
    let message =
        format!("the daemon of this profile runs on the host {host}, which shares the profile");
    Err(Error::failed(message).hint(format!(
        "stop it on {host} first, or give each host a profile of its own with WINGTHING_DIR"
    )))
}

/// The daemon's status; none when there is no daemon on this machine.
///
/// # Errors
/// That there is one and it does not answer.
pub async fn status(profile: &Profile) -> Result<Option<DaemonStatus>, Error> {
    if !Lock::is_held(&lock_file(profile))? || elsewhere(profile)?.is_some() {
        return Ok(None);
    }
    let deadline = Instant::now() + STATUS_DEADLINE;
    loop {
        match ask(profile).await {
            Ok(status) => return Ok(Some(status)),
            Err(_) if !Lock::is_held(&lock_file(profile))? => return Ok(None),
            // It may still be starting.
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => sleep(POLL).await,
        }
    }
}

async fn ask(profile: &Profile) -> Result<DaemonStatus, Error> {
    let asking = async {
        let socket = UnixStream::connect(socket(profile)).await?;
        let mut text = Vec::new();
        socket.take(MAX_STATUS).read_to_end(&mut text).await?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    };
    match timeout(STATUS_DEADLINE, asking).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => Err(Error::new(
            ErrorCode::Unreachable,
            format!("the daemon does not answer: {error}"),
        )),
        Err(_) => Err(Error::new(
            ErrorCode::TimedOut,
            "the daemon is running and does not answer",
        )),
    }
}

fn note(profile: &Profile) -> Option<Note> {
    let bytes = wt_files::read_capped(&lock_file(profile), MAX_STATUS).ok()??;
    serde_json::from_slice(&bytes).ok()
}

fn lock_file(profile: &Profile) -> PathBuf {
    profile.file("wing.lock")
}

fn socket(profile: &Profile) -> PathBuf {
    profile.file("wing.sock")
}

/// The daemon's log file.
pub fn log_path(profile: &Profile) -> PathBuf {
    profile.file("wing.log")
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

/// A log file that starts over at a fixed size and keeps the one before.
#[derive(Debug, Clone)]
pub struct LogFile(Arc<Mutex<LogState>>);

#[derive(Debug)]
struct LogState {
    path: PathBuf,
    file: File,
    written: u64,
}

impl LogFile {
    /// Opens a log for appending.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_log(path)?;
        let written = file.metadata()?.len();
        Ok(Self(Arc::new(Mutex::new(LogState {
            path: path.to_owned(),
            file,
            written,
        }))))
    }
}

impl Write for LogFile {
    /// Takes one whole line each time, as tracing writes them.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.written + line.len() as u64 > MAX_LOG {
            let old = state.path.with_extension("log.1");
            fs::rename(&state.path, old)?;
            state.file = open_log(&state.path)?;
            state.written = 0;
        }
        state.file.write_all(line)?;
        state.written += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_survives_its_arguments() {
        for mode in [
            Mode::Wing,
            Mode::Roost {
                addr: "127.0.0.1:8080".parse().unwrap(),
            },
        ] {
            assert_eq!(Mode::from_arguments(&mode.arguments()), Some(mode));
        }
        assert_eq!(Mode::from_arguments(&["roost".into()]), None);
    }

    #[test]
    fn one_process_at_a_time_is_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let profile = Profile::at(dir.path());

        let first = claim(&profile, Mode::Wing).unwrap().unwrap();
        assert!(claim(&profile, Mode::Wing).unwrap().is_none());
        assert_eq!(note(&profile).unwrap().pid, std::process::id());
        assert_eq!(elsewhere(&profile).unwrap(), None);

        drop(first);
        assert!(claim(&profile, Mode::Wing).unwrap().is_some());
    }

    #[tokio::test]
    async fn the_daemon_of_another_machine_is_neither_asked_nor_ended_nor_joined() {
        let dir = tempfile::tempdir().unwrap();
        let profile = Profile::at(dir.path());
        let mut claimed = claim(&profile, Mode::Wing).unwrap().unwrap();
        let other = Note {
            // This very process would be ended if its id were taken as one of here.
            pid: std::process::id(),
            mode: Mode::Wing,
            machine: Some(Machine {
                hostname: "beta".to_owned(),
                boot_id: "another boot".to_owned(),
                ..Machine::here().clone()
            }),
        };
        let note = serde_json::to_string(&other).unwrap();
        claimed._lock.write_note(&note).unwrap();

        assert_eq!(elsewhere(&profile).unwrap().as_deref(), Some("beta"));
        assert_eq!(status(&profile).await.unwrap(), None);
        let stopped = stop(&profile).await.unwrap_err();
        let started = start(&profile, Mode::Wing).await.unwrap_err();

        for error in [stopped, started] {
            assert!(error.message.contains("the host beta"), "{error}");
            assert!(error.hint.unwrap().contains("WINGTHING_DIR"));
        }
        // What such a machine left behind blocks nobody.
        drop(claimed);
        assert_eq!(elsewhere(&profile).unwrap(), None);
        assert!(claim(&profile, Mode::Wing).unwrap().is_some());
    }

    #[test]
    fn a_log_never_grows_beyond_two_files_of_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wing.log");
        let mut log = LogFile::open(&path).unwrap();
        let line = vec![b'x'; 1 << 20];

        for _ in 0..13 {
            log.write_all(&line).unwrap();
        }

        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert_eq!(size(&path), 3 << 20);
        assert_eq!(size(&dir.path().join("wing.log.1")), 5 << 20);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}

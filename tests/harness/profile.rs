//! One user's profile, and the commands that are run in it.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process;
use crate::terminal::{Size, Terminal};
use crate::wait::{PATIENCE, eventually};

/// How long output may stay open after its command ended.
///
/// A daemon that keeps its caller's descriptors would hang every script around it.
const DESCRIPTORS_CLOSE: Duration = Duration::from_secs(5);

/// How long the clean-up of a profile waits for each of its commands.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// The variable that selects a profile; every process of one carries it.
const PROFILE_VARIABLE: &str = "WINGTHING_DIR";

/// A user with a home and a profile of its own, and no other environment.
///
/// Dropped, it stops its daemon and ends every process that carries its profile.
pub struct Profile {
    name: String,
    root: TempDir,
    env: Vec<(String, String)>,
}

impl Profile {
    /// Makes an empty profile.
    ///
    /// # Panics
    /// When the file system refuses.
    pub fn new(name: &str) -> Self {
        // Under /tmp whatever TMPDIR says, because a socket's path may have 107 bytes at most.
        let root = tempfile::Builder::new()
            .prefix("wt-")
            .rand_bytes(6)
            .tempdir_in("/tmp")
            .expect("/tmp can hold a directory");
        let home = root.path().join("home");
        std::fs::create_dir_all(home.join("work")).expect("a fresh directory can hold others");
        // A login shell reads it; variables like this one are not passed into a session.
        std::fs::write(home.join(".profile"), "PS1='ready$ '\n")
            .expect("a fresh directory can hold a file");
        Self {
            name: name.to_owned(),
            root,
            env: Vec::new(),
        }
    }

    /// Sets a variable for every command that is run from now on.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What the test calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The profile's directory, which the first command makes.
    pub fn dir(&self) -> PathBuf {
        self.root.path().join("p")
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The directory that commands are run in.
    pub fn work(&self) -> PathBuf {
        self.home().join("work")
    }

    /// The process that holds a session.
    ///
    /// # Panics
    /// When there is no such session.
    #[track_caller]
    pub fn supervisor(&self, session: &str) -> u32 {
        let record = self.session(session).expect("there is such a session");
        let id = record["id"].as_str().expect("a session has an id");
        let meta = std::fs::read(self.dir().join("eggs").join(id).join("meta.json"))
            .expect("a session has a record");
        let meta: Value = serde_json::from_slice(&meta).expect("records are JSON");
        let pid = meta["egg_pid"]
            .as_u64()
            .expect("a session has a supervisor");
        u32::try_from(pid).expect("a process id fits")
    }

    /// A directory for the test's own files, outside the profile.
    pub fn scratch(&self) -> &Path {
        self.root.path()
    }

    /// The whole environment of the commands.
    pub fn environment(&self) -> Vec<(String, String)> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut all = vec![
            (PROFILE_VARIABLE.to_owned(), path(self.dir())),
            ("HOME".to_owned(), path(self.home())),
            (
                "PATH".to_owned(),
                "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned(),
            ),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("SHELL".to_owned(), "/bin/sh".to_owned()),
            ("USER".to_owned(), "tester".to_owned()),
            // A prompt that no output of a test looks like.
            ("PS1".to_owned(), "ready$ ".to_owned()),
            ("RUST_BACKTRACE".to_owned(), "1".to_owned()),
        ];
        all.extend(self.env.iter().cloned());
        all
    }

    /// A command in this profile that is not started yet, for tests that arrange it specially.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.environment())
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// Runs `wt` to its end, without a terminal and without input.
    ///
    /// # Panics
    /// When it does not end in time, or its output stays open after its end.
    #[track_caller]
    pub fn wt<S: AsRef<OsStr>>(&self, args: &[S]) -> Run {
        self.run_within(PATIENCE, args)
    }

    /// Runs `wt ... --json` to its end and reads the one document it prints.
    ///
    /// # Panics
    /// When it fails, or prints anything but one document of version 1.
    #[track_caller]
    pub fn wt_json(&self, args: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.splice(0..0, args.iter().take_while(|a| **a != "--").copied());
        all.extend(args.iter().skip_while(|a| **a != "--"));
        self.wt(&all).ok().json()
    }

    /// Starts `wt` and returns at once.
    #[track_caller]
    pub fn spawn<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        let mut command = self.command(&process::program("wt"));
        command.args(args);
        Running::start(command)
    }

    /// Starts `wt` in a terminal of 100 columns and 30 rows.
    #[track_caller]
    pub fn terminal(&self, args: &[&str]) -> Terminal {
        self.terminal_of(Size::new(100, 30), args)
    }

    /// Starts `wt` in a terminal of the given size.
    #[track_caller]
    pub fn terminal_of(&self, size: Size, args: &[&str]) -> Terminal {
        let program = process::program("wt");
        let mut argv = vec![program.as_os_str()];
        argv.extend(args.iter().map(OsStr::new));
        Terminal::spawn(&argv, &self.environment(), &self.home(), size)
    }

    /// The sessions of this profile, as `session ps` lists them.
    #[track_caller]
    pub fn sessions(&self) -> Vec<Value> {
        let list = self.wt_json(&["session", "ps"]);
        list["sessions"]
            .as_array()
            .unwrap_or_else(|| panic!("`session ps --json` has no list of sessions: {list}"))
            .clone()
    }

    /// The newest record of a session by its name, if it is listed.
    #[track_caller]
    pub fn session(&self, name: &str) -> Option<Value> {
        self.sessions().into_iter().find(|one| one["name"] == name)
    }

    /// Waits until a session has this status, and returns its record.
    #[track_caller]
    pub fn wait_for_status(&self, name: &str, status: &str) -> Value {
        eventually(&format!("session {name} to be {status}"), || {
            self.session(name).filter(|one| one["status"] == status)
        })
    }

    /// The processes that carry this profile.
    pub fn processes(&self) -> Vec<u32> {
        process::marked(PROFILE_VARIABLE, &self.dir())
    }

    #[track_caller]
    fn run_within<S: AsRef<OsStr>>(&self, bound: Duration, args: &[S]) -> Run {
        self.spawn(args).wait_within(bound)
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        // A test that failed may have left anything: the clean-up asks first, then insists.
        if self.dir().exists() && !self.processes().is_empty() {
            let mut stop = self.command(&process::program("wt"));
            stop.arg("stop").stdout(Stdio::null()).stderr(Stdio::null());
            if let Ok(mut child) = stop.spawn() {
                let deadline = Instant::now() + CLEAN_UP;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(10));
                }
                child.kill().ok();
                child.wait().ok();
            }
        }
        // Eggs outlive daemons by design. Two rounds, because one may be forking.
        for _ in 0..2 {
            for pid in self.processes() {
                process::signal(pid, Signal::SIGKILL);
            }
        }
    }
}

impl Profile {
    /// Shows the end of each log in the profile, for whoever reads the failed test.
    fn show_logs(&self) {
        const TAIL: usize = 4_000;
        let mut stack = vec![self.dir()];
        while let Some(dir) = stack.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    stack.push(path);
                } else if path.extension().is_some_and(|e| e == "log")
                    && let Ok(bytes) = std::fs::read(&path)
                    && path.parent().is_some_and(|p| !p.ends_with("eggs"))
                {
                    let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
                    eprintln!(
                        "--- {} ({}) ---\n{}",
                        path.display(),
                        self.name,
                        String::from_utf8_lossy(tail)
                    );
                }
            }
        }
    }
}

/// A command that runs.
pub struct Running {
    args: String,
    pid: u32,
    ended: mpsc::Receiver<std::io::Result<ExitStatus>>,
    stdout: Output,
    stderr: Output,
}

/// A descriptor that a thread of its own reads to its end.
struct Output {
    shared: Arc<(Mutex<OutputState>, Condvar)>,
}

#[derive(Default)]
struct OutputState {
    bytes: Vec<u8>,
    closed: bool,
}

impl Running {
    /// Starts a command whose output is read.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let args = format!("{command:?}");
        let args = args
            .split_once("/wt\"")
            .map_or(args.clone(), |(_, rest)| format!("wt{rest}"));
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("could not start {args}: {error}"));
        let stdout = Output::read(child.stdout.take().expect("stdout is piped"));
        let stderr = Output::read(child.stderr.take().expect("stderr is piped"));
        Self {
            args,
            pid: child.id(),
            ended: reap(child),
            stdout,
            stderr,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for a whole line of its stdout, counted from 0.
    ///
    /// # Panics
    /// When it does not come in time, or stdout is closed first.
    #[track_caller]
    pub fn line(&self, number: usize) -> String {
        let line = self.stdout.wait_until(PATIENCE, |state| {
            let text = String::from_utf8_lossy(&state.bytes).into_owned();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let line = whole.lines().nth(number).map(str::to_owned);
            match line {
                Some(line) => Some(Ok(line)),
                None => state.closed.then_some(Err(())),
            }
        });
        match line {
            Some(Ok(line)) => line,
            Some(Err(())) | None => panic!(
                "{} printed no line {number}\n--- stdout ---\n{}\n--- stderr ---\n{}",
                self.args,
                String::from_utf8_lossy(&self.stdout.so_far()),
                String::from_utf8_lossy(&self.stderr.so_far())
            ),
        }
    }

    /// What it said on the side so far.
    pub fn err_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stderr.so_far()).into_owned()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end in time, or its output stays open after its end.
    #[track_caller]
    pub fn wait(self) -> Run {
        self.wait_within(PATIENCE)
    }

    /// Waits for its end for a time that the test is about.
    ///
    /// # Panics
    /// Like [`Running::wait`].
    #[track_caller]
    pub fn wait_within(self, bound: Duration) -> Run {
        let status = match self.ended.recv_timeout(bound) {
            Ok(status) => status.expect("a child of ours can be waited for"),
            Err(_) => {
                process::signal(self.pid, Signal::SIGKILL);
                let stdout = self.stdout.so_far();
                let stderr = self.stderr.so_far();
                panic!(
                    "{} did not end in {bound:?}\n--- stdout ---\n{}\n--- stderr ---\n{}",
                    self.args,
                    String::from_utf8_lossy(&stdout),
                    String::from_utf8_lossy(&stderr)
                );
            }
        };
        let held = |which| {
            panic!(
                "{} ended, but a process that it started still holds its {which}",
                self.args
            )
        };
        Run {
            status: status_number(status),
            stdout: self.stdout.all().unwrap_or_else(|| held("stdout")),
            stderr: self.stderr.all().unwrap_or_else(|| held("stderr")),
            args: self.args,
        }
    }
}

impl Output {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let shared = Arc::new((Mutex::new(OutputState::default()), Condvar::new()));
        std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut chunk = [0; 8 * 1024];
                loop {
                    // What was read before an error is still worth showing.
                    let count = from.read(&mut chunk).unwrap_or(0);
                    let mut state = lock(&shared.0);
                    state.bytes.extend_from_slice(&chunk[..count]);
                    state.closed = count == 0;
                    shared.1.notify_all();
                    if state.closed {
                        return;
                    }
                }
            }
        });
        Self { shared }
    }

    /// Waits until the output is as wanted.
    fn wait_until<T>(
        &self,
        bound: Duration,
        mut look: impl FnMut(&OutputState) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + bound;
        let mut state = lock(&self.shared.0);
        loop {
            if let Some(found) = look(&state) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = match self.shared.1.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Everything, once the last holder closed it.
    fn all(&self) -> Option<Vec<u8>> {
        self.wait_until(DESCRIPTORS_CLOSE, |state| {
            state.closed.then(|| state.bytes.clone())
        })
    }

    /// Everything so far.
    fn so_far(&self) -> Vec<u8> {
        lock(&self.shared.0).bytes.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reap(mut child: Child) -> mpsc::Receiver<std::io::Result<ExitStatus>> {
    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || {
        send.send(child.wait()).ok();
    });
    ended
}

/// The status as a shell gives it: the exit code, or 128 and the signal.
fn status_number(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(-1)
}

/// A command that ended.
#[derive(Debug, Clone)]
pub struct Run {
    /// The command, for messages.
    pub args: String,
    /// Its exit code, or 128 and the signal that ended it.
    pub status: i32,
    /// All it printed.
    pub stdout: Vec<u8>,
    /// All it said on the side.
    pub stderr: Vec<u8>,
}

impl Run {
    /// Insists that it succeeded.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Insists on an exit code, and that nothing panicked.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(
            self.status, expected,
            "the exit code of this is wrong:\n{self}"
        );
        self.without_panic()
    }

    /// Insists that nothing panicked.
    ///
    /// # Panics
    /// When something did.
    #[track_caller]
    pub fn without_panic(self) -> Self {
        assert!(!self.err().contains("panicked at"), "a panic:\n{self}");
        self
    }

    /// What it printed, as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What it said on the side, as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The one document it printed.
    ///
    /// # Panics
    /// When stdout is anything else, or its version is not 1.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value: Value = serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one document ({error}):\n{self}"));
        assert_eq!(value["version"], 1, "the version is missing:\n{self}");
        value
    }

    /// The documents it printed, one on each line.
    ///
    /// # Panics
    /// When a line is none.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        self.out()
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("not a document ({error}): {line}\n{self}"))
            })
            .collect()
    }

    /// The error that a command with `--json` wrote to stderr.
    ///
    /// # Panics
    /// When there is none, or stdout is not empty.
    #[track_caller]
    pub fn json_error(&self) -> Value {
        assert!(
            self.stdout.is_empty(),
            "an error with something on stdout:\n{self}"
        );
        let line = self
            .err()
            .lines()
            .rfind(|line| line.starts_with('{'))
            .map(str::to_owned)
            .unwrap_or_else(|| panic!("no error document on stderr:\n{self}"));
        let value: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("not a document ({error}):\n{self}"));
        assert_eq!(value["version"], 1, "the version is missing:\n{self}");
        assert!(
            value["error"]["code"].is_string() || value["error"]["code"].is_number(),
            "the error has no code:\n{self}"
        );
        value["error"].clone()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ended with {}\n--- stdout ---\n{}\n--- stderr ---\n{}",
            self.args,
            self.status,
            self.out(),
            self.err()
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shell(profile: &Profile, script: &str) -> Running {
        let mut command = profile.command(Path::new("/bin/sh"));
        command.args(["-c", script]);
        Running::start(command)
    }

    #[test]
    fn a_command_sees_only_the_hermetic_environment() {
        let profile = Profile::new("a").env("EXTRA", "yes");

        let run = shell(&profile, "env; exit 3").wait().code(3);

        assert!(run.out().contains("EXTRA=yes"));
        assert!(run.out().contains(profile.dir().to_str().unwrap()));
        assert!(!run.out().contains("CARGO"), "{run}");
    }

    #[test]
    fn a_death_by_signal_is_128_and_the_signal() {
        let profile = Profile::new("a");

        shell(&profile, "kill -TERM $$").wait().code(143);
    }

    #[test]
    #[should_panic(expected = "did not end in")]
    fn a_command_that_hangs_is_killed_and_fails_the_test() {
        let profile = Profile::new("a");

        shell(&profile, "exec sleep 60").wait_within(Duration::from_millis(50));
    }

    #[test]
    fn dropping_a_profile_ends_what_it_started() {
        let profile = Profile::new("a");
        let left = shell(&profile, "sleep 60 >/dev/null 2>&1 & echo $!").wait();
        let pid: u32 = left.out().trim().parse().unwrap();
        assert!(process::is_alive(pid));

        drop(profile);

        eventually("the end of the sleep", || {
            (!process::is_alive(pid)).then_some(())
        });
    }

    #[test]
    fn an_error_document_is_read_only_when_stdout_is_empty() {
        let run = Run {
            args: "wt x".to_owned(),
            status: 3,
            stdout: Vec::new(),
            stderr: b"{\"version\":1,\"error\":{\"code\":\"not_found\",\"message\":\"m\"}}\n"
                .to_vec(),
        };

        assert_eq!(run.json_error()["message"], "m");
        let mut noisy = run;
        noisy.stdout = b"{}".to_vec();
        assert!(std::panic::catch_unwind(|| noisy.json_error()).is_err());
    }
}

//! A user's terminal: a pseudo-terminal, its keyboard, and a model of its screen.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Processor, StdSyncHandler};
use nix::sys::signal::Signal;
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::process;
use crate::wait::PATIENCE;

/// The key that starts a command to the client: Ctrl+B.
pub const PREFIX: &[u8] = b"\x02";

/// Ctrl+B Q: leaves the session.
pub const DETACH: &[u8] = b"\x02q";

/// What one read of a terminal asks for.
const READ_SIZE: usize = 64 * 1024;

/// How much of the output a failed wait shows.
const SHOWN_TAIL: usize = 2_000;

/// A size of a terminal, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl Size {
    /// A size.
    pub const fn new(cols: u16, rows: u16) -> Self {
        Self { cols, rows }
    }

    fn pty(self) -> PtySize {
        PtySize {
            rows: self.rows,
            cols: self.cols,
            pixel_width: 0,
            pixel_height: 0,
        }
    }

    fn model(self) -> TermSize {
        // The emulator has no size of nothing.
        TermSize::new(usize::from(self.cols.max(1)), usize::from(self.rows.max(1)))
    }
}

/// A command in a terminal of its own. Dropped, the command is killed.
///
/// Any thread may wait; the reading thread ends with the terminal.
pub struct Terminal {
    pid: u32,
    master: Box<dyn MasterPty + Send>,
    keyboard: Mutex<Box<dyn Write + Send>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    output: Vec<u8>,
    /// Sizes, each with the offset from which it holds.
    sizes: Vec<(usize, Size)>,
    paused: bool,
    ended: bool,
    exit: Option<i32>,
}

impl Terminal {
    /// Starts a command in a fresh terminal.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(argv: &[&OsStr], env: &[(String, String)], cwd: &Path, size: Size) -> Self {
        let pair = native_pty_system()
            .openpty(size.pty())
            .expect("the machine has a pseudo-terminal left");
        let mut command = CommandBuilder::from_argv(argv.iter().map(|a| (*a).to_owned()).collect());
        command.env_clear();
        for (name, value) in env {
            command.env(name, value);
        }
        command.cwd(cwd);
        let mut child = pair
            .slave
            .spawn_command(command)
            .unwrap_or_else(|error| panic!("could not start {argv:?} in a terminal: {error}"));
        // The reader sees the end of the terminal only when no other holder is left.
        drop(pair.slave);
        let pid = child.process_id().expect("a started child has an id");

        let shared = Arc::new(Shared::default());
        shared.lock().sizes.push((0, size));
        let reader = pair
            .master
            .try_clone_reader()
            .expect("a fresh terminal can be read");
        let keyboard = pair
            .master
            .take_writer()
            .expect("a fresh terminal can be written");
        std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || read_all(reader, &shared)
        });
        std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let status = child.wait().ok().map(|status| match status.signal() {
                    // The name is all that portable-pty keeps, so every signal is one number.
                    Some(_) => Terminal::SIGNALLED,
                    None => i32::try_from(status.exit_code()).unwrap_or(-1),
                });
                shared.lock().exit = Some(status.unwrap_or(-1));
                shared.changed.notify_all();
            }
        });
        Self {
            pid,
            master: pair.master,
            keyboard: Mutex::new(keyboard),
            shared,
        }
    }

    /// What [`Terminal::wait_exit`] says of a command that a signal ended.
    pub const SIGNALLED: i32 = -1_000;

    /// The command's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Types bytes. Blocks while the terminal's input queue is full.
    ///
    /// # Panics
    /// When the terminal is gone.
    #[track_caller]
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        let mut keyboard = self
            .keyboard
            .lock()
            .expect("no thread panics while it types");
        keyboard
            .write_all(bytes.as_ref())
            .and_then(|()| keyboard.flush())
            .expect("the terminal takes input");
    }

    /// Types a line.
    #[track_caller]
    pub fn line(&self, text: &str) {
        self.send(format!("{text}\r"));
    }

    /// Everything printed so far, byte for byte.
    pub fn output(&self) -> Vec<u8> {
        self.shared.lock().output.clone()
    }

    /// Everything printed so far, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().output).into_owned()
    }

    /// How much was printed so far: a mark for [`Terminal::wait_for_after`].
    pub fn mark(&self) -> usize {
        self.shared.lock().output.len()
    }

    /// Waits until the output holds these bytes, and returns the offset after them.
    ///
    /// # Panics
    /// When they do not come in time or the terminal ends first.
    #[track_caller]
    pub fn wait_for(&self, wanted: impl AsRef<[u8]>) -> usize {
        self.wait_for_after(0, wanted)
    }

    /// Waits until the output after a mark holds these bytes, and returns the offset after them.
    ///
    /// # Panics
    /// Like [`Terminal::wait_for`].
    #[track_caller]
    pub fn wait_for_after(&self, mark: usize, wanted: impl AsRef<[u8]>) -> usize {
        self.wait_for_within(PATIENCE, mark, wanted)
    }

    /// Like [`Terminal::wait_for_after`], for a time that the test is about.
    ///
    /// # Panics
    /// Like [`Terminal::wait_for`].
    #[track_caller]
    pub fn wait_for_within(&self, bound: Duration, mark: usize, wanted: impl AsRef<[u8]>) -> usize {
        let wanted = wanted.as_ref();
        let finder = memchr::memmem::Finder::new(wanted);
        let mut from = mark;
        let found = self.wait_until(bound, |state| {
            let rest = state.output.get(from..).unwrap_or_default();
            let found = finder.find(rest).map(|at| from + at + wanted.len());
            from = state
                .output
                .len()
                .saturating_sub(wanted.len().saturating_sub(1))
                .max(mark);
            found
        });
        found.unwrap_or_else(|why| {
            panic!(
                "{why} while waiting for {:?}\n{}",
                String::from_utf8_lossy(wanted),
                self.describe()
            )
        })
    }

    /// Waits until the screen shows a text in one row.
    ///
    /// # Panics
    /// When it does not in time or the terminal ends first.
    #[track_caller]
    pub fn wait_for_screen(&self, wanted: &str) {
        self.wait_for_screen_that(&format!("{wanted:?} on the screen"), |rows| {
            rows.iter().any(|row| row.contains(wanted))
        });
    }

    /// Waits until the screen is as wanted.
    ///
    /// # Panics
    /// When it is not in time or the terminal ends first.
    #[track_caller]
    pub fn wait_for_screen_that(&self, what: &str, mut wanted: impl FnMut(&[String]) -> bool) {
        let result = self.wait_until(PATIENCE, |state| wanted(&paint(state).rows).then_some(()));
        if let Err(why) = result {
            panic!("{why} while waiting for {what}\n{}", self.describe());
        }
    }

    /// What the user sees: the rows of the screen without blanks at their ends.
    pub fn screen(&self) -> Vec<String> {
        paint(&self.shared.lock()).rows
    }

    /// What the user finds by scrolling up, and then the screen: rows without blanks at their
    /// ends.
    pub fn history(&self) -> Vec<String> {
        let painted = paint(&self.shared.lock());
        [painted.history, painted.rows].concat()
    }

    /// Whether the user sees the alternate screen.
    pub fn is_on_alternate_screen(&self) -> bool {
        paint(&self.shared.lock()).alternate
    }

    /// SHA-256 of the output between two marks.
    pub fn hash(&self, from: usize, to: usize) -> Vec<u8> {
        let state = self.shared.lock();
        ring::digest::digest(&ring::digest::SHA256, &state.output[from..to])
            .as_ref()
            .to_vec()
    }

    /// Gives the terminal another size.
    ///
    /// # Panics
    /// When the terminal is gone.
    #[track_caller]
    pub fn resize(&self, size: Size) {
        let mut state = self.shared.lock();
        let offset = state.output.len();
        state.sizes.push((offset, size));
        drop(state);
        self.master
            .resize(size.pty())
            .expect("a terminal can be resized");
    }

    /// Stops reading: what the command prints fills the terminal's queue, then blocks it.
    ///
    /// One read that is under way still ends.
    pub fn pause(&self) {
        self.shared.lock().paused = true;
    }

    /// Reads again.
    pub fn resume(&self) {
        self.shared.lock().paused = false;
        self.shared.changed.notify_all();
    }

    /// Ends the command with SIGKILL and returns when it is gone.
    pub fn kill9(&self) {
        process::kill9(self.pid);
    }

    /// Sends the command a signal.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid, signal);
    }

    /// Whether the command has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.lock().exit.is_some()
    }

    /// Waits for the command's end and returns its exit code.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn wait_exit(&self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.shared.lock();
        loop {
            if let Some(exit) = state.exit {
                return exit;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                panic!(
                    "the command did not end in {PATIENCE:?}\n{}",
                    self.describe()
                );
            }
            state = self.shared.wait(state, left);
        }
    }

    /// Types the detach key and waits until the client left in order.
    ///
    /// # Panics
    /// When it does not, or ends with an error.
    #[track_caller]
    pub fn detach(&self) {
        self.send(DETACH);
        let exit = self.wait_exit();
        assert_eq!(exit, 0, "detach ended with {exit}\n{}", self.describe());
    }

    /// Looks at the state after every change until `look` finds what it wants.
    fn wait_until<T>(
        &self,
        bound: Duration,
        mut look: impl FnMut(&State) -> Option<T>,
    ) -> Result<T, String> {
        let deadline = Instant::now() + bound;
        let mut state = self.shared.lock();
        loop {
            // Whether it ended is read before the look, so that the last output is looked at.
            let ended = state.ended;
            if let Some(found) = look(&state) {
                return Ok(found);
            }
            if ended {
                return Err("the terminal ended".to_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{bound:?} passed"));
            }
            state = self.shared.wait(state, left);
        }
    }

    fn describe(&self) -> String {
        let state = self.shared.lock();
        let tail = &state.output[state.output.len().saturating_sub(SHOWN_TAIL)..];
        let exit = state
            .exit
            .map_or("runs".to_owned(), |exit| format!("ended with {exit}"));
        format!(
            "the command {exit}; {} bytes of output end with:\n{}\n--- screen ---\n{}",
            state.output.len(),
            tail.escape_ascii(),
            if state.output.len() < (8 << 20) {
                paint(&state).rows.join("\n")
            } else {
                "(too much output to paint)".to_owned()
            }
        )
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let exited = self.shared.lock().exit.is_some();
        if !exited {
            process::signal(self.pid, Signal::SIGKILL);
        }
        self.resume();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A failed assertion of one thread must not hide behind the next one's.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, bound: Duration) -> MutexGuard<'a, State> {
        match self.changed.wait_timeout(state, bound) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }
}

fn read_all(mut reader: Box<dyn Read + Send>, shared: &Shared) {
    let mut chunk = vec![0; READ_SIZE];
    loop {
        let mut state = shared.lock();
        while state.paused {
            state = shared.wait(state, PATIENCE);
        }
        drop(state);
        // Linux reports the end of a terminal as EIO.
        let count = match reader.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        shared.lock().output.extend_from_slice(&chunk[..count]);
        shared.changed.notify_all();
    }
    shared.lock().ended = true;
    shared.changed.notify_all();
}

struct Painted {
    history: Vec<String>,
    rows: Vec<String>,
    alternate: bool,
}

/// Feeds the output to a fresh emulator, sizes included.
fn paint(state: &State) -> Painted {
    let first = state.sizes.first().map_or(Size::new(80, 24), |(_, s)| *s);
    let mut term = Term::new(Config::default(), &first.model(), VoidListener);
    let mut parser = Processor::<StdSyncHandler>::new();
    for (index, (from, size)) in state.sizes.iter().enumerate() {
        let to = state
            .sizes
            .get(index + 1)
            .map_or(state.output.len(), |(offset, _)| *offset);
        term.resize(size.model());
        parser.advance(&mut term, &state.output[*from..to]);
    }
    let row = |row: i32| {
        let line = Line(row);
        let mut text = String::new();
        for column in 0..term.columns() {
            let cell = &term.grid()[line][Column(column)];
            if !cell
                .flags
                .intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER)
            {
                text.push(cell.c);
            }
        }
        text.trim_end().to_owned()
    };
    let count = |lines: usize| i32::try_from(lines).unwrap_or(i32::MAX);
    let rows = (0..count(term.screen_lines())).map(row).collect();
    let history = (-count(term.grid().history_size())..0).map(row).collect();
    Painted {
        history,
        rows,
        alternate: term.mode().contains(TermMode::ALT_SCREEN),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Terminal {
        let argv = ["/bin/sh", "-c", script].map(OsStr::new);
        let env = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        Terminal::spawn(&argv, &env, Path::new("/"), Size::new(40, 10))
    }

    #[test]
    fn typed_lines_reach_the_command_and_its_exit_code_comes_back() {
        let terminal = shell("read line; echo \"got <$line>\"; exit 7");

        terminal.line("hello");

        terminal.wait_for("got <hello>");
        assert_eq!(terminal.wait_exit(), 7);
    }

    #[test]
    fn the_screen_is_what_a_terminal_would_show() {
        let terminal = shell("printf 'wrong\\rright\\nsecond'; read x");

        terminal.wait_for_screen("second");

        let screen = terminal.screen();
        assert_eq!(screen[0], "right");
        assert_eq!(screen[1].trim(), "second");
        assert!(!terminal.is_on_alternate_screen());
    }

    #[test]
    fn a_new_size_reaches_the_command() {
        let terminal = shell("trap 'stty size' WINCH; echo go; while :; do sleep 0.05; done");
        terminal.wait_for("go");

        terminal.resize(Size::new(33, 12));

        terminal.wait_for("12 33");
    }

    #[test]
    fn a_paused_terminal_blocks_its_command_until_it_reads_again() {
        let terminal = shell("stty raw; head -c 4000000 /dev/zero | tr '\\0' x; printf END");
        terminal.pause();

        // The queue of a terminal holds 64 KiB at most; one read may be under way.
        std::thread::sleep(Duration::from_millis(200));
        assert!(terminal.mark() < 4_000_000);
        terminal.resume();

        let end = terminal.wait_for("xEND");
        assert_eq!(end, 4_000_003);
    }

    #[test]
    fn a_killed_command_ends_by_signal() {
        let terminal = shell("echo up; exec sleep 60");
        terminal.wait_for("up");

        terminal.kill9();

        assert_eq!(terminal.wait_exit(), Terminal::SIGNALLED);
    }

    #[test]
    #[should_panic(expected = "the terminal ended while waiting for \"never\"")]
    fn waiting_for_a_command_that_ended_fails_at_once() {
        shell("echo bye").wait_for("never");
    }
}

//! Attaches the user's terminal to a session.
//!
//! One loop owns everything: it reads keys, passes them on as commands, draws what comes
//! back, and reacts to signals. It never waits for one thing alone: a stalled link does
//! not stop the detach key, a stalled terminal does not stop the link's keep-alive. The
//! terminal is read and written by threads of their own, because both may block for as
//! long as its user likes; each ends when the loop closes its end of their channel.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use wt_wing::Error;
use wt_wing::attach::{Command, End, Event, Options, Target};
use wt_wing::config::PrefixKey;

use super::input::{Input, Piece};
use super::keys::{Action, Keys};
use super::outer::Outer;
use super::raw::RawMode;
use crate::output::plain;

/// Keys and pastes that may wait for a slow link, in bytes; reading stops beyond it.
/// Room for a large paste, so that the detach key behind it is still seen.
const MAX_QUEUED: usize = 4 << 20;

/// Most bytes of one input command; a paste becomes many.
const INPUT_CHUNK: usize = 16 * 1024;

/// One read of the terminal.
const READ_SIZE: usize = 16 * 1024;

/// Reads of the terminal that wait for the loop.
const READS: usize = 4;

/// Commands and events under way between this loop and the attachment.
const CHANNEL: usize = 64;

/// Pieces of output that wait for the terminal; each has at most a few records.
const WRITES: usize = 8;

/// How long an attachment may take to say goodbye when the user leaves.
const GOODBYE: Duration = Duration::from_secs(2);

/// As [`GOODBYE`], over an ssh, which may be stopped: whoever leaves is to be gone within a
/// second.
const SSH_GOODBYE: Duration = Duration::from_millis(900);

/// How long the terminal may take to draw the rest, and its own reset, at the end. A
/// terminal that is held still (by a selection, by its window system) may never do it.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// How much of undelivered input is shown, in bytes: a line of it.
const SHOWN_INPUT: usize = 200;

const BELL: u8 = 0x07;

/// How attaching ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The user left; the session goes on.
    Detached,
    /// A signal ended this process; the session goes on.
    Signal(i32),
    /// The output cannot be written any more; the session goes on.
    OutputFailed(io::Error),
    /// The session ended, was taken over, or could not be attached.
    Attachment(Result<End, Error>),
}

/// What the user should be told after an attach, beyond how it ended.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// The session's name, once it is known.
    pub(crate) name: Option<String>,
    /// Sentences.
    pub(crate) notes: Vec<String>,
    /// The terminal takes nothing any more; whoever writes to it waits for ever.
    pub(crate) is_stalled: bool,
}

/// Attaches until the session ends or the user leaves. The terminal is as before then.
///
/// # Errors
/// When the terminal cannot be used at all.
pub(crate) async fn run(
    target: Target,
    options: Options,
    prefix: PrefixKey,
) -> io::Result<(Ending, Story)> {
    let mut signals = Signals::new()?;
    let raw = RawMode::enter()?;
    let mut attached = Attached::start(target, options, prefix)?;
    let mut keyboard = Keyboard::start()?;
    let ending = attached.serve(&raw, &mut keyboard, &mut signals).await;
    // What is typed from here on is for whoever reads the terminal next.
    drop(keyboard);
    let ending = attached.finish(ending, &mut signals).await;
    drop(raw);
    Ok((ending, attached.story))
}

/// How long a lost link is mended in silence. What is written about it beside the
/// session's own output would be in the way of whoever counts that output's bytes, and most
/// cuts are over sooner.
const SAY_LOST_AFTER: Duration = Duration::from_secs(10);

struct Attached {
    input: Input,
    keys: Keys,
    outer: Outer,
    screen: Screen,
    commands: mpsc::Sender<Command>,
    queue: VecDeque<Command>,
    queued: usize,
    events: mpsc::Receiver<Event>,
    attachment: Attachment,
    read_only: bool,
    may_type: bool,
    /// Whether another client took the right to type from this one.
    was_taken: bool,
    is_over_ssh: bool,
    link_is_lost: bool,
    /// When the title is to say that the link is lost.
    say_lost_at: Option<Instant>,
    said_lost: bool,
    leave_by: Option<Instant>,
    story: Story,
}

/// The task of the attachment; ended when this is dropped.
struct Attachment(JoinHandle<Result<End, Error>>);

impl Drop for Attachment {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Attached {
    fn start(target: Target, options: Options, prefix: PrefixKey) -> io::Result<Self> {
        let (commands, command_source) = mpsc::channel(CHANNEL);
        let (event_sink, events) = mpsc::channel(CHANNEL);
        let read_only = options.read_only;
        let is_over_ssh = matches!(target, Target::Ssh(..));
        let screen = Screen::start()?;
        let attachment = tokio::spawn(wt_wing::attach::run(
            target,
            options,
            command_source,
            event_sink,
        ));
        Ok(Self {
            input: Input::default(),
            keys: Keys::new(prefix),
            outer: Outer::default(),
            screen,
            commands,
            queue: VecDeque::new(),
            queued: 0,
            events,
            attachment: Attachment(attachment),
            read_only,
            // Until the session says otherwise, so that keys typed ahead are not lost.
            may_type: !read_only,
            was_taken: false,
            is_over_ssh,
            link_is_lost: false,
            say_lost_at: None,
            said_lost: false,
            leave_by: None,
            story: Story::default(),
        })
    }

    async fn serve(
        &mut self,
        raw: &RawMode,
        keyboard: &mut Keyboard,
        signals: &mut Signals,
    ) -> Ending {
        // Clones, because a permit of a sender borrows it while all the rest is changed.
        let (writes, commands) = (self.screen.writes.clone(), self.commands.clone());
        let mut release_at: Option<Instant> = None;
        loop {
            tokio::select! {
                ended = &mut self.attachment.0 => return Ending::Attachment(flatten(ended)),
                failed = &mut self.screen.failed => {
                    return Ending::OutputFailed(failed.unwrap_or_else(|_| io::ErrorKind::BrokenPipe.into()));
                }
                () = at(self.leave_by) => return self.unheard(),
                signal = signals.next() => match signal {
                    Signalled::End(signal) => return Ending::Signal(signal),
                    Signalled::Resized => self.queue.push_back(Command::Resize(super::size())),
                    Signalled::Continued => {
                        // A terminal that went away meanwhile shows by the end of its input.
                        let _ = raw.again();
                        self.queue.push_back(Command::Resize(super::size()));
                    }
                },
                () = at(self.say_lost_at) => {
                    self.say_lost_at = None;
                    let words = self.outer.link_lost();
                    self.said_lost = !words.is_empty() && writes.try_send(words).is_ok();
                }
                () = at(release_at) => {
                    release_at = None;
                    let pieces = self.input.release();
                    self.type_in(pieces);
                }
                typed = keyboard.typed.recv(), if self.queued < MAX_QUEUED && self.leave_by.is_none() => {
                    match typed {
                        Some(bytes) => {
                            let pieces = self.input.feed(&bytes);
                            release_at = self.input.patience().map(|wait| Instant::now() + wait);
                            self.type_in(pieces);
                        }
                        // The end of input, or of the terminal.
                        None => self.leave(),
                    }
                }
                permit = commands.reserve(), if !self.queue.is_empty() => {
                    match (permit, self.queue.pop_front()) {
                        (Ok(permit), Some(command)) => {
                            if let Command::Input(bytes) = &command {
                                self.queued -= bytes.len();
                            }
                            permit.send(command);
                        }
                        // The attachment has ended, and says so in the first branch.
                        (Err(_), _) => self.queue.clear(),
                        (Ok(_), None) => {}
                    }
                }
                Some((permit, event)) = next_event(&writes, &mut self.events) => {
                    let bytes = self.draw(event);
                    if !bytes.is_empty() {
                        permit.send(bytes);
                    }
                }
            }
        }
    }

    fn type_in(&mut self, pieces: Vec<Piece>) {
        for action in self.keys.press(pieces) {
            match action {
                Action::Detach => self.leave(),
                Action::Send(bytes) if self.may_type => {
                    self.queued += bytes.len();
                    for chunk in bytes.chunks(INPUT_CHUNK) {
                        self.queue.push_back(Command::Input(chunk.to_vec()));
                    }
                }
                // A bell says that nobody heard the keys; it may be left out while much is drawn.
                Action::Send(_) if self.outer.is_between_sequences() => {
                    let _ = self.screen.writes.try_send(vec![BELL]);
                }
                Action::Send(_) => {}
            }
        }
    }

    /// Leaves after what was typed before; at once when it cannot be delivered anyway.
    fn leave(&mut self) {
        self.queue.push_back(Command::Detach);
        let grace = match (self.link_is_lost, self.is_over_ssh) {
            (true, _) => Duration::ZERO,
            (false, true) => SSH_GOODBYE,
            (false, false) => GOODBYE,
        };
        self.leave_by.get_or_insert(Instant::now() + grace);
    }

    /// How it ends when nobody answers to a goodbye.
    fn unheard(&self) -> Ending {
        if self.is_over_ssh && !self.link_is_lost {
            Ending::Attachment(Ok(End::Unheard))
        } else {
            Ending::Detached
        }
    }

    /// What to write for an event.
    fn draw(&mut self, event: Event) -> Vec<u8> {
        match event {
            Event::Attached {
                name,
                id: _,
                writer,
                skipped,
                undelivered,
            } => {
                self.may_type = writer && !self.read_only;
                if let Some(bytes) = skipped {
                    self.story.notes.push(format!(
                        "{bytes} bytes of output were skipped while the link was slow"
                    ));
                }
                if !undelivered.is_empty() {
                    let typed =
                        String::from_utf8_lossy(&undelivered[..undelivered.len().min(SHOWN_INPUT)])
                            .into_owned();
                    self.story.notes.push(format!(
                        "{} bytes that were typed while the link was lost were not sent: {}",
                        undelivered.len(),
                        plain(&typed)
                    ));
                }
                self.story.name = Some(name);
                Vec::new()
            }
            Event::Repaint(snapshot) => {
                let bytes = self.outer.repaint(&snapshot, super::size());
                self.input
                    .position_was_asked(self.outer.take_position_queries());
                bytes
            }
            Event::Output(bytes) => {
                self.outer.output(&bytes);
                self.input
                    .position_was_asked(self.outer.take_position_queries());
                bytes
            }
            Event::Writer(writer) => {
                let could_type = std::mem::replace(&mut self.may_type, writer && !self.read_only);
                let is_lost = could_type && !self.may_type;
                self.was_taken |= is_lost;
                if is_lost && self.outer.is_between_sequences() {
                    vec![BELL]
                } else {
                    Vec::new()
                }
            }
            Event::LinkLost if !self.link_is_lost => {
                self.link_is_lost = true;
                self.say_lost_at = Some(Instant::now() + SAY_LOST_AFTER);
                Vec::new()
            }
            Event::LinkBack if self.link_is_lost => {
                self.link_is_lost = false;
                self.say_lost_at = None;
                if std::mem::take(&mut self.said_lost) {
                    self.outer.link_back()
                } else {
                    Vec::new()
                }
            }
            Event::LinkLost | Event::LinkBack => Vec::new(),
        }
    }

    /// Draws what is left and gives the terminal back.
    async fn finish(&mut self, ending: Ending, signals: &mut Signals) -> Ending {
        let mut rest = Vec::new();
        if !self.may_type && !self.read_only && self.story.name.is_some() {
            let note = if self.was_taken {
                "another client took the right to type; `wt attach --takeover` takes it back"
            } else {
                "another client had the right to type; `wt attach --takeover` takes it"
            };
            self.story.notes.push(note.to_owned());
        }
        if let Ending::Attachment(_) = ending {
            // All events were sent before the task ended.
            while let Ok(event) = self.events.try_recv() {
                rest.push(self.draw(event));
            }
        }
        rest.push(self.outer.finish());
        let bytes = rest.concat();
        let writes = async {
            for chunk in bytes.chunks(READ_SIZE) {
                if self.screen.writes.send(chunk.to_vec()).await.is_err() {
                    return;
                }
            }
            self.screen.close().await;
        };
        let patience = match ending {
            Ending::Attachment(_) => LAST_WRITES,
            Ending::Detached | Ending::Signal(_) | Ending::OutputFailed(_) => GOODBYE,
        };
        let (ending, is_stalled) = tokio::select! {
            written = timeout(patience, writes) => (ending, written.is_err()),
            signal = signals.ending() => (Ending::Signal(signal), true),
        };
        self.story.is_stalled = is_stalled;
        ending
    }
}

/// The next event, with room for what it draws.
async fn next_event<'a>(
    writes: &'a mpsc::Sender<Vec<u8>>,
    events: &mut mpsc::Receiver<Event>,
) -> Option<(mpsc::Permit<'a, Vec<u8>>, Event)> {
    let permit = writes.reserve().await.ok()?;
    let event = events.recv().await?;
    Some((permit, event))
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn flatten(ended: Result<Result<End, Error>, tokio::task::JoinError>) -> Result<End, Error> {
    ended.unwrap_or_else(|error| Err(Error::failed(format!("the attachment broke off: {error}"))))
}

/// The thread that reads the user's terminal.
///
/// The terminal stays in blocking mode, because that mode belongs to all who share it. So
/// the thread waits for the terminal and for its own end at once, and never takes what is
/// typed after the end.
pub(super) struct Keyboard {
    pub(super) typed: mpsc::Receiver<Vec<u8>>,
    /// Closed, it ends the thread.
    _stop: OwnedFd,
}

impl Keyboard {
    pub(super) fn start() -> io::Result<Self> {
        let (stopped, stop) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let (sink, typed) = mpsc::channel(READS);
        std::thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || {
                // Any error means that the terminal is gone, which is an end of input.
                while let Ok(Some(bytes)) = read_terminal(&stopped)
                    && !bytes.is_empty()
                    && sink.blocking_send(bytes).is_ok()
                {}
            })?;
        Ok(Self { typed, _stop: stop })
    }
}

/// Waits for something typed; none when the other end of `stopped` is closed.
fn read_terminal(stopped: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    let stdin = io::stdin();
    loop {
        let mut asked = [
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut asked, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        if is_ready(&asked[1]) {
            return Ok(None);
        }
        if !is_ready(&asked[0]) {
            continue;
        }
        let mut bytes = vec![0; READ_SIZE];
        match nix::unistd::read(&stdin, &mut bytes) {
            Ok(count) => {
                bytes.truncate(count);
                return Ok(Some(bytes));
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The thread that writes to the user's terminal.
pub(super) struct Screen {
    pub(super) writes: mpsc::Sender<Vec<u8>>,
    /// Why it ended, if it did so by itself.
    pub(super) failed: oneshot::Receiver<io::Error>,
    done: Option<oneshot::Receiver<()>>,
}

impl Screen {
    pub(super) fn start() -> io::Result<Self> {
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let (writes, mut source) = mpsc::channel::<Vec<u8>>(WRITES);
        let (report, failed) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || {
                while let Some(bytes) = source.blocking_recv() {
                    if let Err(error) = write_whole(&stdout, &bytes) {
                        let _ = report.send(error);
                        return;
                    }
                    if bytes.is_empty() {
                        break;
                    }
                }
                let _ = finished.send(());
                // Until the process ends, so that the end of this thread is never taken for a failure.
                while source.blocking_recv().is_some() {}
            })?;
        Ok(Self {
            writes,
            failed,
            done: Some(done),
        })
    }

    /// Waits until everything is written. An empty write marks the end.
    pub(super) async fn close(&mut self) {
        if self.writes.send(Vec::new()).await.is_ok()
            && let Some(done) = self.done.take()
        {
            let _ = done.await;
        }
    }
}

fn write_whole(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Somebody who shares the terminal switched it to non-blocking mode.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut asked = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut asked, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) struct Signals {
    hangup: SignalStream,
    terminate: SignalStream,
    interrupt: SignalStream,
    quit: SignalStream,
    resize: SignalStream,
    resume: SignalStream,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            resize: signal(SignalKind::window_change())?,
            resume: signal(SignalKind::from_raw(Signal::SIGCONT as i32))?,
        })
    }

    pub(super) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.hangup.recv() => Signalled::End(Signal::SIGHUP as i32),
            _ = self.terminate.recv() => Signalled::End(Signal::SIGTERM as i32),
            _ = self.interrupt.recv() => Signalled::End(Signal::SIGINT as i32),
            _ = self.quit.recv() => Signalled::End(Signal::SIGQUIT as i32),
            _ = self.resize.recv() => Signalled::Resized,
            _ = self.resume.recv() => Signalled::Continued,
        }
    }

    /// Waits for a signal to end, and for no other.
    pub(super) async fn ending(&mut self) -> i32 {
        loop {
            if let Signalled::End(signal) = self.next().await {
                return signal;
            }
        }
    }
}

pub(super) enum Signalled {
    /// This process should end.
    End(i32),
    /// The terminal has another size.
    Resized,
    /// This process was stopped and goes on.
    Continued,
}

//! Attaches the user's terminal to a session.
//!
//! One loop owns everything: it reads keys, passes them on as commands, draws what comes
//! back, and reacts to signals. It never waits for one thing alone: a stalled link does
//! not stop the detach key, a stalled terminal does not stop the link's keep-alive.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use wt_protocol::session::Winsize;
use wt_wing::Error;
use wt_wing::attach::{Command, End, Event, Options, Target};
use wt_wing::config::{Clipboard, PrefixKey};

use super::clipboard::{ClipboardGuard, MAX_COPY};
use super::device::{Keyboard, READ_SIZE, Screen};
use super::input::{Input, Piece};
use super::keys::{Action, Keys};
use super::outer::Outer;
use super::raw::RawMode;
use crate::output::plain;

/// Keys and pastes that may wait for a slow link, in bytes; reading stops beyond it, as
/// long as the session goes on to take some.
const MAX_QUEUED: usize = 4 << 20;

/// How long a session may take nothing of a full queue. After that reading goes on, so that
/// the leaving key is found, and what else is typed is refused.
const STALLED: Duration = Duration::from_secs(1);

/// How long what was typed before the leaving key may take to be passed on.
const LAST_INPUT: Duration = Duration::from_millis(500);

/// How long the terminal's title says something that happened.
const NOTICE: Duration = Duration::from_secs(10);

/// How long a notice waits for the end of a sequence that it must not break in two.
const NOTICE_RETRY: Duration = Duration::from_secs(1);

/// Most bytes of one input command; a paste becomes many.
const INPUT_CHUNK: usize = 16 * 1024;

/// Commands and events under way between this loop and the attachment.
const CHANNEL: usize = 64;

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

/// How a user likes to be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    /// The key before Q.
    pub(crate) prefix: PrefixKey,
    /// What the session may do to the clipboard.
    pub(crate) clipboard: Clipboard,
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
    manner: Manner,
) -> io::Result<(Ending, Story)> {
    // On a worker of the runtime, which what comes in wakes directly. The thread that waits
    // for the command's end would have to be woken by one of them, twice for each key.
    let attaching = tokio::spawn(attach(target, options, manner));
    attaching
        .await
        .unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(io::Error::other(error)),
        })
}

async fn attach(target: Target, options: Options, manner: Manner) -> io::Result<(Ending, Story)> {
    let mut signals = Signals::new()?;
    let raw = RawMode::enter()?;
    let mut attached = Attached::start(target, options, manner)?;
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
    clipboard: ClipboardGuard,
    commands: mpsc::Sender<Command>,
    /// Leaves without waiting for the commands before.
    leave_now: Arc<Notify>,
    queue: VecDeque<Command>,
    queued: usize,
    /// Since when the queue is full and nothing of it was taken.
    full_since: Option<Instant>,
    /// The queue was full for too long: what is typed is refused until it is empty.
    refuses: bool,
    lost: LostInput,
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
    notices: Notices,
    /// When what was typed before the leaving key had its time.
    hurry_at: Option<Instant>,
    leave_by: Option<Instant>,
    /// The session's size.
    session_size: Option<Winsize>,
    story: Story,
}

/// What the title says instead of the program's own.
#[derive(Debug, Default)]
struct Notices {
    /// About the link, for as long as it is lost.
    link: Option<&'static str>,
    /// About the session's size, as long as this terminal is too small for it.
    size: Option<&'static str>,
    /// About something that happened, until then.
    event: Option<(&'static str, Instant)>,
    shown: Option<&'static str>,
    /// When to look again.
    look_at: Option<Instant>,
}

/// Input that was typed and did not reach the session.
#[derive(Debug, Default)]
struct LostInput {
    bytes: usize,
    /// The start of it.
    shown: Vec<u8>,
}

const LINK_LOST: &str = "[link lost, connecting again]";
const LINK_LOST_FOR_LONG: &str = "[link lost, connecting again; what you type is refused]";
const IS_TOO_SMALL: &str = "[the session is larger than this terminal: not all of it shows]";
const TAKES_NO_INPUT: &str = "[the session takes no input; what you type is refused]";
const COPY_TOO_LONG: &str = "[a copy was too long for the clipboard and was dropped]";

/// The task of the attachment; ended when this is dropped.
struct Attachment(JoinHandle<Result<End, Error>>);

impl Drop for Attachment {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Attached {
    fn start(target: Target, options: Options, manner: Manner) -> io::Result<Self> {
        let (commands, command_source) = mpsc::channel(CHANNEL);
        let (event_sink, events) = mpsc::channel(CHANNEL);
        let read_only = options.read_only;
        let is_over_ssh = matches!(target, Target::Ssh(..));
        let screen = Screen::start()?;
        let leave_now = Arc::new(Notify::new());
        let attachment = tokio::spawn(wt_wing::attach::run(
            target,
            options,
            command_source,
            Arc::clone(&leave_now),
            event_sink,
        ));
        Ok(Self {
            input: Input::default(),
            keys: Keys::new(manner.prefix),
            outer: Outer::default(),
            screen,
            clipboard: ClipboardGuard::new(manner.clipboard),
            commands,
            leave_now,
            queue: VecDeque::new(),
            queued: 0,
            full_since: None,
            refuses: false,
            lost: LostInput::default(),
            events,
            attachment: Attachment(attachment),
            read_only,
            // Until the session says otherwise, so that keys typed ahead are not lost.
            may_type: !read_only,
            was_taken: false,
            is_over_ssh,
            link_is_lost: false,
            say_lost_at: None,
            notices: Notices::default(),
            hurry_at: None,
            leave_by: None,
            session_size: None,
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
                    Signalled::Resized => self.resized(),
                    Signalled::Continued => {
                        // A terminal that went away meanwhile shows by the end of its input.
                        let _ = raw.again();
                        self.resized();
                    }
                },
                () = at(self.say_lost_at) => {
                    self.say_lost_at = None;
                    self.notices.link.get_or_insert(LINK_LOST);
                    self.show_notices();
                }
                () = at(self.notices.look_at) => self.show_notices(),
                () = at(self.hurry_at) => {
                    self.hurry_at = None;
                    self.leave_now.notify_one();
                }
                () = at(self.full_since.map(|since| since + STALLED)) => self.begin_to_refuse(),
                () = at(release_at) => {
                    release_at = None;
                    let pieces = self.input.release();
                    self.type_in(pieces);
                }
                typed = keyboard.next(), if self.reads() => {
                    match typed {
                        Some(bytes) => {
                            self.refuses &= !self.queue.is_empty() || self.input.end_of_paste().is_some();
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
                                let is_full = self.queued >= MAX_QUEUED && !self.refuses;
                                self.full_since = is_full.then(Instant::now);
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
                    self.look_for_long_copies();
                    if !bytes.is_empty() {
                        permit.send(bytes);
                    }
                }
            }
        }
    }

    fn resized(&mut self) {
        let size = super::size();
        match self.queue.back_mut() {
            Some(Command::Resize(waiting)) => *waiting = size,
            _ => self.queue.push_back(Command::Resize(size)),
        }
        self.look_at_sizes();
    }

    /// The size is that of whoever may type; who has a smaller terminal is told.
    fn look_at_sizes(&mut self) {
        let own = super::size();
        let is_too_small = self
            .session_size
            .is_some_and(|session| session.cols > own.cols || session.rows > own.rows);
        self.notices.size = (is_too_small && !self.may_type).then_some(IS_TOO_SMALL);
        self.show_notices();
    }

    fn type_in(&mut self, pieces: Vec<Piece>) {
        for action in self.keys.press(pieces) {
            match action {
                Action::Detach => self.leave(),
                Action::Send(bytes) if self.may_type && self.refuses => {
                    self.lost.bytes += bytes.len();
                    self.ring();
                }
                Action::Send(bytes) if self.may_type => {
                    self.queued += bytes.len();
                    for chunk in bytes.chunks(INPUT_CHUNK) {
                        self.queue.push_back(Command::Input(chunk.to_vec()));
                    }
                }
                Action::Send(_) => self.ring(),
            }
        }
        if self.queued >= MAX_QUEUED && !self.refuses {
            self.full_since.get_or_insert_with(Instant::now);
        }
    }

    /// Whether the terminal is read. What is not read is left to whoever reads it next.
    fn reads(&self) -> bool {
        self.leave_by.is_none() && (self.queued < MAX_QUEUED || self.refuses)
    }

    /// The session takes nothing: from here on only the leaving key counts.
    fn begin_to_refuse(&mut self) {
        (self.full_since, self.refuses) = (None, true);
        // The program that got the start of a paste waits for its end.
        if let Some(end) = self.input.end_of_paste() {
            self.queued += end.len();
            self.queue.push_back(Command::Input(end.to_vec()));
        }
        self.tell_now(TAKES_NO_INPUT);
    }

    /// A bell says that nobody heard the keys; it may be left out while much is drawn.
    fn ring(&self) {
        if self.outer.is_between_sequences() {
            let _ = self.screen.writes.try_send(vec![BELL]);
        }
    }

    fn look_for_long_copies(&mut self) {
        if self.clipboard.take_too_long() {
            self.story.notes.push(format!(
                "a program copied more than {MAX_COPY} bytes to the clipboard; the copy was dropped"
            ));
            self.story.notes.dedup();
            self.tell_now(COPY_TOO_LONG);
        }
    }

    /// Says in the title that something happened, and rings.
    fn tell_now(&mut self, text: &'static str) {
        self.notices.event = Some((text, Instant::now() + NOTICE));
        self.ring();
        self.show_notices();
    }

    /// Brings the title to what it should say.
    fn show_notices(&mut self) {
        let now = Instant::now();
        self.notices.event = self.notices.event.filter(|(_, until)| *until > now);
        self.notices.look_at = self.notices.event.map(|(_, until)| until);
        let event = self.notices.event.map(|(text, _)| text);
        let wanted = self.notices.link.or(event).or(self.notices.size);
        if wanted == self.notices.shown {
            return;
        }
        let room = self.screen.writes.clone();
        let written = room.try_reserve().ok().and_then(|permit| {
            let bytes = match wanted {
                Some(text) => self.outer.show_notice(text),
                None => self.outer.clear_notice(),
            }?;
            permit.send(bytes);
            Some(())
        });
        match written {
            Some(()) => self.notices.shown = wanted,
            None => self.notices.look_at = Some(now + NOTICE_RETRY),
        }
    }

    /// Leaves after what was typed before, unless that takes too long.
    fn leave(&mut self) {
        self.queue.push_back(Command::Detach);
        let now = Instant::now();
        if self.refuses || self.link_is_lost {
            self.leave_now.notify_one();
        } else {
            self.hurry_at.get_or_insert(now + LAST_INPUT);
        }
        let grace = match (self.link_is_lost, self.is_over_ssh) {
            (true, _) => LAST_INPUT,
            (false, true) => SSH_GOODBYE,
            (false, false) => GOODBYE,
        };
        self.leave_by.get_or_insert(now + grace);
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
                size,
                skipped,
                undelivered,
            } => {
                self.may_type = writer && !self.read_only;
                self.clipboard.set_active(self.may_type);
                if let Some(bytes) = skipped {
                    self.story.notes.push(format!(
                        "{bytes} bytes of output were skipped while the link was slow"
                    ));
                }
                self.lost.add(&undelivered);
                self.story.name = Some(name);
                self.session_size = Some(size);
                self.look_at_sizes();
                Vec::new()
            }
            Event::Repaint(snapshot) => {
                self.clipboard.restart();
                let snapshot = self.clipboard.pass(snapshot);
                let bytes = self.outer.repaint(&snapshot, super::size());
                self.input
                    .position_was_asked(self.outer.take_position_queries());
                bytes
            }
            Event::Output(bytes) => {
                let bytes = self.clipboard.pass(bytes);
                self.outer.output(&bytes);
                self.input
                    .position_was_asked(self.outer.take_position_queries());
                bytes
            }
            Event::Writer(writer) => {
                let could_type = std::mem::replace(&mut self.may_type, writer && !self.read_only);
                self.clipboard.set_active(self.may_type);
                self.look_at_sizes();
                let is_lost = could_type && !self.may_type;
                self.was_taken |= is_lost;
                if is_lost && self.outer.is_between_sequences() {
                    vec![BELL]
                } else {
                    Vec::new()
                }
            }
            Event::Resized(size) => {
                self.session_size = Some(size);
                self.look_at_sizes();
                Vec::new()
            }
            Event::LinkLost if !self.link_is_lost => {
                self.link_is_lost = true;
                self.say_lost_at = Some(Instant::now() + SAY_LOST_AFTER);
                Vec::new()
            }
            Event::LinkBack if self.link_is_lost => {
                self.link_is_lost = false;
                self.say_lost_at = None;
                self.notices.link = None;
                self.show_notices();
                Vec::new()
            }
            Event::Refused(bytes) => {
                self.lost.add(&bytes);
                if self.link_is_lost {
                    self.notices.link = Some(LINK_LOST_FOR_LONG);
                    self.ring();
                    self.show_notices();
                }
                Vec::new()
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
        self.tell_what_was_lost();
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

    fn tell_what_was_lost(&mut self) {
        // What this loop still had; the attachment told of its own.
        self.lost.bytes += self.queued;
        if self.lost.bytes > 0 {
            let mut note = format!(
                "{} bytes that were typed did not reach the session",
                self.lost.bytes
            );
            if !self.lost.shown.is_empty() {
                let shown = String::from_utf8_lossy(&self.lost.shown);
                note.push_str(&format!(": {}", plain(&shown)));
            }
            self.story.notes.push(note);
        }
        if self.keys.behind() > 0 {
            self.story.notes.push(format!(
                "{} bytes that came together with the leaving key were dropped",
                self.keys.behind()
            ));
        }
    }
}

impl LostInput {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        let room = SHOWN_INPUT - self.shown.len();
        self.shown
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
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

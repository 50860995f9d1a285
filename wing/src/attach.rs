//! An attachment: one terminal of a user on one session, over any number of cuts.
//!
//! `Place` is the core: it knows where input and output stopped. [`run`] moves bytes
//! between it, a session that is here or elsewhere, and whoever shows it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wt_crypto::Fill;
use wt_egg::EggClient;
use wt_egg::wire::{MessageReader, MessageWriter};
use wt_protocol::limits::{INPUT_WINDOW, MAX_CHUNK, MAX_MESSAGE};
use wt_protocol::local::{FromEgg, ToEgg};
use wt_protocol::session::{
    Attach, Attached, ClientMessage, Exit, History, Resume, WingMessage, Winsize,
};
use wt_protocol::{AttachmentId, Close, EggEpoch, codec};

use crate::backoff::{Backoff, jitter};
use crate::client::WingHandle;
use crate::error::{Error, ErrorCode};
use crate::remote::{RemoteHost, Ssh, SshStream};
use crate::sealed::{SealedEnd, SealedReader, SealedSender};
use crate::sessions::Sessions;

/// Input that is held for a session, in bytes: the largest paste that people make. Beyond
/// it the terminal itself holds what is typed.
const MAX_HELD_INPUT: usize = 8 << 20;

/// How long input is held for a link that is lost. A user who gets no answer goes on to
/// other things, and keys that arrive after that would hit what nobody meant.
const HOLD_FOR: Duration = Duration::from_secs(60);

/// Waits between tries to come back.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long a local egg that is gone is looked for before that is the end.
const LOCAL_PATIENCE: Duration = Duration::from_secs(2);

/// How long saying goodbye may take.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(2);

/// How long an ssh may take to pass a goodbye on and end. One that is stopped never does,
/// and whoever leaves is to be gone within a second.
const SSH_GOODBYE: Duration = Duration::from_millis(800);

/// Which session, and where.
pub enum Target {
    /// A session of this profile.
    Local(Sessions, String),
    /// A session of another wing.
    Remote(WingHandle, String),
    /// A session of another machine, over ssh.
    Ssh(RemoteHost, String),
}

/// How to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The terminal's size.
    pub size: Winsize,
    /// Only watch.
    pub read_only: bool,
    /// Take the right to type from whoever has it.
    pub takeover: bool,
}

/// What the user does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Types or pastes.
    Input(Vec<u8>),
    /// Gives the terminal another size.
    Resize(Winsize),
    /// Leaves; the session goes on.
    Detach,
}

/// What the user is to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The session is there.
    Attached {
        /// Its name.
        name: String,
        /// Its id.
        id: String,
        /// Whether this terminal may type.
        writer: bool,
        /// The session's size.
        size: Winsize,
        /// Bytes of output that are not shown, when there are any.
        skipped: Option<u64>,
        /// Input that was typed and must not be sent again, when there is any.
        undelivered: Vec<u8>,
    },
    /// Bytes that bring a fresh screen to the session's state.
    Repaint(Vec<u8>),
    /// What the session printed.
    Output(Vec<u8>),
    /// Whether this terminal may type.
    Writer(bool),
    /// The session has this size.
    Resized(Winsize),
    /// Input that was typed and will not reach the session: the link was lost for too long,
    /// or the user left before the session took it. More input is refused the same way until
    /// the link is back.
    Refused(Vec<u8>),
    /// The link is lost; it is being tried again.
    LinkLost,
    /// The link is back.
    LinkBack,
}

/// How an attachment ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The user left.
    Detached,
    /// The user left, and the other end gave no sign that it heard of it.
    Unheard,
    /// The session's program ended.
    Exited(Exit),
    /// The same attachment went on elsewhere.
    Replaced,
}

/// Attaches until the user leaves or the session ends; comes back by itself after cuts.
///
/// Events go out in order and wait for whoever takes them. Commands wait while the session
/// takes no input; `leave` is heard all the same, and leaves at once.
///
/// # Errors
/// That there is no such session, or that it or its wing refuses.
pub async fn run(
    target: Target,
    options: Options,
    mut commands: mpsc::Receiver<Command>,
    leave: Arc<Notify>,
    events: mpsc::Sender<Event>,
) -> Result<End, Error> {
    let mut place = Place::new(AttachmentId::from_bytes(wt_crypto::random()));
    let mut options = options;
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    let mut lost_at: Option<Instant> = None;
    loop {
        let opened = {
            let opening = open(&target);
            tokio::pin!(opening);
            loop {
                tokio::select! {
                    opened = &mut opening => break opened,
                    command = commands.recv(), if lost_at.is_some() && place.has_room() => {
                        if !take_offline(&mut place, &mut options, command, &events).await {
                            return Ok(End::Detached);
                        }
                    }
                    () = given_up(&place, lost_at) => give_up(&mut place, &events).await,
                    () = leave.notified() => return Ok(leave_offline(&mut place, &events)),
                }
            }
        };
        let cut = match opened {
            Ok(stream) => {
                let was_lost = lost_at.take().is_some();
                if was_lost && events.send(Event::LinkBack).await.is_err() {
                    return Ok(End::Detached);
                }
                match converse(
                    stream,
                    &target,
                    &mut place,
                    &mut options,
                    &mut commands,
                    &leave,
                    &events,
                )
                .await?
                {
                    Conversation::Over(end) => return Ok(end),
                    Conversation::Cut { progressed } => {
                        if progressed {
                            backoff.reset();
                        }
                        None
                    }
                }
            }
            Err(error) => Some(error),
        };
        // A first attach that fails is the user's answer; a later one is tried again.
        if let Some(error) = cut {
            let patience = match &target {
                Target::Local(..) => LOCAL_PATIENCE,
                Target::Remote(..) | Target::Ssh(..) => Duration::MAX,
            };
            let gone_for = lost_at.map(|at| at.elapsed());
            let may_return = matches!(error.code, ErrorCode::Unreachable | ErrorCode::TimedOut);
            if place.epoch.is_none() || !may_return || gone_for.is_some_and(|gone| gone > patience)
            {
                return Err(error);
            }
        }
        if lost_at.is_none() {
            lost_at = Some(Instant::now());
            if events.send(Event::LinkLost).await.is_err() {
                return Ok(End::Detached);
            }
        }
        let waiting = sleep(backoff.wait(jitter()));
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                () = &mut waiting => break,
                command = commands.recv(), if place.has_room() => {
                    if !take_offline(&mut place, &mut options, command, &events).await {
                        return Ok(End::Detached);
                    }
                }
                () = given_up(&place, lost_at) => give_up(&mut place, &events).await,
                () = leave.notified() => return Ok(leave_offline(&mut place, &events)),
            }
        }
    }
}

/// Takes a command while there is no link. False when the user leaves.
async fn take_offline(
    place: &mut Place,
    options: &mut Options,
    command: Option<Command>,
    events: &mpsc::Sender<Event>,
) -> bool {
    match command {
        Some(Command::Input(bytes)) if place.refuses => refuse(bytes, events).await,
        Some(Command::Input(bytes)) => place.typed(&bytes),
        Some(Command::Resize(size)) => options.size = size,
        Some(Command::Detach) | None => {
            leave_offline(place, events);
            return false;
        }
    }
    true
}

/// Waits until the link was lost for as long as input is held.
async fn given_up(place: &Place, lost_at: Option<Instant>) {
    match lost_at {
        Some(lost_at) if !place.refuses => sleep_until(lost_at + HOLD_FOR).await,
        _ => std::future::pending().await,
    }
}

async fn give_up(place: &mut Place, events: &mpsc::Sender<Event>) {
    let held = place.give_up(AttachmentId::from_bytes(wt_crypto::random()));
    refuse(held, events).await;
}

fn leave_offline(place: &mut Place, events: &mpsc::Sender<Event>) -> End {
    tell_unsent(place.held.drain(..).collect(), events);
    End::Detached
}

/// Tells of input that will not reach the session. Whoever takes no events is gone.
async fn refuse(bytes: Vec<u8>, events: &mpsc::Sender<Event>) {
    if !bytes.is_empty() {
        let _ = events.send(Event::Refused(bytes)).await;
    }
}

/// As [`refuse`], without waiting: whoever leaves is to be gone soon.
fn tell_unsent(bytes: Vec<u8>, events: &mpsc::Sender<Event>) {
    if !bytes.is_empty() {
        let _ = events.try_send(Event::Refused(bytes));
    }
}

enum Conversation {
    Over(End),
    Cut { progressed: bool },
}

/// Talks over one stream until it or the attachment ends.
async fn converse(
    stream: Stream,
    target: &Target,
    place: &mut Place,
    options: &mut Options,
    commands: &mut mpsc::Receiver<Command>,
    leave: &Notify,
    events: &mpsc::Sender<Event>,
) -> Result<Conversation, Error> {
    let (mut incoming, mut outgoing) = stream.split();
    let session = match target {
        Target::Local(_, session) | Target::Remote(_, session) | Target::Ssh(_, session) => {
            session.clone()
        }
    };
    let request = Attach {
        session,
        attachment: place.attachment,
        size: options.size,
        read_only: options.read_only,
        // Taking over is done once, not again after each cut.
        takeover: options.takeover && place.epoch.is_none(),
        resume: place.resume(),
    };
    let mut progressed = false;
    if outgoing.send(ClientMessage::Attach(request)).await.is_err() {
        return Ok(Conversation::Cut { progressed });
    }
    let mut attached = false;
    let mut told_size = options.size;
    loop {
        // Sending never waits for long: the other end always takes a window of input.
        if attached {
            while let Some((offset, bytes)) = place.next_input() {
                if outgoing
                    .send(ClientMessage::Input { offset, bytes })
                    .await
                    .is_err()
                {
                    return Ok(Conversation::Cut { progressed });
                }
            }
            if told_size != options.size {
                told_size = options.size;
                if outgoing
                    .send(ClientMessage::Resize(told_size))
                    .await
                    .is_err()
                {
                    return Ok(Conversation::Cut { progressed });
                }
            }
        }
        tokio::select! {
            message = incoming.next() => {
                let message = match message {
                    Ok(message) => message,
                    Err(StreamLoss::Fatal(error)) => return Err(error),
                    Err(StreamLoss::Cut) => return Ok(Conversation::Cut { progressed }),
                };
                attached |= matches!(message, WingMessage::Attached(_));
                progressed = true;
                match place.take(message)? {
                    Taken::Nothing => {}
                    Taken::Event(event) => {
                        if events.send(event).await.is_err() {
                            return Ok(Conversation::Over(goodbye(incoming, outgoing).await));
                        }
                    }
                    Taken::End(end) => return Ok(Conversation::Over(end)),
                }
            }
            command = commands.recv(), if place.has_room() => match command {
                Some(Command::Input(bytes)) => place.typed(&bytes),
                Some(Command::Resize(size)) => options.size = size,
                Some(Command::Detach) | None => {
                    tell_unsent(place.unsent(), events);
                    return Ok(Conversation::Over(goodbye(incoming, outgoing).await));
                }
            },
            () = leave.notified() => {
                tell_unsent(place.unsent(), events);
                return Ok(Conversation::Over(goodbye(incoming, outgoing).await));
            }
        }
    }
}

/// Where one attachment stopped: a pure core.
#[derive(Debug)]
struct Place {
    attachment: AttachmentId,
    /// The egg that the offsets belong to; none before the first attach.
    epoch: Option<EggEpoch>,
    /// Typed and not known to be applied; the first byte is at offset `acked`.
    held: VecDeque<u8>,
    acked: u64,
    /// Offset up to which input was sent on this stream.
    sent: u64,
    /// Offset up to which output is shown.
    have: u64,
    /// A snapshot that is coming in.
    snapshot: Vec<u8>,
    /// Whether this attachment only watches: what it types goes nowhere.
    watches: bool,
    /// Whether the next stream is the first one of an attachment that the session has not
    /// seen: what is under way on the one before may still arrive there, and counts for
    /// nothing here.
    starts_anew: bool,
    /// Whether input is refused because the link was lost for too long.
    refuses: bool,
}

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Largest snapshot that is put together, in bytes: 2,000 lines of the widest terminal
/// with every cell in a colour of its own.
const MAX_SNAPSHOT: usize = 64 << 20;

#[derive(Debug, PartialEq, Eq)]
enum Taken {
    Nothing,
    Event(Event),
    End(End),
}

impl Place {
    fn new(attachment: AttachmentId) -> Self {
        Self {
            attachment,
            epoch: None,
            held: VecDeque::new(),
            acked: 0,
            sent: 0,
            have: 0,
            snapshot: Vec::new(),
            watches: false,
            starts_anew: false,
            refuses: false,
        }
    }

    fn typed(&mut self, bytes: &[u8]) {
        if !self.watches {
            self.held.extend(bytes);
        }
    }

    fn has_room(&self) -> bool {
        self.held.len() < MAX_HELD_INPUT
    }

    /// Takes back all input that is not known to be applied, and takes no more until the
    /// session is attached again. None of it is sent later.
    ///
    /// A session that has some of it counts on the rest, so it goes on with an attachment of
    /// another id.
    fn give_up(&mut self, id: AttachmentId) -> Vec<u8> {
        self.refuses = true;
        let held: Vec<u8> = self.held.drain(..).collect();
        if !held.is_empty() {
            (self.attachment, self.starts_anew) = (id, true);
        }
        // The program that got the start of a paste waits for its end.
        let (start, end) = (find(&held, PASTE_START), find(&held, PASTE_END));
        if end.is_some_and(|end| start.is_none_or(|start| end < start)) {
            self.held.extend(PASTE_END);
        }
        held
    }

    /// Input that was not sent, and will not be.
    fn unsent(&mut self) -> Vec<u8> {
        let sent = (self.sent - self.acked) as usize;
        self.held.drain(sent.min(self.held.len())..).collect()
    }

    /// The next piece of input to send, within the window.
    fn next_input(&mut self) -> Option<(u64, Vec<u8>)> {
        let from = (self.sent - self.acked) as usize;
        let until = self
            .held
            .len()
            .min(INPUT_WINDOW as usize)
            .min(from + MAX_CHUNK);
        if from >= until {
            return None;
        }
        let offset = self.sent;
        let bytes: Vec<u8> = self.held.range(from..until).copied().collect();
        self.sent += bytes.len() as u64;
        Some((offset, bytes))
    }

    fn resume(&self) -> Option<Resume> {
        let epoch = self.epoch.filter(|_| !self.starts_anew)?;
        Some(Resume {
            epoch,
            next: self.acked + self.held.len() as u64,
            acked: self.acked,
            have: self.have,
        })
    }

    fn take(&mut self, message: WingMessage) -> Result<Taken, Error> {
        match message {
            WingMessage::Attached(attached) => Ok(self.attached(attached)),
            WingMessage::Snapshot { last, bytes } => {
                if self.snapshot.len() + bytes.len() > MAX_SNAPSHOT {
                    return Err(broken());
                }
                self.snapshot.extend(bytes);
                Ok(if last {
                    Taken::Event(Event::Repaint(std::mem::take(&mut self.snapshot)))
                } else {
                    Taken::Nothing
                })
            }
            WingMessage::Output {
                offset,
                applied,
                bytes,
            } => {
                if offset != self.have {
                    return Err(broken());
                }
                self.have += bytes.len() as u64;
                self.applied(applied)?;
                Ok(if bytes.is_empty() {
                    Taken::Nothing
                } else {
                    Taken::Event(Event::Output(bytes))
                })
            }
            WingMessage::Resized(size) => Ok(Taken::Event(Event::Resized(size))),
            WingMessage::Writer(writer) => {
                self.watches = !writer;
                Ok(Taken::Event(Event::Writer(writer)))
            }
            WingMessage::Exited(exit) => Ok(Taken::End(End::Exited(exit))),
            WingMessage::Replaced => Ok(Taken::End(End::Replaced)),
            WingMessage::Refused(failure) => Err(failure.into()),
            WingMessage::Reply(_) | WingMessage::Event(_) | WingMessage::Access(_) => Err(broken()),
        }
    }

    fn attached(&mut self, attached: Attached) -> Taken {
        let mut undelivered = Vec::new();
        match attached.history {
            History::Fresh => {}
            History::Continued | History::Skipped { .. } if attached.applied >= self.acked => {
                let newly = ((attached.applied - self.acked) as usize).min(self.held.len());
                self.held.drain(..newly);
            }
            // What was under way may or may not have been typed: never type it twice.
            History::Continued | History::Skipped { .. } | History::Differs => {
                undelivered = self.held.drain(..).collect();
            }
        }
        (self.starts_anew, self.refuses) = (false, false);
        self.epoch = Some(attached.epoch);
        self.acked = attached.applied;
        self.sent = attached.applied;
        self.have = attached.output;
        self.snapshot.clear();
        self.watches = !attached.writer;
        let skipped = match attached.history {
            History::Skipped { bytes } => Some(bytes),
            History::Fresh | History::Continued | History::Differs => None,
        };
        Taken::Event(Event::Attached {
            name: attached.name,
            id: attached.session.to_string(),
            writer: attached.writer,
            size: attached.size,
            skipped,
            undelivered,
        })
    }

    fn applied(&mut self, applied: u64) -> Result<(), Error> {
        if applied > self.sent {
            return Err(broken());
        }
        if applied > self.acked {
            let newly = ((applied - self.acked) as usize).min(self.held.len());
            self.held.drain(..newly);
            self.acked = applied;
        }
        Ok(())
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn broken() -> Error {
    Error::failed("the session's process does not keep to the protocol")
}

// One stream: to an egg here, through a relay, or over ssh.

enum Stream {
    Egg(EggClient),
    Sealed {
        reader: Box<SealedReader>,
        sender: SealedSender,
        wing: Box<WingHandle>,
    },
    Ssh(Box<SshStream>),
}

enum Incoming {
    Egg(MessageReader),
    Sealed {
        reader: Box<SealedReader>,
        wing: Box<WingHandle>,
    },
    Ssh {
        reader: MessageReader<ChildStdout>,
        ssh: Ssh,
    },
}

enum Outgoing {
    Egg(MessageWriter),
    Sealed(SealedSender),
    Ssh(MessageWriter<ChildStdin>),
}

/// Why nothing more comes from a stream.
enum StreamLoss {
    /// It was cut; another may be opened.
    Cut,
    /// Trying again would be wrong.
    Fatal(Error),
}

async fn open(target: &Target) -> Result<Stream, Error> {
    match target {
        Target::Local(sessions, session) => Ok(Stream::Egg(sessions.open(session).await?.0)),
        Target::Remote(wing, _) => {
            let sealed = wing.open().await?;
            Ok(Stream::Sealed {
                reader: Box::new(sealed.reader),
                sender: sealed.sender,
                wing: Box::new(wing.clone()),
            })
        }
        Target::Ssh(host, _) => Ok(Stream::Ssh(Box::new(host.open().await?))),
    }
}

impl Stream {
    fn split(self) -> (Incoming, Outgoing) {
        match self {
            Stream::Egg(EggClient { reader, writer }) => {
                (Incoming::Egg(reader), Outgoing::Egg(writer))
            }
            Stream::Sealed {
                reader,
                sender,
                wing,
            } => (Incoming::Sealed { reader, wing }, Outgoing::Sealed(sender)),
            Stream::Ssh(stream) => {
                let SshStream {
                    reader,
                    writer,
                    ssh,
                } = *stream;
                (Incoming::Ssh { reader, ssh }, Outgoing::Ssh(writer))
            }
        }
    }
}

impl Incoming {
    /// The next message. Cancel safe.
    async fn next(&mut self) -> Result<WingMessage, StreamLoss> {
        match self {
            Incoming::Egg(reader) => match reader.next::<FromEgg>().await {
                Ok(Some(FromEgg::Wing(message))) => Ok(message),
                Ok(Some(_)) => Err(StreamLoss::Fatal(broken())),
                Ok(None) | Err(_) => Err(StreamLoss::Cut),
            },
            Incoming::Sealed { reader, wing } => match reader.next().await {
                Ok(bytes) => {
                    codec::decode(&bytes, MAX_MESSAGE).map_err(|_| StreamLoss::Fatal(broken()))
                }
                Err(SealedEnd::Closed(
                    close @ (Close::NotAdmitted | Close::Version(_) | Close::Protocol),
                )) => Err(StreamLoss::Fatal(wing.closed(close))),
                Err(_) => Err(StreamLoss::Cut),
            },
            Incoming::Ssh { reader, .. } => match reader.next().await {
                Ok(Some(message)) => Ok(message),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    Err(StreamLoss::Fatal(broken()))
                }
                Ok(None) | Err(_) => Err(StreamLoss::Cut),
            },
        }
    }
}

impl Outgoing {
    async fn send(&mut self, message: ClientMessage) -> io::Result<()> {
        match self {
            Outgoing::Egg(writer) => writer.send(&ToEgg::Client(message)).await,
            Outgoing::Ssh(writer) => writer.send(&message).await,
            Outgoing::Sealed(sender) => {
                let bytes = codec::encode(&message, MAX_MESSAGE).map_err(io::Error::other)?;
                sender
                    .send(bytes, Fill::Bucket)
                    .await
                    .map_err(io::Error::other)
            }
        }
    }
}

/// Leaves for good. The session forgets this attachment.
async fn goodbye(incoming: Incoming, mut outgoing: Outgoing) -> End {
    if let Incoming::Ssh { mut reader, ssh } = incoming {
        let saying = async {
            outgoing.send(ClientMessage::Detach).await?;
            // Its input ends, so the other end does, and what it still says is for nobody.
            drop(outgoing);
            while reader.next::<WingMessage>().await?.is_some() {}
            io::Result::Ok(())
        };
        if timeout(SSH_GOODBYE, saying).await.is_ok() {
            return End::Detached;
        }
        ssh.kill();
        return End::Unheard;
    }
    let saying = async {
        // A session that cannot be told finds out by itself.
        let _ = outgoing.send(ClientMessage::Detach).await;
        if let Outgoing::Sealed(sender) = outgoing {
            sender.close(Close::Done).await;
        }
    };
    let _ = timeout(GOODBYE_DEADLINE, saying).await;
    End::Detached
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_protocol::SessionId;

    use super::*;

    const EPOCH: EggEpoch = EggEpoch::from_bytes([1; 16]);

    fn attached(history: History, applied: u64, output: u64) -> WingMessage {
        WingMessage::Attached(Attached {
            session: SessionId::from_random([0; 8]),
            name: "work".into(),
            epoch: EPOCH,
            history,
            applied,
            output,
            size: Winsize::DEFAULT,
            writer: true,
        })
    }

    fn output(offset: u64, applied: u64, bytes: &[u8]) -> WingMessage {
        WingMessage::Output {
            offset,
            applied,
            bytes: bytes.to_vec(),
        }
    }

    fn place() -> Place {
        let mut place = Place::new(AttachmentId::from_bytes([2; 16]));
        place.take(attached(History::Fresh, 0, 100)).unwrap();
        place
    }

    #[test]
    fn input_keeps_within_the_window_until_it_is_applied() {
        let mut place = place();
        place.typed(&vec![7; INPUT_WINDOW as usize + 5]);

        let mut sent = 0;
        while let Some((offset, bytes)) = place.next_input() {
            assert_eq!(offset, sent);
            sent += bytes.len() as u64;
        }
        assert_eq!(sent, INPUT_WINDOW);

        place.take(output(100, 3, b"")).unwrap();
        assert_eq!(place.next_input(), Some((INPUT_WINDOW, vec![7; 3])));
        assert_eq!(place.next_input(), None);
    }

    #[test]
    fn after_a_cut_what_was_not_applied_is_sent_again() {
        let mut place = place();
        place.typed(b"abcdef");
        assert!(place.next_input().is_some());
        place.take(output(100, 2, b"ab")).unwrap();
        place.typed(b"gh");

        assert_eq!(
            place.resume(),
            Some(Resume {
                epoch: EPOCH,
                next: 8,
                acked: 2,
                have: 102
            })
        );
        place.take(attached(History::Continued, 4, 102)).unwrap();

        assert_eq!(place.next_input(), Some((4, b"efgh".to_vec())));
    }

    #[test]
    fn input_under_way_is_not_sent_to_another_life_of_the_session() {
        let mut place = place();
        place.typed(b"rm x");
        assert!(place.next_input().is_some());

        let taken = place.take(attached(History::Differs, 0, 500)).unwrap();

        let Taken::Event(Event::Attached { undelivered, .. }) = taken else {
            panic!("{taken:?}")
        };
        assert_eq!(undelivered, b"rm x");
        assert_eq!(place.next_input(), None);
        place.typed(b"y");
        assert_eq!(place.next_input(), Some((0, b"y".to_vec())));
    }

    #[test]
    fn input_that_was_held_for_too_long_is_given_back_and_never_sent() {
        let mut place = place();
        place.typed(b"rm x");
        assert!(place.next_input().is_some());
        place.take(output(100, 1, b"r")).unwrap();
        place.typed(b"; ls");

        let refused = place.give_up(AttachmentId::from_bytes([3; 16]));

        assert_eq!(refused, b"m x; ls");
        // The session may have more than it said: a new attachment takes no part in that.
        assert_eq!(place.attachment, AttachmentId::from_bytes([3; 16]));
        assert_eq!(place.resume(), None);
        place.take(attached(History::Fresh, 0, 500)).unwrap();
        assert!(!place.refuses);
        assert_eq!(place.next_input(), None);
        place.typed(b"y");
        assert_eq!(place.next_input(), Some((0, b"y".to_vec())));
    }

    #[test]
    fn with_nothing_held_the_attachment_goes_on_after_any_time() {
        let mut place = place();
        place.typed(b"ab");
        assert!(place.next_input().is_some());
        place.take(output(100, 2, b"ab")).unwrap();
        let resume = place.resume();

        assert_eq!(place.give_up(AttachmentId::from_bytes([3; 16])), b"");

        assert!(place.refuses);
        assert_eq!(place.resume(), resume);
        assert_eq!(place.attachment, AttachmentId::from_bytes([2; 16]));
    }

    #[test]
    fn a_paste_whose_rest_is_refused_is_ended() {
        let mut place = place();
        place.typed(b"\x1b[200~half");
        assert!(place.next_input().is_some());
        place.take(output(100, 10, b"")).unwrap();
        place.typed(b" rest\x1b[201~");

        assert_eq!(
            place.give_up(AttachmentId::from_bytes([3; 16])),
            b" rest\x1b[201~"
        );

        place.take(attached(History::Fresh, 0, 500)).unwrap();
        assert_eq!(place.next_input(), Some((0, PASTE_END.to_vec())));
        let mut whole = self::place();
        whole.typed(b"\x1b[200~all\x1b[201~");
        whole.give_up(AttachmentId::from_bytes([3; 16]));
        assert_eq!(whole.next_input(), None);
    }

    #[test]
    fn input_that_was_not_sent_when_its_user_left_is_told_of() {
        let mut place = place();
        place.typed(&vec![7; INPUT_WINDOW as usize + 5]);
        while place.next_input().is_some() {}

        assert_eq!(place.unsent(), [7; 5]);
    }

    #[test]
    fn output_out_of_its_place_is_refused() {
        let mut place = place();

        assert!(place.take(output(101, 0, b"x")).is_err());
        assert!(
            place.take(output(100, 1, b"x")).is_err(),
            "more applied than was sent"
        );
        assert_eq!(
            self::place().take(output(100, 0, b"x")).unwrap(),
            Taken::Event(Event::Output(b"x".to_vec()))
        );
    }

    #[test]
    fn a_snapshot_comes_whole() {
        let mut place = place();

        let part = |last, bytes: &[u8]| WingMessage::Snapshot {
            last,
            bytes: bytes.to_vec(),
        };
        assert_eq!(place.take(part(false, b"ab")).unwrap(), Taken::Nothing);
        assert_eq!(
            place.take(part(true, b"c")).unwrap(),
            Taken::Event(Event::Repaint(b"abc".to_vec()))
        );
    }
}

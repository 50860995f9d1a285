//! A connection to an egg, as the wing and the command line make it.

use std::io;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::timeout;
use wt_protocol::limits::MAX_WAIT_MS;
use wt_protocol::local::{EggStatus, FromEgg, LOCAL_VERSION, LocalHello, ToEgg};
use wt_protocol::rpc::{
    Failure, FailureKind, Principal, ScreenText, SendPart, Sent, WaitFor, Waited,
};
use wt_protocol::session::Winsize;

use crate::dir::EggDir;
use crate::wire::{self, MessageReader, MessageWriter};

/// How long an egg may take to answer. It answers from memory, so a longer silence means
/// that it is stopped or stuck.
const ANSWER_DEADLINE: Duration = Duration::from_secs(4);

/// How long an egg may take to end its tree: its own grace and kill time, and some room.
const KILL_DEADLINE: Duration = Duration::from_secs(12);

/// How long a program may take to read one request's input before whoever sends it is told.
const SEND_DEADLINE: Duration = Duration::from_secs(25);

/// An open connection to an egg, past the hello.
#[derive(Debug)]
pub struct EggClient {
    /// What the egg says.
    pub reader: MessageReader,
    /// What is said to it.
    pub writer: MessageWriter,
}

impl EggClient {
    /// Connects to the egg of a session, on somebody's behalf.
    ///
    /// # Errors
    /// [`FailureKind::Unreachable`] when the egg does not answer in time, or is gone.
    pub async fn connect(dir: &EggDir, principal: Principal) -> Result<Self, Failure> {
        let key = dir
            .key()
            .map_err(|e| Failure::new(FailureKind::Failed, e.to_string()))?;
        let opening = async {
            let socket = UnixStream::connect(dir.socket()).await?;
            let (reader, writer) = wire::split(socket)?;
            let mut client = Self { reader, writer };
            let hello = LocalHello {
                version: LOCAL_VERSION,
                key,
                principal,
            };
            client.writer.send(&ToEgg::Hello(hello)).await?;
            let answer = client.reader.next::<FromEgg>().await?;
            Ok::<_, io::Error>((client, answer))
        };
        match timeout(ANSWER_DEADLINE, opening).await {
            Err(_) => Err(not_responding()),
            Ok(Err(error)) => Err(gone(&error)),
            Ok(Ok((client, Some(FromEgg::Welcome { .. })))) => Ok(client),
            Ok(Ok((_, Some(FromEgg::Failed(failure))))) => Err(failure),
            Ok(Ok(_)) => Err(unexpected()),
        }
    }

    /// Asks for the session's state.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn status(&mut self) -> Result<EggStatus, Failure> {
        match self.ask(&ToEgg::Status, ANSWER_DEADLINE).await? {
            FromEgg::Status(status) => Ok(*status),
            _ => Err(unexpected()),
        }
    }

    /// Asks for the screen, with so many lines of scrollback.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn screen(&mut self, scrollback: u32) -> Result<ScreenText, Failure> {
        match self
            .ask(&ToEgg::Screen { scrollback }, ANSWER_DEADLINE)
            .await?
        {
            FromEgg::Screen(screen) => Ok(screen),
            _ => Err(unexpected()),
        }
    }

    /// Ends the session's whole process tree; returns when it is gone.
    ///
    /// # Errors
    /// As [`Self::connect`], or when something in the tree would not end.
    pub async fn kill(&mut self) -> Result<(), Failure> {
        self.ask(&ToEgg::Kill, KILL_DEADLINE).await.map(drop)
    }

    /// Gives the session another name. The caller holds the lock on names.
    ///
    /// # Errors
    /// As [`Self::connect`], or when the name could not be stored.
    pub async fn rename(&mut self, name: &str) -> Result<(), Failure> {
        self.ask(
            &ToEgg::Rename {
                name: name.to_owned(),
            },
            ANSWER_DEADLINE,
        )
        .await
        .map(drop)
    }

    /// Types into the terminal; returns when it was taken.
    ///
    /// # Errors
    /// As [`Self::connect`], or why it was not typed.
    pub async fn send(&mut self, parts: Vec<SendPart>) -> Result<Sent, Failure> {
        match self.ask(&ToEgg::Send { parts }, SEND_DEADLINE).await? {
            FromEgg::Sent(sent) => Ok(sent),
            _ => Err(unexpected()),
        }
    }

    /// Waits as asked; the wait has its own end.
    ///
    /// # Errors
    /// As [`Self::connect`], or a pattern that is none.
    pub async fn wait(&mut self, wait: &WaitFor) -> Result<Waited, Failure> {
        let timeout_ms = wait.timeout_ms.min(MAX_WAIT_MS);
        let message = ToEgg::Wait {
            until: wait.until.clone(),
            from: wait.from,
            timeout_ms,
        };
        let deadline = Duration::from_millis(timeout_ms.into()) + ANSWER_DEADLINE;
        match self.ask(&message, deadline).await? {
            FromEgg::Waited(waited) => Ok(waited),
            _ => Err(unexpected()),
        }
    }

    /// Signals the program in the foreground.
    ///
    /// # Errors
    /// As [`Self::connect`], or why it was not signalled.
    pub async fn signal(&mut self, signal: i32) -> Result<(), Failure> {
        self.ask(&ToEgg::Signal(signal), ANSWER_DEADLINE)
            .await
            .map(drop)
    }

    /// Gives the terminal another size while nobody is attached.
    ///
    /// # Errors
    /// As [`Self::connect`], or that somebody is attached.
    pub async fn resize(&mut self, size: Winsize) -> Result<(), Failure> {
        self.ask(&ToEgg::Resize(size), ANSWER_DEADLINE)
            .await
            .map(drop)
    }

    async fn ask(&mut self, message: &ToEgg, deadline: Duration) -> Result<FromEgg, Failure> {
        let asking = async {
            self.writer.send(message).await?;
            self.reader.next::<FromEgg>().await
        };
        match timeout(deadline, asking).await {
            Err(_) => Err(not_responding()),
            Ok(Err(error)) => Err(gone(&error)),
            Ok(Ok(None)) => Err(gone(&io::ErrorKind::UnexpectedEof.into())),
            Ok(Ok(Some(FromEgg::Failed(failure)))) => Err(failure),
            Ok(Ok(Some(answer))) => Ok(answer),
        }
    }
}

fn not_responding() -> Failure {
    Failure::new(
        FailureKind::Unreachable,
        "the session's process is not responding",
    )
    .hint("end it with `wt session kill NAME`")
}

fn gone(error: &io::Error) -> Failure {
    Failure::new(
        FailureKind::Unreachable,
        format!("the session's process cannot be reached: {error}"),
    )
}

fn unexpected() -> Failure {
    Failure::new(
        FailureKind::Failed,
        "the session's process gave an answer that does not fit",
    )
}

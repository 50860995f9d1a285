//! Serving one client over standard input and output: the far end of `--remote`.
//!
//! Whoever can start this program through a remote shell is this user already, so there
//! is nothing to admit and nothing to seal: that was the shell's carrier's work. It ends
//! with its standard input.

use std::io::{self, stdin, stdout};
use std::os::fd::AsFd;

use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use wt_egg::wire::{MessageReader, MessageWriter};
use wt_protocol::Close;
use wt_protocol::remote::{SERVE_VERSION, SYNC_MARK, ServeHello};
use wt_protocol::rpc::{Failure, FailureKind, Response};
use wt_protocol::session::{Call, WingMessage};

use crate::config::WingConfig;
use crate::error::Error;
use crate::profile::{self, Profile};
use crate::service::{self, Heard, Hears, Host, Lost, Says};
use crate::sessions::Sessions;

/// The hidden command by which this program serves a remote shell's user.
pub const SERVE_COMMAND: &str = "__serve";

/// Serves the sessions of a profile to whoever holds this process's standard input and
/// output, until the input ends.
///
/// # Errors
/// A broken output.
pub async fn serve(profile: &Profile) -> Result<(), Error> {
    let login = Login {
        profile: profile.clone(),
        sessions: profile.sessions_at_this_terminal(),
    };
    match converse(&login).await {
        Ok(()) => Ok(()),
        Err(lost) => Err(Error::failed(lost)),
    }
}

async fn converse(login: &Login) -> Result<(), Lost> {
    let mut output = file(&stdout())?;
    output.write_all(&SYNC_MARK).await?;
    let mut to_client = MessageWriter::new(output);
    let hello = ServeHello {
        oldest: SERVE_VERSION,
        newest: SERVE_VERSION,
        program: crate::VERSION.to_owned(),
    };
    to_client.send(&hello).await?;
    let mut from_client = MessageReader::new(file(&stdin())?);
    let first = from_client.hear().await?;
    if service::converse(login, first, from_client, &mut to_client).await? == Close::Protocol {
        let failure = Failure::new(
            FailureKind::Failed,
            format!(
                "wingthing {} there does not understand what it was asked",
                crate::VERSION
            ),
        )
        .hint("install the same version of wingthing on both machines");
        to_client.say(&WingMessage::Refused(failure)).await?;
    }
    Ok(())
}

/// A standard stream without the buffer and the lock of the standard library.
fn file(stream: &impl AsFd) -> io::Result<File> {
    let stream = stream.as_fd().try_clone_to_owned()?;
    Ok(File::from_std(stream.into()))
}

/// The user who logged in.
struct Login {
    profile: Profile,
    sessions: Sessions,
}

impl Host for Login {
    fn sessions(&self) -> Sessions {
        self.sessions.clone()
    }

    fn may_act(&self) -> bool {
        true
    }

    async fn call(&self, call: Call) -> Result<Response, Failure> {
        // With the environment of this very process: what the remote shell gave.
        let terms = || {
            let config = WingConfig::read(&self.profile).map_err(Failure::from)?;
            Ok(config.terms_of_remote_shell(profile::variables()))
        };
        self.sessions.answer(call.request, terms).await
    }
}

impl Hears for MessageReader<File> {
    async fn hear(&mut self) -> Result<Heard, Lost> {
        match self.next().await {
            Ok(Some(message)) => Ok(Heard::Message(message)),
            Ok(None) => Ok(Heard::Gone),
            Err(error) => match error.kind() {
                io::ErrorKind::InvalidData => Ok(Heard::Nonsense),
                // Cut within a message: its sender was.
                io::ErrorKind::UnexpectedEof => Ok(Heard::Gone),
                _ => Err(error.into()),
            },
        }
    }

    /// A pipe that nobody reads shows when it is written; the input ends with it.
    fn deafness(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

impl Says for MessageWriter<File> {
    async fn say(&mut self, message: &WingMessage) -> Result<(), Lost> {
        Ok(self.send(message).await?)
    }
}

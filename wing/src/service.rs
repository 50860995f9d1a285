//! What is done for one client, whatever carries its messages: a sealed route through a
//! relay, or the pipes of a remote shell.
//!
//! The transports differ in how messages come and go ([`Hears`], [`Says`]); the hosts
//! differ in whom they serve and what that client may do ([`Host`]). The conversation
//! itself is here, once.

use std::future::Future;
use std::io;

use tokio::sync::mpsc;
use wt_egg::EggClient;
use wt_egg::wire;
use wt_protocol::Close;
use wt_protocol::local::{FromEgg, ToEgg};
use wt_protocol::rpc::{Failure, FailureKind, Response};
use wt_protocol::session::{Attach, Call, ClientMessage, Reply, WingMessage};

use crate::sealed::SealedEnd;
use crate::sessions::Sessions;

/// Events that may wait for one client that watches.
const WAITING_EVENTS: usize = 64;

/// Why a conversation broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// A sealed route ended.
    #[error(transparent)]
    Sealed(#[from] SealedEnd),
    /// A pipe ended.
    #[error(transparent)]
    Pipe(#[from] io::Error),
}

/// What came from a client.
pub(crate) enum Heard {
    /// A message.
    Message(ClientMessage),
    /// Something that is no message of this version.
    Nonsense,
    /// The client is done with the stream, and not with its attachment.
    Gone,
}

/// Where a client's messages come from.
pub(crate) trait Hears {
    /// The next message. Cancel safe.
    fn hear(&mut self) -> impl Future<Output = Result<Heard, Lost>> + Send;

    /// Waits until nothing can be said to the client any more, as far as that shows.
    fn deafness(&self) -> impl Future<Output = ()> + Send + 'static;
}

/// Where messages for a client go.
pub(crate) trait Says {
    /// Sends a message. Not cancel safe.
    fn say(&mut self, message: &WingMessage) -> impl Future<Output = Result<(), Lost>> + Send;
}

/// For whom sessions are used, and how.
pub(crate) trait Host {
    /// The sessions, on behalf of the client.
    fn sessions(&self) -> Sessions;

    /// Whether the client may do more than watch.
    fn may_act(&self) -> bool;

    /// Answers one call.
    fn call(&self, call: Call) -> impl Future<Output = Result<Response, Failure>> + Send;
}

/// Serves a client until it is done; gives the reason for the end.
pub(crate) async fn converse(
    host: &impl Host,
    first: Heard,
    mut from_client: impl Hears,
    to_client: &mut impl Says,
) -> Result<Close, Lost> {
    let mut heard = first;
    loop {
        match heard {
            Heard::Message(ClientMessage::Call(call)) => {
                let reply = Reply {
                    id: call.id,
                    result: host.call(call).await,
                };
                to_client.say(&WingMessage::Reply(reply)).await?;
            }
            Heard::Message(ClientMessage::Attach(request)) => {
                return attach(host, request, from_client, to_client).await;
            }
            Heard::Message(ClientMessage::Watch { session }) => {
                return watch(host, session, from_client, to_client).await;
            }
            Heard::Message(
                ClientMessage::Input { .. }
                | ClientMessage::Resize(_)
                | ClientMessage::Detach
                | ClientMessage::Access(_),
            )
            | Heard::Nonsense => return Ok(Close::Protocol),
            Heard::Gone => return Ok(Close::Done),
        }
        heard = from_client.hear().await?;
    }
}

/// Tells the client what happens to sessions, until it leaves.
async fn watch(
    host: &impl Host,
    session: Option<String>,
    mut from_client: impl Hears,
    to_client: &mut impl Says,
) -> Result<Close, Lost> {
    let sessions = host.sessions();
    let (events, mut happened) = mpsc::channel(WAITING_EVENTS);
    let watching = sessions.watch(session, events);
    tokio::pin!(watching);
    loop {
        tokio::select! {
            // What happened before the end is told before the end.
            biased;
            Some(event) = happened.recv() => to_client.say(&WingMessage::Event(event)).await?,
            ended = &mut watching => {
                if let Err(failure) = ended {
                    to_client.say(&WingMessage::Refused(failure)).await?;
                }
                while let Ok(event) = happened.try_recv() {
                    to_client.say(&WingMessage::Event(event)).await?;
                }
                return Ok(Close::Done);
            }
            heard = from_client.hear() => return match heard? {
                Heard::Message(_) | Heard::Nonsense => Ok(Close::Protocol),
                Heard::Gone => Ok(Close::Done),
            },
        }
    }
}

async fn attach(
    host: &impl Host,
    request: Attach,
    from_client: impl Hears,
    to_client: &mut impl Says,
) -> Result<Close, Lost> {
    let request = Attach {
        read_only: request.read_only || !host.may_act(),
        ..request
    };
    let mut egg = match host.sessions().open(&request.session).await {
        Ok((egg, _)) => egg,
        Err(failure) => {
            to_client.say(&WingMessage::Refused(failure)).await?;
            return Ok(Close::Done);
        }
    };
    let request = ToEgg::Client(ClientMessage::Attach(request));
    if egg.writer.send(&request).await.is_err() {
        to_client.say(&WingMessage::Refused(process_gone())).await?;
        return Ok(Close::Done);
    }
    let EggClient {
        reader: from_egg,
        writer: to_egg,
    } = egg;
    let deaf = from_client.deafness();
    tokio::select! {
        // Each direction goes on until it ends; neither is cut within a message.
        end = up(from_client, to_egg) => end,
        end = down(from_egg, to_client) => end,
        () = deaf => Err(Lost::Sealed(SealedEnd::LinkLost)),
    }
}

/// From the client to the egg.
async fn up(mut from_client: impl Hears, mut to_egg: wire::MessageWriter) -> Result<Close, Lost> {
    loop {
        match from_client.hear().await? {
            Heard::Gone => return Ok(Close::Done),
            Heard::Message(
                ClientMessage::Call(_)
                | ClientMessage::Attach(_)
                | ClientMessage::Watch { .. }
                | ClientMessage::Access(_),
            )
            | Heard::Nonsense => return Ok(Close::Protocol),
            Heard::Message(message) => {
                if to_egg.send(&ToEgg::Client(message)).await.is_err() {
                    // The egg's last words are still on their way down.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// From the egg to the client.
async fn down(mut from_egg: wire::MessageReader, to_client: &mut impl Says) -> Result<Close, Lost> {
    let mut close = None;
    loop {
        match from_egg.next::<FromEgg>().await {
            Ok(Some(FromEgg::Wing(message))) => {
                match &message {
                    WingMessage::Exited(_) => close = Some(Close::Done),
                    WingMessage::Replaced => close = Some(Close::Replaced),
                    _ => {}
                }
                to_client.say(&message).await?;
            }
            Ok(Some(_)) => return Ok(Close::Protocol),
            Ok(None) | Err(_) => {
                if let Some(close) = close {
                    return Ok(close);
                }
                to_client.say(&WingMessage::Refused(process_gone())).await?;
                return Ok(Close::Done);
            }
        }
    }
}

fn process_gone() -> Failure {
    Failure::new(FailureKind::Unreachable, "the session's process is gone")
        .hint("its last screen is in `wt session read NAME`")
}

//! `wt session watch`: tells what happens to sessions, as it happens.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use wt_protocol::rpc::{SessionChange, SessionEvent};
use wt_wing::Error;
use wt_wing::profile::Profile;

use crate::error::{Done, Stop};
use crate::output::{Output, plain};
use crate::place::{Place, Where};
use crate::views::{ExitView, how_it_ended, timestamp};

/// Events that wait for stdout.
const WAITING: usize = 64;

/// What SIGINT ends a program with.
const INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "Examples:
  wt session watch
  wt session watch work --json --wing desk";

/// Tell what happens to sessions, one line for each event
///
/// Events: started, attached, detached, attention (a bell, a notification, or a prompt),
/// title, renamed, exit, lost. Sessions that live already begin with started. With a name
/// it ends with that session, else it goes on until it is interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only this session: its name, id, or a unique prefix of its id
    name: Option<String>,
    #[command(flatten)]
    whereabouts: Where,
}

/// An event as users see it.
#[derive(Serialize)]
struct EventView {
    event: &'static str,
    id: String,
    name: String,
    at: Option<String>,
    #[serde(flatten)]
    fields: Fields,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Fields {
    None {},
    Clients { clients: u32 },
    Attention { kind: String, text: Option<String> },
    Title { title: String },
    Exit { exit: ExitView },
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|e| Error::failed(format!("cannot wait for signals: {e}")))?;
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let (tell, mut events) = mpsc::channel(WAITING);
    let mut reader_left = stdout_closed()?;
    let watching = place.watch(args.name, tell);
    tokio::pin!(watching);
    let mut ended = None;
    loop {
        tokio::select! {
            biased;
            event = events.recv() => match (event, &ended) {
                (Some(event), _) => show(event, output)?,
                // All that was told before the end is shown.
                (None, Some(Ok(()))) => return Ok(0),
                (None, _) => {
                    let ended: Result<(), Error> = match ended {
                        Some(ended) => ended,
                        None => watching.await,
                    };
                    ended?;
                    return Ok(0);
                }
            },
            result = &mut watching, if ended.is_none() => ended = Some(result),
            _ = interrupt.recv() => return Ok(INTERRUPTED),
            Ok(()) = &mut reader_left => return Err(Stop::StdoutClosed),
        }
    }
}

fn show(event: SessionEvent, output: Output) -> Result<(), Stop> {
    let text = line(&event);
    output.answer(&EventView::from(event), || text)
}

/// Tells when whoever read stdout is gone, so that a quiet watch does not outlive it. A
/// thread waits, because not everything that stdout may be can be waited for otherwise.
fn stdout_closed() -> Result<oneshot::Receiver<()>, Error> {
    let (tell, closed) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdout".to_owned())
        .spawn(move || {
            let stdout = io::stdout();
            // No events are asked for: errors and hang-ups are told of all the same.
            let mut asked = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
            loop {
                match poll(&mut asked, PollTimeout::NONE) {
                    Err(Errno::EINTR) => {}
                    Ok(_) => break,
                    // Then a write will tell.
                    Err(_) => return std::mem::forget(tell),
                }
            }
            let _ = tell.send(());
        })
        .map_err(|e| Error::failed(format!("cannot start a thread: {e}")))?;
    Ok(closed)
}

impl From<SessionEvent> for EventView {
    fn from(event: SessionEvent) -> Self {
        let (word, fields) = match event.what {
            SessionChange::Started => ("started", Fields::None {}),
            SessionChange::Attached(clients) => ("attached", Fields::Clients { clients }),
            SessionChange::Detached(clients) => ("detached", Fields::Clients { clients }),
            SessionChange::Attention { kind, text } => {
                ("attention", Fields::Attention { kind, text })
            }
            SessionChange::Title(title) => ("title", Fields::Title { title }),
            SessionChange::Renamed => ("renamed", Fields::None {}),
            SessionChange::Exited(exit) => ("exit", Fields::Exit { exit: exit.into() }),
            SessionChange::Lost => ("lost", Fields::None {}),
        };
        Self {
            event: word,
            id: event.id,
            name: event.name,
            at: timestamp(event.at_ms),
            fields,
        }
    }
}

/// An event in one short line.
fn line(event: &SessionEvent) -> String {
    let what = match &event.what {
        SessionChange::Started => "is there".to_owned(),
        SessionChange::Attached(clients) => format!("was attached to; clients: {clients}"),
        SessionChange::Detached(clients) => format!("was left; clients: {clients}"),
        SessionChange::Attention { kind, text } => match text {
            Some(text) => format!("wants attention ({}): {}", plain(kind), plain(text)),
            None => format!("wants attention ({})", plain(kind)),
        },
        SessionChange::Title(title) => format!("has the title {}", plain(title)),
        SessionChange::Renamed => "has this name".to_owned(),
        SessionChange::Exited(exit) => how_it_ended(exit),
        SessionChange::Lost => "is lost".to_owned(),
    };
    let at = timestamp(event.at_ms).unwrap_or_else(|| "-".to_owned());
    format!("{at} {} ({}) {what}", plain(&event.name), plain(&event.id))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_protocol::session::Exit;

    use super::*;

    fn event(what: SessionChange) -> SessionEvent {
        SessionEvent {
            id: "abcdefghijkl".to_owned(),
            name: "work".to_owned(),
            at_ms: 1_800_000_000_123,
            what,
        }
    }

    #[test]
    fn events_have_these_documents_and_lines() {
        let exit = Exit {
            code: Some(7),
            signal: None,
            at_ms: 1_800_000_000_000,
        };
        let events = [
            SessionChange::Started,
            SessionChange::Attached(2),
            SessionChange::Detached(0),
            SessionChange::Attention {
                kind: "notify".to_owned(),
                text: Some("done\x1b[2J".to_owned()),
            },
            SessionChange::Title("vim".to_owned()),
            SessionChange::Renamed,
            SessionChange::Exited(exit),
            SessionChange::Lost,
        ];
        let shown: Vec<String> = events
            .map(event)
            .into_iter()
            .map(|event| {
                let text = line(&event);
                format!(
                    "{}\n{text}",
                    serde_json::to_string(&EventView::from(event)).unwrap()
                )
            })
            .collect();

        insta::assert_snapshot!(shown.join("\n"));
    }
}

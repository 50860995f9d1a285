//! `wt session send`: types into a session.

use std::io::{self, Read};

use serde::Serialize;
use wt_protocol::limits::MAX_SEND;
use wt_protocol::rpc::{SendInput, SendPart, Sent};
use wt_wing::Error;
use wt_wing::profile::Profile;

use crate::error::{Done, Stop, usage};
use crate::output::Output;
use crate::place::{Place, Where};

const EXAMPLES: &str = "Examples:
  wt session send work 'make test' --enter
  wt session send work --key C-c
  wt session send work --stdin < notes.txt
  wt session send work -- '--help'";

/// Type into a session, without attaching to it
///
/// Text is typed as a person would type it. Text of several lines is pasted, if the program
/// takes bracketed pastes, so that its line breaks do not submit it; otherwise each line
/// break is an Enter. Enter is sent only with --enter or --key Enter.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    /// What to type; put -- before text that begins with a dash
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Type what comes on standard input, byte for byte
    #[arg(long, conflicts_with = "text")]
    stdin: bool,
    /// Send the text as a paste: bracketed if the program asked for that
    #[arg(long)]
    paste: bool,
    /// Press a key, as Enter, Up, F5, C-c or M-x, after the text; may be given many times
    #[arg(short, long, value_name = "KEY")]
    key: Vec<String>,
    /// Press Enter at the end
    #[arg(short, long)]
    enter: bool,
    #[command(flatten)]
    whereabouts: Where,
}

#[derive(Serialize)]
struct SentView {
    id: String,
    bytes: u64,
    offset: u64,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    if args.text.is_none() && !args.stdin && args.key.is_empty() && !args.enter {
        return Err(Stop::Error(usage(
            "there is nothing to send: give TEXT, --stdin, --key or --enter",
        )));
    }
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let mut sending = Sending {
        place,
        session: args.name,
        total: None,
    };
    if args.stdin && !args.paste {
        sending.stdin().await?;
    }
    let mut parts = Vec::new();
    if args.stdin && args.paste {
        parts.push(SendPart::Paste(read_text()?));
    }
    if let Some(text) = args.text {
        parts.push(if args.paste {
            SendPart::Paste(text)
        } else {
            SendPart::Text(text)
        });
    }
    parts.extend(args.key.into_iter().map(SendPart::Key));
    if args.enter {
        parts.push(SendPart::Key("Enter".to_owned()));
    }
    if !parts.is_empty() {
        sending.send(parts).await?;
    }
    let Some(total) = sending.total else {
        // An empty input is typed as what it is.
        let sent = sending.send(Vec::new()).await?;
        return answer(output, sent);
    };
    answer(output, total)
}

fn answer(output: Output, sent: Sent) -> Done {
    let bytes = sent.bytes;
    output.answer(
        &SentView {
            id: sent.id,
            bytes: sent.bytes,
            offset: sent.offset,
        },
        || format!("sent {bytes} bytes"),
    )?;
    Ok(0)
}

/// Input on its way, in requests of a bounded size.
struct Sending {
    place: Place,
    session: String,
    /// What was sent in all; the offset is that before the first byte.
    total: Option<Sent>,
}

impl Sending {
    async fn send(&mut self, parts: Vec<SendPart>) -> Result<Sent, Error> {
        let sent = self
            .place
            .send(SendInput {
                session: self.session.clone(),
                parts,
            })
            .await?;
        let total = match self.total.take() {
            None => sent,
            Some(before) => Sent {
                bytes: before.bytes + sent.bytes,
                ..before
            },
        };
        self.total = Some(total.clone());
        Ok(total)
    }

    async fn stdin(&mut self) -> Result<(), Stop> {
        loop {
            let reading = tokio::task::spawn_blocking(|| {
                let mut bytes = Vec::new();
                io::stdin()
                    .take(MAX_SEND as u64)
                    .read_to_end(&mut bytes)
                    .map(|_| bytes)
            });
            let bytes = reading
                .await
                .map_err(Error::failed)?
                .map_err(|e| Error::failed(format!("standard input cannot be read: {e}")))?;
            if bytes.is_empty() {
                return Ok(());
            }
            self.send(vec![SendPart::Raw(bytes)]).await?;
        }
    }
}

fn read_text() -> Result<String, Error> {
    let mut text = String::new();
    io::stdin()
        .take(MAX_SEND as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|e| Error::failed(format!("standard input is no text to paste: {e}")))?;
    Ok(text)
}

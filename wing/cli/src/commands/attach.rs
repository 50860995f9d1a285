//! `wt attach`: shows a session in this terminal.

use std::time::Duration;

use tokio::time::timeout;
use wt_protocol::rpc::{SessionRecord, SessionStatus};
use wt_protocol::session::Exit;
use wt_wing::attach::{End, Options};
use wt_wing::config::{Clipboard, PrefixKey, WingConfig};
use wt_wing::profile::Profile;
use wt_wing::{Error, ErrorCode};

use super::session::ps;
use crate::error::{Done, Stop, say, usage};
use crate::nested;
use crate::output::{Output, plain, stdout_failed};
use crate::place::{Place, Where};
use crate::tty;
use crate::tty::attach::{Ending, Manner, Story};
use crate::tty::select::Selected;
use crate::views::how_it_ended;

const EXAMPLES: &str = "Examples:
  wt attach work
  wt attach --select
  wt attach work --read-only --wing desk
  wt attach work --remote box";

/// Show a session in this terminal; without a name, list the living ones
///
/// Ctrl+B Q leaves the session, which goes on. Ctrl+B Ctrl+B sends one Ctrl+B. A lost link
/// is made again by itself. Ends with the status of the session's program, or 0 after
/// leaving; SIGHUP and SIGTERM leave as well and end with 128 and their number. Inside a
/// session it is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: Option<String>,
    /// Choose one of the living sessions, with a look at each
    #[arg(long, conflicts_with = "name")]
    select: bool,
    /// Only watch
    #[arg(long, conflicts_with = "takeover")]
    read_only: bool,
    /// Take the right to type from whoever has it
    #[arg(long)]
    takeover: bool,
    #[command(flatten)]
    manners: Manners,
    #[command(flatten)]
    whereabouts: Where,
}

/// How long the end of a session waits for what it left.
const LAST_NOTES: Duration = Duration::from_secs(5);

/// How many sentences of that are told; the record has all.
const MAX_LAST_NOTES: usize = 20;

/// How this terminal shows a session
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Manners {
    /// The key before Q, instead of Ctrl+B: C-a to C-z, C-\, or none [default: wing.yaml's]
    #[arg(long, value_name = "KEY")]
    prefix: Option<PrefixKey>,
    /// What programs may do to the clipboard: off, copy or copy-and-clear [default: wing.yaml's,
    /// else copy]
    #[arg(long, value_name = "POLICY")]
    clipboard: Option<Clipboard>,
}

impl Manners {
    /// Whether none of it was given.
    pub(super) fn says_nothing(&self) -> bool {
        self.prefix.is_none() && self.clipboard.is_none()
    }

    /// What was given, else what the profile says, else the defaults.
    pub(super) fn choose(&self, profile: &Profile) -> Result<Manner, Error> {
        let configured = WingConfig::read(profile)?;
        Ok(Manner {
            prefix: self.prefix.or(configured.prefix).unwrap_or_default(),
            clipboard: self.clipboard.or(configured.clipboard).unwrap_or_default(),
        })
    }
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let manner = args.manners.choose(&profile)?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let name = if args.select {
        match select(&profile, &place, output).await? {
            Selected::Session(id) => Some(id),
            Selected::Left(status) => return Ok(status),
        }
    } else {
        args.name
    };
    let Some(name) = name else {
        let records = place.list().await?;
        return ps::show(
            records
                .into_iter()
                .filter(|r| r.status.is_living())
                .collect(),
            output,
        );
    };
    let session = place.get_for_attach(&name).await?;
    let shown = plain(&session.name).into_owned();
    if !session.status.is_living() {
        let how = session
            .exit
            .as_ref()
            .map_or_else(|| how_it_is(&session), how_it_ended);
        return Err(Stop::Error(
            Error::failed(format!("the session {shown} {how}"))
                .hint(format!("its last screen is in `wt session read {shown}`")),
        ));
    }
    nested::refuse(&profile, &place, Some(&session)).await?;
    if !tty::is_interactive() {
        return Err(Stop::Error(
            Error::failed("attaching needs a terminal, and stdin is none")
                .hint(format!("to read the screen: wt session read {shown}")),
        ));
    }
    let options = Options {
        size: tty::size(),
        read_only: args.read_only,
        takeover: args.takeover,
    };
    attach(&place, &session, options, manner).await
}

/// Why a session without an end on record cannot be shown.
fn how_it_is(session: &SessionRecord) -> String {
    match session.status {
        SessionStatus::Foreign => "belongs to another host, which shares the profile".to_owned(),
        _ => "is lost".to_owned(),
    }
}

/// Lets the user choose among the living sessions.
async fn select(profile: &Profile, place: &Place, output: Output) -> Result<Selected, Stop> {
    if output.is_json() {
        return Err(Stop::Error(
            usage("--select is for people at a terminal, and --json is for programs")
                .hint("list them with `wt session ps --live --json`"),
        ));
    }
    let mut sessions = place.list().await?;
    sessions.retain(|session| session.status.is_living());
    if sessions.is_empty() {
        return Err(Stop::Error(
            Error::new(ErrorCode::NotFound, "there are no living sessions")
                .hint("start one with `wt terminal`"),
        ));
    }
    nested::refuse(profile, place, None).await?;
    if !tty::is_interactive() {
        return Err(Stop::Error(
            Error::failed("choosing needs a terminal, and stdin is none")
                .hint("list them with `wt session ps --live`"),
        ));
    }
    let selected = Box::pin(tty::select::run(place, sessions)).await;
    Ok(selected.map_err(|e| Error::failed(format!("cannot use this terminal: {e}")))?)
}

/// Attaches this terminal, and says how it ended.
pub(super) async fn attach(
    place: &Place,
    session: &SessionRecord,
    options: Options,
    manner: Manner,
) -> Done {
    let target = place.target(&session.id);
    let (ending, story) = Box::pin(tty::attach::run(target, options, manner))
        .await
        .map_err(|e| Error::failed(format!("cannot use this terminal: {e}")))?;
    let Story {
        name,
        notes,
        is_stalled,
    } = story;
    let name = name.unwrap_or_else(|| session.name.clone());
    let name = plain(&name);
    let tell = |text: &str| {
        if !is_stalled {
            say(&format!("[{text}]"));
        }
    };
    for note in notes {
        tell(&note);
    }
    match ending {
        Ending::Detached | Ending::Attachment(Ok(End::Detached)) => {
            tell(&format!("detached from {name}"));
            Ok(0)
        }
        Ending::Signal(signal) => {
            tell(&format!("detached from {name}"));
            Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        Ending::OutputFailed(error) => {
            tell(&format!("detached from {name}"));
            Err(stdout_failed(error))
        }
        Ending::Attachment(Ok(End::Exited(exit))) => {
            tell(&format!("{name} {}", how_it_ended(&exit)));
            if !is_stalled {
                tell_what_it_left(place, session).await;
            }
            Ok(status_of(&exit))
        }
        Ending::Attachment(Ok(End::Unheard)) => {
            let message = format!("left {name}, and the other end gave no sign that it heard");
            Err(Stop::Error(Error::new(ErrorCode::Unreachable, message)))
        }
        Ending::Attachment(Ok(End::Replaced)) => Err(Stop::Error(Error::new(
            ErrorCode::Failed,
            format!("this terminal's place in {name} was taken by another process"),
        ))),
        Ending::Attachment(Err(error)) => Err(Stop::Error(error)),
    }
}

/// Says what is to be known of a session that ended while it was shown.
async fn tell_what_it_left(place: &Place, session: &SessionRecord) {
    // Its end is told whether or not there is more to say.
    let Ok(Ok(ended)) = timeout(LAST_NOTES, place.get(&session.id)).await else {
        return;
    };
    let is_new = |note: &&String| !session.notes.contains(note);
    let (mut told, mut left) = (0, 0);
    for note in ended.notes.iter().filter(is_new) {
        if told < MAX_LAST_NOTES {
            told += 1;
            say(&format!("note: {}", plain(note)));
        } else {
            left += 1;
        }
    }
    if left > 0 {
        let id = &session.id;
        say(&format!(
            "note: {left} more: wt session ps --json, session {id}"
        ));
    }
}

/// A program's status as this process's own: the low 8 bits, as wait(2) has it.
pub(super) fn status_of(exit: &Exit) -> u8 {
    (exit.status() & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_status_is_passed_on() {
        let of = |code, signal| {
            status_of(&Exit {
                code,
                signal,
                at_ms: 0,
            })
        };

        assert_eq!(
            [of(Some(0), None), of(Some(7), None), of(Some(255), None)],
            [0, 7, 255]
        );
        assert_eq!([of(None, Some(9)), of(None, Some(15))], [137, 143]);
    }
}

//! `wt terminal`: starts a session.

use std::env;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wt_protocol::limits::MAX_RAW_PAGE;
use wt_protocol::rpc::{BoundaryChoice, Conversation, Request, SessionRecord, StartSession};
use wt_wing::Error;
use wt_wing::attach::Options;
use wt_wing::profile::Profile;

use super::attach::{Manners, attach, status_of};
use crate::error::{Done, Stop, say, usage};
use crate::nested;
use crate::output::{Output, plain};
use crate::place::{Place, Where};
use crate::tty;
use crate::tty::attach::Manner;
use crate::views::{SessionView, how_it_ended};

const EXAMPLES: &str = "Examples:
  wt terminal
  wt terminal --name build --detach -- make test
  wt terminal --name work --cwd /srv/app --env MODE=debug --record
  wt terminal --remote box --name work";

/// Start a session with a shell or a command, and show it in this terminal
///
/// Ctrl+B Q leaves the session, which goes on; `wt attach NAME` shows it again. With --json
/// or --detach it starts in the background. Ends with the status of the session's program.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    how: How,
    /// The command and its arguments [default: the login shell]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How a session is started
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// The session's name: 1 to 64 of A-Z a-z 0-9 . _ - [default: made from the command]
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// Where it starts [default: this folder; elsewhere, the choice there]
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Set a variable for it; may be given many times
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Record its output with times, for `wt session play` and `export`
    #[arg(long)]
    record: bool,
    /// Start it in the background
    #[arg(short, long)]
    detach: bool,
    #[command(flatten)]
    boundary: Held,
    #[command(flatten)]
    manners: Manners,
    #[command(flatten)]
    whereabouts: Where,
}

/// What holds a session.
#[derive(Debug, Default, clap::Args)]
struct Held {
    /// Apply this file in place of the egg.yaml of the profile
    #[arg(long, value_name = "FILE", conflicts_with = "unsandboxed")]
    config: Option<PathBuf>,
    /// Log the system calls that the sandbox refuses, in the log of the kernel
    #[arg(long, conflicts_with = "unsandboxed")]
    trace: bool,
    /// No sandbox: this machine, a virtual machine say, is the boundary
    #[arg(long)]
    unsandboxed: bool,
}

impl Held {
    fn choice(self, here: Option<&Path>) -> Result<BoundaryChoice, Error> {
        let config = match self.config {
            Some(file) => choose_cwd(Some(file), here)?,
            None => None,
        };
        Ok(BoundaryChoice {
            unsandboxed: self.unsandboxed,
            config,
            trace: self.trace,
        })
    }
}

impl How {
    /// Whether it is started in this profile.
    pub(super) fn is_here(&self) -> bool {
        self.whereabouts.is_here()
    }

    /// Whether none of it was given.
    pub(super) fn says_nothing(&self) -> bool {
        let Held {
            config,
            trace,
            unsandboxed,
        } = &self.boundary;
        self.name.is_none()
            && self.cwd.is_none()
            && self.env.is_empty()
            && !(self.record || self.detach || *trace || *unsandboxed)
            && config.is_none()
            && self.manners.says_nothing()
            && self.whereabouts.is_here()
    }
}

#[derive(Serialize)]
pub(super) struct One {
    pub(super) session: SessionView,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    start(args.how, None, args.command, None, output).await
}

/// Starts a session: a command, or an agent with these arguments.
pub(super) async fn start(
    args: How,
    agent: Option<String>,
    command: Vec<String>,
    conversation: Option<Conversation>,
    output: Output,
) -> Done {
    let stays = !args.detach && !output.is_json();
    if stays && !tty::is_interactive() {
        return Err(Stop::Error(
            Error::failed("showing the session needs a terminal, and stdin is none")
                .hint("to start it in the background, add --detach"),
        ));
    }
    let profile = Profile::locate()?;
    let manner = args.manners.choose(&profile)?;
    let here = if args.whereabouts.is_here() {
        Some(current_dir()?)
    } else {
        None
    };
    let session = StartSession {
        name: args.name,
        command,
        cwd: choose_cwd(args.cwd, here.as_deref())?,
        env: args.env,
        size: tty::size(),
        agent,
        record: args.record,
    };
    let place = Place::find(&profile, &args.whereabouts).await?;
    if stays {
        nested::refuse(&profile, &place, None).await?;
    }
    let boundary = args.boundary.choice(here.as_deref())?;
    let request = match conversation {
        // What wings of older versions know as well.
        None if boundary == BoundaryChoice::default() => Request::Start(session),
        conversation => Request::StartIn {
            start: session,
            conversation,
            boundary,
        },
    };
    let session = place
        .act(request)
        .await
        .map_err(|error| match args.whereabouts.is_here() {
            true => nested::explain(error),
            false => error,
        })?;
    for note in &session.notes {
        say(&format!("note: {}", plain(note)));
    }
    if stays {
        return show(&place, &session, manner).await;
    }
    let (name, id) = (plain(&session.name).into_owned(), session.id.clone());
    output.answer(
        &One {
            session: session.into(),
        },
        || format!("started {name} ({id})"),
    )?;
    Ok(0)
}

/// Attaches to a session that was just started. A program that has ended already has its
/// output shown all the same.
async fn show(place: &Place, session: &SessionRecord, manner: Manner) -> Done {
    let options = Options {
        size: tty::size(),
        read_only: false,
        takeover: false,
    };
    let stop = match attach(place, session, options, manner).await {
        Err(Stop::Error(error)) => error,
        done => return done,
    };
    let exit = match place.get(&session.id).await {
        Ok(SessionRecord {
            exit: Some(exit), ..
        }) => exit,
        Ok(_) | Err(_) => return Err(Stop::Error(stop)),
    };
    let page = place.output(&session.id, 0, MAX_RAW_PAGE as u32).await?;
    Output::new(false).bytes(&page.bytes)?;
    say(&format!(
        "[{} {}]",
        plain(&session.name),
        how_it_ended(&exit)
    ));
    Ok(status_of(&exit))
}

fn current_dir() -> Result<PathBuf, Error> {
    env::current_dir().map_err(|e| {
        Error::failed(format!("the current folder cannot be used: {e}"))
            .hint("cd somewhere else, or give --cwd DIR")
    })
}

/// Where a session starts: here a relative folder is meant from `here`; elsewhere it is
/// passed on as it is, and may be left out.
fn choose_cwd(given: Option<PathBuf>, here: Option<&Path>) -> Result<Option<String>, Error> {
    let cwd = match (given, here) {
        (Some(given), Some(here)) => here.join(given),
        (Some(given), None) => given,
        (None, Some(here)) => here.to_owned(),
        (None, None) => return Ok(None),
    };
    match cwd.into_os_string().into_string() {
        Ok(cwd) => Ok(Some(cwd)),
        Err(cwd) => Err(usage(format!(
            "the folder {} is not UTF-8",
            Path::new(&cwd).display()
        ))),
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give it as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_session_here_starts_in_this_folder_and_elsewhere_in_the_wings_own() {
        let here = Some(Path::new("/home/ada"));
        let given = |path: &str| Some(PathBuf::from(path));

        assert_eq!(choose_cwd(None, here).unwrap().unwrap(), "/home/ada");
        assert_eq!(
            choose_cwd(given("src"), here).unwrap().unwrap(),
            "/home/ada/src"
        );
        assert_eq!(choose_cwd(given("/srv"), here).unwrap().unwrap(), "/srv");
        assert_eq!(choose_cwd(None, None).unwrap(), None);
        assert_eq!(choose_cwd(given("/srv"), None).unwrap().unwrap(), "/srv");
    }

    #[test]
    fn a_variable_has_a_name_and_may_be_empty_or_hold_equals_signs() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));

        assert_eq!(parse_variable("A=b=c"), pair("A", "b=c"));
        assert_eq!(parse_variable("A="), pair("A", ""));
        assert!(parse_variable("A").is_err());
        assert!(parse_variable("=b").is_err());
    }
}

//! `wt session rename`: gives a session another name.

use wt_protocol::rpc::Request;
use wt_wing::profile::Profile;

use super::super::terminal::One;
use crate::error::Done;
use crate::output::{Output, plain};
use crate::place::{Place, Where};

const EXAMPLES: &str = "Examples:
  wt session rename work build
  wt session rename abcdefghijkl build --remote box";

/// Give a session another name
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    /// Its name from here on: 1 to 64 of A-Z a-z 0-9 . _ -
    #[arg(value_name = "NEW")]
    to: String,
    #[command(flatten)]
    whereabouts: Where,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let session = place
        .act(Request::Rename {
            session: args.name.clone(),
            name: args.to,
        })
        .await?;
    let (name, before) = (
        plain(&session.name).into_owned(),
        plain(&args.name).into_owned(),
    );
    output.answer(
        &One {
            session: session.into(),
        },
        || format!("{before} is called {name}"),
    )?;
    Ok(0)
}

//! `wt session kill`: ends a session.

use wt_protocol::rpc::Request;
use wt_wing::profile::Profile;

use super::super::terminal::One;
use crate::error::Done;
use crate::output::{Output, plain};
use crate::place::{Place, Where};

const EXAMPLES: &str = "Examples:
  wt session kill work
  wt session kill work --wing desk";

/// End a session's program and everything that it started
///
/// Returns when the processes are gone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    #[command(flatten)]
    whereabouts: Where,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let session = place.act(Request::Kill { session: args.name }).await?;
    let name = plain(&session.name).into_owned();
    output.answer(
        &One {
            session: session.into(),
        },
        || format!("ended {name}"),
    )?;
    Ok(0)
}

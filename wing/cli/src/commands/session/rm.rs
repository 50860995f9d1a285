//! `wt session rm`: forgets an ended session.

use serde::Serialize;
use wt_protocol::rpc::Request;
use wt_wing::profile::Profile;

use crate::error::Done;
use crate::output::{Output, plain};
use crate::place::{Place, Where};

const EXAMPLES: &str = "Examples:
  wt session rm work";

/// Remove an ended session, with its output
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    #[command(flatten)]
    whereabouts: Where,
}

#[derive(Serialize)]
struct Removed {
    removed: String,
    name: String,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let session = place.act(Request::Remove { session: args.name }).await?;
    let name = plain(&session.name).into_owned();
    output.answer(
        &Removed {
            removed: session.id,
            name: session.name,
        },
        || format!("removed {name}"),
    )?;
    Ok(0)
}

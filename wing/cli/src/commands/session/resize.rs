//! `wt session resize`: gives a session's terminal another size.

use wt_protocol::limits::MAX_TERMINAL_SIDE;
use wt_protocol::rpc::Request;
use wt_protocol::session::Winsize;
use wt_wing::profile::Profile;

use super::super::terminal::One;
use crate::error::Done;
use crate::output::{Output, plain};
use crate::place::{Place, Where};

const EXAMPLES: &str = "Examples:
  wt session resize work 120 40";

/// Give a session's terminal another size, while nobody is attached
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    /// Columns
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_TERMINAL_SIDE)))]
    cols: u16,
    /// Rows
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_TERMINAL_SIDE)))]
    rows: u16,
    #[command(flatten)]
    whereabouts: Where,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let size = Winsize {
        cols: args.cols,
        rows: args.rows,
    };
    let session = place
        .act(Request::Resize {
            session: args.name,
            size,
        })
        .await?;
    let name = plain(&session.name).into_owned();
    output.answer(
        &One {
            session: session.into(),
        },
        || format!("{name} has {} columns and {} rows", size.cols, size.rows),
    )?;
    Ok(0)
}

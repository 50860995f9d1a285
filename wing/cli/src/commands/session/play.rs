//! `wt session play`: plays a recording in this terminal.

use std::io::{BufReader, IsTerminal};
use std::time::Duration;

use wt_egg::play::{PlayOptions, Speed};
use wt_egg::recording::Recording;
use wt_wing::Error;
use wt_wing::profile::Profile;

use super::export::how_cut;
use super::wait::parse_duration;
use crate::error::{Done, Stop, say, usage};
use crate::fetch;
use crate::output::{Output, plain};
use crate::place::{Place, Where};
use crate::tty;

const EXAMPLES: &str = "Examples:
  wt session play work
  wt session play work --speed 4 --idle-limit 2s";

/// Play the recording of a session in this terminal
///
/// Space pauses, Left and Right jump 10 seconds, Up and Down change the speed, q leaves.
/// A session is recorded when it was started with --record.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    /// Play so many times as fast, from 1/16 (0.0625) to 256
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = parse_speed)]
    speed: f64,
    /// Play longer silences as so long a one, as 2s or 500ms
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    idle_limit: Option<Duration>,
    #[command(flatten)]
    whereabouts: Where,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    if output.is_json() {
        return Err(Stop::Error(
            usage("playing is for people at a terminal, and --json is for programs")
                .hint("wt session export NAME --format cast"),
        ));
    }
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let session = place.get(&args.name).await?;
    let name = plain(&session.name).into_owned();
    if !tty::is_interactive() || !std::io::stdout().is_terminal() {
        return Err(Stop::Error(
            Error::failed("playing needs a terminal, and stdin or stdout is none").hint(format!(
                "to print it: wt session export {name} --format text"
            )),
        ));
    }
    let Some(file) = fetch::recording(&profile, &place, &session.id).await? else {
        return Err(Stop::Error(
            Error::failed(format!("the session {name} is not recorded"))
                .hint("record one with `wt terminal --record`"),
        ));
    };
    let tape = Recording::new(BufReader::new(file)).map_err(Error::failed)?;
    let options = PlayOptions {
        speed: Speed::new(args.speed).unwrap_or(Speed::NORMAL),
        idle_limit: args.idle_limit,
    };
    let played = Box::pin(tty::play::run(tape, options))
        .await
        .map_err(|e| Error::failed(format!("cannot play {name}: {e}")))?;
    if played.was_larger {
        say("[it was recorded in a larger terminal than this one]");
    }
    let cut = played
        .ending
        .and_then(|ending| how_cut(ending, session.status.is_living()));
    match cut {
        Some(cut) => say(&format!("[played {name}; {cut}]")),
        None => say(&format!("[played {name}]")),
    }
    Ok(played.status)
}

fn parse_speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .and_then(Speed::new)
        .map(Speed::times)
        .ok_or_else(|| "it is no number from 0.0625 to 256".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_number_within_its_bounds() {
        assert_eq!(parse_speed("2"), Ok(2.0));
        assert_eq!(parse_speed("0.5"), Ok(0.5));
        for text in ["", "0", "-1", "fast", "NaN", "257"] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
    }
}

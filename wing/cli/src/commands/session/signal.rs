//! `wt session signal`: signals a session's program.

use nix::sys::signal::Signal;
use wt_protocol::rpc::Request;
use wt_wing::profile::Profile;

use super::super::terminal::One;
use crate::error::Done;
use crate::output::{Output, plain};
use crate::place::{Place, Where};

const EXAMPLES: &str = "Examples:
  wt session signal work INT
  wt session signal work 10 --remote box";

/// Send a signal to the program in a session's foreground
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    /// The signal: INT, SIGTERM, 9, ...
    #[arg(value_parser = parse_signal)]
    signal: i32,
    #[command(flatten)]
    whereabouts: Where,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let request = Request::Signal {
        session: args.name,
        signal: args.signal,
    };
    let session = place.act(request).await?;
    let name = plain(&session.name).into_owned();
    output.answer(
        &One {
            session: session.into(),
        },
        || format!("signalled {name}"),
    )?;
    Ok(0)
}

/// Reads a signal by name, with or without SIG, or by number.
fn parse_signal(text: &str) -> Result<i32, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let by_name = || format!("SIG{name}").parse::<Signal>().ok();
    let by_number = || {
        name.parse::<i32>()
            .ok()
            .and_then(|number| Signal::try_from(number).ok())
    };
    by_name()
        .or_else(by_number)
        .map(|signal| signal as i32)
        .ok_or_else(|| "it is no signal, as INT, SIGTERM or 9 are".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_and_a_number() {
        for text in ["INT", "int", "SIGINT", "2"] {
            assert_eq!(parse_signal(text), Ok(2), "{text}");
        }
        for text in ["", "FOO", "0", "-9", "99"] {
            assert!(parse_signal(text).is_err(), "{text}");
        }
    }
}

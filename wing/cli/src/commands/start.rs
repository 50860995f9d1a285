//! `wt start`: runs this profile's wing.

use serde::Serialize;
use wt_wing::ErrorCode;
use wt_wing::control::{self, DaemonStatus, Mode};
use wt_wing::login;
use wt_wing::profile::Profile;

use super::login::sign_in;
use super::status::{DaemonView, describe};
use crate::daemon;
use crate::error::{Done, Stop, say};
use crate::output::Output;

/// Start this profile's wing in the background, signing in first if needed
///
/// Returns when the wing is registered at its roost.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The roost; by default the one that this profile belongs to
    #[arg(long, value_name = "URL")]
    roost: Option<String>,
    /// Stay in the foreground until SIGTERM or SIGINT, and log to stderr
    #[arg(long)]
    foreground: bool,
}

/// A daemon that was started.
#[derive(Serialize)]
pub(super) struct Started<'a> {
    already_running: bool,
    daemon: DaemonView<'a>,
}

impl<'a> Started<'a> {
    pub(super) fn new(status: &'a DaemonStatus, already_running: bool) -> Self {
        Self {
            already_running,
            daemon: status.into(),
        }
    }
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let roost = args.roost.as_deref();
    match login::signed_in(&profile, roost) {
        Ok(_) => {}
        Err(error)
            if error.code == ErrorCode::Refused
                && (roost.is_some() || profile.roost()?.is_some()) =>
        {
            let login = sign_in(&profile, roost, output).await?;
            say(&format!(
                "signed in to {} as {}",
                login.roost, login.account
            ));
        }
        Err(error) if error.code == ErrorCode::Refused => {
            return Err(Stop::Error(error.hint(
                "wt start --roost URL, or make this machine a roost: wt roost start",
            )));
        }
        Err(error) => return Err(Stop::Error(error)),
    }
    if args.foreground {
        daemon::in_foreground(&profile, Mode::Wing, |status, _| {
            show(status, false, output)
        })
        .await?;
        return Ok(0);
    }
    let (status, already_running) = control::start(&profile, Mode::Wing).await?;
    show(&status, already_running, output)?;
    Ok(0)
}

fn show(status: &DaemonStatus, already_running: bool, output: Output) -> Result<(), Stop> {
    output.answer(&Started::new(status, already_running), || {
        let already = if already_running {
            "it was running already\n"
        } else {
            ""
        };
        format!("{already}{}", describe(status))
    })
}

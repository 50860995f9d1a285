//! `wt stop`: ends the daemon, and never a session.

use serde::Serialize;
use wt_wing::control;
use wt_wing::profile::Profile;

use crate::error::Done;
use crate::output::Output;

/// Stop this profile's wing or roost; sessions go on
///
/// Returns when the process is gone and its ports are free.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Stopped {
    stopped: bool,
    pid: Option<u32>,
}

pub(crate) async fn run(Args {}: Args, output: Output) -> Done {
    stop(&Profile::locate()?, output).await
}

pub(super) async fn stop(profile: &Profile, output: Output) -> Done {
    let pid = control::stop(profile).await?;
    output.answer(
        &Stopped {
            stopped: pid.is_some(),
            pid,
        },
        || match pid {
            Some(pid) => format!("stopped (process {pid}); sessions go on"),
            None => "nothing is running".to_owned(),
        },
    )?;
    Ok(0)
}

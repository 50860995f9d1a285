//! `wt roost`: a relay and a wing in one process.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use wt_crypto::Role;
use wt_protocol::keys::ClientKey;
use wt_relay::admin::{self, AdminError};
use wt_wing::control::{self, DaemonStatus, Mode};
use wt_wing::profile::Profile;
use wt_wing::{Error, ErrorCode, admission};

use super::start::Started;
use super::{status, stop};
use crate::daemon;
use crate::error::{Done, Stop};
use crate::output::{Output, plain};

/// Run a relay and this profile's wing in one process
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    Start(Start),
    Stop(Stopping),
    Status(Status),
    Approve(Approve),
}

/// Start the roost in the background
///
/// Returns when the relay answers and the wing is registered. The profile that runs the
/// roost needs no login. Without a certificate only loopback addresses are served.
#[derive(Debug, clap::Args)]
struct Start {
    /// Listen here: TCP for HTTP, and the same port in UDP for links
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    /// Stay in the foreground until SIGTERM or SIGINT, and log to stderr
    #[arg(long)]
    foreground: bool,
}

/// Stop the roost; sessions go on
#[derive(Debug, clap::Args)]
struct Stopping {}

/// Show whether the roost runs
#[derive(Debug, clap::Args)]
struct Status {}

/// Approve a device's login, and let it use this wing's sessions
#[derive(Debug, clap::Args)]
struct Approve {
    /// The code that the device shows
    code: String,
}

#[derive(Serialize)]
struct RoostStarted<'a> {
    #[serde(flatten)]
    started: Started<'a>,
    sign_in_url: Option<&'a str>,
}

#[derive(Serialize)]
struct Approved<'a> {
    account: &'a str,
    device_name: &'a str,
    client: ClientKey,
    admitted: bool,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    match args.act {
        Act::Start(start) => run_start(&profile, &start, output).await,
        Act::Stop(Stopping {}) => {
            // A wing without a relay is not what was meant.
            if let Ok(Some(status)) = control::status(&profile).await
                && status.mode == Mode::Wing.name()
            {
                let message = "a wing runs in this profile, and no roost";
                return Err(Stop::Error(
                    Error::failed(message).hint("to stop the wing: wt stop"),
                ));
            }
            stop::stop(&profile, output).await
        }
        Act::Status(Status {}) => status::show(&profile, output).await,
        Act::Approve(approve) => run_approve(&profile, &approve.code, output).await,
    }
}

async fn run_start(profile: &Profile, start: &Start, output: Output) -> Done {
    let mode = Mode::Roost { addr: start.addr };
    if start.foreground {
        daemon::in_foreground(profile, mode, |status, url| {
            show(status, false, url, output)
        })
        .await?;
        return Ok(0);
    }
    let (status, already_running) = control::start(profile, mode).await?;
    // The roost runs; a browser can also be let in later.
    let link = admin::sign_in_link(&profile.roost_dir()).await.ok();
    show(
        &status,
        already_running,
        link.as_ref().map(|link| link.url.as_str()),
        output,
    )?;
    Ok(0)
}

fn show(
    status: &DaemonStatus,
    already_running: bool,
    url: Option<&str>,
    output: Output,
) -> Result<(), Stop> {
    let document = RoostStarted {
        started: Started::new(status, already_running),
        sign_in_url: url,
    };
    output.answer(&document, || welcome(status, already_running, url))
}

fn welcome(status: &DaemonStatus, already_running: bool, url: Option<&str>) -> String {
    let verb = if already_running {
        "was running already"
    } else {
        "is running"
    };
    let DaemonStatus {
        roost,
        label,
        wing_id,
        ..
    } = status;
    let browser = url.map_or(String::new(), |url| {
        format!("\nin a browser, once, within 5 minutes:\n  {url}\n")
    });
    format!(
        "the roost {verb} at {roost}\nlabel  {label}\nid     {wing_id}\n{browser}\n\
         next, a terminal here that stays:\n  {wt} terminal --name work\n\
         and from another machine or profile, a sign-in:\n  {wt} login --roost {roost}\n",
        wt = typed_name()
    )
}

/// What to type for this very program: `wt` if a shell finds it by that name, else its path,
/// from here if it is below.
fn typed_name() -> String {
    let Ok(here) = env::current_exe() else {
        return "wt".to_owned();
    };
    let is_this = |file: PathBuf| file.canonicalize().is_ok_and(|found| found == here);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|folder| folder.join("wt"))
        .find(|file| file.is_file());
    if found.is_some_and(is_this) {
        return "wt".to_owned();
    }
    let below = env::current_dir().ok().and_then(|folder| {
        let relative = here.strip_prefix(folder).ok()?;
        Some(relative.display().to_string())
    });
    below.unwrap_or_else(|| here.display().to_string())
}

async fn run_approve(profile: &Profile, code: &str, output: Output) -> Done {
    let approved = admin::approve(&profile.roost_dir(), code)
        .await
        .map_err(refusal)?;
    let entry = admission::admit(
        profile,
        approved.client,
        Some(approved.device),
        &approved.device_name,
        Role::Operator,
    )?;
    let document = Approved {
        account: &approved.account,
        device_name: &approved.device_name,
        client: entry.client,
        admitted: true,
    };
    output.answer(&document, || {
        let (name, account) = (plain(&approved.device_name), plain(&approved.account));
        format!(
            "{name} is signed in as {account} and may use this wing\nclient  {}",
            entry.client
        )
    })?;
    Ok(0)
}

fn refusal(error: AdminError) -> Error {
    let message = error.to_string();
    match error {
        AdminError::NotRunning(_) => {
            Error::new(ErrorCode::Unreachable, message).hint("start it with `wt roost start`")
        }
        AdminError::Unreachable { .. } => {
            Error::new(ErrorCode::Unreachable, message).hint("see `wt roost status`")
        }
        AdminError::UnknownCode(_) => Error::new(ErrorCode::NotFound, message)
            .hint("codes hold for 10 minutes; start again with `wt login`"),
        AdminError::Refused(_) => Error::new(ErrorCode::Refused, message),
        AdminError::File(error) => error.into(),
        AdminError::Malformed(_) => Error::failed(message),
    }
}

//! The daemon of a profile: its wing, and with a roost the relay in the same process.
//!
//! It keeps nothing of its caller but what a login gives: it has a session of its own, no
//! descriptors but its log, and answers its starter once.

use std::ffi::OsString;
use std::sync::Arc;

use tracing_subscriber::EnvFilter;
use wt_relay::{ConfigError, Relay, RelayConfig, StartError};
use wt_wing::control::{self, Claimed, DaemonStatus, LogFile, Mode};
use wt_wing::login::{device_name, login_of};
use wt_wing::profile::Profile;
use wt_wing::{Error, ErrorCode, Uplink};

use crate::error::{Stop, usage};

/// Becomes the daemon; returns its exit status.
pub(crate) fn main(arguments: &[OsString]) -> i32 {
    wt_egg::process::close_inherited();
    // It fails only for the leader of a group, which has a session of its own already.
    let _ = nix::unistd::setsid();
    match background(arguments) {
        Ok(()) => 0,
        Err(error) => {
            control::announce_failed(&error);
            tracing::error!(%error, "the daemon ends");
            error.code.exit_code().into()
        }
    }
}

fn background(arguments: &[OsString]) -> Result<(), Error> {
    let mode =
        Mode::from_arguments(arguments).ok_or_else(|| usage("this command is for wt itself"))?;
    let profile = Profile::locate()?;
    let log = control::log_path(&profile);
    let log = LogFile::open(&log)
        .map_err(|e| Error::failed(format!("cannot write {}: {e}", log.display())))?;
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_env("WT_LOG").unwrap_or_else(|_| EnvFilter::new("info")),
        )
        .with_writer(move || log.clone())
        // A full disk must not end the daemon by way of a complaint that cannot be written.
        .log_internal_errors(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::failed(format!("cannot start: {e}")))?;
    runtime.block_on(async {
        let Some(claimed) = control::claim(&profile, mode)? else {
            control::announce_busy();
            return Ok(());
        };
        tracing::info!(
            mode = mode.name(),
            version = wt_wing::VERSION,
            "the daemon starts"
        );
        run(&profile, claimed, |status, _| {
            control::announce_ready(status)
        })
        .await
    })
}

/// Runs the daemon in this very process until SIGTERM or SIGINT. `on_ready` gets its status
/// and, with a roost, a link that signs one browser in.
pub(crate) async fn in_foreground(
    profile: &Profile,
    mode: Mode,
    on_ready: impl FnOnce(&DaemonStatus, Option<&str>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Some(claimed) = control::claim(profile, mode)? else {
        return Err(Stop::Error(
            Error::failed("a daemon runs in this profile already").hint("stop it first: wt stop"),
        ));
    };
    // A service manager sets WT_LOG for another level; without, only trouble is told.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("warn"))
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .try_init();
    // Whoever started this may read its answer, or not.
    let ready = |status: &DaemonStatus, url: Option<&str>| drop(on_ready(status, url));
    Ok(run(profile, claimed, ready).await?)
}

async fn run(
    profile: &Profile,
    claimed: Claimed,
    on_ready: impl FnOnce(&DaemonStatus, Option<&str>),
) -> Result<(), Error> {
    match claimed.mode {
        Mode::Wing => {
            let on_ready = |status: &DaemonStatus| on_ready(status, None);
            Box::pin(wt_wing::daemon::run(
                profile,
                claimed,
                Uplink::Quic,
                on_ready,
            ))
            .await
        }
        Mode::Roost { addr } => {
            let relay = Relay::start(RelayConfig::new(addr, profile.roost_dir()))
                .await
                .map_err(start_error)?;
            let done = Box::pin(beside_relay(profile, claimed, &relay, on_ready)).await;
            relay.shutdown().await;
            done
        }
    }
}

/// Runs the wing beside its relay, linked through memory.
async fn beside_relay(
    profile: &Profile,
    claimed: Claimed,
    relay: &Relay,
    on_ready: impl FnOnce(&DaemonStatus, Option<&str>),
) -> Result<(), Error> {
    sign_in_here(profile, relay).await?;
    let driver = relay.driver().clone();
    let uplink = Uplink::InProcess(Arc::new(move || driver.attach_memory()));
    let on_ready = |status: &DaemonStatus| on_ready(status, Some(&relay.sign_in_link()));
    wt_wing::daemon::run(profile, claimed, uplink, on_ready).await
}

/// Makes this profile's device one of the relay's operator: no login is needed where both
/// files belong to the same user.
async fn sign_in_here(profile: &Profile, relay: &Relay) -> Result<(), Error> {
    // The address may change from start to start; the key of grants is the roost's own.
    if let Some(known) = profile.roost()?
        && known.grant_key != relay.info().grant_key
    {
        let message = format!(
            "this profile belongs to another roost: {} as {}",
            known.origin, known.account
        );
        return Err(Error::new(ErrorCode::IdentityMismatch, message).hint(
            "use another profile for a roost of your own: set WINGTHING_DIR to another folder",
        ));
    }
    let device = profile.device_secret()?;
    let client = profile.client_secret()?.public();
    let account = relay
        .enroll_local(
            device.public(),
            client,
            device.vouch_for(&client),
            &device_name(&device.public()),
        )
        .await
        .map_err(Error::failed)?;
    profile.write_roost(&login_of(
        &relay.origin(),
        relay.info(),
        account.as_str().to_owned(),
        true,
    ))
}

fn start_error(error: StartError) -> Error {
    let message = error.to_string();
    match error {
        StartError::File(error) => error.into(),
        StartError::Config(ConfigError::NeedsCertificate(addr)) => usage(format!(
            "{addr} is not a loopback address, and without a certificate only loopback is served"
        ))
        .hint("listen on 127.0.0.1, or run `wt-relay serve` with --tls-cert and --tls-key"),
        StartError::Config(_) => usage(message),
        StartError::InUse(_) => Error::failed(message).hint("stop it first: wt stop"),
        StartError::Bind {
            addr,
            transport,
            source,
            hint,
        } => Error::failed(format!("cannot listen on {addr} ({transport}): {source}")).hint(hint),
        StartError::Missing(_)
        | StartError::Key(_)
        | StartError::Certificate { .. }
        | StartError::Store(_) => Error::failed(message),
    }
}

//! The daemon: keeps the wing's link to its relay, and serves the routes that come.
//!
//! Tasks and who ends them: one for each route, all in one set that is aborted when the
//! daemon ends; eggs are processes of their own and never notice.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wt_crypto::WingIdentity;
use wt_link::LinkEnd;
use wt_protocol::codes::LinkCode;

use crate::admission;
use crate::backoff::{Backoff, jitter};
use crate::config::WingConfig;
use crate::control::{Claimed, DaemonStatus, LinkState, Mode};
use crate::error::{Error, ErrorCode};
use crate::login::signed_in;
use crate::pins::now_ms;
use crate::profile::{Profile, RoostLogin};
use crate::serve::Serving;
use crate::uplink::{Dialling, Uplink};

/// Waits between tries to reach the relay.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Wait after the relay refused the sign-in: only a new login changes that.
const REFUSED_WAIT: Duration = Duration::from_secs(5 * 60);

/// Wait after another process with the same identity took over, so that two do not
/// knock each other off all day.
const REPLACED_WAIT: Duration = Duration::from_secs(60);

/// Runs the wing until SIGTERM or SIGINT. `on_ready` is called once, when the wing is
/// registered at its relay.
///
/// # Errors
/// That the profile cannot be used, or the relay refused the wing before it ever was
/// registered. A relay that cannot be reached is waited for.
pub async fn run(
    profile: &Profile,
    mut claimed: Claimed,
    uplink: Uplink,
    on_ready: impl FnOnce(&DaemonStatus),
) -> Result<(), Error> {
    let mut terminate = watch_signal(SignalKind::terminate())?;
    let mut interrupt = watch_signal(SignalKind::interrupt())?;
    let mut hangup = watch_signal(SignalKind::hangup())?;
    let identity = Arc::new(profile.wing_identity()?);
    let config = WingConfig::read(profile)?;
    admission::admit_own(profile)?;
    // A list that cannot be read stops the start instead of refusing everybody later.
    admission::read(profile)?;
    let login = signed_in(profile, None)?;

    let status = watch::Sender::new(first_status(&claimed.mode, &identity, &config, &login));
    let serving = Arc::new(Serving::new(profile, Arc::clone(&identity), config)?);
    claimed.serve_status(status.subscribe(), profile.sessions())?;
    let linked = Linked {
        profile,
        identity,
        serving: Arc::clone(&serving),
        status,
    };
    let mut on_ready = Some(on_ready);
    let dialling = Dialling::new(profile, uplink);
    let ended = {
        let keeping = linked.keep(&dialling, &mut on_ready);
        tokio::pin!(keeping);
        loop {
            tokio::select! {
                ended = &mut keeping => break ended,
                _ = terminate.recv() => break Ok(()),
                _ = interrupt.recv() => break Ok(()),
                _ = hangup.recv() => match WingConfig::read(profile) {
                    Ok(config) => {
                        tracing::info!("settings read again");
                        serving.set_config(config);
                    }
                    Err(error) => tracing::error!(%error, "settings stay as they were"),
                }
            }
        }
    };
    // The link went with its task; the relay is to know before the process is gone.
    dialling.said_goodbye().await;
    ended
}

fn watch_signal(kind: SignalKind) -> Result<Signal, Error> {
    signal(kind).map_err(|e| Error::failed(format!("cannot watch signals: {e}")))
}

struct Linked<'a> {
    profile: &'a Profile,
    identity: Arc<WingIdentity>,
    serving: Arc<Serving>,
    status: watch::Sender<DaemonStatus>,
}

impl Linked<'_> {
    /// Keeps a link up, for ever.
    async fn keep<F: FnOnce(&DaemonStatus)>(
        &self,
        dialling: &Arc<Dialling>,
        on_ready: &mut Option<F>,
    ) -> Result<(), Error> {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        loop {
            let wait = match self.link_once(dialling, &mut backoff, on_ready).await {
                Ok(wait) => wait,
                Err(error) if on_ready.is_some() && error.code != ErrorCode::Unreachable => {
                    return Err(error);
                }
                Err(error) => {
                    let wait = match error.code {
                        ErrorCode::Refused | ErrorCode::IdentityMismatch => REFUSED_WAIT,
                        _ => backoff.wait(jitter()),
                    };
                    tracing::warn!(%error, hint = error.hint.as_deref().unwrap_or_default(), "no link; next try in {wait:?}");
                    let state = if wait == REFUSED_WAIT {
                        LinkState::Refused
                    } else {
                        LinkState::Connecting
                    };
                    self.set_link(state, Some(error.message));
                    wait
                }
            };
            sleep(wait).await;
        }
    }

    /// Dials, registers, and serves routes until the link ends. Gives the wait before the
    /// next try.
    async fn link_once<F: FnOnce(&DaemonStatus)>(
        &self,
        dialling: &Arc<Dialling>,
        backoff: &mut Backoff,
        on_ready: &mut Option<F>,
    ) -> Result<Duration, Error> {
        let login = signed_in(self.profile, None)?;
        let kept = dialling.dial(&login, Some(&self.identity)).await?;
        tracing::info!(roost = %login.origin, "link up");
        backoff.reset();
        self.set_link(LinkState::Up, None);
        if let Some(on_ready) = on_ready.take() {
            on_ready(&self.status.borrow());
        }
        let mut routes = JoinSet::new();
        let end = loop {
            tokio::select! {
                accepted = kept.link.accept() => match accepted {
                    Ok((send, recv)) => {
                        let serving = Arc::clone(&self.serving);
                        routes.spawn(async move { serving.route(send, recv).await });
                    }
                    Err(end) => break end,
                },
                Some(_) = routes.join_next() => {}
            }
        };
        if let Some(spread) = kept.spread() {
            tracing::info!("the relay is restarting");
            self.set_link(
                LinkState::Connecting,
                Some("the relay is restarting".to_owned()),
            );
            return Ok(spread.mul_f64(f64::from(jitter()) / f64::from(u32::MAX)));
        }
        tracing::info!(%end, "link down");
        let (wait, words) = match end {
            LinkEnd::ByPeer(LinkCode::Replaced) => (
                REPLACED_WAIT.mul_f64(1.0 + f64::from(jitter()) / f64::from(u32::MAX)),
                "another process uses this identity".to_owned(),
            ),
            LinkEnd::ByPeer(
                code @ (LinkCode::Unauthenticated | LinkCode::Revoked | LinkCode::Expired),
            ) => {
                return Err(
                    Error::new(ErrorCode::Refused, format!("{}: {code}", login.origin))
                        .hint(format!("log in again: wt login --roost {}", login.origin)),
                );
            }
            end => (backoff.wait(jitter()), end.to_string()),
        };
        self.set_link(LinkState::Connecting, Some(words));
        Ok(wait)
    }

    fn set_link(&self, link: LinkState, error: Option<String>) {
        self.status.send_modify(|status| {
            if status.link != link {
                status.link_since_ms = now_ms();
            }
            status.link = link;
            status.error = error;
        });
    }
}

fn first_status(
    mode: &Mode,
    identity: &WingIdentity,
    config: &WingConfig,
    login: &RoostLogin,
) -> DaemonStatus {
    let wing_id = identity.wing_id();
    DaemonStatus {
        mode: mode.name().to_owned(),
        pid: std::process::id(),
        version: crate::VERSION.to_owned(),
        fingerprint: wing_id.grouped(),
        wing_id,
        label: config.label(),
        roost: login.origin.clone(),
        account: login.account.clone(),
        link: LinkState::Connecting,
        link_since_ms: now_ms(),
        error: None,
        admission: config.admission().to_string(),
        sessions: 0,
    }
}

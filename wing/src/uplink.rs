//! How this process gets a link to its relay, and keeps it proved.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wt_crypto::WingIdentity;
use wt_link::Link;
use wt_link::dial::{Claim, Control, ProveError, WingClaim, prove};
use wt_link::quic::{ConnectError, Dialer, KEEP_ALIVE_AT_WORK, Trust};
use wt_protocol::InstanceId;
use wt_protocol::codes::LinkCode;

use crate::error::{Error, ErrorCode};
use crate::http::Http;
use crate::profile::{Profile, RoostLogin};

/// How long a relay may take to accept a link.
const DIAL_DEADLINE: Duration = Duration::from_secs(10);

/// How long before the proof of a link runs out it is renewed, if it holds that long.
const RENEW_BEFORE: Duration = Duration::from_secs(90);

/// How long telling the relay of the end may take.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(1);

/// Wait before a fresh token is asked for again.
const RENEW_AGAIN: Duration = Duration::from_secs(5);

/// Where links come from.
#[derive(Clone)]
pub enum Uplink {
    /// Over QUIC, to wherever the profile's roost is, for a daemon.
    Quic,
    /// The same for a user at a terminal, who is to notice at once when it breaks.
    QuicAtWork,
    /// From the relay in this same process.
    InProcess(Arc<dyn Fn() -> Link + Send + Sync>),
}

/// A link that the relay welcomed, and the task that keeps it proved. Dropping it ends both.
pub(crate) struct Kept {
    pub(crate) link: Link,
    /// Set when the relay asked to leave: come back after a random part of this.
    spread: Arc<OnceLock<Duration>>,
    task: JoinHandle<()>,
}

impl Kept {
    /// Within which time the relay asked to come back, if it ended the link by asking.
    pub(crate) fn spread(&self) -> Option<Duration> {
        self.spread.get().copied()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
        self.link.close(LinkCode::Done);
    }
}

/// Gets links for one profile.
pub(crate) struct Dialling {
    profile: Profile,
    uplink: Uplink,
    dialer: Dialer,
    instance: InstanceId,
}

impl Dialling {
    pub(crate) fn new(profile: &Profile, uplink: Uplink) -> Arc<Self> {
        Arc::new(Self {
            profile: profile.clone(),
            dialer: match &uplink {
                Uplink::Quic | Uplink::InProcess(_) => Dialer::new(),
                Uplink::QuicAtWork => Dialer::with_keep_alive(KEEP_ALIVE_AT_WORK),
            },
            uplink,
            instance: InstanceId::from_bytes(wt_crypto::random()),
        })
    }

    /// Dials the roost and proves this device, and this wing if there is one.
    pub(crate) async fn dial(
        self: &Arc<Self>,
        login: &RoostLogin,
        wing: Option<&Arc<WingIdentity>>,
    ) -> Result<Kept, Error> {
        let token = self.token(login).await?;
        let link = match &self.uplink {
            Uplink::InProcess(make) => make(),
            Uplink::Quic | Uplink::QuicAtWork => self.connect(login).await?,
        };
        let device = Arc::new(self.profile.device_secret()?);
        let claim = Claim {
            origin: login.origin.clone(),
            instance: self.instance,
            device: device.public(),
            sign: Arc::new(move |bytes| device.sign(bytes)),
            wing: wing.map(|identity| {
                let signer = Arc::clone(identity);
                WingClaim {
                    identity: identity.identity().public(),
                    sign: Arc::new(move |bytes| signer.identity().sign(bytes)),
                    statement: identity.statement(),
                }
            }),
        };
        let control = prove(&link, claim, &token)
            .await
            .map_err(|e| refused(&login.origin, e))?;
        let spread = Arc::new(OnceLock::new());
        let keeping = keep(
            Arc::clone(self),
            login.clone(),
            link.clone(),
            control,
            Arc::clone(&spread),
        );
        Ok(Kept {
            link,
            spread,
            task: tokio::spawn(keeping),
        })
    }

    /// Waits until relays know that their links are closed, within a bound.
    pub(crate) async fn said_goodbye(&self) {
        // A relay that cannot be told finds out by the silence.
        let _ = timeout(GOODBYE_DEADLINE, self.dialer.wait_idle()).await;
    }

    /// A fresh token for the profile's device.
    pub(crate) async fn token(&self, login: &RoostLogin) -> Result<String, Error> {
        let http = Http::new(&login.origin)?;
        let device = self.profile.device_secret()?;
        Ok(http.token(&device).await?.access_token)
    }

    async fn connect(&self, login: &RoostLogin) -> Result<Link, Error> {
        let unreachable = |cause: &dyn std::fmt::Display| {
            Error::new(
                ErrorCode::Unreachable,
                format!("{} cannot be reached: {cause}", login.quic_addr),
            )
            .hint("check that the roost runs and that UDP gets through to it")
        };
        let addrs: Vec<SocketAddr> = lookup_host(&login.quic_addr)
            .await
            .map_err(|e| unreachable(&e))?
            .collect();
        let name = login
            .quic_addr
            .rsplit_once(':')
            .map_or(login.quic_addr.as_str(), |(host, _)| host);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let mut last = unreachable(&"its name stands for no address");
        for addr in addrs {
            let dialling = self
                .dialer
                .connect(addr, name, Trust::Spki(login.quic_spki));
            match timeout(DIAL_DEADLINE, dialling).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(ConnectError::Identity { .. })) => {
                    let message = format!(
                        "the relay at {} is not the roost that this profile knows: its key is not {}",
                        login.quic_addr, login.quic_spki
                    );
                    return Err(Error::new(ErrorCode::IdentityMismatch, message)
                        .hint("ask the roost's operator whether its keys were replaced"));
                }
                Ok(Err(error)) => last = unreachable(&error),
                Err(_) => last = unreachable(&"it did not answer in time"),
            }
        }
        Err(last)
    }
}

/// Renews the proof of a link before it runs out, and leaves when the relay asks to.
///
/// A renewal that fails needs no more: the relay then ends the link.
async fn keep(
    dialling: Arc<Dialling>,
    login: RoostLogin,
    link: Link,
    mut control: Control,
    asked: Arc<OnceLock<Duration>>,
) {
    loop {
        let left = control
            .expires_at()
            .saturating_duration_since(Instant::now());
        let renew_at = control.expires_at() - RENEW_BEFORE.min(left / 2);
        tokio::select! {
            spread = control.go_away() => {
                asked.get_or_init(|| spread);
                link.close(LinkCode::Done);
                return;
            }
            () = sleep_until(renew_at.max(Instant::now() + Duration::from_secs(1))) => {}
        }
        let renewed = match dialling.token(&login).await {
            Ok(token) => control.renew(token).await.map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = renewed {
            tracing::warn!(%error, "the proof of the link was not renewed");
            sleep(RENEW_AGAIN).await;
        }
    }
}

fn refused(origin: &str, error: ProveError) -> Error {
    match error {
        ProveError::Refused(LinkCode::Unauthenticated | LinkCode::Expired | LinkCode::Revoked) => {
            Error::new(
                ErrorCode::Refused,
                format!("{origin} refused this device's sign-in"),
            )
            .hint(format!("log in again: wt login --roost {origin}"))
        }
        ProveError::Refused(code) => {
            Error::new(ErrorCode::Unreachable, format!("{origin}: {code}"))
        }
        ProveError::Lost(_) | ProveError::Protocol | ProveError::TimedOut | ProveError::Local => {
            Error::new(ErrorCode::Unreachable, format!("{origin}: {error}"))
        }
    }
}

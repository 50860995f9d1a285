//! The dialling side of the control stream: how a wing or a client proves itself.
//!
//! [`prove`] says who is dialling, signs what the relay asks and waits for the welcome.
//! The [`Control`] that it gives keeps the control stream answered for as long as it is
//! held. Keys stay with the caller, who passes in functions that sign.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wt_protocol::codec::{decode, encode};
use wt_protocol::codes::LinkCode;
use wt_protocol::control::{
    Challenge, FromRelay, Hello, NoiseKeyStatement, Proof, ProofMode, Role, ToRelay, WingProof,
};
use wt_protocol::keys::{DeviceKey, IdentityKey, Signature};
use wt_protocol::limits::MAX_CONTROL_MESSAGE;
use wt_protocol::signed::{RelayProof, relay_proof};
use wt_protocol::{InstanceId, VersionRange};

use crate::framed::{FrameReader, write_frame};
use crate::link::{Link, LinkEnd, SendHalf};

/// A relay has this long to take a proof, and again for each renewal.
///
/// Twice what the dialler has: the relay may look something up in between.
pub const PROOF_DEADLINE: Duration = Duration::from_secs(10);

/// Renewals that may wait to be sent.
const WAITING_RENEWALS: usize = 4;

/// Signs bytes with a key that the caller keeps.
pub type Signer = Arc<dyn Fn(&[u8]) -> Signature + Send + Sync>;

/// Who dials, and how it proves that.
#[derive(Clone)]
pub struct Claim {
    /// The roost's origin, from the dialler's own config.
    pub origin: String,
    /// One start of the dialling process.
    pub instance: InstanceId,
    /// The device that the token names.
    pub device: DeviceKey,
    /// Signs with the device key.
    pub sign: Signer,
    /// What a wing adds. A link without it is a client's.
    pub wing: Option<WingClaim>,
}

/// What a wing adds to a claim.
#[derive(Clone)]
pub struct WingClaim {
    /// The key that the wing id is the fingerprint of.
    pub identity: IdentityKey,
    /// Signs with the identity key.
    pub sign: Signer,
    /// The wing's id and the certified key that answers handshakes.
    pub statement: NoiseKeyStatement,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("origin", &self.origin)
            .field("device", &self.device)
            .field("wing", &self.wing.as_ref().map(|w| &w.statement.wing))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WingClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WingClaim")
            .field("wing", &self.statement.wing)
            .finish_non_exhaustive()
    }
}

/// Why a relay did not welcome this end, or no longer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProveError {
    /// The relay closed the link and said why.
    #[error("{0}")]
    Refused(LinkCode),
    /// The link broke.
    #[error(transparent)]
    Lost(LinkEnd),
    /// The relay said something that does not belong there.
    #[error("the relay does not keep to the protocol")]
    Protocol,
    /// The relay did not answer in time.
    #[error("the relay did not answer in time")]
    TimedOut,
    /// This machine gave no random bytes, or the token is too long to send.
    #[error("this machine cannot make the proof")]
    Local,
}

impl From<LinkEnd> for ProveError {
    fn from(end: LinkEnd) -> Self {
        match end {
            LinkEnd::ByPeer(code) => ProveError::Refused(code),
            LinkEnd::Here | LinkEnd::TimedOut | LinkEnd::Lost => ProveError::Lost(end),
        }
    }
}

/// Proves this end of a link to the relay at the other end.
///
/// The link may be used when this returns: its limits are raised to what the welcome
/// says. After an error the link is closed.
///
/// # Errors
/// [`ProveError::Refused`] with [`LinkCode::Unauthenticated`] means: log in again.
pub async fn prove(link: &Link, claim: Claim, token: &str) -> Result<Control, ProveError> {
    match tokio::time::timeout(PROOF_DEADLINE, exchange(link, claim, token)).await {
        Ok(Ok(control)) => Ok(control),
        Ok(Err(error)) => {
            link.close(LinkCode::Protocol);
            Err(error)
        }
        Err(_) => {
            link.close(LinkCode::TimedOut);
            Err(ProveError::TimedOut)
        }
    }
}

async fn exchange(link: &Link, claim: Claim, token: &str) -> Result<Control, ProveError> {
    let (send, recv) = link.open().await?;
    let mut stream = ControlStream {
        link: link.clone(),
        send,
        reader: FrameReader::new(recv, MAX_CONTROL_MESSAGE),
    };
    let role = match &claim.wing {
        Some(wing) => Role::Wing(wing.statement.wing.clone()),
        None => Role::Client,
    };
    let exporter = link.exporter();
    let mode = match exporter {
        Some(_) => ProofMode::Exporter,
        None => ProofMode::Nonce,
    };
    let mut client_nonce = [0; 32];
    SystemRandom::new()
        .fill(&mut client_nonce)
        .map_err(|_| ProveError::Local)?;
    let hello = Hello {
        versions: VersionRange::CURRENT,
        role: role.clone(),
        instance: claim.instance,
        client_nonce,
        mode,
    };
    stream.write(&ToRelay::Hello(hello)).await?;
    let FromRelay::Challenge(challenge) = stream.read().await? else {
        return Err(ProveError::Protocol);
    };
    let prover = Prover {
        claim,
        role,
        mode,
        exporter,
        client_nonce,
        challenge,
    };
    stream.write(&ToRelay::Proof(prover.proof(token))).await?;
    let FromRelay::Welcome(welcome) = stream.read().await? else {
        return Err(ProveError::Protocol);
    };
    link.raise_limits(welcome.max_routes);

    let (renewals, asked) = mpsc::channel(WAITING_RENEWALS);
    let (told, go_away) = watch::channel(None);
    let task = tokio::spawn(attend(stream, prover, asked, told));
    Ok(Control {
        max_routes: welcome.max_routes,
        expires_at: Instant::now() + seconds(welcome.expires_in),
        renewals,
        go_away,
        task,
    })
}

/// An accepted link's control stream. Dropping it ends the stream, upon which the relay
/// closes the link.
#[derive(Debug)]
pub struct Control {
    max_routes: u16,
    expires_at: Instant,
    renewals: mpsc::Sender<Renewal>,
    go_away: watch::Receiver<Option<Duration>>,
    task: JoinHandle<()>,
}

/// Holds a token, so it has no `Debug`.
struct Renewal {
    token: String,
    done: oneshot::Sender<Result<Instant, ProveError>>,
}

impl Control {
    /// Routes that may be open at once on this link.
    pub fn max_routes(&self) -> u16 {
        self.max_routes
    }

    /// When the relay closes the link unless [`Self::renew`] was called before.
    pub fn expires_at(&self) -> Instant {
        self.expires_at
    }

    /// Proves this end again, with a fresh token.
    ///
    /// # Errors
    /// As [`prove`]; a relay that refuses closes the link.
    pub async fn renew(&mut self, token: String) -> Result<(), ProveError> {
        let (done, answer) = oneshot::channel();
        let asked = self.renewals.send(Renewal { token, done }).await;
        asked.map_err(|_| ProveError::Lost(LinkEnd::Lost))?;
        match tokio::time::timeout(PROOF_DEADLINE, answer).await {
            Ok(Ok(renewed)) => {
                self.expires_at = renewed?;
                Ok(())
            }
            Ok(Err(_)) => Err(ProveError::Lost(LinkEnd::Lost)),
            Err(_) => Err(ProveError::TimedOut),
        }
    }

    /// Waits until the relay says that it will close this link. Gives the spread within
    /// which to connect again, after a random part of it. Cancel safe; waits for ever
    /// when the link ends without that, so watch [`Link::closed`] beside it.
    pub async fn go_away(&mut self) -> Duration {
        let told = self.go_away.wait_for(Option::is_some).await;
        match told.map(|spread| *spread) {
            Ok(Some(spread)) => spread,
            Ok(None) | Err(_) => core::future::pending().await,
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers the relay until the link ends. Owned by the [`Control`], which aborts it.
async fn attend(
    mut stream: ControlStream,
    prover: Prover,
    mut asked: mpsc::Receiver<Renewal>,
    told: watch::Sender<Option<Duration>>,
) {
    let mut under_way: Option<oneshot::Sender<Result<Instant, ProveError>>> = None;
    let error = loop {
        tokio::select! {
            message = stream.read() => match message {
                Ok(FromRelay::Renewed { expires_in }) => match under_way.take() {
                    // The asker may have given up waiting; the renewal holds all the same.
                    Some(done) => drop(done.send(Ok(Instant::now() + seconds(expires_in)))),
                    None => break ProveError::Protocol,
                },
                Ok(FromRelay::GoAway { spread_ms }) => {
                    told.send_replace(Some(Duration::from_millis(spread_ms.into())));
                }
                Ok(FromRelay::Ping(number)) => {
                    if let Err(error) = stream.write(&ToRelay::Pong(number)).await {
                        break error;
                    }
                }
                Ok(FromRelay::Pong(_)) => {}
                Ok(FromRelay::Challenge(_) | FromRelay::Welcome(_)) => break ProveError::Protocol,
                Err(error) => break error,
            },
            // One at a time: the next is taken when this one is answered.
            Some(renewal) = asked.recv(), if under_way.is_none() => {
                let proof = prover.proof(&renewal.token);
                under_way = Some(renewal.done);
                if let Err(error) = stream.write(&ToRelay::Renew(proof)).await {
                    break error;
                }
            }
        }
    };
    if let Some(done) = under_way {
        // Nobody waits any more when the asker gave up.
        let _ = done.send(Err(error));
    }
    // Without its control stream a link is of no use.
    stream.link.close(LinkCode::Protocol);
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

/// What every proof of one link covers.
struct Prover {
    claim: Claim,
    role: Role,
    mode: ProofMode,
    exporter: Option<[u8; 32]>,
    client_nonce: [u8; 32],
    challenge: Challenge,
}

impl Prover {
    fn proof(&self, token: &str) -> Proof {
        let hash = digest(&SHA256, token.as_bytes());
        let token_hash = hash.as_ref().try_into().expect("SHA-256 gives 32 bytes");
        let bytes = relay_proof(&RelayProof {
            mode: self.mode,
            role: &self.role,
            origin: &self.claim.origin,
            relay_nonce: &self.challenge.relay_nonce,
            client_nonce: &self.client_nonce,
            exporter: self.exporter.as_ref().map_or(&[], |value| &value[..]),
            token_hash: &token_hash,
            instance: &self.claim.instance,
        });
        Proof {
            token: token.to_owned(),
            device: self.claim.device,
            device_signature: (self.claim.sign)(&bytes),
            wing: self.claim.wing.as_ref().map(|wing| WingProof {
                identity: wing.identity,
                signature: (wing.sign)(&bytes),
                statement: wing.statement.clone(),
            }),
        }
    }
}

struct ControlStream {
    link: Link,
    send: SendHalf,
    reader: FrameReader,
}

impl ControlStream {
    async fn write(&mut self, message: &ToRelay) -> Result<(), ProveError> {
        let bytes = encode(message, MAX_CONTROL_MESSAGE).map_err(|_| ProveError::Local)?;
        match write_frame(&mut self.send, &bytes).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.end().await),
        }
    }

    /// Cancel safe until a frame is there, and then it does not wait.
    async fn read(&mut self) -> Result<FromRelay, ProveError> {
        match self.reader.read_frame().await {
            Ok(Some(bytes)) => {
                decode(&bytes, MAX_CONTROL_MESSAGE).map_err(|_| ProveError::Protocol)
            }
            Ok(None) | Err(_) => Err(self.end().await),
        }
    }

    /// The stream is over: the reason stands in the link's end, which comes with it or
    /// just after.
    async fn end(&self) -> ProveError {
        match tokio::time::timeout(Duration::from_secs(1), self.link.closed()).await {
            Ok(end) => end.into(),
            Err(_) => ProveError::Protocol,
        }
    }
}

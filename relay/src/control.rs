//! The relay's side of a link's control stream.
//!
//! A link proves itself first ([`authenticate`]): hello, challenge, proof. What is asked
//! of a proof stands in [`Terms::verify`], which decides alone from bytes. After the
//! welcome, [`Control::serve`] answers pings and takes renewals until the link ends or its
//! proof runs out. The dialling side is `wt_link::dial`.
//!
//! Whatever is wrong with a proof, the answer is the same code, so that nobody learns
//! whether a wing, an account or a device exists.

use std::future::pending;
use std::time::{Duration, SystemTime};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, UnparsedPublicKey};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use wt_link::{FrameReader, Link, SendHalf, write_frame};
use wt_protocol::codec::{decode, encode};
use wt_protocol::codes::LinkCode;
use wt_protocol::control::{Challenge, FromRelay, Hello, Proof, ProofMode, Role, ToRelay, Welcome};
use wt_protocol::keys::Signature;
use wt_protocol::limits::{HELLO_DEADLINE, MAX_CONTROL_MESSAGE, MAX_TOKEN};
use wt_protocol::signed::{RelayProof, noise_key_statement, relay_proof};
use wt_protocol::{InstanceId, VersionRange, WingId};

use crate::accounts::{Accounts, AuthError, RegisterError, SignedIn};

/// A dialler must take a control message in this time. It reads them as they come, so a
/// slower one is gone.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);

/// A link that has proved who it is. Holds a token, so it has no `Debug`.
pub(crate) struct Proven {
    pub(crate) signed_in: SignedIn,
    pub(crate) role: Role,
    pub(crate) instance: InstanceId,
    /// Shown again when the link was entered, in case its device was revoked meanwhile.
    pub(crate) token: String,
}

/// The control stream of a proven link.
#[derive(Debug)]
pub(crate) struct Control {
    send: SendHalf,
    reader: FrameReader,
    terms: Terms,
    expires_at: Instant,
}

/// Lets a link prove who it is, within [`HELLO_DEADLINE`].
///
/// # Errors
/// What to close the link with.
pub(crate) async fn authenticate(
    link: &Link,
    origin: &str,
    accounts: &Accounts,
) -> Result<(Control, Proven), LinkCode> {
    match timeout(HELLO_DEADLINE, exchange(link, origin, accounts)).await {
        Ok(answer) => answer,
        Err(_) => Err(LinkCode::TimedOut),
    }
}

async fn exchange(
    link: &Link,
    origin: &str,
    accounts: &Accounts,
) -> Result<(Control, Proven), LinkCode> {
    let (mut send, recv) = link.accept().await.map_err(|_| LinkCode::Done)?;
    let mut reader = FrameReader::new(recv, MAX_CONTROL_MESSAGE);
    let ToRelay::Hello(hello) = read(&mut reader).await?.ok_or(LinkCode::Done)? else {
        return Err(LinkCode::Protocol);
    };
    let mut relay_nonce = [0; 32];
    SystemRandom::new()
        .fill(&mut relay_nonce)
        .expect("the system gives random bytes");
    let version = hello
        .versions
        .best_common(VersionRange::CURRENT)
        .ok_or(LinkCode::Protocol)?;
    let terms = Terms::new(hello, origin, relay_nonce, link.exporter())?;
    let challenge = Challenge {
        version,
        relay_nonce,
    };
    write(&mut send, &FromRelay::Challenge(challenge)).await?;
    let ToRelay::Proof(proof) = read(&mut reader).await?.ok_or(LinkCode::Done)? else {
        return Err(LinkCode::Protocol);
    };
    let signed_in = check(&terms, &proof, accounts).await?;
    let control = Control {
        send,
        reader,
        expires_at: deadline(&signed_in),
        terms,
    };
    let proven = Proven {
        role: control.terms.role.clone(),
        instance: control.terms.instance,
        signed_in,
        token: proof.token,
    };
    Ok((control, proven))
}

/// Verifies a proof and looks up who is behind it.
async fn check(terms: &Terms, proof: &Proof, accounts: &Accounts) -> Result<SignedIn, LinkCode> {
    // Signatures first: nothing is looked up for somebody without the keys.
    terms
        .verify(proof)
        .map_err(|BadProof| LinkCode::Unauthenticated)?;
    let signed_in = sign_in(accounts, &proof.token).await?;
    if signed_in.device != proof.device {
        return Err(LinkCode::Unauthenticated);
    }
    if let Some(wing) = &proof.wing {
        match accounts.register_wing(&signed_in.account, wing).await {
            Ok(()) => {}
            Err(RegisterError::NotYours | RegisterError::Superseded) => {
                return Err(LinkCode::Unauthenticated);
            }
            Err(RegisterError::TooMany) => return Err(LinkCode::Busy),
            Err(error @ RegisterError::Unavailable(_)) => {
                tracing::error!(%error, "a wing could not be registered");
                return Err(LinkCode::Busy);
            }
        }
    }
    Ok(signed_in)
}

/// Names the account and device behind a token.
///
/// # Errors
/// What to close the link with. A store that does not answer is no refusal: the dialler
/// may try again with the same token.
pub(crate) async fn sign_in(accounts: &Accounts, token: &str) -> Result<SignedIn, LinkCode> {
    match accounts.authenticate(token).await {
        Ok(signed_in) => Ok(signed_in),
        Err(AuthError::Invalid | AuthError::Revoked) => Err(LinkCode::Unauthenticated),
        Err(error @ AuthError::Unavailable(_)) => {
            tracing::error!(%error, "a token could not be looked up");
            Err(LinkCode::Busy)
        }
    }
}

impl Control {
    /// Tells the link that it may be used.
    ///
    /// # Errors
    /// What to close the link with.
    pub(crate) async fn welcome(&mut self, max_routes: u16) -> Result<(), LinkCode> {
        let welcome = Welcome {
            max_routes,
            expires_in: seconds_left(self.expires_at),
        };
        write(&mut self.send, &FromRelay::Welcome(welcome)).await
    }

    /// Answers until the link ends. Gives what to close it with, if it is still there.
    ///
    /// Whoever proved itself stays the same: a renewal for another account or device is
    /// refused. `go_away` holds the spread once the relay drains.
    pub(crate) async fn serve(
        mut self,
        signed_in: &SignedIn,
        accounts: &Accounts,
        mut go_away: watch::Receiver<Option<Duration>>,
    ) -> LinkCode {
        let mut told = false;
        loop {
            let answer = tokio::select! {
                message = read(&mut self.reader) => match message {
                    Ok(Some(message)) => self.answer(message, signed_in, accounts).await,
                    Ok(None) => return LinkCode::Done,
                    Err(code) => return code,
                },
                () = sleep_until(self.expires_at) => return LinkCode::Expired,
                spread = wait_for_drain(&mut go_away), if !told => {
                    told = true;
                    let spread_ms = u32::try_from(spread.as_millis()).unwrap_or(u32::MAX);
                    write(&mut self.send, &FromRelay::GoAway { spread_ms }).await
                }
            };
            if let Err(code) = answer {
                return code;
            }
        }
    }

    async fn answer(
        &mut self,
        message: ToRelay,
        signed_in: &SignedIn,
        accounts: &Accounts,
    ) -> Result<(), LinkCode> {
        match message {
            ToRelay::Ping(number) => write(&mut self.send, &FromRelay::Pong(number)).await,
            ToRelay::Pong(_) => Ok(()),
            ToRelay::Renew(proof) => {
                let renewed = check(&self.terms, &proof, accounts).await?;
                if (&renewed.account, &renewed.device) != (&signed_in.account, &signed_in.device) {
                    return Err(LinkCode::Unauthenticated);
                }
                self.expires_at = deadline(&renewed);
                let expires_in = seconds_left(self.expires_at);
                write(&mut self.send, &FromRelay::Renewed { expires_in }).await
            }
            ToRelay::Hello(_) | ToRelay::Proof(_) => Err(LinkCode::Protocol),
        }
    }
}

async fn wait_for_drain(go_away: &mut watch::Receiver<Option<Duration>>) -> Duration {
    let spread = go_away
        .wait_for(Option::is_some)
        .await
        .map(|spread| *spread);
    match spread {
        Ok(Some(spread)) => spread,
        // The driver is gone, and the link's task with it at once.
        Ok(None) | Err(_) => pending().await,
    }
}

/// The moment at which a proof runs out, on the clock that no one sets.
fn deadline(signed_in: &SignedIn) -> Instant {
    let left = signed_in.expires_at.duration_since(SystemTime::now());
    Instant::now() + left.unwrap_or(Duration::ZERO)
}

fn seconds_left(until: Instant) -> u32 {
    let left = until.saturating_duration_since(Instant::now()).as_secs();
    u32::try_from(left).unwrap_or(u32::MAX)
}

async fn read(reader: &mut FrameReader) -> Result<Option<ToRelay>, LinkCode> {
    match reader.read_frame().await {
        Ok(Some(bytes)) => decode(&bytes, MAX_CONTROL_MESSAGE)
            .map(Some)
            .map_err(|_| LinkCode::Protocol),
        Ok(None) | Err(wt_link::ReadFrameError::Stream(_)) => Ok(None),
        Err(wt_link::ReadFrameError::Frame(_) | wt_link::ReadFrameError::CutShort) => {
            Err(LinkCode::Protocol)
        }
    }
}

async fn write(send: &mut SendHalf, message: &FromRelay) -> Result<(), LinkCode> {
    let bytes = encode(message, MAX_CONTROL_MESSAGE).expect("what a relay says is short");
    match timeout(WRITE_DEADLINE, write_frame(send, &bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(LinkCode::Done),
        Err(_) => Err(LinkCode::TimedOut),
    }
}

/// What every proof of one link must cover.
#[derive(Debug)]
struct Terms {
    mode: ProofMode,
    role: Role,
    instance: InstanceId,
    origin: String,
    relay_nonce: [u8; 32],
    client_nonce: [u8; 32],
    exporter: Option<[u8; 32]>,
}

/// A proof does not hold. Why is nobody's business but a debugger's.
#[derive(Debug, PartialEq, Eq)]
struct BadProof;

impl Terms {
    /// # Errors
    /// A link that can be bound to its connection must be, and no other can.
    fn new(
        hello: Hello,
        origin: &str,
        relay_nonce: [u8; 32],
        exporter: Option<[u8; 32]>,
    ) -> Result<Self, LinkCode> {
        let due = match exporter {
            Some(_) => ProofMode::Exporter,
            None => ProofMode::Nonce,
        };
        if hello.mode != due {
            return Err(LinkCode::Unauthenticated);
        }
        Ok(Self {
            mode: due,
            role: hello.role,
            instance: hello.instance,
            origin: origin.to_owned(),
            relay_nonce,
            client_nonce: hello.client_nonce,
            exporter,
        })
    }

    /// Checks every signature of a proof, and that it is for the role that was claimed.
    fn verify(&self, proof: &Proof) -> Result<(), BadProof> {
        if proof.token.len() > MAX_TOKEN {
            return Err(BadProof);
        }
        let token_hash = digest(&SHA256, proof.token.as_bytes());
        let bytes = relay_proof(&RelayProof {
            mode: self.mode,
            role: &self.role,
            origin: &self.origin,
            relay_nonce: &self.relay_nonce,
            client_nonce: &self.client_nonce,
            exporter: self.exporter.as_ref().map_or(&[], |value| &value[..]),
            token_hash: token_hash
                .as_ref()
                .try_into()
                .expect("SHA-256 gives 32 bytes"),
            instance: &self.instance,
        });
        verify(proof.device.as_bytes(), &bytes, &proof.device_signature)?;
        match (&self.role, &proof.wing) {
            (Role::Client, None) => Ok(()),
            (Role::Client, Some(_)) | (Role::Wing(_), None) => Err(BadProof),
            (Role::Wing(id), Some(wing)) => {
                let statement = &wing.statement;
                if WingId::of_identity(&wing.identity) != *id || statement.wing != *id {
                    return Err(BadProof);
                }
                verify(wing.identity.as_bytes(), &bytes, &wing.signature)?;
                let stated = noise_key_statement(id, &statement.key, statement.seq);
                verify(wing.identity.as_bytes(), &stated, &statement.signature)
            }
        }
    }
}

fn verify(key: &[u8; 32], bytes: &[u8], signature: &Signature) -> Result<(), BadProof> {
    UnparsedPublicKey::new(&ED25519, key)
        .verify(bytes, signature.as_bytes())
        .map_err(|_| BadProof)
}

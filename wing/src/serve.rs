//! A wing's side of a route: the handshake, and the question whom to admit. What the client
//! came for is in `service`.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use wt_crypto::WingIdentity;
use wt_crypto::{Answer, Responder, ephemeral_of};
use wt_crypto::{Asking, Decision, Role, permits};
use wt_crypto::{Fill, Session};
use wt_egg::pty::platform;
use wt_link::{FrameReader, RecvHalf, SendHalf, write_frame};
use wt_protocol::codes::StreamCode;
use wt_protocol::keys::ClientKey;
use wt_protocol::limits::{
    HANDSHAKE_DEADLINE, HEADER_DEADLINE, MAX_MESSAGE, MAX_PENDING_HANDSHAKES, MAX_STREAM_HEADER,
};
use wt_protocol::rpc::{
    Failure, FailureKind, Principal, PrincipalKind, Request, Response, WingInfo,
};
use wt_protocol::session::{Call, WingMessage};
use wt_protocol::{Close, RouteHeader, StreamHeader, codec};

use crate::admission;
use crate::config::WingConfig;
use crate::error::Error;
use crate::login_path::LoginPath;
use crate::pins::now_ms;
use crate::profile::{Profile, hostname};
use crate::requests::{Requests, Seen};
use crate::sealed::{Sealed, SealedEnd, SealedReader, SealedSender, frames};
use crate::service::{self, Heard, Hears, Host, Lost, Says};
use crate::sessions::Sessions;

/// Handshakes a second that a wing answers. Each costs a third of a millisecond; a relay
/// that floods it takes under 1 % of a core.
const HANDSHAKES_PER_SECOND: NonZeroU32 = NonZeroU32::new(20).expect("20 is not zero");

/// Handshakes at once that a wing answers: a user who reopens every terminal after a cut.
const HANDSHAKE_BURST: NonZeroU32 = NonZeroU32::new(64).expect("64 is not zero");

/// How long an ephemeral key of message 1 is remembered: a replayed one gets no answer.
const REMEMBER_EPHEMERALS: Duration = Duration::from_secs(10 * 60);

/// What every route of a wing shares.
pub(crate) struct Serving {
    profile: Profile,
    sessions: Sessions,
    identity: Arc<WingIdentity>,
    config: RwLock<WingConfig>,
    requests: Requests,
    /// What a login shell has, for the sessions that are made here.
    login: Arc<LoginPath>,
    handshakes: DefaultDirectRateLimiter,
    pending: Arc<Semaphore>,
    seen: Mutex<SeenEphemerals>,
}

/// Why a route ended before anything was asked. None of it is told to the client beyond
/// a number, and none is logged above debug.
#[derive(Debug, thiserror::Error)]
enum RouteError {
    #[error("the route's start did not come in time or was cut")]
    Cut,
    #[error("the route's start does not parse")]
    Malformed,
    #[error("too many handshakes")]
    Busy,
    #[error("a handshake came a second time")]
    Replayed,
    #[error("the handshake failed: {0}")]
    Handshake(#[from] wt_crypto::HandshakeError),
}

impl RouteError {
    fn code(&self) -> StreamCode {
        match self {
            RouteError::Busy => StreamCode::Busy,
            RouteError::Cut
            | RouteError::Malformed
            | RouteError::Replayed
            | RouteError::Handshake(_) => StreamCode::Cancelled,
        }
    }
}

/// A client that was let in.
struct Guest {
    client: ClientKey,
    role: Role,
}

impl Guest {
    fn principal(&self) -> Principal {
        Principal {
            kind: PrincipalKind::Client,
            id: self.client.to_string(),
        }
    }
}

impl Serving {
    pub(crate) fn new(
        profile: &Profile,
        identity: Arc<WingIdentity>,
        config: WingConfig,
    ) -> Result<Self, Error> {
        Ok(Self {
            profile: profile.clone(),
            sessions: profile.sessions(),
            identity,
            config: RwLock::new(config),
            requests: Requests::open(profile)?,
            login: Arc::default(),
            handshakes: RateLimiter::direct(
                Quota::per_second(HANDSHAKES_PER_SECOND).allow_burst(HANDSHAKE_BURST),
            ),
            pending: Arc::new(Semaphore::new(MAX_PENDING_HANDSHAKES)),
            seen: Mutex::new(SeenEphemerals::default()),
        })
    }

    /// Takes new settings; routes that are open keep theirs. The login shell is asked again.
    pub(crate) fn set_config(&self, config: WingConfig) {
        self.login.forget();
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    pub(crate) fn config(&self) -> WingConfig {
        self.config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Serves one route from its first byte to its end.
    pub(crate) async fn route(&self, send: SendHalf, recv: RecvHalf) {
        let Ok(_pending) = Arc::clone(&self.pending).try_acquire_owned() else {
            refuse(send, StreamCode::Busy);
            return;
        };
        let mut send = send;
        let (session, frames) = match self.handshake(&mut send, recv).await {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                send.finish();
                return;
            }
            Err(error) => {
                tracing::debug!(%error, "a route was refused");
                refuse(send, error.code());
                return;
            }
        };
        let Some(client) = session.client_key() else {
            return;
        };
        let Sealed { mut reader, sender } = Sealed::start(session, frames, send);
        // The first record proves that the client holds its key: only now anything may act.
        let Ok(Ok(first)) = timeout(HANDSHAKE_DEADLINE, reader.next()).await else {
            return;
        };
        drop(_pending);
        let Some(guest) = self.admit(client) else {
            sender.close(Close::NotAdmitted).await;
            return;
        };
        let visit = Visit {
            serving: self,
            guest,
        };
        match service::converse(&visit, heard(&first), reader, &mut &sender).await {
            Ok(close) => sender.close(close).await,
            Err(end) => tracing::debug!(%end, "a route ended"),
        }
    }

    /// Answers message 1; the same for every client. None when there is no common version.
    async fn handshake(
        &self,
        send: &mut SendHalf,
        recv: RecvHalf,
    ) -> Result<Option<(Session, FrameReader)>, RouteError> {
        let mut frames = frames(recv);
        let header = read_header(&mut frames).await?;
        let message_1 = timeout(HANDSHAKE_DEADLINE, frames.read_frame())
            .await
            .ok()
            .and_then(Result::ok)
            .flatten()
            .ok_or(RouteError::Cut)?;
        self.handshakes.check().map_err(|_| RouteError::Busy)?;
        let ephemeral = ephemeral_of(&message_1).ok_or(RouteError::Malformed)?;
        let fresh = self
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .enter(ephemeral, Instant::now());
        if !fresh {
            return Err(RouteError::Replayed);
        }
        let (answer, message_2) = Responder::read(
            self.identity.noise(),
            &self.identity.wing_id(),
            &header,
            &message_1,
        )?;
        write_frame(send, &message_2)
            .await
            .map_err(|_| RouteError::Cut)?;
        match answer {
            Answer::Session(session) => Ok(Some((session, frames))),
            Answer::Incompatible(incompatible) => {
                let mut out = Vec::new();
                incompatible.close(&mut out);
                send.write_all(&out).await.map_err(|_| RouteError::Cut)?;
                Ok(None)
            }
        }
    }

    /// Looks a client up on the wing's own list. A list that cannot be read admits nobody.
    fn admit(&self, client: ClientKey) -> Option<Guest> {
        let list = match admission::read(&self.profile) {
            Ok(list) => list,
            Err(error) => {
                tracing::error!(%error, "nobody is admitted");
                return None;
            }
        };
        let asking = Asking::alone(&client);
        match list.decide(self.config().admission(), &asking, now_ms()) {
            Decision::Admitted(admitted) => Some(Guest {
                client,
                role: admitted.terms.role,
            }),
            decision @ (Decision::NeedsPasskey
            | Decision::Unconfirmed
            | Decision::MayWait
            | Decision::Unknown
            | Decision::Expired
            | Decision::Revoked) => {
                tracing::info!(%client, ?decision, "a client was not admitted");
                None
            }
        }
    }

    async fn call(&self, guest: &Guest, call: Call) -> Result<Response, Failure> {
        if !permits(guest.role, &call.request) {
            let message = format!(
                "this client is an {} of this wing, which may not do that",
                guest.role
            );
            return Err(Failure::new(FailureKind::Refused, message)
                .hint("ask the wing's owner for another role"));
        }
        if !call.request.is_acting() {
            return self.answer(guest, call.request).await;
        }
        match self.requests.begin(&guest.client, &call.id)? {
            Seen::Done(outcome) => outcome,
            Seen::Begun => Err(Failure::new(
                FailureKind::Failed,
                "the same request was begun before, and whether it was done is not known",
            )
            .hint("look at `wt session ps`")),
            Seen::New => {
                let outcome = self.answer(guest, call.request).await;
                self.requests.finish(&guest.client, &call.id, &outcome)?;
                outcome
            }
        }
    }

    async fn answer(&self, guest: &Guest, request: Request) -> Result<Response, Failure> {
        if let Request::WingInfo = request {
            return self.info().map(Response::WingInfo);
        }
        let terms = || {
            let caller = crate::profile::variables();
            Ok(self.config().terms_of_daemon(caller, &self.login))
        };
        let sessions = self.sessions.acting_for(guest.principal());
        sessions.answer(request, terms).await
    }

    fn info(&self) -> Result<WingInfo, Failure> {
        let config = self.config();
        Ok(WingInfo {
            label: config.label(),
            hostname: hostname(),
            platform: platform(),
            version: crate::VERSION.to_owned(),
            admission: config.admission().to_string(),
            sessions: self.sessions.living()? as u32,
        })
    }
}

/// What a guest may ask of this wing.
struct Visit<'a> {
    serving: &'a Serving,
    guest: Guest,
}

impl Host for Visit<'_> {
    fn sessions(&self) -> Sessions {
        self.serving.sessions.acting_for(self.guest.principal())
    }

    fn may_act(&self) -> bool {
        self.guest.role >= Role::Operator
    }

    async fn call(&self, call: Call) -> Result<Response, Failure> {
        self.serving.call(&self.guest, call).await
    }
}

impl Hears for SealedReader {
    async fn hear(&mut self) -> Result<Heard, Lost> {
        match self.next().await {
            Ok(message) => Ok(heard(&message)),
            Err(SealedEnd::Closed(_)) => Ok(Heard::Gone),
            Err(end) => Err(end.into()),
        }
    }

    fn deafness(&self) -> impl Future<Output = ()> + Send + 'static {
        let gone = self.writer_gone();
        async move { gone.notified().await }
    }
}

impl Says for &SealedSender {
    async fn say(&mut self, message: &WingMessage) -> Result<(), Lost> {
        Ok(say(self, message).await?)
    }
}

fn heard(message: &[u8]) -> Heard {
    codec::decode(message, MAX_MESSAGE).map_or(Heard::Nonsense, Heard::Message)
}

/// Sends a message. The size of a snapshot does not show, only how many full records it has.
async fn say(sender: &SealedSender, message: &WingMessage) -> Result<(), SealedEnd> {
    let fill = match message {
        WingMessage::Snapshot { .. } => Fill::Full,
        _ => Fill::Bucket,
    };
    let bytes = codec::encode(message, MAX_MESSAGE).map_err(|_| SealedEnd::LinkLost)?;
    sender.send(bytes, fill).await
}

async fn read_header(frames: &mut FrameReader) -> Result<RouteHeader, RouteError> {
    let frame = timeout(HEADER_DEADLINE, frames.read_frame())
        .await
        .ok()
        .and_then(Result::ok)
        .flatten()
        .ok_or(RouteError::Cut)?;
    match codec::decode(&frame, MAX_STREAM_HEADER) {
        Ok(StreamHeader::Route(header)) => Ok(header),
        Err(_) => Err(RouteError::Malformed),
    }
}

fn refuse(mut send: SendHalf, code: StreamCode) {
    send.reset(code);
}

/// Ephemeral keys of the last minutes. The rate of handshakes bounds how many.
#[derive(Debug, Default)]
struct SeenEphemerals {
    known: HashSet<[u8; 32]>,
    order: VecDeque<(Instant, [u8; 32])>,
}

impl SeenEphemerals {
    /// Enters a key; false when it was there.
    fn enter(&mut self, key: [u8; 32], now: Instant) -> bool {
        while self
            .order
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) > REMEMBER_EPHEMERALS)
        {
            if let Some((_, old)) = self.order.pop_front() {
                self.known.remove(&old);
            }
        }
        if !self.known.insert(key) {
            return false;
        }
        self.order.push_back((now, key));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ephemeral_key_is_taken_once_in_ten_minutes() {
        let mut seen = SeenEphemerals::default();
        let start = Instant::now();

        assert!(seen.enter([1; 32], start));
        assert!(!seen.enter([1; 32], start + REMEMBER_EPHEMERALS));
        assert!(seen.enter([2; 32], start + REMEMBER_EPHEMERALS));
        assert!(seen.enter(
            [1; 32],
            start + REMEMBER_EPHEMERALS + Duration::from_secs(1)
        ));
        assert_eq!(seen.known.len(), 2);
    }
}

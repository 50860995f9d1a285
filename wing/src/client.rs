//! The native client: finds wings, checks that they are who they were, and reaches them.
//!
//! What a relay says of a wing is a hint. Which wing a name stands for is decided by the
//! pins, a wing's keys are checked against its id, and a handshake proves the rest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wt_crypto::Fill;
use wt_crypto::{Change, Fingerprint, PinRefusal, Pins, Presented, ResolveError, Resolved};
use wt_crypto::{ClientSecret, VerifiedWing, random, verify_statement};
use wt_crypto::{HandshakeError, Initiator};
use wt_link::write_frame;
use wt_protocol::api::{Roster, RosterWing};
use wt_protocol::codes::StreamCode;
use wt_protocol::limits::{HANDSHAKE_DEADLINE, MAX_MESSAGE, MAX_STREAM_HEADER};
use wt_protocol::rpc::{Request, Response, SessionEvent, WingInfo};
use wt_protocol::session::{Call, ClientMessage, WingMessage};
use wt_protocol::{
    Close, PROTOCOL_VERSION, RequestId, RouteHeader, RouteNonce, StreamHeader, VersionRange,
    WingId, WingLabel, codec,
};

use crate::error::{Error, ErrorCode};
use crate::http::Http;
use crate::login::signed_in;
use crate::pins::{self, now_ms};
use crate::profile::{Profile, RoostLogin};
use crate::sealed::{Sealed, SealedEnd, frames};
use crate::uplink::{Dialling, Kept, Uplink};

/// How long one wing may take to answer a probe.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// How long a wing may take over a request: a start or a kill waits for processes.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How often an acting request is sent again under its id when the link was lost.
const CALL_TRIES: u32 = 3;

/// Wings that are probed at once. A client link carries 16 routes.
const PROBES_AT_ONCE: usize = 12;

/// One signed-in client.
pub struct Client {
    profile: Profile,
    login: RoostLogin,
    secret: ClientSecret,
    dialling: Arc<Dialling>,
    /// The link, while there is one.
    link: Mutex<Option<Kept>>,
}

/// How a wing compares with its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PinState {
    /// It was not known; it is pinned now.
    FirstSeen,
    /// It is as it was.
    Match,
    /// It presents the label of another wing that is pinned and there.
    LabelConflict,
    /// It is not who it was.
    Mismatch,
    /// It was not asked.
    Unprobed,
    /// It said that its identity must not be trusted any more.
    Revoked,
}

/// One row of the list of wings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WingRow {
    /// The wing.
    pub wing_id: WingId,
    /// This client's name for it, or what it calls itself.
    pub label: Option<WingLabel>,
    /// Whether the relay says that it is connected.
    pub online: bool,
    /// Its id in groups, for comparing.
    pub fingerprint: String,
    /// How it compares with its pin.
    pub pin: PinState,
    /// Its machine's name.
    pub hostname: Option<String>,
    /// Its operating system and architecture.
    pub platform: Option<String>,
    /// Its version of wingthing.
    pub version: Option<String>,
    /// How it admits clients.
    pub admission: Option<String>,
    /// Its living sessions.
    pub sessions: Option<u32>,
    /// How long it took to answer, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Why it could not be asked.
    pub error: Option<String>,
}

/// A wing that a name stands for.
#[derive(Clone)]
pub struct WingHandle {
    client: Arc<Client>,
    wing: VerifiedWing,
    /// A route on which a question was answered, for the next one: pages of a long output
    /// and looks at a screen cost one handshake together.
    asked: Arc<Mutex<Option<Sealed>>>,
    /// What the user calls it.
    name: String,
    /// Things to tell the user on the side.
    pub notices: Vec<String>,
}

impl Client {
    /// Prepares to reach the wings of the profile's account. Nothing is dialled yet.
    ///
    /// # Errors
    /// That the profile is not signed in to that roost.
    pub fn open(profile: &Profile, roost: Option<&str>) -> Result<Arc<Self>, Error> {
        let login = signed_in(profile, roost)?;
        // A pin file that cannot be used stops every command before anything is sent.
        pins::read(profile)?;
        Ok(Arc::new(Self {
            profile: profile.clone(),
            secret: profile.client_secret()?,
            dialling: Dialling::new(profile, Uplink::QuicAtWork),
            link: Mutex::new(None),
            login,
        }))
    }

    /// Ends the link in order. Without it the relay keeps a place for this client until the
    /// silence tells.
    pub async fn close(&self) {
        self.link.lock().await.take();
        self.dialling.said_goodbye().await;
    }

    /// The roost's origin.
    pub fn roost(&self) -> &str {
        &self.login.origin
    }

    /// The account's wings, and with `probe` what each one says of itself inside the seal.
    ///
    /// # Errors
    /// That the roost cannot be asked. A wing that cannot be reached is a row with an error.
    pub async fn wings(self: &Arc<Self>, probe: bool) -> Result<Vec<WingRow>, Error> {
        let roster = self.roster().await?;
        let pins = pins::read(&self.profile)?;
        let mut rows: Vec<WingRow> = roster
            .wings
            .iter()
            .map(|wing| known_row(wing, &pins))
            .collect();
        if !probe {
            return Ok(rows);
        }
        let probes = self.probe(&roster).await;
        let presented: Vec<(WingId, Option<WingLabel>)> = probes
            .iter()
            .map(|(id, probe)| {
                (
                    id.clone(),
                    probe.as_ref().ok().map(|(_, info, _)| info.label.clone()),
                )
            })
            .collect();
        pins::update(&self.profile, |pins| {
            for (id, probe) in probes {
                let Some(row) = rows.iter_mut().find(|row| row.wing_id == id) else {
                    continue;
                };
                match probe {
                    Ok((wing, info, rtt)) => {
                        self.enter_probe(row, pins, &wing, info, rtt, &presented)
                    }
                    Err(error) => {
                        if error.code == ErrorCode::IdentityMismatch {
                            row.pin = PinState::Mismatch;
                        }
                        row.error = Some(error.message);
                    }
                }
            }
            Ok(())
        })?;
        Ok(rows)
    }

    fn enter_probe(
        &self,
        row: &mut WingRow,
        pins: &mut Pins,
        wing: &VerifiedWing,
        info: WingInfo,
        rtt: Duration,
        presented: &[(WingId, Option<WingLabel>)],
    ) {
        // Two newcomers with one label: neither gets the name by chance.
        let is_shared = presented
            .iter()
            .any(|(id, label)| id != wing.wing_id() && label.as_ref() == Some(&info.label));
        let label = (!is_shared).then_some(&info.label);
        match pins.observe(wing, label, Some(&self.login.origin), now_ms()) {
            Ok(observation) => {
                row.pin = match observation.change {
                    Change::FirstSeen => PinState::FirstSeen,
                    Change::Match | Change::Rotated { .. } => PinState::Match,
                };
                if let Some(conflict) = observation.conflict {
                    let pinned_is_there = presented
                        .iter()
                        .any(|(id, label)| *id == conflict.pinned && label.is_some());
                    row.pin = if pinned_is_there {
                        PinState::LabelConflict
                    } else {
                        PinState::Mismatch
                    };
                    row.error = Some(format!(
                        "it calls itself {}, which is your name for {}",
                        conflict.label,
                        Fingerprint::of_wing(&conflict.pinned)
                    ));
                }
            }
            Err(refusal) => {
                row.pin = PinState::Mismatch;
                row.error = Some(refusal.to_string());
            }
        }
        let pinned_label = pins
            .get(wing.wing_id())
            .and_then(|pin| pin.label().cloned());
        row.label = pinned_label.or(Some(info.label));
        row.hostname = Some(info.hostname);
        row.platform = Some(info.platform);
        row.version = Some(info.version);
        row.admission = Some(info.admission);
        row.sessions = Some(info.sessions);
        row.rtt_ms = Some((rtt.as_secs_f64() * 100_000.0).round() / 100.0);
    }

    /// Finds the one wing that a name stands for: an id, a prefix of a pinned id, or a label.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`]; [`ErrorCode::IdentityMismatch`] when another wing answers
    /// to a pinned name; [`ErrorCode::Unreachable`] when it is not connected.
    pub async fn wing(self: &Arc<Self>, name: &str) -> Result<WingHandle, Error> {
        let roster = self.roster().await?;
        let pins = pins::read(&self.profile)?;
        let first = pins.resolve(name, &[]);
        let is_label = name.parse::<WingLabel>().is_ok();
        let is_there = |id: &WingId| {
            let mut online = roster.wings.iter().filter(|wing| wing.online);
            online.any(|wing| wing.wing_id == *id)
        };
        let needs_asking = match &first {
            Ok(resolved) => is_label && !is_there(&resolved.wing_id),
            Err(ResolveError::NotFound(_)) => is_label,
            Err(_) => false,
        };
        let resolved = if needs_asking {
            self.ask_around(name, &roster, &pins).await?
        } else {
            first.map_err(|e| unresolved(&e))?
        };
        let Some(entry) = roster
            .wings
            .iter()
            .find(|wing| wing.wing_id == resolved.wing_id)
        else {
            let message = format!("{} has no wing {name} of this account", self.login.origin);
            return Err(Error::new(ErrorCode::NotFound, message).hint("list them with `wt wings`"));
        };
        let wing = self.check(entry)?;
        if !entry.online {
            return Err(Error::new(
                ErrorCode::Unreachable,
                format!("the wing {name} is not connected"),
            )
            .hint("start it on its machine: wt start"));
        }
        let mut notices: Vec<String> = resolved
            .conflicts
            .iter()
            .map(|conflict| {
                format!(
                    "another wing, {}, calls itself {} too; you reach the one you know, {}",
                    Fingerprint::of_wing(&conflict.offered),
                    conflict.label,
                    Fingerprint::of_wing(&conflict.pinned)
                )
            })
            .collect();
        let mut handle = WingHandle {
            client: Arc::clone(self),
            wing,
            asked: Arc::default(),
            name: name.to_owned(),
            notices: Vec::new(),
        };
        // Before the name is bound, the wing proves that it is there and is who it is.
        if let Err(error) = handle.open().await {
            let is_silent = matches!(error.code, ErrorCode::Unreachable | ErrorCode::TimedOut);
            if is_silent && is_label {
                // Another wing that answers to its name is worth more words than a silence.
                self.ask_around(name, &roster, &pins).await?;
            }
            return Err(error);
        }
        let origin = self.login.origin.clone();
        let change = pins::update(&self.profile, |pins| {
            let observation = pins
                .observe(
                    &handle.wing,
                    resolved.binds.as_ref(),
                    Some(&origin),
                    now_ms(),
                )
                .map_err(|e| refused_pin(&e))?;
            Ok(observation.change)
        })?;
        if change == Change::FirstSeen || resolved.binds.is_some() {
            notices.push(format!(
                "{name} is the wing {} from now on; compare with `wt wing id` on its machine",
                handle.wing.wing_id().grouped()
            ));
        }
        handle.notices = notices;
        Ok(handle)
    }

    /// Asks every wing what it calls itself, and finds the one that a name stands for.
    async fn ask_around(
        self: &Arc<Self>,
        name: &str,
        roster: &Roster,
        pins: &Pins,
    ) -> Result<Resolved, Error> {
        let mut presented = Vec::new();
        let mut closed = None;
        for (wing_id, probe) in self.probe(roster).await {
            match probe {
                Ok((_, info, _)) => presented.push(Presented {
                    wing_id,
                    label: info.label,
                }),
                Err(error) if error.code == ErrorCode::Refused => closed = Some(error),
                Err(_) => {}
            }
        }
        match (pins.resolve(name, &presented), closed) {
            // The wing meant may be one that does not say its name to this client.
            (Err(ResolveError::NotFound(_)), Some(closed)) => Err(closed),
            (resolved, _) => resolved.map_err(|e| unresolved(&e)),
        }
    }

    async fn roster(&self) -> Result<Roster, Error> {
        let http = Http::new(&self.login.origin)?;
        let device = self.profile.device_secret()?;
        let token = http.token(&device).await?;
        http.wings(&device, &token.access_token).await
    }

    /// Checks what the relay says of a wing against its id and its pin.
    fn check(&self, entry: &RosterWing) -> Result<VerifiedWing, Error> {
        let wing = verify_statement(&entry.wing_id, &entry.identity, &entry.statement).map_err(
            |error| {
                let message = format!(
                    "the relay offers a key that is not of the wing {}: it belongs to {} ({error})",
                    Fingerprint::of_wing(&entry.wing_id),
                    Fingerprint::of_wing(&WingId::of_identity(&entry.identity)),
                );
                Error::new(ErrorCode::IdentityMismatch, message).hint(
                    "do not use this relay for this wing; compare with `wt wing id` on its machine",
                )
            },
        )?;
        pins::read(&self.profile)?
            .compare(&wing)
            .map_err(|e| refused_pin(&e))?;
        Ok(wing)
    }

    /// Asks every wing that is online who it is, all at once.
    async fn probe(
        self: &Arc<Self>,
        roster: &Roster,
    ) -> Vec<(WingId, Result<(VerifiedWing, WingInfo, Duration), Error>)> {
        let slots = Arc::new(tokio::sync::Semaphore::new(PROBES_AT_ONCE));
        let mut probing = JoinSet::new();
        for entry in roster.wings.iter().cloned() {
            let client = Arc::clone(self);
            let slots = Arc::clone(&slots);
            probing.spawn(async move {
                let asking = async {
                    let wing = client.check(&entry)?;
                    if !entry.online {
                        return Err(Error::new(ErrorCode::Unreachable, "it is not connected"));
                    }
                    let _slot = slots.acquire().await.map_err(Error::failed)?;
                    let name = entry.wing_id.to_string();
                    let handle = WingHandle {
                        client,
                        wing: wing.clone(),
                        asked: Arc::default(),
                        name,
                        notices: Vec::new(),
                    };
                    let started = Instant::now();
                    match handle
                        .try_call(Request::WingInfo, RequestId::from_bytes(random()))
                        .await?
                    {
                        Response::WingInfo(info) => Ok((wing, info, started.elapsed())),
                        _ => Err(Error::failed("it gave an answer that does not fit")),
                    }
                };
                let probe = timeout(PROBE_DEADLINE, asking).await.unwrap_or_else(|_| {
                    Err(Error::new(ErrorCode::TimedOut, "it did not answer in time"))
                });
                (entry.wing_id, probe)
            });
        }
        let mut probes = probing.join_all().await;
        probes.sort_by(|a, b| a.0.cmp(&b.0));
        probes
    }

    /// The link, dialled if there is none.
    async fn link(&self) -> Result<wt_link::Link, Error> {
        let mut link = self.link.lock().await;
        if let Some(kept) = &*link
            && timeout(Duration::ZERO, kept.link.closed()).await.is_err()
        {
            return Ok(kept.link.clone());
        }
        let kept = self.dialling.dial(&self.login, None).await?;
        let dialled = kept.link.clone();
        *link = Some(kept);
        Ok(dialled)
    }
}

impl WingHandle {
    /// The wing's id.
    pub fn id(&self) -> &WingId {
        self.wing.wing_id()
    }

    /// Asks the wing something. An acting request is sent again under its id after a cut,
    /// and done once.
    ///
    /// # Errors
    /// What the wing says, or that it cannot be reached.
    pub async fn call(&self, request: Request) -> Result<Response, Error> {
        let id = RequestId::from_bytes(random());
        let kept = match request.is_acting() {
            true => None,
            false => self.asked.lock().await.take(),
        };
        if let Some(sealed) = kept {
            let asked = timeout(CALL_DEADLINE, self.ask(sealed, request.clone(), id)).await;
            match asked {
                Err(_) => return Err(self.too_late()),
                // The route is gone, which a new one need not be.
                Ok(Err(error)) if error.code == ErrorCode::Unreachable => {}
                Ok(result) => return result,
            }
        }
        let mut tries = 1;
        loop {
            let called = timeout(CALL_DEADLINE, self.try_call(request.clone(), id)).await;
            match called {
                Err(_) => return Err(self.too_late()),
                Ok(Err(error)) if error.code == ErrorCode::Unreachable && tries < CALL_TRIES => {
                    tries += 1
                }
                Ok(result) => return result,
            }
        }
    }

    async fn try_call(&self, request: Request, id: RequestId) -> Result<Response, Error> {
        let sealed = self.open().await?;
        self.ask(sealed, request, id).await
    }

    /// Asks on a route of its own, which is kept for the next question.
    async fn ask(
        &self,
        sealed: Sealed,
        request: Request,
        id: RequestId,
    ) -> Result<Response, Error> {
        let Sealed { mut reader, sender } = sealed;
        let is_acting = request.is_acting();
        let call = ClientMessage::Call(Call { id, request });
        let bytes = codec::encode(&call, MAX_MESSAGE).map_err(Error::failed)?;
        sender
            .send(bytes, Fill::Bucket)
            .await
            .map_err(|e| self.lost(e))?;
        let answer = reader.next().await.map_err(|e| self.lost(e))?;
        let message = codec::decode::<WingMessage>(&answer, MAX_MESSAGE).map_err(Error::failed)?;
        let is_reply = matches!(message, WingMessage::Reply(_));
        if is_reply && !is_acting {
            let before = self.asked.lock().await.replace(Sealed { reader, sender });
            if let Some(Sealed { sender, .. }) = before {
                sender.close(Close::Done).await;
            }
        } else {
            sender.close(Close::Done).await;
        }
        match message {
            WingMessage::Reply(reply) if reply.id == id => Ok(reply.result?),
            WingMessage::Refused(failure) => Err(failure.into()),
            _ => Err(Error::failed(format!(
                "the wing {} gave an answer that does not fit",
                self.name
            ))),
        }
    }

    /// Tells what happens to one session of the wing, or to all. Returns when the one
    /// session ended, or nobody listens any more.
    ///
    /// # Errors
    /// What the wing says, or that it cannot be reached, or not any more: what happens
    /// after that would be missing.
    pub async fn watch(
        &self,
        session: Option<String>,
        events: mpsc::Sender<SessionEvent>,
    ) -> Result<(), Error> {
        let Sealed { mut reader, sender } = self.open().await?;
        let watch = ClientMessage::Watch { session };
        let bytes = codec::encode(&watch, MAX_MESSAGE).map_err(Error::failed)?;
        sender
            .send(bytes, Fill::Bucket)
            .await
            .map_err(|e| self.lost(e))?;
        loop {
            let message = tokio::select! {
                message = reader.next() => message,
                () = events.closed() => {
                    sender.close(Close::Done).await;
                    return Ok(());
                }
            };
            let bytes = match message {
                Ok(bytes) => bytes,
                Err(SealedEnd::Closed(Close::Done)) => return Ok(()),
                Err(end) => return Err(self.lost(end)),
            };
            match codec::decode::<WingMessage>(&bytes, MAX_MESSAGE).map_err(Error::failed)? {
                WingMessage::Event(event) => {
                    // Nobody listens shows at the next turn.
                    let _ = events.send(event).await;
                }
                WingMessage::Refused(failure) => return Err(failure.into()),
                _ => return Err(self.closed(Close::Protocol)),
            }
        }
    }

    /// Opens a route and makes the handshake.
    pub(crate) async fn open(&self) -> Result<Sealed, Error> {
        let link = self.client.link().await?;
        let unreachable = |cause: &dyn std::fmt::Display| {
            Error::new(ErrorCode::Unreachable, format!("{}: {cause}", self.name))
        };
        let header = RouteHeader {
            wing: self.wing.wing_id().clone(),
            nonce: RouteNonce::from_bytes(random()),
            versions: VersionRange::CURRENT,
        };
        let (initiator, message_1) = Initiator::start(&self.client.secret, &self.wing, &header);
        let opening = async {
            let (mut send, recv) = link.open().await.map_err(|e| unreachable(&e))?;
            let header = codec::encode(&StreamHeader::Route(header), MAX_STREAM_HEADER)
                .map_err(Error::failed)?;
            let sent = async {
                write_frame(&mut send, &header).await?;
                write_frame(&mut send, &message_1).await
            };
            let sent = sent.await;
            let mut frames = frames(recv);
            // A refusal shows where the answer is read, with its reason.
            match frames.read_frame().await {
                Ok(Some(message_2)) => Ok((send, frames, message_2)),
                Ok(None) => Err(unreachable(&"the wing did not answer")),
                Err(wt_link::ReadFrameError::Stream(end)) => Err(self.lost(end.into())),
                Err(error) => {
                    Err(sent.map_or_else(|end| self.lost(end.into()), |()| unreachable(&error)))
                }
            }
        };
        let (send, frames, message_2) = timeout(HANDSHAKE_DEADLINE, opening)
            .await
            .unwrap_or_else(|_| Err(unreachable(&"the wing did not answer in time")))?;
        let session = initiator.finish(&message_2).map_err(|error| match error {
            HandshakeError::Version { newest } => self.closed(Close::Version(newest)),
            _ => {
                let message = format!(
                    "whoever answered for {} did not prove to be the wing {}",
                    self.name,
                    Fingerprint::of_wing(self.wing.wing_id())
                );
                Error::new(ErrorCode::IdentityMismatch, message)
                    .hint("compare with `wt wing id` on its machine")
            }
        })?;
        Ok(Sealed::start(session, frames, send))
    }

    /// What a wing's own close means.
    pub(crate) fn closed(&self, close: Close) -> Error {
        let name = &self.name;
        match close {
            Close::NotAdmitted => Error::new(
                ErrorCode::Refused,
                format!("the wing {name} does not admit this client"),
            )
            .hint(format!(
                "on its machine: wt wing allow {}",
                self.client.secret.public()
            )),
            Close::Version(newest) => {
                let message = format!(
                    "the wing {name} speaks protocol {newest}, and this program {PROTOCOL_VERSION}"
                );
                Error::failed(message).hint(if newest < PROTOCOL_VERSION {
                    "upgrade wingthing on the wing's machine"
                } else {
                    "upgrade wingthing on this machine"
                })
            }
            Close::Done | Close::Replaced | Close::Restarting => Error::new(
                ErrorCode::Unreachable,
                format!("the wing {name} closed the session"),
            ),
            Close::Protocol => {
                Error::failed(format!("the wing {name} did not understand this program"))
            }
        }
    }

    fn too_late(&self) -> Error {
        let message = format!("the wing {} did not answer in time", self.name);
        Error::new(ErrorCode::TimedOut, message)
    }

    fn lost(&self, end: SealedEnd) -> Error {
        match end {
            SealedEnd::Closed(close) => self.closed(close),
            SealedEnd::Reset(StreamCode::NotFound) => Error::new(
                ErrorCode::NotFound,
                format!("{}: {}", self.name, StreamCode::NotFound),
            ),
            end => Error::new(ErrorCode::Unreachable, format!("{}: {end}", self.name)),
        }
    }
}

/// A row from what relay and pins say, before the wing itself is asked.
fn known_row(wing: &RosterWing, pins: &Pins) -> WingRow {
    let pin = pins.get(&wing.wing_id);
    WingRow {
        wing_id: wing.wing_id.clone(),
        label: pin.and_then(|pin| pin.label().cloned()),
        online: wing.online,
        fingerprint: Fingerprint::of_wing(&wing.wing_id).to_string(),
        pin: PinState::Unprobed,
        hostname: None,
        platform: None,
        version: None,
        admission: None,
        sessions: None,
        rtt_ms: None,
        error: None,
    }
}

/// Forgets a pinned wing; a wing with that label then needs its full id.
///
/// # Errors
/// [`ErrorCode::NotFound`], or a pin file that cannot be used.
pub fn forget(profile: &Profile, name: &str) -> Result<WingId, Error> {
    pins::update(profile, |pins| {
        pins.forget(name, now_ms())
            .map(|forgotten| forgotten.wing_id)
            .map_err(|e| unresolved(&e))
    })
}

fn unresolved(error: &ResolveError) -> Error {
    let (code, hint) = match error {
        ResolveError::NotFound(_) => (ErrorCode::NotFound, "list wings with `wt wings`"),
        ResolveError::Ambiguous { .. } => (ErrorCode::NotFound, "give one of these ids"),
        ResolveError::Mismatch { .. } => (
            ErrorCode::IdentityMismatch,
            "compare with `wt wing id` on its machine; to use the other wing, give its full id",
        ),
        ResolveError::Forgotten { .. } => (ErrorCode::NotFound, "give the full id once"),
        ResolveError::KnownAs { .. } => (ErrorCode::NotFound, "use the name that you know it by"),
    };
    Error::new(code, error.to_string()).hint(hint)
}

fn refused_pin(refusal: &PinRefusal) -> Error {
    Error::new(ErrorCode::IdentityMismatch, refusal.to_string())
        .hint("compare with `wt wing id` on its machine")
}

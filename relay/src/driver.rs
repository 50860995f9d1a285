//! The shell around the core: links come in, the core decides, streams are spliced.
//!
//! Each link is one task: it proves itself (`control`), is entered into the [`Core`],
//! and is then served until it ends. Each route is one more. All of them are counted by
//! one tracker, and [`Driver::drain`] ends them within a stated time. The core and the
//! links that it knows stand behind one lock, which is held for single decisions and never
//! across an await: once per link and once per route, never per chunk.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wt_link::quic::{Endpoint, Incoming};
use wt_link::{FrameReader, Link, RecvHalf, SendHalf, memory, write_frame};
use wt_protocol::codec::decode;
use wt_protocol::codes::{LinkCode, StreamCode};
use wt_protocol::control::Role;
use wt_protocol::keys::DeviceKey;
use wt_protocol::limits::{HEADER_DEADLINE, MAX_STREAM_HEADER};
use wt_protocol::{StreamHeader, WingId};
use wt_relay_core::{
    Account, Command, Core, Counts, Limits, LinkId, NewLink, Refused, Registered, RouteId,
};

use crate::accounts::{AccountId, Accounts};
use crate::control::{self, Control, Proven};
use crate::splice::{Counters, Stream, splice};

/// Links that may be under way without having proved themselves.
///
/// Each costs a TLS handshake and a small window for 5 s at most. 512 of them keep both
/// cores of a small machine busy for a quarter of a second.
const MAX_UNPROVEN: usize = 512;

/// From so many unproven links on, a dialler must first show that it receives at its
/// address, so that a flood of forged addresses holds no place.
const VALIDATE_ABOVE: usize = 256;

/// Handshakes that one core completes in a second (measured), and the share of them that
/// links coming back after a drain may take.
const HANDSHAKES_PER_CORE: u64 = 2_000;
const HANDSHAKE_SHARE: u64 = 4;

/// Shortest spread of a drain: a single link need not come back in the very moment.
const MIN_SPREAD: Duration = Duration::from_millis(200);

/// After links were closed, their tasks have this long to notice.
const CLOSING: Duration = Duration::from_secs(1);

/// What an operator sets.
#[derive(Debug, Clone)]
pub struct DriverConfig {
    /// The roost's origin, which every proof must cover.
    pub origin: String,
    /// What one account may use.
    pub limits: Limits,
    /// A reader that takes nothing for this long, while data waits, loses its route.
    ///
    /// Default 30 s. Its data pins one stream window (256 KiB) until then.
    pub patience: Duration,
}

impl DriverConfig {
    /// The defaults, for a roost with this origin.
    pub fn new(origin: impl Into<String>) -> Self {
        Self {
            origin: origin.into(),
            limits: Limits::default(),
            patience: Duration::from_secs(30),
        }
    }
}

/// What passed through since the relay started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from clients to wings.
    pub to_wings: u64,
    /// Bytes from wings to clients.
    pub to_clients: u64,
    /// Routes ended because a reader took nothing for too long.
    pub slow_consumers: u64,
}

/// Serves links. Cheap to clone; any task may call it.
#[derive(Clone)]
pub struct Driver(Arc<Shared>);

struct Shared {
    accounts: Accounts,
    config: DriverConfig,
    started: Instant,
    state: Mutex<State>,
    counters: Arc<Counters>,
    unproven: Arc<Semaphore>,
    /// Holds the spread once the relay drains.
    go_away: watch::Sender<Option<Duration>>,
    /// Every link and every route.
    tasks: TaskTracker,
}

struct State {
    core: Core,
    /// Exactly the links that the core knows.
    links: HashMap<LinkId, Link>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Makes a driver that serves nobody yet.
    pub fn new(accounts: Accounts, config: DriverConfig) -> Self {
        let state = State {
            core: Core::new(config.limits.clone()),
            links: HashMap::new(),
        };
        Self(Arc::new(Shared {
            accounts,
            config,
            started: Instant::now(),
            state: Mutex::new(state),
            counters: Arc::default(),
            unproven: Arc::new(Semaphore::new(MAX_UNPROVEN)),
            go_away: watch::Sender::new(None),
            tasks: TaskTracker::new(),
        }))
    }

    /// Accepts links until `shutdown`. Those that were accepted go on: end them with
    /// [`Self::drain`], and then the endpoint with [`Endpoint::close`].
    pub async fn serve(&self, endpoint: Endpoint, shutdown: CancellationToken) {
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming,
                () = shutdown.cancelled() => break,
            };
            match incoming {
                Some(incoming) => self.take_in(incoming),
                None => break,
            }
        }
        endpoint.stop_accepting();
    }

    /// Makes a link inside this process and serves it. Gives the dialler's end, which
    /// proves itself like any other. Call it in a tokio runtime.
    pub fn attach_memory(&self) -> Link {
        let (dialler, ours) = memory::pair();
        let driver = self.clone();
        self.0
            .tasks
            .spawn(async move { driver.run_link(ours, None).await });
        dialler
    }

    /// The wings of an account that are online.
    pub fn online(&self, account: &AccountId) -> HashSet<WingId> {
        let account = Account::from(account.as_str());
        self.state().core.online(&account).into_iter().collect()
    }

    /// Closes every link of a device. The store must have it revoked already.
    pub fn revoke_device(&self, device: &DeviceKey) {
        let closing = {
            let mut state = self.state();
            let commands = state.core.revoke_device(device);
            state.carry_out(&commands)
        };
        close_all(closing);
    }

    /// How much there is at this moment.
    pub fn counts(&self) -> Counts {
        self.state().core.counts()
    }

    /// What passed through so far.
    pub fn traffic(&self) -> Traffic {
        let counters = &self.0.counters;
        Traffic {
            to_wings: counters.to_wings.load(Ordering::Relaxed),
            to_clients: counters.to_clients.load(Ordering::Relaxed),
            slow_consumers: counters.slow_consumers.load(Ordering::Relaxed),
        }
    }

    /// Whether [`Self::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.0.go_away.borrow().is_some()
    }

    /// Ends everything: tells every link to go, waits `grace` for them to do so, closes
    /// those that stay. Links and routes that come meanwhile are refused.
    ///
    /// Returns after `grace` and one second at the latest.
    pub async fn drain(&self, grace: Duration) {
        let links = self.counts().links;
        self.0.go_away.send_replace(Some(spread(links)));
        tracing::info!(links, "draining");
        self.0.tasks.close();
        if timeout(grace, self.0.tasks.wait()).await.is_ok() {
            return;
        }
        let staying: Vec<Link> = self.state().links.values().cloned().collect();
        for link in &staying {
            link.close(LinkCode::Draining);
        }
        if timeout(CLOSING, self.0.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.0.tasks.len(), "links outlived the drain");
        }
    }

    /// Starts on a connection attempt, if there is room for one more stranger.
    fn take_in(&self, incoming: Incoming) {
        let unproven = &self.0.unproven;
        let Ok(place) = Arc::clone(unproven).try_acquire_owned() else {
            return incoming.refuse();
        };
        let under_way = MAX_UNPROVEN - unproven.available_permits();
        if under_way > VALIDATE_ABOVE && !incoming.is_address_validated() {
            return incoming.retry();
        }
        let driver = self.clone();
        self.0.tasks.spawn(async move {
            match incoming.handshake().await {
                Ok(link) => driver.run_link(link, Some(place)).await,
                Err(end) => tracing::debug!(%end, "a handshake failed"),
            }
        });
    }

    /// Serves one link from its proof to its end.
    async fn run_link(&self, link: Link, place: Option<OwnedSemaphorePermit>) {
        let code = match self.admit(&link).await {
            Ok((control, proven, entry)) => {
                drop(place);
                tracing::info!(link = ?entry.link, role = ?proven.role, "link up");
                tracing::debug!(link = ?entry.link, from = ?link.remote_addr(), "its address");
                let code = self.attend(&link, control, &proven, &entry).await;
                tracing::info!(link = ?entry.link, %code, "link down");
                code
            }
            Err(code) => {
                tracing::debug!(%code, "a link was not admitted");
                code
            }
        };
        link.close(code);
    }

    async fn admit(&self, link: &Link) -> Result<(Control, Proven, Entry), LinkCode> {
        let Shared {
            accounts, config, ..
        } = &*self.0;
        let (mut control, proven) = control::authenticate(link, &config.origin, accounts).await?;
        if self.is_draining() {
            return Err(LinkCode::Draining);
        }
        let entry = self.enter(link, &proven)?;
        // A device revoked before it was entered was not closed by that; the store knows.
        control::sign_in(accounts, &proven.token).await?;
        link.raise_limits(entry.max_routes);
        control.welcome(entry.max_routes).await?;
        Ok((control, proven, entry))
    }

    fn enter(&self, link: &Link, proven: &Proven) -> Result<Entry, LinkCode> {
        let new = NewLink {
            account: proven.signed_in.account.as_str().into(),
            device: proven.signed_in.device,
            role: proven.role.clone(),
            instance: proven.instance,
        };
        let now = self.now();
        let (registered, closing) = {
            let mut state = self.state();
            let registered = state.core.register(now, new)?;
            state.links.insert(registered.link, link.clone());
            let closing = state.carry_out(&registered.commands);
            (registered, closing)
        };
        close_all(closing);
        let Registered {
            link, max_routes, ..
        } = registered;
        Ok(Entry {
            driver: self.clone(),
            link,
            max_routes,
        })
    }

    async fn attend(
        &self,
        link: &Link,
        control: Control,
        proven: &Proven,
        entry: &Entry,
    ) -> LinkCode {
        let go_away = self.0.go_away.subscribe();
        tokio::select! {
            code = control.serve(&proven.signed_in, &self.0.accounts, go_away) => code,
            () = self.accept_streams(link, &proven.role, entry.link) => LinkCode::Done,
        }
    }

    /// Takes streams until the link ends. Those under way outlive this and end with the
    /// links that carry them.
    async fn accept_streams(&self, link: &Link, role: &Role, id: LinkId) {
        while let Ok((send, recv)) = link.accept().await {
            match role {
                Role::Client => {
                    let driver = self.clone();
                    self.0
                        .tasks
                        .spawn(async move { driver.run_route(id, send, recv).await });
                }
                // A wing accepts routes and opens none.
                Role::Wing(_) => refuse(send, recv, StreamCode::Protocol),
            }
        }
    }

    /// Serves one stream of a client: reads its header, binds it, splices it.
    async fn run_route(&self, client: LinkId, send: SendHalf, recv: RecvHalf) {
        let mut reader = FrameReader::new(recv, MAX_STREAM_HEADER);
        match self.bind(client, &mut reader).await {
            Ok((bound, header)) => {
                let (recv, rest) = reader.into_parts();
                match bound.open(&header, &rest).await {
                    Ok(wing) => {
                        let Shared {
                            config, counters, ..
                        } = &*self.0;
                        splice((send, recv), wing, config.patience, counters).await;
                    }
                    Err(code) => refuse(send, recv, code),
                }
            }
            Err(code) => refuse(send, reader.into_parts().0, code),
        }
    }

    async fn bind(
        &self,
        client: LinkId,
        reader: &mut FrameReader,
    ) -> Result<(BoundRoute, Vec<u8>), StreamCode> {
        let header = match timeout(HEADER_DEADLINE, reader.read_frame()).await {
            Ok(Ok(Some(header))) => header,
            Ok(Ok(None) | Err(_)) | Err(_) => return Err(StreamCode::Protocol),
        };
        let StreamHeader::Route(route) =
            decode(&header, MAX_STREAM_HEADER).map_err(|_| StreamCode::Protocol)?;
        if self.is_draining() {
            return Err(StreamCode::Draining);
        }
        match self.open_route(client, &route.wing) {
            Ok(bound) => Ok((bound, header)),
            Err((refused, account)) => Err(self.why_refused(refused, account, &route.wing).await),
        }
    }

    fn open_route(
        &self,
        client: LinkId,
        wing: &WingId,
    ) -> Result<BoundRoute, (Refused, Option<Account>)> {
        let now = self.now();
        let mut state = self.state();
        match state.core.open_route(now, client, wing) {
            Ok(bound) => Ok(BoundRoute {
                driver: self.clone(),
                route: bound.route,
                wing_link: state.links[&bound.wing_link].clone(),
            }),
            Err(refused) => Err((refused, state.core.account_of(client))),
        }
    }

    /// Asks the store, when the core cannot know, whether the account has such a wing.
    async fn why_refused(
        &self,
        refused: Refused,
        account: Option<Account>,
        wing: &WingId,
    ) -> StreamCode {
        let owned = match (refused, account) {
            (Refused::NotOnline, Some(account)) => {
                let account = AccountId::new(account.as_str());
                let owned = self.0.accounts.owns_wing(&account, wing).await;
                owned.unwrap_or_else(|error| {
                    tracing::error!(%error, "a wing could not be looked up");
                    false
                })
            }
            (Refused::NotOnline | Refused::Busy | Refused::Gone, _) => false,
        };
        refused.code(owned)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The core changes nothing before it has decided, so a panic leaves it whole.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }
}

impl State {
    /// Takes out the links that the core has given up, with what to tell them. They are
    /// closed when the lock is free.
    fn carry_out(&mut self, commands: &[Command]) -> Vec<(Link, LinkCode)> {
        let close = |Command::CloseLink { link, code }: &Command| {
            self.links.remove(link).map(|link| (link, *code))
        };
        commands.iter().filter_map(close).collect()
    }
}

/// A link's place in the core, given back when this is dropped.
struct Entry {
    driver: Driver,
    link: LinkId,
    max_routes: u16,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.driver.state();
        state.core.link_closed(self.link);
        state.links.remove(&self.link);
    }
}

/// A route's place in the core, given back when this is dropped.
struct BoundRoute {
    driver: Driver,
    route: RouteId,
    wing_link: Link,
}

impl Drop for BoundRoute {
    fn drop(&mut self) {
        self.driver.state().core.close_route(self.route);
    }
}

impl BoundRoute {
    /// Opens the wing's stream and passes the header on, unchanged, and what followed it.
    async fn open(&self, header: &[u8], rest: &[u8]) -> Result<Stream, StreamCode> {
        let opening = async {
            let (mut send, recv) = self.wing_link.open().await.ok()?;
            write_frame(&mut send, header).await.ok()?;
            send.write_all(rest).await.ok()?;
            Some((send, recv))
        };
        match timeout(HEADER_DEADLINE, opening).await {
            Ok(Some(stream)) => Ok(stream),
            Ok(None) => Err(StreamCode::PeerLost),
            // The wing takes no more streams, whatever it was allowed to.
            Err(_) => Err(StreamCode::Busy),
        }
    }
}

fn refuse(mut send: SendHalf, mut recv: RecvHalf, code: StreamCode) {
    send.reset(code);
    recv.stop(code);
}

fn close_all(links: Vec<(Link, LinkCode)>) {
    for (link, code) in links {
        link.close(code);
    }
}

/// The time over which so many links should come back.
fn spread(links: usize) -> Duration {
    let cores = available_parallelism().map_or(1, |cores| cores.get() as u64);
    let per_second = (cores * HANDSHAKES_PER_CORE / HANDSHAKE_SHARE).max(1);
    Duration::from_millis(links as u64 * 1_000 / per_second).max(MIN_SPREAD)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

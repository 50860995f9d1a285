//! The one gate between what a session asks for and a connection: decide, resolve, vet,
//! dial, write down.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use wt_policy::{
    Basis, Denial, Destination, Host, HostName, HostPattern, NetworkPolicy, Permit, Port, Verdict,
    Vetted,
};

use super::audit::{AuditLog, Outcome, Record, Way};
use super::dns::NameAnswer;
use super::names::Names;
use super::outside::Outside;
use super::relay::{Traffic, prepare};

/// How many connections a session has at once.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// How many of them have not yet said what they want.
pub(super) const MAX_PENDING: usize = 64;

/// How many of them go to one host. Some package managers open as many as they are let.
const MAX_PER_HOST: usize = 128;

/// How long a connection to a host may take, over all its addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// After how long the next address is tried beside one that does not answer (RFC 8305,
/// section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// How long clients may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// To say what they want.
    pub(super) head: Duration,
    /// To say the first message of TLS.
    pub(super) hello: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            hello: Duration::from_secs(5),
        }
    }
}

/// The state that all connections of a session share.
pub(super) struct Gate {
    policy: watch::Receiver<Arc<NetworkPolicy>>,
    outside: Arc<dyn Outside>,
    audit: Arc<AuditLog>,
    names: Mutex<Names>,
    hosts: Mutex<HashMap<Host, usize>>,
    /// Ports of the machine that are never reached: those of wingthing itself.
    forbidden_ports: Vec<u16>,
    pub(super) patience: Patience,
    pub(super) connections: Arc<Semaphore>,
    pub(super) pending: Semaphore,
}

/// Why a session does not get what it asks for.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The policy does not allow it.
    Denied(Box<Denial>),
    /// There are too many new names below a wildcard, or too many names.
    Names(Destination),
    /// The host has as many connections as it may.
    Busy(Destination),
    /// It cannot be reached.
    Unreachable(Destination, String),
}

impl Refusal {
    pub(super) fn destination(&self) -> &Destination {
        match self {
            Self::Denied(denial) => &denial.destination,
            Self::Names(destination)
            | Self::Busy(destination)
            | Self::Unreachable(destination, _) => destination,
        }
    }

    pub(super) fn reason(&self) -> String {
        match self {
            Self::Denied(denial) => denial.to_string(),
            Self::Names(_) => "too many different names in a short time".to_owned(),
            Self::Busy(_) => "the host has as many connections as it may".to_owned(),
            Self::Unreachable(_, why) => why.clone(),
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Denied(_) => Outcome::Denied,
            Self::Names(_) | Self::Busy(_) => Outcome::Refused,
            Self::Unreachable(..) => Outcome::Failed,
        }
    }
}

/// A connection to a host that was let through. It is written down when it ends.
pub(super) struct Passage {
    pub(super) server: TcpStream,
    pub(super) permit: Permit,
    pub(super) traffic: Traffic,
    way: Way,
    gate: Arc<Gate>,
}

impl Passage {
    /// Writes down that it is cut off, and makes the error that ends it.
    pub(super) fn cut(&self, reason: &str) -> io::Error {
        let destination = self.permit.destination();
        self.gate.note(
            Record::new(
                self.way,
                &destination.host.to_string(),
                Some(destination.port.get()),
                Outcome::Cut,
                reason,
            )
            .rule(self.permit.basis().rule()),
        );
        io::Error::new(io::ErrorKind::PermissionDenied, reason.to_owned())
    }

    pub(super) fn patience(&self) -> Patience {
        self.gate.patience
    }

    /// Returns when a changed policy no longer allows the destination.
    pub(super) async fn revoked(&self) -> io::Error {
        self.gate.revoked(self.permit.destination()).await;
        self.cut("the policy was changed")
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let destination = self.permit.destination();
        self.gate.leave(&destination.host);
        let (sent, received) = self.traffic.totals();
        self.gate.note(
            Record::new(
                self.way,
                &destination.host.to_string(),
                Some(destination.port.get()),
                Outcome::Ended,
                "",
            )
            .rule(self.permit.basis().rule())
            .bytes(sent, received),
        );
    }
}

impl Gate {
    pub(super) fn new(
        policy: watch::Receiver<Arc<NetworkPolicy>>,
        outside: Arc<dyn Outside>,
        audit: Arc<AuditLog>,
        forbidden_ports: Vec<u16>,
        patience: Patience,
    ) -> Self {
        Self {
            policy,
            outside,
            audit,
            names: Mutex::new(Names::new(Instant::now())),
            hosts: Mutex::new(HashMap::new()),
            forbidden_ports,
            patience,
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            pending: Semaphore::new(MAX_PENDING),
        }
    }

    fn policy(&self) -> Arc<NetworkPolicy> {
        Arc::clone(&self.policy.borrow())
    }

    /// Writes something down.
    pub(super) fn note(&self, record: Record) {
        self.audit.write(record);
    }

    /// Lets the record write what it has only counted.
    pub(super) fn tick(&self) {
        self.audit.tick();
    }

    /// Writes down what could not be understood.
    pub(super) fn note_refused(&self, way: Way, what: &str, reason: &str) {
        self.note(Record::new(way, what, None, Outcome::Refused, reason));
    }

    /// Decides, without looking anything up.
    pub(super) fn permit(&self, way: Way, destination: &Destination) -> Result<Permit, Refusal> {
        let refusal = match self.policy().decide(destination) {
            Verdict::Allowed(permit) if self.admit(destination.host.name(), permit.basis()) => {
                return Ok(permit);
            }
            Verdict::Allowed(_) => Refusal::Names(destination.clone()),
            Verdict::Denied(denial) => Refusal::Denied(Box::new(denial)),
        };
        Err(self.refused(way, refusal, None))
    }

    /// Connects to what was permitted.
    pub(super) async fn connect(
        self: &Arc<Self>,
        way: Way,
        permit: Permit,
    ) -> Result<Passage, Refusal> {
        let destination = permit.destination().clone();
        let rule = permit.basis().rule();
        if !self.enter(&destination.host) {
            return Err(self.refused(way, Refusal::Busy(destination), rule));
        }
        let connected = self.dial(way, &permit).await;
        match connected {
            Ok(server) => {
                prepare(&server);
                let outcome = match permit.basis() {
                    Basis::Observed => Outcome::Observed,
                    Basis::Rule(_) | Basis::Everything(_) => Outcome::Allowed,
                };
                self.note(
                    Record::new(
                        way,
                        &destination.host.to_string(),
                        Some(destination.port.get()),
                        outcome,
                        permit.basis().to_string(),
                    )
                    .rule(rule),
                );
                Ok(Passage {
                    server,
                    permit,
                    traffic: Traffic::default(),
                    way,
                    gate: Arc::clone(self),
                })
            }
            Err(refusal) => {
                self.leave(&destination.host);
                Err(self.refused(way, refusal, rule))
            }
        }
    }

    async fn dial(&self, way: Way, permit: &Permit) -> Result<TcpStream, Refusal> {
        let destination = permit.destination();
        let unreachable = |why: String| Refusal::Unreachable(destination.clone(), why);
        let addresses: Vec<IpAddr> = match &destination.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self
                .outside
                .resolve(name)
                .await
                .map_err(|error| unreachable(format!("{name} does not resolve: {error}")))?,
        };
        // Without them it cannot be told what is the machine itself.
        let own = self
            .outside
            .own_addresses()
            .map_err(|error| unreachable(format!("the machine's addresses: {error}")))?;
        let vetted = self
            .policy()
            .vet(permit, &addresses, &own)
            .map_err(|denial| Refusal::Denied(Box::new(denial)))?;
        if let Some((address, class)) = vetted.dropped().first() {
            self.note(Record::new(
                way,
                &destination.host.to_string(),
                Some(destination.port.get()),
                Outcome::Suspicious,
                format!("it also resolves to {address}, {class}"),
            ));
        }
        match tokio::time::timeout(CONNECT_TIMEOUT, self.race(&vetted)).await {
            Ok(Ok(server)) => Ok(server),
            Ok(Err(error)) => Err(unreachable(format!("{destination}: {error}"))),
            Err(_) => Err(unreachable(format!("{destination} does not answer"))),
        }
    }

    /// Tries the addresses in their order, each a little after the one before, and takes
    /// the first that answers.
    async fn race(&self, vetted: &Vetted) -> io::Result<TcpStream> {
        let mut tries = JoinSet::new();
        for (delay, address) in (0..).zip(vetted.addresses().iter().copied()) {
            let outside = Arc::clone(&self.outside);
            tries.spawn(async move {
                tokio::time::sleep(NEXT_ADDRESS * delay).await;
                outside.connect(address).await
            });
        }
        let mut failed = io::Error::from(io::ErrorKind::HostUnreachable);
        while let Some(tried) = tries.join_next().await {
            match tried.map_err(io::Error::other).flatten() {
                Ok(server) => return Ok(server),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// What a question for a name is answered.
    pub(super) fn name_answer(&self, name: &HostName) -> NameAnswer {
        if name.is_localhost() {
            return NameAnswer::Localhost;
        }
        let (outcome, reason) = match self.policy().decide_name(name) {
            Ok(basis) if self.admit(Some(name), &basis) => {
                if let Some(address) = self.names().address(name) {
                    return NameAnswer::Address(address);
                }
                (
                    Outcome::Refused,
                    "there are no addresses left for names".to_owned(),
                )
            }
            Ok(_) => (
                Outcome::Refused,
                "too many different names in a short time".to_owned(),
            ),
            Err(denial) => (Outcome::Denied, denial.to_string()),
        };
        self.note(Record::new(Way::Dns, name.as_str(), None, outcome, reason));
        match outcome {
            Outcome::Denied => NameAnswer::NotAllowed,
            _ => NameAnswer::TryLater,
        }
    }

    /// The name for which an address inside the session stands.
    pub(super) fn name_of(&self, address: std::net::Ipv4Addr) -> Option<HostName> {
        self.names().name(address)
    }

    /// Puts the name in the place of an address that stands for one: some clients resolve
    /// names themselves and then ask the proxy for the address.
    pub(super) fn named(&self, destination: &Destination) -> Destination {
        let name = match destination.host {
            Host::Address(IpAddr::V4(address)) => self.name_of(address),
            Host::Address(IpAddr::V6(_)) | Host::Name(_) => None,
        };
        let mut named = destination.clone();
        if let Some(name) = name {
            named.host = Host::Name(name);
        }
        named
    }

    /// Whether a port of the machine may be reached.
    pub(super) fn local_port(&self, port: u16) -> bool {
        let policy = self.policy();
        let mut listed = policy.local_ports.iter();
        !self.forbidden_ports.contains(&port) && listed.any(|listed| listed.value.get() == port)
    }

    /// Returns when the policy has changed so that a port of the machine may not be reached.
    pub(super) async fn local_revoked(&self, port: u16) {
        let mut policy = self.policy.clone();
        while policy.changed().await.is_ok() {
            if !self.local_port(port) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn revoked(&self, destination: &Destination) {
        let mut policy = self.policy.clone();
        loop {
            let allowed = policy.borrow_and_update().decide(destination).is_allowed();
            if !allowed {
                return;
            }
            if policy.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn refused(&self, way: Way, refusal: Refusal, rule: Option<String>) -> Refusal {
        let destination = refusal.destination();
        self.note(
            Record::new(
                way,
                &destination.host.to_string(),
                Some(destination.port.get()),
                refusal.outcome(),
                refusal.reason(),
            )
            .rule(rule),
        );
        refusal
    }

    fn admit(&self, name: Option<&HostName>, basis: &Basis) -> bool {
        let wild = matches!(
            basis,
            Basis::Rule(granted) if matches!(granted.value.pattern(), HostPattern::Below(_))
        );
        // Where every host is allowed, a name is no secret channel that a rule was to close,
        // but the table of names is still bounded.
        name.is_none_or(|name| self.names().admit(name, wild, Instant::now()))
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, host: &Host) -> bool {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = hosts.entry(host.clone()).or_default();
        let free = *count < MAX_PER_HOST;
        *count += usize::from(free);
        free
    }

    fn leave(&self, host: &Host) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = hosts.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                hosts.remove(host);
            }
        }
    }
}

/// Which first bytes a client has to send on a connection that was let through.
#[derive(Debug)]
pub(super) enum First {
    /// TLS, for this server if a name was allowed.
    Tls(Option<HostName>),
    /// SSH.
    Ssh,
    /// Anything; but if it is TLS, then for this server.
    Named(HostName),
    /// Anything.
    Anything,
}

impl First {
    /// What a permit asks for.
    pub(super) fn of(permit: &Permit) -> Self {
        let Basis::Rule(_) = permit.basis() else {
            return Self::Anything;
        };
        let name = permit.required_server_name().cloned();
        match (permit.destination().port, name) {
            (Port::HTTPS, name) => Self::Tls(name),
            (Port::SSH, _) => Self::Ssh,
            (_, Some(name)) => Self::Named(name),
            (_, None) => Self::Anything,
        }
    }
}

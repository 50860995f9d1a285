//! The way out to the network, on the side of the machine.
//!
//! A session has a network of its own with nothing in it but listeners that were handed to
//! this side. [`Egress`] serves them on one thread of its own: an HTTP proxy, SOCKS 5, names
//! ([`dns`]), connections that were made as if there were no proxy, and single ports of the
//! machine. Whatever the way, it ends at one gate: the destination in its one spelling is
//! decided by the policy, resolved once, its addresses are vetted, and only those are
//! dialled, by number. Every decision is written down ([`audit`]).
//!
//! The parsers ([`head`], [`socks`], [`dns`], [`hello`]) are functions of bytes without IO.
//!
//! What it deliberately does not do: look into TLS beyond its first message, or keep a
//! session from talking to an allowed host about whatever it likes.

pub mod audit;
mod datagrams;
pub mod dns;
mod gate;
pub mod head;
pub mod hello;
mod names;
mod outside;
mod relay;
mod serve;
pub mod socks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{TcpListener as StdListener, UdpSocket as StdSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use wt_policy::NetworkPolicy;

pub use crate::plan::ListenerKind;
use crate::{EnforcementError, Step};
use audit::AuditLog;
use gate::{Gate, Patience};
pub use outside::{Boxed, HostNetwork, Outside};

/// How long accepting pauses when it fails, as when there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often what was only counted is written down.
const AUDIT_TICK: Duration = Duration::from_secs(10);

/// A listener that was bound inside the session and handed over.
#[derive(Debug)]
pub struct Listener {
    /// What it is for.
    pub kind: ListenerKind,
    /// The socket: bound, and listening if it is TCP.
    pub socket: OwnedFd,
}

/// The way out of one session. It ends, with all connections, when it is dropped; that
/// waits for its thread, which takes no longer than a turn of its loop.
pub struct Egress {
    policy: watch::Sender<Arc<NetworkPolicy>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").finish_non_exhaustive()
    }
}

impl Egress {
    /// Starts to serve `listeners` by `policy`, on a thread of its own, so that a flood
    /// does not disturb the terminal.
    ///
    /// `forbidden_ports` are ports of the machine that no policy opens, because wingthing
    /// itself listens there. `outside` is [`HostNetwork`], except in tests.
    ///
    /// # Errors
    ///
    /// When a listener is not what its kind says, is for a forbidden port, or the thread
    /// cannot be started.
    pub fn start(
        policy: NetworkPolicy,
        listeners: Vec<Listener>,
        audit: AuditLog,
        forbidden_ports: &[u16],
        outside: Arc<dyn Outside>,
    ) -> Result<Self, EnforcementError> {
        let patience = Patience::default();
        Self::start_with(policy, listeners, audit, forbidden_ports, outside, patience)
    }

    fn start_with(
        policy: NetworkPolicy,
        listeners: Vec<Listener>,
        audit: AuditLog,
        forbidden_ports: &[u16],
        outside: Arc<dyn Outside>,
        patience: Patience,
    ) -> Result<Self, EnforcementError> {
        for listener in &listeners {
            if let ListenerKind::LocalPort(port) = listener.kind
                && forbidden_ports.contains(&port)
            {
                return Err(EnforcementError::new(
                    Step::Egress,
                    format!("local port {port} belongs to wingthing itself"),
                )
                .hint("take the port out of the local ports of the policy"));
            }
        }
        let (policy, changes) = watch::channel(Arc::new(policy));
        let forbidden = forbidden_ports.to_vec();
        let gate = Gate::new(changes, outside, Arc::new(audit), forbidden, patience);
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = sync_channel(1);
        let system =
            |what: &str, error: &io::Error| EnforcementError::system(Step::Egress, what, error);
        let thread = std::thread::Builder::new()
            .name("egress".to_owned())
            .spawn(move || run(Arc::new(gate), listeners, stopped, &ready))
            .map_err(|error| system("starting the thread of the proxy", &error))?;
        let egress = Self {
            policy,
            stop: Some(stop),
            thread: Some(thread),
        };
        match is_ready.recv() {
            Ok(Ok(())) => Ok(egress),
            Ok(Err(error)) => Err(system("taking over the listeners of the session", &error)),
            Err(_) => Err(EnforcementError::new(
                Step::Egress,
                "the proxy ended at once",
            )),
        }
    }

    /// Puts another policy in force. Connections that it does not allow are cut.
    pub fn set_policy(&self, policy: NetworkPolicy) {
        self.policy.send_replace(Arc::new(policy));
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It panicked if this fails, and then it has ended as well.
            let _ = thread.join();
        }
    }
}

fn run(
    gate: Arc<Gate>,
    listeners: Vec<Listener>,
    stopped: oneshot::Receiver<()>,
    ready: &std::sync::mpsc::SyncSender<io::Result<()>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("egress-resolver")
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let started = listeners
            .into_iter()
            .try_for_each(|listener| start(&gate, listener, &mut tasks));
        let failed = started.is_err();
        let _ = ready.send(started);
        if failed {
            return;
        }
        tasks.spawn(tick(Arc::clone(&gate)));
        // The sender is dropped to stop.
        let _ = stopped.await;
    });
    // A name that is being resolved holds its thread; nobody waits for that.
    runtime.shutdown_background();
}

async fn tick(gate: Arc<Gate>) {
    loop {
        tokio::time::sleep(AUDIT_TICK).await;
        gate.tick();
    }
}

fn start(gate: &Arc<Gate>, listener: Listener, tasks: &mut JoinSet<()>) -> io::Result<()> {
    let gate = Arc::clone(gate);
    let Listener { kind, socket } = listener;
    if kind == ListenerKind::DnsUdp {
        let socket = datagrams::prepare(StdSocket::from(socket))?;
        tasks.spawn(datagrams::serve(gate, socket));
        return Ok(());
    }
    let listener = StdListener::from(socket);
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    // An address is asked for only to learn at once that this is no TCP socket.
    listener.local_addr()?;
    match kind {
        ListenerKind::HttpProxy => tasks.spawn(accept(gate, listener, serve::http_proxy)),
        ListenerKind::Socks => tasks.spawn(accept(gate, listener, serve::socks)),
        ListenerKind::DnsTcp => tasks.spawn(accept(gate, listener, serve::dns_tcp)),
        ListenerKind::Capture(_) => tasks.spawn(accept(gate, listener, serve::capture)),
        ListenerKind::LocalPort(port) => {
            tasks.spawn(accept(gate, listener, move |gate, client| {
                serve::local_port(gate, client, port)
            }))
        }
        ListenerKind::DnsUdp => return Ok(()),
    };
    Ok(())
}

/// Accepts connections while there is room for them; the others wait in the kernel.
async fn accept<F, S>(gate: Arc<Gate>, listener: TcpListener, serve: S)
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(Arc<Gate>, TcpStream) -> F,
{
    // Owned here, so that all of them end with the listener.
    let mut clients = JoinSet::new();
    loop {
        let Ok(room) = Arc::clone(&gate.connections).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((client, _)) => {
                let served = serve(Arc::clone(&gate), client);
                clients.spawn(async move {
                    let _room = room;
                    served.await;
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection of the session cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while clients.try_join_next().is_some() {}
    }
}

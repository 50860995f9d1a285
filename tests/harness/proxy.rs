//! A bad network in user space: one loopback port, UDP and TCP, with faults to order.
//!
//! Faults change while traffic runs. Everything random comes from a seed, so a run can
//! be repeated as far as the timing of the traffic allows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::process::free_port;

/// Datagrams that one direction of one flow may hold back; more are lost, as in a router.
const QUEUE: usize = 16_384;

/// Largest datagram.
const DATAGRAM: usize = 65_535;

/// What one read of a TCP stream asks for.
const CHUNK: usize = 64 * 1024;

/// How much later a reordered datagram leaves than its neighbours.
const REORDER_BY: Duration = Duration::from_millis(15);

/// Most bytes that a capture keeps.
const CAPTURE: usize = 16 << 20;

/// What goes wrong. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// Added to each way.
    pub delay: Duration,
    /// Share of datagrams that are lost, from 0 to 1. TCP hides loss, so it has none.
    pub drop: f64,
    /// Share of datagrams that are overtaken, from 0 to 1. TCP has none.
    pub reorder: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Traffic passes.
    Open,
    /// Nothing passes and nothing is closed: what a broken router looks like.
    Frozen,
    /// Connections are reset, datagrams vanish.
    Cut,
}

/// A proxy in front of one address. Dropped, it closes everything.
pub struct FaultProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    upstream: Mutex<SocketAddr>,
    faults: Mutex<Faults>,
    rng: Mutex<SplitMix>,
    flow: watch::Sender<Flow>,
    substitutions: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    capture: Mutex<Vec<u8>>,
    passed: AtomicU64,
    lost: AtomicU64,
}

impl FaultProxy {
    /// Starts a proxy on a free loopback port.
    ///
    /// # Panics
    /// When the machine has no port or thread left.
    pub fn start(upstream: SocketAddr, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            faults: Mutex::new(Faults::default()),
            rng: Mutex::new(SplitMix(seed)),
            flow: watch::Sender::new(Flow::Open),
            substitutions: Mutex::new(Vec::new()),
            capture: Mutex::new(Vec::new()),
            passed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let (bound, addr) = std::sync::mpsc::channel();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("the machine can run one more event loop");
                runtime.block_on(run(shared, stopped, bound));
                // Tasks of open connections end with the runtime.
            }
        });
        let addr = addr.recv().expect("a proxy binds a free port");
        Self {
            addr,
            shared,
            stop,
            thread: Some(thread),
        }
    }

    /// Where it listens, in TCP and UDP.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the faults from now on.
    pub fn set(&self, faults: Faults) {
        *lock(&self.shared.faults) = faults;
    }

    /// Sends new connections and all datagrams to another address.
    pub fn switch(&self, upstream: SocketAddr) {
        *lock(&self.shared.upstream) = upstream;
    }

    /// Lets nothing pass and closes nothing.
    pub fn freeze(&self) {
        self.shared.flow.send_replace(Flow::Frozen);
    }

    /// Resets all connections, refuses new ones and loses all datagrams.
    pub fn cut(&self) {
        self.shared.flow.send_replace(Flow::Cut);
    }

    /// Lets traffic pass again.
    pub fn resume(&self) {
        self.shared.flow.send_replace(Flow::Open);
    }

    /// Replaces bytes in what TCP servers send, if one read holds them whole.
    ///
    /// # Panics
    /// When the lengths differ, because a length is often announced before.
    pub fn substitute(&self, from: &[u8], to: &[u8]) {
        assert_eq!(from.len(), to.len(), "a substitute has the same length");
        lock(&self.shared.substitutions).push((from.to_vec(), to.to_vec()));
    }

    /// What TCP servers sent so far, at most the first 16 MiB.
    pub fn captured(&self) -> Vec<u8> {
        lock(&self.shared.capture).clone()
    }

    /// Datagrams and chunks that passed.
    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::Relaxed)
    }

    /// Datagrams that were lost on purpose or for want of room.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
    bound: std::sync::mpsc::Sender<SocketAddr>,
) {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (Ok(tcp), Ok(udp)) = (TcpListener::bind(addr).await, UdpSocket::bind(addr).await) else {
        return;
    };
    bound.send(addr).ok();
    tokio::select! {
        () = accept_tcp(tcp, Arc::clone(&shared)) => {}
        () = serve_udp(Arc::new(udp), shared) => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

async fn accept_tcp(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((downstream, _)) = listener.accept().await else {
            continue;
        };
        tokio::spawn(splice_tcp(downstream, Arc::clone(&shared)));
    }
}

async fn splice_tcp(downstream: TcpStream, shared: Arc<Shared>) {
    let upstream_addr = *lock(&shared.upstream);
    let is_cut = *shared.flow.borrow() == Flow::Cut;
    let upstream = match TcpStream::connect(upstream_addr).await {
        Ok(upstream) if !is_cut => upstream,
        Ok(_) | Err(_) => {
            downstream.set_zero_linger().ok();
            return;
        }
    };
    downstream.set_nodelay(true).ok();
    upstream.set_nodelay(true).ok();
    // A cut drops both sockets with unsent data: that resets them.
    downstream.set_zero_linger().ok();
    upstream.set_zero_linger().ok();
    let (down_read, down_write) = downstream.into_split();
    let (up_read, up_write) = upstream.into_split();
    let mut flow = shared.flow.subscribe();
    tokio::select! {
        _ = async {
            tokio::join!(
                pump_tcp(down_read, up_write, &shared, false),
                pump_tcp(up_read, down_write, &shared, true),
            )
        } => {}
        _ = flow.wait_for(|flow| *flow == Flow::Cut) => {}
    }
}

/// Copies one direction until its end, which it passes on.
async fn pump_tcp(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    from_server: bool,
) -> io::Result<()> {
    let mut flow = shared.flow.subscribe();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        let delay = lock(&shared.faults).delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        flow.wait_for(|flow| *flow != Flow::Frozen).await.ok();
        if count == 0 {
            return to.shutdown().await;
        }
        let bytes = &mut chunk[..count];
        if from_server {
            substitute(bytes, &lock(&shared.substitutions));
            let mut capture = lock(&shared.capture);
            let room = CAPTURE.saturating_sub(capture.len()).min(count);
            capture.extend_from_slice(&bytes[..room]);
        }
        shared.passed.fetch_add(1, Ordering::Relaxed);
        to.write_all(bytes).await?;
    }
}

fn substitute(bytes: &mut [u8], substitutions: &[(Vec<u8>, Vec<u8>)]) {
    for (from, to) in substitutions {
        let places: Vec<usize> = memchr::memmem::find_iter(bytes, from).collect();
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
}

/// One client of the UDP side: what it sends goes out of a socket of its own.
struct UdpFlow {
    upstream_addr: SocketAddr,
    to_upstream: mpsc::Sender<(Instant, Vec<u8>)>,
    socket: Arc<UdpSocket>,
}

async fn serve_udp(listener: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut flows: HashMap<SocketAddr, UdpFlow> = HashMap::new();
    let mut datagram = vec![0; DATAGRAM];
    loop {
        // An ICMP error of an earlier datagram shows up here and is no reason to stop.
        let Ok((count, client)) = listener.recv_from(&mut datagram).await else {
            continue;
        };
        let upstream_addr = *lock(&shared.upstream);
        let is_stale = flows
            .get(&client)
            .is_some_and(|flow| flow.upstream_addr != upstream_addr);
        if is_stale {
            flows.remove(&client);
        }
        let flow = match flows.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(room) => {
                match open_flow(&listener, client, upstream_addr, &shared).await {
                    Ok(flow) => room.insert(flow),
                    Err(_) => continue,
                }
            }
        };
        let socket = Arc::clone(&flow.socket);
        forward(
            &shared,
            &flow.to_upstream,
            &datagram[..count],
            move |bytes| async move {
                socket.send(&bytes).await.ok();
            },
        );
    }
}

async fn open_flow(
    listener: &Arc<UdpSocket>,
    client: SocketAddr,
    upstream_addr: SocketAddr,
    shared: &Arc<Shared>,
) -> io::Result<UdpFlow> {
    let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
    socket.connect(upstream_addr).await?;
    let (to_upstream, queue) = mpsc::channel(QUEUE);
    tokio::spawn(drain_queue(queue, {
        let socket = Arc::clone(&socket);
        move |bytes: Vec<u8>| {
            let socket = Arc::clone(&socket);
            async move {
                socket.send(&bytes).await.ok();
            }
        }
    }));

    let (to_client, queue) = mpsc::channel(QUEUE);
    let listener = Arc::clone(listener);
    tokio::spawn(drain_queue(queue, {
        let listener = Arc::clone(&listener);
        move |bytes: Vec<u8>| {
            let listener = Arc::clone(&listener);
            async move {
                listener.send_to(&bytes, client).await.ok();
            }
        }
    }));
    tokio::spawn({
        // The flow owns the socket: when it is forgotten, the answers end too.
        let socket = Arc::downgrade(&socket);
        let shared = Arc::clone(shared);
        async move {
            let mut datagram = vec![0; DATAGRAM];
            while let Some(socket) = socket.upgrade() {
                // A dead upstream answers with ICMP errors until it is back.
                let received =
                    tokio::time::timeout(Duration::from_secs(1), socket.recv(&mut datagram)).await;
                let Ok(Ok(count)) = received else {
                    if received.is_ok() {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    continue;
                };
                let listener = Arc::clone(&listener);
                forward(
                    &shared,
                    &to_client,
                    &datagram[..count],
                    move |bytes| async move {
                        listener.send_to(&bytes, client).await.ok();
                    },
                );
            }
        }
    });
    Ok(UdpFlow {
        upstream_addr,
        to_upstream,
        socket,
    })
}

/// Decides the fate of one datagram.
fn forward<F>(
    shared: &Shared,
    queue: &mpsc::Sender<(Instant, Vec<u8>)>,
    datagram: &[u8],
    send_late: impl FnOnce(Vec<u8>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let faults = *lock(&shared.faults);
    let (dropped, overtaken) = {
        let mut rng = lock(&shared.rng);
        (rng.chance(faults.drop), rng.chance(faults.reorder))
    };
    if dropped || *shared.flow.borrow() != Flow::Open {
        shared.lost.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let due = Instant::now() + faults.delay;
    if overtaken {
        let late = send_late(datagram.to_vec());
        tokio::spawn(async move {
            tokio::time::sleep_until(due + REORDER_BY).await;
            late.await;
        });
    } else if queue.try_send((due, datagram.to_vec())).is_err() {
        shared.lost.fetch_add(1, Ordering::Relaxed);
        return;
    }
    shared.passed.fetch_add(1, Ordering::Relaxed);
}

/// Sends datagrams in order, each when it is due.
async fn drain_queue<F: Future<Output = ()>>(
    mut queue: mpsc::Receiver<(Instant, Vec<u8>)>,
    send: impl Fn(Vec<u8>) -> F,
) {
    while let Some((due, bytes)) = queue.recv().await {
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
        send(bytes).await;
    }
}

/// The generator of Steele, Lea and Flood: enough for dice, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, share: f64) -> bool {
        let dice = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        dice < share
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Longer than any of these exchanges takes on a busy machine.
    const SOON: Duration = Duration::from_secs(10);
    /// Long enough that a working exchange would have shown.
    const A_WHILE: Duration = Duration::from_millis(100);

    /// An echo of what it gets, on one port in both protocols.
    fn echo(greeting: &'static str) -> SocketAddr {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let udp = std::net::UdpSocket::bind(addr).unwrap();
        let tcp = std::net::TcpListener::bind(addr).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while let Ok((count, from)) = udp.recv_from(&mut buffer) {
                let reply = [greeting.as_bytes(), &buffer[..count]].concat();
                udp.send_to(&reply, from).ok();
            }
        });
        std::thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let mut buffer = [0; 2_048];
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        let reply = [greeting.as_bytes(), &buffer[..count]].concat();
                        stream.write_all(&reply).ok();
                    }
                });
            }
        });
        addr
    }

    fn udp_client(proxy: &FaultProxy, bound: Duration) -> std::net::UdpSocket {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(proxy.addr()).unwrap();
        socket.set_read_timeout(Some(bound)).unwrap();
        socket
    }

    fn ask_udp(socket: &std::net::UdpSocket, text: &str) -> Option<String> {
        let mut buffer = [0; 2_048];
        socket.send(text.as_bytes()).ok()?;
        let count = socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..count]).into_owned())
    }

    fn tcp_client(proxy: &FaultProxy) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(proxy.addr()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    fn ask_tcp(stream: &mut std::net::TcpStream, text: &str) -> io::Result<String> {
        let mut buffer = [0; 2_048];
        stream.write_all(text.as_bytes())?;
        let count = stream.read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..count]).into_owned())
    }

    #[test]
    fn traffic_passes_and_a_switch_reaches_the_other_upstream() {
        let proxy = FaultProxy::start(echo("one "), 1);
        let udp = udp_client(&proxy, SOON);

        assert_eq!(ask_udp(&udp, "a").unwrap(), "one a");
        assert_eq!(ask_tcp(&mut tcp_client(&proxy), "b").unwrap(), "one b");
        proxy.switch(echo("two "));

        assert_eq!(ask_udp(&udp, "c").unwrap(), "two c");
        assert_eq!(ask_tcp(&mut tcp_client(&proxy), "d").unwrap(), "two d");
    }

    #[test]
    fn a_frozen_connection_stays_open_and_goes_on_after_the_thaw() {
        let proxy = FaultProxy::start(echo(""), 1);
        let mut tcp = tcp_client(&proxy);
        assert_eq!(ask_tcp(&mut tcp, "a").unwrap(), "a");

        proxy.freeze();
        tcp.set_read_timeout(Some(A_WHILE)).unwrap();
        assert!(ask_tcp(&mut tcp, "b").is_err());
        assert!(ask_udp(&udp_client(&proxy, A_WHILE), "x").is_none());
        proxy.resume();

        tcp.set_read_timeout(Some(SOON)).unwrap();
        let mut late = [0; 1];
        tcp.read_exact(&mut late).unwrap();
        assert_eq!(&late, b"b");
        assert!(ask_udp(&udp_client(&proxy, SOON), "y").is_some());
    }

    #[test]
    fn a_cut_resets_connections_until_it_is_mended() {
        let proxy = FaultProxy::start(echo(""), 1);
        let mut tcp = tcp_client(&proxy);
        assert_eq!(ask_tcp(&mut tcp, "a").unwrap(), "a");

        proxy.cut();

        let mut byte = [0; 1];
        let end = tcp.read(&mut byte);
        assert!(!matches!(end, Ok(1..)), "{end:?}");
        assert!(ask_tcp(&mut tcp_client(&proxy), "b").map_or(true, |text| text.is_empty()));
        proxy.resume();
        assert_eq!(ask_tcp(&mut tcp_client(&proxy), "c").unwrap(), "c");
    }

    #[test]
    fn the_asked_share_of_datagrams_is_lost_and_the_seed_decides_which() {
        let survivors = |seed| {
            let proxy = FaultProxy::start(echo(""), seed);
            // Answers are dropped too: one side's fate must not disturb the other's dice.
            let mut rng = SplitMix(seed);
            proxy.set(Faults {
                drop: 0.5,
                ..Faults::default()
            });
            let expected: Vec<bool> = (0..20).map(|_| rng.chance(0.5)).collect();
            let socket = udp_client(&proxy, A_WHILE);
            for n in 0..20 {
                socket.send(&[n]).unwrap();
            }
            crate::wait::eventually("all datagrams to have a fate", || {
                (proxy.passed() + proxy.lost() >= 20).then_some(())
            });
            (expected, proxy.lost())
        };

        let (expected, lost) = survivors(7);

        assert!(expected.iter().any(|d| *d) && expected.iter().any(|d| !*d));
        assert!((1..40).contains(&lost), "{lost} of 20 and their answers");
    }

    #[test]
    fn a_delay_is_kept_in_order_and_reordering_breaks_the_order() {
        let proxy = FaultProxy::start(echo(""), 3);
        let socket = udp_client(&proxy, SOON);
        let order = |count: u8| {
            let mut seen = Vec::new();
            let mut byte = [0; 16];
            for n in 0..count {
                socket.send(&[n]).unwrap();
            }
            for _ in 0..count {
                socket.recv(&mut byte).unwrap();
                seen.push(byte[0]);
            }
            seen
        };

        proxy.set(Faults {
            delay: Duration::from_millis(20),
            ..Faults::default()
        });
        let start = std::time::Instant::now();
        assert_eq!(order(50), (0..50).collect::<Vec<u8>>());
        assert!(start.elapsed() >= Duration::from_millis(40));

        proxy.set(Faults {
            reorder: 0.3,
            ..Faults::default()
        });
        assert_ne!(order(50), (0..50).collect::<Vec<u8>>());
    }

    #[test]
    fn a_substitution_changes_what_the_server_said_and_the_capture_shows_it() {
        let proxy = FaultProxy::start(echo(""), 1);
        proxy.substitute(b"truth", b"liess");

        let answer = ask_tcp(&mut tcp_client(&proxy), "the truth").unwrap();

        assert_eq!(answer, "the liess");
        assert_eq!(proxy.captured(), b"the liess");
    }
}

//! The raw baselines: the same bytes and the same echoes over bare quinn and bare TCP.
//!
//! The other end, [`Peer`], is a process of its own, as the relay and the wing are. A stream
//! begins with one order of nine bytes: what to do, and for how many bytes. quinn has its own
//! defaults, except for the socket's buffers, without which packets are lost on loopback.

use std::fs::File;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use nix::sys::socket::{MsgFlags, recv};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use wt_link::quic::{Identity, SOCKET_BUFFER};

/// Bytes of one echo: as many as the smallest sealed record holds.
pub(crate) const ECHO_SIZE: usize = 64;

/// Bytes written and read at once.
const BLOCK: usize = 64 * 1024;

/// The name in the peer's certificate.
const PEER_NAME: &str = "localhost";

/// The order to send so many bytes.
const SOURCE: u8 = b'S';

/// The order to send back what comes.
const ECHO: u8 = b'E';

const ORDER_SIZE: usize = 9;

fn order(what: u8, bytes: u64) -> [u8; ORDER_SIZE] {
    let mut order = [what; ORDER_SIZE];
    order[1..].copy_from_slice(&bytes.to_le_bytes());
    order
}

fn parse_order(order: [u8; ORDER_SIZE]) -> (u8, u64) {
    let [what, bytes @ ..] = order;
    (what, u64::from_le_bytes(bytes))
}

/// The peer's certificate and key, made by whoever needs them first.
pub(crate) fn identity(root: &Path) -> Result<Identity> {
    let path = root.join("peer.pem");
    if !path.exists() {
        std::fs::write(&path, Identity::generate(&[PEER_NAME.to_owned()])?)?;
    }
    Ok(Identity::from_pem(&std::fs::read_to_string(&path)?)?)
}

/// The other end of the baselines.
pub(crate) struct Peer {
    quic: quinn::Endpoint,
    tcp: tokio::net::TcpListener,
}

impl Peer {
    /// Takes connections on loopback.
    pub(crate) async fn bind(identity: &Identity) -> Result<Self> {
        let tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(identity.chain(), identity.key())?;
        let crypto = QuicServerConfig::try_from(tls)?;
        let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        Ok(Self {
            quic: endpoint(Some(config))?,
            tcp: tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?,
        })
    }

    pub(crate) fn quic_addr(&self) -> io::Result<SocketAddr> {
        self.quic.local_addr()
    }

    pub(crate) fn tcp_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves whoever comes, until it is dropped.
    pub(crate) async fn serve(self) -> Result<()> {
        let mut serving = JoinSet::new();
        loop {
            tokio::select! {
                incoming = self.quic.accept() => {
                    let Some(incoming) = incoming else { return Ok(()) };
                    serving.spawn(async move { serve_quic(incoming).await });
                }
                accepted = self.tcp.accept() => {
                    let (stream, _) = accepted?;
                    serving.spawn(async move { serve_tcp(stream).await });
                }
                Some(_) = serving.join_next() => {}
            }
        }
    }
}

async fn serve_quic(incoming: quinn::Incoming) -> Result<()> {
    let connection = incoming.await?;
    let mut serving = JoinSet::new();
    loop {
        let (mut send, mut recv) = connection.accept_bi().await?;
        serving.spawn(async move {
            let mut order = [0; ORDER_SIZE];
            recv.read_exact(&mut order).await?;
            match parse_order(order) {
                (SOURCE, mut left) => {
                    let block = Bytes::from(vec![0x5a; BLOCK]);
                    while left > 0 {
                        let n = left.min(BLOCK as u64) as usize;
                        send.write_chunk(block.slice(..n)).await?;
                        left -= n as u64;
                    }
                }
                (ECHO, _) => {
                    while let Some(chunk) = recv.read_chunk(BLOCK, true).await? {
                        send.write_chunk(chunk.bytes).await?;
                    }
                }
                (other, _) => bail!("there is no order {other}"),
            }
            send.finish()?;
            // Not dropped before all of it is delivered.
            let _ = send.stopped().await;
            Ok(())
        });
    }
}

async fn serve_tcp(mut stream: tokio::net::TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut order = [0; ORDER_SIZE];
    stream.read_exact(&mut order).await?;
    let mut block = vec![0x5a; BLOCK];
    match parse_order(order) {
        (SOURCE, mut left) => {
            while left > 0 {
                let n = left.min(BLOCK as u64) as usize;
                stream.write_all(&block[..n]).await?;
                left -= n as u64;
            }
        }
        (ECHO, _) => loop {
            match stream.read(&mut block).await? {
                0 => break,
                n => stream.write_all(&block[..n]).await?,
            }
        },
        (other, _) => bail!("there is no order {other}"),
    }
    Ok(stream.shutdown().await?)
}

/// A connection to the peer over bare quinn.
pub(crate) struct RawQuic {
    connection: quinn::Connection,
    _endpoint: quinn::Endpoint,
}

impl RawQuic {
    /// Connects.
    pub(crate) async fn connect(addr: SocketAddr, identity: &Identity) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in identity.chain() {
            roots.add(certificate)?;
        }
        let tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        let endpoint = endpoint(None)?;
        let connection = endpoint.connect_with(config, addr, PEER_NAME)?.await?;
        Ok(Self {
            connection,
            _endpoint: endpoint,
        })
    }

    /// Has so many bytes sent, and takes them.
    pub(crate) async fn take(&self, bytes: u64) -> Result<()> {
        let (mut send, mut recv) = self.connection.open_bi().await?;
        send.write_all(&order(SOURCE, bytes)).await?;
        let mut total = 0;
        while let Some(chunk) = recv.read_chunk(BLOCK, true).await? {
            total += chunk.bytes.len() as u64;
        }
        check(total, bytes)
    }

    /// Opens a stream that echoes.
    pub(crate) async fn echo(&self) -> Result<(quinn::SendStream, quinn::RecvStream)> {
        let (mut send, recv) = self.connection.open_bi().await?;
        send.write_all(&order(ECHO, 0)).await?;
        Ok((send, recv))
    }
}

/// Has so many bytes sent over TCP, and takes them.
pub(crate) async fn take_tcp(addr: SocketAddr, bytes: u64) -> Result<()> {
    let mut stream = connect_tcp(addr).await?;
    stream.write_all(&order(SOURCE, bytes)).await?;
    let mut block = vec![0; BLOCK];
    let mut total = 0;
    loop {
        match stream.read(&mut block).await? {
            0 => return check(total, bytes),
            n => total += n as u64,
        }
    }
}

/// Opens a TCP connection that echoes.
pub(crate) async fn echo_tcp(addr: SocketAddr) -> Result<tokio::net::TcpStream> {
    let mut stream = connect_tcp(addr).await?;
    stream.write_all(&order(ECHO, 0)).await?;
    Ok(stream)
}

async fn connect_tcp(addr: SocketAddr) -> Result<tokio::net::TcpStream> {
    let stream = tokio::net::TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn check(total: u64, bytes: u64) -> Result<()> {
    anyhow::ensure!(total == bytes, "{total} bytes came instead of {bytes}");
    Ok(())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn endpoint(server: Option<quinn::ServerConfig>) -> Result<quinn::Endpoint> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let buffers = socket2::SockRef::from(&socket);
    // The kernel may give less; the product's sockets then get less as well.
    let _ = buffers.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = buffers.set_send_buffer_size(SOCKET_BUFFER);
    let runtime = Arc::new(quinn::TokioRuntime);
    Ok(quinn::Endpoint::new(
        quinn::EndpointConfig::default(),
        server,
        socket,
        runtime,
    )?)
}

// A TCP relay that never sees a byte: splice(2) from socket to pipe to socket, which is what
// the standard library's copy does between such descriptors. One thread for each leg, because
// each call waits. A splice that waits for a socket keeps the pipe to itself, so the first leg
// asks before how much is there, and never splices more than that.

/// Bytes that are asked for at once: more than a socket's buffer holds on loopback.
const SPLICE: usize = 1 << 20;

/// Relays every connection to `upstream`, until the process ends.
pub(crate) fn splice_all(listener: &TcpListener, upstream: SocketAddr) {
    for stream in listener.incoming().flatten() {
        // A connection that cannot be relayed is closed, which its maker sees.
        let _ = splice_one(stream, upstream);
    }
}

fn splice_one(here: TcpStream, upstream: SocketAddr) -> Result<()> {
    let there = TcpStream::connect(upstream).context("the peer does not answer")?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    splice_one_way(here.try_clone()?, there.try_clone()?)?;
    splice_one_way(there, here)
}

fn splice_one_way(from: TcpStream, to: TcpStream) -> Result<()> {
    let (reader, writer) = io::pipe()?;
    let (reader, writer) = (
        File::from(OwnedFd::from(reader)),
        File::from(OwnedFd::from(writer)),
    );
    thread::spawn(move || {
        // Nothing is ever written to it: MSG_TRUNC only counts (tcp(7)).
        let mut uncopied = vec![0; SPLICE];
        let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC;
        loop {
            let there = recv(from.as_raw_fd(), &mut uncopied, look)?;
            if there == 0 {
                return Ok::<_, io::Error>(());
            }
            io::copy(&mut (&from).take(there as u64), &mut &writer)?;
        }
    });
    thread::spawn(move || {
        let copied = io::copy(&mut &reader, &mut &to);
        let _ = to.shutdown(Shutdown::Write);
        copied
    });
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// More than any one buffer on the way holds.
    const SIZE: u64 = 8 << 20;

    async fn peer(root: &Path) -> (Identity, SocketAddr, SocketAddr, JoinSet<Result<()>>) {
        let identity = identity(root).unwrap();
        let peer = Peer::bind(&identity).await.unwrap();
        let (quic, tcp) = (peer.quic_addr().unwrap(), peer.tcp_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(peer.serve());
        (identity, quic, tcp, serving)
    }

    #[tokio::test]
    async fn a_transfer_over_bare_quinn_is_whole_and_an_echo_comes_back() {
        let root = tempfile::tempdir().unwrap();
        let (identity, quic, _, _serving) = peer(root.path()).await;
        let raw = RawQuic::connect(quic, &identity).await.unwrap();

        raw.take(SIZE).await.unwrap();

        let (mut send, mut recv) = raw.echo().await.unwrap();
        send.write_all(&[7; ECHO_SIZE]).await.unwrap();
        let mut back = [0; ECHO_SIZE];
        recv.read_exact(&mut back).await.unwrap();
        assert_eq!(back, [7; ECHO_SIZE]);
    }

    #[tokio::test]
    async fn a_spliced_connection_carries_both_directions_and_both_ends() {
        let root = tempfile::tempdir().unwrap();
        let (_, _, tcp, _serving) = peer(root.path()).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let relay = listener.local_addr().unwrap();
        thread::spawn(move || splice_all(&listener, tcp));

        take_tcp(relay, SIZE).await.unwrap();

        let mut echo = echo_tcp(relay).await.unwrap();
        echo.write_all(&[7; ECHO_SIZE]).await.unwrap();
        let mut back = [0; ECHO_SIZE];
        echo.read_exact(&mut back).await.unwrap();
        assert_eq!(back, [7; ECHO_SIZE]);
        echo.shutdown().await.unwrap();
        assert_eq!(echo.read(&mut back).await.unwrap(), 0);
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        assert_eq!(
            parse_order(order(SOURCE, 0x0102_0304_0506_0708)),
            (SOURCE, 0x0102_0304_0506_0708)
        );
    }
}

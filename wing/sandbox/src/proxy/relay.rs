//! Bytes from one connection to another.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// How much one direction holds while it copies. With 256 connections it is 16 MiB.
const BUFFER: usize = 32 * 1024;

/// After how many bytes a direction leaves copying to the kernel. A pipe costs two
/// descriptors, which is too much for the many connections that stay small.
const SPLICE_AFTER: u64 = 512 * 1024;

/// How much the kernel holds for such a direction.
const PIPE: usize = 512 * 1024;

/// How many directions of a process are left to the kernel at once: twice as many
/// descriptors, of the 1 024 that a process usually has.
const MAX_PIPES: usize = 64;

/// How long both directions may be silent. Replies that come when a model has thought, and
/// streams of events, are silent for long; dead peers are found by keep-alives before.
const IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// How long the client may go on after the server has closed its side.
const AFTER_SERVER: Duration = Duration::from_secs(60);

/// How often silence is looked for.
const LOOK: Duration = Duration::from_secs(20);

/// What went through a connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Bytes from the client to the server.
    pub(super) sent: AtomicU64,
    /// Bytes from the server to the client.
    pub(super) received: AtomicU64,
    server_done: AtomicBool,
}

impl Traffic {
    pub(super) fn totals(&self) -> (u64, u64) {
        (
            self.sent.load(Ordering::Relaxed),
            self.received.load(Ordering::Relaxed),
        )
    }
}

/// Sets up a connection for relaying.
pub(super) fn prepare(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(15))
        .with_retries(4);
    // Without these it works, too: later and with longer waits.
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
    let _ = stream.set_nodelay(true);
}

/// Reads some bytes; none at the end.
pub(super) async fn read(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

/// Writes all bytes.
pub(super) async fn write(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends the connection with a reset, which a client understands at once.
pub(super) fn reset(stream: &TcpStream) {
    // Failing that, it is closed in the ordinary way.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Relays both directions until both have ended. The end of one is passed on and leaves the
/// other open. `before` yields the first bytes of the client, when they have been seen.
pub(super) async fn relay(
    client: &TcpStream,
    server: &TcpStream,
    before: impl Future<Output = io::Result<Vec<u8>>>,
    traffic: &Traffic,
) -> io::Result<()> {
    let up = async {
        let first = before.await?;
        write(server, &first).await?;
        traffic
            .sent
            .fetch_add(first.len() as u64, Ordering::Relaxed);
        pump(client, server, &traffic.sent).await
    };
    let down = async {
        pump(server, client, &traffic.received).await?;
        traffic.server_done.store(true, Ordering::Relaxed);
        Ok(())
    };
    tokio::select! {
        ended = async { tokio::try_join!(up, down) } => ended.map(|_| ()),
        () = silence(traffic) => Err(ErrorKind::TimedOut.into()),
    }
}

/// Returns when nothing has moved for too long.
pub(super) async fn silence(traffic: &Traffic) {
    let mut last = traffic.totals();
    let mut quiet = Duration::ZERO;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = traffic.totals();
        quiet = if now == last {
            quiet + LOOK
        } else {
            Duration::ZERO
        };
        last = now;
        let limit = match traffic.server_done.load(Ordering::Relaxed) {
            true => AFTER_SERVER,
            false => IDLE,
        };
        if quiet >= limit {
            return;
        }
    }
}

/// One direction, with the end of it passed on.
async fn pump(from: &TcpStream, to: &TcpStream, count: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut moved = 0;
    loop {
        let length = read(from, &mut buffer).await?;
        if length == 0 {
            return finish(to);
        }
        write(to, &buffer[..length]).await?;
        count.fetch_add(length as u64, Ordering::Relaxed);
        moved += length as u64;
        if moved >= SPLICE_AFTER {
            // Asked once: when there are none, there is always the buffer.
            moved = 0;
            if let Some(pipe) = Pipe::open() {
                drop(buffer);
                return pipe.pump(from, to, count).await;
            }
        }
    }
}

fn finish(to: &TcpStream) -> io::Result<()> {
    match SockRef::from(to).shutdown(Shutdown::Write) {
        // The other end is gone already, and so knows.
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
        result => result,
    }
}

static PIPES: AtomicUsize = AtomicUsize::new(0);

/// A pipe through which the kernel moves bytes from socket to socket.
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    fn open() -> Option<Self> {
        if PIPES.fetch_add(1, Ordering::Relaxed) >= MAX_PIPES {
            PIPES.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let Ok((out, into)) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK) else {
            PIPES.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // A user may be over the limit for large pipes; the usual size works as well.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(PIPE as i32));
        Some(Self { out, into })
    }

    async fn pump(self, from: &TcpStream, to: &TcpStream, count: &AtomicU64) -> io::Result<()> {
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
        loop {
            // The pipe is empty here, so that "would block" speaks of the socket.
            let taken = from
                .async_io(Interest::READABLE, || {
                    Ok(splice(from, None, &self.into, None, PIPE, flags)?)
                })
                .await?;
            if taken == 0 {
                return finish(to);
            }
            let mut left = taken;
            while left > 0 {
                left -= to
                    .async_io(Interest::WRITABLE, || {
                        Ok(splice(&self.out, None, to, None, left, flags)?)
                    })
                    .await?;
            }
            count.fetch_add(taken as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Ordering::Relaxed);
    }
}

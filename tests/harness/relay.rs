//! A stand-alone relay: `wt-relay serve` with a data directory of its own.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::canary::{Needles, Search};
use crate::process::{self, free_port, program};
use crate::profile::{Run, Running};
use crate::wait::eventually;

/// A relay in a process of its own that logs everything it can. Dropped, it is killed.
pub struct Relay {
    addr: SocketAddr,
    origin: String,
    dir: TempDir,
    child: Option<Child>,
}

impl Relay {
    /// Starts a relay on a free loopback port.
    ///
    /// # Panics
    /// When it does not answer in time.
    #[track_caller]
    pub fn start() -> Self {
        let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Self::start_at(addr, format!("http://{addr}"))
    }

    /// Starts a relay on an address that its users know by another one.
    ///
    /// # Panics
    /// When it does not answer in time.
    #[track_caller]
    pub fn start_at(addr: SocketAddr, origin: String) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("wt-relay-")
            .tempdir_in("/tmp")
            .expect("/tmp can hold a directory");
        let mut relay = Self {
            addr,
            origin,
            dir,
            child: None,
        };
        relay.spawn();
        relay
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL by which its users know it.
    pub fn url(&self) -> &str {
        &self.origin
    }

    /// Its process.
    ///
    /// # Panics
    /// When it was killed.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the relay runs").id()
    }

    /// Where it keeps its store, keys and tokens.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Kills it with SIGKILL and returns when it is gone.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().expect("a child of ours can be waited for");
        }
    }

    /// Starts it again on the same address, with what it kept. It must not run.
    ///
    /// # Panics
    /// When it does not answer in time.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "the relay still runs");
        self.spawn();
    }

    /// Ends it in order with SIGTERM and returns when it is gone.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            process::signal(child.id(), Signal::SIGTERM);
            let done = eventually("the relay to end in order", || {
                child.try_wait().ok().flatten()
            });
            assert!(
                done.success(),
                "the relay ended with {done}\n{}",
                self.log()
            );
        }
    }

    /// Approves a device login as the operator.
    #[track_caller]
    pub fn approve(&self, code: &str) -> Run {
        let mut command = self.command();
        command
            .args(["approve", code, "--json", "--data"])
            .arg(self.data_dir());
        Running::start(command).wait()
    }

    /// All it logged, over all its lives.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Searches its memory, and its data directory and log.
    ///
    /// # Panics
    /// When one of them cannot be read.
    #[track_caller]
    pub fn search(&self, needles: &Needles) -> RelaySearch {
        RelaySearch {
            memory: needles
                .in_process(self.pid())
                .expect("the memory of a child of ours can be read"),
            store: needles
                .in_dir(&self.data_dir())
                .expect("the relay's data can be read"),
            log: needles
                .in_file(&self.log_path())
                .expect("the relay's log can be read"),
        }
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("trace.log")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program("wt-relay"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn spawn(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("a log can be opened in a fresh directory");
        let out = log.try_clone().expect("a file can be held twice");
        let child = self
            .command()
            .args(["serve", "--json", "--addr", &self.addr.to_string()])
            .args(["--origin", &self.origin, "--log", "trace", "--data"])
            .arg(self.data_dir())
            .stdout(out)
            .stderr(log)
            .spawn()
            .expect("the relay's program can be started");
        let child = self.child.insert(child);
        let addr = self.addr;
        let ready = eventually("the relay to answer", || {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(Err(status));
            }
            is_healthy(addr).then_some(Ok(()))
        });
        if let Err(status) = ready {
            panic!("the relay ended with {status}\n{}", self.log());
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let shown: Vec<&str> = log.lines().filter(|line| !line.contains("TRACE")).collect();
            eprintln!(
                "--- relay ---\n{}",
                shown[shown.len().saturating_sub(60)..].join("\n")
            );
        }
        self.kill9();
    }
}

/// What a search of a relay found.
pub struct RelaySearch {
    /// In its memory.
    pub memory: Search,
    /// In its data directory.
    pub store: Search,
    /// In its log.
    pub log: Search,
}

/// Whether a relay answers on an address.
pub fn is_healthy(addr: SocketAddr) -> bool {
    http_get(addr, "/healthz").is_some_and(|(status, _)| status == 200)
}

/// Asks a loopback address over HTTP and returns status and body; none if it does not answer.
pub fn http_get(addr: SocketAddr, path: &str) -> Option<(u16, String)> {
    use std::io::{Read, Write};
    use std::time::Duration;

    /// One answer on loopback; the caller asks again.
    const BOUND: Duration = Duration::from_secs(5);

    let mut stream = std::net::TcpStream::connect_timeout(&addr, BOUND).ok()?;
    stream.set_read_timeout(Some(BOUND)).ok()?;
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Whether a port can be bound in TCP and UDP.
pub fn is_free(addr: SocketAddr) -> bool {
    std::net::TcpListener::bind(addr).is_ok() && std::net::UdpSocket::bind(addr).is_ok()
}

/// The path of a file below a directory, wherever it is. The first in order of paths.
pub fn find_file(dir: &Path, name: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries.iter().find_map(|path| {
        if path.is_dir() {
            find_file(path, name)
        } else {
            path.file_name()
                .is_some_and(|found| found == name)
                .then(|| path.clone())
        }
    })
}

//! A terminal as a user has it: a command on a pseudo-terminal that this program reads.
//!
//! Keys and echoes are timed with plain blocking calls, because the way through a runtime
//! costs as much as some of what is measured. Every call comes back soon, and whoever
//! measures awaits something between two of them, so that an interrupt is heard.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::unistd::{read, setsid, ttyname, write};

use crate::home::Home;
use crate::roles;

/// Size of every terminal.
pub(crate) const COLS: u16 = 120;
pub(crate) const ROWS: u16 = 40;

/// How long one echo may take before the way is called dead.
const ECHO_DEADLINE: Duration = Duration::from_secs(5);

/// How long reading goes on before an interrupt is listened for.
const SLICE: Duration = Duration::from_millis(100);

/// Bytes asked for at once.
const BLOCK: usize = 64 * 1024;

/// The key that is pressed; no escape sequence ends with it.
const KEY: u8 = b'x';

/// A command on a terminal of its own. Dropped, it is killed.
pub(crate) struct Terminal {
    master: OwnedFd,
    child: Child,
    buffer: Vec<u8>,
}

impl Terminal {
    /// Starts a command.
    pub(crate) fn start(home: &Home, argv: &[&OsStr]) -> Result<Self> {
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(&size, None).context("cannot make a pseudo-terminal")?;
        // Another process that held it would keep the terminal alive after this one.
        for end in [&pair.master, &pair.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        let stdio = || Ok::<_, io::Error>(Stdio::from(pair.slave.try_clone()?));
        let child = Command::new(home.exe())
            .arg(roles::TTY)
            .arg(ttyname(&pair.slave)?)
            .args(argv)
            .env_clear()
            .envs(home.env())
            .current_dir(home.root())
            .stdin(stdio()?)
            .stdout(stdio()?)
            .stderr(stdio()?)
            .spawn()
            .with_context(|| format!("cannot start {argv:?} on a terminal"))?;
        Ok(Self {
            master: pair.master,
            child,
            buffer: vec![0; BLOCK],
        })
    }

    /// Types.
    pub(crate) fn send(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[write(&self.master, bytes)?..];
        }
        Ok(())
    }

    /// Presses one key; gives the time until it comes back. Nothing else may be printing.
    pub(crate) fn press(&mut self) -> Result<Duration> {
        while !self.read(Duration::ZERO)?.is_empty() {}
        let pressed = Instant::now();
        self.send(&[KEY])?;
        loop {
            let left = ECHO_DEADLINE.saturating_sub(pressed.elapsed());
            ensure!(!left.is_zero(), "no echo within {ECHO_DEADLINE:?}");
            if self.read(left)?.contains(&KEY) {
                return Ok(pressed.elapsed());
            }
        }
    }

    /// Reads until a mark comes; gives the number of bytes, the mark among them.
    pub(crate) async fn until(&mut self, mark: &[u8], deadline: Duration) -> Result<u64> {
        let started = Instant::now();
        let mut total = 0;
        // The end of what came before, in case the mark is cut in two.
        let mut tail: Vec<u8> = Vec::new();
        while started.elapsed() < deadline {
            let slice = Instant::now();
            while slice.elapsed() < SLICE {
                let came = self.read(SLICE)?;
                total += came.len() as u64;
                tail.extend_from_slice(came);
                if tail.windows(mark.len()).any(|window| window == mark) {
                    return Ok(total);
                }
                tail.drain(..tail.len().saturating_sub(mark.len()));
            }
            tokio::task::yield_now().await;
        }
        bail!(
            "{:?} did not come within {deadline:?}",
            String::from_utf8_lossy(mark)
        )
    }

    /// Reads until nothing comes for so long.
    pub(crate) async fn quiet(&mut self, length: Duration) -> Result<()> {
        while !self.read(length)?.is_empty() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// What comes within a time; empty if nothing does.
    fn read(&mut self, within: Duration) -> Result<&[u8]> {
        let timeout = PollTimeout::try_from(within).context("a short time")?;
        let mut ready = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, timeout)? == 0 {
            return Ok(&[]);
        }
        match read(&self.master, &mut self.buffer) {
            Ok(n) if n > 0 => Ok(&self.buffer[..n]),
            Ok(_) | Err(Errno::EIO) => bail!("the command on the terminal ended"),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do but to collect it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Becomes a command whose terminal is the named one; returns only when it cannot.
pub(crate) fn become_command(tty: &OsStr, argv: &[OsString]) -> Result<()> {
    setsid().context("cannot leave the terminal")?;
    // The first terminal that the leader of a session opens is the session's own.
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(tty)
        .with_context(|| format!("cannot open {}", tty.display()))?;
    let (program, arguments) = argv.split_first().context("a command is missing")?;
    let error = Command::new(program).args(arguments).exec();
    drop(opened);
    let _ = writeln!(io::stderr(), "cannot start {}", program.display());
    Err(error.into())
}

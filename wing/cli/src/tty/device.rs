//! Reads and writes the user's terminal.
//!
//! The terminal stays in blocking mode, because that mode belongs to all who share it. It is
//! opened again where that is possible, which gives this process a mode of its own, and
//! then a key reaches the loop without the detour over a thread. Where it is not (no
//! terminal but a pipe, another user's terminal, systems that cannot wait for terminals)
//! threads of their own do it, which may block for as long as the user likes.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::mpsc as threads;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::coop::consume_budget;

/// One read of the terminal.
pub(super) const READ_SIZE: usize = 16 * 1024;

/// Pieces of output that wait for the terminal; each has at most a few records.
const WRITES: usize = 8;

/// What the user types.
///
/// It is read when it is asked for, and never ahead: what is typed after the leaving key is
/// for whoever reads the terminal next.
pub(super) enum Keyboard {
    /// A terminal of our own mode. The runtime's type for an end of a pipe does for it.
    Direct(pipe::Receiver),
    /// A thread that waits for the terminal and for its own end at once.
    Thread {
        typed: mpsc::Receiver<Vec<u8>>,
        ask: threads::SyncSender<()>,
        /// A read was asked for and its answer is to come.
        asked: bool,
        /// Closed, it ends the thread.
        _stop: OwnedFd,
    },
}

impl Keyboard {
    pub(super) fn start() -> io::Result<Self> {
        let direct = opened_again(io::stdin().as_fd()).map(pipe::Receiver::from_file_unchecked);
        match direct {
            Some(Ok(terminal)) => Ok(Self::Direct(terminal)),
            Some(Err(_)) | None => Self::thread(),
        }
    }

    fn thread() -> io::Result<Self> {
        let (stopped, stop) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let (sink, typed) = mpsc::channel(1);
        let (ask, asked) = threads::sync_channel(1);
        std::thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || {
                // Any error means that the terminal is gone, which is an end of input.
                while asked.recv().is_ok()
                    && let Ok(Some(bytes)) = read_terminal(&stopped)
                    && !bytes.is_empty()
                    && sink.blocking_send(bytes).is_ok()
                {}
            })?;
        Ok(Self::Thread {
            typed,
            ask,
            asked: false,
            _stop: stop,
        })
    }

    /// What is typed next; none at the end of input. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            // Any error means that the terminal is gone, which is an end of input.
            Self::Direct(terminal) => read_directly(terminal).await.ok(),
            Self::Thread {
                typed, ask, asked, ..
            } => {
                if !*asked {
                    // A thread that has ended closes the other channel too.
                    *asked = ask.try_send(()).is_ok();
                }
                let bytes = typed.recv().await;
                *asked = false;
                bytes
            }
        }
    }
}

/// Waits for something typed. Its end is an error.
async fn read_directly(terminal: &pipe::Receiver) -> io::Result<Vec<u8>> {
    loop {
        let ready = terminal.ready(Interest::READABLE).await?;
        let mut bytes = vec![0; READ_SIZE];
        match terminal.try_read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes.truncate(count);
                return Ok(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // One that was hung up has nothing more, whatever a read says.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !ready.is_read_closed() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for something typed; none when the other end of `stopped` is closed.
fn read_terminal(stopped: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    let stdin = io::stdin();
    loop {
        let mut asked = [
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut asked, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        if is_ready(&asked[1]) {
            return Ok(None);
        }
        if !is_ready(&asked[0]) {
            continue;
        }
        let mut bytes = vec![0; READ_SIZE];
        match nix::unistd::read(&stdin, &mut bytes) {
            Ok(count) => {
                bytes.truncate(count);
                return Ok(Some(bytes));
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What draws on the user's terminal: a task on a terminal of our own mode, or a thread.
pub(super) struct Screen {
    pub(super) writes: mpsc::Sender<Vec<u8>>,
    /// Why it ended, if it did so by itself.
    pub(super) failed: oneshot::Receiver<io::Error>,
    done: Option<oneshot::Receiver<()>>,
}

impl Screen {
    pub(super) fn start() -> io::Result<Self> {
        let (writes, mut source) = mpsc::channel::<Vec<u8>>(WRITES);
        let (report, failed) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        if let Some(terminal) = opened_again(io::stdout().as_fd()) {
            tokio::spawn(async move {
                while let Some(bytes) = source.recv().await {
                    if let Err(error) = write_directly(&terminal, &bytes).await {
                        let _ = report.send(error);
                        return;
                    }
                    if bytes.is_empty() {
                        break;
                    }
                }
                let _ = finished.send(());
                // Until the process ends, so that the end of this task is never taken for a failure.
                while source.recv().await.is_some() {}
            });
        } else {
            let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            std::thread::Builder::new()
                .name("screen".to_owned())
                .spawn(move || {
                    while let Some(bytes) = source.blocking_recv() {
                        if let Err(error) = write_whole(&stdout, &bytes) {
                            let _ = report.send(error);
                            return;
                        }
                        if bytes.is_empty() {
                            break;
                        }
                    }
                    let _ = finished.send(());
                    while source.blocking_recv().is_some() {}
                })?;
        }
        Ok(Self {
            writes,
            failed,
            done: Some(done),
        })
    }

    /// Waits until everything is written. An empty write marks the end.
    pub(super) async fn close(&mut self) {
        if self.writes.send(Vec::new()).await.is_ok()
            && let Some(done) = self.done.take()
        {
            let _ = done.await;
        }
    }
}

/// Writes to a terminal of our own mode. It is watched only while it is full: most output
/// finds room at once, and a terminal that is watched wakes whoever wrote to it.
async fn write_directly(mut terminal: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match terminal.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let watched = pipe::Sender::from_file_unchecked(terminal.try_clone()?)?;
                // One that was hung up takes nothing more, whatever a write says.
                if watched.ready(Interest::WRITABLE).await?.is_write_closed() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    // A terminal that is never full leaves the others their turn all the same.
    consume_budget().await;
    Ok(())
}

fn write_whole(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Somebody who shares the terminal switched it to non-blocking mode.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut asked = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut asked, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The same terminal once more, in a non-blocking mode that is nobody else's. None where that
/// cannot be had: it is no terminal, it may not be opened, or its name here means another.
///
/// Only Linux waits for every kind of terminal; kqueue(2) refuses some.
fn opened_again(terminal: BorrowedFd<'_>) -> Option<File> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let path = nix::unistd::ttyname(terminal).ok()?;
    let mode = OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
    let again = File::options()
        .read(true)
        .write(true)
        .custom_flags(mode.bits())
        .open(path)
        .ok()?;
    let given = File::from(terminal.try_clone_to_owned().ok()?)
        .metadata()
        .ok()?;
    let found = again.metadata().ok()?;
    let is_same =
        (given.dev(), given.ino(), given.rdev()) == (found.dev(), found.ino(), found.rdev());
    is_same.then_some(again)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::pty::openpty;

    use super::*;

    #[test]
    fn a_terminal_that_is_opened_again_leaves_the_mode_of_the_other_as_it_is() {
        let terminal = openpty(None, None).unwrap();
        let mode = |fd: BorrowedFd<'_>| {
            let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).unwrap());
            flags.contains(OFlag::O_NONBLOCK)
        };

        let again = opened_again(terminal.slave.as_fd());

        assert_eq!(again.is_some(), cfg!(target_os = "linux"));
        assert!(again.is_none_or(|again| mode(again.as_fd())));
        assert!(!mode(terminal.slave.as_fd()));
    }

    #[test]
    fn what_is_no_terminal_is_not_opened_again() {
        let (end, _other) = nix::unistd::pipe().unwrap();

        assert!(opened_again(end.as_fd()).is_none());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn keys_and_output_pass_a_terminal_and_its_end_is_the_end_of_keys() {
        let terminal = openpty(None, None).unwrap();
        let mut window = File::from(terminal.master);
        let mut keyboard = Keyboard::Direct(
            pipe::Receiver::from_file_unchecked(opened_again(terminal.slave.as_fd()).unwrap())
                .unwrap(),
        );
        let screen = opened_again(terminal.slave.as_fd()).unwrap();

        window.write_all(b"ls\n").unwrap();
        assert_eq!(keyboard.next().await, Some(b"ls\n".to_vec()));

        write_directly(&screen, b"seen").await.unwrap();
        drop(window);
        assert_eq!(keyboard.next().await, None);
        assert!(write_directly(&screen, b"unseen").await.is_err());
    }
}

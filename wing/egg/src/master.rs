//! The egg's end of the terminal, without a thread of its own.
//!
//! A key and its echo each pass the egg with one wake-up of its one thread. What the
//! program prints in a flood is taken in pieces of a size that leaves room for everything
//! else between two of them.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::sleep;

/// How often a terminal that nobody has open is looked at again. A program may close its
/// terminal and open it later, so only the program's end is the end.
pub(crate) const CLOSED_TERMINAL_POLL: Duration = Duration::from_millis(50);

/// What was read at once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes at the start of the buffer; 0 at the end of the output.
    pub(crate) count: usize,
    /// Whether more may be there already.
    pub(crate) more: bool,
}

/// What the program prints.
///
/// The runtime's type for an end of a pipe does for a terminal too: it waits and reads, and
/// asks nothing of the file but that it does not block.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    watched: Receiver,
}

/// What the program reads.
///
/// It is watched only while it is full: most of what is typed finds room at once, and a
/// terminal that is watched wakes the egg whenever the program has read.
#[derive(Debug)]
pub(crate) struct Input(File);

/// Both directions of a terminal's master end, which is in non-blocking mode.
///
/// # Errors
/// What the system says.
pub(crate) fn split(master: File) -> io::Result<(Output, Input)> {
    let file = master.try_clone()?;
    Ok((
        Output {
            watched: Receiver::from_file_unchecked(file.try_clone()?)?,
            file,
        },
        Input(master),
    ))
}

impl Output {
    /// Waits for output and takes what is there, up to the buffer's length. The kernel gives
    /// 4,095 bytes at a time.
    ///
    /// # Errors
    /// EIO while nobody has the terminal open (pty(7)).
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<Taken> {
        loop {
            let ready = self.watched.ready(Interest::READABLE).await?;
            match self.fill(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                taken => return taken,
            }
            // That it was closed is remembered for as long as it is watched, and one that
            // was opened again would seem ready for ever.
            if ready.is_read_closed() {
                sleep(CLOSED_TERMINAL_POLL).await;
                self.watched = Receiver::from_file_unchecked(self.file.try_clone()?)?;
            }
        }
    }

    /// Reads until nothing more is there or the buffer is full. An error after some bytes
    /// shows again at the next call.
    fn fill(&self, buffer: &mut [u8]) -> io::Result<Taken> {
        let mut count = 0;
        while count < buffer.len() {
            match self.watched.try_read(&mut buffer[count..]) {
                Ok(0) => break,
                Ok(n) => count += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if count == 0 => return Err(error),
                Err(error) => {
                    let more = error.kind() != io::ErrorKind::WouldBlock;
                    return Ok(Taken { count, more });
                }
            }
        }
        Ok(Taken { count, more: true })
    }
}

impl Input {
    /// Writes all of the bytes, waiting for the program as long as it takes.
    ///
    /// # Errors
    /// EIO while nobody has the terminal open.
    pub(crate) async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.0).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let watched = Sender::from_file_unchecked(self.0.try_clone()?)?;
                    if watched.ready(Interest::WRITABLE).await?.is_write_closed() {
                        sleep(CLOSED_TERMINAL_POLL).await;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::pty::{OpenptyResult, openpty};
    use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
    use nix::unistd::ttyname;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn output_is_taken_as_it_comes_and_a_full_buffer_says_that_more_may_be_there() {
        let (master, mut slave) = terminal();
        let mut output = split(master).unwrap().0;
        let mut buffer = [0; 4];

        slave.write_all(b"abcdef").unwrap();

        let first = timeout(SOON, output.read(&mut buffer)).await.unwrap();
        assert_eq!(
            first.unwrap(),
            Taken {
                count: 4,
                more: true
            }
        );
        let rest = timeout(SOON, output.read(&mut buffer)).await.unwrap();
        assert_eq!(
            rest.unwrap(),
            Taken {
                count: 2,
                more: false
            }
        );
        assert_eq!(&buffer[..2], b"ef");
    }

    #[tokio::test]
    async fn a_terminal_that_is_closed_and_opened_again_is_read_on_without_spinning() {
        let (master, slave) = terminal();
        let path = ttyname(&slave).unwrap();
        let mut output = split(master).unwrap().0;
        let mut buffer = [0; 64];
        drop(slave);
        let closed = timeout(SOON, output.read(&mut buffer)).await.unwrap();
        assert_eq!(closed.unwrap_err().raw_os_error(), Some(nix::libc::EIO));

        let mut slave = File::options().read(true).write(true).open(path).unwrap();
        let waiting = Instant::now();
        let busy_before = cpu_time();
        assert!(
            timeout(Duration::from_millis(300), output.read(&mut buffer))
                .await
                .is_err()
        );
        let busy = cpu_time() - busy_before;
        assert!(busy < waiting.elapsed() / 2, "{busy:?}");

        slave.write_all(b"back").unwrap();
        let taken = timeout(SOON, output.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(&buffer[..taken.count], b"back");
    }

    #[tokio::test]
    async fn a_paste_that_the_program_reads_late_arrives_whole() {
        let (master, mut slave) = terminal();
        // The terminal hangs up, and drops what is under way, with the last of its master ends.
        let (_output, mut input) = split(master).unwrap();
        let paste: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let expected = paste.clone();

        let writing = tokio::spawn(async move { input.write_all(&paste).await });
        let read = tokio::task::spawn_blocking(move || {
            let mut read = vec![0; expected.len()];
            slave.read_exact(&mut read).map(|()| read == expected)
        });

        assert!(timeout(SOON, read).await.unwrap().unwrap().unwrap());
        writing.await.unwrap().unwrap();
    }

    fn terminal() -> (File, File) {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let mut settings = tcgetattr(&slave).unwrap();
        cfmakeraw(&mut settings);
        tcsetattr(&slave, SetArg::TCSANOW, &settings).unwrap();
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        (master.into(), slave.into())
    }

    fn cpu_time() -> Duration {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        Duration::new(now.tv_sec() as u64, now.tv_nsec() as u32)
    }
}

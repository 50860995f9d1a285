//! The programs that sessions run: one that floods its terminal, one that echoes, and one
//! that pours out a stream once.
//!
//! The first two put the terminal into raw mode, so that each byte typed comes as it is and
//! each byte printed goes as it is; the last leaves it as most programs find it. All end with
//! their terminal.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// Typed to the flood: print one burst.
pub(crate) const BURST: u8 = b'g';

/// Typed to the flood: print until something else is typed.
pub(crate) const ENDLESS: u8 = b'f';

/// Typed to the flood to end what [`ENDLESS`] began.
pub(crate) const STOP: u8 = b's';

/// What the flood prints at the end of whatever it was told to print, and never within.
pub(crate) const END: u8 = b'#';

/// What a stream ends with, and never holds.
pub(crate) const POURED: &str = "THE-END";

/// The file that lets a stream begin.
pub(crate) const GO: &str = "go";

/// The file that says that all of a stream is printed.
pub(crate) const DONE: &str = "done";

/// How often a stream looks whether it may begin: a thousandth of the shortest one that counts.
const GO_POLL: Duration = Duration::from_millis(5);

/// Characters of a long line.
const LONG_LINE: usize = 1_000_000;

/// Bytes written at once: what a terminal's reader takes at once.
const BLOCK: usize = 64 * 1024;

/// Echoes every byte by itself.
pub(crate) fn echo() -> io::Result<()> {
    make_raw()?;
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut buffer = [0; 4096];
    loop {
        match stdin.read(&mut buffer)? {
            0 => return Ok(()),
            n => {
                stdout.write_all(&buffer[..n])?;
                stdout.flush()?;
            }
        }
    }
}

/// Prints on command; a burst has `burst` bytes and [`END`].
pub(crate) fn flood(burst: u64) -> io::Result<()> {
    make_raw()?;
    let (typed, commands) = mpsc::channel();
    // Ends with the process, which ends when nobody types any more.
    thread::spawn(move || {
        for byte in io::stdin().lock().bytes() {
            let Ok(byte) = byte else { return };
            if typed.send(byte).is_err() {
                return;
            }
        }
    });
    obey(&commands, burst, &mut io::stdout().lock())
}

fn obey(commands: &Receiver<u8>, burst: u64, out: &mut impl Write) -> io::Result<()> {
    let block = text();
    while let Ok(command) = commands.recv() {
        match command {
            BURST => {
                let mut left = burst;
                while left > 0 {
                    let n = left.min(BLOCK as u64) as usize;
                    out.write_all(&block[..n])?;
                    left -= n as u64;
                }
            }
            ENDLESS => {
                while commands.try_recv() == Err(TryRecvError::Empty) {
                    out.write_all(&block)?;
                }
            }
            _ => continue,
        }
        out.write_all(&[END])?;
        out.flush()?;
    }
    Ok(())
}

/// A stream that a program pours out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    /// Lines of one letter, as `yes` prints them
    Yes,
    /// Lines of a million letters
    Long,
}

impl Stream {
    /// Its name in commands and figures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stream::Yes => "yes",
            Stream::Long => "long",
        }
    }

    /// A piece of it, which may stand behind itself.
    fn piece(self) -> Vec<u8> {
        match self {
            Stream::Yes => b"y\n".repeat(BLOCK / 2),
            Stream::Long => {
                let letters = (b'a'..=b'z').cycle().take(LONG_LINE);
                letters.chain([b'\n']).collect()
            }
        }
    }
}

/// Waits for [`GO`] in a folder, prints so many bytes and [`POURED`], makes [`DONE`], and
/// waits for the end of its terminal.
pub(crate) fn pour(stream: Stream, bytes: u64, folder: &Path) -> io::Result<()> {
    while !folder.join(GO).exists() {
        thread::sleep(GO_POLL);
    }
    pour_out(stream, bytes, &mut io::stdout().lock())?;
    fs::write(folder.join(DONE), "")?;
    while io::stdin().lock().read(&mut [0; 4096])? > 0 {}
    Ok(())
}

fn pour_out(stream: Stream, bytes: u64, out: &mut impl Write) -> io::Result<()> {
    let piece = stream.piece();
    let mut left = bytes;
    while left > 0 {
        let n = left.min(piece.len() as u64) as usize;
        out.write_all(&piece[..n])?;
        left -= n as u64;
    }
    write!(out, "\n{POURED}\n")?;
    out.flush()
}

/// Lines of numbers, as a build or a log prints them.
fn text() -> Vec<u8> {
    let mut text = Vec::with_capacity(BLOCK + 128);
    for n in 0u64.. {
        if text.len() >= BLOCK {
            break;
        }
        let word = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.extend_from_slice(format!("{n:08} {word:016x} {word:020}\r\n").as_bytes());
    }
    text.truncate(BLOCK);
    text
}

fn make_raw() -> io::Result<()> {
    let stdin = io::stdin();
    let mut settings = tcgetattr(&stdin)?;
    cfmakeraw(&mut settings);
    Ok(tcsetattr(&stdin, SetArg::TCSANOW, &settings)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn printed(typed: &[u8], burst: u64) -> Vec<u8> {
        let (keys, commands) = mpsc::channel();
        for key in typed {
            keys.send(*key).unwrap();
        }
        drop(keys);
        let mut out = Vec::new();
        obey(&commands, burst, &mut out).unwrap();
        out
    }

    #[test]
    fn a_burst_has_its_size_and_one_end() {
        for size in [0, 1, BLOCK as u64, 3 * BLOCK as u64 + 7] {
            let out = printed(&[BURST], size);

            assert_eq!(out.len() as u64, size + 1);
            assert_eq!(out.iter().position(|b| *b == END), Some(size as usize));
        }
    }

    #[test]
    fn an_endless_flood_ends_at_the_next_key() {
        let out = printed(&[ENDLESS, STOP, BURST], 5);

        assert_eq!(out.iter().filter(|b| **b == END).count(), 2);
        assert_eq!(out.last(), Some(&END));
    }
    #[test]
    fn a_stream_has_its_size_and_one_end() {
        for stream in [Stream::Yes, Stream::Long] {
            for size in [0, 1, 3_000_001] {
                let mut out = Vec::new();
                pour_out(stream, size, &mut out).unwrap();

                let text = String::from_utf8(out).unwrap();
                let end = format!("\n{POURED}\n");
                assert_eq!(text.find(&end), Some(size as usize), "{stream:?}");
                assert_eq!(text.len(), size as usize + end.len(), "{stream:?}");
            }
        }
    }

    #[test]
    fn streams_are_named_as_they_are_chosen() {
        for stream in Stream::value_variants() {
            let value = stream.to_possible_value().unwrap();
            assert_eq!(value.get_name(), stream.name());
        }
    }
}

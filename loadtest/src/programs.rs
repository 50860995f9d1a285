//! The programs that sessions run: one that floods its terminal, one that echoes.
//!
//! Both put the terminal into raw mode first, so that each byte typed comes as it is and
//! each byte printed goes as it is, and both end with their terminal.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// Typed to the flood: print one burst.
pub(crate) const BURST: u8 = b'g';

/// Typed to the flood: print until something else is typed.
pub(crate) const ENDLESS: u8 = b'f';

/// Typed to the flood to end what [`ENDLESS`] began.
pub(crate) const STOP: u8 = b's';

/// What the flood prints at the end of whatever it was told to print, and never within.
pub(crate) const END: u8 = b'#';

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
}

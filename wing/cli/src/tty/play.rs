//! Plays a recording in this terminal: the shell around the core in `wt_egg::play`.

use std::fs::File;
use std::io::{self, BufReader};
use std::time::{Duration, Instant};

use tokio::time::{sleep_until, timeout};
use wt_egg::play::{Command, PlayOptions, Player, SEEK_STEP, Step, Wake};
use wt_egg::recording::{Ending, Recording};

use super::attach::{Signalled, Signals};
use super::device::{Keyboard, Screen};
use super::input::{Input, Piece};
use super::raw::RawMode;

/// How long the terminal may take to draw the rest and its own reset.
const LAST_WRITES: Duration = Duration::from_secs(10);

const SAVE_TITLE: &[u8] = b"\x1b[22;0t";
const RESTORE_TITLE: &[u8] = b"\x1b[23;0t";

/// How playing ended.
#[derive(Debug)]
pub(crate) struct Played {
    /// The exit status: 0, or 128 and the number of a signal.
    pub(crate) status: u8,
    /// How the recording ends, if all of it was read.
    pub(crate) ending: Option<Ending>,
    /// Whether the recorded terminal was larger than this one at any time.
    pub(crate) was_larger: bool,
}

/// Plays until the end, or until the user leaves. The terminal is as before then, with the
/// last picture left on it.
///
/// # Errors
/// When the terminal cannot be used, or the recording not be read.
pub(crate) async fn run(
    tape: Recording<BufReader<File>>,
    options: PlayOptions,
) -> io::Result<Played> {
    let mut signals = Signals::new()?;
    let raw = RawMode::enter()?;
    let mut screen = Screen::start()?;
    let mut keyboard = Keyboard::start()?;
    let (player, step) = Player::start(tape, options, Duration::ZERO)?;
    let mut theatre = Theatre {
        player,
        started: Instant::now(),
        pending: push_up(),
        wake: Wake::Command,
        was_larger: false,
    };
    theatre.take(step);
    let status = theatre
        .serve(&raw, &mut screen, &mut keyboard, &mut signals)
        .await;
    drop(keyboard);
    // In every way of ending, an error of the recording included.
    let last = theatre.player.command(Command::Quit, theatre.now());
    let mut bytes = std::mem::take(&mut theatre.pending);
    if let Ok(step) = &last {
        bytes.extend_from_slice(&step.write);
    }
    bytes.extend_from_slice(RESTORE_TITLE);
    bytes.extend_from_slice(b"\r\n\x1b[J");
    let giving_back = async {
        if screen.writes.send(bytes).await.is_ok() {
            screen.close().await;
        }
    };
    let _ = timeout(LAST_WRITES, giving_back).await;
    drop(raw);
    Ok(Played {
        status: status?,
        ending: theatre.player.ending(),
        was_larger: theatre.was_larger,
    })
}

/// Puts the title away, and what is on the terminal into its history.
fn push_up() -> Vec<u8> {
    let rows = super::size().rows;
    let mut out = SAVE_TITLE.to_vec();
    out.extend_from_slice(format!("\x1b[0m\x1b[{rows};1H").as_bytes());
    out.extend(std::iter::repeat_n(b'\n', usize::from(rows)));
    out
}

struct Theatre {
    player: Player<BufReader<File>>,
    started: Instant,
    /// Bytes that the terminal did not take yet. Nothing more is played before it does.
    pending: Vec<u8>,
    wake: Wake,
    was_larger: bool,
}

impl Theatre {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn take(&mut self, step: Step) {
        if let Some(size) = step.size {
            let here = super::size();
            self.was_larger |= size.cols > here.cols || size.rows > here.rows;
        }
        self.pending.extend_from_slice(&step.write);
        self.wake = step.wake;
    }

    async fn serve(
        &mut self,
        raw: &RawMode,
        screen: &mut Screen,
        keyboard: &mut Keyboard,
        signals: &mut Signals,
    ) -> io::Result<u8> {
        let mut input = Input::default();
        let mut release_at: Option<Instant> = None;
        loop {
            let is_idle = self.pending.is_empty();
            let due = match self.wake {
                Wake::At(time) if is_idle => Some(self.started + time),
                Wake::Ended if is_idle => return Ok(0),
                Wake::Quit => return Ok(0),
                Wake::At(_) | Wake::Ended | Wake::Command => None,
            };
            let pieces = tokio::select! {
                failed = &mut screen.failed => {
                    return Err(failed.unwrap_or_else(|_| io::ErrorKind::BrokenPipe.into()));
                }
                signal = signals.next() => match signal {
                    Signalled::End(signal) => {
                        return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
                    }
                    Signalled::Continued => {
                        let _ = raw.again();
                        continue;
                    }
                    // The recorded size stays; what fits is shown.
                    Signalled::Resized => continue,
                },
                permit = screen.writes.reserve(), if !is_idle => {
                    let Ok(permit) = permit else { return Err(io::ErrorKind::BrokenPipe.into()) };
                    permit.send(std::mem::take(&mut self.pending));
                    continue;
                }
                () = at(due) => {
                    let step = self.player.step(self.now())?;
                    self.take(step);
                    continue;
                }
                () = at(release_at) => {
                    release_at = None;
                    input.release()
                }
                typed = keyboard.next() => match typed {
                    Some(bytes) => {
                        let pieces = input.feed(&bytes);
                        release_at = input.patience().map(|wait| Instant::now() + wait);
                        pieces
                    }
                    None => return Ok(0),
                },
            };
            for command in commands(pieces) {
                let step = self.player.command(command, self.now())?;
                self.take(step);
                if command != Command::Quit {
                    self.pending.extend(self.status());
                }
            }
        }
    }

    /// Tells place and speed in the terminal's title: the screen belongs to the recording.
    fn status(&self) -> Vec<u8> {
        let seconds = self.player.position().as_secs();
        let state = if self.player.is_paused() {
            ", paused"
        } else {
            ""
        };
        let speed = self.player.speed().times();
        format!(
            "\x1b]2;{}:{:02}, speed {speed}{state}\x1b\\",
            seconds / 60,
            seconds % 60
        )
        .into_bytes()
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// What keys mean. What else a terminal sends, answers to the recording's questions above
/// all, means nothing.
fn commands(pieces: Vec<Piece>) -> Vec<Command> {
    let mut commands = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(bytes) => commands.extend(bytes.iter().filter_map(|byte| match byte {
                b' ' => Some(Command::Pause),
                // Ctrl+C as well: raw mode makes it a key.
                b'q' | b'Q' | 0x03 => Some(Command::Quit),
                _ => None,
            })),
            Piece::Sequence(sequence) => commands.extend(command_of(&sequence)),
            Piece::Paste(_) => {}
        }
    }
    commands
}

/// What a sequence means: an arrow, or a key as an extended keyboard sends it, which the
/// recording may have switched on.
fn command_of(sequence: &[u8]) -> Option<Command> {
    let arrow = |last| match last {
        b'A' => Some(Command::Faster),
        b'B' => Some(Command::Slower),
        b'C' => Some(Command::Forward(SEEK_STEP)),
        b'D' => Some(Command::Back(SEEK_STEP)),
        _ => None,
    };
    let (&last, head) = sequence.split_last()?;
    let body = match head {
        b"\x1bO" | b"\x1b[" => return arrow(last),
        [b'\x1b', b'[', body @ ..] => std::str::from_utf8(body).ok()?,
        _ => return None,
    };
    let (code, modifiers) = body.split_once(';').unwrap_or((body, ""));
    if modifiers.ends_with(":3") {
        // It is let go of.
        return None;
    }
    let held = modifiers.split(':').next().unwrap_or_default();
    match (last, code.split(':').next(), held) {
        (b'u', Some("32"), _) => Some(Command::Pause),
        (b'u', Some("113"), _) | (b'u', Some("99"), "5") => Some(Command::Quit),
        (b'u', _, _) => None,
        (last, Some("1"), _) => arrow(last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Vec<Command> {
        let mut input = Input::default();
        let mut pieces = input.feed(bytes);
        pieces.extend(input.release());
        commands(pieces)
    }

    #[test]
    fn keys_steer_in_every_form_in_which_a_terminal_sends_them() {
        let (ahead, back) = (Command::Forward(SEEK_STEP), Command::Back(SEEK_STEP));

        assert_eq!(typed(b" q"), [Command::Pause, Command::Quit]);
        assert_eq!(typed(b"\x03"), [Command::Quit]);
        assert_eq!(
            typed(b"\x1b[C\x1b[D\x1bOC\x1bOD"),
            [ahead, back, ahead, back]
        );
        assert_eq!(typed(b"\x1b[A\x1bOB"), [Command::Faster, Command::Slower]);
        assert_eq!(
            typed(b"\x1b[1;1:1C\x1b[1;1:3C\x1b[32u\x1b[113;1:3u\x1b[99;5u"),
            [ahead, Command::Pause, Command::Quit]
        );
    }

    #[test]
    fn answers_the_mouse_and_other_keys_steer_nothing() {
        let none: &[Command] = &[];

        assert_eq!(typed(b"\x1b[?1;2c\x1b]11;rgb:1/q/ q\x07"), none);
        assert_eq!(typed(b"\x1b[<0;1;1M\x1b[5~\x1b[97uxyz"), none);
    }
}

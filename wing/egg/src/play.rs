//! Playing a recording in a terminal: what to write, and when.
//!
//! A pure core: it is told the time and the user's commands, and answers with bytes and
//! the time at which it wants to be asked again. Whoever holds the terminal writes the
//! bytes, waits and reads keys; as the terminal answers queries in what is played, the
//! reader of keys must drop such answers.
//!
//! Output is played byte for byte, without what would write the user's clipboard (OSC 52).
//! A model follows it. To seek, the model is brought to the wanted moment, from the start
//! if that lies behind, and the terminal is made fresh and painted from it; so a jump over
//! megabytes writes one screen.

use std::io::{self, Read, Seek};
use std::time::Duration;

use wt_protocol::session::Winsize;

use crate::recording::{Ending, EventKind, Recording};
use crate::screen::{Model, ModelLimits, Screen, Size, restart, restore_outer};

/// How far one key seeks.
pub const SEEK_STEP: Duration = Duration::from_secs(10);

/// Bytes after which a step ends though more is due, so that commands are seen in a flood.
const STEP_SIZE: usize = 64 << 10;

/// What is due so soon is due: times are divided by speeds and timers are early by less.
const SLACK: Duration = Duration::from_micros(1);

/// Longest sequence that begins like a clipboard write and is held until it shows what it
/// is. Numbers with more leading zeros than fit are no program's.
const MAX_HELD: usize = 32;

/// How fast a recording is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed(f64);

impl Speed {
    /// As it was recorded.
    pub const NORMAL: Self = Self(1.0);

    const SLOWEST: f64 = 1.0 / 16.0;
    const FASTEST: f64 = 256.0;

    /// So many times as fast, from 1/16 to 256; none for a number outside.
    pub fn new(times: f64) -> Option<Self> {
        (Self::SLOWEST..=Self::FASTEST)
            .contains(&times)
            .then_some(Self(times))
    }

    /// The number.
    pub fn times(self) -> f64 {
        self.0
    }

    fn doubled(self) -> Self {
        Self((self.0 * 2.0).min(Self::FASTEST))
    }

    fn halved(self) -> Self {
        Self((self.0 / 2.0).max(Self::SLOWEST))
    }

    /// How much is played in this time.
    fn played_in(self, time: Duration) -> Duration {
        Duration::try_from_secs_f64(time.as_secs_f64() * self.0).unwrap_or(Duration::MAX)
    }

    /// How long it takes to play this much.
    fn time_for(self, played: Duration) -> Duration {
        Duration::try_from_secs_f64(played.as_secs_f64() / self.0).unwrap_or(Duration::MAX)
    }
}

/// How a recording is to be played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlayOptions {
    /// Speed at the start.
    pub speed: Speed,
    /// Longest time in which nothing happens; longer ones are played as this. None plays
    /// all as it was.
    pub idle_limit: Option<Duration>,
}

impl Default for PlayOptions {
    /// As it was recorded.
    fn default() -> Self {
        Self {
            speed: Speed::NORMAL,
            idle_limit: None,
        }
    }
}

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Stop the time, or let it go on.
    Pause,
    /// Jump ahead, at most to the end.
    Forward(Duration),
    /// Jump back, at most to the start.
    Back(Duration),
    /// Play twice as fast.
    Faster,
    /// Play half as fast.
    Slower,
    /// Leave, and give the terminal back as it was.
    Quit,
}

/// What to do, in this order.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The recorded terminal has this size from here on.
    pub size: Option<Winsize>,
    /// Bytes for the terminal.
    pub write: Vec<u8>,
    /// When to come back.
    pub wake: Wake,
}

/// When a player wants to be asked again, if no command comes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At this time.
    At(Duration),
    /// It is paused: at the next command.
    Command,
    /// All was played: at the next command, [`Command::Quit`] for one.
    Ended,
    /// Never.
    Quit,
}

/// Plays one recording.
///
/// Times are given by the caller and count from any moment it likes. Positions count from
/// the start of the recording with idle times shortened as was asked.
#[derive(Debug)]
pub struct Player<R> {
    tape: Recording<R>,
    idle_limit: Option<Duration>,
    speed: Speed,
    mode: Mode,
    /// The event that comes next.
    next: Option<Due>,
    /// Recorded time and position of the event that came last.
    last: (Duration, Duration),
    /// Where the player was at the time `since`.
    position: Duration,
    since: Duration,
    model: Model,
    filter: ClipboardFilter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Playing,
    Paused,
    Quit,
}

#[derive(Debug)]
struct Due {
    at: Duration,
    position: Duration,
    kind: EventKind,
}

impl<R: Read + Seek> Player<R> {
    /// Begins to play at the start. The first step makes the terminal fresh.
    ///
    /// # Errors
    /// A recording that cannot be read.
    pub fn start(
        tape: Recording<R>,
        options: PlayOptions,
        now: Duration,
    ) -> io::Result<(Self, Step)> {
        let mut player = Self {
            model: model(tape.size()),
            tape,
            idle_limit: options.idle_limit,
            speed: options.speed,
            mode: Mode::Playing,
            next: None,
            last: (Duration::ZERO, Duration::ZERO),
            position: Duration::ZERO,
            since: now,
            filter: ClipboardFilter::default(),
        };
        player.rewind()?;
        let painted = player.paint();
        let step = player.go_on(painted)?;
        Ok((player, step))
    }

    /// Plays what is due.
    ///
    /// # Errors
    /// A recording that cannot be read.
    pub fn step(&mut self, now: Duration) -> io::Result<Step> {
        self.pass_time(now);
        self.go_on(Step::empty())
    }

    /// Does what the user wants, and plays what is due.
    ///
    /// # Errors
    /// A recording that cannot be read.
    pub fn command(&mut self, command: Command, now: Duration) -> io::Result<Step> {
        self.pass_time(now);
        let mut step = Step::empty();
        if self.mode == Mode::Quit {
            return self.go_on(step);
        }
        match command {
            Command::Pause if self.is_paused() => self.mode = Mode::Playing,
            Command::Pause => self.mode = Mode::Paused,
            Command::Forward(by) => step = self.seek(self.position.saturating_add(by))?,
            Command::Back(by) => step = self.seek(self.position.saturating_sub(by))?,
            Command::Faster => self.speed = self.speed.doubled(),
            Command::Slower => self.speed = self.speed.halved(),
            Command::Quit => {
                self.mode = Mode::Quit;
                step.write = restore_outer(&self.model.modes());
            }
        }
        self.go_on(step)
    }

    /// Where the player is.
    pub fn position(&self) -> Duration {
        self.position
    }

    /// How fast it plays.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Whether the time stands still.
    pub fn is_paused(&self) -> bool {
        self.mode == Mode::Paused
    }

    /// How the recording ends; none before all of it was read.
    pub fn ending(&self) -> Option<Ending> {
        self.tape.ending()
    }

    fn pass_time(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        if self.mode == Mode::Playing {
            let position = self.position.saturating_add(self.speed.played_in(passed));
            // The end is a place too: to go back from it is to go back from the last event.
            self.position = match self.next {
                Some(_) => position,
                None => self.position.min(self.last.1),
            };
        }
    }

    /// Adds what is due to a step, and the time of the next.
    fn go_on(&mut self, mut step: Step) -> io::Result<Step> {
        while self.mode == Mode::Playing
            && step.write.len() < STEP_SIZE
            && let Some(next) = self.take_due(self.position.saturating_add(SLACK))
        {
            match &next.kind {
                EventKind::Output(bytes) => self.filter.pass(bytes, &mut step.write),
                EventKind::Resize(_) if !step.write.is_empty() => {
                    // The size comes before the bytes of a step, and these before the size.
                    self.next = Some(next);
                    break;
                }
                EventKind::Resize(size) => step.size = Some(*size),
                EventKind::Mark(_) => {}
            }
            self.apply(next)?;
        }
        step.wake = match (self.mode, &self.next) {
            (Mode::Quit, _) => Wake::Quit,
            (Mode::Paused, _) => Wake::Command,
            (Mode::Playing, None) => {
                self.position = self.last.1;
                Wake::Ended
            }
            (Mode::Playing, Some(next)) => {
                let left = next.position.saturating_sub(self.position);
                Wake::At(self.since.saturating_add(self.speed.time_for(left)))
            }
        };
        Ok(step)
    }

    /// Brings the model to a position, and the terminal to the model.
    fn seek(&mut self, position: Duration) -> io::Result<Step> {
        // Painting alone would leave colours that were changed since.
        let mut write = restore_outer(&self.model.modes());
        if position < self.last.1 {
            self.rewind()?;
        }
        while let Some(next) = self.take_due(position) {
            self.apply(next)?;
        }
        self.position = match self.next {
            Some(_) => position,
            None => self.last.1,
        };
        let painted = self.paint();
        write.extend_from_slice(&painted.write);
        Ok(Step { write, ..painted })
    }

    /// Makes the terminal fresh and shows the model.
    fn paint(&mut self) -> Step {
        let size = self.model.size();
        let mut write = restart(size);
        self.filter = ClipboardFilter::default();
        // It passes the filter, since it ends with what of a sequence came so far.
        self.filter.pass(&self.model.snapshot(0), &mut write);
        Step {
            size: Some(Winsize {
                cols: size.cols,
                rows: size.rows,
            }),
            write,
            wake: Wake::Command,
        }
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.tape.rewind()?;
        self.model = model(self.tape.size());
        self.last = (Duration::ZERO, Duration::ZERO);
        self.load()
    }

    /// Takes the next event if it is due at this position.
    fn take_due(&mut self, position: Duration) -> Option<Due> {
        self.next.take_if(|next| next.position <= position)
    }

    /// Brings the model behind an event, and loads the next one.
    fn apply(&mut self, event: Due) -> io::Result<()> {
        match event.kind {
            EventKind::Output(bytes) => {
                self.model.feed(&bytes);
                // Whoever asked and rang is long gone.
                self.model.take_replies();
                self.model.take_attention();
            }
            EventKind::Resize(size) => self.model.resize(cells(size)),
            EventKind::Mark(_) => {}
        }
        self.last = (event.at, event.position);
        self.load()
    }

    /// Loads the next event that can be seen. Marks do not break up an idle time.
    fn load(&mut self) -> io::Result<()> {
        self.next = None;
        while let Some(event) = self.tape.next_event()? {
            if let EventKind::Mark(_) = event.kind {
                continue;
            }
            let (last_at, last_position) = self.last;
            let gap = event.at.saturating_sub(last_at);
            let gap = self.idle_limit.map_or(gap, |limit| gap.min(limit));
            self.next = Some(Due {
                at: event.at,
                position: last_position.saturating_add(gap),
                kind: event.kind,
            });
            break;
        }
        Ok(())
    }
}

impl Step {
    fn empty() -> Self {
        Self {
            size: None,
            write: Vec::new(),
            wake: Wake::Command,
        }
    }
}

fn model(size: Winsize) -> Model {
    Model::new(cells(size), ModelLimits::default())
}

fn cells(size: Winsize) -> Size {
    Size {
        cols: size.cols,
        rows: size.rows,
    }
}

/// Leaves clipboard writes and reads (OSC 52) out of output that comes in pieces.
#[derive(Debug, Default)]
struct ClipboardFilter {
    state: Filter,
    /// What may begin a clipboard sequence.
    held: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Filter {
    #[default]
    Passing,
    Dropping,
    /// After an ESC in a dropped sequence, which ends it with the backslash or without.
    DroppingEsc,
}

impl ClipboardFilter {
    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            match self.state {
                Filter::Passing => self.pass_byte(byte, out),
                Filter::Dropping => match byte {
                    b'\x1b' => self.state = Filter::DroppingEsc,
                    // BEL, CAN, SUB and the 8-bit ST.
                    b'\x07' | b'\x18' | b'\x1a' | b'\x9c' => self.state = Filter::Passing,
                    _ => {}
                },
                Filter::DroppingEsc => {
                    self.state = Filter::Passing;
                    if byte != b'\\' {
                        self.pass_byte(b'\x1b', out);
                        self.pass_byte(byte, out);
                    }
                }
            }
        }
    }

    fn pass_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.held.push(byte);
        match begins_clipboard(&self.held) {
            Some(true) => {
                self.held.clear();
                self.state = Filter::Dropping;
            }
            Some(false) => {}
            None => {
                self.held.pop();
                out.append(&mut self.held);
                self.held.push(byte);
                if begins_clipboard(&self.held).is_none() {
                    out.append(&mut self.held);
                }
            }
        }
    }
}

/// Whether this is the head of a clipboard sequence (`true`), may become one (`false`), or
/// is something else.
fn begins_clipboard(held: &[u8]) -> Option<bool> {
    // The 8-bit OSC counts as the character that it is in UTF-8.
    let after = match held {
        [b'\x1b' | b'\xc2'] => return Some(false),
        [b'\x1b', b']', after @ ..] | [b'\xc2', b'\x9d', after @ ..] => after,
        _ => return None,
    };
    if held.len() > MAX_HELD {
        return Some(true);
    }
    let zeros = after.iter().take_while(|byte| **byte == b'0').count();
    match &after[zeros..] {
        b"" | b"5" | b"52" => Some(false),
        b"52;" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::recording::{DEFAULT_RECORDING_CAP, Mark, RECORDING_FILE, Recorder};

    const SIZE: Winsize = Winsize { cols: 20, rows: 3 };
    /// The caller's clock starts anywhere.
    const T0: Duration = Duration::from_secs(5_000);

    #[test]
    fn output_is_written_when_it_was_printed() {
        let (mut player, first) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(0), b"a");
            recorder.output(secs(2), b"b");
            recorder.output(secs(5), b"c");
        });

        assert_eq!(first.size, Some(SIZE));
        assert!(first.write.starts_with(&restart(cells(SIZE))));
        assert!(first.write.ends_with(b"a"));
        assert_eq!(first.wake, Wake::At(T0 + secs(2)));
        let early = player.step(T0 + secs(1)).unwrap();
        assert_eq!(early, step(b"", Wake::At(T0 + secs(2))));
        let second = player.step(T0 + secs(2)).unwrap();
        assert_eq!(second, step(b"b", Wake::At(T0 + secs(5))));
        let last = player.step(T0 + secs(9)).unwrap();
        assert_eq!(last, step(b"c", Wake::Ended));
        assert_eq!(player.position(), secs(5));
        assert_eq!(player.ending(), Some(Ending::Open));
    }

    #[test]
    fn while_paused_the_time_stands_still() {
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(10), b"a");
        });

        let paused = player.command(Command::Pause, T0 + secs(4)).unwrap();
        assert_eq!(paused, step(b"", Wake::Command));
        assert!(player.is_paused());
        let still = player.step(T0 + secs(1_000)).unwrap();
        assert_eq!(still, step(b"", Wake::Command));
        let resumed = player.command(Command::Pause, T0 + secs(1_000)).unwrap();
        assert_eq!(resumed, step(b"", Wake::At(T0 + secs(1_006))));
        let played = player.step(T0 + secs(1_006)).unwrap();
        assert_eq!(played, step(b"a", Wake::Ended));
    }

    #[test]
    fn speed_doubles_and_halves_from_where_the_player_is() {
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(100), b"a");
        });

        let faster = player.command(Command::Faster, T0 + secs(20)).unwrap();
        assert_eq!(faster.wake, Wake::At(T0 + secs(20 + 40)));
        let twice = player.command(Command::Faster, T0 + secs(30)).unwrap();
        assert_eq!(player.position(), secs(40));
        assert_eq!(twice.wake, Wake::At(T0 + secs(30 + 15)));
        for _ in 0..3 {
            player.command(Command::Slower, T0 + secs(30)).unwrap();
        }
        assert_eq!(player.speed(), Speed(0.5));
        let slow = player.step(T0 + secs(30)).unwrap();
        assert_eq!(slow.wake, Wake::At(T0 + secs(30 + 120)));
        let done = player.step(T0 + secs(150)).unwrap();
        assert_eq!(done, step(b"a", Wake::Ended));
    }

    #[test]
    fn speed_stays_within_its_bounds() {
        assert_eq!(Speed::new(1.5).map(Speed::times), Some(1.5));
        for times in [0.0, -1.0, 1_000.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Speed::new(times), None);
        }
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(Duration::from_secs(1 << 40), b"a");
        });
        for command in [Command::Faster, Command::Slower] {
            for _ in 0..100 {
                player.command(command, T0).unwrap();
            }
            assert!(Speed::new(player.speed().times()).is_some());
        }
        let forever = player.step(Duration::MAX).unwrap();
        assert_eq!(forever, step(b"a", Wake::Ended));
    }

    #[test]
    fn idle_times_are_shortened_and_marks_do_not_break_them_up() {
        let options = PlayOptions {
            idle_limit: Some(secs(2)),
            ..PlayOptions::default()
        };
        let record = |recorder: &mut Recorder| {
            recorder.output(secs(1), b"a");
            recorder.mark(secs(50), &Mark::Attached { by: "ann".into() });
            recorder.output(secs(100), b"b");
            recorder.output(secs(101), b"c");
        };

        let (mut player, first) = play(options, record);
        assert_eq!(first.wake, Wake::At(T0 + secs(1)));
        let a = player.step(T0 + secs(1)).unwrap();
        assert_eq!(a, step(b"a", Wake::At(T0 + secs(3))));
        let b = player.step(T0 + secs(3)).unwrap();
        assert_eq!(b, step(b"b", Wake::At(T0 + secs(4))));

        let (mut player, _) = play(PlayOptions::default(), record);
        let a = player.step(T0 + secs(1)).unwrap();
        assert_eq!(a, step(b"a", Wake::At(T0 + secs(100))));
    }

    #[test]
    fn a_seek_ahead_shows_the_screen_of_that_moment() {
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            for n in 0..60 {
                recorder.output(secs(n), format!("\r\nline {n}").as_bytes());
            }
        });

        let ahead = player.command(Command::Forward(SEEK_STEP), T0).unwrap();

        assert_eq!(ahead.size, Some(SIZE));
        assert_eq!(ahead.wake, Wake::At(T0 + secs(1)));
        assert_eq!(player.position(), secs(10));
        assert_eq!(shown(&[ahead]), ["line 8", "line 9", "line 10"]);
        let next = player.step(T0 + secs(1)).unwrap();
        assert_eq!(next, step(b"\r\nline 11", Wake::At(T0 + secs(2))));
    }

    #[test]
    fn a_seek_back_leaves_nothing_of_what_came_after() {
        let (mut player, first) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(1), b"early");
            recorder.output(secs(20), b"\x1b[?1049h\x1b[?25l\x1b[31mlate\x1b[?1000h");
            recorder.resize(secs(21), Winsize { cols: 90, rows: 9 });
            recorder.output(secs(22), b"\x1b]4;1;#112233\x07\x1b[>5u\x1b[2;3r");
        });
        let late = player.step(T0 + secs(23)).unwrap();
        let later = player.step(T0 + secs(23)).unwrap();
        assert_eq!(later.size, Some(Winsize { cols: 90, rows: 9 }));
        assert_eq!(later.wake, Wake::Ended);

        let back = player.command(Command::Back(SEEK_STEP), T0 + secs(23));
        let back = back.unwrap();

        assert_eq!(player.position(), secs(12));
        assert_eq!(back.size, Some(SIZE));
        assert_eq!(back.wake, Wake::At(T0 + secs(23 + 8)));
        let mut terminal = Model::new(cells(SIZE), ModelLimits::default());
        show(&mut terminal, &[first, late, later, back]);
        let mut expected = Model::new(cells(SIZE), ModelLimits::default());
        expected.feed(b"early");
        assert_eq!(terminal.text(0).lines, expected.text(0).lines);
        assert_eq!(terminal.text(0).cursor, expected.text(0).cursor);
        assert_eq!(terminal.modes(), expected.modes());
        let again = player.step(T0 + secs(31)).unwrap();
        assert!(again.write.starts_with(b"\x1b[?1049h"), "it plays again");
    }

    #[test]
    fn seeks_end_at_the_ends_of_the_recording() {
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(1), b"a");
            recorder.output(secs(3), b"b");
        });

        let ahead = player.command(Command::Forward(secs(60)), T0).unwrap();
        assert_eq!((ahead.wake, player.position()), (Wake::Ended, secs(3)));
        assert_eq!(shown(&[ahead])[0], "ab");
        let back = player
            .command(Command::Back(secs(1)), T0 + secs(50))
            .unwrap();
        assert_eq!(player.position(), secs(2), "it waited at its end");
        assert_eq!(shown(&[back])[0], "a");
        let back = player
            .command(Command::Back(secs(60)), T0 + secs(50))
            .unwrap();
        assert_eq!(player.position(), secs(0));
        assert_eq!(back.wake, Wake::At(T0 + secs(51)));
        assert_eq!(shown(&[back])[0], "");
    }

    #[test]
    fn a_seek_while_paused_shows_the_moment_and_stays_there() {
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(1), b"a");
            recorder.output(secs(30), b"b");
        });
        player.command(Command::Pause, T0).unwrap();

        let ahead = player.command(Command::Forward(SEEK_STEP), T0).unwrap();

        assert_eq!(ahead.wake, Wake::Command);
        assert_eq!(shown(&[ahead])[0], "a");
        assert_eq!(
            player.step(T0 + secs(90)).unwrap(),
            step(b"", Wake::Command)
        );
        assert_eq!(player.position(), secs(10));
    }

    #[test]
    fn sizes_come_between_the_bytes_around_them() {
        let wide = Winsize { cols: 90, rows: 9 };
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(1), b"before");
            recorder.resize(secs(1), wide);
            recorder.output(secs(1), b"after");
        });

        let before = player.step(T0 + secs(1)).unwrap();
        let after = player.step(T0 + secs(1)).unwrap();

        assert_eq!(before, step(b"before", Wake::At(T0 + secs(1))));
        assert_eq!(after.size, Some(wide));
        assert_eq!(after.write, b"after");
    }

    #[test]
    fn a_flood_comes_in_steps_so_that_commands_are_seen() {
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(1), &vec![b'x'; 1 << 20]);
        });

        let mut written = 0;
        let mut steps = 0;
        loop {
            let step = player.step(T0 + secs(1)).unwrap();
            assert!(step.write.len() < 2 * STEP_SIZE);
            written += step.write.len();
            steps += 1;
            if step.wake == Wake::Ended {
                break;
            }
            assert_eq!(step.wake, Wake::At(T0 + secs(1)));
        }
        assert_eq!(written, 1 << 20);
        assert!(steps >= 8);
    }

    #[test]
    fn leaving_gives_the_terminal_back() {
        let (mut player, first) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(0), b"\x1b[?1049h\x1b[?2004h\x1b[?1003h\x1b[?25l");
            recorder.output(secs(9), b"more");
        });

        let left = player.command(Command::Quit, T0 + secs(20)).unwrap();

        assert_eq!(left.wake, Wake::Quit);
        let mut terminal = Model::new(cells(SIZE), ModelLimits::default());
        show(&mut terminal, &[first]);
        assert!(terminal.modes().alt_screen);
        show(&mut terminal, &[left]);
        assert_eq!(terminal.modes(), fresh_after_play());
        let after = player.command(Command::Pause, T0 + secs(30)).unwrap();
        assert_eq!(after, step(b"", Wake::Quit));
    }

    #[test]
    fn the_users_clipboard_is_not_played() {
        let writes: [&[u8]; 6] = [
            b"\x1b]52;c;aGk=\x07",
            b"\x1b]52;c;aGk=\x1b\\",
            b"\x1b]052;;?\x07",
            b"\xc2\x9d52;c;aGk=\xc2\x9c",
            b"\x1b\x1b]52;c;aGk=\x18",
            b"\x1b]00000000000000000000000000000000052;c;aGk=\x07",
        ];
        for write in writes {
            let stream = [b"a\x1b[1m", write, b"b"].concat();
            for size in 1..stream.len() {
                let out = filtered(&stream, size);
                assert!(
                    out.starts_with(b"a\x1b[1m") && out.ends_with(b"b"),
                    "{out:?}"
                );
                assert!(!out.windows(4).any(|w| w == b"aGk="), "{out:?}");
                assert!(!out.contains(&b'?'), "{out:?}");
            }
        }
    }

    #[test]
    fn what_is_no_clipboard_write_passes_as_it_is() {
        let stream = b"\x1b]0;t\x07\x1b]5;x\x1b\\\x1b]520;x\x07\x1b]8;;u\x1b\\\x1b\x1b[m\xc2\xa0\xc2\xc2\x9d1;\x07\xc3\xa952;";

        for size in 1..=stream.len() {
            assert_eq!(filtered(stream, size), stream, "in pieces of {size}");
        }
    }

    #[test]
    fn a_seek_into_a_clipboard_write_does_not_complete_it() {
        let (mut player, _) = play(PlayOptions::default(), |recorder| {
            recorder.output(secs(1), b"a\x1b]52;c;aG");
            recorder.output(secs(8), b"k=\x07b");
        });

        let ahead = player.command(Command::Forward(secs(5)), T0).unwrap();
        let rest = player.step(T0 + secs(3)).unwrap();

        assert!(!ahead.write.windows(3).any(|w| w == b"]52"));
        assert_eq!(rest, step(b"b", Wake::Ended));
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn step(write: &[u8], wake: Wake) -> Step {
        Step {
            size: None,
            write: write.to_vec(),
            wake,
        }
    }

    fn play(
        options: PlayOptions,
        record: impl FnOnce(&mut Recorder),
    ) -> (Player<Cursor<Vec<u8>>>, Step) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORDING_FILE);
        let mut recorder = Recorder::create(&path, SIZE, DEFAULT_RECORDING_CAP, 0).unwrap();
        record(&mut recorder);
        drop(recorder);
        let tape = Recording::new(Cursor::new(std::fs::read(&path).unwrap())).unwrap();
        Player::start(tape, options, T0).unwrap()
    }

    /// The lines that a terminal shows after these steps.
    fn shown(steps: &[Step]) -> Vec<String> {
        let mut terminal = Model::new(cells(SIZE), ModelLimits::default());
        terminal.feed(b"\x1b[?1049hleft over\x1b[7m");
        show(&mut terminal, steps);
        let lines = terminal.text(0).lines.into_iter();
        lines.map(|line| line.text).collect()
    }

    fn show(terminal: &mut Model, steps: &[Step]) {
        for step in steps {
            if let Some(size) = step.size {
                terminal.resize(cells(size));
            }
            terminal.feed(&step.write);
        }
    }

    /// What a terminal has after it was made fresh and given back.
    fn fresh_after_play() -> crate::screen::Modes {
        let mut terminal = Model::new(cells(SIZE), ModelLimits::default());
        terminal.feed(&restart(cells(SIZE)));
        terminal.feed(&restore_outer(&terminal.modes()));
        terminal.modes()
    }

    fn filtered(stream: &[u8], size: usize) -> Vec<u8> {
        let mut filter = ClipboardFilter::default();
        let mut out = Vec::new();
        for piece in stream.chunks(size) {
            filter.pass(piece, &mut out);
        }
        out
    }
}

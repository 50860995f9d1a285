//! Splits a stream of output into characters, controls and sequences.
//!
//! The state machine is Paul Williams' for 7-bit codes with UTF-8 text. It is our own
//! because of three things that the model needs of it: the bytes of an unfinished sequence,
//! so that a snapshot taken in the middle of one can hand them on; a cap on every string;
//! and strings without meaning here (sixel, kitty graphics, SOS, PM, APC) that are dropped
//! as they come and never kept.

/// Longest OSC or DCS string that is kept. Titles, links and colours are far shorter; what
/// is longer (clipboards, pictures) has no meaning for the model and is skipped.
const MAX_STRING: usize = 16 * 1024;

/// Longest body of a control or escape sequence; 32 colours written out in full need about
/// 600 bytes.
const MAX_SEQUENCE: usize = 1024;

/// Parameters of one sequence; the rest is dropped, as xterm does.
const MAX_PARAMS: usize = 32;

/// Stands in a snapshot for an OSC string too long to be kept: a number that no terminal
/// knows, so that the rest of the string is swallowed there.
const SKIPPED_OSC: &[u8] = b"99999;";

/// Stands for a string that is dropped whole. The letter keeps the rest from being read as
/// kitty graphics.
const SKIPPED_STRING: &[u8] = b"\x1b_x";

/// What the parser found, in the order of the stream.
pub(super) trait Sink {
    /// A character of text.
    fn print(&mut self, c: char);
    /// A run of printable ASCII, the bulk of all output.
    fn print_ascii(&mut self, run: &[u8]);
    /// A C0 control, alone or inside a sequence.
    fn control(&mut self, byte: u8);
    /// An escape sequence without parameters.
    fn escape(&mut self, intermediates: &[u8], last: u8);
    /// A control sequence.
    fn csi(&mut self, csi: &Csi);
    /// An operating system command, and whether BEL ended it.
    fn osc(&mut self, data: &[u8], bell: bool);
    /// A device control string, parameters and all.
    fn dcs(&mut self, data: &[u8]);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    Csi,
    Osc,
    /// An OSC string that outgrew the cap; BEL still ends it.
    OscSkip,
    Dcs,
    /// SOS, PM, APC, or a DCS that outgrew the cap.
    Skip,
}

/// The parser. `raw` holds the body of the unfinished sequence, or of an unfinished UTF-8
/// character in the ground state.
#[derive(Debug, Default)]
pub(super) struct Parser {
    state: State,
    raw: Vec<u8>,
}

impl Parser {
    /// Parses `bytes`; cuts between calls may fall anywhere.
    pub(super) fn advance(&mut self, sink: &mut impl Sink, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if self.state == State::Ground && self.raw.is_empty() {
                match byte {
                    0x20..=0x7e => {
                        let (run, after) = rest.split_at(ascii_run(rest));
                        sink.print_ascii(run);
                        rest = after;
                        continue;
                    }
                    0x80.. => {
                        rest = self.text(sink, rest);
                        continue;
                    }
                    // The ends of lines, without a look at the states.
                    b'\r' | b'\n' => {
                        sink.control(byte);
                        rest = &rest[1..];
                        continue;
                    }
                    0x1b => {
                        if let Some((csi, after)) = Csi::whole(rest) {
                            sink.csi(&csi);
                            rest = after;
                            continue;
                        }
                    }
                    _ => {}
                }
            }
            if self.byte(sink, byte) {
                rest = &rest[1..];
            }
        }
    }

    /// The bytes that bring a fresh parser to this state.
    pub(super) fn pending(&self) -> Vec<u8> {
        let (opening, body): (&[u8], &[u8]) = match self.state {
            State::Ground => (b"", &self.raw),
            State::Escape => (b"\x1b", &self.raw),
            State::Csi => (b"\x1b[", &self.raw),
            State::Osc => (b"\x1b]", &self.raw),
            State::OscSkip => (b"\x1b]", SKIPPED_OSC),
            State::Dcs => (b"\x1bP", &self.raw),
            State::Skip => (b"", SKIPPED_STRING),
        };
        [opening, body].concat()
    }

    /// Prints the run of text beyond ASCII at the start of `bytes` and returns what follows
    /// it.
    fn text<'a>(&mut self, sink: &mut impl Sink, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(u8::is_ascii).unwrap_or(bytes.len());
        let (mut run, after) = bytes.split_at(end);
        loop {
            let error = match std::str::from_utf8(run) {
                Ok(text) => {
                    text.chars().for_each(|c| sink.print(c));
                    return after;
                }
                Err(error) => error,
            };
            let (valid, broken) = run.split_at(error.valid_up_to());
            if let Ok(text) = std::str::from_utf8(valid) {
                text.chars().for_each(|c| sink.print(c));
            }
            match error.error_len() {
                Some(len) => {
                    sink.print(char::REPLACEMENT_CHARACTER);
                    run = &broken[len..];
                }
                None => {
                    // The character goes on in the next call, or the byte after it shows
                    // that it is broken.
                    self.raw.extend_from_slice(broken);
                    return after;
                }
            }
        }
    }

    /// Takes one byte; false means that the state changed and the byte is to be looked at
    /// again.
    fn byte(&mut self, sink: &mut impl Sink, byte: u8) -> bool {
        match (self.state, byte) {
            (State::Ground, _) => return self.ground(sink, byte),
            (_, 0x18 | 0x1a) => {
                sink.control(byte);
                self.enter(State::Ground);
            }
            (State::Osc, 0x1b) => {
                self.end_string(sink, State::Escape, |sink, raw| sink.osc(raw, false))
            }
            (State::Dcs, 0x1b) => self.end_string(sink, State::Escape, |sink, raw| sink.dcs(raw)),
            (_, 0x1b) => self.enter(State::Escape),
            (State::Osc, 0x07) => {
                self.end_string(sink, State::Ground, |sink, raw| sink.osc(raw, true))
            }
            (State::OscSkip, 0x07) => self.enter(State::Ground),
            (State::Osc, 0x00..=0x1f) | (State::OscSkip | State::Skip, _) => {}
            (State::Osc, _) => self.keep(byte, MAX_STRING, State::OscSkip),
            (State::Dcs, _) => self.keep(byte, MAX_STRING, State::Skip),
            (State::Escape | State::Csi, 0x00..=0x1f) => sink.control(byte),
            (State::Escape | State::Csi, 0x7f) => {}
            (State::Escape | State::Csi, 0x80..) => {
                // Text follows a broken sequence: better shown than swallowed.
                self.enter(State::Ground);
                return false;
            }
            (State::Escape, _) => self.escape(sink, byte),
            (State::Csi, 0x20..=0x3f) => self.keep_sequence(byte),
            (State::Csi, _) => {
                if let Some(csi) = Csi::parse(&self.raw, byte) {
                    sink.csi(&csi);
                }
                self.enter(State::Ground);
            }
        }
        true
    }

    fn ground(&mut self, sink: &mut impl Sink, byte: u8) -> bool {
        if !self.raw.is_empty() {
            return self.continue_character(sink, byte);
        }
        match byte {
            0x1b => self.enter(State::Escape),
            0x00..=0x1f => sink.control(byte),
            _ => {}
        }
        true
    }

    fn continue_character(&mut self, sink: &mut impl Sink, byte: u8) -> bool {
        self.raw.push(byte);
        match std::str::from_utf8(&self.raw) {
            Ok(text) => text.chars().for_each(|c| sink.print(c)),
            Err(error) if error.error_len().is_none() => return true,
            Err(_) => {
                self.raw.clear();
                sink.print(char::REPLACEMENT_CHARACTER);
                return false;
            }
        }
        self.raw.clear();
        true
    }

    fn escape(&mut self, sink: &mut impl Sink, byte: u8) {
        match byte {
            0x20..=0x2f => self.keep_sequence(byte),
            b'[' if self.raw.is_empty() => self.enter(State::Csi),
            b']' if self.raw.is_empty() => self.enter(State::Osc),
            b'P' if self.raw.is_empty() => self.enter(State::Dcs),
            b'X' | b'^' | b'_' if self.raw.is_empty() => self.enter(State::Skip),
            _ => {
                if self.raw.len() <= MAX_SEQUENCE {
                    sink.escape(&self.raw, byte);
                }
                self.enter(State::Ground);
            }
        }
    }

    fn enter(&mut self, state: State) {
        self.raw.clear();
        self.state = state;
    }

    fn end_string<S: Sink>(&mut self, sink: &mut S, next: State, emit: impl FnOnce(&mut S, &[u8])) {
        emit(sink, &self.raw);
        self.enter(next);
    }

    fn keep(&mut self, byte: u8, cap: usize, overflow: State) {
        if self.raw.len() < cap {
            self.raw.push(byte);
        } else {
            self.raw = Vec::new();
            self.state = overflow;
        }
    }

    /// Keeps one byte beyond the cap, which marks the sequence as too long here and in a
    /// parser fed with it.
    fn keep_sequence(&mut self, byte: u8) {
        if self.raw.len() <= MAX_SEQUENCE {
            self.raw.push(byte);
        }
    }
}

/// A control sequence taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Csi {
    /// `<`, `=`, `>` or `?`, or 0.
    pub(super) prefix: u8,
    /// The numbers.
    pub(super) params: Params,
    /// The intermediate byte, or 0.
    pub(super) intermediate: u8,
    /// The final byte, which names the function.
    pub(super) last: u8,
}

impl Csi {
    /// The control sequence at the start of `bytes`, if all of it is there and nothing is
    /// odd about it, and what follows.
    fn whole(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let body = bytes.strip_prefix(b"\x1b[")?;
        let end = body
            .iter()
            .position(|byte| !matches!(byte, 0x20..=0x3f))
            .filter(|&end| end <= MAX_SEQUENCE)?;
        let (raw, after) = body.split_at(end);
        let (&last, after) = after.split_first()?;
        if !(0x40..=0x7e).contains(&last) {
            return None;
        }
        Some((Self::parse(raw, last)?, after))
    }

    fn parse(raw: &[u8], last: u8) -> Option<Self> {
        if raw.len() > MAX_SEQUENCE {
            return None;
        }
        let (prefix, body) = match raw.split_first() {
            Some((&byte @ 0x3c..=0x3f, body)) => (byte, body),
            _ => (0, raw),
        };
        let end = body
            .iter()
            .position(|byte| !matches!(byte, 0x30..=0x3b))
            .unwrap_or(body.len());
        let (numbers, tail) = body.split_at(end);
        let intermediate = match *tail {
            [] => 0,
            [byte @ 0x20..=0x2f] => byte,
            _ => return None,
        };
        Some(Self {
            prefix,
            params: Params::parse(numbers),
            intermediate,
            last,
        })
    }

    /// Parameter `index`, where a missing one and 0 both mean 1.
    pub(super) fn count(&self, index: usize) -> usize {
        self.params.get(index).max(1).into()
    }
}

/// The numbers of a sequence, in groups: `1;4:3` is the group 1 and the group 4, 3.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Params {
    values: [u16; MAX_PARAMS],
    len: usize,
    /// A bit for each value that begins a group.
    starts: u32,
}

// A bit for each of them is all that there is.
const _: () = assert!(MAX_PARAMS == u32::BITS as usize);

impl Params {
    fn parse(numbers: &[u8]) -> Self {
        let mut params = Self::default();
        if numbers.is_empty() {
            return params;
        }
        (params.len, params.starts) = (1, 1);
        let mut value = 0u16;
        for &byte in numbers {
            match byte {
                b';' | b':' => {
                    if params.len == MAX_PARAMS {
                        break;
                    }
                    params.values[params.len - 1] = value;
                    value = 0;
                    if byte == b';' {
                        params.starts |= 1 << params.len;
                    }
                    params.len += 1;
                }
                _ => {
                    value = value
                        .saturating_mul(10)
                        .saturating_add(u16::from(byte - b'0'));
                }
            }
        }
        params.values[params.len - 1] = value;
        params
    }

    /// Whether no number was given at all.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.starts.count_ones() as usize
    }

    /// The first number of group `index`, 0 when it is missing.
    pub(super) fn get(&self, index: usize) -> u16 {
        self.groups().nth(index).map_or(0, |group| group[0])
    }

    /// The groups, none of them empty.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[u16]> {
        let mut starts = self.starts;
        std::iter::from_fn(move || {
            if starts == 0 {
                return None;
            }
            let start = starts.trailing_zeros() as usize;
            starts &= starts - 1;
            let end = if starts == 0 {
                self.len
            } else {
                starts.trailing_zeros() as usize
            };
            Some(&self.values[start..end])
        })
    }
}

/// How many bytes at the start are printable ASCII. Blocks are looked at without a branch
/// for each byte.
fn ascii_run(bytes: &[u8]) -> usize {
    const BLOCK: usize = 16;
    let printable = |byte: u8| byte.wrapping_sub(0x20) < 0x5f;
    let whole = bytes
        .chunks_exact(BLOCK)
        .take_while(|block| block.iter().fold(true, |all, &byte| all & printable(byte)))
        .count()
        * BLOCK;
    let rest = &bytes[whole..];
    whole
        + rest
            .iter()
            .position(|&byte| !printable(byte))
            .unwrap_or(rest.len())
}

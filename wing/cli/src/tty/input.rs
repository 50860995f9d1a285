//! Reads what a user's terminal sends: splits it into keys, sequences and pastes, and
//! drops the terminal's own answers.
//!
//! A session's egg answers every query of its program itself, exactly once, whoever is
//! attached. The query reaches the user's terminal all the same, because output is passed
//! on as it is; the terminal's answer, which may come late, in pieces or twice, must not
//! be typed into the program. So whatever is an answer and cannot be a key ends here.
//! One answer has the form of a key: a cursor position in row 1 looks like F3 with
//! modifiers (`CSI 1 ; 2 R`). It counts as an answer while a query for it is open.
//!
//! Sequences may be split over any number of reads, so an unfinished one is held back.
//! [`Input::patience`] says for how long; after that the caller lets go of it by
//! [`Input::release`], because it was keys after all (Escape, Alt+[).

use std::time::Duration;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// How long a lone Escape, or Escape and one letter, is held. Terminals send a sequence
/// in one write; over a slow line its bytes arrive within this, and nobody feels it.
const SHORT: Duration = Duration::from_millis(50);

/// How long the start of a sequence is held that could also be a key.
const MEDIUM: Duration = Duration::from_millis(500);

/// How long the rest of an answer may take. No key begins like this, except by hand.
const LONG: Duration = Duration::from_secs(3);

/// Longest sequence that is held, in bytes. Keys have under 40; an answer with a palette
/// or a name has a few hundred.
const MAX_HELD: usize = 4 * 1024;

/// Most open queries for the cursor's position that are remembered. A program that asks
/// more often than it is answered loses nothing but a modified F3.
const MAX_POSITION_QUERIES: u32 = 16;

/// A part of what the terminal sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Plain keys; any bytes.
    Text(Vec<u8>),
    /// One whole escape sequence that is no answer.
    Sequence(Vec<u8>),
    /// A part of a paste, its marks included.
    Paste(Vec<u8>),
}

/// Splits what the terminal sends.
#[derive(Debug, Default)]
pub(super) struct Input {
    state: State,
    /// An unfinished sequence, from its Escape on.
    held: Vec<u8>,
    open_position_queries: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After Escape.
    Escape,
    /// After `ESC O`: one more byte.
    Ss3,
    /// After `ESC [`.
    Csi,
    /// After `ESC ]`, `ESC P` or `ESC _`, as long as it may be an answer.
    String,
    /// Inside a paste; so many bytes of the end mark were seen.
    Paste(usize),
}

impl Input {
    /// Reads bytes from the terminal.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for &byte in bytes {
            self.step(byte, &mut pieces);
        }
        pieces
    }

    /// Learns that the program's output held queries for the cursor's position.
    pub(super) fn position_was_asked(&mut self, times: u32) {
        self.open_position_queries = (self.open_position_queries + times).min(MAX_POSITION_QUERIES);
    }

    /// How long to wait for the rest of an unfinished sequence; none when nothing is held.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self.state {
            State::Ground | State::Paste(_) => None,
            State::Escape | State::Ss3 => Some(SHORT),
            State::Csi if matches!(self.held.get(2), Some(b'?' | b'>')) => Some(LONG),
            State::Csi => Some(MEDIUM),
            State::String if self.held.len() > 3 => Some(LONG),
            State::String => Some(MEDIUM),
        }
    }

    /// What is missing of the end mark of a paste that has begun; none outside of pastes.
    pub(super) fn end_of_paste(&self) -> Option<&'static [u8]> {
        match self.state {
            State::Paste(seen) => Some(&PASTE_END[seen..]),
            State::Ground | State::Escape | State::Ss3 | State::Csi | State::String => None,
        }
    }

    /// Gives up waiting: what was held are keys.
    pub(super) fn release(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.let_go(&mut pieces);
        pieces
    }

    fn step(&mut self, byte: u8, pieces: &mut Vec<Piece>) {
        match self.state {
            State::Ground if byte == ESC => self.hold(byte, State::Escape),
            State::Ground => text(pieces, &[byte]),
            State::Escape => match byte {
                b'[' => self.hold(byte, State::Csi),
                b'O' => self.hold(byte, State::Ss3),
                b']' | b'P' | b'_' => self.hold(byte, State::String),
                0x20..=0x7e => self.finish(byte, pieces),
                // Escape, then some other key: two keys.
                _ => self.interrupt(byte, pieces),
            },
            State::Ss3 if (0x20..=0x7e).contains(&byte) => self.finish(byte, pieces),
            State::Ss3 => self.interrupt(byte, pieces),
            State::Csi => match byte {
                0x20..=0x3f if self.held.len() < MAX_HELD => self.held.push(byte),
                0x40..=0x7e => self.finish_csi(byte, pieces),
                _ => self.interrupt(byte, pieces),
            },
            State::String => self.step_string(byte, pieces),
            State::Paste(seen) => {
                paste(pieces, byte);
                self.state = match next_match(PASTE_END, seen, byte) {
                    n if n == PASTE_END.len() => State::Ground,
                    n => State::Paste(n),
                };
            }
        }
    }

    fn step_string(&mut self, byte: u8, pieces: &mut Vec<Piece>) {
        let after_escape = self.held.len() > 2 && self.held.last() == Some(&ESC);
        let ends = byte == BEL || (after_escape && byte == b'\\');
        if ends {
            self.held.push(byte);
            if is_answer_head(&self.held) == Head::Answer {
                self.held.clear();
            }
            self.let_go(pieces);
        } else if after_escape || matches!(byte, CAN | SUB) || self.held.len() >= MAX_HELD {
            self.interrupt(byte, pieces);
        } else {
            self.held.push(byte);
            if byte != ESC && is_answer_head(&self.held) == Head::No {
                self.let_go(pieces);
            }
        }
    }

    fn hold(&mut self, byte: u8, state: State) {
        self.held.push(byte);
        self.state = state;
    }

    /// Ends a sequence that is a key.
    fn finish(&mut self, last: u8, pieces: &mut Vec<Piece>) {
        self.held.push(last);
        self.state = State::Ground;
        pieces.push(Piece::Sequence(std::mem::take(&mut self.held)));
    }

    fn finish_csi(&mut self, last: u8, pieces: &mut Vec<Piece>) {
        self.held.push(last);
        self.state = State::Ground;
        let sequence = std::mem::take(&mut self.held);
        if sequence == PASTE_START {
            self.state = State::Paste(0);
            pieces.push(Piece::Paste(sequence));
            return;
        }
        match csi_answer(&sequence) {
            CsiAnswer::Yes => {}
            CsiAnswer::Position => {
                self.open_position_queries = self.open_position_queries.saturating_sub(1);
            }
            CsiAnswer::PositionOrKey if self.open_position_queries > 0 => {
                self.open_position_queries -= 1
            }
            CsiAnswer::PositionOrKey | CsiAnswer::No => pieces.push(Piece::Sequence(sequence)),
        }
    }

    /// What was held is no sequence; `byte` begins something of its own.
    fn interrupt(&mut self, byte: u8, pieces: &mut Vec<Piece>) {
        // An Escape inside a string began it.
        let began =
            self.state == State::String && self.held.len() > 2 && self.held.last() == Some(&ESC);
        if began {
            self.held.pop();
        }
        self.let_go(pieces);
        if began {
            self.step(ESC, pieces);
        }
        self.step(byte, pieces);
    }

    fn let_go(&mut self, pieces: &mut Vec<Piece>) {
        if !matches!(self.state, State::Paste(_)) {
            self.state = State::Ground;
        }
        text(pieces, &std::mem::take(&mut self.held));
    }
}

fn text(pieces: &mut Vec<Piece>, bytes: &[u8]) {
    match pieces.last_mut() {
        _ if bytes.is_empty() => {}
        Some(Piece::Text(before)) => before.extend_from_slice(bytes),
        _ => pieces.push(Piece::Text(bytes.to_vec())),
    }
}

fn paste(pieces: &mut Vec<Piece>, byte: u8) {
    match pieces.last_mut() {
        Some(Piece::Paste(before)) => before.push(byte),
        _ => pieces.push(Piece::Paste(vec![byte])),
    }
}

/// How much of `mark` matches after `byte`. Only the first byte of a mark is an Escape,
/// so a mismatch can only begin again.
fn next_match(mark: &[u8], seen: usize, byte: u8) -> usize {
    if mark.get(seen) == Some(&byte) {
        seen + 1
    } else {
        usize::from(byte == mark[0])
    }
}

#[derive(Debug, PartialEq, Eq)]
enum CsiAnswer {
    /// A key, a report that was not asked for, or the mouse.
    No,
    /// An answer and nothing else.
    Yes,
    /// A cursor position.
    Position,
    /// A cursor position, or F3 with modifiers.
    PositionOrKey,
}

/// Whether a whole CSI sequence from a terminal is an answer.
fn csi_answer(sequence: &[u8]) -> CsiAnswer {
    let body = &sequence[2..sequence.len() - 1];
    let last = sequence[sequence.len() - 1];
    let first = body.first().copied();
    match (first, last) {
        // A change of the colour scheme is reported whenever it happens (mode 2031).
        (Some(b'?'), b'n') if body.starts_with(b"?997;") => CsiAnswer::No,
        // DA1, DECXCPR, DSR, DECRPM, kitty keyboard flags, graphics attributes.
        (Some(b'?'), _) => CsiAnswer::Yes,
        // DA2, and the state of key modifiers.
        (Some(b'>'), _) => CsiAnswer::Yes,
        // The mouse (SGR).
        (Some(b'<' | b'='), _) => CsiAnswer::No,
        // DSR "ready".
        (Some(_), b'n') => CsiAnswer::Yes,
        // DECRPM for ANSI modes.
        (Some(_), b'y') if body.contains(&b'$') => CsiAnswer::Yes,
        // DECREPTPARM.
        (Some(_), b'x') => CsiAnswer::Yes,
        // A size that is reported whenever it changes (mode 2048).
        (Some(_), b't') if body.starts_with(b"48;") => CsiAnswer::No,
        // Sizes and positions of the window.
        (Some(_), b't') => CsiAnswer::Yes,
        (Some(_), b'R') => position(body),
        _ => CsiAnswer::No,
    }
}

/// What `CSI body R` is. F3 has no second number or modifiers of 2 to 16 in row 1; with
/// kitty's keyboard it may have an event type after a colon.
fn position(body: &[u8]) -> CsiAnswer {
    let text = std::str::from_utf8(body).unwrap_or_default();
    match text.split_once(';') {
        Some(("1", modifiers)) if modifiers.contains(':') => CsiAnswer::No,
        Some(("1", column)) if column.parse().is_ok_and(|n: u16| (2..=16).contains(&n)) => {
            CsiAnswer::PositionOrKey
        }
        Some((row, column)) if row.parse::<u16>().is_ok() && column.parse::<u16>().is_ok() => {
            CsiAnswer::Position
        }
        _ => CsiAnswer::No,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Head {
    /// It cannot become an answer.
    No,
    /// It is too short to tell.
    Maybe,
    /// It is an answer.
    Answer,
}

/// Whether an OSC, DCS or APC string that begins like this is an answer.
fn is_answer_head(held: &[u8]) -> Head {
    let heads: &[&[u8]] = match held.get(1) {
        // Palette, colours of text, background, cursor and selection, clipboard.
        Some(b']') => &[
            b"4;", b"5;", b"10;", b"11;", b"12;", b"13;", b"14;", b"17;", b"19;", b"52;",
        ],
        // XTVERSION, DA3, DECRQSS, XTGETTCAP.
        Some(b'P') => &[b">|", b"!|", b"0$r", b"1$r", b"0+r", b"1+r"],
        // Kitty graphics.
        _ => &[b"G"],
    };
    let body = &held[2..];
    if heads.iter().any(|head| body.starts_with(head)) {
        Head::Answer
    } else if heads.iter().any(|head| head.starts_with(body)) {
        Head::Maybe
    } else {
        Head::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is left after `input` was read in pieces of `size`.
    fn left(input: &[u8], size: usize) -> Vec<u8> {
        let mut reader = Input::default();
        let mut pieces: Vec<Piece> = input
            .chunks(size)
            .flat_map(|chunk| reader.feed(chunk))
            .collect();
        pieces.extend(reader.release());
        bytes(pieces)
    }

    fn bytes(pieces: Vec<Piece>) -> Vec<u8> {
        let parts = pieces.into_iter().map(|piece| match piece {
            Piece::Text(bytes) | Piece::Sequence(bytes) | Piece::Paste(bytes) => bytes,
        });
        parts.collect::<Vec<_>>().concat()
    }

    const ANSWERS: &[&[u8]] = &[
        b"\x1b[?62;22c",
        b"\x1b[?1;2c",
        b"\x1b[>0;276;0c",
        b"\x1b[24;80R",
        b"\x1b[1;1R",
        b"\x1b[1;40R",
        b"\x1b[?1;1;1R",
        b"\x1b[0n",
        b"\x1b[?15n",
        b"\x1b[?2026;2$y",
        b"\x1b[4;2$y",
        b"\x1b[?7u",
        b"\x1b[?0u",
        b"\x1b[8;24;80t",
        b"\x1bP>|XTerm(390)\x1b\\",
        b"\x1bP!|00000000\x1b\\",
        b"\x1bP1$r0m\x1b\\",
        b"\x1bP1+r544e\x1b\\",
        b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
        b"\x1b]11;rgb:0000/0000/0000\x07",
        b"\x1b]4;1;rgb:cccc/0000/0000\x07",
        b"\x1b]12;rgb:ffff/ffff/ffff\x1b\\",
        b"\x1b]52;c;aGVsbG8=\x07",
        b"\x1b_Gi=31;OK\x1b\\",
    ];

    const KEYS: &[&[u8]] = &[
        b"a",
        "ä€😀".as_bytes(),
        b"\r",
        b"\x02",
        b"\x1b",
        b"\x1b\x1b",
        b"\x1ba",
        b"\x1bOP",
        b"\x1bOA",
        b"\x1b[A",
        b"\x1b[1;5A",
        b"\x1b[3~",
        b"\x1b[15;2~",
        b"\x1b[R",
        b"\x1b[1;2R",
        b"\x1b[1;16R",
        b"\x1b[1;2:3R",
        b"\x1b[c",
        b"\x1b[Z",
        b"\x1b[[A",
        b"\x1b[I",
        b"\x1b[O",
        b"\x1b[<0;10;20M",
        b"\x1b[<0;10;20m",
        b"\x1b[M !!",
        b"\x1b[98;5u",
        b"\x1b[106;1:3u",
        b"\x1b[57441;2:1u",
        b"\x1b[97:65;2;65u",
        b"\x1b[27;5;98~",
        b"\x1b[?997;1n",
        b"\x1b[48;24;80;480;800t",
        b"\x1b[200~a\x02qb\x1b[?62c\x1b[201~",
    ];

    #[test]
    fn answers_of_the_terminal_are_dropped_however_they_are_split() {
        for answer in ANSWERS {
            for size in 1..=answer.len() {
                assert_eq!(left(answer, size), b"", "{answer:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn keys_the_mouse_and_pastes_pass_however_they_are_split() {
        for key in KEYS {
            for size in 1..=key.len() {
                assert_eq!(left(key, size), *key, "{key:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn answers_between_keys_leave_the_keys_alone() {
        let mixed = [
            KEYS[0],
            ANSWERS[0],
            KEYS[8],
            ANSWERS[14],
            ANSWERS[3],
            KEYS[10],
            ANSWERS[18],
            KEYS[1],
        ]
        .concat();
        let keys = [KEYS[0], KEYS[8], KEYS[10], KEYS[1]].concat();
        for size in 1..=mixed.len() {
            assert_eq!(left(&mixed, size), keys, "in pieces of {size}");
        }
    }

    #[test]
    fn a_position_in_row_1_is_f3_unless_the_position_was_asked() {
        let mut input = Input::default();
        assert_eq!(bytes(input.feed(b"\x1b[1;2R")), b"\x1b[1;2R");

        input.position_was_asked(1);
        assert_eq!(input.feed(b"\x1b[1;2R"), vec![]);
        assert_eq!(bytes(input.feed(b"\x1b[1;2R")), b"\x1b[1;2R");
    }

    #[test]
    fn a_lone_escape_is_held_for_a_moment_only() {
        let mut input = Input::default();

        assert_eq!(input.feed(b"\x1b"), vec![]);
        assert_eq!(input.patience(), Some(SHORT));
        assert_eq!(input.release(), vec![Piece::Text(b"\x1b".to_vec())]);
        assert_eq!(input.patience(), None);
    }

    #[test]
    fn alt_keys_that_begin_like_answers_are_let_go() {
        let mut input = Input::default();

        // Alt+] and then text; Alt+P and then text.
        assert_eq!(bytes(input.feed(b"\x1b]hello")), b"\x1b]hello");
        assert_eq!(bytes(input.feed(b"\x1bPwd")), b"\x1bPwd");
        // Alt+] and then a paste.
        let pieces = input.feed(b"\x1b]\x1b[200~");
        assert_eq!(
            pieces,
            vec![
                Piece::Text(b"\x1b]".to_vec()),
                Piece::Paste(PASTE_START.to_vec())
            ]
        );
        assert_eq!(bytes(input.feed(PASTE_END)), PASTE_END);
        assert_eq!(bytes(input.feed(b"\x1b[")), b"");
        assert_eq!(input.patience(), Some(MEDIUM));
        assert_eq!(bytes(input.release()), b"\x1b[");
    }

    #[test]
    fn escape_and_a_control_key_are_two_keys() {
        assert_eq!(
            Input::default().feed(b"\x1b\x02q"),
            vec![Piece::Text(b"\x1b\x02q".to_vec())]
        );
    }

    #[test]
    fn a_paste_ends_at_its_mark_even_if_the_mark_is_split() {
        let mut input = Input::default();

        let first = input.feed(b"\x1b[200~hello\x1b[20");
        let second = input.feed(b"1~\x02q");

        assert_eq!(first, vec![Piece::Paste(b"\x1b[200~hello\x1b[20".to_vec())]);
        assert_eq!(
            second,
            vec![Piece::Paste(b"1~".to_vec()), Piece::Text(b"\x02q".to_vec())]
        );
    }

    #[test]
    fn a_string_without_an_end_is_not_held_for_ever() {
        let endless = [b"\x1b]11;".to_vec(), vec![b'x'; 3 * MAX_HELD]].concat();
        let mut input = Input::default();

        let passed = bytes(input.feed(&endless));

        assert!(passed.len() >= 2 * MAX_HELD);
        assert!(input.held.len() <= MAX_HELD);
    }
}

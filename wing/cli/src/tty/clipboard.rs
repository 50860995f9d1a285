//! What a session may do to the clipboard of the user's terminal.
//!
//! Programs copy by OSC 52, which terminals carry out without a question, and the same
//! sequence can ask for what the user copied elsewhere. So output passes through here on its
//! way to the terminal:
//!
//! | the program | what happens |
//! |---|---|
//! | copies up to [`MAX_COPY`] bytes of base64 | it reaches the terminal whole and once, if this client may type |
//! | copies more | nothing of it reaches the terminal, and the user is told |
//! | asks what was copied | it is dropped, and nobody answers |
//! | copies nothing, which clears | dropped, unless [`Clipboard::CopyAndClear`] allows it |
//!
//! A copy is held back until its end has come, however it is cut. Other protocols for the
//! clipboard (kitty's OSC 5522, the copies of OSC 1337) have no use that OSC 52 has not, and
//! are dropped. Snapshots hold no copies, so attaching again does not repeat one.

use wt_wing::config::Clipboard;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// The first byte of the 8-bit OSC and ST in UTF-8, and the second byte of each.
const C1: u8 = 0xc2;
const C1_OSC: u8 = 0x9d;
const C1_ST: u8 = 0x9c;

/// Longest copy, in bytes of base64: 768 KiB of text. It is more than most terminals take,
/// and what one client holds at most for it.
pub(super) const MAX_COPY: usize = 1 << 20;

/// Longest name of the clipboards that are meant; there are twelve of them.
const MAX_TARGETS: usize = 16;

/// Longest start of an OSC that is held until it shows its number. No program writes that
/// many zeros before a number.
const MAX_HEAD: usize = 64;

/// Numbers, and first words, of the sequences that end here.
const HEADS: &[(&[u8], Head)] = &[
    (b"52;", Head::Copy),
    (b"5522;", Head::Other),
    (b"1337;Copy", Head::Other),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// OSC 52.
    Copy,
    /// Another protocol for the clipboard.
    Other,
}

/// Follows output and takes out what the policy does not allow.
#[derive(Debug)]
pub(super) struct ClipboardGuard {
    policy: Clipboard,
    /// Whether this client is the one that may type.
    is_active: bool,
    state: State,
    /// The start of a sequence, or a copy, as it came.
    held: Vec<u8>,
    /// A copy was dropped for its length.
    too_long: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Passing,
    /// The first byte of what may be an OSC is held.
    Escape,
    /// An OSC is held that has not shown its number.
    Start,
    /// A copy is held.
    Copy,
    /// After the first byte of what may end a copy.
    CopyEnd,
    /// A sequence is dropped until its end.
    Dropping,
    /// After the first byte of what may end it.
    DroppingEnd,
}

impl ClipboardGuard {
    /// Follows a session with this policy.
    pub(super) fn new(policy: Clipboard) -> Self {
        Self {
            policy,
            is_active: true,
            state: State::default(),
            held: Vec::new(),
            too_long: false,
        }
    }

    /// Whether this client is the one that may type; copies reach no other.
    pub(super) fn set_active(&mut self, is_active: bool) {
        self.is_active = is_active;
    }

    /// Forgets a sequence that was cut off: a snapshot follows.
    pub(super) fn restart(&mut self) {
        (self.state, self.held) = (State::Passing, Vec::new());
    }

    /// Whether a copy was too long since the last call.
    pub(super) fn take_too_long(&mut self) -> bool {
        std::mem::take(&mut self.too_long)
    }

    /// What of the output goes to the terminal.
    pub(super) fn pass(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.state == State::Passing && !bytes.iter().any(|b| matches!(*b, ESC | C1)) {
            return bytes;
        }
        let mut out = Vec::with_capacity(bytes.len() + self.held.len());
        let mut rest = bytes.as_slice();
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == State::Passing {
                let start = rest.iter().position(|b| matches!(*b, ESC | C1));
                let (text, others) = rest.split_at(start.unwrap_or(rest.len()));
                out.extend_from_slice(text);
                rest = others;
                if let Some((&first, after)) = others.split_first() {
                    self.hold(first, State::Escape);
                    rest = after;
                }
                continue;
            }
            self.step(byte, &mut out);
            rest = after;
        }
        out
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        match (self.state, byte) {
            (State::Passing, ESC | C1) => self.hold(byte, State::Escape),
            (State::Passing, _) => out.push(byte),
            (State::Escape, _) => match (self.held[0], byte) {
                (ESC, b']') | (C1, C1_OSC) => self.hold(byte, State::Start),
                _ => self.let_go(byte, out),
            },
            (State::Start, ESC | C1 | BEL | CAN | SUB) => self.let_go(byte, out),
            (State::Start, _) => self.start(byte, out),
            (State::Copy, ESC | C1) => self.hold(byte, State::CopyEnd),
            (State::Copy, BEL) => self.copy(&[BEL], out),
            (State::Copy | State::Dropping, CAN | SUB) | (State::Dropping, BEL) => self.restart(),
            (State::Copy, _) if self.held.len() >= MAX_HEAD + MAX_TARGETS + MAX_COPY => {
                self.is_too_long();
                self.drop_it();
            }
            (State::Copy, _) => self.held.push(byte),
            (State::CopyEnd, _) => {
                let first = self.held.pop().unwrap_or(ESC);
                if matches!((first, byte), (ESC, b'\\') | (C1, C1_ST)) {
                    self.copy(&[first, byte], out);
                } else {
                    self.begin_again(first, byte, out);
                }
            }
            (State::Dropping, ESC | C1) => self.hold(byte, State::DroppingEnd),
            (State::Dropping, _) => {}
            (State::DroppingEnd, _) => {
                let first = self.held.pop().unwrap_or(ESC);
                if matches!((first, byte), (ESC, b'\\') | (C1, C1_ST)) {
                    self.restart();
                } else {
                    self.begin_again(first, byte, out);
                }
            }
        }
    }

    /// A byte of an OSC before its number and first word are known.
    fn start(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.held.push(byte);
        let head = meaning(&self.held[2..]);
        let head = head.strip_zeros();
        let is = |whole: &[u8]| head.0.starts_with(whole);
        match HEADS.iter().find(|(whole, _)| is(whole)) {
            Some((_, Head::Copy)) => self.state = State::Copy,
            Some((_, Head::Other)) => self.drop_it(),
            None if self.held.len() > MAX_HEAD => self.drop_it(),
            None if HEADS.iter().any(|(whole, _)| whole.starts_with(&head.0)) => {}
            None => {
                self.state = State::Passing;
                out.append(&mut self.held);
            }
        }
    }

    /// A copy has come to its end.
    fn copy(&mut self, end: &[u8], out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        self.state = State::Passing;
        let body = meaning(&held[2..]);
        let mut fields = body.0.splitn(3, |&b| b == b';').skip(1);
        let (Some(targets), Some(text)) = (fields.next(), fields.next()) else {
            return;
        };
        if text.len() > MAX_COPY {
            self.is_too_long();
            return;
        }
        let known = |b: &u8| matches!(b, b'c' | b'p' | b'q' | b's' | b'0'..=b'7');
        if targets.len() > MAX_TARGETS || !targets.iter().all(known) || text == b"?" {
            return;
        }
        let allowed = match self.policy {
            Clipboard::Off => false,
            Clipboard::Copy => is_base64(text),
            Clipboard::CopyAndClear => is_base64(text) || text.is_empty(),
        };
        if allowed && self.is_active {
            out.extend_from_slice(&held[..2]);
            out.extend_from_slice(b"52;");
            out.extend_from_slice(targets);
            out.push(b';');
            out.extend_from_slice(text);
            out.extend_from_slice(end);
        }
    }

    /// Nobody misses a copy that would not have been made.
    fn is_too_long(&mut self) {
        self.too_long |= self.is_active && self.policy != Clipboard::Off;
    }

    fn hold(&mut self, byte: u8, state: State) {
        self.held.push(byte);
        self.state = state;
    }

    fn drop_it(&mut self) {
        (self.state, self.held) = (State::Dropping, Vec::new());
    }

    /// What was held is nothing of ours; `byte` may begin something.
    fn let_go(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.state = State::Passing;
        out.append(&mut self.held);
        self.step(byte, out);
    }

    /// A sequence was broken off by the start of another.
    fn begin_again(&mut self, first: u8, byte: u8, out: &mut Vec<u8>) {
        self.restart();
        self.step(first, out);
        self.step(byte, out);
    }
}

/// The bytes of an OSC that mean something; terminals leave out controls.
fn meaning(bytes: &[u8]) -> Meaning {
    Meaning(bytes.iter().copied().filter(|b| *b >= 0x20).collect())
}

struct Meaning(Vec<u8>);

impl Meaning {
    /// Without zeros before the number.
    fn strip_zeros(self) -> Self {
        let zeros = self.0.iter().take_while(|b| **b == b'0').count();
        Self(self.0[zeros..].to_vec())
    }
}

fn is_base64(text: &[u8]) -> bool {
    let padding = text.iter().rev().take_while(|b| **b == b'=').count();
    let digits = &text[..text.len() - padding];
    let known = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    !digits.is_empty() && padding <= 2 && digits.len() % 4 != 1 && digits.iter().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes when output comes in pieces of this size, and whether a copy was too long.
    fn pass_in(policy: Clipboard, output: &[u8], size: usize) -> (Vec<u8>, bool) {
        let mut guard = ClipboardGuard::new(policy);
        let passed: Vec<u8> = output
            .chunks(size)
            .flat_map(|piece| guard.pass(piece.to_vec()))
            .collect();
        (passed, guard.take_too_long())
    }

    fn pass(policy: Clipboard, output: &[u8]) -> Vec<u8> {
        let whole = pass_in(policy, output, output.len()).0;
        for size in [1, 2, 3, 7] {
            assert_eq!(
                pass_in(policy, output, size).0,
                whole,
                "{} in pieces of {size}",
                output.escape_ascii()
            );
        }
        whole
    }

    #[test]
    fn a_copy_arrives_whole_and_once_however_it_is_cut_and_ended() {
        for copy in [
            b"\x1b]52;c;aGVsbG8=\x07".as_slice(),
            b"\x1b]52;c;aGVsbG8=\x1b\\",
            b"\x1b]52;;aGVsbG8\x07",
            b"\x1b]52;cps07;aGVsbG8=\x07",
            b"\xc2\x9d52;c;aGVsbG8=\xc2\x9c",
        ] {
            let output = [b"before", copy, b"after\x1b[m"].concat();
            assert_eq!(pass(Clipboard::Copy, &output), output);
        }
        // Line breaks inside mean nothing to terminals.
        assert_eq!(
            pass(Clipboard::Copy, b"\x1b]52;c;aGVs\r\nbG8=\x07"),
            b"\x1b]52;c;aGVsbG8=\x07"
        );
    }

    #[test]
    fn a_copy_at_the_limit_passes_and_a_longer_one_leaves_nothing_but_a_notice() {
        for (length, passes) in [
            (200_000, true),
            (MAX_COPY, true),
            (MAX_COPY + 4, false),
            (5 << 20, false),
        ] {
            for end in [b"\x07".as_slice(), b"\x1b\\"] {
                let text = vec![b'A'; length];
                let copy = [b"\x1b]52;c;".as_slice(), &text, end].concat();
                let output = [b"before", copy.as_slice(), b"after"].concat();
                for size in [1, 4_095, output.len()] {
                    let (passed, too_long) = pass_in(Clipboard::Copy, &output, size);
                    let expected = if passes {
                        output.as_slice()
                    } else {
                        b"beforeafter"
                    };
                    assert!(passed == expected, "{length} in pieces of {size}");
                    assert_eq!(too_long, !passes);
                }
            }
        }
    }

    #[test]
    fn a_copy_without_an_end_is_bounded_and_told_of_at_the_limit() {
        let mut guard = ClipboardGuard::new(Clipboard::Copy);
        guard.pass(b"\x1b]52;c;".to_vec());
        for _ in 0..100 {
            assert_eq!(guard.pass(vec![b'A'; 100_000]), b"");
        }

        assert!(guard.take_too_long());
        assert_eq!(guard.held.capacity(), 0);
        assert_eq!(guard.pass(b"AA\x18OK".to_vec()), b"OK");
        let long = [b"\x1b]52;c;".as_slice(), &vec![b'A'; 5 << 20], b"\x07"].concat();
        assert!(!pass_in(Clipboard::Off, &long, 4_095).1);
    }

    #[test]
    fn reading_is_refused_whatever_is_allowed() {
        for policy in [Clipboard::Off, Clipboard::Copy, Clipboard::CopyAndClear] {
            for read in [
                b"a\x1b]52;c;?\x07b".as_slice(),
                b"a\x1b]52;;?\x1b\\b",
                b"a\x1b]052;c;?\x07b",
                b"a\x1b]5\x012;c;?\x07b",
                b"a\xc2\x9d52;c;?\x07b",
                b"a\x1b]5522;type=read;Lg==\x1b\\b",
            ] {
                assert_eq!(pass(policy, read), b"ab", "{}", read.escape_ascii());
            }
        }
    }

    #[test]
    fn clearing_and_copying_at_all_are_up_to_the_user() {
        let (clear, copy) = (
            b"\x1b]52;c;\x07".as_slice(),
            b"\x1b]52;c;YQ==\x07".as_slice(),
        );

        assert_eq!(pass(Clipboard::Off, &[clear, copy].concat()), b"");
        assert_eq!(pass(Clipboard::Copy, &[clear, copy].concat()), copy);
        let both = [clear, copy].concat();
        assert_eq!(pass(Clipboard::CopyAndClear, &both), both);
    }

    #[test]
    fn what_is_no_copy_is_dropped_and_not_taken_for_clearing() {
        for odd in [
            b"\x1b]52;c;!\x07".as_slice(),
            b"\x1b]52;c\x07",
            b"\x1b]52;x;YQ==\x07",
            b"\x1b]52;c;YQ;=\x07",
            b"\x1b]52;c;Y\x07",
            b"\x1b]1337;Copy=:YQ==\x07",
            b"\x1b]1337;CopyToClipboard=\x07",
        ] {
            assert_eq!(
                pass(Clipboard::CopyAndClear, odd),
                b"",
                "{}",
                odd.escape_ascii()
            );
        }
    }

    #[test]
    fn a_copy_that_is_broken_off_copies_nothing_and_what_follows_is_drawn() {
        for (output, passed) in [
            (b"\x1b]52;c;YQ==\x18OK".as_slice(), b"OK".as_slice()),
            (b"\x1b]52;c;YQ==\x1b[mOK", b"\x1b[mOK"),
            (b"\x1b]52;c;YQ==\x1b]0;t\x07OK", b"\x1b]0;t\x07OK"),
            (
                b"\x1b]52;c;YQ==\x1b\x1b]52;c;Yg==\x07",
                b"\x1b\x1b]52;c;Yg==\x07",
            ),
        ] {
            let got = pass(Clipboard::Copy, output);
            assert_eq!(got, passed, "{}", output.escape_ascii());
        }
    }

    #[test]
    fn only_the_client_that_may_type_gets_copies() {
        let mut guard = ClipboardGuard::new(Clipboard::Copy);
        let copy = b"\x1b]52;c;YQ==\x07".to_vec();

        guard.set_active(false);
        assert_eq!(guard.pass(copy.clone()), b"");
        guard.set_active(true);
        assert_eq!(guard.pass(copy.clone()), copy);
    }

    #[test]
    fn all_other_output_passes_as_it_is() {
        for output in [
            b"plain".as_slice(),
            b"\x1b[31mred\x1b[m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\ \x1b]5;1;?\x07 \x1b]520;a\x07",
            b"\x1b]1337;File=inline=1:AA==\x07\x1b]133;A\x07\x1b]0052x;\x07",
            b"\x1bPq#0~\x1b\\\x1b_Gi=1;AAAA\x1b\\\x1b",
            "\u{c9}t\u{e9} \u{9b}7m \u{a0}".as_bytes(),
        ] {
            let expected = output.strip_suffix(b"\x1b").unwrap_or(output);
            assert_eq!(pass(Clipboard::Copy, output), expected, "{}", output.escape_ascii());
        }
    }

    #[test]
    fn a_snapshot_begins_afresh() {
        let mut guard = ClipboardGuard::new(Clipboard::Copy);
        assert_eq!(guard.pass(b"\x1b]52;c;YQ".to_vec()), b"");

        guard.restart();

        assert_eq!(guard.pass(b"text\x07".to_vec()), b"text\x07");
    }
}

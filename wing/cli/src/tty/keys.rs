//! Finds the prefix key in what the user types: Ctrl+B, or the one that was set.
//!
//! | keys | what happens |
//! |---|---|
//! | prefix Q (or q) | leaves the session |
//! | prefix prefix | sends the prefix key once |
//! | prefix and anything else | sends both, so that nothing is lost |
//!
//! The prefix waits for its next key for as long as it takes. A paste is never that key:
//! pasted text may hold any byte. Terminals with an extended keyboard send Ctrl+B as a
//! sequence (`CSI 98 ; 5 u`, `CSI 27 ; 5 ; 98 ~`), and tell of keys that are let go of.

use wt_wing::config::PrefixKey;

use super::input::Piece;

/// Most bytes of key events that are held between the prefix and its next key. They come
/// from letting go of keys; more than a few mean that somebody rests on the keyboard.
const MAX_HELD: usize = 256;

/// What to do with keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Sends bytes to the session.
    Send(Vec<u8>),
    /// Leaves the session; nothing typed after it is sent.
    Detach,
}

/// Follows the prefix key.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: PrefixKey,
    /// The bytes of a prefix key that waits for its next key, and of the events since.
    armed: Option<Vec<u8>>,
    /// Bytes that came behind the leaving key in the same read.
    behind: usize,
}

impl Keys {
    /// Follows this prefix key.
    pub(super) fn new(prefix: PrefixKey) -> Self {
        Self {
            prefix,
            armed: None,
            behind: 0,
        }
    }

    /// Decides on pieces of input, in order.
    pub(super) fn press(&mut self, pieces: Vec<Piece>) -> Vec<Action> {
        let mut actions = Vec::new();
        for piece in pieces {
            if actions.last() == Some(&Action::Detach) {
                let (Piece::Paste(bytes) | Piece::Text(bytes) | Piece::Sequence(bytes)) = piece;
                self.behind += bytes.len();
                continue;
            }
            match piece {
                Piece::Paste(bytes) => {
                    let mut out = self.armed.take().unwrap_or_default();
                    out.extend(bytes);
                    send(&mut actions, &out);
                }
                Piece::Text(bytes) => {
                    for byte in bytes {
                        let key = match byte {
                            _ if Some(byte) == control_byte(self.prefix) => Key::Prefix,
                            b'q' | b'Q' => Key::Leave,
                            _ => Key::Other,
                        };
                        self.key(key, &[byte], &mut actions);
                    }
                }
                Piece::Sequence(bytes) => {
                    self.key(classify(&bytes, self.prefix), &bytes, &mut actions)
                }
            }
        }
        actions
    }

    /// How many bytes came behind the leaving key, in the read that it was found in. They
    /// are for nobody: the session is left, and a terminal takes nothing back.
    pub(super) fn behind(&self) -> usize {
        self.behind
    }

    fn key(&mut self, key: Key, bytes: &[u8], actions: &mut Vec<Action>) {
        if actions.last() == Some(&Action::Detach) {
            self.behind += bytes.len();
            return;
        }
        match (self.armed.take(), key) {
            (None, Key::Prefix) => self.armed = Some(bytes.to_vec()),
            (None, _) => send(actions, bytes),
            (Some(_), Key::Leave) => actions.push(Action::Detach),
            (Some(_), Key::Prefix) => send(actions, bytes),
            (Some(mut before), Key::Silent) if before.len() + bytes.len() <= MAX_HELD => {
                before.extend_from_slice(bytes);
                self.armed = Some(before);
            }
            (Some(mut before), Key::Silent | Key::Other) => {
                before.extend_from_slice(bytes);
                send(actions, &before);
            }
        }
    }
}

fn send(actions: &mut Vec<Action>, bytes: &[u8]) {
    match actions.last_mut() {
        Some(Action::Send(before)) => before.extend_from_slice(bytes),
        Some(Action::Detach) => {}
        None => actions.push(Action::Send(bytes.to_vec())),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The prefix key.
    Prefix,
    /// Q, with or without Shift.
    Leave,
    /// A key that is let go of, a modifier, the mouse or the focus: completes nothing.
    Silent,
    /// Any other key.
    Other,
}

/// What the prefix key is as a plain byte.
fn control_byte(prefix: PrefixKey) -> Option<u8> {
    match prefix {
        PrefixKey::Ctrl(key) => Some(key & 0x1f),
        PrefixKey::None => None,
    }
}

/// Which key a sequence stands for.
fn classify(sequence: &[u8], prefix: PrefixKey) -> Key {
    let Some(body) = sequence.strip_prefix(b"\x1b[") else {
        return Key::Other;
    };
    let Some((&last, body)) = body.split_last() else {
        return Key::Other;
    };
    if matches!((body, last), (b"", b'I' | b'O' | b'M')) || body.first() == Some(&b'<') {
        return Key::Silent;
    }
    let Ok(body) = std::str::from_utf8(body) else {
        return Key::Other;
    };
    let mut fields = body
        .split(';')
        .map(|field| field.split(':').map(|n| n.parse::<u32>().ok()));
    let mut field = || {
        fields
            .next()
            .map(|mut sub| (sub.next().flatten(), sub.next().flatten()))
    };
    let (code, modifiers, event) = match last {
        // Kitty: code : shifted ; modifiers : event.
        b'u' => {
            let code = field().and_then(|(code, _)| code);
            let (modifiers, event) = field().unwrap_or_default();
            (code, modifiers, event)
        }
        // xterm's modifyOtherKeys: 27 ; modifiers ; code.
        b'~' if body.starts_with("27;") => {
            field();
            let modifiers = field().and_then(|(modifiers, _)| modifiers);
            (field().and_then(|(code, _)| code), modifiers, None)
        }
        // Other keys with an event type.
        _ => {
            field();
            return match field() {
                Some((_, Some(RELEASE))) => Key::Silent,
                _ => Key::Other,
            };
        }
    };
    if event == Some(RELEASE) || code.is_some_and(|code| MODIFIER_KEYS.contains(&code)) {
        return Key::Silent;
    }
    // Bits above one, without the locks: Caps Lock and Num Lock.
    let held = modifiers.unwrap_or(1).saturating_sub(1) & !(CAPS_LOCK | NUM_LOCK);
    match (code, held) {
        (Some(code), CTRL) if matches!(prefix, PrefixKey::Ctrl(key) if code == u32::from(key)) => {
            Key::Prefix
        }
        (Some(code), 0 | SHIFT) if code == u32::from(b'q') || code == u32::from(b'Q') => Key::Leave,
        _ => Key::Other,
    }
}

/// Kitty's number for the event of letting go.
const RELEASE: u32 = 3;
const SHIFT: u32 = 1;
const CTRL: u32 = 4;
const CAPS_LOCK: u32 = 64;
const NUM_LOCK: u32 = 128;

/// Kitty's codes from Left Shift to ISO Level 5 Shift.
const MODIFIER_KEYS: std::ops::RangeInclusive<u32> = 57441..=57454;

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::*;

    /// Feeds reads of a terminal; returns what was sent, and whether it ended in a detach.
    fn type_in(reads: &[&[u8]]) -> (Vec<u8>, bool) {
        type_with(PrefixKey::default(), reads)
    }

    fn type_with(prefix: PrefixKey, reads: &[&[u8]]) -> (Vec<u8>, bool) {
        let (mut input, mut keys) = (Input::default(), Keys::new(prefix));
        let mut actions = Vec::new();
        for read in reads {
            actions.extend(keys.press(input.feed(read)));
        }
        actions.extend(keys.press(input.release()));
        let detached = actions.last() == Some(&Action::Detach);
        let sent = actions.into_iter().filter_map(|action| match action {
            Action::Send(bytes) => Some(bytes),
            Action::Detach => None,
        });
        (sent.collect::<Vec<_>>().concat(), detached)
    }

    fn bytes(reads: &[&[u8]]) -> Vec<u8> {
        let (sent, detached) = type_in(reads);
        assert!(!detached);
        sent
    }

    #[test]
    fn the_prefix_and_q_leave_the_session() {
        for reads in [
            &[b"ls\r\x02q".as_slice()] as &[&[u8]],
            &[b"ls\r\x02Q"],
            &[b"ls\r\x02", b"q"],
            &[
                b"ls\r",
                b"\x1b[98;5u",
                b"\x1b[98;5:3u",
                b"\x1b[57442;1:3u",
                b"\x1b[113u",
            ],
            &[b"ls\r", b"\x1b[98;69u", b"\x1b[113:81;2;81u"],
            &[b"ls\r", b"\x1b[27;5;98~", b"q"],
            &[b"ls\r\x02", b"\x1b[<35;1;1M", b"q"],
        ] {
            assert_eq!(type_in(reads), (b"ls\r".to_vec(), true), "{reads:?}");
        }
    }

    #[test]
    fn nothing_after_leaving_is_sent() {
        assert_eq!(type_in(&[b"a\x02qrm -rf x\r"]), (b"a".to_vec(), true));
        let (mut input, mut keys) = (Input::default(), Keys::new(PrefixKey::default()));
        keys.press(input.feed(b"a\x02qls\r\x1b[A\x1b[200~b\x1b[201~"));
        assert_eq!(keys.behind(), 3 + 3 + 13);
    }

    #[test]
    fn the_prefix_twice_sends_it_once() {
        assert_eq!(bytes(&[b"\x02\x02"]), b"\x02");
        assert_eq!(bytes(&[b"\x02", b"\x02", b"q"]), b"\x02q");
        assert_eq!(bytes(&[b"\x1b[98;5u\x1b[98;5:3u\x1b[98;5u"]), b"\x1b[98;5u");
    }

    #[test]
    fn the_prefix_and_another_key_send_both() {
        assert_eq!(bytes(&[b"\x02x"]), b"\x02x");
        assert_eq!(bytes(&[b"\x02", b"\x1b[A", b"q"]), b"\x02\x1b[Aq");
        // Keypad 1 in application mode ends in a q and is none.
        assert_eq!(bytes(&[b"\x02", b"\x1bOq"]), b"\x02\x1bOq");
        // Alt+Q is another key.
        assert_eq!(bytes(&[b"\x02", b"\x1bq"]), b"\x02\x1bq");
    }

    #[test]
    fn a_paste_holds_any_byte_and_never_completes_the_prefix() {
        let paste: &[u8] = b"\x1b[200~a\x02qb\x1b[201~";
        assert_eq!(bytes(&[paste]), paste);

        let q: &[u8] = b"\x1b[200~q\x1b[201~";
        assert_eq!(bytes(&[b"\x02", q]), [b"\x02", q].concat());
        // The prefix was spent, so a q typed afterwards is only a q.
        assert_eq!(bytes(&[b"\x02", q, b"q"]), [b"\x02", q, b"q"].concat());
    }

    #[test]
    fn the_prefix_works_right_after_a_paste_whose_end_was_split() {
        let (sent, detached) = type_in(&[b"\x1b[200~hello", b"\x1b[20", b"1~", b"\x02q"]);

        assert_eq!(sent, b"\x1b[200~hello\x1b[201~");
        assert!(detached);
    }

    #[test]
    fn another_prefix_works_as_a_byte_and_as_a_sequence_and_frees_ctrl_b() {
        let (a, backslash) = (PrefixKey::Ctrl(b'a'), PrefixKey::Ctrl(b'\\'));

        for (prefix, reads) in [
            (a, &[b"ls\r\x02q\x01q".as_slice()] as &[&[u8]]),
            (
                a,
                &[b"ls\r\x02q", b"\x1b[97;5u", b"\x1b[97;5:3u", b"\x1b[113u"],
            ),
            (a, &[b"ls\r\x02q", b"\x1b[27;5;97~", b"q"]),
            (backslash, &[b"ls\r\x02q\x1cq"]),
            (backslash, &[b"ls\r\x02q", b"\x1b[92;5u", b"q"]),
        ] {
            let expected = (b"ls\r\x02q".to_vec(), true);
            assert_eq!(type_with(prefix, reads), expected, "{reads:?}");
        }
        assert_eq!(type_with(a, &[b"\x01\x01"]), (b"\x01".to_vec(), false));
    }

    #[test]
    fn without_a_prefix_every_key_goes_to_the_session() {
        let keys: &[u8] = b"\x02q\x01q\x1b[98;5u\x1b[113u\0q";

        assert_eq!(type_with(PrefixKey::None, &[keys]), (keys.to_vec(), false));
    }

    #[test]
    fn keys_with_event_types_pass_unchanged() {
        let keys: &[u8] = b"\x1b[106;1:3u\x1b[57441;2:1u\x1b[97:65;2;65uabc";

        assert_eq!(bytes(&[keys]), keys);
    }

    #[test]
    fn one_megabyte_passes_byte_for_byte() {
        let big: Vec<u8> = (0..1_000_000u32)
            .map(|n| b' ' + (n.wrapping_mul(31) % 90) as u8)
            .collect();
        let reads: Vec<&[u8]> = big.chunks(1_000).collect();

        assert_eq!(bytes(&reads), big);
    }
}

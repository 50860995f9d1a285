//! Input that a script or another program sends: text, pastes and keys, as bytes.
//!
//! Pure. How a piece is written depends on the modes that the session's program has set
//! at that moment, as it would for a person at a terminal.

use wt_protocol::rpc::SendPart;

use crate::screen::Modes;

/// Start and end of a bracketed paste (xterm control sequences, mode 2004).
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// A piece of input, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the program must have read what came before: agents take an Enter that
    /// arrives in one read with text for a part of a paste.
    pub apart: bool,
}

/// A key name that means no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no key; keys are Enter, Tab, Escape, Space, Backspace, Up, Down, Left, Right, Home, End, PageUp, PageDown, Insert, Delete, F1 to F12, a character, and these with C-, M- or S- in front"
)]
pub struct UnknownKey(String);

/// Encodes pieces of input for a program in these modes.
///
/// # Errors
/// A key name that means no key; nothing is to be written then.
pub fn encode(parts: &[SendPart], modes: &Modes) -> Result<Vec<Typed>, UnknownKey> {
    let mut typed: Vec<Typed> = Vec::new();
    for part in parts {
        let (bytes, is_key) = match part {
            SendPart::Raw(bytes) => (bytes.clone(), false),
            SendPart::Text(text) if modes.bracketed_paste && text.contains(['\n', '\r']) => {
                (paste(text, modes), false)
            }
            SendPart::Text(text) => (entered(text), false),
            SendPart::Paste(text) => (paste(text, modes), false),
            SendPart::Key(name) => (
                key(name, modes).ok_or_else(|| UnknownKey(name.clone()))?,
                true,
            ),
        };
        if !bytes.is_empty() {
            typed.push(Typed {
                bytes,
                apart: is_key && !typed.is_empty(),
            });
        }
    }
    Ok(typed)
}

/// Text whose line breaks are typed as Enter.
fn entered(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\r").replace('\n', "\r").into_bytes()
}

/// A paste. Without brackets its line breaks are typed as Enter. In brackets, control
/// characters other than tab and line breaks are left out, so that nothing in the text
/// can end the paste.
fn paste(text: &str, modes: &Modes) -> Vec<u8> {
    if !modes.bracketed_paste {
        return entered(text);
    }
    let safe: String = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\t' | '\n' | '\r'))
        .collect();
    [PASTE_START, &entered(&safe), PASTE_END].concat()
}

/// Modifiers as xterm counts them: 1, and a sum of these.
const SHIFT: u8 = 1;
const ALT: u8 = 2;
const CONTROL: u8 = 4;

/// A key by its name.
fn key(name: &str, modes: &Modes) -> Option<Vec<u8>> {
    let mut rest = name;
    let mut modifiers = 0;
    while rest.chars().count() > 2 {
        let modifier = match rest.get(..2)? {
            "C-" => CONTROL,
            "M-" | "A-" => ALT,
            "S-" => SHIFT,
            _ => break,
        };
        modifiers |= modifier;
        rest = &rest[2..];
    }
    let mut characters = rest.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return character_key(character, modifiers);
    }
    named_key(&rest.to_ascii_lowercase(), modifiers, modes)
}

fn character_key(character: char, modifiers: u8) -> Option<Vec<u8>> {
    let mut bytes = if modifiers & CONTROL != 0 {
        // As a terminal without extended keys does it: only these have a control code.
        let code = match character.to_ascii_lowercase() {
            letter @ 'a'..='z' => letter as u8 - b'a' + 1,
            '@' | ' ' => 0,
            '[' => 0x1b,
            '\\' => 0x1c,
            ']' => 0x1d,
            '^' => 0x1e,
            '_' | '/' => 0x1f,
            '?' => 0x7f,
            _ => return None,
        };
        vec![code]
    } else if modifiers & SHIFT != 0 {
        character.to_uppercase().to_string().into_bytes()
    } else {
        character.to_string().into_bytes()
    };
    if modifiers & ALT != 0 {
        bytes.insert(0, 0x1b);
    }
    Some(bytes)
}

fn named_key(name: &str, modifiers: u8, modes: &Modes) -> Option<Vec<u8>> {
    let plain: &[u8] = match name {
        "enter" | "return" => b"\r",
        "tab" if modifiers & SHIFT != 0 => b"\x1b[Z",
        "tab" => b"\t",
        "escape" | "esc" => b"\x1b",
        "space" if modifiers & CONTROL != 0 => b"\0",
        "space" => b" ",
        "backspace" | "bspace" if modifiers & CONTROL != 0 => b"\x08",
        "backspace" | "bspace" => b"\x7f",
        _ => return sequence_key(name, modifiers, modes),
    };
    let mut bytes = plain.to_vec();
    if modifiers & ALT != 0 {
        bytes.insert(0, 0x1b);
    }
    Some(bytes)
}

/// Keys that send `CSI` or `SS3` sequences (xterm, PC-style function keys).
fn sequence_key(name: &str, modifiers: u8, modes: &Modes) -> Option<Vec<u8>> {
    let letter = match name {
        "up" => Some('A'),
        "down" => Some('B'),
        "right" => Some('C'),
        "left" => Some('D'),
        "home" => Some('H'),
        "end" => Some('F'),
        "f1" => Some('P'),
        "f2" => Some('Q'),
        "f3" => Some('R'),
        "f4" => Some('S'),
        _ => None,
    };
    if let Some(letter) = letter {
        let is_function_key = letter >= 'P';
        return Some(match modifiers {
            0 if is_function_key || modes.app_cursor => format!("\x1bO{letter}").into_bytes(),
            0 => format!("\x1b[{letter}").into_bytes(),
            _ => format!("\x1b[1;{}{letter}", modifiers + 1).into_bytes(),
        });
    }
    let number = match name {
        "insert" => 2,
        "delete" | "dc" => 3,
        "pageup" | "pgup" => 5,
        "pagedown" | "pgdn" => 6,
        "f5" => 15,
        "f6" => 17,
        "f7" => 18,
        "f8" => 19,
        "f9" => 20,
        "f10" => 21,
        "f11" => 23,
        "f12" => 24,
        _ => return None,
    };
    Some(match modifiers {
        0 => format!("\x1b[{number}~").into_bytes(),
        _ => format!("\x1b[{number};{}~", modifiers + 1).into_bytes(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn bytes(part: SendPart, modes: &Modes) -> Vec<u8> {
        encode(&[part], modes)
            .unwrap()
            .into_iter()
            .flat_map(|typed| typed.bytes)
            .collect()
    }

    fn pressed(name: &str) -> Vec<u8> {
        bytes(SendPart::Key(name.into()), &Modes::default())
    }

    const BRACKETED: fn() -> Modes = || Modes {
        bracketed_paste: true,
        ..Modes::default()
    };

    #[test]
    fn a_key_name_as_text_is_text_and_as_key_is_the_key() {
        assert_eq!(
            bytes(SendPart::Text("C-c".into()), &Modes::default()),
            b"C-c"
        );
        assert_eq!(pressed("C-c"), b"\x03");
    }

    #[test]
    fn keys_are_what_a_terminal_sends() {
        for (name, expected) in [
            ("Enter", &b"\r"[..]),
            ("Tab", b"\t"),
            ("S-Tab", b"\x1b[Z"),
            ("Escape", b"\x1b"),
            ("Backspace", b"\x7f"),
            ("Up", b"\x1b[A"),
            ("C-Up", b"\x1b[1;5A"),
            ("M-S-Left", b"\x1b[1;4D"),
            ("Home", b"\x1b[H"),
            ("F1", b"\x1bOP"),
            ("F12", b"\x1b[24~"),
            ("S-F5", b"\x1b[15;2~"),
            ("PageUp", b"\x1b[5~"),
            ("M-x", b"\x1bx"),
            ("C-M-x", b"\x1b\x18"),
            ("C-Space", b"\0"),
            ("-", b"-"),
            ("C--", b""),
            ("é", "é".as_bytes()),
        ] {
            if expected.is_empty() {
                assert!(
                    encode(&[SendPart::Key(name.into())], &Modes::default()).is_err(),
                    "{name}"
                );
            } else {
                assert_eq!(pressed(name), expected, "{name}");
            }
        }
        let app = Modes {
            app_cursor: true,
            ..Modes::default()
        };
        assert_eq!(bytes(SendPart::Key("Up".into()), &app), b"\x1bOA");
    }

    #[test]
    fn an_unknown_key_stops_everything_before_it_too() {
        let parts = [
            SendPart::Text("rm -rf x".into()),
            SendPart::Key("Entre".into()),
        ];

        assert!(
            encode(&parts, &Modes::default())
                .unwrap_err()
                .to_string()
                .contains("Entre")
        );
    }

    #[test]
    fn a_paste_is_bracketed_only_when_the_program_asked() {
        let part = SendPart::Paste("a\nb\r\nc".into());

        assert_eq!(bytes(part.clone(), &Modes::default()), b"a\rb\rc");
        assert_eq!(bytes(part, &BRACKETED()), b"\x1b[200~a\rb\rc\x1b[201~");
    }

    #[test]
    fn nothing_in_a_paste_can_end_it() {
        for text in [
            "x\x1b[201~; rm",
            "x\u{9b}201~; rm",
            "x\x1b\x1b[201~[201~y",
            "\x03\x04",
        ] {
            let typed = bytes(SendPart::Paste(text.into()), &BRACKETED());
            let inside = &typed[PASTE_START.len()..typed.len() - PASTE_END.len()];
            let inside = std::str::from_utf8(inside).unwrap();

            assert!(!inside.contains(|c: char| c.is_control()), "{inside:?}");
        }
    }

    #[test]
    fn text_of_several_lines_is_pasted_where_that_is_understood() {
        let part = SendPart::Text("if x; then\n\ty\nfi".into());

        assert_eq!(
            bytes(part.clone(), &BRACKETED()),
            b"\x1b[200~if x; then\r\ty\rfi\x1b[201~"
        );
        assert_eq!(bytes(part, &Modes::default()), b"if x; then\r\ty\rfi");
        assert_eq!(bytes(SendPart::Text("one".into()), &BRACKETED()), b"one");
    }

    #[test]
    fn an_enter_after_text_is_written_apart() {
        let parts = [
            SendPart::Text("hello".into()),
            SendPart::Key("Enter".into()),
        ];

        let typed = encode(&parts, &BRACKETED()).unwrap();

        assert_eq!(
            typed[0],
            Typed {
                bytes: b"hello".to_vec(),
                apart: false
            }
        );
        assert_eq!(
            typed[1],
            Typed {
                bytes: b"\r".to_vec(),
                apart: true
            }
        );
    }

    #[test]
    fn raw_bytes_are_left_as_they_are() {
        let raw = b"a\n\tb\\n$x \"q\" \xc3\xa9\x00z".to_vec();

        assert_eq!(bytes(SendPart::Raw(raw.clone()), &BRACKETED()), raw);
    }
}

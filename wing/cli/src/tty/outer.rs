//! Follows what a session draws on the user's terminal, as far as it takes to give the
//! terminal back: whether the alternate screen is on, and which colours were replaced.
//!
//! What was on the terminal before is scrolled into its history, the session is drawn
//! below it, and when the user leaves, the session's last screen stays like the output of
//! any command, with the cursor under it.

use wt_protocol::session::Winsize;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// Longest start of a sequence that is looked at, in bytes; the modes of interest come
/// in sequences of under 40.
const MAX_LOOK: usize = 64;

/// Puts the terminal's title away, where the terminal can do that.
const SAVE_TITLE: &[u8] = b"\x1b[22;0t";
const RESTORE_TITLE: &[u8] = b"\x1b[23;0t";

/// Takes a notice out of the title.
const RESTORE_NOTICE: &[u8] = b"\x1b[23;2t";

/// Undoes what a program may have set, and moves nothing.
///
/// Colours and attributes, mouse (one group, so all of it), focus, bracketed paste,
/// synchronised output, reports of colour schemes and sizes, application keys, kitty's
/// and xterm's keyboard modes, insert and newline mode, reverse video, wrapping, character
/// sets, hyperlink, cursor.
const RESET: &[u8] = b"\x1b[0m\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\
\x1b[?1015l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2031l\x1b[?2048l\x1b[?1l\x1b>\x1b[<64u\x1b[=0u\x1b[>4m\
\x1b[4l\x1b[20l\x1b[?5l\x1b[?7h\x1b(B\x1b)B\x0f\x1b]8;;\x1b\\\x1b[0 q\x1b[?25h";

/// Undoes margins and origin mode; both send the cursor home, so it goes to the last row.
const RESET_MARGINS: &[u8] = b"\x1b[?6l\x1b[?69l\x1b[r\x1b[999;1H";

/// What gives a terminal back when nothing is known about it: after a panic.
pub(super) fn reset_blindly() -> Vec<u8> {
    [
        b"\x18\x1b\\".as_slice(),
        RESET,
        b"\x1b[?1049l",
        RESET,
        RESET_MARGINS,
        b"\r\n",
    ]
    .concat()
}

/// What was drawn on the user's terminal.
#[derive(Debug, Default)]
pub(super) struct Outer {
    drawn: bool,
    rows: u16,
    alternate: bool,
    origin: bool,
    margins: bool,
    line_is_empty: bool,
    palette_replaced: bool,
    /// Dynamic colours that were replaced: 10 text, 11 background, 12 cursor.
    colours_replaced: [bool; 3],
    position_queries: u32,
    /// The title is one of ours, and the program's is put away.
    notice: bool,
    state: State,
    look: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Csi,
    /// In an OSC string whose start is looked at.
    Osc,
    /// In any other string.
    String,
}

impl Outer {
    /// What to write for a session's whole state, on a terminal of this size.
    pub(super) fn repaint(&mut self, snapshot: &[u8], size: Winsize) -> Vec<u8> {
        let mut out = Vec::with_capacity(snapshot.len() + 256);
        if self.drawn {
            self.reset(&mut out);
            out.extend_from_slice(b"\x1b[H\x1b[J");
        } else {
            out.extend_from_slice(SAVE_TITLE);
            // From the last row, as many line feeds as there are rows push all of them up.
            out.extend_from_slice(format!("\x1b[0m\x1b[{};1H", size.rows).as_bytes());
            out.extend(std::iter::repeat_n(b'\n', usize::from(size.rows)));
            out.extend_from_slice(b"\x1b[H\x1b[J");
            self.drawn = true;
        }
        *self = Self {
            drawn: true,
            rows: size.rows,
            palette_replaced: self.palette_replaced,
            colours_replaced: self.colours_replaced,
            notice: self.notice,
            ..Self::default()
        };
        self.output(snapshot);
        out.extend_from_slice(snapshot);
        out
    }

    /// Follows output that is written as it is.
    pub(super) fn output(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == State::Ground {
                match rest.iter().position(|&b| b == ESC) {
                    Some(escape) => {
                        self.state = State::Escape;
                        rest = &rest[escape + 1..];
                    }
                    None => break,
                }
                continue;
            }
            self.step(byte);
            rest = after;
        }
        if let Some(last) = bytes.last() {
            self.line_is_empty = *last == b'\n';
        }
    }

    /// How often the output asked for the cursor's position since the last call.
    pub(super) fn take_position_queries(&mut self) -> u32 {
        std::mem::take(&mut self.position_queries)
    }

    /// Whether something may be written without breaking a sequence of the session in two.
    pub(super) fn is_between_sequences(&self) -> bool {
        self.state == State::Ground
    }

    /// What to write to say something in the terminal's title, for the screen belongs to the
    /// session. None while that would break a sequence of the session in two.
    pub(super) fn show_notice(&mut self, text: &str) -> Option<Vec<u8>> {
        if !self.drawn || !self.is_between_sequences() {
            return None;
        }
        let save = if self.notice { "" } else { "\x1b[22;2t" };
        self.notice = true;
        Some(format!("{save}\x1b]2;{text}\x1b\\").into_bytes())
    }

    /// What to write to give the program its title back. None as with
    /// [`Outer::show_notice`].
    pub(super) fn clear_notice(&mut self) -> Option<Vec<u8>> {
        if !self.is_between_sequences() {
            return None;
        }
        Some(if std::mem::take(&mut self.notice) {
            RESTORE_NOTICE.to_vec()
        } else {
            Vec::new()
        })
    }

    /// What to write when the user leaves.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.drawn {
            return out;
        }
        self.reset(&mut out);
        if self.palette_replaced {
            out.extend_from_slice(b"\x1b]104\x1b\\");
        }
        for (replaced, number) in self.colours_replaced.iter().zip(110..) {
            if *replaced {
                out.extend_from_slice(format!("\x1b]{number}\x1b\\").as_bytes());
            }
        }
        if self.notice {
            out.extend_from_slice(RESTORE_NOTICE);
        }
        out.extend_from_slice(RESTORE_TITLE);
        out.extend_from_slice(if self.line_is_empty { b"\r" } else { b"\r\n" });
        // Programs that draw below the cursor leave a frame there.
        out.extend_from_slice(b"\x1b[J");
        *self = Self::default();
        out
    }

    fn reset(&mut self, out: &mut Vec<u8>) {
        // The end of a sequence or string that was cut off.
        if self.state != State::Ground {
            out.push(CAN);
            if matches!(self.state, State::Osc | State::String) {
                out.extend_from_slice(b"\x1b\\");
            }
        }
        // Each screen has a stack of keyboard flags of its own, so both are reset.
        if self.alternate {
            out.extend_from_slice(RESET);
            out.extend_from_slice(b"\x1b[?1049l");
            self.line_is_empty = false;
        }
        out.extend_from_slice(RESET);
        if self.origin || self.margins {
            out.extend_from_slice(RESET_MARGINS);
            self.line_is_empty = false;
        }
    }

    fn step(&mut self, byte: u8) {
        match self.state {
            State::Ground => {}
            State::Escape => {
                self.look.clear();
                self.state = match byte {
                    b'[' => State::Csi,
                    b']' => State::Osc,
                    b'P' | b'_' | b'^' | b'X' => State::String,
                    ESC => State::Escape,
                    b'c' => {
                        (self.alternate, self.origin, self.margins) = (false, false, false);
                        State::Ground
                    }
                    _ => State::Ground,
                };
            }
            State::Csi => match byte {
                ESC => self.state = State::Escape,
                CAN | SUB => self.state = State::Ground,
                0x40..=0x7e => {
                    self.state = State::Ground;
                    self.sequence(byte);
                }
                _ => self.look_at(byte),
            },
            State::Osc | State::String => match byte {
                ESC | BEL | CAN | SUB => {
                    if self.state == State::Osc && matches!(byte, ESC | BEL) {
                        self.osc();
                    }
                    self.state = if byte == ESC {
                        State::Escape
                    } else {
                        State::Ground
                    };
                }
                _ => self.look_at(byte),
            },
        }
    }

    fn look_at(&mut self, byte: u8) {
        if self.look.len() < MAX_LOOK {
            self.look.push(byte);
        }
    }

    fn sequence(&mut self, last: u8) {
        match (self.look.as_slice(), last) {
            (b"6" | b"?6", b'n') => self.position_queries = self.position_queries.saturating_add(1),
            ([b'?', modes @ ..], b'h' | b'l') => {
                for mode in modes.split(|&b| b == b';') {
                    match mode {
                        b"47" | b"1047" | b"1049" => self.alternate = last == b'h',
                        b"6" => self.origin = last == b'h',
                        _ => {}
                    }
                }
            }
            (b"!", b'p') => (self.origin, self.margins) = (false, false),
            (margins, b'r') if margins.iter().all(|b| b.is_ascii_digit() || *b == b';') => {
                self.margins = !is_whole_screen(margins, self.rows);
            }
            _ => {}
        }
    }

    fn osc(&mut self) {
        let Some(semicolon) = self.look.iter().position(|&b| b == b';') else {
            return;
        };
        let (number, value) = (&self.look[..semicolon], &self.look[semicolon + 1..]);
        let is_query = value.ends_with(b"?");
        match number {
            b"4" if !is_query => self.palette_replaced = true,
            [b'1', n @ b'0'..=b'2'] if !is_query => {
                self.colours_replaced[usize::from(n - b'0')] = true
            }
            _ => {}
        }
    }
}

/// Whether margins, as `TOP;BOTTOM`, leave no row out.
fn is_whole_screen(margins: &[u8], rows: u16) -> bool {
    let text = std::str::from_utf8(margins).unwrap_or_default();
    let (top, bottom) = text.split_once(';').unwrap_or((text, ""));
    matches!(top, "" | "0" | "1")
        && (matches!(bottom, "" | "0") || bottom.parse().is_ok_and(|n: u16| n >= rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Winsize = Winsize { cols: 80, rows: 3 };

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    fn attached() -> Outer {
        let mut outer = Outer::default();
        outer.repaint(b"", SIZE);
        outer
    }

    #[test]
    fn what_was_on_the_terminal_is_pushed_into_its_history_once() {
        let mut outer = Outer::default();

        let first = outer.repaint(b"screen", SIZE);
        let second = outer.repaint(b"screen", SIZE);

        assert!(first.ends_with(b"\x1b[3;1H\n\n\n\x1b[H\x1b[Jscreen"));
        assert!(!contains(&second, b"\n"));
        assert!(second.ends_with(b"\x1b[H\x1b[Jscreen"));
    }

    #[test]
    fn the_alternate_screen_is_left_only_if_it_is_on() {
        for (output, on) in [
            (b"\x1b[?1049h".as_slice(), true),
            (b"\x1b[?1;1049h", true),
            (b"\x1b[?47h", true),
            (b"\x1b[?1049h text \x1b[?1049l", false),
            (b"\x1b[?1049h\x1bc", false),
            (b"\x1b]0;\x1b[?1049h\x07", true),
            (b"\x1bP [?1049h \x1b\\", false),
            (b"[?1049h", false),
            (b"", false),
        ] {
            for size in 1..=output.len().max(1) {
                let mut outer = attached();
                for piece in output.chunks(size) {
                    outer.output(piece);
                }
                assert_eq!(
                    contains(&outer.finish(), b"\x1b[?1049l"),
                    on,
                    "{output:?} in pieces of {size}"
                );
            }
        }
    }

    #[test]
    fn leaving_puts_the_cursor_under_the_last_line() {
        let mut outer = attached();
        outer.output(b"$ ");
        assert!(outer.finish().ends_with(b"\r\n\x1b[J"));

        let mut outer = attached();
        outer.output(b"bye\r\n");
        assert!(outer.finish().ends_with(b"\x1b[23;0t\r\x1b[J"));
    }

    #[test]
    fn margins_are_undone_only_if_they_are_set() {
        for (output, set) in [
            (b"\x1b[1;2r".as_slice(), true),
            (b"\x1b[2r", true),
            (b"\x1b[?6h", true),
            (b"\x1b[1;3r", false),
            (b"\x1b[1;2r\x1b[r", false),
            (b"\x1b[1;2r\x1b[!p", false),
            (b"\x1b[?6h\x1b[?6l", false),
            (b"\x1b[?1r", false),
        ] {
            let mut outer = attached();
            outer.output(output);
            assert_eq!(contains(&outer.finish(), RESET_MARGINS), set, "{output:?}");
        }
    }

    #[test]
    fn every_mode_that_a_program_may_leave_on_is_switched_off() {
        let out = attached().finish();
        for mode in [1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004] {
            assert!(
                contains(&out, format!("\x1b[?{mode}l").as_bytes()),
                "{mode}"
            );
        }
        for reset in [
            "\x1b[?1l",
            "\x1b>",
            "\x1b[?25h",
            "\x1b[0 q",
            "\x1b[=0u",
            "\x1b[<64u",
        ] {
            assert!(contains(&out, reset.as_bytes()), "{reset:?}");
        }
    }

    #[test]
    fn only_colours_that_were_replaced_are_reset() {
        let mut outer = attached();
        outer.output(b"\x1b]11;?\x07\x1b]4;1;?\x1b\\");
        let out = outer.finish();
        assert!(!contains(&out, b"\x1b]11") && !contains(&out, b"\x1b]104"));

        let mut outer = attached();
        outer.output(b"\x1b]11;#123456\x07\x1b]4;1;#fff\x1b\\");
        let out = outer.finish();
        assert!(contains(&out, b"\x1b]111\x1b\\") && contains(&out, b"\x1b]104\x1b\\"));
        assert!(!contains(&out, b"\x1b]110"));
    }

    #[test]
    fn queries_for_the_position_are_counted() {
        let mut outer = attached();
        outer.output(b"\x1b[6n\x1b[?6n\x1b[5n\x1b[6");
        assert_eq!(outer.take_position_queries(), 2);
        outer.output(b"n");
        assert_eq!(outer.take_position_queries(), 1);
        assert_eq!(outer.take_position_queries(), 0);
    }

    #[test]
    fn a_sequence_that_was_cut_off_is_ended_first() {
        let mut outer = attached();
        outer.output(b"\x1b]0;half a title");

        assert!(outer.finish().starts_with(b"\x18\x1b\\"));
    }

    #[test]
    fn a_notice_is_one_title_over_the_programs_and_is_taken_back() {
        let mut outer = attached();
        let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap_or_default());

        let first = text(outer.show_notice("one"));
        let second = text(outer.show_notice("two"));
        let back = text(outer.clear_notice());

        assert_eq!(first.as_deref(), Ok("\x1b[22;2t\x1b]2;one\x1b\\"));
        assert_eq!(second.as_deref(), Ok("\x1b]2;two\x1b\\"));
        assert_eq!(back.as_deref(), Ok("\x1b[23;2t"));
        assert!(!contains(&outer.finish(), RESTORE_NOTICE));
    }

    #[test]
    fn a_notice_waits_for_the_end_of_a_sequence_and_goes_when_the_user_leaves() {
        let mut outer = attached();
        outer.output(b"\x1b]0;half");
        assert_eq!(outer.show_notice("one"), None);

        outer.output(b" a title\x07");
        assert!(outer.show_notice("one").is_some());

        let out = outer.finish();
        let both = [RESTORE_NOTICE, RESTORE_TITLE].concat();
        assert!(contains(&out, &both), "{}", out.escape_ascii());
    }

    #[test]
    fn nothing_is_written_when_nothing_was_drawn() {
        assert_eq!(Outer::default().finish(), b"");
    }
}

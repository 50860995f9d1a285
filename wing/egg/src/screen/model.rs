//! The model: what each sequence does.

use std::collections::BTreeMap;
use std::mem;

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::cell::Flags;

use super::buffer::{Buffer, Charset, Charsets, MAX_KITTY, SavedMore};
use super::cell::{Cell, Link};
use super::color::{BACKGROUND, FOREGROUND, Rgb};
use super::parser::{Csi, Parser, Sink};
use super::width::char_width;
use super::{
    Attention, Cursor, Line, Modes, Mouse, MouseEncoding, Screen, ScreenText, Size, snapshot,
};

/// Bytes of a title; what is longer is cut.
const MAX_TITLE: usize = 1024;
/// Titles that a program can stack.
const MAX_TITLES: usize = 16;
/// Bytes of a notification's title and of its text, each.
const MAX_NOTIFICATION: usize = 1024;
/// Bells and notifications kept until somebody takes them; later ones are dropped.
const MAX_ATTENTION: usize = 16;
/// Bytes of answers kept until somebody takes them; later ones are dropped whole.
const MAX_REPLIES: usize = 64 * 1024;
/// Bytes of a hyperlink; a longer one is no link. Browsers cut at about the same length.
const MAX_URI: usize = 2048;
/// Repetitions of a character (REP) that even a small screen is given; programs ask for a row
/// at most, and each sequence could ask for 65,535.
const MIN_REPEATS: usize = 1024;
/// Bytes of a hyperlink's id.
const MAX_LINK_ID: usize = 256;

/// Bounds of a model's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelLimits {
    /// Lines kept above the screen, 2,000 by default; at 80 columns they take 4 MB.
    pub scrollback_lines: usize,
}

impl Default for ModelLimits {
    fn default() -> Self {
        Self {
            scrollback_lines: 2_000,
        }
    }
}

/// The terminal model of an egg.
///
/// It does no input or output and knows no clock. One thread owns it; feeding is fast
/// enough (more than 100 MB each second) to be done where the output is read.
#[derive(Debug)]
pub struct Model {
    parser: Parser,
    state: State,
}

impl Model {
    /// A fresh terminal; the size is clamped as in [`Screen::resize`].
    #[must_use]
    pub fn new(size: Size, limits: ModelLimits) -> Self {
        Self {
            parser: Parser::default(),
            state: State::new(size.clamped(), limits),
        }
    }
}

impl Screen for Model {
    fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.state, bytes);
    }

    fn resize(&mut self, size: Size) {
        self.state.resize(size.clamped());
    }

    fn size(&self) -> Size {
        self.state.size
    }

    fn snapshot(&self, scrollback: usize) -> Vec<u8> {
        let mut out = snapshot::write(&self.state, scrollback);
        out.extend_from_slice(&self.parser.pending());
        out
    }

    fn text(&self, scrollback: usize) -> ScreenText {
        self.state.text(scrollback)
    }

    fn title(&self) -> &str {
        &self.state.title
    }

    fn modes(&self) -> Modes {
        self.state.current_modes()
    }

    fn take_replies(&mut self) -> Vec<u8> {
        mem::take(&mut self.state.replies)
    }

    fn take_attention(&mut self) -> Vec<Attention> {
        mem::take(&mut self.state.attention)
    }
}

/// Everything but the parser.
#[derive(Debug)]
pub(super) struct State {
    pub(super) size: Size,
    pub(super) primary: Buffer,
    /// There while the alternate screen is shown.
    pub(super) alt: Option<Buffer>,
    pub(super) charsets: Charsets,
    /// The modes; what depends on the screens is filled in by `current_modes`.
    pub(super) modes: Modes,
    pub(super) title: String,
    pub(super) titles: Vec<String>,
    pub(super) palette: BTreeMap<u8, Rgb>,
    /// Foreground, background and cursor colour, where the program changed them.
    pub(super) dynamic: [Option<Rgb>; 3],
    /// The last character, before its character set, and its column: what REP repeats. Gone
    /// after anything that is not a character.
    pub(super) last_print: Option<(char, usize)>,
    replies: Vec<u8>,
    attention: Vec<Attention>,
}

impl State {
    fn new(size: Size, limits: ModelLimits) -> Self {
        Self {
            size,
            primary: Buffer::new(size, limits.scrollback_lines),
            alt: None,
            charsets: Charsets::default(),
            modes: Modes::default(),
            title: String::new(),
            titles: Vec::new(),
            palette: BTreeMap::new(),
            dynamic: [None; 3],
            last_print: None,
            replies: Vec::new(),
            attention: Vec::new(),
        }
    }

    /// The screen that is shown.
    pub(super) fn active(&self) -> &Buffer {
        self.alt.as_ref().unwrap_or(&self.primary)
    }

    fn screen(&mut self) -> &mut Buffer {
        self.alt.as_mut().unwrap_or(&mut self.primary)
    }

    fn resize(&mut self, size: Size) {
        if size == self.size {
            return;
        }
        self.size = size;
        self.last_print = None;
        match &mut self.alt {
            None => self.primary.resize(size, true),
            Some(alt) => {
                alt.resize(size, false);
                self.primary.resize_hidden(size);
            }
        }
    }

    fn current_modes(&self) -> Modes {
        let depth = |buffer: &Buffer| u8::try_from(buffer.kitty.len()).unwrap_or(u8::MAX);
        Modes {
            alt_screen: self.alt.is_some(),
            kitty_flags: self.active().kitty.last().copied().unwrap_or(0),
            kitty_primary_depth: depth(&self.primary),
            kitty_alt_depth: self.alt.as_ref().map_or(0, depth),
            palette_changed: !self.palette.is_empty() || self.dynamic.iter().any(Option::is_some),
            ..self.modes
        }
    }

    fn text(&self, scrollback: usize) -> ScreenText {
        let buffer = self.active();
        let history = buffer.grid.history_size().min(scrollback);
        let lines = (-(history as i32)..buffer.rows() as i32)
            .map(|line| text_line(buffer, line))
            .collect();
        ScreenText {
            lines,
            first_visible: history,
            cursor: Cursor {
                row: buffer.row() as u16,
                col: buffer.col() as u16,
                visible: self.modes.cursor_visible,
            },
            title: self.title.clone(),
            modes: self.current_modes(),
        }
    }

    fn reply(&mut self, answer: &str) {
        if self.replies.len() + answer.len() <= MAX_REPLIES {
            self.replies.extend_from_slice(answer.as_bytes());
        }
    }

    fn notice(&mut self, attention: Attention) {
        let known = attention == Attention::Bell && self.attention.contains(&attention);
        if !known && self.attention.len() < MAX_ATTENTION {
            self.attention.push(attention);
        }
    }

    fn draw(&mut self, c: char) {
        let drawn = match self.charsets.sets[self.charsets.active] {
            Charset::Ascii => c,
            Charset::Uk if c == '#' => '£',
            Charset::Uk => c,
            Charset::LineDrawing => line_drawing(c),
        };
        let (autowrap, insert) = (self.modes.autowrap, self.modes.insert);
        self.last_print = match char_width(drawn) {
            0 => {
                // C1 controls have no meaning in UTF-8 text and are no marks either.
                if drawn.is_control() {
                    return;
                }
                let printed = self.last_print.map(|(_, col)| col);
                self.screen().combine(drawn, printed);
                self.last_print
            }
            width => self
                .screen()
                .print(drawn, width, autowrap, insert)
                .map(|col| (c, col)),
        };
    }

    fn save_cursor(&mut self) {
        let more = SavedMore {
            charsets: self.charsets,
            origin: self.modes.origin,
        };
        self.screen().save(more);
    }

    fn restore_cursor(&mut self) {
        let more = self.screen().restore();
        self.charsets = more.charsets;
        self.modes.origin = more.origin;
    }

    fn enter_alt(&mut self) {
        if self.alt.is_none() {
            self.primary.settle_saved();
            self.alt = Some(Buffer::alternate(self.size, &self.primary));
            // Leaving comes back to where the cursor is then, or to the saved one: neither
            // waits to wrap because this one did.
            self.primary.grid.cursor.input_needs_wrap = false;
        }
    }

    fn leave_alt(&mut self) {
        if let Some(alt) = self.alt.take() {
            self.primary.adopt_cursor(&alt, self.modes.origin);
        }
    }

    /// Back to a fresh terminal (RIS); the title stays, as it names the session and not
    /// what is drawn.
    fn full_reset(&mut self) {
        let limits = ModelLimits {
            scrollback_lines: self.primary.scrollback(),
        };
        let fresh = Self::new(self.size, limits);
        let old = mem::replace(self, fresh);
        self.title = old.title;
        self.titles = old.titles;
        self.replies = old.replies;
        self.attention = old.attention;
    }

    /// Modes and margins back to their defaults, the screen as it is (DECSTR).
    fn soft_reset(&mut self) {
        let fresh = Modes::default();
        self.modes = Modes {
            app_cursor: fresh.app_cursor,
            app_keypad: fresh.app_keypad,
            bracketed_paste: fresh.bracketed_paste,
            focus: fresh.focus,
            autowrap: fresh.autowrap,
            origin: fresh.origin,
            insert: fresh.insert,
            synchronized: fresh.synchronized,
            cursor_visible: fresh.cursor_visible,
            cursor_shape: fresh.cursor_shape,
            ..self.modes
        };
        self.charsets = Charsets::default();
        let screen = self.screen();
        *screen.pen() = Cell::default();
        (screen.top, screen.bottom) = (0, screen.rows() - 1);
        screen.forget_saved();
    }

    fn set_private_mode(&mut self, mode: u16, on: bool) {
        let modes = &mut self.modes;
        match mode {
            1 => modes.app_cursor = on,
            5 => modes.reverse_video = on,
            6 => {
                modes.origin = on;
                self.screen().address(0, 0, on);
            }
            7 => modes.autowrap = on,
            9 | 1000 | 1002 | 1003 => {
                modes.mouse = match (on, mode) {
                    (false, _) => Mouse::Off,
                    (true, 9) => Mouse::X10,
                    (true, 1000) => Mouse::Press,
                    (true, 1002) => Mouse::Drag,
                    (true, _) => Mouse::Any,
                }
            }
            1005 | 1006 | 1015 | 1016 => {
                modes.mouse_encoding = match (on, mode) {
                    (false, _) => MouseEncoding::Legacy,
                    (true, 1005) => MouseEncoding::Utf8,
                    (true, 1006) => MouseEncoding::Sgr,
                    (true, 1015) => MouseEncoding::Urxvt,
                    (true, _) => MouseEncoding::SgrPixels,
                }
            }
            12 => modes.cursor_blink = Some(on),
            25 => modes.cursor_visible = on,
            66 => modes.app_keypad = on,
            1004 => modes.focus = on,
            1007 => modes.alternate_scroll = Some(on),
            2004 => modes.bracketed_paste = on,
            2026 => modes.synchronized = on,
            47 | 1047 if on => self.enter_alt(),
            47 | 1047 => self.leave_alt(),
            1048 if on => self.save_cursor(),
            1048 => self.restore_cursor(),
            1049 if on => {
                self.save_cursor();
                self.enter_alt();
            }
            1049 => {
                self.leave_alt();
                self.restore_cursor();
            }
            _ => {}
        }
    }

    /// What DECRQM answers: 0 unknown, 1 set, 2 reset.
    fn private_mode(&self, mode: u16) -> u8 {
        let modes = &self.modes;
        let set = match mode {
            1 => modes.app_cursor,
            5 => modes.reverse_video,
            6 => modes.origin,
            7 => modes.autowrap,
            9 => modes.mouse == Mouse::X10,
            12 => modes.cursor_blink == Some(true),
            25 => modes.cursor_visible,
            47 | 1047 | 1049 => self.alt.is_some(),
            66 => modes.app_keypad,
            1000 => modes.mouse == Mouse::Press,
            1002 => modes.mouse == Mouse::Drag,
            1003 => modes.mouse == Mouse::Any,
            1004 => modes.focus,
            1005 => modes.mouse_encoding == MouseEncoding::Utf8,
            1006 => modes.mouse_encoding == MouseEncoding::Sgr,
            1007 => modes.alternate_scroll == Some(true),
            1015 => modes.mouse_encoding == MouseEncoding::Urxvt,
            1016 => modes.mouse_encoding == MouseEncoding::SgrPixels,
            2004 => modes.bracketed_paste,
            2026 => modes.synchronized,
            _ => return 0,
        };
        if set { 1 } else { 2 }
    }

    /// Sequences with a private prefix.
    fn private_csi(&mut self, csi: &Csi) {
        let first = csi.params.get(0);
        match (csi.prefix, csi.intermediate, csi.last) {
            (b'?', 0, b'h' | b'l') => {
                csi.params
                    .groups()
                    .for_each(|group| self.set_private_mode(group[0], csi.last == b'h'));
            }
            // Nothing here can be protected from erasing, so the selective forms erase the
            // same.
            (b'?', 0, b'J') => self.screen().erase_display(first),
            (b'?', 0, b'K') => self.screen().erase_line(first),
            (b'?', 0, b'n') if first == 6 => self.report_cursor("?"),
            (b'?', b'$', b'p') => {
                let answer = format!("\x1b[?{first};{}$y", self.private_mode(first));
                self.reply(&answer);
            }
            (b'?', 0, b'u') => {
                let answer = format!("\x1b[?{}u", self.current_modes().kitty_flags);
                self.reply(&answer);
            }
            (b'>', 0, b'u') => {
                let flags = (first & 31) as u8;
                let kitty = &mut self.screen().kitty;
                if kitty.len() == MAX_KITTY {
                    kitty.remove(0);
                }
                kitty.push(flags);
            }
            (b'<', 0, b'u') => {
                let kitty = &mut self.screen().kitty;
                kitty.truncate(kitty.len().saturating_sub(csi.count(0)));
            }
            (b'=', 0, b'u') => self.set_kitty((first & 31) as u8, csi.params.get(1)),
            (b'>', 0, b'm') if csi.params.is_empty() => self.modes.modify_other_keys = 0,
            (b'>', 0, b'm') if first == 4 => {
                self.modes.modify_other_keys = csi.params.get(1).min(3) as u8
            }
            (b'>', 0, b'n') if first == 4 => self.modes.modify_other_keys = 0,
            (b'>', 0, b'c') if first == 0 => self.reply("\x1b[>0;320;0c"),
            (b'=', 0, b'c') if first == 0 => self.reply("\x1bP!|00000000\x1b\\"),
            (b'>', 0, b'q') if first == 0 => {
                self.reply(concat!(
                    "\x1bP>|wingthing(",
                    env!("CARGO_PKG_VERSION"),
                    ")\x1b\\"
                ));
            }
            _ => {}
        }
    }

    fn set_kitty(&mut self, flags: u8, how: u16) {
        let kitty = &mut self.screen().kitty;
        if kitty.is_empty() {
            if flags == 0 {
                return;
            }
            kitty.push(0);
        }
        if let Some(top) = kitty.last_mut() {
            *top = match how {
                0 | 1 => flags,
                2 => *top | flags,
                3 => *top & !flags,
                _ => *top,
            };
        }
    }

    fn report_cursor(&mut self, prefix: &str) {
        let origin = self.modes.origin;
        let screen = self.screen();
        let row = if origin {
            screen.row().saturating_sub(screen.top)
        } else {
            screen.row()
        };
        let answer = format!("\x1b[{prefix}{};{}R", row + 1, screen.col() + 1);
        self.reply(&answer);
    }

    /// Sequences with neither prefix nor intermediate byte.
    fn plain_csi(&mut self, csi: &Csi) {
        let first = csi.params.get(0);
        let count = csi.count(0);
        let origin = self.modes.origin;
        let screen = self.screen();
        match csi.last {
            b'@' => screen.insert_blanks(count),
            b'A' => screen.up(count),
            b'B' => screen.down(count),
            b'C' | b'a' => screen.goto_col(screen.col() + count),
            b'D' => screen.goto_col(screen.col().saturating_sub(count)),
            b'E' => {
                screen.down(count);
                screen.goto_col(0);
            }
            b'F' => {
                screen.up(count);
                screen.goto_col(0);
            }
            b'G' | b'`' => screen.goto_col(count - 1),
            b'H' | b'f' => screen.address(count - 1, csi.count(1) - 1, origin),
            b'I' => screen.tab(count),
            b'J' => screen.erase_display(first),
            b'K' => screen.erase_line(first),
            b'L' => screen.insert_lines(count),
            b'M' => screen.delete_lines(count),
            b'P' => screen.delete_chars(count),
            b'S' => screen.scroll_up(count),
            // With five numbers it tracks the mouse.
            b'T' if csi.params.len() < 5 => screen.scroll_down(count),
            b'X' => screen.erase_chars(count),
            b'Z' => screen.back_tab(count),
            b'c' if first == 0 => self.reply("\x1b[?62;22c"),
            b'd' => screen.address(count - 1, screen.col(), origin),
            // Unlike CUD this passes the margin, unless rows are counted from it.
            b'e' if !origin => screen.goto(screen.row() + count, screen.col()),
            b'e' => screen.down(count),
            b'g' => {
                let col = screen.col();
                match first {
                    0 if !screen.pending_wrap() => screen.tabs[col] = false,
                    3 => screen.tabs.fill(false),
                    _ => {}
                }
            }
            b'h' | b'l' => csi.params.groups().for_each(|group| match group[0] {
                4 => self.modes.insert = csi.last == b'h',
                20 => self.modes.newline = csi.last == b'h',
                _ => {}
            }),
            b'm' => screen.pen().apply_sgr(&csi.params),
            b'n' if first == 5 => self.reply("\x1b[0n"),
            b'n' if first == 6 => self.report_cursor(""),
            b'r' => {
                let bottom = match csi.params.get(1) {
                    0 => screen.rows(),
                    bottom => bottom.into(),
                };
                if screen.set_margins(count - 1, bottom - 1) {
                    screen.address(0, 0, origin);
                }
            }
            b's' => self.save_cursor(),
            b't' => self.window_operation(csi),
            b'u' => self.restore_cursor(),
            _ => {}
        }
    }

    fn window_operation(&mut self, csi: &Csi) {
        let icon_alone = csi.params.get(1) == 1;
        match csi.params.get(0) {
            18 => {
                let answer = format!("\x1b[8;{};{}t", self.size.rows, self.size.cols);
                self.reply(&answer);
            }
            22 if !icon_alone => {
                if self.titles.len() == MAX_TITLES {
                    self.titles.remove(0);
                }
                self.titles.push(self.title.clone());
            }
            23 if !icon_alone => {
                if let Some(title) = self.titles.pop() {
                    self.title = title;
                }
            }
            _ => {}
        }
    }

    /// Repeats the last character with its marks (REP), at most once round the whole screen or
    /// [`MIN_REPEATS`] times.
    fn repeat(&mut self, last: Option<(char, usize)>, count: usize) {
        if let Some((c, col)) = last {
            let screen = self.active();
            let marks = screen.cells(screen.row() as i32)[col].zero_width().to_vec();
            let cells = usize::from(self.size.cols) * usize::from(self.size.rows);
            for _ in 0..count.min(cells.max(MIN_REPEATS)) {
                self.draw(c);
                marks.iter().for_each(|&mark| self.draw(mark));
            }
            self.last_print = None;
        }
    }

    fn hyperlink(&mut self, data: &str) {
        let Some((params, uri)) = data.split_once(';') else {
            return;
        };
        let id = params
            .split(':')
            .find_map(|param| param.strip_prefix("id="))
            .unwrap_or("");
        let known = !uri.is_empty() && uri.len() <= MAX_URI;
        let link = known.then(|| Link {
            id: clean(id, MAX_LINK_ID),
            uri: clean(uri, MAX_URI),
        });
        self.screen().pen().set_link(link);
    }

    /// OSC 4: pairs of index and colour, or of index and a question mark.
    fn palette(&mut self, data: &str, end: &str) {
        let mut parts = data.split(';');
        while let (Some(index), Some(spec)) = (parts.next(), parts.next()) {
            let Ok(index) = index.parse::<u8>() else {
                continue;
            };
            if spec == "?" {
                let color = self
                    .palette
                    .get(&index)
                    .copied()
                    .unwrap_or(Rgb::indexed(index));
                self.reply(&format!("\x1b]4;{index};{}{end}", color.spec()));
            } else if let Some(color) = Rgb::parse(spec) {
                self.palette.insert(index, color);
            }
        }
    }

    /// OSC 10, 11 and 12; further colours in one string are for the next numbers.
    fn dynamic(&mut self, number: usize, data: &str, end: &str) {
        for (number, spec) in (number..=12).zip(data.split(';')) {
            let slot = number - 10;
            if spec == "?" {
                let fallback = [
                    FOREGROUND,
                    BACKGROUND,
                    self.dynamic[0].unwrap_or(FOREGROUND),
                ][slot];
                let color = self.dynamic[slot].unwrap_or(fallback);
                self.reply(&format!("\x1b]{number};{}{end}", color.spec()));
            } else if let Some(color) = Rgb::parse(spec) {
                self.dynamic[slot] = Some(color);
            }
        }
    }

    /// What DECRQSS asks for, or nothing if it is not known.
    fn setting(&mut self, name: &[u8]) -> Option<String> {
        let shape = self.modes.cursor_shape;
        let screen = self.screen();
        Some(match name {
            b"m" => format!("{}m", screen.pen().sgr()),
            b" q" => format!("{shape} q"),
            b"r" => format!("{};{}r", screen.top + 1, screen.bottom + 1),
            b"\"p" => "62;1\"p".to_owned(),
            b"\"q" => "0\"q".to_owned(),
            _ => return None,
        })
    }
}

impl Sink for State {
    fn print(&mut self, c: char) {
        self.draw(c);
    }

    fn print_ascii(&mut self, run: &[u8]) {
        let modes = &self.modes;
        let plain = self.charsets.sets[self.charsets.active] == Charset::Ascii;
        let (Some(&last), true) = (run.last(), plain && modes.autowrap && !modes.insert) else {
            return run.iter().for_each(|&byte| self.draw(byte.into()));
        };
        let col = self.screen().print_ascii(run);
        self.last_print = Some((last.into(), col));
    }

    fn control(&mut self, byte: u8) {
        self.last_print = None;
        let newline = self.modes.newline;
        let screen = self.screen();
        match byte {
            0x07 => self.notice(Attention::Bell),
            0x08 => screen.goto_col(screen.col().saturating_sub(1)),
            0x09 => screen.tab(1),
            0x0a..=0x0c => {
                screen.new_line();
                if newline {
                    screen.goto_col(0);
                }
            }
            0x0d => screen.goto_col(0),
            0x0e => self.charsets.active = 1,
            0x0f => self.charsets.active = 0,
            _ => {}
        }
    }

    fn escape(&mut self, intermediates: &[u8], last: u8) {
        self.last_print = None;
        let screen = self.screen();
        match (intermediates, last) {
            (b"", b'7') => self.save_cursor(),
            (b"", b'8') => self.restore_cursor(),
            (b"", b'=') => self.modes.app_keypad = true,
            (b"", b'>') => self.modes.app_keypad = false,
            (b"", b'D') => screen.linefeed(),
            (b"", b'E') => {
                screen.linefeed();
                screen.goto_col(0);
            }
            (b"", b'H') if !screen.pending_wrap() => {
                let col = screen.col();
                screen.tabs[col] = true;
            }
            (b"", b'M') => screen.reverse_index(),
            (b"", b'c') => self.full_reset(),
            (b"", b'n') => self.charsets.active = 2,
            (b"", b'o') => self.charsets.active = 3,
            (b"#", b'8') => {
                screen.alignment_test();
                let origin = self.modes.origin;
                self.screen().address(0, 0, origin);
            }
            ([set @ b'('..=b'+'], _) => {
                self.charsets.sets[usize::from(set - b'(')] = match last {
                    b'0' => Charset::LineDrawing,
                    b'A' => Charset::Uk,
                    // National sets differ from ASCII in a few characters that UTF-8 has.
                    b'B'
                    | b'C'
                    | b'E'
                    | b'H'
                    | b'K'
                    | b'Q'
                    | b'R'
                    | b'Y'
                    | b'Z'
                    | b'4'..=b'7'
                    | b'=' => Charset::Ascii,
                    _ => return,
                };
            }
            _ => {}
        }
    }

    fn csi(&mut self, csi: &Csi) {
        let last_print = self.last_print.take();
        match (csi.prefix, csi.intermediate, csi.last) {
            (0, 0, b'b') => self.repeat(last_print, csi.count(0)),
            (0, 0, _) => self.plain_csi(csi),
            (0, b' ', b'q') => {
                let shape = if csi.params.is_empty() {
                    1
                } else {
                    csi.params.get(0)
                };
                if shape <= 6 {
                    self.modes.cursor_shape = shape as u8;
                    self.modes.cursor_blink = None;
                }
            }
            (0, b'!', b'p') => self.soft_reset(),
            (0, b'$', b'p') => {
                let mode = csi.params.get(0);
                let state = match mode {
                    4 => 2 - u8::from(self.modes.insert),
                    20 => 2 - u8::from(self.modes.newline),
                    _ => 0,
                };
                self.reply(&format!("\x1b[{mode};{state}$y"));
            }
            (0, _, _) => {}
            _ => self.private_csi(csi),
        }
    }

    fn osc(&mut self, data: &[u8], bell: bool) {
        self.last_print = None;
        let data = String::from_utf8_lossy(data);
        let (number, data) = data.split_once(';').unwrap_or((&data, ""));
        let end = if bell { "\x07" } else { "\x1b\\" };
        match number {
            "0" | "2" => self.title = clean(data, MAX_TITLE),
            "4" => self.palette(data, end),
            "8" => self.hyperlink(data),
            "9" => {
                // `9;4;...` and its like are ConEmu's progress bars and settings.
                let command = data.split_once(';').map_or(data, |(first, _)| first);
                if command.is_empty() || !command.bytes().all(|byte| byte.is_ascii_digit()) {
                    self.notice(Attention::Notification {
                        title: None,
                        body: clean(data, MAX_NOTIFICATION),
                    });
                }
            }
            "10" => self.dynamic(10, data, end),
            "11" => self.dynamic(11, data, end),
            "12" => self.dynamic(12, data, end),
            "104" if data.is_empty() => self.palette.clear(),
            "104" => data
                .split(';')
                .filter_map(|index| index.parse().ok())
                .for_each(|index: u8| {
                    self.palette.remove(&index);
                }),
            "110" => self.dynamic[0] = None,
            "111" => self.dynamic[1] = None,
            "112" => self.dynamic[2] = None,
            "777" => {
                if let Some(("notify", rest)) = data.split_once(';') {
                    let (title, body) = rest.split_once(';').unwrap_or(("", rest));
                    let title = (!title.is_empty()).then(|| clean(title, MAX_NOTIFICATION));
                    self.notice(Attention::Notification {
                        title,
                        body: clean(body, MAX_NOTIFICATION),
                    });
                }
            }
            _ => {}
        }
    }

    fn dcs(&mut self, data: &[u8]) {
        self.last_print = None;
        if let Some(name) = data.strip_prefix(b"$q") {
            let answer = match self.setting(name) {
                Some(setting) => format!("\x1bP1$r{setting}\x1b\\"),
                None => "\x1bP0$r\x1b\\".to_owned(),
            };
            self.reply(&answer);
        } else if data.starts_with(b"+q") {
            // XTGETTCAP: nothing is known beyond what TERM says.
            self.reply("\x1bP0+r\x1b\\");
        }
    }
}

/// Text that is safe to show in one line, at most `max` bytes.
fn clean(text: &str, max: usize) -> String {
    let mut clean = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if clean.len() + c.len_utf8() > max {
            break;
        }
        clean.push(c);
    }
    clean
}

fn text_line(buffer: &Buffer, line: i32) -> Line {
    let cells = buffer.cells(line);
    let wrapped = buffer.is_wrapped(line);
    let end = if wrapped {
        cells.len() - usize::from(buffer.has_gap(line))
    } else {
        cells
            .iter()
            .rposition(|cell| cell.c != ' ' || !cell.zero_width().is_empty())
            .map_or(0, |last| last + 1)
    };
    let mut text = String::with_capacity(end);
    for cell in cells[..end]
        .iter()
        .filter(|cell| !cell.flags.contains(Flags::WIDE_CHAR_SPACER))
    {
        text.push(cell.c);
        text.extend(cell.zero_width());
    }
    Line { text, wrapped }
}

/// The DEC line drawing set.
fn line_drawing(c: char) -> char {
    const GLYPHS: [char; 31] = [
        '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─',
        '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
    ];
    match c {
        '`'..='~' => GLYPHS[c as usize - '`' as usize],
        _ => c,
    }
}

//! Writes a state as the output that leads to it.
//!
//! Only sequences that xterm has are used, and none that a terminal could take for a query.
//! The order matters: text is written while wrapping is on and nothing else is; the saved
//! cursor and the margins move the cursor, so they come before it; and the very last thing
//! is the state of the parser, which the caller adds.

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Point;
use alacritty_terminal::term::cell::Flags;

use super::buffer::{Buffer, Charset, Charsets, SavedMore, default_tabs};
use super::cell::{Cell, Color};
use super::model::State;
use super::{Modes, Mouse, MouseEncoding};

/// The snapshot of `state`, without what the parser holds.
pub(super) fn write(state: &State, scrollback: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    let primary = &state.primary;
    let history = primary.grid.history_size().min(scrollback);
    writer.rows(primary, -(history as i32));
    let default_tabs = default_tabs(primary.cols());
    if primary.tabs != default_tabs {
        writer.tabs(primary);
    }
    writer.kitty(primary);
    if let Some(alt) = &state.alt {
        if primary.saved_where_it_is() {
            // The switch saves the cursor, so here it must be what leaving will restore.
            writer.margins(primary);
            writer.saved_cursor(primary, primary.top);
            writer.push("\x1b[?1049h");
            writer.plain_cursor(primary.saved);
        } else {
            writer.save(primary);
            writer.margins(primary);
            let cursor = &primary.grid.cursor;
            writer.place(primary, cursor.point, false, 0);
            writer.pen(&Cell::default());
            writer.push("\x1b[?1047h");
        }
        if !has_full_margins(primary) {
            // Each screen has margins of its own here; where both share them, text must not
            // meet them.
            writer.push("\x1b[r");
        }
        writer.push("\x1b[H\x1b[2J");
        writer.rows(alt, 0);
        if alt.tabs != default_tabs || primary.tabs != default_tabs {
            writer.tabs(alt);
        }
        writer.kitty(alt);
    }
    let active = state.active();
    writer.save(active);
    writer.colors(state);
    writer.titles(state);
    writer.modes(&state.modes);
    writer.margins(active);
    writer.cursor(state);
    writer.out
}

fn has_full_margins(buffer: &Buffer) -> bool {
    buffer.top == 0 && buffer.bottom + 1 == buffer.rows()
}

/// The output so far, and the pen that it leaves.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    pen: Cell,
}

impl Writer {
    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn push_char(&mut self, c: char) {
        self.out
            .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Makes the pen draw like `cell`.
    fn pen(&mut self, cell: &Cell) {
        if !self.pen.same_pen(cell) {
            self.sgr(cell);
        }
        self.link(cell);
        self.pen = cell.clone();
    }

    /// Like `pen`, but says it even if nothing changes: after it no character is the last
    /// one (REP).
    fn pen_anew(&mut self, cell: &Cell) {
        self.link(cell);
        self.sgr(cell);
        self.pen = cell.clone();
    }

    fn sgr(&mut self, cell: &Cell) {
        self.push(&format!("\x1b[{}m", cell.sgr()));
    }

    fn link(&mut self, cell: &Cell) {
        if self.pen.link() == cell.link() {
            return;
        }
        match cell.link() {
            None => self.push("\x1b]8;;\x1b\\"),
            Some(link) if link.id.is_empty() => self.push(&format!("\x1b]8;;{}\x1b\\", link.uri)),
            Some(link) => self.push(&format!("\x1b]8;id={};{}\x1b\\", link.id, link.uri)),
        }
    }

    /// Prints a cell as it is.
    fn cell(&mut self, cell: &Cell) {
        self.pen(cell);
        self.push_char(cell.c);
        for &mark in cell.zero_width() {
            self.push_char(mark);
        }
    }

    /// Prints the rows from `first`, beginning at the top left of an empty screen. What
    /// scrolls out of it becomes the history again.
    fn rows(&mut self, buffer: &Buffer, first: i32) {
        let cols = buffer.cols();
        let end = if first < 0 {
            buffer.rows() as i32
        } else {
            used_rows(buffer)
        };
        let (mut continued, mut overprinted) = (false, false);
        for line in first..end {
            let cells = buffer.cells(line);
            let wrapped = buffer.is_wrapped(line);
            let gap = buffer.has_gap(line);
            let len = if wrapped {
                cols - usize::from(gap)
            } else {
                let used = cells
                    .iter()
                    .rposition(|cell| !cell.is_untouched())
                    .map_or(0, |last| last + 1);
                used.max(usize::from(continued))
            };
            for cell in cells[..len]
                .iter()
                .filter(|cell| !cell.flags.contains(Flags::WIDE_CHAR_SPACER))
            {
                self.cell(cell);
            }
            if continued && len < cols && (overprinted || cells[0].bg != Color::Default) {
                // The row may have come into being with the background of its first
                // character, or its first character may be half of the one that was there.
                self.pen(&Cell::default());
                self.push("\x1b[K");
            }
            overprinted = gap && !left_gap(&cells[cols - 1], &buffer.cells(line + 1)[0]);
            if overprinted {
                // The wide character that left the gap is no more; another one leaves it
                // again.
                self.pen(&cells[cols - 1]);
                self.push("\u{3000}\r");
            } else if !wrapped && line + 1 < end {
                // A row that scrolls in takes the background of the pen.
                self.pen(&Cell::default());
                self.push("\r\n");
            }
            continued = wrapped;
        }
        self.pen(&Cell::default());
    }

    fn tabs(&mut self, buffer: &Buffer) {
        self.push("\x1b[3g");
        for (col, _) in buffer.tabs.iter().enumerate().filter(|(_, stop)| **stop) {
            self.push(&format!("\x1b[{}G\x1bH", col + 1));
        }
    }

    fn kitty(&mut self, buffer: &Buffer) {
        for flags in &buffer.kitty {
            self.push(&format!("\x1b[>{flags}u"));
        }
    }

    fn margins(&mut self, buffer: &Buffer) {
        if !has_full_margins(buffer) {
            self.push(&format!("\x1b[{};{}r", buffer.top + 1, buffer.bottom + 1));
        }
    }

    /// Saves the saved cursor again. No margins are set yet.
    fn save(&mut self, buffer: &Buffer) {
        let saved = &buffer.grid.saved_cursor;
        if *saved == Default::default() && buffer.saved == SavedMore::default() {
            return;
        }
        self.saved_cursor(buffer, 0);
        self.push("\x1b7");
        self.plain_cursor(buffer.saved);
    }

    /// Makes the cursor what the saved one is, where `top` is the top margin in force.
    fn saved_cursor(&mut self, buffer: &Buffer, top: usize) {
        let saved = &buffer.grid.saved_cursor;
        let SavedMore { charsets, origin } = buffer.saved;
        if origin {
            self.push("\x1b[?6h");
        }
        let top = if origin { top } else { 0 };
        self.place(buffer, saved.point, false, top);
        self.pen_anew(&saved.template);
        self.charsets(charsets);
    }

    /// Takes back what the saved cursor needed and printing text does not.
    fn plain_cursor(&mut self, saved: SavedMore) {
        if saved.origin {
            self.push("\x1b[?6l");
        }
        if saved.charsets != Charsets::default() {
            self.push("\x1b(B\x1b)B\x1b*B\x1b+B\x0f");
        }
        self.pen(&Cell::default());
    }

    fn goto(&mut self, row: usize, col: usize) {
        self.push(&format!("\x1b[{};{}H", row + 1, col + 1));
    }

    /// Moves the cursor, rows counted from `top`. Where a wrap is due, the last character
    /// is printed again.
    fn place(&mut self, buffer: &Buffer, point: Point, pending_wrap: bool, top: usize) {
        let row = usize::try_from(point.line.0)
            .unwrap_or(0)
            .saturating_sub(top);
        let mut col = point.column.0;
        if !pending_wrap {
            return self.goto(row, col);
        }
        let cells = buffer.cells(point.line.0);
        if cells[col].flags.contains(Flags::WIDE_CHAR_SPACER) {
            col = col.saturating_sub(1);
        }
        self.goto(row, col);
        self.cell(&cells[col]);
    }

    fn charsets(&mut self, charsets: Charsets) {
        for (set, into) in charsets.sets.iter().zip(["(", ")", "*", "+"]) {
            match set {
                Charset::Ascii => {}
                Charset::Uk => self.push(&format!("\x1b{into}A")),
                Charset::LineDrawing => self.push(&format!("\x1b{into}0")),
            }
        }
        match charsets.active {
            1 => self.push("\x0e"),
            2 => self.push("\x1bn"),
            3 => self.push("\x1bo"),
            _ => {}
        }
    }

    fn colors(&mut self, state: &State) {
        for (index, color) in &state.palette {
            self.push(&format!("\x1b]4;{index};{}\x1b\\", color.spec()));
        }
        for (number, color) in (10..).zip(state.dynamic) {
            if let Some(color) = color {
                self.push(&format!("\x1b]{number};{}\x1b\\", color.spec()));
            }
        }
    }

    fn titles(&mut self, state: &State) {
        for title in &state.titles {
            self.push(&format!("\x1b]2;{title}\x1b\\\x1b[22;0t"));
        }
        if !state.title.is_empty() || !state.titles.is_empty() {
            self.push(&format!("\x1b]2;{}\x1b\\", state.title));
        }
    }

    /// Sets what differs from a fresh terminal. Mouse modes are one group in which the last
    /// one counts, so none of them is ever reset here.
    fn modes(&mut self, modes: &Modes) {
        for (set, sequence) in [
            (modes.app_cursor, "\x1b[?1h"),
            (modes.app_keypad, "\x1b="),
            (modes.bracketed_paste, "\x1b[?2004h"),
            (modes.focus, "\x1b[?1004h"),
            (modes.reverse_video, "\x1b[?5h"),
            (modes.insert, "\x1b[4h"),
            (modes.newline, "\x1b[20h"),
            (!modes.autowrap, "\x1b[?7l"),
            (!modes.cursor_visible, "\x1b[?25l"),
            (modes.alternate_scroll == Some(true), "\x1b[?1007h"),
            (modes.alternate_scroll == Some(false), "\x1b[?1007l"),
        ] {
            if set {
                self.push(sequence);
            }
        }
        self.push(match modes.mouse {
            Mouse::Off => "",
            Mouse::X10 => "\x1b[?9h",
            Mouse::Press => "\x1b[?1000h",
            Mouse::Drag => "\x1b[?1002h",
            Mouse::Any => "\x1b[?1003h",
        });
        self.push(match modes.mouse_encoding {
            MouseEncoding::Legacy => "",
            MouseEncoding::Utf8 => "\x1b[?1005h",
            MouseEncoding::Sgr => "\x1b[?1006h",
            MouseEncoding::Urxvt => "\x1b[?1015h",
            MouseEncoding::SgrPixels => "\x1b[?1016h",
        });
        if modes.cursor_shape != 0 {
            self.push(&format!("\x1b[{} q", modes.cursor_shape));
        }
        match modes.cursor_blink {
            None => {}
            Some(true) => self.push("\x1b[?12h"),
            Some(false) => self.push("\x1b[?12l"),
        }
        if modes.modify_other_keys != 0 {
            self.push(&format!("\x1b[>4;{}m", modes.modify_other_keys));
        }
        if modes.synchronized {
            self.push("\x1b[?2026h");
        }
    }

    /// Puts the cursor, its pen and its character sets where they are. If the program's
    /// last act was a character, so is the snapshot's, for REP may follow.
    fn cursor(&mut self, state: &State) {
        let buffer = state.active();
        let cursor = &buffer.grid.cursor;
        let top = if state.modes.origin { buffer.top } else { 0 };
        if state.modes.origin {
            self.push("\x1b[?6h");
        }
        let Some((c, col)) = state.last_print else {
            self.place(buffer, cursor.point, cursor.input_needs_wrap, top);
            self.pen_anew(&cursor.template);
            return self.charsets(state.charsets);
        };
        self.goto(buffer.row().saturating_sub(top), col);
        self.pen_anew(&cursor.template);
        self.charsets(state.charsets);
        if state.modes.insert {
            // The character makes room for itself; take away the one that is there.
            let wide = buffer.cells(cursor.point.line.0)[col]
                .flags
                .contains(Flags::WIDE_CHAR);
            self.push(if wide { "\x1b[2P" } else { "\x1b[P" });
        }
        self.push_char(c);
        for &mark in buffer.cells(cursor.point.line.0)[col].zero_width() {
            self.push_char(mark);
        }
    }
}

/// Whether printing `next`, a row's first cell, leaves `gap` at the end of the row above.
fn left_gap(gap: &Cell, next: &Cell) -> bool {
    next.flags.contains(Flags::WIDE_CHAR) && gap.same_pen(next) && gap.link() == next.link()
}

/// Rows up to the last one that needs printing.
fn used_rows(buffer: &Buffer) -> i32 {
    let rows = buffer.rows() as i32;
    let used = |line: i32| {
        buffer.is_wrapped(line) || buffer.cells(line).iter().any(|cell| !cell.is_untouched())
    };
    let end = (0..rows)
        .rev()
        .find(|&line| used(line))
        .map_or(0, |last| last + 1);
    // Text goes on in the next row even if nothing is left of it there.
    if end > 0 && buffer.is_wrapped(end - 1) {
        end + 1
    } else {
        end
    }
}

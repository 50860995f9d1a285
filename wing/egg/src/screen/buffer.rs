//! One of the two screens: a grid with its cursor, margins, tab stops and keyboard stack,
//! and the edits on it.
//!
//! The grid's own cursor and saved cursor are used, so that a resize moves them with the
//! text. A cursor whose `input_needs_wrap` is set stands behind the last column: the next
//! character wraps first. Edits treat it as xterm.js does, which counts that place as a
//! column of its own.

use std::mem;
use std::ops::Range;

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;

use super::Size;
use super::cell::{Cell, Color};

/// Cells that the scrollback of one screen may hold, 24 MB: beyond 500 columns it has fewer
/// lines.
const MAX_HISTORY_CELLS: usize = 1_000_000;

/// Keyboard flags that a program can stack, as in kitty; a push beyond drops the oldest.
pub(super) const MAX_KITTY: usize = 16;

const TAB: usize = 8;

/// A character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Charset {
    #[default]
    Ascii,
    Uk,
    LineDrawing,
}

/// The four designated character sets and which of them is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Charsets {
    pub(super) sets: [Charset; 4],
    pub(super) active: usize,
}

/// What DECSC saves beside the grid's own saved cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SavedMore {
    pub(super) charsets: Charsets,
    pub(super) origin: bool,
}

/// One screen.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) grid: Grid<Cell>,
    pub(super) saved: SavedMore,
    /// First row of the scrolling region.
    pub(super) top: usize,
    /// Last row of the scrolling region.
    pub(super) bottom: usize,
    pub(super) tabs: Vec<bool>,
    pub(super) kitty: Vec<u8>,
    scrollback: usize,
}

impl Buffer {
    /// A blank screen that keeps up to `scrollback` lines.
    pub(super) fn new(size: Size, scrollback: usize) -> Self {
        let (cols, rows) = (usize::from(size.cols), usize::from(size.rows));
        Self {
            grid: Grid::new(rows, cols, history_limit(scrollback, cols)),
            saved: SavedMore::default(),
            top: 0,
            bottom: rows - 1,
            tabs: default_tabs(cols),
            kitty: Vec::new(),
            scrollback,
        }
    }

    /// The alternate screen as it is on entry: blank, with the cursor of the primary one.
    pub(super) fn alternate(size: Size, primary: &Self) -> Self {
        let mut alternate = Self::new(size, 0);
        alternate.grid.cursor = primary.grid.cursor.clone();
        for row in 0..alternate.rows() {
            alternate.erase(row, 0..alternate.cols());
        }
        alternate
    }

    /// Goes on where the cursor of another screen is.
    pub(super) fn adopt_cursor(&mut self, other: &Self, origin: bool) {
        self.grid.cursor = other.grid.cursor.clone();
        if origin {
            self.grid.cursor.point.line = Line(self.row().clamp(self.top, self.bottom) as i32);
        }
        self.settle_cursor();
    }

    pub(super) fn cols(&self) -> usize {
        self.grid.columns()
    }

    pub(super) fn rows(&self) -> usize {
        self.grid.screen_lines()
    }

    pub(super) fn row(&self) -> usize {
        usize::try_from(self.grid.cursor.point.line.0).unwrap_or(0)
    }

    pub(super) fn col(&self) -> usize {
        self.grid.cursor.point.column.0
    }

    /// Whether the next character wraps first.
    pub(super) fn pending_wrap(&self) -> bool {
        self.grid.cursor.input_needs_wrap
    }

    pub(super) fn pen(&mut self) -> &mut Cell {
        &mut self.grid.cursor.template
    }

    /// The cells of a row; rows below 0 are history.
    pub(super) fn cells(&self, line: i32) -> &[Cell] {
        &self.grid[Line(line)][..]
    }

    /// Whether a row goes on in the next one.
    pub(super) fn is_wrapped(&self, line: i32) -> bool {
        line + 1 < self.rows() as i32
            && self
                .cells(line)
                .last()
                .is_some_and(|cell| cell.flags.contains(Flags::WRAPLINE))
    }

    /// Whether the last cell of a row is empty only because a wide character did not fit
    /// and went to the next.
    pub(super) fn has_gap(&self, line: i32) -> bool {
        self.is_wrapped(line)
            && self
                .cells(line)
                .last()
                .is_some_and(|cell| cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER))
    }

    /// Moves the cursor, keeping it on the screen.
    pub(super) fn goto(&mut self, row: usize, col: usize) {
        self.grid.cursor.point.line = Line(row.min(self.rows() - 1) as i32);
        self.grid.cursor.point.column = Column(col.min(self.cols() - 1));
        self.grid.cursor.input_needs_wrap = false;
    }

    pub(super) fn goto_col(&mut self, col: usize) {
        self.goto(self.row(), col);
    }

    /// Moves up to the top margin, or to the top from above it.
    pub(super) fn up(&mut self, count: usize) {
        let limit = if self.row() >= self.top { self.top } else { 0 };
        self.goto(self.row().saturating_sub(count).max(limit), self.col());
    }

    /// Moves down to the bottom margin, or to the bottom from below it.
    pub(super) fn down(&mut self, count: usize) {
        let limit = if self.row() <= self.bottom {
            self.bottom
        } else {
            self.rows() - 1
        };
        self.goto((self.row() + count).min(limit), self.col());
    }

    /// Writes a character of `width` 1 or 2 at the cursor and returns its column, or `None`
    /// if there is no room.
    pub(super) fn print(
        &mut self,
        c: char,
        width: usize,
        autowrap: bool,
        insert: bool,
    ) -> Option<usize> {
        let cols = self.cols();
        if self.pending_wrap() {
            if autowrap {
                self.wrap();
            }
            self.grid.cursor.input_needs_wrap = false;
        }
        if self.col() + width > cols {
            if !autowrap {
                return None;
            }
            let (row, col) = (self.row(), self.col());
            self.split_wide_drawn(row, col..cols);
            self.write(row, col, ' ', Flags::LEADING_WIDE_CHAR_SPACER);
            self.wrap();
        }
        let (row, col) = (self.row(), self.col());
        if insert {
            let blank = self.drawn_blank();
            self.insert_cells(width, &blank);
        }
        self.split_wide_drawn(row, col..col + width);
        if width == 2 {
            self.write(row, col, c, Flags::WIDE_CHAR);
            self.write(row, col + 1, ' ', Flags::WIDE_CHAR_SPACER);
        } else {
            self.write(row, col, c, Flags::empty());
        }
        if col + width < cols {
            self.goto_col(col + width);
        } else {
            self.goto_col(cols - 1);
            self.grid.cursor.input_needs_wrap = true;
        }
        Some(col)
    }

    /// Writes printable ASCII at the cursor as [`Self::print`] does with autowrap, whole rows
    /// at a time, and returns the column of the last character.
    pub(super) fn print_ascii(&mut self, mut run: &[u8]) -> usize {
        let cols = self.cols();
        let mut printed = self.col();
        while !run.is_empty() {
            if self.pending_wrap() {
                self.wrap();
            }
            let (row, col) = (self.row(), self.col());
            let (now, later) = run.split_at(run.len().min(cols - col));
            let end = col + now.len();
            self.split_wide_drawn(row, col..end);
            let pen = &self.grid.cursor.template;
            let (pen, extra) = (pen.clone(), pen.has_extra());
            let cells = &mut self.grid[Line(row as i32)][Column(col)..Column(end)];
            for (cell, &byte) in cells.iter_mut().zip(now) {
                cell.draw(&pen, byte.into(), Flags::empty(), extra);
            }
            printed = end - 1;
            self.grid.cursor.point.column = Column(end.min(cols - 1));
            self.grid.cursor.input_needs_wrap = end == cols;
            run = later;
        }
        printed
    }

    /// Adds a combining mark to the character in column `printed` of the cursor's row, or
    /// to the one left of the cursor.
    pub(super) fn combine(&mut self, mark: char, printed: Option<usize>) {
        let row = self.row();
        let mut col = match (printed, self.pending_wrap(), self.col()) {
            (Some(col), _, _) | (None, true, col) => col,
            (None, false, 0) => return,
            (None, false, col) => col - 1,
        };
        if self
            .cell_mut(row, col)
            .flags
            .contains(Flags::WIDE_CHAR_SPACER)
        {
            col = col.saturating_sub(1);
        }
        self.cell_mut(row, col).push_zero_width(mark);
    }

    fn cell_mut(&mut self, row: usize, col: usize) -> &mut Cell {
        &mut self.grid[Line(row as i32)][Column(col)]
    }

    /// Writes one cell.
    fn write(&mut self, row: usize, col: usize, c: char, layout: Flags) {
        let pen = &self.grid.cursor.template;
        let (pen, extra) = (pen.clone(), pen.has_extra());
        self.cell_mut(row, col).draw(&pen, c, layout, extra);
    }

    fn drawn_blank(&self) -> Cell {
        self.grid.cursor.template.drawn(' ', Flags::empty())
    }

    fn wrap(&mut self) {
        let (row, last) = (self.row(), self.cols() - 1);
        // Below the region on the last row there is no next row to go on in.
        if row != self.rows() - 1 || row == self.bottom {
            self.cell_mut(row, last).flags.insert(Flags::WRAPLINE);
        }
        self.linefeed();
        self.goto_col(0);
    }

    /// Puts `blank` over the other halves of wide characters that an edit of `range` cuts.
    fn split_wide(&mut self, row: usize, range: Range<usize>, blank: &Cell) {
        let is_half = |cell: &Cell| cell.flags.contains(Flags::WIDE_CHAR_SPACER);
        if range.start > 0 && is_half(self.cell_mut(row, range.start)) {
            self.cell_mut(row, range.start - 1).overwrite(blank);
        }
        if range.end < self.cols() && is_half(self.cell_mut(row, range.end)) {
            self.cell_mut(row, range.end).overwrite(blank);
        }
    }

    /// Does the same with blanks of the pen, made only if there is something to cut.
    fn split_wide_drawn(&mut self, row: usize, range: Range<usize>) {
        let cells = self.cells(row as i32);
        let is_half = |col: usize| {
            cells
                .get(col)
                .is_some_and(|cell| cell.flags.contains(Flags::WIDE_CHAR_SPACER))
        };
        if is_half(range.start) || is_half(range.end) {
            let blank = self.drawn_blank();
            self.split_wide(row, range, &blank);
        }
    }

    /// A cell that was erased.
    fn erased(&self) -> Cell {
        Cell::plain(' ', self.grid.cursor.template.bg, Flags::empty())
    }

    /// Goes down a row, scrolling at the bottom margin.
    pub(super) fn linefeed(&mut self) {
        self.grid.cursor.input_needs_wrap = false;
        if self.row() == self.bottom {
            self.scroll_up_from(self.top, 1);
        } else {
            self.goto(self.row() + 1, self.col());
        }
    }

    /// Goes down a row because the program said so: what is there is a line of its own from
    /// here on, even if text had wrapped into it before.
    pub(super) fn new_line(&mut self) {
        let row = self.row();
        self.linefeed();
        if self.row() > row {
            let last = self.cols() - 1;
            self.cell_mut(row, last).flags.remove(Flags::WRAPLINE);
        }
    }

    /// Goes up a row, scrolling at the top margin.
    pub(super) fn reverse_index(&mut self) {
        self.grid.cursor.input_needs_wrap = false;
        if self.row() == self.top {
            self.scroll_down_from(self.top, 1);
        } else {
            self.goto(self.row().saturating_sub(1), self.col());
        }
    }

    /// Moves the region's rows up (SU). They do not go to the scrollback.
    pub(super) fn scroll_up(&mut self, count: usize) {
        self.remove_rows(self.top, count);
        self.settle_cursor();
    }

    /// Moves the region's rows down (SD). The rows that come in have no background.
    pub(super) fn scroll_down(&mut self, count: usize) {
        let bg = mem::take(&mut self.grid.cursor.template.bg);
        self.scroll_down_from(self.top, count);
        self.grid.cursor.template.bg = bg;
        self.settle_cursor();
    }

    /// Under a cursor that waits to wrap the last cell is text, whatever row came to lie
    /// there.
    pub(super) fn settle_cursor(&mut self) {
        if self.pending_wrap() {
            let (row, last) = (self.row(), self.cols() - 1);
            self.cell_mut(row, last)
                .flags
                .remove(Flags::LEADING_WIDE_CHAR_SPACER);
        }
    }

    fn region(&self, top: usize) -> Range<Line> {
        Line(top as i32)..Line(self.bottom as i32 + 1)
    }

    fn scroll_up_from(&mut self, top: usize, count: usize) {
        let count = count.min(self.bottom + 1 - top);
        self.grid.scroll_up::<Color>(&self.region(top), count);
    }

    fn scroll_down_from(&mut self, top: usize, count: usize) {
        let count = count.min(self.bottom + 1 - top);
        self.grid.scroll_down::<Color>(&self.region(top), count);
        self.end_wraps();
    }

    /// No text can go on below the last row.
    fn end_wraps(&mut self) {
        let (row, col) = (self.rows() - 1, self.cols() - 1);
        if self.cells(row as i32)[col].flags.contains(Flags::WRAPLINE) {
            self.cell_mut(row, col).flags.remove(Flags::WRAPLINE);
        }
    }

    /// Opens blank rows at the cursor (IL).
    pub(super) fn insert_lines(&mut self, count: usize) {
        self.grid.cursor.input_needs_wrap = false;
        if (self.top..=self.bottom).contains(&self.row()) {
            self.scroll_down_from(self.row(), count);
            self.goto_col(0);
        }
    }

    /// Takes rows out at the cursor (DL). On the first row they do not go to the
    /// scrollback.
    pub(super) fn delete_lines(&mut self, count: usize) {
        self.grid.cursor.input_needs_wrap = false;
        if !(self.top..=self.bottom).contains(&self.row()) {
            return;
        }
        self.remove_rows(self.row(), count);
        self.goto_col(0);
    }

    /// Takes rows out of the region and lets none of them go to the scrollback.
    fn remove_rows(&mut self, first: usize, count: usize) {
        let end = self.bottom + 1;
        let count = count.min(end - first);
        if first > 0 {
            self.scroll_up_from(first, count);
        } else {
            for row in 0..count {
                self.erase(row, 0..self.cols());
            }
            for row in 0..end - count {
                let moved = mem::take(&mut self.grid[Line((row + count) as i32)]);
                let blank = mem::replace(&mut self.grid[Line(row as i32)], moved);
                self.grid[Line((row + count) as i32)] = blank;
            }
        }
    }

    /// Opens blanks at the cursor (ICH).
    pub(super) fn insert_blanks(&mut self, count: usize) {
        let erased = self.erased();
        self.insert_cells(count, &erased);
    }

    fn insert_cells(&mut self, count: usize, blank: &Cell) {
        self.grid.cursor.input_needs_wrap = false;
        let (row, col, cols) = (self.row(), self.col(), self.cols());
        let count = count.min(cols - col);
        let wrapped = self.cells(row as i32)[cols - 1].flags & Flags::WRAPLINE;
        self.split_wide(row, col..col, blank);
        let line = &mut self.grid[Line(row as i32)];
        line[Column(col)..Column(cols)].rotate_right(count);
        line[Column(col)..Column(col + count)].fill(blank.clone());
        if line[Column(cols - 1)].flags.contains(Flags::WIDE_CHAR) {
            // Its other half was pushed out.
            line[Column(cols - 1)] = blank.clone();
        }
        self.repair(row as i32);
        self.cell_mut(row, cols - 1).flags.insert(wrapped);
    }

    /// Takes characters out at the cursor (DCH).
    pub(super) fn delete_chars(&mut self, count: usize) {
        self.grid.cursor.input_needs_wrap = false;
        let (row, col, cols) = (self.row(), self.col(), self.cols());
        let count = count.min(cols - col);
        let wrapped = self.cells(row as i32)[cols - 1].flags & Flags::WRAPLINE;
        self.split_wide(row, col..col + count, &self.erased());
        let line = &mut self.grid[Line(row as i32)];
        line[Column(col)..Column(cols)].rotate_left(count);
        self.fill(row, cols - count..cols);
        self.repair(row as i32);
        self.cell_mut(row, cols - 1).flags.insert(wrapped);
    }

    /// Blanks characters at the cursor (ECH).
    pub(super) fn erase_chars(&mut self, count: usize) {
        self.grid.cursor.input_needs_wrap = false;
        let (row, col) = (self.row(), self.col());
        self.erase(row, col..(col + count).min(self.cols()));
    }

    fn erase(&mut self, row: usize, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.split_wide(row, range.clone(), &self.erased());
        self.fill(row, range);
    }

    /// Erases cells whose neighbours do not reach into them.
    fn fill(&mut self, row: usize, range: Range<usize>) {
        let erased = self.erased();
        self.grid[Line(row as i32)][Column(range.start)..Column(range.end)].fill(erased);
    }

    /// The column that erasing starts from: behind the last one while a wrap is due, so
    /// that nothing is lost.
    fn erase_col(&self) -> usize {
        self.col() + usize::from(self.pending_wrap())
    }

    /// Erases in the cursor's row (EL).
    pub(super) fn erase_line(&mut self, what: u16) {
        let (row, col, cols) = (self.row(), self.erase_col(), self.cols());
        match what {
            0 => self.erase(row, col..cols),
            1 => self.erase(row, 0..(col + 1).min(cols)),
            2 => self.erase(row, 0..cols),
            _ => {}
        }
    }

    /// Erases in the screen (ED).
    pub(super) fn erase_display(&mut self, what: u16) {
        let (row, rows, cols) = (self.row(), self.rows(), self.cols());
        match what {
            0 => {
                self.erase_line(0);
                for below in row + 1..rows {
                    self.erase(below, 0..cols);
                }
            }
            1 => {
                for above in 0..row {
                    self.erase(above, 0..cols);
                }
                self.erase_line(1);
            }
            // The rows down to the last text move to the scrollback, so that `clear` does not
            // destroy them.
            2 => {
                let used = (0..rows)
                    .rev()
                    .find(|&row| self.cells(row as i32).iter().any(|cell| cell.c != ' '))
                    .map_or(0, |last| last + 1);
                let screen = Line(0)..Line(rows as i32);
                self.grid.scroll_up::<Color>(&screen, used);
                for row in 0..rows - used {
                    self.fill(row, 0..cols);
                }
            }
            3 => self.grid.clear_history(),
            _ => {}
        }
    }

    /// Fills the screen with E (DECALN).
    pub(super) fn alignment_test(&mut self) {
        for row in 0..self.rows() {
            let filled = self.grid.cursor.template.drawn('E', Flags::empty());
            let cols = self.cols();
            self.grid[Line(row as i32)][Column(0)..Column(cols)].fill(filled);
        }
    }

    /// Sets the scrolling region, rows counted from 0; one of a single row is refused.
    pub(super) fn set_margins(&mut self, top: usize, bottom: usize) -> bool {
        let bottom = bottom.min(self.rows() - 1);
        if top >= bottom {
            return false;
        }
        (self.top, self.bottom) = (top, bottom);
        true
    }

    /// Moves to the next tab stop, or to the last column.
    pub(super) fn tab(&mut self, count: usize) {
        if self.pending_wrap() {
            return;
        }
        for _ in 0..count.min(self.cols()) {
            let next = (self.col() + 1..self.cols()).find(|&col| self.tabs[col]);
            self.goto_col(next.unwrap_or(self.cols() - 1));
        }
    }

    /// Moves to the previous tab stop, or to the first column.
    pub(super) fn back_tab(&mut self, count: usize) {
        if self.pending_wrap() {
            return;
        }
        for _ in 0..count.min(self.cols()) {
            let previous = (0..self.col()).rev().find(|&col| self.tabs[col]);
            self.goto_col(previous.unwrap_or(0));
        }
    }

    /// Moves to a row and column; with `origin` both count from the region and stay inside
    /// it.
    pub(super) fn address(&mut self, row: usize, col: usize, origin: bool) {
        let row = if origin {
            (self.top + row).min(self.bottom)
        } else {
            row
        };
        self.goto(row, col);
    }

    /// Saves the cursor (DECSC), but not that a wrap is due.
    pub(super) fn save(&mut self, more: SavedMore) {
        self.grid.saved_cursor = self.grid.cursor.clone();
        self.grid.saved_cursor.input_needs_wrap = false;
        self.saved = more;
    }

    /// Restores the cursor (DECRC) and returns the rest of what was saved.
    pub(super) fn restore(&mut self) -> SavedMore {
        self.grid.cursor = self.grid.saved_cursor.clone();
        if self.saved.origin {
            let row = self.row().clamp(self.top, self.bottom);
            self.grid.cursor.point.line = Line(row as i32);
        }
        self.saved
    }

    /// Forgets the saved cursor.
    pub(super) fn forget_saved(&mut self) {
        self.grid.saved_cursor = Default::default();
        self.saved = SavedMore::default();
    }

    /// Whether the saved cursor stands where the cursor does, as after a switch to the
    /// alternate screen.
    pub(super) fn saved_where_it_is(&self) -> bool {
        self.grid.cursor.point == self.grid.saved_cursor.point
    }

    /// Does to the saved cursor what restoring it would do.
    pub(super) fn settle_saved(&mut self) {
        if self.saved.origin {
            let line = self
                .grid
                .saved_cursor
                .point
                .line
                .0
                .clamp(self.top as i32, self.bottom as i32);
            self.grid.saved_cursor.point.line = Line(line);
        }
    }

    /// Changes the size of a screen behind the alternate one. A cursor saved on the switch
    /// moves with the text.
    pub(super) fn resize_hidden(&mut self, size: Size) {
        let follows = self.saved_where_it_is();
        self.resize(size, true);
        if follows {
            self.grid.saved_cursor.point = self.grid.cursor.point;
        }
        self.grid.cursor.input_needs_wrap = false;
        self.settle_saved();
    }

    /// Changes the size; `reflow` wraps the text anew. Margins are lifted.
    pub(super) fn resize(&mut self, size: Size, reflow: bool) {
        let (cols, rows) = (usize::from(size.cols), usize::from(size.rows));
        let old_cols = self.cols();
        for line in self.first_line()..self.rows() as i32 {
            if !self.has_gap(line) {
                self.grid[Line(line)][Column(old_cols - 1)]
                    .flags
                    .remove(Flags::LEADING_WIDE_CHAR_SPACER);
            }
        }
        self.grid
            .update_history(history_limit(self.scrollback, cols));
        self.grid.resize::<Color>(reflow, rows, old_cols);
        let history = self.grid.history_size();
        self.grid.resize::<Color>(reflow, rows, cols);
        if cols < old_cols {
            self.fill_from_history(self.grid.history_size().saturating_sub(history), rows, cols);
        }
        for line in self.first_line()..rows as i32 {
            self.repair(line);
        }
        self.end_wraps();
        (self.top, self.bottom) = (0, rows - 1);
        self.tabs.truncate(cols);
        self.tabs
            .extend((self.tabs.len()..cols).map(|col| col > 0 && col % TAB == 0));
        for cursor in [&mut self.grid.cursor, &mut self.grid.saved_cursor] {
            let last = Column(cols - 1);
            cursor.point.line = cursor.point.line.clamp(Line(0), Line(rows as i32 - 1));
            if cursor.input_needs_wrap && cursor.point.column < last {
                cursor.point.column += 1;
                cursor.input_needs_wrap = false;
            }
            cursor.point.column = cursor.point.column.min(last);
        }
        self.grid.saved_cursor.input_needs_wrap = false;
        self.settle_cursor();
    }

    /// Takes lines back from the history that a smaller width pushed there, as far as there
    /// are blank rows below the cursor to make room.
    fn fill_from_history(&mut self, pushed: usize, rows: usize, cols: usize) {
        let below = (self.row()..rows).rev().take_while(|&row| {
            let blank = Cell::default();
            row > self.row() && self.cells(row as i32).iter().all(|cell| *cell == blank)
        });
        let count = pushed.min(below.count());
        if count > 0 {
            // Rows that are added come from the history; those taken away are the blank ones.
            self.grid.resize::<Color>(false, rows + count, cols);
            self.grid.resize::<Color>(false, rows, cols);
        }
    }

    /// Lines that the history may have, whatever the width.
    pub(super) fn scrollback(&self) -> usize {
        self.scrollback
    }

    /// The oldest line of the history.
    pub(super) fn first_line(&self) -> i32 {
        -(self.grid.history_size() as i32)
    }

    /// Takes away halves of wide characters, and marks of a row's end that are elsewhere.
    fn repair(&mut self, line: i32) {
        let last = self.cols() - 1;
        for col in 0..=last {
            let cells = self.cells(line);
            let flags = cells[col].flags;
            let half = if flags.contains(Flags::WIDE_CHAR) {
                cells
                    .get(col + 1)
                    .is_none_or(|next| !next.flags.contains(Flags::WIDE_CHAR_SPACER))
            } else {
                flags.contains(Flags::WIDE_CHAR_SPACER)
                    && (col == 0 || !cells[col - 1].flags.contains(Flags::WIDE_CHAR))
            };
            let stray = Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER;
            if half {
                self.grid[Line(line)][Column(col)].blank();
            }
            if col < last && flags.intersects(stray) {
                self.grid[Line(line)][Column(col)].flags.remove(stray);
            }
        }
    }
}

fn history_limit(scrollback: usize, cols: usize) -> usize {
    scrollback.min(MAX_HISTORY_CELLS / cols)
}

/// A stop every eight columns.
pub(super) fn default_tabs(cols: usize) -> Vec<bool> {
    (0..cols).map(|col| col > 0 && col % TAB == 0).collect()
}

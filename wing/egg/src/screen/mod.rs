//! What the program has drawn: a terminal without a window.
//!
//! The egg feeds every byte of output to a [`Screen`]. From it come the text that scripts
//! read, the answers to the program's questions, and the snapshot that brings a client's
//! terminal to the state of the session. The grid, its scrollback and its reflow are those
//! of `alacritty_terminal`; parsing and all other state are ours, since a snapshot must
//! restore everything that later output builds on: both screens, saved cursors, margins,
//! tab stops, character sets, keyboard stacks, even the first half of a sequence that the
//! next read completes.
//!
//! Where terminals differ, the model does what xterm.js does, for that is what most clients
//! run. Character widths are those of Unicode 11 on both ends. Pictures (sixel, kitty
//! graphics) are dropped, clipboard writes (OSC 52) are the business of whoever holds the
//! raw stream.

mod buffer;
mod cell;
mod color;
mod model;
mod outer;
mod parser;
mod snapshot;
#[cfg(test)]
mod tests;
mod width;

pub use self::model::{Model, ModelLimits};
pub use self::outer::{RESET, restart, restore_outer};

/// Fewest columns of a model; a wide character needs two.
pub const MIN_COLS: u16 = 2;
/// Fewest rows of a model.
pub const MIN_ROWS: u16 = 1;
/// Most columns of a model: twice what the widest monitor shows, and a grid of 24 MB at
/// most.
pub const MAX_COLS: u16 = 1000;
/// Most rows of a model, for the same reason.
pub const MAX_ROWS: u16 = 1000;

/// Size of a terminal in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl Size {
    /// The nearest size that a model can have. An unknown size (0x0) is for the caller to
    /// replace first.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self {
            cols: self.cols.clamp(MIN_COLS, MAX_COLS),
            rows: self.rows.clamp(MIN_ROWS, MAX_ROWS),
        }
    }
}

/// A terminal model.
pub trait Screen: Send {
    /// Applies output of the program. Cuts between calls may fall anywhere.
    fn feed(&mut self, bytes: &[u8]);

    /// Changes the size, clamped to what a model can have. The primary screen is wrapped
    /// anew, the alternate one is cut or extended.
    fn resize(&mut self, size: Size);

    /// The size in force.
    fn size(&self) -> Size;

    /// Bytes that bring a fresh terminal of the same size to this state, with at most
    /// `scrollback` lines of history. [`restart`] makes a used terminal fresh.
    fn snapshot(&self, scrollback: usize) -> Vec<u8>;

    /// The visible lines and at most `scrollback` lines before them.
    fn text(&self, scrollback: usize) -> ScreenText;

    /// The title, without control characters; empty when the program set none.
    fn title(&self) -> &str;

    /// The modes that the program set.
    fn modes(&self) -> Modes;

    /// Answers that the program asked for since the last call, to be written to its
    /// terminal.
    ///
    /// They are given here and nowhere else: whoever shows the session drops the answers of
    /// its own terminal.
    fn take_replies(&mut self) -> Vec<u8>;

    /// Bells and notifications since the last call. The list is short and bounded; bells
    /// are counted once.
    fn take_attention(&mut self) -> Vec<Attention>;
}

/// The text of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenText {
    /// Scrollback, oldest first, and then the visible rows.
    pub lines: Vec<Line>,
    /// Index of the first visible row in `lines`.
    pub first_visible: usize,
    /// The cursor.
    pub cursor: Cursor,
    /// The title.
    pub title: String,
    /// The modes.
    pub modes: Modes,
}

/// One row of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The characters; blanks at the end are left out, unless it wraps.
    pub text: String,
    /// Whether the text goes on in the next row without a line break.
    pub wrapped: bool,
}

/// Where the cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Row, from 0 at the top of the visible part.
    pub row: u16,
    /// Column, from 0. After the last column was written it stays on it until the next
    /// character wraps.
    pub col: u16,
    /// Whether it is shown.
    pub visible: bool,
}

/// Which mouse events the program wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mouse {
    /// None.
    #[default]
    Off,
    /// Presses alone (mode 9).
    X10,
    /// Presses and releases (mode 1000).
    Press,
    /// Motion too while a button is held (mode 1002).
    Drag,
    /// All motion (mode 1003).
    Any,
}

/// How mouse events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MouseEncoding {
    /// One byte for each number.
    #[default]
    Legacy,
    /// UTF-8 characters (mode 1005).
    Utf8,
    /// Decimal numbers (mode 1006).
    Sgr,
    /// Decimal numbers in urxvt's form (mode 1015).
    Urxvt,
    /// Decimal numbers of pixels (mode 1016).
    SgrPixels,
}

/// The modes that a program can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// The alternate screen is shown (1047, 1049).
    pub alt_screen: bool,
    /// Arrow keys send application sequences (DECCKM, 1).
    pub app_cursor: bool,
    /// The keypad sends application sequences (DECNKM, 66).
    pub app_keypad: bool,
    /// Pastes are bracketed (2004).
    pub bracketed_paste: bool,
    /// Wanted mouse events.
    pub mouse: Mouse,
    /// Encoding of mouse events.
    pub mouse_encoding: MouseEncoding,
    /// The wheel sends arrow keys on the alternate screen (1007); `None` until the program
    /// says.
    pub alternate_scroll: Option<bool>,
    /// Changes of focus are reported (1004).
    pub focus: bool,
    /// A synchronised update is open (2026).
    pub synchronized: bool,
    /// Text wraps at the right edge (DECAWM, 7).
    pub autowrap: bool,
    /// Rows are counted from the top margin (DECOM, 6).
    pub origin: bool,
    /// Text pushes what is right of it (IRM, 4).
    pub insert: bool,
    /// A line feed returns to the first column too (LNM, 20).
    pub newline: bool,
    /// Colours are swapped (DECSCNM, 5).
    pub reverse_video: bool,
    /// The cursor is shown (DECTCEM, 25).
    pub cursor_visible: bool,
    /// The cursor blinks (12); `None` until the program says.
    pub cursor_blink: Option<bool>,
    /// Shape of the cursor as DECSCUSR counts it; 0 is the user's own.
    pub cursor_shape: u8,
    /// xterm's modifyOtherKeys level.
    pub modify_other_keys: u8,
    /// Kitty keyboard flags in force.
    pub kitty_flags: u8,
    /// Kitty keyboard flags pushed on the primary screen.
    pub kitty_primary_depth: u8,
    /// Kitty keyboard flags pushed on the alternate screen.
    pub kitty_alt_depth: u8,
    /// Colours of the palette, foreground, background or cursor were changed (OSC 4, 10,
    /// 11, 12).
    pub palette_changed: bool,
}

impl Default for Modes {
    /// The modes of a fresh terminal.
    fn default() -> Self {
        Self {
            alt_screen: false,
            app_cursor: false,
            app_keypad: false,
            bracketed_paste: false,
            mouse: Mouse::Off,
            mouse_encoding: MouseEncoding::Legacy,
            alternate_scroll: None,
            focus: false,
            synchronized: false,
            autowrap: true,
            origin: false,
            insert: false,
            newline: false,
            reverse_video: false,
            cursor_visible: true,
            cursor_blink: None,
            cursor_shape: 0,
            modify_other_keys: 0,
            kitty_flags: 0,
            kitty_primary_depth: 0,
            kitty_alt_depth: 0,
            palette_changed: false,
        }
    }
}

impl Modes {
    /// Whether mouse events are written in SGR form.
    #[must_use]
    pub fn mouse_sgr(&self) -> bool {
        matches!(
            self.mouse_encoding,
            MouseEncoding::Sgr | MouseEncoding::SgrPixels
        )
    }
}

/// Something that the program wants the user to notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attention {
    /// BEL.
    Bell,
    /// A notification (OSC 9, OSC 777), capped and without control characters.
    Notification {
        /// Its title, when the program gave one.
        title: Option<String>,
        /// Its text.
        body: String,
    },
}

//! One cell of the grid, the attributes that a pen gives it, and SGR both ways.

use std::sync::Arc;

use alacritty_terminal::grid::GridCell;
use alacritty_terminal::term::cell::{Flags, ResetDiscriminant};

use super::parser::Params;

/// Combining marks kept on one cell. Scripts need up to four and a joined emoji family
/// three; a stream of marks without a base would otherwise grow one cell without end.
const MAX_ZERO_WIDTH: usize = 8;

/// Blinking text, a bit of [`Cell::more`].
const BLINK: u8 = 1;
/// A line above the text, a bit of [`Cell::more`].
const OVERLINE: u8 = 2;

/// The flags that belong to the place in the grid and not to the pen.
pub(super) const LAYOUT: Flags = Flags::WRAPLINE
    .union(Flags::WIDE_CHAR)
    .union(Flags::WIDE_CHAR_SPACER)
    .union(Flags::LEADING_WIDE_CHAR_SPACER);

/// A colour as the program named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Color {
    /// The terminal's own foreground or background.
    #[default]
    Default,
    /// An entry of the palette of 256.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// A hyperlink (OSC 8).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The program's id, which joins parts of one link; empty when it gave none.
    pub(super) id: String,
    /// Where it leads.
    pub(super) uri: String,
}

/// What few cells have, kept out of line so that a plain cell stays at 24 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Extra {
    zero_width: Vec<char>,
    underline: Color,
    link: Option<Arc<Link>>,
}

impl Extra {
    fn is_plain(&self) -> bool {
        self.zero_width.is_empty() && self.underline == Color::Default && self.link.is_none()
    }
}

/// A character with its attributes. The cursor's template is one too: there it is the pen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    /// The character; a blank where there is none.
    pub(super) c: char,
    /// Text colour.
    pub(super) fg: Color,
    /// Background colour.
    pub(super) bg: Color,
    /// Style and layout.
    pub(super) flags: Flags,
    more: u8,
    extra: Option<Arc<Extra>>,
}

impl Default for Cell {
    fn default() -> Self {
        Self::plain(' ', Color::Default, Flags::empty())
    }
}

impl GridCell for Cell {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Erases the cell; of the pen only the background stays.
    fn reset(&mut self, template: &Self) {
        *self = Self::plain(' ', template.bg, Flags::empty());
    }

    fn flags(&self) -> &Flags {
        &self.flags
    }

    fn flags_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

impl ResetDiscriminant<Color> for Cell {
    fn discriminant(&self) -> Color {
        self.bg
    }
}

impl Cell {
    /// A cell that no pen drew.
    pub(super) const fn plain(c: char, bg: Color, flags: Flags) -> Self {
        Self {
            c,
            fg: Color::Default,
            bg,
            flags,
            more: 0,
            extra: None,
        }
    }

    /// A cell drawn with this pen.
    pub(super) fn drawn(&self, c: char, layout: Flags) -> Self {
        Self {
            c,
            flags: self.flags | layout,
            ..self.clone()
        }
    }

    /// Becomes `other`. That the row wraps is a fact about the row and outlives the
    /// character in its last cell.
    pub(super) fn overwrite(&mut self, other: &Self) {
        let wrapped = self.flags & Flags::WRAPLINE;
        self.clone_from(other);
        self.flags.insert(wrapped);
    }

    /// Becomes what `pen` draws, as [`Self::overwrite`] does. `extra` says whether the pen
    /// has anything that is kept out of line: mostly neither has, and nothing is counted or
    /// freed.
    #[inline]
    pub(super) fn draw(&mut self, pen: &Self, c: char, layout: Flags, extra: bool) {
        self.c = c;
        self.fg = pen.fg;
        self.bg = pen.bg;
        self.flags = pen.flags | layout | (self.flags & Flags::WRAPLINE);
        self.more = pen.more;
        if extra || self.extra.is_some() {
            self.extra.clone_from(&pen.extra);
        }
    }

    /// Whether anything is kept out of line.
    pub(super) fn has_extra(&self) -> bool {
        self.extra.is_some()
    }

    /// Takes the character away and leaves the colours: the other half of a wide character
    /// that was cut.
    pub(super) fn blank(&mut self) {
        self.c = ' ';
        self.flags
            .remove(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER);
        if !self.zero_width().is_empty() {
            self.edit_extra(|extra| extra.zero_width.clear());
        }
    }

    /// Whether nothing of it needs drawing; how its row wraps is another matter.
    pub(super) fn is_untouched(&self) -> bool {
        let marks = Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER;
        let Self {
            c,
            fg,
            bg,
            flags,
            more,
            extra,
        } = self;
        *c == ' '
            && (*fg, *bg) == (Color::Default, Color::Default)
            && (*flags - marks).is_empty()
            && *more == 0
            && extra.is_none()
    }

    /// The marks that combine with the character.
    pub(super) fn zero_width(&self) -> &[char] {
        self.extra.as_ref().map_or(&[], |extra| &extra.zero_width)
    }

    /// Adds a combining mark; marks beyond the cap are dropped.
    pub(super) fn push_zero_width(&mut self, c: char) {
        if self.zero_width().len() < MAX_ZERO_WIDTH {
            self.edit_extra(|extra| extra.zero_width.push(c));
        }
    }

    /// The hyperlink, if there is one.
    pub(super) fn link(&self) -> Option<&Link> {
        self.extra.as_ref()?.link.as_deref()
    }

    /// Opens or closes a hyperlink on a pen.
    pub(super) fn set_link(&mut self, link: Option<Link>) {
        if link.is_none() && self.link().is_none() {
            return;
        }
        self.edit_extra(|extra| extra.link = link.map(Arc::new));
    }

    fn underline_color(&self) -> Color {
        self.extra
            .as_ref()
            .map_or(Color::Default, |extra| extra.underline)
    }

    fn set_underline_color(&mut self, color: Color) {
        if self.underline_color() == color {
            return;
        }
        self.edit_extra(|extra| extra.underline = color);
    }

    fn edit_extra(&mut self, edit: impl FnOnce(&mut Extra)) {
        let mut extra = self.extra.take().unwrap_or_default();
        edit(Arc::make_mut(&mut extra));
        self.extra = (!extra.is_plain()).then_some(extra);
    }

    /// Whether both would be drawn by the same SGR.
    pub(super) fn same_pen(&self, other: &Self) -> bool {
        self.fg == other.fg
            && self.bg == other.bg
            && self.flags - LAYOUT == other.flags - LAYOUT
            && self.more == other.more
            && self.underline_color() == other.underline_color()
    }

    /// Resets what SGR 0 resets; a hyperlink stays open.
    fn reset_pen(&mut self) {
        self.fg = Color::Default;
        self.bg = Color::Default;
        self.flags &= LAYOUT;
        self.more = 0;
        self.set_underline_color(Color::Default);
    }

    /// Applies one SGR sequence to a pen. What is not known is passed over.
    pub(super) fn apply_sgr(&mut self, params: &Params) {
        if params.is_empty() {
            return self.reset_pen();
        }
        let mut groups = params.groups();
        while let Some(group) = groups.next() {
            match group[0] {
                0 => self.reset_pen(),
                1 => self.flags.insert(Flags::BOLD),
                2 => self.flags.insert(Flags::DIM),
                3 => self.flags.insert(Flags::ITALIC),
                4 => self.set_underline(match group.get(1) {
                    None | Some(1) => Flags::UNDERLINE,
                    Some(0) => Flags::empty(),
                    Some(2) => Flags::DOUBLE_UNDERLINE,
                    Some(3) => Flags::UNDERCURL,
                    Some(4) => Flags::DOTTED_UNDERLINE,
                    Some(5) => Flags::DASHED_UNDERLINE,
                    Some(_) => continue,
                }),
                5 => self.more |= BLINK,
                7 => self.flags.insert(Flags::INVERSE),
                8 => self.flags.insert(Flags::HIDDEN),
                9 => self.flags.insert(Flags::STRIKEOUT),
                21 => self.set_underline(Flags::DOUBLE_UNDERLINE),
                22 => self.flags.remove(Flags::BOLD | Flags::DIM),
                23 => self.flags.remove(Flags::ITALIC),
                24 => self.set_underline(Flags::empty()),
                25 => self.more &= !BLINK,
                27 => self.flags.remove(Flags::INVERSE),
                28 => self.flags.remove(Flags::HIDDEN),
                29 => self.flags.remove(Flags::STRIKEOUT),
                n @ 30..=37 => self.fg = Color::Indexed((n - 30) as u8),
                39 => self.fg = Color::Default,
                n @ 40..=47 => self.bg = Color::Indexed((n - 40) as u8),
                49 => self.bg = Color::Default,
                53 => self.more |= OVERLINE,
                55 => self.more &= !OVERLINE,
                59 => self.set_underline_color(Color::Default),
                n @ 90..=97 => self.fg = Color::Indexed((n - 90 + 8) as u8),
                n @ 100..=107 => self.bg = Color::Indexed((n - 100 + 8) as u8),
                n @ (38 | 48 | 58) => {
                    let color = if group.len() > 1 {
                        color_of_group(&group[1..])
                    } else {
                        color_of_list(|| groups.next().map(|group| group[0]))
                    };
                    match (n, color) {
                        (_, None) => {}
                        (38, Some(color)) => self.fg = color,
                        (48, Some(color)) => self.bg = color,
                        (_, Some(color)) => self.set_underline_color(color),
                    }
                }
                _ => {}
            }
        }
    }

    fn set_underline(&mut self, kind: Flags) {
        self.flags.remove(Flags::ALL_UNDERLINES);
        self.flags.insert(kind);
    }

    /// The SGR parameters that turn a reset pen into this one, beginning with the reset.
    pub(super) fn sgr(&self) -> String {
        let mut sgr = String::from("0");
        for (flag, code) in [
            (Flags::BOLD, ";1"),
            (Flags::DIM, ";2"),
            (Flags::ITALIC, ";3"),
            (Flags::UNDERLINE, ";4"),
            (Flags::DOUBLE_UNDERLINE, ";4:2"),
            (Flags::UNDERCURL, ";4:3"),
            (Flags::DOTTED_UNDERLINE, ";4:4"),
            (Flags::DASHED_UNDERLINE, ";4:5"),
            (Flags::INVERSE, ";7"),
            (Flags::HIDDEN, ";8"),
            (Flags::STRIKEOUT, ";9"),
        ] {
            if self.flags.contains(flag) {
                sgr.push_str(code);
            }
        }
        if self.more & BLINK != 0 {
            sgr.push_str(";5");
        }
        if self.more & OVERLINE != 0 {
            sgr.push_str(";53");
        }
        for (color, base) in [(self.fg, 30), (self.bg, 40)] {
            match color {
                Color::Default => {}
                Color::Indexed(n @ 0..=7) => sgr.push_str(&format!(";{}", base + u16::from(n))),
                Color::Indexed(n @ 8..=15) => {
                    sgr.push_str(&format!(";{}", base + 52 + u16::from(n)))
                }
                Color::Indexed(n) => sgr.push_str(&format!(";{};5;{n}", base + 8)),
                Color::Rgb(r, g, b) => sgr.push_str(&format!(";{};2;{r};{g};{b}", base + 8)),
            }
        }
        match self.underline_color() {
            Color::Default => {}
            Color::Indexed(n) => sgr.push_str(&format!(";58:5:{n}")),
            Color::Rgb(r, g, b) => sgr.push_str(&format!(";58:2::{r}:{g}:{b}")),
        }
        sgr
    }
}

/// The colour in `38:5:n`, `38:2:r:g:b` or `38:2:space:r:g:b`, after the 38.
fn color_of_group(group: &[u16]) -> Option<Color> {
    match *group {
        [5, n, ..] => Some(Color::Indexed(u8::try_from(n).ok()?)),
        [2, r, g, b] | [2, _, r, g, b, ..] => rgb(r, g, b),
        _ => None,
    }
}

/// The colour in `38;5;n` or `38;2;r;g;b`, after the 38.
fn color_of_list(mut next: impl FnMut() -> Option<u16>) -> Option<Color> {
    match next()? {
        5 => Some(Color::Indexed(u8::try_from(next()?).ok()?)),
        2 => {
            let (r, g, b) = (next()?, next()?, next()?);
            rgb(r, g, b)
        }
        _ => None,
    }
}

fn rgb(r: u16, g: u16, b: u16) -> Option<Color> {
    Some(Color::Rgb(
        u8::try_from(r).ok()?,
        u8::try_from(g).ok()?,
        u8::try_from(b).ok()?,
    ))
}

//! Where the model means to differ from xterm.js 6.0.0.
//!
//! Each entry has the shortest stream that shows it; a test feeds it and fails when both
//! agree, so that the list cannot outlive its reasons. The random streams leave out just
//! this much (`streams::Writer`); the recordings are whole.

/// One difference.
pub(crate) struct Difference {
    /// What it is about.
    pub(crate) name: &'static str,
    /// Why the model does not follow.
    pub(crate) reason: &'static str,
    /// Output that shows it on a terminal of 8 columns and 4 rows.
    pub(crate) before: &'static str,
    /// Output after the reattach, where it takes some to show.
    pub(crate) after: &'static str,
}

/// All of them.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "text inside a sequence",
        reason: "a character beyond ASCII that breaks a sequence off is shown, not swallowed",
        before: "\x1b\u{6f22}",
        after: "",
    },
    Difference {
        name: "C1 controls in UTF-8",
        reason: "they have no meaning here, as in most terminals, so that text cannot hide a \
                 control in a character",
        before: "\u{9b}7m",
        after: "",
    },
    Difference {
        name: "a mark without a character",
        reason: "a combining mark takes no column; xterm.js gives it one unless a character \
                 came just before it",
        before: "a\x1b[m\u{301}",
        after: "",
    },
    Difference {
        name: "moves while rows count from the margin",
        reason: "xterm.js adds the top margin again with each move in origin mode",
        before: "\x1b[2;4r\x1b[?6h\x1b[C",
        after: "",
    },
    Difference {
        name: "origin mode of a saved cursor",
        reason: "DECSC saves it (VT510 manual); xterm.js leaves it as it is",
        before: "\x1b7\x1b[?6h\x1b8",
        after: "",
    },
    Difference {
        name: "character sets of a saved cursor",
        reason: "DECSC saves all of them; xterm.js saves the one in use and not its number",
        before: "\x1bn\x1b8",
        after: "",
    },
    Difference {
        name: "underlines and links of a saved cursor",
        reason: "the whole pen is saved; xterm.js keeps their style and colour apart and does \
                 not restore it",
        before: "\x1b7\x1b[21m\x1b8",
        after: "\x1b]8;;\x07",
    },
    Difference {
        name: "saved cursor of the alternate screen",
        reason: "each visit to the alternate screen begins afresh; xterm.js keeps what the last \
                 one saved",
        before: "\x1b[?47h\x1b[3;3H\x1b7\x1b[?47l\x1b[?47h",
        after: "\x1b8",
    },
    Difference {
        name: "saved cursor while the screen scrolls",
        reason: "a saved row is a row of the screen, as in xterm; in xterm.js it follows the text \
                 until the scrollback is full, and ED 3 moves it",
        before: "\x1b[3;3H\x1b7\x1b[4H\n\n",
        after: "",
    },
    Difference {
        name: "ED 2 of blanks",
        reason: "rows move to the scrollback down to the last one with text, and all are erased; \
                 xterm.js takes written blanks for text, and leaves rows of background alone",
        before: "a\r\n\r\n \x1b[2J",
        after: "",
    },
    Difference {
        name: "ED 2 between margins",
        reason: "the whole screen is erased; xterm.js scrolls only what is between the margins",
        before: "\x1b[4Hx\x1b[2;3r\x1b[2J",
        after: "",
    },
    Difference {
        name: "RIS and newline mode",
        reason: "a full reset ends every mode; in xterm.js newline mode is an option and stays",
        before: "\x1b[20h\x1bc",
        after: "",
    },
    Difference {
        name: "RIS and the cursor",
        reason: "a full reset shows the cursor",
        before: "\x1b[?25l\x1bc",
        after: "",
    },
    Difference {
        name: "national character sets",
        reason: "whoever writes UTF-8 needs none; their letters are those of ASCII",
        before: "\x1b(K[",
        after: "",
    },
    Difference {
        name: "RIS and colours",
        reason: "a full reset restores the palette too",
        before: "\x1b]4;3;#123456\x07\x1bc",
        after: "",
    },
    Difference {
        name: "underlines of the alignment test",
        reason: "its letters are drawn with the whole pen; xterm.js leaves the style of underlines out",
        before: "\x1b[4:3m\x1b#8",
        after: "",
    },
    Difference {
        name: "incomplete colours",
        reason: "a colour without its numbers is no colour; xterm.js takes them for 0",
        before: "\x1b[38;2;1mx",
        after: "",
    },
    Difference {
        name: "wide characters at the edge without autowrap",
        reason: "half a character is never left on the screen",
        before: "\x1b[?7l123456\u{6f22}z",
        after: "",
    },
];

//! Random streams of output, rich in sequences and reproducible from a seed.

/// A small generator (xorshift64*): the same seed gives the same stream everywhere.
pub(crate) struct Random(u64);

impl Random {
    /// A generator for one case of a run.
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring streams, and 0 would stay 0.
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// A stream of about `count` pieces of text and sequences, without what is in
/// [`super::differences`].
///
/// `full` streams fill a scrollback of that many lines first and never empty it; in the
/// others the cursor is saved in the first row alone.
pub(crate) fn stream(random: &mut Random, count: usize, full: Option<usize>) -> Vec<Vec<u8>> {
    let mut writer = Writer {
        full: full.is_some(),
        wraps: true,
        origin: false,
    };
    let filling = full.map(|lines| "\r\n".repeat(lines).into_bytes());
    let pieces = (0..count).map(|_| writer.piece(random).into_bytes());
    filling.into_iter().chain(pieces).collect()
}

/// What is needed of the state so far to leave the differences out.
struct Writer {
    full: bool,
    wraps: bool,
    origin: bool,
}

impl Writer {
    fn piece(&mut self, random: &mut Random) -> String {
        let piece = match random.below(24) {
            0..=5 => text(random, self.wraps),
            6..=12 => csi(random),
            13..=14 => mode(random),
            15..=17 => format!("\x1b[{}m", random.pick(SGR)),
            18..=22 => random.pick(FIXED).to_owned(),
            _ => noise(random),
        };
        let piece = self.alike(&piece);
        match &*piece {
            "\x1b[?7h" => self.wraps = true,
            _ if piece.ends_with("\x1bc") || piece == "\x1b[!p" => {
                (self.wraps, self.origin) = (true, false);
            }
            _ => {}
        }
        piece
    }

    /// The piece with what it takes around it to mean the same to both terminals.
    fn alike(&mut self, piece: &str) -> String {
        let (body, last) = piece
            .strip_prefix("\x1b[")
            .map_or(("", ""), |rest| rest.split_at(rest.len() - 1));
        let first = body.split(';').next().unwrap_or_default();
        match (piece, body, last) {
            ("\x1bc", ..) if self.full => String::new(),
            (_, _, "J") if first == "3" && self.full => String::new(),
            ("\x1bc", ..) => format!("\x1b[20l\x1b[?25h\x1b]104\x07\x1b]111\x07{piece}"),
            ("\x1b#8", ..) => format!("{PLAIN_PEN}{piece}"),
            ("\x1b7" | "\x1b8", ..) | (_, _, "s" | "u") | (_, "?1048", _) => self.plain() + piece,
            (_, "?47" | "?1047" | "?1049", "h") => self.plain() + piece + "\x1b7",
            (_, "?47" | "?1047" | "?1049", "l") => self.plain() + piece,
            (_, "?6", "h") => {
                self.origin = true;
                format!("\x1b[r{piece}")
            }
            (_, "?6", "l") => {
                self.origin = false;
                piece.to_owned()
            }
            // No wrap may be due behind a wide character.
            (_, "?7", "l") => {
                self.wraps = false;
                format!("\r{piece}")
            }
            (_, _, "r") => self.leave_origin().to_owned() + piece,
            (_, _, "J") if first == "1" => format!("\r{piece}"),
            (_, _, "J") if first == "2" => {
                format!("{}\x1b[r\x1b[99;1Hx{piece}", self.leave_origin())
            }
            (_, _, "J") if first == "3" => self.plain() + piece + "\x1b7",
            _ => piece.to_owned(),
        }
    }

    fn leave_origin(&mut self) -> &'static str {
        if std::mem::take(&mut self.origin) {
            "\x1b[?6l"
        } else {
            ""
        }
    }

    /// What goes before the cursor is saved or restored.
    fn plain(&mut self) -> String {
        let home = if self.full { "" } else { "\x1b[H" };
        [self.leave_origin(), PLAIN_SETS, PLAIN_PEN, home].concat()
    }
}

/// ASCII in all four sets, the first one in use.
const PLAIN_SETS: &str = "\x0f\x1b(B\x1b)B\x1b*B\x1b+B";

/// A pen without underlines and links.
const PLAIN_PEN: &str = "\x1b[0;3;35m\x1b]8;;\x07";

fn text(random: &mut Random, wide: bool) -> String {
    match random.below(8) {
        0..=3 => some(random, 1, 9, &["a", "b", "m", "q", "z", "#", " ", "-"]),
        4..=5 if wide => some(
            random,
            1,
            4,
            &[
                "\u{6f22}",
                "a",
                "e\u{301}",
                "\u{1f600}",
                "\u{1f600}\u{200d}\u{1f600}",
                "\u{26a0}\u{fe0f}",
                "\u{e9}",
            ],
        ),
        4..=6 => " ".repeat(1 + random.below(20)),
        _ => "\r\n".repeat(1 + random.below(3)),
    }
}

fn some(random: &mut Random, least: usize, most: usize, from: &[&str]) -> String {
    let count = least + random.below(most + 1 - least);
    (0..count).map(|_| random.pick(from)).collect()
}

fn csi(random: &mut Random) -> String {
    let last = b"@ABCDEFGHIJKLMPSTXZ`abcdefgmnrsu";
    let last = char::from(last[random.below(last.len())]);
    let numbers: Vec<String> = (0..random.below(3))
        .map(|_| random.below(9).to_string())
        .collect();
    format!("\x1b[{}{last}", numbers.join(";"))
}

fn mode(random: &mut Random) -> String {
    let mode = random.pick(MODES);
    let last = if random.below(10) < 6 { 'h' } else { 'l' };
    format!("\x1b[{mode}{last}")
}

/// Bytes without sense, but in valid UTF-8 and without C1 controls.
fn noise(random: &mut Random) -> String {
    let noise = some(
        random,
        0,
        12,
        &[
            "\x1b", "\x1b", "[", "]", "P", "(", ")", ";", "?", "0", "1", "2", "3", "9", "h", "l",
            "m", "M", "x", " ", "\x07", "\x08", "\x18",
        ],
    );
    format!("{noise}\x18")
}

const MODES: &[&str] = &[
    "4", "20", "?1", "?6", "?7", "?9", "?12", "?25", "?47", "?66", "?1000", "?1002", "?1003",
    "?1004", "?1006", "?1016", "?1047", "?1048", "?1049", "?2004", "?2026",
];

const SGR: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "4:3",
    "4:0",
    "21",
    "5",
    "7",
    "8",
    "9",
    "22",
    "24",
    "25",
    "27",
    "31",
    "39",
    "41",
    "44",
    "49",
    "53",
    "55",
    "97",
    "101",
    "38;5;99",
    "48;2;1;2;3",
    "58:5:7",
    "58:2::9:8:7",
    "59",
];

const FIXED: &[&str] = &[
    "\x1b7",
    "\x1b8",
    "\x1bD",
    "\x1bE",
    "\x1bH",
    "\x1bM",
    "\x1bc",
    "\x1bn",
    "\x1bo",
    "\x1b=",
    "\x1b>",
    "\x1b#8",
    "\x1b(0",
    "\x1b(B",
    "\x1b)0",
    "\x1b*A",
    "\x0e",
    "\x0f",
    "\n",
    "\r",
    "\x08",
    "\t",
    "\x07",
    "\x0b",
    "\x18",
    "\x1b[!p",
    "\x1b[5 q",
    "\x1b[0 q",
    "\x1b[>5u",
    "\x1b[=3u",
    "\x1b[<u",
    "\x1b[>4;1m",
    "\x1b[3g",
    "\x1b]0;t\u{e9}\x07",
    "\x1b]2;u\x1b\\",
    "\x1b[22;0t",
    "\x1b[23;0t",
    "\x1b]8;id=x;http://a\x07",
    "\x1b]8;;\x07",
    "\x1b]8;;http://b\x1b\\",
    "\x1b]4;3;#123456\x07",
    "\x1b]104\x07",
    "\x1b]11;#445566\x07",
    "\x1b]111\x07",
    "\x1b[6n",
    "\x1b_Gx\x1b\\",
    "\x1b_un\x1b\\",
    "\x1b]9;x\x07",
    "\x1bP1;2qabc\x1b\\",
    "\x1b[?u",
    "\x1b[3J",
    "\x1b[2J",
    "\x1b[99;99H",
    "\x1b[;9H",
    "\x1b[2;4r",
    "\x1b[r",
    "\x1b[6n",
];

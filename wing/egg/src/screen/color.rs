//! Colours as OSC strings write them, and the palette that a terminal has when nobody
//! changed it.

/// Red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rgb(pub(super) u8, pub(super) u8, pub(super) u8);

/// Foreground that a query is answered with. What the clients' terminals use is not known
/// here, and may differ from one to the next; most of them are dark.
pub(super) const FOREGROUND: Rgb = Rgb(0xe5, 0xe5, 0xe5);
/// Background that a query is answered with.
pub(super) const BACKGROUND: Rgb = Rgb(0, 0, 0);

/// The first 16 colours, as xterm has them.
const ANSI: [Rgb; 16] = [
    Rgb(0, 0, 0),
    Rgb(205, 0, 0),
    Rgb(0, 205, 0),
    Rgb(205, 205, 0),
    Rgb(0, 0, 238),
    Rgb(205, 0, 205),
    Rgb(0, 205, 205),
    Rgb(229, 229, 229),
    Rgb(127, 127, 127),
    Rgb(255, 0, 0),
    Rgb(0, 255, 0),
    Rgb(255, 255, 0),
    Rgb(92, 92, 255),
    Rgb(255, 0, 255),
    Rgb(0, 255, 255),
    Rgb(255, 255, 255),
];

impl Rgb {
    /// Colour `index` of the palette of 256: 16 named ones, a cube of 6x6x6 and 24 greys.
    pub(super) fn indexed(index: u8) -> Self {
        let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
        match index {
            0..=15 => ANSI[usize::from(index)],
            16..=231 => {
                let n = index - 16;
                Self(level(n / 36), level(n / 6 % 6), level(n % 6))
            }
            232.. => {
                let grey = 8 + 10 * (index - 232);
                Self(grey, grey, grey)
            }
        }
    }

    /// Reads `rgb:r/g/b` with one to four digits each, or `#` and three, six, nine or
    /// twelve digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(digits) = text.strip_prefix('#') {
            let each = digits.len() / 3;
            if !digits.is_ascii() || each * 3 != digits.len() {
                return None;
            }
            // Here digits are the high ones: `#f00` is `#f00000`.
            let part = |at: usize| {
                let part = digits.get(at * each..(at + 1) * each)?;
                let value = hex(part)?;
                Some(if each == 1 {
                    (value << 4) as u8
                } else {
                    (value >> (4 * (each - 2))) as u8
                })
            };
            return Some(Self(part(0)?, part(1)?, part(2)?));
        }
        let mut parts = text.strip_prefix("rgb:")?.split('/').map(|part| {
            let value = hex(part)?;
            let most = (1 << (4 * part.len())) - 1;
            u8::try_from((value * 255 + most / 2) / most).ok()
        });
        let color = Self(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(color)
    }

    /// Writes it the way terminals answer queries.
    pub(super) fn spec(self) -> String {
        let Self(r, g, b) = self;
        format!("rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}")
    }
}

fn hex(digits: &str) -> Option<u32> {
    let plain =
        (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain
        .then(|| u32::from_str_radix(digits, 16).ok())
        .flatten()
}

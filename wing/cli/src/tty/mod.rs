//! The user's own terminal while a session is attached to it.
//!
//! What its bytes mean is decided in cores without IO: [`input`] reads what the terminal
//! sends, [`keys`] finds the prefix key in it, [`outer`] follows what was drawn on it, and
//! [`clipboard`] decides what programs may copy.
//! [`attach`] is the shell around them, [`device`] reads and writes the terminal itself, and [`raw`] gives the terminal back in every way
//! of ending. [`select`] shows sessions to choose from, and [`play`] a recording.

pub(crate) mod attach;
mod clipboard;
mod device;
mod input;
mod keys;
mod outer;
pub(crate) mod play;
mod raw;
pub(crate) mod select;

use std::env;
use std::io::IsTerminal;

use wt_protocol::session::Winsize;

/// Whether a user can type here.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal()
}

/// The size of the user's terminal.
///
/// A terminal that does not know its size (0x0: serial lines, some containers) is taken to
/// have what `COLUMNS` and `LINES` say, else 80x24.
pub(crate) fn size() -> Winsize {
    let reported = terminal_size::terminal_size_of(std::io::stdout())
        .or_else(|| terminal_size::terminal_size_of(std::io::stdin()))
        .or_else(|| terminal_size::terminal_size_of(std::io::stderr()))
        .map(|(width, height)| (width.0, height.0));
    choose_size(reported, |name| env::var(name).ok())
}

fn choose_size(reported: Option<(u16, u16)>, variable: impl Fn(&str) -> Option<String>) -> Winsize {
    let (cols, rows) = reported.unwrap_or_else(|| {
        let side = |name| {
            variable(name)
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0)
        };
        (side("COLUMNS"), side("LINES"))
    });
    Winsize::from_reported(cols, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_knows_no_size_is_asked_by_its_variables() {
        let variables = |name: &str| match name {
            "COLUMNS" => Some("132".to_owned()),
            _ => Some("many".to_owned()),
        };

        assert_eq!(
            choose_size(None, variables),
            Winsize {
                cols: 132,
                rows: 24
            }
        );
        assert_eq!(choose_size(None, |_| None), Winsize::DEFAULT);
        assert_eq!(
            choose_size(Some((90, 40)), variables),
            Winsize { cols: 90, rows: 40 }
        );
    }
}

//! Writes answers to stdout: one document with `--json`, plain text otherwise.
//!
//! Text is free of control characters from elsewhere, so that a session's folder or a
//! wing's label cannot drive the reader's terminal. Colours are used on a terminal only,
//! and not when `NO_COLOR` is set.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use wt_wing::Error;

use crate::error::Stop;

/// The version of every JSON document that `wt` writes.
pub(crate) const VERSION: u32 = 1;

/// Spaces between the columns of a table.
const GAP: usize = 2;

/// Where answers go, and in which form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    colours: bool,
}

impl Output {
    /// Answers on stdout; as JSON if that was asked for.
    pub(crate) fn new(json: bool) -> Self {
        let colours = !json
            && io::stdout().is_terminal()
            && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { json, colours }
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Answers with a document, or with the text that `text` makes.
    pub(crate) fn answer<T: Serialize>(
        self,
        document: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Stop> {
        if self.json {
            self.document(document)
        } else {
            self.text(&text())
        }
    }

    /// Writes one JSON document in one line, its version first.
    pub(crate) fn document<T: Serialize>(self, document: &T) -> Result<(), Stop> {
        write_all(json_line(document).as_bytes())
    }

    /// Writes text as it is; a line feed is added if the last line has none.
    pub(crate) fn text(self, text: &str) -> Result<(), Stop> {
        let end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        write_all(format!("{text}{end}").as_bytes())
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Stop> {
        write_all(bytes)
    }

    /// Writes text that is meant for another program; with `--json` as the one document.
    pub(crate) fn script(self, text: &[u8]) -> Result<(), Stop> {
        #[derive(Serialize)]
        struct Script<'a> {
            content: Cow<'a, str>,
        }
        if self.json {
            let content = String::from_utf8_lossy(text);
            self.document(&Script { content })
        } else {
            self.bytes(text)
        }
    }

    /// A table with a heading over each column.
    pub(crate) fn table(self, heading: &[&str], rows: &[Vec<String>]) -> String {
        let text = layout(heading, rows);
        if !self.colours {
            return text;
        }
        match text.split_once('\n') {
            Some((heading, rest)) => format!("\x1b[1m{heading}\x1b[0m\n{rest}"),
            None => text,
        }
    }
}

fn json_line<T: Serialize>(document: &T) -> String {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        version: u32,
        #[serde(flatten)]
        document: &'a T,
    }
    let mut line = serde_json::to_string(&Versioned {
        version: VERSION,
        document,
    })
    .expect("documents have string keys and no other value that JSON lacks");
    line.push('\n');
    line
}

fn write_all(bytes: &[u8]) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .map_err(stdout_failed)
}

/// What a failed write to stdout means.
pub(crate) fn stdout_failed(error: io::Error) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Stop::StdoutClosed
    } else {
        Stop::Error(Error::failed(format!("cannot write to stdout: {error}")))
    }
}

/// Columns as wide as their widest cell; the last one is as long as it likes.
fn layout(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let mut widths = vec![0; heading.len()];
    for row in std::iter::once(&heading).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + GAP - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Text from elsewhere, with its control characters made visible.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_control) {
        let shown = text.chars().map(|c| {
            if is_control(c) {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        });
        Cow::Owned(shown.collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Control characters, and those that change the direction of text.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_its_version_first() {
        #[derive(Serialize)]
        struct Answer {
            pid: Option<u32>,
        }

        assert_eq!(
            json_line(&Answer { pid: None }),
            "{\"version\":1,\"pid\":null}\n"
        );
    }

    #[test]
    fn columns_line_up_and_lines_have_no_blanks_at_their_end() {
        let rows = vec![
            vec!["a".to_owned(), "ä€".to_owned(), String::new()],
            vec!["long".to_owned(), "b".to_owned(), "c".to_owned()],
        ];

        assert_eq!(
            layout(&["X", "Y", "Z"], &rows),
            "X     Y   Z\na     ä€\nlong  b   c\n"
        );
    }

    #[test]
    fn text_from_elsewhere_cannot_drive_the_terminal() {
        assert_eq!(plain("a\x1b[2J\nb\u{202e}"), "a\\u{1b}[2J\\nb\\u{202e}");
        assert_eq!(plain("Grüße 🎉"), "Grüße 🎉");
    }

    #[test]
    fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
        assert!(matches!(
            stdout_failed(io::ErrorKind::BrokenPipe.into()),
            Stop::StdoutClosed
        ));
        assert!(
            matches!(stdout_failed(io::ErrorKind::StorageFull.into()), Stop::Error(e) if e.code.exit_code() == 1)
        );
    }
}

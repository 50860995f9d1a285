//! Looking for text in what a session prints. A core without IO.
//!
//! Output is read as text: control sequences are left out, and a move of the cursor to
//! another place is a line break, so that words which only stand beside each other in the
//! stream are not joined. What the terminal echoes of the last input is not output of the
//! program and is never matched.

use alacritty_terminal::vte::{Params, Parser, Perform};
use regex::{Regex, RegexBuilder};

/// Text that is searched again when more comes, in bytes: a match may lie across pieces
/// of output, and a pattern may span lines.
const KEPT: usize = 128 * 1024;

/// What is looked for.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// This text.
    Text(String),
    /// A match of this expression.
    Regex(Regex),
}

impl Pattern {
    /// Reads a regular expression; `^` and `$` stand for the ends of each line.
    ///
    /// # Errors
    /// Why it is none.
    pub fn regex(text: &str) -> Result<Self, regex::Error> {
        RegexBuilder::new(text)
            .multi_line(true)
            .build()
            .map(Pattern::Regex)
    }
}

/// Input whose echo is not to be matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Echo {
    /// The lines that were typed, without empty ones.
    pub lines: Vec<String>,
    /// What stood before the cursor when they were typed: a prompt, most likely.
    pub prompt: String,
}

/// Looks for a pattern in output, piece by piece.
pub struct Search {
    pattern: Pattern,
    parser: Parser,
    text: Text,
}

impl Search {
    /// Starts a search at some place of the output.
    pub fn new(pattern: Pattern, echo: Echo) -> Self {
        Self {
            pattern,
            parser: Parser::new(),
            text: Text {
                echo,
                ..Text::default()
            },
        }
    }

    /// Takes more output; gives what was found.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<String> {
        self.parser.advance(&mut self.text, bytes);
        self.text.settle_line();
        let found = self.find();
        self.text.trim();
        found
    }

    fn find(&self) -> Option<String> {
        let text = self.text.searchable();
        match &self.pattern {
            Pattern::Text(wanted) => text.find(wanted.as_str()).map(|at| line_of(&text, at)),
            Pattern::Regex(regex) => regex.find(&text).map(|found| found.as_str().to_owned()),
        }
    }
}

/// The line in which something was found.
fn line_of(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
    text[start..end].trim_end().to_owned()
}

/// Output as text.
#[derive(Debug, Default)]
struct Text {
    /// Whole lines that are no echo.
    lines: String,
    /// The line that is being printed.
    current: String,
    /// Whether the line that is being printed may still turn out to be an echo.
    held: bool,
    echo: Echo,
    /// Echoes that were seen: a shell that was busy shows them again at its prompt.
    seen: Vec<String>,
}

impl Text {
    fn searchable(&self) -> String {
        if self.held {
            return self.lines.clone();
        }
        [self.lines.as_str(), self.current.as_str()].concat()
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.current);
        if self.is_echo(&line) {
            return;
        }
        self.lines.push_str(&line);
        self.lines.push('\n');
    }

    /// Whether a whole line is the echo of what was typed.
    fn is_echo(&mut self, line: &str) -> bool {
        let line = line.trim_end();
        if let Some(typed) = self.echo.lines.first() {
            let rest = line.strip_prefix(self.echo.prompt.as_str()).unwrap_or(line);
            if rest.trim() == typed.trim() || after_prompt(line, typed) {
                self.seen.push(self.echo.lines.remove(0));
                return true;
            }
        }
        self.seen.iter().any(|typed| after_prompt(line, typed))
    }

    /// Holds back a line that may be the start of an echo.
    fn settle_line(&mut self) {
        let line = self.current.trim_start();
        self.held = self.echo.lines.first().is_some_and(|typed| {
            let rest = line.strip_prefix(self.echo.prompt.as_str()).unwrap_or(line);
            typed.trim().starts_with(rest.trim()) || after_prompt(line, typed)
        }) || self.seen.iter().any(|typed| after_prompt(line, typed));
    }

    fn trim(&mut self) {
        for text in [&mut self.lines, &mut self.current] {
            if text.len() > 2 * KEPT {
                let mut cut = text.len() - KEPT;
                while !text.is_char_boundary(cut) {
                    cut += 1;
                }
                text.drain(..cut);
            }
        }
    }
}

/// Whether a line is a prompt and then what was typed: its end is the typed text, and
/// before it stands what prompts end with.
fn after_prompt(line: &str, typed: &str) -> bool {
    line.trim_end()
        .strip_suffix(typed.trim())
        .is_some_and(|before| {
            before
                .trim_end()
                .ends_with(['$', '#', '>', '%', '❯', '»', '›', ':'])
        })
}

impl Perform for Text {
    fn print(&mut self, c: char) {
        self.current.push(c);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' | 0x0b | 0x0c => self.end_line(),
            b'\t' => self.current.push(' '),
            0x08 => {
                self.current.pop();
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        if !intermediates.is_empty() {
            return;
        }
        match action {
            // Moves to another row or place end what stood together.
            'A' | 'B' | 'E' | 'F' | 'H' | 'f' | 'd' if !self.current.is_empty() => self.end_line(),
            'C' => {
                let columns = params
                    .iter()
                    .next()
                    .and_then(|p| p.first().copied())
                    .unwrap_or(1)
                    .clamp(1, 80);
                self.current
                    .extend(std::iter::repeat_n(' ', columns.into()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn found(pattern: &str, echo: Echo, output: &[&[u8]]) -> Option<String> {
        let mut search = Search::new(Pattern::Text(pattern.into()), echo);
        output.iter().find_map(|piece| search.feed(piece))
    }

    fn typed(line: &str, prompt: &str) -> Echo {
        Echo {
            lines: vec![line.into()],
            prompt: prompt.into(),
        }
    }

    #[test]
    fn text_is_found_across_pieces_and_through_colours() {
        let output: [&[u8]; 3] = [b"server is \x1b[3", b"2mrea", b"dy\x1b[0m on 80\r\n"];

        assert_eq!(
            found("ready", Echo::default(), &output).as_deref(),
            Some("server is ready on 80")
        );
        assert_eq!(
            found("on 80", Echo::default(), &output).as_deref(),
            Some("server is ready on 80")
        );
        assert_eq!(found("readyon", Echo::default(), &output), None);
    }

    #[test]
    fn the_echo_of_a_command_is_not_its_output() {
        let echo = || typed("echo ready", "$ ");
        let shell: [&[u8]; 2] = [b"echo ready\r\n", b"ready\r\n$ "];

        assert_eq!(found("ready", echo(), &shell[..1]), None);
        assert_eq!(found("ready", echo(), &shell).as_deref(), Some("ready"));
    }

    #[test]
    fn an_echo_that_comes_in_pieces_is_held_back() {
        let pieces: [&[u8]; 4] = [b"echo re", b"ady", b"\r\n", b"ready\r\n"];

        assert_eq!(found("ready", typed("echo ready", ""), &pieces[..3]), None);
        assert_eq!(
            found("ready", typed("echo ready", ""), &pieces).as_deref(),
            Some("ready")
        );
    }

    #[test]
    fn a_busy_shell_shows_what_was_typed_twice() {
        let output: [&[u8]; 3] = [
            b"echo ready\r\n",
            b"done\r\nroot@vm:~# echo ready\r\n",
            b"ready\r\n",
        ];

        assert_eq!(found("ready", typed("echo ready", ""), &output[..2]), None);
        assert_eq!(
            found("ready", typed("echo ready", ""), &output).as_deref(),
            Some("ready")
        );
    }

    #[test]
    fn a_program_that_prints_the_same_line_again_is_matched_once_its_own() {
        let cat: [&[u8]; 2] = [b"hello\r\n", b"hello\r\n"];

        assert_eq!(found("hello", typed("hello", ""), &cat[..1]), None);
        assert_eq!(
            found("hello", typed("hello", ""), &cat).as_deref(),
            Some("hello")
        );
    }

    #[test]
    fn a_program_without_echo_is_matched_at_once() {
        let output: [&[u8]; 1] = [b"got ready\r\n"];

        assert_eq!(
            found("ready", typed("ready", ""), &output).as_deref(),
            Some("got ready")
        );
    }

    #[test]
    fn words_at_other_places_of_the_screen_are_not_joined() {
        let output: [&[u8]; 1] = [b"\x1b[1;1HPass\x1b[5;1Hword"];

        assert_eq!(found("Password", Echo::default(), &output), None);
        assert!(found("word", Echo::default(), &output).is_some());
    }

    #[test]
    fn expressions_match_across_lines() {
        let pattern = Pattern::regex(r"(?s)one.*three").unwrap();
        let mut search = Search::new(pattern, Echo::default());

        assert_eq!(search.feed(b"one\r\ntwo\r\n"), None);
        assert_eq!(
            search.feed(b"three\r\n").as_deref(),
            Some("one\ntwo\nthree")
        );
    }

    #[test]
    fn the_ends_of_a_line_are_the_ends_of_an_expression() {
        let search = || Search::new(Pattern::regex("^three$").unwrap(), Echo::default());

        assert_eq!(search().feed(b"one\r\nthree\r\n").as_deref(), Some("three"));
        assert_eq!(search().feed(b"twenty-three\r\n"), None);
    }

    #[test]
    fn a_flood_does_not_fill_memory() {
        let mut search = Search::new(Pattern::Text("never".into()), Echo::default());

        for _ in 0..200 {
            assert_eq!(search.feed(&[b'x'; 10_000]), None);
        }

        assert!(search.text.current.len() + search.text.lines.len() <= 3 * KEPT);
    }
}

//! Reads YAML into types and says where a fault is: line, column, key, and what was expected.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};

/// The longest text that is read. The longest file in use is a tenth of it, and a text of
/// this size costs milliseconds.
pub const MAX_YAML_BYTES: usize = 64 * 1024;

/// How many values a text may have: enough for one on every line of the longest text.
const MAX_NODES: usize = 8 * 1024;

/// How deep values may be nested: known formats need four levels.
const MAX_DEPTH: usize = 16;

/// How much of a name or a message is shown: enough for every key of the widest format.
const MAX_SHOWN: usize = 512;

/// Why a text is not what it should be, and where.
///
/// It knows no file name: whoever read the file puts it in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1; `None` if the fault is in no single place.
    pub line: Option<u64>,
    /// The column in characters, from 1; known whenever the line is.
    pub column: Option<u64>,
    /// The key with those it stands under, like `network.domains`; `None` at the top.
    pub key: Option<String>,
    /// What is wrong, and what was expected.
    pub problem: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ParseError {}

/// Reads one document.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ParseError> {
    if text.len() > MAX_YAML_BYTES {
        return Err(nowhere(format!(
            "the text has {} bytes and may have {MAX_YAML_BYTES}",
            text.len()
        )));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            max_depth: MAX_DEPTH,
        },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| located(text, &error))
}

/// Makes an error of a check that the types do not make, at the start of a mapping.
pub(crate) fn error_in(text: &str, mapping: Location, problem: String) -> ParseError {
    ParseError {
        key: mapping_at(text, mapping),
        ..error_at(text, mapping, problem)
    }
}

/// Makes an error of a check that the types do not make, at the place of a value.
pub(crate) fn error_at(text: &str, location: Location, problem: String) -> ParseError {
    let known = location.line() > 0;
    ParseError {
        line: known.then(|| location.line()),
        column: known.then(|| location.column()),
        key: key_at(text, location.line()),
        problem: shown(&problem),
    }
}

fn nowhere(problem: String) -> ParseError {
    ParseError {
        line: None,
        column: None,
        key: None,
        problem,
    }
}

fn located(text: &str, error: &Error) -> ParseError {
    let location = error.location().unwrap_or(Location::UNKNOWN);
    match error.without_snippet() {
        Error::SerdeUnknownField {
            field, expected, ..
        } => {
            let key = match mapping_at(text, location) {
                Some(mapping) => format!("{mapping}.{field}"),
                None => field.clone(),
            };
            let problem = format!("unknown key; expected {}", one_of(expected));
            ParseError {
                key: Some(shown(&key)),
                ..error_at(text, location, problem)
            }
        }
        // The parser's place for this is the start of the mapping.
        Error::SerdeMissingField { field, .. } => {
            error_in(text, location, format!("the key {field:?} is missing"))
        }
        Error::MultipleDocuments { .. } => error_in(
            text,
            location,
            "expected one document, found more".to_owned(),
        ),
        other => error_at(text, location, problem(other)),
    }
}

/// The text as it may go to a terminal: a quoted name in a hostile file may hold escape
/// sequences, or be as long as the file.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        match c {
            _ if count == MAX_SHOWN => {
                shown.push_str("...");
                break;
            }
            '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// What is wrong with a value, in words for the one who wrote it.
fn problem(error: &Error) -> String {
    match error {
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => format!("unknown value {variant:?}; expected {}", one_of(expected)),
        Error::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | Error::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => format!("found {unexpected}; expected {}", plain(expected)),
        Error::InvalidScalar { ty, .. } => format!("expected {}", plain(ty)),
        Error::Unexpected { expected, .. } => format!("expected {}", plain(expected)),
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

/// The parser's words for what it expected, in plain ones.
fn plain(expected: &str) -> String {
    match expected {
        "bool" | "boolean" => "true or false".to_owned(),
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "a nonzero u16" => format!("a whole number from 1 to {}", u16::MAX),
        "u32" | "u64" | "usize" => "a whole number".to_owned(),
        "sequence start" => "a list".to_owned(),
        "mapping start" => "keys with values".to_owned(),
        "string scalar" => "one plain value".to_owned(),
        other => other.to_owned(),
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [] => "none at all".to_owned(),
        [name] => (*name).to_owned(),
        names => format!("one of {}", names.join(", ")),
    }
}

/// The key of a line with those above it, by their indentation.
///
/// The parser knows lines and columns but no keys. Indentation tells them for text in
/// block style, which all of ours is; in a value in brackets it tells the key before them.
fn key_at(text: &str, line: u64) -> Option<String> {
    let last = usize::try_from(line).ok()?;
    let lines: Vec<Line<'_>> = text.lines().take(last).map(Line::of).collect();
    let (at, above) = lines.split_last()?;
    let mut path: Vec<&str> = at.key.into_iter().collect();
    let mut indent = at.indent;
    for line in above.iter().rev() {
        if let Some(key) = line.key
            && line.indent < indent
        {
            path.push(key);
            indent = line.indent;
        }
    }
    path.reverse();
    (!path.is_empty()).then(|| shown(&path.join(".")))
}

/// The key whose mapping is, or starts, at a place: `None` for the outermost one.
fn mapping_at(text: &str, location: Location) -> Option<String> {
    let key = key_at(text, location.line())?;
    let line = text
        .lines()
        .nth(usize::try_from(location.line()).ok()? - 1)?;
    let indent = u64::try_from(Line::of(line).indent).ok()?;
    // In block style a mapping starts with its first key; in braces it stands behind its own.
    if location.column() > indent + 1 {
        return Some(key);
    }
    key.rsplit_once('.').map(|(above, _)| above.to_owned())
}

/// What a line of block style says about structure.
struct Line<'a> {
    /// Where its content starts, behind the dash of a list.
    indent: usize,
    key: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        let mut content = line.trim_start_matches(' ');
        while let Some(item) = content.strip_prefix("- ") {
            content = item.trim_start_matches(' ');
        }
        let is_comment = content.starts_with('#');
        let key = content
            .split_once(": ")
            .map(|(key, _)| key)
            .or_else(|| content.trim_end().strip_suffix(':'))
            .map(|key| key.trim_matches(['"', '\'', ' ']))
            .filter(|key| !is_comment && !key.is_empty());
        Self {
            indent: line.len() - content.len(),
            key,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        count: u8,
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        kind: Kind,
        #[serde(default)]
        name: Option<crate::EnvName>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Dir,
        File,
    }

    #[track_caller]
    fn fails(text: &str, message: &str) {
        assert_eq!(parse::<Outer>(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_sound_text_is_read() {
        let outer: Outer = parse("count: 1\ninner:\n- kind: dir\n  name: HOME\n").unwrap();

        assert_eq!(outer.inner[0].kind, Kind::Dir);
    }

    #[test]
    fn an_unknown_key_is_said_with_its_place_and_the_known_ones() {
        fails(
            "count: 1\ncuont: 2\n",
            "line 2, column 1: cuont: unknown key; expected one of count, inner",
        );
        fails(
            "count: 1\ninner:\n  - kind: dir\n    knid:\n      - 1\n",
            "line 4, column 5: inner.knid: unknown key; expected one of kind, name",
        );
        fails(
            "count: 1\ninner: [{kind: dir, knid: 1}]\n",
            "line 2, column 21: inner.knid: unknown key; expected one of kind, name",
        );
    }

    #[test]
    fn a_wrong_value_is_said_with_its_place_and_what_was_expected() {
        let number = "line 1, column 8: count: expected a whole number from 0 to 255";
        fails("count: many\n", number);
        fails("count: 300\n", number);
        fails(
            "count: 1\ninner: 5\n",
            "line 2, column 8: inner: expected a list",
        );
        fails(
            "count: 1\ninner:\n# which one?\n\n- kind: dri\n",
            "line 5, column 9: inner.kind: unknown value \"dri\"; expected one of dir, file",
        );
        let name = "\"A*\" is not the name of a variable \
                    (letters, digits and _, not starting with a digit or WT_)";
        fails(
            "count: 1\r\ninner:\r\n- kind: dir\r\n  name: A*\r\n",
            &format!("line 4, column 9: inner.name: {name}"),
        );
        fails(
            "count: 1\ninner: [{kind: dir, name: A*}]\n",
            &format!("line 2, column 27: inner: {name}"),
        );
    }

    #[test]
    fn a_missing_and_a_doubled_key_are_said() {
        fails(
            "inner: []\n",
            "line 1, column 1: the key \"count\" is missing",
        );
        fails(
            "count: 1\ninner:\n  - name: A\n",
            "line 3, column 5: inner: the key \"kind\" is missing",
        );
        fails(
            "count: 1\ninner: [{name: A}]\n",
            "line 2, column 10: inner: the key \"kind\" is missing",
        );
        fails(
            "count: 1\ncount: 2\n",
            "line 2, column 1: count: duplicate mapping key `count` is not allowed here",
        );
    }

    #[test]
    fn what_is_no_document_is_said_with_its_place() {
        fails(
            "count: [1\n",
            "line 1, column 8: count: expected one plain value",
        );
        fails(
            "count: 1\n---\ncount: 2\n",
            "line 3, column 1: expected one document, found more",
        );
        for text in [
            "",
            "# nothing\n",
            "count: 1\n\tinner: 2\n",
            "a: *b\n",
            "}",
            "count: \"1",
        ] {
            let error = parse::<Outer>(text).unwrap_err();
            assert!(error.line.is_some(), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_a_file_says_cannot_steer_the_terminal_that_shows_it() {
        fails(
            "\"\\e[2J\": 1\n",
            "line 1, column 1: \\u{1b}[2J: unknown key; expected one of count, inner",
        );
        let long = parse::<Outer>(&format!("{}: 1\n", "x".repeat(900))).unwrap_err();
        assert_eq!(long.key.unwrap().len(), MAX_SHOWN + 3);
    }

    #[test]
    fn a_text_is_read_up_to_its_bounds() {
        let padded = |bytes: usize| format!("count: 1\n#{}", "x".repeat(bytes - 10));
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let many = |count: usize| format!("count: 1\ninner: [{}]\n", "{kind: dir},".repeat(count));

        assert!(parse::<Outer>(&padded(MAX_YAML_BYTES)).is_ok());
        assert!(parse::<Outer>(&many(MAX_NODES / 4)).is_ok());

        let error = parse::<Outer>(&padded(MAX_YAML_BYTES + 1)).unwrap_err();
        assert_eq!(error.line, None);
        assert!(parse::<Outer>(&many(MAX_NODES / 3)).is_err());
        assert!(parse::<Outer>(&nested(MAX_YAML_BYTES / 2)).is_err());
    }
}

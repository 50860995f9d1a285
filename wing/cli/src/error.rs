//! How a command that did not work ends.

use std::io::{self, Write};

use serde::Serialize;
use wt_protocol::rpc::Failure;
use wt_wing::{Error, ErrorCode};

use crate::output::VERSION;

/// The status of a program whose reader went away: what SIGPIPE would have made of it.
const STDOUT_CLOSED: u8 = 141;

/// Why a command stops before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something failed.
    Error(Error),
    /// Whoever read stdout is gone, as in `wt ... | head -1`. Nothing is to be said.
    StdoutClosed,
}

/// What a command gives: its exit code.
pub(crate) type Done = Result<u8, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Error(failure.into())
    }
}

impl Stop {
    /// Says what failed on stderr, and gives the exit code.
    pub(crate) fn report(&self, json: bool) -> u8 {
        match self {
            Stop::StdoutClosed => STDOUT_CLOSED,
            Stop::Error(error) => {
                say(&describe(error, json));
                error.code.exit_code()
            }
        }
    }
}

/// An error in the request itself.
pub(crate) fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Usage, message)
}

/// Writes to stderr. Nobody is left to tell if that fails.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The one error document, or text of at most two lines.
fn describe(error: &Error, json: bool) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        version: u32,
        error: Body<'a>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        code: &'static str,
        message: &'a str,
        hint: Option<&'a str>,
    }
    if json {
        let error = Body {
            code: error.code.name(),
            message: &error.message,
            hint: error.hint.as_deref(),
        };
        return serde_json::to_string(&Document {
            version: VERSION,
            error,
        })
        .expect("strings and numbers are JSON");
    }
    match &error.hint {
        Some(hint) => format!("error: {}\nhint: {hint}", error.message),
        None => format!("error: {}", error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_text_or_one_document() {
        let error =
            Error::new(ErrorCode::IdentityMismatch, "it is \"another\" one").hint("verify it");

        assert_eq!(
            describe(&error, false),
            "error: it is \"another\" one\nhint: verify it"
        );
        insta::assert_snapshot!(
            describe(&error, true),
            @r#"{"version":1,"error":{"code":"identity_mismatch","message":"it is \"another\" one","hint":"verify it"}}"#
        );
        assert_eq!(Stop::from(error).report(true), 4);
    }

    #[test]
    fn without_a_hint_the_text_has_one_line_and_the_document_a_null() {
        let error = Error::failed("no");

        assert_eq!(describe(&error, false), "error: no");
        assert!(describe(&error, true).ends_with(r#""hint":null}}"#));
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_to_talk_about() {
        assert_eq!(Stop::StdoutClosed.report(true), 141);
    }
}

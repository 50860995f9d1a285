//! Names that profiles and policies are made of, parsed once at the edge.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// The longest name of a variable or a program: far above any in use, and short enough
/// to be shown on one line.
const MAX_NAME: usize = 128;

/// The longest host name (RFC 1035, section 2.3.4, in text).
const MAX_HOST: usize = 253;

/// The longest part of a host name between dots.
const MAX_LABEL: usize = 63;

/// The longest path, as the kernel has it.
const MAX_PATH: usize = 4096;

/// Variables that wingthing sets for its own use; nothing else may name them.
const RESERVED_PREFIX: &str = "WT_";

/// A name that is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not {expected}")]
pub struct NameError {
    value: String,
    expected: &'static str,
}

/// Declares a name: a string that its check has passed.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $expected:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// Shows the name as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(value: String) -> Result<Self, NameError> {
                if $check(&value) {
                    return Ok(Self(value));
                }
                Err(NameError { value, expected: $expected })
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                text.to_owned().try_into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of one environment variable: no wildcard, and none of wingthing's own.
    EnvName,
    "the name of a variable (letters, digits and _, not starting with a digit or WT_)",
    is_env_name
);

name!(
    /// The name of a program as it is looked up on the search path, without a folder.
    ProgramName,
    "the name of a program (letters, digits and ._+-, not starting with a dot or a dash)",
    is_program_name
);

name!(
    /// A host name, or `*.` and a name for every host below that name.
    ///
    /// Lower case, at least two parts, and never an address: those are no domains, and the
    /// machine itself is reached through named ports.
    DomainPattern,
    "a domain (like example.com or *.example.com, lower case, no port, no address)",
    is_domain_pattern
);

name!(
    /// A path below the home directory, written `~/...`, that cannot lead out of it.
    HomePath,
    "a path below the home directory (~/NAME..., without . or .. or empty parts)",
    is_home_path
);

impl HomePath {
    /// The path without `~/`: relative to the home directory.
    pub fn below_home(&self) -> &str {
        self.0
            .strip_prefix("~/")
            .expect("a home path starts with ~/: it was checked when it was made")
    }
}

fn is_env_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.starts_with(RESERVED_PREFIX)
}

fn is_program_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
}

fn is_domain_pattern(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &&str| {
        (1..=MAX_LABEL).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    // A resolver may read a last part that starts with a digit as an address (`10.0.0x1`).
    let is_address = |last: &&str| last.starts_with(|c: char| c.is_ascii_digit());
    host.len() <= MAX_HOST
        && labels.len() >= 2
        && labels.iter().all(is_label)
        && !labels.last().is_some_and(is_address)
}

fn is_home_path(text: &str) -> bool {
    text.len() <= MAX_PATH
        && !text.contains(char::is_control)
        && text.strip_prefix("~/").is_some_and(|below| {
            below
                .split('/')
                .all(|part| !part.is_empty() && part != "." && part != "..")
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[track_caller]
    fn accepts<T: FromStr>(good: &[&str]) {
        for text in good {
            assert!(text.parse::<T>().is_ok(), "{text:?} is refused");
        }
    }

    #[track_caller]
    fn refuses<T: FromStr>(bad: &[&str]) {
        for text in bad {
            assert!(text.parse::<T>().is_err(), "{text:?} is accepted");
        }
    }

    #[test]
    fn a_variable_is_one_plain_name() {
        accepts::<EnvName>(&["HOME", "_x", "A1_b"]);
        refuses::<EnvName>(&["", "*", "AWS_*", "1A", "A=B", "A B", "Ä", "WT_SESSION_ID"]);
        refuses::<EnvName>(&[&"A".repeat(MAX_NAME + 1)]);
    }

    #[test]
    fn a_program_has_no_folder_and_is_no_option() {
        accepts::<ProgramName>(&["claude", "cursor-agent", "g++", "python3.12"]);
        refuses::<ProgramName>(&[
            "", "./claude", "/bin/sh", "-x", ".hidden", "..", "a b", "a\n",
        ]);
    }

    #[test]
    fn a_domain_is_a_name_in_one_spelling() {
        accepts::<DomainPattern>(&["api.openai.com", "*.cursor.sh", "xn--bcher-kva.example"]);
        refuses::<DomainPattern>(&[
            "",
            "*",
            "*.",
            "com",
            "*.com",
            "localhost",
            "Example.com",
            "example.com.",
            ".example.com",
            "a..b",
            "-a.example",
            "a-.example",
            "example.com:443",
            "https://example.com",
            "*.*.example.com",
            "a*.example.com",
            "bücher.example",
            "127.0.0.1",
            "::1",
            "10.0.0x1",
            "1.2.3.4.",
            "exam ple.com",
            "a_b.example",
        ]);
        refuses::<DomainPattern>(&[&format!("{}.example", "a".repeat(MAX_LABEL + 1))]);
        refuses::<DomainPattern>(&[&format!("{}example", "a.".repeat(MAX_HOST))]);
    }

    #[test]
    fn a_home_path_stays_below_the_home_directory() {
        accepts::<HomePath>(&["~/.claude", "~/.config/a b", "~/..."]);
        refuses::<HomePath>(&[
            "",
            "~",
            "~/",
            "/etc",
            ".claude",
            "~/../x",
            "~/a/../../x",
            "~/a/",
            "~//a",
            "~/./a",
            "~user/a",
            "~/a\0b",
            "~/a\nb",
        ]);

        let path: HomePath = "~/.config/cursor".parse().unwrap();

        assert_eq!(path.below_home(), ".config/cursor");
    }

    #[test]
    fn a_refused_name_is_shown_with_what_was_expected() {
        let error = "AWS_*".parse::<EnvName>().unwrap_err().to_string();

        assert!(
            error.starts_with("\"AWS_*\" is not the name of a variable"),
            "{error}"
        );
    }
}

//! The version text in what a program prints for `--version`.

/// How much of the output is looked at. A version stands in the first lines; a program
/// that prints its whole manual instead must not cost more than this.
const MAX_OUTPUT: usize = 16 * 1024;

/// The longest text that is taken for a version; the longest seen are dates with a hash.
const MAX_VERSION: usize = 64;

/// Gives the version in the output of `BINARY --version`, without a leading `v`.
///
/// That is the first word of digits and dots, with what is joined to it
/// (`2025.09.18-7ae6800`). Lines that speak of warnings count only if no other line has
/// one: they tell of other programs' versions. `None` when there is no such word.
pub fn parse_version(output: &str) -> Option<String> {
    let text = printable(output);
    let is_warning = |line: &&str| line.to_ascii_lowercase().contains("warning");
    let plain = text.lines().filter(|line| !is_warning(line));
    let warnings = text.lines().filter(is_warning);
    plain.chain(warnings).find_map(version_in)
}

/// The start of the text with terminal escape sequences and control characters removed.
fn printable(output: &str) -> String {
    let mut kept = String::new();
    let mut chars = output.chars().take(MAX_OUTPUT).peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                // A control sequence ends with a byte from `@` to `~`; any other is two long.
                if chars.next() == Some('[') {
                    while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
                }
            }
            '\n' => kept.push('\n'),
            c if c.is_control() => kept.push(' '),
            c => kept.push(c),
        }
    }
    kept
}

fn version_in(line: &str) -> Option<String> {
    line.split_whitespace()
        .filter(|word| !word.contains("://"))
        // `name/1.2.3` and `@scope/name@1.2.3` are common.
        .flat_map(|word| word.split(['/', '@', '(', ')', '[', ']', ',', ';', ':', '"', '\'', '`']))
        .find_map(version_of)
}

/// The word as a version: two numbers with a dot between them, and what follows.
fn version_of(word: &str) -> Option<String> {
    let bare = word.strip_prefix(['v', 'V']).unwrap_or(word);
    let bare = bare.trim_end_matches(['.', '-', '+', '_', '!']);
    let (major, rest) = bare.split_once('.')?;
    let is_version = !major.is_empty()
        && major.bytes().all(|b| b.is_ascii_digit())
        && rest.starts_with(|c: char| c.is_ascii_digit())
        && bare.len() <= MAX_VERSION
        && bare
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".-+_".contains(&b));
    is_version.then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(output: &str, version: &str) {
        assert_eq!(
            parse_version(output).as_deref(),
            Some(version),
            "{output:?}"
        );
    }

    #[test]
    fn the_versions_that_agents_print_are_read() {
        reads("2.1.5 (Claude Code)\n", "2.1.5");
        reads("codex-cli 0.46.0\n", "0.46.0");
        reads("2025.09.18-7ae6800\n", "2025.09.18-7ae6800");
        reads("0.9.0-nightly.20251001\r\n", "0.9.0-nightly.20251001");
        reads("ollama version is 0.5.7\n", "0.5.7");
        reads("v1.0.15", "1.0.15");
    }

    #[test]
    fn a_version_joined_to_a_name_is_read() {
        reads("tool/3.4.5 linux-x64 node-v20.1.0", "3.4.5");
        reads("@scope/tool@3.4.5", "3.4.5");
        reads("tool, version 5.2.", "5.2");
        reads("tool (1.2.3)", "1.2.3");
    }

    #[test]
    fn warnings_give_way_to_the_version_and_serve_when_there_is_none() {
        reads(
            "(node:7) [DEP0040] DeprecationWarning: gone in 22.0.0\n1.2.3\n",
            "1.2.3",
        );
        reads(
            "Warning: could not connect to a running Ollama instance\n\
             Warning: client version is 0.5.7\n",
            "0.5.7",
        );
    }

    #[test]
    fn colours_are_not_part_of_a_version() {
        reads("\u{1b}[1mtool\u{1b}[0m \u{1b}[32m1.2.3\u{1b}[0m\n", "1.2.3");
    }

    #[test]
    fn output_without_a_version_has_none() {
        for output in [
            "",
            "local",
            "version 7",
            "see https://example.com/1.2.3",
            "1.x",
            ".5",
            "\u{1b}[",
            "\u{1b}",
        ] {
            assert_eq!(parse_version(output), None, "{output:?}");
        }
        assert_eq!(
            parse_version(&format!("1.{}", "2".repeat(MAX_VERSION))),
            None
        );
    }

    #[test]
    fn endless_output_is_read_only_at_its_start() {
        let late = format!("{}1.2.3", "x\n".repeat(MAX_OUTPUT));
        let early = format!("1.2.3\n{}", "x\n".repeat(MAX_OUTPUT));

        assert_eq!(parse_version(&late), None);
        reads(&early, "1.2.3");
    }
}

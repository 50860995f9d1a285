//! The reference of the command line, made from the arguments' own doc comments.
//!
//! `docs/CLI.md` is what this writes; a test holds it to that.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use crate::args::Cli;

const HEAD: &str = "# Command line

This page is made from the program's own help. Change it there, and then run
`WT_BLESS=1 cargo test -p wt docs`.

Standard output is the answer, standard error everything else. Every command takes `--json`.
";

/// The whole reference as Markdown.
pub(crate) fn reference() -> String {
    let mut root = Cli::command();
    // Fills in what is shared by all commands, and the full names of nested ones.
    root.build();
    let mut text = HEAD.to_owned();
    section(&mut text, &root, "wt");
    text
}

fn section(text: &mut String, command: &Command, name: &str) {
    let about = command
        .get_long_about()
        .or(command.get_about())
        .map(ToString::to_string)
        .unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = write!(
        text,
        "\n## {name}\n\n{}\n\n```\n{usage}\n```\n",
        about.trim_end()
    );
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    if !aliases.is_empty() {
        let _ = write!(text, "\nAlso called `{}`.\n", aliases.join("`, `"));
    }
    if let Some(examples) = examples(command) {
        let _ = write!(text, "\n```sh\n{}\n```\n", examples.join("\n"));
    }
    let shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !is_common(arg, command))
        .collect();
    if !shown.is_empty() {
        text.push_str("\n| argument | meaning |\n|---|---|\n");
        for arg in shown {
            let _ = writeln!(
                text,
                "| {} | {} |",
                cell(&spelled(arg)),
                cell(&meaning(arg))
            );
        }
    }
    for nested in command
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help")
    {
        section(text, nested, &format!("{name} {}", nested.get_name()));
    }
}

/// The command lines at the end of a command's help.
fn examples(command: &Command) -> Option<Vec<String>> {
    let text = command.get_after_help()?.to_string();
    let lines = text.strip_prefix("Examples:\n")?.lines();
    Some(lines.map(|line| line.trim().to_owned()).collect())
}

/// What every command takes is told once.
fn is_common(arg: &Arg, command: &Command) -> bool {
    command.get_name() != "wt" && matches!(arg.get_id().as_str(), "help" | "version" | "json")
}

fn spelled(arg: &Arg) -> String {
    let values: String = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| format!(" {name}"))
        .collect();
    let takes_value = arg.get_action().takes_values();
    match (arg.get_short(), arg.get_long()) {
        (short, Some(long)) => {
            let short = short.map_or(String::new(), |short| format!("`-{short}`, "));
            format!(
                "{short}`--{long}{}`",
                if takes_value { values.as_str() } else { "" }
            )
        }
        (Some(short), None) => format!("`-{short}`"),
        (None, None) => format!("`{}`", values.trim()),
    }
}

fn meaning(arg: &Arg) -> String {
    let mut meaning = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|v| v.to_string_lossy().into_owned())
        .collect();
    if arg.get_action().takes_values() && defaults.iter().any(|default| !default.is_empty()) {
        let _ = write!(meaning, " [default: {}]", defaults.join(" "));
    }
    meaning
}

/// Text in one line of a table; the first line of help has no full stop of its own.
fn cell(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    paragraphs
        .collect::<Vec<_>>()
        .join(". ")
        .replace('|', "\\|")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md");

    #[test]
    fn docs_are_what_the_program_says_of_itself() {
        if std::env::var_os("WT_BLESS").is_some() {
            std::fs::write(COMMITTED, reference()).unwrap();
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();

        assert!(
            committed == reference(),
            "docs/CLI.md is not what the help says; run `WT_BLESS=1 cargo test -p wt docs` and look at the difference"
        );
    }

    #[test]
    fn every_command_and_argument_says_what_it_does() {
        fn check(command: &Command, name: &str) {
            assert!(command.get_about().is_some(), "{name} has no help");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(
                    arg.get_help().is_some(),
                    "{name}: {} has no help",
                    arg.get_id()
                );
            }
            for nested in command.get_subcommands() {
                check(nested, &format!("{name} {}", nested.get_name()));
            }
        }
        let mut root = Cli::command();
        root.build();
        check(&root, "wt");
    }

    #[test]
    fn every_command_on_sessions_has_examples_and_each_can_be_run() {
        let mut root = Cli::command();
        root.build();
        let find = |name: &str| root.find_subcommand(name).unwrap();
        let commands = find("session")
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
            .chain(["terminal", "egg", "attach"].map(find));

        for command in commands {
            let name = command.get_bin_name().unwrap();
            let lines = examples(command).unwrap_or_else(|| panic!("{name} has no examples"));
            for line in lines {
                assert!(line.starts_with(name), "{line} is no example of {name}");
                let (line, _) = line.split_once(" < ").unwrap_or((line.as_str(), ""));
                let parsed = Cli::try_parse_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    /// Splits a line as a shell does: at blanks that do not stand in single quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                c => words.last_mut().unwrap().push(c),
            }
        }
        words
    }

    #[test]
    fn pages_and_completions_know_every_command() {
        fn names(command: &Command, all: &mut Vec<String>) {
            for nested in command.get_subcommands().filter(|c| !c.is_hide_set()) {
                all.push(nested.get_name().to_owned());
                names(nested, all);
            }
        }
        let mut all = Vec::new();
        names(&Cli::command(), &mut all);
        let folder = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(Cli::command(), folder.path()).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();

        assert!(page("wt.1").contains("WINGTHING_DIR"));
        assert!(page("wt-session-send.1").contains("wt session send work"));
        for name in &all {
            let is_there = |path: &str| folder.path().join(path).exists();
            assert!(
                is_there(&format!("wt-{name}.1"))
                    || ["session", "roost", "wing", "wings", "egg"]
                        .iter()
                        .any(|above| is_there(&format!("wt-{above}-{name}.1"))),
                "{name} has no page"
            );
        }
        for shell in [
            clap_complete::Shell::Bash,
            clap_complete::Shell::Zsh,
            clap_complete::Shell::Fish,
        ] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "wt", &mut script);
            let script = String::from_utf8(script).unwrap();
            for name in &all {
                assert!(script.contains(name.as_str()), "{shell}: {name}");
            }
        }
    }

    #[test]
    fn help_fits_a_narrow_terminal() {
        let help = Cli::command().term_width(80).render_help().to_string();

        assert!(help.lines().all(|line| line.chars().count() <= 80));
        insta::assert_snapshot!(help);
    }
}

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
    fn help_fits_a_narrow_terminal() {
        let help = Cli::command().term_width(80).render_help().to_string();

        assert!(help.lines().all(|line| line.chars().count() <= 80));
        insta::assert_snapshot!(help);
    }
}

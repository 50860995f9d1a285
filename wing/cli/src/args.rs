//! The commands of `wt`. What each one takes stands beside it.

use clap::{Parser, Subcommand};

use crate::commands::{
    attach, completions, doctor, egg, login, logout, man, roost, session, start, status, stop,
    terminal, whoami, wing, wings,
};

/// Keep terminals alive on machines you control, and reach them from anywhere
///
/// Sessions survive lost links, closed terminals and restarted daemons. They are reached
/// through a relay that cannot read them.
///
/// Exit codes: 0 done; 1 failed; 2 usage; 3 not found or ambiguous; 4 identity mismatch;
/// 5 not signed in or refused; 6 link lost or unreachable; 7 time-out; 8 the sandbox could
/// not be enforced. `attach`, `terminal` and `egg` end with the status of the session's program
/// (128 and the number of a signal that ended it), 0 after leaving, and 126 or 127 if the
/// command cannot be run or found.
#[derive(Debug, Parser)]
#[command(name = "wt", version, after_help = ENVIRONMENT, max_term_width = 100)]
pub(crate) struct Cli {
    /// Answer with JSON: one document, or one in each line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const ENVIRONMENT: &str = "Environment:
  WINGTHING_DIR  the profile: keys, pins, sessions [default: ~/.wingthing]
  WT_SSH         the ssh program and its options, for --remote [default: ssh]
  WT_LOG         what to log to stderr, for instance debug
  NO_COLOR       no colours";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Roost(roost::Args),
    Start(start::Args),
    Stop(stop::Args),
    Status(status::Args),
    Login(login::Args),
    Logout(logout::Args),
    Whoami(whoami::Args),
    #[command(visible_alias = "find")]
    Wings(wings::Args),
    Wing(wing::Args),
    #[command(visible_alias = "new")]
    Terminal(terminal::Args),
    Egg(egg::Args),
    Attach(attach::Args),
    Session(session::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
    /// Print the reference of the command line as Markdown
    #[command(name = "__docs", hide = true)]
    Docs,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parses(line: &str) -> bool {
        Cli::try_parse_from(line.split(' ')).is_ok()
    }

    #[test]
    fn the_parser_has_no_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_may_stand_anywhere_before_the_command_of_a_session() {
        assert!(Cli::try_parse_from(["wt", "--json", "wings"]).unwrap().json);
        assert!(
            Cli::try_parse_from(["wt", "session", "ps", "--json"])
                .unwrap()
                .json
        );
        assert!(
            !Cli::try_parse_from(["wt", "terminal", "--", "ls", "--json"])
                .unwrap()
                .json
        );
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (bad, good) in [
            (
                "wt attach x --read-only --takeover",
                "wt attach x --read-only",
            ),
            (
                "wt session ps --roost http://localhost:1",
                "wt session ps --roost http://localhost:1 --wing a",
            ),
            ("wt attach x --select", "wt attach --select --read-only"),
            ("wt attach x --prefix C-B", "wt attach x --prefix C-\\"),
            (
                "wt session play x --speed 0",
                "wt session play x --speed 0.5 --idle-limit 2s",
            ),
            (
                "wt session export x --format gif",
                "wt session export x --format text --output y",
            ),
            (
                "wt session read x --raw --lines 3",
                "wt session read x --lines 3",
            ),
            (
                "wt session read x --from 3",
                "wt session read x --from 3 --raw",
            ),
            (
                "wt roost start --addr here",
                "wt roost start --addr 127.0.0.1:0",
            ),
            ("wt terminal --env =x", "wt terminal --env X="),
        ] {
            assert!(!parses(bad), "{bad}");
            assert!(parses(good), "{good}");
        }
    }
}

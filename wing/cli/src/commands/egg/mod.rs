//! `wt egg`: starts a session with an agent, and says what sessions may do.

mod check;
mod explain;
mod init;
mod log;
mod trust;

use std::env;
use std::path::PathBuf;

use clap::Subcommand;
use wt_policy::{Change, Effect, ExplainedAddition};
use wt_protocol::rpc::Conversation;
use wt_wing::{Error, agents};

pub(super) use explain::features;

use super::terminal::{How, start};
use crate::error::{Done, Stop, usage};
use crate::output::{Output, plain};

const EXAMPLES: &str = "Examples:
  wt egg claude
  wt egg codex --name fix --cwd /srv/app --detach
  wt egg claude --resume last -- --verbose
  wt egg explain claude --why ~/.ssh/id_ed25519
  wt egg explain --why registry.npmjs.org
  wt egg check egg.yaml
  wt egg trust --show
  wt egg init --print
  wt egg log --denied";

/// Start a session with an AI agent, and show it in this terminal; or see what it may do
///
/// Known are claude, codex, cursor, gemini, ollama and opencode; `wt doctor` tells which are
/// installed. The agent gets the variables of every session and those of its own that are
/// set here. Otherwise it is a session like those of `wt terminal`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    /// The agent's name
    #[arg(value_name = "AGENT", required = true)]
    agent: Option<String>,
    /// Take up an earlier conversation: its identity in the agent's own records, or last
    #[arg(long, value_name = "ID|last")]
    resume: Option<String>,
    #[command(flatten)]
    how: How,
    /// Arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    Explain(explain::Args),
    Check(check::Args),
    Trust(trust::Args),
    Init(init::Args),
    Log(log::Args),
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let Some(act) = args.act else {
        let agent = args
            .agent
            .ok_or_else(|| usage("an agent's name is missing"))?;
        return start_agent(agent, args.resume, args.how, args.arguments, output).await;
    };
    let starts = args.agent.is_some()
        || args.resume.is_some()
        || !args.arguments.is_empty()
        || !args.how.says_nothing();
    if starts {
        return Err(Stop::Error(
            usage("what a session is started with stands before a command that starts none")
                .hint("options of the command come after it, as in `wt egg explain claude`"),
        ));
    }
    match act {
        Act::Explain(args) => explain::run(args, output),
        Act::Check(args) => check::run(args, output),
        Act::Trust(args) => trust::run(args, output),
        Act::Init(args) => init::run(args, output),
        Act::Log(args) => log::run(args, output).await,
    }
}

async fn start_agent(
    agent: String,
    resume: Option<String>,
    how: How,
    arguments: Vec<String>,
    output: Output,
) -> Done {
    // Before anything is asked of this terminal; elsewhere other agents may be known.
    if how.is_here() {
        agents::profile(&agent)?;
    }
    let conversation = resume.map(|id| match id.as_str() {
        "last" => Conversation::Last,
        _ => Conversation::Id(id),
    });
    start(how, Some(agent), arguments, conversation, output).await
}

fn here() -> Result<PathBuf, Error> {
    env::current_dir().map_err(|e| {
        Error::failed(format!("the current folder cannot be used: {e}")).hint("cd somewhere else")
    })
}

/// Changes, a line each.
fn change_lines(changes: &[Change]) -> String {
    let lines = changes.iter().map(|change| {
        let sign = match change.effect {
            Effect::Widens => "+",
            Effect::Changes => "~",
            Effect::Narrows => "-",
        };
        format!("  {sign} {}\n", plain(&change.text))
    });
    lines.collect()
}

/// One thing that was asked for and is not applied.
fn suppressed_line(left_out: &ExplainedAddition) -> String {
    plain(&format!(
        "not applied: {} {} ({}): {}",
        left_out.kind, left_out.value, left_out.source, left_out.reason
    ))
    .into_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use wt_policy::AgentProfile;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_help_names_every_known_agent() {
        let help = <Args as clap::Args>::augment_args(clap::Command::new("egg"));
        let about = help
            .get_long_about()
            .map(ToString::to_string)
            .unwrap_or_default();

        for agent in AgentProfile::all() {
            assert!(about.contains(agent.name.as_str()), "{}", agent.name);
        }
    }

    #[test]
    fn no_agent_is_called_like_a_command() {
        let cli = Cli::command();
        let egg = cli.find_subcommand("egg").expect("there is such a command");
        let mut commands: Vec<&str> = egg.get_subcommands().map(clap::Command::get_name).collect();
        commands.push("help");

        assert!(commands.contains(&"explain"));
        for agent in AgentProfile::all() {
            assert!(!commands.contains(&agent.name.as_str()), "{}", agent.name);
        }
    }
}

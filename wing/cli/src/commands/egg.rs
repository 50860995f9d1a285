//! `wt egg`: starts a session with an agent.

use wt_protocol::rpc::{Conversation, Request};
use wt_wing::agents;

use super::terminal::{How, start};
use crate::error::Done;
use crate::output::Output;

/// Start a session with an AI agent, and show it in this terminal
///
/// Known are claude, codex, cursor, gemini, ollama and opencode; `wt doctor` tells which are
/// installed. The agent gets the variables of every session and those of its own that are
/// set here. Otherwise it is a session like those of `wt terminal`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent's name
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Take up an earlier conversation: its identity in the agent's own records, or last
    #[arg(long, value_name = "ID|last")]
    resume: Option<String>,
    #[command(flatten)]
    how: How,
    /// Arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    // Before anything is asked of this terminal; elsewhere other agents may be known.
    if args.how.is_here() {
        agents::profile(&args.agent)?;
    }
    let conversation = args.resume.map(|id| match id.as_str() {
        "last" => Conversation::Last,
        _ => Conversation::Id(id),
    });
    let request = |start| match conversation {
        None => Request::Start(start),
        Some(conversation) => Request::Resume {
            start,
            conversation,
        },
    };
    start(args.how, Some(args.agent), args.arguments, request, output).await
}

#[cfg(test)]
mod tests {
    use wt_policy::AgentProfile;

    use super::*;

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
}

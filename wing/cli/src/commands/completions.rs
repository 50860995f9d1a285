//! `wt completions`: what a shell completes.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::Done;
use crate::output::Output;

/// Print the completions of a shell, to be read by its start-up file
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: Args, output: Output) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wt", &mut script);
    output.script(&script)?;
    Ok(0)
}

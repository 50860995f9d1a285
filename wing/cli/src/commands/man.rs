//! `wt man`: manual pages.

use std::path::PathBuf;

use clap::CommandFactory;
use wt_wing::Error;

use crate::args::Cli;
use crate::error::Done;
use crate::output::{Output, stdout_failed};

/// Print the manual page of wt
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// Write the pages of wt and all its commands into this folder instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: Args, output: Output) -> Done {
    match args.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(stdout_failed)?;
            output.script(&page)?;
        }
        Some(dir) => clap_mangen::generate_to(Cli::command(), &dir)
            .map_err(|e| Error::failed(format!("cannot write to {}: {e}", dir.display())))?,
    }
    Ok(0)
}

//! `wt session`: what can be done with sessions without showing them.

mod export;
mod kill;
mod play;
pub(crate) mod ps;
mod read;
mod rename;
mod resize;
mod rm;
mod send;
mod signal;
mod wait;
mod watch;

use clap::Subcommand;

use crate::error::Done;
use crate::output::Output;

/// List, read, rename and end sessions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    #[command(visible_alias = "ls")]
    Ps(ps::Args),
    Read(read::Args),
    Kill(kill::Args),
    Rename(rename::Args),
    Rm(rm::Args),
    Send(send::Args),
    Wait(wait::Args),
    Watch(watch::Args),
    Export(export::Args),
    Play(play::Args),
    Signal(signal::Args),
    Resize(resize::Args),
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    match args.act {
        Act::Ps(args) => ps::run(args, output).await,
        Act::Read(args) => read::run(args, output).await,
        Act::Kill(args) => kill::run(args, output).await,
        Act::Rename(args) => rename::run(args, output).await,
        Act::Rm(args) => rm::run(args, output).await,
        Act::Send(args) => send::run(args, output).await,
        Act::Wait(args) => wait::run(args, output).await,
        Act::Watch(args) => watch::run(args, output).await,
        Act::Export(args) => export::run(args, output).await,
        Act::Play(args) => play::run(args, output).await,
        Act::Signal(args) => signal::run(args, output).await,
        Act::Resize(args) => resize::run(args, output).await,
    }
}

//! The commands, one verb a file.

pub(crate) mod attach;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod egg;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod roost;
pub(crate) mod session;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod terminal;
pub(crate) mod whoami;
pub(crate) mod wing;
pub(crate) mod wings;

use crate::args::Command;
use crate::docs;
use crate::error::Done;
use crate::output::Output;

/// Runs one command.
pub(crate) async fn run(command: Command, output: Output) -> Done {
    match command {
        Command::Roost(args) => roost::run(args, output).await,
        Command::Start(args) => start::run(args, output).await,
        Command::Stop(args) => stop::run(args, output).await,
        Command::Status(args) => status::run(args, output).await,
        Command::Login(args) => login::run(args, output).await,
        Command::Logout(args) => logout::run(args, output).await,
        Command::Whoami(args) => whoami::run(args, output).await,
        Command::Wings(args) => wings::run(args, output).await,
        Command::Wing(args) => wing::run(args, output),
        Command::Terminal(args) => terminal::run(args, output).await,
        Command::Egg(args) => egg::run(args, output).await,
        Command::Attach(args) => attach::run(args, output).await,
        Command::Session(args) => session::run(args, output).await,
        Command::Doctor(args) => doctor::run(args, output).await,
        Command::Completions(args) => completions::run(args, output),
        Command::Man(args) => man::run(args, output),
        Command::Docs => {
            output.text(&docs::reference())?;
            Ok(0)
        }
    }
}

//! `wt`: persistent terminals on machines you control.
//!
//! This program is the edge where people and scripts meet the rest: it reads arguments,
//! calls `wt-wing`, and writes answers. stdout is the answer, stderr everything else, and
//! the exit code says what kind of end it was. It is also, under hidden names, the process
//! of every session and of the daemon, so that one file is all that has to be installed.
//!
//! What it deliberately does not do: decide who may do what, keep state of its own, or
//! know how sessions and links work.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod daemon;
mod docs;
mod error;
mod fetch;
mod nested;
mod output;
mod place;
mod tty;
mod views;

use std::env;
use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;
use wt_wing::Error;
use wt_wing::control::DAEMON_COMMAND;
use wt_wing::profile::Profile;
use wt_wing::sessions::EGG_COMMAND;
use wt_wing::stdio::{self, SERVE_COMMAND};

use crate::args::Cli;
use crate::error::{Done, Stop, usage};
use crate::output::Output;

fn main() {
    // The half of a sandbox's set-up that is done inside, in a process of one thread.
    wt_sandbox::run_if_stage();
    let arguments: Vec<OsString> = env::args_os().collect();
    // Before any thread exists: these become long-lived processes of their own.
    let status = match arguments.get(1).and_then(|word| word.to_str()) {
        Some(EGG_COMMAND) => egg(arguments.get(2)),
        Some(DAEMON_COMMAND) => daemon::main(arguments.get(2..).unwrap_or_default()),
        Some(SERVE_COMMAND) => i32::from(serve().unwrap_or_else(|stop| stop.report(false))),
        _ => i32::from(command(&arguments)),
    };
    // Not by returning: a thread may wait for ever on a terminal that takes nothing.
    std::process::exit(status)
}

/// Becomes the process of one session.
fn egg(folder: Option<&OsString>) -> i32 {
    wt_egg::process::close_inherited();
    // It fails only for the leader of a group, which has a session of its own already.
    let _ = nix::unistd::setsid();
    folder.map_or(2, |folder| wt_egg::server::run(Path::new(folder)))
}

/// Serves the user of a remote shell, who has a `wt` at the other end.
fn serve() -> Done {
    start_log()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::failed(format!("cannot start: {e}")))?;
    let done = runtime.block_on(async { stdio::serve(&Profile::locate()?).await });
    runtime.shutdown_background();
    done?;
    Ok(0)
}

fn command(arguments: &[OsString]) -> u8 {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => {
            let json = cli.json;
            run(cli).unwrap_or_else(|stop| stop.report(json))
        }
        Err(error) => {
            let json = arguments
                .iter()
                .take_while(|a| *a != "--")
                .any(|a| a == "--json");
            refuse_arguments(&error, json).unwrap_or_else(|stop| stop.report(json))
        }
    }
}

fn run(cli: Cli) -> Done {
    start_log()?;
    let output = Output::new(cli.json);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::failed(format!("cannot start: {e}")))?;
    let done = runtime.block_on(async {
        let done = commands::run(cli.command, output).await;
        place::goodbye().await;
        done
    });
    runtime.shutdown_background();
    done
}

/// Logs to stderr if `WT_LOG` asks for it, and is silent otherwise.
fn start_log() -> Result<(), Error> {
    let Some(filter) = env::var_os("WT_LOG").filter(|filter| !filter.is_empty()) else {
        return Ok(());
    };
    let filter = EnvFilter::try_new(filter.to_string_lossy())
        .map_err(|e| usage(format!("WT_LOG cannot be used: {e}")).hint("WT_LOG=debug"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// Answers what the parser does by itself: help, the version, and mistakes.
fn refuse_arguments(error: &clap::Error, json: bool) -> Done {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print().map_err(output::stdout_failed)?;
            Ok(0)
        }
        _ if json => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let message = text.split("\n\n").next().unwrap_or(text).replace('\n', " ");
            Err(Stop::Error(usage(message).hint("see `wt help`")))
        }
        _ => {
            // To stderr, which nobody may be reading.
            let _ = error.print();
            Ok(2)
        }
    }
}

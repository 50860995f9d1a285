//! `wt egg trust`: lets a project's egg.yaml give, and not only take away.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use serde::Serialize;
use wt_policy::{Change, EGG_FILE};
use wt_wing::boundary::{Asked, find};
use wt_wing::profile::{Profile, variables};
use wt_wing::trust::{self, Trust};
use wt_wing::{Error, ErrorCode};

use super::{change_lines, here};
use crate::error::{Done, Stop, say, usage};
use crate::nested;
use crate::output::{Output, plain};

/// Allow what a project's egg.yaml asks for
///
/// A project comes from whoever wrote it, so its file can take away from sessions and give
/// them nothing until it is trusted. Trust is in the texts: the file and what it builds on
/// in the project. When one of them changes it is asked about again, with what changed.
/// Inside a session it is refused.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The project's folder or its egg.yaml [default: this folder]
    #[arg(value_name = "FILE|DIR")]
    project: Option<PathBuf>,
    /// Trust it without asking
    #[arg(short, long)]
    yes: bool,
    /// Only tell what trusting it would change
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Take the trust back
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

#[derive(Serialize)]
struct Report {
    file: String,
    /// What it was before this command.
    state: State,
    /// Whether it is trusted now.
    trusted: bool,
    /// What the changes are counted from.
    compared_with: Option<ComparedWith>,
    changes: Vec<Change>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum State {
    Unknown,
    Trusted,
    Changed,
    Gone,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ComparedWith {
    Untrusted,
    LastTrusted,
}

pub(super) fn run(args: Args, output: Output) -> Done {
    if let (Some(session), false) = (nested::session(), args.show) {
        let message = format!(
            "this terminal is in the session {session}, and no session decides what sessions may do"
        );
        return Err(Stop::Error(
            Error::new(ErrorCode::Refused, message).hint("run it in a terminal of your own"),
        ));
    }
    let profile = Profile::locate()?;
    let folder = folder(args.project)?;
    let file = folder.join(EGG_FILE);
    if args.revoke {
        return revoke(&profile, &file, output);
    }
    let env = variables();
    let asked = Asked {
        agent: None,
        cwd: &folder,
        config: None,
        env: &env,
        options: &[],
    };
    let found = find(&profile, asked)?;
    let state = match &found.trust {
        Trust::NoFile => {
            let message = format!("there is no {} to trust", file.display());
            return Err(Stop::Error(
                Error::new(ErrorCode::NotFound, message).hint("write one: wt egg init"),
            ));
        }
        Trust::Trusted => State::Trusted,
        Trust::Unknown => State::Unknown,
        Trust::Changed(_) => State::Changed,
    };
    let is_trusted = state == State::Trusted;
    let report = Report {
        file: file.display().to_string(),
        state,
        trusted: is_trusted || !args.show,
        compared_with: match state {
            State::Unknown => Some(ComparedWith::Untrusted),
            State::Changed => Some(ComparedWith::LastTrusted),
            State::Trusted | State::Gone => None,
        },
        changes: match is_trusted {
            true => Vec::new(),
            false => found.news(asked)?,
        },
    };
    if args.show || is_trusted {
        output.answer(&report, || describe(&report))?;
        return Ok(0);
    }
    if !args.yes {
        confirm(&report, output)?;
    }
    // Exactly the texts that were read above, whatever stands there by now.
    trust::trust(&profile, &found.layers, &found.places)?;
    output.answer(&report, || match args.yes {
        true => format!("{}trusted {}", describe(&report), plain(&report.file)),
        false => format!("trusted {}", plain(&report.file)),
    })?;
    Ok(0)
}

fn revoke(profile: &Profile, file: &Path, output: Output) -> Done {
    let path = file
        .to_str()
        .ok_or_else(|| usage(format!("the path {} is not UTF-8", file.display())))?;
    let was_known = trust::distrust(profile, path)?;
    let report = Report {
        file: path.to_owned(),
        state: match (was_known, file.exists()) {
            (true, _) => State::Trusted,
            (false, true) => State::Unknown,
            (false, false) => State::Gone,
        },
        trusted: false,
        compared_with: None,
        changes: Vec::new(),
    };
    output.answer(&report, || {
        let shown = plain(path);
        match was_known {
            true => format!("{shown} is not trusted any more"),
            false => format!("{shown} was not trusted"),
        }
    })?;
    Ok(0)
}

/// The project's folder, its links followed: sessions know it by that name as well.
fn folder(project: Option<PathBuf>) -> Result<PathBuf, Error> {
    let path = here()?.join(project.unwrap_or_default());
    if path.is_dir() {
        return Ok(clean(&path));
    }
    if path.file_name().is_some_and(|name| name == EGG_FILE) {
        return Ok(clean(path.parent().unwrap_or(Path::new("/"))));
    }
    if !path.exists() {
        return Err(Error::new(
            ErrorCode::NotFound,
            format!("there is no {}", path.display()),
        ));
    }
    Err(
        usage(format!("{} is not called {EGG_FILE}", path.display())).hint(
            "name the project's folder; what its egg.yaml builds on is trusted along with it",
        ),
    )
}

/// The folder without `.` and a slash at its end, as a session's start has it.
fn clean(path: &Path) -> PathBuf {
    if path.components().any(|part| part.as_os_str() == "..") {
        return path.canonicalize().unwrap_or_else(|_| path.to_owned());
    }
    path.components().collect()
}

fn describe(report: &Report) -> String {
    let file = plain(&report.file);
    let heading = match report.state {
        State::Trusted => return format!("{file} is trusted as it is"),
        State::Gone => return format!("{file} is not there"),
        State::Unknown => {
            format!("{file} is not trusted. Trusting it changes what sessions may do:")
        }
        State::Changed => format!("{file} was trusted, and says something else now. This changes:"),
    };
    let changes = match report.changes.as_slice() {
        [] => "  nothing\n".to_owned(),
        changes => change_lines(changes),
    };
    format!("{heading}\n{changes}")
}

/// Asks whoever sits at this terminal.
fn confirm(report: &Report, output: Output) -> Result<(), Stop> {
    if output.is_json() || !io::stdin().is_terminal() {
        return Err(Stop::Error(
            Error::failed("trusting a project is asked about at a terminal, and this is none")
                .hint("read what it changes with `wt egg trust --show`, and then add --yes"),
        ));
    }
    say(describe(report).trim_end());
    say("Trust it? [y/N]");
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|e| Error::failed(format!("cannot read the answer: {e}")))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Stop::Error(Error::failed(
            "it is not trusted, and nothing was changed",
        ))),
    }
}

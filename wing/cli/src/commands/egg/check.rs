//! `wt egg check`: whether a file of rules is right.

use std::path::PathBuf;

use serde::Serialize;
use wt_policy::{Change, ExplainedAddition};
use wt_wing::boundary::check;
use wt_wing::profile::{Profile, variables};

use super::{change_lines, here, suppressed_line};
use crate::error::Done;
use crate::output::{Output, plain};

/// Check a file of rules: an egg.yaml, or a base of one
///
/// It is read with everything that it builds on. The first fault is told with its line, and
/// ends this with 1. Otherwise it tells what the file would change if it were trusted.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct Report {
    file: String,
    changes: Vec<Change>,
    /// What the file asks for and no session is given.
    suppressed: Vec<ExplainedAddition>,
    warnings: Vec<String>,
}

pub(super) fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let file = here()?.join(args.file);
    let checked = check(&profile, &file, &variables())?;
    let report = Report {
        file: file.display().to_string(),
        changes: checked.changes,
        suppressed: checked
            .policy
            .suppressed
            .iter()
            .map(ExplainedAddition::from)
            .collect(),
        warnings: checked.warnings,
    };
    output.answer(&report, || {
        let mut text = format!("{} is right", plain(&report.file));
        if report.changes.is_empty() {
            text.push_str(", and changes nothing");
        } else {
            text.push_str("; trusted, it would change this:");
        }
        text.push('\n');
        text.push_str(&change_lines(&report.changes));
        for left_out in &report.suppressed {
            text.push_str(&format!("{}\n", suppressed_line(left_out)));
        }
        for warning in &report.warnings {
            text.push_str(&format!("warning: {}\n", plain(warning)));
        }
        text
    })?;
    Ok(0)
}

//! `wt egg init`: writes a first egg.yaml.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use wt_policy::{EGG_FILE, ProjectFacts, init_text};
use wt_wing::Error;

use super::here;
use crate::error::{Done, Stop};
use crate::output::{Output, plain};

/// Write a first egg.yaml for the project in this folder
///
/// It has the hosts of the tools whose files are here, and comments that show the rest. It
/// gives sessions nothing until it is trusted.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Replace the egg.yaml that is there
    #[arg(long)]
    force: bool,
    /// Print it and write nothing
    #[arg(long, conflicts_with = "force")]
    print: bool,
}

#[derive(Serialize)]
struct Written {
    file: String,
    written: bool,
    tools: Vec<&'static str>,
    content: String,
}

pub(super) fn run(args: Args, output: Output) -> Done {
    let folder = here()?;
    let file = folder.join(EGG_FILE);
    let facts = ProjectFacts::of(names(&folder)?.iter().map(String::as_str));
    let content = init_text(&facts);
    if !args.print {
        write(&file, &content, args.force).map_err(|error| refused(&file, &error))?;
    }
    let done = Written {
        file: file.display().to_string(),
        written: !args.print,
        tools: facts.tools(),
        content,
    };
    output.answer(&done, || {
        if args.print {
            return done.content.clone();
        }
        let tools = match done.tools.as_slice() {
            [] => "no tool that is known here was found".to_owned(),
            tools => format!("for {}", tools.join(", ")),
        };
        format!(
            "wrote {} ({tools})\nread it, and then allow what it asks for: wt egg trust",
            plain(&done.file)
        )
    })?;
    Ok(0)
}

/// Names that are no text belong to no tool.
fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = fs::read_dir(folder)
        .map_err(|e| Error::failed(format!("cannot list {}: {e}", folder.display())))?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect())
}

/// Writes the whole file, or nothing. A link in its place is not followed.
fn write(file: &Path, content: &str, replace: bool) -> io::Result<()> {
    let to = if replace {
        file.with_extension(format!("yaml.{}", std::process::id()))
    } else {
        file.to_owned()
    };
    let mut made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&to)?;
    let written = made.write_all(content.as_bytes()).and_then(|()| {
        if replace {
            fs::rename(&to, file)
        } else {
            Ok(())
        }
    });
    if written.is_err() {
        let _ = fs::remove_file(&to);
    }
    written
}

fn refused(file: &Path, error: &io::Error) -> Stop {
    let shown = file.display();
    Stop::Error(match error.kind() {
        io::ErrorKind::AlreadyExists => Error::failed(format!("{shown} is there already"))
            .hint("to see what would be written: wt egg init --print; to replace it: --force"),
        _ => Error::failed(format!("cannot write {shown}: {error}"))
            .hint("to see it all the same: wt egg init --print"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_when_that_is_asked_for_and_never_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join(EGG_FILE), folder.path().join("other"));
        write(&file, "one", false).unwrap();
        assert_eq!(
            write(&file, "two", false).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");

        fs::write(&other, "kept").unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&other, &file).unwrap();
        assert!(write(&file, "two", false).is_err());
        write(&file, "two", true).unwrap();

        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        assert_eq!(names(folder.path()).unwrap().len(), 2);
    }
}

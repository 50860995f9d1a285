//! `wt session export`: what a session printed, as a file for other programs.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;
use wt_egg::cast::{
    CastHead, cast_of_output, cast_of_recording, text_of_output, text_of_recording,
};
use wt_egg::recording::{Ending, Recording, Stop as Stopped};
use wt_protocol::rpc::SessionRecord;
use wt_wing::Error;
use wt_wing::profile::Profile;

use crate::error::{Done, say};
use crate::fetch;
use crate::output::{Output, plain, stdout_failed};
use crate::place::{Place, Where};

const EXAMPLES: &str = "Examples:
  wt session export work --output work.cast
  wt session export work --format text";

/// Write what a session printed to a file or to stdout, living or ended
///
/// From its recording if it has one (`wt terminal --record`), with all times; else from
/// the output that is kept, which has none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    /// As what
    #[arg(long, value_enum, default_value_t = Format::Cast)]
    format: Format,
    /// Write it to this file instead of stdout; one that is there is replaced
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    whereabouts: Where,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// asciicast v2, which asciinema and others play
    Cast,
    /// The text that a terminal shows in the end, with its scrollback
    Text,
}

/// What was exported. Without a file, its text is in `content`.
#[derive(Serialize)]
struct ExportView {
    id: String,
    name: String,
    format: Format,
    source: &'static str,
    truncated: bool,
    truncated_before: u64,
    reason: Option<String>,
    file: Option<String>,
    content: Option<String>,
}

/// Where the text comes from.
enum Source {
    Recording(Box<Recording<BufReader<File>>>),
    Output(fetch::Output),
}

/// What of the session is missing.
struct Cut {
    before: u64,
    reason: Option<String>,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let session = place.get(&args.name).await?;
    let source = match fetch::recording(&profile, &place, &session.id).await? {
        Some(file) => {
            let recording = Recording::new(BufReader::new(file)).map_err(Error::failed)?;
            Source::Recording(Box::new(recording))
        }
        None => Source::Output(fetch::output(&profile, &place, &session.id).await?),
    };
    let source_name = match &source {
        Source::Recording(_) => "recording",
        Source::Output(_) => "output",
    };
    let mut content = None;
    let cut = match &args.output {
        Some(path) => {
            let failed =
                |e: io::Error| Error::failed(format!("cannot write {}: {e}", path.display()));
            let file = create(path).map_err(failed)?;
            write(source, &session, args.format, BufWriter::new(file)).map_err(failed)?
        }
        None if output.is_json() => {
            let mut bytes = Vec::new();
            let cut = write(source, &session, args.format, &mut bytes).map_err(Error::failed)?;
            content = Some(String::from_utf8_lossy(&bytes).into_owned());
            cut
        }
        None => write(
            source,
            &session,
            args.format,
            BufWriter::new(io::stdout().lock()),
        )
        .map_err(stdout_failed)?,
    };
    if let Some(reason) = &cut.reason {
        say(&format!("note: {reason}"));
    }
    let file = args.output.as_deref().map(Path::to_string_lossy);
    if !output.is_json() {
        if let Some(file) = file {
            say(&format!("wrote {}", plain(&file)));
        }
        return Ok(0);
    }
    output.document(&ExportView {
        id: session.id,
        name: session.name,
        format: args.format,
        source: source_name,
        truncated: cut.reason.is_some(),
        truncated_before: cut.before,
        reason: cut.reason,
        file: file.map(|file| file.into_owned()),
        content,
    })?;
    Ok(0)
}

/// Makes or empties a file that only its owner reads: it holds what was on a screen.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

fn write(
    source: Source,
    session: &SessionRecord,
    format: Format,
    out: impl Write,
) -> io::Result<Cut> {
    let head = |head: CastHead| CastHead {
        title: Some(session.name.clone()),
        command: Some(session.command.join(" ")),
        ..head
    };
    match source {
        Source::Recording(mut recording) => {
            let ending = match format {
                Format::Cast => {
                    let head = head(CastHead::of(&recording));
                    cast_of_recording(&mut recording, &head, out)?
                }
                Format::Text => text_of_recording(&mut recording, out)?,
            };
            Ok(Cut {
                before: 0,
                reason: how_cut(ending, session.status.is_living()),
            })
        }
        Source::Output(fetch::Output { file, start }) => {
            let bytes = BufReader::new(file);
            match format {
                Format::Cast => {
                    let head = head(CastHead {
                        size: session.size,
                        started_at_ms: Some(session.created_at_ms),
                        title: None,
                        command: None,
                    });
                    cast_of_output(bytes, start > 0, &head, out)?;
                }
                Format::Text => text_of_output(bytes, start > 0, session.size, out)?,
            }
            let reason = (start > 0)
                .then(|| format!("the first {start} bytes of output are not kept any more"));
            Ok(Cut {
                before: start,
                reason,
            })
        }
    }
}

/// What of a session its recording does not have, in words; none when it has all.
pub(super) fn how_cut(ending: Ending, is_living: bool) -> Option<String> {
    match ending {
        Ending::Stopped(Stopped::Cap) => {
            Some("the recording reached its limit; what came after it is missing".to_owned())
        }
        Ending::Stopped(Stopped::Disk) => {
            Some("the disk took no more of the recording; what came after it is missing".to_owned())
        }
        // The egg is writing at this moment.
        Ending::Torn { .. } if is_living => None,
        Ending::Torn { bytes } => Some(format!(
            "the end of the recording is damaged: {bytes} bytes cannot be read"
        )),
        Ending::Exited | Ending::Open => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_lacks_something_says_so() {
        assert_eq!(how_cut(Ending::Exited, false), None);
        assert_eq!(how_cut(Ending::Open, true), None);
        assert_eq!(how_cut(Ending::Torn { bytes: 3 }, true), None);
        for cut in [
            Ending::Torn { bytes: 3 },
            Ending::Stopped(Stopped::Cap),
            Ending::Stopped(Stopped::Disk),
        ] {
            assert!(how_cut(cut, false).is_some(), "{cut:?}");
        }
    }
}

//! `wt session read`: a session's screen or output, living or ended.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use wt_protocol::limits::{MAX_RAW_PAGE, MAX_READ_LINES};
use wt_wing::profile::Profile;

use crate::error::{Done, Stop, say};
use crate::output::Output;
use crate::place::{Place, Where};
use crate::views::ScreenView;

const EXAMPLES: &str = "Examples:
  wt session read work
  wt session read work --lines 200 --json
  wt session read work --raw --from 4096";

/// Print a session's screen, or its output as it was printed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    /// Print the output as it was printed, byte for byte, instead of the screen
    #[arg(long)]
    raw: bool,
    /// Begin at this byte of the output
    #[arg(long, value_name = "OFFSET", requires = "raw")]
    from: Option<u64>,
    /// Print so many lines of scrollback before the screen
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "raw", value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_READ_LINES)))]
    lines: u32,
    #[command(flatten)]
    whereabouts: Where,
}

/// Output, as JSON carries it.
#[derive(Serialize)]
struct RawView {
    id: String,
    offset: u64,
    end: u64,
    truncated_before: u64,
    base64: String,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    if args.raw {
        return read_raw(&place, &args.name, args.from.unwrap_or(0), output).await;
    }
    let screen = place.screen(&args.name, args.lines).await?;
    if output.is_json() {
        output.document(&ScreenView::from(screen))?;
    } else {
        output.text(&printed(&screen.lines))?;
    }
    Ok(0)
}

/// Lines without the empty ones at the end, which are only the rest of the screen.
fn printed(lines: &[String]) -> String {
    let used = lines
        .iter()
        .rposition(|line| !line.trim_end().is_empty())
        .map_or(0, |last| last + 1);
    lines[..used]
        .iter()
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect()
}

/// Reads up to the end that the output had at the first page.
async fn read_raw(place: &Place, name: &str, from: u64, output: Output) -> Done {
    let first = place.output(name, from, MAX_RAW_PAGE as u32).await?;
    let (id, offset, end, truncated_before) =
        (first.id, first.offset, first.end, first.truncated_before);
    if offset > from {
        say(&format!(
            "note: the {} bytes before offset {offset} are not kept any more",
            offset - from
        ));
    }
    let mut all = Vec::new();
    let mut take = |bytes: &[u8]| -> Result<(), Stop> {
        if output.is_json() {
            all.extend_from_slice(bytes);
            Ok(())
        } else {
            output.bytes(bytes)
        }
    };
    take(&first.bytes)?;
    let mut next = offset + first.bytes.len() as u64;
    while next < end {
        let page = place.output(&id, next, MAX_RAW_PAGE as u32).await?;
        if page.bytes.is_empty() {
            break;
        }
        if page.offset > next {
            say(&format!(
                "note: {} bytes were dropped while they were read",
                page.offset - next
            ));
        }
        take(&page.bytes)?;
        next = page.offset + page.bytes.len() as u64;
    }
    if output.is_json() {
        output.document(&RawView {
            id,
            offset,
            end: next,
            truncated_before,
            base64: STANDARD.encode(&all),
        })?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_rest_of_a_screen_is_left_out() {
        let lines = ["$ ls   ", "", "a", "", "  "].map(str::to_owned);

        assert_eq!(printed(&lines), "$ ls\n\na\n");
        assert_eq!(printed(&lines[4..]), "");
    }
}

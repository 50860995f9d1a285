//! `wt session wait`: waits for what a session prints, or for its end.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use wt_protocol::limits::MAX_WAIT_MS;
use wt_protocol::rpc::{Until, WaitFor, WaitFrom, WaitReason, Waited};
use wt_wing::ErrorCode;
use wt_wing::profile::Profile;

use crate::error::Done;
use crate::output::Output;
use crate::place::{Place, Where};
use crate::views::ExitView;

const EXAMPLES: &str = "Examples:
  wt session wait work --contains 'tests passed' --timeout 10m
  wt session wait work --idle 5s --json
  wt session wait work --exit";

/// Wait until a session prints something, falls silent, or ends
///
/// Looks at the output since the last `wt session send` to the session, or from its start
/// when nothing was sent; the echo of what was sent is never matched. Ends with 0 when it
/// came, 7 when the time ran out, and 1 when the session ended first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
    #[command(flatten)]
    until: UntilArgs,
    /// Where to look from: an offset of the output, or now [default: the last send]
    #[arg(long, value_name = "OFFSET|now", value_parser = parse_from)]
    from: Option<WaitFrom>,
    /// Give up after so long, as 500ms, 10s, 5m or 1h [default: never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    whereabouts: Where,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct UntilArgs {
    /// Until the printed text contains this
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Until the printed text matches this regular expression
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// Until nothing was printed for so long, as 500ms or 2s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    idle: Option<Duration>,
    /// Until the session's program ends
    #[arg(long)]
    exit: bool,
}

#[derive(Serialize)]
struct WaitedView {
    matched: bool,
    reason: WaitReason,
    id: String,
    text: Option<String>,
    from: u64,
    offset: u64,
    exit: Option<ExitView>,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let until = match args.until {
        UntilArgs {
            contains: Some(text),
            ..
        } => Until::Contains(text),
        UntilArgs {
            regex: Some(regex), ..
        } => Until::Regex(regex),
        UntilArgs {
            idle: Some(idle), ..
        } => Until::Idle(millis(idle)),
        UntilArgs { .. } => Until::Exit,
    };
    let mut wait = WaitFor {
        session: args.name,
        until,
        from: args.from.unwrap_or(WaitFrom::LastSend),
        timeout_ms: 0,
    };
    // In pieces, so that a lost link or session shows.
    let waited = loop {
        let left = deadline.map_or(Duration::MAX, |at| {
            at.saturating_duration_since(Instant::now())
        });
        wait.timeout_ms = millis(left).min(MAX_WAIT_MS);
        let waited = place.wait(wait.clone()).await?;
        if waited.reason != WaitReason::TimedOut || deadline.is_some_and(|at| at <= Instant::now())
        {
            break waited;
        }
        wait.session.clone_from(&waited.id);
        if wait.from == WaitFrom::Now {
            wait.from = WaitFrom::Offset(waited.from);
        }
    };
    let status = match waited.reason {
        WaitReason::Matched => 0,
        WaitReason::TimedOut => ErrorCode::TimedOut.exit_code(),
        WaitReason::Ended => ErrorCode::Failed.exit_code(),
    };
    let words = said(&waited);
    output.answer(
        &WaitedView {
            matched: waited.reason == WaitReason::Matched,
            reason: waited.reason,
            id: waited.id,
            text: waited.text,
            from: waited.from,
            offset: waited.offset,
            exit: waited.exit.map(ExitView::from),
        },
        || words,
    )?;
    Ok(status)
}

fn said(waited: &Waited) -> String {
    match (waited.reason, &waited.text) {
        (WaitReason::Matched, Some(text)) => crate::output::plain(text).into_owned(),
        (WaitReason::Matched, None) => "it came".to_owned(),
        (WaitReason::TimedOut, _) => "the time ran out".to_owned(),
        (WaitReason::Ended, _) => "the session ended first".to_owned(),
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn parse_from(text: &str) -> Result<WaitFrom, String> {
    match text {
        "now" => Ok(WaitFrom::Now),
        number => number
            .parse()
            .map(WaitFrom::Offset)
            .map_err(|_| "it is neither an offset nor `now`".to_owned()),
    }
}

/// Reads a duration: a number with ms, s, m or h behind it; seconds without.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "{unit:?} is no unit of time; there are ms, s, m and h"
            ));
        }
    };
    number
        .parse::<f64>()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number * scale).ok())
        .ok_or_else(|| "it is no duration, as 500ms, 10s or 5m are".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("500ms", 500),
            ("2", 2_000),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("0", 0),
        ] {
            assert_eq!(
                parse_duration(text).unwrap(),
                Duration::from_millis(ms),
                "{text}"
            );
        }
        for text in ["", "s", "5 s", "-1s", "1d", "1e9999", "1.2.3s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_is_an_offset_or_now() {
        assert_eq!(parse_from("now"), Ok(WaitFrom::Now));
        assert_eq!(parse_from("42"), Ok(WaitFrom::Offset(42)));
        assert!(parse_from("-1").is_err());
    }
}

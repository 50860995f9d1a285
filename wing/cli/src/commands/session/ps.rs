//! `wt session ps`: the sessions that there are.

use serde::Serialize;
use wt_egg::server::now_ms;
use wt_protocol::rpc::{Principal, PrincipalKind, SessionRecord};
use wt_wing::profile::Profile;

use crate::error::{Done, say};
use crate::output::{Output, plain};
use crate::place::{Place, Where};
use crate::views::{SessionView, age, isolation_word, status_word};

/// How much of a writer's name or key a table shows, in characters.
const WRITER_ID: usize = 8;

const EXAMPLES: &str = "Examples:
  wt session ps
  wt session ps --live --json
  wt session ps --remote box";

/// List sessions: living, lost and ended ones
///
/// Ended sessions are kept for 7 days, the last 100 of them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only those that live
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    whereabouts: Where,
}

#[derive(Serialize)]
struct Listing {
    sessions: Vec<SessionView>,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &args.whereabouts).await?;
    let records = place.list().await?;
    show(
        records
            .into_iter()
            .filter(|r| !args.live || r.status.is_living())
            .collect(),
        output,
    )
}

/// Answers with a list of sessions.
pub(crate) fn show(records: Vec<SessionRecord>, output: Output) -> Done {
    if output.is_json() {
        output.document(&Listing {
            sessions: records.into_iter().map(SessionView::from).collect(),
        })?;
        return Ok(0);
    }
    if records.is_empty() {
        say("no sessions; start one with `wt terminal`");
        return Ok(0);
    }
    output.text(&table(output, &records, now_ms()))?;
    Ok(0)
}

fn table(output: Output, records: &[SessionRecord], now: u64) -> String {
    let heading = [
        "NAME",
        "ID",
        "STATUS",
        "ISOLATION",
        "CLIENTS",
        "WRITER",
        "WANTS",
        "AGE",
        "CWD",
        "COMMAND",
    ];
    let rows: Vec<Vec<String>> = records.iter().map(|record| row(record, now)).collect();
    let mut text = output.table(&heading, &rows);
    for record in records {
        for note in &record.notes {
            text.push_str(&format!("{}: {}\n", plain(&record.name), plain(note)));
        }
    }
    text
}

fn row(record: &SessionRecord, now: u64) -> Vec<String> {
    vec![
        plain(&record.name).into_owned(),
        plain(&record.id).into_owned(),
        status_word(record),
        isolation_word(record.isolation).to_owned(),
        record.clients.to_string(),
        record.writer.as_ref().map_or("-".to_owned(), writer_word),
        plain(record.attention.as_deref().unwrap_or("-")).into_owned(),
        age(record.created_at_ms, now),
        plain(&record.cwd).into_owned(),
        plain(&record.command.join(" ")).into_owned(),
    ]
}

/// Who may type, as text in a table; of a client's key its beginning.
fn writer_word(writer: &Principal) -> String {
    let kind = match writer.kind {
        PrincipalKind::Cli => "cli",
        PrincipalKind::Client => "client",
        PrincipalKind::Mcp => "mcp",
    };
    let id: String = writer.id.chars().take(WRITER_ID).collect();
    format!("{kind}:{}", plain(&id))
}

#[cfg(test)]
mod tests {
    use wt_protocol::rpc::SessionStatus;
    use wt_protocol::session::Exit;

    use super::*;
    use crate::views::tests::record;

    #[test]
    fn sessions_are_listed_with_what_holds_them_and_what_is_worth_knowing() {
        let ended = SessionRecord {
            status: SessionStatus::Killed,
            exit: Some(Exit {
                code: None,
                signal: Some(9),
                at_ms: 1,
            }),
            command: vec!["sh".to_owned(), "-c".to_owned(), "printf '\n'".to_owned()],
            notes: vec!["output is kept in memory".to_owned()],
            ..record("aaaaaaaaaaaa", "old")
        };
        let work = SessionRecord {
            writer: Some(Principal {
                kind: PrincipalKind::Client,
                id: "0123456789abcdef".to_owned(),
            }),
            attention: Some("prompt".to_owned()),
            ..record("abcdefghijkl", "work")
        };
        let records = [work, ended];

        insta::assert_snapshot!(table(Output::new(true), &records, 1_800_000_060_123), @r"
        NAME  ID            STATUS      ISOLATION  CLIENTS  WRITER           WANTS   AGE  CWD        COMMAND
        work  abcdefghijkl  running     none       1        client:01234567  prompt  1m   /home/ada  /bin/sh
        old   aaaaaaaaaaaa  killed 137  none       1        -                -       1m   /home/ada  sh -c printf '\n'
        old: output is kept in memory
        ");
    }
}

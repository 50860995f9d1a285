//! What users see of a session as JSON: stable twins of the wire types.

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wt_protocol::rpc::{
    Isolation, Principal, ScreenText, SessionKind, SessionRecord, SessionStatus,
};
use wt_protocol::session::Exit;

/// A session.
#[derive(Debug, Serialize)]
pub(crate) struct SessionView {
    pub(crate) id: String,
    pub(crate) name: String,
    kind: SessionKind,
    agent: Option<String>,
    command: Vec<String>,
    cwd: String,
    status: SessionStatus,
    isolation: Isolation,
    pid: Option<u32>,
    created_at: Option<String>,
    created_by: Principal,
    cols: u16,
    rows: u16,
    bytes_written: u64,
    title: String,
    attention: Option<String>,
    clients: u32,
    writer: Option<Principal>,
    exit: Option<ExitView>,
    notes: Vec<String>,
}

/// How a session ended.
#[derive(Debug, Serialize)]
pub(crate) struct ExitView {
    /// The status with which attached clients ended: the program's own, or 128 and the
    /// signal's number.
    code: i32,
    /// The signal that ended it, by its name.
    signal: Option<String>,
    at: Option<String>,
}

/// A session's screen.
#[derive(Debug, Serialize)]
pub(crate) struct ScreenView {
    id: String,
    lines: Vec<String>,
    cursor: CursorView,
    cols: u16,
    rows: u16,
    title: String,
    modes: Vec<String>,
    offset: u64,
    truncated_before: u64,
}

#[derive(Debug, Serialize)]
struct CursorView {
    row: u16,
    col: u16,
    visible: bool,
}

impl From<SessionRecord> for SessionView {
    fn from(record: SessionRecord) -> Self {
        Self {
            id: record.id,
            name: record.name,
            kind: record.kind,
            agent: record.agent,
            command: record.command,
            cwd: record.cwd,
            status: record.status,
            isolation: record.isolation,
            pid: record.pid,
            created_at: timestamp(record.created_at_ms),
            created_by: record.created_by,
            cols: record.size.cols,
            rows: record.size.rows,
            bytes_written: record.bytes_written,
            title: record.title,
            attention: record.attention,
            clients: record.clients,
            writer: record.writer,
            exit: record.exit.map(ExitView::from),
            notes: record.notes,
        }
    }
}

impl From<Exit> for ExitView {
    fn from(exit: Exit) -> Self {
        Self {
            code: exit.status(),
            signal: exit.signal.map(signal_name),
            at: timestamp(exit.at_ms),
        }
    }
}

impl From<ScreenText> for ScreenView {
    fn from(screen: ScreenText) -> Self {
        Self {
            id: screen.id,
            lines: screen.lines,
            cursor: CursorView {
                row: screen.cursor_row,
                col: screen.cursor_col,
                visible: screen.cursor_visible,
            },
            cols: screen.size.cols,
            rows: screen.size.rows,
            title: screen.title,
            modes: screen.modes,
            offset: screen.offset,
            truncated_before: screen.truncated_before,
        }
    }
}

/// A time as RFC 3339 in UTC; none when it is none (0) or beyond the calendar.
pub(crate) fn timestamp(ms: u64) -> Option<String> {
    if ms == 0 {
        return None;
    }
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
        .ok()?
        .format(&Rfc3339)
        .ok()
}

/// How long ago something was, in its largest unit.
pub(crate) fn age(then_ms: u64, now_ms: u64) -> String {
    if then_ms == 0 {
        return "-".to_owned();
    }
    let seconds = now_ms.saturating_sub(then_ms) / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How a program ended, in words.
pub(crate) fn how_it_ended(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by {}", signal_name(signal)),
        (None, None) => "ended".to_owned(),
    }
}

fn signal_name(number: i32) -> String {
    match nix::sys::signal::Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        // Real-time signals have numbers only.
        Err(_) => format!("SIG{number}"),
    }
}

/// A state, as text in a table.
pub(crate) fn status_word(record: &SessionRecord) -> String {
    let word = match record.status {
        SessionStatus::Starting => "starting",
        SessionStatus::Running => "running",
        SessionStatus::Frozen => "frozen",
        SessionStatus::Exited => "exited",
        SessionStatus::Killed => "killed",
        SessionStatus::Lost => "lost",
        SessionStatus::Foreign => "foreign",
    };
    match &record.exit {
        Some(exit) => format!("{word} {}", exit.status()),
        None => word.to_owned(),
    }
}

/// A boundary, as text in a table.
pub(crate) fn isolation_word(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::None => "none",
        Isolation::Namespace => "namespace",
        Isolation::Container => "container",
        Isolation::Vm => "vm",
        Isolation::Seatbelt => "seatbelt",
        Isolation::OuterBoundary => "outer-boundary",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use wt_protocol::rpc::PrincipalKind;
    use wt_protocol::session::Winsize;

    use super::*;

    /// A session that runs.
    pub(crate) fn record(id: &str, name: &str) -> SessionRecord {
        SessionRecord {
            id: id.to_owned(),
            name: name.to_owned(),
            kind: SessionKind::Shell,
            agent: None,
            command: vec!["/bin/sh".to_owned()],
            cwd: "/home/ada".to_owned(),
            status: SessionStatus::Running,
            isolation: Isolation::None,
            pid: Some(42),
            created_at_ms: 1_800_000_000_123,
            created_by: Principal {
                kind: PrincipalKind::Cli,
                id: "ada".to_owned(),
            },
            size: Winsize { cols: 80, rows: 24 },
            bytes_written: 7,
            title: String::new(),
            attention: None,
            clients: 1,
            writer: None,
            exit: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_session_is_listed_in_this_form() {
        let view = SessionView::from(record("abcdefghijkl", "work"));

        insta::assert_snapshot!(
            serde_json::to_string(&view).unwrap(),
            @r#"{"id":"abcdefghijkl","name":"work","kind":"shell","agent":null,"command":["/bin/sh"],"cwd":"/home/ada","status":"running","isolation":"none","pid":42,"created_at":"2027-01-15T08:00:00.123Z","created_by":{"kind":"cli","id":"ada"},"cols":80,"rows":24,"bytes_written":7,"title":"","attention":null,"clients":1,"writer":null,"exit":null,"notes":[]}"#
        );
    }

    #[test]
    fn an_end_by_signal_has_the_number_that_clients_end_with_and_the_name() {
        let exit = |code, signal| {
            ExitView::from(Exit {
                code,
                signal,
                at_ms: 1_800_000_000_000,
            })
        };
        let json = |view| serde_json::to_string(&view).unwrap();

        assert_eq!(
            json(exit(None, Some(15))),
            r#"{"code":143,"signal":"SIGTERM","at":"2027-01-15T08:00:00Z"}"#
        );
        assert_eq!(
            json(exit(Some(255), None)),
            r#"{"code":255,"signal":null,"at":"2027-01-15T08:00:00Z"}"#
        );
        assert_eq!(signal_name(40), "SIG40");
    }

    #[test]
    fn ages_have_one_unit() {
        let ages: Vec<String> = [1, 59, 60, 3_599, 7_200, 200_000]
            .iter()
            .map(|s| age(1, s * 1_000 + 1))
            .collect();

        assert_eq!(ages, ["1s", "59s", "1m", "59m", "2h", "2d"]);
        assert_eq!(age(0, 5), "-");
    }
}

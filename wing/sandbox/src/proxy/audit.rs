//! The record of every decision about the network, as lines of JSON in one file.
//!
//! The file has mode 0600 and is turned over at [`MAX_FILE`] bytes, with one older file
//! beside it. A name that comes again and again is written a few times and counted after
//! that: a line says in `count` for how many events it stands, so that sums stay right.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The size at which the file is turned over, in bytes. With the older one beside it, a
/// session keeps some thirty thousand events.
pub const MAX_FILE: u64 = 4 * 1024 * 1024;

/// How many lines of one kind about one host are written in a [`WINDOW`]; the rest is counted.
const BURST: u64 = 16;

/// How many lines are written in a [`WINDOW`] in all. What asks for more is no longer told
/// apart by host.
const BUDGET: u64 = 600;

/// How long lines are held back at most once they are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// How many kinds of lines are told apart in a [`WINDOW`].
const MAX_KEYS: usize = 1_024;

/// The longest line that is read back; none is written that long.
const MAX_LINE: u64 = 16 * 1024;

/// The longest text of a field; hosts are shorter, and reasons are.
const MAX_TEXT: usize = 300;

/// The host of lines that stand for many hosts.
pub const MANY_HOSTS: &str = "(many hosts)";

/// By which way the session asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A CONNECT request.
    Connect,
    /// A plain HTTP request.
    Http,
    /// SOCKS 5.
    Socks,
    /// A connection to a host as if there were no proxy.
    Capture,
    /// A question for a name.
    Dns,
    /// A port of the machine itself.
    Local,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A rule allowed it.
    Allowed,
    /// No rule allowed it, and it was let through because the session is only observed.
    Observed,
    /// It was refused by the policy.
    Denied,
    /// It was malformed, or more than is served at once.
    Refused,
    /// It was allowed, and the host could not be reached.
    Failed,
    /// It was cut off, because it did not do what had been allowed.
    Cut,
    /// The name has public and other addresses; only the public ones are used.
    Suspicious,
    /// It ended; the bytes are counted.
    Ended,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When, in milliseconds since 1970.
    pub time: u64,
    /// By which way.
    pub way: Way,
    /// The host in its one spelling, or what stood in its place, escaped.
    pub host: String,
    /// The port, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What came of it.
    pub outcome: Outcome,
    /// The rule that allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For how many events the line stands.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// Bytes that left the session.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent: u64,
    /// Bytes that came into it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received: u64,
}

fn one() -> u64 {
    1
}

fn is_one(value: &u64) -> bool {
    *value == 1
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Record {
    /// Makes a record of one event, at the time of writing, without a rule or bytes.
    pub fn new(
        way: Way,
        host: &str,
        port: Option<u16>,
        outcome: Outcome,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            time: 0,
            way,
            host: escape(host),
            port,
            outcome,
            rule: None,
            reason: escape(&reason.into()),
            count: 1,
            sent: 0,
            received: 0,
        }
    }

    /// Names the rule that allowed it.
    #[must_use]
    pub fn rule(mut self, rule: Option<String>) -> Self {
        self.rule = rule;
        self
    }

    /// Counts bytes.
    #[must_use]
    pub fn bytes(mut self, sent: u64, received: u64) -> Self {
        (self.sent, self.received) = (sent, received);
        self
    }
}

/// Makes text safe to show on a terminal, and short.
fn escape(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        if safe.len() >= MAX_TEXT {
            safe.push('…');
            break;
        }
        match c {
            ' '..='~' => safe.push(c),
            _ => safe.extend(c.escape_default()),
        }
    }
    safe
}

/// The writer. It may be used from any thread; each call writes at most a few lines.
#[derive(Debug)]
pub struct AuditLog(Mutex<Writer>);

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    file: File,
    size: u64,
    limit: u64,
    window: Instant,
    written: u64,
    keys: HashMap<Key, Held>,
    /// Whether the last write failed, so that it is said once.
    failing: bool,
}

type Key = (Way, String, Option<u16>, Outcome, Option<String>, String);

#[derive(Debug, Default)]
struct Held {
    written: u64,
    count: u64,
    sent: u64,
    received: u64,
}

impl AuditLog {
    /// Opens the file at `path`, made with mode 0600 if it is absent, and goes on at its end.
    ///
    /// # Errors
    ///
    /// When it cannot be opened for writing, or is a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, MAX_FILE)
    }

    fn with_limit(path: &Path, limit: u64) -> io::Result<Self> {
        let file = open(path)?;
        Ok(Self(Mutex::new(Writer {
            path: path.to_owned(),
            size: file.metadata()?.len(),
            file,
            limit,
            window: Instant::now(),
            written: 0,
            keys: HashMap::new(),
            failing: false,
        })))
    }

    /// Writes a record, or counts it with its like.
    pub fn write(&self, record: Record) {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writer.record(record, Instant::now());
    }

    /// Writes what was counted if its time has come; called now and then.
    pub fn tick(&self) {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writer.turn_window(Instant::now());
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let writer = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        writer.flush();
    }
}

impl Writer {
    fn record(&mut self, mut record: Record, now: Instant) {
        self.turn_window(now);
        let key = |record: &Record| {
            (
                record.way,
                record.host.clone(),
                record.port,
                record.outcome,
                record.rule.clone(),
                record.reason.clone(),
            )
        };
        let mut place = key(&record);
        let crowded = self.written >= BUDGET || self.keys.len() >= MAX_KEYS;
        if crowded && !self.keys.contains_key(&place) {
            record.host = MANY_HOSTS.to_owned();
            record.reason.clear();
            (record.port, record.rule) = (None, None);
            place = key(&record);
        }
        let held = self.keys.entry(place).or_default();
        if held.written < BURST && self.written < BUDGET {
            held.written += 1;
            self.line(&record);
            return;
        }
        held.count += record.count;
        held.sent = held.sent.saturating_add(record.sent);
        held.received = held.received.saturating_add(record.received);
    }

    fn turn_window(&mut self, now: Instant) {
        if now.saturating_duration_since(self.window) >= WINDOW {
            self.window = now;
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.written = 0;
        let mut held: Vec<(Key, Held)> = self.keys.drain().collect();
        held.retain(|(_, held)| held.count > 0);
        held.sort_by(|(a, _), (b, _)| a.cmp(b));
        for ((way, host, port, outcome, rule, reason), held) in held {
            self.line(&Record {
                time: 0,
                way,
                host,
                port,
                outcome,
                rule,
                reason,
                count: held.count,
                sent: held.sent,
                received: held.received,
            });
        }
    }

    fn line(&mut self, record: &Record) {
        self.written += 1;
        let record = Record {
            time: now_ms(),
            ..record.clone()
        };
        match self.append(&record) {
            Ok(()) => self.failing = false,
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::warn!(%error, "the record of network decisions cannot be written");
            }
            Err(_) => {}
        }
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if self.size + line.len() as u64 > self.limit {
            std::fs::rename(&self.path, older(&self.path))?;
            self.file = open(&self.path)?;
            self.size = 0;
        }
        self.file.write_all(&line)?;
        self.size += line.len() as u64;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Reads what was written at `path`, the oldest first. Lines that cannot be read, like one
/// that a crash cut short, are left out.
///
/// # Errors
///
/// When the file cannot be read. A file that is absent is an empty one.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for path in [older(path), path.to_owned()] {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // Whatever else somebody put there, it is not read without end.
        let mut reader = BufReader::new(file.take(2 * MAX_FILE));
        loop {
            let mut line = Vec::new();
            if (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            records.extend(serde_json::from_slice::<Record>(&line).ok());
        }
    }
    Ok(records)
}

/// What happened with one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostSummary {
    /// The host.
    pub host: String,
    /// How often it was reached, by rule or because the session is observed.
    pub allowed: u64,
    /// How often a request was let through though no rule allows it; part of `allowed`.
    pub observed: u64,
    /// How often it was refused or cut off.
    pub denied: u64,
    /// How often it could not be reached.
    pub failed: u64,
    /// Bytes that left the session.
    pub sent: u64,
    /// Bytes that came into it.
    pub received: u64,
    /// The ports that were asked for.
    pub ports: Vec<u16>,
    /// The rule of the last time that one allowed it.
    pub rule: Option<String>,
    /// Why it was refused the last time.
    pub reason: Option<String>,
    /// The first time, in milliseconds since 1970.
    pub first: u64,
    /// The last time.
    pub last: u64,
}

/// Sums records up by host, in the order of their first appearance. Questions for names
/// count when they were refused: an allowed one is followed by its connection.
pub fn summarise(records: &[Record]) -> Vec<HostSummary> {
    let mut order: Vec<HostSummary> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records {
        let place = *places.entry(&record.host).or_insert_with(|| {
            order.push(HostSummary {
                host: record.host.clone(),
                first: record.time,
                ..HostSummary::default()
            });
            order.len() - 1
        });
        let summary = &mut order[place];
        summary.last = summary.last.max(record.time);
        summary.sent = summary.sent.saturating_add(record.sent);
        summary.received = summary.received.saturating_add(record.received);
        if let Some(port) = record.port
            && let Err(at) = summary.ports.binary_search(&port)
        {
            summary.ports.insert(at, port);
        }
        match record.outcome {
            Outcome::Allowed | Outcome::Observed if record.way == Way::Dns => {}
            Outcome::Allowed => {
                summary.allowed += record.count;
                summary.rule.clone_from(&record.rule);
            }
            Outcome::Observed => {
                summary.allowed += record.count;
                summary.observed += record.count;
            }
            Outcome::Denied | Outcome::Refused | Outcome::Cut => {
                summary.denied += record.count;
                summary.reason = Some(record.reason.clone());
            }
            Outcome::Failed => summary.failed += record.count,
            Outcome::Suspicious | Outcome::Ended => {}
        }
    }
    order
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn denied(host: &str) -> Record {
        Record::new(
            Way::Connect,
            host,
            Some(443),
            Outcome::Denied,
            "no rule allows it",
        )
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.jsonl");
        let log = AuditLog::open(&path).unwrap();
        log.write(denied("a.test"));
        log.write(
            Record::new(Way::Http, "b.test", Some(80), Outcome::Ended, "")
                .rule(Some("b.test:80".to_owned()))
                .bytes(10, 20),
        );

        let records = read(&path).unwrap();

        assert_eq!(records.len(), 2);
        assert!(records[0].time > 1_600_000_000_000);
        assert_eq!(
            Record {
                time: 0,
                ..records[0].clone()
            },
            denied("a.test")
        );
        assert_eq!((records[1].sent, records[1].received), (10, 20));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(&folder.path().join("absent")).unwrap(), vec![]);
    }

    #[test]
    fn a_flood_is_counted_and_no_event_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.jsonl");
        let log = AuditLog::open(&path).unwrap();
        for _ in 0..1_000 {
            log.write(denied("a.test").bytes(1, 2));
        }
        for i in 0..10_000 {
            log.write(denied(&format!("{i}.evil.test")));
        }
        drop(log);

        let records = read(&path).unwrap();

        assert!(records.len() < 1_200, "{} lines", records.len());
        assert_eq!(
            records.iter().map(|record| record.count).sum::<u64>(),
            11_000
        );
        let summary = summarise(&records);
        assert_eq!(
            (summary[0].host.as_str(), summary[0].denied),
            ("a.test", 1_000)
        );
        assert_eq!((summary[0].sent, summary[0].received), (1_000, 2_000));
        assert!(summary.iter().any(|summary| summary.host == MANY_HOSTS));
    }

    #[test]
    fn the_file_is_turned_over_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.jsonl");
        let log = AuditLog::with_limit(&path, 1_000).unwrap();
        for i in 0..100 {
            log.write(denied(&format!("{i}.test")));
        }
        drop(log);

        assert!(std::fs::metadata(&path).unwrap().len() <= 1_000);
        assert!(std::fs::metadata(older(&path)).unwrap().len() <= 1_000);
        let records = read(&path).unwrap();
        assert_eq!(records.last().unwrap().host, "99.test");
        assert!(records.len() < 20);
    }

    #[test]
    fn what_a_host_is_called_cannot_steer_a_terminal() {
        let record = denied("evil\u{1b}[2J\n\u{202e}\u{9b}.test");
        assert_eq!(record.host, "evil\\u{1b}[2J\\n\\u{202e}\\u{9b}.test");
        assert!(denied(&"a".repeat(10_000)).host.len() < 400);
    }

    #[test]
    fn a_line_that_was_cut_short_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.jsonl");
        AuditLog::open(&path).unwrap().write(denied("a.test"));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"time\":1,\"way\"\n").unwrap();
        AuditLog::open(&path).unwrap().write(denied("b.test"));

        let hosts: Vec<String> = read(&path).unwrap().into_iter().map(|r| r.host).collect();

        assert_eq!(hosts, ["a.test", "b.test"]);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.jsonl");
        std::os::unix::fs::symlink(folder.path().join("other"), &path).unwrap();
        assert!(AuditLog::open(&path).is_err());
    }

    #[test]
    fn hosts_are_summed_up() {
        let record = |way, outcome, port| Record::new(way, "a.test", Some(port), outcome, "why");
        let mut records = vec![
            record(Way::Dns, Outcome::Allowed, 53),
            record(Way::Connect, Outcome::Allowed, 443).rule(Some("*.test:443".to_owned())),
            record(Way::Connect, Outcome::Observed, 80),
            record(Way::Connect, Outcome::Denied, 22),
            record(Way::Connect, Outcome::Cut, 443),
            record(Way::Connect, Outcome::Failed, 443),
            record(Way::Connect, Outcome::Ended, 443).bytes(5, 6),
        ];
        for (time, record) in (1..).zip(&mut records) {
            record.time = time;
        }

        assert_eq!(
            summarise(&records),
            [HostSummary {
                host: "a.test".to_owned(),
                allowed: 2,
                observed: 1,
                denied: 2,
                failed: 1,
                sent: 5,
                received: 6,
                ports: vec![22, 53, 80, 443],
                rule: Some("*.test:443".to_owned()),
                reason: Some("why".to_owned()),
                first: 1,
                last: 7,
            }]
        );
    }
}

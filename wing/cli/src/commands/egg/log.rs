//! `wt egg log`: what became of a session's connections.

use std::fs;
use std::io::Read;
use std::time::Duration;

use serde::Serialize;
use wt_egg::EggDir;
use wt_policy::{
    DenyReason, Destination, EffectivePolicy, Granted, Host, HostRule, NetworkMode, NetworkNeed,
    Port, Source, Verdict,
};
use wt_protocol::rpc::{Isolation, SessionRecord};
use wt_sandbox::proxy::audit::{self, HostSummary, MANY_HOSTS, Outcome, Record};
use wt_wing::profile::Profile;
use wt_wing::{Error, ErrorCode};

use crate::error::{Done, Stop};
use crate::output::{Output, plain};
use crate::place::{Place, Where};
use crate::views::timestamp;

/// How often the record is read again while it is followed.
const FOLLOW: Duration = Duration::from_millis(250);

/// The largest record of a policy that is read: rules have bounds of their own below it.
const MAX_POLICY: u64 = 16 << 20;

/// Tell which hosts a session asked for, what became of it, and what to do about a refusal
///
/// A living session or one that ended. Hosts are summed up; with --follow each decision is
/// told as it is made. For a session of another machine: ssh HOST wt egg log SESSION
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's name, id, or a unique prefix of its id [default: the newest that is
    /// sandboxed]
    session: Option<String>,
    /// Only what was refused or failed
    #[arg(long)]
    denied: bool,
    /// Tell each decision as it is made, until the session ends
    #[arg(short, long)]
    follow: bool,
}

#[derive(Serialize)]
struct Report {
    session: String,
    id: String,
    isolation: Isolation,
    network: Option<NetworkView>,
    hosts: Vec<HostView>,
    /// What there is to know when hosts are not told.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct NetworkView {
    need: NetworkNeed,
    mode: NetworkMode,
}

#[derive(Serialize)]
struct HostView {
    #[serde(flatten)]
    summary: HostSummary,
    first_at: Option<String>,
    last_at: Option<String>,
    hint: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    at: Option<String>,
    #[serde(flatten)]
    record: &'a Record,
    hint: Option<String>,
}

pub(super) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let place = Place::find(&profile, &Where::default()).await?;
    let session = choose(&place, args.session.as_deref()).await?;
    let dir = EggDir::new(profile.file("eggs").join(&session.id));
    let policy = read_policy(&dir);
    if args.follow {
        return follow(&place, &session, &dir, policy.as_ref(), args.denied, output).await;
    }
    let records = read(&dir)?;
    let mut hosts: Vec<HostView> = audit::summarise(&records)
        .into_iter()
        .map(|summary| view(summary, policy.as_ref()))
        .collect();
    if args.denied {
        hosts.retain(|host| host.summary.denied + host.summary.failed > 0);
    }
    let report = Report {
        notes: notes(&session, policy.as_ref(), records.is_empty()),
        session: session.name,
        id: session.id,
        isolation: session.isolation,
        network: policy.map(|policy| NetworkView {
            need: policy.network.need,
            mode: policy.network.mode,
        }),
        hosts,
    };
    output.answer(&report, || describe(&report, args.denied, output))?;
    Ok(0)
}

async fn choose(place: &Place, named: Option<&str>) -> Result<SessionRecord, Error> {
    if let Some(name) = named {
        return place.get(name).await;
    }
    let sessions = place.list().await?;
    let newest = sessions
        .into_iter()
        .filter(|session| session.isolation == Isolation::Namespace)
        .max_by_key(|session| session.created_at_ms);
    newest.ok_or_else(|| {
        Error::new(ErrorCode::NotFound, "there is no sandboxed session")
            .hint("start one with `wt terminal`")
    })
}

fn read(dir: &EggDir) -> Result<Vec<Record>, Error> {
    let path = dir.network_log();
    audit::read(&path).map_err(|e| Error::failed(format!("cannot read {}: {e}", path.display())))
}

/// The policy that the session started with; none for one that wrote none down.
fn read_policy(dir: &EggDir) -> Option<EffectivePolicy> {
    let file = fs::File::open(dir.policy()).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_POLICY).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn notes(session: &SessionRecord, policy: Option<&EffectivePolicy>, is_empty: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if session.isolation != Isolation::Namespace {
        notes.push(
            "the session is not sandboxed, so nothing is known of its connections".to_owned(),
        );
        return notes;
    }
    let Some(policy) = policy else {
        return notes;
    };
    let has_none = policy.network.mode == NetworkMode::Enforce
        && matches!(policy.network.need, NetworkNeed::None | NetworkNeed::Local);
    if has_none && is_empty {
        notes.push(
            "the session has no network: no name resolves and no host is reached in it; name the hosts that it needs in egg.yaml (network: {domains: [...]}), and then run `wt egg trust`"
                .to_owned(),
        );
    } else if is_empty {
        notes.push("it has asked for no host so far".to_owned());
    }
    notes
}

fn view(summary: HostSummary, policy: Option<&EffectivePolicy>) -> HostView {
    let hint = match (summary.denied, summary.failed) {
        (0, 0) => None,
        (0, _) => Some(UNREACHABLE.to_owned()),
        (_, _) => {
            // The proxy's port, not that for questions of names.
            let port = summary.ports.iter().copied().find(|port| *port != 53);
            hint(&summary.host, port, policy)
        }
    };
    HostView {
        first_at: timestamp(summary.first),
        last_at: timestamp(summary.last),
        hint,
        summary,
    }
}

const UNREACHABLE: &str = "the rules allow it and it did not answer: try it outside of the session";

/// One thing to try when a host was refused.
fn hint(host: &str, port: Option<u16>, policy: Option<&EffectivePolicy>) -> Option<String> {
    if host == MANY_HOSTS {
        return Some("the session asked for very many hosts; look at what runs in it".to_owned());
    }
    if host == "localhost" {
        return Some("is a server running there? start it outside of the session".to_owned());
    }
    let host = Host::parse(host).ok()?;
    let port = port.and_then(Port::new).unwrap_or(Port::HTTPS);
    let destination = Destination { host, port };
    let rule = || {
        let text = match port == Port::HTTPS {
            true => destination.host.to_string(),
            false => destination.to_string(),
        };
        text.parse::<HostRule>().is_ok().then_some(text)
    };
    let add = |rule: String| {
        format!("add \"{rule}\" to network: domains: of egg.yaml, and then run `wt egg trust`")
    };
    let Some(policy) = policy else {
        return rule().map(add);
    };
    match policy.network.decide(&destination) {
        Verdict::Allowed(_) => Some(
            "the rules allow the name: its addresses, its port or what was sent there were refused; the reason says which"
                .to_owned(),
        ),
        Verdict::Denied(denial) => match denial.reason {
            DenyReason::NoNetwork | DenyReason::NotListed | DenyReason::Port(_) => {
                denial.rule_hint().map(add)
            }
            DenyReason::Localhost { .. } => Some(format!(
                "add {port} to network: local_ports: of egg.yaml, and then run `wt egg trust`"
            )),
            DenyReason::MetadataName => Some("nothing opens it".to_owned()),
            // Private networks can be named, and metadata cannot.
            DenyReason::Address(_) => rule().filter(|rule| opens(policy, rule, &destination)).map(add),
            DenyReason::NoAddress => Some(UNREACHABLE.to_owned()),
        },
    }
}

/// Whether a rule would let a destination through.
pub(super) fn opens(policy: &EffectivePolicy, rule: &str, destination: &Destination) -> bool {
    let Ok(value) = rule.parse::<HostRule>() else {
        return false;
    };
    let mut network = policy.network.clone();
    network.need = network.need.max(NetworkNeed::Hosts);
    network.hosts.push(Granted {
        value,
        source: Source::Default,
    });
    network.decide(destination).is_allowed()
}

fn describe(report: &Report, denied: bool, output: Output) -> String {
    let mut text = String::new();
    for note in &report.notes {
        text.push_str(&format!("{}: {}\n", plain(&report.session), plain(note)));
    }
    if report.hosts.is_empty() {
        if report.notes.is_empty() {
            let what = if denied {
                "was refused or failed"
            } else {
                "was asked for"
            };
            text.push_str(&format!("{}: nothing {what}\n", plain(&report.session)));
        }
        return text;
    }
    let rows: Vec<Vec<String>> = report
        .hosts
        .iter()
        .map(|host| {
            let summary = &host.summary;
            let ports: Vec<String> = summary.ports.iter().map(u16::to_string).collect();
            let why = summary
                .reason
                .as_deref()
                .or(summary.rule.as_deref())
                .unwrap_or("-");
            vec![
                summary.host.clone(),
                ports.join(","),
                summary.allowed.to_string(),
                summary.denied.to_string(),
                summary.failed.to_string(),
                summary.sent.to_string(),
                summary.received.to_string(),
                plain(why).into_owned(),
            ]
        })
        .collect();
    text.push_str(&output.table(
        &[
            "HOST", "PORTS", "ALLOWED", "DENIED", "FAILED", "SENT", "RECEIVED", "WHY",
        ],
        &rows,
    ));
    for host in &report.hosts {
        if let Some(hint) = &host.hint {
            text.push_str(&format!("{}: {}\n", host.summary.host, plain(hint)));
        }
    }
    text
}

/// Tells what is written, from the first line on, until the session has ended.
async fn follow(
    place: &Place,
    session: &SessionRecord,
    dir: &EggDir,
    policy: Option<&EffectivePolicy>,
    denied: bool,
    output: Output,
) -> Done {
    if session.isolation != Isolation::Namespace {
        return Err(Stop::Error(Error::failed(format!(
            "the session {} is not sandboxed, so nothing is known of its connections",
            plain(&session.name)
        ))));
    }
    let mut last: Option<Record> = None;
    loop {
        // Before the record is read, so that what is written at the very end is told.
        let is_over = !place.get(&session.id).await?.status.is_living();
        let records = read(dir)?;
        for record in news(&records, last.as_ref()) {
            let is_bad = !matches!(
                record.outcome,
                Outcome::Allowed | Outcome::Observed | Outcome::Ended
            );
            if is_bad || !denied {
                tell(record, policy, output)?;
            }
        }
        last = records.last().cloned().or(last);
        if is_over {
            return Ok(0);
        }
        tokio::time::sleep(FOLLOW).await;
    }
}

/// What stands after a record that was told; all, if that is gone.
fn news<'a>(records: &'a [Record], last: Option<&Record>) -> &'a [Record] {
    let told = last.and_then(|last| records.iter().rposition(|record| record == last));
    told.map_or(records, |told| &records[told + 1..])
}

fn tell(record: &Record, policy: Option<&EffectivePolicy>, output: Output) -> Result<(), Stop> {
    let hint = match record.outcome {
        Outcome::Denied => hint(&record.host, record.port.filter(|port| *port != 53), policy),
        Outcome::Failed => Some(UNREACHABLE.to_owned()),
        _ => None,
    };
    let at = timestamp(record.time);
    if output.is_json() {
        return output.document(&Line { at, record, hint });
    }
    let port = record.port.map_or(String::new(), |port| format!(":{port}"));
    let why = match record.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
    output.text(&plain(&format!(
        "{} {} {}{port}{why}{hint}",
        at.unwrap_or_default(),
        outcome_word(record.outcome),
        record.host,
    )))
}

fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed => "allowed",
        Outcome::Observed => "observed",
        Outcome::Denied => "DENIED",
        Outcome::Refused => "REFUSED",
        Outcome::Failed => "failed",
        Outcome::Cut => "CUT",
        Outcome::Suspicious => "suspicious",
        Outcome::Ended => "ended",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_sandbox::proxy::audit::Way;

    use super::*;

    fn denied(host: &str, port: u16) -> Record {
        Record::new(
            Way::Connect,
            host,
            Some(port),
            Outcome::Denied,
            "no rule allows it",
        )
    }

    #[test]
    fn a_refusal_has_the_very_rule_that_would_lift_it() {
        let hint = |host: &str, port| hint(host, Some(port), None).unwrap();

        assert!(hint("a.test", 443).contains("\"a.test\""));
        assert!(hint("a.test", 8443).contains("\"a.test:8443\""));
        assert!(hint(MANY_HOSTS, 443).contains("very many"));
    }

    #[test]
    fn what_was_told_is_not_told_again_and_what_was_turned_over_is_no_loss() {
        let records = [
            denied("a.test", 1),
            denied("b.test", 2),
            denied("c.test", 3),
        ];

        assert_eq!(news(&records, None).len(), 3);
        assert_eq!(news(&records, Some(&records[1])), &records[2..]);
        assert!(news(&records, Some(&records[2])).is_empty());
        assert_eq!(news(&records, Some(&denied("gone.test", 1))).len(), 3);
    }

    #[test]
    fn questions_for_names_are_not_taken_for_a_port() {
        let summary = audit::summarise(&[Record::new(
            Way::Dns,
            "a.test",
            Some(53),
            Outcome::Denied,
            "no rule allows a.test",
        )]);

        let view = view(summary[0].clone(), None);

        assert!(view.hint.unwrap().contains("\"a.test\""));
    }
}

//! `wt status`: what the daemon says of itself.

use serde::Serialize;
use wt_protocol::{WingId, WingLabel};
use wt_wing::checkup::{self, Skew};
use wt_wing::control::{self, DaemonStatus, LinkState};
use wt_wing::profile::Profile;

use crate::error::Done;
use crate::output::{Output, plain};
use crate::views::timestamp;

/// Show whether this profile's wing or roost runs, and whether its link is up
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Status<'a> {
    running: bool,
    daemon: Option<DaemonView<'a>>,
    /// The version of this program.
    program_version: &'static str,
    /// What runs another version.
    skew: Option<Skew>,
    /// The host of the daemon of a shared profile, when that is another one.
    elsewhere: Option<String>,
}

/// A daemon, as JSON shows it.
#[derive(Serialize)]
pub(super) struct DaemonView<'a> {
    mode: &'a str,
    pid: u32,
    version: &'a str,
    wing_id: &'a WingId,
    fingerprint: &'a str,
    label: &'a WingLabel,
    roost: &'a str,
    account: &'a str,
    link: LinkState,
    link_since: Option<String>,
    error: Option<&'a str>,
    admission: &'a str,
    sessions: u32,
}

impl<'a> From<&'a DaemonStatus> for DaemonView<'a> {
    fn from(status: &'a DaemonStatus) -> Self {
        Self {
            mode: &status.mode,
            pid: status.pid,
            version: &status.version,
            wing_id: &status.wing_id,
            fingerprint: &status.fingerprint,
            label: &status.label,
            roost: &status.roost,
            account: &status.account,
            link: status.link,
            link_since: timestamp(status.link_since_ms),
            error: status.error.as_deref(),
            admission: &status.admission,
            sessions: status.sessions,
        }
    }
}

pub(crate) async fn run(Args {}: Args, output: Output) -> Done {
    show(&Profile::locate()?, output).await
}

pub(super) async fn show(profile: &Profile, output: Output) -> Done {
    let status = control::status(profile).await?;
    let document = Status {
        running: status.is_some(),
        daemon: status.as_ref().map(DaemonView::from),
        program_version: wt_wing::VERSION,
        skew: checkup::skew(profile, status.as_ref()),
        elsewhere: control::elsewhere(profile)?,
    };
    output.answer(&document, || {
        let mut lines = vec![match (&status, &document.elsewhere) {
            (Some(status), _) => describe(status),
            (None, Some(host)) => format!(
                "not running here; it runs on the host {}, which shares this profile",
                plain(host)
            ),
            (None, None) => "not running".to_owned(),
        }];
        lines.extend(document.skew.as_ref().map(describe_skew));
        lines.join("\n")
    })?;
    Ok(0)
}

/// What runs another version, in words.
fn describe_skew(skew: &Skew) -> String {
    let daemon = skew.daemon.as_ref();
    let mut running: Vec<String> = daemon
        .map(|version| format!("the daemon is {}", plain(version)))
        .into_iter()
        .collect();
    running.extend(
        skew.sessions
            .iter()
            .map(|one| format!("the session {} is {}", one.name, plain(&one.version))),
    );
    format!(
        "versions   this program is {}; {}\nhint       {}",
        wt_wing::VERSION,
        running.join(", "),
        skew.hint
    )
}

/// A daemon in words, one fact a line.
pub(super) fn describe(status: &DaemonStatus) -> String {
    let link = match status.link {
        LinkState::Up => "up",
        LinkState::Connecting => "connecting",
        LinkState::Refused => "refused",
    };
    let since = timestamp(status.link_since_ms).map_or(String::new(), |at| format!(" since {at}"));
    let mut lines = vec![
        format!(
            "{:<10} running, process {}, version {}",
            status.mode,
            status.pid,
            plain(&status.version)
        ),
        format!("label      {}", status.label),
        format!("id         {}", status.wing_id),
        format!(
            "roost      {} as {}",
            plain(&status.roost),
            plain(&status.account)
        ),
        format!("link       {link}{since}"),
        format!("admission  {}", plain(&status.admission)),
        format!("sessions   {}", status.sessions),
    ];
    if let Some(error) = &status.error {
        lines.push(format!("error      {}", plain(error)));
    }
    lines.join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_wing::sessions::OtherVersion;

    use super::*;

    #[test]
    fn what_runs_another_version_is_shown_with_what_to_do() {
        let skew = Skew {
            daemon: Some("0.0.9".to_owned()),
            sessions: vec![OtherVersion {
                id: "abcdefghijkl".parse().unwrap(),
                name: "work".parse().unwrap(),
                version: "0.0.8".to_owned(),
            }],
            hint: "start them again".to_owned(),
        };

        let words = describe_skew(&skew);
        assert!(
            words.contains("the daemon is 0.0.9, the session work is 0.0.8\n"),
            "{words}"
        );
        assert!(words.ends_with("hint       start them again"), "{words}");
    }

    #[test]
    fn a_daemon_is_shown_in_this_form() {
        let wing_id: WingId = "abcdefghijklmnopqrstuvwxyz".parse().unwrap();
        let status = DaemonStatus {
            mode: "roost".to_owned(),
            pid: 42,
            version: "0.1.0".to_owned(),
            fingerprint: wing_id.grouped(),
            wing_id,
            label: "desk".parse().unwrap(),
            roost: "http://127.0.0.1:8080".to_owned(),
            account: "local".to_owned(),
            link: LinkState::Up,
            link_since_ms: 1_800_000_000_000,
            error: None,
            admission: "approve".to_owned(),
            sessions: 3,
        };

        insta::assert_snapshot!(describe(&status), @r"
        roost      running, process 42, version 0.1.0
        label      desk
        id         abcdefghijklmnopqrstuvwxyz
        roost      http://127.0.0.1:8080 as local
        link       up since 2027-01-15T08:00:00Z
        admission  approve
        sessions   3
        ");
        insta::assert_snapshot!(
            serde_json::to_string(&Status {
                running: true,
                daemon: Some((&status).into()),
                program_version: "0.1.0",
                skew: None,
                elsewhere: None,
            })
            .unwrap(),
            @r#"{"running":true,"daemon":{"mode":"roost","pid":42,"version":"0.1.0","wing_id":"abcdefghijklmnopqrstuvwxyz","fingerprint":"abcd-efgh-ijkl-mnop-qrst-uvwx-yz","label":"desk","roost":"http://127.0.0.1:8080","account":"local","link":"up","link_since":"2027-01-15T08:00:00Z","error":null,"admission":"approve","sessions":3},"program_version":"0.1.0","skew":null,"elsewhere":null}"#
        );
    }
}

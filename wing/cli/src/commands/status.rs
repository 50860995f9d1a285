//! `wt status`: what the daemon says of itself.

use serde::Serialize;
use wt_protocol::{WingId, WingLabel};
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
    };
    output.answer(&document, || {
        status.as_ref().map_or("not running".to_owned(), describe)
    })?;
    Ok(0)
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
    use super::*;

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
            serde_json::to_string(&Status { running: true, daemon: Some((&status).into()) }).unwrap(),
            @r#"{"running":true,"daemon":{"mode":"roost","pid":42,"version":"0.1.0","wing_id":"abcdefghijklmnopqrstuvwxyz","fingerprint":"abcd-efgh-ijkl-mnop-qrst-uvwx-yz","label":"desk","roost":"http://127.0.0.1:8080","account":"local","link":"up","link_since":"2027-01-15T08:00:00Z","error":null,"admission":"approve","sessions":3}}"#
        );
    }
}

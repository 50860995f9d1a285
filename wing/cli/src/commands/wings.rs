//! `wt wings`: the wings of the account, as the relay lists them and as they say of
//! themselves.

use clap::Subcommand;
use serde::Serialize;
use wt_protocol::WingId;
use wt_wing::ErrorCode;
use wt_wing::client::{self, PinState, WingRow};
use wt_wing::profile::Profile;

use crate::error::{Done, say};
use crate::output::{Output, plain};
use crate::place::open_client;

/// List the wings of your account, and how they compare with their pins
///
/// Each wing that is online is asked who it is, inside a sealed session. A wing that is
/// seen for the first time is pinned. Ends with 4 if one is not who it was.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Ask the relay only: no wing is contacted, and nothing is pinned
    #[arg(long)]
    no_probe: bool,
    /// The roost to ask; it must be the one signed in to
    #[arg(long, value_name = "URL")]
    roost: Option<String>,
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    Forget(Forget),
}

/// Forget a wing's pin; a wing with that label then needs its full id once
#[derive(Debug, clap::Args)]
struct Forget {
    /// The wing's label, id, or a prefix of 8 or more characters of its id
    name: String,
}

#[derive(Serialize)]
struct Listing<'a> {
    roost: &'a str,
    wings: &'a [WingRow],
}

#[derive(Serialize)]
struct Forgotten {
    forgotten: WingId,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    if let Some(Act::Forget(forget)) = args.act {
        let forgotten = client::forget(&profile, &forget.name)?;
        output.answer(
            &Forgotten {
                forgotten: forgotten.clone(),
            },
            || format!("forgot {forgotten}"),
        )?;
        return Ok(0);
    }
    let client = open_client(&profile, args.roost.as_deref())?;
    let rows = client.wings(!args.no_probe).await?;
    let listing = Listing {
        roost: client.roost(),
        wings: &rows,
    };
    if rows.is_empty() && !output.is_json() {
        say("no wings are registered with this account; start one with `wt start`");
    }
    output.answer(&listing, || table(output, &rows))?;
    Ok(exit_code(&rows))
}

/// A wing that cannot be reached is a row like others; one that is not who it was is not.
fn exit_code(rows: &[WingRow]) -> u8 {
    if rows.iter().any(|row| row.pin == PinState::Mismatch) {
        ErrorCode::IdentityMismatch.exit_code()
    } else {
        0
    }
}

fn table(output: Output, rows: &[WingRow]) -> String {
    let heading = [
        "LABEL",
        "ONLINE",
        "PIN",
        "SESSIONS",
        "RTT",
        "HOST",
        "VERSION",
        "FINGERPRINT",
        "ERROR",
    ];
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    output.table(&heading, &rows)
}

fn row(wing: &WingRow) -> Vec<String> {
    let text = |text: &Option<String>| {
        text.as_deref()
            .map_or("-".to_owned(), |text| plain(text).into_owned())
    };
    vec![
        wing.label
            .as_ref()
            .map_or("-".to_owned(), ToString::to_string),
        if wing.online { "yes" } else { "no" }.to_owned(),
        pin_word(wing.pin).to_owned(),
        wing.sessions.map_or("-".to_owned(), |n| n.to_string()),
        wing.rtt_ms
            .map_or("-".to_owned(), |ms| format!("{ms:.0}ms")),
        text(&wing.hostname),
        text(&wing.version),
        wing.fingerprint.clone(),
        wing.error
            .as_deref()
            .map_or(String::new(), |error| plain(error).into_owned()),
    ]
}

fn pin_word(pin: PinState) -> &'static str {
    match pin {
        PinState::FirstSeen => "first seen",
        PinState::Match => "match",
        PinState::LabelConflict => "LABEL CONFLICT",
        PinState::Mismatch => "MISMATCH",
        PinState::Unprobed => "unprobed",
        PinState::Revoked => "REVOKED",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn wing(pin: PinState) -> WingRow {
        let wing_id: WingId = "abcdefghijklmnopqrstuvwxyz".parse().unwrap();
        WingRow {
            fingerprint: wing_id.grouped(),
            wing_id,
            label: Some("desk".parse().unwrap()),
            online: true,
            pin,
            hostname: Some("desk.example\x1b[2J".to_owned()),
            platform: Some("linux/x86_64".to_owned()),
            version: Some("0.1.0".to_owned()),
            admission: Some("approve".to_owned()),
            sessions: Some(2),
            rtt_ms: Some(12.34),
            error: None,
        }
    }

    #[test]
    fn a_row_is_listed_in_this_form() {
        let rows = [wing(PinState::FirstSeen)];
        let listing = Listing {
            roost: "http://127.0.0.1:8080",
            wings: &rows,
        };

        insta::assert_snapshot!(
            serde_json::to_string(&listing).unwrap(),
            @r#"{"roost":"http://127.0.0.1:8080","wings":[{"wing_id":"abcdefghijklmnopqrstuvwxyz","label":"desk","online":true,"fingerprint":"abcd-efgh-ijkl-mnop-qrst-uvwx-yz","pin":"first_seen","hostname":"desk.example\u001b[2J","platform":"linux/x86_64","version":"0.1.0","admission":"approve","sessions":2,"rtt_ms":12.34,"error":null}]}"#
        );
        insta::assert_snapshot!(table(Output::new(true), &rows), @r"
        LABEL  ONLINE  PIN         SESSIONS  RTT   HOST                   VERSION  FINGERPRINT                       ERROR
        desk   yes     first seen  2         12ms  desk.example\u{1b}[2J  0.1.0    abcd-efgh-ijkl-mnop-qrst-uvwx-yz
        ");
    }

    #[test]
    fn only_a_mismatch_makes_the_command_fail() {
        let pins = [
            PinState::FirstSeen,
            PinState::Match,
            PinState::LabelConflict,
            PinState::Unprobed,
            PinState::Revoked,
        ];
        let mut rows: Vec<WingRow> = pins.into_iter().map(wing).collect();
        rows[1].error = Some("it cannot be reached".to_owned());
        assert_eq!(exit_code(&rows), 0);

        rows.push(wing(PinState::Mismatch));
        assert_eq!(exit_code(&rows), 4);
    }
}

//! `wt login`: signs this profile in to a roost.

use serde::Serialize;
use wt_wing::login::{self, Login};
use wt_wing::profile::Profile;

use crate::error::{Done, Stop, say};
use crate::output::{Output, plain};

/// Sign this profile in to a roost
///
/// Shows a code that is typed into the roost's page, or given to `wt roost approve CODE` on
/// the roost's machine, and waits for that. With --json the first line carries the code and
/// where to type it, the last one the account.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The roost; by default the one that this profile belongs to
    #[arg(long, value_name = "URL")]
    roost: Option<String>,
}

#[derive(Serialize)]
struct Waiting<'a> {
    user_code: &'a str,
    verification_uri: &'a str,
    expires_in: u32,
}

#[derive(Serialize)]
struct SignedIn<'a> {
    account: &'a str,
    roost: &'a str,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let Login { roost, account } = sign_in(&profile, args.roost.as_deref(), output).await?;
    output.answer(
        &SignedIn {
            account: &account,
            roost: &roost,
        },
        || format!("signed in to {} as {}", plain(&roost), plain(&account)),
    )?;
    Ok(0)
}

/// Goes through a login up to its approval.
pub(super) async fn sign_in(
    profile: &Profile,
    roost: Option<&str>,
    output: Output,
) -> Result<Login, Stop> {
    let pending = login::start(profile, roost).await?;
    let (code, page) = (pending.user_code(), pending.verification_uri());
    if output.is_json() {
        output.document(&Waiting {
            user_code: code,
            verification_uri: page,
            expires_in: pending.expires_in(),
        })?;
    } else {
        let minutes = pending.expires_in().div_ceil(60);
        say(&format!("open {} and type {}", plain(page), plain(code)));
        say(&format!(
            "or, on the roost's machine: wt roost approve {}",
            plain(code)
        ));
        say(&format!(
            "the code holds for {minutes} minutes; waiting ..."
        ));
    }
    Ok(pending.wait().await?)
}

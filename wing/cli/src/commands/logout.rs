//! `wt logout`: signs this profile out.

use serde::Serialize;
use wt_wing::login;
use wt_wing::profile::Profile;

use crate::error::Done;
use crate::output::{Output, plain};

/// Sign this profile out of its roost; keys, pins and sessions stay
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct SignedOut<'a> {
    signed_out: bool,
    account: &'a str,
    roost: &'a str,
}

pub(crate) async fn run(Args {}: Args, output: Output) -> Done {
    let login = login::logout(&Profile::locate()?).await?;
    let document = SignedOut {
        signed_out: true,
        account: &login.account,
        roost: &login.roost,
    };
    output.answer(&document, || {
        format!("signed out of {}", plain(&login.roost))
    })?;
    Ok(0)
}

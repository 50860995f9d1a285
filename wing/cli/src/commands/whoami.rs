//! `wt whoami`: the account and keys of this profile.

use serde::Serialize;
use wt_protocol::keys::{ClientKey, DeviceKey};
use wt_wing::login;
use wt_wing::profile::Profile;

use crate::error::Done;
use crate::output::{Output, plain};

/// Show which account this profile is signed in to, and its keys
///
/// The client key is the one that `wt wing allow` takes on a wing's machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Who {
    account: String,
    roost: String,
    device_name: String,
    device: DeviceKey,
    client: ClientKey,
}

pub(crate) async fn run(Args {}: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let (login, whoami) = login::whoami(&profile).await?;
    let who = Who {
        account: whoami.account,
        roost: login.origin,
        device_name: whoami.device_name,
        device: whoami.device,
        client: profile.client_secret()?.public(),
    };
    output.answer(&who, || {
        format!(
            "account  {}\nroost    {}\ndevice   {} {}\nclient   {}",
            plain(&who.account),
            plain(&who.roost),
            plain(&who.device_name),
            who.device,
            who.client
        )
    })?;
    Ok(0)
}

//! `wt wing`: this profile's own wing.

use clap::Subcommand;
use serde::Serialize;
use wt_crypto::Role;
use wt_protocol::keys::ClientKey;
use wt_protocol::{WingId, WingLabel};
use wt_wing::admission;
use wt_wing::config::WingConfig;
use wt_wing::profile::Profile;

use crate::error::Done;
use crate::output::{Output, plain};

/// Show this profile's wing, and say who may use it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    Id(Id),
    #[command(visible_alias = "approve")]
    Allow(Allow),
}

/// Print the wing's id, label and fingerprint
///
/// The fingerprint is what to compare when a client shows it. It is the whole id in groups.
#[derive(Debug, clap::Args)]
struct Id {}

/// Let a client use this wing's sessions for a year
///
/// The key is shown by `wt whoami` on the client's machine, and when it is refused.
#[derive(Debug, clap::Args)]
struct Allow {
    /// The client's key
    key: ClientKey,
    /// What to call it on the wing's list
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
}

#[derive(Serialize)]
struct Identity {
    wing_id: WingId,
    label: WingLabel,
    fingerprint: String,
}

#[derive(Serialize)]
struct Allowed {
    client: ClientKey,
    name: String,
    role: Role,
}

pub(crate) fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    match args.act {
        Act::Id(Id {}) => {
            let wing_id = profile.wing_identity()?.wing_id();
            let label = WingConfig::read(&profile)?.label();
            let identity = Identity {
                fingerprint: wing_id.grouped(),
                wing_id,
                label,
            };
            output.answer(&identity, || {
                let Identity {
                    wing_id,
                    label,
                    fingerprint,
                } = &identity;
                format!("id           {wing_id}\nlabel        {label}\nfingerprint  {fingerprint}")
            })?;
        }
        Act::Allow(allow) => {
            let entry = admission::admit(&profile, allow.key, None, &allow.name, Role::Operator)?;
            let allowed = Allowed {
                client: entry.client,
                name: entry.name,
                role: entry.role,
            };
            output.answer(&allowed, || {
                let who = if allowed.name.is_empty() {
                    allowed.client.to_string()
                } else {
                    plain(&allowed.name).into_owned()
                };
                format!("{who} may use this wing")
            })?;
        }
    }
    Ok(0)
}

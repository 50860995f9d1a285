//! `wt session rm`: forgets an ended session.

use std::fs;
use std::time::Duration;

use serde::Serialize;
use wt_files::Lock;
use wt_wing::Error;
use wt_wing::profile::Profile;

use crate::error::{Done, Stop};
use crate::output::{Output, plain};

/// How long others may hold the lock on names; a start holds it for as long as it takes.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Remove an ended session of this profile, with its output
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session's name, id, or a unique prefix of its id
    name: String,
}

#[derive(Serialize)]
struct Removed {
    removed: String,
    name: String,
}

pub(crate) async fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let sessions = profile.sessions();
    let session = sessions.get(&args.name).await?;
    let name = plain(&session.name).into_owned();
    if session.status.is_living() {
        return Err(Stop::Error(
            Error::failed(format!("the session {name} is living"))
                .hint(format!("end it first: wt session kill {name}")),
        ));
    }
    let folder = profile.file("eggs");
    let path = folder.join(&session.id);
    let removing = tokio::task::spawn_blocking(move || -> Result<(), Error> {
        let _names = Lock::acquire(&folder.join(".lock"), LOCK_WAIT)?;
        fs::remove_dir_all(&path)
            .map_err(|e| Error::failed(format!("cannot remove {}: {e}", path.display())))
    });
    removing.await.map_err(Error::failed)??;
    output.answer(
        &Removed {
            removed: session.id,
            name: session.name,
        },
        || format!("removed {name}"),
    )?;
    Ok(0)
}

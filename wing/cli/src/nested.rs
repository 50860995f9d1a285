//! Refuses to show a session inside a session.
//!
//! A session that shows itself, straight or through another, feeds its own output to
//! itself for ever; and of two clients in one terminal the outer one takes the keys of the
//! inner. `WINGTHING_SESSION`, which every session's program gets, tells.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::unistd::{AccessFlags, access};
use wt_protocol::rpc::SessionRecord;
use wt_wing::{Error, ErrorCode};

use crate::output::plain;
use crate::place::{Place, Where};
use wt_wing::profile::Profile;

const VARIABLE: &str = "WINGTHING_SESSION";

/// Most processes above another that are looked at; trees are not deeper.
const MAX_ANCESTORS: usize = 256;

/// How a session that is to be shown relates to the one that this terminal is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// It is the same.
    Same,
    /// It shows this one already.
    Shows,
    /// It is another one, or one that is to be started.
    Other,
}

/// The name of the session that this terminal is in, if it is in one.
pub(crate) fn session() -> Option<String> {
    let id = env::var(VARIABLE).ok().filter(|id| !id.is_empty())?;
    let name = env::var(format!("{VARIABLE}_NAME")).unwrap_or(id);
    Some(plain(&name).into_owned())
}

/// Refuses what needs the profile inside a session that cannot see it, before a half of it
/// fails for reasons that say nothing.
pub(crate) fn refuse_hidden(profile: &Profile) -> Result<(), Error> {
    let Some(session) = session() else {
        return Ok(());
    };
    // It is there and cannot be looked into, or what would hold it cannot be written.
    let is_hidden = match fs::read_dir(profile.path()) {
        Ok(_) => false,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let above = profile.path().ancestors().skip(1).find(|p| p.exists());
            above.is_none_or(|above| access(above, AccessFlags::W_OK).is_err())
        }
        Err(_) => true,
    };
    if !is_hidden {
        return Ok(());
    }
    let message = format!(
        "this terminal is in the session {session}, which sees neither the profile {} nor other sessions",
        profile.path().display()
    );
    Err(Error::new(ErrorCode::Refused, message).hint("start sessions in a terminal outside of it"))
}

/// Says of a boundary that could not be put up that it is the one around it that refuses.
pub(crate) fn explain(error: Error) -> Error {
    match session() {
        Some(session) if error.code == ErrorCode::NotEnforced => error.hint(format!(
            "this terminal is in the session {session}, and in a sandbox no other can be put up: start sessions outside of it, and switch off a sandbox that a program has of its own"
        )),
        _ => error,
    }
}

/// Refuses if this terminal is in a session; `target` is what is to be shown, and none
/// when it is not chosen or started yet.
pub(crate) async fn refuse(
    profile: &Profile,
    place: &Place,
    target: Option<&SessionRecord>,
) -> Result<(), Error> {
    let Some(id) = env::var(VARIABLE).ok().filter(|id| !id.is_empty()) else {
        return Ok(());
    };
    let here = Place::find(profile, &Where::default()).await?;
    // It may be a session of another profile or another machine.
    let inside = here.get(&id).await.ok().filter(|inside| inside.id == id);
    let name = match &inside {
        Some(inside) => inside.name.clone(),
        None => env::var("WINGTHING_SESSION_NAME").unwrap_or_else(|_| id.clone()),
    };
    let relation = match (target, &inside) {
        (Some(target), _) if target.id == id => Relation::Same,
        (Some(target), Some(inside)) if is_of_here(place, &here, target).await => {
            if shows(target, inside) {
                Relation::Shows
            } else {
                Relation::Other
            }
        }
        _ => Relation::Other,
    };
    Err(refusal(
        &plain(&name),
        target.map(|target| plain(&target.name)).as_deref(),
        relation,
    ))
}

/// Whether a session is one of this profile, by whichever way it is reached: `--remote`
/// and `--wing` may lead back to this machine.
async fn is_of_here(place: &Place, here: &Place, target: &SessionRecord) -> bool {
    match place {
        Place::Here(_) => true,
        Place::There(_) | Place::Remote(_) => here
            .get(&target.id)
            .await
            .is_ok_and(|own| own.id == target.id),
    }
}

fn refusal(inside: &str, target: Option<&str>, relation: Relation) -> Error {
    let message = match (relation, target) {
        (Relation::Same, _) => {
            format!("this terminal is in the session {inside}: {inside} would show {inside}")
        }
        (Relation::Shows, Some(target)) => format!(
            "this terminal is in the session {inside}, and {target} shows {inside} already: \
             {target} shows {inside} shows {target}"
        ),
        (Relation::Other, Some(target)) => {
            format!("this terminal is in the session {inside}: {target} would be shown inside it")
        }
        (Relation::Shows | Relation::Other, None) => {
            format!("this terminal is in the session {inside}: another would be shown inside it")
        }
    };
    Error::failed(message).hint(format!("to nest them all the same: unset {VARIABLE}"))
}

/// Whether a client that runs inside `outer` shows `inner`, as far as the processes tell.
fn shows(outer: &SessionRecord, inner: &SessionRecord) -> bool {
    let (Some(program), true) = (outer.pid, inner.clients > 0) else {
        return false;
    };
    let ours = fs::metadata("/proc/self/exe")
        .map(|file| (file.dev(), file.ino()))
        .ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.any(|pid| {
        let is_ours = fs::metadata(format!("/proc/{pid}/exe"))
            .map(|file| (file.dev(), file.ino()))
            .ok()
            == ours;
        is_ours
            && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_client_of(&line, inner))
            && is_below(pid, program)
    })
}

/// Whether a command line, its words ended by zeros, is that of a client of a session.
fn is_client_of(line: &[u8], session: &SessionRecord) -> bool {
    let words: Vec<&[u8]> = line.split(|&byte| byte == 0).skip(1).collect();
    let has = |word: &str| words.contains(&word.as_bytes());
    (has("attach") || has("terminal") || has("new") || has("egg"))
        && (has(&session.name) || has(&session.id))
}

fn is_below(pid: u32, ancestor: u32) -> bool {
    let mut at = pid;
    for _ in 0..MAX_ANCESTORS {
        if at == ancestor {
            return true;
        }
        match parent(at) {
            Some(above) if above > 1 => at = above,
            Some(_) | None => return false,
        }
    }
    false
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::views::tests::record;

    #[test]
    fn the_loop_is_named_when_there_is_one() {
        let said = |target, relation| refusal("a", target, relation).message;

        assert!(said(Some("a"), Relation::Same).ends_with("a would show a"));
        assert!(said(Some("b"), Relation::Shows).ends_with("b shows a shows b"));
        assert!(said(Some("b"), Relation::Other).ends_with("b would be shown inside it"));
        assert!(said(None, Relation::Other).contains("in the session a"));
        let error = refusal("a", None, Relation::Other);
        assert_eq!(error.code.exit_code(), 1);
        assert!(error.hint.unwrap().ends_with("unset WINGTHING_SESSION"));
    }

    #[test]
    fn a_client_is_known_by_its_command_line() {
        let session = record("abcdefghijkl", "work");
        let is = |line: &str| is_client_of(line.replace(' ', "\0").as_bytes(), &session);

        assert!(is("wt attach work"));
        assert!(is("wt attach --read-only abcdefghijkl"));
        assert!(is("wt terminal --name work"));
        assert!(!is("wt attach workshop"));
        assert!(!is("wt session read work"));
    }

    #[test]
    fn this_process_is_below_its_parent_and_not_the_other_way_round() {
        let (child, above) = (std::process::id(), std::os::unix::process::parent_id());

        assert!(is_below(child, above));
        assert!(!is_below(above, child));
    }
}

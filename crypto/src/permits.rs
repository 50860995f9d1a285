//! What a role may ask, and where its sessions may start: the one place that says so.

use wt_protocol::access::{Role, WingRequest};
use wt_protocol::rpc::{BoundaryChoice, Request};

/// Whether a role may ask this at all.
///
/// What an owner asks about the wing itself goes through [`crate::Admission`] as well: a
/// change wants a passkey and an entry that was made at the machine.
pub fn permits(role: Role, request: &Request) -> bool {
    let least = match request {
        Request::WingInfo
        | Request::Sessions
        | Request::Session { .. }
        | Request::Screen { .. }
        | Request::Output { .. }
        | Request::Recording { .. }
        | Request::Wait(_)
        // A passkey that is offered counts for nothing until somebody lets it in.
        | Request::Wing(WingRequest::Challenge | WingRequest::Enrol(_)) => Role::Observer,
        Request::Start(_)
        | Request::Resume { .. }
        | Request::StartIn { .. }
        | Request::Kill { .. }
        | Request::Rename { .. }
        | Request::Send(_)
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::Remove { .. } => Role::Operator,
        Request::Wing(WingRequest::Clients | WingRequest::Change(_)) => Role::Owner,
    };
    role >= least
}

/// Whether a session of a client with these paths may start in this folder.
///
/// `cwd` is absolute and has no symbolic links left in it: the shell resolves it first,
/// and starts the session in what it resolved. No paths at all allow every folder.
pub fn may_start_in(paths: &[String], cwd: &str) -> bool {
    let Some(cwd) = parts(cwd) else {
        return false;
    };
    paths.is_empty()
        || paths
            .iter()
            .filter_map(|path| parts(path))
            .any(|path| cwd.starts_with(&path))
}

/// Whether a client with these paths may choose this boundary. One that is kept to some
/// folders may not start without a sandbox, or in one of its own making.
pub fn may_choose(paths: &[String], boundary: &BoundaryChoice) -> bool {
    paths.is_empty() || (!boundary.unsandboxed && boundary.config.is_none())
}

/// The parts of an absolute path; none for one that is relative or climbs.
fn parts(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix('/')?;
    let parts: Vec<&str> = rest
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    let is_plain = !parts.contains(&"..") && !path.contains('\0');
    is_plain.then_some(parts)
}

#[cfg(test)]
mod tests {
    use wt_protocol::rpc::{StartSession, Until, WaitFor, WaitFrom};
    use wt_protocol::session::Winsize;

    use super::*;

    #[test]
    fn observers_read_operators_act_and_owners_change_the_wing() {
        let session = || "work".to_owned();
        let start = || StartSession {
            name: None,
            command: Vec::new(),
            cwd: None,
            env: Vec::new(),
            size: Winsize::DEFAULT,
            agent: None,
            record: false,
        };
        let wait = WaitFor {
            session: session(),
            until: Until::Exit,
            from: WaitFrom::Now,
            timeout_ms: 1,
        };
        let of = |request: Request| Role::ALL.map(|role| permits(role, &request));

        let reads = [true, true, true];
        assert_eq!(of(Request::WingInfo), reads);
        assert_eq!(of(Request::Sessions), reads);
        assert_eq!(of(Request::Session { session: session() }), reads);
        assert_eq!(of(Request::Wait(wait)), reads);
        let acts = [false, true, true];
        assert_eq!(of(Request::Start(start())), acts);
        assert_eq!(of(Request::Kill { session: session() }), acts);
        assert_eq!(of(Request::Remove { session: session() }), acts);
        let changes = [false, false, true];
        assert_eq!(of(Request::Wing(WingRequest::Clients)), changes);
        assert_eq!(of(Request::Wing(WingRequest::Challenge)), reads);
    }

    #[test]
    fn whatever_acts_on_sessions_is_not_for_observers() {
        let kill = Request::Kill {
            session: "work".to_owned(),
        };

        assert!(kill.is_acting() && !permits(Role::Observer, &kill));
        assert!(!Request::Sessions.is_acting() && permits(Role::Observer, &Request::Sessions));
    }

    #[test]
    fn a_session_starts_inside_the_paths_and_nowhere_else() {
        let paths = ["/srv/app".to_owned(), "/home/ada/".to_owned()];
        let may = |cwd: &str| may_start_in(&paths, cwd);

        for inside in [
            "/srv/app",
            "/srv/app/",
            "/srv/app/x",
            "/home/ada",
            "//srv//app/./y",
        ] {
            assert!(may(inside), "{inside}");
        }
        for outside in [
            "/",
            "/srv",
            "/srv/apple",
            "/srv/app/..",
            "/srv/app/../x",
            "srv/app",
            "",
            "/home/ada\0",
            "/home/adam",
        ] {
            assert!(!may(outside), "{outside}");
        }
        assert!(may_start_in(&[], "/anywhere"));
        assert!(!may_start_in(&[], "relative"));
        assert!(may_start_in(&["/".to_owned()], "/anywhere"));
        assert!(!may_start_in(&["relative".to_owned()], "/anywhere"));
    }

    #[test]
    fn a_client_that_is_kept_to_folders_cannot_choose_its_boundary_away() {
        let kept = ["/srv".to_owned()];
        let plain = BoundaryChoice::default();
        let open = BoundaryChoice {
            unsandboxed: true,
            ..plain.clone()
        };
        let own = BoundaryChoice {
            config: Some("/srv/egg.yaml".to_owned()),
            ..plain.clone()
        };

        assert!(may_choose(&kept, &plain));
        assert!(!may_choose(&kept, &open) && !may_choose(&kept, &own));
        assert!(may_choose(&[], &open) && may_choose(&[], &own));
    }
}

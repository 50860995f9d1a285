//! Limits of single processes, as in setrlimit(2).
//!
//! Limits of a whole session are the work of [`crate::cgroup`]. There is deliberately no limit of
//! address space: engines for JavaScript, Java and Go reserve far more than they use, and die of
//! such a limit at once.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::{EnforcementError, Step};

/// Open files of a process unless the policy says otherwise: what programs may raise their limit
/// to. Enough for watchers of large trees, and little enough that a loop over all of them ends.
pub const DEFAULT_OPEN_FILES: u64 = 65_536;
/// Open files before a program raises its limit. Programs that use select(2) break on more.
const SOFT_OPEN_FILES: u64 = 1_024;
/// Bytes of a core dump. Zero would still start a program that the kernel pipes dumps to,
/// outside of the session; one byte stops both (core(5)).
const CORE_BYTES: u64 = 1;

/// A limit of single processes, as in setrlimit(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// What is limited.
    pub resource: RlimitKind,
    /// The limit that holds, which the process may raise.
    pub soft: u64,
    /// How far it may raise it.
    pub hard: u64,
}

/// What is limited for single processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RlimitKind {
    /// Bytes of a core dump.
    Core,
    /// Open files.
    OpenFiles,
    /// Processes of the user in the session's user namespace. It does not hold for uid 0.
    Processes,
    /// How far a process may raise its own priority: 20 minus this is the least nice value.
    Nice,
    /// The highest priority for real-time scheduling.
    RealtimePriority,
}

impl RlimitKind {
    fn resource(self) -> Resource {
        match self {
            Self::Core => Resource::RLIMIT_CORE,
            Self::OpenFiles => Resource::RLIMIT_NOFILE,
            Self::Processes => Resource::RLIMIT_NPROC,
            Self::Nice => Resource::RLIMIT_NICE,
            Self::RealtimePriority => Resource::RLIMIT_RTPRIO,
        }
    }
}

/// The limits that every session has.
///
/// `open_files` is the policy's limit, by default [`DEFAULT_OPEN_FILES`]. `processes` is for hosts
/// where no cgroup counts them.
pub fn standard(open_files: Option<u32>, processes: Option<u32>) -> Vec<Rlimit> {
    let same = |resource, value| Rlimit {
        resource,
        soft: value,
        hard: value,
    };
    let open = open_files.map_or(DEFAULT_OPEN_FILES, u64::from);
    let mut limits = vec![
        same(RlimitKind::Core, CORE_BYTES),
        Rlimit {
            resource: RlimitKind::OpenFiles,
            soft: open.min(SOFT_OPEN_FILES),
            hard: open,
        },
        same(RlimitKind::Nice, 0),
        same(RlimitKind::RealtimePriority, 0),
    ];
    if let Some(processes) = processes {
        limits.push(same(RlimitKind::Processes, processes.into()));
    }
    limits
}

/// Sets limits for the calling process and all that it starts.
///
/// What already is lower stays: a session never gets more than its maker had.
///
/// # Errors
///
/// When the kernel refuses one, or does not hold what was set.
pub fn apply(limits: &[Rlimit]) -> Result<(), EnforcementError> {
    for limit in limits {
        set(limit).map_err(|e| {
            EnforcementError::system(Step::Resources, format!("{:?}", limit.resource), &e)
        })?;
    }
    Ok(())
}

fn set(limit: &Rlimit) -> io::Result<()> {
    let resource = limit.resource.resource();
    let (_, had) = getrlimit(resource)?;
    let hard = limit.hard.min(had);
    let soft = limit.soft.min(hard);
    setrlimit(resource, soft, hard)?;
    if getrlimit(resource)? == (soft, hard) {
        Ok(())
    } else {
        Err(io::Error::other("the limit did not stay as it was set"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::in_own_process;

    #[test]
    fn limits_hold_and_are_not_raised() {
        in_own_process("rlimits::tests::limits_hold_and_are_not_raised", || {
            apply(&standard(Some(40), None)).unwrap();
            apply(&standard(Some(4_000), None)).unwrap();

            assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (40, 40));
            assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (1, 1));
            let opened: Vec<_> = (0..50)
                .map_while(|_| std::fs::File::open("/dev/null").ok())
                .collect();
            assert!(opened.len() < 40, "{}", opened.len());
        });
    }

    #[test]
    fn more_files_can_be_opened_without_the_limit() {
        let opened: Vec<_> = (0..50)
            .map_while(|_| std::fs::File::open("/dev/null").ok())
            .collect();

        assert_eq!(opened.len(), 50);
    }

    #[test]
    fn a_standard_session_may_raise_its_open_files() {
        let open = standard(None, None)[1];

        assert_eq!((open.soft, open.hard), (1_024, 65_536));
    }
}

//! Giving up what a session must not have: capabilities, new privileges, the maker's
//! keyring and descriptors.
//!
//! All of it concerns the calling thread (descriptors and dumpability: the process) and what
//! it starts, and none of it can be taken back. The callers are single-threaded stages.

use std::fs;
use std::io;
use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use crate::sys::kernel::{self, Capabilities};
use crate::{EnforcementError, Step};

/// More capabilities than any kernel has; the bounding set is a word of 64 bits.
const MAX_CAPABILITIES: u32 = 64;
/// Filtering, in the `Seccomp:` line of a status file.
const SECCOMP_FILTERING: u32 = 2;

/// Gives up all capabilities, those that programs could bring back among them.
///
/// # Errors
///
/// When the kernel refuses, or when afterwards one is still there.
pub fn drop_all() -> Result<(), EnforcementError> {
    let failed = |what: &'static str| move |e| EnforcementError::system(Step::Privileges, what, &e);
    kernel::clear_ambient_capabilities().map_err(failed("clearing ambient capabilities"))?;
    drop_bounding_set().map_err(failed("emptying the bounding set"))?;
    kernel::clear_capabilities().map_err(failed("clearing capabilities"))?;
    let left = kernel::capabilities().map_err(failed("reading capabilities"))?;
    if left == Capabilities::default() {
        Ok(())
    } else {
        Err(EnforcementError::new(
            Step::Privileges,
            format!("capabilities are left: {left:x?}"),
        ))
    }
}

fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..MAX_CAPABILITIES {
        match kernel::in_bounding_set(capability) {
            Ok(true) => kernel::drop_from_bounding_set(capability)?,
            Ok(false) => {}
            // The first one that this kernel does not have.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Makes sure that executing a program never adds privileges.
///
/// # Errors
///
/// When the kernel refuses, or does not hold it.
pub fn no_new_privileges() -> Result<(), EnforcementError> {
    kernel::set_no_new_privileges()
        .and_then(|()| kernel::no_new_privileges())
        .and_then(held)
        .map_err(|e| EnforcementError::system(Step::Privileges, "no_new_privs", &e))
}

/// Makes sure that processes of the same user can neither trace this one nor read its memory,
/// descriptors and links in `/proc`. execve(2) takes it back.
///
/// # Errors
///
/// When the kernel refuses, or does not hold it.
pub fn not_dumpable() -> Result<(), EnforcementError> {
    kernel::set_dumpable(false)
        .and_then(|()| kernel::dumpable())
        .and_then(|value| held(value == 0))
        .map_err(|e| EnforcementError::system(Step::Privileges, "making it undumpable", &e))
}

fn held(holds: bool) -> io::Result<()> {
    if holds {
        Ok(())
    } else {
        Err(io::Error::other("it did not stay as it was set"))
    }
}

/// What became of the keyring of the maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keyring {
    /// It was left for a new, empty one.
    Fresh,
    /// The kernel has no keyrings.
    Absent,
    /// A filter around this process refuses every use of keyrings, as container engines do; it
    /// holds for all that is started here too.
    Closed,
}

/// Leaves the session keyring of the maker, which otherwise passes through every namespace.
///
/// # Errors
///
/// When the kernel refuses, which it does when the user has too many keys.
pub fn new_session_keyring() -> Result<Keyring, EnforcementError> {
    let error = match kernel::join_new_session_keyring() {
        Ok(()) => return Ok(Keyring::Fresh),
        Err(error) => error,
    };
    let code = |error: &io::Error| error.raw_os_error();
    match code(&error) {
        Some(libc::ENOSYS) => Ok(Keyring::Absent),
        // Looking up one's own keyring is refused by nothing in the kernel but a filter.
        Some(libc::EPERM)
            if kernel::session_keyring().is_err_and(|e| code(&e) == Some(libc::EPERM)) =>
        {
            Ok(Keyring::Closed)
        }
        _ => Err(
            EnforcementError::system(Step::Keyring, "joining a new session keyring", &error)
                .hint("see /proc/key-users: the user may have too many keys"),
        ),
    }
}

/// Closes all descriptors from `first` on, but those of `keep`.
///
/// Nothing may use a descriptor that is not in `keep` afterwards: what owned it does not learn
/// that it is gone.
///
/// # Errors
///
/// When the kernel refuses.
pub fn close_from(first: RawFd, keep: &[RawFd]) -> Result<(), EnforcementError> {
    gaps(first, keep)
        .into_iter()
        .try_for_each(|(from, to)| kernel::close_range(from, to, false))
        .map_err(|e| EnforcementError::system(Step::Descriptors, "closing what is open", &e))
}

/// Marks all descriptors from `first` on for closing when a program is executed.
///
/// # Errors
///
/// When the kernel refuses.
pub fn close_on_exec_from(first: RawFd) -> Result<(), EnforcementError> {
    gaps(first, &[])
        .into_iter()
        .try_for_each(|(from, to)| kernel::close_range(from, to, true))
        .map_err(|e| EnforcementError::system(Step::Descriptors, "marking what is open", &e))
}

/// The ranges from `first` on that hold nothing of `keep`.
fn gaps(first: RawFd, keep: &[RawFd]) -> Vec<(u32, u32)> {
    let mut from = u32::try_from(first).unwrap_or(0);
    let mut keep: Vec<u32> = keep
        .iter()
        .filter_map(|&fd| u32::try_from(fd).ok())
        .filter(|&fd| fd >= from)
        .collect();
    keep.sort_unstable();
    let mut gaps = Vec::new();
    for fd in keep {
        if fd > from {
            gaps.push((from, fd - 1));
        }
        from = from.max(fd + 1);
    }
    gaps.push((from, u32::MAX));
    gaps
}

/// What `/proc` says of the calling thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Capabilities that are passed on, a bit for each.
    pub cap_inheritable: u64,
    /// Capabilities that may be used.
    pub cap_permitted: u64,
    /// Capabilities in use.
    pub cap_effective: u64,
    /// Capabilities that programs may bring.
    pub cap_bounding: u64,
    /// Capabilities that survive the execution of any program.
    pub cap_ambient: u64,
    /// Whether executing a program never adds privileges.
    pub no_new_privileges: bool,
    /// 0 without, 2 with filters of system calls.
    pub seccomp_mode: u32,
    /// How many filters there are; 0 where the kernel does not tell (before 5.9).
    pub seccomp_filters: u32,
}

impl Status {
    /// Reads it, from `/proc/thread-self/status`.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or has not the lines that it has since Linux 4.10.
    pub fn read() -> Result<Self, EnforcementError> {
        let path = "/proc/thread-self/status";
        let text = fs::read_to_string(path)
            .map_err(|e| EnforcementError::system(Step::SelfCheck, path, &e))?;
        Self::parse(&text).ok_or_else(|| {
            EnforcementError::new(
                Step::SelfCheck,
                format!("{path} has not the lines that it should have"),
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        let set = |name| u64::from_str_radix(field(name)?, 16).ok();
        Some(Self {
            cap_inheritable: set("CapInh")?,
            cap_permitted: set("CapPrm")?,
            cap_effective: set("CapEff")?,
            cap_bounding: set("CapBnd")?,
            cap_ambient: set("CapAmb")?,
            no_new_privileges: field("NoNewPrivs")? == "1",
            seccomp_mode: field("Seccomp")?.parse().ok()?,
            seccomp_filters: field("Seccomp_filters").map_or(Some(0), |n| n.parse().ok())?,
        })
    }

    /// What a confined process must have and this one lacks, each as half a sentence.
    pub fn shortcomings(&self) -> Vec<String> {
        let sets = [
            ("inheritable", self.cap_inheritable),
            ("permitted", self.cap_permitted),
            ("effective", self.cap_effective),
            ("bounding", self.cap_bounding),
            ("ambient", self.cap_ambient),
        ];
        let mut missing: Vec<_> = sets
            .into_iter()
            .filter(|(_, set)| *set != 0)
            .map(|(name, set)| format!("{name} capabilities are left: {set:x}"))
            .collect();
        if !self.no_new_privileges {
            missing.push("programs may bring new privileges".to_owned());
        }
        if self.seccomp_mode != SECCOMP_FILTERING {
            missing.push("no filter of system calls is there".to_owned());
        }
        missing
    }

    /// Refuses to go on unless capabilities are gone, `no_new_privs` holds and a filter is there.
    ///
    /// # Errors
    ///
    /// With everything that is missing.
    pub fn require_confined(&self) -> Result<(), EnforcementError> {
        let missing = self.shortcomings();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(EnforcementError::new(Step::SelfCheck, missing.join("; ")))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::thread;

    use super::*;
    use crate::seccomp::{self, SeccompPlan, SeccompProfile};
    use crate::testing::in_own_process;

    fn in_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(act).join().unwrap())
    }

    /// Emptying the bounding set is itself a privilege, which a session has in its own user
    /// namespace and an ordinary user outside has not.
    fn may_drop() -> bool {
        const CAP_SETPCAP: u64 = 1 << 8;
        let may = kernel::capabilities().unwrap().effective & CAP_SETPCAP != 0;
        if !may {
            eprintln!("skipped: this user cannot empty the bounding set");
        }
        may
    }

    #[test]
    fn nothing_is_left_after_dropping_all() {
        if !may_drop() {
            return;
        }
        let status = in_thread(|| {
            drop_all().unwrap();
            no_new_privileges().unwrap();
            Status::read().unwrap()
        });

        assert_eq!(
            status,
            Status {
                no_new_privileges: true,
                seccomp_mode: status.seccomp_mode,
                seccomp_filters: status.seccomp_filters,
                ..Status::default()
            }
        );
    }

    #[test]
    fn a_file_of_another_user_cannot_be_read_without_capabilities() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: this user has no capabilities to lose");
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
        fs::set_permissions(file.path(), mode).unwrap();
        let read = || fs::read(file.path()).map_err(|e| e.kind());

        let without = in_thread(|| {
            drop_all().unwrap();
            read()
        });

        assert_eq!(without, Err(io::ErrorKind::PermissionDenied));
        assert_eq!(read(), Ok(Vec::new()));
    }

    #[test]
    fn a_thread_with_everything_lacks_what_confinement_wants() {
        let status = Status {
            cap_effective: 1,
            ..Status::default()
        };

        assert_eq!(
            status.shortcomings(),
            [
                "effective capabilities are left: 1",
                "programs may bring new privileges",
                "no filter of system calls is there",
            ]
        );
        assert!(status.require_confined().is_err());
    }

    #[test]
    fn a_confined_thread_lacks_nothing() {
        if !may_drop() {
            return;
        }
        in_thread(|| {
            drop_all().unwrap();
            no_new_privileges().unwrap();
            let plan = SeccompPlan {
                profile: SeccompProfile::Develop,
                log: false,
            };
            seccomp::install(&seccomp::filter(&plan), plan.log).unwrap();
            Status::read().unwrap().require_confined()
        })
        .unwrap();
    }

    #[test]
    fn the_keyring_of_the_maker_is_left() {
        let before = kernel::session_keyring();
        let (state, after) =
            in_thread(|| (new_session_keyring().unwrap(), kernel::session_keyring()));

        match state {
            Keyring::Fresh => assert_ne!(before.ok(), after.ok()),
            Keyring::Absent | Keyring::Closed => assert!(before.is_err()),
        }
    }

    #[test]
    fn an_undumpable_process_hides_its_links() {
        in_own_process(
            "privileges::tests::an_undumpable_process_hides_its_links",
            || {
                assert_eq!(kernel::dumpable().unwrap(), 1);

                not_dumpable().unwrap();

                assert_eq!(kernel::dumpable().unwrap(), 0);
            },
        );
    }

    #[test]
    fn all_descriptors_but_the_kept_are_closed() {
        in_own_process(
            "privileges::tests::all_descriptors_but_the_kept_are_closed",
            || {
                let files: Vec<_> = (0..4)
                    .map(|_| fs::File::open("/dev/null").unwrap())
                    .collect();
                let fds: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
                // Their owners must not close numbers that others may have by then.
                files.into_iter().for_each(std::mem::forget);

                close_from(3, &[fds[1], fds[3]]).unwrap();

                let open: Vec<_> = fds.iter().map(|&fd| kernel::is_open(fd)).collect();
                assert_eq!(open, [false, true, false, true]);
                assert!(kernel::is_open(1));
            },
        );
    }

    #[test]
    fn gaps_leave_out_the_kept() {
        assert_eq!(gaps(3, &[]), [(3, u32::MAX)]);
        assert_eq!(gaps(3, &[3, 4]), [(5, u32::MAX)]);
        assert_eq!(gaps(3, &[7, 1, 5, 7]), [(3, 4), (6, 6), (8, u32::MAX)]);
    }
}

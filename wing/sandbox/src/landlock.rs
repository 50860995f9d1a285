//! File access by Landlock: a second line behind the mounts of a session.
//!
//! Mounts decide what a session sees. This layer holds if one of them were missing: all
//! rights that the running kernel knows are handled, so what no rule allows is refused, and
//! a thread in such a domain can never mount anything, whatever else it may do. Rules only
//! add: denials below an allowed folder are the mounts' work.

use std::fs;

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use serde::{Deserialize, Serialize};

use crate::sys::kernel;
use crate::{EnforcementError, Step};

/// The version that first restricts abstract sockets and signals (Linux 6.12).
const SCOPES_SINCE: u32 = 6;

/// File access by Landlock: everything that no rule allows is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// What is allowed, by path in the session.
    pub rules: Vec<LandlockRule>,
    /// Whether abstract sockets and signals outside the session are refused too, which
    /// kernels do from version 6 of the interface on.
    pub scopes: bool,
    /// The least version of Landlock's interface that has to be there: what [`abi`] said when
    /// the plan was made.
    pub min_abi: u32,
}

/// What is allowed at and below a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    /// The path in the session.
    pub path: String,
    /// What.
    pub access: LandlockAccess,
}

/// Kinds of access that Landlock rules give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LandlockAccess {
    /// Reading and executing.
    Read,
    /// Everything but making devices and controlling them.
    Write,
    /// Reading, writing and controlling devices that are there.
    Devices,
    /// Reading, executing, and writing files that are there.
    WriteFiles,
}

impl LandlockAccess {
    fn rights(self, abi: ABI) -> BitFlags<AccessFs> {
        let read = AccessFs::from_read(abi);
        let write = make_bitflags!(AccessFs::{WriteFile | Truncate});
        let devices = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});
        let all = AccessFs::from_all(abi);
        match self {
            Self::Read => read,
            Self::Write => all & !devices,
            Self::Devices => {
                all & (make_bitflags!(AccessFs::{ReadFile | ReadDir | IoctlDev}) | write)
            }
            Self::WriteFiles => all & (read | write),
        }
    }
}

/// What holds after [`restrict`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockReport {
    /// The version of the kernel's interface.
    pub abi: u32,
    /// The faults that are mended in this kernel, a bit for each.
    pub errata: u32,
    /// How many kinds of file access are refused unless a rule allows them.
    pub handled: u32,
    /// Whether abstract sockets and signals outside of the session are refused.
    pub scopes: bool,
    /// How many rules were added.
    pub rules: u32,
}

/// The version of Landlock's interface in the running kernel, 0 if it has none or it was not
/// enabled at boot.
pub fn abi() -> u32 {
    kernel::landlock_version().unwrap_or(0)
}

/// The faults of Landlock that are mended in the running kernel, a bit for each.
///
/// Bit 0: sockets that are not TCP were restricted as if they were. Bit 1: threads of one
/// process could not signal each other. Bit 2: a rename could widen rights through a folder
/// that had left its mount.
pub fn errata() -> u32 {
    kernel::landlock_errata()
}

/// Restricts the calling thread and all that it starts, for good.
///
/// It also sets `no_new_privs`, without which the kernel refuses. After it the thread can
/// mount nothing any more.
///
/// # Errors
///
/// When the kernel has less than the plan wants, when a path of a rule does not exist, or when
/// any single right cannot be handled.
pub fn restrict(plan: &LandlockPlan) -> Result<LandlockReport, EnforcementError> {
    let running = abi();
    if running < plan.min_abi.max(1) {
        return Err(EnforcementError::new(
            Step::Landlock,
            format!(
                "this kernel has version {running} of Landlock, and the plan wants at least {}",
                plan.min_abi.max(1)
            ),
        ));
    }
    // A kernel newer than the library gets all that the library knows.
    let known = ABI::from(i32::try_from(running).unwrap_or(i32::MAX));
    let handled = AccessFs::from_all(known);
    let scopes = plan.scopes && running >= SCOPES_SINCE;

    let failed = |what: &str, error: &dyn std::fmt::Display| {
        EnforcementError::new(Step::Landlock, format!("{what}: {error}"))
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)
        .map_err(|e| failed("file access", &e))?;
    if scopes {
        ruleset = ruleset
            .scope(Scope::from_all(known))
            .map_err(|e| failed("scopes", &e))?;
    }
    let mut created = ruleset
        .create()
        .map_err(|e| failed("making the rules", &e))?;
    for rule in &plan.rules {
        let failed = |error: &dyn std::fmt::Display| failed(&rule.path, error);
        let is_folder = fs::metadata(&rule.path).map_err(|e| failed(&e))?.is_dir();
        let mut rights = rule.access.rights(known);
        if !is_folder {
            // Rights of folders are an error on a file.
            rights &= AccessFs::from_file(known);
        }
        let path = PathFd::new(&rule.path).map_err(|e| failed(&e))?;
        created = created
            .add_rule(PathBeneath::new(path, rights))
            .map_err(|e| failed(&e))?;
    }
    let status = created
        .restrict_self()
        .map_err(|e| failed("entering the domain", &e))?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(failed("entering the domain", &"not all of it was enforced"));
    }
    Ok(LandlockReport {
        abi: running,
        errata: errata(),
        handled: u32::try_from(handled.len()).unwrap_or(u32::MAX),
        scopes,
        rules: u32::try_from(plan.rules.len()).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::path::Path;
    use std::thread;

    use super::*;

    fn rule(path: &Path, access: LandlockAccess) -> LandlockRule {
        LandlockRule {
            path: path.to_str().unwrap().to_owned(),
            access,
        }
    }

    fn plan(rules: Vec<LandlockRule>) -> LandlockPlan {
        LandlockPlan {
            rules,
            scopes: true,
            min_abi: abi(),
        }
    }

    /// A thread has a domain of its own, so the rest of the tests goes on without it.
    fn restricted<T: Send>(plan: &LandlockPlan, act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    restrict(plan).unwrap();
                    act()
                })
                .join()
                .unwrap()
        })
    }

    fn denied<T>(result: io::Result<T>) -> bool {
        result.is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
    }

    #[test]
    fn writes_stay_in_the_folders_that_allow_them() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("old"), "old").unwrap();
        let plan = plan(vec![
            rule(Path::new("/"), LandlockAccess::Read),
            rule(&inside, LandlockAccess::Write),
        ]);

        restricted(&plan, || {
            fs::write(inside.join("file"), "x").unwrap();
            fs::create_dir(inside.join("folder")).unwrap();
            fs::rename(inside.join("file"), inside.join("folder/file")).unwrap();
            assert_eq!(fs::read_to_string(outside.join("old")).unwrap(), "old");
            assert!(denied(fs::write(outside.join("old"), "new")));
            assert!(denied(fs::write(outside.join("new"), "new")));
            assert!(denied(fs::create_dir(outside.join("folder"))));
            assert!(denied(fs::remove_file(outside.join("old"))));
            assert!(denied(
                fs::File::options()
                    .write(true)
                    .truncate(true)
                    .open(outside.join("old"))
            ));
        });

        // Without the domain the same acts succeed.
        fs::write(outside.join("old"), "new").unwrap();
        fs::create_dir(outside.join("folder")).unwrap();
        fs::remove_file(outside.join("old")).unwrap();
    }

    #[test]
    fn what_no_rule_allows_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::write(&inside, "in").unwrap();
        fs::write(&outside, "out").unwrap();
        let plan = plan(vec![rule(&inside, LandlockAccess::Read)]);

        restricted(&plan, || {
            assert_eq!(fs::read_to_string(&inside).unwrap(), "in");
            assert!(denied(fs::read_to_string(&outside)));
        });

        assert_eq!(fs::read_to_string(&outside).unwrap(), "out");
    }

    #[test]
    fn files_may_be_written_where_none_may_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("old");
        fs::write(&old, "old").unwrap();
        let plan = plan(vec![rule(dir.path(), LandlockAccess::WriteFiles)]);

        restricted(&plan, || {
            fs::write(&old, "new").unwrap();
            assert!(denied(fs::write(dir.path().join("other"), "x")));
        });
    }

    #[test]
    fn devices_can_be_used() {
        let plan = plan(vec![rule(Path::new("/dev/null"), LandlockAccess::Devices)]);

        restricted(&plan, || {
            fs::write("/dev/null", "x").unwrap();
            assert!(denied(fs::read("/dev/zero")));
        });
    }

    #[test]
    fn abstract_sockets_of_the_host_are_out_of_reach() {
        if abi() < SCOPES_SINCE {
            eprintln!("skipped: Landlock of this kernel knows no scopes");
            return;
        }
        let name = format!("wt-landlock-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let mut open = plan(vec![rule(Path::new("/"), LandlockAccess::Write)]);

        let refused = restricted(&open, || UnixStream::connect_addr(&address).map(drop));
        open.scopes = false;
        let allowed = restricted(&open, || UnixStream::connect_addr(&address).map(drop));

        assert!(denied(refused));
        allowed.unwrap();
    }

    #[test]
    fn a_rule_without_its_path_is_an_error() {
        let plan = plan(vec![rule(
            Path::new("/nowhere/at/all"),
            LandlockAccess::Read,
        )]);

        let error = thread::scope(|s| s.spawn(|| restrict(&plan)).join().unwrap()).unwrap_err();

        assert_eq!(error.step, Step::Landlock);
        assert!(error.cause.contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn a_kernel_that_has_less_than_the_plan_wants_is_an_error() {
        let mut plan = plan(vec![]);
        plan.min_abi = abi() + 1;

        let error = thread::scope(|s| s.spawn(|| restrict(&plan)).join().unwrap()).unwrap_err();

        assert_eq!(error.step, Step::Landlock);
    }

    #[test]
    fn the_report_says_what_holds() {
        let plan = plan(vec![rule(Path::new("/"), LandlockAccess::Read)]);

        let report = thread::scope(|s| s.spawn(|| restrict(&plan)).join().unwrap()).unwrap();

        assert_eq!(report.abi, abi());
        assert_eq!(report.rules, 1);
        assert_eq!(report.scopes, abi() >= SCOPES_SINCE);
        assert!(report.handled >= 13, "{report:?}");
    }
}

//! What this host can enforce, and what to do where it cannot.
//!
//! A start does not ask this: it does what its plan says and fails where the host refuses.
//! `wt doctor` asks it, and [`namespace_failure`] explains a failure with the same knowledge.
//! Causes are told from errors and settings, never from the text of other programs.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::cgroup::{CgroupKind, HostCgroups};
use crate::privileges::Status;
use crate::sys::kernel::{self, Trial, TrialStep};
use crate::{EnforcementError, Step, landlock};

/// The first kernel that changes the flags of a whole tree of mounts in one call.
const LEAST_KERNEL: (u32, u32) = (5, 12);
/// The first kernel whose Landlock refuses all of what ours relies on: devices' controls.
const FULL_LANDLOCK: u32 = 5;
/// `CAP_SYS_ADMIN` of `linux/capability.h`.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// What this host can enforce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    /// The release of the kernel.
    pub kernel: String,
    /// The version of Landlock's interface, 0 without.
    pub landlock_abi: u32,
    /// The faults of Landlock that are mended, a bit for each; see [`landlock::errata`].
    pub landlock_errata: u32,
    /// What would hold the limits of a session.
    pub cgroups: CgroupKind,
    /// Each thing that a session is made of.
    pub features: Vec<Feature>,
}

impl HostReport {
    /// Whether a session can be started with its full boundary.
    pub fn is_sufficient(&self) -> bool {
        self.features
            .iter()
            .all(|feature| !feature.needed || feature.state != FeatureState::Missing)
    }
}

/// One thing that a session is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Which.
    pub name: FeatureName,
    /// Whether it works here.
    pub state: FeatureState,
    /// Whether no session starts without it.
    pub needed: bool,
    /// What was found, in a few words.
    pub detail: String,
    /// Why it does not work or not fully.
    pub cause: Option<String>,
    /// What to do about that; may have several lines.
    pub remedy: Option<String>,
}

/// The things that a session is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureName {
    /// A kernel that is new enough.
    Kernel,
    /// Namespaces for users, mounts and processes, with mounts inside them.
    Namespaces,
    /// A network of its own.
    NetworkNamespace,
    /// A `/proc` that shows the processes of the session alone.
    Proc,
    /// Landlock.
    Landlock,
    /// Filters of system calls.
    Seccomp,
    /// Control groups.
    Cgroups,
    /// The call clone3(2). Nothing depends on it: filters refuse it inside.
    Clone3,
}

impl FeatureName {
    /// The name, as listings show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Namespaces => "namespaces",
            Self::NetworkNamespace => "network-namespace",
            Self::Proc => "proc",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Cgroups => "cgroups",
            Self::Clone3 => "clone3",
        }
    }
}

impl fmt::Display for FeatureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureState {
    /// It works.
    Works,
    /// A part of it works.
    Partial,
    /// It does not work.
    Missing,
}

/// Looks at the host. It makes real namespaces in a child that ends at once, which takes some
/// milliseconds, and changes nothing.
pub fn host() -> HostReport {
    let clues = Clues::read();
    let kernel = nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    let abi = landlock::abi();
    let (cgroups, controllers) = HostCgroups::read().unwrap_or_default().survey();
    let mut features = vec![kernel_feature(&kernel)];
    features.extend(namespace_features(&clues, &attempt));
    features.push(landlock_feature(abi));
    features.push(seccomp_feature(
        kernel::knows_filter_action(libc::SECCOMP_RET_KILL_PROCESS)
            && kernel::knows_filter_action(libc::SECCOMP_RET_ERRNO),
    ));
    features.push(cgroup_feature(cgroups, &controllers));
    features.push(clone3_feature(kernel::knows_clone3()));
    HostReport {
        kernel,
        landlock_abi: abi,
        landlock_errata: landlock::errata(),
        cgroups,
        features,
    }
}

/// The error of namespaces that could not be made or filled, with this host's own cause and
/// remedy. `what` says what was done, as in `making namespaces`.
pub fn namespace_failure(what: &str, error: &io::Error) -> EnforcementError {
    let (cause, remedy) = Clues::read().explain(TrialStep::Clone, error);
    EnforcementError::new(Step::Namespaces, format!("{what}: {error}: {cause}")).hint(remedy)
}

/// A profile for AppArmor that lets one program make user namespaces, where the host lets
/// only named programs do so (Ubuntu 23.10 and later).
pub fn apparmor_profile(program: &Path) -> String {
    let mut path = String::new();
    for c in program.to_string_lossy().chars() {
        // These stand for something else in a profile.
        if "\"\\*?[]{}^@$".contains(c) {
            path.push('\\');
        }
        path.push(c);
    }
    format!(
        "abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile wt \"{path}\" flags=(unconfined) {{\n  \
           userns,\n\
         }}\n"
    )
}

/// What on this host can be in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Clues {
    root: bool,
    administrator: bool,
    in_container: bool,
    filtered: bool,
    max_user_namespaces: Option<u64>,
    /// A switch of Debian's kernels.
    unprivileged_clone: Option<u64>,
    apparmor_restricts: bool,
    program: String,
}

impl Clues {
    fn read() -> Self {
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        let status = Status::read().unwrap_or_default();
        let restricts = number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
        Self {
            root: geteuid().is_root(),
            administrator: status.cap_effective & CAP_SYS_ADMIN != 0,
            in_container: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|path| Path::new(path).exists()),
            filtered: status.seccomp_mode != 0,
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            unprivileged_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restricts: restricts == Some(1),
            program: std::env::current_exe()
                .map(|path| path.to_string_lossy().into_owned())
                .unwrap_or_else(|_| "/usr/local/bin/wt".to_owned()),
        }
    }

    /// Why namespaces could not be made, and what to do.
    fn explain(&self, step: TrialStep, error: &io::Error) -> (String, String) {
        let outer = "or let the container be the boundary with `--unsandboxed`";
        let code = error.raw_os_error().unwrap_or(0);
        let (cause, remedy) = match code {
            libc::ENOSPC if self.max_user_namespaces == Some(0) => (
                "user namespaces are switched off on this host".to_owned(),
                "ask its owner for `sysctl user.max_user_namespaces=15000`".to_owned(),
            ),
            libc::ENOSPC | libc::EUSERS => (
                "there are too many namespaces already, or too deep ones".to_owned(),
                "end some sessions, or raise the limits in /proc/sys/user; inside a session no \
                 other can be started"
                    .to_owned(),
            ),
            libc::EINVAL | libc::ENOSYS => (
                "this kernel was built without some of the namespaces".to_owned(),
                "use the kernel of a common distribution".to_owned(),
            ),
            _ if self.unprivileged_clone == Some(0) && !self.administrator => (
                "only root may make user namespaces on this host".to_owned(),
                "ask its owner for `sysctl kernel.unprivileged_userns_clone=1`".to_owned(),
            ),
            _ if self.apparmor_restricts && !self.administrator => (
                "AppArmor lets only named programs make user namespaces on this host".to_owned(),
                format!(
                    "save this as /etc/apparmor.d/wt and run `sudo apparmor_parser -r \
                     /etc/apparmor.d/wt`:\n{}",
                    apparmor_profile(Path::new(&self.program))
                ),
            ),
            _ if step == TrialStep::Proc => (
                "parts of /proc are covered here, as container engines do, and then no other can \
                 be mounted"
                    .to_owned(),
                format!(
                    "start the container with `--security-opt systempaths=unconfined`, {outer}"
                ),
            ),
            _ if self.filtered => (
                "a filter around this process refuses it, as container engines have one".to_owned(),
                format!("start the container with `--security-opt seccomp=unconfined`, {outer}"),
            ),
            _ if self.in_container || (self.root && !self.administrator) => (
                "the container around this process refuses it".to_owned(),
                format!("give the container CAP_SYS_ADMIN, {outer}"),
            ),
            _ => (
                "a rule of this host refuses it: a security module, or a changed root folder"
                    .to_owned(),
                "look into the kernel's log (`dmesg`) for what refused it".to_owned(),
            ),
        };
        (cause, remedy)
    }
}

/// The outcome of a trial of namespaces.
type Attempted = io::Result<Result<(), (TrialStep, io::Error)>>;

const WITHOUT_NETWORK: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

fn attempt(namespaces: i32) -> Attempted {
    let line = |id: u32| CString::new(format!("0 {id} 1")).expect("numbers have no zero byte");
    kernel::try_namespaces(&Trial {
        namespaces,
        uid_map: &line(geteuid().as_raw()),
        gid_map: &line(getegid().as_raw()),
    })
}

fn namespace_features(clues: &Clues, attempt: &dyn Fn(i32) -> Attempted) -> Vec<Feature> {
    let whole = attempt(WITHOUT_NETWORK | libc::CLONE_NEWNET);
    // Whether it is the network or all of it shows when it is tried without.
    let rest = match &whole {
        Ok(Err((TrialStep::Clone, _))) | Err(_) => Some(attempt(WITHOUT_NETWORK)),
        Ok(_) => None,
    };
    let has_network = rest.is_none();
    let feature = |name, failure: Option<&(TrialStep, io::Error)>, detail: &str| match failure {
        None => works(name, true, detail),
        Some((step, error)) => {
            let (cause, remedy) = clues.explain(*step, error);
            missing(name, &format!("{detail}: {error}"), &cause, &remedy)
        }
    };
    let unknown = |error: &io::Error| {
        (
            TrialStep::Clone,
            error.raw_os_error().map_or_else(
                || io::Error::new(error.kind(), error.to_string()),
                io::Error::from_raw_os_error,
            ),
        )
    };
    let flat = |attempted: Attempted| match attempted {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure),
        Err(error) => Some(unknown(&error)),
    };
    let whole = flat(whole);
    let mounts = match rest {
        Some(rest) => flat(rest),
        None => whole
            .as_ref()
            .map(|(step, error)| (*step, unknown(error).1)),
    };
    let of_proc = |failure: &&(TrialStep, io::Error)| failure.0 == TrialStep::Proc;
    let rest_failure = mounts.as_ref().filter(|failure| !of_proc(failure));
    let mut features = vec![feature(
        FeatureName::Namespaces,
        rest_failure,
        "user, mount, pid, ipc, uts, cgroup",
    )];
    features.push(feature(
        FeatureName::NetworkNamespace,
        whole.as_ref().filter(|_| !has_network),
        "network",
    ));
    features.push(match &mounts {
        Some(failure) if of_proc(&failure) => {
            feature(FeatureName::Proc, Some(failure), "mounting /proc")
        }
        // Without namespaces there is nothing to mount it in.
        Some(failure) => feature(FeatureName::Proc, Some(failure), "not reached"),
        None => works(FeatureName::Proc, true, "own /proc"),
    });
    features
}

fn kernel_feature(release: &str) -> Feature {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let version: (u32, u32) = (next(), next());
    if version >= LEAST_KERNEL {
        return works(FeatureName::Kernel, true, release);
    }
    missing(
        FeatureName::Kernel,
        release,
        "it cannot change the flags of a whole tree of mounts",
        "use Linux 5.12 or later",
    )
}

fn landlock_feature(abi: u32) -> Feature {
    let detail = format!("version {abi}");
    match abi {
        0 => missing(
            FeatureName::Landlock,
            "absent",
            "this kernel was built or started without Landlock",
            "add `landlock` to the parameter `lsm=` of the kernel, or use Linux 5.13 or later",
        ),
        abi if abi < FULL_LANDLOCK => Feature {
            state: FeatureState::Partial,
            cause: Some("older versions leave some kinds of access to the mounts alone".to_owned()),
            remedy: Some("Linux 6.12 and later have all of it".to_owned()),
            ..works(FeatureName::Landlock, true, &detail)
        },
        _ => works(FeatureName::Landlock, true, &detail),
    }
}

fn seccomp_feature(knows_actions: bool) -> Feature {
    if knows_actions {
        return works(FeatureName::Seccomp, true, "filters");
    }
    missing(
        FeatureName::Seccomp,
        "absent",
        "this kernel was built without filters of system calls, or hides them",
        "use the kernel of a common distribution",
    )
}

fn cgroup_feature(kind: CgroupKind, controllers: &[&str]) -> Feature {
    let all = ["memory", "pids", "cpu"];
    let lacking: Vec<_> = all
        .iter()
        .filter(|c| !controllers.contains(c))
        .copied()
        .collect();
    let detail = if controllers.is_empty() {
        kind.describe().to_owned()
    } else {
        format!("{}: {}", kind.describe(), controllers.join(", "))
    };
    let fine = Feature {
        needed: false,
        ..works(FeatureName::Cgroups, false, &detail)
    };
    if lacking.is_empty() {
        return fine;
    }
    Feature {
        state: if kind == CgroupKind::None {
            FeatureState::Missing
        } else {
            FeatureState::Partial
        },
        cause: Some(format!(
            "this user can write no control group that holds {}; a session that asks for such a \
             limit does not start",
            lacking.join(", ")
        )),
        remedy: Some(
            "with systemd, start it as `systemd-run --user --scope -p Delegate=yes wt ...`"
                .to_owned(),
        ),
        ..fine
    }
}

fn clone3_feature(known: bool) -> Feature {
    if known {
        return works(FeatureName::Clone3, false, "clone3");
    }
    Feature {
        needed: false,
        ..missing(
            FeatureName::Clone3,
            "absent",
            "an older kernel, or a filter around this process",
            "nothing to do: clone serves",
        )
    }
}

fn works(name: FeatureName, needed: bool, detail: &str) -> Feature {
    Feature {
        name,
        state: FeatureState::Works,
        needed,
        detail: detail.to_owned(),
        cause: None,
        remedy: None,
    }
}

fn missing(name: FeatureName, detail: &str, cause: &str, remedy: &str) -> Feature {
    Feature {
        name,
        state: FeatureState::Missing,
        needed: true,
        detail: detail.to_owned(),
        cause: Some(cause.to_owned()),
        remedy: Some(remedy.to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::in_own_process;

    fn states(features: &[Feature]) -> Vec<(FeatureName, FeatureState)> {
        features.iter().map(|f| (f.name, f.state)).collect()
    }

    fn os(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    #[test]
    fn this_host_is_described_and_nothing_is_left() {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();

        let report = host();

        let names: Vec<_> = report.features.iter().map(|f| f.name).collect();
        assert_eq!(
            names,
            [
                FeatureName::Kernel,
                FeatureName::Namespaces,
                FeatureName::NetworkNamespace,
                FeatureName::Proc,
                FeatureName::Landlock,
                FeatureName::Seccomp,
                FeatureName::Cgroups,
                FeatureName::Clone3,
            ]
        );
        for feature in &report.features {
            let fine = feature.state == FeatureState::Works;
            assert_eq!(fine, feature.cause.is_none(), "{feature:?}");
            assert_eq!(fine, feature.remedy.is_none(), "{feature:?}");
        }
        assert_eq!(report.landlock_abi, landlock::abi());
        assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
    }

    #[test]
    fn a_real_refusal_is_found() {
        in_own_process("probe::tests::a_real_refusal_is_found", || {
            assert!(attempt(WITHOUT_NETWORK).unwrap().is_ok() || !geteuid().is_root());
            crate::privileges::no_new_privileges().unwrap();
            let plan = crate::seccomp::SeccompPlan {
                profile: crate::seccomp::SeccompProfile::Develop,
                log: false,
            };
            crate::seccomp::install(&crate::seccomp::filter(&plan), false).unwrap();

            let report = host();

            let namespaces = &report.features[1];
            assert!(!report.is_sufficient());
            assert_eq!(namespaces.state, FeatureState::Missing);
            assert!(
                namespaces.detail.contains("not permitted"),
                "{namespaces:?}"
            );
            assert_eq!(report.features[2].state, FeatureState::Missing);
        });
    }

    #[test]
    fn a_missing_network_is_told_from_missing_namespaces() {
        let clues = Clues::default();

        let features = namespace_features(&clues, &|flags| {
            Ok(if flags & libc::CLONE_NEWNET == 0 {
                Ok(())
            } else {
                Err((TrialStep::Clone, os(libc::EINVAL)))
            })
        });

        assert_eq!(
            states(&features),
            [
                (FeatureName::Namespaces, FeatureState::Works),
                (FeatureName::NetworkNamespace, FeatureState::Missing),
                (FeatureName::Proc, FeatureState::Works),
            ]
        );
    }

    #[test]
    fn a_covered_proc_is_told_from_missing_namespaces() {
        let clues = Clues {
            filtered: true,
            ..Clues::default()
        };

        let features = namespace_features(&clues, &|_| Ok(Err((TrialStep::Proc, os(libc::EPERM)))));

        assert_eq!(
            states(&features),
            [
                (FeatureName::Namespaces, FeatureState::Works),
                (FeatureName::NetworkNamespace, FeatureState::Works),
                (FeatureName::Proc, FeatureState::Missing),
            ]
        );
        assert!(features[2].cause.as_ref().unwrap().contains("covered"));
    }

    #[test]
    fn causes_are_told_from_settings() {
        let plain = Clues::default();
        let cases = [
            (
                Clues {
                    max_user_namespaces: Some(0),
                    ..plain.clone()
                },
                libc::ENOSPC,
                "max_user_namespaces",
            ),
            (
                Clues {
                    unprivileged_clone: Some(0),
                    ..plain.clone()
                },
                libc::EPERM,
                "unprivileged_userns_clone",
            ),
            (
                Clues {
                    apparmor_restricts: true,
                    program: "/opt/wt".to_owned(),
                    ..plain.clone()
                },
                libc::EACCES,
                "profile wt \"/opt/wt\"",
            ),
            (
                Clues {
                    filtered: true,
                    ..plain.clone()
                },
                libc::EPERM,
                "seccomp=unconfined",
            ),
            (
                Clues {
                    root: true,
                    ..plain.clone()
                },
                libc::EPERM,
                "CAP_SYS_ADMIN",
            ),
            (plain.clone(), libc::EINVAL, "kernel"),
            (plain, libc::EPERM, "dmesg"),
        ];

        for (clues, code, expected) in cases {
            let (_, remedy) = clues.explain(TrialStep::Clone, &os(code));
            assert!(remedy.contains(expected), "{clues:?}: {remedy}");
        }
    }

    #[test]
    fn a_restriction_of_apparmor_does_not_concern_administrators() {
        let clues = Clues {
            apparmor_restricts: true,
            administrator: true,
            ..Clues::default()
        };

        let (cause, _) = clues.explain(TrialStep::Clone, &os(libc::EPERM));

        assert!(!cause.contains("AppArmor"), "{cause}");
    }

    #[test]
    fn old_kernels_are_not_enough() {
        let state = |release| kernel_feature(release).state;

        assert_eq!(state("5.11.0-27-generic"), FeatureState::Missing);
        assert_eq!(state("5.15.0"), FeatureState::Works);
        assert_eq!(state("6.1-rc3"), FeatureState::Works);
        assert_eq!(state("nonsense"), FeatureState::Missing);
    }

    #[test]
    fn a_profile_names_the_program_and_nothing_else() {
        let profile = apparmor_profile(Path::new("/opt/a b/{wt}\"*"));

        assert!(profile.contains("profile wt \"/opt/a b/\\{wt\\}\\\"\\*\" flags=(unconfined)"));
    }

    #[test]
    fn a_failure_carries_its_cause_and_remedy() {
        let error = namespace_failure("making namespaces", &os(libc::EINVAL));

        assert_eq!(error.step, Step::Namespaces);
        assert!(
            error
                .cause
                .starts_with("making namespaces: Invalid argument")
        );
        assert!(!error.hint.is_empty());
    }
}

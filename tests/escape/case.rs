//! What a row of the suite says.

use std::fmt;
use std::path::Path;

use wt_sandbox::plan::{MountAction, MountLayer, MountStep, Plan};

/// One attack: data that the runner carries out.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    /// The attack, for bash: it ends with 0 if and only if it succeeded.
    pub(crate) attack: &'static str,
    /// What a refusal says; one of them.
    pub(crate) expect: &'static [&'static str],
    /// The layers that stop it: without all of them it succeeds.
    pub(crate) layers: &'static [L],
    /// Whether it succeeds with no boundary at all.
    pub(crate) outside: Outside,
    /// What is known when it does not succeed without its layers.
    pub(crate) without: Without,
    /// What it needs of the host.
    pub(crate) needs: &'static [Need],
    /// The user's own `egg.yaml`; empty: there is none.
    pub(crate) policy: &'static str,
    /// Done on the host before the session is planned.
    pub(crate) setup: &'static str,
    /// Done on the host between the plan and the start.
    pub(crate) between: &'static str,
    /// Done on the host at the end.
    pub(crate) teardown: &'static str,
    /// Where the home directory is.
    pub(crate) place: Place,
    /// Whether the session has a terminal rather than pipes.
    pub(crate) terminal: bool,
    /// Whether the session must not even start; `expect` is then what the error says.
    pub(crate) never_starts: bool,
    /// A known gap: it succeeds, and the page for reviewers says so.
    pub(crate) residual: &'static str,
}

/// What most rows have in common.
pub(crate) const CASE: Case = Case {
    id: "",
    what: "",
    attack: "",
    expect: &[],
    layers: &[],
    outside: Outside::Succeeds,
    without: Without::Succeeds,
    needs: &[],
    policy: "",
    setup: "",
    between: "",
    teardown: "",
    place: Place::Home,
    terminal: false,
    never_starts: false,
    residual: "",
};

/// What comes of an attack without a boundary.
#[derive(Clone, Copy)]
pub(crate) enum Outside {
    /// It succeeds for everybody.
    Succeeds,
    /// It succeeds for the superuser; an ordinary user is refused by the system.
    SucceedsForRoot,
    /// It is not tried, for this reason.
    Skipped(&'static str),
    /// It makes no sense outside: the same act towards something allowed succeeds inside.
    Twin(&'static str),
}

/// What comes of an attack without the layers of its row.
#[derive(Clone, Copy)]
pub(crate) enum Without {
    /// It succeeds.
    Succeeds,
    /// It succeeds for the superuser.
    SucceedsForRoot,
    /// It is refused even so, for this reason.
    Refused(&'static str),
}

/// What a case needs of the host.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// The network and the places that the superuser makes for the suite.
    Surroundings,
    /// The superuser.
    Root,
    /// An ordinary user.
    User,
    /// A program.
    Program(&'static str),
    /// Something at a path.
    Path(&'static str),
    /// A processor of this kind.
    X86,
}

/// Where the home directory is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Outside of temporary files.
    Home,
    /// Below `/tmp`.
    Tmp,
    /// Outside of temporary files; wingthing's own directory is in the project.
    ProfileInProject,
    /// Outside of temporary files; the session starts in the home directory itself.
    StartsAtHome,
}

/// A layer that can be taken out of a plan. Only this suite can do that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum L {
    Net,
    Pid,
    Ipc,
    User,
    SecondUser,
    Capabilities,
    NoNewPrivileges,
    Descriptors,
    Init,
    Keyring,
    Landlock,
    Seccomp,
    Rlimits,
    Cgroup,
    Sysctls,
    /// The choice of variables.
    Env,
    /// The comparison of what stands at a path.
    Identity,
    /// That the host's tree is read-only, where the attacks try it.
    ReadOnly,
    /// What is hidden, and everything else that is mounted for one purpose.
    Mount(MountLayer),
}

pub(crate) const DENIED: L = L::Mount(MountLayer::Denied);
pub(crate) const CORE: L = L::Mount(MountLayer::Core);
pub(crate) const PROTECTED: L = L::Mount(MountLayer::Protected);
pub(crate) const PIN: L = L::Mount(MountLayer::Pin);
pub(crate) const WRITABLE: L = L::Mount(MountLayer::Writable);
pub(crate) const TMP: L = L::Mount(MountLayer::PrivateTmp);
pub(crate) const RUN: L = L::Mount(MountLayer::PrivateRun);
pub(crate) const DEV: L = L::Mount(MountLayer::PrivateDev);
pub(crate) const PROC_MASK: L = L::Mount(MountLayer::ProcMask);
pub(crate) const SYS_MASK: L = L::Mount(MountLayer::SysMask);
pub(crate) const SOCKETS: L = L::Mount(MountLayer::SocketMask);

impl fmt::Display for L {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Net => "network-namespace",
            Self::Pid => "pid-namespace",
            Self::Ipc => "ipc-namespace",
            Self::User => "user-namespace",
            Self::SecondUser => "second-user-namespace",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no-new-privileges",
            Self::Descriptors => "descriptors",
            Self::Init => "protected-init",
            Self::Keyring => "keyring",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Rlimits => "rlimits",
            Self::Cgroup => "cgroup",
            Self::Sysctls => "sysctls",
            Self::Env => "environment",
            Self::Identity => "identity",
            Self::ReadOnly => "read-only-root",
            Self::Mount(layer) => {
                let name = serde_json::to_value(layer).unwrap_or_default();
                return write!(f, "mounts:{}", name.as_str().unwrap_or("?"));
            }
        };
        f.write_str(name)
    }
}

impl L {
    /// Takes this layer out of a plan. `home` and `maker` are the world's.
    pub(crate) fn ablate(self, plan: &mut Plan, home: &Path, maker: &[(String, String)]) {
        match self {
            Self::Net => {
                plan.namespaces.net = false;
                plan.sysctls
                    .retain(|sysctl| !sysctl.path.starts_with("net/"));
                plan.network.loopback = false;
                plan.network.capture_routes = false;
                plan.network.listeners.clear();
            }
            Self::Pid => {
                plan.namespaces.pid = false;
                // What is left is the host's own /proc, read-only, in which no second user
                // namespace can be made and no score be written.
                plan.mounts
                    .retain(|step| !matches!(step.layer, MountLayer::Proc | MountLayer::ProcMask));
                plan.second_user_namespace = false;
                plan.oom_score_adj = i32::MIN;
            }
            Self::Ipc => {
                plan.namespaces.ipc = false;
                // The queues of another namespace cannot be mounted.
                plan.mounts
                    .retain(|step| step.action != MountAction::Mqueue);
                if let Some(landlock) = &mut plan.landlock {
                    landlock.rules.retain(|rule| rule.path != "/dev/mqueue");
                }
            }
            Self::User => {
                plan.namespaces.user = false;
                plan.second_user_namespace = false;
                // They would be the host's.
                plan.sysctls
                    .retain(|sysctl| sysctl.path.starts_with("net/"));
            }
            Self::SecondUser => plan.second_user_namespace = false,
            Self::Capabilities => plan.drop_capabilities = false,
            Self::NoNewPrivileges => plan.no_new_privileges = false,
            Self::Descriptors => plan.close_descriptors = false,
            Self::Init => plan.protect_init = false,
            Self::Keyring => plan.keyring = false,
            Self::Landlock => plan.landlock = None,
            Self::Seccomp => plan.seccomp = None,
            Self::Rlimits => plan.rlimits.clear(),
            Self::Cgroup => plan.cgroup = None,
            Self::Sysctls => plan
                .sysctls
                .retain(|sysctl| sysctl.path.starts_with("net/")),
            Self::Env => {
                let missing = maker.iter().filter(|(key, _)| {
                    let known = &plan.program.env;
                    !known.iter().any(|(there, _)| there == key)
                });
                let missing: Vec<_> = missing.cloned().collect();
                plan.program.env.extend(missing);
            }
            Self::Identity => plan.expected.clear(),
            Self::ReadOnly => open_root(plan, home),
            Self::Mount(layer) => {
                plan.mounts.retain(|step| step.layer != layer);
                if let Some(landlock) = &mut plan.landlock {
                    landlock.rules.retain(|rule| Path::new(&rule.path).exists());
                }
            }
        }
    }
}

/// Puts writable copies over the read-only tree, where attacks write.
fn open_root(plan: &mut Plan, home: &Path) {
    let home = home.display().to_string();
    for path in ["/etc", "/mnt", "/sys", home.as_str()] {
        let is_private = path.starts_with("/tmp/");
        if is_private || !Path::new(path).exists() {
            continue;
        }
        let step = MountStep {
            layer: MountLayer::Root,
            target: path.to_owned(),
            action: MountAction::Bind {
                source: path.to_owned(),
                writable: true,
                devices: false,
            },
            optional: false,
            reason: "ablation".to_owned(),
        };
        plan.mounts.insert(1, step);
    }
}

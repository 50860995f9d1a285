//! What is to be done for one session, as data.
//!
//! A [`Plan`] is a list of what to do and nothing else: the stage does what it says, step by
//! step, and answers for every part. [`crate::compile`] makes it and always asks for every
//! layer.

use serde::{Deserialize, Serialize};

pub use crate::cgroup::CgroupPlan;
pub use crate::landlock::{LandlockAccess, LandlockPlan, LandlockRule};
pub use crate::rlimits::{Rlimit, RlimitKind};
pub use crate::seccomp::{SeccompPlan, SeccompProfile};

/// Everything that is done for one session, from its namespaces to its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The namespaces that the session gets of its own.
    pub namespaces: Namespaces,
    /// Whether a second user namespace locks what was mounted in the first and gives the
    /// session its real user id back.
    pub second_user_namespace: bool,
    /// Whether the session keyring of the maker is left behind.
    pub keyring: bool,
    /// Kernel settings that hold in the session's namespaces alone, below `/proc/sys`.
    pub sysctls: Vec<Sysctl>,
    /// What the file system is made of, in the order in which it is made.
    pub mounts: Vec<MountStep>,
    /// What stood at the paths that the rules name when they were compared. A path that
    /// stands for something else when it is mounted stops the start.
    pub expected: Vec<Identity>,
    /// Rules whose path does not exist and could be made by the session.
    pub missing: Vec<Missing>,
    /// What the session's own network is made of.
    pub network: NetPlan,
    /// Whether programs can gain rights by being executed (PR_SET_NO_NEW_PRIVS).
    pub no_new_privileges: bool,
    /// Whether all capabilities are given up.
    pub drop_capabilities: bool,
    /// Whether descriptors that the program was not given are closed.
    pub close_descriptors: bool,
    /// Whether the first process of the session cannot be read or traced by the others.
    pub protect_init: bool,
    /// The second line of file access.
    pub landlock: Option<LandlockPlan>,
    /// The filter of system calls.
    pub seccomp: Option<SeccompPlan>,
    /// Limits of single processes.
    pub rlimits: Vec<Rlimit>,
    /// Limits of all processes together.
    pub cgroup: Option<CgroupPlan>,
    /// How much earlier than others the session is ended when memory runs out, 0 to 1000.
    pub oom_score_adj: i32,
    /// The program that is started.
    pub program: Program,
    /// The directory that it starts in, canonical.
    pub cwd: String,
    /// The user id that the session runs with, in its maker's namespace and its own.
    pub uid: u32,
    /// The group id, as the user id.
    pub gid: u32,
    /// The name of the machine, as the session sees it.
    pub hostname: String,
    /// What the program's standard descriptors are.
    pub stdio: Stdio,
    /// The mask for modes of new files.
    pub umask: u32,
    /// What the maker is told about the plan: rules that could not hold as written and what
    /// holds instead.
    pub notes: Vec<Note>,
}

/// The program of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its file: a path, or a name that is looked up in the session's `PATH` and view.
    pub file: String,
    /// Its arguments, the first of which is its own name.
    pub argv: Vec<String>,
    /// All of its variables.
    pub env: Vec<(String, String)>,
}

/// Which namespaces are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// User and group ids, and with them all capabilities.
    pub user: bool,
    /// Mounts.
    pub mount: bool,
    /// Processes.
    pub pid: bool,
    /// Network devices, ports, abstract sockets.
    pub net: bool,
    /// System V objects and POSIX message queues.
    pub ipc: bool,
    /// Host name.
    pub uts: bool,
    /// The view of control groups.
    pub cgroup: bool,
}

impl Namespaces {
    /// All of them.
    pub const ALL: Self = Self {
        user: true,
        mount: true,
        pid: true,
        net: true,
        ipc: true,
        uts: true,
        cgroup: true,
    };
}

/// A kernel setting of the session's namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// Its path below `/proc/sys`.
    pub path: String,
    /// Its value.
    pub value: String,
    /// Whether a kernel without it is good enough.
    pub optional: bool,
}

/// One step of making the file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStep {
    /// What it is for.
    pub layer: MountLayer,
    /// Where, as an absolute canonical path in the session.
    pub target: String,
    /// What is done there.
    pub action: MountAction,
    /// Whether a target or a source that is not there is skipped. Never set for what a
    /// rule asks for.
    pub optional: bool,
    /// Why.
    pub reason: String,
}

/// What a step of making the file system is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountLayer {
    /// The host's files, read-only, or an empty root when everything is denied.
    Root,
    /// Directories that keep what is below them from being moved away.
    Pin,
    /// What a rule makes writable.
    Writable,
    /// What a rule makes readable below something stricter.
    ReadOnly,
    /// What is kept as it is below something writable.
    Protected,
    /// What a rule hides.
    Denied,
    /// What is hidden whatever the rules say: the profile with its keys and sessions.
    Core,
    /// Temporary files of the session's own.
    PrivateTmp,
    /// `/run` of the session's own.
    PrivateRun,
    /// Devices of the session's own.
    PrivateDev,
    /// The processes of the session.
    Proc,
    /// Files of `/proc` that say or change something of the host.
    ProcMask,
    /// Files of `/sys` that say or change something of the host.
    SysMask,
    /// Sockets of the host's services.
    SocketMask,
    /// How names are resolved.
    Resolver,
}

/// What is done at a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum MountAction {
    /// The host's whole tree, read-only.
    HostTree,
    /// A file or directory of the host with all that is mounted below it. The target is
    /// made when it is in a file system of the session's own.
    Bind {
        /// Its absolute canonical path on the host.
        source: String,
        /// Whether it can be written.
        writable: bool,
        /// Whether devices in it work.
        devices: bool,
    },
    /// The target itself, mounted on itself.
    Pin,
    /// The target itself, mounted on itself read-only.
    Freeze,
    /// A symbolic link, mounted on itself, so that nobody can replace it.
    PinLink,
    /// An empty file system in memory.
    Tmpfs {
        /// The mode of its root.
        mode: u32,
        /// Its capacity in bytes.
        size: u64,
        /// Whether programs in it can be executed.
        exec: bool,
    },
    /// Makes what is mounted at the target, without what is mounted below it, read-only.
    Seal,
    /// A directory that nobody can look into.
    HideDirectory,
    /// A file that nobody can read.
    HideFile,
    /// A directory with nothing in it.
    EmptyDirectory,
    /// The file system of processes.
    Proc,
    /// Terminals of the session's own.
    DevPts,
    /// Message queues of the session's own.
    Mqueue,
    /// A directory in a file system of the session's own.
    MakeDirectory {
        /// Its mode.
        mode: u32,
    },
    /// A symbolic link in a file system of the session's own.
    MakeLink {
        /// What it says.
        to: String,
    },
    /// A read-only file of the session's own.
    File {
        /// What is in it.
        content: String,
    },
}

/// What stood at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The canonical path on the host.
    pub path: String,
    /// The number of its file system.
    pub dev: u64,
    /// Its number there.
    pub ino: u64,
    /// The type bits of its mode (`S_IFMT`).
    pub kind: u32,
}

/// A rule for a path that is not there, below something writable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The path.
    pub path: String,
    /// Whether it would be hidden, rather than kept from being written.
    pub hidden: bool,
    /// Who asks for it, in words.
    pub source: String,
}

/// The session's own network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetPlan {
    /// Whether its loopback device is brought up.
    pub loopback: bool,
    /// Whether connections to any address arrive at the session's own listeners.
    pub capture_routes: bool,
    /// Whether it has IPv6.
    pub ipv6: bool,
    /// The sockets that are bound inside and answered outside.
    pub listeners: Vec<ListenerSpec>,
}

/// A socket that is bound inside the session and answered outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerSpec {
    /// What it is for.
    pub kind: ListenerKind,
    /// Whether it is bound in IPv6. A host without IPv6 has none of these in its plans.
    pub v6: bool,
}

/// What a listener is for, and with that its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenerKind {
    /// CONNECT and plain requests, at 127.0.0.1:3128.
    HttpProxy,
    /// SOCKS 5, at 127.0.0.1:1080.
    Socks,
    /// DNS in UDP, at 127.0.0.53:53.
    DnsUdp,
    /// DNS in TCP, at 127.0.0.53:53.
    DnsTcp,
    /// Connections of programs that know no proxy, at this port of any address.
    Capture(u16),
    /// A server of the same machine, at this port of 127.0.0.1 and ::1.
    LocalPort(u16),
}

/// The port of the HTTP proxy inside a session.
pub const HTTP_PROXY_PORT: u16 = 3128;
/// The port of the SOCKS proxy inside a session.
pub const SOCKS_PORT: u16 = 1080;
/// The last part of the address 127.0.0.x that answers DNS inside a session, as systemd's
/// stub resolver has it.
pub const DNS_HOST: u8 = 53;

/// What the program's standard descriptors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdio {
    /// A terminal of the session's own.
    Terminal {
        /// Its width in cells.
        cols: u16,
        /// Its height in cells.
        rows: u16,
    },
    /// Three descriptors that the maker gives.
    Given,
}

/// Something that the maker is told about a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The path that it concerns.
    pub path: String,
    /// A sentence.
    pub text: String,
}

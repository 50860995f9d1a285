//! What an egg may not ask of the kernel, each rule with its reason.
//!
//! These are data: the filter is compiled from them, and documents and `wt egg explain` list
//! them. What no rule names is allowed, because an agent runs whatever its project needs;
//! the files, the network and the processes of the host are kept away by other layers.

use serde::Serialize;

/// A refusal of some calls, always or for some of their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// A short name for listings; each stands once.
    pub name: &'static str,
    /// The calls that it is about, by their names in the kernel.
    pub calls: &'static [&'static str],
    /// What must hold for the arguments, all of it; empty: always.
    pub when: &'static [Test],
    /// The error that the caller gets.
    pub answer: Answer,
    /// Why, as half a sentence.
    pub reason: &'static str,
}

/// A question about the low 32 bits of one argument.
///
/// The kernel takes all arguments that rules look at as `int` or shorter, so what stands in the
/// high bits is nothing to it, and must not change the answer either (CVE-2019-7303).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Test {
    /// Which argument, from 0.
    pub argument: u8,
    /// The bits that are looked at.
    pub mask: u32,
    /// The values that they are compared with.
    pub values: &'static [u32],
    /// Whether the bits must be one of the values (`true`) or none of them.
    pub among: bool,
}

/// The error of a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Answer {
    /// Not permitted.
    Eperm,
    /// Does not exist: programs and C libraries then take the older way.
    Enosys,
    /// Not supported: the callers take another way.
    Eopnotsupp,
    /// No such family of sockets.
    Eafnosupport,
    /// No such protocol.
    Eprotonosupport,
}

impl Answer {
    /// The number of the error.
    pub fn errno(self) -> i32 {
        match self {
            Self::Eperm => libc::EPERM,
            Self::Enosys => libc::ENOSYS,
            Self::Eopnotsupp => libc::EOPNOTSUPP,
            Self::Eafnosupport => libc::EAFNOSUPPORT,
            Self::Eprotonosupport => libc::EPROTONOSUPPORT,
        }
    }
}

const fn is(argument: u8, values: &'static [u32]) -> Test {
    Test {
        argument,
        mask: u32::MAX,
        values,
        among: true,
    }
}

const fn is_not(argument: u8, values: &'static [u32]) -> Test {
    Test {
        argument,
        mask: u32::MAX,
        values,
        among: false,
    }
}

const fn any_bit(argument: u8, mask: u32) -> Test {
    Test {
        argument,
        mask,
        values: &[0],
        among: false,
    }
}

/// `CLONE_NEW*`: time, mounts, cgroups, UTS, IPC, users, processes and network.
const NEW_NAMESPACES: u32 = 0x7e02_0080;
/// What `unshare` may be asked for: `CLONE_FS`, `CLONE_FILES` and `CLONE_SYSVSEM`.
const HARMLESS_UNSHARE: u32 = 0x200 | 0x400 | 0x0004_0000;

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u32 = 0xf;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const S_ISUID: u32 = 0o4000;
const PROT_EXEC: u32 = 4;

/// Requests to a terminal or console that reach beyond it (`asm-generic/ioctls.h`, `linux/kd.h`,
/// `linux/vt.h`, `linux/tiocl.h`).
const TERMINAL_REQUESTS: &[u32] = &[
    0x5412, // TIOCSTI: types on behalf of whoever reads the terminal
    0x541c, // TIOCLINUX: pastes into a console
    0x541d, // TIOCCONS: takes over what the console prints
    0x5423, // TIOCSETD: loads line disciplines, which are drivers
    0x5437, // TIOCVHANGUP: hangs up everybody's terminal
    0x4b32, // KDSETLED
    0x4b3a, // KDSETMODE
    0x4b45, // KDSKBMODE
    0x4b47, // KDSKBENT: changes what keys mean
    0x4b49, // KDSKBSENT
    0x4b4b, // KDSKBDIACR
    0x4b4d, // KDSETKEYCODE
    0x4b4e, // KDSIGACCEPT
    0x4bfb, // KDSKBDIACRUC
    0x5606, // VT_ACTIVATE
    0x560b, // VT_LOCKSWITCH
];

/// The rules for agents, in the order in which those of one call are asked.
pub(super) const AGENT: &[Rule] = &[
    Rule {
        name: "clone3",
        calls: &["clone3"],
        when: &[],
        answer: Answer::Enosys,
        reason: "its flags stand behind a pointer, where no filter sees them; C libraries fall \
                 back to clone, whose flags are checked",
    },
    Rule {
        name: "io-uring",
        calls: &["io_uring_setup", "io_uring_enter", "io_uring_register"],
        when: &[],
        answer: Answer::Enosys,
        reason: "it does the work of other calls without passing this filter",
    },
    Rule {
        name: "userfaultfd",
        calls: &["userfaultfd"],
        when: &[],
        answer: Answer::Enosys,
        reason: "it stops the kernel in the middle of a copy, which exploits of races are built on",
    },
    Rule {
        name: "mount-listing",
        calls: &["statmount", "listmount"],
        when: &[],
        answer: Answer::Enosys,
        reason: "they tell of mounts beyond what /proc of the egg shows",
    },
    Rule {
        name: "security-modules",
        calls: &["lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"],
        when: &[],
        answer: Answer::Enosys,
        reason: "no program in an egg has labels of a security module to change",
    },
    Rule {
        name: "secret-memory",
        calls: &["memfd_secret"],
        when: &[],
        answer: Answer::Enosys,
        reason: "such memory can be neither swapped nor moved, and hides from who looks for it",
    },
    Rule {
        name: "file-events",
        calls: &["fanotify_init"],
        when: &[],
        answer: Answer::Enosys,
        reason: "it watches whole file systems, those of the host among them; inotify stays",
    },
    Rule {
        name: "file-event-marks",
        calls: &["fanotify_mark"],
        when: &[],
        answer: Answer::Eperm,
        reason: "it belongs to fanotify_init, which is closed",
    },
    Rule {
        name: "mounts",
        calls: &[
            "mount",
            "umount2",
            "mount_setattr",
            "open_tree",
            "open_tree_attr",
            "move_mount",
            "fsopen",
            "fsconfig",
            "fsmount",
            "fspick",
            "pivot_root",
            "chroot",
        ],
        when: &[],
        answer: Answer::Eperm,
        reason: "the boundary for files is made of mounts",
    },
    Rule {
        name: "join-namespaces",
        calls: &["setns"],
        when: &[],
        answer: Answer::Eperm,
        reason: "an egg stays in the namespaces that were made for it",
    },
    Rule {
        name: "leave-namespaces",
        calls: &["unshare"],
        when: &[any_bit(0, !HARMLESS_UNSHARE)],
        answer: Answer::Eperm,
        reason: "a namespace of its own gives a process capabilities in it and opens much of the \
                 kernel; files, folders and semaphores may be unshared",
    },
    Rule {
        name: "clone-into-namespaces",
        calls: &["clone"],
        when: &[any_bit(0, NEW_NAMESPACES)],
        answer: Answer::Eperm,
        reason: "as for unshare, by another call",
    },
    Rule {
        name: "storage-administration",
        calls: &[
            "swapon",
            "swapoff",
            "quotactl",
            "quotactl_fd",
            "acct",
            "nfsservctl",
        ],
        when: &[],
        answer: Answer::Eperm,
        reason: "swap, quotas and accounting are the host's",
    },
    Rule {
        name: "kernel-programs",
        calls: &["bpf", "perf_event_open"],
        when: &[],
        answer: Answer::Eperm,
        reason: "they look into the kernel and other processes, with a long record of faults",
    },
    Rule {
        name: "keyrings",
        calls: &["keyctl", "add_key", "request_key"],
        when: &[],
        answer: Answer::Eperm,
        reason: "keyrings belong to a user, not to a namespace: they hold the host's secrets",
    },
    Rule {
        name: "open-by-handle",
        calls: &["open_by_handle_at"],
        when: &[],
        answer: Answer::Eperm,
        reason: "it opens files past every folder on the way to them",
    },
    Rule {
        name: "file-handles",
        calls: &["name_to_handle_at"],
        when: &[],
        answer: Answer::Eopnotsupp,
        reason: "handles are of use to open_by_handle_at alone; callers take another way",
    },
    Rule {
        name: "modules-and-boot",
        calls: &[
            "init_module",
            "finit_module",
            "delete_module",
            "kexec_load",
            "kexec_file_load",
            "reboot",
        ],
        when: &[],
        answer: Answer::Eperm,
        reason: "they change or end the running kernel",
    },
    Rule {
        name: "hardware",
        calls: &["iopl", "ioperm", "modify_ldt"],
        when: &[],
        answer: Answer::Eperm,
        reason: "ports of the machine and segment tables, which only emulators need",
    },
    Rule {
        name: "clocks",
        calls: &["settimeofday", "clock_settime", "adjtimex", "clock_adjtime"],
        when: &[],
        answer: Answer::Eperm,
        reason: "the clock is everybody's; whether a call only reads stands behind a pointer",
    },
    Rule {
        name: "host-identity",
        calls: &["sethostname", "setdomainname", "syslog", "vhangup"],
        when: &[],
        answer: Answer::Eperm,
        reason: "name, log and terminals of the machine are not the egg's",
    },
    Rule {
        name: "leftovers",
        calls: &["lookup_dcookie", "uselib", "ustat", "sysfs", "_sysctl"],
        when: &[],
        answer: Answer::Eperm,
        reason: "nothing of today calls them, so they are surface without use",
    },
    Rule {
        name: "other-processes",
        calls: &["kcmp", "pidfd_getfd", "process_madvise"],
        when: &[],
        answer: Answer::Eperm,
        reason: "they reach into the descriptors and the memory of others",
    },
    Rule {
        name: "memory-placement",
        calls: &[
            "move_pages",
            "migrate_pages",
            "mbind",
            "set_mempolicy",
            "set_mempolicy_home_node",
        ],
        when: &[],
        answer: Answer::Eperm,
        reason: "they show and change where memory lies, which attacks on memory want to know",
    },
    Rule {
        name: "socket-families",
        calls: &["socket"],
        when: &[is_not(0, &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK])],
        answer: Answer::Eafnosupport,
        reason: "other families reach the host past the network namespace (vsock), or rarely used \
                 parts of the kernel (alg, packet, can, tipc and more)",
    },
    Rule {
        name: "netlink-protocols",
        calls: &["socket"],
        when: &[is(0, &[AF_NETLINK]), is_not(2, &[0])],
        answer: Answer::Eprotonosupport,
        reason: "a program needs routes to list its addresses (protocol 0) and nothing else",
    },
    Rule {
        name: "socket-types",
        calls: &["socket"],
        when: &[
            is(0, &[AF_INET, AF_INET6]),
            Test {
                argument: 1,
                mask: SOCKET_TYPE,
                values: &[SOCK_STREAM, SOCK_DGRAM],
                among: false,
            },
        ],
        answer: Answer::Eperm,
        reason: "raw packets get past what looks at connections",
    },
    Rule {
        name: "socket-protocols",
        calls: &["socket"],
        when: &[
            is(0, &[AF_INET, AF_INET6]),
            is_not(2, &[0, IPPROTO_TCP, IPPROTO_UDP]),
        ],
        answer: Answer::Eprotonosupport,
        reason: "SCTP, MPTCP, DCCP and others get past rules that know TCP and UDP",
    },
    Rule {
        name: "socket-pairs",
        calls: &["socketpair"],
        when: &[is_not(0, &[AF_UNIX])],
        answer: Answer::Eafnosupport,
        reason: "pairs of other families open the families that socket refuses",
    },
    Rule {
        name: "terminal-requests",
        calls: &["ioctl"],
        when: &[is(1, TERMINAL_REQUESTS)],
        answer: Answer::Eperm,
        reason: "they type into a terminal as if its user had, or change a console for everybody",
    },
    Rule {
        name: "personality",
        calls: &["personality"],
        // PER_LINUX, PER_LINUX32, each also with ADDR_NO_RANDOMIZE for debuggers, and the query.
        when: &[is_not(0, &[0, 8, 0x0004_0000, 0x0004_0008, u32::MAX])],
        answer: Answer::Eperm,
        reason: "it can make all memory executable or map the page at address 0",
    },
    Rule {
        name: "set-user-id",
        calls: &["chmod", "fchmod", "creat", "mknod"],
        when: &[any_bit(1, S_ISUID)],
        answer: Answer::Eperm,
        reason: "a set-user-id file in the project would work outside of the egg; those made by \
                 open are found when the egg ends",
    },
    Rule {
        name: "set-user-id-at",
        calls: &["fchmodat", "fchmodat2", "mknodat"],
        when: &[any_bit(2, S_ISUID)],
        answer: Answer::Eperm,
        reason: "as for chmod, by another call",
    },
];

/// The calls of the first process of an egg, which reaps, listens to its supervisor, and
/// makes listeners when it is asked to.
pub(super) const INIT: &[&str] = &[
    "bind",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "exit",
    "exit_group",
    "fcntl",
    "fstat",
    "futex",
    "getpid",
    "getppid",
    "getrandom",
    "getsockname",
    "gettid",
    "gettimeofday",
    "kill",
    "listen",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "nanosleep",
    "pidfd_open",
    "pidfd_send_signal",
    "poll",
    "ppoll",
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "restart_syscall",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "sched_yield",
    "sendmsg",
    "sendto",
    "setsockopt",
    "sigaltstack",
    "signalfd4",
    "socket",
    "tgkill",
    "wait4",
    "waitid",
    "write",
    "writev",
];

/// What the first process may not do with the calls that it has.
pub(super) const INIT_RULES: &[Rule] = &[
    Rule {
        name: "init-sockets",
        calls: &["socket"],
        when: &[is_not(0, &[AF_INET, AF_INET6])],
        answer: Answer::Eafnosupport,
        reason: "its listeners are of IPv4 and IPv6",
    },
    Rule {
        name: "init-code",
        calls: &["mmap", "mprotect"],
        when: &[any_bit(2, PROT_EXEC)],
        answer: Answer::Eperm,
        reason: "all of its code is there before it starts",
    },
];

//! The numbers of the system calls that a rule names, for both architectures.
//!
//! They stand here and not as `libc` constants, so that the filters of both architectures
//! can be built and checked on either, and because `libc` lacks the newest ones.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// An architecture that filters are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// 64-bit x86. Its x32 variant shares the audit value and is told apart by bit 30 of the
    /// number.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The architecture that this program was built for.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Self = Self::X86_64;
    /// The architecture that this program was built for.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Self = Self::Aarch64;

    /// The value of the kernel for it (`AUDIT_ARCH_*` in `linux/audit.h`).
    pub(super) fn audit_value(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    /// The numbers that Linux 6.18 gives to system calls, as `arch/*/tools/syscall*.tbl` list
    /// them. What is outside was made later, or never was: it does not exist for an egg,
    /// and a C library falls back.
    pub(super) fn known(self) -> &'static [RangeInclusive<u32>] {
        match self {
            // 335 and 336 are the return points of the kernel's own probes: a program that
            // somebody traces on the host would die without them.
            Self::X86_64 => &[0..=336, 424..=469],
            // 244 to 259 belong to other machines, 403 to 423 to 32-bit ones.
            Self::Aarch64 => &[0..=243, 260..=294, 424..=469],
        }
    }

    /// The number of a call on this architecture, `None` where it does not exist.
    ///
    /// # Panics
    ///
    /// When no row has the name: rules are constants, and a test looks all of them up.
    pub(super) fn number(self, call: &str) -> Option<u32> {
        let row = CALLS
            .iter()
            .find(|row| row.name == call)
            .unwrap_or_else(|| panic!("no number is known for the system call {call}"));
        match self {
            Self::X86_64 => Some(row.x86_64),
            Self::Aarch64 => row.aarch64,
        }
    }
}

/// A system call and its numbers.
struct Call {
    name: &'static str,
    x86_64: u32,
    aarch64: Option<u32>,
}

const fn both(name: &'static str, x86_64: u32, aarch64: u32) -> Call {
    Call {
        name,
        x86_64,
        aarch64: Some(aarch64),
    }
}

/// A call that the newer architecture never had.
const fn x86(name: &'static str, x86_64: u32) -> Call {
    Call {
        name,
        x86_64,
        aarch64: None,
    }
}

/// All calls that rules name, sorted by name.
const CALLS: &[Call] = &[
    x86("_sysctl", 156),
    both("acct", 163, 89),
    both("add_key", 248, 217),
    both("adjtimex", 159, 171),
    both("bind", 49, 200),
    both("bpf", 321, 280),
    both("brk", 12, 214),
    x86("chmod", 90),
    both("chroot", 161, 51),
    both("clock_adjtime", 305, 266),
    both("clock_gettime", 228, 113),
    both("clock_nanosleep", 230, 115),
    both("clock_settime", 227, 112),
    both("clone", 56, 220),
    both("clone3", 435, 435),
    both("close", 3, 57),
    x86("creat", 85),
    both("delete_module", 176, 106),
    both("epoll_create1", 291, 20),
    both("epoll_ctl", 233, 21),
    both("epoll_pwait", 281, 22),
    x86("epoll_wait", 232),
    both("exit", 60, 93),
    both("exit_group", 231, 94),
    both("fanotify_init", 300, 262),
    both("fanotify_mark", 301, 263),
    both("fchmod", 91, 52),
    both("fchmodat", 268, 53),
    both("fchmodat2", 452, 452),
    both("fcntl", 72, 25),
    both("finit_module", 313, 273),
    both("fsconfig", 431, 431),
    both("fsmount", 432, 432),
    both("fsopen", 430, 430),
    both("fspick", 433, 433),
    both("fstat", 5, 80),
    both("futex", 202, 98),
    both("getpid", 39, 172),
    both("getppid", 110, 173),
    both("getrandom", 318, 278),
    both("getsockname", 51, 204),
    both("gettid", 186, 178),
    both("gettimeofday", 96, 169),
    both("init_module", 175, 105),
    both("io_uring_enter", 426, 426),
    both("io_uring_register", 427, 427),
    both("io_uring_setup", 425, 425),
    both("ioctl", 16, 29),
    x86("ioperm", 173),
    x86("iopl", 172),
    both("kcmp", 312, 272),
    both("kexec_file_load", 320, 294),
    both("kexec_load", 246, 104),
    both("keyctl", 250, 219),
    both("kill", 62, 129),
    both("listen", 50, 201),
    both("listmount", 458, 458),
    both("lookup_dcookie", 212, 18),
    both("lseek", 8, 62),
    both("lsm_get_self_attr", 459, 459),
    both("lsm_list_modules", 461, 461),
    both("lsm_set_self_attr", 460, 460),
    both("madvise", 28, 233),
    both("mbind", 237, 235),
    both("memfd_secret", 447, 447),
    both("migrate_pages", 256, 238),
    x86("mknod", 133),
    both("mknodat", 259, 33),
    both("mmap", 9, 222),
    x86("modify_ldt", 154),
    both("mount", 165, 40),
    both("mount_setattr", 442, 442),
    both("move_mount", 429, 429),
    both("move_pages", 279, 239),
    both("mprotect", 10, 226),
    both("mremap", 25, 216),
    both("munmap", 11, 215),
    both("name_to_handle_at", 303, 264),
    both("nanosleep", 35, 101),
    both("nfsservctl", 180, 42),
    both("open_by_handle_at", 304, 265),
    both("open_tree", 428, 428),
    both("open_tree_attr", 467, 467),
    both("perf_event_open", 298, 241),
    both("personality", 135, 92),
    both("pidfd_getfd", 438, 438),
    both("pidfd_open", 434, 434),
    both("pidfd_send_signal", 424, 424),
    both("pivot_root", 155, 41),
    x86("poll", 7),
    both("ppoll", 271, 73),
    both("process_madvise", 440, 440),
    both("quotactl", 179, 60),
    both("quotactl_fd", 443, 443),
    both("read", 0, 63),
    both("readv", 19, 65),
    both("reboot", 169, 142),
    both("recvfrom", 45, 207),
    both("recvmsg", 47, 212),
    both("request_key", 249, 218),
    both("restart_syscall", 219, 128),
    both("rt_sigaction", 13, 134),
    both("rt_sigprocmask", 14, 135),
    both("rt_sigreturn", 15, 139),
    both("rt_sigtimedwait", 128, 137),
    both("sched_yield", 24, 124),
    both("sendmsg", 46, 211),
    both("sendto", 44, 206),
    both("set_mempolicy", 238, 237),
    both("set_mempolicy_home_node", 450, 450),
    both("setdomainname", 171, 162),
    both("sethostname", 170, 161),
    both("setns", 308, 268),
    both("setsockopt", 54, 208),
    both("settimeofday", 164, 170),
    both("sigaltstack", 131, 132),
    both("signalfd4", 289, 74),
    both("socket", 41, 198),
    both("socketpair", 53, 199),
    both("statmount", 457, 457),
    both("swapoff", 168, 225),
    both("swapon", 167, 224),
    x86("sysfs", 139),
    both("syslog", 103, 116),
    both("tgkill", 234, 131),
    both("umount2", 166, 39),
    both("unshare", 272, 97),
    x86("uselib", 134),
    both("userfaultfd", 323, 282),
    x86("ustat", 136),
    both("vhangup", 153, 58),
    both("wait4", 61, 260),
    both("waitid", 247, 95),
    both("write", 1, 64),
    both("writev", 20, 66),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_sorted_and_stand_once() {
        let names: Vec<_> = CALLS.iter().map(|row| row.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();

        assert_eq!(names, sorted);
    }

    #[test]
    fn every_number_is_in_a_known_range() {
        for row in CALLS {
            let known = |arch: Arch, number| arch.known().iter().any(|r| r.contains(&number));

            assert!(known(Arch::X86_64, row.x86_64), "{}", row.name);
            assert!(
                row.aarch64.is_none_or(|n| known(Arch::Aarch64, n)),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn no_number_stands_for_two_calls() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let mut numbers: Vec<_> = CALLS.iter().filter_map(|r| arch.number(r.name)).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();

            assert_eq!(numbers.len(), all, "{arch:?}");
        }
    }

    /// Compares rows with the constants that `libc` has for the architecture it is built for.
    macro_rules! same_as_libc {
        ($($call:ident),* $(,)?) => {
            [$((
                &stringify!($call)["SYS_".len()..],
                u32::try_from(libc::$call).unwrap_or(u32::MAX),
            )),*]
        };
    }

    #[test]
    fn numbers_are_those_of_libc() {
        let theirs = same_as_libc![
            SYS_acct,
            SYS_add_key,
            SYS_adjtimex,
            SYS_bind,
            SYS_bpf,
            SYS_brk,
            SYS_chroot,
            SYS_clock_adjtime,
            SYS_clock_gettime,
            SYS_clock_nanosleep,
            SYS_clock_settime,
            SYS_clone,
            SYS_clone3,
            SYS_close,
            SYS_delete_module,
            SYS_epoll_create1,
            SYS_epoll_ctl,
            SYS_epoll_pwait,
            SYS_exit,
            SYS_exit_group,
            SYS_fanotify_init,
            SYS_fanotify_mark,
            SYS_fchmod,
            SYS_fchmodat,
            SYS_fcntl,
            SYS_finit_module,
            SYS_fsconfig,
            SYS_fsmount,
            SYS_fsopen,
            SYS_fspick,
            SYS_fstat,
            SYS_futex,
            SYS_getpid,
            SYS_getppid,
            SYS_getrandom,
            SYS_getsockname,
            SYS_gettid,
            SYS_gettimeofday,
            SYS_init_module,
            SYS_io_uring_enter,
            SYS_io_uring_register,
            SYS_io_uring_setup,
            SYS_ioctl,
            SYS_kcmp,
            SYS_kexec_file_load,
            SYS_kexec_load,
            SYS_keyctl,
            SYS_kill,
            SYS_listen,
            SYS_lookup_dcookie,
            SYS_lseek,
            SYS_madvise,
            SYS_mbind,
            SYS_memfd_secret,
            SYS_migrate_pages,
            SYS_mknodat,
            SYS_mmap,
            SYS_mount,
            SYS_mount_setattr,
            SYS_move_mount,
            SYS_move_pages,
            SYS_mprotect,
            SYS_mremap,
            SYS_munmap,
            SYS_name_to_handle_at,
            SYS_nanosleep,
            SYS_nfsservctl,
            SYS_open_by_handle_at,
            SYS_open_tree,
            SYS_perf_event_open,
            SYS_personality,
            SYS_pidfd_getfd,
            SYS_pidfd_open,
            SYS_pidfd_send_signal,
            SYS_pivot_root,
            SYS_ppoll,
            SYS_process_madvise,
            SYS_quotactl,
            SYS_quotactl_fd,
            SYS_read,
            SYS_readv,
            SYS_reboot,
            SYS_recvfrom,
            SYS_recvmsg,
            SYS_request_key,
            SYS_restart_syscall,
            SYS_rt_sigaction,
            SYS_rt_sigprocmask,
            SYS_rt_sigreturn,
            SYS_rt_sigtimedwait,
            SYS_sched_yield,
            SYS_sendmsg,
            SYS_sendto,
            SYS_set_mempolicy,
            SYS_set_mempolicy_home_node,
            SYS_setdomainname,
            SYS_sethostname,
            SYS_setns,
            SYS_setsockopt,
            SYS_settimeofday,
            SYS_sigaltstack,
            SYS_signalfd4,
            SYS_socket,
            SYS_socketpair,
            SYS_swapoff,
            SYS_swapon,
            SYS_syslog,
            SYS_tgkill,
            SYS_umount2,
            SYS_unshare,
            SYS_userfaultfd,
            SYS_vhangup,
            SYS_wait4,
            SYS_waitid,
            SYS_write,
            SYS_writev
        ];

        for (name, number) in theirs {
            assert_eq!(Arch::NATIVE.number(name), Some(number), "{name}");
        }
    }
}

//! Attacks on processes, the kernel and terminals.

use crate::case::{CASE, Case, DEV, L, Need, Outside, SYS_MASK, Without};
use crate::runner::Special;
use crate::special;

const EPERM: &[&str] = &["EPERM", "not permitted"];
const NO_PROCESS: &[&str] = &["ESRCH", "No such process"];
const NEEDS_RIGHTS: &str = "its call wants a right in the machine's own namespace of users";

pub(crate) const CASES: &[Case] = &[
    Case {
        id: "PR-01",
        what: "processes of the host are seen",
        attack: "grep -la ^victim-$TOKEN /proc/[0-9]*/cmdline | grep . || { echo none seen; false; }",
        expect: &["none seen"],
        layers: &[L::Pid],
        ..CASE
    },
    Case {
        id: "PR-02",
        what: "a process of the host is ended",
        attack: "kill -9 $VICTIM",
        expect: &["No such process", "not permitted"],
        layers: &[L::Pid, L::Landlock],
        ..CASE
    },
    Case {
        id: "PR-04",
        what: "the first process is ended",
        attack: "kill -9 1; kill -TERM 1; echo still here; false",
        expect: &["still here"],
        outside: Outside::Skipped("it would end the machine"),
        without: Without::Refused("the kernel keeps the first process of a namespace"),
        ..CASE
    },
    Case {
        id: "PR-05",
        what: "a process of the host is traced",
        attack: "$PROBE sc ptrace 0x4206 $VICTIM 0 0",
        expect: &["ESRCH", "EPERM"],
        layers: &[L::Pid, L::Landlock, L::User, L::Capabilities],
        without: Without::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "PR-05b",
        what: "the first process is traced",
        attack: "$PROBE sc ptrace 0x4206 1 0 0",
        expect: EPERM,
        layers: &[L::Init, L::Landlock],
        outside: Outside::Skipped("it is the first process of the machine"),
        ..CASE
    },
    Case {
        id: "PR-06",
        what: "memory of the first process is read",
        attack: "$PROBE read-memory 1",
        expect: EPERM,
        layers: &[L::Init, L::Landlock],
        outside: Outside::Skipped("it is the first process of the machine"),
        ..CASE
    },
    Case {
        id: "PR-06b",
        what: "memory of a process of the host is read",
        attack: "$PROBE read-memory $VICTIM",
        expect: NO_PROCESS,
        layers: &[L::Pid, L::Landlock, L::User, L::Capabilities],
        without: Without::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "PR-07",
        what: "a descriptor is taken out of the first process",
        attack: "$PROBE take-descriptor 1 0",
        expect: EPERM,
        layers: &[L::Seccomp, L::Init, L::Landlock],
        outside: Outside::Skipped("it is the first process of the machine"),
        ..CASE
    },
    Case {
        id: "PR-09",
        what: "a letter is typed into its own terminal",
        attack: "$PROBE ioctl 0 0x5412",
        expect: EPERM,
        layers: &[L::Seccomp],
        terminal: true,
        needs: &[Need::Program("script")],
        ..CASE
    },
    Case {
        id: "PR-10",
        what: "the same with bits that the kernel does not look at",
        attack: "$PROBE ioctl 0 0x100005412",
        expect: EPERM,
        layers: &[L::Seccomp],
        terminal: true,
        needs: &[Need::Program("script")],
        ..CASE
    },
    Case {
        id: "PR-11",
        what: "text is pasted into a console",
        attack: "o=$($PROBE ioctl 0 0x541c); echo $o; test \"$o\" != EPERM",
        expect: EPERM,
        layers: &[L::Seccomp],
        terminal: true,
        needs: &[Need::Program("script")],
        ..CASE
    },
    Case {
        id: "PR-11b",
        what: "a driver is loaded for its terminal",
        attack: "o=$($PROBE ioctl 0 0x5423); echo $o; test \"$o\" != EPERM",
        expect: EPERM,
        layers: &[L::Seccomp],
        terminal: true,
        needs: &[Need::Program("script")],
        ..CASE
    },
    Case {
        id: "PR-12",
        what: "consoles of the host are opened",
        attack: "r=1; for t in /dev/tty0 /dev/tty1 /dev/console /dev/ttyS0; do : <> $t && r=0; done; exit $r",
        expect: &["No such file", "Permission denied", "Read-only"],
        layers: &[DEV],
        outside: Outside::Skipped("it may disturb the machine's console"),
        without: Without::Refused(
            "devices of the host do not work where the host's tree is mounted",
        ),
        ..CASE
    },
    Case {
        id: "PR-12b",
        what: "disks and memory of the host are opened",
        attack: "r=1; for t in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg /dev/kvm /dev/net/tun /dev/loop0; do : < $t && r=0; done; exit $r",
        expect: &["No such file", "Permission denied"],
        layers: &[DEV],
        outside: Outside::Skipped("which of them there are differs from machine to machine"),
        without: Without::Refused(
            "devices of the host do not work where the host's tree is mounted",
        ),
        ..CASE
    },
    Case {
        id: "PR-16",
        what: "a user namespace is made",
        attack: "unshare --user true",
        expect: &["not permitted", "No space left"],
        layers: &[L::Seccomp, L::Sysctls],
        ..CASE
    },
    Case {
        id: "PR-17",
        what: "a user namespace is made by clone",
        attack: "$PROBE sc clone 0x10000011 0 0 0 0",
        expect: EPERM,
        layers: &[L::Seccomp, L::Sysctls],
        ..CASE
    },
    Case {
        id: "PR-17b",
        what: "a user namespace is made by clone3",
        attack: "$PROBE clone3",
        expect: &["ENOSYS"],
        layers: &[L::Seccomp, L::Sysctls],
        ..CASE
    },
    Case {
        id: "PR-17c",
        what: "namespaces of mounts and the network are made",
        attack: "r=1; for f in 0x20000 0x40000000 0x8000000 0x4000000 0x2000000 0x20000000; do \
                 $PROBE sc unshare $f && r=0; done; exit $r",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "PR-20",
        what: "a system call the way of 32-bit programs",
        attack: "$PROBE int80",
        expect: &["Bad system call"],
        layers: &[L::Seccomp],
        outside: Outside::Skipped("not every kernel runs 32-bit programs"),
        needs: &[Need::X86],
        ..CASE
    },
    Case {
        id: "PR-21",
        what: "system calls of the x32 table",
        attack: "$PROBE sc 0x40000027",
        expect: &["ENOSYS"],
        layers: &[L::Seccomp],
        outside: Outside::Skipped("not every kernel has that table"),
        without: Without::Refused("this kernel does not have that table"),
        needs: &[Need::X86],
        ..CASE
    },
    Case {
        id: "PR-22",
        what: "system calls that come after this program was written",
        attack: "$PROBE sc 999",
        expect: &["ENOSYS"],
        layers: &[L::Seccomp],
        outside: Outside::Skipped("no kernel has it yet"),
        without: Without::Refused("no kernel has it yet"),
        ..CASE
    },
    Case {
        id: "PR-23",
        what: "work is given to the kernel past the filter (io_uring)",
        attack: "$PROBE sc io_uring_setup 4 z:120",
        expect: &["ENOSYS"],
        layers: &[L::Seccomp],
        outside: Outside::Skipped("not every kernel lets everybody use it"),
        ..CASE
    },
    Case {
        id: "PR-24",
        what: "a map for kernel programs is made",
        attack: "$PROBE map-array",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused(NEEDS_RIGHTS),
        ..CASE
    },
    Case {
        id: "PR-25",
        what: "a counter of the processor is opened",
        attack: "$PROBE perf",
        expect: EPERM,
        layers: &[L::Seccomp],
        outside: Outside::SucceedsForRoot,
        without: Without::Succeeds,
        ..CASE
    },
    Case {
        id: "PR-26",
        what: "page faults are handled by the program",
        attack: "$PROBE sc userfaultfd 1",
        expect: &["ENOSYS"],
        layers: &[L::Seccomp],
        ..CASE
    },
    Case {
        id: "PR-27",
        what: "a key of the maker's session keyring is read",
        attack: "$PROBE key-read wt-escape-key",
        expect: EPERM,
        layers: &[L::Seccomp, L::Keyring],
        ..CASE
    },
    Case {
        id: "PR-29",
        what: "the machine is started anew",
        attack: "o=$($PROBE sc reboot 1 2 3 4); echo $o; test \"$o\" = EINVAL",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "PR-29b",
        what: "a module is loaded",
        attack: "o=$($PROBE sc init_module 0 0 s:); echo $o; test \"$o\" != EPERM -a \"$o\" != ENOSYS",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::Skipped("it may load a module"),
        without: Without::Refused(NEEDS_RIGHTS),
        ..CASE
    },
    Case {
        id: "PR-29c",
        what: "the machine gets a name",
        attack: "h=$(hostname); $PROBE sc sethostname s:$h ${#h}",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "PR-29d",
        what: "the clock is set",
        attack: "$PROBE sc settimeofday 0 0",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::Skipped("it concerns the machine's clock"),
        without: Without::Refused(NEEDS_RIGHTS),
        ..CASE
    },
    Case {
        id: "PR-29e",
        what: "ports of the hardware are opened",
        attack: "$PROBE sc iopl 3",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::Skipped("not every kernel has it"),
        without: Without::Refused(NEEDS_RIGHTS),
        needs: &[Need::X86],
        ..CASE
    },
    Case {
        id: "PR-30",
        what: "all memory is made executable",
        attack: "$PROBE sc personality 0x400000",
        expect: EPERM,
        layers: &[L::Seccomp],
        ..CASE
    },
    Case {
        id: "PR-31",
        what: "the table of segments is read",
        attack: "$PROBE sc modify_ldt 0 z:64 64",
        expect: EPERM,
        layers: &[L::Seccomp],
        needs: &[Need::X86],
        ..CASE
    },
    Case {
        id: "PR-32",
        what: "a set-user-id program gains rights",
        attack: "/mnt/probe-of-root user",
        expect: &["user "],
        layers: &[L::NoNewPrivileges, L::Seccomp, L::Landlock, L::Capabilities],
        without: Without::Refused(
            "no mount of a session heeds that bit, and its namespace lacks the superuser",
        ),
        needs: &[Need::Surroundings, Need::User],
        ..CASE
    },
    Case {
        id: "PR-33",
        what: "a set-user-id file is left in the project",
        attack: "cp /bin/true s && chmod 4755 s",
        expect: EPERM,
        layers: &[L::Seccomp],
        ..CASE
    },
    Case {
        id: "PR-34",
        what: "the user is changed",
        attack: "$PROBE sc setuid 12345",
        expect: &["EINVAL", "EPERM"],
        layers: &[L::Capabilities],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused("the namespace has one user"),
        ..CASE
    },
    Case {
        id: "PR-34b",
        what: "groups are taken on",
        attack: "$PROBE sc setgroups 1 b:2a000000",
        expect: &["EINVAL", "EPERM"],
        layers: &[L::Capabilities],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused("the namespace has one group, and groups are fixed in it"),
        ..CASE
    },
    Case {
        id: "PR-35",
        what: "its own priority is raised",
        attack: "$PROBE sc setpriority 0 0 -5",
        expect: &["EACCES", "EPERM"],
        layers: &[L::Rlimits, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused(NEEDS_RIGHTS),
        ..CASE
    },
    Case {
        id: "PR-35b",
        what: "it is scheduled before everybody else",
        attack: "$PROBE sc sched_setscheduler 0 1 b:01000000",
        expect: EPERM,
        layers: &[L::Rlimits, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused(NEEDS_RIGHTS),
        ..CASE
    },
    Case {
        id: "PR-36",
        what: "core dumps are switched on",
        attack: "ulimit -c unlimited",
        expect: &["cannot modify limit", "not permitted"],
        layers: &[L::Rlimits],
        ..CASE
    },
    Case {
        id: "PR-37",
        what: "more processes are started than the policy allows",
        policy: "resources: {max_pids: 64}\n",
        attack: "$PROBE fork 200",
        expect: &["EAGAIN", "no control group that this user can write"],
        layers: &[L::Rlimits, L::Cgroup],
        ..CASE
    },
    Case {
        id: "PR-39",
        what: "temporary files fill the machine's memory",
        attack: "fallocate -l 20G /tmp/x || fallocate -l 20G /dev/shm/x",
        expect: &["No space left"],
        layers: &[TMP_AND_DEV],
        outside: Outside::Skipped("it would fill the machine"),
        without: Without::Refused("without a file system of its own nothing is writable there"),
        needs: &[Need::Program("fallocate")],
        ..CASE
    },
    Case {
        id: "PR-40",
        what: "more files are opened than the policy allows",
        policy: "resources: {max_fds: 64}\n",
        attack: "$PROBE open 200",
        expect: &["EMFILE"],
        layers: &[L::Rlimits],
        ..CASE
    },
    Case {
        id: "PR-41",
        what: "the project's disk is filled",
        attack: "fallocate -l 1M x",
        residual: "a project has the space of its disk; no quota stands around it",
        needs: &[Need::Program("fallocate")],
        ..CASE
    },
    Case {
        id: "PR-47",
        what: "it moves itself to another control group",
        attack: "f=$(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs | head -1); echo \"in $f\"; echo $$ > \"$f\"",
        expect: &["No such file", "Read-only", "Permission denied"],
        layers: &[SYS_MASK, L::ReadOnly, L::Landlock],
        outside: Outside::SucceedsForRoot,
        without: Without::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "PR-49",
        what: "shared memory of the host is read",
        setup: "$PROBE shared-put $KEYNUMBER $CANARY",
        attack: "$PROBE shared-get $KEYNUMBER",
        teardown: "ipcrm -M $KEYNUMBER",
        expect: &["ENOENT"],
        layers: &[L::Ipc],
        needs: &[Need::Program("ipcrm")],
        ..CASE
    },
    Case {
        id: "PR-50",
        what: "a namespace of clocks is made",
        attack: "unshare --time true",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
];

/// Where a session's files in memory are.
const TMP_AND_DEV: L = L::Mount(wt_sandbox::plan::MountLayer::PrivateTmp);

pub(crate) const SPECIAL: &[Special] = &[
    Special {
        id: "PR-44",
        what: "a process that ignores signals outlives the session's end",
        run: special::stubborn_processes_end,
    },
    Special {
        id: "PR-45",
        what: "a session outlives its supervisor",
        run: special::the_end_of_the_supervisor_ends_all,
    },
    Special {
        id: "PR-46",
        what: "a process in the background outlives the program",
        run: special::nothing_is_left_running,
    },
    Special {
        id: "PR-54",
        what: "another session of the same user is ended or traced",
        run: special::sessions_do_not_see_each_other,
    },
];

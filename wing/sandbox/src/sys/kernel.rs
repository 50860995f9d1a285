//! System calls for privileges, filters, keyrings and descriptors, each as a safe function.

use std::ffi::{CStr, c_int, c_long, c_uint, c_ulong};
use std::io;
use std::os::fd::AsRawFd;

use libc::sock_filter;

/// Version 3 of the interface of capget(2) and capset(2): two words for 64 capabilities.
const CAPABILITY_VERSION: u32 = 0x2008_0522;
/// `KEYCTL_JOIN_SESSION_KEYRING` of `linux/keyctl.h`.
const JOIN_SESSION_KEYRING: c_int = 1;
/// `KEYCTL_GET_KEYRING_ID` of `linux/keyctl.h`.
const GET_KEYRING_ID: c_int = 0;
/// `KEY_SPEC_SESSION_KEYRING` of `linux/keyctl.h`.
const SESSION_KEYRING: c_int = -3;
/// `LANDLOCK_CREATE_RULESET_VERSION` and `_ERRATA` of `linux/landlock.h`.
const LANDLOCK_VERSION: c_uint = 1;
const LANDLOCK_ERRATA: c_uint = 2;

/// Sets of capabilities of a thread, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) effective: u64,
    pub(crate) permitted: u64,
    pub(crate) inheritable: u64,
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A prctl(2) whose arguments are numbers alone.
fn prctl(option: c_int, a: c_ulong, b: c_ulong) -> io::Result<c_int> {
    // SAFETY: the callers below pass options whose arguments are plain numbers, so the kernel
    // follows no pointer; the unused arguments are zero, as it demands.
    let result = unsafe { libc::prctl(option, a, b, 0 as c_ulong, 0 as c_ulong) };
    checked(result.into()).map(|_| result)
}

/// Makes sure that executing a program never adds privileges, for this thread and its children.
pub(crate) fn set_no_new_privileges() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map(drop)
}

/// Whether that is so.
pub(crate) fn no_new_privileges() -> io::Result<bool> {
    prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0).map(|value| value == 1)
}

/// Sets whether the process may be traced and leaves core dumps.
pub(crate) fn set_dumpable(dumpable: bool) -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, c_ulong::from(dumpable), 0).map(drop)
}

/// Whether the process may be traced: 1 if so.
pub(crate) fn dumpable() -> io::Result<c_int> {
    prctl(libc::PR_GET_DUMPABLE, 0, 0)
}

/// Takes all ambient capabilities from this thread.
pub(crate) fn clear_ambient_capabilities() -> io::Result<()> {
    prctl(
        libc::PR_CAP_AMBIENT,
        libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong,
        0,
    )
    .map(drop)
}

/// Whether a capability is in the bounding set; an error for one that the kernel does not have.
pub(crate) fn in_bounding_set(capability: u32) -> io::Result<bool> {
    prctl(libc::PR_CAPBSET_READ, capability.into(), 0).map(|value| value == 1)
}

/// Takes a capability from the bounding set.
pub(crate) fn drop_from_bounding_set(capability: u32) -> io::Result<()> {
    prctl(libc::PR_CAPBSET_DROP, capability.into(), 0).map(drop)
}

/// The capabilities of this thread.
pub(crate) fn capabilities() -> io::Result<Capabilities> {
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    let mut words = [CapabilityWords::default(); 2];
    // SAFETY: version 3 reads one header and writes two elements, which is what these are.
    checked(unsafe { libc::syscall(libc::SYS_capget, &header, words.as_mut_ptr()) })?;
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Ok(Capabilities {
        effective: join(words[0].effective, words[1].effective),
        permitted: join(words[0].permitted, words[1].permitted),
        inheritable: join(words[0].inheritable, words[1].inheritable),
    })
}

/// Takes all effective, permitted and inheritable capabilities from this thread.
pub(crate) fn clear_capabilities() -> io::Result<()> {
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    let words = [CapabilityWords::default(); 2];
    // SAFETY: version 3 reads one header and two elements, which is what these are.
    checked(unsafe { libc::syscall(libc::SYS_capset, &header, words.as_ptr()) }).map(drop)
}

/// Gives this process a session keyring of its own, and leaves the one it had.
pub(crate) fn join_new_session_keyring() -> io::Result<()> {
    // SAFETY: a null name asks for an anonymous keyring; nothing else is read.
    checked(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    })
    .map(drop)
}

/// The serial number of the session keyring.
pub(crate) fn session_keyring() -> io::Result<c_long> {
    // SAFETY: all arguments are numbers.
    checked(unsafe { libc::syscall(libc::SYS_keyctl, GET_KEYRING_ID, SESSION_KEYRING, 0) })
}

/// Closes the descriptors `first..=last`, or marks them for closing at execve(2).
///
/// Closing makes any [`std::os::fd::OwnedFd`] in that range dangle; the callers are the stages
/// of a start, which own no descriptors but those that they keep.
pub(crate) fn close_range(first: u32, last: u32, on_exec_only: bool) -> io::Result<()> {
    let flags = if on_exec_only {
        libc::CLOSE_RANGE_CLOEXEC
    } else {
        0
    };
    // SAFETY: all arguments are numbers; memory is not touched.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Puts a filter over this thread.
pub(crate) fn install_filter(filter: &[sock_filter], log: bool) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        filter: filter.as_ptr().cast_mut(),
    };
    let flags = if log {
        libc::SECCOMP_FILTER_FLAG_LOG
    } else {
        0
    };
    // SAFETY: the program names as many instructions as the slice holds; the kernel copies
    // them and writes nothing.
    checked(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &program,
        )
    })
    .map(drop)
}

/// Whether the kernel knows an answer of filters.
pub(crate) fn knows_filter_action(action: u32) -> bool {
    // SAFETY: the kernel reads one word.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &action,
        )
    };
    result == 0
}

/// The version of Landlock's interface.
pub(crate) fn landlock_version() -> io::Result<u32> {
    landlock_query(LANDLOCK_VERSION)
}

/// The faults of Landlock that are mended in this kernel, a bit for each; 0 where the kernel
/// does not tell.
pub(crate) fn landlock_errata() -> u32 {
    landlock_query(LANDLOCK_ERRATA).unwrap_or(0)
}

fn landlock_query(flag: c_uint) -> io::Result<u32> {
    // SAFETY: with these flags the kernel wants a null pointer and reads nothing.
    checked(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            flag,
        )
    })
    .map(|value| u32::try_from(value).unwrap_or(0))
}

/// Whether the kernel knows clone3(2): without arguments it answers `EINVAL`, not `ENOSYS`.
pub(crate) fn knows_clone3() -> bool {
    // SAFETY: a size of zero makes the kernel refuse before it reads the null pointer.
    let result = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<u8>(), 0usize) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// Where a trial of namespaces failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrialStep {
    /// clone(2) with the namespaces.
    Clone,
    /// Writing `setgroups`, `uid_map` and `gid_map`.
    Map,
    /// Making all mounts private.
    Private,
    /// Mounting a tmpfs.
    Tmpfs,
    /// Making a procfs of the new process namespace.
    Proc,
}

/// What a trial writes and mounts.
pub(crate) struct Trial<'a> {
    /// `CLONE_NEW*`.
    pub(crate) namespaces: c_int,
    /// The line of `uid_map`.
    pub(crate) uid_map: &'a CStr,
    /// The line of `gid_map`.
    pub(crate) gid_map: &'a CStr,
}

/// Makes namespaces in a child that ends at once, and tells what failed.
///
/// The namespaces end with the child. The outer error is one of the trial itself.
pub(crate) fn try_namespaces(trial: &Trial<'_>) -> io::Result<Result<(), (TrialStep, io::Error)>> {
    let steps = [
        TrialStep::Map,
        TrialStep::Private,
        TrialStep::Tmpfs,
        TrialStep::Proc,
    ];
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    // SAFETY: without CLONE_VM this is a fork. The child shares no memory with us; it makes
    // system calls alone (no allocation, no lock, nothing that another thread may have held
    // when it was copied) and ends by _exit.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            c_long::from(trial.namespaces | libc::SIGCHLD),
            0 as c_long,
            0 as c_long,
            0 as c_long,
            0 as c_long,
        )
    };
    if pid < 0 {
        return Ok(Err((TrialStep::Clone, io::Error::last_os_error())));
    }
    if pid == 0 {
        let (step, errno) = trial_child(trial);
        let report = [step, errno];
        // SAFETY: the buffer lives until the call returns; _exit runs nothing of ours.
        unsafe {
            libc::write(
                writer.as_raw_fd(),
                report.as_ptr().cast(),
                size_of_val(&report),
            );
            libc::_exit(0);
        }
    }
    drop(writer);
    let mut report = [0u8; size_of::<[c_int; 2]>()];
    let read = loop {
        match nix::unistd::read(&reader, &mut report) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other,
        }
    };
    let pid =
        nix::unistd::Pid::from_raw(libc::pid_t::try_from(pid).expect("process ids fit their type"));
    while nix::sys::wait::waitpid(pid, None) == Err(nix::errno::Errno::EINTR) {}
    if read? != report.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let word = |at: usize| {
        c_int::from_ne_bytes([report[at], report[at + 1], report[at + 2], report[at + 3]])
    };
    match usize::try_from(word(0)).ok().and_then(|at| steps.get(at)) {
        Some(&step) => Ok(Err((step, io::Error::from_raw_os_error(word(4))))),
        None => Ok(Ok(())),
    }
}

/// What the child of a trial does: the index of the step that failed and its error, or -1.
fn trial_child(trial: &Trial<'_>) -> (c_int, c_int) {
    let failed = |step| (step, nix::errno::Errno::last_raw());
    for (path, line) in [
        (c"/proc/self/setgroups", c"deny"),
        (c"/proc/self/uid_map", trial.uid_map),
        (c"/proc/self/gid_map", trial.gid_map),
    ] {
        // SAFETY: both are strings that end with a zero and outlive the calls.
        let written = unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            fd >= 0 && libc::write(fd, line.as_ptr().cast(), line.count_bytes()) >= 0
        };
        if !written {
            return failed(0);
        }
    }
    let mount = |kind: &CStr, target: &CStr, flags| {
        // SAFETY: all strings end with a zero and outlive the call; there are no data.
        unsafe {
            libc::mount(
                kind.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                flags,
                std::ptr::null(),
            ) == 0
        }
    };
    if !mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE) {
        return failed(1);
    }
    if !mount(c"tmpfs", c"/tmp", libc::MS_NOSUID | libc::MS_NODEV) {
        return failed(2);
    }
    let strict = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    if !mount(c"proc", c"/tmp", strict) {
        return failed(3);
    }
    (-1, 0)
}

/// Any system call, for tests of what a filter answers.
#[cfg(test)]
pub(crate) fn raw(number: c_long, arguments: [u64; 6]) -> io::Result<c_long> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: tests pass numbers of calls with arguments that name no memory of theirs.
    checked(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// Whether a descriptor is open.
#[cfg(test)]
pub(crate) fn is_open(fd: std::os::fd::RawFd) -> bool {
    // SAFETY: the call reads flags alone.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

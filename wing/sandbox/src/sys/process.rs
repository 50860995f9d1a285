//! Making processes and namespaces, and what only the calling process can do to itself.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The two sides of a process that was doubled.
pub(crate) enum Forked<T> {
    /// The one that called.
    Parent(T),
    /// The one that was made.
    Child,
}

/// Ensures that only one thread exists: a doubled process has the calling thread alone, and
/// locks that others held would stay locked in it.
fn assert_single_threaded() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads == 1 {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "the process that puts up the boundary has {threads} threads"
        )))
    }
}

/// Makes a process in new namespaces whose parent is this process's own parent.
///
/// Gives its id, as this process sees it, and a descriptor of it.
pub(crate) fn clone_into(namespaces: u64) -> io::Result<Forked<(u32, OwnedFd)>> {
    assert_single_threaded()?;
    let mut pidfd: libc::c_int = -1;
    // SAFETY: all fields of this plain struct may be zero.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces | (libc::CLONE_PARENT | libc::CLONE_PIDFD) as u64;
    args.pidfd = (&raw mut pidfd) as u64;
    // SAFETY: no memory is shared with the new process and no stack is given, so this is
    // fork(2) with namespaces: both go on with memory of their own. One thread exists, so no
    // lock of the allocator or the runtime is held by a thread that the child lacks. The
    // arguments outlive the call, and the kernel writes one descriptor to `pidfd`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            size_of::<libc::clone_args>(),
        )
    };
    match result {
        0 => Ok(Forked::Child),
        pid if pid > 0 => {
            // SAFETY: the call succeeded in the parent, so the kernel made this descriptor
            // for us and nobody else has it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = u32::try_from(pid).expect("a process id fits in 22 bits");
            Ok(Forked::Parent((pid, pidfd)))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Doubles this process. Gives the child's id.
pub(crate) fn fork() -> io::Result<Forked<i32>> {
    // The number of threads was checked when this process was made, and it made none since.
    // SAFETY: one thread exists, so the child finds no lock held by another.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        pid if pid > 0 => Ok(Forked::Parent(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this process into a new user namespace.
pub(crate) fn unshare_user() -> io::Result<()> {
    // SAFETY: the call takes a number and touches no memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })
}

/// Ends this process at once, without running what was registered for its end: that
/// belongs to the program that this process was doubled from.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: the call takes a number and does not return.
    unsafe { libc::_exit(status) }
}

/// Gives every signal its default action and blocks none: ignored and blocked signals
/// would otherwise stay so in the program that is executed.
pub(crate) fn reset_signals() -> io::Result<()> {
    /// Room for the kernel's `struct sigaction`, which has 32 bytes at most. All zero it says:
    /// default action, no flags, nothing blocked.
    const DEFAULT: [u64; 4] = [0; 4];
    /// The bytes of the kernel's set of signals.
    const SET_BYTES: usize = 8;
    // The C library keeps two signals for itself and lets nobody reset them, but they are
    // passed on like all others; so the kernel is asked.
    for signal in 1..=8 * SET_BYTES {
        // SIGKILL and SIGSTOP cannot be set, and that is as it should be.
        // SAFETY: the struct is large enough, valid, and outlives the call, which only reads.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<u64>(),
                SET_BYTES,
            )
        };
    }
    unblock_signals()
}

/// Blocks no signal any more.
pub(crate) fn unblock_signals() -> io::Result<()> {
    // SAFETY: all bits of this plain set may be zero.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid and outlives both calls.
    check(unsafe {
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    })
}

/// Blocks SIGCHLD and gives a descriptor that becomes readable when a child changed.
pub(crate) fn child_events() -> io::Result<OwnedFd> {
    // SAFETY: all bits of this plain set may be zero.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid and outlives the calls.
    let fd = unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const set,
            std::ptr::null_mut(),
        ))?;
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    check(fd)?;
    // SAFETY: the call succeeded, so this descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Overwrites what other processes see as this process's arguments.
pub(crate) fn blank_arguments() -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // proc_pid_stat(5): arg_start and arg_end are fields 48 and 49; the first after the
    // name's closing bracket is field 3.
    let mut fields = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .skip(45);
    let mut address = || fields.next().and_then(|field| field.parse::<usize>().ok());
    let (Some(start), Some(end)) = (address(), address()) else {
        return Err(io::Error::other(
            "/proc/self/stat does not say where the arguments are",
        ));
    };
    if start == 0 || end <= start {
        return Ok(());
    }
    // SAFETY: the kernel says that the arguments of this process stand here, in its own
    // writable stack. One thread exists and nothing in it holds a reference to them: the
    // standard library copies arguments when it is asked for them.
    unsafe { std::ptr::write_bytes(start as *mut u8, 0, end - start) };
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

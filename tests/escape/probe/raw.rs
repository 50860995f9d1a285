//! Acts that take raw system calls: no library offers them without checks of its own.

use std::ffi::{CString, c_int, c_long, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};

use crate::{Outcome, act, number};

/// The name of an error number.
pub(crate) fn name_of(errno: i32) -> String {
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EIO => "EIO",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::EXDEV => "EXDEV",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENOTTY => "ENOTTY",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::ELOOP => "ELOOP",
        libc::ENOSYS => "ENOSYS",
        libc::ENOKEY => "ENOKEY",
        libc::EUSERS => "EUSERS",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ECONNRESET => "ECONNRESET",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        other => return format!("errno {other}"),
    };
    name.to_owned()
}

fn check(result: c_long) -> Result<c_long, String> {
    if result < 0 {
        return Err(act::named(&io::Error::last_os_error()));
    }
    Ok(result)
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a NUL in an argument".to_owned())
}

/// The number of a system call by its name, or a number as it stands.
fn call_number(name: &str) -> Result<c_long, String> {
    Ok(match name {
        "adjtimex" => libc::SYS_adjtimex,
        "add_key" => libc::SYS_add_key,
        "chroot" => libc::SYS_chroot,
        "clone" => libc::SYS_clone,
        "fanotify_init" => libc::SYS_fanotify_init,
        "fsmount" => libc::SYS_fsmount,
        "fsopen" => libc::SYS_fsopen,
        "fspick" => libc::SYS_fspick,
        "init_module" => libc::SYS_init_module,
        "io_uring_setup" => libc::SYS_io_uring_setup,
        #[cfg(target_arch = "x86_64")]
        "iopl" => libc::SYS_iopl,
        "kcmp" => libc::SYS_kcmp,
        "kexec_load" => libc::SYS_kexec_load,
        "keyctl" => libc::SYS_keyctl,
        #[cfg(target_arch = "x86_64")]
        "modify_ldt" => libc::SYS_modify_ldt,
        "mount" => libc::SYS_mount,
        "mount_setattr" => libc::SYS_mount_setattr,
        "open_tree" => libc::SYS_open_tree,
        "personality" => libc::SYS_personality,
        "pivot_root" => libc::SYS_pivot_root,
        "ptrace" => libc::SYS_ptrace,
        "quotactl" => libc::SYS_quotactl,
        "reboot" => libc::SYS_reboot,
        "sched_setscheduler" => libc::SYS_sched_setscheduler,
        "setgroups" => libc::SYS_setgroups,
        "sethostname" => libc::SYS_sethostname,
        "setpriority" => libc::SYS_setpriority,
        "settimeofday" => libc::SYS_settimeofday,
        "setuid" => libc::SYS_setuid,
        "swapoff" => libc::SYS_swapoff,
        "syslog" => libc::SYS_syslog,
        "umount2" => libc::SYS_umount2,
        "unshare" => libc::SYS_unshare,
        "userfaultfd" => libc::SYS_userfaultfd,
        other => number(other)?,
    })
}

/// Makes any system call. An argument is a number, `s:TEXT`, `z:N` for N zero bytes, or
/// `b:HEX` for bytes.
pub(crate) fn system_call(name: &str, arguments: &[&str]) -> Outcome {
    let call = call_number(name)?;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut values = [0 as c_long; 6];
    for (value, argument) in values.iter_mut().zip(arguments) {
        let bytes = if let Some(text) = argument.strip_prefix("s:") {
            Some([text.as_bytes(), &[0]].concat())
        } else if let Some(count) = argument.strip_prefix("z:") {
            Some(vec![0; number(count)?])
        } else if let Some(hex) = argument.strip_prefix("b:") {
            let pairs = hex.as_bytes().chunks(2).map(|pair| {
                let pair = std::str::from_utf8(pair).unwrap_or("?");
                u8::from_str_radix(pair, 16).map_err(|_| format!("{pair} is no byte"))
            });
            Some(pairs.collect::<Result<_, _>>()?)
        } else {
            None
        };
        *value = match bytes {
            Some(bytes) => {
                kept.push(bytes);
                kept.last_mut()
                    .map_or(0, |bytes| bytes.as_mut_ptr() as c_long)
            }
            None => number(argument)?,
        };
    }
    let [a, b, c, d, e, f] = values;
    // SAFETY: pointers among the arguments lead to buffers in `kept`, which lives until after
    // the call. Which call it is and what it does to this process is the tester's choice;
    // none of those that the suite makes writes to memory other than these buffers.
    let result = unsafe { libc::syscall(call, a, b, c, d, e, f) };
    if call == libc::SYS_clone && result == 0 {
        // SAFETY: the child ends here, without running anything of its parent's.
        unsafe { libc::_exit(0) }
    }
    check(result).map(|result| result.to_string())
}

/// Asks a terminal for something, with one letter as the argument. All 64 bits of the request
/// are passed.
pub(crate) fn terminal_request(fd: c_int, request: c_long) -> Outcome {
    let letter = [b'#', 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the requests that are tried read at most these bytes.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, request, letter.as_ptr()) };
    check(result).map(|result| result.to_string())
}

/// Opens a counter of the processor's clock for this process (perf_event_open(2)).
pub(crate) fn perf() -> Outcome {
    let mut attributes = [0_u8; 128];
    // PERF_TYPE_SOFTWARE, the size, PERF_COUNT_SW_CPU_CLOCK, without kernel and hypervisor.
    attributes[0] = 1;
    attributes[4] = 128;
    attributes[40] = 0b0110_0000;
    // SAFETY: the kernel reads the attributes and writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) };
    check(result).map(|fd| fd.to_string())
}

/// Makes an array for kernel programs (bpf(2)).
pub(crate) fn bpf_map() -> Outcome {
    let mut attributes = [0_u8; 72];
    // BPF_MAP_TYPE_ARRAY with one entry of four bytes.
    attributes[0] = 2;
    attributes[4] = 4;
    attributes[8] = 4;
    attributes[12] = 1;
    // SAFETY: BPF_MAP_CREATE reads the attributes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, 0, attributes.as_ptr(), attributes.len()) };
    check(result).map(|fd| fd.to_string())
}

/// Starts a child in a user namespace by clone3, whose flags no filter sees.
pub(crate) fn clone3_user_namespace() -> Outcome {
    let flags = u64::try_from(libc::CLONE_NEWUSER).unwrap_or_default();
    let signal = u64::try_from(libc::SIGCHLD).unwrap_or_default();
    let arguments: [u64; 8] = [flags, 0, 0, 0, signal, 0, 0, 0];
    // SAFETY: without CLONE_VM the child has a copy of everything, and ends at once.
    let result = unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), 64) };
    if result == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(0) }
    }
    check(result).map(|pid| pid.to_string())
}

/// Calls getpid the way 32-bit programs do.
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80() -> Outcome {
    let result: i32;
    // SAFETY: number 20 of that table is getpid, which takes and changes nothing; the
    // instruction clobbers the registers that are named.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inout("eax") 20_i32 => result,
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
        );
    }
    if result > 0 {
        Ok(result.to_string())
    } else {
        Err(name_of(-result))
    }
}

/// Calls getpid the way 32-bit programs do.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn int80() -> Outcome {
    Err("no such instruction".into())
}

/// Writes to a file that is open for reading, through memory.
pub(crate) fn map_and_write(path: &str) -> Outcome {
    let file = std::fs::File::open(path).map_err(|e| act::named(&e))?;
    // SAFETY: a new mapping of one page that nothing else points to.
    let memory = unsafe {
        libc::mmap(
            null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(act::named(&io::Error::last_os_error()));
    }
    Ok("mapped".into())
}

/// Opens a file by its handle, past the folders on the way to it.
pub(crate) fn open_by_handle(path: &str) -> Outcome {
    const ROOM: u32 = 128;
    let mut handle = [0_u8; 8 + ROOM as usize];
    handle[..4].copy_from_slice(&ROOM.to_ne_bytes());
    let name = text(path)?;
    let mut mount = 0;
    // SAFETY: the handle has room for as many bytes as its head says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            name.as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            0,
        )
    };
    if let Err(error) = check(result) {
        // What a handle looks like can be guessed; the second call is the one that matters.
        handle[..4].copy_from_slice(&8_u32.to_ne_bytes());
        eprintln!("name_to_handle_at: {error}");
    }
    let root = std::fs::File::open("/").map_err(|e| act::named(&e))?;
    // SAFETY: the kernel reads the handle.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            root.as_raw_fd(),
            handle.as_ptr(),
            libc::O_RDONLY,
        )
    };
    check(result).map(|fd| fd.to_string())
}

/// Reads eight bytes of another process, from where its program's head is.
pub(crate) fn read_memory(pid: c_int) -> Outcome {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|e| act::named(&e));
    let start = maps
        .ok()
        .and_then(|maps| usize::from_str_radix(maps.split('-').next()?, 16).ok())
        .unwrap_or(0x10000);
    let mut buffer = [0_u8; 8];
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: start as *mut c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: the kernel writes to the buffer, as many bytes as it has.
    let result =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    check(result as c_long).map(|read| read.to_string())
}

/// Takes a descriptor out of another process.
pub(crate) fn take_descriptor(pid: c_int, fd: c_int) -> Outcome {
    // SAFETY: two numbers go in, a descriptor comes out.
    let process = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: as above.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0) };
    check(result).map(|fd| fd.to_string())
}

/// The session keyring (keyctl(2)).
const SESSION_KEYRING: c_long = -3;
const JOIN_SESSION_KEYRING: c_long = 1;
const SEARCH: c_long = 10;
const READ: c_long = 11;

/// Joins a session keyring of its own and puts a key into it.
pub(crate) fn add_session_key(name: &str, secret: &str) -> Outcome {
    let (kind, name) = (text("user")?, text(name)?);
    // SAFETY: no name asks for an anonymous keyring.
    let joined = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            null::<c_void>(),
            0,
            0,
            0,
        )
    };
    check(joined)?;
    // SAFETY: the kernel reads the strings and the secret.
    let result = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind.as_ptr(),
            name.as_ptr(),
            secret.as_ptr(),
            secret.len(),
            SESSION_KEYRING,
        )
    };
    check(result).map(|key| key.to_string())
}

/// Reads a key that the session keyring leads to.
pub(crate) fn read_key(name: &str) -> Outcome {
    let (kind, name) = (text("user")?, text(name)?);
    // SAFETY: the kernel reads the strings.
    let found = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            SEARCH,
            SESSION_KEYRING,
            kind.as_ptr(),
            name.as_ptr(),
            0,
        )
    };
    let key = check(found)?;
    let mut secret = [0_u8; 256];
    // SAFETY: the kernel writes as many bytes as the buffer has.
    let read = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            READ,
            key,
            secret.as_mut_ptr(),
            secret.len(),
        )
    };
    let read = usize::try_from(check(read)?).unwrap_or(0).min(secret.len());
    Ok(String::from_utf8_lossy(&secret[..read]).into_owned())
}

const SHARED_BYTES: usize = 4096;

fn shared_memory(key: c_int, flags: c_int) -> Result<*mut u8, String> {
    // SAFETY: numbers go in, an id comes out.
    let id = check(unsafe { libc::shmget(key, SHARED_BYTES, flags) }.into())?;
    // SAFETY: the kernel chooses where it is attached; it stays so until the end.
    let memory = unsafe { libc::shmat(c_int::try_from(id).unwrap_or(-1), null(), 0) };
    if memory as isize == -1 {
        return Err(act::named(&io::Error::last_os_error()));
    }
    Ok(memory.cast())
}

/// Makes a piece of System V shared memory with a text in it.
pub(crate) fn shared_memory_put(key: c_int, text: &str) -> Outcome {
    let memory = shared_memory(key, libc::IPC_CREAT | 0o600)?;
    let length = text.len().min(SHARED_BYTES);
    // SAFETY: the piece has that many bytes, and the text is not in it.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), memory, length) };
    Ok(String::new())
}

/// Reads it.
pub(crate) fn shared_memory_get(key: c_int) -> Outcome {
    let memory = shared_memory(key, 0)?;
    let mut bytes = [0_u8; 64];
    // SAFETY: the piece is larger than the buffer.
    unsafe { std::ptr::copy_nonoverlapping(memory, bytes.as_mut_ptr(), bytes.len()) };
    Ok(String::from_utf8_lossy(&bytes)
        .trim_end_matches('\0')
        .to_owned())
}

/// Runs a copy of a program from memory, where no file of it is.
pub(crate) fn run_from_memory(program: &str, arguments: &[&str]) -> Outcome {
    let code = std::fs::read(program).map_err(|e| act::named(&e))?;
    // SAFETY: a name goes in, a descriptor comes out.
    let fd = check(unsafe { libc::memfd_create(c"probe".as_ptr(), 0) }.into())?;
    let path = format!("/proc/self/fd/{fd}");
    std::fs::write(&path, code).map_err(|e| act::named(&e))?;
    Err(act::become_program(&path, arguments))
}

/// Joins the namespace that a file stands for.
pub(crate) fn join_namespace(path: &str) -> Outcome {
    let file = std::fs::File::open(path).map_err(|e| act::named(&e))?;
    // SAFETY: numbers alone.
    let result = unsafe { libc::setns(file.as_raw_fd(), 0) };
    check(result.into()).map(|_| String::new())
}

/// Which families of sockets can be opened, beyond those that every program may have.
pub(crate) fn socket_families() -> Outcome {
    let mut open = Vec::new();
    for family in 0..=50 {
        for kind in [
            libc::SOCK_STREAM,
            libc::SOCK_DGRAM,
            libc::SOCK_SEQPACKET,
            libc::SOCK_RAW,
        ] {
            // SAFETY: numbers go in, a descriptor comes out.
            let result = unsafe { libc::socket(family, kind, 0) };
            if result >= 0 {
                open.push(family);
                break;
            }
        }
    }
    let known = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    if open.iter().all(|family| known.contains(family)) {
        return Err(format!("{open:?} alone"));
    }
    Ok(format!("{open:?}"))
}

/// Opens a socket.
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> Outcome {
    // SAFETY: numbers go in, a descriptor comes out.
    check(unsafe { libc::socket(family, kind, protocol) }.into()).map(|fd| fd.to_string())
}

/// Makes a file without a name in one folder and gives it a name elsewhere.
pub(crate) fn link_unnamed(folder: &str, target: &str) -> Outcome {
    let (folder, target) = (text(folder)?, text(target)?);
    // SAFETY: the kernel reads the path.
    let fd = unsafe { libc::open(folder.as_ptr(), libc::O_TMPFILE | libc::O_WRONLY, 0o755) };
    let fd = check(fd.into())?;
    let source = text(&format!("/proc/self/fd/{fd}"))?;
    // SAFETY: the kernel reads the paths.
    let result = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            source.as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    check(result.into()).map(|_| String::new())
}

/// Swaps two names at once.
pub(crate) fn exchange(one: &str, other: &str) -> Outcome {
    let (one, other) = (text(one)?, text(other)?);
    // SAFETY: the kernel reads the paths.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    check(result).map(|_| String::new())
}

/// Watches a path (inotify(7)).
pub(crate) fn watch(path: &str) -> Outcome {
    let path = text(path)?;
    // SAFETY: numbers and a path that the kernel reads.
    let result = unsafe {
        let fd = libc::inotify_init1(0);
        libc::inotify_add_watch(fd, path.as_ptr(), libc::IN_ALL_EVENTS)
    };
    check(result.into()).map(|_| String::new())
}

/// Starts children that do nothing, and ends them all.
pub(crate) fn fork_many(count: usize) -> Outcome {
    let mut children = Vec::new();
    let mut failure = None;
    for _ in 0..count {
        // SAFETY: this process has one thread, and the child only waits to be ended.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: it takes nothing.
                unsafe { libc::pause() };
            },
            -1 => {
                failure = Some(act::named(&io::Error::last_os_error()));
                break;
            }
            child => children.push(child),
        }
    }
    for child in &children {
        // SAFETY: numbers; they are children of this process, not waited for yet.
        unsafe {
            libc::kill(*child, libc::SIGKILL);
            libc::waitpid(*child, null_mut(), 0);
        }
    }
    match failure {
        Some(error) => Err(format!("{error} after {}", children.len())),
        None => Ok(format!("{} children", children.len())),
    }
}

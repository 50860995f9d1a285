//! The first process of a session: makes everything that needs rights, gives the rights up,
//! starts the program, and stays to collect what ends and to end with the program.
//!
//! It ends when the supervisor closes the control socket, and with it the kernel ends
//! every process of the session.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, chdir, ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::control::{ExecFailure, MAX_FDS, Order, Report, receive, send};
use crate::plan::{ListenerKind, Plan, Stdio, Sysctl};
use crate::privileges::Keyring;
use crate::spawn::{Attested, Layer};
use crate::stage::{FAILED, failed_at};
use crate::sys::process::{
    Forked, blank_arguments, child_events, exit, fork, unblock_signals, unshare_user,
};
use crate::{EnforcementError, Step, landlock, mounts, network, privileges, rlimits, seccomp};

/// What other processes of the session see as the name of the first.
const NAME: &std::ffi::CStr = c"egg-init";

/// Where programs are looked for when the session has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Puts the boundary up, starts the program in it, and ends when that ends.
pub(crate) fn run(plan: Plan, control: &OwnedFd, given: Vec<OwnedFd>) -> ! {
    let status = match start(&plan, control, given) {
        Ok(session) => session.keep(control),
        Err(error) => {
            let _ = send(control, &Report::Failed(error), &[]);
            FAILED
        }
    };
    exit(status)
}

fn start(plan: &Plan, control: &OwnedFd, given: Vec<OwnedFd>) -> Result<Session, EnforcementError> {
    let mut done = Vec::new();
    let tell = |report: &Report, fds: &[BorrowedFd<'_>]| {
        send(control, report, fds).map_err(|e| failed_at(Step::Stage, "telling the supervisor", e))
    };

    let ids = format!("{} of the maker", plan.uid);
    if plan.namespaces.user {
        // The maker's own ids become the only ones, as the owner of the namespace.
        write_id_maps(0, plan.uid, 0, plan.gid)?;
        done.push(Attested::new(Layer::UserNamespace, ids));
    }
    for (made, layer) in [
        (plan.namespaces.mount, Layer::MountNamespace),
        (plan.namespaces.pid, Layer::PidNamespace),
        (plan.namespaces.net, Layer::NetworkNamespace),
        (plan.namespaces.ipc, Layer::IpcNamespace),
        (plan.namespaces.uts, Layer::UtsNamespace),
        (plan.namespaces.cgroup, Layer::CgroupNamespace),
    ] {
        if made {
            done.push(Attested::new(layer, ""));
        }
    }
    if plan.keyring {
        let keyring = match privileges::new_session_keyring()? {
            Keyring::Fresh => "a new one",
            Keyring::Absent => "the kernel has none",
            Keyring::Closed => "all use is refused from outside",
        };
        done.push(Attested::new(Layer::Keyring, keyring));
    }
    if plan.namespaces.uts {
        rustix::system::sethostname(plan.hostname.as_bytes())
            .map_err(|e| failed_at(Step::Namespaces, "naming the machine", e))?;
    }
    if !plan.sysctls.is_empty() {
        // The table is that of the namespaces of whoever opens it, so the host's /proc
        // will do, and it is there until the mounts are made.
        plan.sysctls.iter().try_for_each(set_sysctl)?;
        done.push(Attested::new(
            Layer::Sysctls,
            format!("{} settings", plan.sysctls.len()),
        ));
    }
    if plan.namespaces.mount && !plan.mounts.is_empty() {
        mounts::build(plan)?;
        let checked = mounts::read_back(plan)?;
        done.push(Attested::new(
            Layer::Mounts,
            format!("{} steps, {checked} read back", plan.mounts.len()),
        ));
    }
    let listeners = network::build(&plan.network)?;
    if plan.network.loopback {
        done.push(Attested::new(
            Layer::Network,
            format!("{} listeners", listeners.len()),
        ));
    }
    let specs: Vec<_> = plan.network.listeners.iter().zip(&listeners).collect();
    for part in specs.chunks(MAX_FDS) {
        let fds: Vec<_> = part.iter().map(|(_, fd)| fd.as_fd()).collect();
        let names = part.iter().map(|(spec, _)| **spec).collect();
        tell(&Report::Listeners(names), &fds)?;
    }
    drop(listeners);

    let stdio = match plan.stdio {
        Stdio::Given => given,
        Stdio::Terminal { cols, rows } => {
            let (outer, inner) = open_terminal(cols, rows)
                .map_err(|e| failed_at(Step::Terminal, "opening a terminal", e))?;
            tell(&Report::Terminal, &[outer.as_fd()])?;
            done.push(Attested::new(Layer::Terminal, ""));
            vec![inner]
        }
    };
    if plan.second_user_namespace {
        unshare_user().map_err(|e| failed_at(Step::Namespaces, "a second user namespace", e))?;
        write_id_maps(plan.uid, 0, plan.gid, 0)?;
        done.push(Attested::new(Layer::SecondUserNamespace, ""));
    }
    if plan.protect_init {
        privileges::not_dumpable()?;
        let _ = rustix::thread::set_name(NAME);
        blank_arguments().map_err(|e| failed_at(Step::Stage, "blanking its arguments", e))?;
        done.push(Attested::new(Layer::ProtectedInit, ""));
    }
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| failed_at(Step::Descriptors, "opening /dev/null", e))?;
    replace_standard_descriptors([&null, &null, &null])
        .map_err(|e| failed_at(Step::Descriptors, "replacing standard descriptors", e))?;

    let children =
        child_events().map_err(|e| failed_at(Step::Stage, "watching for ended processes", e))?;
    let (executed, executing) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed_at(Step::Stage, "making a pipe", e))?;
    tell(&Report::Prepared(done), &[])?;
    match fork().map_err(|e| failed_at(Step::Stage, "making the program's process", e))? {
        Forked::Child => become_program(plan, control, &stdio),
        Forked::Parent(program) => {
            drop((executing, stdio));
            if plan.drop_capabilities {
                privileges::drop_all()?;
            }
            if plan.no_new_privileges {
                privileges::no_new_privileges()?;
            }
            if let (Some(plan), true) = (plan.seccomp, plan.no_new_privileges) {
                seccomp::install(&seccomp::init_filter(), plan.log)?;
            }
            Ok(Session {
                program,
                children,
                executed: Some(executed),
            })
        }
    }
}

/// Maps one user and one group id of this process's namespace to those of the namespace
/// that it came from (user_namespaces(7)).
fn write_id_maps(
    uid: u32,
    outer_uid: u32,
    gid: u32,
    outer_gid: u32,
) -> Result<(), EnforcementError> {
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|e| failed_at(Step::IdMap, file, e))
    };
    write("setgroups", "deny".into())?;
    write("gid_map", format!("{gid} {outer_gid} 1"))?;
    write("uid_map", format!("{uid} {outer_uid} 1"))
}

fn set_sysctl(sysctl: &Sysctl) -> Result<(), EnforcementError> {
    match fs::write(format!("/proc/sys/{}", sysctl.path), &sysctl.value) {
        Err(e) if sysctl.optional && e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|e| failed_at(Step::Namespaces, &sysctl.path, e)),
    }
}

/// Opens a terminal of the session's own devpts: the outer and the inner end.
fn open_terminal(cols: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let outer = open(
        "/dev/pts/ptmx",
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    unlockpt(&outer)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let inner = ioctl_tiocgptpeer(&outer, flags)?;
    let mut modes = tcgetattr(&inner)?;
    // So that the line editor of the kernel erases whole characters.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&inner, OptionalActions::Now, &modes)?;
    let size = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&outer, size)?;
    Ok((outer, inner))
}

fn replace_standard_descriptors(fds: [&OwnedFd; 3]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(fds[0])?;
    rustix::stdio::dup2_stdout(fds[1])?;
    rustix::stdio::dup2_stderr(fds[2])?;
    Ok(())
}

/// The half that becomes the program.
fn become_program(plan: &Plan, control: &OwnedFd, stdio: &[OwnedFd]) -> ! {
    let report = match confine(plan, control, stdio) {
        Ok(()) => Report::NotStarted(execute(plan)),
        Err(error) => Report::Failed(error),
    };
    let _ = send(control, &report, &[]);
    exit(FAILED)
}

/// Gives up everything, checks that it is gone, and says so.
fn confine(plan: &Plan, control: &OwnedFd, stdio: &[OwnedFd]) -> Result<(), EnforcementError> {
    let mut done = Vec::new();
    // The stage gave all signals their default action; the first process blocked one since.
    unblock_signals().map_err(|e| failed_at(Step::Stage, "unblocking signals", e))?;
    setsid().map_err(|e| failed_at(Step::Terminal, "making a session of processes", e))?;
    match stdio {
        [terminal] => {
            ioctl_tiocsctty(terminal)
                .map_err(|e| failed_at(Step::Terminal, "taking the terminal", e))?;
            replace_standard_descriptors([terminal, terminal, terminal])
        }
        [input, output, errors] => replace_standard_descriptors([input, output, errors]),
        _ => Err(io::Error::other("there are neither one nor three")),
    }
    .map_err(|e| failed_at(Step::Descriptors, "standard descriptors", e))?;

    adjust_oom_score(plan.oom_score_adj)?;
    if !plan.rlimits.is_empty() {
        rlimits::apply(&plan.rlimits)?;
        done.push(Attested::new(
            Layer::Rlimits,
            format!("{} limits", plan.rlimits.len()),
        ));
    }
    if plan.drop_capabilities {
        privileges::drop_all()?;
        done.push(Attested::new(Layer::Capabilities, "none"));
    }
    if plan.no_new_privileges {
        privileges::no_new_privileges()?;
        done.push(Attested::new(Layer::NoNewPrivileges, ""));
    }
    if plan.close_descriptors {
        privileges::close_on_exec_from(3)?;
        done.push(Attested::new(Layer::Descriptors, ""));
    }
    if let Some(landlock) = &plan.landlock {
        let report = landlock::restrict(landlock)?;
        let scopes = if report.scopes { ", scopes" } else { "" };
        done.push(Attested::new(
            Layer::Landlock,
            format!("version {}, {} rules{scopes}", report.abi, report.rules),
        ));
    }
    chdir(plan.cwd.as_str()).map_err(|e| {
        failed_at(Step::Paths, &plan.cwd, e)
            .hint("the working directory cannot be entered inside; choose another with --cwd")
    })?;
    if let Some(seccomp) = &plan.seccomp {
        let filter = seccomp::filter(seccomp);
        seccomp::install(&filter, seccomp.log)?;
        done.push(Attested::new(
            Layer::Seccomp,
            format!("{} instructions", filter.len()),
        ));
    }
    if plan.drop_capabilities && plan.no_new_privileges && plan.seccomp.is_some() {
        privileges::Status::read()?.require_confined()?;
    }
    send(control, &Report::Ready(done), &[])
        .map_err(|e| failed_at(Step::Stage, "telling the supervisor", e))
}

/// Makes the session a likelier victim than its maker when memory runs out.
fn adjust_oom_score(score: i32) -> Result<(), EnforcementError> {
    let failed = |e: io::Error| failed_at(Step::Resources, "oom_score_adj", e);
    // The files below /proc/self belong to the superuser while the process is protected. It
    // runs alone still, and executing the program undoes the protection anyway.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
        .map_err(|e| failed(e.into()))?;
    let path = "/proc/self/oom_score_adj";
    let current: i32 = fs::read_to_string(path)
        .map_err(failed)?
        .trim()
        .parse()
        .map_err(|_| failed(io::Error::other("it is not a number")))?;
    // Lowering it takes a capability, and a maker that is likelier to be ended stays so.
    if current < score {
        fs::write(path, score.to_string()).map_err(failed)?;
    }
    Ok(())
}

/// Executes the program. Returns why that failed.
fn execute(plan: &Plan) -> ExecFailure {
    let program = &plan.program;
    let path = program
        .env
        .iter()
        .find_map(|(key, value)| (key == "PATH").then_some(value.as_str()))
        .unwrap_or(DEFAULT_PATH);
    let candidates: Vec<String> = if program.file.contains('/') {
        vec![program.file.clone()]
    } else {
        path.split(':')
            .filter(|folder| !folder.is_empty())
            .map(|folder| format!("{folder}/{}", program.file))
            .collect()
    };
    let strings = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(CString::new).collect::<Result<Vec<_>, _>>()
    };
    let (Ok(argv), Ok(env)) = (
        strings(&mut program.argv.iter().cloned()),
        strings(
            &mut program
                .env
                .iter()
                .map(|(key, value)| format!("{key}={value}")),
        ),
    ) else {
        return ExecFailure {
            file: program.file.clone(),
            missing: false,
            reason: "its arguments or variables contain a NUL byte".into(),
        };
    };
    // As execvp(3): the first file that is there counts, unless a later one can be run.
    let mut failure = ExecFailure {
        file: program.file.clone(),
        missing: true,
        reason: "command not found".into(),
    };
    for candidate in candidates {
        let Ok(file) = CString::new(candidate.as_str()) else {
            continue;
        };
        let error = match nix::unistd::execve(&file, &argv, &env) {
            Err(nix::Error::ENOEXEC) => run_as_script(&file, &argv, &env),
            Err(error) => error,
        };
        let absent = matches!(error, nix::Error::ENOENT | nix::Error::ENOTDIR)
            && rustix::fs::stat(&file).is_err();
        if !absent {
            let reason = match error {
                nix::Error::ENOENT => "the interpreter that it names is not there".into(),
                other => other.desc().to_owned(),
            };
            let found = ExecFailure {
                file: candidate,
                missing: false,
                reason,
            };
            if failure.missing {
                failure = found;
            }
        }
    }
    failure
}

/// A text without a first line that names its interpreter is one for the shell (execvp(3)).
fn run_as_script(file: &CString, argv: &[CString], env: &[CString]) -> nix::Error {
    let shell = c"/bin/sh";
    let mut shell_argv = vec![shell.to_owned(), file.clone()];
    shell_argv.extend(argv.iter().skip(1).cloned());
    match nix::unistd::execve(shell, &shell_argv, env) {
        Err(_) => nix::Error::ENOEXEC,
        Ok(never) => match never {},
    }
}

/// What the first process looks after.
struct Session {
    program: i32,
    /// Readable when a child changed.
    children: OwnedFd,
    /// At its end when the program was executed.
    executed: Option<OwnedFd>,
}

impl Session {
    /// Stays until the program has ended or the supervisor is gone; gives the status to end
    /// with.
    fn keep(mut self, control: &OwnedFd) -> i32 {
        loop {
            let mut watched = vec![
                PollFd::new(control, PollFlags::IN),
                PollFd::new(&self.children, PollFlags::IN),
            ];
            watched.extend(
                self.executed
                    .as_ref()
                    .map(|fd| PollFd::new(fd, PollFlags::IN)),
            );
            match poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return FAILED,
            }
            let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(watched);
            if ready.get(2) == Some(&true) {
                self.executed = None;
                if send(control, &Report::Started, &[]).is_err() {
                    return FAILED;
                }
            }
            if ready[1]
                && let Some(status) = self.collect()
            {
                let _ = send(control, &Report::Ended { status }, &[]);
                return shell_status(status);
            }
            if ready[0] && !obey(control) {
                return FAILED;
            }
        }
    }

    /// Takes leave of all that ended. Gives the program's status when it was among them.
    fn collect(&self) -> Option<i32> {
        let mut events = [0_u8; 1024];
        let _ = rustix::io::read(&self.children, &mut events);
        let mut program = None;
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get() == self.program {
                program = Some(status.as_raw());
            }
        }
        program
    }
}

/// Does what the supervisor asks. Gives whether it is still there.
fn obey(control: &OwnedFd) -> bool {
    let Ok(Some(order)) = receive::<Order>(control) else {
        return false;
    };
    if let (Order::Listen(spec), [answer]) = (order.message, order.fds.as_slice()) {
        let is_wanted = matches!(spec.kind, ListenerKind::LocalPort(_));
        // Closing the answer without a listener says that there is none.
        if is_wanted && let Ok(listener) = network::bind_listener(spec) {
            let _ = send(answer, &Report::Listeners(vec![spec]), &[listener.as_fd()]);
        }
    }
    true
}

/// A status of wait(2) as shells give it: 128 and the number of the signal.
fn shell_status(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}

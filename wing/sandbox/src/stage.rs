//! The process that puts a boundary up: this program again, with one thread and a plan.
//!
//! It is started by [`crate::Stage::start`] with the control socket as its standard output. The
//! plan comes through the socket, in memory that nobody can change any more. It makes the
//! session's first process in new namespaces (`init.rs`) and ends.
//!
//! A program that starts sessions calls [`run_if_stage`] before anything else, in
//! particular before it makes a thread.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SealFlags, fcntl_get_seals, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::umask;

use crate::control::{Order, Report, receive, send};
use crate::plan::{Namespaces, Plan, Stdio};
use crate::sys::process::{Forked, clone_into, exit, reset_signals};
use crate::{EnforcementError, Step, init, privileges};

/// The hidden argument that makes a program a stage.
pub const STAGE_ARG: &str = "__egg-stage";

/// The status of a stage that did its part.
const DONE: i32 = 0;
/// The status of one that did not; the reason went through the control socket.
pub(crate) const FAILED: i32 = 70;

/// Becomes a stage, and never returns, when this process was started as one.
pub fn run_if_stage() {
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(STAGE_ARG)) {
        stage_main();
    }
}

/// Puts up the boundary that the supervisor describes, and ends this process.
///
/// For a process that [`crate::Stage::start`] started, before it made any thread.
pub fn stage_main() -> ! {
    // Without the socket there is nobody to tell.
    let Ok(control) = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3) else {
        exit(FAILED);
    };
    let result = prepare(&control);
    if let Err(error) = &result {
        // When the supervisor is gone, so is the reason for this process.
        let _ = send(&control, &Report::Failed(error.clone()), &[]);
    }
    exit(if result.is_ok() { DONE } else { FAILED })
}

/// Whether nobody in this user namespace can change groups (user_namespaces(7)).
fn groups_are_fixed() -> bool {
    std::fs::read_to_string("/proc/self/setgroups").is_ok_and(|said| said.trim() == "deny")
}

fn prepare(control: &OwnedFd) -> Result<(), EnforcementError> {
    let failed =
        |what: &'static str| move |e: io::Error| EnforcementError::system(Step::Stage, what, &e);
    // Nothing but the socket is of use from here on; what a program leaked to its children
    // is gone.
    let keep = [std::os::fd::AsRawFd::as_raw_fd(control)];
    privileges::close_from(3, &keep)?;
    forget_standard_descriptors().map_err(failed("replacing standard descriptors"))?;
    reset_signals().map_err(failed("resetting signals"))?;

    let order = receive::<Order>(control).map_err(failed("waiting for the supervisor"))?;
    let mut given = match order {
        Some(order) if matches!(order.message, Order::Go) => order.fds,
        _ => {
            return Err(failed("waiting for the supervisor")(io::Error::other(
                "it is gone",
            )));
        }
    };
    if given.is_empty() {
        return Err(EnforcementError::new(Step::Stage, "no plan was given"));
    }
    let plan = read_plan(given.remove(0)).map_err(failed("reading the plan"))?;
    umask(Mode::from_raw_mode(plan.umask));
    let wanted = match plan.stdio {
        Stdio::Terminal { .. } => 0,
        Stdio::Given => 3,
    };
    if given.len() != wanted {
        return Err(EnforcementError::new(
            Step::Stage,
            format!(
                "{} standard descriptors were given, not {wanted}",
                given.len()
            ),
        ));
    }
    if rustix::process::geteuid().is_root() {
        // Only the superuser can leave groups. One of a user namespace that was made by an
        // ordinary user cannot, and has no more groups than that user, as is said there.
        match rustix::thread::set_thread_groups(&[]) {
            Err(rustix::io::Errno::PERM) if groups_are_fixed() => {}
            done => done.map_err(|e| failed("leaving the maker's groups")(e.into()))?,
        }
    }
    match clone_into(clone_flags(plan.namespaces)) {
        Ok(Forked::Child) => init::run(plan, control, given),
        Ok(Forked::Parent((pid, pidfd))) => send(control, &Report::Init { pid }, &[pidfd.as_fd()])
            .map_err(failed("telling of the first process")),
        Err(error) => Err(namespaces_refused(&error)),
    }
}

fn clone_flags(namespaces: Namespaces) -> u64 {
    [
        (namespaces.user, libc::CLONE_NEWUSER),
        (namespaces.mount, libc::CLONE_NEWNS),
        (namespaces.pid, libc::CLONE_NEWPID),
        (namespaces.net, libc::CLONE_NEWNET),
        (namespaces.ipc, libc::CLONE_NEWIPC),
        (namespaces.uts, libc::CLONE_NEWUTS),
        (namespaces.cgroup, libc::CLONE_NEWCGROUP),
    ]
    .into_iter()
    .filter_map(|(wanted, flag)| wanted.then_some(flag as u64))
    .sum()
}

fn namespaces_refused(error: &io::Error) -> EnforcementError {
    let made = EnforcementError::system(Step::Namespaces, "making the namespaces", error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => made.hint(
            "this host does not let you make user namespaces: in a container allow them, on \
             Ubuntu install the AppArmor profile that `wt doctor` prints",
        ),
        Some(libc::ENOSPC | libc::EUSERS) => {
            made.hint("raise user.max_user_namespaces and its like with sysctl")
        }
        _ => made,
    }
}

/// Reads the plan, and makes sure that nobody can change it after that.
fn read_plan(file: OwnedFd) -> io::Result<Plan> {
    let seals = fcntl_get_seals(&file)?;
    if !seals.contains(SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK) {
        return Err(io::Error::other("it is not sealed"));
    }
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Puts the null device where the plan, the socket and the maker's messages were.
fn forget_standard_descriptors() -> io::Result<()> {
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

pub(crate) fn failed_at(
    step: Step,
    what: impl Display,
    error: impl Into<io::Error>,
) -> EnforcementError {
    EnforcementError::system(step, what, &error.into())
}

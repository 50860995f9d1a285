//! Starting a session from outside: the half of the set-up that stays on the host.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio as ProcessStdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_send_signal, waitid,
};
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::control::{ExecFailure, Order, Received, Report, receive, send};
use crate::plan::{ListenerSpec, Plan, Stdio};
use crate::stage::STAGE_ARG;
use crate::{EnforcementError, Step};

/// How long a set-up may take. It takes some milliseconds; a machine that swaps takes longer.
const SETUP_DEADLINE: Duration = Duration::from_secs(20);

/// A session that runs inside its boundary.
///
/// Dropping it closes the control socket, which ends the session: the first process of the
/// session ends when it sees that, and the kernel then kills everything else in it.
#[derive(Debug)]
pub struct Sandboxed {
    /// The first process of the session, as the host sees it. It is a child of this process.
    pub init: u32,
    /// A descriptor of that process. It becomes readable when all of the session has ended.
    pub init_fd: OwnedFd,
    /// The program, as the host sees it; also the id of its process group and session.
    pub program: u32,
    /// The terminal's outer end, when the plan asks for a terminal.
    pub terminal: Option<OwnedFd>,
    /// The sockets that were bound inside, in the plan's order.
    pub listeners: Vec<(ListenerSpec, OwnedFd)>,
    /// What is active.
    pub enforced: Enforced,
    control: OwnedFd,
    /// What was already heard of the program's end, as wait(2) gives it.
    exact: Mutex<Option<i32>>,
    ended: Mutex<Option<ExitStatus>>,
}

/// What is active in a session, as its own processes said after doing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// Every layer, in the order in which it was put up.
    pub layers: Vec<Attested>,
}

impl Enforced {
    /// What was said of a layer.
    pub fn get(&self, layer: Layer) -> Option<&str> {
        let found = self.layers.iter().find(|attested| attested.layer == layer);
        found.map(|attested| attested.detail.as_str())
    }
}

/// One layer that is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attested {
    /// Which.
    pub layer: Layer,
    /// How, in a few words; empty when the name says all.
    pub detail: String,
}

impl Attested {
    pub(crate) fn new(layer: Layer, detail: impl Into<String>) -> Self {
        Self {
            layer,
            detail: detail.into(),
        }
    }
}

/// The layers of a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Limits of all processes together.
    Cgroup,
    /// A user namespace.
    UserNamespace,
    /// A mount namespace.
    MountNamespace,
    /// A namespace of processes.
    PidNamespace,
    /// A network namespace.
    NetworkNamespace,
    /// A namespace of System V objects and message queues.
    IpcNamespace,
    /// A namespace of the host's name.
    UtsNamespace,
    /// A namespace of control groups.
    CgroupNamespace,
    /// A session keyring of its own.
    Keyring,
    /// Kernel settings of its namespaces.
    Sysctls,
    /// The file system, with every mount read back.
    Mounts,
    /// The network inside.
    Network,
    /// A terminal of its own.
    Terminal,
    /// A second user namespace, which locks the mounts.
    SecondUserNamespace,
    /// A first process that the others cannot read.
    ProtectedInit,
    /// Limits of single processes.
    Rlimits,
    /// No capabilities, and no way to get one.
    Capabilities,
    /// No new rights by executing a program.
    NoNewPrivileges,
    /// No descriptors but those that were given.
    Descriptors,
    /// File access by Landlock.
    Landlock,
    /// A filter of system calls.
    Seccomp,
}

impl Layer {
    /// The layers that a plan asks for.
    pub fn of(plan: &Plan) -> Vec<Self> {
        let namespaces = plan.namespaces;
        [
            (Self::Cgroup, plan.cgroup.is_some()),
            (Self::UserNamespace, namespaces.user),
            (Self::MountNamespace, namespaces.mount),
            (Self::PidNamespace, namespaces.pid),
            (Self::NetworkNamespace, namespaces.net),
            (Self::IpcNamespace, namespaces.ipc),
            (Self::UtsNamespace, namespaces.uts),
            (Self::CgroupNamespace, namespaces.cgroup),
            (Self::Keyring, plan.keyring),
            (Self::Sysctls, !plan.sysctls.is_empty()),
            (Self::Mounts, !plan.mounts.is_empty()),
            (Self::Network, plan.network.loopback),
            (Self::Terminal, matches!(plan.stdio, Stdio::Terminal { .. })),
            (Self::SecondUserNamespace, plan.second_user_namespace),
            (Self::ProtectedInit, plan.protect_init),
            (Self::Rlimits, !plan.rlimits.is_empty()),
            (Self::Capabilities, plan.drop_capabilities),
            (Self::NoNewPrivileges, plan.no_new_privileges),
            (Self::Descriptors, plan.close_descriptors),
            (Self::Landlock, plan.landlock.is_some()),
            (Self::Seccomp, plan.seccomp.is_some()),
        ]
        .into_iter()
        .filter_map(|(layer, asked)| asked.then_some(layer))
        .collect()
    }

    /// The name of the layer, as in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::UserNamespace => "user-namespace",
            Self::MountNamespace => "mount-namespace",
            Self::PidNamespace => "pid-namespace",
            Self::NetworkNamespace => "network-namespace",
            Self::IpcNamespace => "ipc-namespace",
            Self::UtsNamespace => "uts-namespace",
            Self::CgroupNamespace => "cgroup-namespace",
            Self::Keyring => "keyring",
            Self::Sysctls => "sysctls",
            Self::Mounts => "mounts",
            Self::Network => "network",
            Self::Terminal => "terminal",
            Self::SecondUserNamespace => "second-user-namespace",
            Self::ProtectedInit => "protected-init",
            Self::Rlimits => "rlimits",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no-new-privileges",
            Self::Descriptors => "descriptors",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a session was not started. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The boundary could not be put up.
    #[error(transparent)]
    Enforcement(#[from] EnforcementError),
    /// The boundary stood, and the program could not be executed in it.
    #[error("{}: {}", .0.file, .0.reason)]
    Program(ExecFailure),
}

impl SpawnError {
    fn stage(what: &str, error: impl Into<io::Error>) -> Self {
        EnforcementError::system(Step::Stage, what, &error.into()).into()
    }
}

/// The process that will put a boundary up, started and waiting for a plan.
///
/// Starting it takes a good part of the whole start, so a supervisor does that first and
/// gathers the plan meanwhile. Dropping it ends it.
#[derive(Debug)]
pub struct Stage(Starting);

impl Stage {
    /// Starts the process. The calling program must call [`crate::run_if_stage`] at the head
    /// of its `main`: it is executed again.
    ///
    /// # Errors
    /// What the system says.
    pub fn start() -> Result<Self, SpawnError> {
        let (control, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|e| SpawnError::stage("making the control socket", e))?;
        sockopt::set_socket_passcred(&control, true)
            .map_err(|e| SpawnError::stage("preparing the control socket", e))?;
        let stage = Command::new("/proc/self/exe")
            // What other users see as its arguments; the second one is what matters.
            .arg0("egg")
            .arg(STAGE_ARG)
            .env_clear()
            .stdin(ProcessStdio::null())
            .stdout(ProcessStdio::from(theirs))
            .stderr(ProcessStdio::inherit())
            .spawn()
            .map_err(|e| SpawnError::stage("starting the stage", e))?;
        Ok(Self(Starting {
            stage,
            control,
            init: None,
            deadline: Instant::now() + SETUP_DEADLINE,
            is_handed_over: false,
        }))
    }

    /// Starts the plan's program inside the plan's boundary, as [`spawn`] does.
    ///
    /// # Errors
    /// What could not be enforced, or why the program could not be executed. Nothing is left
    /// running then.
    pub fn spawn(
        self,
        plan: &Plan,
        given: Option<[OwnedFd; 3]>,
        cgroup: Option<&Cgroup>,
    ) -> Result<Sandboxed, SpawnError> {
        let mut starting = self.0;
        starting.deadline = Instant::now() + SETUP_DEADLINE;
        let mut enforced = Enforced::default();
        if let Some(cgroup) = cgroup {
            cgroup.add(starting.stage.id())?;
            let detail = cgroup.report().kind.describe();
            enforced.layers.push(Attested::new(Layer::Cgroup, detail));
        }
        let plan_file = sealed(plan).map_err(|e| SpawnError::stage("writing the plan", e))?;
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(&plan_file)
            .chain(given.iter().flatten())
            .map(AsFd::as_fd)
            .collect();
        send(&starting.control, &Order::Go, &fds)
            .map_err(|e| SpawnError::stage("giving the stage its start", e))?;
        drop((plan_file, given));
        follow(starting, plan, enforced)
    }
}

/// Starts the plan's program inside the plan's boundary.
///
/// The calling program must call [`crate::run_if_stage`] at the head of its `main`: it is
/// executed again for the set-up. `given` are the program's standard descriptors when the plan
/// says [`Stdio::Given`]. `cgroup` is what holds the plan's limits of all processes together;
/// the session is in it before it does anything.
///
/// Blocks until the program is executed, which takes some milliseconds. May be called from
/// any thread.
///
/// # Errors
/// What could not be enforced, or why the program could not be executed. Nothing is left
/// running then.
pub fn spawn(
    plan: &Plan,
    given: Option<[OwnedFd; 3]>,
    cgroup: Option<&Cgroup>,
) -> Result<Sandboxed, SpawnError> {
    Stage::start()?.spawn(plan, given, cgroup)
}

/// Follows a set-up to its end.
fn follow(
    mut starting: Starting,
    plan: &Plan,
    mut enforced: Enforced,
) -> Result<Sandboxed, SpawnError> {
    let mut terminal = None;
    let mut listeners = Vec::new();
    let mut program = None;
    let mut started = false;
    let mut ended = None;
    // The stage and the first process speak for themselves, in any order.
    while !(started && starting.init.is_some()) {
        let Received {
            message,
            mut fds,
            sender,
        } = starting.next()?;
        match message {
            Report::Init { pid } => {
                let fd = fds
                    .pop()
                    .ok_or_else(|| starting.unexpected("its first process"))?;
                starting.init = Some((pid, fd));
            }
            Report::Terminal => terminal = fds.pop(),
            Report::Listeners(specs) => listeners.extend(specs.into_iter().zip(fds)),
            Report::Prepared(layers) => enforced.layers.extend(layers),
            Report::Ready(layers) => {
                enforced.layers.extend(layers);
                program = sender;
            }
            Report::Started => started = true,
            Report::Failed(error) => return Err(error.into()),
            Report::NotStarted(failure) => return Err(SpawnError::Program(failure)),
            // A program may be at its end before its maker has heard of its start.
            Report::Ended { status } if started => ended = Some(status),
            Report::Ended { .. } => return Err(starting.unexpected("its end")),
        }
    }
    let missing: Vec<_> = Layer::of(plan)
        .into_iter()
        .filter(|layer| enforced.get(*layer).is_none())
        .map(Layer::name)
        .collect();
    let listeners_wanted = plan.network.listeners.len();
    if !missing.is_empty() || listeners.len() != listeners_wanted {
        return Err(EnforcementError::new(
            Step::SelfCheck,
            format!(
                "not everything was attested: {} of {listeners_wanted} listeners, without {}",
                listeners.len(),
                missing.join(", ")
            ),
        )
        .into());
    }
    let program = program.ok_or_else(|| starting.unexpected("no process id"))?;
    let (init, init_fd, control) = starting.finish()?;
    Ok(Sandboxed {
        init,
        init_fd,
        program,
        terminal,
        listeners,
        enforced,
        control,
        exact: Mutex::new(ended),
        ended: Mutex::new(None),
    })
}

/// The plan in memory that nobody can change any more.
fn sealed(plan: &Plan) -> io::Result<OwnedFd> {
    let file = memfd_create("egg-plan", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(file);
    file.write_all(&serde_json::to_vec(plan)?)?;
    io::Seek::rewind(&mut file)?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
    )?;
    Ok(file.into())
}

/// A session that is being started. Dropping it ends what there is of it.
#[derive(Debug)]
struct Starting {
    stage: Child,
    control: OwnedFd,
    init: Option<(u32, OwnedFd)>,
    deadline: Instant,
    /// Whether somebody else looks after the session and hears its messages.
    is_handed_over: bool,
}

impl Starting {
    fn next(&self) -> Result<Received<Report>, SpawnError> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).expect("the deadline is some seconds away");
            let mut watched = [PollFd::new(&self.control, PollFlags::IN)];
            match poll(&mut watched, Some(&timeout)) {
                Ok(0) => {
                    let late = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(SpawnError::stage("waiting for the set-up", late));
                }
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(SpawnError::stage("waiting for the set-up", e)),
            }
        }
        receive(&self.control)
            .map_err(|e| SpawnError::stage("hearing of the set-up", e))?
            .ok_or_else(|| self.unexpected("its end"))
    }

    /// Whether a message is there, or the end.
    fn has_more(&self) -> bool {
        let mut watched = [PollFd::new(&self.control, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn unexpected(&self, what: &str) -> SpawnError {
        EnforcementError::new(
            Step::Stage,
            format!("the process that puts up the boundary reported {what}"),
        )
        .into()
    }

    /// Lets go of what has been started. The stage itself is at its end.
    fn finish(mut self) -> Result<(u32, OwnedFd, OwnedFd), SpawnError> {
        let (init, fd) = self
            .init
            .take()
            .ok_or_else(|| self.unexpected("no first process"))?;
        let control = self
            .control
            .try_clone()
            .map_err(|e| SpawnError::stage("keeping the control socket", e))?;
        self.is_handed_over = true;
        Ok((init, fd, control))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // It may have ended, and then nothing is there to be killed.
        let _ = self.stage.kill();
        let _ = self.stage.wait();
        if self.is_handed_over {
            return;
        }
        // Its last word may be that of the first process, which ends by itself when the
        // control socket closes, and sooner when it is told to.
        while self.init.is_none()
            && self.has_more()
            && let Ok(Some(mut last)) = receive::<Report>(&self.control)
        {
            if let (Report::Init { pid }, Some(fd)) = (last.message, last.fds.pop()) {
                self.init = Some((pid, fd));
            }
        }
        if let Some((_, fd)) = &self.init {
            let _ = pidfd_send_signal(fd, Signal::KILL);
            let _ = reap(fd);
        }
    }
}

/// Takes leave of an ended child. Somebody else in this process may have done it already.
fn reap(process: &OwnedFd) -> io::Result<()> {
    loop {
        match waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED) {
            Ok(_) | Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

impl Sandboxed {
    /// Waits until the program has ended and nothing of the session is left. Gives the
    /// program's exact status; that of a killed program when the whole session was killed.
    ///
    /// May be called more than once.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        let mut ended = self.ended.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(status) = *ended {
            return Ok(status);
        }
        let heard = self.exact.lock().unwrap_or_else(|e| e.into_inner());
        let mut status = heard.unwrap_or(libc::SIGKILL);
        while let Some(report) = receive::<Report>(&self.control)? {
            if let Report::Ended { status: exact } = report.message {
                status = exact;
            }
        }
        reap(&self.init_fd)?;
        let status = ExitStatus::from_raw(status);
        *ended = Some(status);
        Ok(status)
    }

    /// Kills everything in the session at once. [`Sandboxed::wait`] says when it is gone.
    ///
    /// # Errors
    /// What the system says; a session that has already ended is none.
    pub fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.init_fd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Sends a signal to the program and its process group.
    ///
    /// # Errors
    /// What the system says.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let program = i32::try_from(self.program)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the program has no process id"))?;
        Ok(kill_process_group(program, signal)?)
    }

    /// Binds one more listener inside the session; only
    /// [`crate::plan::ListenerKind::LocalPort`] is bound after the start.
    ///
    /// # Errors
    /// When the port is taken inside, or the session has ended.
    pub fn listen(&self, spec: ListenerSpec) -> io::Result<OwnedFd> {
        let (answer, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        send(&self.control, &Order::Listen(spec), &[theirs.as_fd()])?;
        drop(theirs);
        receive::<Report>(&answer)?
            .and_then(|mut report| report.fds.pop())
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!("{} cannot be bound inside", crate::network::address(spec)),
                )
            })
    }
}

//! What all processes of a session may use together, and the end of all of them.
//!
//! A host has control groups of version 2, of version 1, both side by side, or none that this
//! user can write. What is there is used and said; a limit that somebody asked for and that
//! nothing can hold stops the start.
//!
//! The group is made before the session's first process, which is put in while it still
//! waits for its maker, so that there is no moment without limits. It is always made below the
//! group of its maker, or beside it where version 2 forbids below, and never outside of the
//! limits of its maker's slice.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{AccessFlags, Pid, eaccess};
use serde::{Deserialize, Serialize};

use crate::{EnforcementError, Step};

/// What the names of all groups start with.
const PREFIX: &str = "wingthing-";
/// How many parts of a path are looked at for one that can be written. Real trees have four or
/// five.
const MAX_DEPTH: usize = 16;
/// How often the processes of a group are looked for and ended, where nothing ends them all
/// at once. Frozen ones cannot fork, so the second round finds none.
const KILL_ROUNDS: usize = 64;
/// How long a group of version 1, which reports no changes, is left alone between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long freezing may take before it is an error.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits of all processes of a session together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlan {
    /// Memory in bytes, swap included.
    pub memory: Option<u64>,
    /// Processes and threads at once.
    pub pids: Option<u32>,
    /// Computing time of all processes together. The supervisor watches it, see
    /// [`Cgroup::over_cpu_budget`].
    pub cpu: Option<Duration>,
    /// Whether a host that cannot hold these limits may still start the session. Never set
    /// for limits that somebody asked for.
    pub best_effort: bool,
}

/// What kind of control groups hold a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupKind {
    /// Version 2.
    V2,
    /// Version 1, one group for each controller.
    V1,
    /// Limits by version 1; killing and freezing by version 2, which has no controllers here.
    Hybrid,
    /// None: limits of single processes alone, and what is counted for the user.
    None,
}

impl CgroupKind {
    /// In words, as listings say it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::V2 => "cgroup v2",
            Self::V1 => "cgroup v1",
            Self::Hybrid => "cgroup v1, ended by v2",
            Self::None => "no cgroup, limits of single processes",
        }
    }
}

/// Whether a limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// The group holds it.
    Cgroup,
    /// Nothing holds it.
    Absent,
    /// Nobody asked for one.
    NotAsked,
}

/// What holds for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupReport {
    /// By what.
    pub kind: CgroupKind,
    /// The limit of memory.
    pub memory: Enforcement,
    /// The limit of processes.
    pub pids: Enforcement,
    /// The budget of computing time.
    pub cpu: Enforcement,
    /// Whether the group finds every process of the session, so that it can end them all.
    pub kill: bool,
    /// Whether the session can be frozen as a whole.
    pub freeze: bool,
}

/// What happened in a group since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupEvents {
    /// Processes that the kernel ended for want of memory.
    pub oom_kills: u64,
    /// Times that a process could not be started because there were too many.
    pub refused_forks: u64,
}

/// The control groups of one session.
///
/// It is not removed by dropping it: a supervisor removes it when the session has ended.
#[derive(Debug)]
pub struct Cgroup {
    /// The group of version 2.
    unified: Option<PathBuf>,
    /// Groups of version 1.
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    freezer: Option<PathBuf>,
    budget: Option<Duration>,
    report: CgroupReport,
}

impl Cgroup {
    /// Makes the group of the session `id`, with its limits.
    ///
    /// # Errors
    ///
    /// When a limit cannot be held and the plan does not say that this may be. What was
    /// made until then is removed.
    pub fn create(id: &str, plan: &CgroupPlan) -> Result<Self, EnforcementError> {
        let host = HostCgroups::read().unwrap_or_default();
        Self::create_on(&host, id, plan)
    }

    fn create_on(
        host: &HostCgroups,
        id: &str,
        plan: &CgroupPlan,
    ) -> Result<Self, EnforcementError> {
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(EnforcementError::new(
                Step::Resources,
                format!("{id:?} cannot be the name of a control group"),
            ));
        }
        let mut group = Self::make(host, &format!("{PREFIX}{id}"));
        let limited = group.limit(plan);
        if let Err(error) = limited {
            // It is empty, so this succeeds or there is nothing to remove.
            let _ = group.remove();
            return Err(error);
        }
        Ok(group)
    }

    /// Makes whatever groups this host lets us make.
    fn make(host: &HostCgroups, name: &str) -> Self {
        let unified = host.unified.as_ref().and_then(|v2| v2.make(name));
        let v1 = |controller: &str| {
            let own = host.v1(controller)?;
            let group = own.join(name);
            make_group(&group).then_some(group)
        };
        // Version 2 has a controller or version 1 has it, never both.
        let controls = |file: &str| unified.as_ref().is_some_and(|v2| v2.join(file).exists());
        let memory = if controls("memory.max") {
            None
        } else {
            v1("memory")
        };
        let pids = if controls("pids.max") {
            None
        } else {
            v1("pids")
        };
        // Version 2 counts computing time with or without controllers.
        let cpu = if controls("cpu.stat") {
            None
        } else {
            v1("cpuacct")
        };
        let freezer = if controls("cgroup.freeze") {
            None
        } else {
            v1("freezer")
        };
        let limits_by_v1 = memory.is_some() || pids.is_some() || cpu.is_some() || freezer.is_some();
        let kind = match (&unified, limits_by_v1) {
            (Some(_), false) => CgroupKind::V2,
            (Some(_), true) => CgroupKind::Hybrid,
            (None, true) => CgroupKind::V1,
            (None, false) => CgroupKind::None,
        };
        let report = CgroupReport {
            kind,
            memory: Enforcement::NotAsked,
            pids: Enforcement::NotAsked,
            cpu: Enforcement::NotAsked,
            kill: kind != CgroupKind::None,
            freeze: controls("cgroup.freeze") || freezer.is_some(),
        };
        Self {
            unified,
            memory,
            pids,
            cpu,
            freezer,
            budget: None,
            report,
        }
    }

    fn limit(&mut self, plan: &CgroupPlan) -> Result<(), EnforcementError> {
        let held = |what: &str, result: io::Result<bool>| match result {
            Ok(true) => Ok(Enforcement::Cgroup),
            Ok(false) | Err(_) if plan.best_effort => Ok(Enforcement::Absent),
            Ok(false) => Err(EnforcementError::new(
                Step::Resources,
                format!("no control group that this user can write holds a limit of {what}"),
            )),
            Err(e) => Err(EnforcementError::system(
                Step::Resources,
                format!("the limit of {what}"),
                &e,
            )),
        };
        if let Some(bytes) = plan.memory {
            self.report.memory = held("memory", self.limit_memory(bytes))?;
        }
        if let Some(count) = plan.pids {
            self.report.pids = held("processes", self.limit_pids(count))?;
        }
        if plan.cpu.is_some() {
            self.budget = plan.cpu;
            let counted = self.cpu_time().map(|time| time.is_some());
            self.report.cpu = held("computing time", counted)?;
        }
        Ok(())
    }

    fn limit_memory(&self, bytes: u64) -> io::Result<bool> {
        if let Some(v2) = self.unified_with("memory.max") {
            write(&v2.join("memory.max"), bytes)?;
            // Slowed down before it is killed, so that caches go first.
            write(&v2.join("memory.high"), bytes / 10 * 9)?;
            // Without swap accounting these are not there, and then there is nothing to set.
            write_if_there(&v2.join("memory.swap.max"), 0)?;
            write_if_there(&v2.join("memory.oom.group"), 1)?;
            return Ok(true);
        }
        let Some(v1) = &self.memory else {
            return Ok(false);
        };
        write(&v1.join("memory.limit_in_bytes"), bytes)?;
        write_if_there(&v1.join("memory.memsw.limit_in_bytes"), bytes)?;
        Ok(true)
    }

    fn limit_pids(&self, count: u32) -> io::Result<bool> {
        let v2 = self.unified_with("pids.max");
        let Some(group) = v2.or(self.pids.as_deref()) else {
            return Ok(false);
        };
        write(&group.join("pids.max"), count)?;
        Ok(true)
    }

    fn unified_with(&self, file: &str) -> Option<&Path> {
        self.unified
            .as_deref()
            .filter(|group| group.join(file).exists())
    }

    fn all(&self) -> impl Iterator<Item = &Path> {
        [
            &self.unified,
            &self.memory,
            &self.pids,
            &self.cpu,
            &self.freezer,
        ]
        .into_iter()
        .filter_map(Option::as_deref)
    }

    /// Puts a process and all that it will start into the group.
    ///
    /// # Errors
    ///
    /// When one of the groups does not take it: it must not be let go on then.
    pub fn add(&self, pid: u32) -> Result<(), EnforcementError> {
        self.all().try_for_each(|group| {
            write(&group.join("cgroup.procs"), pid).map_err(|e| {
                EnforcementError::system(
                    Step::Resources,
                    format!("putting process {pid} into {}", group.display()),
                    &e,
                )
            })
        })
    }

    /// What holds.
    pub fn report(&self) -> &CgroupReport {
        &self.report
    }

    /// The processes in the group, as the host numbers them.
    ///
    /// # Errors
    ///
    /// When the group cannot be read.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        let Some(group) = self.all().next() else {
            return Ok(Vec::new());
        };
        let text = fs::read_to_string(group.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Whether any process is in the group.
    ///
    /// # Errors
    ///
    /// When the group cannot be read.
    pub fn is_populated(&self) -> io::Result<bool> {
        match &self.unified {
            Some(group) => Ok(keyed(&group.join("cgroup.events"), "populated")? != 0),
            None => self.processes().map(|processes| !processes.is_empty()),
        }
    }

    /// Sends SIGKILL to all processes of the group, whatever they do meanwhile. They are gone
    /// when [`Cgroup::wait_empty`] says so. Without groups it does nothing.
    ///
    /// # Errors
    ///
    /// When the group cannot be written.
    pub fn kill(&self) -> io::Result<()> {
        if let Some(group) = self.unified_with("cgroup.kill") {
            return write(&group.join("cgroup.kill"), 1);
        }
        // What is frozen starts no more processes, and dies when it is thawed.
        let frozen = self.freeze(true).is_ok();
        let mut result = Ok(());
        for _ in 0..KILL_ROUNDS {
            let processes = self.processes()?;
            let mut newcomers = false;
            for pid in processes {
                let pid = Pid::from_raw(i32::try_from(pid).map_err(io::Error::other)?);
                // One that ended in between is what was wanted.
                match kill(pid, Signal::SIGKILL) {
                    Ok(()) => newcomers = true,
                    Err(nix::errno::Errno::ESRCH) => {}
                    Err(e) => result = Err(e.into()),
                }
            }
            if frozen || !newcomers {
                break;
            }
        }
        if frozen {
            self.freeze(false)?;
        }
        result
    }

    /// Stops all processes of the group, or lets them go on. It returns when they stand.
    ///
    /// # Errors
    ///
    /// When there is nothing that could, or not all of them stand after two seconds.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        let until = Instant::now() + FREEZE_TIMEOUT;
        if let Some(group) = self.unified_with("cgroup.freeze") {
            write(&group.join("cgroup.freeze"), u8::from(frozen))?;
            let events = group.join("cgroup.events");
            return wait_for(&events, until, || {
                Ok((keyed(&events, "frozen")? != 0) == frozen)
            })
            .and_then(in_time);
        }
        let Some(group) = &self.freezer else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let file = group.join("freezer.state");
        let state = if frozen { "FROZEN" } else { "THAWED" };
        write(&file, state)?;
        look_until(until, || Ok(fs::read_to_string(&file)?.trim() == state)).and_then(in_time)
    }

    /// Waits until no process is in the group, and says whether that came to be.
    ///
    /// # Errors
    ///
    /// When the group cannot be read.
    pub fn wait_empty(&self, timeout: Duration) -> io::Result<bool> {
        let until = Instant::now() + timeout;
        let empty = || self.is_populated().map(|populated| !populated);
        match &self.unified {
            Some(group) => wait_for(&group.join("cgroup.events"), until, empty),
            None => look_until(until, empty),
        }
    }

    /// The computing time that all processes took, those that ended included; `None` where
    /// nothing counts it.
    ///
    /// # Errors
    ///
    /// When the group cannot be read.
    pub fn cpu_time(&self) -> io::Result<Option<Duration>> {
        if let Some(group) = &self.cpu {
            let nanoseconds = number(&group.join("cpuacct.usage"))?;
            return Ok(Some(Duration::from_nanos(nanoseconds)));
        }
        match self.unified_with("cpu.stat") {
            Some(group) => keyed(&group.join("cpu.stat"), "usage_usec")
                .map(|microseconds| Some(Duration::from_micros(microseconds))),
            None => Ok(None),
        }
    }

    /// Whether more computing time was taken than the plan gave.
    ///
    /// # Errors
    ///
    /// When the group cannot be read.
    pub fn over_cpu_budget(&self) -> io::Result<bool> {
        let Some(budget) = self.budget else {
            return Ok(false);
        };
        Ok(self.cpu_time()?.is_some_and(|taken| taken > budget))
    }

    /// The memory in use, in bytes; `None` where nothing counts it.
    ///
    /// # Errors
    ///
    /// When the group cannot be read.
    pub fn memory_in_use(&self) -> io::Result<Option<u64>> {
        let file = match (&self.memory, self.unified_with("memory.current")) {
            (Some(v1), _) => v1.join("memory.usage_in_bytes"),
            (None, Some(v2)) => v2.join("memory.current"),
            (None, None) => return Ok(None),
        };
        number(&file).map(Some)
    }

    /// What happened so far.
    ///
    /// # Errors
    ///
    /// When the group cannot be read.
    pub fn events(&self) -> io::Result<CgroupEvents> {
        let oom_kills = match (&self.memory, self.unified_with("memory.events")) {
            (Some(v1), _) => keyed(&v1.join("memory.oom_control"), "oom_kill")?,
            (None, Some(v2)) => keyed(&v2.join("memory.events"), "oom_kill")?,
            (None, None) => 0,
        };
        let pids = self.pids.as_deref().or(self.unified_with("pids.events"));
        let refused_forks = match pids {
            Some(group) => keyed(&group.join("pids.events"), "max")?,
            None => 0,
        };
        Ok(CgroupEvents {
            oom_kills,
            refused_forks,
        })
    }

    /// Removes the group, which must be empty.
    ///
    /// # Errors
    ///
    /// The first that came up; the others are removed all the same.
    pub fn remove(self) -> io::Result<()> {
        let mut result = Ok(());
        for group in self.all() {
            result = result.and(fs::remove_dir(group));
        }
        result
    }
}

/// Removes groups of sessions whose supervisor could not, given the ids of those that live.
///
/// A group with processes in it stays, and so does one of a session in `living`.
pub fn remove_stale(living: &[String]) {
    let host = HostCgroups::read().unwrap_or_default();
    for parent in host.parents() {
        let Ok(entries) = fs::read_dir(parent) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if id.is_some_and(|id| !living.iter().any(|living| living == id)) {
                // The kernel refuses to remove one that is in use.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// The control groups of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCgroups {
    /// Where version 2 is.
    pub(crate) unified: Option<Unified>,
    /// Own groups of version 1 by their controllers.
    legacy: Vec<(Vec<String>, PathBuf)>,
}

/// The tree of version 2, as far as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unified {
    /// The top.
    pub(crate) mount: PathBuf,
    /// The own group.
    pub(crate) own: PathBuf,
}

impl Unified {
    /// Own group and those above it that can be written, the nearest first.
    fn writable(&self) -> impl Iterator<Item = &Path> {
        self.own
            .ancestors()
            .take(MAX_DEPTH)
            .take_while(|path| path.starts_with(&self.mount))
            .filter(|path| can_hold_groups(path))
    }

    /// Makes a group where it gets as many controllers as it can have.
    ///
    /// A group with processes of its own gives no controllers to those below (but the top
    /// may), so the nearest one above that does is taken, and else the nearest that can be
    /// written.
    fn make(&self, name: &str) -> Option<PathBuf> {
        let wanted = ["memory", "pids"];
        let gives = |path: &Path| {
            let given = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
            wanted
                .iter()
                .all(|w| given.split_whitespace().any(|g| g == *w))
        };
        for parent in self.writable() {
            if !gives(parent) {
                // It may be refused: that only leaves fewer controllers.
                let _ = write(&parent.join("cgroup.subtree_control"), "+memory +pids");
            }
            if gives(parent) && make_group(&parent.join(name)) {
                return Some(parent.join(name));
            }
        }
        self.writable()
            .map(|parent| parent.join(name))
            .find(|group| make_group(group))
    }
}

impl HostCgroups {
    /// Reads where this process stands.
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self::parse(
            &fs::read_to_string("/proc/self/mountinfo")?,
            &fs::read_to_string("/proc/self/cgroup")?,
        ))
    }

    /// See proc(5) and cgroups(7) for both formats.
    fn parse(mountinfo: &str, own: &str) -> Self {
        let own: Vec<(&str, &str)> = own
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'))
            .collect();
        let mut host = Self::default();
        for line in mountinfo.lines() {
            let Some((before, after)) = line.split_once(" - ") else {
                continue;
            };
            let before: Vec<_> = before.split(' ').collect();
            let after: Vec<_> = after.split(' ').collect();
            let (&[_, _, _, root, mount, ..], &[kind, _, options, ..]) = (&before[..], &after[..])
            else {
                continue;
            };
            let mount = PathBuf::from(unescape(mount));
            let place = |path: &str| {
                let below = Path::new(path).strip_prefix(unescape(root)).ok()?;
                Some(mount.join(below))
            };
            match kind {
                "cgroup2" if host.unified.is_none() => {
                    let path = own.iter().find(|(controllers, _)| controllers.is_empty());
                    host.unified = path.and_then(|(_, path)| place(path)).map(|own| Unified {
                        mount: mount.clone(),
                        own,
                    });
                }
                "cgroup" => {
                    let mounted: Vec<_> = options.split(',').collect();
                    let path = own.iter().find(|(controllers, _)| {
                        !controllers.is_empty()
                            && controllers.split(',').all(|c| mounted.contains(&c))
                    });
                    if let Some((controllers, path)) = path
                        && let Some(own) = place(path)
                    {
                        let controllers = controllers.split(',').map(str::to_owned).collect();
                        host.legacy.push((controllers, own));
                    }
                }
                _ => {}
            }
        }
        host
    }

    /// The own group of a controller of version 1.
    fn v1(&self, controller: &str) -> Option<&Path> {
        self.legacy
            .iter()
            .find(|(controllers, _)| controllers.iter().any(|c| c == controller))
            .map(|(_, path)| path.as_path())
    }

    /// The groups in which groups of sessions may stand.
    fn parents(&self) -> impl Iterator<Item = &Path> {
        let above = self.unified.iter().flat_map(Unified::writable);
        above.chain(self.legacy.iter().map(|(_, path)| path.as_path()))
    }

    /// The kind that a session would get, and the controllers that would hold its limits.
    pub(crate) fn survey(&self) -> (CgroupKind, Vec<&'static str>) {
        let v2: Vec<_> = self.unified.iter().flat_map(Unified::writable).collect();
        let v2_has = |controller: &str| {
            v2.iter().any(|path| {
                fs::read_to_string(path.join("cgroup.controllers"))
                    .is_ok_and(|text| text.split_whitespace().any(|c| c == controller))
            })
        };
        let v1_has = |controller: &str| self.v1(controller).is_some_and(can_hold_groups);
        let any_v1 = ["memory", "pids", "cpuacct", "freezer"]
            .into_iter()
            .any(v1_has);
        let kind = match (v2.is_empty(), any_v1) {
            (false, false) => CgroupKind::V2,
            (false, true) => CgroupKind::Hybrid,
            (true, true) => CgroupKind::V1,
            (true, false) => CgroupKind::None,
        };
        let mut held = Vec::new();
        if v2_has("memory") || v1_has("memory") {
            held.push("memory");
        }
        if v2_has("pids") || v1_has("pids") {
            held.push("pids");
        }
        if v1_has("cpuacct") || !v2.is_empty() {
            held.push("cpu");
        }
        (kind, held)
    }
}

/// Whether this user can make groups in a group and move processes of its own into them.
fn can_hold_groups(path: &Path) -> bool {
    eaccess(path, AccessFlags::W_OK).is_ok()
        && eaccess(&path.join("cgroup.procs"), AccessFlags::W_OK).is_ok()
}

/// Makes a group, or takes an empty one that a supervisor left.
fn make_group(path: &Path) -> bool {
    match fs::create_dir(path) {
        Ok(()) => true,
        // Its limits and counters are those of another session: only a new one will do.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir(path).is_ok() && fs::create_dir(path).is_ok()
        }
        Err(_) => false,
    }
}

/// Undoes the octal escapes of mountinfo.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

fn write(path: &Path, value: impl ToString) -> io::Result<()> {
    // The kernel takes a value in one write or not at all; the file must be there.
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.to_string().as_bytes()))
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

fn write_if_there(path: &Path, value: impl ToString) -> io::Result<()> {
    match write(path, value) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| unreadable(path))
}

/// The value of a key in a file of lines with a key and a number.
fn keyed(path: &Path, key: &str) -> io::Result<u64> {
    fs::read_to_string(path)?
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| unreadable(path))
}

fn unreadable(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{} has not the number that it should have", path.display()),
    )
}

fn in_time(came: bool) -> io::Result<()> {
    if came {
        Ok(())
    } else {
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Waits for something that a file of events reports (cgroup v2: `POLLPRI` at each change).
fn wait_for(
    events: &Path,
    until: Instant,
    done: impl Fn() -> io::Result<bool>,
) -> io::Result<bool> {
    let file = fs::File::open(events)?;
    loop {
        // A change counts from the last read of this very file.
        let mut text = [0; 256];
        file.read_at(&mut text, 0)?;
        if done()? {
            return Ok(true);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(file.as_fd(), PollFlags::POLLPRI)];
        match poll(&mut polled, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Looks again and again, where nothing reports.
fn look_until(until: Instant, done: impl Fn() -> io::Result<bool>) -> io::Result<bool> {
    loop {
        if done()? {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// A group of its own for a test, removed with all that is in it.
    struct Scratch(Option<Cgroup>);

    impl Scratch {
        fn new(plan: &CgroupPlan) -> Option<Self> {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let (kind, _) = HostCgroups::read().unwrap().survey();
            if kind == CgroupKind::None {
                eprintln!("skipped: this user can write no control groups");
                return None;
            }
            let id = format!("test-{}-{count}", std::process::id());
            Some(Self(Some(Cgroup::create(&id, plan).unwrap())))
        }

        /// Starts a script in the group.
        fn run(&self, script: &str) -> Child {
            let child = waiting(script);
            self.add(child.id()).unwrap();
            go(child)
        }
    }

    impl std::ops::Deref for Scratch {
        type Target = Cgroup;

        fn deref(&self) -> &Cgroup {
            self.0.as_ref().unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let group = self.0.take().unwrap();
            group.kill().unwrap();
            assert!(group.wait_empty(SOON).unwrap());
            let paths: Vec<_> = group.all().map(Path::to_owned).collect();
            group.remove().unwrap();
            assert!(paths.iter().all(|path| !path.exists()));
        }
    }

    /// A script that waits for [`go`].
    fn waiting(script: &str) -> Child {
        Command::new("/bin/sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn go(mut child: Child) -> Child {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        child
    }

    fn plan() -> CgroupPlan {
        CgroupPlan::default()
    }

    /// Starts 40 processes one after the other and says how many there were.
    const FORTY: &str = "n=0; for i in $(seq 40); do (sleep 300 >/dev/null &) && n=$((n+1)); done; \
                         echo $n";

    fn first_line(child: &mut Child) -> String {
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line).unwrap();
        line.trim().to_owned()
    }

    #[test]
    fn too_many_processes_are_refused() {
        let Some(group) = Scratch::new(&CgroupPlan {
            pids: Some(16),
            ..plan()
        }) else {
            return;
        };
        let mut child = group.run(FORTY);

        // The shell gives up at the first one that it cannot start.
        let line = first_line(&mut child);

        assert_ne!(line, "40");
        assert!(group.processes().unwrap().len() <= 16);
        assert!(group.events().unwrap().refused_forks > 0);
        assert_eq!(group.report().pids, Enforcement::Cgroup);
        drop(group);
        child.wait().unwrap();
    }

    #[test]
    fn as_many_processes_start_without_the_limit() {
        let Some(group) = Scratch::new(&plan()) else {
            return;
        };
        let mut child = group.run(FORTY);

        let line = first_line(&mut child);

        assert_eq!(line, "40");
        assert!(group.processes().unwrap().len() >= 40);
        assert_eq!(group.report().pids, Enforcement::NotAsked);
        drop(group);
        child.wait().unwrap();
    }

    /// Keeps 64 MiB in memory, since it is one line.
    const HOG: &str = "head -c 67108864 /dev/zero | tail >/dev/null; echo $?";

    #[test]
    fn too_much_memory_ends_the_process_that_wants_it() {
        let Some(group) = Scratch::new(&CgroupPlan {
            memory: Some(24 << 20),
            ..plan()
        }) else {
            return;
        };
        let mut child = group.run(HOG);

        // Version 2 ends the whole group, version 1 the process alone.
        let line = first_line(&mut child);

        assert!(line == "137" || line.is_empty(), "{line}");
        assert!(group.events().unwrap().oom_kills > 0);
        child.wait().unwrap();
    }

    #[test]
    fn as_much_memory_is_given_without_the_limit() {
        let Some(group) = Scratch::new(&plan()) else {
            return;
        };
        let mut child = group.run(HOG);

        assert_eq!(first_line(&mut child), "0");
        assert_eq!(group.events().unwrap().oom_kills, 0);
        child.wait().unwrap();
    }

    #[test]
    fn processes_that_hide_from_signals_are_ended() {
        let Some(group) = Scratch::new(&plan()) else {
            return;
        };
        let stubborn = "trap '' TERM HUP INT; for i in 1 2 3 4 5; do \
                        setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 300; done' & done; \
                        echo up; while :; do wait; done";
        let mut child = group.run(stubborn);
        assert_eq!(first_line(&mut child), "up");
        assert!(group.is_populated().unwrap());

        group.kill().unwrap();

        assert!(group.wait_empty(SOON).unwrap());
        assert!(!group.is_populated().unwrap());
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }

    #[test]
    fn a_frozen_group_takes_no_computing_time() {
        let Some(group) = Scratch::new(&CgroupPlan {
            cpu: Some(Duration::from_millis(20)),
            ..plan()
        }) else {
            return;
        };
        let mut child = group.run("echo up; while :; do :; done");
        assert_eq!(first_line(&mut child), "up");
        assert!(look_until(Instant::now() + SOON, || group.over_cpu_budget()).unwrap());

        group.freeze(true).unwrap();
        let before = group.cpu_time().unwrap();
        thread::sleep(Duration::from_millis(30));
        let after = group.cpu_time().unwrap();
        group.freeze(false).unwrap();

        assert_eq!(before, after);
        let more = || group.cpu_time().map(|time| time > after);
        assert!(look_until(Instant::now() + SOON, more).unwrap());
        drop(group);
        child.wait().unwrap();
    }

    #[test]
    fn a_limit_that_nothing_holds_is_an_error_unless_it_may_be() {
        let host = HostCgroups::default();
        let mut plan = CgroupPlan {
            memory: Some(1 << 30),
            pids: Some(100),
            cpu: Some(Duration::from_secs(1)),
            best_effort: false,
        };

        let error = Cgroup::create_on(&host, "none", &plan).unwrap_err();
        plan.best_effort = true;
        let group = Cgroup::create_on(&host, "none", &plan).unwrap();

        assert_eq!(error.step, Step::Resources);
        assert!(error.cause.contains("memory"), "{error}");
        assert_eq!(
            *group.report(),
            CgroupReport {
                kind: CgroupKind::None,
                memory: Enforcement::Absent,
                pids: Enforcement::Absent,
                cpu: Enforcement::Absent,
                kill: false,
                freeze: false,
            }
        );
        assert!(group.wait_empty(Duration::ZERO).unwrap());
        group.remove().unwrap();
    }

    #[test]
    fn a_limit_that_the_kernel_refuses_leaves_no_group_behind() {
        let Some(good) = Scratch::new(&plan()) else {
            return;
        };
        let mut bad = CgroupPlan {
            pids: Some(u32::MAX),
            ..plan()
        };
        let id = format!("test-{}-refused", std::process::id());

        let error = Cgroup::create(&id, &bad).unwrap_err();
        bad.best_effort = true;
        let anyway = Cgroup::create(&id, &bad).unwrap();

        assert_eq!(error.step, Step::Resources);
        assert_eq!(anyway.report().pids, Enforcement::Absent);
        anyway.remove().unwrap();
        drop(good);
    }

    #[test]
    fn names_that_leave_the_tree_are_refused() {
        for id in ["", "..", "a/b", "../x"] {
            assert!(Cgroup::create(id, &plan()).is_err(), "{id}");
        }
    }

    #[test]
    fn stale_groups_are_removed_and_living_ones_stay() {
        let Some(living) = Scratch::new(&plan()) else {
            return;
        };
        // Its process keeps it, though nobody names it.
        let mut child = living.run("echo up; sleep 300 >/dev/null");
        assert_eq!(first_line(&mut child), "up");
        let pid = std::process::id();
        let stale = Cgroup::create(&format!("stale-{pid}"), &plan()).unwrap();
        let kept = Cgroup::create(&format!("kept-{pid}"), &plan()).unwrap();
        // Groups of tests that run meanwhile must stay.
        let ours = |name: &str| name.starts_with("test-").then(|| name.to_owned());
        let mut names: Vec<_> = stale
            .all()
            .flat_map(|path| fs::read_dir(path.parent().unwrap()).unwrap())
            .filter_map(|entry| ours(entry.unwrap().file_name().to_str()?.strip_prefix(PREFIX)?))
            .collect();
        names.extend((0..64).map(|n| format!("test-{pid}-{n}")));
        names.extend([format!("test-{pid}-refused"), format!("kept-{pid}")]);

        remove_stale(&names);

        assert!(stale.all().all(|path| !path.exists()));
        assert!(kept.all().all(Path::exists));
        assert!(living.all().all(Path::exists));
        kept.remove().unwrap();
        drop(living);
        child.wait().unwrap();
    }

    #[test]
    fn places_are_found_in_all_three_layouts() {
        let legacy = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      33 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        let unified = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let container = "30 23 0:26 /docker/c0 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";

        let v1 = HostCgroups::parse(legacy, "4:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/\n");
        let v2 = HostCgroups::parse(unified, "0::/user.slice/user-1000.slice/session-1.scope\n");
        let in_container = HostCgroups::parse(container, "0::/docker/c0\n");

        assert_eq!(v1.unified, None);
        assert_eq!(
            v1.v1("memory"),
            Some(Path::new("/sys/fs/cgroup/memory/a/b"))
        );
        assert_eq!(
            v1.v1("cpuacct"),
            Some(Path::new("/sys/fs/cgroup/cpu,cpuacct"))
        );
        assert_eq!(v1.v1("pids"), None);
        assert_eq!(
            v2.unified.unwrap().own,
            Path::new("/sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope")
        );
        assert_eq!(
            in_container.unified.unwrap().own,
            Path::new("/sys/fs/cgroup")
        );
    }
}

//! The backend that holds a program in namespaces of its own, by a policy.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::SystemTime;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::{Deserialize, Serialize};
use wt_policy::EffectivePolicy;
use wt_protocol::rpc::Isolation;
use wt_protocol::session::Winsize;
use wt_sandbox::cgroup::Cgroup;
use wt_sandbox::host::{self, Surroundings};
use wt_sandbox::plan::{self, MountAction, MountLayer, MountStep, Plan, Stdio};
use wt_sandbox::proxy::audit::AuditLog;
use wt_sandbox::proxy::{Egress, HostNetwork, Listener};
use wt_sandbox::settings::Settings;
use wt_sandbox::{EnforcementError, Request, Sandboxed, Step, aftermath};

use crate::backend::{Backend, Held, Program, SpawnError, Spawned};
use crate::pty::{self, Size};

/// What holds a session's program, as its starter asks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Nothing: the session was made by a program that knew no boundary.
    #[default]
    None,
    /// The machine around it, as its user says. Nothing is held here.
    Outer,
    /// Namespaces of the kernel, by a policy.
    Namespace(Box<Policy>),
}

/// A policy, and what it is enforced around.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What the session may do.
    pub effective: EffectivePolicy,
    /// Where it starts, and what it must not see.
    pub surroundings: Surroundings,
    /// Ports of this machine that no policy opens: wingthing's own.
    pub forbidden_ports: Vec<u16>,
    /// Settings files of agents below the home directory that are put back at the end.
    pub settings: Vec<PathBuf>,
    /// What stands in place of the agent's settings file.
    #[serde(default)]
    pub given_settings: Option<GivenSettings>,
}

/// What an agent finds where its settings file is. It cannot be changed in the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenSettings {
    /// The settings file, canonical; it exists.
    pub at: PathBuf,
    /// What is read there instead.
    pub content: String,
}

impl GivenSettings {
    fn step(&self) -> Result<MountStep, EnforcementError> {
        let target = self.at.to_str().ok_or_else(|| {
            EnforcementError::new(Step::Paths, format!("{} is not UTF-8", self.at.display()))
        })?;
        Ok(MountStep {
            layer: MountLayer::Protected,
            target: target.to_owned(),
            action: MountAction::File {
                content: self.content.clone(),
            },
            optional: false,
            reason: "agent_settings names another file in its place".to_owned(),
        })
    }
}

/// Starts programs inside a boundary.
#[derive(Debug)]
pub struct Sandbox<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The session's id.
    pub id: &'a str,
    /// Where decisions on the network are noted.
    pub network_log: PathBuf,
    /// Where what is active is noted.
    pub enforced: PathBuf,
    /// Where the policy is noted.
    pub policy_record: PathBuf,
    /// Where changed settings are kept.
    pub kept_settings: PathBuf,
}

impl Backend for Sandbox<'_> {
    fn isolation(&self) -> Isolation {
        Isolation::Namespace
    }

    fn spawn(&self, program: &Program, size: Winsize) -> Result<Spawned, SpawnError> {
        if !program.cwd.is_dir() {
            return Err(SpawnError::NoFolder(program.cwd.clone()));
        }
        let since = SystemTime::now();
        let Policy {
            effective,
            surroundings,
            ..
        } = self.policy;
        let settings = Settings::take(&surroundings.home, &self.policy.settings);
        host::make_missing(effective, surroundings)?;
        let facts = host::look(effective, surroundings)?;
        let request = Request {
            program: as_planned(program),
            stdio: Stdio::Terminal {
                cols: size.cols,
                rows: size.rows,
            },
        };
        let mut plan = wt_sandbox::compile(effective, &facts, &request)?;
        if let Some(given) = &self.policy.given_settings {
            plan.mounts.push(given.step()?);
        }
        let mut notes: Vec<String> = plan.notes.iter().map(|note| note.text.clone()).collect();
        notes.extend(settings.notes().iter().cloned());

        let mut group = plan
            .cgroup
            .as_ref()
            .map(|wanted| Cgroup::create(self.id, wanted))
            .transpose()?;
        let started = self.start(&plan, group.as_ref());
        let (sandboxed, egress) = match started {
            Ok(started) => started,
            Err(error) => {
                if let Some(group) = group.take() {
                    let _ = group.kill();
                    let _ = group.remove();
                }
                return Err(error);
            }
        };
        let held = Boundaries {
            folders: writable_folders(&plan),
            since,
            has_budget: effective.resources.cpu.is_some(),
            settings: Some(settings),
            kept_settings: self.kept_settings.clone(),
            group,
            egress: Some(egress),
            notes,
            sandboxed,
        };
        held.into_spawned(&plan)
    }
}

impl Sandbox<'_> {
    fn start(
        &self,
        plan: &Plan,
        group: Option<&Cgroup>,
    ) -> Result<(Sandboxed, Option<Egress>), SpawnError> {
        let mut sandboxed = wt_sandbox::spawn(plan, None, group)?;
        note(&self.enforced, &sandboxed.enforced)?;
        note(&self.policy_record, &self.policy.effective)?;
        let listeners: Vec<Listener> = std::mem::take(&mut sandboxed.listeners)
            .into_iter()
            .map(|(spec, socket)| Listener {
                kind: spec.kind,
                socket,
            })
            .collect();
        if listeners.is_empty() {
            return Ok((sandboxed, None));
        }
        let log = AuditLog::open(&self.network_log)
            .map_err(|e| EnforcementError::system(Step::Egress, self.network_log.display(), &e))?;
        let egress = Egress::start(
            self.policy.effective.network.clone(),
            listeners,
            log,
            &self.policy.forbidden_ports,
            Arc::new(HostNetwork::new()),
        )?;
        Ok((sandboxed, Some(egress)))
    }
}

/// Puts something on record before the program is known to run.
fn note(path: &Path, what: &impl Serialize) -> Result<(), SpawnError> {
    let bytes = serde_json::to_vec_pretty(what).expect("these types have no value that JSON lacks");
    wt_files::write_whole(path, &bytes).map_err(|e| SpawnError::System {
        what: "the record of what is enforced",
        reason: e.to_string(),
    })
}

/// A program that is held, and what is done when it has ended.
struct Boundaries {
    sandboxed: Sandboxed,
    egress: Option<Option<Egress>>,
    group: Option<Cgroup>,
    settings: Option<Settings>,
    kept_settings: PathBuf,
    folders: Vec<PathBuf>,
    since: SystemTime,
    has_budget: bool,
    notes: Vec<String>,
}

impl Boundaries {
    fn into_spawned(mut self, plan: &Plan) -> Result<Spawned, SpawnError> {
        let terminal = self.sandboxed.terminal.take();
        let system = |reason: String| SpawnError::System {
            what: "a terminal",
            reason,
        };
        let master =
            terminal.ok_or_else(|| system(format!("the plan {:?} gives none", plan.stdio)))?;
        let flags = fcntl(&master, FcntlArg::F_GETFL).map_err(|e| system(e.to_string()))?;
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        fcntl(&master, FcntlArg::F_SETFL(flags)).map_err(|e| system(e.to_string()))?;
        let master = File::from(master);
        let size = Size::of(&master).map_err(|e| system(e.to_string()))?;
        Ok(Spawned {
            pid: self.sandboxed.program,
            ends_with: self.sandboxed.init,
            master,
            terminal: Box::new(size),
            notes: std::mem::take(&mut self.notes),
            held: Some(Box::new(self)),
        })
    }
}

impl Held for Boundaries {
    fn status(&self) -> io::Result<ExitStatus> {
        self.sandboxed.wait()
    }

    fn has_budget(&self) -> bool {
        self.has_budget
    }

    fn over_budget(&self) -> Option<String> {
        let group = self.group.as_ref()?;
        group
            .over_cpu_budget()
            .unwrap_or(false)
            .then(|| "the session used up its computing time (resources: cpu)".to_owned())
    }

    fn clear_up(mut self: Box<Self>) -> Vec<String> {
        self.egress = None;
        let mut said = Vec::new();
        if let Some(group) = self.group.take() {
            if group.events().is_ok_and(|events| events.oom_kills > 0) {
                said.push(
                    "the kernel ended a process of the session for want of memory (resources: memory)"
                        .to_owned(),
                );
            }
            let _ = group.kill();
            let _ = group.remove();
        }
        if let Some(settings) = self.settings.take() {
            said.extend(settings.put_back(&self.kept_settings));
        }
        let found = aftermath::look(&self.folders, self.since);
        said.extend(
            found
                .left
                .iter()
                .map(|left| format!("left behind: {}: {}", printable(&left.path), left.why)),
        );
        if found.incomplete {
            said.push(
                "left behind: there is more than could be looked at; look through the folder before you run what is in it"
                    .to_owned(),
            );
        }
        said
    }
}

/// A path without characters that a terminal obeys: a session named it.
fn printable(path: &Path) -> String {
    path.display()
        .to_string()
        .chars()
        .flat_map(|c| {
            let plain = (!c.is_control()).then_some(c);
            plain.into_iter().chain(
                c.is_control()
                    .then(|| c.escape_default())
                    .into_iter()
                    .flatten(),
            )
        })
        .collect()
}

/// The folders of the host that a plan makes writable.
fn writable_folders(plan: &Plan) -> Vec<PathBuf> {
    plan.mounts
        .iter()
        .filter(|step| {
            step.layer == MountLayer::Writable
                && matches!(step.action, MountAction::Bind { writable: true, .. })
        })
        .map(|step| PathBuf::from(&step.target))
        .collect()
}

/// A session's program as a plan has it: a login shell has a name that starts with a dash.
fn as_planned(program: &Program) -> plan::Program {
    let (file, argv) = match program.command.as_slice() {
        [] => {
            let shell = pty::login_shell(program);
            let name = shell.file_name().unwrap_or(shell.as_os_str());
            let name = format!("-{}", name.to_string_lossy());
            (shell.display().to_string(), vec![name])
        }
        [file, ..] => (file.clone(), program.command.clone()),
    };
    let mut env = program.env.clone();
    if program.command.is_empty() {
        crate::env::set(&mut env, [("SHELL".to_owned(), file.clone())]);
    }
    plan::Program { file, argv, env }
}

//! A home with a project and secrets, and sessions in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{PipeReader, Read, pipe};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tempfile::TempDir;
use wt_policy::{
    EffectivePolicy, EnvPolicy, FileAccess, FileRule, NetworkMode, NetworkNeed, NetworkPolicy,
    Resources, Source,
};
use wt_sandbox::cgroup::Cgroup;
use wt_sandbox::host::{HostFacts, Surroundings, look};
use wt_sandbox::plan::{Plan, Program, Stdio};
use wt_sandbox::{EnforcementError, Request, Sandboxed, SpawnError, compile, spawn};

/// Where worlds are made, for the run as an ordinary user.
pub(crate) const BASE: &str = "WT_BOUNDARY_BASE";
/// The argument of a supervisor that is there to be killed.
pub(crate) const SUPERVISE: &str = "--supervise";

/// A home with `project` in it.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) policy: EffectivePolicy,
    pub(crate) profile: PathBuf,
    pub(crate) cwd: PathBuf,
}

impl World {
    /// With a project that may be written.
    pub(crate) fn new() -> Self {
        let base = std::env::var_os(BASE)
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        Self::below(&base)
    }

    pub(crate) fn below(base: &Path) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("world-")
            .tempdir_in(base)
            .unwrap();
        let world = Self {
            profile: dir.path().join("home/.wingthing"),
            cwd: dir.path().join("home/project"),
            policy: EffectivePolicy {
                agent: None,
                config_source: Source::Default,
                trusted: true,
                files: Vec::new(),
                network: NetworkPolicy {
                    need: NetworkNeed::None,
                    hosts: Vec::new(),
                    local_ports: Vec::new(),
                    mode: NetworkMode::Enforce,
                },
                env: EnvPolicy {
                    all: false,
                    pass: Vec::new(),
                    set: BTreeMap::new(),
                },
                resources: Resources::default(),
                shell: None,
                skip_permissions: false,
                audit: false,
                trace: false,
                agent_settings: BTreeMap::new(),
                drilled: Vec::new(),
                derived: Vec::new(),
                suppressed: Vec::new(),
            },
            dir,
        };
        fs::create_dir_all(&world.cwd).unwrap();
        world.write(".wingthing/key", "canary of the profile");
        let project = world.path("project");
        world.with(FileAccess::Rw, &project)
    }

    pub(crate) fn path(&self, below_home: &str) -> String {
        let path = self.dir.path().join("home").join(below_home);
        path.to_str().unwrap().to_owned()
    }

    /// Writes a file below the home, and the directories that lead to it.
    pub(crate) fn write(&self, below_home: &str, text: &str) -> PathBuf {
        let path = PathBuf::from(self.path(below_home));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, below_home: &str) -> Option<String> {
        fs::read_to_string(self.path(below_home)).ok()
    }

    pub(crate) fn with(mut self, access: FileAccess, path: &str) -> Self {
        self.policy.files.push(FileRule {
            access,
            path: path.to_owned(),
            kind: None,
            source: Source::Default,
            reason: None,
        });
        self
    }

    pub(crate) fn facts(&self) -> Result<HostFacts, EnforcementError> {
        look(
            &self.policy,
            &Surroundings {
                cwd: self.cwd.clone(),
                home: self.dir.path().join("home"),
                profiles: vec![self.profile.clone()],
                program: None,
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
        )
    }

    /// The plan for a program with pipes for its standard descriptors.
    pub(crate) fn plan(&self, argv: &[&str]) -> Result<Plan, EnforcementError> {
        let env = [
            (
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            ),
            ("HOME", self.path("").trim_end_matches('/').to_owned()),
            ("LC_ALL", "C".to_owned()),
        ];
        compile(
            &self.policy,
            &self.facts()?,
            &Request {
                program: Program {
                    file: argv[0].to_owned(),
                    argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
                    env: env.map(|(key, value)| (key.to_owned(), value)).into(),
                },
                stdio: Stdio::Given,
            },
        )
    }

    pub(crate) fn shell(&self, script: &str) -> Plan {
        self.plan(&["bash", "-c", script]).unwrap()
    }

    /// Runs a script to its end.
    pub(crate) fn run(&self, script: &str) -> Ran {
        run(&self.shell(script))
    }
}

/// A program that ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    /// What it printed, to either descriptor.
    pub(crate) output: String,
}

pub(crate) fn run(plan: &Plan) -> Ran {
    let mut running = start(plan).unwrap();
    let output = running.rest();
    let status = running.session.wait().unwrap();
    Ran { status, output }
}

/// A session and what it prints.
pub(crate) struct Running {
    pub(crate) session: Sandboxed,
    pub(crate) output: PipeReader,
    cgroup: Option<Cgroup>,
}

impl Running {
    /// What it prints until nobody is left who could print more.
    pub(crate) fn rest(&mut self) -> String {
        let mut output = Vec::new();
        self.output.read_to_end(&mut output).unwrap();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// What it prints up to the end of a line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.session.kill();
        let _ = self.session.wait();
        if let Some(cgroup) = self.cgroup.take() {
            let _ = cgroup.remove();
        }
    }
}

pub(crate) fn start(plan: &Plan) -> Result<Running, SpawnError> {
    let (output, theirs) = pipe().unwrap();
    let input = fs::File::open("/dev/null").unwrap();
    let given = match plan.stdio {
        Stdio::Given => Some([
            OwnedFd::from(input),
            theirs.try_clone().unwrap().into(),
            theirs.into(),
        ]),
        Stdio::Terminal { .. } => None,
    };
    start_with(plan, given).map(|(session, cgroup)| Running {
        session,
        output,
        cgroup,
    })
}

fn start_with(
    plan: &Plan,
    given: Option<[OwnedFd; 3]>,
) -> Result<(Sandboxed, Option<Cgroup>), SpawnError> {
    let unique = tempfile::Builder::new().tempfile().unwrap();
    let name = unique.path().file_name().unwrap().to_string_lossy();
    let id = name.trim_start_matches('.').to_owned();
    let cgroup = plan
        .cgroup
        .as_ref()
        .map(|plan| Cgroup::create(&id, plan))
        .transpose()?;
    match spawn(plan, given, cgroup.as_ref()) {
        Ok(session) => Ok((session, cgroup)),
        Err(error) => {
            if let Some(cgroup) = cgroup {
                let _ = cgroup.remove();
            }
            Err(error)
        }
    }
}

/// Holds a session until it is killed: the plan comes on standard input, standard output is the
/// program's.
pub(crate) fn supervise() -> ! {
    let plan: Plan = serde_json::from_reader(std::io::stdin()).unwrap();
    let output = rustix::io::dup(rustix::stdio::stdout()).unwrap();
    let given = [
        fs::File::open("/dev/null").unwrap().into(),
        output.try_clone().unwrap(),
        output,
    ];
    let (session, _cgroup) = start_with(&plan, Some(given)).unwrap();
    session.wait().unwrap();
    std::process::exit(0)
}

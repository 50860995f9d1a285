//! `wt doctor`: what works here, and what does not.

use std::fs;
use std::path::Path;

use serde::Serialize;
use wt_sandbox::probe::{self, Feature, FeatureName, FeatureState, HostReport};
use wt_wing::agents::{self, Installed};
use wt_wing::checkup::{self, Check, Grade};
use wt_wing::control;
use wt_wing::host::{Ability, Host, Logout};
use wt_wing::login_path::LoginPath;
use wt_wing::profile::{Profile, local_user, variables};

use super::egg;
use crate::error::Done;
use crate::nested;
use crate::output::{Output, plain};

/// Check what is installed, what this machine can enforce, and whether the profile is in order
///
/// Agents are looked for in the PATH of this terminal and, while the daemon runs, where it
/// would find them. What holds sessions is tried. Ends with 1 if something stops wt from
/// working, a sandbox that cannot be enforced among that, and with 0 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Report {
    status: Grade,
    agents: Vec<AgentView>,
    host: HostView,
    sandbox: SandboxView,
    checks: Vec<Check>,
}

/// What a session here would be held by: tried, and not told from files.
#[derive(Serialize)]
struct SandboxView {
    /// Whether a session starts with all of it.
    enforced: bool,
    landlock_abi: u32,
    features: Vec<Feature>,
}

#[derive(Serialize)]
struct AgentView {
    name: String,
    title: String,
    installed: bool,
    path: Option<String>,
    version: Option<String>,
    /// Why it cannot be used, or what it did not say.
    problem: Option<String>,
    /// Where the running daemon finds it.
    daemon_path: Option<String>,
    install: String,
}

#[derive(Serialize)]
struct HostView {
    kernel: String,
    user_namespaces: AbilityView,
    landlock: LandlockView,
    cgroup_v2: CgroupView,
    seccomp: AbilityView,
}

#[derive(Serialize)]
struct AbilityView {
    available: Option<bool>,
    detail: String,
}

#[derive(Serialize)]
struct LandlockView {
    #[serde(flatten)]
    ability: AbilityView,
    abi: Option<u32>,
}

#[derive(Serialize)]
struct CgroupView {
    #[serde(flatten)]
    ability: AbilityView,
    controllers: Vec<String>,
}

pub(crate) async fn run(Args {}: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let env = variables();
    let user = local_user().id;
    let host = Host::read(Path::new("/"), nix::unistd::geteuid().is_root());
    let logout = Logout::read(Path::new("/"), &user);
    let (found, daemon, view) = tokio::join!(
        agents::installed(&env),
        checkup::daemon(&profile),
        view_of_daemon(&profile)
    );
    let mut checks = checkup::profile(&profile);
    checks.push(daemon);
    checks.push(checkup::sessions(&profile));
    checks.push(checkup::logout(&logout));
    let sandbox = probe::host();
    checks.push(sandbox_check(&sandbox));
    let (daemon_path, problem) = view.map_or((None, None), |view| (Some(view.path), view.problem));
    if let Some(problem) = problem {
        checks.push(Check {
            name: "login shell",
            status: Grade::Warning,
            message: problem,
            hint: Some("see what the shell's start-up files wait for".to_owned()),
        });
    }
    let report = Report {
        status: checks
            .iter()
            .map(|check| check.status)
            .max()
            .unwrap_or(Grade::Ok),
        agents: found
            .into_iter()
            .map(|agent| AgentView::new(agent, daemon_path.as_deref()))
            .collect(),
        host: HostView::new(host, &sandbox),
        sandbox: SandboxView {
            enforced: sandbox.is_sufficient(),
            landlock_abi: sandbox.landlock_abi,
            features: sandbox.features,
        },
        checks,
    };
    output.answer(&report, || describe(&report, output))?;
    Ok(u8::from(report.status == Grade::Failed))
}

/// The folders in which a running daemon looks for programs.
struct DaemonView {
    path: String,
    /// Why they are not those of a login shell.
    problem: Option<String>,
}

/// Works out what the running daemon would, from its own variables.
async fn view_of_daemon(profile: &Profile) -> Option<DaemonView> {
    let status = control::status(profile).await.ok()??;
    let bytes = fs::read(format!("/proc/{}/environ", status.pid)).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    let mut env =
        wt_egg::env::from_daemon(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let problem = LoginPath::default().put_into(&mut env).await;
    let path = env.into_iter().find(|(key, _)| key == "PATH")?.1;
    Some(DaemonView { path, problem })
}

impl AgentView {
    fn new(agent: Installed, daemon_path: Option<&str>) -> Self {
        let shown = |path: &Path| path.display().to_string();
        Self {
            name: agent.profile.name.to_string(),
            title: agent.profile.title.clone(),
            installed: agent.path.is_some(),
            path: agent.path.as_deref().map(shown),
            version: agent.version,
            problem: agent.problem,
            daemon_path: daemon_path
                .and_then(|path| agents::locate(agent.profile, path))
                .as_deref()
                .map(shown),
            install: agent.profile.install.clone(),
        }
    }
}

impl From<Ability> for AbilityView {
    fn from(ability: Ability) -> Self {
        Self {
            available: ability.available,
            detail: ability.detail,
        }
    }
}

impl HostView {
    /// What files tell, corrected by what was tried.
    fn new(host: Host, tried: &HostReport) -> Self {
        let ability = |ability: Ability, name: FeatureName| {
            let feature = tried.features.iter().find(|feature| feature.name == name);
            let mut view = AbilityView::from(ability);
            if let Some(feature) = feature {
                view.available = Some(feature.state != FeatureState::Missing);
                view.detail.clone_from(&feature.detail);
            }
            view
        };
        Self {
            kernel: host.kernel,
            user_namespaces: ability(host.user_namespaces, FeatureName::Namespaces),
            landlock: LandlockView {
                ability: ability(host.landlock, FeatureName::Landlock),
                abi: Some(tried.landlock_abi).filter(|abi| *abi > 0),
            },
            cgroup_v2: CgroupView {
                ability: host.cgroup_v2.into(),
                controllers: host.cgroup_controllers,
            },
            seccomp: ability(host.seccomp, FeatureName::Seccomp),
        }
    }
}

/// Whether sessions start here.
fn sandbox_check(host: &HostReport) -> Check {
    let missing: Vec<&Feature> = host
        .features
        .iter()
        .filter(|feature| feature.needed && feature.state == FeatureState::Missing)
        .collect();
    let Some(first) = missing.first() else {
        return Check {
            name: "sandbox",
            status: Grade::Ok,
            message: "sessions are held by all of it".to_owned(),
            hint: None,
        };
    };
    let names: Vec<&str> = missing.iter().map(|feature| feature.name.name()).collect();
    let cause = first.cause.as_deref().unwrap_or(&first.detail);
    if let Some(session) = nested::session() {
        return Check {
            name: "sandbox",
            status: Grade::Failed,
            message: format!(
                "this terminal is in the session {session}, and in a sandbox no other can be put up"
            ),
            hint: Some("run it in a terminal outside of the session".to_owned()),
        };
    }
    Check {
        name: "sandbox",
        status: Grade::Failed,
        message: format!(
            "no session starts without --unsandboxed: {} missing; {cause}",
            names.join(", ")
        ),
        hint: first
            .remedy
            .as_ref()
            .and_then(|remedy| remedy.lines().next())
            .map(str::to_owned),
    }
}

fn describe(report: &Report, output: Output) -> String {
    let agents: Vec<Vec<String>> = report.agents.iter().map(agent_row).collect();
    let mut checks = Vec::new();
    for check in &report.checks {
        let word = match check.status {
            Grade::Ok => "ok",
            Grade::Warning => "warning",
            Grade::Failed => "FAILED",
        };
        let hint = check
            .hint
            .as_ref()
            .map_or(String::new(), |hint| format!("; {hint}"));
        checks.push(vec![
            check.name.to_owned(),
            word.to_owned(),
            plain(&format!("{}{hint}", check.message)).into_owned(),
        ]);
    }
    [
        output.table(&["AGENT", "VERSION", "PROGRAM"], &agents),
        egg::features(&report.sandbox.features, output),
        output.table(&["CHECK", "", ""], &checks),
    ]
    .join("\n")
}

fn agent_row(agent: &AgentView) -> Vec<String> {
    let version = agent.version.as_deref().unwrap_or("-").to_owned();
    let mut words: Vec<String> = Vec::new();
    match &agent.path {
        Some(path) => {
            words.push(path.clone());
            words.extend(agent.problem.clone());
            match &agent.daemon_path {
                Some(daemon) if daemon != path => words.push(format!("the daemon runs {daemon}")),
                Some(_) | None => {}
            }
        }
        None => {
            words.push("not installed".to_owned());
            words.extend(agent.problem.clone());
            words.push(match &agent.daemon_path {
                Some(path) => format!("the daemon finds {path}"),
                None => format!("to install it: {}", agent.install),
            });
        }
    }
    vec![
        agent.name.clone(),
        version,
        plain(&words.join("; ")).into_owned(),
    ]
}

//! `wt egg explain`: what a session may do, and why.

use std::path::{Path, PathBuf};

use serde::Serialize;
use wt_policy::{
    AgentProfile, DenyReason, Destination, ExplainedAddition, ExplainedMount, ExplainedNetwork,
    FileAccess, FileRule, Host, NetworkNeed, Port, Verdict, session_env,
};
use wt_sandbox::plan::Plan;
use wt_sandbox::probe::{self, Feature, FeatureState, HostReport};
use wt_sandbox::{EnforcementError, probe::FeatureName};
use wt_wing::boundary::{Asked, Found, find};
use wt_wing::profile::{Profile, variables};
use wt_wing::why::{Finds, followed, in_plan};
use wt_wing::{Error, agents};

use super::{here, suppressed_line};
use crate::error::{Done, say, usage};
use crate::output::{Output, plain};

/// What no sandbox of this kind can promise.
const NOT_PROTECTED: &[&str] = &[
    "faults of the kernel that this session and this machine share",
    "what is sent to a host that it may reach: such a host can be used to carry things out",
    "what is read in the project, in what it may read of the home folder, and on the machine",
    "what you run later from the folders that it writes: build scripts, tests, tools",
    "names that are protected and do not exist yet: it can make them, and its end tells of them",
    "the load that it puts on the machine beyond the limits that are set",
    "side channels of the processor, and what /proc says of the machine as a whole",
];

/// Tell what a session in this folder may do, who says so, and what this machine enforces
///
/// With an agent's name, also what that agent is given; it need not be installed. The same
/// code decides that holds a session, and what a start would do is compared with it. Nothing
/// is started or changed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The agent's name
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// Only tell about this path, or this host, with a port unless it is 443
    #[arg(long, value_name = "PATH|HOST[:PORT]")]
    why: Option<String>,
    /// Apply this file in place of the egg.yaml of the profile
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the session would start [default: this folder]
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    agent: Option<String>,
    config_source: String,
    tier: String,
    network: ExplainedNetwork,
    mounts: Vec<ExplainedMount>,
    deny: Vec<String>,
    deny_write: Vec<String>,
    drilled: Vec<ExplainedAddition>,
    derived: Vec<ExplainedAddition>,
    suppressed: Vec<ExplainedAddition>,
    trusted: bool,
    /// Names of the variables that it would get from here. Values are never told.
    env: Vec<String>,
    resources: Resources,
    /// What the start would say besides.
    notes: Vec<String>,
    /// Why a start would be refused, if it would.
    refused: Option<EnforcementError>,
    enforces: Vec<Feature>,
    not_protected: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Why>,
}

#[derive(Serialize)]
struct Resources {
    /// Seconds.
    cpu: Option<u64>,
    /// Bytes.
    memory: Option<u64>,
    max_fds: Option<u32>,
    max_pids: Option<u32>,
}

/// The answer about one path or host.
#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
enum Why {
    Path(PathWhy),
    Host(HostWhy),
}

#[derive(Serialize)]
struct PathWhy {
    asked: String,
    /// Where its links lead.
    path: String,
    /// What a session finds there; none when no start would be made.
    finds: Option<Finds>,
    /// What the rules say.
    access: FileAccess,
    rule: Option<RuleView>,
    /// The step of the plan that decides, and where.
    by: Option<String>,
    at: Option<String>,
    because: Option<String>,
    hint: Option<String>,
}

#[derive(Serialize)]
struct RuleView {
    access: FileAccess,
    path: String,
    source: String,
    reason: Option<String>,
}

#[derive(Serialize)]
struct HostWhy {
    asked: String,
    host: String,
    port: u16,
    allowed: bool,
    because: String,
    hint: Option<String>,
}

pub(super) fn run(args: Args, output: Output) -> Done {
    let profile = Profile::locate()?;
    let here = here()?;
    let cwd = here.join(args.cwd.unwrap_or_default());
    let cwd: PathBuf = cwd.components().collect();
    if !cwd.is_dir() {
        return Err(Error::failed(format!("{} is not a folder", cwd.display()))
            .hint("name one with --cwd")
            .into());
    }
    if let Some(agent) = &args.agent {
        agents::profile(agent)?;
    }
    let config = args.config.map(|file| here.join(file));
    let config = config
        .map(|file| {
            file.into_os_string()
                .into_string()
                .map_err(|_| usage("the file's name is not UTF-8"))
        })
        .transpose()?;
    let caller = variables();
    // As a start here has them.
    let env = wt_egg::env::from_terminal(caller.iter().cloned());
    let asked = Asked {
        agent: args.agent.as_deref(),
        cwd: &cwd,
        config: config.as_deref(),
        env: &env,
        options: &[],
    };
    let found = find(&profile, asked)?;
    let plan = found.plan(&profile);
    let host = probe::host();
    let why = args
        .why
        .map(|asked| why(&asked, &found, plan.as_ref().ok(), &profile, &here))
        .transpose()?;
    let document = document(&found, &env, plan, host, why);
    for left_out in &document.suppressed {
        say(&suppressed_line(left_out));
    }
    output.answer(&document, || match &document.why {
        Some(why) => describe_why(why),
        None => describe(&document, &found, output),
    })?;
    Ok(0)
}

fn document(
    found: &Found,
    env: &[(String, String)],
    plan: Result<Plan, EnforcementError>,
    host: HostReport,
    why: Option<Why>,
) -> Document {
    let policy = &found.policy;
    let is_enforced = host.is_sufficient() && plan.is_ok();
    let explained = policy.explain(if is_enforced { "namespace" } else { "none" });
    let vars = session_env(policy, env);
    let (notes, refused) = match plan {
        Ok(plan) => (plan.notes.into_iter().map(|note| note.text).collect(), None),
        Err(error) => (Vec::new(), Some(error)),
    };
    Document {
        agent: explained.agent,
        config_source: explained.config_source,
        tier: explained.tier,
        network: explained.network,
        mounts: explained.mounts,
        deny: explained.deny,
        deny_write: explained.deny_write,
        drilled: explained.drilled,
        derived: explained.derived,
        suppressed: explained.suppressed,
        trusted: explained.trusted,
        env: vars.vars.into_iter().map(|(name, _)| name).collect(),
        resources: Resources {
            cpu: policy.resources.cpu.map(|cpu| cpu.as_secs()),
            memory: policy.resources.memory,
            max_fds: policy.resources.max_fds,
            max_pids: policy.resources.max_pids,
        },
        notes,
        refused,
        enforces: host.features,
        not_protected: NOT_PROTECTED,
        why,
    }
}

fn why(
    asked: &str,
    found: &Found,
    plan: Option<&Plan>,
    profile: &Profile,
    here: &Path,
) -> Result<Why, Error> {
    let is_path = asked.contains('/') || asked.starts_with(['.', '~']) || here.join(asked).exists();
    if is_path {
        return why_path(asked, found, plan, here).map(Why::Path);
    }
    why_host(asked, found, profile).map(Why::Host)
}

fn why_path(
    asked: &str,
    found: &Found,
    plan: Option<&Plan>,
    here: &Path,
) -> Result<PathWhy, Error> {
    let path = match asked.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            PathBuf::from(format!("{}{rest}", found.places.home))
        }
        _ => here.join(asked),
    };
    let path = if path.components().any(|part| part.as_os_str() == "..") {
        followed(&path)
    } else {
        path.components().collect()
    };
    let text = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| usage("the path is not UTF-8"))
    };
    let (asked_path, real) = (text(&path)?, text(&followed(&path))?);
    // A rule may be for the link or for what it leads to; the stricter one holds.
    let sides = [&asked_path, &real].map(|path| found.policy.access(path));
    let (access, rule) = match sides {
        [by_name, by_target] if by_target.0 > by_name.0 => by_target,
        [by_name, _] => by_name,
    };
    let step = plan.and_then(|plan| in_plan(plan, &real));
    let finds = step.as_ref().map(|found| found.finds);
    let hint = hint_for_path(access, rule, finds, &asked_path);
    Ok(PathWhy {
        asked: asked.to_owned(),
        finds,
        access,
        rule: rule.map(|rule| RuleView {
            access: rule.access,
            path: rule.path.clone(),
            source: rule.source.to_string(),
            reason: rule.reason.clone(),
        }),
        by: step.as_ref().map(|found| word(&found.step.layer)),
        at: step.as_ref().map(|found| found.step.target.clone()),
        because: step.as_ref().map(|found| found.step.reason.clone()),
        path: real,
        hint,
    })
}

/// A word as it stands in JSON.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

fn hint_for_path(
    access: FileAccess,
    rule: Option<&FileRule>,
    finds: Option<Finds>,
    path: &str,
) -> Option<String> {
    let is_core = rule.is_some_and(|rule| rule.source == wt_policy::Source::Core);
    let is_missing = !Path::new(path).exists();
    match (access, finds) {
        _ if is_core => Some("nothing opens it".to_owned()),
        (FileAccess::Rw, Some(Finds::Writable)) => None,
        (FileAccess::Rw, Some(Finds::ReadOnly)) if is_missing => Some(
            "it is not there; a start makes the folders of its agent, and nothing else".to_owned(),
        ),
        (FileAccess::DenyWrite | FileAccess::Deny, Some(Finds::Writable)) if is_missing => Some(
            "it is not there, so a session can make it; the end of the session tells of it"
                .to_owned(),
        ),
        (_, Some(Finds::Own)) => {
            Some("sessions have one of their own; put what they share elsewhere".to_owned())
        }
        (FileAccess::Deny, _) => Some(format!("to open it: fs: [\"ro:{path}\"] in egg.yaml")),
        (FileAccess::Ro | FileAccess::DenyWrite, _) => Some(format!(
            "to have it written: fs: [\"rw:{path}\"] in egg.yaml"
        )),
        (FileAccess::Rw, _) => None,
    }
}

fn why_host(asked: &str, found: &Found, profile: &Profile) -> Result<HostWhy, Error> {
    let destination = Destination::parse(asked)
        .or_else(|_| {
            Host::parse(asked).map(|host| Destination {
                host,
                port: Port::HTTPS,
            })
        })
        .map_err(|e| {
            usage(format!("{asked} is no path and no host: {e}"))
                .hint("write a path with a slash, as in ./src, and a host as HOST or HOST:PORT")
        })?;
    let verdict = found.policy.network.decide(&destination);
    let port = destination.port.get();
    let (allowed, because, hint) = match &verdict {
        Verdict::Allowed(_) => (
            true,
            format!(
                "{verdict}; its addresses are looked at when it is reached, and only public ones are let through unless a rule names them"
            ),
            None,
        ),
        Verdict::Denied(denial) => match &denial.reason {
            DenyReason::Localhost { .. } if profile.own_ports().contains(&port) => (
                false,
                format!("port {port} of this machine is wingthing's own"),
                Some("nothing opens it".to_owned()),
            ),
            DenyReason::Localhost { forwarded: true } => (true, verdict.to_string(), None),
            DenyReason::Localhost { forwarded: false } => (
                false,
                verdict.to_string(),
                Some(format!(
                    "to open it: network: {{local_ports: [{port}]}} in egg.yaml"
                )),
            ),
            _ => (
                false,
                verdict.to_string(),
                denial
                    .rule_hint()
                    .or_else(|| named_address(&destination, port))
                    .filter(|rule| super::log::opens(&found.policy, rule, &destination))
                    .map(|rule| {
                        format!("to open it: network: {{domains: [\"{rule}\"]}} in egg.yaml")
                    }),
            ),
        },
    };
    Ok(HostWhy {
        asked: asked.to_owned(),
        host: destination.host.to_string(),
        port,
        allowed,
        because,
        hint,
    })
}

/// The rule that names an address, as private ones must be.
fn named_address(destination: &Destination, port: u16) -> Option<String> {
    match destination.host {
        Host::Address(_) if port == Port::HTTPS.get() => Some(destination.host.to_string()),
        Host::Address(_) => Some(destination.to_string()),
        Host::Name(_) => None,
    }
}

fn describe_why(why: &Why) -> String {
    let mut lines = Vec::new();
    match why {
        Why::Host(host) => {
            let verb = if host.allowed {
                "reached"
            } else {
                "not reached"
            };
            lines.push(format!("{}:{} is {verb}", host.host, host.port));
            lines.push(format!("  because: {}", host.because));
            lines.extend(host.hint.as_ref().map(|hint| format!("  hint: {hint}")));
        }
        Why::Path(path) => {
            let what = match path.finds {
                Some(Finds::Writable) => "is read and written",
                Some(Finds::ReadOnly) => "is read",
                Some(Finds::Own) => "is the session's own, and not what is there now",
                Some(Finds::Hidden) => "is hidden",
                None => "is not seen, because no session would start",
            };
            lines.push(format!("{} {what}", path.path));
            if let Some(rule) = &path.rule {
                let reason = rule.reason.as_deref().unwrap_or("it is written there");
                lines.push(format!(
                    "  rule: {} {} ({}: {reason})",
                    word(&rule.access),
                    rule.path,
                    rule.source
                ));
            }
            if let (Some(by), Some(at), Some(because)) = (&path.by, &path.at, &path.because) {
                lines.push(format!("  enforced by: {by} at {at} ({because})"));
            }
            lines.extend(path.hint.as_ref().map(|hint| format!("  hint: {hint}")));
        }
    }
    let lines = lines.iter().map(|line| format!("{}\n", plain(line)));
    lines.collect()
}

fn describe(document: &Document, found: &Found, output: Output) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(&plain(line));
        text.push('\n');
    };
    let installed = document
        .agent
        .as_deref()
        .and_then(AgentProfile::find)
        .map(|agent| {
            let path = found.facts.env.iter().find(|(key, _)| key == "PATH");
            path.and_then(|(_, path)| agents::locate(agent, path))
                .is_some()
        });
    match (&document.agent, installed) {
        (Some(agent), Some(true)) => line(&format!("agent: {agent}")),
        (Some(agent), _) => line(&format!("agent: {agent}, which is not installed")),
        (None, _) => line("agent: none; a shell or a command"),
    }
    line(&format!("starts in: {}", found.places.cwd));
    let trust = if document.trusted {
        ""
    } else {
        ", not trusted: it can only take away"
    };
    line(&format!("rules: {}{trust}", document.config_source));
    match &document.refused {
        Some(error) => line(&format!(
            "a start would be refused: {error}; {}",
            error.hint
        )),
        None if document.tier == "none" => {
            line("a start would be refused: this machine cannot enforce it, see below");
        }
        None => line("isolation: namespace"),
    }
    for note in &document.notes {
        line(&format!("note: {note}"));
    }

    line("");
    let network = &document.network;
    let need = match network.need {
        NetworkNeed::None => "no network".to_owned(),
        NetworkNeed::Local => "ports of this machine alone".to_owned(),
        NetworkNeed::Hosts => format!("{} hosts", network.domains.len()),
        NetworkNeed::Any => "every public host".to_owned(),
    };
    line(&format!("network: {need}, {}", word(&network.mode)));
    for host in &found.policy.network.hosts {
        line(&format!("  {} ({})", host.value, host.source));
    }
    for port in &found.policy.network.local_ports {
        line(&format!(
            "  port {} of this machine ({})",
            port.value, port.source
        ));
    }
    text.push('\n');

    let (shown, left): (Vec<&FileRule>, Vec<&FileRule>) = found
        .policy
        .files
        .iter()
        .partition(|rule| is_worth_a_line(rule));
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|rule| {
            let because = match &rule.reason {
                Some(reason) => format!("{reason} ({})", rule.source),
                None => rule.source.to_string(),
            };
            vec![
                word(&rule.access),
                plain(&rule.path).into_owned(),
                plain(&because).into_owned(),
            ]
        })
        .collect();
    text.push_str(&output.table(&["FILES", "PATH", "WHY"], &rows));
    if !left.is_empty() {
        text.push_str(&format!(
            "and {} built-in rules for what is not there; --json tells all\n",
            left.len()
        ));
    }
    let mut line = |line: &str| {
        text.push_str(&plain(line));
        text.push('\n');
    };
    line("");
    line(&format!("variables: {}", document.env.join(" ")));
    let limits = limits(&document.resources);
    line(&format!(
        "limits: {}",
        if limits.is_empty() { "none" } else { &limits }
    ));
    for (title, list) in [("added", &document.drilled), ("follows", &document.derived)] {
        for addition in list {
            line(&format!(
                "{title}: {} {} ({}): {}",
                addition.kind, addition.value, addition.source, addition.reason
            ));
        }
    }
    line("");
    line("not protected against:");
    for what in document.not_protected {
        line(&format!("  {what}"));
    }
    text.push('\n');
    text.push_str(&features(&document.enforces, output));
    text
}

/// Whether a rule says something about this machine: somebody wrote it, or it is about
/// something that is there.
fn is_worth_a_line(rule: &FileRule) -> bool {
    rule.source != wt_policy::Source::Default
        || rule.path.contains('*')
        || Path::new(&rule.path).symlink_metadata().is_ok()
}

fn limits(resources: &Resources) -> String {
    let mut words = Vec::new();
    words.extend(resources.cpu.map(|cpu| format!("cpu {cpu}s")));
    words.extend(
        resources
            .memory
            .map(|bytes| format!("memory {} MiB", bytes >> 20)),
    );
    words.extend(resources.max_fds.map(|fds| format!("max_fds {fds}")));
    words.extend(resources.max_pids.map(|pids| format!("max_pids {pids}")));
    words.join(", ")
}

/// What a machine enforces, as a table, with what to do about what it does not.
pub(in crate::commands) fn features(features: &[Feature], output: Output) -> String {
    let rows: Vec<Vec<String>> = features
        .iter()
        .map(|feature| {
            let state = match feature.state {
                FeatureState::Works => "yes",
                FeatureState::Partial => "partly",
                FeatureState::Missing if feature.needed => "NO",
                FeatureState::Missing => "no",
            };
            let cause = feature
                .cause
                .as_ref()
                .map_or(String::new(), |cause| format!("; {cause}"));
            vec![
                name(feature.name),
                state.to_owned(),
                plain(&format!("{}{cause}", feature.detail)).into_owned(),
            ]
        })
        .collect();
    let mut text = output.table(&["SANDBOX", "", ""], &rows);
    for feature in features {
        if let Some(remedy) = &feature.remedy {
            text.push_str(&format!("{}: {remedy}\n", feature.name));
        }
    }
    text
}

fn name(feature: FeatureName) -> String {
    feature.name().to_owned()
}

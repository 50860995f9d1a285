//! A policy as it is shown to people and programs, and what changes between two.

use serde::Serialize;

use crate::effective::{
    Addition, EffectivePolicy, FileAccess, FileRule, NetworkMode, NetworkNeed, Source,
};
use crate::paths;
use crate::resolve::host_text;

/// The version of the format that [`Explanation`] is written in.
pub const EXPLAIN_VERSION: u32 = 1;

/// A policy for programs: what `wt egg explain --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// [`EXPLAIN_VERSION`].
    pub version: u32,
    /// The agent, if the session has one.
    pub agent: Option<String>,
    /// Where the configuration nearest to the session came from, in words.
    pub config_source: String,
    /// How strongly this machine separates sessions.
    pub tier: String,
    /// Whom the session may talk to.
    pub network: ExplainedNetwork,
    /// What it reads (`ro`) and writes (`rw`).
    pub mounts: Vec<ExplainedMount>,
    /// Paths that it neither reads nor writes.
    pub deny: Vec<String>,
    /// Paths that it does not write though what is around them may be written.
    pub deny_write: Vec<String>,
    /// What the agent's profile added.
    pub drilled: Vec<ExplainedAddition>,
    /// What follows from something else.
    pub derived: Vec<ExplainedAddition>,
    /// What was asked for and is not applied.
    pub suppressed: Vec<ExplainedAddition>,
    /// Whether the configuration nearest to the session may widen what is below it.
    pub trusted: bool,
}

/// The network of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedNetwork {
    /// How much there is.
    pub need: NetworkNeed,
    /// Hosts, without a port where that is 443; `*` alone when every public host is allowed.
    pub domains: Vec<String>,
    /// Ports of servers on the same machine.
    pub local_ports: Vec<u16>,
    /// What happens to a connection that no rule allows.
    pub mode: NetworkMode,
}

/// One path that is read or written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedMount {
    /// The path.
    pub path: String,
    /// `rw` or `ro`.
    pub mode: FileAccess,
    /// Who says so.
    pub source: String,
    /// Why, if somebody said.
    pub reason: Option<String>,
}

/// One thing that was added or left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedAddition {
    /// What it concerns.
    pub kind: String,
    /// The path, name or value.
    pub value: String,
    /// The agent for which it was added, if it was one.
    pub agent: Option<String>,
    /// Who asked for it.
    pub source: String,
    /// Why.
    pub reason: String,
}

impl From<&Addition> for ExplainedAddition {
    fn from(addition: &Addition) -> Self {
        Self {
            kind: addition.kind.clone(),
            value: addition.value.clone(),
            agent: match &addition.source {
                Source::Agent { name } => Some(name.clone()),
                _ => None,
            },
            source: addition.source.to_string(),
            reason: addition.reason.clone(),
        }
    }
}

impl EffectivePolicy {
    /// The policy for programs. `tier` is what the machine gives, in the words of whoever
    /// enforces.
    pub fn explain(&self, tier: &str) -> Explanation {
        let additions = |list: &[Addition]| list.iter().map(ExplainedAddition::from).collect();
        let of = |access| {
            let rules = self.files.iter().filter(move |rule| rule.access == access);
            let mut paths: Vec<String> = rules.map(|rule| rule.path.clone()).collect();
            paths.sort();
            paths.dedup();
            paths
        };
        let domains = match self.network.need {
            NetworkNeed::Any => vec!["*".to_owned()],
            NetworkNeed::None | NetworkNeed::Local | NetworkNeed::Hosts => {
                let hosts = self.network.hosts.iter();
                hosts.map(|host| host_text(&host.value)).collect()
            }
        };
        Explanation {
            version: EXPLAIN_VERSION,
            agent: self.agent.clone(),
            config_source: self.config_source.to_string(),
            tier: tier.to_owned(),
            network: ExplainedNetwork {
                need: self.network.need,
                domains,
                local_ports: self
                    .network
                    .local_ports
                    .iter()
                    .map(|port| port.value.get())
                    .collect(),
                mode: self.network.mode,
            },
            mounts: self
                .files
                .iter()
                .filter(|rule| rule.access <= FileAccess::Ro)
                .map(|rule| ExplainedMount {
                    path: rule.path.clone(),
                    mode: rule.access,
                    source: rule.source.to_string(),
                    reason: rule.reason.clone(),
                })
                .collect(),
            deny: of(FileAccess::Deny),
            deny_write: of(FileAccess::DenyWrite),
            drilled: additions(&self.drilled),
            derived: additions(&self.derived),
            suppressed: additions(&self.suppressed),
            trusted: self.trusted,
        }
    }
}

/// One difference between two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Which way it goes.
    pub effect: Effect,
    /// What changes, as a sentence without its stop.
    pub text: String,
}

/// Which way a change goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A session may do more.
    Widens,
    /// It does something else.
    Changes,
    /// It may do less.
    Narrows,
}

/// Says what a session under `new` may do other than under `old`: what it may do more first.
///
/// Rules are compared by what they mean, so that another order, or another text for the
/// same, is no change.
pub fn diff(old: &EffectivePolicy, new: &EffectivePolicy) -> Vec<Change> {
    let mut changes = Vec::new();
    diff_files(old, new, &mut changes);
    diff_network(old, new, &mut changes);
    diff_env(old, new, &mut changes);
    diff_resources(old, new, &mut changes);
    diff_words(old, new, &mut changes);
    changes.sort_by_key(|change| change.effect);
    changes
}

fn push(changes: &mut Vec<Change>, effect: Effect, text: String) {
    changes.push(Change { effect, text });
}

fn diff_files(old: &EffectivePolicy, new: &EffectivePolicy, changes: &mut Vec<Change>) {
    let mut named: Vec<&str> = [old, new]
        .iter()
        .flat_map(|policy| policy.files.iter().map(|rule| rule.path.as_str()))
        .collect();
    named.sort_unstable();
    named.dedup();
    let access = |rules: &[FileRule], path: &str| {
        paths::decide(rules, path).map_or(FileAccess::Deny, |(access, _)| access)
    };
    let verb = |access| match access {
        FileAccess::Rw => "read and written",
        FileAccess::Ro => "read",
        FileAccess::DenyWrite => "read and kept as it is",
        FileAccess::Deny => "denied",
    };
    let mut last: Option<(&str, FileAccess, FileAccess)> = None;
    for path in named {
        let (before, after) = (access(&old.files, path), access(&new.files, path));
        // What is only read is kept as it is anyway.
        let is_read = |access| matches!(access, FileAccess::Ro | FileAccess::DenyWrite);
        if before == after || is_read(before) && is_read(after) {
            continue;
        }
        // What changes in the same way as the path above it is said there.
        let is_said = last.is_some_and(|(above, from, to)| {
            paths::is_at_or_below(path, above) && (from, to) == (before, after)
        });
        if is_said {
            continue;
        }
        last = Some((path, before, after));
        let effect = match after < before {
            true => Effect::Widens,
            false => Effect::Narrows,
        };
        let text = format!("{path} is {} (was: {})", verb(after), verb(before));
        push(changes, effect, text);
    }
}

fn diff_network(old: &EffectivePolicy, new: &EffectivePolicy, changes: &mut Vec<Change>) {
    let is_covered = |policy: &EffectivePolicy, rule: &crate::HostRule| {
        policy
            .network
            .hosts
            .iter()
            .any(|host| host.value.intersection(rule).as_ref() == Some(rule))
    };
    let name = |rule: &crate::HostRule| match rule.is_any() {
        true => "every public host".to_owned(),
        false => host_text(rule),
    };
    for host in new
        .network
        .hosts
        .iter()
        .filter(|host| !is_covered(old, &host.value))
    {
        push(
            changes,
            Effect::Widens,
            format!("{} is reached", name(&host.value)),
        );
    }
    for host in old
        .network
        .hosts
        .iter()
        .filter(|host| !is_covered(new, &host.value))
    {
        push(
            changes,
            Effect::Narrows,
            format!("{} is not reached", name(&host.value)),
        );
    }
    let has = |policy: &EffectivePolicy, port| {
        policy
            .network
            .local_ports
            .iter()
            .any(|local| local.value == port)
    };
    for port in new
        .network
        .local_ports
        .iter()
        .filter(|port| !has(old, port.value))
    {
        push(
            changes,
            Effect::Widens,
            format!("port {} of this machine is reached", port.value),
        );
    }
    for port in old
        .network
        .local_ports
        .iter()
        .filter(|port| !has(new, port.value))
    {
        push(
            changes,
            Effect::Narrows,
            format!("port {} of this machine is not reached", port.value),
        );
    }
    match (old.network.mode, new.network.mode) {
        (NetworkMode::Enforce, NetworkMode::Observe) => push(
            changes,
            Effect::Widens,
            "connections to public hosts that no rule allows are let through and noted".to_owned(),
        ),
        (NetworkMode::Observe, NetworkMode::Enforce) => push(
            changes,
            Effect::Narrows,
            "connections that no rule allows are refused".to_owned(),
        ),
        (NetworkMode::Enforce, NetworkMode::Enforce)
        | (NetworkMode::Observe, NetworkMode::Observe) => {}
    }
}

fn diff_env(old: &EffectivePolicy, new: &EffectivePolicy, changes: &mut Vec<Change>) {
    match (old.env.all, new.env.all) {
        (false, true) => {
            push(
                changes,
                Effect::Widens,
                "all variables but secret ones are passed on".to_owned(),
            );
        }
        (true, false) => {
            push(
                changes,
                Effect::Narrows,
                "only named variables are passed on".to_owned(),
            );
        }
        (true, true) | (false, false) => {}
    }
    let passes = |policy: &EffectivePolicy, name: &str| {
        policy.env.pass.iter().any(|granted| granted.value == name)
            || policy.env.all && !crate::is_held_back(name)
    };
    for granted in new
        .env
        .pass
        .iter()
        .filter(|granted| !passes(old, &granted.value))
    {
        push(
            changes,
            Effect::Widens,
            format!("the variable {} is passed on", granted.value),
        );
    }
    for granted in old
        .env
        .pass
        .iter()
        .filter(|granted| !passes(new, &granted.value))
    {
        push(
            changes,
            Effect::Narrows,
            format!("the variable {} is not passed on", granted.value),
        );
    }
}

fn diff_resources(old: &EffectivePolicy, new: &EffectivePolicy, changes: &mut Vec<Change>) {
    fn limit<T: Ord + Copy>(
        changes: &mut Vec<Change>,
        what: &str,
        old: Option<T>,
        new: Option<T>,
        show: impl Fn(T) -> String,
    ) {
        let effect = match (old, new) {
            (Some(old), Some(new)) if new > old => Effect::Widens,
            (Some(old), Some(new)) if new < old => Effect::Narrows,
            (Some(_), None) => Effect::Widens,
            (None, Some(_)) => Effect::Narrows,
            (Some(_), Some(_)) | (None, None) => return,
        };
        let shown = |limit: Option<T>| limit.map_or("no limit".to_owned(), &show);
        push(
            changes,
            effect,
            format!("{what}: {} (was: {})", shown(new), shown(old)),
        );
    }
    let (old, new) = (&old.resources, &new.resources);
    let seconds = |time: std::time::Duration| format!("{} seconds", time.as_secs_f64());
    let number = |number: u32| number.to_string();
    limit(changes, "computing time", old.cpu, new.cpu, seconds);
    limit(changes, "memory", old.memory, new.memory, |bytes| {
        format!("{bytes} bytes")
    });
    limit(changes, "open files", old.max_fds, new.max_fds, number);
    limit(changes, "processes", old.max_pids, new.max_pids, number);
}

fn diff_words(old: &EffectivePolicy, new: &EffectivePolicy, changes: &mut Vec<Change>) {
    let flags = [
        (
            old.skip_permissions,
            new.skip_permissions,
            Effect::Widens,
            "the agent asks no questions",
            "the agent asks its questions",
        ),
        (
            old.audit,
            new.audit,
            Effect::Narrows,
            "the session is recorded",
            "the session is not recorded",
        ),
        (
            old.trace,
            new.trace,
            Effect::Changes,
            "system calls are logged",
            "system calls are not logged",
        ),
    ];
    for (before, after, effect, on, off) in flags {
        let opposite = match effect {
            Effect::Widens => Effect::Narrows,
            Effect::Changes => Effect::Changes,
            Effect::Narrows => Effect::Widens,
        };
        match (before, after) {
            (false, true) => push(changes, effect, on.to_owned()),
            (true, false) => push(changes, opposite, off.to_owned()),
            (true, true) | (false, false) => {}
        }
    }
    if old.shell != new.shell {
        let shell = new.shell.as_deref().unwrap_or("that of the user");
        push(changes, Effect::Changes, format!("the shell is {shell}"));
    }
    let agents = old.agent_settings.keys().chain(new.agent_settings.keys());
    let agents: std::collections::BTreeSet<&String> = agents.collect();
    for agent in agents {
        let (before, after) = (old.agent_settings.get(agent), new.agent_settings.get(agent));
        if before != after {
            let file = after.map_or("its own settings", String::as_str);
            push(
                changes,
                Effect::Changes,
                format!("{agent} starts with {file}"),
            );
        }
    }
}

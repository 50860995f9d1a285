//! What an agent's profile adds to a policy: holes for its own files, its variables, its
//! hosts, and its servers on the same machine.

use std::collections::BTreeMap;

use crate::agents::{AgentPath, AgentProfile};
use crate::effective::{FileAccess, FileRule, Granted, Source};
use crate::layers::{LayerError, Places};
use crate::net::{Host, HostRule, Port};
use crate::resolve::{Draft, Facts, Notes, addition, host_text, unsafe_root};
use crate::{PathKind, paths};

/// The variable that names a provider for whatever agent there is.
pub const PROVIDER_VARIABLE: &str = "WT_PROVIDER_BASE_URL";

/// The variable that names the socket of an agent for keys.
const SSH_AGENT: &str = "SSH_AUTH_SOCK";

/// Adds what the profile needs and gives the variables that it sets.
///
/// # Errors
/// The address of a provider is none.
pub(crate) fn drill(
    profile: &AgentProfile,
    facts: &Facts,
    places: &Places,
    draft: &mut Draft,
    notes: &mut Notes,
) -> Result<BTreeMap<String, String>, LayerError> {
    let source = Source::Agent {
        name: profile.name.to_string(),
    };
    for path in &profile.paths {
        add_path(path, facts, places, &source, draft, notes);
    }
    for name in &profile.environment.pass {
        if !draft
            .env
            .iter()
            .any(|granted| granted.value == name.as_str())
        {
            draft.env.push(Granted {
                value: name.to_string(),
                source: source.clone(),
            });
        }
        let reason = format!("{} reads it", profile.title);
        notes.drilled.push(addition("env", name, &source, reason));
    }
    let mut set = BTreeMap::new();
    for (name, value) in &profile.environment.set {
        set.insert(name.to_string(), value.clone());
        let reason = format!("{} is given {value:?} unless it is set", profile.title);
        notes.drilled.push(addition("env", name, &source, reason));
    }
    for port in &profile.network.local_ports {
        let port =
            Port::new(port.get()).expect("a port of a profile is not zero: its type says so");
        add_port(port, &source, draft);
        let reason = format!("the server of {} listens there", profile.title);
        notes
            .drilled
            .push(addition("local_port", port, &source, reason));
    }
    add_hosts(profile, facts, &source, draft, notes)?;
    Ok(set)
}

fn add_port(port: Port, source: &Source, draft: &mut Draft) {
    if !draft.ports.iter().any(|known| known.value == port) {
        draft.ports.push(Granted {
            value: port,
            source: source.clone(),
        });
    }
}

fn add_path(
    wanted: &AgentPath,
    facts: &Facts,
    places: &Places,
    source: &Source,
    draft: &mut Draft,
    notes: &mut Notes,
) {
    let usual = paths::join(&places.home, wanted.path.below_home());
    let moved = wanted
        .moved_by
        .as_ref()
        .and_then(|name| Some((name, facts.variable(name.as_str())?)));
    let (path, reason) = match moved {
        None => (usual, "it keeps its settings and state here".to_owned()),
        Some((name, value)) => {
            let sound = paths::normal(value).filter(|path| !paths::is_pattern(path));
            let Some(path) = sound else {
                let reason = format!("{name} is no absolute path without .. and *");
                notes.suppress("rw", value, source, reason);
                return;
            };
            (path, format!("{name} says that it keeps its settings here"))
        }
    };
    if let Some(reason) = unsafe_root(&path, places) {
        notes.suppress("rw", &path, source, reason);
        return;
    }
    let rule_path = match wanted.kind {
        PathKind::FileWithSiblings => format!("{path}*"),
        PathKind::Dir | PathKind::File => path,
    };
    if let Some(reason) = forbidden(&rule_path, places, draft) {
        notes.suppress("rw", &rule_path, source, reason);
        return;
    }
    draft.files.push(FileRule {
        access: FileAccess::Rw,
        path: rule_path.clone(),
        kind: Some(wanted.kind),
        source: source.clone(),
        reason: Some(reason.clone()),
    });
    notes
        .drilled
        .push(addition("rw", rule_path, source, reason));
}

/// Why an agent's hole cannot be here: somebody denied it, or made it read-only by name.
///
/// A denial of the whole home directory, or of what is above it, is a wish to show nothing
/// but holes, and an agent's is one.
fn forbidden(path: &str, places: &Places, draft: &Draft) -> Option<String> {
    let (access, rule) = draft.access(path);
    let rule = rule?;
    let is_jail = paths::is_at_or_below(&places.home, &rule.path);
    let is_forbidden = match access {
        FileAccess::Rw => false,
        FileAccess::Ro => rule.path == path && rule.source != Source::Default,
        FileAccess::DenyWrite | FileAccess::Deny => !is_jail,
    };
    is_forbidden.then(|| {
        format!(
            "{}:{} stands against it ({})",
            access.word(),
            rule.path,
            rule.source
        )
    })
}

/// Adds the agent's hosts, or those of the provider that its maker's variables name.
fn add_hosts(
    profile: &AgentProfile,
    facts: &Facts,
    source: &Source,
    draft: &mut Draft,
    notes: &mut Notes,
) -> Result<(), LayerError> {
    let providers = providers(profile, facts)?;
    let unwanted = draft.agent_domains.clone().filter(|merge| !merge.value);
    let why_not = match (&unwanted, providers.first()) {
        (Some(word), _) => Some(format!("agent_domains: none ({})", word.source)),
        (None, Some(provider)) if provider.replaces => Some(format!(
            "{} names a provider in its place",
            provider.variable
        )),
        (None, _) => None,
    };
    for domain in &profile.network.domains {
        let rule: HostRule = match domain.as_str().parse() {
            Ok(rule) => rule,
            Err(error) => {
                notes.suppress("domain", domain, source, error.to_string());
                continue;
            }
        };
        match &why_not {
            Some(reason) => notes.suppress("domain", domain, source, reason),
            None => {
                add_host(rule, source, draft);
                let reason = format!("{} talks to it", profile.title);
                notes
                    .drilled
                    .push(addition("domain", domain, source, reason));
            }
        }
    }
    for provider in providers {
        let reason = format!("{} names it", provider.variable);
        match provider.target {
            Target::Host(rule) => match &unwanted {
                Some(word) => {
                    let reason = format!("agent_domains: none ({})", word.source);
                    notes.suppress("domain", host_text(&rule), source, reason);
                }
                None => {
                    notes.derive("domain", host_text(&rule), source, reason);
                    add_host(rule, source, draft);
                }
            },
            Target::Local(port) => {
                let is_meant = draft.loopback.is_some()
                    || !profile.network.local_ports.is_empty()
                    || draft.ports.iter().any(|known| known.value == port);
                if is_meant {
                    notes.derive("local_port", port, source, reason);
                    add_port(port, source, draft);
                } else {
                    let reason = format!(
                        "{reason}, and no file says that servers of this machine may be used; \
                         write local_ports: [{port}], or localhost among the domains"
                    );
                    notes.suppress("local_port", port, source, reason);
                }
            }
        }
    }
    Ok(())
}

fn add_host(rule: HostRule, source: &Source, draft: &mut Draft) {
    if !draft.hosts.iter().any(|known| known.value == rule) {
        draft.hosts.push(Granted {
            value: rule,
            source: source.clone(),
        });
    }
}

/// A provider that a variable of the maker names.
struct Provider {
    variable: String,
    target: Target,
    /// Whether it stands in for the profile's hosts.
    replaces: bool,
}

enum Target {
    Host(HostRule),
    Local(Port),
}

fn providers(profile: &AgentProfile, facts: &Facts) -> Result<Vec<Provider>, LayerError> {
    let passed = || profile.environment.pass.iter().map(crate::EnvName::as_str);
    let mut names: Vec<&str> = passed()
        .filter(|name| name.ends_with("_BASE_URL"))
        .collect();
    // The variable for all agents says it for this one.
    if facts.variable(PROVIDER_VARIABLE).is_some() {
        names = vec![PROVIDER_VARIABLE];
    }
    names.extend(passed().filter(|name| name.ends_with("_HOST")));
    let usual = profile.network.local_ports.first().map(|port| port.get());
    let mut found = Vec::new();
    for name in names {
        let Some(value) = facts.variable(name) else {
            continue;
        };
        let is_url = !name.ends_with("_HOST");
        // The value may hold a password, so it is not shown.
        let target = target(value, is_url, usual).map_err(|problem| LayerError::Value {
            by: Box::new(Source::Option {
                name: name.to_owned(),
            }),
            problem,
        })?;
        found.push(Provider {
            variable: name.to_owned(),
            target,
            replaces: is_url,
        });
    }
    Ok(found)
}

/// The host and port of an address like `https://user@host:port/path`.
fn target(value: &str, is_url: bool, usual: Option<u16>) -> Result<Target, String> {
    let (scheme, rest) = match value.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None if is_url => {
            return Err("the address has no scheme; write https://HOST or http://HOST".to_owned());
        }
        None => (String::new(), value),
    };
    let usual = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        "" => usual.unwrap_or(443),
        _ => return Err("the address is not one of https:// or http://".to_owned()),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('\\') {
        return Err("the address has a \\, which programs read in different ways".to_owned());
    }
    let place = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (place, None),
    };
    let port: Port = match port {
        None | Some("") => Port::new(usual),
        Some(port) => Some(port.parse().map_err(|error| format!("{error}"))?),
    }
    .ok_or("the address has no port")?;
    // A server that listens everywhere is reached at the machine itself.
    let is_here = match Host::parse(host).map_err(|error| format!("the address: {error}"))? {
        Host::Name(name) => name.is_localhost(),
        Host::Address(address) => address.is_loopback() || address.is_unspecified(),
    };
    if is_here {
        return Ok(Target::Local(port));
    }
    format!("{host}:{port}")
        .parse()
        .map(Target::Host)
        .map_err(|error| format!("{error}"))
}

/// Opens or closes the socket of the maker's agent for keys.
///
/// It signs with keys that are denied, so that it is closed unless its variable is asked for
/// by name; `*` is not enough, save where the keys themselves are open.
pub(crate) fn ssh_agent(facts: &Facts, places: &Places, draft: &mut Draft, notes: &mut Notes) {
    let socket = facts.variable(SSH_AGENT).and_then(paths::normal);
    let Some(socket) = socket.filter(|path| {
        unsafe_root(path, places).is_none()
            && !paths::is_pattern(path)
            && !paths::is_at_or_below(&places.cwd, path)
    }) else {
        return;
    };
    let named = draft.env.iter().find(|granted| granted.value == SSH_AGENT);
    let keys = draft.access(&paths::join(&places.home, ".ssh")).0;
    let by_star = draft
        .env_all
        .clone()
        .filter(|_| keys < FileAccess::DenyWrite);
    let asked = named.map(|granted| granted.source.clone()).or(by_star);
    let (access, source, reason) = match asked {
        Some(source) if facts.shared => {
            let reason = "several people share this machine's user";
            notes.suppress("env", SSH_AGENT, &source, reason);
            draft.env.retain(|granted| granted.value != SSH_AGENT);
            (
                FileAccess::Deny,
                Source::Default,
                "it signs with keys that are denied",
            )
        }
        Some(source) => {
            let reason = "SSH_AUTH_SOCK is passed on: the session signs with the keys in it";
            notes.derive("rw", &socket, &source, reason);
            (
                FileAccess::Rw,
                source,
                "the socket of an agent for keys, asked for by name",
            )
        }
        None => (
            FileAccess::Deny,
            Source::Default,
            "it signs with keys that are denied",
        ),
    };
    draft.files.retain(|rule| rule.path != socket);
    draft.files.push(FileRule {
        access,
        path: socket,
        kind: Some(PathKind::File),
        source,
        reason: Some(reason.to_owned()),
    });
}

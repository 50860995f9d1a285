//! A person, her files, and what a session of hers may do.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;

use wt_policy::{
    AgentProfile, EffectivePolicy, Facts, FileAccess, Host, LayerError, Layers, NetworkPolicy,
    OptionLayer, Places, Platform, Port, Request,
};

pub(crate) const HOME: &str = "/home/ada";
pub(crate) const CWD: &str = "/home/ada/work/proj";
pub(crate) const PROFILE: &str = "/home/ada/.wingthing";

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) places: Places,
    pub(crate) named: Option<String>,
    pub(crate) trusted: bool,
    pub(crate) shared: bool,
    pub(crate) options: Vec<OptionLayer>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            files: BTreeMap::new(),
            env: Vec::new(),
            places: Places {
                home: HOME.to_owned(),
                cwd: CWD.to_owned(),
                profile: PROFILE.to_owned(),
            },
            named: None,
            trusted: false,
            shared: false,
            options: Vec::new(),
        }
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }

    pub(crate) fn user(self, text: &str) -> Self {
        self.file(&format!("{PROFILE}/egg.yaml"), text)
    }

    pub(crate) fn project(self, text: &str) -> Self {
        self.file(&format!("{CWD}/egg.yaml"), text)
    }

    pub(crate) fn base(self, name: &str, text: &str) -> Self {
        self.file(&format!("{PROFILE}/bases/{name}.yaml"), text)
    }

    pub(crate) fn var(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }

    pub(crate) fn cwd(mut self, cwd: &str) -> Self {
        self.places.cwd = cwd.to_owned();
        self
    }

    pub(crate) fn option(mut self, layer: OptionLayer) -> Self {
        self.options.push(layer);
        self
    }

    pub(crate) fn load(&self) -> Result<Layers, LayerError> {
        let files = |path: &str| Ok(self.files.get(path).cloned());
        wt_policy::load(&files, &self.places, self.named.as_deref())
    }

    pub(crate) fn try_resolve(&self, agent: Option<&str>) -> Result<EffectivePolicy, LayerError> {
        let facts = Facts {
            places: self.places.clone(),
            platform: Platform::Linux,
            env: self.env.clone(),
            shared: self.shared,
        };
        wt_policy::resolve(
            &self.load()?,
            &Request {
                facts: &facts,
                agent,
                profile: agent.and_then(AgentProfile::find),
                trusted: self.trusted,
                options: &self.options,
            },
        )
    }

    #[track_caller]
    pub(crate) fn resolve(&self) -> EffectivePolicy {
        self.try_resolve(None)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    pub(crate) fn agent(&self, name: &str) -> EffectivePolicy {
        self.try_resolve(Some(name))
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

pub(crate) fn access(policy: &EffectivePolicy, path: &str) -> FileAccess {
    policy.access(path).0
}

/// Whether a rule or the whole allows a host, at the usual port.
pub(crate) fn reaches(network: &NetworkPolicy, destination: &str) -> bool {
    let (host, port) = destination.rsplit_once(':').unwrap_or((destination, "443"));
    let destination = wt_policy::Destination {
        host: Host::parse(host).unwrap(),
        port: port.parse::<Port>().unwrap(),
    };
    network.decide(&destination).is_allowed()
}

pub(crate) fn domains(policy: &EffectivePolicy) -> Vec<String> {
    policy.explain("x").network.domains
}

pub(crate) fn ports(policy: &EffectivePolicy) -> Vec<u16> {
    policy.explain("x").network.local_ports
}

/// What is suppressed, as `kind value`.
pub(crate) fn suppressed(policy: &EffectivePolicy) -> Vec<String> {
    let notes = policy.suppressed.iter();
    notes
        .map(|note| format!("{} {}", note.kind, note.value))
        .collect()
}

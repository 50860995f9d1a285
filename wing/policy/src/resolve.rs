//! Puts layers together into the policy of one session.
//!
//! The order is: built-in default, user, project, command line, and then what the agent's
//! profile needs, where no file forbids it. Each layer adds to the one below it. The layer of
//! a project that is not trusted is put together in the same way, and what comes out is
//! reduced to what is allowed without it as well ([`narrow`]): so it can take away in every
//! way in which a trusted file can, and give in none.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{AgentDomainsWord, EggConfig, EnvEntry, HostEntry, Located, NetworkField};
use crate::defaults::{self, Place};
use crate::effective::{
    Addition, EffectivePolicy, EnvPolicy, FileAccess, FileRule, Granted, NetworkMode, NetworkNeed,
    NetworkPolicy, Resources, Source,
};
use crate::environment::is_held_back;
use crate::layers::{
    ConfigFile, EGG_FILE, LayerError, Layers, OptionLayer, Origin, Parent, Places, Section,
};
use crate::net::{HostRule, Port};
use crate::{AgentProfile, PathKind, drill, paths};

/// How many entries of one kind a policy may have. Each path is compared with each rule, so
/// that much more would cost a session its quick start.
pub const MAX_RULES: usize = 2048;

/// Why what an untrusted project asks for is left out.
const UNTRUSTED: &str =
    "the project's file is not trusted: read it and run `wt egg trust` to allow it";

/// The system that a session runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
}

/// What a policy depends on besides its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where the session starts and where its files are.
    pub places: Places,
    /// The system.
    pub platform: Platform,
    /// The variables of whoever makes the session.
    pub env: Vec<(String, String)>,
    /// Whether several people share this machine's user: then no agent for keys is passed on.
    pub shared: bool,
}

impl Facts {
    /// The maker's value of a variable, unless it is empty. Of a name that stands there twice
    /// the first counts, as it does for the C library.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.env.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

/// What a policy is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What it depends on.
    pub facts: &'a Facts,
    /// The name of the agent; `None` for a shell or a command.
    pub agent: Option<&'a str>,
    /// The agent's profile. An agent without one is given nothing of its own.
    pub profile: Option<&'a AgentProfile>,
    /// Whether the project's files, as they were read, are trusted.
    pub trusted: bool,
    /// Options of the command line, the strongest last.
    pub options: &'a [OptionLayer],
}

/// Makes the policy of a session from the files that take part.
///
/// # Errors
/// A path that cannot be, an address of a provider that is none, or more entries than a
/// policy may have.
pub fn resolve(layers: &Layers, request: &Request<'_>) -> Result<EffectivePolicy, LayerError> {
    let places = request.facts.places.checked()?;
    let resolver = Resolver {
        places: &places,
        default: Draft::built_in(request.facts, &places),
    };
    let mut notes = Notes::default();
    let mut draft = resolver.default.clone();
    let mut config_source = Source::Default;
    if let Some(user) = &layers.user {
        draft = resolver.file(user, &resolver.default, &mut notes)?;
        config_source = source(user.origin, &user.path, None);
    }
    resolver.protect(&mut draft)?;
    let mut without = None;
    if let Some(project) = &layers.project {
        let mut candidate = resolver.file(project, &draft, &mut notes)?;
        if request.trusted {
            resolver.protect(&mut candidate)?;
            draft = candidate;
        } else {
            // What is not writable below stays so, and needs no protection.
            candidate.files.retain(|rule| {
                rule.access != FileAccess::Rw
                    || draft.access(&rule.path).0 == FileAccess::Rw
                    || !resolver.is_root(rule)
                    || {
                        notes.suppress("rw", &rule.path, &rule.source, UNTRUSTED);
                        false
                    }
            });
            resolver.protect(&mut candidate)?;
            let narrowed = narrow(&draft, candidate, project, &mut notes);
            without = Some(std::mem::replace(&mut draft, narrowed));
        }
        config_source = source(project.origin, &project.path, None);
    }
    let (mut draft, set) = resolver.upper(draft, request, &mut notes)?;
    if let Some(without) = without {
        // What an agent's profile and the options open depends on the rules below them, so
        // that the comparison is made once more with all of them.
        let (without, _) = resolver.upper(without, request, &mut Notes::default())?;
        draft.files = narrow_files(&without, &draft);
        notes.take_back_holes(&draft);
    }
    notes.control_ports(&draft);
    Ok(draft.finish(request, config_source, set, notes))
}

/// A source for a file's values.
fn source(origin: Origin, path: &str, line: Option<u64>) -> Source {
    let path = path.to_owned();
    match origin {
        Origin::User => Source::User { path, line },
        Origin::Named => Source::Named { path, line },
        Origin::Project => Source::Project { path, line },
        Origin::Base => Source::Base { path, line },
    }
}

/// What was added or left out on the way.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) drilled: Vec<Addition>,
    pub(crate) derived: Vec<Addition>,
    pub(crate) suppressed: Vec<Addition>,
}

pub(crate) fn addition(
    kind: &str,
    value: impl ToString,
    source: &Source,
    reason: impl Into<String>,
) -> Addition {
    Addition {
        kind: kind.to_owned(),
        value: value.to_string(),
        source: source.clone(),
        reason: reason.into(),
    }
}

impl Notes {
    pub(crate) fn suppress(
        &mut self,
        kind: &str,
        value: impl ToString,
        source: &Source,
        reason: impl Into<String>,
    ) {
        let note = addition(kind, value, source, reason);
        // The same file may take part twice, as a base and as a section.
        if !self.suppressed.contains(&note) {
            self.suppressed.push(note);
        }
    }

    pub(crate) fn derive(
        &mut self,
        kind: &str,
        value: impl ToString,
        source: &Source,
        reason: impl Into<String>,
    ) {
        let note = addition(kind, value, source, reason);
        if !self.derived.contains(&note) {
            self.derived.push(note);
        }
    }

    /// Moves holes of an agent that are not there after all to what is left out.
    fn take_back_holes(&mut self, draft: &Draft) {
        let (kept, lost): (Vec<_>, Vec<_>) = self
            .drilled
            .drain(..)
            .partition(|note| note.kind != "rw" || draft.access(&note.value).0 == FileAccess::Rw);
        self.drilled = kept;
        for note in lost {
            self.suppress("rw", note.value, &note.source, UNTRUSTED);
        }
    }

    /// Says of dangerous ports what they are.
    fn control_ports(&mut self, draft: &Draft) {
        for port in &draft.ports {
            let known = defaults::CONTROL_PORTS
                .iter()
                .find(|(number, _)| *number == port.value.get());
            if let Some((_, danger)) = known {
                self.derive("local_port", port.value, &port.source, *danger);
            }
        }
    }
}

/// A policy on its way: every value with its source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) files: Vec<FileRule>,
    pub(crate) hosts: Vec<Granted<HostRule>>,
    pub(crate) ports: Vec<Granted<Port>>,
    /// That servers beside the session are meant to be used, and who says so.
    pub(crate) loopback: Option<Source>,
    pub(crate) mode: Option<Granted<NetworkMode>>,
    /// Whether the agent's hosts are added.
    pub(crate) agent_domains: Option<Granted<bool>>,
    pub(crate) env_all: Option<Source>,
    pub(crate) env: Vec<Granted<String>>,
    resources: Limits,
    shell: Option<Granted<String>>,
    skip_permissions: Option<Source>,
    audit: Option<Source>,
    trace: Option<Source>,
    agent_settings: BTreeMap<String, Granted<String>>,
}

#[derive(Clone, Debug, Default)]
struct Limits {
    cpu: Option<Granted<std::time::Duration>>,
    memory: Option<Granted<u64>>,
    max_fds: Option<Granted<u32>>,
    max_pids: Option<Granted<u32>>,
}

impl Draft {
    /// The built-in default.
    fn built_in(facts: &Facts, places: &Places) -> Self {
        let mut files = Vec::new();
        let mut add = |access, path: String, kind, reason: &str| {
            files.push(FileRule {
                access,
                path,
                kind,
                source: Source::Default,
                reason: Some(reason.to_owned()),
            });
        };
        add(
            FileAccess::Ro,
            "/".to_owned(),
            Some(PathKind::Dir),
            "what nothing else is said about is read",
        );
        if unsafe_root(&places.cwd, places).is_none() {
            add(
                FileAccess::Rw,
                places.cwd.clone(),
                Some(PathKind::Dir),
                "the session works here",
            );
        }
        let at_home = |path: &str| match path.starts_with('/') {
            true => path.to_owned(),
            false => paths::join(&places.home, path),
        };
        let mut add_all = |access, list: &[Place]| {
            for place in list {
                add(access, at_home(place.path), place.kind, place.reason);
            }
        };
        add_all(FileAccess::Rw, defaults::CACHES);
        if facts.platform == Platform::MacOs {
            add_all(FileAccess::Rw, defaults::CACHES_MACOS);
        }
        add_all(FileAccess::Deny, defaults::DENIED);
        add_all(FileAccess::Ro, defaults::READABLE);
        let mut add_moved = |access, (variable, usual, list): &(&str, &str, &[Place])| {
            // The usual place stays one: programs that do not know the variable use it.
            let moved = facts.variable(variable).and_then(paths::normal);
            for folder in [Some(at_home(usual)), moved].into_iter().flatten() {
                for place in *list {
                    let path = match place.path {
                        "" => folder.clone(),
                        below => paths::join(&folder, below),
                    };
                    let is_safe =
                        access == FileAccess::Deny || unsafe_root(&path, places).is_none();
                    if is_safe {
                        add(access, path, place.kind, place.reason);
                    }
                }
            }
        };
        for moved in defaults::MOVED_CACHES {
            add_moved(FileAccess::Rw, moved);
        }
        for moved in defaults::MOVED_SECRETS {
            add_moved(FileAccess::Deny, moved);
        }
        for name in defaults::SECRET_PATH_VARIABLES {
            let value = facts.variable(name).unwrap_or_default();
            // KUBECONFIG is a list.
            for path in value.split(':').filter_map(paths::normal) {
                if unsafe_root(&path, places).is_none()
                    && !paths::is_at_or_below(&places.cwd, &path)
                    && !paths::is_pattern(&path)
                {
                    add(FileAccess::Deny, path, None, &format!("{name} points here"));
                }
            }
        }
        let mut draft = Self {
            files,
            ..Self::default()
        };
        draft.dedup_files();
        // A cache that a variable moves into a denied place does not open it.
        let open: Vec<FileRule> = draft
            .files
            .iter()
            .filter(|rule| !(rule.access == FileAccess::Rw && draft.is_below_deny(&rule.path)))
            .cloned()
            .collect();
        draft.files = open;
        draft
    }

    /// Whether a rule that is less specific denies the path.
    fn is_below_deny(&self, path: &str) -> bool {
        self.files.iter().any(|rule| {
            rule.access == FileAccess::Deny && rule.path != path && paths::covers(&rule.path, path)
        })
    }

    /// What stands where nothing is said at all: the empty slate of `base: none`.
    fn nothing() -> Self {
        let root = FileRule {
            access: FileAccess::Ro,
            path: "/".to_owned(),
            kind: Some(PathKind::Dir),
            source: Source::Default,
            reason: Some("what nothing else is said about is read".to_owned()),
        };
        Self {
            files: vec![root],
            ..Self::default()
        }
    }

    pub(crate) fn access(&self, path: &str) -> (FileAccess, Option<&FileRule>) {
        paths::decide(&self.files, path).map_or((FileAccess::Deny, None), |(access, rule)| {
            (access, Some(rule))
        })
    }

    /// Keeps the first of rules that say the same at the same path.
    fn dedup_files(&mut self) {
        let mut seen = BTreeSet::new();
        self.files
            .retain(|rule| seen.insert((rule.access, rule.path.clone())));
    }

    pub(crate) fn need(&self) -> NetworkNeed {
        if self.hosts.iter().any(|host| host.value.is_any()) {
            NetworkNeed::Any
        } else if !self.hosts.is_empty() {
            NetworkNeed::Hosts
        } else if !self.ports.is_empty() {
            NetworkNeed::Local
        } else {
            NetworkNeed::None
        }
    }

    fn grants_variable(&self, name: &str) -> bool {
        self.env.iter().any(|granted| granted.value == name)
            || self.env_all.is_some() && !is_held_back(name)
    }

    fn check_size(&self) -> Result<(), LayerError> {
        let sizes = [
            ("fs", self.files.len()),
            ("network", self.hosts.len() + self.ports.len()),
            ("env", self.env.len()),
        ];
        match sizes.into_iter().find(|(_, size)| *size > MAX_RULES) {
            None => Ok(()),
            Some((what, _)) => Err(LayerError::TooMany {
                what,
                most: MAX_RULES,
            }),
        }
    }

    fn finish(
        self,
        request: &Request<'_>,
        config_source: Source,
        set: BTreeMap<String, String>,
        notes: Notes,
    ) -> EffectivePolicy {
        let need = self.need();
        let Limits {
            cpu,
            memory,
            max_fds,
            max_pids,
        } = self.resources;
        EffectivePolicy {
            agent: request.agent.map(str::to_owned),
            // Where there is nothing to distrust, the user's word holds.
            trusted: request.trusted || !matches!(config_source, Source::Project { .. }),
            config_source,
            files: self.files,
            network: NetworkPolicy {
                need,
                hosts: self.hosts,
                local_ports: self.ports,
                mode: self.mode.map_or(NetworkMode::Enforce, |mode| mode.value),
            },
            env: EnvPolicy {
                all: self.env_all.is_some(),
                pass: self.env,
                set,
            },
            resources: Resources {
                cpu: cpu.map(|limit| limit.value),
                memory: memory.map(|limit| limit.value),
                max_fds: max_fds.map(|limit| limit.value),
                max_pids: max_pids.map(|limit| limit.value),
            },
            shell: self.shell.map(|shell| shell.value),
            skip_permissions: self.skip_permissions.is_some(),
            audit: self.audit.is_some(),
            trace: self.trace.is_some(),
            agent_settings: self
                .agent_settings
                .into_iter()
                .map(|(agent, path)| (agent, path.value))
                .collect(),
            drilled: notes.drilled,
            derived: notes.derived,
            suppressed: notes.suppressed,
        }
    }
}

/// Why a directory must not be writable as a whole, if it must not.
///
/// These hold what runs outside of the session later, or what guards it.
pub fn unsafe_root(path: &str, places: &Places) -> Option<&'static str> {
    /// Directories of the system. What lies in `/usr/local` or `/opt` may be opened by name.
    const OF_SYSTEM: &[&str] = &[
        "/home",
        "/root",
        "/etc",
        "/usr",
        "/usr/bin",
        "/usr/lib",
        "/usr/sbin",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/boot",
        "/dev",
        "/proc",
        "/sys",
        "/run",
        "/var",
        "/var/lib",
        "/var/run",
        "/opt",
        "/nix",
        "/snap",
        "/mnt",
        "/media",
        "/srv",
        "/Users",
        "/System",
        "/Library",
        "/Applications",
        "/private",
        "/Volumes",
    ];
    if is_temporary(path) {
        return Some("every session has temporary files of its own there");
    }
    if path == places.home {
        return Some("it is the home directory, where shells and programs start from");
    }
    if paths::is_at_or_below(&places.profile, path) {
        return Some("wingthing's own files are in it");
    }
    if paths::is_at_or_below(&places.home, path) {
        return Some("the home directory is in it");
    }
    // A folder of devices or of the kernel is never a place for work.
    let is_kernel = ["/dev", "/proc", "/sys"]
        .iter()
        .any(|top| paths::is_at_or_below(path, top));
    (is_kernel || OF_SYSTEM.contains(&path)).then_some("it is a directory of the system")
}

fn is_temporary(path: &str) -> bool {
    [
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "/private/tmp",
        "/private/var/tmp",
    ]
    .contains(&path)
}

/// How many folders of projects may be writable. Each has its own protected files, and each
/// of those costs a session a little at its start.
const MAX_ROOTS: usize = 64;

/// Puts files together for one session.
struct Resolver<'a> {
    places: &'a Places,
    default: Draft,
}

impl Resolver<'_> {
    /// Puts on top what comes after all files: options, the agent for keys, the agent's
    /// profile, and what nothing can lift. Gives the variables that the profile sets as well.
    fn upper(
        &self,
        mut draft: Draft,
        request: &Request<'_>,
        notes: &mut Notes,
    ) -> Result<(Draft, BTreeMap<String, String>), LayerError> {
        for layer in request.options {
            let by = |_: Option<u64>| Source::Option {
                name: layer.name.clone(),
            };
            let own = self.own(&layer.config, &by, notes)?;
            draft = merge(draft, own)?;
        }
        self.protect(&mut draft)?;
        self.jail(&mut draft, notes);
        drill::ssh_agent(request.facts, self.places, &mut draft, notes);
        let set = match request.profile {
            None => BTreeMap::new(),
            Some(profile) => drill::drill(profile, request.facts, self.places, &mut draft, notes)?,
        };
        self.core(&mut draft, notes);
        Ok((draft, set))
    }

    /// Whether a rule opens a folder for work: by somebody's word, or as the place where the
    /// session starts.
    fn is_root(&self, rule: &FileRule) -> bool {
        let is_project = match &rule.source {
            Source::Default => rule.path == self.places.cwd,
            Source::Core | Source::Agent { .. } => false,
            Source::Base { .. }
            | Source::User { .. }
            | Source::Project { .. }
            | Source::Named { .. }
            | Source::Option { .. } => true,
        };
        is_project && rule.access == FileAccess::Rw && !paths::is_pattern(&rule.path)
    }

    /// What a file says together with what it builds on.
    fn file(
        &self,
        file: &ConfigFile,
        below: &Draft,
        notes: &mut Notes,
    ) -> Result<Draft, LayerError> {
        let mut parent = match &file.parent {
            Parent::Below => below.clone(),
            Parent::Nothing => Draft::nothing(),
            Parent::File(base) => self.file(base, &self.default, notes)?,
        };
        let section = |section: &Section, notes: &mut Notes| match section {
            Section::Nothing => Ok(Draft::nothing()),
            Section::File(base) => self.file(base, &self.default, notes),
        };
        if let Some(fs) = &file.fs {
            parent.files = section(fs, notes)?.files;
        }
        if let Some(network) = &file.network {
            let from = section(network, notes)?;
            parent.hosts = from.hosts;
            parent.ports = from.ports;
            parent.loopback = from.loopback;
            parent.mode = from.mode;
            parent.agent_domains = from.agent_domains;
        }
        if let Some(env) = &file.env {
            let from = section(env, notes)?;
            parent.env_all = from.env_all;
            parent.env = from.env;
        }
        let by = |line| source(file.origin, &file.path, line);
        if let Some(NetworkField::Scalar(entry)) = &file.config.network
            && entry.value == HostEntry::Nothing
            && !parent.hosts.is_empty()
        {
            let reason = "it adds nothing, and takes nothing away; write base: {network: none} \
                          for that";
            notes.suppress("domain", "none", &by(entry.line), reason);
        }
        let own = self.own(&file.config, &by, notes)?;
        merge(parent, own)
    }

    /// What a file itself says.
    fn own(
        &self,
        config: &EggConfig,
        by: &dyn Fn(Option<u64>) -> Source,
        notes: &mut Notes,
    ) -> Result<Draft, LayerError> {
        let mut draft = Draft::default();
        for entry in config.fs.iter().flatten() {
            let source = by(entry.line);
            let path = self.expand(&entry.value.path, &source)?;
            let mut access = entry.value.access;
            if let Some(reason) = unsafe_root(&path, self.places)
                && access == FileAccess::Rw
            {
                notes.suppress("rw", &path, &source, reason);
                if is_temporary(&path) {
                    continue;
                }
                access = FileAccess::Ro;
            }
            draft.files.push(FileRule {
                access,
                path,
                kind: None,
                source,
                reason: None,
            });
        }
        if let Some(network) = &config.network {
            own_network(network, by, &mut draft, notes);
        }
        for entry in config.env.iter().flat_map(|env| env.entries()) {
            match &entry.value {
                EnvEntry::All => draft.env_all = Some(by(entry.line)),
                EnvEntry::Name(name) => draft.env.push(Granted {
                    value: name.to_string(),
                    source: by(entry.line),
                }),
            }
        }
        let flag = |flag: &Option<Located<bool>>| {
            flag.as_ref()
                .filter(|flag| flag.value)
                .map(|flag| by(flag.line))
        };
        draft.skip_permissions = flag(&config.dangerously_skip_permissions);
        draft.audit = flag(&config.audit);
        draft.trace = flag(&config.trace);
        draft.resources = Limits {
            cpu: config.resources.cpu.as_ref().map(|limit| Granted {
                value: limit.value.0,
                source: by(limit.line),
            }),
            memory: config.resources.memory.as_ref().map(|limit| Granted {
                value: limit.value.0,
                source: by(limit.line),
            }),
            max_fds: config
                .resources
                .max_fds
                .as_ref()
                .map(|limit| granted(limit, by)),
            max_pids: config
                .resources
                .max_pids
                .as_ref()
                .map(|limit| granted(limit, by)),
        };
        if let Some(shell) = &config.shell {
            let source = by(shell.line);
            let value = match shell.value.contains(['/', '~', '$']) {
                true => self.expand(&shell.value, &source)?,
                false => shell.value.clone(),
            };
            draft.shell = Some(Granted { value, source });
        }
        for (agent, path) in &config.agent_settings {
            let source = by(path.line);
            let value = self.expand(&path.value, &source)?;
            draft
                .agent_settings
                .insert(agent.clone(), Granted { value, source });
        }
        Ok(draft)
    }

    /// The absolute path that a written one means in this session.
    fn expand(&self, path: &str, by: &Source) -> Result<String, LayerError> {
        let below = |top: &str, rest: &str| match rest.trim_start_matches('/') {
            "" => top.to_owned(),
            rest => paths::join(top, rest),
        };
        let absolute = if let Some(rest) = path.strip_prefix('~') {
            below(&self.places.home, rest)
        } else if let Some(rest) = path.strip_prefix("$CWD") {
            below(&self.places.cwd, rest)
        } else if let Some(rest) = path.strip_prefix('.') {
            below(&self.places.cwd, rest)
        } else {
            path.to_owned()
        };
        paths::normal(&absolute).ok_or_else(|| LayerError::Value {
            by: Box::new(by.clone()),
            problem: format!("{absolute:?} is no path that a rule can have; make it shorter"),
        })
    }

    /// Keeps what programs outside obey as it is, wherever a rule that somebody wrote makes
    /// what is around it writable. Who wants it open writes `rw:` and its path.
    fn protect(&self, draft: &mut Draft) -> Result<(), LayerError> {
        let roots: BTreeSet<String> = draft
            .files
            .iter()
            .filter(|rule| self.is_root(rule))
            .map(|rule| rule.path.clone())
            .collect();
        if roots.len() > MAX_ROOTS {
            return Err(LayerError::TooMany {
                what: "writable folders",
                most: MAX_ROOTS,
            });
        }
        let in_roots = roots.iter().flat_map(|root| {
            defaults::PROTECTED
                .iter()
                .map(move |place| (paths::join(root, place.path), place))
        });
        let at_home = defaults::PROTECTED_HOME
            .iter()
            .map(|place| (paths::join(&self.places.home, place.path), place));
        let mut added = Vec::new();
        let known: BTreeSet<&str> = draft.files.iter().map(|rule| rule.path.as_str()).collect();
        for (path, place) in in_roots.chain(at_home) {
            // What a rule names is as that rule says.
            let is_said = known.contains(path.as_str());
            if !is_said && draft.access(&path).0 == FileAccess::Rw {
                added.push(FileRule {
                    access: FileAccess::DenyWrite,
                    path,
                    kind: place.kind,
                    source: Source::Default,
                    reason: Some(place.reason.to_owned()),
                });
            }
        }
        draft.files.extend(added);
        draft.dedup_files();
        Ok(())
    }

    /// Where the root is denied, keeps what no program starts without.
    fn jail(&self, draft: &mut Draft, notes: &mut Notes) {
        let Some(deny) = draft
            .files
            .iter()
            .find(|rule| rule.access == FileAccess::Deny && rule.path == "/")
            .cloned()
        else {
            return;
        };
        for place in defaults::RUNTIME {
            if draft
                .access(place.path)
                .1
                .is_some_and(|rule| rule.path == "/")
            {
                draft.files.push(FileRule {
                    access: FileAccess::Ro,
                    path: place.path.to_owned(),
                    kind: place.kind,
                    source: deny.source.clone(),
                    reason: Some(place.reason.to_owned()),
                });
                let reason = format!("no program starts without it: {}", place.reason);
                notes.derive("ro", place.path, &deny.source, reason);
            }
        }
    }

    /// Adds what nothing can lift, and takes out what would.
    fn core(&self, draft: &mut Draft, notes: &mut Notes) {
        let denied = [
            (self.places.profile.clone(), "wingthing's own files"),
            (
                paths::join(&self.places.home, ".wingthing*"),
                "wingthing's own files",
            ),
        ];
        let egg_file = paths::join(&self.places.cwd, EGG_FILE);
        let (kept, lifting): (Vec<_>, Vec<_>) = draft.files.drain(..).partition(|rule| {
            let in_denied = denied.iter().any(|(top, _)| paths::covers(top, &rule.path));
            let of_egg =
                paths::is_at_or_below(&rule.path, &egg_file) && rule.access < FileAccess::DenyWrite;
            !(in_denied && rule.access < FileAccess::Deny || of_egg)
        });
        draft.files = kept;
        // What was itself a restriction is only made stronger, which needs no saying.
        for rule in lifting.iter().filter(|rule| rule.access <= FileAccess::Ro) {
            let reason = "nothing opens wingthing's own files or what says what a session may do";
            notes.suppress(rule.access.word(), &rule.path, &rule.source, reason);
        }
        for (path, reason) in denied {
            draft.files.push(FileRule {
                access: FileAccess::Deny,
                path,
                kind: Some(PathKind::Dir),
                source: Source::Core,
                reason: Some(reason.to_owned()),
            });
        }
        draft.files.push(FileRule {
            access: FileAccess::DenyWrite,
            path: egg_file,
            kind: Some(PathKind::File),
            source: Source::Core,
            reason: Some("it says what a session may do".to_owned()),
        });
        if let Some(reason) = unsafe_root(&self.places.cwd, self.places) {
            let reason = format!("{reason}; start elsewhere, or name a directory with --cwd");
            notes.suppress("rw", &self.places.cwd, &Source::Default, reason);
        }
    }
}

fn granted<T: Clone>(value: &Located<T>, by: &dyn Fn(Option<u64>) -> Source) -> Granted<T> {
    Granted {
        value: value.value.clone(),
        source: by(value.line),
    }
}

fn every_host() -> HostRule {
    "*".parse()
        .expect("a star alone is a rule: the parser of rules says so")
}

fn own_network(
    network: &NetworkField,
    by: &dyn Fn(Option<u64>) -> Source,
    draft: &mut Draft,
    notes: &mut Notes,
) {
    for entry in network.hosts() {
        let source = by(entry.line);
        match &entry.value {
            HostEntry::Nothing => {}
            HostEntry::Any => draft.hosts.push(Granted {
                value: every_host(),
                source,
            }),
            HostEntry::Rule { rule, .. } => draft.hosts.push(Granted {
                value: rule.clone(),
                source,
            }),
            HostEntry::Loopback { port, .. } => {
                if let Some(port) = port {
                    let reason = format!("{} names it", entry.value);
                    notes.derive("local_port", port, &source, reason);
                    draft.ports.push(Granted {
                        value: *port,
                        source: source.clone(),
                    });
                }
                draft.loopback.get_or_insert(source);
            }
        }
    }
    let Some(map) = network.map() else {
        return;
    };
    let ports = map.local_ports.iter().flatten();
    draft.ports.extend(ports.map(|port| granted(port, by)));
    draft.mode = map.mode.as_ref().and_then(|mode| {
        Some(Granted {
            value: mode.value.mode()?,
            source: by(mode.line),
        })
    });
    draft.agent_domains = map.agent_domains.as_ref().and_then(|word| {
        let value = match word.value {
            AgentDomainsWord::Unsaid => return None,
            AgentDomainsWord::Merge => true,
            AgentDomainsWord::Nothing => false,
        };
        Some(Granted {
            value,
            source: by(word.line),
        })
    });
}

/// Puts a child on its parent.
///
/// Rules for files are appended, and a child's `rw` or `ro` takes away the parent's denial of
/// the very same path (`rw` also takes away built-in protection). Hosts, ports and variables
/// are united. Of limits and words the child's count where it has them. Flags stay on.
fn merge(parent: Draft, child: Draft) -> Result<Draft, LayerError> {
    let opened: BTreeMap<&str, FileAccess> = child
        .files
        .iter()
        .filter(|rule| rule.access <= FileAccess::Ro)
        .map(|rule| (rule.path.as_str(), rule.access))
        .collect();
    let is_lifted = |rule: &FileRule| match opened.get(rule.path.as_str()) {
        None => false,
        Some(_) if rule.access == FileAccess::Deny => true,
        Some(by) => {
            *by == FileAccess::Rw
                && rule.access == FileAccess::DenyWrite
                && rule.source == Source::Default
        }
    };
    let mut files = parent.files;
    files.retain(|rule| !is_lifted(rule));
    files.extend(child.files);
    let mut settings = parent.agent_settings;
    settings.extend(child.agent_settings);
    let mut draft = Draft {
        files,
        hosts: united(parent.hosts, child.hosts),
        ports: united(parent.ports, child.ports),
        loopback: parent.loopback.or(child.loopback),
        mode: child.mode.or(parent.mode),
        agent_domains: child.agent_domains.or(parent.agent_domains),
        env_all: parent.env_all.or(child.env_all),
        env: united(parent.env, child.env),
        resources: Limits {
            cpu: child.resources.cpu.or(parent.resources.cpu),
            memory: child.resources.memory.or(parent.resources.memory),
            max_fds: child.resources.max_fds.or(parent.resources.max_fds),
            max_pids: child.resources.max_pids.or(parent.resources.max_pids),
        },
        shell: child.shell.or(parent.shell),
        skip_permissions: parent.skip_permissions.or(child.skip_permissions),
        audit: parent.audit.or(child.audit),
        trace: parent.trace.or(child.trace),
        agent_settings: settings,
    };
    draft.dedup_files();
    draft.check_size()?;
    Ok(draft)
}

/// The values of both, each once, with the source that names it first.
fn united<T: Clone + Ord>(parent: Vec<Granted<T>>, child: Vec<Granted<T>>) -> Vec<Granted<T>> {
    let mut seen = BTreeSet::new();
    parent
        .into_iter()
        .chain(child)
        .filter(|granted| seen.insert(granted.value.clone()))
        .collect()
}

/// Reduces what comes out of an untrusted project's file to what is allowed without it.
///
/// For each path, host, port, variable and limit the stricter of the two counts. What the
/// project asked for beyond that is noted.
fn narrow(below: &Draft, candidate: Draft, project: &ConfigFile, notes: &mut Notes) -> Draft {
    let files = narrow_files(below, &candidate);
    let hosts = narrow_hosts(&below.hosts, &candidate.hosts);
    let in_below = |port: &Granted<Port>| below.ports.iter().any(|own| own.value == port.value);
    let ports: Vec<Granted<Port>> = candidate
        .ports
        .iter()
        .filter(|p| in_below(p))
        .cloned()
        .collect();
    let draft = Draft {
        files,
        hosts,
        ports,
        loopback: below
            .loopback
            .clone()
            .filter(|_| candidate.loopback.is_some()),
        mode: stricter(
            &below.mode,
            &candidate.mode,
            |mode| match mode {
                NetworkMode::Observe => 0,
                NetworkMode::Enforce => 1,
            },
            1,
        ),
        agent_domains: stricter(
            &below.agent_domains,
            &candidate.agent_domains,
            |merge| i32::from(!merge),
            0,
        ),
        env_all: below
            .env_all
            .clone()
            .filter(|_| candidate.env_all.is_some()),
        env: narrow_env(below, &candidate),
        resources: Limits {
            cpu: least(&below.resources.cpu, &candidate.resources.cpu),
            memory: least(&below.resources.memory, &candidate.resources.memory),
            max_fds: least(&below.resources.max_fds, &candidate.resources.max_fds),
            max_pids: least(&below.resources.max_pids, &candidate.resources.max_pids),
        },
        shell: below.shell.clone(),
        skip_permissions: below
            .skip_permissions
            .clone()
            .filter(|_| candidate.skip_permissions.is_some()),
        audit: below.audit.clone().or_else(|| candidate.audit.clone()),
        trace: below.trace.clone(),
        agent_settings: below.agent_settings.clone(),
    };
    note_left_out(below, &candidate, &draft, project, notes);
    draft
}

/// The rules by which every path has the stricter access of the two.
///
/// Access changes only at paths that some rule names, so it is enough to say for each of
/// those what the stricter side says there.
fn narrow_files(below: &Draft, candidate: &Draft) -> Vec<FileRule> {
    let mut seen = BTreeSet::new();
    let named: Vec<&FileRule> = below
        .files
        .iter()
        .chain(&candidate.files)
        .filter(|rule| seen.insert(rule.path.as_str()))
        .collect();
    let mut files: Vec<FileRule> = Vec::new();
    let mut borrowed = BTreeSet::new();
    for rule in named {
        let (of_below, by_below) = below.access(&rule.path);
        let (of_candidate, by_candidate) = candidate.access(&rule.path);
        let by = if of_below >= of_candidate {
            by_below
        } else {
            by_candidate
        };
        let access = of_below.max(of_candidate);
        let is_own = by.is_some_and(|by| by.path == rule.path);
        if !is_own {
            borrowed.insert(rule.path.clone());
        }
        files.push(FileRule {
            access,
            path: rule.path.clone(),
            kind: rule.kind,
            source: by.map_or(Source::Default, |by| by.source.clone()),
            reason: by.and_then(|by| by.reason.clone()),
        });
    }
    // What says the same as the rule above it says nothing. Patterns stay: they may hold for
    // a name that another rule opens.
    let mut at = 0;
    while at < files.len() {
        let rule = &files[at];
        if borrowed.contains(&rule.path) && !paths::is_pattern(&rule.path) {
            let rule = files.remove(at);
            let without = paths::decide(&files, &rule.path).map(|(access, _)| access);
            if without == Some(rule.access) {
                continue;
            }
            files.insert(at, rule);
        }
        at += 1;
    }
    files
}

fn narrow_hosts(
    below: &[Granted<HostRule>],
    candidate: &[Granted<HostRule>],
) -> Vec<Granted<HostRule>> {
    let mut hosts: BTreeMap<HostRule, Source> = BTreeMap::new();
    for asked in candidate {
        for allowed in below {
            if let Some(both) = asked.value.intersection(&allowed.value) {
                let source = match both == allowed.value {
                    true => &allowed.source,
                    false => &asked.source,
                };
                hosts.entry(both).or_insert_with(|| source.clone());
            }
        }
    }
    hosts
        .into_iter()
        .map(|(value, source)| Granted { value, source })
        .collect()
}

fn narrow_env(below: &Draft, candidate: &Draft) -> Vec<Granted<String>> {
    let asked = candidate
        .env
        .iter()
        .filter(|granted| below.grants_variable(&granted.value));
    let kept = below
        .env
        .iter()
        .filter(|granted| candidate.grants_variable(&granted.value));
    united(kept.cloned().collect(), asked.cloned().collect())
}

/// The stricter of two values, where what is not said has a rank of its own.
fn stricter<T: Clone>(
    below: &Option<Granted<T>>,
    candidate: &Option<Granted<T>>,
    rank: impl Fn(&T) -> i32,
    unsaid: i32,
) -> Option<Granted<T>> {
    let of = |value: &Option<Granted<T>>| value.as_ref().map_or(unsaid, |value| rank(&value.value));
    match of(candidate) > of(below) {
        true => candidate.clone(),
        false => below.clone(),
    }
}

/// The lower of two limits; no limit is the highest.
fn least<T: Clone + Ord>(
    below: &Option<Granted<T>>,
    candidate: &Option<Granted<T>>,
) -> Option<Granted<T>> {
    match (below, candidate) {
        (Some(low), Some(asked)) if asked.value < low.value => Some(asked.clone()),
        (Some(low), _) => Some(low.clone()),
        (None, asked) => asked.clone(),
    }
}

/// Notes what an untrusted project asked for and did not get.
fn note_left_out(
    below: &Draft,
    candidate: &Draft,
    draft: &Draft,
    project: &ConfigFile,
    notes: &mut Notes,
) {
    for rule in &candidate.files {
        let is_asked = rule.access <= FileAccess::Ro && !below.files.contains(rule);
        let holds = candidate.access(&rule.path).0 == rule.access;
        if is_asked && holds && draft.access(&rule.path).0 > rule.access {
            notes.suppress(rule.access.word(), &rule.path, &rule.source, UNTRUSTED);
        }
    }
    let lifted = below.files.iter().filter(|rule| {
        let is_said = candidate
            .files
            .iter()
            .any(|said| said.path == rule.path && said.access <= FileAccess::Ro);
        rule.access >= FileAccess::DenyWrite
            && !is_said
            && candidate.access(&rule.path).0 < rule.access
    });
    let lifted = lifted.count();
    if lifted > 0 {
        let line = project.config.base.as_ref().and_then(|base| base.line);
        let source = source(project.origin, &project.path, line);
        let reason = format!("{UNTRUSTED}; {lifted} built-in or user's denials stay");
        notes.suppress("base", base_text(project), &source, reason);
    }
    for asked in &candidate.hosts {
        let got = draft
            .hosts
            .iter()
            .any(|host| host.value.intersection(&asked.value).as_ref() == Some(&asked.value));
        if !got {
            notes.suppress("domain", host_text(&asked.value), &asked.source, UNTRUSTED);
        }
    }
    for asked in &candidate.ports {
        if !draft.ports.iter().any(|port| port.value == asked.value) {
            notes.suppress("local_port", asked.value, &asked.source, UNTRUSTED);
            notes
                .derived
                .retain(|note| !(note.kind == "local_port" && note.source == asked.source));
        }
    }
    if let (Some(asked), None) = (&candidate.loopback, &draft.loopback) {
        notes.suppress("domain", "localhost", asked, UNTRUSTED);
    }
    if let Some(source) = candidate
        .env_all
        .as_ref()
        .filter(|_| draft.env_all.is_none())
    {
        notes.suppress("env", "*", source, UNTRUSTED);
    }
    for asked in &candidate.env {
        if !draft.env.iter().any(|granted| granted.value == asked.value) {
            notes.suppress("env", &asked.value, &asked.source, UNTRUSTED);
        }
    }
    note_words(candidate, draft, notes);
}

/// The same for what is one word each.
fn note_words(candidate: &Draft, draft: &Draft, notes: &mut Notes) {
    if let Some(mode) = &candidate.mode
        && mode.value == NetworkMode::Observe
        && draft.mode.as_ref().map(|mode| mode.value) != Some(NetworkMode::Observe)
    {
        notes.suppress("mode", "observe", &mode.source, UNTRUSTED);
    }
    if let Some(merge) = &candidate.agent_domains
        && merge.value
        && draft.agent_domains.as_ref().is_some_and(|got| !got.value)
    {
        notes.suppress("agent_domains", "merge", &merge.source, UNTRUSTED);
    }
    fn limit<T: PartialEq>(
        name: &str,
        asked: &Option<Granted<T>>,
        got: &Option<Granted<T>>,
        show: impl Fn(&T) -> String,
        notes: &mut Notes,
    ) {
        if let Some(asked) = asked
            && got.as_ref().map(|got| &got.value) != Some(&asked.value)
        {
            let value = format!("{name}: {}", show(&asked.value));
            notes.suppress("resource", value, &asked.source, UNTRUSTED);
        }
    }
    let (asked, got) = (&candidate.resources, &draft.resources);
    let seconds = |time: &std::time::Duration| format!("{}s", time.as_secs_f64());
    limit("cpu", &asked.cpu, &got.cpu, seconds, notes);
    limit("memory", &asked.memory, &got.memory, u64::to_string, notes);
    limit(
        "max_fds",
        &asked.max_fds,
        &got.max_fds,
        u32::to_string,
        notes,
    );
    limit(
        "max_pids",
        &asked.max_pids,
        &got.max_pids,
        u32::to_string,
        notes,
    );
    let flags = [
        (
            "skip_permissions",
            &candidate.skip_permissions,
            &draft.skip_permissions,
        ),
        ("trace", &candidate.trace, &draft.trace),
    ];
    for (kind, asked, got) in flags {
        if let (Some(source), None) = (asked, got) {
            notes.suppress(kind, true, source, UNTRUSTED);
        }
    }
    if let Some(asked) = &candidate.shell
        && draft.shell.as_ref().map(|got| &got.value) != Some(&asked.value)
    {
        notes.suppress("shell", &asked.value, &asked.source, UNTRUSTED);
    }
    for (agent, asked) in &candidate.agent_settings {
        if draft.agent_settings.get(agent).map(|got| &got.value) != Some(&asked.value) {
            let value = format!("{agent}: {}", asked.value);
            notes.suppress("agent_settings", value, &asked.source, UNTRUSTED);
        }
    }
}

fn base_text(project: &ConfigFile) -> String {
    use crate::config::Base;
    match project.config.base.as_ref().map(|base| &base.value) {
        Some(Base::Nothing) => "none".to_owned(),
        Some(Base::File(name)) => name.as_str().to_owned(),
        Some(Base::Masked { .. }) | None => "masks".to_owned(),
    }
}

/// A rule for hosts as it is usually written: without the port that needs no saying.
pub(crate) fn host_text(rule: &HostRule) -> String {
    let text = rule.to_string();
    match text.strip_suffix(":443") {
        Some(host) => host.to_owned(),
        None => text,
    }
}

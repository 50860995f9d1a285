//! From a policy and the facts of a host to a plan, without touching anything.
//!
//! Rules are put on a map from canonical path to what holds there. At one path the strictest
//! rule holds; otherwise the most specific path decides, so a plan's steps go from the root
//! downwards and a later one covers an earlier one. What no rule can lift is put on the map
//! last.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wt_policy::{EffectivePolicy, FileAccess, NetworkMode, NetworkNeed, Ports};

use crate::cgroup::CgroupPlan;
use crate::host::{HostFacts, Link, PathFact};
use crate::mounts::is_at_or_below;
use crate::plan::{
    DNS_HOST, HTTP_PROXY_PORT, LandlockAccess, LandlockPlan, LandlockRule, ListenerKind,
    ListenerSpec, Missing, MountAction, MountLayer, MountStep, Namespaces, NetPlan, Note, Plan,
    Program, SeccompPlan, SeccompProfile, Stdio, Sysctl,
};
use crate::{EnforcementError, Step, rlimits};

/// Capacity of a session's `/tmp`. Compilers and package managers unpack there; what is used
/// counts as the session's memory.
const TMP_BYTES: u64 = 4 << 30;
/// Capacity of its `/var/tmp`.
const VAR_TMP_BYTES: u64 = 1 << 30;
/// Capacity of its shared memory. Browsers and databases use some hundred megabytes.
const SHM_BYTES: u64 = 1 << 30;
/// Capacity of its `/run`, and of file systems that hold directories and links alone.
const SMALL_BYTES: u64 = 16 << 20;

/// How much earlier than others a session is ended when memory runs out: after browsers' tabs
/// (300), before nothing else that matters.
const OOM_SCORE: i32 = 500;

/// Ports whose connections are caught whatever the rules name.
const WEB_PORTS: [u16; 2] = [80, 443];
/// How many ports are caught at most: each is two sockets.
const MAX_CAPTURED: usize = 64;

/// Directories that are no session's to write, whoever asks: what is there belongs to the
/// machine or to all projects at once.
const NEVER_WRITABLE: &[&str] = &[
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root",
    "/sbin", "/srv", "/sys", "/usr", "/var", "/var/lib",
];

/// What is started inside a boundary, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The program with all of its variables.
    pub program: Program,
    /// What its standard descriptors are.
    pub stdio: Stdio,
}

/// Makes the plan for a session.
///
/// # Errors
/// A rule that cannot be enforced as it stands, with the rule's path.
pub fn compile(
    policy: &EffectivePolicy,
    facts: &HostFacts,
    request: &Request,
) -> Result<Plan, EnforcementError> {
    let mut map = Map::new(facts);
    map.add_rules(policy)?;
    map.add_visible();
    map.add_derived();
    map.add_program();
    map.add_profiles()?;
    map.check_links()?;
    map.check_cwd()?;

    let network = network(policy, facts);
    let mut mounts = map.file_system();
    mounts.extend(map.resolver());
    mounts.extend(map.seals());
    let landlock = map.landlock();
    let (expected, missing) = (map.expected(), map.guarded());
    let mut program = request.program.clone();
    set_variables(&mut program.env, &network, facts);

    let resources = &policy.resources;
    Ok(Plan {
        namespaces: Namespaces::ALL,
        second_user_namespace: true,
        keyring: true,
        sysctls: sysctls(facts),
        mounts,
        expected,
        missing,
        network,
        no_new_privileges: true,
        drop_capabilities: true,
        close_descriptors: true,
        protect_init: true,
        landlock: Some(landlock),
        seccomp: Some(SeccompPlan {
            profile: SeccompProfile::Develop,
            log: policy.trace,
        }),
        rlimits: rlimits::standard(resources.max_fds, resources.max_pids),
        cgroup: Some(CgroupPlan {
            memory: resources.memory,
            pids: resources.max_pids,
            cpu: resources.cpu,
            best_effort: resources.memory.is_none()
                && resources.max_pids.is_none()
                && resources.cpu.is_none(),
        }),
        oom_score_adj: OOM_SCORE,
        program,
        cwd: facts.cwd.clone(),
        uid: facts.uid,
        gid: facts.gid,
        hostname: "egg".into(),
        stdio: request.stdio,
        umask: 0o022,
        notes: map.notes,
    })
}

/// What holds at and below a path.
#[derive(Clone, Debug)]
struct Node {
    what: What,
    reason: String,
    /// Where the rule that says so leads, with the links on its way.
    at: PathFact,
}

/// What holds there, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Rw,
    Ro,
    DenyWrite,
    /// A file system of the session's own: the host's files are not seen there.
    Private,
    Deny,
    /// As deny, and above all rules.
    Core,
}

impl What {
    fn hides(self) -> bool {
        match self {
            Self::Rw | Self::Ro | Self::DenyWrite => false,
            Self::Private | Self::Deny | Self::Core => true,
        }
    }
}

impl From<FileAccess> for What {
    fn from(access: FileAccess) -> Self {
        match access {
            FileAccess::Rw => Self::Rw,
            FileAccess::Ro => Self::Ro,
            FileAccess::DenyWrite => Self::DenyWrite,
            FileAccess::Deny => Self::Deny,
        }
    }
}

struct Map<'a> {
    facts: &'a HostFacts,
    nodes: BTreeMap<String, Node>,
    /// Links that a protected path leads through, and that must stay.
    pinned_links: BTreeSet<Link>,
    missing: Vec<Missing>,
    notes: Vec<Note>,
    /// Whether the directory that the session starts in stays read-only though a rule opens it.
    cwd_is_unsafe: bool,
}

impl<'a> Map<'a> {
    fn new(facts: &'a HostFacts) -> Self {
        let mut map = Self {
            facts,
            nodes: BTreeMap::new(),
            pinned_links: BTreeSet::new(),
            missing: Vec::new(),
            notes: facts.notes.clone(),
            cwd_is_unsafe: false,
        };
        let fact = |path: &str| PathFact {
            asked: path.to_owned(),
            path: path.to_owned(),
            identity: None,
            links: Vec::new(),
        };
        map.put(What::Ro, &fact("/"), "what no rule names is read-only");
        for path in facts.private.iter().filter(|path| *path != "/dev/shm") {
            map.put(What::Private, &fact(path), "it is the session's own");
        }
        for path in ["/dev", "/proc"] {
            map.put(What::Private, &fact(path), "it is the session's own");
        }
        map
    }

    /// Puts a rule on the map; at one path the strongest stays, and of equals the later.
    fn put(&mut self, what: What, at: &PathFact, reason: &str) {
        let node = Node {
            what,
            reason: reason.to_owned(),
            at: at.clone(),
        };
        match self.nodes.get(&at.path) {
            Some(there) if there.what > what => {}
            // The root is read-only unless a rule says otherwise.
            _ => {
                self.nodes.insert(at.path.clone(), node);
            }
        }
    }

    fn add_rules(&mut self, policy: &EffectivePolicy) -> Result<(), EnforcementError> {
        // Denials first: what is granted by a link into them is not.
        let facts = self.facts;
        let by_strength = |deny: bool| {
            facts.rules.iter().filter(move |fact| {
                policy
                    .files
                    .get(fact.rule)
                    .is_some_and(|rule| (rule.access == FileAccess::Deny) == deny)
            })
        };
        for fact in by_strength(true).chain(by_strength(false)) {
            let rule = &policy.files[fact.rule];
            let reason = rule.reason.as_ref().map_or_else(
                || rule.source.to_string(),
                |reason| format!("{reason} ({})", rule.source),
            );
            let at = &fact.at;
            if at.identity.is_none() {
                self.note_absent(rule.access, at, &reason);
                continue;
            }
            if rule.access == FileAccess::Rw && !self.may_be_written(at)? {
                continue;
            }
            if rule.access < FileAccess::DenyWrite && self.leads_into_hiding(at) {
                self.note(
                    &at.asked,
                    format!(
                        "not granted: a link leads it to {}, which is denied",
                        at.path
                    ),
                );
                continue;
            }
            self.put(rule.access.into(), at, &reason);
        }
        for alias in &self.facts.aliases {
            let at = PathFact {
                asked: alias.at.path.clone(),
                path: alias.at.path.clone(),
                identity: Some(alias.at.clone()),
                links: Vec::new(),
            };
            let is_core = self.facts.profiles.iter().any(|p| p.path == alias.of);
            let what = if is_core { What::Core } else { What::Deny };
            self.put(what, &at, &format!("{} is mounted here too", alias.of));
        }
        Ok(())
    }

    /// Whether a directory may become writable. The one that the session starts in stays
    /// read-only when it may not; any other stops the start.
    fn may_be_written(&mut self, at: &PathFact) -> Result<bool, EnforcementError> {
        let is_cwd = at.path == self.facts.cwd;
        if self.facts.private.contains(&at.path) {
            let advice = if is_cwd { START_ELSEWHERE } else { "" };
            self.note(
                &at.path,
                format!("every session has one of its own; the host's is not seen in it{advice}"),
            );
            return Ok(false);
        }
        let Some(why) = self.unsafe_to_write(&at.path) else {
            return Ok(true);
        };
        if is_cwd {
            self.cwd_is_unsafe = true;
            self.note(
                &at.path,
                format!(
                    "the session starts in {}, {why}: it stays read-only there{START_ELSEWHERE}",
                    at.path
                ),
            );
            return Ok(false);
        }
        Err(EnforcementError::new(
            Step::Paths,
            format!("{} cannot be made writable: it is {why}", at.asked),
        )
        .hint("name a directory below it"))
    }

    fn unsafe_to_write(&self, path: &str) -> Option<String> {
        let holds = |what: &str| is_at_or_below(what, path);
        if path == self.facts.home {
            return Some("the home directory".into());
        }
        if holds(&self.facts.home) {
            return Some("a directory that holds the home directory".into());
        }
        if let Some(profile) = self.facts.profiles.iter().find(|p| holds(&p.path)) {
            return Some(format!(
                "a directory that holds the profile {}",
                profile.path
            ));
        }
        let is_system = NEVER_WRITABLE.contains(&path)
            || ["/dev", "/proc", "/sys"]
                .iter()
                .any(|system| is_at_or_below(path, system) && !is_at_or_below(path, "/dev/shm"));
        is_system.then(|| "a directory of the system".into())
    }

    /// Whether a link leads a grant into something hidden that the rule did not name.
    fn leads_into_hiding(&self, at: &PathFact) -> bool {
        !at.links.is_empty()
            && self.nodes.values().any(|node| {
                node.what.hides()
                    && node.what != What::Private
                    && node.at.path != "/"
                    && is_at_or_below(&at.path, &node.at.path)
                    && !is_at_or_below(&at.asked, &node.at.asked)
            })
    }

    fn note_absent(&mut self, access: FileAccess, at: &PathFact, reason: &str) {
        match access {
            FileAccess::Deny | FileAccess::DenyWrite => self.missing.push(Missing {
                path: at.path.clone(),
                hidden: access == FileAccess::Deny,
                source: reason.to_owned(),
            }),
            FileAccess::Rw | FileAccess::Ro => {}
        }
    }

    fn note(&mut self, path: &str, text: impl Into<String>) {
        let note = Note {
            path: path.to_owned(),
            text: text.into(),
        };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// A working tree's git directory elsewhere, when the tree itself may be written.
    fn add_derived(&mut self) {
        if self.holds_at(&self.facts.cwd) != What::Rw {
            return;
        }
        for rule in &self.facts.derived {
            let is_hidden = self.holds_at(&rule.at.path).hides();
            if is_hidden && rule.access < FileAccess::DenyWrite {
                self.note(&rule.at.path, "not granted: it is denied");
                return;
            }
            if rule.access == FileAccess::Rw && self.unsafe_to_write(&rule.at.path).is_some() {
                return;
            }
            if rule.at.identity.is_some() {
                self.put(rule.access.into(), &rule.at, &rule.reason);
            }
        }
    }

    /// A home directory below `/tmp`, say, is where its programs look for their settings.
    fn add_visible(&mut self) {
        for at in &self.facts.visible {
            let is_below_private =
                self.holds_at(&at.path) == What::Private && !self.nodes.contains_key(&at.path);
            if is_below_private {
                self.put(What::Ro, at, "the session starts there or calls it home");
            }
        }
    }

    /// The program that holds sessions must not be changed by one.
    fn add_program(&mut self) {
        if let Some(program) = &self.facts.program
            && program.identity.is_some()
        {
            self.put(
                What::DenyWrite,
                program,
                "it is the program that holds sessions",
            );
        }
    }

    /// Hides the profile, above all rules.
    fn add_profiles(&mut self) -> Result<(), EnforcementError> {
        let facts = self.facts;
        for profile in facts.profiles.iter().filter(|p| p.identity.is_some()) {
            if is_at_or_below(&facts.cwd, &profile.path) {
                return Err(EnforcementError::new(
                    Step::Paths,
                    format!(
                        "the session would start in {}, and the profile {} is hidden from every \
                         session",
                        facts.cwd, profile.path
                    ),
                )
                .hint("give another directory with --cwd"));
            }
            self.nodes
                .retain(|path, _| !is_at_or_below(path, &profile.path));
            self.put(
                What::Core,
                profile,
                "the profile with its keys and sessions",
            );
        }
        Ok(())
    }

    /// Makes sure that no session can replace a link that a rule leads through.
    fn check_links(&mut self) -> Result<(), EnforcementError> {
        let mut pinned = BTreeSet::new();
        let mut dropped = Vec::new();
        for (path, node) in &self.nodes {
            let replaceable = node
                .at
                .links
                .iter()
                .filter(|link| self.holds_at(parent(&link.path)) == What::Rw);
            for link in replaceable {
                match node.what {
                    What::Deny | What::Core => {
                        return Err(EnforcementError::new(
                            Step::Paths,
                            format!(
                                "{} cannot be denied: it leads through the link {}, which the \
                                 session could replace",
                                node.at.asked, link.path
                            ),
                        )
                        .hint(format!("deny {} instead, or remove the link", node.at.path)));
                    }
                    What::DenyWrite => {
                        pinned.insert(link.clone());
                    }
                    What::Rw | What::Ro => dropped.push((path.clone(), link.path.clone())),
                    What::Private => {}
                }
            }
        }
        self.pinned_links = pinned;
        for (path, link) in dropped {
            self.nodes.remove(&path);
            self.note(
                &path,
                format!("not granted: its rule leads through the link {link}, which the session could replace"),
            );
        }
        Ok(())
    }

    fn check_cwd(&self) -> Result<(), EnforcementError> {
        match self.holds_at(&self.facts.cwd) {
            What::Deny | What::Core => Err(EnforcementError::new(
                Step::Paths,
                format!(
                    "the session would start in {}, which is denied",
                    self.facts.cwd
                ),
            )
            .hint("give another directory with --cwd")),
            _ => Ok(()),
        }
    }

    /// What holds at a path: what the deepest node at or above it says.
    fn holds_at(&self, path: &str) -> What {
        self.node_above(path).what
    }

    fn node_above(&self, path: &str) -> &Node {
        let mut at = path;
        loop {
            if let Some(node) = self.nodes.get(at) {
                return node;
            }
            at = parent(at);
        }
    }

    /// The node that a node lies in.
    fn enclosing(&self, path: &str) -> &Node {
        self.node_above(parent(path))
    }

    /// Whether a node says nothing that the one around it does not say.
    fn is_redundant(&self, path: &str, node: &Node) -> bool {
        if path == "/" {
            return false;
        }
        let around = self.enclosing(path).what;
        match node.what {
            What::Rw => around == What::Rw,
            What::Ro => matches!(around, What::Ro | What::DenyWrite),
            What::DenyWrite => !matches!(around, What::Rw),
            What::Private => false,
            What::Deny | What::Core => around.hides(),
        }
    }

    /// The nodes that need steps, each after those it lies in.
    fn standing(&self) -> Vec<(&str, &Node)> {
        let mut standing: Vec<_> = self
            .nodes
            .iter()
            .filter(|(path, node)| !self.is_redundant(path, node))
            .map(|(path, node)| (path.as_str(), node))
            .collect();
        standing.sort_by_key(|(path, _)| (depth(path), *path));
        standing
    }

    fn file_system(&self) -> Vec<MountStep> {
        let mut steps = Steps::default();
        let root = &self.nodes["/"];
        if root.what.hides() {
            steps.add(
                MountLayer::Root,
                "/",
                memory(0o755, SMALL_BYTES),
                &root.reason,
            );
        } else {
            steps.add(
                MountLayer::Root,
                "/",
                MountAction::HostTree,
                "the host's files, read-only",
            );
        }
        self.own_places(&mut steps);
        for path in &self.facts.kernel_mounts {
            if !self.holds_at(path).hides() {
                steps.add_optional(
                    MountLayer::SysMask,
                    path,
                    MountAction::EmptyDirectory,
                    "it says or changes something of the host",
                );
            }
        }
        if root.what.hides() {
            self.links_of_holes(&mut steps);
        }
        for (path, node) in self.standing() {
            match node.what {
                What::Private => {}
                _ if path == "/" => {}
                What::Rw => self.writable(&mut steps, path, node),
                What::Ro | What::DenyWrite => self.readable(&mut steps, path, node),
                What::Deny | What::Core => self.hidden(&mut steps, path, node),
            }
        }
        for socket in &self.facts.sockets {
            if matches!(self.holds_at(socket), What::Ro | What::DenyWrite) {
                steps.add_optional(
                    MountLayer::SocketMask,
                    socket,
                    MountAction::HideFile,
                    "a service of the host listens there",
                );
            }
        }
        steps.0
    }

    /// Makes a directory writable, with pins below it for everything stricter in it.
    fn writable(&self, steps: &mut Steps, path: &str, node: &Node) {
        let bind = |writable| MountAction::Bind {
            source: path.to_owned(),
            writable,
            devices: false,
        };
        let around = self.enclosing(path).what;
        if around == What::Private {
            self.own_ancestors(steps, path);
        }
        let pins = self.pins_in(path);
        let links: Vec<_> = self
            .pinned_links
            .iter()
            .filter(|link| self.node_above(&link.path).at.path == path)
            .collect();
        if !(pins.is_empty() && links.is_empty()) && around.hides() {
            // The pins are put on a copy that the writable one then covers; elsewhere the
            // host's tree is there already.
            steps.add(MountLayer::Pin, path, bind(false), "for pins to be put on");
        }
        for pin in pins {
            steps.add(
                MountLayer::Pin,
                &pin,
                MountAction::Pin,
                "it stays where it is",
            );
        }
        for link in links {
            steps.add(
                MountLayer::Pin,
                &link.path,
                MountAction::PinLink,
                "it leads to something that is kept",
            );
        }
        steps.add(MountLayer::Writable, path, bind(true), &node.reason);
    }

    /// The directories between a writable one and everything stricter in it.
    fn pins_in(&self, path: &str) -> BTreeSet<String> {
        let stricter = self
            .standing()
            .into_iter()
            .filter(|(inner, _)| *inner != path && self.enclosing(inner).at.path == path)
            .map(|(inner, _)| inner);
        let links = self.pinned_links.iter().map(|link| link.path.as_str());
        stricter
            .chain(links)
            .filter(|inner| is_at_or_below(inner, path))
            .flat_map(|inner| ancestors_between(path, inner))
            .collect()
    }

    fn readable(&self, steps: &mut Steps, path: &str, node: &Node) {
        let around = self.enclosing(path).what;
        if around == What::Private {
            self.own_ancestors(steps, path);
        }
        let layer = if around == What::Rw {
            MountLayer::Protected
        } else {
            MountLayer::ReadOnly
        };
        let action = MountAction::Bind {
            source: path.to_owned(),
            writable: false,
            devices: false,
        };
        steps.add(layer, path, action, &node.reason);
    }

    fn hidden(&self, steps: &mut Steps, path: &str, node: &Node) {
        let layer = if node.what == What::Core {
            MountLayer::Core
        } else {
            MountLayer::Denied
        };
        let is_directory = is_directory(&node.at);
        let holes = self.holes_in(path);
        if !is_directory {
            steps.add(layer, path, MountAction::HideFile, &node.reason);
        } else if holes.is_empty() {
            steps.add(layer, path, MountAction::HideDirectory, &node.reason);
        } else {
            // It can be walked through to what is granted in it, and not listed.
            steps.add(layer, path, memory(0o111, SMALL_BYTES), &node.reason);
            let between: BTreeSet<String> = holes
                .iter()
                .flat_map(|hole| ancestors_between(path, hole))
                .collect();
            for directory in between {
                steps.add(
                    layer,
                    &directory,
                    MountAction::MakeDirectory { mode: 0o111 },
                    "it leads to something that is granted",
                );
            }
        }
    }

    /// What is granted directly in something hidden.
    fn holes_in(&self, path: &str) -> Vec<&str> {
        self.standing()
            .into_iter()
            .filter(|(inner, node)| {
                *inner != path
                    && *inner != "/"
                    && !node.what.hides()
                    && self.enclosing(inner).at.path == path
            })
            .map(|(inner, _)| inner)
            .collect()
    }

    /// Directories of the session's own that lead to something of the host, kept in place.
    fn own_ancestors(&self, steps: &mut Steps, path: &str) {
        let top = &self.enclosing(path).at.path;
        for directory in ancestors_between(top, path) {
            if !steps.0.iter().any(|step| step.target == directory) {
                steps.add(
                    MountLayer::Pin,
                    &directory,
                    MountAction::MakeDirectory { mode: 0o755 },
                    "it leads to something of the host",
                );
                steps.add(
                    MountLayer::Pin,
                    &directory,
                    MountAction::Pin,
                    "it stays where it is",
                );
            }
        }
    }

    /// Links that grants lead through, where the tree is not the host's.
    fn links_of_holes(&self, steps: &mut Steps) {
        let links: BTreeSet<&Link> = self
            .nodes
            .values()
            .filter(|node| !node.what.hides())
            .flat_map(|node| &node.at.links)
            .filter(|link| self.node_above(&link.path).at.path == "/")
            .collect();
        let folders: BTreeSet<&str> = links.iter().map(|link| parent(&link.path)).collect();
        for folder in folders.into_iter().filter(|folder| *folder != "/") {
            let action = MountAction::MakeDirectory { mode: 0o755 };
            steps.add(
                MountLayer::Root,
                folder,
                action,
                "links of the host are in it",
            );
        }
        for link in links {
            let action = MountAction::MakeLink {
                to: link.to.clone(),
            };
            steps.add(MountLayer::Root, &link.path, action, "a link of the host");
        }
    }

    /// What every session has of its own.
    fn own_places(&self, steps: &mut Steps) {
        devices(steps, self.facts);
        processes(steps);
        for path in self
            .facts
            .well_known
            .iter()
            .filter(|p| p.starts_with("/sys/"))
        {
            steps.add_optional(
                MountLayer::SysMask,
                path,
                MountAction::EmptyDirectory,
                "it says or changes something of the host",
            );
        }
        for path in &self.facts.private {
            let (layer, mode, size, reason) = match path.as_str() {
                "/tmp" => (MountLayer::PrivateTmp, 0o1777, TMP_BYTES, "temporary files"),
                "/var/tmp" => (
                    MountLayer::PrivateTmp,
                    0o1777,
                    VAR_TMP_BYTES,
                    "temporary files",
                ),
                // It is made with the other devices.
                "/dev/shm" => continue,
                _ => (
                    MountLayer::PrivateRun,
                    0o755,
                    SMALL_BYTES,
                    "no sockets of services",
                ),
            };
            let exec = layer == MountLayer::PrivateTmp;
            let action = MountAction::Tmpfs { mode, size, exec };
            steps.add(layer, path, action, reason);
        }
        if self.facts.private.iter().any(|path| path == "/run") {
            let user = format!("/run/user/{}", self.facts.uid);
            for (path, mode) in [("/run/lock", 0o1777), ("/run/user", 0o755), (&user, 0o700)] {
                steps.add(
                    MountLayer::PrivateRun,
                    path,
                    MountAction::MakeDirectory { mode },
                    "programs expect it",
                );
            }
            // What programs of some distributions are found through.
            for path in self
                .facts
                .well_known
                .iter()
                .filter(|p| p.starts_with("/run/"))
            {
                let action = MountAction::Bind {
                    source: path.clone(),
                    writable: false,
                    devices: false,
                };
                steps.add_optional(
                    MountLayer::PrivateRun,
                    path,
                    action,
                    "programs are found there",
                );
            }
        }
    }

    /// How names are resolved inside: by the session's own server, and by nothing that needs a
    /// service of the host.
    fn resolver(&self) -> Vec<MountStep> {
        let facts = self.facts;
        let mut steps = Steps::default();
        let mut file = |path: &str, content: String| {
            // In a root without the host's files it is made; where it is denied it stays so.
            let is_denied = self.nodes.get(path).is_some_and(|n| n.what.hides());
            if !is_denied {
                steps.add(
                    MountLayer::Resolver,
                    path,
                    MountAction::File { content },
                    "names are resolved by the session's own server",
                );
            }
        };
        if let Some(path) = &facts.resolv_conf {
            file(
                path,
                format!("nameserver 127.0.0.{DNS_HOST}\noptions timeout:5 attempts:1\n"),
            );
        }
        if let Some(path) = &facts.hosts {
            file(path, "127.0.0.1 localhost egg\n::1 localhost egg\n".into());
        }
        if let Some((path, said)) = &facts.nsswitch {
            file(path, nsswitch(said));
        }
        steps.0
    }

    /// Makes what was made of memory read-only, now that everything is in it.
    fn seals(&self) -> Vec<MountStep> {
        let mut steps = Steps::default();
        let mut seal = |layer, path: &str| {
            steps.add(layer, path, MountAction::Seal, "everything is in it");
        };
        seal(MountLayer::PrivateDev, "/dev");
        for (path, node) in self.standing() {
            if node.what == What::Private || !node.what.hides() {
                continue;
            }
            if path == "/" {
                seal(MountLayer::Root, path);
            } else if is_directory(&node.at) && !self.holes_in(path).is_empty() {
                let is_core = node.what == What::Core;
                let layer = if is_core {
                    MountLayer::Core
                } else {
                    MountLayer::Denied
                };
                seal(layer, path);
            }
        }
        steps.0
    }

    fn landlock(&self) -> LandlockPlan {
        let mut rules: BTreeMap<String, LandlockAccess> = BTreeMap::new();
        let mut allow = |path: &str, access| {
            rules.insert(path.to_owned(), access);
        };
        allow("/", LandlockAccess::Read);
        allow("/dev", LandlockAccess::Devices);
        allow("/dev/shm", LandlockAccess::Write);
        allow("/dev/mqueue", LandlockAccess::Write);
        allow("/proc", LandlockAccess::WriteFiles);
        for path in self.facts.private.iter().filter(|p| *p != "/dev/shm") {
            allow(path, LandlockAccess::Write);
        }
        for (path, node) in self.standing() {
            if node.what == What::Rw {
                allow(path, LandlockAccess::Write);
            }
        }
        LandlockPlan {
            rules: rules
                .into_iter()
                .map(|(path, access)| LandlockRule { path, access })
                .collect(),
            scopes: true,
            min_abi: self.facts.landlock_abi,
        }
    }

    /// Rules for what is not there, where a session could make it.
    fn guarded(&self) -> Vec<Missing> {
        let could_make = |missing: &&Missing| self.holds_at(&missing.path) == What::Rw;
        self.missing.iter().filter(could_make).cloned().collect()
    }

    fn expected(&self) -> Vec<crate::plan::Identity> {
        self.standing()
            .into_iter()
            .filter_map(|(_, node)| node.at.identity.clone())
            .collect()
    }
}

const START_ELSEWHERE: &str = "; start it in a project with --cwd";

/// Steps while they are gathered.
#[derive(Default)]
struct Steps(Vec<MountStep>);

impl Steps {
    fn add(&mut self, layer: MountLayer, target: &str, action: MountAction, reason: &str) {
        self.push(layer, target, action, reason, false);
    }

    fn add_optional(&mut self, layer: MountLayer, target: &str, action: MountAction, reason: &str) {
        self.push(layer, target, action, reason, true);
    }

    fn push(
        &mut self,
        layer: MountLayer,
        target: &str,
        action: MountAction,
        reason: &str,
        optional: bool,
    ) {
        self.0.push(MountStep {
            layer,
            target: target.to_owned(),
            action,
            optional,
            reason: reason.to_owned(),
        });
    }
}

fn devices(steps: &mut Steps, facts: &HostFacts) {
    let layer = MountLayer::PrivateDev;
    let reason = "no device that reaches the host";
    steps.add(layer, "/dev", memory(0o755, SMALL_BYTES), reason);
    for path in facts.well_known.iter().filter(|p| p.starts_with("/dev/")) {
        let action = MountAction::Bind {
            source: path.clone(),
            writable: true,
            devices: true,
        };
        steps.add(layer, path, action, "every program may use it");
    }
    steps.add(
        layer,
        "/dev/pts",
        MountAction::DevPts,
        "terminals of its own",
    );
    for (path, to) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        let action = MountAction::MakeLink { to: to.into() };
        steps.add(layer, path, action, "programs expect it");
    }
    let shared = MountAction::Tmpfs {
        mode: 0o1777,
        size: SHM_BYTES,
        exec: true,
    };
    steps.add(layer, "/dev/shm", shared, "shared memory of its own");
    steps.add(
        layer,
        "/dev/mqueue",
        MountAction::Mqueue,
        "message queues of its own",
    );
}

fn processes(steps: &mut Steps) {
    steps.add(
        MountLayer::Proc,
        "/proc",
        MountAction::Proc,
        "its own processes alone",
    );
    let reason = "it changes the host";
    for name in ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"] {
        let path = format!("/proc/{name}");
        steps.add_optional(MountLayer::ProcMask, &path, MountAction::Freeze, reason);
    }
    let reason = "it says something of the host";
    for name in [
        "kcore",
        "keys",
        "key-users",
        "timer_list",
        "sched_debug",
        "kallsyms",
        "latency_stats",
        "kpagecount",
        "kpageflags",
        "kpagecgroup",
        "kmsg",
        "vmallocinfo",
        "slabinfo",
    ] {
        let path = format!("/proc/{name}");
        steps.add_optional(MountLayer::ProcMask, &path, MountAction::HideFile, reason);
    }
}

fn sysctls(facts: &HostFacts) -> Vec<Sysctl> {
    let setting = |path: &str, value: String, optional| Sysctl {
        path: path.to_owned(),
        value,
        optional,
    };
    let mut settings = vec![
        // The second one of this session is the one.
        setting("user/max_user_namespaces", "1".into(), false),
        // Servers of a project may use the ports that they use elsewhere.
        setting("net/ipv4/ip_unprivileged_port_start", "0".into(), false),
    ];
    if let Some((instances, watches)) = facts.inotify {
        // What a session uses counts for its user outside as well, who keeps a quarter.
        let most = |number: u64| (number - number / 4).to_string();
        settings.push(setting("user/max_inotify_instances", most(instances), true));
        settings.push(setting("user/max_inotify_watches", most(watches), true));
    }
    settings
}

fn network(policy: &EffectivePolicy, facts: &HostFacts) -> NetPlan {
    let network = &policy.network;
    let reaches_hosts = match network.need {
        NetworkNeed::Hosts | NetworkNeed::Any => true,
        NetworkNeed::None | NetworkNeed::Local => network.mode == NetworkMode::Observe,
    };
    let mut listeners = Vec::new();
    let v4 = |kind| ListenerSpec { kind, v6: false };
    if !reaches_hosts {
        // It answers that there is no such name, at once, and notes who asked for which: so a
        // session without a network can be told why a program failed.
        listeners.extend([ListenerKind::DnsUdp, ListenerKind::DnsTcp].map(v4));
    }
    let local: BTreeSet<u16> = network.local_ports.iter().map(|p| p.value.get()).collect();
    if reaches_hosts {
        listeners.extend(
            [
                ListenerKind::HttpProxy,
                ListenerKind::Socks,
                ListenerKind::DnsUdp,
                ListenerKind::DnsTcp,
            ]
            .map(v4),
        );
        let named = network
            .hosts
            .iter()
            .filter_map(|host| match host.value.ports() {
                Ports::One(port) => Some(port.get()),
                Ports::All => None,
            });
        let captured: BTreeSet<u16> = WEB_PORTS.into_iter().chain(named).collect();
        let taken = [HTTP_PROXY_PORT, crate::plan::SOCKS_PORT, 53];
        for port in captured.into_iter().take(MAX_CAPTURED) {
            if local.contains(&port) || taken.contains(&port) {
                continue;
            }
            listeners.push(v4(ListenerKind::Capture(port)));
            if facts.ipv6 {
                let kind = ListenerKind::Capture(port);
                listeners.push(ListenerSpec { kind, v6: true });
            }
        }
    }
    for port in local {
        let kind = ListenerKind::LocalPort(port);
        if listeners
            .iter()
            .any(|there| crate::network::address(*there).port() == port)
        {
            continue;
        }
        listeners.push(v4(kind));
        if facts.ipv6 {
            listeners.push(ListenerSpec { kind, v6: true });
        }
    }
    NetPlan {
        loopback: true,
        capture_routes: reaches_hosts,
        ipv6: facts.ipv6,
        listeners,
    }
}

/// Sets the variables that say where things are inside.
fn set_variables(env: &mut Vec<(String, String)>, network: &NetPlan, facts: &HostFacts) {
    let mut set = |key: &str, value: &str| {
        env.retain(|(there, _)| there != key);
        env.push((key.to_owned(), value.to_owned()));
    };
    set("TMPDIR", "/tmp");
    set("XDG_RUNTIME_DIR", &format!("/run/user/{}", facts.uid));
    let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GRPC_PROXY"];
    let has_proxy = network
        .listeners
        .iter()
        .any(|spec| spec.kind == ListenerKind::HttpProxy);
    let address = format!("http://127.0.0.1:{HTTP_PROXY_PORT}");
    for key in proxies
        .iter()
        .flat_map(|key| [(*key).to_owned(), key.to_lowercase()])
    {
        if has_proxy {
            set(&key, &address);
        }
    }
    if has_proxy {
        for key in ["NO_PROXY", "no_proxy"] {
            set(key, "localhost,127.0.0.1,::1");
        }
        set("NODE_USE_ENV_PROXY", "1");
    } else {
        env.retain(|(key, _)| {
            let upper = key.to_uppercase();
            !proxies.contains(&upper.as_str()) && upper != "NO_PROXY"
        });
    }
}

/// How names are looked up inside: hosts by file and DNS alone, since other ways talk to
/// services of the host.
fn nsswitch(said: &str) -> String {
    let mut lines: Vec<String> = said
        .lines()
        .filter(|line| !line.trim_start().starts_with("hosts:"))
        .map(str::to_owned)
        .collect();
    lines.push("hosts: files dns".into());
    lines.join("\n") + "\n"
}

fn memory(mode: u32, size: u64) -> MountAction {
    MountAction::Tmpfs {
        mode,
        size,
        exec: false,
    }
}

fn is_directory(at: &PathFact) -> bool {
    at.identity
        .as_ref()
        .is_none_or(|identity| identity.kind == libc::S_IFDIR)
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((above, _)) => above,
    }
}

fn depth(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty()).count()
}

/// The directories strictly between two, the outermost first.
fn ancestors_between(top: &str, path: &str) -> Vec<String> {
    let mut between = Vec::new();
    let mut at = parent(path);
    while at != top && at != "/" && is_at_or_below(at, top) {
        between.push(at.to_owned());
        at = parent(at);
    }
    between.reverse();
    between
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap as Variables;

    use wt_policy::{EnvPolicy, FileRule, NetworkPolicy, Resources, Source};

    use super::*;
    use crate::host::{DerivedRule, RuleFact};
    use crate::plan::Identity;

    const HOME: &str = "/home/ada";
    const PROJECT: &str = "/home/ada/project";

    /// A host on which every path that a rule names is a directory, unless it ends with `.f`
    /// (a file), `.gone` (nothing), or has `link/` in it (which leads to `/elsewhere`).
    fn world(rules: &[(FileAccess, &str)]) -> (EffectivePolicy, HostFacts) {
        let policy = EffectivePolicy {
            agent: None,
            config_source: Source::Default,
            trusted: true,
            files: rules
                .iter()
                .map(|(access, path)| FileRule {
                    access: *access,
                    path: (*path).to_owned(),
                    kind: None,
                    source: Source::Default,
                    reason: None,
                })
                .collect(),
            network: NetworkPolicy {
                need: NetworkNeed::None,
                hosts: Vec::new(),
                local_ports: Vec::new(),
                mode: NetworkMode::Enforce,
            },
            env: EnvPolicy {
                all: false,
                pass: Vec::new(),
                set: Variables::new(),
            },
            resources: Resources::default(),
            shell: None,
            skip_permissions: false,
            audit: false,
            trace: false,
            agent_settings: Variables::new(),
            drilled: Vec::new(),
            derived: Vec::new(),
            suppressed: Vec::new(),
        };
        let facts = HostFacts {
            cwd: PROJECT.into(),
            home: HOME.into(),
            uid: 1000,
            gid: 1000,
            rules: rules
                .iter()
                .enumerate()
                .map(|(rule, (_, path))| RuleFact {
                    rule,
                    at: fact(path),
                })
                .collect(),
            profiles: vec![fact("/home/ada/.wingthing")],
            private: ["/tmp", "/var/tmp", "/run", "/dev/shm"]
                .map(String::from)
                .into(),
            well_known: ["/dev/null", "/dev/tty", "/sys/fs/cgroup"]
                .map(String::from)
                .into(),
            resolv_conf: Some("/run/systemd/resolve/stub-resolv.conf".into()),
            hosts: Some("/etc/hosts".into()),
            nsswitch: Some((
                "/etc/nsswitch.conf".into(),
                "passwd: files\nhosts: mdns\n".into(),
            )),
            ipv6: true,
            landlock_abi: 7,
            inotify: Some((128, 1000)),
            ..HostFacts::default()
        };
        (policy, facts)
    }

    fn fact(asked: &str) -> PathFact {
        let (path, links) = match asked.split_once("/link/") {
            Some((before, after)) => (
                format!("/elsewhere/{after}"),
                vec![Link {
                    path: format!("{before}/link"),
                    to: "/elsewhere".into(),
                }],
            ),
            None => (asked.to_owned(), Vec::new()),
        };
        let kind = if path.ends_with(".f") {
            libc::S_IFREG
        } else {
            libc::S_IFDIR
        };
        PathFact {
            asked: asked.to_owned(),
            identity: (!path.ends_with(".gone")).then(|| Identity {
                path: path.clone(),
                dev: 1,
                ino: 2,
                kind,
            }),
            path,
            links,
        }
    }

    fn request() -> Request {
        Request {
            program: Program {
                file: "sh".into(),
                argv: vec!["sh".into()],
                env: vec![("PATH".into(), "/bin".into())],
            },
            stdio: Stdio::Terminal { cols: 80, rows: 24 },
        }
    }

    fn plan(rules: &[(FileAccess, &str)]) -> Result<Plan, EnforcementError> {
        let (policy, facts) = world(rules);
        compile(&policy, &facts, &request())
    }

    /// The steps that come from rules, a line for each, and what is told.
    fn picture(plan: &Plan) -> String {
        let own = [
            MountLayer::PrivateDev,
            MountLayer::PrivateRun,
            MountLayer::PrivateTmp,
            MountLayer::Proc,
            MountLayer::ProcMask,
            MountLayer::SysMask,
            MountLayer::Resolver,
        ];
        let steps = plan.mounts.iter().filter(|step| !own.contains(&step.layer));
        let lines = steps.map(|step| {
            let action = match &step.action {
                MountAction::Bind { writable, .. } if *writable => "bind rw".to_owned(),
                MountAction::Bind { .. } => "bind ro".to_owned(),
                MountAction::Tmpfs { mode, .. } => format!("memory {mode:o}"),
                MountAction::MakeDirectory { mode } => format!("directory {mode:o}"),
                other => format!("{other:?}").to_lowercase(),
            };
            let layer = format!("{:?}", step.layer).to_lowercase();
            format!("{layer:<10} {action:<14} {}\n", step.target)
        });
        let notes = plan
            .notes
            .iter()
            .map(|note| format!("note {}: {}\n", note.path, note.text));
        let missing = plan
            .missing
            .iter()
            .map(|missing| format!("missing {}\n", missing.path));
        lines.chain(notes).chain(missing).collect()
    }

    use FileAccess::{Deny, DenyWrite, Ro, Rw};

    #[test]
    fn an_ordinary_project_has_pins_before_it_and_protection_after() {
        let plan = plan(&[
            (Rw, PROJECT),
            (Rw, "/home/ada/.cache/pip"),
            (DenyWrite, "/home/ada/project/egg.yaml.f"),
            (DenyWrite, "/home/ada/project/.git/hooks"),
            (DenyWrite, "/home/ada/project/.vscode/tasks.gone"),
            (Deny, "/home/ada/project/secrets/deep/down"),
            (Deny, "/home/ada/.ssh"),
            (Deny, "/home/ada/.netrc.f"),
            (Deny, "/home/ada/.aws.gone"),
            (Ro, "/home/ada/.ssh/known_hosts.f"),
        ])
        .unwrap();

        insta::assert_snapshot!(picture(&plan));
    }

    #[test]
    fn a_whole_plan_is_plain_data() {
        let (mut policy, facts) = world(&[(Rw, PROJECT)]);
        policy.network.need = NetworkNeed::Any;

        let plan = compile(&policy, &facts, &request()).unwrap();

        insta::assert_json_snapshot!(plan);
    }

    #[test]
    fn of_rules_at_one_path_the_strictest_holds_and_the_deepest_path_decides() {
        let plan = plan(&[
            (Ro, "/home/ada/a"),
            (Rw, "/home/ada/a"),
            (Rw, "/home/ada/b"),
            (Deny, "/home/ada/b"),
            (Rw, "/home/ada/c"),
            (Ro, "/home/ada/c/d"),
            (Rw, "/home/ada/c/d/e"),
            (Rw, "/home/ada/c/f"),
            (Deny, "/home/ada/g"),
            (Rw, "/home/ada/g/h/i"),
            (Deny, "/home/ada/g/h/i/j"),
        ])
        .unwrap();

        insta::assert_snapshot!(picture(&plan));
    }

    #[test]
    fn a_project_in_a_private_place_gets_ancestors_that_stay() {
        let (policy, mut facts) = world(&[
            (Rw, "/tmp/a/project"),
            (DenyWrite, "/tmp/a/project/.git/hooks"),
            (Ro, "/tmp/b/data"),
            (Deny, "/tmp/c"),
        ]);
        facts.cwd = "/tmp/a/project".into();

        insta::assert_snapshot!(picture(&compile(&policy, &facts, &request()).unwrap()));
    }

    #[test]
    fn a_denied_root_has_what_is_granted_and_the_links_that_lead_there() {
        let mut rules = vec![(Deny, "/"), (Ro, "/usr"), (Rw, PROJECT)];
        rules.push((Ro, "/link/lib"));

        insta::assert_snapshot!(picture(&plan(&rules).unwrap()));
    }

    #[test]
    fn directories_of_the_machine_are_never_writable() {
        for path in ["/", "/etc", "/usr", "/home", HOME, "/proc/sys", "/dev/pts"] {
            let error = plan(&[(Rw, path)]).unwrap_err();
            assert_eq!(error.step, Step::Paths);
            assert!(error.cause.contains("cannot be made writable"), "{error}");
        }
        assert!(plan(&[(Rw, "/usr/local/lib/x")]).is_ok());
        assert!(plan(&[(Rw, "/dev/shm/x")]).is_ok());
    }

    #[test]
    fn an_unsafe_directory_to_start_in_stays_read_only_and_is_told_of() {
        for cwd in ["/", "/tmp", "/home", HOME] {
            let (policy, mut facts) = world(&[(Rw, cwd)]);
            facts.cwd = cwd.into();

            let plan = compile(&policy, &facts, &request()).unwrap();

            assert!(
                plan.mounts
                    .iter()
                    .all(|step| step.layer != MountLayer::Writable),
                "{cwd}"
            );
            assert!(
                plan.notes.iter().any(|note| note.text.contains("--cwd")),
                "{cwd}"
            );
        }
    }

    #[test]
    fn nothing_is_granted_in_the_profile() {
        let plan = plan(&[
            (Rw, PROJECT),
            (Rw, "/home/ada/.wingthing/x"),
            (Ro, "/home/ada/.wingthing/egg.yaml.f"),
        ])
        .unwrap();

        insta::assert_snapshot!(picture(&plan));
    }

    #[test]
    fn a_profile_in_something_writable_stops_the_start() {
        let (policy, mut facts) = world(&[(Rw, "/srv/work")]);
        facts.profiles = vec![fact("/srv/work/deep/profile")];
        assert!(compile(&policy, &facts, &request()).is_err());

        facts.cwd = "/srv/work".into();
        let plan = compile(&policy, &facts, &request()).unwrap();
        assert_eq!(plan.notes.len(), 1);
        facts.cwd = "/srv/work/deep/profile/eggs".into();
        assert!(compile(&policy, &facts, &request()).is_err());
    }

    #[test]
    fn links_that_a_session_could_replace_grant_nothing_and_are_kept_where_they_protect() {
        let plan_of = |access| plan(&[(Rw, PROJECT), (access, "/home/ada/project/link/x")]);

        assert!(plan_of(Deny).is_err());
        insta::assert_snapshot!(format!(
            "{}\n{}",
            picture(&plan_of(DenyWrite).unwrap()),
            picture(&plan_of(Rw).unwrap())
        ));
    }

    #[test]
    fn a_link_into_something_denied_is_no_way_in() {
        let plan = plan(&[
            (Rw, "/home/ada/.cache/link/keys"),
            (Ro, "/home/ada/.cache/link/known.f"),
            (Deny, "/elsewhere"),
        ])
        .unwrap();

        assert!(
            plan.mounts
                .iter()
                .all(|step| !step.target.starts_with("/elsewhere/"))
        );
        assert_eq!(plan.notes.len(), 2);
    }

    #[test]
    fn the_git_directory_of_a_linked_tree_opens_with_the_tree_alone() {
        let (policy, mut facts) = world(&[(Rw, PROJECT)]);
        let derived = |access, path| DerivedRule {
            access,
            at: fact(path),
            reason: "git".into(),
        };
        facts.derived = vec![
            derived(Rw, "/home/ada/main/.git"),
            derived(DenyWrite, "/home/ada/main/.git/hooks"),
        ];

        insta::assert_snapshot!(picture(&compile(&policy, &facts, &request()).unwrap()));

        let (closed, _) = world(&[(Ro, PROJECT)]);
        let plan = compile(&closed, &facts, &request()).unwrap();
        assert!(
            plan.mounts
                .iter()
                .all(|step| step.layer != MountLayer::Writable)
        );
    }

    #[test]
    fn sockets_and_kernel_mounts_are_masked_where_they_would_be_seen() {
        let (policy, mut facts) = world(&[(Rw, PROJECT), (Deny, "/home/ada/.gnupg")]);
        facts.sockets = [
            "/home/ada/agent.sock",
            "/home/ada/project/dev.sock",
            "/home/ada/.gnupg/S.gpg-agent",
            "/run/docker.sock",
        ]
        .map(String::from)
        .into();
        facts.kernel_mounts = vec!["/srv/chroot/proc".into()];

        let plan = compile(&policy, &facts, &request()).unwrap();

        let masked: Vec<_> = plan
            .mounts
            .iter()
            .filter(|step| step.layer == MountLayer::SocketMask)
            .map(|step| step.target.as_str())
            .collect();
        assert_eq!(masked, ["/home/ada/agent.sock"]);
        assert!(
            plan.mounts
                .iter()
                .any(|step| step.target == "/srv/chroot/proc")
        );
    }

    #[test]
    fn listeners_are_those_that_the_need_asks_for() {
        let (mut policy, facts) = world(&[]);
        let kinds = |policy: &EffectivePolicy| {
            let plan = compile(policy, &facts, &request()).unwrap();
            (plan.network.capture_routes, plan.network.listeners.len())
        };

        // The two that answer that there is no such name.
        assert_eq!(kinds(&policy), (false, 2));
        policy.network.local_ports = vec![wt_policy::Granted {
            value: wt_policy::Port::new(11434).unwrap(),
            source: Source::Default,
        }];
        policy.network.need = NetworkNeed::Local;
        assert_eq!(kinds(&policy), (false, 4));
        policy.network.need = NetworkNeed::Hosts;
        policy.network.hosts = vec![wt_policy::Granted {
            value: "example.com:8443".parse().unwrap(),
            source: Source::Default,
        }];
        // Four fixed ones, three caught ports and the local one in two families.
        assert_eq!(kinds(&policy), (true, 12));
    }
}

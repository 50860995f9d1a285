//! The plan of a session, made for a made-up host, against what its rules say.

use std::collections::{BTreeMap, BTreeSet};

use wt_policy::{
    EffectivePolicy, EnvPolicy, FileAccess, FileRule, Granted, NetworkMode, NetworkNeed,
    NetworkPolicy, Port, Resources, Source,
};
use wt_sandbox::host::{Alias, HostFacts, Link, PathFact, RuleFact};
use wt_sandbox::plan::{
    Identity, ListenerKind, MountAction, MountLayer, MountStep, Plan, Program, Stdio,
};
use wt_sandbox::{Request, compile, listener_address};

use crate::model::names;
use crate::script::Script;

const TOPS: &[&str] = &[
    "/home/ada/p",
    "/home/ada",
    "/home",
    "/srv",
    "/tmp",
    "/run",
    "/",
];
/// `d*` are directories, `f` a file, `gone` nothing, and `l*` may be links.
const NAMES: &[&str] = &[
    "d1",
    "d2",
    "l1",
    "l2",
    "p",
    "f",
    "gone",
    ".wingthing",
    "ada",
    "dev",
];
const MODES: &[FileAccess] = &[
    FileAccess::Rw,
    FileAccess::Ro,
    FileAccess::DenyWrite,
    FileAccess::Deny,
];
const PRIVATE: &[&str] = &["/tmp", "/var/tmp", "/run", "/dev/shm"];
/// The type bits of modes (`S_IFREG`, `S_IFDIR`).
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
/// How many links are followed, as the kernel has it (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// A made-up host and rules for it. The steps of the plan are carried out on a model of a tree
/// of mounts, and then no path shows more of the host than the rule that decides it allows,
/// and nothing stricter inside something writable can be moved away.
pub fn plan(data: &[u8]) {
    let Some(case) = Case::of(data) else {
        return;
    };
    let Ok(plan) = compile(&case.policy, &case.facts, &case.request()) else {
        return;
    };
    for path in case.places() {
        let view = view(&plan.mounts, &path);
        let strictest = case.access(&path);
        let allowed = match strictest {
            FileAccess::Rw => true,
            FileAccess::Ro | FileAccess::DenyWrite => view != View::Writable,
            FileAccess::Deny => !matches!(view, View::Writable | View::Readable),
        };
        assert!(
            allowed,
            "{path} is {view:?} and its rule says {strictest:?}: {:#?}\n{:#?}",
            case.facts, plan.mounts
        );
    }
    for rule in &case.facts.rules {
        let access = case.policy.files[rule.rule].access;
        if rule.at.identity.is_none()
            && access >= FileAccess::DenyWrite
            && view(&plan.mounts, &rule.at.path) == View::Writable
        {
            let said = plan.missing.iter().any(|missing| {
                missing.path == rule.at.path && missing.hidden >= (access == FileAccess::Deny)
            });
            assert!(said, "{} can be made: {:#?}", rule.at.path, plan.mounts);
        }
    }
    nothing_can_be_moved(&plan);
    let sockets: Vec<_> = plan
        .network
        .listeners
        .iter()
        .map(|spec| (listener_address(*spec), spec.kind == ListenerKind::DnsUdp))
        .collect();
    assert_eq!(sockets.iter().collect::<BTreeSet<_>>().len(), sockets.len());
}

struct Case {
    policy: EffectivePolicy,
    facts: HostFacts,
}

impl Case {
    /// `None` for a host that cannot be.
    fn of(data: &[u8]) -> Option<Self> {
        let mut script = Script::new(data);
        let mut host = Host::default();
        for name in script.some(3, |script| path(script, true)) {
            host.links.insert(name, path(&mut script, false));
        }
        let cwd = host.follow(script.pick(&["/home/ada/p", "/srv/d1", "/home/ada", "/tmp/p"]))?;
        let home = host.follow("/home/ada")?;
        let files: Vec<FileRule> = script.some(9, |script| FileRule {
            access: script.pick(MODES),
            path: path(script, false),
            kind: None,
            source: Source::Default,
            reason: None,
        });
        let mut facts = HostFacts {
            cwd: cwd.path.clone(),
            home: home.path.clone(),
            visible: vec![home, cwd],
            uid: 1000,
            gid: 1000,
            private: PRIVATE.iter().map(|path| (*path).to_owned()).collect(),
            well_known: vec!["/dev/null".to_owned(), "/run/current-system".to_owned()],
            ipv6: script.rarely(),
            landlock_abi: 6,
            ..HostFacts::default()
        };
        for (rule, file) in files.iter().enumerate() {
            let at = host.follow(&file.path)?;
            facts.rules.push(RuleFact { rule, at });
        }
        if script.rarely() {
            facts.profiles.push(host.follow("/home/ada/.wingthing")?);
        }
        if script.rarely() {
            facts.program = Some(host.follow(&path(&mut script, false))?);
        }
        if script.rarely() {
            facts.sockets.push(path(&mut script, false));
            facts.kernel_mounts.push(path(&mut script, false));
        }
        if script.rarely() {
            // A second place of something denied.
            let denied = facts.rules.iter().filter(|rule| {
                files[rule.rule].access == FileAccess::Deny && rule.at.identity.is_some()
            });
            let of: Vec<String> = denied.map(|rule| rule.at.path.clone()).collect();
            let at = host.follow(&path(&mut script, false))?;
            if let (Some(of), Some(at)) = (of.first(), at.identity) {
                facts.aliases.push(Alias { of: of.clone(), at });
            }
        }
        facts.resolv_conf = script.rarely().then(|| "/etc/resolv.conf".to_owned());
        let need = script.pick(&[
            NetworkNeed::None,
            NetworkNeed::Local,
            NetworkNeed::Hosts,
            NetworkNeed::Any,
        ]);
        let mode = script.pick(&[NetworkMode::Enforce, NetworkMode::Observe]);
        let ports = script.some(4, |script| script.pick(&[53, 80, 443, 1080, 3000, 3128]));
        let hosts = script.some(3, |script| {
            script.pick(&["a.example:53", "a.example:1080", "*:*", "b.example:3000"])
        });
        let granted = |port: u16| Granted {
            value: Port::new(port).expect("none of them is zero"),
            source: Source::Default,
        };
        let policy = EffectivePolicy {
            agent: None,
            config_source: Source::Default,
            trusted: true,
            files,
            network: NetworkPolicy {
                need,
                hosts: hosts
                    .into_iter()
                    .map(|rule| Granted {
                        value: rule.parse().expect("it is sound"),
                        source: Source::Default,
                    })
                    .collect(),
                local_ports: ports.into_iter().map(granted).collect(),
                mode,
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
        };
        Some(Self { policy, facts })
    }

    fn request(&self) -> Request {
        Request {
            program: Program {
                file: "sh".to_owned(),
                argv: vec!["sh".to_owned()],
                env: Vec::new(),
            },
            stdio: Stdio::Given,
        }
    }

    /// Every place of which something is said, what is around it and what is in it.
    fn places(&self) -> BTreeSet<String> {
        let facts = &self.facts;
        let rules = facts.rules.iter().map(|rule| &rule.at);
        let all = rules.chain(&facts.profiles).chain(&facts.program);
        let aliases = facts.aliases.iter().map(|alias| alias.at.path.as_str());
        let mut places = BTreeSet::new();
        for path in all.map(|at| at.path.as_str()).chain(aliases) {
            let top = path.trim_end_matches('/');
            places.insert(path.to_owned());
            places.insert(format!("{top}/x"));
            places.insert(format!("{top}x"));
        }
        places
    }

    /// What holds at a canonical path: of the rules that lead at or above it to something that
    /// is there, those that lead deepest, and of them the strictest.
    fn access(&self, path: &str) -> FileAccess {
        let facts = &self.facts;
        let is_in = |top: &str| names(path).starts_with(&names(top));
        let hidden = facts.profiles.iter().filter(|at| at.identity.is_some());
        if hidden.clone().any(|at| is_in(&at.path)) {
            return FileAccess::Deny;
        }
        let rules = facts
            .rules
            .iter()
            .filter(|rule| rule.at.identity.is_some())
            .map(|rule| (self.policy.files[rule.rule].access, rule.at.path.as_str()));
        let aliases = facts
            .aliases
            .iter()
            .map(|alias| (FileAccess::Deny, alias.at.path.as_str()));
        let program = facts.program.iter().filter(|at| at.identity.is_some());
        let program = program.map(|at| (FileAccess::DenyWrite, at.path.as_str()));
        let covering: Vec<(usize, FileAccess)> = rules
            .chain(aliases)
            .chain(program)
            .chain([(FileAccess::Ro, "/")])
            .filter(|(_, top)| is_in(top))
            .map(|(access, top)| (names(top).len(), access))
            .collect();
        let deepest = covering.iter().map(|(depth, _)| *depth).max();
        covering
            .iter()
            .filter(|(depth, _)| Some(*depth) == deepest)
            .map(|(_, access)| *access)
            .max()
            .expect("the root is covered")
    }
}

/// A path that is made up, of a link or of anything.
fn path(script: &mut Script<'_>, is_link: bool) -> String {
    let mut path = script.pick(TOPS).trim_end_matches('/').to_owned();
    let shape = script.number(4);
    for _ in 0..shape {
        path.push('/');
        path.push_str(script.pick(NAMES));
    }
    if is_link {
        path.push_str(script.pick(&["/l1", "/l2"]));
    }
    match path.is_empty() {
        true => "/".to_owned(),
        false => path,
    }
}

/// Files of a host, by their names alone.
#[derive(Default)]
struct Host {
    /// Absolute targets by canonical place.
    links: BTreeMap<String, String>,
}

impl Host {
    /// Where a path leads; `None` if it leads in circles.
    fn follow(&self, asked: &str) -> Option<PathFact> {
        let mut rest: Vec<String> = names(asked).into_iter().rev().map(str::to_owned).collect();
        let mut path = String::new();
        let mut links = Vec::new();
        let mut exists = true;
        let mut is_file = false;
        while let Some(name) = rest.pop() {
            let next = format!("{path}/{name}");
            exists &= !is_file && name != "gone";
            match self.links.get(&next).filter(|_| exists) {
                Some(to) => {
                    links.push(Link {
                        path: next,
                        to: to.clone(),
                    });
                    if links.len() > MAX_LINKS {
                        return None;
                    }
                    rest.extend(names(to).into_iter().rev().map(str::to_owned));
                    path = String::new();
                }
                None => {
                    is_file = name == "f";
                    path = next;
                }
            }
        }
        if path.is_empty() {
            path.push('/');
        }
        let identity = exists.then(|| Identity {
            path: path.clone(),
            dev: 1,
            ino: path.bytes().fold(7, |sum: u64, b| {
                sum.wrapping_mul(31).wrapping_add(u64::from(b))
            }),
            kind: if is_file { REGULAR } else { DIRECTORY },
        });
        Some(PathFact {
            asked: asked.to_owned(),
            path,
            identity,
            links,
        })
    }
}

/// What a session has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// The host's, writable.
    Writable,
    /// The host's, read-only.
    Readable,
    /// Something of the session's own, or nothing.
    Own,
}

/// What was mounted last at or above a path.
fn view(mounts: &[MountStep], path: &str) -> View {
    let path = names(path);
    let mut view = View::Own;
    for step in mounts {
        if !path.starts_with(&names(&step.target)) {
            continue;
        }
        match &step.action {
            MountAction::HostTree => view = View::Readable,
            MountAction::Bind {
                source, writable, ..
            } => {
                assert_eq!(source, &step.target);
                view = match writable {
                    true => View::Writable,
                    false => View::Readable,
                };
            }
            MountAction::Tmpfs { .. }
            | MountAction::HideDirectory
            | MountAction::HideFile
            | MountAction::EmptyDirectory
            | MountAction::Proc
            | MountAction::DevPts
            | MountAction::Mqueue
            | MountAction::File { .. } => view = View::Own,
            MountAction::Pin
            | MountAction::Freeze
            | MountAction::PinLink
            | MountAction::Seal
            | MountAction::MakeDirectory { .. }
            | MountAction::MakeLink { .. } => {}
        }
    }
    view
}

/// Each folder between something writable and something stricter in it is a mount of its own,
/// so that the session cannot move it away and make another in its place.
fn nothing_can_be_moved(plan: &Plan) {
    let of_rules = [MountLayer::Protected, MountLayer::Denied, MountLayer::Core];
    let stricter = plan
        .mounts
        .iter()
        .filter(|step| of_rules.contains(&step.layer));
    for step in stricter {
        let around = plan.mounts.iter().rposition(|outer| {
            matches!(outer.action, MountAction::Bind { writable: true, .. })
                && outer.target != step.target
                && names(&step.target).starts_with(&names(&outer.target))
                && view(&plan.mounts, above(&step.target)) == View::Writable
        });
        let Some(around) = around else {
            continue;
        };
        let outer = &plan.mounts[around].target;
        let mut at = above(&step.target);
        while at != outer {
            let is_pinned = plan.mounts[..around]
                .iter()
                .any(|pin| pin.target == at && pin.action == MountAction::Pin);
            assert!(is_pinned, "{at} can be moved away: {:#?}", plan.mounts);
            at = above(at);
        }
    }
}

fn above(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((above, _)) => above,
    }
}

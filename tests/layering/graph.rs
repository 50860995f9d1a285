//! Rules over the graph of dependencies: what a package must never reach.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand};
use wt_tests::process::project_root;

use crate::assert_none;

/// The packages of the relay: bytes pass through them and are never opened.
const RELAY: &[&str] = &["wt-relay", "wt-relay-core"];

/// What could open a sealed byte.
const OPENERS: &[&str] = &["wt-crypto", "snow", "aes-gcm", "x25519-dalek"];

/// The packages that decide and never act.
const CORES: &[&str] = &["wt-protocol", "wt-crypto", "wt-relay-core", "wt-policy"];

/// What acts: runtimes, sockets and system calls.
const ACTORS: &[&str] = &["tokio", "quinn", "nix", "mio", "socket2"];

/// The one package that may name a crate, by crate.
const OWNERS: &[(&str, &str)] = &[("snow", "wt-crypto")];

/// Packages by name, each with the names that it reaches in one step.
///
/// Two versions of one package are one node: a rule about a name holds for all of them.
#[derive(Debug, Default)]
struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
    /// What our own manifests name, tests included.
    named: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads what cargo resolved: normal and build dependencies, every feature, every target.
    fn from_metadata(metadata: &Metadata) -> Self {
        let name_of: BTreeMap<_, _> = metadata
            .packages
            .iter()
            .map(|package| (&package.id, package.name.to_string()))
            .collect();
        let mut graph = Self::default();
        let resolve = metadata
            .resolve
            .as_ref()
            .expect("metadata with dependencies has a resolved graph");
        for node in &resolve.nodes {
            let edges = graph.edges.entry(name_of[&node.id].clone()).or_default();
            let built = node.deps.iter().filter(|dep| {
                dep.dep_kinds
                    .iter()
                    .any(|kind| kind.kind != DependencyKind::Development)
            });
            edges.extend(built.map(|dep| name_of[&dep.pkg].clone()));
        }
        for package in metadata.workspace_packages() {
            let names = package.dependencies.iter().map(|dep| dep.name.clone());
            graph
                .named
                .insert(package.name.to_string(), names.collect());
        }
        graph
    }

    /// A shortest path of dependencies, if there is one.
    fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut queue = VecDeque::from([vec![from.to_owned()]]);
        let mut seen = BTreeSet::from([from.to_owned()]);
        while let Some(path) = queue.pop_front() {
            let last = path.last().expect("a path starts with a package");
            if last == to {
                return Some(path);
            }
            for next in self.edges.get(last).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    queue.push_back([&path[..], std::slice::from_ref(next)].concat());
                }
            }
        }
        None
    }

    /// Every way from one of the packages to one of the forbidden ones.
    fn forbidden_paths(&self, from: &[&str], to: &[&str]) -> Vec<String> {
        let mut breaches = Vec::new();
        for start in from {
            if !self.edges.contains_key(*start) {
                breaches.push(format!("{start} does not exist: the rule about it is void"));
            }
            for end in to {
                let path = self.path(start, end);
                breaches.extend(path.map(|path| path.join(" -> ")));
            }
        }
        breaches
    }

    /// Every package that names a crate which belongs to another.
    fn foreign_names(&self, owners: &[(&str, &str)]) -> Vec<String> {
        let mut breaches = Vec::new();
        for (crate_name, owner) in owners {
            for (package, names) in &self.named {
                if package != owner && names.contains(*crate_name) {
                    breaches.push(format!("{package} names {crate_name}, which is {owner}'s"));
                }
            }
        }
        breaches
    }
}

fn project() -> Graph {
    let metadata = MetadataCommand::new()
        .manifest_path(project_root().join("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("cargo can describe the project");
    Graph::from_metadata(&metadata)
}

/// A project of a relay, cores and a crypto package, with the given further edge.
fn made_up(from: &str, to: &str) -> Graph {
    let edges = [
        ("wt-relay", "wt-relay-core"),
        ("wt-relay", "quinn"),
        ("wt-relay-core", "wt-protocol"),
        ("wt-policy", "serde"),
        ("wt-crypto", "snow"),
        ("snow", "aes-gcm"),
        ("quinn", "tokio"),
        ("tokio", "mio"),
        (from, to),
    ];
    let mut graph = Graph::default();
    for (from, to) in edges {
        graph.edges.entry(to.to_owned()).or_default();
        let next = graph.edges.entry(from.to_owned()).or_default();
        next.insert(to.to_owned());
        let named = graph.named.entry(from.to_owned()).or_default();
        named.insert(to.to_owned());
    }
    graph
}

#[test]
fn the_relay_has_no_path_to_what_could_open_a_session() {
    let breaches = project().forbidden_paths(RELAY, OPENERS);

    assert_none(
        "the relay must not be able to open what it carries",
        &breaches,
    );
}

#[test]
fn the_paths_that_there_are_are_found() {
    let project = project();

    assert!(project.path("wt-crypto", "snow").is_some());
    assert!(project.path("wt", "x25519-dalek").is_some());
    assert!(project.path("wt-relay", "tokio").is_some());
}

#[test]
fn a_relay_with_a_path_to_the_crypto_package_is_found() {
    let sound = made_up("wt-relay", "quinn");
    let broken = made_up("wt-protocol", "wt-crypto");

    assert!(sound.forbidden_paths(RELAY, OPENERS).is_empty());
    assert_eq!(
        broken.forbidden_paths(&["wt-relay"], &["snow"]),
        ["wt-relay -> wt-relay-core -> wt-protocol -> wt-crypto -> snow"]
    );
}

#[test]
fn the_cores_have_no_path_to_runtimes_and_sockets() {
    let breaches = project().forbidden_paths(CORES, ACTORS);

    assert_none("a core decides and never acts", &breaches);
}

#[test]
fn a_core_with_a_path_to_a_runtime_is_found() {
    let sound = made_up("wt-relay", "tokio");
    let broken = made_up("wt-protocol", "tokio");

    assert!(sound.forbidden_paths(CORES, ACTORS).is_empty());
    assert_eq!(
        broken.forbidden_paths(&["wt-relay-core"], &["mio"]),
        ["wt-relay-core -> wt-protocol -> tokio -> mio"]
    );
}

#[test]
fn a_rule_about_a_package_that_is_gone_does_not_pass_in_silence() {
    let graph = made_up("wt-relay", "quinn");

    assert_eq!(graph.forbidden_paths(&["wt-renamed"], OPENERS).len(), 1);
}

#[test]
fn one_package_alone_names_the_handshake_crate() {
    let breaches = project().foreign_names(OWNERS);

    assert_none("a crate behind a facade is named there alone", &breaches);
}

#[test]
fn a_second_package_that_names_the_handshake_crate_is_found() {
    let sound = made_up("wt-wing", "wt-crypto");
    let broken = made_up("wt-wing", "snow");

    assert!(sound.foreign_names(OWNERS).is_empty());
    assert_eq!(
        broken.foreign_names(OWNERS),
        ["wt-wing names snow, which is wt-crypto's"]
    );
}

#[test]
fn test_dependencies_are_no_edges_but_build_dependencies_are() {
    let node = |id: &str, deps: &str| {
        format!(r#"{{"id":"{id}","deps":[{deps}],"dependencies":[],"features":[]}}"#)
    };
    let dep = |id: &str, kind: &str| {
        format!(r#"{{"name":"{id}","pkg":"{id}","dep_kinds":[{{"kind":{kind},"target":null}}]}}"#)
    };
    let package = |id: &str| {
        format!(
            r#"{{"name":"{id}","version":"1.0.0","id":"{id}","dependencies":[],"targets":[],
            "features":{{}},"manifest_path":"/x/Cargo.toml"}}"#
        )
    };
    let nodes = [
        node(
            "ours",
            &[
                dep("used", "null"),
                dep("builds", "\"build\""),
                dep("tests", "\"dev\""),
            ]
            .join(","),
        ),
        node("used", ""),
        node("builds", ""),
        node("tests", ""),
    ];
    let text = format!(
        r#"{{"packages":[{}],"workspace_members":["ours"],"resolve":{{"nodes":[{}],"root":null}},
        "workspace_root":"/x","target_directory":"/x/target","version":1}}"#,
        ["ours", "used", "builds", "tests"].map(package).join(","),
        nodes.join(",")
    );

    let graph = Graph::from_metadata(&MetadataCommand::parse(text).expect("valid metadata"));

    assert!(graph.path("ours", "used").is_some());
    assert!(graph.path("ours", "builds").is_some());
    assert!(graph.path("ours", "tests").is_none());
}

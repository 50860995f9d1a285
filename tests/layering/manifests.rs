//! Rules over the manifests: one table of versions, one set of lints, no stray package.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use wt_tests::process::project_root;

use crate::assert_none;

/// A manifest, cut into its sections without comments and blank lines.
struct Manifest {
    path: String,
    sections: Vec<(String, Vec<String>)>,
}

impl Manifest {
    fn parse(path: &str, text: &str) -> Self {
        let mut sections = vec![(String::new(), Vec::new())];
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.strip_prefix('[') {
                // A section, or one of an array of sections; a list's last line is neither.
                Some(name) if line.ends_with(']') && !line.contains(',') => {
                    let name = name.trim_matches(['[', ']']);
                    sections.push((name.to_owned(), Vec::new()));
                }
                Some(_) | None => {
                    let (_, lines) = sections.last_mut().expect("there is always a section");
                    lines.push(line.to_owned());
                }
            }
        }
        Self {
            path: path.to_owned(),
            sections,
        }
    }

    /// Dependencies whose version or path is said here and not in the workspace's table.
    fn own_versions(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        for (name, lines) in &self.sections {
            let last = name.rsplit('.').next().unwrap_or_default();
            if name.contains("dependencies.") {
                let says_workspace = lines.iter().any(|line| line == "workspace = true");
                if !says_workspace {
                    breaches.push(format!("{}: [{name}] is not the workspace's", self.path));
                }
            } else if last.ends_with("dependencies") {
                let own = lines
                    .iter()
                    .filter(|line| !inherits(line))
                    .map(|line| format!("{}: {line}", self.path));
                breaches.extend(own);
            }
        }
        breaches
    }

    /// Whether the package takes the workspace's lints as they are.
    fn inherits_lints(&self) -> bool {
        self.sections
            .iter()
            .any(|(name, lines)| name == "lints" && lines == &["workspace = true"])
    }
}

/// Whether the line of a dependency takes its version from the workspace.
fn inherits(line: &str) -> bool {
    match line.split_once('=') {
        Some((key, value)) => {
            let dotted = key.trim_end().ends_with(".workspace") && value.trim() == "true";
            dotted || value.replace(' ', "").contains("workspace=true")
        }
        // A continued list of features.
        None => line.starts_with('"') || line.starts_with(']') || line.starts_with('}'),
    }
}

/// The manifests of packages below a directory; what is built or fetched is skipped.
fn package_manifests(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_skipped = name == "target" || name == "node_modules" || name == ".git";
            if path.is_dir() && !is_skipped {
                dirs.push(path);
            } else if name == "Cargo.toml"
                && std::fs::read_to_string(&path).is_ok_and(|text| text.contains("[package]"))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn project() -> Vec<Manifest> {
    let manifests = package_manifests(&project_root());
    assert!(manifests.len() > 5, "only {manifests:?} were found");
    manifests
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).expect("a manifest can be read");
            Manifest::parse(&path.display().to_string(), &text)
        })
        .collect()
}

/// Packages that exist and are no member.
fn strays(packages: &[PathBuf], members: &BTreeSet<PathBuf>) -> Vec<String> {
    packages
        .iter()
        .filter(|path| !members.contains(*path))
        .map(|path| format!("{} is no member of the workspace", path.display()))
        .collect()
}

#[test]
fn versions_are_said_in_the_workspace_table_alone() {
    let breaches: Vec<String> = project().iter().flat_map(Manifest::own_versions).collect();

    assert_none(
        "a dependency is named once, in the root manifest",
        &breaches,
    );
}

#[test]
fn a_version_in_a_package_is_found() {
    let own = |text: &str| Manifest::parse("x", text).own_versions().len();

    assert_eq!(own("[dependencies]\na.workspace = true\n# b = \"1\"\n"), 0);
    assert_eq!(
        own("[dependencies]\na = { workspace = true, features = [\"x\"] }\n"),
        0
    );
    assert_eq!(
        own("[dependencies.a]\nworkspace = true\nfeatures = [\"x\"]\n"),
        0
    );
    assert_eq!(own("[package]\nname = \"a\"\n"), 0);

    assert_eq!(own("[dependencies]\na = \"1\"\n"), 1);
    assert_eq!(own("[dev-dependencies]\na = { version = \"1\" }\n"), 1);
    assert_eq!(own("[build-dependencies]\na.path = \"../a\"\n"), 1);
    assert_eq!(own("[target.'cfg(unix)'.dependencies]\na = \"1\"\n"), 1);
    assert_eq!(own("[dependencies.a]\nversion = \"1\"\n"), 1);
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    let breaches: Vec<String> = project()
        .into_iter()
        .filter(|manifest| !manifest.inherits_lints())
        .map(|manifest| manifest.path)
        .collect();

    assert_none("lints are inherited", &breaches);
}

#[test]
fn a_package_with_lints_of_its_own_is_found() {
    let inherits = |text: &str| Manifest::parse("x", text).inherits_lints();

    assert!(inherits("[lints]\nworkspace = true\n"));
    assert!(!inherits("[package]\nname = \"x\"\n"));
    assert!(!inherits("[lints.rust]\nunsafe_code = \"allow\"\n"));
}

#[test]
fn every_package_is_a_member() {
    let root = project_root();
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo can describe the project");
    let members: BTreeSet<PathBuf> = metadata
        .workspace_packages()
        .iter()
        .map(|package| package.manifest_path.clone().into_std_path_buf())
        .collect();

    assert_none(
        "a package that is no member is never built",
        &strays(&package_manifests(&root), &members),
    );
}

#[test]
fn a_package_that_is_no_member_is_found() {
    let packages = [PathBuf::from("a/Cargo.toml"), PathBuf::from("b/Cargo.toml")];
    let members = BTreeSet::from([PathBuf::from("a/Cargo.toml")]);

    assert_eq!(
        strays(&packages, &members),
        ["b/Cargo.toml is no member of the workspace"]
    );
}

//! That no layer can be taken out of the product: the suite edits plans, and nothing else can.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use memchr::memmem;
use wt_tests::process::project_root;

use crate::runner::{Special, Verdict};

/// Words that a switch for taking out layers would have in its name.
const WORDS: &[&str] = &[
    "ablate",
    "ABLATE",
    "ablation",
    "ABLATION",
    "without-layer",
    "WITHOUT_LAYER",
];

pub(crate) const SPECIAL: &[Special] = &[
    Special {
        id: "AB-01",
        what: "the product depends on the suite",
        run: the_product_does_not_depend_on_the_suite,
    },
    Special {
        id: "AB-02",
        what: "the built program knows a word for taking out layers",
        run: the_built_program_has_no_word_for_it,
    },
    Special {
        id: "AB-03",
        what: "the sandbox obeys a variable or a feature",
        run: the_sandbox_obeys_no_variable_and_no_feature,
    },
    Special {
        id: "AB-04",
        what: "an option of the program takes out a layer",
        run: no_option_takes_out_a_layer,
    },
];

fn metadata() -> Result<Metadata, cargo_metadata::Error> {
    MetadataCommand::new()
        .manifest_path(project_root().join("Cargo.toml"))
        .other_options(["--locked".to_owned(), "--offline".to_owned()])
        .exec()
}

fn the_product_does_not_depend_on_the_suite() -> Verdict {
    let metadata = match metadata() {
        Ok(metadata) => metadata,
        Err(error) => {
            return Verdict::Skipped(format!("cargo does not run for this user: {error}"));
        }
    };
    let resolve = metadata.resolve.as_ref().unwrap();
    let named = |name: &str| {
        metadata
            .packages
            .iter()
            .find(|p| p.name.as_str() == name)
            .unwrap()
    };
    let reaches = |start: &str, end: &str| {
        let end = &named(end).id;
        let mut queue = vec![named(start).id.clone()];
        let mut seen = BTreeSet::new();
        while let Some(id) = queue.pop() {
            if id == *end {
                return true;
            }
            let Some(node) = resolve.nodes.iter().find(|node| node.id == id) else {
                continue;
            };
            for dep in &node.deps {
                let is_built = dep
                    .dep_kinds
                    .iter()
                    .any(|k| k.kind != DependencyKind::Development);
                if is_built && seen.insert(dep.pkg.clone()) {
                    queue.push(dep.pkg.clone());
                }
            }
        }
        false
    };
    if reaches("wt", "wt-tests") {
        return Verdict::Fails("wt reaches wt-tests".to_owned());
    }
    // The control: the same search finds what is there.
    if !reaches("wt", "wt-sandbox") || !reaches("wt-tests", "wt-sandbox") {
        return Verdict::Fails("the search finds nothing".to_owned());
    }
    let with_features: Vec<_> = ["wt", "wt-sandbox", "wt-policy", "wt-egg", "wt-wing"]
        .into_iter()
        .filter(|name| named(name).features.keys().any(|f| f != "default"))
        .collect();
    if !with_features.is_empty() {
        return Verdict::Fails(format!(
            "{with_features:?} have features, which could change them"
        ));
    }
    Verdict::Holds("wt reaches wt-sandbox, not wt-tests; no feature changes them".to_owned())
}

/// The program beside this one.
fn program() -> Option<std::path::PathBuf> {
    let own = std::env::current_exe().unwrap();
    let path = own.parent()?.parent()?.join("wt");
    path.is_file().then_some(path)
}

fn words_in(file: &Path) -> Vec<&'static str> {
    let bytes = fs::read(file).unwrap();
    let found = |word: &&&str| memmem::find(&bytes, word.as_bytes()).is_some();
    WORDS.iter().filter(found).copied().collect()
}

fn the_built_program_has_no_word_for_it() -> Verdict {
    let Some(program) = program() else {
        return Verdict::Skipped("the program wt is not built".to_owned());
    };
    // The control: the suite has them.
    if words_in(&std::env::current_exe().unwrap()).is_empty() {
        return Verdict::Fails("the search finds nothing where they are".to_owned());
    }
    let found = words_in(&program);
    if found.is_empty() {
        Verdict::Holds("none of its bytes".to_owned())
    } else {
        Verdict::Fails(format!("{} has {found:?}", program.display()))
    }
}

/// Sources below a folder, without their tests.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
                let text = fs::read_to_string(&path).unwrap();
                let code = text
                    .split("#[cfg(test)]\n#[allow")
                    .next()
                    .unwrap_or_default();
                found.push((path.display().to_string(), code.to_owned()));
            }
        }
    }
    found
}

fn the_sandbox_obeys_no_variable_and_no_feature() -> Verdict {
    let sandbox = sources(&project_root().join("wing/sandbox/src"));
    let policy = sources(&project_root().join("wing/policy/src"));
    if sandbox.len() < 10 || policy.len() < 10 {
        return Verdict::Fails("the sources are not found".to_owned());
    }
    let forbidden = [
        "env::var",
        "var_os(",
        "cfg(feature",
        "option_env!",
        "cfg!(feature",
        "debug_assertions",
    ];
    let found: Vec<String> = sandbox
        .iter()
        .chain(&policy)
        .flat_map(|(path, code)| {
            let hits = forbidden.iter().filter(|word| code.contains(**word));
            hits.map(move |word| format!("{path}: {word}"))
        })
        .collect();
    // The control: another package reads variables.
    let others = sources(&project_root().join("wing/cli/src"));
    if !others.iter().any(|(_, code)| code.contains("env::var")) {
        return Verdict::Fails("the search finds nothing where something is".to_owned());
    }
    if found.is_empty() {
        Verdict::Holds(format!(
            "{} files read neither",
            sandbox.len() + policy.len()
        ))
    } else {
        Verdict::Fails(found.join(", "))
    }
}

fn no_option_takes_out_a_layer() -> Verdict {
    let Some(program) = program() else {
        return Verdict::Skipped("the program wt is not built".to_owned());
    };
    // The names that attestations use, and the usual words for switching off.
    let layers = [
        "seccomp",
        "landlock",
        "namespace",
        "keyring",
        "rlimit",
        "capabilities",
    ];
    let mut seen = 0;
    for words in [
        &["egg", "--help"][..],
        &["terminal", "--help"],
        &["--help"],
        &["start", "--help"],
    ] {
        let output = std::process::Command::new(&program)
            .args(words)
            .env_clear()
            .output()
            .unwrap();
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        seen += help.matches("--").count();
        let found = help
            .split_whitespace()
            .find(|word| word.starts_with("--") && layers.iter().any(|layer| word.contains(layer)));
        if let Some(option) = found {
            return Verdict::Fails(format!("{words:?} has {option}"));
        }
    }
    if seen == 0 {
        return Verdict::Fails("no option was found at all".to_owned());
    }
    Verdict::Holds(format!("{seen} options, none of a layer"))
}

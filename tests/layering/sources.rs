//! Rules over the sources: where `unsafe` may stand.

use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use wt_tests::process::project_root;

use crate::assert_none;

/// What every crate says at its head.
const FORBID: &str = "#![forbid(unsafe_code)]";

/// What a crate says that may lift the ban in single places.
const DENY: &str = "#![deny(unsafe_code)]";

/// The files in which `unsafe` may stand, each with the head of its crate.
///
/// The child of a terminal must make it its controlling one between fork and exec.
/// A boundary is made of system calls that no library wraps.
const MAY_BE_UNSAFE: &[(&str, &str)] = &[
    ("wing/egg/src/pty.rs", "wing/egg/src/lib.rs"),
    ("wing/sandbox/src/sys/kernel.rs", "wing/sandbox/src/lib.rs"),
    ("wing/sandbox/src/sys/mount.rs", "wing/sandbox/src/lib.rs"),
    ("wing/sandbox/src/sys/process.rs", "wing/sandbox/src/lib.rs"),
    // What attacks the boundary makes the same calls.
    ("tests/escape/probe/raw.rs", "tests/escape/probe/main.rs"),
];

/// Crates whose head cannot promise it, because a macro of the fuzzing engine exports a
/// symbol there. They are still searched for the keyword.
const ENGINE_ENTRIES: &[&str] = &["fuzz/src/bin/fuzz_target.rs"];

/// What a crate's head lacks, if anything.
fn missing_promise(head: &str, text: &str) -> Option<String> {
    let may_lift = MAY_BE_UNSAFE.iter().any(|(_, lifted)| head == *lifted);
    let says = |promise| text.lines().any(|line| line.trim() == promise);
    let promised = ENGINE_ENTRIES.contains(&head) || says(FORBID) || (may_lift && says(DENY));
    (!promised).then(|| format!("{head} does not say {FORBID}"))
}

/// Where the keyword stands in a source file that may not have it.
fn unsafe_uses(path: &str, text: &str) -> Vec<String> {
    if MAY_BE_UNSAFE.iter().any(|(file, _)| path == *file) {
        return Vec::new();
    }
    code_lines(text)
        .filter(|(_, code)| has_word(code, "unsafe"))
        .map(|(number, code)| format!("{path}:{number}: {}", code.trim()))
        .collect()
}

/// The lines of a source file without comments and the insides of plain strings.
///
/// A block comment or a string over many lines is taken for code: that can only find too
/// much, and then the line is better written another way.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().map(|(index, line)| {
        let mut code = String::new();
        let mut in_string = false;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if in_string => {
                    chars.next();
                }
                '"' => in_string = !in_string,
                '/' if !in_string && chars.peek() == Some(&'/') => break,
                _ if in_string => {}
                _ => code.push(c),
            }
        }
        (index + 1, code)
    })
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|found| found == word)
}

/// The Rust files below a directory; what is built is skipped.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_skipped = name == "target" || name == "node_modules" || name == ".git";
            if path.is_dir() && !is_skipped {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(project_root())
        .unwrap_or(path)
        .display()
        .to_string()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a source file can be read")
}

#[test]
fn every_crate_forbids_unsafe_code_at_its_head() {
    let metadata = MetadataCommand::new()
        .manifest_path(project_root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo can describe the project");
    let breaches: Vec<String> = metadata
        .workspace_packages()
        .iter()
        .flat_map(|package| &package.targets)
        .filter(|target| target.is_lib() || target.is_bin())
        .map(|target| target.src_path.clone().into_std_path_buf())
        .filter_map(|path| missing_promise(&relative(&path), &read(&path)))
        .collect();

    assert_none("crates promise to be safe", &breaches);
}

#[test]
fn a_crate_without_the_promise_is_found() {
    assert_eq!(
        missing_promise("a/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n"),
        None
    );
    assert_eq!(
        missing_promise("wing/egg/src/lib.rs", "#![deny(unsafe_code)]\n"),
        None
    );

    assert!(missing_promise("a/lib.rs", "//! A.\n").is_some());
    assert!(missing_promise("a/lib.rs", "#![deny(unsafe_code)]\n").is_some());
    assert!(missing_promise("a/lib.rs", "// #![forbid(unsafe_code)]\n").is_some());
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let root = project_root();
    let files = sources(&root);
    assert!(files.len() > 10, "only {files:?} were found");
    let breaches: Vec<String> = files
        .iter()
        .flat_map(|path| unsafe_uses(&relative(path), &read(path)))
        .collect();

    assert_none("unsafe code stands in listed files alone", &breaches);
}

#[test]
fn unsafe_elsewhere_is_found() {
    assert!(unsafe_uses("a.rs", "// unsafe\nlet s = \"unsafe\"; // unsafe {\n").is_empty());
    assert!(unsafe_uses("a.rs", "#![forbid(unsafe_code)]\n").is_empty());
    assert!(unsafe_uses("wing/egg/src/pty.rs", "unsafe { f() }\n").is_empty());

    assert_eq!(
        unsafe_uses("a.rs", "fn f() {\n    unsafe { g() }\n}\n"),
        ["a.rs:2: unsafe { g() }"]
    );
    assert_eq!(
        unsafe_uses("wing/egg/src/lib.rs", "unsafe impl Send for X {}\n").len(),
        1
    );
}

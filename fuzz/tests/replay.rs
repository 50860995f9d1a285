//! Replays every corpus, on stable and without an engine.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wt_fuzz::TARGETS;

#[test]
fn every_input_of_every_corpus_passes() {
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            let data = fs::read(&input).unwrap();
            println!("{}", input.display());
            target(&data);
            // What an engine would try first: cut short, and with one byte changed.
            for end in 0..data.len().min(256) {
                target(&data[..end]);
                let mut changed = data.clone();
                changed[end] ^= 0x20;
                target(&changed);
            }
        }
    }
}

#[test]
fn every_corpus_belongs_to_a_target() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let folders: BTreeSet<String> = fs::read_dir(corpora())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();

    assert_eq!(folders, names);
}

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora")
}

fn inputs(name: &str) -> Vec<PathBuf> {
    let mut inputs: Vec<PathBuf> = fs::read_dir(corpora().join(name))
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    inputs.sort();
    inputs
}

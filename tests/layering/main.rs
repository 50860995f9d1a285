//! Holds the package boundaries: who may depend on whom, and what each crate promises.
//!
//! Every rule is a function from plain data to a list of breaches. It runs once over the
//! project as cargo sees it, and once over a small made-up project that breaks it: a rule
//! that cannot fail is no rule.
#![forbid(unsafe_code)]

mod graph;
mod manifests;
mod sources;

/// Says all breaches of a rule at once.
///
/// # Panics
/// When there is one.
#[track_caller]
fn assert_none(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}

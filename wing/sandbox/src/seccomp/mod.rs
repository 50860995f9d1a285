//! Which system calls a session may make.
//!
//! The rules are data with reasons; this module compiles them into one program of classic BPF and
//! installs it. A filter of our own has several errors in one program, ranges of
//! numbers, and a test that runs it, all of which the crates for it lack.
//!
//! Costs: the numbers are found by halving, so a call passes seven or eight comparisons. For
//! a call that no rule names, the kernel (since 5.11) sees by itself that the answer never
//! depends on arguments and does not run the program again at all.

mod asm;
mod numbers;
mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use libc::sock_filter;
use serde::{Deserialize, Serialize};

use crate::sys::kernel;
use crate::{EnforcementError, Step};
use asm::{Action, Assembler, Label, argument, op};
pub use numbers::Arch;
pub use rules::{Answer, Rule, Test};

/// The filter of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeccompPlan {
    /// Which rules.
    pub profile: SeccompProfile,
    /// Whether refused calls are noted in the kernel's log. Default: no, since programs try
    /// what they may not all the time.
    pub log: bool,
}

/// A set of rules for system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeccompProfile {
    /// For programs of all kinds: what is dangerous is refused, see [`rules`].
    Develop,
    /// For the first process of a session: what it does not need answers `EPERM`.
    Init,
}

/// The filter that a plan asks for, for the architecture of this program.
pub fn filter(plan: &SeccompPlan) -> Vec<sock_filter> {
    filter_for(Arch::NATIVE, plan.profile)
}

/// The filter of a session's first process, for the architecture of this program.
pub fn init_filter() -> Vec<sock_filter> {
    filter_for(Arch::NATIVE, SeccompProfile::Init)
}

/// The filter of an architecture.
pub fn filter_for(arch: Arch, profile: SeccompProfile) -> Vec<sock_filter> {
    match profile {
        SeccompProfile::Develop => compile(arch, rules::AGENT, Unnamed::Allowed),
        SeccompProfile::Init => {
            compile(arch, rules::INIT_RULES, Unnamed::AllowedAmong(rules::INIT))
        }
    }
}

/// The rules of a session's filter, for documents and `wt egg explain`.
///
/// In front of them: another architecture kills the process, and numbers that Linux
/// 6.18 does not know (those of x32 among them) answer `ENOSYS`.
pub fn rules() -> &'static [Rule] {
    rules::AGENT
}

/// Puts a filter over the calling thread and all that it starts, for good.
///
/// # Errors
///
/// When the kernel refuses it: it wants `no_new_privs` set before, see
/// [`crate::privileges::no_new_privileges`].
pub fn install(filter: &[sock_filter], log: bool) -> Result<(), EnforcementError> {
    kernel::install_filter(filter, log)
        .map_err(|e| EnforcementError::system(Step::Seccomp, "installing the filter", &e))
}

/// What happens to calls that exist and that no rule names.
#[derive(Clone, Copy)]
enum Unnamed {
    Allowed,
    AllowedAmong(&'static [&'static str]),
}

/// What happens to a call, before the program for it is written.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Decision {
    Always(Action),
    /// The rules that look at arguments, in their order; allowed if none of them fits.
    Asks(Vec<usize>),
}

fn compile(arch: Arch, rules: &[Rule], unnamed: Unnamed) -> Vec<sock_filter> {
    let intervals = intervals(&decisions(arch, rules, unnamed));
    let mut asm = Assembler::default();
    let mut chains = HashMap::new();
    for (_, decision) in &intervals {
        if let Decision::Asks(asked) = decision
            && !chains.contains_key(asked)
        {
            let entry = chain(&mut asm, rules, asked);
            chains.insert(asked.clone(), entry);
        }
    }
    let search = halve(&mut asm, &intervals, &chains);
    let numbered = asm.load(asm::NUMBER, search);
    let foreign = asm.answer(Action::KillProcess);
    let checked = asm.branch(op::EQUAL, arch.audit_value(), numbered, foreign);
    let entry = asm.load(asm::ARCH, checked);
    asm.finish(entry)
}

/// What happens to each number up to the last known one.
fn decisions(arch: Arch, rules: &[Rule], unnamed: Unnamed) -> BTreeMap<u32, Decision> {
    // Looked up once: a session waits for this.
    let allowed: Option<BTreeSet<u32>> = match unnamed {
        Unnamed::Allowed => None,
        Unnamed::AllowedAmong(calls) => {
            Some(calls.iter().filter_map(|call| arch.number(call)).collect())
        }
    };
    let listed = |number| {
        allowed
            .as_ref()
            .is_none_or(|allowed| allowed.contains(&number))
    };
    let base = |number| {
        if listed(number) {
            Action::Allow
        } else {
            errno(Answer::Eperm)
        }
    };
    let mut decisions: BTreeMap<u32, Decision> = arch
        .known()
        .iter()
        .flat_map(Clone::clone)
        .map(|number| (number, Decision::Always(base(number))))
        .collect();
    for (index, rule) in rules.iter().enumerate() {
        for number in rule.calls.iter().filter_map(|call| arch.number(call)) {
            let before = decisions.get_mut(&number);
            let decision = before.expect("every number of a rule is a known one");
            match decision {
                Decision::Always(Action::Allow) if rule.when.is_empty() => {
                    *decision = Decision::Always(errno(rule.answer));
                }
                Decision::Always(Action::Allow) => *decision = Decision::Asks(vec![index]),
                // What is refused already stays refused.
                Decision::Always(_) => {}
                Decision::Asks(asked) => asked.push(index),
            }
        }
    }
    decisions
}

/// The same as ranges, each by its first number, over all numbers there are.
fn intervals(decisions: &BTreeMap<u32, Decision>) -> Vec<(u32, Decision)> {
    let unknown = Decision::Always(errno(Answer::Enosys));
    let mut intervals: Vec<(u32, Decision)> = Vec::new();
    let mut add = |start, decision: &Decision| {
        if intervals.last().is_none_or(|(_, last)| last != decision) {
            intervals.push((start, decision.clone()));
        }
    };
    let mut next = 0;
    for (&number, decision) in decisions {
        if number != next {
            add(next, &unknown);
        }
        add(number, decision);
        next = number + 1;
    }
    // This one holds the numbers of x32 too, which have bit 30 set.
    add(next, &unknown);
    intervals
}

/// Writes the search for a number's range.
fn halve(
    asm: &mut Assembler,
    intervals: &[(u32, Decision)],
    chains: &HashMap<Vec<usize>, Label>,
) -> Label {
    match intervals {
        [] => unreachable!("the ranges cover all numbers"),
        [(_, Decision::Always(action))] => asm.answer(*action),
        [(_, Decision::Asks(asked))] => chains[asked],
        _ => {
            let (lower, upper) = intervals.split_at(intervals.len() / 2);
            let start = upper[0].0;
            let upper = halve(asm, upper, chains);
            let lower = halve(asm, lower, chains);
            asm.branch(op::AT_LEAST, start, upper, lower)
        }
    }
}

/// Writes the questions of all rules for one call; the first that fits decides.
fn chain(asm: &mut Assembler, rules: &[Rule], asked: &[usize]) -> Label {
    let allowed = asm.answer(Action::Allow);
    asked.iter().rev().fold(allowed, |next, &index| {
        let rule = &rules[index];
        let refused = asm.answer(errno(rule.answer));
        rule.when
            .iter()
            .rev()
            .fold(refused, |holds, test| ask(asm, test, holds, next))
    })
}

/// Writes one question.
fn ask(asm: &mut Assembler, test: &Test, holds: Label, otherwise: Label) -> Label {
    let (found, absent) = if test.among {
        (holds, otherwise)
    } else {
        (otherwise, holds)
    };
    let compared = test.values.iter().rev().fold(absent, |next, &value| {
        asm.branch(op::EQUAL, value, found, next)
    });
    let masked = if test.mask == u32::MAX {
        compared
    } else {
        asm.mask(test.mask, compared)
    };
    asm.load(argument(test.argument), masked)
}

fn errno(answer: Answer) -> Action {
    Action::Errno(u16::try_from(answer.errno()).expect("errors are small numbers"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

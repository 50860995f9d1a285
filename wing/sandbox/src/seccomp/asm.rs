//! A small assembler for the programs that decide about system calls.
//!
//! A program is put together from its end. All its jumps lead forward, so the target of each
//! is known when the jump is written; and a jump that is too long for the eight bits of a
//! condition gets a stepping stone on the way.

use std::collections::HashMap;

use libc::sock_filter;

/// Where the fields of `struct seccomp_data` stand (`linux/seccomp.h`).
pub(super) const NUMBER: u32 = 0;
/// See [`NUMBER`].
pub(super) const ARCH: u32 = 4;

/// The low word of an argument. Both architectures are little-endian.
pub(super) fn argument(index: u8) -> u32 {
    16 + 8 * u32::from(index)
}

/// Instructions of classic BPF, as `linux/bpf_common.h` encodes them.
pub(super) mod op {
    /// Loads a word of the data.
    pub(in super::super) const LOAD: u16 = 0x20;
    /// Masks the accumulator with a constant.
    pub(in super::super) const AND: u16 = 0x54;
    /// Jumps without condition.
    pub(in super::super) const JUMP: u16 = 0x05;
    /// Jumps if equal.
    pub(in super::super) const EQUAL: u16 = 0x15;
    /// Jumps if greater or equal, unsigned.
    pub(in super::super) const AT_LEAST: u16 = 0x35;
    /// Ends with an answer.
    pub(in super::super) const RETURN: u16 = 0x06;
}

/// What the kernel does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Allow,
    Errno(u16),
    KillProcess,
}

impl Action {
    pub(super) fn value(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | u32::from(errno),
            Self::KillProcess => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// An instruction that can be jumped to: how many stand from it to the end, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// How far a condition may jump. A condition has two targets, and the stepping stone of one
/// moves the other away by one, so a little less than the 255 that fit.
const REACH: usize = 250;

/// A program that grows from its end.
#[derive(Default)]
pub(super) struct Assembler {
    reversed: Vec<sock_filter>,
    /// The nearest instruction for each answer.
    returns: HashMap<Action, Label>,
}

impl Assembler {
    /// An answer: one that stands near, or one more.
    pub(super) fn answer(&mut self, action: Action) -> Label {
        if let Some(&label) = self.returns.get(&action)
            && self.distance(label) <= REACH
        {
            return label;
        }
        let label = self.push(op::RETURN, action.value(), 0, 0);
        self.returns.insert(action, label);
        label
    }

    /// Loads a word and goes on.
    pub(super) fn load(&mut self, offset: u32, then: Label) -> Label {
        self.falls_to(then);
        self.push(op::LOAD, offset, 0, 0)
    }

    /// Masks the word and goes on.
    pub(super) fn mask(&mut self, mask: u32, then: Label) -> Label {
        self.falls_to(then);
        self.push(op::AND, mask, 0, 0)
    }

    /// Goes on at one of two places, by a condition on the word.
    pub(super) fn branch(&mut self, condition: u16, value: u32, yes: Label, no: Label) -> Label {
        let yes = self.near(yes);
        let no = self.near(no);
        let jump = |label| {
            u8::try_from(self.distance(label)).expect("targets of a condition are made near")
        };
        let (yes, no) = (jump(yes), jump(no));
        self.push(condition, value, yes, no)
    }

    /// The program that starts at `entry`, in the order of its execution.
    pub(super) fn finish(mut self, entry: Label) -> Vec<sock_filter> {
        self.falls_to(entry);
        self.reversed.reverse();
        self.reversed
    }

    /// How many instructions a jump written next would skip.
    fn distance(&self, label: Label) -> usize {
        self.reversed.len() - label.0
    }

    /// A place from which `label` is reached and that a condition reaches.
    fn near(&mut self, label: Label) -> Label {
        if self.distance(label) <= REACH {
            label
        } else {
            self.jump(label)
        }
    }

    /// Makes sure that what is written next falls through to `label`.
    fn falls_to(&mut self, label: Label) {
        if self.distance(label) != 0 {
            self.jump(label);
        }
    }

    fn jump(&mut self, label: Label) -> Label {
        let skipped = u32::try_from(self.distance(label)).expect("programs are short");
        self.push(op::JUMP, skipped, 0, 0)
    }

    fn push(&mut self, code: u16, k: u32, jt: u8, jf: u8) -> Label {
        self.reversed.push(sock_filter { code, jt, jf, k });
        Label(self.reversed.len())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    /// Runs a program as the kernel would, and says what it answers and after how many steps.
    pub(in super::super) fn run(program: &[sock_filter], data: &[u32; 16]) -> (u32, usize) {
        let mut word = 0;
        let mut at = 0;
        for steps in 1..=program.len() {
            let step = &program[at];
            at += 1;
            let chosen = |holds| usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                op::LOAD => {
                    assert_eq!(step.k % 4, 0);
                    word = data[step.k as usize / 4];
                }
                op::AND => word &= step.k,
                op::JUMP => at += step.k as usize,
                op::EQUAL => at += chosen(word == step.k),
                op::AT_LEAST => at += chosen(word >= step.k),
                op::RETURN => return (step.k, steps),
                other => panic!("unknown instruction {other:#x}"),
            }
        }
        panic!("the program did not end");
    }

    #[test]
    fn a_far_answer_is_written_again() {
        let mut asm = Assembler::default();
        let first = asm.answer(Action::Allow);
        let mut label = asm.answer(Action::Errno(1));
        for n in 0..400 {
            label = asm.mask(n, label);
        }

        let again = asm.answer(Action::Allow);

        assert_ne!(first, again);
    }

    #[test]
    fn conditions_reach_over_any_distance() {
        let mut asm = Assembler::default();
        let far_yes = asm.answer(Action::Errno(7));
        let far_no = asm.answer(Action::Errno(9));
        let mut label = asm.answer(Action::Allow);
        for _ in 0..600 {
            label = asm.mask(u32::MAX, label);
        }
        let entry = asm.branch(op::EQUAL, 5, far_yes, far_no);
        let entry = asm.load(NUMBER, entry);
        let program = asm.finish(entry);

        let answer = |number| {
            let mut data = [0; 16];
            data[0] = number;
            run(&program, &data).0
        };
        assert_eq!(answer(5), Action::Errno(7).value());
        assert_eq!(answer(6), Action::Errno(9).value());
    }
}

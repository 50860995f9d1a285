//! The filters, run instruction by instruction and in the kernel.

use std::collections::HashSet;
use std::io;
use std::thread;

use libc::c_long;

use super::asm::tests::run;
use super::*;
use crate::privileges::no_new_privileges;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];
const PROFILES: [SeccompProfile; 2] = [SeccompProfile::Develop, SeccompProfile::Init];

/// `struct seccomp_data` of a call.
fn data(arch: Arch, number: u32, arguments: [u64; 6]) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = number;
    words[1] = arch.audit_value();
    for (at, argument) in arguments.into_iter().enumerate() {
        words[4 + 2 * at] = argument as u32;
        words[5 + 2 * at] = (argument >> 32) as u32;
    }
    words
}

/// What a filter answers to a call by name.
fn ask(arch: Arch, call: &str, arguments: [u64; 6]) -> u32 {
    let program = filter_for(arch, SeccompProfile::Develop);
    let number = arch.number(call).unwrap();
    run(&program, &data(arch, number, arguments)).0
}

fn refused(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

/// The rules themselves, without any program.
struct Model {
    arch: Arch,
    /// The calls that are not refused from the start; `None`: all.
    listed: Option<HashSet<u32>>,
    rules: Vec<(HashSet<u32>, &'static Rule)>,
}

impl Model {
    fn new(arch: Arch, profile: SeccompProfile) -> Self {
        let numbers = |calls: &[&str]| calls.iter().filter_map(|c| arch.number(c)).collect();
        let (rules, listed) = match profile {
            SeccompProfile::Develop => (rules::AGENT, None),
            SeccompProfile::Init => (rules::INIT_RULES, Some(numbers(rules::INIT))),
        };
        Self {
            arch,
            listed,
            rules: rules.iter().map(|r| (numbers(r.calls), r)).collect(),
        }
    }

    fn answer(&self, number: u32, arguments: [u64; 6]) -> u32 {
        if !self
            .arch
            .known()
            .iter()
            .any(|range| range.contains(&number))
        {
            return refused(libc::ENOSYS);
        }
        if self
            .listed
            .as_ref()
            .is_some_and(|listed| !listed.contains(&number))
        {
            return refused(libc::EPERM);
        }
        self.rules
            .iter()
            .filter(|(calls, _)| calls.contains(&number))
            .find(|(_, rule)| {
                rule.when.iter().all(|test| {
                    let word = arguments[usize::from(test.argument)] as u32 & test.mask;
                    test.values.contains(&word) == test.among
                })
            })
            .map_or(ALLOW, |(_, rule)| refused(rule.answer.errno()))
    }

    fn looks_at_arguments(&self, number: u32) -> bool {
        self.rules
            .iter()
            .any(|(calls, rule)| !rule.when.is_empty() && calls.contains(&number))
    }
}

/// Values that some rule tells apart, with their neighbours, and with high bits on top.
fn telling_values() -> Vec<u64> {
    let tests = rules::AGENT
        .iter()
        .chain(rules::INIT_RULES)
        .flat_map(|rule| rule.when);
    let mut values: HashSet<u32> = HashSet::from([0, 1, 2, 5, u32::MAX]);
    for test in tests {
        values.extend(test.values);
        values.extend(test.values.iter().map(|v| v ^ 1));
        values.extend((0..32).map(|bit| test.mask & 1 << bit));
    }
    let mut values: Vec<u64> = values.into_iter().map(u64::from).collect();
    values.sort_unstable();
    values
        .iter()
        .flat_map(|&v| [v, v | 0xdead_beef << 32])
        .collect()
}

#[test]
fn programs_answer_as_the_rules_say_for_every_number() {
    let values = telling_values();
    for arch in ARCHES {
        for profile in PROFILES {
            let program = filter_for(arch, profile);
            let model = Model::new(arch, profile);
            let x32 = (0..600).map(|n| n | 0x4000_0000);
            for number in (0..600).chain(x32).chain([999, u32::MAX - 1, u32::MAX]) {
                let check = |arguments: [u64; 6]| {
                    assert_eq!(
                        run(&program, &data(arch, number, arguments)).0,
                        model.answer(number, arguments),
                        "{arch:?} {profile:?} call {number} {arguments:x?}"
                    );
                };
                if !model.looks_at_arguments(number) {
                    check([0; 6]);
                    check([u64::MAX; 6]);
                    continue;
                }
                for &value in &values {
                    for at in 0..3 {
                        let mut arguments = [0; 6];
                        arguments[at] = value;
                        check(arguments);
                    }
                }
            }
        }
    }
}

#[test]
fn sockets_answer_as_the_rules_say_for_all_combinations() {
    let protocols = [0, 1, 6, 17, 33, 132, 136, 255, 262, 1 << 32 | 6];
    for arch in ARCHES {
        for profile in PROFILES {
            let program = filter_for(arch, profile);
            let model = Model::new(arch, profile);
            let number = arch.number("socket").unwrap();
            for family in (0..64).chain([1 << 32 | 2, 1 << 32 | 40]) {
                for kind in 0..16 {
                    for protocol in protocols {
                        let arguments = [family, kind | 0o2_004_000, protocol, 0, 0, 0];
                        assert_eq!(
                            run(&program, &data(arch, number, arguments)).0,
                            model.answer(number, arguments),
                            "{arch:?} {profile:?} socket {arguments:x?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn another_architecture_kills() {
    for arch in ARCHES {
        for profile in PROFILES {
            let program = filter_for(arch, profile);
            // 32-bit x86 and 32-bit ARM, and the other one of ours.
            for foreign in [0x4000_0003, 0x4000_0028, 0] {
                let mut call = data(arch, 0, [0; 6]);
                call[1] = foreign;
                assert_eq!(run(&program, &call).0, libc::SECCOMP_RET_KILL_PROCESS);
            }
        }
    }
    let mut call = data(Arch::X86_64, 0, [0; 6]);
    call[1] = Arch::Aarch64.audit_value();
    let program = filter_for(Arch::X86_64, SeccompProfile::Develop);
    assert_eq!(run(&program, &call).0, libc::SECCOMP_RET_KILL_PROCESS);
}

#[test]
fn numbers_of_x32_and_of_later_kernels_do_not_exist() {
    for arch in ARCHES {
        let program = filter_for(arch, SeccompProfile::Develop);
        for number in [470, 471, 512, 999, 0x4000_0000 | 101, 0x4000_0000, u32::MAX] {
            assert_eq!(
                run(&program, &data(arch, number, [0; 6])).0,
                refused(libc::ENOSYS),
                "{arch:?} {number}"
            );
        }
    }
}

#[test]
fn namespaces_cannot_be_made() {
    for arch in ARCHES {
        for flag in [
            libc::CLONE_NEWNS,
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
            0x80,
        ] {
            let flag = flag as u64;
            let eperm = refused(libc::EPERM);
            assert_eq!(ask(arch, "clone", [flag | 17, 0, 0, 0, 0, 0]), eperm);
            assert_eq!(ask(arch, "unshare", [flag, 0, 0, 0, 0, 0]), eperm);
        }
        let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD;
        assert_eq!(ask(arch, "clone", [thread as u64, 0, 0, 0, 0, 0]), ALLOW);
        assert_eq!(
            ask(arch, "clone", [libc::SIGCHLD as u64, 0, 0, 0, 0, 0]),
            ALLOW
        );
        assert_eq!(
            ask(arch, "unshare", [libc::CLONE_FS as u64, 0, 0, 0, 0, 0]),
            ALLOW
        );
        assert_eq!(ask(arch, "clone3", [0; 6]), refused(libc::ENOSYS));
    }
}

#[test]
fn debuggers_may_work() {
    let x86 = filter_for(Arch::X86_64, SeccompProfile::Develop);
    for number in [libc::SYS_ptrace, libc::SYS_process_vm_readv] {
        let number = u32::try_from(number).unwrap();
        assert_eq!(run(&x86, &data(Arch::X86_64, number, [0; 6])).0, ALLOW);
    }
    assert_eq!(
        ask(Arch::X86_64, "personality", [0x4_0000, 0, 0, 0, 0, 0]),
        ALLOW
    );
    assert_eq!(
        ask(Arch::X86_64, "personality", [0x40_0000, 0, 0, 0, 0, 0]),
        refused(libc::EPERM)
    );
}

#[test]
fn terminal_requests_are_told_by_their_low_word() {
    for high in [0, 1 << 32, 0xffff_ffff << 32] {
        assert_eq!(
            ask(Arch::X86_64, "ioctl", [0, 0x5412 | high, 0, 0, 0, 0]),
            refused(libc::EPERM)
        );
        // TIOCGWINSZ and FIONREAD.
        assert_eq!(
            ask(Arch::X86_64, "ioctl", [0, 0x5413 | high, 0, 0, 0, 0]),
            ALLOW
        );
        assert_eq!(
            ask(Arch::X86_64, "ioctl", [0, 0x541b | high, 0, 0, 0, 0]),
            ALLOW
        );
    }
}

#[test]
fn set_user_id_is_refused_and_other_modes_are_not() {
    let eperm = refused(libc::EPERM);
    assert_eq!(ask(Arch::X86_64, "chmod", [0, 0o4755, 0, 0, 0, 0]), eperm);
    assert_eq!(ask(Arch::X86_64, "fchmod", [0, 0o6755, 0, 0, 0, 0]), eperm);
    assert_eq!(
        ask(Arch::Aarch64, "fchmodat", [0, 0, 0o4000, 0, 0, 0]),
        eperm
    );
    assert_eq!(
        ask(Arch::Aarch64, "fchmodat2", [0, 0, 0o4000, 0, 0, 0]),
        eperm
    );
    assert_eq!(
        ask(Arch::X86_64, "mknodat", [0, 0, 0o104_755, 0, 0, 0]),
        eperm
    );
    assert_eq!(ask(Arch::X86_64, "chmod", [0, 0o2775, 0, 0, 0, 0]), ALLOW);
    assert_eq!(
        ask(Arch::X86_64, "fchmodat", [0, 0o4000, 0o755, 0, 0, 0]),
        ALLOW
    );
}

#[test]
fn a_call_costs_few_steps_and_programs_are_short() {
    for arch in ARCHES {
        let program = filter_for(arch, SeccompProfile::Develop);
        let steps = (0..470)
            .map(|number| run(&program, &data(arch, number, [0; 6])).1)
            .max();

        assert!(program.len() < 400, "{}", program.len());
        assert!(steps < Some(40), "{steps:?}");
        let read = arch.number("read").unwrap();
        assert!(run(&program, &data(arch, read, [0; 6])).1 <= 12);
    }
}

#[test]
fn rules_are_named_once_with_a_reason_and_none_is_dead() {
    let mut names = HashSet::new();
    for rule in rules::AGENT.iter().chain(rules::INIT_RULES) {
        assert!(names.insert(rule.name), "{} stands twice", rule.name);
        assert!(!rule.reason.is_empty() && !rule.calls.is_empty());
    }
    let values = telling_values();
    for (index, rule) in rules::AGENT.iter().enumerate() {
        // Without the rule, some call is answered otherwise.
        let mut others = rules::AGENT.to_vec();
        others.remove(index);
        let with = compile(Arch::X86_64, rules::AGENT, Unnamed::Allowed);
        let without = compile(Arch::X86_64, &others, Unnamed::Allowed);
        let number = Arch::X86_64.number(rule.calls[0]).unwrap();
        let differs = values.iter().any(|&a| {
            (0..3).any(|at| {
                [0, 2, 16].into_iter().any(|family| {
                    let mut arguments = [family, 1, 0, 0, 0, 0];
                    arguments[at] = a;
                    let call = data(Arch::X86_64, number, arguments);
                    run(&with, &call).0 != run(&without, &call).0
                })
            })
        });
        assert!(differs, "{} changes nothing", rule.name);
    }
}

/// Runs something in a thread with a filter of its own.
fn filtered<T: Send>(profile: SeccompProfile, act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                no_new_privileges().unwrap();
                install(
                    &filter(&SeccompPlan {
                        profile,
                        log: false,
                    }),
                    false,
                )
                .unwrap();
                act()
            })
            .join()
            .unwrap()
    })
}

fn errno_of(result: io::Result<c_long>) -> i32 {
    result.map_or_else(|e| e.raw_os_error().unwrap(), |_| 0)
}

#[test]
fn an_installed_filter_refuses_what_the_kernel_would_do() {
    let calls: [(&str, c_long, [u64; 6], i32); 8] = [
        (
            "vsock",
            libc::SYS_socket,
            [40, 1, 0, 0, 0, 0],
            libc::EAFNOSUPPORT,
        ),
        (
            "mptcp",
            libc::SYS_socket,
            [2, 1, 262, 0, 0, 0],
            libc::EPROTONOSUPPORT,
        ),
        (
            "keyctl",
            libc::SYS_keyctl,
            [0, u64::MAX - 2, 0, 0, 0, 0],
            libc::EPERM,
        ),
        (
            "unshare files",
            libc::SYS_unshare,
            [0x400, 0, 0, 0, 0, 0],
            0,
        ),
        (
            "unshare users",
            libc::SYS_unshare,
            [0x1000_0000, 0, 0, 0, 0, 0],
            libc::EPERM,
        ),
        (
            "personality",
            libc::SYS_personality,
            [0x40_0000, 0, 0, 0, 0, 0],
            libc::EPERM,
        ),
        (
            "query",
            libc::SYS_personality,
            [0xffff_ffff, 0, 0, 0, 0, 0],
            0,
        ),
        ("unknown", 999, [0; 6], libc::ENOSYS),
    ];

    let answers = filtered(SeccompProfile::Develop, || {
        calls.map(|(name, number, arguments, _)| (name, errno_of(kernel::raw(number, arguments))))
    });

    assert_eq!(answers, calls.map(|(name, _, _, errno)| (name, errno)));
    // Without the filter the same calls get into the kernel.
    let query = kernel::raw(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]);
    assert_eq!(errno_of(query), 0);
    let refused_by_kernel = kernel::raw(libc::SYS_socket, [2, 1, 262, 0, 0, 0]);
    assert!(matches!(errno_of(refused_by_kernel), 0 | libc::ENOPROTOOPT));
}

#[test]
fn x32_numbers_do_not_reach_the_kernel() {
    if Arch::NATIVE != Arch::X86_64 {
        return;
    }
    // getpid of x32.
    let answer = filtered(SeccompProfile::Develop, || {
        errno_of(kernel::raw(0x4000_0000 + 39, [0; 6]))
    });

    assert_eq!(answer, libc::ENOSYS);
}

#[test]
fn programs_start_and_threads_run_under_the_filter() {
    let output = filtered(SeccompProfile::Develop, || {
        let sum = thread::spawn(|| (1..=10).sum::<u32>()).join().unwrap();
        let output = std::process::Command::new("/bin/sh")
            .args([
                "-c",
                "echo $((6 * 7)) | cat; unshare -U true 2>/dev/null; echo $?",
            ])
            .output()
            .unwrap();
        assert_eq!(sum, 55);
        output
    });

    assert_eq!(String::from_utf8(output.stdout).unwrap(), "42\n1\n");
}

#[test]
fn the_first_process_of_a_session_can_open_nothing() {
    let (open, socket, alive) = filtered(SeccompProfile::Init, || {
        (
            errno_of(kernel::raw(libc::SYS_openat, [u64::MAX, 0, 0, 0, 0, 0])),
            errno_of(kernel::raw(libc::SYS_socket, [1, 1, 0, 0, 0, 0])),
            errno_of(kernel::raw(libc::SYS_getpid, [0; 6])),
        )
    });

    assert_eq!((open, socket, alive), (libc::EPERM, libc::EAFNOSUPPORT, 0));
}

#[test]
fn a_filter_without_no_new_privileges_is_refused() {
    let error = thread::scope(|scope| {
        scope
            .spawn(|| {
                // Who administers the machine may install one without.
                kernel::clear_capabilities().unwrap();
                install(&init_filter(), false)
            })
            .join()
            .unwrap()
    });

    assert_eq!(error.unwrap_err().step, Step::Seccomp);
}

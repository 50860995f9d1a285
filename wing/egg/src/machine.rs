//! Which machine, boot and process namespace a process id or a lock belongs to.
//!
//! A profile may lie in a home folder that several hosts or containers share. A process id
//! that one of them wrote down means another process on the next, a Unix socket leads
//! nowhere there, and a lock may not be seen at all. So whoever writes down a process id
//! writes this beside it, and whoever reads it asks [`Machine::relation`] first.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// A place in which process ids mean something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The host's name, as people know it.
    pub hostname: String,
    /// A short sum of `/etc/machine-id`, empty where there is none. The id itself is to be
    /// kept out of other files, machine-id(5).
    pub machine: String,
    /// The kernel's boot, `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The process namespace, by the number of its file in `/proc`: containers on one kernel
    /// have the same boot and each their own process ids. 0 where it cannot be told.
    pub pid_namespace: u64,
}

/// What a record of some machine means on this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Its process ids and locks are those that are seen here.
    Here,
    /// It is this machine before its last start: its processes are gone.
    Earlier,
    /// It is another machine or container: nothing can be told of its processes, and nothing
    /// may be done to them.
    Elsewhere,
}

impl Machine {
    /// The machine that this process runs on, read once: a process stays where it is.
    pub fn here() -> &'static Self {
        static HERE: OnceLock<Machine> = OnceLock::new();
        HERE.get_or_init(Self::read)
    }

    fn read() -> Self {
        let read = |path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().to_owned()
        };
        let id = read("/etc/machine-id");
        Self {
            hostname: read("/proc/sys/kernel/hostname"),
            machine: if id.is_empty() { id } else { short_sum(&id) },
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            pid_namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino()),
        }
    }

    /// What a record of `self` means on `here`.
    ///
    /// `is_held` is whether the lock that goes with the record is held, as far as it is seen
    /// on `here`: over a network some locks are not.
    pub fn relation(&self, here: &Self, is_held: bool) -> Relation {
        let same_place = self.boot_id == here.boot_id && self.pid_namespace == here.pid_namespace;
        // A container that was made again under its name, or a machine that was restarted.
        let same_name = self.hostname == here.hostname && self.machine == here.machine;
        if same_place {
            Relation::Here
        } else if same_name && !is_held {
            Relation::Earlier
        } else {
            Relation::Elsewhere
        }
    }
}

/// FNV-1a in 64 bits: enough to tell machines apart, too little to get the id back.
fn short_sum(text: &str) -> String {
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(hostname: &str, machine: &str, boot: &str, namespace: u64) -> Machine {
        Machine {
            hostname: hostname.to_owned(),
            machine: machine.to_owned(),
            boot_id: boot.to_owned(),
            pid_namespace: namespace,
        }
    }

    #[test]
    fn this_machine_is_here() {
        let here = Machine::here();

        assert!(!here.boot_id.is_empty() && !here.hostname.is_empty());
        assert_ne!(here.pid_namespace, 0);
        assert_eq!(here.relation(here, false), Relation::Here);
        assert_eq!(here.relation(here, true), Relation::Here);
    }

    #[test]
    fn a_restart_is_told_from_another_machine() {
        let here = machine("desk", "m1", "b2", 1);
        let relation = |of: Machine, is_held| of.relation(&here, is_held);

        // The same machine a boot ago; its processes cannot hold a lock any more.
        assert_eq!(
            relation(machine("desk", "m1", "b1", 1), false),
            Relation::Earlier
        );
        assert_eq!(
            relation(machine("desk", "m1", "b1", 1), true),
            Relation::Elsewhere
        );
        // Other hosts, also one whose disk was copied with its machine id.
        for other in [
            machine("lap", "m2", "b1", 1),
            machine("lap", "m1", "b1", 1),
            machine("desk", "m2", "b1", 1),
        ] {
            assert_eq!(relation(other, false), Relation::Elsewhere);
        }
    }

    #[test]
    fn containers_on_one_kernel_are_told_apart() {
        let here = machine("one", "", "b", 1);
        let relation = |of: Machine, is_held| of.relation(&here, is_held);

        assert_eq!(relation(machine("one", "", "b", 1), true), Relation::Here);
        assert_eq!(
            relation(machine("two", "", "b", 2), false),
            Relation::Elsewhere
        );
        assert_eq!(
            relation(machine("two", "", "b", 2), true),
            Relation::Elsewhere
        );
        // The same container, made again: what it ran is gone, unless a lock says otherwise.
        assert_eq!(
            relation(machine("one", "", "b", 2), false),
            Relation::Earlier
        );
        assert_eq!(
            relation(machine("one", "", "b", 2), true),
            Relation::Elsewhere
        );
        // A host that was renamed while it runs is still itself.
        assert_eq!(relation(machine("old", "", "b", 1), true), Relation::Here);
    }

    #[test]
    fn the_id_of_a_machine_is_not_written_down() {
        assert_eq!(short_sum(""), "cbf29ce484222325");
        assert_ne!(short_sum("a"), short_sum("b"));
    }
}

//! The state of the machine beside the numbers, and what processes cost.

use std::fs;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::Serialize;

/// What the numbers were measured on.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// Processors that this process may use.
    pub(crate) cores: usize,
    /// What the first of them calls itself.
    pub(crate) cpu: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Load averages over 1, 5 and 15 minutes before the run.
    pub(crate) load_before: String,
    /// The same after it.
    pub(crate) load_after: String,
    /// How much the kernel gives a socket's receive buffer at most, in bytes.
    pub(crate) rmem_max: String,
    /// `release`, or `debug`, whose numbers mean nothing.
    pub(crate) build: &'static str,
}

impl Machine {
    /// Looks at the machine before a run.
    pub(crate) fn look() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu,
            kernel: one_line("/proc/sys/kernel/osrelease"),
            load_before: load(),
            load_after: String::new(),
            rmem_max: one_line("/proc/sys/net/core/rmem_max"),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
        }
    }

    /// The same machine after the run.
    pub(crate) fn after(self) -> Self {
        Self {
            load_after: load(),
            ..self
        }
    }
}

fn load() -> String {
    let line = one_line("/proc/loadavg");
    line.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn one_line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// CPU time that a process used so far with all its threads, in user space and in the kernel;
/// none when it is gone. From the process's own clock, because `/proc` counts in hundredths of
/// a second, as long as a small transfer costs.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    let clock = clock_getcpuclockid(pid).ok()?;
    Some(clock_gettime(clock).ok()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_some_time_and_a_missing_one_none() {
        assert!(cpu_time(std::process::id()) > Some(Duration::ZERO));
        assert_eq!(cpu_time(u32::MAX), None);
        // The kernel gives no id above 2^22.
        assert_eq!(cpu_time((1 << 22) + 1), None);
    }
}

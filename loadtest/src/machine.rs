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

/// The fields of a process's state from the third on, its state letter; none when it is gone.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything.
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// When a process started, in clock ticks since the boot: with its id, what tells it from all
/// others. None when it is gone or only waits to be collected.
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    (fields.first()? != "Z").then_some(())?;
    fields.get(19)?.parse().ok()
}

/// Clock ticks of computing that a process used so far, 10 ms each; none when it is gone.
pub(crate) fn ticks(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(field(11)? + field(12)?)
}

/// Whether a process is stopped.
pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state == "T"))
}

/// The proportional set size of a process in MiB: its own memory, and of what it shares with
/// others its part.
pub(crate) fn pss(pid: u32) -> Option<f64> {
    mebibytes(&format!("/proc/{pid}/smaps_rollup"), "Pss")
}

/// The resident set of a process in MiB.
pub(crate) fn rss(pid: u32) -> Option<f64> {
    mebibytes(&format!("/proc/{pid}/status"), "VmRSS")
}

/// The largest resident set that a process ever had, in MiB.
pub(crate) fn peak_rss(pid: u32) -> Option<f64> {
    mebibytes(&format!("/proc/{pid}/status"), "VmHWM")
}

fn mebibytes(path: &str, name: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: f64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib / 1024.0)
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
    #[test]
    fn this_process_has_memory_and_runs_and_a_missing_one_does_not() {
        let pid = std::process::id();

        assert!(rss(pid) > Some(0.0));
        assert!(peak_rss(pid) >= rss(pid));
        assert!(pss(pid) > Some(0.0));
        assert!(ticks(pid).is_some() && started_at(pid) > Some(0));
        assert!(!is_stopped(pid));
        for missing in [(1 << 22) + 1, u32::MAX] {
            assert_eq!(pss(missing), None);
            assert_eq!(ticks(missing), None);
            assert_eq!(started_at(missing), None);
            assert!(!is_stopped(missing));
        }
    }
}

//! The processes below an egg, and how they are ended.
//!
//! The egg is the subreaper of all it starts (prctl(2), `PR_SET_CHILD_SUBREAPER`): a
//! grandchild whose parent ended becomes the egg's own child, so nothing that a session
//! started can leave its tree, and no computing time that it used can get lost.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use crate::limits::CLOCK_TICK;

/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How long the kernel may take to end what was killed. A process in an uninterruptible
/// wait can take longer; then the end is not claimed.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// How often the tree is looked at while it ends.
const POLL: Duration = Duration::from_millis(20);

/// Ends the program and everything below this process: asks first, then kills.
///
/// Returns whether nothing is left.
pub async fn end_tree(program: u32) -> bool {
    let group = Pid::from_raw(program as i32);
    // SIGHUP is what a closed terminal means to a shell, SIGTERM what an end means to the rest.
    for signal in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGCONT] {
        let _ = killpg(group, signal);
    }
    let start = Instant::now();
    while start.elapsed() < GRACE {
        if descendants().is_empty() {
            return true;
        }
        sleep(POLL).await;
    }
    while start.elapsed() < GRACE + KILL_DEADLINE {
        let left = descendants();
        if left.is_empty() {
            return true;
        }
        for pid in left {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
        sleep(POLL).await;
    }
    descendants().is_empty()
}

/// Living processes below this one, at any depth. A zombie counts as gone.
pub fn descendants() -> Vec<u32> {
    let lives = |(pid, stat): (u32, Stat)| (stat.state != 'Z').then_some(pid);
    tree().into_iter().filter_map(lives).collect()
}

/// The computing time of all that ever ran below this process.
///
/// Of a process that ended it counts once its parent waited for it, as the kernel adds it
/// to the parent then; a parent that lets the kernel forget its children loses it.
pub fn computed_below() -> Duration {
    let own_children = read_stat(std::process::id()).map_or(0, |stat| stat.ticks_of_ended);
    let below = tree()
        .into_iter()
        .map(|(_, stat)| stat.ticks + stat.ticks_of_ended);
    let ticks = below.fold(own_children, u64::saturating_add);
    CLOCK_TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// All processes below this one, at any depth, zombies too.
fn tree() -> Vec<(u32, Stat)> {
    let mut children: HashMap<u32, Vec<(u32, Stat)>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Some(stat) = read_stat(pid) else { continue };
        children.entry(stat.parent).or_default().push((pid, stat));
    }
    let mut found = Vec::new();
    let mut next = vec![std::process::id()];
    while let Some(parent) = next.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        next.extend(below.iter().map(|(pid, _)| *pid));
        found.extend(below);
    }
    found
}

/// Closes what this process inherited beyond its three standard descriptors.
///
/// For processes that outlive whoever started them: a pipe or a lock of the starter's that
/// they held on to would hang the starter's own readers. Called before anything is opened.
pub fn close_inherited() {
    const STANDARD: i32 = 2;
    let names = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let numbers: Vec<i32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > STANDARD)
        .collect();
    for number in numbers {
        // That of the list itself is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    read_stat(pid).is_some_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// Whether a process runs. A zombie that nobody reaped does not.
pub fn is_running(pid: u32) -> bool {
    read_stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// The id of this boot: process ids of another boot mean nothing.
pub fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .map(|id| id.trim().to_owned())
}

struct Stat {
    state: char,
    parent: u32,
    /// Clock ticks that it computed for.
    ticks: u64,
    /// The same of its children that ended and were waited for.
    ticks_of_ended: u64,
}

/// Reads a process's state, parent and times from proc_pid_stat(5).
fn read_stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, brackets too.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // utime, stime, cutime and cstime are fields 14 to 17; the parent is field 4.
    let mut times = fields.skip(9).map(|field| field.parse().unwrap_or(0));
    let mut both = || Some(times.next()? + times.next()?);
    Some(Stat {
        state,
        parent,
        ticks: both()?,
        ticks_of_ended: both()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_below_this_one_are_found_at_any_depth() {
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60 & echo $!; wait'"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();

        assert!(descendants().contains(&sleeper));

        kill(Pid::from_raw(sleeper as i32), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        assert!(!descendants().contains(&sleeper));
    }

    #[test]
    fn what_was_computed_below_this_process_is_counted_also_after_its_end() {
        let before = computed_below();
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let status = Command::new("sh").args(["-c", script]).status().unwrap();

        assert!(status.success());
        assert!(computed_below() > before);
    }
}

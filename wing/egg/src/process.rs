//! The processes below an egg, and how they are ended.
//!
//! The egg is the subreaper of all it starts (prctl(2), `PR_SET_CHILD_SUBREAPER`): a
//! grandchild whose parent ended becomes the egg's own child, so nothing that a session
//! started can leave its tree.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

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
    let mut children: HashMap<u32, Vec<(u32, bool)>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Some(stat) = read_stat(pid) else { continue };
        children
            .entry(stat.parent)
            .or_default()
            .push((pid, stat.state != 'Z'));
    }
    let mut found = Vec::new();
    let mut next = vec![std::process::id()];
    while let Some(parent) = next.pop() {
        for &(pid, lives) in children.get(&parent).into_iter().flatten() {
            next.push(pid);
            if lives {
                found.push(pid);
            }
        }
    }
    found
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
}

/// Reads state and parent of a process from proc_pid_stat(5).
fn read_stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, brackets too.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Stat { state, parent })
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
}

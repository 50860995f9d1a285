//! Looking at processes and ending them, by id and never by name.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::eventually;

/// Sends a signal to one process. A process that is already gone is no error.
///
/// # Panics
/// When the process belongs to somebody else.
pub fn signal(pid: u32, signal: Signal) {
    match kill(nix_pid(pid), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("could not send {signal} to process {pid}: {error}"),
    }
}

/// Ends one process with SIGKILL and returns when it is gone.
pub fn kill9(pid: u32) {
    signal(pid, Signal::SIGKILL);
    eventually(&format!("the end of process {pid}"), || {
        (!is_alive(pid)).then_some(())
    });
}

/// Whether a process runs. One that ended and waits to be reaped does not.
pub fn is_alive(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X")
}

/// The parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    stat_fields(pid)?.get(1)?.parse().ok()
}

/// When a process started, in clock ticks since boot: with its id, a name that is never used twice.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_fields(pid)?.get(19)?.parse().ok()
}

/// The processes whose environment holds `name=value`.
///
/// A value that only one test uses marks everything which that test started, however
/// often it forked, and nothing else.
pub fn marked(name: &str, value: &Path) -> Vec<u32> {
    let mark = [name.as_bytes(), b"=", value.as_os_str().as_encoded_bytes()].concat();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id() && is_alive(*pid))
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|b| *b == 0).any(|one| one == mark))
        })
        .collect()
}

/// The path of one of the project's programs, beside the running test.
///
/// # Panics
/// When it was not built.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test knows its own path");
    let found = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "there is no `{name}` beside {}: run `cargo build --workspace` (in the profile of \
             the tests) first, or `tests/run`, which does",
            test.display()
        )
    })
}

/// The root of the project.
pub fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the project")
        .to_path_buf()
}

/// A loopback port that is free in TCP and UDP.
///
/// # Panics
/// When the machine has none left.
pub fn free_port() -> u16 {
    for _ in 0..64 {
        let Ok(tcp) = std::net::TcpListener::bind("127.0.0.1:0") else {
            continue;
        };
        let Ok(addr) = tcp.local_addr() else { continue };
        if std::net::UdpSocket::bind(addr).is_ok() {
            return addr.port();
        }
    }
    panic!("found no port that is free in both TCP and UDP in 64 tries");
}

fn nix_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a process id is a positive i32"))
}

/// The fields of `/proc/PID/stat` after the program's name, which may hold anything.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Some(after_name.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_found_by_its_mark_until_it_is_killed() {
        let mark = Path::new("/nowhere/process-marked-by-this-test");
        let mut child = Command::new("sleep")
            .arg("60")
            .env("WT_TEST_MARK", mark)
            .spawn()
            .unwrap();

        // Between fork and exec the child still has the test's own environment.
        eventually("the mark of the child", || {
            (marked("WT_TEST_MARK", mark) == [child.id()]).then_some(())
        });
        assert_eq!(parent(child.id()), Some(std::process::id()));
        assert!(start_time(child.id()).is_some());
        kill9(child.id());

        assert!(marked("WT_TEST_MARK", mark).is_empty());
        child.wait().unwrap();
    }

    #[test]
    fn a_free_port_can_be_bound_both_ways() {
        let port = free_port();

        let tcp = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        let udp = std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap();
        assert_eq!(tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    }
}

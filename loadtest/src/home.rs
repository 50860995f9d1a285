//! A user's home in a temporary folder, with the built `wt` and whatever it starts there.
//!
//! Beside it stands a keeper, a process of its own that does one thing: when this program is
//! gone or wants an end, it ends the sessions of the home and the servers that were written
//! down there, each by its process id.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{AccessFlags, Pid, access};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wt_egg::{EggDir, Meta};
use wt_wing::profile::Profile;

use crate::machine::started_at;
use crate::{progress, roles};

/// How long one command of `wt` may take, unless it waits for something.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);

/// How long the keeper may take to end hundreds of sessions.
const KEEPER_DEADLINE: Duration = Duration::from_secs(60);

/// How long a server may take to end when it is asked to.
const SERVER_DEADLINE: Duration = Duration::from_secs(2);

/// How often it is looked at meanwhile.
const SERVER_POLL: Duration = Duration::from_millis(10);

/// The file with a line for each server: its process id and its start, in clock ticks.
const SERVERS: &str = "servers";

/// The home, and the keeper of it.
pub(crate) struct Home {
    root: TempDir,
    wt: PathBuf,
    exe: PathBuf,
    keeper: Child,
    /// Held by every start of a session, and at last by whoever ends them all.
    starting: Arc<RwLock<()>>,
}

impl Home {
    /// Makes the folder. Builds `wt` beside this program if it is not there.
    pub(crate) async fn open() -> Result<Self> {
        let exe = std::env::current_exe().context("cannot tell where this program is")?;
        let wt = built_wt(&exe).await?;
        let root = tempfile::Builder::new()
            .prefix("wt-load-")
            .tempdir()
            .context("cannot make a folder for the run")?;
        let keeper = Command::new(&exe)
            .arg(roles::KEEPER)
            .arg(root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A Ctrl-C in the terminal is not meant for it.
            .process_group(0)
            .spawn()
            .context("cannot start the keeper")?;
        Ok(Self {
            root,
            wt,
            exe,
            keeper,
            starting: Arc::default(),
        })
    }

    /// The folder.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// This program, which is also what sessions run.
    pub(crate) fn exe(&self) -> &OsStr {
        self.exe.as_os_str()
    }

    /// The program `wt`.
    pub(crate) fn wt(&self) -> &OsStr {
        self.wt.as_os_str()
    }

    /// The profile in which `wt` works.
    pub(crate) fn profile(&self) -> Profile {
        roles::wing_profile(self.root.path())
    }

    /// The whole environment of every command: nothing of the user's own but the path.
    pub(crate) fn env(&self) -> Vec<(&'static str, OsString)> {
        let root = self.root.path();
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        vec![
            ("PATH", path),
            ("HOME", root.into()),
            ("WINGTHING_DIR", self.profile().path().into()),
            ("XDG_RUNTIME_DIR", root.into()),
            ("SHELL", "/bin/sh".into()),
            ("TERM", "xterm-256color".into()),
            ("LANG", "C.UTF-8".into()),
        ]
    }

    /// A command in this home that is killed when nobody waits for it any more.
    pub(crate) fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.env())
            .current_dir(self.root.path())
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Runs `wt`; gives what it printed.
    pub(crate) async fn run_wt(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut command = self.command(self.wt());
        command.args(arguments);
        answer(command, COMMAND_DEADLINE).await
    }

    /// Starts a session in a task that an interrupt does not stop half-way: whoever ends the
    /// home waits for it, and then finds all that was started.
    pub(crate) fn start_session(
        &self,
        name: &str,
        command: &[&OsStr],
    ) -> Result<JoinHandle<Result<Meta>>> {
        let started = Arc::clone(&self.starting)
            .try_read_owned()
            .context("the run is at its end")?;
        let mut wt = self.command(self.wt());
        // Beside terminals that hold nothing either; and what this program starts may lie where
        // a held session sees nothing.
        wt.args(["--json", "terminal", "--unsandboxed", "--name", name, "--"])
            .args(command);
        let eggs = self.profile().file("eggs");
        Ok(tokio::spawn(async move {
            let answer = answer(wt, COMMAND_DEADLINE).await?;
            drop(started);
            let answer: Value = serde_json::from_slice(&answer)?;
            let id = answer["session"]["id"].as_str().context("no id")?;
            Ok(EggDir::new(eggs.join(id)).meta()?)
        }))
    }

    /// Starts a server that stays in the foreground, and writes down that it is ours.
    pub(crate) fn start_server(&self, mut command: Command) -> Result<Child> {
        let server = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a server")?;
        let pid = server.id().context("a server ended at once")?;
        let start = started_at(pid).context("a server ended at once")?;
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.root.path().join(SERVERS))?;
        writeln!(file, "{pid} {start}")?;
        Ok(server)
    }

    /// Ends all sessions that there are.
    pub(crate) async fn end_sessions(&self) -> Result<()> {
        roles::end_sessions(&self.profile()).await
    }

    /// Ends everything and removes the folder.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let _all_started = self.starting.write().await;
        drop(self.keeper.stdin.take());
        let ended = timeout(KEEPER_DEADLINE, self.keeper.wait()).await;
        let Ok(ended) = ended else {
            self.keeper.kill().await?;
            bail!("the sessions did not end in time");
        };
        self.root.close().context("cannot remove the folder")?;
        ensure!(ended?.success(), "the sessions could not be ended");
        Ok(())
    }
}

/// Runs a command; gives what it printed.
pub(crate) async fn answer(mut command: Command, deadline: Duration) -> Result<Vec<u8>> {
    let what = format!("{:?}", command.as_std());
    let output = timeout(deadline, command.output())
        .await
        .with_context(|| format!("{what} took over {deadline:?}"))?
        .with_context(|| format!("cannot start {what}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{what} failed: {}", said.trim());
    Ok(output.stdout)
}

/// A program on the path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file() && access(file, AccessFlags::X_OK).is_ok())
}

/// The `wt` beside this program, which is built if it is missing and cargo started us.
async fn built_wt(exe: &Path) -> Result<PathBuf> {
    let wt = exe.with_file_name("wt");
    if wt.is_file() {
        return Ok(wt);
    }
    let release = !cfg!(debug_assertions);
    let flag = if release { " --release" } else { "" };
    let hint = format!(
        "{} is missing; build it with `cargo build{flag} -p wt`",
        wt.display()
    );
    let folder = exe.parent().and_then(Path::parent);
    let (Some(cargo), Some(target)) = (std::env::var_os("CARGO"), folder) else {
        bail!(hint);
    };
    progress("building wt");
    let mut build = Command::new(cargo);
    build
        .args(["build", "-p", "wt", "--target-dir"])
        .arg(target)
        .args(release.then_some("--release"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    let status = build.status().await.context(hint.clone())?;
    ensure!(status.success() && wt.is_file(), hint);
    Ok(wt)
}

/// Ends the servers and the sessions of a home.
pub(crate) async fn end(root: &Path) -> Result<()> {
    end_servers(&root.join(SERVERS))?;
    let profile = roles::wing_profile(root);
    thaw(&profile)?;
    roles::end_sessions(&profile).await?;
    // When the run was killed, a session may have been about to start: look once more.
    roles::end_sessions(&profile).await
}

/// Lets sessions go on that were stopped, so that they can end.
fn thaw(profile: &Profile) -> Result<()> {
    let entries = match fs::read_dir(profile.file("eggs")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let egg = EggDir::new(entry?.path());
        let pid = egg.meta().ok().and_then(|meta| meta.egg_pid);
        if let Some(pid) = pid.filter(|_| egg.is_alive().unwrap_or(false)) {
            // It may end in between.
            let _ = kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGCONT);
        }
    }
    Ok(())
}

fn end_servers(list: &Path) -> Result<()> {
    let list = match fs::read_to_string(list) {
        Ok(list) => list,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for (pid, start) in list.lines().filter_map(server_of) {
        // The id may belong to another process by now, which started later.
        let lives = || started_at(pid) == Some(start);
        let asked = Instant::now();
        let process = Pid::from_raw(i32::try_from(pid)?);
        if lives() {
            let _ = kill(process, Signal::SIGTERM);
        }
        while lives() && asked.elapsed() < SERVER_DEADLINE {
            thread::sleep(SERVER_POLL);
        }
        if lives() {
            let _ = kill(process, Signal::SIGKILL);
        }
    }
    Ok(())
}

fn server_of(line: &str) -> Option<(u32, u64)> {
    let (pid, start) = line.split_once(' ')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sleeper() -> std::process::Child {
        std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_server_is_ended_and_a_later_process_of_the_same_id_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join(SERVERS);
        let (mut ours, mut other) = (sleeper(), sleeper());
        let line = |child: &std::process::Child, later: u64| {
            format!(
                "{} {}\n",
                child.id(),
                started_at(child.id()).unwrap() - later
            )
        };
        fs::write(&list, line(&ours, 0) + &line(&other, 1)).unwrap();

        // Its end is seen once it is collected.
        let collected = thread::spawn(move || ours.wait().unwrap());
        end_servers(&list).unwrap();

        assert!(!collected.join().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_home_in_which_nothing_was_started_has_nothing_to_end() {
        let folder = tempfile::tempdir().unwrap();

        end_servers(&folder.path().join(SERVERS)).unwrap();
        thaw(&roles::wing_profile(folder.path())).unwrap();
    }

    #[test]
    fn programs_are_found_on_the_path_and_others_are_not() {
        assert!(on_path("sh").is_some());
        assert_eq!(on_path("no-such-program-of-ours"), None);
    }
}

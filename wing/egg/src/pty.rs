//! The backend without a boundary: a program on a plain terminal.

use std::env::consts;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use filedescriptor::FileDescriptor;
use nix::unistd::{AccessFlags, Uid, User, access};
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use wt_protocol::rpc::Isolation;
use wt_protocol::session::Winsize;

use crate::backend::{Backend, Program, SpawnError, Spawned, Terminal};

/// Where commands are looked for when a session has no PATH.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts programs with nothing but the user's own rights around them.
#[derive(Debug)]
pub struct Unsandboxed(
    /// What is said of it: that there is nothing, or that the machine around it is the boundary.
    pub Isolation,
);

impl Backend for Unsandboxed {
    fn isolation(&self) -> Isolation {
        self.0
    }

    fn spawn(&self, program: &Program, size: Winsize) -> Result<Spawned, SpawnError> {
        if !program.cwd.is_dir() {
            return Err(SpawnError::NoFolder(program.cwd.clone()));
        }
        let mut command = match program.command.as_slice() {
            // portable-pty starts the shell that SHELL names as a login shell.
            [] => CommandBuilder::new_default_prog(),
            [name, ..] => {
                find_command(
                    name,
                    &program.cwd,
                    program.var("PATH").unwrap_or(DEFAULT_PATH),
                )?;
                CommandBuilder::from_argv(program.command.iter().map(Into::into).collect())
            }
        };
        command.env_clear();
        for (key, value) in &program.env {
            command.env(key, value);
        }
        if program.command.is_empty() {
            command.env("SHELL", login_shell(program));
        }
        command.cwd(&program.cwd);

        let system = |what| {
            move |e: anyhow::Error| SpawnError::System {
                what,
                reason: format!("{e:#}"),
            }
        };
        let pair = native_pty_system()
            .openpty(pty_size(size))
            .map_err(system("a terminal"))?;
        let master = non_blocking(&*pair.master).map_err(system("a terminal"))?;
        let child = pair
            .slave
            .spawn_command(command)
            .map_err(system("the program"))?;
        let pid = child.process_id().ok_or(SpawnError::System {
            what: "the program",
            reason: "it has no process id".into(),
        })?;
        // The egg reaps every process below it by pid, so the handle is not needed.
        drop(child);
        let size = Size::of(&master).map_err(|e| system("a terminal")(e.into()))?;
        Ok(Spawned {
            pid,
            ends_with: pid,
            master,
            terminal: Box::new(size),
            notes: Vec::new(),
            held: None,
        })
    }
}

/// The size of a terminal, by its master end.
pub(crate) struct Size(File);

impl Size {
    pub(crate) fn of(master: &File) -> io::Result<Self> {
        master.try_clone().map(Self)
    }
}

impl Terminal for Size {
    fn resize(&self, size: Winsize) -> io::Result<()> {
        let size = rustix::termios::Winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(rustix::termios::tcsetwinsize(&self.0, size)?)
    }

    fn foreground(&self) -> Option<u32> {
        let group = rustix::termios::tcgetpgrp(&self.0).ok()?;
        u32::try_from(group.as_raw_nonzero().get()).ok()
    }
}

/// The descriptor of a terminal's master end, as it names itself.
struct Descriptor(RawFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// A file on the same master end. That it does not block holds for all who share it.
fn non_blocking(master: &dyn MasterPty) -> anyhow::Result<File> {
    let raw = master
        .as_raw_fd()
        .ok_or_else(|| anyhow::anyhow!("it has no descriptor"))?;
    let mut descriptor = FileDescriptor::dup(&Descriptor(raw))?;
    descriptor.set_non_blocking(true)?;
    Ok(descriptor.as_file()?)
}

fn pty_size(size: Winsize) -> PtySize {
    PtySize {
        rows: size.rows,
        cols: size.cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

/// The session's shell: as its environment says, else as the user database says.
pub fn login_shell(program: &Program) -> PathBuf {
    let named = program
        .var("SHELL")
        .filter(|s| !s.is_empty())
        .map(PathBuf::from);
    let from_database = || {
        User::from_uid(Uid::effective())
            .ok()
            .flatten()
            .map(|user| user.shell)
    };
    named
        .or_else(from_database)
        .filter(|shell| access(shell, AccessFlags::X_OK).is_ok())
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// Finds the file that a command name means, as execvp(3) does.
///
/// # Errors
/// Which name was not found, or which file cannot be run.
pub fn find_command(name: &str, cwd: &Path, path: &str) -> Result<PathBuf, SpawnError> {
    if name.contains('/') {
        let file = cwd.join(name);
        return match runnable(&file) {
            Ok(()) => Ok(file),
            Err(None) => Err(SpawnError::NotFound(name.to_owned())),
            Err(Some(reason)) => Err(SpawnError::NotRunnable { path: file, reason }),
        };
    }
    let mut not_runnable = None;
    for folder in path.split(':').filter(|folder| !folder.is_empty()) {
        let file = cwd.join(folder).join(name);
        match runnable(&file) {
            Ok(()) => return Ok(file),
            Err(None) => {}
            Err(Some(reason)) => {
                not_runnable = Some(SpawnError::NotRunnable { path: file, reason })
            }
        }
    }
    Err(not_runnable.unwrap_or_else(|| SpawnError::NotFound(name.to_owned())))
}

/// Whether a file can be run; `Err(None)` when it is not there, else why not.
fn runnable(file: &Path) -> Result<(), Option<String>> {
    let metadata = fs::metadata(file).map_err(|_| None)?;
    if metadata.is_dir() {
        return Err(Some("it is a folder".into()));
    }
    // The superuser may access everything, but even it runs only what has an x bit.
    if metadata.permissions().mode() & 0o111 == 0 || access(file, AccessFlags::X_OK).is_err() {
        return Err(Some("it is not executable".into()));
    }
    Ok(())
}

/// The operating system and architecture, as `linux/x86_64`.
pub fn platform() -> String {
    format!("{}/{}", consts::OS, consts::ARCH)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::master::{self, Taken};

    #[test]
    fn a_command_is_found_as_a_shell_would() {
        let dir = tempfile::tempdir().unwrap();
        let path = "/usr/bin:/bin";

        assert!(find_command("sh", dir.path(), path).is_ok());
        assert!(matches!(
            find_command("no-such-command", dir.path(), path),
            Err(SpawnError::NotFound(_))
        ));
        assert!(matches!(
            find_command("/no/such", dir.path(), path),
            Err(SpawnError::NotFound(_))
        ));
        assert!(matches!(
            find_command("/etc/passwd", dir.path(), path),
            Err(SpawnError::NotRunnable { .. })
        ));
        assert!(matches!(
            find_command("/tmp", dir.path(), path),
            Err(SpawnError::NotRunnable { .. })
        ));
    }

    #[test]
    fn a_folder_that_is_not_there_stops_the_start() {
        let program = Program {
            command: vec!["true".into()],
            cwd: "/no/such".into(),
            env: vec![],
        };

        assert!(matches!(
            Unsandboxed(Isolation::None).spawn(&program, Winsize::DEFAULT),
            Err(SpawnError::NoFolder(_))
        ));
    }

    #[tokio::test]
    async fn a_program_gets_its_size_variables_and_folder() {
        let program = Program {
            command: ["sh", "-c", "stty size; pwd; echo $FOO; env | wc -l"]
                .map(String::from)
                .into(),
            cwd: "/usr".into(),
            env: vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                ("FOO".into(), "bar".into()),
            ],
        };

        let spawned = Unsandboxed(Isolation::None)
            .spawn(&program, Winsize { cols: 97, rows: 31 })
            .unwrap();
        let (mut output, _) = master::split(spawned.master).unwrap();
        let (mut text, mut buffer) = (Vec::new(), [0; 1024]);
        // The end of a terminal's output is an error on Linux (EIO).
        while let Ok(taken @ Taken { count: 1.., .. }) = output.read(&mut buffer).await {
            text.extend_from_slice(&buffer[..taken.count]);
        }

        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("31 97\r\n/usr\r\nbar\r\n"), "{text}");
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(spawned.pid as i32), None).unwrap();
    }
}

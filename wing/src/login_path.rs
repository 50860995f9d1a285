//! The `PATH` that a login shell gives, for sessions that a daemon starts.
//!
//! A daemon that a service manager started knows the system's folders only, and agents
//! are installed in folders that the user's start-up files add. So the login shell is
//! asked once in a while. Its start-up files may print text, ask questions or hang: text
//! before the mark is not looked at, there is nothing to read, and the time is bounded.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use wt_egg::backend::Program;
use wt_egg::pty::login_shell;

/// How long the shell may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long an answer is used. Start-up files change when something is installed, and
/// whoever installed an agent tries it within minutes.
const KEEP: Duration = Duration::from_secs(5 * 60);

/// How long a failure is kept, so that a shell that hangs delays one session and not ten.
const KEEP_FAILURE: Duration = Duration::from_secs(60);

/// Most that a shell may print, start-up text included.
const MAX_PRINTED: u64 = 1 << 20;

/// Asks the login shell, and remembers what it said.
#[derive(Debug, Default)]
pub struct LoginPath {
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    at: Instant,
    answer: Result<String, String>,
}

impl LoginPath {
    /// Puts the login shell's `PATH` into a daemon's variables: its folders first, then
    /// the daemon's own. When the shell does not say, the variables stay as they are and
    /// a note for the user says why.
    pub async fn put_into(&self, env: &mut Vec<(String, String)>) -> Option<String> {
        // Held while the shell is asked: whoever comes meanwhile waits for the same answer.
        let mut known = self.known.lock().await;
        let is_fresh = |known: &Known| {
            let keep = if known.answer.is_ok() {
                KEEP
            } else {
                KEEP_FAILURE
            };
            known.at.elapsed() < keep
        };
        if !known.as_ref().is_some_and(is_fresh) {
            let answer = ask(env, DEADLINE).await;
            if let Err(reason) = &answer {
                tracing::warn!(reason, "the PATH of a login shell is not known");
            }
            *known = Some(Known {
                at: Instant::now(),
                answer,
            });
        }
        match known.as_ref().map(|known| &known.answer) {
            Some(Ok(path)) => {
                let own = env.iter().find(|(key, _)| key == "PATH");
                let joined = join(path, own.map_or("", |(_, value)| value));
                wt_egg::env::set(env, [("PATH".to_owned(), joined)]);
                None
            }
            Some(Err(reason)) => Some(format!("its PATH is the daemon's own: {reason}")),
            None => None,
        }
    }

    /// Forgets the answer. One that is just being worked out is fresh enough.
    pub fn forget(&self) {
        if let Ok(mut known) = self.known.try_lock() {
            *known = None;
        }
    }
}

/// The folders of both, each once, the first one's first.
fn join(first: &str, second: &str) -> String {
    let mut folders: Vec<&str> = Vec::new();
    for folder in first.split(':').chain(second.split(':')) {
        if !folder.is_empty() && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders.join(":")
}

/// Asks the login shell of these variables for its `PATH`.
async fn ask(env: &[(String, String)], deadline: Duration) -> Result<String, String> {
    let program = Program {
        command: Vec::new(),
        cwd: PathBuf::from("/"),
        env: env.to_vec(),
    };
    let shell = login_shell(&program);
    let mark = data_encoding::HEXLOWER.encode(&wt_crypto::random::<16>());
    // Every shell reads this alike: whatever it is, a POSIX shell prints what it exports.
    let line = format!("exec /bin/sh -c 'printf %s%s%s {mark} \"$PATH\" {mark}'");
    let name = shell.file_name().and_then(|name| name.to_str());
    let mut command = Command::new(&shell);
    match name {
        // These know -l only when it stands alone; the dash in front says the same.
        Some(csh @ ("csh" | "tcsh")) => command.arg0(format!("-{csh}")).arg("-c"),
        _ => command.arg("-lc"),
    };
    let home = program
        .var("HOME")
        .map(Path::new)
        .filter(|home| home.is_dir());
    command
        .arg(line)
        .env_clear()
        .envs(env.iter().map(|(key, value)| (key, value)))
        .current_dir(home.unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let shown = shell.display();
    let mut child = command
        .spawn()
        .map_err(|e| format!("the login shell {shown} cannot be started: {e}"))?;
    let group = child.id();
    let answer = match child.stdout.take() {
        None => Err(format!("the login shell {shown} has no output")),
        // Not to the end of the output: what start-up files left running may hold it open.
        Some(stdout) => match timeout(deadline, read_marked(stdout, &mark)).await {
            Ok(Some(path)) => Ok(path),
            Ok(None) => Err(format!("the login shell {shown} did not tell its own")),
            Err(_) => Err(format!(
                "the login shell {shown} did not answer within {} s",
                deadline.as_secs()
            )),
        },
    };
    if answer.is_err()
        && let Some(group) = group
    {
        // With all that it waits for. One that ended by itself is no group any more.
        let _ = killpg(Pid::from_raw(group as i32), Signal::SIGKILL);
    }
    // Reaped, not waited for: after its answer a shell has nothing more to do.
    tokio::spawn(async move { timeout(deadline, child.wait()).await });
    answer
}

/// Reads up to the second mark; gives what stands between the two.
async fn read_marked(output: impl AsyncReadExt + Unpin, mark: &str) -> Option<String> {
    let mut output = output.take(MAX_PRINTED);
    let mut printed = Vec::new();
    loop {
        if output.read_buf(&mut printed).await.ok()? == 0 {
            return None;
        }
        if let Some(path) = between(&String::from_utf8_lossy(&printed), mark) {
            return Some(path).filter(|path| !path.is_empty());
        }
    }
}

fn between(printed: &str, mark: &str) -> Option<String> {
    let (_, rest) = printed.split_once(mark)?;
    let (path, _) = rest.split_once(mark)?;
    Some(path.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The variables of a daemon whose user has this start-up file.
    fn daemon(home: &Path, profile: &str) -> Vec<(String, String)> {
        std::fs::write(home.join(".profile"), profile).unwrap();
        [
            ("HOME", home.to_str().unwrap()),
            ("PATH", "/usr/bin:/bin:/only/daemon"),
            ("SHELL", "/bin/sh"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec()
    }

    async fn path_with(profile: &str) -> (String, Option<String>) {
        let home = tempfile::tempdir().unwrap();
        let mut env = daemon(home.path(), profile);
        let note = LoginPath::default().put_into(&mut env).await;
        let path = env.into_iter().find(|(key, _)| key == "PATH").unwrap().1;
        (path, note)
    }

    #[tokio::test]
    async fn folders_that_start_up_files_add_come_first() {
        let (path, note) = path_with("PATH=\"$HOME/a b&%:$PATH\"; export PATH\n").await;

        assert_eq!(note, None);
        let first = path.split(':').next().unwrap();
        assert!(first.ends_with("/a b&%"), "{path}");
        assert!(path.ends_with("/only/daemon"), "{path}");
    }

    #[tokio::test]
    async fn text_of_start_up_files_is_not_taken_for_folders() {
        let script = "echo 'Welcome: to /the/machine'; printf no-line-feed\n\
                      (sleep 30 &) \nPATH=/x:$PATH; export PATH\n";
        let (path, note) = path_with(script).await;

        assert_eq!(note, None);
        assert!(path.starts_with("/x:"), "{path}");
        assert!(
            !path.contains("Welcome") && !path.contains("feed"),
            "{path}"
        );
    }

    #[tokio::test]
    async fn a_start_up_file_that_ends_the_shell_leaves_the_daemons_own() {
        let (path, note) = path_with("exit 3\n").await;

        assert_eq!(path, "/usr/bin:/bin:/only/daemon");
        assert!(note.unwrap().contains("did not tell its own"));
    }

    #[tokio::test]
    async fn a_start_up_file_that_hangs_is_ended_with_all_it_started() {
        let home = tempfile::tempdir().unwrap();
        let env = daemon(home.path(), "echo $$ > \"$HOME/pid\"; sleep 600\n");

        let answer = ask(&env, Duration::from_millis(700)).await;

        assert!(answer.unwrap_err().contains("did not answer"));
        let pid = std::fs::read_to_string(home.path().join("pid")).unwrap();
        let pid: u32 = pid.trim().parse().unwrap();
        while wt_egg::process::is_running(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn an_answer_is_used_again_until_it_is_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let count = "echo >> \"$HOME/asked\"\n";
        let asked = || std::fs::read(home.path().join("asked")).unwrap().len();
        let login = LoginPath::default();

        for _ in 0..3 {
            login.put_into(&mut daemon(home.path(), count)).await;
        }
        assert_eq!(asked(), 1);
        login.forget();
        login.put_into(&mut daemon(home.path(), count)).await;
        assert_eq!(asked(), 2);
    }

    #[test]
    fn joined_folders_stand_once_in_their_order() {
        assert_eq!(join("/a:/b::/a", "/b:/c"), "/a:/b:/c");
        assert_eq!(join("", "/c"), "/c");
    }
}

//! Agents on this machine: their programs found, started and asked for their versions.
//!
//! What there is to know about an agent is data (`wt-policy`); here it meets the folders
//! and variables of one machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wt_egg::backend::SpawnError;
use wt_egg::pty::find_command;
use wt_policy::{AgentProfile, ProgramName, parse_version};
use wt_protocol::rpc::{Conversation, Failure, FailureKind};

/// How long an agent may take to say its version. Some start a whole runtime for it.
const VERSION_DEADLINE: Duration = Duration::from_secs(5);

/// What is read of an agent's answer; a version stands at its start.
const MAX_ANSWER: u64 = 64 * 1024;

/// An agent that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launchable {
    /// Its name.
    pub(crate) name: String,
    /// Its command line.
    pub(crate) command: Vec<String>,
    /// Its variables beyond those of every session.
    pub(crate) env: Vec<(String, String)>,
    /// How long Enter must wait after text.
    pub(crate) enter_delay: Duration,
}

/// What a start asks of an agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) conversation: Option<&'a Conversation>,
    pub(crate) arguments: &'a [String],
}

/// The profile of a known agent.
///
/// # Errors
/// [`FailureKind::NotFound`], naming the known ones.
pub fn profile(name: &str) -> Result<&'static AgentProfile, Failure> {
    AgentProfile::find(name).ok_or_else(|| {
        let known: Vec<&str> = AgentProfile::all()
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        Failure::new(
            FailureKind::NotFound,
            format!("there is no agent {name:?}; known are {}", known.join(", ")),
        )
        .hint("to run another program: wt terminal -- COMMAND")
    })
}

/// Finds what is wanted in the folders of `path`, for a maker with these variables.
///
/// # Errors
/// An unknown agent, one that is not installed, or one that cannot do what is asked.
pub(crate) fn resolve(
    wanted: Wanted<'_>,
    cwd: &Path,
    path: &str,
    maker: &[(String, String)],
) -> Result<Launchable, Failure> {
    let profile = profile(wanted.name)?;
    let line = match wanted.conversation {
        None => profile.launch(None, wanted.arguments),
        Some(Conversation::Id(id)) => profile.launch(Some(id), wanted.arguments),
        Some(Conversation::Last) => profile.launch_last(wanted.arguments),
    };
    let mut command = line.map_err(|e| Failure::new(FailureKind::Invalid, e.to_string()))?;
    let (binary, _) = find(profile, cwd, path)?;
    // Under whichever of its names it is installed here.
    command[0] = binary.to_string();
    Ok(Launchable {
        name: profile.name.to_string(),
        command,
        env: profile.env(maker),
        enter_delay: profile.input.enter_delay,
    })
}

/// Finds an agent's program under the first of its names that is there.
fn find<'a>(
    profile: &'a AgentProfile,
    cwd: &Path,
    path: &str,
) -> Result<(&'a ProgramName, PathBuf), Failure> {
    let mut broken = None;
    for binary in &profile.binaries {
        match find_command(binary.as_str(), cwd, path) {
            Ok(file) => return Ok((binary, file)),
            Err(SpawnError::NotFound(_)) => {}
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    if let Some(error) = broken {
        return Err(error.into());
    }
    let names: Vec<&str> = profile.binaries.iter().map(ProgramName::as_str).collect();
    let message = format!(
        "{} is not installed: {} was not found in the PATH {path}",
        profile.title,
        names.join(" or "),
    );
    Err(Failure::new(FailureKind::CommandNotFound, message)
        .hint(format!("to install it: {}", profile.install)))
}

/// Where an agent's program is in the folders of `path`, if it is there and can be run.
pub fn locate(profile: &AgentProfile, path: &str) -> Option<PathBuf> {
    find(profile, Path::new("/"), path)
        .ok()
        .map(|(_, file)| file)
}

/// What is known of one agent on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The agent.
    pub profile: &'static AgentProfile,
    /// Its program, if it is there.
    pub path: Option<PathBuf>,
    /// The version that it says.
    pub version: Option<String>,
    /// Why it cannot be used, or why it says none.
    pub problem: Option<String>,
}

/// Looks for all known agents in the folders of the `PATH` among these variables, and
/// asks those that are there for their versions, all at once.
pub async fn installed(env: &[(String, String)]) -> Vec<Installed> {
    let path = env.iter().find(|(key, _)| key == "PATH");
    let path = path.map_or("", |(_, value)| value.as_str());
    let mut asking = JoinSet::new();
    for (index, profile) in AgentProfile::all().iter().enumerate() {
        let found = find(profile, Path::new("/"), path);
        let env = env.to_vec();
        asking.spawn(async move { (index, look_at(profile, found, &env).await) });
    }
    let mut all = asking.join_all().await;
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, installed)| installed).collect()
}

async fn look_at(
    profile: &'static AgentProfile,
    found: Result<(&'static ProgramName, PathBuf), Failure>,
    env: &[(String, String)],
) -> Installed {
    let (path, version) = match found {
        Ok((_, path)) => {
            let version = version_of(&path, &profile.version_arguments, env).await;
            (Some(path), version)
        }
        Err(failure) => {
            // That it is not there is no problem of its own.
            let is_missing = failure.kind == FailureKind::CommandNotFound;
            return Installed {
                profile,
                path: None,
                version: None,
                problem: (!is_missing).then_some(failure.message),
            };
        }
    };
    let (version, problem) = match version {
        Ok(version) => (Some(version), None),
        Err(problem) => (None, Some(problem)),
    };
    Installed {
        profile,
        path,
        version,
        problem,
    }
}

/// Asks a program for its version.
async fn version_of(
    program: &Path,
    arguments: &[String],
    env: &[(String, String)],
) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(env.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("it cannot be started: {e}"))?;
    let group = child.id();
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("it has no output".to_owned());
    };
    let answering = async {
        let (mut said, mut complained) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) = (stdout.take(MAX_ANSWER), stderr.take(MAX_ANSWER));
        // Errors end the reading; what came before them may be the answer.
        let _ = tokio::join!(
            stdout.read_to_end(&mut said),
            stderr.read_to_end(&mut complained)
        );
        said.push(b'\n');
        said.extend(complained);
        said
    };
    let answer = timeout(VERSION_DEADLINE, answering).await;
    if let Some(group) = group {
        // What is left of it when it did not answer, or answered and stayed.
        let _ = killpg(Pid::from_raw(group as i32), Signal::SIGKILL);
    }
    let _ = child.wait().await;
    match answer {
        Err(_) => Err(format!(
            "it did not say its version within {} s",
            VERSION_DEADLINE.as_secs()
        )),
        Ok(said) => parse_version(&String::from_utf8_lossy(&said))
            .ok_or_else(|| "it did not say its version".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(folder: &Path, name: &str, script: &str) {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|&one| one.to_owned()).collect()
    }

    #[test]
    fn an_agent_is_started_under_the_name_that_is_installed() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "agent", "");
        let arguments = strings(&["-x"]);
        let wanted = Wanted {
            name: "cursor",
            conversation: Some(&Conversation::Id("c1".to_owned())),
            arguments: &arguments,
        };
        let path = folder.path().to_str().unwrap();
        let maker =
            [("CURSOR_API_KEY", "k"), ("OTHER", "o")].map(|(k, v)| (k.to_owned(), v.to_owned()));

        let agent = resolve(wanted, Path::new("/"), path, &maker).unwrap();

        assert_eq!(agent.command, ["agent", "--resume=c1", "-x"]);
        assert_eq!(agent.env, [("CURSOR_API_KEY".to_owned(), "k".to_owned())]);
        assert_eq!(agent.enter_delay, Duration::from_millis(150));
    }

    #[test]
    fn what_cannot_be_started_is_refused_with_what_to_do() {
        let wanted = |name, conversation| Wanted {
            name,
            conversation,
            arguments: &[],
        };
        let refused = |wanted| resolve(wanted, Path::new("/"), "/x:/y", &[]).unwrap_err();

        let unknown = refused(wanted("clod", None));
        assert_eq!(unknown.kind, FailureKind::NotFound);
        assert!(
            unknown
                .message
                .contains("claude, codex, cursor, gemini, ollama, opencode")
        );
        let missing = refused(wanted("claude", None));
        assert_eq!(missing.kind, FailureKind::CommandNotFound);
        assert!(missing.message.contains("in the PATH /x:/y"), "{missing}");
        assert!(missing.hint.unwrap().contains("npm install"));
        let last = refused(wanted("ollama", Some(&Conversation::Last)));
        assert_eq!(last.kind, FailureKind::Invalid);
    }

    #[tokio::test]
    async fn agents_are_asked_for_their_versions_all_at_once() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "claude", "echo '2.1.5 (Claude Code)'");
        program(folder.path(), "codex", "echo 'codex-cli 0.46.0' >&2");
        program(folder.path(), "gemini", "echo hello");
        program(folder.path(), "opencode", "exec sleep 60");
        fs::write(folder.path().join("ollama"), "").unwrap();
        let env = [(
            "PATH".to_owned(),
            format!("{}:/usr/bin:/bin", folder.path().display()),
        )];

        let all = installed(&env).await;

        let of = |name: &str| {
            all.iter()
                .find(|one| one.profile.name.as_str() == name)
                .unwrap()
        };
        assert_eq!(of("claude").version.as_deref(), Some("2.1.5"));
        assert_eq!(of("claude").problem, None);
        assert_eq!(of("codex").version.as_deref(), Some("0.46.0"));
        assert!(
            of("gemini")
                .problem
                .as_ref()
                .unwrap()
                .contains("did not say")
        );
        assert!(
            of("opencode")
                .problem
                .as_ref()
                .unwrap()
                .contains("within 5 s")
        );
        assert!(
            of("ollama")
                .problem
                .as_ref()
                .unwrap()
                .contains("not executable")
        );
        assert_eq!((&of("cursor").path, &of("cursor").problem), (&None, &None));
    }
}

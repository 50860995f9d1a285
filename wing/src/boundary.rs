//! What a session may do: the files that say it, read and put together for one start.
//!
//! Rules are data (`wt-policy`) and their enforcement is the egg's (`wt-sandbox`); here they
//! meet the files, variables and users of one machine.

use std::env::consts::OS;
use std::io::Read;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User};
use wt_egg::boundary::{Boundary, GivenSettings, Policy};
use wt_policy::{
    AgentProfile, Change, EffectivePolicy, Facts, FileAccess, LayerError, Layers, MAX_YAML_BYTES,
    OneFolder, OptionLayer, Places, Platform, Request, diff, load, load_file, resolve, session_env,
};
use wt_protocol::rpc::{BoundaryChoice, Failure, FailureKind};
use wt_sandbox::EnforcementError;
use wt_sandbox::host::{self, Surroundings};
use wt_sandbox::plan::{Plan, Program, Stdio};

use crate::error::Error;
use crate::profile::Profile;
use crate::trust::{self, Trust};

/// Largest file that an agent takes along into its folder, in bytes: far above any in use.
const MAX_TAKEN_ALONG: u64 = 16 << 20;

/// Left-out rules that are told one by one at a start; `wt egg explain` tells all.
const MAX_TOLD: usize = 8;

/// What a policy is made for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The agent, if any.
    pub agent: Option<&'a str>,
    /// The folder that the session starts in; absolute.
    pub cwd: &'a Path,
    /// A file in place of the user's own.
    pub config: Option<&'a str>,
    /// The variables of whoever makes the session.
    pub env: &'a [(String, String)],
    /// Options of the command line, the strongest last.
    pub options: &'a [OptionLayer],
}

/// A policy and where it came from.
#[derive(Debug, Clone)]
pub struct Found {
    /// What the session may do.
    pub policy: EffectivePolicy,
    /// The files that took part.
    pub layers: Layers,
    /// What is known of the project's.
    pub trust: Trust,
    /// Where files were looked for.
    pub places: Places,
    /// What the policy depends on besides its files.
    pub facts: Facts,
}

impl Found {
    /// The policy that these files would make if the project's were or were not trusted.
    ///
    /// # Errors
    /// As for [`find`].
    pub fn with_trust(&self, asked: Asked<'_>, trusted: bool) -> Result<EffectivePolicy, Error> {
        put_together(&self.layers, &self.facts, asked, trusted)
    }

    /// What trust in the project, as it was read, would change for a session: compared with
    /// what was trusted before, if it was, and else with no trust at all.
    ///
    /// # Errors
    /// As for [`find`].
    pub fn news(&self, asked: Asked<'_>) -> Result<Vec<Change>, Error> {
        let new = self.with_trust(asked, true)?;
        let old = match &self.trust {
            Trust::Changed(texts) => self.trusted_before(asked, texts)?,
            Trust::NoFile | Trust::Trusted | Trust::Unknown => None,
        };
        let old = match old {
            Some(old) => old,
            None => self.with_trust(asked, false)?,
        };
        Ok(diff(&old, &new))
    }

    /// The policy that the texts make which were trusted. `None` if they make none any more:
    /// a later version may understand less.
    fn trusted_before(
        &self,
        asked: Asked<'_>,
        texts: &[(String, String)],
    ) -> Result<Option<EffectivePolicy>, Error> {
        let files = |path: &str| {
            let known = texts.iter().find(|(known, _)| known == path);
            known.map_or_else(|| read(path), |(_, text)| Ok(Some(text.clone())))
        };
        match load(&files, &self.places, asked.config) {
            Ok(layers) => put_together(&layers, &self.facts, asked, true).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// What a start of a session with this policy would do on this machine, for any program.
    ///
    /// # Errors
    /// Why a start would be refused.
    pub fn plan(&self, profile: &Profile) -> Result<Plan, EnforcementError> {
        let facts = host::look(&self.policy, &surroundings(profile, &self.places))?;
        let request = wt_sandbox::Request {
            program: Program {
                file: "/bin/sh".to_owned(),
                argv: vec!["sh".to_owned()],
                env: Vec::new(),
            },
            stdio: Stdio::Given,
        };
        wt_sandbox::compile(&self.policy, &facts, &request)
    }
}

/// What a file of rules would be for sessions that start in its folder, if it were trusted.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The policy of a shell.
    pub policy: EffectivePolicy,
    /// How that differs from a folder without such a file.
    pub changes: Vec<Change>,
    /// What will not do what its writer may think, in whole sentences.
    pub warnings: Vec<String>,
}

/// Checks one file of rules, with everything that it builds on.
///
/// # Errors
/// The first fault, with its line.
pub fn check(profile: &Profile, file: &Path, env: &[(String, String)]) -> Result<Checked, Error> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let asked = Asked {
        agent: None,
        cwd: folder,
        config: None,
        env,
        options: &[],
    };
    let places = places(profile, asked)?;
    let path = text(file)?;
    let config = load_file(&read, &places, &path).map_err(|e| located(&e))?;
    let facts = facts(&places, env);
    let warnings = config
        .config
        .agent_settings
        .keys()
        .filter_map(|agent| unusable_settings(agent))
        .collect();
    let alone = Layers {
        user: None,
        project: Some(config),
    };
    let policy = put_together(&alone, &facts, asked, true)?;
    let without = put_together(&Layers::default(), &facts, asked, true)?;
    Ok(Checked {
        changes: diff(&without, &policy),
        policy,
        warnings,
    })
}

/// Why the settings of an agent cannot be given by a file.
fn unusable_settings(agent: &str) -> Option<String> {
    let Some(known) = AgentProfile::find(agent) else {
        return Some(format!("agent_settings: there is no agent {agent:?}"));
    };
    known
        .settings
        .is_none()
        .then(|| format!("agent_settings: {agent} has no file of settings that is known here"))
}

/// Makes the policy of a session that starts as asked.
///
/// # Errors
/// A file that cannot be read or has a fault, with its line.
pub fn find(profile: &Profile, asked: Asked<'_>) -> Result<Found, Error> {
    let places = places(profile, asked)?;
    let layers = load(&read, &places, asked.config).map_err(|e| located(&e))?;
    let trust = trust::of(profile, &layers, &places)?;
    let facts = facts(&places, asked.env);
    let policy = put_together(&layers, &facts, asked, trust.may_widen())?;
    Ok(Found {
        policy,
        layers,
        trust,
        places,
        facts,
    })
}

fn places(profile: &Profile, asked: Asked<'_>) -> Result<Places, Error> {
    Ok(Places {
        home: home(asked.env)?,
        cwd: text(asked.cwd)?,
        profile: text(profile.path())?,
    })
}

fn facts(places: &Places, env: &[(String, String)]) -> Facts {
    Facts {
        places: places.clone(),
        platform: match OS {
            "macos" => Platform::MacOs,
            _ => Platform::Linux,
        },
        env: env.to_vec(),
        shared: false,
    }
}

fn put_together(
    layers: &Layers,
    facts: &Facts,
    asked: Asked<'_>,
    trusted: bool,
) -> Result<EffectivePolicy, Error> {
    let request = Request {
        facts,
        agent: asked.agent,
        profile: asked.agent.and_then(AgentProfile::find),
        trusted,
        options: asked.options,
    };
    resolve(layers, &request).map_err(|e| located(&e))
}

/// What the host is like around a session, as far as its enforcement needs it.
pub fn surroundings(profile: &Profile, places: &Places) -> Surroundings {
    Surroundings {
        cwd: places.cwd.clone().into(),
        home: places.home.clone().into(),
        profiles: vec![
            profile.path().to_owned(),
            Path::new(&places.home).join(".wingthing*"),
        ],
        program: std::env::current_exe().ok(),
        uid: Uid::effective().as_raw(),
        gid: Gid::effective().as_raw(),
    }
}

/// What a session is started with, beyond what its maker asked for.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What holds it.
    pub(crate) boundary: Boundary,
    /// All of its variables.
    pub(crate) env: Vec<(String, String)>,
    /// The shell, for a session without a command.
    pub(crate) shell: Option<String>,
    /// Whether its agent is told to ask no questions.
    pub(crate) skip_permissions: bool,
    /// Whether it is recorded.
    pub(crate) audit: bool,
    /// What its user should know.
    pub(crate) notes: Vec<String>,
}

/// Prepares what holds a session that starts as asked, by its maker's choice.
///
/// # Errors
/// A choice that contradicts itself, or why there is no policy.
pub(crate) fn prepare(
    profile: &Profile,
    asked: Asked<'_>,
    choice: &BoundaryChoice,
) -> Result<Prepared, Failure> {
    if choice.unsandboxed {
        if choice.config.is_some() || choice.trace {
            let message =
                "--unsandboxed applies no policy, so it cannot be given with --config or --trace";
            return Err(Failure::new(FailureKind::Invalid, message));
        }
        return Ok(Prepared {
            boundary: Boundary::Outer,
            env: asked.env.to_vec(),
            shell: None,
            skip_permissions: false,
            audit: false,
            notes: Vec::new(),
        });
    }
    let mut found = find(profile, asked)?;
    found.policy.trace |= choice.trace;
    let given_settings = given_settings(&found.policy, asked.agent, &found.places)?;
    let policy = found.policy;
    let env = session_env(&policy, asked.env);
    let mut notes: Vec<String> = Vec::new();
    let suppressed = policy.suppressed.iter();
    notes.extend(suppressed.take(MAX_TOLD).map(|left_out| {
        format!(
            "not applied: {} {} ({}): {}",
            left_out.kind, left_out.value, left_out.source, left_out.reason
        )
    }));
    if policy.suppressed.len() > MAX_TOLD {
        notes.push(format!(
            "{} more are not applied; `wt egg explain` tells all",
            policy.suppressed.len() - MAX_TOLD
        ));
    }
    notes.extend(
        env.notes
            .iter()
            .filter(|note| note.value != "PATH")
            .map(|note| format!("{} {}: {}", note.kind, note.value, note.reason)),
    );
    let settings = asked
        .agent
        .and_then(AgentProfile::find)
        .and_then(|agent| agent.settings.as_ref())
        .map(|path| PathBuf::from(path.below_home()))
        .into_iter()
        .collect();
    let mut vars = env.vars;
    if let Some(one) = asked
        .agent
        .and_then(AgentProfile::find)
        .and_then(|agent| agent.one_folder.as_ref())
        && vars.iter().all(|(key, _)| key != one.variable.as_str())
    {
        let home = Path::new(&found.places.home);
        notes.extend(take_along(home, one));
        let folder = home.join(one.folder.below_home());
        vars.push((one.variable.to_string(), folder.display().to_string()));
    }
    Ok(Prepared {
        env: vars,
        shell: policy.shell.clone(),
        skip_permissions: policy.skip_permissions,
        audit: policy.audit,
        notes,
        boundary: Boundary::Namespace(Box::new(Policy {
            surroundings: surroundings(profile, &found.places),
            forbidden_ports: profile.own_ports(),
            settings,
            given_settings,
            effective: policy,
        })),
    })
}

/// Copies what an agent keeps in the home directory into the folder where it keeps everything
/// in a sandbox, if nothing of that name is there. Says what could not be copied.
fn take_along(home: &Path, one: &OneFolder) -> Vec<String> {
    let folder = home.join(one.folder.below_home());
    let mut said = Vec::new();
    for file in &one.takes_along {
        let from = home.join(file.below_home());
        let Some(name) = from.file_name() else {
            continue;
        };
        let to = folder.join(name);
        // A link counts as there: nothing is written where it leads.
        if to.symlink_metadata().is_ok() {
            continue;
        }
        let copied = match wt_files::read_capped(&from, MAX_TAKEN_ALONG) {
            Ok(None) => continue,
            Ok(Some(bytes)) => wt_files::create_private_dir(&folder)
                .and_then(|()| wt_files::write_whole(&to, &bytes)),
            Err(e) => Err(e),
        };
        if let Err(e) = copied {
            said.push(format!(
                "{} could not be taken along to {}: {e}",
                from.display(),
                folder.display()
            ));
        }
    }
    said
}

/// A fault in a file, with the place in the form that editors and terminals understand.
fn located(error: &LayerError) -> Error {
    let message = match error {
        LayerError::Parse { path, error } => {
            let line = error.line.map(|line| format!(":{line}"));
            let column = line.as_ref().and(error.column).map(|c| format!(":{c}"));
            let key = error.key.as_ref().map(|key| format!(" {key}:"));
            format!(
                "{path}{}{}:{} {}",
                line.unwrap_or_default(),
                column.unwrap_or_default(),
                key.unwrap_or_default(),
                error.problem
            )
        }
        LayerError::Base {
            path,
            line: Some(line),
            problem,
        } => format!("{path}:{line}: base: {problem}"),
        other => other.to_string(),
    };
    Error::failed(message).hint("`wt egg check FILE` tells whether a file is right")
}

/// The file that an agent's settings come from, where the policy names one.
///
/// # Errors
/// That there is nothing to read, or nothing that it could stand for.
fn given_settings(
    policy: &EffectivePolicy,
    agent: Option<&str>,
    places: &Places,
) -> Result<Option<GivenSettings>, Error> {
    let Some((agent, from)) = agent.and_then(|agent| policy.agent_settings.get_key_value(agent))
    else {
        return Ok(None);
    };
    if let Some(problem) = unusable_settings(agent) {
        return Err(Error::failed(problem).hint("leave its entry out of agent_settings"));
    }
    let Some(settings) = AgentProfile::find(agent).and_then(|known| known.settings.as_ref()) else {
        return Ok(None);
    };
    if policy.access(from).0 == FileAccess::Deny {
        let message =
            format!("agent_settings: {from} is denied to sessions, so it is not given to {agent}");
        return Err(Error::failed(message).hint("name a file that sessions may read"));
    }
    let content = match read(from) {
        Ok(Some(content)) => content,
        Ok(None) => {
            let message =
                format!("agent_settings: {from} is not there, and {agent} is to start with it");
            return Err(Error::failed(message).hint("make the file, or leave the entry out"));
        }
        Err(problem) => {
            let message = format!("agent_settings: {from} cannot be read: {problem}");
            return Err(Error::failed(message).hint("make it readable, or leave the entry out"));
        }
    };
    if content.len() > MAX_YAML_BYTES {
        let message = format!("agent_settings: {from} has more than {MAX_YAML_BYTES} bytes");
        return Err(Error::failed(message).hint("name a smaller file"));
    }
    let at = Path::new(&places.home).join(settings.below_home());
    // It is a place for a mount, which only something that exists can be.
    let Ok(at) = at.canonicalize() else {
        let message = format!(
            "agent_settings: {} is not there, so that no other file can stand for it",
            at.display()
        );
        return Err(Error::failed(message).hint(format!(
            "start {agent} once without agent_settings, or make the file"
        )));
    };
    Ok(Some(GivenSettings { at, content }))
}

fn home(env: &[(String, String)]) -> Result<String, Error> {
    let named = env.iter().find(|(key, _)| key == "HOME");
    let named = named.map(|(_, value)| value.clone());
    if let Some(home) = named.filter(|home| Path::new(home).is_absolute()) {
        return Ok(home);
    }
    let user = User::from_uid(Uid::effective()).ok().flatten();
    match user {
        Some(user) => text(&user.dir),
        None => Err(Error::failed("cannot tell where the home folder is").hint("set HOME")),
    }
}

fn text(path: &Path) -> Result<String, Error> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::failed(format!("the path {} is not UTF-8", path.display())))
}

/// Reads a file of rules. What is too large to be one is refused by its parser.
fn read(path: &str) -> Result<Option<String>, String> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(e) => return Err(e.to_string()),
    };
    if !file.metadata().map_err(|e| e.to_string())?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut text = String::new();
    file.take(MAX_YAML_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|e| e.to_string())?;
    Ok(Some(text))
}

//! The sessions of a profile: found, started, read, renamed and ended through their
//! folders, with or without a daemon.
//!
//! The command line and the wing use the same functions, so a session is the same thing
//! whoever made it. Names are given out under one lock file.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use wt_egg::backend::Program;
use wt_egg::boundary::Boundary;
use wt_egg::dir::DIR_VERSION;
use wt_egg::log::OutputLog;
use wt_egg::screen::{Model, ModelLimits, Screen};
use wt_egg::server::{Launch, Started, now_ms, screen_size, screen_text};
use wt_egg::waiting::{Echo, Pattern, Search};
use wt_egg::{EggClient, EggDir, ExitRecord, LifeLimits, Machine, Meta, Relation, process, pty};
use wt_files::Lock;
use wt_policy::AgentProfile;
use wt_protocol::limits::{
    MAX_COMMAND_ARGS, MAX_COMMAND_BYTES, MAX_ENV_VARS, MAX_RAW_PAGE, MAX_SEND,
};
use wt_protocol::local::{EggStatus, FromEgg, ToEgg};
use wt_protocol::rpc::{
    BoundaryChoice, Conversation, Failure, FailureKind, Isolation, OutputPage, Principal,
    RecordingPage, Request, Response, ScreenText, SendInput, SendPart, Sent, SessionChange,
    SessionEvent, SessionKind, SessionRecord, SessionStatus, StartSession, Until, WaitFor,
    WaitFrom, WaitReason, Waited,
};
use wt_protocol::session::Winsize;
use wt_protocol::{SessionId, SessionName};

use crate::agents::{self, Wanted};
use crate::boundary::{self, Asked};
use crate::login_path::LoginPath;
use crate::profile::Profile;

/// The hidden command by which this program becomes an egg.
pub const EGG_COMMAND: &str = "__egg";

/// The variable by which programs find their SSH agent.
const SSH_AGENT: &str = "SSH_AUTH_SOCK";

/// How long the lock on names may be held by others. Ten starts at once take turns in it.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// How long an egg may take from its start to its answer.
const START_DEADLINE: Duration = Duration::from_secs(15);

/// How long a list waits for one session. An egg answers from memory; one that is stuck
/// must not hold up the list of all others.
const LIST_DEADLINE: Duration = Duration::from_millis(700);

/// How long ended sessions are kept.
const KEEP_ENDED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How many ended sessions are kept.
const KEEP_ENDED_COUNT: usize = 100;

/// Living sessions of one profile. Each has a process, a terminal and a window of output.
const MAX_LIVING: usize = 512;

/// How many bytes of an ended session's output are replayed to show its screen.
const REPLAY: u64 = 4 << 20;

/// How often sessions that were made meanwhile are looked for by who watches them all.
const NEW_SESSIONS: Duration = Duration::from_millis(250);

/// Bytes read from a log at once.
const READ_SIZE: usize = 64 * 1024;

/// The sessions of one profile.
#[derive(Debug, Clone)]
pub struct Sessions {
    folder: PathBuf,
    principal: Principal,
    /// The SSH agent of whoever uses them here.
    ssh_agent: Option<PathBuf>,
}

/// How a session is made, beyond what its maker asks for.
#[derive(Debug, Clone)]
pub struct StartTerms {
    /// Where it starts when its maker does not say.
    pub default_cwd: PathBuf,
    /// The variables that it gets, before its maker's own.
    pub env: Vec<(String, String)>,
    /// All variables of whoever makes it, from which an agent gets those of its profile.
    pub caller: Vec<(String, String)>,
    /// Asks the login shell for its `PATH`, where the maker's own is none of a login.
    pub login: Option<Arc<LoginPath>>,
    /// How long it may live unused.
    pub life: LifeLimits,
    /// Output that it keeps, in bytes.
    pub output_window: u64,
    /// Largest recording of a session that is recorded, in bytes.
    pub recording_cap: u64,
}

/// A living session that runs another version of the program.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OtherVersion {
    /// The session.
    pub id: SessionId,
    /// Its name.
    pub name: SessionName,
    /// The version that its egg runs.
    pub version: String,
}

/// A session's folder, read.
#[derive(Debug, Clone)]
struct Found {
    dir: EggDir,
    meta: Meta,
    exit: Option<ExitRecord>,
    /// Whether its egg's lock is held, by whichever machine.
    alive: bool,
    /// Whose process ids and sockets these are.
    relation: Relation,
    /// What is wrong with a file of the folder, and which. The egg can be reached all the
    /// same, by its id.
    damage: Option<String>,
}

impl Found {
    fn is_living(&self) -> bool {
        self.is_alive_here() && self.exit.is_none()
    }

    /// Whether its egg can be talked to: its process is one of this machine's.
    fn is_alive_here(&self) -> bool {
        self.alive && !self.is_elsewhere()
    }

    fn read_again(self) -> Self {
        read_found(self.dir, self.meta.id)
    }

    fn is_elsewhere(&self) -> bool {
        self.relation == Relation::Elsewhere
    }

    /// The host of a session of another machine.
    fn host(&self) -> &str {
        let machine = self.meta.machine.as_ref();
        machine.map_or("another machine", |machine| machine.hostname.as_str())
    }

    /// Refuses what needs the session's processes, or changes its folder, when they are
    /// another machine's: only that machine can tell whether they live.
    fn insist_on_here(&self) -> Result<(), Failure> {
        if !self.is_elsewhere() {
            return Ok(());
        }
        let message = format!(
            "the session {} belongs to the host {}, which shares this profile; nothing was done",
            self.meta.name,
            self.host()
        );
        Err(Failure::new(FailureKind::Failed, message).hint(format!(
            "run the command on {}; if that is gone for good, remove {}",
            self.host(),
            self.dir.path().display()
        )))
    }

    /// Looks again, for an egg that did not answer: one that has ended, or is on its way
    /// out with its end on record, need not.
    fn lives_still(&self) -> bool {
        self.dir.is_alive().unwrap_or(true) && !matches!(self.dir.exit(), Ok(Some(_)))
    }
}

impl Sessions {
    /// The sessions under `folder` (a profile's `eggs/`), on behalf of `principal`.
    pub fn new(folder: PathBuf, principal: Principal) -> Self {
        Self {
            folder,
            principal,
            ssh_agent: None,
        }
    }

    /// The same sessions, used by somebody with this SSH agent: sessions that they make or
    /// attach to use it from then on.
    #[must_use]
    pub fn with_ssh_agent(mut self, socket: Option<PathBuf>) -> Self {
        self.ssh_agent = socket.filter(|socket| socket.is_absolute());
        self
    }

    /// The profile that they belong to.
    fn profile(&self) -> Profile {
        Profile::at(self.folder.parent().unwrap_or(&self.folder))
    }

    /// The same sessions, on behalf of somebody else.
    #[must_use]
    pub fn acting_for(&self, principal: Principal) -> Self {
        Self {
            folder: self.folder.clone(),
            principal,
            ssh_agent: None,
        }
    }

    /// Lists all sessions: living ones first, then by age, newest first.
    ///
    /// A folder with a damaged file is listed by its id, with a note that names the file.
    ///
    /// # Errors
    /// When the sessions' own folder cannot be read.
    pub async fn list(&self) -> Result<Vec<SessionRecord>, Failure> {
        let mut asking = JoinSet::new();
        for found in self.scan()? {
            let sessions = self.clone();
            asking.spawn(async move { sessions.record(&found).await });
        }
        let mut records = asking.join_all().await;
        records.sort_by_key(|r| {
            (
                !r.status.is_living(),
                std::cmp::Reverse(r.created_at_ms),
                r.id.clone(),
            )
        });
        Ok(records)
    }

    /// One session by its id, its name, or a unique prefix of its id.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`] when there is none, or more than one.
    pub async fn get(&self, session: &str) -> Result<SessionRecord, Failure> {
        Ok(self.record(&self.find(session)?).await)
    }

    /// Starts a session; returns when its program runs and its socket answers.
    ///
    /// # Errors
    /// What is wrong with the request, or why the program could not be started. No session
    /// is left behind then.
    pub async fn start(
        &self,
        request: StartSession,
        terms: StartTerms,
    ) -> Result<SessionRecord, Failure> {
        self.start_in(request, None, &BoundaryChoice::default(), terms)
            .await
    }

    /// Starts a session inside a boundary that its maker chose.
    ///
    /// # Errors
    /// As for [`Self::start`], and that the boundary cannot be enforced.
    pub async fn start_in(
        &self,
        request: StartSession,
        conversation: Option<Conversation>,
        choice: &BoundaryChoice,
        terms: StartTerms,
    ) -> Result<SessionRecord, Failure> {
        check_request(&request)?;
        if conversation.is_some() && request.agent.is_none() {
            let message = "only an agent can take up a conversation";
            return Err(Failure::new(FailureKind::Invalid, message));
        }
        let cwd = request
            .cwd
            .as_ref()
            .map_or_else(|| terms.default_cwd.clone(), PathBuf::from);
        if !cwd.is_absolute() {
            let message = format!("the folder {} is not an absolute path", cwd.display());
            return Err(Failure::new(FailureKind::Invalid, message));
        }
        // Before anything is made: every id has the same length.
        let longest = EggDir::new(self.folder.join("x".repeat(SessionId::LENGTH))).socket();
        wt_files::check_socket_path(&longest)
            .map_err(|e| failed(&e).hint("set WINGTHING_DIR to a shorter path"))?;
        let mut program = Program {
            command: request.command,
            cwd: cwd.clone(),
            env: terms.env,
        };
        let mut notes = Vec::new();
        if let Some(login) = &terms.login {
            notes.extend(login.put_into(&mut program.env).await);
        }
        let mut enter_delay = None;
        let mut asked_env = Vec::new();
        if let Some(name) = &request.agent {
            let mut maker = terms.caller;
            wt_egg::env::set(&mut maker, request.env.iter().cloned());
            let wanted = Wanted {
                name,
                conversation: conversation.as_ref(),
                arguments: &program.command,
            };
            let path = request.env.iter().rev().find(|(key, _)| key == "PATH");
            let path = path.map(|(_, value)| value.as_str());
            let path = path.or(program.var("PATH")).unwrap_or(pty::DEFAULT_PATH);
            let agent = agents::resolve(wanted, &cwd, path, &maker)?;
            program.command = agent.command;
            asked_env = agent.env;
            enter_delay = Some(agent.enter_delay);
        }
        wt_egg::env::set(&mut asked_env, request.env);
        wt_egg::env::set(&mut program.env, asked_env.iter().cloned());
        let prepared = {
            let profile = self.profile();
            let (agent, cwd, env) = (request.agent.clone(), cwd.clone(), program.env.clone());
            let choice = choice.clone();
            // It reads files, which may be on a slow disk.
            let prepare = move || {
                let asked = Asked {
                    agent: agent.as_deref(),
                    cwd: &cwd,
                    config: choice.config.as_deref(),
                    env: &env,
                    options: &[],
                };
                boundary::prepare(&profile, asked, &choice)
            };
            spawn_blocking(prepare).await.map_err(|e| failed(&e))??
        };
        notes.extend(prepared.notes);
        program.env = prepared.env;
        // What was asked for by name for this session is not for a file to decide.
        wt_egg::env::set(&mut program.env, asked_env);
        if let Some(shell) = prepared.shell {
            wt_egg::env::set(&mut program.env, [("SHELL".to_owned(), shell)]);
        }
        if prepared.skip_permissions
            && let Some(agent) = request.agent.as_deref().and_then(AgentProfile::find)
        {
            let words = agent.skip_permissions.iter().cloned();
            program.command.splice(1..1, words);
        }
        let is_held = matches!(prepared.boundary, Boundary::Namespace(_));

        let _names = self.lock_names().await?;
        let all = self.scan()?;
        let living: Vec<&Found> = all.iter().filter(|f| f.is_living()).collect();
        if living.len() >= MAX_LIVING {
            return Err(Failure::new(
                FailureKind::Failed,
                format!("{MAX_LIVING} sessions are living already"),
            )
            .hint("end some with `wt session kill NAME`"));
        }
        let name = match &request.name {
            Some(name) => free_name(parse_name(name)?, &all)?,
            None => match &request.agent {
                Some(agent) => make_name(std::slice::from_ref(agent), &all),
                None => make_name(&program.command, &all),
            },
        };
        let id = fresh_id(&all)?;
        let dir = EggDir::new(self.folder.join(id.as_str()));

        // Sessions in a boundary of their own get an agent for keys only if their policy names it.
        let agent_socket = dir.agent_socket();
        if !is_held && wt_files::check_socket_path(&agent_socket).is_ok() {
            let path = agent_socket.display().to_string();
            wt_egg::env::set(&mut program.env, [(SSH_AGENT.to_owned(), path)]);
        }
        wt_egg::env::set(
            &mut program.env,
            [
                ("WINGTHING_SESSION".to_owned(), id.to_string()),
                ("WINGTHING_SESSION_NAME".to_owned(), name.to_string()),
            ],
        );
        let (kind, command) = if request.agent.is_some() {
            (SessionKind::Agent, program.command.clone())
        } else if program.command.is_empty() {
            (
                SessionKind::Shell,
                vec![pty::login_shell(&program).display().to_string()],
            )
        } else {
            (SessionKind::Command, program.command.clone())
        };
        let meta = Meta {
            version: DIR_VERSION,
            id,
            name,
            kind,
            agent: request.agent,
            command,
            cwd,
            isolation: Isolation::None,
            created_at_ms: now_ms(),
            created_by: self.principal.clone(),
            size: Winsize::from_reported(request.size.cols, request.size.rows),
            output_window: terms.output_window,
            epoch: None,
            egg_pid: None,
            pid: None,
            boot_id: process::boot_id(),
            machine: Some(Machine::here().clone()),
            program_version: Some(crate::VERSION.to_owned()),
        };
        let launch = Launch {
            program,
            size: meta.size,
            record: (request.record || prepared.audit).then_some(terms.recording_cap),
            enter_delay,
            life: terms.life,
            notes,
            boundary: prepared.boundary,
        };
        let linked = self.ssh_agent.as_deref();
        match start_egg(&dir, &meta, &launch, linked).await {
            Ok(()) => {
                self.remove_old(&all);
                Ok(self.record(&read_found(dir, meta.id)).await)
            }
            Err(failure) => {
                // Nothing runs, so nothing may be listed.
                let _ = fs::remove_dir_all(dir.path());
                Err(failure)
            }
        }
    }

    /// Ends a session's whole process tree; returns when it is gone.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], or that some process would not end.
    pub async fn kill(&self, session: &str) -> Result<SessionRecord, Failure> {
        let found = self.find(session)?;
        found.insist_on_here()?;
        if !found.is_living() {
            return Err(ended(&found));
        }
        let killed = match self.connect(&found).await {
            Ok(mut egg) => egg.kill().await,
            Err(failure) => Err(failure),
        };
        match killed {
            Ok(()) => {}
            Err(failure) if failure.kind == FailureKind::Unreachable => kill_stuck(&found).await?,
            Err(failure) => return Err(failure),
        }
        let found = found.read_again();
        Ok(self.record(&found).await)
    }

    /// Gives a session another name.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], or that the name is taken or not allowed.
    pub async fn rename(&self, session: &str, name: &str) -> Result<SessionRecord, Failure> {
        let name = parse_name(name)?;
        let _names = self.lock_names().await?;
        let found = self.find(session)?;
        found.insist_on_here()?;
        let others: Vec<Found> = self
            .scan()?
            .into_iter()
            .filter(|other| other.meta.id != found.meta.id)
            .collect();
        let name = free_name(name, &others)?;
        if found.alive {
            self.connect(&found).await?.rename(name.as_str()).await?;
        } else if let Some(damage) = found.damage {
            return Err(failed(&damage));
        } else {
            let meta = Meta {
                name,
                ..found.meta.clone()
            };
            found.dir.write_meta(&meta).map_err(|e| failed(&e))?;
        }
        let found = found.read_again();
        Ok(self.record(&found).await)
    }

    /// Removes an ended session with its output. Gives what it was.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], or that it is living.
    pub async fn remove(&self, session: &str) -> Result<SessionRecord, Failure> {
        let _names = self.lock_names().await?;
        let found = self.find(session)?;
        found.insist_on_here()?;
        if found.alive {
            let message = format!("the session {} is living", found.meta.name);
            return Err(Failure::new(FailureKind::Failed, message)
                .hint(format!("end it first: wt session kill {}", found.meta.name)));
        }
        let record = self.record(&found).await;
        fs::remove_dir_all(found.dir.path()).map_err(|e| {
            failed(&format!(
                "cannot remove {}: {e}",
                found.dir.path().display()
            ))
        })?;
        Ok(record)
    }

    /// Types into a session; returns when its terminal took all of it.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], that it ended, that another user has the right to type, or
    /// that a key's name means no key.
    pub async fn send(&self, input: SendInput) -> Result<Sent, Failure> {
        let bytes: usize = input.parts.iter().map(part_size).sum();
        if bytes > MAX_SEND {
            let message = format!("one request types {MAX_SEND} bytes at most; these are {bytes}");
            return Err(Failure::new(FailureKind::Invalid, message));
        }
        self.living_egg(&input.session)
            .await?
            .send(input.parts)
            .await
    }

    /// Waits until something is printed, nothing is printed, or the session ends.
    ///
    /// A session that ended is searched in the output that was kept.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], or a pattern that is none.
    pub async fn wait(&self, wait: WaitFor) -> Result<Waited, Failure> {
        let found = self.find(&wait.session)?;
        found.insist_on_here()?;
        if found.is_living() {
            match self.connect(&found).await {
                Ok(mut egg) => match egg.wait(&wait).await {
                    // It may have ended, and its egg with it, between two words.
                    Err(failure) if failure.kind == FailureKind::Unreachable => {}
                    answer => return answer,
                },
                Err(failure) if found.lives_still() => return Err(failure),
                Err(_) => {}
            }
        }
        let found = found.read_again();
        let searching = spawn_blocking(move || wait_in_log(&found, &wait));
        searching.await.map_err(|e| failed(&e))?
    }

    /// Sends a signal to the program in a session's foreground.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], that it ended, or that the number is no signal.
    pub async fn signal(&self, session: &str, signal: i32) -> Result<SessionRecord, Failure> {
        self.living_egg(session).await?.signal(signal).await?;
        self.get(session).await
    }

    /// Gives a session's terminal another size while nobody is attached.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], that it ended, or that somebody is attached.
    pub async fn resize(&self, session: &str, size: Winsize) -> Result<SessionRecord, Failure> {
        self.living_egg(session).await?.resize(size).await?;
        self.get(session).await
    }

    /// Tells what happens to one session, or to all of them, also to those that are made
    /// later. Returns when the one session ended, or nobody listens any more.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`] for one session that is not there or not living.
    pub async fn watch(
        &self,
        session: Option<String>,
        events: mpsc::Sender<SessionEvent>,
    ) -> Result<(), Failure> {
        if let Some(session) = session {
            let found = self.find(&session)?;
            found.insist_on_here()?;
            if !found.is_living() {
                return Err(ended(&found));
            }
            self.clone().watch_one(found, events).await;
            return Ok(());
        }
        let mut known = HashSet::new();
        let mut watching = JoinSet::new();
        let mut is_first = true;
        loop {
            for found in self.scan()? {
                if found.is_elsewhere() {
                    continue;
                }
                // Its egg is being made, or could not be.
                if !found.alive && found.exit.is_none() && found.meta.epoch.is_none() {
                    continue;
                }
                // One that was made and ended between two looks is told of as well.
                let is_told = !is_first || found.is_living();
                if known.insert(found.meta.id.clone()) && is_told {
                    watching.spawn(self.clone().watch_one(found, events.clone()));
                }
            }
            is_first = false;
            tokio::select! {
                () = tokio::time::sleep(NEW_SESSIONS) => {}
                () = events.closed() => return Ok(()),
            }
            while watching.try_join_next().is_some() {}
        }
    }

    async fn watch_one(self, found: Found, events: mpsc::Sender<SessionEvent>) {
        let event = |what| SessionEvent {
            id: found.meta.id.to_string(),
            // It may have another name by now.
            name: found.dir.meta().map_or_else(
                |_| found.meta.name.to_string(),
                |meta| meta.name.to_string(),
            ),
            at_ms: now_ms(),
            what,
        };
        let mut egg = self.connect_to_young(&found).await;
        if let Some(connected) = &mut egg
            && connected.writer.send(&ToEgg::Watch).await.is_err()
        {
            egg = None;
        }
        // Only here, so that whoever hears of it misses nothing that comes after.
        if events.send(event(SessionChange::Started)).await.is_err() {
            return;
        }
        let told = async {
            let mut egg = egg?;
            while let Ok(Some(FromEgg::Event(event))) = egg.reader.next::<FromEgg>().await {
                let is_last = matches!(event.what, SessionChange::Exited(_));
                events.send(event).await.ok()?;
                if is_last {
                    return Some(());
                }
            }
            None
        };
        if told.await.is_some() {
            return;
        }
        // The egg is gone without a word, or it ended between two looks.
        let last = match found.dir.exit() {
            Ok(Some(record)) => SessionChange::Exited(record.exit),
            Ok(None) | Err(_) => SessionChange::Lost,
        };
        // Nobody may be there to hear it.
        let _ = events.send(event(last)).await;
    }

    /// Connects to an egg that may have been made just now and have no socket yet.
    async fn connect_to_young(&self, found: &Found) -> Option<EggClient> {
        let deadline = tokio::time::Instant::now() + START_DEADLINE;
        loop {
            match self.connect(found).await {
                Ok(egg) => return Some(egg),
                Err(_) if tokio::time::Instant::now() < deadline => {
                    if !found.clone().read_again().is_living() {
                        return None;
                    }
                    tokio::time::sleep(NEW_SESSIONS / 5).await;
                }
                Err(_) => return None,
            }
        }
    }

    async fn living_egg(&self, session: &str) -> Result<EggClient, Failure> {
        let found = self.find(session)?;
        found.insist_on_here()?;
        if !found.is_living() {
            return Err(ended(&found));
        }
        self.connect(&found).await
    }

    /// Answers a request, whoever brought it. Sessions are made on these terms.
    ///
    /// # Errors
    /// As the function for each request; [`Request::WingInfo`] is not a session's to answer.
    pub async fn answer(
        &self,
        request: Request,
        terms: impl FnOnce() -> Result<StartTerms, Failure>,
    ) -> Result<Response, Failure> {
        let session = |record: SessionRecord| Response::Session(Box::new(record));
        match request {
            Request::WingInfo | Request::Wing(_) => Err(Failure::new(
                FailureKind::Invalid,
                "only a wing tells what it is",
            )),
            Request::Sessions => self.list().await.map(Response::Sessions),
            Request::Start(start) => self.start(start, terms()?).await.map(session),
            Request::Resume {
                start,
                conversation,
            } => {
                let choice = BoundaryChoice::default();
                let starting = self.start_in(start, Some(conversation), &choice, terms()?);
                starting.await.map(session)
            }
            Request::StartIn {
                start,
                conversation,
                boundary,
            } => {
                let starting = self.start_in(start, conversation, &boundary, terms()?);
                starting.await.map(session)
            }
            Request::Kill { session: which } => self.kill(&which).await.map(session),
            Request::Rename {
                session: which,
                name,
            } => self.rename(&which, &name).await.map(session),
            Request::Screen {
                session,
                scrollback,
            } => self
                .screen(&session, scrollback)
                .await
                .map(Response::Screen),
            Request::Output { session, from, max } => {
                self.output(&session, from, max).await.map(Response::Output)
            }
            Request::Send(input) => self.send(input).await.map(Response::Sent),
            Request::Wait(wait) => self.wait(wait).await.map(Response::Waited),
            Request::Signal {
                session: which,
                signal,
            } => self.signal(&which, signal).await.map(session),
            Request::Resize {
                session: which,
                size,
            } => self.resize(&which, size).await.map(session),
            Request::Remove { session: which } => self.remove(&which).await.map(session),
            Request::Session { session: which } => self.get(&which).await.map(session),
            Request::Recording { session, from, max } => self
                .recording(&session, from, max)
                .await
                .map(Response::Recording),
        }
    }

    /// A session's screen as text, with so many lines of scrollback before it.
    ///
    /// The screen of a session that ended is made from the output that was kept.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], or that the egg does not answer.
    pub async fn screen(&self, session: &str, scrollback: u32) -> Result<ScreenText, Failure> {
        let found = self.find(session)?;
        if found.is_alive_here() {
            let asked = async { self.connect(&found).await?.screen(scrollback).await };
            match asked.await {
                Ok(screen) => return Ok(screen),
                Err(failure) if found.lives_still() => return Err(failure),
                // It ended a moment ago.
                Err(_) => {}
            }
        }
        let size = found.meta.size;
        let id = found.meta.id.clone();
        let replayed = spawn_blocking(move || -> io::Result<ScreenText> {
            let log = OutputLog::open(&found.dir.output())?;
            let mut model = Model::new(screen_size(size), ModelLimits::default());
            let mut offset = log.start().max(log.end().saturating_sub(REPLAY));
            loop {
                let piece = log.read(offset, READ_SIZE)?;
                if piece.bytes.is_empty() {
                    break;
                }
                model.feed(&piece.bytes);
                offset = piece.offset + piece.bytes.len() as u64;
            }
            Ok(screen_text(&model, scrollback, id.as_str(), &log))
        });
        replayed
            .await
            .map_err(|e| failed(&e))?
            .map_err(|e| failed(&format!("the output cannot be read: {e}")))
    }

    /// A page of a session's output, as it was printed.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], or what the system says.
    pub async fn output(&self, session: &str, from: u64, max: u32) -> Result<OutputPage, Failure> {
        let found = self.find(session)?;
        let max = (max as usize).min(MAX_RAW_PAGE);
        let reading = spawn_blocking(move || -> io::Result<OutputPage> {
            let log = OutputLog::open(&found.dir.output())?;
            let mut page = log.read(from, max)?;
            while page.bytes.len() < max {
                let more = log.read(
                    page.offset + page.bytes.len() as u64,
                    max - page.bytes.len(),
                )?;
                if more.bytes.is_empty() {
                    break;
                }
                page.bytes.extend(more.bytes);
            }
            Ok(OutputPage {
                id: found.meta.id.to_string(),
                offset: page.offset,
                end: log.end(),
                truncated_before: log.start(),
                bytes: page.bytes,
            })
        });
        reading
            .await
            .map_err(|e| failed(&e))?
            .map_err(|e| failed(&format!("the output cannot be read: {e}")))
    }

    /// A page of a session's recording, as its file is; none when it is not recorded.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], or what the system says.
    pub async fn recording(
        &self,
        session: &str,
        from: u64,
        max: u32,
    ) -> Result<Option<RecordingPage>, Failure> {
        let found = self.find(session)?;
        let max = (max as usize).min(MAX_RAW_PAGE);
        let reading = spawn_blocking(move || -> io::Result<Option<RecordingPage>> {
            let file = match fs::File::open(found.dir.recording()) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(e),
            };
            let end = file.metadata()?.len();
            let mut bytes = vec![0; max.min(end.saturating_sub(from) as usize)];
            file.read_exact_at(&mut bytes, from)?;
            Ok(Some(RecordingPage {
                id: found.meta.id.to_string(),
                end,
                bytes,
            }))
        });
        reading
            .await
            .map_err(|e| failed(&e))?
            .map_err(|e| failed(&format!("the recording cannot be read: {e}")))
    }

    /// Opens a connection to a session's egg, for attaching. From then on the session uses
    /// the SSH agent of whoever attaches, if they have one.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], that it ended, or that its egg does not answer.
    pub async fn open(&self, session: &str) -> Result<(EggClient, SessionId), Failure> {
        let found = self.find(session)?;
        found.insist_on_here()?;
        // An egg that ended still answers those who were cut off.
        match self.connect(&found).await {
            Ok(egg) => {
                if let Some(socket) = self.ssh_agent.as_deref().filter(|_| found.is_living()) {
                    // Without it the session goes on with the agent that it has.
                    let _ = link_ssh_agent(&found.dir, socket);
                }
                Ok((egg, found.meta.id))
            }
            Err(_) if !found.is_living() => Err(ended(&found)),
            Err(failure) => Err(failure),
        }
    }

    /// Living sessions whose egg runs another version of the program than this one. They
    /// stay attachable; what another version does better, they do not have.
    ///
    /// # Errors
    /// When the sessions' own folder cannot be read.
    pub fn of_other_versions(&self) -> Result<Vec<OtherVersion>, Failure> {
        let living = self.scan()?.into_iter().filter(Found::is_living);
        let other = living.filter_map(|found| {
            let version = found.meta.program_version?;
            (version != crate::VERSION).then_some(OtherVersion {
                id: found.meta.id,
                name: found.meta.name,
                version,
            })
        });
        Ok(other.collect())
    }

    /// Sessions that live.
    ///
    /// # Errors
    /// When the sessions' own folder cannot be read.
    pub fn living(&self) -> Result<usize, Failure> {
        Ok(self.scan()?.iter().filter(|f| f.is_living()).count())
    }

    async fn connect(&self, found: &Found) -> Result<EggClient, Failure> {
        EggClient::connect(&found.dir, self.principal.clone())
            .await
            .map_err(|failure| Failure {
                message: format!("{}: {}", found.meta.name, failure.message),
                ..failure
            })
    }

    /// A session by id, then by the name of a living one, then of the newest ended one,
    /// then by a unique prefix of its id. Of a name this machine's own goes first.
    fn find(&self, session: &str) -> Result<Found, Failure> {
        let all = self.scan()?;
        let newest = |matches: &mut dyn Iterator<Item = &Found>| {
            matches
                .max_by_key(|f| (!f.is_elsewhere(), f.is_living(), f.meta.created_at_ms))
                .cloned()
        };
        if let Some(found) = newest(&mut all.iter().filter(|f| f.meta.id.as_str() == session)) {
            return Ok(found);
        }
        if let Some(found) = newest(&mut all.iter().filter(|f| f.meta.name.as_str() == session)) {
            return Ok(found);
        }
        let by_prefix: Vec<&Found> = all
            .iter()
            .filter(|f| !session.is_empty() && f.meta.id.as_str().starts_with(session))
            .collect();
        match by_prefix.as_slice() {
            [found] => Ok((*found).clone()),
            [] => Err(Failure::new(
                FailureKind::NotFound,
                format!("there is no session {session:?}"),
            )
            .hint("list them with `wt session ps`")),
            several => {
                let ids: Vec<&str> = several.iter().map(|f| f.meta.id.as_str()).collect();
                let message = format!("{session:?} may mean any of {}", ids.join(", "));
                Err(Failure::new(FailureKind::NotFound, message).hint("give more of the id"))
            }
        }
    }

    /// Every session's folder, read.
    fn scan(&self) -> Result<Vec<Found>, Failure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => {
                return Err(failed(&format!(
                    "cannot read {}: {e}",
                    self.folder.display()
                )));
            }
        };
        let id = |entry: &fs::DirEntry| entry.file_name().to_str()?.parse::<SessionId>().ok();
        Ok(entries
            .flatten()
            .filter_map(|entry| Some((id(&entry)?, entry)))
            .map(|(id, entry)| read_found(EggDir::new(entry.path()), id))
            .collect())
    }

    async fn record(&self, found: &Found) -> SessionRecord {
        let mut notes = Vec::new();
        let mut live: Option<EggStatus> = None;
        if found.is_living() {
            let asked = async { self.connect(found).await?.status().await };
            match timeout(LIST_DEADLINE, asked).await {
                Ok(Ok(status)) => live = Some(status),
                Ok(Err(failure)) if found.lives_still() => notes.push(failure.message),
                // It ended between two looks.
                Ok(Err(_)) => return Box::pin(self.record(&found.clone().read_again())).await,
                Err(_) => notes.push("its process is not responding".to_owned()),
            }
        }
        let meta = &found.meta;
        let is_stopped = live.is_none()
            && !found.is_elsewhere()
            && meta.boot_id == process::boot_id()
            && meta.egg_pid.is_some_and(process::is_stopped);
        let exit = found.exit.clone();
        let status = match (&live, &exit) {
            (Some(live), _) => live.status,
            (None, Some(record)) if record.killed => SessionStatus::Killed,
            (None, Some(_)) => SessionStatus::Exited,
            (None, None) if found.is_elsewhere() => SessionStatus::Foreign,
            (None, None) if found.alive && meta.epoch.is_none() && found.damage.is_none() => {
                SessionStatus::Starting
            }
            (None, None) if found.alive && is_stopped => SessionStatus::Frozen,
            (None, None) if found.alive => SessionStatus::Running,
            (None, None) => SessionStatus::Lost,
        };
        notes.extend(found.damage.clone());
        if status == SessionStatus::Lost && found.damage.is_none() {
            notes.push(
                if meta.boot_id == process::boot_id() && found.relation == Relation::Here {
                    "its process was ended from outside; its last output is kept".to_owned()
                } else {
                    "the host restarted; its last output is kept".to_owned()
                },
            );
        }
        if found.is_elsewhere() {
            notes.push(format!(
                "it belongs to the host {}, which shares this profile",
                found.host()
            ));
        }
        let bytes_written = match (&live, &exit) {
            (Some(live), _) => live.bytes_written,
            (None, Some(record)) => record.bytes_written,
            (None, None) => OutputLog::open(&found.dir.output()).map_or(0, |log| log.end()),
        };
        match (&live, &exit) {
            (Some(live), _) => notes.extend(live.notes.iter().cloned()),
            (None, Some(record)) => {
                notes.extend(record.notes.iter().cloned());
                notes.extend(record.note.clone());
                notes.extend(record.left.iter().cloned());
            }
            (None, None) => {}
        }
        SessionRecord {
            id: meta.id.to_string(),
            name: meta.name.to_string(),
            kind: meta.kind,
            agent: meta.agent.clone(),
            command: meta.command.clone(),
            cwd: meta.cwd.display().to_string(),
            status,
            isolation: meta.isolation,
            pid: if status.is_living() { meta.pid } else { None },
            created_at_ms: meta.created_at_ms,
            created_by: meta.created_by.clone(),
            size: live.as_ref().map_or(meta.size, |l| l.size),
            bytes_written,
            title: live.as_ref().map(|l| l.title.clone()).unwrap_or_default(),
            attention: live.as_ref().and_then(|l| l.attention.clone()),
            clients: live.as_ref().map_or(0, |l| l.clients),
            writer: live.as_ref().and_then(|l| l.writer.clone()),
            exit: live.and_then(|l| l.exit).or(exit.map(|record| record.exit)),
            notes,
        }
    }

    async fn lock_names(&self) -> Result<Lock, Failure> {
        // Whatever is looked for in a profile without sessions is then said not to be there.
        wt_files::create_private_dir(&self.folder).map_err(|e| failed(&e))?;
        let path = self.folder.join(".lock");
        let waiting = spawn_blocking(move || Lock::acquire(&path, LOCK_WAIT));
        waiting
            .await
            .map_err(|e| failed(&e))?
            .map_err(|e| failed(&e))
    }

    /// Removes ended sessions over the caps on age and count. The caller holds the lock.
    fn remove_old(&self, all: &[Found]) {
        // Another machine's are its own to remove, and damaged ones are for their user to see.
        let is_over = |f: &&Found| !f.alive && !f.is_elsewhere() && f.damage.is_none();
        let mut ended: Vec<&Found> = all.iter().filter(is_over).collect();
        ended.sort_by_key(|f| std::cmp::Reverse(f.meta.created_at_ms));
        let now = now_ms();
        for (index, found) in ended.iter().enumerate() {
            let ended_at = found
                .exit
                .as_ref()
                .map_or(found.meta.created_at_ms, |r| r.exit.at_ms);
            let age = Duration::from_millis(now.saturating_sub(ended_at));
            if index >= KEEP_ENDED_COUNT || age > KEEP_ENDED {
                let _ = fs::remove_dir_all(found.dir.path());
            }
        }
    }
}

fn read_found(dir: EggDir, id: SessionId) -> Found {
    let mut damage = None;
    let meta = dir.meta().unwrap_or_else(|error| {
        damage = Some(error.to_string());
        unknown_meta(id)
    });
    // In this order: an egg writes its end while it is still alive.
    let alive = dir.is_alive().unwrap_or_else(|error| {
        damage = Some(error.to_string());
        false
    });
    let exit = dir.exit().unwrap_or_else(|error| {
        damage = Some(error.to_string());
        None
    });
    let machine = meta.machine.as_ref();
    // A folder of an older program does not say; it was made for one machine.
    let relation = machine.map_or(Relation::Here, |machine| {
        machine.relation(Machine::here(), alive)
    });
    Found {
        dir,
        meta,
        exit,
        alive,
        relation,
        damage,
    }
}

/// What is known of a session whose own file cannot be read: its id, which is its name too.
fn unknown_meta(id: SessionId) -> Meta {
    let name = id.as_str().parse();
    Meta {
        version: DIR_VERSION,
        name: name.expect("an id has no character that a name may not have"),
        id,
        kind: SessionKind::Command,
        agent: None,
        command: Vec::new(),
        cwd: PathBuf::new(),
        // The least that may be claimed.
        isolation: Isolation::None,
        created_at_ms: 0,
        created_by: Principal {
            kind: wt_protocol::rpc::PrincipalKind::Cli,
            id: String::new(),
        },
        size: Winsize::DEFAULT,
        output_window: 0,
        epoch: None,
        egg_pid: None,
        pid: None,
        boot_id: None,
        machine: None,
        program_version: None,
    }
}

/// Starts the egg's process and waits for its one answer.
async fn start_egg(
    dir: &EggDir,
    meta: &Meta,
    launch: &Launch,
    ssh_agent: Option<&Path>,
) -> Result<(), Failure> {
    wt_files::create_private_dir(dir.path()).map_err(|e| failed(&e))?;
    if let Some(socket) = ssh_agent {
        link_ssh_agent(dir, socket).map_err(|e| failed(&e))?;
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|e| failed(&e))?;
    dir.write_key(&key).map_err(|e| failed(&e))?;
    dir.write_meta(meta).map_err(|e| failed(&e))?;
    let log = fs::File::create(dir.log_file()).map_err(|e| failed(&e))?;

    // The running file itself, even if its path was replaced or removed since.
    let mut command = std::process::Command::new("/proc/self/exe");
    command
        .arg0("wt")
        .arg(EGG_COMMAND)
        .arg(dir.path())
        .current_dir("/")
        .env_clear()
        // For whoever looks at the process list: which profile it belongs to.
        .envs(
            dir.path()
                .ancestors()
                .nth(2)
                .map(|profile| ("WINGTHING_DIR", profile)),
        );
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = Command::from(command)
        .spawn()
        .map_err(|e| failed(&format!("cannot start the session's process: {e}")))?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed(&"the session's process has no pipes"));
    };
    let text = serde_json::to_vec(launch).map_err(|e| failed(&e))?;
    let talk = async {
        stdin.write_all(&text).await?;
        drop(stdin);
        let mut answer = Vec::new();
        stdout.read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = match timeout(START_DEADLINE, talk).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let _ = child.start_kill();
            return Err(failed(&format!("the session's process broke off: {error}")));
        }
        Err(_) => {
            let _ = child.start_kill();
            return Err(Failure::new(
                FailureKind::TimedOut,
                "the session's process did not answer in time",
            ));
        }
    };
    match serde_json::from_slice(&answer) {
        Ok(Started::Running { .. }) => Ok(()),
        Ok(Started::Failed(failure)) => Err(failure),
        Err(_) => {
            let words = fs::read_to_string(dir.log_file()).unwrap_or_default();
            let last = words.lines().last().unwrap_or("it said nothing");
            Err(failed(&format!(
                "the session's process ended at once: {last}"
            )))
        }
    }
}

/// Makes a session's link lead to an SSH agent, whole or not at all.
fn link_ssh_agent(dir: &EggDir, socket: &Path) -> io::Result<()> {
    let link = dir.agent_socket();
    let sessions = dir.path().parent();
    // Another session's link is followed, so that links cannot form a ring; one that leads
    // nowhere is of no use.
    let target = match sessions.is_some_and(|folder| socket.starts_with(folder)) {
        true => match fs::canonicalize(socket) {
            Ok(target) => target,
            Err(_) => return Ok(()),
        },
        false => socket.to_owned(),
    };
    if fs::read_link(&link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    // Of each process its own, because two may attach at once.
    let fresh = dir.path().join(format!("agent.{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    std::os::unix::fs::symlink(&target, &fresh)?;
    fs::rename(&fresh, &link)
}

/// Ends a session whose egg does not answer: kills the egg, and with it the terminal.
async fn kill_stuck(found: &Found) -> Result<(), Failure> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let this_boot = found.meta.boot_id == process::boot_id();
    for pid in [found.meta.pid, found.meta.egg_pid]
        .into_iter()
        .flatten()
        .filter(|_| this_boot)
    {
        let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
    }
    for _ in 0..100 {
        if !found.dir.is_alive().map_err(|e| failed(&e))? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(failed(&format!(
        "the process of {} does not end",
        found.meta.name
    )))
}

/// Searches the kept output of a session that ended.
fn wait_in_log(found: &Found, wait: &WaitFor) -> Result<Waited, Failure> {
    let unreadable = |e: io::Error| failed(&format!("the output cannot be read: {e}"));
    let log = OutputLog::open(&found.dir.output()).map_err(unreadable)?;
    let start = match wait.from {
        // What was sent to it, and when, ended with its egg.
        WaitFrom::LastSend => log.start(),
        WaitFrom::Now => log.end(),
        WaitFrom::Offset(offset) => offset.clamp(log.start(), log.end()),
    };
    let pattern = match &wait.until {
        Until::Contains(text) => Some(Pattern::Text(text.clone())),
        Until::Regex(text) => Some(
            Pattern::regex(text).map_err(|e| Failure::new(FailureKind::Invalid, e.to_string()))?,
        ),
        Until::Idle(_) | Until::Exit => None,
    };
    let mut text = None;
    if let Some(pattern) = pattern {
        let mut search = Search::new(pattern, Echo::default());
        let mut cursor = start;
        while text.is_none() {
            let piece = log.read(cursor, READ_SIZE).map_err(unreadable)?;
            if piece.bytes.is_empty() {
                break;
            }
            cursor = piece.offset + piece.bytes.len() as u64;
            text = search.feed(&piece.bytes);
        }
    }
    let matched = text.is_some() || matches!(wait.until, Until::Idle(_) | Until::Exit);
    Ok(Waited {
        id: found.meta.id.to_string(),
        reason: if matched {
            WaitReason::Matched
        } else {
            WaitReason::Ended
        },
        text,
        from: start,
        offset: log.end(),
        exit: found.exit.as_ref().map(|record| record.exit.clone()),
    })
}

fn part_size(part: &SendPart) -> usize {
    match part {
        SendPart::Raw(bytes) => bytes.len(),
        SendPart::Text(text) | SendPart::Paste(text) | SendPart::Key(text) => text.len(),
    }
}

fn check_request(request: &StartSession) -> Result<(), Failure> {
    let invalid = |message: String| Err(Failure::new(FailureKind::Invalid, message));
    let bytes: usize = request.command.iter().map(String::len).sum();
    if request.command.len() > MAX_COMMAND_ARGS || bytes > MAX_COMMAND_BYTES {
        return invalid(format!(
            "a command may have {MAX_COMMAND_ARGS} arguments and {MAX_COMMAND_BYTES} bytes; this one has {} and {bytes}",
            request.command.len()
        ));
    }
    if request.env.len() > MAX_ENV_VARS {
        return invalid(format!(
            "{MAX_ENV_VARS} variables may be set; these are {}",
            request.env.len()
        ));
    }
    if let Some((key, _)) = request
        .env
        .iter()
        .find(|(k, v)| k.is_empty() || k.contains(['=', '\0']) || v.contains('\0'))
    {
        return invalid(format!(
            "{key:?} is no name of a variable, or its value has a NUL"
        ));
    }
    if request.command.iter().any(|arg| arg.contains('\0')) {
        return invalid("an argument has a NUL byte in it".to_owned());
    }
    if request.agent.is_none() && request.command.first().is_some_and(String::is_empty) {
        return invalid("the command is empty".to_owned());
    }
    Ok(())
}

fn parse_name(name: &str) -> Result<SessionName, Failure> {
    name.parse()
        .map_err(|e: wt_protocol::IdError| Failure::new(FailureKind::Invalid, e.to_string()))
}

/// The name, if no living session has it and it is nobody's id.
fn free_name(name: SessionName, all: &[Found]) -> Result<SessionName, Failure> {
    if all.iter().any(|f| f.meta.id.as_str() == name.as_str()) {
        let message = format!("{name} is the id of a session, so it cannot be a name");
        return Err(Failure::new(FailureKind::Invalid, message).hint("choose another name"));
    }
    if all.iter().any(|f| f.is_living() && f.meta.name == name) {
        let message = format!("a session named {name} is living already");
        return Err(Failure::new(FailureKind::Failed, message).hint(format!(
            "attach to it with `wt attach {name}`, or choose another name"
        )));
    }
    Ok(name)
}

/// A name for a session whose maker gave none: its command's, with a number if taken.
fn make_name(command: &[String], all: &[Found]) -> SessionName {
    let taken: HashSet<&str> = all
        .iter()
        .filter(|f| f.is_living())
        .map(|f| f.meta.name.as_str())
        .chain(all.iter().map(|f| f.meta.id.as_str()))
        .collect();
    let base = command
        .first()
        .and_then(|program| Path::new(program).file_name())
        .and_then(|name| name.to_str())
        .map(|name| {
            name.chars()
                .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                .take(40)
                .collect()
        })
        .filter(|name: &String| name.parse::<SessionName>().is_ok())
        .unwrap_or_else(|| "shell".to_owned());
    let mut candidates = std::iter::once(base.clone())
        .chain((2u64..).map(|n| format!("{base}-{n}")))
        .filter(|n| !taken.contains(n.as_str()));
    candidates
        .find_map(|name| name.parse().ok())
        .expect("some number is free")
}

fn fresh_id(all: &[Found]) -> Result<SessionId, Failure> {
    loop {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| failed(&e))?;
        let id = SessionId::from_random(random);
        if !all
            .iter()
            .any(|f| f.meta.id == id || f.meta.name.as_str() == id.as_str())
        {
            return Ok(id);
        }
    }
}

fn ended(found: &Found) -> Failure {
    let how = match &found.exit {
        None => "its process is gone".to_owned(),
        Some(record) => match (record.exit.code, record.exit.signal) {
            (Some(code), _) => format!("it exited with {code}"),
            (None, Some(signal)) => format!("signal {signal} ended it"),
            (None, None) => "it ended".to_owned(),
        },
    };
    Failure::new(
        FailureKind::Failed,
        format!("the session {} is not living: {how}", found.meta.name),
    )
    .hint(format!(
        "its last screen is in `wt session read {}`",
        found.meta.name
    ))
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Failed, error.to_string())
}

//! Where sessions are: in this profile, at a wing that is reached through a relay, or on a
//! machine that is reached over ssh.

use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use tokio::sync::mpsc;
use wt_protocol::rpc::{
    Failure, OutputPage, RecordingPage, Request, Response, ScreenText, SendInput, Sent,
    SessionEvent, SessionRecord, SessionStatus, WaitFor, Waited,
};
use wt_wing::attach::Target;
use wt_wing::client::{Client, WingHandle};
use wt_wing::config::WingConfig;
use wt_wing::profile::Profile;
use wt_wing::remote::{Reach, RemoteHost};
use wt_wing::sessions::Sessions;
use wt_wing::{Error, ErrorCode};

use crate::error::say;
use crate::nested;

/// Clients that this command opened, for [`goodbye`].
static OPENED: Mutex<Vec<Arc<Client>>> = Mutex::new(Vec::new());

/// Hosts that this command reached over ssh, for [`goodbye`].
static REACHED: Mutex<Vec<RemoteHost>> = Mutex::new(Vec::new());

/// Opens a client whose links end in order with this command.
pub(crate) fn open_client(profile: &Profile, roost: Option<&str>) -> Result<Arc<Client>, Error> {
    let client = Client::open(profile, roost)?;
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.push(Arc::clone(&client));
    Ok(client)
}

/// Prepares to reach a machine over ssh, which ends with this command.
fn reach_host(host: &str, whereabouts: &Where) -> Result<RemoteHost, Error> {
    let ssh = std::env::var("WT_SSH").ok().filter(|ssh| !ssh.is_empty());
    let host = RemoteHost::new(Reach {
        host: host.to_owned(),
        binary: whereabouts.remote_binary.clone(),
        dir: whereabouts.remote_dir.clone(),
        ssh,
    })?;
    let mut reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    reached.push(host.clone());
    Ok(host)
}

/// Ends all links in order: a relay keeps the place of one that only fell silent. No ssh
/// is left behind.
pub(crate) async fn goodbye() {
    let reached = std::mem::take(&mut *REACHED.lock().unwrap_or_else(PoisonError::into_inner));
    for host in reached {
        host.close().await;
    }
    let opened = std::mem::take(&mut *OPENED.lock().unwrap_or_else(PoisonError::into_inner));
    for client in opened {
        client.close().await;
    }
}

/// Chooses a wing
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Where {
    /// Use the sessions of this wing instead of this profile's own
    ///
    /// A label, a wing id, or a prefix of 8 or more characters of a known wing's id.
    #[arg(long, value_name = "NAME")]
    pub(crate) wing: Option<String>,
    /// The roost through which the wing is reached; it must be the one signed in to
    #[arg(long, value_name = "URL", requires = "wing")]
    pub(crate) roost: Option<String>,
    /// Use the sessions of this machine, over ssh
    ///
    /// What ssh takes: a name, USER@NAME, or an alias of its configuration. Host keys,
    /// log-ins and jumps are ssh's; so is noticing a dead network (ServerAliveInterval).
    #[arg(long, value_name = "HOST", conflicts_with = "wing")]
    pub(crate) remote: Option<String>,
    /// The program there, a name or a path; ~/ is the home folder there
    #[arg(
        long,
        value_name = "PATH",
        requires = "remote",
        default_value = "wt",
        hide_default_value = true
    )]
    pub(crate) remote_binary: String,
    /// The profile's folder there [default: WINGTHING_DIR there, or ~/.wingthing]
    #[arg(long, value_name = "DIR", requires = "remote")]
    pub(crate) remote_dir: Option<String>,
}

impl Where {
    /// Whether the sessions are this profile's own.
    pub(crate) fn is_here(&self) -> bool {
        self.wing.is_none() && self.remote.is_none()
    }
}

/// A set of sessions.
#[derive(Clone)]
pub(crate) enum Place {
    /// This profile's own.
    Here(Box<(Profile, Sessions)>),
    /// Another wing's.
    There(Box<WingHandle>),
    /// Another machine's, over ssh.
    Remote(RemoteHost),
}

impl Place {
    /// Finds the sessions that the user means. What is worth knowing goes to stderr.
    pub(crate) async fn find(profile: &Profile, whereabouts: &Where) -> Result<Self, Error> {
        if let Some(host) = &whereabouts.remote {
            return Ok(Place::Remote(reach_host(host, whereabouts)?));
        }
        nested::refuse_hidden(profile)?;
        let Some(wing) = &whereabouts.wing else {
            let sessions = profile.sessions_at_this_terminal();
            return Ok(Place::Here(Box::new((profile.clone(), sessions))));
        };
        let client = open_client(profile, whereabouts.roost.as_deref())?;
        let handle = client.wing(wing).await?;
        for notice in &handle.notices {
            say(&format!("note: {notice}"));
        }
        Ok(Place::There(Box::new(handle)))
    }

    /// Asks something of the sessions. Those that are made here get the environment of
    /// this very command.
    async fn call(&self, request: Request) -> Result<Response, Error> {
        match self {
            Place::There(wing) => wing.call(request).await,
            Place::Remote(host) => host.call(request).await,
            Place::Here(here) => {
                let (profile, sessions) = &**here;
                let terms = || {
                    let caller = wt_wing::profile::variables();
                    let config = WingConfig::read(profile).map_err(Failure::from)?;
                    Ok(config.terms_of_command(caller))
                };
                Ok(sessions.answer(request, terms).await?)
            }
        }
    }

    /// Does something that answers with the session afterwards.
    pub(crate) async fn act(&self, request: Request) -> Result<SessionRecord, Error> {
        match self.call(request).await? {
            Response::Session(record) => Ok(*record),
            other => Err(unexpected(&other)),
        }
    }

    /// All sessions.
    pub(crate) async fn list(&self) -> Result<Vec<SessionRecord>, Error> {
        match self.call(Request::Sessions).await? {
            Response::Sessions(records) => Ok(records),
            other => Err(unexpected(&other)),
        }
    }

    /// One session by its id, its name, or a unique prefix of its id.
    pub(crate) async fn get(&self, session: &str) -> Result<SessionRecord, Error> {
        let session = session.to_owned();
        self.act(Request::Session { session }).await
    }

    /// One session that is about to be attached to. Here its process must answer, so that
    /// one that is stuck costs a single time-out.
    pub(crate) async fn get_for_attach(&self, session: &str) -> Result<SessionRecord, Error> {
        let Place::Here(here) = self else {
            return self.get(session).await;
        };
        let (record, answers) = tokio::join!(here.1.get(session), here.1.open(session));
        let record = record?;
        match answers {
            Err(failure)
                if record.status.is_living() || record.status == SessionStatus::Foreign =>
            {
                Err(failure.into())
            }
            Ok(_) | Err(_) => Ok(record),
        }
    }

    /// A session's screen, with so many lines of scrollback before it.
    pub(crate) async fn screen(&self, session: &str, scrollback: u32) -> Result<ScreenText, Error> {
        let session = session.to_owned();
        match self
            .call(Request::Screen {
                session,
                scrollback,
            })
            .await?
        {
            Response::Screen(screen) => Ok(screen),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of a session's output.
    pub(crate) async fn output(
        &self,
        session: &str,
        from: u64,
        max: u32,
    ) -> Result<OutputPage, Error> {
        let session = session.to_owned();
        match self.call(Request::Output { session, from, max }).await? {
            Response::Output(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// Types into a session.
    pub(crate) async fn send(&self, input: SendInput) -> Result<Sent, Error> {
        match self.call(Request::Send(input)).await? {
            Response::Sent(sent) => Ok(sent),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits for a session, once.
    pub(crate) async fn wait(&self, wait: WaitFor) -> Result<Waited, Error> {
        match self.call(Request::Wait(wait)).await? {
            Response::Waited(waited) => Ok(waited),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of a session's recording; none when it is not recorded.
    pub(crate) async fn recording(
        &self,
        session: &str,
        from: u64,
        max: u32,
    ) -> Result<Option<RecordingPage>, Error> {
        let session = session.to_owned();
        match self.call(Request::Recording { session, from, max }).await? {
            Response::Recording(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// Tells what happens to one session, or to all, until it ended or nobody listens.
    pub(crate) async fn watch(
        &self,
        session: Option<String>,
        events: mpsc::Sender<SessionEvent>,
    ) -> Result<(), Error> {
        match self {
            Place::There(wing) => wing.watch(session, events).await,
            Place::Remote(host) => host.watch(session, events).await,
            Place::Here(here) => Ok(here.1.watch(session, events).await?),
        }
    }

    /// A session to attach to, by its id.
    pub(crate) fn target(&self, id: &str) -> Target {
        match self {
            Place::Here(here) => Target::Local(here.1.clone(), id.to_owned()),
            Place::There(wing) => Target::Remote((**wing).clone(), id.to_owned()),
            Place::Remote(host) => Target::Ssh(host.clone(), id.to_owned()),
        }
    }
}

fn unexpected(_response: &Response) -> Error {
    Error::new(
        ErrorCode::Failed,
        "the wing gave an answer that does not fit the request",
    )
}

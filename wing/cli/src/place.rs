//! Where sessions are: in this profile, or at a wing that is reached through a relay.

use clap::Args;
use wt_protocol::rpc::{
    Failure, FailureKind, OutputPage, Request, Response, ScreenText, SessionRecord, StartSession,
};
use wt_wing::attach::Target;
use wt_wing::client::{Client, WingHandle};
use wt_wing::config::WingConfig;
use wt_wing::profile::Profile;
use wt_wing::sessions::Sessions;
use wt_wing::{Error, ErrorCode};

use crate::error::say;

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
}

/// A set of sessions.
#[derive(Clone)]
pub(crate) enum Place {
    /// This profile's own.
    Here(Box<(Profile, Sessions)>),
    /// Another wing's.
    There(Box<WingHandle>),
}

impl Place {
    /// Finds the sessions that the user means. What is worth knowing goes to stderr.
    pub(crate) async fn find(profile: &Profile, whereabouts: &Where) -> Result<Self, Error> {
        let Some(wing) = &whereabouts.wing else {
            return Ok(Place::Here(Box::new((profile.clone(), profile.sessions()))));
        };
        let client = Client::open(profile, whereabouts.roost.as_deref())?;
        let handle = client.wing(wing).await?;
        for notice in &handle.notices {
            say(&format!("note: {notice}"));
        }
        Ok(Place::There(Box::new(handle)))
    }

    /// All sessions.
    pub(crate) async fn list(&self) -> Result<Vec<SessionRecord>, Error> {
        match self {
            Place::Here(here) => Ok(here.1.list().await?),
            Place::There(wing) => match wing.call(Request::Sessions).await? {
                Response::Sessions(records) => Ok(records),
                other => Err(unexpected(&other)),
            },
        }
    }

    /// One session by its id, its name, or a unique prefix of its id.
    pub(crate) async fn get(&self, session: &str) -> Result<SessionRecord, Error> {
        match self {
            Place::Here(here) => Ok(here.1.get(session).await?),
            Place::There(_) => Ok(resolve(&self.list().await?, session)?.clone()),
        }
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
            Err(failure) if record.status.is_living() => Err(failure.into()),
            Ok(_) | Err(_) => Ok(record),
        }
    }

    /// Starts a session. Here it gets the environment of this very command.
    pub(crate) async fn start(&self, request: StartSession) -> Result<SessionRecord, Error> {
        match self {
            Place::Here(here) => {
                let (profile, sessions) = &**here;
                let environment = std::env::vars_os().filter_map(|(key, value)| {
                    Some((key.into_string().ok()?, value.into_string().ok()?))
                });
                let env = wt_egg::env::from_terminal(environment);
                let terms = WingConfig::read(profile)?.start_terms(env);
                Ok(sessions.start(request, terms).await?)
            }
            Place::There(_) => self.act(Request::Start(request)).await,
        }
    }

    /// Ends a session.
    pub(crate) async fn kill(&self, session: &str) -> Result<SessionRecord, Error> {
        match self {
            Place::Here(here) => Ok(here.1.kill(session).await?),
            Place::There(_) => {
                self.act(Request::Kill {
                    session: session.to_owned(),
                })
                .await
            }
        }
    }

    /// Gives a session another name.
    pub(crate) async fn rename(&self, session: &str, name: &str) -> Result<SessionRecord, Error> {
        match self {
            Place::Here(here) => Ok(here.1.rename(session, name).await?),
            Place::There(_) => {
                self.act(Request::Rename {
                    session: session.to_owned(),
                    name: name.to_owned(),
                })
                .await
            }
        }
    }

    /// A session's screen, with so many lines of scrollback before it.
    pub(crate) async fn screen(&self, session: &str, scrollback: u32) -> Result<ScreenText, Error> {
        match self {
            Place::Here(here) => Ok(here.1.screen(session, scrollback).await?),
            Place::There(wing) => {
                let session = session.to_owned();
                match wing
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
        }
    }

    /// A page of a session's output.
    pub(crate) async fn output(
        &self,
        session: &str,
        from: u64,
        max: u32,
    ) -> Result<OutputPage, Error> {
        match self {
            Place::Here(here) => Ok(here.1.output(session, from, max).await?),
            Place::There(wing) => {
                let session = session.to_owned();
                match wing.call(Request::Output { session, from, max }).await? {
                    Response::Output(page) => Ok(page),
                    other => Err(unexpected(&other)),
                }
            }
        }
    }

    /// A session to attach to, by its id.
    pub(crate) fn target(&self, id: &str) -> Target {
        match self {
            Place::Here(here) => Target::Local(here.1.clone(), id.to_owned()),
            Place::There(wing) => Target::Remote((**wing).clone(), id.to_owned()),
        }
    }

    async fn act(&self, request: Request) -> Result<SessionRecord, Error> {
        let Place::There(wing) = self else {
            return Err(Error::failed("a request to a wing was made without one"));
        };
        match wing.call(request).await? {
            Response::Session(record) => Ok(*record),
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(_response: &Response) -> Error {
    Error::new(
        ErrorCode::Failed,
        "the wing gave an answer that does not fit the request",
    )
}

/// A session by id, then by the name of a living one, then of the newest ended one, then by
/// a unique prefix of its id: the rule that a wing follows as well.
fn resolve<'a>(records: &'a [SessionRecord], session: &str) -> Result<&'a SessionRecord, Failure> {
    if let Some(record) = records.iter().find(|r| r.id == session) {
        return Ok(record);
    }
    let named = records.iter().filter(|r| r.name == session);
    if let Some(record) = named.max_by_key(|r| (r.status.is_living(), r.created_at_ms)) {
        return Ok(record);
    }
    let by_prefix: Vec<&SessionRecord> = records
        .iter()
        .filter(|r| !session.is_empty() && r.id.starts_with(session))
        .collect();
    match by_prefix.as_slice() {
        [record] => Ok(record),
        [] => Err(Failure::new(
            FailureKind::NotFound,
            format!("there is no session {session:?}"),
        )
        .hint("list them with `wt session ps`")),
        several => {
            let ids: Vec<&str> = several.iter().map(|r| r.id.as_str()).collect();
            Err(Failure::new(
                FailureKind::NotFound,
                format!("{session:?} may mean any of {}", ids.join(", ")),
            )
            .hint("give more of the id"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_protocol::rpc::SessionStatus;

    use super::*;
    use crate::views::tests::record;

    #[test]
    fn a_name_means_its_living_session_and_else_the_newest() {
        let ended = |id: &str, at| SessionRecord {
            status: SessionStatus::Exited,
            created_at_ms: at,
            ..record(id, "work")
        };
        let old = [ended("aaaaaaaaaaaa", 1), ended("bbbbbbbbbbbb", 2)];
        assert_eq!(resolve(&old, "work").unwrap().id, "bbbbbbbbbbbb");

        let all = [
            &old[..],
            &[SessionRecord {
                created_at_ms: 0,
                ..record("cccccccccccc", "work")
            }],
        ]
        .concat();
        assert_eq!(resolve(&all, "work").unwrap().id, "cccccccccccc");
        assert_eq!(resolve(&all, "aaaaaaaaaaaa").unwrap().id, "aaaaaaaaaaaa");
    }

    #[test]
    fn a_prefix_must_be_of_one_id_only() {
        let all = [record("abcdefghijkl", "x"), record("abzzzzzzzzzz", "y")];

        assert_eq!(resolve(&all, "abc").unwrap().name, "x");
        assert_eq!(resolve(&all, "ab").unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(resolve(&all, "").unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(resolve(&all, "q").unwrap_err().kind, FailureKind::NotFound);
    }
}

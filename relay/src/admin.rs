//! The operator's side of a running relay: whoever can read its data folder may approve
//! device logins and make sign-in links.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wt_files::FileError;
use wt_protocol::api::{
    ApproveRequest, ApproveResponse, PATH_LOCAL_APPROVE, PATH_LOCAL_LINK, Problem, SignInLink,
};

/// The operator's token, in the data folder.
pub(crate) const TOKEN_FILE: &str = "local.token";

/// Where the running relay is reached, in the data folder.
pub(crate) const STATE_FILE: &str = "relay.json";

/// Largest of these two files, in bytes; both have under 500.
const MAX_FILE: u64 = 16 * 1024;

/// A relay on this machine that does not answer in this time hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// What a running relay says of itself in its data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningRelay {
    pub(crate) version: u32,
    /// The URL under which users reach it.
    pub(crate) origin: String,
    /// The loopback URL that serves its operator.
    pub(crate) admin: String,
    /// Its process.
    pub(crate) pid: u32,
}

/// Why the relay did not do what its operator asked.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// No relay uses this data folder.
    #[error("no relay is running with the data folder {}", .0.display())]
    NotRunning(PathBuf),
    /// A file of the data folder cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of the data folder is not what it should be.
    #[error("{} is not what a relay writes", .0.display())]
    Malformed(PathBuf),
    /// The relay did not answer.
    #[error("the relay at {url} does not answer: {source}")]
    Unreachable {
        /// Where it was expected.
        url: String,
        /// What the HTTP client says.
        source: reqwest::Error,
    },
    /// No login waits for this code.
    #[error("{0}")]
    UnknownCode(String),
    /// The relay refused.
    #[error("the relay says: {0}")]
    Refused(String),
}

/// Approves the device login under this code, for the account of the relay's operator.
///
/// # Errors
/// [`AdminError`].
pub async fn approve(data_dir: &Path, code: &str) -> Result<ApproveResponse, AdminError> {
    let request = ApproveRequest {
        user_code: code.to_owned(),
    };
    call(data_dir, PATH_LOCAL_APPROVE, &request).await
}

/// Makes a link that signs one browser in, once, within five minutes.
///
/// # Errors
/// [`AdminError`].
pub async fn sign_in_link(data_dir: &Path) -> Result<SignInLink, AdminError> {
    call(data_dir, PATH_LOCAL_LINK, &()).await
}

async fn call<T: DeserializeOwned>(
    data_dir: &Path,
    path: &str,
    body: &impl Serialize,
) -> Result<T, AdminError> {
    let not_running = || AdminError::NotRunning(data_dir.to_owned());
    let state_path = data_dir.join(STATE_FILE);
    let state = wt_files::read_capped(&state_path, MAX_FILE)?.ok_or_else(not_running)?;
    let state: RunningRelay =
        serde_json::from_slice(&state).map_err(|_| AdminError::Malformed(state_path))?;
    let token_path = data_dir.join(TOKEN_FILE);
    let token = wt_files::read_capped(&token_path, MAX_FILE)?.ok_or_else(not_running)?;
    let token = String::from_utf8(token).map_err(|_| AdminError::Malformed(token_path))?;

    let url = format!("{}{path}", state.admin);
    let unreachable = |source: reqwest::Error| {
        if source.is_connect() {
            // A file that a killed relay left behind.
            return not_running();
        }
        AdminError::Unreachable {
            url: state.admin.clone(),
            source,
        }
    };
    let response = client()
        .map_err(unreachable)?
        .post(&url)
        .bearer_auth(token.trim_end())
        .json(body)
        .send()
        .await
        .map_err(unreachable)?;
    if response.status().is_success() {
        return response.json().await.map_err(unreachable);
    }
    let problem: Problem = response.json().await.map_err(unreachable)?;
    Err(match problem.error.as_deref() {
        Some("unknown_code") => AdminError::UnknownCode(problem.title),
        _ => AdminError::Refused(problem.title),
    })
}

fn client() -> reqwest::Result<reqwest::Client> {
    // The HTTP client wants a TLS provider even where it never speaks TLS. An error
    // means that the process has chosen one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        // A proxy must not see the token, and could not reach loopback anyway.
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(DEADLINE)
        .build()
}

/// Writes where the running relay is reached.
pub(crate) fn announce(data_dir: &Path, state: &RunningRelay) -> Result<(), FileError> {
    let text = serde_json::to_vec(state).expect("strings and numbers are always JSON");
    wt_files::write_whole(&data_dir.join(STATE_FILE), &text)
}

/// Takes back [`announce`].
pub(crate) fn withdraw(data_dir: &Path) {
    match std::fs::remove_file(data_dir.join(STATE_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "{STATE_FILE} could not be removed");
        }
        _ => {}
    }
}

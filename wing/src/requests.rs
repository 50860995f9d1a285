//! Acting requests that were done lately, so that a repeated one is done once.
//!
//! A client that lost its link does not know whether its request arrived and asks again
//! under the same id. Results are kept on disk for ten minutes for each client key. A
//! request that was begun when the wing was killed is neither done again nor claimed to
//! be done.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use wt_protocol::keys::ClientKey;
use wt_protocol::limits::MAX_MESSAGE;
use wt_protocol::rpc::{Failure, FailureKind, Response};
use wt_protocol::{RequestId, codec};

use crate::error::Error;
use crate::pins::now_ms;
use crate::profile::{Profile, damaged};

const FILE: &str = "requests.json";

/// How long a result is kept.
const KEEP_MS: u64 = 10 * 60 * 1_000;

/// Results that are kept at once. A client that starts one session a second for ten
/// minutes fits; each costs about a kilobyte.
const MAX_KEPT: usize = 1_024;

type Outcome = Result<Response, Failure>;

/// What is known of a request.
pub(crate) enum Seen {
    /// Nothing: it is begun now, and must be finished by [`Requests::finish`].
    New,
    /// It was done, with this outcome.
    Done(Outcome),
    /// It was begun and is not known to be done.
    Begun,
}

/// The acting requests of the last minutes.
pub(crate) struct Requests {
    profile: Profile,
    kept: Mutex<HashMap<String, Kept>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    at_ms: u64,
    /// The outcome in the wire's own encoding; none while it is under way.
    outcome: Option<String>,
}

impl Requests {
    /// Reads what was kept.
    pub(crate) fn open(profile: &Profile) -> Result<Self, Error> {
        let kept = match profile.read_state(FILE)? {
            None => HashMap::new(),
            Some(bytes) => {
                serde_json::from_slice(&bytes).map_err(|e| damaged(&profile.file(FILE), &e))?
            }
        };
        Ok(Self {
            profile: profile.clone(),
            kept: Mutex::new(kept),
        })
    }

    /// Begins a request, unless it is known.
    pub(crate) fn begin(&self, client: &ClientKey, id: &RequestId) -> Result<Seen, Failure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now_ms();
        kept.retain(|_, entry| now.saturating_sub(entry.at_ms) < KEEP_MS);
        let key = format!("{client}/{id}");
        if let Some(entry) = kept.get(&key) {
            return Ok(match &entry.outcome {
                None => Seen::Begun,
                Some(text) => decode(text).map_or(Seen::Begun, Seen::Done),
            });
        }
        if kept.len() >= MAX_KEPT {
            let message = format!("{MAX_KEPT} acting requests in ten minutes are enough");
            return Err(
                Failure::new(FailureKind::Refused, message).hint("try again in a few minutes")
            );
        }
        kept.insert(
            key,
            Kept {
                at_ms: now,
                outcome: None,
            },
        );
        self.store(&kept)?;
        Ok(Seen::New)
    }

    /// Keeps the outcome of a request that was begun.
    pub(crate) fn finish(
        &self,
        client: &ClientKey,
        id: &RequestId,
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = codec::encode(outcome, MAX_MESSAGE)
            .map_err(|e| Failure::new(FailureKind::Failed, e.to_string()))?;
        if let Some(entry) = kept.get_mut(&format!("{client}/{id}")) {
            entry.outcome = Some(STANDARD_NO_PAD.encode(bytes));
        }
        self.store(&kept)
    }

    fn store(&self, kept: &HashMap<String, Kept>) -> Result<(), Failure> {
        let bytes = serde_json::to_vec(kept)
            .map_err(|e| Failure::new(FailureKind::Failed, e.to_string()))?;
        self.profile.write_state(FILE, &bytes).map_err(|e| Failure {
            kind: FailureKind::Failed,
            message: e.message,
            hint: e.hint,
        })
    }
}

fn decode(text: &str) -> Option<Outcome> {
    let bytes = STANDARD_NO_PAD.decode(text).ok()?;
    codec::decode(&bytes, MAX_MESSAGE).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ANN: ClientKey = ClientKey::from_bytes([1; 32]);
    const BOB: ClientKey = ClientKey::from_bytes([2; 32]);
    const ID: RequestId = RequestId::from_bytes([3; 16]);

    #[test]
    fn a_repeated_request_gets_its_outcome_even_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let profile = Profile::at(dir.path());
        let outcome = Err(Failure::new(FailureKind::NotFound, "gone"));

        let requests = Requests::open(&profile).unwrap();
        assert!(matches!(requests.begin(&ANN, &ID).unwrap(), Seen::New));
        assert!(matches!(requests.begin(&ANN, &ID).unwrap(), Seen::Begun));
        requests.finish(&ANN, &ID, &outcome).unwrap();
        drop(requests);

        let requests = Requests::open(&profile).unwrap();
        let Seen::Done(kept) = requests.begin(&ANN, &ID).unwrap() else {
            panic!("it was forgotten")
        };
        assert_eq!(kept, outcome);
        assert!(
            matches!(requests.begin(&BOB, &ID).unwrap(), Seen::New),
            "ids are each client's own"
        );
    }

    #[test]
    fn a_request_that_was_cut_by_a_crash_is_not_done_again() {
        let dir = tempfile::tempdir().unwrap();
        let profile = Profile::at(dir.path());
        drop(Requests::open(&profile).unwrap().begin(&ANN, &ID).unwrap());

        let seen = Requests::open(&profile).unwrap().begin(&ANN, &ID).unwrap();

        assert!(matches!(seen, Seen::Begun));
    }
}

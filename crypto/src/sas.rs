//! Six digits that two people, or one at two screens, compare: equal digits mean that
//! nobody sits between the two ends.
//!
//! The wing commits to its nonce before it sees the client's, so whoever sits in between
//! must settle on his own before he knows what they will give: he has one chance in a
//! million for each run. Every state is used up by its next step, and [`CompareRuns`]
//! bounds how often it may be tried.

use core::fmt;

use ring::digest;
use serde::{Deserialize, Serialize};
use wt_protocol::signed;

use crate::keys::same;

/// Comparisons in an hour. Three a wrong guess each leave an impostor one chance in
/// 300,000 an hour, and a user who mistypes two more tries.
const RUNS: usize = 3;

/// How long a comparison counts, in milliseconds.
const RUNS_WINDOW_MS: u64 = 60 * 60 * 1_000;

/// The six digits of one run.
#[derive(Clone, PartialEq, Eq)]
pub struct Digits(u32);

impl Digits {
    fn of(handshake_hash: &[u8; 32], wing_nonce: &[u8; 32], client_nonce: &[u8; 32]) -> Self {
        let hash = sha256(&signed::sas(handshake_hash, wing_nonce, client_nonce));
        let start = hash.first_chunk().expect("a hash has 32 bytes");
        // The remainder of 64 bits favours no digits by more than one part in 10^13.
        let digits = u64::from_be_bytes(*start) % 1_000_000;
        Self(u32::try_from(digits).expect("a million fits"))
    }

    /// Whether this is what somebody typed, with or without a space or dash in it.
    pub fn matches(&self, typed: &str) -> bool {
        let bare: String = typed.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
        same(bare.as_bytes(), format!("{:06}", self.0).as_bytes())
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:03} {:03}", self.0 / 1_000, self.0 % 1_000))
    }
}

impl fmt::Debug for Digits {
    // They let somebody in while they count, so they stand in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digits(..)")
    }
}

/// A wing that has sent its commitment and waits for the client's nonce.
pub struct CompareWing {
    handshake_hash: [u8; 32],
    nonce: [u8; 32],
}

impl CompareWing {
    /// Starts a run in the session with this handshake hash, with 32 fresh random bytes.
    /// Returns the commitment to send.
    pub fn start(handshake_hash: [u8; 32], nonce: [u8; 32]) -> (Self, [u8; 32]) {
        let commitment = sha256(&signed::sas_commitment(&handshake_hash, &nonce));
        let wing = Self {
            handshake_hash,
            nonce,
        };
        (wing, commitment)
    }

    /// Takes the client's nonce. Returns the digits, and the nonce to send.
    pub fn open(self, client_nonce: &[u8; 32]) -> (Digits, [u8; 32]) {
        let digits = Digits::of(&self.handshake_hash, &self.nonce, client_nonce);
        (digits, self.nonce)
    }
}

/// A client that has sent its nonce and waits for the wing's.
pub struct CompareClient {
    handshake_hash: [u8; 32],
    commitment: [u8; 32],
    nonce: [u8; 32],
}

/// A wing's nonce is not the one that it committed to: somebody sits in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the wing did not keep to what it committed to; somebody may sit in between")]
pub struct BrokenCommitment;

impl CompareClient {
    /// Takes the wing's commitment, with 32 fresh random bytes that are drawn after it
    /// came: send them next.
    pub fn start(handshake_hash: [u8; 32], commitment: [u8; 32], nonce: [u8; 32]) -> Self {
        Self {
            handshake_hash,
            commitment,
            nonce,
        }
    }

    /// Takes the wing's nonce.
    ///
    /// # Errors
    /// [`BrokenCommitment`]: end the session.
    pub fn finish(self, wing_nonce: &[u8; 32]) -> Result<Digits, BrokenCommitment> {
        let commitment = sha256(&signed::sas_commitment(&self.handshake_hash, wing_nonce));
        if !same(&commitment, &self.commitment) {
            return Err(BrokenCommitment);
        }
        Ok(Digits::of(&self.handshake_hash, wing_nonce, &self.nonce))
    }
}

/// How often digits were compared lately. Kept by each end for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CompareRuns {
    /// When the last runs began, oldest first, in milliseconds since the Unix epoch.
    began_ms: Vec<u64>,
}

/// Digits were compared too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("digits may be compared {RUNS} times an hour")]
pub struct TooManyRuns {
    /// When the next run may begin, in milliseconds since the Unix epoch.
    pub again_at_ms: u64,
}

impl CompareRuns {
    /// Begins a run, which counts however it ends.
    ///
    /// # Errors
    /// [`TooManyRuns`]. A clock that was set back does not give more runs.
    pub fn begin(&mut self, now_ms: u64) -> Result<(), TooManyRuns> {
        self.began_ms
            .retain(|&began| now_ms < began.saturating_add(RUNS_WINDOW_MS));
        if self.began_ms.len() >= RUNS {
            let oldest = self.began_ms.iter().min().copied().unwrap_or(now_ms);
            return Err(TooManyRuns {
                again_at_ms: oldest.saturating_add(RUNS_WINDOW_MS),
            });
        }
        self.began_ms.push(now_ms);
        Ok(())
    }
}

pub(crate) fn sha256(data: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, data)
        .as_ref()
        .try_into()
        .expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HASH: [u8; 32] = [1; 32];

    #[test]
    fn both_ends_of_one_session_get_the_same_digits() {
        let (wing, commitment) = CompareWing::start(HASH, [2; 32]);
        let client = CompareClient::start(HASH, commitment, [3; 32]);

        let (at_wing, nonce) = wing.open(&[3; 32]);
        let at_client = client.finish(&nonce).unwrap();

        assert_eq!(at_wing, at_client);
        let shown = at_wing.to_string();
        assert_eq!(shown.len(), 7);
        assert!(at_client.matches(&shown) && at_client.matches(&shown.replace(' ', "")));
        assert!(!at_client.matches("") && !at_client.matches(&shown[..6]));
    }

    #[test]
    fn ends_of_two_sessions_get_other_digits() {
        let (wing, commitment) = CompareWing::start(HASH, [2; 32]);
        let (between, other_commitment) = CompareWing::start([9; 32], [2; 32]);
        assert_ne!(commitment, other_commitment);
        let client = CompareClient::start([9; 32], other_commitment, [3; 32]);

        let (at_wing, _) = wing.open(&[3; 32]);
        let (_, nonce) = between.open(&[3; 32]);

        assert_ne!(client.finish(&nonce).unwrap(), at_wing);
    }

    #[test]
    fn a_wing_that_picks_its_nonce_later_is_found_out() {
        let (wing, commitment) = CompareWing::start(HASH, [2; 32]);
        let honest = CompareClient::start(HASH, commitment, [3; 32]);
        let client = CompareClient::start(HASH, commitment, [3; 32]);
        let (_, nonce) = wing.open(&[3; 32]);

        assert!(honest.finish(&nonce).is_ok());
        assert_eq!(client.finish(&[4; 32]), Err(BrokenCommitment));
    }

    #[test]
    fn digits_are_compared_three_times_an_hour() {
        let hour = RUNS_WINDOW_MS;
        let mut runs = CompareRuns::default();
        for at in [10, 20, 30] {
            assert_eq!(runs.begin(at), Ok(()));
        }

        let again_at_ms = 10 + hour;
        assert_eq!(runs.begin(40), Err(TooManyRuns { again_at_ms }));
        assert_eq!(runs.begin(0), Err(TooManyRuns { again_at_ms }));
        assert_eq!(runs.begin(10 + hour), Ok(()));
        assert!(runs.begin(11 + hour).is_err());
        assert_eq!(runs.begin(20 + hour), Ok(()));
    }
}

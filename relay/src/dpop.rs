//! Proofs of possession for HTTP calls (RFC 9449), signed by Ed25519 device keys.
//!
//! Checking a proof is two steps: [`verify`] is pure and says whose proof for which call
//! it is; [`ReplayCache`] then makes sure that it is used once. The second step comes
//! after the caller found the device, so that strangers cannot fill the cache.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use wt_protocol::keys::DeviceKey;

use crate::secrets::sha256;
use crate::tokens::{self, Okp};

/// How far a proof's time may be from the relay's: clocks of laptops after sleep.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// Longest proof, in bytes. One with a token's hash and a long URL needs under 1 KiB.
const MAX_PROOF: usize = 4096;

/// Longest proof id, in bytes. Clients draw 16 random bytes.
const MAX_PROOF_ID: usize = 128;

/// Proofs that are remembered at once, 5 MB of them. At this many within two minutes
/// (270 calls a second by signed-in devices) further calls are refused, not waved through.
const MAX_REMEMBERED: usize = 32_768;

/// The call that a proof must be for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The HTTP method.
    pub(crate) method: &'a str,
    /// URLs under which this call may have been made, without query.
    pub(crate) urls: &'a [String],
    /// The access token that came along.
    pub(crate) token: Option<&'a str>,
}

/// A proof whose signature and claims hold; not yet known to be fresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proven {
    /// The key that signed.
    pub(crate) device: DeviceKey,
    id: [u8; 32],
}

/// Why a proof does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProofError {
    #[error("the proof of possession is malformed, forged or for another call")]
    Invalid,
    #[error("the proof's time is more than a minute from the relay's: set the clock")]
    Clock,
    #[error("the proof was used before")]
    Replayed,
    #[error("too many proofs at once")]
    Full,
}

/// Checks a proof's signature and what it is for.
pub(crate) fn verify(proof: &str, call: Call<'_>, now: SystemTime) -> Result<Proven, ProofError> {
    if proof.len() > MAX_PROOF {
        return Err(ProofError::Invalid);
    }
    let header = part::<Header>(proof, 0)?;
    if header.typ != "dpop+jwt" || header.alg != "EdDSA" {
        return Err(ProofError::Invalid);
    }
    let device = header.jwk.device().ok_or(ProofError::Invalid)?;

    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.required_spec_claims.clear();
    // A proof has no expiry or audience: its time and URL are compared below.
    validation.validate_exp = false;
    validation.validate_aud = false;
    let key = DecodingKey::from_ed_der(device.as_bytes());
    let claims = jsonwebtoken::decode::<Claims>(proof, &key, &validation)
        .map_err(|_| ProofError::Invalid)?
        .claims;

    let token_hash = call
        .token
        .map(|t| URL_SAFE_NO_PAD.encode(sha256(t.as_bytes())));
    if claims.htm != call.method
        || !call.urls.contains(&claims.htu)
        || claims.ath != token_hash
        || claims.jti.is_empty()
        || claims.jti.len() > MAX_PROOF_ID
    {
        return Err(ProofError::Invalid);
    }
    if tokens::seconds(now).abs_diff(claims.iat) > CLOCK_SKEW.as_secs() {
        return Err(ProofError::Clock);
    }
    let mut id = device.as_bytes().to_vec();
    id.extend_from_slice(claims.jti.as_bytes());
    Ok(Proven {
        device,
        id: sha256(&id),
    })
}

/// Remembers proofs for as long as their time would let them pass again.
#[derive(Debug, Default)]
pub(crate) struct ReplayCache {
    seen: HashSet<[u8; 32]>,
    /// In the order of arrival, which is the order in which they are forgotten.
    order: VecDeque<(SystemTime, [u8; 32])>,
}

impl ReplayCache {
    /// Lets each proof pass once.
    pub(crate) fn admit(&mut self, proven: &Proven, now: SystemTime) -> Result<(), ProofError> {
        // A proof dated CLOCK_SKEW ahead stays acceptable for twice that time.
        while let Some((seen_at, id)) = self.order.front() {
            let age = now.duration_since(*seen_at).unwrap_or_default();
            if age <= 2 * CLOCK_SKEW {
                break;
            }
            self.seen.remove(id);
            self.order.pop_front();
        }
        if self.seen.contains(&proven.id) {
            return Err(ProofError::Replayed);
        }
        if self.seen.len() >= MAX_REMEMBERED {
            return Err(ProofError::Full);
        }
        self.seen.insert(proven.id);
        self.order.push_back((now, proven.id));
        Ok(())
    }
}

#[derive(Deserialize)]
struct Header {
    typ: String,
    alg: String,
    jwk: Okp,
}

#[derive(Deserialize)]
struct Claims {
    jti: String,
    htm: String,
    htu: String,
    iat: u64,
    ath: Option<String>,
}

/// Reads one of the three parts of a signed token without judging it.
fn part<T: for<'de> Deserialize<'de>>(proof: &str, index: usize) -> Result<T, ProofError> {
    let text = proof.split('.').nth(index).ok_or(ProofError::Invalid)?;
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| ProofError::Invalid)?;
    serde_json::from_slice(&bytes).map_err(|_| ProofError::Invalid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::UNIX_EPOCH;

    use ring::signature::{Ed25519KeyPair, KeyPair};
    use serde_json::{Value, json};

    use super::*;

    const URL: &str = "http://127.0.0.1:8080/v1/wings";

    #[test]
    fn a_proof_counts_for_its_call_and_names_the_device() {
        let proven = check(&sign(header(), claims())).unwrap();

        assert_eq!(proven.device.as_bytes(), key().public_key().as_ref());
    }

    #[test]
    fn a_proof_for_anything_else_is_refused() {
        for (field, other) in [
            ("htm", json!("POST")),
            ("htu", json!("http://127.0.0.1:8080/v1/logout")),
            ("htu", json!("http://evil.test/v1/wings")),
            (
                "ath",
                json!(URL_SAFE_NO_PAD.encode(sha256(b"another token"))),
            ),
            ("ath", Value::Null),
            ("jti", json!("")),
            ("jti", json!("x".repeat(MAX_PROOF_ID + 1))),
        ] {
            let mut claims = claims();
            claims[field] = other.clone();
            let result = check(&sign(header(), claims));
            assert_eq!(result, Err(ProofError::Invalid), "{field} {other}");
        }
    }

    #[test]
    fn a_proof_with_another_algorithm_type_or_key_is_refused() {
        for (field, other) in [
            ("alg", json!("none")),
            ("alg", json!("HS256")),
            ("typ", json!("JWT")),
            (
                "jwk",
                json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode([9; 32])}),
            ),
            ("jwk", json!({"kty": "OKP", "crv": "X25519", "x": "AA"})),
        ] {
            let mut header = header();
            header[field] = other.clone();
            let result = check(&sign(header, claims()));
            assert_eq!(result, Err(ProofError::Invalid), "{field} {other}");
        }
        assert_eq!(check(""), Err(ProofError::Invalid));
        assert_eq!(check("a.b.c"), Err(ProofError::Invalid));
    }

    #[test]
    fn a_proof_holds_for_a_minute_on_either_side() {
        for (offset, expected) in [
            (-61, Err(ProofError::Clock)),
            (-60, Ok(())),
            (60, Ok(())),
            (61, Err(ProofError::Clock)),
        ] {
            let mut claims = claims();
            claims["iat"] = json!(1_000_000 + offset);
            assert_eq!(
                check(&sign(header(), claims)).map(drop),
                expected,
                "{offset}"
            );
        }
    }

    #[test]
    fn a_proof_passes_once_while_its_time_holds() {
        let proven = check(&sign(header(), claims())).unwrap();
        let mut second = claims();
        second["jti"] = json!("another");
        let other = check(&sign(header(), second)).unwrap();
        let mut cache = ReplayCache::default();

        assert_eq!(cache.admit(&proven, now()), Ok(()));
        assert_eq!(cache.admit(&proven, now()), Err(ProofError::Replayed));
        assert_eq!(cache.admit(&other, now()), Ok(()));
        let last = now() + 2 * CLOCK_SKEW;
        assert_eq!(cache.admit(&proven, last), Err(ProofError::Replayed));
        assert_eq!(cache.seen.len(), 2);
        let later = last + Duration::from_secs(1);
        assert_eq!(cache.admit(&proven, later), Ok(()));
        assert_eq!(cache.seen.len(), 1);
    }

    #[test]
    fn a_full_cache_refuses_and_forgets_in_time() {
        let mut cache = ReplayCache::default();
        let nth = |n: usize| Proven {
            device: DeviceKey::from_bytes([0; 32]),
            id: sha256(&n.to_be_bytes()),
        };
        for n in 0..MAX_REMEMBERED {
            assert_eq!(cache.admit(&nth(n), now()), Ok(()));
        }

        assert_eq!(
            cache.admit(&nth(MAX_REMEMBERED), now()),
            Err(ProofError::Full)
        );
        let later = now() + Duration::from_secs(121);
        assert_eq!(cache.admit(&nth(MAX_REMEMBERED), later), Ok(()));
    }

    fn check(proof: &str) -> Result<Proven, ProofError> {
        tokens::install_provider();
        let call = Call {
            method: "GET",
            urls: &[URL.to_owned()],
            token: Some("a token"),
        };
        verify(proof, call, now())
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn key() -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
    }

    fn header() -> Value {
        let x = URL_SAFE_NO_PAD.encode(key().public_key().as_ref());
        json!({"typ": "dpop+jwt", "alg": "EdDSA", "jwk": {"kty": "OKP", "crv": "Ed25519", "x": x}})
    }

    fn claims() -> Value {
        json!({
            "jti": "one", "htm": "GET", "htu": URL, "iat": 1_000_000,
            "ath": URL_SAFE_NO_PAD.encode(sha256(b"a token")),
        })
    }

    fn sign(header: Value, claims: Value) -> String {
        let text = [header, claims]
            .map(|v| URL_SAFE_NO_PAD.encode(v.to_string()))
            .join(".");
        let signature = URL_SAFE_NO_PAD.encode(key().sign(text.as_bytes()));
        format!("{text}.{signature}")
    }
}

//! Access tokens: JWTs (RFC 7519) signed with ES256 and bound to a device key (RFC 7800).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Once;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, Validation};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::{Deserialize, Serialize};
use wt_protocol::keys::DeviceKey;
use wt_protocol::limits::MAX_TOKEN;

use crate::accounts::AccountId;
use crate::secrets::{self, KeyError};

/// How long a token holds: a revocation that reaches nobody else is over after this.
pub(crate) const TOKEN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The token key's file in the data folder.
const KEY_FILE: &str = "token.key";

/// What a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceKey,
    pub(crate) generation: u64,
    pub(crate) token_id: String,
    pub(crate) expires_at: SystemTime,
}

/// A token that signs nobody in. Why is nobody's business but a debugger's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid token of this relay")]
pub(crate) struct BadToken;

/// Issues and verifies the tokens of one relay.
pub(crate) struct Tokens {
    origin: String,
    signing: EncodingKey,
    verifying: DecodingKey,
    validation: Validation,
}

impl Tokens {
    /// Loads the token key, or makes one at the first start.
    pub(crate) fn open(data_dir: &Path, origin: &str) -> Result<Self, KeyError> {
        install_provider();
        let path = data_dir.join(KEY_FILE);
        let der = secrets::load_or_create(&path, || {
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .expect("a P-256 key can be made from random bytes")
                .as_ref()
                .to_vec()
        })?;
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new())
                .map_err(|_| KeyError::Malformed {
                    path,
                    what: "the key that signs tokens",
                })?;
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[origin]);
        validation.set_issuer(&[origin]);
        validation.required_spec_claims =
            HashSet::from(["aud", "iss", "sub", "exp"].map(Into::into));
        // Time is passed in and compared below.
        validation.validate_exp = false;
        Ok(Self {
            origin: origin.to_owned(),
            signing: EncodingKey::from_ec_der(&der),
            verifying: DecodingKey::from_ec_der(pair.public_key().as_ref()),
            validation,
        })
    }

    /// Issues a token that holds for [`TOKEN_LIFETIME`].
    pub(crate) fn issue(
        &self,
        account: &AccountId,
        device: &DeviceKey,
        generation: u64,
        now: SystemTime,
        token_id: [u8; 16],
    ) -> String {
        let issued = seconds(now);
        let claims = WireClaims {
            iss: self.origin.clone(),
            aud: self.origin.clone(),
            sub: account.as_str().to_owned(),
            iat: issued,
            exp: issued + TOKEN_LIFETIME.as_secs(),
            jti: URL_SAFE_NO_PAD.encode(token_id),
            generation,
            cnf: Confirmation {
                jwk: Okp::of(device),
            },
        };
        jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &self.signing)
            .expect("the token key was parsed at start and signs any claims")
    }

    /// Reads a token that this relay issued and that has not run out.
    pub(crate) fn verify(&self, token: &str, now: SystemTime) -> Result<Claims, BadToken> {
        if token.len() > MAX_TOKEN {
            return Err(BadToken);
        }
        let claims = jsonwebtoken::decode::<WireClaims>(token, &self.verifying, &self.validation)
            .map_err(|_| BadToken)?
            .claims;
        if seconds(now) >= claims.exp {
            return Err(BadToken);
        }
        Ok(Claims {
            account: AccountId::new(claims.sub),
            device: claims.cnf.jwk.device().ok_or(BadToken)?,
            generation: claims.generation,
            token_id: claims.jti,
            expires_at: UNIX_EPOCH + Duration::from_secs(claims.exp),
        })
    }
}

/// The claims as they travel.
#[derive(Serialize, Deserialize)]
struct WireClaims {
    iss: String,
    aud: String,
    sub: String,
    iat: u64,
    exp: u64,
    jti: String,
    /// The device's enrolment: a later one makes this token worthless.
    #[serde(rename = "gen")]
    generation: u64,
    cnf: Confirmation,
}

/// Whose the token is (RFC 7800 section 3.2).
#[derive(Serialize, Deserialize)]
struct Confirmation {
    jwk: Okp,
}

/// An Ed25519 public key as a JWK (RFC 8037 section 2).
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Okp {
    kty: String,
    crv: String,
    x: String,
}

impl Okp {
    pub(crate) fn of(device: &DeviceKey) -> Self {
        Self {
            kty: "OKP".into(),
            crv: "Ed25519".into(),
            x: URL_SAFE_NO_PAD.encode(device.as_bytes()),
        }
    }

    pub(crate) fn device(&self) -> Option<DeviceKey> {
        if self.kty != "OKP" || self.crv != "Ed25519" {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(&self.x).ok()?;
        Some(DeviceKey::from_bytes(bytes.try_into().ok()?))
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Gives `jsonwebtoken` its cryptography: ring, for the two algorithms in use here.
///
/// Its own backends bring a second provider or an unsound RSA, so none is built in.
pub(crate) fn install_provider() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: signer,
        verifier_factory: verifier,
        key_utils: KeyUtils::new_unimplemented(),
    };
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Another installed provider verifies the same standard algorithms.
        let _ = PROVIDER.install_default();
    });
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    match (algorithm, key.family()) {
        (Algorithm::ES256, AlgorithmFamily::Ec) => {
            let pair = EcdsaKeyPair::from_pkcs8(
                &ECDSA_P256_SHA256_FIXED_SIGNING,
                key.as_bytes(),
                &SystemRandom::new(),
            )
            .map_err(|_| ErrorKind::InvalidEcdsaKey)?;
            Ok(Box::new(Es256Signer(pair)))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let ring: &'static dyn VerificationAlgorithm = match (algorithm, key.family()) {
        (Algorithm::ES256, AlgorithmFamily::Ec) => &ECDSA_P256_SHA256_FIXED,
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => &ED25519,
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    Ok(Box::new(RingVerifier {
        algorithm: *algorithm,
        key: UnparsedPublicKey::new(ring, key.try_get_as_bytes()?.to_vec()),
    }))
}

struct Es256Signer(EcdsaKeyPair);

impl Signer<Vec<u8>> for Es256Signer {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        self.0
            .sign(&SystemRandom::new(), message)
            .map(|s| s.as_ref().to_vec())
            .map_err(|_| signature::Error::new())
    }
}

impl JwtSigner for Es256Signer {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

struct RingVerifier {
    algorithm: Algorithm,
    key: UnparsedPublicKey<Vec<u8>>,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        self.key
            .verify(message, signature)
            .map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_account_and_device_until_it_runs_out() {
        let (tokens, _dir) = tokens("http://127.0.0.1:1");
        let token = issue(&tokens);

        let claims = tokens.verify(&token, at(599)).unwrap();

        assert_eq!(
            claims,
            Claims {
                account: AccountId::local(),
                device: DeviceKey::from_bytes([3; 32]),
                generation: 4,
                token_id: URL_SAFE_NO_PAD.encode([5; 16]),
                expires_at: at(600),
            }
        );
        assert_eq!(tokens.verify(&token, at(600)), Err(BadToken));
    }

    #[test]
    fn a_token_of_another_origin_or_key_is_refused() {
        let (tokens, dir) = tokens("http://127.0.0.1:1");
        let token = issue(&tokens);

        let same = Tokens::open(dir.path(), "http://127.0.0.1:1").unwrap();
        let other_origin = Tokens::open(dir.path(), "http://127.0.0.1:2").unwrap();
        let (other_key, _dir) = self::tokens("http://127.0.0.1:1");

        assert!(same.verify(&token, at(1)).is_ok());
        assert_eq!(other_origin.verify(&token, at(1)), Err(BadToken));
        assert_eq!(other_key.verify(&token, at(1)), Err(BadToken));
    }

    #[test]
    fn altered_and_unsigned_tokens_are_refused() {
        let (tokens, _dir) = tokens("http://127.0.0.1:1");
        let token = issue(&tokens);
        let [_, claims, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
        let none = URL_SAFE_NO_PAD.encode(br#"{"alg":"none","typ":"JWT"}"#);
        let hmac = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
        let mut flipped = token.clone().into_bytes();
        flipped[60] ^= 1;

        for bad in [
            format!("{none}.{claims}."),
            format!("{none}.{claims}.{signature}"),
            format!("{hmac}.{claims}.{signature}"),
            String::from_utf8(flipped).unwrap(),
            "x".repeat(MAX_TOKEN + 1),
            String::new(),
        ] {
            assert_eq!(tokens.verify(&bad, at(1)), Err(BadToken), "{bad}");
        }
    }

    #[test]
    fn a_damaged_key_file_is_named_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(KEY_FILE), "rubbish").unwrap();

        let error = Tokens::open(dir.path(), "http://127.0.0.1:1")
            .err()
            .unwrap();

        assert!(error.to_string().contains(KEY_FILE), "{error}");
        assert_eq!(
            std::fs::read(dir.path().join(KEY_FILE)).unwrap(),
            b"rubbish"
        );
    }

    fn tokens(origin: &str) -> (Tokens, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Tokens::open(dir.path(), origin).unwrap(), dir)
    }

    fn issue(tokens: &Tokens) -> String {
        let device = DeviceKey::from_bytes([3; 32]);
        tokens.issue(&AccountId::local(), &device, 4, at(0), [5; 16])
    }

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000_000 + second)
    }
}

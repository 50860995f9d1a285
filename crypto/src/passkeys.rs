//! Passkeys: whether an authenticator vouched for one act, in one session, once.
//!
//! The wing sends 32 random bytes; each end works out the challenge from them, from its
//! own handshake hash and from the act itself ([`passkey_challenge`]). So an assertion is
//! of no use in another session, for another act or a second time, and a client never
//! signs a challenge that somebody gave it.
//!
//! The verifier is ours, over ring's signatures: what a wing needs of WebAuthn (level 2,
//! sections 6.1, 7.1 and 7.2) is a fixed layout and seven comparisons.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use serde::Deserialize;
use wt_protocol::access::{Act, Assertion, Enrolment, Passkey};
use wt_protocol::signed;

use crate::keys::same;
use crate::sas::sha256;

/// How long the bytes of a challenge hold, in milliseconds.
pub const CHALLENGE_LIFETIME_MS: u64 = 60 * 1_000;

/// Longest credential id (WebAuthn level 2, section 4), in bytes.
const MAX_CREDENTIAL: usize = 1_023;

/// Longest authenticator data and client data that are read, in bytes. Real ones are
/// below 500.
const MAX_DATA: usize = 4 * 1_024;

/// Longest origin and relying party, in bytes.
const MAX_ORIGIN: usize = 300;

/// Bytes of authenticator data before what some of its flags add.
const FIXED: usize = 37;

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const HAS_CREDENTIAL: u8 = 0x40;
const HAS_EXTENSIONS: u8 = 0x80;

/// What a passkey must sign: each end works it out with its own handshake hash.
pub fn passkey_challenge(handshake_hash: &[u8; 32], nonce: &[u8; 32], op: &[u8]) -> [u8; 32] {
    sha256(&signed::passkey(handshake_hash, nonce, op))
}

/// Why an assertion or an enrolment does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyError {
    /// The bytes that the challenge was made from ended.
    #[error("the passkey took longer than a minute")]
    TooLate,
    /// What came is not what an authenticator makes.
    #[error("what came is not an answer of an authenticator")]
    Malformed,
    /// It is an answer to another kind of question.
    #[error("the passkey answered another kind of question")]
    Kind,
    /// It was made for another act, session or time.
    #[error("the passkey vouched for something else")]
    Challenge,
    /// It was used in another page than it was enrolled in, or in a frame of one.
    #[error("the passkey was used in another page than it was enrolled in")]
    Origin,
    /// It is for another relying party.
    #[error("the passkey is for another site")]
    RelyingParty,
    /// Nobody touched the authenticator, or it did not check who did.
    #[error("the authenticator did not check its user")]
    UserNotVerified,
    /// Its key is of a kind that is not spoken.
    #[error("the passkey's key is neither ES256 nor EdDSA")]
    Algorithm,
    /// The credential is another one.
    #[error("the passkey is another one than was asked for")]
    OtherCredential,
    /// The signature is not by the credential.
    #[error("the passkey's signature is not valid")]
    Signature,
    /// The counter did not grow: there may be a copy of the authenticator.
    #[error("the passkey's counter went back; there may be a copy of it, so enrol another")]
    Counter,
}

/// Bytes that a wing sent to be vouched over. Kept in the session that they were sent in;
/// answering uses them up.
pub struct Challenge {
    nonce: [u8; 32],
    ends_at_ms: u64,
}

/// An act that a passkey vouched for. Only [`Challenge::verify`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asserted {
    credential: Vec<u8>,
    holder: String,
    is_relay_page: bool,
    counter: u32,
    act: Act,
}

impl Asserted {
    /// The credential's id.
    pub fn credential(&self) -> &[u8] {
        &self.credential
    }

    /// Whose entries the credential counts for.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Whether it was enrolled in a page that a relay served.
    pub fn is_relay_page(&self) -> bool {
        self.is_relay_page
    }

    /// The counter to remember.
    pub fn counter(&self) -> u32 {
        self.counter
    }

    /// What it vouched for.
    pub fn act(&self) -> &Act {
        &self.act
    }
}

impl Challenge {
    /// Makes one of 32 fresh random bytes.
    pub fn issue(nonce: [u8; 32], now_ms: u64) -> Self {
        Self {
            nonce,
            ends_at_ms: now_ms.saturating_add(CHALLENGE_LIFETIME_MS),
        }
    }

    /// What to send.
    pub fn nonce(&self) -> [u8; 32] {
        self.nonce
    }

    /// Checks an assertion over this act, in the session with this handshake hash.
    ///
    /// # Errors
    /// See [`PasskeyError`]. The challenge is used up either way.
    pub fn verify(
        self,
        handshake_hash: &[u8; 32],
        act: Act,
        assertion: &Assertion,
        passkey: &Passkey,
        now_ms: u64,
    ) -> Result<Asserted, PasskeyError> {
        if assertion.credential != passkey.credential {
            return Err(PasskeyError::OtherCredential);
        }
        let client = self.client_data(
            handshake_hash,
            &act,
            &assertion.client_data,
            "webauthn.get",
            now_ms,
        )?;
        if client.origin != passkey.origin {
            return Err(PasskeyError::Origin);
        }
        let data = AuthenticatorData::parse(&assertion.authenticator_data)?;
        data.check(&passkey.rp_id)?;
        let signed = [
            &assertion.authenticator_data[..],
            &sha256(&assertion.client_data),
        ]
        .concat();
        CoseKey::parse(&passkey.public_key)?.verify(&signed, &assertion.signature)?;
        let has_counter = passkey.counter != 0 || data.counter != 0;
        if has_counter && data.counter <= passkey.counter {
            return Err(PasskeyError::Counter);
        }
        Ok(Asserted {
            credential: passkey.credential.clone(),
            holder: passkey.holder.clone(),
            is_relay_page: is_relay_page(&passkey.origin),
            counter: data.counter,
            act,
        })
    }

    /// Checks a new credential that was made over [`Act::Enrol`]. It is the holder's once
    /// somebody puts it on the list.
    ///
    /// # Errors
    /// See [`PasskeyError`]. The challenge is used up either way.
    pub fn enrol(
        self,
        handshake_hash: &[u8; 32],
        holder: &str,
        enrolment: &Enrolment,
        now_ms: u64,
    ) -> Result<Passkey, PasskeyError> {
        let client = self.client_data(
            handshake_hash,
            &Act::Enrol,
            &enrolment.client_data,
            "webauthn.create",
            now_ms,
        )?;
        let host = host_of(&client.origin).ok_or(PasskeyError::Origin)?;
        let is_parent = |rp_id: &str| {
            let suffix = host.strip_suffix(rp_id);
            rp_id.contains('.') && suffix.is_some_and(|rest| rest.ends_with('.'))
        };
        if host != enrolment.rp_id && !is_parent(&enrolment.rp_id) {
            return Err(PasskeyError::RelyingParty);
        }
        let data = AuthenticatorData::parse(&enrolment.authenticator_data)?;
        data.check(&enrolment.rp_id)?;
        let (credential, public_key) = data.credential.ok_or(PasskeyError::Malformed)?;
        CoseKey::parse(public_key)?;
        Ok(Passkey {
            credential: credential.to_vec(),
            public_key: public_key.to_vec(),
            holder: holder.to_owned(),
            name: enrolment.name.clone(),
            origin: client.origin,
            rp_id: enrolment.rp_id.clone(),
            counter: data.counter,
            added_at_ms: now_ms,
        })
    }

    fn client_data(
        self,
        handshake_hash: &[u8; 32],
        act: &Act,
        json: &[u8],
        kind: &str,
        now_ms: u64,
    ) -> Result<ClientData, PasskeyError> {
        // A clock that was set back must not keep one open for longer.
        let ends_late = self.ends_at_ms > now_ms.saturating_add(CHALLENGE_LIFETIME_MS);
        if now_ms >= self.ends_at_ms || ends_late {
            return Err(PasskeyError::TooLate);
        }
        if json.len() > MAX_DATA {
            return Err(PasskeyError::Malformed);
        }
        let client: ClientData =
            serde_json::from_slice(json).map_err(|_| PasskeyError::Malformed)?;
        if client.kind != kind {
            return Err(PasskeyError::Kind);
        }
        let op = act.canonical().map_err(|_| PasskeyError::Malformed)?;
        let challenge = passkey_challenge(handshake_hash, &self.nonce, &op);
        let answered = BASE64URL_NOPAD
            .decode(client.challenge.as_bytes())
            .map_err(|_| PasskeyError::Malformed)?;
        if !same(&answered, &challenge) {
            return Err(PasskeyError::Challenge);
        }
        if client.cross_origin || client.top_origin.is_some() || client.origin.len() > MAX_ORIGIN {
            return Err(PasskeyError::Origin);
        }
        Ok(client)
    }
}

/// What the browser says of the page (WebAuthn level 2, section 5.8.1). Members that are
/// not known are left alone, as section 7 asks; one that comes twice is refused.
#[derive(Deserialize)]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(rename = "crossOrigin", default)]
    cross_origin: bool,
    #[serde(rename = "topOrigin", default)]
    top_origin: Option<String>,
}

/// The host of an origin that a passkey may be enrolled in: https anywhere, or a name
/// under `.localhost` on this machine.
fn host_of(origin: &str) -> Option<&str> {
    let (scheme, rest) = origin.split_once("://")?;
    let host = rest.split_once(':').map_or(rest, |(host, _)| host);
    let is_plain = host
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    let is_secure = scheme == "https" || (scheme == "http" && is_local(host));
    (is_secure && is_plain && !host.is_empty()).then_some(host)
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

/// Whether a page of this origin came from elsewhere than the user's own machine.
fn is_relay_page(origin: &str) -> bool {
    !host_of(origin).is_some_and(is_local)
}

/// WebAuthn level 2, section 6.1.
struct AuthenticatorData<'a> {
    rp_id_hash: [u8; 32],
    flags: u8,
    counter: u32,
    /// A new credential's id and key.
    credential: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> AuthenticatorData<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, PasskeyError> {
        let malformed = PasskeyError::Malformed;
        if bytes.len() > MAX_DATA {
            return Err(malformed);
        }
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>().ok_or(malformed)?;
        let [hash @ .., flags, a, b, c, d] = fixed;
        let flags = *flags;
        let (credential, after) = if flags & HAS_CREDENTIAL == 0 {
            (None, rest)
        } else {
            let (credential, after) = attested(rest).ok_or(malformed)?;
            (Some(credential), after)
        };
        // Extensions are signed, and none is asked for; without the flag nothing follows.
        if (flags & HAS_EXTENSIONS == 0) != after.is_empty() {
            return Err(malformed);
        }
        Ok(Self {
            rp_id_hash: *hash,
            flags,
            counter: u32::from_be_bytes([*a, *b, *c, *d]),
            credential,
        })
    }

    fn check(&self, rp_id: &str) -> Result<(), PasskeyError> {
        if self.rp_id_hash != sha256(rp_id.as_bytes()) {
            return Err(PasskeyError::RelyingParty);
        }
        let needed = USER_PRESENT | USER_VERIFIED;
        if self.flags & needed != needed {
            return Err(PasskeyError::UserNotVerified);
        }
        Ok(())
    }
}

/// An id and a key, and what follows them.
type Attested<'a> = ((&'a [u8], &'a [u8]), &'a [u8]);

/// WebAuthn level 2, section 6.5.1: model, length of the id, id, key.
fn attested(bytes: &[u8]) -> Option<Attested<'_>> {
    let (_model, rest) = bytes.split_at_checked(16)?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if !(1..=MAX_CREDENTIAL).contains(&length) {
        return None;
    }
    let (credential, rest) = rest.split_at_checked(length)?;
    let mut cbor = Cbor(rest);
    CoseKey::read(&mut cbor).ok()?;
    let (key, after) = rest.split_at(rest.len() - cbor.0.len());
    Some(((credential, key), after))
}

/// A public key (RFC 9052 section 7, RFC 9053 section 7) of the two kinds that are spoken.
enum CoseKey {
    /// ES256: a point on P-256, uncompressed.
    P256([u8; 65]),
    /// EdDSA on Ed25519.
    Ed25519([u8; 32]),
}

impl CoseKey {
    fn parse(bytes: &[u8]) -> Result<Self, PasskeyError> {
        let mut cbor = Cbor(bytes);
        let key = Self::read(&mut cbor)?;
        if !cbor.0.is_empty() {
            return Err(PasskeyError::Malformed);
        }
        Ok(key)
    }

    fn read(cbor: &mut Cbor<'_>) -> Result<Self, PasskeyError> {
        let malformed = PasskeyError::Malformed;
        let (mut kind, mut algorithm, mut curve) = (None, None, None);
        let (mut x, mut y) = (None, None);
        for _ in 0..cbor.map().ok_or(malformed)? {
            let label = cbor.integer().ok_or(malformed)?;
            let is_new = match label {
                1 => kind.replace(cbor.integer().ok_or(malformed)?).is_none(),
                3 => algorithm
                    .replace(cbor.integer().ok_or(malformed)?)
                    .is_none(),
                -1 => curve.replace(cbor.integer().ok_or(malformed)?).is_none(),
                -2 => x.replace(cbor.bytes32().ok_or(malformed)?).is_none(),
                -3 => y.replace(cbor.bytes32().ok_or(malformed)?).is_none(),
                // Authenticators put nothing else in (WebAuthn level 2, section 6.5.1.1).
                _ => return Err(malformed),
            };
            if !is_new {
                return Err(malformed);
            }
        }
        match (kind, algorithm, curve, x, y) {
            (Some(2), Some(-7), Some(1), Some(x), Some(y)) => {
                let mut point = [4; 65];
                point[1..33].copy_from_slice(&x);
                point[33..].copy_from_slice(&y);
                Ok(CoseKey::P256(point))
            }
            (Some(1), Some(-8), Some(6), Some(x), None) => Ok(CoseKey::Ed25519(x)),
            _ => Err(PasskeyError::Algorithm),
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), PasskeyError> {
        let verified = match self {
            CoseKey::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature)
            }
            CoseKey::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
        };
        verified.map_err(|_| PasskeyError::Signature)
    }
}

/// Reads the little of CBOR (RFC 8949) that a key is made of, in its one canonical form.
struct Cbor<'a>(&'a [u8]);

impl Cbor<'_> {
    /// A head: its major type and its number, in the shortest form, up to 65,535.
    fn head(&mut self) -> Option<(u8, u16)> {
        let (&first, rest) = self.0.split_first()?;
        let (major, short) = (first >> 5, first & 0x1f);
        let (number, rest) = match short {
            0..=23 => (u16::from(short), rest),
            24 => {
                let (&byte, rest) = rest.split_first()?;
                (byte >= 24).then_some((u16::from(byte), rest))?
            }
            25 => {
                let (bytes, rest) = rest.split_first_chunk()?;
                let number = u16::from_be_bytes(*bytes);
                (number > 0xff).then_some((number, rest))?
            }
            _ => return None,
        };
        self.0 = rest;
        Some((major, number))
    }

    fn map(&mut self) -> Option<u16> {
        match self.head()? {
            // No key has more members, so a claim of thousands is not followed.
            (5, length) if length <= 8 => Some(length),
            _ => None,
        }
    }

    fn integer(&mut self) -> Option<i32> {
        match self.head()? {
            (0, number) => Some(i32::from(number)),
            (1, number) => Some(-1 - i32::from(number)),
            _ => None,
        }
    }

    fn bytes32(&mut self) -> Option<[u8; 32]> {
        let (2, 32) = self.head()? else {
            return None;
        };
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::soft::{Kind, SoftAuthenticator};

    const HASH: [u8; 32] = [1; 32];
    const NONCE: [u8; 32] = [2; 32];
    const NOW: u64 = 1_000_000;
    const ORIGIN: &str = "http://wt-abc.localhost:8080";
    const RP: &str = "wt-abc.localhost";

    #[test]
    fn both_kinds_of_keys_are_enrolled_and_vouch_for_an_act() {
        for kind in [Kind::P256, Kind::Ed25519] {
            let (mut device, passkey) = enrolled(kind);

            let asserted = verify(&passkey, &device.assert(&challenge(&Act::Enter))).unwrap();

            assert_eq!(asserted.act(), &Act::Enter);
            assert_eq!(asserted.holder(), "ada");
            assert_eq!(asserted.credential(), passkey.credential);
            assert!(asserted.counter() > passkey.counter);
            assert!(!asserted.is_relay_page());
        }
    }

    #[test]
    fn an_assertion_counts_for_its_act_session_and_nonce_alone() {
        let (mut device, passkey) = enrolled(Kind::P256);
        let assertion = device.assert(&challenge(&Act::Enter));
        let verify = |hash, nonce, act| {
            let challenge = Challenge::issue(nonce, NOW);
            let verified = challenge.verify(hash, act, &assertion, &passkey, NOW);
            verified.map(|_| ())
        };
        let wrong = Err(PasskeyError::Challenge);

        assert_eq!(verify(&HASH, NONCE, Act::Enter), Ok(()));
        assert_eq!(verify(&[9; 32], NONCE, Act::Enter), wrong);
        assert_eq!(verify(&HASH, [9; 32], Act::Enter), wrong);
        assert_eq!(verify(&HASH, NONCE, Act::Enrol), wrong);
        let rotate = Act::Change(Box::new(wt_protocol::access::Change::Rotate));
        assert_eq!(verify(&HASH, NONCE, rotate), wrong);
    }

    #[test]
    fn a_challenge_holds_for_a_minute() {
        let (mut device, passkey) = enrolled(Kind::P256);
        let assertion = device.assert(&challenge(&Act::Enter));
        let at = |now| {
            let challenge = Challenge::issue(NONCE, NOW);
            let verified = challenge.verify(&HASH, Act::Enter, &assertion, &passkey, now);
            verified.map(|_| ())
        };

        assert_eq!(at(NOW + CHALLENGE_LIFETIME_MS - 1), Ok(()));
        assert_eq!(at(NOW + CHALLENGE_LIFETIME_MS), Err(PasskeyError::TooLate));
        assert_eq!(at(NOW - 1), Err(PasskeyError::TooLate));
    }

    #[test]
    fn each_thing_that_webauthn_says_is_checked() {
        let answer = |change: &dyn Fn(&mut SoftAuthenticator)| {
            let (mut device, passkey) = enrolled(Kind::P256);
            change(&mut device);
            let assertion = device.assert(&challenge(&Act::Enter));
            verify(&passkey, &assertion).map(|_| ())
        };

        assert_eq!(answer(&|_| {}), Ok(()));
        assert_eq!(
            answer(&|d| d.kind_of_answer = Some("webauthn.create")),
            Err(PasskeyError::Kind)
        );
        assert_eq!(
            answer(&|d| d.origin = "http://wt-abc.localhost:8081".to_owned()),
            Err(PasskeyError::Origin)
        );
        assert_eq!(
            answer(&|d| d.extra = r#","crossOrigin":true"#),
            Err(PasskeyError::Origin)
        );
        assert_eq!(
            answer(&|d| d.extra = r#","topOrigin":"https://evil.example""#),
            Err(PasskeyError::Origin)
        );
        assert_eq!(
            answer(&|d| d.extra = r#","crossOrigin":false,"new":1"#),
            Ok(())
        );
        assert_eq!(
            answer(&|d| d.extra = r#","origin":"https://evil.example""#),
            Err(PasskeyError::Malformed)
        );
        assert_eq!(
            answer(&|d| d.rp_id = "localhost".to_owned()),
            Err(PasskeyError::RelyingParty)
        );
        for flags in [0, USER_PRESENT, USER_VERIFIED] {
            assert_eq!(
                answer(&|d| d.flags = flags),
                Err(PasskeyError::UserNotVerified)
            );
        }
        assert_eq!(
            answer(&|d| d.credential = b"another".to_vec()),
            Err(PasskeyError::OtherCredential)
        );
        assert_eq!(
            answer(&SoftAuthenticator::renew_key),
            Err(PasskeyError::Signature)
        );
    }

    #[test]
    fn a_changed_byte_anywhere_is_noticed() {
        let (mut device, passkey) = enrolled(Kind::Ed25519);
        let good = device.assert(&challenge(&Act::Enter));
        assert!(verify(&passkey, &good).is_ok());
        let flip = |field: fn(&mut Assertion) -> &mut Vec<u8>| {
            let length = field(&mut good.clone()).len();
            for at in 0..length {
                let mut changed = good.clone();
                field(&mut changed)[at] ^= 1;
                assert!(verify(&passkey, &changed).is_err(), "byte {at}");
            }
        };

        flip(|a| &mut a.authenticator_data);
        flip(|a| &mut a.client_data);
        flip(|a| &mut a.signature);
        flip(|a| &mut a.credential);
    }

    #[test]
    fn a_counter_must_grow_unless_there_is_none() {
        let counter = |stored, shown| {
            let (mut device, passkey) = enrolled(Kind::P256);
            device.counter = shown;
            device.counts = false;
            let passkey = Passkey {
                counter: stored,
                ..passkey
            };
            verify(&passkey, &device.assert(&challenge(&Act::Enter))).map(|_| ())
        };

        assert_eq!(counter(0, 0), Ok(()));
        assert_eq!(counter(5, 6), Ok(()));
        assert_eq!(counter(0, 1), Ok(()));
        assert_eq!(counter(5, 5), Err(PasskeyError::Counter));
        assert_eq!(counter(5, 4), Err(PasskeyError::Counter));
        assert_eq!(counter(5, 0), Err(PasskeyError::Counter));
    }

    #[test]
    fn a_passkey_is_enrolled_for_the_page_it_was_made_in() {
        let enrol = |origin: &str, rp_id: &str| {
            let mut device = SoftAuthenticator::new(Kind::P256, origin, rp_id);
            let enrolment = device.enrol("key", &challenge(&Act::Enrol));
            Challenge::issue(NONCE, NOW)
                .enrol(&HASH, "ada", &enrolment, NOW)
                .map(|passkey| is_relay_page(&passkey.origin))
        };

        assert_eq!(enrol(ORIGIN, RP), Ok(false));
        assert_eq!(
            enrol("https://app.roost.example", "app.roost.example"),
            Ok(true)
        );
        assert_eq!(
            enrol("https://app.roost.example:8443", "roost.example"),
            Ok(true)
        );
        for rp_id in ["other.example", "example", "oost.example", "", "."] {
            assert_eq!(
                enrol("https://app.roost.example", rp_id),
                Err(PasskeyError::RelyingParty),
                "{rp_id}"
            );
        }
        for origin in [
            "http://roost.example",
            "roost.example",
            "file://",
            "https://",
        ] {
            assert_eq!(enrol(origin, "roost.example"), Err(PasskeyError::Origin));
        }
        assert_eq!(
            enrol("http://127.0.0.1:8080", "127.0.0.1"),
            Err(PasskeyError::Origin)
        );
    }

    #[test]
    fn an_assertion_is_no_enrolment_and_a_cut_one_neither() {
        let mut device = SoftAuthenticator::new(Kind::P256, ORIGIN, RP);
        let good = device.enrol("key", &challenge(&Act::Enrol));
        let enrol = |data: &[u8]| {
            let enrolment = Enrolment {
                authenticator_data: data.to_vec(),
                ..good.clone()
            };
            let enrolled = Challenge::issue(NONCE, NOW).enrol(&HASH, "ada", &enrolment, NOW);
            enrolled.map(|_| ())
        };

        let data = &good.authenticator_data;
        assert_eq!(enrol(data), Ok(()));
        for length in 0..data.len() {
            assert!(enrol(&data[..length]).is_err());
        }
        assert_eq!(
            enrol(&[data, &[0][..]].concat()),
            Err(PasskeyError::Malformed)
        );
        let assertion = device.assert(&challenge(&Act::Enrol));
        assert_eq!(
            enrol(&assertion.authenticator_data),
            Err(PasskeyError::Malformed)
        );
    }

    #[test]
    fn keys_are_read_in_their_one_form() {
        let x = [7; 32];
        let ed25519 = [&[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32][..], &x].concat();
        let parse = |bytes: &[u8]| CoseKey::parse(bytes).map(|_| ()).err();
        let edit = |at: usize, byte: u8| {
            let mut edited = ed25519.clone();
            edited[at] = byte;
            parse(&edited)
        };

        assert_eq!(parse(&ed25519), None);
        assert_eq!(edit(4, 0x26), Some(PasskeyError::Algorithm));
        assert_eq!(edit(6, 7), Some(PasskeyError::Algorithm));
        assert_eq!(edit(3, 1), Some(PasskeyError::Malformed));
        assert_eq!(edit(0, 0xa5), Some(PasskeyError::Malformed));
        assert_eq!(edit(0, 0xbf), Some(PasskeyError::Malformed));
        assert_eq!(edit(9, 31), Some(PasskeyError::Malformed));
        let long_form = [&ed25519[..2], &[0x18, 1], &ed25519[3..]].concat();
        assert_eq!(parse(&long_form), Some(PasskeyError::Malformed));
    }

    fn enrolled(kind: Kind) -> (SoftAuthenticator, Passkey) {
        let mut device = SoftAuthenticator::new(kind, ORIGIN, RP);
        let enrolment = device.enrol("key", &challenge(&Act::Enrol));
        let passkey = Challenge::issue(NONCE, NOW)
            .enrol(&HASH, "ada", &enrolment, NOW)
            .unwrap();
        (device, passkey)
    }

    fn challenge(act: &Act) -> [u8; 32] {
        passkey_challenge(&HASH, &NONCE, &act.canonical().unwrap())
    }

    fn verify(passkey: &Passkey, assertion: &Assertion) -> Result<Asserted, PasskeyError> {
        Challenge::issue(NONCE, NOW).verify(&HASH, Act::Enter, assertion, passkey, NOW)
    }
}

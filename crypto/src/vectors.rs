//! Golden vectors of a handshake and its first records, and a second implementation
//! of them: HKDF over ring's HMAC, the `aes-gcm` crate and X25519 alone, without snow.
//!
//! `WT_BLESS=1 cargo test -p wt-crypto` writes the file anew. Every implementation of
//! the protocol replays it.
#![allow(clippy::unwrap_used)]

use core::time::Duration;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use data_encoding::HEXLOWER;
use ring::{digest, hmac};
use wt_protocol::codec::encode;
use wt_protocol::limits::MAX_RECORD_PLAINTEXT;
use wt_protocol::{Close, Record, RouteHeader, RouteNonce, VersionRange};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use crate::handshake::{Answer, Ephemeral, Initiator, Responder, SUITE, prologue};
use crate::keys::{ClientSecret, IdentitySecret, NoiseSecret, WingIdentity, verify_statement};
use crate::session::tests::frames;
use crate::session::{Fill, SessionLimits};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/handshake.txt");

const IDENTITY: [u8; 32] = [0x11; 32];
const NOISE: [u8; 32] = [0x22; 32];
const CLIENT: [u8; 32] = [0x33; 32];
const CLIENT_EPHEMERAL: [u8; 32] = [0x44; 32];
const WING_EPHEMERAL: [u8; 32] = [0x55; 32];
const ROUTE_NONCE: [u8; 16] = [0x66; 16];

#[test]
fn the_handshake_and_its_first_records_are_those_of_the_file() {
    let vector = record_session();
    let text: String = vector
        .iter()
        .map(|(name, bytes)| format!("{name} {}\n", HEXLOWER.encode(bytes)))
        .collect();

    if std::env::var_os("WT_BLESS").is_some() {
        std::fs::write(PATH, &text).unwrap();
    }
    let golden = std::fs::read_to_string(PATH).unwrap();
    assert_eq!(
        text, golden,
        "if this is meant, bless the file with WT_BLESS=1"
    );
}

#[test]
fn another_implementation_makes_the_same_handshake() {
    let vector = record_session();
    let get = |name: &str| vector.iter().find(|(n, _)| *n == name).unwrap().1.clone();

    let made = Noise::handshake();

    assert_eq!(
        HEXLOWER.encode(&made.message_1),
        HEXLOWER.encode(&get("message_1"))
    );
    assert_eq!(
        HEXLOWER.encode(&made.message_2),
        HEXLOWER.encode(&get("message_2"))
    );
    assert_eq!(made.hash.to_vec(), get("handshake_hash"));
    let open = |key: &[u8; 32], counter, name: &str| {
        decrypt(key, counter, &[], &get(name)).unwrap_or_else(|| panic!("{name} does not open"))
    };
    let padded = |record: &Record<'_>| {
        let mut plain = encode(record, MAX_RECORD_PLAINTEXT).unwrap();
        plain.resize(64, 0);
        plain
    };
    let to_wing = made.client_key;
    assert_eq!(
        open(&to_wing, 0, "client_record_0"),
        padded(&Record::Message(b"hello wing"))
    );
    assert_eq!(
        open(&to_wing, 1, "client_record_1_rekey"),
        padded(&Record::Rekey)
    );
    let next = rekeyed(&to_wing);
    assert_eq!(
        open(&next, 2, "client_record_2"),
        padded(&Record::Ping([0x77; 16]))
    );
    let to_client = made.wing_key;
    assert_eq!(
        open(&to_client, 0, "wing_record_0"),
        padded(&Record::Message(b"hello client"))
    );
    assert_eq!(
        open(&to_client, 1, "wing_record_1_rekey"),
        padded(&Record::Rekey)
    );
    let next = rekeyed(&to_client);
    assert_eq!(
        open(&next, 2, "wing_record_2"),
        padded(&Record::Pong([0x88; 16]))
    );
    assert_eq!(
        open(&next, 3, "wing_record_3_close"),
        padded(&Record::Close(Close::Done))
    );
}

fn header() -> RouteHeader {
    let identity = IdentitySecret::from_bytes(&IDENTITY);
    RouteHeader {
        wing: wt_protocol::WingId::of_identity(&identity.public()),
        nonce: RouteNonce::from_bytes(ROUTE_NONCE),
        versions: VersionRange { min: 1, max: 1 },
    }
}

/// A session with fixed keys, each end changing its key once.
fn record_session() -> Vec<(&'static str, Vec<u8>)> {
    let client = ClientSecret::from_bytes(&CLIENT);
    let wing = WingIdentity::from_parts(
        IdentitySecret::from_bytes(&IDENTITY),
        NoiseSecret::from_bytes(&NOISE),
        1,
    );
    let (header, identity) = (header(), wing.identity().public());
    let statement = wing.statement();
    let verified = verify_statement(&header.wing, &identity, &statement).unwrap();

    let ephemeral = Ephemeral::Fixed(&CLIENT_EPHEMERAL);
    let (initiator, message_1) = Initiator::start_with(&client, &verified, &header, ephemeral);
    let (answer, message_2) = Responder::read_with(
        wing.noise(),
        &header.wing,
        &header,
        &message_1,
        header.versions,
        Ephemeral::Fixed(&WING_EPHEMERAL),
    )
    .unwrap();
    let Answer::Session(at_wing) = answer else {
        panic!("a version is common")
    };
    let at_client = initiator.finish(&message_2).unwrap();

    let limits = SessionLimits {
        rekey_records: 1,
        ..SessionLimits::default()
    };
    let start = Duration::ZERO;
    let hash = at_client.handshake_hash();
    let (mut from_client, _) = at_client.with_limits(limits).split(start);
    let (mut from_wing, _) = at_wing.with_limits(limits).split(start);
    let (mut client_out, mut wing_out) = (Vec::new(), Vec::new());
    from_client
        .seal_message(b"hello wing", Fill::Bucket, start, &mut client_out)
        .unwrap();
    from_client
        .seal_ping([0x77; 16], start, &mut client_out)
        .unwrap();
    from_wing
        .seal_message(b"hello client", Fill::Bucket, start, &mut wing_out)
        .unwrap();
    from_wing
        .seal_pong([0x88; 16], start, &mut wing_out)
        .unwrap();
    from_wing.seal_close(Close::Done, &mut wing_out).unwrap();
    let (client_records, wing_records) = (frames(&client_out), frames(&wing_out));

    vec![
        ("suite", SUITE.as_bytes().to_vec()),
        ("wing_identity_seed", IDENTITY.to_vec()),
        ("wing_identity_key", identity.as_bytes().to_vec()),
        ("wing_id", header.wing.as_str().as_bytes().to_vec()),
        ("wing_noise_secret", NOISE.to_vec()),
        ("wing_noise_key", statement.key.as_bytes().to_vec()),
        (
            "wing_statement_signature",
            statement.signature.as_bytes().to_vec(),
        ),
        ("client_secret", CLIENT.to_vec()),
        ("client_key", client.public().as_bytes().to_vec()),
        ("client_ephemeral_secret", CLIENT_EPHEMERAL.to_vec()),
        ("wing_ephemeral_secret", WING_EPHEMERAL.to_vec()),
        ("route_nonce", ROUTE_NONCE.to_vec()),
        ("prologue", prologue(&header.wing, &header)),
        ("message_1", message_1),
        ("message_2", message_2),
        ("handshake_hash", hash.to_vec()),
        ("client_record_0", client_records[0].clone()),
        ("client_record_1_rekey", client_records[1].clone()),
        ("client_record_2", client_records[2].clone()),
        ("wing_record_0", wing_records[0].clone()),
        ("wing_record_1_rekey", wing_records[1].clone()),
        ("wing_record_2", wing_records[2].clone()),
        ("wing_record_3_close", wing_records[3].clone()),
    ]
}

/// What the second implementation makes.
struct Made {
    message_1: Vec<u8>,
    message_2: Vec<u8>,
    hash: [u8; 32],
    client_key: [u8; 32],
    wing_key: [u8; 32],
}

/// The symmetric state of the Noise specification, section 5.2.
struct Noise {
    chaining: [u8; 32],
    hash: [u8; 32],
    key: [u8; 32],
}

impl Noise {
    /// Section 7.5: IK, whose pre-message is the responder's static key.
    fn start(prologue: &[u8], responder: &[u8; 32]) -> Self {
        let name: [u8; 32] = {
            // The name has 28 bytes; shorter ones than a hash are padded with zeros.
            let mut name = [0; 32];
            name[..SUITE.len()].copy_from_slice(SUITE.as_bytes());
            name
        };
        let mut noise = Self {
            chaining: name,
            hash: name,
            key: [0; 32],
        };
        noise.mix_hash(prologue);
        noise.mix_hash(responder);
        noise
    }

    fn mix_hash(&mut self, data: &[u8]) {
        self.hash = sha256(&[&self.hash, data].concat());
    }

    fn mix_key(&mut self, input: &[u8; 32]) {
        (self.chaining, self.key) = hkdf(&self.chaining, input);
    }

    /// Each key of the handshake seals once or twice, so the counter is given.
    fn seal(&mut self, counter: u64, plain: &[u8]) -> Vec<u8> {
        let sealed = encrypt(&self.key, counter, &self.hash, plain);
        self.mix_hash(&sealed);
        sealed
    }

    fn message_1(
        &mut self,
        ephemeral: &[u8; 32],
        es: &[u8; 32],
        s: &[u8; 32],
        ss: &[u8; 32],
    ) -> Vec<u8> {
        let mut message = ephemeral.to_vec();
        self.mix_hash(ephemeral);
        self.mix_key(es);
        message.extend(self.seal(0, s));
        self.mix_key(ss);
        message.extend(self.seal(0, &[]));
        message
    }

    fn handshake() -> Made {
        let public = |secret: [u8; 32]| x25519(secret, X25519_BASEPOINT_BYTES);
        let (wing, client) = (public(NOISE), public(CLIENT));
        let header = header();
        let mut noise = Self::start(&prologue(&header.wing, &header), &wing);
        let (e, es) = (public(CLIENT_EPHEMERAL), x25519(CLIENT_EPHEMERAL, wing));
        let message_1 = noise.message_1(&e, &es, &client, &x25519(CLIENT, wing));

        let re = public(WING_EPHEMERAL);
        let mut message_2 = re.to_vec();
        noise.mix_hash(&re);
        noise.mix_key(&x25519(WING_EPHEMERAL, e));
        noise.mix_key(&x25519(WING_EPHEMERAL, client));
        let mut answer = [0; 16];
        answer[..3].copy_from_slice(&[1, 0, 1]);
        message_2.extend(noise.seal(0, &answer));

        let (client_key, wing_key) = hkdf(&noise.chaining, &[]);
        Made {
            message_1,
            message_2,
            hash: noise.hash,
            client_key,
            wing_key,
        }
    }
}

/// Makes a message 1 with any static key, as far as that is possible without its
/// secret: the last agreement is taken to be zero, which it is for a low-order key.
pub(crate) fn message_1_with_static(
    ephemeral: &[u8; 32],
    static_key: &[u8; 32],
    responder: &[u8; 32],
    prologue: &[u8],
) -> Vec<u8> {
    let e = x25519(*ephemeral, X25519_BASEPOINT_BYTES);
    let es = x25519(*ephemeral, *responder);
    Noise::start(prologue, responder).message_1(&e, &es, static_key, &[0; 32])
}

fn sha256(data: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, data)
        .as_ref()
        .try_into()
        .unwrap()
}

/// Section 4.3, with two outputs.
fn hkdf(chaining: &[u8; 32], input: &[u8]) -> ([u8; 32], [u8; 32]) {
    let hmac = |key: &[u8], data: &[u8]| -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::sign(&key, data).as_ref().try_into().unwrap()
    };
    let temp = hmac(chaining, input);
    let first = hmac(&temp, &[1]);
    let second = hmac(&temp, &[&first[..], &[2]].concat());
    (first, second)
}

/// Section 12.4: four zero bytes, then the counter.
fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

fn encrypt(key: &[u8; 32], counter: u64, aad: &[u8], plain: &[u8]) -> Vec<u8> {
    let payload = Payload { msg: plain, aad };
    Aes256Gcm::new(key.into())
        .encrypt(Nonce::from_slice(&nonce(counter)), payload)
        .unwrap()
}

fn decrypt(key: &[u8; 32], counter: u64, aad: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let payload = Payload { msg: sealed, aad };
    Aes256Gcm::new(key.into())
        .decrypt(Nonce::from_slice(&nonce(counter)), payload)
        .ok()
}

/// Section 4.2: what the key seals under the reserved counter, without the tag.
fn rekeyed(key: &[u8; 32]) -> [u8; 32] {
    encrypt(key, u64::MAX, &[], &[0; 32])[..32]
        .try_into()
        .unwrap()
}

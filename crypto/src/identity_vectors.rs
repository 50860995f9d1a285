//! Golden vectors of everything that says who somebody is: statements, invites, digits,
//! grants, passkeys and links.
//!
//! `WT_BLESS=1 cargo test -p wt-crypto` writes the file anew. Every implementation of the
//! protocol replays it. What is signed with ECDSA is never the same twice, so that part is
//! a file of its own that is only verified, and made when it is not there.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use wt_protocol::access::{Act, Assertion, Enrolment, Grant, Passkey, Role};
use wt_protocol::keys::GrantKey;
use wt_protocol::{RoostId, WingId, signed};

use crate::invites::InviteSecret;
use crate::keys::{ClientSecret, DeviceSecret, IdentitySecret};
use crate::links::WingLink;
use crate::passkeys::{Challenge, passkey_challenge};
use crate::sas::{CompareClient, CompareWing};
use crate::soft::{Kind, SoftAuthenticator};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/identity.txt");
const ES256_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/passkey_es256.txt");

const IDENTITY: [u8; 32] = [0x11; 32];
const SUCCESSOR: [u8; 32] = [0x12; 32];
const CLIENT: [u8; 32] = [0x33; 32];
const DEVICE: [u8; 32] = [0x34; 32];
const GRANT_SEED: [u8; 32] = [0x35; 32];
const PASSKEY_SEED: [u8; 32] = [0x36; 32];
const INVITE: [u8; 16] = [0x37; 16];
const HASH: [u8; 32] = [0x41; 32];
const WING_NONCE: [u8; 32] = [0x42; 32];
const CLIENT_NONCE: [u8; 32] = [0x43; 32];
const PASSKEY_NONCE: [u8; 32] = [0x44; 32];
const ORIGIN: &str = "https://roost.example";
const NOW_MS: u64 = 1_800_000_000_000;

#[test]
fn identities_and_proofs_are_those_of_the_file() {
    let text = text_of(&[statements(), entering(), passkey()].concat());

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
fn a_passkey_with_an_ecdsa_key_is_enrolled_and_vouches() {
    if std::env::var_os("WT_BLESS").is_some() && !std::path::Path::new(ES256_PATH).exists() {
        std::fs::write(ES256_PATH, text_of(&es256())).unwrap();
    }
    let golden = std::fs::read_to_string(ES256_PATH).unwrap();
    let vector: BTreeMap<&str, Vec<u8>> = golden
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, hex)| (name, HEXLOWER.decode(hex.as_bytes()).unwrap()))
        .collect();
    let enrolment = Enrolment {
        name: "key".to_owned(),
        rp_id: "roost.example".to_owned(),
        authenticator_data: vector["enrol_authenticator_data"].clone(),
        client_data: vector["enrol_client_data"].clone(),
    };
    let assertion = Assertion {
        credential: vector["credential"].clone(),
        authenticator_data: vector["assert_authenticator_data"].clone(),
        client_data: vector["assert_client_data"].clone(),
        signature: vector["assert_signature"].clone(),
    };

    let passkey = enrolled(&enrolment);

    assert_eq!(passkey.public_key, vector["public_key"]);
    let verified = Challenge::issue(PASSKEY_NONCE, NOW_MS).verify(
        &HASH,
        Act::Enter,
        &assertion,
        &passkey,
        NOW_MS,
    );
    assert!(verified.is_ok());
}

type Lines = Vec<(&'static str, Vec<u8>)>;

fn text_of(lines: &[(&'static str, Vec<u8>)]) -> String {
    lines
        .iter()
        .map(|(name, bytes)| format!("{name} {}\n", HEXLOWER.encode(bytes)))
        .collect()
}

fn statements() -> Lines {
    let old = IdentitySecret::from_bytes(&IDENTITY);
    let new = WingId::of_identity(&IdentitySecret::from_bytes(&SUCCESSOR).public());
    let successor = old.name_successor(&new);
    let revocation = old.revoke();
    vec![
        ("identity_seed", IDENTITY.to_vec()),
        ("identity_key", old.public().as_bytes().to_vec()),
        ("successor_id", new.as_str().as_bytes().to_vec()),
        (
            "successor_signature",
            successor.signature.as_bytes().to_vec(),
        ),
        (
            "revocation_signature",
            revocation.signature.as_bytes().to_vec(),
        ),
    ]
}

fn entering() -> Lines {
    let client = ClientSecret::from_bytes(&CLIENT).public();
    let secret = InviteSecret::from_bytes(INVITE);
    let wing_id = WingId::of_identity(&IdentitySecret::from_bytes(&IDENTITY).public());
    let link = WingLink::new(ORIGIN, wing_id.clone())
        .unwrap()
        .with_label("box".parse().unwrap())
        .with_invite(secret.clone());
    let (wing, commitment) = CompareWing::start(HASH, WING_NONCE);
    let at_client = CompareClient::start(HASH, commitment, CLIENT_NONCE);
    let (digits, nonce) = wing.open(&CLIENT_NONCE);
    assert_eq!(at_client.finish(&nonce).unwrap(), digits);
    let roost_key = IdentitySecret::from_bytes(&GRANT_SEED);
    let grant_key = GrantKey::from_bytes(*roost_key.public().as_bytes());
    let roost = RoostId::of(ORIGIN, &grant_key);
    let grant = signed::grant(&Grant {
        roost,
        account: "ada".to_owned(),
        device: DeviceSecret::from_bytes(&DEVICE).public(),
        client,
        wing: wing_id,
        org: None,
        role: Role::Operator,
        epoch: 7,
        issued_at: 1_800_000_000,
        expires_at: 1_800_000_600,
    });
    let signature = roost_key.sign(&grant);
    vec![
        ("handshake_hash", HASH.to_vec()),
        ("client_key", client.as_bytes().to_vec()),
        ("invite_secret", INVITE.to_vec()),
        ("invite_link", link.expose().into_bytes()),
        ("invite_proof", secret.prove(&HASH, &client).to_vec()),
        ("compare_wing_nonce", WING_NONCE.to_vec()),
        ("compare_client_nonce", CLIENT_NONCE.to_vec()),
        ("compare_commitment", commitment.to_vec()),
        ("compare_digits", digits.to_string().into_bytes()),
        ("grant_seed", GRANT_SEED.to_vec()),
        ("grant_key", grant_key.as_bytes().to_vec()),
        ("roost_id", roost.as_bytes().to_vec()),
        ("grant", grant),
        ("grant_signature", signature.as_bytes().to_vec()),
    ]
}

fn passkey() -> Lines {
    let mut device = SoftAuthenticator::from_seed(&PASSKEY_SEED, ORIGIN, "roost.example");
    let enter = challenge(&Act::Enter);
    let mut lines = vec![
        ("passkey_seed", PASSKEY_SEED.to_vec()),
        ("passkey_nonce", PASSKEY_NONCE.to_vec()),
        ("passkey_op_enter", Act::Enter.canonical().unwrap()),
        ("passkey_op_enrol", Act::Enrol.canonical().unwrap()),
        ("passkey_challenge_enter", enter.to_vec()),
        ("passkey_challenge_enrol", challenge(&Act::Enrol).to_vec()),
    ];
    lines.extend(ceremony(&mut device));
    lines
}

fn es256() -> Lines {
    ceremony(&mut SoftAuthenticator::new(
        Kind::P256,
        ORIGIN,
        "roost.example",
    ))
}

/// An enrolment and an assertion over entering.
fn ceremony(device: &mut SoftAuthenticator) -> Lines {
    let enrolment = device.enrol("key", &challenge(&Act::Enrol));
    let passkey = enrolled(&enrolment);
    let assertion = device.assert(&challenge(&Act::Enter));
    let verified = Challenge::issue(PASSKEY_NONCE, NOW_MS).verify(
        &HASH,
        Act::Enter,
        &assertion,
        &passkey,
        NOW_MS,
    );
    assert!(verified.is_ok());
    vec![
        ("credential", passkey.credential),
        ("public_key", passkey.public_key),
        ("enrol_authenticator_data", enrolment.authenticator_data),
        ("enrol_client_data", enrolment.client_data),
        ("assert_authenticator_data", assertion.authenticator_data),
        ("assert_client_data", assertion.client_data),
        ("assert_signature", assertion.signature),
    ]
}

fn challenge(act: &Act) -> [u8; 32] {
    passkey_challenge(&HASH, &PASSKEY_NONCE, &act.canonical().unwrap())
}

fn enrolled(enrolment: &Enrolment) -> Passkey {
    Challenge::issue(PASSKEY_NONCE, NOW_MS)
        .enrol(&HASH, "ada", enrolment, NOW_MS)
        .unwrap()
}

//! An authenticator in software, for tests: what a browser and a security key do between
//! them, with a switch for each thing that they might get wrong. Never part of a build.
#![allow(clippy::unwrap_used)]

use data_encoding::BASE64URL_NOPAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use wt_protocol::access::{Assertion, Enrolment};

/// What kind of key it makes.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    P256,
    Ed25519,
}

enum Key {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// One credential, and the page that it is used in.
pub(crate) struct SoftAuthenticator {
    kind: Kind,
    key: Key,
    pub(crate) credential: Vec<u8>,
    pub(crate) origin: String,
    pub(crate) rp_id: String,
    pub(crate) flags: u8,
    pub(crate) counter: u32,
    /// Whether the counter grows with each use.
    pub(crate) counts: bool,
    /// The type that answers claim, if it is not the right one.
    pub(crate) kind_of_answer: Option<&'static str>,
    /// What is put at the end of the client data, as JSON members.
    pub(crate) extra: &'static str,
}

impl SoftAuthenticator {
    pub(crate) fn new(kind: Kind, origin: &str, rp_id: &str) -> Self {
        Self {
            kind,
            key: new_key(kind),
            credential: vec![0xc1; 16],
            origin: origin.to_owned(),
            rp_id: rp_id.to_owned(),
            flags: 0x05,
            counter: 0,
            counts: true,
            kind_of_answer: None,
            extra: "",
        }
    }

    /// With an Ed25519 key from a seed, so that what it signs is always the same.
    pub(crate) fn from_seed(seed: &[u8; 32], origin: &str, rp_id: &str) -> Self {
        Self {
            key: Key::Ed25519(Ed25519KeyPair::from_seed_unchecked(seed).unwrap()),
            ..Self::new(Kind::Ed25519, origin, rp_id)
        }
    }

    /// Goes on with another key under the same credential id.
    pub(crate) fn renew_key(&mut self) {
        self.key = new_key(self.kind);
    }

    /// `navigator.credentials.create`.
    pub(crate) fn enrol(&mut self, name: &str, challenge: &[u8; 32]) -> Enrolment {
        let mut data = self.authenticator_data(0x40);
        data.extend([0; 16]);
        data.extend(u16::try_from(self.credential.len()).unwrap().to_be_bytes());
        data.extend(&self.credential);
        data.extend(self.cose_key());
        Enrolment {
            name: name.to_owned(),
            rp_id: self.rp_id.clone(),
            authenticator_data: data,
            client_data: self.client_data("webauthn.create", challenge),
        }
    }

    /// `navigator.credentials.get`.
    pub(crate) fn assert(&mut self, challenge: &[u8; 32]) -> Assertion {
        let authenticator_data = self.authenticator_data(0);
        let client_data = self.client_data("webauthn.get", challenge);
        let hash = digest(&SHA256, &client_data);
        let signature = self.sign(&[&authenticator_data[..], hash.as_ref()].concat());
        Assertion {
            credential: self.credential.clone(),
            authenticator_data,
            client_data,
            signature,
        }
    }

    fn authenticator_data(&mut self, more_flags: u8) -> Vec<u8> {
        if self.counts {
            self.counter += 1;
        }
        let mut data = digest(&SHA256, self.rp_id.as_bytes()).as_ref().to_vec();
        data.push(self.flags | more_flags);
        data.extend(self.counter.to_be_bytes());
        data
    }

    fn client_data(&self, kind: &str, challenge: &[u8; 32]) -> Vec<u8> {
        format!(
            r#"{{"type":"{}","challenge":"{}","origin":"{}"{}}}"#,
            self.kind_of_answer.unwrap_or(kind),
            BASE64URL_NOPAD.encode(challenge),
            self.origin,
            self.extra
        )
        .into_bytes()
    }

    fn cose_key(&self) -> Vec<u8> {
        match &self.key {
            Key::P256(pair) => {
                let point = pair.public_key().as_ref();
                [
                    &[0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32][..],
                    &point[1..33],
                    &[0x22, 0x58, 32],
                    &point[33..],
                ]
                .concat()
            }
            Key::Ed25519(pair) => [
                &[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32][..],
                pair.public_key().as_ref(),
            ]
            .concat(),
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.key {
            Key::P256(pair) => pair
                .sign(&SystemRandom::new(), message)
                .unwrap()
                .as_ref()
                .to_vec(),
            Key::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

fn new_key(kind: Kind) -> Key {
    let random = SystemRandom::new();
    match kind {
        Kind::P256 => {
            let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
            let file = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            Key::P256(EcdsaKeyPair::from_pkcs8(algorithm, file.as_ref(), &random).unwrap())
        }
        Kind::Ed25519 => {
            let file = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            Key::Ed25519(Ed25519KeyPair::from_pkcs8(file.as_ref()).unwrap())
        }
    }
}

//! The exact bytes that are signed or hashed, each kind under a label of its own.
//!
//! A layout is the label followed by fields; a field of varying length has its
//! length in front (u16, big-endian), so no two different values share their bytes.

use crate::access::Grant;
use crate::control::{ProofMode, Role};
use crate::ids::{InstanceId, WingId};
use crate::keys::{ClientKey, DeviceKey, NoiseKey};

/// In front of an identity key when its id is made.
pub const LABEL_WING_ID: &[u8] = b"wingthing wing id v1";
/// In front of a noise key statement.
pub const LABEL_NOISE_KEY: &[u8] = b"wingthing noise key v1";
/// In front of a proof to a relay.
pub const LABEL_RELAY_PROOF: &[u8] = b"wingthing relay proof v1";
/// In front of a device's word on its client key.
pub const LABEL_CLIENT_KEY: &[u8] = b"wingthing client key v1";
/// In front of a wing identity's word on the identity that takes its place.
pub const LABEL_SUCCESSOR: &[u8] = b"wingthing successor v1";
/// In front of a wing identity's word that it must not be used any more.
pub const LABEL_REVOCATION: &[u8] = b"wingthing revocation v1";
/// In front of a roost's origin and grant key when its id is made.
pub const LABEL_ROOST_ID: &[u8] = b"wingthing roost id v1";
/// In front of a grant.
pub const LABEL_GRANT: &[u8] = b"wingthing grant v1";
/// In front of what proves an invite.
pub const LABEL_INVITE: &[u8] = b"wingthing invite v1";
/// In front of what a wing commits to before digits are compared.
pub const LABEL_SAS_COMMIT: &[u8] = b"wingthing sas commit v1";
/// In front of what gives the digits.
pub const LABEL_SAS: &[u8] = b"wingthing sas v1";
/// In front of what a passkey's challenge is made from.
pub const LABEL_PASSKEY: &[u8] = b"wingthing passkey v1";
/// The label of the TLS exporter value in a proof to a relay.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-wingthing-relay-proof";
/// Bytes of the exporter value.
pub const EXPORTER_LENGTH: usize = 32;

/// What a dialler proves to a relay, field by field.
#[derive(Debug, Clone, Copy)]
pub struct RelayProof<'a> {
    /// How the proof is bound to the connection.
    pub mode: ProofMode,
    /// What the link is for.
    pub role: &'a Role,
    /// The roost's origin, from the dialler's own config.
    pub origin: &'a str,
    /// The relay's nonce.
    pub relay_nonce: &'a [u8; 32],
    /// The dialler's nonce.
    pub client_nonce: &'a [u8; 32],
    /// The TLS exporter value, or nothing in nonce mode.
    pub exporter: &'a [u8],
    /// SHA-256 of the token.
    pub token_hash: &'a [u8; 32],
    /// The dialling process.
    pub instance: &'a InstanceId,
}

/// The bytes that device and identity key sign to prove themselves to a relay.
pub fn relay_proof(proof: &RelayProof<'_>) -> Vec<u8> {
    let (role, wing) = match proof.role {
        Role::Client => (b"client".as_slice(), ""),
        Role::Wing(id) => (b"wing".as_slice(), id.as_str()),
    };
    let mode: &[u8] = match proof.mode {
        ProofMode::Exporter => b"exporter",
        ProofMode::Nonce => b"nonce",
    };
    Layout::new(LABEL_RELAY_PROOF)
        .field(mode)
        .field(role)
        .field(proof.origin.as_bytes())
        .field(proof.relay_nonce)
        .field(proof.client_nonce)
        .field(proof.exporter)
        .field(proof.token_hash)
        .field(wing.as_bytes())
        .field(proof.instance.as_bytes())
        .finish()
}

/// The bytes of a noise key statement: what a wing identity signs.
pub fn noise_key_statement(wing: &WingId, key: &NoiseKey, seq: u64) -> Vec<u8> {
    Layout::new(LABEL_NOISE_KEY)
        .field(wing.as_str().as_bytes())
        .field(key.as_bytes())
        .field(&seq.to_be_bytes())
        .finish()
}

/// The bytes with which a device vouches for its client key at login.
pub fn client_key(device: &DeviceKey, client: &ClientKey) -> Vec<u8> {
    Layout::new(LABEL_CLIENT_KEY)
        .field(device.as_bytes())
        .field(client.as_bytes())
        .finish()
}

/// The bytes with which an identity names its successor.
pub fn successor(old: &WingId, new: &WingId) -> Vec<u8> {
    Layout::new(LABEL_SUCCESSOR)
        .field(old.as_str().as_bytes())
        .field(new.as_str().as_bytes())
        .finish()
}

/// The bytes with which an identity ends itself.
pub fn revocation(wing: &WingId) -> Vec<u8> {
    Layout::new(LABEL_REVOCATION)
        .field(wing.as_str().as_bytes())
        .finish()
}

/// The bytes of a grant: what a roost signs.
///
/// # Panics
/// When a name in it is longer than 65,535 bytes; whoever verifies one checks that first.
pub fn grant(grant: &Grant) -> Vec<u8> {
    // No organisation has an empty name, so none and an empty one need not be told apart.
    let org = grant.org.as_deref().unwrap_or_default();
    Layout::new(LABEL_GRANT)
        .field(grant.roost.as_bytes())
        .field(grant.account.as_bytes())
        .field(grant.device.as_bytes())
        .field(grant.client.as_bytes())
        .field(grant.wing.as_str().as_bytes())
        .field(org.as_bytes())
        .field(grant.role.as_str().as_bytes())
        .field(&grant.epoch.to_be_bytes())
        .field(&grant.issued_at.to_be_bytes())
        .field(&grant.expires_at.to_be_bytes())
        .finish()
}

/// What the secret of an invite authenticates: this client, in this session.
///
/// Each part has one size, so none needs a length; the same holds for the digits.
pub fn invite(handshake_hash: &[u8; 32], client: &ClientKey) -> Vec<u8> {
    [LABEL_INVITE, handshake_hash, client.as_bytes()].concat()
}

/// What a wing's commitment is the SHA-256 of.
pub fn sas_commitment(handshake_hash: &[u8; 32], wing_nonce: &[u8; 32]) -> Vec<u8> {
    [LABEL_SAS_COMMIT, handshake_hash, wing_nonce].concat()
}

/// What the digits are taken from the SHA-256 of.
pub fn sas(handshake_hash: &[u8; 32], wing_nonce: &[u8; 32], client_nonce: &[u8; 32]) -> Vec<u8> {
    [LABEL_SAS, handshake_hash, wing_nonce, client_nonce].concat()
}

/// What a passkey's challenge is the SHA-256 of: this act, in this session, this once.
/// `op` has its length in front, in 4 bytes, big-endian.
pub fn passkey(handshake_hash: &[u8; 32], nonce: &[u8; 32], op: &[u8]) -> Vec<u8> {
    let length = u32::try_from(op.len()).expect("a message is below 4 GiB");
    [
        LABEL_PASSKEY,
        handshake_hash,
        nonce,
        &length.to_be_bytes(),
        op,
    ]
    .concat()
}

/// Fields one after the other, each with its length in front.
#[derive(Debug)]
pub struct Layout(Vec<u8>);

impl Layout {
    /// Starts with a label, which is unique to its kind and needs no length.
    pub fn new(label: &[u8]) -> Self {
        Self(label.to_vec())
    }

    /// Adds a field.
    ///
    /// # Panics
    /// When a field is longer than 65,535 bytes; every field here is bounded far below.
    pub fn field(mut self, bytes: &[u8]) -> Self {
        let length = u16::try_from(bytes.len()).expect("fields are bounded far below 64 KiB");
        self.0.extend(length.to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

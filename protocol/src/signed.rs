//! The exact bytes that are signed or hashed, each kind under a label of its own.
//!
//! A layout is the label followed by fields; a field of varying length has its
//! length in front (u16, big-endian), so no two different values share their bytes.

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

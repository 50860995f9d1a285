//! Messages on a link's control stream: its first stream, opened by the dialler.
//!
//! The dialler says who it claims to be, the relay challenges, the dialler proves,
//! the relay welcomes. Until the welcome no other stream is read. Before the token
//! runs out the dialler proves itself again with a fresh one.

use serde::{Deserialize, Serialize};

use crate::header::VersionRange;
use crate::ids::{InstanceId, WingId};
use crate::keys::{DeviceKey, IdentityKey, NoiseKey, Signature};

/// From the dialler (a wing or a client) to the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRelay {
    /// Opens the control stream.
    Hello(Hello),
    /// Answers the challenge.
    Proof(Proof),
    /// Proves again, with a fresh token, over the same nonces.
    Renew(Proof),
    /// Asks for a sign of life.
    Ping(u64),
    /// Answers a ping.
    Pong(u64),
}

/// From the relay to the dialler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRelay {
    /// What the proof must cover.
    Challenge(Challenge),
    /// The link may be used.
    Welcome(Welcome),
    /// The new proof was accepted; it holds for so many seconds.
    Renewed {
        /// Seconds until the next proof is due.
        expires_in: u32,
    },
    /// The relay will close this link; connect again within this spread.
    GoAway {
        /// Wait a random time up to this, in milliseconds, before connecting again.
        spread_ms: u32,
    },
    /// Asks for a sign of life.
    Ping(u64),
    /// Answers a ping.
    Pong(u64),
}

/// Who the dialler claims to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Control protocol versions offered.
    pub versions: VersionRange,
    /// What the link is for.
    pub role: Role,
    /// One start of the dialling process.
    pub instance: InstanceId,
    /// Drawn by the dialler.
    pub client_nonce: [u8; 32],
    /// How the proof is bound to the connection.
    pub mode: ProofMode,
}

/// What a link is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Opens routes.
    Client,
    /// Accepts routes to this wing.
    Wing(WingId),
}

/// How a proof is bound to its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProofMode {
    /// By a TLS exporter value (RFC 8446 section 7.5): nobody in the middle can pass it on.
    Exporter,
    /// By the nonces alone: links inside one process, and roosts that declared a proxy.
    Nonce,
}

/// What the relay adds to what must be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The version chosen from the offer.
    pub version: u16,
    /// Drawn by the relay.
    pub relay_nonce: [u8; 32],
}

/// Proves the dialler's keys over [`crate::signed::relay_proof`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The access token; names the account and the device key.
    pub token: String,
    /// The device that the token names.
    pub device: DeviceKey,
    /// By the device key.
    pub device_signature: Signature,
    /// By the identity key, when the link is a wing's.
    pub wing: Option<WingProof>,
}

/// What a wing adds: nobody else can register, shadow or black-hole its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WingProof {
    /// The key that the wing id is the fingerprint of.
    pub identity: IdentityKey,
    /// By the identity key, over the same bytes.
    pub signature: Signature,
    /// The certified key that answers handshakes, for clients of the account.
    pub statement: NoiseKeyStatement,
}

/// A wing identity's word on which X25519 key answers handshakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseKeyStatement {
    /// The wing.
    pub wing: WingId,
    /// Its key for handshakes.
    pub key: NoiseKey,
    /// Grows with each rotation; a lower one than seen is refused.
    pub seq: u64,
    /// By the identity key, over [`crate::signed::noise_key_statement`].
    pub signature: Signature,
}

/// A wing identity's word on the identity that takes its place. Clients follow it, say so,
/// and forget that anybody compared the old one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuccessorStatement {
    /// The identity that steps down.
    pub old: IdentityKey,
    /// The wing that takes its place.
    pub new: WingId,
    /// By the old identity key, over [`crate::signed::successor`].
    pub signature: Signature,
}

/// A wing identity's word that it is not to be trusted any more. It is final, and nothing
/// takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevocationStatement {
    /// The identity that is given up.
    pub identity: IdentityKey,
    /// By this key, over [`crate::signed::revocation`].
    pub signature: Signature,
}

/// The terms of an accepted link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Routes that may be open at once on this link.
    pub max_routes: u16,
    /// Seconds until the next proof is due.
    pub expires_in: u32,
}

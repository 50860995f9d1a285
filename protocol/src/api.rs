//! The relay's HTTP interface: JSON bodies, shared by the service and its clients.
//!
//! Errors are problem details (RFC 9457). Device login follows RFC 8628. A call by a
//! device carries its token with a proof of possession (DPoP, RFC 9449).

use serde::{Deserialize, Serialize};

use crate::control::{NoiseKeyStatement, RevocationStatement, SuccessorStatement};
use crate::ids::WingId;
use crate::keys::{ClientKey, DeviceKey, GrantKey, IdentityKey, Sha256Digest, Signature};

/// Path of [`RoostInfo`]: `GET`, open to all.
pub const PATH_ROOST: &str = "/v1/roost";
/// Path of the start of a device login: `POST` [`DeviceCodeRequest`], open to all.
pub const PATH_DEVICE_CODE: &str = "/v1/device/code";
/// Path on which a device waits for its approval: `POST` [`DeviceTokenRequest`].
pub const PATH_DEVICE_TOKEN: &str = "/v1/device/token";
/// Path of fresh tokens: `POST`, with a DPoP proof of a known device key alone.
pub const PATH_TOKEN: &str = "/v1/token";
/// Path of the account: `GET` [`Whoami`], by a device.
pub const PATH_WHOAMI: &str = "/v1/whoami";
/// Path of sign-out: `POST`, by a device; revokes that device.
pub const PATH_LOGOUT: &str = "/v1/logout";
/// Path of the roster: `GET` [`Roster`], by a device.
pub const PATH_WINGS: &str = "/v1/wings";
/// Path of what identities say of themselves when they step down: `GET`
/// [`WingStatements`] of the account's wings, `POST` some of one wing, by a device.
pub const PATH_WING_STATEMENTS: &str = "/v1/wings/statements";
/// Path of approvals by the operator: `POST` [`ApproveRequest`], with the local token.
pub const PATH_LOCAL_APPROVE: &str = "/v1/local/approve";
/// Path of sign-in links for the browser: `POST`, with the local token.
pub const PATH_LOCAL_LINK: &str = "/v1/local/link";
/// The page on which a user types a code.
pub const PAGE_DEVICE: &str = "/device";

/// `error` of [`Problem`] while nobody has approved yet (RFC 8628 section 3.5).
pub const AUTHORIZATION_PENDING: &str = "authorization_pending";
/// `error` of [`Problem`] when the device asks too often (RFC 8628 section 3.5).
pub const SLOW_DOWN: &str = "slow_down";
/// `error` of [`Problem`] when the user refused (RFC 8628 section 3.5).
pub const ACCESS_DENIED: &str = "access_denied";
/// `error` of [`Problem`] when the code ran out or was used (RFC 8628 section 3.5).
pub const EXPIRED_TOKEN: &str = "expired_token";

/// What a roost says of itself to anyone; the dialler pins it at login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoostInfo {
    /// Its own origin: what link proofs name. A client that knows it by another URL stops,
    /// but for two names of the same loopback port.
    pub origin: String,
    /// Where links are dialled, as `HOST:PORT` in UDP.
    pub quic_addr: String,
    /// SHA-256 of the link certificate's public key (SubjectPublicKeyInfo, RFC 7469 section 2.4).
    pub quic_spki: Sha256Digest,
    /// The key that signs account grants.
    pub grant_key: GrantKey,
    /// Whether a proxy ends TLS in front of it, so that no exporter can be compared.
    pub behind_proxy: bool,
    /// The version of wingthing it runs.
    pub version: String,
}

/// Starts a device login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCodeRequest {
    /// What the device calls itself: shown as unverified.
    pub device_name: String,
    /// The device's key.
    pub device: DeviceKey,
    /// The client key that this device uses towards wings.
    pub client: ClientKey,
    /// By the device key, over [`crate::signed::client_key`].
    pub client_signature: Signature,
}

/// A login that waits for approval (RFC 8628 section 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCodeResponse {
    /// The device's own secret.
    pub device_code: String,
    /// What the user types.
    pub user_code: String,
    /// Where the user types it.
    pub verification_uri: String,
    /// Seconds until the code runs out.
    pub expires_in: u32,
    /// Least seconds between two polls.
    pub interval: u32,
}

/// Asks whether a login was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTokenRequest {
    /// From [`DeviceCodeResponse`].
    pub device_code: String,
}

/// An access token (a JWT bound to the device key).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenResponse {
    /// The token.
    pub access_token: String,
    /// Always `DPoP`.
    pub token_type: String,
    /// Seconds it holds.
    pub expires_in: u32,
    /// The account it is for.
    pub account: String,
}

/// The account behind a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whoami {
    /// The account.
    pub account: String,
    /// This device's name, as it gave it.
    pub device_name: String,
    /// This device's key.
    pub device: DeviceKey,
}

/// The wings of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Sorted by id.
    pub wings: Vec<RosterWing>,
}

/// One wing, as far as a relay knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterWing {
    /// Its id.
    pub wing_id: WingId,
    /// Whether a link of it is up.
    pub online: bool,
    /// Its identity key; checked against the id by the client.
    pub identity: IdentityKey,
    /// Its certified handshake key; checked against the identity key by the client.
    pub statement: NoiseKeyStatement,
}

/// What wings of an account said when their identity changed. Each one carries its own
/// proof; a relay only keeps and hands them on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WingStatements {
    /// Identities that others took the place of.
    pub successors: Vec<SuccessorStatement>,
    /// Identities that are not to be trusted any more.
    pub revocations: Vec<RevocationStatement>,
}

/// Approves a device login, as the relay's operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApproveRequest {
    /// The code that the device shows.
    pub user_code: String,
}

/// A login that was just approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApproveResponse {
    /// The account that the device now belongs to.
    pub account: String,
    /// What the device calls itself.
    pub device_name: String,
    /// The device's key.
    pub device: DeviceKey,
    /// The client key that the device vouched for.
    pub client: ClientKey,
    /// By the device key, over [`crate::signed::client_key`].
    pub client_signature: Signature,
}

/// A link that signs one browser in, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInLink {
    /// The link, its secret in the fragment.
    pub url: String,
    /// Seconds it holds.
    pub expires_in: u32,
}

/// Problem details (RFC 9457), with the `error` of RFC 8628 where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A URN of the problem's kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// A short name for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

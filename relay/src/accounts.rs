//! Who is behind a token, and whose a wing is: what links ask of the service.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use wt_protocol::WingId;
use wt_protocol::control::WingProof;
use wt_protocol::keys::DeviceKey;

use crate::store::{RegisterOutcome, Store, StoreError};
use crate::tokens::Tokens;

/// An account's name at this relay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(String);

impl AccountId {
    /// The one account of a relay without sign-in: its operator's.
    pub const LOCAL: &'static str = "local";

    /// Wraps a name that the store or a verified token gave.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The operator's own account.
    pub fn local() -> Self {
        Self::new(Self::LOCAL)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A caller whose token holds and whose device is not revoked.
///
/// The token alone proves nothing: the caller must still show that it has the device key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// The account.
    pub account: AccountId,
    /// The device that the token is bound to.
    pub device: DeviceKey,
    /// The token's id (`jti`).
    pub token_id: String,
    /// When the token runs out.
    pub expires_at: SystemTime,
}

/// Why a token signs nobody in.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// It is not a token of this relay, or it ran out.
    #[error("the token is not valid or ran out")]
    Invalid,
    /// Its device was revoked, or is unknown.
    #[error("the device is not signed in")]
    Revoked,
    /// The store did not answer; the token may be good.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// Why a wing may not register.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Its id belongs to another account.
    #[error("the wing belongs to another account")]
    NotYours,
    /// A newer statement was seen, or another key under the same number.
    #[error("the noise key statement is older than one seen before")]
    Superseded,
    /// The account has as many wings as it may have.
    #[error("the account has too many wings")]
    TooMany,
    /// The store did not answer.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// Looks up accounts, devices and wings. Cheap to clone; any task may call it.
#[derive(Clone)]
pub struct Accounts {
    store: Store,
    tokens: Arc<Tokens>,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}

impl Accounts {
    pub(crate) fn new(store: Store, tokens: Arc<Tokens>) -> Self {
        Self { store, tokens }
    }

    /// Names the account and device behind an access token.
    ///
    /// # Errors
    /// [`AuthError`]; only [`AuthError::Unavailable`] is worth another try with this token.
    pub async fn authenticate(&self, token: &str) -> Result<SignedIn, AuthError> {
        let claims = self
            .tokens
            .verify(token, SystemTime::now())
            .map_err(|_| AuthError::Invalid)?;
        let device = self
            .store
            .device(&claims.device)
            .await?
            .filter(|d| d.account == claims.account && d.generation == claims.generation)
            .ok_or(AuthError::Revoked)?;
        Ok(SignedIn {
            account: device.account,
            device: claims.device,
            token_id: claims.token_id,
            expires_at: claims.expires_at,
        })
    }

    /// Whether a wing of this id was ever registered by this account.
    ///
    /// The work done depends on the asking account alone, not on whether another account
    /// has such a wing.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn owns_wing(&self, account: &AccountId, wing: &WingId) -> Result<bool, StoreError> {
        let wings = self.store.wings(account).await?;
        Ok(wings.iter().any(|stored| stored.wing_id == *wing))
    }

    /// Enters a wing into its account's roster, or refreshes its statement.
    ///
    /// The caller has verified every signature in the proof, and that the statement's
    /// wing is the fingerprint of the identity.
    ///
    /// # Errors
    /// [`RegisterError`]. What the peer is told must not depend on whose the wing is.
    pub async fn register_wing(
        &self,
        account: &AccountId,
        proof: &WingProof,
    ) -> Result<(), RegisterError> {
        match self
            .store
            .register_wing(account, proof, SystemTime::now())
            .await?
        {
            RegisterOutcome::Registered => Ok(()),
            RegisterOutcome::OtherAccount => Err(RegisterError::NotYours),
            RegisterOutcome::Superseded => Err(RegisterError::Superseded),
            RegisterOutcome::Full => Err(RegisterError::TooMany),
        }
    }
}

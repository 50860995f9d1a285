//! What every HTTP handler shares, and the few acts that more than one of them does.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use wt_protocol::api::{ApproveResponse, RoostInfo, TokenResponse};
use wt_protocol::keys::{ClientKey, DeviceKey, Signature};
use wt_protocol::signed;

use crate::accounts::{AccountId, Accounts};
use crate::browser::Browsers;
use crate::config::Origin;
use crate::dpop::ReplayCache;
use crate::driver::Driver;
use crate::login::{self, CodeError, Logins, UserCode, Waiting};
use crate::secrets::{self, same_secret, sha256};
use crate::store::{EnrolOutcome, Enrolment, Store, StoreError};
use crate::tokens::{TOKEN_LIFETIME, Tokens};

/// Calls a second that one address may make to what needs no sign-in but costs memory or
/// tries: starts of logins, polls, token renewals, codes, sign-in links. A hundred wings
/// behind one NAT renew once in five seconds all together.
const LOGIN_RATE: NonZeroU32 = NonZeroU32::new(10).expect("it is not zero");

/// Such calls that one address may make at once, after a pause.
const LOGIN_BURST: NonZeroU32 = NonZeroU32::new(100).expect("it is not zero");

/// Why a device could not be put into an account.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// The device did not sign the client key.
    #[error("the device key did not sign the client key")]
    Signature,
    /// The device is signed in to another account and has to sign out first.
    #[error("the device is signed in to another account: sign it out first")]
    OtherAccount,
    /// The account has as many devices as it may have.
    #[error("the account has too many devices: sign some out first")]
    TooMany,
    /// The store did not answer.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// Why a login could not be approved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApproveError {
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error(transparent)]
    Enrol(#[from] EnrolError),
}

/// The service behind the HTTP interface. Any task may call it; no lock is held over an await.
pub(crate) struct App {
    pub(crate) origin: Origin,
    pub(crate) behind_proxy: bool,
    pub(crate) roost: RoostInfo,
    pub(crate) accounts: Accounts,
    pub(crate) store: Store,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) driver: Driver,
    local_token: [u8; 32],
    logins: Mutex<Logins>,
    browsers: Mutex<Browsers>,
    replays: Mutex<ReplayCache>,
    login_rate: DefaultKeyedRateLimiter<IpAddr>,
    draining: AtomicBool,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// What [`App::new`] is made of.
pub(crate) struct Parts {
    pub(crate) origin: Origin,
    pub(crate) behind_proxy: bool,
    pub(crate) roost: RoostInfo,
    pub(crate) accounts: Accounts,
    pub(crate) store: Store,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) driver: Driver,
    pub(crate) local_token: String,
    pub(crate) poll_interval: Duration,
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            origin: parts.origin,
            behind_proxy: parts.behind_proxy,
            roost: parts.roost,
            accounts: parts.accounts,
            store: parts.store,
            tokens: parts.tokens,
            driver: parts.driver,
            local_token: sha256(parts.local_token.as_bytes()),
            logins: Mutex::new(Logins::new(parts.poll_interval)),
            browsers: Mutex::default(),
            replays: Mutex::default(),
            login_rate: RateLimiter::keyed(Quota::per_second(LOGIN_RATE).allow_burst(LOGIN_BURST)),
            draining: AtomicBool::new(false),
        }
    }

    pub(crate) fn logins(&self) -> MutexGuard<'_, Logins> {
        lock(&self.logins)
    }

    pub(crate) fn browsers(&self) -> MutexGuard<'_, Browsers> {
        lock(&self.browsers)
    }

    pub(crate) fn replays(&self) -> MutexGuard<'_, ReplayCache> {
        lock(&self.replays)
    }

    /// Whether this is the token of the operator's file.
    pub(crate) fn is_local_token(&self, token: &str) -> bool {
        same_secret(token, &self.local_token)
    }

    /// Whether an address may make one more call of those that are rationed.
    pub(crate) fn login_allowed(&self, address: IpAddr) -> bool {
        self.login_rate.check_key(&login::block(address)).is_ok()
    }

    /// Forgets addresses that are back at their full ration.
    pub(crate) fn forget_quiet_addresses(&self) {
        self.login_rate.retain_recent();
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Puts a device into an account.
    pub(crate) async fn enrol(
        &self,
        account: &AccountId,
        enrolment: &Enrolment,
    ) -> Result<(), EnrolError> {
        if !vouches(
            &enrolment.device,
            &enrolment.client,
            &enrolment.client_signature,
        ) {
            return Err(EnrolError::Signature);
        }
        match self
            .store
            .enrol(account, enrolment, SystemTime::now())
            .await?
        {
            EnrolOutcome::Enrolled => Ok(()),
            EnrolOutcome::OtherAccount => Err(EnrolError::OtherAccount),
            EnrolOutcome::Full => Err(EnrolError::TooMany),
        }
    }

    /// Approves the login under a code for an account, and enrols its device.
    pub(crate) async fn approve(
        &self,
        account: &AccountId,
        code: Option<&UserCode>,
    ) -> Result<ApproveResponse, ApproveError> {
        let waiting = self.look_up(account, code)?;
        // The device is enrolled before its code is spent: a store that fails leaves the
        // code good for another try.
        self.enrol(account, &waiting.enrolment).await?;
        self.logins().approve(account, code, SystemTime::now())?;
        tracing::info!("a device login was approved");
        let Enrolment {
            device,
            client,
            client_signature,
            device_name,
        } = waiting.enrolment;
        Ok(ApproveResponse {
            account: account.to_string(),
            device_name,
            device,
            client,
            client_signature,
        })
    }

    /// The login that waits under a code.
    pub(crate) fn look_up(
        &self,
        account: &AccountId,
        code: Option<&UserCode>,
    ) -> Result<Waiting, CodeError> {
        self.logins().look_up(account, code, SystemTime::now())
    }

    /// Issues a token to a device that is known not to be revoked.
    pub(crate) fn issue(
        &self,
        account: &AccountId,
        device: &DeviceKey,
        generation: u64,
    ) -> TokenResponse {
        let now = SystemTime::now();
        TokenResponse {
            access_token: self
                .tokens
                .issue(account, device, generation, now, secrets::random()),
            token_type: "DPoP".into(),
            expires_in: u32::try_from(TOKEN_LIFETIME.as_secs()).expect("minutes fit"),
            account: account.to_string(),
        }
    }

    /// A link that signs one browser in to an account.
    pub(crate) fn sign_in_link(&self, account: AccountId) -> String {
        let secret = self
            .browsers()
            .new_link(account, SystemTime::now(), secrets::random());
        format!("{}/signin#{secret}", self.origin)
    }
}

/// Whether the device key vouches for the client key.
pub(crate) fn vouches(device: &DeviceKey, client: &ClientKey, signature: &Signature) -> bool {
    secrets::ed25519_holds(
        device.as_bytes(),
        &signed::client_key(device, client),
        signature.as_bytes(),
    )
}

/// No panic happens under these locks, and their maps are whole after every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

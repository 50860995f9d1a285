//! Handlers for programs: JSON in, JSON or problem details out.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::State;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use wt_protocol::api::{
    ApproveRequest, ApproveResponse, DeviceCodeRequest, DeviceCodeResponse, DeviceTokenRequest,
    PAGE_DEVICE, RoostInfo, Roster, RosterWing, SignInLink, TokenResponse, Whoami,
};

use crate::accounts::AccountId;
use crate::app::{App, EnrolError, vouches};
use crate::browser::LINK_LIFETIME;
use crate::http::Site;
use crate::http::caller::{Browser, Device, JsonBody, KnownDevice, Operator, Rationed};
use crate::http::problem::ApiError;
use crate::login::{CODE_LIFETIME, Polled, UserCode, clean_name};
use crate::secrets;
use crate::store::Enrolment;

type Answer<T> = Result<Json<T>, ApiError>;

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<&'static str, ApiError> {
    if app.is_draining() || !app.store.answers().await {
        return Err(ApiError::not_ready());
    }
    Ok("ready\n")
}

pub(super) async fn roost(State(app): State<Arc<App>>) -> Json<RoostInfo> {
    Json(app.roost.clone())
}

pub(super) async fn device_code(
    State(app): State<Arc<App>>,
    axum::Extension(site): axum::Extension<Site>,
    Rationed(address): Rationed,
    JsonBody(request): JsonBody<DeviceCodeRequest>,
) -> Answer<DeviceCodeResponse> {
    if !vouches(&request.device, &request.client, &request.client_signature) {
        return Err(EnrolError::Signature.into());
    }
    let enrolment = Enrolment {
        device: request.device,
        client: request.client,
        client_signature: request.client_signature,
        device_name: clean_name(&request.device_name),
    };
    let mut logins = app.logins();
    let interval = logins.interval();
    let started = logins
        .start(
            enrolment,
            address,
            SystemTime::now(),
            secrets::random(),
            secrets::random,
        )
        .map_err(|_| ApiError::too_many_logins())?;
    drop(logins);
    Ok(Json(DeviceCodeResponse {
        device_code: started.device_code,
        user_code: started.user_code.shown(),
        verification_uri: format!("{}{PAGE_DEVICE}", site.0),
        expires_in: whole_seconds(CODE_LIFETIME),
        interval: whole_seconds(interval),
    }))
}

pub(super) async fn device_token(
    State(app): State<Arc<App>>,
    _: Rationed,
    JsonBody(request): JsonBody<DeviceTokenRequest>,
) -> Answer<TokenResponse> {
    let polled = app.logins().poll(&request.device_code, SystemTime::now());
    match polled {
        Polled::Pending => Err(ApiError::pending()),
        Polled::SlowDown => Err(ApiError::slow_down()),
        Polled::Denied => Err(ApiError::denied()),
        Polled::Expired => Err(ApiError::expired()),
        Polled::Approved(account, enrolment) => {
            // It may have been revoked between the approval and this poll.
            let device = app
                .store
                .device(&enrolment.device)
                .await?
                .filter(|d| d.account == account)
                .ok_or_else(ApiError::expired)?;
            Ok(Json(app.issue(
                &account,
                &enrolment.device,
                device.generation,
            )))
        }
    }
}

pub(super) async fn token(State(app): State<Arc<App>>, device: KnownDevice) -> Json<TokenResponse> {
    Json(app.issue(&device.account, &device.key, device.generation))
}

pub(super) async fn whoami(
    State(app): State<Arc<App>>,
    Device(signed_in): Device,
) -> Answer<Whoami> {
    let device = app
        .store
        .device(&signed_in.device)
        .await?
        .ok_or_else(ApiError::unauthorized)?;
    Ok(Json(Whoami {
        account: signed_in.account.to_string(),
        device_name: device.name,
        device: signed_in.device,
    }))
}

pub(super) async fn logout(
    State(app): State<Arc<App>>,
    Device(signed_in): Device,
) -> Result<StatusCode, ApiError> {
    app.store
        .revoke_device(&signed_in.device, SystemTime::now())
        .await?;
    // After the store: a link that proves itself from here on is refused.
    app.driver.revoke_device(&signed_in.device);
    tracing::info!("a device signed out");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn wings(
    State(app): State<Arc<App>>,
    Device(signed_in): Device,
) -> Answer<Roster> {
    let online = app.driver.online(&signed_in.account);
    let stored = app.store.wings(&signed_in.account).await?;
    let wings = stored
        .into_iter()
        .map(|wing| RosterWing {
            online: online.contains(&wing.wing_id),
            wing_id: wing.wing_id,
            identity: wing.identity,
            statement: wing.statement,
        })
        .collect();
    Ok(Json(Roster { wings }))
}

pub(super) async fn local_approve(
    State(app): State<Arc<App>>,
    _: Operator,
    JsonBody(request): JsonBody<ApproveRequest>,
) -> Answer<ApproveResponse> {
    let code = UserCode::parse(&request.user_code);
    let approved = app.approve(&AccountId::local(), code.as_ref()).await?;
    Ok(Json(approved))
}

pub(super) async fn local_link(State(app): State<Arc<App>>, _: Operator) -> Json<SignInLink> {
    Json(SignInLink {
        url: app.sign_in_link(AccountId::local()),
        expires_in: whole_seconds(LINK_LIFETIME),
    })
}

pub(super) async fn nothing_here(browser: Browser, headers: HeaderMap) -> ApiError {
    unless_stranger(&browser, &headers, ApiError::not_found())
}

pub(super) async fn wrong_method(browser: Browser, headers: HeaderMap) -> ApiError {
    unless_stranger(&browser, &headers, ApiError::wrong_method())
}

/// Who shows no credentials at all is asked for them, whatever the address.
fn unless_stranger(browser: &Browser, headers: &HeaderMap, error: ApiError) -> ApiError {
    if browser.signed_in.is_none() && !headers.contains_key(AUTHORIZATION) {
        return ApiError::unauthorized();
    }
    error
}

fn whole_seconds(time: std::time::Duration) -> u32 {
    u32::try_from(time.as_secs()).expect("the constants are minutes")
}

//! Who makes a request: extractors that refuse whoever cannot show it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use serde::de::DeserializeOwned;
use wt_protocol::keys::DeviceKey;

use crate::accounts::{AccountId, SignedIn};
use crate::app::App;
use crate::dpop::{self, Call};
use crate::http::problem::ApiError;
use crate::http::{Connection, Site};

/// The header of a proof of possession (RFC 9449 section 4.1).
static DPOP: HeaderName = HeaderName::from_static("dpop");

/// A signed-in device: it has shown a token and its key.
pub(crate) struct Device(pub(crate) SignedIn);

impl FromRequestParts<Arc<App>> for Device {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let token = authorization(&parts.headers, "DPoP").ok_or_else(ApiError::unauthorized)?;
        let signed_in = app.accounts.authenticate(token).await?;
        let proven = proof(parts, app, Some(token))?;
        if proven.device != signed_in.device {
            return Err(dpop::ProofError::Invalid.into());
        }
        app.replays().admit(&proven, SystemTime::now())?;
        Ok(Self(signed_in))
    }
}

/// A known device that has shown its key and no token.
pub(crate) struct KnownDevice {
    pub(crate) key: DeviceKey,
    pub(crate) account: AccountId,
    pub(crate) generation: u64,
}

impl FromRequestParts<Arc<App>> for KnownDevice {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        Rationed::from_request_parts(parts, app).await?;
        let proven = proof(parts, app, None)?;
        let device = app
            .store
            .device(&proven.device)
            .await?
            .ok_or_else(ApiError::unauthorized)?;
        app.replays().admit(&proven, SystemTime::now())?;
        Ok(Self {
            key: proven.device,
            account: device.account,
            generation: device.generation,
        })
    }
}

/// The relay's operator: whoever can read the token file.
pub(crate) struct Operator;

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        authorization(&parts.headers, "Bearer")
            .filter(|token| app.is_local_token(token))
            .map(|_| Self)
            .ok_or_else(ApiError::unauthorized)
    }
}

/// A browser, signed in or not.
pub(crate) struct Browser {
    pub(crate) site: Site,
    /// The account and the cookie's value.
    pub(crate) signed_in: Option<(AccountId, String)>,
}

impl FromRequestParts<Arc<App>> for Browser {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let site = parts
            .extensions
            .get::<Site>()
            .cloned()
            .ok_or_else(ApiError::internal)?;
        let cookie = cookie(&parts.headers, &cookie_name(&site));
        let signed_in = cookie.and_then(|value| {
            let account = app.browsers().account(value, SystemTime::now())?;
            Some((account, value.to_owned()))
        });
        Ok(Self { site, signed_in })
    }
}

/// A caller whose address has calls left, and that address.
pub(crate) struct Rationed(pub(crate) IpAddr);

impl FromRequestParts<Arc<App>> for Rationed {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let connection = parts
            .extensions
            .get::<Connection>()
            .ok_or_else(ApiError::internal)?;
        let forwarded = app
            .behind_proxy
            .then(|| forwarded_for(&parts.headers))
            .flatten();
        let address = forwarded.unwrap_or(connection.peer.ip());
        if app.login_allowed(address) {
            Ok(Self(address))
        } else {
            Err(ApiError::too_many())
        }
    }
}

/// A JSON body. Its content type is demanded, which a form of another site cannot send.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let content_type = request.headers().get(CONTENT_TYPE);
        let essence = content_type
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.split(';').next());
        if !essence.is_some_and(|v| v.trim().eq_ignore_ascii_case("application/json")) {
            return Err(ApiError::bad_request("the body must be application/json"));
        }
        let bytes = Bytes::from_request(request, app)
            .await
            .map_err(|_| ApiError::too_large())?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|_| ApiError::bad_request("the body does not have the documented fields"))
    }
}

/// The session cookie's name. On loopback it carries the port: cookies are shared by all
/// ports of a host, and two relays would sign each other's users out.
pub(crate) fn cookie_name(site: &Site) -> String {
    if site.0.is_https() {
        "__Host-wt-session".to_owned()
    } else {
        format!("wt-session-{}", site.0.port())
    }
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(given, _)| *given == name)
        .map(|(_, value)| value)
}

fn authorization<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (given, token) = value.split_once(' ')?;
    given.eq_ignore_ascii_case(scheme).then(|| token.trim())
}

/// The address that the proxy in front vouches for: the last one, which it added itself.
fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all("x-forwarded-for").iter().next_back()?;
    last.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
}

fn proof(parts: &Parts, app: &App, token: Option<&str>) -> Result<dpop::Proven, ApiError> {
    let mut proofs = parts.headers.get_all(&DPOP).iter();
    // RFC 9449 section 4.3: exactly one.
    let (Some(proof), None) = (proofs.next(), proofs.next()) else {
        return Err(ApiError::unauthorized());
    };
    let proof = proof.to_str().map_err(|_| ApiError::unauthorized())?;
    let site = parts
        .extensions
        .get::<Site>()
        .ok_or_else(ApiError::internal)?;
    let path = parts.uri.path();
    let call = Call {
        method: parts.method.as_str(),
        // A caller may have typed another of the relay's names than it calls itself.
        urls: &[format!("{}{path}", app.origin), format!("{}{path}", site.0)],
        token,
    };
    Ok(dpop::verify(proof, call, SystemTime::now())?)
}

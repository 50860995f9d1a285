//! Refusals as problem details (RFC 9457).

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use wt_protocol::api::{ACCESS_DENIED, AUTHORIZATION_PENDING, EXPIRED_TOKEN, Problem, SLOW_DOWN};

use crate::accounts::AuthError;
use crate::app::{ApproveError, EnrolError};
use crate::dpop::ProofError;
use crate::login::CodeError;
use crate::store::StoreError;

/// A refusal. Its words are this program's own; nothing that a caller sent is in them.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) title: String,
    error: &'static str,
    retry_after: Option<u32>,
}

impl ApiError {
    fn new(status: StatusCode, error: &'static str, title: impl Into<String>) -> Self {
        Self {
            status,
            title: title.into(),
            error,
            retry_after: None,
        }
    }

    fn retry_after(self, seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// No credentials, or none that hold: signing in again is the remedy.
    pub(crate) fn unauthorized() -> Self {
        let title = "sign in first";
        Self::new(StatusCode::UNAUTHORIZED, "login_required", title)
    }

    pub(crate) fn wrong_host() -> Self {
        let title = "this relay does not go by that host name";
        Self::new(StatusCode::FORBIDDEN, "wrong_host", title)
    }

    pub(crate) fn wrong_origin() -> Self {
        let title = "requests from other sites' pages are not served";
        Self::new(StatusCode::FORBIDDEN, "wrong_origin", title)
    }

    pub(crate) fn bad_request(title: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", title)
    }

    pub(crate) fn too_large() -> Self {
        let title = "the request body is too large";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", title)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here")
    }

    pub(crate) fn wrong_method() -> Self {
        let title = "this address takes another method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", title)
    }

    pub(crate) fn too_many() -> Self {
        let title = "too many requests from this address";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", title).retry_after(2)
    }

    pub(crate) fn too_many_logins() -> Self {
        let title = "too many device logins wait for approval";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_logins", title).retry_after(60)
    }

    pub(crate) fn timed_out() -> Self {
        let title = "the relay did not get to this request in time";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "timed_out", title).retry_after(1)
    }

    pub(crate) fn not_ready() -> Self {
        let title = "the relay is not ready";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", title).retry_after(1)
    }

    pub(crate) fn internal() -> Self {
        let title = "the relay failed; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", title)
    }

    pub(crate) fn pending() -> Self {
        let title = "nobody has approved yet";
        Self::new(StatusCode::BAD_REQUEST, AUTHORIZATION_PENDING, title)
    }

    pub(crate) fn slow_down() -> Self {
        Self::new(StatusCode::BAD_REQUEST, SLOW_DOWN, "asked too soon")
    }

    pub(crate) fn denied() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            ACCESS_DENIED,
            "the login was refused",
        )
    }

    pub(crate) fn expired() -> Self {
        let title = "the code ran out or was used";
        Self::new(StatusCode::BAD_REQUEST, EXPIRED_TOKEN, title)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = Problem {
            kind: format!("urn:wingthing:problem:{}", self.error),
            title: self.title,
            status: self.status.as_u16(),
            error: Some(self.error.to_owned()),
        };
        let mut response = (self.status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.status == StatusCode::UNAUTHORIZED {
            // RFC 9449 section 7.1.
            let scheme = HeaderValue::from_static("DPoP algs=\"EdDSA\"");
            headers.insert(WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        Self::internal()
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Invalid | AuthError::Revoked => Self::unauthorized(),
            AuthError::Unavailable(error) => error.into(),
        }
    }
}

impl From<ProofError> for ApiError {
    fn from(error: ProofError) -> Self {
        let (status, name) = match error {
            ProofError::Invalid => (StatusCode::UNAUTHORIZED, "invalid_dpop_proof"),
            ProofError::Clock => (StatusCode::UNAUTHORIZED, "clock_skew"),
            ProofError::Replayed => (StatusCode::UNAUTHORIZED, "replayed_proof"),
            ProofError::Full => (StatusCode::TOO_MANY_REQUESTS, "too_many_requests"),
        };
        Self::new(status, name, error.to_string())
    }
}

impl From<CodeError> for ApiError {
    fn from(error: CodeError) -> Self {
        let (status, name) = match error {
            CodeError::Unknown => (StatusCode::NOT_FOUND, "unknown_code"),
            CodeError::TooManyTries => (StatusCode::TOO_MANY_REQUESTS, "too_many_tries"),
        };
        Self::new(status, name, error.to_string())
    }
}

impl From<EnrolError> for ApiError {
    fn from(error: EnrolError) -> Self {
        let (status, name) = match error {
            EnrolError::Unavailable(error) => return error.into(),
            EnrolError::Signature => (StatusCode::BAD_REQUEST, "invalid_request"),
            EnrolError::OtherAccount => (StatusCode::CONFLICT, "other_account"),
            EnrolError::TooMany => (StatusCode::CONFLICT, "too_many_devices"),
        };
        Self::new(status, name, error.to_string())
    }
}

impl From<ApproveError> for ApiError {
    fn from(error: ApproveError) -> Self {
        match error {
            ApproveError::Code(error) => error.into(),
            ApproveError::Enrol(error) => error.into(),
        }
    }
}

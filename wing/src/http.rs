//! The relay's HTTP interface, as a device calls it.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, Method, RequestBuilder, Url};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use wt_crypto::{DeviceSecret, random};
use wt_protocol::api::{self, Problem, RoostInfo, Roster, TokenResponse, Whoami};
use wt_protocol::keys::DeviceKey;

use crate::error::{Error, ErrorCode};

/// How long a relay may take to answer a call.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// How long a relay may take to accept a connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Largest answer that is read, in bytes: a roster of thousands of wings.
const MAX_ANSWER: usize = 4 << 20;

/// Reads a roost's URL: `https://`, or `http://` on this machine only.
///
/// Gives its origin, without a path and without a final slash.
pub(crate) fn parse_origin(text: &str) -> Result<String, Error> {
    let usage = |reason: &str| {
        Error::new(
            ErrorCode::Usage,
            format!("{text:?} is not the URL of a roost: {reason}"),
        )
        .hint("give it like https://roost.example.org or http://127.0.0.1:8080")
    };
    let url = Url::parse(text).map_err(|e| usage(&e.to_string()))?;
    let host = url.host_str().ok_or_else(|| usage("it names no host"))?;
    let loopback = is_loopback(host);
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        "http" => {
            return Err(usage(
                "http:// is accepted for this machine only, anything else needs https://",
            ));
        }
        _ => return Err(usage("it starts with neither https:// nor http://")),
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err(usage("it has a path"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(usage("it has a user name in it"));
    }
    Ok(url.origin().ascii_serialization())
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The port of a plain origin on this machine.
pub(crate) fn loopback_port(origin: &str) -> Option<u16> {
    let url = Url::parse(origin).ok()?;
    let local = url.scheme() == "http" && is_loopback(url.host_str()?);
    local.then(|| url.port_or_known_default()).flatten()
}

/// A relay, as one device reaches it.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    origin: String,
}

/// An answer that is no success.
enum Refusal {
    /// The relay said no, in its own form.
    Problem(Problem),
    /// Everything else.
    Error(Error),
}

impl Http {
    /// Prepares calls to a roost; nothing is sent.
    pub(crate) fn new(origin: &str) -> Result<Self, Error> {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(Error::failed)?
            .dangerous()
            .with_custom_certificate_verifier(std::sync::Arc::new(
                rustls_platform_verifier::Verifier::new(provider).map_err(Error::failed)?,
            ))
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT_DEADLINE)
            .timeout(CALL_DEADLINE)
            // A redirect would carry a proof elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("wt/", env!("CARGO_PKG_VERSION")));
        // A proxy cannot reach this machine's own loopback.
        let host = Url::parse(origin)
            .ok()
            .and_then(|url| url.host_str().map(str::to_owned))
            .unwrap_or_default();
        let client = if is_loopback(&host) {
            client.no_proxy()
        } else {
            client
        };
        Ok(Self {
            client: client.build().map_err(Error::failed)?,
            origin: origin.to_owned(),
        })
    }

    /// What the roost says of itself.
    pub(crate) async fn info(&self) -> Result<RoostInfo, Error> {
        self.plain(self.client.get(self.url(api::PATH_ROOST))).await
    }

    /// Starts a device login.
    pub(crate) async fn device_code(
        &self,
        request: &api::DeviceCodeRequest,
    ) -> Result<api::DeviceCodeResponse, Error> {
        self.plain(
            self.client
                .post(self.url(api::PATH_DEVICE_CODE))
                .json(request),
        )
        .await
    }

    /// Asks whether a login was approved: a token, or the relay's short word on why not yet.
    pub(crate) async fn device_token(
        &self,
        device: &DeviceSecret,
        device_code: &str,
    ) -> Result<Result<TokenResponse, String>, Error> {
        let body = api::DeviceTokenRequest {
            device_code: device_code.to_owned(),
        };
        let call = self
            .proven(Method::POST, api::PATH_DEVICE_TOKEN, device, None)
            .json(&body);
        match self.call(call).await {
            Ok(token) => Ok(Ok(token)),
            Err(Refusal::Problem(Problem {
                error: Some(word), ..
            })) => Ok(Err(word)),
            Err(refusal) => Err(self.error(refusal)),
        }
    }

    /// A fresh token, by proof of the device's key.
    pub(crate) async fn token(&self, device: &DeviceSecret) -> Result<TokenResponse, Error> {
        self.plain(self.proven(Method::POST, api::PATH_TOKEN, device, None))
            .await
    }

    /// The account behind a token.
    pub(crate) async fn whoami(&self, device: &DeviceSecret, token: &str) -> Result<Whoami, Error> {
        self.plain(self.proven(Method::GET, api::PATH_WHOAMI, device, Some(token)))
            .await
    }

    /// The account's wings.
    pub(crate) async fn wings(&self, device: &DeviceSecret, token: &str) -> Result<Roster, Error> {
        self.plain(self.proven(Method::GET, api::PATH_WINGS, device, Some(token)))
            .await
    }

    /// Signs this device out.
    pub(crate) async fn logout(&self, device: &DeviceSecret, token: &str) -> Result<(), Error> {
        let call = self.proven(Method::POST, api::PATH_LOGOUT, device, Some(token));
        match self.send(call).await {
            Ok(_) => Ok(()),
            Err(refusal) => Err(self.error(refusal)),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// A call with a proof of possession (RFC 9449).
    fn proven(
        &self,
        method: Method,
        path: &str,
        device: &DeviceSecret,
        token: Option<&str>,
    ) -> RequestBuilder {
        let url = self.url(path);
        let issued_at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let proof = dpop(device, method.as_str(), &url, token, issued_at, random());
        let mut call = self.client.request(method, url).header("DPoP", proof);
        if let Some(token) = token {
            call = call.header("Authorization", format!("DPoP {token}"));
        }
        call
    }

    async fn plain<T: DeserializeOwned>(&self, call: RequestBuilder) -> Result<T, Error> {
        self.call(call).await.map_err(|refusal| self.error(refusal))
    }

    async fn call<T: DeserializeOwned>(&self, call: RequestBuilder) -> Result<T, Refusal> {
        let body = self.send(call).await?;
        serde_json::from_slice(&body).map_err(|_| Refusal::Error(self.nonsense()))
    }

    async fn send(&self, call: RequestBuilder) -> Result<Vec<u8>, Refusal> {
        let mut response = call
            .send()
            .await
            .map_err(|e| Refusal::Error(self.unreachable(&e)))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|e| Refusal::Error(self.unreachable(&e)))?
        {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER {
                return Err(Refusal::Error(self.nonsense()));
            }
        }
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(Refusal::Problem(problem)),
            Err(_) => Err(Refusal::Error(self.nonsense())),
        }
    }

    /// Our words for a relay's refusal: what it writes is never shown as ours.
    fn error(&self, refusal: Refusal) -> Error {
        let origin = &self.origin;
        match refusal {
            Refusal::Error(error) => error,
            Refusal::Problem(Problem { status: 401, .. }) => Error::new(
                ErrorCode::Refused,
                format!("{origin} does not know this device, or no longer"),
            )
            .hint(format!("wt login --roost {origin}")),
            Refusal::Problem(Problem { status: 403, .. }) => {
                Error::new(ErrorCode::Refused, format!("{origin} refused the call"))
            }
            Refusal::Problem(Problem { status: 429, .. }) => Error::new(
                ErrorCode::Refused,
                format!("{origin} got too many calls from here"),
            )
            .hint("try again in a minute"),
            Refusal::Problem(Problem { status, .. }) => {
                Error::failed(format!("{origin} answered with status {status}"))
            }
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        Error::new(
            ErrorCode::Unreachable,
            format!("{} cannot be reached: {cause}", self.origin),
        )
        .hint("check that the roost runs and that the URL is right")
    }

    fn nonsense(&self) -> Error {
        Error::failed(format!("{} does not answer as a roost does", self.origin))
            .hint("check that the URL is a roost's")
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    jti: String,
    htm: &'a str,
    htu: &'a str,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<String>,
}

/// A proof of possession for one call (RFC 9449 section 4.2), signed by the device key
/// (RFC 8037).
fn dpop(
    device: &DeviceSecret,
    method: &str,
    url: &str,
    token: Option<&str>,
    issued_at: u64,
    id: [u8; 16],
) -> String {
    let public: DeviceKey = device.public();
    let header = json!({
        "typ": "dpop+jwt",
        "alg": "EdDSA",
        "jwk": {"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(public.as_bytes())},
    });
    let claims = Claims {
        jti: URL_SAFE_NO_PAD.encode(id),
        htm: method,
        htu: url,
        iat: issued_at,
        ath: token.map(|token| URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes()))),
    };
    let claims = serde_json::to_vec(&claims).expect("these types have no value that JSON lacks");
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header.to_string()),
        URL_SAFE_NO_PAD.encode(claims)
    );
    let signature = device.sign(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for (text, origin) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://localhost:8080/", "http://localhost:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            (
                "http://wt-abc.localhost:8080",
                "http://wt-abc.localhost:8080",
            ),
            ("https://roost.example.org", "https://roost.example.org"),
            (
                "https://roost.example.org:443/",
                "https://roost.example.org",
            ),
        ] {
            assert_eq!(parse_origin(text).unwrap(), origin);
        }
        for text in [
            "http://roost.example.org",
            "http://127.evil.test",
            "http://localhost.evil.test",
            "ftp://127.0.0.1",
            "roost.example.org",
            "https://roost.example.org/path",
            "https://user@roost.example.org",
            "",
        ] {
            assert_eq!(
                parse_origin(text).unwrap_err().code,
                ErrorCode::Usage,
                "{text}"
            );
        }
    }

    #[test]
    fn a_proof_is_a_jws_of_the_device_over_this_call() {
        let device = DeviceSecret::generate();

        let proof = dpop(
            &device,
            "GET",
            "https://r.test/v1/wings",
            Some("token"),
            1_000,
            [7; 16],
        );

        let parts: Vec<&str> = proof.split('.').collect();
        let [header, claims, signature] = parts.as_slice() else {
            panic!("{proof}")
        };
        let claims: serde_json::Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
        assert_eq!(claims["htm"], "GET");
        assert_eq!(claims["htu"], "https://r.test/v1/wings");
        assert_eq!(claims["iat"], 1_000);
        // SHA-256 of "token", worked out apart from this code.
        assert_eq!(claims["ath"], "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A");
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let signature = wt_protocol::keys::Signature::from_bytes(signature.try_into().unwrap());
        let signed = &proof[..proof.rfind('.').unwrap()];
        assert!(
            wt_crypto::verify(device.public().as_bytes(), signed.as_bytes(), &signature).is_ok()
        );
        assert!(!header.is_empty());
    }
}

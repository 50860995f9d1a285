//! The HTTP interface: what is checked on every request, and the routes.
//!
//! Every request passes, from the outside in: a time limit, the check of Host and Origin,
//! and the answer's security headers. Who may do what is decided by each handler through
//! the extractors in [`caller`]: nothing is allowed because of where it comes from.

mod api;
mod caller;
mod pages;
mod problem;
pub(crate) mod serve;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use wt_protocol::api as paths;

use crate::app::App;
use crate::config::{Origin, is_loopback_host};
use problem::ApiError;

/// Largest request body, in bytes. A login request is the largest and needs under 1 KiB.
const MAX_BODY: usize = 16 * 1024;

/// A request that is not answered in this time is given up.
const REQUEST_DEADLINE: Duration = Duration::from_secs(15);

/// No inline script or style, nothing from elsewhere, no framing.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; form-action 'self'; \
                   base-uri 'none'; frame-ancestors 'none'";

/// The connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    /// The other end: a client or a proxy.
    pub(crate) peer: SocketAddr,
    /// The port of this end.
    pub(crate) port: u16,
    /// Whether TLS ends here.
    pub(crate) tls: bool,
}

/// The origin under which a request was made; known to be one of this relay's.
#[derive(Debug, Clone)]
pub(crate) struct Site(pub(crate) Origin);

/// All routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    let router = Router::new()
        .route("/healthz", get(api::healthz))
        .route("/readyz", get(api::readyz))
        .route(paths::PATH_ROOST, get(api::roost))
        .route(paths::PATH_DEVICE_CODE, post(api::device_code))
        .route(paths::PATH_DEVICE_TOKEN, post(api::device_token))
        .route(paths::PATH_TOKEN, post(api::token))
        .route(paths::PATH_WHOAMI, get(api::whoami))
        .route(paths::PATH_LOGOUT, post(api::logout))
        .route(paths::PATH_WINGS, get(api::wings))
        .route("/", get(pages::index))
        .route(paths::PAGE_DEVICE, get(pages::device).post(pages::decide))
        .route("/signin", get(pages::sign_in).post(pages::redeem))
        .route("/signout", post(pages::sign_out))
        .route("/static/signin.js", get(pages::script))
        .route("/static/style.css", get(pages::style));
    finish(with_local_routes(router), app)
}

/// The routes of the operator alone, for a listener of their own.
pub(crate) fn local_router(app: Arc<App>) -> Router {
    finish(with_local_routes(Router::new()), app)
}

fn with_local_routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route(paths::PATH_LOCAL_APPROVE, post(api::local_approve))
        .route(paths::PATH_LOCAL_LINK, post(api::local_link))
}

fn finish(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    router
        .fallback(api::nothing_here)
        .method_not_allowed_fallback(api::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), check_site))
        .layer(middleware::from_fn(guard))
        .with_state(app)
}

/// Gives each request its time, and each answer its headers.
async fn guard(request: Request, next: Next) -> Response {
    let cacheable = request.uri().path().starts_with("/static/");
    let answer = tokio::time::timeout(REQUEST_DEADLINE, next.run(request)).await;
    let mut response = answer.unwrap_or_else(|_| ApiError::timed_out().into_response());
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, CSP),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not no-referrer: browsers then send Origin: null with forms, which is refused.
        (REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !cacheable {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Refuses what another site's page, or a name that was pointed here, has sent.
async fn check_site(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let connection = *request
        .extensions()
        .get::<Connection>()
        .ok_or_else(ApiError::internal)?;
    let site = site_of(request.headers(), request.uri(), connection, &app.origin)
        .ok_or_else(ApiError::wrong_host)?;
    if !same_site(request.headers(), request.method(), &site) {
        return Err(ApiError::wrong_origin());
    }
    request.extensions_mut().insert(Site(site));
    Ok(next.run(request).await)
}

/// The origin that a request was made to, if it is one of ours.
///
/// Ours are the configured origin, and the loopback names with the very port that the
/// connection came in on.
fn site_of(
    headers: &HeaderMap,
    uri: &Uri,
    connection: Connection,
    configured: &Origin,
) -> Option<Origin> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return None;
    };
    let host = host.to_str().ok()?;
    // RFC 9112 section 3.2.2: the absolute form and Host must not tell two stories.
    if uri
        .authority()
        .is_some_and(|a| !a.as_str().eq_ignore_ascii_case(host))
    {
        return None;
    }
    if Origin::of_host(configured.is_https(), host).as_ref() == Some(configured) {
        return Some(configured.clone());
    }
    Origin::of_host(connection.tls, host)
        .filter(|site| is_loopback_host(site.host()) && site.port() == connection.port)
}

/// Whether a request comes from this very site, or from no page at all.
fn same_site(headers: &HeaderMap, method: &Method, site: &Origin) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    if let Some(origin) = origins.next() {
        // Anything that is no origin of ours is refused, "null" with it.
        let given = origin.to_str().ok().and_then(|o| o.parse::<Origin>().ok());
        return given.as_ref() == Some(site) && origins.next().is_none();
    }
    // Links from elsewhere may be followed; nothing changes by GET.
    let from_page = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    method == Method::GET
        || method == Method::HEAD
        || matches!(from_page, None | Some(b"same-origin" | b"none"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_of_this_relay_are_served() {
        for (host, site) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("localhost:8080", Some("http://localhost:8080")),
            ("[::1]:8080", Some("http://[::1]:8080")),
            (
                "WT-abcdefghijklmnop.localhost:8080",
                Some("http://wt-abcdefghijklmnop.localhost:8080"),
            ),
            ("roost.example", Some("https://roost.example")),
            ("roost.example:443", Some("https://roost.example")),
            ("roost.example:8080", None),
            ("localhost", None),
            ("localhost:8081", None),
            ("localhost.evil.test:8080", None),
            ("127.evil.test:8080", None),
            ("evil.test", None),
            ("", None),
        ] {
            assert_eq!(
                site_for(&[host], "/").map(|s| s.to_string()).as_deref(),
                site,
                "{host}"
            );
        }
    }

    #[test]
    fn two_hosts_or_two_stories_are_refused() {
        assert!(site_for(&["localhost:8080"], "http://localhost:8080/").is_some());
        assert!(site_for(&["localhost:8080"], "http://evil.test/").is_none());
        assert!(site_for(&["localhost:8080", "localhost:8080"], "/").is_none());
        assert!(site_for(&[], "/").is_none());
    }

    #[test]
    fn only_the_sites_own_pages_may_act() {
        let allowed = |origin: &str| {
            let site = "http://localhost:8080".parse().unwrap();
            same_site(&headers(&[("origin", origin)]), &Method::POST, &site)
        };
        assert!(allowed("http://localhost:8080"));
        for origin in [
            "https://evil.test",
            "null",
            "http://127.evil.test",
            "http://localhost.evil.test:8080",
            "http://localhost:8081",
            "https://localhost:8080",
            "http://127.0.0.1:8080",
            "",
        ] {
            assert!(!allowed(origin), "{origin}");
        }
    }

    #[test]
    fn without_an_origin_a_browser_must_say_that_the_page_is_ours() {
        let site = "http://localhost:8080".parse().unwrap();
        let allowed =
            |method, fetch: &[(&'static str, &str)]| same_site(&headers(fetch), &method, &site);
        assert!(allowed(Method::POST, &[]));
        assert!(allowed(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(!allowed(Method::POST, &[("sec-fetch-site", "cross-site")]));
        assert!(!allowed(Method::POST, &[("sec-fetch-site", "same-site")]));
        assert!(allowed(Method::GET, &[("sec-fetch-site", "cross-site")]));
    }

    fn site_for(hosts: &[&str], uri: &str) -> Option<Origin> {
        let pairs: Vec<_> = hosts.iter().map(|h| ("host", *h)).collect();
        let connection = Connection {
            peer: "127.0.0.1:9".parse().unwrap(),
            port: 8080,
            tls: false,
        };
        let configured = "https://roost.example".parse().unwrap();
        site_of(
            &headers(&pairs),
            &uri.parse().unwrap(),
            connection,
            &configured,
        )
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }
}

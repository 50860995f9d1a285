//! Pages for people: plain HTML that works without script.

use std::fmt::Write;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wt_protocol::api::PAGE_DEVICE;

use crate::app::App;
use crate::browser::SESSION_LIFETIME;
use crate::http::Site;
use crate::http::caller::{Browser, Rationed, cookie_name};
use crate::http::problem::ApiError;
use crate::login::{UserCode, Waiting};
use crate::secrets;

const INDEX: &str = r#"<p>This is a <strong>wingthing</strong> relay. It connects people to terminals on their own
machines and passes on what they send without being able to read it.</p>
<p>Did a device show you a code? <a href="/device">Verify it here.</a></p>
<p>To reach a machine through this relay, run <code>wt login --roost URL</code> with the URL of this page.</p>
"#;

const CODE_FORM: &str = r#"<form method="post" action="/device">
<p><label for="code">The code that the device shows</label></p>
<p><input type="text" id="code" name="code" required maxlength="20" autocomplete="off" autocapitalize="characters" spellcheck="false" placeholder="XXXX-XXXX">
<button>Continue</button></p>
</form>
<form method="post" action="/signout"><p><button>Sign out</button></p></form>
"#;

const SIGN_IN_FORM: &str = r#"<form method="post" action="/signin" id="signin">
<p><label for="secret">The part of the sign-in link behind the <kbd>#</kbd></label></p>
<p><input type="password" id="secret" name="secret" required maxlength="100" autocomplete="off">
<button>Sign in</button></p>
</form>
"#;

const HOW_TO_APPROVE: &str = r#"<p>This browser is not signed in. On the machine that runs the relay you can approve a code without a browser:</p>
<ul><li><code>wt roost approve CODE</code> if <code>wt roost start</code> runs it;</li>
<li><code>wt-relay approve CODE</code> if <code>wt-relay serve</code> runs it.</li></ul>
<p>To do it here, open a sign-in link (<code>wt-relay link</code> prints one), or paste its secret:</p>
"#;

pub(super) async fn index() -> Response {
    page(StatusCode::OK, "wingthing relay", INDEX)
}

pub(super) async fn script() -> impl IntoResponse {
    let kind = "text/javascript; charset=utf-8";
    ([(CONTENT_TYPE, kind)], include_str!("static/signin.js"))
}

pub(super) async fn style() -> impl IntoResponse {
    let kind = "text/css; charset=utf-8";
    ([(CONTENT_TYPE, kind)], include_str!("static/style.css"))
}

pub(super) async fn device(browser: Browser) -> Response {
    if browser.signed_in.is_none() {
        return not_signed_in();
    }
    page(StatusCode::OK, "Verify a device", CODE_FORM)
}

/// Both steps of a verification: without a decision it shows what waits.
#[derive(Deserialize)]
pub(super) struct CodeForm {
    code: String,
    #[serde(default)]
    decision: Option<Decision>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Approve,
    Deny,
}

pub(super) async fn decide(
    State(app): State<Arc<App>>,
    browser: Browser,
    _: Rationed,
    form: Result<Form<CodeForm>, FormRejection>,
) -> Response {
    let Some((account, _)) = browser.signed_in else {
        return not_signed_in();
    };
    let Ok(Form(form)) = form else {
        return refusal(ApiError::bad_request("the form does not have its fields"));
    };
    let code = UserCode::parse(&form.code);
    let outcome = match form.decision {
        None => app
            .look_up(&account, code.as_ref())
            .map(|waiting| confirm(code.as_ref(), &waiting))
            .map_err(ApiError::from),
        Some(Decision::Approve) => app
            .approve(&account, code.as_ref())
            .await
            .map(|_| APPROVED.to_owned())
            .map_err(ApiError::from),
        Some(Decision::Deny) => app
            .logins()
            .deny(&account, code.as_ref(), SystemTime::now())
            .map(|()| "<p>The login was refused. The device gets nothing.</p>".to_owned())
            .map_err(ApiError::from),
    };
    match outcome {
        Ok(body) => page(StatusCode::OK, "Verify a device", &body),
        Err(error) => refusal(error),
    }
}

const APPROVED: &str = "<p>The device is signed in to this relay.</p>
<p>Each wing still decides by itself whether it admits the device: \
<code>wt wing approve</code> on that machine does.</p>";

fn confirm(code: Option<&UserCode>, waiting: &Waiting) -> String {
    let code = code.map(UserCode::shown).unwrap_or_default();
    let when = OffsetDateTime::from(waiting.since)
        .replace_nanosecond(0)
        .ok()
        .and_then(|t| t.format(&Rfc3339).ok())
        .unwrap_or_default();
    let name = escape(&waiting.enrolment.device_name);
    let address = waiting.address.to_canonical();
    let device = waiting.enrolment.device;
    format!(
        r#"<p>A device asks to sign in to your account.</p>
<dl><dt>Code</dt><dd><code>{code}</code></dd>
<dt>Calls itself (unverified)</dt><dd>{name}</dd>
<dt>Asked from</dt><dd><code>{address}</code></dd>
<dt>Asked at</dt><dd>{when}</dd>
<dt>Device key</dt><dd><code>{device}</code></dd></dl>
<p class="warning">Approve only if you started this yourself, just now, and the device shows this very code.</p>
<form method="post" action="/device">
<input type="hidden" name="code" value="{code}">
<p><button name="decision" value="approve">Approve</button>
<button name="decision" value="deny">Refuse</button></p>
</form>
"#
    )
}

pub(super) async fn sign_in() -> Response {
    let body = SIGN_IN_FORM.to_owned() + r#"<script src="/static/signin.js" defer></script>"#;
    page(StatusCode::OK, "Sign in", &body)
}

#[derive(Deserialize)]
pub(super) struct SecretForm {
    secret: String,
}

pub(super) async fn redeem(
    State(app): State<Arc<App>>,
    browser: Browser,
    _: Rationed,
    form: Result<Form<SecretForm>, FormRejection>,
) -> Response {
    let Ok(Form(form)) = form else {
        return refusal(ApiError::bad_request("the form does not have its fields"));
    };
    let now = SystemTime::now();
    // The whole link may have been pasted.
    let secret = form.secret.trim();
    let secret = secret.rsplit_once('#').map_or(secret, |(_, s)| s);
    let cookie = app.browsers().redeem(secret, now, secrets::random());
    let Some(cookie) = cookie else {
        let body = format!(
            "<p>That link was used, is older than five minutes, or is not this relay's. \
             The relay's operator can make another.</p>{SIGN_IN_FORM}"
        );
        return page(StatusCode::UNAUTHORIZED, "Sign in", &body);
    };
    see_device(&set_cookie(
        &browser.site,
        &cookie,
        SESSION_LIFETIME.as_secs(),
    ))
}

pub(super) async fn sign_out(State(app): State<Arc<App>>, browser: Browser) -> Response {
    if let Some((_, cookie)) = &browser.signed_in {
        app.browsers().sign_out(cookie);
    }
    let mut response = see_device(&set_cookie(&browser.site, "", 0));
    // Not "cookies": on loopback that would sign out of other ports' services as well.
    response.headers_mut().insert(
        HeaderName::from_static("clear-site-data"),
        HeaderValue::from_static("\"cache\", \"storage\""),
    );
    response
}

fn set_cookie(site: &Site, value: &str, max_age: u64) -> String {
    let name = cookie_name(site);
    let mut cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age}");
    if site.0.is_https() {
        cookie.push_str("; Secure");
    }
    cookie
}

fn see_device(cookie: &str) -> Response {
    let cookie = HeaderValue::from_str(cookie).expect("base64url and ASCII constants");
    let location = HeaderValue::from_static(PAGE_DEVICE);
    (
        StatusCode::SEE_OTHER,
        [(LOCATION, location), (SET_COOKIE, cookie)],
    )
        .into_response()
}

fn not_signed_in() -> Response {
    let body = HOW_TO_APPROVE.to_owned() + SIGN_IN_FORM;
    page(StatusCode::UNAUTHORIZED, "Verify a device", &body)
}

fn refusal(error: ApiError) -> Response {
    let body = format!(
        r#"<p>{}.</p><p><a href="/device">Try again</a></p>"#,
        escape(&error.title)
    );
    page(error.status, "Verify a device", &body)
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let html = format!(
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="stylesheet" href="/static/style.css"></head>
<body><h1>{title}</h1>
{body}
</body></html>
"#
    );
    (status, Html(html)).into_response()
}

/// Makes a text safe between tags and in quoted attributes.
fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '&' | '<' | '>' | '"' | '\'' => {
                write!(out, "&#{};", u32::from(c)).expect("writing to a String succeeds");
            }
            c => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_is_shown_and_not_obeyed() {
        assert_eq!(escape("<b>'&\""), "&#60;b&#62;&#39;&#38;&#34;");
        assert_eq!(escape("Ann's"), "Ann&#39;s");
    }
}

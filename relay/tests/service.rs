//! The relay's HTTP service, from the outside: logins, tokens, roster, pages, life cycle.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::json;
use support::{Device, Rig, Wing, client, problem, start_in};
use tokio::io::AsyncWriteExt;
use wt_link::quic::{Dialer, Identity, Trust};
use wt_protocol::api::{
    ApproveRequest, DeviceCodeResponse, RoostInfo, Roster, SignInLink, TokenResponse, Whoami,
};
use wt_protocol::codes::LinkCode;
use wt_relay::admin::{self, AdminError};
use wt_relay::{Relay, RelayConfig, StartError, TlsFiles};

#[tokio::test]
async fn a_device_signs_in_once_the_operator_approved_its_code() {
    let rig = Rig::start().await;
    let device = Device::new(1);

    let login = rig.begin(&device).await;
    assert_eq!(login.verification_uri, rig.url("/device"));
    assert_eq!((login.expires_in, login.interval), (600, 1));
    let pending = problem(rig.poll(&login).await).await;
    assert_eq!(pending, (400, "authorization_pending".into()));
    let hasty = problem(rig.poll(&login).await).await;
    assert_eq!(hasty, (400, "slow_down".into()));

    let code = login.user_code.to_lowercase().replace('-', " ");
    let approved = admin::approve(rig.dir.path(), &code).await.unwrap();
    assert_eq!(approved.account, "local");
    assert_eq!(approved.device_name, "Ann's blaptopb");
    assert_eq!(
        (approved.device, approved.client),
        (device.public(), device.client())
    );
    tokio::time::sleep(Duration::from_secs(u64::from(login.interval))).await;
    let token: TokenResponse = rig.poll(&login).await.json().await.unwrap();
    assert_eq!((token.token_type.as_str(), token.expires_in), ("DPoP", 600));

    let response = rig
        .call(&device, Method::GET, "/v1/whoami", &token.access_token)
        .await;
    let whoami: Whoami = response.json().await.unwrap();
    assert_eq!(whoami.account, "local");
    assert_eq!(whoami.device, device.public());
    // Each code and each approval counts once.
    let used = problem(rig.poll(&login).await).await;
    assert_eq!(used, (400, "expired_token".into()));
    let again = admin::approve(rig.dir.path(), &code).await;
    assert!(matches!(again, Err(AdminError::UnknownCode(_))));
}

#[tokio::test]
async fn a_login_for_a_client_key_that_the_device_did_not_sign_is_refused() {
    let rig = Rig::start().await;
    let mut request = Device::new(1).code_request();
    let good = rig.post("/v1/device/code", &request).await;
    request.client = Device::new(2).client();

    let bad = rig.post("/v1/device/code", &request).await;

    assert_eq!(good.status(), StatusCode::OK);
    assert_eq!(problem(bad).await, (400, "invalid_request".into()));
}

#[tokio::test]
async fn a_known_device_gets_fresh_tokens_by_proof_alone_and_a_stranger_none() {
    let rig = Rig::start().await;
    let device = Device::new(1);
    rig.sign_in(&device).await;

    let fresh: TokenResponse = rig.refresh(&device).await.json().await.unwrap();
    let stranger = rig.refresh(&Device::new(2)).await;

    let path = "/v1/whoami";
    let ok = rig
        .call(&device, Method::GET, path, &fresh.access_token)
        .await;
    assert_eq!(ok.status(), StatusCode::OK);
    assert_eq!(problem(stranger).await, (401, "login_required".into()));
}

#[tokio::test]
async fn a_token_is_worth_nothing_without_its_own_devices_proof() {
    let rig = Rig::start().await;
    let (device, other) = (Device::new(1), Device::new(2));
    let token = rig.sign_in(&device).await.access_token;
    rig.sign_in(&other).await;
    let url = rig.url("/v1/whoami");

    let bare = rig.http.get(&url).bearer_auth(&token).send().await.unwrap();
    assert_eq!(problem(bare).await, (401, "login_required".into()));
    let no_proof = rig
        .http
        .get(&url)
        .header("authorization", format!("DPoP {token}"));
    let no_proof = no_proof.send().await.unwrap();
    assert_eq!(problem(no_proof).await, (401, "login_required".into()));
    let stolen = rig.call(&other, Method::GET, "/v1/whoami", &token).await;
    assert_eq!(problem(stolen).await, (401, "invalid_dpop_proof".into()));

    let own = rig.call(&device, Method::GET, "/v1/whoami", &token).await;
    assert_eq!(own.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_replayed_proof_is_refused_and_a_fresh_one_is_not() {
    let rig = Rig::start().await;
    let device = Device::new(1);
    let token = rig.sign_in(&device).await.access_token;
    let call = device.proof("GET", &rig.url("/v1/wings"), Some(&token));
    let refresh = device.proof("POST", &rig.url("/v1/token"), None);

    for (status, expected) in [(200, None), (401, Some("replayed_proof"))] {
        let called = rig.call_with(Method::GET, "/v1/wings", &token, &call).await;
        let refreshed = rig.refresh_with(&refresh).send().await.unwrap();
        for response in [called, refreshed] {
            assert_eq!(response.status(), status);
            if let Some(name) = expected {
                assert_eq!(problem(response).await.1, name);
            }
        }
    }
    let fresh = rig.call(&device, Method::GET, "/v1/wings", &token).await;
    assert_eq!(fresh.status(), StatusCode::OK);
}

#[tokio::test]
async fn signing_out_ends_every_credential_of_a_device_and_its_links() {
    let rig = Rig::start().await;
    let (device, other) = (Device::new(1), Device::new(2));
    let first = rig.sign_in(&device).await.access_token;
    let second: TokenResponse = rig.refresh(&device).await.json().await.unwrap();
    let others = rig.sign_in(&other).await.access_token;
    let link = rig.relay.driver().attach_memory();
    let _control = wt_link::dial::prove(&link, device.claim(&rig.relay.origin(), None), &first)
        .await
        .unwrap();

    let out = rig.call(&device, Method::POST, "/v1/logout", &first).await;

    assert_eq!(out.status(), StatusCode::NO_CONTENT);
    assert_eq!(
        link.closed().await,
        wt_link::LinkEnd::ByPeer(LinkCode::Revoked)
    );
    for token in [&first, &second.access_token] {
        let refused = rig.call(&device, Method::GET, "/v1/whoami", token).await;
        assert_eq!(problem(refused).await, (401, "login_required".into()));
        let again = rig.call(&device, Method::POST, "/v1/logout", token).await;
        assert_eq!(problem(again).await, (401, "login_required".into()));
    }
    let refused = rig.refresh(&device).await;
    assert_eq!(problem(refused).await, (401, "login_required".into()));
    let untouched = rig.call(&other, Method::GET, "/v1/whoami", &others).await;
    assert_eq!(untouched.status(), StatusCode::OK);

    // A new login of the same device does not bring older tokens back.
    let fresh = rig.sign_in(&device).await.access_token;
    let old = rig.call(&device, Method::GET, "/v1/whoami", &first).await;
    let new = rig.call(&device, Method::GET, "/v1/whoami", &fresh).await;
    assert_eq!(
        (old.status(), new.status()),
        (StatusCode::UNAUTHORIZED, StatusCode::OK)
    );
}

#[tokio::test]
async fn other_hosts_and_other_sites_pages_are_refused() {
    let rig = Rig::start().await;
    let port = rig.relay.addr().port();
    let send = async |headers: &[(&str, String)]| {
        let mut request = rig.http.post(rig.url("/v1/device/code"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = request.json(&Device::new(1).code_request()).send().await;
        response.unwrap().status().as_u16()
    };

    let own = format!("http://127.0.0.1:{port}");
    assert_eq!(send(&[]).await, 200);
    assert_eq!(send(&[("origin", own)]).await, 200);
    assert_eq!(send(&[("host", format!("localhost:{port}"))]).await, 200);
    for origin in [
        "https://evil.test".to_owned(),
        "null".to_owned(),
        format!("http://127.evil.test:{port}"),
        format!("http://localhost.evil.test:{port}"),
        format!("http://localhost:{port}"),
        "http://127.0.0.1:1".to_owned(),
    ] {
        assert_eq!(send(&[("origin", origin.clone())]).await, 403, "{origin}");
    }
    for host in [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        "localhost".to_owned(),
    ] {
        assert_eq!(send(&[("host", host.clone())]).await, 403, "{host}");
    }
}

#[tokio::test]
async fn strangers_get_401_for_all_but_what_is_open_to_all() {
    let rig = Rig::start().await;

    for path in [
        "/healthz",
        "/readyz",
        "/v1/roost",
        "/",
        "/signin",
        "/static/style.css",
    ] {
        assert_eq!(rig.get(path).await.status(), StatusCode::OK, "{path}");
    }
    for path in [
        "/v1/whoami",
        "/v1/wings",
        "/device",
        "/metrics",
        "/v2",
        "/..%2f",
    ] {
        assert_eq!(
            rig.get(path).await.status(),
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
    }
    assert_eq!(
        rig.get("/v1/logout").await.status(),
        StatusCode::UNAUTHORIZED
    );
    let bearer = rig
        .http
        .get(rig.url("/v1/logout"))
        .bearer_auth("x")
        .send()
        .await;
    assert_eq!(problem(bearer.unwrap()).await, (405, "wrong_method".into()));
    for path in [
        "/v1/token",
        "/v1/logout",
        "/v1/local/approve",
        "/v1/local/link",
    ] {
        let response = rig.post(path, &json!({})).await;
        assert_eq!(
            problem(response).await,
            (401, "login_required".into()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn only_the_operators_token_approves_without_a_browser() {
    let rig = Rig::start().await;
    let login = rig.begin(&Device::new(1)).await;
    let token_file = rig.dir.path().join("local.token");
    let mode = std::fs::metadata(&token_file).unwrap().permissions().mode();
    let token = std::fs::read_to_string(&token_file).unwrap();
    let approve = async |token: &str| {
        let request = ApproveRequest {
            user_code: login.user_code.clone(),
        };
        let post = rig
            .http
            .post(rig.url("/v1/local/approve"))
            .bearer_auth(token);
        post.json(&request).send().await.unwrap().status()
    };

    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(approve("x").await, StatusCode::UNAUTHORIZED);
    assert_eq!(approve("").await, StatusCode::UNAUTHORIZED);
    assert_eq!(approve(token.trim()).await, StatusCode::OK);
}

#[tokio::test]
async fn malformed_and_huge_bodies_are_refused() {
    let rig = Rig::start().await;
    let post = async |kind: &str, body: String| {
        let request = rig.http.post(rig.url("/v1/device/token"));
        let request = request.header("content-type", kind).body(body);
        problem(request.send().await.unwrap()).await
    };

    let expired = json!({"device_code": "x"}).to_string();
    let (bad, large) = ((400, "invalid_request".into()), (413, "too_large".into()));
    assert_eq!(
        post("application/json", expired.clone()).await,
        (400, "expired_token".into())
    );
    assert_eq!(post("text/plain", expired).await, bad);
    assert_eq!(post("application/json", "{".into()).await, bad);
    assert_eq!(post("application/json", "{}".into()).await, bad);
    assert_eq!(post("application/json", "x".repeat(17_000)).await, large);
}

#[tokio::test]
async fn the_roster_shows_the_accounts_wings_and_who_is_online() {
    let rig = Rig::start().await;
    let (device, wing) = (Device::new(1), Wing::new(9));
    let token = rig.sign_in(&device).await.access_token;
    let roster = async || -> Roster {
        let response = rig.call(&device, Method::GET, "/v1/wings", &token).await;
        response.json().await.unwrap()
    };
    assert_eq!(roster().await.wings, vec![]);
    let info: RoostInfo = rig.get("/v1/roost").await.json().await.unwrap();
    assert_eq!(info.quic_addr, rig.relay.addr().to_string());

    let dialer = Dialer::new();
    let trust = Trust::Spki(info.quic_spki);
    let link = dialer
        .connect(rig.relay.addr(), "127.0.0.1", trust)
        .await
        .unwrap();
    let claim = device.claim(&rig.relay.origin(), Some(&wing));
    let control = wt_link::dial::prove(&link, claim, &token).await.unwrap();

    let wings = roster().await.wings;
    assert_eq!(wings.len(), 1);
    assert_eq!((&wings[0].wing_id, wings[0].online), (&wing.id(), true));
    assert_eq!(
        (wings[0].identity, &wings[0].statement),
        (wing.identity(), &wing.statement(1))
    );
    drop(control);
    link.closed().await;
    let wings = roster().await.wings;
    assert_eq!((&wings[0].wing_id, wings[0].online), (&wing.id(), false));
}

#[tokio::test]
async fn the_local_profile_is_enrolled_without_a_login() {
    let rig = Rig::start().await;
    let (device, other) = (Device::new(1), Device::new(2));
    let (key, client) = (device.public(), device.client());

    let enrol = |signature| {
        rig.relay
            .enroll_local(key, client, signature, "this machine")
    };
    assert!(enrol(other.client_signature()).await.is_err());
    assert_eq!(
        rig.refresh(&device).await.status(),
        StatusCode::UNAUTHORIZED
    );
    let account = enrol(device.client_signature()).await.unwrap();

    assert_eq!(account.as_str(), "local");
    assert_eq!(rig.refresh(&device).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_browser_without_script_signs_in_and_approves_in_two_steps() {
    let rig = Rig::start().await;
    let device = Device::new(1);
    let login = rig.begin(&device).await;
    let before = rig.get("/device").await;
    assert_eq!(before.status(), StatusCode::UNAUTHORIZED);
    let before = before.text().await.unwrap();
    assert!(before.contains("wt roost approve CODE") && before.contains("wt-relay approve CODE"));
    let link = rig.relay.sign_in_link();
    let secret = link.strip_prefix(&rig.url("/signin#")).unwrap();

    let cookie = sign_in(&rig, secret).await.unwrap();
    assert_eq!(sign_in(&rig, secret).await, None);
    let form = async |fields: &[(&str, &str)]| {
        let post = rig.http.post(rig.url("/device")).header("cookie", &cookie);
        let response = post.form(fields).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let wrong = form(&[("code", "ZZZZ-ZZZZ")]).await;
    assert_eq!(wrong.0, 404);
    let (status, shown) = form(&[("code", &login.user_code)]).await;
    assert_eq!(status, 200);
    for expected in [
        "127.0.0.1",
        "Ann&#39;s blaptopb",
        "unverified",
        &login.user_code,
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let pending = problem(rig.poll(&login).await).await;
    assert_eq!(pending.1, "authorization_pending");
    let done = form(&[("code", &login.user_code), ("decision", "approve")]).await;
    assert_eq!(done.0, 200);
    tokio::time::sleep(Duration::from_secs(u64::from(login.interval))).await;
    assert_eq!(rig.poll(&login).await.status(), StatusCode::OK);

    let other = rig.begin(&Device::new(2)).await;
    let refused = form(&[("code", &other.user_code), ("decision", "deny")]).await;
    assert_eq!(refused.0, 200);
    assert_eq!(
        problem(rig.poll(&other).await).await,
        (400, "access_denied".into())
    );

    let out = rig.http.post(rig.url("/signout")).header("cookie", &cookie);
    assert_eq!(out.send().await.unwrap().status(), StatusCode::SEE_OTHER);
    assert_eq!(form(&[("code", "ZZZZ-ZZZZ")]).await.0, 401);
}

#[tokio::test]
async fn five_wrong_codes_in_the_browser_stop_further_tries() {
    let rig = Rig::start().await;
    let login = rig.begin(&Device::new(1)).await;
    let secret = rig.relay.sign_in_link();
    let cookie = sign_in(&rig, &secret).await.unwrap();
    let try_code = async |code: &str| {
        let post = rig.http.post(rig.url("/device")).header("cookie", &cookie);
        post.form(&[("code", code)])
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };

    assert_eq!(try_code(&login.user_code).await, 200);
    for _ in 0..5 {
        assert_eq!(try_code("ZZZZ-ZZZZ").await, 404);
    }
    assert_eq!(try_code(&login.user_code).await, 429);
}

#[tokio::test]
async fn pages_have_no_inline_script_and_strict_headers() {
    let rig = Rig::start().await;

    for path in ["/", "/device", "/signin"] {
        let response = rig.get(path).await;
        let headers = response.headers().clone();
        let body = response.text().await.unwrap();
        let csp = headers["content-security-policy"].to_str().unwrap();
        assert!(
            csp.starts_with("default-src 'none'") && !csp.contains("unsafe"),
            "{csp}"
        );
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["x-frame-options"], "DENY");
        for script in body.split("<script").skip(1) {
            assert!(
                script.starts_with(" src=\"/static/signin.js\" defer></script>"),
                "{script}"
            );
        }
        assert!(!body.contains("style=") && !body.contains("onclick"));
    }
    let index = rig.get("/").await.text().await.unwrap();
    assert!(index.contains("wingthing") && index.contains("href=\"/device\""));
}

#[tokio::test]
async fn a_cookie_acts_only_for_pages_of_its_own_site() {
    let rig = Rig::start().await;
    let secret = rig.relay.sign_in_link();
    let cookie = sign_in(&rig, &secret).await.unwrap();
    let post = async |name: &str, value: &str| {
        let post = rig.http.post(rig.url("/device")).header("cookie", &cookie);
        let post = post.header(name, value).form(&[("code", "ZZZZ-ZZZZ")]);
        post.send().await.unwrap().status().as_u16()
    };

    assert_eq!(post("origin", &rig.relay.origin()).await, 404);
    assert_eq!(post("origin", "https://evil.test").await, 403);
    assert_eq!(post("sec-fetch-site", "cross-site").await, 403);
}

#[tokio::test]
async fn a_second_relay_on_the_same_data_or_port_is_refused_by_name() {
    let rig = Rig::start().await;
    let same_data = RelayConfig::new("127.0.0.1:0".parse().unwrap(), rig.dir.path());
    let other = tempfile::tempdir().unwrap();
    let same_port = RelayConfig::new(rig.relay.addr(), other.path());

    let in_use = Relay::start(same_data).await.unwrap_err();
    let taken = Relay::start(same_port).await.unwrap_err();

    assert!(matches!(&in_use, StartError::InUse(dir) if dir == rig.dir.path()));
    let text = taken.to_string();
    assert!(
        text.contains(&rig.relay.addr().to_string()) && text.contains("--addr"),
        "{text}"
    );
}

#[tokio::test]
async fn a_restart_on_the_same_port_keeps_devices_tokens_and_pins() {
    let rig = Rig::start().await;
    let device = Device::new(1);
    let token = rig.sign_in(&device).await.access_token;
    let (addr, info) = (rig.relay.addr(), rig.relay.info().clone());
    let Rig { relay, dir, http } = rig;

    relay.shutdown().await;
    assert!(!dir.path().join("relay.json").exists());
    let relay = Relay::start(RelayConfig::new(addr, dir.path()))
        .await
        .unwrap();

    assert_eq!(relay.info(), &info);
    let rig = Rig { relay, dir, http };
    let response = rig.call(&device, Method::GET, "/v1/whoami", &token).await;
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_idle_connections_or_links() {
    let rig = Rig::start().await;
    let device = Device::new(1);
    let token = rig.sign_in(&device).await.access_token;
    let addr = rig.relay.addr();
    let silent = tokio::net::TcpStream::connect(addr).await.unwrap();
    let mut half = tokio::net::TcpStream::connect(addr).await.unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let trust = Trust::Spki(rig.relay.info().quic_spki);
    let dialer = Dialer::new();
    let link = dialer.connect(addr, "127.0.0.1", trust).await.unwrap();
    let claim = device.claim(&rig.relay.origin(), None);
    let _control = wt_link::dial::prove(&link, claim, &token).await.unwrap();

    let start = Instant::now();
    let ready = rig.url("/readyz");
    assert_eq!(rig.get("/readyz").await.status(), StatusCode::OK);
    // The link does not leave by itself, so there is time to see that the relay drains.
    let draining = async {
        while rig.http.get(&ready).send().await.unwrap().status() != 503 {
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(rig.relay.shutdown(), draining);

    assert!(start.elapsed() < wt_relay::SHUTDOWN_DEADLINE + Duration::from_secs(1));
    assert_eq!(
        link.closed().await,
        wt_link::LinkEnd::ByPeer(LinkCode::Draining)
    );
    std::net::TcpListener::bind(addr).unwrap();
    std::net::UdpSocket::bind(addr).unwrap();
    drop((silent, half));
}

#[tokio::test]
async fn with_a_certificate_it_speaks_https_and_the_operator_still_reaches_it() {
    let dir = tempfile::tempdir().unwrap();
    let pem = Identity::generate(&["localhost".into()]).unwrap();
    let path = dir.path().join("both.pem");
    std::fs::write(&path, &pem).unwrap();
    let mut config = RelayConfig::new("127.0.0.1:0".parse().unwrap(), dir.path().join("data"));
    config.tls = Some(TlsFiles {
        cert: path.clone(),
        key: path,
    });
    config.origin = Some("https://roost.example".parse().unwrap());
    let relay = Relay::start(config).await.unwrap();

    let certificate = pem
        .split_inclusive("-----END CERTIFICATE-----")
        .next()
        .unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let https = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(certificate.as_bytes()).unwrap()])
        .build()
        .unwrap();
    let port = relay.addr().port();
    let health = https.get(format!("https://localhost:{port}/healthz"));
    assert_eq!(health.send().await.unwrap().status(), StatusCode::OK);
    let plain = client()
        .get(format!("http://localhost:{port}/healthz"))
        .send()
        .await;
    assert!(plain.is_err());
    let link: SignInLink = admin::sign_in_link(&dir.path().join("data")).await.unwrap();
    assert!(
        link.url.starts_with("https://roost.example/signin#"),
        "{}",
        link.url
    );
    let spki = Identity::from_pem(&pem).unwrap().spki_sha256();
    assert_eq!(relay.info().quic_spki, spki);
    relay.shutdown().await;
}

#[tokio::test]
async fn behind_a_proxy_addresses_come_from_it_and_cookies_are_secure() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = RelayConfig::new("127.0.0.1:0".parse().unwrap(), dir.path());
    config.origin = Some("https://roost.example".parse().unwrap());
    config.behind_proxy = true;
    let relay = Relay::start(config).await.unwrap();
    assert!(relay.info().behind_proxy);
    let (http, base) = (client(), format!("http://{}", relay.addr()));
    let post = |path: &str| {
        let post = http.post(format!("{base}{path}"));
        let post = post.header("host", "roost.example");
        post.header("x-forwarded-for", "198.51.100.1, 203.0.113.9")
    };

    let login = post("/v1/device/code").json(&Device::new(1).code_request());
    let login: DeviceCodeResponse = login.send().await.unwrap().json().await.unwrap();
    assert_eq!(login.verification_uri, "https://roost.example/device");
    assert_eq!(login.interval, 5);
    let signed_in = post("/signin").form(&[("secret", relay.sign_in_link())]);
    let cookie = signed_in.send().await.unwrap().headers()["set-cookie"].clone();
    let cookie = cookie.to_str().unwrap();
    assert!(
        cookie.starts_with("__Host-") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();
    let page = post("/device")
        .header("cookie", cookie)
        .form(&[("code", &login.user_code)]);
    let page = page.send().await.unwrap().text().await.unwrap();
    assert!(
        page.contains("203.0.113.9") && !page.contains("198.51.100.1"),
        "{page}"
    );
    relay.shutdown().await;
}

#[tokio::test]
async fn operators_are_told_when_no_relay_runs() {
    let dir = tempfile::tempdir().unwrap();
    let never = admin::sign_in_link(dir.path()).await;
    assert!(matches!(never, Err(AdminError::NotRunning(_))));

    // A relay that was killed leaves its files behind.
    let relay = start_in(dir.path()).await;
    let state = std::fs::read(dir.path().join("relay.json")).unwrap();
    assert!(admin::sign_in_link(dir.path()).await.is_ok());
    relay.shutdown().await;
    std::fs::write(dir.path().join("relay.json"), state).unwrap();
    let killed = admin::sign_in_link(dir.path()).await;
    assert!(matches!(killed, Err(AdminError::NotRunning(_))));
}

#[tokio::test]
async fn damaged_state_is_named_and_never_replaced() {
    for name in [
        "token.key",
        "grant.key",
        "link.pem",
        "local.token",
        "relay.db",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let relay = start_in(dir.path()).await;
        relay.shutdown().await;
        std::fs::write(dir.path().join(name), "rubbish").unwrap();

        let config = RelayConfig::new("127.0.0.1:0".parse().unwrap(), dir.path());
        let error = Relay::start(config).await.unwrap_err();

        assert!(error.to_string().contains(name), "{name}: {error}");
        assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), b"rubbish");
    }
}

/// Redeems a sign-in link's secret without script; the cookie, if there was one.
async fn sign_in(rig: &Rig, secret: &str) -> Option<String> {
    let post = rig
        .http
        .post(rig.url("/signin"))
        .form(&[("secret", secret)]);
    let response = post.send().await.unwrap();
    if response.status() == StatusCode::UNAUTHORIZED {
        return None;
    }
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()["location"], "/device");
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    Some(cookie.split(';').next().unwrap().to_owned())
}

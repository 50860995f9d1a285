//! A relay on a free port and a device that speaks to it, for tests.
#![allow(clippy::unwrap_used, dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use wt_protocol::api::{DeviceCodeRequest, DeviceCodeResponse, DeviceTokenRequest, TokenResponse};
use wt_protocol::control::NoiseKeyStatement;
use wt_protocol::keys::{ClientKey, DeviceKey, IdentityKey, NoiseKey, Signature};
use wt_protocol::{InstanceId, WingId, signed};
use wt_relay::{Relay, RelayConfig, admin};

pub(crate) struct Rig {
    pub(crate) relay: Relay,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) http: Client,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let relay = start_in(dir.path()).await;
        Self {
            relay,
            dir,
            http: client(),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.relay.origin())
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.http.get(self.url(path)).send().await.unwrap()
    }

    /// Starts a device login.
    pub(crate) async fn begin(&self, device: &Device) -> DeviceCodeResponse {
        let request = device.code_request();
        let response = self.post("/v1/device/code", &request).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    }

    pub(crate) async fn poll(&self, login: &DeviceCodeResponse) -> Response {
        let request = DeviceTokenRequest {
            device_code: login.device_code.clone(),
        };
        self.post("/v1/device/token", &request).await
    }

    pub(crate) async fn post(&self, path: &str, body: &impl serde::Serialize) -> Response {
        self.http
            .post(self.url(path))
            .json(body)
            .send()
            .await
            .unwrap()
    }

    /// Signs a device in, approved by the operator.
    pub(crate) async fn sign_in(&self, device: &Device) -> TokenResponse {
        let login = self.begin(device).await;
        admin::approve(self.dir.path(), &login.user_code)
            .await
            .unwrap();
        let response = self.poll(&login).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    }

    /// A call by a signed-in device, with a fresh proof.
    pub(crate) async fn call(
        &self,
        device: &Device,
        method: Method,
        path: &str,
        token: &str,
    ) -> Response {
        let proof = device.proof(method.as_str(), &self.url(path), Some(token));
        self.call_with(method, path, token, &proof).await
    }

    pub(crate) async fn call_with(
        &self,
        method: Method,
        path: &str,
        token: &str,
        proof: &str,
    ) -> Response {
        self.http
            .request(method, self.url(path))
            .header("authorization", format!("DPoP {token}"))
            .header("dpop", proof)
            .send()
            .await
            .unwrap()
    }

    /// A fresh token by proof alone.
    pub(crate) async fn refresh(&self, device: &Device) -> Response {
        let proof = device.proof("POST", &self.url("/v1/token"), None);
        self.refresh_with(&proof).send().await.unwrap()
    }

    pub(crate) fn refresh_with(&self, proof: &str) -> RequestBuilder {
        self.http.post(self.url("/v1/token")).header("dpop", proof)
    }
}

pub(crate) async fn start_in(dir: &Path) -> Relay {
    let config = RelayConfig::new("127.0.0.1:0".parse().unwrap(), dir);
    Relay::start(config).await.unwrap()
}

pub(crate) fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

pub(crate) async fn problem(response: Response) -> (u16, String) {
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["status"], status);
    (status, body["error"].as_str().unwrap().to_owned())
}

/// A device with its keys.
pub(crate) struct Device {
    key: Arc<Ed25519KeyPair>,
    client: ClientKey,
    proofs: AtomicU64,
}

impl Device {
    pub(crate) fn new(seed: u8) -> Self {
        Self {
            key: Arc::new(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()),
            client: ClientKey::from_bytes([seed; 32]),
            proofs: AtomicU64::new(0),
        }
    }

    pub(crate) fn public(&self) -> DeviceKey {
        DeviceKey::from_bytes(self.key.public_key().as_ref().try_into().unwrap())
    }

    pub(crate) fn client(&self) -> ClientKey {
        self.client
    }

    pub(crate) fn client_signature(&self) -> Signature {
        sign(&self.key, &signed::client_key(&self.public(), &self.client))
    }

    pub(crate) fn code_request(&self) -> DeviceCodeRequest {
        DeviceCodeRequest {
            device_name: "Ann's <b>laptop</b>".into(),
            device: self.public(),
            client: self.client,
            client_signature: self.client_signature(),
        }
    }

    /// A proof of possession (RFC 9449).
    pub(crate) fn proof(&self, method: &str, url: &str, token: Option<&str>) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key().as_ref());
        let header = json!({"typ": "dpop+jwt", "alg": "EdDSA", "jwk": {"kty": "OKP", "crv": "Ed25519", "x": x}});
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut claims = json!({
            "jti": self.proofs.fetch_add(1, Ordering::Relaxed).to_string(),
            "htm": method, "htu": url, "iat": now.as_secs(),
        });
        if let Some(token) = token {
            let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
            claims["ath"] = json!(URL_SAFE_NO_PAD.encode(digest));
        }
        let text = [header, claims]
            .map(|v| URL_SAFE_NO_PAD.encode(v.to_string()))
            .join(".");
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// What this device dials links with.
    pub(crate) fn claim(&self, origin: &str, wing: Option<&Wing>) -> wt_link::dial::Claim {
        wt_link::dial::Claim {
            origin: origin.to_owned(),
            instance: InstanceId::from_bytes([7; 16]),
            device: self.public(),
            sign: signer(&self.key),
            wing: wing.map(|w| wt_link::dial::WingClaim {
                identity: w.identity(),
                sign: signer(&w.0),
                statement: w.statement(1),
            }),
        }
    }
}

/// A wing's identity.
pub(crate) struct Wing(Arc<Ed25519KeyPair>);

impl Wing {
    pub(crate) fn new(seed: u8) -> Self {
        Self(Arc::new(
            Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap(),
        ))
    }

    pub(crate) fn identity(&self) -> IdentityKey {
        IdentityKey::from_bytes(self.0.public_key().as_ref().try_into().unwrap())
    }

    pub(crate) fn id(&self) -> WingId {
        WingId::of_identity(&self.identity())
    }

    pub(crate) fn statement(&self, seq: u64) -> NoiseKeyStatement {
        let key = NoiseKey::from_bytes([9; 32]);
        NoiseKeyStatement {
            wing: self.id(),
            key,
            seq,
            signature: sign(&self.0, &signed::noise_key_statement(&self.id(), &key, seq)),
        }
    }
}

fn signer(key: &Arc<Ed25519KeyPair>) -> wt_link::dial::Signer {
    let key = Arc::clone(key);
    Arc::new(move |bytes| sign(&key, bytes))
}

fn sign(key: &Ed25519KeyPair, bytes: &[u8]) -> Signature {
    Signature::from_bytes(key.sign(bytes).as_ref().try_into().unwrap())
}

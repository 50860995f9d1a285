//! What a relay can read, field by field: the table in `docs/THREAT_MODEL.md` is made here
//! from the messages themselves. A field that nobody said a word about fails the test.
//!
//! `WT_BLESS=1 cargo test -p wt-protocol --test relay_view` writes the table anew.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use wt_protocol::api::{
    ApproveRequest, ApproveResponse, DeviceCodeRequest, DeviceCodeResponse, DeviceTokenRequest,
    RoostInfo, Roster, RosterWing, SignInLink, TokenResponse, Whoami, WingStatements,
};
use wt_protocol::control::{
    Challenge, FromRelay, Hello, NoiseKeyStatement, Proof, ProofMode, RevocationStatement, Role,
    SuccessorStatement, ToRelay, Welcome, WingProof,
};
use wt_protocol::keys::{
    ClientKey, DeviceKey, GrantKey, IdentityKey, NoiseKey, Sha256Digest, Signature,
};
use wt_protocol::{InstanceId, RouteHeader, RouteNonce, StreamHeader, VersionRange, WingId};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/THREAT_MODEL.md");
const BEGIN: &str = "<!-- relay view: made by protocol/tests/relay_view.rs -->\n";
const END: &str = "<!-- end of the relay view -->\n";

const VERSIONS: &str = "which versions an end speaks";
const WING: &str = "which wing";
const FRESH: &str = "nothing: random or counted, for one connection";
const IDENTITY: &str = "a wing's public identity key";
const STATEMENT: &str =
    "a wing's public handshake key, how often it was renewed, and the proof of both";
const DEVICE: &str = "a device's public key, which the account signed in with";
const DEVICE_NAME: &str =
    "what a device calls itself: the start of its public key, as `wt` fills it in";
const CLIENT: &str = "the public client key of a device";
const PROOF: &str = "a proof of one of these keys";
const OWN: &str = "nothing: the relay's own words";
const ACCOUNT: &str = "an account's name, which the relay keeps";
const TOKEN: &str = "a credential that the relay itself gave";
const CODE: &str = "a code of a device login, which the relay made";

/// What the relay learns from each field; a message that it makes itself tells it nothing.
const LEARNS: &[(&str, &str)] = &[
    ("Stream.Route.wing", WING),
    ("Stream.Route.nonce", FRESH),
    ("Stream.Route.versions.min", VERSIONS),
    ("Stream.Route.versions.max", VERSIONS),
    ("ToRelay.Hello.versions.min", VERSIONS),
    ("ToRelay.Hello.versions.max", VERSIONS),
    ("ToRelay.Hello.role", "whether a client or a wing dials"),
    ("ToRelay.Hello.role.Wing", WING),
    ("ToRelay.Hello.instance", FRESH),
    ("ToRelay.Hello.client_nonce", FRESH),
    ("ToRelay.Hello.mode", "whether a proxy stands between"),
    ("ToRelay.Proof.token", TOKEN),
    ("ToRelay.Proof.device", DEVICE),
    ("ToRelay.Proof.device_signature", PROOF),
    ("ToRelay.Proof.wing", "whether a wing dials"),
    ("ToRelay.Proof.wing.identity", IDENTITY),
    ("ToRelay.Proof.wing.signature", PROOF),
    ("ToRelay.Proof.wing.statement.wing", STATEMENT),
    ("ToRelay.Proof.wing.statement.key", STATEMENT),
    ("ToRelay.Proof.wing.statement.seq", STATEMENT),
    ("ToRelay.Proof.wing.statement.signature", STATEMENT),
    ("ToRelay.Renew.token", TOKEN),
    ("ToRelay.Renew.device", DEVICE),
    ("ToRelay.Renew.device_signature", PROOF),
    ("ToRelay.Renew.wing", "whether a wing dials"),
    ("ToRelay.Ping", FRESH),
    ("ToRelay.Pong", FRESH),
    ("FromRelay.Challenge.version", OWN),
    ("FromRelay.Challenge.relay_nonce", OWN),
    ("FromRelay.Welcome.max_routes", OWN),
    ("FromRelay.Welcome.expires_in", OWN),
    ("FromRelay.Renewed.expires_in", OWN),
    ("FromRelay.GoAway.spread_ms", OWN),
    ("FromRelay.Ping", OWN),
    ("FromRelay.Pong", OWN),
    ("Http.DeviceCodeRequest.device_name", DEVICE_NAME),
    ("Http.DeviceCodeRequest.device", DEVICE),
    ("Http.DeviceCodeRequest.client", CLIENT),
    ("Http.DeviceCodeRequest.client_signature", PROOF),
    ("Http.DeviceTokenRequest.device_code", CODE),
    ("Http.ApproveRequest.user_code", CODE),
    (
        "Http.WingStatements.successors.old",
        "a public identity key that stepped down",
    ),
    (
        "Http.WingStatements.successors.new",
        "which wing took its place",
    ),
    ("Http.WingStatements.successors.signature", PROOF),
    (
        "Http.WingStatements.revocations.identity",
        "a public identity key that was given up",
    ),
    ("Http.WingStatements.revocations.signature", PROOF),
    ("Http.RoostInfo.origin", OWN),
    ("Http.RoostInfo.quic_addr", OWN),
    ("Http.RoostInfo.quic_spki", OWN),
    ("Http.RoostInfo.grant_key", OWN),
    ("Http.RoostInfo.behind_proxy", OWN),
    ("Http.RoostInfo.version", OWN),
    ("Http.DeviceCodeResponse.device_code", OWN),
    ("Http.DeviceCodeResponse.user_code", OWN),
    ("Http.DeviceCodeResponse.verification_uri", OWN),
    ("Http.DeviceCodeResponse.expires_in", OWN),
    ("Http.DeviceCodeResponse.interval", OWN),
    ("Http.TokenResponse.access_token", OWN),
    ("Http.TokenResponse.token_type", OWN),
    ("Http.TokenResponse.expires_in", OWN),
    ("Http.TokenResponse.account", ACCOUNT),
    ("Http.Whoami.account", ACCOUNT),
    ("Http.Whoami.device_name", DEVICE_NAME),
    ("Http.Whoami.device", DEVICE),
    ("Http.Roster.wings.wing_id", WING),
    ("Http.Roster.wings.online", "whether a wing's link is up"),
    ("Http.Roster.wings.identity", IDENTITY),
    ("Http.Roster.wings.statement.wing", STATEMENT),
    ("Http.Roster.wings.statement.key", STATEMENT),
    ("Http.Roster.wings.statement.seq", STATEMENT),
    ("Http.Roster.wings.statement.signature", STATEMENT),
    ("Http.ApproveResponse.account", ACCOUNT),
    ("Http.ApproveResponse.device_name", DEVICE_NAME),
    ("Http.ApproveResponse.device", DEVICE),
    ("Http.ApproveResponse.client", CLIENT),
    ("Http.ApproveResponse.client_signature", PROOF),
    ("Http.SignInLink.url", OWN),
    ("Http.SignInLink.expires_in", OWN),
];

#[test]
fn the_threat_model_lists_every_field_that_a_relay_can_read() {
    let table = table();

    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (before, rest) = document.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    if std::env::var_os("WT_BLESS").is_some() {
        std::fs::write(DOCUMENT, [before, BEGIN, &table, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(
        listed, table,
        "write the table anew with WT_BLESS=1, and look at what became readable"
    );
}

#[test]
fn a_field_without_a_word_about_it_is_found() {
    let mut fields = BTreeSet::new();
    let secret = serde_json::json!({"wing": "x", "hostname": "secret"});

    add(&mut fields, "Stream.Route", &secret);

    let unknown: Vec<_> = fields
        .iter()
        .filter(|field| learns(field).is_none())
        .collect();
    assert_eq!(unknown, ["Stream.Route.hostname"]);
}

/// One row for each thing that one message tells.
fn table() -> String {
    let mut fields = BTreeSet::new();
    stream_headers(&mut fields);
    control_messages(&mut fields);
    http_bodies(&mut fields);
    for (field, _) in LEARNS {
        assert!(fields.contains(*field), "{field} is in no message");
    }
    let mut rows: Vec<(String, String, Vec<String>)> = Vec::new();
    for (field, what) in LEARNS {
        let mut parts = field.splitn(3, '.');
        let kind = parts.next().unwrap();
        let message = format!("{kind}::{}", parts.next().unwrap());
        let name = parts.next().unwrap_or("(all)").to_owned();
        match rows
            .iter_mut()
            .find(|(listed, about, _)| *listed == message && about == what)
        {
            Some((.., names)) => names.push(name),
            None => rows.push((message, (*what).to_owned(), vec![name])),
        }
    }
    for field in &fields {
        assert!(
            learns(field).is_some(),
            "say in LEARNS what a relay learns from {field}, or move it inside the seal"
        );
    }
    let mut table = "| message | fields | what they tell the relay |\n|---|---|---|\n".to_owned();
    for (message, what, names) in rows {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        table += &format!("| `{message}` | {} | {what} |\n", names.join(", "));
    }
    table
}

fn learns(field: &str) -> Option<&'static str> {
    let row = LEARNS.iter().find(|(known, _)| *known == field)?;
    Some(row.1)
}

/// Adds the paths of all values in a message. Lists count as what they hold.
fn add(fields: &mut BTreeSet<String>, path: &str, message: &impl Serialize) {
    fn walk(fields: &mut BTreeSet<String>, path: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    walk(fields, &format!("{path}.{name}"), value);
                }
            }
            Value::Array(values) if values.iter().any(Value::is_object) => {
                for value in values {
                    walk(fields, path, value);
                }
            }
            _ => {
                fields.insert(path.to_owned());
            }
        }
    }
    walk(fields, path, &serde_json::to_value(message).unwrap());
}

fn stream_headers(fields: &mut BTreeSet<String>) {
    let header = StreamHeader::Route(RouteHeader {
        wing: wing(),
        nonce: RouteNonce::from_bytes([1; 16]),
        versions: VERSION_RANGE,
    });
    // A variant that is not here does not compile.
    match &header {
        StreamHeader::Route(_) => add(fields, "Stream", &header),
    }
}

fn control_messages(fields: &mut BTreeSet<String>) {
    let hello = |role| {
        ToRelay::Hello(Hello {
            versions: VERSION_RANGE,
            role,
            instance: InstanceId::from_bytes([2; 16]),
            client_nonce: [3; 32],
            mode: ProofMode::Exporter,
        })
    };
    let proof = |wing| Proof {
        token: "t".to_owned(),
        device: DeviceKey::from_bytes([4; 32]),
        device_signature: Signature::from_bytes([5; 64]),
        wing,
    };
    let wing_proof = WingProof {
        identity: IdentityKey::from_bytes([7; 32]),
        signature: Signature::from_bytes([6; 64]),
        statement: statement(),
    };
    for message in [
        hello(Role::Client),
        hello(Role::Wing(wing())),
        ToRelay::Proof(proof(None)),
        ToRelay::Proof(proof(Some(wing_proof))),
        ToRelay::Renew(proof(None)),
        ToRelay::Ping(1),
        ToRelay::Pong(1),
    ] {
        match &message {
            ToRelay::Hello(_)
            | ToRelay::Proof(_)
            | ToRelay::Renew(_)
            | ToRelay::Ping(_)
            | ToRelay::Pong(_) => add(fields, "ToRelay", &message),
        }
    }
    for message in [
        FromRelay::Challenge(Challenge {
            version: 1,
            relay_nonce: [1; 32],
        }),
        FromRelay::Welcome(Welcome {
            max_routes: 1,
            expires_in: 1,
        }),
        FromRelay::Renewed { expires_in: 1 },
        FromRelay::GoAway { spread_ms: 1 },
        FromRelay::Ping(1),
        FromRelay::Pong(1),
    ] {
        match &message {
            FromRelay::Challenge(_)
            | FromRelay::Welcome(_)
            | FromRelay::Renewed { .. }
            | FromRelay::GoAway { .. }
            | FromRelay::Ping(_)
            | FromRelay::Pong(_) => add(fields, "FromRelay", &message),
        }
    }
}

fn http_bodies(fields: &mut BTreeSet<String>) {
    let text = || "x".to_owned();
    let device = DeviceKey::from_bytes([4; 32]);
    let client = ClientKey::from_bytes([5; 32]);
    let signature = Signature::from_bytes([6; 64]);
    let identity = IdentityKey::from_bytes([7; 32]);
    let body = DeviceCodeRequest {
        device_name: text(),
        device,
        client,
        client_signature: signature,
    };
    add(fields, "Http.DeviceCodeRequest", &body);
    let body = DeviceTokenRequest {
        device_code: text(),
    };
    add(fields, "Http.DeviceTokenRequest", &body);
    let body = ApproveRequest { user_code: text() };
    add(fields, "Http.ApproveRequest", &body);
    let body = WingStatements {
        successors: vec![SuccessorStatement {
            old: identity,
            new: wing(),
            signature,
        }],
        revocations: vec![RevocationStatement {
            identity,
            signature,
        }],
    };
    add(fields, "Http.WingStatements", &body);
    let body = RoostInfo {
        origin: text(),
        quic_addr: text(),
        quic_spki: Sha256Digest::from_bytes([8; 32]),
        grant_key: GrantKey::from_bytes([9; 32]),
        behind_proxy: false,
        version: text(),
    };
    add(fields, "Http.RoostInfo", &body);
    let body = DeviceCodeResponse {
        device_code: text(),
        user_code: text(),
        verification_uri: text(),
        expires_in: 1,
        interval: 1,
    };
    add(fields, "Http.DeviceCodeResponse", &body);
    let body = TokenResponse {
        access_token: text(),
        token_type: text(),
        expires_in: 1,
        account: text(),
    };
    add(fields, "Http.TokenResponse", &body);
    let body = Whoami {
        account: text(),
        device_name: text(),
        device,
    };
    add(fields, "Http.Whoami", &body);
    let body = Roster {
        wings: vec![RosterWing {
            wing_id: wing(),
            online: true,
            identity,
            statement: statement(),
        }],
    };
    add(fields, "Http.Roster", &body);
    let body = ApproveResponse {
        account: text(),
        device_name: text(),
        device,
        client,
        client_signature: signature,
    };
    add(fields, "Http.ApproveResponse", &body);
    let body = SignInLink {
        url: text(),
        expires_in: 1,
    };
    add(fields, "Http.SignInLink", &body);
}

const VERSION_RANGE: VersionRange = VersionRange { min: 1, max: 1 };

fn wing() -> WingId {
    WingId::of_identity(&IdentityKey::from_bytes([7; 32]))
}

fn statement() -> NoiseKeyStatement {
    NoiseKeyStatement {
        wing: wing(),
        key: NoiseKey::from_bytes([8; 32]),
        seq: 1,
        signature: Signature::from_bytes([9; 64]),
    }
}

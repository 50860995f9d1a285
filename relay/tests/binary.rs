//! The `wt-relay` program: ready line, approval, signals, refusals.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use support::{Device, client};
use wt_protocol::api::DeviceCodeResponse;

#[tokio::test]
async fn a_relay_says_when_it_is_ready_takes_approvals_and_ends_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let (mut relay, ready) = serve(dir.path());
    assert_eq!(ready["version"], 1);
    let origin = ready["origin"].as_str().unwrap();
    assert_eq!(ready["quic"], origin.strip_prefix("http://").unwrap());
    let login: DeviceCodeResponse = client()
        .post(format!("{origin}/v1/device/code"))
        .json(&Device::new(1).code_request())
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    let wrong = run(&["approve", "ZZZZ-ZZZZ", "--json"], dir.path());
    let approved = run(&["approve", &login.user_code, "--json"], dir.path());
    let link = run(&["link"], dir.path());
    let second = run(&["serve", "--addr", "127.0.0.1:0"], dir.path());

    assert_eq!((wrong.status.code(), wrong.stdout.len()), (Some(3), 0));
    let error: Value = serde_json::from_slice(&wrong.stderr).unwrap();
    assert_eq!(error["error"]["code"], "not_found");
    assert_eq!(approved.status.code(), Some(0));
    let approved: Value = serde_json::from_slice(&approved.stdout).unwrap();
    assert_eq!(
        (&approved["version"], &approved["account"]),
        (&1.into(), &"local".into())
    );
    let link = String::from_utf8(link.stdout).unwrap();
    assert!(link.starts_with(&format!("{origin}/signin#")), "{link}");
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stderr).unwrap();
    assert!(text.contains("another relay is running"), "{text}");

    for signal in ["-TERM", "-TERM"] {
        let mut kill = Command::new("kill");
        // The second one may come when the process is gone.
        let _ = kill.args([signal, &relay.id().to_string()]).output();
    }
    assert_eq!(relay.wait().unwrap().code(), Some(0));
    let after = run(&["approve", "ZZZZ-ZZZZ"], dir.path());
    assert_eq!(after.status.code(), Some(6));
}

#[test]
fn nothing_secret_is_logged_even_at_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (mut relay, _ready) = serve(dir.path());
    let link = run(&["link"], dir.path());
    let link = String::from_utf8(link.stdout).unwrap();
    let secret = link.trim().rsplit_once('#').unwrap().1.to_owned();
    let token = std::fs::read_to_string(dir.path().join("local.token")).unwrap();

    let kill = Command::new("kill").arg(relay.id().to_string()).status();
    assert!(kill.unwrap().success());
    relay.wait().unwrap();
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();

    // The control: the log is there and speaks of this run.
    assert!(log.contains("the relay is up"), "{log}");
    assert!(!log.contains(&secret));
    assert!(!log.contains(token.trim()));
}

#[test]
fn a_public_address_without_a_certificate_is_a_usage_error_that_names_the_rule() {
    let dir = tempfile::tempdir().unwrap();

    let refused = run(&["serve", "--addr", "0.0.0.0:0", "--json"], dir.path());

    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    let error: Value = serde_json::from_slice(&refused.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("0.0.0.0:0") && message.contains("--tls-cert"),
        "{message}"
    );
}

/// Starts a relay that logs all it can; with its ready line.
fn serve(dir: &Path) -> (Child, Value) {
    let mut relay = command(
        &["serve", "--addr", "127.0.0.1:0", "--json", "--log", "trace"],
        dir,
    )
    .stdout(Stdio::piped())
    // A file: a full pipe would stop the relay.
    .stderr(File::create(dir.join("log")).unwrap())
    .spawn()
    .unwrap();
    let mut line = String::new();
    let stdout = relay.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    (relay, serde_json::from_str(&line).unwrap())
}

fn run(args: &[&str], dir: &Path) -> Output {
    command(args, dir).output().unwrap()
}

fn command(args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wt-relay"));
    command
        .args(args)
        .env_clear()
        .env("WT_RELAY_DATA", dir)
        .stdin(Stdio::null());
    command
}

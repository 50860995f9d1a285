//! `wt egg log`: why a program did not get through.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use crate::User;

fn ask_proxy(host: &str) -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; \
         printf 'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3; head -1 <&3; exec 3<&-; "
    )
}

fn host<'a>(report: &'a Value, name: &str) -> &'a Value {
    let hosts = report["hosts"].as_array().unwrap();
    hosts
        .iter()
        .find(|one| one["host"] == name)
        .unwrap_or_else(|| panic!("no {name} in {report}"))
}

#[test]
fn a_refusal_has_its_reason_and_one_thing_to_try() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        stream.write_all(b"from outside\n").unwrap();
        let _ = stream.read(&mut [0; 16]);
    });
    let ada = User::new();
    ada.write_rules(&format!(
        "network:\n  domains: [example.test]\n  local_ports: [{port}]\n"
    ));
    let script = [
        ask_proxy("registry.npmjs.org:443"),
        ask_proxy("169.254.169.254:80"),
        format!("head -1 < /dev/tcp/127.0.0.1/{port}"),
    ]
    .concat();

    let started = ada.json(&["terminal", "--name", "npm", "--", "bash", "-c", &script]);
    let id = started["session"]["id"].as_str().unwrap();
    let output = ada.output(id);
    assert!(
        output.contains("403") && output.contains("from outside"),
        "{output}"
    );
    serving.join().unwrap();

    let report = ada.json(&["egg", "log", "npm"]);
    let npm = host(&report, "registry.npmjs.org");
    assert_eq!(npm["denied"], 1);
    assert!(npm["reason"].as_str().unwrap().contains("no rule allows"));
    assert!(
        npm["hint"]
            .as_str()
            .unwrap()
            .contains("\"registry.npmjs.org\"")
    );
    let metadata = host(&report, "169.254.169.254");
    assert!(
        metadata["denied"] == 1 && metadata["hint"].is_null(),
        "{metadata}"
    );
    assert_eq!(host(&report, "localhost")["allowed"], 1);
    let text = ada.wt(&["egg", "log"]).ok().out();
    assert!(text.contains("no rule allows registry.npmjs.org"), "{text}");
    let denied = ada.json(&["egg", "log", "npm", "--denied"]);
    assert_eq!(denied["hosts"].as_array().unwrap().len(), 2);
    let lines = ada
        .wt(&["egg", "log", "npm", "--follow", "--json"])
        .ok()
        .json_lines();
    assert!(
        lines
            .iter()
            .any(|line| line["outcome"] == "denied" && line["host"] == "registry.npmjs.org")
    );

    // What the hint says is what helps.
    ada.write_rules("network:\n  domains: [registry.npmjs.org]\n");
    let why = ada.json(&["egg", "explain", "--why", "registry.npmjs.org"]);
    assert_eq!(why["why"]["allowed"], true);
}

#[test]
fn a_session_without_a_network_says_so() {
    let ada = User::new();
    ada.json(&["terminal", "--name", "alone", "--", "true"]);

    let report = ada.json(&["egg", "log", "alone"]);

    assert_eq!(report["network"]["need"], "none");
    assert!(
        report["notes"][0]
            .as_str()
            .unwrap()
            .contains("has no network")
    );
    ada.wt(&["egg", "log", "nobody"]).code(3);
    ada.json(&["terminal", "--name", "outer", "--unsandboxed", "--", "true"]);
    let report = ada.json(&["egg", "log", "outer"]);
    assert!(
        report["notes"][0]
            .as_str()
            .unwrap()
            .contains("not sandboxed")
    );
}

//! `wt egg explain`, `check` and `init`, and how faults are told.

use std::fs;

use serde_json::Value;
use wt_tests::Profile;

use crate::User;

/// The keys that programs rely on, in the order in which they stand.
const KEYS: [&str; 12] = [
    "version",
    "agent",
    "config_source",
    "tier",
    "network",
    "mounts",
    "deny",
    "deny_write",
    "drilled",
    "derived",
    "suppressed",
    "trusted",
];

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect()
}

#[test]
fn the_explanation_has_its_promised_form_for_an_agent_that_is_not_installed() {
    let ada = User::new();

    let run = ada.wt(&["egg", "explain", "claude", "--json"]).ok();
    let text = run.out();
    let places: Vec<usize> = KEYS
        .iter()
        .map(|key| {
            text.find(&format!("\"{key}\":"))
                .unwrap_or_else(|| panic!("no {key}"))
        })
        .collect();
    let document = run.json();

    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(document["agent"], "claude");
    assert_eq!(document["config_source"], "built-in default");
    assert_eq!(document["tier"], "namespace");
    assert_eq!(document["trusted"], true);
    let network = document["network"].as_object().unwrap();
    let keys: Vec<&String> = network.keys().collect();
    assert_eq!(keys, ["domains", "local_ports", "mode", "need"]);
    assert_eq!(network["need"], "hosts");
    assert_eq!(network["mode"], "enforce");
    assert!(texts(&network["domains"]).contains(&"*.anthropic.com"));
    let mounts = document["mounts"].as_array().unwrap();
    let project = ada.project().display().to_string();
    assert!(
        mounts
            .iter()
            .any(|m| m["path"] == project && m["mode"] == "rw")
    );
    assert!(texts(&document["deny"]).contains(&ada.at_home(".ssh").as_str()));
    assert!(texts(&document["deny_write"]).contains(&ada.at("egg.yaml").as_str()));
    let drilled = document["drilled"].as_array().unwrap();
    assert!(
        drilled
            .iter()
            .any(|d| d["agent"] == "claude" && d["kind"] == "domain")
    );
    assert!(!texts(&document["not_protected"]).is_empty());
    let features = document["enforces"].as_array().unwrap();
    assert!(
        features
            .iter()
            .any(|f| f["name"] == "namespaces" && f["state"] == "works")
    );
    ada.wt(&["egg", "explain", "clod"]).code(3);
}

#[test]
fn the_words_stand_in_for_the_json() {
    let ada = User::new();

    let text = ada.wt(&["egg", "explain", "claude"]).ok().out();

    for part in [
        "claude, which is not installed",
        "built-in default",
        "profile of claude",
        "the session works here",
        "not protected against:",
        "namespaces",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    // Options stand before or after, and an agent is no command.
    ada.wt(&["egg", "--json", "explain"]).ok().json();
    ada.wt(&["egg", "claude", "explain"]).code(2);
    ada.wt(&["egg", "--detach", "explain"]).code(2);
}

#[test]
fn what_is_explained_of_a_path_is_what_a_session_finds_there() {
    let ada = User::new();
    ada.write_home(".ssh/id", "key");
    ada.write_home("notes", "note");
    ada.write(".git/hooks/pre-commit", "#!/bin/sh");
    ada.write("source", "text");
    std::os::unix::fs::symlink(ada.at_home(".ssh/id"), ada.project().join("link")).unwrap();
    let paths = [
        (ada.at("source"), "writable", "rw"),
        (ada.at("link"), "hidden", "--"),
        (ada.at(".git/hooks/pre-commit"), "read_only", "r-"),
        (ada.at_home("notes"), "read_only", "r-"),
        (ada.at_home(".ssh/id"), "hidden", "--"),
        ("/etc/passwd".to_owned(), "read_only", "r-"),
        (
            ada.profile.dir().join("wing.yaml").display().to_string(),
            "own",
            "--",
        ),
    ];
    for (path, finds, can) in paths {
        let why = ada.json(&["egg", "explain", "--why", &path])["why"].clone();
        let script = format!(
            "r=-; w=-; head -c1 '{path}' >/dev/null 2>&1 && r=r; \
             (: >>'{path}') 2>/dev/null && w=w; echo \"=$r$w=\""
        );
        let (output, _) = ada.script(&script);

        assert_eq!(why["finds"], finds, "{path}: {why}");
        assert!(output.contains(&format!("={can}=")), "{path}: {output}");
    }
    let text = ada.wt(&["egg", "explain", "--why", "~/.ssh/id"]).ok().out();
    assert!(
        text.contains("is hidden") && text.contains("keys for other machines"),
        "{text}"
    );
}

#[test]
fn what_is_explained_of_a_host_is_decided_by_the_rules() {
    let ada = User::new();
    ada.write_rules(
        "network:\n  domains: [example.com, \"*.dev.test:8443\"]\n  local_ports: [5432]\n",
    );
    let allowed = |host: &str| {
        let why = ada.json(&["egg", "explain", "--why", host])["why"].clone();
        (
            why["allowed"].as_bool().unwrap(),
            why["hint"].as_str().map(str::to_owned),
        )
    };

    assert_eq!(allowed("example.com"), (true, None));
    assert_eq!(allowed("a.dev.test:8443"), (true, None));
    assert_eq!(allowed("localhost:5432"), (true, None));
    let (is_allowed, hint) = allowed("example.com:80");
    assert!(!is_allowed && hint.unwrap().contains("example.com:80"));
    let (is_allowed, hint) = allowed("registry.npmjs.org");
    assert!(!is_allowed && hint.unwrap().contains("registry.npmjs.org"));
    assert!(!allowed("localhost:5433").0);
    assert_eq!(allowed("169.254.169.254"), (false, None));
    ada.wt(&["egg", "explain", "--why", "no host"]).code(2);
}

#[test]
fn a_fault_is_told_with_its_place_and_starts_nothing() {
    let ada = User::new();
    ada.write(
        "egg.yaml",
        "network:\n  domains:\n    - example.com\n  bogus: 1\n",
    );
    let place = format!("{}:4:", ada.at("egg.yaml"));

    for args in [
        vec!["egg", "explain"],
        vec!["egg", "check", "egg.yaml"],
        vec!["egg", "trust", "--yes"],
        vec!["terminal", "--", "true"],
    ] {
        let mut args = args;
        args.insert(1, "--json");
        let error = ada.wt(&args).code(1).json_error();
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(&place) && message.contains("bogus"),
            "{message}"
        );
    }
    assert!(ada.profile.sessions().is_empty());

    ada.write(
        "egg.yaml",
        "network:\n  domains:\n    - example.com\nfs: [\"deny:./x\"]\n",
    );
    let checked = ada.json(&["egg", "check", "egg.yaml"]);
    let effects: Vec<&str> = checked["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["effect"].as_str().unwrap())
        .collect();
    assert_eq!(effects, ["widens", "narrows"]);
    ada.wt(&["egg", "check", "missing.yaml"]).code(1);
    ada.json(&["terminal", "--", "true"]);
}

#[test]
fn variables_are_told_by_name_and_never_by_value() {
    let ada = User::of(
        Profile::new("ada")
            .env("AWS_SECRET_ACCESS_KEY", "needle-one")
            .env("FOO", "needle-two"),
    );
    ada.write_rules("env: [FOO]\n");

    let run = ada.wt(&["egg", "explain", "--json"]).ok();
    let document = run.json();
    let names = texts(&document["env"]);
    let (inside, _) = ada.script("env");

    assert!(names.contains(&"FOO") && !names.contains(&"AWS_SECRET_ACCESS_KEY"));
    assert!(!run.out().contains("needle"), "{run}");
    assert!(inside.contains("FOO=needle-two"), "{inside}");
    assert!(!inside.contains("needle-one"), "{inside}");
}

#[test]
fn a_first_file_fits_the_project_and_replaces_nothing() {
    let ada = User::new();
    ada.write("package.json", "{}");
    ada.write("Cargo.toml", "");

    let printed = ada.wt(&["egg", "init", "--print"]).ok().out();
    assert!(!ada.project().join("egg.yaml").exists());
    let made = ada.json(&["egg", "init"]);
    assert_eq!(made["content"], printed);
    for host in ["registry.npmjs.org", "static.crates.io"] {
        assert!(printed.contains(host), "{printed}");
    }
    ada.wt(&["egg", "check", "egg.yaml"]).ok();

    fs::write(ada.project().join("egg.yaml"), "fs: [\"deny:./x\"]\n").unwrap();
    ada.wt(&["egg", "init"]).code(1);
    let text = fs::read_to_string(ada.project().join("egg.yaml")).unwrap();
    assert_eq!(text, "fs: [\"deny:./x\"]\n");
    ada.wt(&["egg", "init", "--force"]).ok();
    ada.wt(&["egg", "trust", "--yes"]).ok();
    let domains = ada.json(&["egg", "explain"])["network"]["domains"].clone();
    assert!(texts(&domains).contains(&"registry.npmjs.org"));
}

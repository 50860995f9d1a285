//! `wt doctor` tells what works and what does not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use wt_tests::{Profile, World};

use crate::{AGENTS, SYSTEM_PATH, stand_ins, user};

fn of<'a>(report: &'a Value, list: &str, name: &str) -> &'a Value {
    report[list]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {report}"))
}

#[test]
fn installed_agents_are_listed_with_their_versions() {
    let report = user().wt_json(&["doctor"]);
    let none = Profile::new("bare")
        .env("PATH", SYSTEM_PATH)
        .wt_json(&["doctor"]);

    let versions = [
        ("claude", "2.1.5"),
        ("codex", "0.46.0"),
        ("cursor", "2025.09.18-7ae6800"),
        ("gemini", "0.9.0"),
        ("ollama", "0.5.7"),
        ("opencode", "1.0.15"),
    ];
    for ((agent, program), (_, version)) in AGENTS.into_iter().zip(versions) {
        let found = of(&report, "agents", agent);
        assert_eq!(found["installed"], true, "{found}");
        assert_eq!(found["version"], version);
        assert!(
            found["path"].as_str().unwrap().ends_with(program),
            "{found}"
        );
        let missing = of(&none, "agents", agent);
        assert_eq!(missing["installed"], false);
        assert!(missing["path"].is_null() && missing["install"].is_string());
    }
    for ability in ["user_namespaces", "landlock", "cgroup_v2", "seccomp"] {
        let ability = &report["host"][ability];
        assert!(ability["available"].is_boolean() || ability["available"].is_null());
        assert!(ability["detail"].is_string(), "{ability}");
    }
}

#[test]
fn what_stops_the_program_ends_with_1_and_the_rest_is_told() {
    let ada = Profile::new("ada");
    ada.wt(&["terminal", "--detach", "--", "true"]).ok();
    assert_eq!(
        of(&ada.wt_json(&["doctor"]), "checks", "pins")["status"],
        "ok"
    );

    fs::set_permissions(ada.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let report = ada.wt_json(&["doctor"]);
    assert_eq!(of(&report, "checks", "profile")["status"], "warning");
    assert_eq!(report["status"], "warning");

    fs::write(ada.dir().join("known_wings.json"), "}{").unwrap();
    let report = ada.wt(&["doctor", "--json"]).code(1).json();
    let pins = of(&report, "checks", "pins");
    assert_eq!(pins["status"], "failed");
    assert!(
        pins["message"]
            .as_str()
            .unwrap()
            .contains("known_wings.json")
    );
    assert!(ada.wt(&["doctor"]).code(1).out().contains("FAILED"));
}

#[test]
fn the_daemons_own_view_is_shown() {
    let world = World::roost();
    let folder = stand_ins(&world.ada.home());
    let profile = format!("PATH=\"{}:$PATH\"\nexport PATH\n", folder.display());
    fs::write(world.ada.home().join(".profile"), profile).unwrap();

    let report = world.ada.wt_json(&["doctor"]);

    let codex = of(&report, "agents", "codex");
    assert_eq!(codex["installed"], false, "{codex}");
    assert!(
        codex["daemon_path"]
            .as_str()
            .unwrap()
            .ends_with("agents/codex"),
        "{codex}"
    );
    assert_eq!(of(&report, "checks", "daemon")["status"], "ok");
}

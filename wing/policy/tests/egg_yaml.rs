//! What an `egg.yaml` may look like, and what is said of one that does not.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use wt_policy::{
    AgentDomainsWord, Base, EggConfig, EnvEntry, EnvField, FileAccess, HostEntry, Mask, ModeWord,
    NetworkField,
};

fn read(text: &str) -> EggConfig {
    EggConfig::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Reads a file and writes it again: the same text comes out.
#[track_caller]
fn stays(text: &str) {
    let config = read(text);
    assert_eq!(config.to_yaml(), text);
    assert_eq!(read(&config.to_yaml()), config);
}

#[track_caller]
fn refused(text: &str, start: &str) {
    let said = EggConfig::parse(text).unwrap_err().to_string();
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn every_form_is_written_again_as_it_was_read() {
    for text in [
        "",
        "base: none\n",
        "base: strict\n",
        "base: ../shared/egg.yaml\n",
        "base:\n  name: strict\n  fs: none\n  network: ./net.yaml\n  env: other\n",
        "base: {}\n",
        "fs: []\n",
        "fs:\n  - rw:./\n  - ro:~/data\n  - deny:/etc/passwd\n  - deny-write:$CWD/x\n  - \"deny:~/.x*\"\n",
        "network: none\n",
        "network: \"*\"\n",
        "network: example.com\n",
        "network: []\n",
        "network:\n  - \"*.example.com\"\n  - example.com:8443\n  - localhost:11434\n  - 127.0.0.1\n",
        "network: {}\n",
        "network:\n  domains:\n    - example.com\n  local_ports: [3000, 5432]\n  mode: observe\n  log: true\n  agent_domains: none\n",
        "network:\n  domains: []\n  mode: \"\"\n",
        "env: \"*\"\n",
        "env: HOME\n",
        "env:\n  - \"*\"\n  - GH_TOKEN\n",
        "resources:\n  cpu: 300s\n  memory: 2GB\n  max_fds: 4096\n  max_pids: 256\n",
        "shell: /bin/zsh\ndangerously_skip_permissions: true\naudit: false\ntrace: true\n",
        "agent_settings:\n  claude: \"~/claude.json\"\n",
    ] {
        stays(text);
    }
}

#[test]
fn values_are_understood() {
    let config = read(
        "\
base: {name: strict, network: none}
fs: [./src, 'deny:~/.x', \"/a:b\"]
network:
  domains: [a.example, '*', 'localhost:80']
  local_ports: [5432]
  mode: enforce
  agent_domains: merge
env: [A, '*']
resources: {cpu: 1h30m, memory: 1GB}
",
    );

    let Some(Base::Masked {
        name, fs, network, ..
    }) = config.base.map(|base| base.value)
    else {
        panic!("no masks");
    };
    assert_eq!(name.unwrap().as_str(), "strict");
    assert_eq!((fs, network), (None, Some(Mask::Nothing)));
    let rules: Vec<_> = config.fs.unwrap();
    assert_eq!(rules[0].value.access, FileAccess::Rw);
    assert_eq!(rules[1].value.access, FileAccess::Deny);
    assert_eq!(rules[2].value.path, "/a:b");
    assert_eq!(rules[2].line, Some(2));
    let network = config.network.unwrap();
    assert_eq!(network.hosts()[1].value, HostEntry::Any);
    assert_eq!(network.hosts()[0].line, Some(4));
    assert!(matches!(
        network.hosts()[2].value,
        HostEntry::Loopback { port: Some(_), .. }
    ));
    let map = network.map().unwrap();
    assert_eq!(map.mode.as_ref().unwrap().value, ModeWord::Enforce);
    assert_eq!(
        map.agent_domains.as_ref().unwrap().value,
        AgentDomainsWord::Merge
    );
    assert_eq!(config.env.unwrap().entries()[1].value, EnvEntry::All);
    assert_eq!(
        config.resources.cpu.unwrap().value.0,
        Duration::from_secs(5400)
    );
    assert_eq!(config.resources.memory.unwrap().value.0, 1 << 30);
}

#[test]
fn what_is_empty_says_nothing() {
    let config = read(
        "base: ''\nfs:\nnetwork:\nenv: ''\nshell: ''\n\
         resources: {cpu: '', memory: '', max_fds: 0, max_pids: 0}\n",
    );
    assert_eq!(config.base, None);
    assert_eq!(config.env, None);
    assert_eq!(config.shell, None);
    assert_eq!(config.resources, EggConfig::default().resources);
    assert_eq!(read("# only a comment\n"), EggConfig::default());
    assert!(matches!(
        read("network: ''\n").network,
        Some(NetworkField::Scalar(entry)) if entry.value == HostEntry::Nothing
    ));
    assert!(matches!(read("env: A\n").env, Some(EnvField::Scalar(_))));
}

#[test]
fn a_fault_is_said_with_its_line_column_key_and_what_was_expected() {
    for (text, start) in [
        (
            "netwrok: none\n",
            "line 1, column 1: netwrok: unknown key; expected one of base, fs",
        ),
        ("unix: private\n", "line 1, column 1: unix: unknown key"),
        (
            "network:\n  domain: [a.example]\n",
            "line 2, column 3: network.domain: unknown key",
        ),
        (
            "base:\n  net: none\n",
            "line 2, column 3: base.net: unknown key",
        ),
        (
            "resources:\n  mem: 2GB\n",
            "line 2, column 3: resources.mem: unknown key",
        ),
        (
            "audit: true\naudit: false\n",
            "line 2, column 1: audit: duplicate mapping key",
        ),
        (
            "network:\n  mode: enforce\n  mode: observe\n",
            "line 3, column 3: network.mode: duplicate",
        ),
        ("fs: rw:./\n", "line 1, column 5: fs: expected a list"),
        (
            "fs:\n  - read:./\n",
            "line 2, column 5: fs: unknown mode \"read\"; expected rw, ro, deny or",
        ),
        (
            "fs:\n  - rw:src\n",
            "line 2, column 5: fs: found \"src\"; expected a path that starts with",
        ),
        (
            "fs:\n  - rw:~bob/x\n",
            "line 2, column 5: fs: found \"~bob/x\"; expected a path",
        ),
        (
            "fs:\n  - rw:./../x\n",
            "line 2, column 5: fs: \"./../x\" leads upwards",
        ),
        (
            "fs:\n  - deny:/a/**\n",
            "line 2, column 5: fs: \"/a/**\" has * in the middle",
        ),
        (
            "fs:\n  - deny:/*/a\n",
            "line 2, column 5: fs: \"/*/a\" has * in the middle",
        ),
        ("fs:\n  - rw: ./\n", "line 2, column 5: fs"),
        (
            "network: https://a.example\n",
            "line 1, column 10: network: \"https://a.example\" is not a rule",
        ),
        (
            "network:\n  - '*.com'\n",
            "line 2, column 5: network: \"*.com\" is not a rule",
        ),
        (
            "network: [none]\n",
            "line 1, column 11: network: found \"none\" in a list",
        ),
        (
            "network:\n  domains:\n    - a.example:0\n",
            "line 3, column 7: network.domains: ",
        ),
        (
            "network:\n  local_ports: [0]\n",
            "line 2, column 17: network.local_ports: ",
        ),
        (
            "network:\n  local_ports: [99999]\n",
            "line 2, column 17: network.local_ports: ",
        ),
        (
            "network:\n  mode: watch\n",
            "line 2, column 9: network.mode: unknown value \"watch\"; expected enforce or observe",
        ),
        (
            "network:\n  agent_domains: all\n",
            "line 2, column 18: network.agent_domains: unknown value",
        ),
        (
            "env: [AWS_*]\n",
            "line 1, column 7: env: \"AWS_*\" is not the name of a variable",
        ),
        (
            "env: WT_TOKEN\n",
            "line 1, column 6: env: \"WT_TOKEN\" is not the name",
        ),
        ("env: {A: b}\n", "line 1, column 6: env"),
        ("base: [a]\n", "line 1, column 7: base: found a list"),
        (
            "base: a/b\n",
            "line 1, column 7: base: \"a/b\" names no base",
        ),
        (
            "base:\n  name: none\n  fs: none\n",
            "line 2, column 9: base.name: found none beside fs",
        ),
        (
            "resources:\n  cpu: 300\n",
            "line 2, column 8: resources.cpu: \"300\" is no length of time",
        ),
        (
            "resources:\n  memory: 2XB\n",
            "line 2, column 11: resources.memory: \"2XB\" is no size",
        ),
        (
            "resources:\n  max_fds: -1\n",
            "line 2, column 12: resources.max_fds: expected a whole number",
        ),
        (
            "audit: maybe\n",
            "line 1, column 8: audit: expected true or false",
        ),
        (
            "shell: zsh -i\n",
            "line 1, column 8: shell: \"zsh -i\" is no shell",
        ),
        (
            "agent_settings:\n  claude: x\n",
            "line 2, column 11: agent_settings.claude: found \"x\"",
        ),
        ("fs: [rw:./\n", "line 1"),
        ("- a\n", "line 1"),
    ] {
        refused(text, start);
    }
}

#[test]
fn a_file_has_bounds() {
    let many = |count: usize| format!("fs:\n{}", "  - ./a\n".repeat(count));
    assert!(EggConfig::parse(&many(wt_policy::MAX_LIST)).is_ok());
    refused(
        &many(wt_policy::MAX_LIST + 1),
        "line 514, column 5: fs: expected at most 512 entries",
    );
    assert!(EggConfig::parse(&format!("#{}", "x".repeat(wt_policy::MAX_YAML_BYTES))).is_err());
}

mod property {
    use proptest::prelude::*;
    use wt_policy::EggConfig;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_good_order(
            text in "((base|fs|network|env|audit|resources|cpu|mode|domains|x)?:? ?(- )?[ \\n\"\\[\\]{}*&!~a-z./:0-9$]{0,12}\n?){0,8}"
        ) {
            if let Ok(config) = EggConfig::parse(&text) {
                let written = config.to_yaml();
                let again = EggConfig::parse(&written);
                prop_assert_eq!(again, Ok(config), "{}", written);
            }
        }
    }
}

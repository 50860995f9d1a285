//! Layers put together: defaults, bases, trust, agents, variables.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{CWD, HOME, PROFILE, World, access, domains, ports, reaches, suppressed};
use wt_policy::{
    Effect, EggConfig, FileAccess, Located, NetworkMode, NetworkNeed, OptionLayer, Source,
};

use FileAccess::{Deny, DenyWrite, Ro, Rw};

fn home(path: &str) -> String {
    format!("{HOME}/{path}")
}

fn cwd(path: &str) -> String {
    format!("{CWD}/{path}")
}

#[test]
fn the_default_reads_the_machine_writes_the_project_and_keeps_secrets() {
    let policy = World::new().resolve();

    for (path, expected) in [
        ("/etc/hosts".to_owned(), Ro),
        (home("notes"), Ro),
        (cwd("src/main.rs"), Rw),
        (home(".cache/pip/x"), Rw),
        (home(".cargo/registry/cache"), Rw),
        (home(".cargo/bin/tool"), Ro),
        (home(".npm/_cacache"), Rw),
        (home("go/pkg/mod/cache/x"), Rw),
        (home(".ssh/id_ed25519"), Deny),
        (home(".ssh/known_hosts"), Ro),
        (home(".gnupg"), Deny),
        (home(".aws/credentials"), Deny),
        (home(".docker/config.json"), Deny),
        (home(".kube/config"), Deny),
        (home(".netrc"), Deny),
        (home(".bash_history"), Deny),
        (home(".zsh_history"), Deny),
        (home(".config/gh/hosts.yml"), Deny),
        (home(".config/gcloud"), Deny),
        (home(".npmrc"), Deny),
        (home(".pypirc"), Deny),
        (home(".cargo/credentials.toml"), Deny),
        (home(".wingthing/eggs/1"), Deny),
        (home(".wingthing-other/key"), Deny),
        (cwd("egg.yaml"), DenyWrite),
        (cwd(".git/hooks/pre-commit"), DenyWrite),
        (cwd(".git/config"), DenyWrite),
        (cwd(".git/index"), Rw),
        (cwd(".claude/settings.local.json"), DenyWrite),
        (cwd(".vscode/tasks.json"), DenyWrite),
        ("relative".to_owned(), Deny),
        ("/a/../b".to_owned(), Deny),
    ] {
        assert_eq!(access(&policy, &path), expected, "{path}");
    }
    assert_eq!(policy.network.need, NetworkNeed::None);
    assert_eq!(policy.config_source, Source::Default);
    assert!(policy.trusted);
}

#[test]
fn the_default_policy_is_as_it_was_reviewed() {
    insta::assert_json_snapshot!(World::new().resolve().explain("full"));
}

#[test]
fn an_explanation_has_its_keys_and_no_others() {
    let text = serde_json::to_string(&World::new().agent("claude").explain("full")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    let mut expected = vec![
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
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert!(text.starts_with("{\"version\":1,\"agent\":\"claude\",\"config_source\":"));
    let network: Vec<&String> = value["network"].as_object().unwrap().keys().collect();
    assert_eq!(network, ["domains", "local_ports", "mode", "need"]);
}

#[test]
fn a_policy_survives_being_written_down() {
    let policy = World::new()
        .user("network: ['*.example.com', '10.0.0.0/8:5432']\n")
        .agent("claude");
    let text = serde_json::to_string(&policy).unwrap();
    assert_eq!(
        serde_json::from_str::<wt_policy::EffectivePolicy>(&text).unwrap(),
        policy
    );
}

#[test]
fn a_users_file_adds_to_the_default() {
    let policy = World::new()
        .user("fs: ['rw:~/data', 'deny:~/private', 'ro:~/.aws']\nnetwork: [a.example]\n")
        .resolve();

    assert_eq!(access(&policy, &home("data/x")), Rw);
    assert_eq!(access(&policy, &home("private/x")), Deny);
    assert_eq!(access(&policy, &home(".aws/config")), Ro);
    assert_eq!(access(&policy, &home(".kube")), Deny);
    assert_eq!(access(&policy, &cwd("x")), Rw);
    assert!(reaches(&policy.network, "a.example"));
    let path = format!("{PROFILE}/egg.yaml");
    let rule = policy.access(&home("data")).1.unwrap();
    assert_eq!(
        rule.source,
        Source::User {
            path,
            line: Some(1)
        }
    );
}

#[test]
fn a_trusted_project_adds_to_the_user() {
    let world = World::new()
        .user("network: [a.example]\nenv: [A]\nresources: {max_fds: 100, max_pids: 10}\naudit: true\n")
        .project(
            "network: [b.example]\nenv: [B]\nresources: {max_fds: 200}\naudit: false\n\
             dangerously_skip_permissions: true\nshell: fish\nagent_settings: {claude: ./s.json}\n",
        );

    let policy = world.clone().trusted().resolve();
    assert_eq!(domains(&policy), ["a.example", "b.example"]);
    assert_eq!(policy.env.pass.len(), 2);
    assert_eq!(policy.resources.max_fds, Some(200));
    assert_eq!(policy.resources.max_pids, Some(10));
    assert!(policy.audit && policy.skip_permissions && policy.trusted);
    assert_eq!(policy.shell.as_deref(), Some("fish"));
    assert_eq!(policy.agent_settings["claude"], cwd("s.json"));

    let policy = world.resolve();
    assert_eq!(domains(&policy), ["a.example"]);
    assert_eq!(policy.env.pass.len(), 1);
    assert_eq!(policy.resources.max_fds, Some(100));
    assert!(policy.audit && !policy.skip_permissions && !policy.trusted);
    assert_eq!(policy.shell, None);
    let mut left_out = suppressed(&policy);
    left_out.sort();
    assert_eq!(
        left_out,
        [
            "agent_settings claude: /home/ada/work/proj/s.json",
            "domain b.example",
            "env B",
            "resource max_fds: 200",
            "shell fish",
            "skip_permissions true",
        ]
    );
}

#[test]
fn an_untrusted_project_narrows_files_limits_and_mode() {
    let policy = World::new()
        .user("network: {domains: ['*.a.example', b.example], mode: observe}\nresources: {max_fds: 100}\n")
        .project(
            "base: {network: none}\nfs: ['deny:./secret', 'ro:./vendor', 'deny-write:./Makefile', 'rw:~/data', 'ro:~/.ssh']\n\
             network: {domains: [x.a.example, c.example], mode: enforce}\n\
             resources: {max_fds: 50, memory: 1GB}\naudit: true\n",
        )
        .resolve();

    assert_eq!(access(&policy, &cwd("secret/x")), Deny);
    assert_eq!(access(&policy, &cwd("vendor/x")), Ro);
    assert_eq!(access(&policy, &cwd("Makefile")), DenyWrite);
    assert_eq!(access(&policy, &cwd("x")), Rw);
    assert_eq!(access(&policy, &home("data")), Ro);
    assert_eq!(access(&policy, &home(".ssh/id")), Deny);
    assert_eq!(domains(&policy), ["x.a.example"]);
    assert_eq!(policy.network.mode, NetworkMode::Enforce);
    assert_eq!(policy.resources.max_fds, Some(50));
    assert_eq!(policy.resources.memory, Some(1 << 30));
    assert!(policy.audit);
    assert_eq!(
        suppressed(&policy),
        ["rw /home/ada/data", "ro /home/ada/.ssh", "domain c.example"]
    );
}

#[test]
fn an_untrusted_empty_slate_keeps_every_denial() {
    let world = World::new()
        .user("fs: ['deny:~/private']\nnetwork: [a.example]\n")
        .project("base: none\nfs: ['rw:./']\n");

    let policy = world.resolve();
    assert_eq!(access(&policy, &home("private")), Deny);
    assert_eq!(access(&policy, &home(".ssh/id")), Deny);
    assert_eq!(access(&policy, &cwd("x")), Rw);
    assert_eq!(access(&policy, &home(".cache")), Ro);
    assert_eq!(policy.network.need, NetworkNeed::None);
    assert!(suppressed(&policy).contains(&"base none".to_owned()));

    let policy = world.trusted().resolve();
    assert_eq!(access(&policy, &home("private")), Ro);
    assert_eq!(access(&policy, &home(".ssh/id")), Ro);
    assert_eq!(access(&policy, PROFILE), Deny);
    assert_eq!(access(&policy, &cwd("egg.yaml")), DenyWrite);
    assert_eq!(access(&policy, &cwd(".git/hooks/x")), DenyWrite);
}

#[test]
fn an_untrusted_project_cannot_choose_to_observe_or_lift_protection_or_take_keys() {
    let world = World::new()
        .var("SSH_AUTH_SOCK", "/tmp/ssh-1/agent.2")
        .project("fs: ['rw:./.git/hooks']\nnetwork: {mode: observe, local_ports: [80]}\nenv: [SSH_AUTH_SOCK, '*']\n");

    let policy = world.resolve();
    assert_eq!(access(&policy, &cwd(".git/hooks/x")), DenyWrite);
    assert_eq!(access(&policy, "/tmp/ssh-1/agent.2"), Deny);
    assert_eq!(policy.network.mode, NetworkMode::Enforce);
    assert!(!policy.env.all);
    assert_eq!(ports(&policy), [0_u16; 0]);

    let policy = world.trusted().resolve();
    assert_eq!(access(&policy, &cwd(".git/hooks/x")), Rw);
    assert_eq!(access(&policy, &cwd(".git/config")), DenyWrite);
    assert_eq!(access(&policy, "/tmp/ssh-1/agent.2"), Rw);
    assert_eq!(policy.network.mode, NetworkMode::Observe);
    assert_eq!(ports(&policy), [80]);
}

#[test]
fn nothing_opens_wingthings_own_files() {
    let rules = [
        "rw:~/.wingthing/eggs",
        "rw:./egg.yaml",
        "ro:~/.wingthing2/x",
        "rw:~",
        "rw:/",
        "rw:~/.wingthing",
    ];
    let world = World::new().option(OptionLayer::files("--fs", &rules.map(str::to_owned)).unwrap());

    let policy = world.resolve();
    for path in [
        home(".wingthing/eggs/x"),
        home(".wingthing2/x/y"),
        PROFILE.to_owned(),
    ] {
        assert_eq!(access(&policy, &path), Deny, "{path}");
    }
    assert_eq!(access(&policy, &cwd("egg.yaml")), DenyWrite);
    assert_eq!(access(&policy, &home(".bashrc")), Ro);
    assert_eq!(policy.suppressed.len(), 7, "{:?}", policy.suppressed);
}

#[test]
fn a_profile_inside_the_project_is_denied_and_the_project_is_read() {
    let mut world = World::new();
    world.places.profile = cwd(".wt");
    let policy = world.resolve();

    assert_eq!(access(&policy, &cwd(".wt/keys")), Deny);
    assert_eq!(access(&policy, &cwd("x")), Ro);
    assert_eq!(suppressed(&policy), [format!("rw {CWD}")]);
}

#[test]
fn an_unsafe_directory_stays_read_only() {
    for cwd in ["/", HOME, "/home", "/etc"] {
        let policy = World::new().cwd(cwd).resolve();
        assert_eq!(
            access(&policy, &format!("{}/x", cwd.trim_end_matches('/'))),
            Ro,
            "{cwd}"
        );
        assert!(policy.suppressed[0].reason.contains("--cwd"), "{cwd}");
    }
    assert_eq!(
        access(&World::new().cwd("/tmp/x").resolve(), "/tmp/x/y"),
        Rw
    );
    assert!(suppressed(&World::new().cwd("/tmp").resolve()).contains(&"rw /tmp".to_owned()));
}

#[test]
fn what_is_around_protected_files_may_be_opened_and_they_stay() {
    let policy = World::new()
        .user("fs: ['rw:~/.config', 'rw:~/other']\n")
        .resolve();

    assert_eq!(access(&policy, &home(".config/x")), Rw);
    assert_eq!(access(&policy, &home(".config/autostart/x")), DenyWrite);
    assert_eq!(
        access(&policy, &home(".config/fish/config.fish")),
        DenyWrite
    );
    assert_eq!(access(&policy, &home(".config/gh")), Deny);
    assert_eq!(access(&policy, &home("other/.git/hooks")), DenyWrite);
    assert_eq!(access(&policy, &home("other/egg.yaml")), DenyWrite);
}

#[test]
fn a_denied_root_keeps_what_programs_need() {
    let policy = World::new()
        .user("fs: ['deny:/', 'deny:~']\n")
        .agent("claude");

    assert_eq!(access(&policy, "/usr/bin/env"), Ro);
    assert_eq!(access(&policy, "/srv/x"), Deny);
    assert_eq!(access(&policy, &home("x")), Deny);
    assert_eq!(access(&policy, &cwd("x")), Rw);
    assert_eq!(access(&policy, &home(".claude/x")), Rw);
    assert!(policy.derived.iter().any(|note| note.value == "/usr"));
}

#[test]
fn bases_are_found_by_name_and_by_path() {
    let world = World::new()
        .base("strict", "fs: ['deny:~/a']\nnetwork: [s.example]\n")
        .file(
            "/home/ada/work/shared.yaml",
            "base: strict\nfs: ['deny:~/b']\n",
        )
        .user("network: [u.example]\n")
        .project("base: ../shared.yaml\nnetwork: [p.example]\n")
        .trusted();

    let policy = world.resolve();
    assert_eq!(access(&policy, &home("a")), Deny);
    assert_eq!(access(&policy, &home("b")), Deny);
    assert_eq!(access(&policy, &cwd("x")), Rw);
    assert_eq!(domains(&policy), ["s.example", "p.example"]);
    let layers = world.load().unwrap();
    let files: Vec<&str> = layers
        .project_files(&world.places)
        .iter()
        .map(|(path, _)| *path)
        .collect();
    assert_eq!(
        files,
        [cwd("egg.yaml").as_str(), "/home/ada/work/shared.yaml"]
    );
}

#[test]
fn masks_replace_sections_alone() {
    let policy = World::new()
        .base("a", "fs: ['deny:~/a']\nnetwork: [a.example]\nenv: [A]\n")
        .base(
            "b",
            "fs: ['deny:~/b']\nnetwork: [b.example]\nenv: [B]\nresources: {max_fds: 5}\n",
        )
        .user("base: {name: a, network: b, env: none}\n")
        .resolve();

    assert_eq!(access(&policy, &home("a")), Deny);
    assert_eq!(access(&policy, &home("b")), Ro);
    assert_eq!(domains(&policy), ["b.example"]);
    assert_eq!(policy.env.pass, []);
    assert_eq!(policy.resources.max_fds, None);
}

#[test]
fn a_chain_of_bases_has_bounds() {
    let say = |world: World| world.load().unwrap_err().to_string();
    let circle = World::new()
        .base("a", "base: b\n")
        .base("b", "\nbase: a\n")
        .user("base: a\n");
    assert!(
        say(circle).starts_with(
            "/home/ada/.wingthing/bases/b.yaml: line 2: base: the bases go in a circle"
        )
    );
    let missing = World::new().user("fs: []\nbase: nowhere\n");
    assert!(say(missing).starts_with(
        "/home/ada/.wingthing/egg.yaml: line 2: base: there is no /home/ada/.wingthing/bases/nowhere.yaml"
    ));
    let chain = |length: usize| {
        (1..length)
            .fold(World::new().user("base: n1\n"), |world, n| {
                world.base(&format!("n{n}"), &format!("base: n{}\n", n + 1))
            })
            .base(&format!("n{length}"), "audit: true\n")
    };
    assert!(chain(wt_policy::MAX_DEPTH).resolve().audit);
    assert!(say(chain(wt_policy::MAX_DEPTH + 1)).contains("longer than 10"));
    let tree = (0..8).fold(
        World::new().user("base: {name: m0, fs: m0, env: m0}\n"),
        |world, n| {
            world.base(
                &format!("m{n}"),
                &format!("base: {{name: m{0}, fs: m{0}, env: m{0}}}\n", n + 1),
            )
        },
    );
    assert!(say(tree.base("m8", "")).contains("over 32 files"));
}

#[test]
fn a_fault_in_any_layer_stops() {
    let fault = "fs: []\nfoo: 1\n";
    let user = World::new().user(fault).project("audit: true\n");
    assert!(
        user.load()
            .unwrap_err()
            .to_string()
            .starts_with("/home/ada/.wingthing/egg.yaml: line 2, column 1: foo")
    );
    let project = World::new().project(fault);
    assert!(
        project
            .load()
            .unwrap_err()
            .to_string()
            .starts_with("/home/ada/work/proj/egg.yaml: line 2")
    );
    let mut named = World::new();
    named.named = Some("/x.yaml".to_owned());
    assert!(
        named
            .load()
            .unwrap_err()
            .to_string()
            .starts_with("/x.yaml: there is no such file")
    );
    let unreadable = |_: &str| Err("permission denied".to_owned());
    assert!(wt_policy::load(&unreadable, &named.places, None).is_err());
}

#[test]
fn a_file_in_a_parent_folder_is_not_found_and_a_named_one_takes_the_users_place() {
    let world = World::new()
        .file("/home/ada/work/egg.yaml", "foo: 1\n")
        .user("network: [u.example]\n");
    assert_eq!(domains(&world.resolve()), ["u.example"]);

    let mut world = world
        .file("/x.yaml", "network: [n.example]\n")
        .project("env: [A]\n");
    world.named = Some("/x.yaml".to_owned());
    assert_eq!(domains(&world.resolve()), ["n.example"]);
    // The project's file, named on the command line, is its user's word.
    world.named = Some(cwd("egg.yaml"));
    let policy = world.resolve();
    assert_eq!(policy.env.pass.len(), 1);
    assert!(matches!(policy.config_source, Source::Named { .. }));
}

#[test]
fn an_agents_profile_is_drilled_with_its_name_and_reason() {
    let policy = World::new().agent("claude");

    assert_eq!(access(&policy, &home(".claude/x")), Rw);
    assert_eq!(access(&policy, &home(".claude.json.lock")), Rw);
    assert_eq!(access(&policy, &home(".claude-other")), Ro);
    assert!(reaches(&policy.network, "api.anthropic.com"));
    assert!(!reaches(&policy.network, "api.anthropic.com:22"));
    let agent = Source::Agent {
        name: "claude".to_owned(),
    };
    assert!(
        policy
            .drilled
            .iter()
            .all(|hole| hole.source == agent && !hole.reason.is_empty())
    );
    for kind in ["rw", "env", "domain"] {
        assert!(
            policy.drilled.iter().any(|hole| hole.kind == kind),
            "{kind}"
        );
    }

    let unknown = World::new().agent("nobody");
    assert_eq!(unknown.agent.as_deref(), Some("nobody"));
    assert_eq!(
        (unknown.drilled.len(), unknown.network.need),
        (0, NetworkNeed::None)
    );
    assert_eq!(ports(&World::new().agent("ollama")), [11434]);
}

#[test]
fn an_agents_hole_gives_way_to_what_a_file_denies() {
    let policy = World::new()
        .user("fs: ['deny:~/.claude', 'ro:~/.cache/claude']\n")
        .agent("claude");
    assert_eq!(access(&policy, &home(".claude/x")), Deny);
    assert_eq!(access(&policy, &home(".cache/claude")), Ro);
    assert_eq!(
        suppressed(&policy),
        ["rw /home/ada/.claude", "rw /home/ada/.cache/claude"]
    );

    let policy = World::new()
        .user("fs: ['deny:~/.config']\n")
        .agent("cursor");
    assert_eq!(access(&policy, &home(".config/cursor")), Deny);
}

#[test]
fn an_untrusted_jail_does_not_bring_back_a_hole_that_the_user_closed() {
    let world = World::new()
        .user("fs: ['ro:~/.claude']\n")
        .project("base: none\nfs: ['rw:./', 'deny:~']\n");
    assert!(access(&world.agent("claude"), &home(".claude")) >= Ro);
    assert_eq!(
        access(&world.trusted().agent("claude"), &home(".claude")),
        Rw
    );
}

#[test]
fn there_are_only_so_many_writable_folders() {
    let rules = |count: usize| {
        let rules: Vec<String> = (0..count).map(|n| format!("'rw:/srv/{n}'")).collect();
        format!("fs: [{}]\n", rules.join(", "))
    };
    let of_user = |count| World::new().user(&rules(count)).try_resolve(None);
    assert!(of_user(63).is_ok());
    assert!(
        of_user(64)
            .unwrap_err()
            .to_string()
            .contains("over 64 entries for writable folders")
    );
    // What is not applied costs nothing.
    let policy = World::new().project(&rules(500)).resolve();
    assert_eq!(policy.suppressed.len(), 500);
    assert!(policy.files.len() < 500);
}

#[test]
fn an_agents_folder_follows_its_variable_where_that_is_sound() {
    let at = |value: &str| World::new().var("CLAUDE_CONFIG_DIR", value).agent("claude");
    assert_eq!(
        access(&at("/home/ada/.claude-work"), &home(".claude-work/x")),
        Rw
    );
    assert_eq!(
        access(&at("/home/ada/.claude-work"), &home(".claude/x")),
        Ro
    );
    for (value, path) in [
        (HOME, home("x")),
        ("/", "/x".to_owned()),
        ("/home/ada/.ssh/x", home(".ssh/x/y")),
        ("/home/ada/.wingthing/x", home(".wingthing/x")),
        ("/home/ada/../bob", "/home/bob/x".to_owned()),
        ("/home/ada/*", home("x")),
        ("relative", home("relative")),
    ] {
        assert!(access(&at(value), &path) >= Ro, "{value}");
        assert!(!at(value).suppressed.is_empty(), "{value}");
    }
}

#[test]
fn agent_domains_can_be_left_out() {
    let policy = World::new()
        .user("network: {agent_domains: none, domains: [a.example]}\n")
        .agent("claude");
    assert_eq!(domains(&policy), ["a.example"]);
    assert!(suppressed(&policy).contains(&"domain *.anthropic.com".to_owned()));

    // Leaving them out narrows, so an untrusted project may; putting them back may not.
    let narrowed = World::new()
        .project("network: {agent_domains: none}\n")
        .agent("claude");
    assert_eq!(domains(&narrowed), [""; 0]);
    let widened = World::new()
        .user("network: {agent_domains: none}\n")
        .project("network: {agent_domains: merge}\n");
    assert_eq!(domains(&widened.agent("claude")), [""; 0]);
    assert!(!domains(&widened.trusted().agent("claude")).is_empty());
}

#[test]
fn a_provider_takes_the_place_of_the_vendor() {
    for name in ["WT_PROVIDER_BASE_URL", "ANTHROPIC_BASE_URL"] {
        let policy = World::new()
            .var(name, "https://u:p@llm.corp.example:8443/v1")
            .agent("claude");
        assert_eq!(domains(&policy), ["llm.corp.example:8443"]);
        assert!(
            policy
                .derived
                .iter()
                .any(|note| note.kind == "domain" && note.reason.contains(name))
        );
        assert!(suppressed(&policy).contains(&"domain *.anthropic.com".to_owned()));
        assert!(!format!("{policy:?}").contains("u:p"));
    }
    for bad in [
        "llm.example",
        "ftp://x.example",
        "https://",
        "https://a b",
        "https://x.example:99999",
    ] {
        let error = World::new()
            .var("ANTHROPIC_BASE_URL", bad)
            .try_resolve(Some("claude"))
            .unwrap_err();
        assert!(error.to_string().contains("ANTHROPIC_BASE_URL"), "{error}");
    }
}

#[test]
fn a_local_provider_needs_a_word_that_local_servers_are_meant() {
    let world = World::new().var("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000");
    assert!(suppressed(&world.agent("claude")).contains(&"local_port 4000".to_owned()));
    assert_eq!(ports(&world.agent("claude")), [0_u16; 0]);
    for word in [
        "network: localhost\n",
        "network: [127.0.0.1]\n",
        "network: {local_ports: [4000]}\n",
    ] {
        let policy = world.clone().user(word).agent("claude");
        assert_eq!(ports(&policy), [4000], "{word}");
    }
    // A project that nobody trusts cannot give that word.
    assert_eq!(
        ports(&world.project("network: localhost\n").agent("claude")),
        [0_u16; 0]
    );
    let moved = World::new()
        .var("OLLAMA_HOST", "0.0.0.0:9999")
        .agent("ollama");
    assert_eq!(ports(&moved), [11434, 9999]);
    assert_eq!(
        ports(&World::new().user("network: ['localhost:3000']\n").resolve()),
        [3000]
    );
}

#[test]
fn the_agent_for_keys_is_closed_unless_it_is_named() {
    let socket = "/run/user/1000/ssh.sock";
    let world = World::new().var("SSH_AUTH_SOCK", socket);
    let passes = |world: &World| {
        let policy = world.resolve();
        let env = wt_policy::session_env(&policy, &world.env);
        (
            access(&policy, socket),
            env.vars.iter().any(|(name, _)| name == "SSH_AUTH_SOCK"),
        )
    };
    assert_eq!(passes(&world), (Deny, false));
    assert_eq!(passes(&world.clone().user("env: '*'\n")), (Deny, false));
    assert_eq!(
        passes(&world.clone().user("env: SSH_AUTH_SOCK\n")),
        (Rw, true)
    );
    assert_eq!(
        passes(&world.clone().user("env: '*'\nfs: ['ro:~/.ssh']\n")),
        (Rw, true)
    );
    let mut shared = world.user("env: SSH_AUTH_SOCK\n");
    shared.shared = true;
    assert_eq!(passes(&shared), (Deny, false));
}

#[test]
fn secrets_that_variables_point_to_are_denied() {
    let policy = World::new()
        .var("KUBECONFIG", "/srv/a.kube:/srv/b.kube")
        .var("CARGO_HOME", "/srv/cargo")
        .var("HISTFILE", HOME)
        .resolve();
    assert_eq!(access(&policy, "/srv/b.kube"), Deny);
    assert_eq!(access(&policy, "/srv/cargo/credentials.toml"), Deny);
    assert_eq!(access(&policy, "/srv/cargo/registry/x"), Rw);
    assert_eq!(access(&policy, "/srv/cargo/bin"), Ro);
    assert_eq!(access(&policy, &home("x")), Ro);
}

#[test]
fn a_session_gets_the_variables_that_are_listed_or_named() {
    let maker: Vec<(String, String)> = [
        (
            "PATH",
            "/home/ada/work/proj/bin:/usr/bin::rel:/home/ada/.ssh:/usr/bin:/bin",
        ),
        ("HOME", HOME),
        ("LC_ALL", "C"),
        ("LD_PRELOAD", "/x.so"),
        ("NODE_OPTIONS", "--require x"),
        ("GITHUB_TOKEN", "t"),
        ("MINE", "m"),
        ("WT_SESSION_ID", "1"),
        ("CLAUDECODE", "1"),
        ("CARGO_HOME", "/home/ada/.ssh/cargo"),
        ("HOME", "/root"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let names = |world: World, agent: Option<&str>| {
        let policy = world.try_resolve(agent).unwrap();
        let env = wt_policy::session_env(&policy, &maker);
        env.vars
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };

    assert_eq!(names(World::new(), None), ["HOME", "LC_ALL", "PATH"]);
    assert_eq!(
        names(World::new().user("env: '*'\n"), None),
        ["HOME", "LC_ALL", "MINE", "PATH"]
    );
    assert_eq!(
        names(World::new().user("env: [GITHUB_TOKEN, LD_PRELOAD]\n"), None),
        ["GITHUB_TOKEN", "HOME", "LC_ALL", "LD_PRELOAD", "PATH"]
    );
    assert!(names(World::new(), Some("claude")).contains(&"DISABLE_AUTOUPDATER".to_owned()));

    let env = wt_policy::session_env(&World::new().resolve(), &maker);
    assert_eq!(env.vars[0].1, HOME);
    assert_eq!(env.vars[2].1, "/usr/bin:/bin:/home/ada/work/proj/bin");
    let noted: Vec<&str> = env.notes.iter().map(|note| note.value.as_str()).collect();
    assert_eq!(
        noted,
        [
            "PATH /home/ada/work/proj/bin",
            "PATH \"\"",
            "PATH \"rel\"",
            "PATH /home/ada/.ssh",
            "CARGO_HOME"
        ]
    );
}

#[test]
fn options_come_last_and_are_trusted() {
    let audit = EggConfig {
        audit: Some(Located::nowhere(true)),
        ..EggConfig::default()
    };
    let policy = World::new()
        .project("base: {network: none}\n")
        .option(OptionLayer::hosts("--network", &["o.example".to_owned()]).unwrap())
        .option(OptionLayer::variables("--env", &["A".to_owned()]).unwrap())
        .option(OptionLayer::new("--audit", audit))
        .resolve();
    assert_eq!(domains(&policy), ["o.example"]);
    assert_eq!(
        policy.network.hosts[0].source.to_string(),
        "option --network"
    );
    assert!(policy.audit);
    let error = OptionLayer::files("--fs", &["rw:x".to_owned()]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("--fs: found \"x\"; expected a path"),
        "{error}"
    );
}

#[test]
fn differences_are_told_by_what_they_mean() {
    let project = "fs: ['rw:~/data', 'deny:./x']\nnetwork: ['*.a.example']\nresources: {max_pids: 5}\nenv: [T]\n";
    let old = World::new().user("network: [b.example]\n").resolve();
    let new = World::new()
        .user("network: [x.a.example]\n")
        .project(project)
        .trusted()
        .resolve();

    let texts: Vec<(Effect, String)> = wt_policy::diff(&old, &new)
        .into_iter()
        .map(|change| (change.effect, change.text))
        .collect();
    assert!(texts.contains(&(
        Effect::Widens,
        "/home/ada/data is read and written (was: read)".to_owned()
    )));
    assert!(texts.contains(&(Effect::Widens, "*.a.example is reached".to_owned())));
    assert!(texts.contains(&(Effect::Widens, "the variable T is passed on".to_owned())));
    assert!(texts.contains(&(
        Effect::Narrows,
        "/home/ada/work/proj/x is denied (was: read and written)".to_owned()
    )));
    assert!(texts.contains(&(Effect::Narrows, "b.example is not reached".to_owned())));
    assert!(texts.contains(&(Effect::Narrows, "processes: 5 (was: no limit)".to_owned())));
    assert!(texts.is_sorted_by_key(|(effect, _)| *effect));
    assert_eq!(wt_policy::diff(&new, &new), []);
}

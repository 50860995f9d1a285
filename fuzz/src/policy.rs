//! Targets for what a session may do: the file that says it, and what comes out of files.

use std::collections::{BTreeMap, BTreeSet};

use wt_policy::{
    AgentProfile, Destination, EffectivePolicy, EggConfig, Facts, FileAccess, Layers,
    MAX_YAML_BYTES, OptionLayer, Places, Platform, Request, diff, load, resolve, session_env,
};

use crate::model;
use crate::script::Script;

/// An `egg.yaml`: what is read, written and read again says the same, and what is said of a
/// fault in it cannot steer a terminal.
pub fn egg_yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match EggConfig::parse(text) {
        Ok(config) => {
            let written = config.to_yaml();
            // Each value in its usual form may need more bytes than a file may have.
            if written.len() <= MAX_YAML_BYTES {
                let again = EggConfig::parse(&written);
                assert_eq!(again.as_ref(), Ok(&config), "{written}");
                assert_eq!(config.to_yaml(), written);
            }
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
            assert_eq!(error.line.is_some(), error.column.is_some());
        }
    }
}

const HOME: &str = "/home/ada";
const PROFILE: &str = "/home/ada/.wingthing";
const PLACES: &[&str] = &[
    "/home/ada/p",
    "/home/ada",
    "/srv/p",
    "/tmp/p",
    "/home/ada/p/.git",
    "/",
    "/home/ada/.wingthing/p",
];
const TOPS: &[&str] = &[
    ".",
    "~",
    "$CWD",
    "",
    "/home",
    "/tmp",
    "/srv",
    "~/.wingthing",
];
const NAMES: &[&str] = &[
    "p", "a", "b", "ab", "ada", ".git", "hooks", ".ssh", "egg.yaml", ".config", ".claude",
    ".cache", ".cargo", ".npm",
];
const PATTERNS: &[&str] = &[
    "a*", "*b", "*", ".*", "a*b", "*a*", "p*", "egg*", ".c*", "*s*h",
];
const MODES: &[&str] = &["rw", "ro", "deny", "deny-write"];
const BASES: &[&str] = &[
    "",
    "base: none\n",
    "base: shared\n",
    "base: ./own.yaml\n",
    "base: {fs: none}\n",
    "base: {network: none}\n",
    "base: {env: none, fs: shared}\n",
    "base: {name: shared, network: ./own.yaml}\n",
    "base: {name: ./own.yaml, fs: none, env: shared}\n",
];
const HOSTS: &[&str] = &[
    "a.example",
    "*.a.example",
    "b.a.example:8080",
    "*.example:*",
    "*",
    "10.0.0.0/8",
    "10.1.2.3:22",
    "localhost",
    "localhost:3000",
    "[::1]:4000",
];
const DESTINATIONS: &[&str] = &[
    "a.example:443",
    "a.example:80",
    "a.example:8080",
    "b.a.example:443",
    "b.a.example:8080",
    "c.example:22",
    "api.anthropic.com:443",
    "provider.example:443",
    "10.1.2.3:22",
    "10.1.2.3:443",
    "93.184.216.34:443",
    "localhost:3000",
    "localhost:8080",
];
const VARIABLES: &[&str] = &["A", "B", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_PRELOAD", "*"];
/// What the maker of a session may have set.
const MAKER: &[(&str, &str)] = &[
    ("A", "1"),
    ("GITHUB_TOKEN", "t"),
    ("SSH_AUTH_SOCK", "/home/ada/p/a"),
    ("B", "/home/ada/p/b"),
    ("PATH", "/usr/bin:/home/ada/p/a:/srv/p"),
    ("CLAUDE_CONFIG_DIR", "/home/ada/p/.claude"),
    ("CARGO_HOME", "/srv/p/.cargo"),
    ("KUBECONFIG", "/home/ada/p/a/b:/srv/p/b"),
    ("WT_PROVIDER_BASE_URL", "https://provider.example"),
    ("ANTHROPIC_BASE_URL", "http://localhost:8080"),
];

/// Made-up files of a user and of a project that is not trusted: whatever they say, nothing is
/// allowed that is not allowed without the project's; the files that say what a session may do
/// stay as they are; and a path has the same answer in each of its spellings, which is that of
/// a second reading of the rules.
pub fn path_rules(data: &[u8]) {
    let case = Case::of(data);
    let files = |path: &str| Ok(case.files.get(path).cloned());
    let Ok(layers) = load(&files, &case.facts.places, None) else {
        return;
    };
    let lower = Layers {
        user: layers.user.clone(),
        project: None,
    };
    let request = |trusted| Request {
        facts: &case.facts,
        agent: case.profile.map(|profile| profile.name.as_str()),
        profile: case.profile,
        trusted,
        options: &case.options,
    };
    if let Ok(policy) = resolve(&layers, &request(true)) {
        check(&policy, &case.facts.places);
    }
    let (Ok(policy), Ok(without)) = (
        resolve(&layers, &request(false)),
        resolve(&lower, &request(false)),
    ) else {
        return;
    };
    check(&policy, &case.facts.places);
    check(&without, &case.facts.places);
    for path in paths_of(&[&policy, &without]) {
        assert!(
            policy.access(&path).0 >= without.access(&path).0,
            "{path}: {:?} without the project {:?}",
            policy.access(&path),
            without.access(&path)
        );
    }
    never_wider(&policy, &without);
    let vars = |policy| -> BTreeSet<String> {
        let env = session_env(policy, &case.facts.env);
        env.vars.into_iter().map(|(name, _)| name).collect()
    };
    assert!(vars(&policy).is_subset(&vars(&without)));
}

/// Everything that a policy depends on.
struct Case {
    files: BTreeMap<String, String>,
    facts: Facts,
    profile: Option<&'static AgentProfile>,
    options: Vec<OptionLayer>,
}

impl Case {
    fn of(data: &[u8]) -> Self {
        let mut script = Script::new(data);
        let cwd = script.pick(PLACES);
        let profile = match script.number(4) {
            3 => Some(&AgentProfile::all()[script.number(AgentProfile::all().len())]),
            _ => None,
        };
        let is_odd = script.rarely();
        let facts = Facts {
            places: Places {
                home: HOME.to_owned(),
                cwd: cwd.to_owned(),
                profile: PROFILE.to_owned(),
            },
            platform: match is_odd && script.rarely() {
                true => Platform::MacOs,
                false => Platform::Linux,
            },
            env: match is_odd {
                true => script.some(6, |script| {
                    let (name, value) = script.pick(MAKER);
                    (name.to_owned(), value.to_owned())
                }),
                false => Vec::new(),
            },
            shared: is_odd && script.rarely(),
        };
        let mut files = BTreeMap::new();
        let user_base = script.pick(BASES);
        files.insert(format!("{PROFILE}/egg.yaml"), file(&mut script, user_base));
        let project_base = script.pick(BASES);
        let project = file(&mut script, project_base);
        files.insert(format!("{}/egg.yaml", cwd.trim_end_matches('/')), project);
        if [user_base, project_base]
            .iter()
            .any(|base| base.contains("shared"))
        {
            let shared = file(&mut script, "");
            files.insert(format!("{PROFILE}/bases/shared.yaml"), shared);
        }
        if [user_base, project_base]
            .iter()
            .any(|base| base.contains("own"))
        {
            let own = file(&mut script, "");
            files.insert(format!("{PROFILE}/own.yaml"), own.clone());
            files.insert(format!("{}/own.yaml", cwd.trim_end_matches('/')), own);
        }
        let options = match script.rarely() {
            false => Vec::new(),
            true => vec![
                OptionLayer::files("--fs", &script.some(3, entry)).expect("they are sound"),
                OptionLayer::hosts(
                    "--net",
                    &script.some(2, |script| script.pick(HOSTS).to_owned()),
                )
                .expect("they are sound"),
            ],
        };
        Self {
            files,
            facts,
            profile,
            options,
        }
    }
}

/// A file for a user or a project.
fn file(script: &mut Script<'_>, base: &str) -> String {
    let mut text = base.to_owned();
    let mut list = |key: &str, words: Vec<String>| {
        if !words.is_empty() {
            text.push_str(&format!("{key}:\n"));
            for word in words {
                text.push_str(&format!("- \"{word}\"\n"));
            }
        }
    };
    list("fs", script.some(7, entry));
    match script.number(5) {
        3 => list("network", script.some(3, |s| s.pick(HOSTS).to_owned())),
        4 => {
            let domains = script.some(2, |script| format!("\"{}\"", script.pick(HOSTS)));
            let mode = script.pick(&["enforce", "observe", "\"\""]);
            let agent = script.pick(&["merge", "none", "\"\""]);
            let ports = script.pick(&["", "3000", "8080, 2375"]);
            text.push_str(&format!(
                "network: {{domains: [{}], mode: {mode}, agent_domains: {agent}, \
                 local_ports: [{ports}]}}\n",
                domains.join(", ")
            ));
        }
        _ => {}
    }
    if script.rarely() {
        let names = script.some(3, |script| format!("\"{}\"", script.pick(VARIABLES)));
        text.push_str(&format!("env: [{}]\n", names.join(", ")));
    }
    if script.rarely() {
        let memory = script.pick(&["1GB", "2GB", "0"]);
        let pids = script.number(4) * 100;
        text.push_str(&format!(
            "resources: {{memory: {memory}, max_pids: {pids}}}\nshell: {}\n\
             dangerously_skip_permissions: {}\naudit: {}\nagent_settings: {{claude: ./{}}}\n",
            script.pick(&["bash", "./a", "zsh"]),
            script.rarely(),
            script.rarely(),
            script.pick(NAMES),
        ));
    }
    text
}

/// One rule for files as it is written.
fn entry(script: &mut Script<'_>) -> String {
    let mode = script.pick(MODES);
    let mut path = script.pick(TOPS).to_owned();
    let shape = script.number(8);
    for _ in 0..shape % 4 {
        path.push('/');
        path.push_str(script.pick(NAMES));
    }
    if shape >= 5 || path.is_empty() {
        path.push('/');
        path.push_str(if shape >= 5 {
            script.pick(PATTERNS)
        } else {
            ""
        });
    }
    format!("{mode}:{path}")
}

/// What holds for each policy by itself.
fn check(policy: &EffectivePolicy, places: &Places) {
    assert!(diff(policy, policy).is_empty());
    let _ = policy.explain("full");
    for path in paths_of(&[policy]) {
        let (access, _) = policy.access(&path);
        assert_eq!(
            Some(access),
            Some(model::access(&policy.files, &path).unwrap_or(FileAccess::Deny)),
            "{path}"
        );
        for spelling in [
            format!("{path}/"),
            format!("/{path}"),
            path.replace('/', "/./"),
        ] {
            assert_eq!(policy.access(&spelling).0, access, "{spelling}");
        }
        for none in [&path[1..], &format!("{path}/../a"), &format!("{path}\0")] {
            assert_eq!(policy.access(none), (FileAccess::Deny, None), "{none:?}");
        }
    }
    for own in [
        PROFILE,
        "/home/ada/.wingthing/eggs/1",
        "/home/ada/.wingthing.old",
    ] {
        assert_eq!(policy.access(own).0, FileAccess::Deny, "{own}");
    }
    let egg = format!("{}/egg.yaml", places.cwd.trim_end_matches('/'));
    assert!(policy.access(&egg).0 >= FileAccess::DenyWrite);
    assert!(policy.access(HOME).0 != FileAccess::Rw && policy.access("/").0 != FileAccess::Rw);
}

/// Paths at which rules begin to hold, beside them and below them.
fn paths_of(policies: &[&EffectivePolicy]) -> BTreeSet<String> {
    let mut paths = BTreeSet::from(["/".to_owned()]);
    let rules = policies.iter().flat_map(|policy| &policy.files);
    let tops: BTreeSet<&str> = rules.map(|rule| rule.path.as_str()).collect();
    for top in tops {
        let names: &[&str] = match top.contains('*') {
            true => &["", "a", "b", "ab", ".ssh"],
            false => &[""],
        };
        for name in names {
            let path = top.replace('*', name);
            let path = path.trim_end_matches('/');
            if !path.is_empty() {
                paths.extend([path.to_owned(), format!("{path}/a"), format!("{path}b/p")]);
            }
        }
    }
    paths
}

/// What is not a file: nothing of it is more than without the project.
fn never_wider(policy: &EffectivePolicy, without: &EffectivePolicy) {
    for text in DESTINATIONS {
        let destination = Destination::parse(text).expect("it is sound");
        let of = |policy: &EffectivePolicy| policy.network.decide(&destination).is_allowed();
        assert!(!of(policy) || of(without), "{text}");
    }
    let ports = |policy: &EffectivePolicy| -> BTreeSet<u16> {
        let ports = policy.network.local_ports.iter();
        ports.map(|port| port.value.get()).collect()
    };
    assert!(ports(policy).is_subset(&ports(without)));
    assert!(policy.network.need <= without.network.need);
    assert!(!policy.env.all || without.env.all);
    assert!(!policy.skip_permissions || without.skip_permissions);
    assert!(policy.audit || !without.audit);
    assert_eq!(policy.shell, without.shell);
    assert_eq!(policy.agent_settings, without.agent_settings);
    let at_most = |limit: Option<u64>, without: Option<u64>| {
        assert!(without.is_none_or(|most| limit.is_some_and(|limit| limit <= most)));
    };
    at_most(policy.resources.memory, without.resources.memory);
    let pids = |policy: &EffectivePolicy| policy.resources.max_pids.map(u64::from);
    at_most(pids(policy), pids(without));
}

//! For any files: what an untrusted project's file allows is allowed without it as well.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{CWD, HOME, World, access, reaches};
use proptest::prelude::*;

const PATHS: &[&str] = &[
    "./",
    "./a",
    "./a/b",
    "./a/*",
    "./a*",
    "./.git/hooks",
    "./egg.yaml",
    "./egg*",
    "~",
    "~/.ssh",
    "~/.ssh/id",
    "~/.ssh/*",
    "~/.config",
    "~/.wingthing",
    "~/.wingthing/x",
    "~/.claude",
    "~/.claude.json*",
    "/",
    "/etc",
    "~/*",
    "~/.s*",
    "~/work",
    "/tmp",
    "~/.cache",
    "~/.cargo/credentials*",
];

const HOSTS: &[&str] = &[
    "a.example",
    "b.a.example",
    "*.a.example",
    "*.example.org",
    "x.example.org:8080",
    "*.example.org:*",
    "*",
    "10.1.2.3",
    "10.0.0.0/8:*",
    "93.184.216.34",
    "localhost",
    "localhost:3000",
];

const DESTINATIONS: &[&str] = &[
    "a.example:443",
    "a.example:80",
    "b.a.example:443",
    "c.b.a.example:443",
    "x.example.org:8080",
    "y.example.org:9",
    "elsewhere.example.net:443",
    "10.1.2.3:443",
    "10.9.9.9:22",
    "93.184.216.34:443",
    "93.184.216.34:80",
    "localhost:3000",
    "192.168.0.1:443",
];

const NAMES: &[&str] = &[
    "A",
    "GH_TOKEN",
    "SSH_AUTH_SOCK",
    "LD_PRELOAD",
    "DISABLE_AUTOUPDATER",
];

fn list(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(of), 0..6)
}

fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    format!("[{}]", words.join(", "))
}

prop_compose! {
    fn file()(
        base in prop::sample::select(vec![
            "", "base: none\n", "base: open\n", "base: closed\n", "base: {network: none}\n",
            "base: {fs: none}\n", "base: {env: none}\n", "base: {name: closed, fs: open, network: open}\n",
        ]),
        modes in prop::collection::vec(prop::sample::select(vec!["rw", "ro", "deny", "deny-write"]), 6),
        paths in list(PATHS),
        hosts in list(HOSTS),
        ports in prop::collection::vec(3000_u16..3004, 0..3),
        mode in prop::sample::select(vec!["", "enforce", "observe"]),
        agent_domains in prop::sample::select(vec!["", "merge", "none"]),
        env in list(NAMES),
        all in any::<bool>(),
        fds in 0_u32..4,
        flags in any::<[bool; 3]>(),
    ) -> String {
        let fs: Vec<String> = paths.iter().zip(&modes).map(|(path, mode)| format!("{mode}:{path}")).collect();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut env: Vec<String> = env.iter().map(|name| (*name).to_owned()).collect();
        env.extend(all.then(|| "*".to_owned()));
        format!(
            "{base}fs: {}\nnetwork: {{domains: {}, local_ports: {ports:?}, mode: \"{mode}\", \
             agent_domains: \"{agent_domains}\"}}\nenv: {}\nresources: {{max_fds: {fds}}}\n\
             dangerously_skip_permissions: {}\naudit: {}\ntrace: {}\n",
            quoted(&fs), quoted(&hosts), quoted(&env), flags[0], flags[1], flags[2],
        )
    }
}

fn concrete() -> Vec<String> {
    let mut paths = vec!["/".to_owned(), "/tmp/s/agent.1".to_owned()];
    for path in PATHS {
        let path = path.replacen('~', HOME, 1).replacen(
            '.',
            if path.starts_with("./") { CWD } else { "." },
            1,
        );
        let path = path.trim_end_matches('/').to_owned();
        for star in ["", "x", ".yaml", "sh", "ingthing"] {
            let path = path.replace('*', star);
            paths.push(format!("{path}/deeper"));
            paths.push(path);
        }
    }
    paths.retain(|path| !path.is_empty());
    paths.sort();
    paths.dedup();
    paths
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_untrusted_project_never_widens(
        user in file(),
        project in file(),
        open in file(),
        agent in prop::sample::select(vec![None, Some("claude"), Some("ollama")]),
    ) {
        let open = open.lines().filter(|line| !line.starts_with("base")).collect::<Vec<_>>().join("\n");
        let below = World::new()
            .user(&user)
            .base("open", &open)
            .base("closed", "fs: [\"deny:./a\"]\n")
            .var("SSH_AUTH_SOCK", "/tmp/s/agent.1")
            .var("GH_TOKEN", "t").var("A", "a").var("LD_PRELOAD", "l")
            .var("ANTHROPIC_BASE_URL", "http://localhost:3001");
        let with = below.clone().project(&project);
        let narrow = with.try_resolve(agent).unwrap();
        let below_policy = below.try_resolve(agent).unwrap();

        for path in concrete() {
            let (now, before) = (access(&narrow, &path), access(&below_policy, &path));
            prop_assert!(now >= before, "{}: {:?} without, {:?} with the project", path, before, now);
        }
        for destination in DESTINATIONS {
            if reaches(&narrow.network, destination) {
                prop_assert!(reaches(&below_policy.network, destination), "{}", destination);
            }
        }
        prop_assert!(narrow.network.need <= below_policy.network.need);
        for port in &narrow.network.local_ports {
            prop_assert!(below_policy.network.local_ports.iter().any(|known| known.value == port.value));
        }
        let names = |policy| wt_policy::session_env(policy, &with.env).vars;
        let before = names(&below_policy);
        for variable in names(&narrow) {
            prop_assert!(before.contains(&variable), "{}", variable.0);
        }
        let fds = |policy: &wt_policy::EffectivePolicy| policy.resources.max_fds.unwrap_or(u32::MAX);
        prop_assert!(fds(&narrow) <= fds(&below_policy));
        prop_assert!(narrow.skip_permissions <= below_policy.skip_permissions);
        prop_assert!(narrow.audit >= below_policy.audit);
        prop_assert_eq!(&narrow.shell, &below_policy.shell);
        let widened = wt_policy::diff(&below_policy, &with.try_resolve(agent).unwrap());
        prop_assert!(
            widened.iter().all(|change| change.effect != wt_policy::Effect::Widens),
            "{:?}", widened
        );
    }

    #[test]
    fn what_nothing_can_lift_holds_under_any_files(user in file(), project in file(), open in file()) {
        let open = open.lines().filter(|line| !line.starts_with("base")).collect::<Vec<_>>().join("\n");
        let policy = World::new()
            .user(&user).project(&project).base("open", &open).base("closed", "").trusted()
            .try_resolve(Some("claude")).unwrap();
        for path in [".wingthing", ".wingthing/x", ".wingthing/x/y", ".wingthing2/z"] {
            prop_assert_eq!(access(&policy, &format!("{HOME}/{path}")), wt_policy::FileAccess::Deny);
        }
        let (egg, rc) = (format!("{CWD}/egg.yaml"), format!("{HOME}/.bashrc"));
        prop_assert!(access(&policy, &egg) >= wt_policy::FileAccess::DenyWrite);
        prop_assert!(access(&policy, &rc) >= wt_policy::FileAccess::Ro);
    }
}

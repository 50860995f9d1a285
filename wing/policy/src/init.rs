//! The text of a first `egg.yaml` for a project.

use std::collections::BTreeSet;

/// Tools that a project uses, told by the names of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFacts {
    tools: BTreeSet<usize>,
}

/// One tool: its name, the files that tell of it, and the hosts where it gets packages.
struct Tool {
    name: &'static str,
    files: &'static [&'static str],
    hosts: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "cargo",
        files: &["Cargo.toml"],
        hosts: &["index.crates.io", "static.crates.io", "crates.io"],
    },
    Tool {
        name: "npm",
        files: &[
            "package.json",
            "package-lock.json",
            "pnpm-lock.yaml",
            "yarn.lock",
            "bun.lock",
        ],
        hosts: &["registry.npmjs.org", "registry.yarnpkg.com"],
    },
    Tool {
        name: "deno",
        files: &["deno.json", "deno.jsonc"],
        hosts: &["jsr.io", "npm.jsr.io", "deno.land"],
    },
    Tool {
        name: "pip",
        files: &[
            "pyproject.toml",
            "requirements.txt",
            "setup.py",
            "uv.lock",
            "Pipfile",
            "poetry.lock",
        ],
        hosts: &["pypi.org", "files.pythonhosted.org"],
    },
    Tool {
        name: "go",
        files: &["go.mod", "go.work"],
        hosts: &[
            "proxy.golang.org",
            "sum.golang.org",
            "storage.googleapis.com",
        ],
    },
    Tool {
        name: "bundler",
        files: &["Gemfile"],
        hosts: &["rubygems.org", "index.rubygems.org"],
    },
    Tool {
        name: "composer",
        files: &["composer.json"],
        hosts: &[
            "repo.packagist.org",
            "packagist.org",
            "api.github.com",
            "codeload.github.com",
        ],
    },
    Tool {
        name: "maven",
        files: &["pom.xml"],
        hosts: &["repo.maven.apache.org", "repo1.maven.org"],
    },
    Tool {
        name: "gradle",
        files: &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
        ],
        hosts: &[
            "services.gradle.org",
            "plugins.gradle.org",
            "repo.maven.apache.org",
            "downloads.gradle.org",
        ],
    },
    Tool {
        name: "nuget",
        files: &["global.json", "nuget.config", "Directory.Build.props"],
        hosts: &["api.nuget.org"],
    },
    Tool {
        name: "mix",
        files: &["mix.exs"],
        hosts: &["hex.pm", "repo.hex.pm", "builds.hex.pm"],
    },
    Tool {
        name: "pub",
        files: &["pubspec.yaml"],
        hosts: &["pub.dev", "storage.googleapis.com"],
    },
];

impl ProjectFacts {
    /// Tells the tools by the names in the project's own folder.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut tools = BTreeSet::new();
        for name in names {
            for (index, tool) in TOOLS.iter().enumerate() {
                if tool.files.contains(&name) {
                    tools.insert(index);
                }
            }
        }
        Self { tools }
    }

    /// The names of the tools.
    pub fn tools(&self) -> Vec<&'static str> {
        self.tools.iter().map(|index| TOOLS[*index].name).collect()
    }
}

/// Writes a first `egg.yaml` for a project: what it needs by its tools, and comments that
/// show the rest.
pub fn init_text(facts: &ProjectFacts) -> String {
    let mut text = String::from(
        "\
# What sessions of wingthing may do in this project.
#
# It adds to what is allowed anyway: reading the machine but for secrets, and writing here
# and in caches. `wt egg explain` shows what comes out, and why. Until it is trusted with
# `wt egg trust`, this file can take away but give nothing.

# Build on nothing, or on a file in the profile's folder bases/, in place of your own egg.yaml.
# base: strict

# Files: rw, ro, deny or deny-write, a colon and a path that starts with ./, ~/ or /.
# fs:
#   - deny:./.env
#   - rw:~/another-project

# Hosts, with a port unless it is 443. *.example.com is every name below example.com.
",
    );
    let mut seen = BTreeSet::new();
    let mut hosts = String::new();
    for index in &facts.tools {
        let tool = &TOOLS[*index];
        let new: Vec<&str> = tool
            .hosts
            .iter()
            .copied()
            .filter(|host| seen.insert(*host))
            .collect();
        if !new.is_empty() {
            hosts.push_str(&format!("    # {}\n", tool.name));
        }
        for host in new {
            hosts.push_str(&format!("    - {host}\n"));
        }
    }
    match hosts.is_empty() {
        true => text.push_str(
            "\
# network:
#   domains:
#     - example.com
",
        ),
        false => text.push_str(&format!("network:\n  domains:\n{hosts}")),
    }
    text.push_str(
        "\
#   # Servers on this machine that the session may use.
#   local_ports: [5432]
#   # observe lets other public hosts through and notes them; enforce refuses them.
#   mode: enforce
#   # none leaves out the hosts of the agent itself.
#   agent_domains: merge

# Variables that are passed on, by name.
# env: [DATABASE_URL]

# Limits for all processes of a session together; max_fds is for each of them.
# resources:
#   cpu: 2h
#   memory: 8GB
#   max_fds: 4096
#   max_pids: 512

# Record sessions.
# audit: true
",
    );
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::EggConfig;

    #[test]
    fn a_first_file_parses_for_every_set_of_tools() {
        for bits in 0..1_usize << TOOLS.len() {
            let tools = (0..TOOLS.len())
                .filter(|index| bits >> index & 1 == 1)
                .collect();
            let text = init_text(&ProjectFacts { tools });

            let config = EggConfig::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(config.network.is_some(), bits != 0);
        }
    }

    #[test]
    fn what_is_commented_out_parses_as_well() {
        let text = init_text(&ProjectFacts::default());
        let (_, examples) = text.split_once("# base: strict\n").unwrap();
        let is_prose = |line: &&str| {
            let bare = line.trim_start_matches(['#', ' ']);
            !(bare.starts_with("- ") || bare.split(' ').next().is_some_and(|w| w.ends_with(':')))
                || bare.starts_with("Files:")
        };
        let opened: String = examples
            .lines()
            .filter(|line| !is_prose(line))
            .map(|line| {
                format!(
                    "{}\n",
                    line.strip_prefix("# ")
                        .or(line.strip_prefix('#'))
                        .unwrap_or(line)
                )
            })
            .collect();

        let config = EggConfig::parse(&opened).unwrap_or_else(|e| panic!("{e}\n{opened}"));

        assert_eq!(config.fs.unwrap().len(), 2);
        assert!(config.audit.unwrap().value);
        assert!(config.resources.max_pids.is_some());
        assert!(config.network.unwrap().map().unwrap().local_ports.is_some());
    }

    #[test]
    fn tools_are_told_by_the_files_of_a_project() {
        let facts = ProjectFacts::of(["Cargo.toml", "README.md", "package.json"]);

        assert_eq!(facts.tools(), ["cargo", "npm"]);
        assert!(init_text(&facts).contains("- static.crates.io\n"));
    }
}

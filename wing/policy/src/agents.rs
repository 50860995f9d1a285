//! Agent profiles: what an agent is, how it is started, and what it cannot do without.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::num::NonZeroU16;
use std::sync::LazyLock;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_saphyr::Spanned;

use crate::names::{DomainPattern, EnvName, HomePath, ProgramName};
use crate::yaml::{self, ParseError};

/// The known agents, in the order in which they are shown.
const EMBEDDED: [&str; 6] = [
    include_str!("../agents/claude.yaml"),
    include_str!("../agents/codex.yaml"),
    include_str!("../agents/cursor.yaml"),
    include_str!("../agents/gemini.yaml"),
    include_str!("../agents/ollama.yaml"),
    include_str!("../agents/opencode.yaml"),
];

/// The format of profiles that is read.
const FORMAT: u64 = 1;

/// How many entries a list may have: several times the longest, and short enough to show.
const MAX_ENTRIES: usize = 128;

/// The longest word of a command line or value of a variable in a profile.
const MAX_WORD: usize = 1024;

/// The longest identity of a conversation. The longest known has 36 characters.
const MAX_RESUME_ID: usize = 256;

/// Where the identity of a conversation goes in the words that resume it.
const ID_PLACE: &str = "{id}";

/// The longest wait before Enter: beyond it a person would press it again.
pub const MAX_ENTER_DELAY: Duration = Duration::from_secs(2);

/// What there is to know about one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProfile {
    /// What users call it on the command line.
    pub name: ProgramName,
    /// Its name for people.
    pub title: String,
    /// Its program, under every name that it is installed by; the preferred one first.
    pub binaries: Vec<ProgramName>,
    /// A command that installs it: shown to people, never run.
    pub install: String,
    /// Arguments that always come first.
    pub arguments: Vec<String>,
    /// Arguments for when the caller gives none, or options only.
    pub default_arguments: Vec<String>,
    /// What makes it print its version; `--version` unless said.
    pub version_arguments: Vec<String>,
    /// Variables that it needs beyond those of every session.
    pub environment: Environment,
    /// What it reads and writes of its own in the home directory.
    pub paths: Vec<AgentPath>,
    /// Whom it talks to.
    pub network: Network,
    /// The file below the home directory that says which programs it runs unasked. What a
    /// session makes of it is not kept.
    pub settings: Option<HomePath>,
    /// Arguments with which it asks no questions; empty when it has none.
    pub skip_permissions: Vec<String>,
    /// How it keeps everything in one folder, when it otherwise saves files beside others in
    /// the home directory.
    pub one_folder: Option<OneFolder>,
    /// How it takes up an earlier conversation.
    pub resume: Resume,
    /// How it takes typed and pasted text.
    pub input: InputHabits,
    /// Programs that it runs for its work; without them it does less than it could.
    pub shells_out_to: Vec<ProgramName>,
}

/// The variables of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Passed on from the caller when it has them.
    #[serde(default, deserialize_with = "distinct")]
    pub pass: Vec<EnvName>,
    /// Set to these values, unless the caller has its own.
    #[serde(default, deserialize_with = "values")]
    pub set: BTreeMap<EnvName, String>,
}

/// A place in the home directory where an agent keeps its settings and state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentPath {
    /// Where it is.
    pub path: HomePath,
    /// What is there.
    pub kind: PathKind,
    /// The variable by whose value the path is replaced when the caller has it.
    ///
    /// That value is the caller's word and has passed no check.
    #[serde(default)]
    pub moved_by: Option<EnvName>,
}

/// What a path of an agent is, and so what must be writable for the agent to save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// A directory with all below it.
    Dir,
    /// A file that is written in place.
    File,
    /// A file that is saved by a lock, a temporary file and a rename in its own directory.
    ///
    /// The siblings are the names that start with the file's name and a dot, like
    /// `.claude.json.lock` and `.claude.json.tmp.17`.
    FileWithSiblings,
}

/// A folder in which an agent keeps everything when a variable names it.
///
/// Where the home directory is read-only, nothing can be renamed or locked in it; in a folder
/// of the agent's own it can.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneFolder {
    /// The variable that names the folder.
    pub variable: EnvName,
    /// The folder.
    pub folder: HomePath,
    /// Files of the home directory that go along when the folder has none of that name yet.
    pub takes_along: Vec<HomePath>,
}

/// Whom an agent talks to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Hosts on the internet.
    #[serde(default, deserialize_with = "distinct")]
    pub domains: Vec<DomainPattern>,
    /// TCP ports of servers on the same machine.
    #[serde(default, deserialize_with = "distinct")]
    pub local_ports: Vec<NonZeroU16>,
}

/// How an agent takes up an earlier conversation. What is `None` it cannot do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The words that resume the conversation of a given identity.
    #[serde(default)]
    pub by_id: Option<ResumeWords>,
    /// The words that continue the last conversation.
    #[serde(default, deserialize_with = "some_words")]
    pub last: Option<Vec<String>>,
}

/// Words of a command line with exactly one place for an identity, written `{id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeWords(Vec<String>);

/// How an agent takes typed and pasted text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputHabits {
    /// Whether it takes text between paste marks as one paste. A hint for before it runs;
    /// while it runs the mode that it has set decides.
    pub bracketed_paste: bool,
    /// How long Enter must wait after text, to send it and not to break the line.
    #[serde(rename = "enter_delay_ms", deserialize_with = "milliseconds")]
    pub enter_delay: Duration,
}

/// Why there is no command line for what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The agent has no way to do it.
    #[error("{title} cannot resume a conversation from its command line")]
    CannotResume {
        /// The agent's name for people.
        title: String,
    },
    /// The identity would be taken for an option, or is none.
    #[error(
        "{id:?} is no identity of a conversation (1 to {MAX_RESUME_ID} printable characters, \
         not starting with -)"
    )]
    ResumeId {
        /// What was given.
        id: String,
    },
}

impl AgentProfile {
    /// All known agents.
    pub fn all() -> &'static [AgentProfile] {
        static ALL: LazyLock<Vec<AgentProfile>> = LazyLock::new(|| {
            EMBEDDED
                .iter()
                .map(|text| {
                    AgentProfile::parse(text)
                        .expect("the embedded profiles parse: a test reads each of them")
                })
                .collect()
        });
        &ALL
    }

    /// The known agent of this name, if there is one.
    pub fn find(name: &str) -> Option<&'static AgentProfile> {
        Self::all()
            .iter()
            .find(|profile| profile.name.as_str() == name)
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// The first fault with its place: no YAML, an unknown, missing or doubled key, a
    /// value that is not what its key expects.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let file: ProfileFile = yaml::parse(text)?;
        file.check(text)
    }

    /// The command line that starts the agent: its preferred program first, then what
    /// resumes the given conversation, then the caller's arguments.
    ///
    /// A caller that found the agent under another of its names puts that first instead.
    ///
    /// # Errors
    /// When the agent cannot resume by identity, or the identity cannot be one.
    pub fn launch(
        &self,
        resume: Option<&str>,
        args: &[String],
    ) -> Result<Vec<String>, LaunchError> {
        let words = match resume {
            None => Vec::new(),
            Some(id) => {
                let words = self
                    .resume
                    .by_id
                    .as_ref()
                    .ok_or_else(|| self.cannot_resume())?;
                words.with(id)?
            }
        };
        Ok(self.command_line(words, args))
    }

    /// The command line that continues the agent's last conversation.
    ///
    /// # Errors
    /// When the agent has no way to do that.
    pub fn launch_last(&self, args: &[String]) -> Result<Vec<String>, LaunchError> {
        let words = self
            .resume
            .last
            .clone()
            .ok_or_else(|| self.cannot_resume())?;
        Ok(self.command_line(words, args))
    }

    fn command_line(&self, resume: Vec<String>, args: &[String]) -> Vec<String> {
        // Options refine the defaults; a word of the caller's own takes their place.
        let keeps_defaults = args.first().is_none_or(|arg| arg.starts_with('-'));
        let defaults: &[String] = if keeps_defaults {
            &self.default_arguments
        } else {
            &[]
        };
        let mut line = vec![self.preferred_binary().to_string()];
        line.extend_from_slice(&self.arguments);
        line.extend(resume);
        line.extend_from_slice(defaults);
        line.extend_from_slice(args);
        line
    }

    /// The name that the agent's program is looked up by first.
    pub fn preferred_binary(&self) -> &ProgramName {
        self.binaries
            .first()
            .expect("a profile names at least one program: parsing demands it")
    }

    fn cannot_resume(&self) -> LaunchError {
        LaunchError::CannotResume {
            title: self.title.clone(),
        }
    }

    /// The variables that the agent gets beyond those of every session: what the profile
    /// names of the caller's, and what it sets where the caller has no value of its own.
    ///
    /// Of a name that the caller has twice the first counts, as it does for the C library.
    pub fn env(&self, caller: &[(String, String)]) -> Vec<(String, String)> {
        let of_caller = |name: &EnvName| {
            let found = caller.iter().find(|(key, _)| key == name.as_str());
            found.map(|(_, value)| value.clone())
        };
        let passed = self
            .environment
            .pass
            .iter()
            .filter_map(|name| Some((name.to_string(), of_caller(name)?)));
        let set = self.environment.set.iter().map(|(name, value)| {
            let value = of_caller(name).unwrap_or_else(|| value.clone());
            (name.to_string(), value)
        });
        passed.chain(set).collect()
    }
}

impl ResumeWords {
    /// The words with the identity in its place.
    ///
    /// # Errors
    /// When the agent would take it for an option, or it is empty, too long or not
    /// printable.
    pub fn with(&self, id: &str) -> Result<Vec<String>, LaunchError> {
        let is_id = (1..=MAX_RESUME_ID).contains(&id.len())
            && !id.starts_with('-')
            && !id.contains(char::is_control);
        if !is_id {
            return Err(LaunchError::ResumeId { id: id.to_owned() });
        }
        let words = self.0.iter().map(|word| word.replacen(ID_PLACE, id, 1));
        Ok(words.collect())
    }
}

/// A profile as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    version: Spanned<u64>,
    name: ProgramName,
    #[serde(deserialize_with = "word")]
    title: String,
    #[serde(deserialize_with = "distinct")]
    binaries: Vec<ProgramName>,
    #[serde(deserialize_with = "word")]
    install: String,
    #[serde(default, deserialize_with = "words")]
    arguments: Vec<String>,
    #[serde(default, deserialize_with = "words")]
    default_arguments: Vec<String>,
    #[serde(default = "version_arguments", deserialize_with = "words")]
    version_arguments: Vec<String>,
    #[serde(default)]
    environment: Option<Spanned<Environment>>,
    #[serde(default)]
    paths: Vec<Spanned<AgentPath>>,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    settings: Option<HomePath>,
    #[serde(default, deserialize_with = "words")]
    skip_permissions: Vec<String>,
    #[serde(default)]
    one_folder: Option<OneFolder>,
    #[serde(default)]
    resume: Resume,
    input: InputHabits,
    #[serde(default, deserialize_with = "distinct")]
    shells_out_to: Vec<ProgramName>,
}

impl ProfileFile {
    /// Makes the checks that need more than one value.
    fn check(self, text: &str) -> Result<AgentProfile, ParseError> {
        if self.version.value != FORMAT {
            let problem = format!("found {}; expected {FORMAT}", self.version.value);
            return Err(yaml::error_at(text, self.version.referenced, problem));
        }
        let environment = match self.environment {
            None => Environment::default(),
            Some(Spanned {
                value, referenced, ..
            }) => {
                if let Some(name) = value.pass.iter().find(|name| value.set.contains_key(name)) {
                    let problem =
                        format!("{name} is both passed and set; expected it under set alone");
                    return Err(yaml::error_in(text, referenced, problem));
                }
                value
            }
        };
        let mut paths: Vec<AgentPath> = Vec::new();
        for Spanned {
            value, referenced, ..
        } in self.paths
        {
            if paths.iter().any(|earlier| earlier.path == value.path) {
                let problem = format!("{} stands here twice", value.path);
                return Err(yaml::error_in(text, referenced, problem));
            }
            if let Some(name) = value
                .moved_by
                .as_ref()
                .filter(|name| !environment.pass.contains(name))
            {
                let problem = format!(
                    "{name} moves the path and is not passed; expected one of environment.pass"
                );
                return Err(yaml::error_in(text, referenced, problem));
            }
            paths.push(value);
        }
        Ok(AgentProfile {
            name: self.name,
            title: self.title,
            binaries: self.binaries,
            install: self.install,
            arguments: self.arguments,
            default_arguments: self.default_arguments,
            version_arguments: self.version_arguments,
            environment,
            paths,
            network: self.network,
            settings: self.settings,
            skip_permissions: self.skip_permissions,
            one_folder: self.one_folder,
            resume: self.resume,
            input: self.input,
            shells_out_to: self.shells_out_to,
        })
    }
}

fn version_arguments() -> Vec<String> {
    vec!["--version".to_owned()]
}

/// Reads a list without doubles. One that is written has at least one entry.
fn distinct<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Ord + Clone + Display,
{
    let entries = Vec::<T>::deserialize(deserializer)?;
    check_count(entries.len())?;
    let mut seen = BTreeSet::new();
    if let Some(double) = entries.iter().find(|entry| !seen.insert((*entry).clone())) {
        return Err(D::Error::custom(format!("{double} stands here twice")));
    }
    Ok(entries)
}

fn check_count<E: serde::de::Error>(count: usize) -> Result<(), E> {
    if (1..=MAX_ENTRIES).contains(&count) {
        return Ok(());
    }
    Err(E::custom(format!(
        "found {count} entries; expected 1 to {MAX_ENTRIES}, or no key at all"
    )))
}

/// Reads a text that fits on one line.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let word = String::deserialize(deserializer)?;
    check_word(&word)?;
    Ok(word)
}

fn check_word<E: serde::de::Error>(word: &str) -> Result<(), E> {
    if (1..=MAX_WORD).contains(&word.len()) && !word.contains(char::is_control) {
        return Ok(());
    }
    Err(E::custom(format!(
        "found {word:?}; expected one line of 1 to {MAX_WORD} bytes"
    )))
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    check_count(words.len())?;
    words.iter().try_for_each(|word| check_word(word))?;
    Ok(words)
}

fn some_words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    words(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for ResumeWords {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = words(deserializer)?;
        let places: usize = words
            .iter()
            .map(|word| word.matches(ID_PLACE).count())
            .sum();
        if places != 1 {
            return Err(D::Error::custom(format!(
                "found {ID_PLACE} {places} times; expected it once"
            )));
        }
        Ok(Self(words))
    }
}

fn values<'de, D>(deserializer: D) -> Result<BTreeMap<EnvName, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let values = BTreeMap::<EnvName, String>::deserialize(deserializer)?;
    check_count(values.len())?;
    values.values().try_for_each(|value| check_word(value))?;
    Ok(values)
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let delay = Duration::from_millis(u64::deserialize(deserializer)?);
    if delay > MAX_ENTER_DELAY {
        return Err(D::Error::custom(format!(
            "found {}; expected at most {}",
            delay.as_millis(),
            MAX_ENTER_DELAY.as_millis()
        )));
    }
    Ok(delay)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Which variables belong to which vendor, and where that vendor is reached.
    const VENDORS: &[(&str, &str, &str)] = &[
        ("ANTHROPIC_", "anthropic", "anthropic.com"),
        ("OPENAI_", "openai", "openai.com"),
        ("CURSOR_", "cursor", "cursor.sh"),
        ("GEMINI_", "google", "googleapis.com"),
        ("GOOGLE_", "google", "googleapis.com"),
    ];

    /// Whose secrets an agent may be given. OpenCode is a client of several vendors.
    const TRUSTED: &[(&str, &[&str])] = &[
        ("claude", &["anthropic"]),
        ("codex", &["openai"]),
        ("cursor", &["cursor"]),
        ("gemini", &["google"]),
        ("ollama", &[]),
        ("opencode", &["anthropic", "openai", "google"]),
    ];

    const SECRET_ENDS: &[&str] = &["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS"];

    /// Secrets in the profile that are another's, or that go to nobody it talks to.
    fn foreign_secrets(profile: &AgentProfile) -> Vec<String> {
        let (_, trusted) = TRUSTED
            .iter()
            .find(|(name, _)| *name == profile.name.as_str())
            .unwrap();
        let is_own = |name: &str| {
            VENDORS.iter().any(|(prefix, vendor, domain)| {
                let talks_to = |pattern: &DomainPattern| pattern.as_str().ends_with(domain);
                name.starts_with(prefix)
                    && trusted.contains(vendor)
                    && profile.network.domains.iter().any(talks_to)
            })
        };
        let Environment { pass, set } = &profile.environment;
        let names = pass.iter().chain(set.keys()).map(EnvName::as_str);
        let is_secret = |name: &&str| SECRET_ENDS.iter().any(|end| name.ends_with(end));
        names
            .filter(is_secret)
            .filter(|name| !is_own(name))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn all_embedded_profiles_parse_and_are_found_by_their_names() {
        let names: Vec<&str> = EMBEDDED
            .iter()
            .map(|text| {
                let profile = AgentProfile::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                AgentProfile::find(profile.name.as_str())
                    .unwrap()
                    .name
                    .as_str()
            })
            .collect();

        assert_eq!(
            names,
            ["claude", "codex", "cursor", "gemini", "ollama", "opencode"]
        );
        assert_eq!(AgentProfile::all().len(), EMBEDDED.len());
        assert_eq!(AgentProfile::find("Claude"), None);
        assert_eq!(AgentProfile::find(""), None);
    }

    #[test]
    fn no_two_agents_share_a_name_or_a_program() {
        let mut names = BTreeSet::new();
        let mut programs = BTreeSet::new();
        for profile in AgentProfile::all() {
            assert!(names.insert(&profile.name), "{} twice", profile.name);
            for program in &profile.binaries {
                assert!(programs.insert(program), "{program} twice");
            }
        }
    }

    #[test]
    fn no_agent_is_given_the_secret_of_another_vendor() {
        for profile in AgentProfile::all() {
            assert_eq!(foreign_secrets(profile), [""; 0], "{}", profile.name);
        }
    }

    #[test]
    fn a_secret_of_another_vendor_is_found() {
        let mut profile = AgentProfile::find("claude").unwrap().clone();
        for name in ["OPENAI_API_KEY", "GITHUB_TOKEN", "ANTHROPIC_API_KEY"] {
            profile.environment.pass.push(name.parse().unwrap());
        }

        assert_eq!(
            foreign_secrets(&profile),
            ["OPENAI_API_KEY", "GITHUB_TOKEN"]
        );

        profile.network.domains.clear();

        assert!(foreign_secrets(&profile).contains(&"ANTHROPIC_API_KEY".to_owned()));
    }

    #[track_caller]
    fn launches(agent: &str, resume: Option<&str>, args: &[&str], line: &[&str]) {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let launched = AgentProfile::find(agent).unwrap().launch(resume, &args);
        assert_eq!(launched.unwrap(), line);
    }

    #[test]
    fn an_agent_is_started_with_the_arguments_of_the_caller() {
        launches("claude", None, &[], &["claude"]);
        launches("claude", None, &["-p", "a b"], &["claude", "-p", "a b"]);
        launches("codex", None, &["fix it"], &["codex", "fix it"]);
        launches("cursor", None, &[], &["cursor-agent"]);
        launches("gemini", None, &[], &["gemini"]);
        launches("opencode", None, &["."], &["opencode", "."]);
    }

    #[test]
    fn default_arguments_give_way_to_words_and_stay_with_options() {
        launches("ollama", None, &[], &["ollama", "run", "llama3.2"]);
        launches(
            "ollama",
            None,
            &["--verbose"],
            &["ollama", "run", "llama3.2", "--verbose"],
        );
        launches(
            "ollama",
            None,
            &["qwen3", "--verbose"],
            &["ollama", "run", "qwen3", "--verbose"],
        );
    }

    #[test]
    fn a_conversation_is_resumed_by_its_identity() {
        launches(
            "claude",
            Some("7f-1"),
            &["-v"],
            &["claude", "--resume", "7f-1", "-v"],
        );
        launches(
            "codex",
            Some("7f-1"),
            &["-v"],
            &["codex", "resume", "7f-1", "-v"],
        );
        launches(
            "cursor",
            Some("7f-1"),
            &[],
            &["cursor-agent", "--resume=7f-1"],
        );
        launches("gemini", Some("7f-1"), &[], &["gemini", "--resume", "7f-1"]);
        launches(
            "opencode",
            Some("ses_1"),
            &[],
            &["opencode", "--session", "ses_1"],
        );
    }

    #[test]
    fn the_last_conversation_is_continued() {
        let last = |name| {
            AgentProfile::find(name)
                .unwrap()
                .launch_last(&["-v".to_owned()])
        };

        assert_eq!(last("claude").unwrap(), ["claude", "--continue", "-v"]);
        assert_eq!(last("codex").unwrap(), ["codex", "resume", "--last", "-v"]);
        assert_eq!(last("cursor").unwrap(), ["cursor-agent", "resume", "-v"]);
        assert_eq!(
            last("gemini").unwrap(),
            ["gemini", "--resume", "latest", "-v"]
        );
        assert_eq!(last("opencode").unwrap(), ["opencode", "--continue", "-v"]);
        assert!(last("ollama").is_err());
    }

    #[test]
    fn an_agent_that_cannot_resume_says_so() {
        let ollama = AgentProfile::find("ollama").unwrap();

        let error = ollama.launch(Some("7f-1"), &[]).unwrap_err();

        let title = "Ollama".to_owned();
        assert_eq!(error, LaunchError::CannotResume { title });
        assert!(ollama.launch(None, &[]).is_ok());
    }

    #[test]
    fn an_identity_cannot_become_an_option() {
        let claude = AgentProfile::find("claude").unwrap();
        let long = "x".repeat(MAX_RESUME_ID + 1);

        for id in [
            "",
            "-p",
            "--dangerously-skip-permissions",
            "a\nb",
            "a\0",
            &long,
        ] {
            let error = claude.launch(Some(id), &[]).unwrap_err();
            assert_eq!(error, LaunchError::ResumeId { id: id.to_owned() });
        }
        assert!(claude.launch(Some("{id}"), &[]).is_ok());
        assert!(claude.launch(Some("a--b"), &[]).is_ok());
    }

    #[test]
    fn only_named_variables_are_passed_and_the_value_of_the_caller_wins() {
        let claude = AgentProfile::find("claude").unwrap();
        let env = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect()
        };

        let given = claude.env(&env(&[
            ("AWS_SECRET_ACCESS_KEY", "a"),
            ("ANTHROPIC_API_KEY", "b"),
            ("OPENAI_API_KEY", "c"),
            ("ANTHROPIC_API_KEY", "d"),
            ("ANTHROPIC_API_KEY_OLD", "e"),
        ]));

        assert_eq!(
            given,
            env(&[("ANTHROPIC_API_KEY", "b"), ("DISABLE_AUTOUPDATER", "1")])
        );
        assert_eq!(
            claude.env(&env(&[("DISABLE_AUTOUPDATER", "0")])),
            env(&[("DISABLE_AUTOUPDATER", "0")])
        );
    }

    /// The least that a profile must say.
    const LEAST: &str = "\
version: 1
name: mine
title: Mine
binaries: [mine]
install: make install
input:
  bracketed_paste: false
  enter_delay_ms: 0
";

    #[test]
    fn a_profile_may_leave_out_what_the_agent_does_not_need() {
        let profile = AgentProfile::parse(LEAST).unwrap();

        assert_eq!(profile.version_arguments, ["--version"]);
        assert_eq!(profile.environment, Environment::default());
        assert_eq!(profile.network, Network::default());
        assert_eq!(profile.launch(None, &[]).unwrap(), ["mine"]);
        assert_eq!(profile.env(&[("HOME".to_owned(), "/".to_owned())]), []);
    }

    /// What is said of the least profile with these lines added at its end.
    #[track_caller]
    fn refused(more: &str) -> String {
        let error = AgentProfile::parse(&format!("{LEAST}{more}")).unwrap_err();
        error.to_string()
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place() {
        let top = refused("colour: red\n");
        let start = "line 9, column 1: colour: unknown key; expected one of version, name, title,";
        assert!(top.starts_with(start), "{top}");

        assert_eq!(
            refused("environment:\n  pass: [A]\n  unset: [B]\n"),
            "line 11, column 3: environment.unset: unknown key; expected one of pass, set"
        );
        assert_eq!(
            refused("paths:\n  - path: ~/.mine\n    kind: dir\n    mode: rw\n"),
            "line 12, column 5: paths.mode: unknown key; expected one of path, kind, moved_by"
        );
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_place() {
        let starts = [
            (
                "environment:\n  pass:\n    - OK\n    - AWS_*\n",
                "line 12, column 7: environment.pass: \"AWS_*\" is not the name of a variable",
            ),
            (
                "environment:\n  set:\n    WT_SESSION_ID: x\n",
                "line 11, column 5: environment.set.WT_SESSION_ID: \"WT_SESSION_ID\" is not",
            ),
            (
                "network:\n  domains:\n    - example.com:443\n",
                "line 11, column 7: network.domains: \"example.com:443\" is not a domain",
            ),
            (
                "network:\n  local_ports: [0]\n",
                "line 10, column 17: network.local_ports: found integer `0`; expected a whole \
                 number from 1 to 65535",
            ),
            (
                "paths:\n  - path: ~/../x\n    kind: dir\n",
                "line 10, column 11: paths.path: \"~/../x\" is not a path below the home directory",
            ),
            (
                "paths:\n  - path: ~/.x\n    kind: link\n",
                "line 11, column 11: paths.kind: unknown value \"link\"; expected one of dir, file, \
                 file-with-siblings",
            ),
            (
                "resume:\n  by_id: [resume]\n",
                "line 10, column 10: resume.by_id: found {id} 0 times; expected it once",
            ),
            (
                "resume:\n  last: []\n",
                "line 10, column 9: resume.last: found 0 entries; expected 1 to 128",
            ),
            (
                "arguments: [\"a\\nb\"]\n",
                "line 9, column 12: arguments: found \"a\\nb\"; expected one line",
            ),
            (
                "shells_out_to: [git, bash, git]\n",
                "line 9, column 16: shells_out_to: git stands here twice",
            ),
        ];
        for (more, start) in starts {
            let said = refused(more);
            assert!(said.starts_with(start), "{said}");
        }
    }

    #[test]
    fn values_that_contradict_each_other_are_refused_with_their_place() {
        assert_eq!(
            refused("environment:\n  pass: [A]\n  set:\n    A: x\n"),
            "line 10, column 3: environment: A is both passed and set; expected it under set alone"
        );
        assert_eq!(
            refused("paths:\n  - path: ~/.x\n    kind: dir\n    moved_by: X_HOME\n"),
            "line 10, column 5: paths: X_HOME moves the path and is not passed; expected one of \
             environment.pass"
        );
        assert_eq!(
            refused("paths:\n  - path: ~/.x\n    kind: dir\n  - path: ~/.x\n    kind: file\n"),
            "line 12, column 5: paths: ~/.x stands here twice"
        );
    }

    #[test]
    fn a_profile_that_is_cut_short_is_read_or_refused_in_good_order() {
        for text in EMBEDDED {
            for end in (0..text.len())
                .step_by(5)
                .filter(|end| text.is_char_boundary(*end))
            {
                if let Err(error) = AgentProfile::parse(&text[..end]) {
                    assert!(error.line.is_some(), "at {end}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_profile_of_another_format_is_refused() {
        let text = LEAST.replace("version: 1", "version: 2");

        let error = AgentProfile::parse(&text).unwrap_err();

        assert_eq!(
            error.to_string(),
            "line 1, column 10: version: found 2; expected 1"
        );
    }

    #[test]
    fn enter_waits_no_longer_than_a_person_would() {
        let with = |delay: u128| LEAST.replace("_ms: 0", &format!("_ms: {delay}"));
        let most = MAX_ENTER_DELAY.as_millis();

        assert_eq!(
            AgentProfile::parse(&with(most)).unwrap().input.enter_delay,
            MAX_ENTER_DELAY
        );
        assert!(AgentProfile::parse(&with(most + 1)).is_err());
    }
}

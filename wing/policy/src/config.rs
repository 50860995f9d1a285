//! `egg.yaml` as it is written: every form that its keys may have, with lines.
//!
//! This file knows what a text says and not what it means for a session: paths stay
//! unexpanded and bases unread. [`crate::resolve`] puts several such files together.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

use crate::effective::{FileAccess, NetworkMode};
use crate::names::{EnvName, ProgramName};
use crate::net::{HostRule, Port, RuleError};
use crate::units;
use crate::yaml::{self, ParseError};

/// How many entries one list may have: a policy that a person can review has tens.
pub const MAX_LIST: usize = 512;

/// The longest path that is taken, as the kernel has it (`PATH_MAX`).
pub const MAX_PATH: usize = 4096;

/// What an `egg.yaml` says.
///
/// `None` means that the key does not stand there, which is not the same as an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EggConfig {
    /// What the file builds on.
    pub base: Option<Located<Base>>,
    /// Rules for files, in their order.
    pub fs: Option<Vec<Located<FsEntry>>>,
    /// Whom the session may talk to.
    pub network: Option<NetworkField>,
    /// Variables that are passed on.
    pub env: Option<EnvField>,
    /// Limits.
    pub resources: ResourceField,
    /// The shell of a session that names no command.
    pub shell: Option<Located<String>>,
    /// Whether the agent is told to ask no questions.
    pub dangerously_skip_permissions: Option<Located<bool>>,
    /// Whether the session is recorded.
    pub audit: Option<Located<bool>>,
    /// Whether its system calls are logged.
    pub trace: Option<Located<bool>>,
    /// The settings file of each agent, by the agent's name.
    pub agent_settings: BTreeMap<String, Located<String>>,
}

/// A value and the line on which it stands.
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The line, from 1; `None` for a value that stands in no file.
    pub line: Option<u64>,
}

/// Two are equal when their values are: the same text with one more comment says the same.
impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Located<T> {}

impl<T> Located<T> {
    /// A value that stands in no file.
    pub fn nowhere(value: T) -> Self {
        Self { value, line: None }
    }
}

/// What a file builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// `base: none`: on nothing.
    Nothing,
    /// `base: NAME`: on another file, whole.
    File(BaseName),
    /// `base: {...}`: on another file or the default, with sections taken from elsewhere.
    Masked {
        /// The file; the default if `None`.
        name: Option<BaseName>,
        /// Where the rules for files come from instead.
        fs: Option<Mask>,
        /// Where the network comes from instead.
        network: Option<Mask>,
        /// Where the variables come from instead.
        env: Option<Mask>,
    },
}

/// Where one section of a base comes from instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mask {
    /// `none`: the section is empty.
    Nothing,
    /// The section of another file, with all that it builds on.
    File(BaseName),
}

/// How a base is named: an absolute path, a path that starts with `./` or `../` (from the
/// folder of the file that names it), or a plain name (`NAME.yaml` in the folder `bases`
/// of the profile).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseName(String);

impl BaseName {
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Result<Self, String> {
        let is_path = ["/", "./", "../"]
            .iter()
            .any(|start| text.starts_with(start));
        let is_sound = text.len() <= MAX_PATH && !text.contains(char::is_control);
        if is_sound && (is_path && !text.ends_with('/') || text.parse::<ProgramName>().is_ok()) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "{text:?} names no base; expected none, a name like strict, or a path that starts \
             with /, ./ or ../"
        ))
    }
}

/// One entry of `fs`: `mode:path`, or a path alone, which means `rw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsEntry {
    /// What the rule says.
    pub access: FileAccess,
    /// The path as it was written: absolute, or starting with `~`, `.` or `$CWD`.
    pub path: String,
}

impl FsEntry {
    /// Reads one entry.
    ///
    /// # Errors
    /// A mode that is none, or a path that does not say where it starts, leads upwards, or
    /// has a `*` anywhere but in its last part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (access, path) = match text.split_once(':') {
            Some(("rw", path)) => (FileAccess::Rw, path),
            Some(("ro", path)) => (FileAccess::Ro, path),
            Some(("deny", path)) => (FileAccess::Deny, path),
            Some(("deny-write", path)) => (FileAccess::DenyWrite, path),
            Some((mode, _)) if !mode.starts_with(['/', '~', '.', '$']) => {
                return Err(format!(
                    "unknown mode {mode:?}; expected rw, ro, deny or deny-write before the colon"
                ));
            }
            _ => (FileAccess::Rw, text),
        };
        check_path(path)?;
        Ok(Self {
            access,
            path: path.to_owned(),
        })
    }
}

/// Checks a path as it may stand in a file.
fn check_path(path: &str) -> Result<(), String> {
    let relative = match path {
        "~" | "." | "$CWD" => "",
        path => ["~/", "./", "$CWD/", "/"]
            .iter()
            .find_map(|start| path.strip_prefix(start))
            .ok_or_else(|| {
                format!(
                    "found {path:?}; expected a path that starts with /, ~/, ./ or $CWD/ \
                     (write ./{path} for one in the project)"
                )
            })?,
    };
    if path.len() > MAX_PATH || path.contains(char::is_control) {
        return Err(format!(
            "expected a path of at most {MAX_PATH} bytes without control characters"
        ));
    }
    if relative.split('/').any(|part| part == "..") {
        return Err(format!(
            "{path:?} leads upwards; expected a path without .. (write where it ends)"
        ));
    }
    let parts: Vec<&str> = relative
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let is_star_early = parts.iter().rev().skip(1).any(|part| part.contains('*'));
    if is_star_early || path.contains("**") || path.contains('*') && path.ends_with('/') {
        return Err(format!(
            "{path:?} has * in the middle; expected it in the last part alone, and single"
        ));
    }
    Ok(())
}

/// The key `network` in the form in which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkField {
    /// One word: `none`, nothing, `*`, or a host.
    Scalar(Located<HostEntry>),
    /// A list of hosts.
    List(Vec<Located<HostEntry>>),
    /// All that can be said.
    Map(Box<NetworkMap>),
}

impl NetworkField {
    /// What was written for hosts.
    pub fn hosts(&self) -> &[Located<HostEntry>] {
        match self {
            Self::Scalar(entry) => std::slice::from_ref(entry),
            Self::List(entries) => entries,
            Self::Map(map) => map.domains.as_deref().unwrap_or_default(),
        }
    }

    /// The long form, if it is that.
    pub fn map(&self) -> Option<&NetworkMap> {
        match self {
            Self::Map(map) => Some(map),
            Self::Scalar(_) | Self::List(_) => None,
        }
    }
}

/// The long form of `network`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkMap {
    /// Hosts.
    pub domains: Option<Vec<Located<HostEntry>>>,
    /// Ports of servers on the same machine.
    pub local_ports: Option<Vec<Located<Port>>>,
    /// What happens to a connection that no rule allows.
    pub mode: Option<Located<ModeWord>>,
    /// Read and without effect: decisions are always noted.
    pub log: Option<Located<bool>>,
    /// Whether the agent's own hosts are added.
    pub agent_domains: Option<Located<AgentDomainsWord>>,
}

/// One entry for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEntry {
    /// `none` or nothing: adds no host.
    Nothing,
    /// `*`: every public host.
    Any,
    /// `localhost`, `127.0.0.1` or `[::1]`, and a port if one was named: servers of the
    /// same machine are meant.
    Loopback {
        /// As it was written, without the port.
        name: String,
        /// The port.
        port: Option<Port>,
    },
    /// A host or the hosts below a name.
    Rule {
        /// What it means.
        rule: HostRule,
        /// As it was written.
        text: String,
    },
}

impl HostEntry {
    /// Reads one entry.
    ///
    /// # Errors
    /// Anything that is no host, address or pattern with an optional port.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" | "" => return Ok(Self::Nothing),
            "*" => return Ok(Self::Any),
            _ => {}
        }
        if let Some(loopback) = loopback(text)? {
            return Ok(loopback);
        }
        let rule = text.parse().map_err(|error: RuleError| error.to_string())?;
        Ok(Self::Rule {
            rule,
            text: text.to_owned(),
        })
    }
}

/// The spellings of the machine itself. They name no host that a session could reach by
/// name, and say that it is meant to use servers beside it.
const LOOPBACK_NAMES: &[&str] = &["localhost", "127.0.0.1", "[::1]", "::1"];

fn loopback(text: &str) -> Result<Option<HostEntry>, String> {
    let lower = text.to_ascii_lowercase();
    for name in LOOPBACK_NAMES {
        let Some(rest) = lower.strip_prefix(name) else {
            continue;
        };
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            None => continue,
            Some(port) => Some(parse_port(port)?),
        };
        return Ok(Some(HostEntry::Loopback {
            name: (*name).to_owned(),
            port,
        }));
    }
    Ok(None)
}

pub(crate) fn parse_port(text: &str) -> Result<Port, String> {
    text.parse::<Port>().map_err(|error| error.to_string())
}

impl fmt::Display for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Any => f.write_str("*"),
            Self::Loopback { name, port: None } => f.write_str(name),
            Self::Loopback {
                name,
                port: Some(port),
            } => write!(f, "{name}:{port}"),
            Self::Rule { text, .. } => f.write_str(text),
        }
    }
}

/// The word for the network's mode. Nothing written is `enforce`, and leaves what a base says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeWord {
    /// `""`
    Unsaid,
    /// `enforce`
    Enforce,
    /// `observe`
    Observe,
}

impl ModeWord {
    /// What it means, if it says something.
    pub fn mode(self) -> Option<NetworkMode> {
        match self {
            Self::Unsaid => None,
            Self::Enforce => Some(NetworkMode::Enforce),
            Self::Observe => Some(NetworkMode::Observe),
        }
    }
}

/// The word for the agent's own hosts. Nothing written is `merge`, and leaves what a base says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentDomainsWord {
    /// `""`
    Unsaid,
    /// `merge`: they are added.
    Merge,
    /// `none`: they are not.
    Nothing,
}

/// The key `env` in the form in which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvField {
    /// One name, or `*`.
    Scalar(Located<EnvEntry>),
    /// A list of names.
    List(Vec<Located<EnvEntry>>),
}

impl EnvField {
    /// What was written.
    pub fn entries(&self) -> &[Located<EnvEntry>] {
        match self {
            Self::Scalar(entry) => std::slice::from_ref(entry),
            Self::List(entries) => entries,
        }
    }
}

/// One entry of `env`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvEntry {
    /// `*`: all that are not held back by name.
    All,
    /// One variable.
    Name(EnvName),
}

impl EnvEntry {
    /// Reads one entry.
    ///
    /// # Errors
    /// What is no name of a variable.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "*" => Ok(Self::All),
            name => name
                .parse()
                .map(Self::Name)
                .map_err(|error| format!("{error}")),
        }
    }
}

/// The key `resources`. `None` is what is not said, an empty word or a zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceField {
    /// Computing time, with the text that says it.
    pub cpu: Option<Located<(Duration, String)>>,
    /// Memory in bytes, with the text that says it.
    pub memory: Option<Located<(u64, String)>>,
    /// Open files of one process.
    pub max_fds: Option<Located<u32>>,
    /// Processes and threads.
    pub max_pids: Option<Located<u32>>,
}

impl EggConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// The first fault with its line, column and key, and what was expected: no YAML, an
    /// unknown or doubled key, a value that is not what its key takes.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        // A file of comments says nothing, which is allowed: it is what a person starts with.
        let says_something = text.lines().any(|line| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#') && line != "---"
        });
        if !says_something && text.len() <= yaml::MAX_YAML_BYTES {
            return Ok(Self::default());
        }
        let file: ConfigFile = yaml::parse(text)?;
        file.check(&Text(text))
    }
}

/// A file as YAML has it, before its words are understood.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    base: Option<Spanned<Shape<BaseFile>>>,
    #[serde(default)]
    fs: Option<Vec<Spanned<Word>>>,
    #[serde(default)]
    network: Option<Spanned<Shape<NetworkFile>>>,
    #[serde(default)]
    env: Option<Spanned<Shape<NoMap>>>,
    #[serde(default)]
    resources: Option<ResourceFile>,
    #[serde(default)]
    shell: Option<Spanned<Word>>,
    #[serde(default)]
    dangerously_skip_permissions: Option<Spanned<bool>>,
    #[serde(default)]
    audit: Option<Spanned<bool>>,
    #[serde(default)]
    trace: Option<Spanned<bool>>,
    #[serde(default)]
    agent_settings: Option<BTreeMap<String, Spanned<Word>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BaseFile {
    #[serde(default)]
    name: Option<Spanned<Word>>,
    #[serde(default)]
    fs: Option<Spanned<Word>>,
    #[serde(default)]
    network: Option<Spanned<Word>>,
    #[serde(default)]
    env: Option<Spanned<Word>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    #[serde(default)]
    domains: Option<Vec<Spanned<Word>>>,
    #[serde(default)]
    local_ports: Option<Vec<Spanned<u16>>>,
    #[serde(default)]
    mode: Option<Spanned<Word>>,
    #[serde(default)]
    log: Option<Spanned<bool>>,
    #[serde(default)]
    agent_domains: Option<Spanned<Word>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceFile {
    #[serde(default)]
    cpu: Option<Spanned<Word>>,
    #[serde(default)]
    memory: Option<Spanned<Word>>,
    #[serde(default)]
    max_fds: Option<Spanned<u32>>,
    #[serde(default)]
    max_pids: Option<Spanned<u32>>,
}

/// What stands where no mapping is allowed.
enum NoMap {}

impl<'de> Deserialize<'de> for NoMap {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("expected one word or a list of words"))
    }
}

/// One scalar, as the text that stands there.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By this way of asking, numbers and `~` are text as well.
        String::deserialize(deserializer).map(Self)
    }
}

/// A value that may be written in three ways.
enum Shape<M> {
    Empty,
    Scalar(String),
    List(Vec<Spanned<Word>>),
    Map(M),
}

impl<'de, M: Deserialize<'de>> Deserialize<'de> for Shape<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShapeVisitor<M>(PhantomData<M>);

        impl<'de, M: Deserialize<'de>> Visitor<'de> for ShapeVisitor<M> {
            type Value = Shape<M>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word, a list of words, or keys with values where the key has them")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Shape::Empty)
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(Shape::Empty)
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Shape::Scalar(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(Shape::List(words))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                M::deserialize(MapAccessDeserializer::new(map)).map(Shape::Map)
            }
        }

        deserializer.deserialize_any(ShapeVisitor(PhantomData))
    }
}

/// The text that is read: it knows which key stands where.
struct Text<'a>(&'a str);

impl Text<'_> {
    fn fault(&self, at: Location, problem: String) -> ParseError {
        yaml::error_at(self.0, at, problem)
    }

    /// Understands one word.
    fn word<T>(
        &self,
        word: Spanned<Word>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Located<T>, ParseError> {
        self.scalar(&word.value.0, word.referenced, parse)
    }

    fn scalar<T>(
        &self,
        word: &str,
        at: Location,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Located<T>, ParseError> {
        let value = parse(word).map_err(|problem| self.fault(at, problem))?;
        Ok(located(value, at))
    }

    /// Understands the words of a list.
    fn list<T>(
        &self,
        words: Vec<Spanned<Word>>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<Located<T>>, ParseError> {
        self.check_count(words.get(MAX_LIST).map(|word| word.referenced))?;
        words
            .into_iter()
            .map(|word| self.word(word, &parse))
            .collect()
    }

    /// Refuses a list by its first entry that is too many.
    fn check_count(&self, first_beyond: Option<Location>) -> Result<(), ParseError> {
        match first_beyond {
            None => Ok(()),
            Some(at) => Err(self.fault(at, format!("expected at most {MAX_LIST} entries"))),
        }
    }
}

fn located<T>(value: T, at: Location) -> Located<T> {
    Located {
        value,
        line: (at.line() > 0).then(|| at.line()),
    }
}

fn located_flag(flag: Option<Spanned<bool>>) -> Option<Located<bool>> {
    flag.map(|flag| located(flag.value, flag.referenced))
}

impl ConfigFile {
    fn check(self, text: &Text<'_>) -> Result<EggConfig, ParseError> {
        Ok(EggConfig {
            base: self.base.map_or(Ok(None), |base| check_base(base, text))?,
            fs: self
                .fs
                .map(|entries| text.list(entries, FsEntry::parse))
                .transpose()?,
            network: self.network.map(|n| check_network(n, text)).transpose()?,
            env: self.env.map_or(Ok(None), |env| check_env(env, text))?,
            resources: self
                .resources
                .map(|resources| resources.check(text))
                .transpose()?
                .unwrap_or_default(),
            shell: match self.shell {
                None => None,
                Some(shell) if shell.value.0.is_empty() => None,
                Some(shell) => Some(text.word(shell, shell_path)?),
            },
            dangerously_skip_permissions: located_flag(self.dangerously_skip_permissions),
            audit: located_flag(self.audit),
            trace: located_flag(self.trace),
            agent_settings: self
                .agent_settings
                .unwrap_or_default()
                .into_iter()
                .map(|(agent, path)| {
                    let at = path.referenced;
                    if let Err(error) = agent.parse::<ProgramName>() {
                        return Err(text.fault(at, error.to_string()));
                    }
                    Ok((agent, text.word(path, settings_path)?))
                })
                .collect::<Result<_, ParseError>>()?,
        })
    }
}

fn check_base(
    base: Spanned<Shape<BaseFile>>,
    text: &Text<'_>,
) -> Result<Option<Located<Base>>, ParseError> {
    let at = base.referenced;
    let base = match base.value {
        Shape::Empty => return Ok(None),
        Shape::Scalar(word) if word.is_empty() => return Ok(None),
        Shape::Scalar(word) if word == "none" => Base::Nothing,
        Shape::Scalar(word) => Base::File(text.scalar(&word, at, BaseName::parse)?.value),
        Shape::List(_) => {
            let problem = "found a list; expected none, one name or path, or the keys name, fs, \
                           network and env";
            return Err(text.fault(at, problem.to_owned()));
        }
        Shape::Map(map) => check_masks(map, text)?,
    };
    Ok(Some(located(base, at)))
}

fn check_masks(map: BaseFile, text: &Text<'_>) -> Result<Base, ParseError> {
    let has_masks = map.fs.is_some() || map.network.is_some() || map.env.is_some();
    let mask = |word: Option<Spanned<Word>>| -> Result<Option<Mask>, ParseError> {
        let Some(word) = word.filter(|word| !word.value.0.is_empty()) else {
            return Ok(None);
        };
        let mask = text.word(word, |word| match word {
            "none" => Ok(Mask::Nothing),
            name => BaseName::parse(name).map(Mask::File),
        })?;
        Ok(Some(mask.value))
    };
    let name = match map.name {
        None => None,
        Some(name) if name.value.0.is_empty() => None,
        Some(name) if name.value.0 == "none" => {
            if has_masks {
                let problem = "found none beside fs, network or env; expected a base to take \
                               sections from, or base: none alone";
                return Err(text.fault(name.referenced, problem.to_owned()));
            }
            return Ok(Base::Nothing);
        }
        Some(name) => Some(text.word(name, BaseName::parse)?.value),
    };
    Ok(Base::Masked {
        name,
        fs: mask(map.fs)?,
        network: mask(map.network)?,
        env: mask(map.env)?,
    })
}

fn check_network(
    network: Spanned<Shape<NetworkFile>>,
    text: &Text<'_>,
) -> Result<NetworkField, ParseError> {
    let at = network.referenced;
    match network.value {
        Shape::Empty => Ok(NetworkField::Scalar(located(HostEntry::Nothing, at))),
        Shape::Scalar(word) => text
            .scalar(&word, at, HostEntry::parse)
            .map(NetworkField::Scalar),
        Shape::List(words) => text.list(words, host_in_list).map(NetworkField::List),
        Shape::Map(map) => {
            let domains = map
                .domains
                .map(|words| text.list(words, host_in_list))
                .transpose()?;
            Ok(NetworkField::Map(Box::new(NetworkMap {
                domains,
                local_ports: map
                    .local_ports
                    .map(|ports| check_ports(ports, text))
                    .transpose()?,
                mode: map
                    .mode
                    .map(|word| text.word(word, mode_word))
                    .transpose()?,
                log: located_flag(map.log),
                agent_domains: map
                    .agent_domains
                    .map(|word| text.word(word, agent_domains_word))
                    .transpose()?,
            })))
        }
    }
}

/// In a list `none` would look as if it took something away.
fn host_in_list(word: &str) -> Result<HostEntry, String> {
    match HostEntry::parse(word)? {
        HostEntry::Nothing => Err(format!(
            "found {word:?} in a list; expected hosts (write network: none, or an empty list)"
        )),
        entry => Ok(entry),
    }
}

fn check_ports(
    ports: Vec<Spanned<u16>>,
    text: &Text<'_>,
) -> Result<Vec<Located<Port>>, ParseError> {
    text.check_count(ports.get(MAX_LIST).map(|port| port.referenced))?;
    ports
        .into_iter()
        .map(|port| text.scalar(&port.value.to_string(), port.referenced, parse_port))
        .collect()
}

fn mode_word(word: &str) -> Result<ModeWord, String> {
    match word {
        "" => Ok(ModeWord::Unsaid),
        "enforce" => Ok(ModeWord::Enforce),
        "observe" => Ok(ModeWord::Observe),
        other => Err(format!(
            "unknown value {other:?}; expected enforce or observe"
        )),
    }
}

fn agent_domains_word(word: &str) -> Result<AgentDomainsWord, String> {
    match word {
        "" => Ok(AgentDomainsWord::Unsaid),
        "merge" => Ok(AgentDomainsWord::Merge),
        "none" => Ok(AgentDomainsWord::Nothing),
        other => Err(format!("unknown value {other:?}; expected merge or none")),
    }
}

fn check_env(env: Spanned<Shape<NoMap>>, text: &Text<'_>) -> Result<Option<EnvField>, ParseError> {
    let at = env.referenced;
    match env.value {
        Shape::Empty => Ok(None),
        Shape::Scalar(word) if word.is_empty() => Ok(None),
        Shape::Scalar(word) => {
            let entry = text.scalar(&word, at, EnvEntry::parse)?;
            Ok(Some(EnvField::Scalar(entry)))
        }
        Shape::List(words) => {
            let entries = text.list(words, EnvEntry::parse)?;
            Ok(Some(EnvField::List(entries)))
        }
        Shape::Map(never) => match never {},
    }
}

impl ResourceFile {
    fn check(self, text: &Text<'_>) -> Result<ResourceField, ParseError> {
        let count = |number: Option<Spanned<u32>>| {
            number
                .filter(|number| number.value > 0)
                .map(|number| located(number.value, number.referenced))
        };
        let said = |word: &Spanned<Word>| !matches!(word.value.0.as_str(), "" | "0");
        Ok(ResourceField {
            cpu: self
                .cpu
                .filter(said)
                .map(|word| text.word(word, |word| Ok((units::duration(word)?, word.to_owned()))))
                .transpose()?,
            memory: self
                .memory
                .filter(said)
                .map(|word| text.word(word, |word| Ok((units::memory(word)?, word.to_owned()))))
                .transpose()?,
            max_fds: count(self.max_fds),
            max_pids: count(self.max_pids),
        })
    }
}

fn shell_path(word: &str) -> Result<String, String> {
    let is_name = word.parse::<ProgramName>().is_ok();
    let is_path = check_path(word).is_ok() && !word.contains('*');
    if is_name || is_path {
        return Ok(word.to_owned());
    }
    Err(format!(
        "{word:?} is no shell; expected the name of a program or a path to one, without arguments"
    ))
}

fn settings_path(word: &str) -> Result<String, String> {
    check_path(word)?;
    if word.contains('*') {
        return Err(format!("found {word:?}; expected the path of one file"));
    }
    Ok(word.to_owned())
}

impl EggConfig {
    /// Writes the file: keys in their usual order, each value in the form in which it was
    /// read. Reading it again gives an equal value; comments are not kept.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        if let Some(base) = &self.base {
            write_base(&mut out, &base.value);
        }
        if let Some(entries) = &self.fs {
            write_list(
                &mut out,
                0,
                "fs",
                entries.iter().map(|entry| fs_text(&entry.value)),
            );
        }
        if let Some(network) = &self.network {
            write_network(&mut out, network);
        }
        match &self.env {
            None => {}
            Some(EnvField::Scalar(entry)) => {
                write_word(&mut out, 0, "env", &env_text(&entry.value))
            }
            Some(EnvField::List(entries)) => {
                write_list(
                    &mut out,
                    0,
                    "env",
                    entries.iter().map(|entry| env_text(&entry.value)),
                );
            }
        }
        self.write_resources(&mut out);
        if let Some(shell) = &self.shell {
            write_word(&mut out, 0, "shell", &shell.value);
        }
        let flags = [
            (
                "dangerously_skip_permissions",
                &self.dangerously_skip_permissions,
            ),
            ("audit", &self.audit),
            ("trace", &self.trace),
        ];
        for (key, flag) in flags {
            if let Some(flag) = flag {
                out.push_str(&format!("{key}: {}\n", flag.value));
            }
        }
        if !self.agent_settings.is_empty() {
            out.push_str("agent_settings:\n");
            for (agent, path) in &self.agent_settings {
                write_word(&mut out, 2, agent, &path.value);
            }
        }
        out
    }

    fn write_resources(&self, out: &mut String) {
        let ResourceField {
            cpu,
            memory,
            max_fds,
            max_pids,
        } = &self.resources;
        let words = [
            ("cpu", cpu.as_ref().map(|cpu| cpu.value.1.clone())),
            (
                "memory",
                memory.as_ref().map(|memory| memory.value.1.clone()),
            ),
            ("max_fds", max_fds.as_ref().map(|fds| fds.value.to_string())),
            (
                "max_pids",
                max_pids.as_ref().map(|pids| pids.value.to_string()),
            ),
        ];
        if words.iter().all(|(_, word)| word.is_none()) {
            return;
        }
        out.push_str("resources:\n");
        for (key, word) in words {
            if let Some(word) = word {
                out.push_str(&format!("  {key}: {word}\n"));
            }
        }
    }
}

fn write_base(out: &mut String, base: &Base) {
    let mask_text = |mask: &Mask| match mask {
        Mask::Nothing => "none".to_owned(),
        Mask::File(name) => name.0.clone(),
    };
    match base {
        Base::Nothing => out.push_str("base: none\n"),
        Base::File(name) => write_word(out, 0, "base", &name.0),
        Base::Masked {
            name,
            fs,
            network,
            env,
        } => {
            let words = [
                ("name", name.as_ref().map(|name| name.0.clone())),
                ("fs", fs.as_ref().map(mask_text)),
                ("network", network.as_ref().map(mask_text)),
                ("env", env.as_ref().map(mask_text)),
            ];
            if words.iter().all(|(_, word)| word.is_none()) {
                out.push_str("base: {}\n");
                return;
            }
            out.push_str("base:\n");
            for (key, word) in words {
                if let Some(word) = word {
                    write_word(out, 2, key, &word);
                }
            }
        }
    }
}

fn write_network(out: &mut String, network: &NetworkField) {
    let hosts = |entries: &[Located<HostEntry>]| -> Vec<String> {
        entries
            .iter()
            .map(|entry| entry.value.to_string())
            .collect()
    };
    let map = match network {
        NetworkField::Scalar(entry) => {
            return write_word(out, 0, "network", &entry.value.to_string());
        }
        NetworkField::List(entries) => {
            return write_list(out, 0, "network", hosts(entries).into_iter());
        }
        NetworkField::Map(map) => map,
    };
    if **map == NetworkMap::default() {
        out.push_str("network: {}\n");
        return;
    }
    out.push_str("network:\n");
    if let Some(domains) = &map.domains {
        write_list(out, 2, "domains", hosts(domains).into_iter());
    }
    if let Some(ports) = &map.local_ports {
        let ports: Vec<String> = ports.iter().map(|port| port.value.to_string()).collect();
        out.push_str(&format!("  local_ports: [{}]\n", ports.join(", ")));
    }
    if let Some(mode) = &map.mode {
        let word = match mode.value {
            ModeWord::Unsaid => "\"\"",
            ModeWord::Enforce => "enforce",
            ModeWord::Observe => "observe",
        };
        out.push_str(&format!("  mode: {word}\n"));
    }
    if let Some(log) = &map.log {
        out.push_str(&format!("  log: {}\n", log.value));
    }
    if let Some(agent_domains) = &map.agent_domains {
        let word = match agent_domains.value {
            AgentDomainsWord::Unsaid => "\"\"",
            AgentDomainsWord::Merge => "merge",
            AgentDomainsWord::Nothing => "none",
        };
        out.push_str(&format!("  agent_domains: {word}\n"));
    }
}

fn fs_text(entry: &FsEntry) -> String {
    format!("{}:{}", entry.access.word(), entry.path)
}

fn env_text(entry: &EnvEntry) -> String {
    match entry {
        EnvEntry::All => "*".to_owned(),
        EnvEntry::Name(name) => name.to_string(),
    }
}

fn write_word(out: &mut String, indent: usize, key: &str, word: &str) {
    out.push_str(&format!(
        "{:indent$}{}: {}\n",
        "",
        quoted(key),
        quoted(word)
    ));
}

fn write_list(out: &mut String, indent: usize, key: &str, words: impl Iterator<Item = String>) {
    let lines: Vec<String> = words
        .map(|word| format!("{:indent$}  - {}\n", "", quoted(&word)))
        .collect();
    if lines.is_empty() {
        out.push_str(&format!("{:indent$}{key}: []\n", ""));
        return;
    }
    out.push_str(&format!("{:indent$}{key}:\n", ""));
    lines.iter().for_each(|line| out.push_str(line));
}

/// A word as YAML takes it for one: plain where nothing in it could mean something else.
fn quoted(word: &str) -> String {
    /// Words that YAML 1.1 or 1.2 reads as something else than text.
    const READ_AS_OTHER: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = word.starts_with(|c: char| c.is_ascii_alphabetic() || "/.$".contains(c))
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/.$_-~+:@".contains(&b))
        && !word.ends_with(':')
        && !word.starts_with("...")
        && word.bytes().any(|b| b.is_ascii_alphabetic() || b == b'/')
        && !READ_AS_OTHER.contains(&word.to_ascii_lowercase().as_str())
        // `.5` and `.inf` are numbers.
        && !(word.starts_with('.') && !word.starts_with("./") && !word.starts_with("../"));
    // With two dots or more it is an address and no number.
    let is_address = word.matches('.').count() >= 2
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(|c: char| c.is_ascii_digit())
        && word
            .bytes()
            .all(|b| b.is_ascii_digit() || b".:/".contains(&b));
    if is_plain || is_address {
        return word.to_owned();
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

impl FileAccess {
    /// The word for it in `egg.yaml`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rw => "rw",
            Self::Ro => "ro",
            Self::DenyWrite => "deny-write",
            Self::Deny => "deny",
        }
    }
}

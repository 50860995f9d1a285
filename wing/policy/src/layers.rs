//! Which files take part: found, read and parsed, with what they build on.
//!
//! Files come in through a function of the caller. What is read is kept as text too, so that
//! whoever records trust in a project records exactly what was understood.

use crate::config::{Base, BaseName, EggConfig, FsEntry, HostEntry, Located, Mask};
use crate::config::{EnvEntry, EnvField, NetworkField};
use crate::effective::Source;
use crate::paths;
use crate::yaml::ParseError;

/// The name of the file that says what sessions may do.
pub const EGG_FILE: &str = "egg.yaml";

/// The folder of bases in the profile directory.
pub const BASES_FOLDER: &str = "bases";

/// How long a chain of bases may be.
pub const MAX_DEPTH: usize = 10;

/// How many files may take part in one: with masks a chain is a tree, and a small file could
/// ask for a large one.
pub const MAX_FILES: usize = 32;

/// Where text comes from.
pub trait Files {
    /// Gives the text of a file; `None` if there is none.
    ///
    /// # Errors
    /// Why it could not be read, in words.
    fn read(&self, path: &str) -> Result<Option<String>, String>;
}

impl<F: Fn(&str) -> Result<Option<String>, String>> Files for F {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        self(path)
    }
}

/// Where a session starts, and where its files are looked for. Absolute paths; `..` is
/// refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The home directory.
    pub home: String,
    /// The directory that the session starts in.
    pub cwd: String,
    /// The directory of wingthing's own files (`WINGTHING_DIR`, or `~/.wingthing`).
    pub profile: String,
}

impl Places {
    /// The same places in one spelling.
    ///
    /// # Errors
    /// One of them is relative or leads upwards.
    pub(crate) fn checked(&self) -> Result<Self, LayerError> {
        let normal = |what: &str, path: &str| {
            paths::normal(path).ok_or_else(|| LayerError::Place {
                what: what.to_owned(),
                path: path.to_owned(),
            })
        };
        Ok(Self {
            home: normal("home directory", &self.home)?,
            cwd: normal("working directory", &self.cwd)?,
            profile: normal("profile directory", &self.profile)?,
        })
    }
}

/// The files that take part, the lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The user's own file, or the one that was named in its place.
    pub user: Option<ConfigFile>,
    /// The file of the project.
    pub project: Option<ConfigFile>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it is.
    pub path: String,
    /// Its text.
    pub text: String,
    /// What it says.
    pub config: EggConfig,
    /// Whose it is.
    pub origin: Origin,
    pub(crate) parent: Parent,
    pub(crate) fs: Option<Section>,
    pub(crate) network: Option<Section>,
    pub(crate) env: Option<Section>,
}

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The user's, in the profile directory.
    User,
    /// Named on the command line.
    Named,
    /// The project's.
    Project,
    /// Another file builds on it.
    Base,
}

/// What a file builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// On what stands below it: the user's layer for a project, the default for all others.
    Below,
    /// On nothing.
    Nothing,
    /// On another file.
    File(Box<ConfigFile>),
}

/// Where a section comes from in place of the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Nothing,
    File(Box<ConfigFile>),
}

/// An option of the command line, as a layer of its own above all files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionLayer {
    /// The option's name, like `--fs`.
    pub name: String,
    /// What it says. Its base is not looked at.
    pub config: EggConfig,
}

/// Why there is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// A place where sessions start is none.
    #[error("the {what} {path:?} is not an absolute path without ..; set it and start again")]
    Place {
        /// Which one.
        what: String,
        /// What was given.
        path: String,
    },
    /// A file could not be read.
    #[error("{path}: cannot be read: {problem}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        problem: String,
    },
    /// A file that was asked for does not exist.
    #[error("{path}: there is no such file")]
    Missing {
        /// The file.
        path: String,
    },
    /// A file is not what it should be.
    #[error("{path}: {error}")]
    Parse {
        /// The file.
        path: String,
        /// What is wrong, and where.
        error: ParseError,
    },
    /// A base is not there, or the chain of bases is none.
    #[error("{path}: {}base: {problem}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Base {
        /// The file that names it.
        path: String,
        /// The line that does.
        line: Option<u64>,
        /// What is wrong.
        problem: String,
    },
    /// An option of the command line says nothing that can be understood.
    #[error("{name}: {problem}")]
    Option {
        /// The option.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A layer says something that cannot be in this session.
    #[error("{by}: {problem}")]
    Value {
        /// Who says it.
        by: Box<Source>,
        /// What is wrong.
        problem: String,
    },
    /// All files together have more entries than a policy may have.
    #[error("the files together have over {most} entries for {what}; leave out some")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
}

/// Finds and reads the files for a session: `egg.yaml` in its directory (not in those above
/// it), and the user's `egg.yaml` in the profile directory, or `named` in its place.
///
/// # Errors
/// A file that cannot be read, a fault in any of them, or a named one that is not there. No
/// fault is passed over: what a file that cannot be understood forbids is unknown.
pub fn load(files: &dyn Files, places: &Places, named: Option<&str>) -> Result<Layers, LayerError> {
    let places = places.checked()?;
    let mut loader = Loader {
        files,
        profile: &places.profile,
        count: 0,
    };
    let user_path = match named {
        None => paths::join(&places.profile, EGG_FILE),
        Some(path) => paths::normal(path).ok_or_else(|| LayerError::Place {
            what: "named file".to_owned(),
            path: path.to_owned(),
        })?,
    };
    let origin = named.map_or(Origin::User, |_| Origin::Named);
    let user = loader.file(&user_path, origin, &mut Vec::new())?;
    if user.is_none() && named.is_some() {
        return Err(LayerError::Missing { path: user_path });
    }
    let project_path = paths::join(&places.cwd, EGG_FILE);
    // One that was named, or is the user's own, stands already where it may say more.
    let project = match project_path == user_path {
        true => None,
        false => loader.file(&project_path, Origin::Project, &mut Vec::new())?,
    };
    Ok(Layers { user, project })
}

/// Reads one file as if it were a project's, with what it builds on: for a check of it.
///
/// # Errors
/// As for [`load`]; also when it is not there.
pub fn load_file(files: &dyn Files, places: &Places, path: &str) -> Result<ConfigFile, LayerError> {
    let places = places.checked()?;
    let mut loader = Loader {
        files,
        profile: &places.profile,
        count: 0,
    };
    loader
        .file(path, Origin::Project, &mut Vec::new())?
        .ok_or_else(|| LayerError::Missing {
            path: path.to_owned(),
        })
}

struct Loader<'a> {
    files: &'a dyn Files,
    profile: &'a str,
    count: usize,
}

impl Loader<'_> {
    /// Reads a file and all it builds on. `chain` holds the files that led here.
    fn file(
        &mut self,
        path: &str,
        origin: Origin,
        chain: &mut Vec<String>,
    ) -> Result<Option<ConfigFile>, LayerError> {
        let text = self.files.read(path).map_err(|problem| LayerError::Read {
            path: path.to_owned(),
            problem,
        })?;
        let Some(text) = text else {
            return Ok(None);
        };
        let config = EggConfig::parse(&text).map_err(|error| LayerError::Parse {
            path: path.to_owned(),
            error,
        })?;
        chain.push(path.to_owned());
        let mut file = ConfigFile {
            path: path.to_owned(),
            text,
            origin,
            parent: Parent::Below,
            fs: None,
            network: None,
            env: None,
            config,
        };
        if let Some(base) = file.config.base.clone() {
            self.bases(&mut file, &base, chain)?;
        }
        chain.pop();
        Ok(Some(file))
    }

    fn bases(
        &mut self,
        file: &mut ConfigFile,
        base: &Located<Base>,
        chain: &mut Vec<String>,
    ) -> Result<(), LayerError> {
        let at = (file.path.clone(), base.line);
        match &base.value {
            Base::Nothing => file.parent = Parent::Nothing,
            Base::File(name) => file.parent = Parent::File(self.base(name, &at, chain)?),
            Base::Masked {
                name,
                fs,
                network,
                env,
            } => {
                if let Some(name) = name {
                    file.parent = Parent::File(self.base(name, &at, chain)?);
                }
                file.fs = self.section(fs.as_ref(), &at, chain)?;
                file.network = self.section(network.as_ref(), &at, chain)?;
                file.env = self.section(env.as_ref(), &at, chain)?;
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        mask: Option<&Mask>,
        at: &(String, Option<u64>),
        chain: &mut Vec<String>,
    ) -> Result<Option<Section>, LayerError> {
        match mask {
            None => Ok(None),
            Some(Mask::Nothing) => Ok(Some(Section::Nothing)),
            Some(Mask::File(name)) => Ok(Some(Section::File(self.base(name, at, chain)?))),
        }
    }

    fn base(
        &mut self,
        name: &BaseName,
        at: &(String, Option<u64>),
        chain: &mut Vec<String>,
    ) -> Result<Box<ConfigFile>, LayerError> {
        let wrong = |problem: String| LayerError::Base {
            path: at.0.clone(),
            line: at.1,
            problem,
        };
        let path = self.base_path(name, &at.0).ok_or_else(|| {
            wrong(format!(
                "{:?} leads out of the file system; expected a path that exists",
                name.as_str()
            ))
        })?;
        if chain.contains(&path) {
            let round = [chain.as_slice(), &[path]].concat().join(" builds on ");
            return Err(wrong(format!("the bases go in a circle: {round}")));
        }
        if chain.len() > MAX_DEPTH {
            return Err(wrong(format!(
                "the chain of bases is longer than {MAX_DEPTH}; put some together"
            )));
        }
        self.count += 1;
        if self.count > MAX_FILES {
            return Err(wrong(format!(
                "over {MAX_FILES} files take part; put some together"
            )));
        }
        let file = self.file(&path, Origin::Base, chain)?;
        file.map(Box::new)
            .ok_or_else(|| wrong(format!("there is no {path}; create it or correct the name")))
    }

    /// Where a base lies. A relative path starts at the file that names it and may lead
    /// upwards from there.
    fn base_path(&self, name: &BaseName, naming: &str) -> Option<String> {
        let name = name.as_str();
        if name.starts_with('/') {
            return upward("/", name);
        }
        if name.starts_with("./") || name.starts_with("../") {
            let (folder, _) = naming.rsplit_once('/')?;
            return upward(folder, name);
        }
        let bases = paths::join(self.profile, BASES_FOLDER);
        Some(paths::join(&bases, &format!("{name}.yaml")))
    }
}

/// Follows a path from a folder, with `..` taken as text; `None` if it leads above the root.
fn upward(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    paths::normal(&format!("/{}", parts.join("/")))
}

impl Layers {
    /// The files by which the project speaks: its own and what that builds on, without the
    /// bases of the user. Trust in the project is trust in these texts.
    pub fn project_files(&self, places: &Places) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        if let Some(project) = &self.project {
            project.collect(&places.profile, &mut found);
        }
        found
    }
}

impl ConfigFile {
    fn collect<'a>(&'a self, profile: &str, found: &mut Vec<(&'a str, &'a str)>) {
        if found.iter().any(|(path, _)| *path == self.path) {
            return;
        }
        if !paths::is_at_or_below(&self.path, profile) {
            found.push((&self.path, &self.text));
        }
        if let Parent::File(parent) = &self.parent {
            parent.collect(profile, found);
        }
        for section in [&self.fs, &self.network, &self.env].into_iter().flatten() {
            if let Section::File(file) = section {
                file.collect(profile, found);
            }
        }
    }
}

impl OptionLayer {
    /// Rules for files, each `mode:path` or a path.
    ///
    /// # Errors
    /// The first that is none.
    pub fn files(name: &str, entries: &[String]) -> Result<Self, LayerError> {
        let fs = parsed(name, entries, FsEntry::parse)?;
        Ok(Self::new(
            name,
            EggConfig {
                fs: Some(fs),
                ..EggConfig::default()
            },
        ))
    }

    /// Hosts.
    ///
    /// # Errors
    /// The first that is none.
    pub fn hosts(name: &str, entries: &[String]) -> Result<Self, LayerError> {
        let hosts = parsed(name, entries, HostEntry::parse)?;
        Ok(Self::new(
            name,
            EggConfig {
                network: Some(NetworkField::List(hosts)),
                ..EggConfig::default()
            },
        ))
    }

    /// Names of variables.
    ///
    /// # Errors
    /// The first that is none.
    pub fn variables(name: &str, entries: &[String]) -> Result<Self, LayerError> {
        let env = parsed(name, entries, EnvEntry::parse)?;
        Ok(Self::new(
            name,
            EggConfig {
                env: Some(EnvField::List(env)),
                ..EggConfig::default()
            },
        ))
    }

    /// Anything else.
    pub fn new(name: &str, config: EggConfig) -> Self {
        Self {
            name: name.to_owned(),
            config,
        }
    }
}

fn parsed<T>(
    name: &str,
    entries: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<Located<T>>, LayerError> {
    entries
        .iter()
        .map(|entry| {
            parse(entry)
                .map(Located::nowhere)
                .map_err(|problem| LayerError::Option {
                    name: name.to_owned(),
                    problem,
                })
        })
        .collect()
}

//! Which projects' `egg.yaml` may widen what a session may do.
//!
//! A project's file comes with the project, from whoever wrote it. Until somebody at this
//! machine says `wt egg trust`, it can only narrow. Trust is in texts and not in names: the
//! file and everything of the project's that it builds on are recorded as they were read, and
//! any other text is asked about again, with what it would change.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wt_policy::{Layers, Places};

use crate::error::Error;
use crate::pins::now_ms;
use crate::profile::{MAX_STATE, Profile, damaged};

/// The file's name in the profile.
pub const FILE: &str = "trusted.json";

/// The version of the file that this build reads and writes.
const VERSION: u32 = 1;

/// Projects that are remembered; the oldest are forgotten first, and then are asked about again.
const MAX_PROJECTS: usize = 256;

/// What is known of a project's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// There is no file of the project's.
    NoFile,
    /// Every text is as it was when it was trusted.
    Trusted,
    /// Nobody has trusted it.
    Unknown,
    /// It was trusted, and says something else now. The texts that were trusted, by path.
    Changed(Vec<(String, String)>),
}

impl Trust {
    /// Whether the project may widen.
    pub fn may_widen(&self) -> bool {
        matches!(self, Self::Trusted)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct TrustFile {
    version: u32,
    projects: Vec<Project>,
    /// What later versions wrote there.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Project {
    /// The project's `egg.yaml`, an absolute path.
    path: String,
    trusted_at_ms: u64,
    /// It and all of the project's that it builds on.
    files: Vec<TrustedText>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TrustedText {
    path: String,
    /// SHA-256 of the text, in hexadecimal.
    sha256: String,
    /// The text itself, to say later what changed.
    text: String,
}

/// What is known of the project in these layers.
///
/// # Errors
/// A file of trust that cannot be read or used. It is left as it is, and nothing is trusted
/// by it.
pub fn of(profile: &Profile, layers: &Layers, places: &Places) -> Result<Trust, Error> {
    let Some(project) = &layers.project else {
        return Ok(Trust::NoFile);
    };
    let known = read(profile)?;
    let Some(known) = known
        .projects
        .iter()
        .find(|known| known.path == project.path)
    else {
        return Ok(Trust::Unknown);
    };
    let now = layers.project_files(places);
    let same = now.len() == known.files.len()
        && now.iter().all(|(path, text)| {
            let hash = hash(text);
            known
                .files
                .iter()
                .any(|file| file.path == *path && file.sha256 == hash)
        });
    if same {
        return Ok(Trust::Trusted);
    }
    let texts = known.files.iter();
    Ok(Trust::Changed(
        texts
            .map(|file| (file.path.clone(), file.text.clone()))
            .collect(),
    ))
}

/// Trusts the project in these layers, as it was read.
///
/// # Errors
/// That there is none, or a file of trust that cannot be read or written.
pub fn trust(profile: &Profile, layers: &Layers, places: &Places) -> Result<(), Error> {
    let Some(project) = &layers.project else {
        return Err(Error::failed("there is no egg.yaml to trust"));
    };
    let texts = layers.project_files(places).into_iter();
    let files = texts
        .map(|(path, text)| TrustedText {
            path: path.to_owned(),
            sha256: hash(text),
            text: text.to_owned(),
        })
        .collect();
    let trusted = Project {
        path: project.path.clone(),
        trusted_at_ms: now_ms(),
        files,
        unknown: Map::new(),
    };
    change(profile, |projects| {
        projects.retain(|known| known.path != trusted.path);
        projects.push(trusted);
        let over = projects.len().saturating_sub(MAX_PROJECTS);
        projects.drain(..over);
        true
    })?;
    Ok(())
}

/// Takes trust in a project back. Returns whether there was any.
///
/// # Errors
/// A file of trust that cannot be read or written.
pub fn distrust(profile: &Profile, path: &str) -> Result<bool, Error> {
    change(profile, |projects| {
        let before = projects.len();
        projects.retain(|known| known.path != path);
        projects.len() != before
    })
}

fn change(profile: &Profile, act: impl FnOnce(&mut Vec<Project>) -> bool) -> Result<bool, Error> {
    let _lock = profile.lock(FILE)?;
    let mut file = read(profile)?;
    let changed = act(&mut file.projects);
    if changed {
        let mut bytes = serde_json::to_vec_pretty(&file).map_err(Error::failed)?;
        // What is too large to be read again must not be written.
        while bytes.len() as u64 > MAX_STATE && !file.projects.is_empty() {
            file.projects.remove(0);
            bytes = serde_json::to_vec_pretty(&file).map_err(Error::failed)?;
        }
        profile.write_state(FILE, &bytes)?;
    }
    Ok(changed)
}

fn read(profile: &Profile) -> Result<TrustFile, Error> {
    let empty = TrustFile {
        version: VERSION,
        ..TrustFile::default()
    };
    let Some(bytes) = profile.read_state(FILE)? else {
        return Ok(empty);
    };
    let path = profile.file(FILE);
    let file: TrustFile = serde_json::from_slice(&bytes).map_err(|e| damaged(&path, &e))?;
    if file.version != VERSION {
        let problem = format!("version {} is not known here", file.version);
        return Err(damaged(&path, &problem));
    }
    Ok(file)
}

fn hash(text: &str) -> String {
    data_encoding::HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
        profile: Profile,
        places: Places,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| {
                let path = dir.path().join(name);
                fs::create_dir(&path).unwrap();
                path.display().to_string()
            };
            let places = Places {
                home: at("home"),
                cwd: at("project"),
                profile: at("profile"),
            };
            Self {
                profile: Profile::at(&places.profile),
                places,
                dir,
            }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.dir.path().join(name), text).unwrap();
        }

        fn layers(&self) -> Layers {
            let files = |path: &str| match fs::read_to_string(path) {
                Ok(text) => Ok(Some(text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(e.to_string()),
            };
            wt_policy::load(&files, &self.places, None).unwrap()
        }

        fn trust(&self) -> Trust {
            of(&self.profile, &self.layers(), &self.places).unwrap()
        }
    }

    #[test]
    fn a_text_is_trusted_until_it_changes_and_again_when_it_changes_back() {
        let world = World::new();
        assert_eq!(world.trust(), Trust::NoFile);
        world.write("project/egg.yaml", "network: example.com\n");
        assert_eq!(world.trust(), Trust::Unknown);

        trust(&world.profile, &world.layers(), &world.places).unwrap();
        assert_eq!(world.trust(), Trust::Trusted);

        world.write("project/egg.yaml", "network: \"*\"\n");
        let path = format!("{}/egg.yaml", world.places.cwd);
        let was = (path.clone(), "network: example.com\n".to_owned());
        assert_eq!(world.trust(), Trust::Changed(vec![was]));

        world.write("project/egg.yaml", "network: example.com\n");
        assert_eq!(world.trust(), Trust::Trusted);
        assert!(distrust(&world.profile, &path).unwrap());
        assert_eq!(world.trust(), Trust::Unknown);
        assert!(!distrust(&world.profile, &path).unwrap());
    }

    #[test]
    fn what_a_project_builds_on_is_trusted_with_it() {
        let world = World::new();
        world.write("project/egg.yaml", "base: ./more.yaml\n");
        world.write("project/more.yaml", "network: example.com\n");
        trust(&world.profile, &world.layers(), &world.places).unwrap();
        assert_eq!(world.trust(), Trust::Trusted);

        world.write("project/more.yaml", "network: \"*\"\n");

        assert!(matches!(world.trust(), Trust::Changed(_)));
    }

    #[test]
    fn a_damaged_file_trusts_nothing_and_is_left_as_it_is() {
        let world = World::new();
        world.write("project/egg.yaml", "network: example.com\n");
        for damage in ["{", r#"{"version":9,"projects":[]}"#] {
            world.write("profile/trusted.json", damage);

            assert!(of(&world.profile, &world.layers(), &world.places).is_err());
            assert!(trust(&world.profile, &world.layers(), &world.places).is_err());
            let left = fs::read_to_string(world.profile.file(FILE)).unwrap();
            assert_eq!(left, damage);
        }
    }
}

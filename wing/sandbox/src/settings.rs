//! Settings of agents, put back as they were when a session is over.
//!
//! An agent must be able to write its own folder, and with it the file that says which
//! programs it runs without asking. What a session wrote there would be obeyed by the same
//! agent outside. So the file is read before the session and put back after it; what the
//! session made of it is kept beside the session's records, for its user to look at.
//!
//! Every path is followed below the home directory by one open(2) that refuses links
//! (`openat2`, `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`), at both ends: the session could have put
//! a link there that leads what is written to some other file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Largest settings file that is kept, in bytes. The largest in use have some kilobytes.
const MAX_SETTINGS: u64 = 1 << 20;

/// What settings files held before a session.
#[derive(Debug)]
pub struct Settings {
    home: PathBuf,
    files: Vec<Saved>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Saved {
    /// Below the home directory.
    path: PathBuf,
    before: Content,
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Missing,
    /// The bytes and the mode.
    Text(Vec<u8>, u32),
}

impl Settings {
    /// Reads the files of these paths below the home directory.
    ///
    /// A path that leads over a link, to something that is no plain file, or to a file with
    /// a second name is left alone, at both ends, and noted.
    pub fn take(home: &Path, below: &[PathBuf]) -> Self {
        let mut taken = Self {
            home: home.to_owned(),
            files: Vec::new(),
            notes: Vec::new(),
        };
        for path in below {
            match read(home, path) {
                Ok(before) => taken.files.push(Saved {
                    path: path.clone(),
                    before,
                }),
                Err(e) => taken.notes.push(format!(
                    "{} is not put back after the session: {e}",
                    home.join(path).display()
                )),
            }
        }
        taken
    }

    /// What its user should know already.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Puts back what differs. What the session made of it goes to the folder `kept`, which is
    /// made. Returns a sentence for each file that was changed or could not be put back.
    pub fn put_back(self, kept: &Path) -> Vec<String> {
        let mut said = Vec::new();
        for saved in &self.files {
            let shown = self.home.join(&saved.path);
            let shown = shown.display();
            let after = match read(&self.home, &saved.path) {
                Ok(after) if after == saved.before => continue,
                Ok(after) => Some(after),
                // What stands there now cannot be read safely; it is replaced all the same.
                Err(_) => None,
            };
            let copy = kept.join(saved.path.file_name().unwrap_or(OsStr::new("settings")));
            let held = match &after {
                Some(Content::Text(bytes, _)) => keep(&copy, bytes),
                _ => Ok(()),
            };
            let done = held.and_then(|()| self.restore(saved));
            said.push(match (done, after) {
                (Ok(()), Some(Content::Text(..))) => format!(
                    "{shown} was changed during the session and is as it was before; the changed one is {}",
                    copy.display()
                ),
                (Ok(()), _) => {
                    format!("{shown} was replaced during the session and is as it was before")
                }
                (Err(e), _) => format!(
                    "{shown} was changed during the session and could not be put back: {e}; look at it before you start the agent outside"
                ),
            });
        }
        said
    }

    fn restore(&self, saved: &Saved) -> io::Result<()> {
        let folder = folder_of(&self.home, &saved.path)?;
        let name = saved
            .path
            .file_name()
            .ok_or_else(|| io::Error::other("it has no name"))?;
        let Content::Text(bytes, mode) = &saved.before else {
            return match unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => Ok(()),
                Err(e) => Err(e.into()),
            };
        };
        let mut temporary = name.to_owned();
        temporary.push(format!(".{}.wt", std::process::id()));
        let _ = unlinkat(&folder, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(
            folder.as_fd(),
            temporary.as_os_str(),
            flags,
            Mode::from_bits_truncate(mode & 0o777),
        )?;
        let mut file = File::from(fd);
        file.write_all(bytes)?;
        file.sync_all()?;
        renameat(folder.as_fd(), temporary.as_os_str(), folder.as_fd(), name)?;
        Ok(())
    }
}

/// Keeps a copy for the user, readable by nobody else.
fn keep(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if let Some(folder) = path.parent() {
        let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
        match made {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

fn read(home: &Path, below: &Path) -> io::Result<Content> {
    let fd = match beneath(home, below, OFlag::O_RDONLY | OFlag::O_NONBLOCK) {
        Ok(fd) => fd,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Content::Missing),
        Err(e) => return Err(e),
    };
    let file = File::from(fd);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if metadata.nlink() != 1 {
        return Err(io::Error::other("the file has a second name"));
    }
    let mut bytes = Vec::new();
    let mode = metadata.mode();
    file.take(MAX_SETTINGS + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SETTINGS {
        let problem = format!("it is larger than {MAX_SETTINGS} bytes");
        return Err(io::Error::other(problem));
    }
    Ok(Content::Text(bytes, mode))
}

fn folder_of(home: &Path, below: &Path) -> io::Result<OwnedFd> {
    let folder = match below.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    beneath(home, folder, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
}

fn beneath(home: &Path, below: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    let home = open(
        home,
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    );
    openat2(&home, below, how).map_err(|e| match e {
        Errno::ELOOP | Errno::EXDEV => io::Error::other("its path leads over a link"),
        e => e.into(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const FILE: &str = ".agent/settings.json";

    fn home(settings: Option<&str>) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".agent")).unwrap();
        if let Some(text) = settings {
            fs::write(home.path().join(FILE), text).unwrap();
        }
        home
    }

    fn take(home: &tempfile::TempDir) -> Settings {
        Settings::take(home.path(), &[PathBuf::from(FILE)])
    }

    #[test]
    fn a_changed_file_is_put_back_and_its_new_text_is_kept() {
        let home = home(Some("old"));
        let settings = take(&home);
        fs::write(home.path().join(FILE), "new").unwrap();

        let said = settings.put_back(&home.path().join("kept"));

        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(fs::read_to_string(home.path().join(FILE)).unwrap(), "old");
        let kept = home.path().join("kept/settings.json");
        assert_eq!(fs::read_to_string(kept).unwrap(), "new");
    }

    #[test]
    fn a_file_that_stayed_as_it_was_is_not_touched() {
        let home = home(Some("old"));
        let before = fs::metadata(home.path().join(FILE)).unwrap().ino();

        assert!(take(&home).put_back(&home.path().join("kept")).is_empty());

        assert_eq!(fs::metadata(home.path().join(FILE)).unwrap().ino(), before);
    }

    #[test]
    fn a_file_that_was_not_there_is_gone_again_and_kept() {
        let home = home(None);
        let settings = take(&home);
        fs::write(home.path().join(FILE), "hooks").unwrap();

        settings.put_back(&home.path().join("kept"));

        assert!(!home.path().join(FILE).exists());
        assert!(home.path().join("kept/settings.json").exists());
    }

    #[test]
    fn a_link_in_its_place_is_replaced_and_what_it_leads_to_stays() {
        let home = home(Some("old"));
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let settings = take(&home);
        fs::remove_file(home.path().join(FILE)).unwrap();
        symlink(&victim, home.path().join(FILE)).unwrap();

        settings.put_back(&home.path().join("kept"));

        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(home.path().join(FILE)).unwrap(), "old");
        assert!(
            !fs::symlink_metadata(home.path().join(FILE))
                .unwrap()
                .is_symlink()
        );
    }

    #[test]
    fn a_link_in_place_of_its_folder_is_not_followed() {
        let home = home(Some("old"));
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("settings.json"), "precious").unwrap();
        let settings = take(&home);
        fs::rename(home.path().join(".agent"), home.path().join("gone")).unwrap();
        symlink(other.path(), home.path().join(".agent")).unwrap();

        let said = settings.put_back(&home.path().join("kept"));

        assert!(said[0].contains("could not be put back"), "{said:?}");
        let text = fs::read_to_string(other.path().join("settings.json")).unwrap();
        assert_eq!(text, "precious");
    }

    #[test]
    fn a_file_with_a_second_name_is_left_alone_and_noted() {
        let home = home(Some("old"));
        fs::hard_link(home.path().join(FILE), home.path().join("second")).unwrap();

        let settings = take(&home);

        assert!(settings.notes()[0].contains("second name"));
        fs::write(home.path().join(FILE), "new").unwrap();
        assert!(settings.put_back(&home.path().join("kept")).is_empty());
    }
}

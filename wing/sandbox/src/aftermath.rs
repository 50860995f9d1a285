//! What a session left in its writable folders that could make something run later, outside.
//!
//! A boundary ends with the session, but a hook, a task file or a build script that it wrote
//! is run by its user's own tools afterwards. Most of that is the work that was asked for, so it
//! is not prevented but listed, once, when the session is over.
//!
//! Nothing is recorded at the start: a file's change time (`st_ctime`, inode(7)) cannot be
//! set back without the right to set the clock, so what is younger than the session was made,
//! changed or moved during it. A folder that was moved or renamed shows it by a change time that
//! is later than its modification time; then all below it counts, though it is old. (One that
//! was moved and then added to does not show it: what was in it before is its user's own.)

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat};
use serde::{Deserialize, Serialize};

/// Files looked at below all folders: the largest repositories of users have about a
/// million, and looking at one takes a microsecond.
const MAX_ENTRIES: usize = 1_000_000;

/// How long the look may take. A session's end waits for it.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Findings that are kept: a list that nobody reads to its end warns of nothing.
const MAX_FINDINGS: usize = 200;

/// Folders below a writable folder that are entered: deeper ones are no project's.
const MAX_DEPTH: usize = 64;

/// The bits that make a program run as the owner or group of its file.
const SET_ID: u32 = 0o6000;

/// What was found when a session was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aftermath {
    /// What could run or be followed outside, in the order of the paths.
    pub left: Vec<Left>,
    /// Whether there was more to look at or to list than the limits allow.
    pub incomplete: bool,
}

/// One file that a session left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Left {
    /// Where it is.
    pub path: PathBuf,
    /// What makes it matter, as half a sentence.
    pub why: String,
}

/// Looks through the folders that a session could write, for what is younger than it.
///
/// Files with a set-user-ID or set-group-ID bit lose it, and are listed. Links are not
/// followed, and neither are other file systems' roots skipped: what the session could write
/// is looked at.
pub fn look(folders: &[PathBuf], since: SystemTime) -> Aftermath {
    let mut look = Look {
        since: since.duration_since(UNIX_EPOCH).map_or(0, |since| {
            i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
        }),
        deadline: Instant::now() + MAX_TIME,
        seen: 0,
        found: Aftermath::default(),
    };
    for folder in folders {
        look.folder(folder);
    }
    look.found.left.sort();
    look.found.left.dedup();
    look.found
}

struct Look {
    /// Nanoseconds since 1970.
    since: i128,
    deadline: Instant,
    seen: usize,
    found: Aftermath,
}

/// A folder that is still to be entered.
struct Pending {
    fd: OwnedFd,
    /// Below the writable folder.
    path: PathBuf,
    /// Whether all below counts as young.
    young: bool,
}

impl Look {
    fn folder(&mut self, root: &Path) {
        let Ok(fd) = open(root, O_FOLDER, Mode::empty()) else {
            // A folder that is gone has nothing left in it.
            return;
        };
        let mut pending = VecDeque::from([Pending {
            fd,
            path: PathBuf::new(),
            young: false,
        }]);
        // The last found is entered first, so that few folders are open at once.
        while let Some(folder) = pending.pop_back() {
            if !self.enter(root, folder, &mut pending) {
                self.found.incomplete = true;
                return;
            }
        }
    }

    /// Looks at one folder; `false` when a limit was met.
    fn enter(&mut self, root: &Path, folder: Pending, pending: &mut VecDeque<Pending>) -> bool {
        let Some(mut entries) = folder
            .fd
            .try_clone()
            .ok()
            .and_then(|fd| Dir::from_fd(fd).ok())
        else {
            return true;
        };
        for entry in entries.iter().flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.seen += 1;
            if self.seen > MAX_ENTRIES
                || self.found.left.len() >= MAX_FINDINGS
                || Instant::now() > self.deadline
            {
                return false;
            }
            let Ok(stat) = fstatat(folder.fd.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
                continue;
            };
            let path = folder.path.join(OsStr::from_bytes(name.to_bytes()));
            let young = folder.young || self.is_young(&stat);
            match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
                SFlag::S_IFDIR => {
                    let young = folder.young || (young && was_moved(&stat));
                    let depth = path.components().count();
                    if let (true, Ok(fd)) = (
                        depth <= MAX_DEPTH,
                        openat(folder.fd.as_fd(), name, O_FOLDER, Mode::empty()),
                    ) {
                        pending.push_back(Pending { fd, path, young });
                    }
                }
                SFlag::S_IFLNK if young => {
                    let target = readlinkat(folder.fd.as_fd(), name).unwrap_or_default();
                    if leads_out(root, &path, &target) {
                        self.note(
                            root,
                            &path,
                            "a link out of the folder: what follows it writes there",
                        );
                    }
                    self.named(root, &path);
                }
                SFlag::S_IFREG if young => {
                    if stat.st_mode & SET_ID != 0 {
                        let why = match take_set_id(&folder.fd, name, &stat) {
                            Ok(()) => {
                                "it had a set-user-ID or set-group-ID bit, which was taken away"
                            }
                            Err(_) => {
                                "it has a set-user-ID or set-group-ID bit and runs as its owner"
                            }
                        };
                        self.note(root, &path, why);
                    }
                    self.named(root, &path);
                }
                _ => {}
            }
        }
        true
    }

    fn is_young(&self, stat: &FileStat) -> bool {
        nanoseconds(stat.st_ctime, stat.st_ctime_nsec) >= self.since
    }

    fn named(&mut self, root: &Path, path: &Path) {
        if let Some(why) = what_runs(path) {
            self.note(root, path, why);
        }
    }

    fn note(&mut self, root: &Path, path: &Path, why: &str) {
        self.found.left.push(Left {
            path: root.join(path),
            why: why.to_owned(),
        });
    }
}

/// Whether a folder's place or rights changed later than its contents.
fn was_moved(stat: &FileStat) -> bool {
    nanoseconds(stat.st_ctime, stat.st_ctime_nsec) > nanoseconds(stat.st_mtime, stat.st_mtime_nsec)
}

fn nanoseconds(seconds: i64, rest: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}

const O_FOLDER: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Takes the bits from the very file that was looked at.
fn take_set_id(folder: &OwnedFd, name: &CStr, seen: &FileStat) -> nix::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = openat(folder.as_fd(), name, flags, Mode::empty())?;
    let stat = fstat(&file)?;
    if (stat.st_dev, stat.st_ino) != (seen.st_dev, seen.st_ino) {
        return Err(Errno::ESTALE);
    }
    fchmod(&file, Mode::from_bits_truncate(stat.st_mode & 0o1777))
}

/// Whether a link at `path` below `root` leads out of `root`, going by its text.
fn leads_out(root: &Path, path: &Path, target: &OsString) -> bool {
    use std::path::Component;
    let target = Path::new(target);
    let inside = match target.strip_prefix(root) {
        Ok(inside) => inside.to_owned(),
        Err(_) if target.is_absolute() => return true,
        Err(_) => path.parent().unwrap_or(Path::new("")).join(target),
    };
    let mut depth = 0_usize;
    for component in inside.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
            _ => {}
        }
    }
    false
}

/// A name at the end of a path, and what runs or obeys it.
enum Rule {
    /// The last part is this.
    Name(&'static str),
    /// The last part ends with this.
    Suffix(&'static str),
    /// A folder of this name (one or more parts) is above it.
    Below(&'static str),
    /// The last parts are these.
    Tail(&'static str),
}

/// Which of a session's files other programs run or obey without being asked, by name.
/// Compared without regard to case: some file systems do the same.
const RULES: &[(Rule, &str)] = &[
    (Rule::Below(".git/hooks"), "git runs it"),
    (Rule::Below(".git/modules"), "git obeys it in a submodule"),
    (
        Rule::Tail(".git/config"),
        "git obeys it, and it can name programs",
    ),
    (
        Rule::Tail(".git/config.worktree"),
        "git obeys it, and it can name programs",
    ),
    (
        Rule::Tail(".git/info/attributes"),
        "git obeys it, and it can name filters",
    ),
    (
        Rule::Tail(".git/head"),
        "a git repository was made here; its configuration is obeyed",
    ),
    (
        Rule::Name(".gitmodules"),
        "git obeys it when submodules are updated",
    ),
    (
        Rule::Name(".gitattributes"),
        "git obeys it, and it can name filters",
    ),
    (
        Rule::Name("egg.yaml"),
        "it decides what sessions here may do, once it is trusted",
    ),
    (Rule::Name(".envrc"), "direnv runs it"),
    (Rule::Below(".direnv"), "direnv obeys it"),
    (Rule::Below(".husky"), "git runs it through husky"),
    (
        Rule::Name(".pre-commit-config.yaml"),
        "pre-commit runs what it names",
    ),
    (
        Rule::Name("lefthook.yml"),
        "git runs what it names through lefthook",
    ),
    (
        Rule::Name(".mcp.json"),
        "agents start the servers that it names",
    ),
    (Rule::Below(".claude"), "Claude Code obeys it"),
    (Rule::Name("claude.md"), "agents follow what it says"),
    (Rule::Name("agents.md"), "agents follow what it says"),
    (Rule::Name("gemini.md"), "agents follow what it says"),
    (Rule::Below(".cursor"), "Cursor obeys it"),
    (Rule::Below(".codex"), "Codex obeys it"),
    (Rule::Below(".gemini"), "Gemini obeys it"),
    (Rule::Below(".opencode"), "opencode obeys it"),
    (Rule::Below(".agents"), "agents obey it"),
    (Rule::Name("opencode.json"), "opencode obeys it"),
    (Rule::Name(".aider.conf.yml"), "aider obeys it"),
    (
        Rule::Below(".vscode"),
        "Visual Studio Code obeys it, and runs its tasks",
    ),
    (
        Rule::Suffix(".code-workspace"),
        "Visual Studio Code obeys it",
    ),
    (Rule::Below(".idea"), "JetBrains editors obey it"),
    (Rule::Below(".zed"), "Zed obeys it"),
    (Rule::Below(".devcontainer"), "editors build and run it"),
    (Rule::Name(".exrc"), "vi runs it"),
    (Rule::Name(".nvim.lua"), "Neovim runs it"),
    (Rule::Name(".dir-locals.el"), "Emacs obeys it"),
    (Rule::Name(".npmrc"), "npm obeys it"),
    (Rule::Name(".yarnrc"), "Yarn obeys it"),
    (
        Rule::Name(".yarnrc.yml"),
        "Yarn obeys it, and runs the program that it names",
    ),
    (Rule::Name(".pnpmfile.cjs"), "pnpm runs it"),
    (
        Rule::Tail(".cargo/config"),
        "cargo obeys it, and it can name programs",
    ),
    (
        Rule::Tail(".cargo/config.toml"),
        "cargo obeys it, and it can name programs",
    ),
    (Rule::Name("rust-toolchain"), "rustup obeys it"),
    (Rule::Name("rust-toolchain.toml"), "rustup obeys it"),
    (Rule::Name(".tool-versions"), "asdf and mise obey it"),
    (
        Rule::Name(".mise.toml"),
        "mise obeys it, and runs its hooks",
    ),
    (Rule::Name("mise.toml"), "mise obeys it, and runs its hooks"),
    (Rule::Name(".nvmrc"), "nvm obeys it"),
    (
        Rule::Below("node_modules/.bin"),
        "scripts of the project find it before other programs",
    ),
    (Rule::Name("package.json"), "npm runs its scripts"),
    (Rule::Name("makefile"), "make runs it"),
    (Rule::Name("gnumakefile"), "make runs it"),
    (Rule::Name("justfile"), "just runs it"),
    (Rule::Name("taskfile.yml"), "task runs it"),
    (Rule::Name("build.rs"), "cargo runs it when it builds"),
    (Rule::Name("setup.py"), "pip runs it"),
    (Rule::Name("conftest.py"), "pytest runs it"),
    (Rule::Name("sitecustomize.py"), "python runs it"),
    (Rule::Name("usercustomize.py"), "python runs it"),
    (Rule::Suffix(".pth"), "python obeys it when it starts"),
    (Rule::Name("gradlew"), "builds run it"),
    (Rule::Name("build.gradle"), "Gradle runs it"),
    (Rule::Name("build.gradle.kts"), "Gradle runs it"),
    (Rule::Below(".github/workflows"), "it runs after a push"),
    (Rule::Name(".gitlab-ci.yml"), "it runs after a push"),
    (Rule::Name("dockerfile"), "docker builds it"),
    (Rule::Name("compose.yaml"), "docker runs it"),
    (Rule::Name("docker-compose.yml"), "docker runs it"),
    (Rule::Suffix(".desktop"), "desktops start what it names"),
];

/// What runs or obeys the file at this path below a writable folder without being asked.
pub fn what_runs(path: &Path) -> Option<&'static str> {
    let path = path.to_string_lossy().to_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let matches = |rule: &Rule| match rule {
        Rule::Name(is) => name == *is,
        Rule::Suffix(end) => name.len() > end.len() && name.ends_with(end),
        Rule::Tail(tail) => path
            .strip_suffix(tail)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/')),
        Rule::Below(folder) => path.match_indices(folder).any(|(at, _)| {
            (at == 0 || path.as_bytes()[at - 1] == b'/')
                && path.as_bytes().get(at + folder.len()) == Some(&b'/')
        }),
    };
    RULES
        .iter()
        .find(|(rule, _)| matches(rule))
        .map(|(_, why)| *why)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread::sleep;

    use super::*;

    /// A folder with something old in it, and the time after that.
    fn project() -> (tempfile::TempDir, SystemTime) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".git/hooks")).unwrap();
        fs::write(dir.path().join(".git/hooks/pre-push"), "old").unwrap();
        fs::write(dir.path().join("Makefile"), "old").unwrap();
        // Change times come from a clock that ticks every few milliseconds.
        sleep(Duration::from_millis(20));
        (dir, SystemTime::now())
    }

    fn names(found: &Aftermath, dir: &Path) -> Vec<String> {
        let below = |left: &Left| left.path.strip_prefix(dir).unwrap().display().to_string();
        found.left.iter().map(below).collect()
    }

    #[test]
    fn what_other_programs_run_is_listed_when_it_is_younger_than_the_session() {
        let (dir, since) = project();
        sleep(Duration::from_millis(20));
        fs::write(dir.path().join(".git/hooks/pre-commit"), "new").unwrap();
        fs::write(dir.path().join("notes.txt"), "new").unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/.envrc"), "new").unwrap();

        let found = look(&[dir.path().to_owned()], since);

        assert_eq!(
            names(&found, dir.path()),
            [".git/hooks/pre-commit", "sub/.envrc"]
        );
        assert!(!found.incomplete);
    }

    #[test]
    fn the_contents_of_a_folder_that_was_moved_are_listed_though_they_are_old() {
        let (dir, _) = project();
        fs::create_dir(dir.path().join("ready")).unwrap();
        fs::write(dir.path().join("ready/tasks.json"), "old").unwrap();
        sleep(Duration::from_millis(20));
        let since = SystemTime::now();
        sleep(Duration::from_millis(20));
        fs::rename(dir.path().join("ready"), dir.path().join(".vscode")).unwrap();

        let found = look(&[dir.path().to_owned()], since);

        assert_eq!(names(&found, dir.path()), [".vscode/tasks.json"]);
    }

    #[test]
    fn a_set_user_id_bit_is_taken_away_and_said() {
        let (dir, since) = project();
        sleep(Duration::from_millis(20));
        let tool = dir.path().join("tool");
        fs::write(&tool, "x").unwrap();
        fs::set_permissions(&tool, PermissionsExt::from_mode(0o6755)).unwrap();

        let found = look(&[dir.path().to_owned()], since);

        assert_eq!(names(&found, dir.path()), ["tool"]);
        assert_eq!(
            fs::metadata(&tool).unwrap().permissions().mode() & 0o7777,
            0o755
        );
    }

    #[test]
    fn links_that_lead_out_are_listed_and_not_followed() {
        let (dir, since) = project();
        let other = tempfile::tempdir().unwrap();
        sleep(Duration::from_millis(20));
        fs::write(other.path().join("Makefile"), "new").unwrap();
        symlink(other.path(), dir.path().join("out")).unwrap();
        symlink("../../up", dir.path().join("up")).unwrap();
        symlink(".git/config", dir.path().join("in")).unwrap();

        let found = look(&[dir.path().to_owned()], since);

        assert_eq!(names(&found, dir.path()), ["out", "up"]);
    }

    #[test]
    fn names_are_compared_by_whole_parts_and_in_any_case() {
        let runs = |path: &str| what_runs(Path::new(path)).is_some();

        assert!(runs(".GIT/hooks/pre-commit") && runs("a/.git/config") && runs("MAKEFILE"));
        assert!(!runs("x.git/hooks/pre-commit") && !runs(".git/hooksy") && !runs("a.git/config"));
        assert!(!runs("src/main.rs") && !runs("makefile.txt") && !runs(".pth"));
    }
}

//! What a host is like where a policy's rules point: the facts that a plan is compiled from.
//!
//! Every path is followed here, once, part by part, and every link on the way is noted. What
//! stands at its end is recorded by its number, so that the stage can tell whether it is
//! still the same. Nothing is changed on the host.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use wt_policy::{EffectivePolicy, FileAccess, FileRule, PathKind, Source};

use crate::mounts::is_at_or_below;
use crate::plan::{Identity, Note};
use crate::{EnforcementError, Step, landlock};

/// How many links one path may lead through, as the kernel has it (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// How many names a rule with a star may stand for. The built-in ones stand for a few.
const MAX_MATCHES: usize = 1000;
/// How many sockets of services are looked at. A busy desktop has some hundred.
const MAX_SOCKETS: usize = 4096;

/// Where a session starts and who starts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The directory it starts in, as its maker's shell says.
    pub cwd: PathBuf,
    /// The home directory.
    pub home: PathBuf,
    /// Directories that no session may see: the profile with its keys and sessions.
    pub profiles: Vec<PathBuf>,
    /// The program that holds sessions: kept as it is where it lies below something writable.
    pub program: Option<PathBuf>,
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// What was found on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The directory that the session starts in, canonical.
    pub cwd: String,
    /// The home directory, canonical.
    pub home: String,
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// What the policy's rules point to, in their order; more than one for a rule with a
    /// star.
    pub rules: Vec<RuleFact>,
    /// What follows for a working tree of git whose directory lies elsewhere.
    pub derived: Vec<DerivedRule>,
    /// Where the session starts and its home: both can be seen, read-only at least, although
    /// they may lie in a directory of which the session gets its own.
    pub visible: Vec<PathFact>,
    /// Directories that no session may see.
    pub profiles: Vec<PathFact>,
    /// The program that holds sessions.
    pub program: Option<PathFact>,
    /// Other places at which something of a path can be seen, because it is mounted there too.
    pub aliases: Vec<Alias>,
    /// Mounts of the kernel's own file systems in unusual places.
    pub kernel_mounts: Vec<String>,
    /// Sockets of services.
    pub sockets: Vec<String>,
    /// Which of the directories exist that a session gets of its own.
    pub private: Vec<String>,
    /// Links to directories that a session gets of its own, like `/var/run`.
    pub well_known: Vec<String>,
    /// Where `/etc/resolv.conf` leads, if it is there.
    pub resolv_conf: Option<String>,
    /// Where `/etc/hosts` leads, if it is there.
    pub hosts: Option<String>,
    /// Where `/etc/nsswitch.conf` leads, and what it says.
    pub nsswitch: Option<(String, String)>,
    /// Whether the host has IPv6.
    pub ipv6: bool,
    /// The version of Landlock's interface; 0 without.
    pub landlock_abi: u32,
    /// How many inotify instances and watches the host grants to one user.
    pub inotify: Option<(u64, u64)>,
    /// What the maker is told.
    pub notes: Vec<Note>,
}

/// What one rule points to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFact {
    /// Which rule of the policy, from 0.
    pub rule: usize,
    /// What stands there.
    pub at: PathFact,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFact {
    /// The path as it was asked for.
    pub asked: String,
    /// Where it leads; as far as it exists, the rest is as it was asked for.
    pub path: String,
    /// What is there, if anything.
    pub identity: Option<Identity>,
    /// The links on the way, in their order.
    pub links: Vec<Link>,
}

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// Where it is: its directory is canonical.
    pub path: String,
    /// What it says.
    pub to: String,
}

/// A rule that follows from what is on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedRule {
    /// What it says.
    pub access: FileAccess,
    /// Where.
    pub at: PathFact,
    /// Why.
    pub reason: String,
}

/// A second place at which a path can be seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alias {
    /// The path.
    pub of: String,
    /// The other place.
    pub at: Identity,
}

/// Looks at everything that a plan for this policy depends on.
///
/// # Errors
/// A path that cannot be followed, or a directory to start in that is not there.
pub fn look(
    policy: &EffectivePolicy,
    surroundings: &Surroundings,
) -> Result<HostFacts, EnforcementError> {
    let home = follow(&surroundings.home)?;
    let cwd = follow(&surroundings.cwd)?;
    if cwd.identity.as_ref().map(|id| id.kind) != Some(libc::S_IFDIR) {
        return Err(EnforcementError::new(
            Step::Paths,
            format!("{} is not a directory that can be entered", cwd.asked),
        )
        .hint("give another directory with --cwd"));
    }
    let mut facts = HostFacts {
        visible: vec![home.clone(), cwd.clone()],
        cwd: cwd.path,
        home: home.path,
        uid: surroundings.uid,
        gid: surroundings.gid,
        ipv6: Path::new("/proc/net/if_inet6").exists(),
        landlock_abi: landlock::abi(),
        ..HostFacts::default()
    };
    for (rule, file) in policy.files.iter().enumerate() {
        for at in expand(&file.path)? {
            facts.rules.push(RuleFact { rule, at });
        }
    }
    for profile in &surroundings.profiles {
        facts.profiles.extend(expand(&text(profile)?)?);
    }
    facts.program = surroundings.program.as_deref().map(follow).transpose()?;
    let tree = git_directories(&facts.cwd, facts.uid);
    facts.derived = tree.rules;
    facts.notes.extend(tree.note);

    let mounts = read_mounts()?;
    facts.kernel_mounts = kernel_mounts(&mounts);
    let hidden = facts
        .rules
        .iter()
        .filter(|fact| policy.files[fact.rule].access == FileAccess::Deny)
        .map(|fact| &fact.at)
        .chain(&facts.profiles);
    facts.aliases = hidden
        .filter(|at| at.identity.is_some())
        .flat_map(|at| aliases(&at.path, &mounts))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    facts.sockets = sockets();
    for directory in PRIVATE {
        let at = follow(Path::new(directory))?;
        let is_directory = at.identity.is_some_and(|id| id.kind == libc::S_IFDIR);
        if is_directory && !facts.private.contains(&at.path) {
            facts.private.push(at.path);
        }
    }
    for path in WELL_KNOWN {
        let at = follow(Path::new(path))?;
        if at.identity.is_some() && at.links.iter().all(|link| link.path != *path) {
            facts.well_known.push((*path).to_owned());
        }
    }
    let existing = |path: &str| -> Result<Option<String>, EnforcementError> {
        let at = follow(Path::new(path))?;
        let is_file = at.identity.is_some_and(|id| id.kind == libc::S_IFREG);
        // A link to a file of a service that is not running can be made to lead somewhere.
        let is_private = facts.private.iter().any(|p| is_at_or_below(&at.path, p));
        Ok((is_file || is_private).then_some(at.path))
    };
    facts.resolv_conf = existing("/etc/resolv.conf")?;
    facts.hosts = existing("/etc/hosts")?;
    facts.nsswitch = existing("/etc/nsswitch.conf")?
        .and_then(|path| fs::read_to_string(&path).ok().map(|said| (path, said)));
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
    facts.inotify = number("/proc/sys/fs/inotify/max_user_instances")
        .zip(number("/proc/sys/fs/inotify/max_user_watches"));
    Ok(facts)
}

/// Makes directories below the home directory that the policy's agent writes and that are not
/// there yet: an agent that runs for the first time must be able to. The same for caches of
/// tools, as far as the tool is in use. Gives what was made.
///
/// # Errors
/// A path that cannot be followed. What the system does not let be made is left out.
pub fn make_missing(
    policy: &EffectivePolicy,
    surroundings: &Surroundings,
) -> Result<Vec<PathBuf>, EnforcementError> {
    let home = follow(&surroundings.home)?.path;
    let mut made = Vec::new();
    for rule in &policy.files {
        let is_wanted = rule.access == FileAccess::Rw
            && rule.kind == Some(PathKind::Dir)
            && (matches!(rule.source, Source::Agent { .. }) || is_first_cache(rule, &home))
            && !rule.path.contains('*');
        if !is_wanted {
            continue;
        }
        let at = follow(Path::new(&rule.path))?;
        if at.identity.is_some() || !is_at_or_below(&at.path, &home) || !at.links.is_empty() {
            continue;
        }
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        if builder.recursive(true).create(&at.path).is_ok() {
            made.push(PathBuf::from(at.path));
        }
    }
    Ok(made)
}

/// Caches directly in the home directory that programs make when they first run, and without
/// which they give up: what nearly everything uses, and what npm uses.
const FIRST_CACHES: &[&str] = &[".cache", ".npm"];

/// Whether a built-in rule is for a cache that its tool would make now: the tool has a folder
/// already, or it is one of the first that are made.
fn is_first_cache(rule: &FileRule, home: &str) -> bool {
    let Some((above, name)) = rule.path.rsplit_once('/') else {
        return false;
    };
    let is_first = above == home && FIRST_CACHES.contains(&name);
    let has_tool = above != home && is_at_or_below(above, home) && Path::new(above).is_dir();
    rule.source == Source::Default && (is_first || has_tool)
}

/// Directories of which a session gets its own.
const PRIVATE: &[&str] = &["/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm"];

/// Paths that a plan mentions where they exist and are no links.
const WELL_KNOWN: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/sys/fs/cgroup",
    "/sys/fs/bpf",
    "/sys/fs/fuse/connections",
    "/sys/fs/pstore",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/kernel/security",
    "/sys/kernel/config",
    "/sys/firmware/efi/efivars",
    "/run/current-system",
    "/run/booted-system",
    "/run/wrappers",
    "/run/opengl-driver",
];

fn text(path: &Path) -> Result<String, EnforcementError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        EnforcementError::new(
            Step::Paths,
            format!("{} is not valid UTF-8", path.display()),
        )
    })
}

/// All that a path with or without a star in its last part stands for.
fn expand(path: &str) -> Result<Vec<PathFact>, EnforcementError> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    if !name.contains('*') {
        return Ok(vec![follow(Path::new(path))?]);
    }
    let above = if above.is_empty() { "/" } else { above };
    let mut names: Vec<String> = fs::read_dir(above)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|found| matches(name, found))
        .collect();
    if names.len() > MAX_MATCHES {
        return Err(EnforcementError::new(
            Step::Paths,
            format!(
                "{path} stands for {} names, more than {MAX_MATCHES}",
                names.len()
            ),
        ));
    }
    names.sort();
    names
        .into_iter()
        .map(|found| follow(&Path::new(above).join(found)))
        .collect()
}

/// Whether a name matches a pattern in which each star stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let parts: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else {
        return pattern == name;
    };
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Follows a path part by part.
fn follow(path: &Path) -> Result<PathFact, EnforcementError> {
    let asked = text(path)?;
    let failed = |error: io::Error| EnforcementError::system(Step::Paths, &asked, &error);
    let mut links = Vec::new();
    let mut done = PathBuf::from("/");
    let mut left: Vec<String> = parts(path)?;
    left.reverse();
    let mut found = Some(fs::symlink_metadata("/").map_err(failed)?);
    while let Some(part) = left.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        if found.is_none() {
            done = next;
            continue;
        }
        match fs::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => {
                let to = fs::read_link(&next).map_err(failed)?;
                links.push(Link {
                    path: text(&next)?,
                    to: text(&to)?,
                });
                if links.len() > MAX_LINKS {
                    return Err(failed(io::Error::from_raw_os_error(libc::ELOOP)));
                }
                if to.is_absolute() {
                    done = PathBuf::from("/");
                }
                left.extend(parts(&to)?.into_iter().rev());
            }
            Ok(metadata) => {
                found = Some(metadata);
                done = next;
            }
            // What this user cannot reach is for a session of this user as if it were not.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::NotADirectory
                        | io::ErrorKind::PermissionDenied
                ) =>
            {
                found = None;
                done = next;
            }
            Err(e) => return Err(failed(e)),
        }
    }
    let path = text(&done)?;
    // After `..` the metadata may be that of something deeper.
    let identity = found
        .and_then(|_| fs::symlink_metadata(&done).ok())
        .map(|metadata| identity(path.clone(), &metadata));
    Ok(PathFact {
        asked,
        path,
        identity,
        links,
    })
}

fn parts(path: &Path) -> Result<Vec<String>, EnforcementError> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(part) => Some(text(Path::new(part))),
            Component::ParentDir => Some(Ok("..".to_owned())),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn identity(path: String, metadata: &fs::Metadata) -> Identity {
    Identity {
        path,
        dev: metadata.dev(),
        ino: metadata.ino(),
        kind: metadata.mode() & libc::S_IFMT,
    }
}

/// What follows from a working tree whose git directory lies elsewhere.
#[derive(Default)]
struct WorkingTree {
    rules: Vec<DerivedRule>,
    note: Option<Note>,
}

/// Finds the git directory that `.git` names when it is a file, as in linked working trees
/// and submodules. It counts only when that directory points back, so that a session cannot
/// write a file that opens any directory to the next session.
fn git_directories(cwd: &str, uid: u32) -> WorkingTree {
    let pointer = format!("{cwd}/.git");
    let is_file = fs::symlink_metadata(&pointer).is_ok_and(|m| m.is_file());
    let named = fs::read_to_string(&pointer)
        .ok()
        .filter(|_| is_file)
        .and_then(|said| {
            said.strip_prefix("gitdir:")
                .map(|dir| dir.trim().to_owned())
        });
    let Some(named) = named else {
        return WorkingTree::default();
    };
    match linked(cwd, &named, uid) {
        Ok(rules) => WorkingTree { rules, note: None },
        Err(why) => WorkingTree {
            rules: Vec::new(),
            note: Some(Note {
                path: pointer,
                text: format!("the git directory that it names stays read-only: {why}"),
            }),
        },
    }
}

fn linked(cwd: &str, named: &str, uid: u32) -> Result<Vec<DerivedRule>, String> {
    let follow = |path: &Path| follow(path).map_err(|e| e.cause);
    let own = |at: &PathFact| -> Result<(), String> {
        let owner = fs::symlink_metadata(&at.path)
            .map_err(|e| e.to_string())?
            .uid();
        (owner == uid)
            .then_some(())
            .ok_or_else(|| format!("{} belongs to somebody else", at.path))
    };
    let git_dir = follow(&Path::new(cwd).join(named))?;
    own(&git_dir)?;
    let (above, _) = git_dir.path.rsplit_once('/').unwrap_or(("", ""));
    // Below `worktrees`, a file `gitdir` points back to the working tree's `.git`
    // (gitrepository-layout(5)); a submodule's configuration names its working tree.
    if let Some(common) = above.strip_suffix("/worktrees") {
        let back = fs::read_to_string(format!("{}/gitdir", git_dir.path))
            .map_err(|_| "it does not point back".to_owned())?;
        let back = follow(&Path::new(&git_dir.path).join(back.trim()))?;
        if back.path != format!("{cwd}/.git") {
            return Err("it points back to another working tree".into());
        }
        let common = follow(Path::new(common))?;
        own(&common)?;
        let looks_right = ["HEAD", "objects", "refs"]
            .iter()
            .all(|name| Path::new(&common.path).join(name).exists());
        if !looks_right || git_dir.links.iter().any(|l| is_at_or_below(&l.path, cwd)) {
            return Err("what it belongs to is no git directory".into());
        }
        let mut rules = git_rules(&common, "the repository of this working tree")?;
        let protect = |at, reason: &str| DerivedRule {
            access: FileAccess::DenyWrite,
            at,
            reason: reason.to_owned(),
        };
        for entry in fs::read_dir(above).into_iter().flatten().flatten() {
            let at = follow(&entry.path())?;
            if at.path != git_dir.path {
                rules.push(protect(at, "it is another working tree's"));
            }
        }
        for name in ["gitdir", "commondir", "config.worktree"] {
            let at = follow(&Path::new(&git_dir.path).join(name))?;
            rules.push(protect(at, "git finds its directories by it"));
        }
        return Ok(rules);
    }
    if !format!("{above}/").contains("/.git/modules/") {
        return Err("it is neither a linked working tree's nor a submodule's".into());
    }
    let config = fs::read_to_string(format!("{}/config", git_dir.path))
        .map_err(|_| "it has no configuration".to_owned())?;
    let tree = config
        .lines()
        .find_map(|line| {
            line.trim()
                .strip_prefix("worktree")?
                .trim()
                .strip_prefix('=')
        })
        .ok_or("its configuration names no working tree")?;
    let tree = follow(&Path::new(&git_dir.path).join(tree.trim().trim_matches('"')))?;
    if tree.path != cwd {
        return Err("its configuration names another working tree".into());
    }
    git_rules(&git_dir, "the git directory of this submodule")
}

/// A git directory is writable, but for what makes git run something.
fn git_rules(dir: &PathFact, reason: &str) -> Result<Vec<DerivedRule>, String> {
    let mut rules = vec![DerivedRule {
        access: FileAccess::Rw,
        at: dir.clone(),
        reason: reason.to_owned(),
    }];
    for (name, reason) in [
        ("hooks", "git runs them"),
        ("config", "git runs what it names"),
        ("config.worktree", "git runs what it names"),
        ("info/attributes", "git runs filters by it"),
    ] {
        rules.push(DerivedRule {
            access: FileAccess::DenyWrite,
            at: follow(&Path::new(&dir.path).join(name)).map_err(|e| e.cause)?,
            reason: reason.to_owned(),
        });
    }
    Ok(rules)
}

/// One line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    device: String,
    /// What part of its file system is mounted.
    root: String,
    target: String,
    kind: String,
}

fn read_mounts() -> Result<Vec<Mount>, EnforcementError> {
    fs::read_to_string("/proc/self/mountinfo")
        .map(|said| said.lines().filter_map(parse_mount).collect())
        .map_err(|e| EnforcementError::system(Step::Paths, "/proc/self/mountinfo", &e))
}

fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(2);
    let mut next = || fields.next().map(unescape);
    Some(Mount {
        device: next()?,
        root: next()?,
        target: next()?,
        kind: right.split(' ').next()?.to_owned(),
    })
}

/// Undoes the escapes of blanks, tabs, line ends and backslashes: `\040` and its like.
fn unescape(field: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\')
            .then(|| std::str::from_utf8(after.get(..3)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(code);
                rest = &after[3..];
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Other places at which a path or a part of it is mounted.
fn aliases(path: &str, mounts: &[Mount]) -> Vec<Alias> {
    let Some(home) = mounts
        .iter()
        .filter(|mount| is_at_or_below(path, &mount.target))
        // The last one of the longest is the one that is seen.
        .max_by_key(|mount| mount.target.len())
    else {
        return Vec::new();
    };
    let inside = join(&home.root, below(path, &home.target));
    mounts
        .iter()
        .filter(|mount| mount.device == home.device && *mount != home)
        .filter_map(|mount| {
            if is_at_or_below(&inside, &mount.root) {
                Some(join(&mount.target, below(&inside, &mount.root)))
            } else {
                is_at_or_below(&mount.root, &inside).then(|| mount.target.clone())
            }
        })
        .filter(|other| !is_at_or_below(other, path))
        .filter_map(|other| {
            let metadata = fs::symlink_metadata(&other).ok()?;
            Some(Alias {
                of: path.to_owned(),
                at: identity(other, &metadata),
            })
        })
        .collect()
}

fn below<'a>(path: &'a str, ancestor: &str) -> &'a str {
    let rest = if ancestor == "/" {
        path
    } else {
        &path[ancestor.len()..]
    };
    rest.trim_start_matches('/')
}

fn join(ancestor: &str, below: &str) -> String {
    if below.is_empty() {
        ancestor.to_owned()
    } else {
        format!("{}/{below}", ancestor.trim_end_matches('/'))
    }
}

/// Kernel file systems that say or change something of the host, wherever they are.
const KERNEL_FILESYSTEMS: &[&str] = &[
    "proc",
    "sysfs",
    "devpts",
    "devtmpfs",
    "cgroup",
    "cgroup2",
    "debugfs",
    "tracefs",
    "securityfs",
    "bpf",
    "mqueue",
    "configfs",
    "efivarfs",
    "binfmt_misc",
];

/// Their mounts outside of the places that a session gets of its own anyway.
fn kernel_mounts(mounts: &[Mount]) -> Vec<String> {
    let usual = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"];
    let found: BTreeSet<String> = mounts
        .iter()
        .filter(|mount| KERNEL_FILESYSTEMS.contains(&mount.kind.as_str()))
        .map(|mount| mount.target.clone())
        .filter(|target| usual.iter().all(|place| !is_at_or_below(target, place)))
        .collect();
    found.into_iter().collect()
}

/// The sockets with a path that processes of the host listen at.
fn sockets() -> Vec<String> {
    let said = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let found: BTreeSet<String> = said
        .lines()
        .skip(1)
        // The path is the rest of the line after seven fields (unix(7), /proc/net/unix).
        .filter_map(|line| {
            let at = line.find(" /")?;
            Some(&line[at + 1..])
        })
        .take(MAX_SOCKETS)
        .filter_map(|path| follow(Path::new(path)).ok())
        .filter(|at| {
            fs::symlink_metadata(&at.path).is_ok_and(|metadata| metadata.file_type().is_socket())
        })
        .map(|at| at.path)
        .collect();
    found.into_iter().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_of_a_name() {
        for (pattern, name, fits) in [
            (".claude.json*", ".claude.json", true),
            (".claude.json*", ".claude.json.lock", true),
            (".claude.json*", ".claude.jso", false),
            ("settings*.json", "settings.local.json", true),
            ("settings*.json", "settings.json.bak", false),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxax", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn links_on_the_way_are_followed_and_noted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        fs::create_dir_all(at("real/deep")).unwrap();
        symlink("real", at("one")).unwrap();
        symlink(at("one/deep"), at("two")).unwrap();
        symlink("loop", at("loop")).unwrap();

        let found = follow(Path::new(&at("two/../deep/new/file"))).unwrap();

        assert_eq!(found.path, at("real/deep/new/file"));
        assert_eq!(found.identity, None);
        let links: Vec<_> = found.links.iter().map(|link| link.path.clone()).collect();
        assert_eq!(links, [at("two"), at("one")]);
        assert_eq!(
            follow(Path::new(&at("real")))
                .unwrap()
                .identity
                .unwrap()
                .kind,
            libc::S_IFDIR
        );
        assert!(follow(Path::new(&at("loop"))).is_err());
    }

    #[test]
    fn a_mount_is_read_with_its_escapes() {
        let line = r"36 35 98:0 /mnt\0401 /mnt\040two rw,noatime master:1 - ext3 /dev/root rw";

        assert_eq!(
            parse_mount(line),
            Some(Mount {
                device: "98:0".into(),
                root: "/mnt 1".into(),
                target: "/mnt two".into(),
                kind: "ext3".into(),
            })
        );
        assert_eq!(unescape(r"a\b\134\0"), r"a\b\\0");
    }

    #[test]
    fn a_path_that_is_mounted_twice_is_found_at_its_other_place() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        fs::create_dir_all(at("mnt/ssh/sub")).unwrap();
        let mount = |device: &str, root: &str, target: String| Mount {
            device: device.into(),
            root: root.into(),
            target,
            kind: "ext4".into(),
        };
        let mounts = [
            mount("8:1", "/", "/".into()),
            mount("8:2", "/", at("other")),
            mount("8:1", "/home/ada", at("mnt")),
            mount("8:1", "/home/ada/ssh/sub", at("mnt/ssh/sub")),
        ];

        let found = aliases("/home/ada/ssh", &mounts);

        let places: Vec<_> = found.iter().map(|alias| alias.at.path.clone()).collect();
        assert_eq!(places, [at("mnt/ssh"), at("mnt/ssh/sub")]);
        assert!(aliases("/home/eve", &mounts).is_empty());
    }

    #[test]
    fn a_git_file_that_nothing_points_back_to_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let owner = nix::unistd::geteuid().as_raw();
        for name in [
            "main/.git/objects",
            "main/.git/refs",
            "main/.git/worktrees/tree",
            "tree",
        ] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("main/.git/HEAD"), "").unwrap();
        fs::write(at("main/.git/worktrees/tree/gitdir"), at("tree/.git")).unwrap();
        fs::write(
            at("tree/.git"),
            format!("gitdir: {}\n", at("main/.git/worktrees/tree")),
        )
        .unwrap();

        let tree = git_directories(&at("tree"), owner);
        let first = tree.rules.first().unwrap();
        assert_eq!(
            (first.access, first.at.path.clone()),
            (FileAccess::Rw, at("main/.git"))
        );
        assert!(git_directories(&at("tree"), owner + 1).rules.is_empty());

        fs::write(at("main/.git/worktrees/tree/gitdir"), at("elsewhere/.git")).unwrap();
        let forged = git_directories(&at("tree"), owner);
        assert!(forged.rules.is_empty() && forged.note.is_some());
        fs::write(at("tree/.git"), format!("gitdir: {}\n", at("main/.git"))).unwrap();
        assert!(git_directories(&at("tree"), owner).rules.is_empty());
    }
}

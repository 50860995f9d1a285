//! Making the file system of a session: does what the plan's steps say, in their order.
//!
//! The host's own tree stays where it is until the end, so that sources can be opened in
//! it; the session's tree grows on a file system in memory and becomes the root at last.
//! Paths are walked without following a link, and what stands there is compared with
//! what stood there when the rules were compared: a path that was swapped in between stops
//! the start.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxAttributes, StatxFlags,
    fstat, fstatvfs, mkdirat, openat, openat2, statx, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount,
    mount_change, move_mount, open_tree, unmount,
};

use crate::plan::{Identity, MountAction, MountStep, Plan};
use crate::sys::mount::{MountAttributes, set_attributes};
use crate::{EnforcementError, Step};

/// Where the session's tree grows. Nothing of the host's `/proc` goes into a session, so it
/// can be covered without hiding a source.
const STAGING: &str = "/proc";

/// Options of the file system that holds what is generated: masks and a few small files.
const STAGING_OPTIONS: &CStr = c"mode=0700,size=4m";

/// A directory in the staging file system that nobody can look into.
const HIDDEN_DIRECTORY: &str = "hidden-directory";
/// A file there that nobody can read.
const HIDDEN_FILE: &str = "hidden-file";
/// A directory there with nothing in it.
const EMPTY_DIRECTORY: &str = "empty-directory";

/// What is mounted read-only and can do nothing.
const INERT: MountAttributes = MountAttributes {
    read_only: true,
    no_devices: true,
    no_exec: true,
    recursive: false,
};

/// Makes the session's file system and makes it the root of this process.
pub(crate) fn build(plan: &Plan) -> Result<(), EnforcementError> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(|e| failed("keeping mounts to the session", e.into()))?;
    let Some((first, rest)) = plan.mounts.split_first() else {
        return Ok(());
    };
    let mut tree = Tree::new(plan, first)?;
    for (index, step) in rest.iter().enumerate() {
        match tree.perform(step, index) {
            Err(Trouble::Absent(_)) if step.optional => {}
            Err(trouble) => return Err(trouble.at(step)),
            Ok(()) => {}
        }
    }
    tree.enter()
}

/// Checks from inside that every step holds: each target is the root of a mount, and what
/// shall be read-only is. Gives how many were checked.
pub(crate) fn read_back(plan: &Plan) -> Result<usize, EnforcementError> {
    let mut checked = 0;
    for (index, step) in plan.mounts.iter().enumerate() {
        let Some(expected) = read_only_at_last(&plan.mounts, index) else {
            continue;
        };
        let path = match openat(
            CWD,
            step.target.as_str(),
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Err(Errno::NOENT) if step.optional => continue,
            result => result.map_err(|e| not_as_planned(step, e))?,
        };
        let found = statx(&path, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
            .map_err(|e| not_as_planned(step, e))?;
        // The host removed it since: its name is there for a moment longer than what was
        // mounted on it.
        if step.optional && found.stx_nlink == 0 {
            continue;
        }
        if !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Err(not_as_planned(step, "nothing is mounted there"));
        }
        let read_only = fstatvfs(&path)
            .map_err(|e| not_as_planned(step, e))?
            .f_flag
            .contains(StatVfsMountFlags::RDONLY);
        if expected && !read_only {
            return Err(not_as_planned(step, "it can be written"));
        }
        checked += 1;
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|e| failed("reading the session's mounts", e))?;
    // proc_pid_mountinfo(5): optional fields stand between the options and a hyphen.
    let shared = mounts.lines().find(|line| {
        let optional = line.split(" - ").next().unwrap_or_default();
        optional.contains(" shared:") || optional.contains(" master:")
    });
    match shared {
        Some(line) => Err(EnforcementError::new(
            Step::SelfCheck,
            format!("a mount is shared with the host: {line}"),
        )),
        None => Ok(checked),
    }
}

/// Whether the mount that a step makes shall be read-only at the end; `None` when the step
/// makes no mount that can be seen at the end.
fn read_only_at_last(steps: &[MountStep], index: usize) -> Option<bool> {
    let step = &steps[index];
    let after = &steps[index + 1..];
    let covered = after.iter().any(|later| {
        let covers = !matches!(
            later.action,
            MountAction::Seal
                | MountAction::Pin
                | MountAction::PinLink
                | MountAction::MakeDirectory { .. }
                | MountAction::MakeLink { .. }
        );
        covers && !later.optional && is_at_or_below(&step.target, &later.target)
    });
    if covered {
        return None;
    }
    match &step.action {
        MountAction::HostTree
        | MountAction::HideDirectory
        | MountAction::HideFile
        | MountAction::EmptyDirectory
        | MountAction::Freeze
        | MountAction::File { .. } => Some(true),
        MountAction::Bind { writable, .. } => Some(!writable),
        MountAction::Tmpfs { .. } => Some(
            after
                .iter()
                .any(|later| later.action == MountAction::Seal && later.target == step.target),
        ),
        MountAction::Proc | MountAction::DevPts | MountAction::Mqueue => Some(false),
        MountAction::Pin
        | MountAction::PinLink
        | MountAction::Seal
        | MountAction::MakeDirectory { .. }
        | MountAction::MakeLink { .. } => None,
    }
}

pub(crate) fn is_at_or_below(path: &str, ancestor: &str) -> bool {
    ancestor == "/"
        || path
            .strip_prefix(ancestor)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn not_as_planned(step: &MountStep, why: impl Display) -> EnforcementError {
    EnforcementError::new(
        Step::SelfCheck,
        format!("{} is not as planned: {why}", step.target),
    )
}

fn failed(what: impl Display, error: io::Error) -> EnforcementError {
    EnforcementError::system(Step::Mounts, what, &error)
}

/// Why a step could not be done.
enum Trouble {
    /// Its source or target is not there.
    Absent(&'static str),
    /// Something else stands there than when the rules were compared.
    Swapped,
    /// The system refused.
    System(&'static str, io::Error),
}

impl Trouble {
    fn at(self, step: &MountStep) -> EnforcementError {
        let target = &step.target;
        match self {
            Self::Absent(what) => EnforcementError::new(
                Step::Mounts,
                format!("{what} of {target} is not there ({})", step.reason),
            ),
            Self::Swapped => EnforcementError::new(
                Step::Paths,
                format!("the identity of {target} changed while the session was starting"),
            )
            .hint("start it again when nothing moves or replaces that path"),
            Self::System(what, error) => {
                let hint = fuse_hint(&error, what);
                let error =
                    EnforcementError::system(Step::Mounts, format!("{target}: {what}"), &error);
                match hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
        }
    }
}

/// A file system in user space hides itself from other users, and in a user namespace from
/// its own.
fn fuse_hint(error: &io::Error, what: &str) -> Option<&'static str> {
    let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
    (is_refused && what == OPENING_SOURCE).then_some(
        "a FUSE mount that lacks `allow_other` cannot be seen inside; leave the path out, or \
         mount it with that option",
    )
}

const OPENING_SOURCE: &str = "opening the source";

fn system(what: &'static str) -> impl Fn(Errno) -> Trouble {
    move |error| match error {
        Errno::NOENT | Errno::NOTDIR => Trouble::Absent(what),
        // A link where the canonical path had none.
        Errno::LOOP => Trouble::Swapped,
        other => Trouble::System(what, other.into()),
    }
}

/// The session's tree while it grows.
struct Tree<'a> {
    /// The root of the host's tree.
    host: OwnedFd,
    /// The root of the session's.
    root: OwnedFd,
    /// The staging file system.
    store: OwnedFd,
    expected: HashMap<&'a str, &'a Identity>,
    /// Numbers of the file systems that were made for the session: missing directories and
    /// files may be made there, and what stands there was put there.
    own: HashSet<u64>,
}

impl<'a> Tree<'a> {
    fn new(plan: &'a Plan, first: &MountStep) -> Result<Self, EnforcementError> {
        let host = open_directory("/").map_err(|e| failed("opening /", e.into()))?;
        // The host's tree is copied before anything covers a part of it.
        let root_mount = match first.action {
            _ if first.target != "/" => Err(io::Error::other("the first step is at another place"))
                .map_err(|e| failed("making the root", e))?,
            MountAction::HostTree => clone_mount(&host, true)
                .and_then(|tree| {
                    set_attributes(
                        &tree,
                        MountAttributes {
                            read_only: true,
                            no_devices: true,
                            recursive: true,
                            ..MountAttributes::default()
                        },
                    )?;
                    Ok(tree)
                })
                .map_err(|e| failed("making the host's files read-only", e))?,
            MountAction::Tmpfs { mode, size, exec } => {
                memory(mode, size, exec).map_err(|e| failed("making an empty root", e))?
            }
            _ => {
                return Err(EnforcementError::new(
                    Step::Mounts,
                    "the plan does not begin with a root",
                ));
            }
        };
        let staging = |what| move |e: Errno| failed(what, e.into());
        mount(
            "egg",
            STAGING,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(STAGING_OPTIONS),
        )
        .map_err(staging("making a place to work in"))?;
        let store = open_directory(STAGING).map_err(staging("opening the place to work in"))?;
        for (name, mode) in [
            ("root", 0o700),
            (HIDDEN_DIRECTORY, 0),
            (EMPTY_DIRECTORY, 0o555),
        ] {
            mkdirat(&store, name, Mode::from_raw_mode(mode))
                .map_err(staging("making a directory to work in"))?;
        }
        create_file(&store, HIDDEN_FILE, 0).map_err(staging("making an empty file"))?;
        move_mount(
            &root_mount,
            "",
            &store,
            "root",
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )
        .map_err(staging("placing the session's root"))?;
        let root = openat(
            &store,
            "root",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(staging("opening the session's root"))?;
        let staging_number = fstat(&store)
            .map_err(staging("reading the place to work in"))?
            .st_dev;
        let mut tree = Self {
            host,
            root,
            store,
            expected: plan
                .expected
                .iter()
                .map(|identity| (identity.path.as_str(), identity))
                .collect(),
            own: HashSet::from([staging_number]),
        };
        if matches!(first.action, MountAction::Tmpfs { .. }) {
            tree.owns_mount_at("/")
                .map_err(|trouble| trouble.at(first))?;
        }
        Ok(tree)
    }

    fn perform(&mut self, step: &MountStep, index: usize) -> Result<(), Trouble> {
        let target = step.target.as_str();
        match &step.action {
            MountAction::HostTree => Err(Trouble::System(
                "mounting the host's tree",
                io::Error::other("only the first step can"),
            )),
            MountAction::Bind {
                source,
                writable,
                devices,
            } => {
                let from = self.open_source(source)?;
                let is_directory = is_directory(&from).map_err(system("reading the source"))?;
                let clone = clone_mount(&from, true)
                    .map_err(|e| Trouble::System("copying the mount", e))?;
                set_attributes(
                    &clone,
                    MountAttributes {
                        read_only: !writable,
                        no_devices: !devices,
                        no_exec: *devices,
                        recursive: true,
                    },
                )
                .map_err(|e| Trouble::System("limiting the mount", e))?;
                let to = self.open_or_make(target, is_directory)?;
                place(&clone, &to)
            }
            MountAction::Pin | MountAction::PinLink => {
                let at = self.open_target(target)?;
                let clone =
                    clone_mount(&at, true).map_err(|e| Trouble::System("copying the mount", e))?;
                place(&clone, &at)
            }
            MountAction::Freeze => {
                let at = self.open_target(target)?;
                let clone =
                    clone_mount(&at, true).map_err(|e| Trouble::System("copying the mount", e))?;
                let read_only = MountAttributes {
                    read_only: true,
                    no_devices: true,
                    recursive: true,
                    ..MountAttributes::default()
                };
                set_attributes(&clone, read_only)
                    .map_err(|e| Trouble::System("limiting the mount", e))?;
                place(&clone, &at)
            }
            MountAction::Tmpfs { mode, size, exec } => {
                let to = self.open_or_make(target, true)?;
                let made = memory(*mode, *size, *exec)
                    .map_err(|e| Trouble::System("making a file system in memory", e))?;
                place(&made, &to)?;
                self.owns_mount_at(target)
            }
            MountAction::Seal => {
                let at = self.open_target(target)?;
                set_attributes(
                    &at,
                    MountAttributes {
                        read_only: true,
                        ..MountAttributes::default()
                    },
                )
                .map_err(|e| Trouble::System("making it read-only", e))
            }
            MountAction::HideDirectory => self.mask(target, HIDDEN_DIRECTORY, true),
            MountAction::HideFile => self.mask(target, HIDDEN_FILE, false),
            MountAction::EmptyDirectory => self.mask(target, EMPTY_DIRECTORY, true),
            MountAction::Proc => {
                let to = self.open_or_make(target, true)?;
                let made = make_filesystem("proc", &[], MountAttrFlags::MOUNT_ATTR_NOEXEC)
                    .map_err(|e| Trouble::System("mounting proc", e))?;
                place(&made, &to)
            }
            MountAction::DevPts => {
                let to = self.open_or_make(target, true)?;
                // Each instance is a new one, and a new one has no group for terminals: the
                // session's namespace maps one group alone.
                let options = [("ptmxmode", "0666"), ("mode", "0620")];
                let made = make_filesystem("devpts", &options, MountAttrFlags::MOUNT_ATTR_NOEXEC)
                    .map_err(|e| Trouble::System("mounting devpts", e))?;
                place(&made, &to)
            }
            MountAction::Mqueue => {
                let to = self.open_or_make(target, true)?;
                let attributes =
                    MountAttrFlags::MOUNT_ATTR_NOEXEC | MountAttrFlags::MOUNT_ATTR_NODEV;
                let made = make_filesystem("mqueue", &[], attributes)
                    .map_err(|e| Trouble::System("mounting mqueue", e))?;
                place(&made, &to)
            }
            MountAction::MakeDirectory { mode } => {
                let at = self.open_or_make(target, true)?;
                // The mode of a new directory goes through the mask, this one does not.
                rustix::fs::chmodat(&at, ".", Mode::from_raw_mode(*mode), AtFlags::empty())
                    .map_err(system("setting its mode"))
            }
            MountAction::MakeLink { to } => {
                let (parent, name) = self.open_parent(target)?;
                symlinkat(to.as_str(), &parent, name).map_err(system("making the link"))
            }
            MountAction::File { content } => {
                let name = format!("file-{index}");
                let file =
                    create_file(&self.store, &name, 0o444).map_err(system("making the file"))?;
                rustix::io::write(&file, content.as_bytes()).map_err(system("writing the file"))?;
                self.mask(target, &name, false)
            }
        }
    }

    /// Mounts something of the staging file system at a target, unable to do anything.
    fn mask(&mut self, target: &str, name: &str, directory: bool) -> Result<(), Trouble> {
        let to = self.open_or_make(target, directory)?;
        let from = openat(
            &self.store,
            name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(system("opening the mask"))?;
        let clone = clone_mount(&from, false).map_err(|e| Trouble::System("copying a mask", e))?;
        set_attributes(&clone, INERT).map_err(|e| Trouble::System("limiting a mask", e))?;
        place(&clone, &to)
    }

    /// Makes the session's tree the root and lets go of the host's.
    fn enter(self) -> Result<(), EnforcementError> {
        let step = |what| move |e: Errno| failed(what, e.into());
        rustix::process::fchdir(&self.root).map_err(step("entering the session's root"))?;
        // With one directory for both, the old root is mounted over the new one
        // (pivot_root(2), NOTES), and is then taken away.
        rustix::process::pivot_root(".", ".").map_err(step("changing the root"))?;
        unmount(".", UnmountFlags::DETACH).map_err(step("letting go of the host's root"))?;
        rustix::process::chdir("/").map_err(step("entering the root"))
    }

    /// Opens a source on the host and compares it with what stood there before.
    fn open_source(&self, path: &str) -> Result<OwnedFd, Trouble> {
        let found = walk(&self.host, path).map_err(system(OPENING_SOURCE))?;
        self.compare(path, &found)?;
        Ok(found)
    }

    /// Opens a target in the session's tree. Where the host's own file of that path is seen,
    /// it has to be the one that stood there before.
    fn open_target(&self, path: &str) -> Result<OwnedFd, Trouble> {
        let found = walk(&self.root, path).map_err(system("the target"))?;
        let stat = fstat(&found).map_err(system("reading the target"))?;
        if !self.own.contains(&stat.st_dev) {
            self.compare(path, &found)?;
        }
        Ok(found)
    }

    fn compare(&self, path: &str, found: &OwnedFd) -> Result<(), Trouble> {
        let Some(expected) = self.expected.get(path) else {
            return Ok(());
        };
        let stat = fstat(found).map_err(system("reading what stands there"))?;
        let same = (stat.st_dev, stat.st_ino, stat.st_mode & libc::S_IFMT)
            == (expected.dev, expected.ino, expected.kind);
        if same { Ok(()) } else { Err(Trouble::Swapped) }
    }

    /// Opens a target, and makes it first when it is missing in a file system of the session.
    fn open_or_make(&self, path: &str, directory: bool) -> Result<OwnedFd, Trouble> {
        match self.open_target(path) {
            Err(Trouble::Absent(_)) => {}
            result => return result,
        }
        let (parent, name) = match self.open_parent(path) {
            Err(Trouble::Absent(_)) => {
                let (above, _) = split(path);
                self.open_or_make(above, true)?;
                self.open_parent(path)?
            }
            result => result?,
        };
        let stat = fstat(&parent).map_err(system("reading the parent"))?;
        if !self.own.contains(&stat.st_dev) {
            return Err(Trouble::Absent("the target"));
        }
        if directory {
            mkdirat(&parent, name, Mode::from_raw_mode(0o755))
        } else {
            create_file(&parent, name, 0o644).map(drop)
        }
        .map_err(system("making the target"))?;
        walk(&self.root, path).map_err(system("opening the target"))
    }

    fn open_parent<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), Trouble> {
        let (above, name) = split(path);
        let parent = walk(&self.root, above).map_err(system("the parent"))?;
        Ok((parent, name))
    }

    fn owns_mount_at(&mut self, path: &str) -> Result<(), Trouble> {
        let at = walk(&self.root, path).map_err(system("opening what was made"))?;
        self.own
            .insert(fstat(&at).map_err(system("reading what was made"))?.st_dev);
        Ok(())
    }
}

/// A path as its parent and its name.
fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((above, name)) => (above, name),
        None => ("/", path),
    }
}

/// Opens an absolute path below a root, without following any link. When the last part is a
/// link, the link itself is what is opened (openat2(2), RESOLVE_NO_SYMLINKS).
fn walk(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let below = path.trim_start_matches('/');
    openat2(
        root,
        if below.is_empty() { "." } else { below },
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS,
    )
}

fn open_directory(path: impl AsRef<Path>) -> Result<OwnedFd, Errno> {
    openat(
        CWD,
        path.as_ref(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

fn is_directory(fd: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstat(fd)?.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

fn create_file(directory: &OwnedFd, name: &str, mode: u32) -> Result<OwnedFd, Errno> {
    let file = openat(
        directory,
        name,
        OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o600),
    )?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(file)
}

/// Copies the mount at a place, with what is mounted below it. What the host mounted is
/// locked in place in the session's namespace, so it can be copied as a whole only.
fn clone_mount(at: &OwnedFd, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(open_tree(at, "", flags)?)
}

fn place(mount: &OwnedFd, at: &OwnedFd) -> Result<(), Trouble> {
    move_mount(
        mount,
        "",
        at,
        "",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )
    .map_err(|e| Trouble::System("mounting", e.into()))
}

fn memory(mode: u32, size: u64, exec: bool) -> io::Result<OwnedFd> {
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NODEV;
    if !exec {
        attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    let (mode, size) = (format!("{mode:o}"), size.to_string());
    make_filesystem("tmpfs", &[("mode", &mode), ("size", &size)], attributes)
}

fn make_filesystem(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes | MountAttrFlags::MOUNT_ATTR_NOSUID,
    )?)
}

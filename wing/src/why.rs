//! What a plan does at a path: the steps that make a session's files, read from the first
//! to the last, as the kernel will.

use std::path::{Path, PathBuf};

use serde::Serialize;
use wt_sandbox::plan::{MountAction, MountLayer, MountStep, Plan};

/// What a session finds at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finds {
    /// The host's, read and written.
    Writable,
    /// The host's, read.
    ReadOnly,
    /// Something of the session's own; the host's is not seen.
    Own,
    /// Nothing: what is there is hidden.
    Hidden,
}

/// What a plan does at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlan<'a> {
    /// What is found.
    pub finds: Finds,
    /// The step that decides.
    pub step: &'a MountStep,
}

/// Tells what a session of this plan finds at an absolute path whose links were followed.
/// `None` only for a plan without a root.
pub fn in_plan<'a>(plan: &'a Plan, path: &str) -> Option<InPlan<'a>> {
    let mut found = None;
    for step in &plan.mounts {
        if !Path::new(path).starts_with(&step.target) {
            continue;
        }
        let hides = matches!(
            step.layer,
            MountLayer::Root | MountLayer::Denied | MountLayer::Core
        );
        let finds = match &step.action {
            MountAction::HostTree | MountAction::Freeze => Finds::ReadOnly,
            MountAction::Bind { writable: true, .. } => Finds::Writable,
            MountAction::Bind { .. } => Finds::ReadOnly,
            MountAction::HideDirectory | MountAction::HideFile | MountAction::EmptyDirectory => {
                Finds::Hidden
            }
            MountAction::Tmpfs { .. } | MountAction::MakeDirectory { .. } if hides => Finds::Hidden,
            MountAction::Tmpfs { .. }
            | MountAction::MakeDirectory { .. }
            | MountAction::Proc
            | MountAction::DevPts
            | MountAction::Mqueue
            | MountAction::File { .. } => Finds::Own,
            // These change who may move something, not what is found.
            MountAction::Pin
            | MountAction::PinLink
            | MountAction::MakeLink { .. }
            | MountAction::Seal => continue,
        };
        found = Some(InPlan { finds, step });
    }
    found
}

/// Follows the links of a path as far as it exists; the rest stays as it is.
pub fn followed(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut at = path;
    loop {
        if let Ok(found) = at.canonicalize() {
            return rest.iter().rev().fold(found, |path, name| path.join(name));
        }
        match (at.parent(), at.file_name()) {
            (Some(above), Some(name)) => {
                rest.push(name);
                at = above;
            }
            _ => return path.to_owned(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use wt_policy::{Facts, Layers, Places, Platform, Request, resolve};
    use wt_sandbox::host::{self, Surroundings};
    use wt_sandbox::plan::{Program, Stdio};

    use super::*;

    #[test]
    fn what_is_found_is_what_the_last_step_at_or_above_a_path_says() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["home/.ssh", "project/.git/hooks", "home/.wingthing"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let places = Places {
            home: at("home"),
            cwd: at("project"),
            profile: at("home/.wingthing"),
        };
        let facts = Facts {
            places: places.clone(),
            platform: Platform::Linux,
            env: Vec::new(),
            shared: false,
        };
        let request = Request {
            facts: &facts,
            agent: None,
            profile: None,
            trusted: false,
            options: &[],
        };
        let policy = resolve(&Layers::default(), &request).unwrap();
        let surroundings = Surroundings {
            cwd: places.cwd.into(),
            home: places.home.into(),
            profiles: vec![places.profile.into()],
            program: None,
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
        };
        let facts = host::look(&policy, &surroundings).unwrap();
        let start = wt_sandbox::Request {
            program: Program {
                file: "/bin/sh".to_owned(),
                argv: vec!["sh".to_owned()],
                env: Vec::new(),
            },
            stdio: Stdio::Given,
        };
        let plan = wt_sandbox::compile(&policy, &facts, &start).unwrap();
        let finds = |path: &str| in_plan(&plan, path).unwrap().finds;

        assert_eq!(finds("/usr/bin/env"), Finds::ReadOnly);
        assert_eq!(finds("/tmp/anything"), Finds::Own);
        assert_eq!(finds(&at("project/new/file")), Finds::Writable);
        assert_eq!(finds(&at("project/.git/hooks/pre-commit")), Finds::ReadOnly);
        assert_eq!(finds(&at("home/notes")), Finds::ReadOnly);
        assert_eq!(finds(&at("home/.ssh/id_ed25519")), Finds::Hidden);
        assert_eq!(finds(&at("home/.wingthing/key")), Finds::Hidden);
    }

    #[test]
    fn links_are_followed_as_far_as_there_is_something() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("dot")).unwrap();
        std::os::unix::fs::symlink("dot", real.join("link")).unwrap();

        assert_eq!(followed(&real.join("link/a/b")), real.join("dot/a/b"));
        assert_eq!(followed(Path::new("/")), Path::new("/"));
    }
}

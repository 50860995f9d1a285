//! Sandboxed sessions by the real `wt`: what starts and what does not, what is told of it
//! before, during and after, and who decides.
//!
//! What a session can reach is for the escape suite; here it is the wiring.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod end;
mod explain;
mod log;
mod start;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wt_tests::profile::{Run, Running};
use wt_tests::{Profile, process};

/// A user with a project in the home folder, which is where `wt` is run.
struct User {
    profile: Profile,
}

impl User {
    fn new() -> Self {
        Self::of(Profile::new("ada"))
    }

    fn of(profile: Profile) -> Self {
        let user = Self { profile };
        fs::create_dir(user.project()).unwrap();
        user
    }

    fn project(&self) -> PathBuf {
        self.profile.home().join("project")
    }

    /// A path below the project, as text.
    fn at(&self, name: &str) -> String {
        self.project().join(name).display().to_string()
    }

    /// A path below the home folder, as text.
    fn at_home(&self, name: &str) -> String {
        self.profile.home().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn write_home(&self, name: &str, text: &str) {
        let path = self.profile.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The user's own rules.
    fn write_rules(&self, text: &str) {
        use std::os::unix::fs::DirBuilderExt;
        if !self.profile.dir().exists() {
            fs::DirBuilder::new()
                .mode(0o700)
                .create(self.profile.dir())
                .unwrap();
        }
        fs::write(self.profile.dir().join("egg.yaml"), text).unwrap();
    }

    /// Runs `wt` in the project.
    #[track_caller]
    fn wt(&self, args: &[&str]) -> Run {
        self.wt_in(&self.project(), args)
    }

    #[track_caller]
    fn wt_in(&self, folder: &Path, args: &[&str]) -> Run {
        let mut command = self.profile.command(&process::program("wt"));
        command.current_dir(folder).args(args);
        Running::start(command).wait()
    }

    /// Runs `wt ... --json` in the project and reads the one document.
    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let mut all: Vec<&str> = args.iter().take_while(|a| **a != "--").copied().collect();
        all.push("--json");
        all.extend(args.iter().skip_while(|a| **a != "--"));
        self.wt(&all).ok().json()
    }

    /// Runs a script in a session in the project, and gives its output and its record.
    #[track_caller]
    fn script(&self, script: &str) -> (String, Value) {
        self.script_with(&[], script)
    }

    #[track_caller]
    fn script_with(&self, options: &[&str], script: &str) -> (String, Value) {
        let mut args = vec!["terminal"];
        args.extend(options);
        args.extend(["--", "sh", "-c", script]);
        let started = self.json(&args);
        let id = started["session"]["id"].as_str().unwrap().to_owned();
        (self.output(&id), self.ended(&id))
    }

    /// All that a session printed until its end.
    #[track_caller]
    fn output(&self, id: &str) -> String {
        self.ended(id);
        self.wt(&["session", "read", id, "--raw"]).ok().out()
    }

    /// Waits for the end of a session, and gives its record.
    #[track_caller]
    fn ended(&self, id: &str) -> Value {
        wt_tests::eventually("the end of the session", || {
            let sessions = self.profile.sessions();
            sessions
                .into_iter()
                .find(|one| one["id"] == id && !one["exit"].is_null() && one["pid"].is_null())
        })
    }
}

/// The notes of a record, one in each line.
fn notes(record: &Value) -> String {
    let notes = record["notes"].as_array().unwrap().iter();
    let lines: Vec<&str> = notes.map(|note| note.as_str().unwrap()).collect();
    lines.join("\n")
}

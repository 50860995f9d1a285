//! Cases that are more than one script.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio as ProcessStdio};
use std::time::{Duration, Instant, SystemTime};

use wt_sandbox::aftermath;
use wt_sandbox::plan::{MountAction, Plan};
use wt_sandbox::settings::Settings;

use crate::case::{CASE, Case, Place};
use crate::runner::{Elsewhere, Verdict};
use crate::surroundings::CANARY;
use crate::world::World;

/// The argument of a supervisor that is there to be killed.
pub(crate) const SUPERVISE: &str = "--supervise";

/// How long what ends may take.
const SOON: Duration = Duration::from_secs(5);

/// What no row of the suite tries.
pub(crate) const ELSEWHERE: &[Elsewhere] = &[
    (
        "FS-55",
        "names of the supervisor's temporary files are guessed",
        "it has none: the plan is in memory, and its state in the profile",
    ),
    (
        "FS-62",
        "file names act on the terminal of whoever is told what was left",
        "tests of wt-egg print such names",
    ),
    (
        "NET-55",
        "a tool outside hands in a descriptor",
        "there are no tools outside that a session could call",
    ),
    (
        "PR-14",
        "pasted text ends its own paste",
        "tests of the attached terminal paste such text",
    ),
    (
        "PR-15",
        "a terminal is left in a strange mode",
        "tests of the attached terminal end sessions in such modes",
    ),
    (
        "PR-42",
        "the user's watches of files are used up",
        "it would use up those of whoever runs the suite; the setting is in every plan",
    ),
    (
        "PR-52",
        "a program's own filter notifies it",
        "it is allowed, and concerns its own children alone",
    ),
    (
        "PER-15",
        "a history is captured through a link",
        "no history of a session is captured",
    ),
    (
        "PER-16",
        "names of sessions act on a terminal",
        "tests of the commands give such names",
    ),
    (
        "PER-19",
        "a session starts another with a wider policy",
        "it reaches neither wingthing's socket (NET-64) nor its directory (SEC-06)",
    ),
];

fn verdict(result: Result<String, String>) -> Verdict {
    match result {
        Ok(said) => Verdict::Holds(said),
        Err(why) => Verdict::Fails(why),
    }
}

/// Processes of the machine whose first argument contains a text.
fn named(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        if String::from_utf8_lossy(first).contains(text) {
            found.push(pid);
        }
    }
    found
}

/// Waits until none of them is left. Gives how long it took.
fn gone(text: &str) -> Result<Duration, String> {
    let began = Instant::now();
    while began.elapsed() < SOON {
        if named(text).is_empty() {
            return Ok(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(format!("{:?} still run", named(text)))
}

const DAEMONS: &str = "for i in 1 2 3; do \
    (trap '' HUP TERM INT; exec -a daemon-$TOKEN sleep 300) >/dev/null 2>&1 </dev/null & \
    (trap '' HUP TERM; setsid bash -c \"exec -a daemon-$TOKEN sleep 300\") >/dev/null 2>&1 </dev/null & done; \
    while test $(grep -la ^daemon-$TOKEN /proc/[0-9]*/cmdline 2>/dev/null | wc -l) -lt 6; do :; done; echo up";

/// Whether they are seen on the host while they run, or the search would prove nothing.
fn started(world: &World, script: &str) -> Result<crate::world::Running, String> {
    let planned = world.plan(script, "", false)?;
    let mut running = world.start(&planned, script)?;
    let line = running.line();
    if line != "up" {
        return Err(format!("it said {line:?}"));
    }
    if named(&format!("daemon-{}", world.token)).len() < 6 {
        return Err("the search does not find what runs".to_owned());
    }
    Ok(running)
}

pub(crate) fn stubborn_processes_end() -> Verdict {
    verdict((|| {
        let world = World::new(Place::Home);
        let running = started(&world, &format!("{DAEMONS}; sleep 300"))?;
        running.session.kill().map_err(|e| e.to_string())?;
        running.session.wait().map_err(|e| e.to_string())?;
        let took = gone(&format!("daemon-{}", world.token))?;
        Ok(format!("all gone after {took:?}"))
    })())
}

pub(crate) fn nothing_is_left_running() -> Verdict {
    verdict((|| {
        let world = World::new(Place::Home);
        let script = format!("{DAEMONS}; until test -e go; do :; done; exit 3");
        let running = started(&world, &script)?;
        fs::write(world.project.join("go"), "").map_err(|e| e.to_string())?;
        let ran = running.finish();
        if !ran.status.contains('3') {
            return Err(format!("it ended with {}", ran.status));
        }
        let took = gone(&format!("daemon-{}", world.token))?;
        Ok(format!("all gone after {took:?}"))
    })())
}

pub(crate) fn the_end_of_the_supervisor_ends_all() -> Verdict {
    verdict((|| {
        let world = World::new(Place::Home);
        let mut planned = world.plan("", "", false)?;
        let script = format!("TOKEN={}; {DAEMONS}; sleep 300", world.token);
        planned.plan.program.argv = vec!["bash".into(), "-c".into(), script];
        planned.plan.cgroup = None;
        let mut supervisor = Command::new(std::env::current_exe().unwrap())
            .arg(SUPERVISE)
            .stdin(ProcessStdio::piped())
            .stdout(ProcessStdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let plan = serde_json::to_vec(&planned.plan).unwrap();
        supervisor.stdin.take().unwrap().write_all(&plan).unwrap();
        let mut output = BufReader::new(supervisor.stdout.take().unwrap());
        let mut line = String::new();
        let _ = output.read_line(&mut line);
        let was_there = !named(&format!("daemon-{}", world.token)).is_empty();
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        if line != "up\n" || !was_there {
            return Err(format!("it said {line:?}"));
        }
        let took = gone(&format!("daemon-{}", world.token))?;
        let mut rest = String::new();
        let _ = output.read_to_string(&mut rest);
        Ok(format!("all gone after {took:?}"))
    })())
}

/// Holds a session until it is killed: the plan comes on standard input.
pub(crate) fn supervise() -> ! {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let plan: Plan = serde_json::from_str(&text).unwrap();
    let null = || {
        fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap()
    };
    let (mut output, theirs) = std::io::pipe().unwrap();
    let given = [null().into(), theirs.into(), null().into()];
    let session = wt_sandbox::spawn(&plan, Some(given), None).unwrap();
    let mut bytes = [0; 64];
    while let Ok(read) = output.read(&mut bytes) {
        if read == 0 {
            break;
        }
        std::io::stdout().write_all(&bytes[..read]).unwrap();
        std::io::stdout().flush().unwrap();
    }
    session.wait().unwrap();
    std::process::exit(0)
}

pub(crate) fn sessions_do_not_see_each_other() -> Verdict {
    verdict((|| {
        let one = World::new(Place::Home);
        let running = started(&one, &format!("{DAEMONS}; sleep 300"))?;
        let of_host = running.session.program;
        let mut other = World::new(Place::Home);
        let attack = format!(
            "r=1; kill -9 {of_host} && r=0; $PROBE sc ptrace 0x4206 {of_host} 0 0 && r=0; \
             grep -la daemon-{} /proc/[0-9]*/cmdline && r=0; exit $r",
            one.token
        );
        let ran = other.inside(&CASE, &attack, &[])?;
        let still_runs = !named(&format!("daemon-{}", one.token)).is_empty();
        // The twin: the same from outside ends it.
        let twin = other.outside(&format!("kill -9 {of_host}"), false);
        if ran.ok || !still_runs {
            return Err(format!("it succeeds: {}", ran.output));
        }
        if !twin.ok {
            return Err(format!("the twin outside fails: {}", twin.output));
        }
        Ok("neither ended, traced nor seen".to_owned())
    })())
}

pub(crate) fn what_is_left_is_listed() -> Verdict {
    verdict((|| {
        let mut world = World::new(Place::Home);
        fs::remove_file(world.project.join(".vscode/tasks.json")).unwrap();
        fs::remove_file(world.project.join(".envrc")).unwrap();
        let since = SystemTime::now();
        let script = "git init -q sub && echo x > sub/.git/hooks/pre-commit && chmod +x sub/.git/hooks/pre-commit; \
                      echo '{}' > .vscode/tasks.json; echo x > .envrc; mkdir -p .claude/hooks; \
                      echo x > .claude/hooks/start.sh; printf x > \"$(printf 'a\\033]0;b')\"; echo done";
        let ran = world.inside(&CASE, script, &[])?;
        if !ran.output.contains("done") {
            return Err(ran.output);
        }
        let found = aftermath::look(std::slice::from_ref(&world.project), since);
        let missing: Vec<&str> = [
            "sub/.git/hooks/pre-commit",
            ".vscode/tasks.json",
            ".envrc",
            ".claude/hooks",
        ]
        .into_iter()
        .filter(|name| world.project.join(name).exists())
        .filter(|name| {
            let path = world.project.join(name);
            !found
                .left
                .iter()
                .any(|left| left.path.starts_with(&path) || path.starts_with(&left.path))
        })
        .collect();
        if !missing.is_empty() {
            return Err(format!(
                "made and not listed: {missing:?} in {:?}",
                found.left
            ));
        }
        Ok(format!("{} findings", found.left.len()))
    })())
}

pub(crate) fn a_made_policy_widens_nothing() -> Verdict {
    verdict((|| {
        let mut world = World::new(Place::Home);
        fs::remove_file(world.project.join("egg.yaml")).unwrap();
        let script = "printf 'fs: [\"rw:~/closet\", \"ro:~/.aws\"]\\nnetwork: \"*\"\\nenv: [SECRET_CANARY]\\n' > egg.yaml";
        let ran = world.inside(&CASE, script, &[])?;
        if !ran.ok {
            return Ok("it could not be made at all".to_owned());
        }
        let attack = "r=1; echo x > $H/closet/new && r=0; cat $H/.aws/credentials && r=0; \
                      test -n \"$SECRET_CANARY\" && r=0; \
                      $PROBE raw $px 'CONNECT evil.test:443 HTTP/1.1\\r\\n\\r\\n' | grep ' 200 ' && r=0; exit $r";
        let ran = world.inside(&CASE, attack, &[])?;
        if ran.ok || ran.output.contains(CANARY) {
            return Err(format!("it widens: {}", ran.output));
        }
        // The twin: the same rules by the user's own hand.
        let case = Case {
            policy: "fs: ['rw:./', 'rw:~/closet']\nenv: [SECRET_CANARY]\n",
            ..CASE
        };
        let twin = world.inside(
            &case,
            "echo x > $H/closet/new && test -n \"$SECRET_CANARY\"",
            &[],
        )?;
        if !twin.ok {
            return Err(format!("the twin fails: {}", twin.output));
        }
        Ok("it is only narrowed".to_owned())
    })())
}

pub(crate) fn settings_are_put_back_through_no_link() -> Verdict {
    verdict((|| {
        let world = World::new(Place::Home);
        let kept = world.home.join("kept");
        let name = PathBuf::from("project/agent.json");
        let mut tried = Vec::new();
        for way in ["plain", "hard link", "symbolic link"] {
            world.write("project/agent.json", "mine\n");
            world.write("closet/victim", "untouched\n");
            let settings = Settings::take(&world.home, std::slice::from_ref(&name));
            let path = world.home.join(&name);
            let victim = world.home.join("closet/victim");
            fs::remove_file(&path).unwrap();
            match way {
                "plain" => fs::write(&path, "theirs\n").unwrap(),
                "hard link" => fs::hard_link(&victim, &path).unwrap(),
                _ => symlink(&victim, &path).unwrap(),
            }
            settings.put_back(&kept);
            if fs::read_to_string(&victim).unwrap() != "untouched\n" {
                return Err(format!("a {way} leads the restore to another file"));
            }
            if way == "plain" && fs::read_to_string(&path).unwrap() != "mine\n" {
                return Err("a changed file is not put back".to_owned());
            }
            let is_kept = fs::read_dir(&kept)
                .into_iter()
                .flatten()
                .flatten()
                .any(|entry| {
                    fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("untouched"))
                });
            if is_kept && way == "symbolic link" {
                return Err("a link makes the snapshot keep another file".to_owned());
            }
            let _ = fs::remove_file(&path);
            tried.push(way);
        }
        Ok(format!("{} are safe", tried.join(", ")))
    })())
}

/// A part of a plan, and how it is made impossible.
type Way<'a> = (&'a str, &'a dyn Fn(&mut Plan));

pub(crate) fn nothing_starts_weaker_than_planned() -> Verdict {
    verdict((|| {
        let world = World::new(Place::Home);
        let script = "echo x > ran; echo up";
        let ways: [Way<'_>; 5] = [
            ("landlock", &|plan| {
                plan.landlock.as_mut().unwrap().min_abi = 99
            }),
            ("a setting", &|plan| plan.sysctls[0].path = "no/such".into()),
            ("a denial", &|plan| {
                let step = plan
                    .mounts
                    .iter_mut()
                    .find(|step| step.action == MountAction::HideDirectory)
                    .unwrap();
                step.target = "/no/such".into();
                step.optional = false;
            }),
            ("the directory", &|plan| plan.cwd = "/no/such".into()),
            ("the root", &|plan| {
                plan.mounts.remove(0);
            }),
        ];
        for (what, weaken) in ways {
            let mut planned = world.plan(script, "", false)?;
            weaken(&mut planned.plan);
            match world.start(&planned, script) {
                Ok(_) => return Err(format!("it starts without {what}")),
                Err(error) if error.is_empty() => {
                    return Err(format!("{what}: no reason is given"));
                }
                Err(_) => {}
            }
            if world.project.join("ran").exists() {
                return Err(format!("the program ran without {what}"));
            }
        }
        // The twin: nothing is taken away.
        let planned = world.plan(script, "", false)?;
        world.start(&planned, script)?.finish();
        if !world.project.join("ran").exists() {
            return Err("it does not even run with everything".to_owned());
        }
        Ok("each part that fails stops the start".to_owned())
    })())
}

pub(crate) fn no_litter_is_left() -> Verdict {
    verdict((|| {
        let world = World::new(Place::Home);
        let list = || {
            let ran = world.outside("find $H -print | sort", false);
            ran.output
        };
        // Making a plan makes the caches of tools that are used for the first time.
        let planned = world.plan("true", "", false)?;
        let before = list();
        world.start(&planned, "true")?.finish();
        // Once more, ended in the middle.
        let planned = world.plan("echo up; sleep 60", "", false)?;
        let running = world.start(&planned, "echo up; sleep 60")?;
        running.session.kill().map_err(|e| e.to_string())?;
        running.session.wait().map_err(|e| e.to_string())?;
        let after = list();
        if before != after {
            return Err(format!("before:\n{before}\nafter:\n{after}"));
        }
        Ok("nothing new".to_owned())
    })())
}

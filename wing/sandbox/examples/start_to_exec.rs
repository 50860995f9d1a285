//! Measures how long a session takes from a plan that is ready to its program's first byte,
//! beside `bwrap --unshare-all` in the same run.
//!
//! Usage: `cargo run --release -p wt-sandbox --example start_to_exec [RUNS]`. A plan of an
//! ordinary project with a handful of rules is taken. Runs alternate, and the first five of
//! each are dropped.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{PipeReader, Read, pipe};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio as ProcessStdio};
use std::time::{Duration, Instant};

use wt_policy::{
    EffectivePolicy, EnvPolicy, FileAccess, FileRule, NetworkMode, NetworkNeed, NetworkPolicy,
    Resources, Source,
};
use wt_sandbox::host::{Surroundings, look};
use wt_sandbox::plan::{Plan, Program, Stdio};
use wt_sandbox::{Request, Stage, compile, spawn};

const WARM_UP: usize = 5;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    wt_sandbox::run_if_stage();
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(50), |runs| runs.parse::<usize>())?;
    let dir = std::env::current_dir()?.join(format!("target/start-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("project/.git/hooks"))?;
    std::fs::create_dir_all(dir.join(".ssh"))?;
    std::fs::create_dir_all(dir.join(".wingthing"))?;
    let home = dir.to_str().ok_or("the directory's name is no text")?;
    let plan = plan(home)?;

    let (mut plain, mut ours, mut execs, mut theirs, mut cold) =
        (vec![], vec![], vec![], vec![], vec![]);
    for run in 0..runs + WARM_UP {
        let results = [
            command(Command::new("echo").arg("x"))?,
            session(&plan, true)?.0,
            session(&plan, true)?.1,
            command(
                Command::new("bwrap")
                    .args(["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev"])
                    .args(["--proc", "/proc", "--tmpfs", "/tmp", "echo", "x"]),
            )?,
            session(&plan, false)?.0,
        ];
        if run >= WARM_UP {
            plain.push(results[0]);
            ours.push(results[1]);
            execs.push(results[2]);
            theirs.push(results[3]);
            cold.push(results[4]);
        }
    }
    std::fs::remove_dir_all(&dir)?;
    let report = |name: &str, times: &mut Vec<Duration>| {
        times.sort();
        let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
        println!(
            "{name:<28} min {:6.2}  p50 {:6.2}  p95 {:6.2} ms",
            at(0.0),
            at(0.5),
            at(0.95)
        );
        at(0.5)
    };
    report("no boundary, first byte", &mut plain);
    report("plan ready to exec", &mut execs);
    let ours = report("session, first byte", &mut ours);
    report("the same, stage started late", &mut cold);
    let theirs = report("bwrap, first byte", &mut theirs);
    println!("ratio of medians             {:.2}", ours / theirs);
    Ok(())
}

fn plan(home: &str) -> Result<Plan> {
    let rule = |access, path: String| FileRule {
        access,
        path,
        kind: None,
        source: Source::Default,
        reason: None,
    };
    let policy = EffectivePolicy {
        agent: None,
        config_source: Source::Default,
        trusted: true,
        files: vec![
            rule(FileAccess::Rw, format!("{home}/project")),
            rule(FileAccess::DenyWrite, format!("{home}/project/.git/hooks")),
            rule(FileAccess::Deny, format!("{home}/.ssh")),
        ],
        network: NetworkPolicy {
            need: NetworkNeed::Any,
            hosts: Vec::new(),
            local_ports: Vec::new(),
            mode: NetworkMode::Enforce,
        },
        env: EnvPolicy {
            all: false,
            pass: Vec::new(),
            set: BTreeMap::new(),
        },
        resources: Resources::default(),
        shell: None,
        skip_permissions: false,
        audit: false,
        trace: false,
        agent_settings: BTreeMap::new(),
        drilled: Vec::new(),
        derived: Vec::new(),
        suppressed: Vec::new(),
    };
    let facts = look(
        &policy,
        &Surroundings {
            cwd: format!("{home}/project").into(),
            home: home.into(),
            profiles: vec![format!("{home}/.wingthing").into()],
            program: None,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        },
    )?;
    let mut plan = compile(
        &policy,
        &facts,
        &Request {
            program: Program {
                file: "echo".into(),
                argv: vec!["echo".into(), "x".into()],
                env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            },
            stdio: Stdio::Given,
        },
    )?;
    // bwrap makes no control group either.
    plan.cgroup = None;
    Ok(plan)
}

/// Time to the first byte, and to the end of the start. The process that puts the boundary up
/// is started before the plan is ready, as a supervisor does.
fn session(plan: &Plan, early: bool) -> Result<(Duration, Duration)> {
    let stage = if early { Some(Stage::start()?) } else { None };
    if early {
        // As long as looking at the host and compiling the plan take.
        std::thread::sleep(Duration::from_millis(3));
    }
    let (reader, writer) = pipe()?;
    let given: [OwnedFd; 3] = [
        File::open("/dev/null")?.into(),
        writer.try_clone()?.into(),
        writer.into(),
    ];
    let start = Instant::now();
    let session = match stage {
        Some(stage) => stage.spawn(plan, Some(given), None)?,
        None => spawn(plan, Some(given), None)?,
    };
    let executed = start.elapsed();
    let first = first_byte(reader, start)?;
    session.wait()?;
    Ok((first, executed))
}

fn command(command: &mut Command) -> Result<Duration> {
    let (reader, writer) = pipe()?;
    command
        .stdin(ProcessStdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let start = Instant::now();
    let mut child = command.spawn()?;
    // The command holds the writing end that this process would otherwise wait for.
    command
        .stdout(ProcessStdio::null())
        .stderr(ProcessStdio::null());
    let first = first_byte(reader, start)?;
    child.wait()?;
    Ok(first)
}

fn first_byte(mut reader: PipeReader, start: Instant) -> Result<Duration> {
    let mut byte = [0];
    reader.read_exact(&mut byte)?;
    let elapsed = start.elapsed();
    if byte != *b"x" {
        let mut rest = String::new();
        reader.read_to_string(&mut rest)?;
        return Err(format!("{}{rest}", byte[0] as char).into());
    }
    Ok(elapsed)
}

//! What a session can do and what it cannot.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio as ProcessStdio};

use wt_policy::{FileAccess, NetworkNeed};
use wt_sandbox::plan::{ListenerKind, ListenerSpec, MountLayer, Plan, Stdio};
use wt_sandbox::{Layer, SpawnError, Step};

use crate::world::{Ran, SUPERVISE, World, run, start};

macro_rules! cases {
    ($($name:ident)*) => {
        /// All tests with their names.
        pub(crate) const ALL: &[(&str, fn())] = &[$((stringify!($name), $name)),*];
    };
}

cases! {
    a_program_runs_and_prints
    every_layer_of_the_plan_is_attested
    exit_statuses_and_signals_are_exact
    the_program_has_a_terminal_of_its_own
    the_host_is_read_only_and_the_project_is_not
    denied_paths_cannot_be_read_replaced_or_linked
    what_is_granted_in_a_denied_directory_can_be_read
    hooks_cannot_be_changed_moved_or_replaced
    a_protected_path_behind_a_link_stays_what_it_is
    a_denied_link_that_the_session_could_replace_stops_the_start
    temporary_files_are_private
    a_project_below_tmp_is_there_and_stays_there
    a_root_that_is_denied_shows_what_is_granted_alone
    no_process_of_the_host_is_seen
    the_first_process_cannot_be_read
    no_descriptor_of_the_maker_is_inherited
    signals_have_their_default_actions
    no_right_is_left
    kernel_settings_cannot_be_written
    sockets_of_the_host_are_masked
    killing_a_session_ends_all_of_it
    the_end_of_the_program_ends_what_it_left_behind
    the_end_of_the_supervisor_ends_the_session
    a_missing_program_and_one_that_cannot_run_are_told_apart
    a_script_without_interpreter_is_run_by_the_shell
    the_profile_is_unreachable_inside_the_project
    a_profile_in_an_opened_directory_stops_the_start
    a_home_directory_as_working_directory_stays_read_only
    a_swapped_directory_stops_the_start
    a_link_into_something_denied_grants_nothing
    a_linked_working_tree_can_commit_and_a_forged_one_opens_nothing
    connections_to_anywhere_arrive_at_the_supervisor
    a_session_without_network_reaches_nothing
    a_port_can_be_bound_inside_while_the_session_runs
    a_step_that_cannot_be_done_stops_the_start
}

/// Asserts that a script failed, and that its twin under the plan without some layers did not.
fn refused_but_for(world: &World, script: &str, weaken: impl Fn(&mut Plan)) -> Ran {
    let ran = world.run(script);
    assert!(!ran.status.success(), "{script}: {ran:?}");
    let mut weak = world.shell(script);
    weaken(&mut weak);
    let twin = run(&weak);
    assert!(twin.status.success(), "the twin of {script}: {twin:?}");
    ran
}

fn without(layers: &[MountLayer]) -> impl Fn(&mut Plan) {
    let layers = layers.to_vec();
    move |plan| plan.mounts.retain(|step| !layers.contains(&step.layer))
}

fn a_program_runs_and_prints() {
    let ran = World::new().run("echo hello; pwd; id -u; hostname; umask");

    assert!(ran.status.success(), "{ran:?}");
    let uid = rustix::process::geteuid().as_raw().to_string();
    let lines: Vec<&str> = ran.output.lines().collect();
    assert!(
        matches!(lines.as_slice(), ["hello", cwd, id, "egg", "0022"] if cwd.ends_with("/home/project") && *id == uid),
        "{ran:?}"
    );
}

fn every_layer_of_the_plan_is_attested() {
    let world = World::new();
    let plan = world.shell("true");

    let running = start(&plan).unwrap();

    let mut wanted = Layer::of(&plan);
    let mut got: Vec<Layer> = running
        .session
        .enforced
        .layers
        .iter()
        .map(|l| l.layer)
        .collect();
    wanted.sort();
    got.sort();
    assert_eq!(got, wanted);
    // All but the terminal, which a program with pipes does not have.
    assert_eq!(got.len(), 20);
}

fn exit_statuses_and_signals_are_exact() {
    let world = World::new();

    assert_eq!(world.run("exit 0").status.code(), Some(0));
    assert_eq!(world.run("exit 7").status.code(), Some(7));
    assert_eq!(world.run("exit 255").status.code(), Some(255));
    assert_eq!(world.run("kill -TERM $$").status.signal(), Some(15));
    assert_eq!(world.run("kill -SEGV $$").status.signal(), Some(11));
    assert_eq!(world.run("kill -KILL $$").status.signal(), Some(9));
}

fn the_program_has_a_terminal_of_its_own() {
    let world = World::new();
    let mut plan = world.shell("tty; stty size; ls /dev/pts; ps -o tty= -p $$; echo x > /dev/tty");
    plan.stdio = Stdio::Terminal { cols: 97, rows: 31 };

    let mut running = start(&plan).unwrap();
    let mut terminal = fs::File::from(running.session.terminal.take().unwrap());
    let mut text = Vec::new();
    // The end of a terminal's output is an error on Linux (EIO).
    let _ = terminal.read_to_end(&mut text);

    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(
        text,
        "/dev/pts/0\r\n31 97\r\n0\r\nptmx\r\npts/0\r\nx\r\n".replace("0\r\nptmx", "0  ptmx"),
        "{text}"
    );
    assert!(running.session.wait().unwrap().success());
}

fn the_host_is_read_only_and_the_project_is_not() {
    let world = World::new();
    world.write(".profile", "mine");

    let ran = world.run(
        "echo a > made && cat made && mkdir -p d/e && mv d f && \
         { echo x >> ../.profile; echo x > ../new; echo x > /etc/new; chmod 777 ../.profile; \
           ln ../.profile link; mkdir /new; true; }",
    );

    assert!(ran.output.starts_with("a\n"), "{ran:?}");
    assert_eq!(
        ran.output.matches("Read-only file system").count(),
        5,
        "{ran:?}"
    );
    assert_eq!(
        ran.output.matches("Invalid cross-device link").count(),
        1,
        "{ran:?}"
    );
    assert_eq!(world.read("project/made").unwrap(), "a\n");
    assert!(fs::metadata(world.path("project/f/e")).unwrap().is_dir());
    assert_eq!(world.read(".profile").unwrap(), "mine");
    assert!(world.read("new").is_none());
}

fn denied_paths_cannot_be_read_replaced_or_linked() {
    let world = World::new();
    world.write(".ssh/id", "canary");
    world.write(".netrc", "canary");
    world.write("project/secrets/deep/key", "canary");
    let (ssh, netrc) = (world.path(".ssh"), world.path(".netrc"));
    let secrets = world.path("project/secrets/deep");
    let world = world
        .with(FileAccess::Deny, &ssh)
        .with(FileAccess::Deny, &netrc)
        .with(FileAccess::Deny, &secrets);
    let unmasked = without(&[MountLayer::Denied]);

    for script in [
        "ls ../.ssh",
        "cat ../.ssh/id",
        "cat ../.netrc",
        "ln -sf ../.ssh/id l && cat l",
        "cat secrets/deep/key",
        "ls secrets/deep",
        "cat /proc/self/root$HOME/.ssh/id",
    ] {
        let ran = refused_but_for(&world, script, &unmasked);
        assert!(ran.output.contains("Permission denied"), "{ran:?}");
        assert!(!ran.output.contains("canary"), "{ran:?}");
    }
    let moved = "mv secrets s2 && mv s2 secrets";
    let ran = refused_but_for(
        &world,
        moved,
        without(&[MountLayer::Denied, MountLayer::Pin]),
    );
    assert!(ran.output.contains("Device or resource busy"), "{ran:?}");
    // What stands in the project is the host's own, whatever the session did to its view.
    assert_eq!(world.read("project/secrets/deep/key").unwrap(), "canary");
    for script in [
        "echo x > ../.ssh/new",
        "chmod 777 ../.ssh",
        "echo x > ../.netrc",
    ] {
        assert!(!world.run(script).status.success(), "{script}");
    }
}

fn what_is_granted_in_a_denied_directory_can_be_read() {
    let world = World::new();
    world.write(".ssh/id", "canary");
    world.write(".ssh/known_hosts", "hosts");
    world.write(".ssh/config.d/a", "part");
    let path = |name: &str| world.path(name);
    let (ssh, known, part) = (
        path(".ssh"),
        path(".ssh/known_hosts"),
        path(".ssh/config.d/a"),
    );
    let world = world
        .with(FileAccess::Deny, &ssh)
        .with(FileAccess::Ro, &known)
        .with(FileAccess::Ro, &part);

    let ran = world.run(
        "cat ../.ssh/known_hosts ../.ssh/config.d/a; echo; cat ../.ssh/id; ls ../.ssh; \
         echo x > ../.ssh/known_hosts; echo x > ../.ssh/new; mv ../.ssh/known_hosts .",
    );

    assert!(ran.output.starts_with("hostspart\n"), "{ran:?}");
    assert!(!ran.output.contains("canary"), "{ran:?}");
    assert_eq!(ran.output.lines().count(), 6, "{ran:?}");
    assert_eq!(world.read(".ssh/known_hosts").unwrap(), "hosts");
}

fn with_hooks() -> World {
    let world = World::new();
    world.write("project/.git/hooks/sample", "hook");
    world.write("project/.git/config", "config");
    let (hooks, config) = (
        world.path("project/.git/hooks"),
        world.path("project/.git/config"),
    );
    world
        .with(FileAccess::DenyWrite, &hooks)
        .with(FileAccess::DenyWrite, &config)
}

fn hooks_cannot_be_changed_moved_or_replaced() {
    let unguarded = without(&[MountLayer::Protected, MountLayer::Pin]);
    for script in [
        "echo x > .git/hooks/pre-commit",
        "echo x > .git/config",
        "mv .git away",
        "mv .git/hooks away",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "echo x > new && mv -f new .git/config",
        "mkdir other && mv --exchange .git other",
        "ln .git/config copy",
    ] {
        if script.contains("--exchange") {
            // Not every mv can do it.
            continue;
        }
        refused_but_for(&with_hooks(), script, &unguarded);
    }
    let world = with_hooks();
    let ran = world
        .run("echo x > .git/index.lock && mv .git/index.lock .git/index && cat .git/hooks/sample");
    assert!(ran.status.success(), "{ran:?}");
    // With the pins alone taken away, the directory above can be moved.
    let mut weak = world.shell("mv .git away");
    without(&[MountLayer::Pin])(&mut weak);
    assert!(run(&weak).status.success());
}

fn a_protected_path_behind_a_link_stays_what_it_is() {
    let world = World::new();
    world.write("store/hooks/sample", "hook");
    fs::create_dir_all(world.path("project/.git")).unwrap();
    symlink(world.path("store/hooks"), world.path("project/.git/hooks")).unwrap();
    let hooks = world.path("project/.git/hooks");
    let world = world.with(FileAccess::DenyWrite, &hooks);

    let script = "rm .git/hooks && mkdir .git/hooks && echo x > .git/hooks/pre-commit";
    let ran = refused_but_for(&world, script, without(&[MountLayer::Pin]));

    assert!(ran.output.contains("busy"), "{ran:?}");
}

fn a_denied_link_that_the_session_could_replace_stops_the_start() {
    let world = World::new();
    world.write("store/key", "canary");
    symlink(world.path("store"), world.path("project/secrets")).unwrap();
    let secrets = world.path("project/secrets");
    let world = world.with(FileAccess::Deny, &secrets);

    let error = world.plan(&["true"]).unwrap_err();

    assert_eq!(error.step, Step::Paths);
    assert!(error.cause.contains("could replace"), "{error}");
}

fn temporary_files_are_private() {
    let world = World::new();
    let there = tempfile::Builder::new()
        .prefix("boundary")
        .tempfile_in("/tmp")
        .unwrap();

    let ran = world.run(
        "ls -A /tmp /var/tmp /dev/shm; for d in /tmp /var/tmp /dev/shm /run/user/*; do \
         echo x > $d/made && cat $d/made; done",
    );

    assert_eq!(ran.output.matches("x\n").count(), 4, "{ran:?}");
    assert!(!ran.output.contains("boundary"), "{ran:?}");
    assert!(!fs::exists("/tmp/made").unwrap());
    assert!(there.path().exists());
}

fn a_project_below_tmp_is_there_and_stays_there() {
    let base = tempfile::tempdir_in("/tmp").unwrap();
    let world = World::below(base.path());
    world.write("project/.git/hooks/sample", "hook");
    let hooks = world.path("project/.git/hooks");
    let world = world.with(FileAccess::DenyWrite, &hooks);

    let ran = world.run(
        "echo a > made; cat .git/hooks/sample; p=$PWD; cd /; \
         for d in $p ${p%/*} ${p%/*/*} ${p%/*/*/*}; do \
         python3 -c 'import os,sys; os.rename(sys.argv[1], sys.argv[1] + \"-away\")' $d; done; \
         cd $p; mv .git away; echo x > .git/hooks/new",
    );

    assert_eq!(
        world.read("project/made").as_deref(),
        Some("a\n"),
        "{ran:?}"
    );
    // Its own directory lies in the home, which is read-only; those above are held in place.
    assert_eq!(ran.output.matches("resource busy").count(), 4, "{ran:?}");
    assert_eq!(ran.output.matches("Read-only").count(), 2, "{ran:?}");
}

fn a_root_that_is_denied_shows_what_is_granted_alone() {
    let mut world = World::new().with(FileAccess::Deny, "/");
    for path in [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
    ] {
        world = world.with(FileAccess::Ro, path);
    }
    world.write("other", "canary");

    let ran = world.run("echo a > made && cat made; ls /; cat ../other; ls -A ..; echo x > /new");

    assert!(ran.output.starts_with("a\nbin\n"), "{ran:?}");
    assert!(
        !ran.output.contains("canary") && !ran.output.contains("home\n"),
        "{ran:?}"
    );
    assert!(ran.output.contains("/new: Read-only"), "{ran:?}");
}

fn no_process_of_the_host_is_seen() {
    let ran = World::new().run(&format!(
        "cd /proc; echo [0-9]*; kill -0 {}",
        std::process::id()
    ));

    assert!(ran.output.starts_with("1 2\n"), "{ran:?}");
    assert!(ran.output.contains("No such process"), "{ran:?}");
}

fn the_first_process_cannot_be_read() {
    let world = World::new();
    for script in [
        "ls -l /proc/1/fd",
        "readlink /proc/1/root",
        "cat /proc/1/environ",
    ] {
        // Landlock lets nobody look at processes outside of its domain, either.
        refused_but_for(&world, script, |plan| {
            plan.protect_init = false;
            plan.landlock = None;
        });
    }
    let ran =
        world.run("tr '\\0' . < /proc/1/cmdline; cat /proc/1/comm; kill -9 1 2>&-; echo alive");
    assert!(
        ran.output.starts_with("..") && !ran.output.contains("stage"),
        "{ran:?}"
    );
    assert!(ran.output.ends_with("egg-init\nalive\n"), "{ran:?}");
}

fn no_descriptor_of_the_maker_is_inherited() {
    let file = fs::File::open("/etc/passwd").unwrap();
    // A descriptor that a careless program leaks to its children.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();

    let ran = World::new().run("exec ls /proc/self/fd");

    // The fourth is the directory itself.
    assert_eq!(ran.output, "0\n1\n2\n3\n");
}

fn signals_have_their_default_actions() {
    let ran = World::new().run("exec grep -E 'Sig(Ign|Blk)|ShdPnd' /proc/self/status");

    assert_eq!(ran.output.matches("0000000000000000").count(), 3, "{ran:?}");
}

fn no_right_is_left() {
    let world = World::new();
    let ran = world.run("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; ulimit -c");

    assert_eq!(ran.output.matches("0000000000000000").count(), 5, "{ran:?}");
    assert!(
        ran.output.contains("NoNewPrivs:\t1\nSeccomp:\t2\n"),
        "{ran:?}"
    );
    for script in ["unshare -U true", "mount -t tmpfs x /tmp", "chroot . true"] {
        assert!(!world.run(script).status.success(), "{script}");
    }
}

fn kernel_settings_cannot_be_written() {
    let ran = World::new().run(
        "echo x > /proc/sys/kernel/core_pattern; echo 5 > /proc/sys/user/max_user_namespaces; \
         echo b > /proc/irq/default_smp_affinity; mkdir /sys/fs/cgroup/x; ls -A /sys/fs/cgroup; \
         cat /proc/timer_list; cat /proc/sys/net/ipv4/ip_unprivileged_port_start",
    );

    assert_eq!(ran.output.matches("Read-only").count(), 4, "{ran:?}");
    assert_eq!(
        ran.output.matches("Permission denied").count(),
        1,
        "{ran:?}"
    );
    assert!(ran.output.ends_with("\n0\n"), "{ran:?}");
}

fn sockets_of_the_host_are_masked() {
    let world = World::new();
    let path = world.path("s");
    let _listener = UnixListener::bind(&path).unwrap();
    let script =
        format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\")'");

    refused_but_for(&world, &script, without(&[MountLayer::SocketMask]));
}

fn killing_a_session_ends_all_of_it() {
    let world = World::new();
    let mut running = start(&world.shell(
        "trap '' TERM HUP INT; setsid bash -c 'trap \"\" TERM HUP; echo up; while :; do sleep 60; done' & wait",
    ))
    .unwrap();
    assert_eq!(running.line(), "up");

    running.session.kill().unwrap();
    let status = running.session.wait().unwrap();

    assert_eq!(status.signal(), Some(9));
    // Nobody is left who could write.
    assert_eq!(running.rest(), "");
    assert!(fs::metadata(format!("/proc/{}", running.session.program)).is_err());
}

fn the_end_of_the_program_ends_what_it_left_behind() {
    let ran = World::new().run("setsid sleep 600 & echo done; exit 3");

    assert_eq!(ran.status.code(), Some(3));
    assert_eq!(ran.output, "done\n");
}

fn the_end_of_the_supervisor_ends_the_session() {
    let world = World::new();
    let plan = world.shell("echo up; setsid sleep 600 & sleep 600");
    let mut supervisor = Command::new(std::env::current_exe().unwrap())
        .arg(SUPERVISE)
        .stdin(ProcessStdio::piped())
        .stdout(ProcessStdio::piped())
        .spawn()
        .unwrap();
    let mut input = supervisor.stdin.take().unwrap();
    serde_json::to_writer(&mut input, &plan).unwrap();
    drop(input);
    let mut output = supervisor.stdout.take().unwrap();
    let mut line = [0; 3];
    output.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"up\n");

    supervisor.kill().unwrap();
    supervisor.wait().unwrap();

    // The session's programs hold the pipe for as long as they live.
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

fn a_missing_program_and_one_that_cannot_run_are_told_apart() {
    let world = World::new();
    let text = world.write("project/text", "no program");
    let fails = |argv: &[&str]| match start(&world.plan(argv).unwrap()) {
        Err(SpawnError::Program(failure)) => failure,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    };

    assert!(fails(&["no-such-program"]).missing);
    assert!(fails(&["/no/such/program"]).missing);
    assert!(!fails(&[text.to_str().unwrap()]).missing);
    assert!(!fails(&["/etc"]).missing);
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&text, "#!/no/such/interpreter\n").unwrap();
    let failure = fails(&["./text"]);
    assert!(
        !failure.missing && failure.reason.contains("interpreter"),
        "{failure:?}"
    );
}

fn a_script_without_interpreter_is_run_by_the_shell() {
    let world = World::new();
    let script = world.write("project/script", "echo $1\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();

    let ran = run(&world.plan(&["./script", "word"]).unwrap());

    assert_eq!(ran.output, "word\n");
}

fn the_profile_is_unreachable_inside_the_project() {
    let mut world = World::new();
    let key = world.write("project/.wt/deep/key", "canary of the profile");
    world.profile = key.parent().unwrap().to_owned();
    let plan = world.shell("cat .wt/deep/key");
    assert!(
        plan.notes.iter().any(|note| note.text.contains("--cwd")),
        "{:?}",
        plan.notes
    );

    refused_but_for(&world, "cat .wt/deep/key", without(&[MountLayer::Core]));
    let ran = world.run("echo x > made; mv .wt away; ls .wt/deep");

    assert_eq!(ran.output.matches("Read-only").count(), 2, "{ran:?}");
    assert!(ran.output.contains("Permission denied"), "{ran:?}");
}

fn a_profile_in_an_opened_directory_stops_the_start() {
    let mut world = World::new();
    let key = world.write("work/profile/key", "canary");
    world.profile = key.parent().unwrap().to_owned();
    let work = world.path("work");
    let world = world.with(FileAccess::Rw, &work);

    let error = world.plan(&["true"]).unwrap_err();

    assert!(error.cause.contains("holds the profile"), "{error}");
}

fn a_home_directory_as_working_directory_stays_read_only() {
    let mut world = World::new();
    let home = world.path("").trim_end_matches('/').to_owned();
    world.cwd = home.clone().into();
    let world = world.with(FileAccess::Rw, &home);

    let plan = world.shell("echo x > made; cat .wingthing/key");
    let ran = run(&plan);

    assert!(
        plan.notes.iter().any(|note| note.text.contains("--cwd")),
        "{:?}",
        plan.notes
    );
    assert!(
        ran.output.contains("Read-only") && !ran.output.contains("canary"),
        "{ran:?}"
    );
}

fn a_swapped_directory_stops_the_start() {
    let world = World::new();
    world.write("secret/key", "canary");
    let plan = world.shell("cat key; echo x > made");
    fs::rename(world.path("project"), world.path("old")).unwrap();
    symlink(world.path("secret"), world.path("project")).unwrap();

    let Err(SpawnError::Enforcement(error)) = start(&plan) else {
        panic!("it started");
    };

    assert_eq!(error.step, Step::Paths);
    assert!(error.cause.contains("identity"), "{error}");
    fs::remove_file(world.path("project")).unwrap();
    fs::create_dir(world.path("project")).unwrap();
    assert!(start(&plan).is_err());
    fs::remove_dir(world.path("project")).unwrap();
    fs::rename(world.path("old"), world.path("project")).unwrap();
    assert!(start(&plan).is_ok());
}

fn a_link_into_something_denied_grants_nothing() {
    let world = World::new();
    world.write(".ssh/keys/id", "canary");
    fs::create_dir(world.path(".cache")).unwrap();
    symlink(world.path(".ssh/keys"), world.path(".cache/pip")).unwrap();
    let (ssh, cache) = (world.path(".ssh"), world.path(".cache/pip"));
    let world = world
        .with(FileAccess::Rw, &cache)
        .with(FileAccess::Deny, &ssh);

    let plan = world.shell("cat ../.ssh/keys/id ../.cache/pip/id");
    let ran = run(&plan);

    assert!(!ran.output.contains("canary"), "{ran:?}");
    assert!(
        plan.notes
            .iter()
            .any(|note| note.text.contains("not granted")),
        "{:?}",
        plan.notes
    );
}

fn git(world: &World, dir: &str, args: &[&str]) {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .current_dir(world.path(dir))
        .env("HOME", world.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

fn a_linked_working_tree_can_commit_and_a_forged_one_opens_nothing() {
    let world = World::new();
    fs::create_dir(world.path("main")).unwrap();
    git(&world, "main", &["init", "-q"]);
    git(
        &world,
        "main",
        &["commit", "-q", "--allow-empty", "-m", "first"],
    );
    fs::remove_dir(world.path("project")).unwrap();
    git(&world, "main", &["worktree", "add", "-q", "../project"]);

    let ran = world.run(
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m second && git log --oneline | wc -l; \
         echo x > ../main/.git/hooks/pre-commit; echo x > ../main/.git/config; echo x > ../main/file",
    );
    assert!(ran.output.starts_with("2\n"), "{ran:?}");
    assert_eq!(ran.output.matches("Read-only").count(), 3, "{ran:?}");

    // The same pointer in another directory is forged: what it names points elsewhere.
    let mut forged = world;
    forged.write("other/file", "");
    fs::copy(forged.path("project/.git"), forged.path("other/.git")).unwrap();
    forged.cwd = forged.path("other").into();
    let other = forged.path("other");
    let forged = forged.with(FileAccess::Rw, &other);
    let plan = forged.shell("echo x > made; echo x > ../main/.git/made");
    let ran = run(&plan);
    assert_eq!(ran.output.matches("Read-only").count(), 1, "{ran:?}");
    assert!(
        plan.notes
            .iter()
            .any(|note| note.text.contains("points back")),
        "{:?}",
        plan.notes
    );
}

fn connections_to_anywhere_arrive_at_the_supervisor() {
    let mut world = World::new();
    world.policy.network.need = NetworkNeed::Any;
    let mut running = start(&world.shell(
        "exec 3<>/dev/tcp/192.0.2.77/443 && cat <&3; exec 4<>/dev/tcp/127.0.0.1/3128 && cat <&4; \
         grep ^nameserver /etc/resolv.conf; exec 5<>/dev/tcp/192.0.2.77/444",
    ))
    .unwrap();
    let mut listener = |kind| {
        let at = running
            .session
            .listeners
            .iter()
            .position(|(spec, _)| *spec == ListenerSpec { kind, v6: false })
            .unwrap();
        let listener = TcpListener::from(running.session.listeners.swap_remove(at).1);
        listener.set_nonblocking(false).unwrap();
        listener
    };
    let capture = listener(ListenerKind::Capture(443));
    let proxy = listener(ListenerKind::HttpProxy);

    let (mut caught, _) = capture.accept().unwrap();
    assert_eq!(
        caught.local_addr().unwrap(),
        SocketAddr::from(([192, 0, 2, 77], 443))
    );
    caught.write_all(b"caught\n").unwrap();
    drop(caught);
    let (mut asked, _): (TcpStream, _) = proxy.accept().unwrap();
    asked.write_all(b"asked\n").unwrap();
    drop(asked);

    let output = running.rest();
    assert!(output.starts_with("caught\nasked\n"), "{output}");
    assert!(output.contains("Connection refused"), "{output}");
}

fn a_session_without_network_reaches_nothing() {
    let world = World::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");

    refused_but_for(&world, &script, |plan| {
        plan.namespaces.net = false;
        plan.sysctls
            .retain(|sysctl| !sysctl.path.starts_with("net/"));
        plan.network.loopback = false;
        plan.network.listeners.clear();
    });
    let ran = world.run("exec 3<>/dev/tcp/192.0.2.1/80");
    assert!(ran.output.contains("unreachable"), "{ran:?}");
}

fn a_port_can_be_bound_inside_while_the_session_runs() {
    let world = World::new();
    let mut running =
        start(&world.shell(
            "echo up; until exec 3<>/dev/tcp/127.0.0.1/4567; do :; done 2>/dev/null; cat <&3",
        ))
        .unwrap();
    assert_eq!(running.line(), "up");
    let spec = |kind| ListenerSpec { kind, v6: false };

    assert!(
        running
            .session
            .listen(spec(ListenerKind::Capture(80)))
            .is_err()
    );
    let listener = TcpListener::from(
        running
            .session
            .listen(spec(ListenerKind::LocalPort(4567)))
            .unwrap(),
    );
    assert!(
        running
            .session
            .listen(spec(ListenerKind::LocalPort(4567)))
            .is_err()
    );
    listener.set_nonblocking(false).unwrap();
    listener
        .accept()
        .unwrap()
        .0
        .write_all(b"from outside\n")
        .unwrap();

    assert_eq!(running.rest(), "from outside\n");
}

fn a_step_that_cannot_be_done_stops_the_start() {
    let world = World::new();
    let fails = |weaken: &dyn Fn(&mut Plan)| {
        let mut plan = world.shell("true");
        weaken(&mut plan);
        match start(&plan) {
            Err(SpawnError::Enforcement(error)) => error.step,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it started"),
        }
    };

    assert_eq!(fails(&|plan| plan.cwd = "/no/such".into()), Step::Paths);
    assert_eq!(
        fails(&|plan| plan.mounts.last_mut().unwrap().target = "/no/such".into()),
        Step::Mounts
    );
    assert_eq!(
        fails(&|plan| plan.landlock.as_mut().unwrap().min_abi = 99),
        Step::Landlock
    );
    assert_eq!(
        fails(&|plan| plan.sysctls[0].path = "no/such".into()),
        Step::Namespaces
    );
    assert_eq!(
        fails(&|plan| {
            plan.mounts.remove(0);
        }),
        Step::Mounts
    );
}

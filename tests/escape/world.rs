//! One home directory with a project and secrets, what an attack is tried on, and the traces
//! that it would leave.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio as ProcessStdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, Uid, getegid};
use tempfile::TempDir;
use wt_policy::{Facts, Places, Platform, session_env};
use wt_sandbox::cgroup::Cgroup;
use wt_sandbox::host::{Surroundings, look, make_missing};
use wt_sandbox::plan::{Plan, Program, Stdio};
use wt_sandbox::proxy::audit::AuditLog;
use wt_sandbox::proxy::{Egress, Listener};
use wt_sandbox::{Request, Sandboxed, compile, spawn};

use crate::case::{Case, L, Place};
use crate::outside::FakeNet;
use crate::surroundings::{CANARY, base, probe};

/// How long one attack may take. The slowest waits some seconds for a proxy that says nothing.
const PATIENCE: Duration = Duration::from_secs(25);

/// How much of a home is looked at, by file.
const MAX_LOOK: u64 = 64 * 1024;

/// Files with secrets, below the home directory.
const SECRETS: &[&str] = &[
    ".ssh/id_fix",
    ".aws/credentials",
    ".netrc",
    ".git-credentials",
    ".bash_history",
    ".config/gh/hosts.yml",
    ".config/gcloud/credentials.db",
    ".config/google-chrome/Default/Login",
    ".kube/config",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".gnupg/private-keys-v1.d/key",
    ".bitcoin/wallet.dat",
    ".password-store/bank.gpg",
    ".mozilla/firefox/cookies",
    ".snapshots/1/id_fix",
    ".wingthing/identity.key",
    ".wingthing/eggs/other/token",
    "closet/key",
];

/// Other files there, with what is in them.
const FILES: &[(&str, &str)] = &[
    (".ssh/known_hosts", "host key\n"),
    (".profile", "# profile\n"),
    (".bashrc", "# bashrc\n"),
    (
        ".gitconfig",
        "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[credential]\n\thelper = store\n[safe]\n\tdirectory = *\n",
    ),
    (".local/bin/tool", "#!/bin/sh\n"),
    (".cargo/bin/tool", "#!/bin/sh\n"),
    (".config/systemd/user/own.service", "[Unit]\n"),
    (".claude/projects/other/transcript.jsonl", "{}\n"),
    (".cache/pip/wheel", "cached\n"),
    ("other/.git/worktrees/x/gitdir", "/somewhere/else/.git\n"),
    ("other/.git/config", "[core]\n"),
    ("project/egg.yaml", "env: [LANG]\n"),
    ("project/.git/HEAD", "ref: refs/heads/main\n"),
    (
        "project/.git/config",
        "[core]\n\trepositoryformatversion = 0\n",
    ),
    ("project/.git/hooks/sample", "#!/bin/sh\n"),
    ("project/.git/objects/info/empty", ""),
    ("project/.git/refs/heads/empty", ""),
    ("project/.vscode/tasks.json", "{}\n"),
    ("project/.idea/workspace.xml", "<a/>\n"),
    ("project/.envrc", "# envrc\n"),
    ("project/.claude/settings.json", "{}\n"),
    ("project/tool/wt", "the program that holds sessions\n"),
    ("project/src/main.c", "int main(void) { return 0; }\n"),
];

/// What in the project must stay as it is.
const KEPT_IN_PROJECT: &[&str] = &[
    "project/egg.yaml",
    "project/.git/config",
    "project/.git/hooks",
    "project/.vscode/tasks.json",
    "project/.idea",
    "project/.envrc",
    "project/.claude/settings.json",
    "project/tool/wt",
    "project/.wt",
];

/// Servers that all worlds share, on every address of the network around them.
pub(crate) struct Servers {
    /// A port in TCP, and another one.
    port: u16,
    other_port: u16,
    /// A port in UDP.
    datagrams: u16,
    /// What clients said first.
    heard: Arc<Mutex<Vec<String>>>,
}

/// The servers, started when they are first asked for.
pub(crate) fn servers() -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let serve = |address: &str| -> Option<u16> {
            let listener = TcpListener::bind(address).ok()?;
            let port = listener.local_addr().ok()?.port();
            let heard = Arc::clone(&heard);
            thread::spawn(move || {
                for client in listener.incoming().flatten() {
                    let heard = Arc::clone(&heard);
                    thread::spawn(move || greet(client, &heard));
                }
            });
            Some(port)
        };
        let any = || serve("[::]:0").or_else(|| serve("0.0.0.0:0")).unwrap();
        let (port, other_port) = (any(), any());
        if crate::surroundings::are_made() {
            for port in [80, 443] {
                let bound =
                    serve(&format!("[::]:{port}")).or_else(|| serve(&format!("0.0.0.0:{port}")));
                assert!(bound.is_some(), "port {port} of the suite's own network");
            }
        }
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let datagrams = socket.local_addr().unwrap().port();
        let of_datagrams = Arc::clone(&heard);
        thread::spawn(move || {
            let mut text = [0; 1500];
            while let Ok((read, from)) = socket.recv_from(&mut text) {
                let said = String::from_utf8_lossy(&text[..read]).into_owned();
                of_datagrams.lock().unwrap().push(said);
                let _ = socket.send_to(b"server heard you", from);
            }
        });
        Servers {
            port,
            other_port,
            datagrams,
            heard,
        }
    })
}

fn greet(mut client: std::net::TcpStream, heard: &Mutex<Vec<String>>) {
    let _ = client.set_read_timeout(Some(Duration::from_secs(10)));
    let mut text = [0; 256];
    if let Ok(read) = client.read(&mut text) {
        let said = String::from_utf8_lossy(&text[..read]).trim().to_owned();
        heard.lock().unwrap().push(said);
        let _ = client.write_all(b"server heard you\n");
    }
}

/// A home with everything in it.
pub(crate) struct World {
    dir: TempDir,
    place: Place,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    /// What tells this world from all others.
    pub(crate) token: String,
    pub(crate) maker: Vec<(String, String)>,
    victim: Option<Child>,
    sockets: Vec<(String, Socket)>,
    outside: Vec<PathBuf>,
}

enum Socket {
    Stream(UnixListener),
    Datagram(UnixDatagram),
}

impl World {
    pub(crate) fn new(place: Place) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let below = match place {
            Place::Tmp => PathBuf::from("/tmp"),
            _ => base(),
        };
        let dir = tempfile::Builder::new()
            .prefix("wt")
            .tempdir_in(below)
            .unwrap();
        let token = format!(
            "t{}x{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let home = dir.path().join("h");
        let project = home.join("project");
        let world = Self {
            maker: maker(&home),
            place,
            project,
            token,
            victim: None,
            sockets: Vec::new(),
            outside: Vec::new(),
            home,
            dir,
        };
        for path in SECRETS {
            let path = if place == Place::ProfileInProject {
                path.replace(".wingthing", "project/.wt")
            } else {
                (*path).to_owned()
            };
            world.write(&path, &format!("https://ada:{CANARY}@github.com\n"));
        }
        for (path, text) in FILES {
            world.write(path, text);
        }
        let hook = world.home.join("project/.git/hooks/sample");
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
        world
    }

    pub(crate) fn write(&self, below_home: &str, text: &str) {
        let path = self.home.join(below_home);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes what only some attacks need, told by what they mention.
    pub(crate) fn populate(&mut self, script: &str) {
        if script.contains("$VICTIM") || script.contains("victim-") {
            let victim = Command::new("sleep")
                .arg0(format!("victim-{}", self.token))
                .arg("300")
                .env("VICTIM_SECRET", CANARY)
                .stdin(ProcessStdio::null())
                .stdout(ProcessStdio::null())
                .stderr(ProcessStdio::null())
                .spawn();
            self.victim = Some(victim.unwrap());
        }
        if script.contains("$TMPFILE") {
            let path = PathBuf::from(self.expand("$TMPFILE"));
            fs::write(&path, CANARY).unwrap();
            self.outside.push(path);
        }
        for name in SOCKETS {
            if script.contains(name) {
                self.listen(name);
            }
        }
    }

    /// Listens at a path or an abstract name, as a service of the host.
    pub(crate) fn listen(&mut self, name: &str) {
        let at = self.expand(name);
        let socket = if let Some(name) = at.strip_prefix('@') {
            let address = UnixAddr::from_abstract_name(name).unwrap();
            Socket::Stream(UnixListener::bind_addr(&address).unwrap())
        } else {
            let path = Path::new(&at);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !path.starts_with(&self.home) {
                self.outside.push(path.to_owned());
            }
            if at.ends_with("d.sock") {
                Socket::Datagram(UnixDatagram::bind(path).unwrap())
            } else {
                Socket::Stream(UnixListener::bind(path).unwrap())
            }
        };
        match &socket {
            Socket::Stream(listener) => listener.set_nonblocking(true).unwrap(),
            Socket::Datagram(socket) => socket.set_nonblocking(true).unwrap(),
        }
        self.sockets.push((name.to_owned(), socket));
    }

    /// A word of a script with its variables replaced.
    fn expand(&self, word: &str) -> String {
        let mut word = word.to_owned();
        for (name, value) in self.variables() {
            word = word.replace(&format!("${name}"), &value);
        }
        word
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let servers = servers();
        vec![
            ("TMPFILE", format!("/tmp/wt-file-{}", self.token)),
            ("TOKEN", self.token.clone()),
            ("CANARY", CANARY.to_owned()),
            ("PROBE", probe().to_owned()),
            ("UPORT", servers.datagrams.to_string()),
            ("OTHERPORT", servers.other_port.to_string()),
            ("PORT", servers.port.to_string()),
            ("KEYNUMBER", self.key_number().to_string()),
            ("ORDINARY", Uid::effective().to_string()),
            (
                "VICTIM",
                self.victim
                    .as_ref()
                    .map_or_else(|| "0".to_owned(), |child| child.id().to_string()),
            ),
            ("REALRUSTUP", rustup_home()),
            ("H", self.home.display().to_string()),
            ("P", self.project.display().to_string()),
            ("px", "127.0.0.1:3128".to_owned()),
        ]
    }

    /// A number for System V objects that no other world has.
    fn key_number(&self) -> u32 {
        let digits: String = self.token.chars().filter(char::is_ascii_digit).collect();
        let number: u64 = digits.parse().unwrap_or(7);
        u32::try_from(number % 0x0fff_ffff).unwrap_or(7) + 1
    }

    /// A script with the variables of this world at its head.
    fn script(&self, script: &str) -> String {
        let mut text = String::new();
        for (name, value) in self.variables() {
            text.push_str(&format!("{name}='{value}'\n"));
        }
        text + script + "\n"
    }

    fn script_file(&self, script: &str) -> File {
        let path = self.dir.path().join("script");
        fs::write(&path, self.script(script)).unwrap();
        File::open(path).unwrap()
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        match self.place {
            Place::StartsAtHome => self.home.clone(),
            _ => self.project.clone(),
        }
    }

    /// Runs a script without a boundary.
    pub(crate) fn outside(&self, script: &str, terminal: bool) -> Ran {
        let (mut output, theirs) = std::io::pipe().unwrap();
        let mut command = if terminal {
            let mut command = Command::new("script");
            let file = self.dir.path().join("terminal-script");
            fs::write(&file, self.script(script)).unwrap();
            let inner = format!("bash {}", file.display());
            command
                .args(["-qefc", &inner, "/dev/null"])
                .stdin(ProcessStdio::null());
            command
        } else {
            let mut command = Command::new("bash");
            command.stdin(self.script_file(script));
            command
        };
        let mut child = command
            .env_clear()
            .envs(self.maker.iter().cloned())
            .current_dir(self.cwd())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs)
            .process_group(0)
            .spawn()
            .unwrap();
        drop(command);
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let text = read_all(
            move |text| {
                let _ = output.read_to_end(text);
            },
            || {
                let _ = killpg(group, Signal::SIGKILL);
            },
        );
        // Until it is waited for, its number is nobody else's, nor is that of its group.
        let _ = waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let _ = killpg(group, Signal::SIGKILL);
        let status = child.wait().unwrap();
        Ran {
            ok: status.success(),
            status: status.to_string(),
            output: text,
            traces: Vec::new(),
        }
    }

    /// Makes the plan for a script.
    pub(crate) fn plan(
        &self,
        script: &str,
        policy: &str,
        terminal: bool,
    ) -> Result<Planned, String> {
        let profile = match self.place {
            Place::ProfileInProject => self.project.join(".wt"),
            _ => self.home.join(".wingthing"),
        };
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let places = Places {
            home: text(&self.home),
            cwd: text(&self.cwd()),
            profile: text(&profile),
        };
        let own = text(&profile.join("egg.yaml"));
        let policy = self.expand(policy);
        let read = |path: &str| -> Result<Option<String>, String> {
            if path == own && !policy.is_empty() {
                return Ok(Some(policy.clone()));
            }
            match fs::read_to_string(path) {
                Ok(text) => Ok(Some(text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(e.to_string()),
            }
        };
        let layers = wt_policy::load(&read, &places, None).map_err(|e| e.to_string())?;
        let facts = Facts {
            places,
            platform: Platform::Linux,
            env: self.maker.clone(),
            shared: false,
        };
        let request = wt_policy::Request {
            facts: &facts,
            agent: None,
            profile: None,
            trusted: false,
            options: &[],
        };
        let policy = wt_policy::resolve(&layers, &request).map_err(|e| e.to_string())?;
        let surroundings = Surroundings {
            cwd: self.cwd(),
            home: self.home.clone(),
            profiles: vec![profile],
            program: Some(self.project.join("tool/wt")),
            uid: Uid::effective().as_raw(),
            gid: getegid().as_raw(),
        };
        make_missing(&policy, &surroundings).map_err(|e| e.to_string())?;
        let host = look(&policy, &surroundings).map_err(|e| e.to_string())?;
        let mut argv = vec!["bash".to_owned()];
        if terminal {
            argv.extend(["-c".to_owned(), self.script(script)]);
        }
        let request = Request {
            program: Program {
                file: "bash".to_owned(),
                argv,
                env: session_env(&policy, &self.maker).vars,
            },
            stdio: if terminal {
                Stdio::Terminal { cols: 80, rows: 24 }
            } else {
                Stdio::Given
            },
        };
        let plan = compile(&policy, &host, &request).map_err(|e| e.to_string())?;
        Ok(Planned {
            plan,
            network: policy.network,
        })
    }

    /// Runs a script inside, without the given layers.
    pub(crate) fn inside(
        &mut self,
        case: &Case,
        script: &str,
        without: &[L],
    ) -> Result<Ran, String> {
        let mut planned = self.plan(script, case.policy, case.terminal)?;
        for layer in without {
            layer.ablate(&mut planned.plan, &self.home, &self.maker);
        }
        if !case.between.is_empty() {
            if case.between.starts_with("listen ") {
                self.listen(case.between.trim_start_matches("listen "));
            } else {
                let ran = self.outside(case.between, false);
                assert!(ran.ok, "{}: {}", case.id, ran.output);
            }
        }
        let mut ran = self.start(&planned, script)?.finish();
        ran.traces.extend(self.traces());
        Ok(ran)
    }

    /// Starts a plan with pipes or a terminal.
    pub(crate) fn start(&self, planned: &Planned, script: &str) -> Result<Running, String> {
        let plan = &planned.plan;
        let (output, given) = match plan.stdio {
            Stdio::Terminal { .. } => (None, None),
            Stdio::Given => {
                let (output, theirs) = std::io::pipe().unwrap();
                let input = OwnedFd::from(self.script_file(script));
                let errors = theirs.try_clone().unwrap().into();
                (
                    Some(File::from(OwnedFd::from(output))),
                    Some([input, theirs.into(), errors]),
                )
            }
        };
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", self.token, COUNT.fetch_add(1, Ordering::Relaxed));
        let cgroup = plan
            .cgroup
            .as_ref()
            .map(|wanted| Cgroup::create(&id, wanted))
            .transpose()
            .map_err(|e| e.to_string())?;
        let mut session = match spawn(plan, given, cgroup.as_ref()) {
            Ok(session) => session,
            Err(error) => {
                if let Some(cgroup) = cgroup {
                    let _ = cgroup.remove();
                }
                return Err(error.to_string());
            }
        };
        let net = Arc::new(FakeNet::default());
        let listeners: Vec<Listener> = std::mem::take(&mut session.listeners)
            .into_iter()
            .map(|(spec, socket)| Listener {
                kind: spec.kind,
                socket,
            })
            .collect();
        let egress = if listeners.is_empty() {
            None
        } else {
            let log = AuditLog::open(&self.audit_path()).map_err(|e| e.to_string())?;
            let outside: Arc<dyn wt_sandbox::proxy::Outside> = Arc::clone(&net) as _;
            let network = planned.network.clone();
            Some(Egress::start(network, listeners, log, &[], outside).map_err(|e| e.to_string())?)
        };
        let output = match output {
            Some(output) => output,
            None => File::from(session.terminal.take().unwrap()),
        };
        Ok(Running {
            session: Arc::new(session),
            output: Some(output),
            egress,
            net,
            cgroup,
        })
    }

    pub(crate) fn audit_path(&self) -> PathBuf {
        self.dir.path().join("audit")
    }

    /// What the host has seen of an attack since the world was made.
    fn traces(&mut self) -> Vec<String> {
        let mut traces = Vec::new();
        if servers()
            .heard
            .lock()
            .unwrap()
            .iter()
            .any(|said| said.contains(&self.token))
        {
            traces.push("a server of the host heard it".to_owned());
        }
        for (name, socket) in &self.sockets {
            let reached = match socket {
                Socket::Stream(listener) => listener.accept().is_ok(),
                Socket::Datagram(socket) => socket.recv(&mut [0; 8]).is_ok(),
            };
            if reached {
                traces.push(format!("{name} was reached"));
            }
        }
        if let Some(victim) = &mut self.victim
            && !matches!(victim.try_wait(), Ok(None))
        {
            traces.push("a process of the host was ended".to_owned());
        }
        traces
    }

    /// Everything in the home that no attack may change, with what is in it.
    pub(crate) fn manifest(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(&self.home).unwrap().display().to_string();
                let is_kept = KEPT_IN_PROJECT
                    .iter()
                    .any(|kept| name.starts_with(kept) || kept.starts_with(&name));
                // Caches are made for tools that are used for the first time.
                let is_cache =
                    [".cache", ".npm", ".cargo/registry", ".cargo/git"].contains(&name.as_str());
                if is_cache || name.starts_with("project/") && !is_kept {
                    continue;
                }
                let Ok(about) = fs::symlink_metadata(&path) else {
                    continue;
                };
                let content = if about.is_dir() {
                    folders.push(path.clone());
                    "folder".to_owned()
                } else if about.is_symlink() {
                    format!("link to {:?}", fs::read_link(&path).ok())
                } else if about.is_file() && about.len() < MAX_LOOK {
                    fs::read(&path).map_or_else(
                        |e| e.to_string(),
                        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
                    )
                } else {
                    "other".to_owned()
                };
                found.insert(name, format!("{:o} {content}", about.mode()));
            }
        }
        found
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut victim) = self.victim.take() {
            let _ = victim.kill();
            let _ = victim.wait();
        }
        for path in &self.outside {
            let _ = fs::remove_file(path);
        }
    }
}

/// Sockets of the host's services, made where an attack mentions them.
const SOCKETS: &[&str] = &[
    "$H/h.sock",
    "$H/d.sock",
    "$H/.gnupg/S.gpg-agent",
    "$H/.ssh/agent.sock",
    "$H/.wingthing/wt.sock",
    "/tmp/wt-$TOKEN.sock",
    "/run/user/$ORDINARY/bus-$TOKEN",
    "/mnt/daemon-$TOKEN.sock",
    "@fix-$TOKEN",
    "@/tmp/.X11-unix/X$TOKEN",
];

/// Where the toolchain is that `cargo` on the path stands for.
fn rustup_home() -> String {
    std::env::var("RUSTUP_HOME").unwrap_or_else(|_| {
        let home = std::env::var("HOME").unwrap_or_default();
        format!("{home}/.rustup")
    })
}

/// The variables of whoever makes a session.
fn maker(home: &Path) -> Vec<(String, String)> {
    let home = home.display().to_string();
    let path =
        std::env::var("PATH").unwrap_or_default() + ":/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let socket = format!("{home}/.ssh/agent.sock");
    [
        ("PATH", path.as_str()),
        ("HOME", &home),
        ("USER", "ada"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C"),
        ("TERM", "xterm-256color"),
        ("SHELL", "/bin/bash"),
        ("SECRET_CANARY", CANARY),
        ("AWS_SECRET_ACCESS_KEY", CANARY),
        ("GITHUB_TOKEN", CANARY),
        ("SSH_AUTH_SOCK", &socket),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// A plan with the policy that its proxy enforces.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) network: wt_policy::NetworkPolicy,
}

/// A session that runs.
pub(crate) struct Running {
    pub(crate) session: Arc<Sandboxed>,
    output: Option<File>,
    egress: Option<Egress>,
    net: Arc<FakeNet>,
    cgroup: Option<Cgroup>,
}

impl Running {
    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        let mut output = self.output.take().unwrap();
        let to_kill = Arc::clone(&self.session);
        let text = read_all(
            move |text| {
                // The end of a terminal's output is an error on Linux (EIO).
                let _ = output.read_to_end(text);
            },
            move || {
                let _ = to_kill.kill();
            },
        );
        let status = self.session.wait().unwrap();
        Ran {
            ok: status.success(),
            status: status.to_string(),
            output: text,
            traces: self.net.traces(),
        }
    }

    /// What it prints, up to the end of a line, or until that takes too long.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        let output = self.output.as_mut().unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap();
            let mut watched = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
            let is_ready = poll(&mut watched, timeout).is_ok_and(|ready| ready > 0);
            if !is_ready || !output.read(&mut byte).is_ok_and(|read| read == 1) || byte[0] == b'\n'
            {
                return String::from_utf8_lossy(&line).into_owned();
            }
            line.push(byte[0]);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.session.kill();
        let _ = self.session.wait();
        self.egress = None;
        if let Some(cgroup) = self.cgroup.take() {
            let _ = cgroup.kill();
            let _ = cgroup.remove();
        }
    }
}

/// What came of a script.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ok: bool,
    pub(crate) status: String,
    pub(crate) output: String,
    /// What the host saw of it.
    pub(crate) traces: Vec<String>,
}

/// Reads to the end, and ends the writer when that takes too long.
fn read_all(read: impl FnOnce(&mut Vec<u8>) + Send + 'static, end: impl FnOnce()) -> String {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        read(&mut text);
        let _ = sender.send(text);
    });
    let text = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        end();
        let late = receiver
            .recv_timeout(Duration::from_secs(5))
            .unwrap_or_default();
        [late.as_slice(), b"\n(it took too long)"].concat()
    });
    String::from_utf8_lossy(&text).into_owned()
}

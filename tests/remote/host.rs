//! Another machine: a real sshd on a loopback port, with keys, settings and logins of its own.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use wt_tests::process::{free_port, kill9, parent, program, start_time};
use wt_tests::{Profile, eventually};

/// Where Debian has it; it is on no user's PATH.
const SSHD: &str = "/usr/sbin/sshd";

/// Ada's machine behind sshd, and Ben's profile, whose ssh knows it under a few names.
pub(crate) struct Host {
    pub(crate) ada: Profile,
    pub(crate) ben: Profile,
    sshd: Child,
}

/// Ways to log in: what stands between sshd and the command that was asked for. Each is a
/// name of the host in Ben's configuration.
const LOGINS: &[(&str, &str)] = &[
    ("box", r#"exec /bin/sh -c "$SSH_ORIGINAL_COMMAND""#),
    (
        "noisy",
        r#"echo "Welcome to the box"; printf '\377\000wing\376\000 half a mark\n'
           echo "a warning" >&2
           exec bash -c "$SSH_ORIGINAL_COMMAND""#,
    ),
    ("endless", "exec yes"),
    (
        "tcsh",
        r#"echo 'echo "tcsh says hello"' > "$HOME/.tcshrc"
           exec tcsh -c "$SSH_ORIGINAL_COMMAND""#,
    ),
    ("fish", r#"exec fish -c "$SSH_ORIGINAL_COMMAND""#),
    (
        "nologin",
        r#"echo "This account is currently not available."; exit 1"#,
    ),
    (
        "bare",
        r#"PATH=/usr/bin:/bin exec /bin/sh -c "$SSH_ORIGINAL_COMMAND""#,
    ),
];

impl Host {
    /// Starts a machine; none where there is no sshd.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            println!("skipped: remote, {test}: no sshd");
            return None;
        }
        let ada = Profile::new("ada");
        let home = Profile::new("ben");
        let dir = home.scratch().join("ssh");
        std::fs::create_dir(&dir).unwrap();
        for key in ["host", "other", "ben"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.join(key))
                .status()
                .unwrap();
            assert!(made.success(), "ssh-keygen failed");
        }
        let port = free_port();
        write_known_hosts(&dir);
        write_login(&ada, &dir.join("login"));
        let sshd_config = server_config(&dir, port);
        std::fs::write(dir.join("sshd_config"), sshd_config).unwrap();
        std::fs::write(dir.join("config"), client_config(&dir, port)).unwrap();
        let ssh = format!("ssh -F '{}'", dir.join("config").display());
        // The folder for the unprivileged half of an sshd that root runs.
        let _ = std::fs::create_dir("/run/sshd");
        let sshd = start_sshd(&dir.join("sshd_config"));
        Some(Self {
            ada,
            ben: home.env("WT_SSH", &ssh),
            sshd,
        })
    }

    /// The ssh that a client of Ben's has started.
    pub(crate) fn ssh_of(&self, client: u32) -> u32 {
        eventually("the client's ssh", || {
            self.ben.processes().into_iter().find(|pid| {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
                parent(*pid) == Some(client) && name.is_ok_and(|name| name.trim() == "ssh")
            })
        })
    }

    /// A path on Ada's machine.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.ada.scratch().join(name)
    }

    /// Puts a program on Ada's machine.
    pub(crate) fn install(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path(name);
        write_program(&path, script);
        path
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if start_time(self.sshd.id()).is_some() {
            kill9(self.sshd.id());
        }
        // It was killed: only its place in the table of processes is left.
        let _ = self.sshd.wait();
    }
}

fn start_sshd(config: &Path) -> Child {
    let mut sshd = Command::new(SSHD)
        .args(["-D", "-e", "-f"])
        .arg(config)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(sshd.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("Server listening") {
        let more = log.read_line(&mut said).unwrap();
        assert!(more > 0, "sshd ended: {said}");
    }
    // It must never wait for a reader of its log.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    sshd
}

fn server_config(dir: &Path, port: u16) -> String {
    let at = |name: &str| format!("\"{}\"", dir.join(name).display());
    [
        format!("Port {port}"),
        "ListenAddress 127.0.0.1".to_owned(),
        format!("HostKey {}", at("host")),
        format!("AuthorizedKeysFile {}", at("ben.pub")),
        format!("ForceCommand '{}'", dir.join("login").display()),
        "AcceptEnv LOGIN".to_owned(),
        "PidFile none".to_owned(),
        "UsePAM no".to_owned(),
        "StrictModes no".to_owned(),
        "PasswordAuthentication no".to_owned(),
        "KbdInteractiveAuthentication no".to_owned(),
        "PermitRootLogin yes".to_owned(),
        "MaxStartups 100".to_owned(),
    ]
    .join("\n")
        + "\n"
}

fn client_config(dir: &Path, port: u16) -> String {
    let at = |name: &str| format!("\"{}\"", dir.join(name).display());
    let mut text: String = LOGINS
        .iter()
        .map(|(name, _)| format!("Host {name}\n  SetEnv LOGIN={name}\n"))
        .collect();
    text.push_str(&format!(
        "Host impostor\n  HostKeyAlias impostor\n\
         Host jumped\n  SetEnv LOGIN=box\n  ProxyJump box\n\
         Host closed\n  Port {}\n\
         # What a user has for logging in must not be in the way.\n\
         Host busy\n  SetEnv LOGIN=box\n  RequestTTY force\n  RemoteCommand tmux new -A\n  \
         LocalCommand echo local\n  PermitLocalCommand yes\n",
        free_port()
    ));
    text.push_str(&format!(
        "Host *\n  HostName 127.0.0.1\n  Port {port}\n  HostKeyAlias box\n  IdentityFile {}\n  \
         IdentitiesOnly yes\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  \
         StrictHostKeyChecking yes\n",
        at("ben"),
        at("known_hosts")
    ));
    text
}

fn write_known_hosts(dir: &Path) {
    let key = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let text = format!("box {}impostor {}", key("host.pub"), key("other.pub"));
    std::fs::write(dir.join("known_hosts"), text).unwrap();
}

/// The login of Ada's machine: the environment that a login there has, then the way that
/// the client asks for.
fn write_login(ada: &Profile, path: &Path) {
    let mut script: String = ada
        .environment()
        .iter()
        .map(|(name, value)| format!("export {name}='{value}'\n"))
        .collect();
    let programs = program("wt").parent().unwrap().display().to_string();
    script.push_str(&format!(
        "PATH='{programs}':$PATH\ncd \"$HOME\"\ncase $LOGIN in\n"
    ));
    for (name, way) in LOGINS {
        script.push_str(&format!("{name})\n{way}\n;;\n"));
    }
    script.push_str("esac\n");
    write_program(path, &script);
}

fn write_program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

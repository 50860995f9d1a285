//! One relay, one wing, its sessions and the raw peers, on loopback in a folder of their own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use wt_crypto::Role as ClientRole;
use wt_egg::EggDir;
use wt_egg::log::{MAX_OUTPUT_WINDOW, MIN_OUTPUT_WINDOW};
use wt_protocol::rpc::{BoundaryChoice, Failure, StartSession};
use wt_protocol::session::Winsize;
use wt_wing::admission;
use wt_wing::attach::Target;
use wt_wing::client::{Client, WingHandle};
use wt_wing::config::WingConfig;
use wt_wing::profile::Profile;
use wt_wing::sessions::{Sessions, StartTerms};

use crate::baseline::{self, RawQuic};
use crate::roles::{self, Ready};

/// How long a process of a run may take until it serves.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// How long it may take to end when it is asked to: a wing ends its sessions first.
const END_DEADLINE: Duration = Duration::from_secs(15);

/// All processes of a run.
pub(crate) struct World {
    /// Bytes that one burst of the flood prints.
    pub(crate) burst: u64,
    root: TempDir,
    wing: Profile,
    running: Option<Running>,
    roles: Vec<Role>,
}

/// What is there once everything started.
struct Running {
    relay_pid: u32,
    wing_pid: u32,
    peer_pid: u32,
    splice_pid: u32,
    peer: Ready,
    splice: Ready,
    raw: RawQuic,
    handle: WingHandle,
    flood: Session,
    echo: Session,
    local_echo: Session,
}

/// A session of the wing.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    id: String,
    /// The process that owns its terminal.
    pub(crate) egg_pid: u32,
}

/// A process of a run.
struct Role {
    name: &'static str,
    child: Child,
}

impl World {
    /// A folder, and nothing in it yet.
    pub(crate) fn empty(burst: u64) -> Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("wt-load-")
            .tempdir()
            .context("cannot make a folder for the run")?;
        Ok(Self {
            burst,
            wing: roles::wing_profile(root.path()),
            root,
            running: None,
            roles: Vec::new(),
        })
    }

    /// Starts everything. Whatever of it came up is ended by [`Self::stop`].
    pub(crate) async fn begin(&mut self) -> Result<()> {
        let root = self.root.path().to_owned();
        let client = roles::client_profile(&root);
        let key = client.client_secret()?.public();
        admission::admit(&self.wing, key, None, "load test", ClientRole::Operator)?;
        let identity = baseline::identity(&root)?;

        let (relay_pid, _) = self.start_role(roles::RELAY, &root).await?;
        let (wing_pid, _) = self.start_role(roles::WING, &root).await?;
        let (peer_pid, peer) = self.start_role(roles::PEER, &root).await?;
        let upstream = peer.tcp()?.to_string();
        let (splice_pid, splice) = self.start_role(roles::SPLICE, upstream.as_ref()).await?;

        let flood = [roles::FLOOD.to_owned(), self.burst.to_string()];
        let echo = [roles::ECHO.to_owned()];
        let raw = RawQuic::connect(peer.quic()?, &identity).await?;
        self.running = Some(Running {
            relay_pid,
            wing_pid,
            peer_pid,
            splice_pid,
            peer,
            splice,
            raw,
            handle: self.client().await?,
            flood: self.start_session("flood", &flood).await?,
            echo: self.start_session("echo", &echo).await?,
            local_echo: self.start_session("local-echo", &echo).await?,
        });
        Ok(())
    }

    async fn start_role(&mut self, name: &'static str, argument: &Path) -> Result<(u32, Ready)> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(name)
            .arg(argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let pid = child
            .id()
            .with_context(|| format!("{name} ended at once"))?;
        let stdout = child.stdout.take().context("it was asked for")?;
        self.roles.push(Role { name, child });
        let mut line = String::new();
        timeout(READY_DEADLINE, BufReader::new(stdout).read_line(&mut line))
            .await
            .with_context(|| format!("{name} did not get ready in time"))??;
        let ready = serde_json::from_str(&line).with_context(|| format!("{name} did not start"))?;
        Ok((pid, ready))
    }

    async fn start_session(&self, name: &str, arguments: &[String]) -> Result<Session> {
        let exe = std::env::current_exe()?;
        let exe = exe.to_str().context("this program's path is not UTF-8")?;
        let request = StartSession {
            name: Some(name.to_owned()),
            command: [&[exe.to_owned()], arguments].concat(),
            cwd: None,
            env: Vec::new(),
            size: Winsize::DEFAULT,
            agent: None,
            record: false,
        };
        let terms = StartTerms {
            default_cwd: self.root.path().to_owned(),
            // A burst stays inside it whatever a client does, so that all of it can be counted.
            output_window: (2 * self.burst).clamp(MIN_OUTPUT_WINDOW, MAX_OUTPUT_WINDOW),
            ..WingConfig::default().start_terms(Vec::new())
        };
        // What is measured is the way of the bytes; and this program may lie where a held
        // session sees nothing.
        let unheld = BoundaryChoice {
            unsandboxed: true,
            ..BoundaryChoice::default()
        };
        let sessions = self.sessions();
        let starting = sessions.start_in(request, None, &unheld, terms);
        let record = starting.await.map_err(plain)?;
        let meta = EggDir::new(self.wing.file("eggs").join(&record.id)).meta()?;
        Ok(Session {
            egg_pid: meta
                .egg_pid
                .context("a session does not name its process")?,
            id: record.id,
        })
    }

    /// Another client with a link of its own, and the wing as it sees it.
    pub(crate) async fn client(&self) -> Result<WingHandle> {
        let client: Arc<Client> = Client::open(&roles::client_profile(self.root.path()), None)?;
        let wing_id = self.wing.wing_identity()?.wing_id().to_string();
        Ok(Box::pin(client.wing(&wing_id)).await?)
    }

    fn sessions(&self) -> Sessions {
        self.wing.sessions()
    }

    fn running(&self) -> Result<&Running> {
        self.running.as_ref().context("the run has not begun")
    }

    /// A session through the relay.
    pub(crate) fn relayed(&self, session: &Session) -> Result<Target> {
        Ok(remote(&self.running()?.handle, session))
    }

    /// A session at its own machine.
    pub(crate) fn local(&self, session: &Session) -> Target {
        Target::Local(self.sessions(), session.id.clone())
    }

    /// Bytes that a session printed so far.
    pub(crate) async fn printed(&self, session: &Session) -> Result<u64> {
        let record = self.sessions().get(&session.id).await.map_err(plain)?;
        Ok(record.bytes_written)
    }

    /// The session that floods.
    pub(crate) fn flood(&self) -> Result<&Session> {
        Ok(&self.running()?.flood)
    }

    /// The session that echoes, for clients that come through the relay.
    pub(crate) fn echo(&self) -> Result<&Session> {
        Ok(&self.running()?.echo)
    }

    /// The session that echoes, for a client beside it.
    pub(crate) fn local_echo(&self) -> Result<&Session> {
        Ok(&self.running()?.local_echo)
    }

    /// The raw connection to the peer.
    pub(crate) fn raw(&self) -> Result<&RawQuic> {
        Ok(&self.running()?.raw)
    }

    /// The peer over TCP.
    pub(crate) fn peer_tcp(&self) -> Result<SocketAddr> {
        self.running()?.peer.tcp()
    }

    /// The peer over TCP, behind the splicing relay.
    pub(crate) fn splice_tcp(&self) -> Result<SocketAddr> {
        self.running()?.splice.tcp()
    }

    /// The processes between a program's output and a client: relay, wing and egg.
    pub(crate) fn product_pids(&self) -> Result<[(&'static str, u32); 3]> {
        let running = self.running()?;
        Ok([
            ("relay", running.relay_pid),
            ("wing", running.wing_pid),
            ("egg", running.flood.egg_pid),
        ])
    }

    /// The other end of the baselines.
    pub(crate) fn peer_pid(&self) -> Result<u32> {
        Ok(self.running()?.peer_pid)
    }

    /// The splicing relay.
    pub(crate) fn splice_pid(&self) -> Result<u32> {
        Ok(self.running()?.splice_pid)
    }

    /// Ends the sessions and all processes, and removes the folder.
    pub(crate) async fn stop(self) -> Result<()> {
        let ended = roles::end_sessions(&self.wing).await;
        drop(self.running);
        // The wing before the relay that it talks to.
        for Role { name, mut child } in self.roles.into_iter().rev() {
            drop(child.stdin.take());
            if timeout(END_DEADLINE, child.wait()).await.is_err() {
                child.kill().await?;
                anyhow::bail!("{name} did not end in time and was killed");
            }
        }
        self.root.close().context("cannot remove the folder")?;
        ended
    }
}

/// A session as the client of this handle reaches it.
pub(crate) fn remote(handle: &WingHandle, session: &Session) -> Target {
    Target::Remote(handle.clone(), session.id.clone())
}

impl Ready {
    fn tcp(&self) -> Result<SocketAddr> {
        self.tcp.context("it takes no TCP connections")
    }

    fn quic(&self) -> Result<SocketAddr> {
        self.quic.context("it takes no QUIC connections")
    }
}

fn plain(failure: Failure) -> anyhow::Error {
    anyhow!(failure.message)
}

//! The other processes of a run, each this same program under a hidden name.
//!
//! | name | what it becomes |
//! |---|---|
//! | `__egg` | the process of one session, as `wt` starts it |
//! | `__flood`, `__echo` | the program in a session's terminal |
//! | `__relay` | a relay, with both profiles signed in |
//! | `__wing` | a wing's daemon |
//! | `__peer` | the other end of the raw baselines |
//! | `__splice` | a TCP relay in the kernel |
//! | `__keeper` | who ends a home's sessions when this program is gone |
//! | `__tty` | a command on a terminal of its own |
//! | `__pour` | a program that prints a stream once |
//! | `__model` | a terminal model, alone in a process |
//!
//! A role that serves says `ready` with its address on its standard output and ends with its
//! standard input, so that none outlives the run, however that ends.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use wt_egg::EggDir;
use wt_relay::{Relay, RelayConfig};
use wt_wing::Uplink;
use wt_wing::control::{self, Mode};
use wt_wing::daemon;
use wt_wing::login::login_of;
use wt_wing::profile::Profile;
use wt_wing::sessions::EGG_COMMAND;

use crate::{baseline, home, programs, pty, scenarios};

pub(crate) const FLOOD: &str = "__flood";
pub(crate) const ECHO: &str = "__echo";
pub(crate) const RELAY: &str = "__relay";
pub(crate) const WING: &str = "__wing";
pub(crate) const PEER: &str = "__peer";
pub(crate) const SPLICE: &str = "__splice";
pub(crate) const KEEPER: &str = "__keeper";
pub(crate) const TTY: &str = "__tty";
pub(crate) const POUR: &str = "__pour";
pub(crate) const MODEL: &str = "__model";

/// What a role that serves says, once, in JSON on one line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Where it takes TCP connections, if it does.
    pub(crate) tcp: Option<SocketAddr>,
    /// Where it takes QUIC connections, if it does.
    pub(crate) quic: Option<SocketAddr>,
}

/// Where the parts of a run keep their files.
pub(crate) fn wing_profile(root: &Path) -> Profile {
    Profile::at(root.join("wing"))
}

/// The client's profile.
pub(crate) fn client_profile(root: &Path) -> Profile {
    Profile::at(root.join("client"))
}

/// Becomes what the first argument names; gives the exit status. None for a user's command.
pub(crate) fn dispatch(arguments: &[OsString]) -> Option<i32> {
    let word = arguments.get(1)?.to_str()?;
    let argument = arguments.get(2).map(OsString::as_os_str);
    let path = || argument.map(Path::new).context("a folder is missing");
    let text = || argument.and_then(|a| a.to_str()).unwrap_or_default();
    let outcome = match word {
        EGG_COMMAND => {
            // It fails only for the leader of a group, which has a session of its own already.
            let _ = nix::unistd::setsid();
            return Some(argument.map_or(2, |folder| wt_egg::server::run(Path::new(folder))));
        }
        FLOOD => text()
            .parse()
            .context("a number of bytes is missing")
            .and_then(|burst| Ok(programs::flood(burst)?)),
        ECHO => programs::echo().map_err(Into::into),
        RELAY => path().and_then(|root| serve(relay(root))),
        WING => path().and_then(|root| serve(wing(root))),
        PEER => path().and_then(|root| serve(peer(root))),
        SPLICE => text()
            .parse()
            .context("an address is missing")
            .and_then(splice),
        KEEPER => path().and_then(|root| serve(keeper(root))),
        TTY => argument
            .context("a terminal is missing")
            .and_then(|tty| pty::become_command(tty, &arguments[3..])),
        POUR => pour(&arguments[2..]),
        MODEL => model(&arguments[2..]),
        _ => return None,
    };
    Some(match outcome {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "wt-loadtest {word}: {error:#}");
            1
        }
    })
}

fn serve(role: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(Box::pin(role))
}

async fn relay(root: &Path) -> Result<()> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let relay = Box::pin(Relay::start(RelayConfig::new(loopback, root.join("relay")))).await?;
    for profile in [wing_profile(root), client_profile(root)] {
        let device = profile.device_secret()?;
        let client = profile.client_secret()?.public();
        let vouched = device.vouch_for(&client);
        let account = relay
            .enroll_local(device.public(), client, vouched, "load test")
            .await
            .map_err(|e| anyhow!("a device was not enrolled: {e}"))?;
        profile.write_roost(&login_of(
            &relay.origin(),
            relay.info(),
            account.as_str().to_owned(),
            true,
        ))?;
    }
    say_ready(&Ready {
        tcp: Some(relay.addr()),
        quic: Some(relay.addr()),
    })?;
    let _ = starter_gone().await;
    relay.shutdown().await;
    Ok(())
}

async fn wing(root: &Path) -> Result<()> {
    let profile = wing_profile(root);
    let claimed = control::claim(&profile, Mode::Wing)?.context("a wing runs there already")?;
    let serving = daemon::run(&profile, claimed, Uplink::Quic, |_| {
        // A starter that is gone is noticed by the end of standard input.
        let _ = say_ready(&Ready {
            tcp: None,
            quic: None,
        });
    });
    let served = tokio::select! {
        served = Box::pin(serving) => served.map_err(Into::into),
        _ = starter_gone() => Ok(()),
    };
    // Also when the run itself was killed: its sessions are nobody's then.
    end_sessions(&profile).await?;
    served
}

async fn peer(root: &Path) -> Result<()> {
    let identity = baseline::identity(root)?;
    let peer = baseline::Peer::bind(&identity).await?;
    say_ready(&Ready {
        tcp: Some(peer.tcp_addr()?),
        quic: Some(peer.quic_addr()?),
    })?;
    tokio::select! {
        served = peer.serve() => served,
        _ = starter_gone() => Ok(()),
    }
}

async fn keeper(root: &Path) -> Result<()> {
    let _ = starter_gone().await;
    home::end(root).await
}

fn pour(arguments: &[OsString]) -> Result<()> {
    let [stream, bytes, folder] = arguments else {
        bail!("a stream, a number of bytes and a folder are wanted");
    };
    let stream = variant(stream)?;
    let bytes = number(bytes)?;
    Ok(programs::pour(stream, bytes, Path::new(folder))?)
}

fn model(arguments: &[OsString]) -> Result<()> {
    let [corpus, bytes] = arguments else {
        bail!("a corpus and a number of bytes are wanted");
    };
    let (corpus, bytes) = (variant(corpus)?, number(bytes)?);
    // It computes for seconds without looking at anything.
    thread::spawn(|| {
        wait_for_end_of_stdin();
        std::process::exit(1);
    });
    let fed = scenarios::screen::feed(corpus, bytes)?;
    Ok(serde_json::to_writer(io::stdout().lock(), &fed)?)
}

fn variant<T: ValueEnum>(text: &OsStr) -> Result<T> {
    let text = text.to_str().unwrap_or_default();
    T::from_str(text, false).map_err(|e| anyhow!("{text:?} is no known name: {e}"))
}

fn number(text: &OsStr) -> Result<u64> {
    let text = text.to_str().unwrap_or_default();
    text.parse().context("a number of bytes is missing")
}

/// Threads that copy; the process is over when the starter is gone.
fn splice(upstream: SocketAddr) -> Result<()> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    say_ready(&Ready {
        tcp: Some(listener.local_addr()?),
        quic: None,
    })?;
    thread::spawn(move || baseline::splice_all(&listener, upstream));
    wait_for_end_of_stdin();
    Ok(())
}

/// How long a session's process may take to go by itself once its program is gone.
const EGG_DEADLINE: Duration = Duration::from_secs(1);

/// How often it is looked at meanwhile.
const EGG_POLL: Duration = Duration::from_millis(10);

/// Ends every session of a profile, and their processes.
pub(crate) async fn end_sessions(profile: &Profile) -> Result<()> {
    let sessions = profile.sessions();
    let records = sessions
        .list()
        .await
        .map_err(|e| anyhow!("cannot list the sessions: {}", e.message))?;
    let mut ending = JoinSet::new();
    for record in records {
        let sessions = sessions.clone();
        let egg = EggDir::new(profile.file("eggs").join(&record.id));
        ending.spawn(async move {
            if record.status.is_living() {
                // One that ended meanwhile needs no end.
                let _ = sessions.kill(&record.id).await;
            }
            end_egg(&egg).await
        });
    }
    ending.join_all().await.into_iter().collect()
}

/// Waits for the process of a session that ended. It stays a minute for clients that were cut
/// off, which here are gone with the run.
async fn end_egg(egg: &EggDir) -> Result<()> {
    let gone = async {
        while egg.is_alive()? {
            sleep(EGG_POLL).await;
        }
        Ok::<_, anyhow::Error>(())
    };
    if let Ok(gone) = timeout(EGG_DEADLINE, gone).await {
        return gone;
    }
    let pid = egg.meta()?.egg_pid.context("its process is not known")?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
    Ok(())
}

fn say_ready(ready: &Ready) -> Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, ready)?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}

/// Resolves when whoever started this process is gone or wants it gone.
fn starter_gone() -> oneshot::Receiver<()> {
    let (gone, told) = oneshot::channel();
    // Ends with the process at the latest.
    thread::spawn(move || {
        wait_for_end_of_stdin();
        let _ = gone.send(());
    });
    told
}

fn wait_for_end_of_stdin() {
    let mut byte = [0];
    while matches!(io::stdin().read(&mut byte), Ok(n) if n > 0) {}
}

//! `wt-relay`: a relay on its own, and its operator's commands.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use wt_relay::admin::{self, AdminError};
use wt_relay::{Origin, Relay, RelayConfig, StartError, TlsFiles};

/// Relay sealed streams between people's terminals and their machines
#[derive(Debug, Parser)]
#[command(name = "wt-relay", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<Serve>),
    Approve(Approve),
    Link(Link),
}

/// Run a relay until SIGTERM or SIGINT
#[derive(Debug, Args)]
struct Serve {
    /// Listen here: TCP for HTTP(S) and the same port in UDP for links
    ///
    /// Anything but a loopback address needs a certificate. Port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    #[command(flatten)]
    data: Data,
    /// Serve HTTPS and links with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The URL under which users reach the relay
    ///
    /// By default it is made from --addr.
    #[arg(long, value_name = "URL")]
    origin: Option<Origin>,
    /// A proxy in front ends TLS and sets X-Forwarded-For; needs --origin
    #[arg(long, requires = "origin")]
    behind_proxy: bool,
    /// What to log to stderr, for instance `debug` or `wt_relay=debug,warn`
    #[arg(long, value_name = "FILTER", env = "WT_LOG", default_value = "info")]
    log: EnvFilter,
    /// Print the ready line as JSON
    #[arg(long)]
    json: bool,
}

/// Approve the device login under a code
#[derive(Debug, Args)]
struct Approve {
    /// The code that the device shows
    code: String,
    #[command(flatten)]
    data: Data,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Print a link that signs one browser in, once, within five minutes
#[derive(Debug, Args)]
struct Link {
    #[command(flatten)]
    data: Data,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Data {
    /// Keep keys and database in this folder [default: ~/.wingthing-relay]
    #[arg(long = "data", value_name = "DIR", env = "WT_RELAY_DATA")]
    dir: Option<PathBuf>,
}

/// What went wrong, for people and programs. The codes are those of `wt`.
struct Failure {
    exit: u8,
    code: &'static str,
    message: String,
    hint: &'static str,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = match &cli.command {
        Command::Serve(args) => args.json,
        Command::Approve(args) => args.json,
        Command::Link(args) => args.json,
    };
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| failed(&e))
        .and_then(|runtime| runtime.block_on(run(cli.command)));
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    let text = if json {
        json!({"version": 1, "error": {
            "code": failure.code, "message": failure.message, "hint": failure.hint,
        }})
        .to_string()
    } else if failure.hint.is_empty() {
        format!("wt-relay: {}", failure.message)
    } else {
        format!("wt-relay: {}\nhint: {}", failure.message, failure.hint)
    };
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
    ExitCode::from(failure.exit)
}

async fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve(*args).await,
        Command::Approve(args) => {
            let dir = data_dir(args.data)?;
            let approved = admin::approve(&dir, &args.code)
                .await
                .map_err(admin_failure)?;
            let text = if args.json {
                json!({"version": 1, "account": approved.account,
                       "device_name": approved.device_name, "device": approved.device,
                       "client": approved.client})
                .to_string()
            } else {
                format!(
                    "approved {} (device key {}) for account {}",
                    approved.device_name, approved.device, approved.account
                )
            };
            print(&text)
        }
        Command::Link(args) => {
            let dir = data_dir(args.data)?;
            let link = admin::sign_in_link(&dir).await.map_err(admin_failure)?;
            if args.json {
                let text = json!({"version": 1, "url": link.url, "expires_in": link.expires_in});
                print(&text.to_string())
            } else {
                print(&link.url)
            }
        }
    }
}

async fn serve(args: Serve) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_env_filter(args.log)
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
    // Before anything is up, so that no signal is missed and none kills half-way.
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| failed(&e))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| failed(&e))?;
    let mut config = RelayConfig::new(args.addr, data_dir(args.data)?);
    config.tls = args
        .tls_cert
        .zip(args.tls_key)
        .map(|(cert, key)| TlsFiles { cert, key });
    config.origin = args.origin;
    config.behind_proxy = args.behind_proxy;

    let relay = Relay::start(config).await.map_err(start_failure)?;
    let (origin, quic) = (relay.origin(), &relay.info().quic_addr);
    let ready = if args.json {
        json!({"version": 1, "origin": origin, "quic": quic}).to_string()
    } else {
        format!("ready at {origin}, links at {quic} (UDP)")
    };
    // A closed stdout does not stop a service.
    let _ = print(&ready);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    relay.shutdown().await;
    Ok(())
}

fn data_dir(data: Data) -> Result<PathBuf, Failure> {
    if let Some(dir) = data.dir {
        return Ok(dir);
    }
    match std::env::home_dir() {
        Some(home) if home.is_absolute() => Ok(home.join(".wingthing-relay")),
        _ => Err(Failure {
            exit: 2,
            code: "usage",
            message: "there is no home folder to keep the relay's data in".into(),
            hint: "give --data DIR",
        }),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        // The reader has what it wanted.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| failed(&e)),
    }
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure {
        exit: 1,
        code: "failed",
        message: error.to_string(),
        hint: "",
    }
}

fn start_failure(error: StartError) -> Failure {
    let exit = if matches!(error, StartError::Config(_)) {
        2
    } else {
        1
    };
    Failure {
        exit,
        code: if exit == 2 { "usage" } else { "failed" },
        ..failed(&error)
    }
}

fn admin_failure(error: AdminError) -> Failure {
    let (exit, code, hint) = match error {
        AdminError::UnknownCode(_) => (3, "not_found", "type the code that the device shows"),
        AdminError::Refused(_) => (5, "refused", ""),
        AdminError::NotRunning(_) => (6, "unreachable", "start it with: wt-relay serve"),
        AdminError::Unreachable { .. } => (6, "unreachable", ""),
        AdminError::File(_) | AdminError::Malformed(_) => (1, "failed", ""),
    };
    Failure {
        exit,
        code,
        message: error.to_string(),
        hint,
    }
}

//! The relay: tells who may reach which wing, and passes on sealed streams.
//!
//! [`Relay::start`] brings up one relay: HTTP (or HTTPS) on a TCP port, links on the same
//! port in UDP, and the store behind both. `wt-relay` runs it alone; a roost runs it in
//! one process with its wing, which it links through memory.
//!
//! What it deliberately does not do: open a sealed stream, or know what a wing runs. It
//! has no way to the crates that could (`wt-crypto`, `snow`), and its store has no place
//! for it. Decisions about routes live in `wt-relay-core`, without IO or clock; this
//! crate gives them sockets, time and a database. The dialling side of links lives in
//! `wt-link`.
//!
//! Every task belongs to the [`Relay`] value: [`Relay::shutdown`] ends them in order, and
//! dropping the value ends them at once.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod admin;
mod app;
mod browser;
mod config;
mod control;
mod dpop;
pub mod driver;
mod http;
mod login;
mod secrets;
mod splice;
mod store;
mod tokens;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use wt_files::{FileError, Lock};
use wt_link::quic::{Endpoint, Identity, IdentityError};
use wt_protocol::api::RoostInfo;
use wt_protocol::codes::LinkCode;
use wt_protocol::keys::{ClientKey, DeviceKey, GrantKey, Signature};

use crate::accounts::{AccountId, Accounts};
use crate::admin::RunningRelay;
use crate::app::{App, Parts};
use crate::driver::{Driver, DriverConfig};
use crate::login::clean_name;
use crate::secrets::{load_or_create, random, secret_text};
use crate::store::{Enrolment, Store};
use crate::tokens::Tokens;

pub use app::EnrolError;
pub use config::{ConfigError, Origin, RelayConfig, TlsFiles};
pub use secrets::KeyError;
pub use store::StoreError;

/// How long a stop may take in all. Service managers wait 10 s and more before they kill.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// How long links have to leave by themselves; what stays is closed within a second.
/// HTTP requests then have two more.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// How often a device may ask whether its login was approved (RFC 8628 section 3.2).
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The same where asking costs nobody anything: on this machine.
const POLL_INTERVAL_LOOPBACK: Duration = Duration::from_secs(1);

/// How often memory of quiet addresses is given back.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// How long a stop waits for the system to have the UDP port back. It takes microseconds.
const PORT_RELEASE: Duration = Duration::from_secs(1);

/// How often it looks.
const PORT_RELEASE_POLL: Duration = Duration::from_millis(2);

/// How often a free port is drawn until it is free in both TCP and UDP.
const PORT_TRIES: usize = 16;

/// Largest certificate or key file, in bytes. A chain of four has under 10 KiB.
const MAX_PEM: u64 = 256 * 1024;

/// Why a relay did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The set-up breaks a rule.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another relay uses the data folder.
    #[error("another relay is running with the data folder {}", .0.display())]
    InUse(PathBuf),
    /// The address cannot be listened on.
    #[error("cannot listen on {addr} ({transport}): {source}; {hint}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// TCP or UDP.
        transport: &'static str,
        /// What the system says.
        source: io::Error,
        /// One thing to try.
        hint: &'static str,
    },
    /// A file of the data folder, or a PEM file, cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A PEM file that was asked for is not there.
    #[error("there is no file {}", .0.display())]
    Missing(PathBuf),
    /// A key file does not hold its key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A certificate cannot be used.
    #[error("{}: {source}", path.display())]
    Certificate {
        /// Where it stands.
        path: PathBuf,
        /// What is wrong.
        source: IdentityError,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A running relay.
#[derive(Debug)]
pub struct Relay {
    app: Arc<App>,
    addr: SocketAddr,
    endpoint: Endpoint,
    data_dir: PathBuf,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
    /// Given back last, so that a next relay finds ports and files free.
    _lock: Lock,
}

impl Relay {
    /// Starts a relay; it answers on TCP and UDP when this returns.
    ///
    /// # Errors
    /// [`StartError`], which says what to do. Nothing is left running then.
    pub async fn start(config: RelayConfig) -> Result<Self, StartError> {
        config.check()?;
        let data_dir = config.data_dir.clone();
        wt_files::create_private_dir(&data_dir)?;
        let lock = Lock::try_acquire(&data_dir.join("relay.lock"))?
            .ok_or_else(|| StartError::InUse(data_dir.clone()))?;

        let identity = link_identity(&config)?;
        let (listener, endpoint, addr) = bind(config.addr, &identity).await?;
        let origin = config.origin_at(addr);
        let store = Store::open(&data_dir.join("relay.db")).await?;
        let tokens = Arc::new(Tokens::open(&data_dir, &origin.to_string())?);
        let accounts = Accounts::new(store.clone(), Arc::clone(&tokens));
        let driver = Driver::new(accounts.clone(), DriverConfig::new(origin.to_string()));
        let app = Arc::new(App::new(Parts {
            roost: RoostInfo {
                origin: origin.to_string(),
                quic_addr: format!("{}:{}", origin.host(), addr.port()),
                quic_spki: identity.spki_sha256(),
                grant_key: grant_key(&data_dir)?,
                behind_proxy: config.behind_proxy,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            origin,
            behind_proxy: config.behind_proxy,
            accounts,
            store,
            tokens,
            driver: driver.clone(),
            local_token: local_token(&data_dir)?,
            poll_interval: if addr.ip().is_loopback() && !config.behind_proxy {
                POLL_INTERVAL_LOOPBACK
            } else {
                POLL_INTERVAL
            },
        }));

        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let acceptor = config.tls.is_some().then(|| tls_acceptor(&identity));
        // The operator's calls need no certificate that fits a loopback name: they get a
        // listener of their own where the public one speaks TLS.
        let admin_addr = if acceptor.is_some() {
            let local = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = bind_tcp(local).await?;
            let admin_addr = listener
                .local_addr()
                .map_err(|e| bind_error(local, "TCP", e))?;
            let router = http::local_router(Arc::clone(&app));
            tasks.spawn(http::serve::serve(listener, None, router, shutdown.clone()));
            admin_addr
        } else {
            addr
        };
        let router = http::router(Arc::clone(&app));
        tasks.spawn(http::serve::serve(
            listener,
            acceptor,
            router,
            shutdown.clone(),
        ));
        let links = (endpoint.clone(), shutdown.clone());
        tasks.spawn(async move { driver.serve(links.0, links.1).await });
        tasks.spawn(keep_house(Arc::clone(&app), shutdown.clone()));

        let running = RunningRelay {
            version: 1,
            origin: app.origin.to_string(),
            admin: format!("http://{admin_addr}"),
            pid: std::process::id(),
        };
        admin::announce(&data_dir, &running)?;
        tracing::info!(origin = %app.origin, "the relay is up");
        Ok(Self {
            app,
            addr,
            endpoint,
            data_dir,
            shutdown,
            tasks,
            _lock: lock,
        })
    }

    /// The URL under which users reach it.
    pub fn origin(&self) -> String {
        self.app.origin.to_string()
    }

    /// Where it listens, in TCP and UDP.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it tells diallers to pin.
    pub fn info(&self) -> &RoostInfo {
        &self.app.roost
    }

    /// The link side: in-process links and who is online.
    pub fn driver(&self) -> &Driver {
        &self.app.driver
    }

    /// Puts a device of this very process into the operator's account, without a login.
    ///
    /// # Errors
    /// [`EnrolError`].
    pub async fn enroll_local(
        &self,
        device: DeviceKey,
        client: ClientKey,
        client_signature: Signature,
        device_name: &str,
    ) -> Result<AccountId, EnrolError> {
        let account = AccountId::local();
        let enrolment = Enrolment {
            device,
            client,
            client_signature,
            device_name: clean_name(device_name),
        };
        self.app.enrol(&account, &enrolment).await?;
        Ok(account)
    }

    /// A link that signs one browser in to the operator's account, once, within 5 minutes.
    pub fn sign_in_link(&self) -> String {
        self.app.sign_in_link(AccountId::local())
    }

    /// Stops in order, within [`SHUTDOWN_DEADLINE`]: links are told to go elsewhere,
    /// requests end, listeners close. The ports are free when this returns.
    pub async fn shutdown(mut self) {
        tracing::info!("the relay stops");
        self.app.start_draining();
        let in_order = async {
            self.app.driver.drain(DRAIN_GRACE).await;
            self.shutdown.cancel();
            while self.tasks.join_next().await.is_some() {}
        };
        if tokio::time::timeout(SHUTDOWN_DEADLINE, in_order)
            .await
            .is_err()
        {
            tracing::warn!("links or requests were cut off by the stop");
        }
        self.tasks.shutdown().await;
        self.endpoint.close(LinkCode::Draining).await;
        drop(self.endpoint);
        self.app.store.close().await;
        udp_port_free(self.addr).await;
        admin::withdraw(&self.data_dir);
    }
}

/// The certificate of links: the given one, or one of the relay's own making.
fn link_identity(config: &RelayConfig) -> Result<Identity, StartError> {
    let certificate = |path: &Path| {
        let path = path.to_owned();
        move |source| StartError::Certificate { path, source }
    };
    if let Some(tls) = &config.tls {
        let chain = read_pem(&tls.cert)?;
        let key = read_pem(&tls.key)?;
        return Identity::from_chain_and_key(&chain, &key).map_err(certificate(&tls.cert));
    }
    let path = config.data_dir.join("link.pem");
    if wt_files::read_capped(&path, MAX_PEM)?.is_none() {
        let host = config.origin_at(config.addr).host().to_owned();
        let name = host.trim_matches(['[', ']']).to_owned();
        let pem = Identity::generate(&[name]).map_err(certificate(&path))?;
        wt_files::write_whole(&path, pem.as_bytes())?;
    }
    Identity::from_pem(&read_pem(&path)?).map_err(certificate(&path))
}

fn read_pem(path: &Path) -> Result<String, StartError> {
    let bytes = wt_files::read_capped(path, MAX_PEM)?
        .ok_or_else(|| StartError::Missing(path.to_owned()))?;
    String::from_utf8(bytes).map_err(|_| StartError::Certificate {
        path: path.to_owned(),
        source: IdentityError::Certificate,
    })
}

/// The public half of the key that signs account grants.
fn grant_key(data_dir: &Path) -> Result<GrantKey, KeyError> {
    let path = data_dir.join("grant.key");
    let der = load_or_create(&path, || {
        Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .expect("an Ed25519 key can be made from random bytes")
            .as_ref()
            .to_vec()
    })?;
    let pair = Ed25519KeyPair::from_pkcs8(&der).map_err(|_| KeyError::Malformed {
        path,
        what: "the key that signs grants",
    })?;
    let public = pair.public_key().as_ref().try_into();
    Ok(GrantKey::from_bytes(
        public.expect("an Ed25519 key has 32 bytes"),
    ))
}

/// The secret that stands for the operator.
fn local_token(data_dir: &Path) -> Result<String, KeyError> {
    let path = data_dir.join(admin::TOKEN_FILE);
    let bytes = load_or_create(&path, || {
        let mut text = secret_text(random());
        text.push('\n');
        text.into_bytes()
    })?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let token = text.trim_end();
    // Shorter than what is made here is not a secret.
    if token.len() < 43 {
        return Err(KeyError::Malformed {
            path,
            what: "the operator's token",
        });
    }
    Ok(token.to_owned())
}

/// Binds one port number in both TCP and UDP.
async fn bind(
    wanted: SocketAddr,
    identity: &Identity,
) -> Result<(TcpListener, Endpoint, SocketAddr), StartError> {
    let mut tries = if wanted.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        let listener = bind_tcp(wanted).await?;
        let addr = listener
            .local_addr()
            .map_err(|e| bind_error(wanted, "TCP", e))?;
        match Endpoint::bind(addr, identity) {
            Ok(endpoint) => return Ok((listener, endpoint, addr)),
            Err(e) if tries > 0 && e.kind() == io::ErrorKind::AddrInUse => {}
            Err(e) => return Err(bind_error(addr, "UDP", e)),
        }
    }
}

/// Waits until the socket of the links' endpoint is gone, for [`PORT_RELEASE`] at most.
///
/// The endpoint's own task holds the socket and drops it some time after the last handle;
/// the only way to learn of it from outside is to ask for the port.
async fn udp_port_free(addr: SocketAddr) {
    let released = async {
        while std::net::UdpSocket::bind(addr).is_err() {
            tokio::time::sleep(PORT_RELEASE_POLL).await;
        }
    };
    if tokio::time::timeout(PORT_RELEASE, released).await.is_err() {
        tracing::warn!(%addr, "the UDP port is not free yet");
    }
}

async fn bind_tcp(addr: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(addr)
        .await
        .map_err(|e| bind_error(addr, "TCP", e))
}

fn bind_error(addr: SocketAddr, transport: &'static str, source: io::Error) -> StartError {
    let hint = match source.kind() {
        io::ErrorKind::AddrInUse => "stop what uses it, or choose another port with --addr",
        io::ErrorKind::PermissionDenied => "choose a port of 1024 or more with --addr",
        io::ErrorKind::AddrNotAvailable => "choose an address of this machine with --addr",
        _ => "choose another address with --addr",
    };
    StartError::Bind {
        addr,
        transport,
        source,
        hint,
    }
}

fn tls_acceptor(identity: &Identity) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need")
        .with_no_client_auth()
        .with_single_cert(identity.chain(), identity.key())
        .expect("the identity was checked when it was read");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn keep_house(app: Arc<App>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(HOUSEKEEPING) => app.forget_quiet_addresses(),
        }
    }
}

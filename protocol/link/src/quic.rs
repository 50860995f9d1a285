//! Links over QUIC: the relay's endpoint and identity, and the dialler.
//!
//! TLS 1.3 with ring alone, ALPN `wt/1`, no early data, no datagrams, no unidirectional
//! streams. A dialler trusts either one public key, by its hash, or the platform's
//! certificate authorities; there is no third way, so no path accepts any certificate.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ConnectionError, IdleTimeout, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};
use wt_protocol::LINK_ALPN;
use wt_protocol::codes::{LinkCode, StreamCode};
use wt_protocol::keys::Sha256Digest;
use wt_protocol::limits::HELLO_DEADLINE;
use wt_protocol::signed::{EXPORTER_LABEL, EXPORTER_LENGTH};

use crate::link::{Link, LinkEnd, StreamEnd};
use crate::{STREAM_WINDOW, stream_limit};

/// A link on which nothing was heard for this long is dead: two and a half keep-alives.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(40);

/// Longest time between two signs of life from the dialling side.
///
/// NAT bindings for UDP may be dropped after 30 s.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The longest time in which the link of a client at work says nothing. A person sits at
/// it: a relay that was replaced shows within this time, and the packets cost little
/// beside what a screen does.
pub const KEEP_ALIVE_AT_WORK: Duration = Duration::from_secs(4);

/// A link's keep-alive is shorter than [`KEEP_ALIVE`] by a random part of this, so that
/// links made at one moment do not all speak at one moment.
pub const KEEP_ALIVE_JITTER: Duration = Duration::from_secs(3);

/// Bytes that a connection may hold before the other end proved itself.
///
/// The control stream's largest messages fit several times.
pub const UNPROVEN_WINDOW: u32 = 64 * 1024;

/// Bytes sent and not yet acknowledged by the other end's transport, at most.
///
/// Bounds memory for each link and how long a keystroke queues behind bulk data.
pub const SEND_WINDOW: u64 = 1024 * 1024;

/// What is asked of the kernel for each UDP socket, in bytes, in each direction.
///
/// With the usual 208 KiB a busy endpoint loses thousands of packets per GiB; with this
/// none. The kernel gives less where `net.core.rmem_max` and `wmem_max` are smaller.
pub const SOCKET_BUFFER: usize = 4 * 1024 * 1024;

/// Connections that may wait to be accepted or refused.
const MAX_INCOMING: usize = 2_048;

/// Early packets kept for one connection that waits, in bytes.
const INCOMING_BUFFER: u64 = 64 * 1024;

/// Early packets kept for all of them, in bytes.
const INCOMING_BUFFER_TOTAL: u64 = 16 * 1024 * 1024;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

// --- The relay's side ---

/// A relay's certificate chain and key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    spki: Sha256Digest,
}

/// Why an identity cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The text holds no certificate, or one that does not parse.
    #[error("there is no readable certificate in the PEM text")]
    Certificate,
    /// The text holds no private key, or one that does not parse.
    #[error("there is no readable private key in the PEM text")]
    Key,
    /// The key and the certificate do not fit or cannot be used.
    #[error("the certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// A self-made certificate could not be made.
    #[error("a certificate could not be made: {0}")]
    Making(#[from] rcgen::Error),
}

impl Identity {
    /// Makes a certificate for these names with an ECDSA P-256 key of its own.
    ///
    /// Gives certificate and key as one PEM text: keep it secret and keep it, because
    /// diallers pin the key.
    ///
    /// # Errors
    /// A name is not one that a certificate can hold.
    pub fn generate(names: &[String]) -> Result<String, IdentityError> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let certificate = rcgen::CertificateParams::new(names.to_vec())?.self_signed(&key)?;
        Ok(certificate.pem() + &key.serialize_pem())
    }

    /// Reads a certificate chain and its key from one PEM text.
    ///
    /// # Errors
    /// Something is missing, does not parse or does not fit.
    pub fn from_pem(pem: &str) -> Result<Self, IdentityError> {
        Self::from_chain_and_key(pem, pem)
    }

    /// Reads a certificate chain (the relay's own certificate first) and its key.
    ///
    /// # Errors
    /// As [`Self::from_pem`].
    pub fn from_chain_and_key(chain_pem: &str, key_pem: &str) -> Result<Self, IdentityError> {
        let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| IdentityError::Certificate)?;
        let first = chain.first().ok_or(IdentityError::Certificate)?;
        let spki = spki_sha256(first)?;
        let key =
            PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|_| IdentityError::Key)?;
        // Finds out here, not at the first handshake, whether the key fits.
        rustls::sign::CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider())?;
        Ok(Self { chain, key, spki })
    }

    /// The hash of the public key, which diallers pin.
    pub fn spki_sha256(&self) -> Sha256Digest {
        self.spki
    }

    /// The certificate chain, to serve HTTPS under the same identity.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    /// The private key, to serve HTTPS under the same identity.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

/// The hash of a certificate's SubjectPublicKeyInfo: what a pin holds.
///
/// # Errors
/// The certificate does not parse.
pub fn spki_sha256(certificate: &CertificateDer<'_>) -> Result<Sha256Digest, IdentityError> {
    let parsed =
        ParsedCertificate::try_from(certificate).map_err(|_| IdentityError::Certificate)?;
    Ok(spki_of(&parsed))
}

fn spki_of(certificate: &ParsedCertificate<'_>) -> Sha256Digest {
    let digest = ring::digest::digest(
        &ring::digest::SHA256,
        certificate.subject_public_key_info().as_ref(),
    );
    let bytes = digest.as_ref().try_into();
    Sha256Digest::from_bytes(bytes.expect("SHA-256 gives 32 bytes"))
}

/// A relay's UDP socket. Clones are the same endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint(quinn::Endpoint);

impl Endpoint {
    /// Binds the socket. Call it in a tokio runtime.
    ///
    /// # Errors
    /// The address cannot be bound, or the identity cannot be used.
    pub fn bind(addr: SocketAddr, identity: &Identity) -> io::Result<Self> {
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|tls| {
                tls.with_no_client_auth()
                    .with_single_cert(identity.chain(), identity.key())
            })
            .map_err(io::Error::other)?;
        tls.alpn_protocols = vec![LINK_ALPN.to_vec()];
        let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config
            .transport_config(Arc::new(transport(1, None)))
            .max_incoming(MAX_INCOMING)
            .incoming_buffer_size(INCOMING_BUFFER)
            .incoming_buffer_size_total(INCOMING_BUFFER_TOTAL);
        endpoint(addr, lasting_config(identity), Some(config)).map(Self)
    }

    /// Where the socket is bound.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection attempt; none after [`Self::close`]. Cancel safe.
    pub async fn accept(&self) -> Option<Incoming> {
        self.0.accept().await.map(Incoming)
    }

    /// Accepts nothing more. Established links go on.
    pub fn stop_accepting(&self) {
        self.0.set_server_config(None);
    }

    /// Ends all links and waits until the other ends were told and the socket is free.
    pub async fn close(&self, code: LinkCode) {
        self.0.close(code.number().into(), b"");
        self.0.wait_idle().await;
    }
}

/// A connection attempt, before anything was spent on it.
#[derive(Debug)]
pub struct Incoming(quinn::Incoming);

impl Incoming {
    /// Whether the sender has shown that it receives at its address.
    pub fn is_address_validated(&self) -> bool {
        self.0.remote_address_validated()
    }

    /// Asks the sender to show that it receives at its address.
    pub fn retry(self) {
        // Validated senders were the one error; they may then be served.
        if let Err(error) = self.0.retry() {
            error.into_incoming().refuse();
        }
    }

    /// Refuses the attempt.
    pub fn refuse(self) {
        self.0.refuse();
    }

    /// Finishes the handshake, within the time that a link has to prove itself.
    ///
    /// # Errors
    /// It failed or took too long.
    pub async fn handshake(self) -> Result<Link, LinkEnd> {
        let connecting = self.0.accept().map_err(link_end)?;
        match tokio::time::timeout(HELLO_DEADLINE, connecting).await {
            Ok(connection) => Ok(QuicLink::wrap(connection.map_err(link_end)?)),
            Err(_) => Err(LinkEnd::TimedOut),
        }
    }
}

/// An endpoint's settings that outlive its process.
///
/// A relay that was killed knows nothing of its links. With keys that it still has after
/// a restart it answers their packets by a stateless reset (RFC 9000, section 10.3), so
/// diallers come back at once instead of after the idle time.
fn lasting_config(identity: &Identity) -> quinn::EndpointConfig {
    let derive = |purpose: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, identity.key.secret_der());
        hmac::sign(&key, purpose)
    };
    let reset = derive(b"wingthing reset key v1");
    let mut config =
        quinn::EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, reset.as_ref())));
    let ids = derive(b"wingthing connection id key v1");
    let ids = ids
        .as_ref()
        .first_chunk()
        .expect("HMAC-SHA256 has 32 bytes");
    let ids = u64::from_be_bytes(*ids);
    // Ids that only a holder of the key can make: stray packets get no answer.
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
    config
}

// --- The dialler's side ---

/// How a relay's identity is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Its public key has this hash, whatever its certificate says.
    Spki(Sha256Digest),
    /// Its certificate is valid for its name under the platform's authorities.
    WebPki,
}

/// Why a relay could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The certificate is not the one that was pinned, or no authority vouches for it.
    #[error("the relay at {addr} does not have the identity that it should have")]
    Identity {
        /// Where it was dialled.
        addr: SocketAddr,
    },
    /// It did not answer, or refused the connection.
    #[error("the relay at {addr} could not be reached: {end}")]
    Unreachable {
        /// Where it was dialled.
        addr: SocketAddr,
        /// How the attempt ended.
        end: LinkEnd,
    },
    /// This machine cannot dial: no socket, no certificate authorities, or no such name.
    #[error("this machine cannot dial the relay: {0}")]
    Local(#[source] io::Error),
}

/// Dials relays, from one UDP socket for each address family in a process.
#[derive(Debug)]
pub struct Dialer {
    /// The longest time in which its links say nothing.
    keep_alive: Duration,
    /// For IPv4 and for IPv6, made when first needed.
    endpoints: Mutex<[Option<quinn::Endpoint>; 2]>,
}

impl Default for Dialer {
    fn default() -> Self {
        Self::new()
    }
}

impl Dialer {
    /// Makes a dialler without any socket yet, with [`KEEP_ALIVE`] for its links.
    pub fn new() -> Self {
        Self::with_keep_alive(KEEP_ALIVE)
    }

    /// Makes a dialler whose links are silent for so long at most.
    pub fn with_keep_alive(keep_alive: Duration) -> Self {
        Self {
            keep_alive,
            endpoints: Mutex::default(),
        }
    }

    /// Connects to a relay. The attempt ends by itself when nothing answers for the idle
    /// time; callers that know better race it against a time of their own.
    ///
    /// # Errors
    /// [`ConnectError::Identity`] when somebody else answered; otherwise whoever could
    /// not do its part.
    pub async fn connect(
        &self,
        addr: SocketAddr,
        server_name: &str,
        trust: Trust,
    ) -> Result<Link, ConnectError> {
        let endpoint = self.endpoint(addr).map_err(ConnectError::Local)?;
        let refused = Arc::new(AtomicBool::new(false));
        let config = client_config(trust, Arc::clone(&refused), self.keep_alive)
            .map_err(|error| ConnectError::Local(io::Error::other(error)))?;
        let connecting = endpoint
            .connect_with(config, addr, server_name)
            .map_err(|error| ConnectError::Local(io::Error::other(error)))?;
        match connecting.await {
            Ok(connection) => Ok(QuicLink::wrap(connection)),
            Err(_) if refused.load(Ordering::Acquire) => Err(ConnectError::Identity { addr }),
            Err(error) => Err(ConnectError::Unreachable {
                addr,
                end: link_end(error),
            }),
        }
    }

    /// Waits until the other ends of closed links were told, so that the process may end.
    pub async fn wait_idle(&self) {
        let made: Vec<quinn::Endpoint> = {
            let endpoints = self
                .endpoints
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            endpoints.iter().flatten().cloned().collect()
        };
        for endpoint in made {
            endpoint.wait_idle().await;
        }
    }

    fn endpoint(&self, to: SocketAddr) -> io::Result<quinn::Endpoint> {
        let (family, any): (_, IpAddr) = match to {
            SocketAddr::V4(_) => (0, Ipv4Addr::UNSPECIFIED.into()),
            SocketAddr::V6(_) => (1, Ipv6Addr::UNSPECIFIED.into()),
        };
        let mut endpoints = self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &endpoints[family] {
            return Ok(made.clone());
        }
        let made = endpoint(
            SocketAddr::new(any, 0),
            quinn::EndpointConfig::default(),
            None,
        )?;
        Ok(endpoints[family].insert(made).clone())
    }
}

fn client_config(
    trust: Trust,
    refused: Arc<AtomicBool>,
    keep_alive: Duration,
) -> Result<quinn::ClientConfig, rustls::Error> {
    let inner: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Spki(spki) => Arc::new(SpkiVerifier {
            spki,
            provider: provider(),
        }),
        Trust::WebPki => Arc::new(rustls_platform_verifier::Verifier::new(provider())?),
    };
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Noting { inner, refused }))
        .with_no_client_auth();
    tls.alpn_protocols = vec![LINK_ALPN.to_vec()];
    // Every link shows the certificate again; a link lives for hours, so a resumed
    // handshake would save nothing that matters.
    tls.resumption = Resumption::disabled();
    let crypto = QuicClientConfig::try_from(tls)
        .map_err(|_| rustls::Error::General("no QUIC cipher suite".to_owned()))?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport(0, Some(jittered(keep_alive)))));
    Ok(config)
}

/// Accepts the one public key that was pinned, for any name and at any time.
#[derive(Debug)]
struct SpkiVerifier {
    spki: Sha256Digest,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for SpkiVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if spki_of(&certificate) == self.spki {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Notes a refusal, because the connection's error tells it apart from nothing else.
#[derive(Debug)]
struct Noting {
    inner: Arc<dyn ServerCertVerifier>,
    refused: Arc<AtomicBool>,
}

impl Noting {
    fn note<T>(&self, verdict: Result<T, rustls::Error>) -> Result<T, rustls::Error> {
        if verdict.is_err() {
            self.refused.store(true, Ordering::Release);
        }
        verdict
    }
}

impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.note(self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.note(
            self.inner
                .verify_tls12_signature(message, certificate, signature),
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.note(
            self.inner
                .verify_tls13_signature(message, certificate, signature),
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn jittered(keep_alive: Duration) -> Duration {
    let mut random = [0; 1];
    // Without randomness links merely speak at one moment; TLS reports the lack of it.
    let _ = SystemRandom::new().fill(&mut random);
    keep_alive - KEEP_ALIVE_JITTER * u32::from(random[0]) / u32::from(u8::MAX)
}

// --- What both sides share ---

fn transport(streams: u32, keep_alive: Option<Duration>) -> TransportConfig {
    let idle = IdleTimeout::try_from(IDLE_TIMEOUT).expect("40 s fits a QUIC integer");
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(streams.into())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(UNPROVEN_WINDOW.into())
        .send_window(SEND_WINDOW)
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(keep_alive)
        .datagram_receive_buffer_size(None);
    transport
}

fn endpoint(
    addr: SocketAddr,
    config: quinn::EndpointConfig,
    server: Option<quinn::ServerConfig>,
) -> io::Result<quinn::Endpoint> {
    let serves = server.is_some();
    quinn::Endpoint::new(
        config,
        server,
        udp_socket(addr, serves)?,
        Arc::new(quinn::TokioRuntime),
    )
}

fn udp_socket(addr: SocketAddr, serves: bool) -> io::Result<UdpSocket> {
    use socket2::{Domain, Protocol, Socket, Type};

    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        // `[::]` serves IPv4 as well, whatever the machine's default is; a dialler has a
        // socket for each family.
        socket.set_only_v6(!serves)?;
    }
    // The kernel may give less or refuse; the link then works at a lower peak rate.
    let asked = socket
        .set_recv_buffer_size(SOCKET_BUFFER)
        .and_then(|()| socket.set_send_buffer_size(SOCKET_BUFFER));
    let given = socket.recv_buffer_size()?;
    if serves && (asked.is_err() || given < SOCKET_BUFFER) {
        tracing::warn!(
            given,
            wanted = SOCKET_BUFFER,
            "the kernel gives the UDP socket a small buffer: raise net.core.rmem_max and \
             net.core.wmem_max, or packets are lost under load"
        );
    }
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

/// A QUIC connection as a link.
#[derive(Debug, Clone)]
pub(crate) struct QuicLink(quinn::Connection);

impl QuicLink {
    fn wrap(connection: quinn::Connection) -> Link {
        Link::from_quic(Self(connection))
    }

    pub(crate) async fn open(&self) -> Result<(quinn::SendStream, quinn::RecvStream), LinkEnd> {
        self.0.open_bi().await.map_err(link_end)
    }

    pub(crate) async fn accept(&self) -> Result<(quinn::SendStream, quinn::RecvStream), LinkEnd> {
        self.0.accept_bi().await.map_err(link_end)
    }

    pub(crate) fn close(&self, code: LinkCode) {
        // The transport would forget what the other end said in favour of this.
        if self.0.close_reason().is_some() {
            return;
        }
        self.0.close(code.number().into(), b"");
    }

    pub(crate) async fn closed(&self) -> LinkEnd {
        link_end(self.0.closed().await)
    }

    pub(crate) fn exporter(&self) -> Option<[u8; EXPORTER_LENGTH]> {
        let mut value = [0; EXPORTER_LENGTH];
        self.0
            .export_keying_material(&mut value, EXPORTER_LABEL, b"")
            .expect("TLS 1.3 exports 32 bytes");
        Some(value)
    }

    pub(crate) fn remote_addr(&self) -> SocketAddr {
        self.0.remote_address()
    }

    pub(crate) fn raise_limits(&self, routes: u16) {
        let window = 2 * u32::from(routes.max(1)) * STREAM_WINDOW;
        self.0.set_receive_window(window.into());
        self.0
            .set_max_concurrent_bi_streams(stream_limit(routes).into());
    }
}

fn link_end(error: ConnectionError) -> LinkEnd {
    match error {
        ConnectionError::ApplicationClosed(close) => match code(close.error_code) {
            // What the transport says when the last handle was dropped.
            0 => LinkEnd::Lost,
            number => LinkEnd::ByPeer(LinkCode::from_number(number)),
        },
        ConnectionError::LocallyClosed => LinkEnd::Here,
        ConnectionError::TimedOut => LinkEnd::TimedOut,
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::CidsExhausted => LinkEnd::Lost,
    }
}

pub(crate) fn read_end(error: quinn::ReadError) -> StreamEnd {
    use quinn::ReadError;
    match error {
        ReadError::Reset(number) => StreamEnd::Reset(stream_code(number)),
        ReadError::ClosedStream => StreamEnd::Reset(StreamCode::Cancelled),
        ReadError::ConnectionLost(_)
        | ReadError::IllegalOrderedRead
        | ReadError::ZeroRttRejected => StreamEnd::LinkLost,
    }
}

pub(crate) fn write_end(error: quinn::WriteError) -> StreamEnd {
    use quinn::WriteError;
    match error {
        WriteError::Stopped(number) => StreamEnd::Reset(stream_code(number)),
        WriteError::ClosedStream => StreamEnd::Reset(StreamCode::Cancelled),
        WriteError::ConnectionLost(_) | WriteError::ZeroRttRejected => StreamEnd::LinkLost,
    }
}

pub(crate) fn stopped_end(
    stopped: Result<Option<VarInt>, quinn::StoppedError>,
) -> Result<(), StreamEnd> {
    match stopped {
        Ok(None) => Ok(()),
        Ok(Some(number)) => Err(StreamEnd::Reset(stream_code(number))),
        Err(_) => Err(StreamEnd::LinkLost),
    }
}

fn stream_code(number: VarInt) -> StreamCode {
    StreamCode::from_number(code(number))
}

/// Our codes are small; a number that does not fit is one that nobody knows.
fn code(number: VarInt) -> u32 {
    u32::try_from(number.into_inner()).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity::from_pem(&Identity::generate(&["localhost".to_owned()]).unwrap()).unwrap()
    }

    fn bind(identity: &Identity) -> Endpoint {
        Endpoint::bind((Ipv4Addr::LOCALHOST, 0).into(), identity).unwrap()
    }

    async fn serve_one(endpoint: Endpoint) -> Result<Link, LinkEnd> {
        endpoint.accept().await.unwrap().handshake().await
    }

    #[tokio::test]
    async fn the_pinned_key_is_accepted_and_any_other_is_refused_as_an_identity() {
        let identity = identity();
        let endpoint = bind(&identity);
        let addr = endpoint.local_addr().unwrap();
        let dialer = Dialer::new();
        let other = Sha256Digest::from_bytes([7; 32]);

        let served = tokio::spawn(serve_one(endpoint.clone()));
        let refused = dialer.connect(addr, "localhost", Trust::Spki(other)).await;
        assert!(matches!(refused, Err(ConnectError::Identity { .. })));
        assert!(served.await.unwrap().is_err());

        let served = tokio::spawn(serve_one(endpoint));
        let trust = Trust::Spki(identity.spki_sha256());
        let link = dialer.connect(addr, "localhost", trust).await.unwrap();
        let relay_end = served.await.unwrap().unwrap();
        assert_eq!(link.exporter(), relay_end.exporter());
        assert!(link.exporter().is_some());
    }

    #[tokio::test]
    async fn a_self_made_certificate_is_refused_where_authorities_must_vouch() {
        let endpoint = bind(&identity());
        let addr = endpoint.local_addr().unwrap();
        let served = tokio::spawn(serve_one(endpoint));

        let refused = Dialer::new()
            .connect(addr, "localhost", Trust::WebPki)
            .await;

        // A machine without any certificate authority cannot even ask.
        assert!(matches!(
            refused,
            Err(ConnectError::Identity { .. } | ConnectError::Local(_))
        ));
        served.abort();
    }

    #[test]
    fn a_key_of_another_certificate_is_refused_when_it_is_read() {
        let one = Identity::generate(&["a".to_owned()]).unwrap();
        let two = Identity::generate(&["a".to_owned()]).unwrap();

        assert!(Identity::from_chain_and_key(&one, &one).is_ok());
        assert!(matches!(
            Identity::from_chain_and_key(&one, &two),
            Err(IdentityError::Unusable(_))
        ));
    }

    #[test]
    fn an_identity_read_again_has_the_same_pin() {
        let pem = Identity::generate(&["localhost".to_owned()]).unwrap();

        let (one, two) = (
            Identity::from_pem(&pem).unwrap(),
            Identity::from_pem(&pem).unwrap(),
        );

        assert_eq!(one.spki_sha256(), two.spki_sha256());
        assert_ne!(one.spki_sha256(), identity().spki_sha256());
    }

    #[test]
    fn keep_alives_stay_well_inside_the_idle_time() {
        for _ in 0..100 {
            let interval = jittered(KEEP_ALIVE);
            assert!(interval <= KEEP_ALIVE && interval >= KEEP_ALIVE - KEEP_ALIVE_JITTER);
        }
        assert!(IDLE_TIMEOUT > 2 * KEEP_ALIVE);
    }
}

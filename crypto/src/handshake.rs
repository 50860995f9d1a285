//! The handshake: Noise IK, from the client to a wing whose key it knows.
//!
//! Message 1 carries nothing that acts, so that a replayed one does nothing: the wing
//! answers every well-formed one with a message 2 of one size, and only the first
//! record after it proves that the client is there. Message 2 carries the version
//! that the wing chose from the client's offer.
//!
//! Both ends hash a prologue of what they believe about the route. A relay that routes
//! elsewhere, uses a handshake twice or narrows the offer makes the handshake fail.

use core::time::Duration;

use snow::params::NoiseParams;
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};
use snow::{Builder, HandshakeState};
use wt_protocol::keys::ClientKey;
use wt_protocol::signed::Layout;
use wt_protocol::{Close, RouteHeader, VersionRange, WingId};

use crate::keys::{ClientSecret, KeyError, NoiseSecret, VerifiedWing, check_x25519};
use crate::session::Session;

/// The Noise protocol name.
pub const SUITE: &str = "Noise_IK_25519_AESGCM_SHA256";

/// What the prologue starts with.
const PROLOGUE: &[u8] = b"wingthing/1";

/// Bytes of an X25519 key.
const KEY: usize = 32;

/// Bytes of an AES-GCM tag.
const TAG: usize = 16;

/// Bytes of message 1: an ephemeral key, the sealed client key, an empty sealed payload.
pub const MESSAGE_1_SIZE: usize = KEY + (KEY + TAG) + TAG;

/// Bytes of message 2: an ephemeral key and the sealed answer.
pub const MESSAGE_2_SIZE: usize = KEY + ANSWER + TAG;

/// Bytes of the answer in message 2. Three are used; the rest must be zero.
const ANSWER: usize = 16;

/// First byte of an answer that names the chosen version.
const CHOSEN: u8 = 1;

/// First byte of an answer that names the newest version spoken, since none is common.
const NO_COMMON_VERSION: u8 = 2;

/// Why a handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The message was not made for this key and this route, or was changed on its way.
    #[error("a handshake message does not open")]
    DoesNotOpen,
    /// The header asks for another wing.
    #[error("a route is meant for another wing")]
    OtherWing,
    /// The other end used a key that proves nothing.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The message opened, but does not hold what it must.
    #[error("a handshake message does not parse")]
    Malformed,
    /// The wing speaks none of the offered versions.
    #[error("the wing speaks version {newest} at the newest, which this program does not")]
    Version {
        /// The newest version that the wing speaks.
        newest: u16,
    },
}

/// The ephemeral key in a message 1: what a wing remembers to notice a replay.
pub fn ephemeral_of(message_1: &[u8]) -> Option<[u8; 32]> {
    message_1.first_chunk().copied()
}

/// A client between message 1 and message 2.
pub struct Initiator {
    state: HandshakeState,
    offered: VersionRange,
}

impl Initiator {
    /// Starts a handshake. Returns message 1, which goes out after the header.
    ///
    /// # Panics
    /// When the header names another wing: it is made by the same caller.
    pub fn start(
        client: &ClientSecret,
        wing: &VerifiedWing,
        header: &RouteHeader,
    ) -> (Self, Vec<u8>) {
        Self::start_with(client, wing, header, Ephemeral::Fresh)
    }

    pub(crate) fn start_with(
        client: &ClientSecret,
        wing: &VerifiedWing,
        header: &RouteHeader,
        ephemeral: Ephemeral,
    ) -> (Self, Vec<u8>) {
        assert_eq!(&header.wing, wing.wing_id(), "the header is for this wing");
        let prologue = prologue(wing.wing_id(), header);
        let noise_key = wing.noise_key();
        let mut state = ephemeral
            .apply(builder(client.expose(), &prologue))
            .remote_public_key(noise_key.as_bytes())
            .and_then(Builder::build_initiator)
            .expect("the suite, the keys and their sizes are fixed");
        let mut message_1 = vec![0; MESSAGE_1_SIZE];
        let written = state
            .write_message(&[], &mut message_1)
            .expect("message 1 has room and its turn");
        debug_assert_eq!(written, MESSAGE_1_SIZE);
        let offered = header.versions;
        (Self { state, offered }, message_1)
    }

    /// Reads message 2.
    ///
    /// # Errors
    /// Any but [`HandshakeError::Version`] means that whoever answered did not prove to
    /// be the wing. A failed handshake is never retried in a weaker way.
    pub fn finish(mut self, message_2: &[u8]) -> Result<Session, HandshakeError> {
        check_ephemeral(message_2, MESSAGE_2_SIZE)?;
        // snow wants room for the payload and its tag.
        let mut answer = [0; ANSWER + TAG];
        self.state
            .read_message(message_2, &mut answer)
            .map_err(|_| HandshakeError::DoesNotOpen)?;
        let [kind, high, low, rest @ ..] = answer
            .first_chunk::<ANSWER>()
            .expect("the array is longer than an answer");
        let version = u16::from_be_bytes([*high, *low]);
        if rest.iter().any(|&byte| byte != 0) {
            return Err(HandshakeError::Malformed);
        }
        match *kind {
            CHOSEN if (self.offered.min..=self.offered.max).contains(&version) => {
                Ok(Session::new(self.state, version, None))
            }
            NO_COMMON_VERSION => Err(HandshakeError::Version { newest: version }),
            _ => Err(HandshakeError::Malformed),
        }
    }
}

/// What a wing makes of a message 1.
pub enum Answer {
    /// A session with a client that has not proved to be there yet: nothing may be
    /// replaced, logged or acted on before its first record opens.
    Session(Session),
    /// No version is common. The client learns so from message 2.
    Incompatible(Incompatible),
}

/// The wing's side of a handshake without a common version: it can only be closed.
pub struct Incompatible {
    session: Session,
    newest: u16,
}

impl Incompatible {
    /// Appends the one record that this session can send.
    pub fn close(self, out: &mut Vec<u8>) {
        let (sealer, _opener) = self.session.split(Duration::ZERO);
        sealer
            .seal_close(Close::Version(self.newest), out)
            .expect("nothing has ended a session this young");
    }
}

/// The wing's side: one step, so it holds nothing between messages.
pub enum Responder {}

impl Responder {
    /// Reads message 1 and makes message 2.
    ///
    /// Works the same for every client key: whom to admit is decided later, so that the
    /// answer says nothing about any list.
    ///
    /// # Errors
    /// The message is not a well-formed one for this wing and this route. The caller
    /// gives no answer.
    pub fn read(
        noise: &NoiseSecret,
        wing: &WingId,
        header: &RouteHeader,
        message_1: &[u8],
    ) -> Result<(Answer, Vec<u8>), HandshakeError> {
        let spoken = VersionRange::CURRENT;
        Self::read_with(noise, wing, header, message_1, spoken, Ephemeral::Fresh)
    }

    pub(crate) fn read_with(
        noise: &NoiseSecret,
        wing: &WingId,
        header: &RouteHeader,
        message_1: &[u8],
        spoken: VersionRange,
        ephemeral: Ephemeral,
    ) -> Result<(Answer, Vec<u8>), HandshakeError> {
        if header.wing != *wing {
            return Err(HandshakeError::OtherWing);
        }
        check_ephemeral(message_1, MESSAGE_1_SIZE)?;
        let prologue = prologue(wing, header);
        let mut state = ephemeral
            .apply(builder(noise.expose(), &prologue))
            .build_responder()
            .expect("the suite, the key and its size are fixed");
        // The size of message 1 leaves no room for a payload.
        state
            .read_message(message_1, &mut [0; TAG])
            .map_err(|_| HandshakeError::DoesNotOpen)?;
        let client = client_key(&state)?;

        let chosen = spoken.best_common(header.versions);
        let mut answer = [0; ANSWER];
        answer[0] = chosen.map_or(NO_COMMON_VERSION, |_| CHOSEN);
        answer[1..3].copy_from_slice(&chosen.unwrap_or(spoken.max).to_be_bytes());
        let mut message_2 = vec![0; MESSAGE_2_SIZE];
        let written = state
            .write_message(&answer, &mut message_2)
            .expect("message 2 has room and its turn");
        debug_assert_eq!(written, MESSAGE_2_SIZE);

        let answer = match chosen {
            Some(version) => Answer::Session(Session::new(state, version, Some(client))),
            None => Answer::Incompatible(Incompatible {
                session: Session::new(state, spoken.max, Some(client)),
                newest: spoken.max,
            }),
        };
        Ok((answer, message_2))
    }
}

/// Checks a message's size and the ephemeral key at its front, which is not sealed.
fn check_ephemeral(message: &[u8], size: usize) -> Result<(), HandshakeError> {
    match message.first_chunk() {
        Some(key) if message.len() == size => Ok(check_x25519(key)?),
        _ => Err(HandshakeError::DoesNotOpen),
    }
}

fn client_key(state: &HandshakeState) -> Result<ClientKey, HandshakeError> {
    let bytes = state
        .get_remote_static()
        .and_then(|key| <[u8; KEY]>::try_from(key).ok())
        .expect("message 1 of IK carries the client's key");
    check_x25519(&bytes)?;
    Ok(ClientKey::from_bytes(bytes))
}

/// What both ends believe about the route, each field with its length in front.
pub(crate) fn prologue(wing: &WingId, header: &RouteHeader) -> Vec<u8> {
    let VersionRange { min, max } = header.versions;
    let mut versions = [0; 4];
    versions[..2].copy_from_slice(&min.to_be_bytes());
    versions[2..].copy_from_slice(&max.to_be_bytes());
    Layout::new(&[])
        .field(PROLOGUE)
        .field(SUITE.as_bytes())
        .field(wing.as_str().as_bytes())
        .field(header.nonce.as_bytes())
        .field(&versions)
        .finish()
}

/// Where an end's ephemeral key comes from.
pub(crate) enum Ephemeral {
    /// Drawn for this handshake.
    Fresh,
    /// The same each time, for vectors.
    #[cfg(test)]
    Fixed(&'static [u8; 32]),
}

impl Ephemeral {
    fn apply<'a>(&self, builder: Builder<'a>) -> Builder<'a> {
        match self {
            Ephemeral::Fresh => builder,
            #[cfg(test)]
            Ephemeral::Fixed(key) => builder.fixed_ephemeral_key_for_testing_only(*key),
        }
    }
}

fn builder<'a>(secret: &'a [u8; 32], prologue: &'a [u8]) -> Builder<'a> {
    Builder::with_resolver(params(), resolver())
        .local_private_key(secret)
        .and_then(|builder| builder.prologue(prologue))
        .expect("each is set once")
}

fn params() -> NoiseParams {
    SUITE.parse().expect("the suite is one that snow knows")
}

/// ring's cipher and hash, and the default's X25519, which ring's resolver lacks.
///
/// ring seals 16 KiB records 5.8 times faster than snow's default resolver.
fn resolver() -> Box<dyn CryptoResolver + Send> {
    Box::new(FallbackResolver::new(
        Box::new(RingResolver),
        Box::new(DefaultResolver),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_protocol::RouteNonce;

    use super::*;
    use crate::keys::{WingIdentity, verify_statement};

    #[test]
    fn both_ends_get_one_session_and_the_wing_learns_the_client_key() {
        let ends = Ends::new();

        let (initiator, message_1) = ends.start();
        let (answer, message_2) = ends.read(&message_1).unwrap();
        let client = initiator.finish(&message_2).unwrap();
        let wing = session(answer);

        assert_eq!(message_1.len(), MESSAGE_1_SIZE);
        assert_eq!(message_2.len(), MESSAGE_2_SIZE);
        assert_eq!(client.handshake_hash(), wing.handshake_hash());
        assert_eq!((client.version(), wing.version()), (1, 1));
        assert_eq!(wing.client_key(), Some(ends.client.public()));
        assert_eq!(client.client_key(), None);
    }

    #[test]
    fn a_changed_byte_anywhere_in_message_1_gets_no_answer() {
        let ends = Ends::new();
        let (_, message_1) = ends.start();

        for at in 0..message_1.len() {
            for flip in [0x01, 0x80] {
                let mut changed = message_1.clone();
                changed[at] ^= flip;
                assert!(ends.read(&changed).is_err(), "byte {at} does not matter");
            }
        }
        assert!(ends.read(&message_1).is_ok());
    }

    #[test]
    fn a_changed_byte_anywhere_in_message_2_ends_the_handshake() {
        let ends = Ends::new();

        for at in 0..MESSAGE_2_SIZE {
            let (initiator, message_1) = ends.start();
            let (_, mut message_2) = ends.read(&message_1).unwrap();
            message_2[at] ^= 1;
            assert!(
                initiator.finish(&message_2).is_err(),
                "byte {at} does not matter"
            );
        }
    }

    #[test]
    fn messages_that_are_cut_or_longer_are_refused() {
        let ends = Ends::new();
        let (_, message_1) = ends.start();

        for size in 0..MESSAGE_1_SIZE {
            assert!(ends.read(&message_1[..size]).is_err());
        }
        let longer = [&message_1[..], &[0]].concat();
        assert_eq!(ends.read(&longer).err(), Some(HandshakeError::DoesNotOpen));
        for size in 0..MESSAGE_2_SIZE {
            let (initiator, message_1) = ends.start();
            let (_, message_2) = ends.read(&message_1).unwrap();
            assert!(initiator.finish(&message_2[..size]).is_err());
        }
    }

    #[test]
    fn a_message_1_with_a_payload_is_refused() {
        let ends = Ends::new();
        let prologue = prologue(&ends.header.wing, &ends.header);
        let key = ends.verified.noise_key();
        let mut state = builder(ends.client.expose(), &prologue)
            .remote_public_key(key.as_bytes())
            .unwrap()
            .build_initiator()
            .unwrap();
        let mut message_1 = vec![0; 200];
        let size = state.write_message(b"act", &mut message_1).unwrap();

        let answer = ends.read(&message_1[..size]);

        assert_eq!(answer.err(), Some(HandshakeError::DoesNotOpen));
    }

    #[test]
    fn each_field_of_the_prologue_is_bound() {
        let ends = Ends::new();
        let (_, message_1) = ends.start();
        let read = |header: &RouteHeader| {
            Responder::read(ends.wing.noise(), &header.wing, header, &message_1).err()
        };
        let header = || ends.header.clone();

        assert_eq!(read(&header()), None);
        let other_wing = RouteHeader {
            wing: WingIdentity::generate().wing_id(),
            ..header()
        };
        assert_eq!(read(&other_wing), Some(HandshakeError::DoesNotOpen));
        let other_nonce = RouteHeader {
            nonce: RouteNonce::from_bytes([9; 16]),
            ..header()
        };
        assert_eq!(read(&other_nonce), Some(HandshakeError::DoesNotOpen));
        for versions in [
            VersionRange { min: 0, max: 1 },
            VersionRange { min: 1, max: 2 },
        ] {
            let narrowed = RouteHeader {
                versions,
                ..header()
            };
            assert_eq!(read(&narrowed), Some(HandshakeError::DoesNotOpen));
        }
    }

    #[test]
    fn a_wing_does_not_answer_for_another_id() {
        let ends = Ends::new();
        let (_, message_1) = ends.start();
        let other = WingIdentity::generate().wing_id();

        let answer = Responder::read(ends.wing.noise(), &other, &ends.header, &message_1);

        assert_eq!(answer.err(), Some(HandshakeError::OtherWing));
    }

    #[test]
    fn another_key_than_the_certified_one_cannot_answer() {
        let ends = Ends::new();
        let impostor = NoiseSecret::generate();
        let (_, message_1) = ends.start();

        let answer = Responder::read(&impostor, &ends.header.wing, &ends.header, &message_1);

        assert_eq!(answer.err(), Some(HandshakeError::DoesNotOpen));
    }

    #[test]
    fn a_message_2_of_another_handshake_is_refused() {
        let ends = Ends::new();
        let (initiator, message_1) = ends.start();
        let (_, other_message_1) = ends.start();
        let (_, other_message_2) = ends.read(&other_message_1).unwrap();
        let (_, message_2) = ends.read(&message_1).unwrap();

        let finished = initiator.finish(&other_message_2);

        assert_eq!(finished.err(), Some(HandshakeError::DoesNotOpen));
        let (initiator, message_1) = ends.start();
        assert_ne!(message_1, other_message_1);
        assert!(initiator.finish(&message_2).is_err());
    }

    #[test]
    fn ephemeral_keys_of_low_order_are_refused_on_both_sides() {
        let ends = Ends::new();
        let (initiator, mut message_1) = ends.start();
        let (_, mut message_2) = ends.read(&message_1).unwrap();
        message_1[..32].fill(0);
        message_2[..32].fill(0);

        let low_order = Some(HandshakeError::Key(KeyError::LowOrder));
        assert_eq!(ends.read(&message_1).err(), low_order);
        assert_eq!(initiator.finish(&message_2).err(), low_order);
    }

    #[test]
    fn a_client_key_of_low_order_is_refused_though_its_message_1_opens() {
        // With a low-order static key the last agreement is zero, so anybody can make
        // this message 1 with the wing's public key alone. snow lets it through.
        let ends = Ends::new();
        let (header, key) = (&ends.header, ends.verified.noise_key());

        let message_1 = crate::vectors::message_1_with_static(
            &[5; 32],
            &[0; 32],
            key.as_bytes(),
            &prologue(&header.wing, header),
        );

        let low_order = Some(HandshakeError::Key(KeyError::LowOrder));
        assert_eq!(ends.read(&message_1).err(), low_order);
        let honest = crate::vectors::message_1_with_static(
            &[5; 32],
            ends.client.public().as_bytes(),
            key.as_bytes(),
            &prologue(&header.wing, header),
        );
        assert_eq!(ends.read(&honest).err(), Some(HandshakeError::DoesNotOpen));
    }

    #[test]
    fn without_a_common_version_the_client_learns_the_newest_one() {
        let ends = Ends::new();
        let (initiator, message_1) = ends.start();
        let spoken = VersionRange { min: 3, max: 7 };

        let (answer, message_2) = ends.read_speaking(spoken, &message_1).unwrap();

        assert_eq!(message_2.len(), MESSAGE_2_SIZE);
        assert_eq!(
            initiator.finish(&message_2).err(),
            Some(HandshakeError::Version { newest: 7 })
        );
        let Answer::Incompatible(incompatible) = answer else {
            panic!("no version is common")
        };
        let mut out = Vec::new();
        incompatible.close(&mut out);
        assert_eq!(out.len(), 2 + 64 + TAG);
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        let mut ends = Ends::new();
        ends.header.versions = VersionRange { min: 1, max: 5 };
        let (initiator, message_1) = ends.start();

        let spoken = VersionRange { min: 2, max: 3 };
        let (answer, message_2) = ends.read_speaking(spoken, &message_1).unwrap();

        assert_eq!(session(answer).version(), 3);
        assert_eq!(initiator.finish(&message_2).unwrap().version(), 3);
    }

    #[test]
    fn the_cipher_in_use_is_the_one_of_ring() {
        // A boxed cipher does not say where it comes from, but its size does: the one
        // of ring holds the key's schedule, the default one the key alone.
        let size = |resolver: &dyn CryptoResolver| {
            size_of_val(&*resolver.resolve_cipher(&params().cipher).unwrap())
        };

        let (ring, default) = (size(&RingResolver), size(&DefaultResolver));

        assert_ne!(ring, default);
        assert_eq!(size(&*resolver()), ring);
        assert!(resolver().resolve_dh(&params().dh).is_some());
    }

    #[test]
    fn an_ephemeral_is_read_from_message_1_for_the_replay_cache() {
        let ends = Ends::new();
        let ((_, first), (_, second)) = (ends.start(), ends.start());

        assert_eq!(ephemeral_of(&first).unwrap(), first[..32]);
        assert_ne!(ephemeral_of(&first), ephemeral_of(&second));
        assert_eq!(ephemeral_of(&first[..31]), None);
    }

    struct Ends {
        wing: WingIdentity,
        verified: VerifiedWing,
        client: ClientSecret,
        header: RouteHeader,
    }

    impl Ends {
        fn new() -> Self {
            let wing = WingIdentity::generate();
            let id = wing.wing_id();
            let identity = wing.identity().public();
            Self {
                verified: verify_statement(&id, &identity, &wing.statement()).unwrap(),
                wing,
                client: ClientSecret::generate(),
                header: RouteHeader {
                    wing: id,
                    nonce: RouteNonce::from_bytes([1; 16]),
                    versions: VersionRange { min: 1, max: 1 },
                },
            }
        }

        fn start(&self) -> (Initiator, Vec<u8>) {
            Initiator::start(&self.client, &self.verified, &self.header)
        }

        fn read(&self, message_1: &[u8]) -> Result<(Answer, Vec<u8>), HandshakeError> {
            Responder::read(
                self.wing.noise(),
                &self.header.wing,
                &self.header,
                message_1,
            )
        }

        fn read_speaking(
            &self,
            spoken: VersionRange,
            message_1: &[u8],
        ) -> Result<(Answer, Vec<u8>), HandshakeError> {
            let (noise, header) = (self.wing.noise(), &self.header);
            let fresh = Ephemeral::Fresh;
            Responder::read_with(noise, &header.wing, header, message_1, spoken, fresh)
        }
    }

    fn session(answer: Answer) -> Session {
        match answer {
            Answer::Session(session) => session,
            Answer::Incompatible(_) => panic!("a version is common"),
        }
    }
}

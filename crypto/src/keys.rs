//! Secret keys, what they sign, and the checks on keys that come from outside.
//!
//! Each key has one job and one type, so that none can stand in for another. Secret
//! types have no `Debug` and no `Clone`, and wipe their bytes when they are dropped.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use subtle::ConstantTimeEq as _;
use wt_protocol::WingId;
use wt_protocol::control::{NoiseKeyStatement, RevocationStatement, SuccessorStatement};
use wt_protocol::keys::{ClientKey, DeviceKey, IdentityKey, NoiseKey, Signature};
use wt_protocol::signed::{self, RelayProof};
use x25519_dalek::X25519_BASEPOINT_BYTES;
use zeroize::Zeroizing;

/// Draws bytes from the system's generator.
///
/// # Panics
/// When the system has no randomness to give: nothing here may go on without.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// Compares in constant time what an outsider might guess byte by byte.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Defines a secret key type over 32 bytes.
macro_rules! secret_key {
    ($(#[$doc:meta])* $name:ident, $public:ident, $derive:path) => {
        $(#[$doc])*
        pub struct $name {
            bytes: Zeroizing<[u8; 32]>,
            public: $public,
        }

        impl $name {
            /// Makes a new key.
            pub fn generate() -> Self {
                Self::from_bytes(&Zeroizing::new(random()))
            }

            /// Reads a key from its file's bytes. Any 32 bytes are a key.
            pub fn from_bytes(bytes: &[u8; 32]) -> Self {
                Self {
                    bytes: Zeroizing::new(*bytes),
                    public: $public::from_bytes($derive(bytes)),
                }
            }

            /// The bytes for a key file.
            pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
                self.bytes.clone()
            }

            /// The public half.
            pub fn public(&self) -> $public {
                self.public
            }
        }
    };
}

secret_key!(
    /// A wing's identity: signs its noise key statement and its proofs to relays.
    IdentitySecret, IdentityKey, ed25519_public
);
secret_key!(
    /// A device's identity: proves it to relays, and vouches for its client key.
    DeviceSecret, DeviceKey, ed25519_public
);
secret_key!(
    /// Answers handshakes as a wing.
    NoiseSecret, NoiseKey, x25519_public
);
secret_key!(
    /// Starts handshakes as a client: what a wing admits.
    ClientSecret, ClientKey, x25519_public
);

fn ed25519_pair(seed: &[u8; 32]) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are an Ed25519 seed")
}

fn ed25519_public(seed: &[u8; 32]) -> [u8; 32] {
    ed25519_pair(seed)
        .public_key()
        .as_ref()
        .try_into()
        .expect("an Ed25519 public key has 32 bytes")
}

fn ed25519_sign(seed: &[u8; 32], message: &[u8]) -> Signature {
    // The pair is made for each signature and not kept: ring does not wipe it.
    let signature = ed25519_pair(seed).sign(message);
    Signature::from_bytes(
        signature
            .as_ref()
            .try_into()
            .expect("an Ed25519 signature has 64 bytes"),
    )
}

fn x25519_public(secret: &[u8; 32]) -> [u8; 32] {
    x25519_dalek::x25519(*secret, X25519_BASEPOINT_BYTES)
}

impl IdentitySecret {
    /// Signs bytes that one of the layouts of [`wt_protocol::signed`] made.
    pub fn sign(&self, message: &[u8]) -> Signature {
        ed25519_sign(&self.bytes, message)
    }

    /// Proves this wing to a relay.
    pub fn prove(&self, proof: &RelayProof<'_>) -> Signature {
        self.sign(&signed::relay_proof(proof))
    }
}

impl DeviceSecret {
    /// Signs bytes that one of the layouts of [`wt_protocol::signed`] made.
    pub fn sign(&self, message: &[u8]) -> Signature {
        ed25519_sign(&self.bytes, message)
    }

    /// Proves this device to a relay.
    pub fn prove(&self, proof: &RelayProof<'_>) -> Signature {
        self.sign(&signed::relay_proof(proof))
    }

    /// Says at login that this client key is this device's.
    pub fn vouch_for(&self, client: &ClientKey) -> Signature {
        self.sign(&signed::client_key(&self.public, client))
    }
}

impl NoiseSecret {
    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.bytes
    }
}

impl ClientSecret {
    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.bytes
    }
}

/// A signature is not by this key over these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signature is not valid")]
pub struct BadSignature;

/// Checks an Ed25519 signature.
///
/// # Errors
/// [`BadSignature`], for whatever reason.
pub fn verify(key: &[u8; 32], message: &[u8], signature: &Signature) -> Result<(), BadSignature> {
    UnparsedPublicKey::new(&ED25519, key)
        .verify(message, signature.as_bytes())
        .map_err(|_| BadSignature)
}

/// Checks a device's word on its client key.
///
/// # Errors
/// [`BadSignature`] when the device did not sign this client key.
pub fn verify_client_key(
    device: &DeviceKey,
    client: &ClientKey,
    signature: &Signature,
) -> Result<(), BadSignature> {
    verify(
        device.as_bytes(),
        &signed::client_key(device, client),
        signature,
    )
}

/// Why an X25519 public key from outside is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Another encoding names the same point, so comparing bytes would not compare keys.
    #[error("an X25519 key is not in canonical form")]
    NotCanonical,
    /// Every agreement with it gives the same known value.
    #[error("an X25519 key is of low order")]
    LowOrder,
}

/// 2^255 - 19, the field's prime, in little-endian order.
const FIELD_PRIME: [u8; 32] = {
    let mut prime = [0xff; 32];
    prime[0] = 0xed;
    prime[31] = 0x7f;
    prime
};

/// The canonical encodings of all points of low order on the curve and its twist:
/// 0, 1, the two of order 8, and -1 (RFC 7748 section 6.1 speaks of them).
const LOW_ORDER: [[u8; 32]; 5] = [
    [0; 32],
    {
        let mut one = [0; 32];
        one[0] = 1;
        one
    },
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    {
        let mut minus_one = FIELD_PRIME;
        minus_one[0] = 0xec;
        minus_one
    },
];

/// Checks an X25519 public key that came from outside.
///
/// With these excluded an agreement never gives all zeros, which snow does not check.
///
/// # Errors
/// A key that is not canonical or of low order.
pub fn check_x25519(key: &[u8; 32]) -> Result<(), KeyError> {
    // Compared from the most significant byte, which stands last.
    if key.iter().rev().ge(FIELD_PRIME.iter().rev()) {
        return Err(KeyError::NotCanonical);
    }
    if LOW_ORDER.contains(key) {
        return Err(KeyError::LowOrder);
    }
    Ok(())
}

/// All the keys of a wing.
pub struct WingIdentity {
    identity: IdentitySecret,
    noise: NoiseSecret,
    seq: u64,
}

impl WingIdentity {
    /// Makes a new wing.
    pub fn generate() -> Self {
        Self::from_parts(IdentitySecret::generate(), NoiseSecret::generate(), 1)
    }

    /// Puts a wing together from its key files.
    pub fn from_parts(identity: IdentitySecret, noise: NoiseSecret, seq: u64) -> Self {
        Self {
            identity,
            noise,
            seq,
        }
    }

    /// The same wing with a new noise key, which clients take in place of the old one.
    #[must_use]
    pub fn rotate(self) -> Self {
        Self {
            noise: NoiseSecret::generate(),
            seq: self.seq + 1,
            ..self
        }
    }

    /// The wing's id.
    pub fn wing_id(&self) -> WingId {
        WingId::of_identity(&self.identity.public())
    }

    /// The identity key.
    pub fn identity(&self) -> &IdentitySecret {
        &self.identity
    }

    /// The key that answers handshakes.
    pub fn noise(&self) -> &NoiseSecret {
        &self.noise
    }

    /// How often the noise key was made, this time included.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The identity's word on the noise key.
    pub fn statement(&self) -> NoiseKeyStatement {
        let (wing, key) = (self.wing_id(), self.noise.public());
        let signature = self
            .identity
            .sign(&signed::noise_key_statement(&wing, &key, self.seq));
        NoiseKeyStatement {
            wing,
            key,
            seq: self.seq,
            signature,
        }
    }
}

impl IdentitySecret {
    /// Says that another identity takes the place of this one.
    pub fn name_successor(&self, new: &WingId) -> SuccessorStatement {
        let old = self.public();
        let signature = self.sign(&signed::successor(&WingId::of_identity(&old), new));
        SuccessorStatement {
            old,
            new: new.clone(),
            signature,
        }
    }

    /// Says that this identity is not to be trusted any more, for good.
    pub fn revoke(&self) -> RevocationStatement {
        let identity = self.public();
        let signature = self.sign(&signed::revocation(&WingId::of_identity(&identity)));
        RevocationStatement {
            identity,
            signature,
        }
    }
}

/// Checks an identity's word on its successor. Returns who stepped down.
///
/// # Errors
/// [`BadSignature`] when the old identity did not sign it.
pub fn verify_successor(statement: &SuccessorStatement) -> Result<WingId, BadSignature> {
    let old = WingId::of_identity(&statement.old);
    let message = signed::successor(&old, &statement.new);
    verify(statement.old.as_bytes(), &message, &statement.signature)?;
    Ok(old)
}

/// Checks an identity's word that it is given up. Returns which one.
///
/// # Errors
/// [`BadSignature`] when the identity did not sign it.
pub fn verify_revocation(statement: &RevocationStatement) -> Result<WingId, BadSignature> {
    let wing = WingId::of_identity(&statement.identity);
    let message = signed::revocation(&wing);
    verify(
        statement.identity.as_bytes(),
        &message,
        &statement.signature,
    )?;
    Ok(wing)
}

/// Why what a relay says about a wing is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// The id is the fingerprint of another identity key.
    #[error("the identity key does not belong to this wing id")]
    OtherIdentity,
    /// The statement speaks of another wing.
    #[error("the statement is about another wing")]
    OtherWing,
    /// The noise key must not be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The identity key did not sign it.
    #[error("the statement is not signed by the wing")]
    Signature,
}

/// A wing whose id, identity key and noise key were checked to belong together.
///
/// Only this crate makes one: [`verify_statement`] from what a relay sent, or
/// [`crate::Pin::wing`] from what was checked before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedWing {
    wing_id: WingId,
    identity: IdentityKey,
    noise: NoiseKey,
    seq: u64,
}

impl VerifiedWing {
    /// For keys of which a signed statement was checked earlier.
    pub(crate) fn from_pinned(
        identity: IdentityKey,
        noise: NoiseKey,
        seq: u64,
    ) -> Result<Self, KeyError> {
        check_x25519(noise.as_bytes())?;
        Ok(Self {
            wing_id: WingId::of_identity(&identity),
            identity,
            noise,
            seq,
        })
    }

    /// The wing.
    pub fn wing_id(&self) -> &WingId {
        &self.wing_id
    }

    /// Its identity key.
    pub fn identity(&self) -> IdentityKey {
        self.identity
    }

    /// Its key for handshakes.
    pub fn noise_key(&self) -> NoiseKey {
        self.noise
    }

    /// The seq of that key's statement.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// Checks that a statement is by the wing with this id.
///
/// Whether its seq may be taken is for the pins to say.
///
/// # Errors
/// See [`StatementError`].
pub fn verify_statement(
    wing_id: &WingId,
    identity: &IdentityKey,
    statement: &NoiseKeyStatement,
) -> Result<VerifiedWing, StatementError> {
    if WingId::of_identity(identity) != *wing_id {
        return Err(StatementError::OtherIdentity);
    }
    if statement.wing != *wing_id {
        return Err(StatementError::OtherWing);
    }
    let message = signed::noise_key_statement(&statement.wing, &statement.key, statement.seq);
    verify(identity.as_bytes(), &message, &statement.signature)
        .map_err(|BadSignature| StatementError::Signature)?;
    Ok(VerifiedWing::from_pinned(
        *identity,
        statement.key,
        statement.seq,
    )?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_protocol::InstanceId;
    use wt_protocol::control::{ProofMode, Role};

    use super::*;

    #[test]
    fn keys_survive_their_files() {
        let identity = IdentitySecret::generate();
        let client = ClientSecret::generate();

        assert!(IdentitySecret::from_bytes(&identity.to_bytes()).public() == identity.public());
        assert!(ClientSecret::from_bytes(&client.to_bytes()).public() == client.public());
        assert_ne!(
            IdentitySecret::generate().public(),
            IdentitySecret::generate().public()
        );
    }

    #[test]
    fn only_an_identity_itself_names_its_successor_or_ends() {
        let (old, other) = (IdentitySecret::generate(), IdentitySecret::generate());
        let (old_id, new) = (
            WingId::of_identity(&old.public()),
            WingId::of_identity(&other.public()),
        );

        let successor = old.name_successor(&new);
        assert_eq!(verify_successor(&successor), Ok(old_id.clone()));
        let elsewhere = SuccessorStatement {
            new: old_id.clone(),
            ..successor.clone()
        };
        assert_eq!(verify_successor(&elsewhere), Err(BadSignature));
        let by_other = SuccessorStatement {
            old: other.public(),
            ..successor.clone()
        };
        assert_eq!(verify_successor(&by_other), Err(BadSignature));

        let revocation = old.revoke();
        assert_eq!(verify_revocation(&revocation), Ok(old_id));
        let of_other = RevocationStatement {
            identity: other.public(),
            ..revocation.clone()
        };
        assert_eq!(verify_revocation(&of_other), Err(BadSignature));
        let wrong_kind = RevocationStatement {
            signature: successor.signature,
            ..revocation
        };
        assert_eq!(verify_revocation(&wrong_kind), Err(BadSignature));
    }

    #[test]
    fn public_keys_are_those_of_rfc_7748_and_rfc_8032() {
        let bytes = |text: &str| -> [u8; 32] {
            let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
            bytes.try_into().unwrap()
        };

        // Worked out apart from this code, by the ladder of RFC 7748 section 5.
        let counted: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(
            NoiseSecret::from_bytes(&counted).public().as_bytes(),
            &bytes("8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f")
        );
        // RFC 8032 section 7.1, test 1.
        let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        assert_eq!(
            DeviceSecret::from_bytes(&seed).public().as_bytes(),
            &bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
        );
    }

    #[test]
    fn keys_that_are_not_canonical_or_of_low_order_are_refused() {
        for key in LOW_ORDER {
            assert_eq!(check_x25519(&key), Err(KeyError::LowOrder));
        }
        let mut top_bit = NoiseSecret::generate().public().as_bytes().to_owned();
        assert_eq!(check_x25519(&top_bit), Ok(()));
        top_bit[31] |= 0x80;
        assert_eq!(check_x25519(&top_bit), Err(KeyError::NotCanonical));
        for low in FIELD_PRIME[0]..=0xff {
            let mut above = FIELD_PRIME;
            above[0] = low;
            assert_eq!(check_x25519(&above), Err(KeyError::NotCanonical));
        }
        let mut largest = FIELD_PRIME;
        largest[0] = 0xeb;
        assert_eq!(check_x25519(&largest), Ok(()));
    }

    #[test]
    fn the_table_of_low_order_points_is_what_makes_agreements_zero() {
        let scalar = random();

        for key in LOW_ORDER {
            assert_eq!(x25519_dalek::x25519(scalar, key), [0; 32]);
        }
        let honest = *NoiseSecret::generate().public().as_bytes();
        assert_ne!(x25519_dalek::x25519(scalar, honest), [0; 32]);
    }

    #[test]
    fn a_statement_is_believed_only_from_the_wing_it_is_about() {
        let wing = WingIdentity::generate();
        let other = WingIdentity::generate();
        let (id, key) = (wing.wing_id(), wing.identity().public());
        let statement = wing.statement();

        let verified = verify_statement(&id, &key, &statement).unwrap();
        assert_eq!(verified.wing_id(), &id);
        assert_eq!(verified.identity(), key);
        assert_eq!(verified.noise_key(), wing.noise().public());
        assert_eq!(verified.seq(), 1);

        let check = |statement: &NoiseKeyStatement| verify_statement(&id, &key, statement);
        assert_eq!(
            verify_statement(&id, &other.identity().public(), &statement),
            Err(StatementError::OtherIdentity)
        );
        assert_eq!(
            verify_statement(&other.wing_id(), &key, &statement),
            Err(StatementError::OtherIdentity)
        );
        assert_eq!(check(&other.statement()), Err(StatementError::OtherWing));
        let swapped_key = NoiseKeyStatement {
            key: other.noise().public(),
            ..statement.clone()
        };
        assert_eq!(check(&swapped_key), Err(StatementError::Signature));
        let higher_seq = NoiseKeyStatement {
            seq: 2,
            ..statement.clone()
        };
        assert_eq!(check(&higher_seq), Err(StatementError::Signature));
    }

    #[test]
    fn a_signed_noise_key_of_low_order_is_refused() {
        let wing = WingIdentity::generate();
        let (wing_id, key) = (wing.wing_id(), NoiseKey::from_bytes(LOW_ORDER[2]));
        let signature = wing
            .identity()
            .sign(&signed::noise_key_statement(&wing_id, &key, 1));
        let statement = NoiseKeyStatement {
            wing: wing_id.clone(),
            key,
            seq: 1,
            signature,
        };

        assert_eq!(
            verify_statement(&wing_id, &wing.identity().public(), &statement),
            Err(StatementError::Key(KeyError::LowOrder))
        );
    }

    #[test]
    fn rotation_keeps_the_id_and_raises_the_seq() {
        let wing = WingIdentity::generate();
        let (id, noise) = (wing.wing_id(), wing.noise().public());

        let rotated = wing.rotate();

        assert_eq!(rotated.wing_id(), id);
        assert_ne!(rotated.noise().public(), noise);
        assert_eq!(rotated.statement().seq, 2);
    }

    #[test]
    fn a_device_vouches_for_one_client_key_alone() {
        let device = DeviceSecret::generate();
        let client = ClientSecret::generate().public();
        let signature = device.vouch_for(&client);

        let (key, other) = (device.public(), ClientSecret::generate().public());
        assert_eq!(verify_client_key(&key, &client, &signature), Ok(()));
        assert_eq!(
            verify_client_key(&key, &other, &signature),
            Err(BadSignature)
        );
        let stranger = DeviceSecret::generate().public();
        assert_eq!(
            verify_client_key(&stranger, &client, &signature),
            Err(BadSignature)
        );
    }

    #[test]
    fn a_relay_proof_holds_for_its_own_nonces_alone() {
        let device = DeviceSecret::generate();
        let proof = RelayProof {
            mode: ProofMode::Nonce,
            role: &Role::Client,
            origin: "https://roost.example",
            relay_nonce: &[1; 32],
            client_nonce: &[2; 32],
            exporter: &[],
            token_hash: &[3; 32],
            instance: &InstanceId::from_bytes([4; 16]),
        };
        let signature = device.prove(&proof);
        let check = |proof: &RelayProof<'_>| {
            verify(
                device.public().as_bytes(),
                &signed::relay_proof(proof),
                &signature,
            )
        };

        assert_eq!(check(&proof), Ok(()));
        let replayed = RelayProof {
            relay_nonce: &[9; 32],
            ..proof
        };
        assert_eq!(check(&replayed), Err(BadSignature));
    }
}

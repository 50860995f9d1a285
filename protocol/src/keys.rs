//! Public keys and signatures as they travel. Secret keys live in `wt-crypto`.

use crate::ids::byte_value;

byte_value!(
    /// A wing's Ed25519 identity key.
    IdentityKey, 32, "an Ed25519 key, 52 characters of base32"
);
byte_value!(
    /// A wing's X25519 key that answers handshakes.
    NoiseKey, 32, "an X25519 key, 52 characters of base32"
);
byte_value!(
    /// A client's X25519 key: what a wing admits.
    ClientKey, 32, "an X25519 key, 52 characters of base32"
);
byte_value!(
    /// A device's Ed25519 key: what a relay knows a device by.
    DeviceKey, 32, "an Ed25519 key, 52 characters of base32"
);
byte_value!(
    /// A roost's Ed25519 key that signs account grants.
    GrantKey, 32, "an Ed25519 key, 52 characters of base32"
);
byte_value!(
    /// An Ed25519 signature.
    Signature, 64, "an Ed25519 signature, 103 characters of base32"
);
byte_value!(
    /// A SHA-256 digest.
    Sha256Digest, 32, "a SHA-256 digest, 52 characters of base32"
);

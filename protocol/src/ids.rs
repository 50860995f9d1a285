//! Ids and names, each a type of its own, parsed once at the edge.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::keys::GrantKey;
use crate::limits::MAX_NAME;
use crate::signed::{LABEL_ROOST_ID, LABEL_WING_ID};

/// Why a text is not the id or name it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A wing id has one exact shape.
    #[error("a wing id is 26 characters of a-z and 2-7, not {0:?}")]
    WingId(String),
    /// A session id has one exact shape.
    #[error("a session id is 12 characters of a-z and 2-7, not {0:?}")]
    SessionId(String),
    /// Session names are restricted so that they are safe in paths, shells and lists.
    #[error(
        "a session name has 1 to 64 of A-Z a-z 0-9 . _ - and does not start with - or ., not {0:?}"
    )]
    SessionName(String),
    /// Wing labels follow the rule of session names and never look like a wing id.
    #[error(
        "a wing label has 1 to 64 of A-Z a-z 0-9 . _ -, does not start with - or . and is not shaped like a wing id, not {0:?}"
    )]
    WingLabel(String),
    /// A fixed-size value was given with other characters or another length.
    #[error("expected {0}, not {1:?}")]
    Bytes(&'static str, String),
}

fn is_base32(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && !text.starts_with(['-', '.'])
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// What a message shows of a text that was refused: bounded, whatever came in.
fn excerpt(text: &str) -> String {
    text.chars().take(MAX_NAME + 8).collect()
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $error:ident, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err(IdError::$error(excerpt(text))) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

text_id!(
    /// The durable id of a wing: a fingerprint of its identity key.
    ///
    /// The first 26 characters of lower-case base32 (RFC 4648) of
    /// SHA-256("wingthing wing id v1" || Ed25519 public key): 130 bits, so nobody can
    /// offer another key under the same id.
    WingId, WingId, |text| is_base32(text, WingId::LENGTH)
);

text_id!(
    /// The immutable id of a session, 12 characters of lower-case base32.
    SessionId, SessionId, |text| is_base32(text, SessionId::LENGTH)
);

text_id!(
    /// A session's name: its owner's choice, and safe as a file name.
    SessionName, SessionName, is_name
);

text_id!(
    /// What a wing calls itself. A label is a claim; only an id is an identity.
    WingLabel, WingLabel, |text| is_name(text) && WingId::from_typed(text).is_none()
);

impl WingId {
    /// Characters of a wing id.
    pub const LENGTH: usize = 26;

    /// Derives the id of the wing with this Ed25519 identity key.
    pub fn of_identity(key: &crate::keys::IdentityKey) -> Self {
        let digest = Sha256::new()
            .chain_update(LABEL_WING_ID)
            .chain_update(key.as_bytes())
            .finalize();
        let mut text = base32(&digest);
        text.truncate(Self::LENGTH);
        Self(text)
    }

    /// Reads an id as people type and paste it: in either case, in groups or not.
    pub fn from_typed(text: &str) -> Option<Self> {
        // Longer than an id with a dash after each character is none.
        if text.len() > 2 * Self::LENGTH {
            return None;
        }
        let bare: String = text
            .chars()
            .filter(|&c| c != '-')
            .map(|c| c.to_ascii_lowercase())
            .collect();
        is_base32(&bare, Self::LENGTH).then_some(Self(bare))
    }

    /// The id in groups, as people compare it: `abcd-efgh-...`.
    pub fn grouped(&self) -> String {
        let groups: Vec<&str> = (0..self.0.len())
            .step_by(4)
            .map(|i| &self.0[i..self.0.len().min(i + 4)])
            .collect();
        groups.join("-")
    }
}

impl RoostId {
    /// Derives the id of the roost at this origin with this grant key.
    pub fn of(origin: &str, key: &GrantKey) -> Self {
        let digest = Sha256::new()
            .chain_update(LABEL_ROOST_ID)
            .chain_update(key.as_bytes())
            .chain_update(origin.as_bytes())
            .finalize();
        Self::from_bytes(digest.into())
    }
}

impl SessionId {
    /// Characters of a session id.
    pub const LENGTH: usize = 12;

    /// Makes an id from 8 random bytes, of which 60 bits are used.
    pub fn from_random(random: [u8; 8]) -> Self {
        let mut text = base32(&random);
        text.truncate(Self::LENGTH);
        Self(text)
    }
}

impl WingLabel {
    /// The nearest valid label to a host name: what is not allowed becomes `-`.
    pub fn from_hostname(hostname: &str) -> Self {
        let short = hostname.split('.').next().unwrap_or_default();
        let text: String = short
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
                    c
                } else {
                    '-'
                }
            })
            .take(MAX_NAME)
            .collect();
        text.trim_start_matches('-')
            .parse()
            .unwrap_or_else(|_| Self("wing".to_owned()))
    }
}

/// Lower-case base32 (RFC 4648) without padding.
pub(crate) fn base32(bytes: &[u8]) -> String {
    data_encoding::BASE32_NOPAD
        .encode(bytes)
        .to_ascii_lowercase()
}

/// Reads what [`base32`] writes, in either case.
pub(crate) fn from_base32(text: &str) -> Option<Vec<u8>> {
    data_encoding::BASE32_NOPAD
        .decode(text.to_ascii_uppercase().as_bytes())
        .ok()
}

/// Defines a fixed-size public value: bytes on the wire, base32 for people.
macro_rules! byte_value {
    ($(#[$doc:meta])* $name:ident, $length:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $length]);

        impl $name {
            /// Wraps the bytes.
            pub const fn from_bytes(bytes: [u8; $length]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            pub const fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::IdError;
            fn from_str(text: &str) -> Result<Self, $crate::IdError> {
                $crate::ids::from_base32(text)
                    .and_then(|bytes| <[u8; $length]>::try_from(bytes).ok())
                    .map(Self)
                    .ok_or_else(|| $crate::IdError::Bytes($what, text.chars().take(120).collect()))
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(&$crate::ids::base32(&self.0))
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    serializer.serialize_bytes(&self.0)
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::Error as _;
                if deserializer.is_human_readable() {
                    let text = String::deserialize(deserializer)?;
                    text.parse().map_err(D::Error::custom)
                } else {
                    let bytes = <&serde_bytes::Bytes>::deserialize(deserializer)?;
                    <[u8; $length]>::try_from(bytes.as_ref())
                        .map(Self)
                        .map_err(|_| D::Error::custom(concat!("expected ", $what)))
                }
            }
        }
    };
}
pub(crate) use byte_value;

byte_value!(
    /// Names one route between a client and a wing. The client draws it at random; it
    /// is part of what both ends authenticate.
    RouteNonce, 16, "16 bytes of base32"
);
byte_value!(
    /// One start of a wing daemon, drawn at random: tells two processes with one
    /// identity from one process with two links.
    InstanceId, 16, "16 bytes of base32"
);
byte_value!(
    /// One terminal, tab or process that attached to a session, drawn at random.
    AttachmentId, 16, "16 bytes of base32"
);
byte_value!(
    /// One life of an egg process, drawn at random: offsets mean something only in it.
    EggEpoch, 16, "16 bytes of base32"
);
byte_value!(
    /// A roost by its origin and its grant key: a grant of one means nothing at another.
    RoostId, 32, "a roost id, 52 characters of base32"
);
byte_value!(
    /// Names one acting request, so that a repeated one is done once.
    RequestId, 16, "16 bytes of base32"
);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::keys::IdentityKey;

    #[test]
    fn a_wing_id_is_the_start_of_the_hash_of_its_key() {
        let id = WingId::of_identity(&IdentityKey::from_bytes([7; 32]));

        // sha256("wingthing wing id v1" || 32 * 07), worked out apart from this code.
        assert_eq!(id.as_str(), "gq3qm6xmjeb5ru6c7q6e7p2f3r");
        assert_eq!(id.as_str().parse::<WingId>().unwrap(), id);
        assert_ne!(id, WingId::of_identity(&IdentityKey::from_bytes([8; 32])));
    }

    #[test]
    fn names_that_reach_outside_or_break_lists_are_refused() {
        let long = "x".repeat(65);
        for bad in [
            "../../x",
            "a/b",
            "",
            " ",
            ".",
            "..",
            "-x",
            "a\nb",
            "é",
            "a b",
            long.as_str(),
        ] {
            assert!(bad.parse::<SessionName>().is_err(), "{bad:?} was taken");
        }
        for good in ["a", "work", "a.b_c-D9", "x".repeat(64).as_str()] {
            assert_eq!(good.parse::<SessionName>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_label_never_looks_like_a_wing_id() {
        let shaped_like_an_id = "a".repeat(26);

        assert!(shaped_like_an_id.parse::<WingLabel>().is_err());
        assert!(shaped_like_an_id.parse::<SessionName>().is_ok());
        for typed in ["A".repeat(26), WingId(shaped_like_an_id).grouped()] {
            assert!(typed.parse::<WingLabel>().is_err(), "{typed} was taken");
        }
        assert!("a".repeat(27).parse::<WingLabel>().is_ok());
    }

    #[test]
    fn an_id_may_be_typed_in_either_case_and_in_groups() {
        let id = WingId::of_identity(&IdentityKey::from_bytes([7; 32]));

        for typed in [
            id.to_string(),
            id.grouped(),
            id.grouped().to_ascii_uppercase(),
        ] {
            assert_eq!(WingId::from_typed(&typed), Some(id.clone()));
        }
        for other in ["", "box", &id.as_str()[1..], &format!("{id}a")] {
            assert_eq!(WingId::from_typed(other), None);
        }
    }

    #[test]
    fn a_roost_with_another_origin_or_key_has_another_id() {
        let of = |origin, key| RoostId::of(origin, &GrantKey::from_bytes([key; 32]));

        assert_eq!(of("https://a", 1), of("https://a", 1));
        assert_ne!(of("https://a", 1), of("https://b", 1));
        assert_ne!(of("https://a", 1), of("https://a", 2));
    }

    #[test]
    fn any_host_name_gives_a_label() {
        assert_eq!(WingLabel::from_hostname("box.example.org").as_str(), "box");
        assert_eq!(
            WingLabel::from_hostname("Mein Gerät").as_str(),
            "Mein-Ger-t"
        );
        assert_eq!(WingLabel::from_hostname("").as_str(), "wing");
        assert_eq!(WingLabel::from_hostname("---").as_str(), "wing");
    }

    #[test]
    fn byte_values_survive_both_kinds_of_encoding() {
        let nonce = RouteNonce::from_bytes(*b"0123456789abcdef");

        let text = serde_json::to_string(&nonce).unwrap();
        assert_eq!(serde_json::from_str::<RouteNonce>(&text).unwrap(), nonce);
        let bytes = postcard::to_allocvec(&nonce).unwrap();
        assert_eq!(bytes.len(), 17);
        assert_eq!(postcard::from_bytes::<RouteNonce>(&bytes).unwrap(), nonce);
        assert!(postcard::from_bytes::<RouteNonce>(&bytes[..16]).is_err());
    }
}

//! SOCKS 5 (RFC 1928) as far as a client needs it to connect.

use std::net::{Ipv4Addr, Ipv6Addr};

use wt_policy::{Destination, Host, Port};

/// The version that is spoken.
const VERSION: u8 = 5;

/// What a client begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Whether it goes without authentication. Only the session can reach the listener, so
    /// that nothing else is offered.
    pub acceptable: bool,
    /// How many bytes it took.
    pub length: usize,
}

/// What a client then asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where to.
    pub destination: Destination,
    /// How many bytes it took.
    pub length: usize,
}

/// Why a client is sent away, and with which reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    /// It speaks something else.
    #[error("this is not SOCKS 5")]
    Version,
    /// It asks for more than a connection.
    #[error("only CONNECT is served: neither BIND nor UDP")]
    Command,
    /// The address is of an unknown kind.
    #[error("the address is of an unknown kind")]
    AddressType,
    /// The host is none.
    #[error("the destination is not a host and a port")]
    Destination,
}

/// Replies of section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Connected.
    Succeeded = 0,
    /// Something failed here.
    Failure = 1,
    /// The rules do not allow it.
    NotAllowed = 2,
    /// The host cannot be reached, or has no address.
    HostUnreachable = 4,
    /// The command is not served.
    CommandNotSupported = 7,
    /// The kind of address is not known.
    AddressNotSupported = 8,
}

impl Reply {
    /// The bytes of the reply. The address at which the connection leaves is nobody's
    /// business inside, and is given as zeros.
    pub fn to_bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

impl SocksError {
    /// The reply that says so.
    pub fn reply(self) -> Reply {
        match self {
            Self::Version => Reply::Failure,
            Self::Command => Reply::CommandNotSupported,
            Self::AddressType => Reply::AddressNotSupported,
            Self::Destination => Reply::NotAllowed,
        }
    }
}

/// Reads the greeting; `None` while bytes are missing.
///
/// # Errors
///
/// When it is not that of SOCKS 5.
pub fn greeting(bytes: &[u8]) -> Result<Option<Greeting>, SocksError> {
    match bytes {
        [] => Ok(None),
        [VERSION] => Ok(None),
        [VERSION, count, rest @ ..] => {
            Ok(rest.get(..usize::from(*count)).map(|methods| Greeting {
                acceptable: methods.contains(&0),
                length: 2 + methods.len(),
            }))
        }
        _ => Err(SocksError::Version),
    }
}

/// Reads the request; `None` while bytes are missing.
///
/// # Errors
///
/// When it is none, or not one that is served.
pub fn request(bytes: &[u8]) -> Result<Option<Request>, SocksError> {
    let [version, command, reserved, kind, rest @ ..] = bytes else {
        return match bytes.first() {
            Some(version) if *version != VERSION => Err(SocksError::Version),
            _ => Ok(None),
        };
    };
    if (*version, *reserved) != (VERSION, 0) {
        return Err(SocksError::Version);
    }
    if *command != 1 {
        return Err(SocksError::Command);
    }
    let (host, length) = match (kind, rest) {
        (1, [a, b, c, d, ..]) => (Ok(Host::Address(Ipv4Addr::new(*a, *b, *c, *d).into())), 4),
        (4, rest) if rest.len() >= 16 => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&rest[..16]);
            let address = std::net::IpAddr::from(Ipv6Addr::from(octets)).to_canonical();
            (Ok(Host::Address(address)), 16)
        }
        (3, [length, name @ ..]) => match name.get(..usize::from(*length)) {
            // The whole name goes through the one normaliser; a NUL does not end it.
            Some(name) => (
                std::str::from_utf8(name)
                    .map_err(|_| SocksError::Destination)
                    .and_then(host_in_text),
                1 + usize::from(*length),
            ),
            None => return Ok(None),
        },
        (1 | 3 | 4, _) => return Ok(None),
        _ => return Err(SocksError::AddressType),
    };
    let Some([high, low]) = rest.get(length..length + 2) else {
        return Ok(None);
    };
    let destination = Destination {
        host: host?,
        port: Port::new(u16::from_be_bytes([*high, *low])).ok_or(SocksError::Destination)?,
    };
    Ok(Some(Request {
        destination,
        length: 4 + length + 2,
    }))
}

/// Some clients send addresses as names, IPv6 ones without brackets.
fn host_in_text(text: &str) -> Result<Host, SocksError> {
    match text.parse::<Ipv6Addr>() {
        Ok(address) => Ok(Host::Address(
            std::net::IpAddr::from(address).to_canonical(),
        )),
        Err(_) => Host::parse(text).map_err(|_| SocksError::Destination),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &[u8], port: u16) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes
    }

    fn to(bytes: &[u8]) -> Result<String, SocksError> {
        request(bytes).map(|request| request.unwrap().destination.to_string())
    }

    #[test]
    fn a_client_greets_and_asks() {
        assert_eq!(
            greeting(&[5, 2, 2, 0, 9]),
            Ok(Some(Greeting {
                acceptable: true,
                length: 4
            }))
        );
        assert_eq!(
            greeting(&[5, 1, 2]),
            Ok(Some(Greeting {
                acceptable: false,
                length: 3
            }))
        );
        assert_eq!(greeting(&[4, 1]), Err(SocksError::Version));
        assert_eq!(
            to(&named(b"EXAMPLE.com.", 443)),
            Ok("example.com:443".to_owned())
        );
        assert_eq!(
            to(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 80]),
            Ok("10.0.0.1:80".to_owned())
        );
        assert_eq!(to(&named(b"10.0.0.1", 80)), Ok("10.0.0.1:80".to_owned()));
        assert_eq!(to(&named(b"::1", 80)), Ok("[::1]:80".to_owned()));
        assert_eq!(
            to(&named(b"::ffff:127.0.0.1", 80)),
            Ok("127.0.0.1:80".to_owned())
        );
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in [
            b"evil.test\0.example.com".as_slice(),
            b"a\r\nb",
            b"",
            b"0x7f.1",
            b"a b",
            b"a%00",
            b"\xff",
        ] {
            assert_eq!(
                to(&named(name, 443)),
                Err(SocksError::Destination),
                "{name:?}"
            );
        }
        assert_eq!(to(&named(b"example.com", 0)), Err(SocksError::Destination));
        assert_eq!(
            to(&[5, 2, 0, 1, 10, 0, 0, 1, 0, 80]),
            Err(SocksError::Command)
        );
        assert_eq!(
            to(&[5, 3, 0, 1, 10, 0, 0, 1, 0, 80]),
            Err(SocksError::Command)
        );
        assert_eq!(
            to(&[5, 1, 0, 2, 10, 0, 0, 1, 0, 80]),
            Err(SocksError::AddressType)
        );
    }

    #[test]
    fn a_part_of_a_request_is_waited_for() {
        let whole = named(b"example.com", 443);
        for end in 0..whole.len() {
            assert_eq!(request(&whole[..end]), Ok(None), "{end}");
        }
        assert_eq!(request(&whole).unwrap().unwrap().length, whole.len());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = greeting(&bytes);
            let _ = request(&bytes);
        }
    }
}

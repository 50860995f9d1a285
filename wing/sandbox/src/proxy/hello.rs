//! The first message of a TLS client, for the server name in it.

use wt_policy::HostName;

/// The longest message that is read. Clients with post-quantum keys and long tickets stay
/// below 4 KiB.
pub const MAX_HELLO: usize = 64 * 1024;

/// The most bytes in which it may come: a record of one byte has five bytes around it, and
/// a message in such records is still read.
pub const MAX_HELLO_BYTES: usize = 128 * 1024;

/// The longest record (RFC 8446, section 5.1).
const MAX_RECORD: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_HELLO: u16 = 0xfe0d;

/// What a client says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The server that it wants to talk to, if it says so.
    pub server_name: Option<HostName>,
    /// Whether it carries a second message that only the server can read, or bytes that
    /// look like one. What that names is unknown.
    pub encrypted: bool,
}

/// Why this is no first message of a TLS client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It is not TLS.
    #[error("this is not the beginning of TLS")]
    NotTls,
    /// It is too long, or in too many pieces.
    #[error("the first message of TLS is too long")]
    TooLong,
    /// It is malformed.
    #[error("the first message of TLS is malformed")]
    Malformed,
    /// The name in it is none.
    #[error("the server name is not a host name")]
    ServerName,
}

/// Puts the message together from bytes as they come.
#[derive(Debug, Default)]
pub struct HelloReader {
    /// The header of the record that is being read.
    header: Vec<u8>,
    /// How much of its content is missing.
    missing: usize,
    message: Vec<u8>,
    seen: usize,
}

impl HelloReader {
    /// Makes one that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes; the message when it is complete. What follows the record in
    /// which it ends is not looked at.
    ///
    /// # Errors
    ///
    /// As soon as it cannot become such a message.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Option<Hello>, HelloError> {
        self.seen = self.seen.saturating_add(bytes.len());
        while !bytes.is_empty() {
            if self.missing == 0 {
                self.header.push(bytes[0]);
                bytes = &bytes[1..];
                self.check_header()?;
                continue;
            }
            let (content, rest) = bytes.split_at(self.missing.min(bytes.len()));
            self.message.extend_from_slice(content);
            self.missing -= content.len();
            bytes = rest;
            if let Some(hello) = self.complete()? {
                return Ok(Some(hello));
            }
        }
        match self.seen > MAX_HELLO_BYTES {
            true => Err(HelloError::TooLong),
            false => Ok(None),
        }
    }

    fn check_header(&mut self) -> Result<(), HelloError> {
        match self.header.as_slice() {
            [HANDSHAKE] | [HANDSHAKE, 3] | [HANDSHAKE, 3, 0..=4] | [HANDSHAKE, 3, 0..=4, _] => {
                Ok(())
            }
            [HANDSHAKE, 3, 0..=4, high, low] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                // A record without content only makes work.
                if length == 0 || length > MAX_RECORD {
                    return Err(HelloError::Malformed);
                }
                self.missing = length;
                self.header.clear();
                Ok(())
            }
            _ => Err(HelloError::NotTls),
        }
    }

    fn complete(&self) -> Result<Option<Hello>, HelloError> {
        let [kind, a, b, c, body @ ..] = self.message.as_slice() else {
            return match self.message.first() {
                Some(&kind) if kind != CLIENT_HELLO => Err(HelloError::NotTls),
                _ => Ok(None),
            };
        };
        if *kind != CLIENT_HELLO {
            return Err(HelloError::NotTls);
        }
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        if length > MAX_HELLO {
            return Err(HelloError::TooLong);
        }
        match body.len().cmp(&length) {
            std::cmp::Ordering::Less => Ok(None),
            // Nothing may follow it in its record (RFC 8446, section 5.1).
            std::cmp::Ordering::Equal if self.missing == 0 => read_body(body).map(Some),
            _ => Err(HelloError::Malformed),
        }
    }
}

fn read_body(body: &[u8]) -> Result<Hello, HelloError> {
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    if reader.vector8()?.len() > 32 {
        return Err(HelloError::Malformed);
    }
    let suites = reader.vector16()?;
    if suites.is_empty() || suites.len() % 2 != 0 || reader.vector8()?.is_empty() {
        return Err(HelloError::Malformed);
    }
    let mut hello = Hello {
        server_name: None,
        encrypted: false,
    };
    // Before TLS 1.2 a message could end here.
    if reader.0.is_empty() {
        return Ok(hello);
    }
    let mut extensions = Reader(reader.vector16()?);
    if !reader.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let mut seen = std::collections::BTreeSet::new();
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.vector16()?;
        // Two of a kind would be two names, and the server might read the other one.
        if !seen.insert(kind) {
            return Err(HelloError::Malformed);
        }
        match kind {
            SERVER_NAME => hello.server_name = Some(server_name(content)?),
            ENCRYPTED_HELLO => hello.encrypted = true,
            _ => {}
        }
    }
    Ok(hello)
}

/// Reads the extension of RFC 6066, section 3: exactly one name.
fn server_name(content: &[u8]) -> Result<HostName, HelloError> {
    let mut outer = Reader(content);
    let mut list = Reader(outer.vector16()?);
    if !outer.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let kind = list.take(1)?;
    let name = list.vector16()?;
    if kind != [0] || !list.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let text = std::str::from_utf8(name).map_err(|_| HelloError::ServerName)?;
    if !text.is_ascii() {
        return Err(HelloError::ServerName);
    }
    HostName::parse(text).map_err(|_| HelloError::ServerName)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, HelloError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector8(&mut self) -> Result<&'a [u8], HelloError> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }

    fn vector16(&mut self) -> Result<&'a [u8], HelloError> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap();
        [&kind.to_be_bytes(), &length.to_be_bytes(), content].concat()
    }

    fn name_extension(name: &[u8]) -> Vec<u8> {
        let length = u16::try_from(name.len()).unwrap();
        let entry = [&[0], length.to_be_bytes().as_slice(), name].concat();
        let list = u16::try_from(entry.len()).unwrap();
        extension(0, &[list.to_be_bytes().as_slice(), &entry].concat())
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend_from_slice(&u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend_from_slice(extensions);
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &length[1..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message
            .chunks(size)
            .flat_map(|chunk| {
                let length = u16::try_from(chunk.len()).unwrap().to_be_bytes();
                [&[22, 3, 1], length.as_slice(), chunk].concat()
            })
            .collect()
    }

    /// The first bytes of a TLS client that wants to talk to `name`.
    pub(crate) fn client_hello(name: Option<&str>) -> Vec<u8> {
        let extensions = name.map(|name| name_extension(name.as_bytes()));
        records(&message(&extensions.unwrap_or_default()), MAX_RECORD)
    }

    fn read(bytes: &[u8]) -> Result<Option<Hello>, HelloError> {
        HelloReader::new().push(bytes)
    }

    #[test]
    fn the_name_is_read_however_the_message_is_cut() {
        let message = message(&[name_extension(b"Example.com"), extension(0xfe0d, &[1])].concat());
        let expected = Hello {
            server_name: Some(HostName::parse("example.com").unwrap()),
            encrypted: true,
        };
        for size in [1, 2, 5, 100, MAX_RECORD] {
            let bytes = records(&message, size);
            assert_eq!(read(&bytes), Ok(Some(expected.clone())));
            let mut reader = HelloReader::new();
            let (last, head) = bytes.split_last().unwrap();
            for byte in head {
                assert_eq!(reader.push(&[*byte]), Ok(None));
            }
            assert_eq!(reader.push(&[*last]), Ok(Some(expected.clone())));
        }
    }

    #[test]
    fn a_message_without_a_name_has_none() {
        let hello = read(&client_hello(None)).unwrap().unwrap();
        assert_eq!(hello.server_name, None);
    }

    #[test]
    fn what_is_not_tls_is_known_at_its_first_byte() {
        assert_eq!(read(b"G"), Err(HelloError::NotTls));
        assert_eq!(read(b"SSH-2.0"), Err(HelloError::NotTls));
        assert_eq!(read(&[22, 2]), Err(HelloError::NotTls));
        assert_eq!(read(&[22, 3, 5]), Err(HelloError::NotTls));
        // The old form of SSL 2.
        assert_eq!(read(&[0x80, 0x2e, 1, 3, 1]), Err(HelloError::NotTls));
        // A record of TLS, and something else in it.
        assert_eq!(read(&[22, 3, 1, 0, 1, 2]), Err(HelloError::NotTls));
    }

    #[test]
    fn a_message_that_can_be_read_in_two_ways_is_refused() {
        let twice = [name_extension(b"a.test"), name_extension(b"b.test")].concat();
        assert_eq!(
            read(&records(&message(&twice), MAX_RECORD)),
            Err(HelloError::Malformed)
        );
        let mut longer = message(&name_extension(b"a.test"));
        longer.push(0);
        assert_eq!(
            read(&records(&longer, MAX_RECORD)),
            Err(HelloError::Malformed)
        );
        for name in [
            b"a.test\0.b".as_slice(),
            b"",
            b"10.0.0.1",
            b"a b",
            "ü.test".as_bytes(),
        ] {
            let message = message(&name_extension(name));
            assert_eq!(
                read(&records(&message, MAX_RECORD)),
                Err(HelloError::ServerName),
                "{name:?}"
            );
        }
    }

    #[test]
    fn an_endless_message_is_refused() {
        let mut huge = vec![1, 1, 0, 1];
        huge.resize(70 * 1024, 0);
        assert_eq!(read(&records(&huge, MAX_RECORD)), Err(HelloError::TooLong));
        let mut slow = vec![1, 0, 0xff, 0xff];
        slow.resize(60_000, 0);
        assert_eq!(read(&records(&slow, 1)), Err(HelloError::TooLong));
        assert_eq!(read(&[22, 3, 1, 0, 0]), Err(HelloError::Malformed));
        assert_eq!(read(&[22, 3, 1, 0x40, 1]), Err(HelloError::Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = read(&bytes);
            let _ = read(&records(&message(&bytes[..bytes.len().min(1_000)]), 16));
        }
    }
}

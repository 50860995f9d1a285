//! Heads of HTTP/1 messages, read strictly and written anew.
//!
//! Nothing of a head is passed on as it came: what is understood is written again, so that
//! the next reader cannot understand it differently. What can be read in two ways is refused
//! (RFC 9112, section 11.2).

use std::fmt::Write as _;

use wt_policy::{Destination, Host, Port};

/// The longest request or status line.
pub const MAX_LINE: usize = 8 * 1024;

/// The longest head: its first line and its fields. Cookies and tokens make the largest.
pub const MAX_HEAD: usize = 72 * 1024;

/// The most fields of a head.
pub const MAX_FIELDS: usize = 100;

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// A line does not end in CR LF, or a CR or NUL stands alone.
    #[error("a line does not end in CR LF, or contains a CR or NUL")]
    LineEnd,
    /// A field goes on in the next line (obs-fold).
    #[error("a header field goes on in the next line")]
    Folded,
    /// It is not HTTP/1.0 or 1.1.
    #[error("this is not the head of an HTTP/1 message")]
    Syntax,
    /// The first line, the fields or their number are too large.
    #[error("the head is too large")]
    TooLarge,
    /// The target is not in a form that is served here.
    #[error("the request target is not HOST:PORT, http://HOST/PATH or /PATH")]
    Target,
    /// There is no `Host`, more than one, or one that differs from the target.
    #[error("the Host field is missing, doubled, or differs from the target")]
    Host,
    /// The length of the body can be read in more than one way.
    #[error("the length of the body is not clear")]
    Length,
    /// A reply switches to something that was not asked for.
    #[error("the server switches to another protocol without being asked")]
    Upgrade,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `CONNECT host:port`.
    Tunnel(Destination),
    /// A resource: where it is, if the target or the `Host` field says so, and its path.
    Resource {
        /// Whether the target was in absolute form, as for a proxy.
        absolute: bool,
        /// Host and port.
        destination: Destination,
        /// The path and query, at least `/`.
        path: String,
    },
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// Until the sender closes; only of a reply.
    UntilClose,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    method: String,
    target: Target,
    fields: Vec<(String, Vec<u8>)>,
    body: Body,
    keep_alive: bool,
    old: bool,
    websocket: bool,
}

impl RequestHead {
    /// Reads a head, with the empty line at its end.
    ///
    /// # Errors
    ///
    /// When it is not exactly one well-formed head.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeadError> {
        check_lines(bytes)?;
        let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut storage);
        let end = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(end)) => end,
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
            Ok(httparse::Status::Partial) | Err(_) => return Err(HeadError::Syntax),
        };
        let (Some(method), Some(target), Some(version)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(HeadError::Syntax);
        };
        // The line that httparse read must be the line that is there: it skips empty ones.
        if end != bytes.len() || !bytes.starts_with(method.as_bytes()) {
            return Err(HeadError::Syntax);
        }
        let old = version == 0;
        let fields = Fields::read(parsed.headers)?;
        let host = fields.host(old)?;
        let target = parse_target(method, target, host)?;
        let body = match fields.body()? {
            Body::Chunked if old => return Err(HeadError::Length),
            Body::UntilClose => Body::Length(0),
            body => body,
        };
        let websocket = fields.websocket(method, body);
        Ok(Self {
            method: method.to_owned(),
            target,
            keep_alive: fields.keep_alive(old),
            fields: fields.end_to_end()?,
            body,
            old,
            websocket,
        })
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// What it is about.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How long its body is; never until the close.
    pub fn body(&self) -> Body {
        self.body
    }

    /// Whether the client waits with another request.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether it comes from before HTTP/1.1, so that the reply must not be in chunks.
    pub fn is_old(&self) -> bool {
        self.old
    }

    /// Whether it asks to go on as a websocket.
    pub fn websocket(&self) -> bool {
        self.websocket
    }

    /// Writes the head for the server: origin form, the normalised host, no field that
    /// concerns the connection of the client, and one request to a connection.
    pub fn to_server(&self) -> Vec<u8> {
        let Target::Resource {
            destination, path, ..
        } = &self.target
        else {
            return Vec::new();
        };
        let mut head = format!(
            "{} {path} HTTP/1.1\r\nHost: {}",
            self.method, destination.host
        );
        if destination.port != Port::HTTP {
            let _ = write!(head, ":{}", destination.port);
        }
        head.push_str("\r\n");
        let mut head = head.into_bytes();
        write_fields(&mut head, &self.fields);
        match self.body {
            Body::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            // A request that had no length keeps none, as a GET.
            Body::Length(0) if !matches!(self.method.as_str(), "POST" | "PUT" | "PATCH") => {}
            Body::Length(length) => {
                head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
            }
            Body::UntilClose => {}
        }
        head.extend_from_slice(match self.websocket {
            true => b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            false => b"Connection: close\r\n\r\n",
        });
        head
    }
}

/// The head of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
    body: Body,
    upgraded: bool,
}

impl ReplyHead {
    /// Reads the head of the reply to `request`.
    ///
    /// # Errors
    ///
    /// When it is not exactly one well-formed head, or switches protocols unasked.
    pub fn parse(bytes: &[u8], request: &RequestHead) -> Result<Self, HeadError> {
        check_lines(bytes)?;
        let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut storage);
        let end = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(end)) => end,
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
            Ok(httparse::Status::Partial) | Err(_) => return Err(HeadError::Syntax),
        };
        let status = parsed.code.ok_or(HeadError::Syntax)?;
        if end != bytes.len() || !bytes.starts_with(b"HTTP/1.") || !(100..=999).contains(&status) {
            return Err(HeadError::Syntax);
        }
        let upgraded = status == 101;
        if upgraded && !request.websocket {
            return Err(HeadError::Upgrade);
        }
        let fields = Fields::read(parsed.headers)?;
        let bodiless = request.method == "HEAD" || status < 200 || status == 204 || status == 304;
        let body = match fields.body()? {
            _ if bodiless => Body::Length(0),
            body => body,
        };
        let mut kept = fields.end_to_end()?;
        // What a HEAD would have fetched is told, though it does not come.
        if bodiless
            && request.method == "HEAD"
            && let Some(length) = fields.get("content-length")
        {
            kept.push(("Content-Length".to_owned(), length.to_vec()));
        }
        Ok(Self {
            status,
            fields: kept,
            body,
            upgraded,
        })
    }

    /// Whether another head follows, as after `100 Continue`.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && !self.upgraded
    }

    /// Whether the connection goes on as a websocket.
    pub fn is_upgraded(&self) -> bool {
        self.upgraded
    }

    /// How long its body is.
    pub fn body(&self) -> Body {
        self.body
    }

    /// Writes the head for the client. `chunked` says in which form the body follows when
    /// it came in chunks; `keep_alive`, whether another request may follow.
    pub fn to_client(&self, chunked: bool, keep_alive: bool) -> Vec<u8> {
        let reason = if self.upgraded {
            "Switching Protocols"
        } else {
            ""
        };
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", self.status).into_bytes();
        write_fields(&mut head, &self.fields);
        if self.upgraded {
            head.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
            return head;
        }
        let told = self
            .fields
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        match self.body {
            Body::Chunked if chunked => {
                head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            }
            // These have no length of their own.
            Body::Length(_) if told || matches!(self.status, 100..=199 | 204 | 304) => {}
            Body::Length(length) => {
                head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
            }
            Body::Chunked | Body::UntilClose => {}
        }
        if !self.is_interim() {
            head.extend_from_slice(match keep_alive {
                true => b"Connection: keep-alive\r\n".as_slice(),
                false => b"Connection: close\r\n",
            });
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

/// Where a head ends, if it does: after its empty line. A head with bare LFs ends, too, so
/// that it is refused at once and not waited for.
pub fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    // The end may straddle what was looked at before.
    let start = from.saturating_sub(3);
    let mut at = start;
    while let Some(found) = bytes[at..].iter().position(|b| *b == b'\n') {
        let next = at + found + 1;
        match &bytes[next..] {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => at = next,
        }
    }
    None
}

/// Reads the size of a chunk: hexadecimal digits, then perhaps an extension, which is
/// dropped.
///
/// # Errors
///
/// When there is no size or it is larger than any body.
pub fn chunk_size(line: &[u8]) -> Result<u64, HeadError> {
    let digits = line
        .iter()
        .position(|b| !b.is_ascii_hexdigit())
        .unwrap_or(line.len());
    let (digits, rest) = line.split_at(digits);
    let clean = matches!(rest, [] | [b';', ..]) && !rest.contains(&b'\r') && !rest.contains(&0);
    // Fifteen digits cannot overflow what is counted with, and no body is longer.
    if digits.is_empty() || digits.len() > 15 || !clean {
        return Err(HeadError::Length);
    }
    Ok(digits.iter().fold(0, |sum, digit| {
        let value = char::from(*digit).to_digit(16).unwrap_or(0);
        sum << 4 | u64::from(value)
    }))
}

fn check_lines(bytes: &[u8]) -> Result<(), HeadError> {
    if bytes.len() > MAX_HEAD {
        return Err(HeadError::TooLarge);
    }
    if bytes.contains(&0) {
        return Err(HeadError::LineEnd);
    }
    let mut first = true;
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some(end) = rest.iter().position(|b| *b == b'\n') else {
            return Err(HeadError::LineEnd);
        };
        let line = rest[..end].strip_suffix(b"\r").ok_or(HeadError::LineEnd)?;
        if line.contains(&b'\r') {
            return Err(HeadError::LineEnd);
        }
        if first && line.len() > MAX_LINE {
            return Err(HeadError::TooLarge);
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(HeadError::Folded);
        }
        first = false;
        rest = &rest[end + 1..];
    }
    Ok(())
}

fn parse_target(method: &str, target: &str, host: Option<&str>) -> Result<Target, HeadError> {
    if !target.bytes().all(|b| b.is_ascii_graphic()) || target.contains('#') {
        return Err(HeadError::Target);
    }
    if method == "CONNECT" {
        return Destination::parse(target)
            .map(Target::Tunnel)
            .map_err(|_| HeadError::Target);
    }
    let said = host
        .map(authority)
        .transpose()
        .map_err(|_| HeadError::Host)?;
    if target.starts_with('/') {
        return Ok(Target::Resource {
            absolute: false,
            destination: said.ok_or(HeadError::Host)?,
            path: target.to_owned(),
        });
    }
    let rest = match target.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http://") => rest,
        _ => return Err(HeadError::Target),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let destination = authority(place)?;
    if said.is_some_and(|said| said != destination) {
        return Err(HeadError::Host);
    }
    let path = match path {
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    Ok(Target::Resource {
        absolute: true,
        destination,
        path,
    })
}

/// Reads `HOST` or `HOST:PORT` of the scheme http.
fn authority(text: &str) -> Result<Destination, HeadError> {
    let in_brackets = text.ends_with(']');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !in_brackets => (host, port.parse().map_err(|_| HeadError::Target)?),
        _ => (text, Port::HTTP),
    };
    Ok(Destination {
        host: Host::parse(host).map_err(|_| HeadError::Target)?,
        port,
    })
}

/// The fields of a head with lower-case names.
struct Fields(Vec<(String, Vec<u8>)>);

/// Fields that concern one connection, or that are written anew.
const NOT_PASSED_ON: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, HeadError> {
        // A field without a name is no field; httparse has checked the rest.
        if headers.iter().any(|header| header.name.is_empty()) {
            return Err(HeadError::Syntax);
        }
        Ok(Self(
            headers
                .iter()
                .map(|header| (header.name.to_owned(), header.value.to_vec()))
                .collect(),
        ))
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0
            .iter()
            .filter(move |(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        self.0
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
    }

    /// Whether a list field has a word, in any of its lines.
    fn has_word(&self, name: &str, word: &str) -> bool {
        self.words(name).any(|w| w.eq_ignore_ascii_case(word))
    }

    fn words<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        self.all(name).flat_map(|value| {
            String::from_utf8_lossy(value)
                .split(',')
                .map(|word| word.trim().to_owned())
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
        })
    }

    fn host(&self, old: bool) -> Result<Option<&str>, HeadError> {
        let mut hosts = self.all("host");
        match (hosts.next(), hosts.next()) {
            (Some(host), None) => std::str::from_utf8(host)
                .map(Some)
                .map_err(|_| HeadError::Host),
            (None, None) if old => Ok(None),
            // A client of HTTP/1.1 must send it (RFC 9112, section 3.2), CONNECT too.
            _ => Err(HeadError::Host),
        }
    }

    fn body(&self) -> Result<Body, HeadError> {
        let codings: Vec<&[u8]> = self.all("transfer-encoding").collect();
        let lengths: Vec<&[u8]> = self.all("content-length").collect();
        match (codings.as_slice(), lengths.as_slice()) {
            ([], []) => Ok(Body::UntilClose),
            ([coding], []) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::Chunked),
            ([], [length]) => {
                let plain =
                    (1..=18).contains(&length.len()) && length.iter().all(u8::is_ascii_digit);
                std::str::from_utf8(length)
                    .ok()
                    .filter(|_| plain)
                    .and_then(|length| length.parse().ok())
                    .map(Body::Length)
                    .ok_or(HeadError::Length)
            }
            _ => Err(HeadError::Length),
        }
    }

    fn keep_alive(&self, old: bool) -> bool {
        let says =
            |word| self.has_word("connection", word) || self.has_word("proxy-connection", word);
        !says("close") && (!old || says("keep-alive"))
    }

    /// Whether the request asks for a websocket. Any other upgrade, like the h2c that some
    /// clients offer with each request, is an offer that the server never sees.
    fn websocket(&self, method: &str, body: Body) -> bool {
        let wanted: Vec<String> = self.words("upgrade").collect();
        matches!(wanted.as_slice(), [one] if one.eq_ignore_ascii_case("websocket"))
            && self.has_word("connection", "upgrade")
            && method == "GET"
            && body == Body::Length(0)
    }

    /// What is passed on.
    fn end_to_end(&self) -> Result<Vec<(String, Vec<u8>)>, HeadError> {
        let named: Vec<String> = self.words("connection").collect();
        Ok(self
            .0
            .iter()
            .filter(|(name, _)| {
                let is = |other: &str| name.eq_ignore_ascii_case(other);
                !NOT_PASSED_ON.iter().any(|other| is(other)) && !named.iter().any(|other| is(other))
            })
            .cloned()
            .collect())
    }
}

fn write_fields(head: &mut Vec<u8>, fields: &[(String, Vec<u8>)]) {
    for (name, value) in fields {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<RequestHead, HeadError> {
        RequestHead::parse(text.as_bytes())
    }

    #[track_caller]
    fn refused(text: &str, why: HeadError) {
        assert_eq!(parse(text), Err(why), "{text:?}");
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        let head = parse("CONNECT EXAMPLE.com.:443 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(
            head.target(),
            &Target::Tunnel(Destination::parse("example.com:443").unwrap())
        );
        for target in [
            "example.com",
            "example.com:0443",
            "example.com:+443",
            "example.com:65536",
            "example.com%00.evil:443",
            "[fe80::1%eth0]:443",
            "a@example.com:443",
            "http://example.com:443",
            "/",
            "0x7f.1:80",
            "2130706433:80",
        ] {
            refused(
                &format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n"),
                HeadError::Target,
            );
        }
        for bad in ["a\0b:443", "a\rb:443"] {
            refused(
                &format!("CONNECT {bad} HTTP/1.1\r\nHost: x\r\n\r\n"),
                HeadError::LineEnd,
            );
        }
        refused(
            "CONNECT a b:443 HTTP/1.1\r\nHost: x\r\n\r\n",
            HeadError::Syntax,
        );
    }

    #[test]
    fn a_request_is_written_anew_for_the_server() {
        let head = parse(
            "GET http://Example.com/a?b HTTP/1.1\r\nHost: example.COM:80\r\nAccept: */*\r\n\
             Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nProxy-Authorization: Basic x\r\n\
             Keep-Alive: timeout=5\r\nTE: trailers\r\n\r\n",
        )
        .unwrap();

        assert!(head.keep_alive());
        assert_eq!(
            String::from_utf8(head.to_server()).unwrap(),
            "GET /a?b HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_target_and_its_host_field_agree() {
        let absolute = |host| format!("GET http://example.com/ HTTP/1.1\r\n{host}\r\n");
        parse(&absolute("Host: example.com\r\n")).unwrap();
        refused(&absolute("Host: evil.test\r\n"), HeadError::Host);
        refused(&absolute("Host: example.com:81\r\n"), HeadError::Host);
        refused(
            &absolute("Host: example.com\r\nHost: example.com\r\n"),
            HeadError::Host,
        );
        refused(&absolute(""), HeadError::Host);
        refused("GET / HTTP/1.1\r\n\r\n", HeadError::Host);
        refused("GET / HTTP/1.0\r\n\r\n", HeadError::Host);
        refused("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HeadError::Host);
    }

    #[test]
    fn targets_that_readers_take_differently_are_refused() {
        for target in [
            "http://example.com@evil.test/",
            "http://example.com/#x",
            "https://example.com/",
            "ftp://example.com/",
            "example.com",
            "*",
            "http:///x",
            "http://",
            "http://exa%6dple.com/",
            "http://example.com:0/",
            "http://example.com\\@evil.test/",
        ] {
            refused(
                &format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n\r\n"),
                HeadError::Target,
            );
        }
    }

    #[test]
    fn a_length_that_can_be_read_in_two_ways_is_refused() {
        let post = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        assert_eq!(
            parse(&post("Content-Length: 5\r\n")).unwrap().body(),
            Body::Length(5)
        );
        assert_eq!(
            parse(&post("Transfer-Encoding: Chunked\r\n"))
                .unwrap()
                .body(),
            Body::Chunked
        );
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 9999999999999999999\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        ] {
            refused(&post(fields), HeadError::Length);
        }
        refused(
            "POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
            HeadError::Length,
        );
    }

    #[test]
    fn lines_that_readers_take_differently_are_refused() {
        refused("GET / HTTP/1.1\nHost: a.test\n\n", HeadError::LineEnd);
        refused(
            "GET / HTTP/1.1\r\nHost: a.test\r\nA: b\rC: d\r\n\r\n",
            HeadError::LineEnd,
        );
        refused(
            "GET / HTTP/1.1\r\nHost: a.test\r\nA: b\nC: d\r\n\r\n",
            HeadError::LineEnd,
        );
        refused(
            "GET / HTTP/1.1\r\nHost: a.test\r\nA: b\0\r\n\r\n",
            HeadError::LineEnd,
        );
        refused(
            "GET / HTTP/1.1\r\nHost: a.test\r\nA: b\r\n c\r\n\r\n",
            HeadError::Folded,
        );
        refused("GET / HTTP/1.1\r\nHost : a.test\r\n\r\n", HeadError::Syntax);
        refused(
            "\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            HeadError::Syntax,
        );
        refused("GET / HTTP/2.0\r\nHost: a.test\r\n\r\n", HeadError::Syntax);
        refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HeadError::Syntax);
        refused(
            "GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET",
            HeadError::LineEnd,
        );
        refused(
            &format!(
                "GET /{} HTTP/1.1\r\nHost: a.test\r\n\r\n",
                "a".repeat(MAX_LINE)
            ),
            HeadError::TooLarge,
        );
        let many = "A: b\r\n".repeat(MAX_FIELDS);
        refused(
            &format!("GET / HTTP/1.1\r\nHost: a.test\r\n{many}\r\n"),
            HeadError::TooLarge,
        );
    }

    #[test]
    fn only_a_websocket_takes_a_connection_over() {
        let upgrade = |fields: &str| {
            let head = parse(&format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n")).unwrap();
            let sent = String::from_utf8(head.to_server())
                .unwrap()
                .to_ascii_lowercase();
            assert_eq!(head.websocket(), sent.contains("upgrade"), "{sent}");
            assert!(
                !sent.contains("h2c") && !sent.contains("http2-settings"),
                "{sent}"
            );
            head.websocket()
        };
        assert!(upgrade(
            "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
        ));
        for other in [
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
            "Upgrade: websocket\r\n",
            "Connection: upgrade\r\nUpgrade: websocket, h2c\r\n",
            "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n",
        ] {
            assert!(!upgrade(other), "{other:?}");
        }
    }

    #[test]
    fn a_reply_says_how_long_it_is() {
        let get = parse("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        let head = parse("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        let reply = |text: &str, request| ReplyHead::parse(text.as_bytes(), request);
        let body = |text: &str, request| reply(text, request).unwrap().body();

        assert_eq!(
            body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", &get),
            Body::Length(3)
        );
        assert_eq!(
            body(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                &get
            ),
            Body::Chunked
        );
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\n", &get), Body::UntilClose);
        assert_eq!(body("HTTP/1.1 304 OK\r\n\r\n", &get), Body::Length(0));
        let told = reply("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", &head).unwrap();
        assert_eq!(told.body(), Body::Length(0));
        assert_eq!(
            told.to_client(true, true),
            b"HTTP/1.1 200 \r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n"
        );
        assert_eq!(
            reply("HTTP/1.1 101 OK\r\n\r\n", &get),
            Err(HeadError::Upgrade)
        );
        assert!(
            reply("HTTP/1.1 100 Continue\r\n\r\n", &get)
                .unwrap()
                .is_interim()
        );
        assert_eq!(
            reply(
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                &get
            ),
            Err(HeadError::Length)
        );
    }

    #[test]
    fn a_head_ends_at_its_empty_line() {
        assert_eq!(head_end(b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest", 0), Some(24));
        assert_eq!(head_end(b"GET / HTTP/1.1\n\nrest", 0), Some(16));
        assert_eq!(head_end(b"GET / HTTP/1.1\r\nA: b\r\n", 0), None);
        let whole = b"a\r\n\r\nb";
        for from in 0..=5 {
            assert_eq!(head_end(whole, from), Some(5), "{from}");
        }
    }

    #[test]
    fn a_chunk_has_a_plain_size() {
        assert_eq!(chunk_size(b"1aF"), Ok(0x1af));
        assert_eq!(chunk_size(b"0;a=b"), Ok(0));
        for bad in [
            "",
            "+1",
            "-1",
            "0x1",
            " 1",
            "1 ",
            "g",
            "1\r",
            "1000000000000000",
        ] {
            assert_eq!(
                chunk_size(bad.as_bytes()),
                Err(HeadError::Length),
                "{bad:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_on_reads_as_the_same_request(
            path in "/[a-z?&=%0-9]{0,20}",
            fields in proptest::collection::vec(("X-[A-Za-z]{1,10}", "[ -~]{0,20}"), 0..5),
        ) {
            let mut text = format!("GET http://example.com{path} HTTP/1.1\r\nHost: example.com\r\n");
            for (name, value) in &fields {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
            text.push_str("\r\n");
            let first = parse(&text).unwrap();
            let second = RequestHead::parse(&first.to_server()).unwrap();
            prop_assert_eq!(&first.fields, &second.fields);
            prop_assert_eq!(first.body, second.body);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = RequestHead::parse(&bytes);
            let _ = head_end(&bytes, bytes.len() / 2);
            let _ = chunk_size(&bytes);
        }
    }
}

//! The one normaliser of host names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};

/// The longest text that is looked at. A name of 253 bytes can be longer in Unicode; the
/// conversion takes time that grows faster than its input, so it gets no book to read.
const MAX_TEXT: usize = 1_024;

/// The longest name in its final form (RFC 1035, section 2.3.4, in text).
const MAX_NAME: usize = 253;

/// The longest label in its final form (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// A host name in its one spelling: lower case, A-labels (RFC 5890), no final dot, never
/// an address in any notation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// A host as somebody names it: by a name or by an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// By a name, which has to be resolved.
    Name(HostName),
    /// By an address in its usual notation. An IPv4 address that is written as an IPv6 one
    /// (`::ffff:10.0.0.1`) is kept as IPv4.
    Address(IpAddr),
}

/// Why a text names no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is nothing.
    #[error("the host is empty")]
    Empty,
    /// It is longer than any name.
    #[error("the host is longer than a host name can be (253 characters, 63 in a part)")]
    TooLong,
    /// It contains bytes that no name contains, or that readers take differently.
    #[error("the host contains a character that no host name has")]
    Character,
    /// It is percent-encoded, or has the zone of an interface.
    #[error("the host contains a percent sign: neither encoded names nor zones are accepted")]
    Percent,
    /// Two dots meet, or it begins with one.
    #[error("the host has an empty part between its dots")]
    EmptyLabel,
    /// A part begins or ends with a dash.
    #[error("a part of the host begins or ends with a dash")]
    Dash,
    /// Its last part is a number, and the whole is not the usual notation of an address.
    #[error(
        "the host looks like an address in an unusual notation: write four decimal numbers, or \
         an IPv6 address in brackets"
    )]
    UnusualAddress,
    /// It is not a valid internationalised name.
    #[error("the host is not a valid international domain name (UTS 46)")]
    International,
    /// It is an address where a name is wanted.
    #[error("the host is an address, and only a name will do here")]
    Address,
}

impl HostName {
    /// Brings a name into its one spelling.
    ///
    /// # Errors
    ///
    /// Everything that is not a name, and addresses in any notation.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        match Host::parse(text)? {
            Host::Name(name) => Ok(name),
            Host::Address(_) => Err(HostError::Address),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name is below `parent`, at any depth: `a.b.example` is below
    /// `example`, and `example` is not below itself.
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0
            .strip_suffix(&parent.0)
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }

    /// Whether the name stands for the machine itself (RFC 6761, section 6.3).
    pub fn is_localhost(&self) -> bool {
        self.0 == "localhost" || self.0.ends_with(".localhost")
    }

    /// Its parts between the dots, from the left.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('.')
    }
}

impl Host {
    /// Brings a host into its one spelling: a name, four decimal numbers, or an IPv6 address in
    /// brackets.
    ///
    /// # Errors
    ///
    /// Everything else, above all whatever another reader might take for an address.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_TEXT {
            return Err(HostError::TooLong);
        }
        if text.contains('%') {
            return Err(HostError::Percent);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Character)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostError::Character)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        name(text).map(Self::Name)
    }

    /// The name, if it is one.
    pub fn name(&self) -> Option<&HostName> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

fn name(text: &str) -> Result<HostName, HostError> {
    let is_bad = |c: char| c.is_control() || c.is_whitespace() || "[]:/\\@?#".contains(c);
    if text.contains(is_bad) {
        return Err(HostError::Character);
    }
    let relative = text.strip_suffix('.').unwrap_or(text);
    if relative.is_empty() {
        return Err(HostError::EmptyLabel);
    }
    let ascii = Uts46::new()
        .to_ascii(
            relative.as_bytes(),
            AsciiDenyList::EMPTY,
            Hyphens::Allow,
            DnsLength::Ignore,
        )
        .map_err(|_| HostError::International)?;
    if ascii.len() > MAX_NAME {
        return Err(HostError::TooLong);
    }
    let last = ascii.rsplit('.').next().unwrap_or_default();
    for label in ascii.split('.') {
        check_label(label)?;
    }
    if last.contains('_') {
        return Err(HostError::Character);
    }
    if is_number(last) {
        return Err(HostError::UnusualAddress);
    }
    Ok(HostName(ascii.into_owned()))
}

fn check_label(label: &str) -> Result<(), HostError> {
    if label.is_empty() {
        return Err(HostError::EmptyLabel);
    }
    if label.len() > MAX_LABEL {
        return Err(HostError::TooLong);
    }
    // Underscores name services and are common below a domain (RFC 8552).
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    if !label.bytes().all(fits) {
        return Err(HostError::Character);
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(HostError::Dash);
    }
    Ok(())
}

/// Whether `inet_aton` could take the last part for a number: decimal, octal or, after
/// `0x`, hexadecimal. No top-level domain is one, so that nothing is lost by refusing
/// whatever ends in it.
fn is_number(label: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    digits(label) || label.strip_prefix("0x").is_some_and(hex)
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows the host as it stands before `:port`: an IPv6 address has brackets.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl FromStr for HostName {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for HostName {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        Self::parse(&text)
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled(text: &str) -> String {
        HostName::parse(text).unwrap().to_string()
    }

    #[track_caller]
    fn refused(text: &str, why: HostError) {
        assert_eq!(Host::parse(text), Err(why), "{text:?}");
    }

    #[test]
    fn a_name_has_one_spelling() {
        assert_eq!(spelled("EXAMPLE.Com."), "example.com");
        assert_eq!(spelled("BÜCHER.example"), "xn--bcher-kva.example");
        assert_eq!(spelled("bu\u{308}cher.example"), "xn--bcher-kva.example");
        assert_eq!(spelled("XN--BCHER-KVA.example"), "xn--bcher-kva.example");
        assert_eq!(spelled("example。com"), "example.com");
        assert_eq!(spelled("_acme.host_a.example"), "_acme.host_a.example");
        assert_eq!(spelled("r3---sn.example"), "r3---sn.example");
        assert_eq!(spelled("intranet"), "intranet");
        assert_eq!(spelled("1.2.3.4.in-addr.arpa"), "1.2.3.4.in-addr.arpa");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        refused("", HostError::Empty);
        refused(".", HostError::EmptyLabel);
        refused("a..b", HostError::EmptyLabel);
        refused(".a", HostError::EmptyLabel);
        refused("a..", HostError::EmptyLabel);
        refused("evil.test\0.example.com", HostError::Character);
        refused("a\r\nb", HostError::Character);
        refused("a b", HostError::Character);
        refused("a\u{a0}b", HostError::Character);
        refused("user@example.com", HostError::Character);
        refused("example.com/", HostError::Character);
        refused("example.com:443", HostError::Character);
        refused("a\\b", HostError::Character);
        refused("a*.example", HostError::Character);
        refused("a.b_", HostError::Character);
        refused("example.com%00.evil", HostError::Percent);
        refused("[fe80::1%eth0]", HostError::Percent);
        refused("-a.example", HostError::Dash);
        refused("a-.example", HostError::Dash);
        refused("xn--a.example", HostError::International);
        refused(&format!("{}.example", "a".repeat(64)), HostError::TooLong);
        refused(&"a.".repeat(200), HostError::TooLong);
        refused(&"ü".repeat(2_000), HostError::TooLong);
        refused("[::1", HostError::Character);
        refused("[::1]x", HostError::Character);
        refused("[]", HostError::Character);
        refused("[1.2.3.4]", HostError::Character);
        refused("::1", HostError::Character);
    }

    #[test]
    fn an_address_has_its_usual_notation() {
        let address = |text: &str| match Host::parse(text).unwrap() {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => panic!("{name} is a name"),
        };
        assert_eq!(address("127.0.0.1"), "127.0.0.1");
        assert_eq!(address("[::1]"), "::1");
        assert_eq!(address("[0:0::1]"), "::1");
        assert_eq!(address("[::ffff:10.0.0.1]"), "10.0.0.1");
        assert_eq!(
            Host::parse("[2001:DB8::1]").unwrap().to_string(),
            "[2001:db8::1]"
        );
        assert_eq!(HostName::parse("127.0.0.1"), Err(HostError::Address));
    }

    #[test]
    fn every_other_notation_of_an_address_is_refused() {
        for text in [
            "0x7f.1",
            "2130706433",
            "127.1",
            "0177.0.0.1",
            "0x7f000001",
            "127.0.0.1.",
            "1.2.3",
            "0x",
            "0",
            "00.0.0.0",
            "1.2.3.4.5",
            "256.1.1.1",
            "0X7F.0.0.1",
            "１２７.0.0.1",
            "127。0。0。1",
            "a.0x1",
            "1.2.3.08",
            "①.1",
        ] {
            refused(text, HostError::UnusualAddress);
        }
    }

    /// What glibc's `inet_aton` reads, written again for comparison.
    fn inet_aton(text: &str) -> Option<u32> {
        let parts: Vec<u64> = text
            .split('.')
            .map(|part| {
                let lower = part.to_ascii_lowercase();
                let (digits, radix) = match lower.strip_prefix("0x") {
                    Some(hex) => (hex, 16),
                    None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
                    None => (lower.as_str(), 10),
                };
                u64::from_str_radix(digits, radix).ok()
            })
            .collect::<Option<_>>()?;
        let (last, head) = parts.split_last()?;
        let room = 4_u32.checked_sub(u32::try_from(head.len()).ok()?)?;
        if room == 0 || head.iter().any(|part| *part > 255) || *last >= 1 << (8 * room) {
            return None;
        }
        let high = head.iter().fold(0, |sum, part| sum << 8 | part) << (8 * room);
        u32::try_from(high | last).ok()
    }

    proptest! {
        #[test]
        fn nothing_that_inet_aton_reads_is_a_name(
            text in "(0[xX])?[0-9a-fA-F]{1,8}(\\.(0[xX])?[0-9a-fA-F]{1,4}){0,4}\\.?"
        ) {
            let read = inet_aton(text.strip_suffix('.').unwrap_or(&text));
            match Host::parse(&text) {
                Ok(Host::Name(_)) => prop_assert_eq!(read, None),
                Ok(Host::Address(IpAddr::V4(address))) => {
                    prop_assert_eq!(read, Some(u32::from(address)));
                }
                Ok(Host::Address(IpAddr::V6(_))) => prop_assert!(false),
                Err(_) => {}
            }
        }

        #[test]
        fn addresses_are_those_that_std_reads(text in "[0-9.]{1,16}") {
            let host = Host::parse(&text).ok();
            let std = text.parse::<Ipv4Addr>().ok();
            prop_assert_eq!(host, std.map(|address| Host::Address(address.into())));
        }

        #[test]
        fn addresses_in_brackets_are_those_that_std_reads(text in "[0-9a-f:.]{1,40}") {
            let host = Host::parse(&format!("[{text}]")).ok();
            let std = text.parse::<Ipv6Addr>().ok();
            prop_assert_eq!(
                host,
                std.map(|address| Host::Address(IpAddr::V6(address).to_canonical()))
            );
        }

        #[test]
        fn a_spelling_is_final(text in "\\PC{0,40}|[a-zA-ZäÖß0-9_.。-]{1,40}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
                let shown = host.to_string();
                prop_assert!(shown.is_ascii() && !shown.contains(|c: char| c.is_ascii_uppercase()));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(text in any::<String>()) {
            let _ = Host::parse(&text);
        }
    }
}

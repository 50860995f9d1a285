//! Rules that allow hosts, as they are written in a policy.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::suffixes::is_shared;
use super::{AddressClass, AddressRange, Host, HostError, HostName, Port, PortError};

/// Hosts that may be reached, and at which ports.
///
/// As text: `example.com`, `*.example.com` (every name below it, at any depth, not the name
/// itself), `192.0.2.7`, `[2001:db8::7]`, `10.1.0.0/16`, `[fd00:1::/32]`, each with an
/// optional `:PORT` or `:*`; without one the port is 443. `*` alone is every public host
/// at every port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    pattern: HostPattern,
    ports: Ports,
}

/// The hosts of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// This name and no other.
    Name(HostName),
    /// Every name below this one, without it.
    Below(HostName),
    /// Every address in a range; a single address is a range of one.
    Range(AddressRange),
    /// Every public host.
    Any,
}

/// The ports of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ports {
    /// One.
    One(Port),
    /// Every port.
    All,
}

impl Ports {
    /// Whether `port` is among them.
    pub fn contains(self, port: Port) -> bool {
        match self {
            Self::One(one) => one == port,
            Self::All => true,
        }
    }
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a rule for hosts: {why}")]
pub struct RuleError {
    text: String,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("{0}")]
    Host(#[from] HostError),
    #[error("{0}")]
    Port(#[from] PortError),
    #[error("leave out `{0}`: a rule is a host and, if it is not 443, a port")]
    Scheme(String),
    #[error("a rule names a host without a path")]
    Path,
    #[error("write an IPv6 address in brackets, as in [2001:db8::1]:443")]
    Brackets,
    #[error(
        "a star stands for whole parts at the front (*.example.com), or alone for every public \
         host at every port"
    )]
    Star,
    #[error(
        "everybody can get a name below {0}, so that the star would allow strangers: name the \
         hosts, as in project.{0}"
    )]
    Shared(HostName),
    #[error("the machine itself is reached port by port: write localhost:PORT")]
    LocalPort,
    #[error("{0} cannot be allowed by a rule")]
    Class(AddressClass),
    #[error(
        "a range is an address, a slash and the bits that are fixed, as in 10.1.0.0/16, with no other bit set"
    )]
    Range,
}

impl HostPattern {
    /// Whether it covers every host that another pattern covers.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(one), Self::Name(two)) => one == two,
            (Self::Below(parent), Self::Name(name)) => name.is_below(parent),
            (Self::Below(parent), Self::Below(below)) => below == parent || below.is_below(parent),
            (Self::Range(outer), Self::Range(inner)) => outer.includes(inner),
            (Self::Any, Self::Name(_) | Self::Below(_) | Self::Any) => true,
            (Self::Any, Self::Range(range)) => {
                range.is_single() && AddressClass::of(range.address()) == AddressClass::Public
            }
            (Self::Name(_) | Self::Below(_) | Self::Range(_), _) => false,
        }
    }
}

impl HostRule {
    /// Makes the rule for one name and one port.
    pub fn exact(name: HostName, port: Port) -> Self {
        Self {
            pattern: HostPattern::Name(name),
            ports: Ports::One(port),
        }
    }

    /// Which hosts it allows.
    pub fn pattern(&self) -> &HostPattern {
        &self.pattern
    }

    /// At which ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Whether it is `*`: every public host at every port.
    pub fn is_any(&self) -> bool {
        self.pattern == HostPattern::Any
    }

    /// The port of the machine itself that it stands for, if it names `localhost`,
    /// `127.0.0.1` or `[::1]`.
    ///
    /// Such a rule allows no destination: it is a wish for a local port.
    pub fn local_port(&self) -> Option<Port> {
        let local = match &self.pattern {
            HostPattern::Name(name) => name.is_localhost(),
            HostPattern::Range(range) => {
                AddressClass::of(range.address()) == AddressClass::Loopback
            }
            HostPattern::Below(_) | HostPattern::Any => false,
        };
        match self.ports {
            Ports::One(port) if local => Some(port),
            _ => None,
        }
    }

    /// Whether it covers a host, whatever the port. `*` covers public addresses alone, and
    /// every name: what a name resolves to is looked at later.
    pub fn covers(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (HostPattern::Name(rule), Host::Name(name)) => rule == name,
            (HostPattern::Below(rule), Host::Name(name)) => name.is_below(rule),
            (HostPattern::Range(range), Host::Address(address)) => range.contains(*address),
            (HostPattern::Any, Host::Name(_)) => true,
            (HostPattern::Any, Host::Address(address)) => {
                AddressClass::of(*address) == AddressClass::Public
            }
            (HostPattern::Name(_) | HostPattern::Below(_), Host::Address(_))
            | (HostPattern::Range(_), Host::Name(_)) => false,
        }
    }

    /// What both rules allow. Of two patterns one lies within the other or they have
    /// nothing in common, and so do ports, so that one rule can always say it.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let ports = match (self.ports, other.ports) {
            (Ports::All, ports) | (ports, Ports::All) => ports,
            (Ports::One(one), Ports::One(two)) if one == two => Ports::One(one),
            (Ports::One(_), Ports::One(_)) => return None,
        };
        let pattern = if self.pattern.includes(&other.pattern) {
            other.pattern.clone()
        } else if other.pattern.includes(&self.pattern) {
            self.pattern.clone()
        } else {
            return None;
        };
        Some(Self { pattern, ports })
    }

    /// Whether it allows a host at a port.
    pub fn allows(&self, host: &Host, port: Port) -> bool {
        self.ports.contains(port) && self.covers(host)
    }
}

impl FromStr for HostRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        parse(text).map_err(|why| RuleError {
            text: text.chars().take(80).collect(),
            why,
        })
    }
}

fn parse(text: &str) -> Result<HostRule, Why> {
    if text == "*" {
        return Ok(HostRule {
            pattern: HostPattern::Any,
            ports: Ports::All,
        });
    }
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(Why::Scheme(format!(
            "{}://",
            scheme.chars().take(16).collect::<String>()
        )));
    }
    let (host, port) = split_port(text)?;
    let pattern = pattern(host)?;
    let ports = match port {
        None => Ports::One(Port::HTTPS),
        Some("*") => Ports::All,
        Some(port) => Ports::One(port.parse()?),
    };
    let rule = HostRule { pattern, ports };
    let names_machine = match &rule.pattern {
        HostPattern::Name(name) => name.is_localhost(),
        HostPattern::Range(range) => AddressClass::of(range.address()) == AddressClass::Loopback,
        HostPattern::Below(_) | HostPattern::Any => false,
    };
    // A wish for a local port without a port is no wish for 443.
    if names_machine && (port.is_none() || rule.ports == Ports::All) {
        return Err(Why::LocalPort);
    }
    Ok(rule)
}

/// Takes `:PORT` off the end.
fn split_port(text: &str) -> Result<(&str, Option<&str>), Why> {
    if text.starts_with('[') {
        let end = text.find(']').ok_or(Why::Brackets)? + 1;
        let (host, rest) = text.split_at(end);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(Why::Brackets),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Err(Why::Brackets),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

fn pattern(host: &str) -> Result<HostPattern, Why> {
    if let Some(parent) = host.strip_prefix("*.") {
        if parent.contains('*') {
            return Err(Why::Star);
        }
        let parent = HostName::parse(parent)?;
        if parent.is_localhost() {
            return Err(Why::LocalPort);
        }
        if is_shared(&parent) {
            return Err(Why::Shared(parent));
        }
        return Ok(HostPattern::Below(parent));
    }
    if host.contains('*') {
        return Err(Why::Star);
    }
    let range = match host.contains('/') {
        true => range(host)?,
        false => match Host::parse(host)? {
            Host::Name(name) => return Ok(HostPattern::Name(name)),
            Host::Address(address) => AddressRange::single(address),
        },
    };
    match range.forbidden_class() {
        None => Ok(HostPattern::Range(range)),
        // `localhost` in numbers, and nothing around it.
        Some(AddressClass::Loopback) if is_localhost(&range) => Ok(HostPattern::Range(range)),
        Some(AddressClass::Loopback) => Err(Why::LocalPort),
        Some(class) => Err(Why::Class(class)),
    }
}

fn is_localhost(range: &AddressRange) -> bool {
    let localhost: [IpAddr; 2] = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
    range.is_single() && localhost.contains(&range.address())
}

fn range(text: &str) -> Result<AddressRange, Why> {
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or(Why::Brackets)?,
        None => text,
    };
    let (address, bits) = inner.split_once('/').ok_or(Why::Range)?;
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err(Why::Path);
    };
    if address.is_ipv6() != text.starts_with('[') {
        return Err(Why::Brackets);
    }
    let plain = bits == "0" || !bits.starts_with(['0', '+']);
    let bits = bits.parse().ok().filter(|_| plain).ok_or(Why::Range)?;
    AddressRange::new(address, bits).ok_or(Why::Range)
}

/// Shows the rule with its port, whether it was written or not.
impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            HostPattern::Name(name) => name.fmt(f)?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
            HostPattern::Range(range) => range.fmt(f)?,
            HostPattern::Any => return f.write_str("*"),
        }
        match self.ports {
            Ports::One(port) => write!(f, ":{port}"),
            Ports::All => f.write_str(":*"),
        }
    }
}

impl TryFrom<String> for HostRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> HostRule {
        text.parse().unwrap()
    }

    fn allows(rule_text: &str, host: &str, port: u16) -> bool {
        rule(rule_text).allows(&Host::parse(host).unwrap(), Port::new(port).unwrap())
    }

    #[test]
    fn a_rule_is_shown_in_one_way() {
        for (text, shown) in [
            ("example.com", "example.com:443"),
            ("Example.COM.:443", "example.com:443"),
            ("*.Bücher.example:*", "*.xn--bcher-kva.example:*"),
            ("example.com:8080", "example.com:8080"),
            ("203.0.113.10", "203.0.113.10:443"),
            ("[2001:DB8::1]:22", "[2001:db8::1]:22"),
            ("10.1.0.0/16:*", "10.1.0.0/16:*"),
            ("[fd00:1::/32]:5432", "[fd00:1::/32]:5432"),
            ("localhost:11434", "localhost:11434"),
            ("intranet", "intranet:443"),
            ("*", "*"),
        ] {
            assert_eq!(rule(text).to_string(), shown);
            assert_eq!(rule(shown), rule(text));
        }
    }

    #[test]
    fn a_name_is_matched_by_its_parts_and_never_by_its_letters() {
        assert!(allows("example.com", "example.com", 443));
        assert!(allows("example.com", "EXAMPLE.COM.", 443));
        for other in [
            "evil-example.com",
            "xexample.com",
            "example.com.evil.test",
            "a.example.com",
        ] {
            assert!(!allows("example.com", other, 443), "{other}");
        }
        assert!(allows("*.example.com", "a.example.com", 443));
        assert!(allows("*.example.com", "b.a.example.com", 443));
        for other in ["example.com", "evil-example.com", "a.example.com.evil.test"] {
            assert!(!allows("*.example.com", other, 443), "{other}");
        }
    }

    #[test]
    fn a_rule_without_a_port_means_https() {
        assert!(allows("example.com", "example.com", 443));
        for port in [22, 25, 80, 8443] {
            assert!(!allows("example.com", "example.com", port));
            assert!(allows("example.com:*", "example.com", port));
        }
        assert!(allows("example.com:80", "example.com", 80));
        assert!(!allows("example.com:80", "example.com", 443));
    }

    #[test]
    fn a_star_below_a_shared_suffix_is_refused() {
        for text in [
            "*.com",
            "*.github.io",
            "*.amazonaws.com",
            "*.co.uk",
            "*.com.au",
            "*.pages.dev:*",
        ] {
            let error = text.parse::<HostRule>().unwrap_err().to_string();
            assert!(error.contains("strangers"), "{error}");
        }
        rule("*.ada.github.io");
        rule("*.example.co.uk");
        rule("*.cursor.sh");
    }

    #[test]
    fn what_is_no_rule_is_refused_with_advice() {
        for (text, advice) in [
            ("", "empty"),
            ("https://example.com", "leave out"),
            ("example.com/path", "without a path"),
            ("**", "star"),
            ("*:443", "star"),
            ("*.*.example.com", "star"),
            ("a*.example.com", "star"),
            ("*.", "empty"),
            ("::1", "brackets"),
            ("2001:db8::1", "brackets"),
            ("[2001:db8::1", "brackets"),
            ("2001:db8::/32", "brackets"),
            ("example.com:0", "not a port"),
            ("example.com:0443", "not a port"),
            ("example.com:", "not a port"),
            ("localhost", "localhost:PORT"),
            ("127.0.0.1", "localhost:PORT"),
            ("127.0.0.1:*", "localhost:PORT"),
            ("127.0.0.2:80", "localhost:PORT"),
            ("*.localhost:80", "localhost:PORT"),
            ("0x7f.1:80", "unusual notation"),
            ("10.1.0.1/16", "no other bit"),
            ("10.1.0.0/33", "no other bit"),
            ("10.1.0.0/016", "no other bit"),
            ("169.254.169.254:80", "cannot be allowed"),
            ("169.254.0.0/16", "cannot be allowed"),
            ("0.0.0.0:80", "cannot be allowed"),
            ("0.0.0.0/0", "cannot be allowed"),
            ("[::/0]", "cannot be allowed"),
            ("[::ffff:169.254.169.254]:80", "cannot be allowed"),
            ("[64:ff9b::7f00:1]:80", "localhost:PORT"),
            ("100.64.0.0/10", "cannot be allowed"),
        ] {
            let error = text.parse::<HostRule>().unwrap_err().to_string();
            assert!(error.contains(advice), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_range_allows_its_addresses_and_no_other() {
        assert!(allows("10.1.0.0/16:80", "10.1.255.255", 80));
        assert!(!allows("10.1.0.0/16:80", "10.2.0.0", 80));
        assert!(allows("10.1.0.0/16:80", "[::ffff:10.1.0.1]", 80));
        assert!(!allows("10.1.0.0/16:80", "ten.example", 80));
        assert!(allows("[fd00:1::/32]", "[fd00:1:2::3]", 443));
        assert!(!allows("[fd00:1::/32]", "[fd00:2::3]", 443));
    }

    #[test]
    fn the_machine_itself_becomes_a_local_port() {
        for text in [
            "localhost:11434",
            "127.0.0.1:11434",
            "[::1]:11434",
            "ollama.localhost:11434",
        ] {
            assert_eq!(rule(text).local_port(), Port::new(11_434), "{text}");
        }
        assert_eq!(rule("example.com:80").local_port(), None);
    }

    #[test]
    fn a_rule_is_a_string_where_it_is_stored() {
        let stored = String::from(rule("*.example.com"));
        assert_eq!(stored, "*.example.com:443");
        assert_eq!(HostRule::try_from(stored).unwrap(), rule("*.example.com"));
    }

    proptest! {
        #[test]
        fn what_parses_is_shown_as_what_parses_to_the_same(text in "[a-z0-9.*:/\\[\\]-]{1,24}") {
            if let Ok(rule) = text.parse::<HostRule>() {
                prop_assert_eq!(rule.to_string().parse::<HostRule>(), Ok(rule));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = text.parse::<HostRule>();
        }
    }
}

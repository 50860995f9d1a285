//! The decision about a destination, and about the addresses that its name resolves to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::{AddressClass, Host, HostError, HostName, HostPattern, HostRule, Port};
use crate::effective::{Granted, NetworkMode, NetworkNeed, NetworkPolicy, Source};

/// How many addresses of one name are tried. Names with more have them for the balance of
/// load, not because most of them fail.
pub const MAX_DIALLED: usize = 8;

/// Names at which clouds serve metadata; no rule opens them.
const METADATA_NAMES: [&str; 4] = [
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data.ec2.internal",
];

/// Where a session wants to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The host, in its one spelling.
    pub host: Host,
    /// The port.
    pub port: Port,
}

/// Why a text is no destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// The host is none.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The port is none.
    #[error(transparent)]
    Port(#[from] super::PortError),
    /// There is no port.
    #[error("the destination has no port: write HOST:PORT")]
    NoPort,
}

impl Destination {
    /// Reads `HOST:PORT`, as it stands in a CONNECT request (RFC 9110, section 9.3.6).
    ///
    /// # Errors
    ///
    /// When either part is missing or is not what it should be.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let (host, port) = text.rsplit_once(':').ok_or(DestinationError::NoPort)?;
        Ok(Self {
            host: Host::parse(host)?,
            port: port.parse()?,
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What a policy says about a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be reached, if its addresses are good.
    Allowed(Permit),
    /// It may not.
    Denied(Denial),
}

impl Verdict {
    /// Whether it may be reached.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// Says why, in words.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed(permit) => permit.basis.fmt(f),
            Self::Denied(denial) => denial.fmt(f),
        }
    }
}

/// The right to reach one destination. Only a decision makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    destination: Destination,
    basis: Basis,
}

impl Permit {
    /// What may be reached.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Why.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// The name that a client has to give as its server name when it speaks TLS, or
    /// `None` when any will do: then everything public is allowed anyhow, or the
    /// destination is an address, for which there is no name.
    pub fn required_server_name(&self) -> Option<&HostName> {
        match &self.basis {
            Basis::Rule(_) => self.destination.host.name(),
            Basis::Everything(_) | Basis::Observed => None,
        }
    }
}

/// Why something is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A rule names it.
    Rule(Granted<HostRule>),
    /// Every public host is allowed, by the rule `*` if it was written as one.
    Everything(Option<Source>),
    /// No rule names it, and the session is only observed.
    Observed,
}

impl Basis {
    /// The rule as text, if there is one.
    pub fn rule(&self) -> Option<String> {
        match self {
            Self::Rule(granted) => Some(granted.value.to_string()),
            Self::Everything(_) => Some("*".to_owned()),
            Self::Observed => None,
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(granted) => {
                write!(
                    f,
                    "the rule {} allows it ({})",
                    granted.value, granted.source
                )
            }
            Self::Everything(Some(source)) => {
                write!(f, "the rule * allows every public host ({source})")
            }
            Self::Everything(None) => f.write_str("every public host is allowed"),
            Self::Observed => f.write_str("no rule allows it, and the session is only observed"),
        }
    }
}

/// What is not allowed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What was asked for.
    pub destination: Destination,
    /// Why it is refused.
    pub reason: DenyReason,
}

/// Why a destination is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DenyReason {
    /// The session has no network at all, or only ports of the machine.
    NoNetwork,
    /// No rule names the host.
    NotListed,
    /// A rule names the host, and another port.
    Port(Box<Granted<HostRule>>),
    /// The host is the machine itself; its ports are reached directly or not at all.
    Localhost {
        /// Whether the session may use that port, without the proxy.
        forwarded: bool,
    },
    /// The name is that of a cloud's metadata.
    MetadataName,
    /// The address, or every address of the name, is of a kind that is not let through.
    Address(AddressClass),
    /// The name has no address.
    NoAddress,
}

impl Denial {
    /// The text of the rule that would allow it, if a rule can.
    pub fn rule_hint(&self) -> Option<String> {
        let Destination { host, port } = &self.destination;
        match self.reason {
            DenyReason::NoNetwork | DenyReason::NotListed | DenyReason::Port(_) => {
                let plain = *port == Port::HTTPS;
                Some(if plain {
                    host.to_string()
                } else {
                    self.destination.to_string()
                })
                .filter(|text| text.parse::<HostRule>().is_ok())
            }
            DenyReason::Localhost { .. }
            | DenyReason::MetadataName
            | DenyReason::Address(_)
            | DenyReason::NoAddress => None,
        }
    }

    /// The reason in one word, for programs.
    pub fn code(&self) -> &'static str {
        match &self.reason {
            DenyReason::NoNetwork => "no-network",
            DenyReason::NotListed => "not-listed",
            DenyReason::Port(_) => "port",
            DenyReason::Localhost { .. } => "loopback",
            DenyReason::MetadataName => "metadata",
            DenyReason::Address(class) => class.name(),
            DenyReason::NoAddress => "no-address",
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Destination { host, port } = &self.destination;
        match &self.reason {
            DenyReason::NoNetwork => f.write_str("the session has no network"),
            DenyReason::NotListed => write!(f, "no rule allows {host}"),
            DenyReason::Port(granted) => write!(
                f,
                "the rule {} does not allow port {port} ({})",
                granted.value, granted.source
            ),
            DenyReason::Localhost { forwarded: false } => write!(
                f,
                "{host} is the machine itself, and port {port} is not among the local ports"
            ),
            DenyReason::Localhost { forwarded: true } => write!(
                f,
                "{host} is the machine itself: local port {port} is reached without a proxy"
            ),
            DenyReason::MetadataName => write!(f, "{host} serves the metadata of a cloud"),
            DenyReason::Address(class) => match host {
                Host::Address(_) => write!(f, "{host} is {class}"),
                Host::Name(_) => write!(f, "{host} resolves to {class}"),
            },
            DenyReason::NoAddress => write!(f, "{host} has no address"),
        }
    }
}

/// Addresses that may be dialled. Only [`NetworkPolicy::vet`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vetted {
    addresses: Vec<VettedAddress>,
    dropped: Vec<(IpAddr, AddressClass)>,
}

/// One address that may be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VettedAddress(SocketAddr);

impl VettedAddress {
    /// The address and port.
    pub fn socket_addr(self) -> SocketAddr {
        self.0
    }
}

impl Vetted {
    /// The addresses in the resolver's order, at least one and at most [`MAX_DIALLED`].
    pub fn addresses(&self) -> &[VettedAddress] {
        &self.addresses
    }

    /// What the name also resolved to and is not let through. A name that has both kinds
    /// is suspicious: it may be an attempt to have the wrong one dialled.
    pub fn dropped(&self) -> &[(IpAddr, AddressClass)] {
        &self.dropped
    }
}

impl NetworkPolicy {
    /// Decides whether a destination may be reached, as far as that can be said without its
    /// addresses. A permit for a name still needs [`vet`](Self::vet).
    pub fn decide(&self, destination: &Destination) -> Verdict {
        let deny = |reason| {
            Verdict::Denied(Denial {
                destination: destination.clone(),
                reason,
            })
        };
        let Destination { host, port } = destination;
        if let Some(reason) = self.never(destination) {
            return deny(reason);
        }
        let allow = |basis| {
            Verdict::Allowed(Permit {
                destination: destination.clone(),
                basis,
            })
        };
        // Names first: a rule that names the host keeps its checks though `*` is there too.
        let named = self
            .rules()
            .find(|rule| !rule.value.is_any() && rule.value.allows(host, *port));
        if let Some(rule) = named {
            return allow(Basis::Rule(rule.clone()));
        }
        let is_public = match host {
            Host::Name(_) => true,
            Host::Address(address) => AddressClass::of(*address) == AddressClass::Public,
        };
        let star = self.rules().find(|rule| rule.value.is_any());
        if is_public && (self.need == NetworkNeed::Any || star.is_some()) {
            return allow(Basis::Everything(star.map(|rule| rule.source.clone())));
        }
        if is_public && self.mode == NetworkMode::Observe {
            return allow(Basis::Observed);
        }
        let near = self
            .rules()
            .find(|rule| !rule.value.is_any() && rule.value.covers(host));
        deny(match (near, host) {
            (Some(rule), _) => DenyReason::Port(Box::new(rule.clone())),
            (None, Host::Address(address)) if !is_public => {
                DenyReason::Address(AddressClass::of(*address))
            }
            _ if self.need <= NetworkNeed::Local => DenyReason::NoNetwork,
            _ => DenyReason::NotListed,
        })
    }

    /// Decides whether the name of `host` gets an address inside the session: whether any
    /// port of it may be reached.
    pub fn decide_name(&self, name: &HostName) -> Result<Basis, Denial> {
        let host = Host::Name(name.clone());
        let first = self
            .rules()
            .find(|rule| !rule.value.is_any() && rule.value.covers(&host))
            .map(|rule| match rule.value.ports() {
                super::Ports::One(port) => port,
                super::Ports::All => Port::HTTPS,
            });
        let destination = Destination {
            host,
            port: first.unwrap_or(Port::HTTPS),
        };
        match self.decide(&destination) {
            Verdict::Allowed(permit) => Ok(permit.basis),
            Verdict::Denied(denial) => Err(denial),
        }
    }

    /// Turns what a destination resolved to into what may be dialled. `own` are the
    /// addresses of the machine's own interfaces, with their broadcast addresses.
    ///
    /// Public addresses pass. Private ones pass when a rule names them for that port.
    /// Loopback, metadata and the machine's own never pass.
    ///
    /// # Errors
    ///
    /// When no address passes; the class is that of the most dangerous one.
    pub fn vet(
        &self,
        permit: &Permit,
        addresses: &[IpAddr],
        own: &[IpAddr],
    ) -> Result<Vetted, Denial> {
        let port = permit.destination.port;
        let mut vetted = Vetted {
            addresses: Vec::new(),
            dropped: Vec::new(),
        };
        for address in addresses {
            let address = address.to_canonical();
            match self.forbidden(permit, address, own) {
                Some(class) => vetted.dropped.push((address, class)),
                None => vetted
                    .addresses
                    .push(VettedAddress(SocketAddr::new(address, port.get()))),
            }
        }
        if vetted.addresses.is_empty() {
            let worst = vetted.dropped.iter().map(|(_, class)| *class).max();
            return Err(Denial {
                destination: permit.destination.clone(),
                reason: worst.map_or(DenyReason::NoAddress, DenyReason::Address),
            });
        }
        vetted.addresses.truncate(MAX_DIALLED);
        Ok(vetted)
    }

    /// The class that keeps an address from being dialled.
    fn forbidden(&self, permit: &Permit, address: IpAddr, own: &[IpAddr]) -> Option<AddressClass> {
        if own.iter().any(|own| own.to_canonical() == address) {
            return Some(AddressClass::OwnHost);
        }
        let class = AddressClass::of(address);
        let port = permit.destination.port;
        let host = Host::Address(address);
        let named = || {
            matches!(permit.basis, Basis::Rule(_))
                && self.rules().any(|rule| {
                    matches!(rule.value.pattern(), HostPattern::Range(_))
                        && rule.value.allows(&host, port)
                })
        };
        let passes = class == AddressClass::Public || (class.can_be_named() && named());
        (!passes).then_some(class)
    }

    /// What no rule and no mode opens.
    fn never(&self, destination: &Destination) -> Option<DenyReason> {
        let Destination { host, port } = destination;
        let localhost = || DenyReason::Localhost {
            forwarded: self.local_ports.iter().any(|local| local.value == *port),
        };
        match host {
            Host::Name(name) if name.is_localhost() => Some(localhost()),
            Host::Name(name) if METADATA_NAMES.contains(&name.as_str()) => {
                Some(DenyReason::MetadataName)
            }
            Host::Name(_) => None,
            Host::Address(address) => match AddressClass::of(*address) {
                AddressClass::Loopback => Some(localhost()),
                class if class.can_be_named() => None,
                class => Some(DenyReason::Address(class)),
            },
        }
    }

    /// The rules that count: none when the session needs no hosts.
    fn rules(&self) -> impl Iterator<Item = &Granted<HostRule>> {
        let counts = self.need >= NetworkNeed::Hosts;
        self.hosts.iter().filter(move |_| counts)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(rules: &[&str]) -> NetworkPolicy {
        NetworkPolicy {
            need: NetworkNeed::Hosts,
            hosts: rules
                .iter()
                .map(|rule| Granted {
                    value: rule.parse().unwrap(),
                    source: Source::Default,
                })
                .collect(),
            local_ports: Vec::new(),
            mode: NetworkMode::Enforce,
        }
    }

    fn to(text: &str) -> Destination {
        Destination::parse(text).unwrap()
    }

    #[track_caller]
    fn permit(policy: &NetworkPolicy, text: &str) -> Permit {
        match policy.decide(&to(text)) {
            Verdict::Allowed(permit) => permit,
            Verdict::Denied(denial) => panic!("{denial}"),
        }
    }

    #[track_caller]
    fn denial(policy: &NetworkPolicy, text: &str) -> Denial {
        match policy.decide(&to(text)) {
            Verdict::Allowed(permit) => panic!("{:?} is allowed", permit.destination()),
            Verdict::Denied(denial) => denial,
        }
    }

    fn vet(
        policy: &NetworkPolicy,
        text: &str,
        addresses: &[&str],
    ) -> Result<Vec<String>, &'static str> {
        let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let own = ["198.51.100.1".parse().unwrap(), "20.1.2.3".parse().unwrap()];
        policy
            .vet(&permit(policy, text), &addresses, &own)
            .map(|vetted| vetted.addresses().iter().map(|a| a.0.to_string()).collect())
            .map_err(|denial| denial.code())
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        let policy = policy(&[]);
        for text in ["example.com:443", "93.184.216.34:443", "[2606:2800::1]:443"] {
            assert_eq!(denial(&policy, text).reason, DenyReason::NotListed);
        }
    }

    #[test]
    fn without_hosts_the_rules_do_not_count() {
        for need in [NetworkNeed::None, NetworkNeed::Local] {
            let policy = NetworkPolicy {
                need,
                ..policy(&["example.com", "*"])
            };
            assert_eq!(
                denial(&policy, "example.com:443").reason,
                DenyReason::NoNetwork
            );
        }
    }

    #[test]
    fn a_rule_is_named_in_the_answer() {
        let policy = policy(&["*.example.com", "example.com:8080"]);
        assert_eq!(
            permit(&policy, "a.example.com:443").basis().to_string(),
            "the rule *.example.com:443 allows it (built-in default)"
        );
        assert_eq!(
            denial(&policy, "a.example.com:22").to_string(),
            "the rule *.example.com:443 does not allow port 22 (built-in default)"
        );
        let denied = denial(&policy, "other.test:8443");
        assert_eq!(denied.to_string(), "no rule allows other.test");
        assert_eq!(denied.rule_hint().as_deref(), Some("other.test:8443"));
        assert_eq!(
            denial(&policy, "other.test:443").rule_hint().as_deref(),
            Some("other.test")
        );
    }

    #[test]
    fn nothing_opens_the_machine_itself_or_the_metadata_of_a_cloud() {
        let mut open = policy(&["*", "localhost:80", "metadata.google.internal:80"]);
        open.need = NetworkNeed::Any;
        open.mode = NetworkMode::Observe;
        for (text, code) in [
            ("localhost:80", "loopback"),
            ("a.localhost:80", "loopback"),
            ("localhost.:80", "loopback"),
            ("127.0.0.1:80", "loopback"),
            ("127.9.9.9:80", "loopback"),
            ("[::1]:80", "loopback"),
            ("[::ffff:127.0.0.1]:80", "loopback"),
            ("[64:ff9b::7f00:1]:80", "loopback"),
            ("0.0.0.0:80", "unspecified"),
            ("[::]:80", "unspecified"),
            ("169.254.169.254:80", "metadata"),
            ("[::ffff:169.254.169.254]:80", "metadata"),
            ("[fd00:ec2::254]:80", "metadata"),
            ("metadata.google.internal:80", "metadata"),
            ("198.18.0.1:443", "benchmarking"),
            ("10.9.9.9:80", "private"),
            ("[64:ff9b::a09:909]:80", "private"),
            ("[2002:a09:909::]:80", "private"),
        ] {
            assert_eq!(denial(&open, text).code(), code, "{text}");
        }
        permit(&open, "example.com:80");
        permit(&open, "93.184.216.34:22");
    }

    #[test]
    fn a_name_that_resolves_to_a_private_address_is_refused_unless_the_address_is_named() {
        let plain = policy(&["example.com", "other.test"]);
        assert_eq!(
            vet(&plain, "example.com:443", &["10.9.9.9"]),
            Err("private")
        );
        assert_eq!(
            vet(&plain, "example.com:443", &["64:ff9b::a09:909"]),
            Err("private")
        );
        assert_eq!(
            vet(&plain, "example.com:443", &["127.0.0.1"]),
            Err("loopback")
        );
        assert_eq!(
            vet(&plain, "example.com:443", &["::ffff:127.0.0.1"]),
            Err("loopback")
        );
        assert_eq!(vet(&plain, "example.com:443", &[]), Err("no-address"));

        let named = policy(&["example.com", "10.9.0.0/16"]);
        assert_eq!(
            vet(&named, "example.com:443", &["10.9.9.9"]),
            Ok(vec!["10.9.9.9:443".to_owned()])
        );
        assert_eq!(
            vet(&named, "example.com:443", &["10.8.9.9"]),
            Err("private")
        );
        assert_eq!(
            vet(&named, "example.com:443", &["127.0.0.1"]),
            Err("loopback")
        );
    }

    #[test]
    fn of_a_mixed_answer_the_public_part_is_used() {
        let policy = policy(&["example.com"]);
        let vetted = policy
            .vet(
                &permit(&policy, "example.com:443"),
                &[
                    "10.9.9.9".parse().unwrap(),
                    "93.184.216.34".parse().unwrap(),
                ],
                &[],
            )
            .unwrap();

        assert_eq!(vetted.addresses().len(), 1);
        assert_eq!(
            vetted.addresses()[0].socket_addr(),
            "93.184.216.34:443".parse().unwrap()
        );
        assert_eq!(
            vetted.dropped(),
            [("10.9.9.9".parse().unwrap(), AddressClass::Private)]
        );
    }

    #[test]
    fn the_machines_own_addresses_are_refused_though_they_are_public_or_named() {
        let policy = policy(&["example.com", "198.51.100.1"]);
        assert_eq!(
            vet(&policy, "example.com:443", &["20.1.2.3"]),
            Err("own-host")
        );
        assert_eq!(
            vet(&policy, "198.51.100.1:443", &["198.51.100.1"]),
            Err("own-host")
        );
        assert_eq!(
            vet(&policy, "example.com:443", &["20.1.2.4"]),
            Ok(vec!["20.1.2.4:443".into()])
        );
    }

    #[test]
    fn an_observed_session_reaches_public_hosts_and_no_others() {
        let mut observed = policy(&["example.com", "10.9.0.0/16"]);
        observed.mode = NetworkMode::Observe;
        assert_eq!(permit(&observed, "other.test:80").basis(), &Basis::Observed);
        assert_eq!(
            permit(&observed, "other.test:80").required_server_name(),
            None
        );
        assert_eq!(
            permit(&observed, "93.184.216.34:80").basis(),
            &Basis::Observed
        );
        assert_eq!(denial(&observed, "10.8.0.1:443").code(), "private");
        // A range that is named for the session's own hosts is not open to the others.
        assert_eq!(
            vet(&observed, "other.test:443", &["10.9.9.9"]),
            Err("private")
        );
    }

    #[test]
    fn a_client_has_to_name_the_server_that_the_rule_allows() {
        let policy = policy(&["example.com", "93.184.216.34"]);
        let named = permit(&policy, "EXAMPLE.com.:443");
        assert_eq!(
            named.required_server_name().unwrap().as_str(),
            "example.com"
        );
        assert_eq!(
            permit(&policy, "93.184.216.34:443").required_server_name(),
            None
        );
    }

    #[test]
    fn a_name_gets_an_address_when_any_port_of_it_is_allowed() {
        let policy = policy(&["a.test:8080", "*.b.test:*"]);
        let name = |text| HostName::parse(text).unwrap();
        assert!(policy.decide_name(&name("a.test")).is_ok());
        assert!(policy.decide_name(&name("x.b.test")).is_ok());
        assert_eq!(
            policy.decide_name(&name("b.test")).unwrap_err().code(),
            "not-listed"
        );
        assert_eq!(
            policy.decide_name(&name("localhost")).unwrap_err().code(),
            "loopback"
        );
    }

    #[test]
    fn a_destination_is_a_host_and_a_port() {
        assert_eq!(to("EXAMPLE.com.:443").to_string(), "example.com:443");
        assert_eq!(to("[2001:DB8::1]:80").to_string(), "[2001:db8::1]:80");
        for bad in [
            "example.com",
            ":443",
            "example.com:",
            "example.com:0",
            "example.com:+443",
            "example.com:0443",
            "example.com:65536",
            "[fe80::1%eth0]:443",
            "example.com%00.evil:443",
            "a@b:443",
            "a:b:443",
            "::1:443",
            "example.com:443/",
            "http://example.com:443",
            "",
        ] {
            assert!(Destination::parse(bad).is_err(), "{bad:?} is accepted");
        }
    }

    proptest! {
        #[test]
        fn what_is_dialled_is_public_without_a_rule_for_addresses(bits in any::<u128>(), v4 in any::<u32>()) {
            let policy = policy(&["example.com"]);
            let permit = permit(&policy, "example.com:443");
            let addresses = [IpAddr::from(bits.to_be_bytes()), IpAddr::from(v4.to_be_bytes())];
            if let Ok(vetted) = policy.vet(&permit, &addresses, &[]) {
                for address in vetted.addresses() {
                    prop_assert_eq!(AddressClass::of(address.0.ip()), AddressClass::Public);
                }
            }
        }

        #[test]
        fn a_name_that_no_rule_covers_is_denied(host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,3}") {
            let policy = policy(&["allowed.example"]);
            let destination = to(&format!("{host}:443"));
            prop_assert_eq!(policy.decide(&destination).is_allowed(), host == "allowed.example");
        }
    }
}

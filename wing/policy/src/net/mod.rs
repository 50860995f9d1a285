//! Whom a session may talk to: names, addresses, rules, and the decision.
//!
//! A destination is brought into one spelling ([`Host::parse`]) and that spelling is all
//! that is used afterwards: to match, to resolve, to compare with a server name, to write
//! down. A decision ([`NetworkPolicy::decide`]) yields a [`Permit`], and a permit is what
//! turns resolved addresses into [`Vetted`] ones, the only addresses that may be dialled.
//!
//! [`NetworkPolicy::decide`]: crate::NetworkPolicy::decide

mod address;
mod decide;
mod host;
mod rule;
mod suffixes;

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use address::{AddressClass, AddressRange};
pub use decide::{
    Basis, Denial, DenyReason, Destination, DestinationError, MAX_DIALLED, Permit, Verdict, Vetted,
    VettedAddress,
};
pub use host::{Host, HostError, HostName};
pub use rule::{HostPattern, HostRule, Ports, RuleError};

/// A port that something can listen on: 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Port(NonZeroU16);

impl Port {
    /// Where HTTPS is served, and what a rule without a port means.
    pub const HTTPS: Self = Self::constant(443);
    /// Where plain HTTP is served.
    pub const HTTP: Self = Self::constant(80);
    /// Where SSH is served.
    pub const SSH: Self = Self::constant(22);

    const fn constant(number: u16) -> Self {
        match NonZeroU16::new(number) {
            Some(number) => Self(number),
            None => panic!("a port is not zero"),
        }
    }

    /// Makes a port of a number; `None` for 0, which stands for no port.
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }

    /// What a server that usually listens at this port lets its clients do to the machine,
    /// or `None` for an ordinary port. Forwarding such a port gives that power away.
    pub fn power(self) -> Option<&'static str> {
        Some(match self.get() {
            22 => "SSH: a shell on this machine",
            631 => "CUPS: printing and its settings",
            2375 | 2376 => "Docker: full control of this machine",
            5037 => "adb: the attached Android devices",
            6443 | 10_250 => "Kubernetes: control of its cluster or node",
            9222 => "Chrome's debugger: the browser and all that is logged in there",
            9229 => "the inspector of Node: code in the inspected program",
            3128 | 8080 => "often a proxy: whatever that lets through",
            _ => return None,
        })
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text that is no port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a port: write a number from 1 to 65535, without a sign or leading zeros")]
pub struct PortError(String);

impl FromStr for Port {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, PortError> {
        // What other readers take for the same number in another spelling is refused, so
        // that nobody along the way can read a different port.
        let plain = (1..=5).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_digit())
            && !text.starts_with('0');
        plain
            .then(|| text.parse().ok().and_then(Self::new))
            .flatten()
            .ok_or_else(|| PortError(text.chars().take(16).collect()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_give_power_away_are_known() {
        assert!(
            Port::new(2_375)
                .unwrap()
                .power()
                .unwrap()
                .contains("Docker")
        );
        assert_eq!(Port::new(11_434).unwrap().power(), None);
    }

    #[test]
    fn a_port_is_written_in_one_way() {
        assert_eq!("443".parse::<Port>().unwrap().get(), 443);
        assert_eq!("65535".parse::<Port>().unwrap().get(), 65_535);
        for bad in [
            "", "0", "+443", "-1", "0443", "65536", "443 ", "4e2", "٤٤٣", "100000",
        ] {
            assert!(bad.parse::<Port>().is_err(), "{bad:?} is accepted");
        }
    }
}

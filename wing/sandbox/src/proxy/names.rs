//! The names that a session uses, and the addresses that stand for them inside it.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use wt_policy::HostName;

/// Where the addresses come from: 198.18.0.0/15 belongs to measuring (RFC 2544), so that no
/// host of the internet has one.
const POOL: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// How many names get an address. Each keeps its own while the session lives.
const MAX_NAMES: u32 = 16_384;

/// How many names below a wildcard may be new in a [`WINDOW`]. A name is a message to
/// whoever answers for the domain; a browser does not need so many, and a leak gets slow.
const MAX_NEW: u32 = 64;

/// The time in which new names are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The names of one session.
#[derive(Debug)]
pub(super) struct Names {
    addresses: HashMap<HostName, Option<Ipv4Addr>>,
    names: HashMap<Ipv4Addr, HostName>,
    window: Instant,
    new: u32,
}

impl Names {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            addresses: HashMap::new(),
            names: HashMap::new(),
            window: now,
            new: 0,
        }
    }

    /// Takes a name in that the policy allows; false when there are too many. `wild` says
    /// that a wildcard allows it.
    pub(super) fn admit(&mut self, name: &HostName, wild: bool, now: Instant) -> bool {
        if self.addresses.contains_key(name) {
            return true;
        }
        if now.saturating_duration_since(self.window) >= WINDOW {
            (self.window, self.new) = (now, 0);
        }
        if self.addresses.len() >= MAX_NAMES as usize || (wild && self.new >= MAX_NEW) {
            return false;
        }
        self.new += u32::from(wild);
        self.addresses.insert(name.clone(), None);
        true
    }

    /// The address that stands for a name that was taken in.
    pub(super) fn address(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        let place = self.addresses.get_mut(name)?;
        if let Some(address) = place {
            return Some(*address);
        }
        // The first is the network's own, and stays free.
        let offset = u32::try_from(self.names.len()).ok()? + 1;
        let address = Ipv4Addr::from(u32::from(POOL) + offset);
        *place = Some(address);
        self.names.insert(address, name.clone());
        Some(address)
    }

    /// The name for which an address stands.
    pub(super) fn name(&self, address: Ipv4Addr) -> Option<HostName> {
        self.names.get(&address).cloned()
    }
}

/// Whether an address can stand for a name.
pub(super) fn is_in_pool(address: Ipv4Addr) -> bool {
    u32::from(address) >> 17 == u32::from(POOL) >> 17
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    #[test]
    fn a_name_keeps_its_address() {
        let now = Instant::now();
        let mut names = Names::new(now);
        assert!(names.admit(&name("a.test"), false, now));
        assert!(names.admit(&name("b.test"), false, now));
        let a = names.address(&name("a.test")).unwrap();
        let b = names.address(&name("b.test")).unwrap();

        assert_ne!(a, b);
        assert_eq!(names.address(&name("a.test")), Some(a));
        assert_eq!(names.name(a), Some(name("a.test")));
        assert!(is_in_pool(a) && is_in_pool(b));
        assert_eq!(names.address(&name("c.test")), None);
        assert_eq!(names.name(Ipv4Addr::new(198, 19, 255, 255)), None);
    }

    #[test]
    fn names_below_a_wildcard_come_slowly() {
        let now = Instant::now();
        let mut names = Names::new(now);
        let data = |i: u32| name(&format!("d{i}.allowed.test"));
        for i in 0..MAX_NEW {
            assert!(names.admit(&data(i), true, now));
        }
        assert!(!names.admit(&data(MAX_NEW), true, now));
        assert!(names.admit(&data(0), true, now), "a known one is not new");
        assert!(names.admit(&name("exact.test"), false, now));
        assert!(names.admit(&data(MAX_NEW), true, now + WINDOW));
    }

    #[test]
    fn the_pool_is_bounded() {
        let now = Instant::now();
        let mut names = Names::new(now);
        for i in 0..MAX_NAMES {
            assert!(names.admit(&name(&format!("n{i}.test")), false, now));
            let address = names.address(&name(&format!("n{i}.test"))).unwrap();
            assert!(is_in_pool(address));
        }
        assert!(!names.admit(&name("more.test"), false, now));
    }
}

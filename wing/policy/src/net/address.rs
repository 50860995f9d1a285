//! What an address is good for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address, by the registries of special addresses of IANA and the fixed
/// addresses at which clouds hand out credentials.
///
/// Only [`Public`](Self::Public) is reached without being named by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// An ordinary address of the internet.
    Public,
    /// For examples in documents (RFC 5737, RFC 3849, RFC 9637); also used in tests.
    Documentation,
    /// Private networks (RFC 1918).
    Private,
    /// Private networks in IPv6 (RFC 4193).
    UniqueLocal,
    /// Between a provider and its customers (RFC 6598).
    Shared,
    /// Private networks in IPv6 before RFC 4193 (RFC 3879).
    SiteLocal,
    /// For measuring (RFC 2544); the names of a session get their addresses from here.
    Benchmarking,
    /// Whatever is assigned to nobody or to no host.
    Reserved,
    /// Many hosts at once.
    Multicast,
    /// All hosts of a network.
    Broadcast,
    /// The hosts of one link (RFC 3927, RFC 4291).
    LinkLocal,
    /// No address, which systems take for themselves (0.0.0.0/8 and ::).
    Unspecified,
    /// The machine itself.
    Loopback,
    /// An address of one of the machine's own interfaces.
    OwnHost,
    /// Where a cloud tells a machine its secrets.
    Metadata,
}

/// Where clouds serve metadata and credentials, beyond link-local addresses in general.
const METADATA_V4: [[u8; 4]; 6] = [
    // AWS, Azure, Google Cloud, Oracle, DigitalOcean, OpenStack.
    [169, 254, 169, 254],
    // AWS: credentials of ECS tasks, and of EKS pods.
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    // Alibaba Cloud.
    [100, 100, 100, 200],
    // Azure: the host's agent.
    [168, 63, 129, 16],
    // Oracle Cloud, older instances.
    [192, 0, 0, 192],
];

/// The same in IPv6: AWS instances, EKS pods, Google Cloud.
const METADATA_V6: [[u16; 8]; 3] = [
    [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254],
    [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0023],
    [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254],
];

impl AddressClass {
    /// Classes an address. Forms that carry an IPv4 address (mapped, compatible,
    /// translated, NAT64, 6to4, Teredo, ISATAP) have the class of what they carry, and the
    /// more dangerous one where they carry two.
    ///
    /// [`OwnHost`](Self::OwnHost) is never the answer: only the caller knows the
    /// machine's addresses.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// Whether a rule that names an address or a range can open it.
    pub fn can_be_named(self) -> bool {
        match self {
            Self::Public
            | Self::Documentation
            | Self::Private
            | Self::UniqueLocal
            | Self::Shared
            | Self::SiteLocal => true,
            Self::Benchmarking
            | Self::Reserved
            | Self::Multicast
            | Self::Broadcast
            | Self::LinkLocal
            | Self::Unspecified
            | Self::Loopback
            | Self::OwnHost
            | Self::Metadata => false,
        }
    }

    /// The class in one word, as in denials.
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Documentation => "documentation",
            Self::Private => "private",
            Self::UniqueLocal => "unique-local",
            Self::Shared => "shared",
            Self::SiteLocal => "site-local",
            Self::Benchmarking => "benchmarking",
            Self::Reserved => "reserved",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::LinkLocal => "link-local",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::OwnHost => "own-host",
            Self::Metadata => "metadata",
        }
    }
}

/// Says it in words that follow "is" or begin a sentence.
impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Documentation => "an address for documentation",
            Self::Private | Self::UniqueLocal | Self::SiteLocal => {
                "an address of a private network"
            }
            Self::Shared => "an address of a provider's inner network",
            Self::Benchmarking => "an address for measurements",
            Self::Reserved => "a reserved address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::LinkLocal => "a link-local address",
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::OwnHost => "an address of this machine",
            Self::Metadata => "an address of cloud metadata",
        })
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    let octets = address.octets();
    if METADATA_V4.contains(&octets) {
        return AddressClass::Metadata;
    }
    match octets {
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [198, 18 | 19, ..] => AddressClass::Benchmarking,
        // Protocol assignments, and the relays of 6to4, which are gone (RFC 7526).
        [192, 0, 0, _] | [192, 88, 99, _] => AddressClass::Reserved,
        [224..=239, ..] => AddressClass::Multicast,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    let groups = address.segments();
    if METADATA_V6.contains(&groups) {
        return AddressClass::Metadata;
    }
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match groups {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // Compatible and mapped (RFC 4291), translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        // NAT64 of one network (RFC 8215), whose prefix may be 48 to 96 bits long: the
        // address may stand at five places (RFC 6052, section 2.2), and the kind of network
        // is private whatever it leads to.
        [0x64, 0xff9b, 1, d, e, f, g, h] => {
            let join = |high: u16, low: u16| (high << 8) | (low >> 8);
            // Zeros at a place mean that nothing stands there.
            [
                v4(d, join(e, f)),
                v4(join(d, e), f),
                v4(join(e, f), join(f, g)),
            ]
            .into_iter()
            .filter(|class| *class != AddressClass::Unspecified)
            .fold(AddressClass::Private.max(v4(g, h)), AddressClass::max)
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => v4(high, low),
        // Teredo (RFC 4380): the server, and the client with its bits turned over.
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            v4(high, low).max(v4(!client_high, !client_low))
        }
        [0x2001, 2, 0, ..] => AddressClass::Benchmarking,
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => AddressClass::Documentation,
        [0x2001, 0..=0x01ff, ..] => AddressClass::Reserved,
        [0xfc00..=0xfdff, ..] => AddressClass::UniqueLocal,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfec0..=0xfeff, ..] => AddressClass::SiteLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        // ISATAP (RFC 5214) under any prefix.
        [0x2000..=0x3fff, _, _, _, 0 | 0x0200, 0x5efe, high, low] => v4(high, low),
        // What is assigned to hosts of the internet so far.
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}

/// A range of addresses: one address and how many of its leading bits are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Makes a range; `None` when there are more bits than the address has, or one that is
    /// not fixed is set. An IPv4 range that is written as a mapped one becomes IPv4.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let range = match (address.to_canonical(), address) {
            (IpAddr::V4(v4), IpAddr::V6(_)) => Self {
                address: v4.into(),
                bits: bits.checked_sub(96)?,
            },
            (address, _) => Self { address, bits },
        };
        (range.bits <= range.width() && range.masked(range.address) == range.address)
            .then_some(range)
    }

    /// The range of one address.
    pub fn single(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self { address, bits }
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether it is one address.
    pub fn is_single(&self) -> bool {
        self.bits == self.width()
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && self.masked(address) == self.address
    }

    /// Whether another range lies within it, or is it.
    pub fn includes(&self, other: &Self) -> bool {
        self.contains(other.address) && self.bits <= other.bits
    }

    /// The class that keeps the range out of rules: that of a single address which cannot
    /// be named, or that of a range which is not inside one private network. A range of
    /// public addresses would hide what it allows, so that those are named one by one.
    pub(super) fn forbidden_class(&self) -> Option<AddressClass> {
        let first = AddressClass::of(self.address);
        if self.is_single() {
            return (!first.can_be_named()).then_some(first);
        }
        let last = AddressClass::of(self.last());
        let private = matches!(
            first,
            AddressClass::Private
                | AddressClass::UniqueLocal
                | AddressClass::SiteLocal
                | AddressClass::Documentation
        );
        // The classes above are unbroken blocks, except that metadata may lie inside.
        let metadata = METADATA_V4
            .iter()
            .map(|octets| IpAddr::from(*octets))
            .chain(METADATA_V6.iter().map(|groups| IpAddr::from(*groups)))
            .any(|address| self.contains(address));
        // A private range of IPv6 may contain a metadata address; that address stays
        // refused when it is dialled, and whoever asks for all of fd00::/8 is not helped by
        // a refusal. In IPv4 none of the private blocks contains one.
        let whole = private && first == last && self.bits >= self.shortest(first);
        match (whole, metadata && self.address.is_ipv4()) {
            (true, false) => None,
            (_, true) => Some(AddressClass::Metadata),
            (false, false) if first == AddressClass::Public => {
                Some(last.max(AddressClass::Reserved))
            }
            (false, false) => Some(first),
        }
    }

    /// The fewest bits that keep a range inside its class.
    fn shortest(&self, class: AddressClass) -> u8 {
        match (class, self.address) {
            (AddressClass::UniqueLocal, _) => 7,
            (AddressClass::SiteLocal, _) => 10,
            (AddressClass::Documentation, IpAddr::V6(_)) => 20,
            (AddressClass::Documentation, IpAddr::V4(_)) => 24,
            _ => 8,
        }
    }

    fn width(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    fn masked(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits.min(32)));
                Ipv4Addr::from(u32::from(v4) & mask.unwrap_or(0)).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits.min(128)));
                Ipv6Addr::from(u128::from(v6) & mask.unwrap_or(0)).into()
            }
        }
    }

    fn last(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) => {
                let rest = u32::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0);
                Ipv4Addr::from(u32::from(v4) | rest).into()
            }
            IpAddr::V6(v6) => {
                let rest = u128::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0);
                Ipv6Addr::from(u128::from(v6) | rest).into()
            }
        }
    }
}

/// Shows the range as it stands before `:port`.
impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.is_single()) {
            (IpAddr::V4(v4), true) => write!(f, "{v4}"),
            (IpAddr::V4(v4), false) => write!(f, "{v4}/{}", self.bits),
            (IpAddr::V6(v6), true) => write!(f, "[{v6}]"),
            (IpAddr::V6(v6), false) => write!(f, "[{v6}/{}]", self.bits),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_kind_of_address_is_known() {
        use AddressClass::*;
        for (text, class) in [
            ("93.184.216.34", Public),
            ("2606:2800:220:1::1", Public),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("::1", Loopback),
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("::", Unspecified),
            ("10.9.9.9", Private),
            ("172.15.0.1", Public),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("172.32.0.1", Public),
            ("192.168.1.1", Private),
            ("fd12::1", UniqueLocal),
            ("fc00::1", UniqueLocal),
            ("100.63.255.255", Public),
            ("100.64.0.1", Shared),
            ("100.127.255.255", Shared),
            ("100.128.0.0", Public),
            ("169.254.1.1", LinkLocal),
            ("fe80::1", LinkLocal),
            ("fec0::1", SiteLocal),
            ("169.254.169.254", Metadata),
            ("169.254.170.2", Metadata),
            ("100.100.100.200", Metadata),
            ("168.63.129.16", Metadata),
            ("fd00:ec2::254", Metadata),
            ("192.0.2.1", Documentation),
            ("203.0.113.10", Documentation),
            ("2001:db8::5", Documentation),
            ("3fff::1", Documentation),
            ("198.18.0.1", Benchmarking),
            ("198.19.255.255", Benchmarking),
            ("192.0.0.1", Reserved),
            ("240.0.0.1", Reserved),
            ("255.255.255.255", Broadcast),
            ("224.0.0.251", Multicast),
            ("ff02::1", Multicast),
            ("100::1", Reserved),
            ("4000::1", Reserved),
            ("2001:20::1", Reserved),
        ] {
            assert_eq!(AddressClass::of(text.parse().unwrap()), class, "{text}");
        }
    }

    #[test]
    fn an_address_inside_another_counts() {
        use AddressClass::*;
        for (text, class) in [
            ("::ffff:10.9.9.9", Private),
            ("::ffff:127.0.0.1", Loopback),
            ("::10.9.9.9", Private),
            ("::ffff:0:169.254.169.254", Metadata),
            ("64:ff9b::a09:909", Private),
            ("64:ff9b::7f00:1", Loopback),
            ("64:ff9b::5db8:d822", Public),
            ("64:ff9b:1::a09:909", Private),
            ("64:ff9b:1::a9fe:a9fe", Metadata),
            // The metadata address at the place of a 48-bit prefix.
            ("64:ff9b:1:a9fe:a9:fe00::", Metadata),
            ("2002:a09:909::", Private),
            ("2002:7f00:1::1", Loopback),
            ("2002:5db8:d822::1", Public),
            // Teredo: server 65.54.227.120, client 10.9.9.9 with its bits turned over.
            ("2001:0:4136:e378:8000:63bf:f5f6:f6f6", Private),
            ("2001:0:a09:909:8000:63bf:a247:27dd", Private),
            ("2600::5efe:a09:909", Private),
            ("2600::200:5efe:7f00:1", Loopback),
        ] {
            assert_eq!(AddressClass::of(text.parse().unwrap()), class, "{text}");
        }
    }

    #[test]
    fn a_private_range_may_be_named_and_a_dangerous_one_not() {
        let forbidden = |address: &str, bits| {
            AddressRange::new(address.parse().unwrap(), bits)
                .unwrap()
                .forbidden_class()
        };
        assert_eq!(forbidden("10.0.0.0", 8), None);
        assert_eq!(forbidden("172.16.0.0", 12), None);
        assert_eq!(forbidden("192.168.0.0", 16), None);
        assert_eq!(forbidden("fd00::", 8), None);
        assert_eq!(forbidden("fc00::", 7), None);
        assert_eq!(forbidden("::ffff:10.0.0.0", 104), None);
        assert!(forbidden("10.0.0.0", 7).is_some());
        assert!(forbidden("172.0.0.0", 8).is_some());
        assert!(forbidden("0.0.0.0", 0).is_some());
        assert!(forbidden("93.184.216.0", 24).is_some());
        assert_eq!(forbidden("93.184.216.34", 32), None);
        assert_eq!(forbidden("127.0.0.0", 8), Some(AddressClass::Loopback));
        assert_eq!(forbidden("169.254.0.0", 16), Some(AddressClass::Metadata));
        assert_eq!(forbidden("100.64.0.0", 10), Some(AddressClass::Metadata));
        assert_eq!(
            forbidden("198.18.0.0", 15),
            Some(AddressClass::Benchmarking)
        );
    }

    proptest! {
        #[test]
        fn what_std_calls_special_is_never_public(bits in any::<u32>()) {
            let address = Ipv4Addr::from(bits);
            if AddressClass::of(address.into()) == AddressClass::Public {
                prop_assert!(!address.is_loopback());
                prop_assert!(!address.is_private());
                prop_assert!(!address.is_link_local());
                prop_assert!(!address.is_multicast());
                prop_assert!(!address.is_broadcast());
                prop_assert!(!address.is_documentation());
                prop_assert!(!address.is_unspecified());
            }
        }

        #[test]
        fn a_wrapped_address_is_never_better_than_the_address(bits in any::<u32>()) {
            let address = Ipv4Addr::from(bits);
            let class = AddressClass::of(address.into());
            let [a, b, c, d] = address.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for wrapped in [
                address.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, 0x5db8, 0xd822, 0, 0, !high, !low),
                Ipv6Addr::new(0x2600, 0, 0, 0, 0, 0x5efe, high, low),
            ] {
                prop_assert!(AddressClass::of(wrapped.into()) >= class, "{}", wrapped);
            }
        }

        #[test]
        fn a_range_contains_what_shares_its_bits(bits in any::<u32>(), n in 0_u8..=32, other in any::<u32>()) {
            let mask = u32::MAX.checked_shl(32 - u32::from(n)).unwrap_or(0);
            let range = AddressRange::new(Ipv4Addr::from(bits & mask).into(), n).unwrap();
            prop_assert_eq!(range.contains(Ipv4Addr::from(other).into()), (bits ^ other) & mask == 0);
        }
    }
}

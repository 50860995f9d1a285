//! The network inside a session: its loopback device, routes that lead everything there,
//! and the sockets that are answered from outside.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, listen, recv, send,
    socket_with, sockopt,
};

use crate::plan::{DNS_HOST, HTTP_PROXY_PORT, ListenerKind, ListenerSpec, NetPlan, SOCKS_PORT};
use crate::{EnforcementError, Step};

/// How many connections may wait to be accepted: a burst of a package manager.
const BACKLOG: i32 = 512;

/// The loopback device is the first of every network namespace.
const LOOPBACK_INDEX: u32 = 1;

/// The port of DNS.
const DNS_PORT: u16 = 53;

/// Brings up the network and binds the plan's listeners, in its order.
pub(crate) fn build(plan: &NetPlan) -> Result<Vec<OwnedFd>, EnforcementError> {
    let failed =
        |what: &'static str| move |e: io::Error| EnforcementError::system(Step::Network, what, &e);
    if plan.loopback {
        bring_up_loopback().map_err(failed("bringing up the loopback device"))?;
    }
    if plan.capture_routes {
        add_capture_route(AddressFamily::INET).map_err(failed("adding the route to itself"))?;
        if plan.ipv6 {
            add_capture_route(AddressFamily::INET6)
                .map_err(failed("adding the IPv6 route to itself"))?;
        }
    }
    plan.listeners
        .iter()
        .map(|spec| {
            bind_listener(*spec).map_err(|e| {
                EnforcementError::system(Step::Network, format!("binding {}", address(*spec)), &e)
            })
        })
        .collect()
}

/// Where a listener is bound.
pub fn address(spec: ListenerSpec) -> SocketAddr {
    let loopback = || match spec.v6 {
        true => IpAddr::V6(Ipv6Addr::LOCALHOST),
        false => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    match spec.kind {
        ListenerKind::HttpProxy => SocketAddr::new(loopback(), HTTP_PROXY_PORT),
        ListenerKind::Socks => SocketAddr::new(loopback(), SOCKS_PORT),
        ListenerKind::DnsUdp | ListenerKind::DnsTcp => {
            SocketAddr::new(Ipv4Addr::new(127, 0, 0, DNS_HOST).into(), DNS_PORT)
        }
        ListenerKind::Capture(port) if spec.v6 => (Ipv6Addr::UNSPECIFIED, port).into(),
        ListenerKind::Capture(port) => (Ipv4Addr::UNSPECIFIED, port).into(),
        ListenerKind::LocalPort(port) => SocketAddr::new(loopback(), port),
    }
}

/// Binds one listener in the network namespace of this process. It does not block.
pub(crate) fn bind_listener(spec: ListenerSpec) -> io::Result<OwnedFd> {
    let address = address(spec);
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let datagrams = spec.kind == ListenerKind::DnsUdp;
    let kind = if datagrams {
        SocketType::DGRAM
    } else {
        SocketType::STREAM
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        // The same port is bound in IPv4 by a socket of its own.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if !datagrams {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &address)?;
    if !datagrams {
        listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// Sets the device's flag `IFF_UP` by an RTM_NEWLINK message (rtnetlink(7)).
fn bring_up_loopback() -> io::Result<()> {
    let up = libc::IFF_UP as u32;
    let mut body = vec![libc::AF_UNSPEC as u8, 0];
    body.extend(0_u16.to_ne_bytes());
    body.extend(LOOPBACK_INDEX.to_ne_bytes());
    body.extend(up.to_ne_bytes());
    body.extend(up.to_ne_bytes());
    ask(libc::RTM_NEWLINK, 0, &body)
}

/// Makes every address of a family one of this machine (`ip route add local 0.0.0.0/0 dev
/// lo`), so that a connection to any of them arrives at a socket of this namespace or is
/// refused at once.
fn add_capture_route(family: AddressFamily) -> io::Result<()> {
    /// `RTA_OIF` of linux/rtnetlink.h.
    const RTA_OIF: u16 = 4;
    let family = u8::try_from(family.as_raw()).expect("internet families are small numbers");
    let mut body = vec![
        family,
        // The lengths of both prefixes, and the type of service: any.
        0,
        0,
        0,
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ];
    body.extend(0_u32.to_ne_bytes());
    body.extend(8_u16.to_ne_bytes());
    body.extend(RTA_OIF.to_ne_bytes());
    body.extend(LOOPBACK_INDEX.to_ne_bytes());
    ask(
        libc::RTM_NEWROUTE,
        libc::NLM_F_CREATE | libc::NLM_F_EXCL,
        &body,
    )
}

/// Sends one request to the kernel's routing and waits for its answer (netlink(7)).
fn ask(kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
    /// The bytes of a message's head.
    const HEAD: usize = 16;
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is protocol 0.
        None,
    )?;
    let length = u32::try_from(HEAD + body.len()).expect("requests are some dozen bytes");
    let flags = u16::try_from(flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK)
        .expect("flags of requests are 16 bits");
    let mut message = Vec::with_capacity(HEAD + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // The sequence number, and the sender, which the kernel fills in.
    message.extend([0; 8]);
    message.extend(body);
    send(&socket, &message, SendFlags::empty())?;

    let mut answer = [0_u8; 4096];
    let (length, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    let word = |at: usize| {
        let bytes = answer[..length].get(at..at + 4)?.try_into().ok()?;
        Some(i32::from_ne_bytes(bytes))
    };
    match (word(4).map(|kind| kind & 0xffff), word(HEAD)) {
        (Some(libc::NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(libc::NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::other("the kernel's answer makes no sense")),
    }
}

//! Questions for names over UDP, answered from the address that was asked.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket as StdSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::dns;
use super::gate::Gate;

/// How many questions are answered before others get their turn.
const TURN: u32 = 32;

/// To which of the machine's addresses a question went. A socket that listens on all of
/// them has to answer from the same one, or the client takes the answer for a stranger's.
enum Asked {
    V4(in_pktinfo),
    V6(in6_pktinfo),
}

/// Makes a socket say to which address a message came.
pub(super) fn prepare(socket: StdSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    match socket.local_addr()?.is_ipv4() {
        true => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        false => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    UdpSocket::from_std(socket)
}

/// Answers until the session ends.
pub(super) async fn serve(gate: Arc<Gate>, socket: UdpSocket) {
    let mut answered = 0;
    loop {
        let received = socket
            .async_io(Interest::READABLE, || receive(&socket))
            .await;
        // Errors of single messages, like one that could not be delivered.
        if let Ok((question, from, asked)) = received
            && let Some(reply) = dns::answer(&question, |name| gate.name_answer(name))
        {
            // UDP may lose an answer; the client asks again.
            let _ = send(&socket, &reply, &from, asked.as_ref());
        }
        answered += 1;
        if answered % TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn receive(socket: &UdpSocket) -> io::Result<(Vec<u8>, SockaddrStorage, Option<Asked>)> {
    let mut buffer = [0; dns::MAX_QUESTION + 1];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let mut space = nix::cmsg_space!(in_pktinfo, in6_pktinfo);
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::MSG_DONTWAIT,
    )?;
    let asked = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => Some(Asked::V4(info)),
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(Asked::V6(info)),
        _ => None,
    });
    let from = message.address.ok_or(io::ErrorKind::InvalidData)?;
    let length = message.bytes;
    Ok((buffer[..length].to_vec(), from, asked))
}

fn send(
    socket: &UdpSocket,
    reply: &[u8],
    to: &SockaddrStorage,
    asked: Option<&Asked>,
) -> io::Result<usize> {
    let parts = [IoSlice::new(reply)];
    let fd = socket.as_raw_fd();
    let flags = MsgFlags::MSG_DONTWAIT;
    let sent = match asked {
        Some(Asked::V4(info)) => {
            // The address alone says where to send from; the interface is found again.
            let mut info = *info;
            info.ipi_spec_dst = info.ipi_addr;
            info.ipi_ifindex = 0;
            let control = [ControlMessage::Ipv4PacketInfo(&info)];
            sendmsg(fd, &parts, &control, flags, Some(to))
        }
        Some(Asked::V6(info)) => {
            let control = [ControlMessage::Ipv6PacketInfo(info)];
            sendmsg(fd, &parts, &control, flags, Some(to))
        }
        None => sendmsg(fd, &parts, &[], flags, Some(to)),
    };
    Ok(sent?)
}

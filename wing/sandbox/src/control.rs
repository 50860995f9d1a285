//! What the supervisor and the stages tell each other, over one socket that keeps messages
//! whole. The supervisor's end is the session's life: when it closes, the session ends.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::EnforcementError;
use crate::plan::ListenerSpec;
use crate::spawn::Attested;

/// The largest message. All are small; the largest carries an error with a path.
const MAX_MESSAGE: usize = 64 * 1024;

/// How many descriptors a message may carry. The kernel allows 253.
pub(crate) const MAX_FDS: usize = 200;

/// What the supervisor tells the stages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The process stands in its control group: the set-up may begin. Carries the plan, and the
    /// descriptors that the program is given, if any.
    Go,
    /// Asks the first process to bind one more listener. Carries the socket that takes the
    /// answer.
    Listen(ListenerSpec),
}

/// What the stages tell the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The first process of the session was made. Carries a descriptor of it.
    Init { pid: u32 },
    /// The session's terminal. Carries its outer end.
    Terminal,
    /// Listeners, in the plan's order. Carries their sockets.
    Listeners(Vec<ListenerSpec>),
    /// The first process has done its part.
    Prepared(Vec<Attested>),
    /// The program's process has done its part and is about to become the program. Its
    /// process id is that of the message's sender.
    Ready(Vec<Attested>),
    /// It has become the program.
    Started,
    /// The program could not be executed.
    NotStarted(ExecFailure),
    /// A step failed.
    Failed(EnforcementError),
    /// The program ended, with its status as wait(2) gives it.
    Ended { status: i32 },
}

/// Why a program could not be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecFailure {
    /// Its file, as far as it was found.
    pub file: String,
    /// Whether there is no such file, rather than one that cannot be run.
    pub missing: bool,
    /// What the system said.
    pub reason: String,
}

/// A message that arrived.
#[derive(Debug)]
pub(crate) struct Received<T> {
    pub(crate) message: T,
    pub(crate) fds: Vec<OwnedFd>,
    /// Who sent it, when the socket asks for that.
    pub(crate) sender: Option<u32>,
}

/// Sends one message with descriptors.
pub(crate) fn send<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_MESSAGE || fds.len() > MAX_FDS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a message of the set-up is too large",
        ));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    rustix::io::retry_on_intr(|| {
        sendmsg(
            &socket,
            &[IoSlice::new(&bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )
    })?;
    Ok(())
}

/// Receives one message; `None` when the other end is closed.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<Received<T>>> {
    let mut bytes = vec![0; MAX_MESSAGE];
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    let mut fds = Vec::new();
    let mut sender = None;
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(received) => fds.extend(received),
            RecvAncillaryMessage::ScmCredentials(who) => {
                sender = u32::try_from(who.pid.as_raw_nonzero().get()).ok();
            }
            _ => {}
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(&bytes[..got.bytes])?;
    Ok(Some(Received {
        message,
        fds,
        sender,
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors_and_then_the_end() {
        let (a, b) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let (pipe, _) = rustix::pipe::pipe().unwrap();

        send(&a, &Report::Init { pid: 7 }, &[pipe.as_fd()]).unwrap();
        send(&a, &Report::Started, &[]).unwrap();
        drop(a);

        let first = receive::<Report>(&b).unwrap().unwrap();
        assert!(matches!(first.message, Report::Init { pid: 7 }));
        assert_eq!(first.fds.len(), 1);
        let second = receive::<Report>(&b).unwrap().unwrap();
        assert!(matches!(second.message, Report::Started));
        assert!(receive::<Report>(&b).unwrap().is_none());
    }
}

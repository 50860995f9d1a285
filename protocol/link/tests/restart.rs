//! A relay that was killed and started again makes its diallers come back at once.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wt_link::quic::{Dialer, Endpoint, Identity, Trust};
use wt_link::{Link, LinkEnd};

/// Longer than a busy machine takes, and far shorter than the idle time of a link.
const HANG: Duration = Duration::from_secs(10);

/// Passes datagrams between one dialler and whichever endpoint it is told: what looks
/// like one address whose process was replaced.
struct OneAddress {
    addr: SocketAddr,
    upstream: watch::Sender<SocketAddr>,
    task: JoinHandle<()>,
}

impl OneAddress {
    async fn start(first: SocketAddr) -> Self {
        let outside = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addr = outside.local_addr().unwrap();
        let (upstream, current) = watch::channel(first);
        let inside = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let task = tokio::spawn(async move {
            let (mut there, mut back) = ([0; 2048], [0; 2048]);
            let mut dialler = None;
            loop {
                tokio::select! {
                    got = outside.recv_from(&mut there) => {
                        let (n, from) = got.unwrap();
                        dialler = Some(from);
                        let to = *current.borrow();
                        inside.send_to(&there[..n], to).await.unwrap();
                    }
                    got = inside.recv_from(&mut back) => {
                        let (n, _) = got.unwrap();
                        outside.send_to(&back[..n], dialler.unwrap()).await.unwrap();
                    }
                }
            }
        });
        Self {
            addr,
            upstream,
            task,
        }
    }
}

impl Drop for OneAddress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn endpoint(identity: &Identity) -> Endpoint {
    Endpoint::bind("127.0.0.1:0".parse().unwrap(), identity).unwrap()
}

/// A link to a first endpoint whose place a second one then takes.
async fn replaced(first: &Identity, second: &Identity) -> (Link, OneAddress, [Endpoint; 2]) {
    let (old, new) = (endpoint(first), endpoint(second));
    let address = OneAddress::start(old.local_addr().unwrap()).await;
    let dialer = Dialer::new();
    let dialling = dialer.connect(address.addr, "localhost", Trust::Spki(first.spki_sha256()));
    let accepting = async { old.accept().await.unwrap().handshake().await.unwrap() };
    let (link, far) = tokio::join!(dialling, accepting);
    // Kept open: a killed process says no goodbye.
    std::mem::forget(far);

    address.upstream.send_replace(new.local_addr().unwrap());
    let link = link.unwrap();
    let (mut send, recv) = link.open().await.unwrap();
    send.write_all(b"are you there?").await.unwrap();
    std::mem::forget((send, recv, dialer));
    (link, address, [old, new])
}

fn identity() -> Identity {
    Identity::from_pem(&Identity::generate(&["localhost".to_owned()]).unwrap()).unwrap()
}

#[tokio::test]
async fn a_relay_with_the_same_key_ends_the_links_of_its_former_life() {
    let same = identity();

    let (link, _address, _endpoints) = replaced(&same, &same).await;

    let end = timeout(HANG, link.closed())
        .await
        .expect("the link goes on");
    assert_eq!(end, LinkEnd::Lost);
}

#[tokio::test]
async fn somebody_else_at_its_address_cannot_end_them() {
    let (link, _address, _endpoints) = replaced(&identity(), &identity()).await;

    let ended = timeout(Duration::from_secs(1), link.closed()).await;

    assert!(ended.is_err(), "{ended:?}");
}

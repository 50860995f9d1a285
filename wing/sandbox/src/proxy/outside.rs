//! What the way out needs of the machine: names, addresses, connections.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use wt_policy::{HostName, VettedAddress};

/// How long a name may take to resolve.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How many names are resolved at once. Each takes a thread, also after its time is over.
const MAX_RESOLVING: usize = 32;

/// How long the addresses of the machine are remembered.
const OWN_FRESH: Duration = Duration::from_secs(5);

/// A future in a box.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The network outside the session, as the machine has it.
pub trait Outside: Send + Sync + 'static {
    /// Finds all addresses of a name, once. The policy decides which of them are used, and
    /// they are dialled by number: nothing is looked up a second time.
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>>;

    /// The addresses of the machine's own interfaces, and the broadcast addresses of their
    /// networks.
    fn own_addresses(&self) -> io::Result<Vec<IpAddr>>;

    /// Connects to an address that the policy has let through.
    fn connect(&self, address: VettedAddress) -> Boxed<'_, io::Result<TcpStream>>;
}

/// The network of the machine: its resolver with `/etc/hosts`, and its interfaces.
#[derive(Debug)]
pub struct HostNetwork {
    resolving: Arc<Semaphore>,
    own: Mutex<Option<(Instant, Vec<IpAddr>)>>,
}

impl HostNetwork {
    /// Makes one that has looked nothing up.
    pub fn new() -> Self {
        Self {
            resolving: Arc::new(Semaphore::new(MAX_RESOLVING)),
            own: Mutex::new(None),
        }
    }
}

impl Default for HostNetwork {
    fn default() -> Self {
        Self::new()
    }
}

impl Outside for HostNetwork {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let look = async {
                let slot = Arc::clone(&self.resolving).acquire_owned().await;
                let name = name.to_string();
                tokio::task::spawn_blocking(move || {
                    // The slot is held as long as the thread is.
                    let _slot = slot;
                    let found = (name.as_str(), 0).to_socket_addrs()?;
                    Ok(found.map(|address| address.ip()).collect::<Vec<_>>())
                })
                .await
                .map_err(io::Error::other)?
            };
            match tokio::time::timeout(RESOLVE_TIMEOUT, look).await {
                Ok(found) => found,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        })
    }

    fn own_addresses(&self) -> io::Result<Vec<IpAddr>> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, addresses)) = &*own
            && when.elapsed() < OWN_FRESH
        {
            return Ok(addresses.clone());
        }
        let mut addresses = Vec::new();
        for interface in getifaddrs()? {
            for address in [interface.address, interface.broadcast]
                .into_iter()
                .flatten()
            {
                if let Some(v4) = address.as_sockaddr_in() {
                    addresses.push(v4.ip().into());
                } else if let Some(v6) = address.as_sockaddr_in6() {
                    addresses.push(v6.ip().into());
                }
            }
        }
        *own = Some((Instant::now(), addresses.clone()));
        Ok(addresses)
    }

    fn connect(&self, address: VettedAddress) -> Boxed<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            let wanted = address.socket_addr();
            let stream = TcpStream::connect(wanted).await?;
            // It was dialled by number; this only fails when something rewrites connections
            // on the way, and then nothing that was decided holds.
            if stream.peer_addr()? != wanted {
                return Err(io::Error::other("the connection went to another address"));
            }
            Ok(stream)
        })
    }
}

/// Connects to a port of the machine itself, the only way that leads there.
pub(super) async fn connect_local(port: u16) -> io::Result<TcpStream> {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpStream::connect(v4).await {
        Ok(stream) => Ok(stream),
        // Some servers listen on ::1 alone.
        Err(error) => TcpStream::connect((Ipv6Addr::LOCALHOST, port))
            .await
            .map_err(|_| error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_machine_resolves_names_from_its_hosts_file_and_knows_its_own_addresses() {
        let network = HostNetwork::new();
        let localhost = HostName::parse("localhost").unwrap();

        let found = network.resolve(&localhost).await.unwrap();

        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
        let own = network.own_addresses().unwrap();
        assert!(own.contains(&Ipv4Addr::LOCALHOST.into()));
    }
}

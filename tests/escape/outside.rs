//! The network as the proxy of a session finds it: names with the addresses that attackers
//! give them, and servers that say where they were dialled.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::net::TcpStream;
use wt_policy::{HostName, VettedAddress};
use wt_sandbox::proxy::{Boxed, Outside};

/// How long a server of the fixtures waits for a client.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address of the machine itself in this network.
const OWN: &str = "93.184.216.99";

/// A network that records what it was asked for.
#[derive(Debug, Default)]
pub(crate) struct FakeNet {
    resolved: Mutex<BTreeMap<String, usize>>,
    dialled: Mutex<Vec<SocketAddr>>,
}

impl FakeNet {
    /// What an honest session could not have caused: names that no policy of the suite allows
    /// and addresses that are not public.
    pub(crate) fn traces(&self) -> Vec<String> {
        let resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let dialled = self.dialled.lock().unwrap_or_else(PoisonError::into_inner);
        let names = resolved
            .iter()
            .filter(|(name, times)| name.contains("evil") || **times > 1)
            .map(|(name, times)| format!("{name} was looked up {times} times"));
        let addresses = dialled
            .iter()
            .filter(|address| !is_public(address.ip()))
            .map(|address| format!("{address} was dialled"));
        names.chain(addresses).collect()
    }
}

fn is_public(address: IpAddr) -> bool {
    let text = address.to_string();
    text.starts_with("93.184.216.") && text != OWN
}

fn addresses_of(name: &str, times: usize) -> Vec<&'static str> {
    match name {
        "allowed.test" => vec!["93.184.216.34"],
        "private.test" => vec!["10.9.9.9"],
        "metadata.test" => vec!["169.254.169.254"],
        "loopback.test" => vec!["127.0.0.1"],
        "own.test" => vec![OWN],
        "nat64.test" => vec!["64:ff9b::a09:909"],
        "sixtofour.test" => vec!["2002:a09:909::"],
        "mapped.test" => vec!["::ffff:10.9.9.9"],
        "mixed.test" => vec!["10.9.9.9", "93.184.216.37"],
        "rebind.test" if times == 0 => vec!["93.184.216.36"],
        "rebind.test" => vec!["10.9.9.9"],
        other if other.ends_with(".wild.test") => vec!["93.184.216.35"],
        _ => vec!["93.184.216.66"],
    }
}

impl Outside for FakeNet {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let times = resolved.entry(name.to_string()).or_default();
        let found = addresses_of(name.as_str(), *times);
        *times += 1;
        let found = found.iter().filter_map(|text| text.parse().ok()).collect();
        Box::pin(async move { Ok(found) })
    }

    fn own_addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(OWN.parse().into_iter().collect())
    }

    fn connect(&self, address: VettedAddress) -> Boxed<'_, io::Result<TcpStream>> {
        let address = address.socket_addr();
        let mut dialled = self.dialled.lock().unwrap_or_else(PoisonError::into_inner);
        dialled.push(address);
        drop(dialled);
        Box::pin(async move { TcpStream::connect(serve(address)?).await })
    }
}

/// Serves one connection, as the server at an address.
fn serve(address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = listener.local_addr()?;
    thread::spawn(move || -> io::Result<()> {
        let (mut client, _) = listener.accept()?;
        client.set_read_timeout(Some(PATIENCE))?;
        let mut bytes = [0; 64 * 1024];
        loop {
            let read = client.read(&mut bytes)?;
            if read == 0 {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let reply = if said.starts_with("GET ") || said.starts_with("POST ") {
                // What arrived is in the answer, so that a case can look at it.
                let body = format!("server {address} got [{said}]");
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
            } else {
                format!("server {address} heard you\n")
            };
            client.write_all(reply.as_bytes())?;
        }
    });
    Ok(at)
}

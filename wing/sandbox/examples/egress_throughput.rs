//! Compares a tunnel through the way out with a direct connection on loopback:
//! `cargo run --release -p wt-sandbox --example egress_throughput [MIB]`.
//!
//! The rounds alternate, so that what else the machine does concerns both alike. The last
//! line is the ratio of the medians.
#![allow(clippy::unwrap_used)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use wt_policy::{
    Granted, HostName, NetworkMode, NetworkNeed, NetworkPolicy, Source, VettedAddress,
};
use wt_sandbox::proxy::audit::AuditLog;
use wt_sandbox::proxy::{Boxed, Egress, Listener, ListenerKind, Outside};

const ROUNDS: usize = 9;

/// One server of this machine stands for every host.
struct Loopback(SocketAddr);

impl Outside for Loopback {
    fn resolve<'a>(&'a self, _: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::from([93, 184, 216, 34])]) })
    }

    fn own_addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    fn connect(&self, _: VettedAddress) -> Boxed<'_, io::Result<tokio::net::TcpStream>> {
        Box::pin(tokio::net::TcpStream::connect(self.0))
    }
}

fn main() {
    let mib: u64 = std::env::args()
        .nth(1)
        .map_or(1_024, |text| text.parse().unwrap());
    let bytes = mib * 1024 * 1024;
    let server = source(bytes);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = listener.local_addr().unwrap();
    let policy = NetworkPolicy {
        need: NetworkNeed::Hosts,
        hosts: vec![Granted {
            value: "example.com:8080".parse().unwrap(),
            source: Source::Default,
        }],
        local_ports: Vec::new(),
        mode: NetworkMode::Enforce,
    };
    let log = std::env::temp_dir().join(format!("egress-{}.jsonl", std::process::id()));
    let listeners = vec![Listener {
        kind: ListenerKind::HttpProxy,
        socket: listener.into(),
    }];
    let audit = AuditLog::open(&log).unwrap();
    let egress = Egress::start(policy, listeners, audit, &[], Arc::new(Loopback(server))).unwrap();

    let mut direct = Vec::new();
    let mut tunnel = Vec::new();
    for _ in 0..ROUNDS {
        direct.push(receive(&mut TcpStream::connect(server).unwrap(), bytes));
        let mut client = TcpStream::connect(proxy).unwrap();
        client
            .write_all(b"CONNECT example.com:8080 HTTP/1.1\r\nHost: example.com:8080\r\n\r\n")
            .unwrap();
        let mut head = [0; 39];
        client.read_exact(&mut head).unwrap();
        assert!(head.ends_with(b"\r\n\r\n"));
        tunnel.push(receive(&mut client, bytes));
    }
    drop(egress);
    std::fs::remove_file(log).unwrap();
    let (direct, tunnel) = (median(direct), median(tunnel));
    println!(
        "direct {direct:.0} MiB/s\ntunnel {tunnel:.0} MiB/s\nratio {:.2}",
        tunnel / direct
    );
}

/// A server that sends so many bytes to whoever comes.
fn source(bytes: u64) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let block = vec![7; 256 * 1024];
            let mut left = bytes;
            while left > 0 {
                let length = left.min(block.len() as u64) as usize;
                client.write_all(&block[..length]).unwrap();
                left -= length as u64;
            }
        }
    });
    address
}

/// Receives so many bytes; how fast, in MiB a second.
fn receive(client: &mut TcpStream, bytes: u64) -> f64 {
    let start = Instant::now();
    let mut buffer = vec![0; 256 * 1024];
    let mut received = 0;
    while received < bytes {
        let count = client.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "{received} of {bytes} bytes");
        received += count as u64;
    }
    bytes as f64 / (1024.0 * 1024.0) / start.elapsed().as_secs_f64()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

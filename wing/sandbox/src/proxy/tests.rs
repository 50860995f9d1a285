//! The way out, tried through its listeners, with servers on loopback that stand for hosts of
//! the internet.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wt_policy::{Granted, HostName, NetworkMode, NetworkNeed, Port, Source, VettedAddress};

use super::audit::{Outcome, Record};
use super::dns::tests::question;
use super::hello::tests::client_hello;
use super::*;

/// Where `example.com` is.
const PUBLIC: &str = "93.184.216.34";

/// How long anything may take before a test fails.
const BOUND: Duration = Duration::from_secs(20);

#[derive(Default)]
struct FakeInternet {
    /// What each name resolves to, one answer after the other; the last one stays.
    names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    /// Which server of this machine stands for which address.
    servers: Mutex<HashMap<SocketAddr, SocketAddr>>,
    resolved: Mutex<Vec<String>>,
    dialled: Mutex<Vec<SocketAddr>>,
}

impl Outside for FakeInternet {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        self.resolved.lock().unwrap().push(name.to_string());
        let mut names = self.names.lock().unwrap();
        let answer = match names.get_mut(name.as_str()) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        Box::pin(async { answer })
    }

    fn own_addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec!["20.0.0.1".parse().unwrap()])
    }

    fn connect(&self, address: VettedAddress) -> Boxed<'_, io::Result<tokio::net::TcpStream>> {
        let address = address.socket_addr();
        self.dialled.lock().unwrap().push(address);
        let server = self.servers.lock().unwrap().get(&address).copied();
        Box::pin(async move {
            match server {
                Some(server) => tokio::net::TcpStream::connect(server).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

struct World {
    egress: Egress,
    internet: Arc<FakeInternet>,
    proxy: SocketAddr,
    socks: SocketAddr,
    dns: SocketAddr,
    dns_tcp: SocketAddr,
    capture: SocketAddr,
    locals: Vec<SocketAddr>,
    audit: PathBuf,
    _folder: tempfile::TempDir,
}

fn policy(rules: &[&str]) -> NetworkPolicy {
    let granted = |rule: &&str| Granted {
        value: rule.parse().unwrap(),
        source: Source::Default,
    };
    NetworkPolicy {
        need: NetworkNeed::Hosts,
        hosts: rules.iter().map(granted).collect(),
        local_ports: Vec::new(),
        mode: NetworkMode::Enforce,
    }
}

fn tcp() -> (OwnedFd, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

impl World {
    fn new(rules: &[&str]) -> Self {
        Self::with(policy(rules), &[])
    }

    fn with(policy: NetworkPolicy, local_ports: &[u16]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("network.jsonl");
        let internet = Arc::new(FakeInternet::default());
        let (proxy_fd, proxy) = tcp();
        let (socks_fd, socks) = tcp();
        let (dns_tcp_fd, dns_tcp) = tcp();
        let (capture_fd, capture) = tcp();
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let dns = SocketAddr::from((Ipv4Addr::LOCALHOST, udp.local_addr().unwrap().port()));
        let listener = |kind, socket| Listener { kind, socket };
        let mut listeners = vec![
            listener(ListenerKind::HttpProxy, proxy_fd),
            listener(ListenerKind::Socks, socks_fd),
            listener(ListenerKind::DnsTcp, dns_tcp_fd),
            listener(ListenerKind::Capture(443), capture_fd),
            listener(ListenerKind::DnsUdp, udp.into()),
        ];
        if std::env::var_os(INSIDE).is_some() {
            for port in [80, 443] {
                // Both families, as a listener of the session has them.
                let socket = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).unwrap();
                listeners.push(listener(ListenerKind::Capture(port), socket.into()));
            }
        }
        let mut locals = Vec::new();
        for port in local_ports {
            let (fd, address) = tcp();
            listeners.push(listener(ListenerKind::LocalPort(*port), fd));
            locals.push(address);
        }
        let patience = Patience {
            head: Duration::from_millis(400),
            hello: Duration::from_millis(400),
        };
        let log = AuditLog::open(&audit).unwrap();
        let outside = Arc::clone(&internet) as Arc<dyn Outside>;
        let egress = Egress::start_with(policy, listeners, log, &[1], outside, patience).unwrap();
        Self {
            egress,
            internet,
            proxy,
            socks,
            dns,
            dns_tcp,
            capture,
            locals,
            audit,
            _folder: folder,
        }
    }

    /// Lets a name resolve to addresses, one answer after the other.
    fn name(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|a| a.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.internet
            .names
            .lock()
            .unwrap()
            .insert(name.to_owned(), answers);
    }

    /// Lets a server of this machine stand for an address.
    fn serve(&self, address: &str, server: SocketAddr) {
        let address = address.parse().unwrap();
        self.internet
            .servers
            .lock()
            .unwrap()
            .insert(address, server);
    }

    /// `example.com:443` as an echo.
    fn example(rules: &[&str]) -> Self {
        let world = Self::new(rules);
        world.name("example.com", &[&[PUBLIC]]);
        world.serve(&format!("{PUBLIC}:443"), echo());
        world
    }

    /// Sends a request to the proxy and reads until the end.
    fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = dial(self.proxy);
        client.write_all(request.as_ref()).unwrap();
        rest(&mut client)
    }

    fn connect(&self, target: &str) -> String {
        self.ask(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        ))
    }

    /// An open tunnel.
    fn tunnel(&self, target: &str) -> TcpStream {
        let mut client = dial(self.proxy);
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let head = head(&mut client);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        client
    }

    fn dialled(&self) -> Vec<String> {
        let dialled = self.internet.dialled.lock().unwrap();
        dialled.iter().map(ToString::to_string).collect()
    }

    /// Waits for a record and returns it.
    #[track_caller]
    fn record(&self, what: impl Fn(&Record) -> bool) -> Record {
        let start = Instant::now();
        loop {
            let records = audit::read(&self.audit).unwrap();
            if let Some(record) = records.iter().find(|record| what(record)) {
                return record.clone();
            }
            assert!(start.elapsed() < BOUND, "no such record among {records:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn dial(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(BOUND)).unwrap();
    client
}

/// Reads until the end; a reset is an end.
fn rest(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match client.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if client.read(&mut byte).unwrap() == 0 {
            break;
        }
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

fn exactly(client: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

fn is_reset(client: &mut TcpStream) -> bool {
    let mut byte = [0];
    matches!(client.read(&mut byte), Err(error) if error.kind() == io::ErrorKind::ConnectionReset)
}

fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let serve = Arc::clone(&serve);
            let client = client.unwrap();
            client.set_read_timeout(Some(BOUND)).unwrap();
            std::thread::spawn(move || serve(client));
        }
    });
    address
}

fn echo() -> SocketAddr {
    server(|client| {
        let _ = io::copy(&mut &client, &mut &client);
        let _ = client.shutdown(Shutdown::Write);
    })
}

/// A server that keeps the heads of its requests and answers each with `reply`.
fn http(reply: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    let address = server(move |mut client| {
        let head = head(&mut client);
        if !head.is_empty() {
            kept.lock().unwrap().push(head);
            let _ = client.write_all(reply.as_bytes());
        }
    });
    (address, heads)
}

fn status(reply: &str) -> &str {
    reply.split(' ').nth(1).unwrap_or("none")
}

fn body(reply: &str) -> serde_json::Value {
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn an_allowed_host_is_reached_through_a_tunnel() {
    let world = World::example(&["example.com"]);
    for target in ["example.com:443", "EXAMPLE.COM.:443"] {
        let mut client = world.tunnel(target);
        let hello = client_hello(Some("example.com"));
        client.write_all(&hello).unwrap();
        assert_eq!(exactly(&mut client, hello.len()), hello);
        client.write_all(b"after").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(&mut client), "after");
    }

    let ended = world.record(|record| record.outcome == Outcome::Ended);
    let length = client_hello(Some("example.com")).len() as u64 + 5;
    assert_eq!((ended.sent, ended.received), (length, length));
    let allowed = world.record(|record| record.outcome == Outcome::Allowed);
    assert_eq!(
        (allowed.host.as_str(), allowed.port),
        ("example.com", Some(443))
    );
    assert_eq!(allowed.rule.as_deref(), Some("example.com:443"));
}

#[test]
fn bytes_that_come_with_the_request_are_not_lost() {
    let world = World::example(&["example.com"]);
    let mut client = dial(world.proxy);
    let hello = client_hello(Some("example.com"));
    let request = [
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n".as_slice(),
        &hello,
    ]
    .concat();
    client.write_all(&request).unwrap();

    assert!(head(&mut client).starts_with("HTTP/1.1 200"));
    assert_eq!(exactly(&mut client, hello.len()), hello);
}

#[test]
fn what_no_rule_allows_is_denied_with_a_reason() {
    let world = World::example(&["example.com", "*.wild.test"]);
    for (target, code) in [
        ("other.test:443", "not-listed"),
        ("evil-example.com:443", "not-listed"),
        ("xexample.com:443", "not-listed"),
        ("example.com.evil.test:443", "not-listed"),
        ("wild.test:443", "not-listed"),
        ("dns.google:443", "not-listed"),
        ("example.com:22", "port"),
        ("example.com:25", "port"),
        ("127.0.0.1:443", "loopback"),
        ("[::1]:443", "loopback"),
        ("[::ffff:127.0.0.1]:443", "loopback"),
        ("localhost.:443", "loopback"),
        ("0.0.0.0:443", "unspecified"),
        ("10.9.9.9:80", "private"),
        ("169.254.169.254:80", "metadata"),
        ("[64:ff9b::a09:909]:443", "private"),
        ("[2002:a09:909::]:443", "private"),
        ("198.18.0.1:443", "benchmarking"),
        ("93.184.216.34:443", "not-listed"),
    ] {
        let reply = world.connect(target);
        assert_eq!(status(&reply), "403", "{target}: {reply}");
        assert!(reply.contains("X-Egg-Denied: 1\r\n"));
        let body = body(&reply);
        assert_eq!(
            (&body["egg"], &body["code"]),
            (&"denied".into(), &code.into()),
            "{target}"
        );
    }
    let body = body(&world.connect("other.test:8443"));
    assert_eq!(body["rule"], "other.test:8443");
    assert_eq!(body["reason"], "no rule allows other.test");
    assert_eq!(body["explain"], "wt egg explain --why other.test");
    assert_eq!(world.dialled(), Vec::<String>::new());
    assert_eq!(
        *world.internet.resolved.lock().unwrap(),
        Vec::<String>::new()
    );
    let denied = world.record(|record| record.host == "evil-example.com");
    assert_eq!(denied.outcome, Outcome::Denied);
}

#[test]
fn an_empty_list_allows_nothing() {
    let world = World::example(&[]);
    assert_eq!(status(&world.connect("example.com:443")), "403");
    assert_eq!(
        status(&World::example(&["*"]).tunnel_head("example.com:443")),
        "200"
    );
}

impl World {
    fn tunnel_head(&self, target: &str) -> String {
        let mut client = dial(self.proxy);
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        head(&mut client)
    }
}

#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let world = World::new(&["example.com", "example.com:80"]);
    world.name("example.com", &[&[PUBLIC]]);
    let (server, heads) = http(OK);
    world.serve(&format!("{PUBLIC}:80"), server);
    let get = "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n";
    let post = "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\n";
    for request in [
        "CONNECT example.com\0.evil:443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT exam\rple.com:443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT exam ple.com:443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT example.com%00.evil:443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT [fe80::1%eth0]:443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT example.com:65536 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT example.com:+443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT example.com:0443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET http://example.com@evil.test/ HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned(),
        "GET http://example.com/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned(),
        "GET http://example.com:443/ HTTP/1.1\r\nHost: example.com:443\r\n\r\n".to_owned(),
        format!("{post}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        format!("{get}A: b\r\n c\r\n\r\n"),
        format!("{get}A : b\r\n\r\n"),
        format!("{get}A: {}\r\n\r\n", "a".repeat(100_000)),
        "GET http://example.com/ HTTP/1.1\nHost: example.com\n\n".to_owned(),
        "\x16\x03\x01\x00\x01\x01\r\n\r\n".to_owned(),
    ] {
        assert_eq!(status(&world.ask(&request)), "400", "{request:?}");
    }
    assert!(heads.lock().unwrap().is_empty());
    assert_eq!(world.dialled(), Vec::<String>::new());

    let good = world.ask(format!("{get}Connection: close\r\n\r\n"));
    assert!(good.ends_with("\r\n\r\nok"), "{good}");
}

#[test]
fn a_name_is_resolved_once_and_only_public_addresses_are_dialled() {
    let world = World::example(&["example.com"]);
    for addresses in [
        &["10.9.9.9"],
        &["127.0.0.1"],
        &["::ffff:10.9.9.9"],
        &["64:ff9b::a09:909"],
        &["2002:a09:909::"],
        &["169.254.169.254"],
        &["20.0.0.1"],
        &["fd00::1"],
    ] {
        world.name("example.com", &[addresses]);
        assert_eq!(
            status(&world.connect("example.com:443")),
            "403",
            "{addresses:?}"
        );
    }
    assert_eq!(world.dialled(), Vec::<String>::new());

    // First public, then private: the second answer is never asked for by one connection.
    world.name("example.com", &[&[PUBLIC], &["127.0.0.1"]]);
    world.internet.resolved.lock().unwrap().clear();
    drop(world.tunnel("example.com:443"));
    assert_eq!(world.internet.resolved.lock().unwrap().len(), 1);
    assert_eq!(status(&world.connect("example.com:443")), "403");
    assert_eq!(world.dialled(), [format!("{PUBLIC}:443")]);

    world.name("example.com", &[&["10.9.9.9", PUBLIC]]);
    drop(world.tunnel("example.com:443"));
    assert_eq!(
        world.dialled(),
        [format!("{PUBLIC}:443"), format!("{PUBLIC}:443")]
    );
    let mixed = world.record(|record| record.outcome == Outcome::Suspicious);
    assert_eq!(
        mixed.reason,
        "it also resolves to 10.9.9.9, an address of a private network"
    );
}

#[test]
fn a_private_address_is_reached_when_a_rule_names_it() {
    let world = World::new(&["inner.test:8080", "10.9.0.0/16:8080"]);
    world.name("inner.test", &[&["10.9.9.9"]]);
    world.serve("10.9.9.9:8080", echo());
    for target in ["inner.test:8080", "10.9.9.9:8080"] {
        let mut client = world.tunnel(target);
        client.write_all(b"hi").unwrap();
        assert_eq!(exactly(&mut client, 2), b"hi");
    }
}

#[test]
fn the_next_address_is_tried_when_one_fails() {
    let world = World::example(&["example.com"]);
    world.name("example.com", &[&["93.184.216.99", PUBLIC]]);
    let mut client = world.tunnel("example.com:443");
    client
        .write_all(&client_hello(Some("example.com")))
        .unwrap();
    exactly(&mut client, 5);
    world.name("example.com", &[&["93.184.216.99"]]);
    assert_eq!(status(&world.connect("example.com:443")), "502");
}

#[test]
fn tls_to_another_server_is_cut_before_it_gets_there() {
    let world = World::new(&["example.com", "example.com:8443"]);
    world.name("example.com", &[&[PUBLIC]]);
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let server = server(move |mut client| {
        let mut buffer = [0; 1_000];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            counter.fetch_add(count, Ordering::SeqCst);
            let _ = client.write_all(&buffer[..count]);
        }
    });
    world.serve(&format!("{PUBLIC}:443"), server);
    world.serve(&format!("{PUBLIC}:8443"), server);
    for (target, first) in [
        ("example.com:443", client_hello(Some("evil.test"))),
        ("example.com:443", client_hello(None)),
        ("example.com:443", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("example.com:443", b"SSH-2.0-x\r\n".to_vec()),
        (
            "example.com:443",
            [&[22, 3, 1, 0x40, 0, 1, 2, 0, 0], vec![0; 200].as_slice()].concat(),
        ),
        (
            "example.com:443",
            client_hello(Some("example.com"))[..40].to_vec(),
        ),
        ("example.com:8443", client_hello(Some("evil.test"))),
    ] {
        let mut client = world.tunnel(target);
        client.write_all(&first).unwrap();
        assert_eq!(rest(&mut client), "", "{target}");
    }
    // Silence is no way around it.
    let mut silent = world.tunnel("example.com:443");
    assert_eq!(rest(&mut silent), "");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    let cut = world.record(|record| record.reason.contains("TLS asks for evil.test"));
    assert_eq!(cut.outcome, Outcome::Cut);

    for target in ["example.com:443", "example.com:8443"] {
        let mut client = world.tunnel(target);
        let hello = client_hello(Some("Example.Com"));
        for byte in &hello {
            client.write_all(&[*byte]).unwrap();
        }
        assert_eq!(exactly(&mut client, hello.len()), hello);
    }
    let mut raw = world.tunnel("example.com:8443");
    raw.write_all(b"raw").unwrap();
    assert_eq!(exactly(&mut raw, 3), b"raw");
}

#[test]
fn only_ssh_goes_through_port_22() {
    let world = World::new(&["example.com:22"]);
    world.name("example.com", &[&[PUBLIC]]);
    world.serve(&format!("{PUBLIC}:22"), echo());
    let mut ssh = world.tunnel("example.com:22");
    ssh.write_all(b"SSH-2.0-test\r\n").unwrap();
    assert_eq!(exactly(&mut ssh, 14), b"SSH-2.0-test\r\n");
    let mut other = world.tunnel("example.com:22");
    other.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert_eq!(rest(&mut other), "");
}

#[test]
fn each_request_of_a_connection_is_decided() {
    let world = World::new(&["example.com:80"]);
    world.name("example.com", &[&[PUBLIC]]);
    let (server, heads) = http(OK);
    world.serve(&format!("{PUBLIC}:80"), server);
    let mut client = dial(world.proxy);
    let mut get = |host: &str| {
        let request = format!("GET http://{host}/a HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let head = head(&mut client);
        let length = head.split("Content-Length: ").nth(1).unwrap();
        let length = length.split("\r\n").next().unwrap().parse().unwrap();
        let body = String::from_utf8(exactly(&mut client, length)).unwrap();
        (status(&head).to_owned(), body)
    };

    assert_eq!(get("example.com"), ("200".to_owned(), "ok".to_owned()));
    assert_eq!(get("evil.test").0, "403");
    assert_eq!(get("10.9.9.9").0, "403");
    assert_eq!(get("example.com"), ("200".to_owned(), "ok".to_owned()));
    assert_eq!(
        *heads.lock().unwrap(),
        vec!["GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"; 2]
    );
}

#[test]
fn bodies_of_every_kind_go_through() {
    let world = World::new(&["example.com:80"]);
    world.name("example.com", &[&[PUBLIC]]);
    // Replies with what it got after the head, in chunks, once it saw the end of it.
    let server = server(|mut client| {
        let request = head(&mut client);
        if request.contains("Expect: 100-continue") {
            client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        let mut body = Vec::new();
        while !body.ends_with(b"0\r\n\r\n") && !body.ends_with(b"end") {
            body.extend(exactly(&mut client, 1));
        }
        let size = body.len();
        write!(
            client,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size:x};x=y\r\n"
        )
        .unwrap();
        client.write_all(&body).unwrap();
        client
            .write_all(b"\r\n0\r\nTrailer: dropped\r\n\r\n")
            .unwrap();
    });
    world.serve(&format!("{PUBLIC}:80"), server);
    let post = "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n";

    let chunked = world.ask(format!(
        "{post}Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"
    ));
    let (_, body) = chunked.split_once("\r\n\r\n").unwrap();
    assert!(
        body.contains("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        "{chunked}"
    );
    assert!(
        body.ends_with("\r\n0\r\n\r\n") && !body.contains("Trailer"),
        "{chunked}"
    );

    let expected = world.ask(format!(
        "{post}Expect: 100-continue\r\nContent-Length: 6\r\n\r\nabcend"
    ));
    assert!(
        expected.starts_with("HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 "),
        "{expected}"
    );
    assert!(expected.contains("abcend"));

    let old = world.ask("POST http://example.com/ HTTP/1.0\r\nContent-Length: 3\r\n\r\nend");
    assert!(old.ends_with("Connection: close\r\n\r\nend"), "{old}");

    let lies = world.ask(format!(
        "{post}Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"
    ));
    assert_eq!(status(&lies), "400", "{lies}");
}

#[test]
fn a_reply_that_can_be_read_in_two_ways_is_not_passed_on() {
    for bad in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "",
    ] {
        let world = World::new(&["example.com:80"]);
        world.name("example.com", &[&[PUBLIC]]);
        world.serve(&format!("{PUBLIC}:80"), http(bad).0);
        let reply = world.ask("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n");
        assert_eq!(status(&reply), "502", "{bad:?}: {reply}");
    }
}

#[test]
fn a_websocket_goes_through_and_no_other_upgrade() {
    let world = World::new(&["example.com:80"]);
    world.name("example.com", &[&[PUBLIC]]);
    let server = server(|mut client| {
        let request = head(&mut client);
        assert!(request.contains("Upgrade: websocket\r\n"), "{request}");
        client
            .write_all(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst")
            .unwrap();
        let _ = io::copy(&mut &client, &mut &client);
    });
    world.serve(&format!("{PUBLIC}:80"), server);
    let mut client = world.tunnel("example.com:80");
    client
        .write_all(
            b"GET /chat HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive, Upgrade\r\n\
              Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
        )
        .unwrap();

    assert!(head(&mut client).starts_with("HTTP/1.1 101"));
    assert_eq!(exactly(&mut client, 5), b"first");
    client.write_all(b"frame").unwrap();
    assert_eq!(exactly(&mut client, 5), b"frame");

    let (server, heads) = http(OK);
    world.serve(&format!("{PUBLIC}:80"), server);
    let reply = world.ask(
        "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nUpgrade: h2c\r\n\
         Connection: close, Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n\r\n",
    );
    assert_eq!(status(&reply), "200");
    assert_eq!(
        heads.lock().unwrap()[0],
        "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn plain_http_through_a_tunnel_names_the_host_of_the_tunnel() {
    let world = World::new(&["example.com:80"]);
    world.name("example.com", &[&[PUBLIC]]);
    let (server, heads) = http(OK);
    world.serve(&format!("{PUBLIC}:80"), server);
    let ask = |host: &str| {
        let mut client = world.tunnel("example.com:80");
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        rest(&mut client)
    };

    assert_eq!(status(&ask("example.com")), "200");
    assert_eq!(status(&ask("evil.test")), "400");
    assert_eq!(heads.lock().unwrap().len(), 1);
}

fn socks_request(name: &[u8], port: u16) -> Vec<u8> {
    let mut request = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
    request.extend_from_slice(name);
    request.extend_from_slice(&port.to_be_bytes());
    request
}

#[test]
fn socks_follows_the_same_rules() {
    let world = World::example(&["example.com", "example.com:8080"]);
    world.serve(&format!("{PUBLIC}:8080"), echo());
    let ask = |name: &[u8], port| {
        let mut client = dial(world.socks);
        client.write_all(&socks_request(name, port)).unwrap();
        assert_eq!(exactly(&mut client, 2), [5, 0]);
        let code = exactly(&mut client, 10)[1];
        (client, code)
    };
    for (name, port, code) in [
        (b"evil.test".as_slice(), 443, 2),
        (b"evil.test\0.example.com", 443, 2),
        (b"example.com", 22, 2),
        (b"10.9.9.9", 443, 2),
        (b"127.0.0.1", 443, 2),
        (b"::1", 443, 2),
        (b"0x7f.1", 443, 2),
    ] {
        assert_eq!(ask(name, port).1, code, "{name:?}");
    }

    let (mut client, code) = ask(b"Example.com", 8080);
    assert_eq!(code, 0);
    client.write_all(b"hi").unwrap();
    assert_eq!(exactly(&mut client, 2), b"hi");

    let (mut fronting, code) = ask(b"example.com", 443);
    assert_eq!(code, 0);
    fronting
        .write_all(&client_hello(Some("evil.test")))
        .unwrap();
    assert_eq!(rest(&mut fronting), "");
}

#[test]
fn names_are_answered_by_the_policy_and_never_asked_further() {
    let world = World::new(&["example.com", "*.wild.test"]);
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.set_read_timeout(Some(BOUND)).unwrap();
    client.connect(world.dns).unwrap();
    let ask = |name: &str, kind| {
        client.send(&question(name, kind)).unwrap();
        let mut buffer = [0; 2_000];
        let length = client.recv(&mut buffer).unwrap();
        (buffer[3] & 15, buffer[..length].to_vec())
    };

    let (code, first) = ask("example.com", 1);
    assert_eq!(code, 0);
    assert!(first.ends_with(&[198, 18, 0, 1]), "{first:?}");
    assert_eq!(ask("EXAMPLE.com", 1).1[40..], first[40..]);
    assert_eq!(ask("example.com", 28).0, 0);
    assert_eq!(ask("example.com", 65).0, 0);
    assert_eq!(ask("example.com", 16).0, 5);
    assert_eq!(ask("c2VjcmV0.evil.test", 1).0, 3);
    assert_eq!(
        *world.internet.resolved.lock().unwrap(),
        Vec::<String>::new()
    );
    world.record(|record| record.host == "c2vjcmv0.evil.test" && record.outcome == Outcome::Denied);

    // Names below a wildcard carry data, and so they come slowly.
    let codes: Vec<u8> = (0..70)
        .map(|i| ask(&format!("d{i}.wild.test"), 1).0)
        .collect();
    assert_eq!(codes, [vec![0; 64], vec![2; 6]].concat());

    let mut tcp = dial(world.dns_tcp);
    for _ in 0..2 {
        let asked = question("example.com", 1);
        let length = u16::try_from(asked.len()).unwrap().to_be_bytes();
        tcp.write_all(&[&length, asked.as_slice()].concat())
            .unwrap();
        let length = exactly(&mut tcp, 2);
        let reply = exactly(
            &mut tcp,
            usize::from(length[0]) << 8 | usize::from(length[1]),
        );
        assert!(reply.ends_with(&[198, 18, 0, 1]));
    }
}

#[test]
fn an_answer_comes_from_the_address_that_was_asked() {
    let world = World::new(&["example.com"]);
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.set_read_timeout(Some(BOUND)).unwrap();
    let asked = SocketAddr::from(([127, 0, 0, 53], world.dns.port()));
    client.send_to(&question("example.com", 1), asked).unwrap();
    let mut buffer = [0; 2_000];
    assert_eq!(client.recv_from(&mut buffer).unwrap().1, asked);
}

#[test]
fn a_connection_to_an_address_that_no_rule_names_is_reset() {
    let world = World::new(&["example.com"]);
    assert!(is_reset(&mut dial(world.capture)));
    let denied = world.record(|record| record.outcome == Outcome::Denied);
    assert_eq!(
        (denied.way, denied.host.as_str()),
        (audit::Way::Capture, "127.0.0.1")
    );
}

#[test]
fn an_address_that_was_given_for_a_name_stands_for_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(&folder.path().join("log")).unwrap();
    let (_keep, changes) = watch::channel(Arc::new(policy(&["example.com"])));
    let outside = Arc::new(FakeInternet::default());
    let gate = Gate::new(
        changes,
        outside,
        Arc::new(log),
        Vec::new(),
        Patience::default(),
    );
    let name = HostName::parse("example.com").unwrap();
    let captured = |text: &str| {
        serve::captured(&gate, text.parse().unwrap()).map(|destination| destination.to_string())
    };
    assert_eq!(captured("198.18.0.1:443"), None);

    let answer = gate.name_answer(&name);

    assert_eq!(
        answer,
        dns::NameAnswer::Address(Ipv4Addr::new(198, 18, 0, 1))
    );
    assert_eq!(
        captured("198.18.0.1:443").as_deref(),
        Some("example.com:443")
    );
    assert_eq!(
        captured("[::ffff:198.18.0.1]:443").as_deref(),
        Some("example.com:443")
    );
    assert_eq!(captured("198.18.0.2:443"), None);
    assert_eq!(
        captured("203.0.113.10:80").as_deref(),
        Some("203.0.113.10:80")
    );
}

/// Set in the process that [`programs_that_know_no_proxy_are_served_by_the_same_rules`]
/// starts in a network of its own.
const INSIDE: &str = "EGRESS_TEST_INSIDE";

#[test]
fn programs_that_know_no_proxy_are_served_by_the_same_rules() {
    if std::env::var_os(INSIDE).is_some() {
        return capture_in_a_network_of_its_own();
    }
    let routes = "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && \
                  ip -6 route add local ::/0 dev lo && exec \"$0\" --exact --nocapture \
                  proxy::tests::programs_that_know_no_proxy_are_served_by_the_same_rules";
    let run = std::process::Command::new("unshare")
        .args(["-rn", "sh", "-c", routes])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .output();
    let missing = match &run {
        Ok(run) => {
            let said = String::from_utf8_lossy(&run.stderr);
            run.status.code() == Some(127) || said.contains("unshare failed")
        }
        Err(_) => true,
    };
    if missing {
        println!("skipped: no network namespace can be made here with unshare and ip");
        return;
    }
    let run = run.unwrap();
    assert!(
        run.status.success(),
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

fn capture_in_a_network_of_its_own() {
    let world = World::new(&["example.com", "example.com:80", "203.0.113.10"]);
    world.name("example.com", &[&[PUBLIC]]);
    world.serve(&format!("{PUBLIC}:443"), echo());
    world.serve("203.0.113.10:443", echo());
    let (server, _) = http(OK);
    world.serve(&format!("{PUBLIC}:80"), server);
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.set_read_timeout(Some(BOUND)).unwrap();
    client
        .send_to(&question("example.com", 1), world.dns)
        .unwrap();
    let mut answer = [0; 2_000];
    let length = client.recv(&mut answer).unwrap();
    assert!(answer[..length].ends_with(&[198, 18, 0, 1]));
    let at = |address: &str| dial(address.parse().unwrap());

    let hello = client_hello(Some("example.com"));
    for address in ["198.18.0.1:443", "203.0.113.10:443"] {
        let mut client = at(address);
        client.write_all(&hello).unwrap();
        assert_eq!(exactly(&mut client, hello.len()), hello, "{address}");
    }
    let mut fronting = at("198.18.0.1:443");
    fronting
        .write_all(&client_hello(Some("evil.test")))
        .unwrap();
    assert!(is_reset(&mut fronting));
    for address in [
        "198.18.0.2:443",
        "203.0.113.11:443",
        "93.184.216.34:443",
        "[2001:db8::5]:443",
        "169.254.169.254:80",
        "10.9.9.9:80",
        "127.0.0.1:443",
        "[::1]:443",
        "203.0.113.10:80",
    ] {
        assert!(is_reset(&mut at(address)), "{address}");
    }
    let plain = |host: &str| {
        let mut client = at("198.18.0.1:80");
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        status(&rest(&mut client)).to_owned()
    };
    assert_eq!(plain("example.com"), "200");
    assert_eq!(plain("evil.test"), "400");
    assert_eq!(
        TcpStream::connect("198.18.0.1:8443").unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
    let quic = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    quic.set_read_timeout(Some(BOUND)).unwrap();
    quic.connect("198.18.0.1:443").unwrap();
    let _ = quic.send(b"quic");
    assert_eq!(
        quic.recv(&mut [0; 10]).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
}

#[test]
fn a_client_that_resolves_names_itself_may_ask_for_their_addresses() {
    let world = World::example(&["example.com"]);
    assert_eq!(status(&world.connect("198.18.0.1:443")), "403");
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.set_read_timeout(Some(BOUND)).unwrap();
    client
        .send_to(&question("example.com", 1), world.dns)
        .unwrap();
    client.recv(&mut [0; 2_000]).unwrap();

    let mut tunnel = world.tunnel("198.18.0.1:443");

    let hello = client_hello(Some("example.com"));
    tunnel.write_all(&hello).unwrap();
    assert_eq!(exactly(&mut tunnel, hello.len()), hello);
    assert_eq!(status(&world.connect("198.18.0.2:443")), "403");
}

#[test]
fn a_local_port_is_forwarded_and_only_it() {
    let open = echo();
    let closed = echo();
    let mut policy = policy(&[]);
    policy.local_ports.push(Granted {
        value: Port::new(open.port()).unwrap(),
        source: Source::Default,
    });
    let world = World::with(policy.clone(), &[open.port(), closed.port()]);

    let mut client = dial(world.locals[0]);
    client.write_all(b"hi").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut client), "hi");
    assert!(is_reset(&mut dial(world.locals[1])));

    let target = format!("127.0.0.1:{}", open.port());
    let reply = world.connect(&target);
    assert_eq!(status(&reply), "403");
    assert!(reply.contains("without a proxy"), "{reply}");

    let mut held = dial(world.locals[0]);
    held.write_all(b"hi").unwrap();
    assert_eq!(exactly(&mut held, 2), b"hi");
    policy.local_ports.clear();
    world.egress.set_policy(policy);
    assert_eq!(rest(&mut held), "");
}

#[test]
fn a_port_of_wingthing_itself_is_never_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let start = |forbidden: &[u16]| {
        let log = AuditLog::open(&folder.path().join("log")).unwrap();
        let listeners = vec![Listener {
            kind: ListenerKind::LocalPort(7_070),
            socket: tcp().0,
        }];
        Egress::start(
            policy(&[]),
            listeners,
            log,
            forbidden,
            Arc::new(HostNetwork::new()),
        )
    };
    let error = start(&[7_070]).unwrap_err();
    assert_eq!(error.step, Step::Egress);
    assert!(start(&[7_071]).is_ok());
}

#[test]
fn a_tunnel_ends_when_its_rule_is_taken_away() {
    let world = World::example(&["example.com"]);
    let mut client = world.tunnel("example.com:443");
    let hello = client_hello(Some("example.com"));
    client.write_all(&hello).unwrap();
    exactly(&mut client, hello.len());

    world
        .egress
        .set_policy(policy(&["example.com", "other.test"]));
    client.write_all(b"still").unwrap();
    assert_eq!(exactly(&mut client, 5), b"still");
    world.egress.set_policy(policy(&["other.test"]));

    assert_eq!(rest(&mut client), "");
    assert_eq!(status(&world.connect("example.com:443")), "403");
    world.record(|record| record.reason == "the policy was changed");
}

#[test]
fn an_observed_session_reaches_public_hosts_and_it_is_written_down() {
    let mut observed = policy(&[]);
    observed.mode = NetworkMode::Observe;
    let world = World::with(observed, &[]);
    world.name("example.com", &[&[PUBLIC]]);
    world.name("inner.test", &[&["10.9.9.9"]]);
    world.serve(&format!("{PUBLIC}:8080"), echo());
    let mut client = world.tunnel("example.com:8080");
    client.write_all(b"hi").unwrap();
    assert_eq!(exactly(&mut client, 2), b"hi");
    world.record(|record| record.outcome == Outcome::Observed);
    for target in [
        "inner.test:443",
        "10.9.9.9:443",
        "127.0.0.1:80",
        "169.254.169.254:80",
    ] {
        assert_eq!(status(&world.connect(target)), "403", "{target}");
    }
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let world = World::example(&["example.com"]);
    let mut slow: Vec<TcpStream> = (0..400).map(|_| dial(world.proxy)).collect();
    for client in &mut slow {
        let _ = client.write_all(b"CONNECT exam");
    }

    drop(world.tunnel("example.com:443"));

    let reply = rest(&mut slow[0]);
    assert_eq!(status(&reply), "400");
    assert!(reply.contains("in time"), "{reply}");
}

#[test]
fn large_transfers_arrive_whole_in_both_directions() {
    let world = World::new(&["example.com:8080"]);
    world.name("example.com", &[&[PUBLIC]]);
    world.serve(&format!("{PUBLIC}:8080"), echo());
    let client = world.tunnel("example.com:8080");
    let data: Vec<u8> = (0..8 * 1024 * 1024_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let sent = data.clone();
    let mut writer = client.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    (&client).read_to_end(&mut received).unwrap();
    writing.join().unwrap();

    assert!(
        received == data,
        "{} of {} bytes",
        received.len(),
        data.len()
    );
    let ended = world.record(|record| record.outcome == Outcome::Ended);
    assert_eq!(
        (ended.sent, ended.received),
        (data.len() as u64, data.len() as u64)
    );
}

#[test]
fn everything_ends_with_the_way_out() {
    let world = World::example(&["example.com"]);
    let mut client = world.tunnel("example.com:443");
    let hello = client_hello(Some("example.com"));
    client.write_all(&hello).unwrap();
    exactly(&mut client, hello.len());
    let proxy = world.proxy;

    drop(world.egress);

    assert_eq!(rest(&mut client), "");
    assert!(TcpStream::connect(proxy).is_err());
}

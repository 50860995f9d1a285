//! One connection of a session, from its first byte to its last.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;
use wt_policy::{Destination, Host, Port};

use super::audit::{Outcome, Record, Way};
use super::dns;
use super::gate::{First, Gate, Passage, Refusal};
use super::head::{self, Body, MAX_HEAD, ReplyHead, RequestHead, Target};
use super::hello::{HelloError, HelloReader};
use super::names::is_in_pool;
use super::outside::connect_local;
use super::relay::{self, Traffic, relay, reset, silence, write};
use super::socks::{self, Reply};

/// How long a client may wait with its next request.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// How long a client may take for the rest of a reply that refuses it.
const FAREWELL: Duration = Duration::from_secs(2);

/// How much is read at a time.
const READ: usize = 16 * 1024;

/// The longest line of a chunked body.
const MAX_CHUNK_LINE: usize = 1_024;

/// The longest trailer of a chunked body, which is dropped.
const MAX_TRAILER: usize = 8 * 1024;

/// Serves the port of the HTTP proxy.
pub(super) async fn http_proxy(gate: Arc<Gate>, client: TcpStream) {
    relay::prepare(&client);
    let inbox = Inbox::new(&client, Vec::new());
    serve_http(&gate, inbox, Way::Http, None).await;
}

/// Serves a connection that the session made to an address as if there were no proxy.
pub(super) async fn capture(gate: Arc<Gate>, client: TcpStream) {
    relay::prepare(&client);
    let Ok(original) = client.local_addr() else {
        return;
    };
    let Some(destination) = captured(&gate, original) else {
        let reason = "the address stands for no name";
        gate.note_refused(Way::Capture, &original.to_string(), reason);
        return reset(&client);
    };
    let port = destination.port;
    // A client that speaks HTTP to a name can be told why.
    if port == Port::HTTP && destination.host.name().is_some() {
        let inbox = Inbox::new(&client, Vec::new());
        return serve_http(&gate, inbox, Way::Capture, Some(destination)).await;
    }
    let Ok(permit) = gate.permit(Way::Capture, &destination) else {
        return reset(&client);
    };
    if port == Port::HTTP {
        let inbox = Inbox::new(&client, Vec::new());
        return serve_http(&gate, inbox, Way::Capture, Some(destination)).await;
    }
    match gate.connect(Way::Capture, permit).await {
        Ok(passage) => tunnel(&client, Vec::new(), passage).await,
        Err(_) => reset(&client),
    }
}

/// What the address stands for that a connection was made to.
pub(super) fn captured(gate: &Gate, original: SocketAddr) -> Option<Destination> {
    let host = match original.ip().to_canonical() {
        IpAddr::V4(v4) if is_in_pool(v4) => Host::Name(gate.name_of(v4)?),
        address => Host::Address(address),
    };
    Some(Destination {
        host,
        port: Port::new(original.port())?,
    })
}

/// Serves SOCKS 5.
pub(super) async fn socks(gate: Arc<Gate>, client: TcpStream) {
    relay::prepare(&client);
    let mut inbox = Inbox::new(&client, Vec::new());
    let asked = {
        let Ok(_pending) = gate.pending.acquire().await else {
            return;
        };
        timeout(gate.patience.head, ask(&gate, &mut inbox)).await
    };
    let Ok(Some(destination)) = asked else {
        return;
    };
    let refuse = async |reply: Reply| {
        let _ = timeout(FAREWELL, write(&client, &reply.to_bytes())).await;
    };
    let Ok(permit) = gate.permit(Way::Socks, &destination) else {
        return refuse(Reply::NotAllowed).await;
    };
    let early = inbox.take();
    if destination.port == Port::HTTP {
        if write(&client, &Reply::Succeeded.to_bytes()).await.is_ok() {
            let inbox = Inbox::new(&client, early);
            serve_http(&gate, inbox, Way::Socks, Some(destination)).await;
        }
        return;
    }
    match gate.connect(Way::Socks, permit).await {
        Ok(passage) => {
            if write(&client, &Reply::Succeeded.to_bytes()).await.is_ok() {
                tunnel(&client, early, passage).await;
            }
        }
        Err(Refusal::Unreachable(..)) => refuse(Reply::HostUnreachable).await,
        Err(Refusal::Denied(_) | Refusal::Names(_)) => refuse(Reply::NotAllowed).await,
        Err(Refusal::Busy(_)) => refuse(Reply::Failure).await,
    }
}

async fn ask(gate: &Gate, inbox: &mut Inbox<'_>) -> Option<Destination> {
    let greeting = loop {
        match socks::greeting(inbox.bytes()) {
            Ok(Some(greeting)) => break greeting,
            Ok(None) if inbox.fill().await.ok()? => {}
            Ok(None) => return None,
            Err(error) => {
                gate.note_refused(Way::Socks, "(unreadable)", &error.to_string());
                return None;
            }
        }
    };
    inbox.skip(greeting.length);
    if !greeting.acceptable {
        write(inbox.stream, &[5, 0xff]).await.ok()?;
        return None;
    }
    write(inbox.stream, &[5, 0]).await.ok()?;
    loop {
        match socks::request(inbox.bytes()) {
            Ok(Some(request)) => {
                inbox.skip(request.length);
                return Some(gate.named(&request.destination));
            }
            Ok(None) if inbox.fill().await.ok()? => {}
            Ok(None) => return None,
            Err(error) => {
                let text = String::from_utf8_lossy(inbox.bytes()).into_owned();
                gate.note_refused(Way::Socks, &text, &error.to_string());
                write(inbox.stream, &error.reply().to_bytes()).await.ok()?;
                return None;
            }
        }
    }
}

/// Serves a port of the machine itself.
pub(super) async fn local_port(gate: Arc<Gate>, client: TcpStream, port: u16) {
    relay::prepare(&client);
    let note = |outcome, reason: &str, (sent, received)| {
        let record = Record::new(Way::Local, "localhost", Some(port), outcome, reason);
        gate.note(record.bytes(sent, received));
    };
    if !gate.local_port(port) {
        note(
            Outcome::Denied,
            "the port is not among the local ports",
            (0, 0),
        );
        return reset(&client);
    }
    let server = match connect_local(port).await {
        Ok(server) => server,
        Err(error) => {
            note(Outcome::Failed, &error.to_string(), (0, 0));
            return reset(&client);
        }
    };
    relay::prepare(&server);
    note(Outcome::Allowed, "a local port", (0, 0));
    let traffic = Traffic::default();
    let ended = tokio::select! {
        ended = relay(&client, &server, async { Ok(Vec::new()) }, &traffic) => ended,
        () = gate.local_revoked(port) => Err(ErrorKind::PermissionDenied.into()),
    };
    if ended.is_err() {
        reset(&client);
    }
    note(Outcome::Ended, "", traffic.totals());
}

/// Answers questions for names over TCP, where each has its length before it.
pub(super) async fn dns_tcp(gate: Arc<Gate>, client: TcpStream) {
    let mut inbox = Inbox::new(&client, Vec::new());
    loop {
        let question = timeout(gate.patience.head, inbox.framed(dns::MAX_QUESTION)).await;
        let Ok(Ok(Some(question))) = question else {
            return;
        };
        let Some(reply) = dns::answer(&question, |name| gate.name_answer(name)) else {
            return;
        };
        let length = u16::try_from(reply.len()).unwrap_or(u16::MAX);
        let framed = [length.to_be_bytes().as_slice(), &reply].concat();
        if !matches!(
            timeout(gate.patience.head, write(&client, &framed)).await,
            Ok(Ok(()))
        ) {
            return;
        }
    }
}

/// Relays a connection that was let through, once its first bytes are what they have to be.
async fn tunnel(client: &TcpStream, early: Vec<u8>, passage: Passage) {
    let first = First::of(&passage.permit);
    let before = first_bytes(client, early, &first, &passage);
    let ended = tokio::select! {
        ended = relay(client, &passage.server, before, &passage.traffic) => ended,
        error = passage.revoked() => Err(error),
    };
    if ended.is_err() {
        reset(client);
        reset(&passage.server);
    }
}

async fn first_bytes(
    client: &TcpStream,
    early: Vec<u8>,
    first: &First,
    passage: &Passage,
) -> io::Result<Vec<u8>> {
    let mut inbox = Inbox::new(client, early);
    match first {
        First::Anything => Ok(inbox.take()),
        First::Tls(name) => {
            let hello = read_hello(&mut inbox, name.as_ref(), passage);
            match timeout(passage.patience().hello, hello).await {
                Ok(Ok(_)) => Ok(inbox.take()),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(passage.cut("the first message of TLS did not come in time")),
            }
        }
        First::Ssh => {
            while inbox.bytes().len() < 4 {
                if !b"SSH-".starts_with(inbox.bytes()) || !inbox.fill().await? {
                    break;
                }
            }
            match inbox.bytes() {
                [] => Ok(Vec::new()),
                bytes if bytes.starts_with(b"SSH-") => Ok(inbox.take()),
                _ => Err(passage.cut("port 22 is for SSH, and this is something else")),
            }
        }
        First::Named(name) => {
            // Whoever speaks first here is not known, and so there is no hurry.
            if inbox.bytes().is_empty() && !inbox.fill().await? {
                return Ok(Vec::new());
            }
            if inbox.bytes().first() != Some(&22) {
                return Ok(inbox.take());
            }
            let hello = read_hello(&mut inbox, Some(name), passage);
            match timeout(passage.patience().hello, hello).await {
                Ok(Ok(_)) => Ok(inbox.take()),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(passage.cut("the first message of TLS did not come in time")),
            }
        }
    }
}

/// Reads the first message of TLS and compares its name. The bytes stay in the inbox.
async fn read_hello(
    inbox: &mut Inbox<'_>,
    name: Option<&wt_policy::HostName>,
    passage: &Passage,
) -> io::Result<()> {
    let mut reader = HelloReader::new();
    let mut seen = 0;
    loop {
        let pushed = reader.push(&inbox.bytes()[seen..]);
        seen = inbox.bytes().len();
        match pushed {
            Ok(Some(hello)) => {
                return match (name, hello.server_name) {
                    (None, _) => Ok(()),
                    (Some(name), Some(said)) if *name == said => Ok(()),
                    (Some(name), Some(said)) => {
                        Err(passage.cut(&format!("TLS asks for {said} on a connection to {name}")))
                    }
                    (Some(_), None) => {
                        Err(passage.cut("TLS does not say which server it asks for"))
                    }
                };
            }
            Ok(None) if inbox.fill().await? => {}
            // It left without a word.
            Ok(None) if seen == 0 => return Ok(()),
            Ok(None) => return Err(passage.cut(&HelloError::Malformed.to_string())),
            Err(error) => return Err(passage.cut(&error.to_string())),
        }
    }
}

/// Serves HTTP requests, one after the other. Without `fixed` the client knows that it talks
/// to a proxy; with it, it believes that it talks to that destination.
async fn serve_http(gate: &Arc<Gate>, mut inbox: Inbox<'_>, way: Way, fixed: Option<Destination>) {
    let client = inbox.stream;
    let mut first = true;
    loop {
        let bytes = match first {
            true => {
                let Ok(_pending) = gate.pending.acquire().await else {
                    return;
                };
                timeout(gate.patience.head, inbox.head()).await
            }
            false => {
                if inbox.bytes().is_empty()
                    && !matches!(timeout(KEEP_ALIVE, inbox.fill()).await, Ok(Ok(true)))
                {
                    return;
                }
                timeout(gate.patience.head, inbox.head()).await
            }
        };
        first = false;
        let parsed = match &bytes {
            Ok(Ok(Some(bytes))) => RequestHead::parse(bytes).map_err(|error| error.to_string()),
            Ok(Ok(None)) => return,
            Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => Err(error.to_string()),
            Ok(Err(_)) => return,
            Err(_) => Err("the request did not come in time".to_owned()),
        };
        let request = match parsed.and_then(|request| check(request, fixed.as_ref())) {
            Ok(request) => request,
            Err(reason) => {
                let line = match &bytes {
                    Ok(Ok(Some(bytes))) => bytes.split(|b| *b == b'\n').next().unwrap_or_default(),
                    _ => b"(unreadable)".as_slice(),
                };
                gate.note_refused(way, &target_of(line), &reason);
                return farewell(client, &bad_request(&reason)).await;
            }
        };
        let destination = match (request.target(), &fixed) {
            (Target::Tunnel(destination), _) => {
                let destination = gate.named(destination);
                return connect_tunnel(gate, inbox, &destination).await;
            }
            (Target::Resource { .. }, Some(fixed)) => fixed.clone(),
            (Target::Resource { destination, .. }, None) => destination.clone(),
        };
        match exchange(gate, &mut inbox, way, &request, &destination).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => return reset(client),
        }
    }
}

/// Whether a request fits the place where it came in.
fn check(request: RequestHead, fixed: Option<&Destination>) -> Result<RequestHead, String> {
    match (request.target(), fixed) {
        (Target::Tunnel(_), Some(_)) => Err("CONNECT is for a proxy".to_owned()),
        (
            Target::Resource {
                absolute: false, ..
            },
            None,
        ) => Err("this is a proxy: the request target has to be http://HOST/PATH".to_owned()),
        (Target::Resource { destination, .. }, None) if destination.port == Port::HTTPS => {
            Err("port 443 is for TLS: use CONNECT".to_owned())
        }
        (Target::Resource { destination, .. }, Some(fixed))
            if fixed.host.name().is_some() && destination != fixed =>
        {
            Err(format!(
                "the Host field names {destination} on a connection to {fixed}"
            ))
        }
        _ => Ok(request),
    }
}

/// The target of a request line that was not understood, for the record.
fn target_of(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
    text.split(' ').nth(1).unwrap_or("(unreadable)").to_owned()
}

async fn connect_tunnel(gate: &Arc<Gate>, mut inbox: Inbox<'_>, destination: &Destination) {
    const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let client = inbox.stream;
    let permit = match gate.permit(Way::Connect, destination) {
        Ok(permit) => permit,
        Err(refusal) => return farewell(client, &refused(&refusal, false, false)).await,
    };
    let early = inbox.take();
    // Plain HTTP through a tunnel is looked at like any other.
    if destination.port == Port::HTTP && matches!(First::of(&permit), First::Named(_)) {
        if write(client, ESTABLISHED).await.is_ok() {
            let inbox = Inbox::new(client, early);
            Box::pin(serve_http(
                gate,
                inbox,
                Way::Connect,
                Some(destination.clone()),
            ))
            .await;
        }
        return;
    }
    match gate.connect(Way::Connect, permit).await {
        Ok(passage) => {
            if write(client, ESTABLISHED).await.is_ok() {
                tunnel(client, early, passage).await;
            }
        }
        Err(refusal) => farewell(client, &refused(&refusal, false, false)).await,
    }
}

/// Carries out one request on a connection of its own; whether another may follow.
async fn exchange(
    gate: &Arc<Gate>,
    inbox: &mut Inbox<'_>,
    way: Way,
    request: &RequestHead,
    destination: &Destination,
) -> io::Result<bool> {
    let client = inbox.stream;
    let passage = match gate.permit(way, destination) {
        Ok(permit) => gate.connect(way, permit).await,
        Err(refusal) => Err(refusal),
    };
    let passage = match passage {
        Ok(passage) => passage,
        Err(refusal) => {
            // A body that nobody reads would be taken for the next request.
            let keep = request.keep_alive() && request.body() == Body::Length(0);
            let reply = refused(&refusal, keep, request.method() == "HEAD");
            if keep {
                write(client, &reply).await?;
            } else {
                farewell(client, &reply).await;
            }
            return Ok(keep);
        }
    };
    let replied = AtomicBool::new(false);
    let outcome = tokio::select! {
        outcome = transfer(inbox, request, &passage, &replied) => outcome,
        () = silence(&passage.traffic) => Err(ErrorKind::TimedOut.into()),
        error = passage.revoked() => Err(error),
    };
    match outcome {
        Ok(Transferred::Done { keep }) => {
            if !keep {
                finish(client).await;
            }
            Ok(keep)
        }
        Ok(Transferred::Upgraded(early)) => {
            write(client, &early).await?;
            let first = inbox.take();
            let before = async { Ok(first) };
            tokio::select! {
                ended = relay(client, &passage.server, before, &passage.traffic) => ended?,
                error = passage.revoked() => return Err(error),
            }
            Ok(false)
        }
        // What the client gets wrong is not told as the server's fault.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            farewell(client, &bad_request(&error.to_string())).await;
            Ok(false)
        }
        Err(error) if !replied.load(Ordering::Relaxed) => {
            let destination = passage.permit.destination().clone();
            let refusal = Refusal::Unreachable(destination, format!("the server: {error}"));
            farewell(
                client,
                &refused(&refusal, false, request.method() == "HEAD"),
            )
            .await;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

enum Transferred {
    Done {
        keep: bool,
    },
    /// The connection goes on as a websocket, of which the server sent so much already.
    Upgraded(Vec<u8>),
}

async fn transfer(
    inbox: &mut Inbox<'_>,
    request: &RequestHead,
    passage: &Passage,
    replied: &AtomicBool,
) -> io::Result<Transferred> {
    let client = inbox.stream;
    let server = &passage.server;
    let (sent, received) = (&passage.traffic.sent, &passage.traffic.received);
    let head = request.to_server();
    write(server, &head).await?;
    sent.fetch_add(head.len() as u64, Ordering::Relaxed);
    let upload = inbox.copy_body(request.body(), server, sent, true);
    let download = async {
        let mut replies = Inbox::new(server, Vec::new());
        loop {
            let bytes = replies.head().await?.ok_or(ErrorKind::UnexpectedEof)?;
            received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            let invalid = |error| io::Error::new(ErrorKind::InvalidData, error);
            let reply = ReplyHead::parse(&bytes, request).map_err(invalid)?;
            // What is in chunks for an old client becomes a body until the close.
            let chunked = reply.body() == Body::Chunked && !request.is_old();
            let delimited = matches!(reply.body(), Body::Length(_)) || chunked;
            let keep = request.keep_alive() && delimited;
            // HTTP/1.0 knows no interim replies.
            if reply.is_interim() && request.is_old() {
                continue;
            }
            replied.store(true, Ordering::Relaxed);
            write(client, &reply.to_client(chunked, keep)).await?;
            if reply.is_upgraded() {
                return io::Result::Ok((Transferred::Upgraded(replies.take()), false));
            }
            if reply.is_interim() {
                continue;
            }
            replies
                .copy_body(reply.body(), client, received, chunked)
                .await?;
            return Ok((Transferred::Done { keep }, keep));
        }
    };
    tokio::pin!(upload, download);
    let mut uploading = request.body() != Body::Length(0);
    let mut whole = !uploading;
    loop {
        tokio::select! {
            biased;
            done = &mut download => {
                let (done, keep): (Transferred, bool) = done?;
                return Ok(match done {
                    Transferred::Done { .. } => Transferred::Done { keep: keep && whole },
                    upgraded => upgraded,
                });
            }
            uploaded = &mut upload, if uploading => {
                uploading = false;
                match uploaded {
                    Ok(()) => whole = true,
                    // The client does not keep to its own framing, or has gone.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(error),
                    Err(error) if error.kind() == ErrorKind::InvalidData => {
                        let kind = match replied.load(Ordering::Relaxed) {
                            true => ErrorKind::InvalidData,
                            false => ErrorKind::InvalidInput,
                        };
                        return Err(io::Error::new(kind, error.to_string()));
                    }
                    // The server wants no more of it; its reply says why.
                    Err(_) => {}
                }
            }
        }
    }
}

/// Sends a last reply and closes so that the client can read it: whatever it still sends is
/// read for a moment, as unread bytes would turn the close into a reset.
async fn farewell(client: &TcpStream, reply: &[u8]) {
    let _ = timeout(FAREWELL, async {
        write(client, reply).await?;
        finish(client).await;
        io::Result::Ok(())
    })
    .await;
}

async fn finish(client: &TcpStream) {
    let _ = socket2::SockRef::from(client).shutdown(std::net::Shutdown::Write);
    let _ = timeout(FAREWELL, async {
        let mut rest = vec![0; READ];
        while matches!(relay::read(client, &mut rest).await, Ok(1..)) {}
    })
    .await;
}

fn bad_request(reason: &str) -> Vec<u8> {
    let body = json!({ "egg": "refused", "reason": reason });
    reply("400 Bad Request", &body.to_string(), false, false)
}

/// The reply to a request that is refused: for programs in its head, for people in its body.
fn refused(refusal: &Refusal, keep_alive: bool, bodiless: bool) -> Vec<u8> {
    let Destination { host, port } = refusal.destination();
    let (status, egg, code, hint) = match refusal {
        Refusal::Denied(denial) => ("403 Forbidden", "denied", denial.code(), denial.rule_hint()),
        Refusal::Names(_) => ("403 Forbidden", "denied", "names", None),
        Refusal::Busy(_) => ("503 Service Unavailable", "refused", "busy", None),
        Refusal::Unreachable(..) => ("502 Bad Gateway", "failed", "unreachable", None),
    };
    let body = json!({
        "egg": egg,
        "host": host.to_string(),
        "port": port.get(),
        "code": code,
        "reason": refusal.reason(),
        "rule": hint,
        "explain": format!("wt egg explain --why {host}"),
    });
    reply(status, &format!("{body}\n"), keep_alive, bodiless)
}

fn reply(status: &str, body: &str, keep_alive: bool, bodiless: bool) -> Vec<u8> {
    let denied = match status {
        "403 Forbidden" => "X-Egg-Denied: 1\r\n",
        _ => "",
    };
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let body_sent = if bodiless { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         {denied}Connection: {connection}\r\n\r\n{body_sent}",
        body.len()
    )
    .into_bytes()
}

/// What came in on a connection and was not yet used.
struct Inbox<'a> {
    stream: &'a TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

impl<'a> Inbox<'a> {
    fn new(stream: &'a TcpStream, buffer: Vec<u8>) -> Self {
        Self {
            stream,
            buffer,
            at: 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    fn skip(&mut self, count: usize) {
        self.at += count;
    }

    fn take(&mut self) -> Vec<u8> {
        let rest = self.bytes().to_vec();
        (self.buffer, self.at) = (Vec::new(), 0);
        rest
    }

    /// Reads more; false at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        let end = self.buffer.len();
        self.stream.readable().await?;
        self.buffer.resize(end + READ, 0);
        let count = relay::read(self.stream, &mut self.buffer[end..]).await;
        self.buffer
            .truncate(end + count.as_ref().map_or(0, |count| *count));
        Ok(count? > 0)
    }

    /// Takes the head of a message; `None` when there is no more.
    async fn head(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut looked = 0;
        loop {
            if let Some(end) = head::head_end(self.bytes(), looked) {
                let head = self.bytes()[..end].to_vec();
                self.skip(end);
                return Ok(Some(head));
            }
            looked = self.bytes().len();
            if looked > MAX_HEAD {
                return Err(invalid("the head is too large"));
            }
            if !self.fill().await? {
                return match looked {
                    0 => Ok(None),
                    _ => Err(ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Takes a line that ends in CR LF, without that.
    async fn line(&mut self, max: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.bytes().iter().position(|b| *b == b'\n') {
                let line = self.bytes()[..end]
                    .strip_suffix(b"\r")
                    .ok_or_else(|| invalid("a line does not end in CR LF"))?
                    .to_vec();
                self.skip(end + 1);
                return Ok(line);
            }
            if self.bytes().len() > max {
                return Err(invalid("a line of a body is too long"));
            }
            if !self.fill().await? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Takes a message with two bytes of length before it; `None` at the end.
    async fn framed(&mut self, max: usize) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let [high, low, rest @ ..] = self.bytes() {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if length > max {
                    return Err(invalid("the message is too long"));
                }
                if let Some(message) = rest.get(..length) {
                    let message = message.to_vec();
                    self.skip(2 + length);
                    return Ok(Some(message));
                }
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// Copies a body. One in chunks is put into chunks anew, or taken out of them.
    async fn copy_body(
        &mut self,
        body: Body,
        to: &TcpStream,
        count: &AtomicU64,
        rechunk: bool,
    ) -> io::Result<()> {
        match body {
            Body::Length(length) => self.copy(Some(length), to, count, false).await,
            Body::UntilClose => self.copy(None, to, count, false).await,
            Body::Chunked => loop {
                let line = self.line(MAX_CHUNK_LINE).await?;
                let size = head::chunk_size(&line).map_err(|error| invalid(&error.to_string()))?;
                if size == 0 {
                    break self.end_of_chunks(to, rechunk).await;
                }
                self.copy(Some(size), to, count, rechunk).await?;
                if !self.line(2).await?.is_empty() {
                    return Err(invalid("a chunk is longer than it says"));
                }
            },
        }
    }

    async fn end_of_chunks(&mut self, to: &TcpStream, rechunk: bool) -> io::Result<()> {
        let mut left = MAX_TRAILER;
        loop {
            let line = self.line(left).await?;
            if line.is_empty() {
                break;
            }
            left = left
                .checked_sub(line.len() + 2)
                .ok_or_else(|| invalid("the trailer is too long"))?;
        }
        match rechunk {
            true => write(to, b"0\r\n\r\n").await,
            false => Ok(()),
        }
    }

    async fn copy(
        &mut self,
        length: Option<u64>,
        to: &TcpStream,
        count: &AtomicU64,
        rechunk: bool,
    ) -> io::Result<()> {
        let mut left = length.unwrap_or(u64::MAX);
        while left > 0 {
            if self.bytes().is_empty() && !self.fill().await? {
                return match length {
                    None => Ok(()),
                    Some(_) => Err(ErrorKind::UnexpectedEof.into()),
                };
            }
            let limit = usize::try_from(left).unwrap_or(usize::MAX);
            let piece = &self.bytes()[..self.bytes().len().min(limit)];
            let taken = piece.len();
            if rechunk {
                let size = format!("{taken:x}\r\n");
                write(to, &[size.as_bytes(), piece, b"\r\n"].concat()).await?;
            } else {
                write(to, piece).await?;
            }
            self.skip(taken);
            count.fetch_add(taken as u64, Ordering::Relaxed);
            if length.is_some() {
                left -= taken as u64;
            }
        }
        Ok(())
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.to_owned())
}

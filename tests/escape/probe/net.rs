//! Acts on sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::act::named;

/// How long anything on a socket may take.
const PATIENCE: Duration = Duration::from_secs(8);

/// How much of an answer is shown.
const SHOWN: usize = 4096;

/// Connects to a path, or to an abstract name that starts with `@`.
pub(crate) fn connect_unix(name: &str) -> Outcome {
    let address = match name.strip_prefix('@') {
        Some(name) => UnixAddr::from_abstract_name(name),
        None => UnixAddr::from_pathname(name),
    };
    let stream = UnixStream::connect_addr(&address.map_err(|e| named(&e))?);
    stream.map_err(|e| named(&e))?;
    Ok("connected".into())
}

/// Connects to a server of the fixtures: says who it is, and expects to be answered.
pub(crate) fn connect(address: &str, token: &str) -> Outcome {
    let mut stream = open(address)?;
    stream
        .write_all(format!("{token}\n").as_bytes())
        .map_err(|e| named(&e))?;
    let mut text = [0; 256];
    match stream.read(&mut text) {
        Ok(0) => Err("closed".into()),
        Ok(read) => Ok(String::from_utf8_lossy(&text[..read]).into_owned()),
        Err(e) => Err(named(&e)),
    }
}

fn open(address: &str) -> Result<TcpStream, String> {
    let address: SocketAddr = address.parse().map_err(|_| "not an address".to_owned())?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|e| named(&e))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .map_err(|e| named(&e))?;
    stream
        .set_write_timeout(Some(PATIENCE))
        .map_err(|e| named(&e))?;
    Ok(stream)
}

/// Sends a datagram to a path.
pub(crate) fn send_unix(path: &str) -> Outcome {
    let socket = UnixDatagram::unbound().map_err(|e| named(&e))?;
    socket.send_to(b"datagram", path).map_err(|e| named(&e))?;
    Ok("sent".into())
}

/// Sends a datagram and waits for the answer.
pub(crate) fn send_udp(address: &str, text: &str) -> Outcome {
    let socket = ask(address, text.as_bytes())?;
    let mut answer = [0; 256];
    let read = socket.recv(&mut answer).map_err(|e| named(&e))?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

fn ask(address: &str, message: &[u8]) -> Result<UdpSocket, String> {
    let local = if address.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(local).map_err(|e| named(&e))?;
    socket.connect(address).map_err(|e| named(&e))?;
    socket
        .set_read_timeout(Some(PATIENCE))
        .map_err(|e| named(&e))?;
    socket.send(message).map_err(|e| named(&e))?;
    Ok(socket)
}

/// Asks a name server (RFC 1035). Succeeds when there is an answer record.
pub(crate) fn ask_name(server: &str, name: &str, kind: &str) -> Outcome {
    let kind: u16 = match kind {
        "A" => 1,
        "MX" => 15,
        "TXT" => 16,
        "AAAA" => 28,
        "HTTPS" => 65,
        "AXFR" => 252,
        "ANY" => 255,
        other => return Err(format!("no type {other}")),
    };
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).map_err(|_| "label too long".to_owned())?);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    let socket = ask(server, &message)?;
    let mut answer = [0; 1500];
    let read = socket.recv(&mut answer).map_err(|e| named(&e))?;
    let answer = &answer[..read];
    if read < 12 {
        return Err("too short".into());
    }
    let code = match answer[3] & 15 {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        5 => "REFUSED",
        _ => "OTHER",
    };
    let records = u16::from_be_bytes([answer[6], answer[7]]);
    if code != "NOERROR" || records == 0 {
        return Err(format!("{code} with {records} answers"));
    }
    let address = answer[read - 4..].iter().map(u8::to_string);
    Ok(address.collect::<Vec<_>>().join("."))
}

/// Asks for many different names below one; succeeds when all are answered.
pub(crate) fn ask_names(server: &str, count: usize, below: &str) -> Outcome {
    for index in 0..count {
        ask_name(server, &format!("data{index}.{below}"), "A")
            .map_err(|e| format!("{e} after {index} names"))?;
    }
    Ok(format!("{count} names"))
}

/// Sends parts over one connection, each after the answer to the one before, and shows all
/// that comes back. A part is text with the escapes of a shell's `$'...'` already done, or
/// `hello:NAME` for the first message of TLS with that server name, `plain-hello` for one
/// without a name, `slow-hello:NAME` for one in records of one byte, `long-hello:NAME` for one
/// of 70 KiB, or `x:N` for N letters.
pub(crate) fn exchange_bytes(address: &str, parts: &[&str]) -> Outcome {
    let mut stream = open(address)?;
    let mut heard = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        // A peer that has already answered and closed is seen by reading.
        let _ = stream.write_all(&bytes_of(part));
        let is_last = index + 1 == parts.len();
        let wait = if is_last {
            PATIENCE
        } else {
            Duration::from_secs(2)
        };
        read_some(&mut stream, wait, is_last, &mut heard);
    }
    let text = String::from_utf8_lossy(&heard).into_owned();
    let text: String = text.chars().take(SHOWN).collect();
    if heard.is_empty() {
        return Err("closed without an answer".into());
    }
    Ok(text)
}

/// Reads an answer: up to the end of the stream for the last, or until it pauses.
fn read_some(stream: &mut TcpStream, wait: Duration, is_last: bool, heard: &mut Vec<u8>) {
    let deadline = Instant::now() + wait;
    let before = heard.len();
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let pause = if heard.len() > before && !is_last {
            Duration::from_millis(30)
        } else {
            left
        };
        let quiet = heard.len() > before && is_last;
        let pause = if quiet {
            pause.min(Duration::from_millis(250))
        } else {
            pause
        };
        if pause.is_zero() || stream.set_read_timeout(Some(pause)).is_err() {
            return;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => heard.extend_from_slice(&buffer[..read]),
        }
    }
}

fn bytes_of(part: &str) -> Vec<u8> {
    if let Some(name) = part.strip_prefix("hello:") {
        return record(&hello(Some(name), 0));
    }
    if part == "plain-hello" {
        return record(&hello(None, 0));
    }
    if let Some(name) = part.strip_prefix("slow-hello:") {
        return hello(Some(name), 0)
            .iter()
            .flat_map(|byte| record(&[*byte]))
            .collect();
    }
    if let Some(name) = part.strip_prefix("long-hello:") {
        return hello(Some(name), 70 << 10)
            .chunks(16 << 10)
            .flat_map(record)
            .collect();
    }
    if let Some(Ok(count)) = part.strip_prefix("x:").map(str::parse) {
        return vec![b'x'; count];
    }
    unescaped(part)
}

/// Text in which `\r`, `\n`, `\0`, `\e`, `\t` and `\\` stand for a byte.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b'0') => 0,
            Some(b'e') => 27,
            Some(b't') => b'\t',
            Some(other) => other,
            None => b'\\',
        });
    }
    bytes
}

/// A record of TLS with a part of a handshake (RFC 8446, section 5.1).
fn record(part: &[u8]) -> Vec<u8> {
    let mut record = vec![22, 3, 1];
    record.extend(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
    record.extend(part);
    record
}

/// A ClientHello (RFC 8446, section 4.1.2; server name: RFC 6066, section 3), with a
/// padding extension (RFC 7685) of at least so many bytes.
fn hello(name: Option<&str>, padding: usize) -> Vec<u8> {
    let short = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes();
    let mut extensions = Vec::new();
    if let Some(name) = name {
        extensions.extend([0, 0]);
        extensions.extend(short(name.len() + 5));
        extensions.extend(short(name.len() + 3));
        extensions.push(0);
        extensions.extend(short(name.len()));
        extensions.extend(name.as_bytes());
    }
    if padding > 0 {
        let padding = padding.min(65_000);
        extensions.extend([0, 21]);
        extensions.extend(short(padding));
        extensions.extend(vec![0; padding]);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend([0, 2, 0x13, 1, 1, 0]);
    body.extend(short(extensions.len()));
    body.extend(extensions);
    let mut hello = vec![1];
    hello.extend(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes()[1..]);
    hello.extend(body);
    hello
}

/// Opens connections and says nothing on them; succeeds when all of them are open and the
/// peer has closed none.
pub(crate) fn flood(address: &str, count: usize) -> Outcome {
    let mut open_ones = Vec::new();
    for index in 0..count {
        open_ones.push(open(address).map_err(|e| format!("{e} after {index}"))?);
    }
    Ok(format!("{} connections", open_ones.len()))
}

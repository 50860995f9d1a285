//! What is fed with bytes from outside, each as a function of those bytes.
//!
//! A target panics when it finds a fault: a panic of the code under test, or a broken
//! promise that the target itself checks. [`TARGETS`] names them all. `fuzz/run` drives
//! one with an engine; `cargo test -p wt-fuzz` replays every corpus without one.
//!
//! An input that once found a fault stays in `corpora/NAME`, so the fault cannot return.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::LazyLock;

use wt_crypto::{
    Admission, Answer, ClientSecret, Fill, HandshakeError, IdentitySecret, Initiator, NoiseSecret,
    Opened, Opener, Pins, Responder, Sealer, Session, SessionLimits, VerifiedWing, WingIdentity,
    verify_statement,
};
use wt_policy::{Host, HostRule};
use wt_protocol::codec::{decode, decode_padded, encode};
use wt_protocol::control::{FromRelay, ToRelay};
use wt_protocol::limits::{
    MAX_CONTROL_MESSAGE, MAX_MESSAGE, MAX_RECORD_PLAINTEXT, MAX_STREAM_HEADER,
};
use wt_protocol::local::{FromEgg, ToEgg};
use wt_protocol::session::{ClientMessage, WingMessage};
use wt_protocol::{
    Deframer, FrameError, Prefix, Record, RouteHeader, RouteNonce, StreamHeader, VersionRange,
};
use wt_sandbox::proxy::dns::{self, NameAnswer};
use wt_sandbox::proxy::head::{self, ReplyHead, RequestHead};
use wt_sandbox::proxy::hello::HelloReader;
use wt_sandbox::proxy::socks;

/// A target: it returns, or it found a fault.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("admission", admission),
    ("client_hello", client_hello),
    ("client_message", client_message),
    ("deframer", deframer),
    ("dns", dns),
    ("from_egg", from_egg),
    ("from_relay", from_relay),
    ("host", host),
    ("host_rule", host_rule),
    ("http_head", http_head),
    ("initiator", initiator),
    ("opener", opener),
    ("pins", pins),
    ("record", record),
    ("responder", responder),
    ("socks", socks),
    ("stream_header", stream_header),
    ("to_egg", to_egg),
    ("to_relay", to_relay),
    ("wing_message", wing_message),
];

/// Defines a target: what decodes encodes again to something that decodes the same.
macro_rules! message_target {
    ($(#[$doc:meta])* $name:ident, $type:ty, $max:expr) => {
        $(#[$doc])*
        pub fn $name(data: &[u8]) {
            if let Ok(message) = decode::<$type>(data, $max) {
                let again = encode(&message, $max).expect("it came in no more bytes");
                assert_eq!(decode::<$type>(&again, $max).as_ref(), Ok(&message));
            }
        }
    };
}

message_target!(
    /// The header of a route, which a relay reads.
    stream_header, StreamHeader, MAX_STREAM_HEADER
);
message_target!(
    /// Control messages, at a relay.
    to_relay, ToRelay, MAX_CONTROL_MESSAGE
);
message_target!(
    /// Control messages, at a wing or client.
    from_relay, FromRelay, MAX_CONTROL_MESSAGE
);
message_target!(
    /// Session messages, at a wing.
    client_message, ClientMessage, MAX_MESSAGE
);
message_target!(
    /// Session messages, at a client.
    wing_message, WingMessage, MAX_MESSAGE
);
message_target!(
    /// Messages over an egg's socket, at the egg.
    to_egg, ToEgg, MAX_MESSAGE
);
message_target!(
    /// Messages over an egg's socket, at whoever asked.
    from_egg, FromEgg, MAX_MESSAGE
);

/// The plaintext of a sealed record.
pub fn record(data: &[u8]) {
    if let Ok(record) = decode_padded::<Record<'_>>(data, MAX_RECORD_PLAINTEXT) {
        let again = encode(&record, MAX_RECORD_PLAINTEXT).expect("it came in no more bytes");
        assert_eq!(decode(&again, MAX_RECORD_PLAINTEXT), Ok(record));
    }
}

/// Frames of a stream: however it is cut, the same bytes give the same frames and the
/// same error. The first byte says which prefix, the second how large the pieces are.
pub fn deframer(data: &[u8]) {
    let [kind, piece, stream @ ..] = data else {
        return;
    };
    let prefix = if kind & 1 == 0 {
        Prefix::U16
    } else {
        Prefix::U32
    };
    let max = 64;

    let whole = frames(prefix, max, stream, stream.len().max(1));
    let cut = frames(prefix, max, stream, usize::from(*piece).max(1));

    assert_eq!(whole, cut);
    assert!(whole.0.iter().all(|frame| (1..=max).contains(&frame.len())));
}

fn frames(
    prefix: Prefix,
    max: usize,
    stream: &[u8],
    piece: usize,
) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut deframer = Deframer::new(prefix, max);
    let mut frames = Vec::new();
    for bytes in stream.chunks(piece) {
        deframer.extend(bytes);
        loop {
            match deframer.next_frame() {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// The head of an HTTP request in a session's proxy: what is sent on reads as the same
/// request, and what ends where is the same however it was cut.
pub fn http_head(data: &[u8]) {
    if let Some(end) = head::head_end(data, 0) {
        assert!((2..=data.len()).contains(&end));
        for cut in [end / 2, end - 1] {
            assert_eq!(head::head_end(&data[..cut], 0), None);
            assert_eq!(head::head_end(data, cut), Some(end));
        }
    }
    let _ = head::chunk_size(data);
    let Ok(request) = RequestHead::parse(data) else {
        return;
    };
    if let head::Target::Resource { destination, .. } = request.target() {
        let sent = request.to_server();
        let again = RequestHead::parse(&sent).expect("it was written here");
        assert!(matches!(
            again.target(),
            head::Target::Resource { absolute: false, destination: same, .. } if same == destination
        ));
        assert_eq!(again.method(), request.method());
        assert_eq!(again.body(), request.body());
        assert_eq!(again.websocket(), request.websocket());
        assert_eq!(again.to_server(), sent);
    }
    if let Ok(reply) = ReplyHead::parse(data, &request) {
        let _ = reply.to_client(true, true);
    }
}

/// What a client of SOCKS sends: more bytes never change what was read.
pub fn socks(data: &[u8]) {
    let _ = socks::greeting(data);
    if let Ok(Some(request)) = socks::request(data) {
        assert!(request.length <= data.len());
        assert_eq!(
            socks::request(&data[..request.length]),
            Ok(Some(request.clone()))
        );
        assert_eq!(socks::request(&data[..request.length - 1]), Ok(None));
        let shown = request.destination.host.to_string();
        assert_eq!(Host::parse(&shown), Ok(request.destination.host));
    }
}

/// A question for a name: an answer is never much larger than its question, and a name
/// that is not allowed has no address.
pub fn dns(data: &[u8]) {
    if let Some(reply) = dns::answer(data, |_| NameAnswer::Localhost) {
        assert!(reply.len() <= data.len() + 39);
        assert_eq!(reply[..2], data[..2]);
        assert!(reply[2] & 0x80 != 0);
    }
    if let Some(reply) = dns::answer(data, |_| NameAnswer::NotAllowed) {
        assert_eq!(reply[7], 0);
        assert_ne!(reply[3] & 0x0f, 0);
    }
}

/// The first message of TLS: however it is cut, the same bytes give the same name. The first
/// byte says how large the pieces are.
pub fn client_hello(data: &[u8]) {
    let [piece, stream @ ..] = data else {
        return;
    };
    let whole = HelloReader::new().push(stream);
    let mut reader = HelloReader::new();
    let mut cut = Ok(None);
    for bytes in stream.chunks(usize::from(*piece).max(1)) {
        cut = reader.push(bytes);
        if cut != Ok(None) {
            break;
        }
    }
    assert_eq!(whole, cut);
}

/// A host as a session names it: its spelling is final, and nothing that the standard
/// library takes for an address is a name.
pub fn host(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(host) = Host::parse(text) {
        let shown = host.to_string();
        assert_eq!(Host::parse(&shown), Ok(host.clone()));
        assert!(
            shown
                .bytes()
                .all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase())
        );
        if host.name().is_some() {
            assert!(text.parse::<std::net::IpAddr>().is_err());
            assert!(shown.parse::<std::net::IpAddr>().is_err());
        }
    }
}

/// A rule for hosts: what is shown is read as the same rule.
pub fn host_rule(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(rule) = text.parse::<HostRule>()
    {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
}

/// A wing that reads a message 1.
pub fn responder(data: &[u8]) {
    let Ends { wing, header, .. } = &*ENDS;
    // A valid one can only come from somebody who knows the wing's public key.
    if let Ok((_, message_2)) = Responder::read(wing.noise(), &header.wing, header, data) {
        assert_eq!(message_2.len(), wt_crypto::MESSAGE_2_SIZE);
    }
}

/// A client that reads a message 2: nothing but the wing's own finishes its handshake.
pub fn initiator(data: &[u8]) {
    let ends = &*ENDS;
    let (initiator, _) = Initiator::start(&ends.client, &ends.verified, &ends.header);
    let finished = initiator.finish(data);
    assert!(!matches!(
        finished,
        Ok(_) | Err(HandshakeError::Version { .. })
    ));
}

/// A relay with a will of its own between two ends: each byte is what it does next.
/// Whatever it does, the wing sees a prefix of what the client sent.
pub fn opener(data: &[u8]) {
    let (sealer, opener) = session();
    let mut relay = HostileRelay {
        sealer,
        opener: Some(opener),
        records: Vec::new(),
        sent: Vec::new(),
        passed: 0,
        seen: Vec::new(),
    };
    let mut script = data;
    while let ([act, rest @ ..], Some(_)) = (script, &relay.opener) {
        script = relay.act(*act, rest);
    }
    assert!(relay.sent.starts_with(&relay.seen));
}

struct HostileRelay {
    sealer: Sealer,
    opener: Option<Opener>,
    /// Every record of the client so far.
    records: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    /// How many of the records were passed on in their order.
    passed: usize,
    seen: Vec<Vec<u8>>,
}

impl HostileRelay {
    /// Does one thing and returns the rest of the script.
    fn act<'a>(&mut self, act: u8, rest: &'a [u8]) -> &'a [u8] {
        let choice = usize::from(act >> 3);
        match act & 7 {
            0 | 1 => self.send(&[act; 40][..choice]),
            2 => self.send(&vec![act; choice * 1_000]),
            3 | 4 => {
                if let Some(record) = self.records.get(self.passed).cloned() {
                    self.passed += 1;
                    self.deliver(&record);
                    assert!(self.opener.is_some(), "an honest record does not open");
                }
            }
            5 => {
                // Out of turn, unless it is the next one.
                if let Some(record) = self.records.get(choice).cloned() {
                    self.passed += usize::from(choice == self.passed);
                    self.deliver(&record);
                }
            }
            6 => {
                if let Some(mut record) = self.records.get(self.passed).cloned() {
                    let at = choice % record.len();
                    record[at] ^= rest.first().copied().unwrap_or(1).max(1);
                    self.deliver(&record);
                    assert!(self.opener.is_none(), "a changed record opens");
                }
            }
            _ => {
                let (forged, rest) = rest.split_at(rest.len().min(choice * 8));
                self.deliver(forged);
                assert!(self.opener.is_none(), "a forged record opens");
                return rest;
            }
        }
        rest
    }

    fn send(&mut self, message: &[u8]) {
        let mut out = Vec::new();
        self.sealer
            .seal_message(message, Fill::Bucket, Duration::ZERO, &mut out)
            .expect("no record of the other direction failed");
        self.sent.push(message.to_vec());
        let mut deframer = Deframer::new(Prefix::U16, usize::from(u16::MAX));
        deframer.extend(&out);
        while let Some(record) = deframer.next_frame().expect("it was framed here") {
            self.records.push(record.to_vec());
        }
    }

    fn deliver(&mut self, record: &[u8]) {
        let Some(opener) = self.opener.take() else {
            return;
        };
        if let Ok((opener, opened)) = opener.open(record) {
            self.opener = Some(opener);
            if let Opened::Message(message) = opened {
                self.seen.push(message);
            }
        }
    }
}

/// The file of known wings: what parses survives being written and read again.
pub fn pins(data: &[u8]) {
    if let Ok(pins) = Pins::parse(data) {
        assert_eq!(Pins::parse(&pins.to_json()), Ok(pins));
    }
}

/// The file of admitted clients, likewise.
pub fn admission(data: &[u8]) {
    if let Ok(admission) = Admission::parse(data) {
        assert_eq!(Admission::parse(&admission.to_json()), Ok(admission));
    }
}

struct Ends {
    wing: WingIdentity,
    verified: VerifiedWing,
    client: ClientSecret,
    header: RouteHeader,
}

/// The ends of the golden vectors, so that those are valid seeds.
static ENDS: LazyLock<Ends> = LazyLock::new(|| {
    let wing = WingIdentity::from_parts(
        IdentitySecret::from_bytes(&[0x11; 32]),
        NoiseSecret::from_bytes(&[0x22; 32]),
        1,
    );
    let (id, identity) = (wing.wing_id(), wing.identity().public());
    Ends {
        verified: verify_statement(&id, &identity, &wing.statement()).expect("its own statement"),
        wing,
        client: ClientSecret::from_bytes(&[0x33; 32]),
        header: RouteHeader {
            wing: id,
            nonce: RouteNonce::from_bytes([0x66; 16]),
            versions: VersionRange { min: 1, max: 1 },
        },
    }
});

/// A client's sealer and its wing's opener, whose keys change often.
fn session() -> (Sealer, Opener) {
    let ends = &*ENDS;
    let (initiator, message_1) = Initiator::start(&ends.client, &ends.verified, &ends.header);
    let (answer, message_2) = Responder::read(
        ends.wing.noise(),
        &ends.header.wing,
        &ends.header,
        &message_1,
    )
    .expect("an honest message 1");
    let Answer::Session(at_wing) = answer else {
        panic!("a version is common")
    };
    let at_client = initiator.finish(&message_2).expect("an honest message 2");
    let limits = SessionLimits {
        rekey_records: 3,
        max_records: 5,
        ..SessionLimits::default()
    };
    let split = |session: Session| session.with_limits(limits).split(Duration::ZERO);
    (split(at_client).0, split(at_wing).1)
}

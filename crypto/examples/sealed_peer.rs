//! One end of a sealed session over standard input and output, for another implementation
//! to try itself against.
//!
//! ```text
//! sealed_peer statement IDENTITY_SEED NOISE_SECRET SEQ     prints WING IDENTITY KEY SEQ SIGNATURE
//! sealed_peer verify WING IDENTITY KEY SEQ SIGNATURE       ends with 0 if it is to be believed
//! sealed_peer respond IDENTITY_SEED NOISE_SECRET RECORDS   is a wing
//! sealed_peer initiate WING IDENTITY KEY SEQ SIGNATURE RECORDS   is a client
//! sealed_peer pins                                         reads a pin file and writes it again
//! ```
//!
//! Secrets are hexadecimal. A session changes its keys after `RECORDS` records, sends every
//! message back, answers pings, and closes in order when the other end does: exit code 0. A
//! record that does not open, or a stream without a close, ends it with exit code 3.
//! At the end it says on standard error how often the other end changed its key.

use std::io::{Read, Write, stderr, stdin, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use wt_crypto::{
    Answer, ClientSecret, Fill, IdentitySecret, Initiator, MESSAGE_1_SIZE, MESSAGE_2_SIZE,
    NoiseSecret, Opened, Pins, Responder, Session, SessionLimits, VerifiedWing, WingIdentity,
    random, verify_statement,
};
use wt_protocol::codec::{decode, encode};
use wt_protocol::control::NoiseKeyStatement;
use wt_protocol::limits::{MAX_SEALED_RECORD, MAX_STREAM_HEADER};
use wt_protocol::{
    Close, Deframer, Prefix, RouteHeader, RouteNonce, StreamHeader, VersionRange, frame,
};

type Error = Box<dyn std::error::Error>;

/// The session did not end in order.
const CUT: u8 = 3;

fn main() -> Result<ExitCode, Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["statement", identity, noise, seq] => {
            let wing = wing(identity, noise, seq.parse()?)?;
            let NoiseKeyStatement {
                wing: id,
                key,
                seq,
                signature,
            } = wing.statement();
            let identity = wing.identity().public();
            writeln!(stdout(), "{id} {identity} {key} {seq} {signature}")?;
            Ok(ExitCode::SUCCESS)
        }
        ["verify", ref words @ ..] => {
            verified(words)?;
            Ok(ExitCode::SUCCESS)
        }
        ["respond", identity, noise, records] => {
            let wing = wing(identity, noise, 1)?;
            let mut wire = Wire::new();
            let session = respond(&wing, &mut wire)?;
            echo(session, records.parse()?, &mut wire)
        }
        ["initiate", ref words @ .., records] => {
            let wing = verified(words)?;
            let mut wire = Wire::new();
            let session = initiate(&wing, &mut wire)?;
            echo(session, records.parse()?, &mut wire)
        }
        ["pins"] => {
            let mut file = Vec::new();
            stdin().read_to_end(&mut file)?;
            stdout().write_all(&Pins::parse(&file)?.to_json())?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("see the head of sealed_peer.rs for how to call it".into()),
    }
}

fn wing(identity: &str, noise: &str, seq: u64) -> Result<WingIdentity, Error> {
    let bytes = |text: &str| -> Result<[u8; 32], Error> {
        let bytes = HEXLOWER.decode(text.as_bytes())?;
        bytes.try_into().map_err(|_| "a key has 32 bytes".into())
    };
    Ok(WingIdentity::from_parts(
        IdentitySecret::from_bytes(&bytes(identity)?),
        NoiseSecret::from_bytes(&bytes(noise)?),
        seq,
    ))
}

fn verified(words: &[&str]) -> Result<VerifiedWing, Error> {
    let [wing, identity, key, seq, signature] = words else {
        return Err("a statement has five words".into());
    };
    let statement = NoiseKeyStatement {
        wing: wing.parse()?,
        key: key.parse()?,
        seq: seq.parse()?,
        signature: signature.parse()?,
    };
    let id = statement.wing.clone();
    Ok(verify_statement(&id, &identity.parse()?, &statement)?)
}

fn respond(wing: &WingIdentity, wire: &mut Wire) -> Result<Session, Error> {
    let StreamHeader::Route(header) = decode(&wire.expect()?, MAX_STREAM_HEADER)?;
    let message_1 = wire.expect()?;
    debug_assert_eq!(message_1.len(), MESSAGE_1_SIZE);
    let (answer, message_2) = Responder::read(wing.noise(), &wing.wing_id(), &header, &message_1)?;
    wire.send(&frame(Prefix::U16, &message_2))?;
    match answer {
        Answer::Session(session) => Ok(session),
        Answer::Incompatible(_) => Err("no version is common".into()),
    }
}

fn initiate(wing: &VerifiedWing, wire: &mut Wire) -> Result<Session, Error> {
    let header = RouteHeader {
        wing: wing.wing_id().clone(),
        nonce: RouteNonce::from_bytes(random()),
        versions: VersionRange::CURRENT,
    };
    let (initiator, message_1) = Initiator::start(&ClientSecret::generate(), wing, &header);
    let header = encode(&StreamHeader::Route(header), MAX_STREAM_HEADER)?;
    let opening = [frame(Prefix::U16, &header), frame(Prefix::U16, &message_1)];
    wire.send(&opening.concat())?;
    let message_2 = wire.expect()?;
    debug_assert_eq!(message_2.len(), MESSAGE_2_SIZE);
    Ok(initiator.finish(&message_2)?)
}

fn echo(session: Session, records: u64, wire: &mut Wire) -> Result<ExitCode, Error> {
    let limits = SessionLimits {
        rekey_records: records,
        // Twice as many, as the protocol has it.
        max_records: records.saturating_mul(2),
        ..SessionLimits::default()
    };
    let start = Instant::now();
    let (mut sealer, mut opener) = session.with_limits(limits).split(Duration::ZERO);
    let mut rekeyed = 0u32;
    let mut out = Vec::new();
    let ended = loop {
        let Some(record) = wire.next()? else {
            break ExitCode::from(CUT);
        };
        let Ok((next, opened)) = opener.open(&record) else {
            break ExitCode::from(CUT);
        };
        opener = next;
        out.clear();
        match opened {
            Opened::Message(message) => {
                sealer.seal_message(&message, Fill::Bucket, start.elapsed(), &mut out)?;
            }
            Opened::Ping(bytes) => sealer.seal_pong(bytes, start.elapsed(), &mut out)?,
            Opened::Rekeyed => rekeyed += 1,
            Opened::Partial | Opened::Pong(_) | Opened::Cover => {}
            Opened::Close(_) => {
                sealer.seal_close(Close::Done, &mut out)?;
                wire.send(&out)?;
                break ExitCode::SUCCESS;
            }
        }
        wire.send(&out)?;
    };
    writeln!(stderr(), "rekeyed {rekeyed}")?;
    Ok(ended)
}

/// Frames over standard input and output.
struct Wire {
    deframer: Deframer,
}

impl Wire {
    fn new() -> Self {
        Self {
            deframer: Deframer::new(Prefix::U16, MAX_SEALED_RECORD),
        }
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            if let Some(frame) = self.deframer.next_frame()? {
                return Ok(Some(frame.to_vec()));
            }
            match stdin().read(&mut chunk)? {
                0 => return Ok(None),
                size => self.deframer.extend(&chunk[..size]),
            }
        }
    }

    fn expect(&mut self) -> Result<Vec<u8>, Error> {
        self.next()?
            .ok_or_else(|| "the stream ended in the handshake".into())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        stdout().write_all(bytes)?;
        Ok(stdout().flush()?)
    }
}

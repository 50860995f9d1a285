//! The sealed session after the handshake: records, rekeys and their caps.
//!
//! Each direction has its own key and its own strict counter, so a record that was
//! replayed, reordered, dropped, reflected or taken from another session does not
//! open. The first record that fails ends the session: the keys of both directions
//! are dropped, and why it failed is told to nobody.
//!
//! A [`Sealer`] and an [`Opener`] may be used from two tasks at once.

use core::time::Duration;
use std::sync::{Arc, PoisonError, RwLock};

use snow::{HandshakeState, StatelessTransportState};
use wt_protocol::codec::{decode_padded, encode_into};
use wt_protocol::keys::ClientKey;
use wt_protocol::limits::{
    MAX_MESSAGE, MAX_RECORD_PLAINTEXT, MAX_SEALED_RECORD, RECORD_TAG, REKEY_AGE, REKEY_BYTES,
    REKEY_BYTES_MAX, REKEY_RECORDS, REKEY_RECORDS_MAX,
};
use wt_protocol::{Close, Record};
use zeroize::{Zeroize, Zeroizing};

use crate::padding::Padding;

/// Most bytes of a message that one record holds: one byte says which kind of record
/// it is, two say how long the bytes are.
const MAX_PIECE: usize = MAX_RECORD_PLAINTEXT - 3;

/// When keys change, and what is refused. The default is the protocol's.
///
/// Others are for tests and simulations: two ends must agree well enough that a
/// sender changes its key before its receiver gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// A sender changes its key after this many records.
    pub rekey_records: u64,
    /// A sender changes its key after this many sealed bytes.
    pub rekey_bytes: u64,
    /// A sender changes its key after this much time.
    pub rekey_age: Duration,
    /// A receiver gives up after this many records under one key.
    pub max_records: u64,
    /// A receiver gives up after this many sealed bytes under one key.
    pub max_bytes: u64,
    /// Largest message, on either side.
    pub max_message: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            rekey_records: REKEY_RECORDS,
            rekey_bytes: REKEY_BYTES,
            rekey_age: REKEY_AGE,
            max_records: REKEY_RECORDS_MAX,
            max_bytes: REKEY_BYTES_MAX,
            max_message: MAX_MESSAGE,
        }
    }
}

/// A finished handshake.
pub struct Session {
    transport: StatelessTransportState,
    handshake_hash: [u8; 32],
    version: u16,
    client: Option<ClientKey>,
    limits: SessionLimits,
}

impl Session {
    pub(crate) fn new(state: HandshakeState, version: u16, client: Option<ClientKey>) -> Self {
        let handshake_hash = state
            .get_handshake_hash()
            .try_into()
            .expect("SHA-256 has 32 bytes");
        Self {
            transport: state
                .into_stateless_transport_mode()
                .expect("both messages of the handshake are done"),
            handshake_hash,
            version,
            client,
            limits: SessionLimits::default(),
        }
    }

    /// The client's key, at the wing. Proved once the first record opens.
    pub fn client_key(&self) -> Option<ClientKey> {
        self.client
    }

    /// A value that only these two ends of this session share; it is not secret.
    pub fn handshake_hash(&self) -> [u8; 32] {
        self.handshake_hash
    }

    /// The protocol version that both ends speak.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Sets other limits than the protocol's.
    #[must_use]
    pub fn with_limits(self, limits: SessionLimits) -> Self {
        Self { limits, ..self }
    }

    /// Splits into the two directions. `now` is the time of the first keys, on the
    /// clock of which [`Sealer`] is told.
    pub fn split(self, now: Duration) -> (Sealer, Opener) {
        let keys = Arc::new(Keys(RwLock::new(Some(self.transport))));
        let sealer = Sealer {
            keys: Arc::clone(&keys),
            limits: self.limits,
            padding: Padding::default(),
            counter: 0,
            usage: Usage::default(),
            since: now,
            plain: Buffer::new(),
            sealed: Buffer::new(),
        };
        let opener = Opener {
            keys,
            limits: self.limits,
            counter: 0,
            usage: Usage::default(),
            parts: Zeroizing::new(Vec::new()),
            closed: false,
            plain: Buffer::new(),
        };
        (sealer, opener)
    }
}

/// The keys of both directions, until something fails to open.
///
/// Sealing and opening only read, so the two directions never wait for each other;
/// a rekey and the end of the session write.
struct Keys(RwLock<Option<StatelessTransportState>>);

impl Keys {
    fn with<T>(&self, act: impl FnOnce(&StatelessTransportState) -> T) -> Option<T> {
        // A holder that panicked left the state as it was: it is never half changed.
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.as_ref().map(act)
    }

    fn change(&self, act: impl FnOnce(&mut StatelessTransportState)) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = keys.as_mut() {
            act(transport);
        }
    }

    fn end(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What one key was used for.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    records: u64,
    bytes: u64,
}

impl Usage {
    fn add(&mut self, sealed: usize) {
        self.records += 1;
        self.bytes += sealed as u64;
    }
}

/// Room for one record, wiped when it is dropped.
///
/// As large as a sealed one, since snow opens in place when there is room for the tag,
/// and aligned to cache lines, where the cipher is faster than at the odd places that
/// records have in a stream.
#[repr(align(64))]
struct Buffer([u8; MAX_SEALED_RECORD]);

impl Buffer {
    fn new() -> Box<Self> {
        Box::new(Self([0; MAX_SEALED_RECORD]))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Why nothing was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The message is over the cap. The session goes on.
    #[error("a message of {size} bytes is over the limit of {max}")]
    TooLarge {
        /// Bytes of the message.
        size: usize,
        /// Bytes that a message may have.
        max: usize,
    },
    /// A record failed to open at this end, which ended the session.
    #[error("the session is over")]
    Dead,
}

/// How far records are filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// As the sender's [`Padding`] says.
    #[default]
    Bucket,
    /// To the largest record, for messages whose size must not show: snapshots.
    Full,
}

/// The sending direction of a session.
///
/// Every method appends whole records to `out`, each with its u16 length in front,
/// so that one write sends them all.
pub struct Sealer {
    keys: Arc<Keys>,
    limits: SessionLimits,
    padding: Padding,
    counter: u64,
    usage: Usage,
    since: Duration,
    plain: Box<Buffer>,
    sealed: Box<Buffer>,
}

impl Sealer {
    /// Sets how records are padded from here on.
    pub fn set_padding(&mut self, padding: Padding) {
        self.padding = padding;
    }

    /// Seals a message, in parts when it is larger than a record.
    ///
    /// # Errors
    /// [`SealError::TooLarge`] seals nothing and ends nothing.
    pub fn seal_message(
        &mut self,
        message: &[u8],
        fill: Fill,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let (size, max) = (message.len(), self.limits.max_message);
        if size > max {
            return Err(SealError::TooLarge { size, max });
        }
        let mut rest = message;
        while rest.len() > MAX_PIECE {
            let (piece, after) = rest.split_at(MAX_PIECE);
            self.seal(&Record::Part(piece), fill, now, out)?;
            rest = after;
        }
        self.seal(&Record::Message(rest), fill, now, out)
    }

    /// Seals a ping with fresh random bytes.
    ///
    /// # Errors
    /// [`SealError::Dead`].
    pub fn seal_ping(
        &mut self,
        bytes: [u8; 16],
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        self.seal(&Record::Ping(bytes), Fill::Bucket, now, out)
    }

    /// Seals the answer to a ping.
    ///
    /// # Errors
    /// [`SealError::Dead`].
    pub fn seal_pong(
        &mut self,
        bytes: [u8; 16],
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        self.seal(&Record::Pong(bytes), Fill::Bucket, now, out)
    }

    /// Seals nothing, in a record as large as a key press.
    ///
    /// # Errors
    /// [`SealError::Dead`].
    pub fn seal_cover(&mut self, now: Duration, out: &mut Vec<u8>) -> Result<(), SealError> {
        self.seal(&Record::Cover, Fill::Bucket, now, out)
    }

    /// Seals the end of this direction: nothing can follow it.
    ///
    /// # Errors
    /// [`SealError::Dead`].
    pub fn seal_close(mut self, close: Close, out: &mut Vec<u8>) -> Result<(), SealError> {
        // The key is used once more at most, so its age does not matter.
        self.seal_record(&Record::Close(close), Fill::Bucket, out)
    }

    fn seal(
        &mut self,
        record: &Record<'_>,
        fill: Fill,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        if self.is_rekey_due(now) {
            self.seal_record(&Record::Rekey, Fill::Bucket, out)?;
            self.keys.change(StatelessTransportState::rekey_outgoing);
            self.usage = Usage::default();
            self.since = now;
        }
        self.seal_record(record, fill, out)
    }

    fn is_rekey_due(&self, now: Duration) -> bool {
        self.usage.records >= self.limits.rekey_records
            || self.usage.bytes >= self.limits.rekey_bytes
            || now.saturating_sub(self.since) >= self.limits.rekey_age
    }

    fn seal_record(
        &mut self,
        record: &Record<'_>,
        fill: Fill,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let plain = &mut self.plain.0[..MAX_RECORD_PLAINTEXT];
        let used = encode_into(record, plain).expect("pieces are cut so that a record holds them");
        let size = match fill {
            Fill::Bucket => self.padding.padded(used),
            Fill::Full => MAX_RECORD_PLAINTEXT,
        };
        plain[used..size].fill(0);

        let sealed = self
            .keys
            .with(|keys| keys.write_message(self.counter, &plain[..size], &mut self.sealed.0))
            .ok_or(SealError::Dead)?
            .expect("the sizes fit and the counter cannot run out");
        debug_assert_eq!(sealed, size + RECORD_TAG);
        let length = u16::try_from(sealed).expect("a sealed record is below 64 KiB");
        out.reserve(2 + sealed);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.sealed.0[..sealed]);
        self.counter += 1;
        self.usage.add(sealed);
        Ok(())
    }
}

/// A record did not open. The session is over, and its keys are gone.
///
/// Deliberately without a cause: whoever changed the record learns nothing from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sealed record does not open; the session is over")]
pub struct SessionDead;

/// What a record held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// A whole message.
    Message(Vec<u8>),
    /// A part of a message; the rest follows.
    Partial,
    /// The other end asks for a sign of life: answer with the same bytes.
    Ping([u8; 16]),
    /// The other end answers a ping.
    Pong([u8; 16]),
    /// The end of this direction, in order.
    Close(Close),
    /// The sender goes on with its next key.
    Rekeyed,
    /// Nothing: it stands for a key press. A wing answers it as one, with a cover of its
    /// own; a client does not answer.
    Cover,
}

/// The receiving direction of a session.
pub struct Opener {
    keys: Arc<Keys>,
    limits: SessionLimits,
    counter: u64,
    usage: Usage,
    parts: Zeroizing<Vec<u8>>,
    closed: bool,
    plain: Box<Buffer>,
}

impl Opener {
    /// Opens the next record, which comes without its length prefix.
    ///
    /// The opener comes back only if that went well.
    ///
    /// # Errors
    /// [`SessionDead`], for whatever reason: a record out of its place, one that does
    /// not parse, a message over the cap, a key used for too long, a record after the
    /// close. The keys of both directions are dropped.
    pub fn open(mut self, sealed: &[u8]) -> Result<(Self, Opened), SessionDead> {
        match self.try_open(sealed) {
            Some(opened) => Ok((self, opened)),
            None => {
                self.keys.end();
                Err(SessionDead)
            }
        }
    }

    /// Whether a close was opened: the stream may end after it, and only then.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn try_open(&mut self, sealed: &[u8]) -> Option<Opened> {
        if self.closed || sealed.len() > MAX_SEALED_RECORD {
            return None;
        }
        self.usage.add(sealed.len());
        if self.usage.records > self.limits.max_records || self.usage.bytes > self.limits.max_bytes
        {
            return None;
        }
        let size = self
            .keys
            .with(|keys| keys.read_message(self.counter, sealed, &mut self.plain.0))?
            .ok()?;
        self.counter += 1;

        let record: Record<'_> = decode_padded(&self.plain.0[..size], MAX_RECORD_PLAINTEXT).ok()?;
        match record {
            Record::Message(bytes) if self.parts.is_empty() => {
                let fits = bytes.len() <= self.limits.max_message;
                fits.then(|| Opened::Message(bytes.to_vec()))
            }
            Record::Message(bytes) => {
                append(&mut self.parts, bytes, self.limits.max_message)?;
                Some(Opened::Message(core::mem::take(&mut *self.parts)))
            }
            // An empty part would let a message of nothing go on for ever.
            Record::Part([]) => None,
            Record::Part(bytes) => {
                append(&mut self.parts, bytes, self.limits.max_message)?;
                Some(Opened::Partial)
            }
            Record::Ping(bytes) => Some(Opened::Ping(bytes)),
            Record::Pong(bytes) => Some(Opened::Pong(bytes)),
            Record::Rekey => {
                self.keys.change(StatelessTransportState::rekey_incoming);
                self.usage = Usage::default();
                Some(Opened::Rekeyed)
            }
            Record::Cover => Some(Opened::Cover),
            // A close in the middle of a message would hide that the message was cut.
            Record::Close(_) if !self.parts.is_empty() => None,
            Record::Close(close) => {
                self.closed = true;
                Some(Opened::Close(close))
            }
        }
    }
}

fn append(parts: &mut Vec<u8>, bytes: &[u8], max: usize) -> Option<()> {
    if parts.len() + bytes.len() > max {
        return None;
    }
    parts.extend_from_slice(bytes);
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use wt_protocol::codec::encode;
    use wt_protocol::{Deframer, Prefix, RouteHeader, RouteNonce, VersionRange};

    use super::*;
    use crate::handshake::{Answer, Initiator, Responder};
    use crate::keys::{ClientSecret, WingIdentity, verify_statement};

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn messages_of_every_size_arrive_whole_in_both_directions() {
        let (mut client, mut wing) = pair(SessionLimits::default());

        for size in [
            0,
            1,
            60,
            61,
            62,
            16_380,
            16_381,
            16_382,
            32_762,
            32_763,
            MAX_MESSAGE,
        ] {
            let message: Vec<u8> = (0..size).map(|i| i as u8).collect();
            assert_eq!(wing.receive_message(&client.seal(&message)), message);
            assert_eq!(client.receive_message(&wing.seal(&message)), message);
        }
    }

    #[test]
    fn a_message_over_the_cap_is_not_sealed_and_ends_nothing() {
        let (mut client, mut wing) = pair(SessionLimits::default());
        let mut out = Vec::new();

        let refused =
            client
                .sealer
                .seal_message(&vec![0; MAX_MESSAGE + 1], Fill::Bucket, NOW, &mut out);

        let (size, max) = (MAX_MESSAGE + 1, MAX_MESSAGE);
        assert_eq!(refused, Err(SealError::TooLarge { size, max }));
        assert!(out.is_empty());
        assert_eq!(wing.receive_message(&client.seal(b"on")), b"on");
    }

    #[test]
    fn pings_pongs_and_the_close_arrive() {
        let (mut client, mut wing) = pair(SessionLimits::default());
        let mut out = Vec::new();

        client.sealer.seal_ping([7; 16], NOW, &mut out).unwrap();
        client.sealer.seal_pong([8; 16], NOW, &mut out).unwrap();
        client.sealer.seal_close(Close::Done, &mut out).unwrap();

        let opened = wing.receive(&out).unwrap();
        let expected = [
            Opened::Ping([7; 16]),
            Opened::Pong([8; 16]),
            Opened::Close(Close::Done),
        ];
        assert_eq!(opened, expected);
        assert!(wing.opener.unwrap().is_closed());
    }

    #[test]
    fn a_cover_looks_like_a_key_press_and_says_nothing() {
        let (mut client, mut wing) = pair(SessionLimits::default());
        let key_press = client.seal(&[0; 12]);
        let mut cover = Vec::new();

        client.sealer.seal_cover(NOW, &mut cover).unwrap();

        assert_eq!(cover.len(), key_press.len());
        assert_eq!(wing.receive_message(&key_press), [0; 12]);
        assert_eq!(wing.receive(&cover), Ok(vec![Opened::Cover]));
    }

    #[test]
    fn a_record_after_the_close_is_fatal() {
        let (mut client, mut wing) = pair(SessionLimits::default());
        let closed = client.seal_raw(&Record::Close(Close::Done));
        let after = client.seal(b"after");

        assert!(wing.receive(&closed).is_ok());
        assert_eq!(wing.receive(&after), Err(SessionDead));
    }

    #[test]
    fn records_have_the_sizes_of_buckets_whatever_they_hold() {
        let (mut client, _) = pair(SessionLimits::default());
        let mut sizes = |message: &[u8]| -> Vec<usize> {
            frames(&client.seal(message)).iter().map(Vec::len).collect()
        };

        assert_eq!(sizes(b""), [80]);
        assert_eq!(sizes(&[0; 61]), [80]);
        assert_eq!(sizes(&[0; 63]), [272]);
        assert_eq!(sizes(&[0; 16_381]), [16_400]);
        assert_eq!(sizes(&[0; 16_382]), [16_400, 80]);

        let mut out = Vec::new();
        client
            .sealer
            .seal_message(&[0; 20_000], Fill::Full, NOW, &mut out)
            .unwrap();
        let full: Vec<usize> = frames(&out).iter().map(Vec::len).collect();
        assert_eq!(full, [16_400, 16_400]);
        client.sealer.set_padding(Padding::Off);
        assert_eq!(frames(&client.seal(b"abc"))[0].len(), 3 + 2 + 16);
    }

    #[test]
    fn a_flipped_bit_anywhere_in_a_record_is_fatal() {
        let (mut client, _) = pair(SessionLimits::default());
        let record = frames(&client.seal(b"secret")).remove(0);

        for at in 0..record.len() {
            let (mut client, mut wing) = pair(SessionLimits::default());
            let mut changed = frames(&client.seal(b"secret")).remove(0);
            changed[at] ^= 0x10;
            assert_eq!(
                wing.open(&changed),
                Err(SessionDead),
                "byte {at} does not matter"
            );
        }
    }

    #[test]
    fn only_the_order_of_sending_opens() {
        let orders = [
            ("replayed", vec![0, 0]),
            ("replayed later", vec![0, 1, 0]),
            ("swapped", vec![1, 0]),
            ("the first dropped", vec![1]),
            ("one dropped", vec![0, 2]),
        ];
        for (what, order) in orders {
            let (mut client, mut wing) = pair(SessionLimits::default());
            let records: Vec<Vec<u8>> = [b"0", b"1", b"2"]
                .iter()
                .map(|message| frames(&client.seal(*message)).remove(0))
                .collect();
            let result: Result<Vec<Opened>, SessionDead> =
                order.iter().map(|&at| wing.open(&records[at])).collect();
            assert_eq!(result, Err(SessionDead), "{what}");
        }

        let (mut client, mut wing) = pair(SessionLimits::default());
        let all = [client.seal(b"0"), client.seal(b"1"), client.seal(b"2")].concat();
        assert_eq!(wing.receive(&all).unwrap().len(), 3);
    }

    #[test]
    fn cut_lengthened_empty_and_oversized_records_are_fatal() {
        for change in [
            |record: &mut Vec<u8>| record.truncate(record.len() - 1),
            |record: &mut Vec<u8>| record.push(0),
            |record: &mut Vec<u8>| record.truncate(15),
            |record: &mut Vec<u8>| record.clear(),
            |record: &mut Vec<u8>| record.resize(MAX_SEALED_RECORD + 1, 0),
            |record: &mut Vec<u8>| record.resize(70_000, 0),
        ] {
            let (mut client, mut wing) = pair(SessionLimits::default());
            let mut record = frames(&client.seal(b"x")).remove(0);
            change(&mut record);
            assert_eq!(wing.open(&record), Err(SessionDead));
        }
    }

    #[test]
    fn a_reflected_record_is_fatal() {
        let (mut client, _wing) = pair(SessionLimits::default());
        let own = client.seal(b"x");

        assert_eq!(client.receive(&own), Err(SessionDead));
    }

    #[test]
    fn a_record_of_another_session_is_fatal() {
        let (mut client, _) = pair(SessionLimits::default());
        let (_, mut other_wing) = pair(SessionLimits::default());

        assert_eq!(other_wing.receive(&client.seal(b"x")), Err(SessionDead));
    }

    #[test]
    fn a_record_that_does_not_open_ends_the_sending_direction_too() {
        let (mut client, mut wing) = pair(SessionLimits::default());
        assert_eq!(client.receive_message(&wing.seal(b"before")), b"before");

        assert_eq!(wing.open(&[0; 80]), Err(SessionDead));

        let mut out = b"kept".to_vec();
        let sealed = wing
            .sealer
            .seal_message(b"after", Fill::Bucket, NOW, &mut out);
        assert_eq!(sealed, Err(SealError::Dead));
        assert_eq!(out, b"kept");
    }

    #[test]
    fn padding_that_is_not_zero_is_fatal() {
        let good = encode(&Record::Message(b"x"), 64).unwrap();
        for (tail, fatal) in [([0, 0], false), ([0, 1], true)] {
            let (mut client, mut wing) = pair(SessionLimits::default());
            let record = client.seal_plain(&[&good[..], &tail].concat());
            assert_eq!(wing.open(&record).is_err(), fatal);
        }
    }

    #[test]
    fn records_that_do_not_parse_are_fatal() {
        for plain in [&[][..], &[99], &[0, 200], &[5, 99], &[1, 0]] {
            let (mut client, mut wing) = pair(SessionLimits::default());
            let record = client.seal_plain(plain);
            assert_eq!(wing.open(&record), Err(SessionDead), "{plain:?}");
        }
    }

    #[test]
    fn a_close_in_the_middle_of_a_message_is_fatal() {
        let (mut client, mut wing) = pair(SessionLimits::default());
        let part = client.seal_raw(&Record::Part(b"half"));
        let close = client.seal_raw(&Record::Close(Close::Done));

        assert_eq!(wing.receive(&part), Ok(vec![Opened::Partial]));
        assert_eq!(wing.receive(&close), Err(SessionDead));
    }

    #[test]
    fn a_receiver_keeps_no_more_of_a_message_than_the_cap() {
        let limits = SessionLimits {
            max_message: 10,
            ..SessionLimits::default()
        };
        let receive = |pieces: &[Record<'_>]| {
            let (mut client, mut wing) = pair(limits);
            let sealed: Vec<u8> = pieces.iter().flat_map(|r| client.seal_raw(r)).collect();
            wing.receive(&sealed)
        };

        let fits = receive(&[Record::Part(b"12345"), Record::Message(b"67890")]).unwrap();
        assert_eq!(
            fits,
            [Opened::Partial, Opened::Message(b"1234567890".to_vec())]
        );
        for over in [
            &[Record::Part(b"12345"), Record::Message(b"67890a")][..],
            &[Record::Part(b"12345"), Record::Part(b"67890a")],
            &[Record::Message(b"1234567890a")],
        ] {
            assert_eq!(receive(over), Err(SessionDead));
        }
    }

    #[test]
    fn both_directions_change_keys_under_load_on_their_own() {
        let limits = SessionLimits {
            rekey_records: 5,
            max_records: 10,
            ..SessionLimits::default()
        };
        let (mut client, mut wing) = pair(limits);
        let mut rekeys = [0, 0];

        for round in 0..100u32 {
            let message = round.to_be_bytes();
            let to_wing = client.seal(&message);
            rekeys[0] += rekeys_in(&mut wing, &to_wing, &message);
            if round % 3 == 0 {
                let large = vec![round as u8; 100_000];
                let to_client = wing.seal(&large);
                rekeys[1] += rekeys_in(&mut client, &to_client, &large);
            }
        }

        assert!(rekeys[0] >= 15 && rekeys[1] >= 30, "{rekeys:?}");
    }

    #[test]
    fn a_key_changes_by_bytes_and_by_age() {
        let by_bytes = SessionLimits {
            rekey_bytes: 200,
            ..SessionLimits::default()
        };
        let (mut client, _) = pair(by_bytes);
        let kinds: Vec<usize> = (0..4).map(|_| frames(&client.seal(b"x")).len()).collect();
        assert_eq!(kinds, [1, 1, 1, 2]);

        let (mut client_by_age, mut wing_by_age) = pair(SessionLimits::default());
        let mut out = Vec::new();
        for (at, records) in [(0, 1), (3_599, 1), (3_600, 2), (3_601, 1), (7_200, 2)] {
            out.clear();
            let now = Duration::from_secs(at);
            client_by_age
                .sealer
                .seal_message(b"x", Fill::Bucket, now, &mut out)
                .unwrap();
            assert_eq!(frames(&out).len(), records, "after {at} s");
            wing_by_age.receive(&out).unwrap();
        }
    }

    #[test]
    fn a_record_under_the_old_key_after_a_rekey_is_fatal() {
        let limits = SessionLimits {
            rekey_records: 1,
            ..SessionLimits::default()
        };
        let (mut client, mut wing) = pair(limits);
        let first = client.seal(b"1");
        let [rekey, second]: [Vec<u8>; 2] = frames(&client.seal(b"2")).try_into().unwrap();

        assert!(wing.receive(&first).is_ok());
        assert_eq!(wing.open(&rekey), Ok(Opened::Rekeyed));
        assert_eq!(wing.open(&second), Ok(Opened::Message(b"2".to_vec())));

        let (mut honest, mut wing) = pair(SessionLimits::default());
        let rekey = honest.seal_raw(&Record::Rekey);
        // The sender did not change its key, though it said so.
        let stale = honest.seal(b"x");
        assert_eq!(wing.receive(&rekey), Ok(vec![Opened::Rekeyed]));
        assert_eq!(wing.receive(&stale), Err(SessionDead));
    }

    #[test]
    fn a_receiver_gives_up_on_a_key_that_is_used_for_too_long() {
        let by_records = SessionLimits {
            max_records: 3,
            ..SessionLimits::default()
        };
        let by_bytes = SessionLimits {
            max_bytes: 3 * 80,
            ..SessionLimits::default()
        };
        for limits in [by_records, by_bytes] {
            let (mut client, mut wing) = pair(limits);
            for _ in 0..3 {
                assert!(wing.receive(&client.seal(b"x")).is_ok());
            }
            assert_eq!(wing.receive(&client.seal(b"x")), Err(SessionDead));
        }
    }

    #[test]
    fn the_two_directions_work_from_two_threads() {
        let limits = SessionLimits {
            rekey_records: 7,
            ..SessionLimits::default()
        };
        let (client, mut wing) = pair(limits);
        let (to_wing, at_wing) = std::sync::mpsc::channel::<Vec<u8>>();
        let (to_client, at_client) = std::sync::mpsc::channel::<Vec<u8>>();
        let End { mut sealer, opener } = client;

        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 0..500u32 {
                    let mut out = Vec::new();
                    let message = round.to_be_bytes();
                    sealer
                        .seal_message(&message, Fill::Bucket, NOW, &mut out)
                        .unwrap();
                    to_wing.send(out).unwrap();
                }
            });
            scope.spawn(move || {
                for sealed in at_wing {
                    for opened in wing.receive(&sealed).unwrap() {
                        if let Opened::Message(message) = opened {
                            to_client.send(wing.seal(&message)).unwrap();
                        }
                    }
                }
            });
            let mut opener = opener.unwrap();
            let mut expected = 0u32;
            for sealed in at_client {
                for record in frames(&sealed) {
                    let (next, opened) = opener.open(&record).unwrap();
                    opener = next;
                    if let Opened::Message(message) = opened {
                        assert_eq!(message, expected.to_be_bytes());
                        expected += 1;
                    }
                }
            }
            assert_eq!(expected, 500);
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_row_of_messages_arrives_as_it_was_sent(
            messages in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..40_000), 0..8),
            rekey_records in 1u64..6,
        ) {
            let limits = SessionLimits { rekey_records, ..SessionLimits::default() };
            let (mut client, mut wing) = pair(limits);

            let sealed: Vec<u8> = messages.iter().flat_map(|m| client.seal(m)).collect();

            let arrived: Vec<Vec<u8>> = wing
                .receive(&sealed)
                .unwrap()
                .into_iter()
                .filter_map(|opened| match opened {
                    Opened::Message(message) => Some(message),
                    _ => None,
                })
                .collect();
            prop_assert_eq!(arrived, messages);
        }

        #[test]
        fn bytes_that_the_other_end_did_not_seal_never_open(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let (_, mut wing) = pair(SessionLimits::default());

            prop_assert_eq!(wing.open(&bytes), Err(SessionDead));
        }
    }

    fn rekeys_in(end: &mut End, sealed: &[u8], message: &[u8]) -> usize {
        let opened = end.receive(sealed).unwrap();
        assert_eq!(opened.last(), Some(&Opened::Message(message.to_vec())));
        opened.iter().filter(|o| **o == Opened::Rekeyed).count()
    }

    /// One end of a session, both directions.
    pub(crate) struct End {
        pub(crate) sealer: Sealer,
        pub(crate) opener: Option<Opener>,
    }

    impl End {
        pub(crate) fn seal(&mut self, message: &[u8]) -> Vec<u8> {
            let mut out = Vec::new();
            self.sealer
                .seal_message(message, Fill::Bucket, NOW, &mut out)
                .unwrap();
            out
        }

        /// Seals a record as it is, with its length in front.
        fn seal_raw(&mut self, record: &Record<'_>) -> Vec<u8> {
            let mut out = Vec::new();
            self.sealer
                .seal_record(record, Fill::Bucket, &mut out)
                .unwrap();
            out
        }

        /// Seals a plaintext that need not be a record, without a length in front.
        fn seal_plain(&mut self, plain: &[u8]) -> Vec<u8> {
            let mut sealed = vec![0; plain.len() + RECORD_TAG];
            let counter = self.sealer.counter;
            self.sealer
                .keys
                .with(|keys| keys.write_message(counter, plain, &mut sealed))
                .unwrap()
                .unwrap();
            self.sealer.counter += 1;
            sealed
        }

        pub(crate) fn open(&mut self, record: &[u8]) -> Result<Opened, SessionDead> {
            let opener = self.opener.take().ok_or(SessionDead)?;
            let (opener, opened) = opener.open(record)?;
            self.opener = Some(opener);
            Ok(opened)
        }

        pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Opened>, SessionDead> {
            frames(bytes)
                .iter()
                .map(|record| self.open(record))
                .collect()
        }

        fn receive_message(&mut self, bytes: &[u8]) -> Vec<u8> {
            match self.receive(bytes).unwrap().pop() {
                Some(Opened::Message(message)) => message,
                other => panic!("expected a message, not {other:?}"),
            }
        }
    }

    pub(crate) fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut deframer = Deframer::new(Prefix::U16, MAX_SEALED_RECORD);
        deframer.extend(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = deframer.next_frame().unwrap() {
            frames.push(frame.to_vec());
        }
        assert!(deframer.is_between_frames());
        frames
    }

    /// A client's and a wing's end of a fresh session.
    fn pair(limits: SessionLimits) -> (End, End) {
        let wing = WingIdentity::generate();
        let (id, identity) = (wing.wing_id(), wing.identity().public());
        let verified = verify_statement(&id, &identity, &wing.statement()).unwrap();
        let header = RouteHeader {
            wing: id.clone(),
            nonce: RouteNonce::from_bytes([1; 16]),
            versions: VersionRange::CURRENT,
        };
        let (initiator, message_1) =
            Initiator::start(&ClientSecret::generate(), &verified, &header);
        let (answer, message_2) = Responder::read(wing.noise(), &id, &header, &message_1).unwrap();
        let Answer::Session(at_wing) = answer else {
            panic!("a version is common")
        };
        let at_client = initiator.finish(&message_2).unwrap();
        let end = |session: Session| {
            let (sealer, opener) = session.with_limits(limits).split(NOW);
            let opener = Some(opener);
            End { sealer, opener }
        };
        (end(at_client), end(at_wing))
    }
}

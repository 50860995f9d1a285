//! Sealed sessions against the bare cipher, and handshakes, on one thread.
//!
//! Everything is measured in the thread's own CPU time, so that it hardly depends on what else
//! the machine does: a rate is what one core gives.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::time::{ClockId, clock_gettime};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use wt_crypto::{
    Answer, ClientSecret, Fill, Initiator, Opened, Opener, Responder, Sealer, Session,
    VerifiedWing, WingIdentity, random, verify_statement,
};
use wt_protocol::limits::MAX_RECORD_PLAINTEXT;
use wt_protocol::{RouteHeader, RouteNonce, VersionRange};

use crate::report::Series;

/// The largest message that fits one record: 3 bytes are its kind and its length.
const MESSAGE: usize = MAX_RECORD_PLAINTEXT - 3;

/// Records between two looks at the clock: about a millisecond.
const BATCH: usize = 128;

/// Measures; gives MB/s and handshakes for each second of one core.
pub(crate) async fn run(rounds: u32, length: Duration) -> Result<Series> {
    // A thread of its own, so that waiting for a signal goes on.
    tokio::task::spawn_blocking(move || measure(rounds, length))
        .await
        .context("the measuring thread broke down")?
}

fn measure(rounds: u32, length: Duration) -> Result<Series> {
    let mut series = Series::default();
    let ends = Ends::new()?;
    for _ in 0..rounds {
        series.enter("ring.seal_open", "MB/s", ring_rate(length)?);
        let (client, wing) = ends.handshake()?;
        let ((client_seals, client_opens), (wing_seals, wing_opens)) =
            (client.split(Duration::ZERO), wing.split(Duration::ZERO));
        let to_wing = session_rate(client_seals, wing_opens, length)?;
        series.enter("session.to_wing", "MB/s", to_wing);
        let to_client = session_rate(wing_seals, client_opens, length)?;
        series.enter("session.to_client", "MB/s", to_client);
        let handshakes = rate(length, || ends.handshake().map(drop))?;
        series.enter("handshakes", "/s, both ends", handshakes);
    }
    for direction in ["to_wing", "to_client"] {
        series.ratio(
            &format!("session {direction} / ring"),
            &format!("session.{direction}"),
            "ring.seal_open",
        );
    }
    Ok(series)
}

fn ring_rate(length: Duration) -> Result<f64> {
    let key = UnboundKey::new(&AES_256_GCM, &random::<32>()).map_err(|_| anyhow!("no key"))?;
    let key = LessSafeKey::new(key);
    let mut buffer = vec![0x5a; MAX_RECORD_PLAINTEXT];
    let mut counter = 0u64;
    let mut record = || {
        counter += 1;
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&counter.to_be_bytes());
        buffer.truncate(MAX_RECORD_PLAINTEXT);
        let seal = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(seal, Aad::empty(), &mut buffer)
            .map_err(|_| anyhow!("ring did not seal"))?;
        let open = Nonce::assume_unique_for_key(nonce);
        let plain = key
            .open_in_place(open, Aad::empty(), &mut buffer)
            .map_err(|_| anyhow!("ring did not open"))?;
        black_box(plain.len());
        Ok(())
    };
    let records = rate(length, || (0..BATCH).try_for_each(|_| record()))?;
    Ok(megabytes(records))
}

fn session_rate(mut sealer: Sealer, opener: Opener, length: Duration) -> Result<f64> {
    let message = vec![0x5a; MESSAGE];
    let mut out = Vec::new();
    // An opener is consumed by each record and comes back with it.
    let mut opener = Some(opener);
    let mut record = || {
        out.clear();
        sealer.seal_message(&message, Fill::Bucket, Duration::ZERO, &mut out)?;
        let mut sealed = out.as_slice();
        // A key change is a record of its own before the message.
        while let Some((length, rest)) = sealed.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let (frame, rest) = rest.split_at_checked(length).context("a cut record")?;
            sealed = rest;
            let this = opener.take().context("the session is dead")?;
            let (next, opened) = this.open(frame)?;
            opener = Some(next);
            if let Opened::Message(message) = opened {
                black_box(message.len());
            }
        }
        Ok(())
    };
    let records = rate(length, || (0..BATCH).try_for_each(|_| record()))?;
    Ok(megabytes(records))
}

fn megabytes(batches_per_second: f64) -> f64 {
    batches_per_second * (BATCH * MAX_RECORD_PLAINTEXT) as f64 / 1e6
}

/// How often an act is done in a second of this thread's CPU time.
fn rate(length: Duration, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = thread_time()?;
    let mut acts = 0u32;
    loop {
        act()?;
        acts += 1;
        let used = thread_time()?.saturating_sub(start);
        if used >= length {
            return Ok(f64::from(acts) / used.as_secs_f64());
        }
    }
}

fn thread_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// A wing and a client that know each other.
struct Ends {
    wing: WingIdentity,
    verified: VerifiedWing,
    client: ClientSecret,
}

impl Ends {
    fn new() -> Result<Self> {
        let wing = WingIdentity::generate();
        let identity = wing.identity().public();
        let verified = verify_statement(&wing.wing_id(), &identity, &wing.statement())?;
        Ok(Self {
            wing,
            verified,
            client: ClientSecret::generate(),
        })
    }

    /// A handshake of both ends: the client's session and the wing's.
    fn handshake(&self) -> Result<(Session, Session)> {
        let id = self.verified.wing_id();
        let header = RouteHeader {
            wing: id.clone(),
            nonce: RouteNonce::from_bytes(random()),
            versions: VersionRange::CURRENT,
        };
        let (initiator, message_1) = Initiator::start(&self.client, &self.verified, &header);
        let (answer, message_2) = Responder::read(self.wing.noise(), id, &header, &message_1)?;
        let Answer::Session(wing) = answer else {
            bail!("the two ends have no version in common")
        };
        Ok((initiator.finish(&message_2)?, wing))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_is_measured_in_both_directions() {
        let ends = Ends::new().unwrap();
        let (client, wing) = ends.handshake().unwrap();
        let ((seals, opens), (wing_seals, wing_opens)) =
            (client.split(Duration::ZERO), wing.split(Duration::ZERO));

        let shortest = Duration::from_millis(1);
        assert!(session_rate(seals, wing_opens, shortest).unwrap() > 0.0);
        assert!(session_rate(wing_seals, opens, shortest).unwrap() > 0.0);
        assert!(ring_rate(shortest).unwrap() > 0.0);
    }

    #[test]
    fn a_message_fills_one_record() {
        let ends = Ends::new().unwrap();
        let (client, _) = ends.handshake().unwrap();
        let (mut sealer, _) = client.split(Duration::ZERO);
        let mut out = Vec::new();

        sealer
            .seal_message(&[0; MESSAGE], Fill::Bucket, Duration::ZERO, &mut out)
            .unwrap();

        let framed = 2 + wt_protocol::limits::MAX_SEALED_RECORD;
        assert_eq!(out.len(), framed);
    }
}

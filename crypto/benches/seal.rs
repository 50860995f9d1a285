//! Records of 16 KiB against the bare cipher, in one run on one machine.
//!
//! `cargo bench -p wt-crypto`; the ratio of the two is what counts.
#![allow(missing_docs)]

use core::time::Duration;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use wt_crypto::{
    Answer, ClientSecret, Fill, Initiator, Opened, Responder, SessionLimits, WingIdentity,
    verify_statement,
};
use wt_protocol::{RouteHeader, RouteNonce, VersionRange};

/// As many bytes as one record holds.
const SIZE: usize = 16_381;

fn bare(c: &mut Criterion) {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("32 bytes"));
    let mut buffer = vec![0; 16_384];
    let mut counter = 0u64;
    let mut group = c.benchmark_group("16 KiB");
    group.throughput(Throughput::Bytes(SIZE as u64));
    group.bench_function("ring AES-256-GCM, seal and open", |b| {
        b.iter(|| {
            counter += 1;
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&counter.to_be_bytes());
            let seal = Nonce::assume_unique_for_key(nonce);
            buffer.truncate(16_384);
            key.seal_in_place_append_tag(seal, Aad::empty(), &mut buffer)
                .expect("the buffer is small");
            let open = Nonce::assume_unique_for_key(nonce);
            let plain = key.open_in_place(open, Aad::empty(), &mut buffer);
            black_box(plain.expect("it was sealed with this key").len())
        });
    });
    group.finish();
}

fn session(c: &mut Criterion) {
    let wing = WingIdentity::generate();
    let (id, identity) = (wing.wing_id(), wing.identity().public());
    let verified = verify_statement(&id, &identity, &wing.statement()).expect("its own");
    let header = RouteHeader {
        wing: id.clone(),
        nonce: RouteNonce::from_bytes([1; 16]),
        versions: VersionRange::CURRENT,
    };
    let (initiator, message_1) = Initiator::start(&ClientSecret::generate(), &verified, &header);
    let (answer, message_2) =
        Responder::read(wing.noise(), &id, &header, &message_1).expect("it is for this wing");
    let Answer::Session(at_wing) = answer else {
        panic!("a version is common")
    };
    let at_client = initiator.finish(&message_2).expect("it is by this wing");
    let now = Duration::ZERO;
    // So that only records are measured, however long it runs.
    let limits = SessionLimits {
        rekey_records: u64::MAX,
        rekey_bytes: u64::MAX,
        max_records: u64::MAX,
        max_bytes: u64::MAX,
        ..SessionLimits::default()
    };
    let (mut sealer, _keep) = at_client.with_limits(limits).split(now);
    let (_keep, opener) = at_wing.with_limits(limits).split(now);
    let mut opener = Some(opener);
    let message = vec![0x5a; SIZE];
    let mut out = Vec::new();
    let mut group = c.benchmark_group("16 KiB");
    group.throughput(Throughput::Bytes(SIZE as u64));
    group.bench_function("session, seal and open", |b| {
        b.iter(|| {
            out.clear();
            sealer
                .seal_message(&message, Fill::Bucket, now, &mut out)
                .expect("the session lives");
            let (next, opened) = opener
                .take()
                .expect("it comes back each time")
                .open(&out[2..])
                .expect("it was sealed for this end");
            opener = Some(next);
            let Opened::Message(message) = opened else {
                panic!("it is a message")
            };
            black_box(message.len())
        });
    });
    group.finish();
}

criterion_group!(benches, bare, session);
criterion_main!(benches);

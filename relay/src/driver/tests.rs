//! Links and routes through a whole driver, in memory and over QUIC on loopback.

use std::net::Ipv4Addr;
use std::time::SystemTime;

use bytes::Bytes;
use ring::signature::{Ed25519KeyPair, KeyPair};
use tokio::task::JoinSet;
use wt_link::dial::{Claim, Control as Dialled, ProveError, Signer, WingClaim, prove};
use wt_link::quic::{Dialer, Identity, Trust};
use wt_link::{LinkEnd, STREAM_WINDOW, StreamEnd};
use wt_protocol::codec::encode;
use wt_protocol::control::{FromRelay, Hello, NoiseKeyStatement, Proof, ProofMode, ToRelay};
use wt_protocol::keys::{ClientKey, IdentityKey, NoiseKey, Sha256Digest, Signature};
use wt_protocol::limits::MAX_CONTROL_MESSAGE;
use wt_protocol::signed::{RelayProof, noise_key_statement, relay_proof};
use wt_protocol::{InstanceId, RouteHeader, RouteNonce, VersionRange};

use super::*;
use crate::store::{Enrolment, Store};
use crate::tokens::{TOKEN_LIFETIME, Tokens};

const ORIGIN: &str = "https://roost.example";

/// Makes one test for each kind of link from each scenario.
macro_rules! over_both {
    ($($name:ident)*) => {
        mod memory_links {
            $(#[tokio::test]
            async fn $name() {
                super::scenario::$name(super::Roost::start(super::Over::Memory).await).await;
            })*
        }
        mod quic_links {
            $(#[tokio::test]
            async fn $name() {
                super::scenario::$name(super::Roost::start(super::Over::Quic).await).await;
            })*
        }
    };
}

over_both! {
    a_route_carries_bytes_both_ways_to_the_end
    the_wing_reads_the_header_as_the_client_wrote_it
    how_a_stream_ends_is_passed_on_code_for_code
    anothers_wing_is_not_found_exactly_like_one_that_nobody_has
    an_own_wing_that_left_is_offline
    another_instance_replaces_a_wing_and_takes_the_routes_that_follow
    sixty_three_stalled_routes_do_not_stop_the_sixty_fourth
    a_route_over_the_limit_of_a_link_is_told_busy
    losing_the_wing_resets_the_client
    losing_the_client_resets_the_wing
    a_reader_that_takes_nothing_loses_its_route_and_no_other
    a_header_that_does_not_parse_is_refused
    a_wing_opens_no_routes
    a_message_out_of_turn_ends_the_link
    a_proof_that_was_made_for_another_link_is_refused
    a_proof_bound_in_the_wrong_way_is_refused
    a_proof_for_another_roost_is_refused
    a_proof_by_another_device_than_the_tokens_is_refused
    a_wing_without_its_identity_key_is_refused
    a_wing_of_another_account_is_refused_like_a_false_proof
    a_link_is_closed_when_its_proof_runs_out_unless_it_was_renewed
    a_renewal_for_another_account_ends_the_link
    a_revoked_device_loses_its_links_and_comes_back_by_no_token
    a_drain_tells_every_link_and_ends_those_that_stay
}

mod scenario {
    use super::*;

    pub(super) async fn a_route_carries_bytes_both_ways_to_the_end(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        let sent: Vec<u8> = (0..700_000u32).map(|n| (n % 253) as u8).collect();

        let (mut send, recv) = client.open(&wing.id()).await;
        let (mut back, far) = wing.accept().await;
        let echo = tokio::spawn(async move {
            let mut reader = far;
            while let Some(chunk) = reader.read_chunk(10_000).await.unwrap() {
                back.write_chunk(chunk).await.unwrap();
            }
            back.finish();
            back
        });
        let out = sent.clone();
        let writer = tokio::spawn(async move {
            send.write_all(&out).await.unwrap();
            send.finish();
            send
        });

        assert_eq!(read_all(recv).await.unwrap(), sent);
        drop((echo.await.unwrap(), writer.await.unwrap()));
        roost.until(|counts| counts.routes == 0).await;
        let traffic = roost.driver.traffic();
        assert_eq!(traffic.to_wings, 700_000);
        assert_eq!(traffic.to_clients, 700_000);
        assert_eq!(traffic.slow_consumers, 0);
    }

    pub(super) async fn the_wing_reads_the_header_as_the_client_wrote_it(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;

        let (mut send, _recv) = client.link.open().await.unwrap();
        // The header and what follows it may come in one piece.
        let mut bytes = wt_protocol::frame(wt_protocol::Prefix::U16, &header(&wing.id()));
        bytes.extend(b"first bytes");
        send.write_all(&bytes).await.unwrap();
        send.finish();

        let (_back, far) = wing.link.accept().await.unwrap();
        assert_eq!(read_all(far).await.unwrap(), bytes);
    }

    pub(super) async fn how_a_stream_ends_is_passed_on_code_for_code(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        let (mut send, mut recv) = client.open(&wing.id()).await;
        let (mut back, mut far) = wing.accept().await;

        send.reset(StreamCode::Unknown(77));
        recv.stop(StreamCode::Unknown(78));

        let reset = StreamEnd::Reset(StreamCode::Unknown(77));
        let stop = StreamEnd::Reset(StreamCode::Unknown(78));
        assert_eq!(read_to_end(&mut far).await, Err(reset));
        assert_eq!(back.stopped().await, Err(stop));
        assert_eq!(back.write_all(b"x").await, Err(stop));
        roost.until(|counts| counts.routes == 0).await;

        let (send, recv) = client.open(&wing.id()).await;
        let (mut back, mut far) = wing.accept().await;
        back.reset(StreamCode::Unknown(79));
        far.stop(StreamCode::Unknown(80));
        let (reset, stop) = ends(send, recv).await;
        assert_eq!(reset, StreamEnd::Reset(StreamCode::Unknown(79)));
        assert_eq!(stop, StreamEnd::Reset(StreamCode::Unknown(80)));
    }

    pub(super) async fn anothers_wing_is_not_found_exactly_like_one_that_nobody_has(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let bob = roost.client("bob", 3).await;
        let ann = roost.client("ann", 2).await;

        let anothers = bob.refusal(&wing.id()).await;
        let nobodys = bob.refusal(&wing_id(99)).await;
        let gone = {
            wing.link.close(LinkCode::Done);
            roost.until(|counts| counts.wings == 0).await;
            bob.refusal(&wing.id()).await
        };

        assert_eq!(anothers, StreamCode::NotFound);
        assert_eq!(nobodys, anothers);
        assert_eq!(gone, anothers);
        assert_eq!(ann.refusal(&wing.id()).await, StreamCode::Offline);
        assert_eq!(ann.refusal(&wing_id(99)).await, StreamCode::NotFound);
    }

    pub(super) async fn an_own_wing_that_left_is_offline(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        let ann = AccountId::new("ann");
        assert_eq!(roost.driver.online(&ann), HashSet::from([wing.id()]));
        assert_eq!(roost.driver.online(&AccountId::new("bob")), HashSet::new());

        wing.link.close(LinkCode::Done);
        roost.until(|counts| counts.wings == 0).await;

        assert_eq!(client.refusal(&wing.id()).await, StreamCode::Offline);
        assert_eq!(roost.driver.online(&ann), HashSet::new());
    }

    pub(super) async fn another_instance_replaces_a_wing_and_takes_the_routes_that_follow(
        roost: Roost,
    ) {
        let first = roost.wing("ann", 1, 1).await;
        let second = roost.wing("ann", 1, 2).await;

        let why = LinkEnd::ByPeer(LinkCode::Replaced);
        assert_eq!(first.link.closed().await, why);
        let client = roost.client("ann", 2).await;
        let (mut send, _recv) = client.open(&second.id()).await;
        let (_back, far) = second.accept().await;
        send.write_all(b"to the second").await.unwrap();
        send.finish();
        assert_eq!(read_all(far).await.unwrap(), b"to the second");

        // The same instance may hold several links, and replaces nothing.
        let third = roost.wing("ann", 1, 2).await;
        let _routed = client.open(&third.id()).await;
        third.accept().await;
        assert_eq!(roost.driver.counts().wings, 1);
        assert_eq!(roost.driver.counts().links, 3);
    }

    pub(super) async fn sixty_three_stalled_routes_do_not_stop_the_sixty_fourth(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(roost.client("ann", 2).await);
        }
        let mut stalled = Vec::new();
        let mut full = JoinSet::new();
        for number in 0..63 {
            let near = clients[number % 4].open(&wing.id()).await;
            let (back, far) = wing.accept().await;
            full.spawn(fill(back));
            stalled.push((near, far));
        }
        let full = full.join_all().await;

        let (mut send, recv) = clients[3].open(&wing.id()).await;
        let (mut back, far) = wing.accept().await;
        let long = vec![9; 2 * STREAM_WINDOW as usize];
        let out = long.clone();
        let writer = tokio::spawn(async move {
            back.write_all(&out).await.unwrap();
            back.finish();
            back
        });
        send.write_all(b"typed").await.unwrap();
        send.finish();

        assert_eq!(read_all(recv).await.unwrap(), long);
        assert_eq!(read_all(far).await.unwrap(), b"typed");
        drop((writer.await.unwrap(), full, stalled));
        roost.until(|counts| counts.routes == 0).await;
    }

    pub(super) async fn a_route_over_the_limit_of_a_link_is_told_busy(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        assert_eq!(client.control.max_routes(), 16);
        let mut open = Vec::new();
        for _ in 0..16 {
            let near = client.open(&wing.id()).await;
            open.push((near, wing.accept().await));
        }

        assert_eq!(client.refusal(&wing.id()).await, StreamCode::Busy);

        drop(open.pop());
        roost.until(|counts| counts.routes == 15).await;
        let _near = client.open(&wing.id()).await;
        wing.accept().await;
    }

    pub(super) async fn losing_the_wing_resets_the_client(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        let (send, recv) = client.open(&wing.id()).await;
        let _far = wing.accept().await;

        wing.link.close(LinkCode::Done);

        let lost = StreamEnd::Reset(StreamCode::PeerLost);
        assert_eq!(ends(send, recv).await, (lost, lost));
        roost.until(|counts| counts.routes == 0).await;
    }

    pub(super) async fn losing_the_client_resets_the_wing(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        let _near = client.open(&wing.id()).await;
        let (back, far) = wing.accept().await;

        client.link.close(LinkCode::Done);

        let lost = StreamEnd::Reset(StreamCode::PeerLost);
        assert_eq!(ends(back, far).await, (lost, lost));
        roost.until(|counts| counts.routes == 0).await;
    }

    pub(super) async fn a_reader_that_takes_nothing_loses_its_route_and_no_other(roost: Roost) {
        let roost = roost.with_patience(Duration::from_millis(400)).await;
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        let (send, recv) = client.open(&wing.id()).await;
        let (mut back, mut far) = wing.accept().await;
        let (_idle_send, mut idle) = client.open(&wing.id()).await;
        let (mut idle_back, _) = wing.accept().await;

        let flood = vec![0; 8 * STREAM_WINDOW as usize];
        let slow = StreamEnd::Reset(StreamCode::SlowConsumer);
        assert_eq!(back.write_all(&flood).await, Err(slow));
        assert_eq!(read_to_end(&mut far).await, Err(slow));
        assert_eq!(ends(send, recv).await, (slow, slow));

        // A route on which nothing waits may be silent for as long as it likes.
        idle_back.write_all(b"still here").await.unwrap();
        let chunk = idle.read_chunk(100).await.unwrap().unwrap();
        assert_eq!(&chunk[..], b"still here");
        assert_eq!(roost.driver.traffic().slow_consumers, 1);
    }

    pub(super) async fn a_header_that_does_not_parse_is_refused(roost: Roost) {
        let client = roost.client("ann", 2).await;

        for bytes in [&[0, 3, 9, 9, 9][..], &[255, 255, 1], &[0, 0]] {
            let (mut send, recv) = client.link.open().await.unwrap();
            send.write_all(bytes).await.unwrap();
            let refused = StreamEnd::Reset(StreamCode::Protocol);
            assert_eq!(ends(send, recv).await, (refused, refused));
        }
    }

    pub(super) async fn a_wing_opens_no_routes(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let other = roost.wing("ann", 4, 1).await;

        assert_eq!(wing.refusal(&other.id()).await, StreamCode::Protocol);
    }

    pub(super) async fn a_message_out_of_turn_ends_the_link(roost: Roost) {
        let mut early = Raw::open(roost.dial().await).await;
        early.write(&ToRelay::Ping(1)).await;
        assert_eq!(early.end().await, LinkEnd::ByPeer(LinkCode::Protocol));

        let mut twice = Raw::open(roost.dial().await).await;
        let hello = twice.hello();
        twice.write(&ToRelay::Hello(hello.clone())).await;
        twice.write(&ToRelay::Hello(hello)).await;
        assert_eq!(twice.end().await, LinkEnd::ByPeer(LinkCode::Protocol));

        let mut garbled = Raw::open(roost.dial().await).await;
        write_frame(&mut garbled.send, &[250; 10]).await.unwrap();
        assert_eq!(garbled.end().await, LinkEnd::ByPeer(LinkCode::Protocol));
    }

    pub(super) async fn a_proof_that_was_made_for_another_link_is_refused(roost: Roost) {
        let token = roost.token("ann", 2, 0).await;
        let mut first = Raw::open(roost.dial().await).await;
        let mut second = Raw::open(roost.dial().await).await;
        let proof = first.prepare(&token).await;
        second.prepare(&token).await;

        second.write(&ToRelay::Proof(proof.clone())).await;
        first.write(&ToRelay::Proof(proof)).await;

        let code = LinkCode::Unauthenticated;
        assert_eq!(second.end().await, LinkEnd::ByPeer(code));
        assert!(matches!(first.read().await, FromRelay::Welcome(_)));
    }

    pub(super) async fn a_proof_bound_in_the_wrong_way_is_refused(roost: Roost) {
        let mut raw = Raw::open(roost.dial().await).await;
        let mut hello = raw.hello();
        hello.mode = match hello.mode {
            ProofMode::Exporter => ProofMode::Nonce,
            ProofMode::Nonce => ProofMode::Exporter,
        };

        raw.write(&ToRelay::Hello(hello)).await;

        let code = LinkCode::Unauthenticated;
        assert_eq!(raw.end().await, LinkEnd::ByPeer(code));
    }

    pub(super) async fn a_proof_for_another_roost_is_refused(roost: Roost) {
        let mut claim = client_claim(2);
        let token = roost.token("ann", 2, 0).await;
        assert!(roost.prove(claim.clone(), &token).await.is_ok());

        claim.origin = "https://other.example".to_owned();

        assert_eq!(
            roost.prove(claim, &token).await.unwrap_err(),
            ProveError::Refused(LinkCode::Unauthenticated)
        );
    }

    pub(super) async fn a_proof_by_another_device_than_the_tokens_is_refused(roost: Roost) {
        let stolen = roost.token("ann", 2, 0).await;
        roost.token("ann", 3, 0).await;
        assert!(roost.prove(client_claim(2), &stolen).await.is_ok());

        let refused = ProveError::Refused(LinkCode::Unauthenticated);
        let by_another = roost.prove(client_claim(3), &stolen).await;
        assert_eq!(by_another.unwrap_err(), refused);
        let forged = Claim {
            sign: signer(3),
            ..client_claim(2)
        };
        assert_eq!(roost.prove(forged, &stolen).await.unwrap_err(), refused);
        let no_token = roost.prove(client_claim(2), "rubbish").await;
        assert_eq!(no_token.unwrap_err(), refused);
    }

    pub(super) async fn a_wing_without_its_identity_key_is_refused(roost: Roost) {
        let token = roost.token("ann", 1, 0).await;
        let refused = ProveError::Refused(LinkCode::Unauthenticated);
        let with = |wing: WingClaim| Claim {
            wing: Some(wing),
            ..client_claim(1)
        };
        let good = wing_claim(1);
        let refusal = async |wing| roost.prove(with(wing), &token).await.unwrap_err();

        let not_signed = WingClaim {
            sign: signer(5),
            ..good.clone()
        };
        assert_eq!(refusal(not_signed).await, refused);
        let mut anothers_statement = good.clone();
        anothers_statement.statement.signature = sign(5, b"anything");
        assert_eq!(refusal(anothers_statement).await, refused);
        let mut anothers_id = good.clone();
        anothers_id.statement.wing = wing_id(5);
        assert_eq!(refusal(anothers_id).await, refused);
        assert_eq!(roost.driver.counts().wings, 0);

        assert!(roost.prove(with(good), &token).await.is_ok());
    }

    pub(super) async fn a_wing_of_another_account_is_refused_like_a_false_proof(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let token = roost.token("bob", 3, 0).await;
        let claim = Claim {
            wing: Some(wing_claim(1)),
            ..client_claim(3)
        };

        let refused = roost.prove(claim, &token).await.unwrap_err();

        assert_eq!(refused, ProveError::Refused(LinkCode::Unauthenticated));
        assert_eq!(
            roost.driver.online(&AccountId::new("ann")),
            HashSet::from([wing.id()])
        );
    }

    pub(super) async fn a_link_is_closed_when_its_proof_runs_out_unless_it_was_renewed(
        roost: Roost,
    ) {
        let nearly_over = TOKEN_LIFETIME.as_secs() - 2;
        let token = roost.token("ann", 2, nearly_over).await;
        let (link, _control) = roost.prove(client_claim(2), &token).await.unwrap();
        let (kept, mut control) = roost.prove(client_claim(2), &token).await.unwrap();
        let first_expiry = control.expires_at();

        let fresh = roost.token("ann", 2, 0).await;
        control.renew(fresh).await.unwrap();

        assert_eq!(link.closed().await, LinkEnd::ByPeer(LinkCode::Expired));
        assert!(control.expires_at() > first_expiry + Duration::from_secs(60));
        let still_open = timeout(Duration::from_millis(200), kept.closed()).await;
        assert!(still_open.is_err());
    }

    pub(super) async fn a_renewal_for_another_account_ends_the_link(roost: Roost) {
        let token = roost.token("ann", 2, 0).await;
        let (link, mut control) = roost.prove(client_claim(2), &token).await.unwrap();
        let anothers = roost.token("bob", 3, 0).await;

        let refused = control.renew(anothers).await;

        let code = LinkCode::Unauthenticated;
        assert_eq!(refused, Err(ProveError::Refused(code)));
        assert_eq!(link.closed().await, LinkEnd::ByPeer(code));
    }

    pub(super) async fn a_revoked_device_loses_its_links_and_comes_back_by_no_token(roost: Roost) {
        let wing = roost.wing("ann", 1, 1).await;
        let client = roost.client("ann", 2).await;
        let token = roost.token("ann", 2, 0).await;

        roost.revoke(2).await;

        assert_eq!(
            client.link.closed().await,
            LinkEnd::ByPeer(LinkCode::Revoked)
        );
        let again = roost.prove(client_claim(2), &token).await;
        let code = LinkCode::Unauthenticated;
        assert_eq!(again.unwrap_err(), ProveError::Refused(code));
        let other = roost.client("ann", 4).await;
        let _near = other.open(&wing.id()).await;
        wing.accept().await;
    }

    pub(super) async fn a_drain_tells_every_link_and_ends_those_that_stay(roost: Roost) {
        let mut wing = roost.wing("ann", 1, 1).await;
        let mut client = roost.client("ann", 2).await;
        let (mut send, _recv) = client.open(&wing.id()).await;
        let (_back, mut far) = wing.accept().await;

        let drain = tokio::spawn({
            let driver = roost.driver.clone();
            async move { driver.drain(Duration::from_millis(500)).await }
        });

        assert!(client.control.go_away().await >= MIN_SPREAD);
        assert!(wing.control.go_away().await >= MIN_SPREAD);
        // Routes under way go on for as long as the links do; others are refused.
        send.write_all(b"on").await.unwrap();
        assert_eq!(&far.read_chunk(9).await.unwrap().unwrap()[..], b"on");
        assert_eq!(client.refusal(&wing.id()).await, StreamCode::Draining);
        let token = roost.token("ann", 2, 0).await;
        if let Over::Memory = roost.over {
            let late = roost.prove(client_claim(2), &token).await;
            let code = LinkCode::Draining;
            assert_eq!(late.unwrap_err(), ProveError::Refused(code));
        }
        let drained = LinkEnd::ByPeer(LinkCode::Draining);
        assert_eq!(client.link.closed().await, drained);
        assert_eq!(wing.link.closed().await, drained);
        drain.await.unwrap();
        assert_eq!(roost.driver.counts(), Counts::default());
    }
}

#[test]
fn links_come_back_no_faster_than_a_quarter_of_the_machine_can_take() {
    let cores = available_parallelism().unwrap().get() as u64;

    assert_eq!(spread(1), MIN_SPREAD);
    let many = spread(100_000).as_millis() as u64;
    assert_eq!(many, 100_000 * 1_000 / (500 * cores));
}

#[tokio::test]
async fn a_dialler_that_says_nothing_is_let_go_in_time() {
    let roost = Roost::start(Over::Memory).await;
    let client = roost.client("ann", 2).await;
    let began = Instant::now();

    let silent_link = roost.dial().await;
    let half_hello = Raw::open(roost.dial().await).await;
    let (mut send, recv) = client.link.open().await.unwrap();
    send.write_all(&[0]).await.unwrap();
    let (link, hello, header) =
        tokio::join!(silent_link.closed(), half_hello.end(), ends(send, recv));

    let late = LinkEnd::ByPeer(LinkCode::TimedOut);
    assert_eq!((link, hello), (late, late));
    assert_eq!(header.0, StreamEnd::Reset(StreamCode::Protocol));
    assert!(began.elapsed() >= HEADER_DEADLINE);
    // The link itself did nothing wrong.
    assert_eq!(roost.driver.counts().links, 1);
}

#[tokio::test]
async fn a_shut_down_endpoint_accepts_nothing_more_and_frees_its_port() {
    let roost = Roost::start(Over::Quic).await;
    let client = roost.client("ann", 2).await;
    let (endpoint, addr) = (roost.endpoint.clone(), roost.addr());

    roost.shutdown.cancel();
    roost.driver.drain(Duration::ZERO).await;
    endpoint.close(LinkCode::Draining).await;

    assert_eq!(
        client.link.closed().await,
        LinkEnd::ByPeer(LinkCode::Draining)
    );
    drop((endpoint, roost));
    // The socket is closed by the runtime's own task a moment later.
    while std::net::UdpSocket::bind(addr).is_err() {
        tokio::task::yield_now().await;
    }
}

// --- A roost to test with ---

#[derive(Debug, Clone, Copy)]
enum Over {
    Memory,
    Quic,
}

/// A driver with a store and tokens of its own, served on loopback.
struct Roost {
    over: Over,
    driver: Driver,
    store: Store,
    tokens: Arc<Tokens>,
    endpoint: Endpoint,
    spki: Sha256Digest,
    dialer: Dialer,
    shutdown: CancellationToken,
    _dir: tempfile::TempDir,
}

/// A proven link.
struct Dialling {
    link: Link,
    control: Dialled,
    /// Of the wing, if it is one.
    number: u8,
}

impl Roost {
    async fn start(over: Over) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("relay.db")).await.unwrap();
        let tokens = Arc::new(Tokens::open(dir.path(), ORIGIN).unwrap());
        let pem = Identity::generate(&["localhost".to_owned()]).unwrap();
        let identity = Identity::from_pem(&pem).unwrap();
        let endpoint = Endpoint::bind((Ipv4Addr::LOCALHOST, 0).into(), &identity).unwrap();
        let roost = Self {
            over,
            driver: new_driver(&store, &tokens, Duration::from_secs(30)),
            store,
            tokens,
            endpoint,
            spki: identity.spki_sha256(),
            dialer: Dialer::new(),
            shutdown: CancellationToken::new(),
            _dir: dir,
        };
        roost.serve();
        roost
    }

    /// The same roost, with another driver on the same endpoint.
    async fn with_patience(mut self, patience: Duration) -> Self {
        let pem = Identity::generate(&["localhost".to_owned()]).unwrap();
        let identity = Identity::from_pem(&pem).unwrap();
        self.shutdown.cancel();
        self.shutdown = CancellationToken::new();
        self.endpoint = Endpoint::bind((Ipv4Addr::LOCALHOST, 0).into(), &identity).unwrap();
        self.spki = identity.spki_sha256();
        self.driver = new_driver(&self.store, &self.tokens, patience);
        self.serve();
        self
    }

    fn serve(&self) {
        let (driver, endpoint) = (self.driver.clone(), self.endpoint.clone());
        let shutdown = self.shutdown.clone();
        tokio::spawn(async move { driver.serve(endpoint, shutdown).await });
    }

    fn addr(&self) -> std::net::SocketAddr {
        self.endpoint.local_addr().unwrap()
    }

    async fn dial(&self) -> Link {
        match self.over {
            Over::Memory => self.driver.attach_memory(),
            Over::Quic => {
                let trust = Trust::Spki(self.spki);
                let dialled = self.dialer.connect(self.addr(), "localhost", trust);
                dialled.await.unwrap()
            }
        }
    }

    async fn prove(&self, claim: Claim, token: &str) -> Result<(Link, Dialled), ProveError> {
        let link = self.dial().await;
        let control = prove(&link, claim, token).await?;
        Ok((link, control))
    }

    /// Signs a device in, and gives a token of which so many seconds are over.
    async fn token(&self, account: &str, number: u8, used: u64) -> String {
        let account = AccountId::new(account);
        let enrolment = Enrolment {
            device: device(number),
            client: ClientKey::from_bytes([number; 32]),
            client_signature: Signature::from_bytes([0; 64]),
            device_name: "a device".into(),
        };
        let now = SystemTime::now();
        self.store.enrol(&account, &enrolment, now).await.unwrap();
        let issued = now - Duration::from_secs(used);
        self.tokens
            .issue(&account, &device(number), 1, issued, [number; 16])
    }

    async fn client(&self, account: &str, number: u8) -> Dialling {
        let token = self.token(account, number, 0).await;
        let (link, control) = self.prove(client_claim(number), &token).await.unwrap();
        Dialling {
            link,
            control,
            number,
        }
    }

    async fn wing(&self, account: &str, number: u8, instance: u8) -> Dialling {
        let token = self.token(account, number, 0).await;
        let claim = Claim {
            instance: InstanceId::from_bytes([instance; 16]),
            wing: Some(wing_claim(number)),
            ..client_claim(number)
        };
        let (link, control) = self.prove(claim, &token).await.unwrap();
        Dialling {
            link,
            control,
            number,
        }
    }

    async fn revoke(&self, number: u8) {
        let now = SystemTime::now();
        self.store
            .revoke_device(&device(number), now)
            .await
            .unwrap();
        self.driver.revoke_device(&device(number));
    }

    /// Waits for what follows from something that was done before.
    async fn until(&self, reached: impl Fn(Counts) -> bool) {
        let wait = async {
            while !reached(self.driver.counts()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let counts = || self.driver.counts();
        timeout(Duration::from_secs(10), wait)
            .await
            .unwrap_or_else(|_| panic!("never reached, it is {:?}", counts()));
    }
}

impl Dialling {
    fn id(&self) -> WingId {
        wing_id(self.number)
    }

    async fn open(&self, wing: &WingId) -> Stream {
        let (mut send, recv) = self.link.open().await.unwrap();
        write_frame(&mut send, &header(wing)).await.unwrap();
        (send, recv)
    }

    /// The next route at a wing, after its header.
    async fn accept(&self) -> Stream {
        let (send, recv) = self.link.accept().await.unwrap();
        let mut reader = FrameReader::new(recv, MAX_STREAM_HEADER);
        let bytes = reader.read_frame().await.unwrap().unwrap();
        assert_eq!(bytes, header(&self.id()));
        let (recv, rest) = reader.into_parts();
        assert_eq!(rest, b"", "nothing was sent yet");
        (send, recv)
    }

    /// What both halves of a stream to this wing end with.
    async fn refusal(&self, wing: &WingId) -> StreamCode {
        let (send, recv) = self.open(wing).await;
        match ends(send, recv).await {
            (StreamEnd::Reset(read), StreamEnd::Reset(written)) if read == written => read,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A client's control stream, message by message.
struct Raw {
    link: Link,
    send: SendHalf,
    reader: FrameReader,
}

impl Raw {
    async fn open(link: Link) -> Self {
        let (send, recv) = link.open().await.unwrap();
        Self {
            link,
            send,
            reader: FrameReader::new(recv, MAX_CONTROL_MESSAGE),
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            versions: VersionRange::CURRENT,
            role: Role::Client,
            instance: InstanceId::from_bytes([2; 16]),
            client_nonce: [5; 32],
            mode: match self.link.exporter() {
                Some(_) => ProofMode::Exporter,
                None => ProofMode::Nonce,
            },
        }
    }

    /// Says hello as device 2 and makes the proof that the challenge asks for.
    async fn prepare(&mut self, token: &str) -> Proof {
        let hello = self.hello();
        self.write(&ToRelay::Hello(hello.clone())).await;
        let FromRelay::Challenge(challenge) = self.read().await else {
            panic!("no challenge");
        };
        let hash = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let exporter = self.link.exporter();
        let bytes = relay_proof(&RelayProof {
            mode: hello.mode,
            role: &hello.role,
            origin: ORIGIN,
            relay_nonce: &challenge.relay_nonce,
            client_nonce: &hello.client_nonce,
            exporter: exporter.as_ref().map_or(&[], |value| &value[..]),
            token_hash: hash.as_ref().try_into().unwrap(),
            instance: &hello.instance,
        });
        Proof {
            token: token.to_owned(),
            device: device(2),
            device_signature: sign(2, &bytes),
            wing: None,
        }
    }

    async fn write(&mut self, message: &ToRelay) {
        let bytes = encode(message, MAX_CONTROL_MESSAGE).unwrap();
        write_frame(&mut self.send, &bytes).await.unwrap();
    }

    async fn read(&mut self) -> FromRelay {
        let bytes = self.reader.read_frame().await.unwrap().unwrap();
        decode(&bytes, MAX_CONTROL_MESSAGE).unwrap()
    }

    async fn end(self) -> LinkEnd {
        self.link.closed().await
    }
}

fn new_driver(store: &Store, tokens: &Arc<Tokens>, patience: Duration) -> Driver {
    let accounts = Accounts::new(store.clone(), Arc::clone(tokens));
    let config = DriverConfig {
        patience,
        ..DriverConfig::new(ORIGIN)
    };
    Driver::new(accounts, config)
}

fn header(wing: &WingId) -> Vec<u8> {
    let header = StreamHeader::Route(RouteHeader {
        wing: wing.clone(),
        nonce: RouteNonce::from_bytes([3; 16]),
        versions: VersionRange::CURRENT,
    });
    encode(&header, MAX_STREAM_HEADER).unwrap()
}

/// How a stream ends for its reader and for its writer.
async fn ends(send: SendHalf, mut recv: RecvHalf) -> (StreamEnd, StreamEnd) {
    let read = read_to_end(&mut recv).await.unwrap_err();
    (read, send.stopped().await.unwrap_err())
}

async fn read_all(mut recv: RecvHalf) -> Result<Vec<u8>, StreamEnd> {
    read_to_end(&mut recv).await
}

async fn read_to_end(recv: &mut RecvHalf) -> Result<Vec<u8>, StreamEnd> {
    let mut all = Vec::new();
    while let Some(chunk) = recv.read_chunk(50_000).await? {
        all.extend(chunk);
    }
    Ok(all)
}

/// Writes until everything between here and the reader is full.
async fn fill(mut send: SendHalf) -> SendHalf {
    let mut bytes = Bytes::from(vec![0; 16 * STREAM_WINDOW as usize]);
    while let Ok(written) = timeout(Duration::from_millis(300), send.write_some(&mut bytes)).await {
        written.unwrap();
    }
    send
}

fn key(number: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap()
}

fn public(number: u8) -> [u8; 32] {
    key(number).public_key().as_ref().try_into().unwrap()
}

fn sign(number: u8, bytes: &[u8]) -> Signature {
    Signature::from_bytes(key(number).sign(bytes).as_ref().try_into().unwrap())
}

fn signer(number: u8) -> Signer {
    Arc::new(move |bytes| sign(number, bytes))
}

fn device(number: u8) -> DeviceKey {
    DeviceKey::from_bytes(public(number))
}

/// Wings have identity keys apart from the device keys of their machines.
const WING_KEYS: u8 = 100;

fn wing_id(number: u8) -> WingId {
    WingId::of_identity(&IdentityKey::from_bytes(public(WING_KEYS + number)))
}

fn client_claim(number: u8) -> Claim {
    Claim {
        origin: ORIGIN.to_owned(),
        instance: InstanceId::from_bytes([number; 16]),
        device: device(number),
        sign: signer(number),
        wing: None,
    }
}

fn wing_claim(number: u8) -> WingClaim {
    let wing = wing_id(number);
    let noise = NoiseKey::from_bytes([number; 32]);
    let stated = noise_key_statement(&wing, &noise, 1);
    WingClaim {
        identity: IdentityKey::from_bytes(public(WING_KEYS + number)),
        sign: signer(WING_KEYS + number),
        statement: NoiseKeyStatement {
            wing,
            key: noise,
            seq: 1,
            signature: sign(WING_KEYS + number, &stated),
        },
    }
}

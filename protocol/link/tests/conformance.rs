//! One suite for every kind of link: what holds in memory holds over QUIC.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use bytes::Bytes;
use tokio::task::JoinSet;
use wt_link::quic::{Dialer, Endpoint, Identity, Trust};
use wt_link::{
    FrameReader, Link, LinkEnd, ReadFrameError, RecvHalf, STREAM_WINDOW, SendHalf, StreamEnd,
    memory, write_frame,
};
use wt_protocol::codes::{LinkCode, StreamCode};

/// Routes that both ends allow each other in these tests.
const ROUTES: u16 = 16;

/// A link's two ends, and what must live as long as they do.
struct Pair {
    dialler: Link,
    listener: Link,
    _endpoints: Option<(Dialer, Endpoint)>,
}

fn in_memory() -> Pair {
    let (dialler, listener) = memory::pair();
    Pair {
        dialler,
        listener,
        _endpoints: None,
    }
}

async fn over_quic() -> Pair {
    let pem = Identity::generate(&["localhost".to_owned()]).unwrap();
    let identity = Identity::from_pem(&pem).unwrap();
    let endpoint = Endpoint::bind((Ipv4Addr::LOCALHOST, 0).into(), &identity).unwrap();
    let dialer = Dialer::new();
    let trust = Trust::Spki(identity.spki_sha256());
    let addr = endpoint.local_addr().unwrap();
    let (dialled, served) = tokio::join!(dialer.connect(addr, "localhost", trust), async {
        endpoint.accept().await.unwrap().handshake().await
    });
    Pair {
        dialler: dialled.unwrap(),
        listener: served.unwrap(),
        _endpoints: Some((dialer, endpoint)),
    }
}

/// Makes one test for each kind of link from each scenario.
macro_rules! conformance {
    ($($name:ident)*) => {
        mod memory_links {
            $(#[tokio::test]
            async fn $name() {
                super::scenario::$name(super::in_memory()).await;
            })*
        }
        mod quic_links {
            $(#[tokio::test]
            async fn $name() {
                super::scenario::$name(super::over_quic().await).await;
            })*
        }
    };
}

conformance! {
    bytes_arrive_in_order_and_then_the_end
    both_directions_end_apart
    a_reset_reaches_the_reader_with_its_code
    a_stop_reaches_the_writer_with_its_code
    a_stop_wakes_a_writer_that_waits_for_room
    a_half_dropped_unfinished_is_a_reset_and_never_an_end
    a_reader_that_is_dropped_stops_the_writer
    a_finished_stream_is_stopped_when_it_is_delivered
    a_write_waits_for_a_reader_and_a_cancelled_one_loses_nothing
    stalled_streams_do_not_stop_another_stream
    closing_a_link_tells_the_other_end_why_and_ends_every_wait
    closing_a_closed_link_does_not_change_why
    a_link_whose_holders_are_gone_is_lost
    before_the_limits_are_raised_there_is_one_stream_and_none_back
    a_stream_that_ends_makes_room_for_another
    frames_cross_and_leave_what_follows_them
    a_stream_that_ends_inside_a_frame_is_cut_short
}

mod scenario {
    use super::*;

    pub(super) async fn bytes_arrive_in_order_and_then_the_end(pair: Pair) {
        let ((mut send, _), (_, recv)) = stream(&pair).await;
        let sent: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();

        let writer = tokio::spawn(async move {
            send.write_all(&sent).await.unwrap();
            send.finish();
            send
        });

        assert_eq!(read_all(recv).await.unwrap(), expected);
        assert_eq!(writer.await.unwrap().stopped().await, Ok(()));
    }

    pub(super) async fn both_directions_end_apart(pair: Pair) {
        let ((mut send, near), (mut back, recv)) = stream(&pair).await;

        send.write_all(b"question").await.unwrap();
        send.finish();
        assert_eq!(read_all(recv).await.unwrap(), b"question");
        back.write_all(b"answer").await.unwrap();
        back.finish();

        assert_eq!(read_all(near).await.unwrap(), b"answer");
    }

    pub(super) async fn a_reset_reaches_the_reader_with_its_code(pair: Pair) {
        let ((mut send, _near), (_back, mut recv)) = stream(&pair).await;

        send.reset(StreamCode::PeerLost);

        assert_eq!(
            read_to_end(&mut recv).await,
            Err(StreamEnd::Reset(StreamCode::PeerLost))
        );
        let after = send.write_all(b"x").await;
        assert_eq!(after, Err(StreamEnd::Reset(StreamCode::Cancelled)));
    }

    pub(super) async fn a_stop_reaches_the_writer_with_its_code(pair: Pair) {
        let ((mut send, _near), (_back, mut recv)) = stream(&pair).await;

        recv.stop(StreamCode::Busy);

        assert_eq!(
            send.stopped().await,
            Err(StreamEnd::Reset(StreamCode::Busy))
        );
        let write = send.write_all(b"x").await;
        assert_eq!(write, Err(StreamEnd::Reset(StreamCode::Busy)));
        assert_eq!(
            recv.read_chunk(10).await,
            Err(StreamEnd::Reset(StreamCode::Cancelled))
        );
    }

    pub(super) async fn a_stop_wakes_a_writer_that_waits_for_room(pair: Pair) {
        let ((send, _near), (_back, mut recv)) = stream(&pair).await;
        let mut send = fill(send).await;

        let writer = tokio::spawn(async move { send.write_all(b"more").await });
        recv.stop(StreamCode::NotFound);

        assert_eq!(
            writer.await.unwrap(),
            Err(StreamEnd::Reset(StreamCode::NotFound))
        );
    }

    pub(super) async fn a_half_dropped_unfinished_is_a_reset_and_never_an_end(pair: Pair) {
        let ((mut send, _near), (_back, mut recv)) = stream(&pair).await;

        send.write_all(b"half a sen").await.unwrap();
        drop(send);

        assert_eq!(
            read_to_end(&mut recv).await,
            Err(StreamEnd::Reset(StreamCode::Cancelled))
        );
    }

    pub(super) async fn a_reader_that_is_dropped_stops_the_writer(pair: Pair) {
        let ((send, _near), (_back, recv)) = stream(&pair).await;

        drop(recv);

        assert_eq!(
            send.stopped().await,
            Err(StreamEnd::Reset(StreamCode::Cancelled))
        );
    }

    pub(super) async fn a_finished_stream_is_stopped_when_it_is_delivered(pair: Pair) {
        let ((mut send, _near), (_back, recv)) = stream(&pair).await;

        send.finish();

        assert_eq!(send.stopped().await, Ok(()));
        drop(recv);
    }

    pub(super) async fn a_write_waits_for_a_reader_and_a_cancelled_one_loses_nothing(pair: Pair) {
        let ((mut send, _near), (_back, recv)) = stream(&pair).await;
        let total = 3 * STREAM_WINDOW as usize;
        let mut rest = Bytes::from(vec![7u8; total]);

        // The window fills, then the write waits and is given up.
        loop {
            tokio::select! {
                written = send.write_some(&mut rest) => written.unwrap(),
                () = settle() => break,
            }
        }
        assert!(!rest.is_empty() && rest.len() < total);

        let reader = tokio::spawn(read_all(recv));
        send.write_chunk(rest).await.unwrap();
        send.finish();
        assert_eq!(reader.await.unwrap().unwrap().len(), total);
    }

    pub(super) async fn stalled_streams_do_not_stop_another_stream(pair: Pair) {
        raise(&pair);
        let mut stalled = JoinSet::new();
        let mut kept = Vec::new();
        for _ in 0..ROUTES - 1 {
            let ((send, near), far) = stream(&pair).await;
            stalled.spawn(fill(send));
            kept.push((near, far));
        }
        let full = stalled.join_all().await;

        let ((mut send, _), (_, recv)) = stream(&pair).await;
        let reader = tokio::spawn(read_all(recv));
        send.write_all(&vec![1; 2 * STREAM_WINDOW as usize])
            .await
            .unwrap();
        send.finish();

        let read = reader.await.unwrap().unwrap();
        assert_eq!(read.len(), 2 * STREAM_WINDOW as usize);
        drop(full);
    }

    pub(super) async fn closing_a_link_tells_the_other_end_why_and_ends_every_wait(pair: Pair) {
        let ((mut send, mut near), (_back, mut recv)) = stream(&pair).await;
        let far_read = tokio::spawn(async move { read_to_end(&mut recv).await });
        let near_read = tokio::spawn(async move { near.read_chunk(10).await });
        let accept = {
            let link = pair.dialler.clone();
            tokio::spawn(async move { link.accept().await.map(drop) })
        };

        pair.listener.close(LinkCode::Replaced);

        let why = LinkEnd::ByPeer(LinkCode::Replaced);
        assert_eq!(pair.dialler.closed().await, why);
        assert_eq!(pair.listener.closed().await, LinkEnd::Here);
        assert_eq!(accept.await.unwrap(), Err(why));
        assert_eq!(far_read.await.unwrap(), Err(StreamEnd::LinkLost));
        assert_eq!(near_read.await.unwrap(), Err(StreamEnd::LinkLost));
        assert_eq!(send.write_all(b"x").await, Err(StreamEnd::LinkLost));
        assert_eq!(send.stopped().await, Err(StreamEnd::LinkLost));
        assert_eq!(pair.dialler.open().await.map(drop), Err(why));
        assert_eq!(pair.listener.accept().await.map(drop), Err(LinkEnd::Here));
    }

    pub(super) async fn closing_a_closed_link_does_not_change_why(pair: Pair) {
        pair.listener.close(LinkCode::Revoked);
        let why = LinkEnd::ByPeer(LinkCode::Revoked);
        assert_eq!(pair.dialler.closed().await, why);

        pair.dialler.close(LinkCode::Done);

        assert_eq!(pair.dialler.closed().await, why);
    }

    pub(super) async fn a_link_whose_holders_are_gone_is_lost(pair: Pair) {
        let Pair {
            dialler,
            listener,
            _endpoints,
        } = pair;

        drop(listener);

        assert_eq!(dialler.closed().await, LinkEnd::Lost);
    }

    pub(super) async fn before_the_limits_are_raised_there_is_one_stream_and_none_back(pair: Pair) {
        let (mut send, _recv) = pair.dialler.open().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        let second = {
            let link = pair.dialler.clone();
            tokio::spawn(async move { link.open().await.map(drop) })
        };
        let back = {
            let link = pair.listener.clone();
            tokio::spawn(async move { link.open().await.map(drop) })
        };
        let _first = pair.listener.accept().await.unwrap();
        settle().await;
        assert!(!second.is_finished() && !back.is_finished());

        raise(&pair);

        assert_eq!(second.await.unwrap(), Ok(()));
        assert_eq!(back.await.unwrap(), Ok(()));
    }

    pub(super) async fn a_stream_that_ends_makes_room_for_another(pair: Pair) {
        for _ in 0..5 {
            let ((mut send, near), (mut back, recv)) = stream(&pair).await;
            send.finish();
            back.finish();
            assert_eq!(read_all(near).await.unwrap(), b"");
            assert_eq!(read_all(recv).await.unwrap(), b"");
        }
    }

    pub(super) async fn frames_cross_and_leave_what_follows_them(pair: Pair) {
        let ((mut send, _near), (_back, recv)) = stream(&pair).await;
        let long = vec![5; 9_000];

        write_frame(&mut send, b"header").await.unwrap();
        write_frame(&mut send, &long).await.unwrap();
        send.write_all(b"rest").await.unwrap();
        send.finish();

        let mut reader = FrameReader::new(recv, 9_000);
        assert_eq!(reader.read_frame().await.unwrap().unwrap(), b"header");
        assert_eq!(reader.read_frame().await.unwrap().unwrap(), long);
        let (mut recv, mut rest) = reader.into_parts();
        while let Some(chunk) = recv.read_chunk(1_000).await.unwrap() {
            rest.extend(chunk);
        }
        assert_eq!(rest, b"rest");
    }

    pub(super) async fn a_stream_that_ends_inside_a_frame_is_cut_short(pair: Pair) {
        let ((mut send, _near), (_back, recv)) = stream(&pair).await;

        write_frame(&mut send, b"whole").await.unwrap();
        send.write_all(&[0, 5, b'h', b'a']).await.unwrap();
        send.finish();

        let mut reader = FrameReader::new(recv, 100);
        assert_eq!(reader.read_frame().await.unwrap().unwrap(), b"whole");
        assert_eq!(reader.read_frame().await, Err(ReadFrameError::CutShort));
    }
}

type Ends = ((SendHalf, RecvHalf), (SendHalf, RecvHalf));

/// A stream from the dialler: its ends there and at the listener. One byte announces it
/// and is taken off again.
async fn stream(pair: &Pair) -> Ends {
    let (mut send, recv) = pair.dialler.open().await.unwrap();
    send.write_all(b"!").await.unwrap();
    let (far_send, mut far_recv) = pair.listener.accept().await.unwrap();
    let first = far_recv.read_chunk(1).await.unwrap().unwrap();
    assert_eq!(&first[..], b"!");
    ((send, recv), (far_send, far_recv))
}

fn raise(pair: &Pair) {
    pair.dialler.raise_limits(ROUTES);
    pair.listener.raise_limits(ROUTES);
}

/// Writes until the reader's window is full.
async fn fill(mut send: SendHalf) -> SendHalf {
    let mut bytes = Bytes::from(vec![0; 4 * STREAM_WINDOW as usize]);
    loop {
        tokio::select! {
            written = send.write_some(&mut bytes) => written.unwrap(),
            () = settle() => return send,
        }
    }
}

/// Long enough for anything on loopback that can still happen to happen. Only used to see
/// that something does *not* happen, where there is no event to wait for.
async fn settle() {
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
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

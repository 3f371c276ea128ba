//! Clients without a credential: the server stays there for others, in little memory and few lines.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Request;
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::registry::Registry;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tracing::Level;

use crate::Scope;
use crate::fixture::{
    Running, Settings, begin,
    client::{Identity, Reply, ask_from, negotiated, send},
    cluster::Cluster,
    serve,
};
use outrigger_runtime::fixture::Warnings;

/// Longer than anything here takes that needs no review, on a busy machine.
const SOON: Duration = Duration::from_mins(1);

const PROBER: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn stranger(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, number)
}

fn get(path: &str) -> Request<Full<Bytes>> {
    let request = Request::get(path).header("host", "localhost");
    request.body(Full::default()).unwrap()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < SOON, "{what}");
        sleep(Duration::from_millis(1)).await;
    }
}

async fn at_once(peer: Ipv4Addr, address: SocketAddr, path: &str) -> Reply {
    let reply = timeout(SOON, ask_from(peer, address, get(path))).await;
    reply.expect("it waits").expect("the connection is closed")
}

impl Running {
    /// A server whose reviews are never answered.
    async fn without_answers() -> Self {
        let server = serve(|_| {}).await;
        server.cluster.hold_reviews();
        server
    }
}

#[tokio::test]
async fn reviews_in_flight_are_bounded_by_peer() {
    let server = Running::without_answers().await;
    let mut waiting = JoinSet::new();
    let mut begin_review = |number: u8, path: String| {
        let address = server.address;
        waiting.spawn(async move {
            ask_from(stranger(number), address, get(&path))
                .await
                .is_ok()
        });
    };
    let cluster = &server.cluster;
    let reviews = |count| until("reviews", move || cluster.reviews().1 == count);
    for nth in 0..8 {
        begin_review(1, format!("/{nth}"));
    }
    reviews(8).await;
    let refused = at_once(stranger(1), server.address, "/more").await;
    assert_eq!((refused.code, refused.header("retry-after")), (429, "1"));
    begin_review(2, "/other".to_owned());
    reviews(9).await;
    assert_eq!(
        at_once(stranger(1), server.address, "/livez").await.code,
        200
    );
}

/// One line a minute for each cause, however many addresses, tokens, paths and subsets of checks there are.
#[tokio::test]
async fn requests_that_are_refused_or_fail_are_logged_once_for_each_cause() {
    let lines = Warnings::and_milder(Level::INFO);
    let server = serve(|_| {}).await;
    for check in ["a", "b", "c"] {
        server
            .checks
            .add(check, Scope::Readiness, || Err("away".to_owned()));
    }
    for nth in 0..20 {
        let token = Identity::Token(Box::leak(format!("made-up-{nth}").into_boxed_str()));
        assert_eq!(server.get(&token, "/metrics").await.code, 401);
        for path in [
            "/readyz",
            "/readyz?exclude=a",
            "/readyz?exclude=b&exclude=c",
        ] {
            assert_eq!(server.get(&Identity::Anonymous, path).await.code, 500);
        }
    }
    server.cluster.refuse_reviews();
    for nth in 0..20 {
        let path = format!("/{nth}/{}", "x".repeat(500));
        assert_eq!(server.get(&Identity::Anonymous, &path).await.code, 500);
        let token = Identity::Token(Box::leak(format!("unknown-{nth}").into_boxed_str()));
        assert_eq!(server.get(&token, "/metrics").await.code, 401);
    }
    for (line, count) in [
        ("Unable to authenticate the request", 2),
        ("Unable to authorize the request", 1),
        ("readyz check failed", 1),
    ] {
        let matching_lines = lines.with(line);
        assert_eq!(matching_lines.len(), count, "{matching_lines:#?}");
        assert!(
            matching_lines.iter().all(|line| line.len() < 2_000),
            "{matching_lines:#?}"
        );
    }
}

#[tokio::test]
async fn methods_and_paths_that_no_page_has_are_refused_before_any_review() {
    let server = serve(|_| {}).await;
    let long: &'static str = Box::leak("X".repeat(5_000).into_boxed_str());
    for (method, path, code) in [
        (long, "/metrics", 405),
        ("BREW", "/metrics", 405),
        ("TRACE", "/livez", 405),
        ("POST", "/livez", 405),
        ("DELETE", "/healthz", 405),
        ("PUT", "/readyz", 405),
        ("GET", &format!("/{}", "x".repeat(2_000)), 414),
        ("GET", &format!("/metrics?{}", "x".repeat(2_000)), 414),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost");
        let request = request.body(Full::default()).unwrap();
        let reply = send(server.address, &Identity::Anonymous, request).await;
        assert_eq!(reply.code, code, "{}", &method[..method.len().min(9)]);
    }
    assert_eq!(server.cluster.reviews(), (0, 0));
}

/// The first frame of a server of HTTP/2: its limits, by their number in the protocol.
async fn settings(server: &Running) -> Vec<(u16, u32)> {
    let mut stream = negotiated(server.address, &["h2"]).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the first frame is SETTINGS");
    let mut payload = vec![0; usize::from(head[2])];
    stream.read_exact(&mut payload).await.unwrap();
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let pairs = payload
        .chunks(6)
        .map(|pair| (number(&pair[..2]) as u16, number(&pair[2..])));
    pairs.collect()
}

#[tokio::test]
async fn a_connection_of_http2_has_few_streams_and_small_windows() {
    const STREAMS: u16 = 3;
    const WINDOW: u16 = 4;
    const HEAD: u16 = 6;
    for (limit, streams) in [(None, 16), (Some(100), 100)] {
        let limited = |settings: &mut Settings| settings.serving.http2_max_streams = limit;
        let server = begin(limited, Cluster::new(), Registry::default());
        let settings = settings(&server).await;
        let value = |setting| {
            settings
                .iter()
                .find(|(id, _)| *id == setting)
                .map(|(_, value)| *value)
        };
        assert_eq!(value(STREAMS), Some(streams), "{settings:?}");
        // The protocol's default, where it is not sent.
        assert!(
            value(WINDOW).is_none_or(|window| window <= 65_535),
            "{settings:?}"
        );
        assert!(
            value(HEAD).is_some_and(|bytes| bytes <= 32 * 1024),
            "{settings:?}"
        );
    }
}

#[tokio::test]
async fn the_body_of_a_request_that_waits_for_a_review_is_not_kept() {
    const CHUNK: usize = 1024;
    let server = Running::without_answers().await;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let chunks = stream::repeat_with(move || {
        counted.fetch_add(CHUNK, Relaxed);
        Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(&[0; CHUNK])))
    });
    let request =
        Request::put("https://localhost/metrics").body(StreamBody::new(chunks.take(4 << 10)));
    let stream = negotiated(server.address, &["h2"]).await;
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    let answer = sender.send_request(request.unwrap());
    tasks.spawn(async move {
        let _ = answer.await;
    });
    until("the review", || server.cluster.reviews().1 == 1).await;
    until("the first bytes", || sent.load(Relaxed) > 0).await;
    // The stream needs this many requests to send all that it may.
    for _ in 0..20 {
        assert_eq!(at_once(PROBER, server.address, "/livez").await.code, 200);
    }
    let sent = sent.load(Relaxed);
    assert!(sent <= 65_535 + 2 * CHUNK, "{sent} bytes");
}

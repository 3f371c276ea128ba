//! Clients without a credential: the server stays there for others, in little memory and few lines.

use std::{net::Ipv4Addr, time::Duration};

use http::Method;
use prometheus_client::registry::Registry;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, timeout},
};
use tracing::Level;

use crate::server::{
    access::IN_FLIGHT,
    fixture::{
        Running, begin,
        client::{Identity, connect, fetch},
        cluster::Cluster,
        serve,
    },
    places::PER_PEER,
};
use outrigger_runtime::fixture::Warnings;

/// Longer than anything here takes, on a busy machine.
const SOON: Duration = Duration::from_mins(1);

fn stranger(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, number)
}

fn start() -> Running {
    begin(|_| {}, Cluster::new(), Registry::default())
}

impl Running {
    async fn probe(&self) {
        let probe = self.get(&Identity::Anonymous, "/livez");
        let reply = timeout(SOON, probe).await.expect("it waits");
        assert_eq!((reply.code, &*reply.body), (200, "ok"));
    }

    async fn connect_from(&self, peer: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((peer, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// The server has closed it.
    async fn ends(&self, mut stream: impl AsyncReadExt + Unpin) {
        let mut rest = Vec::new();
        let end = timeout(SOON, stream.read_to_end(&mut rest)).await;
        let _ = end.expect("it is open");
    }
}

#[tokio::test]
async fn connections_above_the_limit_of_an_address_are_closed_and_a_probe_is_answered() {
    let server = start();
    let mut open = Vec::new();
    for nth in 0..300 {
        open.push(server.connect_from(stranger(nth as u8 % 3)).await);
    }
    server.probe().await;
    for excess in open.split_off(3 * PER_PEER) {
        server.ends(excess).await;
    }
    let first = timeout(Duration::from_millis(50), open[0].read(&mut [0; 8])).await;
    assert!(first.is_err(), "{first:?}");
}

#[tokio::test]
async fn a_client_that_is_slow_with_handshake_or_head_is_closed_after_five_seconds() {
    let server = start();
    let began = Instant::now();
    let silent = server.connect_from(stranger(1)).await;
    let without_request = connect(server.address, &Identity::Anonymous).await.unwrap();
    let mut halting = connect(server.address, &Identity::Anonymous).await.unwrap();
    halting
        .write_all(b"GET /livez HTTP/1.1\r\nx: ")
        .await
        .unwrap();
    tokio::join!(
        server.ends(silent),
        server.ends(without_request),
        server.ends(halting)
    );
    assert!((4..30).contains(&began.elapsed().as_secs()));
}

#[tokio::test]
async fn a_large_head_is_refused() {
    let server = start();
    let mut stream = connect(server.address, &Identity::Anonymous).await.unwrap();
    let head = format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(20_000));
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
    server.probe().await;
}

#[tokio::test]
async fn reviews_in_flight_are_bounded_and_probes_need_none() {
    let server = serve(|_| {}).await;
    let places = &server.access.reviews.in_flight;
    let taken = places.try_acquire_many(IN_FLIGHT as u32).unwrap();
    let refused = server.get(&Identity::Anonymous, "/more").await;
    assert_eq!((refused.code, refused.header("retry-after")), (429, "1"));
    server.probe().await;
    drop(taken);
    assert_eq!(server.get(&Identity::Anonymous, "/more").await.code, 403);
}

/// One line a minute for each cause, however many addresses, tokens, paths and subsets of checks there are.
#[tokio::test]
async fn requests_that_are_refused_or_fail_are_logged_once_for_each_cause() {
    let lines = Warnings::and_milder(Level::INFO);
    let server = serve(|_| {}).await;
    let readiness = crate::server::Scope::Readiness;
    for check in ["a", "b"] {
        server
            .checks
            .add(check, readiness, || Err("away".to_owned()));
    }
    let anyone = Identity::Anonymous;
    for nth in 0..20 {
        if nth == 10 {
            server.cluster.refuses(true);
        }
        let token = Identity::Token(Box::leak(format!("made-up-{nth}").into_boxed_str()));
        assert_eq!(server.get(&token, "/metrics").await.code, 401);
        let path = format!("/{nth}/{}", "x".repeat(5_000));
        let code = if nth < 10 { 403 } else { 500 };
        let reply = fetch(server.address, &anyone, Method::GET, &path, "").await;
        assert_eq!(reply.code, code);
        for path in [
            "/readyz",
            "/readyz?exclude=a",
            "/readyz?exclude=b&exclude=c",
        ] {
            assert_eq!(server.get(&anyone, path).await.code, 500);
        }
    }
    for (line, count) in [("HTTPS request refused", 2), ("readyz check failed", 1)] {
        let lines = lines.with(line);
        assert_eq!(lines.len(), count, "{lines:#?}");
        assert!(lines.iter().all(|line| line.len() < 2_000), "{lines:#?}");
        assert!(
            !lines.iter().any(|line| line.contains("made-up")),
            "{lines:#?}"
        );
    }
}

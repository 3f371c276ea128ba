//! Connections that say nothing, and requests in plain HTTP.

use std::time::Duration;

use http::Method;
use prometheus_client::registry::Registry;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::fixture::{
    begin,
    client::{Identity, connect, fetch, head_over_http2},
    cluster::Cluster,
};

#[tokio::test]
async fn a_probe_is_answered_beside_hundreds_of_connections_that_say_nothing() {
    let server = begin(|_| {}, Cluster::new(), Registry::default());
    let mut silent = Vec::new();
    let mut idle = Vec::new();
    for nth in 0..200 {
        if nth % 3 == 0 {
            // Earlier connections may be closed by now.
            idle.push(connect(server.address, &Identity::Anonymous).await.unwrap());
        } else {
            silent.push(TcpStream::connect(server.address).await.unwrap());
        }
    }
    let began = Instant::now();
    for _ in 0..20 {
        let probe = fetch(
            server.address,
            &Identity::Anonymous,
            Method::GET,
            "/livez",
            "",
        );
        let reply = timeout(Duration::from_secs(5), probe).await.unwrap();
        assert_eq!((reply.code, &*reply.body), (200, "ok"));
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    // The first was closed, the last was not.
    let mut first = silent.remove(0);
    assert_eq!(first.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let mut last = silent.pop().unwrap();
    let nothing = timeout(Duration::from_millis(50), last.read(&mut [0; 8])).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test]
async fn plain_http_gets_an_answer_that_names_https() {
    let server = begin(|_| {}, Cluster::new(), Registry::default());
    for request in [
        "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n",
        "PUT /debug/flags/v HTTP/1.1\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(
            answer,
            "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
        );
    }
}

#[tokio::test]
async fn head_has_the_length_of_the_body_and_no_body() {
    let server = begin(|_| {}, Cluster::new(), Registry::default());
    let reply = fetch(
        server.address,
        &Identity::Anonymous,
        Method::HEAD,
        "/livez",
        "",
    )
    .await;
    assert_eq!(
        (reply.code, &*reply.body, reply.header("content-length")),
        (200, "", "2")
    );
    let reply = head_over_http2(server.address, "/livez").await;
    assert_eq!(
        (reply.code, &*reply.body, reply.header("content-length")),
        (200, "", "2")
    );
}

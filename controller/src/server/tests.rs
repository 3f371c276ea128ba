//! Over real sockets and TLS, with a scripted API server for the reviews.

mod limits;
mod pages;
mod start;

use http::Method;

use super::*;
use crate::server::fixture::{
    client::{Identity, fetch},
    cluster, serve, settings,
};

#[tokio::test]
async fn health_needs_no_right_and_all_else_does() {
    let server = serve(|_| {}).await;
    let anyone = Identity::Anonymous;
    let reply = server.get(&anyone, "/healthz").await;
    assert_eq!((reply.code, &*reply.body), (200, "ok"));
    assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(reply.header("cache-control"), "no-cache, private");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    let post = fetch(server.address, &anyone, Method::POST, "/livez", "x").await;
    assert_eq!((post.code, &*post.body), (405, "405 method not allowed\n"));
    let head = fetch(server.address, &anyone, Method::HEAD, "/livez", "").await;
    assert_eq!((head.code, &*head.body), (200, ""));
    for path in ["/metrics", "/healthz/ping", "/configz", "/", "/nothing"] {
        let reply = server.get(&anyone, path).await;
        let message = format!(r#"forbidden: User \"system:anonymous\" cannot get path \"{path}\""#);
        let expected = format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"Forbidden","details":{{}},"code":403}}"#
        );
        assert_eq!((reply.code, reply.body.trim()), (403, &*expected));
        assert_eq!(reply.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn a_scraper_sees_what_its_role_says_and_is_reviewed_once() {
    let server = serve(|_| {}).await;
    let scraper = Identity::Token("scraper");
    for _ in 0..3 {
        assert_eq!(server.get(&scraper, "/metrics").await.code, 200);
    }
    assert_eq!(server.cluster.reviews(), (1, 1));
    assert_eq!(server.get(&scraper, "/configz").await.code, 403);
    let reply = fetch(server.address, &scraper, Method::PUT, "/debug/flags/v", "4").await;
    let user = "system:serviceaccount:mon:scraper";
    let refusal = format!(r#"forbidden: User \"{user}\" cannot put path \"/debug/flags/v\""#);
    assert!(reply.body.contains(&refusal), "{}", reply.body);
    assert_eq!(server.cluster.reviews(), (1, 3));
}

#[tokio::test]
async fn a_bad_token_is_refused_even_where_none_is_needed() {
    let server = serve(|_| {}).await;
    let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
    for _ in 0..2 {
        let reply = server.get(&Identity::Token("bad"), "/healthz").await;
        assert_eq!((reply.code, reply.body.trim()), (401, expected));
    }
    assert_eq!(server.cluster.reviews(), (1, 0));
}

#[tokio::test]
async fn certificates_of_the_clusters_ca_say_who_asks() {
    let server = serve(|_| {}).await;
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    assert_eq!(server.get(&admin, "/metrics").await.code, 200);
    assert_eq!(server.get(&admin, "/nothing").await.code, 404);
    assert_eq!(server.cluster.reviews(), (0, 0));
    // Headers of a proxy say nothing.
    let nobody = server.cluster.clients.sign("eve", &[]);
    let nobody = nobody.with_headers(&[("X-Remote-Group", "system:masters")]);
    let reply = server.get(&nobody, "/metrics").await;
    assert!(
        reply.code == 403 && reply.body.contains(r#"User \"eve\""#),
        "{}",
        reply.body
    );
    let forged = cluster::Authority::new("another").sign("root", &["system:masters"]);
    assert_eq!(server.get(&forged, "/healthz").await.code, 401);
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let first = serve(|_| {}).await;
    let mut serving = settings().serving;
    serving.port = first.address.port();
    let error = Server::bind(&serving).err().unwrap().to_string();
    let expected = format!(
        "failed to listen on {}: Address already in use",
        first.address
    );
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn a_wildcard_serves_both_families() {
    let mut serving = settings().serving;
    serving.address = [0, 0, 0, 0].into();
    let server = Server::bind(&serving).unwrap();
    let port = server.address().port();
    tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .unwrap();
    if server.address().is_ipv6() {
        tokio::net::TcpStream::connect(("::1", port)).await.unwrap();
    }
}

#[tokio::test]
async fn the_end_does_not_wait_for_idle_connections() {
    let mut server = serve(|_| {}).await;
    let _idle = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    assert_eq!(server.get(&Identity::Anonymous, "/healthz").await.code, 200);
    server.stop.cancel();
    let end = tokio::time::timeout(std::time::Duration::from_secs(3), server.tasks.join_next());
    end.await.unwrap().unwrap().unwrap();
    let after = tokio::net::TcpStream::connect(server.address).await;
    assert!(after.is_err());
}

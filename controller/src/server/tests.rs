//! Over real sockets and TLS, with a scripted API server for the reviews.

use std::{net::Ipv4Addr, sync::atomic::Ordering::Relaxed, time::Duration};

use http::Method;
use outrigger_runtime::fixture::Warnings;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, timeout},
};
use tracing::Level;

use super::{listener::PER_PEER, *};
use crate::server::fixture::{
    Authority, Cluster, Identity, Running, Settings, begin, connect, fetch, serve, settings,
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
        let message = format!(r#"forbidden: User "system:anonymous" cannot get path "{path}""#);
        let status: Value = serde_json::from_str(&reply.body).unwrap();
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Forbidden", "code": 403,
        });
        assert_eq!((reply.code, status), (403, expected));
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
    assert_eq!(server.get(&scraper, "/debug/").await.code, 403);
    let reply = fetch(server.address, &scraper, Method::PUT, "/debug/flags/v", "4").await;
    let user = "system:serviceaccount:mon:scraper";
    let refusal = format!(r#"forbidden: User \"{user}\" cannot put path \"/debug/flags/v\""#);
    assert!(reply.body.contains(&refusal), "{}", reply.body);
    assert_eq!(server.cluster.reviews(), (1, 3));
}

#[tokio::test]
async fn a_bad_token_is_refused_even_where_none_is_needed() {
    let server = serve(|_| {}).await;
    for _ in 0..2 {
        let reply = server.get(&Identity::Token("bad"), "/healthz").await;
        let status: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(reply.code, 401);
        assert_eq!(status["message"], "Unauthorized");
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
    let forged = Authority::new("another").sign("root", &["system:masters"]);
    assert_eq!(server.get(&forged, "/healthz").await.code, 401);
}

#[tokio::test]
async fn a_wildcard_serves_both_families() {
    let mut serving = settings().serving;
    serving.address = [0, 0, 0, 0].into();
    let server = Server::bind(&serving).unwrap();
    let port = server.address().port();
    TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    if server.address().is_ipv6() {
        TcpStream::connect(("::1", port)).await.unwrap();
    }
}

#[tokio::test]
async fn the_end_does_not_wait_for_idle_connections() {
    let mut server = serve(|_| {}).await;
    let _idle = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(server.get(&Identity::Anonymous, "/healthz").await.code, 200);
    server.stop.cancel();
    let end = timeout(Duration::from_secs(3), server.tasks.join_next());
    end.await.unwrap().unwrap().unwrap();
    let after = TcpStream::connect(server.address).await;
    assert!(after.is_err());
}

#[tokio::test]
async fn pages_answer_with_rights() {
    let server = serve(|_| {}).await;
    server.pages.dump("stores/nodes", || "3 nodes\n".into());
    server
        .checks
        .add("provider", Scope::Readiness, || Err("down".into()));
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for (path, code, part) in [
        ("/configz", 200, r#"{"ClusterName":"blue"}"#),
        ("/debug/", 200, "/debug/stores/nodes\n"),
        ("/debug/stores/nodes", 200, "3 nodes\n"),
        ("/debug/nothing", 404, "404 page not found\n"),
        ("/explain/nodes/a", 503, "this replica is starting"),
        ("/readyz/provider", 500, "internal server error: down\n"),
        ("/readyz", 500, "[-]provider failed: reason withheld\n"),
        ("/livez", 200, "ok"),
        (
            "/metrics/slis",
            200,
            r#"kubernetes_healthchecks_total{name="provider",type="readyz",status="error"} 1"#,
        ),
    ] {
        let reply = server.get(&admin, path).await;
        assert_eq!(reply.code, code, "{path}");
        assert!(reply.body.contains(part), "{path}: {}", reply.body);
    }
}

#[tokio::test]
async fn verbosity_is_set_by_a_number() {
    let server = serve(|_| {}).await;
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    let send = async |method, body| {
        let reply = fetch(server.address, &admin, method, "/debug/flags/v", body).await;
        (reply.code, reply.body)
    };
    let text = "successfully set klog.logging.verbosity to 4\n".to_owned();
    assert_eq!(send(Method::PUT, "4").await, (200, text));
    assert_eq!(send(Method::PUT, "many").await.0, 400);
    let long: &'static str = Box::leak("4".repeat(2_000).into_boxed_str());
    assert_eq!(send(Method::PUT, long).await.0, 413);
    assert_eq!(
        send(Method::GET, "").await,
        (406, "unsupported http method\n".to_owned())
    );
    assert_eq!(server.verbosity.load(Relaxed), 4);
}

#[tokio::test]
async fn a_flag_takes_pages_away() {
    let server = serve(|settings| settings.profiling = false).await;
    server.pages.dump("queues", || "node: empty\n".into());
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for path in ["/debug/", "/debug/queues", "/debug/flags/v"] {
        let page = server.get(&admin, path).await;
        assert_eq!(
            (page.code, &*page.body),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_path_that_is_always_allowed_needs_no_review() {
    let paths = ["", "/healthz", "/metrics"].map(String::from);
    let allow = |settings: &mut Settings| {
        settings.access.authorization_always_allow_paths = paths.into();
    };
    let server = serve(allow).await;
    assert_eq!(server.get(&Identity::Anonymous, "/metrics").await.code, 200);
    assert_eq!(server.cluster.reviews(), (0, 0));
    for path in ["/", "/readyz"] {
        assert_eq!(server.get(&Identity::Anonymous, path).await.code, 403);
    }
}

/// Whoever has a certificate is as anyone until then.
#[tokio::test]
async fn cas_that_cannot_be_read_count_once_they_can() {
    let server = begin(|_| {}, Cluster::new(), Registry::default());
    server.cluster.refuses(true);
    server.access.look_up().await;
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    assert_eq!(server.get(&admin, "/livez").await.code, 200);
    assert_eq!(server.get(&admin, "/metrics").await.code, 500);
    server.cluster.refuses(false);
    server.access.look_up().await;
    assert_eq!(server.get(&admin, "/metrics").await.code, 200);
}

#[test]
fn a_file_of_cas_that_is_not_there_is_named() {
    let mut settings = settings();
    settings.access.client_ca_file = Some("/nowhere".into());
    let access = Access::with(&settings.access, None, None);
    let error = access.err().unwrap();
    assert!(
        error.starts_with("--client-ca-file /nowhere: No such file"),
        "{error}"
    );
}

// Clients without a credential: the server stays there for others, in little memory and few lines.

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

/// One line a minute for each cause, however many addresses, tokens, paths and subsets of checks there are.
#[tokio::test]
async fn requests_that_are_refused_or_fail_are_logged_once_for_each_cause() {
    let lines = Warnings::and_milder(Level::INFO);
    let server = serve(|_| {}).await;
    let readiness = Scope::Readiness;
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

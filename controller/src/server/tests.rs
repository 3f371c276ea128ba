//! Over real sockets and TLS, with a scripted API server for the reviews.

mod limits;

use std::sync::atomic::Ordering::Relaxed;

use http::Method;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;
use crate::server::fixture::{
    Settings, begin,
    client::{Identity, fetch},
    cluster::{Authority, Cluster},
    serve, settings,
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
    let forged = Authority::new("another").sign("root", &["system:masters"]);
    assert_eq!(server.get(&forged, "/healthz").await.code, 401);
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

#[tokio::test]
async fn pages_answer_with_rights() {
    let server = serve(|settings| {
        settings.pages.configz = json!({"ClusterName": "blue"});
    })
    .await;
    server.pages.dump("stores/nodes", || "3 nodes\n".into());
    server
        .checks
        .add("provider", Scope::Readiness, || Err("down".into()));
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for (path, code, part) in [
        ("/configz", 200, r#""ClusterName":"blue""#),
        ("/debug/", 200, "/debug/stores/nodes\n"),
        ("/debug/stores/nodes", 200, "3 nodes\n"),
        ("/debug/nothing", 404, "404 page not found\n"),
        ("/debug/pprof/", 501, "perf record"),
        (
            "/debug/pprof/heap?debug=1",
            501,
            "process_resident_memory_bytes",
        ),
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
    let reset = fetch(server.address, &admin, Method::DELETE, "/metrics/slis", "").await;
    assert_eq!(reset.body, "metrics reset\n");
    let results = server.get(&admin, "/metrics/slis").await.body;
    assert!(!results.contains("provider"), "{results}");
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
    let server = serve(|settings| settings.pages.profiling = false).await;
    server.pages.dump("queues", || "node: empty\n".into());
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for path in [
        "/debug/",
        "/debug/queues",
        "/debug/flags/v",
        "/debug/pprof/profile",
    ] {
        let page = server.get(&admin, path).await;
        assert_eq!(
            (page.code, &*page.body),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn probes_are_answered_before_the_api_server_is() {
    let cluster = Cluster::new();
    let server = begin(|_| {}, cluster, Registry::default());
    server.checks.add("apiserver", Scope::Readiness, || {
        Err("not reached yet".into())
    });
    // For every caller and every path: no access can be checked.
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for identity in [Identity::Anonymous, Identity::Token("bad"), admin] {
        for path in ["/healthz", "/livez"] {
            let reply = server.get(&identity, path).await;
            assert_eq!((reply.code, &*reply.body), (200, "ok"), "{path}");
        }
        let ready = server.get(&identity, "/readyz").await;
        assert_eq!(ready.code, 500);
        assert!(
            ready.body.starts_with("[-]apiserver failed"),
            "{}",
            ready.body
        );
        for path in ["/metrics", "/readyz/apiserver", "/debug/", "/nothing"] {
            let reply = server.get(&identity, path).await;
            assert_eq!(reply.code, 503, "{path}");
            assert!(
                reply.body.contains("has not been reached yet"),
                "{}",
                reply.body
            );
        }
    }
    assert_eq!(server.cluster.reviews(), (0, 0));

    server.access.look_up().await;
    let scraper = Identity::Token("scraper");
    assert_eq!(server.get(&scraper, "/metrics").await.code, 200);
    assert_eq!(server.get(&Identity::Anonymous, "/metrics").await.code, 403);
    assert_eq!(
        server.get(&Identity::Token("bad"), "/healthz").await.code,
        401
    );
}

#[tokio::test]
async fn a_path_that_is_always_allowed_needs_no_api_server() {
    let paths = ["/healthz", "/metrics"].map(String::from);
    let allow = |settings: &mut Settings| settings.authorization.always_allow_paths = paths.into();
    let server = begin(allow, Cluster::new(), Registry::default());
    assert_eq!(server.get(&Identity::Anonymous, "/metrics").await.code, 200);
    assert_eq!(server.get(&Identity::Anonymous, "/readyz").await.code, 503);
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
    settings.authentication.client_ca_file = Some("/nowhere".into());
    let access = Access::with(
        &settings.authentication,
        &settings.authorization,
        None,
        None,
    );
    let error = access.err().unwrap().to_string();
    assert!(
        error.starts_with("--client-ca-file /nowhere: No such file"),
        "{error}"
    );
}

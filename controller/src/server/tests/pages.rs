//! Contents behind the paths.

use std::sync::atomic::Ordering::Relaxed;

use http::Method;
use serde_json::json;

use crate::server::{
    Scope,
    fixture::{client::fetch, serve},
};

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

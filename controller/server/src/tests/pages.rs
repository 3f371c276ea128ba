//! Contents behind the paths.

use std::sync::atomic::Ordering::Relaxed;

use http::Method;
use serde_json::json;

use crate::Scope;
use crate::fixture::{client::fetch, serve};

#[tokio::test]
async fn pages_answer_with_rights() {
    let server = serve(|settings| {
        settings.pages.flagz = Some(vec![("cluster-name".into(), "blue".into())]);
        settings.pages.configz = json!({"ClusterName": "blue"});
    })
    .await;
    server.pages.dump("queues", || "node: empty\n".into());
    server
        .checks
        .add("provider", Scope::Readiness, || Err("down".into()));
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    let body = async |path: &str| server.get(&admin, path).await.body;
    assert!(body("/flagz").await.contains("\ncluster-name=blue\n"));
    assert!(body("/configz").await.contains(r#""ClusterName":"blue""#));
    assert!(
        body("/statusz")
            .await
            .contains("\nPaths: /configz /debug/ ")
    );
    assert_eq!(body("/debug/queues").await, "node: empty\n");
    assert_eq!(
        server.get(&admin, "/debug/pprof").await.header("location"),
        "/debug/pprof/"
    );
    assert_eq!(
        body("/readyz/provider").await,
        "internal server error: down\n"
    );
    assert_eq!(server.get(&admin, "/livez").await.code, 200);
    assert_eq!(server.get(&admin, "/readyz").await.code, 500);
    let slis = body("/metrics/slis").await;
    let expected =
        r#"kubernetes_healthchecks_total{name="provider",type="readyz",status="error"} 1"#;
    assert!(slis.contains(expected), "{slis}");
    let reset = fetch(server.address, &admin, Method::DELETE, "/metrics/slis", "").await;
    assert_eq!(reset.body, "metrics reset\n");
    assert!(!body("/metrics/slis").await.contains("provider"));
}

#[tokio::test]
async fn verbosity_is_set_by_a_number() {
    let server = serve(|_| {}).await;
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    let send = async |method, body| {
        let reply = fetch(server.address, &admin, method, "/debug/flags/v", body).await;
        (reply.code, reply.body)
    };
    let said = "successfully set klog.logging.verbosity to 4\n".to_owned();
    assert_eq!(send(Method::PUT, "4").await, (200, said));
    assert_eq!(server.verbosity.load(Relaxed), 4);
    assert_eq!(send(Method::PUT, "many").await.0, 400);
    assert_eq!(
        send(Method::GET, "").await,
        (406, "unsupported http method\n".to_owned())
    );
    assert_eq!(server.verbosity.load(Relaxed), 4);
    let without = serve(|settings| settings.pages.profiling = false).await;
    let admin = without.cluster.clients.sign("root", &["system:masters"]);
    assert_eq!(without.get(&admin, "/debug/flags").await.code, 404);
}

#[tokio::test]
async fn profiles_that_cannot_be_taken_say_what_to_do_instead() {
    let server = serve(|_| {}).await;
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for (profile, word) in [
        ("profile?seconds=5", "perf record"),
        ("heap", "process_resident_memory_bytes"),
        ("goroutine?debug=2", "Go's runtime"),
    ] {
        let path = format!("/debug/pprof/{profile}");
        let reply = server.get(&admin, &path).await;
        assert_eq!(reply.code, 501, "{path}");
        assert!(reply.body.contains(word), "{}", reply.body);
    }
    assert_eq!(server.get(&admin, "/debug/pprof/").await.code, 200);
    assert_eq!(server.get(&admin, "/debug/pprof/nonsense").await.code, 404);
}

#[tokio::test]
async fn without_profiling_nothing_is_below_debug() {
    let server = serve(|settings| settings.pages.profiling = false).await;
    server.pages.dump("queues", || "node: empty\n".into());
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for path in [
        "/debug/",
        "/debug/queues",
        "/debug/flags",
        "/debug/flags/v",
        "/debug/pprof",
        "/debug/pprof/",
        "/debug/pprof/profile",
    ] {
        assert_eq!(server.get(&admin, path).await.code, 404, "{path}");
    }
    let statusz = server.get(&admin, "/statusz").await.body;
    assert!(
        statusz.contains("\nPaths: /configz /explain/ /flagz "),
        "{statusz}"
    );
}

#[tokio::test]
async fn feature_gates_take_pages_away() {
    for (gone, stays) in [("/flagz", "/statusz"), ("/statusz", "/flagz")] {
        let server = serve(|settings| match gone {
            "/flagz" => settings.pages.flagz = None,
            _ => settings.pages.statusz = false,
        })
        .await;
        let admin = server.cluster.clients.sign("root", &["system:masters"]);
        let page = server.get(&admin, gone).await;
        assert_eq!((page.code, &*page.body), (404, "404 page not found\n"));
        let page = server.get(&admin, stays).await;
        assert_eq!(page.code, 200, "{stays}");
        assert!(!page.body.contains("/flagz "), "{}", page.body);
    }
    let server = serve(|settings| {
        settings.pages.flagz = None;
        settings.pages.statusz = false;
    })
    .await;
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    for path in ["/flagz", "/statusz"] {
        assert_eq!(server.get(&admin, path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn dumps_need_a_right() {
    let server = serve(|_| {}).await;
    server.pages.dump("queues", || "node: empty\n".into());
    let eve = server.cluster.clients.sign("eve", &[]);
    for path in ["/debug/queues", "/debug/flags/v", "/debug/pprof/profile"] {
        assert_eq!(server.get(&eve, path).await.code, 403, "{path}");
    }
}

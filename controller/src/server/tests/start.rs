//! From the first connection on, whatever the API server does (AUTH-2).

use prometheus_client::registry::Registry;

use crate::server::{
    Access, Scope,
    fixture::{Settings, begin, client::Identity, cluster::Cluster, settings},
};

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

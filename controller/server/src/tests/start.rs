//! From the first connection on, whatever the API server does (AUTH-2).

use std::time::Duration;

use futures::FutureExt;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout};

use crate::fixture::{Settings, begin, client::Identity, cluster::Cluster, settings};
use crate::{Access, AccessError, Scope};
use outrigger_kubernetes::{api::Api, fixture::scripted};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

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

    server.access.look_up().await.unwrap();
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

/// Access with these settings, to an API server that answers with one code after the other, the last one
/// again and again.
fn access(
    change: impl FnOnce(&mut Settings),
    codes: &'static [(u16, &str)],
) -> Result<Access, AccessError> {
    let mut settings = settings();
    change(&mut settings);
    let answers = std::sync::atomic::AtomicUsize::new(0);
    let api = Api::new(scripted::client(move |_| {
        let nth = answers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (code, reason) = codes[nth.min(codes.len() - 1)];
        async move { scripted::refusal(code, reason) }.boxed()
    }));
    let (authentication, authorization) = (&settings.authentication, &settings.authorization);
    let (reviewer, judge) = (Some(api.clone()), Some(api));
    Access::with(authentication, authorization, reviewer, judge)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_tell_its_cas_ends_the_start_unless_tolerated() {
    const MUTE: &[(u16, &str)] = &[(403, "Forbidden")];
    let error = access(|_| {}, MUTE).unwrap().look_up().await.unwrap_err();
    let expected = "unable to load configmap based client-ca-file: scripted";
    assert!(error.to_string().starts_with(expected), "{error}");
    let tolerates =
        |settings: &mut Settings| settings.authentication.tolerate_lookup_failure = true;
    access(tolerates, MUTE).unwrap().look_up().await.unwrap();
    let skips = |settings: &mut Settings| settings.authentication.skip_lookup = true;
    access(skips, MUTE).unwrap().look_up().await.unwrap();
    let lacks_a_file = |settings: &mut Settings| {
        settings.authentication.skip_lookup = true;
        settings.authentication.client_ca_file = Some("/nowhere".into());
    };
    let error = access(lacks_a_file, MUTE).err().unwrap().to_string();
    assert!(
        error.starts_with("--client-ca-file /nowhere: No such file"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_not_there_yet_is_waited_for() {
    const STARTING: &[(u16, &str)] = &[
        (503, "ServiceUnavailable"),
        (500, "InternalError"),
        (429, "TooManyRequests"),
        // It has no such ConfigMap: nothing is wrong.
        (404, "NotFound"),
    ];
    const FORBIDDING: &[(u16, &str)] = &[(503, "ServiceUnavailable"), (403, "Forbidden")];
    let began = Instant::now();
    let looked_up = access(|_| {}, STARTING).unwrap();
    timeout(LONG, looked_up.look_up()).await.unwrap().unwrap();
    assert!(began.elapsed() > Duration::from_secs(1));

    let refused = access(|_| {}, FORBIDDING).unwrap();
    let refused = timeout(LONG, refused.look_up()).await.unwrap();
    assert!(matches!(refused, Err(AccessError::Useless(_))));

    // A server that tolerates a failure need not wait for an end of it.
    let tolerant = access(
        |settings| settings.authentication.tolerate_lookup_failure = true,
        STARTING,
    );
    let began = Instant::now();
    tolerant.unwrap().look_up().await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}

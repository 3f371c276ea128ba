use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

fn checks() -> Checks {
    let checks = Checks::default();
    checks.add("leaderElection", Scope::Everywhere, || Ok(()));
    checks.add("provider", Scope::Readiness, || {
        Err("down: no socket".into())
    });
    checks
}

async fn ask(checks: &Checks, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = router(checks).oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn texts_are_upstreams() {
    let checks = checks();
    let expect = [
        ("/healthz", 200, "ok"),
        ("/healthz/", 200, "ok"),
        (
            "/livez?verbose",
            200,
            "[+]leaderElection ok\nlivez check passed\n",
        ),
        (
            "/readyz",
            500,
            "[+]leaderElection ok\n[-]provider failed: reason withheld\nreadyz check failed\n",
        ),
        ("/readyz?exclude=provider", 200, "ok"),
        (
            "/healthz?verbose&exclude=c%2Fd+%zz",
            200,
            "[+]leaderElection ok\n\
             warn: some health checks cannot be excluded: no matches for \"c/d %zz\"\n\
             healthz check passed\n",
        ),
        (
            "/healthz?verbose=1&exclude=leaderElection&exclude=b&exclude=a",
            200,
            "[+]leaderElection excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\n\
             healthz check passed\n",
        ),
        ("/healthz/leaderElection", 200, "ok"),
        ("/healthz/provider", 404, "404 page not found\n"),
        (
            "/readyz/provider",
            500,
            "internal server error: down: no socket\n",
        ),
    ];
    for (path, code, body) in expect {
        assert_eq!(ask(&checks, path).await, (code, body.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn without_checks_there_is_ping() {
    let expected = "[+]ping ok\nhealthz check passed\n".to_owned();
    let checks = Checks::default();
    assert_eq!(ask(&checks, "/healthz?verbose").await, (200, expected));
    assert_eq!(ask(&checks, "/healthz/ping").await.0, 200);
}

#[tokio::test]
async fn a_check_can_be_replaced() {
    let checks = checks();
    checks.add("provider", Scope::Readiness, || Ok(()));
    assert_eq!(ask(&checks, "/readyz").await.0, 200);
}

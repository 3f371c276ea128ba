use std::time::Duration;

use futures::FutureExt;
use http::{Method, Uri};
use tokio::time::{Instant, sleep};

use super::Traffic;

const LIMIT: Duration = Duration::from_millis(500);

#[test]
fn only_writes_of_objects_that_users_wait_for_count() {
    let traffic = Traffic::default();
    for (method, path, counts) in [
        (
            Method::PATCH,
            "/api/v1/nodes/n1?fieldValidation=Ignore",
            true,
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/a/services/web/status",
            true,
        ),
        (Method::DELETE, "/api/v1/nodes/n1", true),
        (Method::GET, "/api/v1/nodes/n1", false),
        (Method::POST, "/api/v1/namespaces/a/events", false),
        (Method::PATCH, "/api/v1/namespaces/a/events/n1.1", false),
        (
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
            false,
        ),
    ] {
        let guard = traffic.begin(&method, &Uri::from_static(path));
        assert_eq!(guard.is_some(), counts, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_waits_for_the_last_write_but_not_for_ever() {
    let traffic = Traffic::default();
    let node = Uri::from_static("/api/v1/nodes/n1");
    assert!(traffic.idle(LIMIT).now_or_never().is_some());

    let first = traffic.begin(&Method::PATCH, &node);
    let second = traffic.begin(&Method::PATCH, &node);
    let start = Instant::now();
    let writes = async {
        sleep(Duration::from_millis(100)).await;
        drop(first);
        sleep(Duration::from_millis(100)).await;
        drop(second);
    };
    tokio::join!(traffic.idle(LIMIT), writes);
    assert_eq!(start.elapsed(), Duration::from_millis(200));

    let _endless = traffic.begin(&Method::PATCH, &node);
    let start = Instant::now();
    traffic.idle(LIMIT).await;
    assert_eq!(start.elapsed(), LIMIT);
}

//! All of `/metrics`, as Prometheus reads it.

use http::Method;
use outrigger_testbed::prometheus;
use prometheus_client::registry::Registry;

mod documented;

use super::Metrics;
use crate::server::fixture::{
    Running, begin,
    client::{Identity, Reply, fetch},
    cluster::Cluster,
};
use outrigger_loops::queue::Queue;
use outrigger_runtime::backoff::Backoff;

/// The request header of Prometheus 3.
const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

/// A server whose registry is the program's, with a series in each family.
async fn serve() -> (Running, Queue<u8>) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    metrics.client.sample();
    metrics.csr.sample();
    metrics.leader.sample();
    metrics.ipam.sample();
    metrics.lifecycle.sample();
    metrics.node.sample();
    metrics.provider.sample();
    metrics.route.sample();
    metrics.service.sample();
    metrics.serving.sample();
    metrics.volume.sample();
    metrics.watch.sample();
    metrics.webhook.sample();
    let _stopped = metrics.controllers.started("cloud-node");
    let queue = Queue::new("Nodes", Backoff::default(), &metrics.queues);
    let server = begin(|_| {}, Cluster::new(), registry);
    server.access.look_up().await;
    (server, queue)
}

async fn scrape(server: &Running, path: &str, accept: &'static str) -> Reply {
    let admin = server.cluster.clients.sign("root", &["system:masters"]);
    let admin = admin.with_headers(&[("accept", accept)]);
    let reply = fetch(server.address, &admin, Method::GET, path, "").await;
    assert_eq!(reply.code, 200, "{}", reply.body);
    reply
}

#[tokio::test]
async fn prometheus_reads_both_formats_and_its_linter_is_content() {
    let (server, _queue) = serve().await;
    // So that /metrics/slis has something to say.
    assert_eq!(server.get(&Identity::Anonymous, "/healthz").await.code, 200);
    for path in ["/metrics", "/metrics/slis"] {
        for (accept, kind) in [
            (
                PROMETHEUS,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
            ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ] {
            let reply = scrape(&server, path, accept).await;
            assert_eq!(reply.header("content-type"), kind);
            let mut problems = prometheus::check(&reply.body, kind).await.unwrap();
            // Upstream's label `clusterCIDR` (M-40 to M-44).
            problems.retain(|problem| {
                !(problem.starts_with("node_ipam_controller_") && problem.ends_with("'camelCase'"))
            });
            assert_eq!(problems, [""; 0], "{path}\n{}", reply.body);
        }
    }
}

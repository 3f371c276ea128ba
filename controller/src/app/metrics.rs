//! Every family of metrics of the process, registered before anything runs: the server is there
//! before the parts that count.

use crate::{server::ServingMetrics, webhook::WebhookMetrics};
use outrigger_kube::{
    events::EventMetrics,
    leader::LeaderMetrics,
    metrics::{ClientMetrics, WatchMetrics},
};
use outrigger_loops::{
    csr::CsrMetrics, ipam::IpamMetrics, lifecycle::LifecycleMetrics, node::NodeMetrics,
    queue::QueueMetrics, route::RouteMetrics, service::ServiceMetrics,
};
use outrigger_provider::ProviderMetrics;
use outrigger_runtime::{metric_families, telemetry::RunningControllers};

metric_families! {
    /// The metrics of all parts.
    pub(crate) struct Metrics {
        + pub(crate) client: ClientMetrics;
        + pub(crate) controllers: RunningControllers;
        + pub(crate) csr: CsrMetrics;
        + pub(crate) events: EventMetrics;
        + pub(crate) ipam: IpamMetrics;
        + pub(crate) leader: LeaderMetrics;
        + pub(crate) lifecycle: LifecycleMetrics;
        + pub(crate) node: NodeMetrics;
        + pub(crate) provider: ProviderMetrics;
        + pub(crate) queues: QueueMetrics;
        + pub(crate) route: RouteMetrics;
        + pub(crate) service: ServiceMetrics;
        + pub(crate) serving: ServingMetrics;
        + pub(crate) watch: WatchMetrics;
        + pub(crate) webhook: WebhookMetrics;
    }
}

#[cfg(test)]
mod tests {
    //! All of `/metrics`, as Prometheus reads it, and as the documentation tells it.

    use std::collections::{BTreeMap, BTreeSet};

    use outrigger_testbed::prometheus;
    use prometheus_client::registry::Registry;

    use super::Metrics;
    use crate::server::fixture::{Cluster, Identity, Reply, Running, begin};
    use outrigger_loops::queue::Queue;
    use outrigger_runtime::{backoff::Backoff, fixture::sampled, telemetry};

    /// A server whose registry is the program's, with a series in each family.
    async fn serve() -> (Running, Queue<u8>) {
        let mut registry = Registry::default();
        telemetry::register(&mut registry);
        let metrics = sampled(|| Metrics::register(&mut registry));
        let queue = Queue::new("Nodes", Backoff::default(), &metrics.queues);
        let server = begin(|_| {}, Cluster::new(), registry);
        server.access.look_up().await;
        (server, queue)
    }

    async fn scrape(server: &Running, path: &str) -> Reply {
        let admin = server.cluster.clients.sign("root", &["system:masters"]);
        let reply = server.get(&admin, path).await;
        assert_eq!(reply.code, 200, "{}", reply.body);
        reply
    }

    #[tokio::test]
    async fn prometheus_reads_all_of_it_and_its_linter_is_content() {
        let (server, _queue) = serve().await;
        // So that /metrics/slis has something to say.
        assert_eq!(server.get(&Identity::Anonymous, "/healthz").await.code, 200);
        for path in ["/metrics", "/metrics/slis"] {
            let reply = scrape(&server, path).await;
            let kind = reply.header("content-type");
            assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
            let mut problems = prometheus::check(&reply.body, kind).await.unwrap();
            // Upstream's label `clusterCIDR` (M-40 to M-44).
            problems.retain(|problem| {
                !(problem.starts_with("node_ipam_controller_") && problem.ends_with("'camelCase'"))
            });
            assert_eq!(problems, [""; 0], "{path}\n{}", reply.body);
        }
    }

    /// Type and labels of each family.
    type Families = BTreeMap<String, (String, BTreeSet<String>)>;

    const PAGE: &str = include_str!("../../../docs/endpoints.md");

    /// The families of a scrape.
    fn exposed(scrape: &str) -> Families {
        let mut families = Families::new();
        let mut family = String::new();
        for line in scrape.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                family = name.to_owned();
                families.insert(family.clone(), (kind.to_owned(), BTreeSet::new()));
            } else if let Some((_, labels)) = line.split_once('{') {
                // The text before `="`; no value here holds that.
                let mut parts: Vec<_> = labels.split("=\"").collect();
                parts.pop();
                let names = parts.into_iter().map(|part| part.rsplit([',', '"']).next());
                let names = names.flatten().filter(|name| *name != "le");
                let entry = families.get_mut(&family).unwrap();
                entry.1.extend(names.map(ToOwned::to_owned));
            }
        }
        families
    }

    /// The families in the tables of the page: `| name | type | labels | meaning |`.
    fn documented() -> Families {
        let rows = PAGE.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
            let name = cells.next()?.trim_matches('`').to_owned();
            let kind = cells.next()?.to_owned();
            let labels = cells.next()?.split(", ").map(|name| name.trim_matches('`'));
            let labels = labels.filter(|name| !name.is_empty());
            let labels = labels.map(ToOwned::to_owned).collect();
            let metric = ["counter", "gauge", "histogram"].contains(&&*kind);
            metric.then_some((name, (kind, labels)))
        });
        rows.collect()
    }

    #[tokio::test]
    async fn the_documentation_names_every_metric_with_type_and_labels() {
        let (server, _queue) = serve().await;
        assert_eq!(server.get(&Identity::Anonymous, "/healthz").await.code, 200);
        let mut served = exposed(&scrape(&server, "/metrics").await.body);
        served.extend(exposed(&scrape(&server, "/metrics/slis").await.body));
        let documented = documented();
        for (name, family) in &served {
            assert_eq!(documented.get(name), Some(family), "{name}");
        }
        let mut names = documented.keys();
        let gone = names.find(|name| !served.contains_key(*name));
        assert_eq!(gone, None, "is in docs/endpoints.md alone");
    }
}

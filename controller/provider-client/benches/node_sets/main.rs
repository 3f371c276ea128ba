//! Cost of backend nodes on the way to a provider: many Services, many nodes, over a Unix socket,
//! with the adapter that the loops use and the SDK's server.
//!
//! ```text
//!  services, nodes ─► outrigger_provider_client ─► Meter ─► socket ─► SDK ─► Counting
//! ```
//!
//! `cargo bench -p outrigger-provider-client --bench node_sets -- [SERVICES [NODES]]`. Calls are answered
//! immediately and no API server takes part. Without node sets each call carries all nodes, and so many
//! Services would take minutes: the bench measures a part of them and multiplies.

#![allow(
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whoever runs it reads the panic"
)]

mod counting;
mod meter;

use std::{env, path::Path, sync::Arc};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use outrigger_core::{
    effects::GrantedPrefixes, node::NodeView, service::ServiceView, targets::Targets,
};
use outrigger_provider_client::{
    Cluster, EnsureInput, Options, Provider, ProviderMetrics, ProviderSocket,
};
use outrigger_provider_sdk::Server;
use outrigger_testbed::{nodes::Machine, services};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use counting::Counting;
use meter::{Meter, Reading};

/// The default of `--concurrent-service-syncs`.
const WORKERS: usize = 32;

/// Services that are measured with a provider without node sets.
const PART: usize = 100;

/// 5,000 nodes are more than the usual 4 MiB.
const MESSAGE: usize = 64 << 20;

#[tokio::main]
async fn main() {
    // `cargo bench` adds a flag of its own.
    let numbers = env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let numbers: Vec<usize> = numbers.map(|arg| arg.parse().unwrap()).collect();
    let count = numbers.first().copied().unwrap_or(10_000);
    let nodes = numbers.get(1).copied().unwrap_or(5_000);
    let services: Vec<_> = services::numbered("service-", count)
        .map(|name| service(&name))
        .collect();
    let targets = targets(nodes);
    let more = self::targets(nodes + 1);

    println!("{count} Services, {nodes} nodes");
    println!(
        "{:34}{:>8}{:>14}{:>14}{:>10}",
        "", "calls", "bytes sent", "received", "seconds"
    );
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(&dir.path().join("sets.sock"), true).await;
    let synced = rig.ensure(&services[..1], &targets).await;
    synced.print("node set, and the first Service");
    let ensured = rig.ensure(&services, &targets).await;
    ensured.print("each Service ensured");
    rig.update(&services, &targets)
        .await
        .print("each Service updated");
    rig.update(&services, &more)
        .await
        .print("one node more, each updated");

    let inline = Rig::start(&dir.path().join("inline.sock"), false).await;
    let part = &services[..PART.min(count)];
    let measured = inline.ensure(part, &targets).await;
    measured.print(&format!("without node sets, {} Services", part.len()));
    let times = count as f64 / part.len() as f64;
    let all = (synced.sent + ensured.sent) as f64;
    println!(
        "full resync: {:.1} MB in {:.1} s; without node sets {:.1} GB in {:.0} s, as measured times {times}",
        all / 1e6,
        (synced.took + ensured.took).as_secs_f64(),
        measured.sent as f64 * times / 1e9,
        measured.took.as_secs_f64() * times,
    );
}

/// A provider's process and the adapter on it.
struct Rig {
    provider: Provider,
    meter: Meter,
    counting: Counting,
    _tasks: JoinSet<()>,
}

impl Rig {
    async fn start(socket: &Path, node_sets: bool) -> Self {
        let endpoint = format!("unix://{}", socket.display());
        let counting = Counting::default();
        let server = Server::new(counting.clone())
            .load_balancers(counting.clone())
            .max_message_bytes(MESSAGE);
        let server = if node_sets {
            server
        } else {
            server.without_node_sets()
        };
        let cancel = CancellationToken::new();
        let (stop, at) = (cancel.clone(), endpoint.parse().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { server.serve_until(&at, stop.cancelled()).await.unwrap() });

        let options = Options {
            expected_name: None,
            allow_untagged: true,
            effect_prefixes: GrantedPrefixes::default(),
            controller_name: "node_sets".into(),
            controller_version: "v1".into(),
            kubernetes_version: String::new(),
            cluster: Cluster::default(),
            cluster_uid: String::new(),
            standby: false,
        };
        let meter = Meter::new(ProviderSocket::new(endpoint.parse().unwrap(), []));
        let metrics = ProviderMetrics::register(&mut Registry::default());
        let (provider, run) = Provider::new(options, meter.clone(), metrics, cancel.clone());
        tasks.spawn(run);
        provider.wait_until_serving().await;
        Self {
            provider,
            meter,
            counting,
            _tasks: tasks,
        }
    }

    async fn ensure(&self, services: &[Arc<ServiceView>], targets: &Arc<Targets>) -> Reading {
        self.call(services, targets, false).await
    }

    async fn update(&self, services: &[Arc<ServiceView>], targets: &Arc<Targets>) -> Reading {
        self.call(services, targets, true).await
    }

    async fn call(
        &self,
        services: &[Arc<ServiceView>],
        targets: &Arc<Targets>,
        is_update: bool,
    ) -> Reading {
        let balancers = self.provider.load_balancers();
        self.measure(services.len(), targets, async {
            stream::iter(services)
                .for_each_concurrent(WORKERS, async |service| {
                    let slot = balancers.slot(false).await;
                    let input = EnsureInput {
                        service: Arc::clone(service),
                        targets: Arc::clone(targets),
                    };
                    if is_update {
                        balancers.update(&slot, input).await.unwrap();
                    } else {
                        balancers.ensure(&slot, input).await.unwrap();
                    }
                })
                .await;
        })
        .await
    }

    /// Also that each Service came once, with all nodes.
    async fn measure(
        &self,
        count: usize,
        targets: &Targets,
        work: impl Future<Output = ()>,
    ) -> Reading {
        self.counting.take();
        let reading = self.meter.read(work).await;
        let counted = self.counting.take();
        assert_eq!(counted.services, count);
        assert_eq!(counted.targets, count * targets.nodes().len());
        reading.of(counted.calls.len())
    }
}

fn service(name: &str) -> Arc<ServiceView> {
    let mut service = services::balanced(name, ("app", name));
    let spec = service.spec.as_mut().unwrap();
    for (port, node_port) in spec.ports.iter_mut().flatten().zip(30_000..) {
        port.node_port = Some(node_port);
        port.protocol = Some("TCP".to_owned());
    }
    let mut service = serde_json::to_value(service).unwrap();
    let number = fastrand::u64(..);
    service["metadata"]["namespace"] = "default".into();
    service["metadata"]["uid"] = format!("6f0b2c1e-0000-4000-8000-{number:016x}").into();
    service["metadata"]["resourceVersion"] = number.to_string().into();
    service["metadata"]["finalizers"] = json!(["service.kubernetes.io/load-balancer-cleanup"]);
    service["spec"]["clusterIPs"] = json!(["10.96.12.34"]);
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    service["spec"]["ipFamilyPolicy"] = "SingleStack".into();
    service["spec"]["externalTrafficPolicy"] = "Cluster".into();
    service["spec"]["internalTrafficPolicy"] = "Cluster".into();
    service["spec"]["sessionAffinity"] = "None".into();
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "198.18.0.1"}]}});
    Arc::new(serde_json::from_value(service).unwrap())
}

/// Nodes as they are once they were initialised.
fn targets(count: usize) -> Arc<Targets> {
    let nodes = Machine::numbered("ip-10-0-12-34.eu-central-1.compute.internal-", count);
    let nodes = nodes.enumerate().map(|(number, machine)| {
        let machine = machine
            .initialized()
            .provider_id(format!("aws:///eu-central-1a/i-{number:017x}"))
            .provided_ip([10, 0, (number >> 8) as u8, number as u8].into())
            .label("topology.kubernetes.io/region", "eu-central-1")
            .label("topology.kubernetes.io/zone", "eu-central-1a")
            .label("node.kubernetes.io/instance-type", "m7i.2xlarge");
        let mut node = serde_json::to_value(machine.node(Timestamp::UNIX_EPOCH)).unwrap();
        node["metadata"]["uid"] = format!("6f0b2c1e-0000-4000-8000-{number:012x}").into();
        node["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        node["spec"]["podCIDRs"] = json!([format!("10.{}.{}.0/24", number >> 8, number & 255)]);
        let node: NodeView = serde_json::from_value(node).unwrap();
        Arc::new(node)
    });
    Arc::new(Targets::among(nodes))
}

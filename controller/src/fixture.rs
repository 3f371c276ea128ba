//! The loops over nodes against a small API of nodes and the mock over a pipe, on the paused clock.

mod cluster;
mod services;
mod warnings;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use outrigger_core::{
    lease::Terms,
    node::{NodeView, brake::Limits},
};
use outrigger_provider_mock::{
    Cloud, CloudConfig, MockProvider, ProviderOptions, cloud::Clock, instances::InstanceSpec,
};
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};
use tokio::{
    io::DuplexStream,
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::{cluster::Cluster, services::service, warnings::Warnings};
use crate::{
    control_loop::{self, LoopInputs, Term},
    fence::Fence,
    kube::{
        api::Api,
        events::{EventMetrics, Events},
        store::{Origin, Store},
        traffic::Traffic,
    },
    lifecycle::{self, LifecycleMetrics, NodeLifecycle},
    node::{self, CloudNode, NodeMetrics},
    provider::{self, Connect, Connecting, NotManaged, Provider, ProviderMetrics, Transport},
    queue::QueueMetrics,
};

/// How long a test waits on the paused clock.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Durations of a leader election as the flags have them by default.
pub(crate) fn terms() -> Terms {
    let secs = Duration::from_secs;
    Terms::new(secs(15), secs(10), secs(2)).unwrap()
}

/// A node as a kubelet registers it, with another client's taint.
pub(crate) fn node(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name},
        },
        "spec": {"taints": [
            {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
            {"key": "other", "effect": "NoExecute"},
        ]},
        "status": {"addresses": [{"type": "Hostname", "address": name}]},
    })
}

/// A node that was initialised long ago and whose kubelet is lost, or is not.
pub(crate) fn settled(name: &str, provider_id: &str, ready: &str) -> Value {
    let mut node = node(name);
    node["spec"] = json!({"providerID": provider_id});
    node["status"]["conditions"] = json!([{
        "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    node
}

/// In which each initialised node is looked at once.
pub(crate) const PERIOD: Duration = Duration::from_mins(5);

/// Nodes in one question.
const BATCH: u32 = 100;

/// The way between controller and provider, which a test can interrupt. The process behind it goes on.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    is_cut: watch::Sender<bool>,
}

impl Wire {
    fn new() -> Self {
        Self {
            is_cut: watch::Sender::new(false),
        }
    }

    /// Ends the connection and refuses new ones.
    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

/// Connections to a server in this process.
struct Pipe {
    dialed: mpsc::UnboundedSender<DuplexStream>,
    wire: Wire,
    connections: Mutex<JoinSet<()>>,
}

impl std::fmt::Display for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a pipe")
    }
}

impl Connect for Pipe {
    fn connect(&self) -> Connecting {
        let refused = || Err(std::io::ErrorKind::ConnectionRefused.into());
        let mut is_cut = self.wire.is_cut.subscribe();
        if *is_cut.borrow() {
            return std::future::ready(refused()).boxed();
        }
        let (here, mut near) = tokio::io::duplex(1 << 20);
        let (mut far, there) = tokio::io::duplex(1 << 20);
        let sent = self.dialed.send(there);
        self.connections.lock().spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                _ = is_cut.wait_for(|is_cut| *is_cut) => {}
            }
        });
        std::future::ready(match sent {
            Ok(()) => Ok(Box::new(here) as Box<dyn Transport>),
            Err(_) => refused(),
        })
        .boxed()
    }
}

/// The initial state of a test.
pub(crate) struct Setup {
    /// A machine for every node that is asked about.
    pub(crate) synthesize: bool,
    /// Nodes in the store when the loops start.
    pub(crate) nodes: Vec<Value>,
    pub(crate) cloud: Box<dyn FnOnce(&mut CloudConfig)>,
    pub(crate) provider: Box<dyn FnOnce(&mut ProviderOptions)>,
    pub(crate) prepare: Box<dyn FnOnce(&Cloud)>,
    pub(crate) cloud_node: bool,
    /// With these limits.
    pub(crate) lifecycle: Option<Limits>,
    /// Whether the store knows that it has all nodes.
    pub(crate) synced: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            synthesize: true,
            nodes: Vec::new(),
            cloud: Box::new(|_| {}),
            provider: Box::new(|_| {}),
            prepare: Box::new(|_| {}),
            cloud_node: true,
            lifecycle: None,
            synced: true,
        }
    }
}

/// The loops, their cluster and their cloud.
pub(crate) struct Fixture {
    pub(crate) cluster: Cluster,
    pub(crate) cloud: Cloud,
    pub(crate) nodes: Arc<Store<NodeView>>,
    may_write: Arc<AtomicBool>,
    term: Term,
    registry: Registry,
    lifecycle: Option<(lifecycle::Parts, LoopInputs<Arc<str>, lifecycle::Memory>)>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Fixture {
    /// The cloud-node loop with a machine for every node, and a store that has nothing to list.
    pub(crate) fn start(prepare: impl FnOnce(&Cloud) + 'static) -> Self {
        Self::with(Setup {
            prepare: Box::new(prepare),
            ..Setup::default()
        })
    }

    pub(crate) fn without_machines() -> Self {
        Self::with(Setup {
            synthesize: false,
            ..Setup::default()
        })
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let cluster = Cluster::new();
        let client = cluster.client();
        let mut config = CloudConfig::new().unwrap();
        config.synthesize = setup.synthesize;
        config.clock = Clock::tokio();
        (setup.cloud)(&mut config);
        let cloud = Cloud::new(config);
        (setup.prepare)(&cloud);
        let mut options = ProviderOptions {
            max_batch_size: BATCH,
            ..ProviderOptions::default()
        };
        (setup.provider)(&mut options);
        let mut registry = Registry::default();
        let mut tasks = JoinSet::new();
        let (provider, _) = provider(&cloud, options, &mut registry, &mut tasks);
        let metrics = EventMetrics::register(&mut registry);
        let (events, writer) = Events::new(Api::new(client.clone()), Traffic::default(), &metrics);
        tasks.spawn(writer.run(CancellationToken::new()));

        let nodes = Arc::new(Store::default());
        let not_managed = Arc::new(NotManaged::default());
        let queues = QueueMetrics::unregistered();
        let to_initialize = node::subscribe(&nodes, Arc::clone(&not_managed), &queues);
        let to_check = lifecycle::subscribe(&nodes, &queues);
        let may_write = Arc::new(AtomicBool::new(true));
        let fence: Fence = {
            let may_write = Arc::clone(&may_write);
            Fence::new(
                move || may_write.load(Ordering::Relaxed),
                &CancellationToken::new(),
            )
        };
        let term = Term { fence, lease: None };
        let api = Api::new(client);
        let cloud_node = node::Parts {
            api: api.clone(),
            nodes: Arc::clone(&nodes),
            provider: provider.clone(),
            events: events.recorder(node::NAME),
            settings: node::NodeSettings {
                workers: 32,
                refreshers: 32,
                refresh_period: PERIOD,
                selector: None,
            },
            not_managed: Arc::clone(&not_managed),
            overheard: lifecycle::overheard(&to_check),
            metrics: NodeMetrics::register(&mut registry),
        };
        let node_lifecycle = lifecycle::Parts {
            api,
            nodes: Arc::clone(&nodes),
            provider: provider.clone(),
            events: events.recorder(lifecycle::NAME),
            settings: lifecycle::LifecycleSettings {
                workers: 32,
                selector: None,
                limits: setup.lifecycle.clone().unwrap_or_default(),
            },
            not_managed,
            metrics: LifecycleMetrics::register(&mut registry),
        };
        let stop = CancellationToken::new();
        if setup.cloud_node {
            let cloud_node = CloudNode::new(cloud_node, &to_initialize, &term);
            tasks.spawn(control_loop::run(
                cloud_node,
                to_initialize,
                provider,
                stop.clone(),
            ));
        }
        let lifecycle = setup.lifecycle.map(|_| (node_lifecycle, to_check));
        tasks.spawn(tell_deletions(cluster.clone(), Arc::clone(&nodes)));
        let this = Self {
            cluster,
            cloud,
            nodes,
            may_write,
            term,
            registry,
            lifecycle,
            stop,
            tasks,
        };
        let mut this = this;
        this.run_lifecycle();
        for node in setup.nodes {
            this.register(node);
        }
        if setup.synced {
            this.nodes.finish_list(|_| true);
        }
        this
    }

    /// Ends the lease term, and begins another one of the lifecycle loop after so long.
    pub(crate) async fn next_term(&mut self, after: Duration) {
        self.stop.cancel();
        tokio::time::sleep(after).await;
        self.stop = CancellationToken::new();
        self.run_lifecycle();
    }

    fn run_lifecycle(&mut self) {
        if let Some((parts, inputs)) = self.lifecycle.clone() {
            let provider = parts.provider.clone();
            let next = NodeLifecycle::new(parts, &inputs, &self.term);
            let running = control_loop::run(next, inputs, provider, self.stop.clone());
            self.tasks.spawn(running);
        }
    }

    /// The API server takes the node in, and the watch brings it.
    pub(crate) fn register(&self, node: Value) {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        self.cluster.state.lock().nodes.insert(name.clone(), node);
        self.cluster.change(&name, |_| {});
        self.refresh(&name);
    }

    /// The watch brings the node as it is.
    pub(crate) fn refresh(&self, name: &str) {
        self.nodes.apply(
            serde_json::from_value(self.live(name)).unwrap(),
            Origin::Watch,
        );
    }

    pub(crate) fn live(&self, name: &str) -> Value {
        self.cluster.state.lock().nodes[name].clone()
    }

    pub(crate) fn create(&self, name: &str) {
        self.cloud
            .create(InstanceSpec::named(name.parse().unwrap()))
            .unwrap();
    }

    pub(crate) fn fence(&self) {
        self.may_write.store(false, Ordering::Relaxed);
    }

    /// All requests that are no GET.
    pub(crate) fn writes(&self) -> Vec<String> {
        let requests = self.cluster.requests.borrow();
        requests
            .iter()
            .filter(|request| !request.starts_with("GET"))
            .cloned()
            .collect()
    }

    pub(crate) async fn initialized(&self, name: &str) {
        let path = format!("PATCH /api/v1/nodes/{name}/status");
        self.cluster
            .until(|requests| requests.contains(&path))
            .await;
        let taints = self.live(name)["spec"]["taints"].to_string();
        assert!(!taints.contains(UNINITIALIZED), "{taints}");
    }

    pub(crate) async fn events(&self, count: usize) {
        let posts = |requests: &[String]| requests.iter().filter(|r| r.starts_with("POST")).count();
        self.cluster
            .until(|requests| posts(requests) >= count)
            .await;
    }

    /// Waits until the provider was asked so often.
    pub(crate) async fn asked(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.cloud.counters().calls("BatchGetInstances", "OK") < count {
            assert!(Instant::now() < deadline, "{:?}", self.cloud.counters());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lets everything happen that would happen within a minute.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_mins(1)).await;
    }

    /// Removes the Node and delivers the watch's event, as after a deletion by another client.
    pub(crate) fn vanish(&self, name: &str) {
        self.cluster.state.lock().nodes.remove(name);
        self.nodes.delete(name, Origin::Watch);
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.cluster.state.lock().nodes.contains_key(name)
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

/// Delivers the watch's events of nodes that the loops delete.
async fn tell_deletions(cluster: Cluster, nodes: Arc<Store<NodeView>>) {
    let mut requests = cluster.requests.subscribe();
    while requests.changed().await.is_ok() {
        let deleted: Vec<_> = requests
            .borrow_and_update()
            .iter()
            .filter_map(|request| request.strip_prefix("DELETE /api/v1/nodes/"))
            .map(str::to_owned)
            .collect();
        for name in deleted {
            if !cluster.state.lock().nodes.contains_key(&name) {
                nodes.delete(&name, Origin::Watch);
            }
        }
    }
}

/// An adapter to a mock of `cloud`, and the wire between them.
pub(crate) fn provider(
    cloud: &Cloud,
    options: ProviderOptions,
    registry: &mut Registry,
    tasks: &mut JoinSet<()>,
) -> (Provider, Wire) {
    let (dialed, accepted) = mpsc::unbounded_channel();
    let incoming = futures::stream::unfold(accepted, async |mut accepted| {
        let stream: Option<DuplexStream> = accepted.recv().await;
        stream.map(|stream| (std::io::Result::Ok(stream), accepted))
    });
    let server = MockProvider::with_options(cloud.clone(), options).into_server();
    tasks.spawn(async move {
        server
            .serve_with_incoming(incoming, std::future::pending())
            .await
            .unwrap();
    });
    let options = provider::Options {
        expected_name: None,
        allow_untagged: false,
        controller_name: "test".into(),
        controller_version: "0".into(),
        kubernetes_version: "v1".into(),
        cluster: provider::Cluster {
            name: "kubernetes".into(),
            uid: "uid-of-kube-system".into(),
            ..Default::default()
        },
        max_receive_bytes: 4 << 20,
        standby: false,
    };
    let cancel = CancellationToken::new();
    let metrics = ProviderMetrics::register(registry);
    let wire = Wire::new();
    let pipe = Pipe {
        dialed,
        wire: wire.clone(),
        connections: Mutex::default(),
    };
    let (provider, connection) = Provider::new(options, pipe, metrics, cancel);
    tasks.spawn(connection);
    (provider, wire)
}

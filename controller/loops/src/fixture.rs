//! One process of the controller for tests of any loop: a small API server, the mock provider behind a pipe,
//! stores, events and lease terms, on the paused clock.
//!
//! ```text
//!  Cluster (API server) ◄─ requests ── loops ──► Provider ─ Wire ─► MockProvider ─► Cloud
//!     └ register, refresh ─► stores ─► event handlers ─► queue ─┘
//! ```
//!
//! A test of a loop makes a [`Fixture`], subscribes its loop to the stores, hosts it, and begins a lease term:
//!
//! ```ignore
//! let mut fixture = Fixture::new(Setup::default());
//! let inputs = subscribe(&fixture.nodes, &fixture.queues);
//! fixture.host(NAME, inputs, move |context| NodeRoute::new(context, settings.clone(), metrics.clone()));
//! fixture.nodes.finish_list(|_| true);
//! fixture.begin_term();
//! ```
//!
//! Nothing runs before the test awaits. The store of Nodes gets what the test lets the watch bring
//! ([`Fixture::register`], [`Fixture::refresh`]), so that a test can change a Node behind its back
//! ([`Cluster::change_node`]); the store of Services follows the API server ([`Fixture::watch_services`]).

#![allow(
    clippy::expect_used,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

mod days;
mod provider;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outrigger_core::{node::NodeView, service::ServiceView};
use outrigger_provider_mock::{
    Cloud, CloudConfig, ProviderOptions, cloud::Clock, instances::InstanceSpec,
};
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

pub use self::{
    days::{days_and_hours, each_costs_as_much},
    provider::Wire,
};
use crate::{
    context::{LoopContext, LoopParts, Term},
    control_loop::{self, ControlLoop, Host, LoopInputs},
    queue::QueueMetrics,
};
use outrigger_kube::{
    api::Api,
    events::{EventMetrics, Events, Recorder},
    fixture::{Cluster, PATIENCE, UNINITIALIZED},
    leader::Handle,
    store::{Origin, Store},
    watch::Sight,
};
use outrigger_provider::Provider;
use outrigger_runtime::{fence::Fence, history::History};

/// A cloud on the paused clock.
pub fn cloud(configure: impl FnOnce(&mut CloudConfig)) -> Cloud {
    let mut config = CloudConfig::new().unwrap();
    config.clock = Clock::tokio();
    configure(&mut config);
    Cloud::new(config)
}

/// The initial state of a test.
pub struct Setup {
    /// Processes that share it are replicas.
    pub cluster: Cluster,
    pub cloud: Cloud,
    pub provider: ProviderOptions,
    /// The Lease of the lease terms, if the loops write to it.
    pub lease: Option<Handle>,
    /// How long after its begin a lease term is without writes of an earlier leader.
    pub quiet_after: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cluster: Cluster::new(),
            cloud: cloud(|_| {}),
            provider: ProviderOptions::default(),
            lease: None,
            quiet_after: Duration::ZERO,
        }
    }
}

/// A process of the controller, its cluster and its cloud.
pub struct Fixture {
    pub cluster: Cluster,
    pub cloud: Cloud,
    pub wire: Wire,
    pub api: Api,
    pub provider: Provider,
    pub nodes: Arc<Store<NodeView>>,
    pub services: Arc<Store<ServiceView>>,
    pub queues: QueueMetrics,
    pub history: History,
    pub sight: Sight,
    pub registry: Registry,
    events: Events,
    lease: Option<Handle>,
    quiet_after: Duration,
    may_act: Arc<AtomicBool>,
    hosts: Vec<Host>,
    stop: Mutex<CancellationToken>,
    tasks: Mutex<JoinSet<()>>,
}

impl Fixture {
    pub fn new(setup: Setup) -> Self {
        let Setup {
            cluster,
            cloud,
            provider,
            lease,
            quiet_after,
        } = setup;
        let mut registry = Registry::default();
        let mut tasks = JoinSet::new();
        let (provider, wire) = provider::connect(&cloud, provider, &mut registry, &mut tasks);
        let metrics = EventMetrics::register(&mut registry);
        let api = Api::new(cluster.client());
        let (events, writer) = Events::new(api.clone(), watch::channel(0).1, &metrics);
        tasks.spawn(writer.run(CancellationToken::new(), Duration::ZERO));
        let nodes = Arc::new(Store::default());
        let store = Arc::clone(&nodes);
        let watch = cluster.clone();
        tasks.spawn(watch.each_deletion(move |name| store.delete(name, Origin::Watch)));
        Self {
            cluster,
            cloud,
            wire,
            api,
            provider,
            nodes,
            services: Arc::default(),
            queues: QueueMetrics::default(),
            history: History::new(1 << 20),
            sight: Sight::default(),
            registry,
            events,
            lease,
            quiet_after,
            may_act: Arc::new(AtomicBool::new(true)),
            hosts: Vec::new(),
            stop: Mutex::default(),
            tasks: Mutex::new(tasks),
        }
    }

    /// Runs the loop of `make` over the keys of `inputs` in each lease term that begins from now on. Its events are
    /// those of `component`.
    pub fn host<L: ControlLoop>(
        &mut self,
        component: &'static str,
        inputs: LoopInputs<L::Key, L::State>,
        make: impl Fn(LoopContext<L::Key>) -> L + Send + Sync + 'static,
    ) {
        let parts = self.parts(component);
        self.hosts.push(control_loop::host(parts, inputs, make));
    }

    /// The parts of a loop whose events have this component.
    pub fn parts(&self, component: &'static str) -> LoopParts {
        LoopParts {
            api: self.api.clone(),
            provider: self.provider.clone(),
            nodes: Arc::clone(&self.nodes),
            events: self.recorder(component),
            history: self.history.clone(),
            doubts: self.sight.doubts(),
        }
    }

    /// A lease term of this process.
    pub fn term(&self) -> Term {
        let may_act = Arc::clone(&self.may_act);
        Term {
            fence: Fence::new(
                move || may_act.load(Ordering::Relaxed),
                &CancellationToken::new(),
            ),
            lease: self.lease.clone(),
            quiet_at: Instant::now() + self.quiet_after,
        }
    }

    pub fn begin_term(&self) {
        let stop = CancellationToken::new();
        let mut tasks = self.tasks.lock();
        for host in &self.hosts {
            tasks.spawn(host(&self.term(), stop.clone()));
        }
        *self.stop.lock() = stop;
    }

    pub fn end_term(&self) {
        self.stop().cancel();
    }

    /// The stop of the lease term.
    pub fn stop(&self) -> CancellationToken {
        self.stop.lock().clone()
    }

    /// Another process may lead: nothing is written or called any more.
    pub fn fence(&self) {
        self.may_act.store(false, Ordering::Relaxed);
    }

    /// Ends as by SIGKILL.
    pub fn kill(&self) {
        self.tasks.lock().abort_all();
    }

    /// Work of the process that is no loop.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().spawn(task);
    }

    pub fn recorder(&self, component: &'static str) -> Recorder {
        self.events.recorder(component)
    }

    /// Keeps the store of Services in sync with the API server.
    pub fn watch_services(&self) {
        let services = Arc::clone(&self.services);
        self.spawn(self.cluster.clone().watch_services(services));
    }

    /// The API server takes the node in, and the watch brings it.
    pub fn register(&self, node: Value) {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        self.cluster.create_node(node);
        self.cluster.change_node(&name, |_| {});
        self.refresh(&name);
    }

    /// The watch brings the node as it is.
    pub fn refresh(&self, name: &str) {
        self.observe(self.live(name));
    }

    /// The watch brings this node, whatever the API server has.
    pub fn observe(&self, node: Value) {
        let node = serde_json::from_value(node).unwrap();
        self.nodes.apply(node, Origin::Watch);
    }

    /// Another client deletes the node, and the watch brings it.
    pub fn vanish(&self, name: &str) {
        self.cluster.delete_node(name);
        self.nodes.delete(name, Origin::Watch);
    }

    pub fn live(&self, name: &str) -> Value {
        self.cluster.node(name).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.cluster.node(name).is_some()
    }

    /// A machine of this name.
    pub fn create(&self, name: &str) {
        self.cloud
            .create(InstanceSpec::named(name.parse().unwrap()))
            .unwrap();
    }

    /// All requests that are no GET.
    pub fn api_writes(&self) -> Vec<String> {
        let mut requests = self.cluster.requests();
        requests.retain(|request| !request.starts_with("GET"));
        requests
    }

    /// Reasons of all events, in order.
    pub fn events(&self) -> Vec<String> {
        let requests = self.cluster.requests();
        let posts = requests.iter().filter_map(|r| r.strip_prefix("POST "));
        posts.map(str::to_owned).collect()
    }

    pub async fn until_events(&self, count: usize) {
        let posts = |requests: &[String]| requests.iter().filter(|r| r.starts_with("POST")).count();
        self.cluster
            .until(|requests| posts(requests) >= count)
            .await;
    }

    pub async fn initialized(&self, name: &str) {
        let path = format!("PATCH /api/v1/nodes/{name}/status");
        self.cluster
            .until(|requests| requests.contains(&path))
            .await;
        let taints = self.live(name)["spec"]["taints"].to_string();
        assert!(!taints.contains(UNINITIALIZED), "{taints}");
    }

    /// Calls of a method, however they ended.
    pub fn calls(&self, method: &str) -> u64 {
        let counters = self.cloud.counters();
        let codes = counters.calls.get(method);
        codes.map_or(0, |codes| codes.values().sum())
    }

    /// Waits until so many lookups were answered.
    pub async fn asked(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.cloud.counters().calls("BatchGetInstances", "OK") < count {
            assert!(Instant::now() < deadline, "{:?}", self.cloud.counters());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lets everything happen that would happen within a minute.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_mins(1)).await;
    }

    pub fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

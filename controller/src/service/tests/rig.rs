//! The loop over a small API of Services and a mock's cloud, on the paused clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outrigger_core::{
    node::NodeView,
    service::ServiceView,
    targets::{Allowance, Pace},
};
use outrigger_provider_mock::{
    Cloud, CloudConfig, ProviderOptions,
    cloud::Clock,
    faults::{Effect, Fault, InjectedError, Method},
};
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::Value;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    control_loop::{self, Term},
    fence::Fence,
    fixture::{self, Cluster, PATIENCE, Wire, settled, terms},
    kube::{
        api::Api,
        events::{EventMetrics, Events},
        store::{Origin, Store},
        traffic::Traffic,
    },
    leader::{Elector, LeaderConfig, LeaderMetrics, tests::store::Store as LeaseStore},
    queue::QueueMetrics,
    service::{COMPONENT, Intake, Parts, ServiceLb, ServiceMetrics, ServiceSettings},
};

/// The initial state of a test.
pub(super) struct Setup {
    pub(super) cluster: Cluster,
    pub(super) cloud: Option<Cloud>,
    pub(super) lease: LeaseStore,
    pub(super) config: Box<dyn FnOnce(&mut CloudConfig)>,
    pub(super) provider: ProviderOptions,
    pub(super) settings: ServiceSettings,
    /// Names of nodes that are there at the start.
    pub(super) nodes: Vec<String>,
    /// Whether the loop runs; else the process is a standby.
    pub(super) leads: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cluster: Cluster::new(),
            cloud: None,
            lease: LeaseStore::default(),
            config: Box::new(|_| {}),
            provider: ProviderOptions::default(),
            settings: ServiceSettings {
                workers: 32,
                pace: Pace::default(),
                allowance: Allowance::default(),
                drift_period: None,
            },
            nodes: (0..10).map(|n| format!("n{n}")).collect(),
            leads: true,
        }
    }
}

/// A cloud on the paused clock.
pub(super) fn new_cloud(configure: impl FnOnce(&mut CloudConfig)) -> Cloud {
    let mut config = CloudConfig::new().unwrap();
    config.clock = Clock::tokio();
    configure(&mut config);
    Cloud::new(config)
}

/// A process with the loop.
pub(super) struct Rig {
    pub(super) cluster: Cluster,
    pub(super) cloud: Cloud,
    pub(super) lease: LeaseStore,
    pub(super) nodes: Arc<Store<NodeView>>,
    pub(super) services: Arc<Store<ServiceView>>,
    pub(super) wire: Wire,
    may_act: Arc<AtomicBool>,
    registry: Registry,
    start: Mutex<Option<(Parts, Intake)>>,
    stop: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
    handle: crate::leader::Handle,
}

impl Rig {
    pub(super) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(super) async fn with(setup: Setup) -> Self {
        let cluster = setup.cluster;
        let cloud = setup.cloud.unwrap_or_else(|| new_cloud(setup.config));
        let mut registry = Registry::default();
        let mut tasks = JoinSet::new();
        let (provider, wire) = fixture::provider(&cloud, setup.provider, &mut registry, &mut tasks);
        let events = EventMetrics::register(&mut registry);
        let (events, writer) = Events::new(Api::new(cluster.client()), Traffic::default(), &events);
        tasks.spawn(writer.run(CancellationToken::new()));

        let (services, nodes) = (Arc::new(Store::default()), Arc::new(Store::default()));
        let intake = Intake::new(
            &services,
            &nodes,
            provider.clone(),
            setup.settings.pace,
            &QueueMetrics::unregistered(),
        );
        tasks.spawn(cluster.clone().watch_services(Arc::clone(&services)));

        let lease = LeaderConfig {
            namespace: "kube-system".into(),
            name: "ccm".into(),
            identity: format!("process-{}", fastrand::u32(..)),
            terms: terms(),
        };
        let (elector, handle) = Elector::new(
            setup.lease.api(),
            lease,
            LeaderMetrics::default(),
            watch::channel(true).1,
            Arc::new(|_| {}),
        );
        tasks.spawn(async move {
            elector.run().await;
        });
        let parts = Parts {
            api: Api::new(cluster.client()),
            services: Arc::clone(&services),
            nodes: Arc::clone(&nodes),
            provider,
            events: events.recorder(COMPONENT),
            settings: setup.settings,
            metrics: ServiceMetrics::register(&mut registry),
        };
        let this = Self {
            cluster,
            cloud,
            lease: setup.lease,
            nodes,
            services,
            wire,
            may_act: Arc::new(AtomicBool::new(true)),
            registry,
            start: Mutex::new(Some((parts, intake))),
            stop: CancellationToken::new(),
            tasks: Mutex::new(tasks),
            handle,
        };
        for name in setup.nodes {
            this.join(&name);
        }
        this.nodes.finish_list(|_| true);
        this.services.synced().await;
        if setup.leads {
            this.lead().await;
        }
        this
    }

    /// Begins a lease term.
    pub(super) async fn lead(&self) {
        let mut leadership = self.handle.leadership();
        let leads = leadership.wait_for(|now| now.leading().is_some());
        drop(timeout(PATIENCE, leads).await.expect("leads").unwrap());
        let (parts, intake) = self.start.lock().take().unwrap();
        let may_act = Arc::clone(&self.may_act);
        let may_act = move || may_act.load(Ordering::Relaxed);
        let term = Term {
            fence: Fence::new(may_act, &CancellationToken::new()),
            lease: Some(self.handle.clone()),
        };
        let provider = parts.provider.clone();
        let service_lb = ServiceLb::new(parts, &intake, &term);
        let running = control_loop::run(service_lb, intake.inputs, provider, self.stop.clone());
        self.tasks.lock().spawn(running);
        sleep(Duration::from_millis(1)).await;
    }

    /// The loop without its tasks, once the provider serves.
    pub(super) async fn idle(&self) -> ServiceLb {
        let (parts, intake) = self.start.lock().take().unwrap();
        parts.provider.serving().await;
        let term = Term {
            fence: Fence::new(|| true, &CancellationToken::new()),
            lease: None,
        };
        ServiceLb::new(parts, &intake, &term)
    }

    /// Ends as on SIGTERM.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        sleep(Duration::from_secs(1)).await;
        self.handle.release().await;
        self.tasks.lock().abort_all();
    }

    /// The same cluster and cloud, another process.
    pub(super) async fn restart(self) -> Self {
        self.restart_with(Setup::default()).await
    }

    pub(super) async fn restart_with(self, setup: Setup) -> Self {
        self.stop().await;
        Self::with(Setup {
            cluster: self.cluster,
            cloud: Some(self.cloud),
            lease: self.lease,
            ..setup
        })
        .await
    }

    pub(super) fn fence(&self) {
        self.may_act.store(false, Ordering::Relaxed);
    }

    /// A node that was initialised long ago.
    pub(super) fn join(&self, name: &str) {
        self.node(settled(name, &format!("mock://{name}"), "True"));
    }

    pub(super) fn node(&self, node: Value) {
        self.nodes
            .apply(serde_json::from_value(node).unwrap(), Origin::Watch);
    }

    pub(super) fn leave(&self, name: &str) {
        self.nodes.delete(name, Origin::Watch);
    }

    /// Calls of a method, however they ended.
    pub(super) fn calls(&self, method: &str) -> u64 {
        let counters = self.cloud.counters();
        let codes = counters.calls.get(method);
        codes.map_or(0, |codes| codes.values().sum())
    }

    /// All that could change the cloud.
    pub(super) fn mutations(&self) -> u64 {
        [
            "EnsureLoadBalancer",
            "UpdateLoadBalancerNodes",
            "DeleteLoadBalancer",
        ]
        .into_iter()
        .map(|method| self.calls(method))
        .sum()
    }

    /// Fails every call of a method.
    pub(super) fn fail(&self, method: Method, error: InjectedError) {
        self.cloud.inject(Fault::on(method, Effect::Error(error)));
    }

    /// Waits until it holds.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the Service has an address.
    pub(super) async fn ready(&self, key: &str) {
        self.until("an address", |rig| {
            let service = rig.cluster.service(key);
            service.is_some_and(|s| s["status"]["loadBalancer"]["ingress"][0]["ip"].is_string())
        })
        .await;
        // Until the watch has brought it.
        sleep(Duration::from_secs(1)).await;
    }

    /// Names of the targets of the only load balancer.
    pub(super) fn targets(&self) -> Vec<String> {
        let all = self.cloud.load_balancers();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].targets.iter().map(|t| t.node.to_string()).collect()
    }

    /// Reasons of the events about Services, in order.
    pub(super) fn events(&self) -> Vec<String> {
        let requests = self.cluster.requests();
        let posts = requests.iter().filter_map(|r| r.strip_prefix("POST "));
        posts.map(str::to_owned).collect()
    }

    /// Writes to Services.
    pub(super) fn writes(&self) -> usize {
        let log = self.cluster.log();
        log.iter().filter(|r| r.starts_with("PATCH")).count()
    }

    pub(super) fn condition(&self, key: &str, kind: &str) -> Option<(String, String)> {
        let service = self.cluster.service(key)?;
        let conditions = service["status"]["conditions"].as_array()?;
        let found = conditions
            .iter()
            .find(|c| c["type"] == format!("outrigger.dev/{kind}"))?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason")))
    }

    pub(super) fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

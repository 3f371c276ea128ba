//! The loop in a replica with a Lease.

use std::{ops::Deref, sync::Arc, time::Duration};

use outrigger_core::targets::Pace;
use outrigger_provider_mock::{
    Cloud, ProviderOptions, ServedLoadBalancers,
    faults::{Effect, Fault, InjectedError, Method},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{
    context::LoopContext,
    fixture::{self, Fixture, cloud},
    service::{
        COMPONENT, ServiceInputs, ServiceLb, ServiceMetrics, ServiceSettings, states::ServiceKey,
        subscribe,
    },
};
use outrigger_kube::{
    fixture::{Cluster, PATIENCE, durations, lease::Store as LeaseStore, settled},
    leader::{Elector, Handle, LeaderConfig, LeaderMetrics},
    watch::Sight,
};

/// The initial state of a test.
pub(super) struct Setup {
    pub(super) cluster: Cluster,
    pub(super) cloud: Cloud,
    pub(super) lease: LeaseStore,
    pub(super) provider: ProviderOptions,
    pub(super) settings: ServiceSettings,
    /// Names of nodes that are there at the start.
    pub(super) nodes: Vec<String>,
    /// True if the loop runs; else the process is a standby.
    pub(super) leads: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cluster: Cluster::new(),
            cloud: cloud(|_| {}),
            lease: LeaseStore::default(),
            provider: ProviderOptions::default(),
            settings: ServiceSettings {
                workers: 32,
                pace: Pace::default(),
                drift_period: None,
            },
            nodes: (0..10).map(|n| format!("n{n}")).collect(),
            leads: true,
        }
    }
}

impl Setup {
    /// With a provider that serves load balancers so.
    pub(super) fn serving(served: ServedLoadBalancers) -> Self {
        Self {
            provider: ProviderOptions {
                load_balancers: Some(served),
                ..ProviderOptions::default()
            },
            ..Self::default()
        }
    }

    /// With a provider that takes one call at a time, as a Go cloud behind the adapter.
    pub(super) fn one_call_at_a_time() -> Self {
        Self::serving(ServedLoadBalancers {
            max_in_flight: 1,
            ..ServedLoadBalancers::default()
        })
    }
}

/// A replica with the loop.
pub(super) struct Rig {
    fixture: Fixture,
    pub(super) lease: LeaseStore,
    handle: Handle,
    make: Arc<dyn Fn(LoopContext<ServiceKey>) -> ServiceLb + Send + Sync>,
    inputs: ServiceInputs,
}

impl Deref for Rig {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl Rig {
    pub(super) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(super) async fn with(setup: Setup) -> Self {
        let config = LeaderConfig {
            namespace: "kube-system".into(),
            name: "ccm".into(),
            identity: Arc::new(format!("process-{}", fastrand::u32(..)).into()),
            durations: durations(),
            sight: Sight::default(),
        };
        let (elector, handle) = Elector::new(
            setup.lease.api(),
            config,
            LeaderMetrics::default(),
            watch::channel(true).1,
            Arc::new(|_, _| {}),
        );
        let mut fixture = Fixture::new(fixture::Setup {
            cluster: setup.cluster,
            cloud: setup.cloud,
            provider: setup.provider,
            lease: Some(handle.clone()),
            ..fixture::Setup::default()
        });
        fixture.spawn(async move {
            elector.run().await;
        });
        let inputs = subscribe(
            &fixture.services,
            &fixture.nodes,
            fixture.provider.clone(),
            setup.settings.pace,
            &fixture.queues,
        );
        let metrics = ServiceMetrics::register(&mut fixture.registry);
        let services = Arc::clone(&fixture.services);
        let settings = setup.settings;
        let make = {
            let inputs = inputs.clone();
            Arc::new(move |context| {
                let (services, metrics) = (Arc::clone(&services), metrics.clone());
                ServiceLb::new(context, services, settings, &inputs, metrics)
            })
        };
        let hosted = Arc::clone(&make);
        fixture.host(COMPONENT, inputs.keys.clone(), move |context| {
            hosted(context)
        });
        fixture.watch_services();
        let this = Self {
            fixture,
            lease: setup.lease,
            handle,
            make,
            inputs,
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
        self.begin_term();
        sleep(Duration::from_millis(1)).await;
    }

    /// The loop without its tasks, once the provider serves.
    pub(super) async fn idle(&self) -> ServiceLb {
        self.provider.wait_until_serving().await;
        let queue = self.inputs.keys.queue.clone();
        (self.make)(LoopContext::new(
            &self.parts(COMPONENT),
            queue,
            &self.term(),
        ))
    }

    /// Ends as on SIGTERM.
    pub(super) async fn stop(&self) {
        self.end_term();
        sleep(Duration::from_secs(1)).await;
        self.handle.release().await;
        self.kill();
    }

    /// The same cluster and cloud, another process.
    pub(super) async fn restart(self) -> Self {
        self.restart_with(Setup::default()).await
    }

    pub(super) async fn restart_with(self, setup: Setup) -> Self {
        self.stop().await;
        Self::with(Setup {
            cluster: self.cluster.clone(),
            cloud: self.cloud.clone(),
            lease: self.lease,
            ..setup
        })
        .await
    }

    /// A node that was initialised long ago.
    pub(super) fn join(&self, name: &str) {
        self.observe(settled(name, &format!("mock://{name}"), "True"));
    }

    pub(super) fn leave(&self, name: &str) {
        self.vanish(name);
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

    /// Writes to Services.
    pub(super) fn writes(&self) -> usize {
        let log = self.cluster.log();
        log.iter().filter(|r| r.starts_with("PATCH")).count()
    }

    pub(super) fn condition(&self, key: &str, kind: &str) -> Option<(String, String)> {
        let service = self.cluster.service(key)?;
        let conditions = service["status"]["conditions"].as_array()?;
        let condition = conditions
            .iter()
            .find(|c| c["type"] == format!("outrigger.dev/{kind}"))?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason")))
    }
}

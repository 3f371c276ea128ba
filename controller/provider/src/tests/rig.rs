//! The adapter at work, and the nodes it is asked about.

use std::{sync::Arc, time::Duration};

use outrigger_api::{MethodRequest, v1};
use outrigger_core::{
    effects::GrantedPrefixes,
    node::{NodeView, instance::Lookup},
    service::{ServiceView, answer::LoadBalancerAnswer},
    targets::Targets,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::fake::{Fake, Pipe};
use crate::{
    Cluster, Error, LookupPurpose, Options, Provider, ProviderMetrics, ProviderState, Slot,
    admission::CallClass,
};

/// A time of the paused clock: what has not come by then does not come.
const LONG: Duration = Duration::from_hours(1);

/// The adapter at work.
pub(crate) struct Rig {
    pub(crate) fake: Arc<Fake>,
    pub(crate) provider: Provider,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: JoinSet<()>,
    registry: Registry,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::with(|_, _| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options, &Fake)) -> Self {
        let fake = Fake::new();
        let mut options = options();
        change(&mut options, &fake);
        let mut registry = Registry::default();
        let cancel = CancellationToken::new();
        let pipe = Pipe(Arc::clone(&fake));
        let metrics = ProviderMetrics::register(&mut registry);
        let (provider, run) = Provider::new(options, Box::new(pipe), metrics, cancel.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(run);
        Self {
            fake,
            provider,
            cancel,
            tasks,
            registry,
        }
    }

    /// With a provider that serves load balancers, and whatever `change` makes of it.
    pub(crate) async fn balancing(
        change: impl Fn(&mut v1::Capabilities) + Send + Sync + 'static,
    ) -> Self {
        let rig = Self::with(|_, fake| {
            fake.introduce(move |answer| {
                let offered = answer.capabilities.get_or_insert_default();
                offered.load_balancers = Some(v1::LoadBalancersCapability {
                    list: true,
                    plan: true,
                    ..v1::LoadBalancersCapability::default()
                });
                change(offered);
            });
        });
        rig.wait_until_serving().await;
        rig
    }

    /// With a provider of load balancers that accepts messages of 64 KiB.
    pub(crate) async fn balancing_in_small_messages() -> Self {
        let rig = Self::with(|_, fake| {
            fake.introduce(|answer| {
                answer.max_receive_message_bytes = 64 << 10;
                let offered = answer.capabilities.get_or_insert_default();
                offered.load_balancers = Some(v1::LoadBalancersCapability::default());
            });
        });
        rig.wait_until_serving().await;
        rig
    }

    /// With a provider that serves routes, in this way.
    pub(crate) async fn routing(offered: v1::RoutesCapability) -> Self {
        let rig = Self::with(|_, fake| {
            fake.introduce(move |answer| {
                answer.capabilities.get_or_insert_default().routes = Some(offered);
            });
        });
        rig.wait_until_serving().await;
        rig
    }

    /// [`Rig::balancing`] that holds node sets.
    pub(crate) async fn holding() -> Self {
        Self::balancing(|offered| offered.node_sets = Some(v1::NodeSetsCapability {})).await
    }

    /// Waits for a state.
    pub(crate) async fn reaches(
        &self,
        is_reached: impl FnMut(&ProviderState) -> bool,
    ) -> ProviderState {
        let mut state = self.provider.state();
        let reached = timeout(LONG, state.wait_for(is_reached)).await;
        reached.expect("a state").unwrap().clone()
    }

    pub(crate) async fn wait_until_serving(&self) {
        let serving = self.provider.wait_until_serving();
        timeout(LONG, serving)
            .await
            .expect("a provider that serves");
    }

    /// Waits until calls of `class` are not paused.
    pub(crate) async fn open(&self, class: CallClass) {
        self.provider.caller.shared.admission.open(class).await;
    }

    pub(crate) async fn look_up(&self, name: &str) -> Result<Lookup, Error> {
        let lookup = self
            .provider
            .instances()
            .look_up(node(name), LookupPurpose::Initialization);
        timeout(LONG, lookup).await.expect("an answer").result
    }

    /// All at once, in order.
    pub(crate) async fn look_up_all(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> Vec<Result<Lookup, Error>> {
        futures::future::join_all(
            names
                .into_iter()
                .map(async |name| self.look_up(&name).await),
        )
        .await
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

/// The operator's grant.
pub(crate) fn granted() -> GrantedPrefixes {
    let domains = ["write.example/", "node.example/"].map(String::from);
    GrantedPrefixes::new(domains).unwrap()
}

pub(crate) fn options() -> Options {
    Options {
        effect_prefixes: granted(),
        controller_name: "cloud-controller-manager".into(),
        controller_version: "v1".into(),
        kubernetes_version: "v1.36.3".into(),
        cluster: Cluster {
            name: "blue".into(),
            ..Cluster::default()
        },
        cluster_uid: "uid-1".into(),
        ..Options::default()
    }
}

pub(crate) fn node(name: &str) -> Arc<NodeView> {
    node_with(name, "uid-1", "")
}

pub(crate) fn node_with(name: &str, uid: &str, provider_id: &str) -> Arc<NodeView> {
    let json = serde_json::json!({
        "metadata": {
            "name": name,
            "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"a": "b"},
            "annotations": {"read.example/a": "1", "other.example/b": "2"},
        },
        "spec": {"providerID": provider_id},
        "status": {"nodeInfo": {"systemUUID": "smbios"}},
    });
    Arc::new(serde_json::from_value(json).unwrap())
}

/// A Service of type `LoadBalancer` in the namespace `shop`.
pub(crate) fn service(name: &str) -> Arc<ServiceView> {
    service_with(name, |_| {})
}

pub(crate) fn service_with(
    name: &str,
    change: impl FnOnce(&mut serde_json::Value),
) -> Arc<ServiceView> {
    let mut json = serde_json::json!({
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": format!("uid-{name}"),
            "annotations": {"read.example/a": "1"},
        },
        "spec": {
            "type": "LoadBalancer",
            "ports": [{"protocol": "TCP", "port": 80, "nodePort": 30080}],
        },
    });
    change(&mut json);
    Arc::new(serde_json::from_value(json).unwrap())
}

/// Targets of these names.
pub(crate) fn targets<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Arc<Targets> {
    let nodes = names.into_iter().map(|name| node(name.as_ref()));
    Arc::new(Targets::among(nodes))
}

type Answered = Result<LoadBalancerAnswer, Error>;

/// Calls about load balancers as a loop makes them, without a queue: each waits for its slot by itself.
impl Provider {
    /// Returns a slot like [`LoadBalancers::slot`], but fails without a provider.
    async fn slot_now(&self, rpc: &'static str) -> Result<Slot, Error> {
        let caller = &self.caller;
        let admitted = caller.shared.admit(v1::EnsureLoadBalancerRequest::METHOD);
        caller.wait(rpc, admitted).await.flatten()
    }

    pub(super) async fn ensure_alone(
        &self,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Answered {
        let slot = self.slot_now("EnsureLoadBalancer").await?;
        let ensure = self.load_balancers();
        ensure.ensure(slot, service, targets).await
    }

    pub(super) async fn update_alone(
        &self,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Answered {
        let slot = self.slot_now("UpdateLoadBalancerNodes").await?;
        let update = self.load_balancers();
        update.update(slot, service, targets).await
    }

    pub(super) async fn delete_alone(&self, service: &ServiceView) -> Answered {
        let slot = self.slot_now("DeleteLoadBalancer").await?;
        self.load_balancers().delete(slot, service).await
    }
}

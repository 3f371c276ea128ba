//! A cluster as all clients but the controller see it: nodes, Services, events, Leases.

pub(crate) mod services;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    coordination::v1::{Lease, LeaseSpec},
    core::v1::{Event, Node},
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, Patch, PatchParams},
};
use outrigger_testbed::{
    faults::FaultProxy,
    nodes::{self, Machine},
};
use serde_json::{Value, json};

use crate::{
    look::{is_tainted, reason, uid},
    plane::{Plane, USER},
    replica::LEASE,
    wait::{holds, until},
};

/// Where Leases are.
pub(crate) const SYSTEM: &str = "kube-system";

/// A control plane without nodes, and an administrator's client.
pub(crate) struct Cluster {
    client: Client,
    pub(crate) plane: Plane,
}

impl Cluster {
    pub(crate) async fn take() -> Self {
        let plane = Plane::take().await;
        Self {
            client: plane.client().unwrap(),
            plane,
        }
    }

    pub(crate) fn admin(&self) -> Client {
        self.client.clone()
    }

    /// Another way to the API server for a controller.
    pub(crate) async fn way(&self) -> FaultProxy {
        FaultProxy::start_as(&self.plane, USER, None).await.unwrap()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.admin())
    }

    pub(crate) async fn register(&self, machine: &Machine) -> Node {
        nodes::register(&self.client, machine).await.unwrap()
    }

    pub(crate) async fn register_all(&self, machines: impl IntoIterator<Item = Machine>) {
        nodes::register_all(&self.client, machines, nodes::Load::default(), |_| {})
            .await
            .unwrap();
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.nodes().get(name).await.unwrap()
    }

    /// Changes a node as another client.
    pub(crate) async fn merge(&self, name: &str, change: Value) -> Node {
        let parameters = PatchParams::default();
        let nodes = self.nodes();
        let patched = nodes.patch(name, &parameters, &Patch::Merge(change)).await;
        patched.unwrap()
    }

    /// Waits until the taint is gone.
    pub(crate) async fn initialized(&self, name: &str) -> Node {
        until(&format!("{name} is initialised"), async || {
            let node = self.node(name).await;
            holds(!is_tainted(&node), || "it has the taint".to_owned())?;
            Ok(node)
        })
        .await
    }

    /// Waits until the event says that all is done.
    pub(crate) async fn synced(&self, name: &str) -> Node {
        self.event(&self.node(name).await, "Synced").await;
        // The last write may have come after the first look.
        self.node(name).await
    }

    /// Waits until all of these are done, each with one event.
    pub(crate) async fn all_synced(&self, prefix: &str, count: usize) -> Vec<Node> {
        until(&format!("{count} nodes are done"), async || {
            let nodes = self.named(prefix).await;
            let tainted = nodes.iter().filter(|node| is_tainted(node)).count();
            let events = self.events().await;
            let events = events.iter().filter(|event| reason(event) == "Synced");
            let synced: BTreeSet<_> = events
                .filter_map(|event| event.involved_object.uid.as_deref())
                .collect();
            let done = nodes
                .iter()
                .filter(|node| synced.contains(uid(*node)))
                .count();
            holds(
                tainted == 0 && nodes.len() == count && done == count,
                || {
                    format!(
                        "{} nodes, {tainted} tainted, {done} with an event",
                        nodes.len()
                    )
                },
            )
        })
        .await;
        self.named(prefix).await
    }

    /// The nodes whose names start like this.
    pub(crate) async fn named(&self, prefix: &str) -> Vec<Node> {
        let list = self.nodes().list(&ListParams::default()).await.unwrap();
        let named = |node: &Node| {
            node.metadata
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with(prefix))
        };
        list.items.into_iter().filter(named).collect()
    }

    pub(crate) async fn events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.admin(), "default");
        events.list(&ListParams::default()).await.unwrap().items
    }

    /// The events about this very object, not about another of the same name, and not those of the
    /// API server's own allocator, which reports Services that it checks too early.
    pub(crate) async fn events_of(&self, object: &impl Resource) -> Vec<Event> {
        let mut events = self.events().await;
        events.retain(|event| {
            event.involved_object.uid.as_deref() == Some(uid(object))
                && !reason(event).starts_with("ClusterIP")
        });
        events
    }

    /// Waits for an event about this very object.
    pub(crate) async fn event(&self, object: &impl Resource, expected: &str) -> Event {
        until(
            &format!("the event {expected} of {}", uid(object)),
            async || {
                let events = self.events_of(object).await;
                let reasons: Vec<_> = events.iter().map(reason).collect();
                let place = reasons.iter().position(|reason| *reason == expected);
                let place = place.ok_or_else(|| format!("{reasons:?}"))?;
                Ok(events[place].clone())
            },
        )
        .await
    }

    /// The spec of the Lease of that name.
    pub(crate) async fn lease(&self, name: &str) -> LeaseSpec {
        let lease = self.leases().get(name).await.unwrap();
        lease.spec.unwrap()
    }

    pub(crate) async fn lease_annotations(&self) -> BTreeMap<String, String> {
        let lease = self.leases().get(LEASE).await.unwrap();
        lease.metadata.annotations.unwrap_or_default()
    }

    /// Sets or removes an annotation of the Lease, as an operator does.
    pub(crate) async fn annotate_lease(&self, key: &str, value: Option<&str>) {
        let change = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        let (leases, parameters) = (self.leases(), PatchParams::default());
        leases.patch(LEASE, &parameters, &change).await.unwrap();
    }

    /// Waits for an event on the Lease that has this in its message.
    pub(crate) async fn lease_says(&self, text: &str) {
        let events: Api<Event> = Api::namespaced(self.admin(), SYSTEM);
        until(&format!("{text:?} on the Lease"), async || {
            let events = events.list(&ListParams::default()).await.unwrap().items;
            let mut messages = events.iter().filter_map(|event| event.message.as_deref());
            let is_said = messages.any(|message| message.contains(text));
            holds(is_said, || format!("{events:?}"))
        })
        .await;
    }

    /// Waits until it is remembered on the Lease that all load balancers have the same targets.
    pub(crate) async fn targets_are_remembered(&self) {
        until("the targets are remembered", async || {
            let annotations = self.lease_annotations().await;
            let kept = annotations.get("outrigger.dev/load-balancer-targets");
            let kept = kept.is_some_and(|record| !record.starts_with('@'));
            holds(kept, || format!("{annotations:?}"))
        })
        .await;
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.admin(), SYSTEM)
    }
}

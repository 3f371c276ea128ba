//! The loops over Nodes: cloud-node and cloud-node-lifecycle.

use std::sync::Arc;

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_kubernetes::watch;
use outrigger_loops::{
    lifecycle::{self, LifecycleParts, NodeLifecycle},
    node::{self, CloudNode, NodeParts, OnLookup},
    not_managed::NotManaged,
};
use outrigger_provider_client::Session;

/// Account of both loops.
const ACCOUNT: &str = "node-controller";

/// Adds both loops. The event handler that it returns counts answers to other loops for the brake.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<OnLookup, Fatal> {
    let identity = wiring.identity(ACCOUNT).await?;
    let (config, metrics) = (wiring.context.config, wiring.context.metrics);
    let nodes = &wiring.nodes;
    let not_managed = Arc::new(NotManaged::default());
    let to_initialize = node::subscribe(nodes, Arc::clone(&not_managed), &metrics.queues);
    let to_check = lifecycle::subscribe(nodes, &metrics.queues);
    let on_lookup = lifecycle::on_lookup(&to_check);

    let cloud_node = NodeParts {
        api: identity.api.clone(),
        nodes: Arc::clone(nodes),
        provider: wiring.context.provider.clone(),
        events: identity.events.recorder(node::NAME),
        settings: config.node.clone(),
        not_managed: Arc::clone(&not_managed),
        on_lookup: Arc::clone(&on_lookup),
        metrics: metrics.node.clone(),
    };
    let node_lifecycle = LifecycleParts {
        api: identity.api.clone(),
        nodes: Arc::clone(nodes),
        provider: wiring.context.provider.clone(),
        events: identity.events.recorder(lifecycle::NAME),
        settings: config.lifecycle.clone(),
        not_managed,
        metrics: metrics.lifecycle.clone(),
    };
    wiring.add(Controller::CloudNode, to_initialize.clone(), move |term| {
        CloudNode::new(cloud_node.clone(), &to_initialize, term)
    });
    wiring.add(
        Controller::CloudNodeLifecycle,
        to_check.clone(),
        move |term| NodeLifecycle::new(node_lifecycle.clone(), &to_check, term),
    );
    Ok(on_lookup)
}

/// Starts the store of Nodes, which every loop may use.
pub(super) fn watch(wiring: &mut Wiring<'_>) {
    let nodes = Arc::clone(&wiring.nodes);
    let (follow, kept) = (wiring.context.provider.clone(), Arc::clone(&nodes));
    wiring.spawn("annotations of nodes", async move {
        let keep = |session: &Session| kept.keep_annotations(&session.annotations_of_nodes());
        follow.each_session(keep).await;
    });
    wiring.watch(watch::NODES, &nodes, std::future::ready(()));
}

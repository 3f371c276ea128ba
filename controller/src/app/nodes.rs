//! The loops over Nodes: cloud-node and cloud-node-lifecycle.

use std::sync::Arc;

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_loops::{
    lifecycle::{self, NodeLifecycle, OnLookup},
    node::{self, CloudNode},
    not_managed::NotManaged,
};
use outrigger_provider_client::Session;

/// Account of both loops.
const ACCOUNT: &str = "node-controller";

/// Adds both loops. The event handler that it returns counts answers to other loops for the rate limit of deletions.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<OnLookup, Fatal> {
    let (config, metrics) = (wiring.context.config, wiring.context.metrics);
    let not_managed = Arc::new(NotManaged::default());
    let to_check = lifecycle::subscribe(&wiring.nodes, &metrics.queues);
    let to_initialize = node::subscribe(&wiring.nodes, Arc::clone(&not_managed), &metrics.queues);
    let on_lookup = lifecycle::on_lookup(&to_check);

    let shared = (Arc::clone(&not_managed), Arc::clone(&on_lookup));
    let (settings, counts) = (config.node.clone(), metrics.node.clone());
    let cloud_node = move |context| {
        let (not_managed, on_lookup) = shared.clone();
        CloudNode::new(
            context,
            settings.clone(),
            not_managed,
            on_lookup,
            counts.clone(),
        )
    };
    let controller = Controller::CloudNode;
    let added = wiring.add(controller, ACCOUNT, node::NAME, to_initialize, cloud_node);
    added.await?;

    let (settings, counts) = (config.lifecycle.clone(), metrics.lifecycle.clone());
    let node_lifecycle = move |context| {
        let not_managed = Arc::clone(&not_managed);
        NodeLifecycle::new(context, settings.clone(), not_managed, counts.clone())
    };
    let controller = Controller::CloudNodeLifecycle;
    let added = wiring.add(
        controller,
        ACCOUNT,
        lifecycle::NAME,
        to_check,
        node_lifecycle,
    );
    added.await?;
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
    wiring.watch(&nodes, std::future::ready(()));
}

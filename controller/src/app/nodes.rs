//! The loops over Nodes: cloud-node and cloud-node-lifecycle.

use std::sync::Arc;

use outrigger_core::brake::Limits;

use super::{Fatal, wiring::Wiring};
use crate::{
    kube::watch,
    lifecycle::{self, NodeLifecycle},
    node::{self, CloudNode},
    options::{Config, controllers::Controller},
    provider::NotManaged,
};

/// Account of both loops.
const ACCOUNT: &str = "node-controller";

/// Adds both loops.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let identity = wiring.identity(ACCOUNT).await?;
    let (config, metrics) = (wiring.context.config, wiring.context.metrics);
    let nodes = &wiring.nodes;
    let not_managed = Arc::new(NotManaged::default());
    let to_initialize = node::Intake::new(nodes, Arc::clone(&not_managed), &metrics.queues);
    let to_check = lifecycle::Intake::new(nodes, &metrics.queues);
    let selector = config.node_selector.clone().map(Arc::new);

    let cloud_node = node::Parts {
        api: identity.api.clone(),
        nodes: Arc::clone(nodes),
        provider: wiring.context.provider.clone(),
        events: identity.events.recorder(node::NAME),
        workers: config.node.workers,
        refreshers: config.node.status_workers,
        refresh_period: config.node.status_update_period,
        selector: selector.clone(),
        not_managed: Arc::clone(&not_managed),
        overheard: to_check.overheard(),
        metrics: metrics.node.clone(),
    };
    let node_lifecycle = lifecycle::Parts {
        api: identity.api.clone(),
        nodes: Arc::clone(nodes),
        provider: wiring.context.provider.clone(),
        events: identity.events.recorder(lifecycle::NAME),
        workers: config.lifecycle.workers,
        selector,
        not_managed,
        limits: limits(config),
        metrics: metrics.lifecycle.clone(),
    };
    wiring.add(Controller::CloudNode, move |term| {
        CloudNode::new(
            cloud_node.clone(),
            to_initialize.clone(),
            term.fence.clone(),
        )
    });
    wiring.add(Controller::CloudNodeLifecycle, move |term| {
        NodeLifecycle::new(node_lifecycle.clone(), to_check.clone(), term.fence.clone())
    });
    Ok(())
}

/// Starts the store of Nodes, which every loop may use.
pub(super) fn watch(wiring: &mut Wiring<'_>) {
    let nodes = Arc::clone(&wiring.nodes);
    wiring.watch(watch::NODES, &nodes, std::future::ready(()));
}

fn limits(config: &Config) -> Limits {
    let deletion = &config.lifecycle.deletion;
    Limits {
        enabled: deletion.enabled,
        burst: deletion.burst,
        fraction: deletion.fraction,
        window: deletion.window,
        confirm: deletion.confirm,
        period: config.lifecycle.monitor_period,
    }
}

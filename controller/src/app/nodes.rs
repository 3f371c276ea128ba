//! The store of nodes, and the loops over it.

use std::sync::Arc;

use outrigger_core::{brake::Limits, node::NodeView};
use tokio_util::sync::CancellationToken;

use super::{Ground, access::Identity, loops::Loops, supervise::Supervisor};
use crate::{
    kube::{resync, store::Store, watch},
    lifecycle::{self, NodeLifecycle},
    node::{self, CloudNode},
    options::{Config, controllers::Controller},
    provider::NotManaged,
};

/// Adds the loops over nodes, which write as `identity`; `parts` keep their store in step until
/// `process` ends. Who else wants to hear of changes has subscribed to `nodes` before.
pub(super) fn add(
    loops: &mut Loops,
    ground: &Ground<'_>,
    mut nodes: Store<NodeView>,
    identity: &Identity,
    parts: &mut Supervisor,
    process: &CancellationToken,
) -> Arc<Store<NodeView>> {
    let Ground {
        config,
        informers,
        provider,
        metrics,
        pages,
        checks: _,
    } = ground;
    let not_managed = Arc::new(NotManaged::default());
    let to_initialize = node::Intake::new(&mut nodes, Arc::clone(&not_managed), &metrics.queues);
    let to_check = lifecycle::Intake::new(&mut nodes, limits(config), &metrics.queues);
    let nodes = Arc::new(nodes);
    let store = Arc::clone(&nodes);
    pages.dump("stores/nodes", move || {
        format!("objects={} synced={}\n", store.len(), store.is_synced())
    });

    let health = ground.watched(watch::NODES);
    let watching = watch::run(
        informers.clone(),
        watch::NODES,
        Arc::clone(&nodes),
        health,
        metrics.watch.clone(),
        process.clone(),
    );
    parts.spawn("watch of nodes", watching);
    let period = config.api.min_resync_period;
    let looking_again = resync::run(Arc::clone(&nodes), period, process.clone());
    parts.spawn("resync of nodes", looking_again);

    let selector = config.node_selector.clone().map(Arc::new);
    let cloud_node = node::Parts {
        api: identity.api.clone(),
        nodes: Arc::clone(&nodes),
        provider: (*provider).clone(),
        events: identity.events.recorder(node::NAME),
        workers: config.node.workers,
        refreshers: config.node.status_workers,
        refresh_period: config.node.status_update_period,
        selector: selector.clone(),
        not_managed: Arc::clone(&not_managed),
        overheard: to_check.overheard(),
        metrics: metrics.node.clone(),
    };
    loops.add(Controller::CloudNode, move |term| {
        let mut parts = cloud_node.clone();
        parts.api = parts.api.fenced(term.fence.clone());
        parts.provider = parts.provider.fenced(term.fence);
        CloudNode::new(parts, to_initialize.clone()).run(term.work)
    });
    let node_lifecycle = lifecycle::Parts {
        api: identity.api.clone(),
        nodes: Arc::clone(&nodes),
        provider: (*provider).clone(),
        events: identity.events.recorder(lifecycle::NAME),
        workers: config.lifecycle.workers,
        selector,
        not_managed,
        metrics: metrics.lifecycle.clone(),
    };
    loops.add(Controller::CloudNodeLifecycle, move |term| {
        let mut parts = node_lifecycle.clone();
        parts.api = parts.api.fenced(term.fence.clone());
        parts.provider = parts.provider.fenced(term.fence);
        NodeLifecycle::new(parts, to_check.clone()).run(term.work)
    });
    nodes
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

//! The store of nodes, and the loops over it.

use std::sync::Arc;

use outrigger_core::{brake::Limits, node::NodeView};
use tokio_util::sync::CancellationToken;

use super::{access::Identity, loops::Loops, metrics::Metrics, supervise::Supervisor};
use crate::{
    kube::{api::Api, resync, store::Store, watch},
    lifecycle::{self, NodeLifecycle},
    node::{self, CloudNode},
    options::{Config, controllers::Controller},
    provider::{NotManaged, Provider},
    serving::Pages,
};

/// What the loops over nodes stand on.
pub(super) struct Ground<'a> {
    pub(super) config: &'a Config,
    /// For the watch.
    pub(super) informers: Api,
    /// Of the `node-controller`.
    pub(super) identity: &'a Identity,
    pub(super) provider: &'a Provider,
    pub(super) metrics: &'a Metrics,
    /// Shows the size of the store.
    pub(super) pages: &'a Pages,
}

/// Adds the loops over nodes; `parts` keep their store in step until `process` ends.
pub(super) fn add(
    loops: &mut Loops,
    ground: Ground<'_>,
    parts: &mut Supervisor,
    process: &CancellationToken,
) {
    let Ground {
        config,
        informers,
        identity,
        provider,
        metrics,
        pages,
    } = ground;
    let mut nodes: Store<NodeView> = Store::default();
    let not_managed = Arc::new(NotManaged::default());
    let to_initialize = node::Intake::new(&mut nodes, Arc::clone(&not_managed), &metrics.queues);
    let to_check = lifecycle::Intake::new(&mut nodes, limits(config), &metrics.queues);
    let nodes = Arc::new(nodes);
    let store = Arc::clone(&nodes);
    pages.dump("stores/nodes", move || {
        format!("objects={} synced={}\n", store.len(), store.is_synced())
    });

    let watching = watch::run(
        informers,
        watch::NODES,
        Arc::clone(&nodes),
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
        provider: provider.clone(),
        events: identity.events.recorder(node::NAME),
        workers: config.node.workers,
        refreshers: config.node.status_workers,
        refresh_period: config.node.status_update_period,
        selector: selector.clone(),
        not_managed: Arc::clone(&not_managed),
        overheard: to_check.overheard(),
        metrics: metrics.node.clone(),
    };
    loops.add(Controller::CloudNode, move |fence, work| {
        let mut parts = cloud_node.clone();
        parts.api = parts.api.fenced(fence);
        CloudNode::new(parts, to_initialize.clone()).run(work)
    });
    let node_lifecycle = lifecycle::Parts {
        api: identity.api.clone(),
        nodes,
        provider: provider.clone(),
        events: identity.events.recorder(lifecycle::NAME),
        workers: config.lifecycle.workers,
        selector,
        not_managed,
        metrics: metrics.lifecycle.clone(),
    };
    loops.add(Controller::CloudNodeLifecycle, move |fence, work| {
        let mut parts = node_lifecycle.clone();
        parts.api = parts.api.fenced(fence);
        NodeLifecycle::new(parts, to_check.clone()).run(work)
    });
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

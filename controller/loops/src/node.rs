//! The cloud-node loop: takes the taint from nodes whose machine the provider knows, and keeps them
//! in sync with it (upstream's cloud-node-controller, N-1 to N-48 of `docs/upstream.md`).
//!
//! ```text
//!  store ─(changed, tainted)─► queue ─► sync: lookup ─► core::node::plan ─► writes ─► event
//!                                ▲       └ many at once, batched   └ --concurrent-node-syncs
//!  refresh: sweeps of all ─(differs)
//! ```
//!
//! The event handlers queue a Node that a plan has something to write for; the refresh looks at all others once in a
//! period. Each answer, of a key or of the refresh, goes through `memory` (doubted addresses, announced maintenance) to
//! core, and to the rate limit of deletions through `on_lookup`. The loop deletes nothing.
//!
//! RBAC: `get`, `list`, `watch`, `patch` on `nodes`; `patch` on `nodes/status`; `create`, `patch`
//! on `events`.

mod error;
mod memory;
mod metrics;
mod refresh;
mod sync;
mod write;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use outrigger_core::{
    node::{
        NodeAddress, NodeView, maintenance::MaintenanceSettings, ownership::NodeScope, plan::repair,
    },
    repairs::Undone,
    selector::Selector,
};
use tokio::sync::Semaphore;

pub use self::{memory::CloudNodeState, metrics::NodeMetrics};
use crate::{
    context::LoopContext,
    control_loop::{ControlLoop, LoopInputs, Task},
    lifecycle::OnLookup,
    node_effects::NodeEffects,
    not_managed::NotManaged,
    queue::{Outcome, Priority, QueueMetrics},
};
use outrigger_kube::{
    nodes::NodeWriter,
    store::{Change, Origin, Store},
};
use outrigger_provider::InstancesCapability;
use outrigger_runtime::backoff::Backoff;

/// Name of the loop in `--controllers`, of its health check and of its events' component (N-5).
pub const NAME: &str = "cloud-node-controller";

/// Flags of the loop.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// `--concurrent-node-syncs`: nodes that are written at once.
    pub workers: usize,
    /// `--concurrent-node-status-updates`: initialised nodes that are written at once.
    pub refreshers: usize,
    /// `--node-status-update-frequency`: each initialised node is looked at once in this time.
    pub refresh_period: Duration,
    /// `--node-selector`: which nodes without a provider id are this provider's; absent: all.
    pub selector: Option<Arc<Selector>>,
    /// The gate `CloudNodeAdditionalLabelsReconciliation`: each additional label of an instance is kept in sync.
    pub manages_additional_labels: bool,
    /// `--maintenance-condition`, `--maintenance-taint-before`.
    pub maintenance: MaintenanceSettings,
}

/// The cloud-node loop.
pub struct CloudNode {
    context: LoopContext<Arc<str>>,
    settings: NodeSettings,
    /// Shared with the lifecycle loop.
    not_managed: Arc<NotManaged>,
    on_lookup: OnLookup,
    metrics: NodeMetrics,
    writer: NodeWriter,
    writing: Semaphore,
    refreshing: Semaphore,
    effects: NodeEffects,
    state: Arc<CloudNodeState>,
}

/// Subscribes the loop to `nodes`: every node that needs something is queued whenever it changes (N-3).
/// Queue name and back-off are upstream's (N-2).
pub fn subscribe(
    nodes: &Store<NodeView>,
    metrics: &QueueMetrics,
) -> LoopInputs<Arc<str>, CloudNodeState> {
    let inputs = LoopInputs::new("Nodes", Backoff::default().with_jitter(), metrics);
    let LoopInputs { queue, state } = inputs.clone();
    let claim = |state: Option<Arc<CloudNodeState>>, node: &NodeView| {
        if let Some(state) = state {
            state.claim(node);
        }
    };
    nodes.subscribe(move |change: &Change<'_, NodeView>, origin| match change {
        Change::Added(node) => {
            claim(state.current(), node);
            if needs_something(node) {
                queue.add(Arc::clone(&node.name), origin.into());
            }
        }
        Change::Updated(..) if origin == Origin::Write => {}
        Change::Updated(old, node) => {
            if old.provider_id != node.provider_id {
                claim(state.current(), node);
            }
            let undone = if !old.is_uninitialized() && node.is_uninitialized() {
                Some(Undone::Taint)
            } else {
                let is_rewritten = old.reported.is_none() && node.reported.is_some();
                is_rewritten.then_some(Undone::NodeAddresses)
            };
            if let Some(undone) = undone.filter(|_| old.uid == node.uid)
                && let Some(state) = state.current()
            {
                state.undone_by_another(node, undone);
            }
            // A write that a pause has left unfinished does not show on the Node.
            if needs_something(node) || (old.is_paused() && !node.is_paused()) {
                queue.add(Arc::clone(&node.name), origin.into());
            }
        }
        Change::Deleted(node) => {
            queue.remove(&node.name);
            if let Some(state) = state.current() {
                // Perhaps they were refused the provider ID which this one had.
                queue.add_all(state.forget(node), Priority::Fresh);
            }
        }
    });
    inputs
}

fn needs_something(node: &NodeView) -> bool {
    repair(node).is_some() || node.reported.is_some()
}

impl CloudNode {
    /// The loop for one lease term. `on_lookup` receives each answer: they count for the rate limit of
    /// deletions.
    pub fn new(
        context: LoopContext<Arc<str>>,
        settings: NodeSettings,
        not_managed: Arc<NotManaged>,
        on_lookup: OnLookup,
        metrics: NodeMetrics,
    ) -> Self {
        let writer = NodeWriter::new(context.api.clone(), Arc::clone(&context.nodes));
        let state = Arc::new(CloudNodeState::default());
        let pending = Arc::clone(&state.effects);
        Self {
            effects: NodeEffects::new(
                context.parts.clone(),
                writer.clone(),
                settings.refreshers,
                pending,
            ),
            writer,
            writing: Semaphore::new(settings.workers),
            refreshing: Semaphore::new(settings.refreshers),
            context,
            settings,
            not_managed,
            on_lookup,
            metrics,
            state,
        }
    }

    /// Returns true if the node may be looked up and written: its provider ID is not another provider's, and
    /// without a provider ID the operator's selector selects it.
    fn may_touch(&self, node: &NodeView, instances: &InstancesCapability) -> bool {
        let scope = NodeScope {
            prefixes: &instances.prefixes,
            selector: self.settings.selector.as_deref(),
            foreign_prefix_seen: false,
        };
        scope.may_touch(node)
    }

    /// Makes `said`, the addresses from the cloud, the addresses that count. `None`: those of the status count.
    fn confirm(&self, node: &NodeView, said: Option<&[NodeAddress]>) {
        let nodes = &self.context.nodes;
        nodes.learn(&node.name, &node.uid, |held| held.confirmed(said));
    }
}

impl ControlLoop for CloudNode {
    type Key = Arc<str>;
    type State = CloudNodeState;
    type Slot = ();

    const NAME: &'static str = NAME;

    fn state(&self) -> &Arc<CloudNodeState> {
        &self.state
    }

    async fn ready(&self) {
        let name = "cloud node controller";
        self.context.instances_served(NAME, name).await;
    }

    /// Another leader may have written since: only the provider IDs of the Nodes themselves count, and the addresses that
    /// they have, until the first sweep has asked for them.
    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.not_managed.clear();
        for node in self.context.nodes.all() {
            self.confirm(&node, None);
        }
        self.context.nodes.protect(true);
        for node in self.context.nodes.all() {
            self.state.claim(&node);
            // It may have gone, and have been forgotten, in between.
            if self.context.nodes.get(&node.name).is_none() {
                self.state.forget(&node);
            }
        }
        let this = Arc::clone(self);
        let refresh = async move { this.keep_in_sync().await };
        vec![("refresh", refresh.boxed())]
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority, (): ()) -> Outcome {
        self.sync(name).await
    }

    /// The new process may know nodes that the last one did not, or serve instances again.
    fn provider_restarted(&self) {
        for node in self.context.nodes.all() {
            if needs_something(&node) {
                self.context
                    .queue
                    .add(Arc::clone(&node.name), Priority::Bulk);
            }
        }
    }

    /// A whole cluster may wait for its turn to be written.
    fn stopping(&self) {
        self.context.nodes.protect(false);
        self.writing.close();
        self.refreshing.close();
    }
}

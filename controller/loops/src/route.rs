//! The node-route loop: one route in the cloud for each Pod CIDR of each Node (upstream's
//! node-route-controller, R-1 to R-43 of `docs/upstream.md`).
//!
//! ```text
//!  complete list ─► RouteState ◄─ store: each change of a Node
//!     │               │    └─(destinations that changed)─► queue ─► sync: core::route::plan ─► RouteStep
//!     │               ▼                                              │       ▲
//!     │      core::route::condition ◄─ queue ◄─(Nodes concerned)─────┤       │ answer
//!     │               └─► PATCH nodes/status                         ▼       │
//!     └───────────────────────────────── provider: list, create, delete; API server: confirm
//! ```
//!
//! A key is a destination, or a Node whose condition is due. A destination is planned and carried out step by step; each
//! call is registered in the table of routes before it is sent. The event handlers queue only destinations whose routes may
//! have to change. Routes outside `--cluster-cidr` and those of another cluster are never touched.
//!
//! RBAC: `get`, `list` on `nodes`, `patch` on `nodes/status`; `create`, `patch` on `events`.

mod confirm;
mod list;
mod metrics;
mod report;
mod state;
mod sync;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use outrigger_core::{cidr::Cidr, node::NodeView, route::RouteRange, selector::Selector};
use tokio::sync::Semaphore;
use tracing::{info, warn};

use self::{confirm::NodeLists, list::RouteLists};
pub use self::{metrics::RouteMetrics, state::RouteState};
use crate::{
    context::LoopContext,
    control_loop::{ControlLoop, LoopInputs, Task},
    node_effects::NodeEffects,
    queue::{Outcome, Priority, QueueMetrics},
};
use outrigger_kube::{
    nodes::NodeWriter,
    store::{Change, Store},
};
use outrigger_provider::Session;
use outrigger_runtime::backoff::Backoff;

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "node-route-controller";
/// The component of its events, and, with a hyphen, its account (R-4).
pub const COMPONENT: &str = "route_controller";

/// Conditions that are written at once.
const WRITERS: usize = 32;
/// Backoff of a route that cannot be created or deleted (not Q-10); upstream's queue has none for a key.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5)).with_jitter();

/// Flags of the loop.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// `--cluster-cidr`.
    pub ranges: Arc<[RouteRange]>,
    /// `--route-reconciliation-period`: the routes are listed once in this time.
    pub period: Duration,
    /// `--node-selector`: which Nodes without a provider ID are this provider's; absent: all.
    pub selector: Option<Arc<Selector>>,
}

/// A key of the loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteKey {
    /// The routes with this destination.
    Destination(Cidr),
    /// The condition of this Node, and effects on it.
    Node(Arc<str>),
}

/// The node-route loop.
pub struct NodeRoute {
    context: LoopContext<RouteKey>,
    state: Arc<RouteState>,
    lists: RouteLists,
    node_lists: NodeLists,
    writer: NodeWriter,
    /// Closed at the stop.
    writing: Semaphore,
    effects: NodeEffects,
    metrics: RouteMetrics,
}

/// Subscribes the loop to `nodes` (R-40). A standby has no state, and its queue stays empty: a lease term
/// begins with all destinations. The name of the queue is upstream's (R-41).
pub fn subscribe(
    nodes: &Store<NodeView>,
    metrics: &QueueMetrics,
) -> LoopInputs<RouteKey, RouteState> {
    let inputs = LoopInputs::<_, RouteState>::new("Routes", BACKOFF, metrics);
    let LoopInputs { queue, state } = inputs.clone();
    nodes.subscribe(move |change: &Change<'_, NodeView>, origin| {
        let Some(state) = state.current() else {
            return;
        };
        let destinations = match change {
            Change::Added(node) | Change::Updated(_, node) => state.observe(&node.name),
            Change::Deleted(node) => {
                queue.remove(&RouteKey::Node(Arc::clone(&node.name)));
                state.effects.forget(&node.name);
                state.forget(&node.name, &node.uid)
            }
        };
        // A heartbeat changes no destination.
        if !destinations.is_empty() {
            let keys = destinations.into_iter().map(RouteKey::Destination);
            queue.add_all(keys, origin.into());
        }
        // The condition of one with Pod CIDRs follows its destinations.
        let is_due = match change {
            Change::Added(_) => true,
            Change::Updated(old, node) => old.is_uninitialized() != node.is_uninitialized(),
            Change::Deleted(_) => false,
        };
        if let Change::Added(node) | Change::Updated(_, node) = change
            && is_due
            && node.pod_cidrs.is_empty()
        {
            queue.add(RouteKey::Node(Arc::clone(&node.name)), origin.into());
        }
    });
    inputs
}

impl NodeRoute {
    /// The loop for one lease term.
    pub fn new(
        context: LoopContext<RouteKey>,
        settings: RouteSettings,
        metrics: RouteMetrics,
    ) -> Self {
        let state = Arc::new(RouteState::new(&context, settings));
        let writer = NodeWriter::new(context.api.clone(), Arc::clone(&context.nodes));
        let (parts, pending) = (context.parts.clone(), Arc::clone(&state.effects));
        Self {
            effects: NodeEffects::new(parts, writer.clone(), WRITERS, pending),
            lists: RouteLists::new(&context.provider),
            node_lists: NodeLists::default(),
            writing: Semaphore::new(WRITERS),
            context,
            state,
            writer,
            metrics,
        }
    }
}

impl ControlLoop for NodeRoute {
    type Key = RouteKey;
    type State = RouteState;
    type Slot = ();

    const NAME: &'static str = NAME;

    fn state(&self) -> &Arc<RouteState> {
        &self.state
    }

    /// The store, a provider that serves routes (R-1), and a list of this lease term, which may have failed: each destination
    /// waits for one that is complete (R-20).
    async fn ready(&self) {
        let without = || {
            warn!(
                "no Node gets a route: the provider serves no routes (capabilities.routes); use a network \
                 plugin that needs none, and set --configure-cloud-routes=false"
            );
            info!("Skipping {NAME:?}");
        };
        let listed = async {
            let serves = |session: &Session| session.routes.is_some();
            self.context.provider.offering(serves, without).await;
            // Tried again by the task.
            let _ = self.try_list().await;
        };
        // Both are long in a large cluster.
        tokio::join!(self.context.nodes.synced(), listed);
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        let state = &self.state;
        for node in self.context.nodes.all() {
            state.observe(&node.name);
        }
        state.queue_destinations(state.destinations());
        state.queue_all_nodes();
        let (lists, uid) = (Arc::clone(self), Arc::clone(self));
        let lists = async move { lists.keep_listing().await };
        let uid = async move { uid.follow_cluster_uid().await };
        vec![
            ("lists of routes", lists.boxed()),
            ("changes of the cluster's UID", uid.boxed()),
        ]
    }

    /// The new process may make routes that the last one refused, and have other Nodes.
    fn provider_restarted(&self) {
        let state = &self.state;
        state.queue_destinations(state.destinations());
    }

    fn measure(&self) {
        let routes = self.state.findings().table.iter().count();
        self.metrics.routes.set(routes as i64);
    }

    async fn reconcile(self: Arc<Self>, key: RouteKey, _: Priority, (): ()) -> Outcome {
        match key {
            RouteKey::Destination(destination) => self.sync_destination(destination).await,
            RouteKey::Node(name) => self.sync_node(&name).await,
        }
    }

    fn stopping(&self) {
        self.lists.stop();
        self.writing.close();
    }
}

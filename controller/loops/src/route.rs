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
//! RBAC: `get`, `list` on `nodes`, `patch` on `nodes/status`; `create`, `patch` on `events`.

mod condition;
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
use outrigger_core::{
    cidr::Cidr,
    cluster_uid::ClusterUid,
    node::{
        NodeView,
        ownership::{NodeScope, Prefixes},
    },
    route::{Confirmation, RouteFacts, RouteRange},
    selector::Selector,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{confirm::NodeLists, list::ListSchedule};
pub use self::{metrics::RouteMetrics, state::RouteState};
use crate::{
    context::LoopContext,
    control_loop::{ControlLoop, LoopInputs, Task},
    node_effects::NodeEffects,
};
use outrigger_kubernetes::{
    nodes::NodeWriter,
    store::{Change, Store},
};
use outrigger_runtime::queue::{Backoff, Outcome, Priority, QueueMetrics};

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "node-route-controller";
/// The component of its events, and, with a hyphen, its account (R-4).
pub const COMPONENT: &str = "route_controller";

/// Conditions that are written at once.
const WRITERS: usize = 32;
/// Of a route that cannot be made, or deleted (not Q-10); upstream's queue has none for a key.
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
    /// Whether Nodes with addresses in common are reported; where node-ipam runs, it does.
    pub reports_duplicates: bool,
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
    settings: RouteSettings,
    metrics: RouteMetrics,
    state: Arc<RouteState>,
    schedule: ListSchedule,
    /// As of before the first list.
    cluster_uid: watch::Receiver<ClusterUid>,
    node_lists: NodeLists,
    writer: NodeWriter,
    writing: Semaphore,
    effects: NodeEffects,
    stopping: CancellationToken,
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
        // None after a heartbeat.
        if !destinations.is_empty() {
            let keys = destinations.into_iter().map(RouteKey::Destination);
            queue.add_all(keys, origin.priority());
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
            queue.add(RouteKey::Node(Arc::clone(&node.name)), origin.priority());
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
        let writer = NodeWriter::new(context.api.clone(), Arc::clone(&context.nodes));
        let state = Arc::new(RouteState::new(Arc::clone(&context.nodes)));
        let pending = Arc::clone(&state.effects);
        Self {
            effects: NodeEffects::new(&context, writer.clone(), WRITERS, pending),
            writer,
            writing: Semaphore::new(WRITERS),
            state,
            schedule: ListSchedule::default(),
            cluster_uid: context.provider.cluster_uid(),
            node_lists: NodeLists::default(),
            context,
            settings,
            metrics,
            stopping: CancellationToken::new(),
        }
    }

    /// Decides upon what is known now; None while there is no provider.
    fn decide<T>(
        &self,
        confirmed: &[Confirmation],
        decide: impl FnOnce(&RouteFacts<'_>, &state::RouteFindings) -> T,
    ) -> Option<T> {
        let session = self.context.provider.session()?;
        let by_name;
        let prefixes = if let Some(instances) = &session.instances {
            &instances.prefixes
        } else {
            by_name = Prefixes::new(&session.name, [""; 0]).ok()?;
            &by_name
        };
        let known = self.state.known();
        let facts = RouteFacts {
            table: &known.table,
            nodes: &known.nodes,
            is_synced: self.context.nodes.is_synced(),
            confirmed,
            scope: NodeScope {
                prefixes,
                selector: self.settings.selector.as_deref(),
                foreign_prefix_seen: false,
            },
            without_provider_id: session
                .instances
                .as_ref()
                .is_some_and(|instances| instances.without_provider_id),
            ranges: &self.settings.ranges,
        };
        Some(decide(&facts, &known))
    }

    fn queue_destinations(&self, destinations: impl IntoIterator<Item = Cidr>) {
        let keys = destinations.into_iter().map(RouteKey::Destination);
        self.context.queue.add_all(keys, Priority::Bulk);
    }

    /// The conditions of all Nodes, which another client may have changed or removed.
    fn queue_all_nodes(&self) {
        let nodes = self.context.nodes.all().into_iter();
        let keys = nodes.map(|node| RouteKey::Node(Arc::clone(&node.name)));
        self.context.queue.add_all(keys, Priority::Bulk);
    }
}

impl ControlLoop for NodeRoute {
    type Key = RouteKey;
    type State = RouteState;

    const NAME: &'static str = NAME;

    fn state(&self) -> &Arc<RouteState> {
        &self.state
    }

    /// The store, a provider that serves routes (R-1), and a complete list of this lease term (R-20).
    async fn ready(&self) {
        let without = || {
            warn!(
                "no Node gets a route: the provider serves no routes (capabilities.routes); use a network \
                 plugin that needs none, and set --configure-cloud-routes=false"
            );
            info!("Skipping {NAME:?}");
        };
        let listed = async {
            self.context.provider.routes().serving(without).await;
            self.list().await;
        };
        // Both are long in a large cluster.
        tokio::join!(self.context.nodes.synced(), listed);
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        for node in self.context.nodes.all() {
            self.state.observe(&node.name);
        }
        self.queue_destinations(self.state.destinations());
        self.queue_all_nodes();
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
        self.queue_destinations(self.state.destinations());
    }

    fn measure(&self) {
        self.metrics.routes(self.state.known().table.iter().count());
    }

    async fn reconcile(self: Arc<Self>, key: RouteKey, _: Priority) -> Outcome {
        match key {
            RouteKey::Destination(destination) => self.sync(destination).await,
            RouteKey::Node(name) => self.sync_node(&name).await,
        }
    }

    fn stopping(&self) {
        self.stopping.cancel();
        self.writing.close();
    }
}

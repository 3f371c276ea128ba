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

use std::{fmt, sync::Arc, time::Duration};

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
    control_loop::{ControlLoop, LoopInputs, Task, Term},
    node_effects::NodeEffects,
};
use outrigger_kubernetes::{
    api::Api,
    events::Recorder,
    nodes::NodeWriter,
    store::{Change, Store},
};
use outrigger_provider_client::Provider;
use outrigger_runtime::{
    queue::{Backoff, Outcome, Priority, Queue, QueueMetrics},
    telemetry::Repeats,
};

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "node-route-controller";
/// The component of its events, and, with a hyphen, its account (R-4).
pub const COMPONENT: &str = "route_controller";

/// Conditions that are written at once.
const WRITERS: usize = 32;
/// Of a route that cannot be made, or deleted (not Q-10); upstream's queue has none for a key.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5)).with_jitter();

/// The parts that the loop is made of.
#[derive(Clone)]
pub struct RouteParts {
    /// Requests under the name `route-controller`.
    pub api: Api,
    /// All Nodes.
    pub nodes: Arc<Store<NodeView>>,
    /// The cloud.
    pub provider: Provider,
    /// Events of component [`COMPONENT`].
    pub events: Recorder,
    /// Flags of the loop.
    pub settings: RouteSettings,
    /// `route_controller_*`.
    pub metrics: RouteMetrics,
}

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
    parts: RouteParts,
    queue: Queue<RouteKey>,
    state: Arc<RouteState>,
    schedule: ListSchedule,
    /// As of before the first list.
    cluster_uid: watch::Receiver<ClusterUid>,
    node_lists: NodeLists,
    writer: NodeWriter,
    writing: Semaphore,
    effects: NodeEffects,
    repeats: Repeats,
    stopping: CancellationToken,
}

impl fmt::Debug for NodeRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeRoute")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
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
    /// The loop over the keys of `inputs`, for one lease term.
    pub fn new(
        mut parts: RouteParts,
        inputs: &LoopInputs<RouteKey, RouteState>,
        term: &Term,
    ) -> Self {
        parts.api = parts.api.fenced(term.fence.clone());
        parts.provider = parts.provider.fenced(term.fence.clone());
        let writer = NodeWriter::new(parts.api.clone(), Arc::clone(&parts.nodes));
        let state = Arc::new(RouteState::new(Arc::clone(&parts.nodes)));
        Self {
            effects: NodeEffects::new(
                parts.provider.clone(),
                Arc::clone(&parts.nodes),
                writer.clone(),
                parts.events.clone(),
                WRITERS,
                Arc::clone(&state.effects),
            ),
            writer,
            writing: Semaphore::new(WRITERS),
            state,
            queue: inputs.queue.clone(),
            schedule: ListSchedule::default(),
            cluster_uid: parts.provider.cluster_uid(),
            node_lists: NodeLists::default(),
            parts,
            repeats: Repeats::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// Decides upon what is known now; None while there is no provider.
    fn decide<T>(
        &self,
        confirmed: &[Confirmation],
        decide: impl FnOnce(&RouteFacts<'_>, &state::RouteFindings) -> T,
    ) -> Option<T> {
        let session = self.parts.provider.session()?;
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
            is_synced: self.parts.nodes.is_synced(),
            confirmed,
            scope: NodeScope {
                prefixes,
                selector: self.parts.settings.selector.as_deref(),
                foreign_prefix_seen: false,
            },
            without_provider_id: session
                .instances
                .as_ref()
                .is_some_and(|instances| instances.without_provider_id),
            ranges: &self.parts.settings.ranges,
        };
        Some(decide(&facts, &known))
    }

    fn queue_destinations(&self, destinations: impl IntoIterator<Item = Cidr>) {
        let keys = destinations.into_iter().map(RouteKey::Destination);
        self.queue.add_all(keys, Priority::Bulk);
    }

    /// The conditions of all Nodes, which another client may have changed or removed.
    fn queue_all_nodes(&self) {
        let nodes = self.parts.nodes.all().into_iter();
        let keys = nodes.map(|node| RouteKey::Node(Arc::clone(&node.name)));
        self.queue.add_all(keys, Priority::Bulk);
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
            self.parts.provider.routes().serving(without).await;
            self.list().await;
        };
        // Both are long in a large cluster.
        tokio::join!(self.parts.nodes.synced(), listed);
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        for node in self.parts.nodes.all() {
            self.state.observe(&node.name);
        }
        self.queue_destinations(self.state.destinations());
        self.queue_all_nodes();
        let (lists, restarts, gauges) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        let identity = Arc::clone(self);
        // Another process behind the socket may make what the last one refused, and have other Nodes.
        let restarts = async move {
            let again = || restarts.queue_destinations(restarts.state.destinations());
            restarts.parts.provider.each_restart(again).await;
        };
        vec![
            (
                "lists of routes",
                async move { lists.keep_listing().await }.boxed(),
            ),
            ("restarts of the provider", restarts.boxed()),
            (
                "changes of the cluster's UID",
                async move { identity.follow_cluster_uid().await }.boxed(),
            ),
            ("gauges", async move { gauges.measure().await }.boxed()),
        ]
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

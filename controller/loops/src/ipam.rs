//! The node-ipam loop: gives each Node its Pod CIDRs (upstream's node-ipam-controller, I-1 to I-20 of
//! `docs/upstream.md`).
//!
//! ```text
//!  list at the start of a lease term ─┐
//!  store ─(each change of a Node)─────┴─► Allocator        (in the event handler, before any key)
//!    ├─(Node without Pod CIDRs)─► queue ─► sync: core::ipam::plan ─► write ─► store
//!    └─(Node deleted) ──────────► Allocator ─► the Nodes that wait are queued
//! ```
//!
//! RBAC: `list`, `patch` on `nodes`, `get` on `nodes`; `create`, `patch` on `events`.

mod metrics;
mod sync;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use outrigger_core::{
    ipam::{Allocator, PodCidrProblem},
    node::NodeView,
};
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{sleep, sleep_until},
};
use tracing::{info, warn};

pub use self::metrics::IpamMetrics;
use crate::{
    context::LoopContext,
    control_loop::{ControlLoop, LoopInputs, Task, TermState},
    lifecycle::OnLookup,
    queue::{Outcome, Priority, Queue, QueueMetrics},
};
use outrigger_kube::{
    decode::Item,
    nodes::{self, NodeWriter},
    store::{Change, Origin, Store},
};
use outrigger_runtime::backoff::Backoff;

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "node-ipam-controller";
/// The component of its events (I-13).
pub const COMPONENT: &str = "cidrAllocator";

/// Nodes that are written at once; upstream has 30 workers and no flag for them (I-10).
const WRITERS: usize = 32;
/// Pause before the list at the start of a lease term is tried again.
const LIST_RETRY: Duration = Duration::from_secs(1);

/// The node-ipam loop.
pub struct NodeIpam {
    context: LoopContext<Arc<str>>,
    on_lookup: OnLookup,
    metrics: IpamMetrics,
    writer: NodeWriter,
    writing: Semaphore,
    state: Arc<IpamState>,
}

/// State of the loop in one lease term, observed from all Nodes at the start of each term.
pub struct IpamState {
    nodes: Arc<Store<NodeView>>,
    allocator: Mutex<Allocator>,
    /// Found by the event handlers and not reported yet, by Node.
    problems: Mutex<HashMap<Arc<str>, Vec<PodCidrProblem>>>,
    /// Nodes that wait for a CIDR of another Node to become free.
    waiting: Mutex<BTreeSet<Arc<str>>>,
    metrics: IpamMetrics,
}

impl IpamState {
    fn new(nodes: Arc<Store<NodeView>>, allocator: Allocator, metrics: IpamMetrics) -> Self {
        Self {
            nodes,
            allocator: Mutex::new(allocator),
            problems: Mutex::default(),
            waiting: Mutex::default(),
            metrics,
        }
    }

    /// Observes a Node of the list at the start.
    fn observe_listed(&self, node: &NodeView) {
        let problems = self.allocator.lock().observe_listed(node);
        self.found(&node.name, problems);
    }

    /// Observes the Pod CIDRs of the Node as the store has it now: two threads may call the handlers of
    /// two changes in either order. Returns whether the Node is to be reconciled: there are problems to
    /// report, or the list at the start had another Node of the name.
    fn observe(&self, name: &Arc<str>) -> bool {
        let (problems, is_awaited) = {
            let mut allocator = self.allocator.lock();
            let Some(node) = self.nodes.get(name) else {
                return false;
            };
            (allocator.observe(&node), allocator.awaited(name).is_some())
        };
        self.found(name, problems) || is_awaited
    }

    fn found(&self, name: &Arc<str>, new_problems: Vec<PodCidrProblem>) -> bool {
        let any = !new_problems.is_empty();
        if any {
            let mut problems = self.problems.lock();
            let problems = problems.entry(Arc::clone(name)).or_default();
            problems.extend(new_problems);
        }
        any
    }

    /// The Node is gone. Returns the Nodes that are to be tried again, since they may have what it had (not I-17's wait).
    fn forget(&self, name: &str, uid: &str) -> BTreeSet<Arc<str>> {
        self.problems.lock().remove(name);
        let mut allocator = self.allocator.lock();
        let freed = allocator.forget(name, uid);
        self.metrics.released(&freed, allocator.ranges());
        drop(allocator);
        let mut waiting = self.waiting.lock();
        waiting.remove(name);
        waiting.clone()
    }
}

/// Subscribes the loop to `nodes`. Queue name and back-off are upstream's (I-10).
pub fn subscribe(
    nodes: &Store<NodeView>,
    metrics: &QueueMetrics,
) -> LoopInputs<Arc<str>, IpamState> {
    let inputs = LoopInputs::new("cidrallocator_node", Backoff::default(), metrics);
    let LoopInputs { queue, state } = inputs.clone();
    nodes.subscribe(move |change: &Change<'_, NodeView>, origin| match change {
        Change::Added(node) => seen(&queue, &state, node, origin),
        Change::Updated(old, node) => {
            // A heartbeat does not bring the next try of a Node forward.
            let is_other = origin == Origin::List
                || (&old.pod_cidrs, &old.provider_id) != (&node.pod_cidrs, &node.provider_id)
                || old.is_paused() != node.is_paused();
            if is_other {
                seen(&queue, &state, node, origin);
            }
        }
        Change::Deleted(node) => {
            queue.remove(&node.name);
            if let Some(state) = state.current() {
                queue.add_all(state.forget(&node.name, &node.uid), Priority::Fresh);
            }
        }
    });
    inputs
}

fn seen(queue: &Queue<Arc<str>>, state: &TermState<IpamState>, node: &NodeView, origin: Origin) {
    let is_due = state
        .current()
        .is_some_and(|state| state.observe(&node.name));
    if is_due || node.pod_cidrs.is_empty() {
        queue.add(Arc::clone(&node.name), origin.into());
    }
}

impl NodeIpam {
    /// The loop for one lease term. `allocator` has observed no Node yet. A write may take `write_limit`, which is
    /// shorter than the time between a leader's renew deadline and the end of its lease; none without leader election.
    /// `on_lookup` receives each answer: it may contradict an absence of its Node.
    pub fn new(
        context: LoopContext<Arc<str>>,
        allocator: Allocator,
        write_limit: Option<Duration>,
        on_lookup: OnLookup,
        metrics: IpamMetrics,
    ) -> Self {
        let writes = match write_limit {
            Some(limit) => context.api.clone().limited(limit),
            None => context.api.clone(),
        };
        let nodes = &context.nodes;
        let state = IpamState::new(Arc::clone(nodes), allocator, metrics.clone());
        Self {
            writer: NodeWriter::new(writes, Arc::clone(nodes)),
            writing: Semaphore::new(WRITERS),
            state: Arc::new(state),
            context,
            on_lookup,
            metrics,
        }
    }

    /// Observes all Nodes as the API server has them now: the store may be older than the last write of
    /// another leader. Tried again until it succeeds.
    async fn list(&self) {
        // Writes of a process that was killed: a Node that they reach later has a Pod CIDR that this list lacks.
        sleep_until(self.context.term.quiet_at).await;
        let each = |item: Item<NodeView>| match item {
            Item::Decoded(node) => self.state.observe_listed(&node),
            Item::Undecodable(node) => warn!(
                node = node.key,
                error = node.cause,
                "Node cannot be decoded: its Pod CIDRs are not known, and may be given to another"
            ),
        };
        while let Err(error) = self.context.api.list(nodes::COLLECTION, None, each).await {
            warn!(%error, "Pod CIDRs of all Nodes cannot be listed; none is allocated until then");
            sleep(LIST_RETRY).await;
        }
    }
}

impl ControlLoop for NodeIpam {
    type Key = Arc<str>;
    type State = IpamState;
    type Slot = ();

    const NAME: &'static str = NAME;
    const NEEDS_PROVIDER: bool = false;

    fn state(&self) -> &Arc<IpamState> {
        &self.state
    }

    /// The store, and a list of this lease term (I-7).
    async fn ready(&self) {
        self.context.nodes.synced().await;
        if self.state.allocator.lock().asks_provider() {
            let without = || {
                warn!(
                    "nodes get no Pod CIDR: the provider allocates none \
                     (InstancesCapability.allocates_pod_cidrs), but --cidr-allocator-type is CloudAllocator"
                );
                info!("Skipping {NAME:?}");
            };
            self.context
                .provider
                .instances()
                .allocating_pod_cidrs(without)
                .await;
        }
        self.list().await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        for node in self.context.nodes.all() {
            let is_due = self.state.observe(&node.name);
            if is_due || node.pod_cidrs.is_empty() {
                self.context
                    .queue
                    .add(Arc::clone(&node.name), Priority::Bulk);
            }
        }
        // Deleted since the list, or not in the store yet.
        for name in self.state.allocator.lock().all_awaited() {
            self.context.queue.add(Arc::clone(name), Priority::Bulk);
        }
        for name in self.state.problems.lock().keys() {
            self.context.queue.add(Arc::clone(name), Priority::Bulk);
        }
        Vec::new()
    }

    fn measure(&self) {
        self.metrics.sizes(self.state.allocator.lock().sizes());
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority, (): ()) -> Outcome {
        self.sync(name).await
    }
}

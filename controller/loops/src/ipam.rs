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
//! The event handlers show every change of a Node to the allocator at once, under one lock, so that a CIDR that another
//! writer has given is never allocated; the keys are only those of Nodes without Pod CIDRs. Before the first key the loop
//! waits until no write of an earlier leader can arrive any more, and lists all Nodes. The provider is asked only with
//! `CloudAllocator`.
//!
//! RBAC: `list`, `patch` on `nodes`, `get` on `nodes`; `create`, `patch` on `events`.

mod metrics;
mod sync;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use outrigger_core::{
    event::EventContent,
    ipam::{Allocator, PodCidrProblem},
    node::NodeView,
};
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};

pub use self::metrics::IpamMetrics;
use crate::{
    context::{LoopContext, LoopParts},
    control_loop::{ControlLoop, LoopInputs, Task, TermState},
    lifecycle::OnLookup,
    queue::{Outcome, Priority, Queue, QueueMetrics},
};
use outrigger_kube::{
    decode::Item,
    nodes::{self, NodeWriter},
    store::{Change, Origin, Store},
};
use outrigger_provider::Session;
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
    parts: LoopParts,
    allocator: Mutex<Allocator>,
    /// Nodes that need a Pod CIDR, since when, and why they have none in the words of the last event.
    waiting: Mutex<BTreeMap<Arc<str>, (Instant, String)>>,
    metrics: IpamMetrics,
}

impl IpamState {
    fn new(parts: LoopParts, allocator: Allocator, metrics: IpamMetrics) -> Self {
        Self {
            parts,
            allocator: Mutex::new(allocator),
            waiting: Mutex::default(),
            metrics,
        }
    }

    /// Observes a Node of the list at the start.
    fn observe_listed(&self, node: &NodeView) {
        let problems = self.allocator.lock().observe_listed(node);
        self.report(node, problems);
    }

    /// Observes the Pod CIDRs of the Node as the store has it now.
    fn observe(&self, name: &str) {
        let mut allocator = self.allocator.lock();
        if let Some(node) = self.parts.nodes.get(name) {
            let problems = allocator.observe(&node);
            drop(allocator);
            self.report(&node, problems);
        }
    }

    /// Returns true if the Node is to be reconciled: it has no Pod CIDR, or the list at the start had another Node of the name.
    fn is_due(&self, node: &NodeView) -> bool {
        node.pod_cidrs.is_empty() || self.allocator.lock().awaited(&node.name).is_some()
    }

    fn report(&self, node: &NodeView, problems: Vec<PodCidrProblem>) {
        for problem in problems {
            let reason = problem.reason;
            self.metrics.problems.of([reason]).inc();
            warn!(node = &*node.name, reason, error = %problem, "Pod CIDRs of the Node are wrong");
            let event = EventContent::warning(reason, &problem.to_string());
            self.parts.node_event(node, event);
        }
    }

    /// The Node is gone. Returns the Nodes that are to be tried again, since they may have what it had (not I-17's wait).
    fn forget(&self, name: &str, uid: &str) -> BTreeSet<Arc<str>> {
        let mut allocator = self.allocator.lock();
        let freed = allocator.forget(name, uid);
        self.metrics.released(&freed, allocator.ranges());
        drop(allocator);
        let mut waiting = self.waiting.lock();
        waiting.remove(name);
        waiting.keys().cloned().collect()
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
    let is_due = match state.current() {
        Some(state) => {
            state.observe(&node.name);
            state.is_due(node)
        }
        None => node.pod_cidrs.is_empty(),
    };
    if is_due {
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
        let state = IpamState::new(context.parts.clone(), allocator, metrics.clone());
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
            let allocates = |session: &Session| {
                let instances = session.instances.as_ref();
                instances.is_some_and(|instances| instances.allocates_pod_cidrs)
            };
            self.context.provider.offering(allocates, without).await;
        }
        self.list().await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        for node in self.context.nodes.all() {
            self.state.observe(&node.name);
        }
        let mut nodes = self.context.nodes.all();
        nodes.retain(|node| node.pod_cidrs.is_empty());
        let names = nodes.iter().map(|node| &node.name);
        let allocator = self.state.allocator.lock();
        // Those too that were deleted since the list, or are not in the store yet.
        let due = names.chain(allocator.all_awaited()).cloned();
        self.context.queue.add_all(due, Priority::Bulk);
        Vec::new()
    }

    fn measure(&self) {
        self.metrics.sizes(self.state.allocator.lock().sizes());
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority, (): ()) -> Outcome {
        self.sync(name).await
    }
}

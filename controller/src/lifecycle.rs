//! The cloud-node-lifecycle loop: asks about nodes that are not ready, taints those whose machine is
//! stopped, deletes those whose machine is gone for certain (upstream's cloud-node-lifecycle-controller,
//! L-1 to L-15 of `docs/upstream.md`, but for L-6 and L-14: see [`outrigger_core::lifecycle`]).
//!
//! ```text
//!  store ─(not ready, tainted)─► queue ─► core::Lifecycle::check ─► lookup ─► answered ─► act
//!                                  ▲        └ At(time)                           │
//!                                  └──────────────────────────── next check ◄────┘
//! ```
//!
//! Unlike upstream there is no pass over all nodes: each has its own times.
//!
//! RBAC: `get`, `list`, `watch`, `patch`, `delete` on `nodes`; `create`, `patch` on `events`.

mod act;
mod metrics;
mod sync;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use outrigger_core::{
    brake::{Counts, Limits},
    lifecycle::Lifecycle,
    node::{NodeView, Ready},
    selector::Selector,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::metrics::LifecycleMetrics;
use crate::{
    clock::Clock,
    kube::{
        api::Api,
        events::Recorder,
        nodes::NodeWriter,
        store::{Change, Origin, Store},
    },
    node::Overheard,
    provider::{NotManaged, Provider, State},
    queue::{Backoff, Gate, Queue, QueueMetrics},
    telemetry::Repeats,
};

/// Name of the loop in `--controllers`, of its health check and of its events' component (E-6).
pub const NAME: &str = "cloud-node-lifecycle-controller";

/// Nodes in hand at once: those of a whole zone that went away are asked about in full batches. What
/// a flag limits is the writing.
const IN_HAND: usize = 8192;

/// How often the metrics of the brake are brought up to date.
const BRAKE_SHOWN: Duration = Duration::from_secs(10);

/// The parts that the loop is made of.
#[derive(Clone)]
pub struct Parts {
    /// Requests under the name `node-controller`, fenced by the leader's time in office.
    pub api: Api,
    /// All nodes.
    pub nodes: Arc<Store<NodeView>>,
    /// The cloud.
    pub provider: Provider,
    /// Events of component [`NAME`].
    pub events: Recorder,
    /// `--concurrent-node-lifecycle-syncs`: nodes that are written at once.
    pub workers: usize,
    /// `--node-selector`: which nodes without a provider id are this provider's.
    pub selector: Option<Arc<Selector>>,
    /// What the provider says that is not its own; shared with the cloud-node loop.
    pub not_managed: Arc<NotManaged>,
    /// Counts and times.
    pub metrics: LifecycleMetrics,
}

/// The cloud-node-lifecycle loop.
pub struct NodeLifecycle {
    parts: Parts,
    queue: Queue<Arc<str>>,
    memory: Arc<Memory>,
    writer: NodeWriter,
    writing: Semaphore,
    repeats: Repeats,
}

impl fmt::Debug for NodeLifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeLifecycle")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// State of the loop in one lease term. A restart loses it without harm: deletions only come later.
#[derive(Debug)]
struct Memory {
    lifecycle: Mutex<Lifecycle>,
    /// Why a node without a machine was not deleted, as it was last said about it.
    withheld: Mutex<HashMap<Arc<str>, &'static str>>,
    limits: Limits,
    clock: Clock,
}

impl Memory {
    /// A lease term begins: what an earlier one has seen is too old to be the first of two absences.
    fn begin_term(&self) {
        *self.lifecycle.lock() = Lifecycle::new(self.limits.clone());
        self.withheld.lock().clear();
    }
}

/// The queue of nodes, filled by the store. Made before the store starts, so that no change is
/// missed, on a standby too.
#[derive(Clone, Debug)]
pub struct Intake {
    queue: Queue<Arc<str>>,
    memory: Arc<Memory>,
}

impl Intake {
    /// Subscribes to `nodes`: those that are not ready, and those that need the taint of a stopped
    /// machine no more.
    pub fn new(nodes: &mut Store<NodeView>, limits: Limits, metrics: &QueueMetrics) -> Self {
        let queue = Queue::new("node_lifecycle", Backoff::default(), metrics);
        let memory = Arc::new(Memory {
            lifecycle: Mutex::new(Lifecycle::new(limits.clone())),
            withheld: Mutex::default(),
            limits,
            clock: Clock::default(),
        });
        let (keys, known) = (queue.clone(), Arc::clone(&memory));
        nodes.subscribe(move |change: &Change<'_, NodeView>, origin| match change {
            Change::Added(node) => offer(&keys, node, origin),
            Change::Updated(..) if origin == Origin::Write => {}
            Change::Updated(old, node) => {
                // One that is ready again ends what was begun.
                if old.ready != Ready::True || concerns(node) {
                    offer(&keys, node, origin);
                }
            }
            Change::Deleted(node) => {
                let now = known.clock.now();
                known.lifecycle.lock().gone(now, &node.name);
                known.withheld.lock().remove(&node.name);
            }
        });
        Self { queue, memory }
    }

    /// Where the cloud-node loop tells the answers that it gets.
    pub fn overheard(&self) -> Overheard {
        let memory = Arc::clone(&self.memory);
        Arc::new(move |node, lookup| {
            let now = memory.clock.now();
            memory.lifecycle.lock().overheard(now, node, lookup);
        })
    }
}

fn concerns(node: &NodeView) -> bool {
    node.ready != Ready::True || node.is_shut_down()
}

fn offer(queue: &Queue<Arc<str>>, node: &NodeView, origin: Origin) {
    queue.add(Arc::clone(&node.name), origin.priority());
}

impl NodeLifecycle {
    /// The loop over what `intake` has gathered.
    pub fn new(parts: Parts, intake: Intake) -> Self {
        Self {
            writer: NodeWriter::new(parts.api.clone(), Arc::clone(&parts.nodes)),
            writing: Semaphore::new(parts.workers),
            parts,
            queue: intake.queue,
            memory: intake.memory,
            repeats: Repeats::default(),
        }
    }

    /// Works until `stop`, then lets the nodes in hand finish. Waits for the store (not Q-20) and,
    /// all the way, for a provider that serves instances (L-1).
    pub async fn run(self, stop: CancellationToken) {
        let ready = async {
            self.parts.nodes.synced().await;
            let without = || {
                warn!(
                    "failed to start cloud node lifecycle controller: cloud provider does not \
                     support instances"
                );
                info!("Skipping {NAME:?}");
            };
            self.parts.provider.serving_instances(without).await;
        };
        if stop.run_until_cancelled(ready).await.is_none() {
            return;
        }
        info!(nodes = self.parts.nodes.len(), "starting {NAME}");
        self.memory.begin_term();
        self.parts.not_managed.clear();
        let this = Arc::new(self);
        let gate = Gate::new(this.parts.provider.state(), State::serves);
        let handler = {
            let this = Arc::clone(&this);
            move |name: Arc<str>, _| {
                let this = Arc::clone(&this);
                async move { this.sync(name).await }
            }
        };
        let work = this.queue.run(IN_HAND, gate, stop.clone(), handler);
        let watch = stop.run_until_cancelled(this.watch_brake());
        // Another process behind the socket may manage what the last one did not.
        let restarts = this.parts.provider.each_restart(|| this.look_again());
        let restarts = stop.run_until_cancelled(restarts);
        tokio::join!(work, watch, restarts);
    }

    /// Queues all nodes that are not ready.
    fn look_again(&self) {
        for node in self.parts.nodes.all() {
            if node.ready != Ready::True {
                offer(&self.queue, &node, Origin::List);
            }
        }
    }

    /// Shows what the brake counts, and says when it begins and ends to hold. Never returns.
    async fn watch_brake(&self) {
        let mut braked = false;
        loop {
            if let Some(session) = self.parts.provider.session()
                && let Some(instances) = &session.instances
            {
                let nodes = self.census(instances).owned;
                let now = self.memory.clock.now();
                let counts = self.memory.lifecycle.lock().counts(now, nodes);
                self.parts.metrics.counted(&counts);
                if counts.is_braked() != braked {
                    braked = !braked;
                    say(braked, &counts);
                }
            }
            tokio::time::sleep(BRAKE_SHOWN).await;
        }
    }
}

fn say(braked: bool, counts: &Counts) {
    let Counts {
        nodes,
        absent,
        held,
        absent_while_ready,
        deleted,
        limit,
    } = *counts;
    if braked {
        warn!(
            nodes,
            absent,
            held,
            absent_while_ready,
            deleted,
            limit,
            "too many nodes are absent from the cloud at once: nodes are not deleted until a \
             second look, or a person, says the same"
        );
    } else {
        info!(nodes, absent, deleted, limit, "nodes may be deleted again");
    }
}

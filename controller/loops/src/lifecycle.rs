//! The cloud-node-lifecycle loop: asks about nodes that are not ready, taints those whose machine
//! is stopped, deletes those whose machine is gone for certain (upstream's
//! cloud-node-lifecycle-controller, L-1 to L-15 of `docs/upstream.md`, except L-6 and L-14: see
//! [`outrigger_core::node::lifecycle`]).
//!
//! ```text
//!  store ─(not ready, tainted)─► queue ─► core::Lifecycle::check ─► lookup ─► answered ─► act
//!         │                        ▲        └ At(time)                │          │
//!         │                        └──────────────────── next check ◄─┼──────────┘
//!         └─(ready, gone: the question is over)───────────────────────┘
//! ```
//!
//! The queue has no gate: what needs no call, such as the end of the shutdown taint of a ready node, does not wait
//! for the provider. A question waits for it, until the node's next change.
//!
//! Unlike upstream there is no pass over all nodes: each has its own times.
//!
//! RBAC: `get`, `list`, `watch`, `patch`, `delete` on `nodes`; `patch` on `nodes/status`; `create`, `patch` on
//! `events`.

mod act;
mod metrics;
mod questions;
mod sync;

#[cfg(test)]
pub(crate) mod tests;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures::FutureExt;
use outrigger_core::{
    node::{
        NodeView, Ready,
        brake::{Counts, DeletionLimits},
        lifecycle::Lifecycle,
    },
    selector::Selector,
};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tracing::{info, warn};

pub use self::metrics::LifecycleMetrics;
use self::{questions::Questions, sync::Declared};
use crate::{
    control_loop::{ControlLoop, LoopInputs, Task, Term},
    node::OnLookup,
    node_effects::{NodeEffects, PendingNodeEffects},
    not_managed::NotManaged,
};
use outrigger_kubernetes::{
    api::Api,
    events::Recorder,
    nodes::NodeWriter,
    store::{Change, Origin, Store},
};
use outrigger_provider_client::Provider;
use outrigger_runtime::{
    clock::Clock,
    queue::{Backoff, Outcome, Priority, Queue, QueueMetrics},
    telemetry::Repeats,
};

/// Name of the loop in `--controllers`, of its health check and of its events' component (E-6).
pub const NAME: &str = "cloud-node-lifecycle-controller";

/// How often the metrics of the brake are brought up to date.
const BRAKE_SHOWN: Duration = Duration::from_secs(10);

/// The parts that the loop is made of.
#[derive(Clone)]
pub struct LifecycleParts {
    /// Requests under the name `node-controller`.
    pub api: Api,
    /// All nodes.
    pub nodes: Arc<Store<NodeView>>,
    /// The cloud.
    pub provider: Provider,
    /// Events of component [`NAME`].
    pub events: Recorder,
    /// Flags of the loop.
    pub settings: LifecycleSettings,
    /// Nodes that the provider does not manage; shared with the cloud-node loop.
    pub not_managed: Arc<NotManaged>,
    /// Counts and times.
    pub metrics: LifecycleMetrics,
}

/// Flags of the loop.
#[derive(Clone, Debug)]
pub struct LifecycleSettings {
    /// `--concurrent-node-lifecycle-syncs`: nodes that are written at once.
    pub workers: usize,
    /// `--node-selector`: which nodes without a provider id are this provider's; absent: all.
    pub selector: Option<Arc<Selector>>,
    /// `--node-deletion-*`, `--node-monitor-period`: when a node may be deleted.
    pub limits: DeletionLimits,
}

/// The cloud-node-lifecycle loop.
pub struct NodeLifecycle {
    parts: LifecycleParts,
    queue: Queue<Arc<str>>,
    state: Arc<LifecycleState>,
    writer: NodeWriter,
    writing: Semaphore,
    effects: NodeEffects,
    repeats: Repeats,
    /// By the provider that serves instances now, or did last.
    declared: RwLock<Option<Arc<Declared>>>,
}

impl fmt::Debug for NodeLifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeLifecycle")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// State of the loop in one lease term. A restart loses it without harm: deletions only come later, since
/// an observation of an earlier term is too old to be the first of two absences.
#[derive(Debug)]
pub struct LifecycleState {
    lifecycle: Mutex<Lifecycle>,
    /// Why a node without a machine was not deleted, as it was last said about it.
    withheld: Mutex<HashMap<Arc<str>, &'static str>>,
    questions: Questions,
    effects: Arc<PendingNodeEffects>,
    clock: Clock,
}

impl LifecycleState {
    fn new(limits: DeletionLimits) -> Self {
        Self {
            lifecycle: Mutex::new(Lifecycle::new(limits)),
            withheld: Mutex::default(),
            questions: Questions::default(),
            effects: Arc::default(),
            clock: Clock::default(),
        }
    }
}

/// Subscribes the loop to `nodes`: those that are not ready, and those that need the taint of a stopped
/// machine no more.
pub fn subscribe(
    nodes: &Store<NodeView>,
    metrics: &QueueMetrics,
) -> LoopInputs<Arc<str>, LifecycleState> {
    let inputs = LoopInputs::<_, LifecycleState>::new(
        "node_lifecycle",
        Backoff::default().with_jitter(),
        metrics,
    );
    let LoopInputs { queue, state } = inputs.clone();
    nodes.subscribe(move |change: &Change<'_, NodeView>, origin| match change {
        Change::Added(node) => offer(&queue, node, origin),
        Change::Updated(..) if origin == Origin::Write => {}
        Change::Updated(old, node) => {
            if questions::is_over(node)
                && let Some(state) = state.current()
            {
                state.questions.end(&node.name);
            }
            // One that is ready again ends what was begun.
            if old.ready != Ready::True || concerns(node) {
                offer(&queue, node, origin);
            }
        }
        Change::Deleted(node) => {
            if let Some(state) = state.current() {
                let now = state.clock.now();
                state.lifecycle.lock().removed(now, &node.name);
                state.withheld.lock().remove(&node.name);
                state.questions.end(&node.name);
                state.effects.forget(&node.name);
            }
            queue.remove(&node.name);
        }
    });
    inputs
}

/// Event handler that counts answers to other loops in the state of the lease term.
pub fn on_lookup(inputs: &LoopInputs<Arc<str>, LifecycleState>) -> OnLookup {
    let state = Arc::clone(&inputs.state);
    Arc::new(move |node, lookup| {
        if let Some(state) = state.current() {
            let now = state.clock.now();
            state.lifecycle.lock().observed(now, node, lookup);
        }
    })
}

fn concerns(node: &NodeView) -> bool {
    node.ready != Ready::True || node.is_shut_down()
}

fn offer(queue: &Queue<Arc<str>>, node: &NodeView, origin: Origin) {
    queue.add(Arc::clone(&node.name), origin.priority());
}

impl NodeLifecycle {
    /// The loop over the keys of `inputs`, for one lease term.
    pub fn new(
        mut parts: LifecycleParts,
        inputs: &LoopInputs<Arc<str>, LifecycleState>,
        term: &Term,
    ) -> Self {
        parts.api = parts.api.fenced(term.fence.clone());
        parts.provider = parts.provider.fenced(term.fence.clone());
        let writer = NodeWriter::new(parts.api.clone(), Arc::clone(&parts.nodes));
        let state = Arc::new(LifecycleState::new(parts.settings.limits.clone()));
        Self {
            effects: NodeEffects::new(
                parts.provider.clone(),
                Arc::clone(&parts.nodes),
                writer.clone(),
                parts.events.clone(),
                parts.settings.workers,
                Arc::clone(&state.effects),
            ),
            writer,
            writing: Semaphore::new(parts.settings.workers),
            state,
            parts,
            queue: inputs.queue.clone(),
            repeats: Repeats::default(),
            declared: RwLock::default(),
        }
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
                let now = self.state.clock.now();
                let counts = self.state.lifecycle.lock().counts(now, nodes);
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

impl ControlLoop for NodeLifecycle {
    type Key = Arc<str>;
    type State = LifecycleState;

    const NAME: &'static str = NAME;
    const NEEDS_PROVIDER: bool = false;

    fn state(&self) -> &Arc<LifecycleState> {
        &self.state
    }

    /// The store (not Q-20), and all the way a provider that serves instances (L-1).
    async fn ready(&self) {
        self.parts.nodes.synced().await;
        let without = || {
            let error = "cloud provider does not support instances";
            warn!(
                controller = NAME,
                error, "failed to start cloud node lifecycle controller; skipping it"
            );
        };
        self.parts.provider.instances().serving(without).await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.parts.not_managed.clear();
        // Another process behind the socket may manage what the last one did not.
        let this = Arc::clone(self);
        let restarts = async move {
            let provider = &this.parts.provider;
            provider.each_restart(|| this.look_again()).await;
        };
        let brake = Arc::clone(self);
        vec![
            ("restarts of the provider", restarts.boxed()),
            ("brake", async move { brake.watch_brake().await }.boxed()),
        ]
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority) -> Outcome {
        self.sync(name).await
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

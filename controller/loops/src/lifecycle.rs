//! The cloud-node-lifecycle loop: asks about nodes that are not ready, taints those whose machine
//! is stopped, takes those out of service whose machine has been stopped for long if an operator
//! asks for that, deletes those whose machine is gone for certain (upstream's
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
//! The queue has no gate: what needs no call, such as the end of the taints of a ready node, does not wait
//! for the provider. A question waits for it, until the node's next change.
//!
//! Unlike upstream there is no pass over all nodes: each has its own times.
//!
//! Answers to the other loops come in through [`on_lookup`], and count for the rate limit. An operator confirms deletions
//! that are withheld by an annotation of the Lease, which is taken from it before it counts.
//!
//! RBAC: `get`, `list`, `watch`, `patch`, `delete` on `nodes`; `patch` on `nodes/status`; `create`, `patch` on
//! `events`.

mod act;
mod metrics;
mod sync;

#[cfg(test)]
pub(crate) mod tests;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::FutureExt;
use outrigger_core::{
    event::EventContent,
    node::{
        ANNOTATION_CONFIRM_DELETIONS, NodeView, Ready, deletion_limit::DeletionLimits,
        instance::Lookup, lifecycle::Lifecycle,
    },
    repairs::Repairs,
    selector::Selector,
};
use parking_lot::{Mutex, RwLock};
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::metrics::LifecycleMetrics;
use self::sync::Declared;
use crate::{
    context::LoopContext,
    control_loop::{ControlLoop, LoopInputs, Task},
    node_effects::{NodeEffects, PendingNodeEffects},
    not_managed::NotManaged,
    queue::{Outcome, Priority, Queue, QueueMetrics},
};
use outrigger_kube::{
    events::ObjectRef,
    leader::Handle,
    nodes::NodeWriter,
    store::{Change, Origin, Store},
};
use outrigger_runtime::{backoff::Backoff, clock::Clock};

/// Name of the loop in `--controllers`, of its health check and of its events' component (E-6).
pub const NAME: &str = "cloud-node-lifecycle-controller";

/// How often the Lease, as last seen, is looked at.
const CONFIRMATIONS: Duration = Duration::from_secs(1);

/// Flags of the loop.
#[derive(Clone, Debug)]
pub struct LifecycleSettings {
    /// `--concurrent-node-lifecycle-syncs`: nodes that are written at once.
    pub workers: usize,
    /// `--node-selector`: which nodes without a provider id are this provider's; absent: all.
    pub selector: Option<Arc<Selector>>,
    /// `--node-deletion-*`, `--node-monitor-period`: when a node may be deleted.
    pub limits: DeletionLimits,
    /// `--out-of-service-after`; zero: off.
    pub out_of_service_after: Duration,
}

/// The cloud-node-lifecycle loop.
pub struct NodeLifecycle {
    context: LoopContext<Arc<str>>,
    settings: LifecycleSettings,
    /// Shared with the cloud-node loop.
    not_managed: Arc<NotManaged>,
    metrics: LifecycleMetrics,
    state: Arc<LifecycleState>,
    writer: NodeWriter,
    writing: Semaphore,
    effects: NodeEffects,
    /// By the provider that serves instances now, or did last.
    declared: RwLock<Option<Declared>>,
}

/// State of the loop in one lease term. A restart loses it without harm: deletions only come later, since
/// an observation of an earlier term is too old to be the first of two absences.
pub struct LifecycleState {
    lifecycle: Mutex<Lifecycle>,
    questions: Questions,
    /// Taints of a stop that another client has added to ready Nodes.
    repairs: Mutex<HashMap<Arc<str>, Repairs>>,
    effects: Arc<PendingNodeEffects>,
    clock: Clock,
}

impl LifecycleState {
    fn new(limits: DeletionLimits) -> Self {
        Self {
            lifecycle: Mutex::new(Lifecycle::new(limits)),
            questions: Questions::default(),
            repairs: Mutex::default(),
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
            if is_over(node)
                && let Some(state) = state.current()
            {
                state.questions.end(&node.name);
            }
            // A Node that is ready again ends the checks that were begun.
            if old.ready != Ready::True || concerns(node) {
                offer(&queue, node, origin);
            }
        }
        Change::Deleted(node) => {
            if let Some(state) = state.current() {
                let now = state.clock.now();
                state.lifecycle.lock().removed(now, &node.name);
                state.repairs.lock().remove(&node.name);
                state.questions.end(&node.name);
                state.effects.forget(&node.name);
            }
            queue.remove(&node.name);
        }
    });
    inputs
}

/// Event handler for answers about nodes to other loops; none is an error.
pub type OnLookup = Arc<dyn Fn(&NodeView, Option<&Lookup>) + Send + Sync>;

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
    node.ready != Ready::True || node.has_taint_of_stop()
}

fn offer(queue: &Queue<Arc<str>>, node: &NodeView, origin: Origin) {
    queue.add(Arc::clone(&node.name), origin.into());
}

/// Questions to the provider that wait for it or for its answer, by the name of their Node: one at a time, as the queue
/// hands out each name. They end when their Node needs none any more.
#[derive(Debug, Default)]
struct Questions(Mutex<HashMap<Arc<str>, CancellationToken>>);

impl Questions {
    /// The answer to the question about the Node `name`; none if the question ends before. `is_over` is asked
    /// once the question can be ended, for what has changed before.
    async fn ask<T>(
        &self,
        name: &Arc<str>,
        is_over: impl FnOnce() -> bool,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let end = CancellationToken::new();
        self.0.lock().insert(Arc::clone(name), end.clone());
        let answer = if is_over() {
            None
        } else {
            end.run_until_cancelled(answer).await
        };
        self.0.lock().remove(name);
        answer
    }

    /// Ends the question about the Node `name`, if there is one.
    fn end(&self, name: &str) {
        if let Some(end) = self.0.lock().get(name) {
            end.cancel();
        }
    }
}

/// Returns true if no question about the Node has to be answered: it is ready, or left alone.
fn is_over(node: &NodeView) -> bool {
    node.ready == Ready::True || node.is_paused()
}

impl NodeLifecycle {
    /// The loop for one lease term.
    pub fn new(
        context: LoopContext<Arc<str>>,
        settings: LifecycleSettings,
        not_managed: Arc<NotManaged>,
        metrics: LifecycleMetrics,
    ) -> Self {
        let writer = NodeWriter::new(context.api.clone(), Arc::clone(&context.nodes));
        let state = Arc::new(LifecycleState::new(settings.limits.clone()));
        let pending = Arc::clone(&state.effects);
        Self {
            effects: NodeEffects::new(
                context.parts.clone(),
                writer.clone(),
                settings.workers,
                pending,
            ),
            writer,
            writing: Semaphore::new(settings.workers),
            state,
            context,
            settings,
            not_managed,
            metrics,
            declared: RwLock::default(),
        }
    }
}

/// Confirmations of deletions by an operator: the annotation of the Lease, which counts once.
impl NodeLifecycle {
    /// Takes each annotation from the Lease, and then confirms the deletions that are withheld. Never returns.
    async fn take_confirmations(self: Arc<Self>) {
        let Some(lease) = self.context.term.lease.clone() else {
            return std::future::pending().await;
        };
        loop {
            if let Some(value) = lease.annotation(ANNOTATION_CONFIRM_DELETIONS) {
                self.take_confirmation(&lease, &value).await;
            }
            sleep(CONFIRMATIONS).await;
        }
    }

    async fn take_confirmation(&self, lease: &Handle, value: &str) {
        // First, so that it counts once, whatever becomes of this process.
        let taken = lease.annotate(ANNOTATION_CONFIRM_DELETIONS, None).await;
        let event = match (taken, value.parse()) {
            (Err(error), _) => EventContent::deletions_not_confirmed(&error),
            (Ok(()), Err(_)) => {
                let why = format!("its value is {value:?}, not how many deletions are withheld");
                EventContent::deletions_not_confirmed(&why)
            }
            (Ok(()), Ok(expected)) => self.confirm_withheld(expected),
        };
        info!(lease = lease.lease(), event = %event.message, "deletions of nodes confirmed, or not");
        let lease = ObjectRef::lease(lease.namespace(), lease.lease(), "");
        self.context.events.event(lease, event);
    }

    fn confirm_withheld(&self, expected: usize) -> EventContent {
        let now = self.state.clock.now();
        let confirmed = self.state.lifecycle.lock().confirm_withheld(now, expected);
        match confirmed {
            Ok(names) => {
                let event = EventContent::deletions_confirmed(names.len());
                self.context.queue.add_all(names, Priority::Fresh);
                event
            }
            Err(withheld) => {
                let why = format!("{withheld} deletions are withheld now, and it says {expected}");
                EventContent::deletions_not_confirmed(&why)
            }
        }
    }
}

impl ControlLoop for NodeLifecycle {
    type Key = Arc<str>;
    type State = LifecycleState;
    type Slot = ();

    const NAME: &'static str = NAME;
    const NEEDS_PROVIDER: bool = false;

    fn state(&self) -> &Arc<LifecycleState> {
        &self.state
    }

    async fn ready(&self) {
        let name = "cloud node lifecycle controller";
        self.context.instances_served(NAME, name).await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.not_managed.clear();
        let confirmations = Arc::clone(self).take_confirmations();
        vec![("confirmations of deletions", confirmations.boxed())]
    }

    /// The new process may manage nodes that the last one did not.
    fn provider_restarted(&self) {
        for node in self.context.nodes.all() {
            if node.ready != Ready::True {
                offer(&self.context.queue, &node, Origin::List);
            }
        }
    }

    fn measure(&self) {
        if let Some(session) = self.context.provider.session()
            && let Some(instances) = &session.instances
        {
            let nodes = self.census(instances).owned;
            let now = self.state.clock.now();
            let (counts, stops) = {
                let mut lifecycle = self.state.lifecycle.lock();
                (
                    lifecycle.counts(now, nodes),
                    lifecycle.stop_counts(now, nodes),
                )
            };
            self.metrics.counted(&counts, &stops);
        }
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority, (): ()) -> Outcome {
        self.sync(name).await
    }
}

//! The runtime of every loop: one start, one end, one lease term at a time.
//!
//! ```text
//!  event handlers ─► queue ─────────────────────────────┐      (a standby's queue fills too)
//!        └► TermState (none on a standby)               ▼
//!  ready ─► publish the term's state ─► begin ─► queue.run(reconcile) + tasks ─► stop ─► drain ─► drop
//! ```
//!
//! A loop subscribes to its stores once, before they are filled. Each lease term makes a new loop with empty memory:
//! decisions rest on no observation of an earlier term.
//!
//! The runtime calls [`ControlLoop::ready`] once, then [`ControlLoop::begin`], and from then on [`ControlLoop::reconcile`],
//! never for one key twice at the same time. At the stop it takes no more keys and waits for those in flight. It retries
//! nothing: the [`Outcome`] goes to the queue. A panic of `reconcile` is a failure of its key alone; the end of a task is a
//! bug, which ends the loop and is logged.
//!
//! ```
//! use outrigger_core::node::NodeView;
//! use outrigger_kube::store::Change;
//! use outrigger_loops::{
//!     context::{LoopContext, LoopParts},
//!     control_loop::{ControlLoop, Host, LoopInputs, Task, host},
//!     queue::{Outcome, Priority, QueueMetrics},
//! };
//! use outrigger_runtime::backoff::Backoff;
//! use std::sync::Arc;
//!
//! /// Prints the provider ID of each Node that appears or changes.
//! struct Printer {
//!     context: LoopContext<Arc<str>>,
//!     state: Arc<()>,
//! }
//!
//! impl ControlLoop for Printer {
//!     type Key = Arc<str>;
//!     type State = ();
//!     type Slot = ();
//!     const NAME: &'static str = "printer";
//!     const NEEDS_PROVIDER: bool = false;
//!
//!     fn state(&self) -> &Arc<()> {
//!         &self.state
//!     }
//!     async fn ready(&self) {
//!         self.context.nodes.synced().await;
//!     }
//!     fn begin(self: &Arc<Self>) -> Vec<Task> {
//!         let nodes = self.context.nodes.all();
//!         let names = nodes.iter().map(|node| Arc::clone(&node.name));
//!         self.context.queue.add_all(names, Priority::Bulk);
//!         Vec::new()
//!     }
//!     async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority, (): ()) -> Outcome {
//!         if let Some(node) = self.context.nodes.get(&name) {
//!             println!("{name}: {}", node.provider_id);
//!         }
//!         Outcome::Done
//!     }
//! }
//!
//! /// Called once by the binary, before the store is filled.
//! fn hosted(parts: LoopParts, metrics: &QueueMetrics) -> Host {
//!     let inputs = LoopInputs::new("printer", Backoff::default(), metrics);
//!     let queue = inputs.queue.clone();
//!     parts.nodes.subscribe(move |change: &Change<'_, NodeView>, origin| {
//!         if let Change::Added(node) | Change::Updated(_, node) = change {
//!             queue.add(Arc::clone(&node.name), origin.into());
//!         }
//!     });
//!     host::<Printer>(parts, inputs, |context| Printer { context, state: Arc::default() })
//! }
//! ```

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, ready, select_all},
};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::{
    context::{LoopContext, LoopParts, Term},
    queue::{self, Concurrency, Gate, Outcome, Priority, Queue, QueueMetrics},
};
use outrigger_provider::{Provider, ProviderState};
use outrigger_runtime::backoff::Backoff;

/// How often the gauges of a loop are set.
const GAUGES: Duration = Duration::from_secs(5);

/// Work beside the queue, by a name for the log. It never returns; it is dropped at the stop.
pub type Task = (&'static str, BoxFuture<'static, ()>);

/// Runs a loop in the lease term until the token is cancelled.
pub type Host = Box<dyn Fn(&Term, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// The queue of a loop and the state of its lease term, as the event handlers of its stores see them. Made
/// once, before the stores are filled, so that no change is missed, on a standby too.
#[derive(Debug)]
pub struct LoopInputs<K: queue::Key, S> {
    /// Filled on a standby too.
    pub queue: Queue<K>,
    /// The state of the lease term that the loop runs in.
    pub state: Arc<TermState<S>>,
}

impl<K: queue::Key, S> LoopInputs<K, S> {
    /// A queue of this name, and no lease term yet.
    pub fn new(queue: &'static str, backoff: Backoff, metrics: &QueueMetrics) -> Self {
        Self {
            queue: Queue::new(queue, backoff, metrics),
            state: Arc::default(),
        }
    }
}

impl<K: queue::Key, S> Clone for LoopInputs<K, S> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            state: Arc::clone(&self.state),
        }
    }
}

/// A right that is scarce, and that each key is taken with.
pub trait KeySlot: Sized + Send + 'static {
    /// Waits until there is one.
    fn wait(provider: Provider) -> BoxFuture<'static, Self>;
}

/// No right is needed.
impl KeySlot for () {
    fn wait(_: Provider) -> BoxFuture<'static, Self> {
        ready(()).boxed()
    }
}

/// One control loop in one lease term.
pub trait ControlLoop: Send + Sync + Sized + 'static {
    /// The key of one object.
    type Key: queue::Key;
    /// All that decisions remember in this lease term beyond the stores.
    type State: Send + Sync + 'static;
    /// The right that a key is taken with.
    type Slot: KeySlot;

    /// Name in `--controllers`, in health checks and in the log.
    const NAME: &'static str;

    /// True if keys are taken only while the provider serves.
    const NEEDS_PROVIDER: bool = true;

    /// This term's state, which the event handlers see too.
    fn state(&self) -> &Arc<Self::State>;

    /// Resolves when the stores are synced and the provider serves all that the loop calls.
    fn ready(&self) -> impl Future<Output = ()> + Send;

    /// Queues the keys with which the term begins, and returns the work beside the queue. The event
    /// handlers have the state already; no key is taken yet.
    fn begin(self: &Arc<Self>) -> Vec<Task>;

    /// Brings one object closer to its desired state, with the slot that its key was taken with.
    fn reconcile(
        self: Arc<Self>,
        key: Self::Key,
        priority: Priority,
        slot: Self::Slot,
    ) -> impl Future<Output = Outcome> + Send;

    /// Another process of the provider serves, or serves more than before: it may do what the last one refused.
    fn provider_restarted(&self) {}

    /// Sets the gauges of the loop; called every 5 s.
    fn measure(&self) {}

    /// Called at the stop, before the keys in flight are awaited: those that wait for a permit must give
    /// up.
    fn stopping(&self) {}

    /// Keys that are reconciled at once: all of a large cluster, so that calls to the provider leave in full
    /// batches and one slow answer delays no other key. The loop's own semaphores bound the work that a flag limits.
    fn concurrency(&self) -> Concurrency {
        Concurrency::of(8192)
    }
}

/// Hosts a loop over the keys of `inputs`; `make` makes a new one for each lease term.
pub fn host<L: ControlLoop>(
    parts: LoopParts,
    inputs: LoopInputs<L::Key, L::State>,
    make: impl Fn(LoopContext<L::Key>) -> L + Send + Sync + 'static,
) -> Host {
    Box::new(move |term, stop| {
        let context = LoopContext::new(&parts, inputs.queue.clone(), term);
        run(make(context), inputs.clone(), parts.provider.clone(), stop).boxed()
    })
}

/// Runs `control_loop` over the keys of `inputs` until `stop`, then takes no more keys, and returns when the
/// keys in flight are reconciled. Keys are taken only while `provider` serves, unless the loop does without
/// ([`ControlLoop::NEEDS_PROVIDER`]). Returns before `stop` only if one of its tasks has ended, which is a bug.
///
/// Dropping the future drops keys in flight with their calls; their keys stay in the queue.
async fn run<L: ControlLoop>(
    control_loop: L,
    inputs: LoopInputs<L::Key, L::State>,
    provider: Provider,
    stop: CancellationToken,
) {
    if stop
        .run_until_cancelled(control_loop.ready())
        .await
        .is_none()
    {
        return;
    }
    info!(controller = L::NAME, "starting controller");
    let control_loop = Arc::new(control_loop);
    let _published = inputs.state.publish(control_loop.state());
    let mut tasks = control_loop.begin();
    let (restarted, measured) = (Arc::clone(&control_loop), Arc::clone(&control_loop));
    let restarts = provider.clone();
    let restarts = async move {
        restarts
            .each_restart(|| restarted.provider_restarted())
            .await;
    };
    let gauges = async move {
        loop {
            measured.measure();
            tokio::time::sleep(GAUGES).await;
        }
    };
    tasks.push(("restarts of the provider", restarts.boxed()));
    tasks.push(("gauges", gauges.boxed()));
    let named = tasks.into_iter();
    let named = named.map(|(name, task)| task.map(move |()| name).boxed());
    // All are dropped at the stop.
    let first_end = async { stop.run_until_cancelled(select_all(named)).await };

    let is_open = if L::NEEDS_PROVIDER {
        ProviderState::serves
    } else {
        |_: &ProviderState| true
    };
    let gate = Gate::new(provider.state(), is_open);
    let handler = {
        let control_loop = Arc::clone(&control_loop);
        move |key, priority, slot| Arc::clone(&control_loop).reconcile(key, priority, slot)
    };
    let work = inputs.queue.run(
        || control_loop.concurrency(),
        || L::Slot::wait(provider.clone()),
        gate,
        stop.clone(),
        handler,
    );
    let stopping = async {
        stop.cancelled().await;
        control_loop.stopping();
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(work, stopping) } => {}
        Some((name, ..)) = first_end => {
            error!(controller = L::NAME, task = name, "task of a controller ended unexpectedly");
        }
    }
}

/// Where the event handlers of a store find the state of the lease term, as long as there is one.
#[derive(Debug)]
pub struct TermState<T>(RwLock<Option<Arc<T>>>);

impl<T> Default for TermState<T> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<T> TermState<T> {
    /// Returns the state of the current lease term; `None` on a standby, and until the loop is ready.
    pub fn current(&self) -> Option<Arc<T>> {
        self.0.read().clone()
    }

    /// Shows `state` to the event handlers until the guard is dropped.
    fn publish(&self, state: &Arc<T>) -> Published<'_, T> {
        *self.0.write() = Some(Arc::clone(state));
        Published(self)
    }
}

/// The lease term ends when this is dropped.
struct Published<'a, T>(&'a TermState<T>);

impl<T> Drop for Published<'_, T> {
    fn drop(&mut self) {
        *self.0.0.write() = None;
    }
}

#[cfg(test)]
mod tests;

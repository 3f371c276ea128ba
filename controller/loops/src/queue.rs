//! The work queue: client-go's semantics, plus priority.
//!
//! ```text
//!  add ──────────────► ready: Fresh, Update, Bulk ─(slot)─► up to N handlers ─► Outcome
//!  add_after ─► delayed ─┘                                                         │
//!                  ▲                                                               │
//!                  └───────────────────── Retry, RetryAfter ◄──────────────────────┘
//! ```
//!
//! Event handlers and tasks of a loop add keys; [`crate::control_loop`] calls [`Queue::run`] once in each lease term. The
//! queue never looks at the object behind a key, and forgets a key that is done.
//!
//! Guarantees for a loop:
//! - A key is in the queue once, however often it is added, and is never worked on twice at the same time. A key that is
//!   added while it is worked on runs again afterwards.
//! - The most urgent [`Priority`] that waits goes first, but every eighth turn is of a less urgent one: a cluster that
//!   never rests still finishes its start-up and resync keys. [`Concurrency`] bounds the [`Priority::Bulk`] keys in flight
//!   apart.
//! - A loop whose keys need something that is scarce, such as a call that few may make together, has each key taken
//!   together with it: the slot of [`Queue::run`]. Until then the key waits in the queue, where it can be added with a
//!   higher priority, or removed.
//! - A key that waits in both ways (delay, back-off) runs at the earliest time. An `add` runs it now, back-off or not, as
//!   in client-go: the change may be what heals it. A failure of such an early run is not counted and leaves the back-off
//!   where it was, so that a stream of changes cannot drive a key to the longest delay (client-go's wart,
//!   kubernetes#132805).
//! - A retry keeps the priority of the run that failed.
//! - There is no limit over all keys (client-go: 10 retries a second): a provider that is down closes the [`Gate`] instead.
//!
//! The [`Backoff`] of a loop that looks up objects together has jitter, which client-go's has not: keys that one call
//! failed would else meet in each call after it.
//!
//! ```
//! use futures::FutureExt;
//! use outrigger_loops::queue::{Concurrency, Gate, Outcome, Priority, Queue, QueueMetrics};
//! use outrigger_runtime::backoff::Backoff;
//! use std::future::ready;
//! use tokio::sync::{mpsc, watch};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let queue = Queue::new("nodes", Backoff::default(), &QueueMetrics::default());
//! queue.add("node-b", Priority::Bulk);
//! queue.add("node-a", Priority::Fresh);
//! queue.add("node-a", Priority::Fresh);
//!
//! let (_provider, serves) = watch::channel(true);
//! let (handled, mut keys) = mpsc::unbounded_channel();
//! let stop = CancellationToken::new();
//! let work = queue.run(
//!     || Concurrency::of(1),
//!     || ready(()).boxed(),
//!     Gate::new(serves, |serves| *serves),
//!     stop.clone(),
//!     move |key, _priority, ()| {
//!         let sent = handled.send(key);
//!         ready(if sent.is_ok() { Outcome::Done } else { Outcome::Retry })
//!     },
//! );
//! let two_keys = async {
//!     let first_two = (keys.recv().await, keys.recv().await);
//!     stop.cancel();
//!     first_two
//! };
//! let ((), first_two) = tokio::join!(work, two_keys);
//! assert_eq!(first_two, (Some("node-a"), Some("node-b")));
//! assert_eq!(queue.depth(), 0);
//! # }
//! ```

mod lanes;
mod metrics;
mod state;
mod worker;

#[cfg(test)]
mod tests;

use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use outrigger_core::error_class::{Requeue, SLOWEST};
use outrigger_kube::store::Origin;
use outrigger_runtime::backoff::Backoff;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::{sync::Notify, time::Instant};

pub use self::{metrics::QueueMetrics, worker::Gate};
use self::{
    metrics::{Observed, Snapshot},
    state::State,
};

/// Which of two waiting keys goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A fresh change, which a user may be waiting for.
    Fresh,
    /// One change that concerns many keys.
    Update,
    /// Start-up and resync: many keys of which few need work.
    Bulk,
}

impl Priority {
    const ALL: [Self; 3] = [Self::Fresh, Self::Update, Self::Bulk];
}

/// How many keys are in flight at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Keys of any priority.
    pub all: usize,
    /// Those of [`Priority::Bulk`] among them.
    pub bulk: usize,
}

impl Concurrency {
    /// So many keys, of any priority.
    pub const fn of(all: usize) -> Self {
        Self { all, bulk: all }
    }
}

impl From<Origin> for Priority {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Watch | Origin::Write => Self::Fresh,
            Origin::List => Self::Bulk,
        }
    }
}

/// The outcome of handling a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done; the failures of the past are forgotten.
    Done,
    /// Failed; try again after the key's own exponential [`Backoff`].
    Retry,
    /// Like [`Retry`](Self::Retry), but no later than after this long.
    RetryWithin(Duration),
    /// Like [`RetryWithin`](Self::RetryWithin), but no sooner than after [`SLOW`](outrigger_core::error_class::SLOW): the
    /// cause ends only when an operator does something.
    RetrySlowly(Duration),
    /// Try again after exactly this long, as the provider or the API server asks. Neither counts as
    /// a failure nor resets the count.
    RetryAfter(Duration),
}

impl From<Requeue> for Outcome {
    fn from(requeue: Requeue) -> Self {
        match requeue {
            Requeue::After(delay) => Self::RetryAfter(delay),
            Requeue::BackOff => Self::Retry,
            Requeue::SlowBackOff => Self::RetrySlowly(SLOWEST),
            Requeue::OnChange => Self::Done,
        }
    }
}

/// A key: small, cheap to clone, such as an `Arc<str>`.
pub trait Key: Clone + Eq + Hash + fmt::Debug + Send + 'static {}

impl<K: Clone + Eq + Hash + fmt::Debug + Send + 'static> Key for K {}

/// A handle to one queue. Clones share it.
#[derive(Clone, Debug)]
pub struct Queue<K: Key> {
    shared: Arc<Shared<K>>,
}

#[derive(Debug)]
struct Shared<K: Key> {
    name: &'static str,
    state: Mutex<State<K>>,
    panics: Counter,
    /// Wakes the one `run`: something became ready, or the earliest delay changed.
    wake: Notify,
}

impl<K: Key> Queue<K> {
    /// A queue whose metrics carry the label `name`. A later queue of the same name takes over the
    /// gauges and goes on with the counters.
    pub fn new(name: &'static str, backoff: Backoff, metrics: &QueueMetrics) -> Self {
        let counters = metrics.counters(name);
        let shared = Arc::new(Shared {
            name,
            panics: counters.panics.clone(),
            state: Mutex::new(State::new(backoff, counters)),
            wake: Notify::new(),
        });
        let observed: Arc<dyn Observed> = Arc::clone(&shared) as _;
        metrics.observe(name, &observed);
        Self { shared }
    }

    /// Makes the key run as soon as a worker is free. If it waits already, it keeps its place, or
    /// is raised to the higher priority; it is never lowered.
    pub fn add(&self, key: K, priority: Priority) {
        self.add_all([key], priority);
    }

    /// Does what [`add`](Self::add) does for all keys before any of them runs.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>, priority: Priority) {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        for key in keys {
            state.add(now, key, priority);
        }
        drop(state);
        self.shared.wake.notify_one();
    }

    /// Does what [`add`](Self::add) does, after a delay. The earliest of several delays for a key counts.
    pub fn add_after(&self, key: K, priority: Priority, delay: Duration) {
        let now = Instant::now();
        self.shared
            .state
            .lock()
            .add_after(now, key, priority, delay);
        self.shared.wake.notify_one();
    }

    /// Takes a key out that has nothing left to be done, such as that of an object that is gone. A run of it goes
    /// on, and its outcome counts.
    pub fn remove(&self, key: &K) {
        self.shared.state.lock().remove(key);
    }

    /// How many keys wait for a worker; neither those that are delayed nor those worked on.
    pub fn depth(&self) -> usize {
        self.shared.state.lock().depth()
    }
}

impl<K: Key> Observed for Shared<K> {
    fn snapshot(&self) -> Snapshot {
        self.state.lock().snapshot(Instant::now())
    }

    fn dump(&self) -> String {
        self.state.lock().dump(self.name, Instant::now())
    }
}

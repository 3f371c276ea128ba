//! Hands keys to handlers while the gate is open.
//!
//! [`Queue::run`] is the one consumer of its queue: it waits for a key, a free handler, the gate and a slot, and spawns the
//! handler as a task, so that a panic or an abort ends one key and gives it back.

use std::sync::Arc;

use futures::future::{BoxFuture, OptionFuture};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{Concurrency, Key, Outcome, Priority, Queue};

/// Tells a queue whether to take new keys. While it is closed keys gather, running handlers go on.
#[derive(Debug)]
pub struct Gate<S> {
    state: watch::Receiver<S>,
    open: fn(&S) -> bool,
}

impl<S> Gate<S> {
    /// Open whenever `open` says so of the watched state. Once the sender is gone, the last state
    /// stays.
    pub fn new(state: watch::Receiver<S>, open: fn(&S) -> bool) -> Self {
        Self { state, open }
    }

    /// Returns true if keys may be taken; a change after this call ends [`changed`](Self::changed).
    fn is_open(&mut self) -> bool {
        (self.open)(&self.state.borrow_and_update())
    }

    /// Waits for another state.
    async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A key in flight. Dropped before [`Taken::finish`], it is ready again, or has failed if its handler panics.
struct Taken<K: Key> {
    queue: Queue<K>,
    key: K,
    priority: Priority,
    is_finished: bool,
}

impl<K: Key> Taken<K> {
    /// Ends the run of the key; without an outcome it never came to an end.
    fn finish(&mut self, outcome: Option<Outcome>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let (now, shared) = (Instant::now(), &self.queue.shared);
        let mut state = shared.state.lock();
        match outcome {
            Some(outcome) => state.finish(now, &self.key, outcome),
            None => state.abandon(now, &self.key),
        }
        drop(state);
        shared.wake.notify_one();
    }
}

impl<K: Key> Drop for Taken<K> {
    fn drop(&mut self) {
        let panics = !self.is_finished && std::thread::panicking();
        if panics {
            let shared = &self.queue.shared;
            tracing::error!(queue = shared.name, key = ?self.key, "a handler panicked; will retry");
            shared.panics.inc();
        }
        self.finish(panics.then_some(Outcome::Retry));
    }
}

impl<K: Key> Queue<K> {
    /// Runs handlers, as many together as `concurrency` says at that time, until `shutdown`; then takes no more keys, waits
    /// for the handlers that run, and returns. The keys that are left stay in the queue.
    ///
    /// A key is taken when a `slot` for it is there. A handler that panics counts as a failure of its key and of nothing
    /// else. If this future is dropped, the running handlers are aborted and their keys are ready again.
    ///
    /// Meant to be called once at a time for one queue.
    pub async fn run<G, S, F, Fut>(
        &self,
        concurrency: impl Fn() -> Concurrency,
        slot: impl Fn() -> BoxFuture<'static, S>,
        mut gate: Gate<G>,
        shutdown: CancellationToken,
        handler: F,
    ) where
        S: Send + 'static,
        F: Fn(K, Priority, S) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let mut handlers = JoinSet::new();
        let mut waited_for = None;
        loop {
            let is_open = gate.is_open() && !shutdown.is_cancelled();
            let (waits, due) = self.look(concurrency());
            waited_for = (is_open && waits).then(|| waited_for.take().unwrap_or_else(&slot));
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(_) = handlers.join_next() => while handlers.try_join_next().is_some() {},
                Some(slot) = OptionFuture::from(waited_for.as_mut()) => {
                    waited_for = None;
                    if let Some(mut taken) = self.take(concurrency()) {
                        let handler = Arc::clone(&handler);
                        // The handler is called inside the task, so that a panic before its first await is caught.
                        handlers.spawn(async move {
                            let run = handler(taken.key.clone(), taken.priority, slot);
                            let outcome = run.await;
                            taken.finish(Some(outcome));
                        });
                    }
                }
                () = self.shared.wake.notified() => {}
                () = gate.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        while handlers.join_next().await.is_some() {}
    }

    /// Returns true if a key may be taken, and when the next delayed key is due.
    fn look(&self, concurrency: Concurrency) -> (bool, Option<Instant>) {
        let mut state = self.shared.state.lock();
        // Also with no handler free and behind a closed gate: what is due counts as waiting.
        state.fire(Instant::now());
        (state.next(concurrency).is_some(), state.next_due())
    }

    /// The next key; none if none waits any more.
    fn take(&self, concurrency: Concurrency) -> Option<Taken<K>> {
        let (key, priority) = self.shared.state.lock().take(Instant::now(), concurrency)?;
        Some(Taken {
            queue: self.clone(),
            key,
            priority,
            is_finished: false,
        })
    }
}

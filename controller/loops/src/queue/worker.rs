//! Hands keys to handlers.

use std::sync::Arc;

use futures::future::{BoxFuture, OptionFuture};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{Concurrency, Gate, Key, Outcome, Queue, Taken};

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
        F: Fn(Taken<K>, S) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
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
                    if let Some(taken) = self.take(concurrency()) {
                        let handler = Arc::clone(&handler);
                        // The handler is called inside the task, so that a panic before its first await is caught.
                        handlers.spawn(async move { handler(taken, slot).await });
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
        Some(Taken::new(self.clone(), key, priority))
    }

    /// Takes a key back; none: its run never came to an end.
    pub(super) fn finish(&self, key: &K, outcome: Option<Outcome>) {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        match outcome {
            Some(outcome) => state.finish(now, key, outcome),
            None => state.abandon(now, key),
        }
        drop(state);
        self.shared.wake.notify_one();
    }
}

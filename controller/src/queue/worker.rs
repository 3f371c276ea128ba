//! Hands keys to handlers.

use std::{collections::HashMap, sync::Arc};

use tokio::{
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{Gate, Key, Outcome, Queue};

impl<K: Key> Queue<K> {
    /// Runs up to `concurrency` handlers at once, until `shutdown`; then takes no more keys, waits
    /// for the handlers that run, and returns. The keys that are left stay in the queue.
    ///
    /// A handler that panics counts as a failure of its key and of nothing else. If this future is
    /// dropped, the running handlers are aborted and their keys are ready again.
    ///
    /// Meant to be called once at a time for one queue.
    pub async fn run<S, F, Fut>(
        &self,
        concurrency: usize,
        mut gate: Gate<S>,
        shutdown: CancellationToken,
        handler: F,
    ) where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let mut handlers = Handlers::new(self.clone());
        loop {
            let open = gate.is_open() && !shutdown.is_cancelled();
            let free = if open {
                concurrency.max(1).saturating_sub(handlers.tasks.len())
            } else {
                0
            };
            let due = handlers.fill(free, &handler);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(ended) = handlers.tasks.join_next_with_id() => {
                    handlers.ended(ended);
                    while let Some(ended) = handlers.tasks.try_join_next_with_id() {
                        handlers.ended(ended);
                    }
                }
                () = self.shared.wake.notified() => {}
                () = gate.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        while let Some(ended) = handlers.tasks.join_next_with_id().await {
            handlers.ended(ended);
        }
    }
}

/// The handlers that run, and whose keys they have.
struct Handlers<K: Key> {
    queue: Queue<K>,
    tasks: JoinSet<Outcome>,
    keys: HashMap<Id, K>,
}

impl<K: Key> Handlers<K> {
    fn new(queue: Queue<K>) -> Self {
        Self {
            queue,
            tasks: JoinSet::new(),
            keys: HashMap::new(),
        }
    }

    /// Starts up to `free` handlers. Returns when the next delayed key is due.
    fn fill<F, Fut>(&mut self, free: usize, handler: &Arc<F>) -> Option<Instant>
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let queue = self.queue.clone();
        let mut state = queue.shared.state.lock();
        let now = Instant::now();
        // Also with no handler free and behind a closed gate: what is due counts as waiting.
        state.fire(now);
        for _ in 0..free {
            let Some(key) = state.take(now) else {
                break;
            };
            self.start(key, handler);
        }
        state.next_due()
    }

    fn start<F, Fut>(&mut self, key: K, handler: &Arc<F>)
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let handler = Arc::clone(handler);
        let argument = key.clone();
        // The handler is called inside the task, so that a panic before its first await is caught.
        let task = self.tasks.spawn(async move { handler(argument).await });
        self.keys.insert(task.id(), key);
    }

    fn ended(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Some(outcome)),
            Err(error) => (error.id(), None),
        };
        let Some(key) = self.keys.remove(&id) else {
            return;
        };
        let shared = &self.queue.shared;
        let outcome = outcome.unwrap_or_else(|| {
            tracing::error!(queue = shared.name, ?key, "a handler panicked; will retry");
            shared.panics.inc();
            Outcome::Retry
        });
        shared.state.lock().finish(Instant::now(), &key, outcome);
    }
}

impl<K: Key> Drop for Handlers<K> {
    fn drop(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let shared = &self.queue.shared;
        let now = Instant::now();
        let mut state = shared.state.lock();
        for key in self.keys.values() {
            state.abandon(now, key);
        }
        drop(state);
        shared.wake.notify_one();
    }
}

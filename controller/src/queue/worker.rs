//! Hands keys to handlers.

use std::{collections::HashMap, sync::Arc};

use tokio::{
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{BACKGROUND_HANDLERS, Gate, Key, Lane, Outcome, Priority, Queue};

impl<K: Key> Queue<K> {
    /// Runs up to `concurrency` handlers at once, and [`BACKGROUND_HANDLERS`] beside them for the
    /// background lane, until `shutdown`; then takes no more keys, waits for the handlers that run, and
    /// returns. The keys that are left stay in the queue. The handler receives the priority that its
    /// key has in this run.
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
        F: Fn(K, Priority) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let mut handlers = Handlers::new(self.clone());
        loop {
            let open = gate.is_open() && !shutdown.is_cancelled();
            let due = handlers.fill(open.then_some(concurrency.max(1)), &handler);
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
    keys: HashMap<Id, (K, Lane)>,
    /// How many of them are of the background lane.
    background: usize,
}

impl<K: Key> Handlers<K> {
    fn new(queue: Queue<K>) -> Self {
        Self {
            queue,
            tasks: JoinSet::new(),
            keys: HashMap::new(),
            background: 0,
        }
    }

    /// Starts handlers until `concurrency` run, and those of the background lane; none: starts none.
    /// Returns when the next delayed key is due.
    fn fill<F, Fut>(&mut self, concurrency: Option<usize>, handler: &Arc<F>) -> Option<Instant>
    where
        F: Fn(K, Priority) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let queue = self.queue.clone();
        let mut state = queue.shared.state.lock();
        let now = Instant::now();
        // Also with no handler free and behind a closed gate: what is due counts as waiting.
        state.fire(now);
        let Some(concurrency) = concurrency else {
            return state.next_due();
        };
        let normal = self.tasks.len() - self.background;
        for (lane, most, running) in [
            (Lane::Normal, concurrency, normal),
            (Lane::Background, BACKGROUND_HANDLERS, self.background),
        ] {
            for _ in running..most {
                let Some((key, priority)) = state.take(now, lane) else {
                    break;
                };
                self.start(key, priority, handler);
            }
        }
        state.next_due()
    }

    fn start<F, Fut>(&mut self, key: K, priority: Priority, handler: &Arc<F>)
    where
        F: Fn(K, Priority) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let handler = Arc::clone(handler);
        let argument = key.clone();
        // The handler is called inside the task, so that a panic before its first await is caught.
        let task = self
            .tasks
            .spawn(async move { handler(argument, priority).await });
        let lane = priority.lane();
        self.background += usize::from(lane == Lane::Background);
        self.keys.insert(task.id(), (key, lane));
    }

    fn ended(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Some(outcome)),
            Err(error) => (error.id(), None),
        };
        let Some((key, lane)) = self.keys.remove(&id) else {
            return;
        };
        self.background -= usize::from(lane == Lane::Background);
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
        for (key, _) in self.keys.values() {
            state.abandon(now, key);
        }
        drop(state);
        shared.wake.notify_one();
    }
}

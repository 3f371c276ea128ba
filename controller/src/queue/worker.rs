//! Hands keys to handlers.

use std::{iter, sync::Arc};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{BACKGROUND_HANDLERS, Gate, Key, Lane, Outcome, Queue, Taken, Work};

impl<K: Key> Queue<K> {
    /// Runs up to `concurrency` handlers at once, and beside them [`BACKGROUND_HANDLERS`] for the
    /// background lane and one for each batch, until `shutdown`; then takes no more keys, waits for the
    /// handlers that run, and returns. The keys that are left stay in the queue.
    ///
    /// A handler that panics counts as a failure of its keys and of nothing else. If this future is
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
        F: Fn(Work<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let mut handlers = JoinSet::new();
        loop {
            let open = gate.is_open() && !shutdown.is_cancelled();
            let (work, due) = self.take(open.then_some(concurrency.max(1)));
            for work in work {
                let handler = Arc::clone(&handler);
                // The handler is called inside the task, so that a panic before its first await is caught.
                handlers.spawn(async move { handler(work).await });
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(_) = handlers.join_next() => while handlers.try_join_next().is_some() {},
                () = self.shared.wake.notified() => {}
                () = gate.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        while handlers.join_next().await.is_some() {}
    }

    /// Work until as many keys as `concurrency` are in flight, and that of the other lanes; none: takes no
    /// key. Also when the next delayed key is due.
    fn take(&self, concurrency: Option<usize>) -> (Vec<Work<K>>, Option<Instant>) {
        let mut state = self.shared.state.lock();
        let now = Instant::now();
        // Also with no handler free and behind a closed gate: what is due counts as waiting.
        state.fire(now);
        let mut work = Vec::new();
        if let Some(concurrency) = concurrency {
            let taken = |(key, priority)| Taken::new(self.clone(), key, priority);
            for (lane, most) in [
                (Lane::Normal, concurrency),
                (Lane::Background, BACKGROUND_HANDLERS),
            ] {
                while state.running(lane) < most
                    && let Some(next) = state.take(now, lane)
                {
                    work.push(Work::One(taken(next)));
                }
            }
            let batch: Vec<_> = iter::from_fn(|| state.take(now, Lane::Batch)).collect();
            if !batch.is_empty() {
                work.push(Work::Batch(batch.into_iter().map(taken).collect()));
            }
        }
        (work, state.next_due())
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

//! Hands keys to handlers.

use std::sync::Arc;

use futures::future::OptionFuture;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{Calls, Gate, Key, Outcome, Priority, Queue, Taken, state::State};

impl<K: Key> Queue<K> {
    /// Runs up to `concurrency` handlers together, and beside them those that make `calls`, until
    /// `shutdown`; then takes no more keys, waits for the handlers that run, and returns. The keys that are
    /// left stay in the queue.
    ///
    /// A handler has a key to look at, or one to make a call for in its slot. A handler that panics counts as a failure of its key and of nothing else. If this future is
    /// dropped, the running handlers are aborted and their keys are ready again.
    ///
    /// Meant to be called once at a time for one queue.
    pub async fn run<G, C, F, Fut>(
        &self,
        concurrency: usize,
        calls: C,
        mut gate: Gate<G>,
        shutdown: CancellationToken,
        handler: F,
    ) where
        C: Calls,
        F: Fn(Taken<K>, Option<C::Slot>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let mut handlers = JoinSet::new();
        let spawn = |taken, slot| {
            let handler = Arc::clone(&handler);
            // The handler is called inside the task, so that a panic before its first await is caught.
            async move { handler(taken, slot).await }
        };
        let mut slot = None;
        loop {
            let open = gate.is_open() && !shutdown.is_cancelled();
            let (work, due) = self.take(open.then_some(concurrency.max(1)));
            for taken in work {
                handlers.spawn(spawn(taken, None));
            }
            let waits_for_call = open && next_call(&self.shared.state.lock(), &calls).is_some();
            slot = waits_for_call.then(|| slot.take().unwrap_or_else(|| calls.slot()));
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(slot_taken) = OptionFuture::from(slot.as_mut()) => {
                    slot = None;
                    if let Some(taken) = self.take_call(&calls) {
                        handlers.spawn(spawn(taken, Some(slot_taken)));
                    }
                }
                Some(_) = handlers.join_next() => while handlers.try_join_next().is_some() {},
                () = self.shared.wake.notified() => {}
                () = gate.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        while handlers.join_next().await.is_some() {}
    }

    /// Keys to look at, until as many as `concurrency` are in flight; none: takes no key. Also when the next
    /// delayed key is due.
    fn take(&self, concurrency: Option<usize>) -> (Vec<Taken<K>>, Option<Instant>) {
        let mut state = self.shared.state.lock();
        let now = Instant::now();
        // Also with no handler free and behind a closed gate: what is due counts as waiting.
        state.fire(now);
        let mut work = Vec::new();
        let looks = [Priority::Fresh, Priority::Bulk];
        if let Some(concurrency) = concurrency {
            let mut in_flight: usize = looks.iter().map(|look| state.running(*look)).sum();
            while in_flight < concurrency
                && let Some(priority) = state.next(looks.into_iter())
                && let Some(key) = state.take(now, priority)
            {
                in_flight += 1;
                work.push(Taken::new(self.clone(), key, priority));
            }
        }
        (work, state.next_due())
    }

    /// A key for a call that may begin; none if no key waits for one any more.
    fn take_call(&self, calls: &impl Calls) -> Option<Taken<K>> {
        let mut state = self.shared.state.lock();
        let now = Instant::now();
        state.fire(now);
        let priority = next_call(&state, calls)?;
        let key = state.take(now, priority)?;
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

/// The priority of the call that goes next.
fn next_call<K: Key>(state: &State<K>, calls: &impl Calls) -> Option<Priority> {
    let among = Priority::ALL.into_iter();
    let among = among.filter(|priority| {
        priority.is_call() && calls.has_room(*priority, |other| state.running(other))
    });
    state.next(among)
}

//! A key in flight, and its way back.

use super::{Key, Outcome, Priority, Queue};

/// A key in flight. Dropped before [`Taken::finish`], it is ready again, or has failed if its handler panics.
#[derive(Debug)]
pub struct Taken<K: Key> {
    queue: Queue<K>,
    key: K,
    priority: Priority,
    is_finished: bool,
}

impl<K: Key> Taken<K> {
    pub(super) const fn new(queue: Queue<K>, key: K, priority: Priority) -> Self {
        Self {
            queue,
            key,
            priority,
            is_finished: false,
        }
    }

    /// The key.
    pub const fn key(&self) -> &K {
        &self.key
    }

    /// The priority that the key has in this run.
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// Ends the run of the key.
    pub fn finish(mut self, outcome: Outcome) {
        self.end(Some(outcome));
    }

    /// Absent: the run never came to an end.
    fn end(&mut self, outcome: Option<Outcome>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        self.queue.finish(&self.key, outcome);
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
        self.end(panics.then_some(Outcome::Retry));
    }
}

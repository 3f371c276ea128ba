//! The queue as a value: what waits, what runs, what is delayed. Time is a parameter, and nothing here waits.
//!
//! [`super::Queue`] holds it under one lock. A key is the worker's from `take` to `finish` (it has an outcome) or `abandon`
//! (its run was dropped); meanwhile an add is remembered, and makes it ready again afterwards.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    time::Duration,
};

use outrigger_core::error_class::SLOW;
use tokio::time::Instant;

use super::{
    Backoff, Concurrency, Key, Outcome, Priority,
    lanes::{Lanes, Ticket},
    metrics::{Counters, Snapshot},
};

#[derive(Debug)]
pub(super) struct State<K> {
    backoff: Backoff,
    /// For the jitter.
    random: fastrand::Rng,
    counters: Counters,
    /// Only keys that wait, run or have failed.
    entries: HashMap<K, Entry>,
    ready: Lanes<K>,
    /// Keys in flight, by priority.
    running: [usize; Priority::ALL.len()],
    delayed: BTreeMap<(Instant, Ticket), (K, Delay)>,
    tickets: Ticket,
}

#[derive(Debug, Default)]
struct Entry {
    ready: Option<Ready>,
    running: Option<Running>,
    /// Added while it runs.
    again: Option<Added>,
    retry: Option<Delayed>,
    later: Option<Delayed>,
    failures: u32,
    /// The last failure backs off slowly. Failures of the other kind are not counted with it: an API server that was away
    /// and refuses for a moment, while it reads its roles, is asked again after the first slow delay, not after the last.
    is_slow: bool,
}

/// Why a key is in `State::delayed`; each reason has one slot in its `Entry`.
#[derive(Clone, Copy, Debug)]
enum Delay {
    /// `Entry::retry`
    Retry,
    /// `Entry::later`
    Later,
}

#[derive(Clone, Copy, Debug)]
struct Added {
    priority: Priority,
    since: Instant,
}

#[derive(Debug)]
struct Ready {
    added: Added,
    ticket: Ticket,
}

#[derive(Debug)]
struct Running {
    priority: Priority,
    since: Instant,
    /// Started before its back-off was over.
    early: bool,
}

#[derive(Clone, Copy, Debug)]
struct Delayed {
    at: Instant,
    ticket: Ticket,
    priority: Priority,
    /// The back-off of a counted failure, rather than a requested delay.
    backoff: bool,
}

impl Entry {
    /// When it was added, if it waits for a worker or for the end of its run.
    fn added(&self) -> Option<Added> {
        let ready = self.ready.as_ref();
        ready.map(|ready| ready.added).or(self.again)
    }

    fn is_idle(&self) -> bool {
        self.ready.is_none()
            && self.running.is_none()
            && self.retry.is_none()
            && self.later.is_none()
            && self.failures == 0
    }
}

impl<K: Key> State<K> {
    pub(super) fn new(backoff: Backoff, counters: Counters) -> Self {
        Self {
            backoff,
            random: fastrand::Rng::new(),
            counters,
            entries: HashMap::new(),
            ready: Lanes::default(),
            running: [0; Priority::ALL.len()],
            delayed: BTreeMap::new(),
            tickets: 0,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// The priority of the next key, if one may be taken.
    pub(super) fn next(&self, concurrency: Concurrency) -> Option<Priority> {
        let in_flight: usize = self.running.iter().sum();
        if in_flight >= concurrency.all.max(1) {
            return None;
        }
        let bulk = self.running[Priority::Bulk as usize];
        self.ready.next(bulk < concurrency.bulk.max(1))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.ready.len() == 0 && self.delayed.is_empty()
    }

    /// When a delayed key becomes ready.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn add(&mut self, now: Instant, key: K, priority: Priority) {
        let added = Added {
            priority,
            since: now,
        };
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.running.is_some() {
            if let Some(again) = &mut entry.again {
                again.priority = again.priority.min(priority);
            } else {
                self.counters.adds.inc();
                entry.again = Some(added);
            }
        } else if let Some(ready) = &entry.ready {
            let was = ready.added.priority;
            if priority < was {
                self.ready.remove(was, ready.ticket);
                let added = Added {
                    priority,
                    ..ready.added
                };
                self.make_ready(key, added);
            }
        } else {
            self.counters.adds.inc();
            self.make_ready(key, added);
        }
    }

    /// At the end of its lane.
    fn make_ready(&mut self, key: K, added: Added) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        self.tickets += 1;
        let ticket = self.tickets;
        entry.ready = Some(Ready { added, ticket });
        self.ready.insert(added.priority, ticket, key);
    }

    pub(super) fn add_after(&mut self, now: Instant, key: K, priority: Priority, delay: Duration) {
        // A delay beyond the range of the clock never ends, and needs no timer.
        let Some(at) = now.checked_add(delay) else {
            return;
        };
        if at <= now {
            return self.add(now, key, priority);
        }
        let later = self.entries.get(&key).and_then(|entry| entry.later);
        let (at, priority) = later.map_or((at, priority), |later| {
            (at.min(later.at), priority.min(later.priority))
        });
        self.delay(&key, Delay::Later, at, priority, false);
    }

    /// Takes a key out wherever it waits, and forgets its failures.
    pub(super) fn remove(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.again = None;
        entry.failures = 0;
        if let Some(ready) = entry.ready.take() {
            self.ready.remove(ready.added.priority, ready.ticket);
        }
        for delayed in [entry.retry.take(), entry.later.take()]
            .into_iter()
            .flatten()
        {
            self.delayed.remove(&(delayed.at, delayed.ticket));
        }
        if entry.running.is_none() {
            self.entries.remove(key);
            self.shrink();
        }
    }

    /// Makes ready what is due.
    pub(super) fn fire(&mut self, now: Instant) {
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, (key, delay))) = self.delayed.pop_first() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            let slot = match delay {
                Delay::Retry => entry.retry.take(),
                Delay::Later => entry.later.take(),
            };
            if let Some(Delayed { priority, .. }) = slot {
                self.add(now, key, priority);
            }
        }
    }

    /// The next key, with its priority; it is the caller's until [`finish`](Self::finish).
    pub(super) fn take(&mut self, now: Instant, concurrency: Concurrency) -> Option<(K, Priority)> {
        let priority = self.next(concurrency)?;
        let key = self.ready.take(priority)?;
        let entry = self.entries.get_mut(&key)?;
        let since = entry.ready.take().map_or(now, |ready| ready.added.since);
        entry.running = Some(Running {
            priority,
            since: now,
            early: entry.retry.is_some_and(|retry| retry.backoff),
        });
        self.running[priority as usize] += 1;
        let waited = now.saturating_duration_since(since);
        self.counters.waited.observe(waited.as_secs_f64());
        Some((key, priority))
    }

    /// Gives a taken key back.
    pub(super) fn finish(&mut self, now: Instant, key: &K, outcome: Outcome) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let Some(running) = entry.running.take() else {
            return;
        };
        self.running[running.priority as usize] -= 1;
        let worked = now.saturating_duration_since(running.since);
        self.counters.worked.observe(worked.as_secs_f64());
        // How long a failure is waited for, and at most.
        let failure = match outcome {
            Outcome::Retry => Some((self.backoff, Duration::MAX)),
            Outcome::RetryWithin(limit) => Some((self.backoff, limit)),
            // Without jitter: that Nodes have one provider ID is seen in one call about them.
            Outcome::RetrySlowly(limit) => Some((Backoff::new(SLOW, limit), limit)),
            Outcome::RetryAfter(_) | Outcome::Done => None,
        };
        if outcome != Outcome::Done {
            self.counters.retries.inc();
        }
        // The back-off that an early run went before still stands, or became due meanwhile
        // and is in `again`.
        if failure.is_some() && running.early {
            return self.settle(key);
        }
        if let Some(old) = entry.retry.take() {
            self.delayed.remove(&(old.at, old.ticket));
        }
        let delay = if let Some((backoff, limit)) = failure {
            let is_slow = matches!(outcome, Outcome::RetrySlowly(_));
            if entry.is_slow != is_slow {
                (entry.is_slow, entry.failures) = (is_slow, 0);
            }
            let delay = backoff.delay(entry.failures, limit, self.random.f64());
            entry.failures = entry.failures.saturating_add(1);
            Some(delay)
        } else if let Outcome::RetryAfter(delay) = outcome {
            Some(delay)
        } else {
            entry.failures = 0;
            None
        };
        // A delay beyond the range of the clock never ends, as in `add_after`.
        if let Some(at) = delay.and_then(|delay| now.checked_add(delay)) {
            self.delay(key, Delay::Retry, at, running.priority, failure.is_some());
        }
        self.settle(key);
    }

    /// Gives back a taken key whose run never came to an end.
    pub(super) fn abandon(&mut self, now: Instant, key: &K) {
        if let Some(running) = self.entries.get_mut(key).and_then(|e| e.running.take()) {
            self.running[running.priority as usize] -= 1;
            self.settle(key);
            self.add(now, key.clone(), running.priority);
        }
    }

    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let age = |since: Instant| now.saturating_duration_since(since);
        let mut snapshot = Snapshot {
            depth: self.ready.len(),
            ..Snapshot::default()
        };
        for entry in self.entries.values() {
            if let Some(running) = &entry.running {
                let age = age(running.since);
                snapshot.unfinished += age;
                snapshot.longest_running = snapshot.longest_running.max(age);
            }
            let added = entry.added();
            if let Some(added) = added.filter(|added| added.priority != Priority::Bulk) {
                snapshot.oldest = snapshot.oldest.max(age(added.since));
            }
        }
        snapshot
    }

    /// A line for the queue `name`, and one for each of its keys, for people.
    pub(super) fn dump(&self, name: &str, now: Instant) -> String {
        let age = |since: Instant| now.saturating_duration_since(since);
        let left = |delayed: Delayed| delayed.at.saturating_duration_since(now);
        let line = |(key, entry): (&K, &Entry)| {
            let mut line = format!("  {key:?}");
            let running = entry.running.as_ref();
            let added = entry.added();
            for (what, time) in [
                ("in_flight", running.map(|running| age(running.since))),
                ("waiting", added.map(|added| age(added.since))),
                ("retry_in", entry.retry.map(left)),
                ("later_in", entry.later.map(left)),
            ] {
                if let Some(time) = time {
                    // Writing to a string cannot fail.
                    let _ = write!(line, " {what}={:.3}s", time.as_secs_f64());
                }
            }
            if let Some(added) = added {
                let _ = write!(line, " priority={:?}", added.priority);
            }
            let _ = writeln!(line, " failures={}", entry.failures);
            line
        };
        let mut lines: Vec<_> = self.entries.iter().map(line).collect();
        lines.sort();
        format!("{name}: {} keys\n{}", lines.len(), lines.concat())
    }

    /// Sets one of the two delays of a key, in place of an earlier one.
    fn delay(&mut self, key: &K, delay: Delay, at: Instant, priority: Priority, backoff: bool) {
        self.tickets += 1;
        let delayed = Delayed {
            at,
            ticket: self.tickets,
            priority,
            backoff,
        };
        let entry = self.entries.entry(key.clone()).or_default();
        let slot = match delay {
            Delay::Retry => &mut entry.retry,
            Delay::Later => &mut entry.later,
        };
        if let Some(old) = slot.replace(delayed) {
            self.delayed.remove(&(old.at, old.ticket));
        }
        self.delayed
            .insert((at, delayed.ticket), (key.clone(), delay));
    }

    /// After a run: back into the queue if the key was added meanwhile, out of the map if nothing
    /// is left to know about it.
    fn settle(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if let Some(added) = entry.again.take() {
            self.make_ready(key.clone(), added);
        } else if entry.is_idle() {
            self.entries.remove(key);
            self.shrink();
        }
    }

    /// A cold start fills the map once; it need not stay that large.
    fn shrink(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > 1024 {
            self.entries.shrink_to(64);
        }
    }
}

//! The queue as a value: what waits, what runs, what is delayed. Time is a parameter.

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Backoff, Key, Outcome, Priority,
    metrics::{Counters, Snapshot},
};

/// While both priorities wait, this many fresh keys are taken for each bulk one.
const FRESH_PER_BULK: u32 = 7;

/// Orders keys that entered the same way at the same time.
type Ticket = u64;

#[derive(Debug)]
pub(super) struct State<K> {
    backoff: Backoff,
    counters: Counters,
    /// Only keys that wait, run or have failed.
    entries: HashMap<K, Entry>,
    ready: BTreeMap<(Priority, Ticket), K>,
    delayed: BTreeMap<(Instant, Ticket), (K, Delay)>,
    tickets: Ticket,
    /// Fresh keys that were taken in a row while bulk ones waited.
    fresh_in_row: u32,
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
    /// The delay of a counted failure, rather than one that somebody asked for.
    backoff: bool,
}

impl Entry {
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
            counters,
            entries: HashMap::new(),
            ready: BTreeMap::new(),
            delayed: BTreeMap::new(),
            tickets: 0,
            fresh_in_row: 0,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.ready.len()
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
        } else if let Some(ready) = &mut entry.ready {
            if priority < ready.added.priority {
                self.ready.remove(&(ready.added.priority, ready.ticket));
                self.tickets += 1;
                ready.added.priority = priority;
                ready.ticket = self.tickets;
                self.ready.insert((priority, ready.ticket), key);
            }
        } else {
            self.counters.adds.inc();
            self.push(key, added);
        }
    }

    pub(super) fn add_after(&mut self, now: Instant, key: K, priority: Priority, delay: Duration) {
        // A delay beyond what the clock can tell is for ever, and needs no timer.
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
        self.delay(key, Delay::Later, at, priority, false);
    }

    /// The next key, which is the caller's until [`finish`](Self::finish).
    pub(super) fn take(&mut self, now: Instant) -> Option<K> {
        self.fire(now);
        let place = self.next_place()?;
        let key = self.ready.remove(&place)?;
        let entry = self.entries.get_mut(&key)?;
        let since = entry.ready.take().map_or(now, |ready| ready.added.since);
        entry.running = Some(Running {
            priority: place.0,
            since: now,
            early: entry.retry.is_some_and(|retry| retry.backoff),
        });
        self.counters.waited(now.saturating_duration_since(since));
        Some(key)
    }

    /// Gives a taken key back.
    pub(super) fn finish(&mut self, now: Instant, key: &K, outcome: Outcome) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let Some(running) = entry.running.take() else {
            return;
        };
        self.counters
            .worked(now.saturating_duration_since(running.since));
        match outcome {
            Outcome::Done => {
                entry.failures = 0;
                self.cancel_retry(key);
            }
            Outcome::Retry => {
                self.counters.retries.inc();
                // The back-off that an early run cut short still stands, or became due meanwhile
                // and is in `again`.
                if !running.early {
                    let delay = self.backoff.delay(entry.failures);
                    entry.failures = entry.failures.saturating_add(1);
                    self.retry_after(now, key, running.priority, delay, true);
                }
            }
            Outcome::RetryAfter(delay) => {
                self.counters.retries.inc();
                self.retry_after(now, key, running.priority, delay, false);
            }
        }
        self.settle(key);
    }

    /// Gives back a taken key whose run never came to an end.
    pub(super) fn abandon(&mut self, now: Instant, key: &K) {
        if let Some(running) = self.entries.get_mut(key).and_then(|e| e.running.take()) {
            self.add(now, key.clone(), running.priority);
            self.settle(key);
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
            let added = entry.ready.as_ref().map(|r| r.added).or(entry.again);
            if let Some(added) = added {
                snapshot.oldest = snapshot.oldest.max(age(added.since));
            }
        }
        snapshot
    }

    /// Where in `ready` the next key is.
    fn next_place(&mut self) -> Option<(Priority, Ticket)> {
        let (first, _) = self.ready.first_key_value()?;
        let bulk = self.ready.range((Priority::Bulk, 0)..).next();
        match bulk {
            Some((bulk, _)) if first.0 == Priority::Bulk || self.fresh_in_row >= FRESH_PER_BULK => {
                self.fresh_in_row = 0;
                Some(*bulk)
            }
            Some(_) => {
                self.fresh_in_row += 1;
                Some(*first)
            }
            None => Some(*first),
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

    fn push(&mut self, key: K, added: Added) {
        self.tickets += 1;
        let ticket = self.tickets;
        self.ready.insert((added.priority, ticket), key.clone());
        self.entries.entry(key).or_default().ready = Some(Ready { added, ticket });
    }

    fn retry_after(
        &mut self,
        now: Instant,
        key: &K,
        priority: Priority,
        delay: Duration,
        backoff: bool,
    ) {
        if let Some(at) = now.checked_add(delay) {
            self.delay(key.clone(), Delay::Retry, at, priority, backoff);
        } else {
            self.cancel_retry(key);
        }
    }

    fn cancel_retry(&mut self, key: &K) {
        if let Some(retry) = self.entries.get_mut(key).and_then(|e| e.retry.take()) {
            self.delayed.remove(&(retry.at, retry.ticket));
        }
    }

    /// Sets one of the two delays of a key, in place of an earlier one.
    fn delay(&mut self, key: K, delay: Delay, at: Instant, priority: Priority, backoff: bool) {
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
        self.delayed.insert((at, delayed.ticket), (key, delay));
    }

    /// After a run: back into the queue if the key was added meanwhile, out of the map if nothing
    /// is left to know about it.
    fn settle(&mut self, key: &K) {
        let hash_map::Entry::Occupied(mut entry) = self.entries.entry(key.clone()) else {
            return;
        };
        if let Some(again) = entry.get_mut().again.take() {
            self.push(key.clone(), again);
        } else if entry.get().is_idle() {
            entry.remove();
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

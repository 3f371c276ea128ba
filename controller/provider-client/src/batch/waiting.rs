//! Which Nodes share a call, and when it goes out.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::{Asked, Error, Gathering, NodeLookup, RPC, Session, Shared, Urgency, take_batch};
use crate::LookupPurpose;

/// Nodes in a call before a provider has declared how many it accepts.
const BATCH: usize = 100;

/// Lookups that have not gone out, oldest first.
#[derive(Default)]
pub(super) struct WaitingLookups {
    batches: VecDeque<Batch>,
}

/// Lookups that share a call.
struct Batch {
    purpose: LookupPurpose,
    items: VecDeque<Asked>,
    is_full: bool,
    gathering: Gathering,
}

impl WaitingLookups {
    /// Adds a lookup.
    pub(super) fn join(&mut self, item: Asked, shared: &Shared) {
        let mut most = BATCH;
        if let Some(session) = &*shared.session.borrow() {
            let Some(declared) = NodeLookup::most(session) else {
                return item.fail(Error::NotOffered { rpc: RPC });
            };
            if let Some(answer) = item.lookup.without_call(session) {
                return item.answer(Ok(answer).into());
            }
            most = declared;
        }
        let now = Instant::now();
        let mut batches = self.batches.iter_mut();
        if let Some(batch) = batches.find(|batch| batch.accepts(&item.lookup)) {
            return batch.join(item, now, most);
        }
        let mut batch = Batch {
            purpose: item.lookup.purpose,
            items: VecDeque::new(),
            is_full: false,
            gathering: Gathering::new(now),
        };
        batch.join(item, now, most);
        self.batches.push_back(batch);
    }

    /// Place of the batch that goes out next, without lookups that their callers gave up: of those that are
    /// due the most urgent, and of these the one with the oldest lookup.
    fn next(&mut self, now: Instant) -> Option<usize> {
        loop {
            let batches = self.batches.iter().enumerate();
            let due = batches.filter(|(_, batch)| batch.due() <= now);
            let since = |batch: &Batch| batch.items.front().map(|first| first.since);
            let order = |batch: &Batch| (Urgency::from(batch.purpose), since(batch));
            let (at, _) = due.min_by_key(|(_, batch)| order(batch))?;
            let batch = self.batches.get_mut(at)?;
            batch.items.retain(|item| !item.is_abandoned());
            if !batch.items.is_empty() {
                return Some(at);
            }
            self.batches.remove(at);
        }
    }

    /// Urgency of the call that goes out next, if one is due.
    pub(super) fn urgency(&mut self, now: Instant) -> Option<Urgency> {
        let next = self.next(now).and_then(|at| self.batches.get(at));
        next.map(|batch| batch.purpose.into())
    }

    /// When the next call becomes due after `now`.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.batches.iter().map(Batch::due);
        due.filter(|due| *due > now).min()
    }

    /// Removes the lookups of the call that goes out next; none if their callers wait no longer.
    pub(super) fn take(&mut self, now: Instant, session: &Session) -> Vec<Asked> {
        let Some(most) = NodeLookup::most(session) else {
            self.fail_due(now, &Error::NotOffered { rpc: RPC });
            return Vec::new();
        };
        let next = self.next(now).and_then(|at| self.batches.remove(at));
        let Some(mut batch) = next else {
            return Vec::new();
        };
        let items = take_batch(&mut batch.items, session, most);
        if !batch.items.is_empty() {
            batch.is_full = true;
            // It stays before the others.
            self.batches.push_front(batch);
        }
        items
    }

    /// Fails all lookups that are due.
    pub(super) fn fail_due(&mut self, now: Instant, error: &Error) {
        while let Some(batch) = self.next(now).and_then(|at| self.batches.remove(at)) {
            for item in batch.items {
                item.fail(error.clone());
            }
        }
    }
}

impl Batch {
    /// A call has one result for each name: another lookup of a Node that is in it goes with a later call.
    fn accepts(&self, lookup: &NodeLookup) -> bool {
        let names = || self.items.iter().map(|item| item.lookup.name());
        self.purpose == lookup.purpose && !self.is_full && names().all(|name| name != lookup.name())
    }

    /// Adds a lookup that it accepts.
    fn join(&mut self, item: Asked, now: Instant, most: usize) {
        self.items.push_back(item);
        self.gathering.joined(now);
        self.is_full = self.items.len() >= most;
    }

    fn due(&self) -> Instant {
        if self.is_full {
            self.gathering.begin
        } else {
            self.gathering.due()
        }
    }
}

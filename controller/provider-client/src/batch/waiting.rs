//! Which Nodes share a call, and when it goes out.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;

use super::{
    Asked, Error, Gathering, NodeLookup, RPC, Session, Shared, Urgency, take_batch,
    unanswered::{BatchCall, EndedBatch, Unanswered},
};
use crate::LookupPurpose;

/// Nodes in a call before a provider has declared how many it accepts.
const BATCH: usize = 100;

/// Lookups that have not gone out, oldest first.
#[derive(Default)]
pub(super) struct WaitingLookups {
    batches: VecDeque<Batch>,
    unanswered: Unanswered,
}

/// Lookups that share a call.
struct Batch {
    purpose: LookupPurpose,
    items: VecDeque<Asked>,
    /// Places by name.
    places: HashMap<Arc<str>, usize>,
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
                return item.answer(&Ok(answer).into());
            }
            most = declared;
        }
        let Some(item) = self.unanswered.admit(item) else {
            return;
        };
        let most = self.unanswered.most(most);
        let now = Instant::now();
        let mut batches = self.batches.iter_mut();
        if let Some(batch) = batches.find(|batch| batch.accepts(&item.lookup)) {
            return batch.join(item, now, most);
        }
        let mut batch = Batch {
            purpose: item.lookup.purpose,
            items: VecDeque::new(),
            places: HashMap::new(),
            is_full: false,
            gathering: Gathering::new(now),
        };
        batch.join(item, now, most);
        self.batches.push_back(batch);
    }

    /// Place of the batch that goes out next, without lookups that no caller waits for: of those that are
    /// due the most urgent, and of these the one with the oldest lookup.
    fn next(&mut self, now: Instant) -> Option<usize> {
        loop {
            let batches = self.batches.iter().enumerate();
            let due = batches.filter(|(_, batch)| batch.due() <= now);
            let since = |batch: &Batch| batch.items.front().map(|first| first.since);
            let order = |batch: &Batch| (Urgency::from(batch.purpose), since(batch));
            let (at, _) = due.min_by_key(|(_, batch)| order(batch))?;
            let batch = self.batches.get_mut(at)?;
            batch.drop_abandoned();
            if !batch.items.is_empty() {
                return Some(at);
            }
            self.batches.remove(at);
        }
    }

    /// Urgency of the call that goes out next, if one is due.
    pub(super) fn urgency(&mut self, now: Instant) -> Option<Urgency> {
        let alone = self.unanswered.urgency();
        let at = self.next(now);
        let together = at.and_then(|at| self.batches.get(at));
        let together = together.map(|batch| batch.purpose.into());
        [alone, together].into_iter().flatten().min()
    }

    /// When the next call becomes due after `now`.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.batches.iter().map(Batch::due);
        due.filter(|due| *due > now).min()
    }

    /// Removes the lookups of the call that goes out next; none if no caller waits any more.
    pub(super) fn take(&mut self, now: Instant, session: &Session) -> Option<BatchCall> {
        let Some(declared) = NodeLookup::most(session) else {
            self.fail_due(now, &Error::NotOffered { rpc: RPC });
            return None;
        };
        let most_urgent = self.urgency(now)?;
        if self.unanswered.urgency() == Some(most_urgent) {
            return self.unanswered.take();
        }
        let at = self.next(now)?;
        let mut batch = self.batches.remove(at)?;
        let most = self.unanswered.most(declared);
        let items = take_batch(&mut batch.items, session, most);
        if !batch.items.is_empty() {
            batch.is_full = true;
            batch.index();
            // It stays before the others.
            self.batches.push_front(batch);
        }
        (!items.is_empty()).then(|| BatchCall::together(items))
    }

    /// Fails all lookups that are due.
    pub(super) fn fail_due(&mut self, now: Instant, error: &Error) {
        let mut failed = self.unanswered.take_all();
        while let Some(batch) = self.next(now).and_then(|at| self.batches.remove(at)) {
            failed.extend(batch.items);
        }
        for item in failed {
            item.fail(error.clone());
        }
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, ended: EndedBatch) {
        self.unanswered.ended(ended);
    }
}

impl Batch {
    fn accepts(&self, lookup: &NodeLookup) -> bool {
        let place = self.places.get(lookup.name());
        let has_room = match place.and_then(|at| self.items.get(*at)) {
            Some(other) => lookup.is_about_same(&other.lookup),
            None => !self.is_full,
        };
        self.purpose == lookup.purpose && has_room
    }

    /// Adds a lookup that it accepts. Callers that ask about one Node share the answer, about the Node as
    /// the latest of them sees it.
    fn join(&mut self, item: Asked, now: Instant, most: usize) {
        let place = self.places.get(item.lookup.name());
        if let Some(other) = place.and_then(|at| self.items.get_mut(*at)) {
            return other.share(item);
        }
        let name = Arc::clone(item.lookup.name());
        self.places.insert(name, self.items.len());
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

    fn drop_abandoned(&mut self) {
        let before = self.items.len();
        self.items.retain_mut(|item| !item.is_abandoned());
        if self.items.len() < before {
            self.index();
        }
    }

    fn index(&mut self) {
        let names = self.items.iter();
        let names = names.map(|item| Arc::clone(item.lookup.name()));
        self.places = names.zip(0..).collect();
    }
}

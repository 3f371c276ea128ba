//! Which objects share a call, and when it goes out.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;

use super::{
    Asked, Error, GatheredObject, Gathering, Session, Shared, Twin, Urgency, take_batch,
    unanswered::{BatchCall, EndedBatch, Unanswered},
};

/// Objects in a call before a provider has declared how many it accepts.
const BATCH: usize = 100;

/// Objects that have not gone out, oldest first.
pub(super) struct WaitingObjects<B: GatheredObject> {
    batches: VecDeque<Batch<B>>,
    unanswered: Unanswered<B>,
}

/// Objects that share a call.
struct Batch<B: GatheredObject> {
    group: B::Group,
    items: VecDeque<Asked<B>>,
    /// Places by name.
    places: HashMap<Arc<str>, usize>,
    is_full: bool,
    gathering: Gathering,
}

impl<B: GatheredObject> Default for WaitingObjects<B> {
    fn default() -> Self {
        Self {
            batches: VecDeque::new(),
            unanswered: Unanswered::default(),
        }
    }
}

impl<B: GatheredObject> WaitingObjects<B> {
    /// Adds an object.
    pub(super) fn join(&mut self, item: Asked<B>, shared: &Shared) {
        let mut most = BATCH;
        if let Some(session) = &*shared.session.borrow() {
            let Some(declared) = B::most(session) else {
                let rpc = item.object.method().name;
                return item.fail(Error::NotOffered { rpc });
            };
            if let Some(answer) = item.object.without_call(session) {
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
        if let Some(batch) = batches.find(|batch| batch.accepts(&item.object)) {
            return batch.join(item, now, most);
        }
        let mut batch = Batch {
            group: item.object.group(),
            items: VecDeque::new(),
            places: HashMap::new(),
            is_full: false,
            gathering: Gathering::new(now),
        };
        batch.join(item, now, most);
        self.batches.push_back(batch);
    }

    /// Place of the batch that goes out next, without objects that no caller waits for: of those that are
    /// due the most urgent, and of these the one with the oldest object.
    fn next(&mut self, now: Instant) -> Option<usize> {
        loop {
            let batches = self.batches.iter().enumerate();
            let due = batches.filter(|(_, batch)| batch.due() <= now);
            let since = |batch: &Batch<B>| batch.items.front().map(|first| first.since);
            let order = |batch: &Batch<B>| (B::urgency(batch.group), since(batch));
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
        let together = together.map(|batch| B::urgency(batch.group));
        [alone, together].into_iter().flatten().min()
    }

    /// When the next call becomes due after `now`.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.batches.iter().map(Batch::due);
        due.filter(|due| *due > now).min()
    }

    /// Removes the objects of the call that goes out next; none if no caller waits any more.
    pub(super) fn take(&mut self, now: Instant, session: &Session) -> Option<BatchCall<B>> {
        let Some(declared) = B::most(session) else {
            let not_offered = |rpc| Error::NotOffered { rpc };
            self.fail_due(now, not_offered);
            return None;
        };
        let most_urgent = self.urgency(now)?;
        if self.unanswered.urgency() == Some(most_urgent) {
            return self.unanswered.take();
        }
        let at = self.next(now)?;
        let mut batch = self.batches.remove(at)?;
        let most = self.unanswered.most(declared);
        let items = take_batch(&mut batch.items, session, most, 0);
        if !batch.items.is_empty() {
            batch.is_full = B::GOES_WHEN_FULL;
            batch.index();
            // It stays before the others.
            self.batches.push_front(batch);
        }
        (!items.is_empty()).then(|| BatchCall::together(items))
    }

    /// Fails all objects that are due, each with the error of its method.
    pub(super) fn fail_due(&mut self, now: Instant, error: impl Fn(&'static str) -> Error) {
        let mut failed = self.unanswered.take_all();
        while let Some(batch) = self.next(now).and_then(|at| self.batches.remove(at)) {
            failed.extend(batch.items);
        }
        for item in failed {
            let rpc = item.object.method().name;
            item.fail(error(rpc));
        }
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, ended: EndedBatch<B>) {
        self.unanswered.ended(ended);
    }
}

impl<B: GatheredObject> Batch<B> {
    fn twin(&self, object: &B) -> Twin {
        let place = self.places.get(object.name());
        let other = place.and_then(|at| self.items.get(*at));
        other.map_or(Twin::Joins, |other| object.twin(&other.object))
    }

    fn accepts(&self, object: &B) -> bool {
        let room = match self.twin(object) {
            Twin::Shares => true,
            Twin::Joins => !self.is_full,
            Twin::Waits => false,
        };
        self.group == object.group() && room
    }

    /// Adds an object that it accepts. Callers that ask about one object share the answer, about the object as
    /// the latest of them sees it.
    fn join(&mut self, item: Asked<B>, now: Instant, most: usize) {
        if self.twin(&item.object) == Twin::Shares {
            let place = self.places.get(item.object.name());
            if let Some(other) = place.and_then(|at| self.items.get_mut(*at)) {
                other.share(item);
            }
            return;
        }
        let name = Arc::clone(item.object.name());
        self.places.insert(name, self.items.len());
        self.items.push_back(item);
        self.gathering.joined(now);
        self.is_full = B::GOES_WHEN_FULL && self.items.len() >= most;
    }

    fn due(&self) -> Instant {
        if self.is_full || !B::is_gathered(self.group) {
            return self.gathering.begin();
        }
        self.gathering.due()
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
        let names = names.map(|item| Arc::clone(item.object.name()));
        self.places = names.zip(0..).collect();
    }
}

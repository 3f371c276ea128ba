//! Which lookups share a call, and when it goes out.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use outrigger_core::node::NodeView;
use prost::Message;
use tokio::time::Instant;

use super::{LookupAnswer, RPC, max_batch_size, send_batch, without_call};
use crate::{
    fence::Fence,
    provider::{
        Error, LookupPurpose, Session, Shared,
        admission::{Permit, Urgency},
        batch::{BatchCaller, BatchItem, Gathering, WaitingItems, take_batch},
        preconditions::Preconditions,
        wire,
    },
};

/// A lookup that waits for its batch.
pub(in crate::provider) struct PendingLookup {
    pub(super) node: Arc<NodeView>,
    pub(super) purpose: LookupPurpose,
    pub(super) preconditions: Preconditions,
    pub(super) caller: BatchCaller<LookupAnswer>,
}

/// One node, and all callers that look it up.
pub(in crate::provider) struct LookupItem {
    pub(super) node: Arc<NodeView>,
    preconditions: Preconditions,
    callers: Vec<BatchCaller<LookupAnswer>>,
}

/// Lookups that have not gone out, oldest first.
#[derive(Default)]
pub(in crate::provider) struct WaitingLookups(VecDeque<Batch>);

/// Lookups that share a call.
struct Batch {
    purpose: LookupPurpose,
    items: VecDeque<LookupItem>,
    /// Places by name.
    places: HashMap<Arc<str>, usize>,
    is_full: bool,
    gathering: Gathering,
}

impl WaitingLookups {
    /// Adds a lookup. A batch is full with `most` nodes.
    fn add(&mut self, lookup: PendingLookup, now: Instant, most: usize) {
        if let Some(batch) = self.0.iter_mut().find(|batch| batch.accepts(&lookup)) {
            batch.join(lookup, now, most);
            return;
        }
        let mut batch = Batch {
            purpose: lookup.purpose,
            items: VecDeque::new(),
            places: HashMap::new(),
            is_full: false,
            gathering: Gathering::new(now),
        };
        batch.join(lookup, now, most);
        self.0.push_back(batch);
    }

    /// Place of the batch that goes out next, without nodes that no caller waits for: of those that are
    /// due the most urgent, and of these the oldest.
    fn next(&mut self, now: Instant) -> Option<usize> {
        loop {
            let batches = self.0.iter().enumerate();
            let due = batches.filter(|(_, batch)| batch.due() <= now);
            let (at, _) = due.min_by_key(|(_, batch)| Urgency::from(batch.purpose))?;
            let batch = self.0.get_mut(at)?;
            batch.drop_abandoned();
            if !batch.items.is_empty() {
                return Some(at);
            }
            self.0.remove(at);
        }
    }
}

impl WaitingItems for WaitingLookups {
    type Item = PendingLookup;
    type Batch = (LookupPurpose, Vec<LookupItem>);

    fn join(&mut self, lookup: PendingLookup, shared: &Shared) {
        let session = shared.session.borrow().clone();
        let session = session.as_deref();
        match session.and_then(|session| without_call(&lookup.node, session)) {
            Some(known) => lookup.caller.answer(known.into()),
            None => self.add(lookup, Instant::now(), max_batch_size(session)),
        }
    }

    fn urgency(&mut self, now: Instant) -> Option<Urgency> {
        let at = self.next(now)?;
        self.0.get(at).map(|batch| batch.purpose.into())
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.0.iter().map(Batch::due);
        due.filter(|due| *due > now).min()
    }

    fn take(&mut self, now: Instant, session: &Session) -> Option<Self::Batch> {
        let at = self.next(now)?;
        let mut batch = self.0.remove(at)?;
        let most = max_batch_size(Some(session));
        let items = take_batch(&mut batch.items, session, most, 0);
        let purpose = batch.purpose;
        if !batch.items.is_empty() {
            batch.is_full = true;
            batch.index();
            // It stays due, and before the others.
            self.0.push_front(batch);
        }
        let callers = items.iter().flat_map(|item| &item.callers);
        callers.for_each(BatchCaller::mark_sent);
        (!items.is_empty()).then_some((purpose, items))
    }

    fn fail_due(&mut self, now: Instant, error: &Error) {
        while let Some(batch) = self.next(now).and_then(|at| self.0.remove(at)) {
            for item in batch.items {
                item.fail(error.clone());
            }
        }
    }

    fn call(
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
        batch: Self::Batch,
    ) -> impl Future<Output = ()> + Send + 'static {
        send_batch(shared, admitted, batch)
    }
}

impl Batch {
    fn accepts(&self, lookup: &PendingLookup) -> bool {
        let place = self.places.get(&lookup.node.name);
        let known = place.and_then(|at| self.items.get(*at));
        self.purpose == lookup.purpose
            && known.map_or(!self.is_full, |known| {
                // A node that was made again under its name, or got a provider ID meanwhile, is another
                // machine.
                known.node.uid == lookup.node.uid
                    && known.node.provider_id == lookup.node.provider_id
            })
    }

    /// Adds a lookup that it accepts. Callers that look up one node share the answer, about the node as
    /// the latest of them sees it.
    fn join(&mut self, lookup: PendingLookup, now: Instant, most: usize) {
        let place = self.places.get(&lookup.node.name);
        if let Some(known) = place.and_then(|at| self.items.get_mut(*at)) {
            known.node = lookup.node;
            known.preconditions = lookup.preconditions;
            known.callers.push(lookup.caller);
            return;
        }
        let name = Arc::clone(&lookup.node.name);
        self.places.insert(name, self.items.len());
        self.items.push_back(LookupItem {
            node: lookup.node,
            preconditions: lookup.preconditions,
            callers: vec![lookup.caller],
        });
        self.gathering.joined(now);
        self.is_full = self.items.len() >= most;
    }

    fn due(&self) -> Instant {
        if self.is_full {
            return self.gathering.begin();
        }
        self.gathering.due()
    }

    fn drop_abandoned(&mut self) {
        let before = self.items.len();
        self.items.retain_mut(|item| {
            item.callers.retain(|caller| !caller.is_gone());
            !item.callers.is_empty()
        });
        if self.items.len() < before {
            self.index();
        }
    }

    fn index(&mut self) {
        let names = self.items.iter().map(|item| Arc::clone(&item.node.name));
        self.places = names.zip(0..).collect();
    }
}

impl LookupItem {
    /// Preconditions of a call about this node and others.
    pub(super) fn preconditions(&self) -> Preconditions {
        self.preconditions.without_check()
    }

    /// Sends the answer to all callers that still wait.
    pub(super) fn answer(self, answer: &LookupAnswer) {
        for caller in self.callers {
            caller.answer(answer.clone());
        }
    }
}

impl BatchItem for LookupItem {
    fn rpc(&self) -> &'static str {
        RPC
    }

    fn bytes(&self, session: &Session) -> usize {
        wire::node(&self.node, session).encoded_len()
    }

    fn term(&self) -> Option<&Fence> {
        self.preconditions.fence()
    }

    fn fail(self, error: Error) {
        self.answer(&Err(error).into());
    }
}

//! Which lookups share a call, and when it goes out.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use outrigger_core::node::NodeView;
use prost::Message;
use tokio::time::Instant;

use super::{LookupAnswer, METHOD, RPC, max_batch_size, send_batch, without_call};
use crate::{
    fence::Fence,
    provider::{
        Error, LookupPurpose, Session, Shared,
        admission::{Permit, Urgency},
        batch::{
            BatchCall, BatchCaller, BatchItem, EndedBatch, Gathering, RepeatedItem, Unanswered,
            WaitingItems, take_batch,
        },
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
    pub(super) purpose: LookupPurpose,
    preconditions: Preconditions,
    callers: Vec<BatchCaller<LookupAnswer>>,
}

/// Lookups that have not gone out, oldest first.
#[derive(Default)]
pub(in crate::provider) struct WaitingLookups {
    batches: VecDeque<Batch>,
    unanswered: Unanswered<LookupItem>,
}

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
    fn add(&mut self, lookup: LookupItem, now: Instant, most: usize) {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.accepts(&lookup)) {
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
        self.batches.push_back(batch);
    }

    /// Place of the batch that goes out next, without nodes that no caller waits for: of those that are
    /// due the most urgent, and of these the oldest.
    fn next(&mut self, now: Instant) -> Option<usize> {
        loop {
            let batches = self.batches.iter().enumerate();
            let due = batches.filter(|(_, batch)| batch.due() <= now);
            let (at, _) = due.min_by_key(|(_, batch)| Urgency::from(batch.purpose))?;
            let batch = self.batches.get_mut(at)?;
            batch.drop_abandoned();
            if !batch.items.is_empty() {
                return Some(at);
            }
            self.batches.remove(at);
        }
    }

    /// Removes the items of the batch that goes out next.
    fn take_together(&mut self, now: Instant, session: &Session) -> Option<Vec<LookupItem>> {
        let at = self.next(now)?;
        let mut batch = self.batches.remove(at)?;
        let most = self.unanswered.most(max_batch_size(Some(session)));
        let items = take_batch(&mut batch.items, session, most, 0);
        if !batch.items.is_empty() {
            batch.is_full = true;
            batch.index();
            // It stays due, and before the others.
            self.batches.push_front(batch);
        }
        Some(items)
    }
}

impl WaitingItems for WaitingLookups {
    type Item = PendingLookup;
    type Batch = BatchCall<LookupItem>;
    type Ended = EndedBatch<LookupItem>;

    fn join(&mut self, lookup: PendingLookup, shared: &Shared) {
        let session = shared.session.borrow().clone();
        let session = session.as_deref();
        if let Some(known) = session.and_then(|session| without_call(&lookup.node, session)) {
            return lookup.caller.answer(known.into());
        }
        if let Some(lookup) = self.unanswered.admit(lookup.into()) {
            let most = self.unanswered.most(max_batch_size(session));
            self.add(lookup, Instant::now(), most);
        }
    }

    fn urgency(&mut self, now: Instant) -> Option<Urgency> {
        let alone = self.unanswered.urgency();
        let at = self.next(now);
        let together = at.and_then(|at| self.batches.get(at));
        let together = together.map(|batch| batch.purpose.into());
        [alone, together].into_iter().flatten().min()
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.batches.iter().map(Batch::due);
        due.filter(|due| *due > now).min()
    }

    fn take(&mut self, now: Instant, session: &Session) -> Option<Self::Batch> {
        let most_urgent = self.urgency(now)?;
        let alone = self.unanswered.urgency() == Some(most_urgent);
        let call = if alone {
            self.unanswered.take()?
        } else {
            BatchCall::together(self.take_together(now, session)?)
        };
        let callers = call.items.iter().flat_map(|item| &item.callers);
        callers.for_each(BatchCaller::mark_sent);
        (!call.items.is_empty()).then_some(call)
    }

    fn fail_due(&mut self, now: Instant, error: &Error) {
        self.unanswered.fail_all(error);
        while let Some(batch) = self.next(now).and_then(|at| self.batches.remove(at)) {
            for item in batch.items {
                item.fail(error.clone());
            }
        }
    }

    fn call(
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
        call: Self::Batch,
    ) -> impl Future<Output = Self::Ended> + Send + 'static {
        let (items, facts) = call.begin(METHOD.deadline);
        async move { facts.end(send_batch(shared, admitted, items).await) }
    }

    fn ended(&mut self, ended: Self::Ended) {
        self.unanswered.ended(ended);
    }
}

impl Batch {
    fn accepts(&self, lookup: &LookupItem) -> bool {
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
    fn join(&mut self, lookup: LookupItem, now: Instant, most: usize) {
        let place = self.places.get(&lookup.node.name);
        if let Some(known) = place.and_then(|at| self.items.get_mut(*at)) {
            known.node = lookup.node;
            known.preconditions = lookup.preconditions;
            known.callers.extend(lookup.callers);
            return;
        }
        let name = Arc::clone(&lookup.node.name);
        self.places.insert(name, self.items.len());
        self.items.push_back(lookup);
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
        self.items.retain_mut(|item| !item.is_abandoned());
        if self.items.len() < before {
            self.index();
        }
    }

    fn index(&mut self) {
        let names = self.items.iter().map(|item| Arc::clone(&item.node.name));
        self.places = names.zip(0..).collect();
    }
}

impl From<PendingLookup> for LookupItem {
    fn from(lookup: PendingLookup) -> Self {
        Self {
            node: lookup.node,
            purpose: lookup.purpose,
            preconditions: lookup.preconditions,
            callers: vec![lookup.caller],
        }
    }
}

impl RepeatedItem for LookupItem {
    fn name(&self) -> &Arc<str> {
        &self.node.name
    }

    fn urgency(&self) -> Urgency {
        self.purpose.into()
    }

    fn is_abandoned(&mut self) -> bool {
        self.callers.retain(|caller| !caller.is_gone());
        self.callers.is_empty()
    }

    fn mark_waiting(&self) {
        self.callers.iter().for_each(BatchCaller::mark_waiting);
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
        wire::asked_node(&self.node, session).encoded_len()
    }

    fn term(&self) -> Option<&Fence> {
        self.preconditions.fence()
    }

    fn fail(self, error: Error) {
        self.answer(&Err(error).into());
    }
}

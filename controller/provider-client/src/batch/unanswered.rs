//! Nodes that a call left without an answer until its deadline.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::warn;

use super::{Asked, Error, Permit, Session, Shared, Urgency, send::send_batch};
use crate::lookup::METHOD;
use outrigger_runtime::telemetry::Repeats;

/// Calls about one such Node at once: half of the calls that a class has in flight by default.
const PLACES: usize = 2;
/// A Node that was not answered in a call of its own is asked alone for so long, unless one is answered before:
/// longer than the longest back-off of a key.
const REMEMBERED: Duration = Duration::from_mins(20);
/// A Node that waits longer for a call of its own fails: its caller has to know, and asks again.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// The Nodes of one call.
pub(super) struct BatchCall {
    items: Vec<Asked>,
    /// The place that a Node takes that is asked about alone.
    place: Option<OwnedSemaphorePermit>,
}

/// How a call ended.
pub(super) struct EndedBatch {
    size: usize,
    first: Option<Arc<str>>,
    is_quick: bool,
    unanswered: Vec<(Asked, Error)>,
    /// Held until the end of the call is known to [`Unanswered`].
    _place: Option<OwnedSemaphorePermit>,
}

/// Nodes that a call left without an answer until its deadline. Each is asked about again in a call of its own, so
/// that a Node that hangs delays the others by one deadline only. A Node that hangs alone too shares no call
/// with others until it was answered.
///
/// Batches are made smaller after such a call, and larger again after full ones that were quick.
pub(super) struct Unanswered {
    waiting: VecDeque<Repeated>,
    /// When a Node was last not answered alone, and how, by its name.
    hung: HashMap<Arc<str>, (Instant, Error)>,
    places: Arc<Semaphore>,
    most: usize,
    repeats: Repeats,
}

struct Repeated {
    item: Asked,
    since: Instant,
    /// Why it was not answered before.
    error: Error,
}

impl BatchCall {
    /// A call about Nodes that may be together.
    pub(super) const fn together(items: Vec<Asked>) -> Self {
        Self { items, place: None }
    }

    /// Makes it, and sends each caller its answer.
    pub(super) async fn make(
        self,
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
    ) -> EndedBatch {
        let first = self.items.first();
        let first = first.map(|first| Arc::clone(first.lookup.name()));
        let (size, began) = (self.items.len(), Instant::now());
        let unanswered = send_batch(shared, admitted, self.items).await;
        EndedBatch {
            size,
            first,
            is_quick: began.elapsed() < METHOD.deadline / 4,
            unanswered,
            _place: self.place,
        }
    }
}

impl Default for Unanswered {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            hung: HashMap::new(),
            places: Arc::new(Semaphore::new(PLACES)),
            most: usize::MAX,
            repeats: Repeats::default(),
        }
    }
}

impl Unanswered {
    /// Nodes in a call whose provider accepts `declared` of them.
    pub(super) fn most(&self, declared: usize) -> usize {
        self.most.min(declared)
    }

    /// Returns the Node if it may be asked together with others; else it waits here.
    pub(super) fn admit(&mut self, item: Asked) -> Option<Asked> {
        let hung = self.hung.get(item.lookup.name());
        let Some((_, error)) = hung.filter(|(since, _)| since.elapsed() <= REMEMBERED) else {
            return Some(item);
        };
        let error = error.clone();
        self.wait(item, error);
        None
    }

    fn wait(&mut self, item: Asked, error: Error) {
        let since = Instant::now();
        self.waiting.push_back(Repeated { item, since, error });
    }

    /// Urgency of the call that goes out next, if there is one and a place for it.
    pub(super) fn urgency(&mut self) -> Option<Urgency> {
        while let Some(late) = self
            .waiting
            .pop_front_if(|waiting| waiting.since.elapsed() > LONGEST_WAIT)
        {
            late.item.fail(late.error);
        }
        if self.places.available_permits() == 0 {
            return None;
        }
        self.waiting
            .retain_mut(|waiting| !waiting.item.is_abandoned());
        self.next().map(|(_, urgency)| urgency)
    }

    /// Removes the Node of the call that goes out next.
    pub(super) fn take(&mut self) -> Option<BatchCall> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (at, _) = self.next()?;
        let waiting = self.waiting.remove(at)?;
        Some(BatchCall {
            items: vec![waiting.item],
            place: Some(place),
        })
    }

    /// The most urgent Node; of equals the first that has not hung alone yet.
    fn next(&self) -> Option<(usize, Urgency)> {
        let order = |item: &Asked| {
            (
                Urgency::from(item.lookup.purpose),
                self.hung.contains_key(item.lookup.name()),
            )
        };
        let waiting = self.waiting.iter().enumerate();
        let (at, first) = waiting.min_by_key(|(_, waiting)| order(&waiting.item))?;
        Some((at, first.item.lookup.purpose.into()))
    }

    /// Removes all Nodes.
    pub(super) fn take_all(&mut self) -> Vec<Asked> {
        self.waiting.drain(..).map(|waiting| waiting.item).collect()
    }

    /// Learns from the end of a call.
    pub(super) fn ended(&mut self, ended: EndedBatch) {
        let EndedBatch {
            size,
            first,
            is_quick,
            unanswered,
            _place,
        } = ended;
        if unanswered.is_empty() {
            if is_quick && size >= self.most {
                self.most = self.most.saturating_mul(2);
            }
            if let Some(first) = first.filter(|_| size == 1) {
                self.hung.remove(&first);
            }
            return;
        }
        if size > 1 {
            self.most = (size / 2).max(1);
        }
        for (item, error) in unanswered {
            item.mark_sent(false);
            if size == 1 {
                self.remember(&item, &error);
                item.fail(error);
            } else if item.term().is_some_and(|term| !term.may_call()) {
                item.fail(error);
            } else {
                self.wait(item, error);
            }
        }
    }

    /// Notes a Node that hangs alone, and says so.
    fn remember(&mut self, item: &Asked, error: &Error) {
        let now = Instant::now();
        self.hung.retain(|_, (since, _)| now - *since <= REMEMBERED);
        let hung = (now, error.clone());
        self.hung.insert(Arc::clone(item.lookup.name()), hung);
        let name = &**item.lookup.name();
        if let Some(repeated) = self.repeats.due(name) {
            warn!(
                name, repeated, %error,
                "not answered in a call of its own; others are asked without it"
            );
        }
    }
}

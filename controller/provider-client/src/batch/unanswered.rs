//! Objects that a call left without an answer until its deadline.

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

use super::{Asked, Error, GatheredObject, Permit, Session, Shared, Urgency, send::send_batch};
use outrigger_runtime::telemetry::Repeats;

/// Calls about one such object at once: half of the calls that a class has in flight by default.
const PLACES: usize = 2;
/// An object that was not answered in a call of its own is asked alone for so long, unless one is answered before:
/// longer than the longest back-off of a key.
const REMEMBERED: Duration = Duration::from_mins(20);
/// An object that waits longer for a call of its own fails: its caller has to know, and asks again.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// The objects of one call.
pub(super) struct BatchCall<B: GatheredObject> {
    items: Vec<Asked<B>>,
    /// The place that an object takes that is asked about alone.
    place: Option<OwnedSemaphorePermit>,
}

/// How a call ended.
pub(super) struct EndedBatch<B: GatheredObject> {
    size: usize,
    first: Option<Arc<str>>,
    is_quick: bool,
    unanswered: Vec<(Asked<B>, Error)>,
    /// Held until the end of the call is known to [`Unanswered`].
    _place: Option<OwnedSemaphorePermit>,
}

/// Objects that a call left without an answer until its deadline. Each is asked about again in a call of its own, so
/// that an object that hangs delays the others by one deadline only. An object that hangs alone too shares no call
/// with others until it was answered.
///
/// Batches are made smaller after such a call, and larger again after full ones that were quick.
pub(super) struct Unanswered<B: GatheredObject> {
    waiting: VecDeque<Repeated<B>>,
    /// When an object was last not answered alone, and how, by its name.
    hung: HashMap<Arc<str>, (Instant, Error)>,
    places: Arc<Semaphore>,
    most: usize,
    repeats: Repeats,
}

struct Repeated<B: GatheredObject> {
    item: Asked<B>,
    since: Instant,
    /// Why it was not answered before.
    error: Error,
}

impl<B: GatheredObject> BatchCall<B> {
    /// A call about objects that may be together.
    pub(super) const fn together(items: Vec<Asked<B>>) -> Self {
        Self { items, place: None }
    }

    /// Makes it, and sends each caller its answer.
    pub(super) async fn make(
        self,
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
    ) -> EndedBatch<B> {
        let first = self.items.first();
        let deadline = first.map(|first| first.object.method().deadline);
        let first = first.map(|first| Arc::clone(first.object.name()));
        let (size, began) = (self.items.len(), Instant::now());
        let unanswered = send_batch(shared, admitted, self.items).await;
        EndedBatch {
            size,
            first,
            is_quick: began.elapsed() < deadline.unwrap_or_default() / 4,
            unanswered,
            _place: self.place,
        }
    }
}

impl<B: GatheredObject> Default for Unanswered<B> {
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

impl<B: GatheredObject> Unanswered<B> {
    /// Objects in a call whose provider accepts `declared` of them.
    pub(super) fn most(&self, declared: usize) -> usize {
        self.most.min(declared)
    }

    /// Returns the object if it may be asked together with others; else it waits here.
    pub(super) fn admit(&mut self, item: Asked<B>) -> Option<Asked<B>> {
        let hung = self.hung.get(item.object.name());
        let Some((_, error)) = hung.filter(|(since, _)| since.elapsed() <= REMEMBERED) else {
            return Some(item);
        };
        let error = error.clone();
        self.wait(item, error);
        None
    }

    fn wait(&mut self, item: Asked<B>, error: Error) {
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

    /// Removes the object of the call that goes out next.
    pub(super) fn take(&mut self) -> Option<BatchCall<B>> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (at, _) = self.next()?;
        let waiting = self.waiting.remove(at)?;
        Some(BatchCall {
            items: vec![waiting.item],
            place: Some(place),
        })
    }

    /// The most urgent object; of equals the first that has not hung alone yet.
    fn next(&self) -> Option<(usize, Urgency)> {
        let order = |item: &Asked<B>| {
            (
                B::urgency(item.object.group()),
                self.hung.contains_key(item.object.name()),
            )
        };
        let waiting = self.waiting.iter().enumerate();
        let (at, first) = waiting.min_by_key(|(_, waiting)| order(&waiting.item))?;
        Some((at, B::urgency(first.item.object.group())))
    }

    /// Removes all objects.
    pub(super) fn take_all(&mut self) -> Vec<Asked<B>> {
        self.waiting.drain(..).map(|waiting| waiting.item).collect()
    }

    /// Learns from the end of a call.
    pub(super) fn ended(&mut self, ended: EndedBatch<B>) {
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

    /// Notes an object that hangs alone, and says so.
    fn remember(&mut self, item: &Asked<B>, error: &Error) {
        let now = Instant::now();
        self.hung.retain(|_, (since, _)| now - *since <= REMEMBERED);
        let hung = (now, error.clone());
        self.hung.insert(Arc::clone(item.object.name()), hung);
        let name = &**item.object.name();
        if let Some(repeated) = self.repeats.due(name) {
            warn!(
                name, repeated, %error,
                "not answered in a call of its own; others are asked without it"
            );
        }
    }
}

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

use super::BatchItem;
use crate::{
    provider::{Error, admission::Urgency},
    telemetry::Repeats,
};

/// Calls about one such object at once: half of the calls that a class has in flight by default.
const PLACES: usize = 2;
/// An object that was not answered in a call of its own is asked alone for so long, unless one is answered before:
/// longer than the longest back-off of a key.
const REMEMBERED: Duration = Duration::from_mins(20);
/// An object that waits longer for a call of its own fails: its caller has to know, and asks again.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// An object that is asked again.
pub(in crate::provider) trait RepeatedItem: BatchItem {
    /// Name of the object.
    fn name(&self) -> &Arc<str>;

    /// Urgency of a call about it.
    fn urgency(&self) -> Urgency;

    /// Whether no caller waits for it any more.
    fn is_abandoned(&mut self) -> bool;

    /// The stop withdraws it again: it is in no call.
    fn mark_waiting(&self);
}

/// The objects of one call.
pub(in crate::provider) struct BatchCall<T> {
    pub(in crate::provider) items: Vec<T>,
    /// Of an object that is asked alone.
    place: Option<OwnedSemaphorePermit>,
}

/// How a call ended.
pub(in crate::provider) struct EndedBatch<T> {
    call: BatchFacts,
    unanswered: Vec<(T, Error)>,
}

/// A call, once its objects have been answered.
pub(in crate::provider) struct BatchFacts {
    size: usize,
    first: Option<Arc<str>>,
    began: Instant,
    deadline: Duration,
    /// Held until the end of the call is known to [`Unanswered`].
    _place: Option<OwnedSemaphorePermit>,
}

/// Objects that a call left without an answer until its deadline. Each is asked again in a call of its own, so that
/// one that hangs delays the others by one deadline. One that hangs alone too is not asked together with others
/// until it was answered.
///
/// Batches are made smaller after such a call, and larger again after full ones that were quick.
pub(in crate::provider) struct Unanswered<T> {
    waiting: VecDeque<Waiting<T>>,
    /// When an object was last not answered alone, and how, by its name.
    hung: HashMap<Arc<str>, (Instant, Error)>,
    places: Arc<Semaphore>,
    most: usize,
    repeats: Repeats,
}

struct Waiting<T> {
    item: T,
    since: Instant,
    /// Why it was not answered before.
    error: Error,
}

impl<T> BatchCall<T> {
    /// A call about objects that may be together.
    pub(in crate::provider) const fn together(items: Vec<T>) -> Self {
        Self { items, place: None }
    }
}

impl<T: RepeatedItem> BatchCall<T> {
    /// Its objects, and what is to be known at its end.
    pub(in crate::provider) fn begin(self, deadline: Duration) -> (Vec<T>, BatchFacts) {
        let facts = BatchFacts {
            size: self.items.len(),
            first: self.items.first().map(|item| Arc::clone(item.name())),
            began: Instant::now(),
            deadline,
            _place: self.place,
        };
        (self.items, facts)
    }
}

impl BatchFacts {
    /// The end of the call.
    pub(in crate::provider) const fn end<T>(self, unanswered: Vec<(T, Error)>) -> EndedBatch<T> {
        EndedBatch {
            call: self,
            unanswered,
        }
    }
}

impl<T> Default for Unanswered<T> {
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

impl<T: RepeatedItem> Unanswered<T> {
    /// Objects in a call whose provider accepts `declared` of them.
    pub(in crate::provider) fn most(&self, declared: usize) -> usize {
        self.most.min(declared)
    }

    /// Returns the object if it may be asked together with others; else it waits here.
    pub(in crate::provider) fn admit(&mut self, item: T) -> Option<T> {
        let hung = self.hung.get(item.name());
        let Some((_, error)) = hung.filter(|(since, _)| since.elapsed() <= REMEMBERED) else {
            return Some(item);
        };
        let error = error.clone();
        self.wait(item, error);
        None
    }

    fn wait(&mut self, item: T, error: Error) {
        let since = Instant::now();
        self.waiting.push_back(Waiting { item, since, error });
    }

    /// Urgency of the call that goes out next, if there is one and a place for it.
    pub(in crate::provider) fn urgency(&mut self) -> Option<Urgency> {
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
    pub(in crate::provider) fn take(&mut self) -> Option<BatchCall<T>> {
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
        let order = |item: &T| (item.urgency(), self.hung.contains_key(item.name()));
        let waiting = self.waiting.iter().enumerate();
        let (at, first) = waiting.min_by_key(|(_, waiting)| order(&waiting.item))?;
        Some((at, first.item.urgency()))
    }

    /// Fails all objects.
    pub(in crate::provider) fn fail_all(&mut self, error: &Error) {
        for waiting in self.waiting.drain(..) {
            waiting.item.fail(error.clone());
        }
    }

    /// Learns from the end of a call.
    pub(in crate::provider) fn ended(&mut self, ended: EndedBatch<T>) {
        let EndedBatch { call, unanswered } = ended;
        if unanswered.is_empty() {
            let is_quick = call.began.elapsed() < call.deadline / 4;
            if is_quick && call.size >= self.most {
                self.most = self.most.saturating_mul(2);
            }
            if let Some(first) = call.first.filter(|_| call.size == 1) {
                self.hung.remove(&first);
            }
            return;
        }
        if call.size > 1 {
            self.most = (call.size / 2).max(1);
        }
        for (item, error) in unanswered {
            item.mark_waiting();
            if call.size == 1 {
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
    fn remember(&mut self, item: &T, error: &Error) {
        let now = Instant::now();
        self.hung.retain(|_, (since, _)| now - *since <= REMEMBERED);
        let hung = (now, error.clone());
        self.hung.insert(Arc::clone(item.name()), hung);
        let name = &**item.name();
        if let Some(repeated) = self.repeats.due(name) {
            warn!(
                name, repeated, %error,
                "not answered in a call of its own; others are asked without it"
            );
        }
    }
}

//! Calls that many objects share: each object waits for the next one, which is no larger than the provider
//! accepts.
//!
//! ```text
//!  ask ─► Batcher: WaitingItems::join ─(admission)─► take ─► call
//!   ▲                                                         │
//!   └───────────────── BatchCaller::answer ◄──────────────────┘
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{FutureExt, future::OptionFuture};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    Error, Session, Shared,
    admission::{Permit, Urgency},
};
use crate::fence::Fence;

mod caller;
mod unanswered;

pub(super) use caller::{BatchCaller, ask};
pub(super) use unanswered::{BatchCall, EndedBatch, RepeatedItem, Unanswered};

/// Bytes of a request besides its objects, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one object: a tag, a length and a key, generously.
const AROUND: usize = 16;

/// A call is due when no object has joined it for this long: the time in which one event makes many workers
/// ask, and far below a cloud call.
const IDLE: Duration = Duration::from_millis(25);
/// A call is due this long after its first object, whatever joins.
const LONGEST: Duration = Duration::from_millis(250);

/// When a call is due that objects may still join.
#[derive(Clone, Copy)]
pub(super) struct Gathering {
    begin: Instant,
    last: Instant,
}

impl Gathering {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            begin: now,
            last: now,
        }
    }

    pub(super) const fn joined(&mut self, now: Instant) {
        self.last = now;
    }

    /// When the first object joined.
    pub(super) const fn begin(self) -> Instant {
        self.begin
    }

    pub(super) fn due(self) -> Instant {
        (self.last + IDLE).min(self.begin + LONGEST)
    }
}

/// An object that shares a call with others.
pub(super) trait BatchItem {
    /// Name of the call.
    fn rpc(&self) -> &'static str;

    /// Bytes of its part of the request.
    fn bytes(&self, session: &Session) -> usize;

    /// Its lease term: a call is of one.
    fn term(&self) -> Option<&Fence>;

    /// Ends its wait without a call.
    fn fail(self, error: Error);
}

/// Objects that wait for their calls.
pub(super) trait WaitingItems: Send + 'static {
    /// One object, and its caller.
    type Item: Send;
    /// The objects of one call.
    type Batch: Send;
    /// The end of a call.
    type Ended: Send + 'static;

    /// Adds an object.
    fn join(&mut self, item: Self::Item, shared: &Shared);

    /// Urgency of the call that goes out next, if one is due.
    fn urgency(&mut self, now: Instant) -> Option<Urgency>;

    /// When the next call becomes due after `now`.
    fn next_due(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Removes the objects of the call that goes out next; none if no caller waits any more.
    fn take(&mut self, now: Instant, session: &Session) -> Option<Self::Batch>;

    /// Fails all objects that are due.
    fn fail_due(&mut self, now: Instant, error: &Error);

    /// Makes the call, and sends each caller its answer.
    fn call(
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
        batch: Self::Batch,
    ) -> impl Future<Output = Self::Ended> + Send + 'static;

    /// A call has ended.
    fn ended(&mut self, ended: Self::Ended);
}

/// Objects share a call with those that wait at the same time: for each other ([`Gathering`]), or for admission
/// alone: then one goes out at once, and of many each call after the first ones is full.
pub(super) struct Batcher<W: WaitingItems> {
    shared: Arc<Shared>,
    items: mpsc::UnboundedReceiver<W::Item>,
    waiting: W,
    calls: JoinSet<W::Ended>,
}

impl<W: WaitingItems> Batcher<W> {
    pub(super) fn new(
        shared: Arc<Shared>,
        items: mpsc::UnboundedReceiver<W::Item>,
        waiting: W,
    ) -> Self {
        Self {
            shared,
            items,
            waiting,
            calls: JoinSet::new(),
        }
    }

    /// Works until cancelled. Callers that still wait then get an error.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        let mut arrived = Vec::new();
        // Objects join for as long as they wait: the permit is for the most urgent ones then.
        let mut urgency = None;
        let mut admission = OptionFuture::default();
        loop {
            let now = Instant::now();
            let most_urgent = self.waiting.urgency(now);
            if most_urgent != urgency {
                urgency = most_urgent;
                let shared = Arc::clone(&self.shared);
                let admit = |urgency| async move { shared.admit(urgency).await }.boxed();
                admission = urgency.map(admit).into();
            }
            let next = self.waiting.next_due(now);
            tokio::select! {
                // All that wait already are in the batch.
                biased;
                1.. = self.items.recv_many(&mut arrived, usize::MAX) => {
                    for item in arrived.drain(..) {
                        self.waiting.join(item, &self.shared);
                    }
                }
                Some(admitted) = &mut admission => {
                    (urgency, admission) = (None, OptionFuture::default());
                    self.send(admitted, now);
                }
                () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
                Some(ended) = self.calls.join_next() => match ended {
                    Ok(ended) => self.waiting.ended(ended),
                    // The callers see that their answer is dropped, which is an error.
                    Err(error) => error!(%error, "batch panicked"),
                },
                else => return,
            }
        }
    }

    /// Sends the most urgent call of those that were due at `now`.
    fn send(&mut self, admitted: Result<(Permit, Arc<Session>), Error>, now: Instant) {
        let (permit, session) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return self.waiting.fail_due(now, &error),
        };
        if let Some(batch) = self.waiting.take(now, &session) {
            let shared = Arc::clone(&self.shared);
            self.calls.spawn(W::call(shared, (permit, session), batch));
        }
    }
}

/// Removes from `waiting` the items of one call: `most` of one lease term, in a request that has `beside`
/// bytes of other content. An item that would not even fit alone fails.
pub(super) fn take_batch<T: BatchItem>(
    waiting: &mut VecDeque<T>,
    session: &Session,
    most: usize,
    beside: usize,
) -> Vec<T> {
    let limit = session.max_send_bytes;
    let envelope = ENVELOPE + beside;
    let mut size = envelope;
    let mut batch: Vec<T> = Vec::new();
    let mut of_other_terms = Vec::new();
    while batch.len() < most
        && let Some(item) = waiting.pop_front()
    {
        if let Some(first) = batch.first()
            && first.term() != item.term()
        {
            of_other_terms.push(item);
            continue;
        }
        let bytes = item.bytes(session) + AROUND;
        if envelope + bytes > limit {
            let rpc = item.rpc();
            item.fail(Error::TooLarge {
                rpc,
                bytes: envelope + bytes,
                limit,
            });
        } else if size + bytes > limit {
            waiting.push_front(item);
            break;
        } else {
            size += bytes;
            batch.push(item);
        }
    }
    for item in of_other_terms.into_iter().rev() {
        waiting.push_front(item);
    }
    batch
}

/// Fails the items of calls that the provider does not serve.
pub(super) fn fail_not_offered<T: BatchItem>(items: impl IntoIterator<Item = T>) {
    for item in items {
        let rpc = item.rpc();
        item.fail(Error::NotOffered { rpc });
    }
}

/// The error of an item that holds for the whole class of calls, if there is one: see
/// [`Error::speaks_for_all`]. `errors` has one entry for each item; none: it has its answer.
pub(super) fn speaks_for_all<'a>(
    errors: impl Iterator<Item = Option<&'a Error>> + Clone,
) -> Option<&'a Error> {
    let none_answered = errors.clone().all(|error| error.is_some());
    errors
        .flatten()
        .find(|error| error.speaks_for_all(none_answered))
}

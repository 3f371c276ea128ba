//! Calls about several objects: each object waits for the next one, which is no larger than the provider accepts.
//!
//! ```text
//!  ask ─► Batcher: WaitingObjects::join ─(admission)─► take ─► send ─► one result for each
//!   ▲                                                               │
//!   └──────────────────── BatchCaller::answer ◄─────────────────────┘
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{FutureExt, future::OptionFuture};
use outrigger_api::{BatchRequest, ItemResult, Method, MethodRequest};
use prost::Message;
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
    metrics::ProviderMetrics,
    preconditions::Preconditions,
};

mod caller;
mod results;
mod send;
mod unanswered;
mod waiting;

pub(super) use caller::{Asked, ask};
pub use results::BatchAnswer;
#[cfg(test)]
pub(super) use results::speaks_for_all;
pub(super) use results::{one_each, read_outcome};
use unanswered::EndedBatch;
use waiting::WaitingObjects;

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
struct Gathering {
    begin: Instant,
    last: Instant,
}

impl Gathering {
    const fn new(now: Instant) -> Self {
        Self {
            begin: now,
            last: now,
        }
    }

    const fn joined(&mut self, now: Instant) {
        self.last = now;
    }

    /// When the first object joined.
    const fn begin(self) -> Instant {
        self.begin
    }

    fn due(self) -> Instant {
        (self.last + IDLE).min(self.begin + LONGEST)
    }
}

/// An object that a call about several is about.
pub(super) trait BatchObject: Send + Sync + Sized + 'static {
    /// The call, or one with the same items and results.
    type Request: BatchRequest;
    /// The answer, if it is no error.
    type Found: Clone + Send + 'static;

    fn method(&self) -> &'static Method {
        Self::Request::METHOD
    }

    /// The part of the request about it, at this place.
    fn message(&self, session: &Session, place: usize) -> ItemOf<Self>;

    /// Reads the outcome, unless it is an error.
    fn read(&self, outcome: OutcomeOf<Self>, call: &AnsweredCall<'_>)
    -> Result<Self::Found, Error>;
}

/// An object that waits for others to share a call with.
pub(super) trait GatheredObject: BatchObject {
    /// Only objects of one group share a call.
    type Group: Copy + PartialEq + Send + Sync + 'static;

    /// The kind of the object, for people.
    const KIND: &'static str;
    /// How often a batch is split whose call fails because of its request.
    const SPLITS: usize = 0;
    /// True if a full batch goes out immediately, and later objects wait for the next one.
    const GOES_WHEN_FULL: bool = false;
    /// True if an object without an answer in time is asked about again, alone.
    const IS_REPEATED: bool = true;

    fn group(&self) -> Self::Group;

    /// Name of the object.
    fn name(&self) -> &Arc<str>;

    /// How it joins a call that `other`, of the same name, is in.
    fn twin(&self, other: &Self) -> Twin;

    /// The answer that needs no call.
    fn without_call(&self, _session: &Session) -> Option<Self::Found> {
        None
    }

    /// Checks the answers of one call against each other.
    fn compare(_answers: &mut [BatchAnswer<Self::Found>]) {}

    /// Objects in one call; none: the provider does not offer it.
    fn most(session: &Session) -> Option<usize>;

    fn urgency(group: Self::Group) -> Urgency;

    /// Returns true if an object waits for others to join its call.
    fn is_gathered(group: Self::Group) -> bool;

    /// A call about so many goes out.
    fn count(group: Self::Group, metrics: &ProviderMetrics, objects: usize);

    /// The request without its items.
    fn request(_group: Self::Group) -> Self::Request {
        Self::Request::default()
    }

    /// Makes the call.
    fn call(
        group: Self::Group,
        call: CallOf<'_>,
        items: impl Fn(&Session) -> Vec<ItemOf<Self>> + Send + Sync,
    ) -> impl Future<Output = Result<Vec<ResultOf<Self>>, Error>> + Send {
        call.about(move || Self::request(group), items)
    }
}

/// The part of a request about one object.
pub(super) type ItemOf<B> = <<B as BatchObject>::Request as BatchRequest>::Item;
/// The part of an answer about one object.
pub(super) type ResultOf<B> = <<B as BatchObject>::Request as BatchRequest>::ItemResult;
/// Its outcome.
pub(super) type OutcomeOf<B> = <ResultOf<B> as ItemResult>::Outcome;

/// How an object joins a call that has one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twin {
    /// It is the same: the answer is for both callers.
    Shares,
    /// It joins the call like any other object.
    Joins,
    /// Not at all: it goes out with a later call.
    Waits,
}

/// All that a call is made with, but its request.
pub(super) struct CallOf<'a> {
    shared: &'a Shared,
    permit: &'a Permit,
    preconditions: &'a Preconditions,
    session: &'a Session,
}

impl CallOf<'_> {
    /// Makes it about these items.
    pub(super) async fn about<R: BatchRequest>(
        self,
        request: impl Fn() -> R + Send + Sync,
        items: impl Fn(&Session) -> Vec<R::Item> + Send + Sync,
    ) -> Result<Vec<R::ItemResult>, Error> {
        let request = |session: &Session| {
            let mut request = request();
            *request.items_mut() = items(session);
            request
        };
        let call = self
            .shared
            .call(self.permit, self.preconditions, self.session, request);
        call.await.map(R::results)
    }
}

/// A call that was answered.
pub(super) struct AnsweredCall<'a> {
    pub(super) shared: &'a Shared,
    pub(super) session: &'a Session,
    pub(super) took: Duration,
}

/// Objects share a call with those that wait at the same time: for each other ([`Gathering`]), or for admission
/// alone: then one goes out at once, and of many each call after the first ones is full.
pub(super) struct Batcher<B: GatheredObject> {
    shared: Arc<Shared>,
    arriving: mpsc::UnboundedReceiver<Asked<B>>,
    waiting: WaitingObjects<B>,
    calls: JoinSet<EndedBatch<B>>,
}

impl<B: GatheredObject> Batcher<B> {
    /// The batcher, and where objects are sent to. Callers are bounded by the keys that their loop has in flight,
    /// and by requests of the API server to a webhook.
    pub(super) fn new(shared: &Arc<Shared>) -> (mpsc::UnboundedSender<Asked<B>>, Self) {
        let (objects, arriving) = mpsc::unbounded_channel();
        let batcher = Self {
            shared: Arc::clone(shared),
            arriving,
            waiting: WaitingObjects::default(),
            calls: JoinSet::new(),
        };
        (objects, batcher)
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
                1.. = self.arriving.recv_many(&mut arrived, usize::MAX) => {
                    for asked in arrived.drain(..) {
                        self.waiting.join(asked, &self.shared);
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
            Err(error) => return self.waiting.fail_due(now, |_| error.clone()),
        };
        if let Some(call) = self.waiting.take(now, &session) {
            let shared = Arc::clone(&self.shared);
            self.calls.spawn(call.make(shared, (permit, session)));
        }
    }
}

/// Removes from `waiting` the items of one call: `most` of one lease term, in a request that has `beside`
/// bytes of other content. An item that would not even fit alone fails.
pub(super) fn take_batch<B: BatchObject>(
    waiting: &mut VecDeque<Asked<B>>,
    session: &Session,
    most: usize,
    beside: usize,
) -> Vec<Asked<B>> {
    let limit = session.max_send_bytes;
    let envelope = ENVELOPE + beside;
    let mut size = envelope;
    let mut batch: Vec<Asked<B>> = Vec::new();
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
        let bytes = item.object.message(session, 0).encoded_len() + AROUND;
        if envelope + bytes > limit {
            let rpc = item.object.method().name;
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

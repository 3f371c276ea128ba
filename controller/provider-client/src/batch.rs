//! `BatchGetInstances`: each Node waits for the next call, which is no larger than the provider accepts.
//!
//! ```text
//!  ask ─► Batcher: WaitingLookups::join ─(admission)─► take ─► send ─► one result for each
//!   ▲                                                               │
//!   └──────────────────── BatchCaller::answer ◄─────────────────────┘
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{FutureExt, future::OptionFuture};
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
    lookup::{NodeLookup, RPC},
};

mod caller;
mod results;
mod send;
mod waiting;

pub(super) use caller::{Asked, ask};
pub use results::BatchAnswer;
#[cfg(test)]
pub(super) use results::{one_each, speaks_for_all};
use send::send_batch;
use waiting::WaitingLookups;

/// Bytes of a request besides its Nodes, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one Node: a tag and a length, generously.
const AROUND: usize = 16;

/// A call is due when no Node has joined it for this long: the time in which one event makes many workers
/// ask, and far below a cloud call.
const IDLE: Duration = Duration::from_millis(25);
/// A call is due this long after its first Node, whatever joins.
const LONGEST: Duration = Duration::from_millis(250);

/// When a call is due that Nodes may still join.
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

    fn due(self) -> Instant {
        (self.last + IDLE).min(self.begin + LONGEST)
    }
}

/// Nodes share a call with those that wait at the same time ([`Gathering`]).
pub(super) struct Batcher {
    shared: Arc<Shared>,
    arriving: mpsc::UnboundedReceiver<Asked>,
    waiting: WaitingLookups,
    calls: JoinSet<()>,
}

impl Batcher {
    /// The batcher, and where lookups are sent to. Callers are bounded by the keys that their loop has in flight.
    pub(super) fn new(shared: &Arc<Shared>) -> (mpsc::UnboundedSender<Asked>, Self) {
        let (lookups, arriving) = mpsc::unbounded_channel();
        let batcher = Self {
            shared: Arc::clone(shared),
            arriving,
            waiting: WaitingLookups::default(),
            calls: JoinSet::new(),
        };
        (lookups, batcher)
    }

    /// Works until cancelled. Callers that still wait then get an error.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        let mut arrived = Vec::new();
        // Nodes join for as long as they wait: the permit is for the most urgent ones then.
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
                Some(ended) = self.calls.join_next() => if let Err(error) = ended {
                    // The callers see that their answer is dropped, which is an error.
                    error!(%error, "batch panicked");
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
        let items = self.waiting.take(now, &session);
        if !items.is_empty() {
            let shared = Arc::clone(&self.shared);
            self.calls
                .spawn(send_batch(shared, (permit, session), items));
        }
    }
}

/// Removes from `waiting` the lookups of one call: `most` of one lease term. A Node that would not even fit alone
/// fails.
fn take_batch(waiting: &mut VecDeque<Asked>, session: &Session, most: usize) -> Vec<Asked> {
    let limit = session.max_send_bytes;
    let mut size = ENVELOPE;
    let mut batch: Vec<Asked> = Vec::new();
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
        let bytes = item.lookup.message(session).encoded_len() + AROUND;
        if ENVELOPE + bytes > limit {
            item.fail(Error::TooLarge {
                rpc: RPC,
                bytes: ENVELOPE + bytes,
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

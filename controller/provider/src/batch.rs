//! `BatchGetInstances`: each Node waits for the next call of its purpose, which is no larger than the provider accepts.
//!
//! ```text
//!  ask ─► waiting, for 25 to 250 ms ─► admission ─► send ─► one result for each
//!   ▲                                                             │
//!   └─────────────────────── Asked::answer ◄──────────────────────┘
//! ```

use std::{future, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Error, LookupPurpose, Session, Shared,
    admission::Permit,
    lookup::{LookupAnswer, METHOD, NodeLookup, RPC},
    preconditions::Preconditions,
};

mod results;
mod send;

pub use results::BatchAnswer;
#[cfg(test)]
pub(super) use results::{one_each, speaks_for_all};
use send::send_batch;

/// Nodes in a call before a provider has declared how many it accepts.
const BATCH: usize = 100;

/// A call is due when no Node has joined it for this long: the time in which one event makes many workers
/// ask, and far below a cloud call.
const IDLE: Duration = Duration::from_millis(25);
/// A call is due this long after its first Node, whatever joins.
const LONGEST: Duration = Duration::from_millis(250);

/// A lookup, and where its answer goes.
pub(super) struct Asked {
    lookup: NodeLookup,
    preconditions: Preconditions,
    caller: oneshot::Sender<LookupAnswer>,
}

impl Asked {
    /// Returns true if its caller still waits.
    fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    /// Returns true if both may be in one call: it is of one lease term, and has one result for each name.
    fn may_join(&self, other: &Self) -> bool {
        self.preconditions.fence() == other.preconditions.fence()
            && self.lookup.node.name != other.lookup.node.name
    }

    /// Answers its caller, if it still waits.
    fn answer(self, answer: impl Into<LookupAnswer>) {
        let _ = self.caller.send(answer.into());
    }

    fn fail(self, error: &Error) {
        self.answer(Err(error.clone()));
    }
}

fn fail_all(items: Vec<Asked>, error: &Error) {
    for item in items {
        item.fail(error);
    }
}

/// Where lookups are sent to, by their purpose. Callers are bounded by the keys that their loop has in flight.
#[derive(Clone)]
pub(super) struct Lookups([mpsc::UnboundedSender<Asked>; 3]);

impl Lookups {
    /// The way to the batchers, and the future that is their work. It ends when cancelled; callers that still wait then get
    /// an error.
    pub(super) fn new(
        shared: &Arc<Shared>,
        cancel: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let batchers = [(); 3].map(|()| {
            let (lookups, arriving) = mpsc::unbounded_channel();
            let batcher = Batcher {
                shared: Arc::clone(shared),
                arriving,
                waiting: Vec::new(),
            };
            (lookups, batcher)
        });
        let [(initial, one), (lifecycle, two), (refresh, three)] = batchers;
        let run = async move {
            let batchers = async { tokio::join!(one.run(), two.run(), three.run()) };
            cancel.run_until_cancelled(batchers).await;
        };
        (Self([initial, lifecycle, refresh]), run)
    }

    /// Hands the lookup to its batcher, and waits for its answer. The stop withdraws the lookup, which changes nothing in
    /// the cloud, and so does dropping the future.
    pub(super) async fn ask(
        &self,
        lookup: NodeLookup,
        preconditions: Preconditions,
    ) -> LookupAnswer {
        let [initial, lifecycle, refresh] = &self.0;
        let batcher = match lookup.purpose {
            LookupPurpose::Initialization => initial,
            LookupPurpose::Lifecycle => lifecycle,
            LookupPurpose::Refresh { .. } => refresh,
        };
        let (caller, answered) = oneshot::channel();
        // A batcher that has ended drops it.
        let _ = batcher.send(Asked {
            lookup,
            preconditions: preconditions.clone(),
            caller,
        });
        match preconditions.wait(RPC, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_dropped)) => {
                let reason = "the controller is ending".into();
                Err(Error::Unavailable { reason }).into()
            }
            Err(stopped) => Err(stopped).into(),
        }
    }
}

/// Makes the calls of one purpose.
struct Batcher {
    shared: Arc<Shared>,
    arriving: mpsc::UnboundedReceiver<Asked>,
    /// Lookups that have not gone out, oldest first.
    waiting: Vec<Asked>,
}

impl Batcher {
    async fn run(mut self) {
        let mut calls = JoinSet::new();
        loop {
            self.gather().await;
            let admitted = self.shared.admit(METHOD).await;
            // All that wait by now may join.
            while let Ok(lookup) = self.arriving.try_recv() {
                self.waiting.push(lookup);
            }
            self.waiting.retain(Asked::is_wanted);
            match admitted {
                Ok((permit, session)) => self.send((permit, session), &mut calls),
                Err(error) => fail_all(self.waiting.drain(..).collect(), &error),
            }
            while calls.try_join_next().is_some() {}
        }
    }

    /// Waits until a call is due.
    async fn gather(&mut self) {
        if self.waiting.is_empty() {
            self.arrived().await;
        }
        let begin = Instant::now();
        while self.waiting.len() < self.most() {
            let due = (Instant::now() + IDLE).min(begin + LONGEST);
            if timeout_at(due, self.arrived()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for lookups.
    async fn arrived(&mut self) {
        if self.arriving.recv_many(&mut self.waiting, BATCH).await == 0 {
            // The handle is gone, and no caller is left.
            future::pending::<()>().await;
        }
    }

    /// Nodes in one call.
    fn most(&self) -> usize {
        let session = self.shared.session.borrow();
        let offered = session
            .as_ref()
            .and_then(|session| session.instances.as_ref());
        offered.map_or(BATCH, |offered| offered.max_batch_size)
    }

    /// Sends a call about the first of those that wait and may share one.
    fn send(&mut self, admitted: (Permit, Arc<Session>), calls: &mut JoinSet<()>) {
        let most = self.most();
        let mut batch: Vec<Asked> = Vec::new();
        for item in std::mem::take(&mut self.waiting) {
            if batch.len() < most && batch.iter().all(|other| item.may_join(other)) {
                batch.push(item);
            } else {
                self.waiting.push(item);
            }
        }
        if admitted.1.instances.is_none() {
            fail_all(batch, &Error::NotOffered { rpc: RPC });
        } else if !batch.is_empty() {
            calls.spawn(send_batch(Arc::clone(&self.shared), admitted, batch));
        }
    }
}

//! Questions about single objects that leave together, as few calls of full batches.

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{
    FutureExt,
    future::{BoxFuture, OptionFuture},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    Error, Session, Shared,
    admission::{Permit, Urgency},
    ending,
    leave::Leave,
};

mod batch;

use batch::Batches;
pub(super) use batch::{Ask, Batch};

/// Questions that may wait to be looked at; whoever asks more waits for room.
pub(super) const QUESTIONS: usize = 1024;

/// A subject of a question: one call can have many of them.
pub(super) trait Subject: Sized + Send + 'static {
    /// The properties that all subjects of one call share.
    type Group: Clone + PartialEq + Send;
    /// The key that no two subjects of one call share.
    type Key: Clone + Eq + Hash + Send;
    /// The answer, in one copy for each caller.
    type Answer: Clone + Send;
    /// Name of the call.
    const RPC: &'static str;

    /// See [`Subject::Key`].
    fn key(&self) -> Self::Key;
    /// Whether who asks about the one, in the same group and with the same key, may have the answer
    /// about the other.
    fn is_as_good_as(&self, other: &Self) -> bool;
    /// Of the calls that have to wait, the most urgent goes out first.
    fn urgency(group: &Self::Group) -> Urgency;
    /// The answer that needs no call.
    fn without_asking(&self, session: &Session) -> Option<Result<Self::Answer, Error>>;
    /// How many a call may hold. There may be no session yet.
    fn most(session: Option<&Session>) -> usize;
    /// Bytes of a request besides its subjects, generously.
    fn envelope(group: &Self::Group, session: &Session) -> usize;
    /// Bytes that it takes on the wire.
    fn bytes(&self, session: &Session) -> usize;
    /// Makes one call and hands out its results.
    fn call(
        shared: Arc<Shared>,
        session: Arc<Session>,
        permit: Permit,
        batch: Batch<Self>,
    ) -> impl Future<Output = ()> + Send;
}

/// One question, and where its answer goes.
pub(super) struct Question<S: Subject> {
    subject: S,
    group: S::Group,
    reply: Reply<S>,
    leave: Leave,
}

/// Where an answer goes.
pub(super) struct Reply<S: Subject> {
    to: oneshot::Sender<Result<S::Answer, Error>>,
    /// Whether the question has left with a call.
    has_left: Arc<AtomicBool>,
}

/// Asks, and waits for the answer. Dropping the future takes back this one question only. A question
/// that still waits is taken back when `leave` stops.
pub(super) async fn ask<S: Subject>(
    questions: &mpsc::Sender<Question<S>>,
    subject: S,
    group: S::Group,
    leave: &Leave,
) -> Result<S::Answer, Error> {
    let (to, answer) = oneshot::channel();
    let has_left = Arc::new(AtomicBool::new(false));
    let question = Question {
        subject,
        group,
        reply: Reply {
            to,
            has_left: Arc::clone(&has_left),
        },
        leave: leave.clone(),
    };
    if leave.wait(S::RPC, questions.send(question)).await?.is_err() {
        return Err(ending());
    }
    let answer = async { answer.await.unwrap_or_else(|_dropped| Err(ending())) };
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        () = leave.stopped() => {
            if has_left.load(Ordering::Acquire) {
                answer.await
            } else {
                Err(Error::Fenced { rpc: S::RPC })
            }
        }
    }
}

/// A call that waits for its permit.
type Admitted = Result<(Permit, Arc<Session>), Error>;

/// Gathers questions and sends them.
pub(super) struct Coalescer<S: Subject> {
    shared: Arc<Shared>,
    questions: mpsc::Receiver<Question<S>>,
    batches: Batches<S>,
    calls: JoinSet<()>,
}

impl<S: Subject> Coalescer<S> {
    pub(super) fn new(shared: Arc<Shared>, questions: mpsc::Receiver<Question<S>>) -> Self {
        Self {
            shared,
            questions,
            batches: Batches::default(),
            calls: JoinSet::new(),
        }
    }

    /// Works until cancelled. Callers that still wait then get the error that there is no provider.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        // A batch is joined for as long as it waits: the permit is for the most urgent one then.
        let mut urgency: Option<Urgency> = None;
        let mut admission = OptionFuture::default();
        loop {
            let now = Instant::now();
            let most_urgent = self.batches.most_urgent(now);
            if most_urgent != urgency {
                urgency = most_urgent;
                admission = urgency.map(|urgency| self.admit(urgency)).into();
            }
            let next = self.batches.next_due(now);
            tokio::select! {
                Some(question) = self.questions.recv() => self.join(question),
                Some(admitted) = &mut admission => {
                    (urgency, admission) = (None, OptionFuture::default());
                    self.send(admitted, now);
                }
                () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
                Some(ended) = self.calls.join_next() => {
                    if let Err(error) = ended {
                        // The callers see their reply dropped, which is an error.
                        error!(rpc = S::RPC, %error, "batch panicked");
                    }
                }
                else => return,
            }
        }
    }

    fn admit(&self, urgency: Urgency) -> BoxFuture<'static, Admitted> {
        let shared = Arc::clone(&self.shared);
        async move { shared.admit(urgency).await }.boxed()
    }

    fn join(&mut self, question: Question<S>) {
        let session = self.shared.session.borrow().clone();
        let session = session.as_deref();
        let known = session.and_then(|session| question.subject.without_asking(session));
        if let Some(answer) = known {
            let _ = question.reply.to.send(answer);
            return;
        }
        self.batches
            .join(question, Instant::now(), S::most(session));
    }

    /// Sends the most urgent of the batches that were due at `now`.
    fn send(&mut self, admitted: Admitted, now: Instant) {
        let Some(batch) = self.batches.take_due(now) else {
            return;
        };
        let (permit, session) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return batch.fail(&error),
        };
        let (batch, rest) = batch.fit(&session);
        if let Some(rest) = rest {
            self.batches.put_back(rest);
        }
        if !batch.asks.is_empty() {
            batch.leaves();
            self.calls
                .spawn(S::call(Arc::clone(&self.shared), session, permit, batch));
        }
    }
}

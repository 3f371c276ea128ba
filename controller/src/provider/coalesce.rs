//! Questions about single objects that leave together, as few calls of full batches.

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    Error, Session, Shared, ending,
    leave::Leave,
    pause::{Claim, Held, Permit, Place, Wait},
};

mod batch;
mod fit;

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
    /// The least of it leaves first, where calls have to wait.
    type Urgency: Ord;
    /// Name of the call.
    const RPC: &'static str;

    /// See [`Subject::Key`].
    fn key(&self) -> Self::Key;
    /// Whether who asks about the one, in the same group and with the same key, may have the answer
    /// about the other.
    fn is_as_good_as(&self, other: &Self) -> bool;
    /// See [`Subject::Urgency`].
    fn urgency(group: &Self::Group) -> Self::Urgency;
    /// The claim of the call at the gate.
    fn claim(group: &Self::Group) -> Claim;
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

/// Gathers questions and sends them.
pub(super) struct Coalescer<S: Subject> {
    shared: Arc<Shared>,
    questions: mpsc::Receiver<Question<S>>,
    batches: Batches<S>,
    /// Of the batch that waits at the gate.
    place: Option<Place>,
    calls: JoinSet<()>,
}

impl<S: Subject> Coalescer<S> {
    pub(super) fn new(shared: Arc<Shared>, questions: mpsc::Receiver<Question<S>>) -> Self {
        Self {
            shared,
            questions,
            batches: Batches::default(),
            place: None,
            calls: JoinSet::new(),
        }
    }

    /// Works until cancelled. Callers that still wait then get the error that there is no provider.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        let mut gate = self.shared.gate.changes();
        let mut sessions = self.shared.session.subscribe();
        loop {
            let held = self.send_due();
            let due = self.batches.next_due();
            tokio::select! {
                Some(question) = self.questions.recv() => self.join(question),
                // A batch that already waits at the gate needs no new wake-up.
                () = async { sleep_until(due.unwrap_or_else(Instant::now)).await },
                    if due.is_some() && held.is_none() => {}
                () = async { held.unwrap_or(Wait::ForOthers).over(&mut gate).await },
                    if held.is_some() => {}
                // Without a session nothing waits, not even at the gate.
                Ok(()) = sessions.changed() => {}
                Some(ended) = self.calls.join_next() => {
                    if let Err(panic) = ended {
                        // Those who asked see their reply dropped, which is an error.
                        error!(rpc = S::RPC, "a batch ended in a bug: {panic}");
                    }
                }
            }
        }
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

    /// Sends what is due. Returns what the rest has to wait for, if there is a rest.
    fn send_due(&mut self) -> Option<Wait> {
        while let Some(batch) = self.batches.take_due(Instant::now()) {
            let session = match self.shared.session() {
                Ok(session) => session,
                Err(error) => {
                    batch.fail(&error);
                    continue;
                }
            };
            let permit = match self.shared.gate.try_enter(S::claim(&batch.group)) {
                Ok(permit) => permit,
                Err(Held { wait, place }) => {
                    self.batches.put_back(batch);
                    self.place = place;
                    return Some(wait);
                }
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
        self.place = None;
        None
    }
}

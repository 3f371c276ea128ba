//! Questions about single nodes that leave together, as few calls of full batches.

use std::sync::Arc;

use outrigger_core::{instance::Lookup, node::NodeView};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    Class, Error, Purpose, Shared,
    call::{BatchGetInstances, Link, Unary},
    pause::{Permit, Wait},
};

mod answer;
mod batch;
mod request;

pub(super) use answer::read_instance;
use batch::{Batch, Batches};
pub(super) use request::wire_view;

/// Nodes in a batch before a provider has said how many it takes.
const BATCH: usize = 100;

/// One question, and where its answer goes.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) node: Arc<NodeView>,
    pub(super) purpose: Purpose,
    pub(super) reply: Reply,
}

pub(super) type Reply = oneshot::Sender<Result<Lookup, Error>>;

/// Gathers questions and sends them.
pub(super) struct Coalescer {
    shared: Arc<Shared>,
    questions: mpsc::Receiver<Question>,
    batches: Batches,
    calls: JoinSet<()>,
}

impl Coalescer {
    pub(super) fn new(shared: Arc<Shared>, questions: mpsc::Receiver<Question>) -> Self {
        Self {
            shared,
            questions,
            batches: Batches::default(),
            calls: JoinSet::new(),
        }
    }

    /// Works until cancelled. Whoever still waits then is told that there is no provider.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        let mut gate = self.shared.gate.changes();
        let mut links = self.shared.link.subscribe();
        loop {
            let held = self.send_due();
            let due = self.batches.next_due();
            tokio::select! {
                Some(question) = self.questions.recv() => self.join(question),
                // Of what waits at the gate already, nobody has to be told that it is due.
                () = async { sleep_until(due.unwrap_or_else(Instant::now)).await },
                    if due.is_some() && held.is_none() => {}
                () = async { held.unwrap_or(Wait::ForOthers).over(&mut gate).await },
                    if held.is_some() => {}
                // Without a session nothing waits, not even at the gate.
                Ok(()) = links.changed() => {}
                Some(ended) = self.calls.join_next() => {
                    if let Err(panic) = ended {
                        // Those who asked see their reply dropped, which is an error.
                        error!("a batch of lookups ended in a bug: {panic}");
                    }
                }
            }
        }
    }

    fn join(&mut self, question: Question) {
        let link = self.shared.link.borrow().clone();
        let offered = link.as_ref().map(|link| link.session.instances.as_ref());
        match offered {
            Some(None) => {
                let rpc = BatchGetInstances::NAME;
                let _ = question.reply.send(Err(Error::NotServed { rpc }));
                return;
            }
            Some(Some(instances)) => {
                if let Some(answer) = answer::without_asking(&question.node, instances) {
                    let _ = question.reply.send(Ok(answer));
                    return;
                }
            }
            None => {}
        }
        let size = offered
            .flatten()
            .map_or(BATCH, |instances| instances.max_batch_size);
        self.batches.join(question, Instant::now(), size);
    }

    /// Sends what is due. Returns what the rest has to wait for, if there is a rest.
    fn send_due(&mut self) -> Option<Wait> {
        while let Some(batch) = self.batches.take_due(Instant::now()) {
            let link = match self.shared.link() {
                Ok(link) => link,
                Err(error) => {
                    batch.fail(&error);
                    continue;
                }
            };
            let permit = match self.shared.gate.try_enter(Class::Instances) {
                Ok(permit) => permit,
                Err(wait) => {
                    self.batches.put_back(batch);
                    return Some(wait);
                }
            };
            let (batch, rest) = request::fit(batch, &link.session);
            if let Some(rest) = rest {
                self.batches.put_back(rest);
            }
            if !batch.asks.is_empty() {
                self.calls
                    .spawn(ask(Arc::clone(&self.shared), link, permit, batch));
            }
        }
        None
    }
}

/// Makes one call and hands out its results.
async fn ask(shared: Arc<Shared>, link: Arc<Link>, permit: Permit, batch: Batch) {
    shared.metrics.batched(batch.purpose, batch.asks.len());
    let since = jiff::Timestamp::now();
    let call = shared.call::<BatchGetInstances>(&permit, Arc::clone(&link), |session, context| {
        request::message(&batch, session, context)
    });
    let answer = match call.await {
        Ok(answer) => answer,
        Err(error) => {
            batch.fail(&error);
            return;
        }
    };
    let asked = answer::Asked {
        purpose: batch.purpose,
        fresh_since: batch.purpose.max_staleness().is_zero().then_some(since),
        until: jiff::Timestamp::now(),
    };
    // The session of the answer may be newer, but only by what a process behind one name changes.
    let nodes = batch.asks.iter().map(|ask| &*ask.node);
    let read = answer::read(answer, nodes, asked, link.session.instances.as_ref());
    shared.metrics.strays(read.strays);
    if let Some(error) = read.speaks_for_all() {
        permit.failed(error);
    }
    for (ask, result) in batch.asks.into_iter().zip(read.results) {
        ask.answer(&result);
    }
}

//! A lookup that waits for its call, its callers, and their wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{Error, NodeLookup, RPC};
use crate::{lookup::LookupAnswer, preconditions::Preconditions};
use outrigger_runtime::fence::Fence;

/// A lookup, and all callers that it answers to.
pub(crate) struct Asked {
    pub(super) lookup: NodeLookup,
    pub(super) preconditions: Preconditions,
    pub(super) since: Instant,
    callers: Vec<Caller>,
}

struct Caller {
    answer: oneshot::Sender<LookupAnswer>,
    /// True once the request with its Node was sent or is about to be: a stop no longer withdraws it.
    is_sent: Arc<AtomicBool>,
}

impl Asked {
    /// The lookup with one caller, and where its answer comes.
    fn new(
        lookup: NodeLookup,
        preconditions: Preconditions,
    ) -> (Self, oneshot::Receiver<LookupAnswer>) {
        let (answer, answered) = oneshot::channel();
        let caller = Caller {
            answer,
            is_sent: Arc::default(),
        };
        let item = Self {
            lookup,
            preconditions,
            since: Instant::now(),
            callers: vec![caller],
        };
        (item, answered)
    }

    /// Returns true if no caller waits for it any more.
    pub(super) fn is_abandoned(&mut self) -> bool {
        self.callers.retain(|caller| !caller.answer.is_closed());
        self.callers.is_empty()
    }

    /// Ready once no caller waits for it any more.
    pub(super) fn poll_abandoned(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut callers = self.callers.iter_mut();
        if callers.all(|caller| caller.answer.poll_closed(cx).is_ready()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Checks the preconditions right before its request is sent. If they fail, its callers receive the error.
    pub(super) fn begin(mut self) -> Option<Self> {
        if self.is_abandoned() {
            return None;
        }
        if !self.preconditions.is_wanted() {
            self.fail(Error::Outdated { rpc: RPC });
            return None;
        }
        self.mark_sent(true);
        Some(self)
    }

    /// Not: it waits for another call.
    pub(super) fn mark_sent(&self, is_sent: bool) {
        for caller in &self.callers {
            caller.is_sent.store(is_sent, Ordering::Release);
        }
    }

    /// The answer to `other` is for its callers too.
    pub(super) fn share(&mut self, other: Self) {
        self.lookup = other.lookup;
        self.preconditions = other.preconditions;
        self.callers.extend(other.callers);
    }

    /// Answers all callers that still wait.
    pub(super) fn answer(self, answer: &LookupAnswer) {
        for caller in self.callers {
            let _ = caller.answer.send(answer.clone());
        }
    }

    /// Its lease term: a call is of one.
    pub(super) fn term(&self) -> Option<&Fence> {
        self.preconditions.fence()
    }

    /// Ends its wait without an answer.
    pub(super) fn fail(self, error: Error) {
        self.answer(&Err(error).into());
    }
}

/// Hands the lookup to the batcher, and waits for its answer.
///
/// The stop withdraws the lookup, and so does dropping the future, unless its request was sent.
pub(crate) async fn ask(
    lookups: &mpsc::UnboundedSender<Asked>,
    lookup: NodeLookup,
    preconditions: Preconditions,
) -> LookupAnswer {
    let (item, answered) = Asked::new(lookup, preconditions.clone());
    let is_sent: Vec<_> = item
        .callers
        .iter()
        .map(|caller| Arc::clone(&caller.is_sent))
        .collect();
    let is_sent = || is_sent.iter().all(|sent| sent.load(Ordering::Acquire));
    // A batcher that has ended drops it.
    let _ = lookups.send(item);
    let answered = async {
        answered.await.unwrap_or_else(|_dropped| {
            // The request may have reached the provider.
            let error = if is_sent() {
                Error::Cancelled { rpc: RPC }
            } else {
                Error::Unavailable {
                    reason: "the controller is ending".into(),
                }
            };
            Err(error).into()
        })
    };
    tokio::pin!(answered);
    tokio::select! {
        biased;
        answer = &mut answered => answer,
        () = preconditions.stopped() => {
            if is_sent() {
                answered.await
            } else {
                Err(Error::Fenced { rpc: RPC }).into()
            }
        }
    }
}

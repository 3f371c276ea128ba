//! A lookup that waits for its call, and the wait of its caller.

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

/// A lookup, and where its answer goes.
pub(crate) struct Asked {
    pub(super) lookup: NodeLookup,
    pub(super) preconditions: Preconditions,
    pub(super) since: Instant,
    caller: oneshot::Sender<LookupAnswer>,
    /// True once the request with its Node was sent or is about to be: a stop no longer withdraws it.
    is_sent: Arc<AtomicBool>,
}

impl Asked {
    /// Returns true if its caller waits no longer.
    pub(super) fn is_abandoned(&self) -> bool {
        self.caller.is_closed()
    }

    /// Ready once its caller waits no longer.
    pub(super) fn poll_abandoned(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.caller.poll_closed(cx)
    }

    /// Checks the preconditions right before its request is sent. If they fail, its caller receives the error.
    pub(super) fn begin(self) -> Option<Self> {
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

    /// `is_sent` is false while it waits for another call.
    pub(super) fn mark_sent(&self, is_sent: bool) {
        self.is_sent.store(is_sent, Ordering::Release);
    }

    /// Answers its caller, if it still waits.
    pub(super) fn answer(self, answer: LookupAnswer) {
        let _ = self.caller.send(answer);
    }

    /// Its lease term: a call is of one.
    pub(super) fn term(&self) -> Option<&Fence> {
        self.preconditions.fence()
    }

    /// Ends its wait without an answer.
    pub(super) fn fail(self, error: Error) {
        self.answer(Err(error).into());
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
    let (caller, answered) = oneshot::channel();
    let is_sent = Arc::<AtomicBool>::default();
    let item = Asked {
        lookup,
        preconditions: preconditions.clone(),
        since: Instant::now(),
        caller,
        is_sent: Arc::clone(&is_sent),
    };
    let is_sent = || is_sent.load(Ordering::Acquire);
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

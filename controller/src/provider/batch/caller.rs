//! The caller of an object in a batch, and its wait.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{mpsc, oneshot};

use crate::provider::{Error, preconditions::Preconditions};

/// The caller that an object in a batch answers to.
pub(in crate::provider) struct BatchCaller<A> {
    answer: oneshot::Sender<A>,
    /// Whether the object went out with a call.
    is_sent: Arc<AtomicBool>,
}

impl<A> BatchCaller<A> {
    /// Whether it has withdrawn its object.
    pub(in crate::provider) fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }

    /// Waits until it has.
    pub(in crate::provider) async fn gone(&mut self) {
        self.answer.closed().await;
    }

    /// The request with its object is about to be sent: the stop withdraws it no more.
    pub(in crate::provider) fn mark_sent(&self) {
        self.is_sent.store(true, Ordering::Release);
    }

    /// Its object waits for another call: the stop withdraws it again.
    pub(in crate::provider) fn mark_waiting(&self) {
        self.is_sent.store(false, Ordering::Release);
    }

    /// One that is gone needs no answer.
    pub(in crate::provider) fn answer(self, answer: A) {
        let _ = self.answer.send(answer);
    }
}

/// Hands the object that `item` makes to its batcher, and waits for its answer. `failed` makes an answer of
/// an error of `rpc`.
///
/// The stop withdraws the object, and so does dropping the future, unless its request was sent.
pub(in crate::provider) async fn ask<T, A>(
    items: &mpsc::UnboundedSender<T>,
    item: impl FnOnce(BatchCaller<A>) -> T,
    preconditions: &Preconditions,
    rpc: &'static str,
    failed: impl Fn(Error) -> A,
) -> A {
    let (answer, answered) = oneshot::channel();
    let is_sent = Arc::new(AtomicBool::new(false));
    let caller = BatchCaller {
        answer,
        is_sent: Arc::clone(&is_sent),
    };
    let is_sent = || is_sent.load(Ordering::Acquire);
    // A batcher that has ended drops it.
    let _ = items.send(item(caller));
    let answered = async {
        answered.await.unwrap_or_else(|_dropped| {
            // The request may have reached the provider.
            failed(if is_sent() {
                Error::Cancelled { rpc }
            } else {
                Error::Unavailable {
                    reason: "the controller is ending".into(),
                }
            })
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
                failed(Error::Fenced { rpc })
            }
        }
    }
}

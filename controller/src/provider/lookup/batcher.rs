//! Gathers lookups into batches, and sends them.

use std::sync::Arc;

use futures::{FutureExt, future::OptionFuture};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    RPC,
    batches::{Batches, PendingLookup},
    max_batch_size, send_batch, without_call,
};
use crate::provider::{Error, Session, Shared, admission::Permit};

/// Lookups go out in few calls of full batches.
pub(in crate::provider) struct LookupBatcher {
    shared: Arc<Shared>,
    lookups: mpsc::Receiver<PendingLookup>,
    batches: Batches,
    calls: JoinSet<()>,
}

impl LookupBatcher {
    pub(in crate::provider) fn new(
        shared: Arc<Shared>,
        lookups: mpsc::Receiver<PendingLookup>,
    ) -> Self {
        Self {
            shared,
            lookups,
            batches: Batches::default(),
            calls: JoinSet::new(),
        }
    }

    /// Works until cancelled. Callers that still wait then get the error that there is no provider.
    pub(in crate::provider) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        // Batches are joined for as long as they wait: the permit is for the most urgent one then.
        let mut urgency = None;
        let mut admission = OptionFuture::default();
        loop {
            let now = Instant::now();
            let most_urgent = self.batches.most_urgent(now);
            if most_urgent != urgency {
                urgency = most_urgent;
                let shared = Arc::clone(&self.shared);
                let admit = |urgency| async move { shared.admit(urgency).await }.boxed();
                admission = urgency.map(admit).into();
            }
            let next = self.batches.next_due(now);
            tokio::select! {
                Some(lookup) = self.lookups.recv() => self.join(lookup),
                Some(admitted) = &mut admission => {
                    (urgency, admission) = (None, OptionFuture::default());
                    self.send(admitted, now);
                }
                () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
                Some(ended) = self.calls.join_next() => {
                    if let Err(error) = ended {
                        // The callers see that their result is dropped, which is an error.
                        error!(rpc = RPC, %error, "batch panicked");
                    }
                }
                else => return,
            }
        }
    }

    fn join(&mut self, lookup: PendingLookup) {
        let session = self.shared.session.borrow().clone();
        let session = session.as_deref();
        if let Some(known) = session.and_then(|session| without_call(&lookup.node, session)) {
            let _ = lookup.caller.answer.send(known.into());
            return;
        }
        self.batches
            .join(lookup, Instant::now(), max_batch_size(session));
    }

    /// Sends the most urgent of the batches that were due at `now`.
    fn send(&mut self, admitted: Result<(Permit, Arc<Session>), Error>, now: Instant) {
        let (permit, session) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return self.batches.fail_due(now, &error),
        };
        let most = max_batch_size(Some(&session));
        if let Some((purpose, items)) = self.batches.take_due(now, &session, most)
            && !items.is_empty()
        {
            for item in &items {
                item.mark_sent();
            }
            let shared = Arc::clone(&self.shared);
            self.calls
                .spawn(send_batch(shared, (permit, session), purpose, items));
        }
    }
}

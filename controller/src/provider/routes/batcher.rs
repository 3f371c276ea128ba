//! Gathers changes of routes into batches, and sends them.

use std::sync::Arc;

use futures::{
    FutureExt,
    future::{BoxFuture, OptionFuture},
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    calls::send_batch,
    pending::{PendingRoute, WaitingRoutes},
};
use crate::provider::{
    Error, Session, Shared,
    admission::{Permit, Urgency},
};

/// The permit of a call, and the session to make it on.
type Admitted = Result<(Permit, Arc<Session>), Error>;

/// Changes share a call with those that wait for admission at the same time: one goes out at once, and of
/// many each call after the first ones is full.
pub(in crate::provider) struct RouteBatcher {
    shared: Arc<Shared>,
    changes: mpsc::UnboundedReceiver<PendingRoute>,
    waiting: WaitingRoutes,
    calls: JoinSet<()>,
}

impl RouteBatcher {
    pub(in crate::provider) fn new(
        shared: Arc<Shared>,
        changes: mpsc::UnboundedReceiver<PendingRoute>,
    ) -> Self {
        Self {
            shared,
            changes,
            waiting: WaitingRoutes::default(),
            calls: JoinSet::new(),
        }
    }

    /// Works until cancelled. Callers that still wait then get an error.
    pub(in crate::provider) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        let mut admission: Option<BoxFuture<'static, Admitted>> = None;
        loop {
            if admission.is_none() && !self.waiting.is_empty() {
                let shared = Arc::clone(&self.shared);
                let admit = async move { shared.admit(Urgency::Routes).await };
                admission = Some(admit.boxed());
            }
            tokio::select! {
                // All that wait already are in the batch.
                biased;
                Some(pending) = self.changes.recv() => self.waiting.join(pending),
                Some(admitted) = OptionFuture::from(admission.as_mut()) => {
                    admission = None;
                    self.send(admitted);
                }
                Some(ended) = self.calls.join_next() => {
                    if let Err(error) = ended {
                        // The callers see that their answer is dropped, which is an error.
                        error!(%error, "batch of routes panicked");
                    }
                }
                else => return,
            }
        }
    }

    fn send(&mut self, admitted: Admitted) {
        let (permit, session) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return self.waiting.fail(|_| error.clone()),
        };
        let Some(offered) = &session.routes else {
            return self.waiting.fail(|rpc| Error::NotOffered { rpc });
        };
        let batch = self.waiting.take(&session, offered.max_batch_size);
        if !batch.is_empty() {
            let shared = Arc::clone(&self.shared);
            self.calls.spawn(send_batch(shared, session, permit, batch));
        }
    }
}

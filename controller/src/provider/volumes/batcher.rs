//! Gathers lookups of volumes into batches, and sends them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, OptionFuture, join_all},
};
use outrigger_api::v1::{self, volumes_service_client::VolumesServiceClient};
use outrigger_core::volume::VolumeView;
use prost::Message;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{VolumeLookup, VolumePurpose, message, results};
use crate::provider::{
    Error, Session, Shared,
    admission::Permit,
    batch::{BatchItem, take_batch},
    call::{Unary, unary},
    preconditions::Preconditions,
};

unary!(BatchGetVolumes = VolumesServiceClient.batch_get_volumes(BatchGetVolumesRequest) -> BatchGetVolumesResponse {
    const DEADLINE: Duration = Duration::from_secs(30);
    const WITHOUT: &'static str = "no volume is labelled; each is tried again with back-off";
});

/// Bytes of a request besides its volumes, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one volume: a tag, a length and the key.
const AROUND: usize = 16;

/// The permit of a call, and the session to make it on.
type Admitted = Result<(Permit, Arc<Session>), Error>;

/// A lookup that waits for its call, and its caller.
pub(in crate::provider) struct PendingVolume {
    pub(super) volume: Arc<VolumeView>,
    pub(super) preconditions: Preconditions,
    pub(super) answer: oneshot::Sender<Result<VolumeLookup, Error>>,
}

impl PendingVolume {
    /// A caller that is gone needs no answer.
    fn answer(self, answer: Result<VolumeLookup, Error>) {
        let _ = self.answer.send(answer);
    }
}

impl BatchItem for PendingVolume {
    fn rpc(&self) -> &'static str {
        BatchGetVolumes::NAME
    }

    fn bytes(&self, _session: &Session) -> usize {
        message::volume(&self.volume, 0).encoded_len() + AROUND
    }

    fn fail(self, error: Error) {
        self.answer(Err(error));
    }
}

/// Lookups of one purpose share a call with those that wait for admission at the same time: one goes out
/// at once, and of many each call after the first ones is full.
pub(in crate::provider) struct VolumeBatcher {
    shared: Arc<Shared>,
    purpose: VolumePurpose,
    lookups: mpsc::UnboundedReceiver<PendingVolume>,
    waiting: VecDeque<PendingVolume>,
    calls: JoinSet<()>,
}

impl VolumeBatcher {
    pub(in crate::provider) fn new(
        shared: Arc<Shared>,
        (purpose, lookups): (VolumePurpose, mpsc::UnboundedReceiver<PendingVolume>),
    ) -> Self {
        Self {
            shared,
            purpose,
            lookups,
            waiting: VecDeque::new(),
            calls: JoinSet::new(),
        }
    }

    /// Works until cancelled. Callers that still wait then get an error.
    pub(in crate::provider) async fn run(mut self, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.serve()).await;
    }

    async fn serve(&mut self) {
        let mut arrived = Vec::new();
        let mut admission: Option<BoxFuture<'static, Admitted>> = None;
        loop {
            if admission.is_none() && !self.waiting.is_empty() {
                let (shared, urgency) = (Arc::clone(&self.shared), self.purpose.into());
                let admit = async move { shared.admit(urgency).await };
                admission = Some(admit.boxed());
            }
            tokio::select! {
                // All that wait already are in the batch.
                biased;
                1.. = self.lookups.recv_many(&mut arrived, usize::MAX) => {
                    self.waiting.extend(arrived.drain(..));
                }
                Some(admitted) = OptionFuture::from(admission.as_mut()) => {
                    admission = None;
                    self.send(admitted);
                }
                Some(ended) = self.calls.join_next() => {
                    if let Err(error) = ended {
                        // The callers see that their answer is dropped, which is an error.
                        error!(%error, "batch of volumes panicked");
                    }
                }
                else => return,
            }
        }
    }

    fn send(&mut self, admitted: Admitted) {
        self.waiting.retain(|pending| !pending.answer.is_closed());
        let failed = |error: Error| move |pending: PendingVolume| pending.fail(error.clone());
        let (permit, session) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return self.waiting.drain(..).for_each(failed(error)),
        };
        let Some(offered) = &session.volumes else {
            let rpc = BatchGetVolumes::NAME;
            return self
                .waiting
                .drain(..)
                .for_each(failed(Error::NotOffered { rpc }));
        };
        let most = offered.max_batch_size;
        let batch = take_batch(&mut self.waiting, &session, most, ENVELOPE);
        if !batch.is_empty() {
            let shared = Arc::clone(&self.shared);
            self.calls.spawn(send_batch(shared, session, permit, batch));
        }
    }
}

/// Makes one call, and sends each caller its answer.
async fn send_batch(
    shared: Arc<Shared>,
    session: Arc<Session>,
    permit: Permit,
    mut batch: Vec<PendingVolume>,
) {
    let Some(first) = batch.first() else { return };
    shared.metrics.volumes_batched(batch.len());
    // All lookups of one purpose are of one caller.
    let preconditions = first.preconditions.clone();
    let volumes = batch.iter().zip(0..);
    let volumes: Vec<_> = volumes
        .map(|(pending, key)| message::volume(&pending.volume, key))
        .collect();
    let request = |_: &Session, context| v1::BatchGetVolumesRequest {
        context: Some(context),
        volumes: volumes.clone(),
    };
    let ended = tokio::select! {
        ended = shared.call::<BatchGetVolumes>(&permit, &preconditions, &session, request) => ended,
        _ = join_all(batch.iter_mut().map(|pending| pending.answer.closed())) => return,
    };
    let response = match ended {
        Ok(response) => response,
        Err(error) => {
            return batch
                .into_iter()
                .for_each(|pending| pending.fail(error.clone()));
        }
    };
    let read = results::read(response.results, batch.len());
    shared.metrics.strays(read.strays);
    if let Some(error) = read.speaks_for_all() {
        permit.failed(error);
    }
    // The next batch may be admitted before the callers go on.
    drop(permit);
    for (pending, answer) in batch.into_iter().zip(read.answers) {
        pending.answer(answer);
    }
}

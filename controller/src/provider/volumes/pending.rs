//! Lookups of volumes that wait for their call, and the call.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::future::join_all;
use outrigger_api::v1::{self, volumes_service_client::VolumesServiceClient};
use outrigger_core::volume::VolumeView;
use prost::Message;
use tokio::time::Instant;

use super::{VolumeLookup, VolumePurpose, message, results};
use crate::{
    fence::Fence,
    provider::{
        Error, Session, Shared,
        admission::{Permit, Urgency},
        batch::{
            BatchCaller, BatchItem, Gathering, WaitingItems, fail_not_offered, speaks_for_all,
            take_batch,
        },
        call::{Unary, unary},
        preconditions::Preconditions,
    },
};

unary!(BatchGetVolumes = VolumesServiceClient.batch_get_volumes(BatchGetVolumesRequest) -> BatchGetVolumesResponse {
    const DEADLINE: Duration = Duration::from_secs(30);
    const WITHOUT: &'static str = "no volume is labelled; each is tried again with back-off";
});

/// A lookup that waits for its call, and its caller.
pub(in crate::provider) struct PendingVolume {
    pub(super) volume: Arc<VolumeView>,
    pub(super) preconditions: Preconditions,
    pub(super) caller: BatchCaller<Result<VolumeLookup, Error>>,
}

impl BatchItem for PendingVolume {
    fn rpc(&self) -> &'static str {
        BatchGetVolumes::NAME
    }

    fn bytes(&self, _session: &Session) -> usize {
        message::volume(&self.volume, 0).encoded_len()
    }

    fn term(&self) -> Option<&Fence> {
        self.preconditions.fence()
    }

    fn fail(self, error: Error) {
        self.caller.answer(Err(error));
    }
}

/// Lookups of one purpose that have not gone out, oldest first.
pub(in crate::provider) struct WaitingVolumes {
    purpose: VolumePurpose,
    lookups: VecDeque<PendingVolume>,
    /// Of those that wait; none where a request to the API server waits for each.
    gathering: Option<Gathering>,
}

impl WaitingVolumes {
    pub(in crate::provider) const fn of(purpose: VolumePurpose) -> Self {
        Self {
            purpose,
            lookups: VecDeque::new(),
            gathering: None,
        }
    }

    fn due(&self) -> Option<Instant> {
        self.gathering.map(Gathering::due)
    }
}

impl WaitingItems for WaitingVolumes {
    type Item = PendingVolume;
    type Batch = Vec<PendingVolume>;

    fn join(&mut self, pending: PendingVolume, _: &Shared) {
        let now = Instant::now();
        if self.lookups.is_empty() {
            let is_awaited = matches!(self.purpose, VolumePurpose::Admission);
            self.gathering = (!is_awaited).then(|| Gathering::new(now));
        }
        if let Some(gathering) = &mut self.gathering {
            gathering.joined(now);
        }
        self.lookups.push_back(pending);
    }

    fn urgency(&mut self, now: Instant) -> Option<Urgency> {
        let is_due = !self.lookups.is_empty() && self.due().is_none_or(|due| due <= now);
        is_due.then(|| self.purpose.into())
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.due().filter(|due| *due > now);
        due.filter(|_| !self.lookups.is_empty())
    }

    fn take(&mut self, _: Instant, session: &Session) -> Option<Vec<PendingVolume>> {
        let Some(offered) = &session.volumes else {
            fail_not_offered(self.lookups.drain(..));
            return None;
        };
        self.lookups.retain(|pending| !pending.caller.is_gone());
        let batch = take_batch(&mut self.lookups, session, offered.max_batch_size, 0);
        for pending in &batch {
            pending.caller.mark_sent();
        }
        (!batch.is_empty()).then_some(batch)
    }

    fn fail_due(&mut self, _: Instant, error: &Error) {
        for pending in self.lookups.drain(..) {
            pending.fail(error.clone());
        }
    }

    fn call(
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
        batch: Vec<PendingVolume>,
    ) -> impl Future<Output = ()> + Send + 'static {
        send_batch(shared, admitted, batch)
    }
}

/// Makes one call, and sends each caller its answer.
async fn send_batch(
    shared: Arc<Shared>,
    (permit, session): (Permit, Arc<Session>),
    mut batch: Vec<PendingVolume>,
) {
    let Some(first) = batch.first() else { return };
    shared.metrics.volumes_batched(batch.len());
    // All are of one lease term.
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
        _ = join_all(batch.iter_mut().map(|pending| pending.caller.gone())) => return,
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
    let errors = read.answers.iter().map(|answer| answer.as_ref().err());
    if let Some(error) = speaks_for_all(errors) {
        permit.failed(error);
    }
    // The next batch may be admitted before the callers go on.
    drop(permit);
    for (pending, answer) in batch.into_iter().zip(read.answers) {
        pending.caller.answer(answer);
    }
}

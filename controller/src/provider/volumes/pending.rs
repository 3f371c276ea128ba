//! Lookups of volumes that wait for their call, and the call.

use std::{collections::VecDeque, sync::Arc};

use futures::future::join_all;
use outrigger_api::{Method, MethodRequest, v1};
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
            BatchCall, BatchCaller, BatchItem, EndedBatch, Gathering, RepeatedItem, Unanswered,
            WaitingItems, fail_not_offered, speaks_for_all, take_batch,
        },
        preconditions::Preconditions,
    },
};

pub(super) const METHOD: &Method = v1::BatchGetVolumesRequest::METHOD;

/// A lookup that waits for its call, and its caller.
pub(in crate::provider) struct PendingVolume {
    pub(super) volume: Arc<VolumeView>,
    pub(super) purpose: VolumePurpose,
    pub(super) preconditions: Preconditions,
    pub(super) caller: BatchCaller<Result<VolumeLookup, Error>>,
}

impl BatchItem for PendingVolume {
    fn rpc(&self) -> &'static str {
        METHOD.name
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

impl RepeatedItem for PendingVolume {
    fn name(&self) -> &Arc<str> {
        &self.volume.name
    }

    fn urgency(&self) -> Urgency {
        self.purpose.into()
    }

    fn is_abandoned(&mut self) -> bool {
        self.caller.is_gone()
    }

    fn mark_waiting(&self) {
        self.caller.mark_waiting();
    }
}

/// Lookups of one purpose that have not gone out, oldest first.
pub(in crate::provider) struct WaitingVolumes {
    purpose: VolumePurpose,
    lookups: VecDeque<PendingVolume>,
    unanswered: Unanswered<PendingVolume>,
    /// Of those that wait; none where a request to the API server waits for each.
    gathering: Option<Gathering>,
}

impl WaitingVolumes {
    pub(in crate::provider) fn of(purpose: VolumePurpose) -> Self {
        Self {
            purpose,
            lookups: VecDeque::new(),
            unanswered: Unanswered::default(),
            gathering: None,
        }
    }

    fn due(&self) -> Option<Instant> {
        self.gathering.map(Gathering::due)
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.lookups.is_empty() && self.due().is_none_or(|due| due <= now)
    }
}

impl WaitingItems for WaitingVolumes {
    type Item = PendingVolume;
    type Batch = BatchCall<PendingVolume>;
    type Ended = EndedBatch<PendingVolume>;

    fn join(&mut self, pending: PendingVolume, _: &Shared) {
        let Some(pending) = self.unanswered.admit(pending) else {
            return;
        };
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
        let alone = self.unanswered.urgency();
        let due = self.is_due(now).then(|| self.purpose.into());
        alone.or(due)
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.due().filter(|due| *due > now);
        due.filter(|_| !self.lookups.is_empty())
    }

    fn take(&mut self, _: Instant, session: &Session) -> Option<Self::Batch> {
        let Some(offered) = &session.volumes else {
            fail_not_offered(self.lookups.drain(..));
            let rpc = METHOD.name;
            self.unanswered.fail_all(&Error::NotOffered { rpc });
            return None;
        };
        let call = self.unanswered.take().unwrap_or_else(|| {
            self.lookups.retain(|pending| !pending.caller.is_gone());
            let most = self.unanswered.most(offered.max_batch_size);
            BatchCall::together(take_batch(&mut self.lookups, session, most, 0))
        });
        for pending in &call.items {
            pending.caller.mark_sent();
        }
        (!call.items.is_empty()).then_some(call)
    }

    fn fail_due(&mut self, _: Instant, error: &Error) {
        self.unanswered.fail_all(error);
        for pending in self.lookups.drain(..) {
            pending.fail(error.clone());
        }
    }

    fn call(
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
        call: Self::Batch,
    ) -> impl Future<Output = Self::Ended> + Send + 'static {
        let (batch, facts) = call.begin(METHOD.deadline);
        async move { facts.end(send_batch(shared, admitted, batch).await) }
    }

    fn ended(&mut self, ended: Self::Ended) {
        self.unanswered.ended(ended);
    }
}

/// Makes one call, and sends each caller its answer. Returns the lookups that were not answered until the
/// deadline.
async fn send_batch(
    shared: Arc<Shared>,
    (permit, session): (Permit, Arc<Session>),
    mut batch: Vec<PendingVolume>,
) -> Vec<(PendingVolume, Error)> {
    let Some(first) = batch.first() else {
        return Vec::new();
    };
    shared.metrics.volumes_batched(batch.len());
    // All are of one lease term.
    let preconditions = first.preconditions.clone();
    let volumes = batch.iter().zip(0..);
    let volumes: Vec<_> = volumes
        .map(|(pending, key)| message::volume(&pending.volume, key))
        .collect();
    let request = |_: &Session| v1::BatchGetVolumesRequest {
        context: None,
        items: volumes.clone(),
    };
    let began = Instant::now();
    let ended = tokio::select! {
        ended = shared.call(&permit, &preconditions, &session, request) => ended,
        _ = join_all(batch.iter_mut().map(|pending| pending.caller.gone())) => return Vec::new(),
    };
    let response = match ended {
        Ok(response) => response,
        Err(error) => {
            let failed = batch.into_iter().map(|pending| (pending, error.clone()));
            if error.is_no_answer() {
                return failed.collect();
            }
            failed.for_each(|(pending, error)| pending.fail(error));
            return Vec::new();
        }
    };
    let read = results::read(response.results, batch.len(), began.elapsed());
    shared.metrics.strays(read.strays);
    let errors = read.answers.iter().map(|answer| answer.as_ref().err());
    if let Some(error) = speaks_for_all(errors) {
        permit.failed(error);
    }
    // The next batch may be admitted before the callers go on.
    drop(permit);
    let mut unanswered = Vec::new();
    for (pending, answer) in batch.into_iter().zip(read.answers) {
        match answer {
            Err(error) if error.is_no_answer() => unanswered.push((pending, error)),
            answer => pending.caller.answer(answer),
        }
    }
    unanswered
}

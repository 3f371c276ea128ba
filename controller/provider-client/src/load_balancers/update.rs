//! New targets for many load balancers, in as few calls as the provider accepts.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use outrigger_api::{
    Method, MethodRequest,
    v1::{self, CallContext, load_balancer_result::Outcome},
};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{LoadBalancerAnswer, LoadBalancerCall},
        update_size::UpdateResults,
    },
    targets::Targets,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::{sync::oneshot, time::Instant};
use tonic::{Request, Status};
use tracing::warn;

use super::{EnsureInput, Slot, answer, ranges, service_of};
use crate::{
    BatchAnswer, Error, Provider, Session, Shared,
    batch::{AnsweredCall, Asked, BatchObject, read_outcome, take_batch},
    call::ProviderCall,
    details::Checked,
    node_sets::wire_targets,
    preconditions::Preconditions,
    rpc::{self, StreamEnd},
};

const METHOD: &Method = v1::UpdateLoadBalancerNodesRequest::METHOD;
const RPC: &str = METHOD.name;

/// A Service whose load balancer gets other targets.
pub struct TargetsUpdate(Asked<UpdatedService>);

pub(crate) struct UpdatedService(Arc<ServiceView>);

impl BatchObject for UpdatedService {
    type Request = v1::UpdateLoadBalancerNodesRequest;
    type Found = LoadBalancerAnswer;

    fn message(&self, session: &Session, _: usize) -> v1::Service {
        service_of(&self.0, session)
    }

    fn read(&self, outcome: Outcome, call: &AnsweredCall<'_>) -> Result<LoadBalancerAnswer, Error> {
        match outcome {
            Outcome::Found(said) => {
                answer::check(said, LoadBalancerCall::Update, &self.0, call.session)
            }
            Outcome::Error(status) => Err(Error::malformed(RPC, &status.message)),
        }
    }
}

impl TargetsUpdate {
    /// The update, and its result as soon as it is known, if it gets one. `is_current` is asked right before a request is
    /// sent: if not, the result is [`Error::Outdated`]. It must not block.
    pub fn new(
        service: Arc<ServiceView>,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> (Self, oneshot::Receiver<BatchAnswer<LoadBalancerAnswer>>) {
        let preconditions = Preconditions::default().only_while(is_current);
        let (item, answered) = Asked::new(UpdatedService(service), preconditions);
        (Self(item), answered)
    }

    /// Ends it without a call.
    pub fn fail(self, error: Error) {
        self.0.fail(error);
    }
}

impl Slot {
    pub(super) fn lacks_updates(&self) -> bool {
        self.session.lacks(RPC)
    }
}

/// [`LoadBalancers::update`].
pub(super) async fn update(
    provider: &Provider,
    slot: Slot,
    updates: Vec<TargetsUpdate>,
    targets: &Arc<Targets>,
) -> (Vec<TargetsUpdate>, Option<UpdateResults>) {
    let mut waiting = VecDeque::new();
    for TargetsUpdate(item) in updates {
        let offered = slot.session.offers::<v1::UpdateLoadBalancerNodesRequest>();
        match offered.and_then(|()| ranges(&item.object.0)) {
            Ok(_) => waiting.push_back(item),
            Err(error) => item.fail(error),
        }
    }
    let is_named = provider.shared.node_sets.names(targets, &slot.session);
    let beside = wire_targets(targets, &slot.session, is_named).encoded_len();
    let most = slot.services_per_update();
    let batch = take_batch(&mut waiting, &slot.session, most, beside);
    let results = if batch.is_empty() {
        None
    } else if slot.lacks_updates() {
        for item in batch {
            ensure_instead(provider, &slot, item, targets).await;
        }
        None
    } else {
        update_batch(provider, slot, batch, targets).await
    };
    let unsent = waiting.into_iter().map(TargetsUpdate).collect();
    (unsent, results)
}

async fn update_batch(
    provider: &Provider,
    slot: Slot,
    batch: Vec<Asked<UpdatedService>>,
    targets: &Arc<Targets>,
) -> Option<UpdateResults> {
    let Slot { permit, session } = slot;
    let permit = Arc::new(permit);
    let open = Arc::new(Mutex::new(OpenUpdates {
        waiting: batch,
        answered: HashSet::new(),
        strays: 0,
        began: Instant::now(),
        times: None,
        has_success: false,
        general: None,
    }));
    let begun = Arc::clone(&open);
    let preconditions = provider
        .preconditions
        .only_while(move || begun.lock().begin());
    let take: TakeResult = {
        let (open, permit) = (Arc::clone(&open), Arc::clone(&permit));
        let (shared, session) = (Arc::clone(&provider.shared), Arc::clone(&session));
        Arc::new(move |result| {
            let general = open.lock().take(result, &shared, &session);
            if let Some(error) = general {
                permit.failed(&error);
            }
        })
    };
    let request = |targets| UpdateCall {
        message: v1::UpdateLoadBalancerNodesRequest {
            context: None,
            // A Service that has its result is not in a request that is repeated.
            items: open.lock().services(&session),
            targets: Some(targets),
        },
        take: Arc::clone(&take),
    };
    let call = provider
        .shared
        .call_with_targets(&permit, &preconditions, targets, request);
    let ended = call.await;
    let mut open = open.lock();
    let waiting = mem::take(&mut open.waiting);
    provider.shared.metrics.strays(open.strays);
    let results = open.results(waiting.len());
    // A Service without a result may have been updated.
    let is_general = !open.has_success && waiting.is_empty();
    if let Some(error) = open.general.take().filter(|_| is_general) {
        permit.failed(&error);
    }
    drop((take, permit));
    let error = match ended {
        Ok(StreamEnd::Refused(())) => Error::malformed(RPC, "more results than Services"),
        Ok(StreamEnd::Complete | StreamEnd::Silent) | Err(Error::Timeout { .. })
            if results.requested > 1 && !waiting.is_empty() =>
        {
            warn!(
                services = results.requested,
                unanswered = waiting.len(),
                "the provider gave no result for some Services of an update of targets; they are \
                     asked about again in smaller updates"
            );
            return Some(results);
        }
        Ok(StreamEnd::Complete) => Error::malformed(RPC, "no result for the Service"),
        Ok(StreamEnd::Silent) => Error::Timeout {
            rpc: RPC,
            after: rpc::silence(METHOD),
        },
        // Not sent: from now on the session has no updates.
        Err(Error::NotServed { .. }) => Error::Outdated { rpc: RPC },
        Err(error) => error,
    };
    let is_complete = waiting.is_empty();
    for item in waiting {
        item.fail(error.clone());
    }
    is_complete.then_some(results)
}

async fn ensure_instead(
    provider: &Provider,
    slot: &Slot,
    item: Asked<UpdatedService>,
    targets: &Arc<Targets>,
) {
    let service = Arc::clone(&item.object.0);
    let input = EnsureInput {
        service: Arc::clone(&service),
        targets: Arc::clone(targets),
    };
    let preconditions = item.preconditions.clone();
    let provider = provider.only_while(move || preconditions.is_wanted());
    item.answer(&provider.load_balancers().ensure(slot, input).await.into());
}

/// Takes a result as soon as it is there.
type TakeResult = Arc<dyn Fn(v1::LoadBalancerResult) + Send + Sync>;

/// `UpdateLoadBalancerNodes`: one request, and results as they come.
struct UpdateCall {
    message: v1::UpdateLoadBalancerNodesRequest,
    take: TakeResult,
}

impl ProviderCall for UpdateCall {
    type Message = v1::UpdateLoadBalancerNodesRequest;
    /// Refused: more results than Services.
    type Reply = StreamEnd<()>;

    fn context_mut(&mut self) -> Option<&mut Option<CallContext>> {
        MethodRequest::context_mut(&mut self.message)
    }

    fn bytes(&self) -> usize {
        self.message.encoded_len()
    }

    fn deadline(&self) -> Duration {
        METHOD.deadline_of(self.message.items.len())
    }

    fn is_whole(ended: &StreamEnd<()>) -> bool {
        *ended == StreamEnd::Complete
    }

    async fn send(
        call: Request<Self>,
        channel: Checked,
        max_send: usize,
    ) -> Result<StreamEnd<()>, Status> {
        let (metadata, extensions, Self { message, take }) = call.into_parts();
        let mut room = 2 * message.items.len();
        let request = Request::from_parts(metadata, extensions, message);
        let read = |message: v1::UpdateLoadBalancerNodesResponse| {
            let count = message.results.len().max(1);
            message.results.into_iter().for_each(&*take);
            let is_over = count > room;
            room = room.saturating_sub(count);
            is_over.then_some(())
        };
        rpc::server_streaming(channel, max_send, request, read).await
    }
}

/// Services that a call is made for.
struct OpenUpdates {
    /// Services without a result.
    waiting: Vec<Asked<UpdatedService>>,
    /// UIDs of the Services with a result.
    answered: HashSet<String>,
    /// Results without a caller.
    strays: usize,
    began: Instant,
    /// From the call to the first and to the last result.
    times: Option<(Duration, Duration)>,
    /// True once a result was no error.
    has_success: bool,
    /// The first error that would speak for all, if no Service was spared it.
    general: Option<Error>,
}

impl OpenUpdates {
    /// Removes Services that have changed while the call waited. Returns true if any remain.
    fn begin(&mut self) -> bool {
        let waiting = mem::take(&mut self.waiting).into_iter();
        self.waiting = waiting.filter_map(Asked::begin).collect();
        !self.waiting.is_empty()
    }

    /// Messages of the Services that have no answer yet.
    fn services(&self, session: &Session) -> Vec<v1::Service> {
        let waiting = self.waiting.iter().zip(0..);
        waiting
            .map(|(item, place)| item.object.message(session, place))
            .collect()
    }

    /// Hands a result out. Returns an error that speaks for all.
    fn take(
        &mut self,
        mut result: v1::LoadBalancerResult,
        shared: &Shared,
        session: &Session,
    ) -> Option<Error> {
        let uid = mem::take(&mut result.key);
        let mut waiting = self.waiting.iter();
        let Some(at) = waiting.position(|item| *item.object.0.uid == *uid) else {
            self.strays += 1;
            if self.answered.contains(&uid) {
                // The caller has the first of them.
                warn!(
                    uid,
                    "Service answered twice by the provider in one update of targets"
                );
            }
            return None;
        };
        let item = self.waiting.remove(at);
        self.answered.insert(uid);
        let took = self.began.elapsed();
        let (first, _) = self.times.unwrap_or((took, took));
        self.times = Some((first, took));
        let call = AnsweredCall {
            shared,
            session,
            took: Duration::ZERO,
        };
        let read = read_outcome(METHOD, &mut result, call.took);
        let result = read.and_then(|outcome| item.object.read(outcome, &call));
        let error = result.as_ref().err().cloned();
        item.answer(&result.into());
        let Some(error) = error else {
            self.has_success = true;
            return None;
        };
        if error.speaks_for_all(false) {
            return Some(error);
        }
        if error.speaks_for_all(true) {
            self.general.get_or_insert(error);
        }
        None
    }

    fn results(&self, unanswered: usize) -> UpdateResults {
        let (first, last) = self.times.unwrap_or_default();
        UpdateResults {
            requested: unanswered + self.answered.len(),
            answered: self.answered.len(),
            first,
            last,
        }
    }
}

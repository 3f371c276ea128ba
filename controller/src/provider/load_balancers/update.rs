//! New targets for many load balancers, in as few calls as the provider accepts.

use std::{
    collections::{HashMap, VecDeque},
    fmt, mem,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use outrigger_api::{
    Method, MethodRequest,
    v1::{self, load_balancer_result::Outcome as Wire},
};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{LoadBalancerAnswer, LoadBalancerCall},
        capability::Capability,
        update_size::UpdateResults,
    },
    targets::Targets,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::warn;

use super::{EnsureInput, Slot, answer::UncheckedAnswer, offered, ranges};
use crate::{
    fence::Fence,
    provider::{
        Error, Provider, Session,
        batch::{BatchItem, read_outcome, take_batch},
        gather::silence,
        node_sets::wire_targets,
        wire,
    },
};

mod results;

use results::{Ending, Feed};

const METHOD: &Method = v1::UpdateLoadBalancerNodesRequest::METHOD;
const RPC: &str = METHOD.name;

/// A Service whose load balancer gets other targets.
pub struct TargetsUpdate {
    service: Arc<ServiceView>,
    is_current: Box<dyn Fn() -> bool + Send + Sync>,
    result: oneshot::Sender<Result<LoadBalancerAnswer, Error>>,
}

impl TargetsUpdate {
    /// The update, and its result as soon as it is known, if it gets one. `is_current` is asked right before a request is
    /// sent: if not, the result is [`Error::Outdated`]. It must not block.
    pub fn new(
        service: Arc<ServiceView>,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> (Self, oneshot::Receiver<Result<LoadBalancerAnswer, Error>>) {
        let (result, answered) = oneshot::channel();
        let update = Self {
            service,
            is_current: Box::new(is_current),
            result,
        };
        (update, answered)
    }

    /// Ends it without a call.
    pub fn fail(self, error: Error) {
        let _ = self.result.send(Err(error));
    }
}

impl fmt::Debug for TargetsUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TargetsUpdate")
            .field(&self.service.key)
            .finish()
    }
}

/// An update without a result.
struct Unanswered {
    update: TargetsUpdate,
    ranges: Vec<IpNet>,
}

impl Unanswered {
    /// None: what is wrong with the Service is its result.
    fn new(update: TargetsUpdate) -> Option<Self> {
        match ranges(&update.service) {
            Ok(ranges) => Some(Self { update, ranges }),
            Err(error) => {
                let _ = update.result.send(Err(error));
                None
            }
        }
    }

    /// A caller that is gone does not mind.
    fn answer(self, result: Result<LoadBalancerAnswer, Error>) {
        let _ = self.update.result.send(result);
    }

    fn wire(&self, session: &Session) -> v1::Service {
        let offered = session.load_balancers.as_ref();
        let none = Capability::default();
        let capability = offered.map_or(&none, |offered| &offered.capability);
        wire::service(&self.update.service, capability, &self.ranges)
    }
}

impl BatchItem for Unanswered {
    fn rpc(&self) -> &'static str {
        RPC
    }

    fn bytes(&self, session: &Session) -> usize {
        self.wire(session).encoded_len()
    }

    /// All of one call have the same caller.
    fn term(&self) -> Option<&Fence> {
        None
    }

    fn fail(self, error: Error) {
        self.answer(Err(error));
    }
}

impl Slot {
    pub(super) fn lacks_updates(&self) -> bool {
        self.session.lacks(RPC)
    }
}

impl Provider {
    /// Updates load balancers to these targets and changes nothing else of them, in one call. Each result is sent
    /// as soon as it is known, whatever becomes of the others. Returns the updates that the request had no room for,
    /// and the course of the call, unless it failed. The results' errors are those of
    /// [`Provider::ensure_load_balancer`].
    ///
    /// Of several Services those without a result get none: they may be updated or not, and are to be asked about
    /// again in smaller numbers. A provider that does not serve updates is asked to ensure the one load balancer as
    /// it is in its Service.
    ///
    /// Dropping the future cancels the call.
    pub async fn update_load_balancers(
        &self,
        slot: Slot,
        updates: Vec<TargetsUpdate>,
        targets: &Arc<Targets>,
    ) -> (Vec<TargetsUpdate>, Option<UpdateResults>) {
        let mut waiting: VecDeque<_> = updates.into_iter().filter_map(Unanswered::new).collect();
        let batch = match offered(&slot.session, RPC) {
            Ok(offered) => {
                let most = if slot.lacks_updates() {
                    1
                } else {
                    offered.max_services_per_update
                };
                let beside = wire_targets(targets, &slot.session).encoded_len();
                take_batch(&mut waiting, &slot.session, most, beside)
            }
            Err(error) => {
                for update in waiting.drain(..) {
                    update.answer(Err(error.clone()));
                }
                Vec::new()
            }
        };
        let results = if batch.is_empty() {
            None
        } else if slot.lacks_updates() {
            for update in batch {
                self.ensure_instead(&slot, update, targets).await;
            }
            None
        } else {
            self.update_batch(slot, batch, targets).await
        };
        let unsent = waiting.into_iter().map(|one| one.update).collect();
        (unsent, results)
    }

    async fn update_batch(
        &self,
        slot: Slot,
        batch: Vec<Unanswered>,
        targets: &Arc<Targets>,
    ) -> Option<UpdateResults> {
        let Slot { permit, session } = slot;
        let open = Arc::new(Mutex::new(Open::new(batch)));
        let asked = Arc::clone(&open);
        let preconditions = self
            .preconditions
            .only_while(move || asked.lock().drop_outdated());
        let hand_out = |result| {
            let general = open.lock().take(result, &session);
            if let Some(error) = general {
                permit.failed(&error);
            }
        };
        let ended = {
            let (results, mut arriving) = mpsc::channel(1);
            let message = |targets| Feed {
                message: v1::UpdateLoadBalancerNodesRequest {
                    context: None,
                    items: open.lock().services(&session),
                    targets: Some(targets),
                },
                results: results.clone(),
            };
            let call = self
                .shared
                .call_with_targets(&permit, &preconditions, targets, message);
            tokio::pin!(call);
            let ended = loop {
                tokio::select! {
                    // A Service that has its result is not in the request that `call` repeats.
                    biased;
                    Some(result) = arriving.recv() => hand_out(result),
                    ended = &mut call => break ended,
                }
            };
            // Results that came together with the end.
            while let Ok(result) = arriving.try_recv() {
                hand_out(result);
            }
            ended
        };
        let (rest, general, results) = {
            let mut open = open.lock();
            self.shared.metrics.strays(open.strays);
            let results = open.results();
            let (rest, general) = open.rest();
            (rest, general, results)
        };
        if let Some(error) = general {
            permit.failed(&error);
        }
        drop(permit);
        let error = match ended {
            Ok(Ending::TooMany) => malformed("more results than Services"),
            Ok(Ending::Whole | Ending::Silent) | Err(Error::Timeout { .. })
                if results.asked > 1 && !rest.is_empty() =>
            {
                warn!(
                    services = results.asked,
                    unanswered = rest.len(),
                    "the provider gave no result for some Services of an update of targets; they are \
                     asked about again in smaller updates"
                );
                return Some(results);
            }
            Ok(Ending::Whole) => malformed("no result for the Service"),
            Ok(Ending::Silent) => Error::Timeout {
                rpc: RPC,
                after: silence(METHOD),
            },
            // Not sent: from now on the session has no updates.
            Err(Error::NotServed { .. }) => Error::Outdated { rpc: RPC },
            Err(error) => error,
        };
        let is_whole = rest.is_empty();
        for update in rest {
            update.answer(Err(error.clone()));
        }
        is_whole.then_some(results)
    }

    async fn ensure_instead(&self, slot: &Slot, update: Unanswered, targets: &Arc<Targets>) {
        let TargetsUpdate {
            service,
            is_current,
            result,
        } = update.update;
        let input = EnsureInput {
            service,
            targets: Arc::clone(targets),
            held: None,
        };
        let provider = self.only_while(is_current);
        let _ = result.send(provider.ensure(slot, &update.ranges, input).await);
    }
}

/// Services that a call is made for, by their place in it.
struct Open {
    /// None: it has its answer.
    updates: Vec<Option<Unanswered>>,
    places: HashMap<Box<str>, usize>,
    /// Results without a caller.
    strays: usize,
    /// Services that were left out.
    outdated: usize,
    began: Instant,
    /// From the call to the first and to the last result.
    answered: Option<(Duration, Duration)>,
    has_answered: bool,
    /// The first error that would speak for all, if no Service was spared it.
    general: Option<Error>,
}

impl Open {
    fn new(updates: Vec<Unanswered>) -> Self {
        let uids = updates.iter().map(|one| one.update.service.uid.clone());
        Self {
            places: uids.zip(0..).collect(),
            updates: updates.into_iter().map(Some).collect(),
            strays: 0,
            outdated: 0,
            began: Instant::now(),
            answered: None,
            has_answered: false,
            general: None,
        }
    }

    /// Leaves out Services that have changed while the call waited. Whether any are left.
    fn drop_outdated(&mut self) -> bool {
        for slot in &mut self.updates {
            if let Some(outdated) = slot.take_if(|one| !(one.update.is_current)()) {
                outdated.answer(Err(Error::Outdated { rpc: RPC }));
                self.outdated += 1;
            }
        }
        self.updates.iter().any(Option::is_some)
    }

    /// Those that have no answer yet.
    fn services(&self, session: &Session) -> Vec<v1::Service> {
        let open = self.updates.iter().flatten();
        open.map(|one| one.wire(session)).collect()
    }

    /// Hands a result out. Returns an error that speaks for all.
    fn take(&mut self, mut result: v1::LoadBalancerResult, session: &Session) -> Option<Error> {
        let uid = mem::take(&mut result.key);
        let Some(slot) = self
            .places
            .get(&*uid)
            .and_then(|at| self.updates.get_mut(*at))
        else {
            self.strays += 1;
            return None;
        };
        let Some(update) = slot.take() else {
            // The caller has the first of them.
            self.strays += 1;
            warn!(
                uid,
                "Service answered twice by the provider in one update of targets"
            );
            return None;
        };
        let took = self.began.elapsed();
        let (first, _) = self.answered.unwrap_or((took, took));
        self.answered = Some((first, took));
        let result = match read_outcome(METHOD, &mut result, Duration::ZERO) {
            Ok(Wire::Found(answer)) => UncheckedAnswer::from(answer).check(
                LoadBalancerCall::Update,
                &update.update.service,
                session,
            ),
            Ok(Wire::Error(status)) => Err(malformed(&status.message)),
            Err(error) => Err(error),
        };
        let error = result.as_ref().err().cloned();
        update.answer(result);
        let Some(error) = error else {
            self.has_answered = true;
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

    fn results(&self) -> UpdateResults {
        let asked = self.updates.len() - self.outdated;
        let unanswered = self.updates.iter().flatten().count();
        let (first, last) = self.answered.unwrap_or_default();
        UpdateResults {
            asked,
            answered: asked - unanswered,
            first,
            last,
        }
    }

    /// Removes those without a result. Also returns an error that holds for the class of calls.
    fn rest(&mut self) -> (Vec<Unanswered>, Option<Error>) {
        let rest: Vec<_> = self.updates.drain(..).flatten().collect();
        // One without a result may have worked.
        let is_general = !self.has_answered && rest.is_empty();
        (rest, self.general.take().filter(|_| is_general))
    }
}

fn malformed(what: &str) -> Error {
    Error::malformed(RPC, what)
}

//! New targets for many load balancers, in as few calls as the provider accepts.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use ipnet::IpNet;
use outrigger_api::v1::{self, CallContext, update_load_balancer_nodes_response::Outcome as Wire};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{LoadBalancerAnswer, LoadBalancerCall},
        capability::Capability,
    },
    targets::Targets,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use super::{answer::UncheckedAnswer, offered, ranges};
use crate::{
    fence::Fence,
    provider::{
        Error, Provider, Session,
        admission::{Permit, Urgency},
        batch::{BatchItem, take_batch},
        call::Unary,
        gather::SILENCE,
        node_sets::wire_targets,
        wire,
    },
};

mod results;

use results::{Ending, Feed, UpdateLoadBalancerNodes};

const RPC: &str = UpdateLoadBalancerNodes::NAME;

/// A Service whose load balancer gets other targets.
pub struct TargetsUpdate {
    service: Arc<ServiceView>,
    is_current: Box<dyn Fn() -> bool + Send + Sync>,
    result: oneshot::Sender<Result<LoadBalancerAnswer, Error>>,
}

impl TargetsUpdate {
    /// The update, and its result as soon as it is known. `is_current` is asked right before a request is
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

impl Provider {
    /// Updates load balancers to these targets and changes nothing else of them. Each result is sent as soon as
    /// it is known, whatever becomes of the others. A provider that does not serve updates is asked to
    /// ensure each load balancer as it is in its Service. The results' errors are those of
    /// [`Provider::ensure_load_balancer`].
    ///
    /// Dropping the future cancels the calls.
    pub async fn update_load_balancers(&self, updates: Vec<TargetsUpdate>, targets: &Arc<Targets>) {
        let mut waiting: VecDeque<_> = updates.into_iter().filter_map(Unanswered::new).collect();
        let mut calls = FuturesUnordered::new();
        while !waiting.is_empty() {
            let admitted = {
                let admitted = self.admit::<UpdateLoadBalancerNodes>(Urgency::LoadBalancers);
                tokio::pin!(admitted);
                loop {
                    tokio::select! {
                        admitted = &mut admitted => break admitted,
                        Some(()) = calls.next() => {}
                    }
                }
            };
            let batch = admitted.and_then(|(permit, session)| {
                let most = offered(&session, RPC)?.max_services_per_update;
                let beside = wire_targets(targets, &session).encoded_len();
                let batch = take_batch(&mut waiting, &session, most, beside);
                Ok((permit, session, batch))
            });
            match batch {
                Ok((permit, session, batch)) if !batch.is_empty() => {
                    calls.push(self.update_batch(permit, session, batch, targets));
                }
                Ok(_) => {}
                Err(error) => {
                    for update in waiting.drain(..) {
                        update.answer(Err(error.clone()));
                    }
                }
            }
        }
        while calls.next().await.is_some() {}
    }

    async fn update_batch(
        &self,
        permit: Permit,
        session: Arc<Session>,
        batch: Vec<Unanswered>,
        targets: &Arc<Targets>,
    ) {
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
            let message = |context: CallContext, targets| Feed {
                message: v1::UpdateLoadBalancerNodesRequest {
                    context: Some(context),
                    services: open.lock().services(&session),
                    targets: Some(targets),
                },
                results: results.clone(),
            };
            let call = self.shared.call_with_targets::<UpdateLoadBalancerNodes>(
                &permit,
                &preconditions,
                targets,
                message,
            );
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
        let (rest, general) = {
            let mut open = open.lock();
            self.shared.metrics.strays(open.strays);
            open.rest()
        };
        if let Some(error) = general {
            permit.failed(&error);
        }
        drop(permit);
        let error = match ended {
            Ok(Ending::Whole) => malformed("no result for the Service"),
            Ok(Ending::TooMany) => malformed("more results than Services"),
            Ok(Ending::Silent) => Error::Timeout {
                rpc: RPC,
                after: SILENCE,
            },
            Err(Error::NotServed { .. }) => {
                join_all(
                    rest.into_iter()
                        .map(|one| self.ensure_instead(one, targets)),
                )
                .await;
                return;
            }
            Err(error) => error,
        };
        for update in rest {
            update.answer(Err(error.clone()));
        }
    }

    async fn ensure_instead(&self, update: Unanswered, targets: &Arc<Targets>) {
        let TargetsUpdate {
            service,
            is_current,
            result,
        } = update.update;
        let provider = self.only_while(is_current);
        let _ = result.send(provider.ensure_load_balancer(&service, targets).await);
    }
}

/// Services that a call is made for, by their place in it.
struct Open {
    /// None: it has its answer.
    updates: Vec<Option<Unanswered>>,
    places: HashMap<Box<str>, usize>,
    /// Results without a caller.
    strays: usize,
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
            has_answered: false,
            general: None,
        }
    }

    /// Leaves out Services that have changed while the call waited. Whether any are left.
    fn drop_outdated(&mut self) -> bool {
        for slot in &mut self.updates {
            if let Some(outdated) = slot.take_if(|one| !(one.update.is_current)()) {
                outdated.answer(Err(Error::Outdated { rpc: RPC }));
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
    fn take(
        &mut self,
        result: v1::UpdateLoadBalancerNodesResponse,
        session: &Session,
    ) -> Option<Error> {
        let uid = result.service.unwrap_or_default().uid;
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
        let result = read(result.outcome, &update.update.service, session);
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

    /// Removes those without a result. Also returns an error that holds for the class of calls.
    fn rest(&mut self) -> (Vec<Unanswered>, Option<Error>) {
        let rest: Vec<_> = self.updates.drain(..).flatten().collect();
        // One without a result may have worked.
        let is_general = !self.has_answered && rest.is_empty();
        (rest, self.general.take().filter(|_| is_general))
    }
}

fn read(
    outcome: Option<Wire>,
    service: &ServiceView,
    session: &Session,
) -> Result<LoadBalancerAnswer, Error> {
    match outcome {
        None => Err(malformed("a result without an outcome")),
        Some(Wire::Answer(answer)) => {
            UncheckedAnswer::from(answer).check(LoadBalancerCall::Update, service, session)
        }
        Some(Wire::Error(status)) => {
            let error = Error::from_item(RPC, &status);
            Err(error.unwrap_or_else(|| malformed("an error with code OK")))
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::Malformed {
        rpc: RPC,
        what: what.into(),
    }
}

//! Deletes load balancers: those of Services that do not want them any more, and orphaned ones, whose Services
//! vanished or lost their finalizer before (not Q-5; S-60). The reconciler calls it.

use std::sync::Arc;

use outrigger_core::{
    error_class::ErrorClass,
    event::EventContent,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        ownership::{Ownership, is_released},
        plan::{BalancerCall, Failure, Step},
    },
};
use tracing::{debug, info, warn};

use super::{
    decisions::{Answered, DecisionInputs, Decisions},
    lease_targets::LeaseTargets,
    metrics::ServiceMetrics,
    states::ServiceKey,
    write::{Writes, call_result, retry_as_deletion},
};
use crate::queue::{Outcome, Priority, Queue};
use outrigger_provider::{Provider, Slot};
use outrigger_runtime::{clock::until, fence::Fence};

/// Deletions of load balancers.
pub(super) struct Cleanup {
    pub(super) decisions: Arc<Decisions>,
    pub(super) writes: Arc<Writes>,
    pub(super) provider: Provider,
    pub(super) fence: Fence,
    pub(super) lease: Arc<LeaseTargets>,
    pub(super) queue: Queue<ServiceKey>,
    pub(super) metrics: ServiceMetrics,
}

impl Cleanup {
    /// Deletes the load balancer of `service`, which has the finalizer until that is done.
    pub(super) async fn delete(
        &self,
        key: &ServiceKey,
        service: Arc<ServiceView>,
        inputs: &DecisionInputs,
        slot: Slot,
        events: &[EventContent],
    ) -> Outcome {
        let is_current = self.decisions.is_current(&service, inputs, None);
        let provider = self.provider.only_while(is_current);
        let called = self.call_delete(&provider, slot, key, &service, events);
        let Some(result) = called.await else {
            return Outcome::Retry;
        };
        let result = result.and_then(|answer| {
            let unproven = self.unproven(&answer, &service, inputs);
            unproven.map_or(Ok(answer), |failure| {
                warn!(
                    service = &*key.name,
                    uid = &*key.uid,
                    error = &*failure.message,
                    "load balancer not deleted"
                );
                Err(Box::new(failure))
            })
        });
        if ended_deletion(&result).is_some() {
            self.decisions
                .states
                .with(key, |state| state.is_cleaned_up = true);
        }
        let call = BalancerCall::Delete;
        let ended = self.writes.apply(key, inputs, &call, &result).await;
        self.lease.progressed();
        if ended == Some(Outcome::Done) {
            // The watch may have reported the deletion before our own write was answered.
            return self.finish(key);
        }
        self.decisions
            .states
            .with(key, |state| state.is_cleaned_up = false);
        let live = self.decisions.live(key);
        let is_gone =
            live.is_none_or(|live| is_released(&service, &live, Some(&inputs.capability)));
        match ended {
            // Our own write was made, and its answer lost; or another client has taken the finalizer.
            _ if is_gone && ended_deletion(&result).is_some() => {
                self.conclude(key, &service, &result, inputs)
            }
            Some(ended) => retry_as_deletion(ended),
            // Its end has queued it: the call is made once more.
            None => Outcome::Done,
        }
    }

    /// The result is none if the call was not sent.
    async fn call_delete(
        &self,
        provider: &Provider,
        slot: Slot,
        key: &ServiceKey,
        service: &ServiceView,
        events: &[EventContent],
    ) -> Option<Answered> {
        if !self.fence.may_call() {
            return None;
        }
        self.writes.record_events(service, events);
        debug!(service = &*key.name, "deleting the load balancer");
        let called = provider.load_balancers().delete(slot, service).await;
        let result = self.writes.record_call(key, "delete", called)?;
        self.metrics.deleted(call_result(&result));
        if let Some(answer) = ended_deletion(&result) {
            info!(
                service = &*key.name,
                answer = ?answer.disposition,
                "the deletion of the load balancer has ended"
            );
        }
        Some(result)
    }

    /// Deletes an orphaned load balancer, after the API server has confirmed that the Service is gone or released.
    pub(super) async fn clean_up(
        &self,
        key: &ServiceKey,
        service: &Arc<ServiceView>,
        slot: Slot,
    ) -> Outcome {
        let Some(inputs) = self.decisions.inputs() else {
            return Outcome::Retry;
        };
        if !Ownership::of(service, Some(&inputs.capability)).may_be_ours() {
            return self.finish(key);
        }
        if service.is_left_alone() {
            warn!(
                service = &*key.name,
                uid = &*key.uid,
                "the Service is gone, and since it was held its load balancer is left as it is; \
                 delete it in the cloud"
            );
            return self.finish(key);
        }
        // With the slot: the answer must not be old when the call goes out.
        match self.writes.writer.read(service).await {
            Ok(None) => {}
            Ok(Some(live)) if is_released(service, &live, Some(&inputs.capability)) => {}
            Ok(Some(_)) if self.decisions.live(key).is_some() => return self.finish(key),
            Ok(Some(_)) => {
                warn!(
                    service = &*key.name,
                    uid = &*key.uid,
                    "a list did not show the Service, but it is there; keeping its load balancer"
                );
                return Outcome::Retry;
            }
            Err(error) => {
                debug!(
                    service = &*key.name,
                    %error,
                    "Service not confirmed as gone"
                );
                return Outcome::Retry;
            }
        }
        let now = self.decisions.now();
        let step = self
            .decisions
            .states
            .with(key, |state| state.progress.clean_up(now));
        let events = match step {
            Step::At(time) => return Outcome::RetryAfter(until(time, now)),
            Step::Delete { events } => events,
            // A cleanup has no other steps.
            _ => return Outcome::Done,
        };
        let called = self.call_delete(&self.provider, slot, key, service, &events);
        let Some(result) = called.await else {
            return Outcome::Retry;
        };
        let answer = result.as_ref().ok();
        let unproven = answer.and_then(|answer| self.unproven(answer, service, &inputs));
        let result = match unproven {
            None => result,
            Some(failure) if failure.class == ErrorClass::Unavailable => Err(Box::new(failure)),
            // Without its finalizer there is no object left that could wait.
            Some(_) => {
                warn!(
                    service = &*key.name,
                    uid = &*key.uid,
                    "the Service is gone, and the provider neither manages its load balancer nor serves \
                     the class that it was made for; if it still exists, delete it in the cloud"
                );
                return self.finish(key);
            }
        };
        self.conclude(key, service, &result, &inputs)
    }

    /// Applies the answer to a deletion for a Service that is gone.
    fn conclude(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        result: &Answered,
        inputs: &DecisionInputs,
    ) -> Outcome {
        let (now, facts) = (self.decisions.now(), inputs.facts(inputs.pool.revision()));
        let result = result.as_ref().map_err(Box::as_ref);
        let decided = self.decisions.states.with(key, |state| {
            state.progress.deleted(now, None, result, &facts)
        });
        self.writes.record_events(service, &decided.events);
        match decided.requeue {
            Some(requeue) => retry_as_deletion(requeue.into()),
            None => self.finish(key),
        }
    }

    /// Why `answer` to a deletion proves nothing about the load balancer of `service`. The call may have
    /// waited across a handshake: the class must be served both by the provider that `inputs` was read
    /// from and by the present one.
    pub(super) fn unproven(
        &self,
        answer: &LoadBalancerAnswer,
        service: &ServiceView,
        inputs: &DecisionInputs,
    ) -> Option<Failure> {
        let before = &inputs.capability;
        let failure = Failure::of_withdrawn(answer, service, before);
        if failure.is_some() || answer.disposition != Disposition::NotManaged {
            return failure;
        }
        match self.decisions.capability() {
            Some(now) if now.provider == before.provider => {
                Failure::of_withdrawn(answer, service, &now)
            }
            _ => Some(Failure {
                class: ErrorClass::Unavailable,
                reason: Box::default(),
                message:
                    "the provider answered that it does not manage it, and was away or another \
                          one right after; it is asked again"
                        .into(),
                effects: answer.effects.clone(),
            }),
        }
    }

    /// Forgets a Service whose load balancer is gone, or not this controller's.
    pub(super) fn finish(&self, key: &ServiceKey) -> Outcome {
        self.decisions.states.with(key, |state| {
            state.orphaned = None;
            state.reset();
        });
        self.provider.load_balancers().forget(&key.uid);
        self.lease.progressed();
        let next = self.decisions.services.get(&key.name);
        let is_marked = |next: &ServiceView| Ownership::of(next, None) == Ownership::WaitOver;
        if let Some(next) = next.filter(|next| is_marked(next)) {
            // Its condition goes too.
            self.queue.add(ServiceKey::of(&next), Priority::Fresh);
        }
        Outcome::Done
    }
}

/// The answer that ends a deletion.
fn ended_deletion(result: &Answered) -> Option<&LoadBalancerAnswer> {
    let answer = result.as_ref().ok();
    answer.filter(|answer| answer.disposition != Disposition::InProgress)
}

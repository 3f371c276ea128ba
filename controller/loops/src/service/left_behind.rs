//! Cleanup of load balancers whose Services are gone from the API server, or released, without one (not Q-5;
//! S-60).

use outrigger_core::{
    error_class::ErrorClass,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        ownership::{Ownership, is_released},
        plan::{Failure, Step},
    },
};
use tracing::{debug, warn};

use super::{
    ServiceLb, act::Answered, decision_inputs::DecisionInputs, key::ServiceKey, states::LeftBehind,
    write::retry_as_deletion,
};
use outrigger_provider_client::Slot;
use outrigger_runtime::{
    clock::until,
    queue::{Outcome, Priority},
};

impl ServiceLb {
    /// Deletes the load balancer that the Service left behind, after the API server has confirmed that the Service
    /// is gone or released.
    pub(super) async fn clean_up(
        &self,
        key: &ServiceKey,
        left: LeftBehind,
        priority: Priority,
        slot: Option<Slot>,
    ) -> Outcome {
        let service = &left.service;
        let Some(inputs) = self.inputs() else {
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
        // Before the API server is asked: its answer must not be old when the call goes out.
        let Some(slot) = slot else {
            return Outcome::RunAgain(priority.call());
        };
        match self.writer.read(service).await {
            Ok(None) => {}
            Ok(Some(live)) if is_released(service, &live, Some(&inputs.capability)) => {}
            Ok(Some(_)) if self.live(key).is_some() => return self.finish(key),
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
        let now = self.now();
        let step = self.states.with(key, |state| state.progress.clean_up(now));
        let events = match step {
            Step::At(time) => return Outcome::RetryAfter(until(time, now)),
            Step::Delete { events } => events,
            // A cleanup has no other steps.
            _ => return Outcome::Done,
        };
        let provider = &self.parts.provider;
        let Some(result) = self
            .call_delete(provider, slot, key, service, &events)
            .await
        else {
            return Outcome::Retry;
        };
        self.cleanup_answered(key, service, &result, &inputs)
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
        match self.capability() {
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

    /// Applies the answer to a deletion for a Service that is gone.
    pub(super) fn cleanup_answered(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        result: &Answered,
        inputs: &DecisionInputs,
    ) -> Outcome {
        let answer = result.as_ref().ok();
        let unproven = answer.and_then(|answer| self.unproven(answer, service, inputs));
        let is_withdrawn = |failure: &Failure| failure.class != ErrorClass::Unavailable;
        if unproven.as_ref().is_some_and(is_withdrawn) {
            // Without its finalizer there is no object left that could wait.
            warn!(
                service = &*key.name,
                uid = &*key.uid,
                "the Service is gone, and the provider neither manages its load balancer nor serves \
                 the class that it was made for; if it still exists, delete it in the cloud"
            );
            return self.finish(key);
        }
        let result = unproven
            .as_ref()
            .map_or_else(|| result.as_ref().map_err(Box::as_ref), Err);
        let now = self.now();
        let decided = self.states.with(key, |state| {
            let facts = inputs.facts();
            state.progress.deleted(now, None, result, &facts)
        });
        self.record_events(service, &decided.events);
        match decided.requeue {
            Some(requeue) => retry_as_deletion(requeue.into()),
            None => self.finish(key),
        }
    }

    /// Ends the cleanup: the load balancer is gone, or not this controller's.
    pub(super) fn finish(&self, key: &ServiceKey) -> Outcome {
        self.states.with(key, |state| {
            state.left_behind = None;
            state.reset();
        });
        let next = self.parts.services.get(&key.name);
        let is_other = |next: &ServiceView| {
            *next.uid != *key.uid || Ownership::of(next, None) == Ownership::WaitOver
        };
        if let Some(next) = next.filter(|next| is_other(next)) {
            // It may wait for this one's end, or still be marked as waiting.
            self.queue.add(ServiceKey::of(&next), Priority::Fresh);
        }
        Outcome::Done
    }
}

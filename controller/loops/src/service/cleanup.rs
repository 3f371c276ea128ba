//! The part of the reconciler that deletes load balancers: those of Services that do not want them any more, and orphaned
//! ones, whose Services vanished or lost their finalizer before (not Q-5; S-60).
//!
//! The finalizer stays until the provider has answered that the load balancer is gone or kept. Before an orphaned one is
//! deleted, the API server itself has to confirm that its Service is gone or released.

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
use tracing::{info, warn};

use super::{
    decisions::{Answered, DecisionInputs},
    reconciler::Reconciler,
    states::{ServiceKey, ServiceState},
    write::{call_result, retry_as_deletion},
};
use crate::queue::Outcome;
use outrigger_kube::error::ApiError;
use outrigger_provider::{Provider, Slot};
use outrigger_runtime::{clock::until, log_repeated};

impl Reconciler {
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
        let called = self.call_delete(&provider, slot, key, &service, inputs, events);
        let Some(result) = called.await else {
            return Outcome::Retry;
        };
        let call = BalancerCall::Delete { is_gone: false };
        let ended = self.apply(key, inputs, &call, &result).await;
        self.lease.progressed();
        if ended == Some(Outcome::Done) {
            // The watch may have reported the deletion before our own write was answered.
            return self.finish(key);
        }
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
        inputs: &DecisionInputs,
        events: &[EventContent],
    ) -> Option<Answered> {
        if !self.fence.may_call() {
            return None;
        }
        self.record_events(service, events);
        let called = provider.load_balancers().delete(slot, service).await;
        let result = self.record_call(key, "delete", called)?;
        self.metrics.deleted(call_result(&result));
        let result = result.and_then(|answer| match self.unproven(&answer, service, inputs) {
            Some(failure) => Err(Box::new(failure)),
            None => Ok(answer),
        });
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
        match self.writer.read(service).await {
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
            Err(ApiError::Fenced) => return Outcome::Retry,
            Err(error) => {
                let (service, class) = (&*key.name, error.class().as_str());
                log_repeated!(
                    warn, self.repeats, &error.cause(), service, uid = &*key.uid, class, %error,
                    "the Service is gone, and its load balancer stays until the API server confirms that"
                );
                return retry_as_deletion(error.requeue().into());
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
        let called = self.call_delete(&self.provider, slot, key, service, &inputs, &events);
        match called.await {
            Some(result) => self.conclude(key, service, &result, &inputs),
            None => Outcome::Retry,
        }
    }

    /// Applies the answer to a deletion for a Service that is gone.
    fn conclude(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        result: &Answered,
        inputs: &DecisionInputs,
    ) -> Outcome {
        let call = BalancerCall::Delete { is_gone: true };
        let decided = self.decisions.conclude(key, service, &call, result, inputs);
        self.record_events(service, &decided.events);
        match decided.requeue {
            Some(requeue) => retry_as_deletion(requeue.into()),
            None => self.finish(key),
        }
    }

    /// Why `answer` to a deletion proves nothing about the load balancer of `service`. The call may have waited across a
    /// handshake, and only a provider that serves the class can say that it does not manage it.
    pub(super) fn unproven(
        &self,
        answer: &LoadBalancerAnswer,
        service: &ServiceView,
        inputs: &DecisionInputs,
    ) -> Option<Failure> {
        let is_same = || self.decisions.capability().as_ref() == Some(&inputs.capability);
        if answer.disposition != Disposition::NotManaged || is_same() {
            return Failure::of_withdrawn(answer, service, &inputs.capability);
        }
        Some(Failure {
            class: ErrorClass::Unavailable,
            reason: Box::default(),
            message: "the provider answered that it does not manage it, and was away or another one right after; it is \
                      asked again"
                .into(),
            effects: answer.effects.clone(),
        })
    }

    /// Forgets a Service whose load balancer is gone, or not this controller's.
    pub(super) fn finish(&self, key: &ServiceKey) -> Outcome {
        let forget = |state: &mut ServiceState| *state = ServiceState::default();
        self.decisions.states.with(key, forget);
        self.provider.load_balancers().forget(&key.uid);
        self.lease.progressed();
        Outcome::Done
    }
}

/// The answer that ends a deletion.
fn ended_deletion(result: &Answered) -> Option<&LoadBalancerAnswer> {
    let answer = result.as_ref().ok();
    answer.filter(|answer| answer.disposition != Disposition::InProgress)
}

//! The calls that change the cloud for one Service, and the consequences of their answers. [`super::sync`] calls
//! them by key, [`super::update`] has the batches.

use std::sync::Arc;

use outrigger_core::{
    correlator::EventContent,
    error_class::ErrorClass,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        change::needs_sync,
        ownership::is_released,
        plan::{Ensure, EnsureCause, Failure},
    },
    targets::Revision,
};
use tracing::{debug, info, warn};

use super::{
    ServiceLb, applied::UpdateInFlight, decision_inputs::DecisionInputs, key::ServiceKey,
    write::retry_as_deletion,
};
use outrigger_provider_client::{self as provider, EnsureInput, Provider, Slot};
use outrigger_runtime::queue::{Outcome, Priority};

/// The result of a call.
pub(super) type Answered = Result<LoadBalancerAnswer, Box<Failure>>;

impl ServiceLb {
    pub(super) async fn ensure(
        &self,
        key: &ServiceKey,
        service: Arc<ServiceView>,
        mut ensure: Ensure,
        inputs: &DecisionInputs,
        slot: Slot,
        is_background: bool,
    ) -> Outcome {
        let cause = ensure.cause.as_str();
        let mut update = None;
        let mut held = None;
        let is_current = self.is_current(&service, inputs);
        let provider = self.parts.provider.only_while(is_current);
        let input = async {
            self.refresh_stale_targets().await;
            let publications = self.rollout.publications();
            let targets = self.rollout.current();
            let in_flight = self.begin_update(targets.revision()).await?;
            ensure.set_targets(&targets);
            self.states.with(key, |state| state.is_cleaned_up = false);
            self.record_events(&service, &ensure.events);
            debug!(
                service = &*key.name,
                cause,
                targets = targets.nodes().len(),
                "ensuring the load balancer"
            );
            update = Some((in_flight, publications));
            // A load balancer that only comes back gets no other address.
            let may_assign = inputs.capability.volatile && ensure.cause != EnsureCause::StateLost;
            held = may_assign.then(|| self.held_addresses(key));
            Some(EnsureInput {
                // Labels and the like may have changed during the writes before.
                service: self.live(key)?,
                targets,
                held: held.clone(),
            })
        };
        let called = provider
            .load_balancers()
            .ensure(slot, &service, input)
            .await;
        if was_not_sent(&called) {
            return Outcome::Retry;
        }
        let result = self.record_call(key, "ensure", called);
        self.parts
            .metrics
            .ensured(ensure.cause, metric_label(&result));
        if let (Ok(answer), Some(held)) = (&result, &held) {
            self.report_held(&service, answer, held);
        }
        let is_at_work = result
            .as_ref()
            .is_ok_and(|answer| answer.disposition == Disposition::InProgress);
        self.states
            .with(key, |state| state.keep_turn(is_background && is_at_work));
        let ended = self
            .apply_consequence(key, inputs, |progress, now, service, facts| {
                progress.ensured(
                    now,
                    service,
                    &ensure,
                    result.as_ref().map_err(Box::as_ref),
                    facts,
                )
            })
            .await;
        if result.is_ok_and(|answer| answer.disposition == Disposition::Ready) {
            info!(service = &*key.name, cause, "the load balancer is ready");
            if let Some(since) = self.states.with(key, |state| state.started.take()) {
                self.parts.metrics.ready(since.elapsed());
            }
        }
        if let Some((_, publications)) = update {
            self.requeue_if_outdated(key, &ensure.revision, publications);
        }
        // The store's deletion event ends the queue entry.
        ended.unwrap_or(Outcome::Done)
    }

    /// Requeues a Service if other targets than `sent` were published during its call, after the publication
    /// of number `publications`: it may have had no load balancer at that time.
    pub(super) fn requeue_if_outdated(&self, key: &ServiceKey, sent: &Revision, publications: u64) {
        if self.rollout.publications() != publications && self.rollout.current().revision() != sent
        {
            self.queue.add(key.clone(), Priority::Batch);
        }
    }

    pub(super) async fn delete(
        &self,
        key: &ServiceKey,
        service: Arc<ServiceView>,
        inputs: &DecisionInputs,
        slot: Slot,
        events: &[EventContent],
    ) -> Outcome {
        let provider = self
            .parts
            .provider
            .only_while(self.is_current(&service, inputs));
        let result = self
            .call_delete(&provider, slot, key, &service, events)
            .await;
        let Some(result) = result else {
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
            self.states.with(key, |state| state.is_cleaned_up = true);
        }
        let outcome = result.as_ref().map_err(Box::as_ref);
        let ended = self
            .apply_consequence(key, inputs, |progress, now, service, facts| {
                progress.deleted(now, Some(service), outcome, facts)
            })
            .await;
        self.rollout.applied.progressed();
        if matches!(ended, Some(Outcome::Done)) {
            // The watch may have reported the deletion before our own write was answered.
            return self.finish(key);
        }
        self.states.with(key, |state| state.is_cleaned_up = false);
        // Of an ended deletion whose Service is gone or released, the answer to our own write was lost, but not
        // the write.
        match ended {
            Some(ended)
                if ended_deletion(&result).is_none()
                    || !self.is_gone_or_released(key, &service, inputs) =>
            {
                retry_as_deletion(ended)
            }
            _ => self.cleanup_answered(key, &service, &result, inputs),
        }
    }

    fn is_gone_or_released(
        &self,
        key: &ServiceKey,
        last: &ServiceView,
        inputs: &DecisionInputs,
    ) -> bool {
        let live = self.live(key);
        live.is_none_or(|live| is_released(last, &live, Some(&inputs.capability)))
    }

    /// None: the call was not sent.
    pub(super) async fn call_delete(
        &self,
        provider: &Provider,
        slot: Slot,
        key: &ServiceKey,
        service: &ServiceView,
        events: &[EventContent],
    ) -> Option<Answered> {
        let goes_out = || {
            let may_call = self.fence.may_call();
            if may_call {
                self.record_events(service, events);
                debug!(service = &*key.name, "deleting the load balancer");
            }
            may_call
        };
        let called = provider
            .load_balancers()
            .delete(slot, service, goes_out)
            .await;
        if was_not_sent(&called) {
            return None;
        }
        let result = self.record_call(key, "delete", called);
        self.parts.metrics.deleted(metric_label(&result));
        if let Some(answer) = ended_deletion(&result) {
            info!(
                service = &*key.name,
                answer = ?answer.disposition,
                "the deletion of the load balancer has ended"
            );
        }
        Some(result)
    }

    /// Whether a call about the Service still carries its desired state: the Service may have been edited, held or
    /// deleted since it was read. Such a change has queued it again.
    pub(super) fn is_current(
        &self,
        service: &Arc<ServiceView>,
        inputs: &DecisionInputs,
    ) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
        let (services, seen) = (Arc::clone(&self.parts.services), Arc::clone(service));
        let capability = Arc::clone(&inputs.capability);
        move || {
            services.get(&seen.key).is_some_and(|now| {
                now.uid == seen.uid
                    && (Arc::ptr_eq(&now, &seen) || !needs_sync(&seen, &now, &capability))
            })
        }
    }

    /// Guard of a call with these targets, once the Lease names no others as those of all load balancers.
    pub(super) async fn begin_update(&self, revision: &Revision) -> Option<UpdateInFlight<'_>> {
        let update = tokio::select! {
            biased;
            () = self.fence.stopped() => None,
            update = self.rollout.applied.begin(revision) => update,
        };
        update.filter(|_| self.fence.may_call())
    }

    /// Logs and counts the result of a call, and converts it for a decision.
    pub(super) fn record_call(
        &self,
        key: &ServiceKey,
        call: &str,
        result: Result<LoadBalancerAnswer, provider::Error>,
    ) -> Answered {
        let result = result.map_err(|error| {
            let (session, live) = (self.parts.provider.session(), self.live(key));
            let failure = error.failure(session.as_deref().zip(live.as_deref()));
            (error, failure)
        });
        let effects = match &result {
            Ok(answer) => &answer.effects,
            Err((_, failure)) => &failure.effects,
        };
        self.parts.metrics.effects_dropped(effects.dropped.count());
        let provider = &self.parts.provider;
        provider.log_dropped_effects("service", &key.name, &effects.dropped);
        match result {
            Ok(answer) => Ok(answer),
            Err((error, failure)) => {
                let (service, class) = (&*key.name, failure.class.as_str());
                // A failure that concerns every Service alike was logged when the calls were paused. Any other may be
                // that of many Services, each of which has its event.
                let cause = || format!("{call}: {}", error.steady());
                let is_for_owner = failure.class.is_for_owner();
                if let Some(others) = is_for_owner
                    .then(cause)
                    .and_then(|cause| self.repeats.due(&cause))
                {
                    warn!(service, class, call, others, %error, "load balancer call failed");
                } else {
                    debug!(service, class, call, %error, "load balancer call failed");
                }
                Err(Box::new(failure))
            }
        }
    }
}

/// Whether the call was not sent, since this process stops or the Service has changed: no consequence.
pub(super) const fn was_not_sent(called: &Result<LoadBalancerAnswer, provider::Error>) -> bool {
    use provider::Error as E;
    matches!(
        called,
        Err(E::Fenced { .. } | E::Outdated { .. } | E::Cancelled { .. })
    )
}

/// The answer that ends a deletion.
fn ended_deletion(result: &Answered) -> Option<&LoadBalancerAnswer> {
    let answer = result.as_ref().ok();
    answer.filter(|answer| answer.disposition != Disposition::InProgress)
}

/// The result as the metrics count it.
pub(super) fn metric_label(result: &Answered) -> Result<Disposition, ErrorClass> {
    match result {
        Ok(answer) => Ok(answer.disposition),
        Err(failure) => Err(failure.class),
    }
}

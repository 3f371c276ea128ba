//! Writes to a Service, and its events.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_core::{
    correlator::EventContent,
    error_class::{DELETION_WAIT, ErrorClass},
    service::{
        ServiceView,
        patch_plan::StatusPatch,
        plan::{self, Progress, ServiceFacts},
    },
};
use tracing::{debug, warn};

use super::{ServiceLb, decision_inputs::DecisionInputs, key::ServiceKey};
use outrigger_kubernetes::{error::ApiError, events::ObjectRef};
use outrigger_runtime::queue::Outcome;

/// Writes that conflict with another client's before the queue's back-off takes over.
pub(super) const ATTEMPTS: u32 = 5;

/// A write of conditions, addresses or annotations, in upstream's words for events.
pub(super) const WRITING_STATUS: &str = "update load balancer status";

impl ServiceLb {
    /// Applies the consequence of an answer to the Service as it is now: the write, then the events. After a
    /// conflict with another client's write it is decided anew. None: the Service is gone.
    pub(super) async fn apply_consequence(
        &self,
        key: &ServiceKey,
        inputs: &DecisionInputs,
        decide: impl Fn(&mut Progress, Timestamp, &ServiceView, &ServiceFacts<'_>) -> plan::Consequence,
    ) -> Option<Outcome> {
        let mut attempt = 0;
        loop {
            let service = self.live(key)?;
            let inputs = self.inputs_of(Arc::clone(&inputs.capability));
            let decided = self.decide(key, &service, &inputs, |progress, now, facts| {
                decide(progress, now, &service, facts)
            });
            if let Some(patch) = &decided.patch {
                match self.write_with_effects(&service, patch).await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) => {
                        attempt += 1;
                        // After a conflict the store has the Service as it is now.
                        if error.class() == ErrorClass::Conflict && attempt < ATTEMPTS {
                            continue;
                        }
                        // S-38: the provider is called once more.
                        self.states.with(key, |state| state.progress.not_written());
                        return Some(self.write_failed(&service, WRITING_STATUS, &error));
                    }
                }
            }
            self.record_events(&service, &decided.events);
            return Some(decided.requeue.map_or(Outcome::Done, Outcome::from));
        }
    }

    /// Writes `patch`, and if the API server does not take it for its content, the rest without the provider's effects:
    /// they must not keep the addresses from a Service, nor lead to the same call for ever.
    async fn write_with_effects(
        &self,
        service: &Arc<ServiceView>,
        patch: &StatusPatch,
    ) -> Result<Option<Arc<ServiceView>>, ApiError> {
        let written = self.writer.write(service, patch).await;
        let (Err(ApiError::Refused(_)), Some((rest, dropped))) =
            (&written, patch.without_effects())
        else {
            return written;
        };
        let rest = self.writer.write(service, &rest).await;
        if let Ok(Some(_)) = rest {
            self.parts.metrics.effects_dropped(dropped.count());
            let provider = &self.parts.provider;
            provider.log_dropped_effects("service", &service.key, &dropped);
            for (_, report) in dropped.reports() {
                self.record_event(service, &report);
            }
        }
        rest
    }

    /// Logs a write that failed, with an event in upstream's words on the Service, and requeues it.
    pub(super) fn write_failed(
        &self,
        service: &ServiceView,
        doing: &str,
        error: &ApiError,
    ) -> Outcome {
        let class = error.class();
        let (key, class_name) = (&*service.key, class.as_str());
        // The same cause once for many Services; each has its event.
        if let Some(others) = self.repeats.due(&error.cause()) {
            warn!(service = key, class = class_name, write = doing, others, %error, "Service not written");
        } else {
            debug!(service = key, class = class_name, write = doing, %error, "Service not written");
        }
        if class.is_for_owner() {
            self.record_event(
                service,
                &EventContent::sync_failed(&format!("failed to {doing}: {error}")),
            );
        }
        error.retry()
    }

    /// Records an event on the Service, in its namespace (B-10).
    pub(super) fn record_event(&self, service: &ServiceView, event: &EventContent) {
        let object = ObjectRef::service(service);
        let (reason, message) = (event.reason.clone(), event.message.clone());
        self.parts
            .events
            .event(&object, event.kind, reason, message);
    }

    pub(super) fn record_events(&self, service: &ServiceView, events: &[EventContent]) {
        for event in events {
            self.record_event(service, event);
        }
    }
}

/// The outcome of a deletion that failed: tried at least every 30 s (S-14).
pub(super) fn retry_as_deletion(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Retry => Outcome::RetryWithin(DELETION_WAIT.longest()),
        Outcome::RetrySlowly(limit) => Outcome::RetrySlowly(limit.min(DELETION_WAIT.longest())),
        other => other,
    }
}

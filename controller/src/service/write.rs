//! Writes to a Service, and its events.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_core::{
    error_class::{DELETION_WAIT, ErrorClass},
    service::{
        ServiceView,
        event::ServiceEvent,
        plan::{self, Progress, ServiceFacts},
    },
};
use tracing::{debug, warn};

use super::{ServiceLb, decision_inputs::DecisionInputs, event_handlers::ServiceKey};
use crate::{
    kube::{error::ApiError, events::ObjectRef},
    queue::Outcome,
};

/// Writes that conflict with another client's before the queue's back-off takes over.
pub(super) const ATTEMPTS: u32 = 5;

impl ServiceLb {
    /// Writes what `decide` makes of the Service as it is now, then tells it. Another client's
    /// write meanwhile is read, and the decision made anew. None: the Service is gone.
    pub(super) async fn conclude(
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
                match self.writer.write(&service, patch).await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) => {
                        attempt += 1;
                        // The store knows by now what it has become.
                        if error.class() == ErrorClass::Conflict && attempt < ATTEMPTS {
                            continue;
                        }
                        // S-38: it is asked for once more.
                        self.states.with(key, |state| state.progress.not_written());
                        let doing = "update load balancer status";
                        return Some(self.refused(&service, doing, &error));
                    }
                }
            }
            self.tell_all(&service, &decided.events);
            return Some(decided.requeue.map_or(Outcome::Done, Outcome::from));
        }
    }

    /// The API server refused a write: an event in upstream's words on the Service concerned.
    pub(super) fn refused(&self, service: &ServiceView, doing: &str, error: &ApiError) -> Outcome {
        let class = error.class();
        let (key, class_name) = (&*service.key, class.as_str());
        // The same cause once for many Services; each has its event.
        if let Some(others) = self.repeats.due(&error.cause()) {
            warn!(service = key, class = class_name, write = doing, others, %error, "Service not written");
        } else {
            debug!(service = key, class = class_name, write = doing, %error, "Service not written");
        }
        if class.is_for_owner() {
            self.tell(
                service,
                &ServiceEvent::sync_failed(&format!("failed to {doing}: {error}")),
            );
        }
        error.retry()
    }

    /// About the Service, in its namespace (B-10).
    pub(super) fn tell(&self, service: &ServiceView, event: &ServiceEvent) {
        let object = ObjectRef::service(service);
        let (reason, message) = (event.reason.clone(), event.message.clone());
        self.parts
            .events
            .event(&object, event.kind, reason, message);
    }

    pub(super) fn tell_all(&self, service: &ServiceView, events: &[ServiceEvent]) {
        for event in events {
            self.tell(service, event);
        }
    }
}

/// The outcome of a deletion.
pub(super) fn often(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Retry => Outcome::RetryWithin(DELETION_WAIT.longest()),
        Outcome::RetrySlowly(limit) => Outcome::RetrySlowly(limit.min(DELETION_WAIT.longest())),
        other => other,
    }
}

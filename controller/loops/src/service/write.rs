//! The part of the reconciler that writes: the result of a call as one patch, its events, and the log.
//!
//! A patch that conflicts with the write of another client is planned again on the Service as it is then. Where the API
//! server refuses a patch for its content, the rest is written without the provider's effects.

use std::sync::Arc;

use outrigger_core::{
    effects::Dropped,
    error_class::{DELETION_WAIT, ErrorClass},
    event::EventContent,
    repairs::Undone,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        patch_plan::{FinalizerChange, StatusPatch},
        plan::{BalancerCall, BalancerRecord},
    },
};
use tokio::time::Instant;

use super::{
    decisions::{Answered, DecisionInputs},
    reconciler::Reconciler,
    states::{ServiceKey, ServiceState},
};
use crate::{context::not_written, queue::Outcome};
use outrigger_kube::{error::ApiError, events::ObjectRef};
use outrigger_provider::Error;
use outrigger_runtime::log_repeated;

/// Writes that conflict with another client's before the queue's back-off takes over.
const ATTEMPTS: u32 = 5;

/// The Service as it is written; none if it is gone.
type WriteResult = Result<Option<Arc<ServiceView>>, ApiError>;

impl Reconciler {
    /// Applies the consequence of the answer to `call` to the Service as it is now: the write, then the events. After a
    /// conflict with another client's write it is decided again. The result is none if the Service is gone.
    pub(super) async fn apply(
        &self,
        key: &ServiceKey,
        inputs: &DecisionInputs,
        call: &BalancerCall<'_>,
        result: &Answered,
    ) -> Option<Outcome> {
        let mut attempt = 0;
        loop {
            let service = self.decisions.live(key)?;
            let inputs = self.decisions.inputs_of(Arc::clone(&inputs.capability));
            let decided = self
                .decisions
                .conclude(key, &service, call, result, &inputs);
            if let Some(patch) = &decided.patch {
                match self.write_with_effects(&service, patch).await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) if is_retried(&error, &mut attempt) => continue,
                    Err(error) => {
                        // S-38: the provider is called once more.
                        self.decisions
                            .states
                            .with(key, |state| state.progress.not_written());
                        return Some(self.write_failed(&service, patch, &error));
                    }
                }
            }
            self.record_events(&service, &decided.events);
            return Some(decided.requeue.map_or(Outcome::Done, Outcome::from));
        }
    }

    /// Writes the patch of a step. Returns false after a conflict with another client's write: the step is to be planned again;
    /// `attempt` counts such writes. No call has been made for it: where the API server takes no writes the key waits, and its
    /// slot is another's.
    ///
    /// # Errors
    /// The outcome.
    pub(super) async fn write_step(
        &self,
        service: &Arc<ServiceView>,
        patch: &StatusPatch,
        attempt: &mut u32,
    ) -> Result<bool, Outcome> {
        let undone = patch.undone(service);
        if let Some(undone) = undone {
            self.report_other_writer(service, undone).await;
        }
        let write = self.writer.write_once(service, patch);
        match self.noted(service, patch, write).await {
            Ok(Some(_)) => {
                let now = self.decisions.now();
                let key = ServiceKey::of(service);
                self.decisions.states.with(&key, |state| {
                    if undone.is_some() {
                        state.progress.repaired(now);
                    } else if patch.finalizer == Some(FinalizerChange::Add) {
                        state.started.get_or_insert_with(Instant::now);
                    }
                });
                Ok(true)
            }
            // The store's deletion event ends the queue entry.
            Ok(None) => Err(Outcome::Done),
            Err(error) if is_retried(&error, attempt) => Ok(false),
            Err(error) => Err(self.write_failed(service, patch, &error)),
        }
    }

    /// Names the client that has undone our write, from the second time on. Its entry among the managedFields goes with the
    /// next write.
    async fn report_other_writer(&self, service: &ServiceView, undone: Undone) {
        let now = self.decisions.now();
        let key = ServiceKey::of(service);
        let is_again = |state: &mut ServiceState| state.progress.is_undone_again(now);
        if self.decisions.states.with(&key, is_again) {
            let entries = self.writer.managed_fields(service).await;
            self.record_event(service, &EventContent::overwritten(undone, &entries));
        }
    }

    /// Makes `write`, which writes `patch`: its record is no foreign one, as soon as the watch may show it.
    async fn noted(
        &self,
        service: &Arc<ServiceView>,
        patch: &StatusPatch,
        write: impl Future<Output = WriteResult>,
    ) -> WriteResult {
        let (states, key) = (&self.decisions.states, ServiceKey::of(service));
        let written = BalancerRecord::of(&patch.applied_to(service, ""));
        let before = states.with(&key, |state| state.progress.write(Some(written)));
        let result = write.await;
        let latest = match &result {
            Ok(Some(_)) => return result,
            Ok(None) => None,
            Err(_) => before,
        };
        states.with(&key, |state| state.progress.write(latest));
        result
    }

    /// Writes `patch`, and if the API server does not take it for its content, the rest without the provider's effects:
    /// they must not keep the addresses from a Service, nor lead to the same call for ever.
    async fn write_with_effects(
        &self,
        service: &Arc<ServiceView>,
        patch: &StatusPatch,
    ) -> WriteResult {
        let write = self.writer.write(service, patch);
        let written = self.noted(service, patch, write).await;
        let (Err(ApiError::Refused(_)), Some((rest, dropped))) =
            (&written, patch.without_effects())
        else {
            return written;
        };
        let write = self.writer.write(service, &rest);
        let rest = self.noted(service, &rest, write).await;
        if let Ok(Some(_)) = rest {
            self.dropped(&service.key, &dropped);
            for (_, report) in dropped.reports() {
                self.record_event(service, &report);
            }
        }
        rest
    }

    /// Logs and counts the result of a call, and converts it for a decision. The result is none if the call was not sent, since
    /// this process stops or the Service has changed, and has no consequence.
    pub(super) fn record_call(
        &self,
        key: &ServiceKey,
        call: &str,
        result: Result<LoadBalancerAnswer, Error>,
    ) -> Option<Answered> {
        let result = match result {
            Ok(answer) => Ok(answer),
            Err(Error::Fenced { .. } | Error::Outdated { .. } | Error::Cancelled { .. }) => {
                return None;
            }
            Err(error) => {
                let (session, live) = (self.provider.session(), self.decisions.live(key));
                let failure = error.failure(session.as_deref().zip(live.as_deref()));
                // The pause of the calls has logged what concerns every Service alike.
                if failure.class.is_for_owner() {
                    // It may be that of many Services, each of which has its event.
                    let cause = match failure.class {
                        // The text quotes what a user wrote, and a user could make more causes than are remembered.
                        ErrorClass::Invalid => format!("{call}: {}", failure.reason),
                        _ => format!("{call}: {}", error.steady()),
                    };
                    let (service, class) = (&*key.name, failure.class.as_str());
                    log_repeated!(warn, self.repeats, &cause, service, class, call, %error, "load balancer call failed");
                }
                Err(Box::new(failure))
            }
        };
        let effects = match &result {
            Ok(answer) => &answer.effects,
            Err(failure) => &failure.effects,
        };
        self.dropped(&key.name, &effects.dropped);
        Some(result)
    }

    fn dropped(&self, service: &str, dropped: &Dropped) {
        let count = dropped.count() as u64;
        self.metrics.effects_dropped.inc_by(count);
        self.provider
            .log_dropped_effects("service", service, dropped);
    }

    /// Logs a write that failed, with an event in upstream's words on the Service, and requeues it.
    fn write_failed(
        &self,
        service: &ServiceView,
        patch: &StatusPatch,
        error: &ApiError,
    ) -> Outcome {
        let doing = match patch.finalizer {
            Some(FinalizerChange::Add) => "add load balancer cleanup finalizer",
            _ => "update load balancer status",
        };
        if error.class().is_for_owner() {
            self.record_event(
                service,
                &EventContent::sync_failed(&format!("failed to {doing}: {error}")),
            );
        }
        // Each Service has its event.
        not_written!(self, service = &*service.key, doing, error)
    }

    /// Records an event on the Service, in its namespace (B-10).
    pub(super) fn record_event(&self, service: &ServiceView, event: &EventContent) {
        self.events
            .event(ObjectRef::service(service), event.clone());
    }

    pub(super) fn record_events(&self, service: &ServiceView, events: &[EventContent]) {
        for event in events {
            self.record_event(service, event);
        }
    }
}

/// Returns true if a write is to be decided again: after a conflict the store has the Service as it is now.
fn is_retried(error: &ApiError, attempt: &mut u32) -> bool {
    *attempt += 1;
    error.class() == ErrorClass::Conflict && *attempt < ATTEMPTS
}

/// The outcome of a deletion that failed: tried at least every 30 s (S-14).
pub(super) fn retry_as_deletion(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Retry => Outcome::RetryWithin(DELETION_WAIT.longest()),
        Outcome::RetrySlowly(limit) => Outcome::RetrySlowly(limit.min(DELETION_WAIT.longest())),
        other => other,
    }
}

/// The result of a call as it is counted.
pub(super) fn call_result(result: &Answered) -> Result<Disposition, ErrorClass> {
    match result {
        Ok(answer) => Ok(answer.disposition),
        Err(failure) => Err(failure.class),
    }
}

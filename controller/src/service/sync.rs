//! Reconciles one Service: takes the next step that core plans, until nothing is left to do.

use std::time::Duration;

use outrigger_core::{
    error_class::ErrorClass,
    service::{
        ownership::{Ownership, is_released},
        plan::{Mode, Step},
    },
};
use tokio::{sync::SemaphorePermit, time::Instant};
use tracing::debug;

use super::{
    ServiceLb,
    key::ServiceKey,
    states::ServiceState,
    write::{ATTEMPTS, WRITING_STATUS},
};
use crate::{
    clock::until,
    queue::{Outcome, Priority},
};

/// How long a Service waits for the end of an earlier one of the same name (S-47): its load balancer
/// may have the address that this one asks for.
const PREDECESSOR: Duration = Duration::from_secs(30);

impl ServiceLb {
    pub(super) async fn sync(&self, key: ServiceKey, priority: Priority) -> Outcome {
        let left_behind = self.states.with(&key, |state| state.left_behind.clone());
        match (self.live(&key), left_behind) {
            (None, None) => {
                self.states.with(&key, ServiceState::reset);
                Outcome::Done
            }
            (None, Some(gone)) => self.clean_up(&key, gone).await,
            (Some(_), None) => self.run_steps(&key, priority).await,
            (Some(service), Some(gone)) => {
                let capability = self.capability();
                if is_released(&gone.service, &service, capability.as_deref()) {
                    return self.clean_up(&key, gone).await;
                }
                // This controller is responsible for it again.
                self.states.with(&key, |state| state.left_behind = None);
                self.run_steps(&key, priority).await
            }
        }
    }

    /// Takes one step after the other, until the rest is the queue's or the Service is as wanted.
    async fn run_steps(&self, key: &ServiceKey, priority: Priority) -> Outcome {
        let mut permit: Option<SemaphorePermit<'_>> = None;
        let mut attempt = 0;
        loop {
            let Some(service) = self.live(key) else {
                // The store's deletion event ends the queue entry.
                return Outcome::Done;
            };
            let Some(inputs) = self.inputs() else {
                return Outcome::Retry;
            };
            let (step, mode) = self.decide(key, &service, &inputs, |progress, now, facts| {
                let step = progress.next(now, &service, facts);
                let mode = progress.mode(&step, &service, facts);
                (step, mode)
            });
            let is_prepare = matches!(step, Step::Prepare(_));
            if is_prepare || matches!(step, Step::Ensure(_) | Step::Delete { .. }) {
                let ownership = Ownership::of(&service, Some(&inputs.capability));
                if ownership == Ownership::Provide
                    && let Some(left) = self.waits_for_predecessor(key)
                {
                    return Outcome::RetryAfter(left);
                }
                if priority != Priority::Background {
                    match mode {
                        Mode::Alone => {}
                        Mode::Batch => return Outcome::RunAgain(Priority::Batch),
                        Mode::Background => return Outcome::RunAgain(Priority::Background),
                    }
                }
                if permit.is_none() {
                    permit = self.permit(priority).await;
                    if permit.is_none() {
                        return Outcome::Retry;
                    }
                    // That took a while, and the Service may be another now.
                    continue;
                }
            }
            let (patch, events, doing) = match step {
                Step::Idle => {
                    if self.drifted(key, &service, &inputs).await {
                        continue;
                    }
                    return Outcome::Done;
                }
                Step::At(time) => return Outcome::RetryAfter(until(time, self.now())),
                Step::Update => return Outcome::RunAgain(Priority::Batch),
                Step::Ensure(ensure) => {
                    let is_background = mode != Mode::Alone;
                    return self
                        .ensure(key, service, ensure, &inputs, is_background)
                        .await;
                }
                Step::Delete { events } => {
                    return self.delete(key, service, &inputs, &events).await;
                }
                Step::Hold { why, patch, events } => {
                    let reason = why.reason();
                    debug!(service = &*key.name, reason, "Service held");
                    let Some(patch) = patch else {
                        return Outcome::Done;
                    };
                    (patch, events, WRITING_STATUS)
                }
                Step::EndWait(patch) => (patch, Vec::new(), WRITING_STATUS),
                Step::Prepare(patch) => (patch, Vec::new(), "add load balancer cleanup finalizer"),
            };
            match self.writer.write(&service, &patch).await {
                Ok(Some(_)) if is_prepare => {
                    if patch.finalizer.is_some() {
                        self.states
                            .with(key, |state| *state.started.get_or_insert_with(Instant::now));
                    }
                }
                Ok(Some(_)) => {
                    self.record_events(&service, &events);
                    // Targets of a Service that is held block the rollout no longer.
                    self.rollout.applied.progressed();
                    return Outcome::Done;
                }
                Ok(None) => return Outcome::Done,
                Err(error) => {
                    attempt += 1;
                    // After a conflict the store has the Service as it is now.
                    if error.class() != ErrorClass::Conflict || attempt >= ATTEMPTS {
                        return self.write_failed(&service, doing, &error);
                    }
                }
            }
        }
    }

    /// Waits until fewer Services are ensured or deleted than the flag's number; background work, which the
    /// queue limits, has permits of its own. None: the loop stops.
    pub(super) async fn permit(&self, priority: Priority) -> Option<SemaphorePermit<'_>> {
        let permits = match priority {
            Priority::Background => &self.background,
            Priority::Fresh | Priority::Batch | Priority::Bulk => &self.foreground,
        };
        permits.acquire().await.ok()
    }

    fn waits_for_predecessor(&self, key: &ServiceKey) -> Option<Duration> {
        let since = self.states.predecessor(key)?;
        let left = PREDECESSOR.checked_sub(since.elapsed())?;
        (!left.is_zero()).then_some(left)
    }
}

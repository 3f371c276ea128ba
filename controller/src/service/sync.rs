//! One Service: what is to be done now, until nothing is.

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

use super::{ServiceLb, event_handlers::ServiceKey, states::ServiceState, write::ATTEMPTS};
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
                // It is in our hands again.
                self.states.with(&key, |state| state.left_behind = None);
                self.run_steps(&key, priority).await
            }
        }
    }

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
            match &step {
                Step::Idle => {
                    if !self.drifted(key, &service, &inputs).await {
                        return Outcome::Done;
                    }
                    continue;
                }
                Step::Hold { why, patch, events } => {
                    debug!(
                        service = &*key.name,
                        reason = why.reason(),
                        "the Service is held"
                    );
                    let Some(patch) = patch else {
                        return Outcome::Done;
                    };
                    match self.writer.write(&service, patch).await {
                        Ok(Some(_)) => {
                            self.record_events(&service, events);
                            // Its targets hold up the others no longer.
                            self.rollout.applied.progressed();
                            return Outcome::Done;
                        }
                        Ok(None) => return Outcome::Done,
                        Err(error) => {
                            attempt += 1;
                            if error.class() != ErrorClass::Conflict || attempt >= ATTEMPTS {
                                return self.write_failed(&service, "say why it is held", &error);
                            }
                            continue;
                        }
                    }
                }
                Step::EndWait(patch) => match self.writer.write(&service, patch).await {
                    Ok(_) => return Outcome::Done,
                    Err(error) => {
                        attempt += 1;
                        if error.class() != ErrorClass::Conflict || attempt >= ATTEMPTS {
                            return self.write_failed(
                                &service,
                                "say that it waits no more",
                                &error,
                            );
                        }
                        continue;
                    }
                },
                Step::At(time) => return Outcome::RetryAfter(until(*time, self.now())),
                Step::Update => return Outcome::RunAgain(Priority::Batch),
                Step::Prepare(_) | Step::Ensure(_) | Step::Delete { .. } => {}
            }
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
            match step {
                Step::Prepare(patch) => match self.writer.write(&service, &patch).await {
                    Ok(Some(_)) => {
                        if patch.finalizer.is_some() {
                            self.states
                                .with(key, |state| *state.started.get_or_insert_with(Instant::now));
                        }
                    }
                    Ok(None) => return Outcome::Done,
                    Err(error) => {
                        attempt += 1;
                        // Else the store knows by now what it has become.
                        if error.class() != ErrorClass::Conflict || attempt >= ATTEMPTS {
                            return self.write_failed(
                                &service,
                                "add load balancer cleanup finalizer",
                                &error,
                            );
                        }
                    }
                },
                Step::Ensure(ensure) => {
                    let is_background = mode != Mode::Alone;
                    return self
                        .ensure(key, service, ensure, &inputs, is_background)
                        .await;
                }
                Step::Delete { events } => {
                    return self.delete(key, service, &inputs, &events).await;
                }
                Step::Idle | Step::Hold { .. } | Step::EndWait(_) | Step::At(_) | Step::Update => {}
            }
        }
    }

    /// Waits until fewer Services are worked on than the flag's number; background work, which the queue
    /// limits, has turns of its own. None: the loop stops.
    pub(super) async fn permit(&self, priority: Priority) -> Option<SemaphorePermit<'_>> {
        let turns = match priority {
            Priority::Background => &self.background,
            Priority::Fresh | Priority::Batch | Priority::Bulk => &self.foreground,
        };
        turns.acquire().await.ok()
    }

    fn waits_for_predecessor(&self, key: &ServiceKey) -> Option<Duration> {
        let since = self.states.predecessor(key)?;
        let left = PREDECESSOR.checked_sub(since.elapsed())?;
        (!left.is_zero()).then_some(left)
    }
}

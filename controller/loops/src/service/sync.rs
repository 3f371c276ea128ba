//! Reconciles one Service: takes the next step that core plans, until nothing is left to do.

use std::time::Duration;

use outrigger_core::{
    error_class::ErrorClass,
    service::{
        ownership::{Ownership, is_released},
        plan::{Mode, Step},
    },
};
use tokio::time::Instant;
use tracing::debug;

use super::{
    ServiceLb,
    key::ServiceKey,
    states::ServiceState,
    write::{ATTEMPTS, WRITING_STATUS},
};
use outrigger_provider_client::Slot;
use outrigger_runtime::{
    clock::until,
    queue::{Outcome, Priority},
};

/// How long a Service waits for the end of an earlier one of the same name (S-47): its load balancer
/// may have the address that this one asks for.
const PREDECESSOR: Duration = Duration::from_secs(30);

impl ServiceLb {
    /// Without a `slot` no call is made: the Service is left to the lane of calls that its next step belongs to.
    pub(super) async fn sync(
        &self,
        key: &ServiceKey,
        priority: Priority,
        slot: Option<Slot>,
    ) -> Outcome {
        let left_behind = self.states.with(key, |state| {
            state.comparison = None;
            state.left_behind.clone()
        });
        match (self.live(key), left_behind) {
            (None, None) => {
                self.states.with(key, ServiceState::reset);
                Outcome::Done
            }
            (None, Some(gone)) => self.clean_up(key, gone, priority, slot).await,
            (Some(_), None) => self.run_steps(key, priority, slot).await,
            (Some(service), Some(gone)) => {
                let capability = self.capability();
                if is_released(&gone.service, &service, capability.as_deref()) {
                    return self.clean_up(key, gone, priority, slot).await;
                }
                // This controller is responsible for it again.
                self.states.with(key, |state| state.left_behind = None);
                self.run_steps(key, priority, slot).await
            }
        }
    }

    /// Takes one step after the other, until the rest is the queue's or the Service is as wanted.
    async fn run_steps(
        &self,
        key: &ServiceKey,
        priority: Priority,
        mut slot: Option<Slot>,
    ) -> Outcome {
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
            let is_call = matches!(step, Step::Ensure(_) | Step::Delete { .. });
            let lane = match mode {
                Mode::Alone => priority.call(),
                Mode::Batch => Priority::Batch,
                Mode::Background if self.states.has_turn(key) => Priority::BulkCall,
                Mode::Background => Priority::Background,
            };
            if is_prepare || is_call {
                let ownership = Ownership::of(&service, Some(&inputs.capability));
                if ownership == Ownership::Provide
                    && let Some(left) = self.waits_for_predecessor(key)
                {
                    return Outcome::RetryAfter(left);
                }
                // A write needs no slot, but one in the background is part of the turn.
                let needs_turn = is_call || mode != Mode::Alone;
                if needs_turn && ![lane, Priority::Background].contains(&priority) {
                    return Outcome::RunAgain(lane);
                }
            }
            let slot_of_call = slot.take_if(|_| !is_prepare).filter(|_| is_call);
            let (patch, events, doing) = match step {
                Step::Idle => return Outcome::Done,
                Step::At(time) => return Outcome::RetryAfter(until(time, self.now())),
                Step::Update => return Outcome::RunAgain(Priority::Batch),
                Step::Ensure(ensure) => {
                    let Some(slot) = slot_of_call else {
                        return Outcome::RunAgain(lane);
                    };
                    let is_background = mode != Mode::Alone;
                    return self
                        .ensure(key, service, ensure, &inputs, slot, is_background)
                        .await;
                }
                Step::Delete { events } => {
                    let Some(slot) = slot_of_call else {
                        return Outcome::RunAgain(lane);
                    };
                    return self.delete(key, service, &inputs, slot, &events).await;
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

    fn waits_for_predecessor(&self, key: &ServiceKey) -> Option<Duration> {
        let since = self.states.predecessor(key)?;
        let left = PREDECESSOR.checked_sub(since.elapsed())?;
        (!left.is_zero()).then_some(left)
    }
}

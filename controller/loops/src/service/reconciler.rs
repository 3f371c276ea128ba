//! Reconciles one Service: takes the next step that core plans, until nothing is left to do.

use std::{borrow::Cow, sync::Arc, time::Duration};

use outrigger_core::{
    service::{
        ServiceView,
        answer::Disposition,
        ownership::{is_claimed, is_released},
        plan::{BalancerCall, Ensure, Manner, Step},
    },
    targets::{Revision, Targets},
};
use tokio::{task::yield_now, time::Instant};
use tracing::{debug, info};

use super::{
    cleanup::Cleanup,
    lease_targets::NotBegun,
    rollout::Rollout,
    states::{ServiceKey, ServiceState},
    term::{DecisionInputs, ServiceTerm},
    write::{WRITING_STATUS, Writes, call_result},
};
use outrigger_provider_client::{self as provider_client, EnsureInput, Slot};
use outrigger_runtime::{
    clock::until,
    queue::{Outcome, Priority},
};

/// How long a Service waits for the end of an earlier one of the same name (S-47): its load balancer
/// may have the address that this one asks for.
const PREDECESSOR: Duration = Duration::from_secs(30);

/// Plans the next step of a Service, makes its call and writes the result.
pub(super) struct Reconciler {
    pub(super) term: Arc<ServiceTerm>,
    pub(super) writes: Arc<Writes>,
    pub(super) rollout: Arc<Rollout>,
    pub(super) cleanup: Cleanup,
}

impl Reconciler {
    /// Without a `slot` no call is made: the Service is left to the lane of calls that its next step belongs to.
    pub(super) async fn sync(
        &self,
        key: &ServiceKey,
        priority: Priority,
        slot: Option<Slot>,
    ) -> Outcome {
        let orphaned = self.term.states.with(key, |state| {
            state.comparison = None;
            state.orphaned.clone()
        });
        match (self.term.live(key), orphaned) {
            (None, None) => {
                self.term.states.with(key, ServiceState::reset);
                Outcome::Done
            }
            (None, Some(orphaned)) => self.cleanup.clean_up(key, orphaned, priority, slot).await,
            (Some(_), None) => self.run_steps(key, priority, slot).await,
            (Some(service), Some(orphaned)) => {
                let capability = self.term.capability();
                if is_released(&orphaned.service, &service, capability.as_deref()) {
                    return self.cleanup.clean_up(key, orphaned, priority, slot).await;
                }
                // This controller is responsible for it again.
                self.term.states.with(key, |state| state.orphaned = None);
                self.run_steps(key, priority, slot).await
            }
        }
    }

    /// Takes one step after the other, until the rest is the queue's or the Service is in its desired state.
    async fn run_steps(
        &self,
        key: &ServiceKey,
        priority: Priority,
        mut slot: Option<Slot>,
    ) -> Outcome {
        let mut attempt = 0;
        loop {
            let Some(service) = self.term.live(key) else {
                // The store's deletion event ends the queue entry.
                return Outcome::Done;
            };
            let Some(inputs) = self.term.inputs() else {
                return Outcome::Retry;
            };
            let step = self.term.next(key, &service, &inputs);
            let (patch, held_events) = match step {
                Step::Idle => return Outcome::Done,
                Step::At(time) => return Outcome::RetryAfter(until(time, self.term.now())),
                Step::Update => {
                    return match slot {
                        Some(slot) => {
                            self.update(key, &service, &inputs, slot, Outcome::Done)
                                .await
                        }
                        None => Outcome::RunAgain(Priority::Update),
                    };
                }
                Step::Ensure(mut ensure) => {
                    if let Some(left) = self.waits_for_predecessor(key) {
                        return Outcome::RetryAfter(left);
                    }
                    if ensure.manner == Manner::Background {
                        let then = Outcome::RunAgain(Priority::BulkCall);
                        // Targets do not wait behind thousands of other load balancers.
                        let is_first = priority != Priority::BulkCall
                            && self.needs_targets(key, &service, &inputs);
                        match slot {
                            Some(slot) if is_first => {
                                return self.update(key, &service, &inputs, slot, then).await;
                            }
                            None if is_first => return Outcome::RunAgain(Priority::Update),
                            Some(_) if priority == Priority::BulkCall => {}
                            _ => return then,
                        }
                    }
                    // The write before the call needs no slot.
                    if let Some(patch) = ensure.prepare.take() {
                        let doing = "add load balancer cleanup finalizer";
                        let written = self
                            .writes
                            .write_step(&service, &patch, doing, &mut attempt);
                        match written.await {
                            Ok(_) if patch.finalizer.is_some() => {
                                self.term.states.with(key, |state| {
                                    state.started.get_or_insert_with(Instant::now);
                                });
                            }
                            Ok(_) => {}
                            Err(Some(outcome)) => return outcome,
                            Err(None) => continue,
                        }
                    }
                    return match slot {
                        Some(slot) => self.ensure(key, &service, ensure, &inputs, slot).await,
                        None => Outcome::RunAgain(priority.call()),
                    };
                }
                Step::Delete { events } => {
                    return match slot {
                        Some(slot) => {
                            let cleanup = &self.cleanup;
                            cleanup.delete(key, service, &inputs, slot, &events).await
                        }
                        None => Outcome::RunAgain(priority.call()),
                    };
                }
                Step::Hold { why, patch, events } => {
                    debug!(service = &*key.name, reason = why.reason(), "Service held");
                    let Some(patch) = patch else {
                        return Outcome::Done;
                    };
                    (patch, Some(events))
                }
                Step::Write(patch) => (patch, None),
            };
            slot = None;
            let written = self
                .writes
                .write_step(&service, &patch, WRITING_STATUS, &mut attempt);
            match (written.await, held_events) {
                (Ok(_), Some(events)) => {
                    self.writes.record_events(&service, &events);
                    // Targets of a Service that is held block the rollout no longer.
                    self.term.record.progressed();
                    return Outcome::Done;
                }
                (Err(Some(outcome)), _) => return outcome,
                (Ok(_), None) | (Err(None), _) => {}
            }
        }
    }

    fn waits_for_predecessor(&self, key: &ServiceKey) -> Option<Duration> {
        let since = self.term.states.predecessor(key)?;
        let left = PREDECESSOR.checked_sub(since.elapsed())?;
        (!left.is_zero()).then_some(left)
    }

    async fn ensure(
        &self,
        key: &ServiceKey,
        planned: &Arc<ServiceView>,
        mut ensure: Ensure,
        inputs: &DecisionInputs,
        slot: Slot,
    ) -> Outcome {
        let cause = ensure.cause.as_str();
        self.rollout.refresh_stale().await;
        // Labels and the like may have changed during the writes before.
        let Some(service) = self.term.live(key) else {
            return Outcome::Done;
        };
        let Some((targets, _in_flight)) = self.begin_call(key, &service).await else {
            return Outcome::Retry;
        };
        ensure.set_targets(&targets);
        let states = &self.term.states;
        states.with(key, |state| state.is_cleaned_up = false);
        self.writes.record_events(&service, &ensure.events);
        debug!(
            service = &*key.name,
            cause,
            targets = targets.nodes().len(),
            "ensuring the load balancer"
        );
        let revision = Some(targets.revision().clone());
        let is_current = self.term.is_current(planned, inputs, revision);
        let provider = self.term.provider.only_while(is_current);
        let input = EnsureInput {
            service: Arc::clone(&service),
            targets,
        };
        let called = provider.load_balancers().ensure(&slot, input).await;
        drop(slot);
        let Some(result) = self.writes.record_call(key, "ensure", called) else {
            return Outcome::Retry;
        };
        self.term
            .metrics
            .ensured(ensure.cause, call_result(&result));
        let disposition = result.as_ref().ok().map(|answer| answer.disposition);
        let call = BalancerCall::Ensure(Cow::Borrowed(&ensure));
        let ended = self.writes.apply(key, inputs, &call, &result).await;
        if disposition == Some(Disposition::Ready) {
            info!(service = &*key.name, cause, "the load balancer is ready");
            if let Some(since) = states.with(key, |state| state.started.take()) {
                self.term.metrics.ready(since.elapsed());
            }
        }
        self.requeue_if_outdated(&service, &ensure.revision);
        // The store's deletion event ends the queue entry.
        ended.unwrap_or(Outcome::Done)
    }

    /// Gives the load balancer the current targets, and nothing else. `then` is the outcome of its success.
    async fn update(
        &self,
        key: &ServiceKey,
        service: &Arc<ServiceView>,
        inputs: &DecisionInputs,
        slot: Slot,
        then: Outcome,
    ) -> Outcome {
        let Some((targets, _in_flight)) = self.begin_call(key, service).await else {
            return Outcome::Retry;
        };
        let began = Instant::now();
        let revision = targets.revision().clone();
        let is_current = self
            .term
            .is_current(service, inputs, Some(revision.clone()));
        let provider = self.term.provider.only_while(is_current);
        let input = EnsureInput {
            service: Arc::clone(service),
            targets: Arc::clone(&targets),
        };
        let called = provider.load_balancers().update(&slot, input).await;
        drop(slot);
        if matches!(called, Err(provider_client::Error::Outdated { .. })) {
            return Outcome::RunAgain(Priority::Update);
        }
        let Some(result) = self.writes.record_call(key, "update", called) else {
            return Outcome::Retry;
        };
        self.term
            .metrics
            .updated(began.elapsed(), call_result(&result));
        let call = BalancerCall::Update(Cow::Borrowed(&targets));
        let ended = self.writes.apply(key, inputs, &call, &result).await;
        self.requeue_if_outdated(service, &revision);
        match ended {
            Some(Outcome::Done) => then,
            // The store's deletion event ends the queue entry.
            None => Outcome::Done,
            Some(outcome) => outcome,
        }
    }

    /// Requeues a Service if other targets than `sent` go out since its call: it may have had no load balancer when they were
    /// published.
    fn requeue_if_outdated(&self, service: &ServiceView, sent: &Revision) {
        if self.term.targets.current().revision_of(service) != *sent {
            let key = ServiceKey::of(service);
            self.term.queue.add(key, Priority::Update);
        }
    }

    fn needs_targets(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        inputs: &DecisionInputs,
    ) -> bool {
        // Without finalizer or record the Service gets no call yet.
        is_claimed(service, &inputs.capability)
            && self
                .term
                .decide(key, service, inputs, |progress, _, facts| {
                    progress.needs_targets(service, facts)
                })
    }

    /// The targets of a Service for a call that is in flight until the guard is dropped, once the Lease names no others. No
    /// call begins if this process no longer leads.
    async fn begin_call(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
    ) -> Option<(Arc<Targets>, CallInFlight<'_>)> {
        loop {
            let pool = self.term.targets.current();
            let targets = pool.targets_of(service);
            let in_flight = CallInFlight {
                term: &self.term,
                key: key.clone(),
            };
            let register = || {
                let revision = targets.revision().clone();
                self.term
                    .states
                    .with(key, |state| state.calling = Some(revision));
            };
            // Side by side: the Lease is cleared, and the provider gets the nodes.
            let load_balancers = self.term.provider.load_balancers();
            let (begun, ()) = tokio::select! {
                biased;
                () = self.term.fence.stopped() => return None,
                begun = async {
                    let begun = self.term.record.begin(pool.revision(), register);
                    tokio::join!(begun, load_balancers.sync(&targets))
                } => begun,
            };
            match begun {
                Ok(()) => return self.term.fence.may_call().then_some((targets, in_flight)),
                Err(NotBegun::Outdated) => yield_now().await,
                Err(NotBegun::NotLeading) => return None,
            }
        }
    }
}

/// A call about a Service, from before it is sent until its answer is written.
struct CallInFlight<'a> {
    term: &'a ServiceTerm,
    key: ServiceKey,
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.term
            .states
            .with(&self.key, |state| state.calling = None);
        self.term.record.progressed();
    }
}

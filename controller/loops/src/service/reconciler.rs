//! Reconciles one Service: takes the next step that core plans, until nothing is left to do.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    service::{
        ServiceView,
        answer::Disposition,
        ownership::is_released,
        patch_plan::StatusPatch,
        plan::{BalancerCall, Ensure, Manner, Step},
    },
    targets::{TargetPool, Targets},
};
use tokio::{task::yield_now, time::Instant};
use tracing::{debug, info};

use super::{
    cleanup::Cleanup,
    decisions::{DecisionInputs, Decisions},
    lease_targets::{LeaseTargets, NotBegun},
    metrics::ServiceMetrics,
    rollout::Rollout,
    states::{ServiceKey, ServiceStates},
    write::{Writes, call_result},
};
use crate::queue::{Outcome, Priority, Queue};
use outrigger_provider::{Error, Provider, Slot};
use outrigger_runtime::{clock::until, fence::Fence};

/// The Service is to be looked at once more: with a slot, or since it has changed.
const AGAIN: Outcome = Outcome::RetryAfter(Duration::ZERO);

/// Plans the next step of a Service, makes its call and writes the result.
pub(super) struct Reconciler {
    pub(super) decisions: Arc<Decisions>,
    pub(super) writes: Arc<Writes>,
    pub(super) rollout: Arc<Rollout>,
    pub(super) cleanup: Cleanup,
    pub(super) provider: Provider,
    pub(super) fence: Fence,
    pub(super) lease: Arc<LeaseTargets>,
    pub(super) queue: Queue<ServiceKey>,
    pub(super) metrics: ServiceMetrics,
}

impl Reconciler {
    /// Brings one Service closer to its desired state. At most one call is made, with `slot`.
    pub(super) async fn sync(&self, key: &ServiceKey, priority: Priority, slot: Slot) -> Outcome {
        let orphaned = self.decisions.states.with(key, |state| {
            state.comparison = None;
            state.orphaned.clone()
        });
        let (live, capability) = (self.decisions.live(key), self.decisions.capability());
        let is_left = |last: &Arc<ServiceView>| {
            live.as_ref()
                .is_none_or(|now| is_released(last, now, capability.as_deref()))
        };
        if let Some(orphaned) = orphaned.filter(is_left) {
            return self.cleanup.clean_up(key, &orphaned, slot).await;
        }
        if live.is_none() {
            return self.cleanup.finish(key);
        }
        // This controller is responsible for it, perhaps again.
        self.decisions
            .states
            .with(key, |state| state.orphaned = None);
        self.run_steps(key, priority, slot).await
    }

    /// Takes one step after the other, until the rest is the queue's or the Service is in its desired state.
    async fn run_steps(&self, key: &ServiceKey, priority: Priority, slot: Slot) -> Outcome {
        let mut slot = Some(slot);
        let mut attempt = 0;
        loop {
            let Some(service) = self.decisions.live(key) else {
                // The store's deletion event ends the queue entry.
                return Outcome::Done;
            };
            let Some(inputs) = self.decisions.inputs() else {
                return Outcome::Retry;
            };
            let step = self.decisions.next(key, &service, &inputs);
            // Others get the slot while a write is made that no call follows.
            if let Step::Hold { .. } | Step::Write(_) = step {
                slot = None;
            }
            match step {
                Step::Idle => {
                    // It may be the last of which it was not known whether it has its targets.
                    self.lease.progressed();
                    return Outcome::Done;
                }
                Step::At(time) => return Outcome::RetryAfter(until(time, self.decisions.now())),
                Step::Hold { why, patch, events } => {
                    debug!(service = &*key.name, reason = why.reason(), "Service held");
                    let Some(patch) = patch else {
                        return Outcome::Done;
                    };
                    match self.writes.write_step(&service, &patch, &mut attempt).await {
                        Ok(true) => {
                            self.writes.record_events(&service, &events);
                            // Targets of a Service that is held block the rollout no longer.
                            self.lease.progressed();
                            return Outcome::Done;
                        }
                        Ok(false) => {}
                        Err(outcome) => return outcome,
                    }
                }
                Step::Write(patch) => {
                    let written = self.writes.write_step(&service, &patch, &mut attempt);
                    if let Err(outcome) = written.await {
                        return outcome;
                    }
                }
                Step::Update => {
                    let Some(slot) = slot else { return AGAIN };
                    return self.call(key, &service, None, &inputs, slot).await;
                }
                Step::Ensure(mut ensure) => {
                    if ensure.needs_targets {
                        let Some(slot) = slot else { return AGAIN };
                        self.queue.add(key.clone(), Priority::Bulk);
                        return self.call(key, &service, None, &inputs, slot).await;
                    }
                    if ensure.manner == Manner::Background && priority != Priority::Bulk {
                        self.queue.add(key.clone(), Priority::Bulk);
                        return Outcome::Done;
                    }
                    if let Some(patch) = ensure.prepare.take() {
                        // The slot stays: otherwise the Service would wait for one more call of others.
                        if let Err(outcome) =
                            self.prepare(key, &service, &patch, &mut attempt).await
                        {
                            return outcome;
                        }
                        continue;
                    }
                    let Some(slot) = slot else { return AGAIN };
                    let ensure = Some(ensure);
                    return self.call(key, &service, ensure, &inputs, slot).await;
                }
                Step::Delete { events } => {
                    let Some(slot) = slot else { return AGAIN };
                    let cleanup = &self.cleanup;
                    return cleanup.delete(key, service, &inputs, slot, &events).await;
                }
            }
        }
    }

    /// Writes what a call presumes. The run of the Service looks at its record afterwards, so that the watch that brings it
    /// is no reason for another.
    async fn prepare(
        &self,
        key: &ServiceKey,
        service: &Arc<ServiceView>,
        patch: &StatusPatch,
        attempt: &mut u32,
    ) -> Result<bool, Outcome> {
        let states = &self.decisions.states;
        states.with(key, |state| state.is_preparing = true);
        let written = self.writes.write_step(service, patch, attempt).await;
        states.with(key, |state| {
            state.is_preparing = false;
            if written == Ok(true) && patch.finalizer.is_some() {
                state.started.get_or_insert_with(Instant::now);
            }
        });
        written
    }

    /// Ensures the load balancer; without `ensure` gives it the current targets, and nothing else.
    async fn call(
        &self,
        key: &ServiceKey,
        planned: &Arc<ServiceView>,
        mut ensure: Option<Ensure>,
        inputs: &DecisionInputs,
        slot: Slot,
    ) -> Outcome {
        if ensure.is_some() {
            self.rollout.refresh_stale().await;
        }
        // Labels and the like may have changed during the writes before.
        let Some(service) = self.decisions.live(key) else {
            return Outcome::Done;
        };
        let Some(in_flight) = self.begin_call(key, &service).await else {
            return Outcome::Retry;
        };
        let targets = &in_flight.targets;
        let states = &self.decisions.states;
        let pool = Some(in_flight.pool.revision().clone());
        let is_current = self.decisions.is_current(planned, inputs, pool);
        let provider = self.provider.only_while(is_current);
        let load_balancers = provider.load_balancers();
        let began = Instant::now();
        let called = if let Some(ensure) = &mut ensure {
            ensure.set_targets(targets);
            states.with(key, |state| state.is_cleaned_up = false);
            self.writes.record_events(&service, &ensure.events);
            debug!(
                service = &*key.name,
                cause = ensure.cause.as_str(),
                targets = targets.nodes().len(),
                "ensuring the load balancer"
            );
            load_balancers.ensure(slot, &service, targets).await
        } else {
            load_balancers.update(slot, &service, targets).await
        };
        if matches!(called, Err(Error::Outdated { .. })) {
            return AGAIN;
        }
        let call = match &ensure {
            Some(ensure) => BalancerCall::Ensure(ensure),
            None => BalancerCall::Update(targets),
        };
        let Some(result) = self.writes.record_call(key, call.name(), called) else {
            return Outcome::Retry;
        };
        match &ensure {
            Some(ensure) => self.metrics.ensured(ensure.cause, call_result(&result)),
            None => self.metrics.updated(began.elapsed(), call_result(&result)),
        }
        let ended = self.writes.apply(key, inputs, &call, &result).await;
        if matches!(&result, Ok(answer) if answer.disposition == Disposition::Ready) {
            self.requeue_if_outdated(key);
            if let Some(ensure) = &ensure {
                let cause = ensure.cause.as_str();
                info!(service = &*key.name, cause, "the load balancer is ready");
                if let Some(since) = states.with(key, |state| state.started.take()) {
                    self.metrics.ready(since.elapsed());
                }
            }
        }
        // The store's deletion event ends the queue entry.
        ended.unwrap_or(Outcome::Done)
    }

    /// Requeues a Service whose call has succeeded if other targets go out since: it may have had no load balancer when
    /// they were published. After a failure they go with the next try, which must not come sooner.
    fn requeue_if_outdated(&self, key: &ServiceKey) {
        let pool = self.decisions.pool();
        let states = &self.decisions.states;
        if !states.with(key, |state| state.is_in_sync_with(&pool)) {
            self.queue.add(key.clone(), Priority::Update);
        }
    }

    /// A call about a Service with the targets that go out now, once the Lease names no others. No call begins if this process
    /// no longer leads.
    async fn begin_call(&self, key: &ServiceKey, service: &ServiceView) -> Option<CallInFlight> {
        loop {
            let pool = self.decisions.pool();
            let call = CallInFlight {
                targets: pool.targets_of(service),
                pool,
                key: key.clone(),
                states: Arc::clone(&self.decisions.states),
                lease: Arc::clone(&self.lease),
            };
            let register = || {
                let revision = call.pool.revision().clone();
                call.states.with(key, |state| {
                    state.calling = Some(revision);
                    state.has_been_called = true;
                });
            };
            // Side by side: the Lease is cleared, and the provider gets the nodes.
            let load_balancers = self.provider.load_balancers();
            let (begun, ()) = tokio::select! {
                biased;
                () = self.fence.stopped() => return None,
                begun = async {
                    let begun = self.lease.begin(call.pool.revision(), register);
                    tokio::join!(begun, load_balancers.sync(&call.targets))
                } => begun,
            };
            match begun {
                Ok(()) => return self.fence.may_call().then_some(call),
                Err(NotBegun::Outdated) => yield_now().await,
                Err(NotBegun::NotLeading) => return None,
            }
        }
    }
}

/// A call about a Service, from before it is sent until its answer is written.
struct CallInFlight {
    key: ServiceKey,
    pool: Arc<TargetPool>,
    targets: Arc<Targets>,
    states: Arc<ServiceStates>,
    lease: Arc<LeaseTargets>,
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.states.with(&self.key, |state| state.calling = None);
        self.lease.progressed();
    }
}

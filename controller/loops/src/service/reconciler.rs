//! Reconciles one Service: takes the next step that core plans, until nothing is left to do.
//!
//! The queue calls [`Reconciler::sync`] with the slot of one call, so that at most one call is made in a run. After each
//! write the next step is planned with the Service as it is then.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    service::{
        ServiceView,
        answer::Disposition,
        ownership::is_released,
        plan::{BalancerCall, Ensure, Manner, Step},
    },
    targets::{TargetPool, Targets},
};
use tokio::{task::yield_now, time::Instant};
use tracing::info;

use super::{
    decisions::{DecisionInputs, Decisions},
    lease_targets::{LeaseTargets, NotBegun},
    metrics::ServiceMetrics,
    rollout::Rollout,
    states::{ServiceKey, ServiceStates},
    write::call_result,
};
use crate::queue::{Outcome, Priority, Queue};
use outrigger_kube::{events::Recorder, services::ServiceWriter};
use outrigger_provider::{Error, Provider, Slot};
use outrigger_runtime::{clock::until, fence::Fence, telemetry::Repeats};

/// Plans the next step of a Service, makes its call and writes the result.
pub(super) struct Reconciler {
    pub(super) decisions: Arc<Decisions>,
    pub(super) rollout: Arc<Rollout>,
    pub(super) provider: Provider,
    pub(super) fence: Fence,
    pub(super) lease: Arc<LeaseTargets>,
    pub(super) queue: Queue<ServiceKey>,
    pub(super) metrics: ServiceMetrics,
    pub(super) writer: ServiceWriter,
    pub(super) events: Recorder,
    pub(super) repeats: Arc<Repeats>,
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
            return self.clean_up(key, &orphaned, slot).await;
        }
        if live.is_none() {
            return self.finish(key);
        }
        // This controller is responsible for it, perhaps again.
        self.decisions
            .states
            .with(key, |state| state.orphaned = None);
        self.run_steps(key, priority, slot).await
    }

    /// Takes one step after the other, until the rest is the queue's or the Service is in its desired state. The slot stays
    /// meanwhile: otherwise the Service would wait for one more call of others.
    async fn run_steps(&self, key: &ServiceKey, priority: Priority, slot: Slot) -> Outcome {
        let mut attempt = 0;
        loop {
            let Some(service) = self.decisions.live(key) else {
                // The store's deletion event ends the queue entry.
                return Outcome::Done;
            };
            let Some(inputs) = self.decisions.inputs() else {
                return Outcome::Retry;
            };
            match self.decisions.next(key, &service, &inputs) {
                Step::Idle | Step::Hold { patch: None, .. } => {
                    // It may be the last of which it was not known whether it has its targets.
                    self.lease.progressed();
                    return Outcome::Done;
                }
                Step::At(time) => return Outcome::RetryAfter(until(time, self.decisions.now())),
                Step::Hold {
                    patch: Some(patch),
                    events,
                    ..
                } => match self.write_step(&service, &patch, &mut attempt).await {
                    Ok(true) => self.record_events(&service, &events),
                    Ok(false) => {}
                    Err(outcome) => return outcome,
                },
                Step::Write(patch) => {
                    let written = self.write_step(&service, &patch, &mut attempt);
                    if let Err(outcome) = written.await {
                        return outcome;
                    }
                }
                Step::Ensure(ensure)
                    if ensure.manner == Manner::Background && priority == Priority::Update =>
                {
                    self.queue.add(key.clone(), Priority::Bulk);
                    return Outcome::Done;
                }
                Step::Ensure(ensure) => {
                    self.rollout.refresh_stale().await;
                    return self.call(key, &service, Some(ensure), &inputs, slot).await;
                }
                Step::Update => return self.call(key, &service, None, &inputs, slot).await,
                Step::Delete { events } => {
                    return self.delete(key, service, &inputs, slot, &events).await;
                }
            }
        }
    }

    /// Ensures the load balancer; without `ensure` gives it the current targets, and nothing else.
    async fn call(
        &self,
        key: &ServiceKey,
        planned: &Arc<ServiceView>,
        ensure: Option<Ensure>,
        inputs: &DecisionInputs,
        slot: Slot,
    ) -> Outcome {
        // Labels and the like may have changed meanwhile.
        let Some(service) = self.decisions.live(key) else {
            return Outcome::Done;
        };
        let Some(in_flight) = self.begin_call(key, &service).await else {
            return Outcome::Retry;
        };
        let targets = &in_flight.targets;
        let pool = Some(in_flight.pool.revision().clone());
        let is_current = self.decisions.is_current(planned, inputs, pool);
        let provider = self.provider.only_while(is_current);
        let load_balancers = provider.load_balancers();
        let began = Instant::now();
        let (call, called) = if let Some(ensure) = &ensure {
            self.record_events(&service, &ensure.events(targets));
            let called = load_balancers.ensure(slot, &service, targets).await;
            (BalancerCall::Ensure(ensure, targets), called)
        } else {
            let called = load_balancers.update(slot, &service, targets).await;
            (BalancerCall::Update(targets), called)
        };
        if matches!(called, Err(Error::Outdated { .. })) {
            // The Service has changed.
            return Outcome::RetryAfter(Duration::ZERO);
        }
        let Some(result) = self.record_call(key, call.name(), called) else {
            return Outcome::Retry;
        };
        match &ensure {
            Some(ensure) => self.metrics.ensured(ensure.cause, call_result(&result)),
            None => self.metrics.updated(began.elapsed(), call_result(&result)),
        }
        let ended = self.apply(key, inputs, &call, &result).await;
        if let Some(ensure) = &ensure
            && matches!(&result, Ok(answer) if answer.disposition == Disposition::Ready)
        {
            let cause = ensure.cause.as_str();
            info!(service = &*key.name, cause, "the load balancer is ready");
            let states = &self.decisions.states;
            if let Some(since) = states.with(key, |state| state.started.take()) {
                let took = since.elapsed().as_secs_f64();
                self.metrics.time_to_ready.observe(took);
            }
        }
        // The store's deletion event ends the queue entry.
        ended.unwrap_or(Outcome::Done)
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

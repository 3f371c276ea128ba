//! Core's decisions about each Service of a lease term, and the facts that they rest on. Nothing is called or written here.
//!
//! The reconciler, the rollout and the checks ask; each question reads the Service, the provider's declarations and the
//! targets of that moment, and notes the decision for `explain`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use outrigger_core::{
    decision::DecisionReason,
    service::{
        ServiceView,
        answer::LoadBalancerAnswer,
        capability::Capability,
        change::needs_sync,
        ownership::Ownership,
        plan::{BalancerCall, Consequence, Failure, ServiceFacts, Step},
    },
    targets::{Revision, TargetPool},
};
use parking_lot::RwLock;

use super::{
    lease_targets::LeaseTargets,
    states::{ServiceKey, ServiceState, ServiceStates},
};
use outrigger_kube::store::Store;
use outrigger_provider::Provider;
use outrigger_runtime::{
    clock::{Clock, time_of_day},
    history::{self, History},
};

/// Component of the loop's events and decisions, and who it is to the API server (S-4).
pub const COMPONENT: &str = "service-controller";

/// The result of a call.
pub(super) type Answered = Result<LoadBalancerAnswer, Box<Failure>>;

/// The Services of one lease term, with the inputs of decisions about them.
pub(super) struct Decisions {
    pub(super) services: Arc<Store<ServiceView>>,
    pub(super) states: Arc<ServiceStates>,
    /// The targets that go out now.
    pub(super) targets: RwLock<Arc<TargetPool>>,
    /// For its declarations.
    pub(super) provider: Provider,
    /// For the record that the term began with.
    pub(super) lease: Arc<LeaseTargets>,
    pub(super) clock: Clock,
    pub(super) history: History,
}

/// Facts beside the Service, at one moment.
pub(super) struct DecisionInputs {
    pub(super) capability: Arc<Capability>,
    pub(super) pool: Arc<TargetPool>,
}

impl Decisions {
    /// The Service of this key in the store.
    pub(super) fn live(&self, key: &ServiceKey) -> Option<Arc<ServiceView>> {
        let service = self.services.get(&key.name)?;
        (*service.uid == *key.uid).then_some(service)
    }

    /// The Services for which `holds` says yes.
    pub(super) fn keys(&self, holds: impl Fn(&ServiceView) -> bool) -> Vec<ServiceKey> {
        let mut keys = Vec::new();
        self.services.for_each(|service| {
            if holds(service) {
                keys.push(ServiceKey::of(service));
            }
        });
        keys
    }

    /// The provider's declarations; none while there is no connection, or it serves no load
    /// balancers.
    pub(super) fn capability(&self) -> Option<Arc<Capability>> {
        capability(&self.provider)
    }

    /// The targets that go out now.
    pub(super) fn pool(&self) -> Arc<TargetPool> {
        Arc::clone(&self.targets.read())
    }

    /// The result is none if the provider went away after the key was taken, and the queue's gate closes; or if it
    /// declares other rules for targets than they were selected by: soon they are selected again, and the Services queued.
    pub(super) fn inputs(&self) -> Option<DecisionInputs> {
        let inputs = self.inputs_of(self.capability()?);
        (*inputs.pool.rules() == inputs.capability.targets).then_some(inputs)
    }

    pub(super) fn inputs_of(&self, capability: Arc<Capability>) -> DecisionInputs {
        DecisionInputs {
            capability,
            pool: self.pool(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides about `service`, the one of this key as it is now. Its selector is evaluated for it.
    pub(super) fn decide<T>(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        inputs: &DecisionInputs,
        decide: impl FnOnce(&mut ServiceState, &ServiceFacts<'_>) -> T,
    ) -> T {
        let targets = inputs.pool.targets_of(service);
        let facts = ServiceFacts {
            capability: &inputs.capability,
            targets: targets.revision(),
            now: self.now(),
            time_of_day: time_of_day(),
        };
        self.states.with(key, |state| {
            if !std::mem::replace(&mut state.has_begun, true) {
                let inheritance = self.lease.inheritance(inputs.pool.revision());
                state.progress.begin_term(inheritance, service, &facts);
            }
            let decided = decide(state, &facts);
            let is_in_sync = state.progress.has_targets(&facts);
            state.in_sync_with = is_in_sync.then(|| inputs.pool.revision().clone());
            decided
        })
    }

    /// The next step for `service`, the one of this key as it is now.
    pub(super) fn next(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        inputs: &DecisionInputs,
    ) -> Step {
        self.decide(key, service, inputs, |state, facts| {
            let progress = &mut state.progress;
            progress.check_record(service);
            let step = progress.next(service, facts);
            self.explain(service, "next_step", || {
                DecisionReason::of_step(service, facts, progress, &step)
            });
            step
        })
    }

    /// The consequence of the answer to `call` for `service`, the one of this key as it is now.
    pub(super) fn conclude(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        call: &BalancerCall<'_>,
        result: &Answered,
        inputs: &DecisionInputs,
    ) -> Consequence {
        self.decide(key, service, inputs, |state, facts| {
            let progress = &mut state.progress;
            progress.check_record(service);
            let consequence = progress.concluded(service, call, result, facts);
            self.explain(service, call.name(), || {
                DecisionReason::of_answer(result, &consequence)
            });
            consequence
        })
    }

    fn explain(
        &self,
        service: &ServiceView,
        kind: &'static str,
        why: impl FnOnce() -> DecisionReason,
    ) {
        let object = history::service(service.namespace(), service.name());
        self.history.decided(COMPONENT, object, kind, why);
    }

    /// The Services that may have to get the targets of `inputs`, or to lose their hash. A selector is not evaluated for it.
    pub(super) fn may_lack_targets(&self, inputs: &DecisionInputs) -> Vec<ServiceKey> {
        self.keys(|service| {
            let key = ServiceKey::of(service);
            if !may_concern(service) {
                return false;
            }
            if !service.selects() {
                // Says whether it is in sync.
                self.decide(&key, service, inputs, |_, _| ());
            }
            self.states.with(&key, |state| {
                !state.is_in_sync_with(&inputs.pool)
                    && state.progress.follows_targets(service, &inputs.capability)
            })
        })
    }

    /// Returns true if a Service keeps the Lease from naming the targets of `inputs`.
    pub(super) fn blocks_lease(&self, inputs: &DecisionInputs) -> bool {
        self.services.any(|service| {
            may_concern(service)
                && self.states.with(&ServiceKey::of(service), |state| {
                    let is_called_with_others = state
                        .calling
                        .as_ref()
                        .is_some_and(|calling| calling != inputs.pool.revision());
                    is_called_with_others
                        || (!state.is_in_sync_with(&inputs.pool)
                            && state.progress.counts_for_lease(service, &inputs.capability))
                })
        })
    }

    /// Returns true if a call about the Service still carries its desired state: the Service may have been edited, held
    /// or deleted since it was read. Such a change has queued it again. A call that is made once more, as after
    /// `NODE_SET_UNKNOWN`, has to carry the targets of that moment too: those of the pool of this revision.
    pub(super) fn is_current(
        self: &Arc<Self>,
        service: &Arc<ServiceView>,
        inputs: &DecisionInputs,
        pool: Option<Revision>,
    ) -> impl Fn() -> bool + Send + Sync + 'static {
        let (decisions, planned) = (Arc::clone(self), Arc::clone(service));
        let capability = Arc::clone(&inputs.capability);
        let is_repeated = AtomicBool::new(false);
        move || {
            let pool = pool
                .as_ref()
                .filter(|_| is_repeated.swap(true, Ordering::Relaxed));
            decisions.services.get(&planned.key).is_some_and(|now| {
                now.uid == planned.uid
                    && (Arc::ptr_eq(&now, &planned) || !needs_sync(&planned, &now, &capability))
                    && (now.has_finalizer() || !planned.has_finalizer())
                    && pool.is_none_or(|revision| decisions.pool().revision() == revision)
            })
        }
    }
}

/// The provider's declarations.
pub(super) fn capability(provider: &Provider) -> Option<Arc<Capability>> {
    let session = provider.session()?;
    let load_balancers = session.load_balancers.as_ref()?;
    Some(Arc::clone(&load_balancers.capability))
}

/// Returns true if the Service can want something of any provider, or says that it still does; most can not.
pub(super) fn may_concern(service: &ServiceView) -> bool {
    Ownership::of(service, None) != Ownership::Unrelated
}

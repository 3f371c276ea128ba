//! The Services of one lease term with the inputs of decisions about them: declarations, targets, state.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use outrigger_core::{
    decision::DecisionReason,
    service::{
        ServiceView,
        capability::Capability,
        change::needs_sync,
        ownership::Ownership,
        plan::{BalancerCall, Consequence, Progress, ServiceFacts, Step},
    },
    targets::Revision,
};

use super::{
    COMPONENT, ServiceMetrics,
    current_targets::{CurrentTargets, SharedPool},
    lease_targets::LeaseTargets,
    states::{ServiceKey, ServiceState, ServiceStates},
    write::Answered,
};
use outrigger_kubernetes::store::Store;
use outrigger_provider_client::Provider;
use outrigger_runtime::{
    clock::{Clock, time_of_day},
    fence::Fence,
    history::{History, Subject},
    queue::Queue,
};

/// The values that all parts of the loop share in one lease term.
pub(super) struct ServiceTerm {
    pub(super) queue: Queue<ServiceKey>,
    /// Fenced, as are the API and the events of the parts.
    pub(super) provider: Provider,
    pub(super) fence: Fence,
    pub(super) metrics: ServiceMetrics,
    pub(super) services: Arc<Store<ServiceView>>,
    pub(super) states: Arc<ServiceStates>,
    pub(super) targets: CurrentTargets,
    pub(super) record: LeaseTargets,
    pub(super) clock: Clock,
    pub(super) history: History,
}

/// Facts beside the Service, at one moment.
pub(super) struct DecisionInputs {
    pub(super) capability: Arc<Capability>,
    pub(super) pool: Arc<SharedPool>,
}

impl DecisionInputs {
    /// The facts of a Service whose targets have this revision.
    pub(super) fn facts<'a>(&'a self, targets: &'a Revision) -> ServiceFacts<'a> {
        ServiceFacts {
            capability: &self.capability,
            targets,
            time_of_day: time_of_day(),
        }
    }
}

impl ServiceTerm {
    /// The Service of this key in the store.
    pub(super) fn live(&self, key: &ServiceKey) -> Option<Arc<ServiceView>> {
        let service = self.services.get(&key.name)?;
        (*service.uid == *key.uid).then_some(service)
    }

    /// The provider's declarations; none while there is no connection, or it serves no load
    /// balancers.
    pub(super) fn capability(&self) -> Option<Arc<Capability>> {
        capability(&self.provider)
    }

    /// The result is none if the provider went away after the key was taken, and the queue's gate closes; or if it
    /// declares other rules for targets than they were selected by: soon they are selected again, and the Services queued.
    pub(super) fn inputs(&self) -> Option<DecisionInputs> {
        let capability = self.capability()?;
        let inputs = self.inputs_of(capability);
        (*inputs.pool.rules() == inputs.capability.targets).then_some(inputs)
    }

    pub(super) fn inputs_of(&self, capability: Arc<Capability>) -> DecisionInputs {
        DecisionInputs {
            capability,
            pool: self.targets.current(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides about `service`, the one of this key as it is now.
    pub(super) fn decide<T>(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        inputs: &DecisionInputs,
        decide: impl FnOnce(&mut Progress, Timestamp, &ServiceFacts<'_>) -> T,
    ) -> T {
        let now = self.now();
        self.look(key, service, inputs, |state, facts| {
            decide(&mut state.progress, now, facts)
        })
    }

    /// The same with all of its state.
    fn look<T>(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        inputs: &DecisionInputs,
        look: impl FnOnce(&mut ServiceState, &ServiceFacts<'_>) -> T,
    ) -> T {
        let targets = inputs.pool.revision_of(service);
        let facts = inputs.facts(&targets);
        self.states.with(key, |state| {
            if std::mem::take(&mut state.is_edited) {
                state.progress.edited(service, &inputs.capability);
            }
            look(state, &facts)
        })
    }

    /// The next step for `service`, the one of this key as it is now.
    pub(super) fn next(
        &self,
        key: &ServiceKey,
        service: &ServiceView,
        inputs: &DecisionInputs,
    ) -> Step {
        self.decide(key, service, inputs, |progress, now, facts| {
            progress.check_record(service);
            let step = progress.next(now, service, facts);
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
        self.decide(key, service, inputs, |progress, now, facts| {
            progress.check_record(service);
            let consequence = progress.concluded(now, service, call, result, facts);
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
        let subject = Subject::service(service.namespace(), service.name());
        self.history.decided(COMPONENT, subject, kind, why);
    }

    /// The Services for which `holds` says yes, on these inputs.
    pub(super) fn among_services(
        &self,
        inputs: &DecisionInputs,
        holds: impl Fn(&mut ServiceState, &ServiceView, &ServiceFacts<'_>) -> bool,
    ) -> Vec<ServiceKey> {
        self.keys(|service| {
            may_concern(service)
                && self.look(&ServiceKey::of(service), service, inputs, |state, facts| {
                    holds(state, service, facts)
                })
        })
    }

    /// The Services that have a load balancer of a provider with this capability.
    pub(super) fn provided(&self, capability: &Capability) -> Vec<ServiceKey> {
        self.keys(|service| Ownership::of(service, Some(capability)) == Ownership::Provide)
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

    /// Returns true if a call about the Service still carries its desired state: the Service may have been edited, held
    /// or deleted since it was read. Such a change has queued it again. A call that is made once more, as after
    /// `NODE_SET_UNKNOWN`, has to carry the `targets` of that moment too.
    pub(super) fn is_current(
        self: &Arc<Self>,
        service: &Arc<ServiceView>,
        inputs: &DecisionInputs,
        targets: Option<Revision>,
    ) -> impl Fn() -> bool + Send + Sync + 'static {
        let (term, planned) = (Arc::clone(self), Arc::clone(service));
        let capability = Arc::clone(&inputs.capability);
        let is_repeated = AtomicBool::new(false);
        move || {
            let targets = targets
                .as_ref()
                .filter(|_| is_repeated.swap(true, Ordering::Relaxed));
            term.services.get(&planned.key).is_some_and(|now| {
                now.uid == planned.uid
                    && (Arc::ptr_eq(&now, &planned) || !needs_sync(&planned, &now, &capability))
                    && (now.has_finalizer() || !planned.has_finalizer())
                    && targets.is_none_or(|targets| {
                        term.targets.current().revision_of(&planned) == *targets
                    })
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

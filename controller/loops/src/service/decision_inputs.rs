//! Inputs of one Service decision: capability, targets, applied revision.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_core::{
    service::{
        ServiceView,
        capability::Capability,
        plan::{Progress, ServiceFacts},
    },
    targets::{Revision, Targets},
};

use super::{ServiceLb, event_handlers::may_concern, key::ServiceKey};

/// Facts beside the Service, at one moment.
pub(super) struct DecisionInputs {
    pub(super) capability: Arc<Capability>,
    pub(super) targets: Arc<Targets>,
    /// [`super::rollout::Rollout::publications`] when `targets` were read.
    pub(super) publications: u64,
    applied: Option<Revision>,
}

impl DecisionInputs {
    pub(super) fn facts(&self) -> ServiceFacts<'_> {
        ServiceFacts {
            capability: &self.capability,
            targets: &self.targets,
            applied: self.applied.as_ref(),
            time_of_day: Timestamp::now(),
        }
    }
}

impl ServiceLb {
    /// The Service of this key in the store.
    pub(super) fn live(&self, key: &ServiceKey) -> Option<Arc<ServiceView>> {
        let service = self.parts.services.get(&key.name)?;
        (*service.uid == *key.uid).then_some(service)
    }

    /// None: the provider went away after the key was taken, and the queue's gate closes.
    pub(super) fn inputs(&self) -> Option<DecisionInputs> {
        self.capability()
            .map(|capability| self.inputs_of(capability))
    }

    pub(super) fn inputs_of(&self, capability: Arc<Capability>) -> DecisionInputs {
        // Read before the targets: those published in between requeue the Service as well.
        let publications = self.rollout.publications();
        DecisionInputs {
            capability,
            publications,
            targets: self.rollout.current(),
            applied: self.rollout.applied.revision(),
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
        self.states.with(key, |state| {
            state.apply_pending_edit(service, &inputs.capability);
            decide(&mut state.progress, now, &inputs.facts())
        })
    }

    /// The Services for which `holds` says yes; none while it is not known what the provider declares.
    pub(super) fn among_services(
        &self,
        holds: impl Fn(&Progress, &ServiceView, &ServiceFacts<'_>) -> bool,
    ) -> Vec<ServiceKey> {
        self.inputs()
            .map_or_else(Vec::new, |inputs| self.among_services_on(&inputs, holds))
    }

    /// The Services for which `holds` says yes, on these inputs.
    pub(super) fn among_services_on(
        &self,
        inputs: &DecisionInputs,
        holds: impl Fn(&Progress, &ServiceView, &ServiceFacts<'_>) -> bool,
    ) -> Vec<ServiceKey> {
        let mut keys = Vec::new();
        self.parts.services.for_each(|service| {
            if may_concern(service) {
                let key = ServiceKey::of(service);
                if self.decide(&key, service, inputs, |progress, _, facts| {
                    holds(progress, service, facts)
                }) {
                    keys.push(key);
                }
            }
        });
        keys
    }
}

//! Which targets a load balancer has, the consequence of the answer to an update, and whether the Lease may name them as
//! the targets of all.
//!
//! The Lease names a revision while every load balancer whose Service has a hash has it. A term that begins with such a
//! Lease inherits it ([`Progress::begin_term`]); with any other, the targets of each load balancer are unknown until an
//! answer of this term. The rollout of the loop asks which Services need or follow a change of targets.

use super::{
    Conclusion, EnsureCause, Failure, Progress, ServiceFacts, TARGETS_GRACE, Work, is_changed,
    outcome::AT_ONCE,
};
use crate::{
    api_time::after,
    condition::Status,
    error_class::{ErrorClass, Requeue},
    event::EventContent,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        capability::Capability,
        condition::{TARGETS_IN_SYNC, WAITING},
        last_applied::{Hash, LastApplied},
        options::status_ingress,
        ownership::{Ownership, is_not_managed},
        patch_plan::beside,
    },
    targets::{Inheritance, Revision, Targets},
};

impl Progress {
    /// A term begins, and knows this much of load balancers.
    pub fn begin_term(
        &mut self,
        inheritance: Inheritance,
        service: &ServiceView,
        facts: &ServiceFacts<'_>,
    ) {
        match inheritance {
            // The Lease does not say what a Service had that selected otherwise.
            Inheritance::InSync if has_hash(service) && !is_changed(service, facts.capability) => {
                self.sent = Some(facts.targets.clone());
            }
            Inheritance::Nothing if LastApplied::of(service).is_some() => self.doubt(),
            _ => {}
        }
    }

    /// Returns true if the load balancer of `service` has other targets than [`ServiceFacts::targets`], as far as is known,
    /// and is to get them; also while the Service is paused.
    pub fn needs_targets(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> bool {
        self.takes_targets(service, facts.capability) && !self.has_targets(facts)
    }

    /// Returns true if the load balancer of `service` is to get each change of its targets. A load balancer that was never
    /// made is made with the targets of that moment.
    fn takes_targets(&self, service: &ServiceView, capability: &Capability) -> bool {
        let has_targets = self.sent.is_some() || !service.ingress.is_empty() || has_hash(service);
        has_targets
            && Ownership::of(service, Some(capability)) == Ownership::Provide
            && !is_not_managed(service)
    }

    /// Returns true if what the Lease names speaks for the load balancer of `service`, whatever its targets: its record has a
    /// hash. A hash that could not be written may be there all the same.
    pub fn counts_for_lease(&self, service: &ServiceView, capability: &Capability) -> bool {
        (has_hash(service) || self.pending == Some(EnsureCause::NotWritten))
            && matches!(
                Ownership::of(service, Some(capability)),
                Ownership::Provide | Ownership::Hold
            )
            && !is_not_managed(service)
    }

    /// Returns true if a change of its targets concerns `service`: its load balancer is to get them, or its record to lose
    /// its hash.
    pub fn follows_targets(&self, service: &ServiceView, capability: &Capability) -> bool {
        self.takes_targets(service, capability) || self.counts_for_lease(service, capability)
    }

    /// Returns true if the load balancer is known to have [`ServiceFacts::targets`].
    pub fn has_targets(&self, facts: &ServiceFacts<'_>) -> bool {
        self.sent.as_ref() == Some(facts.targets)
    }

    pub(super) fn in_sync(&mut self, revision: Revision) {
        self.sent = Some(revision);
        self.targets_fail_since = None;
    }

    /// The load balancer did not take its targets, for a reason of its own; the call may have worked. After a while a
    /// condition says so, and the record loses its hash: one load balancer that fails its updates must not keep the
    /// others from being settled at a start. A failure that concerns all Services alike would write each of them.
    pub(super) fn targets_failed(&mut self, to: &mut Conclusion<'_>, failure: &Failure) {
        self.sent = None;
        let is_its_own =
            failure.class.is_for_owner() || matches!(failure.class, ErrorClass::InProgress { .. });
        if !is_its_own {
            return;
        }
        let now = to.facts.now;
        let since = *self.targets_fail_since.get_or_insert(now);
        if now >= after(since, TARGETS_GRACE) {
            to.failed(TARGETS_IN_SYNC, failure);
            to.draft.remove_hash();
        }
    }

    /// An update with `targets` has an answer.
    pub(super) fn updated(
        &mut self,
        to: &mut Conclusion<'_>,
        targets: &Targets,
        answer: &LoadBalancerAnswer,
    ) -> Option<Requeue> {
        let service = to.service;
        to.draft.remove_condition(WAITING);
        // An Ensure may wait for this, or the provider be at work on one.
        let mut requeue = self.ensure(service, to.facts).map(|_| AT_ONCE);
        match answer.disposition {
            Disposition::Ready => {
                self.in_sync(targets.revision().clone());
                if !self.has_targets(to.facts) {
                    // Others go out since.
                    requeue = Some(AT_ONCE);
                }
                to.events.push(if targets.is_empty() {
                    EventContent::no_nodes()
                } else {
                    EventContent::updated()
                });
                // Only where it is False: nodes that come and go write no Service.
                if service.condition(TARGETS_IN_SYNC).is_some() {
                    to.draft
                        .condition(TARGETS_IN_SYNC, Status::True, "InSync", "");
                }
                let named = answer.ingress.as_deref();
                let named = named.map(|named| beside(self.held(service), named));
                let capability = to.facts.capability;
                let ingress = named.and_then(|named| status_ingress(service, capability, &named));
                if let Some(ingress) = ingress {
                    to.draft.ingress(&ingress);
                    let record = LastApplied::of(service).filter(LastApplied::has_hash);
                    if let Some(record) = record.map(|record| record.with_addresses(&ingress)) {
                        to.draft.record(&record);
                    }
                }
            }
            Disposition::InProgress => {
                self.sent = None;
                if let Some(waits) = &mut self.waits
                    && let Work::Ensure { revision, .. } = &mut waits.on
                {
                    // The Ensure that asks about the rest brings these too.
                    *revision = targets.revision().clone();
                    waits.until = waits.until.min(after(to.facts.now, answer.retry_after));
                } else {
                    requeue = Some(Requeue::After(answer.retry_after));
                }
            }
            // The provider knows none that another controller made: it is made in its turn.
            Disposition::Absent | Disposition::NotManaged
                if LastApplied::own(service, to.facts.capability).is_none() =>
            {
                self.in_sync(targets.revision().clone());
            }
            // Not S-55's success without a word: an Ensure says whether the load balancer is managed. No other
            // disposition passes the check of this call's answers.
            Disposition::NotManaged
            | Disposition::Absent
            | Disposition::Retained
            | Disposition::Differs => {
                self.pending = Some(EnsureCause::TargetsFailed);
                requeue = Some(AT_ONCE);
            }
        }
        requeue
    }

    /// S-55: the Service is ensured immediately, unless time alone heals it (not Q-28). An Ensure
    /// is no answer to a provider that is full, nor for a Service that was refused: the update itself is repeated.
    pub(super) fn update_failed(
        &mut self,
        to: &mut Conclusion<'_>,
        targets: &Targets,
        failure: &Failure,
    ) -> Requeue {
        self.targets_failed(to, failure);
        if failure.class.is_for_owner() {
            let event = EventContent::update_failed(targets, &failure.message);
            to.events.push(event);
        }
        let is_refused = self.done == Some(Hash::of(to.service, to.facts.capability));
        let requeue = match failure.class {
            ErrorClass::Unavailable
            | ErrorClass::Unauthenticated
            | ErrorClass::RateLimited { retry_after: None } => Requeue::BackOff,
            class if is_refused => class.requeue(),
            class => match class.requeue() {
                // An Ensure reports on the Service if that is invalid.
                Requeue::BackOff | Requeue::SlowBackOff | Requeue::OnChange => AT_ONCE,
                requeue @ Requeue::After(_) => requeue,
            },
        };
        if requeue == AT_ONCE {
            self.pending = Some(EnsureCause::TargetsFailed);
        }
        requeue
    }
}

/// By whatever provider: one of another name takes its load balancers over.
fn has_hash(service: &ServiceView) -> bool {
    LastApplied::of(service).is_some_and(|record| record.has_hash())
}

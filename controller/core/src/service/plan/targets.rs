//! Which targets a load balancer has, the consequence of the answer to an update, and whether the Lease
//! may name them as the targets of all.

use jiff::Timestamp;

use super::{
    Consequence, EnsureCause, Failure, Manner, Progress, ServiceFacts, TARGETS_GRACE, Work,
    outcome::AT_ONCE,
};
use crate::{
    api_time::after,
    condition::Status,
    correlator::EventContent,
    error_class::{ErrorClass, Requeue},
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        capability::Capability,
        condition::{TARGETS_IN_SYNC, WAITING},
        last_applied::{ANNOTATION_LAST_APPLIED, Comparison, Hash, LastApplied, RecordedTargets},
        ownership::{Ownership, is_claimed, is_not_managed},
        patch_plan::{PatchDraft, beside},
    },
    targets::{Revision, Targets},
};

/// The record by which a load balancer that was never ensured by this provider is ensured at a start, at full
/// pace: it is independent of the revision on the Lease.
pub(super) fn unsettled_record(
    service: &ServiceView,
    capability: &Capability,
) -> Option<LastApplied> {
    is_claimed(service, capability).then(|| LastApplied::begun(service, capability))
}

/// Returns true if `service` is, as far as is recorded, what its load balancer was made from.
fn is_as_recorded(service: &ServiceView, capability: &Capability) -> bool {
    LastApplied::own(service, capability).is_none_or(|record| {
        let hash = Hash::of(service, capability);
        record.compare(service, capability, hash) != Comparison::Changed
    })
}

/// Which targets the load balancer of one Service has, as far as this process knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentTargets {
    last: Last,
    fail_since: Option<Timestamp>,
    /// True if a write that settles the Service failed: it may have been carried out, so that at a start the load
    /// balancer counts as one with the targets of the Lease.
    is_unwritten: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Last {
    /// The targets of [`ServiceFacts::applied`].
    #[default]
    Inherited,
    /// This revision, by the Lease before the targets of others changed: this term has not sent it.
    Kept(Revision),
    /// This revision.
    Revision(Revision),
    /// Others were sent, with an unknown result.
    Unknown,
}

impl SentTargets {
    /// Returns true if the load balancer of `service` still needs [`ServiceFacts::targets`], by an update or an
    /// Ensure; also while the Service is paused. A load balancer that was never created is created with the
    /// targets of that moment.
    pub fn are_needed(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> bool {
        let may_have_any = self.last != Last::Inherited || !service.ingress.is_empty();
        may_have_any
            && facts.ownership(service) == Ownership::Provide
            && !is_not_managed(service)
            && !self.are(service, facts.targets, facts)
    }

    /// Returns true if `service` keeps [`ServiceFacts::targets`] from being stored as [`ServiceFacts::applied`]: at a
    /// start its load balancer would count as one that has them. A load balancer that is ensured at a start anyway, at
    /// full pace, or has its own targets in its record, blocks nothing.
    pub fn block_lease_revision(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> bool {
        let capability = facts.capability;
        let relies_on_lease = match LastApplied::own(service, capability) {
            Some(record) => record.relies_on_lease(),
            // Background work at a start. Before it is claimed, no call is made for it.
            None => is_claimed(service, capability),
        };
        let counts = relies_on_lease && !service.ingress.is_empty();
        (counts || self.is_unwritten)
            && matches!(
                facts.ownership(service),
                Ownership::Provide | Ownership::Hold
            )
            && !is_not_managed(service)
            && !self.are(service, facts.targets, facts)
    }

    /// Returns true if the Lease, now or once all have [`ServiceFacts::targets`], names what the load balancer of
    /// `service` has.
    pub(super) fn agree_with_lease(&self, service: &ServiceView, facts: &ServiceFacts<'_>) -> bool {
        let current = facts.targets;
        self.are(service, current, facts) && facts.applied.is_none_or(|applied| applied == current)
    }

    pub(super) fn are(
        &self,
        service: &ServiceView,
        revision: &Revision,
        facts: &ServiceFacts<'_>,
    ) -> bool {
        match &self.last {
            Last::Inherited => {
                let record = LastApplied::own(service, facts.capability);
                match record.as_ref().map(LastApplied::targets) {
                    Some(RecordedTargets::Own(own)) => own.as_ref() == Some(revision),
                    _ => facts.applied == Some(revision),
                }
            }
            Last::Kept(last) | Last::Revision(last) => last == revision,
            Last::Unknown => false,
        }
    }

    /// [`Progress::targets_change`].
    pub(super) fn keep_inherited(&mut self, service: &ServiceView, facts: &ServiceFacts<'_>) {
        let current = facts.targets;
        if self.last == Last::Inherited
            && !service.ingress.is_empty()
            && facts.applied == Some(current)
            && self.are(service, current, facts)
            && is_as_recorded(service, facts.capability)
        {
            self.last = Last::Kept(current.clone());
        }
    }

    /// The targets that the load balancer was sent last, where that is known. The Lease does not say what a Service had
    /// that selected otherwise.
    pub(super) fn last<'a>(
        &'a self,
        service: &ServiceView,
        facts: &ServiceFacts<'a>,
    ) -> Option<&'a Revision> {
        match &self.last {
            Last::Inherited => facts
                .applied
                .filter(|_| is_as_recorded(service, facts.capability)),
            Last::Kept(last) | Last::Revision(last) => Some(last),
            Last::Unknown => None,
        }
    }

    pub(super) fn in_sync(&mut self, revision: Revision) {
        self.last = Last::Revision(revision);
        self.fail_since = None;
        self.is_unwritten = false;
    }

    /// Returns true if this term has called the provider for the load balancer.
    pub(super) const fn were_sent(&self) -> bool {
        matches!(self.last, Last::Revision(_) | Last::Unknown)
    }

    pub(super) const fn not_written(&mut self) {
        self.is_unwritten = true;
    }

    /// The call may have worked. A load balancer that was never ready has no targets to doubt.
    pub(super) fn mark_unknown(&mut self, service: &ServiceView) {
        if self.last != Last::Inherited || !service.ingress.is_empty() {
            self.last = Last::Unknown;
        }
    }

    /// The load balancer did not take its targets, for a reason of its own. After a while a condition says so,
    /// and the record has the targets of its own: one load balancer that fails its updates must not keep the
    /// others from being settled at a start. A failure that concerns all Services alike would write each of them.
    pub(super) fn failed(
        &mut self,
        now: Timestamp,
        service: &ServiceView,
        draft: &mut PatchDraft<'_>,
        failure: &Failure,
        facts: &ServiceFacts<'_>,
    ) {
        self.mark_unknown(service);
        let is_its_own =
            failure.class.is_for_owner() || matches!(failure.class, ErrorClass::InProgress { .. });
        if !is_its_own {
            return;
        }
        let since = *self.fail_since.get_or_insert(now);
        if now >= after(since, TARGETS_GRACE) {
            let (reason, message) = (failure.reason(), &failure.message);
            draft.condition(TARGETS_IN_SYNC, Status::False, &reason, message);
            let record = match LastApplied::own(service, facts.capability) {
                Some(record) => record.with_targets(None),
                None => unsettled_record(service, facts.capability),
            };
            if let Some(record) = record {
                draft.annotate(ANNOTATION_LAST_APPLIED, Some(&record.to_string()));
            }
        }
    }
}

impl Progress {
    /// The consequence of the answer to an update with `targets` for `service` as it is now.
    pub fn updated(
        &mut self,
        now: Timestamp,
        service: &ServiceView,
        targets: &Targets,
        result: Result<&LoadBalancerAnswer, &Failure>,
        facts: &ServiceFacts<'_>,
    ) -> Consequence {
        // Targets went out while the provider is at work on the rest.
        let ensure_waits = self.waits.take();
        let ensure_waits = ensure_waits.filter(|waits| matches!(waits.on, Work::Ensure(..)));
        if facts.ownership(service) != Ownership::Provide {
            return Consequence::at_once();
        }
        self.waits = ensure_waits;
        let mut draft = PatchDraft::over(service, facts.time_of_day);
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => {
                draft.effects(&failure.effects);
                let mut outcome = self.update_failed(targets, failure);
                self.targets
                    .failed(now, service, &mut draft, failure, facts);
                outcome.patch = draft.finish();
                return outcome;
            }
        };
        draft.remove_condition(WAITING);
        draft.effects(&answer.effects);
        let mut events = answer.effects.events.clone();
        // The next step says when that work is asked about.
        let mut requeue = self.waits.is_some().then_some(AT_ONCE);
        match answer.disposition {
            Disposition::Ready => {
                self.targets.in_sync(targets.revision().clone());
                events.push(if targets.is_empty() {
                    EventContent::no_nodes()
                } else {
                    EventContent::updated()
                });
                // Only where it is False: nodes that come and go write no Service.
                if service.condition(TARGETS_IN_SYNC).is_some() {
                    draft.condition(TARGETS_IN_SYNC, Status::True, "InSync", "");
                }
                let record = LastApplied::of(service);
                let without_targets = record.as_ref().and_then(LastApplied::without_targets);
                let mut changed = without_targets.clone();
                if let Some(named) = &answer.ingress {
                    // Another client may have written the present ones.
                    let held = self.addresses.as_ref().unwrap_or(&service.ingress);
                    let ingress = beside(held, named);
                    draft.ingress(&ingress);
                    let record = without_targets.or(record).filter(LastApplied::has_hash);
                    changed = record.map(|r| r.with_addresses(&ingress)).or(changed);
                }
                if let Some(record) = changed {
                    draft.annotate(ANNOTATION_LAST_APPLIED, Some(&record.to_string()));
                }
            }
            Disposition::InProgress => {
                self.targets.mark_unknown(service);
                let revision = targets.revision().clone();
                if let Some(waits) = &mut self.waits
                    && let Work::Ensure(_, sent) = &mut waits.on
                {
                    // The Ensure that asks about the rest brings these too.
                    *sent = revision;
                    waits.until = waits.until.min(after(now, answer.retry_after));
                } else {
                    let work = Work::Update(revision);
                    requeue = Some(self.wait(now, work, answer, Manner::Announced));
                }
            }
            // The provider knows none that another controller made: it is made in its turn.
            Disposition::Absent | Disposition::NotManaged
                if LastApplied::own(service, facts.capability).is_none() =>
            {
                self.targets.in_sync(targets.revision().clone());
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
        Consequence {
            patch: draft.finish(),
            events,
            requeue,
        }
    }

    /// S-55: the Service is ensured immediately, unless time alone heals it (not Q-28). An Ensure
    /// is no answer to a provider that is full: the update itself is repeated.
    fn update_failed(&mut self, targets: &Targets, failure: &Failure) -> Consequence {
        let requeue = match failure.class {
            ErrorClass::Unavailable
            | ErrorClass::Unauthenticated
            | ErrorClass::RateLimited { retry_after: None } => Requeue::BackOff,
            class => match class.requeue() {
                // An Ensure reports on the Service if that is invalid.
                Requeue::BackOff | Requeue::SlowBackOff | Requeue::OnChange => AT_ONCE,
                requeue @ (Requeue::After(_) | Requeue::Stop) => requeue,
            },
        };
        if requeue == AT_ONCE {
            self.pending = Some(EnsureCause::TargetsFailed);
        }
        let mut events = failure.effects.events.clone();
        if failure.class.is_for_owner() {
            events.push(EventContent::update_failed(targets, &failure.message));
        }
        Consequence {
            events,
            requeue: Some(requeue),
            patch: None,
        }
    }
}

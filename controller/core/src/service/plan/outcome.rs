//! The consequences of an answer to an Ensure, or of none, and of a comparison, while a load balancer is wanted.
//!
//! [`Progress::concluded`] calls `ensured` or `ensure_failed`, which change the state of the Service in this term and add
//! to its one patch; [`Progress::observed`] compares the answer to `GetLoadBalancer` with a Service that is settled.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Conclusion, Ensure, EnsureCause, Failure, Manner, Progress, ServiceFacts, Waits, Work,
};
use crate::{
    api_time::after,
    condition::Status,
    effects::Effects,
    error_class::{ErrorClass, Requeue},
    event::EventContent,
    fault::Fault,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        capability::Capability,
        condition::{ACCEPTED, PROVISIONED, TARGETS_IN_SYNC, WAITING},
        last_applied::LastApplied,
        options::status_ingress,
        ownership::is_not_managed,
        patch_plan::{PatchDraft, beside, is_same},
    },
    targets::Revision,
};

pub(super) const AT_ONCE: Requeue = Requeue::After(Duration::ZERO);

impl From<&Fault> for Failure {
    fn from(refusal: &Fault) -> Self {
        Self {
            class: ErrorClass::Malformed,
            reason: Box::default(),
            message: refusal.to_string().into(),
            effects: Effects::default(),
        }
    }
}

impl Failure {
    /// The reason of a condition: the provider's, or what kind of failure it is.
    pub(super) fn reason(&self) -> String {
        if !self.reason.is_empty() {
            return self.reason.to_string();
        }
        let mut starts_word = true;
        let letters = self.class.as_str().chars().filter_map(|letter| {
            let is_first = std::mem::replace(&mut starts_word, letter == '_');
            match letter {
                '_' => None,
                _ if is_first => Some(letter.to_ascii_uppercase()),
                _ => Some(letter),
            }
        });
        letters.collect()
    }

    /// Returns true if the Service of the call has an event. Refused credentials pause the calls about all Services:
    /// without it nothing in the cluster would say why they wait.
    pub(super) fn has_event(&self) -> bool {
        self.class.is_for_owner() || self.class == ErrorClass::Unauthenticated
    }

    /// Upstream's text for an error of `verb`; one of ours about an answer is used alone (S-33).
    pub(super) fn of(&self, verb: &str) -> String {
        match self.class {
            ErrorClass::Malformed => self.message.to_string(),
            _ => format!("failed to {verb} load balancer: {}", self.message),
        }
    }
}

impl Progress {
    /// An Ensure with targets of this revision has an answer.
    pub(super) fn ensured(
        &mut self,
        to: &mut Conclusion<'_>,
        ensure: &Ensure,
        revision: &Revision,
        answer: &LoadBalancerAnswer,
    ) -> Option<Requeue> {
        let (service, capability) = (to.service, to.facts.capability);
        self.waits = None;
        self.pending = None;
        self.done = None;
        let mut requeue = None;
        let mut record = LastApplied::begun(service, capability);
        let settled = LastApplied::with_hash(service, capability, ensure.hash);
        // An address that the answer lacks stays while the provider is at work, and where no change asks for other ones.
        let is_whole = answer.disposition == Disposition::Ready
            && (ensure.manner == Manner::Announced || !has_own_addresses(service));
        let status = answer.ingress.as_deref().and_then(|named| {
            if is_whole {
                status_ingress(service, capability, named)
            } else {
                status_ingress(service, capability, &beside(self.held(service), named))
            }
        });
        let ingress = status.as_deref().unwrap_or(&service.ingress);
        // It may have been written during the call.
        to.draft.remove_condition(WAITING);
        if answer.disposition != Disposition::NotManaged {
            to.draft.ingress(ingress);
            accepted(&mut to.draft);
        }
        match answer.disposition {
            Disposition::Ready => {
                self.in_sync(revision.clone());
                // Others may go out since.
                requeue = (!self.has_targets(to.facts)).then_some(AT_ONCE);
                record = if answer.address_elsewhere {
                    settled.with_addresses_elsewhere()
                } else if status.is_some() {
                    settled.with_addresses(ingress)
                } else {
                    record
                };
                to.provisioned(Status::True, answer, "Ready");
                to.draft
                    .condition(TARGETS_IN_SYNC, Status::True, "InSync", "");
                if ensure.manner == Manner::Announced || !is_same(ingress, &service.ingress) {
                    to.events.push(EventContent::ensured());
                }
            }
            Disposition::NotManaged => {
                self.done = Some(ensure.hash);
                record = settled;
                // It was ready once.
                if service.condition(TARGETS_IN_SYNC).is_some() {
                    let event = EventContent::not_managed(&capability.provider);
                    to.events.push(event);
                }
                let message = match &*answer.message {
                    "" => "The provider does not manage a load balancer for this Service",
                    given => given,
                };
                let reason = answer.reason_or("NotManaged");
                to.draft.condition(ACCEPTED, Status::False, reason, message);
                to.draft.remove_condition(PROVISIONED);
                to.draft.remove_condition(TARGETS_IN_SYNC);
            }
            // No other disposition passes the check of this call's answers.
            Disposition::InProgress
            | Disposition::Absent
            | Disposition::Retained
            | Disposition::Differs => {
                let work = Work::Ensure {
                    hash: ensure.hash,
                    revision: revision.clone(),
                    manner: ensure.manner,
                };
                requeue = Some(self.wait(to.facts.now, work, answer));
                to.provisioned(Status::False, answer, "InProgress");
            }
        }
        to.draft.record(&record);
        requeue
    }

    /// An Ensure with targets of this revision has failed.
    pub(super) fn ensure_failed(
        &mut self,
        to: &mut Conclusion<'_>,
        ensure: &Ensure,
        revision: &Revision,
        failure: &Failure,
    ) -> Requeue {
        let requeue = failure.class.requeue();
        self.waits = None;
        // The call may have worked: a record that another client has removed is not right any more.
        self.written = None;
        if requeue == Requeue::OnChange {
            self.done = Some(ensure.hash);
            self.pending = None;
        } else if ensure.manner == Manner::Background {
            // The call may have worked, and the provider's configuration be taken back.
            self.pending.get_or_insert(EnsureCause::Reconfigured);
        }
        if self.sent.as_ref() != Some(revision) {
            self.targets_failed(to, failure);
        }
        if failure.has_event() {
            let event = EventContent::sync_failed(&failure.of("ensure"));
            to.events.push(event);
        }
        if failure.class.is_for_owner() {
            // The provider answers that it exists.
            to.draft.remove_condition(WAITING);
            // Background work does not make a serving load balancer look broken.
            if ensure.manner != Manner::Background {
                to.failed(PROVISIONED, failure);
            }
            // At a start it must not count as settled, nor a wrong Service as one that is not managed. A Service that is
            // ensured silently is ensured at each start.
            if ensure.manner == Manner::Announced || failure.class == ErrorClass::Invalid {
                let begun = LastApplied::begun(to.service, to.facts.capability);
                to.draft.record(&begun);
            }
        }
        match failure.class {
            ErrorClass::Invalid => to.failed(ACCEPTED, failure),
            // It accepted it, and something else prevents it.
            ErrorClass::Quota
            | ErrorClass::NotReady
            | ErrorClass::Forbidden
            | ErrorClass::InProgress { .. } => accepted(&mut to.draft),
            _ => {}
        }
        if requeue == Requeue::OnChange && self.needs_targets(to.service, to.facts) {
            // An update brings them.
            return AT_ONCE;
        }
        requeue
    }

    /// Compares the answer to `GetLoadBalancer` with a Service that is settled. Returns true if they differ (drift), so
    /// that there is a next step (instead of Q-30).
    pub fn observed(
        &mut self,
        service: &ServiceView,
        capability: &Capability,
        answer: &LoadBalancerAnswer,
    ) -> bool {
        let is_managed = !is_not_managed(service);
        let is_as_left = match answer.disposition {
            // An Ensure says whether it is managed again.
            Disposition::Ready => {
                let named = answer.ingress.as_deref();
                let ingress = named.and_then(|named| status_ingress(service, capability, named));
                is_managed && ingress.is_none_or(|ingress| is_same(&ingress, &service.ingress))
            }
            Disposition::NotManaged => !is_managed,
            _ => false,
        };
        if !is_as_left {
            self.done = None;
            // Quietly where there is no load balancer of ours that could have drifted.
            self.pending = Some(if is_managed {
                EnsureCause::Drifted
            } else {
                EnsureCause::Reconfigured
            });
        }
        !is_as_left
    }

    pub(super) fn wait(
        &mut self,
        now: Timestamp,
        on: Work,
        answer: &LoadBalancerAnswer,
    ) -> Requeue {
        self.waits = Some(Waits {
            on,
            until: after(now, answer.retry_after),
        });
        Requeue::After(answer.retry_after)
    }
}

impl<'a> Conclusion<'a> {
    pub(super) fn new(
        service: &'a ServiceView,
        facts: &'a ServiceFacts<'a>,
        effects: &Effects,
    ) -> Self {
        let mut draft = PatchDraft::over(service, facts.time_of_day);
        draft.effects(effects);
        Self {
            service,
            facts,
            draft,
            events: effects.events.clone(),
        }
    }

    /// The condition [`PROVISIONED`], with the provider's reason and message where it has any.
    pub(super) fn provisioned(
        &mut self,
        status: Status,
        answer: &LoadBalancerAnswer,
        reason: &str,
    ) {
        let (reason, message) = (answer.reason_or(reason), &answer.message);
        self.draft.condition(PROVISIONED, status, reason, message);
    }

    /// A condition is `False` for this failure.
    pub(super) fn failed(&mut self, kind: &str, failure: &Failure) {
        let (reason, message) = (failure.reason(), &failure.message);
        self.draft.condition(kind, Status::False, &reason, message);
    }
}

impl LoadBalancerAnswer {
    /// The provider's reason, where there is one.
    fn reason_or<'a>(&'a self, reason: &'a str) -> &'a str {
        match &*self.reason {
            "" => reason,
            given => given,
        }
    }
}

/// Returns true if the addresses of `service` are those that were written with its record.
fn has_own_addresses(service: &ServiceView) -> bool {
    let record = LastApplied::of(service).filter(LastApplied::has_hash);
    record.is_some_and(|record| record.has_addresses(&service.ingress))
}

fn accepted(draft: &mut PatchDraft<'_>) {
    draft.condition(ACCEPTED, Status::True, "Accepted", "");
}

//! The consequences of an answer, or of none, while a load balancer is wanted.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Consequence, Ensure, EnsureCause, Failure, Manner, Progress, ServiceFacts, Waits, Work,
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
        condition::{ACCEPTED, PROVISIONED, TARGETS_IN_SYNC, WAITING},
        last_applied::LastApplied,
        ownership::{Ownership, is_not_managed},
        patch_plan::{PatchDraft, beside, is_same},
    },
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

    /// Sets the condition Accepted, as far as the failure of an Ensure decides it.
    fn is_accepted(&self, service: &ServiceView, draft: &mut PatchDraft<'_>) {
        let (reason, message) = (&self.reason(), &*self.message);
        let is_open = service
            .condition(ACCEPTED)
            .is_none_or(|accepted| &*accepted.status == Status::Unknown.as_str());
        match self.class {
            ErrorClass::Invalid => draft.condition(ACCEPTED, Status::False, reason, message),
            // It accepted it, and something else prevents it.
            ErrorClass::Quota
            | ErrorClass::NotReady
            | ErrorClass::Forbidden
            | ErrorClass::InProgress { .. } => accepted(draft),
            // Not an answer of the provider about the Service.
            ErrorClass::Transient | ErrorClass::Malformed if is_open => {
                draft.condition(ACCEPTED, Status::Unknown, reason, message);
            }
            _ => {}
        }
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
    /// The consequence of the answer to `ensure` for `service` as it is now, under the same UID as
    /// then.
    pub fn ensured(
        &mut self,
        now: Timestamp,
        service: &ServiceView,
        ensure: &Ensure,
        result: Result<&LoadBalancerAnswer, &Failure>,
        facts: &ServiceFacts<'_>,
    ) -> Consequence {
        self.waits = None;
        if facts.ownership(service) != Ownership::Provide {
            // Deleted, or of another type, meanwhile: what was made goes again.
            return Consequence::at_once();
        }
        match result {
            Ok(answer) => {
                self.pending = None;
                self.ensure_succeeded(now, service, ensure, answer, facts)
            }
            Err(failure) => self.ensure_failed(now, service, ensure, failure, facts),
        }
    }

    fn ensure_succeeded(
        &mut self,
        now: Timestamp,
        service: &ServiceView,
        ensure: &Ensure,
        answer: &LoadBalancerAnswer,
        facts: &ServiceFacts<'_>,
    ) -> Consequence {
        let mut draft = PatchDraft::over(service, facts.time_of_day);
        // It may have been written during the call.
        draft.remove_condition(WAITING);
        draft.effects(&answer.effects);
        let mut events = answer.effects.events.clone();
        let mut requeue = None;
        let mut record = LastApplied::begun(service, facts.capability);
        let settled = LastApplied::with_hash(service, facts.capability, ensure.hash);
        // An address that the answer lacks stays while the provider is at work, and where no change asks for other ones.
        let is_whole = answer.disposition == Disposition::Ready
            && (ensure.manner == Manner::Announced || !has_own_addresses(service));
        let ingress = answer.ingress.as_deref().map(|named| {
            if is_whole {
                named.to_vec()
            } else {
                beside(self.held(service), named)
            }
        });
        let ingress = ingress.as_deref().unwrap_or(&service.ingress);
        if answer.disposition != Disposition::NotManaged {
            draft.ingress(ingress);
        }
        match answer.disposition {
            Disposition::Ready => {
                self.in_sync(ensure.revision.clone());
                self.done = None;
                self.undone = None;
                record = if answer.address_elsewhere {
                    settled.with_addresses_elsewhere()
                } else {
                    settled.with_addresses(ingress)
                };
                accepted(&mut draft);
                draft.set_condition(PROVISIONED, Status::True, answer, "Ready");
                draft.condition(TARGETS_IN_SYNC, Status::True, "InSync", "");
                if ensure.manner == Manner::Announced || !is_same(ingress, &service.ingress) {
                    events.push(EventContent::ensured());
                }
            }
            Disposition::NotManaged => {
                self.done = Some(ensure.hash);
                record = settled;
                // It was ready once.
                if service.condition(TARGETS_IN_SYNC).is_some() {
                    events.push(EventContent::not_managed(&facts.capability.provider));
                }
                let reason = answer.reason_or("NotManaged");
                let message = match &*answer.message {
                    "" => "The provider does not manage a load balancer for this Service",
                    given => given,
                };
                draft.condition(ACCEPTED, Status::False, reason, message);
                draft.remove_condition(PROVISIONED);
                draft.remove_condition(TARGETS_IN_SYNC);
            }
            // No other disposition passes the check of this call's answers.
            Disposition::InProgress
            | Disposition::Absent
            | Disposition::Retained
            | Disposition::Differs => {
                self.done = None;
                let work = Work::Ensure(ensure.hash, ensure.revision.clone());
                requeue = Some(self.wait(now, work, answer, ensure.manner));
                accepted(&mut draft);
                draft.set_condition(PROVISIONED, Status::False, answer, "InProgress");
            }
        }
        draft.record(&record);
        Consequence {
            patch: draft.finish(),
            events,
            requeue,
        }
    }

    fn ensure_failed(
        &mut self,
        now: Timestamp,
        service: &ServiceView,
        ensure: &Ensure,
        failure: &Failure,
        facts: &ServiceFacts<'_>,
    ) -> Consequence {
        let requeue = failure.class.requeue();
        if requeue == Requeue::OnChange {
            self.done = Some(ensure.hash);
            self.pending = None;
        } else if ensure.manner == Manner::Background {
            // The call may have worked, and the provider's configuration be taken back.
            self.pending.get_or_insert(EnsureCause::Reconfigured);
        }
        let mut draft = PatchDraft::over(service, facts.time_of_day);
        draft.effects(&failure.effects);
        if self.sent.as_ref() != Some(&ensure.revision) {
            self.targets_failed(now, &mut draft, failure);
        }
        let mut events = failure.effects.events.clone();
        if failure.has_event() {
            events.push(EventContent::sync_failed(&failure.of("ensure")));
        }
        if failure.class.is_for_owner() {
            // The provider answers that it exists.
            draft.remove_condition(WAITING);
            let (reason, message) = (&failure.reason(), &*failure.message);
            // Background work does not make a serving load balancer look broken.
            if ensure.manner != Manner::Background {
                draft.condition(PROVISIONED, Status::False, reason, message);
            }
            // At a start it must not count as settled, nor a wrong Service as one that is not managed. A Service that is
            // ensured silently is ensured at each start.
            let is_unsettled =
                ensure.manner == Manner::Announced || failure.class == ErrorClass::Invalid;
            if is_unsettled {
                draft.record(&LastApplied::begun(service, facts.capability));
            }
        }
        failure.is_accepted(service, &mut draft);
        Consequence {
            patch: draft.finish(),
            events,
            requeue: Some(requeue),
        }
    }

    /// Compares the answer to `GetLoadBalancer` with a Service that is settled. Returns true if they differ (drift), so
    /// that there is a next step (instead of Q-30).
    pub fn observed(&mut self, service: &ServiceView, answer: &LoadBalancerAnswer) -> bool {
        let is_as_left = match answer.disposition {
            // An Ensure says whether it is managed again.
            Disposition::Ready if is_not_managed(service) => false,
            Disposition::Ready => {
                let ingress = answer.ingress.as_deref();
                ingress.is_none_or(|ingress| is_same(ingress, &service.ingress))
            }
            Disposition::NotManaged => is_not_managed(service),
            Disposition::InProgress
            | Disposition::Absent
            | Disposition::Retained
            | Disposition::Differs => false,
        };
        if !is_as_left {
            self.done = None;
            // Quietly where there is no load balancer of ours that could have drifted.
            self.pending = Some(if is_not_managed(service) {
                EnsureCause::Reconfigured
            } else {
                EnsureCause::Drifted
            });
        }
        !is_as_left
    }

    pub(super) fn wait(
        &mut self,
        now: Timestamp,
        on: Work,
        answer: &LoadBalancerAnswer,
        manner: Manner,
    ) -> Requeue {
        self.waits = Some(Waits {
            on,
            until: after(now, answer.retry_after),
            manner,
        });
        Requeue::After(answer.retry_after)
    }
}

impl Consequence {
    pub(super) fn at_once() -> Self {
        Self {
            requeue: Some(AT_ONCE),
            ..Self::default()
        }
    }
}

impl PatchDraft<'_> {
    /// A condition with the provider's reason and message, where it has any.
    pub(super) fn set_condition(
        &mut self,
        kind: &str,
        status: Status,
        answer: &LoadBalancerAnswer,
        reason: &str,
    ) {
        self.condition(kind, status, answer.reason_or(reason), &answer.message);
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

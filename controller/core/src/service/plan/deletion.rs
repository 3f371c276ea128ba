//! The consequences of an answer to a deletion.
//!
//! Only an answer that the load balancer is gone, or kept on purpose, ends the cleanup: then addresses, record, conditions
//! and the finalizer go in one patch. A failure is tried again within 30 s, whatever its class.

use super::{Conclusion, Failure, Progress, Work, hold::CLASS_NOT_SERVED, outcome::AT_ONCE};
use crate::{
    condition::Status,
    error_class::{DELETION_WAIT, ErrorClass, Requeue},
    event::EventContent,
    service::{
        FINALIZER, ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
        capability::Capability,
        condition::{OURS, PROVISIONED, WAITING},
        last_applied::{ANNOTATION_LAST_APPLIED, LastApplied},
        ownership::{Ownership, is_not_managed},
    },
};

impl Failure {
    /// Why `answer` to a deletion proves nothing about the load balancer of `service`: the provider does
    /// not manage it, but it does not serve the class either that the load balancer was made for.
    pub fn of_withdrawn(
        answer: &LoadBalancerAnswer,
        service: &ServiceView,
        capability: &Capability,
    ) -> Option<Self> {
        let proves_nothing =
            answer.disposition == Disposition::NotManaged && is_withdrawn(service, capability);
        let message = || {
            format!(
                "the provider {:?} does not manage it, but does not serve the class that it was made \
                 for either, so it may still exist in the cloud. Configure the provider to serve the \
                 class again; or delete what is tagged with the UID {} in the cloud, and remove the \
                 finalizer {FINALIZER}",
                capability.provider, service.uid,
            )
        };
        proves_nothing.then(|| Self {
            class: ErrorClass::NotReady,
            reason: CLASS_NOT_SERVED.into(),
            message: message().into(),
            effects: answer.effects.clone(),
        })
    }
}

impl Progress {
    /// A deletion has an answer, or failed; of a Service that the API server has no more, if it `is_gone`.
    pub(super) fn deleted(
        &mut self,
        to: &mut Conclusion<'_>,
        is_gone: bool,
        result: Result<&LoadBalancerAnswer, &Failure>,
    ) -> Option<Requeue> {
        self.waits = None;
        // Its addresses may lead nowhere by now.
        self.written = None;
        to.draft.remove_condition(WAITING);
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => {
                if failure.has_event() {
                    to.events.push(if is_gone {
                        EventContent::delete_failed(&failure.message)
                    } else {
                        EventContent::sync_failed(&failure.of("delete"))
                    });
                }
                if failure.class.is_for_owner() {
                    to.failed(PROVISIONED, failure);
                }
                // S-14: no edit brings the next try of a deletion forward.
                return Some(match failure.class.requeue() {
                    Requeue::OnChange => Requeue::BackOff,
                    Requeue::After(wait) => Requeue::After(DELETION_WAIT.clamp(wait)),
                    requeue => requeue,
                });
            }
        };
        if answer.disposition == Disposition::InProgress {
            to.provisioned(Status::False, answer, "Deleting");
            return Some(self.wait(to.facts.now, Work::Delete, answer));
        }
        // Made again, it is a new one.
        *self = Self::default();
        to.events.push(match answer.disposition {
            Disposition::Retained => EventContent::retained(&answer.message),
            _ => EventContent::deleted(),
        });
        to.draft.ingress(&[]);
        if !is_gone && to.facts.ownership(to.service) == Ownership::Provide {
            // It changed its type back meanwhile.
            let begun = LastApplied::begun(to.service, to.facts.capability);
            to.draft.record(&begun);
            return Some(AT_ONCE);
        }
        to.draft.remove_finalizer();
        to.draft.annotate(ANNOTATION_LAST_APPLIED, None);
        for kind in OURS {
            to.draft.remove_condition(kind);
        }
        None
    }
}

/// Returns true if the load balancer of `service` was made for a class that the provider does not declare
/// now, so that its answer that it does not manage the Service proves nothing.
fn is_withdrawn(service: &ServiceView, capability: &Capability) -> bool {
    LastApplied::own(service, capability).is_some_and(|record| !record.is_served(capability))
        && !is_not_managed(service)
}

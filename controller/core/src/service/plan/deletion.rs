//! The consequences of an answer to a deletion.

use jiff::Timestamp;

use super::{
    Consequence, Failure, Manner, Progress, ServiceFacts, Work, hold::CLASS_NOT_SERVED,
    outcome::AT_ONCE,
};
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
        patch_plan::PatchDraft,
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
    /// The consequence for `service` as it is now; none if the API server has it no more, or
    /// another one under its name. An answer that proves nothing ([`Failure::of_withdrawn`]) is to
    /// be passed as that failure.
    pub fn deleted(
        &mut self,
        now: Timestamp,
        service: Option<&ServiceView>,
        result: Result<&LoadBalancerAnswer, &Failure>,
        facts: &ServiceFacts<'_>,
    ) -> Consequence {
        self.waits = None;
        let mut draft = service.map(|service| {
            let mut draft = PatchDraft::over(service, facts.time_of_day);
            draft.remove_condition(WAITING);
            draft
        });
        let mut outcome = match result {
            Ok(answer) if answer.disposition == Disposition::InProgress => {
                if let Some(draft) = &mut draft {
                    draft.effects(&answer.effects);
                    draft.set_condition(PROVISIONED, Status::False, answer, "Deleting");
                }
                Consequence {
                    events: answer.effects.events.clone(),
                    requeue: Some(self.wait(now, Work::Delete, answer, Manner::Announced)),
                    patch: None,
                }
            }
            Ok(answer) => {
                // Made again, it is a new one.
                *self = Self::default();
                let mut events = answer.effects.events.clone();
                events.push(match answer.disposition {
                    Disposition::Retained => EventContent::retained(&answer.message),
                    _ => EventContent::deleted(),
                });
                let mut requeue = None;
                if let (Some(draft), Some(service)) = (&mut draft, service) {
                    draft.effects(&answer.effects);
                    draft.ingress(&[]);
                    if facts.ownership(service) == Ownership::Provide {
                        // It changed its type back meanwhile.
                        draft.record(&LastApplied::begun(service, facts.capability));
                        requeue = Some(AT_ONCE);
                    } else {
                        draft.remove_finalizer();
                        draft.annotate(ANNOTATION_LAST_APPLIED, None);
                        for kind in OURS {
                            draft.remove_condition(kind);
                        }
                    }
                }
                Consequence {
                    events,
                    requeue,
                    patch: None,
                }
            }
            Err(failure) => {
                let mut events = failure.effects.events.clone();
                if let Some(draft) = &mut draft {
                    draft.effects(&failure.effects);
                }
                if failure.has_event() {
                    events.push(match service {
                        Some(_) => EventContent::sync_failed(&failure.of("delete")),
                        None => EventContent::delete_failed(&failure.message),
                    });
                }
                if failure.class.is_for_owner()
                    && let Some(draft) = &mut draft
                {
                    let reason = failure.reason();
                    draft.condition(PROVISIONED, Status::False, &reason, &failure.message);
                }
                Consequence {
                    events,
                    // S-14: no edit brings the next try of a deletion forward.
                    requeue: Some(match failure.class.requeue() {
                        Requeue::OnChange => Requeue::BackOff,
                        Requeue::After(wait) => Requeue::After(DELETION_WAIT.clamp(wait)),
                        requeue => requeue,
                    }),
                    patch: None,
                }
            }
        };
        outcome.patch = draft.and_then(PatchDraft::finish);
        outcome
    }
}

/// Returns true if the load balancer of `service` was made for a class that the provider does not declare
/// now, so that its answer that it does not manage the Service proves nothing.
fn is_withdrawn(service: &ServiceView, capability: &Capability) -> bool {
    LastApplied::own(service, capability).is_some_and(|record| !record.is_served(capability))
        && !is_not_managed(service)
}

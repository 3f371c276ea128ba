//! Services for which nothing is done though they want something, and their condition and events.
//!
//! [`super::Progress::next`] asks [`HoldReason::of`] before anything else. The load balancer stays as it is, and the
//! condition `Waiting` says why and what to do.

use super::{ServiceFacts, Step};
use crate::{
    condition::Status,
    event::EventContent,
    service::{
        ANNOTATION_PAUSED, ServiceView,
        capability::Capability,
        condition::WAITING,
        ownership::{Ownership, is_not_managed},
        patch_plan::PatchDraft,
    },
};

/// Why nothing is done for a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// By [`ANNOTATION_PAUSED`].
    Paused,
    /// The provider does not declare its class any more.
    ClassNotServed,
    /// It is too large to be kept.
    TooLarge,
    /// An annotation that selects its targets cannot be read.
    InvalidAnnotation,
}

impl HoldReason {
    /// Why nothing is done for `service`, if that is so.
    pub fn of(service: &ServiceView, ownership: Ownership) -> Option<Self> {
        match ownership {
            Ownership::Hold => Some(Self::ClassNotServed),
            Ownership::Provide | Ownership::Cleanup if service.is_paused() => Some(Self::Paused),
            Ownership::Provide | Ownership::Cleanup if service.is_too_large => Some(Self::TooLarge),
            Ownership::Provide if service.node_selector().is_err() => Some(Self::InvalidAnnotation),
            _ => None,
        }
    }

    /// Its name in metrics and explanations: snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::ClassNotServed => "class_not_served",
            Self::TooLarge => "too_large",
            Self::InvalidAnnotation => "invalid_annotation",
        }
    }

    /// The reason of the condition [`WAITING`].
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Paused => "Paused",
            Self::ClassNotServed => CLASS_NOT_SERVED,
            Self::TooLarge => "TooLarge",
            Self::InvalidAnnotation => "InvalidAnnotation",
        }
    }

    fn message(self, service: &ServiceView, capability: &Capability) -> String {
        match self {
            Self::Paused => format!(
                "The annotation {ANNOTATION_PAUSED} is true: the load balancer is not created, \
                 changed or deleted until the annotation is removed"
            ),
            Self::ClassNotServed => format!(
                "The provider {:?} does not serve {} any more: the load balancer stays as it is. \
                 Configure the provider to serve it again, or delete the Service to have the load \
                 balancer deleted",
                capability.provider,
                class(service),
            ),
            Self::TooLarge => "The Service takes more than 64 KiB of memory: the load balancer is not created, changed or \
                 deleted until it is smaller. Remove annotations that the provider reads, labels, ports, source \
                 ranges or addresses that are not needed"
                .to_owned(),
            Self::InvalidAnnotation => format!(
                "The load balancer and its targets stay as they are until the annotation is right, or the \
                 Service is deleted: {}",
                service.node_selector().err().unwrap_or_default()
            ),
        }
    }

    fn event(self, message: &str) -> EventContent {
        match self {
            Self::Paused => EventContent::normal("LoadBalancerPaused", message),
            Self::ClassNotServed => EventContent::warning("LoadBalancerClassNotServed", message),
            Self::TooLarge => EventContent::warning("ServiceTooLarge", message),
            Self::InvalidAnnotation => EventContent::warning("InvalidTargetAnnotation", message),
        }
    }
}

pub(super) const CLASS_NOT_SERVED: &str = "ClassNotServed";

/// Nothing is done, and a condition says why. A load balancer that is not `is_settled`, as it has other targets or was made
/// from something else, is ensured once it is held no longer.
pub(super) fn hold(
    service: &ServiceView,
    why: HoldReason,
    is_settled: bool,
    facts: &ServiceFacts<'_>,
) -> Step {
    let mut draft = PatchDraft::over(service, facts.time_of_day);
    let mut events = Vec::new();
    // A load balancer that is not ours is not held.
    if why != HoldReason::ClassNotServed || !is_not_managed(service) {
        let message = why.message(service, facts.capability);
        let is_new = service.condition(WAITING).is_none_or(|waiting| {
            (&*waiting.reason, &*waiting.message) != (why.reason(), &*message)
        });
        draft.condition(WAITING, Status::True, why.reason(), &message);
        if is_new {
            events.push(why.event(&message));
        }
    }
    let may_come_back = facts.ownership(service) != Ownership::Cleanup;
    if !is_settled && may_come_back && !is_not_managed(service) {
        draft.remove_hash();
    }
    Step::Hold {
        why,
        patch: draft.finish(),
        events,
    }
}

fn class(service: &ServiceView) -> String {
    match service.spec.load_balancer_class.as_deref() {
        Some(class) => format!("the load balancer class {class:?}"),
        None => "Services without a load balancer class".to_owned(),
    }
}

use outrigger_api::v1;

use crate::Targets;
use crate::setters::setters;

/// The operation of a plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlanOperation {
    /// [`ensure_load_balancer`](crate::LoadBalancers::ensure_load_balancer) with these targets.
    Ensure(Targets),
    /// [`delete_load_balancer`](crate::LoadBalancers::delete_load_balancer).
    Delete,
}

/// One intended change to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedChange {
    /// The planned action.
    pub action: ChangeAction,
    /// The cloud's word for the kind of resource: `target-group`.
    pub resource_type: String,
    /// Id in the cloud; empty for one that does not exist yet.
    pub resource_id: String,
    /// One line for people: "target 10.0.0.7 would be added".
    pub summary: String,
}

/// The action on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeAction {
    /// It would be made.
    Create,
    /// It would be changed in place.
    Update,
    /// It would be deleted.
    Delete,
    /// It would be deleted and made again: interrupts traffic.
    Replace,
}

setters! { PlannedChange {
    with_resource_id => resource_id: String,
} }

impl PlannedChange {
    /// A change to a resource that has no id yet.
    pub fn new(
        action: ChangeAction,
        resource_type: impl Into<String>,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            action,
            resource_type: resource_type.into(),
            resource_id: String::new(),
            summary: summary.into(),
        }
    }

    pub(crate) fn into_wire(self) -> v1::PlannedChange {
        let action = match self.action {
            ChangeAction::Create => v1::ChangeAction::Create,
            ChangeAction::Update => v1::ChangeAction::Update,
            ChangeAction::Delete => v1::ChangeAction::Delete,
            ChangeAction::Replace => v1::ChangeAction::Replace,
        };
        v1::PlannedChange {
            action: action.into(),
            resource_type: self.resource_type,
            resource_id: self.resource_id,
            summary: self.summary,
        }
    }
}

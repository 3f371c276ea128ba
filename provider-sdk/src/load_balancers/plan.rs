use outrigger_api::v1;

use crate::Targets;

/// What a plan is made of.
#[derive(Clone, Debug)]
pub enum PlanOperation {
    /// [`ensure_load_balancer`](crate::LoadBalancers::ensure_load_balancer) with these targets.
    Ensure(Targets),
    /// [`delete_load_balancer`](crate::LoadBalancers::delete_load_balancer).
    Delete,
}

/// One intended change to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// What would be done.
    pub action: ChangeAction,
    /// The cloud's word for the kind of resource: `target-group`.
    pub resource_type: String,
    /// Id in the cloud; empty for one that does not exist yet.
    pub resource_id: String,
    /// One line for people: "target 10.0.0.7 would be added".
    pub summary: String,
}

/// What would be done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl From<PlannedChange> for v1::PlannedChange {
    fn from(change: PlannedChange) -> Self {
        let action = match change.action {
            ChangeAction::Create => v1::ChangeAction::Create,
            ChangeAction::Update => v1::ChangeAction::Update,
            ChangeAction::Delete => v1::ChangeAction::Delete,
            ChangeAction::Replace => v1::ChangeAction::Replace,
        };
        Self {
            action: action.into(),
            resource_type: change.resource_type,
            resource_id: change.resource_id,
            summary: change.summary,
        }
    }
}

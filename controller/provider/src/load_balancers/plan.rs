//! Changes that a call would make, without making them.

use outrigger_api::v1;
use outrigger_core::text;

/// Kinds and ids of resources, in bytes.
const NAME: usize = 253;

/// The operation of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOperation {
    /// [`LoadBalancers::ensure`](super::LoadBalancers::ensure).
    Ensure,
    /// [`LoadBalancers::delete`](super::LoadBalancers::delete).
    Delete,
}

/// One intended change to the cloud, in texts fit for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// The planned action: `create`, `update`, `delete`, `replace`, which interrupts traffic, or `change` for one without a
    /// name in the contract.
    pub action: &'static str,
    /// The cloud's word for the kind of resource.
    pub resource_type: Box<str>,
    /// Id in the cloud; empty for one that does not exist yet.
    pub resource_id: Box<str>,
    /// One line for people.
    pub summary: Box<str>,
}

impl From<v1::PlannedChange> for PlannedChange {
    fn from(change: v1::PlannedChange) -> Self {
        use v1::ChangeAction as A;
        Self {
            action: match change.action() {
                A::Unspecified => "change",
                A::Create => "create",
                A::Update => "update",
                A::Delete => "delete",
                A::Replace => "replace",
            },
            resource_type: text::cut(&change.resource_type, NAME).into(),
            resource_id: text::cut(&change.resource_id, NAME).into(),
            summary: text::message(&change.summary).into(),
        }
    }
}

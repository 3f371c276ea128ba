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
    /// The planned action.
    pub action: ChangeAction,
    /// The cloud's word for the kind of resource.
    pub resource_type: Box<str>,
    /// Id in the cloud; empty for one that does not exist yet.
    pub resource_id: Box<str>,
    /// One line for people.
    pub summary: Box<str>,
}

/// The action on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAction {
    /// An action without a name in the contract.
    Change,
    /// It would be made.
    Create,
    /// It would be changed in place.
    Update,
    /// It would be deleted.
    Delete,
    /// It would be deleted and made again: interrupts traffic.
    Replace,
}

impl ChangeAction {
    /// The word for people and for machines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Replace => "replace",
        }
    }
}

impl From<v1::PlannedChange> for PlannedChange {
    fn from(change: v1::PlannedChange) -> Self {
        use v1::ChangeAction as A;
        Self {
            action: match change.action() {
                A::Unspecified => ChangeAction::Change,
                A::Create => ChangeAction::Create,
                A::Update => ChangeAction::Update,
                A::Delete => ChangeAction::Delete,
                A::Replace => ChangeAction::Replace,
            },
            resource_type: text::cut(&change.resource_type, NAME).into(),
            resource_id: text::cut(&change.resource_id, NAME).into(),
            summary: text::message(&change.summary).into(),
        }
    }
}

//! Changes that a call would make, without making them.

use std::sync::Arc;

use outrigger_api::{MethodRequest, v1};
use outrigger_core::{service::ServiceView, targets::Targets, text};

use super::{ranges, service_of};
use crate::{Error, Provider, Session, admission::Urgency};

/// Changes in one plan that are shown.
const MOST: usize = 1_000;
/// Kinds and ids of resources, in bytes.
const NAME: usize = 253;

/// The operation of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOperation {
    /// [`Provider::ensure_load_balancer`].
    Ensure,
    /// [`Provider::delete_load_balancer`].
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
    /// Of an action without a name in the contract.
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

impl Provider {
    /// The changes that `operation` would make in the cloud; empty: none. Changes nothing.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer plans, else as the operation itself.
    pub async fn plan_load_balancer(
        &self,
        operation: PlanOperation,
        service: &ServiceView,
        targets: &Arc<Targets>,
    ) -> Result<Vec<PlannedChange>, Error> {
        let rpc = v1::PlanLoadBalancerRequest::METHOD.name;
        if operation == PlanOperation::Ensure {
            ranges(service)?;
        }
        let (permit, session) = self
            .admit::<v1::PlanLoadBalancerRequest>(Urgency::LoadBalancerChecks)
            .await?;
        let shared = &self.shared;
        let request = |operation: v1::PlanOperation, targets| v1::PlanLoadBalancerRequest {
            context: None,
            operation: operation.into(),
            service: Some(service_of(service, &session)),
            targets,
        };
        let preconditions = &self.preconditions;
        let plan = match operation {
            PlanOperation::Ensure => {
                let ensure = |targets| request(v1::PlanOperation::Ensure, Some(targets));
                let call = shared.call_with_targets(&permit, preconditions, targets, ensure);
                call.await?
            }
            PlanOperation::Delete => {
                let delete = |_: &Session| request(v1::PlanOperation::Delete, None);
                let call = shared.call(&permit, preconditions, &session, delete);
                call.await?
            }
        };
        if plan.changes.len() > MOST {
            return Err(Error::Malformed {
                rpc,
                what: "a plan of more than 1,000 changes".into(),
            });
        }
        Ok(plan.changes.into_iter().map(Into::into).collect())
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

//! Reports for people, where a provider serves them: the load balancers that this cluster owns in the cloud, and the changes
//! that a call would make, without making them.

use outrigger_api::v1;
use outrigger_core::text;

use crate::gather::Collector;

/// Names, kinds, ids and keys, in bytes.
const NAME: usize = 253;

/// A load balancer that carries this cluster's tag, in texts fit for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedLoadBalancer {
    /// Id in the cloud.
    pub id: Box<str>,
    /// Name in the cloud.
    pub name: Box<str>,
    /// Its owner; none where the tag is missing.
    pub service: Option<Owner>,
}

/// The Service that a load balancer was made for, by its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `metadata.namespace`, for people.
    pub namespace: Box<str>,
    /// `metadata.name`, for people.
    pub name: Box<str>,
    /// `metadata.uid`: the key. Empty if the provider does not name it, or names what cannot be one.
    pub uid: Box<str>,
}

impl Collector for Vec<OwnedLoadBalancer> {
    type Entry = v1::OwnedLoadBalancer;

    fn take(&mut self, entry: v1::OwnedLoadBalancer) {
        self.push(entry.into());
    }
}

impl From<v1::OwnedLoadBalancer> for OwnedLoadBalancer {
    fn from(owned: v1::OwnedLoadBalancer) -> Self {
        let shown = |raw: &str| text::cut(raw, NAME).into();
        let identity = owned.identity.unwrap_or_default();
        Self {
            id: shown(&identity.id),
            name: shown(&identity.name),
            service: owned.service.map(|service| Owner {
                namespace: shown(&service.namespace),
                name: shown(&service.name),
                uid: if *text::cut(&service.uid, NAME) == *service.uid {
                    service.uid.into()
                } else {
                    Box::default()
                },
            }),
        }
    }
}

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

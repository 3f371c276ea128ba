//! The provider's answer about one load balancer, before the checks in core; and reports for people: the load balancers
//! that this cluster owns in the cloud, and the changes that a call would make.

use std::time::Duration;

use outrigger_api::v1;
use outrigger_core::{
    service::{
        Ingress, PortStatus, ServiceView,
        answer::{Disposition, LoadBalancerAnswer, LoadBalancerCall, RawAnswer},
    },
    text,
};
use tracing::debug;

use crate::{Error, Session, wire};

/// Names, kinds, ids and keys of a cloud, in bytes.
const NAME: usize = 253;

/// Returns the answer to `call` if all of it is legal. Effects of a provider that declared none are dropped.
pub(super) fn check(
    said: v1::LoadBalancerAnswer,
    call: LoadBalancerCall,
    service: &ServiceView,
    session: &Session,
) -> Result<LoadBalancerAnswer, Error> {
    let identity = said.identity.clone().unwrap_or_default();
    let raw = RawAnswer {
        disposition: disposition(said.disposition()),
        ingress: said.status.map(ingress),
        address_elsewhere: said.address_elsewhere,
        retry_after: said.retry_after.map(duration),
        reason: said.reason,
        message: said.message,
    };
    debug!(
        service = &*service.key,
        disposition = ?raw.disposition,
        id = text::cut(&identity.id, NAME),
        name = text::cut(&identity.name, NAME),
        "answer about the load balancer received"
    );
    let rpc = "LoadBalancersService";
    let offered = session.load_balancers.as_ref();
    let offered = offered.ok_or(Error::NotOffered { rpc })?;
    let checked = raw.check(call, &offered.forbidden);
    let mut answer = checked.map_err(Error::Unusable)?;
    let effects = said.effects.map(wire::effects).unwrap_or_default();
    let allowed = &offered.capability.effects;
    answer.effects = session.effects(effects, allowed, &service.uid, service);
    Ok(answer)
}

const fn disposition(said: v1::LoadBalancerDisposition) -> Option<Disposition> {
    use v1::LoadBalancerDisposition as D;
    Some(match said {
        D::Unspecified => return None,
        D::Ready => Disposition::Ready,
        D::InProgress => Disposition::InProgress,
        D::NotManaged => Disposition::NotManaged,
        D::Absent => Disposition::Absent,
        D::Retained => Disposition::Retained,
        D::Differs => Disposition::Differs,
    })
}

/// Converts a duration. A value that makes no sense becomes the shortest.
fn duration(said: prost_types::Duration) -> Duration {
    said.try_into().unwrap_or_default()
}

fn ingress(status: v1::LoadBalancerStatus) -> Vec<Ingress> {
    let port = |port: v1::PortStatus| PortStatus {
        port: port.port,
        protocol: port.protocol.into(),
        error: port.error.map(Into::into),
    };
    let entry = |entry: v1::LoadBalancerIngress| Ingress {
        ip: entry.ip.into(),
        hostname: entry.hostname.into(),
        ip_mode: entry.ip_mode.map(Into::into),
        ports: entry.ports.into_iter().map(port).collect(),
    };
    status.ingress.into_iter().map(entry).collect()
}

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

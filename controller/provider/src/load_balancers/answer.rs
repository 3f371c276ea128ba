//! The provider's answer about one load balancer, before the checks in core.

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

/// Ids and names of a cloud, in bytes.
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
    let no_longer = || Error::NotOffered {
        rpc: "LoadBalancersService",
    };
    let offered = session.load_balancers.as_ref().ok_or_else(no_longer)?;
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

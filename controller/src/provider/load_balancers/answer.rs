//! The provider's answer about one load balancer, before the checks in core.

use std::time::Duration;

use outrigger_api::v1;
use outrigger_core::{
    effects::RawEffects,
    service::{
        Ingress, PortStatus, ServiceView,
        answer::{Disposition, LoadBalancerAnswer, LoadBalancerCall, RawAnswer},
    },
    text,
};
use tracing::debug;

use crate::provider::{Error, Session, wire};

/// Ids and names of a cloud, in bytes.
const NAME: usize = 253;

/// The fields that all answers about a load balancer share.
pub(super) struct UncheckedAnswer {
    answer: RawAnswer,
    effects: RawEffects,
    identity: v1::LoadBalancerIdentity,
}

impl UncheckedAnswer {
    /// The answer to `call`, if it is one and all of it is legal. Of a provider that declared no
    /// effects there are none.
    pub(super) fn check(
        self,
        call: LoadBalancerCall,
        service: &ServiceView,
        session: &Session,
    ) -> Result<LoadBalancerAnswer, Error> {
        debug!(
            service = &*service.key,
            disposition = ?self.answer.disposition,
            id = text::cut(&self.identity.id, NAME),
            name = text::cut(&self.identity.name, NAME),
            "answer about the load balancer received"
        );
        let no_longer = || Error::NotOffered {
            rpc: "LoadBalancersService",
        };
        let offered = session.load_balancers.as_ref().ok_or_else(no_longer)?;
        let asked = self.answer.retry_after;
        let checked = self.answer.check(call, &offered.forbidden);
        let mut answer = checked.map_err(|refusal| Error::Unusable(refusal.into()))?;
        if let Some(asked) = asked.filter(|asked| *asked > answer.retry_after)
            && answer.disposition == Disposition::InProgress
        {
            session.tell_cut_wait(service, asked, answer.retry_after);
        }
        let allowed = &offered.capability.effects;
        answer.effects = session.effects(self.effects, allowed, &service.uid, service);
        Ok(answer)
    }
}

impl From<v1::LoadBalancerAnswer> for UncheckedAnswer {
    fn from(answer: v1::LoadBalancerAnswer) -> Self {
        Self {
            answer: RawAnswer {
                disposition: disposition(answer.disposition()),
                ingress: answer.status.map(ingress),
                retry_after: answer.retry_after.map(duration),
                reason: answer.reason,
                message: answer.message,
            },
            effects: answer.effects.map(wire::effects).unwrap_or_default(),
            identity: answer.identity.unwrap_or_default(),
        }
    }
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

/// One that makes no sense is as short as can be.
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

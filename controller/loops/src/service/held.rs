//! Addresses that other Services hold: a provider without a store of its own must not assign them once more.

use std::{collections::BTreeSet, net::IpAddr};

use outrigger_core::{
    correlator::EventContent,
    service::{ServiceView, answer::LoadBalancerAnswer},
};
use tracing::warn;

use super::{ServiceLb, key::ServiceKey};

fn ips(service: &ServiceView) -> impl Iterator<Item = IpAddr> {
    let entries = service.ingress.iter();
    entries.filter_map(|entry| entry.ip.parse().ok())
}

impl ServiceLb {
    /// The addresses in the status of all other Services, each once.
    pub(super) fn held_addresses(&self, key: &ServiceKey) -> Vec<IpAddr> {
        let mut held = BTreeSet::new();
        self.parts.services.for_each(|service| {
            if *service.uid != *key.uid {
                held.extend(ips(service));
            }
        });
        held.into_iter().collect()
    }

    /// Reports each address in `answer` that the call named as held. It is published all the same: the load
    /// balancer has it.
    pub(super) fn report_held(
        &self,
        service: &ServiceView,
        answer: &LoadBalancerAnswer,
        held: &[IpAddr],
    ) {
        for address in answer.addresses_among(held) {
            let mut holder = None;
            self.parts.services.for_each(|other| {
                if other.uid != service.uid && ips(other).any(|ip| ip == address) {
                    holder = Some(other.key.clone());
                }
            });
            let holder = holder.as_deref().unwrap_or_default();
            self.parts.metrics.assigned_held();
            warn!(
                service = &*service.key,
                %address,
                holder,
                "load balancer got an address that another Service holds"
            );
            self.record_event(service, &EventContent::address_held(address, holder));
        }
    }
}

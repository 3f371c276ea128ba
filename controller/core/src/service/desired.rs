//! The fields of a Service that decide which load balancer it gets.

use super::{ServiceView, capability::Capability};
use crate::digest::{Digest, Encoder};

/// The digest of the fields whose change makes a load balancer another one (S-21), with the class, `ipFamilies` in
/// full and `ipFamilyPolicy`: each field of the spec that a provider is sent, so that none of them is
/// stale there. The rest of a Service (S-22) may change without a call.
///
/// Stored with Services and compared by later releases: another order, another field or
/// another spelling of one ensures every load balancer of every cluster once more.
pub(super) fn digest(service: &ServiceView, capability: &Capability) -> Digest {
    let spec = &service.spec;
    let mut encoder = Encoder::new("outrigger service 1");
    encoder.text(&service.uid);
    encoder.option(spec.load_balancer_class.as_deref(), Encoder::text);
    encoder.list(spec.ports.iter(), |encoder, port| {
        encoder.text(&port.name);
        encoder.text(&port.protocol);
        encoder.number(port.port);
        encoder.number(port.node_port);
        encoder.text(&port.target_port);
        encoder.option(port.app_protocol.as_deref(), Encoder::text);
    });
    encoder.texts(&spec.load_balancer_source_ranges);
    encoder.text(&spec.session_affinity);
    encoder.option(spec.session_affinity_timeout, Encoder::number);
    encoder.text(&spec.load_balancer_ip);
    encoder.texts(&spec.external_ips);
    encoder.text(&spec.external_traffic_policy);
    encoder.number(spec.health_check_node_port);
    encoder.texts(&spec.ip_families);
    encoder.text(&spec.ip_family_policy);
    // By key, so that their order, which means nothing, changes nothing.
    let annotations: Vec<_> = service
        .annotations
        .iter()
        .filter(|(key, _)| capability.is_moved_by(key))
        .collect();
    encoder.list(annotations.iter(), |encoder, (key, value)| {
        encoder.text(key);
        encoder.text(value);
    });
    encoder.finish()
}

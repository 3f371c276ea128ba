//! The fields of a Service that decide which load balancer it gets.

use super::{Port, ServiceView, capability::Capability};
use crate::digest::{Digest, Encoder};

/// The fields whose change makes a load balancer another one (S-21), with the class, `ipFamilies` in
/// full and `ipFamilyPolicy`: each field of the spec that a provider is sent, so that none of them is
/// stale there. The rest of a Service (S-22) may change without a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Desired<'a> {
    uid: &'a str,
    class: Option<&'a str>,
    ports: &'a [Port],
    source_ranges: &'a [Box<str>],
    session_affinity: &'a str,
    session_affinity_timeout: Option<i32>,
    load_balancer_ip: &'a str,
    external_ips: &'a [Box<str>],
    external_traffic_policy: &'a str,
    health_check_node_port: i32,
    ip_families: &'a [Box<str>],
    ip_family_policy: &'a str,
    /// By key, so that their order, which means nothing, changes nothing.
    annotations: Vec<(&'a str, &'a str)>,
}

impl<'a> Desired<'a> {
    pub(super) fn of(service: &'a ServiceView, capability: &Capability) -> Self {
        let spec = &service.spec;
        let annotations = service.annotations.iter();
        Self {
            uid: &service.uid,
            class: spec.load_balancer_class.as_deref(),
            ports: &spec.ports,
            source_ranges: &spec.load_balancer_source_ranges,
            session_affinity: &spec.session_affinity,
            session_affinity_timeout: spec.session_affinity_timeout,
            load_balancer_ip: &spec.load_balancer_ip,
            external_ips: &spec.external_ips,
            external_traffic_policy: &spec.external_traffic_policy,
            health_check_node_port: spec.health_check_node_port,
            ip_families: &spec.ip_families,
            ip_family_policy: &spec.ip_family_policy,
            annotations: annotations
                .filter(|(key, _)| capability.is_moved_by(key))
                .collect(),
        }
    }

    /// Stored with Services and compared by later releases: another order, another field or
    /// another spelling of one ensures every load balancer of every cluster once more.
    pub(super) fn digest(&self) -> Digest {
        let Self {
            uid,
            class,
            ports,
            source_ranges,
            session_affinity,
            session_affinity_timeout,
            load_balancer_ip,
            external_ips,
            external_traffic_policy,
            health_check_node_port,
            ip_families,
            ip_family_policy,
            annotations,
        } = self;
        let mut encoder = Encoder::new("outrigger service 1");
        encoder.text(uid);
        encoder.option(*class, Encoder::text);
        encoder.list(ports.iter(), |encoder, port| {
            encoder.text(&port.name);
            encoder.text(&port.protocol);
            encoder.number(port.port);
            encoder.number(port.node_port);
            encoder.text(&port.target_port);
            encoder.option(port.app_protocol.as_deref(), Encoder::text);
        });
        encoder.texts(source_ranges);
        encoder.text(session_affinity);
        encoder.option(*session_affinity_timeout, Encoder::number);
        encoder.text(load_balancer_ip);
        encoder.texts(external_ips);
        encoder.text(external_traffic_policy);
        encoder.number(*health_check_node_port);
        encoder.texts(ip_families);
        encoder.text(ip_family_policy);
        encoder.list(annotations.iter(), |encoder, (key, value)| {
            encoder.text(key);
            encoder.text(value);
        });
        encoder.finish()
    }
}

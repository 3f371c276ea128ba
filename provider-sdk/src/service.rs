//! Services as calls carry them.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use outrigger_api::v1;

use crate::Ingress;
use crate::setters::setters;

/// A Service, as far as the contract carries it: a change of a field leads to a call, but of
/// [`labels`](Self::labels) and [`ingress`](Self::ingress) alone.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Service {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: the key of its load balancer. A Service that was deleted and made again has another.
    pub uid: String,
    /// `metadata.labels`.
    pub labels: HashMap<String, String>,
    /// `metadata.annotations` under
    /// [`ProviderInfo::service_annotation_prefixes`](crate::ProviderInfo::service_annotation_prefixes).
    pub annotations: HashMap<String, String>,
    /// `metadata.deletionTimestamp`; `None` on a Service that is not being deleted.
    pub deletion_time: Option<SystemTime>,
    /// `spec.type`; `LoadBalancer` except in a cleanup after a change of type.
    pub service_type: String,
    /// `spec.ports` in their order.
    pub ports: Vec<ServicePort>,
    /// `spec.loadBalancerClass`.
    pub load_balancer_class: Option<String>,
    /// `spec.loadBalancerIP`; empty when unset.
    pub load_balancer_ip: String,
    /// CIDRs that may come, from the spec or else from its older annotation. Empty: not limited.
    pub load_balancer_source_ranges: Vec<String>,
    /// `spec.externalTrafficPolicy`: `Cluster` or `Local`.
    pub external_traffic_policy: String,
    /// `spec.sessionAffinity`: `None` or `ClientIP`.
    pub session_affinity: String,
    /// `spec.sessionAffinityConfig.clientIP.timeoutSeconds`.
    pub session_affinity_timeout: Option<Duration>,
    /// `spec.ipFamilies` in their order: `IPv4`, `IPv6`.
    pub ip_families: Vec<String>,
    /// `spec.ipFamilyPolicy`.
    pub ip_family_policy: String,
    /// `spec.externalIPs`.
    pub external_ips: Vec<String>,
    /// `spec.healthCheckNodePort`; 0 when there is none.
    pub health_check_node_port: i32,
    /// `status.loadBalancer` as stored now. An entry with an IP address and a name is two here.
    pub ingress: Vec<Ingress>,
    /// Id in the cloud that was last answered in this lease term, empty if none was: a hint, for a cloud whose lists lag
    /// behind its creations. Act only on what carries [`uid`](Self::uid).
    pub cloud_id: String,
    /// Name in the cloud, likewise.
    pub cloud_name: String,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServicePort {
    /// May be empty on a Service of one port.
    pub name: String,
    /// `TCP`, `UDP`, `SCTP`, or whatever a later Kubernetes adds.
    pub protocol: String,
    /// Port of the load balancer, 1 to 65535.
    pub port: i32,
    /// Port on each node; 0 when none is allocated.
    pub node_port: i32,
    /// Port of the Pods, a number or a name.
    pub target_port: String,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
}

impl Service {
    /// A Service of type `LoadBalancer`, for tests of a vendor's handlers.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        uid: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
            service_type: "LoadBalancer".to_owned(),
            ..Self::default()
        }
    }

    /// Moves the message's fields.
    pub(crate) fn from_wire(wire: v1::Service) -> Self {
        let ingress = wire.status.map(|status| status.ingress).unwrap_or_default();
        let timeout = wire.session_affinity_timeout;
        Self {
            namespace: wire.namespace,
            name: wire.name,
            uid: wire.uid,
            labels: wire.labels,
            annotations: wire.annotations,
            deletion_time: wire.deletion_time.and_then(|time| time.try_into().ok()),
            service_type: wire.r#type,
            ports: wire.ports.into_iter().map(ServicePort::from_wire).collect(),
            load_balancer_class: wire.load_balancer_class,
            load_balancer_ip: wire.load_balancer_ip,
            load_balancer_source_ranges: wire.load_balancer_source_ranges,
            external_traffic_policy: wire.external_traffic_policy,
            session_affinity: wire.session_affinity,
            session_affinity_timeout: timeout.and_then(|timeout| timeout.try_into().ok()),
            ip_families: wire.ip_families,
            ip_family_policy: wire.ip_family_policy,
            external_ips: wire.external_ips,
            health_check_node_port: wire.health_check_node_port,
            ingress: ingress.into_iter().flat_map(Ingress::from_wire).collect(),
            cloud_id: String::new(),
            cloud_name: String::new(),
        }
    }
}

setters! { Service {
    with_labels => labels: HashMap<String, String>,
    with_annotations => annotations: HashMap<String, String>,
    with_deletion_time => deletion_time: Option<SystemTime>,
    with_service_type => service_type: String,
    with_ports => ports: Vec<ServicePort>,
    with_load_balancer_class => load_balancer_class: Option<String>,
    with_load_balancer_ip => load_balancer_ip: String,
    with_load_balancer_source_ranges => load_balancer_source_ranges: Vec<String>,
    with_external_traffic_policy => external_traffic_policy: String,
    with_session_affinity => session_affinity: String,
    with_session_affinity_timeout => session_affinity_timeout: Option<Duration>,
    with_ip_families => ip_families: Vec<String>,
    with_ip_family_policy => ip_family_policy: String,
    with_external_ips => external_ips: Vec<String>,
    with_ingress => ingress: Vec<Ingress>,
    with_cloud_id => cloud_id: String,
    with_cloud_name => cloud_name: String,
} }

setters! { plain Service {
    with_health_check_node_port => health_check_node_port: i32,
} }

impl ServicePort {
    /// A port, for tests of a vendor's handlers.
    pub fn new(protocol: impl Into<String>, port: i32, node_port: i32) -> Self {
        Self {
            protocol: protocol.into(),
            port,
            node_port,
            ..Self::default()
        }
    }

    fn from_wire(wire: v1::ServicePort) -> Self {
        Self {
            name: wire.name,
            protocol: wire.protocol,
            port: wire.port,
            node_port: wire.node_port,
            target_port: wire.target_port,
            app_protocol: wire.app_protocol,
        }
    }
}

setters! { ServicePort {
    with_name => name: String,
    with_target_port => target_port: String,
    with_app_protocol => app_protocol: Option<String>,
} }

#[cfg(test)]
mod tests;

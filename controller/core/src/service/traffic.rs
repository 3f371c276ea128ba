//! The consequences of a Service's traffic policy and ports for its load balancer.

use super::ServiceView;

/// Path of the health check that kube-proxy serves on every node.
pub const HEALTH_PATH: &str = "/healthz";

/// Whether traffic goes to the endpoints on the node alone that it reached (H-4).
pub fn is_local_only(service: &ServiceView) -> bool {
    matches!(&*service.spec.kind, "LoadBalancer" | "NodePort")
        && &*service.spec.external_traffic_policy == "Local"
}

/// Port on each node at which [`HEALTH_PATH`] tells whether it has endpoints; none where every node
/// takes traffic, or none was allocated (H-4).
pub fn health_check_port(service: &ServiceView) -> Option<u16> {
    let needed = service.is_load_balancer() && is_local_only(service);
    let port = u16::try_from(service.spec.health_check_node_port).ok();
    port.filter(|port| needed && *port != 0)
}

/// Whether a load balancer that sends to nodes can serve `service`: each of its ports has one on
/// the nodes. `allocateLoadBalancerNodePorts: false` leaves them out.
pub fn has_node_ports(service: &ServiceView) -> bool {
    service.spec.ports.iter().all(|port| port.node_port != 0)
}

#[cfg(test)]
mod tests {
    use super::{has_node_ports, health_check_port, is_local_only};
    use crate::fixture::load_balancer;

    /// H-4.
    #[test]
    fn services_that_need_a_health_check() {
        for (kind, policy, port, local, check) in [
            ("LoadBalancer", "Local", 30_999, true, Some(30_999)),
            ("LoadBalancer", "Local", 0, true, None),
            ("LoadBalancer", "Cluster", 30_999, false, None),
            ("LoadBalancer", "", 30_999, false, None),
            ("NodePort", "Local", 30_999, true, None),
            ("ClusterIP", "Local", 30_999, false, None),
        ] {
            let mut service = load_balancer("web");
            service.spec.kind = kind.into();
            service.spec.external_traffic_policy = policy.into();
            service.spec.health_check_node_port = port;
            assert_eq!(is_local_only(&service), local, "{kind} {policy}");
            assert_eq!(health_check_port(&service), check, "{kind} {policy} {port}");
        }
    }

    #[test]
    fn services_that_have_node_ports() {
        let mut service = load_balancer("web");
        assert!(has_node_ports(&service));
        service.spec.ports[0].node_port = 0;
        assert!(!has_node_ports(&service));
    }
}

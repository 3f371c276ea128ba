//! Nodes and Services as the provider may see them, and what it wants written to them.
//!
//! The only place that turns views into messages. Annotations go out only under the prefixes that the provider has
//! declared, and those of this controller never.

use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use outrigger_api::v1::{self, AbsenceCertainty};
use outrigger_core::{
    annotations::ALL,
    effects::RawEffects,
    node::{NodeAddress, NodeView, Ready, labels},
    service::{Ingress, Port, PortStatus, ServiceView, capability::Capability},
};

use super::Session;

/// The provider's effects, unchecked.
pub(super) fn effects(effects: v1::KubernetesEffects) -> RawEffects {
    let events = effects.events.into_iter();
    let conditions = effects.conditions.into_iter();
    let mut set_annotations: Vec<_> = effects.set_annotations.into_iter().collect();
    // Which of too many are written must not be chance.
    set_annotations.sort_unstable();
    RawEffects {
        events: events.map(|e| (e.r#type, e.reason, e.message)).collect(),
        set_annotations,
        remove_annotations: effects.remove_annotations,
        conditions: conditions
            .map(|c| (c.r#type, c.status, c.reason, c.message))
            .collect(),
        remove_conditions: effects.remove_conditions,
    }
}

/// Why an absence that a call of `took` names is not believed, though nothing is said of a cache or a young object.
pub(super) fn doubt(absent: &v1::Absent, took: Duration) -> Option<String> {
    match absent.certainty() {
        AbsenceCertainty::NotVisibleYet => None,
        AbsenceCertainty::Unspecified => Some("it has no certainty; CONFIRMED is required".into()),
        AbsenceCertainty::Confirmed => {
            // Without an age the cloud was asked for this call.
            match absent.age.map(Duration::try_from)? {
                Ok(age) if age <= took => None,
                Ok(age) => Some(format!(
                    "it is CONFIRMED with an age of {age:?}, but the call took {took:?}: the cloud was \
                     asked before the call"
                )),
                Err(_) => Some("it is CONFIRMED with a negative age".into()),
            }
        }
    }
}

/// A node as the provider may see it.
pub(super) fn node(view: &NodeView, session: &Session) -> v1::Node {
    let sent = |key: &str| {
        let mut prefixes = session.node_annotation_prefixes.iter();
        prefixes.any(|prefix| **prefix == *ALL || key.starts_with(&**prefix))
    };
    let declared = session.load_balancers.as_ref();
    let declared = declared.map_or(&[][..], |served| &served.capability.targets.label_keys);
    let sent_labels = labels::sent(&view.labels, declared);
    v1::Node {
        name: owned(&view.name),
        uid: owned(&view.uid),
        provider_id: owned(&view.provider_id),
        labels: sent_labels.into_iter().map(entry).collect(),
        annotations: view
            .annotations
            .iter()
            .filter(|(key, _)| sent(key))
            .map(entry)
            .collect(),
        addresses: addresses(&view.addresses),
        pod_cidrs: view.pod_cidrs.iter().map(|cidr| owned(cidr)).collect(),
        taints: view
            .taints
            .iter()
            .map(|taint| v1::Taint {
                key: owned(&taint.key),
                value: owned(&taint.value),
                effect: owned(&taint.effect),
            })
            .collect(),
        ready: match view.ready {
            Ready::True => "True",
            Ready::False => "False",
            Ready::Unknown => "Unknown",
        }
        .into(),
        unschedulable: view.unschedulable,
        creation_time: Some(time(view.created)),
        deletion_time: view.deleted.map(time),
        system_uuid: owned(&view.system_uuid),
    }
}

/// A node that the provider is asked about: it may be found by the addresses that the kubelet has reported.
pub(super) fn asked_node(view: &NodeView, session: &Session) -> v1::Node {
    v1::Node {
        addresses: addresses(view.status_addresses()),
        ..node(view, session)
    }
}

pub(super) fn addresses(addresses: &[NodeAddress]) -> Vec<v1::NodeAddress> {
    let sent = |address: &NodeAddress| v1::NodeAddress {
        r#type: owned(&address.kind),
        address: owned(&address.address),
    };
    addresses.iter().map(sent).collect()
}

/// A Service as the provider may see it, with the source ranges and options that were read from it.
pub(super) fn service(
    view: &ServiceView,
    capability: &Capability,
    source_ranges: &[IpNet],
    load_balancer_options: Option<v1::LoadBalancerOptions>,
) -> v1::Service {
    let spec = &view.spec;
    v1::Service {
        namespace: owned(view.namespace()),
        name: owned(view.name()),
        uid: owned(&view.uid),
        labels: view.labels.iter().map(entry).collect(),
        annotations: view
            .annotations
            .iter()
            .filter(|(key, _)| capability.reads(key))
            .map(entry)
            .collect(),
        deletion_time: view.deleted.map(time),
        r#type: owned(&spec.kind),
        ports: spec.ports.iter().map(port).collect(),
        load_balancer_class: spec.load_balancer_class.as_deref().map(owned),
        load_balancer_ip: owned(&spec.load_balancer_ip),
        load_balancer_source_ranges: source_ranges.iter().map(IpNet::to_string).collect(),
        external_traffic_policy: owned(&spec.external_traffic_policy),
        session_affinity: owned(&spec.session_affinity),
        session_affinity_timeout: spec.session_affinity_timeout.map(|seconds| {
            prost_types::Duration {
                seconds: seconds.into(),
                nanos: 0,
            }
        }),
        ip_families: texts(&spec.ip_families),
        ip_family_policy: owned(&spec.ip_family_policy),
        external_ips: texts(&spec.external_ips),
        health_check_node_port: spec.health_check_node_port,
        status: Some(v1::LoadBalancerStatus {
            ingress: view.ingress.iter().map(ingress).collect(),
        }),
        load_balancer_options,
    }
}

fn port(port: &Port) -> v1::ServicePort {
    v1::ServicePort {
        name: owned(&port.name),
        protocol: owned(&port.protocol),
        port: port.port,
        node_port: port.node_port,
        target_port: owned(&port.target_port),
        app_protocol: port.app_protocol.as_deref().map(owned),
    }
}

fn ingress(entry: &Ingress) -> v1::LoadBalancerIngress {
    let status = |port: &PortStatus| v1::PortStatus {
        port: port.port,
        protocol: owned(&port.protocol),
        error: port.error.as_deref().map(owned),
    };
    v1::LoadBalancerIngress {
        ip: owned(&entry.ip),
        hostname: owned(&entry.hostname),
        ip_mode: entry.ip_mode.as_deref().map(owned),
        ports: entry.ports.iter().map(status).collect(),
    }
}

fn owned(text: &str) -> String {
    text.to_owned()
}

fn texts(texts: &[Box<str>]) -> Vec<String> {
    texts.iter().map(|text| owned(text)).collect()
}

fn entry((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn time(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.as_second(),
        nanos: at.subsec_nanosecond(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn capability(reads: &[&str]) -> Capability {
        Capability {
            reads: reads.iter().map(|prefix| (*prefix).into()).collect(),
            ..Capability::default()
        }
    }

    /// Every field of the contract's `Service` is here with a value of its own.
    #[test]
    fn a_service_is_sent_whole() {
        let view: ServiceView = serde_json::from_value(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "4711",
                "deletionTimestamp": "2026-11-21T10:00:00Z",
                "labels": {"app": "web"},
                "annotations": {
                    "read.example/a": "1",
                    "other.example/b": "2",
                    "outrigger.dev/resync": "3",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                },
                "finalizers": ["a.example/f", "b.example/f"],
            },
            "spec": {
                "type": "LoadBalancer",
                "allocateLoadBalancerNodePorts": false,
                "clusterIPs": ["10.96.0.7", "fd00::7"],
                "externalIPs": ["198.51.100.9"],
                "externalTrafficPolicy": "Local",
                "healthCheckNodePort": 30999,
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4", "IPv6"],
                "ipFamilyPolicy": "PreferDualStack",
                "loadBalancerClass": "fake.example/fast",
                "loadBalancerIP": "192.0.2.7",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "ports": [
                    {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080,
                     "nodePort": 30080, "appProtocol": "http"},
                    {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": "dns"},
                ],
                "publishNotReadyAddresses": true,
                "selector": {"app": "web"},
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            },
            "status": {
                "conditions": [{
                    "type": "fake.example/Ready", "status": "True", "reason": "Issued",
                    "message": "by us", "lastTransitionTime": "2026-11-21T10:00:09Z",
                }],
                "loadBalancer": {"ingress": [
                    {"ip": "192.0.2.7", "ipMode": "VIP"},
                    {"hostname": "web.example.com",
                     "ports": [{"port": 80, "protocol": "TCP", "error": "Busy"}]},
                ]},
            },
        }))
        .unwrap();
        let ranges = ["10.0.0.0/8".parse().unwrap(), "fd00::/64".parse().unwrap()];
        let texts = |texts: &[&str]| texts.iter().map(|text| owned(text)).collect::<Vec<_>>();
        let map = |key: &str, value: &str| [(owned(key), owned(value))].into();
        let options = v1::LoadBalancerOptions {
            requested_addresses: texts(&["192.0.2.7"]),
            ..v1::LoadBalancerOptions::default()
        };
        let expected = v1::Service {
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u-1".into(),
            labels: map("app", "web"),
            annotations: map("read.example/a", "1"),
            deletion_time: Some(prost_types::Timestamp {
                seconds: 1_795_255_200,
                nanos: 0,
            }),
            r#type: "LoadBalancer".into(),
            ports: vec![
                v1::ServicePort {
                    name: "http".into(),
                    protocol: "TCP".into(),
                    port: 80,
                    node_port: 30_080,
                    target_port: "8080".into(),
                    app_protocol: Some("http".into()),
                },
                v1::ServicePort {
                    name: "dns".into(),
                    protocol: "UDP".into(),
                    port: 53,
                    target_port: "dns".into(),
                    ..v1::ServicePort::default()
                },
            ],
            load_balancer_class: Some("fake.example/fast".into()),
            load_balancer_ip: "192.0.2.7".into(),
            load_balancer_source_ranges: texts(&["10.0.0.0/8", "fd00::/64"]),
            external_traffic_policy: "Local".into(),
            session_affinity: "ClientIP".into(),
            session_affinity_timeout: Some(prost_types::Duration {
                seconds: 10_800,
                nanos: 0,
            }),
            ip_families: texts(&["IPv4", "IPv6"]),
            ip_family_policy: "PreferDualStack".into(),
            external_ips: texts(&["198.51.100.9"]),
            health_check_node_port: 30_999,
            status: Some(v1::LoadBalancerStatus {
                ingress: vec![
                    v1::LoadBalancerIngress {
                        ip: "192.0.2.7".into(),
                        ip_mode: Some("VIP".into()),
                        ..v1::LoadBalancerIngress::default()
                    },
                    v1::LoadBalancerIngress {
                        hostname: "web.example.com".into(),
                        ports: vec![v1::PortStatus {
                            port: 80,
                            protocol: "TCP".into(),
                            error: Some("Busy".into()),
                        }],
                        ..v1::LoadBalancerIngress::default()
                    },
                ],
            }),
            load_balancer_options: Some(options.clone()),
        };
        assert_eq!(
            service(
                &view,
                &capability(&["read.example/"]),
                &ranges,
                Some(options)
            ),
            expected
        );
        // A provider that declares no prefixes reads all annotations, except ours and kubectl's.
        let all = service(&view, &capability(&[]), &[], None);
        let mut keys: Vec<_> = all.annotations.keys().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["other.example/b", "read.example/a"]);
        assert!(all.load_balancer_source_ranges.is_empty());
    }

    #[test]
    fn absent_fields_of_a_service_are_not_sent() {
        let view: ServiceView = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
            "spec": {"type": "LoadBalancer"},
        }))
        .unwrap();
        let expected = v1::Service {
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u-1".into(),
            r#type: "LoadBalancer".into(),
            status: Some(v1::LoadBalancerStatus::default()),
            ..v1::Service::default()
        };
        assert_eq!(service(&view, &capability(&[]), &[], None), expected);
    }
}

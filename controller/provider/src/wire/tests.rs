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
    };
    assert_eq!(
        service(&view, &capability(&["read.example/"]), &ranges),
        expected
    );
    // A provider that declares no prefixes reads all annotations, except ours and kubectl's.
    let all = service(&view, &capability(&[]), &[]);
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
    assert_eq!(service(&view, &capability(&[]), &[]), expected);
}

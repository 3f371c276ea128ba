use super::*;
use crate::{IngressPoint, IpMode, PortStatus};

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn wire() -> v1::Service {
    let ingress = v1::LoadBalancerIngress {
        ip: "192.0.2.1".to_owned(),
        hostname: "lb.example".to_owned(),
        ip_mode: Some("Proxy".to_owned()),
        ports: vec![v1::PortStatus {
            port: 80,
            protocol: "TCP".to_owned(),
            error: Some("x.test/Full".to_owned()),
        }],
    };
    v1::Service {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: "u-1".to_owned(),
        labels: [("app".to_owned(), "web".to_owned())].into(),
        annotations: [("x.test/y".to_owned(), "z".to_owned())].into(),
        deletion_time: Some(prost_types::Timestamp {
            seconds: 60,
            nanos: 0,
        }),
        r#type: "LoadBalancer".to_owned(),
        ports: vec![v1::ServicePort {
            name: "http".to_owned(),
            protocol: "TCP".to_owned(),
            port: 80,
            node_port: 30_080,
            target_port: "8080".to_owned(),
            app_protocol: Some("http".to_owned()),
        }],
        load_balancer_class: Some("x.test/c".to_owned()),
        load_balancer_ip: "192.0.2.9".to_owned(),
        load_balancer_source_ranges: texts(&["10.0.0.0/8"]),
        external_traffic_policy: "Local".to_owned(),
        session_affinity: "ClientIP".to_owned(),
        session_affinity_timeout: Some(prost_types::Duration {
            seconds: 90,
            nanos: 0,
        }),
        ip_families: texts(&["IPv4", "IPv6"]),
        ip_family_policy: "PreferDualStack".to_owned(),
        external_ips: texts(&["192.0.2.3"]),
        health_check_node_port: 31_000,
        status: Some(v1::LoadBalancerStatus {
            ingress: vec![ingress],
        }),
    }
}

#[test]
fn every_field_arrives() {
    let failed = PortStatus::new(80, "TCP").with_error("x.test/Full".to_owned());
    let ip = IngressPoint::Ip {
        ip: [192, 0, 2, 1].into(),
        mode: Some(IpMode::Proxy),
    };
    let expected = Service::new("default", "web", "u-1")
        .with_labels([("app".to_owned(), "web".to_owned())])
        .with_annotations([("x.test/y".to_owned(), "z".to_owned())])
        .with_deletion_time(SystemTime::UNIX_EPOCH + Duration::from_mins(1))
        .with_ports([ServicePort::new("TCP", 80, 30_080)
            .with_name("http")
            .with_target_port("8080")
            .with_app_protocol("http".to_owned())])
        .with_load_balancer_class("x.test/c".to_owned())
        .with_load_balancer_ip("192.0.2.9")
        .with_load_balancer_source_ranges(texts(&["10.0.0.0/8"]))
        .with_external_traffic_policy("Local")
        .with_session_affinity("ClientIP")
        .with_session_affinity_timeout(Duration::from_secs(90))
        .with_ip_families(texts(&["IPv4", "IPv6"]))
        .with_ip_family_policy("PreferDualStack")
        .with_external_ips(texts(&["192.0.2.3"]))
        .with_health_check_node_port(31_000)
        .with_ingress([
            Ingress::from(ip).with_ports([failed.clone()]),
            Ingress::hostname("lb.example").with_ports([failed]),
        ]);
    assert_eq!(Service::from_wire(wire()), expected);
}

#[test]
fn an_invalid_address_is_left_out_of_the_status() {
    let entry = v1::LoadBalancerIngress {
        ip: "nonsense".to_owned(),
        ..v1::LoadBalancerIngress::default()
    };
    let status = Some(v1::LoadBalancerStatus {
        ingress: vec![entry],
    });
    let service = Service::from_wire(v1::Service { status, ..wire() });
    assert_eq!(service.ingress, []);
}

#[test]
fn texts_are_moved_and_not_copied() {
    let wire = wire();
    let before = [wire.uid.as_ptr(), wire.annotations["x.test/y"].as_ptr()];
    let service = Service::from_wire(wire);
    let after = [
        service.uid.as_ptr(),
        service.annotations["x.test/y"].as_ptr(),
    ];
    assert_eq!(before, after);
}

use outrigger_provider_sdk::v1::{ClusterInfo, Node, ServicePort};
use outrigger_provider_sdk::{CancellationToken, ErrorReason};

use super::*;

fn port(protocol: &str, port: i32) -> ServicePort {
    ServicePort {
        protocol: protocol.to_owned(),
        port,
        ..ServicePort::default()
    }
}

fn service() -> Service {
    Service {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: "uid-1".to_owned(),
        ports: vec![port("TCP", 80), port("UDP", 53)],
        ip_families: vec!["IPv4".to_owned()],
        external_traffic_policy: "Cluster".to_owned(),
        session_affinity: "None".to_owned(),
        ..Service::default()
    }
}

fn reason(service: &Service) -> Option<ErrorReason> {
    LoadBalancer::asked_by(service, None).unwrap_err().reason()
}

#[test]
fn a_service_that_cannot_be_served_is_refused_with_the_reason() {
    let with_port = |port| Service {
        ports: vec![port],
        ..service()
    };
    let sctp = with_port(port("SCTP", 80));
    assert_eq!(reason(&sctp), Some(ErrorReason::UnsupportedProtocol));
    let no_port = with_port(port("TCP", 70_000));
    assert_eq!(reason(&no_port), Some(ErrorReason::InvalidRequest));
    let no_range = Service {
        load_balancer_source_ranges: vec!["10.0.0.0".to_owned()],
        ..service()
    };
    assert_eq!(reason(&no_range), Some(ErrorReason::InvalidAnnotation));
    let named = Service {
        annotations: [(ADDRESSES.to_owned(), "198.51.100.1, nonsense".to_owned())].into(),
        ..service()
    };
    let error = named_addresses(&named).unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::InvalidAnnotation));
    assert!(error.message().contains("nonsense"), "{error}");
}

#[test]
fn a_uid_that_could_not_be_part_of_a_name_is_refused() {
    for (cluster, service_uid) in [
        ("", "uid"),
        ("uid", ""),
        ("a b", "uid"),
        ("uid", "u/i"),
        ("uid", "u\"; flush"),
    ] {
        let of = ClusterInfo {
            uid: cluster.to_owned(),
            ..ClusterInfo::default()
        };
        let ctx = Context::detached("test", of, CancellationToken::new());
        let service = Service {
            uid: service_uid.to_owned(),
            ..service()
        };
        let error = Key::of(&ctx, &service).unwrap_err();
        assert_eq!(
            error.reason(),
            Some(ErrorReason::InvalidRequest),
            "{cluster} {service_uid}"
        );
    }
}

#[test]
fn targets_are_internal_addresses_and_keep_their_health() {
    let address = |text: &str| internal(text.parse().unwrap());
    let of = |kind: &str, text: &str| NodeAddress {
        r#type: kind.to_owned(),
        address: text.to_owned(),
    };
    let node = |name: &str, addresses: &[NodeAddress]| Node {
        name: name.to_owned(),
        addresses: addresses.to_vec(),
        ..Node::default()
    };
    let nodes = Targets::new([
        node(
            "a",
            &[address("10.0.0.1"), address("fd00::1"), address("10.9.9.9")],
        ),
        node(
            "b\"; flush ruleset",
            &[of("Hostname", "b"), address("10.0.0.2")],
        ),
        node("c", &[of("ExternalIP", "203.0.113.1")]),
    ]);
    let healthy = Target {
        node: "a".to_owned(),
        healthy: true,
    };
    let before = BTreeMap::from([("10.0.0.1".parse().unwrap(), healthy)]);
    let shown = targets(&nodes, &Family::ALL, &before);
    let shown: Vec<_> = shown
        .iter()
        .map(|(ip, one)| format!("{ip} {} {}", one.node, one.healthy))
        .collect();
    assert_eq!(
        shown,
        [
            "10.0.0.1 a true",
            "10.0.0.2 bflushruleset false",
            "fd00::1 a false"
        ]
    );
}

#[test]
fn each_difference_is_named_and_health_is_none() {
    let mut held = LoadBalancer::asked_by(&service(), Some(10_256)).unwrap();
    held.targets
        .insert("10.0.0.1".parse().unwrap(), Target::default());
    let mut desired = held.clone();
    desired
        .targets
        .values_mut()
        .for_each(|target| target.healthy = true);
    assert_eq!(held.differences(&desired), <[String; 0]>::default());
    desired.affinity = Some(60);
    desired.internal = true;
    desired.targets.clear();
    assert_eq!(
        held.differences(&desired),
        [
            "internal: false, asked for: true",
            "session affinity: none, asked for: 60 s",
            "targets: 10.0.0.1 (), asked for: none"
        ]
    );
}

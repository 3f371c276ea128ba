use std::time::Duration;

use outrigger_provider_sdk::{CancellationToken, Cluster, ErrorReason, Node, ServicePort};

use super::*;

fn service() -> Service {
    Service::new("default", "web", "uid-1")
        .with_ports([
            ServicePort::new("TCP", 80, 30_080),
            ServicePort::new("UDP", 53, 0),
        ])
        .with_ip_families(["IPv4".to_owned()])
        .with_external_traffic_policy("Cluster")
        .with_session_affinity("None")
}

fn reason(service: &Service) -> Option<ErrorReason> {
    LoadBalancer::asked_by(service, None).unwrap_err().reason()
}

#[test]
fn a_service_becomes_what_the_kernel_is_to_have() {
    let balancer = LoadBalancer::asked_by(&service(), Some(10_256)).unwrap();
    assert_eq!(balancer.name, "default/web");
    assert_eq!(
        balancer.ports,
        BTreeSet::from([(Protocol::Tcp, 80), (Protocol::Udp, 53)])
    );
    assert_eq!(
        (
            balancer.source_ranges,
            balancer.affinity,
            balancer.health_port
        ),
        (None, None, Some(10_256))
    );
    let local = service()
        .with_external_traffic_policy("Local")
        .with_health_check_node_port(32_100)
        .with_session_affinity("ClientIP")
        .with_session_affinity_timeout(Duration::from_mins(1))
        .with_load_balancer_source_ranges([
            "10.1.2.3/8".to_owned(),
            " 10.0.0.0/9".to_owned(),
            "fd00::/8".to_owned(),
        ]);
    let balancer = LoadBalancer::asked_by(&local, None).unwrap();
    assert_eq!(
        (balancer.affinity, balancer.health_port),
        (Some(60), Some(32_100))
    );
    // Host bits, ranges within others and those of another family count for nothing.
    assert_eq!(
        balancer.source_ranges,
        Some(BTreeSet::from(["10.0.0.0/8".parse().unwrap()]))
    );
    let forever = service().with_session_affinity("ClientIP");
    assert_eq!(
        LoadBalancer::asked_by(&forever, None).unwrap().affinity,
        Some(10_800)
    );
}

#[test]
fn a_service_that_cannot_be_served_is_refused_with_the_reason() {
    let sctp = service().with_ports([ServicePort::new("SCTP", 80, 0)]);
    assert_eq!(reason(&sctp), Some(ErrorReason::UnsupportedProtocol));
    let no_port = service().with_ports([ServicePort::new("TCP", 70_000, 0)]);
    assert_eq!(reason(&no_port), Some(ErrorReason::InvalidRequest));
    let no_range = service().with_load_balancer_source_ranges(["10.0.0.0".to_owned()]);
    assert_eq!(reason(&no_range), Some(ErrorReason::InvalidAnnotation));
    let annotations = [(ADDRESSES.to_owned(), "198.51.100.1, nonsense".to_owned())];
    let error = named_addresses(&service().with_annotations(annotations)).unwrap_err();
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
        let ctx = Context::detached(
            "test",
            Cluster::new("test", cluster),
            CancellationToken::new(),
        );
        let service = Service::new("default", "web", service_uid);
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
    let address = |text: &str| Address::InternalIp(text.parse().unwrap());
    let node =
        |name: &str, addresses: &[Address]| Node::new(name).with_addresses(addresses.to_vec());
    let nodes = Targets::new([
        node(
            "a",
            &[address("10.0.0.1"), address("fd00::1"), address("10.9.9.9")],
        ),
        node(
            "b\"; flush ruleset",
            &[Address::Hostname("b".to_owned()), address("10.0.0.2")],
        ),
        node("c", &[Address::ExternalIp("203.0.113.1".parse().unwrap())]),
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
    desired.targets.clear();
    assert_eq!(
        held.differences(&desired),
        [
            "session affinity: none, asked for: 60 s",
            "targets: 10.0.0.1 (), asked for: none"
        ]
    );
}

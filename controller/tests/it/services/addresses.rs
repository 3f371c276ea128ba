//! Addresses and source ranges of a Service (S-37, S-39, H-1 to H-4, Q-9; upstream's integration
//! cases on node ports, mixed protocols and ipMode).

use serde_json::{Value, json};

use super::{ENSURE, MADE, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer, load_balancer_with},
    look::{
        reason,
        services::{addresses_of, condition, condition_message, node_ports},
        uid,
    },
    wait::until,
};

/// S-39, and upstream's `Test_ServiceLoadBalancerIPMode`.
#[tokio::test]
async fn s39_ip_modes_and_names_are_the_providers() {
    let stage = quick(&[]).start().await;
    for (mode, suffix) in [
        // The API server's default for none.
        ("ip", " VIP"),
        ("vip", " VIP"),
        ("proxy", " Proxy"),
        ("hostname", ".lb.mock.example"),
    ] {
        let service = annotated(mode, "mock.example/address-mode", mode);
        let service = stage.serve(service).await;
        let addresses = addresses_of(&service);
        assert_eq!(addresses.len(), 1, "{mode}");
        assert!(addresses[0].ends_with(suffix), "{mode}: {addresses:?}");
    }
}

/// S-37, Q-9: upstream writes each time what is there already.
#[tokio::test]
async fn q9_an_address_that_is_there_already_is_not_written_again() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    let before = stage.patches_of("web").len();
    stage
        .change_service("web", annotation("outrigger.dev/resync", "1"))
        .await;
    stage.only_events(&service, &[MADE, MADE].concat()).await;
    let patches = stage.patches_of("web").split_off(before);
    for patch in &patches {
        assert!(!patch.to_string().contains("ingress"), "{patch}");
    }
}

/// A second client writes an address of its own whenever it sees another one.
#[tokio::test]
async fn an_address_that_another_client_overwrites_comes_back_with_back_off_and_without_a_call() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    let before = stage.patches_of("web").len();
    let warned = until("the Warning", async || {
        let service = stage.service("web").await;
        if addresses_of(&service) != ["203.0.113.99"] {
            let foreign =
                json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.99"}]}}});
            stage.change_service_status("web", foreign).await;
        }
        let events = stage.events_of(&service).await;
        let warning = events
            .into_iter()
            .find(|event| reason(event) == "OverwrittenByAnotherClient");
        warning.ok_or_else(|| "none yet".to_owned())
    })
    .await;
    let patches = stage.patches_of("web").len() - before;
    assert!(patches <= 2, "{patches}");
    assert_eq!(stage.mock.calls(ENSURE).await, 1);
    let entries = stage.service("web").await.metadata.managed_fields.unwrap();
    let names = entries.into_iter().filter_map(|entry| entry.manager);
    let others: Vec<_> = names.filter(|name| name != "outrigger").collect();
    let message = warned.message.unwrap();
    assert!(
        others
            .iter()
            .any(|name| message.contains(&format!("{name:?}"))),
        "{message} {others:?}"
    );
}

#[tokio::test]
async fn both_families_have_an_address_each() {
    let stage = quick(&[]).start().await;
    let both = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
    let service = stage.serve(load_balancer_with("both", both)).await;
    let addresses = addresses_of(&service);
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    assert!(
        addresses[0].starts_with("198.") && addresses[1].starts_with("2001:"),
        "{addresses:?}"
    );
    // The Service's owner decides the order of families.
    let six = json!({"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}});
    let service = stage.serve(load_balancer_with("six", six)).await;
    let addresses = addresses_of(&service);
    assert!(
        addresses.len() == 1 && addresses[0].starts_with("2001:"),
        "{addresses:?}"
    );
}

/// H-1 to H-3: the source ranges that the cloud gets.
#[tokio::test]
async fn h1_source_ranges_come_from_the_spec_or_else_from_the_annotation() {
    let stage = quick(&[]).start().await;
    let key = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let from_both = json!({
        "metadata": {"annotations": {key: "203.0.113.0/24"}},
        "spec": {"loadBalancerSourceRanges": ["192.0.2.0/24", "10.0.0.0/8", "10.0.0.0/8"]},
    });
    let cases: [(&str, Value, &[&str]); 4] = [
        ("all", json!({}), &[]),
        ("spec", from_both, &["10.0.0.0/8", "192.0.2.0/24"]),
        (
            "annotation",
            annotation(key, " 203.0.113.0/24 ,198.51.100.0/24"),
            &["198.51.100.0/24", "203.0.113.0/24"],
        ),
        (
            "six",
            json!({"spec": {"loadBalancerSourceRanges": ["::/0"]}}),
            &["::/0"],
        ),
    ];
    for (name, change, expected) in cases {
        let service = stage.serve(load_balancer_with(name, change)).await;
        let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
        assert_eq!(made.source_ranges, expected, "{name}");
    }
}

/// H-4.
#[tokio::test]
async fn h4_who_takes_traffic_on_the_node_alone_is_checked_there() {
    let stage = quick(&[]).start().await;
    for (policy, checked) in [("Cluster", false), ("Local", true)] {
        let change = json!({"spec": {"externalTrafficPolicy": policy}});
        let name = policy.to_lowercase();
        let service = stage.serve(load_balancer_with(&name, change)).await;
        let port = service
            .spec
            .as_ref()
            .and_then(|spec| spec.health_check_node_port);
        let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
        assert_eq!(
            made.health_check_node_port,
            port.unwrap_or_default(),
            "{policy}"
        );
        assert_eq!(port.is_some_and(|port| port != 0), checked, "{policy}");
        // S-51: the same nodes.
        stage
            .mock
            .sends_to(uid(&service), &["n-00000", "n-00001"])
            .await;
    }
}

/// Upstream's `Test_ServiceLoadBalancerDisableAllocateNodePorts`, and those that switch it.
#[tokio::test]
async fn node_ports_are_there_or_not_as_the_service_says() {
    let stage = quick(&[]).start().await;
    let ports_of = async |uid: &str| {
        let made = stage.mock.load_balancer(uid).await.unwrap();
        let ports = made.ports.iter().map(|port| port.node_port);
        ports.collect::<Vec<_>>()
    };
    let without = json!({"spec": {"allocateLoadBalancerNodePorts": false}});
    let service = stage.serve(load_balancer_with("web", without)).await;
    assert_eq!(node_ports(&service), [0]);
    assert_eq!(ports_of(uid(&service)).await, [0]);

    let with = json!({"spec": {"allocateLoadBalancerNodePorts": true}});
    let changed = stage.change_service("web", with).await;
    assert_ne!(node_ports(&changed), [0]);
    stage.mock.was_called(ENSURE, 2).await;
    assert_eq!(ports_of(uid(&service)).await, node_ports(&changed));

    // To allocate none takes none away; only their owner does.
    let ports = json!([{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 0}]);
    let none = json!({"spec": {"allocateLoadBalancerNodePorts": false, "ports": ports}});
    let changed = stage.change_service("web", none).await;
    assert_eq!(node_ports(&changed), [0]);
    stage.mock.was_called(ENSURE, 3).await;
    assert_eq!(ports_of(uid(&service)).await, [0]);
}

/// Upstream's `Test_ServiceLoadBalancerMixedProtocolSetup`.
#[tokio::test]
async fn several_protocols_in_one_service() {
    let stage = quick(&[]).start().await;
    let ports = json!([
        {"name": "dns-tcp", "protocol": "TCP", "port": 53},
        {"name": "dns-udp", "protocol": "UDP", "port": 53},
    ]);
    let both = json!({"spec": {"ports": ports}});
    let service = stage.serve(load_balancer_with("dns", both)).await;
    let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
    let protocols: Vec<_> = made.ports.iter().map(|port| &*port.protocol).collect();
    assert_eq!(protocols, ["TCP", "UDP"]);
}

#[tokio::test]
async fn a_cloud_that_cannot_mix_protocols_says_so_on_the_service() {
    let stage = quick(&["--lb-without-mixed-protocols"]).start().await;
    let ports = json!([
        {"name": "tcp", "protocol": "TCP", "port": 53},
        {"name": "udp", "protocol": "UDP", "port": 53},
    ]);
    let both = json!({"spec": {"ports": ports}});
    stage.create_service(load_balancer_with("dns", both)).await;
    let refused = stage
        .service_that("dns", "is refused", |service| {
            condition(service, "Accepted").0 == "False"
        })
        .await;
    let message = condition_message(&refused, "Accepted");
    assert!(message.contains("several protocols"), "{message}");
    let one = json!({"spec": {"ports": [{"name": "tcp", "protocol": "TCP", "port": 53}]}});
    stage.change_service("dns", one).await;
    stage.served("dns").await;
}

//! Routes, as a controller asks for them.

use std::num::NonZeroUsize;
use std::time::Duration;

use outrigger_api::v1::{CreateRouteRequest, Route};
use outrigger_provider_mock::routes::{Route as CloudRoute, RouteTarget};
use outrigger_provider_mock::{ListedTarget, ServedRoutes};
use tokio::time::Instant;

use crate::harness::{Mock, reason};
use crate::routed::{Routed, list, route};

const POD_CIDR: &str = "10.1.0.0/24";

#[tokio::test]
async fn routes_are_declared_only_where_they_are_asked_for() {
    let mock = Mock::start(|_| {}).await;
    let capabilities = mock.handshake.capabilities.unwrap();
    assert!(capabilities.routes.is_none() && capabilities.effects.is_none());
    let served = ServedRoutes {
        max_in_flight: 3,
        effects: true,
        ..ServedRoutes::default()
    };
    let routed = Routed::start(served).await;
    let capabilities = routed.mock.handshake.capabilities.as_ref().unwrap();
    let routes = capabilities.routes.as_ref().unwrap();
    assert_eq!(routes.max_in_flight, 3);
    let effects = capabilities.effects.as_ref().unwrap();
    assert_eq!(effects.node_annotation_prefixes, ["status.mock.example/"]);
    assert_eq!(effects.condition_type_prefixes, ["status.mock.example/"]);
}

/// RTE-01, RTE-03, RTE-04, RTE-10: however a list names the target.
#[tokio::test]
async fn routes_are_made_listed_and_removed() {
    use ListedTarget::{All, NextHop, NodeName, ProviderId};
    for target in [NodeName, ProviderId, NextHop, All] {
        let routed = Routed::start(ServedRoutes {
            target,
            ..ServedRoutes::default()
        })
        .await;
        let routes = [route(POD_CIDR, "n-1"), route("2001:db8:1::/64", "n-1")];
        let mut made = Vec::new();
        for one in &routes {
            let answered = routed.made(one.clone()).await;
            assert_eq!(routed.made(one.clone()).await, answered, "again");
            made.push(answered);
        }
        assert_eq!(routed.list().await.unwrap(), (made.clone(), true));
        let named = |one: &Route| {
            let (name, id) = (one.node_name.clone(), one.provider_id.clone());
            (name, id, one.next_hop_ip.clone())
        };
        let shown = |by, text: &str| match target {
            All => text.to_owned(),
            _ if target == by => text.to_owned(),
            _ => String::new(),
        };
        for (one, hop) in made.iter().zip(["10.0.0.1", "fd00::1"]) {
            let expected = (
                shown(NodeName, "n-1"),
                shown(ProviderId, "mock://n-1"),
                shown(NextHop, hop),
            );
            assert_eq!(named(one), expected);
            assert!(one.name.starts_with("r-") && !one.blackhole);
            assert!(!one.compare_node_addresses && one.node_addresses.is_empty());
        }
        // The route as listed, and as requested.
        for unwanted in [&made[0], &routes[1]] {
            for _ in 0..2 {
                let gone = routed.delete(unwanted.clone()).await.unwrap();
                assert!(gone.absent.is_some());
            }
        }
        assert_eq!(routed.list().await.unwrap(), (vec![], true));
    }
}

/// RTE-03.
#[tokio::test]
async fn a_list_has_the_routes_of_its_cluster() {
    for whole_table in [false, true] {
        let routed = Routed::start(ServedRoutes {
            whole_table,
            ..ServedRoutes::default()
        })
        .await;
        routed.made(route(POD_CIDR, "n-1")).await;
        let (mut other, context) = routed.of_cluster("another");
        let to = |cidr| CreateRouteRequest {
            context: Some(context.clone()),
            route: Some(route(cidr, "n-1")),
        };
        other.create_route(to("10.2.0.0/24")).await.unwrap();
        let refused = other.create_route(to(POD_CIDR)).await.unwrap_err();
        assert_eq!(reason(&refused).as_deref(), Some("CONFLICTING_RESOURCE"));
        let untagged = CloudRoute {
            name: "by-hand".into(),
            cluster: None,
            destination: "192.0.2.0/24".parse().unwrap(),
            target: RouteTarget::default(),
            blackhole: true,
            created_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let added = routed
            .mock
            .cloud
            .edit_routes(|table| table.insert(untagged));
        added.unwrap();

        let (listed, _) = routed.list().await.unwrap();
        let destinations: Vec<_> = listed
            .iter()
            .map(|one| one.destination_cidr.as_str())
            .collect();
        let (others, _) = list(other, context).await.unwrap();
        let theirs = others
            .iter()
            .find(|one| one.destination_cidr == "10.2.0.0/24");
        let theirs = theirs.unwrap();
        if whole_table {
            assert_eq!(destinations, [POD_CIDR, "10.2.0.0/24", "192.0.2.0/24"]);
            assert!(listed[2].blackhole);
        } else {
            assert_eq!(destinations, [POD_CIDR]);
            assert_eq!(others.len(), 1);
        }
        // Another cluster's route stays whatever is asked.
        let theirs = Route {
            name: theirs.name.clone(),
            ..route("10.2.0.0/24", "n-1")
        };
        let refused = routed.delete(theirs).await.unwrap_err();
        assert_eq!(reason(&refused).as_deref(), Some("CONFLICTING_RESOURCE"));
        assert_eq!(routed.mock.cloud.routes().len(), 3);
    }
}

/// RTE-06.
#[tokio::test]
async fn a_full_table_refuses_a_route_and_the_effects_say_so() {
    let served = ServedRoutes {
        effects: true,
        ..ServedRoutes::default()
    };
    let few = |config: &mut outrigger_provider_mock::CloudConfig| config.max_routes = Some(1);
    let routed = Routed::over(few, served).await;
    let made = routed.create(route(POD_CIDR, "n-1")).await.unwrap();
    let effects = made.effects.unwrap();
    assert_eq!(effects.conditions[0].status, "True");
    assert_eq!(effects.events[0].r#type, "Normal");
    assert_eq!(effects.set_annotations.len(), 1);
    let refused = routed
        .create(route("10.1.2.0/24", "n-1"))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused).as_deref(), Some("QUOTA_EXCEEDED"));
    assert!(String::from_utf8_lossy(refused.details()).contains("status.mock.example/Routed"));
    let gone = routed.delete(route(POD_CIDR, "n-1")).await.unwrap();
    let effects = gone.effects.unwrap();
    assert_eq!(effects.remove_conditions, ["status.mock.example/Routed"]);
}

#[tokio::test]
async fn results_may_leave_the_route_out_and_lists_may_have_addresses() {
    let routed = Routed::start(ServedRoutes {
        bare_results: true,
        compared_addresses: true,
        ..ServedRoutes::default()
    })
    .await;
    let desired_route = route(POD_CIDR, "n-1");
    let made = routed.made(desired_route.clone()).await;
    assert_eq!(made, Route::default());
    let (listed, _) = routed.list().await.unwrap();
    assert!(listed[0].compare_node_addresses);
    assert_eq!(listed[0].node_addresses, desired_route.node_addresses);
    routed.delete(listed[0].clone()).await.unwrap();
    assert!(routed.mock.cloud.routes().is_empty());
}

/// One call to the cloud for each route and each page.
#[tokio::test(start_paused = true)]
async fn each_route_costs_a_call() {
    let slow = |config: &mut outrigger_provider_mock::CloudConfig| {
        config.latency = Duration::from_millis(20);
        config.page_size = NonZeroUsize::new(40).unwrap();
    };
    let routed = Routed::over(slow, ServedRoutes::default()).await;
    let started = Instant::now();
    let create = |subnet: u32| routed.made(route(&format!("10.1.{subnet}.0/24"), "n-1"));
    let made = futures::future::join_all((0..100).map(create)).await;
    assert_eq!(started.elapsed(), Duration::from_millis(20));
    routed.list().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(80));
    routed.delete(made[0].clone()).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(100));
    let counts = routed.mock.cloud.counters();
    assert_eq!(counts.calls("CreateRoute", "OK"), 100);
    assert_eq!(counts.calls("ListRoutes", "OK"), 1);
    let served = |operation: &str| counts.cloud[operation].served;
    let served = ["CreateRoute", "ListRoutes", "DeleteRoute"].map(served);
    assert_eq!(served, [100, 3, 1]);
}

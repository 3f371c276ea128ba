//! Routes, as a controller asks for them.

use outrigger_api::v1::{CreateRouteRequest, Route};
use outrigger_provider_mock::routes::{Route as CloudRoute, RouteTarget};
use outrigger_provider_mock::{ListedTarget, ServedRoutes};

use crate::harness::reason;
use crate::routed::{Routed, list, route};

const POD_CIDR: &str = "10.1.0.0/24";

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

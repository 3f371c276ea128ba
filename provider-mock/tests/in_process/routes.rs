//! Routes, as a controller asks for them.

use outrigger_api::v1::{CreateRouteRequest, Route};
use outrigger_provider_mock::ServedRoutes;
use outrigger_provider_mock::routes::{Route as CloudRoute, RouteTarget};

use crate::harness::reason;
use crate::routed::{Routed, list, route};

const POD_CIDR: &str = "10.1.0.0/24";

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

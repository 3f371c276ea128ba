//! Which calls change routes, and when they go out.

use std::time::Duration;

use futures::future::join_all;
use outrigger_api::v1;
use outrigger_core::{cidr::Cidr, node::NodeAddress, route::WantedRoute};
use tokio::time::{Instant, sleep};

use super::{
    fake::{Reply, Step, done, gone},
    rig::Rig,
    secs,
};
use crate::RouteAnswer;

/// The route to Node `node-<n>`, 10.<n / 256>.<n % 256>.0/24.
pub(super) fn wanted(n: u32) -> WantedRoute {
    WantedRoute {
        destination: Cidr::parse(&format!("10.{}.{}.0/24", n / 256, n % 256)).unwrap(),
        node_name: format!("node-{n}").into(),
        node_uid: format!("uid-{n}").into(),
        provider_id: format!("fake://{n}").into(),
        node_addresses: [NodeAddress {
            kind: "InternalIP".into(),
            address: "192.168.0.1".into(),
        }]
        .into(),
    }
}

pub(super) async fn create(rig: &Rig, n: u32) -> RouteAnswer {
    rig.provider.routes().create(wanted(n), || true).await
}

pub(super) async fn delete(rig: &Rig, n: u32) -> RouteAnswer {
    rig.provider
        .routes()
        .delete(wanted(n).as_made(), || true)
        .await
}

/// A list of one route.
pub(super) fn one_list() -> Vec<Step<v1::ListRoutesResponse>> {
    vec![Step::Say(v1::ListRoutesResponse {
        items: vec![v1::Route {
            destination_cidr: "10.0.0.0/24".into(),
            ..v1::Route::default()
        }],
        complete: true,
    })]
}

/// With a provider that takes so many calls at a time, and each takes a second.
pub(super) async fn slow(max_in_flight: u32) -> Rig {
    let rig = Rig::routing(v1::RoutesCapability { max_in_flight }).await;
    let create = |_: &_| Reply::After(secs(1), Box::new(Reply::Say(done())));
    rig.fake.routes.create.on(create);
    let delete = |_: &_| Reply::After(secs(1), Box::new(Reply::Say(gone())));
    rig.fake.routes.delete.on(delete);
    rig
}

#[tokio::test(start_paused = true)]
async fn a_route_goes_out_at_once_with_all_that_the_cloud_needs() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let started = Instant::now();
    let route = create(&rig, 1).await.result.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(route, wanted(1).as_made());
    let (_, request) = rig.fake.routes.create.calls().remove(0);
    assert_eq!(request.context.unwrap().cluster_uid, "uid-1");
    let sent = v1::Route {
        destination_cidr: "10.0.1.0/24".into(),
        node_name: "node-1".into(),
        provider_id: "fake://1".into(),
        node_addresses: vec![v1::NodeAddress {
            r#type: "InternalIP".into(),
            address: "192.168.0.1".into(),
        }],
        node_uid: "uid-1".into(),
        ..v1::Route::default()
    };
    assert_eq!(request.route, Some(sent));
}

#[tokio::test(start_paused = true)]
async fn a_route_is_deleted_exactly_as_the_provider_named_it() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let named = v1::Route {
        name: "route-7".into(),
        destination_cidr: "fd00::0:1:0/112".into(),
        next_hop_ip: "::ffff:192.168.0.1".into(),
        blackhole: true,
        compare_node_addresses: true,
        ..v1::Route::default()
    };
    rig.fake
        .routes
        .on_list(vec![Step::Say(v1::ListRoutesResponse {
            items: vec![named.clone()],
            complete: true,
        })]);
    let route = rig.provider.routes().list().await.unwrap().remove(0);
    let answer = rig.provider.routes().delete(route.clone(), || true).await;
    assert_eq!(answer.result, Ok(route));
    let (_, request) = rig.fake.routes.delete.calls().remove(0);
    assert_eq!(request.route, Some(named));
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_in_flight_than_declared() {
    for (max_in_flight, took) in [(1, 20), (10, 2), (0, 2)] {
        let rig = slow(max_in_flight).await;
        let started = Instant::now();
        let creations = join_all((0..10).map(|n| create(&rig, n)));
        let deletions = join_all((10..20).map(|n| delete(&rig, n)));
        let half = secs(1) / 2;
        let listed = async {
            sleep(half).await;
            rig.fake.routes.on_list(one_list());
            rig.provider.routes().list().await.unwrap();
            started.elapsed()
        };
        let (_, _, listed) = tokio::join!(creations, deletions, listed);
        assert_eq!(started.elapsed(), secs(took), "{max_in_flight}");
        // A list does not count.
        assert_eq!(listed, half);
    }
}

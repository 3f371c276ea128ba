//! Which routes share a call, and when it goes out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use outrigger_api::v1;
use outrigger_core::{cidr::Cidr, node::NodeAddress, route::WantedRoute};
use tokio::time::{Instant, sleep, timeout};

use super::{
    fake::{Reply, Step, done, gone},
    rig::Rig,
    secs,
};
use crate::{Error, RouteAnswer};

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

pub(super) async fn create_all(rig: &Rig, count: u32) -> Vec<RouteAnswer> {
    join_all((0..count).map(|n| create(rig, n))).await
}

pub(super) fn created(rig: &Rig) -> Vec<Vec<String>> {
    let calls = rig.fake.routes.create.calls();
    calls.iter().map(|(_, r)| names(&r.items)).collect()
}

pub(super) fn deleted(rig: &Rig) -> Vec<Vec<String>> {
    let calls = rig.fake.routes.delete.calls();
    calls.iter().map(|(_, r)| names(&r.items)).collect()
}

fn names(routes: &[v1::Route]) -> Vec<String> {
    routes.iter().map(|route| route.node_name.clone()).collect()
}

pub(super) fn sizes(batches: &[Vec<String>]) -> Vec<usize> {
    batches.iter().map(Vec::len).collect()
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

/// With a provider that takes one call at a time, and each takes a second.
pub(super) async fn slow(max_batch_size: u32) -> Rig {
    let rig = Rig::routing(v1::RoutesCapability {
        max_batch_size,
        max_in_flight: 1,
    })
    .await;
    rig.fake.routes.create.on(|request| {
        let results = request.items.iter().map(done).collect();
        let answer = Reply::Say(v1::BatchCreateRoutesResponse { results });
        Reply::After(secs(1), Box::new(answer))
    });
    rig.fake.routes.delete.on(|request| {
        let results = request.items.iter().map(gone).collect();
        let answer = Reply::Say(v1::BatchDeleteRoutesResponse { results });
        Reply::After(secs(1), Box::new(answer))
    });
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
    assert_eq!(request.items, [sent]);
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
    assert_eq!(request.items, [named]);
}

#[tokio::test(start_paused = true)]
async fn many_routes_go_out_at_once_in_full_batches() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let started = Instant::now();
    for answer in create_all(&rig, 250).await {
        answer.result.unwrap();
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(sizes(&created(&rig)), [100, 100, 50]);
    let metrics = rig.metrics();
    for line in [
        "outrigger_provider_route_batch_routes_count 3",
        "outrigger_provider_route_batch_routes_sum 250.0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn routes_that_wait_for_a_call_in_flight_share_the_next() {
    let rig = slow(0).await;
    let started = Instant::now();
    let later = async {
        sleep(secs(1) / 2).await;
        join_all((1..31).map(|n| create(&rig, n))).await
    };
    tokio::join!(create(&rig, 0), later);
    assert_eq!(sizes(&created(&rig)), [1, 30]);
    assert_eq!(started.elapsed(), secs(2));
}

#[tokio::test(start_paused = true)]
async fn creations_and_deletions_take_turns_by_age() {
    let rig = slow(2).await;
    let started = Instant::now();
    let ended = (0..6).map(async |n| {
        sleep(Duration::from_millis(u64::from(100 * n))).await;
        let change = match n {
            2 | 5 => delete(&rig, n).await,
            _ => create(&rig, n).await,
        };
        change.result.unwrap();
        started.elapsed().as_secs()
    });
    // The creation at 400 ms has no room in the batch that the one at 100 ms leads.
    assert_eq!(join_all(ended).await, [1, 2, 3, 2, 4, 3]);
    assert_eq!(deleted(&rig), [["node-2", "node-5"]]);
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_in_flight_than_declared() {
    for (max_in_flight, took) in [(1, 8), (2, 4), (0, 2)] {
        let rig = slow(1).await;
        rig.fake.introduce(move |answer| {
            let offered = answer.capabilities.get_or_insert_default();
            offered.routes = Some(v1::RoutesCapability {
                max_batch_size: 1,
                max_in_flight,
            });
        });
        rig.fake.kill();
        rig.reaches(|state| !state.serves()).await;
        rig.fake.restart();
        rig.wait_until_serving().await;
        let started = Instant::now();
        let creations = join_all((0..4).map(|n| create(&rig, n)));
        let deletions = join_all((4..8).map(|n| delete(&rig, n)));
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

#[tokio::test(start_paused = true)]
async fn no_request_has_a_destination_twice() {
    let rig = slow(0).await;
    let again = async {
        sleep(secs(1) / 2).await;
        tokio::join!(create(&rig, 1), create(&rig, 1), create(&rig, 2))
    };
    tokio::join!(create(&rig, 0), again);
    let one = ["node-1", "node-2"].map(str::to_owned).to_vec();
    let expected = [vec!["node-0".to_owned()], one, vec!["node-1".to_owned()]];
    assert_eq!(created(&rig), expected);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_no_larger_than_the_provider_takes() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            answer.max_receive_message_bytes = 64 << 10;
            let offered = answer.capabilities.get_or_insert_default();
            offered.routes = Some(v1::RoutesCapability::default());
        });
    });
    rig.wait_until_serving().await;
    let heavy = |n, bytes| WantedRoute {
        provider_id: "x".repeat(bytes).into(),
        ..wanted(n)
    };
    let fit = join_all((0..10).map(|n| rig.provider.routes().create(heavy(n, 18 << 10), || true)));
    let huge = rig.provider.routes().create(heavy(10, 64 << 10), || true);
    let (fit, huge) = tokio::join!(fit, huge);
    for answer in fit {
        answer.result.unwrap();
    }
    assert_eq!(sizes(&created(&rig)), [3, 3, 3, 1]);
    let error = huge.result.unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                limit: 65536,
                rpc: "BatchCreateRoutes",
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!error.leaves_result_unknown());
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_not_wanted_any_more_is_not_sent() {
    let rig = slow(0).await;
    let is_current = Arc::new(AtomicBool::new(true));
    let is_wanted = Arc::clone(&is_current);
    let outdated = rig
        .provider
        .routes()
        .create(wanted(1), move || is_wanted.load(Ordering::Relaxed));
    let change = async {
        sleep(secs(1) / 2).await;
        is_current.store(false, Ordering::Relaxed);
    };
    let (_, outdated, other, ()) = tokio::join!(create(&rig, 0), outdated, create(&rig, 2), change);
    // All three go at once: the change comes too late.
    outdated.result.unwrap();
    other.result.unwrap();
    assert_eq!(sizes(&created(&rig)), [3]);

    is_current.store(true, Ordering::Relaxed);
    let is_wanted = Arc::clone(&is_current);
    let late = async {
        sleep(secs(1) / 4).await;
        let call = rig
            .provider
            .routes()
            .create(wanted(1), move || is_wanted.load(Ordering::Relaxed));
        let change = async {
            sleep(secs(1) / 4).await;
            is_current.store(false, Ordering::Relaxed);
        };
        tokio::join!(call, create(&rig, 2), change)
    };
    let (_, (outdated, other, ())) = tokio::join!(create(&rig, 0), late);
    let error = outdated.result.unwrap_err();
    assert!(matches!(error, Error::Outdated { .. }), "{error:?}");
    other.result.unwrap();
    assert_eq!(created(&rig)[1..], [["node-0"], ["node-2"]]);
    let answer = rig.provider.routes().create(wanted(3), || false).await;
    assert!(matches!(answer.result, Err(Error::Outdated { .. })));
    assert_eq!(created(&rig).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_caller_withdraws_its_route_alone() {
    let rig = slow(0).await;
    let waits = async {
        sleep(secs(1) / 4).await;
        let dropped = timeout(secs(1) / 4, create(&rig, 1));
        let (dropped, other) = tokio::join!(dropped, create(&rig, 2));
        dropped.unwrap_err();
        other.result.unwrap();
    };
    tokio::join!(create(&rig, 0), waits);
    assert_eq!(created(&rig), [["node-0"], ["node-2"]]);
    // A route that was sent stays in its call, for the sake of the others in it.
    let dropped = timeout(secs(1) / 4, create(&rig, 3));
    let (dropped, other) = tokio::join!(dropped, create(&rig, 4));
    dropped.unwrap_err();
    other.result.unwrap();
    assert_eq!(created(&rig)[2], ["node-3", "node-4"]);
}

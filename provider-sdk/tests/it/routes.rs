//! Route calls, seen from the other end of the wire.

use std::time::Duration;

use outrigger_api::v1::{self, Route, RoutesCapability};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::harness::reason;
use crate::route_tables::{Table, client, create, delete, list, route, serve};

/// RTE-01, RTE-04, RTE-10.
#[tokio::test]
async fn routes_are_made_listed_and_removed_and_again_is_the_same() {
    let table = Table::default();
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    let of_ipv6 = v1::Route {
        destination_cidr: "2001:db8::/64".to_owned(),
        ..route(0, "n-1")
    };
    for one in [route(0, "n-1"), of_ipv6.clone(), route(0, "n-1"), of_ipv6] {
        let made = create(&mut client, one).await.unwrap();
        assert_eq!(made.found.unwrap().name, "r-n-1");
    }
    assert_eq!(table.destinations(), ["10.1.0.0/24", "2001:db8::/64"]);

    let (messages, end) = list(&mut client).await;
    end.unwrap();
    let [listed] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert!(listed.complete && listed.items[0].node_name == "n-1");
    for _ in 0..2 {
        for one in &listed.items {
            delete(&mut client, one.clone()).await.unwrap();
        }
    }
    assert!(table.destinations().is_empty());
}

/// A list may have shown a destination that is none, and no Node.
#[tokio::test]
async fn a_route_without_a_legal_destination_can_be_deleted() {
    let table = Table::default();
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    let to_pods = v1::Route {
        destination_cidr: "pods".to_owned(),
        ..route(0, "n-1")
    };
    table
        .routes
        .lock()
        .insert("pods".to_owned(), Route::default());
    for odd in [to_pods, route(0, "")] {
        delete(&mut client, odd).await.unwrap();
    }
    assert!(table.destinations().is_empty());
}

#[tokio::test]
async fn an_error_of_a_route_has_its_effects_and_a_panic_tells_nothing() {
    let rig = serve(Table::default());
    let mut client = client(&rig).await;
    let refused = create(&mut client, route(0, "refused")).await.unwrap_err();
    assert_eq!(reason(&refused), "QUOTA_EXCEEDED");
    assert!(String::from_utf8_lossy(refused.details()).contains("x.test/y"));
    let panicked = create(&mut client, route(0, "panics")).await.unwrap_err();
    assert_eq!(panicked.code(), Code::Internal);
    assert!(!panicked.message().contains("secret"), "{panicked}");
}

/// RTE-08.
#[tokio::test(start_paused = true)]
async fn one_destination_is_changed_by_one_call_at_a_time() {
    let table = Table::default();
    let rig = serve(table.clone());
    let (mut first, mut second) = (client(&rig).await, client(&rig).await);
    let started = Instant::now();
    let other = async {
        sleep(Duration::from_secs(1)).await;
        delete(&mut second, route(1, "n-2")).await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 1, "another destination waits");
        // The same destination in another spelling.
        let respelled = v1::Route {
            destination_cidr: "10.1.0.7/24".to_owned(),
            ..route(0, "another")
        };
        delete(&mut second, respelled).await.unwrap();
        started.elapsed().as_secs()
    };
    let (made, deleted) = tokio::join!(create(&mut first, route(0, "slow")), other);
    made.unwrap();
    assert_eq!(deleted, 5);
}

/// A handler that outlives its caller still holds its destination: RTE-09.
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_a_whole_route() {
    let (steps, mut seen) = mpsc::unbounded_channel();
    let table = Table {
        steps: Some(steps),
        ..Table::default()
    };
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    tokio::select! {
        ended = create(&mut client, route(0, "two-steps")) => panic!("{ended:?}"),
        step = seen.recv() => assert_eq!(step, Some("created")),
    }
    let early = delete(&mut client, route(0, "n-1")).await.unwrap_err();
    assert_eq!(reason(&early), "OPERATION_IN_PROGRESS");
    table.second.notify_one();
    let step = timeout(Duration::from_secs(5), seen.recv()).await;
    assert_eq!(step.expect("the handler was dropped"), Some("tagged"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(table.destinations(), ["10.1.0.0/24"]);
    delete(&mut client, route(0, "n-1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_more_routes_are_changed_at_a_time_than_the_provider_takes() {
    for (max_in_flight, took) in [(1, 15), (2, 10), (0, 5)] {
        let rig = serve(Table::with(RoutesCapability { max_in_flight }));
        let (mut first, mut second, mut third) =
            (client(&rig).await, client(&rig).await, client(&rig).await);
        let started = Instant::now();
        let (a, b, c) = tokio::join!(
            create(&mut first, route(1, "slow-1")),
            create(&mut second, route(2, "slow-2")),
            delete(&mut third, route(3, "slow-3")),
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(started.elapsed().as_secs(), took, "{max_in_flight} at once");
    }
}

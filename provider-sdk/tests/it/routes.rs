//! Route calls, seen from the other end of the wire.

use std::time::Duration;

use outrigger_api::v1::{self, RoutesCapability};
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::harness::reason;
use crate::route_tables::{Table, client, create, delete, route, serve};

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

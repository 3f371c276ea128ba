//! How the wait for a route ends that is not changed, or perhaps changed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outrigger_api::v1;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::{
    fake::{Reply, done, refusal},
    rig::Rig,
    route_batches::{create, create_all, created, delete, deleted, sizes, slow, wanted},
    secs,
};
use crate::{Error, Provider};
use outrigger_runtime::fence::Fence;

fn fenced(provider: &Provider) -> (Provider, Fence) {
    let fence = Fence::new(|| true, &CancellationToken::new());
    (provider.fenced(fence.clone()), fence)
}

#[tokio::test(start_paused = true)]
async fn a_stop_withdraws_routes_that_wait_and_a_cancel_ends_those_in_flight() {
    let rig = slow(0).await;
    rig.fake.routes.create.on(|_| Reply::Hang);
    let (provider, fence) = fenced(&rig.provider);
    let started = Instant::now();
    let stop = async {
        sleep(secs(3)).await;
        fence.stop();
        sleep(secs(3)).await;
        fence.cancel();
    };
    let late = async {
        sleep(secs(1)).await;
        let answer = provider.routes().delete(wanted(1).as_made(), || true).await;
        (answer, started.elapsed())
    };
    let (sent, (waited, at), ()) =
        tokio::join!(provider.routes().create(wanted(0), || true), late, stop);
    let error = waited.result.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error:?}");
    assert!(!error.leaves_result_unknown());
    assert_eq!(at, secs(3));
    let error = sent.result.unwrap_err();
    assert!(matches!(error, Error::Cancelled { .. }), "{error:?}");
    assert!(error.leaves_result_unknown());
    assert_eq!(started.elapsed(), secs(6));
    assert!(deleted(&rig).is_empty());
}

/// The fence of one lease term says nothing about the other.
#[tokio::test(start_paused = true)]
async fn routes_of_two_lease_terms_share_no_call() {
    let rig = slow(0).await;
    let leads = Arc::new(AtomicBool::new(true));
    let is_leading = Arc::clone(&leads);
    let is_leader = move || is_leading.load(Ordering::Relaxed);
    let fence = Fence::new(is_leader, &CancellationToken::new());
    let last = rig.provider.fenced(fence);
    let (next, _) = fenced(&rig.provider);
    let late = async {
        sleep(secs(1) / 4).await;
        let lost = async {
            sleep(secs(1) / 4).await;
            leads.store(false, Ordering::Relaxed);
        };
        tokio::join!(
            last.routes().create(wanted(1), || true),
            next.routes().create(wanted(2), || true),
            last.routes().create(wanted(3), || true),
            next.routes().create(wanted(4), || true),
            lost,
        )
    };
    let (_, (first, second, third, fourth, ())) = tokio::join!(create(&rig, 0), late);
    for withdrawn in [first, third] {
        let error = withdrawn.result.unwrap_err();
        assert!(matches!(error, Error::Fenced { .. }), "{error:?}");
    }
    second.result.unwrap();
    fourth.result.unwrap();
    assert_eq!(created(&rig)[1..], [["node-2", "node-4"]]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connections_task_leaves_a_route_in_flight_unknown() {
    let rig = slow(1).await;
    rig.fake.routes.create.on(|_| Reply::Hang);
    let end = async {
        sleep(secs(1)).await;
        rig.cancel.cancel();
    };
    let (sent, waited, ()) = tokio::join!(create(&rig, 0), create(&rig, 1), end);
    assert!(sent.result.unwrap_err().leaves_result_unknown());
    assert!(!waited.result.unwrap_err().leaves_result_unknown());
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_dies_leaves_the_routes_in_flight_unknown() {
    let rig = slow(0).await;
    let kill = async {
        sleep(secs(1) / 2).await;
        rig.fake.kill();
    };
    let late = async {
        sleep(secs(1) / 4).await;
        create(&rig, 1).await
    };
    let (sent, waited, ()) = tokio::join!(create(&rig, 0), late, kill);
    let error = sent.result.unwrap_err();
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error:?}");
    assert!(error.leaves_result_unknown());
    let error = waited.result.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(!error.leaves_result_unknown());
    rig.fake.restart();
    rig.wait_until_serving().await;
    create(&rig, 1).await.result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_know_the_session_gets_the_routes_again() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let is_new = AtomicBool::new(true);
    rig.fake.routes.create.on(move |request| {
        if is_new.swap(false, Ordering::Relaxed) {
            return Reply::Fail(refusal(Code::FailedPrecondition, "NOT_HANDSHAKED", None));
        }
        let results = request.items.iter().map(done).collect();
        Reply::Say(v1::BatchCreateRoutesResponse { results })
    });
    for answer in create_all(&rig, 2).await {
        answer.result.unwrap();
    }
    assert_eq!(sizes(&created(&rig)), [2, 2]);
    assert_eq!(rig.fake.handshakes.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_routes_nothing_is_sent() {
    let rig = Rig::start();
    let error = create(&rig, 0).await.result.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    rig.wait_until_serving().await;
    for error in [
        create(&rig, 0).await.result.unwrap_err(),
        delete(&rig, 0).await.result.unwrap_err(),
        rig.provider.routes().list().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::NotOffered { .. }), "{error:?}");
    }
    let warned = AtomicBool::new(false);
    let serving = rig
        .provider
        .routes()
        .wait_until_serving(|| warned.store(true, Ordering::Relaxed));
    let upgrade = async {
        sleep(secs(1)).await;
        assert!(warned.load(Ordering::Relaxed));
        rig.fake.introduce(|answer| {
            let offered = answer.capabilities.get_or_insert_default();
            offered.routes = Some(v1::RoutesCapability::default());
        });
        rig.fake.kill();
        rig.reaches(|state| !state.serves()).await;
        rig.fake.restart();
    };
    tokio::join!(serving, upgrade);
    create(&rig, 0).await.result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_method_that_is_not_served_has_changed_nothing() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let missing = |_: &_| Reply::Fail(Status::unimplemented("no such method"));
    rig.fake.routes.delete.on(missing);
    for _ in 0..2 {
        let error = delete(&rig, 0).await.result.unwrap_err();
        assert!(matches!(error, Error::NotServed { .. }), "{error:?}");
        assert!(!error.leaves_result_unknown());
    }
    assert_eq!(deleted(&rig).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn routes_are_not_changed_for_a_cluster_that_is_not_certain() {
    let rig = Rig::with(|options, fake| {
        options.cluster_uid.clear();
        fake.introduce(|answer| {
            let offered = answer.capabilities.get_or_insert_default();
            offered.routes = Some(v1::RoutesCapability::default());
        });
    });
    rig.wait_until_serving().await;
    for error in [
        create(&rig, 0).await.result.unwrap_err(),
        delete(&rig, 0).await.result.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unidentified { .. }), "{error:?}");
        assert!(!error.leaves_result_unknown());
    }
    assert!(created(&rig).is_empty() && deleted(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_of_the_cloud_holds_all_routes_back() {
    let rig = Rig::routing(v1::RoutesCapability::default()).await;
    let limited = refusal(Code::ResourceExhausted, "RATE_LIMITED", Some(secs(7)));
    let is_first = AtomicBool::new(true);
    rig.fake.routes.create.on(move |request| {
        if is_first.swap(false, Ordering::Relaxed) {
            return Reply::Fail(limited.clone());
        }
        let results = request.items.iter().map(done).collect();
        Reply::Say(v1::BatchCreateRoutesResponse { results })
    });
    let started = Instant::now();
    create(&rig, 0).await.result.unwrap_err();
    assert_eq!(started.elapsed(), Duration::ZERO);
    let (created, deleted) = tokio::join!(create(&rig, 0), delete(&rig, 1));
    assert!(created.result.is_ok() && deleted.result.is_ok());
    assert_eq!(started.elapsed(), secs(7));
}

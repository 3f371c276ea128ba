//! How the wait for a route ends that is not changed, or perhaps changed.

use std::sync::atomic::{AtomicBool, Ordering};

use outrigger_api::v1;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    fake::Reply,
    rig::Rig,
    route_calls::{create, delete, deleted, slow, wanted},
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
    let rig = slow(1).await;
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

#[tokio::test(start_paused = true)]
async fn a_provider_that_dies_leaves_the_routes_in_flight_unknown() {
    let rig = slow(1).await;
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

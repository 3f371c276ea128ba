//! A provider that lost a set, or never had it.

use super::*;

#[tokio::test(start_paused = true)]
async fn another_process_is_synced_anew() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    restart(&rig, "boot-2").await;
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig), [(false, 10, 0); 2]);
    assert_eq!(rig.fake.balancers.ensure.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_same_process_on_another_connection_holds_what_it_held() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    rig.fake.kill();
    rig.reaches(is_down(DownCause::Disconnected)).await;
    rig.fake.restart();
    rig.wait_until_serving().await;
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_the_provider_lost_is_synced_once_for_all_and_each_call_repeated_once() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    rig.fake.balancers.forget_node_sets();
    let results = join_all((0..10).map(async |n| ensure(&rig, &format!("web-{n}"), &all).await));
    for result in results.await {
        result.unwrap();
    }
    assert_eq!(uploads(&rig), [(false, 10, 0); 2]);
    assert_eq!(rig.fake.balancers.ensure.calls().len(), 1 + 2 * 10);
    // Once, and no more than that.
    let unknown = refusal(Code::FailedPrecondition, "NODE_SET_UNKNOWN", None);
    rig.fake
        .balancers
        .ensure
        .on(move |_| Reply::Fail(unknown.clone()));
    let error = ensure(&rig, "web", &all).await.unwrap_err();
    // The owner gets an event, for it would go on for ever.
    assert_eq!(error.class(), ErrorClass::Malformed);
    let text = error.to_string();
    assert!(text.contains("NODE_SET_UNKNOWN"), "{text}");
    assert_eq!(rig.fake.balancers.ensure.calls().len(), 1 + 2 * 10 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_base_that_is_not_held_is_followed_by_a_snapshot() {
    let rig = Rig::holding().await;
    ensure(&rig, "web", &numbered(0..10)).await.unwrap();
    rig.fake.balancers.forget_node_sets();
    ensure(&rig, "web", &numbered(0..11)).await.unwrap();
    assert_eq!(
        uploads(&rig),
        [(false, 10, 0), (true, 1, 0), (false, 11, 0)]
    );
    assert_eq!(rig.fake.balancers.ensure.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_whose_base_is_not_held_is_malformed() {
    let rig = Rig::holding().await;
    rig.fake.balancers.on_sync(|_| {
        let refused = refusal(Code::FailedPrecondition, "NODE_SET_BASE_MISMATCH", None);
        Reply::Fail(refused)
    });
    let error = ensure(&rig, "web", &numbered(0..10)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Malformed, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_delta_is_healed_by_a_snapshot() {
    let rig = Rig::holding().await;
    ensure(&rig, "web", &numbered(0..10)).await.unwrap();
    rig.fake.balancers.on_sync(|begin| {
        if begin.base_revision.is_empty() {
            return Reply::Say(());
        }
        Reply::Fail(refusal(Code::InvalidArgument, "INVALID_REQUEST", None))
    });
    let more = numbered(0..11);
    let error = ensure(&rig, "web", &more).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Invalid);
    ensure(&rig, "web", &more).await.unwrap();
    assert_eq!(uploads(&rig)[2], (false, 11, 0));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_know_us_is_greeted_and_then_synced() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    // Another process behind the same connection.
    rig.fake.balancers.forget_node_sets();
    introduce(&rig, "boot-2");
    let times = AtomicUsize::new(0);
    rig.fake.balancers.ensure.on(move |_| {
        if times.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::Fail(refusal(Code::FailedPrecondition, "NOT_HANDSHAKED", None));
        }
        Reply::Say(ready())
    });
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig), [(false, 10, 0); 2]);
    assert_eq!(rig.fake.handshakes.lock().len(), 2);
}

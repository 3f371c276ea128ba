//! A provider that lost a set, or never had it.

use super::*;

#[tokio::test(start_paused = true)]
async fn another_process_is_synced_again() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    restart(&rig, "boot-2").await;
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig), [10; 2]);
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
    assert_eq!(uploads(&rig), [10; 2]);
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
    assert_eq!(uploads(&rig), [10; 2]);
    assert_eq!(rig.fake.handshakes.lock().len(), 2);
}

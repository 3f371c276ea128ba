//! Annotations of the Lease.

use super::*;
use crate::fixture::lease::Mood;

#[tokio::test(start_paused = true)]
async fn an_annotation_brings_the_renewal_forward() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    store.requests();
    let began = Instant::now();
    a.handle.annotate("x", Some("1".into())).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(100));
    assert_eq!(store.requests(), ["PUT a"]);
    assert_eq!(store.lease()["metadata"]["annotations"]["x"], "1");
    assert_eq!(a.handle.annotation("x").as_deref(), Some("1"));
    a.handle.annotate("x", None).await.unwrap();
    assert_eq!(a.handle.annotation("x"), None);
    assert_eq!(store.lease()["metadata"]["annotations"].get("x"), None);
    // Renewals go on in their own time.
    store.requests();
    secs(5).await;
    assert_eq!(store.requests(), ["PUT a", "PUT a"]);
}

/// At the first start two tasks annotate: the second one while the write for the first is in flight.
#[tokio::test(start_paused = true)]
async fn an_annotation_during_a_write_follows_it_at_once() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    store.requests();
    store.0.lock().write_latency = Duration::from_millis(50);
    let began = Instant::now();
    let second = async {
        sleep(Duration::from_millis(20)).await;
        a.handle.annotate("y", Some("2".into())).await
    };
    let (first, second) = tokio::join!(a.handle.annotate("x", Some("1".into())), second);
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert!(
        began.elapsed() < Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(store.requests(), ["PUT a", "PUT a"]);
}

/// The first annotation is written, and the answer is lost.
#[tokio::test(start_paused = true)]
async fn an_annotation_that_is_taken_back_may_still_be_in_flight() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    store.mood(Mood::Mute);
    let handle = a.handle.clone();
    let (mut set, mut taken_back) = (JoinSet::new(), JoinSet::new());
    set.spawn(async move { handle.annotate("x", Some("1".into())).await });
    secs(1).await;
    assert_eq!(store.lease()["metadata"]["annotations"]["x"], "1");
    let handle = a.handle.clone();
    taken_back.spawn(async move { handle.annotate("x", None).await });
    secs(1).await;
    assert!(taken_back.try_join_next().is_none());
    store.mood(Mood::Well);
    taken_back.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(store.lease()["metadata"]["annotations"].get("x"), None);
    assert_eq!(set.join_next().await.unwrap().unwrap(), Ok(()));
}

/// Without the annotations the next leader would send all targets again, and forget that another program led.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_under_its_leader_is_made_again_with_its_annotations() {
    for is_deaf in [false, true] {
        let store = Store::default();
        let a = Replica::start(&store, "a");
        a.leading().await;
        a.handle.annotate("x", Some("1".into())).await.unwrap();
        let before = store.lease()["metadata"]["annotations"].clone();
        if is_deaf {
            store.deafen();
        }
        store.delete();
        secs(5).await;
        assert_eq!(store.holder(), "a");
        assert_eq!(store.lease()["metadata"]["annotations"], before);
        assert_eq!(a.handle.annotation("x").as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_annotates() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    let b = Replica::start(&store, "b");
    secs(3).await;
    assert_eq!(
        b.handle.annotate("x", Some("1".into())).await,
        Err(NotLeading)
    );
    assert_eq!(store.lease()["metadata"]["annotations"].get("x"), None);
}

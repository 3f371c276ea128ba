//! Faults between an elector and its Lease.

use std::time::Duration;

use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, advance, timeout},
};

use super::{super::*, Replica, metric, secs};
use crate::fixture::lease::{Mood, Store};

/// No renewal is acknowledged: the term is over at the deadline, and no request is sent from then on.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_gone_ends_a_leader() {
    for mood in [Mood::Silent, Mood::Refuses, Mood::Mute] {
        let store = Store::default();
        let mut a = Replica::start(&store, "a");
        let leading = a.leading().await;
        secs(5).await;
        let renewed = store.last_request();
        store.mood(mood);
        leading.token().cancelled().await;
        let after = renewed.elapsed();
        assert!(
            (10_000..10_010).contains(&after.as_millis()),
            "{mood:?} {after:?}"
        );
        assert!(!leading.is_valid_now());
        assert_eq!(a.ended().await, Some(Lost::RenewDeadline));
        let requests = store.requests().len();
        assert!(requests > 0);
        store.mood(Mood::Well);
        secs(60).await;
        assert_eq!(store.requests(), Vec::<String>::new(), "{mood:?}");
        assert_eq!(a.events(), ["a became leader", "a stopped leading"]);
        assert_eq!(metric(&a.metrics).0, 0);
    }
}

/// The record may be as old as the request.
#[tokio::test(start_paused = true)]
async fn a_lease_term_counts_from_the_sending_of_its_claim() {
    let store = Store::default();
    store.0.lock().write_latency = Duration::from_secs(3);
    let mut a = Replica::start(&store, "a");
    secs(1).await;
    let sent = store.last_request();
    store.mood(Mood::Silent);
    let leading = a.leading().await;
    assert_eq!((leading.quiet_at() - sent).as_secs(), 3);
    leading.token().cancelled().await;
    let after = sent.elapsed().as_millis();
    assert!((10_000..10_010).contains(&after), "{after}");
    assert_eq!(a.ended().await, Some(Lost::RenewDeadline));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_ends_nothing() {
    for mood in [Mood::Silent, Mood::Refuses, Mood::Mute] {
        let store = Store::default();
        let a = Replica::start(&store, "a");
        let leading = a.leading().await;
        secs(5).await;
        store.mood(mood);
        secs(6).await;
        store.mood(Mood::Well);
        secs(30).await;
        assert!(leading.is_valid_now(), "{mood:?}");
        assert!(metric(&a.metrics).1 > 0, "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_is_lost_when_it_is_seen() {
    for (watched, within) in [(true, 10), (false, 2_010)] {
        let store = Store::default();
        let mut a = Replica::start(&store, "a");
        let leading = a.leading().await;
        secs(5).await;
        if !watched {
            store.refuse_watches();
        }
        let stolen = Instant::now();
        store.edit(|lease| lease["spec"]["holderIdentity"] = json!("thief"));
        leading.token().cancelled().await;
        assert!(
            stolen.elapsed() < Duration::from_millis(within),
            "{:?}",
            stolen.elapsed()
        );
        assert_eq!(a.ended().await, Some(Lost::Taken("thief".into())));
        assert_eq!(store.holder(), "thief");
    }
}

/// An annotation by another client makes the known version stale.
#[tokio::test(start_paused = true)]
async fn a_conflict_without_another_holder_is_no_loss() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    let leading = a.leading().await;
    store.refuse_watches();
    store.edit(|lease| lease["metadata"]["annotations"] = json!({"other": "1"}));
    secs(1).await;
    store.requests();
    secs(2).await;
    assert_eq!(store.requests(), ["PUT a", "GET", "PUT a"]);
    assert!(leading.is_valid_now());
    assert_eq!(metric(&a.metrics), (1, 1));
    assert_eq!(a.handle.annotation("other").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn giving_up_is_bounded_by_the_renew_deadline() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    store.mood(Mood::Silent);
    a.may.send_replace(false);
    let began = Instant::now();
    a.handle.step_down().await;
    assert!(
        began.elapsed() <= Duration::from_millis(10_010),
        "{:?}",
        began.elapsed()
    );
    assert!(!a.leads());
    assert_eq!(store.holder(), "a");
    // It expires for others.
    store.mood(Mood::Well);
    let b = Replica::start(&store, "b");
    b.leading().await;
}

/// A claim was carried out, but its answer got lost.
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_is_found_again() {
    let store = Store::default();
    let a = Replica::new(&store, "a");
    a.may.send_replace(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(a.elector.unwrap().run());
    secs(1).await;
    store.mood(Mood::Mute);
    a.may.send_replace(true);
    secs(6).await;
    assert_eq!(store.holder(), "a");
    assert!(a.handle.leadership().borrow().leading().is_none());
    store.mood(Mood::Well);
    secs(10).await;
    assert!(
        a.handle
            .leadership()
            .borrow()
            .leading()
            .is_some_and(LeaseTerm::is_valid_now)
    );
    assert_eq!(store.lease()["spec"]["leaseTransitions"], 0);
}

/// A stopped process (SIGSTOP): time passes, and nothing runs. When it goes on, whoever runs first
/// finds out.
#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_does_not_act() {
    let store = Store::default();
    let mut a = Replica::new(&store, "a");
    let mut run = std::pin::pin!(a.elector.take().unwrap().run());
    let leading = tokio::select! {
        leading = a.leading() => leading,
        () = &mut run => panic!("it ended"),
    };
    let early = timeout(Duration::from_secs(1), &mut run).await;
    assert!(early.is_err(), "no renewal is due");
    store.requests();
    advance(Duration::from_secs(20)).await;
    assert!(!leading.is_valid_now());
    assert!(leading.token().is_cancelled());
    run.await;
    assert_eq!(a.lost(), Some(Lost::RenewDeadline));
    assert_eq!(store.requests(), Vec::<String>::new());
}

/// The process is stopped while a renewal is under way: the answer that waited in the socket revives nothing.
#[tokio::test(start_paused = true)]
async fn an_answer_after_the_deadline_does_not_revive_a_term() {
    let store = Store::default();
    let mut a = Replica::new(&store, "a");
    let mut run = std::pin::pin!(a.elector.take().unwrap().run());
    let leading = tokio::select! {
        leading = a.leading() => leading,
        () = &mut run => panic!("it ended"),
    };
    store.0.lock().write_latency = Duration::from_secs(1);
    let early = timeout(Duration::from_millis(2_500), &mut run).await;
    assert!(early.is_err());
    assert_eq!(store.requests().last().unwrap(), "PUT a", "under way");
    advance(Duration::from_secs(20)).await;
    tokio::task::yield_now().await;
    run.await;
    assert!(!leading.is_valid_now());
    assert_eq!(a.lost(), Some(Lost::RenewDeadline));
    assert_eq!(store.requests(), Vec::<String>::new());
}

/// A watch that died unnoticed shows nothing: the standby looks by itself.
#[tokio::test(start_paused = true)]
async fn a_deaf_watch_does_not_matter() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    let leading = a.leading().await;
    let b = Replica::start(&store, "b");
    secs(5).await;
    store.deafen();
    secs(60).await;
    assert!(leading.is_valid_now() && !b.leads());
    a.handle.release().await;
    let released = Instant::now();
    b.leading().await;
    assert!(released.elapsed() <= Duration::from_millis(4_410));
}

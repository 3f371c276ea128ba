//! Calls that must not begin any more, or not go on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{
    fake::{Reply, ready, refusal},
    rig::{Rig, node, service, targets},
    secs,
};
use crate::{Error, LookupPurpose};
use outrigger_runtime::fence::Fence;

/// Duration of a lease that is left to expire.
const LEASE: Duration = Duration::from_secs(15);

/// A fence, and the switch that says whether this process leads.
fn fence() -> (Fence, Arc<AtomicBool>) {
    let leads = Arc::new(AtomicBool::new(true));
    let is_leading = Arc::clone(&leads);
    let is_leader = move || is_leading.load(Ordering::Relaxed);
    (Fence::new(is_leader, &CancellationToken::new()), leads)
}

fn is_fenced<T: std::fmt::Debug>(result: &Result<T, Error>) {
    assert!(matches!(result, Err(Error::Fenced { .. })), "{result:?}");
}

/// Pauses the calls about instances and about load balancers.
async fn pause(rig: &Rig, time: Duration) {
    let limited = refusal(Code::ResourceExhausted, "RATE_LIMITED", Some(time));
    let again = limited.clone();
    rig.fake.batch.on(move |_| Reply::Fail(limited.clone()));
    let ensure = &rig.fake.balancers.ensure;
    ensure.on(move |_| Reply::Fail(again.clone()));
    rig.look_up("a").await.unwrap_err();
    let (web, all) = (service("web"), targets(["a"]));
    let call = rig.provider.ensure_alone(&web, &all);
    call.await.unwrap_err();
    rig.fake.answer_nodes();
    ensure.on(|_| Reply::Say(ready()));
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_upload_of_a_node_set_comes_before_the_call() {
    let rig = Rig::holding().await;
    let upload = || Reply::After(secs(20), Box::new(Reply::Say(())));
    rig.fake.balancers.on_sync(upload);
    let (fence, _) = fence();
    let provider = rig.provider.fenced(fence.clone());
    let (web, all) = (service("web"), targets(["a"]));
    let started = Instant::now();
    let (ensured, updated, ()) = tokio::join!(
        provider.ensure_alone(&web, &all),
        provider.update_alone(&web, &all),
        async {
            sleep(secs(10)).await;
            fence.stop();
        }
    );
    is_fenced(&ensured);
    is_fenced(&updated);
    // The upload is of no use to anything else.
    assert_eq!(started.elapsed(), secs(10));
    sleep(secs(60)).await;
    assert!(rig.fake.balancers.ensure.calls().is_empty());
    assert!(rig.fake.balancers.update.calls().is_empty());
    assert!(fence.is_answered(LEASE));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_leads_no_more_calls_nothing() {
    let rig = Rig::balancing(|_| {}).await;
    let (fence, leads) = fence();
    let provider = rig.provider.fenced(fence.clone());
    leads.store(false, Ordering::Relaxed);
    let (web, all) = (service("web"), targets(["a"]));
    is_fenced(&provider.ensure_alone(&web, &all).await);
    is_fenced(&provider.load_balancers().get(&web, &all).await);
    assert!(rig.fake.balancers.ensure.calls().is_empty());
    assert!(fence.is_answered(LEASE));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_at_a_pause_end_with_the_stop() {
    let rig = Rig::balancing(|_| {}).await;
    pause(&rig, secs(600)).await;
    let (fence, _) = fence();
    let provider = rig.provider.fenced(fence.clone());
    let (web, all) = (service("web"), targets(["a"]));
    let calls = rig.fake.balancers.ensure.calls().len();
    let started = Instant::now();
    let (ensured, updated, deleted, fetched, looked_up, listed, ()) = tokio::join!(
        provider.ensure_alone(&web, &all),
        provider.update_alone(&web, &all),
        provider.delete_alone(&web),
        provider.load_balancers().get(&web, &all),
        provider
            .instances()
            .look_up(node("b"), LookupPurpose::Lifecycle),
        provider
            .instances()
            .list(LookupPurpose::Initialization, |_| true),
        async {
            sleep(secs(5)).await;
            fence.stop();
        }
    );
    for result in [ensured, updated, deleted, fetched] {
        is_fenced(&result);
    }
    is_fenced(&looked_up.result);
    is_fenced(&listed);
    assert_eq!(started.elapsed(), secs(5));
    sleep(secs(900)).await;
    assert_eq!(rig.fake.balancers.ensure.calls().len(), calls);
    assert!(rig.fake.balancers.update.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_go_on_after_the_stop_until_they_are_cancelled() {
    let rig = Rig::balancing(|_| {}).await;
    let (fence, _) = fence();
    let provider = rig.provider.fenced(fence.clone());
    let answer = |after| move |_: &_| Reply::After(secs(after), Box::new(Reply::Say(ready())));
    rig.fake.balancers.ensure.on(answer(10));
    rig.fake.balancers.update.on(|_| Reply::Hang);
    let all = targets(["a"]);
    let web = service("web");
    let started = Instant::now();
    let (ensured, updated, ()) = tokio::join!(
        async {
            let ensured = provider.ensure_alone(&web, &all).await;
            (ensured, started.elapsed())
        },
        provider.update_alone(&web, &all),
        async {
            sleep(secs(5)).await;
            assert!(!fence.is_answered(LEASE));
            fence.stop();
            sleep(secs(15)).await;
            fence.cancel();
        }
    );
    let (ensured, took) = ensured;
    ensured.unwrap();
    assert_eq!(took, secs(10));
    assert!(
        matches!(updated, Err(Error::Cancelled { .. })),
        "{updated:?}"
    );
    assert_eq!(started.elapsed(), secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_cancelled_counts_as_unanswered() {
    let rig = Rig::balancing(|_| {}).await;
    let (fence, _) = fence();
    let provider = rig.provider.fenced(fence.clone());
    rig.fake.balancers.ensure.on(|_| Reply::Hang);
    let (web, all) = (service("web"), targets(["a"]));
    let (ensured, ()) = tokio::join!(provider.ensure_alone(&web, &all), async {
        sleep(secs(5)).await;
        fence.cancel();
    });
    assert!(
        matches!(ensured, Err(Error::Cancelled { .. })),
        "{ensured:?}"
    );
    fence.idle().await;
    assert!(!fence.is_answered(LEASE));
    assert!(
        rig.metrics().contains("CANCELLED"),
        "it is counted as what it was"
    );
}

/// Waits until the lease would have expired since a call went unanswered.
async fn expired(fence: &Fence) {
    assert!(!fence.is_answered(LEASE), "left to expire at first");
    sleep(LEASE).await;
    assert!(fence.is_answered(LEASE), "no longer than that");
}

#[tokio::test(start_paused = true)]
async fn a_change_on_a_connection_that_was_given_up_counts_as_unanswered() {
    let rig = Rig::balancing(|_| {}).await;
    let (fence, _) = fence();
    let provider = rig.provider.fenced(fence.clone());
    rig.fake.balancers.ensure.on(|_| Reply::Hang);
    rig.fake.status.on(|_| Reply::Hang);
    let (web, all) = (service("web"), targets(["a"]));
    let ensured = provider.ensure_alone(&web, &all).await;
    assert!(
        matches!(ensured, Err(Error::ConnectionLost { .. })),
        "{ensured:?}"
    );
    expired(&fence).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_provider_died_has_no_answer_to_come() {
    let rig = Rig::balancing(|_| {}).await;
    let (fence, _) = fence();
    let provider = rig.provider.fenced(fence.clone());
    rig.fake.balancers.ensure.on(|_| Reply::Hang);
    let (web, all) = (service("web"), targets(["a"]));
    let (ensured, ()) = tokio::join!(provider.ensure_alone(&web, &all), async {
        sleep(secs(5)).await;
        rig.fake.kill();
    });
    assert!(
        matches!(ensured, Err(Error::ConnectionLost { .. })),
        "{ensured:?}"
    );
    assert!(fence.is_answered(LEASE));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_times_out_counts_as_unanswered_for_a_lease_duration() {
    let rig = Rig::balancing(|_| {}).await;
    let (fence, _) = fence();
    let provider = rig.provider.fenced(fence.clone());
    let (web, all) = (service("web"), targets(["a"]));
    rig.fake.balancers.ensure.on(|_| Reply::Hang);
    let ensured = provider.ensure_alone(&web, &all).await;
    assert!(matches!(ensured, Err(Error::Timeout { .. })), "{ensured:?}");
    expired(&fence).await;

    rig.fake.balancers.update.on(|_| Reply::Hang);
    let updated = provider.update_alone(&web, &all).await;
    assert!(matches!(updated, Err(Error::Timeout { .. })), "{updated:?}");
    expired(&fence).await;

    // The server's own time limit was faster.
    for code in [Code::Cancelled, Code::DeadlineExceeded] {
        let ended = tonic::Status::new(code, "context deadline exceeded");
        let fail = move |_: &_| Reply::Fail(ended.clone());
        rig.fake.balancers.ensure.on(fail);
        let ensured = provider.ensure_alone(&web, &all).await;
        assert!(
            matches!(ensured, Err(Error::Unexplained { .. })),
            "{ensured:?}"
        );
        expired(&fence).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_object_changes_while_it_waits_is_not_made() {
    let rig = Rig::balancing(|_| {}).await;
    pause(&rig, secs(60)).await;
    let made = rig.fake.balancers.ensure.calls().len();
    let is_current = Arc::new(AtomicBool::new(true));
    let is_ensure_current = Arc::clone(&is_current);
    let provider = rig
        .provider
        .only_while(move || is_ensure_current.load(Ordering::Relaxed));
    let (web, all) = (service("web"), targets(["a"]));
    let (ensured, updated, ()) = tokio::join!(
        provider.ensure_alone(&web, &all),
        provider.update_alone(&web, &all),
        async {
            sleep(secs(30)).await;
            is_current.store(false, Ordering::Relaxed);
        }
    );
    for result in [ensured, updated] {
        assert!(matches!(result, Err(Error::Outdated { .. })), "{result:?}");
    }
    assert_eq!(rig.fake.balancers.ensure.calls().len(), made);
    assert!(rig.fake.balancers.update.calls().is_empty());
}

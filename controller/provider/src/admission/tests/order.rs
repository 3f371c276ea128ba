//! Which of the calls that wait goes out next.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_limit_for_all_serves_the_most_urgent_first() {
    let admission = admission();
    let rate = Rate {
        class: CallClass::All,
        qps: 1.0,
        burst: 1,
    };
    admission.renew(&[rate], false);
    drop(admission.enter(Urgency::Refresh).await);
    let order = Mutex::new(Vec::new());
    let started = Instant::now();
    let wait = async |urgency| {
        drop(admission.enter(urgency).await);
        order.lock().push((urgency, started.elapsed().as_secs()));
    };
    tokio::join!(
        wait(Urgency::LoadBalancerChecks),
        wait(Urgency::Refresh),
        wait(Urgency::LoadBalancers),
        wait(Urgency::Lifecycle),
        wait(Urgency::Initialization),
    );
    let expected = [
        (Urgency::Initialization, 1),
        (Urgency::Lifecycle, 2),
        (Urgency::LoadBalancers, 3),
        (Urgency::Refresh, 4),
        (Urgency::LoadBalancerChecks, 5),
    ];
    assert_eq!(*order.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_more_urgent_call_that_gives_up_lets_the_next_one_go() {
    let admission = admission();
    admission.allow(CallClass::Instances, 1);
    let in_flight = admission.enter(Urgency::Lifecycle).await;
    let mut urgent = Box::pin(admission.enter(Urgency::Lifecycle));
    let mut refresh = Box::pin(admission.enter(Urgency::Refresh));
    assert!(timeout(secs(1), &mut refresh).await.is_err());
    assert!(timeout(secs(1), &mut urgent).await.is_err());
    drop(in_flight);
    assert!(timeout(secs(1), &mut refresh).await.is_err());
    drop(urgent);
    timeout(secs(0), refresh).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_call_waits_behind_one_that_is_gone_or_waits_for_something_else() {
    let admission = admission();
    let rate = |class| Rate {
        class,
        qps: 1.0,
        burst: 1,
    };
    admission.renew(&[rate(CallClass::All)], false);
    drop(admission.enter(Urgency::Refresh).await);
    // Gone.
    assert!(
        timeout(
            Duration::from_millis(1),
            admission.enter(Urgency::Lifecycle)
        )
        .await
        .is_err()
    );
    // Paused.
    let started = Instant::now();
    let permit = admission.enter(Urgency::LoadBalancers).await;
    permit.failed(&refused(ErrorReason::RateLimited, Some(secs(60))));
    let paused = admission.enter(Urgency::LoadBalancers);
    let free = async {
        drop(admission.enter(Urgency::Refresh).await);
        started.elapsed()
    };
    let (_, free) = tokio::join!(paused, free);
    assert!(free < secs(3), "{free:?}");
}

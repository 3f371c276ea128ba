use prometheus_client::registry::Registry;
use tokio::time::{advance, timeout};

use super::*;

fn gate() -> Arc<Gate> {
    Arc::new(Gate::new(ProviderMetrics::register(
        &mut Registry::default(),
    )))
}

impl Gate {
    /// [`Gate::try_enter`], as soon as it lets a call out.
    async fn enter(self: &Arc<Self>, claim: Claim) -> Permit {
        let mut changed = self.changed.subscribe();
        loop {
            match self.try_enter(claim) {
                Ok(permit) => return permit,
                Err(held) => {
                    held.wait.over(&mut changed).await;
                    drop(held.place);
                }
            }
        }
    }
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn refused(reason: ErrorReason, retry_after: Option<Duration>) -> Error {
    Error::Refused {
        rpc: "x",
        reason,
        message: "y".into(),
        retry_after,
        effects: None,
    }
}

/// Waits for the door, makes a call that fails, and returns how long the door is shut then.
async fn fail(gate: &Arc<Gate>, claim: Claim, reason: ErrorReason, asked: Option<u64>) -> u64 {
    let permit = gate.enter(claim).await;
    // A call takes some time.
    advance(Duration::from_millis(1)).await;
    permit.failed(&refused(reason, asked.map(secs)));
    drop(permit);
    let before = Instant::now();
    gate.open(claim.class()).await;
    let shut = before.elapsed().as_secs();
    advance(Duration::from_millis(1)).await;
    shut
}

async fn succeed(gate: &Arc<Gate>, claim: Claim) {
    let permit = gate.enter(claim).await;
    advance(Duration::from_millis(1)).await;
    permit.succeeded();
}

#[tokio::test(start_paused = true)]
async fn each_reason_pauses_for_its_time() {
    use ErrorReason as R;
    let i = Claim::Refresh;
    let gate = gate();
    assert_eq!(fail(&gate, i, R::RateLimited, None).await, 30);
    assert_eq!(fail(&gate, i, R::RateLimited, Some(7)).await, 7);
    // It does not grow, and no provider can stop the class for good.
    assert_eq!(fail(&gate, i, R::RateLimited, Some(7)).await, 7);
    assert_eq!(fail(&gate, i, R::RateLimited, Some(1 << 40)).await, 3600);
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(fail(&gate, i, R::CloudUnavailable, None).await, expected);
    }
    succeed(&gate, i).await;
    assert_eq!(fail(&gate, i, R::CloudUnavailable, None).await, 1);
    for expected in [60, 120, 240, 480, 600, 600] {
        assert_eq!(fail(&gate, i, R::CredentialsInvalid, None).await, expected);
    }
    succeed(&gate, Claim::LoadBalancers).await;
    assert_eq!(fail(&gate, i, R::CredentialsInvalid, None).await, 60);
    for reason in [
        R::QuotaExceeded,
        R::Conflict,
        R::InvalidRequest,
        R::Overloaded,
    ] {
        assert_eq!(fail(&gate, i, reason, Some(9)).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_pauses_alone_except_for_credentials() {
    let gate = gate();
    let shut = |class| gate.paused_until(class).is_some();
    let permit = gate.enter(Claim::Refresh).await;
    permit.failed(&refused(ErrorReason::RateLimited, None));
    assert!(shut(Class::Instances) && !shut(Class::LoadBalancers) && !shut(Class::Routes));
    let permit = gate.enter(Claim::LoadBalancers).await;
    permit.failed(&refused(ErrorReason::CredentialsInvalid, None));
    assert!(Class::ALL.into_iter().all(shut));
    gate.open(Class::LoadBalancers).await;
    assert!(!Class::ALL.into_iter().any(shut));
}

#[tokio::test(start_paused = true)]
async fn one_outage_that_fails_all_calls_in_flight_is_one_failure() {
    let gate = gate();
    let mut flying = Vec::new();
    for _ in 0..4 {
        flying.push(gate.enter(Claim::Refresh).await);
    }
    for permit in flying {
        permit.failed(&refused(ErrorReason::CloudUnavailable, None));
    }
    let started = Instant::now();
    gate.open(Class::Instances).await;
    assert_eq!(started.elapsed(), secs(1));
    let next = fail(&gate, Claim::Refresh, ErrorReason::CloudUnavailable, None).await;
    assert_eq!(next, 2);
}

#[tokio::test(start_paused = true)]
async fn a_success_from_before_a_failure_resets_nothing() {
    let gate = gate();
    let early = gate.enter(Claim::Refresh).await;
    let first = fail(&gate, Claim::Refresh, ErrorReason::CloudUnavailable, None).await;
    early.succeeded();
    let second = fail(&gate, Claim::Refresh, ErrorReason::CloudUnavailable, None).await;
    assert_eq!((first, second), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_provider_gets_half_and_then_slowly_more() {
    let gate = gate();
    let claim = Claim::LoadBalancers;
    let at_once = || {
        let mut flying = Vec::new();
        while let Ok(permit) = gate.try_enter(claim) {
            flying.push(permit);
        }
        flying.len()
    };
    assert_eq!(at_once(), 16);
    let flying: Vec<Permit> = (0..16).map(|_| gate.try_enter(claim).unwrap()).collect();
    advance(secs(1)).await;
    for permit in flying {
        permit.failed(&refused(ErrorReason::Overloaded, None));
    }
    assert_eq!(at_once(), 8);
    for expected in [4, 2, 1, 1] {
        advance(secs(1)).await;
        let permit = gate.enter(claim).await;
        permit.failed(&refused(ErrorReason::Overloaded, None));
        drop(permit);
        assert_eq!(at_once(), expected);
    }
    advance(secs(1)).await;
    succeed(&gate, claim).await;
    assert_eq!(at_once(), 2);
    succeed(&gate, claim).await;
    assert_eq!(at_once(), 2);
    succeed(&gate, claim).await;
    assert_eq!(at_once(), 3);
    for _ in 0..200 {
        succeed(&gate, claim).await;
    }
    assert_eq!(at_once(), 16);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_goes_on_when_a_call_ends() {
    let gate = gate();
    let mut flying: Vec<Permit> = (0..4)
        .map(|_| gate.try_enter(Claim::Refresh).unwrap())
        .collect();
    let waiting = gate.enter(Claim::Refresh);
    tokio::pin!(waiting);
    assert!(timeout(secs(60), &mut waiting).await.is_err());
    flying.pop();
    timeout(secs(0), waiting).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_clouds_rates_hold_for_a_class_and_for_all_together() {
    let gate = gate();
    let rate = |class, qps, burst| Rate { class, qps, burst };
    gate.renew(
        &[
            rate(None, 10.0, 1),
            rate(Some(Class::LoadBalancers), 1.0, 2),
            rate(Some(Class::LoadBalancers), 100.0, 9),
        ],
        false,
    );
    let started = Instant::now();
    let mut times = Vec::new();
    for _ in 0..4 {
        gate.enter(Claim::LoadBalancers).await;
        times.push(started.elapsed().as_millis());
    }
    assert_eq!(times, [0, 100, 1000, 2000]);
    gate.enter(Claim::Refresh).await;
    assert_eq!(started.elapsed().as_millis(), 2100);
    // Neither extreme makes the arithmetic panic.
    for qps in [f64::MIN_POSITIVE, f64::MAX] {
        gate.renew(&[rate(None, qps, u32::MAX)], true);
        gate.enter(Claim::Refresh).await;
        let _ = gate.try_enter(Claim::Refresh);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_process_starts_afresh_except_for_the_clouds_rate_limit() {
    let gate = gate();
    for reason in [
        ErrorReason::CredentialsInvalid,
        ErrorReason::CloudUnavailable,
    ] {
        let permit = gate.enter(Claim::Refresh).await;
        permit.failed(&refused(reason, None));
        gate.renew(&[], false);
        assert!(gate.paused_until(Class::Instances).is_some());
        gate.renew(&[], true);
        assert!(gate.paused_until(Class::Instances).is_none());
    }
    let permit = gate.enter(Claim::Refresh).await;
    permit.failed(&refused(ErrorReason::RateLimited, None));
    gate.renew(&[], true);
    assert!(gate.paused_until(Class::Instances).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_provider_says_how_many_changes_run_at_once_and_looks_do_not_count() {
    let gate = gate();
    let at_once = |claim| {
        let mut flying = Vec::new();
        while flying.len() < 100
            && let Ok(permit) = gate.try_enter(claim)
        {
            flying.push(permit);
        }
        flying.len()
    };
    gate.allow(Class::LoadBalancers, 2);
    assert_eq!(at_once(Claim::LoadBalancers), 2);
    assert_eq!(at_once(Claim::LoadBalancerChecks), 100);
    assert_eq!(at_once(Claim::Refresh), 4);
    gate.allow(Class::LoadBalancers, 64);
    assert_eq!(at_once(Claim::LoadBalancers), 64);
    // An overloaded class stays limited, whatever it declares.
    let permit = gate.enter(Claim::LoadBalancers).await;
    advance(secs(1)).await;
    permit.failed(&refused(ErrorReason::Overloaded, None));
    drop(permit);
    gate.allow(Class::LoadBalancers, 64);
    assert_eq!(at_once(Claim::LoadBalancers), 32);
    gate.allow(Class::LoadBalancers, 3);
    assert_eq!(at_once(Claim::LoadBalancers), 3);
    gate.renew(&[], true);
    assert_eq!(at_once(Claim::LoadBalancers), 3);
}

#[tokio::test(start_paused = true)]
async fn one_limit_for_all_serves_the_most_urgent_first() {
    let gate = gate();
    let rate = Rate {
        class: None,
        qps: 1.0,
        burst: 1,
    };
    gate.renew(&[rate], false);
    drop(gate.enter(Claim::Refresh).await);
    let order = Mutex::new(Vec::new());
    let started = Instant::now();
    let wait = async |claim| {
        drop(gate.enter(claim).await);
        order.lock().push((claim, started.elapsed().as_secs()));
    };
    tokio::join!(
        wait(Claim::LoadBalancerChecks),
        wait(Claim::Refresh),
        wait(Claim::LoadBalancers),
        wait(Claim::Lifecycle),
        wait(Claim::Initialization),
    );
    let expected = [
        (Claim::Initialization, 1),
        (Claim::Lifecycle, 2),
        (Claim::LoadBalancers, 3),
        (Claim::Refresh, 4),
        (Claim::LoadBalancerChecks, 5),
    ];
    assert_eq!(*order.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn no_call_waits_behind_one_that_is_gone_or_waits_for_something_else() {
    let gate = gate();
    let rate = |class| Rate {
        class,
        qps: 1.0,
        burst: 1,
    };
    gate.renew(&[rate(None)], false);
    drop(gate.enter(Claim::Refresh).await);
    // Gone.
    assert!(
        timeout(Duration::from_millis(1), gate.enter(Claim::Lifecycle))
            .await
            .is_err()
    );
    // Paused.
    let started = Instant::now();
    let permit = gate.enter(Claim::LoadBalancers).await;
    permit.failed(&refused(ErrorReason::RateLimited, Some(secs(60))));
    let paused = gate.enter(Claim::LoadBalancers);
    let free = async {
        drop(gate.enter(Claim::Refresh).await);
        started.elapsed()
    };
    let (_, free) = tokio::join!(paused, free);
    assert!(free < secs(3), "{free:?}");
}

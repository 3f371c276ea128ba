use futures::FutureExt;
use outrigger_api::{MethodRequest, v1};
use prometheus_client::registry::Registry;
use tokio::time::{advance, timeout};

use super::*;

const LOOK_UP: &Method = v1::BatchGetInstancesRequest::METHOD;
const ENSURE: &Method = v1::EnsureLoadBalancerRequest::METHOD;
const GET: &Method = v1::GetLoadBalancerRequest::METHOD;

fn admission() -> Arc<Admission> {
    Arc::new(Admission::new(ProviderMetrics::register(
        &mut Registry::default(),
    )))
}

impl Admission {
    /// Makes a call, and returns when it has begun.
    async fn call(self: &Arc<Self>, method: &'static Method) -> Permit {
        let permit = self.enter(method).await;
        permit.has_begun.store(true, Ordering::Relaxed);
        permit
    }

    /// A call that need not wait.
    fn try_call(self: &Arc<Self>, method: &'static Method) -> Option<Permit> {
        tokio::task::unconstrained(self.call(method)).now_or_never()
    }

    /// Waits until `class` is not paused.
    pub(crate) async fn open(&self, class: CallClass) {
        while let Some(until) = self.paused_until(class) {
            sleep_until(until).await;
        }
    }
}

const fn rate(class: CallClass, qps: f64, burst: u32) -> v1::RateLimit {
    let call_class = class as i32;
    v1::RateLimit {
        call_class,
        qps,
        burst,
    }
}

fn renew(admission: &Admission, rates: &[v1::RateLimit], new_process: bool) {
    admission.limits.lock().renew(rates, new_process);
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

/// Makes a call that fails, and returns for how many seconds its class is paused then.
async fn fail(
    admission: &Arc<Admission>,
    method: &'static Method,
    reason: ErrorReason,
    retry_after: Option<u64>,
) -> u64 {
    let permit = admission.call(method).await;
    // A call takes some time.
    advance(Duration::from_millis(1)).await;
    permit.ended(Some(&refused(reason, retry_after.map(secs))));
    drop(permit);
    let before = Instant::now();
    admission.open(method.class).await;
    let shut = before.elapsed().as_secs();
    advance(Duration::from_millis(1)).await;
    shut
}

async fn succeed(admission: &Arc<Admission>, method: &'static Method) {
    let permit = admission.call(method).await;
    advance(Duration::from_millis(1)).await;
    permit.ended(None);
}

#[tokio::test(start_paused = true)]
async fn each_reason_pauses_for_its_time() {
    use ErrorReason as R;
    let i = LOOK_UP;
    let admission = admission();
    assert_eq!(fail(&admission, i, R::RateLimited, None).await, 30);
    assert_eq!(fail(&admission, i, R::RateLimited, Some(7)).await, 7);
    // It does not grow, and no provider can stop the class for good.
    assert_eq!(fail(&admission, i, R::RateLimited, Some(7)).await, 7);
    assert_eq!(
        fail(&admission, i, R::RateLimited, Some(1 << 40)).await,
        3600
    );
    // Nor does this, and the time that is asked for concerns the key alone.
    for _ in 0..3 {
        assert_eq!(fail(&admission, i, R::Overloaded, Some(9)).await, 1);
    }
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(
            fail(&admission, i, R::CloudUnavailable, None).await,
            expected
        );
    }
    succeed(&admission, i).await;
    assert_eq!(fail(&admission, i, R::CloudUnavailable, None).await, 1);
    for expected in [60, 120, 240, 480, 600, 600] {
        assert_eq!(
            fail(&admission, i, R::CredentialsInvalid, None).await,
            expected
        );
    }
    succeed(&admission, ENSURE).await;
    assert_eq!(fail(&admission, i, R::CredentialsInvalid, None).await, 60);
    for reason in [R::QuotaExceeded, R::Conflict, R::InvalidRequest] {
        assert_eq!(fail(&admission, i, reason, Some(9)).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_flaps_does_not_exceed_the_rate() {
    let admission = admission();
    let rates = [CallClass::All, CallClass::Instances].map(|class| rate(class, 1.0, 5));
    renew(&admission, &rates, false);
    let started = Instant::now();
    for call in 0..15 {
        admission.call(LOOK_UP).await;
        renew(&admission, &rates, call % 2 == 0);
    }
    assert_eq!(started.elapsed(), secs(10));
}

#[tokio::test(start_paused = true)]
async fn time_that_is_paused_already_counts_once() {
    let mut registry = Registry::default();
    let admission = Arc::new(Admission::new(ProviderMetrics::register(&mut registry)));
    let mut together = Vec::new();
    for _ in 0..3 {
        together.push(admission.call(ENSURE).await);
    }
    for permit in together {
        permit.ended(Some(&refused(ErrorReason::RateLimited, Some(secs(2)))));
        advance(Duration::from_millis(500)).await;
    }
    let mut scrape = String::new();
    prometheus_client::encoding::text::encode(&mut scrape, &registry).unwrap();
    let mut paused = scrape
        .lines()
        .filter(|line| line.contains("paused_seconds_total{"));
    let line = paused.next().unwrap();
    assert!(
        line.contains("load_balancers") && line.ends_with(" 3.0"),
        "{line}"
    );
    assert_eq!(paused.next(), None);
}

#[tokio::test(start_paused = true)]
async fn a_class_pauses_alone_except_for_credentials() {
    let admission = admission();
    let shut = |class| admission.paused_until(class).is_some();
    let permit = admission.call(LOOK_UP).await;
    permit.ended(Some(&refused(ErrorReason::RateLimited, None)));
    assert!(
        shut(CallClass::Instances) && !shut(CallClass::LoadBalancers) && !shut(CallClass::Routes)
    );
    let permit = admission.call(ENSURE).await;
    permit.ended(Some(&refused(ErrorReason::CredentialsInvalid, None)));
    assert!(CLASSES.into_iter().all(shut));
    admission.open(CallClass::LoadBalancers).await;
    assert!(!CLASSES.into_iter().any(shut));
}

#[tokio::test(start_paused = true)]
async fn one_outage_that_fails_all_calls_in_flight_is_one_failure() {
    let admission = admission();
    for reason in [ErrorReason::Overloaded, ErrorReason::CloudUnavailable] {
        let mut flying = Vec::new();
        for _ in 0..4 {
            flying.push(admission.call(LOOK_UP).await);
        }
        let started = Instant::now();
        for permit in flying {
            advance(Duration::from_millis(100)).await;
            permit.ended(Some(&refused(reason, None)));
        }
        admission.open(CallClass::Instances).await;
        assert_eq!(started.elapsed(), Duration::from_millis(1100));
        advance(Duration::from_millis(1)).await;
    }
    let next = fail(&admission, LOOK_UP, ErrorReason::CloudUnavailable, None).await;
    assert_eq!(next, 2);
}

#[tokio::test(start_paused = true)]
async fn a_success_from_before_a_failure_resets_nothing() {
    let admission = admission();
    let early = admission.call(LOOK_UP).await;
    let first = fail(&admission, LOOK_UP, ErrorReason::CloudUnavailable, None).await;
    early.ended(None);
    drop(early);
    let second = fail(&admission, LOOK_UP, ErrorReason::CloudUnavailable, None).await;
    assert_eq!((first, second), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn the_clouds_rates_hold_for_a_class_and_for_all_together() {
    let admission = admission();
    renew(
        &admission,
        &[
            rate(CallClass::All, 10.0, 1),
            rate(CallClass::LoadBalancers, 1.0, 2),
            rate(CallClass::LoadBalancers, 100.0, 9),
        ],
        false,
    );
    let started = Instant::now();
    let mut times = Vec::new();
    for _ in 0..4 {
        admission.call(ENSURE).await;
        times.push(started.elapsed().as_millis());
    }
    assert_eq!(times, [0, 100, 1000, 2000]);
    admission.call(LOOK_UP).await;
    assert_eq!(started.elapsed().as_millis(), 2100);
    // A limit that makes no sense limits nothing.
    for qps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        renew(&admission, &[rate(CallClass::All, qps, 1)], true);
        drop((
            admission.call(LOOK_UP).await,
            admission.try_call(LOOK_UP).unwrap(),
        ));
    }
    // Neither extreme makes the arithmetic panic.
    for qps in [f64::MIN_POSITIVE, f64::MAX] {
        renew(&admission, &[rate(CallClass::All, qps, u32::MAX)], true);
        admission.call(LOOK_UP).await;
        let _ = admission.try_call(LOOK_UP);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_process_starts_afresh_except_for_the_clouds_rate_limit() {
    let admission = admission();
    for reason in [
        ErrorReason::CredentialsInvalid,
        ErrorReason::CloudUnavailable,
    ] {
        let permit = admission.call(LOOK_UP).await;
        permit.ended(Some(&refused(reason, None)));
        renew(&admission, &[], false);
        assert!(admission.paused_until(CallClass::Instances).is_some());
        renew(&admission, &[], true);
        assert!(admission.paused_until(CallClass::Instances).is_none());
    }
    let permit = admission.call(LOOK_UP).await;
    permit.ended(Some(&refused(ErrorReason::RateLimited, None)));
    renew(&admission, &[], true);
    assert!(admission.paused_until(CallClass::Instances).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_provider_says_how_many_changes_run_at_once_and_looks_do_not_count() {
    let admission = admission();
    let at_once = |method| {
        let mut flying = Vec::new();
        while flying.len() < 100
            && let Some(permit) = admission.try_call(method)
        {
            flying.push(permit);
        }
        flying.len()
    };
    admission.limits.lock().allow(CallClass::LoadBalancers, 2);
    assert_eq!(at_once(ENSURE), 2);
    assert_eq!(at_once(GET), 100);
    assert_eq!(at_once(LOOK_UP), 4);
    admission.limits.lock().allow(CallClass::LoadBalancers, 64);
    assert_eq!(at_once(ENSURE), 64);
}

#[tokio::test(start_paused = true)]
async fn no_call_waits_behind_one_that_is_gone_or_waits_for_something_else() {
    let admission = admission();
    renew(&admission, &[rate(CallClass::All, 1.0, 1)], false);
    // A call that was not made takes no token.
    drop(admission.enter(LOOK_UP).await);
    assert!(admission.try_call(LOOK_UP).is_some());
    // Gone.
    assert!(
        timeout(Duration::from_millis(1), admission.call(LOOK_UP))
            .await
            .is_err()
    );
    // Paused.
    let started = Instant::now();
    let permit = admission.call(ENSURE).await;
    permit.ended(Some(&refused(ErrorReason::RateLimited, Some(secs(60)))));
    let paused = admission.call(ENSURE);
    let free = async {
        drop(admission.call(LOOK_UP).await);
        started.elapsed()
    };
    let (_, free) = tokio::join!(paused, free);
    assert!(free < secs(3), "{free:?}");
}

mod answers;
mod applied;
mod bulk;
mod ends;
mod released;
mod rig;
mod rollout;
mod selection;
mod turns;
mod undone;
mod waits;

use std::time::Duration;

use outrigger_core::targets::Pace;
use outrigger_provider_mock::faults::{Effect, Fault, InjectedError, Method};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::rig::{Rig, Setup};
use super::subscribe;
use crate::fixture::{self, Fixture, cloud, days_and_hours, each_costs_as_much};
use outrigger_kube::{fixture::service, store::Origin};

const WEB: &str = "shop/web";

async fn secs(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

async fn with_services(count: usize, setup: Setup) -> Rig {
    let rig = Rig::with(setup).await;
    for n in 0..count {
        rig.cluster.create_service(service(&format!("web-{n}")));
    }
    for n in 0..count {
        rig.ready(&format!("shop/web-{n}")).await;
    }
    rig
}

fn trouble() -> InjectedError {
    InjectedError::new(tonic::Code::ResourceExhausted).with_reason("QUOTA_EXCEEDED")
}

/// When the count of calls of a method grew, in seconds after now.
async fn call_times(rig: &Rig, method: &str, seconds: u64) -> Vec<u64> {
    let began = Instant::now();
    let mut calls = rig.calls(method);
    let mut times = Vec::new();
    while began.elapsed() < Duration::from_secs(seconds) {
        sleep(Duration::from_millis(100)).await;
        if rig.calls(method) > calls {
            calls = rig.calls(method);
            times.push(began.elapsed().as_secs());
        }
    }
    times
}

/// S-36.
#[tokio::test(start_paused = true)]
async fn failures_back_off_as_upstreams() {
    let rig = Rig::start().await;
    rig.fail(Method::EnsureLoadBalancer, trouble());
    rig.cluster.create_service(service("web"));
    let times = call_times(&rig, "EnsureLoadBalancer", 1000).await;
    assert_eq!(times, [0, 5, 15, 35, 75, 155, 315, 615, 915]);
    let failed = rig
        .events()
        .iter()
        .filter(|e| *e == "SyncLoadBalancerFailed")
        .count();
    assert!(failed > 0);
    let (status, reason) = rig.condition(WEB, "Provisioned").unwrap();
    assert_eq!((&*status, &*reason), ("False", "QuotaExceeded"));
    rig.cloud.clear_faults();
    rig.cluster
        .change_service(WEB, |web| web["spec"]["ports"][0]["port"] = json!(81));
    rig.ready(WEB).await;
}

/// S-14: no user changes a Service that is being deleted. Q-28: a time from the provider counts, up to
/// 30 s.
#[tokio::test(start_paused = true)]
async fn deletions_are_retried_often() {
    for (error, expected) in [
        (trouble(), vec![0, 5, 15, 35, 65, 95]),
        (
            InjectedError::new(tonic::Code::Aborted)
                .with_reason("OPERATION_IN_PROGRESS")
                .retry_after(Duration::from_secs(40)),
            vec![0, 30, 60, 90],
        ),
    ] {
        let rig = Rig::start().await;
        rig.cluster.create_service(service("web"));
        rig.ready(WEB).await;
        rig.fail(Method::DeleteLoadBalancer, error);
        rig.cluster.delete_service(WEB);
        assert_eq!(call_times(&rig, "DeleteLoadBalancer", 100).await, expected);
        assert!(rig.cluster.service(WEB).is_some(), "its finalizer holds it");
        rig.cloud.clear_faults();
        rig.until("its end", |rig| rig.cluster.service(WEB).is_none())
            .await;
        assert!(rig.cloud.load_balancers().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_of_the_api_server_delays_the_write_and_repeats_no_call() {
    let setup = Setup {
        cloud: cloud(|config| config.latency = Duration::from_secs(1)),
        ..Setup::default()
    };
    let rig = Rig::with(setup).await;
    let throttle = || rig.cluster.refuse("/services/web/status", 429, usize::MAX);
    rig.cluster.create_service(service("web"));
    rig.until("the first write", |rig| rig.writes() > 0).await;
    throttle();
    secs(40).await;
    rig.cluster.accept();
    secs(30).await;
    rig.ready(WEB).await;
    assert_eq!(rig.calls("EnsureLoadBalancer"), 1);
    assert!(rig.writes() <= 9, "{:?}", rig.cluster.log());
    assert_eq!(
        rig.events(),
        ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
    );

    throttle();
    rig.cluster.delete_service(WEB);
    secs(40).await;
    rig.cluster.accept();
    secs(30).await;
    assert_eq!(rig.cluster.service(WEB), None);
    assert_eq!(rig.calls("DeleteLoadBalancer"), 1);
}

/// Its leader has cleaned up before the finalizer went, so that a queue with ever new names would only grow.
#[tokio::test(start_paused = true)]
async fn a_standby_queues_no_service_that_is_gone() {
    let fixture = Fixture::new(fixture::Setup::default());
    let inputs = subscribe(
        &fixture.services,
        &fixture.nodes,
        fixture.provider.clone(),
        Pace::default(),
        &fixture.queues,
    );
    for n in 0..100 {
        let mut json = service(&format!("web-{n}"));
        json["metadata"]["uid"] = format!("uid-{n}").into();
        let service = serde_json::from_value(json).unwrap();
        fixture.services.apply(service, Origin::Watch);
    }
    assert_eq!(inputs.keys.queue.depth(), 100);
    for service in fixture.services.all().iter().skip(1) {
        fixture.services.delete(&service.key, Origin::Watch);
    }
    assert_eq!(inputs.keys.queue.depth(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_day_of_services_costs_as_much_as_the_day_before() {
    let mut setup = Setup::default();
    setup.settings.drift_period = Some(Duration::from_hours(6));
    let rig = with_services(10, setup).await;
    let ((count, hours), mut days) = (days_and_hours(), Vec::new());
    for day in 0..count {
        for hour in 0..hours {
            let (name, joined) = (format!("day-{day}-{hour}"), format!("joined-{day}-{hour}"));
            let key = format!("shop/{name}");
            rig.cluster.create_service(service(&name));
            rig.ready(&key).await;
            rig.join(&joined);
            secs(15 * 60).await;
            rig.leave(&joined);
            secs(15 * 60).await;
            rig.wire.cut();
            secs(60).await;
            rig.wire.mend();
            secs(14 * 60).await;
            rig.cluster.delete_service(&key);
            rig.until("its end", |rig| rig.cluster.service(&key).is_none())
                .await;
            secs(15 * 60).await;
        }
        rig.lease.forget_log();
        days.push(rig.day());
    }
    each_costs_as_much(&days);
}

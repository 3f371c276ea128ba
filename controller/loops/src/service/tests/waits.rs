//! When a call is repeated, whatever the provider says about it or leaves out, and calls whose Service changes meanwhile.

use std::time::Duration;

use outrigger_provider_mock::faults::{Effect, Fault, InjectedError, Method};
use serde_json::json;
use tonic::Code;

use super::{
    WEB, call_times,
    rig::{Rig, Setup},
    secs, with_services,
};
use outrigger_kube::fixture::service;
use outrigger_runtime::fixture::Warnings;

fn retry(code: Code, reason: &str, after: Duration) -> InjectedError {
    InjectedError::new(code)
        .with_reason(reason)
        .retry_after(after)
}

/// There are ten calls in ten seconds, not 400 a second.
#[tokio::test(start_paused = true)]
async fn a_short_retry_time_is_no_storm() {
    for (code, reason) in [
        (Code::Aborted, "OPERATION_IN_PROGRESS"),
        (Code::ResourceExhausted, "RATE_LIMITED"),
        (Code::ResourceExhausted, "OVERLOADED"),
        (Code::Unavailable, "CLOUD_UNAVAILABLE"),
    ] {
        let rig = Rig::start().await;
        let error = retry(code, reason, Duration::from_millis(1));
        rig.fail(Method::EnsureLoadBalancer, error);
        rig.cluster.create_service(service("web"));
        secs(10).await;
        let calls = rig.calls("EnsureLoadBalancer");
        assert!((2..=11).contains(&calls), "{reason}: {calls}");
    }
}

/// Longer than a year is five minutes for one Service.
#[tokio::test(start_paused = true)]
async fn a_long_retry_time_is_no_silence() {
    let year = Duration::from_hours(24 * 365);
    for (code, reason) in [
        (Code::Aborted, "OPERATION_IN_PROGRESS"),
        (Code::ResourceExhausted, "OVERLOADED"),
    ] {
        let rig = Rig::start().await;
        rig.fail(Method::EnsureLoadBalancer, retry(code, reason, year));
        rig.cluster.create_service(service("web"));
        let times = call_times(&rig, "EnsureLoadBalancer", 700).await;
        assert_eq!(times, [0, 300, 600], "{reason}");
    }
    // The pause of the class is what counts, and that is an hour.
    let rig = Rig::start().await;
    let limited = retry(Code::ResourceExhausted, "RATE_LIMITED", year);
    rig.fail(Method::EnsureLoadBalancer, limited);
    rig.cluster.create_service(service("web"));
    let times = call_times(&rig, "EnsureLoadBalancer", 7500).await;
    assert_eq!(times, [0, 3600, 7200]);
}

/// Updates that a full provider refuses are not as many Ensures.
#[tokio::test(start_paused = true)]
async fn a_full_provider_is_asked_for_the_same_again() {
    for reason in ["OVERLOADED", "RATE_LIMITED"] {
        let rig = with_services(50, Setup::default()).await;
        let full = InjectedError::new(Code::ResourceExhausted)
            .with_reason(reason)
            .without_retry_info();
        rig.fail(Method::UpdateLoadBalancerNodes, full);
        rig.leave("n3");
        secs(30).await;
        assert_eq!(rig.calls("EnsureLoadBalancer"), 50, "{reason}");
        rig.cloud.clear_faults();
        rig.until("its targets", |rig| {
            let all = rig.cloud.load_balancers();
            all.iter().all(|one| one.targets.len() == 9)
        })
        .await;
        assert_eq!(rig.calls("EnsureLoadBalancer"), 50, "{reason}");
    }
}

/// An unknown reason concerns its own Service, whatever its code, and is quoted.
#[tokio::test(start_paused = true)]
async fn an_unknown_reason_makes_no_other_service_wait() {
    for code in [
        Code::ResourceExhausted,
        Code::Unavailable,
        Code::Unauthenticated,
        Code::Unimplemented,
        Code::InvalidArgument,
    ] {
        let warnings = Warnings::listen();
        let rig = Rig::start().await;
        let mut fault = Fault::on(
            Method::EnsureLoadBalancer,
            Effect::Error(InjectedError::new(code).with_reason("SUBNET_FULL")),
        );
        fault.service = Some(WEB.into());
        rig.cloud.inject(fault);
        rig.cluster.create_service(service("web"));
        rig.until("a failure", |rig| {
            rig.condition(WEB, "Provisioned")
                .is_some_and(|(_, reason)| reason == "Transient")
        })
        .await;
        rig.cluster.create_service(service("db"));
        secs(1).await;
        let db = rig.cluster.service("shop/db").unwrap();
        let ip = &db["status"]["loadBalancer"]["ingress"][0]["ip"];
        assert!(ip.is_string(), "{code:?}: {db}");
        assert!(!warnings.with("SUBNET_FULL").is_empty(), "{code:?}");
        // It backs off, and a change of the Service is not needed.
        secs(5).await;
        assert!(rig.calls("EnsureLoadBalancer") > 2, "{code:?}");
    }
}

/// S-36: users read what the cloud said.
#[tokio::test(start_paused = true)]
async fn the_clouds_own_words_are_shown_as_they_are() {
    let rig = Rig::start().await;
    let error = InjectedError::new(Code::Internal)
        .with_reason("CLOUD_ERROR")
        .with_message("quota exceeded");
    rig.fail(Method::EnsureLoadBalancer, error);
    rig.cluster.create_service(service("web"));
    rig.until("a failure", |rig| {
        rig.condition(WEB, "Provisioned")
            .is_some_and(|(_, reason)| reason == "CloudError")
    })
    .await;
    let service = rig.cluster.service(WEB).unwrap();
    let conditions = service["status"]["conditions"].as_array().unwrap();
    let provisioned = conditions
        .iter()
        .find(|condition| condition["type"] == "outrigger.dev/Provisioned");
    assert_eq!(provisioned.unwrap()["message"], "quota exceeded");
}

/// Names of the Services that have a load balancer, in order.
fn served(rig: &Rig) -> Vec<String> {
    let all = rig.cloud.load_balancers();
    let tags = all.iter().filter_map(|one| one.service.as_ref());
    let mut names: Vec<_> = tags.map(|tag| tag.name.clone()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_service_that_changed_while_its_call_waited_is_not_ensured_as_it_was() {
    let rig = Rig::start().await;
    let limited = InjectedError::new(Code::ResourceExhausted)
        .with_reason("RATE_LIMITED")
        .retry_after(Duration::from_mins(1));
    let once = Fault::on(Method::EnsureLoadBalancer, Effect::Error(limited)).times(1);
    rig.cloud.inject(once);
    rig.cluster.create_service(service("first"));
    secs(1).await;
    for name in ["held", "gone", "other"] {
        rig.cluster.create_service(service(name));
    }
    secs(5).await;
    assert_eq!(rig.calls("EnsureLoadBalancer"), 1, "the class is paused");
    rig.cluster.change_service("shop/held", |held| {
        held["metadata"]["annotations"]["outrigger.dev/paused"] = json!("true");
    });
    rig.cluster.delete_service("shop/gone");
    secs(120).await;
    assert_eq!(served(&rig), ["first", "other"]);
    assert_eq!(
        rig.calls("EnsureLoadBalancer"),
        3,
        "first twice, other once"
    );
    assert!(rig.cluster.service("shop/gone").is_none());
    // It is held, not forgotten.
    rig.cluster.change_service("shop/held", |held| {
        held["metadata"]["annotations"] = json!({});
    });
    secs(10).await;
    assert_eq!(served(&rig), ["first", "held", "other"]);
}

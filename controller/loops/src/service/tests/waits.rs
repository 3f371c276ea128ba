//! Calls that a full provider has repeated, and calls whose Service changes while they wait.

use std::time::Duration;

use outrigger_provider_mock::faults::{Effect, Fault, InjectedError, Method};
use serde_json::json;
use tonic::Code;

use super::{
    rig::{Rig, Setup},
    secs, with_services,
};
use outrigger_kube::fixture::service;

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

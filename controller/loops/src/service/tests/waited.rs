//! Calls whose Service changes while they wait.

use super::*;

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
    let limited = InjectedError::new(tonic::Code::ResourceExhausted)
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

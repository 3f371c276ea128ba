//! Updates follow the pace of the provider.

use outrigger_provider_mock::faults::BadAnswer;

use super::*;

fn failed(rig: &Rig) -> usize {
    let events = rig.events().into_iter();
    events
        .filter(|event| event == "UpdateLoadBalancerFailed")
        .count()
}

fn all_have(rig: &Rig, targets: usize) -> bool {
    let all = rig.cloud.load_balancers();
    all.iter().all(|one| one.targets.len() == targets)
}

/// 400 s of work in the cloud: two calls of it for each.
#[tokio::test(start_paused = true)]
async fn load_balancers_that_are_updated_one_after_the_other_need_no_ensure() {
    let rig = with_services(100, Setup::one_call_at_a_time()).await;
    rig.cloud.set_latency(Duration::from_secs(2), None);
    rig.leave("n1");
    secs(100).await;
    // In no call that takes long.
    rig.cluster.delete_service("shop/web-99");
    let began = Instant::now();
    rig.until("its end", |rig| {
        rig.cluster.service("shop/web-99").is_none()
    })
    .await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    secs(300).await;
    rig.until("all", |rig| all_have(rig, 9)).await;
    secs(100).await;
    assert_eq!((rig.calls("EnsureLoadBalancer"), failed(&rig)), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn one_slow_load_balancer_costs_no_other_an_event() {
    let rig = with_services(20, Setup::one_call_at_a_time()).await;
    let slow = Effect::Hang {
        duration: Some(Duration::from_secs(100)),
    };
    rig.cloud
        .inject(Fault::on(Method::UpdateLoadBalancerNodes, slow).times(1));
    rig.leave("n1");
    secs(120).await;
    assert!(all_have(&rig, 9));
    assert_eq!((rig.calls("EnsureLoadBalancer"), failed(&rig)), (20, 0));
}

#[tokio::test(start_paused = true)]
async fn only_the_service_whose_result_is_missing_alone_has_failed() {
    let rig = with_services(20, Setup::default()).await;
    let missing = Effect::BadAnswer(BadAnswer::MissingResult);
    let missing = Fault::on(Method::UpdateLoadBalancerNodes, missing);
    rig.cloud.inject(missing.for_service("shop/web-7"));
    rig.leave("n1");
    secs(60).await;
    assert!(all_have(&rig, 9));
    let ensured = rig.calls("EnsureLoadBalancer") - 20;
    assert_eq!((ensured, failed(&rig)), (1, 1));
}

//! New targets leave in one batch, without Services that must not be in it.

use super::*;

const UPDATE: &str = "UpdateLoadBalancerNodes";

/// Services in all updates so far.
fn updated(rig: &Rig) -> u64 {
    let counters = rig.cloud.counters();
    counters.items.get(UPDATE).copied().unwrap_or(0)
}

/// Numbers of targets, by load balancer.
fn sizes(rig: &Rig) -> Vec<usize> {
    let all = rig.cloud.load_balancers();
    let mut sizes: Vec<_> = all.iter().map(|one| one.targets.len()).collect();
    sizes.sort_unstable();
    sizes
}

/// Has all calls about load balancers wait for a minute.
async fn limit(rig: &Rig) {
    let limited = InjectedError::new(tonic::Code::ResourceExhausted)
        .with_reason("RATE_LIMITED")
        .retry_after(Duration::from_mins(1));
    let once = Fault::on(Method::EnsureLoadBalancer, Effect::Error(limited)).times(1);
    rig.cloud.inject(once);
    rig.cluster.create_service(service("limited"));
    secs(1).await;
}

#[tokio::test(start_paused = true)]
async fn services_that_changed_while_their_batch_waited_are_not_in_it() {
    let rig = with_services(20, Setup::default()).await;
    limit(&rig).await;
    rig.leave("n1");
    secs(5).await;
    assert_eq!(rig.calls(UPDATE), 0, "the class is paused");
    rig.cluster.change_service("shop/web-1", |held| {
        held["metadata"]["annotations"]["outrigger.dev/paused"] = json!("true");
    });
    rig.cluster.delete_service("shop/web-2");
    rig.cluster.change_service("shop/web-3", |edited| {
        edited["spec"]["ports"][0]["port"] = json!(81);
    });
    secs(120).await;
    assert_eq!((rig.calls(UPDATE), updated(&rig)), (1, 17));
    // The edited one got them with its Ensure, the paused one is left as it is.
    assert_eq!(sizes(&rig), [vec![9; 19], vec![10]].concat());
    assert!(rig.cluster.service("shop/web-2").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_sends_no_batch_that_has_waited() {
    let rig = with_services(3, Setup::default()).await;
    limit(&rig).await;
    rig.leave("n1");
    secs(5).await;
    rig.fence();
    secs(300).await;
    assert_eq!(rig.calls(UPDATE), 0);
}

/// Calls about one Service do not overlap.
#[tokio::test(start_paused = true)]
async fn a_service_with_a_call_in_flight_is_not_in_the_batch_and_delays_no_other() {
    let rig = with_services(20, Setup::default()).await;
    let slow = Effect::Hang {
        duration: Some(Duration::from_secs(20)),
    };
    let slow = Fault::on(Method::EnsureLoadBalancer, slow).times(1);
    rig.cloud.inject(slow.for_service("shop/web-3"));
    rig.cluster.change_service("shop/web-3", |edited| {
        edited["spec"]["ports"][0]["port"] = json!(81);
    });
    secs(1).await;
    rig.leave("n1");
    secs(1).await;
    assert_eq!((rig.calls(UPDATE), updated(&rig)), (1, 19));
    secs(30).await;
    assert_eq!((rig.calls(UPDATE), updated(&rig)), (2, 20));
    assert_eq!(sizes(&rig), [9; 20]);
}

#[tokio::test(start_paused = true)]
async fn a_start_gives_all_of_them_in_one_call_the_nodes_they_have_missed() {
    let rig = with_services(100, Setup::default()).await;
    let mut setup = Setup::default();
    setup.nodes.retain(|name| name != "n1");
    let rig = rig.restart_with(setup).await;
    secs(10).await;
    assert_eq!((rig.calls(UPDATE), updated(&rig)), (1, 100));
    assert_eq!(sizes(&rig), [9; 100]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_failed_is_repeated_as_a_batch() {
    let rig = with_services(50, Setup::default()).await;
    let away = InjectedError::new(tonic::Code::Unavailable).with_reason("CLOUD_UNAVAILABLE");
    let away = Fault::on(Method::UpdateLoadBalancerNodes, Effect::Error(away));
    rig.cloud.inject(away.times(2));
    rig.leave("n1");
    secs(60).await;
    assert_eq!(sizes(&rig), [9; 50]);
    assert_eq!((rig.calls(UPDATE), updated(&rig)), (3, 50));
}

//! New targets for load balancers that exist, without the Services that must not get them.

use super::*;

const UPDATE: &str = "UpdateLoadBalancerNodes";

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
async fn services_that_changed_while_their_updates_waited_get_none() {
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
    assert_eq!(rig.calls(UPDATE), 17);
    // The edited one got them with its Ensure, the paused one is left as it is.
    assert_eq!(sizes(&rig), [vec![9; 19], vec![10]].concat());
    assert!(rig.cluster.service("shop/web-2").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_makes_no_update_that_has_waited() {
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
async fn a_service_with_a_call_in_flight_waits_and_delays_no_other() {
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
    assert_eq!(rig.calls(UPDATE), 19);
    secs(30).await;
    assert_eq!(rig.calls(UPDATE), 20);
    assert_eq!(sizes(&rig), [9; 20]);
}

#[tokio::test(start_paused = true)]
async fn a_start_gives_each_of_them_the_nodes_that_it_has_missed() {
    let rig = with_services(100, Setup::default()).await;
    let mut setup = Setup::default();
    setup.nodes.retain(|name| name != "n1");
    let rig = rig.restart_with(setup).await;
    secs(10).await;
    assert_eq!(rig.calls(UPDATE), 100);
    assert_eq!(sizes(&rig), [9; 100]);
}

#[tokio::test(start_paused = true)]
async fn updates_of_a_cloud_that_is_away_are_repeated_as_updates() {
    let rig = with_services(50, Setup::default()).await;
    let away = InjectedError::new(tonic::Code::Unavailable).with_reason("CLOUD_UNAVAILABLE");
    let away = Fault::on(Method::UpdateLoadBalancerNodes, Effect::Error(away));
    rig.cloud.inject(away.times(2));
    rig.leave("n1");
    secs(60).await;
    assert_eq!(sizes(&rig), [9; 50]);
    assert_eq!(
        (rig.calls(UPDATE), rig.calls("EnsureLoadBalancer")),
        (52, 50)
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_that_fails_or_hangs_concerns_its_service_alone() {
    let rig = with_services(20, Setup::default()).await;
    let fail = Fault::on(Method::UpdateLoadBalancerNodes, Effect::Error(trouble()));
    rig.cloud.inject(fail.for_service("shop/web-7"));
    let hang = Effect::Hang { duration: None };
    let hang = Fault::on(Method::UpdateLoadBalancerNodes, hang).times(1);
    rig.cloud.inject(hang.for_service("shop/web-8"));
    rig.leave("n1");
    secs(5).await;
    assert_eq!(sizes(&rig), [vec![9; 19], vec![10]].concat());
    // Its deadline, and its Ensure.
    secs(150).await;
    assert_eq!(sizes(&rig), [9; 20]);
    assert_eq!(rig.calls("EnsureLoadBalancer"), 22);
    let events = rig.events().into_iter();
    let failed = events.filter(|event| event == "UpdateLoadBalancerFailed");
    assert_eq!(failed.count(), 2);
}

/// 5 s of work in the cloud for each, 16 at a time.
#[tokio::test(start_paused = true)]
async fn as_many_updates_as_the_provider_takes_are_in_flight() {
    let rig = with_services(32, Setup::default()).await;
    let work = Effect::Hang {
        duration: Some(Duration::from_secs(5)),
    };
    rig.cloud
        .inject(Fault::on(Method::UpdateLoadBalancerNodes, work));
    rig.leave("n1");
    secs(9).await;
    assert_eq!(sizes(&rig), [vec![9; 16], vec![10; 16]].concat());
    secs(2).await;
    assert_eq!(sizes(&rig), [9; 32]);
}

/// The provider does not know the node set, and other nodes are the targets by then.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_again_has_the_targets_of_that_moment() {
    let rig = with_services(1, Setup::default()).await;
    let slow = Effect::Hang {
        duration: Some(Duration::from_secs(20)),
    };
    rig.cloud
        .inject(Fault::on(Method::SyncNodeSet, slow).times(1));
    let unknown =
        InjectedError::new(tonic::Code::FailedPrecondition).with_reason("NODE_SET_UNKNOWN");
    let unknown = Fault::on(Method::UpdateLoadBalancerNodes, Effect::Error(unknown));
    rig.cloud.inject(unknown.times(1));
    rig.leave("n1");
    secs(5).await;
    rig.leave("n2");
    secs(60).await;
    assert_eq!((rig.calls(UPDATE), sizes(&rig)), (2, vec![8]));
}

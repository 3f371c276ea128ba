//! Services that wait for a call are in the queue, where a change finds them; and new targets for load balancers that
//! exist.

use outrigger_provider_mock::ServedLoadBalancers;

use super::*;

const UPDATE: Method = Method::UpdateLoadBalancerNodes;

/// `max_in_flight` calls.
fn few_at_once(max_in_flight: u32) -> Setup {
    Setup::serving(ServedLoadBalancers {
        max_in_flight,
        ..ServedLoadBalancers::default()
    })
}

/// Has each call that changes a load balancer take so long.
fn slow(rig: &Rig, seconds: u64) {
    for method in [
        UPDATE,
        Method::EnsureLoadBalancer,
        Method::DeleteLoadBalancer,
    ] {
        let duration = Some(Duration::from_secs(seconds));
        rig.cloud
            .inject(Fault::on(method, Effect::Hang { duration }));
    }
}

/// The rest of calls in flight, which may be about the Services themselves, and two rounds of two calls for the changes. A
/// rollout takes 100 s.
const AT_ONCE: Duration = Duration::from_secs(19);

/// How many load balancers have the Node.
fn with_node(rig: &Rig, name: &str) -> usize {
    let all = rig.cloud.load_balancers();
    let has = all
        .iter()
        .filter(|one| one.targets.iter().any(|t| &*t.node == name));
    has.count()
}

fn is_ready(rig: &Rig, key: &str) -> bool {
    rig.condition(key, "Provisioned")
        .is_some_and(|(status, _)| status == "True")
}

/// 40 load balancers get other nodes in calls of 5 s, two at a time.
async fn rollout() -> Rig {
    let rig = with_services(40, few_at_once(2)).await;
    slow(&rig, 5);
    rig.leave("n1");
    secs(7).await;
    assert_eq!(with_node(&rig, "n1"), 38, "the rollout has begun");
    rig
}

#[tokio::test(start_paused = true)]
async fn a_service_that_waits_for_its_update_is_changed_or_deleted_at_once() {
    let rig = rollout().await;
    rig.cluster.change_service("shop/web-37", |web| {
        web["spec"]["ports"][0]["port"] = json!(81);
    });
    rig.cluster.change_service("shop/web-38", |web| {
        web["spec"]["type"] = json!("ClusterIP");
    });
    rig.cluster.delete_service("shop/web-39");
    let began = Instant::now();
    let is_changed = |rig: &Rig| {
        let all = rig.cloud.load_balancers();
        let ports = all.iter().flat_map(|one| &one.ports);
        ports.filter(|port| port.port == 81).count() == 1 && all.len() == 38
    };
    rig.until("all three changes", is_changed).await;
    assert!(rig.cluster.service("shop/web-39").is_none());
    let took = began.elapsed();
    assert!(took < AT_ONCE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_is_given_to_no_load_balancer_by_a_later_call() {
    let rig = with_services(40, few_at_once(2)).await;
    slow(&rig, 5);
    rig.join("late");
    rig.until("the first", |rig| with_node(rig, "late") > 0)
        .await;
    secs(10).await;
    rig.leave("late");
    // Calls that began before are over.
    secs(6).await;
    let before = with_node(&rig, "late");
    for _ in 0..100 {
        secs(1).await;
        let now = with_node(&rig, "late");
        assert!(now <= before, "{now} of 40 have it, after {before}");
    }
    secs(200).await;
    assert_eq!(with_node(&rig, "late"), 0);
}

/// The default of a Go cloud behind the adapter.
#[tokio::test(start_paused = true)]
async fn a_new_service_waits_for_one_call_of_a_rollout() {
    let rig = with_services(40, few_at_once(1)).await;
    slow(&rig, 2);
    rig.leave("n1");
    secs(5).await;
    rig.cluster.create_service(service("new"));
    let began = Instant::now();
    rig.until("its load balancer", |rig| is_ready(rig, "shop/new"))
        .await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    secs(100).await;
    assert_eq!(with_node(&rig, "n1"), 0, "the rollout has ended");
}

#[tokio::test(start_paused = true)]
async fn a_comparison_delays_no_change() {
    let mut setup = Setup::default();
    setup.settings.drift_period = Some(Duration::from_secs(10));
    let rig = with_services(2, setup).await;
    let hang = Effect::Hang { duration: None };
    rig.cloud.inject(Fault::on(Method::GetLoadBalancer, hang));
    secs(15).await;
    rig.cluster.delete_service("shop/web-0");
    rig.cluster.change_service("shop/web-1", |web| {
        web["spec"]["ports"][0]["port"] = json!(81);
    });
    secs(2).await;
    assert!(
        rig.cluster.service("shop/web-0").is_none(),
        "its deletion waits"
    );
    assert_eq!(
        rig.cloud.load_balancers()[0].ports[0].port,
        81,
        "its change waits"
    );
}

/// The write of the finalizer of one Service waits for the API server, and the only call that the provider takes is
/// another's.
#[tokio::test(start_paused = true)]
async fn a_service_that_the_api_server_throttles_holds_no_place_of_a_call() {
    let rig = Rig::with(Setup::one_call_at_a_time()).await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.cluster.refuse("services/new", 429, usize::MAX);
    rig.cluster.create_service(service("new"));
    secs(1).await;
    rig.leave("n1");
    secs(5).await;
    assert!(!rig.targets().contains(&"n1".to_owned()));
    rig.cluster.accept();
    rig.ready("shop/new").await;
}

const UPDATES: &str = "UpdateLoadBalancerNodes";

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
    assert_eq!(rig.calls(UPDATES), 0, "the class is paused");
    rig.cluster.change_service("shop/web-1", |held| {
        held["metadata"]["annotations"]["outrigger.dev/paused"] = json!("true");
    });
    rig.cluster.delete_service("shop/web-2");
    rig.cluster.change_service("shop/web-3", |edited| {
        edited["spec"]["ports"][0]["port"] = json!(81);
    });
    secs(120).await;
    assert_eq!(rig.calls(UPDATES), 17);
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
    assert_eq!(rig.calls(UPDATES), 0);
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
    assert_eq!(rig.calls(UPDATES), 19);
    secs(30).await;
    assert_eq!(rig.calls(UPDATES), 20);
    assert_eq!(sizes(&rig), [9; 20]);
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
        (rig.calls(UPDATES), rig.calls("EnsureLoadBalancer")),
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
    assert_eq!((rig.calls(UPDATES), sizes(&rig)), (2, vec![8]));
}

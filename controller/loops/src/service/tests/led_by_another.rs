//! Another program has led between two terms of this one.

use outrigger_core::event::EventContent;
use outrigger_provider_mock::load_balancers::LoadBalancer;

use super::{applied::annotation, *};

/// The process ends, the other program leads and ends, and this one starts again.
async fn led_by_another(rig: Rig) -> Rig {
    rig.stop().await;
    rig.lease.edit(|lease| {
        let terms = lease["spec"]["leaseTransitions"].as_i64().unwrap();
        lease["spec"]["leaseTransitions"] = json!(terms + 1);
    });
    let (cluster, cloud, lease) = (rig.cluster.clone(), rig.cloud.clone(), rig.lease.clone());
    Rig::with(Setup {
        cluster,
        cloud,
        lease,
        ..Setup::default()
    })
    .await
}

fn ensures(rig: &Rig) -> u64 {
    rig.calls("EnsureLoadBalancer")
}

/// An edit that the other one carried out and that was taken back since is not in the record, nor is a Node that
/// came and went.
#[tokio::test(start_paused = true)]
async fn each_load_balancer_is_ensured_once_and_gets_the_nodes() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    let (ensured, updated) = (ensures(&rig), rig.calls("UpdateLoadBalancerNodes"));
    let rig = led_by_another(rig).await;
    rig.until("three Ensures", |rig| ensures(rig) == ensured + 3)
        .await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    assert!(rig.calls("UpdateLoadBalancerNodes") > updated);
    let after = rig.mutations();
    secs(60).await;
    let rig = rig.restart().await;
    secs(60).await;
    assert_eq!(rig.mutations(), after, "this program's own term");
}

/// etcd has gone back in time, or an operator asks for it.
#[tokio::test(start_paused = true)]
async fn a_doubt_has_each_load_balancer_ensured_once() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    secs(60).await;
    let ensured = ensures(&rig);
    rig.sight.doubt(EventContent::normal("Resync", "asked"));
    rig.until("three Ensures", |rig| ensures(rig) == ensured + 3)
        .await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    let after = rig.mutations();
    secs(60).await;
    let rig = rig.restart().await;
    secs(60).await;
    assert_eq!(rig.mutations(), after, "once");
}

/// The term that began with it may be over before all are ensured. The periodic comparison finds what the other
/// program left different, and one Ensure repairs it.
#[tokio::test(start_paused = true)]
async fn a_comparison_finds_what_a_term_that_ended_early_left() {
    let rig = with_services(3, Setup::default()).await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    let refused = Fault::on(Method::EnsureLoadBalancer, Effect::Error(trouble()));
    rig.cloud.inject(refused.for_service("shop/web-1"));
    let ensured = ensures(&rig);
    let rig = led_by_another(rig).await;
    rig.until("three Ensures", |rig| ensures(rig) >= ensured + 3)
        .await;
    secs(2).await;
    rig.cloud.clear_faults();
    let mut left = rig.cloud.load_balancers().into_iter();
    let is_its_own = |lb: &LoadBalancer| lb.service.as_ref().is_some_and(|s| s.name == "web-1");
    let mut left = LoadBalancer::clone(&left.find(|lb| is_its_own(lb)).unwrap());
    left.targets = [].into();
    rig.cloud.edit_load_balancer(left).unwrap();
    let ensured = ensures(&rig);
    let mut setup = Setup::default();
    setup.settings.drift_period = Some(Duration::from_hours(1));
    let rig = rig.restart_with(setup).await;
    secs(2 * 60 * 60).await;
    assert_eq!(ensures(&rig), ensured + 1, "the one that failed");
    let all = rig.cloud.load_balancers();
    assert!(all.iter().all(|lb| lb.targets.len() == 10), "{all:?}");
}

//! Answers that must be neither wrong for ever nor silent.

use outrigger_provider_mock::faults::BadAnswer;

use super::*;

/// The provider is another version, which answers otherwise.
#[tokio::test(start_paused = true)]
async fn one_that_is_managed_again_gets_its_nodes_from_the_next_provider_on() {
    let rig = with_services(1, Setup::default()).await;
    let refuses = Fault::on(
        Method::EnsureLoadBalancer,
        Effect::BadAnswer(BadAnswer::NotManaged),
    );
    rig.cloud.inject(refuses);
    rig.cluster.change_service("shop/web-0", |web| {
        web["spec"]["ports"][0]["port"] = json!(81);
    });
    rig.until("the event", |rig| {
        let events = rig.events();
        events.iter().any(|e| e.contains("LoadBalancerNotManaged"))
    })
    .await;
    let (status, reason) = rig.condition("shop/web-0", "Accepted").unwrap();
    assert_eq!((&*status, &*reason), ("False", "NotManaged"));
    rig.leave("n1");
    secs(60).await;
    assert_eq!(rig.targets().len(), 10, "left as it is");
    rig.cloud.clear_faults();
    let rig = rig.restart().await;
    rig.until("the nodes", |rig| rig.targets().len() == 10)
        .await;
    rig.leave("n2");
    rig.until("the nodes", |rig| rig.targets().len() == 9).await;
}

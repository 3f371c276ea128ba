//! The cluster whose UID changes of the cloud carry, and what an operator says on the Lease after a restore of etcd.

use std::time::Duration;

use kube::api::PostParams;
use outrigger_provider_mock::faults::Method;
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    cluster::services::load_balancer,
    replica::LEASE,
    rights::{ALWAYS, Rights},
    stage::Setup,
    wait::{holds, stays, until},
};

/// Another cluster's.
const OTHER: &str = "6d3f0f9b-1f2a-4a51-8e39-1b1e2f3a4b5c";

/// The administrator of a hosted cluster writes its Lease and its roles.
#[tokio::test]
async fn a_uid_that_only_the_lease_has_changes_nothing_in_the_cloud() {
    let cluster = Setup::without_provider()
        .flag("--controllers=service-lb-controller")
        .prepare()
        .await;
    let nodes = Machine::numbered("n-", 2).map(Machine::initialized);
    cluster.register_all(nodes).await;
    let user = "forgetful";
    let rights = Rights::documented(ALWAYS).of(user).without("namespaces");
    rights.grant(&cluster.plane).await;
    let forged = json!({
        "metadata": {"name": LEASE, "annotations": {"outrigger.dev/cluster-uid": OTHER}},
        "spec": {},
    });
    let forged = serde_json::from_value(forged).unwrap();
    let leases = cluster.leases();
    leases
        .create(&PostParams::default(), &forged)
        .await
        .unwrap();
    let mut replica = cluster.part("first").user(user).start().await;
    replica.leads().await;
    replica
        .controller
        .says(&["nothing in the cloud is changed", OTHER])
        .await;
    let web = cluster.create_service(load_balancer("web")).await;
    let event = cluster.event(&web, "SyncLoadBalancerFailed").await;
    let message = event.message.unwrap();
    let remedy = "grant `get` on the namespace kube-system";
    assert!(message.contains(remedy), "{message}");
    stays("nothing is made", Duration::from_secs(1), async || {
        let made = replica.mock.load_balancers().await;
        holds(made.is_empty(), || format!("{made:?}"))
    })
    .await;
    replica.controller.terminate().await;
    rights.revoke(&cluster.plane).await;
    // The annotation is not believed against the API server either, until an operator takes it away.
    let mut second = cluster.replica("second").await;
    second.leads().await;
    let contradicts = ["the Lease remembers", OTHER];
    second.controller.says(&contradicts).await;
    second.controller.terminate().await;
    cluster
        .annotate_lease("outrigger.dev/cluster-uid", None)
        .await;
    let mut third = cluster.replica("third").await;
    third.leads().await;
    cluster.served("web").await;
    let made = third.mock.load_balancers().await;
    assert!(made.iter().all(|one| one.cluster != OTHER), "{made:?}");
}

/// The served cluster's administrator is a neighbour of the others in the account.
#[tokio::test]
async fn a_hosted_cluster_is_known_by_the_uid_that_the_hosting_side_chose() {
    let chosen = "0b5bf7b5-1c2e-4b4a-9d7c-6c2f0e8d5a10";
    let flag = format!("--cluster-uid={chosen}");
    let stage = Setup::synthesizing().flag(&flag).start().await;
    stage.create_service(load_balancer("web")).await;
    stage.served("web").await;
    let made = stage.mock.load_balancers().await;
    assert!(made.iter().all(|one| one.cluster == chosen), "{made:?}");
}

/// The records of Services and the Lease say what is not so any more.
#[tokio::test]
async fn an_annotation_of_the_lease_has_each_service_ensured_once() {
    let mut stage = Setup::synthesizing()
        .flag("--leader-elect=true")
        .start()
        .await;
    stage.register(&Machine::new("worker")).await;
    let uid = stage.create_service(load_balancer("web")).await;
    let uid = uid.metadata.uid.unwrap();
    stage.served("web").await;
    stage.targets_are_remembered().await;
    let ensured = stage.mock.calls(Method::EnsureLoadBalancer).await;

    // Before the start, as the page says: nothing that was known before may be believed first.
    stage.controller.terminate().await;
    stage.mock.lose_load_balancer(&uid).await;
    stage
        .annotate_lease("outrigger.dev/resync", Some("1"))
        .await;
    stage.start_controller();
    until("it is made again", async || {
        let balancer = stage.mock.load_balancer(&uid).await;
        let is_there = balancer.is_some_and(|balancer| balancer.gone_at.is_none());
        holds(is_there, || "none".to_owned())
    })
    .await;
    stage.targets_are_remembered().await;
    let after = stage.mock.calls(Method::EnsureLoadBalancer).await;
    assert_eq!(after, ensured + 1);
    until("the annotation is gone", async || {
        let annotations = stage.lease_annotations().await;
        let is_gone = !annotations.contains_key("outrigger.dev/resync");
        holds(is_gone, || format!("{annotations:?}"))
    })
    .await;
    stage
        .lease_says("outrigger.dev/resync=1: all objects are listed again")
        .await;
}

//! The cluster whose UID changes of the cloud carry, when the right to read its UID is taken away.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    cluster::services::load_balancer,
    look::services::addresses_of,
    replica::LEASE,
    rights::{ALWAYS, Rights},
    stage::Setup,
    wait::{holds, stays, until},
};

/// Another cluster's.
const OTHER: &str = "6d3f0f9b-1f2a-4a51-8e39-1b1e2f3a4b5c";

const FLAGS: [&str; 1] = ["--controllers=service-lb-controller"];

/// The administrator of a hosted cluster writes its Lease and its roles.
#[tokio::test]
async fn a_uid_that_only_the_lease_has_changes_nothing_in_the_cloud() {
    let cluster = Setup::without_provider().flags(&FLAGS).prepare().await;
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
    until("an event that says what to do", async || {
        let events = cluster.events_of(&web).await;
        let said = events.iter().any(|event| {
            let message = event.message.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("SyncLoadBalancerFailed")
                && message.contains("grant `get` on the namespace kube-system")
        });
        holds(said, || format!("{events:?}"))
    })
    .await;
    stays("nothing is made", Duration::from_secs(3), async || {
        let made = replica.mock.load_balancers().await;
        holds(made.is_empty(), || format!("{made:?}"))
    })
    .await;
    // The annotation is not believed against the API server either, until an operator takes it away.
    let full = Rights::documented(ALWAYS).of(user);
    full.grant(&cluster.plane).await;
    replica
        .controller
        .says(&["the Lease remembers", OTHER])
        .await;
    let change = json!({"metadata": {"annotations": {"outrigger.dev/cluster-uid": null}}});
    leases
        .patch(LEASE, &PatchParams::default(), &Patch::Merge(&change))
        .await
        .unwrap();
    until("the address of web", async || {
        let service = cluster.service("web").await;
        holds(!addresses_of(&service).is_empty(), || "none".to_owned())
    })
    .await;
    let made = replica.mock.load_balancers().await;
    assert!(made.iter().all(|one| one.cluster != OTHER), "{made:?}");
    full.revoke(&cluster.plane).await;
}

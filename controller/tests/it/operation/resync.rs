//! etcd was restored from a backup: the records of Services and the Lease say what is not so any more.

use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use outrigger_provider_mock::faults::Method;
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    cluster::{SYSTEM, services::load_balancer},
    replica::LEASE,
    stage::Setup,
    wait::{holds, until},
};

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
    let leases = stage.leases();
    let annotation = json!({"metadata": {"annotations": {"outrigger.dev/resync": "1"}}});
    leases
        .patch(LEASE, &PatchParams::default(), &Patch::Merge(&annotation))
        .await
        .unwrap();
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
        let lease = leases.get(LEASE).await.unwrap();
        let annotations = lease.metadata.annotations.unwrap_or_default();
        holds(!annotations.contains_key("outrigger.dev/resync"), || {
            format!("{annotations:?}")
        })
    })
    .await;
    let events: Api<Event> = Api::namespaced(stage.admin(), SYSTEM);
    until("an event on the Lease", async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let said = events.iter().any(|event| {
            event.reason.as_deref() == Some("Resync")
                && event.involved_object.name.as_deref() == Some(LEASE)
        });
        holds(said, || format!("{events:?}"))
    })
    .await;
}

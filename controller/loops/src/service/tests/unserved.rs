//! A half-written provider: it declares load balancers and answers UNIMPLEMENTED to a method.

use outrigger_provider_mock::faults::{InjectedError, Method};

use super::{
    WEB, call_times,
    rig::{Rig, Setup},
    secs,
};
use outrigger_kube::fixture::service;
use outrigger_runtime::fixture::Warnings;

/// Error with which a gRPC library answers for a method that the provider lacks.
fn unimplemented() -> InjectedError {
    InjectedError::new(tonic::Code::Unimplemented).without_reason()
}

fn failed(rig: &Rig) -> usize {
    let events = rig.events();
    let failed = events
        .iter()
        .filter(|event| *event == "SyncLoadBalancerFailed");
    failed.count()
}

/// The one warning about a method that is missing.
fn reported(warnings: &Warnings, method: &str) {
    let lines = warnings.with("answers UNIMPLEMENTED to a method of it");
    assert!(
        lines.len() == 1 && lines[0].contains(method),
        "{method}: {lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_ensure_a_service_says_so_and_is_tried_again() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    rig.fail(Method::EnsureLoadBalancer, unimplemented());
    rig.cluster.create_service(service("web"));
    let times = call_times(&rig, "EnsureLoadBalancer", 100).await;
    assert_eq!(times, [0, 5, 15, 35, 75]);
    reported(&warnings, "EnsureLoadBalancer");
    assert!(failed(&rig) > 0);
    let (status, reason) = rig.condition(WEB, "Provisioned").unwrap();
    assert_eq!((&*status, &*reason), ("False", "Unimplemented"));
    // The other Service is asked for, though the method was missing for the first.
    rig.cloud.clear_faults();
    rig.cluster.create_service(service("db"));
    rig.ready("shop/db").await;
    rig.ready(WEB).await;
}

#[tokio::test(start_paused = true)]
async fn without_delete_a_service_says_so_and_is_tried_again() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.fail(Method::DeleteLoadBalancer, unimplemented());
    rig.cluster.delete_service(WEB);
    let times = call_times(&rig, "DeleteLoadBalancer", 70).await;
    assert_eq!(times, [0, 5, 15, 35, 65]);
    reported(&warnings, "DeleteLoadBalancer");
    assert!(failed(&rig) > 0);
    let (status, reason) = rig.condition(WEB, "Provisioned").unwrap();
    assert_eq!((&*status, &*reason), ("False", "Unimplemented"));
    assert!(rig.cluster.service(WEB).is_some(), "its finalizer holds it");
}

#[tokio::test(start_paused = true)]
async fn without_updates_targets_change_with_ensure() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.fail(Method::UpdateLoadBalancerNodes, unimplemented());
    for (gone, left) in [("n3", 9), ("n4", 8), ("n5", 7)] {
        rig.leave(gone);
        rig.until("its targets", |rig| rig.targets().len() == left)
            .await;
    }
    secs(600).await;
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 1);
    assert_eq!(rig.calls("EnsureLoadBalancer"), 4);
    reported(&warnings, "UpdateLoadBalancerNodes");
    assert_eq!(failed(&rig), 0);
    let (status, _) = rig.condition(WEB, "TargetsInSync").unwrap();
    assert_eq!(status, "True");
}

#[tokio::test(start_paused = true)]
async fn without_node_sets_calls_carry_the_nodes() {
    let warnings = Warnings::listen();
    let rig = Rig::with(Setup::default()).await;
    rig.fail(Method::SyncNodeSet, unimplemented());
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    assert_eq!(rig.targets().len(), 10);
    rig.leave("n3");
    rig.until("its targets", |rig| rig.targets().len() == 9)
        .await;
    assert_eq!(rig.calls("SyncNodeSet"), 1);
    reported(&warnings, "SyncNodeSet");
    assert_eq!(failed(&rig), 0);
}

//! The end of a Service that is deleted in order (S-11, S-40, S-41, S-46, Q-6, Q-37).

use std::time::Duration;

use outrigger_provider_mock::faults::Effect;
use outrigger_testbed::nodes::Machine;
use serde_json::json;
use tonic::Code;

use super::{DELETE, FINALIZER, GET, MADE, SETTLED, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer, load_balancer_with},
    look::{
        services::{addresses_of, annotation_of, condition_types, finalizers},
        uid,
    },
    mock::load_balancers::{about, error},
    wait::{holds, stays},
};

const GONE: [&str; 2] = ["DeletingLoadBalancer", "DeletedLoadBalancer"];

/// S-40.
#[tokio::test]
async fn s40_a_service_goes_when_its_load_balancer_is_gone() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.delete_service("web").await;
    stage.service_is_gone("web").await;
    assert_eq!(stage.mock.owners().await, [""; 0]);
    stage
        .only_events(&service, &[&MADE[..], &GONE].concat())
        .await;
    assert_eq!(stage.mock.changes().await, [1, 0, 1]);
    // Not S-40: that it is absent is an answer to the deletion itself.
    assert_eq!(stage.mock.calls(GET).await, 0);
    for (reason, message) in GONE
        .iter()
        .zip(["Deleting load balancer", "Deleted load balancer"])
    {
        let event = stage.event(&service, reason).await;
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.message.as_deref(), Some(message));
    }
}

/// S-41.
#[tokio::test]
async fn s41_a_load_balancer_that_is_gone_already_does_not_block_the_deletion() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.mock.lose_load_balancer("default/web").await;
    stage.delete_service("web").await;
    stage.service_is_gone("web").await;
    stage.event(&service, "DeletedLoadBalancer").await;
}

#[tokio::test]
async fn a_load_balancer_that_the_cloud_keeps_on_purpose_does_not_block_the_deletion() {
    let stage = quick(&[]).start().await;
    let protected = annotated("web", "mock.example/deletion-protection", "true");
    let service = stage.serve(protected).await;
    stage.delete_service("web").await;
    stage.service_is_gone("web").await;
    let event = stage.event(&service, "RetainedLoadBalancer").await;
    let message = event.message.unwrap();
    assert!(
        message.starts_with("The load balancer is kept in the cloud")
            && message.contains("protected from deletion"),
        "{message}"
    );
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
}

/// S-46, Q-6: upstream warns for ever about a Service that others hold.
#[tokio::test]
async fn s46_the_finalizers_of_others_stay_and_their_service_is_none_of_our_business() {
    let mut stage = quick(&[]).start().await;
    let held = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let service = stage.serve(load_balancer_with("web", held)).await;
    stage.delete_service("web").await;
    let left = stage
        .service_that("web", "is held by others alone", |service| {
            finalizers(service) == ["example.com/keep"]
        })
        .await;
    assert_eq!(addresses_of(&left), [""; 0]);
    assert_eq!(condition_types(&left), [""; 0]);
    assert_eq!(annotation_of(&left, SETTLED), None);
    assert_eq!(stage.mock.owners().await, [""; 0]);
    stage
        .only_events(&service, &[&MADE[..], &GONE].concat())
        .await;

    stage
        .change_service("web", annotation("mock.example/note", "a"))
        .await;
    stage.silent(Duration::from_millis(500)).await;
    stage.restart_controller().await;
    stage.serve(load_balancer("other")).await;
    stage
        .only_events(&service, &[&MADE[..], &GONE].concat())
        .await;
    assert_eq!(stage.mock.changes().await, [2, 0, 1]);
    stage.strip_service("web").await;
    stage.service_is_gone("web").await;
    assert_eq!(stage.mock.calls(DELETE).await, 1);
}

/// upstream gives new targets to what it cannot delete.
#[tokio::test]
async fn q37_a_load_balancer_that_cannot_be_deleted_gets_no_new_targets() {
    let stage = quick(&[]).start().await;
    let stuck = stage.serve(load_balancer("stuck")).await;
    let other = stage.serve(load_balancer("other")).await;
    let failure = error(Code::FailedPrecondition, "DEPENDENCY_NOT_READY", "in use");
    stage
        .mock
        .inject(about(DELETE, "stuck", Effect::Error(failure)))
        .await;
    stage.delete_service("stuck").await;
    stage.event(&stuck, "SyncLoadBalancerFailed").await;
    stage.register(&Machine::new("new").initialized()).await;
    stage
        .mock
        .sends_to(uid(&other), &["n-00000", "n-00001", "new"])
        .await;
    stays(
        "no targets for what goes",
        Duration::from_millis(700),
        async || {
            let targets = stage.mock.targets(uid(&stuck)).await;
            holds(targets == ["n-00000", "n-00001"], || format!("{targets:?}"))
        },
    )
    .await;
    assert_eq!(stage.mock.updates().await, 1);
    stage.mock.clear().await;
    stage.service_is_gone("stuck").await;
}

/// Deleted and made again, in order.
#[tokio::test]
async fn a_name_that_is_used_again_gets_a_load_balancer_of_its_own() {
    let stage = quick(&[]).start().await;
    let mut last = String::new();
    for _ in 0..3 {
        let service = stage.serve(load_balancer("web")).await;
        assert_ne!(uid(&service), last);
        last = uid(&service).to_owned();
        assert_eq!(stage.mock.owners().await, [last.clone()]);
        assert_eq!(finalizers(&service), [FINALIZER]);
        stage.delete_service("web").await;
        stage.service_is_gone("web").await;
    }
    assert_eq!(stage.mock.owners().await, [""; 0]);
}

/// The cloud is at work on a load balancer that no Service wants any more.
#[tokio::test]
async fn a_service_that_is_deleted_while_it_is_ensured_leaves_nothing() {
    let stage = quick(&[]).start().await;
    let slow = Effect::Hang {
        duration: Some(Duration::from_secs(1)),
    };
    let slow = about(super::ENSURE, "web", slow);
    stage.mock.inject(slow.times(1)).await;
    let service = stage.create_service(load_balancer("web")).await;
    stage.mock.faults_are_used_up().await;
    stage.delete_service("web").await;
    stage.service_is_gone("web").await;
    stage.mock.has_none_of(uid(&service)).await;
    assert_eq!(stage.mock.changes().await, [1, 0, 1]);

    // The same while it takes minutes.
    let slow = annotated("slow", "mock.example/provisioning-time", "10m");
    let service = stage.create_service(slow).await;
    stage
        .service_that("slow", "is being provisioned", |service| {
            finalizers(service) == [FINALIZER] && condition_types(service).len() > 1
        })
        .await;
    stage.mock.was_called(super::ENSURE, 2).await;
    stage.delete_service("slow").await;
    stage.service_is_gone("slow").await;
    stage.mock.has_none_of(uid(&service)).await;
}

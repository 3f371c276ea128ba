//! The end of a Service, in order or by force (S-11, S-15, S-40, S-41, S-46, S-47, S-60, Q-5, Q-6).

use std::time::Duration;

use outrigger_provider_mock::faults::Effect;
use serde_json::json;
use tonic::Code;

use super::{DELETE, GET, MADE, SETTLED, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer, load_balancer_with},
    look::{
        services::{addresses_of, annotation_of, condition_types, finalizers},
        uid,
    },
    mock::load_balancers::{about, error},
    stage::Stage,
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

/// S-41, and what a cloud keeps on purpose.
#[tokio::test]
async fn s41_a_load_balancer_that_is_gone_already_or_is_kept_does_not_block_the_deletion() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.mock.lose_load_balancer("default/web").await;
    stage.delete_service("web").await;
    stage.service_is_gone("web").await;
    stage.event(&service, "DeletedLoadBalancer").await;
    let protected = annotated("kept", "mock.example/deletion-protection", "true");
    let service = stage.serve(protected).await;
    stage.delete_service("kept").await;
    stage.service_is_gone("kept").await;
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

/// S-15, S-60, Q-5: upstream leaves the load balancer behind and goes on giving it targets. The Service is gone, so that its
/// events are all that there is to say it on.
#[tokio::test]
async fn s60_a_service_that_vanishes_while_its_deletion_fails_leaves_no_load_balancer() {
    let stage = quick(&[]).start().await;
    let held = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let service = stage.serve(load_balancer_with("stuck", held)).await;
    let in_use = error(Code::FailedPrecondition, "DEPENDENCY_NOT_READY", "in use");
    stage
        .mock
        .inject(about(DELETE, "stuck", Effect::Error(in_use)).times(2))
        .await;
    stage.delete_service("stuck").await;
    stage.event(&service, "SyncLoadBalancerFailed").await;
    // The finalizers go all at once, and the Service with them.
    stage.strip_service("stuck").await;
    stage.service_is_gone("stuck").await;
    let event = stage.event(&service, "DeleteLoadBalancerFailed").await;
    let message = event.message.unwrap();
    let start = "Error deleting load balancer: in use";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    stage.mock.has_none_of(uid(&service)).await;
    stage.event(&service, "DeletedLoadBalancer").await;
}

/// S-47: another Service under the name of one that vanished.
#[tokio::test]
async fn s47_a_service_made_anew_has_its_own_and_the_old_one_goes() {
    let stage = quick(&["--latency=50ms"]).start().await;
    let mut old = Vec::new();
    for _ in 0..3 {
        let service = stage.serve(load_balancer("web")).await;
        old.push(uid(&service).to_owned());
        stage.delete_and_strip("web").await;
    }
    let new = stage.serve(load_balancer("web")).await;
    for uid in &old {
        stage.mock.has_none_of(uid).await;
    }
    assert_eq!(stage.mock.owners().await, [uid(&new)]);
}

impl Stage {
    /// An impatient user: deleted and stripped as fast as two requests go.
    async fn delete_and_strip(&self, name: &str) {
        self.delete_service(name).await;
        let strip = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let parameters = kube::api::PatchParams::default();
        // It may be gone in order by then.
        let _ = self.services().patch(name, &parameters, &strip).await;
        self.service_is_gone(name).await;
    }
}

//! Services that a client removes by force, and the rest of them (S-15, S-47, S-60, Q-5; the way
//! out of a finalizer that is stuck).

use std::time::Duration;

use outrigger_provider_mock::faults::Effect;
use serde_json::json;
use tokio::join;
use tonic::Code;

use super::{DELETE, ENSURE, FINALIZER, MADE, quick};
use crate::{
    cluster::services::{load_balancer, load_balancer_with},
    look::{services::finalizers, uid},
    mock::load_balancers::{about, error},
    stage::Stage,
    wait::{holds, stays},
};

fn in_use() -> Effect {
    let reason = "DEPENDENCY_NOT_READY";
    Effect::Error(error(Code::FailedPrecondition, reason, "in use"))
}

///
#[tokio::test]
async fn q5_a_removed_finalizer_is_restored() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    stage.strip_service("web").await;
    stage
        .service_that("web", "has its finalizer", |service| {
            finalizers(service) == [FINALIZER]
        })
        .await;
    // It is as it was: there is nothing to ensure.
    stage.silent(Duration::from_millis(500)).await;
    assert_eq!(stage.mock.changes().await, [1, 0, 0]);
    stage.only_events(&service, &MADE).await;
}

/// S-15, S-60, Q-5: upstream leaves the load balancer behind and goes on giving it targets.
#[tokio::test]
async fn s60_a_service_that_vanishes_leaves_no_load_balancer() {
    let stage = quick(&[]).start().await;
    join!(
        held_by_others_too(&stage),
        deleted_at_the_third_try(&stage),
        perhaps_made(&stage),
    );
}

/// The finalizers go all at once, and the Service with them.
async fn held_by_others_too(stage: &Stage) {
    let held = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let service = stage.serve(load_balancer_with("held", held)).await;
    stage
        .mock
        .inject(about(DELETE, "held", in_use()).times(1))
        .await;
    stage.delete_service("held").await;
    stage.event(&service, "SyncLoadBalancerFailed").await;
    stage.strip_service("held").await;
    stage.service_is_gone("held").await;
    stage.mock.has_none_of(uid(&service)).await;
    stage.event(&service, "DeletedLoadBalancer").await;
}

/// The Service is gone, so that its events are all that there is to say it on.
async fn deleted_at_the_third_try(stage: &Stage) {
    let service = stage.serve(load_balancer("stuck")).await;
    stage
        .mock
        .inject(about(DELETE, "stuck", in_use()).times(2))
        .await;
    stage.delete_service("stuck").await;
    stage.event(&service, "SyncLoadBalancerFailed").await;
    stage.strip_service("stuck").await;
    stage.service_is_gone("stuck").await;
    let event = stage.event(&service, "DeleteLoadBalancerFailed").await;
    let message = event.message.unwrap();
    let start = "Error deleting load balancer: in use";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert!(stage.mock.load_balancer(uid(&service)).await.is_some());
    stage.mock.has_none_of(uid(&service)).await;
    stage.event(&service, "DeletedLoadBalancer").await;
}

/// The result of the call is lost.
async fn perhaps_made(stage: &Stage) {
    let lost = about(ENSURE, "made", Effect::LoseReply);
    stage.mock.inject(lost).await;
    let service = stage.create_service(load_balancer("made")).await;
    stage.event(&service, "SyncLoadBalancerFailed").await;
    assert!(stage.mock.load_balancer(uid(&service)).await.is_some());
    stage.delete_and_strip("made").await;
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

/// The way out that docs/services.md describes: a provider that will never delete it.
#[tokio::test]
async fn a_service_whose_finalizer_is_stuck_can_be_released_by_hand() {
    let mut stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.mock.inject(about(DELETE, "web", in_use())).await;
    stage.delete_service("web").await;
    stage.event(&service, "SyncLoadBalancerFailed").await;
    stage.strip_service("web").await;
    stage.service_is_gone("web").await;
    // The load balancer stays behind, and its name is free.
    stage.restart_controller().await;
    let new = stage.serve(load_balancer("web")).await;
    let mut both = [uid(&service), uid(&new)];
    both.sort_unstable();
    assert_eq!(stage.mock.owners().await, both);
    // A cloud without the record leaves it to people: no load balancer is deleted for being listed.
    stage.mock.clear().await;
    stays("it stays", Duration::from_secs(1), async || {
        let owners = stage.mock.owners().await;
        holds(owners == both, || format!("{owners:?}"))
    })
    .await;
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

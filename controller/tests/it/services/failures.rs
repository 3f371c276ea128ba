//! Answers other than yes, answers that are lost, and providers that are away (S-35, S-36, S-38, S-43, S-46, Q-28). The tests that wait
//! share one stage, and each has its own Service.

use std::time::Duration;

use futures::future::{join, join_all};
use http::Method;
use k8s_openapi::api::core::v1::Service;
use outrigger_provider_mock::{faults::Effect, load_balancers::LoadBalancer};
use outrigger_testbed::{
    faults::{Fault, Injected, Rule},
    nodes::Machine,
};
use serde_json::json;
use tokio::{join, time::Instant};
use tonic::Code;

use super::{DELETE, ENSURE, FINALIZER, MADE, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        services::{
            addresses_of, annotation_of, condition, condition_message, finalizers,
            foreign_condition,
        },
        uid,
    },
    mock::load_balancers::{about, error},
    stage::Stage,
    wait::{holds, stays, until},
};

const GONE: [&str; 2] = ["DeletingLoadBalancer", "DeletedLoadBalancer"];

/// S-36, S-38, S-43: an event, and tried again after five seconds; what is wrong in itself is not.
#[tokio::test]
async fn s36_s38_s43_failures_make_events_and_are_retried_with_back_off() {
    let stage = quick(&[]).start().await;
    join!(
        ensure_fails(&stage),
        write_fails(&stage),
        deletion_fails(&stage),
        service_is_wrong(&stage),
    );
}

/// S-36.
async fn ensure_fails(stage: &Stage) {
    let failure = error(
        Code::FailedPrecondition,
        "DEPENDENCY_NOT_READY",
        "no subnet",
    );
    let failure = about(ENSURE, "ensured", Effect::Error(failure));
    stage.mock.inject(failure.times(1)).await;
    let began = Instant::now();
    let service = stage.create_service(load_balancer("ensured")).await;
    let event = stage.event(&service, "SyncLoadBalancerFailed").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = event.message.unwrap();
    let start = "Error syncing load balancer: failed to ensure load balancer: no subnet";
    assert!(message.starts_with(start), "{message}");
    let failing = stage.service("ensured").await;
    let provisioned = condition(&failing, "Provisioned");
    assert_eq!(provisioned, ("False", "DependencyNotReady"));
    let message = condition_message(&failing, "Provisioned");
    assert!(message.starts_with("no subnet"), "{message}");
    stage.served("ensured").await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(5), "{took:?}");
    let expected = [
        &MADE[..],
        &["EnsuringLoadBalancer", "SyncLoadBalancerFailed"],
    ]
    .concat();
    stage.only_events(&service, &expected).await;
}

/// S-38: the API server refuses what the cloud has done.
async fn write_fails(stage: &Stage) {
    let refused = Fault::status(422, "Invalid", "Service is invalid: no luck today");
    let refused = Rule::new(refused)
        .method(Method::PATCH)
        .path_ends("/services/written/status");
    // The first one is the finalizer's.
    let refused = stage.proxy.inject(refused.skip(1).times(1));
    let service = stage.create_service(load_balancer("written")).await;
    let event = stage.event(&service, "SyncLoadBalancerFailed").await;
    assert_eq!(refused.hits(), 1);
    let message = event.message.unwrap();
    let start = "Error syncing load balancer: failed to update load balancer status: ";
    assert!(
        message.starts_with(start) && message.contains("no luck today"),
        "{message}"
    );
    stage.served("written").await;
    let expected = [
        &MADE[..],
        &["EnsuringLoadBalancer", "SyncLoadBalancerFailed"],
    ]
    .concat();
    stage.only_events(&service, &expected).await;
}

/// S-43: the Service stays, and is tried again.
async fn deletion_fails(stage: &Stage) {
    let service = stage.serve(load_balancer("deleted")).await;
    let failure = error(Code::FailedPrecondition, "DEPENDENCY_NOT_READY", "in use");
    let failure = about(DELETE, "deleted", Effect::Error(failure));
    stage.mock.inject(failure.times(1)).await;
    stage.delete_service("deleted").await;
    let event = stage.event(&service, "SyncLoadBalancerFailed").await;
    let message = event.message.unwrap();
    let start = "Error syncing load balancer: failed to delete load balancer: in use";
    assert!(message.starts_with(start), "{message}");
    let held = stage.service("deleted").await;
    assert!(held.metadata.deletion_timestamp.is_some());
    let message = condition_message(&held, "Provisioned");
    assert!(message.starts_with("in use"), "{message}");
    assert!(stage.mock.load_balancer(uid(&service)).await.is_some());
    stage.service_is_gone("deleted").await;
    stage.mock.has_none_of(uid(&service)).await;
    stage.event(&service, "DeletedLoadBalancer").await;
}

/// It waits for its owner alone.
async fn service_is_wrong(stage: &Stage) {
    let wrong = annotated("wrong", "mock.example/address-mode", "pigeon");
    let service = stage.create_service(wrong).await;
    let event = stage.event(&service, "SyncLoadBalancerFailed").await;
    let message = event.message.unwrap();
    assert!(
        message.starts_with("Error syncing load balancer: failed to ensure load balancer: ")
            && message.contains("pigeon"),
        "{message}"
    );
    let refused = stage
        .service_that("wrong", "is not accepted", |service| {
            condition(service, "Accepted").0 == "False"
        })
        .await;
    assert!(condition_message(&refused, "Accepted").contains("pigeon"));
    let once = ["EnsuringLoadBalancer", "SyncLoadBalancerFailed"];
    stays("it is asked for once", Duration::from_secs(6), async || {
        let reasons = stage.reasons_of(&service).await;
        holds(reasons == once, || format!("{reasons:?}"))
    })
    .await;
    let right = annotation("mock.example/address-mode", "vip");
    stage.change_service("wrong", right).await;
    let served = stage.served("wrong").await;
    assert_eq!(condition(&served, "Accepted"), ("True", "Accepted"));
}

/// S-35, Q-28: on every path. Upstream sends a warning each time; what is under way is no failure here.
#[tokio::test]
async fn s35_q28_what_is_under_way_is_asked_about_when_the_provider_says() {
    let stage = quick(&["--lb-deprovisioning=2s"]).start().await;
    join!(
        ensure_is_busy(&stage),
        ensure_is_slow(&stage),
        deletion_is_slow(&stage)
    );
}

/// S-35 as upstream knows it, by an error.
async fn ensure_is_busy(stage: &Stage) {
    let busy = error(Code::Aborted, "OPERATION_IN_PROGRESS", "busy");
    let busy = busy.retry_after(Duration::from_secs(2));
    let busy = about(ENSURE, "busy", Effect::Error(busy));
    stage.mock.inject(busy.times(1)).await;
    let began = Instant::now();
    let service = stage.serve(load_balancer("busy")).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2), "{took:?}");
    stage.event(&service, "EnsuredLoadBalancer").await;
    let reasons = stage.reasons_of(&service).await;
    let warned = reasons.contains(&"SyncLoadBalancerFailed".to_owned());
    assert!(!warned, "{reasons:?}");
}

/// S-35 by the contract's own word for it.
async fn ensure_is_slow(stage: &Stage) {
    let slow = annotated("slow", "mock.example/provisioning-time", "2s");
    let service = stage.create_service(slow).await;
    let waiting = stage
        .service_that("slow", "is being provisioned", |service| {
            condition(service, "Provisioned") == ("False", "Provisioning")
        })
        .await;
    assert_eq!(
        condition_message(&waiting, "Provisioned"),
        "The cloud is making the load balancer"
    );
    assert_eq!(condition(&waiting, "Accepted"), ("True", "Accepted"));
    assert_eq!(addresses_of(&waiting), [""; 0]);
    stage.served("slow").await;
    stage.only_events(&service, &MADE).await;
}

/// upstream does not honour it here.
async fn deletion_is_slow(stage: &Stage) {
    let service = stage.serve(load_balancer("deleted")).await;
    stage.delete_service("deleted").await;
    stage
        .service_that("deleted", "is being deleted", |service| {
            condition(service, "Provisioned") == ("False", "Deleting")
        })
        .await;
    stage.service_is_gone("deleted").await;
    assert_eq!(stage.mock.calls(DELETE).await, 2);
    stage
        .only_events(&service, &[&MADE[..], &GONE].concat())
        .await;
}

/// The fault of the patch of a Service after the first `skip`.
fn patch_of(stage: &Stage, name: &str, skip: usize, fault: Fault) -> Injected {
    let rule = Rule::new(fault)
        .method(Method::PATCH)
        .path_contains(format!("/services/{name}"));
    stage.proxy.inject(rule.skip(skip).times(1))
}

async fn met(fault: &Injected) {
    until("the fault meets its request", async || {
        holds(fault.hits() == 1, || "not yet".to_owned())
    })
    .await;
}

impl Stage {
    /// This Service has one load balancer, and knows its address.
    async fn agrees(&self, name: &str) {
        let service = self.settled_service(name).await;
        let made = self.mock.load_balancers().await;
        let tagged = |made: &&LoadBalancer| made.service.as_ref().unwrap().name == name;
        let made: Vec<_> = made.iter().filter(tagged).collect();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(made[0].service.as_ref().unwrap().uid, uid(&service));
        assert_eq!(
            addresses_of(&service),
            [format!("{} VIP", made[0].addresses[0])]
        );
    }

    async fn agrees_on_nothing(&self, service: &Service) {
        self.service_is_gone(service.metadata.name.as_deref().unwrap())
            .await;
        let made = self.mock.load_balancer(uid(service)).await;
        assert_eq!(made, None);
    }
}

/// A call to the provider, or to the API server, succeeded or failed, and its answer is lost.
#[tokio::test]
async fn answers_that_are_lost() {
    let stage = quick(&[]).start().await;
    let faults = [
        (Fault::LoseAnswer, 0),
        (Fault::LoseAnswer, 1),
        (Fault::Disconnect, 0),
        (Fault::Disconnect, 1),
        (Fault::conflict(), 0),
        (Fault::conflict(), 1),
    ];
    let of_api_server = faults.into_iter().enumerate();
    let of_api_server = of_api_server.map(async |(round, (fault, skip))| {
        let name = format!("web-{round}");
        let lost = patch_of(&stage, &name, skip, fault);
        let service = stage.create_service(load_balancer(&name)).await;
        stage.agrees(&name).await;
        assert_eq!(lost.hits(), 1, "{name}");
        let lost = patch_of(&stage, &name, 0, Fault::LoseAnswer);
        stage.delete_service(&name).await;
        stage.agrees_on_nothing(&service).await;
        assert_eq!(lost.hits(), 1, "{name}");
        stage.event(&service, "DeletedLoadBalancer").await;
    });
    let of_provider = async {
        let lost = |method| about(method, "web", Effect::LoseReply).times(1);
        stage.mock.inject(lost(ENSURE)).await;
        let service = stage.create_service(load_balancer("web")).await;
        stage.event(&service, "SyncLoadBalancerFailed").await;
        let change = annotation("mock.example/note", "a");
        stage.change_service("web", change).await;
        stage.agrees("web").await;
        stage.mock.inject(lost(DELETE)).await;
        stage.delete_service("web").await;
        stage.agrees_on_nothing(&service).await;
    };
    join(join_all(of_api_server), of_provider).await;
    assert_eq!(stage.mock.load_balancers().await, []);
}

/// Others write Services too (S-46): what they write while we do stays.
#[tokio::test]
async fn concurrent_writes_of_others_are_not_lost() {
    let stage = quick(&[]).start().await;
    let held = std::time::Duration::from_secs(1);
    let held = patch_of(&stage, "web", 1, Fault::Delay(held));
    stage.create_service(load_balancer("web")).await;
    met(&held).await;
    let change = json!({"metadata": {
        "finalizers": [FINALIZER, "example.com/keep"],
        "annotations": {"outrigger.dev/note": "theirs"},
        "labels": {"example.com/team": "a"},
    }});
    stage.change_service("web", change).await;
    let status = json!({"status": {"conditions": [{
        "type": "example.com/Ready", "status": "True", "reason": "Yes", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let patch = kube::api::Patch::Strategic(status);
    let (services, parameters) = (stage.services(), kube::api::PatchParams::default());
    services
        .patch_status("web", &parameters, &patch)
        .await
        .unwrap();
    let service = stage.served("web").await;
    assert_eq!(finalizers(&service), [FINALIZER, "example.com/keep"]);
    assert_eq!(
        annotation_of(&service, "outrigger.dev/note"),
        Some("theirs")
    );
    let condition = foreign_condition(&service, "example.com/Ready");
    assert_eq!(condition, ("True", "Yes"));
    stage.only_events(&service, &MADE).await;
}

/// An hour without it is as a second: what happened meanwhile is done afterwards, and no Service
/// gets an event about all of them.
#[tokio::test]
async fn a_provider_that_was_gone_finds_everything_that_happened_meanwhile() {
    let state = tempfile::tempdir().unwrap();
    let state = format!("--state={}", state.path().join("state.json").display());
    let mut stage = quick(&[&state, "--state-interval=10ms", "--state-sync"])
        .start()
        .await;
    let kept = stage.serve(load_balancer("kept")).await;
    let deleted = stage.serve(load_balancer("deleted")).await;
    let turned = stage.serve(load_balancer("turned")).await;
    stage.mock.kill().await;
    stage.controller.says(&["provider down"]).await;
    stage.delete_service("deleted").await;
    stage
        .change_service("turned", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let ports = json!([{"name": "http", "protocol": "TCP", "port": 81}]);
    stage
        .change_service("kept", json!({"spec": {"ports": ports}}))
        .await;
    let made = stage.create_service(load_balancer("made")).await;
    stage.register(&Machine::new("new").initialized()).await;
    stays("it waits", Duration::from_secs(1), async || {
        let there = stage.services().get_opt("deleted").await.unwrap();
        holds(there.is_some(), || "it is gone".to_owned())
    })
    .await;
    stage.restart_mock().await;
    stage.service_is_gone("deleted").await;
    stage.served("made").await;
    stage.sees_ports(uid(&kept), &[81]).await;
    stage.mock.has_none_of(uid(&turned)).await;
    for service in [&kept, &made] {
        stage
            .mock
            .sends_to(uid(service), &["n-00000", "n-00001", "new"])
            .await;
    }
    let mut left = [uid(&kept), uid(&made)];
    left.sort_unstable();
    assert_eq!(stage.mock.owners().await, left);
    for service in [&kept, &deleted, &turned, &made] {
        let reasons = stage.reasons_of(service).await;
        assert!(
            !reasons.contains(&"SyncLoadBalancerFailed".to_owned()),
            "{reasons:?}"
        );
    }
}

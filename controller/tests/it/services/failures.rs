//! Answers other than yes (S-35, S-36, S-38, S-43, Q-28). The tests that wait share one stage, and each
//! has its own Service.

use std::time::Duration;

use http::Method;
use outrigger_provider_mock::faults::Effect;
use outrigger_testbed::faults::{Fault, Rule};
use tokio::{join, time::Instant};
use tonic::Code;

use super::{DELETE, ENSURE, MADE, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        services::{addresses_of, condition, condition_message},
        uid,
    },
    mock::load_balancers::{about, error},
    stage::Stage,
    wait::{holds, stays},
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

//! Answers other than yes (S-35, S-36, S-38, S-43, Q-28).

use std::time::Duration;

use http::Method;
use outrigger_provider_mock::faults::Effect;
use outrigger_testbed::faults::{Fault, Rule};
use tokio::time::Instant;
use tonic::Code;

use super::{DELETE, ENSURE, MADE, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        services::{addresses_of, condition, condition_message},
        uid,
    },
    mock::load_balancers::{about, error},
};

/// S-36: told, and tried again after five seconds.
#[tokio::test]
async fn s36_what_fails_is_told_and_tried_again_with_back_off() {
    let stage = quick(&[]).start().await;
    let failure = error(
        Code::FailedPrecondition,
        "DEPENDENCY_NOT_READY",
        "no subnet yet",
    );
    let failure = about(ENSURE, "web", Effect::Error(failure));
    stage.mock.inject(failure.times(1)).await;
    let began = Instant::now();
    let service = stage.create_service(load_balancer("web")).await;
    let event = stage.told(&service, "SyncLoadBalancerFailed").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = event.message.unwrap();
    let start = "Error syncing load balancer: failed to ensure load balancer: no subnet yet";
    assert!(message.starts_with(start), "{message}");
    let failing = stage.service("web").await;
    let provisioned = condition(&failing, "Provisioned");
    assert_eq!(provisioned, ("False", "DependencyNotReady"));
    let message = condition_message(&failing, "Provisioned");
    assert!(message.starts_with("no subnet yet"), "{message}");
    stage.served("web").await;
    let took = began.elapsed();
    assert!((5..15).contains(&took.as_secs()), "{took:?}");
    let expected = [
        "EnsuringLoadBalancer",
        "SyncLoadBalancerFailed",
        "EnsuringLoadBalancer",
        "EnsuredLoadBalancer",
    ];
    stage.told_just(&service, &expected).await;
}

/// S-35. Upstream sends a warning each time; an operation that is under way is no failure here.
#[tokio::test]
async fn s35_who_says_when_to_come_back_is_asked_then_and_not_before() {
    let stage = quick(&[]).start().await;
    let busy =
        error(Code::Aborted, "OPERATION_IN_PROGRESS", "busy").retry_after(Duration::from_secs(2));
    let busy = about(ENSURE, "web", Effect::Error(busy));
    stage.mock.inject(busy.times(1)).await;
    let began = Instant::now();
    let service = stage.serve(load_balancer("web")).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2), "{took:?}");
    stage.told(&service, "EnsuredLoadBalancer").await;
    let reasons = stage.reasons_of(&service).await;
    assert!(
        !reasons.contains(&"SyncLoadBalancerFailed".to_owned()),
        "{reasons:?}"
    );
}

/// S-35 by way of the contract's own word for it.
#[tokio::test]
async fn s35_a_load_balancer_that_takes_its_time_is_waited_for() {
    let stage = quick(&[]).start().await;
    let slow = annotated("web", "mock.example/provisioning-time", "2s");
    let service = stage.create_service(slow).await;
    let waiting = stage
        .service_that("web", "is being provisioned", |service| {
            condition(service, "Provisioned") == ("False", "Provisioning")
        })
        .await;
    assert_eq!(
        condition_message(&waiting, "Provisioned"),
        "The cloud is making the load balancer"
    );
    assert_eq!(condition(&waiting, "Accepted"), ("True", "Accepted"));
    assert_eq!(addresses_of(&waiting), [""; 0]);
    stage.served("web").await;
    stage.told_just(&service, &MADE).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 2);
}

/// What is wrong in itself waits for its owner, and for nobody else.
#[tokio::test]
async fn a_service_that_is_wrong_is_told_so_once_and_asked_for_again_when_it_changes() {
    let stage = quick(&[]).start().await;
    let wrong = annotated("web", "mock.example/address-mode", "pigeon");
    let service = stage.create_service(wrong).await;
    let event = stage.told(&service, "SyncLoadBalancerFailed").await;
    let message = event.message.unwrap();
    assert!(
        message.starts_with("Error syncing load balancer: failed to ensure load balancer: ")
            && message.contains("pigeon"),
        "{message}"
    );
    let refused = stage
        .service_that("web", "is not accepted", |service| {
            condition(service, "Accepted").0 == "False"
        })
        .await;
    assert!(condition_message(&refused, "Accepted").contains("pigeon"));
    stage.silent(Duration::from_secs(6)).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 1);
    let right = annotation("mock.example/address-mode", "vip");
    stage.change_service("web", right).await;
    let served = stage.served("web").await;
    assert_eq!(condition(&served, "Accepted"), ("True", "Accepted"));
    assert_eq!(stage.mock.calls(ENSURE).await, 2);
}

/// S-38: the API server refuses what the cloud has done.
#[tokio::test]
async fn s38_an_address_that_cannot_be_written_is_told_and_written_later() {
    let stage = quick(&[]).start().await;
    let refused = Fault::status(422, "Invalid", "Service \"web\" is invalid: no luck today");
    let refused = Rule::new(refused)
        .method(Method::PATCH)
        .path_ends("/services/web/status");
    // The first one is the finalizer's.
    let refused = stage.proxy.inject(refused.skip(1).times(1));
    let service = stage.create_service(load_balancer("web")).await;
    let event = stage.told(&service, "SyncLoadBalancerFailed").await;
    assert_eq!(refused.hits(), 1);
    let message = event.message.unwrap();
    let start = "Error syncing load balancer: failed to update load balancer status: ";
    assert!(
        message.starts_with(start) && message.contains("no luck today"),
        "{message}"
    );
    stage.served("web").await;
    assert_eq!(stage.mock.calls(ENSURE).await, 2);
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
}

/// S-43, Q-28: told, tried again, and when the provider says.
#[tokio::test]
async fn s43_a_deletion_that_fails_keeps_the_service_until_it_does_not() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let failure = error(
        Code::FailedPrecondition,
        "DEPENDENCY_NOT_READY",
        "still in use",
    );
    stage
        .mock
        .inject(about(DELETE, "web", Effect::Error(failure)).times(1))
        .await;
    stage.delete_service("web").await;
    let event = stage.told(&service, "SyncLoadBalancerFailed").await;
    let message = event.message.unwrap();
    let start = "Error syncing load balancer: failed to delete load balancer: still in use";
    assert!(message.starts_with(start), "{message}");
    let held = stage.service("web").await;
    assert!(held.metadata.deletion_timestamp.is_some());
    let message = condition_message(&held, "Provisioned");
    assert!(message.starts_with("still in use"), "{message}");
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
    stage.service_is_gone("web").await;
    stage.mock.has_none_of(uid(&service)).await;
    stage.told(&service, "DeletedLoadBalancer").await;
}

/// upstream does not honour it here.
#[tokio::test]
async fn q28_a_deletion_that_is_under_way_is_asked_about_when_the_provider_says() {
    let stage = quick(&["--lb-deprovisioning=2s"]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.delete_service("web").await;
    stage
        .service_that("web", "is being deleted", |service| {
            condition(service, "Provisioned") == ("False", "Deleting")
        })
        .await;
    stage.service_is_gone("web").await;
    assert_eq!(stage.mock.calls(DELETE).await, 2);
    let events = [&MADE[..], &["DeletingLoadBalancer", "DeletedLoadBalancer"]].concat();
    stage.told_just(&service, &events).await;
}

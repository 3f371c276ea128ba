//! Conditions of a Service, as `kubectl wait` and people read them.

use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::Condition};
use outrigger_provider_mock::faults::Effect;
use outrigger_testbed::nodes::Machine;
use serde_json::json;
use tonic::Code;

use super::{ENSURE, MADE, UPDATE, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        services::{addresses_of, condition, condition_message, condition_types},
        uid,
    },
    mock::load_balancers::{about, error},
};

const OURS: [&str; 3] = [
    "outrigger.dev/Accepted",
    "outrigger.dev/Provisioned",
    "outrigger.dev/TargetsInSync",
];

fn conditions(service: &Service) -> Vec<Condition> {
    let status = service.status.clone().unwrap_or_default();
    status.conditions.unwrap_or_default()
}

/// `kubectl wait --for=condition=outrigger.dev/Provisioned service/web`: a status, a reason, a
/// message, and the time since when.
#[tokio::test]
async fn each_condition_is_whole_and_says_since_when() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    assert_eq!(condition_types(&service), OURS);
    for kind in ["Accepted", "Provisioned", "TargetsInSync"] {
        assert_eq!(condition(&service, kind).0, "True", "{kind}");
        assert_ne!(condition(&service, kind).1, "", "{kind}");
    }
    let before = conditions(&service);
    stage.only_events(&service, &MADE).await;
    // Ensured again, it is as it was, and has been so all the time.
    stage
        .change_service("web", annotation("outrigger.dev/resync", "1"))
        .await;
    stage.only_events(&service, &[MADE, MADE].concat()).await;
    assert_eq!(conditions(&stage.service("web").await), before);
}

/// From the first write to the last one.
#[tokio::test]
async fn conditions_always_say_what_is_awaited_and_why() {
    let stage = quick(&[]).start().await;
    let slow = Effect::Hang { duration: None };
    stage.mock.inject(about(ENSURE, "web", slow).times(1)).await;
    let slow = annotated("web", "mock.example/provisioning-time", "1s");
    stage.create_service(slow).await;
    let pending = stage
        .service_that("web", "is pending", |service| {
            condition(service, "Provisioned") == ("False", "Pending")
        })
        .await;
    assert_eq!(condition(&pending, "Accepted"), ("Unknown", "Pending"));
    assert_eq!(
        condition_message(&pending, "Provisioned"),
        "Waiting for the provider"
    );
    stage.mock.clear().await;
    let working = stage
        .service_that("web", "is being provisioned", |service| {
            condition(service, "Provisioned") == ("False", "Provisioning")
        })
        .await;
    assert_eq!(condition(&working, "Accepted"), ("True", "Accepted"));
    stage.served("web").await;
}

#[tokio::test]
async fn early_addresses_are_published_early() {
    let stage = quick(&["--lb-provisioning=2s", "--lb-early-addresses"])
        .start()
        .await;
    stage.create_service(load_balancer("web")).await;
    let early = stage
        .service_that("web", "has an address", |service| {
            !addresses_of(service).is_empty()
        })
        .await;
    assert_eq!(condition(&early, "Provisioned"), ("False", "Provisioning"));
    let served = stage.served("web").await;
    assert_eq!(addresses_of(&served), addresses_of(&early));
}

/// A reason that is the provider's own.
#[tokio::test]
async fn a_refusal_of_the_provider_is_shown_in_its_words() {
    let stage = quick(&["--lb-quota=1"]).start().await;
    stage.serve(load_balancer("first")).await;
    stage.create_service(load_balancer("second")).await;
    let refused = stage
        .service_that("second", "is refused", |service| {
            condition(service, "Provisioned").0 == "False"
                && condition(service, "Provisioned").1 != "Pending"
        })
        .await;
    assert_eq!(condition(&refused, "Provisioned").1, "QuotaExceeded");
    let message = condition_message(&refused, "Provisioned");
    let start = "there are 1 load balancers, as many as the quota allows";
    assert!(message.starts_with(start), "{message}");
    // A change of its own is not what it waits for, but is tried at once.
    stage.delete_service("first").await;
    stage.service_is_gone("first").await;
    stage
        .change_service("second", annotation("mock.example/note", "a"))
        .await;
    let served = stage.served("second").await;
    assert_eq!(condition_message(&served, "Provisioned"), "");
}

/// Targets have some time to recover before the condition says that they fail, and it says at once
/// that they are right again.
#[tokio::test]
async fn targets_that_fail_for_a_moment_do_not_make_the_service_look_broken() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let failure = error(Code::FailedPrecondition, "DEPENDENCY_NOT_READY", "no luck");
    stage
        .mock
        .inject(about(UPDATE, "web", Effect::Error(failure.clone())))
        .await;
    stage
        .mock
        .inject(about(ENSURE, "web", Effect::Error(failure)).times(1))
        .await;
    stage.register(&Machine::new("new").initialized()).await;
    stage.event(&service, "UpdateLoadBalancerFailed").await;
    stage.event(&service, "SyncLoadBalancerFailed").await;
    let now = stage.service("web").await;
    assert_eq!(condition(&now, "TargetsInSync"), ("True", "InSync"));
    stage.mock.clear().await;
    // Not to wait for the back-off.
    let change = annotation("mock.example/note", "a");
    stage.change_service("web", change).await;
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001", "new"])
        .await;
    stage.served("web").await;
}

/// Another controller's conditions are its own, and ours are not in its way.
#[tokio::test]
async fn conditions_of_others_survive_ours_and_our_end() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let mut all = serde_json::to_value(conditions(&service)).unwrap();
    all.as_array_mut().unwrap().push(json!({
        "type": "example.com/Ready", "status": "True", "reason": "Yes", "message": "it is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }));
    let status = json!({"status": {"conditions": all}});
    stage.change_service_status("web", status).await;
    stage
        .change_service("web", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let left = stage
        .service_that("web", "has no condition of ours", |service| {
            condition_types(service) == ["example.com/Ready"]
        })
        .await;
    assert_eq!(conditions(&left)[0].message, "it is");
}

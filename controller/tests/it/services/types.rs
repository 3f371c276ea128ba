//! Services that become one with a load balancer, and cease to be one (S-11, S-20, S-44).

use serde_json::{Value, json};

use super::{DELETE, ENSURE, FINALIZER, MADE, SETTLED, quick};
use crate::{
    cluster::services::{load_balancer, load_balancer_with},
    look::{
        services::{addresses_of, annotation_of, condition_types, finalizers},
        uid,
    },
};

fn becomes(kind: &str) -> Value {
    json!({"spec": {"type": kind}})
}

/// S-20, S-40, S-44, S-71.
#[tokio::test]
async fn s44_a_change_of_type_takes_the_load_balancer_away_and_brings_it_back() {
    let stage = quick(&[]).start().await;
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let service = stage.serve(load_balancer_with("web", keep)).await;
    assert_eq!(finalizers(&service), ["example.com/keep", FINALIZER]);
    for (round, kind) in (1..).zip(["ClusterIP", "NodePort"]) {
        stage.change_service("web", becomes(kind)).await;
        let cleaned = stage
            .service_that("web", "is cleaned up", |service| {
                !finalizers(service).contains(&FINALIZER)
            })
            .await;
        // S-46: the others' stay.
        assert_eq!(finalizers(&cleaned), ["example.com/keep"]);
        assert_eq!(addresses_of(&cleaned), [""; 0]);
        assert_eq!(condition_types(&cleaned), [""; 0]);
        assert_eq!(annotation_of(&cleaned, SETTLED), None);
        stage.mock.has_none_of(uid(&service)).await;
        assert_eq!(stage.mock.changes().await, [round, 0, round]);
        stage.change_service("web", becomes("LoadBalancer")).await;
        stage.served("web").await;
        assert_eq!(stage.mock.owners().await, [uid(&service)]);
    }
    let gone = ["DeletingLoadBalancer", "DeletedLoadBalancer"];
    stage
        .only_events(&service, &[&MADE[..], &gone, &MADE, &gone, &MADE].concat())
        .await;
    stage.strip_service("web").await;
}

/// S-44: it changed while no controller ran.
#[tokio::test]
async fn s44_a_type_changed_while_no_controller_ran_is_cleaned_up_at_the_start() {
    let mut stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.controller.terminate().await;
    stage.change_service("web", becomes("ClusterIP")).await;
    // Upstream's controller, when killed, leaves such a Service, without our record.
    let foreign = load_balancer_with(
        "theirs",
        json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"type": "ClusterIP"}}),
    );
    stage.create_service(foreign).await;
    stage.start_controller();
    for name in ["web", "theirs"] {
        stage
            .service_that(name, "is cleaned up", |service| {
                finalizers(service).is_empty()
            })
            .await;
    }
    stage.mock.has_none_of(uid(&service)).await;
    assert_eq!(stage.mock.calls(DELETE).await, 2);
}

/// It changes while the cloud is at work on what it was before.
#[tokio::test]
async fn a_type_that_changes_to_and_fro_ends_as_it_is() {
    let stage = quick(&["--latency=100ms"]).start().await;
    let service = stage.create_service(load_balancer("web")).await;
    for _ in 0..5 {
        stage.change_service("web", becomes("ClusterIP")).await;
        stage.change_service("web", becomes("LoadBalancer")).await;
    }
    stage.served("web").await;
    assert_eq!(stage.mock.owners().await, [uid(&service)]);
    let other = stage.create_service(load_balancer("other")).await;
    for _ in 0..5 {
        stage.change_service("other", becomes("ClusterIP")).await;
        stage.change_service("other", becomes("LoadBalancer")).await;
    }
    stage.change_service("other", becomes("ClusterIP")).await;
    stage
        .service_that("other", "has nothing of ours", |service| {
            finalizers(service).is_empty() && condition_types(service).is_empty()
        })
        .await;
    stage.mock.has_none_of(uid(&other)).await;
    let left = stage.service("other").await;
    assert_eq!(annotation_of(&left, SETTLED), None);
    assert_eq!(addresses_of(&left), [""; 0]);
    assert!(stage.mock.calls(ENSURE).await > 0);
}

//! Services whose load balancers send to some of the nodes, by label.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};

use super::{ENSURE, MADE, UPDATE, alone, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        services::{condition, condition_message},
        uid,
    },
};

const SELECTOR: &str = "outrigger.dev/node-selector";
const POOL: &str = "example.com/pool";

fn labelled(value: Option<&str>) -> Value {
    json!({"metadata": {"labels": {POOL: value}}})
}

fn pool(count: usize) -> impl Iterator<Item = Machine> {
    super::fleet(count).map(|machine| machine.label(POOL, "x"))
}

/// k/k#133165, hcloud#519.
#[tokio::test]
async fn a_label_of_a_node_reaches_the_load_balancers_that_select_by_it() {
    let stage = quick(&[]).start().await;
    stage.merge("n-00000", labelled(Some("x"))).await;
    let plain = stage.serve(load_balancer("plain")).await;
    let some = stage
        .serve(annotated("some", SELECTOR, "example.com/pool in (x, y)"))
        .await;
    stage.mock.sends_to(uid(&some), &["n-00000"]).await;
    stage.merge("n-00001", labelled(Some("y"))).await;
    stage
        .mock
        .sends_to(uid(&some), &["n-00000", "n-00001"])
        .await;
    stage.merge("n-00000", labelled(None)).await;
    stage.mock.sends_to(uid(&some), &["n-00001"]).await;
    assert_eq!(stage.mock.calls(UPDATE).await, 2);
    // The last of them: legal, and worth a warning.
    stage.merge("n-00001", labelled(None)).await;
    stage.mock.sends_to(uid(&some), &[]).await;
    stage.event(&some, "UnAvailableLoadBalancer").await;
    // The other Service had no part in that.
    stage
        .mock
        .sends_to(uid(&plain), &["n-00000", "n-00001"])
        .await;
    stage.only_events(&plain, &MADE).await;
    // Another selector, and none.
    stage
        .change_service("some", annotation(SELECTOR, "!example.com/pool"))
        .await;
    stage
        .mock
        .sends_to(uid(&some), &["n-00000", "n-00001"])
        .await;
    assert_eq!(stage.mock.calls(ENSURE).await, 3);
}

#[tokio::test]
async fn a_wrong_selector_is_reported_and_nothing_is_lost() {
    let stage = alone(&[]).machines(pool(2)).start().await;
    let service = stage
        .serve(annotated("web", SELECTOR, "example.com/pool=x"))
        .await;
    stage
        .change_service("web", annotation(SELECTOR, "example.com/pool in x"))
        .await;
    let held = stage
        .service_that("web", "says what is wrong", |service| {
            condition(service, "Waiting") == ("True", "InvalidAnnotation")
        })
        .await;
    let message = condition_message(&held, "Waiting");
    assert!(
        message.contains("outrigger.dev/node-selector has \"x\" at 21, where '(' should be"),
        "{message}"
    );
    stage.event(&service, "InvalidTargetAnnotation").await;
    // A second Service is refused before anything is made. Nodes that come reach the others.
    let other = stage
        .serve(annotated("other", SELECTOR, "example.com/pool"))
        .await;
    stage.create_service(annotated("new", SELECTOR, "=")).await;
    stage
        .service_that("new", "is refused", |service| {
            condition(service, "Waiting") == ("True", "InvalidAnnotation")
                && service.metadata.finalizers.is_none()
        })
        .await;
    let joins = Machine::new("joins").initialized().label(POOL, "x");
    stage.register(&joins).await;
    stage
        .mock
        .sends_to(uid(&other), &["joins", "n-00000", "n-00001"])
        .await;
    assert_eq!(
        stage.mock.targets(uid(&service)).await,
        ["n-00000", "n-00001"]
    );
    let live = stage.service("web").await;
    assert_eq!(condition(&live, "Provisioned").0, "True");
    // It is corrected, and gets what it missed.
    stage
        .change_service("web", annotation(SELECTOR, "example.com/pool=x"))
        .await;
    stage
        .mock
        .sends_to(uid(&service), &["joins", "n-00000", "n-00001"])
        .await;
    // The one that is wrong can be deleted.
    stage.delete_service("new").await;
    stage.service_is_gone("new").await;
    assert_eq!(stage.mock.load_balancers().await.len(), 2);
}

#[tokio::test]
async fn a_label_that_the_provider_declares_is_part_of_its_targets() {
    let stage = quick(&["--lb-target-label-key=example.com/pool"])
        .start()
        .await;
    let service = stage.serve(load_balancer("web")).await;
    stage.merge("n-00000", labelled(Some("x"))).await;
    stage.mock.was_called(UPDATE, 1).await;
    // Another label is no part of them, and one that is comes after it.
    stage
        .merge("n-00000", json!({"metadata": {"labels": {"other": "x"}}}))
        .await;
    stage.merge("n-00000", labelled(None)).await;
    stage.mock.was_called(UPDATE, 2).await;
    stage
        .only_events(&service, &[&MADE[..], &["UpdatedLoadBalancer"; 2]].concat())
        .await;
}

/// SECURITY.md: which labels a kubelet may give its own Node, and with them the traffic of a Service.
#[tokio::test]
async fn a_kubelet_labels_its_node_and_not_with_a_protected_label() {
    const PROTECTED: &str = "edge.node-restriction.kubernetes.io/web";
    let stage = quick(&[]).start().await;
    stage
        .merge(
            "n-00000",
            json!({"metadata": {"labels": {PROTECTED: "true", POOL: "x"}}}),
        )
        .await;
    let protected = stage
        .serve(annotated("protected", SELECTOR, PROTECTED))
        .await;
    let free = stage.serve(annotated("free", SELECTOR, POOL)).await;
    let user = "system:node:n-00001";
    let kubelet = stage.plane.client_of(user, Some("system:nodes")).unwrap();
    let nodes: Api<Node> = Api::all(kubelet);
    let label = async |key: &str| {
        let change = json!({"metadata": {"labels": {key: "x"}}});
        let parameters = PatchParams::default();
        nodes
            .patch("n-00001", &parameters, &Patch::Merge(&change))
            .await
    };
    let refused = label(PROTECTED).await.unwrap_err().to_string();
    assert!(
        refused.contains("is not allowed to modify labels"),
        "{refused}"
    );
    label(POOL).await.unwrap();
    stage
        .mock
        .sends_to(uid(&free), &["n-00000", "n-00001"])
        .await;
    assert_eq!(stage.mock.targets(uid(&protected)).await, ["n-00000"]);
}

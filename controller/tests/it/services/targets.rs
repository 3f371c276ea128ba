//! Which nodes load balancers send to, and how changes of nodes reach them (S-50 to S-57, M-3 to M-6).

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};

use super::{ENSURE, MADE, quick};
use crate::{
    cluster::services::{annotated, load_balancer},
    look::uid,
    stage::Stage,
};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

const AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

const SELECTOR: &str = "outrigger.dev/node-selector";

const POOL: &str = "example.com/pool";

fn labelled(value: Option<&str>) -> Value {
    json!({"metadata": {"labels": {POOL: value}}})
}

impl Stage {
    pub(super) async fn delete_node(&self, name: &str) {
        let deleted = self.nodes().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }
}

/// S-52, S-54.
#[tokio::test]
async fn s52_nodes_that_come_go_or_change_reach_all_load_balancers() {
    let stage = quick(&[]).start().await;
    let one = stage.serve(load_balancer("one")).await;
    let two = stage.serve(load_balancer("two")).await;
    let both = async |nodes: &[&str]| {
        stage.mock.sends_to(uid(&one), nodes).await;
        stage.mock.sends_to(uid(&two), nodes).await;
    };
    stage.register(&Machine::new("new").initialized()).await;
    both(&["n-00000", "n-00001", "new"]).await;
    stage
        .merge("new", json!({"metadata": {"labels": {EXCLUDE: "true"}}}))
        .await;
    both(&["n-00000", "n-00001"]).await;
    stage
        .merge("new", json!({"metadata": {"labels": {EXCLUDE: null}}}))
        .await;
    both(&["n-00000", "n-00001", "new"]).await;
    let tainted = json!({"spec": {"taints": [{"key": AUTOSCALER, "effect": "NoSchedule"}]}});
    stage.merge("n-00001", tainted).await;
    both(&["n-00000", "new"]).await;
    let updates = stage.mock.updates().await;
    assert_eq!(updates, 8);
    // S-56: it was none any more.
    stage.delete_node("n-00001").await;
    stage.delete_node("new").await;
    both(&["n-00000"]).await;
    stage
        .merge("n-00000", json!({"spec": {"providerID": "mock://i-1"}}))
        .await;
    stage.updated(12).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 2);

    let updated = stage.event(&one, "UpdatedLoadBalancer").await;
    assert_eq!(updated.type_.as_deref(), Some("Normal"));
    assert_eq!(
        updated.message.as_deref(),
        Some("Updated load balancer with new hosts")
    );
    let events = [&MADE[..], &["UpdatedLoadBalancer"; 6]].concat();
    stage.only_events(&one, &events).await;
}

/// k/k#133165, hcloud#519.
#[tokio::test]
async fn a_label_of_a_node_reaches_the_load_balancers_that_select_by_it() {
    let stage = quick(&[]).start().await;
    stage.merge("n-00000", labelled(Some("x"))).await;
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
    // The last of them: legal, and worth a warning.
    stage.merge("n-00001", labelled(None)).await;
    stage.mock.sends_to(uid(&some), &[]).await;
    stage.event(&some, "UnAvailableLoadBalancer").await;
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

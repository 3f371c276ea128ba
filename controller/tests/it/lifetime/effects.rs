//! Annotations, conditions and events of the provider on Nodes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use serde_json::json;

use super::fleet;
use crate::{
    look::reason,
    stage::Setup,
    wait::{holds, until},
};

const INSTANCE: &str = "status.mock.example/instance";
const NODE: &str = "n-00000";

fn condition(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "status.mock.example/Running")
}

fn instance(node: &Node) -> Option<&str> {
    let annotations = node.metadata.annotations.as_ref()?;
    annotations.get(INSTANCE).map(String::as_str)
}

#[tokio::test]
async fn effects_of_lookups_reach_the_node_and_are_written_once() {
    let mock = ["--synthesize-instances", "--instance-effects"];
    let setup = Setup::mock(&mock).flags(&[
        "--node-status-update-frequency=500ms",
        "--provider-effect-prefixes=status.mock.example/",
    ]);
    let stage = fleet(setup, 3).await;
    let running = async |status: &str| {
        until(&format!("{status} on the Node"), async || {
            let node = stage.node(NODE).await;
            let is_there = condition(&node).is_some_and(|condition| condition.status == status);
            holds(is_there && instance(&node).is_some(), || {
                format!("{:?} {:?}", condition(&node), instance(&node))
            })
        })
        .await;
    };
    running("True").await;
    let made = condition(&stage.node(NODE).await).unwrap().clone();
    assert!(made.last_transition_time.is_some() && made.last_heartbeat_time.is_some());
    stage.silent(Duration::from_secs(2)).await;

    // Heartbeats of the kubelet do not get in its way, nor does the write lose them.
    stage.is_ready(NODE, "True").await;
    stage.mock.stop(NODE).await;
    running("False").await;
    let node = stage.node(NODE).await;
    let kinds = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    let kinds: Vec<_> = kinds.map(|condition| &*condition.type_).collect();
    assert!(kinds.contains(&"Ready"), "{kinds:?}");
    until("the event", async || {
        let events = stage.events_of(&node).await;
        let is_there = events.iter().any(|e| reason(e) == "MockInstanceStopped");
        holds(is_there, || format!("{events:?}"))
    })
    .await;

    // Another client removes the annotation.
    let change = json!({"metadata": {"annotations": {INSTANCE: null}}});
    stage.merge(NODE, change).await;
    running("False").await;
}

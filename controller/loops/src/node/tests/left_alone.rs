//! Nodes that are not written to, or not yet.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{start, start_in, synthesizing};
use crate::fixture::Fixture;
use outrigger_kubernetes::fixture::{node, settled};

fn slow() -> Fixture {
    start_in(synthesizing(|config| {
        config.latency = Duration::from_secs(5);
    }))
}

fn edit(fixture: &Fixture, name: &str, change: impl FnOnce(&mut Value)) {
    fixture.cluster.change_node(name, change);
    fixture.refresh(name);
}

/// A lookup takes as long as the provider's calls pause.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_paused_during_its_lookup_is_not_written() {
    let fixture = slow();
    fixture.register(node("n1"));
    sleep(Duration::from_secs(3)).await;
    edit(&fixture, "n1", |node| {
        node["metadata"]["labels"] =
            json!({"outrigger.dev.node-restriction.kubernetes.io/paused": "true"});
    });
    fixture.asked(1).await;
    fixture.settle().await;
    let writes = fixture.api_writes();
    assert!(writes.is_empty(), "{writes:?}");
    edit(&fixture, "n1", |node| {
        node["metadata"]["labels"] = json!({"pool": "a"});
    });
    fixture.initialized("n1").await;
}

/// Its taint is gone, which is all that shows on it.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_paused_before_its_addresses_were_written_gets_them_when_it_is_released() {
    let fixture = start();
    fixture.cluster.refuse("/nodes/n1/status", 500, usize::MAX);
    fixture.register(node("n1"));
    sleep(Duration::from_secs(10)).await;
    edit(&fixture, "n1", |node| {
        node["metadata"]["labels"] =
            json!({"outrigger.dev.node-restriction.kubernetes.io/paused": "true"});
    });
    fixture.cluster.accept();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.events(), [""; 0]);
    edit(&fixture, "n1", |node| {
        node["metadata"]["labels"] = json!({"pool": "a"});
    });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.events(), ["Synced"]);
}

/// Paused between two tries of one write.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_paused_during_a_conflict_is_not_written() {
    let fixture = start();
    fixture.cluster.before_next_patch(|node| {
        node["metadata"]["labels"] =
            json!({"outrigger.dev.node-restriction.kubernetes.io/paused": "true"});
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.insert(0, json!({"key": "theirs", "effect": "NoSchedule"}));
    });
    fixture.register(node("n1"));
    fixture.settle().await;
    assert!(fixture.live("n1")["spec"]["providerID"].is_null());
    let events = fixture.events();
    assert!(events.is_empty(), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn n35_labels_of_another_providers_node_are_not_touched() {
    let fixture = start();
    let mut foreign = settled("n1", "other://42", "True");
    foreign["metadata"]["labels"] = json!({
        "topology.kubernetes.io/zone": "mine",
        "failure-domain.beta.kubernetes.io/zone": "legacy",
    });
    fixture.register(foreign);
    fixture.settle().await;
    let writes = fixture.api_writes();
    assert!(writes.is_empty(), "{writes:?}");
}

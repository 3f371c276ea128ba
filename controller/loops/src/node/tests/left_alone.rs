//! Nodes that are not written to, or not yet.

use std::time::Duration;

use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{PERIOD, start, start_in, synthesizing};
use crate::fixture::Fixture;
use outrigger_kube::fixture::{node, settled};
use outrigger_runtime::fixture::Warnings;

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
    assert_eq!(fixture.api_writes(), ["POST FailedToInitialize"]);
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
    let before = fixture.live("n1")["status"]["addresses"].clone();
    edit(&fixture, "n1", |node| {
        node["metadata"]["labels"] = json!({"pool": "a"});
    });
    sleep(Duration::from_secs(1)).await;
    assert_ne!(fixture.live("n1")["status"]["addresses"], before);
    assert_eq!(fixture.events(), ["Synced"]);
}

/// By a timer: the Nodes do not change, and nothing else is due.
#[tokio::test(start_paused = true)]
async fn a_node_with_the_taint_that_is_left_alone_says_why_after_30_seconds() {
    let fixture = start();
    let answer = Effect::BadAnswer(BadAnswer::NotManaged);
    let fault = Fault::on(Method::BatchGetInstances, answer);
    fixture
        .cloud
        .inject(fault.for_node("unmanaged".parse().unwrap()));
    let mut foreign = node("foreign");
    foreign["spec"]["providerID"] = json!("other://1");
    let mut paused = node("paused");
    paused["metadata"]["labels"] =
        json!({"outrigger.dev.node-restriction.kubernetes.io/paused": "true"});
    let mut invalid = node("invalid");
    invalid["metadata"]["annotations"] =
        json!({"alpha.kubernetes.io/provided-node-ip": "10.0.0.5,10.0.1.5"});
    for node in [foreign, paused, invalid, node("unmanaged")] {
        fixture.register(node);
    }
    sleep(Duration::from_secs(29)).await;
    assert_eq!(fixture.events(), [""; 0]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(fixture.events(), ["FailedToInitialize"; 4]);
    let said = fixture.cluster.event_messages().join("\n");
    for why in [
        "paused is true",
        "another provider's",
        "does not manage",
        "10.0.0.5,10.0.1.5",
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    assert_eq!(fixture.calls("BatchGetInstances"), 2);
}

/// Its failure comes later: a deadline, and a call of its own after that.
#[tokio::test(start_paused = true)]
async fn a_node_whose_lookup_hangs_says_so_after_30_seconds() {
    let fixture = start();
    let hang = Effect::Hang { duration: None };
    let fault = Fault::on(Method::BatchGetInstances, hang);
    fixture.cloud.inject(fault);
    fixture.register(node("n1"));
    sleep(Duration::from_secs(31)).await;
    assert_eq!(fixture.events(), ["FailedToInitialize"]);
}

/// A whole cluster that waits looks like a controller that is well.
#[tokio::test(start_paused = true)]
async fn where_no_node_is_the_providers_the_log_says_so() {
    let warnings = Warnings::listen();
    let fixture = start();
    fixture.register(settled("n1", "other://1", "True"));
    sleep(PERIOD * 2).await;
    let lines = warnings.with("no node is this provider's");
    assert!((1..=2).contains(&lines.len()), "{lines:?}");
    assert!(
        lines[0].contains("other://1") && lines[0].contains("mock://"),
        "{lines:?}"
    );
}

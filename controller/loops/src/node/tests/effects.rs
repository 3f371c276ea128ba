//! The provider's effects on Nodes.

use std::sync::Arc;

use outrigger_provider_mock::{Cloud, ProviderOptions};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{PERIOD, hosted_with, synthesizing};
use crate::fixture::{Fixture, cloud};
use outrigger_kube::fixture::node;

const INSTANCE: &str = "status.mock.example/instance";
const STATUS: &str = "PATCH /api/v1/nodes/n1/status";

/// The loop with a provider that has effects beside each lookup.
fn with_effects(cloud: Cloud) -> Fixture {
    let options = ProviderOptions {
        instance_effects: true,
        ..ProviderOptions::default()
    };
    hosted_with(cloud, options, |_| Arc::new(|_, _| {}))
}

/// The Node `n1`, initialised, with its effects.
async fn initialized() -> Fixture {
    let fixture = with_effects(synthesizing(|_| {}));
    fixture.register(node("n1"));
    let written = |requests: &[String]| requests.iter().filter(|r| *r == STATUS).count();
    fixture
        .cluster
        .until(|requests| written(requests) == 2)
        .await;
    fixture.until_events(1).await;
    fixture
}

fn annotation(fixture: &Fixture) -> Value {
    fixture.live("n1")["metadata"]["annotations"][INSTANCE].clone()
}

fn condition(fixture: &Fixture) -> Value {
    fixture.live("n1")["status"]["conditions"][0].clone()
}

/// Another client removes what the provider has written.
fn remove_annotation(fixture: &Fixture) {
    fixture
        .cluster
        .change_node("n1", |node| node["metadata"]["annotations"] = json!({}));
    fixture.refresh("n1");
}

#[tokio::test(start_paused = true)]
async fn effects_beside_an_absence_are_written_too() {
    let fixture = initialized().await;
    fixture.cloud.delete("n1").unwrap();
    sleep(PERIOD * 2).await;
    assert!(annotation(&fixture).is_null() && condition(&fixture).is_null());

    // A Node that waits for its machine.
    let fixture = with_effects(cloud(|_| {}));
    let mut waiting = node("n1");
    waiting["metadata"]["annotations"] = json!({INSTANCE: "i-old"});
    fixture.register(waiting);
    fixture.asked(3).await;
    fixture.settle().await;
    assert!(annotation(&fixture).is_null());
    let mut writes = fixture.api_writes();
    writes.retain(|write| write.starts_with("PATCH"));
    assert_eq!(writes, [STATUS]);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_effects_that_fails_is_tried_again() {
    let fixture = initialized().await;
    remove_annotation(&fixture);
    fixture.cluster.refuse("/status", 500, 3);
    let before = fixture.api_writes().len();
    sleep(PERIOD * 2).await;
    assert!(annotation(&fixture).is_string());
    assert_eq!(fixture.api_writes()[before..], [STATUS; 4]);
}

/// Such as annotations that are too large together. The next answer may have others.
#[tokio::test(start_paused = true)]
async fn effects_that_the_api_server_never_takes_are_tried_once_for_each_answer() {
    let fixture = initialized().await;
    remove_annotation(&fixture);
    fixture.cluster.refuse("/status", 422, usize::MAX);
    let (before, calls) = (
        fixture.api_writes().len(),
        fixture.calls("BatchGetInstances"),
    );
    sleep(PERIOD * 4).await;
    let calls = fixture.calls("BatchGetInstances") - calls;
    let mut writes = fixture.api_writes().split_off(before);
    let events = writes.extract_if(.., |write| write != STATUS);
    assert!(events.count() >= 1 && calls >= 3);
    assert_eq!(writes.len() as u64, calls);
    let said = fixture.cluster.event_messages().join("\n");
    assert!(said.contains("the API server does not take it"), "{said}");
    assert!(said.contains(INSTANCE), "{said}");
}

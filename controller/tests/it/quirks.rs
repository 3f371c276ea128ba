//! Upstream's quirks that touch initialisation, and that we lack.

use std::time::Duration;

use http::{Method, Request};
use outrigger_provider_mock::faults::BadAnswer;
use outrigger_testbed::nodes::{self, Machine, Readiness};
use serde_json::{Value, json};

use crate::{
    look::{addresses, is_tainted},
    mock::instance_at,
    stage::{Setup, Stage},
};

#[tokio::test]
async fn q1_a_node_with_two_addresses_of_one_type_is_not_written_again() {
    let mut stage = Setup::mock(&["--state-interval=0s"]).start().await;
    let both = ["InternalIP=10.0.0.7", "InternalIP=fd00::7", "Hostname=q1"];
    stage.mock.create(instance_at("q1", &both)).await;
    stage.register(&Machine::new("q1")).await;
    assert_eq!(addresses(&stage.synced("q1").await), both);
    let client = stage.plane.client().unwrap();
    for state in [Readiness::NotReady, Readiness::Ready] {
        let now = jiff::Timestamp::now();
        nodes::set_readiness(&client, "q1", state, now)
            .await
            .unwrap();
    }
    stage
        .merge("q1", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    stage.silent(Duration::from_millis(500)).await;
    stage.restart_controller().await;
    stage.mock.create(instance_at("marker", &both)).await;
    stage.register(&Machine::new("marker")).await;
    stage.synced("marker").await;
    assert_eq!(
        stage.writes_of("q1").len(),
        3,
        "{:?}",
        stage.writes_of("q1")
    );
    assert_eq!(addresses(&stage.node("q1").await), both);
}

#[tokio::test]
async fn q2_no_metadata_and_no_error_ends_nothing() {
    let mut stage = Setup::synthesizing().start().await;
    let pid = stage.controller.pid();
    stage.register(&Machine::new("q2-done")).await;
    stage.synced("q2-done").await;
    let answers = [BadAnswer::NotManaged, BadAnswer::Empty];
    stage.mock.spoil_node("q2-done", answers[0]).await;
    // The Nodes register one after the other, because one fault spoils one answer.
    for (answer, times) in answers.into_iter().zip([2, 4]) {
        let name = format!("q2-{answer}");
        stage.mock.spoil_node(&name, answer).await;
        stage.register(&Machine::new(&name)).await;
        stage.mock.was_asked(times).await;
    }
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    stage.merge("q2-done", label).await;
    stage.register(&Machine::new("q2-after")).await;
    stage.synced("q2-after").await;
    for answer in answers {
        let node = stage.node(&format!("q2-{answer}")).await;
        assert!(is_tainted(&node), "{answer}");
    }
    assert_eq!(stage.controller.pid(), pid);
    assert_eq!(stage.writes_of("q2-done").len(), 3);
}

async fn raw(stage: &Stage, name: &str) -> Value {
    let request = Request::get(format!("/api/v1/nodes/{name}"))
        .body(Vec::new())
        .unwrap();
    let client = stage.plane.client().unwrap();
    client.request(request).await.unwrap()
}

/// Takes what is at `path` out of `object`.
fn take(object: &mut Value, path: &[&str]) -> Value {
    let (last, parents) = path.split_last().unwrap();
    let parent = parents.iter().fold(object, |object, key| &mut object[*key]);
    parent
        .as_object_mut()
        .unwrap()
        .remove(*last)
        .unwrap_or_default()
}

#[tokio::test]
async fn q3_what_the_controller_does_not_know_of_a_node_stays_as_it_is() {
    let stage = Setup::synthesizing().start().await;
    // Held, so that there is a "before".
    let machine = Machine::new("q3")
        .label(
            "outrigger.dev.node-restriction.kubernetes.io/paused",
            "true",
        )
        .label("example.com/pool", "a")
        .taint("dedicated", Some("db"), "NoExecute");
    stage.register(&machine).await;
    let spec =
        json!({"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"], "unschedulable": true});
    let change = json!({
        "spec": spec,
        "metadata": {
            "finalizers": ["example.com/keep"],
            "labels": {"outrigger.dev.node-restriction.kubernetes.io/paused": null},
        },
    });
    stage.merge("q3", change).await;
    let mut before = raw(&stage, "q3").await;
    stage.synced("q3").await;
    let mut after = raw(&stage, "q3").await;

    for node in [&mut before, &mut after] {
        for path in [
            &["metadata", "managedFields"][..],
            &["metadata", "resourceVersion"],
            &["spec", "providerID"],
            &["status", "addresses"],
        ] {
            take(node, path);
        }
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.retain(|taint| taint["key"] != nodes::UNINITIALIZED_TAINT);
    }
    let old = take(&mut before, &["metadata", "labels"]);
    let new = take(&mut after, &["metadata", "labels"]);
    for (key, value) in old.as_object().unwrap() {
        assert_eq!(&new[key], value, "{key}");
    }
    assert_eq!(before, after);
    assert!(
        before["spec"]["podCIDR"].is_string(),
        "there was something to lose"
    );
    let requests = stage.proxy.requests();
    assert!(requests.iter().all(|request| request.method != Method::PUT));
    // The finalizer would keep the node for ever.
    stage
        .merge("q3", json!({"metadata": {"finalizers": null}}))
        .await;
}

#[tokio::test]
async fn q31_no_workers_at_all_is_refused_at_the_start() {
    let mut backstage = Setup::synthesizing().prepare().await;
    for (count, sentence) in [
        ("0", "concurrent-node-syncs must be at least 1, but got 0"),
        ("-1", "concurrent-node-syncs must be at least 1, but got -1"),
    ] {
        let flag = format!("--concurrent-node-syncs={count}");
        let (mut controller, log) = backstage.run(&[&flag]);
        assert_eq!(controller.ended().await.code(), Some(1));
        assert_eq!(
            log().lines().filter(|line| line.contains(sentence)).count(),
            1
        );
    }
    backstage.mock.kill().await;
}

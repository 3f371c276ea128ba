//! Writes that initialise a node: one patch of the node, one of its status, one event.

use std::time::Duration;

use http::Method;
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::Machine,
};
use serde_json::json;

use crate::{
    look::{addresses, answered, is_tainted, label, reason, uid},
    mock::instance_at,
    stage::Setup,
};

#[tokio::test]
async fn n20_a_node_costs_three_writes_and_then_none() {
    let mut stage = Setup::synthesizing()
        .machines(Machine::numbered("n20-early-", 8))
        .start()
        .await;
    stage.all_synced("n20-early-", 8).await;
    stage.register_all(Machine::numbered("n20-late-", 8)).await;
    stage.all_synced("n20-late-", 8).await;
    for node in stage.named("n20-").await {
        let name = node.metadata.name.unwrap();
        let writes = [
            format!("PATCH /api/v1/nodes/{name}"),
            format!("PATCH /api/v1/nodes/{name}/status"),
            format!("POST Synced {name}"),
        ];
        assert_eq!(stage.writes_of(&name), writes);
    }
    assert_eq!(stage.writes().len(), 3 * 16);

    // Neither a change by another client nor a new start is a reason to write.
    stage
        .merge(
            "n20-late-00000",
            json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await;
    stage.silent(Duration::from_millis(500)).await;
    stage.restart_controller().await;
    stage.register(&Machine::new("marker")).await;
    stage.synced("marker").await;
    assert_eq!(stage.writes().len(), 3 * 17);
}

#[tokio::test]
async fn n20_and_n21_provider_id_labels_and_taint_are_one_patch_and_addresses_the_next() {
    let stage = Setup::mock(&[]).start().await;
    stage.mock.create(instance_at("n20", &["10.0.0.5"])).await;
    let registered = stage.register(&Machine::new("n20")).await;
    stage.synced("n20").await;
    let requests = stage.proxy.requests();
    let patches: Vec<_> = requests
        .iter()
        .filter(|r| r.method == Method::PATCH)
        .collect();
    let [node, status] = patches[..] else {
        panic!("{} patches", patches.len());
    };
    for patch in [node, status] {
        assert_eq!(
            patch.headers["content-type"],
            "application/strategic-merge-patch+json"
        );
        // A node of the same name that registered again would be another node.
        assert_eq!(patch.json()["metadata"]["uid"], json!(uid(&registered)));
        // N-5, E-7
        assert!(
            patch.user_agent().ends_with(" node-controller"),
            "{}",
            patch.user_agent()
        );
        assert!(
            patch.user_agent().starts_with("outrigger/"),
            "{}",
            patch.user_agent()
        );
    }
    let (node, status) = (node.json(), status.json());
    let version = registered.metadata.resource_version.as_deref();
    assert_eq!(node["metadata"]["resourceVersion"].as_str(), version);
    assert_eq!(node["metadata"]["labels"].as_object().unwrap().len(), 6);
    let id = stage.mock.provider_id("n20").await;
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    assert_eq!(
        node["spec"],
        json!({"providerID": id, "taints": [not_ready]})
    );
    assert_ne!(status["metadata"]["resourceVersion"].as_str(), version);
    let addresses = status["status"]["addresses"].as_array().unwrap();
    assert_eq!(addresses.last(), Some(&json!({"$patch": "replace"})));
}

/// `timeAdded` says when a `NoExecute` taint evicts, and two addresses of one type are merged by nothing.
#[tokio::test]
async fn n20_the_rest_of_a_node_stays_as_it_was() {
    let stage = Setup::mock(&[]).start().await;
    let machine = Machine::new("n20")
        .label("theirs", "x")
        .annotation("big", "\"\u{1}<&".repeat(40_000))
        .annotation("number", "9007199254740993");
    let registered = stage.register(&machine).await;
    let mut all = json!(registered.spec.unwrap().taints);
    let evicts = json!({
        "key": "theirs", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z",
    });
    all.as_array_mut().unwrap().insert(0, evicts);
    stage.merge("n20", json!({"spec": {"taints": all}})).await;
    let before = stage.node("n20").await;
    // Nothing is known of its machine until now.
    stage
        .mock
        .create(instance_at("n20", &["10.0.0.5", "fd00::5"]))
        .await;
    let node = stage.synced("n20").await;
    assert_eq!(
        stage.writes_of("n20").len(),
        3,
        "{:?}",
        stage.writes_of("n20")
    );
    let taints = |node: &k8s_openapi::api::core::v1::Node| {
        let taints = node.spec.as_ref().unwrap().taints.clone().unwrap();
        let others = taints
            .into_iter()
            .filter(|taint| taint.key != outrigger_testbed::nodes::UNINITIALIZED_TAINT);
        others.collect::<Vec<_>>()
    };
    assert!(taints(&before)[0].time_added.is_some(), "{before:?}");
    assert_eq!(taints(&node), taints(&before));
    assert_eq!(node.metadata.annotations, before.metadata.annotations);
    assert_eq!(label(&node, "theirs"), Some("x"));
    let all = addresses(&node);
    assert!(
        all.iter().any(|a| a.contains("10.0.0.5")) && all.iter().any(|a| a.contains("fd00::5")),
        "{all:?}"
    );
    let (status, was) = (node.status.unwrap(), before.status.unwrap());
    assert_eq!(status.images, was.images);
    assert_eq!(status.conditions, was.conditions);
    assert_eq!(status.capacity, was.capacity);
}

#[tokio::test]
async fn n22_the_event_says_that_the_node_is_synced() {
    let stage = Setup::synthesizing().start().await;
    stage.register(&Machine::new("n22")).await;
    let node = stage.synced("n22").await;
    let events = stage.events_of(&node).await;
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(reason(event), "Synced");
    assert_eq!(event.message.as_deref(), Some("Node synced successfully"));
    assert_eq!(event.count, Some(1));
    // N-5
    let component = "cloud-node-controller";
    assert_eq!(
        event.source.as_ref().unwrap().component.as_deref(),
        Some(component)
    );
    assert_eq!(event.reporting_component.as_deref(), Some(component));
    let object = &event.involved_object;
    assert_eq!(object.kind.as_deref(), Some("Node"));
    assert_eq!(object.api_version.as_deref(), Some("v1"));
    assert_eq!(object.name.as_deref(), Some("n22"));
    assert_eq!(object.uid.as_deref(), Some(uid(&node)));
    assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    let name = event.metadata.name.as_deref().unwrap();
    let nanoseconds = name.strip_prefix("n22.").unwrap();
    assert!(u64::from_str_radix(nanoseconds, 16).is_ok(), "{name}");
}

#[tokio::test]
async fn an_event_that_cannot_be_written_delays_no_node() {
    let stage = Setup::synthesizing().start().await;
    let refused = Rule::new(Fault::invalid());
    let refused = stage
        .proxy
        .inject(refused.writes().path_contains("/events"));
    stage.register_all(Machine::numbered("quiet-", 5)).await;
    for number in 0..5 {
        stage.initialized(&format!("quiet-{number:05}")).await;
    }
    let posted = stage.proxy.wait_for(crate::wait::DEADLINE, |requests| {
        let events = requests.iter().filter(|r| r.path.ends_with("/events"));
        events.filter(|r| answered(r, 422)).count() == 5
    });
    posted.await.expect("each event is tried");
    refused.remove();
    stage.register(&Machine::new("loud")).await;
    assert!(!is_tainted(&stage.synced("loud").await));
    // A refusal is final: it was not tried again.
    assert_eq!(refused.hits(), 5);
}

//! Writes that initialise a node: one patch of the node, one of its status, one event.

use std::time::Duration;

use http::{Method, Request};
use outrigger_testbed::nodes::{self, Machine};
use serde_json::{Value, json};

use crate::{
    caller::{Port, value},
    look::uid,
    mock::{instance, instance_at},
    stage::{Setup, Stage},
    wait::holds,
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
        .annotation("big", "\"\u{1}<&".repeat(40_000))
        .annotation("number", "9007199254740993")
        .taint("dedicated", Some("db"), "NoExecute");
    let registered = stage.register(&machine).await;
    // Says when a `NoExecute` taint evicts.
    let mut taints = json!(registered.spec.unwrap().taints);
    taints.as_array_mut().unwrap().insert(0, json!({
        "key": "theirs", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z",
    }));
    let spec = json!({
        "podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"], "unschedulable": true, "taints": taints,
    });
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
async fn n23_delays_are_counted_from_the_creation_of_the_node() {
    let port = Port::reserve();
    let stage = Setup::mock(&[]).scraped_at(&port).start().await;
    // Its instance is late: more than two seconds of back-off.
    stage.register(&Machine::new("n23")).await;
    stage.mock.was_asked(10).await;
    stage.mock.create(instance("n23")).await;
    stage.synced("n23").await;

    let scrape = port.scrape().await;
    for name in [
        "node_controller_cloud_provider_taint_removal_delay_seconds",
        "node_controller_initial_node_sync_delay_seconds",
    ] {
        assert_eq!(
            value(&scrape, &format!("{name}_count ")),
            Some(1.0),
            "{name}"
        );
        let sum = value(&scrape, &format!("{name}_sum ")).unwrap();
        holds((2.0..90.0).contains(&sum), || format!("{name}: {sum}")).unwrap();
        assert!(
            scrape.contains(&format!("# TYPE {name} histogram")),
            "{name}"
        );
    }
}

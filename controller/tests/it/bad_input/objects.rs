//! Objects that Go accepts and that are odd: they stop nothing.

use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};

use crate::{
    cluster::services::load_balancer,
    stage::{Setup, Stage},
    wait::{holds, until},
};

/// Nodes as JSON: the types of these tests do not hold such times either.
fn nodes(stage: &Stage) -> Api<DynamicObject> {
    Api::all_with(stage.admin(), &ApiResource::erase::<Node>(&()))
}

fn services(stage: &Stage) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Service>(&());
    Api::namespaced_with(stage.admin(), "default", &resource)
}

fn odd(kind: &str, time: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": "Odd", "message": "odd",
        "lastTransitionTime": time,
    })
}

/// Writes a condition as a kubelet does about its own node.
async fn report(stage: &Stage, name: &str, condition: Value) {
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let parameters = PatchParams::default();
    let written = nodes(stage).patch_status(name, &parameters, &patch).await;
    written.unwrap();
}

async fn untainted(stage: &Stage, name: &str) {
    until(&format!("{name} is initialised"), async || {
        let node = nodes(stage).get(name).await.unwrap();
        let taints = node.data["spec"]["taints"].to_string();
        holds(!taints.contains("uninitialized"), || taints)
    })
    .await;
}

#[tokio::test]
async fn a_time_of_the_year_9999_stops_no_node() {
    let mut stage = Setup::synthesizing().start().await;
    stage.register(&Machine::new("before")).await;
    stage.synced("before").await;
    for (name, kind, time) in [
        ("odd-a", "Clock", "9999-12-31T23:59:59Z"),
        ("odd-b", "Ready", "9999-12-31T23:59:59Z"),
        // The year 10000 in UTC.
        ("odd-c", "Clock", "9999-12-31T23:59:59-10:00"),
        // The year before 0.
        ("odd-d", "Clock", "0000-01-01T00:00:00+10:00"),
    ] {
        stage.register(&Machine::new(name)).await;
        report(&stage, name, odd(kind, time)).await;
        // A time whose year has not four digits in UTC keeps the API server itself from patching.
        if time.ends_with('Z') {
            untainted(&stage, name).await;
        }
    }
    stage.register(&Machine::new("after")).await;
    stage.synced("after").await;

    // A start begins with a list of all of them.
    stage.restart_controller().await;
    stage.register(&Machine::new("again")).await;
    stage.synced("again").await;
    assert_eq!(stage.controller.lines("cannot be decoded"), 0);
}

#[tokio::test]
async fn a_condition_of_others_of_the_year_9999_stops_no_service() {
    let stage = Setup::mock(&[]).start().await;
    let write = async |conditions: Value| {
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        let (services, parameters) = (services(&stage), PatchParams::default());
        let written = services.patch_status("odd", &parameters, &patch).await;
        written.unwrap();
    };
    let mut service = load_balancer("odd");
    service["spec"]["loadBalancerClass"] = "example.com/of-others".into();
    stage.create_service(service).await;
    write(json!([odd("example.com/Odd", "9999-12-31T23:59:59Z")])).await;
    stage.serve(load_balancer("after")).await;
    // The next test could not read an odd object.
    write(json!([])).await;
}

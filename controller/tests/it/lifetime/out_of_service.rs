//! Stopped machines fail over.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{fleet, quick};
use crate::{
    look::{reason, taints},
    stage::Stage,
    wait::{holds, stays, until},
};

const OURS: &str = "node.kubernetes.io/out-of-service=nodeshutdown.outrigger.dev:NoExecute";
const THEIRS: &str = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown=:NoSchedule";

async fn has(stage: &Stage, name: &str, taint: &str, expected: bool) {
    until(&format!("{name} has {taint}: {expected}"), async || {
        let taints = taints(&stage.node(name).await);
        holds(taints.contains(&taint.to_owned()) == expected, || {
            format!("{taints:?}")
        })
    })
    .await;
}

async fn none_is_out_of_service(stage: &Stage, seconds: u64) {
    stays(
        "no Node is out of service",
        Duration::from_secs(seconds),
        async || {
            let nodes = stage.named("n-").await;
            let out = nodes
                .iter()
                .filter(|node| taints(node).contains(&OURS.to_owned()));
            let out = out.count();
            holds(out == 0, || format!("{out} are"))
        },
    )
    .await;
}

async fn has_event(stage: &Stage, name: &str, expected: &str) {
    let node = stage.node(name).await;
    until(&format!("event {expected}"), async || {
        let events = stage.events_of(&node).await;
        let is_there = events.iter().any(|event| reason(event) == expected);
        holds(is_there, || format!("{events:?}"))
    })
    .await;
}

#[tokio::test]
async fn a_stopped_machine_is_out_of_service_until_its_kubelet_is_back() {
    let stage = fleet(quick().flag("--out-of-service-after=3s"), 4).await;
    let began = Instant::now();
    stage.mock.stop("n-00000").await;
    stage.is_ready("n-00000", "Unknown").await;
    has(&stage, "n-00000", SHUTDOWN, true).await;
    has(&stage, "n-00000", OURS, true).await;
    let took = began.elapsed();
    assert!(took > Duration::from_secs(3), "{took:?}");
    has_event(&stage, "n-00000", "NodeOutOfService").await;

    stage.mock.start_instance("n-00000").await;
    stage.is_ready("n-00000", "True").await;
    has(&stage, "n-00000", OURS, false).await;
    let left = taints(&stage.node("n-00000").await).join(" ");
    assert!(!left.contains("shutdown"), "one write removes both: {left}");
    has_event(&stage, "n-00000", "NodeInService").await;

    // A kubelet that reports runs, and what an operator has added is the operator's.
    let own = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"},
    ]}});
    stage.merge("n-00001", own).await;
    stage.mock.stop("n-00001").await;
    stage.mock.stop("n-00002").await;
    stage.is_ready("n-00001", "Unknown").await;
    stage.is_ready("n-00002", "False").await;
    none_is_out_of_service(&stage, 5).await;
    stage.is_ready("n-00001", "True").await;
    has(&stage, "n-00001", SHUTDOWN, false).await;
    has(&stage, "n-00001", THEIRS, true).await;
}

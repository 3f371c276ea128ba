//! Nodes after their initialisation: kept in sync, tainted when their machine is stopped, deleted
//! when it is gone for certain, and not otherwise (L-1 to L-15).

mod deletion;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use outrigger_provider_mock::{control::AnnounceMaintenance, instances::Maintenance};
use outrigger_testbed::nodes::Machine;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    cluster::Cluster,
    look::taints,
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

const NODE: &str = "n-00000";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown=:NoSchedule";
const OURS: &str = "node.kubernetes.io/out-of-service=nodeshutdown.outrigger.dev:NoExecute";
const THEIRS: &str = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
const MAINTENANCE: &str = "outrigger.dev/maintenance-planned=AnnouncedByCloud:PreferNoSchedule";
const INSTANCE: &str = "status.mock.example/instance";

/// A cloud whose instances are visible at once, and a controller that looks often.
fn quick() -> Setup {
    Setup::mock(&["--synthesize-instances", "--visibility-delay=0s"])
        .flag("--node-monitor-period=200ms")
}

/// `count` nodes that are initialised and ready.
async fn fleet(setup: Setup, count: usize) -> Stage {
    let stage = setup.machines(Machine::numbered("n-", count)).start().await;
    stage.all_synced("n-", count).await;
    stage
}

impl Cluster {
    /// Writes the condition that the kubelet reports, or the node lifecycle controller for a silent kubelet.
    pub(crate) async fn is_ready(&self, name: &str, status: &str) {
        let now = jiff::Timestamp::now().to_string();
        let conditions = json!([{
            "type": "Ready", "status": status, "reason": "Test",
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        }]);
        let change = json!({"status": {"conditions": conditions}});
        let parameters = kube::api::PatchParams::default();
        let patch = kube::api::Patch::Strategic(change);
        let nodes = self.nodes();
        nodes.patch_status(name, &parameters, &patch).await.unwrap();
    }

    /// Waits until so many nodes are left.
    async fn has_left(&self, count: usize) {
        until(&format!("{count} nodes are left"), async || {
            let left = self.named("n-").await.len();
            holds(left == count, || format!("{left}"))
        })
        .await;
    }
}

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
    stage.silent(Duration::from_secs(1)).await;

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
    stage.event(&node, "MockInstanceStopped").await;

    // Another client removes the annotation.
    let change = json!({"metadata": {"annotations": {INSTANCE: null}}});
    stage.merge(NODE, change).await;
    running("False").await;
}

async fn shows(stage: &Stage, expected: Option<&str>, is_tainted: bool) {
    until(
        &format!("{expected:?}, tainted: {is_tainted}"),
        async || {
            let node = stage.node(NODE).await;
            let conditions = node
                .status
                .iter()
                .flat_map(|status| &status.conditions)
                .flatten();
            let mut planned =
                conditions.filter(|condition| condition.type_ == "MaintenancePlanned");
            let condition = planned.next();
            let message = condition.and_then(|condition| condition.message.as_deref());
            let tainted = taints(&node).contains(&MAINTENANCE.to_owned());
            holds(message == expected && tainted == is_tainted, || {
                format!("{condition:?} {tainted}")
            })
        },
    )
    .await;
}

#[tokio::test]
async fn maintenance_becomes_a_condition_an_event_and_a_taint_until_it_is_over() {
    let setup = quick()
        .flag("--node-status-update-frequency=1s")
        .flag("--maintenance-condition")
        .flag("--maintenance-taint-before=1h");
    let stage = fleet(setup, 3).await;
    let mut announced = AnnounceMaintenance {
        targets: vec![NODE.to_owned()],
        maintenance: Maintenance {
            starts_at: Some("2126-12-01T02:00:00Z".parse().unwrap()),
            reason: "new host".to_owned(),
            ..Maintenance::default()
        },
        over: false,
    };
    stage.mock.announce(announced.clone()).await;
    let words =
        "the cloud has announced maintenance of the machine from 2126-12-01T02:00:00Z on: new host";
    shows(&stage, Some(words), false).await;
    announced.maintenance = Maintenance {
        starts_at: Some("2026-01-01T02:00:00Z".parse().unwrap()),
        ends_at: Some("2026-01-01T04:00:00Z".parse().unwrap()),
        kind: Some("reboot".to_owned()),
        id: "event-1".to_owned(),
        in_progress: true,
        ..announced.maintenance
    };
    stage.mock.announce(announced.clone()).await;
    let words = "the cloud has announced a reboot of the machine from 2026-01-01T02:00:00Z to 2026-01-01T04:00:00Z (event-1): new host";
    shows(&stage, Some(words), true).await;
    announced.over = true;
    stage.mock.announce(announced).await;
    shows(&stage, None, false).await;
    let node = stage.node(NODE).await;
    for expected in [
        "MaintenancePlanned",
        "MaintenanceInProgress",
        "MaintenanceOver",
    ] {
        stage.event(&node, expected).await;
    }
}

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

#[tokio::test]
async fn a_stopped_machine_is_out_of_service_until_its_kubelet_is_back() {
    let stage = fleet(quick().flag("--out-of-service-after=2s"), 4).await;
    let began = Instant::now();
    stage.mock.stop("n-00000").await;
    stage.is_ready("n-00000", "Unknown").await;
    has(&stage, "n-00000", SHUTDOWN, true).await;
    has(&stage, "n-00000", OURS, true).await;
    let took = began.elapsed();
    assert!(took > Duration::from_secs(2), "{took:?}");
    stage
        .event(&stage.node("n-00000").await, "NodeOutOfService")
        .await;

    stage.mock.start_instance("n-00000").await;
    stage.is_ready("n-00000", "True").await;
    has(&stage, "n-00000", OURS, false).await;
    let left = taints(&stage.node("n-00000").await).join(" ");
    assert!(!left.contains("shutdown"), "one write removes both: {left}");
    stage
        .event(&stage.node("n-00000").await, "NodeInService")
        .await;

    // A kubelet that reports runs, and what an operator has added is the operator's.
    let own = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"},
    ]}});
    stage.merge("n-00001", own).await;
    stage.mock.stop("n-00001").await;
    stage.mock.stop("n-00002").await;
    stage.is_ready("n-00001", "Unknown").await;
    stage.is_ready("n-00002", "False").await;
    none_is_out_of_service(&stage, 3).await;
    stage.is_ready("n-00001", "True").await;
    has(&stage, "n-00001", SHUTDOWN, false).await;
    has(&stage, "n-00001", THEIRS, true).await;
}

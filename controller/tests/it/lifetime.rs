//! Nodes after their initialisation: kept in sync, tainted when their machine is stopped, deleted
//! when it is gone for certain, and not otherwise (L-1 to L-15).

mod deletion;
mod effects;
mod maintenance;
mod out_of_service;
mod providers;

use std::time::Duration;

use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    cluster::Cluster,
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

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

#[tokio::test]
async fn a_node_that_is_not_managed_is_asked_about_again_when_the_provider_is_another_process() {
    let mut stage = fleet(quick(), 1).await;
    let not_managed = Effect::BadAnswer(BadAnswer::NotManaged);
    let not_managed = Fault::on(Method::BatchGetInstances, not_managed);
    stage.mock.inject(not_managed).await;
    stage.is_ready("n-00000", "Unknown").await;
    stage
        .controller
        .says(&["node not managed by the provider", "n-00000"])
        .await;
    let before = stage.mock.asked().await;
    stays("no lookup follows", Duration::from_secs(1), async || {
        let now = stage.mock.asked().await;
        holds(now == before, || format!("{now} instead of {before}"))
    })
    .await;
    stage.mock.kill().await;
    stage.restart_mock().await;
    stage.mock.was_asked(1).await;
}

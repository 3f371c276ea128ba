//! Nodes that come and go and change.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use outrigger_core::targets::{LABEL_EXCLUDE, TAINT_AUTOSCALER};
use outrigger_testbed::nodes::{self, Machine, Readiness};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    LAST_TIME,
    journal::Journal,
    ledger::Ledger,
    plan::{Move, NodeChange},
};

/// Registers Nodes, changes them and deletes them. Their machines run all the time.
pub(super) struct NodeChurn {
    client: Client,
    /// Without types, which may not have what others write.
    nodes: Api<DynamicObject>,
    journal: Arc<Journal>,
    ledger: Ledger,
    /// How many changes were made.
    count: u32,
}

impl NodeChurn {
    pub(super) fn new(client: &Client, journal: &Arc<Journal>, ledger: &Ledger) -> Self {
        let kind = ApiResource::erase::<Node>(&());
        Self {
            client: client.clone(),
            nodes: Api::all_with(client.clone(), &kind),
            journal: Arc::clone(journal),
            ledger: ledger.clone(),
            count: 0,
        }
    }

    /// Makes one change after the other until it is `over`. A change that the API server refuses is
    /// left out.
    pub(super) async fn live(mut self, moves: impl Iterator<Item = Move>, over: CancellationToken) {
        const ANSWER: Duration = Duration::from_secs(10);
        for next in moves {
            if over.run_until_cancelled(sleep(next.pause)).await.is_none() {
                return;
            }
            let result = match timeout(ANSWER, self.change(&next)).await {
                Ok(Ok(())) => "done".to_owned(),
                Ok(Err(error)) => error,
                Err(_) => "no answer".to_owned(),
            };
            let Move { node, what, .. } = next;
            self.journal.note(&format!("{node}: {what:?}: {result}"));
        }
    }

    async fn change(&mut self, Move { node, what, .. }: &Move) -> Result<(), String> {
        self.count += 1;
        let exclude = |value| json!({"metadata": {"labels": {LABEL_EXCLUDE: value}}});
        let done = match what {
            NodeChange::Join => return self.register(node).await,
            NodeChange::Leave => self.delete(node).await,
            NodeChange::Replace => {
                self.delete(node).await.map_err(|error| error.to_string())?;
                return self.register(node).await;
            }
            NodeChange::Exclude => self.patch(node, exclude("true")).await,
            NodeChange::Include => self.patch(node, exclude("false")).await,
            NodeChange::Doom => {
                let taint = json!({"key": TAINT_AUTOSCALER, "effect": "NoSchedule"});
                self.add_taint(node, taint).await
            }
            NodeChange::Relabel => {
                let value = self.count.to_string();
                let labels = json!({"drill.example/count": value});
                self.patch(node, json!({"metadata": {"labels": labels}}))
                    .await
            }
            NodeChange::Cordon => {
                let cordoned = self.count.is_multiple_of(2);
                self.patch(node, json!({"spec": {"unschedulable": cordoned}}))
                    .await
            }
            NodeChange::Unready => {
                let now = jiff::Timestamp::now();
                let set = nodes::set_readiness(&self.client, node, Readiness::NotReady, now);
                return set.await.map_err(|error| error.to_string());
            }
            NodeChange::Odd => self.write_odd_times(node).await,
        };
        done.map_err(|error| error.to_string())
    }

    async fn register(&self, node: &str) -> Result<(), String> {
        let joined = nodes::register(&self.client, &Machine::new(node)).await;
        joined.map(drop).map_err(|error| error.to_string())
    }

    async fn delete(&self, node: &str) -> kube::Result<()> {
        let object = self.nodes.get_metadata(node).await?;
        self.ledger
            .delete_node(object.metadata.uid.as_deref().unwrap());
        let deleted = self.nodes.delete(node, &DeleteParams::default()).await;
        deleted.map(drop)
    }

    /// Writes a taint and a condition that every kubelet may write on its own Node.
    async fn write_odd_times(&self, node: &str) -> kube::Result<()> {
        let taint = json!({
            "key": "drill.example/odd",
            "effect": "PreferNoSchedule",
            "timeAdded": LAST_TIME,
        });
        self.add_taint(node, taint).await?;
        let condition = json!({
            "type": "drill.example/Odd",
            "status": "Perhaps",
            "lastHeartbeatTime": null,
            "lastTransitionTime": LAST_TIME,
        });
        let change = json!({"status": {"conditions": [condition]}});
        let (parameters, change) = (PatchParams::default(), Patch::Strategic(change));
        let patched = self.nodes.patch_status(node, &parameters, &change).await;
        patched.map(drop)
    }

    /// A patch replaces all taints, that of an uninitialized Node too.
    async fn add_taint(&self, node: &str, taint: serde_json::Value) -> kube::Result<()> {
        let object = self.nodes.get(node).await?;
        let version = object.metadata.resource_version;
        let taints = object.data["spec"]["taints"].as_array();
        let mut taints = taints.cloned().unwrap_or_default();
        taints.retain(|other| other["key"] != taint["key"]);
        taints.push(taint);
        let change = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        self.patch(node, change).await
    }

    async fn patch(&self, node: &str, change: serde_json::Value) -> kube::Result<()> {
        // Keeps the other taints.
        let (parameters, change) = (PatchParams::default(), Patch::Strategic(change));
        self.nodes.patch(node, &parameters, &change).await.map(drop)
    }
}

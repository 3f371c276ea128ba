//! Nodes that come and go.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use outrigger_core::targets::{LABEL_EXCLUDE, TAINT_AUTOSCALER};
use outrigger_testbed::nodes::{self, Machine};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    journal::Journal,
    plan::{Move, NodeChange},
};

/// Whoever adds nodes to the cluster and takes them away.
pub(super) struct Landlord {
    client: Client,
    nodes: Api<Node>,
    journal: Arc<Journal>,
}

impl Landlord {
    pub(super) fn new(client: &Client, journal: &Arc<Journal>) -> Self {
        Self {
            client: client.clone(),
            nodes: Api::all(client.clone()),
            journal: Arc::clone(journal),
        }
    }

    /// One change after the other until it is `over`. One that the API server does not take is
    /// left out.
    pub(super) async fn live(self, moves: impl Iterator<Item = Move>, over: CancellationToken) {
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

    async fn change(&self, Move { node, what, .. }: &Move) -> Result<(), String> {
        let exclude = |value| json!({"metadata": {"labels": {LABEL_EXCLUDE: value}}});
        let done = match what {
            NodeChange::Join => {
                let joined = nodes::register(&self.client, &Machine::new(node)).await;
                return joined.map(drop).map_err(|error| error.to_string());
            }
            NodeChange::Leave => {
                let deleted = self.nodes.delete(node, &DeleteParams::default()).await;
                deleted.map(drop)
            }
            NodeChange::Exclude => self.patch(node, exclude("true")).await,
            NodeChange::Include => self.patch(node, exclude("false")).await,
            NodeChange::Doom => {
                let taint = json!({"key": TAINT_AUTOSCALER, "effect": "NoSchedule"});
                self.patch(node, json!({"spec": {"taints": [taint]}})).await
            }
        };
        done.map_err(|error| error.to_string())
    }

    async fn patch(&self, node: &str, change: serde_json::Value) -> kube::Result<()> {
        // Keeps the other taints.
        let (parameters, change) = (PatchParams::default(), Patch::Strategic(change));
        self.nodes.patch(node, &parameters, &change).await.map(drop)
    }
}

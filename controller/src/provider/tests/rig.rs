//! The adapter at work, and the nodes it is asked about.

use std::{sync::Arc, time::Duration};

use outrigger_core::{instance::Lookup, node::NodeView};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::fake::{Fake, Pipe};
use crate::provider::{Cluster, Error, Options, Provider, ProviderMetrics, Purpose, State};

/// Of the paused clock: what does not come by then does not come.
const LONG: Duration = Duration::from_hours(1);

/// The adapter at work.
pub(in crate::provider) struct Rig {
    pub(in crate::provider) fake: Arc<Fake>,
    pub(in crate::provider) provider: Provider,
    pub(in crate::provider) cancel: CancellationToken,
    pub(in crate::provider) tasks: JoinSet<()>,
    registry: Registry,
}

impl Rig {
    pub(in crate::provider) fn start() -> Self {
        Self::with(|_, _| {})
    }

    pub(in crate::provider) fn with(change: impl FnOnce(&mut Options, &Fake)) -> Self {
        let fake = Fake::new();
        let mut options = Options {
            expected_name: None,
            allow_untagged: false,
            controller_name: "cloud-controller-manager".into(),
            controller_version: "v1".into(),
            kubernetes_version: "v1.36.3".into(),
            cluster: Cluster {
                name: "blue".into(),
                uid: "uid-1".into(),
                ..Cluster::default()
            },
            max_receive_bytes: 4 << 20,
            standby: false,
        };
        change(&mut options, &fake);
        let mut registry = Registry::default();
        let cancel = CancellationToken::new();
        let pipe = Pipe(Arc::clone(&fake));
        let metrics = ProviderMetrics::register(&mut registry);
        let (provider, run) = Provider::new(options, pipe, metrics, cancel.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(run);
        Self {
            fake,
            provider,
            cancel,
            tasks,
            registry,
        }
    }

    /// Waits for a state.
    pub(in crate::provider) async fn reaches(&self, wanted: impl FnMut(&State) -> bool) -> State {
        let mut state = self.provider.state();
        let reached = timeout(LONG, state.wait_for(wanted)).await;
        reached.expect("a state").unwrap().clone()
    }

    pub(in crate::provider) async fn serving(&self) {
        let serving = self.provider.serving();
        timeout(LONG, serving)
            .await
            .expect("a provider that serves");
    }

    pub(in crate::provider) async fn look_up(&self, name: &str) -> Result<Lookup, Error> {
        let lookup = self.provider.lookup(node(name), Purpose::Initialization);
        timeout(LONG, lookup).await.expect("an answer")
    }

    /// All at once, in order.
    pub(in crate::provider) async fn look_up_all(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> Vec<Result<Lookup, Error>> {
        futures::future::join_all(
            names
                .into_iter()
                .map(async |name| self.look_up(&name).await),
        )
        .await
    }

    pub(in crate::provider) fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

pub(in crate::provider) fn node(name: &str) -> Arc<NodeView> {
    node_with(name, "uid-1", "")
}

pub(in crate::provider) fn node_with(name: &str, uid: &str, provider_id: &str) -> Arc<NodeView> {
    let json = serde_json::json!({
        "metadata": {
            "name": name,
            "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"a": "b"},
            "annotations": {"read.example/a": "1", "other.example/b": "2"},
        },
        "spec": {"providerID": provider_id},
        "status": {"nodeInfo": {"systemUUID": "smbios"}},
    });
    Arc::new(serde_json::from_value(json).unwrap())
}

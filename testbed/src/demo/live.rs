//! Nodes register, and a watch sees them become usable: without the taint, and with routes where the provider serves them.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::time::{sleep, timeout};

use super::{
    LABEL,
    narrator::{self, Narrator},
};
use crate::{
    Error, Result,
    creation::{Created, Creation},
    nodes::{self, Load, Machine, is_tainted},
};

/// How long a node's addresses may follow its taint; they are a separate write.
const SETTLE: Duration = Duration::from_secs(2);

/// Pause before the nodes are listed again.
const PAUSE: Duration = Duration::from_millis(250);

/// The plan.
pub(super) struct Live {
    pub(super) client: Client,
    pub(super) machines: Vec<Machine>,
    /// True if the controller makes their routes too.
    pub(super) is_routed: bool,
    pub(super) timeout: Duration,
}

impl Live {
    /// Registers the nodes and returns when all are usable.
    pub(super) async fn watch(self, narrator: &Narrator) -> Result<Created<Node>> {
        let count = self.machines.len();
        narrator.begin(&format!(
            "registering {}",
            narrator::count_of(count, "node")
        ));
        let client = &self.client;
        let nodes: Api<Node> = Api::all(client.clone());
        let creation = Creation {
            api: nodes.clone(),
            selector: LABEL,
            kind: "the demo's nodes",
            is_ready: if self.is_routed {
                is_routed
            } else {
                is_initialised
            },
            load: Load::default(),
            timeout: self.timeout,
        };
        let machines = self.machines.into_iter();
        let machines = machines.map(|machine| (machine.name().to_owned(), machine));
        let register = async |machine: Machine| nodes::register(client, &machine).await.map(drop);
        let objects = narrator::count_of(count, "node");
        let progress = |ready| narrator.progress(ready, count, &objects, state(self.is_routed));
        let mut created = creation.run(machines.collect(), register, progress).await?;
        let selected = ListParams::default().labels(LABEL);
        let settled = async {
            loop {
                sleep(PAUSE).await;
                let list = nodes.list(&selected).await;
                let list = list.map_err(Error::kube("cannot list the demo's nodes"))?;
                let list = list.items.into_iter();
                let mut list: BTreeMap<_, _> = list.map(|node| (node.name_any(), node)).collect();
                for (node, _) in &mut created.objects {
                    if let Some(live) = list.remove(&node.name_any()) {
                        *node = live;
                    }
                }
                if created.objects.iter().all(|(node, _)| has_address(node)) {
                    return Ok(());
                }
            }
        };
        // A cloud without addresses is shown as such.
        timeout(SETTLE, settled).await.unwrap_or(Ok(()))?;
        Ok(created)
    }
}

/// The state that is waited for.
pub(super) const fn state(is_routed: bool) -> &'static str {
    if is_routed {
        "initialised and routed"
    } else {
        "initialised"
    }
}

fn is_initialised(node: &Node) -> bool {
    !is_tainted(node)
}

/// Returns whether each Pod CIDR of the node has a route too.
fn is_routed(node: &Node) -> bool {
    is_initialised(node) && network_unavailable(node) == Some("False")
}

/// The status of the condition.
pub(super) fn network_unavailable(node: &Node) -> Option<&str> {
    let mut conditions = node.status.as_ref()?.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == "NetworkUnavailable")?;
    Some(&condition.status)
}

/// Returns whether the node has an address by which it can be reached.
fn has_address(node: &Node) -> bool {
    let addresses = node
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_ref());
    addresses.is_some_and(|all| all.iter().any(|address| address.type_ != "Hostname"))
}

//! Nodes of the inputs, and the targets of load balancers.

use outrigger_api::v1::{
    CallContext, InlineNodes, Node, NodeAddress, NodeNames, NodeSetRef, NodeTargets,
    SyncNodeSetRequest, node_targets::Targets,
};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::Subject;
use crate::{inputs::Machine, verdict::Verdict};

impl Subject {
    /// The Node of a machine.
    pub fn node(&self, machine: &Machine) -> Node {
        Node {
            name: machine.node_name.clone(),
            uid: format!("uid-of-{}", machine.node_name),
            provider_id: machine.provider_id.clone(),
            system_uuid: machine.system_uuid.clone(),
            labels: machine.labels.clone().into_iter().collect(),
            annotations: machine.annotations.clone().into_iter().collect(),
            ready: "True".to_owned(),
            ..Node::default()
        }
    }

    /// A Node that no machine has.
    pub fn unknown_node(&self) -> Node {
        self.node(&Machine {
            node_name: self.name(),
            ..Machine::default()
        })
    }

    /// The Nodes of all machines that exist, with one address each: possible targets.
    pub fn target_nodes(&self) -> Vec<Node> {
        let machines = self.inputs().instances.existing.iter();
        let nodes = machines.enumerate().map(|(index, machine)| {
            let mut node = self.node(machine);
            node.addresses = vec![NodeAddress {
                r#type: "InternalIP".to_owned(),
                address: format!("10.0.{}.{}", index / 250, index % 250 + 1),
            }];
            node
        });
        nodes.collect()
    }

    /// These nodes as targets: a reference where the provider has node sets, else the nodes themselves.
    pub async fn targets(&self, nodes: &[Node]) -> Verdict<Option<NodeTargets>> {
        Ok(Some(if self.capabilities().node_sets.is_some() {
            let revision = revision(nodes);
            let upload = upload(&self.client.context(), &revision, &[nodes]);
            let sync = self.client.sync_node_set(futures::stream::iter(upload));
            sync.await?;
            named(&revision, None)
        } else {
            inline(nodes)
        }))
    }
}

/// A revision, or some nodes of it, as targets.
pub(crate) fn named(revision: &str, only: Option<Vec<String>>) -> NodeTargets {
    NodeTargets {
        targets: Some(Targets::Ref(NodeSetRef {
            revision: revision.to_owned(),
            only: only.map(|names| NodeNames { names }),
        })),
    }
}

/// Nodes that come with the call.
pub(crate) fn inline(nodes: &[Node]) -> NodeTargets {
    let nodes = nodes.to_vec();
    NodeTargets {
        targets: Some(Targets::Inline(InlineNodes { nodes })),
    }
}

/// An upload of the set, one message for each slice, one at least.
pub(crate) fn upload(
    context: &CallContext,
    revision: &str,
    messages: &[&[Node]],
) -> Vec<SyncNodeSetRequest> {
    let mut upload: Vec<_> = messages
        .iter()
        .map(|nodes| SyncNodeSetRequest {
            nodes: nodes.to_vec(),
            ..SyncNodeSetRequest::default()
        })
        .collect();
    if upload.is_empty() {
        upload.push(SyncNodeSetRequest::default());
    }
    if let Some(first) = upload.first_mut() {
        first.context = Some(context.clone());
    }
    if let Some(last) = upload.last_mut() {
        last.complete = true;
        revision.clone_into(&mut last.revision);
        last.node_count = messages.concat().len() as u32;
    }
    upload
}

/// Made from the content, as the controller's is.
fn revision(nodes: &[Node]) -> String {
    let mut digest = Sha256::new();
    for node in nodes {
        let content = Node {
            name: node.name.clone(),
            provider_id: node.provider_id.clone(),
            addresses: node.addresses.clone(),
            pod_cidrs: node.pod_cidrs.clone(),
            ..Node::default()
        }
        .encode_length_delimited_to_vec();
        digest.update(&content);
    }
    let digest = digest.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

//! Nodes of the inputs, and the targets of load balancers.

use outrigger_api::v1::{
    ErrorReason, InlineNodes, Node, NodeAddress, NodeSetBegin, NodeSetChunk, NodeSetCommit,
    NodeSetRef, NodeTargets, SyncNodeSetRequest, node_targets::Targets,
    sync_node_set_request::Part,
};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::Subject;
use crate::{inputs::Machine, verdict::Verdict};

/// The node set of the targets of load balancers.
const SET: &str = "conformance";

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
        let targets = if self.capabilities().node_sets.is_some() {
            let upload = self.snapshot(SET, nodes);
            let reference = NodeSetRef {
                set_id: SET.to_owned(),
                revision: revision(nodes),
            };
            self.client
                .sync_node_set(futures::stream::iter(upload))
                .await?;
            Targets::Ref(reference)
        } else {
            Targets::Inline(InlineNodes {
                nodes: nodes.to_vec(),
            })
        };
        Ok(Some(NodeTargets {
            targets: Some(targets),
        }))
    }

    /// The same by a sync that changes the set of before, or by a snapshot where that is not held.
    pub(crate) async fn targets_after(
        &self,
        before: &[Node],
        nodes: &[Node],
    ) -> Verdict<Option<NodeTargets>> {
        let offered = self.capabilities().node_sets;
        if !offered.is_some_and(|offered| offered.deltas) {
            return self.targets(nodes).await;
        }
        let new = nodes.iter().filter(|node| !before.contains(node));
        let upserts: Vec<_> = new.cloned().collect();
        let is_gone = |node: &&Node| !nodes.iter().any(|other| other.name == node.name);
        let removals = before.iter().filter(is_gone);
        let removals: Vec<_> = removals.map(|node| &*node.name).collect();
        let (base, revision) = (revision(before), revision(nodes));
        let upload = self.upload(SET, &base, &revision, nodes.len(), &[&upserts], &removals);
        let synced = self.client.sync_node_set(futures::stream::iter(upload));
        match synced.await {
            Ok(_) => Ok(Some(NodeTargets {
                targets: Some(Targets::Ref(NodeSetRef {
                    set_id: SET.to_owned(),
                    revision,
                })),
            })),
            Err(error) if error.is(ErrorReason::NodeSetBaseMismatch) => self.targets(nodes).await,
            Err(error) => Err(error.into()),
        }
    }

    /// All parts of a snapshot, in one chunk.
    pub fn snapshot(&self, set: &str, nodes: &[Node]) -> Vec<SyncNodeSetRequest> {
        self.upload(set, "", &revision(nodes), nodes.len(), &[nodes], &[])
    }

    /// The parts of an upload: `chunks` of upserts, then one of removals if there are any.
    pub fn upload(
        &self,
        set: &str,
        base: &str,
        revision: &str,
        node_count: usize,
        chunks: &[&[Node]],
        removals: &[&str],
    ) -> Vec<SyncNodeSetRequest> {
        let begin = Part::Begin(NodeSetBegin {
            context: Some(self.inputs().cluster.context()),
            set_id: set.to_owned(),
            base_revision: base.to_owned(),
            revision: revision.to_owned(),
            node_count: node_count as u32,
        });
        let upserts = chunks.iter().filter(|chunk| !chunk.is_empty());
        let upserts = upserts.map(|chunk| {
            Part::Chunk(NodeSetChunk {
                upserts: chunk.to_vec(),
                removals: Vec::new(),
            })
        });
        let removed = (!removals.is_empty()).then(|| {
            Part::Chunk(NodeSetChunk {
                upserts: Vec::new(),
                removals: removals.iter().map(|name| (*name).to_owned()).collect(),
            })
        });
        let changes = chunks.iter().map(|chunk| chunk.len()).sum::<usize>() + removals.len();
        let parts = std::iter::once(begin).chain(upserts).chain(removed);
        let parts = parts.map(|part| SyncNodeSetRequest { part: Some(part) });
        parts.chain([commit(changes)]).collect()
    }
}

/// The end of an upload with so many changes.
pub(crate) fn commit(changes: usize) -> SyncNodeSetRequest {
    let change_count = changes as u32;
    SyncNodeSetRequest {
        part: Some(Part::Commit(NodeSetCommit { change_count })),
    }
}

/// Made from the content, as the controller's is.
pub(crate) fn revision(nodes: &[Node]) -> String {
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

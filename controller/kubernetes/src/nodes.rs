//! Writes to nodes that settle: planned on what is there, refused by what changed meanwhile,
//! planned again.
//!
//! RBAC: `get`, `patch` on `nodes`, `patch` on `nodes/status`; `delete` on `nodes` for
//! [`NodeWriter::delete`].

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use outrigger_core::{
    effects::Effects,
    node::{
        NodeAddress, NodeView,
        change::{NodeChange, PodCidrsWrite, TaintAddition},
        effects::{self, EffectsWrite},
        lifecycle::Deletion,
    },
    route::NetworkConditionWrite,
};

use super::{
    api::{Api, DeletePreconditions},
    error::ApiError,
    events::{ObjectRef, Recorder},
    patch::{self, NodePatch},
    store::Store,
};

/// One write to a node.
#[derive(Clone, Debug)]
pub enum Write {
    /// Metadata and spec.
    Node(NodeChange),
    /// One more taint.
    Taint(TaintAddition),
    /// The whole list of addresses.
    Addresses(Box<[NodeAddress]>),
    /// Pod CIDRs, once.
    PodCidrs(PodCidrsWrite),
    /// One condition.
    NetworkCondition(NetworkConditionWrite),
    /// Annotations and conditions of the provider.
    Effects(EffectsWrite),
}

impl Write {
    fn path(&self, node: &NodeView) -> String {
        let path = path(&node.name);
        match self {
            Self::Node(_) | Self::Taint(_) | Self::PodCidrs(_) => path,
            Self::Addresses(_) | Self::NetworkCondition(_) | Self::Effects(_) => path + "/status",
        }
    }

    fn patch(&self, node: &NodeView) -> NodePatch {
        match self {
            Self::Node(change) => NodePatch::Json(patch::node(change)),
            Self::Taint(addition) => NodePatch::Json(patch::taint(addition)),
            Self::Addresses(new) => {
                NodePatch::Json(patch::addresses(&node.uid, node.status_addresses(), new))
            }
            Self::PodCidrs(write) => NodePatch::Json(patch::pod_cidrs(write)),
            Self::NetworkCondition(write) => NodePatch::Strategic(patch::network_condition(write)),
            Self::Effects(write) => NodePatch::Strategic(patch::effects(write)),
        }
    }

    fn applied_to(&self, node: &NodeView, version: &str) -> NodeView {
        match self {
            Self::Node(change) => change.applied_to(node, version),
            Self::Taint(addition) => addition.applied_to(node, version),
            Self::Addresses(new) => node.with_addresses(new, version),
            Self::PodCidrs(write) => write.applied_to(node, version),
            Self::NetworkCondition(write) => write.applied_to(node, version),
            Self::Effects(write) => write.applied_to(node, version),
        }
    }
}

/// Writes to nodes, and takes what it wrote into the store.
#[derive(Clone)]
pub struct NodeWriter {
    api: Api,
    nodes: Arc<Store<NodeView>>,
}

impl NodeWriter {
    /// Writes through `api`, which is fenced by the leader's lease term.
    pub fn new(api: Api, nodes: Arc<Store<NodeView>>) -> Self {
        Self { api, nodes }
    }

    /// Makes the write that `decide` wants, if it wants one: on what the store holds first, and once more on
    /// what the API server holds where that is another (N-20). Returns the node as it is then, or none if it
    /// is gone or has become another of the same name.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if validation or a policy does not take the write for the Node as it is.
    pub async fn settle<E: From<ApiError>>(
        &self,
        mut node: Arc<NodeView>,
        decide: impl Fn(&NodeView) -> Result<Option<Write>, E>,
    ) -> Result<Option<Arc<NodeView>>, E> {
        let mut is_live = false;
        while let Some(write) = decide(&node)? {
            let (path, patch) = (write.path(&node), write.patch(&node));
            match self.api.patch(&path, patch.kind(), &patch).await {
                Ok(written) => {
                    let version = &*written.metadata.resource_version;
                    let apply = |held: &NodeView| write.applied_to(held, version);
                    let view = self.nodes.written(&node.name, &node.uid, version, apply);
                    return Ok(Some(view.unwrap_or_else(|| Arc::new(apply(&node)))));
                }
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if error.may_be_outdated() && !is_live => {
                    let Some(live) = self.read(&node).await? else {
                        return Ok(None);
                    };
                    let is_same = live.resource_version == node.resource_version;
                    if is_same && matches!(error, ApiError::Refused(_)) {
                        return Err(error.into());
                    }
                    is_live = true;
                    node = live;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(node))
    }

    /// Writes the annotations and conditions of `effects` that `node` has not, then records their events. Those
    /// of a Node that is gone are dropped, and to one that is paused only the events are recorded.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if validation or a policy does not take them; else a later try may help.
    pub async fn write_effects(
        &self,
        node: Arc<NodeView>,
        effects: &Effects,
        events: &Recorder,
    ) -> Result<(), ApiError> {
        let object = ObjectRef::node(Arc::clone(&node.name), &*node.uid);
        let decide = |node: &NodeView| -> Result<_, ApiError> {
            Ok(effects::plan(Timestamp::now(), node, effects).map(Write::Effects))
        };
        if self.settle(node, decide).await?.is_some() {
            for event in &effects.events {
                let (reason, message) = (event.reason.clone(), event.message.clone());
                events.event(&object, event.kind, reason, message);
            }
        }
        Ok(())
    }

    /// Deletes the node `name` if it still is what `deletion` presumes (not Q-4). One that is gone
    /// already is no error. The store learns it by its watch.
    pub async fn delete(&self, name: &str, deletion: &Deletion) -> Result<(), ApiError> {
        let preconditions = DeletePreconditions {
            uid: &deletion.uid,
            resource_version: &deletion.resource_version,
        };
        match self.api.delete(&path(name), preconditions).await {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    async fn read(&self, node: &NodeView) -> Result<Option<Arc<NodeView>>, ApiError> {
        match self.api.get::<NodeView>(&path(&node.name)).await {
            Ok(live) if live.uid == node.uid => Ok(Some(Arc::new(live))),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for NodeWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeWriter")
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

/// Path of all Nodes.
pub const COLLECTION: &str = "/api/v1/nodes";

/// Path of the Node `name`.
pub fn path(name: &str) -> String {
    format!("{COLLECTION}/{name}")
}

//! Writes to Nodes.
//!
//! A loop hands [`Write`] to the [`NodeWriter`] of its store: a change that core has planned, which becomes one patch of
//! the Node or of its status. A deletion presumes the version of the Node that was judged.
//!
//! RBAC: `get`, `patch` on `nodes`, `patch` on `nodes/status`; `delete` on `nodes` for [`NodeWriter::delete`].

use std::sync::Arc;

use outrigger_core::{
    effects::Effects,
    node::{
        NodeAddress, NodeView,
        change::NodeChange,
        effects::{self, EffectsWrite},
        maintenance::MaintenanceWrite,
    },
};
use outrigger_runtime::clock::time_of_day;

use super::{
    error::ApiError,
    events::{ObjectRef, Recorder},
    patch::{self, Patch},
    writer::{ObjectWrite, ObjectWriter},
};

/// A write to a node.
#[derive(Clone, Debug)]
pub enum Write {
    /// Metadata and spec.
    Node(NodeChange),
    /// The whole list of addresses.
    Addresses(Box<[NodeAddress]>),
    /// Pod CIDRs, once.
    PodCidrs(Box<[Box<str>]>),
    /// Annotations and conditions.
    Effects(EffectsWrite),
}

impl From<MaintenanceWrite> for Write {
    fn from(write: MaintenanceWrite) -> Self {
        match write {
            MaintenanceWrite::Condition(write) => Self::Effects(write),
            MaintenanceWrite::Taint(change) => Self::Node(change),
        }
    }
}

impl ObjectWrite<NodeView> for Write {
    fn subresource(&self) -> &'static str {
        match self {
            Self::Node(_) | Self::PodCidrs(_) => "",
            Self::Addresses(_) | Self::Effects(_) => "/status",
        }
    }

    fn patch(&self, node: &NodeView, _: &NodeView) -> Patch {
        match self {
            Self::Node(change) => Patch::Json(patch::node(change, node)),
            Self::Addresses(new) => {
                Patch::Json(patch::addresses(&node.uid, node.status_addresses(), new))
            }
            Self::PodCidrs(cidrs) => Patch::Json(patch::pod_cidrs(cidrs, &node.uid)),
            Self::Effects(write) => Patch::Strategic(patch::effects(write, node)),
        }
    }

    fn exact_patch(&self, node: &NodeView) -> Option<Patch> {
        match self {
            Self::Node(change) => Some(Patch::Strategic(patch::exact_node(change, node))),
            Self::Addresses(new) => patch::exact_addresses(node, new).map(Patch::Strategic),
            // Their list is merged into one that is there.
            Self::PodCidrs(cidrs) if node.pod_cidrs.is_empty() => {
                Some(Patch::Strategic(patch::exact_pod_cidrs(cidrs, node)))
            }
            _ => None,
        }
    }

    fn applied_to(&self, node: &NodeView, version: &str) -> NodeView {
        match self {
            Self::Node(change) => change.applied_to(node, version),
            Self::Addresses(new) => node.with_addresses(new, version),
            Self::PodCidrs(cidrs) => node.with_pod_cidrs(cidrs, version),
            Self::Effects(write) => write.applied_to(node, version),
        }
    }
}

/// Writes to Nodes, and takes what it wrote into the store.
pub type NodeWriter = ObjectWriter<NodeView>;

impl ObjectWriter<NodeView> {
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
            Ok(effects::plan(time_of_day(), node, effects).map(Write::Effects))
        };
        if self.settle(node, decide).await?.is_some() {
            for event in &effects.events {
                events.event(object.clone(), event.clone());
            }
        }
        Ok(())
    }

    /// Deletes `node` in this version (not Q-4): whatever changed since has not been looked at. A node that is gone
    /// already is no error. The store learns of the deletion from its watch.
    pub async fn delete(&self, node: &NodeView) -> Result<(), ApiError> {
        let (uid, version) = (&node.uid, &node.resource_version);
        match self.api.delete(&path(&node.name), uid, version).await {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }
}

/// Path of all Nodes.
pub const COLLECTION: &str = "/api/v1/nodes";

/// Path of the Node `name`.
pub fn path(name: &str) -> String {
    format!("{COLLECTION}/{name}")
}

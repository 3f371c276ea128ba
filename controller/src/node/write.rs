//! Writes that settle: planned on what is there, refused by what changed meanwhile, planned again.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    change::NodeChange,
    class::ErrorClass,
    node::{NodeAddress, NodeView},
};

use super::{CloudNode, error::Error};
use crate::kube::{
    api::PatchKind,
    patch::{self, Operation},
};

/// Tries of one write that meet somebody else's before the queue's back-off takes over (N-20).
const ATTEMPTS: u32 = 20;

/// One write to a node.
pub(super) enum Write {
    /// Metadata and spec.
    Node(NodeChange),
    /// The whole list of addresses.
    Addresses(Box<[NodeAddress]>),
}

impl Write {
    fn path(&self, node: &NodeView) -> String {
        let subresource = match self {
            Self::Node(_) => "",
            Self::Addresses(_) => "/status",
        };
        format!("/api/v1/nodes/{}{subresource}", node.name)
    }

    fn patch(&self, node: &NodeView) -> Vec<Operation> {
        match self {
            Self::Node(change) => patch::node(change),
            Self::Addresses(new) => patch::addresses(&node.uid, &node.addresses, new),
        }
    }

    fn applied_to(&self, node: &NodeView, version: &str) -> NodeView {
        match self {
            Self::Node(change) => change.applied_to(node, version),
            Self::Addresses(new) => node.with_addresses(new, version),
        }
    }
}

impl CloudNode {
    /// Makes the write that `decide` wants, until it wants none: on what the store holds first, and
    /// on what the API server holds when that was too old. Returns the node as it is then, or none
    /// if it is gone or has become another of the same name.
    pub(super) async fn settle(
        &self,
        mut node: Arc<NodeView>,
        decide: impl Fn(&NodeView) -> Result<Option<Write>, Error>,
    ) -> Result<Option<Arc<NodeView>>, Error> {
        let mut attempt = 1;
        while let Some(write) = decide(&node)? {
            let (path, patch) = (write.path(&node), write.patch(&node));
            match self.parts.api.patch(&path, PatchKind::Json, &patch).await {
                Ok(written) => {
                    let view = write.applied_to(&node, &written.metadata.resource_version);
                    self.parts.nodes.written(view.clone());
                    return Ok(Some(Arc::new(view)));
                }
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if error.class() == ErrorClass::Conflict && attempt < ATTEMPTS => {
                    if attempt > 1 {
                        let pause = Duration::from_millis(50).mul_f64(1.0 + fastrand::f64());
                        tokio::time::sleep(pause).await;
                    }
                    attempt += 1;
                    match self.read(&node).await? {
                        Some(live) => node = live,
                        None => return Ok(None),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(node))
    }

    async fn read(&self, node: &NodeView) -> Result<Option<Arc<NodeView>>, Error> {
        match self
            .parts
            .api
            .get::<NodeView>(&format!("/api/v1/nodes/{}", node.name))
            .await
        {
            Ok(live) if live.uid == node.uid => Ok(Some(Arc::new(live))),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

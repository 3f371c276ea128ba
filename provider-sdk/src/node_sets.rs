//! Backend nodes: synced once, then named by every load balancer call that wants them.

mod store;
mod upload;

use std::sync::Arc;

use crate::Node;

pub(crate) use store::NodeSets;
pub(crate) use upload::Upload;

#[cfg(test)]
mod tests;

/// The backend nodes of a load balancer, ordered by name, each name once.
///
/// A view of the server's node sets: clones share the Nodes, and a view stays as it is while a newer
/// revision arrives. Labels, annotations, [`Node::ready`], [`Node::unschedulable`] and
/// [`Node::taints`] are as they were at the call; a change of one of them leads to no call, so that no
/// target is to be chosen by them.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    nodes: Arc<[Arc<Node>]>,
    revision: Option<Arc<str>>,
}

impl Targets {
    /// Targets outside of any server, for tests of a vendor's handlers. The first of
    /// two Nodes with one name counts.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        let mut nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes.dedup_by(|later, first| later.name == first.name);
        Self {
            nodes: nodes.into(),
            revision: None,
        }
    }

    fn of_revision(mut nodes: Vec<Arc<Node>>, revision: Arc<str>) -> Self {
        nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self {
            nodes: nodes.into(),
            revision: Some(revision),
        }
    }

    /// Names the content, for logs and as a key of a vendor's cache: the Nodes of equal revisions have
    /// equal names, provider ids, addresses and Pod CIDRs. `None` where the Nodes came with the call.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// The Nodes, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Node> + Clone {
        self.nodes.iter().map(AsRef::as_ref)
    }

    /// The Node of this name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let index = self
            .nodes
            .binary_search_by(|node| node.name.as_str().cmp(name));
        index.ok().map(|index| self.nodes[index].as_ref())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// An empty set of targets is legal.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

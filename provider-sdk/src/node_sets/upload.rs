use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use outrigger_api::v1;

use super::{NodeSets, Targets};
use crate::{Error, Node};

/// One upload of a node set. Nothing is applied before [`commit`](Self::commit).
#[derive(Debug)]
pub(crate) struct Upload {
    set_id: String,
    revision: Arc<str>,
    node_count: usize,
    /// Empty for a snapshot.
    base: Targets,
    /// By name; none: the Node left.
    changes: BTreeMap<String, Option<Arc<Node>>>,
}

impl Upload {
    pub(crate) fn begin(sets: &NodeSets, begin: v1::NodeSetBegin) -> Result<Self, Error> {
        let base = match begin.base_revision.as_str() {
            "" => Targets::default(),
            base => sets.held(&begin.set_id, base).ok_or_else(|| {
                Error::node_set_base_mismatch(format!(
                    "revision {base:?} of node set {:?}, which the upload changes, is not known \
                     here; sync a snapshot",
                    begin.set_id
                ))
            })?,
        };
        Ok(Self {
            set_id: begin.set_id,
            revision: begin.revision.into(),
            node_count: begin.node_count as usize,
            base,
            changes: BTreeMap::new(),
        })
    }

    pub(crate) fn chunk(&mut self, chunk: v1::NodeSetChunk) -> Result<(), Error> {
        for node in chunk.upserts {
            self.change(node.name.clone(), Some(Arc::new(Node::from_wire(node))))?;
        }
        for name in chunk.removals {
            if self.base.get(&name).is_none() {
                return Err(Error::invalid_request(format!(
                    "the upload removes node {name:?}, which its base does not have"
                )));
            }
            self.change(name, None)?;
        }
        Ok(())
    }

    fn change(&mut self, name: String, node: Option<Arc<Node>>) -> Result<(), Error> {
        match self.changes.entry(name) {
            Entry::Vacant(change) => {
                change.insert(node);
                Ok(())
            }
            Entry::Occupied(change) => Err(Error::invalid_request(format!(
                "a node of the upload is {:?}, which came before; send each name once",
                change.key()
            ))),
        }
    }

    /// Applies the whole upload, or nothing of it.
    pub(crate) fn commit(
        self,
        sets: &NodeSets,
        commit: v1::NodeSetCommit,
    ) -> Result<v1::SyncNodeSetResponse, Error> {
        let changed = self.changes.len();
        let is_kept = |node: &&Arc<Node>| !self.changes.contains_key(&node.name);
        let mut nodes: Vec<_> = self.base.nodes.iter().filter(is_kept).cloned().collect();
        nodes.extend(self.changes.into_values().flatten());
        for (count, named, actual) in [
            ("commit.change_count", commit.change_count as usize, changed),
            ("begin.node_count", self.node_count, nodes.len()),
        ] {
            if named != actual {
                return Err(Error::invalid_request(format!(
                    "{count} is {named}, but the upload makes it {actual}; nothing was applied"
                )));
            }
        }
        let targets = Targets::of_revision(nodes, Arc::clone(&self.revision));
        sets.commit(&self.set_id, targets);
        Ok(v1::SyncNodeSetResponse {
            revision: self.revision.as_ref().to_owned(),
        })
    }
}

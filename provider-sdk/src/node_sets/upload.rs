use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_api::v1;

use super::{NodeSets, Targets, check_name, twice};
use crate::{Error, Node};

/// One upload of a node set. Nothing is applied before [`commit`](Self::commit).
#[derive(Debug)]
pub(crate) struct Upload {
    set_id: String,
    revision: Arc<str>,
    node_count: usize,
    base: Base,
    /// By name; none: the Node left.
    changes: BTreeMap<String, Option<Arc<Node>>>,
}

#[derive(Debug)]
enum Base {
    Nothing,
    Revision(Targets),
    /// The base is gone, but what the upload would make of it is here.
    Result(Targets),
}

impl Upload {
    pub(crate) fn begin(sets: &NodeSets, begin: v1::NodeSetBegin) -> Result<Self, Error> {
        for (field, text, least) in [
            ("set_id", &begin.set_id, 1),
            ("revision", &begin.revision, 1),
            ("base_revision", &begin.base_revision, 0),
        ] {
            if !(least..=64).contains(&text.len()) {
                return Err(Error::invalid_request(format!(
                    "begin.{field} has {} bytes; send {least} to 64",
                    text.len()
                )));
            }
        }
        let base = if begin.base_revision.is_empty() {
            Base::Nothing
        } else if let Some(base) = sets.held(&begin.set_id, &begin.base_revision) {
            Base::Revision(base)
        } else if let Some(result) = sets.held(&begin.set_id, &begin.revision) {
            Base::Result(result)
        } else {
            return Err(Error::node_set_base_mismatch(format!(
                "revision {:?} of node set {:?}, which the upload changes, is not known here; sync \
                 a snapshot",
                begin.base_revision, begin.set_id
            )));
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
        let mut upserts = self.changes.values().flatten().count();
        for node in chunk.upserts {
            // A sender that never ends must not fill the memory.
            upserts += 1;
            if upserts > self.node_count {
                return Err(Error::invalid_request(format!(
                    "the chunks have more nodes than begin.node_count, {}",
                    self.node_count
                )));
            }
            self.change(node.name.clone(), Some(Arc::new(Node::from_wire(node))))?;
        }
        for name in chunk.removals {
            let known = match &self.base {
                Base::Nothing => false,
                Base::Revision(base) => base.get(&name).is_some(),
                Base::Result(_) => true,
            };
            if !known {
                return Err(Error::invalid_request(format!(
                    "the upload removes node {name:?}, which its base does not have"
                )));
            }
            self.change(name, None)?;
        }
        Ok(())
    }

    fn change(&mut self, name: String, node: Option<Arc<Node>>) -> Result<(), Error> {
        let wrong = |what| Error::invalid_request(format!("a node of the upload {what}"));
        check_name(&name).map_err(wrong)?;
        if self.changes.contains_key(&name) {
            return Err(wrong(twice(&name)));
        }
        self.changes.insert(name, node);
        Ok(())
    }

    /// Applies the whole upload, or nothing of it.
    pub(crate) fn commit(
        self,
        sets: &NodeSets,
        commit: v1::NodeSetCommit,
    ) -> Result<v1::SyncNodeSetResponse, Error> {
        let unequal = |what: &str, named: usize, found: usize| {
            Err(Error::invalid_request(format!(
                "{what} is {named}, but the upload makes it {found}; nothing was applied"
            )))
        };
        let change_count = commit.change_count as usize;
        if change_count != self.changes.len() {
            return unequal("commit.change_count", change_count, self.changes.len());
        }
        let targets = match self.base {
            Base::Result(result) => result,
            Base::Nothing => Self::changed(&Targets::default(), self.changes, &self.revision),
            Base::Revision(base) => Self::changed(&base, self.changes, &self.revision),
        };
        if self.node_count != targets.len() {
            return unequal("begin.node_count", self.node_count, targets.len());
        }
        sets.commit(&self.set_id, targets);
        Ok(v1::SyncNodeSetResponse {
            revision: self.revision.as_ref().to_owned(),
        })
    }

    fn changed(
        base: &Targets,
        changes: BTreeMap<String, Option<Arc<Node>>>,
        revision: &Arc<str>,
    ) -> Targets {
        let kept = base
            .nodes
            .iter()
            .filter(|node| !changes.contains_key(&node.name));
        let mut nodes: Vec<_> = kept.cloned().collect();
        nodes.extend(changes.into_values().flatten());
        Targets::of_revision(nodes, Arc::clone(revision))
    }
}

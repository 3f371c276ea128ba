use std::collections::VecDeque;

use outrigger_api::v1;
use parking_lot::Mutex;

use super::Targets;
use crate::{Error, Node};

/// Revisions that are kept of a set: calls under way still name the one before the latest.
const REVISIONS: usize = 2;

/// The node sets of one server.
#[derive(Debug)]
pub(crate) struct NodeSets {
    /// The one that was synced last comes last.
    sets: Mutex<VecDeque<NodeSet>>,
    max_sets: usize,
}

#[derive(Debug)]
struct NodeSet {
    id: String,
    /// The latest comes last.
    revisions: VecDeque<Targets>,
}

impl NodeSets {
    /// For so many sets, one at least.
    pub(crate) fn new(max_sets: u32) -> Self {
        Self {
            sets: Mutex::default(),
            max_sets: max_sets.max(1) as usize,
        }
    }

    /// The Nodes that a call names or brings along.
    pub(crate) fn resolve(&self, targets: Option<v1::NodeTargets>) -> Result<Targets, Error> {
        use v1::node_targets::Targets as Wire;
        match targets.and_then(|targets| targets.targets) {
            Some(Wire::Inline(inline)) => {
                let nodes = inline.nodes.into_iter();
                Ok(Targets::new(nodes.map(Node::from_wire)))
            }
            Some(Wire::Ref(v1::NodeSetRef { set_id, revision })) => {
                self.held(&set_id, &revision).ok_or_else(|| {
                    Error::node_set_unknown(format!(
                        "revision {revision:?} of node set {set_id:?} is not known here; sync a \
                         snapshot and call again"
                    ))
                })
            }
            None => Err(Error::invalid_request(
                "the request has no targets; name a node set or send nodes inline, empty ones for \
                 no targets",
            )),
        }
    }

    pub(super) fn held(&self, set_id: &str, revision: &str) -> Option<Targets> {
        let sets = self.sets.lock();
        let set = sets.iter().find(|set| set.id == set_id)?;
        let named = |held: &&Targets| held.revision() == Some(revision);
        set.revisions.iter().find(named).cloned()
    }

    /// Makes this the latest revision of a set, in the place of an equal one.
    pub(super) fn commit(&self, set_id: &str, targets: Targets) {
        let mut sets = self.sets.lock();
        let index = sets.iter().position(|set| set.id == set_id);
        let former = index.and_then(|index| sets.remove(index));
        let mut set = former.unwrap_or_else(|| NodeSet {
            id: set_id.to_owned(),
            revisions: VecDeque::new(),
        });
        set.revisions
            .retain(|held| held.revision() != targets.revision());
        let older = set.revisions.len().saturating_sub(REVISIONS - 1);
        set.revisions.drain(..older);
        set.revisions.push_back(targets);
        let older = sets.len().saturating_sub(self.max_sets - 1);
        sets.drain(..older);
        sets.push_back(set);
    }
}

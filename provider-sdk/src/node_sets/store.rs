use std::collections::VecDeque;

use outrigger_api::v1;
use parking_lot::Mutex;

use super::Targets;
use crate::Error;

/// Revisions that are kept of a set: calls under way still name the one before the latest.
const REVISIONS: usize = 2;

/// Sets that are kept. Controllers use one; a bound keeps one that counts them up from filling the
/// memory.
const SETS: usize = 16;

/// The node sets of one server.
#[derive(Debug, Default)]
pub(crate) struct NodeSets {
    /// The one that was synced last comes last.
    sets: Mutex<VecDeque<NodeSet>>,
}

#[derive(Debug)]
struct NodeSet {
    id: String,
    /// The latest comes last.
    revisions: VecDeque<Targets>,
}

impl NodeSets {
    /// The Nodes that a call names or brings along.
    pub(crate) fn resolve(&self, targets: Option<v1::NodeTargets>) -> Result<Targets, Error> {
        use v1::node_targets::Targets as Wire;
        match targets.and_then(|targets| targets.targets) {
            Some(Wire::Inline(inline)) => Targets::inline(inline.nodes),
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
        let found = set
            .revisions
            .iter()
            .find(|held| held.revision() == Some(revision));
        found.cloned()
    }

    /// Makes this the latest revision of a set, in the place of an equal one.
    pub(super) fn commit(&self, set_id: &str, targets: Targets) {
        let mut sets = self.sets.lock();
        let known = sets.iter().position(|set| set.id == set_id);
        let mut set = known
            .and_then(|index| sets.remove(index))
            .unwrap_or_else(|| NodeSet {
                id: set_id.to_owned(),
                revisions: VecDeque::new(),
            });
        set.revisions
            .retain(|held| held.revision() != targets.revision());
        set.revisions.push_back(targets);
        while set.revisions.len() > REVISIONS {
            set.revisions.pop_front();
        }
        sets.push_back(set);
        while sets.len() > SETS {
            sets.pop_front();
        }
    }
}

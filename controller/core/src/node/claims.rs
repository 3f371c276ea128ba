//! Which node has which provider id, so that no id ends up on two nodes.
//!
//! A provider ID can never be changed once it is set. A provider that returns one ID for two Nodes
//! (a lookup by a name that is not unique, a copied machine) would bind one of them to a machine
//! that is not its own, for good, and with it load balancers, volumes and the node's deletion.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use crate::error_class::ErrorClass;

/// Provider ids and the nodes that have them or are about to get them.
///
/// All nodes claim before any is checked: when two nodes of one batch get one ID, both are refused,
/// not only the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(HashMap<Box<str>, Vec<Arc<str>>>);

/// One provider id for two nodes. One of the two has to go before the other can be initialised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider ID {provider_id:?} of node {node:?} belongs to node {other:?} already")]
pub struct Duplicate {
    /// The id.
    pub provider_id: Box<str>,
    /// The node that is refused.
    pub node: Arc<str>,
    /// A node that claims the id besides.
    pub other: Arc<str>,
}

impl Duplicate {
    /// Decides the requeue of the node.
    pub const fn class(&self) -> ErrorClass {
        ErrorClass::NotReady
    }
}

impl Claims {
    /// Notes that `node` has, or is about to get, `provider_id`. An empty ID is no claim.
    pub fn claim(&mut self, provider_id: &str, node: &Arc<str>) {
        if provider_id.is_empty() {
            return;
        }
        match self.0.get_mut(provider_id) {
            Some(nodes) if nodes.contains(node) => {}
            Some(nodes) => nodes.push(Arc::clone(node)),
            None => {
                // One node an id is the rule: no spare room for more.
                self.0.insert(provider_id.into(), vec![Arc::clone(node)]);
            }
        }
    }

    /// Takes a claim back: the node is gone, or did not get the id after all.
    pub fn release(&mut self, provider_id: &str, node: &str) {
        if let Entry::Occupied(mut entry) = self.0.entry(provider_id.into()) {
            entry.get_mut().retain(|claimant| **claimant != *node);
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }

    /// Takes back whatever `node` claims: it is gone, perhaps before its id was seen on it. Looks at
    /// every id.
    pub fn forget(&mut self, node: &str) {
        self.0.retain(|_, nodes| {
            nodes.retain(|claimant| **claimant != *node);
            !nodes.is_empty()
        });
    }

    /// Refuses if a node other than `node` claims `provider_id`.
    pub fn check(&self, provider_id: &str, node: &Arc<str>) -> Result<(), Duplicate> {
        let claimants = self.0.get(provider_id).into_iter().flatten();
        match claimants.into_iter().find(|other| *other != node) {
            Some(other) => Err(Duplicate {
                provider_id: provider_id.into(),
                node: Arc::clone(node),
                other: Arc::clone(other),
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

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

/// Provider ids, the nodes that have them or are about to get them, and those that were refused for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    claimants: HashMap<Box<str>, Vec<Arc<str>>>,
    refused: HashMap<Box<str>, Vec<Arc<str>>>,
}

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
    /// Notes that `node` has `provider_id`, whether another claims it or not. An empty ID is no claim.
    pub fn claim(&mut self, provider_id: &str, node: &Arc<str>) {
        if !provider_id.is_empty() {
            note(&mut self.claimants, provider_id, node);
        }
    }

    /// Notes that `node` is about to get `provider_id`.
    ///
    /// # Errors
    /// A node other than `node` claims it. `node` is remembered, and returned when the ID is free.
    pub fn try_claim(&mut self, provider_id: &str, node: &Arc<str>) -> Result<(), Duplicate> {
        let claimants = self.claimants.get(provider_id).into_iter().flatten();
        if let Some(other) = claimants.into_iter().find(|other| *other != node) {
            let duplicate = Duplicate {
                provider_id: provider_id.into(),
                node: Arc::clone(node),
                other: Arc::clone(other),
            };
            note(&mut self.refused, provider_id, node);
            return Err(duplicate);
        }
        self.claim(provider_id, node);
        Ok(())
    }

    /// Takes a claim back: the node did not get the id after all. Returns the nodes that were refused for it.
    pub fn release(&mut self, provider_id: &str, node: &str) -> Vec<Arc<str>> {
        if strike(&mut self.claimants, provider_id, node) {
            return self.refused.remove(provider_id).unwrap_or_default();
        }
        Vec::new()
    }

    /// Takes back whatever `node` claims: it is gone, perhaps before its id was seen on it. Returns the nodes
    /// that were refused for that. Looks at every id.
    pub fn forget(&mut self, node: &str) -> Vec<Arc<str>> {
        let names = |ids: &HashMap<Box<str>, Vec<Arc<str>>>| -> Vec<Box<str>> {
            let of_node = ids
                .iter()
                .filter(|(_, nodes)| nodes.iter().any(|other| **other == *node));
            of_node.map(|(id, _)| id.clone()).collect()
        };
        for id in names(&self.refused) {
            strike(&mut self.refused, &id, node);
        }
        let freed = names(&self.claimants);
        freed.iter().flat_map(|id| self.release(id, node)).collect()
    }
}

fn note(ids: &mut HashMap<Box<str>, Vec<Arc<str>>>, id: &str, node: &Arc<str>) {
    match ids.get_mut(id) {
        Some(nodes) if nodes.contains(node) => {}
        Some(nodes) => nodes.push(Arc::clone(node)),
        None => {
            // One node an id is the rule: no spare room for more.
            ids.insert(id.into(), vec![Arc::clone(node)]);
        }
    }
}

/// Removes the node from the claimants of `id`. Returns true if it was among them.
fn strike(ids: &mut HashMap<Box<str>, Vec<Arc<str>>>, id: &str, node: &str) -> bool {
    let Entry::Occupied(mut entry) = ids.entry(id.into()) else {
        return false;
    };
    let before = entry.get().len();
    entry.get_mut().retain(|claimant| **claimant != *node);
    let is_struck = entry.get().len() < before;
    if entry.get().is_empty() {
        entry.remove();
    }
    is_struck
}

#[cfg(test)]
mod tests;

//! The Nodes of the store, by name and by Pod CIDR.
//!
//! The loop observes each Node of the store and forgets those that are gone; the answer to both is the destinations whose
//! routes have to be planned once more. Views are shared with the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{ObservedRoute, fit::Fit};
use crate::{
    cidr::{Cidr, CidrMap},
    node::NodeView,
};

/// All Nodes of the cluster, in the order of the store.
#[derive(Clone, Debug, Default)]
pub struct RouteNodes {
    nodes: BTreeMap<Arc<str>, Arc<NodeView>>,
    claims: CidrMap<Claim>,
}

/// A Node that has a Pod CIDR, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    created: Timestamp,
    node: Arc<str>,
}

impl RouteNodes {
    /// Notes the present state of `node`. The destinations are those to be reconciled, since
    /// something about the Node changed that a route rests on.
    pub fn observe(&mut self, node: &Arc<NodeView>) -> BTreeSet<Cidr> {
        // Shared with the store, so that no older view is kept.
        if let Some(stored) = self.nodes.get_mut(&node.name)
            && is_alike(stored, node)
        {
            *stored = Arc::clone(node);
            return BTreeSet::new();
        }
        let stored = self.nodes.get(&node.name);
        let concerns_others = stored.is_none_or(|stored| !is_alike_to_others(stored, node));
        let mut destinations = self.remove(&node.name);
        for cidr in pod_cidrs(node) {
            let claim = Claim {
                created: node.created,
                node: Arc::clone(&node.name),
            };
            self.claims.insert(cidr, claim);
            destinations.insert(cidr);
        }
        self.nodes.insert(Arc::clone(&node.name), Arc::clone(node));
        if concerns_others {
            self.add_overlapping(&mut destinations);
        }
        destinations
    }

    /// The Node of this UID is gone. The destinations are those to be reconciled.
    pub fn forget(&mut self, node: &str, uid: &str) -> BTreeSet<Cidr> {
        match self.nodes.get(node) {
            Some(stored) if *stored.uid == *uid => {
                let mut destinations = self.remove(node);
                self.add_overlapping(&mut destinations);
                destinations
            }
            _ => BTreeSet::new(),
        }
    }

    /// The Pod CIDRs of all Nodes.
    pub fn destinations(&self) -> impl Iterator<Item = Cidr> {
        self.claims.keys()
    }

    /// The Node of this name.
    pub fn get(&self, node: &str) -> Option<&Arc<NodeView>> {
        self.nodes.get(node)
    }

    /// The Nodes that have `destination` among their Pod CIDRs, the oldest first.
    pub fn with(&self, destination: Cidr) -> impl Iterator<Item = &Arc<NodeView>> {
        let claims = self.claims.at(destination);
        claims.filter_map(|claim| self.nodes.get(&claim.node))
    }

    /// The Pod CIDRs inside `cidr`, itself included, with their Nodes.
    pub(super) fn within(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &Arc<NodeView>)> {
        self.named(self.claims.within(cidr))
    }

    /// The Pod CIDRs around `cidr`, with their Nodes.
    pub(super) fn around(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &Arc<NodeView>)> {
        self.named(self.claims.around(cidr))
    }

    /// Returns true if there is a Node other than `node`.
    pub(super) fn has_other_than(&self, node: &str) -> bool {
        self.nodes.len() > usize::from(self.nodes.contains_key(node))
    }

    fn named<'a>(
        &'a self,
        claims: impl Iterator<Item = (Cidr, &'a Claim)>,
    ) -> impl Iterator<Item = (Cidr, &'a Arc<NodeView>)> {
        claims.filter_map(|(cidr, claim)| Some((cidr, self.nodes.get(&claim.node)?)))
    }

    /// Adds the Pod CIDRs that have an address in common with one of them: whose route that is depends on both.
    pub fn add_overlapping(&self, destinations: &mut BTreeSet<Cidr>) {
        let own: Vec<_> = destinations.iter().copied().collect();
        for cidr in own {
            let overlapping = self.claims.overlapping(cidr);
            destinations.extend(overlapping.map(|(other, _)| other));
        }
    }

    /// The name of the Node that `route` leads to or led to: the one that it names, one of those known, or the one
    /// that it was made for.
    pub(super) fn target_of(&self, route: &ObservedRoute) -> Option<Arc<str>> {
        let named = route.node_name().map(Arc::from);
        let made_for = || Some(Arc::from(&*route.made_for.as_ref()?.node_name));
        named.or_else(|| self.found(route)).or_else(made_for)
    }

    /// The name of the known Node that `route` leads to or led to.
    pub(super) fn found(&self, route: &ObservedRoute) -> Option<Arc<str>> {
        let is_target =
            |node: &&Arc<NodeView>| !matches!(route.fit(node), Fit::Other | Fit::Undecided);
        let target = self.nodes.values().find(is_target);
        target.map(|node| Arc::clone(&node.name))
    }

    fn remove(&mut self, node: &str) -> BTreeSet<Cidr> {
        let Some(removed) = self.nodes.remove(node) else {
            return BTreeSet::new();
        };
        let destinations: BTreeSet<_> = pod_cidrs(&removed).collect();
        for cidr in &destinations {
            self.claims.remove(*cidr, |claim| *claim.node == *node);
        }
        destinations
    }
}

/// The destinations of its routes; a text that is no CIDR is none.
pub(super) fn pod_cidrs(node: &NodeView) -> impl Iterator<Item = Cidr> {
    node.pod_cidrs.iter().filter_map(|cidr| Cidr::parse(cidr))
}

/// Returns true if every plan is the same for both.
fn is_alike(one: &NodeView, other: &NodeView) -> bool {
    is_alike_to_others(one, other)
        && one.addresses == other.addresses
        && one.labels == other.labels
        && one.is_paused() == other.is_paused()
}

/// Returns true if every plan for another Node is the same. A kubelet cannot change these fields at will: without a
/// provider ID, which it can set once, its labels decide whose Node it is.
fn is_alike_to_others(one: &NodeView, other: &NodeView) -> bool {
    one.uid == other.uid
        && one.pod_cidrs == other.pod_cidrs
        && one.provider_id == other.provider_id
        && one.is_uninitialized() == other.is_uninitialized()
        && (!one.provider_id.is_empty() || one.labels == other.labels)
}

#[cfg(test)]
mod tests;
